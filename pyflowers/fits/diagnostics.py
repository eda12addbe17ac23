"""Judge the computation and the prior of a fit, which are two of the three parts of the verdict.

Every check records a statistic, its worst value and where that value occurs, a threshold and its
source, and advice to follow if the check fails. The advice addresses the cause first. Divergences
come first, because they may explain why chains disagree. If chains disagree widely, longer runs do
not help. Failures with the same cause have the same advice.

The largest R-hat of m elements is judged as the largest of many. If all chains sample the
posterior, the means of K split chains differ only by chance, so that for an element with effective
sample size S and split chains of n draws

    R-hat² ≈ (n − 1) / n + (K / S) χ² / (K − 1),        χ² with K − 1 degrees of freedom.

R-hat is the larger of two such values, one for the ranks and one for their distances from the
median, so m elements have 2m such values. The limit for the largest is the quantile at
1 − 0.01 / (2m), but at least 1.01 and at most 1.05. Group effects may have an R-hat from 1.01 up to
this limit if their ESS is sufficient. For any other element, an R-hat in this range means that the
draws are imprecise: the chains do not disagree more than their ESS explains. An ESS of 25 to 100
per chain also means that the draws are imprecise if R-hat is within its limit. Treedepth hits,
after which draws are valid but costly, are judged in the same way.

A prior is in conflict with the data if the data favour values that the prior nearly excludes: the
posterior median of a parameter lies outside the central 99% of its prior, or the estimate from the
likelihood alone lies outside that interval, widened by the error of the estimate. The posterior
median alone does not show a conflict in which the prior dominates, because it is then near the
prior median. The tail probability is divided by the number of priors and, for a vector, by the
number of its elements, so that data from the prior raise an alarm in about 1% of fits. Under a
prior whose density is highest at its lower bound, such as a half-t, values near the bound are
likely, and only the upper tail counts.

References
----------
.. [1] Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
   localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16(2).
.. [2] Betancourt (2017), A conceptual introduction to Hamiltonian Monte Carlo,
   arXiv:1701.02434, section 6.2.
.. [3] Betancourt (2016), Diagnosing suboptimal cotangent disintegrations in Hamiltonian Monte
   Carlo, arXiv:1604.00695; 0.3 is the threshold of CmdStan's ``diagnose``.
.. [4] Devroye (1986), Non-Uniform Random Variate Generation, section II.3.
.. [5] Evans and Moshonov (2006), Checking for prior-data conflict, Bayesian Analysis 1(4), where a
   tail probability under the prior shows whether the data are surprising.
.. [6] Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR
   25(72), section 3.2.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.advice import Advice
from pyflowers.convergence import e_bfmi, mcse_quantile
from pyflowers.display import format_number
from pyflowers.engines import SamplerOptions
from pyflowers.fits.commands import shell_words
from pyflowers.fits.posterior import stacked
from pyflowers.fits.verdict import Check, Part
from pyflowers.programs import Capability, Model
from pyflowers.programs.capabilities import Draws, LikelihoodAlone

if TYPE_CHECKING:
    import xarray as xr

    from pyflowers.fits.folder import Trial
    from pyflowers.programs.densities import PriorDensity

R_HAT_AT_MOST = 1.01
ESS_PER_CHAIN_AT_LEAST = 100
ESS_PER_CHAIN_FOR_ERRORS = 25
"""The ESS per chain from which Monte Carlo errors can be computed."""

LARGEST_R_HAT = 1.05
"""The largest limit for R-hat, however many elements there are."""

FALSE_ALARMS = 0.01
"""Probability that the largest R-hat of chains that sample the posterior exceeds its limit."""

FEW_DIVERGENCES = 0.0025
"""The largest share of divergent iterations for which a moderate --adapt-delta is recommended."""

E_BFMI_AT_LEAST = 0.3
DRAWS_AT_LEAST = 4 * ESS_PER_CHAIN_AT_LEAST
PARETO_K_AT_MOST = 0.7
"""Limit for the Pareto shape of importance weights; above it, their variance may not exist."""

INTEGRAL_ERROR_AT_MOST = 0.01
"""Limit for the error of a log density from quadrature; such an error changes weights by 1%."""

EXCESS_AT_MOST = 1e-6
"""Limit for the excess of a log density over the log of its hat function, to allow for rounding.

