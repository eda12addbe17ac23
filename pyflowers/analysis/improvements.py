"""Follow the advice on failed checks: models are refitted as advised, checked and compared.

The advice on a failed check is another formula, another family or other sampler options. Each
recommended model is fitted, and the advice on the new fits is then followed as well. Of the models
that pass all checks, those that predict about as well as the best by PSIS-LOO count as equal, and
the one that was tried first is chosen, because the first advice addresses the most failures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from pyflowers.advice import Advice, worded
from pyflowers.analysis.checks import PredictiveChecks, check
from pyflowers.analysis.elpd import (
    SMALL_DIFFERENCE,
    LooComparison,
    checked_comparable,
    compare_named,
)
from pyflowers.display import Line, Result, command_lines, in_file, records_of, verdict
from pyflowers.errors import ConfigError, PyflowersError
from pyflowers.fits.commands import ShowPath, changed_inputs, command_of
from pyflowers.fits.diagnostics import named
from pyflowers.fits.fit import Fit
from pyflowers.fits.sampling import fit as sampled
from pyflowers.fits.updating import asked_again
from pyflowers.fits.verdict import Check, Part, Status
from pyflowers.progress import logger
from pyflowers.text import counted, in_words

MOST_REFITS = 8
"""The largest number of refits."""

WARNING = (
    "the model was chosen after looking at the data, so its intervals are too narrow and its "
    "checks too lenient; report every model that was tried, and confirm the choice with new data"
)


@dataclass(frozen=True, eq=False)
class Tried:
    """A model that was fitted and checked.

    Attributes
    ----------
    checks : PredictiveChecks
        Its predictive checks, with the fit.
    change : mapping of str to Any
        The inputs that differ from those of the fit whose checks led to this model; empty for the
        first fit.
    reasons : tuple of str
        The failed checks whose advice led to this model.
    advised_by : Tried or None
        The model that failed these checks; None for the first fit.
    """

    checks: PredictiveChecks
    change: Mapping[str, Any] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    advised_by: Tried | None = None

    @property
    def fit(self) -> Fit:
        """The fit."""
        return self.checks.fit

    @cached_property
    def shown(self) -> tuple[Check, ...]:
        """The checks that failed or are limited."""
        found = [part.failed + part.limited for part in self.checks.verdict.parts]
        return tuple(check for of_part in found for check in of_part)

    @property
    def status(self) -> Status:
        """``passed``, ``limited`` or ``failed``."""
        if any(check.failed for check in self.shown):
            return "failed"
        return "limited" if self.shown else "passed"

    @property
    def advice(self) -> dict[Advice, tuple[str, ...]]:
        """The advice on failed checks that leads to a refit, and the checks that it addresses.

        Advice on sampling is used only if nothing else is wrong with the model.
        """
        verdict = self.checks.verdict
        return _advice_of(verdict.data, verdict.prior) or _advice_of(verdict.computation)

    @property
    def model(self) -> str:
        """The formula with its family, or the name of another program."""
        formula = self.fit.program.declaration.formula
        if formula is None:
            return self.fit.name
        return f"{formula.text}, {formula.family}"


def _advice_of(*parts: Part) -> dict[Advice, tuple[str, ...]]:
    """Return advice that leads to a refit, from parts of a verdict, with the checks it is for."""
    found: dict[Advice, tuple[str, ...]] = {}
    for part in parts:
        for each in (*part.failed, *part.limited):
            if isinstance(each.advice, Advice) and each.advice.step == "fit":
                found[each.advice] = (*found.get(each.advice, ()), each.name)
    return found


@dataclass(frozen=True, eq=False, repr=False)
class Improvement(Result):
    """What failed in a fit, which models were tried instead, and which of them was chosen.

    Attributes
    ----------
    trials : tuple of Tried
        The fit, then the models that were tried, in order.
    refused : mapping of str to str
        The models that could not be tried, with the reasons.
    loo : LooComparison or None
        The comparison of the models; None if there is only one, or they cannot be compared.
    no_loo : str
        Why they cannot be compared.
    left : int
        The number of models that were recommended but not tried, because there were too many.

    See Also
    --------
    pyflowers.improve : Follow the advice on failed checks.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> found = pyflowers.improve(fit)
    >>> found.chosen is fit, found.sentence
    (True, 'multilevel_poisson passes all checks, so nothing was changed')
    >>> found.table()["result"].tolist()
    ['passed']
    >>> found.command_with(str)
    ''
    """

    holds: ClassVar[str] = "improvement"

    trials: tuple[Tried, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    loo: LooComparison | None = None
    no_loo: str = ""
    left: int = 0

    @property
    def fits(self) -> list[Fit]:
        """The fits of the models; if a model was fitted twice, the later fit."""
        return list({each.fit.name: each.fit for each in self.trials}.values())

    @cached_property
    def best(self) -> Tried | None:
        """The chosen model: one that passes or, if there is none, one that is limited."""
        last = {each.fit.name: each for each in self.trials}.values()
        elpd = {each.name: each.elpd for each in self.loo.models} if self.loo else {}
        for status in ("passed", "limited"):
            able = [each for each in last if each.status == status]
            if able:
                close = max(elpd.get(each.model, 0.0) for each in able) - SMALL_DIFFERENCE
                return next(each for each in able if elpd.get(each.model, 0.0) >= close)
        return None

    @property
    def chosen(self) -> Fit | None:
        """The fit of the chosen model; None if a check of every model failed."""
        return None if self.best is None else self.best.fit

    @property
    def passed(self) -> bool:
        """Whether a model was found in which no check fails."""
        return self.best is not None

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        first, best = self.trials[0], self.best
        if best is None and len(self.trials) == 1 and not self.refused:
            return f"{first.model} fails, and its checks suggest no other model"
        if best is None:
            if len(self.trials) == 1:
                return f"{first.model} fails, and no other model could be fitted"
            return f"in each of {counted(len(self.trials), 'model')}, a check fails"
        rest = ""
        if best.status == "limited":
            rest = f", except that {best.checks.verdict.data.limits}"
        if best is first and len(self.trials) == 1:
            return f"{first.model} passes all checks{rest}, so nothing was changed"
        return f"{best.model} passes all checks{rest}"

    @property
    def command(self) -> str:
        """The command that fits the chosen model; empty if no model, or the first, is chosen."""
        return self.command_with(str)

    def command_with(self, path: ShowPath) -> str:
        """Return :attr:`command`, with paths formatted by a function.

        Parameters
        ----------
        path : callable
            Function that returns the text for a path.
        """
        if self.best is None or self.best is self.trials[0]:
            return ""
        whole: dict[str, Any] = {}
        each: Tried | None = self.best
        while each is not None:
            whole, each = {**each.change, **whole}, each.advised_by
        return command_of(self.trials[0].fit, Advice("", **whole), path)

    @property
    def notes(self) -> list[str]:
        """The limitations of the choice, one sentence each."""
        said = [f"{model} was not fitted: {reason}" for model, reason in self.refused.items()]
        if self.no_loo:
            said.append(f"the models cannot be compared: {self.no_loo}")
        if self.left:
            were = "was" if self.left == 1 else "were"
            said.append(
                f"{counted(self.left, 'more model')} {were} suggested, but not fitted, because "
                f"the limit is {MOST_REFITS} refits"
            )
        if self.loo is not None:
            said += [*self._of_better(), *self.loo.cautions]
        if len(self.trials) > 1:
            said.append(WARNING)
        return said

    def _of_better(self) -> list[str]:
        """Return a note on models that predict better than the chosen one, but fail a check."""
        assert self.loo is not None
        own = next((m for m in self.loo.models if self.best and m.name == self.best.model), None)
        if own is None:
            return []
        better = [m.name for m in self.loo.models if m.elpd > own.elpd + SMALL_DIFFERENCE]
        if not better:
            return []
        if len(better) > 1:
            return [f"{in_words(better)} predict better by LOO, but do not pass all checks"]
        return [f"{better[0]} predicts better by LOO, but does not pass all checks"]

    def table(self) -> pd.DataFrame:
        """Return a row for each model, in the order in which they were tried.

        Returns
        -------
        DataFrame
            ``after``, the number of the model whose checks suggested it; ``result``; elpd by
            PSIS-LOO and the difference from the best with its standard error; and the cost of
            the model: the number of parameters and the time of sampling in seconds.
        """
        elpd = {}
        if self.loo is not None:
            elpd = {each.name: each for each in self.loo.models}
        rows = []
        for no, each in enumerate(self.trials, 1):
            found, failed = elpd.get(each.model), [check.name for check in each.shown]
            row: dict[str, Any] = {"no": no, "model": each.model, "after": "–"}
            if each.advised_by is not None:
                row["after"] = str(self.trials.index(each.advised_by) + 1)
            row["result"] = str(each.status)
            if failed:
                row["result"] = f"{each.status}: {', '.join(failed)}"
            if found is not None:
                row |= {"elpd": found.elpd, "difference": found.difference}
                row |= {"its se": found.difference_se, "parameters": found.num_parameters}
            rows.append({**row, "seconds": each.fit.record.times.wall_seconds})
        return pd.DataFrame(rows).set_index(["no", "model"])

    def contents(self) -> list[Line]:
        """Return what failed, the table of the models that were tried, and the result."""
        first = self.trials[0]
        lines: list[Line] = [first.fit.heading]
        for advice in dict.fromkeys(each.advice for each in first.shown):
            same = [each for each in first.shown if each.advice == advice]
            lines += [f"{each.status}: {each.result}" for each in same]
            lines.append(f"  → {advice}")
        lines.append(in_file(self.table(), "improvement.csv"))
        lines += [f"note: {note}" for note in self.notes]
        lines.append(verdict(self.sentence, self.passed))
        if self.command:
            lines.append(command_lines(self.command))
        return lines

    def files(self) -> dict[str, pd.DataFrame]:
        """Return the table by file name."""
        return {"improvement.csv": self.table()}

    def to_dict(self) -> dict[str, Any]:
        """Return the trials and the choice as plain values, for JSON."""
        first, chosen = self.trials[0], self.chosen
        return {
            **first.fit.identity(),
            "trials": [
                {**row, "run": each.fit.folder and str(each.fit.folder)}
                for row, each in zip(records_of(self.table()), self.trials, strict=True)
            ],
            "failed": [
                {"check": each.name, "finding": each.result, "advice": str(each.advice)}
                for each in first.shown
            ],
            "loo": None if self.loo is None else self.loo.to_dict(),
            "chosen": None if chosen is None else chosen.name,
            "sentence": self.sentence,
            "command": self.command,
            "notes": self.notes,
        }


def follow_advice(
    fit: Fit,
    *,
    out: Path | None = None,
    overwrite: bool = False,
    announce: Callable[[str], object] = logger.info,
) -> Improvement:
    """Fit the models that are recommended after failed checks, check these fits, and compare them.

    Parameters
    ----------
    fit : Fit
        The fit.
    out : Path, optional
        Folder for the run folders of the models that are tried, each with the model's name and, if
        a model is tried again with other options, a number. If the folder has a run with the same
        inputs, it is read instead of refitted.
    overwrite : bool
        Whether to replace runs in this folder that have other inputs.
    announce : callable
        Function that is called with a line before each refit.

    Raises
    ------
    PyflowersError
        If the fit cannot be checked; see :func:`pyflowers.check`.
    """
    trials, refused, left = [Tried(check(fit))], dict[str, str](), 0
    asked = {_known_by(fit, {})}
    for trial in trials:  # models are added in the loop
        for advice, reasons in trial.advice.items():
            known_by = _known_by(trial.fit, advice.change)
            if known_by in asked:
                continue
            asked.add(known_by)
            if len(trials) > MOST_REFITS:
                left += 1
                continue
            change = worded(named(advice.change))
            announce(f"{in_words(reasons)} of {trial.model}: trying {change}")
            try:
                spec = asked_again(trial.fit, advice.change)
                folder = None if out is None else _folder(out, spec.open().name, trials)
                again = sampled(spec, out=folder, overwrite=overwrite)
                made = Tried(check(again), advice.change, reasons, trial)
            except PyflowersError as error:
                refused[change] = str(error)
                continue
            trials.append(made)
    found = Improvement(tuple(trials), refused, left=left)
    if len(found.fits) < 2:
        return found
    compared, no_loo = None, ""
    try:
        fits = checked_comparable(found.fits)
        called = {each.fit.name: each.model for each in trials}
        compared = compare_named(fits, [called[each.name] for each in fits])
    except ConfigError as error:
        no_loo = str(error)
    return Improvement(found.trials, refused, compared, no_loo, left)


def _folder(out: Path, name: str, trials: list[Tried]) -> Path:
    """Return the run folder of a trial: NAME or, if the model was tried before, NAME-2."""
    num = sum(each.fit.name == name for each in trials[1:])  # the first fit is not in `out`
    return out / (f"{name}-{num + 1}" if num else name)


def _known_by(fit: Fit, change: Mapping[str, Any]) -> str:
    """Return a key for the inputs of a changed fit; equal inputs have equal keys."""
    inputs = changed_inputs(fit, change)
    return repr(sorted((name, repr(its)) for name, its in inputs.items()))
