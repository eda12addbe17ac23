"""Posterior predictive checks, which test whether the model would produce data like those observed.

For a statistic T of a data set, the posterior predictive p-value is

    p = Pr(T(y_rep) > T(y) | y) + ½ Pr(T(y_rep) = T(y) | y)

where y_rep are data of the same design drawn from the model [1]_. Ties count half, so that both
tails are treated alike for statistics of counts. A p near 0 or 1 shows that the model does not
reproduce this aspect of the data. Most such p-values are further from 0 and 1 than uniform values
would be [2]_; for statistics that hardly depend on the parameters, such as the dispersion within
groups, they are uniform. Therefore, the p-value is below 0.0025 or above 0.9975 for at most about
0.5% of the data sets drawn from the model.

If rows are grouped, values are also compared with the mean of their own group
(`dispersion_within`, `sd_within`), because differences between groups would hide how much values
vary within them. If times are known, values at consecutive times are compared (`autocorrelation`).

If the program declares a prediction, :mod:`.patterns` looks for patterns in the residuals: patterns
in the mean and in the spread along covariates, between levels of factors and between groups, and
patterns in the order of the rows. Their p-values are adjusted for the number of patterns, and only
small p-values count as failures.

Groups are also checked: `group_outlier` replicates whole groups, whose means are drawn from the
population. A group that does not belong to the population is therefore found even if the model fits
its mean.

Predictions of each observation from the other observations are checked by their probability
integral transforms (`loo_pit`),

    PIT[n] = Pr(y_new[n] < y[n] | y without y[n]) + v Pr(y_new[n] = y[n] | y without y[n])

with v uniform on (0, 1), so that PITs of counts are also continuous [3]_. They are uniform if the
model predicts well. The predictive distribution without y[n] is the distribution of the replicated
values, weighted by Pareto-smoothed importance weights 1 / p(y[n] | draw) [4]_.

The band of :mod:`.ecdf` assumes independent PITs, but each leave-one-out PIT is computed from
nearly the same observations. With many observations for each parameter, this hardly matters. With
few, the PITs are spread more evenly than independent values would be, so the check is lenient.

References
----------
.. [1] Gelman, Meng and Stern (1996), Posterior predictive assessment of model fitness via realized
   discrepancies, Statistica Sinica 6, sections 2 and 4 (new groups: mixed predictive replication);
   Gelman et al. (2013), Bayesian Data Analysis, 3rd ed., section 6.3.
.. [2] Meng (1994), Posterior predictive p-values, The Annals of Statistics 22(3), section 3.
.. [3] Czado, Gneiting and Held (2009), Predictive model assessment for count data, Biometrics
   65(4), section 2.1, and Smith (1985), Diagnostic checks of non-standard time series models,
   Journal of Forecasting 4(3), for the randomised PIT.
.. [4] Gabry, Simpson, Vehtari, Betancourt and Gelman (2019), Visualization in Bayesian workflow,
   JRSS A 182(2), section 5; Vehtari, Simpson, Gelman, Yao and Gabry (2024), JMLR 25(72).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers import convergence
from pyflowers.analysis import ecdf
from pyflowers.analysis.findings import (
    MOST_AT_END,
    MOST_RATINGS,
    is_binary,
    of_pattern,
    of_pits,
    of_statistic,
    usual_statistics,
)
from pyflowers.analysis.patterns import LIMIT as PATTERN_LIMIT
from pyflowers.analysis.patterns import Judged, Patterns, find_patterns
from pyflowers.analysis.remedies import CUT_OFF, EDGES, answer, unless_cut_off
from pyflowers.analysis.statistics import (
    OF_RATINGS,
    FloatArray,
    Function,
    GroupMeans,
    Groups,
    Statistic,
    find_statistics,
    shares_of,
)
from pyflowers.checked import whole_number
from pyflowers.convergence import good_k
from pyflowers.data import Table, read_table
from pyflowers.data.examples import table_path
from pyflowers.display import (
    Line,
    Result,
    format_number,
    in_file,
    interval_quantiles,
    records_of,
)
from pyflowers.engines import SamplerOptions
from pyflowers.errors import ConfigError, DataError
from pyflowers.fits.fit import Fit, checked_fits, held_out_weights
from pyflowers.fits.verdict import Check, Part, Verdict
from pyflowers.programs import Capability, Draws
from pyflowers.text import counted

LIMIT = 0.0025
"""A check fails if its p-value is below this limit, or above 1 minus it: about one in fifty fits
of a correct model has a check that fails."""

BAND_PROB = 0.99
"""Probability of the simultaneous band in which PITs must stay."""

PIT_LIMIT = 1 - BAND_PROB
"""The check of the PITs fails below this p-value, because the PITs then leave their band."""

SMALLEST_P = 1e-12
"""The smallest p-value of the PITs that is printed: no model's assumptions are exact enough to
justify a smaller one."""

MOST_GROUPED = 1_000_000_000
"""The largest total number of values in the data sets with new groups, which limits the number of
these data sets."""

FEWEST_REPLICATES = round(0.5 / LIMIT)
"""The smallest number of replicated data sets; with fewer, no check could fail."""

SMALL_SPREAD = 0.15
"""The largest root mean square difference in spread that is too small to matter for averages and
effects. A 90% interval that is too narrow or too wide by this much covers 84% or 94%."""

OUTLYING = 0.01
"""If less than this share of the replicates has a largest or smallest value as extreme as the
observed one, the tails may be too heavy for averages to be reliable."""

_ENDS = {"minimum": "smallest", "maximum": "largest"}

_OF_ROWS = ("sd", "minimum", "maximum", "sd_within", "dispersion_within", "loo_pit")
"""Checks that may fail only because the mean is wrong or the spread unequal."""

GROUP_OUTLIER = "group_outlier"
LOO_PIT = "loo_pit"
BELOW_QUANTILE = "below_quantile"


@dataclass(frozen=True, eq=False)
class PredictiveCheck:
    """One predictive check.

    Attributes
    ----------
    name : str
        The statistic T.
    meaning : str
        The statistic in words.
    p_value : float
        The posterior predictive p-value. For ``loo_pit``, the probability that uniform values
        deviate at least as far.
    mcse : float
        Monte Carlo standard error of `p_value`; NaN if it cannot be estimated.
    observed : float
        T(y), the statistic of the observed data; NaN for ``loo_pit``.
    replicated : array, shape (S,)
        T of each replicated data set; empty for ``loo_pit``.
    finding : str
        What a failed check shows about the data, in words; empty if the check passed.
    advice : str
        What to do if the check failed; empty if it passed, or for a statistic that the user
        added.
    limit : float
        The check passes if p is between `limit` and 1 - `limit`, or, if it is one-sided, if p is at
        least `limit`. The limit is 0.0025, 0.005 for patterns and 0.01 for ``loo_pit``, or 0 if the
        data are not judged.
    one_sided : bool
        Whether only small p-values count. This is so for ``loo_pit`` and for the patterns of
        residuals, such as ``spread[x]``; the p-values of patterns are adjusted for their number.
    limited : bool
        Whether the check failed, but concerns only predictions of single values; see
        :meth:`PredictiveChecks.limited`.

    Examples
    --------
    The counts of these plants vary more than Poisson counts.

    >>> import pandas as pd, pyflowers
    >>> frame = pd.DataFrame({"plant": [1, 2, 3] * 4, "month": sorted([1, 2, 3, 4] * 3),
    ...                       "flowers": [0, 9, 1, 12, 0, 2, 1, 15, 0, 20, 3, 11]})
    >>> fit = pyflowers.fit("multilevel_poisson", frame, seed=1, engine="exact")
    >>> checks = {check.name: check for check in pyflowers.check(fit).checks}
    >>> within = checks["dispersion_within"]
    >>> within.meaning, within.passed
    ('variance over mean within groups', False)
    >>> round(within.observed)
    8
    >>> within.finding
    'the counts of flowers vary ... times as much within each plant as the model predicts ...'
    """

    name: str
    meaning: str
    p_value: float
    mcse: float
    observed: float
    replicated: FloatArray = field(repr=False)
    finding: str = ""
    advice: str = ""
    limit: float = LIMIT
    one_sided: bool = False
    limited: bool = False

    @property
    def passed(self) -> bool:
        """Whether the p-value is within its limits.

        A p-value of 0 or 1 is moved inwards by half a replicated data set, so that no check fails
        only because there are few replicated data sets.
        """
        p, most = min(max(self.p_value, self._least), 1 - self._least), 1 - self.limit
        if self.one_sided:
            most = 1
        return self.limit <= p <= most

    @property
    def can_fail(self) -> bool:
        """Whether the check can fail, given its limit and the number of replicated data sets."""
        return self._least < self.limit

    @property
    def _least(self) -> float:
        if not self.replicated.size:
            return 0.0
        return 0.5 / (self.replicated.size + 1)

    @property
    def p_text(self) -> str:
        """The p-value as it is printed, such as ``p = 0.0798``.

        With S replicated data sets, a p-value below 1/S cannot be distinguished from 0. It is
        printed as ``p < 0.00025`` if S is 4000.
        """
        least = SMALLEST_P
        if self.replicated.size:
            least = 1 / self.replicated.size
        if self.p_value < least:
            return f"p < {least:g}"
        if self.replicated.size and self.p_value > 1 - least:
            return f"p > {1 - least:.10g}"
        return f"p = {format_number(self.p_value)}"

    @property
    def judged(self) -> Check:
        """The check, as a part of the verdict."""
        relation, threshold = "≤", 1 - self.limit
        if self.one_sided or self.p_value < 0.5:
            relation, threshold = "≥", self.limit
        source = "Gelman, Meng and Stern (1996)"
        if self.name == LOO_PIT:
            source = "Gabry et al. (2019)"
        return Check(
            *(self.name, self.p_value, threshold, relation, self.passed, ""),
            *(source, self.advice),
            f"{self.finding} ({self.name}, {self.p_text})",
            limited=self.limited,
        )


@dataclass(frozen=True, eq=False, repr=False)
class PredictiveChecks(Result):
    """All predictive checks of a fit.

    Attributes
    ----------
    fit : Fit
        The fit.
    checks : tuple of PredictiveCheck
        The checks: one for each statistic, then those for patterns, groups and PITs.
    groups : GroupMeans or None
        Observed and replicated means of each group; None if the rows are not grouped.
    pit : LooPit or None
        PITs from leave-one-out prediction; None if the program has no ``log_lik``.
    num_replicates : int
        Number of replicated data sets.
    notes : tuple of str
        What was left out, and other limitations of the checks.

    See Also
    --------
    pyflowers.check : Compute predictive checks.
    pyflowers.plots.predictive_checks : Draw them.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> checks = pyflowers.check(fit)
    >>> checks.passed, checks.failed
    (True, ())
    >>> checks.table().loc["zeros":"maximum", ["observed", "5%", "95%", "p_value"]].round(1)
             observed   5%   95%  p_value
    check
    zeros         0.1  0.0   0.2      0.2
    maximum      10.0  7.0  16.0      0.6
    """

    holds: ClassVar[str] = "checks"

    fit: Fit
    checks: tuple[PredictiveCheck, ...]
    groups: GroupMeans | None
    pit: LooPit | None
    num_replicates: int
    notes: tuple[str, ...]

    @property
    def failed(self) -> tuple[PredictiveCheck, ...]:
        """The checks that fail, unless they concern only predictions of single values."""
        return tuple(check for check in self.checks if not check.passed and not check.limited)

    @property
    def limited(self) -> tuple[PredictiveCheck, ...]:
        """The checks that fail, but do not concern averages and effects.

        There are none if any other check fails. They are the checks of the largest and smallest
        values, if the model predicts values beyond them; of differences in spread that are too
        small to matter for averages; and, if the values are bounded, of their distribution
        (``loo_pit``), except for heavy tails.
        """
        return tuple(check for check in self.checks if check.limited)

    @property
    def of_pits(self) -> PredictiveCheck | None:
        """The check of the PITs; None if there are no PITs."""
        return next((check for check in self.checks if check.name == LOO_PIT), None)

    @property
    def passed(self) -> bool:
        """Whether no check fails; checks that are limited do not count."""
        return not self.failed

    @property
    def verdict(self) -> Verdict:
        """The verdict on the fit, with the results of those checks that can fail."""
        judged = tuple(each.judged for each in self.checks if each.can_fail)
        num, num_limited = len(judged), len(self.limited)
        checks = "the predictive check"
        if num > 1:
            checks = f"all {num} predictive checks"
        if num_limited:
            checks = f"{num - num_limited} of {num} predictive checks"
        claim = f"the data pass {checks}"
        if is_binary(self.fit) and {each.name for each in self.checks} <= {"mean", LOO_PIT}:
            claim = "the model reproduces the mean of the data, which nearly every model does"
        denial = "the model does not reproduce the data"
        note = ""
        if not judged:
            note = "with so few replicated data sets, no check can fail"
        note = self.fit.model.unjudged or note
        return self.fit.verdict.also(Part("data", judged, note, claim, denial, self._limits))

    @property
    def _limits(self) -> str:
        """Which predictions of single values cannot be used, in words."""
        failed = {each.name for each in self.limited}
        ends = [word for name, word in _ENDS.items() if name in failed]
        near = f"near the {' and '.join(ends)} {self.fit.data.value_name}"
        if failed <= _ENDS.keys():
            return f"predictions of single values {near} are wrong"
        if ends:
            return f"predictions of single values are rough, and wrong {near}"
        return "predictions of single values are rough"

    def table(self) -> pd.DataFrame:
        """Return a row for each check: observed and replicated values, p-value and its mcse.

        The replicated values are summarised by their median and by the fit's interval.
        """
        probs = interval_quantiles(self.fit.interval)
        rows = {}
        for check in self.checks:
            replicated = check.replicated
            if not replicated.size:
                replicated = np.array([np.nan])
            quantiles = np.quantile(replicated, list(probs.values()))
            rows[check.name] = {
                "observed": check.observed,
                **dict(zip(probs, quantiles, strict=True)),
                "p_value": check.p_value,
                "mcse": check.mcse,
                "passed": check.passed,
            }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("check")

    def contents(self) -> list[Line]:
        """Return the table, its notes, and the verdict."""
        table = self.table().drop(columns="mcse")
        table["p_value"] = [c.p_text.removeprefix("p ").removeprefix("= ") for c in self.checks]
        if self.fit.model.unjudged:
            table = table.drop(columns="passed")
        return [
            self.fit.heading,
            in_file(table, "checks.csv"),
            *(f"note: {note}" for note in self.notes),
            self.verdict.line,
            f"replicated data sets: {self.num_replicates}",
        ]

    def files(self) -> dict[str, pd.DataFrame]:
        """Return the table by file name."""
        return {"checks.csv": self.table()}

    def to_dict(self) -> dict[str, Any]:
        """Return the checks as plain values, for JSON."""
        of_checks = [
            {
                **row,
                "finding": each.finding,
                "advice": each.advice,
                "command": each.judged.command,
            }
            for row, each in zip(records_of(self.table()), self.checks, strict=True)
        ]
        pit = None
        if self.pit is not None:
            pit = self.pit.to_dict()
        return {
            **self.fit.identity(),
            "num_replicates": self.num_replicates,
            "passed": self.passed,
            "verdict": self.verdict.to_dict(),
            "checks": of_checks,
            "pit": pit,
            "notes": list(self.notes),
        }


def check(
    fit: Fit,
    statistics: Sequence[str | Callable[[FloatArray], float]] = (),
    *,
    seed: int | None = None,
    replicates: int | None = None,
    interval: float | None = None,
    time: str | Sequence[float] | NDArray[Any] | None = None,
) -> PredictiveChecks:
    """Check whether the model would produce data like the observed data.

    Parameters
    ----------
    fit : Fit
        A fit of a program with ``y_rep``, to observed data.
    statistics : sequence of str or callable
        More statistics to check: names of :data:`pyflowers.analysis.STATISTICS`,
        ``module:function``, ``file.py:function``, or functions of one data set, shape (N,), that
        return a number. A module or file that is named is imported, which runs its code.
    seed : int, optional
        Seed for the replicated data. Default: the fit's seed.
    replicates : int, optional
        Number of replicated data sets, at least 200, from evenly spaced draws. Default: one for
        each draw.
    interval : float, optional
        Probability of the interval of replicated values. Default: the fit's.
    time : str or array of shape (N,), optional
        The column that orders the rows in time, or its values, for programs that declare a
        prediction. A column that the program does not use is read from the file of the fitted
        table.
        Default: the order of the rows in the table.

    Returns
    -------
    PredictiveChecks
        The checks, their table and the verdict.

    Raises
    ------
    ConfigError
        If the program has no ``y_rep``, nothing is observed, a statistic cannot be computed,
        `seed`, `replicates` or `interval` is out of its range, or `time` cannot be used.
    DataError
        If the table has no column `time`, or its file has changed.

    See Also
    --------
    pyflowers.plots.predictive_checks : Draw the checks.
    pyflowers.loo : Compare models by their predictions.

    References
    ----------
    Gelman, Meng and Stern (1996), Posterior predictive assessment of model fitness via realized
    discrepancies, Statistica Sinica 6, sections 2 and 4.

    Examples
    --------
    >>> import numpy as np, pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> checks = pyflowers.check(fit, ["median", np.ptp])
    >>> checks.table().loc[["median", "ptp"], ["observed", "5%", "95%", "passed"]]
            observed   5%   95%  passed
    check
    median       5.0  3.0   6.5    True
    ptp         10.0  6.0  15.0    True
    >>> checks.passed
    True
    """
    fit = checked_fits([fit], "check")[0].with_interval(interval)
    fit.program.require(Capability.Y_REP)
    fit.program.require(Capability.OBSERVED)
    if not fit.data.num_obs:
        raise ConfigError(f"check: {fit.called} was fitted without observations; fit it to data")
    order = fit.model.in_time
    if time is not None:
        order = _order(fit, time)
    if replicates is not None:
        whole_number("replicates", replicates, at_least=FEWEST_REPLICATES)
    chosen = fit.options
    if seed is not None:
        chosen = SamplerOptions.of(seed=seed)
    rng = np.random.default_rng([chosen.seed, 3])
    positions = evenly(fit.num_chains * fit.num_draws, replicates)
    labels = fit.data.by_group
    by_group = Groups.of(labels, fit.data.num_obs, fit.program.counts)
    wanted = _statistics(fit, by_group, statistics)
    of_means: Function | None = by_group.means
    if fit.model.has_columns or fit.model.quantile:
        of_means = None
    functions: list[Function] = [each.function for each in wanted]
    if of_means is not None:
        functions.append(of_means)
    values = _of_replicates(functions, replicates_of(fit, positions, rng))
    shape = (1, positions.size)
    if positions.size == fit.num_chains * fit.num_draws:
        shape = (fit.num_chains, fit.num_draws)
    y = fit.data.y[None]
    found = [
        _check(fit, statistic.name, statistic.meaning, statistic.function(y), its, shape)
        for statistic, its in zip(wanted, values, strict=False)  # the group means come last
    ]

    def replicated(some: NDArray[np.int64]) -> Iterator[FloatArray]:
        """Yield the same data sets each time, without advancing the generator of other checks."""
        return replicates_of(fit, positions[some], np.random.default_rng([chosen.seed, 4]))

    patterns = Patterns()
    if fit.model.quantile:
        found.append(_check_quantile(fit, positions, shape, rng))
    else:
        patterns = find_patterns(fit, replicated, positions.size, order)
    found += [_of_pattern(fit, patterns, each) for each in patterns.judged]
    notes = [
        *patterns.notes,
        *_limits(fit, found, positions.size),
        *_limits_of_quantile(fit),
        *fit.model.notes_on_replicates(),
    ]
    groups = None
    if labels is not None and of_means is not None:
        groups = GroupMeans(labels, of_means(fit.data.y[None])[0], values[-1])
        _check_groups(fit, by_group, positions, shape, rng, found, notes)
    pit = _check_pit(fit, rng, found, notes)
    if first := answer(fit, patterns):
        for i, each in enumerate(found):
            if _follows(fit, each, patterns):
                found[i] = replace(each, advice=first)
            elif each.advice.startswith(CUT_OFF) and not patterns.steps:
                found[i] = replace(each, advice=unless_cut_off(first))
    found = _limited(fit, found, patterns, pit)
    given = list[str]()
    if any(each.advice for each in found):
        given = [each.command for part in fit.verdict.parts for each in part.checks]
    for i, each in enumerate(found):
        found[i] = replace(each, advice=fit.advised(each.advice, given))
        given.append(found[i].judged.command)
    if fit.model.unjudged:  # the checks count each row once, the likelihood does not
        found = [replace(each, limit=0.0, advice="", limited=False) for each in found]
    return PredictiveChecks(fit, tuple(found), groups, pit, int(positions.size), tuple(notes))


def _statistics(fit: Fit, by_group: Groups, statistics: Sequence[Any]) -> list[Statistic]:
    """Return the usual and the requested statistics, including statistics of groups and times."""
    usual = usual_statistics(fit)
    wanted = find_statistics(statistics, usual)
    if fit.model.has_categories:
        is_counted = fit.model.has_columns
        shares = shares_of(fit.model.categories, is_counted=is_counted)
        num = len(shares)
        if is_counted and fit.data.num_obs > 1:
            rows = Groups.of_rows(fit.data.num_obs)
            between = partial(rows.of_counts, num=num)
            meaning = "differences in shares between rows"
            shares.append(Statistic("shares_of_rows", between, meaning))
        if 1 < by_group.sizes.size < fit.data.num_obs:
            between = partial(by_group.of_counts if is_counted else by_group.of_shares, num=num)
            meaning = "differences in shares between groups"
            shares.append(Statistic("shares_between", between, meaning))
        return [*shares, *wanted]
    if fit.model.quantile:
        return wanted
    if 1 < by_group.sizes.size < fit.data.num_obs:
        name, meaning = "sd_within", "standard deviation within groups"
        if fit.program.counts and usual != OF_RATINGS:
            name, meaning = "dispersion_within", "variance over mean within groups"
        wanted.append(Statistic(name, by_group.within, meaning))
    if fit.data.by_time is not None:
        pairs = by_group.consecutive(fit.data.by_time.codes)
        if pairs.size:
            lagged = partial(by_group.autocorrelation, pairs=pairs)
            wanted.append(Statistic("autocorrelation", lagged, "autocorrelation at lag 1"))
    return wanted


def _limits(fit: Fit, found: Sequence[PredictiveCheck], num: int) -> Iterator[str]:
    """Yield notes if the values are binary, or if there are too few replicated data sets."""
    if is_binary(fit):
        but = ""
        if any(its.name.endswith("_within") for its in found):
            but = ", except within groups"
        yield (
            f"the values of {fit.data.value_name} are 0 and 1, so their spread is not checked"
            f"{but}; to see whether a covariate or a group is missing, add it and compare the "
            "models with pyflowers loo"
        )
    least = round(0.5 / min((each.limit for each in found), default=LIMIT))
    if num < least:
        sets = counted(num, "replicated data set")
        yield f"with {sets}, some checks cannot fail; at least {least} are needed"


def _limits_of_quantile(fit: Fit) -> Iterator[str]:
    """Yield a note on what is not checked if the likelihood is used only to estimate a quantile."""
    if fit.model.quantile:
        yield (
            f"the likelihood of {fit.model.family.name} is used to estimate a quantile and does "
            f"not describe the spread or the shape of {fit.data.value_name}, so only the share "
            "of the values below the quantile is checked"
        )


def _check_quantile(
    fit: Fit, positions: NDArray[np.int64], shape: tuple[int, int], rng: np.random.Generator
) -> PredictiveCheck:
    """Return the check of the share of observations below their fitted quantile."""
    family, every = fit.model.family, fit.model.predictor_of(fit.draws)

    def shares(draws: Draws, rng: np.random.Generator) -> FloatArray:
        """Return the shares of observed and of replicated values below the quantile, by draw."""
        limit = family.described(replace(every, draws=draws).linear())
        sets = fit.data.y, fit.model.y_rep(draws, rng)
        return np.stack([(y < limit).mean(axis=2) for y in sets], axis=2)

    observed, replicated = np.concatenate([*replicates_of(fit, positions, rng, shares)]).T
    quantile = float(np.mean(every.parameters[fit.model.quantile]))
    meaning = f"share below the fitted {100 * quantile:g}% quantile"
    return _check(fit, BELOW_QUANTILE, meaning, observed, replicated, shape)


def _of_replicates(
    functions: Sequence[Function], replicates: Iterable[FloatArray]
) -> list[FloatArray]:
    """Return each function's values for all replicated data sets, which are drawn in blocks."""
    parts = [[function(y_rep) for function in functions] for y_rep in replicates]
    return [np.concatenate(each) for each in zip(*parts, strict=True)]