Where a density exceeds its hat function, values are drawn too rarely.
"""

FloatArray = NDArray[np.float64]

CENTRAL = 0.99
"""Probability of a prior's central interval; a posterior median outside it shows a conflict."""

IDLE = "there is no Markov chain that could fail to converge: R-hat and ESS are not judged"

FAR = 5.0
"""Ratio of a covariate's mean to its sd above which one with varying slopes should be centred."""

_DISAGREE = 1.1
"""R-hat above which the chains have not explored the same distribution."""

_DEFAULTS = SamplerOptions(seed=0)

_TOO_FEW = Advice(
    f"run longer: --draws {_DEFAULTS.draws}, as so few draws cannot show whether a chain converges",
    draws=_DEFAULTS.draws,
)

ON_DIVERGENCES = (
    "use narrower priors (a flat prior may leave the posterior improper), above all on the sds of "
    "groups (--prior); switch between centred and non-centred group effects (--centered); or, in a "
    "program of your own, declare the bounds that the model assumes"
)
"""The advice on divergences that shorter steps do not remove."""

_ON_SLOW_CHAINS = (
    "change the parametrisation (--centered), rescale covariates, or run longer than was tried"
)

_AT_MOST: Literal["≤", "≥"] = "≤"
_AT_LEAST: Literal["≤", "≥"] = "≥"

_SLOW = 20
"""Ratio of required to actual ESS above which a longer run is not a practical remedy."""


def diagnose(
    posterior: xr.Dataset,
    stats: Mapping[str, NDArray[np.float64]],
    summary: pd.DataFrame,
    options: SamplerOptions = _DEFAULTS,
    independent: Mapping[str, float] | None = None,
    of_groups: Collection[str] = (),
) -> Part:
    """Judge the computation of a fit.

    Parameters
    ----------
    posterior : Dataset
        The draws.
    stats : mapping of str to array, shape (chain, draw)
        Sampler statistics by Stan's names.
    summary : DataFrame
        The summary of these draws by :func:`pyflowers.fits.posterior.summarize`.
    options : SamplerOptions
        The sampler's options.
    independent : mapping of str to float, optional
        The sampler's measurements, if the draws do not come from Markov chains; R-hat and ESS are
        then not judged.
    of_groups : collection of str, optional
        The quantities with an element for each group. Their R-hat may exceed 1.01, because it is
        the largest of many values.

    Returns
    -------
    Part
        For NUTS, the checks of divergences, tree depth and E-BFMI. For all Markov chains, the
        checks of R-hat, bulk ESS and tail ESS over all elements that vary. For independent draws,
        the checks of their number and of whether their quantiles are finite; for weighted draws,
        also checks of the tail of the weights and of their effective number [6]_.
    """
    if independent is not None:
        checks = tuple(_independent(posterior, summary, independent))
        claim = "the draws are independent and finite"
        if "pareto_k" in independent:
            claim = "the weights of the draws are even enough"
        return Part("computation", checks, IDLE, claim)
    found: dict[str, Check] = {}
    if "divergent__" in stats:
        found["divergences"] = _divergences(stats["divergent__"], options)
    if "treedepth__" in stats:
        num = int((stats["treedepth__"] >= options.max_treedepth).sum())
        depth = options.max_treedepth + 2
        advice = Advice(
            f"refit with --max-treedepth {depth}, or rescale the parameters", max_treedepth=depth
        )
        source = "Stan Reference Manual, MCMC Sampling"
        hits = _judge("treedepth hits", num, "≤", 0, source, advice)
        found["treedepth hits"] = replace(hits, imprecise=num > 0)
    if "energy__" in stats:
        values = e_bfmi(stats["energy__"])
        chains = pd.Series(values, index=[f"chain {i + 1}" for i in range(len(values))])
        advice = Advice(
            "the tails are explored slowly: reparametrise, or use priors with lighter tails"
        )
        found["E-BFMI"] = _worst(
            "E-BFMI", chains, "≥", E_BFMI_AT_LEAST, "Betancourt (2016)", advice
        )
    if posterior:
        found |= _convergence(posterior, summary, options, of_groups)
    checks = tuple(_by_cause(found, options, posterior.sizes.get("draw", 0)))
    part = Part("computation", checks, "", "the sampling converged")
    if not part.imprecise or part.failed:
        return part
    last, error = part.imprecise[-1], _error_of_worst(posterior, summary, of_groups)
    stated = replace(last, finding=f"{last.result}; {error}")
    checks = tuple(stated if check is last else check for check in part.checks)
    return replace(part, checks=checks, claim="the sampling converged, though imprecisely")


