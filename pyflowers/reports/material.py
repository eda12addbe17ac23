"""What a report is made of: fits of one table, summarised, compared and judged once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from pyflowers.analysis.calibration import Calibration
from pyflowers.analysis.checks import PredictiveChecks, check
from pyflowers.analysis.elpd import LooComparison, loo
from pyflowers.analysis.methods import Comparison
from pyflowers.analysis.prior_sensitivity import Sensitivity, sensitivity
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.fits.verdict import Verdict
from pyflowers.programs import Capability

MOST_REPLICATED = 100_000_000
"""Replicated values of a model's checks; of larger data fewer data sets are replicated."""

FEWEST_REPLICATES = 200
"""Replicated data sets of a model's checks however large the data are."""

Comparisons = Mapping[str, Comparison | str]


class Material:
    """Fits of one table and what is computed from all of them.

    Parameters
    ----------
    fits : sequence of Fit
        One for each model, each of another name.
    refused : mapping of str to str
        Models that could not be fitted, and why.
    calibrations : sequence of Calibration
        Of programs that were fitted.

    Raises
    ------
    ConfigError
        If there is no fit, or the fits or calibrations do not belong together.
    """

    comparisons: Comparisons
    sensitivities: dict[str, Sensitivity | str]
    """For each fit its sensitivity to the prior, or why there is none."""

    checks: dict[str, PredictiveChecks]
    unchecked: dict[str, str]
    """Why there are no predictive checks of the other fits."""

    verdicts: dict[str, Verdict]

    def __init__(
        self,
        fits: Sequence[Fit],
        refused: Mapping[str, str],
        calibrations: Sequence[Calibration],
    ) -> None:
        _refuse(fits, refused, calibrations)
        self.fits, self.refused, self.calibrations = fits, refused, calibrations
        self.uncalibrated = [found for found in calibrations if found.failed]
        # The fit with most of a table: groups, times and an observed variable.
        self.data = max(
            (fit.data for fit in fits),
            key=lambda data: (data.has_table, bool(data.by_group), bool(data.by_time)),
        )
        self.summaries: dict[str, pd.DataFrame] = {fit.name: fit.summary() for fit in fits}
        able = [fit for fit in fits if fit.program.can(Capability.LOG_LIK)]
        self.loo: LooComparison | None = None
        try:
            self.loo, self.no_loo = loo(able or fits), ""
        except ConfigError as error:
            self.no_loo = str(error)
        best = self.loo.best.name if self.loo else fits[0].name
        self.best = next(fit for fit in fits if fit.name == best)

    def examine(self, compare: Callable[[], Comparisons]) -> None:
        """Compute what the figures of the fits do not need."""
        self.comparisons = compare()
        self.sensitivities, self.checks, self.unchecked, self.verdicts = {}, {}, {}, {}
        for fit in self.fits:
            verdict, most = fit.verdict, MOST_REPLICATED // max(1, fit.data.num_obs)
            try:
                self.checks[fit.name] = check(fit, replicates=max(FEWEST_REPLICATES, most))
                verdict = self.checks[fit.name].verdict
            except ConfigError as error:
                self.unchecked[fit.name] = str(error)
            try:
                self.sensitivities[fit.name] = found = sensitivity(fit)
                verdict = verdict.also(found.part)
            except ConfigError as error:
                self.sensitivities[fit.name] = str(error)
            self.verdicts[fit.name] = verdict

    def is_calibrated(self, fit: Fit) -> bool:
        """Whether no calibration of a fit's program fails."""
        return all(found.name != fit.name for found in self.uncalibrated)


def _refuse(
    fits: Sequence[Fit], refused: Mapping[str, str], calibrations: Sequence[Calibration]
) -> None:
    names = [fit.name for fit in fits]
    if not names:
        why = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
        raise ConfigError(f"report: there is no fit to report{': ' + why if why else ''}")
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"report: two fits are of {name}; give one of each model")
    if not all(fit.data.describes_same(fits[0].data) for fit in fits):
        raise ConfigError("report: the fits are of different data; make a report for each data set")
    programs = {fit.name: fit.record.program.sha256 for fit in fits}
    for found in calibrations:
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
