"""Posterior predictive checks, which ask whether the model would produce data like these.

For a statistic T of a data set the posterior predictive p-value is

    p = Pr(T(y_rep) > T(y) | y) + ½ Pr(T(y_rep) = T(y) | y)

where y_rep are data of the same design drawn from the model [1]_. Half of the ties count, so that
statistics of counts are treated alike on both sides. A p near 0 or 1 says that the model does not
reproduce this aspect of the data. Most such p-values are further from 0 and 1 than uniform ones
would be [2]_; of statistics that hardly depend on the parameters, such as the dispersion within
groups, they are uniform. So a limit of 0.005 at either end is crossed by at most 1% of data sets
drawn from the model.

Where rows are grouped, values are compared with the mean of their own group as well
(`dispersion_within`, `sd_within`): differences between groups would hide how much values vary
within them. Where times are known, so are values at consecutive times (`autocorrelation`).

Groups are checked as well: `group_outlier` replicates whole groups, their means drawn anew from the
population, so that one group that does not belong to it shows even where the model fits its mean.

References
----------
.. [1] Gelman, Meng and Stern (1996), Posterior predictive assessment of model fitness via realized
   discrepancies, Statistica Sinica 6, sections 2 and 4 (new groups: mixed predictive replication);
   Gelman et al. (2013), Bayesian Data Analysis, 3rd ed., section 6.3.
.. [2] Meng (1994), Posterior predictive p-values, The Annals of Statistics 22(3), section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers import convergence
from pyflowers.analysis import ecdf, findings
from pyflowers.analysis.groups import (
    GroupCodes,
    GroupMeans,
    consecutive,
    farthest,
    group_codes,
    lag_statistic,
    outlier_statistic,
    within_statistic,
)
from pyflowers.analysis.pit import BAND_PROB, LooPit, loo_pit
from pyflowers.analysis.replicates import blocks, chosen_draws
from pyflowers.analysis.statistics import FloatArray, Statistic, find_statistics
from pyflowers.data import Labels
from pyflowers.display import Line, Shown, format_number, heading, in_file, interval_quantiles
from pyflowers.engines import SamplerOptions
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit, checked_fits
from pyflowers.fits.verdict import Check as Judgement
from pyflowers.fits.verdict import Part, Verdict
from pyflowers.programs import Capability, Draws

LIMIT = 0.005
"""A p-value below it, or as near to 1, fails."""

PIT_LIMIT = 1 - BAND_PROB
"""A p-value of the PITs below it fails: they leave their band."""

SMALLEST_P = 1e-12
"""A smaller p-value of the PITs is only said to be smaller: nobody's assumptions are so exact."""

MOST_GROUPED = 1_000_000_000
"""Values of data sets with new groups; of larger data fewer such sets are replicated."""

GROUP_OUTLIER = "group_outlier"
LOO_PIT = "loo_pit"


@dataclass(frozen=True, eq=False)
class Check:
    """One predictive check.

    Attributes
    ----------
    name : str
        The statistic.
    meaning : str
        The same in words.
    p_value : float
        Its posterior predictive p-value; of ``loo_pit`` the probability of straying so far.
    mcse : float
        Monte Carlo standard error of `p_value`; missing where it cannot be estimated.
    observed : float
        T(y); missing for ``loo_pit``.
    replicated : array, shape (S,)
        T of each replicated data set; empty for ``loo_pit``.
    finding : str
        What a failed check says about the data, in words; empty if it passed.
    advice : str
        What to do then.
    """

    name: str
    meaning: str
    p_value: float
    mcse: float
    observed: float
    replicated: FloatArray = field(repr=False)
    finding: str = ""
    advice: str = ""

    @property
    def passed(self) -> bool:
        """Whether p is away from its ends; of ``loo_pit``, from 0."""
        return _passes(self.name, self.p_value)

    @property
    def p_text(self) -> str:
        """The p-value as it is printed, ``p = 0.0798``.

        S replicated data sets cannot tell one below 1/S from 0: it is ``p < 0.00025``.
        """
        least = 1 / self.replicated.size if self.replicated.size else SMALLEST_P
        if self.p_value < least:
            return f"p < {least:g}"
        if self.replicated.size and self.p_value > 1 - least:
            return f"p > {1 - least:.10g}"
        return f"p = {format_number(self.p_value)}"