def _error_of_worst(
    posterior: xr.Dataset, summary: pd.DataFrame, of_groups: Collection[str]
) -> str:
    """Return, in words, the least precise interval and the Monte Carlo errors of its ends."""
    sizes = summary[["ess_bulk", "ess_tail"]].min(axis=1).to_numpy(dtype=float)
    is_effect = np.isin([str(e).partition("[")[0] for e in summary.index], list(of_groups))
    if np.isfinite(sizes[~is_effect]).any():
        sizes = np.where(is_effect, np.nan, sizes)
    worst = int(np.nanargmin(sizes))
    draws = stacked(posterior)[..., worst : worst + 1]
    low, high = (column for column in summary.columns if column.endswith("%"))
    errors = (mcse_quantile(draws, float(c.removesuffix("%")) / 100)[0] for c in (low, high))
    words = [format_number(float(error)) for error in errors]
    ends = [format_number(float(summary[c].iloc[worst])) for c in (low, high)]
    prob = float(high.removesuffix("%")) - float(low.removesuffix("%"))
    return (
        f"the draws are valid, and the least precise interval, the {prob:g}% interval of "
        f"{summary.index[worst]}, is {ends[0]} to {ends[1]}, with Monte Carlo errors of {words[0]} "
        f"and {words[1]}"
    )


def with_remedy(part: Part, remedy: Advice) -> Part:
    """Return a part in which all failed checks recommend `remedy`, unless it is empty."""
    checks = list(part.checks)
    for i, check in enumerate(checks):
        if check.failed and remedy:
            checks[i] = replace(check, advice=remedy)
    return replace(part, checks=tuple(checks))


def named(change: Mapping[str, Any]) -> str:
    """Return the inputs that a refit changes, as they are written in advice."""
    words = shell_words(change)
    if "program" in change:
        words = [f'the formula "{change["program"]}"', *words]
    return " ".join(words)


_GRADES = ("passed", "imprecise", "failed")


def after_trials(part: Part, trials: Sequence[Trial]) -> Part:
    """Return a part whose advice is the remedy that helped, or a statement that none did.

    Parameters
    ----------
    part : Part
        The checks of the sampling.
    trials : sequence of Trial
        The remedies that were tried; at least one.
    """
    best = min(trials, key=lambda trial: _GRADES.index(trial.status))
    if _GRADES.index(best.status) < _GRADES.index(part.status):
        then = best.result
        if best.status != "passed":
            then = f"only {best.result} remains imprecise"
        text = f"refit with {named(best.change)}: this was tried, and {then}"
        advice = Advice(text, **best.change)
    else:
        words = [f"with {named(trial.change)}: {trial.result}" for trial in trials]
        rest = _ON_SLOW_CHAINS
        if any(check.name == "divergences" for check in part.failed):
            rest = ON_DIVERGENCES
        advice = Advice(f"tried in vain ({'; '.join(words)}); {rest}")
    checks = list(part.checks)
    for i, check in enumerate(checks):
        if not check.passed:
            checks[i] = replace(check, advice=advice)
    return replace(part, checks=tuple(checks))


def _by_cause(
    found: Mapping[str, Check], options: SamplerOptions, num_draws: int
) -> Iterator[Check]:
    """Yield the checks; if another failure must be remedied first, give the advice on it instead.

    The order is: too few draws for any chain to pass, divergences, chains that disagree widely,
    tree depth, and the rest.
    """
    failed = {name for name, check in found.items() if not check.passed}
    disagree = "R-hat" in found and not found["R-hat"].value <= _DISAGREE and options.chains > 1
    for name, check in found.items():
        first = ""
        if name not in failed or name == "divergences":
            pass
        elif num_draws < ESS_PER_CHAIN_AT_LEAST and name != "treedepth hits":
            if name == "R-hat" and options.chains == 1:
                first = check.advice
            else:
                first = _TOO_FEW
        elif name == "E-BFMI":
            pass
        elif "divergences" in failed:
            first = found["divergences"].advice
        elif name != "R-hat" and disagree:
            first = found["R-hat"].advice
        elif name != "treedepth hits" and not disagree and "treedepth hits" in failed:
            first = found["treedepth hits"].advice
        yield replace(check, advice=first or check.advice)


