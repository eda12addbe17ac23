"""The material of a report: fits to one table, which are summarised, compared and judged once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from markupsafe import Markup

from pyflowers.analysis.average_effects import Effects, effects
from pyflowers.analysis.checks import FEWEST_REPLICATES, PredictiveChecks, check
from pyflowers.analysis.elpd import LooComparison, checked_comparable, compare_named
from pyflowers.analysis.explained_variance import Explained, explained
from pyflowers.analysis.methods import Comparison
from pyflowers.analysis.predictions import predictor_of
from pyflowers.analysis.prior_sensitivity import Sensitivity, sensitivity
from pyflowers.errors import ConfigError, DataError
from pyflowers.fits.fit import Fit, model_names, refuse_same_names
from pyflowers.fits.verdict import Verdict
from pyflowers.programs import Capability
from pyflowers.programs.prediction import Groups
from pyflowers.reports.markup import Text, capitalised, code, fill, listed

if TYPE_CHECKING:
    from pyflowers.analysis.calibration import Calibration

MOST_REPLICATED = 100_000_000
"""The largest number of replicated values in a model's checks; it limits the number of replicated
data sets."""

MOST_PREDICTED = 40_000_000
"""The largest product of rows and draws for which the best model's average effects are shown."""

MOST_EXPLAINED = 4_000_000
"""The largest product of rows and draws, summed over the models, for which R² is shown."""

MOST_EFFECTS = 6
"""The largest number of columns whose average effects are shown."""

Comparisons = Mapping[str, Comparison | str]


