"""Each example is run once, with small sizes, for all tests."""

import functools

import pytest

from pyflowers.lectures import Settings, run_example


@pytest.fixture(scope="session")
def example(cmdstan):
    """Return the quick run of an example by name."""

    @functools.cache
    def run(name):
        return run_example(name, Settings(seed=1, quick=True, cmdstan="embedded"))

    return run