def _convergence(
    posterior: xr.Dataset,
    summary: pd.DataFrame,
    options: SamplerOptions,
    of_groups: Collection[str],
) -> dict[str, Check]:
    """Judge R-hat and ESS of every element that varies; constant elements have neither."""
    draws = stacked(posterior)
    num_chains, num_draws = draws.shape[:2]
    # In this form, the condition also holds for an element with a NaN, which is therefore judged.
    varies = ~(draws.max((0, 1)) == draws.min((0, 1)))
    # If nothing varies, the sampler is stuck, and every element is judged.
    judged = summary
    if varies.any():
        judged = summary[varies]
    enough, source = ESS_PER_CHAIN_AT_LEAST * num_chains, "Vehtari et al. (2021)"
    r_hat = _judge_r_hat(judged, draws.shape, of_groups, source)
    found = {"R-hat": replace(r_hat, advice=_on_r_hat(r_hat.value, num_chains, options))}
    consistent = not r_hat.failed
    for name, column in (("bulk ESS", "ess_bulk"), ("tail ESS", "ess_tail")):
        size = _worst(name, judged[column], "≥", enough, source)
        is_some = size.value >= ESS_PER_CHAIN_FOR_ERRORS * num_chains
        size = replace(size, imprecise=bool(not size.passed and is_some and consistent))
        found[name] = replace(size, advice=_on_size(size, num_draws))
    short = [found[name] for name in ("bulk ESS", "tail ESS") if not found[name].passed]
    if short and all(check.value > 0 for check in short):
        advice = min(short, key=lambda check: check.value).advice
        found |= {check.name: replace(check, advice=advice) for check in short}
    return found


def _judge_r_hat(
    judged: pd.DataFrame, shape: tuple[int, ...], of_groups: Collection[str], source: str
) -> Check:
    """Judge the largest R-hat as the largest of many; see the docstring of this module."""
    worst = _worst("R-hat", judged["r_hat"], "≤", R_HAT_AT_MOST, source)
    if worst.passed or shape[0] < 2 or not np.isfinite(worst.value):
        return worst
    values = judged["r_hat"].to_numpy(dtype=float)
    sizes = judged[["ess_bulk", "ess_tail"]].min(axis=1).to_numpy(dtype=float)
    limits = largest_r_hat(sizes, len(values), shape[0], shape[1])
    is_enough = sizes >= ESS_PER_CHAIN_AT_LEAST * shape[0]
    is_of_group = np.isin([str(e).partition("[")[0] for e in judged.index], list(of_groups))
    allowed = np.where(is_of_group & is_enough, limits, R_HAT_AT_MOST)
    above = values > allowed
    if not above.any():  # the worst element is judged as one of many
        position = int(np.argmax(values))
        return replace(worst, threshold=float(limits[position]), passed=True)
    position = int(np.argmax(np.where(above, values - limits, -np.inf)))
    where, value = str(judged.index[position]), float(values[position])
    is_error = (values <= limits) & (sizes >= ESS_PER_CHAIN_FOR_ERRORS * shape[0])
    imprecise = bool(is_error[above].all())
    found = replace(worst, value=value, where=where, threshold=float(allowed[position]))
    return replace(found, imprecise=imprecise)


def largest_r_hat(
    sizes: NDArray[np.float64], num_elements: int, num_chains: int, num_draws: int
) -> NDArray[np.float64]:
    """Return the limit for the R-hat of chains that sample the posterior.

    Parameters
    ----------
    sizes : array, shape (element,)
        The smaller of bulk and tail ESS of each element.
    num_elements : int
        The number of elements that were examined.
    num_chains, num_draws : int
        The number of chains, and of draws in each chain.

    Returns
    -------
    array, shape (element,)
        The limit for each element, from 1.01 to 1.05; see the docstring of this module.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16(2), eqs. 1 to 4.
    """
    from scipy.stats import chi2

    num_split, length = 2 * num_chains, num_draws // 2
    between = chi2.isf(FALSE_ALARMS / (2 * num_elements), num_split - 1) / (num_split - 1)
    found = np.sqrt((length - 1) / length + between * num_split / np.maximum(sizes, 1.0))
    return np.asarray(np.clip(found, R_HAT_AT_MOST, LARGEST_R_HAT))


