"""Which tests are units."""

import functools
import subprocess
import sys
from typing import Any

import pytest
import tiers

MODEL: Any = None


def helper():
    return MODEL.fit("y ~ x")


class Helper:
    """A class of the tests."""

    def work(self):
        return helper()


def calls(given):
    return given


def uses_a_helper():
    return calls(1) and helper()


def uses_a_class():
    return Helper()


def has_a_function_inside():
    return [lambda each: MODEL.fit(each)]


def harmless():
    return calls(str(1))


@pytest.mark.parametrize(
    "function",
    [
        helper,
        uses_a_helper,
        uses_a_class,
        has_a_function_inside,
        functools.partial(helper),
        functools.cache(helper),
    ],
)
def test_what_samples_is_found_through_helpers(function):
    assert "fit" in tiers.names_of(function)


def test_what_does_not_sample_is_a_unit():
    assert tiers.SAMPLES.isdisjoint(tiers.names_of(harmless))


def test_this_test_is_a_unit_and_may_start_no_process(request):
    assert request.node.get_closest_marker("unit") is not None
    with pytest.raises(AssertionError, match="add the name"):
        tiers.start_no_process("subprocess.Popen", ())


def test_an_import_that_asks_for_the_processor_starts_no_process():
    """As that of h5py does, which a unit test may be the first to import."""
    code = (
        "import tiers, platform, sys\n"
        "tiers.guard()\n"
        "sys.addaudithook(lambda event, _: event != 'subprocess.Popen' or sys.exit(event))\n"
        "import h5py\n"
        "tuple(platform.uname())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tiers.TESTS, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_test_that_compiles_is_no_unit(request, cmdstan):
    assert request.node.get_closest_marker("unit") is None