def _check(
    fit: Fit,
    name: str,
    meaning: str,
    of_data: FloatArray,
    replicated: FloatArray,
    shape: tuple[int, int],
    who: str = "",
    limit: float = LIMIT,
) -> PredictiveCheck:
    """Return a check with its p-value, Monte Carlo error, finding and advice.

    `of_data` is the statistic of the data. Its shape is (1,), or (S,) if it depends on the draw.
    """
    above = (replicated > of_data) + 0.5 * (replicated == of_data)
    p, observed, mcse = float(above.mean()), float(np.median(of_data)), np.nan
    if 0 < p < 1:
        mcse = float(convergence.mcse_mean(above.reshape(*shape, 1))[0])
    found = PredictiveCheck(name, meaning, p, mcse, observed, replicated, limit=limit)
    if found.passed:
        return found
    finding, advice = of_statistic(fit, name, meaning, observed, replicated, who)
    return replace(found, finding=finding, advice=advice)


def _follows(fit: Fit, check: PredictiveCheck, patterns: Patterns) -> bool:
    """Return whether a failure may have the same cause as a pattern of residuals.

    Unequal spread does not explain why values end at a limit, and nothing but another family
    explains why there are only a few different values.
    """
    is_rating = len(np.unique(fit.data.y)) <= MOST_RATINGS
    ends = EDGES in check.advice and (is_rating or not patterns.steps)
    return not check.passed and check.name in _OF_ROWS and not ends