def _on_r_hat(value: float, num_chains: int, options: SamplerOptions) -> Advice:
    """Return the advice on an R-hat, which depends on how far it is above its limit."""
    if num_chains == 1:
        text = "R-hat compares chains: run at least 2, preferably 4 (--chains 4)"
        return Advice(text, chains=4)
    if math.isnan(value):
        return Advice("its draws never change, or are not finite: look at the traceplot")
    if value <= _DISAGREE:
        text = "run longer: double --warmup and --draws"
        return Advice(text, warmup=2 * options.warmup, draws=2 * options.draws)
    text = (
        "the chains disagree, and a longer run rarely helps: rescale covariates with large values "
        "(scale(x) in a formula), or start near 0 (--inits 0.1); if that does not help, "
        "look in the traceplot for chains that stay apart (several modes) or wander (parameters "
        "that the data cannot tell apart), and change the model or its prior"
    )
    return Advice(text, inits=0.1)


def _on_size(check: Check, num_draws: int) -> Advice:
    """Return the advice on an ESS: how much longer to run, if that would help."""
    if math.isnan(check.value):
        return Advice("its draws are constant or not finite: look at the traceplot")
    factor = math.inf
    if check.value > 0:
        factor = check.threshold / check.value
    if not factor <= _SLOW:
        return Advice(
            "the chains move too slowly for a longer run to help: change the parametrisation"
        )
    wanted = 1.2 * factor * num_draws
    digit = 10 ** max(0, math.floor(math.log10(wanted)) - 1)
    draws = math.ceil(wanted / digit) * digit
    return Advice(f"run longer: --draws {draws}", draws=draws)


def _independent(
    posterior: xr.Dataset, summary: pd.DataFrame, measures: Mapping[str, float]
) -> list[Check]:
    """Judge independent or weighted draws, by the measurements of their sampler."""
    num = int(np.prod(next(iter(posterior.values())).values.shape[:2]))
    # The first columns are the median and the ends of the interval.
    odd = ~np.isfinite(summary.iloc[:, :3].to_numpy(float)).all(axis=1)
    where = str(next(iter(summary.index[odd]), ""))
    advice = "raise --draws: quantiles in the tails need more draws"
    rescale = "rescale the data, or use priors that are closer to the data"
    checks = [
        _judge("independent draws", num, "≥", DRAWS_AT_LEAST, "Vehtari et al. (2021)", advice),
        _judge("infinite quantiles", int(odd.sum()), "≤", 0, "IEEE 754", rescale, where),
    ]
    if "pareto_k" in measures:
        checks[0] = replace(checks[0], name="draws")
        checks += _weights(measures)
    if "largest_excess" in measures:
        name, excess = "log of density over hat", measures["largest_excess"]
        source, advice = "Devroye (1986), section II.3", "use NUTS instead, and report this bug"
        checks.append(_judge(name, excess, "≤", EXCESS_AT_MOST, source, advice))
    return checks


def _weights(measures: Mapping[str, float]) -> list[Check]:
    """Judge the importance weights by which draws were resampled."""
    advice = Advice(
        "sample with NUTS (--engine auto): the posterior is too far from the distribution whose "
        "points were weighted",
        engine="auto",
    )
    source = "Vehtari et al. (2024)"
    return [
        _judge("Pareto k", measures["pareto_k"], "≤", PARETO_K_AT_MOST, source, advice),
        _judge("weights' ESS", measures["weights_ess"], "≥", DRAWS_AT_LEAST, source, advice),
        _judge(
            "error of the log integrals",
            measures.get("integral_error", math.inf),  # a value that is not finite is not recorded
            "≤",
            INTEGRAL_ERROR_AT_MOST,
            "Pinheiro and Bates (1995)",
            Advice("sample with NUTS (--engine auto)", engine="auto"),
        ),
    ]


def _judge(
    name: str,
    value: float,
    relation: Literal["≤", "≥"],
    threshold: float,
    source: str,
    advice: str = "",
    where: str = "",
) -> Check:
    if relation == "≤":
        passed = value <= threshold
    else:
        passed = value >= threshold
    return Check(name, value, threshold, relation, passed, where, source, advice)


def _worst(name: str, of: pd.Series[float], relation: Literal["≤", "≥"], *limit: Any) -> Check:
    """Judge the worst of several values; NaN counts as the worst."""
    values = of.to_numpy(dtype=float)
    badness = values
    if relation == "≥":
        badness = -values
    position = int(np.argmax(np.where(np.isnan(badness), np.inf, badness)))
    found = _judge(name, float(values[position]), relation, *limit)
    return replace(found, where=str(of.index[position]))


