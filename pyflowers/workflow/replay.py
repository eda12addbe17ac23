"""Repeat the fit of a run folder and test whether it gives the same posterior."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pyflowers.convergence import mcse_mean, mcse_quantile
from pyflowers.data.columns import label_text
from pyflowers.data.examples import table_path
from pyflowers.display import format_number
from pyflowers.engines import Engine, find_engine
from pyflowers.errors import CompileError, ConfigError, DataError
from pyflowers.fits.fit import Fit
from pyflowers.fits.key import EngineRecord, value_changes
from pyflowers.fits.posterior import element_names, stacked
from pyflowers.fits.sampling import fit_data
from pyflowers.fits.states import START
from pyflowers.programs import Data, Program, find_program
from pyflowers.programs.data import to_frame
from pyflowers.programs.program import is_formula
from pyflowers.text import counted

MOST_ROWS_NAMED = 5
"""The largest number of changes in the data that are described."""

QUANTILES = (0.05, 0.5, 0.95)
"""Quantiles by which two runs are compared, regardless of the interval in their tables."""

ALLOWED_ERRORS = 4.0
"""Monte Carlo standard errors by which two runs of the same posterior may differ; see `_limit`."""

FALSE_ALARMS = 0.001
"""Largest probability that two runs of the same posterior are called different.

This holds for 4 × 1,000 or more draws. With fewer draws, the standard errors are less certain: with
4 × 250 draws, the probability is about 0.005.
"""


@dataclass(frozen=True)
class Replay:
    """The comparison of a second run with the first.

    Attributes
    ----------
    verdict : str
        ``bitwise equal``, ``statistically equal`` or ``different``.
    largest : float
        Largest difference in a 5%, 50% or 95% quantile, in Monte Carlo standard errors of the
        difference; NaN if there was nothing to compare.
    where : str
        The quantity with the largest difference; empty if there is none.
    notes : tuple of str
        The changes since the first run.
    engine : str
        The engine of the second run; empty if there was none.
    """

    verdict: Literal["bitwise equal", "statistically equal", "different"]
    largest: float = float("nan")
    where: str = ""
    notes: tuple[str, ...] = ()
    engine: str = ""

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
        lines = list(self.notes)
        if self.engine:
            lines.insert(0, f"run with {self.engine}")
        return "\n".join([first, *(f"  {line}" for line in lines)])


def replay(
    folder: str | Path,
    *,
    engine: str | None = None,
    cmdstan: str | Path | None = None,
    show_progress: bool = False,
) -> Replay:
    """Repeat the fit of a run folder from its ``run.json`` and compare the draws.

    Parameters
    ----------
    folder : str or Path
        The run folder, which is only read.
    engine : str, optional
        An engine to use instead of the recorded one.
    cmdstan : str or Path, optional
        See :func:`~pyflowers.toolchain.find_cmdstan`. Default: the embedded CmdStan if the run used
        it.
    show_progress : bool
        Whether to draw a progress bar for each chain.

    Returns
    -------
    Replay
        The comparison. If the data file has changed, the verdict is ``different`` without a second
        run.

    Raises
    ------
    PyflowersError
        If the folder is not a run folder, or the second run does not finish.
    """
    first = Fit.load(folder)
    record = first.record
    program, notes = _program_now(first)
    data, changed, more = _data_now(first, program)
    if changed:
        return Replay("different", notes=tuple(f"the data changed: {line}" for line in changed))
    taken = _engine_again(record.engine, engine, cmdstan)
    inputs: dict[str, Any] = {}
    if data.has_table:  # otherwise, the data block contains them
        inputs = {"priors": record.priors, "centered": record.centered}
    inputs["inits"] = first.states.get(START, record.inits)
    second = fit_data(
        program,
        data,
        record.options.of_engine(taken.uses),
        engine=taken,
        show_progress=show_progress,
        **{name: its for name, its in inputs.items() if name in (*taken.uses, "priors")},
    )
    again = second.record
    notes += more
    if not notes:
        notes += again.engine.changes_since(record.engine)
    notes += value_changes("version of", record.packages, again.packages)
    if again.engine.name == record.engine.name:
        as_before = ", as recorded"
    else:
        as_before = ""
    return replace(compare_runs(first, second, notes), engine=f"{again.engine.name}{as_before}")


def _engine_again(before: EngineRecord, engine: str | None, cmdstan: str | Path | None) -> Engine:
    """Return the engine of a run, unless another engine or CmdStan is requested."""
    if cmdstan is not None:
        return find_engine(engine or "cmdstan", cmdstan)
    if engine is None or engine == before.name:
        return before.find()
    return find_engine(engine)


def compare_runs(first: Fit, second: Fit, notes: list[str] | None = None) -> Replay:
    """Compare the draws of two fits that should have the same posterior.

    Parameters
    ----------
    first, second : Fit
        The fits.
    notes : list of str, optional
        Known changes between the fits.
    """
    notes = notes or []
    theirs = second.kept_stats
    same_stats = first.stats.keys() == second.stats.keys() and all(
        np.array_equal(values, theirs[name], equal_nan=True)
        for name, values in first.kept_stats.items()
    )
    if same_stats and first.posterior.equals(second.posterior):
        return Replay("bitwise equal", 0.0, "", tuple(notes))
    names = element_names(first.posterior)
    if names != element_names(second.posterior):
        reason = "the posteriors have different quantities"
        return Replay("different", notes=(reason, *notes))
    errors = _differences(stacked(first.posterior), stacked(second.posterior))
    worst = int(np.argmax(errors))
    name = names[worst % len(names)]
    if errors[worst] <= _limit(errors.size):
        return Replay("statistically equal", float(errors[worst]), name, tuple(notes))
    unexplained = "nothing recorded in the run changed: run pyflowers doctor and report this"
    return Replay("different", float(errors[worst]), name, tuple(notes) or (unexplained,))


def _program_now(first: Fit) -> tuple[Program, list[str]]:
    """Return the program to run: the current file, or the text that the run kept."""
    about = first.record.program
    if is_formula(about.reference):  # the text of its program is in the run
        return first.program, []
    reference: str | Path = about.reference
    if about.reference.endswith(".stan"):
        reference = Path(about.reference)
    try:
        now = find_program(reference, about.include_paths)
    except (ConfigError, CompileError) as error:
        return first.program, [f"the text kept in the run folder was used ({error})"]
    notes = []
    if now.source.sha256 != about.sha256:
        notes.append(f"program {about.path} changed")
    return replace(first.program, source=now.source), notes


def _data_now(first: Fit, program: Program) -> tuple[Any, list[str], list[str]]:
    """Return the data for the run, the changes in the data file, and further notes."""
    about = first.record.data
    kept = first.data
    if about.source is None:
        if not kept.values:
            kept = program.read({})
        return kept, [], []
    path = Path(about.source)
    if not table_path(path).is_file():
        if not kept.has_table and set(kept.values) < set(program.source.blocks.data):
            raise ConfigError(
                f"{about.source}: the run's data cannot be read again; put the file back"
            )
        return kept, [], [f"{path} no longer exists: the data kept in the run folder were used"]
    how: dict[str, Any] = about.reading
    try:
        now = program.read(path, columns=about.columns, **how)
    except (DataError, ConfigError) as error:
        return None, [str(error)], []
    return now, data_changes(kept, now), []


def _differences(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the runs' difference in each quantile, in standard errors, (quantile × element,).

    Quantiles of integers change in jumps. For integers, the probabilities of values up to the first
    run's quantile are compared instead.
    """
    found = []
    for quantile in QUANTILES:
        if (first == np.rint(first)).all() and (second == np.rint(second)).all():
            at = np.quantile(first, quantile, axis=(0, 1), method="inverted_cdf")
            below = [(draws <= at).astype(np.float64) for draws in (first, second)]
            values = [each.mean(axis=(0, 1)) for each in below]
            errors = [np.nan_to_num(mcse_mean(each)) for each in below]
        else:
            values = [np.quantile(draws, quantile, axis=(0, 1)) for draws in (first, second)]
            errors = [np.nan_to_num(mcse_quantile(draws, quantile)) for draws in (first, second)]
        apart = np.abs(values[0] - values[1])
        error = np.hypot(*errors)
        # The standard error of a constant is 0, so any difference between the runs counts.
        still = np.where(apart > 0, np.inf, 0.0)
        found.append(np.divide(apart, error, out=still, where=error > 0))
    return np.concatenate(found)