def _limited(
    fit: Fit, found: list[PredictiveCheck], patterns: Patterns, pit: LooPit | None
) -> list[PredictiveCheck]:
    """Mark the failed checks as limited if none of them concerns averages and effects.

    This requires that the mean was examined along covariates and does not depend on the tails.
    """
    failed = [each for each in found if not each.passed]
    if not fit.model.has_rule or not failed or fit.model.family.compares_logs:
        return found
    # The p-value of the minimum is low, and that of the maximum high, if the model predicts values
    # beyond the observed ones.
    outward = {each.name: each.p_value for each in found if each.name in _ENDS}
    if "minimum" in outward:
        outward["minimum"] = 1 - outward["minimum"]
    if min(outward.values(), default=1.0) < OUTLYING or (pit is not None and pit.has_heavy_tails):
        return found
    sizes = {each.pattern.name: each.size for each in patterns.judged}
    ends = {each.name: each for each in failed if each.name in outward}
    if any(np.mean(fit.data.y == end.observed) > MOST_AT_END for end in ends.values()):
        return found
    marked = []
    for each in found:
        size = sizes.get(each.name, np.nan)
        if each.passed:
            marked.append(each)
        elif size <= SMALL_SPREAD:
            finding = f"{each.finding}; after allowing for chance, it differs by about {size:.0%}"
            marked.append(replace(each, limited=True, finding=finding))
        elif each.name in ends:
            marked.append(replace(each, limited=True))
        elif each.name == LOO_PIT and ends:
            # Bounded values lack long tails, so their whole distribution differs from the model's.
            advice = next(iter(ends.values())).advice
            marked.append(replace(each, limited=True, advice=advice))
        else:
            return found
    return marked