def _divergences(divergent: NDArray[np.float64], options: SamplerOptions) -> Check:
    num, advice = int(divergent.sum()), Advice(ON_DIVERGENCES)
    # If there are only a few divergences, they disappear with slightly shorter steps. Much shorter
    # steps would need deeper trees, and would take longer without any benefit.
    if num <= FEW_DIVERGENCES * divergent.size and options.adapt_delta < 0.95:
        advice = Advice(
            f"refit with --adapt-delta 0.95; if divergences remain, also {advice}",
            adapt_delta=0.95,
        )
    elif options.adapt_delta < 0.99:
        depth = max(12, options.max_treedepth)
        advice = Advice(
            f"refit with --adapt-delta 0.99 --max-treedepth {depth}; if divergences remain, also "
            f"{advice}",
            adapt_delta=0.99,
            max_treedepth=depth,
        )
    return _judge("divergences", num, "≤", 0, "Betancourt (2017), section 6.2", advice)


# The prior


def examine_prior(model: Model, summary: pd.DataFrame, draws: Draws | None = None) -> Part:
    """Judge whether the data and the prior are in conflict.

    Parameters
    ----------
    model : Model
        The program with its data. The priors that it declares in ``[parameters.NAME]`` are judged.
        The arguments of these priors are data. Group effects are not judged, because their
        distribution depends on other parameters.
    summary : DataFrame
        The summary of the posterior, with medians.
    draws : mapping of str to array, optional
        The draws. From these, the program computes estimates that depend on the likelihood alone,
        and quantities that have a declared prior but are not in the summary.

    Returns
    -------
    Part
        A check for each proper prior. It judges the element that lies furthest in the tail of the
        prior, by its posterior median or by its estimate from the likelihood alone.
    """
    program, data = model.program, model.data
    if program.can(Capability.OBSERVED) and not data.num_obs:
        return Part("prior", note="there are no observations to compare the prior with")
    by_quantity = summary["median"].groupby(lambda element: element.partition("[")[0])
    medians = {str(name): its for name, its in by_quantity}
    alone: Mapping[str, LikelihoodAlone] = {}
    if draws is not None:
        medians = {**_omitted(model, draws), **medians}
        alone = program.python.likelihood_alone(draws, data)
    judged = [
        each
        for name in program.declaration.parameters
        if name in medians
        for each in _judged_priors(model, name, medians[name], alone.get(name))
    ]
    checks = tuple(_against_prior(model, each, len(judged)) for each in judged)
    advice = (
        'no proper prior is declared; declare one, as in [parameters.NAME] prior = "normal(0, 1)"'
    )
    claim = "no declared prior contradicts the data"
    if model.flat_coefficients:
        advice = "the coefficients have flat priors, with which nothing can be compared"
        claim += " (the coefficients, whose priors are flat, were not examined)"
    denial = "a prior contradicts the data"
    if not checks:
        return Part("prior", checks, advice, claim, denial)
    return Part("prior", checks, "", claim, denial)


def _omitted(model: Model, draws: Draws) -> dict[str, pd.Series[float]]:
    """Return the medians of the sampled parameters that the summary does not contain."""
    return {
        name: pd.Series(np.median(values.reshape(-1, len(elements)), axis=0), elements)
        for name, (values, elements) in model.omitted_parameters(draws).items()
    }


@dataclass(frozen=True)
class _Judged:
    """A prior, and the posterior medians and likelihood estimates of the elements that have it."""

    name: str
    prior: PriorDensity
    medians: pd.Series[float]
    alone: LikelihoodAlone | None


def _judged_priors(
    model: Model, name: str, medians: pd.Series[float], alone: LikelihoodAlone | None
) -> Iterator[_Judged]:
    """Yield the prior of a quantity, or of each element that has a separate prior."""
    program, data = model.program, model.data
    whole = program.prior_of(name, data.values)
    if whole is not None:
        parts = [_Judged(name, whole, medians, alone)]
    elif not program.declaration.has_priors_of_elements(name):
        return  # no element has a separate prior, and a loop over many elements would be slow
    else:
        parts = []
        for i, element in enumerate(map(str, medians.index)):
            prior = program.prior_of(element, data.values)
            if prior is not None:
                own = alone and alone.at(i)
                parts.append(_Judged(element, prior, medians.iloc[i : i + 1], own))
    for its in parts:
        if its.prior.quantile is not None and np.isfinite(its.medians).all():
            yield its


