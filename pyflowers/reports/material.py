"""What a report is made of: fits of one table, summarised and compared once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd
from markupsafe import Markup

from pyflowers.analysis.checks import Check, PredictiveChecks, check
from pyflowers.analysis.elpd import LooComparison, loo
from pyflowers.analysis.methods import Comparison
from pyflowers.analysis.prior_sensitivity import Sensitivity, sensitivity
from pyflowers.analysis.sbc_result import Calibration
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.fits.verdict import Verdict
from pyflowers.programs import Capability, Data

MOST_REPLICATED = 100_000_000
"""Replicated values of a model's checks; of larger data fewer data sets are replicated."""

FEWEST_REPLICATES = 200
"""Replicated data sets of a model's checks however large the data are."""


@dataclass(frozen=True)
class Table:
    """A table of the page.

    Attributes
    ----------
    caption : str
        What it shows.
    head : sequence of str
        A heading for each column.
    rows : sequence of sequence of str or Markup
        Cells; the first of a row names it.
    text_columns : sequence of int
        Columns that hold text and not numbers.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Markup | str]]
    text_columns: Sequence[int] = ()


@dataclass(frozen=True, eq=False)
class Material:
    """Fits of one table and what is computed from all of them.

    Attributes
    ----------
    fits : sequence of Fit
        One for each model, each of another name.
    refused : mapping of str to str
        Models that could not be fitted, and why.
    compare : callable
        Returns for each model its methods compared, or why they are not; called once.
    calibrations : sequence of Calibration
        Of programs that were fitted.
    """

    fits: Sequence[Fit]
    refused: Mapping[str, str] = field(default_factory=dict)
    compare: Callable[[], Mapping[str, Comparison | str]] = dict
    calibrations: Sequence[Calibration] = ()

    def __post_init__(self) -> None:
        names = [fit.name for fit in self.fits]
        if not names:
            why = "; ".join(f"{name}: {reason}" for name, reason in self.refused.items())
            raise ConfigError(f"report: there is no fit to report{': ' + why if why else ''}")
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"report: two fits are of {name}; give one of each model")
        first = self.fits[0].data
        if not all(fit.data.describes_same(first) for fit in self.fits):
            raise ConfigError(
                "report: the fits are of different data; make a report for each data set"
            )
        programs = {fit.name: fit.record.program.sha256 for fit in self.fits}
        for found in self.calibrations:
            if found.name not in programs:
                raise ConfigError(
                    f"calibration {found.batch.folder}: it is of {found.name}, and the report is "
                    f"of {', '.join(programs)}; leave it out"
                )
            if found.sha256 != programs[found.name]:
                raise ConfigError(
                    f"calibration {found.batch.folder}: {found.name} has changed since; run "
                    "pyflowers sbc again into a new folder"
                )

    @cached_property
    def comparisons(self) -> Mapping[str, Comparison | str]:
        """For each model its methods compared, or why they are not."""
        return self.compare()

    @cached_property
    def summaries(self) -> dict[str, pd.DataFrame]:
        """Summary table of each fit by name."""
        return {fit.name: fit.summary() for fit in self.fits}

    @property
    def data(self) -> Data:
        """The data of the fit with most of a table: groups, times and an observed variable."""
        return max(
            (fit.data for fit in self.fits),
            key=lambda data: (data.has_table, bool(data.by_group), bool(data.by_time)),
        )

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdict on each fit by name: with its predictive checks and its power-scaling."""
        found = {}
        for fit in self.fits:
            checks, sensitivity = self.checks.get(fit.name), self.sensitivities[fit.name]
            verdict = fit.verdict if checks is None else checks.verdict
            found[fit.name] = (
                verdict if isinstance(sensitivity, str) else verdict.also(sensitivity.part)
            )
        return found

    @cached_property
    def _checks(self) -> tuple[dict[str, PredictiveChecks], dict[str, str]]:
        found, refused = {}, {}
        for fit in self.fits:
            most = max(FEWEST_REPLICATES, MOST_REPLICATED // max(1, fit.data.num_obs))
            try:
                found[fit.name] = check(fit, replicates=most)
            except ConfigError as error:
                refused[fit.name] = str(error)
        return found, refused

    @cached_property
    def uncalibrated(self) -> list[Calibration]:
        """The calibrations that fail."""
        return [found for found in self.calibrations if found.failed]

    def is_calibrated(self, fit: Fit) -> bool:
        """Whether no calibration of a fit's program fails."""
        return all(found.name != fit.name for found in self.uncalibrated)

    @property
    def checks(self) -> dict[str, PredictiveChecks]:
        """The predictive checks of each fit by name, where its program can replicate data."""
        return self._checks[0]

    @property
    def unchecked(self) -> dict[str, str]:
        """Why the others are not checked."""
        return self._checks[1]

    @property
    def failed_checks(self) -> list[Check]:
        """The predictive checks that fail, of all fits."""
        return [check for found in self.checks.values() for check in found.failed]

    @cached_property
    def _loo(self) -> tuple[LooComparison | None, str]:
        able = [fit for fit in self.fits if fit.program.can(Capability.LOG_LIK)]
        try:
            return loo(able or self.fits), ""
        except ConfigError as error:
            return None, str(error)

    @property
    def not_in_loo(self) -> Sequence[Fit]:
        """The fits that PSIS-LOO leaves out, where it has others."""
        if self.loo is None:
            return []
        return [fit for fit in self.fits if not fit.program.can(Capability.LOG_LIK)]

    @property
    def loo(self) -> LooComparison | None:
        """PSIS-LOO of the models, or None where there is none."""
        return self._loo[0]

    @property
    def no_loo(self) -> str:
        """Why there is no PSIS-LOO."""
        return self._loo[1]

    @cached_property
    def sensitivities(self) -> dict[str, Sensitivity | str]:
        """For each fit its sensitivity to the prior, or why there is none."""
        found: dict[str, Sensitivity | str] = {}
        for fit in self.fits:
            try:
                found[fit.name] = sensitivity(fit)
            except ConfigError as error:
                found[fit.name] = str(error)
        return found

    @property
    def best(self) -> Fit:
        """The fit of the model that predicts best; without LOO, the first."""
        name = self.loo.best.name if self.loo else self.fits[0].name
        return next(fit for fit in self.fits if fit.name == name)