@dataclass(frozen=True, eq=False, repr=False)
class PredictiveChecks(Shown):
    """All predictive checks of a fit.

    Attributes
    ----------
    fit : Fit
        What was checked.
    checks : tuple of Check
        Each statistic, groups and PITs.
    groups : GroupMeans or None
        Observed and replicated means of each group, where the rows are grouped.
    pit : LooPit or None
        PITs under leave-one-out prediction, where the program has ``log_lik``.
    num_replicates : int
        Replicated data sets.
    notes : tuple of str
        What was left out, and what qualifies the rest.
    """

    fit: Fit
    checks: tuple[Check, ...]
    groups: GroupMeans | None
    pit: LooPit | None
    num_replicates: int
    notes: tuple[str, ...]

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that fail."""
        return tuple(check for check in self.checks if not check.passed)

    @property
    def of_pits(self) -> Check | None:
        """The check of the PITs, where there are some."""
        return next((check for check in self.checks if check.name == LOO_PIT), None)

    @property
    def passed(self) -> bool:
        """Whether all checks pass."""
        return not self.failed

    @property
    def verdict(self) -> Verdict:
        """The verdict on the fit, with what these checks found of the data."""
        claim = f"the model reproduces the data in these {len(self.checks)} respects"
        return self.fit.verdict.also(Part("data", tuple(map(_judged, self.checks)), claim=claim))

    def table(self) -> pd.DataFrame:
        """Return a row for each check: observed, median and interval of replicated values, p, mcse.

        The interval is the fit's.
        """
        probs = interval_quantiles(self.fit.interval)
        rows = {}
        for check in self.checks:
            replicated = check.replicated if check.replicated.size else np.array([np.nan])
            quantiles = np.quantile(replicated, list(probs.values()))
            rows[check.name] = {
                "observed": check.observed,
                **dict(zip(probs, quantiles, strict=True)),
                "p_value": check.p_value,
                "mcse": check.mcse,
                "passed": check.passed,
            }
        table = pd.DataFrame.from_dict(rows, orient="index")
        table.index.name = "check"
        return table

    def contents(self) -> list[Line]:
        """Return the table, its notes, and the verdict."""
        table = self.table()
        shown = [each.p_text.removeprefix("p ").removeprefix("= ") for each in self.checks]
        table["p_value"] = shown
        return [
            heading(self.fit.name, self.fit.program.about),
            in_file(table, "checks.csv"),
            *(f"note: {note}" for note in self.notes),
            self.verdict.line,
            f"replicated data sets: {self.num_replicates}",
        ]


def _judged(found: Check) -> Judgement:
    """Return a check as the verdict has it."""
    limit = PIT_LIMIT if found.name == LOO_PIT else LIMIT
    relation, threshold = ("≥", limit) if found.p_value < 0.5 else ("≤", 1 - limit)
    return Judgement(
        *(found.name, found.p_value, threshold, relation, found.passed, ""),
        *(
            "Gelman, Meng and Stern (1996)",
            found.advice,
            f"{found.finding} ({found.name}, {found.p_text})",
        ),
    )


def check(
    fit: Fit,
    statistics: Sequence[str | Callable[[FloatArray], float]] = (),
    *,
    seed: int | None = None,
    replicates: int | None = None,
    interval: float | None = None,
) -> PredictiveChecks:
    """Check whether a model would produce data like those that it was fitted to.

    Parameters
    ----------
    fit : Fit
        Of a program with ``y_rep`` and observed data.
    statistics : sequence of str or callable
        What to check besides the usual: names of :data:`~.statistics.STATISTICS`,
        ``module:function``, or functions of one data set, shape (N,), that return a number.
    seed : int, optional
        Of the replicated data; that of the fit by default.
    replicates : int, optional
        Replicated data sets, evenly spaced over the draws; all draws by default.
    interval : float, optional
        Probability of the interval of replicated values; that of the fit by default.

    Raises
    ------
    ConfigError
        If the program has no ``y_rep``, nothing is observed, or a statistic cannot be computed.
    """
    fit = checked_fits([fit], "check")[0].with_interval(interval)
    fit.program.require(Capability.Y_REP)
    fit.program.require(Capability.OBSERVED)
    if not fit.data.num_obs:
        raise ConfigError(f"check: {fit.name} was fitted without observations; fit it to data")
    whole = isinstance(replicates, int | np.integer) and not isinstance(replicates, bool)
    if replicates is not None and not (whole and replicates >= 2):
        raise ConfigError(f"replicates must be a whole number of at least 2, was {replicates!r}")
    chosen = fit.options if seed is None else SamplerOptions.of(seed=seed)
    rng = np.random.default_rng([chosen.seed, 3])
    positions = chosen_draws(fit, replicates)
    labels = fit.data.by_group
    codes = group_codes(labels, fit.data.num_obs)
    wanted = [*find_statistics(statistics, fit.program.counts), *_within_groups(fit, codes)]
    values = {each.name: np.empty(positions.size) for each in wanted}
    means = np.empty((positions.size, len(labels))) if labels is not None else None

    def make(draws: Draws, rng: np.random.Generator) -> NDArray[np.float64]:
        return fit.program.y_rep(draws, fit.data, rng)

    for place, y_rep in blocks(fit, positions, make, rng):
        for each in wanted:
            values[each.name][place] = each.function(y_rep)
        if means is not None:
            means[place] = codes.means(y_rep)
    whole = positions.size == fit.num_chains * fit.num_draws
    shape = (fit.num_chains, fit.num_draws) if whole else (1, positions.size)
    found = [_check(fit, each, values[each.name], shape) for each in wanted]
    notes: list[str] = []
    groups = None
    if labels is not None and means is not None:
        groups = GroupMeans(labels, codes.means(fit.data.y[None])[0], means)
        _check_groups(fit, labels, positions, shape, rng, found, notes)
    pit = _check_pit(fit, rng, found, notes)
    return PredictiveChecks(fit, tuple(found), groups, pit, int(positions.size), tuple(notes))


def _within_groups(fit: Fit, codes: GroupCodes) -> list[Statistic]:
    """Return the statistics of values about the mean of their group."""
    found = []
    if 1 < codes.sizes.size < fit.data.num_obs:
        counts = fit.program.counts
        name = "dispersion_within" if counts else "sd_within"
        meaning = f"{'variance over mean' if counts else 'standard deviation'} within groups"
        found.append(Statistic(name, within_statistic(codes, counts), meaning))
    if fit.data.by_time is not None:
        pairs = consecutive(codes, fit.data.by_time.codes)
        if pairs.size:
            statistic = lag_statistic(codes, pairs)
            found.append(Statistic("autocorrelation", statistic, "autocorrelation at lag 1"))
    return found


def _passes(name: str, p: float) -> bool:
    return p >= PIT_LIMIT if name == LOO_PIT else LIMIT <= p <= 1 - LIMIT


def _check(
    fit: Fit, statistic: Statistic, replicated: FloatArray, shape: tuple[int, int], who: str = ""
) -> Check:
    """Return a check with its p-value, the error that the draws leave in it, and its words."""
    name, meaning = statistic.name, statistic.meaning
    observed = float(statistic.function(fit.data.y[None])[0])
    above = (replicated > observed) + 0.5 * (replicated == observed)
    p = float(above.mean())
    mcse = float(convergence.mcse_mean(above.reshape(*shape, 1))[0]) if 0 < p < 1 else np.nan
    words = ("", "")
    if not _passes(name, p):
        words = findings.of_statistic(fit, name, meaning, observed, replicated, who)
    return Check(name, meaning, p, mcse, observed, replicated, *words)


def _check_groups(
    fit: Fit,
    labels: Labels,
    positions: NDArray[np.int64],
    shape: tuple[int, int],
    rng: np.random.Generator,
    found: list[Check],
    notes: list[str],
) -> None:
    """Add the check of groups against their population, where the program has one."""
    new_data = fit.program.python.new_data
    if new_data is None or new_data.new_groups is None:
        return
    refused = new_data.no_new_group(fit.data)
    if refused or len(labels) < 3:
        notes.append(f"{GROUP_OUTLIER} is left out: {refused or 'it needs at least three groups'}")
        return
    new_groups, y_at = new_data.new_groups, new_data.y_at
    codes = group_codes(labels, fit.data.num_obs)
    statistic = outlier_statistic(codes, fit.program.counts)

    def make(draws: Draws, rng: np.random.Generator) -> NDArray[np.float64]:
        anew = new_groups(draws, fit.data, len(labels), rng)
        return y_at({**draws, **anew}, fit.data, labels.codes, rng)

    most = max(2, MOST_GROUPED // fit.data.num_obs)
    if most < positions.size:
        notes.append(f"{GROUP_OUTLIER}: {most} data sets with new groups represent all")
        positions = positions[np.linspace(0, positions.size - 1, most).astype(np.int64)]
        shape = (1, most)
    replicated = np.empty(positions.size)
    for place, y_rep in blocks(fit, positions, make, rng):
        replicated[place] = statistic(y_rep)
    meaning = f"distance of the most distant {labels.column}"
    label = labels.names[farthest(codes, fit.data.y, fit.program.counts)]
    who = label if labels.are_titles else f"{labels.column} {label}"
    found.append(_check(fit, Statistic(GROUP_OUTLIER, statistic, meaning), replicated, shape, who))


def _check_pit(
    fit: Fit, rng: np.random.Generator, found: list[Check], notes: list[str]
) -> LooPit | None:
    """Add the check of the PITs, where the program has a pointwise likelihood."""
    if not fit.program.can(Capability.LOG_LIK):
        remedy = Capability.LOG_LIK.remedy
        notes.append(f"{LOO_PIT} is left out, as the program has no log_lik: {remedy}")
        return None
    pit = loo_pit(fit, rng)
    meaning = "PITs of leave-one-out prediction"
    passed = _passes(LOO_PIT, pit.p_value)
    words = ("", "") if passed else findings.of_pits(fit, pit)
    found.append(Check(LOO_PIT, meaning, pit.p_value, np.nan, np.nan, np.empty(0), *words))
    if pit.values.size < pit.num_obs:
        notes.append(
            f"{LOO_PIT}: {pit.values.size} of {pit.num_obs} observations, evenly spaced, "
            "represent all"
        )
    if pit.num_bad:
        notes.append(f"{LOO_PIT}: {_on_k_hat(pit)}")
    return pit


def _on_k_hat(pit: LooPit) -> str:
    """Say what large k-hats mean, and whether a failure rests on their PITs."""
    found = (
        f"the PITs of {pit.num_bad} of {pit.values.size} observations are only approximate, since "
        f"each of these changes the posterior much (k-hat above {pit.good_k:.2f})"
    )
    rest = pit.values[pit.k_hat <= pit.good_k]
    if _passes(LOO_PIT, pit.p_value) or not rest.size:
        return found
    if ecdf.p_value(rest, num_draws=pit.num_draws) < PIT_LIMIT:
        return f"{found}; without them the check fails as well"
    return f"{found}; without them the check passes, so that its failure rests on them"
