"""Power-scaling sensitivity: which conclusions depend on the prior, and which on the likelihood.

With p(θ | y) ∝ p(y | θ) p(θ), raising a component c (the prior or the likelihood) to the power
alpha gives the importance ratios c(θ)^(alpha − 1), which are Pareto smoothed. The sensitivity of a
quantity to a component is the distance D between its posterior and its scaled posterior, per
doubling of alpha:

    ½ Σ D(alpha) / |log2 alpha|  over alpha = 0.99 and 1.01.

D is the cumulative Jensen–Shannon distance [2]_. With P and Q the distribution functions of the
draws and of the weighted draws, and integrals over the range of the draws,

    CJS(P ‖ Q) = ∫ P log2(2 P / (P + Q)) dx + (1 / (2 ln 2)) ∫ (Q − P) dx,
    D(P, Q)² = (CJS(P ‖ Q) + CJS(Q ‖ P)) / ∫ (P + Q) dx,

and D is between 0 and 1. D is not the same for x and for −x, which has the distribution function
1 − P, so the larger of the two distances is used.

A sensitivity of 0.05 or more matters: for a normal posterior it means that a doubling moves the
mean by a quarter of the standard deviation, or changes the standard deviation by a factor of 1.25.
The conclusions are the quantiles, mean, standard deviation and P(> 0) of each quantity. One of them
counts as moving if it changes by at least this much per doubling or, for P(> 0), by 0.05. The
change per doubling is computed between the powers 0.8 and 1.25, because a quantile of a sample
moves in steps from draw to draw: between powers near 1, the change would measure the gaps between
draws.

Raising a flat prior to a power changes nothing, so its influence is not measured.

Distributions of group effects do not count as part of the prior: they model the population, and
scaling them would change the model ([1]_, section 2.4).

References
----------
.. [1] Kallioinen, Paananen, Bürkner and Vehtari (2024), Detecting and diagnosing prior and
   likelihood sensitivity with power-scaling, Statistics and Computing 34, 57,
   doi 10.1007/s11222-023-10366-5: sections 2.1 and 2.2 for the weights, section 2.3 for the
   diagnostic, the distance and the threshold. As in their R package priorsense, the derivative is
   with respect to log2 alpha, and is the mean of the derivatives on both sides of 1.
.. [2] Nguyen and Vreeken (2015), Non-parametric Jensen–Shannon divergence, ECML PKDD 2015, section
   3, for CJS and its bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.advice import is_in_shell
from pyflowers.convergence import good_k, pareto_smooth
from pyflowers.display import (
    INTERVAL,
    MOST_ROWS,
    Line,
    Result,
    format_number,
    in_file,
    interval_quantiles,
    records_of,
    styled,
)
from pyflowers.fits.fit import Fit, checked_fits
from pyflowers.fits.posterior import element_names, flat
from pyflowers.fits.verdict import Check, Part, Verdict
from pyflowers.programs import Capability
from pyflowers.text import and_more, in_words

FloatArray = NDArray[np.float64]

LOCAL = (0.99, 1.01)
"""Powers from which distances per doubling are computed, as derivatives at 1."""

SHOWN = (0.8, 1.25)
"""Powers at which the conclusions are shown, far enough from 1 for changes to be visible. The
change per doubling is computed between them or, if a k-hat at one of them is too large, between the
powers in :data:`LOCAL`."""

THRESHOLD = 0.05
"""The smallest sensitivity that matters."""

SHIFT = 0.25
"""Change in a mean or quantile, in posterior standard deviations, that counts as a move."""

STRETCH = 1.25
"""Change in a standard deviation, as a factor, that counts as a move."""

CHANCE = 0.05
"""Change in a probability that counts as a move."""

DECIDES = 1.0
"""Change in a median, in posterior standard deviations per doubling of the prior, above which the
result depends mainly on the prior's weight. It is four times :data:`SHIFT`, which only leads to a
remark."""

Z_90 = 1.6448536269514722

_BLOCK = 2_000_000
"""The largest number of values in memory: draws times elements or observations."""


@dataclass(frozen=True, eq=False)
class Scaled:
    """One component of the posterior, raised to several powers.

    Attributes
    ----------
    component : str
        ``prior`` or ``likelihood``.
    weights : mapping of float to array, shape (S,)
        Weights of the draws for each power whose k-hat is good.
    k_hat : mapping of float to float
        Pareto shape for each power; NaN if the component is constant and all weights are therefore
        equal.
    limit : float
        The k-hat up to which weights can be trusted.
    refusal : str
        Why this component cannot be scaled; empty if it can.
    """

    component: str
    weights: Mapping[float, FloatArray]
    k_hat: Mapping[float, float]
    limit: float
    refusal: str = ""

    @property
    def is_constant(self) -> bool:
        """Whether the component has the same density at every draw, as a flat prior does."""
        return not self.refusal and all(np.isnan(k) for k in self.k_hat.values())

    @property
    def worst_k(self) -> float:
        """The larger of the k-hats at the two powers in :data:`LOCAL`."""
        return max((self.k_hat[alpha] for alpha in LOCAL if alpha in self.k_hat), default=np.nan)

    @property
    def note(self) -> str:
        """A sentence about what could not be computed; empty if everything was computed."""
        far = [f"{alpha:g}" for alpha in SHOWN if alpha not in self.weights]
        why = self.refusal
        if self.is_constant:
            why = "it is the same in every draw, so scaling it changes nothing"
        elif far and not why:
            why = (
                f"k-hat at power {in_words(far)} is above {self.limit:.2f}, so the "
                "conclusions there are left blank"
            )
        if why:
            return f"{self.component}: {why}"
        return ""


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(Result):
    """How the posterior changes when the prior and the likelihood are raised to powers.

    Attributes
    ----------
    fit : Fit
        The fit.
    components : tuple of Scaled
        The prior, and the likelihood if the program has ``log_lik``, with their k-hat.
    distances : DataFrame
        The sensitivity of each element (row) to each component (column); NaN where importance
        weights cannot be trusted.
    shifts : Series
        The absolute change of the median of each element for a doubling of the prior's weight, in
        posterior standard deviations; NaN where importance weights cannot be trusted.
    conclusions : DataFrame
        A row for each component, element and conclusion, with the conclusion's value in the
        ``posterior`` and at the powers 0.8 and 1.25, its change ``per_doubling``, and ``moves``,
        which is ``rises``, ``falls`` or empty.
    notes : tuple of str
        What could not be computed, and other limitations, one sentence each.
    flat : tuple of str
        The parameters whose declared prior is flat.

    See Also
    --------
    pyflowers.sensitivity : Compute the sensitivity.
    pyflowers.plots.power_scaling : Draw it.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> found = pyflowers.sensitivity(fit)
    >>> found.table().loc[["sigma2", "mu_plant[1]"]].round(1)
                 prior  likelihood                        diagnosis
    parameter
    sigma2         0.7         0.0  strong prior or weak likelihood
    mu_plant[1]    0.0         0.1
    >>> found.moves().loc["sigma2", "moves"].to_dict()
    {'95%': 'falls', 'mean': 'falls'}
    """

    holds: ClassVar[str] = "sensitivity"

    fit: Fit
    components: tuple[Scaled, ...]
    distances: pd.DataFrame
    shifts: pd.Series[float]
    conclusions: pd.DataFrame
    notes: tuple[str, ...] = ()
    flat: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The program's name."""
        return self.fit.name

    @property
    def verdict(self) -> Verdict:
        """The verdict on the fit, with the check of its sensitivity to the prior."""
        return self.fit.verdict.also(self.part)

    @property
    def part(self) -> Part:
        """The check that is added to the verdict on the prior; empty if it cannot be scaled."""
        shifts = self.shifts.dropna()
        if shifts.empty:
            return Part("prior")
        where, shift = str(shifts.idxmax()), float(shifts.max())
        check = Check(
            *("shift per doubling of the prior", shift, DECIDES, "≤", shift <= DECIDES, where),
            "Kallioinen et al. (2024), section 2.3",
            "choose a prior from what is known beforehand",
            f"{where}: its median moves by {shift:.2g} sd for each doubling of the prior's weight",
        )
        claim = (
            f"no median moves by more than {DECIDES:g} sd for each doubling of the prior's weight"
        )
        return Part(
            "prior", (check,), claim=claim, denial="the posterior depends strongly on the prior"
        )

    def table(self) -> pd.DataFrame:
        """Return the sensitivity of each element to each component, and a diagnosis."""
        # For what the two sensitivities mean together, see [1], section 2.3 and figure 3.
        lacking = pd.Series(np.nan, self.distances.index)
        prior = self.distances.get("prior", lacking)
        likelihood = self.distances.get("likelihood", lacking)
        diagnosis = np.select(
            [~(prior >= THRESHOLD), likelihood.isna(), likelihood >= THRESHOLD],
            ["", "sensitive to the prior", "possible prior-data conflict"],
            "strong prior or weak likelihood",
        )
        return self.distances.assign(diagnosis=diagnosis)

    def contents(self) -> list[Line]:
        """Return the overall sentence, the sensitivities, and the conclusions that move.

        Effects of groups, and coefficients of curves, are shown only if they are sensitive to the
        prior.
        """
        table = self.table()
        of_groups = np.array(
            [str(row).partition("[")[0] in self.fit.group_effects for row in table.index]
        )
        is_shown = ~of_groups | (table["diagnosis"] != "").to_numpy()
        table = table[is_shown]
        if num := int((~is_shown).sum()):
            how = "add --all" if is_in_shell() else "table()"
            table.attrs["hidden"] = f"{self.fit.effects_counted(num)} not shown: {how}"
        return self._contents(table)

    def in_full(self) -> list[Line]:
        """Return the contents, including the sensitivities of all effects of groups."""
        return self._contents(self.table())

    def _contents(self, table: pd.DataFrame) -> list[Line]:
        """Return the overall sentence, the sensitivities, the conclusions that move, and k-hats."""
        if len(table) > MOST_ROWS:  # the file has all rows
            table = table.sort_values(str(table.columns[0]), ascending=False, kind="stable")
        if not (table["diagnosis"] != "").any():
            table = table.drop(columns="diagnosis")
        moves = self.moves()
        moved: list[Line] = [
            "Numbers that change visibly with the prior's weight, and their change per doubling:",
            in_file(moves, "conclusions.csv"),
        ]
        return [
            self.fit.heading,
            styled(self.sentence, bold=True),
            in_file(table, "sensitivity.csv"),
            *(moved if len(moves) else []),
            *(
                f"k-hat of the {scaled.component}: {format_number(scaled.worst_k)} (it must be at "
                f"most {scaled.limit:.2f})"
                for scaled in self.components
                if not (scaled.is_constant or np.isnan(scaled.worst_k))
            ),
            *(f"note: {note}" for note in self.notes),
            self.verdict.line,
        ]

    def files(self) -> dict[str, pd.DataFrame]:
        """Return the tables by file name."""
        return {"sensitivity.csv": self.table(), "conclusions.csv": self.conclusions}

    def to_dict(self) -> dict[str, Any]:
        """Return the sensitivities as plain values, for JSON."""
        return {
            **self.fit.identity(),
            "sensitivity_of": self.name,
            "k_hat": {
                scaled.component: {f"{alpha:g}": str(k) for alpha, k in scaled.k_hat.items()}
                for scaled in self.components
            },
            "notes": list(self.notes),
            "sensitivity": records_of(self.table()),
            "moves": records_of(self.moves()),
            "conclusion": self.sentence,
            "verdict": self.verdict.to_dict(),
        }

    def moves(self, component: str = "prior") -> pd.DataFrame:
        """Return the conclusions that move when a component is scaled, and in which direction.

        Parameters
        ----------
        component : str
            ``prior`` or ``likelihood``.
        """
        found = self.conclusions
        if found.empty:
            return found
        of_it = found.index.get_level_values("component") == component
        return found[of_it & (found["moves"] != "")].droplevel("component")

    @cached_property
    def sensitive(self) -> list[str]:
        """The elements that are sensitive to the prior, the most sensitive first."""
        if "prior" not in self.distances:
            return []
        prior = self.distances["prior"]
        return list(prior[prior >= THRESHOLD].sort_values(ascending=False, kind="stable").index)

    @property
    def is_known(self) -> bool:
        """Whether the sensitivity to the prior could be computed for at least one element."""
        return "prior" in self.distances and bool(self.distances["prior"].notna().any())

    @property
    def sentence(self) -> str:
        """Whether the results depend on the prior, in one sentence."""
        prior = next((c for c in self.components if c.component == "prior"), None)
        if prior is None or prior.refusal or not (prior.is_constant or self.is_known):
            return "Whether the results depend on the prior could not be determined."
        if prior.is_constant:
            return "The prior is flat: scaling it changes nothing."
        if not self.sensitive:
            unknown = int(self.distances["prior"].isna().sum())
            if unknown:
                but = f", except {unknown} that could not be computed"
            else:
                but = ""
            below = f"all sensitivities are below {THRESHOLD:g}{but}"
            flat, priors = "", "priors"
            if len(self.flat) == 1:
                priors = "prior"
            if self.flat:
                flat = f"; the flat {priors} of {', '.join(self.flat)} cannot be scaled"
            return f"The results hardly depend on the prior: {below}{flat}."
        named, verb = and_more(self.sensitive, 4), "depends"
        if len(self.sensitive) > 1:
            verb = "depend"
        return (
            f"{named} {verb} on the prior (sensitivity "
            f"{self.distances['prior'].max():.2g}; {THRESHOLD:g} or more matters): give reasons "
            "for that prior wherever a conclusion rests on such a result."
        )