def _limit(num: int) -> float:
    """Return how large the largest of `num` differences may be by chance, in standard errors."""
    from scipy.stats import norm

    return max(ALLOWED_ERRORS, float(norm.isf(FALSE_ALARMS / (2 * max(num, 1)))))


def data_changes(before: Data, now: Data) -> list[str]:
    """Return sentences on up to five changes, and the number of others; none if nothing changed.

    Observations are identified by group and time if the program has both; otherwise, they are
    identified by position. A different order of the rows is described only if nothing else has
    changed.
    """
    if before.sha256 == now.sha256:
        return []
    if before.table is None or now.table is None:
        return [f"{now.source} has changed"]
    changes = value_changes("column", before.columns, now.columns)
    old, new = _by_key(before), _by_key(now)
    for key, (i, row) in new.items():
        if key not in old:
            changes.append(f"{_at(now, i, key)} is new")
            continue
        was = old[key][1]
        changes += [
            f"{_at(now, i, key)}: {name} was {label_text(was.get(name))} and is {label_text(value)}"
            for name, value in row.items()
            if was.get(name) != value
        ]
    changes += [f"{_at(before, j, key)} is gone" for key, (j, _) in old.items() if key not in new]
    if not changes:
        places = enumerate(zip(old, new, strict=True))
        moved = next((i for i, (a, b) in places if a != b), 0)
        changes = [f"{now.where(moved)}: the rows are in a different order from here on"]
    if len(changes) > MOST_ROWS_NAMED:
        left = len(changes) - MOST_ROWS_NAMED
        changes = [*changes[:MOST_ROWS_NAMED], f"and {counted(left, 'more change')}"]
    return changes


def _by_key(data: Data) -> dict[tuple[str, ...], tuple[int, dict[Any, Any]]]:
    """Return the position and cells of each row, by the key that identifies the row."""
    rows = to_frame(data).to_dict(orient="records")
    keys: list[tuple[str, ...]] = [(str(i),) for i in range(len(rows))]
    if data.by_group is not None and data.by_time is not None:
        labels = zip(data.by_group.of_rows, data.by_time.of_rows, strict=True)
        keys = [(str(group), str(time)) for group, time in labels]
    return {key: (i, row) for i, (key, row) in enumerate(zip(keys, rows, strict=True))}


def _at(data: Data, row: int, key: tuple[str, ...]) -> str:
    if len(key) == 2:
        return f"{data.where(row)} ({', '.join(key)})"
    return data.where(row)