def _order(fit: Fit, time: str | Sequence[float] | NDArray[Any]) -> tuple[str, FloatArray]:
    """Return the name of the time, and its value in each row."""
    table = fit.data.table
    if not fit.model.has_rule or table is None:
        raise ConfigError(
            f"time: {fit.called} declares no prediction of rows, so their order cannot be checked; "
            "leave out the option time"
        )
    if not isinstance(time, str):
        values = np.asarray(time, dtype=float)
        if values.shape != (len(table),):
            raise ConfigError(
                f"time has the shape {values.shape}, but there are {len(table)} rows; give one "
                "time for each row"
            )
        return "time", values
    if time not in table.cells:
        table = _whole_table(fit, time)
    if table.is_factor(time):
        return time, table.labels(time, order="value").codes.astype(float)
    return time, table.numbers(time)


def _whole_table(fit: Fit, column: str) -> Table:
    """Return the rows of a fit with all columns of their file, not only the columns that it uses.

    Raises
    ------
    DataError
        If there is no such file or column, or the file has changed.
    """
    used, source = fit.data.table, fit.record.data.source
    assert used is not None
    if not source or not table_path(source).is_file():
        raise DataError(
            f"{used.source}: the fit has no column {column!r}, and there is no file to read it "
            "from; in Python, give the values as time=frame[...]"
        )
    reading = {name: fit.record.data.reading.get(name) for name in ("sep", "encoding")}
    decimal = fit.record.data.reading.get("decimal", ".")
    whole = read_table(source, decimal=decimal, **reading)
    places = {int(row): i for i, row in enumerate(whole.rows)}
    if set(used.rows.tolist()) <= places.keys():
        found = whole.at(np.array([places[int(row)] for row in used.rows]))
        value = fit.data.value_name
        if value in found.cells and found.texts(value).tolist() == used.texts(value).tolist():
            found.column(column)
            return found
    raise DataError(f"{source} has changed since the fit; refit, and check the new fit")