def sensitivity(fit: Fit, *, interval: float | None = None) -> Sensitivity:
    """Measure how sensitive the posterior is to the prior and to the likelihood.

    Importance weights show how the posterior changes if the prior or the likelihood is raised to a
    power near 1, without a refit.

    Parameters
    ----------
    fit : Fit
        A fit of a program with ``lprior``. The likelihood is scaled if the program has ``log_lik``.
    interval : float, optional
        Probability of the interval whose ends count as conclusions. Default: the fit's.

    Returns
    -------
    Sensitivity
        The sensitivity of each element of the posterior, and the conclusions that move.

    Raises
    ------
    ConfigError
        If the program has no ``lprior``, or the interval does not lie between 0 and 1.

    See Also
    --------
    pyflowers.prior : Draw from the prior.
    pyflowers.plots.power_scaling : Draw the sensitivities.

    References
    ----------
    Kallioinen, Paananen, Bürkner and Vehtari (2024), Detecting and diagnosing prior and likelihood
    sensitivity with power-scaling, Statistics and Computing 34, 57.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> found = pyflowers.sensitivity(fit)
    >>> found.sensitive[0]
    'sigma2'
    >>> found.distances["prior"].round(1).to_dict()
    {'mu': 0.1, 'sigma2': 0.7, 'mu_plant[1]': 0.0, 'mu_plant[2]': 0.0, 'mu_plant[3]': 0.0}
    """
    fit = checked_fits([fit], "sensitivity")[0].with_interval(interval)
    fit.program.require(Capability.LPRIOR)
    components = [power_scale("prior", np.ravel(fit.model.lprior(fit.draws)))]
    notes = []
    imputed = list(fit.model.imputed.values())
    can = fit.program.can(Capability.LOG_LIK) and bool(fit.data.num_obs)
    if can and not imputed:
        components.append(power_scale("likelihood", _total_log_lik(fit)))
    else:
        reason = f"the program has no log_lik: {Capability.LOG_LIK.remedy}"
        if fit.program.can(Capability.LOG_LIK):
            reason = "there are no observations"
        if imputed:
            reason = f"the likelihood of rows with imputed {in_words(imputed)} is not known"
        notes.append(f"the likelihood is not scaled, as {reason}")
    notes += [each.note for each in components if each.note]
    distances, found = [pd.DataFrame(columns=[each.component for each in components])], []
    for names, ascending, order in _blocks(fit):
        block = (names, ascending, order, fit.interval)
        with np.errstate(invalid="ignore"):
            scaled = {each.component: _scaled_block(each, *block) for each in components}
        found += [moved for _, moved in scaled.values()]
        distances.append(pd.DataFrame({name: away for name, (away, _) in scaled.items()}, names))
    whole, shifts, moves = distances[0], pd.Series(dtype=float), pd.DataFrame()
    if found:
        conclusions = pd.concat(found)
        medians = conclusions.xs("prior", level="component").xs("median", level="conclusion")
        unit = medians["unit"].where(medians["unit"] > 0)
        shifts = (medians["per_doubling"].abs() / unit).astype(float)
        whole, moves = pd.concat(distances[1:]), _judged(conclusions, fit.summary(all=True))
    return Sensitivity(
        fit, tuple(components), whole, shifts, moves, tuple(notes), _flat_priors(fit)
    )