def _is_highest_at_bound(prior: PriorDensity) -> bool:
    """Whether a density never rises, so that values near the lower bound are likely."""
    if prior.quantile is None or prior.density is None:
        return False
    x = np.array([prior.quantile(prob) for prob in (1e-6, (1 - CENTRAL) / 2, 0.5)])
    density = prior.density(x)
    return bool(density[0] >= density[1] >= density[2])


def _against_prior(model: Model, its: _Judged, num_priors: int) -> Check:
    """Judge the element that lies furthest in the tail of its prior."""
    quantile = its.prior.quantile
    assert quantile is not None
    tail = (1 - CENTRAL) / 2 / len(its.medians) / num_priors
    edges = _Edges(quantile(tail), quantile(0.5), quantile(1 - tail), tail)
    if _is_highest_at_bound(its.prior):
        edges = replace(edges, low=-math.inf)
    medians = np.asarray(its.medians, dtype=np.float64)
    far = edges.distance(medians, 0.0)
    worst = int(np.argmax(far))
    name, text = str(its.medians.index[worst]), its.prior.text
    if medians[worst] >= edges.middle or edges.low == -math.inf:
        limit, prob, relation, side = edges.high, 1 - tail, _AT_MOST, "above"
    else:
        limit, prob, relation, side = edges.low, tail, _AT_LEAST, "below"
    check = Check(
        f"median of {name}",
        float(medians[worst]),
        limit,
        relation,
        bool(far[worst] <= 1),
        f"prior {text}",
        "Evans and Moshonov (2006)",
        model.program.prior_on_scale(its.name, model.data),
        f"{name}: its posterior median, {format_number(float(medians[worst]))}, lies "
        f"{side} {format_number(limit)}, the {100 * prob:.3g}% quantile of its prior {text}",
    )
    if its.alone is None or not check.passed:
        return check
    estimates = np.ravel(np.asarray(its.alone.estimate, dtype=np.float64))
    errors = np.sqrt(np.ravel(np.asarray(its.alone.variance, dtype=np.float64)))
    scale, values = edges, estimates
    if its.alone.is_log:
        scale, values = edges.in_logs, np.log(estimates)
    if scale.distance(values, errors).max() <= 1:  # t quantiles give a smaller distance
        return check
    far = scale.distance(values, errors, its.alone.dof)
    worst = int(np.argmax(far))
    if far[worst] <= 1:
        return check
    name, estimate = str(its.medians.index[worst]), float(estimates[worst])
    error = float(errors[worst])
    if its.alone.is_log:
        error *= estimate
    limit, relation = edges.low, _AT_LEAST
    if estimate >= edges.middle:
        limit, relation = edges.high, _AT_MOST
    return Check(
        f"likelihood of {name}",
        estimate,
        limit,
        relation,
        False,
        f"prior {text}",
        "Evans and Moshonov (2006)",
        check.advice,
        f"{name}: the estimate from the data alone is {format_number(estimate)} (standard error "
        f"{format_number(error)}), but the prior {text} "
        f"keeps the posterior median at {format_number(float(medians[worst]))}",
    )


@dataclass(frozen=True)
class _Edges:
    """The central interval of a prior, its median, and the probability beyond each end."""

    low: float
    middle: float
    high: float
    tail: float

    @property
    def in_logs(self) -> _Edges:
        """The same quantiles on the log scale, for a parameter above 0."""
        low = -math.inf
        if self.low > 0:
            low = math.log(self.low)
        return _Edges(low, math.log(self.middle), math.log(self.high), self.tail)

    def distance(
        self, values: FloatArray, errors: FloatArray | float, dof: float = math.inf
    ) -> FloatArray:
        """Return how far values are from the median; the end of the interval is at distance 1.

        The interval is widened by the errors of the values. For a normal prior, it is then the
        prior predictive interval of the values.
        """
        reach = np.where(values < self.middle, self.middle - self.low, self.high - self.middle)
        width = _t_quantile(1 - self.tail, dof) * np.asarray(errors)
        return np.asarray(np.abs(values - self.middle) / np.hypot(reach, width))


def _t_quantile(prob: float, dof: float) -> float:
    """Return a quantile of a t distribution, or of the normal distribution if `dof` is infinite."""
    if math.isinf(dof):
        return NormalDist().inv_cdf(prob)
    from scipy.special import stdtrit

    return float(stdtrit(dof, prob))
