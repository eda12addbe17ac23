"""Run a run folder again and say whether it gives the same posterior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pyflowers.changes import data_changes, program_changes
from pyflowers.cmdstan import compile_program, find_cmdstan
from pyflowers.cmdstan.cache import sha256_file
from pyflowers.data import FlowerData, read_data
from pyflowers.errors import ConfigError, DataError
from pyflowers.fitting import Fit, fit
from pyflowers.inference_data import arviz
from pyflowers.summary import QUANTILES, elements, flatten, format_number

ALLOWED_ERRORS = 4.0
"""Monte Carlo standard errors by which two runs of one posterior may differ, see :func:`_limit`."""

FALSE_ALARMS = 0.001
"""Chance that two runs of one posterior are called different."""


@dataclass(frozen=True)
class Replay:
    """How a second run compares with the first.

    Attributes
    ----------
    verdict : str
        ``bitwise equal``, ``statistically equal`` or ``different``.
    largest : float
        Largest difference of a 5%, 50% or 95% quantile, in Monte Carlo standard errors of the
        difference; NaN if there was no second run to compare.
    where : str
        The quantity with that difference.
    notes : tuple of str
        What changed since the first run.
    """

    verdict: Literal["bitwise equal", "statistically equal", "different"]
    largest: float = float("nan")
    where: str = ""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.verdict == "bitwise equal":
            first = "bitwise equal: every draw is the same to the last bit"
        elif np.isnan(self.largest):
            first = self.verdict
        else:
            first = (
                f"{self.verdict}: the largest difference is {format_number(self.largest)} Monte "
                f"Carlo standard errors ({self.where})"
            )
        return "\n".join([first, *(f"  {note}" for note in self.notes)])


def replay(
    folder: str | Path, *, cmdstan: str | Path | None = None, show_progress: bool = False
) -> Replay:
    """Run a run folder again from its ``run.json`` and compare.

    Parameters
    ----------
    folder : str or Path
        The run folder; it is only read.
    cmdstan : str or Path, optional
        See :func:`~pyflowers.cmdstan.find_cmdstan`; by default the embedded one if the run used it.
    show_progress : bool
        Whether to draw a bar for each chain.

    Returns
    -------
    Replay
        ``different`` without a second run if the data file is not what it was.

    Raises
    ------
    PyflowersError
        If the folder is no run, or the second run does not finish.
    """
    first = Fit.load(folder)
    record = first.record
    if cmdstan is None and record["versions"]["cmdstan"].startswith("embedded"):
        cmdstan = "embedded"
    data, changed, notes = _data_now(first)
    if changed:
        return Replay("different", notes=tuple(f"the data changed: {line}" for line in changed))
    program = first.model.program if first.model else Path(record["program"])
    includes = record.get("include_paths", [])
    executable = compile_program(program, cmdstan=find_cmdstan(cmdstan), include_paths=includes)
    notes += program_changes(record, executable)
    second = fit(
        first.model or program,
        data,
        **record["options"],
        priors=record["priors"] or None,
        centered=record.get("centered"),
        inits=record.get("inits"),
        cmdstan=cmdstan,
        include_paths=includes,
        show_progress=show_progress,
    )
    notes += _package_changes(record["versions"], second.record["versions"])
    return compare_runs(first, second, notes)


def compare_runs(first: Fit, second: Fit, notes: list[str] | None = None) -> Replay:
    """Compare the draws of two fits that should have one posterior.

    Parameters
    ----------
    first, second : Fit
        The fits.
    notes : list of str, optional
        What is known to have changed between them.
    """
    notes = notes or []
    if _same_draws(first.base, second.base):
        return Replay("bitwise equal", 0.0, "", tuple(notes))
    if _names(first) != _names(second):
        reason = "the posteriors have different quantities"
        return Replay("different", notes=(reason, *notes))
    errors = _differences(first.posterior, second.posterior)
    worst = int(np.argmax(errors))
    name = _names(first)[worst % len(_names(first))]
    if errors[worst] <= _limit(errors.size):
        return Replay("statistically equal", float(errors[worst]), name, tuple(notes))
    unexplained = "nothing that is recorded changed: run pyflowers doctor and report this"
    return Replay("different", float(errors[worst]), name, tuple(notes) or (unexplained,))


def _data_now(first: Fit) -> tuple[Any, list[str], list[str]]:
    """Return the data to run on, what changed in their file, and what else is worth saying."""
    about = first.record["data"]
    if first.data is None:
        return _program_data_now(about)
    path = Path(str(about["source"]))
    if not path.is_file():
        note = f"{path} is not there: the data kept in the run folder were used"
        return first.data, [], [note]
    now: FlowerData | None = None
    try:
        now = read_data(path, **first.record["columns"])
    except DataError as error:
        return None, [str(error)], []
    return first.data, data_changes(first.data, now), []


def _program_data_now(about: Mapping[str, Any]) -> tuple[Any, list[str], list[str]]:
    """Return the JSON file of a user's own program, as far as it is what it was."""
    source = about["source"]
    if source is None:
        return None, [], []
    path = Path(source)
    if not path.is_file():
        raise ConfigError(
            f"{source}: the run's data are no file that can be read again; put them back, or "
            "write a mapping into a JSON file and fit from that"
        )
    if sha256_file(path) != about["sha256"]:
        return None, [f"{path} is not the file that it was"], []
    return path, [], []


def _package_changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return [
        f"version of {name} was {before.get(name)} and is {version}"
        for name, version in now.items()
        if before.get(name) != version and name not in ("stan", "cmdstan", "compiler")
    ]


def _names(fitted: Fit) -> list[str]:
    posterior = fitted.posterior
    return [name for v in posterior.data_vars for name, _ in elements(posterior[v])]


def _same_draws(first: Any, second: Any) -> bool:
    for group in ("posterior", "sample_stats"):
        old, new = getattr(first, group), getattr(second, group)
        if set(old.data_vars) != set(new.data_vars):
            return False
        for name in old.data_vars:
            if not np.array_equal(old[name].values, new[name].values, equal_nan=True):
                return False
    return True


def _differences(first: Any, second: Any) -> NDArray[np.float64]:
    """Return each quantile's difference in standard errors, shape (quantile × element,)."""
    az = arviz()
    found = []
    for quantile in QUANTILES:
        values, errors = [], []
        for posterior in (first, second):
            values.append(flatten(posterior.quantile(quantile, ("chain", "draw"))))
            with np.errstate(divide="ignore", invalid="ignore"):
                errors.append(flatten(az.mcse(posterior, method="quantile", prob=quantile)))
        apart = np.abs(values[0] - values[1])
        error = np.sqrt(np.nan_to_num(errors[0]) ** 2 + np.nan_to_num(errors[1]) ** 2)
        # What never varies has no error: it is the same or it is not.
        still = np.where(apart > 0, np.inf, 0.0)
        found.append(np.divide(apart, error, out=still, where=error > 0))
    return np.concatenate(found)


def _limit(num: int) -> float:
    """Return the standard errors that the largest of `num` differences may have by chance."""
    from scipy.stats import norm

    return max(ALLOWED_ERRORS, float(norm.isf(FALSE_ALARMS / (2 * max(num, 1)))))