def _flat_priors(fit: Fit) -> tuple[str, ...]:
    """Return the parameters whose prior is flat, including coefficients without a prior."""
    found = list(fit.model.flat_coefficients)
    for name in fit.program.declaration.parameters:
        if name in fit.draws:
            prior = fit.program.prior_of(name, fit.data.values)
        else:
            prior = None
        if prior is not None and prior.density is not None:
            density = prior.density(np.ravel(fit.draws[name]))
            if np.ptp(density) <= 1e-10 * np.max(np.abs(density)):
                found.append(name)
    return tuple(found)


def power_scale(
    component: str, log_density: FloatArray, alphas: Sequence[float] = (*LOCAL, *SHOWN)
) -> Scaled:
    """Weight draws as if a component of their posterior had been raised to a power.

    Parameters
    ----------
    component : str
        ``prior`` or ``likelihood``.
    log_density : array, shape (S,)
        The logarithm of the component at each draw, up to a constant.
    alphas : sequence of float
        The powers.

    Returns
    -------
    Scaled
        The weights; or the reason why there are none: the log density is not finite, or k-hat at
        0.99 or 1.01 is too large.
    """
    limit = good_k(log_density.size)
    odd = int(np.count_nonzero(~np.isfinite(log_density)))
    if odd:
        why = f"the log {component} is not finite in {odd} of {log_density.size} draws"
        remedy = "correct the code that computes it, or refit with other priors"
        return Scaled(component, {}, {}, limit, f"{why}; {remedy}")
    spread = float(np.ptp(log_density))
    if spread <= 1e-10 * max(1.0, float(np.abs(log_density).max())):
        equal = np.full(log_density.size, 1 / log_density.size)
        return Scaled(component, dict.fromkeys(alphas, equal), dict.fromkeys(alphas, np.nan), limit)
    log_weights, k_hats = pareto_smooth((np.asarray(alphas)[:, None] - 1) * log_density)
    k_hat = dict(zip(alphas, map(float, k_hats), strict=True))
    rows = zip(alphas, log_weights, strict=True)
    weights = {alpha: np.exp(row) for alpha, row in rows if k_hat[alpha] <= limit}
    found = Scaled(component, weights, k_hat, limit)
    if not found.worst_k > limit:
        return found
    return replace(
        found,
        refusal=f"the largest k-hat is {found.worst_k:.2f} and must be at most {limit:.2f}, so "
        "importance weights cannot describe a scaled posterior; take more draws, or refit with "
        "other priors and compare",
    )


