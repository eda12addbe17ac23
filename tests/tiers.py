"""Which tests are units, and which cases of a long test are left to scripts/campaigns.

Units are the tests whose code, helpers and fixtures name nothing that samples. The names are read
from the compiled code. A test that samples through a function that is not named here fails, because
:func:`start_no_process` lets units start no process. Tests that call `fit` only to be refused count
as quick, not as units. A test that computes for half a second is marked `quick` by hand.
"""

import functools
import platform
import sys
import types
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

TESTS = str(Path(__file__).resolve().parent)

SAMPLES = {
    # What samples, in the package and on the command line.
    *("fit", "fit_data", "sample", "prior", "sbc", "simulate_from_posterior", "batch", "compare"),
    *("design", "improve", "follow_advice", "update"),
    *("run_example", "main", "invoke", "run", "run_page"),
    # What compiles or interprets a program.
    *("find_cmdstan", "find_engine", "compile_library", "compile_program", "compile_sources"),
    *("StanDensity", "flower_density", "open_density"),
    # What starts a process.
    *("Pool", "Popen", "Process", "Worker", "check_output", "download", "fork"),
    # What takes seconds for each test: quadrature, simulation, reports, the search for overlaps.
    *("_p_values", "brute_force", "collisions", "render_report", "simulate"),
}
"""Names that a unit test may not use."""

MARKS = {"browser", "campaign", "density", "quick", "slow"}

_running_unit = False


def mostly_campaign(cases: Iterable[Any], kept: Container[Any]) -> list[Any]:
    """Return the cases of a test, of which those kept are slow, and the others campaigns."""
    marks = {True: pytest.mark.slow, False: pytest.mark.campaign}
    found = []
    for case in cases:
        values = case if isinstance(case, tuple) else (case,)
        found.append(pytest.param(*values, marks=marks[case in kept]))
    return found


def is_unit(item: Any) -> bool:
    """Whether a test uses nothing that samples, compiles or starts a process."""
    if any(item.get_closest_marker(mark) for mark in MARKS):
        return False
    fixtures = [found[-1].func for found in item._fixtureinfo.name2fixturedefs.values()]
    params = getattr(item, "callspec", None)
    functions = [value for value in params.params.values() if callable(value)] if params else []
    return all(SAMPLES.isdisjoint(names_of(each)) for each in (item.obj, *fixtures, *functions))


def names_of(function: Any) -> frozenset[str]:
    """Return the names that a function of the tests and the functions that it calls use."""
    return _names_of(_unwrapped(function))


@functools.cache
def _names_of(function: Any) -> frozenset[str]:
    names: set[str] = set()
    seen: set[Any] = set()
    waiting = [function]
    while waiting:
        found = _unwrapped(waiting.pop())
        if isinstance(found, type):
            waiting += [member for member in vars(found).values() if callable(member)]
            continue
        code = getattr(found, "__code__", None)
        if code is None or code in seen or not code.co_filename.startswith(TESTS):
            continue
        seen.add(code)
        used = set(_names_of_code(code))
        names |= used
        waiting += [found.__globals__[name] for name in used if name in found.__globals__]
    return frozenset(names)


def _names_of_code(code: types.CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes in a function and the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_of_code(constant)


def _unwrapped(given: Any) -> Any:
    """Return the function behind decorators, partial calls, methods and fixtures."""
    while True:
        if isinstance(given, functools.partial):
            given = given.func
        elif hasattr(given, "__wrapped__"):
            given = given.__wrapped__
        elif hasattr(given, "_get_wrapped_function"):
            given = given._get_wrapped_function()
        else:
            return getattr(given, "__func__", given)


def start_no_process(event: str, _: Any) -> None:
    """Refuse a process that a unit test starts; an audit hook."""
    if _running_unit and event in ("subprocess.Popen", "os.posix_spawn", "os.system"):
        raise AssertionError(
            "a unit test started a process; add the name of the function that does to SAMPLES in "
            "tests/tiers.py"
        )


def guard() -> None:
    """Let no unit test start a process from now on."""
    platform.processor()  # its first call starts uname; an import, such as of h5py, may ask for it
    sys.addaudithook(start_no_process)


def running(item: Any | None) -> None:
    """Note the test that runs now."""
    global _running_unit
    _running_unit = item is not None and item.get_closest_marker("unit") is not None
