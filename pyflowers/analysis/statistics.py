"""What a check computes of a data set: a number that a model may fail to reproduce."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pyflowers.errors import ConfigError

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Statistic:
    """A function of a data set.

    Attributes
    ----------
    name : str
        Its name in tables.
    function : callable
        Data sets, shape (R, N), to one number each, shape (R,).
    meaning : str
        What it is, in words.
    """

    name: str
    function: Callable[[FloatArray], FloatArray]
    meaning: str


def variance_to_mean(y: FloatArray) -> FloatArray:
    """Return the variance over the mean, 1 in expectation for counts of one Poisson distribution.

    It is 0 where all values are 0. Sums of squares about the mean, in two passes.

    Parameters
    ----------
    y : array, shape (R, N)
    """
    mean = y.mean(axis=-1)
    if y.shape[-1] < 2:
        return np.zeros_like(mean)
    var = y.var(axis=-1, ddof=1)
    return np.asarray(np.divide(var, mean, out=np.zeros_like(mean), where=mean != 0))


def _sd(y: FloatArray) -> FloatArray:
    return np.asarray(y.std(axis=-1, ddof=1) if y.shape[-1] > 1 else np.zeros(y.shape[0]))


STATISTICS: Mapping[str, Statistic] = {
    statistic.name: statistic
    for statistic in (
        Statistic("mean", lambda y: np.asarray(y.mean(axis=-1)), "mean"),
        Statistic("sd", _sd, "standard deviation"),
        Statistic("variance_to_mean", variance_to_mean, "variance over mean"),
        Statistic("zeros", lambda y: np.asarray((y == 0).mean(axis=-1)), "share of zeros"),
        Statistic("minimum", lambda y: np.asarray(y.min(axis=-1)), "minimum"),
        Statistic("median", lambda y: np.asarray(np.median(y, axis=-1)), "median"),
        Statistic("maximum", lambda y: np.asarray(y.max(axis=-1)), "maximum"),
    )
}
"""The statistics that have a name."""

OF_COUNTS = ("mean", "variance_to_mean", "zeros", "maximum")
"""The usual checks of counts."""

OF_MEASUREMENTS = ("mean", "sd", "minimum", "maximum")
"""The usual checks of measurements: a continuous model never gives a zero, and a ratio to the mean
says nothing where values may be negative."""


def find_statistics(
    wanted: Sequence[str | Callable[[FloatArray], float]], counts: bool
) -> list[Statistic]:
    """Return the usual and the requested statistics, each once.

    Parameters
    ----------
    wanted : sequence of str or callable
        Names of :data:`STATISTICS`, ``module:function`` (or ``file.py:function``), or functions of
        one data set, shape (N,), that return a number.
    counts : bool
        Whether the data are counts.

    Raises
    ------
    ConfigError
        If there is no such statistic, or two have one name.
    """
    found = {name: STATISTICS[name] for name in (OF_COUNTS if counts else OF_MEASUREMENTS)}
    for each in wanted:
        statistic = _find(each)
        known = found.get(statistic.name)
        if known is not None and known is not STATISTICS.get(statistic.name):
            raise ConfigError(
                f"statistic {statistic.name}: two statistics have this name; rename one"
            )
        found[statistic.name] = statistic
    return list(found.values())


def _find(wanted: str | Callable[[FloatArray], float]) -> Statistic:
    if callable(wanted):
        name = getattr(wanted, "__name__", type(wanted).__name__)
        return Statistic(name, _of_each(name, wanted), name)
    if not isinstance(wanted, str):
        raise ConfigError(
            f"statistic {wanted!r}: it is neither a name nor a function of y; choose one of "
            f"{', '.join(STATISTICS)}, or give a function"
        )
    if wanted in STATISTICS:
        return STATISTICS[wanted]
    module, colon, function = wanted.rpartition(":")
    if not (colon and module and function):
        raise ConfigError(
            f"statistic {wanted!r}: there is no statistic of that name; choose one of "
            f"{', '.join(STATISTICS)}, or give MODULE:FUNCTION"
        )
    called = getattr(_module(module, wanted), function, None)
    if not callable(called):
        raise ConfigError(f"statistic {wanted!r}: {module} has no function {function}; correct it")
    return Statistic(function, _of_each(function, called), function)


def _module(name: str, wanted: str) -> object:
    """Import a module by its name, or a file of Python by its path."""
    try:
        if not name.endswith(".py"):
            return import_module(name)
        from importlib.util import module_from_spec, spec_from_file_location

        path = Path(name).resolve()
        spec = spec_from_file_location(f"_pyflowers_statistics_{path.stem}", path)
        if spec is None or spec.loader is None or not path.is_file():
            raise ConfigError(f"statistic {wanted!r}: there is no file {name}; correct the path")
        module = module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module
    except ConfigError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(f"statistic {wanted!r}: {name} cannot be imported ({reason})") from error


def _of_each(name: str, function: Callable[[FloatArray], float]) -> Callable[..., FloatArray]:
    """Apply a user's function to one data set at a time, and say what is wrong with its answer."""

    def apply(y: FloatArray) -> FloatArray:
        try:
            values = np.array([function(row) for row in y], dtype=np.float64)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise ConfigError(
                f"statistic {name}: it failed on a data set of {y.shape[-1]} values ({reason}); "
                "correct the function"
            ) from error
        if values.shape != y.shape[:1] or not np.isfinite(values).all():
            raise ConfigError(
                f"statistic {name}: it must return one finite number for a data set, and returned "
                f"{'something else' if values.shape != y.shape[:1] else 'NaN or infinity'}"
            )
        return values

    return apply