def cumulative_jensen_shannon(ascending: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the distance between draws and weighted draws, for each quantity.

    Parameters
    ----------
    ascending : array, shape (S, E)
        Draws of each of E quantities in ascending order.
    weights : array, shape (S, E)
        The weights of these draws in the same order; the weights of a quantity sum to 1.

    Returns
    -------
    array, shape (E,)
        D(P, Q), which is 0 for a quantity that does not vary.
    """
    num = len(ascending)
    widths = np.diff(ascending, axis=0)
    p = np.arange(1, num)[:, None] / num
    q = np.minimum(np.cumsum(weights, axis=0)[:-1], 1.0)
    # This sum runs from the largest draw downwards, so that the upper tail has full precision.
    q_above = np.minimum(np.cumsum(weights[::-1], axis=0)[:-1][::-1], 1.0)
    return np.maximum(_distance(p, q, widths), _distance(1 - p, q_above, widths))


def _distance(p: FloatArray, q: FloatArray, widths: FloatArray) -> FloatArray:
    """Return D for distribution functions that are constant between draws."""
    from scipy.special import rel_entr

    middle = (p + q) / 2
    divergence = (widths * (rel_entr(p, middle) + rel_entr(q, middle))).sum(axis=0) / np.log(2)
    bound = (widths * (p + q)).sum(axis=0)
    # The ∫ (Q − P) terms of the two directions cancel.
    with np.errstate(invalid="ignore"):
        squared = np.where(bound > 0, divergence / bound, 0.0)
    return np.asarray(np.sqrt(np.maximum(squared, 0.0)))


def conclusions(
    ascending: FloatArray, weights: FloatArray, interval: float = INTERVAL
) -> FloatArray:
    """Return the conclusions of a posterior, from weighted draws of each quantity.

    Parameters
    ----------
    ascending : array, shape (S, E)
        Draws of E quantities in ascending order.
    weights : array, shape (S, E)
        Their weights in the same order; the weights of a quantity sum to 1.
    interval : float
        Probability of the central interval.

    Returns
    -------
    array, shape (E, 6)
        The conclusions in the order of :func:`names_of`. A quantile is interpolated between draws.
        On the scale of probability, each draw is placed at the middle of its weight, which is
        Hazen's definition if weights are equal.
    """
    mean = (weights * ascending).sum(axis=0)
    sd = np.sqrt((weights * (ascending - mean) ** 2).sum(axis=0))
    middle = np.cumsum(weights, axis=0) - weights / 2
    probs = list(interval_quantiles(interval).values())
    quantiles = [np.interp(probs, p, x) for p, x in zip(middle.T, ascending.T, strict=True)]
    positive = (weights * (ascending > 0)).sum(axis=0)
    return np.column_stack([quantiles, mean, sd, np.minimum(positive, 1.0)])


def names_of(interval: float = INTERVAL) -> list[str]:
    """Return the names of the conclusions, in order."""
    return [*interval_quantiles(interval), "mean", "sd", "P(> 0)"]


def _total_log_lik(fit: Fit) -> FloatArray:
    """Return the log likelihood at each draw, summed over the observations, shape (S,).

    The sum is computed block by block, because the pointwise likelihood may not fit into memory.
    """
    step = max(1, _BLOCK // max(1, fit.num_chains * fit.data.num_obs))
    parts = []
    for start in range(0, fit.num_draws, step):
        some = {name: values[:, start : start + step] for name, values in fit.draws.items()}
        parts.append(fit.model.log_lik(some)[..., fit.is_in_likelihood].sum(axis=-1))
    return np.ravel(np.concatenate(parts, axis=1))


def _blocks(fit: Fit) -> Iterator[tuple[pd.Index, FloatArray, NDArray[np.intp]]]:
    """Yield names, sorted draws of shape (S, E), and their order, for some elements at a time."""
    for quantity in fit.posterior.values():
        draws = np.asarray(flat(quantity), dtype=np.float64)
        draws = draws.reshape(-1, draws.shape[2])
        elements = pd.Index(element_names(quantity), name="parameter")
        step = max(1, _BLOCK // len(draws))
        for start in range(0, draws.shape[1], step):
            block = draws[:, start : start + step]
            order = np.argsort(block, axis=0)
            yield elements[start : start + step], np.take_along_axis(block, order, 0), order


def sensitivities_of(scaled: Scaled, draws: FloatArray, step: int = 1) -> FloatArray:
    """Return the sensitivity to a component, for quantities computed from the draws of a fit.

    Parameters
    ----------
    scaled : Scaled
        The component of the fit's posterior that is scaled.
    draws : array, shape (chain, draw, E)
        Draws of E quantities.
    step : int
        1 if there is a value for each draw of the fit; 4 for every fourth draw, and so on.

    Returns
    -------
    array, shape (E,)
        The sensitivities; NaN where importance weights cannot be trusted.
    """
    each = draws.reshape(-1, draws.shape[2])
    order = np.argsort(each, axis=0)
    few = {}
    for alpha, weights in scaled.weights.items():
        kept = np.ravel(weights.reshape(len(draws), -1)[:, ::step])
        few[alpha] = kept / kept.sum()
    return _distances(few, np.take_along_axis(each, order, 0), order)


def _distances(
    weights: Mapping[float, FloatArray], ascending: FloatArray, order: NDArray[np.intp]
) -> FloatArray:
    """Return the distance per doubling, averaged over the two powers in :data:`LOCAL`."""
    away = dict.fromkeys(LOCAL, np.full(ascending.shape[1], np.nan))
    for alpha in away.keys() & weights.keys():
        moved = cumulative_jensen_shannon(ascending, weights[alpha][order])
        away[alpha] = moved / abs(np.log2(alpha))
    finite = np.isfinite(ascending).all(axis=0)
    return np.where(finite, np.mean(list(away.values()), axis=0), np.nan)


def _scaled_block(
    scaled: Scaled,
    names: pd.Index,
    ascending: FloatArray,
    order: NDArray[np.intp],
    interval: float,
) -> tuple[FloatArray, pd.DataFrame]:
    """Return sensitivities, the conclusions at each power, and their change per doubling.

    ``unit`` is the sd of a normal distribution with the same 90% interval. It exists even for a
    posterior without a variance.
    """
    equal = np.full(ascending.shape, 1 / len(ascending))
    posterior = conclusions(ascending, equal, interval)
    at = dict.fromkeys((*LOCAL, *SHOWN), np.full_like(posterior, np.nan))
    for alpha, weights in scaled.weights.items():
        at[alpha] = conclusions(ascending, weights[order], interval)
    distances = _distances(scaled.weights, ascending, order)
    low, high = SHOWN if scaled.weights.keys() >= set(SHOWN) else LOCAL
    slope = (at[high] - at[low]) / (np.log2(high) - np.log2(low))
    _, lower, upper = conclusions(ascending, equal, 0.9)[:, :3].T
    columns = {
        "posterior": posterior,
        **{f"at {alpha:g}": at[alpha] for alpha in SHOWN},
        "per_doubling": slope,
        "unit": np.broadcast_to(((upper - lower) / (2 * Z_90))[:, None], slope.shape),
    }
    index = pd.MultiIndex.from_product(
        [[scaled.component], names, names_of(interval)],
        names=["component", "parameter", "conclusion"],
    )
    moves = pd.DataFrame({name: np.ravel(each) for name, each in columns.items()}, index)
    return distances, moves


def _judged(found: pd.DataFrame, summary: pd.DataFrame) -> pd.DataFrame:
    """Mark which conclusions move, and in which direction; set moments that do not exist to NaN."""
    parameter = found.index.get_level_values("parameter")
    conclusion = found.index.get_level_values("conclusion")
    for name in ("mean", "sd"):
        absent = summary.index[summary[name].isna()]
        found[parameter.isin(absent) & (conclusion == name)] = np.nan
    slope, unit = found["per_doubling"].to_numpy(), found["unit"].to_numpy()
    # To first order, doubling the weight changes log sd by slope / sd.
    with np.errstate(invalid="ignore", divide="ignore"):
        limit = np.select(
            [conclusion == "P(> 0)", conclusion == "sd"],
            [np.full(len(found), CHANCE), np.log(STRETCH) * found["posterior"].to_numpy()],
            SHIFT * unit,
        )
        moved = np.abs(slope) >= np.where(limit > 0, limit, np.inf)
    way = np.where(slope > 0, "rises", "falls")
    return found.drop(columns="unit").assign(moves=np.where(moved, way, ""))
