"""Patterns in the residuals of a fit: in the mean, in the spread and in the order of the rows.

Data y have the standardised residuals

    e[n] = (h(y[n]) − m[n]) / s[n],        e* = e − A (A'A)⁻¹ A' e

where m and s are the posterior means of the expectation and of the standard deviation of h(y[n]), h
is the identity or, for families that are defined by the distribution of log y, the log, and A has
the columns of the design matrix and of the group effects, each multiplied by dm[n] / dη[n] / s[n].
The projection removes what the model can fit. Therefore e* hardly depends on the parameters, and
has the same distribution for data from the model as for data replicated from the fit: these are
score tests [1]_, whose distribution is simulated.

Linear patterns are sums c = W'e*, where W has the columns of terms that the model may lack, without
the part that A fits. Their statistic is c' C⁻ c, with C = W'W, divided by the mean square of the
residuals that the pattern does not explain:

    mean[x]           an effect of each bin of a covariate, or of each level
    curvature[x]      the square of a covariate
    interaction[x:z]  the products of two covariates, or of their levels
    slopes[x | g]     the effects of x in each group; the test is whether they vary [2]_

The other two kinds are

    spread[x]           the means of |e*| in quarters of a covariate, in levels or in groups, each
                        compared with its mean over the replicates (Levene's test [3]_)
    autocorrelation[x]  the products of e* for neighbours along a covariate, or for consecutive rows

All statistics are put on one scale: a sum of squares is replaced by its cube root [4]_, and
every statistic is then standardised by its mean and standard deviation over the replicates. The
p-value of a check is the share of the replicated data sets in which the statistic of any check of
this module exceeds the statistic of this check. It is adjusted for the number of checks and for
their dependence [5]_, so that a model with many covariates does not fail by chance.

If a linear pattern is found, the effects that explain it are added to A, and the checks are
repeated: checks that then pass need no other remedy. In the same way, the residuals of the data are
divided by the simplest pattern of spread that explains the other patterns of spread. Unequal spread
makes linear patterns more likely, and a wrong mean makes patterns of spread more likely. If a
remedy for the spread explains all patterns, it is the only remedy.

Spread also differs between bins by chance, especially in a family with heavier tails, and its
relation to the mean differs between families. Therefore, unequal spread is compared with that of
data sets from the alternatives that are more likely than the family (:mod:`.alternatives`). If all
values are positive, unequal spread is also looked for in their logs. As these residuals hardly
depend on the parameters, the comparison predicts whether a refit with the alternative passes.
Otherwise, the spread gets its own term: the covariate, if the residuals pass when they are divided
by an exponential function of it, or else a curve.

References
----------
.. [1] Cox and Hinkley (1974), Theoretical Statistics, section 9.3; Pregibon (1982), Score tests in
   GLIM with applications, in GLIM 82.
.. [2] Seely and El-Bassiouni (1983), Applying Wald's variance component test, The Annals of
   Statistics 11(1).
.. [3] Levene (1960), Robust tests for equality of variances, in Contributions to Probability and
   Statistics.
.. [4] Wilson and Hilferty (1931), The distribution of chi-square, PNAS 17(12).
.. [5] Westfall and Young (1993), Resampling-Based Multiple Testing, section 2.3.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.analysis.alternatives import Likely, few_draws, likely_alternatives
from pyflowers.analysis.statistics import FloatArray
from pyflowers.data.columns import number_text
from pyflowers.fits.fit import Fit
from pyflowers.programs.design import design
from pyflowers.programs.formulas.grammar import parse
from pyflowers.programs.terms import DEFAULT_SIZES, quote
from pyflowers.text import in_words

if TYPE_CHECKING:
    from scipy import sparse

IntArray = NDArray[np.int64]

LIMIT = 0.005
"""A pattern fails if its adjusted p-value is below this limit."""

MOST_REPLICATES = 1_000
"""The largest number of replicated data sets; more would not change a p-value near the limit."""

MOST_VALUES = 10_000_000
"""The largest number of residuals of replicated data sets in memory. For larger data, fewer
data sets are replicated, if necessary anew for each remedy that is tried."""

FEWEST_VALUES = 5
"""If a covariate has fewer distinct values, only the mean at each value is checked."""

FEWEST_PAIRS = 5
"""If there are fewer pairs of neighbours, autocorrelation is not checked."""

FEWEST_ROWS = 3
"""The spread of a level or group with fewer rows is not compared."""

MOST_BINS = 10

MOST_COLUMNS = 30
"""The largest number of columns of an interaction."""

MOST_PAIRS = 45
"""The largest number of pairs of covariates whose interaction is checked."""

FARTHEST = 4.0
"""Residuals are limited to this many standard deviations, so that a single outlier, which other
checks find, does not count as a pattern."""

FEWEST_REPLICATES = 200
"""If there are fewer replicated data sets, no remedy is sought."""

MOST_STEPS = 3
"""The largest number of terms in a remedy."""

FEWEST_FOR_CURVE = 7
"""If a covariate has fewer distinct values, the remedy for a curve is a mean for each value."""

FEWEST_KNOTS = DEFAULT_SIZES["s"]
"""The number of knots of ``s(x)``."""

LOGNORMAL = "lognormal"
"""The family of values whose logs are normal."""

SMALLEST = 0.1
"""The smallest root mean square of residuals by which statistics are divided."""

SMALLEST_RANGE = 1e-9
"""The statistics of a pattern in several data sets count as equal if their range, relative to the
largest of them if this is above 1, is at most this value."""

NUM_DRAWS, FEWEST_DRAWS = 100, 8
"""The number of draws from which expectations and standard deviations are computed, and the
smallest number, for large data."""

MOST_AT_ONCE = 1_000_000
"""The largest product of rows and draws that are used, unless `FEWEST_DRAWS` draws exceed it."""

_ROUNDING = 1e-4

SMALL_WEIGHT = 1e-6
"""For rows with smaller weights, the contribution of further terms to the linear predictor is 0."""

ROWS = "rows"
"""The name that stands for the order of the rows in the table."""

STRUCTURAL = ("mean", "curvature", "interaction", "slopes")
"""Kinds of patterns that another linear predictor would explain, unlike patterns in the errors."""


@dataclass(frozen=True, eq=False)
class Pattern:
    """A statistic of the residuals that detects one kind of pattern.

    Attributes
    ----------
    kind : str
        ``mean``, ``curvature``, ``interaction``, ``slopes``, ``spread`` or ``autocorrelation``.
    columns : tuple of str
        The columns of the table, or :data:`ROWS`.
    statistic : callable
        Function of residuals, shape (R, N), that returns a number for each data set, or for each
        data set and bin.
    weights : matrix or None
        For linear patterns, the columns that would explain the pattern, shape (N, k).
    is_signed : bool
        Whether both tails count. For autocorrelation, only the upper tail counts, because
        alternation does no harm.
    bins : tuple of str
        The names of the bins, for a statistic with a value for each bin.
    where : array of int or None
        The bin of each row; -1 for none.
    """

    kind: str
    columns: tuple[str, ...]
    statistic: Callable[[FloatArray], FloatArray]
    weights: Any = None
    is_signed: bool = False
    bins: tuple[str, ...] = ()
    where: IntArray | None = None

    @property
    def name(self) -> str:
        """The name of the check."""
        separator = " | " if self.kind == "slopes" else ":"
        return f"{self.kind}[{separator.join(self.columns)}]"

    @property
    def meaning(self) -> str:
        """The statistic in words."""
        x = self.columns[0]
        return {
            "mean": f"χ² of the mean along {x}",
            "curvature": f"curvature along {x}",
            "interaction": f"χ² of the products of {in_words(self.columns)}",
            "slopes": f"spread of the effects of {x} by {self.columns[-1]}",
            "spread": f"χ² of the spread along {x}",
            "autocorrelation": f"autocorrelation along {x}",
        }[self.kind]


@dataclass(frozen=True, eq=False)
class Judged:
    """A pattern with its p-value.

    Attributes
    ----------
    pattern : Pattern
        The pattern.
    observed : float
        Its statistic for the data.
    replicated : array, shape (R,)
        Its statistic for the replicated data sets.
    p_value : float
        The share of the replicated data sets in which any pattern is at least as strong; see the
        docstring of the module.
    strength : float
        The number of standard deviations by which the statistic exceeds its mean over the
        replicates.
    by_bin : array, shape (bin,)
        For spread, the ratio of each bin's spread to the spread that the model predicts.
    size : float
        For spread, the root mean square over the rows of (ratio − 1), less the part that chance
        explains; NaN for other patterns.
    """

    pattern: Pattern
    observed: float
    replicated: FloatArray = field(repr=False)
    p_value: float
    strength: float
    by_bin: FloatArray
    size: float = float("nan")

    @property
    def passed(self) -> bool:
        """Whether the pattern is no stronger than chance explains."""
        return self.p_value >= LIMIT


@dataclass(frozen=True, eq=False)
class Step:
    """A pattern that was found, and the terms that explain it.

    Attributes
    ----------
    found : Judged
        The strongest pattern.
    term : str
        The terms, as in a formula: ``s(x)``, ``x * sex``, ``(x | g)``. Terms that explain the
        spread belong to the parameter that sets it: ``x``, ``(1 | g)``.
    """

    found: Judged
    term: str


@dataclass(frozen=True, eq=False)
class Patterns:
    """The patterns of a fit.

    Attributes
    ----------
    judged : tuple of Judged
        Each pattern, the strongest first.
    steps : tuple of Step
        The remedies for the patterns of the mean, the strongest first.
    spreads : tuple of Step
        The remedies for the patterns of spread that `steps` do not explain.
    family : str
        A family under which the spreads are equal, if they are unequal in the fit; empty if no such
        family is known.
    remaining : frozenset of str
        The names of the patterns that none of these remedies explains.
    notes : tuple of str
        What was left out, and why.
    """

    judged: tuple[Judged, ...] = ()
    steps: tuple[Step, ...] = ()
    spreads: tuple[Step, ...] = ()
    family: str = ""
    remaining: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


class Residuals:
    """Standardised residuals of data sets, and the part of them that the model can fit.

    For categories, they are residuals of the categories' numbers.

    Parameters
    ----------
    fit : Fit
        A fit of a program that declares its predictions.
    """

    def __init__(self, fit: Fit) -> None:
        model = fit.model
        self.family = model.family
        num = max(FEWEST_DRAWS, min(NUM_DRAWS, MOST_AT_ONCE // fit.data.num_obs))
        self.predictor = predictor = few_draws(fit, num)
        eta, parameters, step = predictor.linear(), predictor.parameters, 0.01
        self.eta = np.broadcast_to(eta, (1, eta.shape[1], fit.data.num_obs))[0]
        mean, variance = self.family.moments(eta, parameters)
        shape = eta.shape
        self.mean = np.broadcast_to(mean, shape)[0].mean(axis=0)
        sd = np.median(np.sqrt(np.broadcast_to(variance, shape)[0]), axis=0)
        self.sd = np.maximum(sd, 1e-9 * max(1.0, float(sd.max())))
        self.weight = self.sd  # for categories: the part that all linear predictors fit together
        if self.family.has_columns:
            self.weight = self.sd * fit.data.rows_of_y.sum(axis=1)
        if not self.family.has_categories:
            above, below = (self.family.moments(eta + by, parameters)[0] for by in (step, -step))
            slope = np.broadcast_to(above - below, shape)[0].mean(axis=0) / (2 * step)
            self.weight = slope / self.sd
        labels = model.labels  # without labels that occur only in rows with imputed predictors
        self.groups = {name: labels[name].codes for name in model.partitions}
        self.columns = [model.fixed_design() * self.weight[:, None]]
        for codes, z in model.random_designs():
            if 2 * (codes.max() + 1) <= len(codes):
                self.columns.append(_by_group(codes, z * self.weight[:, None]))
        self.num_fitted = sum(each.shape[1] for each in self.columns)

    def of(self, y: FloatArray) -> FloatArray:
        """Return standardised residuals, shape (R, N), including the part that the model fits."""
        if self.family.has_columns:
            counts = y.reshape(len(y), -1, self.family.width)
            total = counts.sum(axis=2)
            numbers = counts @ np.arange(1.0, self.family.width + 1)
            y = np.where(total > 0, numbers / np.maximum(total, 1), self.mean)
        if self.family.compares_logs:
            y = np.log(np.maximum(y, np.finfo(float).tiny))
        return np.asarray(np.clip((y - self.mean) / self.sd, -FARTHEST, FARTHEST))

    def projection(
        self, extra: Sequence[Any] = (), scale: FloatArray | None = None
    ) -> Callable[[FloatArray], FloatArray]:
        """Return a function that removes the part of residuals that the model and `extra` fit.

        The function takes residuals of shape (R, N). With a scale, shape (N,), these are residuals
        that were divided by the scale.
        """
        from scipy import linalg, sparse

        every = sparse.csr_array(sparse.hstack([*map(sparse.csr_array, (*self.columns, *extra))]))
        if scale is not None:
            every = sparse.csr_array(sparse.diags(1 / scale) @ every)
        size = np.sqrt(np.asarray(every.multiply(every).sum(axis=0)).ravel())
        every = every[:, size > 1e-10] * (1 / size[size > 1e-10])
        gram = (every.T @ every).toarray()
        # Columns may be collinear, such as an intercept and the columns of groups. The small
        # constant makes the matrix invertible, and leaves 1e-9 of the part that should be removed.
        factor = linalg.cho_factor(gram + 1e-9 * np.eye(len(gram)))
        transposed = sparse.csr_array(every.T)

        def remove(e: FloatArray) -> FloatArray:
            fitted: FloatArray = linalg.cho_solve(factor, (e @ every).T).T @ transposed
            return np.asarray(e - fitted)

        return remove


def find_patterns(
    fit: Fit,
    replicates: Callable[[IntArray], Iterator[FloatArray]],
    num: int,
    order: tuple[str, FloatArray] | None = None,
) -> Patterns:
    """Look for patterns in the residuals of a fit.

    Parameters
    ----------
    fit : Fit
        The fit.
    replicates : callable
        Function of positions from 0 to `num` − 1 that yields a replicated data set for each.
    num : int
        Number of data sets that can be replicated.
    order : (str, array of shape (N,)), optional
        Name and values of the times by which the rows are ordered. Default: the rows are in the
        order of the table.
    """
    if not fit.model.predicts_rows:
        return Patterns()
    residuals, notes = Residuals(fit), list[str]()
    most = max(FEWEST_REPLICATES, min(MOST_REPLICATES, MOST_VALUES // fit.data.num_obs))
    positions = np.linspace(0, num - 1, min(num, most)).astype(np.int64)
    remove = residuals.projection()
    patterns = list(_patterns(fit, residuals, remove, order, notes))
    if not patterns:
        return Patterns(notes=tuple(notes))
    kept = None
    if positions.size * fit.data.num_obs <= MOST_VALUES:
        kept = [residuals.of(y) for y in replicates(positions)]

    def sets() -> Iterable[FloatArray]:
        """Return the residuals of replicated data sets, a block at a time."""
        if kept is not None:
            return kept
        return (residuals.of(y) for y in replicates(positions))

    own = residuals.of(fit.data.y[None])
    some = remove(np.concatenate([own, next(iter(sets()))]))
    patterns = [each for each in patterns if _varies(each, some)]
    if not patterns:
        return Patterns(notes=tuple(notes))
    search = _Search(fit, residuals, patterns, own, sets)
    judged = _judge(patterns, remove(search.own), map(remove, sets()))
    steps, extra = list[Step](), list[Any]()
    now: Sequence[Judged] = judged
    if num >= FEWEST_REPLICATES:
        steps, extra, now = _explained(search, judged)
    remove, family = residuals.projection(extra), ""
    if not _is_equal(now) and num >= FEWEST_REPLICATES:
        family = _family_of_spread(search, remove, positions.size)
    spreads, now = _explained_spreads(search, extra, now)
    if steps and spreads:
        alone, left = _explained_spreads(search, (), judged)
        if all(each.passed for each in left if each.pattern.kind in STRUCTURAL):
            steps, spreads, now = [], alone, left
            family = _family_of_spread(search, residuals.projection(), positions.size)
    remaining = frozenset(each.pattern.name for each in now if not each.passed)
    ordered = tuple(sorted(judged, key=lambda each: -each.strength * (not each.passed)))
    return Patterns(ordered, tuple(steps), tuple(spreads), family, remaining, tuple(notes))


@dataclass(frozen=True)
class _Search:
    """The residuals of the data and of replicated data, which are searched for patterns."""

    fit: Fit
    residuals: Residuals
    patterns: list[Pattern]
    own: FloatArray
    sets: Callable[[], Iterable[FloatArray]]


def _explained(
    search: _Search, judged: Sequence[Judged]
) -> tuple[list[Step], list[Any], Sequence[Judged]]:
    """Return the terms that explain the failed patterns, with their columns.

    All patterns, as judged with these terms, are also returned.
    """
    steps, extra, now = list[Step](), list[Any](), judged
    while len(steps) < MOST_STEPS:
        failed = [each for each in now if not each.passed and each.pattern.kind in STRUCTURAL]
        if search.residuals.family.link != "identity":
            failed = _causes(failed, steps)
        if not failed:
            break
        worst = max(failed, key=lambda each: each.strength)
        term, columns, now = _remedy(search, worst, extra)
        extra.append(columns)
        steps.append(Step(worst, term))
    return steps, extra, now


def _family_of_spread(search: _Search, remove: Remove, num: int) -> str:
    """Return a family under which the spreads are equal; empty if none is known."""
    fit, residuals = search.fit, search.residuals
    # Otherwise, variation that a remedy for the mean explains would count as spread.
    explained = (residuals.projection()(search.own) - remove(search.own))[0]
    more = explained / np.where(np.abs(residuals.weight) > SMALL_WEIGHT, residuals.weight, np.inf)
    for likely in likely_alternatives(fit, residuals.predictor, more):
        others = map(remove, _sets_of(likely, fit, residuals, num))
        if _is_equal(_judge(search.patterns, remove(search.own), others)):
            return likely.family.text
    if residuals.family.is_unbounded and fit.data.y.min() > 0:
        logs = remove(np.log(fit.data.y)[None])
        equal = _judge(search.patterns, logs / logs.std(), map(remove, search.sets()))
        if all(each.passed for each in equal):
            return LOGNORMAL
    return ""


def _is_equal(judged: Iterable[Judged]) -> bool:
    """Return whether all checks for patterns of spread pass."""
    return all(each.passed for each in judged if each.pattern.kind == "spread")


def _explained_spreads(
    search: _Search, extra: Sequence[Any], now: Sequence[Judged]
) -> tuple[list[Step], Sequence[Judged]]:
    """Return the terms that explain unequal spreads, and all patterns as judged with these terms.

    The part of the residuals that a model with this spread would fit is also removed, both from the
    data and from the replicates.
    """
    steps, remove = list[Step](), search.residuals.projection(extra)
    own, again, scale = remove(search.own), remove, np.ones(search.own.shape[1])
    while not _is_equal(now) and len(steps) < MOST_STEPS:
        unequal = [each for each in now if not each.passed and each.pattern.kind == "spread"]
        spread = _spread_that_explains(search, again, own, unequal)
        term, factor = _term_of_spread(search, again, own, spread)
        steps.append(Step(spread, term))
        scale = scale * factor
        again = _both(search.residuals.projection(extra, scale), remove)
        own = again(search.own / scale)
        now = _judge(search.patterns, own, map(again, search.sets()))
    return steps, now


def _both(first: Remove, second: Remove) -> Remove:
    """Return a function that applies two functions, one after the other."""
    return lambda e: second(first(e))


def _spread_that_explains(
    search: _Search, remove: Remove, own: FloatArray, unequal: list[Judged]
) -> Judged:
    """Return the simplest pattern that explains the other unequal spreads, or the strongest one."""
    for spread in sorted(unequal, key=lambda each: each.by_bin.size):
        equal = remove(own / _ratios(spread))
        if _is_equal(_judge(search.patterns, equal, map(remove, search.sets()))):
            return spread
    return max(unequal, key=lambda each: each.strength)


def _term_of_spread(
    search: _Search, remove: Remove, own: FloatArray, spread: Judged
) -> tuple[str, FloatArray]:
    """Return the term on which the spread must depend, and the relative spread of each row."""
    fit, x = search.fit, spread.pattern.columns[0]
    table, ratios = fit.data.table, _ratios(spread)
    assert table is not None
    if x in search.residuals.groups:
        return f"(1 | {quoted_group(x)})", ratios
    if table.is_factor(x):
        return quote(x), ratios
    if x in fit.model.levels:
        return f"C({quote(x)})", ratios
    values = table.numbers(x)
    z = (values - values.mean()) / values.std()
    along = np.exp(_slope_of_log_spread(own[0], z) * z)
    now = _judge(search.patterns, remove(own / along), map(remove, search.sets()))
    if all(each.passed for each in now if each.pattern.name == spread.pattern.name):
        return quote(x), along
    if len(np.unique(values)) < FEWEST_FOR_CURVE:
        return f"C({quote(x)})", ratios
    return smooth_term(x, smooth_sizes(fit, x, "")[0]), ratios


def _slope_of_log_spread(e: FloatArray, z: FloatArray) -> float:
    """Return the most likely b for normal residuals whose sd is proportional to exp(b z)."""
    from scipy.optimize import minimize_scalar

    def loss(b: float) -> float:
        return float(0.5 * np.log(np.mean(np.square(e) * np.exp(-2 * b * z))) + b * z.mean())

    return float(minimize_scalar(loss, bounds=(-5, 5), method="bounded").x)


def _sets_of(likely: Likely, fit: Fit, residuals: Residuals, num: int) -> Iterator[FloatArray]:
    """Yield the residuals of data sets from another family, in blocks."""
    rng = np.random.default_rng([fit.options.seed, 5])
    size = max(1, min(len(residuals.eta), MOST_AT_ONCE // fit.data.num_obs))
    for first in range(0, num, size):
        rows = np.arange(first, min(first + size, num)) % len(residuals.eta)
        eta = residuals.eta[rows][None] + likely.shift
        yield residuals.of(np.asarray(fit.model.drawn(likely.family, eta, likely.values, rng))[0])


def _causes(failed: Sequence[Judged], steps: Sequence[Step]) -> list[Judged]:
    """Return the failed patterns without curves along a covariate whose effects vary by group.

    If the link is not the identity, the average of effects that vary between groups is a curve.
    """
    found = [*failed, *(step.found for step in steps)]
    varying = {each.pattern.columns[0] for each in found if each.pattern.kind == "slopes"}
    return [
        each
        for each in failed
        if each.pattern.kind not in ("mean", "curvature") or each.pattern.columns[0] not in varying
    ]


def _ratios(spread: Judged) -> FloatArray:
    """Return, for each row, the ratio of the spread in its bin to the spread under the model."""
    where = spread.pattern.where
    assert where is not None
    ratio = np.append(np.maximum(spread.by_bin, 1e-3), 1.0)  # -1 marks rows in no bin
    return np.asarray(ratio[where])


def _remedy(
    search: _Search, worst: Judged, extra: Sequence[Any]
) -> tuple[str, Any, tuple[Judged, ...]]:
    """Return the simplest terms that explain a pattern, with their columns.

    All patterns, as judged with these terms, are also returned. If no candidate explains the
    pattern, the last candidate is returned.
    """
    fit, residuals = search.fit, search.residuals
    pattern, x = worst.pattern, worst.pattern.columns[0]
    candidates: list[tuple[str, Any]] = []
    if pattern.kind in ("mean", "curvature"):
        candidates = [(t, residuals.weight[:, None] * m) for t, m in _curves(fit, x)]
    if pattern.kind == "interaction":
        candidates = [(" * ".join(map(quote, pattern.columns)), pattern.weights)]
    if pattern.kind == "slopes":
        candidates = [(f"({quote(x)} | {quoted_group(pattern.columns[1])})", pattern.weights)]
    candidates = candidates or [(f"C({quote(x)})", pattern.weights)]
    along = ("mean", "curvature", "autocorrelation")
    for term, columns in candidates:
        remove = residuals.projection([*extra, columns])
        now = _judge(search.patterns, remove(search.own), map(remove, search.sets()))
        found = term, columns, now
        same = [n for n in now if n.pattern.columns == (x,) and n.pattern.kind in along]
        if all(each.passed for each in same):
            break
    return found


def _curves(fit: Fit, x: str) -> Iterator[tuple[str, FloatArray]]:
    """Yield curves along a covariate, from the simplest to the most flexible, with their columns.

    If the formula already has a smooth of the covariate, only smooths with more knots are yielded.
    """
    table = fit.data.table
    assert table is not None
    if x in fit.model.levels:
        return
    values, name = table.numbers(x), quote(x)
    num = len(np.unique(values))
    formula = fit.program.declaration.formula
    if num < FEWEST_FOR_CURVE:
        yield f"C({name})", np.eye(num)[np.unique(values, return_inverse=True)[1]]
        return
    is_curve = formula is not None and re.search(r"\*\*2|\b(?:s|gp|bs|ns|poly)\(", formula.text)
    if not is_curve:
        z = (values - values.mean()) / values.std()
        yield square_of(fit, x), z[:, None] ** 2
    if formula is None:
        sizes = [df for df in (4, 6, 8, 12, 16, 24) if df < num - 1]
        yield from (
            (t, design(t, {x: values})[0]) for t in (f"bs({name}, df={df})" for df in sizes)
        )
        return
    for size in smooth_sizes(fit, x, formula.text):
        term = smooth_term(x, size)
        yield term, design(f"0 + {name} + {term}", {x: values})[0]


def smooth_sizes(fit: Fit, x: str, text: str) -> list[int]:
    """Return the numbers of knots that a smooth along a covariate can have.

    Parameters
    ----------
    fit : Fit
        The fit.
    x : str
        The covariate.
    text : str
        A formula, or empty. If the formula has a smooth of x, only numbers above the number of its
        knots are returned.
    """
    table, least = fit.data.table, 0
    assert table is not None
    num = len(np.unique(table.numbers(x)))
    for curve in parse(text).curves if text else ():
        if curve.function == "s" and curve.argument == quote(x) and not curve.by:
            of_curve = re.search(r"k=(\d+)", curve.call)
            least = int(of_curve[1]) if of_curve else FEWEST_KNOTS
    sizes = [min(size, num) for size in (FEWEST_KNOTS, 2 * FEWEST_KNOTS, 4 * FEWEST_KNOTS)]
    return [size for size in dict.fromkeys(sizes) if size > max(least, 3)]


def smooth_term(x: str, size: int) -> str:
    """Return a smooth along a covariate, with a number of knots if it is not the usual one."""
    if size == FEWEST_KNOTS:
        return f"s({quote(x)})"
    return f"s({quote(x)}, k={size})"


def quoted_group(name: str) -> str:
    """Return a group as a formula names it, such as ``a:b``."""
    return ":".join(map(quote, name.split(":")))


def square_of(fit: Fit, covariate: str) -> str:
    """Return a squared term for a covariate, centred at its mean if the mean is far from 0."""
    import math

    name, table = quote(covariate), fit.data.table
    assert table is not None
    x = table.numbers(covariate)
    mean = round(float(x.mean()), 1 - math.floor(math.log10(x.std())))
    sign = "-" if mean > 0 else "+"
    is_near = abs(mean) < x.std()
    return f"I({name}**2)" if is_near else f"I(({name} {sign} {number_text(abs(mean))})**2)"


def _varies(pattern: Pattern, e: FloatArray) -> bool:
    """Return whether a pattern is stronger in some data sets than in others.

    It is not if the model fits all of the pattern in each data set, or if the pattern fits all of
    the residuals; only rounding errors then differ.
    """
    found = pattern.statistic(e)
    ranges = np.ptp(found, axis=0)
    return bool(np.any(ranges > SMALLEST_RANGE * np.maximum(1.0, np.abs(found).max(axis=0))))


def _judge(
    patterns: Sequence[Pattern], own: FloatArray, replicated: Iterable[FloatArray]
) -> tuple[Judged, ...]:
    """Return patterns with their p-values, from the residuals of replicated data sets in blocks."""
    found = []
    blocks = [[pattern.statistic(e) for pattern in patterns] for e in replicated]
    for pattern, parts in zip(patterns, zip(*blocks, strict=True), strict=True):
        of_data, of_sets = pattern.statistic(own), np.concatenate(parts)
        by_bin, size = np.empty(0), np.nan
        if of_sets.ndim == 2:
            middle, scale = of_sets.mean(axis=0), of_sets.std(axis=0) + 1e-12
            by_bin = of_data[0] / np.maximum(middle, 1e-12)
            size = _size(pattern, by_bin, scale / np.maximum(middle, 1e-12))
            of_data, of_sets = (
                np.square((each - middle) / scale).sum(axis=1) for each in (of_data, of_sets)
            )
        both = np.concatenate([of_data, of_sets])
        found.append((pattern, both, _strength(pattern, both), by_bin, size))
    largest = np.max([strength[1:] for _, _, strength, *_ in found], axis=0)
    return tuple(
        Judged(
            pattern,
            float(both[0]),
            both[1:],
            float(np.mean(largest >= strength[0])),
            float(strength[0]),
            by_bin,
            size,
        )
        for pattern, both, strength, by_bin, size in found
    )


def _strength(pattern: Pattern, statistics: FloatArray) -> FloatArray:
    """Return the statistics of the data and of the replicates on a scale common to all patterns."""
    scaled = statistics
    if pattern.kind not in ("curvature", "autocorrelation"):
        scaled = np.cbrt(statistics)
    away, sd = scaled - scaled[1:].mean(), scaled[1:].std()
    if (
        sd <= _ROUNDING
    ):  # if the model and the remedies fit everything, only rounding errors are left
        return np.zeros_like(away)
    if pattern.is_signed:
        return np.asarray(np.abs(away / sd))
    return np.asarray(away / sd)


def _size(pattern: Pattern, ratio: FloatArray, error: FloatArray) -> float:
    """Return how much the spread differs between rows, less the part that chance explains."""
    assert pattern.where is not None
    share = np.bincount(pattern.where[pattern.where >= 0]) / np.sum(pattern.where >= 0)
    return float(np.sqrt(max(0.0, share @ (np.square(ratio - 1) - np.square(error)))))


Remove = Callable[[FloatArray], FloatArray]
"""Function that removes the part of residuals that the model fits."""


def _patterns(
    fit: Fit,
    residuals: Residuals,
    remove: Remove,
    order: tuple[str, FloatArray] | None,
    notes: list[str],
) -> Iterator[Pattern]:
    """Yield the patterns that a fit can have."""
    own = _Covariates.of(fit)
    linear = partial(_linear, residuals, remove)
    yield from _means(own, linear, notes)
    yield from _interactions(fit, own, linear, notes)
    yield from _slopes(fit, residuals, own.coded)
    is_binary = residuals.family.counts_successes and not residuals.family.has_trials
    if not (is_binary or residuals.family.has_categories):
        yield from _spreads(fit, residuals, own)
    yield from _autocorrelations(fit, residuals, own.numeric, order, notes)


@dataclass(frozen=True)
class _Covariates:
    """The covariates of a fit that vary, in the order of the model.

    Attributes
    ----------
    numeric : dict of str to array, shape (N,)
        The values of each numeric covariate.
    levels : dict of str to (array of int, shape (N,), sequence of str)
        The codes and the names of the levels of each factor.
    coded : dict of str to array, shape (N, columns)
        Standardised values, or an indicator of each level.
    """

    numeric: dict[str, FloatArray]
    levels: dict[str, tuple[IntArray, Sequence[str]]]
    coded: dict[str, FloatArray]

    @classmethod
    def of(cls, fit: Fit) -> _Covariates:
        """Return the covariates of a fit."""
        table, found = fit.data.table, cls({}, {}, {})
        assert table is not None
        for x in fit.model.covariates:
            if x in fit.model.levels:
                labels = table.labels(x)
                found.levels[x] = (labels.codes, labels.names)
                found.coded[x] = np.eye(len(labels.names))[labels.codes]
                continue
            values = table.numbers(x)
            if (values != values[0]).any():
                found.numeric[x] = values
                found.coded[x] = ((values - values.mean()) / values.std())[:, None]
        return found


def _linear(
    residuals: Residuals, remove: Remove, kind: str, columns: tuple[str, ...], w: FloatArray
) -> Iterator[Pattern]:
    """Yield a linear pattern, unless the model fits all of it."""
    raw = residuals.weight[:, None] * w
    rest = remove(raw.T).T
    left, size, _ = np.linalg.svd(rest, full_matrices=False)
    basis = left[:, size > 1e-4 * np.linalg.norm(raw, axis=0).max()]
    if not basis.shape[1]:
        return
    # Overdispersion is not a pattern, so sums of squares are divided by the mean square of the
    # rest. Counts in a few cells, however, are compared with the variance that follows from their
    # mean, because there would be nothing else to compare.
    is_most = basis.shape[1] > (len(raw) - residuals.num_fitted) / 2
    is_bare = residuals.family.is_discrete and is_most
    sign = np.sign(basis[:, 0] @ rest[:, 0])

    def statistic(e: FloatArray) -> FloatArray:
        along = e @ basis
        explained = np.square(along).sum(axis=1)
        if kind == "curvature":
            return np.asarray(sign * along[:, 0] / np.sqrt(_left(e, explained)))
        if is_bare:
            return np.asarray(explained)
        return np.asarray(explained / _left(e, explained))

    yield Pattern(kind, columns, statistic, raw, kind == "curvature")


Linear = Callable[[str, tuple[str, ...], FloatArray], Iterator[Pattern]]
"""Function of a kind, columns and the values of these columns that yields a linear pattern or
none."""


def _means(own: _Covariates, linear: Linear, notes: list[str]) -> Iterator[Pattern]:
    """Yield, for each covariate, the pattern of the mean along it and the pattern of curvature."""
    few = []
    for x, columns in own.coded.items():
        if x in own.levels:
            yield from linear("mean", (x,), columns)
            continue
        values = own.numeric[x]
        bins, _ = _bins(values, min(MOST_BINS, max(4, len(values) // 10)))
        yield from linear("mean", (x,), np.eye(bins.max() + 1)[bins])
        if len(np.unique(values)) < FEWEST_VALUES:
            few.append(x)
        else:
            yield from linear("curvature", (x,), columns**2)
    if few:
        notes.append(
            f"curvature and autocorrelation along {', '.join(few)} are left out: with fewer than "
            f"{FEWEST_VALUES} different values, the mean at each value is checked instead"
        )


def _interactions(
    fit: Fit, own: _Covariates, linear: Linear, notes: list[str]
) -> Iterator[Pattern]:
    """Yield an interaction pattern for each pair of covariates without one in the model."""
    pairs = [
        (one, other)
        for one, other in itertools.combinations(own.coded, 2)
        if other not in fit.model.interacting(one)
    ]
    wide = []
    for one, other in pairs[:MOST_PAIRS]:
        products = own.coded[one][:, :, None] * own.coded[other][:, None, :]
        products = products.reshape(len(products), -1)
        if products.shape[1] > MOST_COLUMNS:
            wide.append(f"{one}:{other}")
        else:
            yield from linear("interaction", (one, other), products)
    wide += [":".join(pair) for pair in pairs[MOST_PAIRS:]]
    if wide:
        notes.append(f"the interactions {', '.join(wide)} are left out: they have too many columns")


def _spreads(fit: Fit, residuals: Residuals, own: _Covariates) -> Iterator[Pattern]:
    """Yield the patterns of spread along each covariate and between groups."""
    places: dict[str, tuple[IntArray, Sequence[str]]] = {
        **{x: _bins(values, 4) for x, values in own.numeric.items()},
        **own.levels,
    }
    for name, codes in residuals.groups.items():
        if name not in own.levels:
            places[name] = (codes, fit.model.labels[name].names)
    for x, (codes, names) in places.items():
        yield from _spread(x, codes, names)


def _slopes(fit: Fit, residuals: Residuals, coded: dict[str, FloatArray]) -> Iterator[Pattern]:
    """Yield a pattern for each covariate that varies within groups but has one effect for all."""
    varying = fit.model.varying
    for g, codes in residuals.groups.items():
        num = np.bincount(codes)
        if 2 * num.size > len(codes):
            continue
        for x, w in coded.items():
            if x in varying.get(g, ()) or x == g or x in g.split(":"):
                continue
            weighted = np.square(residuals.weight)
            total = np.bincount(codes, weighted)
            means = np.stack([np.bincount(codes, weighted * c) / total for c in w.T], axis=1)
            within = w - means[codes]
            varies = np.unique(codes[(np.abs(within) > 1e-9).any(axis=1)])
            if varies.size < 3 or (x not in fit.model.levels and varies.size < num.size / 4):
                continue
            raw = _by_group(codes, within * residuals.weight[:, None])
            size = np.sqrt(np.asarray(raw.multiply(raw).sum(axis=0)).ravel())
            # With a column for each level of a factor, one column is redundant.
            share = 1.0
            if w.shape[1] > 1:
                share -= 1 / w.shape[1]
            unit = raw[:, size > 1e-9] * (np.sqrt(share) / size[size > 1e-9])

            def statistic(e: FloatArray, unit: Any = unit) -> FloatArray:
                explained = np.square(e @ unit).sum(axis=1)
                return np.asarray(explained / _left(e, explained) / unit.shape[1])

            yield Pattern("slopes", (x, g), statistic, raw)


def _spread(x: str, codes: IntArray, names: Sequence[str]) -> Iterator[Pattern]:
    """Yield the pattern of spread between bins, if at least two bins have enough rows."""
    from scipy import sparse

    num = np.bincount(codes)
    enough = np.flatnonzero(num >= FEWEST_ROWS)
    if enough.size < 2:
        return
    place = np.full(num.size, -1)
    place[enough] = np.arange(enough.size)
    where = place[codes]
    rows = np.flatnonzero(where >= 0)
    share = 1 / num[enough][where[rows]]
    means = sparse.csr_array((share, (rows, where[rows])), shape=(len(codes), enough.size))

    def statistic(e: FloatArray) -> FloatArray:
        away = np.abs(e)
        return np.asarray((away @ means) / np.maximum(away.mean(axis=1), SMALLEST)[:, None])

    labels = tuple(names[int(i)] for i in enough)
    yield Pattern("spread", (x,), statistic, bins=labels, where=where)


def _autocorrelations(
    fit: Fit,
    residuals: Residuals,
    numeric: dict[str, FloatArray],
    order: tuple[str, FloatArray] | None,
    notes: list[str],
) -> Iterator[Pattern]:
    """Yield the patterns of neighbours along covariates, and of consecutive rows."""
    table = fit.data.table
    assert table is not None
    groups = {g: c for g, c in residuals.groups.items() if len(c) >= 2 * (c.max() + 1)}
    # Neighbours are rows of the same group, in the finest grouping.
    finest = max(groups, key=lambda g: groups[g].max(), default="")
    codes = groups.get(finest, np.zeros(len(table), dtype=np.int64))
    along = {x: values for x, values in numeric.items() if len(np.unique(values)) >= FEWEST_VALUES}
    if order is not None:
        along[order[0]] = order[1]
    used = list[Any]()
    for x, values in along.items():
        neighbours = _neighbours(codes, values)
        if neighbours is None:
            notes.append(
                f"autocorrelation[{x}] is left out: there are fewer than {FEWEST_PAIRS} pairs of "
                "neighbours"
            )
            continue
        used.append(_rows_in_order(codes, values))
        yield Pattern("autocorrelation", (x,), neighbours)
    if order is not None or fit.data.by_time is not None:
        return
    rows = np.arange(len(table), dtype=float)
    in_order = _rows_in_order(codes, rows)
    if any(np.array_equal(in_order, each) for each in used):
        return
    y = fit.data.rows_of_y[:, 0]
    steps = np.diff(y[in_order])[np.diff(codes[in_order]) == 0]
    if (steps >= 0).all() or (steps <= 0).all():
        notes.append(
            f"the order of the rows is not checked, because they are sorted by "
            f"{fit.data.value_name}"
        )
        return
    neighbours = _neighbours(codes, rows)
    if neighbours is not None:
        yield Pattern("autocorrelation", (ROWS,), neighbours)


def _rows_in_order(codes: IntArray, values: FloatArray) -> IntArray:
    return np.lexsort((np.arange(len(codes)), values, codes))


def _neighbours(codes: IntArray, values: FloatArray) -> Callable[[FloatArray], FloatArray] | None:
    """Return a function that computes the autocorrelation along values; None for few pairs.

    Only neighbours in the same group are pairs. Rows of a group with the same value are one point,
    whose residual is the sum of theirs divided by the square root of their number.
    """
    from scipy import sparse

    keys = np.stack([codes, np.unique(values, return_inverse=True)[1]])
    points, place, num = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    same = np.flatnonzero(points[0, 1:] == points[0, :-1])
    if same.size < FEWEST_PAIRS:
        return None
    # Sums of n residuals, divided by √n, have the variance of one residual.
    means = sparse.csr_array((1 / np.sqrt(num)[place], (np.arange(len(codes)), place)))

    def statistic(e: FloatArray) -> FloatArray:
        at = np.asarray(e @ means)
        products = (at[:, same] * at[:, same + 1]).sum(axis=1)
        return np.asarray(products / (at.shape[1] * _scale(at)))

    return statistic


def _bins(values: FloatArray, most: int) -> tuple[IntArray, list[str]]:
    """Return the bin of each value (equal values share a bin) and the names of the bins."""
    distinct, codes = np.unique(values, return_inverse=True)
    if distinct.size > most:
        limits = np.unique(np.quantile(values, np.arange(1, most) / most))
        codes = np.unique(np.searchsorted(limits, values), return_inverse=True)[1]
    names = []
    for i in range(codes.max() + 1):
        low, high = values[codes == i].min(), values[codes == i].max()
        name = f"{low:.3g}"
        if low != high:
            name = f"{low:.3g} to {high:.3g}"
        names.append(name)
    return codes, names


def _scale(e: FloatArray) -> FloatArray:
    """Return the mean square of residuals, by which statistics are divided.

    It is at least `SMALLEST` squared, because the residuals of values that hardly vary have no
    meaning.
    """
    return np.asarray(np.maximum(np.square(e).mean(axis=1), SMALLEST**2))


def _left(e: FloatArray, explained: FloatArray) -> FloatArray:
    """Return the mean square of residuals that a pattern does not explain."""
    whole = _scale(e)
    return np.asarray(np.maximum(whole - explained / e.shape[1], 1e-3 * whole))


def _by_group(codes: IntArray, z: FloatArray) -> sparse.csr_array:
    """Return columns with the values of `z` in the rows of each group, and 0 elsewhere."""
    from scipy import sparse

    num, rows = codes.max() + 1, np.arange(len(codes))
    parts = [sparse.csr_array((c, (rows, codes)), shape=(len(codes), num)) for c in z.T]
    return sparse.csr_array(sparse.hstack(parts))
