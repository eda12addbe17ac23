"""Short fits of the programs under ``examples/``, as user programs; each is run once."""

import functools
from pathlib import Path

import pyflowers

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
QUICK = ("pumps", "seeds")
SLOW = ("rats", "epil")


def program_of(name):
    """Return the path of an example's program."""
    return EXAMPLES / name / f"{name}.stan"


def table_of(name):
    """Return the path of an example's table."""
    return EXAMPLES / name / f"{name}.csv"


@functools.cache
def example_fit(name):
    """Fit an example to its table with CmdStan, with enough draws for its slowest quantity."""
    num = 500 if name in QUICK else 1000
    how = {"engine": "cmdstan", "cmdstan": "embedded", "warmup": num, "draws": num}
    return pyflowers.fit(program_of(name), table_of(name), seed=1, **how)