class Material:
    """Fits to one table, and the results that are computed from all of them.

    Parameters
    ----------
    fits : sequence of Fit
        One fit for each model, with different names.
    refused : mapping of str to str
        Models that could not be fitted, with the reason.
    calibrations : sequence of Calibration
        Calibrations of programs that were fitted.
    out : Path
        The name of the report's file.
    title, question : str
        The title and the question that the user gives; if empty, they are derived from the data.

    Raises
    ------
    ConfigError
        If there is no fit, or the fits or calibrations do not belong together.
    """

    comparisons: Comparisons
    sensitivities: dict[str, Sensitivity | str]
    """The sensitivity of each fit to the prior, or the reason why there is none."""

    checks: dict[str, PredictiveChecks]
    unchecked: dict[str, str]
    """For each fit without predictive checks, the reason why it has none."""

    verdicts: dict[str, Verdict]

    effects: Effects | None
    """Average effects of :attr:`covariates` in the best model."""

    def __init__(
        self,
        fits: Sequence[Fit],
        refused: Mapping[str, str],
        calibrations: Sequence[Calibration],
        out: Path = Path("report.html"),
        *,
        title: str = "",
        question: str = "",
    ) -> None:
        _refuse(fits, refused, calibrations)
        self.out, self.alone = out, len(fits) == 1
        self.fits, self.refused, self.calibrations = fits, refused, calibrations
        self.title, self.question = title, question
        self.labels = _labels(fits)
        self.given_names = {fit.record.name for fit in fits if fit.record.name}
        self.uncalibrated = [found for found in calibrations if found.failed]
        # The data of the fit that reads the most from the table, preferably also groups and times.
        self.data = max(
            (fit.data for fit in fits),
            key=lambda data: (data.has_table, bool(data.by_group), bool(data.by_time)),
        )
        self.summaries: dict[str, pd.DataFrame] = {fit.name: fit.summary(all=True) for fit in fits}
        able = [fit for fit in fits if fit.program.can(Capability.LOG_LIK)]
        self.loo: LooComparison | None = None
        try:
            named = checked_comparable(able or fits)
            self.loo = compare_named(named, [fit.name for fit in named])
            self.no_loo = ""
        except ConfigError as error:
            self.no_loo = str(error)
        best = self.loo.best.name if self.loo else fits[0].name
        self.best = next(fit for fit in fits if fit.name == best)
        self.left_out: list[str] = []
        self.covariates, self.no_effects = self._covariates()

    def _covariates(self) -> tuple[list[str], str]:
        """Return the covariates whose effects in the best model are shown, or why none are."""
        fit = self.best
        if not fit.model.predicts_rows:
            return [], ""
        try:
            predictor_of(fit)
            found = fit.model.covariates_of_mean
        except (ConfigError, DataError) as error:
            return [], str(error)
        if found and fit.num_predictions > MOST_PREDICTED:
            return [], "with so many rows, computing them takes a long time; run pyflowers effects"
        self.left_out = found[MOST_EFFECTS:]
        return found[:MOST_EFFECTS], ""

    def examine(self, compare: Callable[[], Comparisons]) -> None:
        """Compute the results that the figures of the fits do not need."""
        self.effects = None
        self.explained: Explained | None = None
        able = [fit for fit in self.fits if fit.model.predicts_rows and not fit.is_partial]
        if able and sum(fit.num_predictions for fit in able) <= MOST_EXPLAINED:
            with suppress(ConfigError, DataError):  # directions have no R²
                self.explained = explained(able)
        if self.covariates:
            try:
                # The effects of observed groups must not be mistaken for the effects of a column.
                parts = {part for n in self.best.model.groups if ":" in n for part in n.split(":")}
                groups: Groups | None = "population" if parts & {*self.covariates} else None
                self.effects = effects(self.best, *self.covariates, groups=groups)
            except (ConfigError, DataError) as error:
                self.no_effects = str(error)
        compared = compare()
        self.comparisons = {f.name: compared[f.name] for f in self.fits if f.name in compared}
        self.judge()

    def judge(self) -> None:
        """Check the fits and their sensitivity to the prior, for the verdicts."""
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

    @property
    def value_name(self) -> str:
        """The user's name for the observed values, without a note on the numbers of categories."""
        data = self.data
        if self.best.model.has_categories:
            return data.response_name
        return data.value_name

    def named(self, name: str) -> Text:
        """Return what the page calls the model of a fit."""
        label = self.labels.get(name, name)
        if label == name and name not in self.given_names:
            return code(name)
        return fill("{}", label)

    def calibrated(self, found: Calibration) -> Markup:
        """Return the page's names for the fits whose program was calibrated."""
        return self.names_of(fit.name for fit in self.fits if fit.program.name == found.name)

    def names_of(self, names: Iterable[str]) -> Markup:
        """Return the page's names for the models of fits, as a list in words."""
        return listed(map(self.named, names))

    def of_model(self, name: str, said: Text) -> Text:
        """Return a sentence on a fit, after the model's name if there are several."""
        if self.alone:
            return capitalised(fill("{}", said))
        return fill("{}: {}", self.named(name), said)

    def in_words(self, text: str) -> str:
        """Return the text of an analysis, with the names that the page uses for the models."""
        shown, called = dict(self.labels), [fit.called for fit in self.fits]
        for fit in self.fits:
            if called.count(fit.called) == 1:
                shown[fit.called] = self.labels[fit.name]
        # A formula or its name may begin with another: y ~ x and y ~ x + z.
        names = "|".join(map(re.escape, sorted(shown, key=len, reverse=True)))
        return re.sub(rf"(?<!\w)(?:{names})(?!\w)", lambda found: shown[found[0]], text)

    def is_calibrated(self, fit: Fit) -> bool:
        """Return whether no calibration of the fit's program has failed."""
        return all(found.name != fit.program.name for found in self.uncalibrated)


def _labels(fits: Sequence[Fit]) -> dict[str, str]:
    """Return what the page calls each fit; a single fit of a formula is called "this model"."""
    called = model_names(fits)
    if len(fits) == 1 and called[0] != fits[0].name:
        called = ["this model"]
    return dict(zip([fit.name for fit in fits], called, strict=True))


def _refuse(
    fits: Sequence[Fit], refused: Mapping[str, str], calibrations: Sequence[Calibration]
) -> None:
    programs = {fit.program.name: fit.record.program.sha256 for fit in fits}
    called = list(dict.fromkeys(fit.program.called for fit in fits))
    if not fits:
        why = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
        raise ConfigError(f"report: there is no fit to report{': ' + why if why else ''}")
    refuse_same_names(fits, "report")
    if not all(fit.data.describes_same(fits[0].data) for fit in fits):
        raise ConfigError("report: the fits use different data; write a separate report for each")
    for found in calibrations:
        what = f"calibration {found.batch.folder}"
        if found.name not in programs:
            raise ConfigError(
                f"{what} is for {found.called or found.name}, but the report is on "
                f"{', '.join(called)}; leave it out"
            )
        if found.sha256 != programs[found.name]:
            raise ConfigError(
                f"{what}: {found.called or found.name} has changed since then; run pyflowers sbc "
                "again in a new folder"
            )