def _of_pattern(fit: Fit, patterns: Patterns, judged: Judged) -> PredictiveCheck:
    """Return the check of a pattern of residuals."""
    pattern, p = judged.pattern, judged.p_value
    num = judged.replicated.size
    mcse = np.nan
    if 0 < p < 1:
        mcse = float(np.sqrt(p * (1 - p) / num))
    found = PredictiveCheck(
        *(pattern.name, pattern.meaning, p, mcse, judged.observed, judged.replicated),
        limit=PATTERN_LIMIT,
        one_sided=True,
    )
    if found.passed:
        return found
    finding, advice = of_pattern(fit, patterns, judged)
    return replace(found, finding=finding, advice=advice)


def _check_groups(
    fit: Fit,
    by_group: Groups,
    positions: NDArray[np.int64],
    shape: tuple[int, int],
    rng: np.random.Generator,
    found: list[PredictiveCheck],
    notes: list[str],
) -> None:
    """Add the check of groups against their population, if the program has one."""
    labels = fit.data.by_group
    if labels is None or labels.column not in fit.model.groups or fit.model.has_categories:
        return
    if len(labels) < 3:
        notes.append(f"{GROUP_OUTLIER} is left out: it needs at least three groups")
        return
    make = partial(fit.model.y_of_new_groups, labels.column)
    most = max(FEWEST_REPLICATES, MOST_GROUPED // fit.data.num_obs)
    if most < positions.size:
        notes.append(f"{GROUP_OUTLIER}: only {most} data sets with new groups are replicated")
        positions, shape = positions[evenly(positions.size, most)], (1, most)
    try:
        (values,) = _of_replicates([by_group.outlier], replicates_of(fit, positions, rng, make))
    except ConfigError as error:  # a group cannot be drawn from a flat prior
        notes.append(f"{GROUP_OUTLIER} is left out: {error}")
        return
    meaning = f"distance of the most distant {labels.column}"
    means = by_group.comparable_means(fit.data.y[None])[0]
    label = labels.names[int(np.argmax(np.abs(means - means.mean())))]
    who = label
    if not labels.are_titles:
        who = f"{labels.column} {label}"
    of_data = by_group.outlier(fit.data.y[None])
    found.append(_check(fit, GROUP_OUTLIER, meaning, of_data, values, shape, who))


def _check_pit(
    fit: Fit, rng: np.random.Generator, found: list[PredictiveCheck], notes: list[str]
) -> LooPit | None:
    """Add the check of the PITs, if the program has a pointwise likelihood."""
    if fit.model.quantile:
        return None
    if not fit.program.can(Capability.LOG_LIK):
        why = f"as the program has no log_lik: {Capability.LOG_LIK.remedy}"
        notes.append(f"{LOO_PIT} is left out, {why}")
        return None
    if fit.model.has_categories:
        notes.append(f"{LOO_PIT} is left out, as the categories have no order")
        return None
    num_draws = fit.num_chains * fit.num_draws
    inside = np.flatnonzero(fit.is_in_likelihood)
    if inside.size < fit.data.num_obs:
        num_out, rows_are = fit.data.num_obs - inside.size, "rows are"
        if num_out == 1:
            rows_are = "row is"
        notes.append(
            f"{num_out} {rows_are} held out of the likelihood: {LOO_PIT} leaves out such rows, "
            "and the other checks include them"
        )
    if not inside.size:
        return None
    rows = inside[evenly(inside.size, max(1, MOST_VALUES // num_draws))]
    log_lik = fit.model.log_lik(fit.draws, rows)
    y_rep = fit.model.y_rep(fit.draws, rng, rows)
    log_weights, k_hat = held_out_weights(fit, log_lik)
    weights = np.exp(log_weights)
    replicated, y = np.moveaxis(y_rep, -1, 0).reshape(rows.size, -1), fit.data.y[rows, None]
    below = np.sum(weights, axis=1, where=replicated < y)
    equal = np.sum(weights, axis=1, where=replicated == y)
    values = np.clip(below + rng.random(rows.size) * equal, 0, 1)
    pit = LooPit(values, rows, inside.size, num_draws, k_hat, good_k(num_draws))
    words = "", ""
    if pit.p_value < PIT_LIMIT:
        words = of_pits(fit, pit.values, pit.band.points)
    about = (LOO_PIT, "PITs of leave-one-out prediction", pit.p_value, np.nan, np.nan, np.empty(0))
    found.append(PredictiveCheck(*about, *words, PIT_LIMIT, one_sided=True))
    if pit.values.size < inside.size:
        some = f"{pit.values.size} of {pit.num_obs} observations, evenly spaced"
        notes.append(f"{LOO_PIT}: computed for {some}")
    if pit.num_bad:
        notes.append(f"{LOO_PIT}: {_on_k_hat(pit)}")
    return pit


def _on_k_hat(pit: LooPit) -> str:
    """Return a note on PITs with a large k-hat, and on whether a failure depends on them."""
    bad = pit.k_hat > pit.good_k
    why = f"k-hat above {pit.good_k:.2f}: influential rows"
    if np.isinf(pit.k_hat[bad]).all():
        why = "too few different draws"
    found = (
        f"for {pit.num_bad} of {pit.values.size} observations the LOO check is approximate "
        f"({why}); this concerns LOO only, not estimates and effects"
    )
    rest = pit.values[~bad]
    if pit.p_value >= PIT_LIMIT or not rest.size:
        return found
    if ecdf.p_value(rest, num_draws=pit.num_draws) < PIT_LIMIT:
        return f"{found}; without them the check fails as well"
    return f"{found}; without them the check passes, so its failure depends on them"


MOST_VALUES = 4_000_000
"""The largest number of pointwise likelihoods in memory; if there are more, only a sample of the
observations has PITs."""


@dataclass(frozen=True, eq=False)
class LooPit:
    """PITs of observations from leave-one-out prediction.

    Attributes
    ----------
    values : array, shape (n,)
        The PITs.
    rows : array of int, shape (n,)
        Positions of the observations: all of them, or an evenly spaced sample if there are many.
    num_obs : int
        Total number of observations.
    num_draws : int
        S, the number of draws from which each PIT is computed, which limits its resolution.
    k_hat : array, shape (n,)
        Pareto shape of each observation's importance weights.
    good_k : float
        The k-hat up to which a PIT can be trusted.
    """

    values: FloatArray
    rows: NDArray[np.int64]
    num_obs: int
    num_draws: int
    k_hat: FloatArray
    good_k: float

    @cached_property
    def band(self) -> ecdf.Band:
        """The simultaneous band for uniform values."""
        return ecdf.uniform_band(self.values.size, num_draws=self.num_draws, prob=BAND_PROB)

    @cached_property
    def p_value(self) -> float:
        """The probability that uniform values deviate at least as far: :func:`.ecdf.p_value`."""
        return ecdf.p_value(self.values, num_draws=self.num_draws)

    @property
    def num_bad(self) -> int:
        """The number of PITs whose k-hat is too large."""
        return int((self.k_hat > self.good_k).sum())

    @property
    def has_heavy_tails(self) -> bool:
        """Whether more values are outside their 99% intervals than chance explains."""
        share = float(np.mean(np.abs(self.values - 0.5) > 0.495))
        return bool(share > 0.01 + 3 * np.sqrt(0.01 * 0.99 / self.values.size))

    def to_dict(self) -> dict[str, Any]:
        """Return the PITs and everything else that is needed to plot them again."""
        band = {name: getattr(self.band, name) for name in ("prob", "points", "lower", "upper")}
        return {
            "values": self.values,
            "observations": self.rows + 1,
            "num_draws": self.num_draws,
            "k_hat": self.k_hat,
            "good_k": self.good_k,
            "band": band,
        }


def evenly(total: int, most: int | None) -> NDArray[np.int64]:
    """Return all positions, or `most` evenly spaced ones if there are more."""
    if most is None or most >= total:
        return np.arange(total)
    return np.linspace(0, total - 1, most).astype(np.int64)


BLOCK_VALUES = 1_000_000
"""The number of replicated values in memory at once: 8 MB, and several times as much while they are
drawn. Larger blocks are slower, because their memory is returned to the system when it is freed,
and the system provides it again page by page."""


def replicates_of(
    fit: Fit,
    positions: NDArray[np.int64],
    rng: np.random.Generator,
    make: Callable[[Draws, np.random.Generator], FloatArray] | None = None,
) -> Iterator[FloatArray]:
    """Yield replicated data sets, shape (R, N), a block at a time.

    Parameters
    ----------
    fit : Fit
        The fit, with its draws.
    positions : array of int
        The positions of the draws, one chain after the other.
    rng : Generator
        The random number generator, which the blocks use one after the other.
    make : callable, optional
        A function of (draws, rng) that returns data sets of shape (chain, draw, N). Default:
        the program's ``y_rep``.
    """
    flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in fit.draws.items()}
    step = max(1, BLOCK_VALUES // max(1, fit.data.num_obs))
    for begin in range(0, positions.size, step):
        some = positions[begin : begin + step]
        draws = {name: values[some][None] for name, values in flat.items()}
        yield (make or fit.model.y_rep)(draws, rng)[0]
