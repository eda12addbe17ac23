"""Judge the computation and the prior of a fit, which are two of the three parts of the verdict.

Every check has a statistic, its worst value and where that value occurs, a threshold and its
source, and advice in case the check fails. The advice addresses the cause first. Divergences come
first, because they may explain why chains disagree. If chains disagree widely, longer runs do not
help.

A prior is in conflict with the data if the posterior median of a parameter lies outside the central
99% of its prior: the data then favour values that the prior nearly excludes. For a vector, the most
extreme element is judged, with the tail probability divided by the number of elements, so that long
vectors raise no more false alarms than single parameters. Under a prior whose density is highest at
its lower bound, such as a half-t, values near the bound are likely, and only the upper tail counts.

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
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.convergence import e_bfmi
from pyflowers.display import format_number
from pyflowers.engines import SamplerOptions
from pyflowers.fits.posterior import stacked
from pyflowers.fits.verdict import Check, Part
from pyflowers.programs import Capability, Data, Program

if TYPE_CHECKING:
    import xarray as xr

    from pyflowers.programs.densities import PriorDensity

R_HAT_AT_MOST = 1.01
ESS_PER_CHAIN_AT_LEAST = 100
E_BFMI_AT_LEAST = 0.3
DRAWS_AT_LEAST = 4 * ESS_PER_CHAIN_AT_LEAST
EXCESS_AT_MOST = 1e-6
"""Limit for the excess of a log density over the log of its hat function, to allow for rounding.

Where a density exceeds its hat function, values are drawn too rarely.
"""

CENTRAL = 0.99
"""Probability of a prior's central interval, which a posterior median should not leave."""

IDLE = "there is no Markov chain that could fail to converge: R-hat and ESS are not judged"

_AT_MEANS = "Intercept_at_means"
"""The name of the intercept at the columns' means in a formula's program."""

_DISAGREE = 1.1
"""R-hat above which the chains have not explored the same distribution."""

_DEFAULTS = SamplerOptions(seed=0)

_TOO_FEW = (
    f"run longer: --draws {_DEFAULTS.draws}, as so few draws cannot show whether a chain converges"
)

_SLOW = 20
"""Ratio of required to actual ESS above which a longer run is not a practical remedy."""


def diagnose(
    posterior: xr.Dataset,
    stats: Mapping[str, NDArray[np.float64]],
    summary: pd.DataFrame,
    options: SamplerOptions = _DEFAULTS,
    independent: Mapping[str, float] | None = None,
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
        For independent draws, the measurements of their sampler; R-hat and ESS are then not
        judged.

    Returns
    -------
    Part
        For NUTS, the checks of divergences, tree depth and E-BFMI. For all Markov chains, the
        checks of R-hat, bulk ESS and tail ESS over all elements that vary. For independent draws,
        the checks of their number and of whether their quantiles are finite.
    """
    if independent is not None:
        checks = tuple(_independent(posterior, summary, independent))
        return Part("computation", checks, IDLE, "the draws are independent and finite")
    found: dict[str, Check] = {}
    if "divergent__" in stats:
        found["divergences"] = _divergences(stats["divergent__"], options)
    if "treedepth__" in stats:
        num = int((stats["treedepth__"] >= options.max_treedepth).sum())
        advice = f"raise --max-treedepth above {options.max_treedepth}, or rescale the parameters"
        source = "Stan Reference Manual, MCMC Sampling"
        found["treedepth hits"] = _judge("treedepth hits", num, "≤", 0, source, advice)
    if "energy__" in stats:
        values = e_bfmi(stats["energy__"])
        chains = pd.Series(values, index=[f"chain {i + 1}" for i in range(len(values))])
        advice = "the tails are explored slowly: reparametrise, or use priors with lighter tails"
        found["E-BFMI"] = _worst(
            "E-BFMI", chains, "≥", E_BFMI_AT_LEAST, "Betancourt (2016)", advice
        )
    if posterior:
        found |= _convergence(posterior, summary)
    checks = tuple(_by_cause(found, options, posterior.sizes.get("draw", 0)))
    return Part("computation", checks, "", "the sampling converged")


def _by_cause(
    found: Mapping[str, Check], options: SamplerOptions, num_draws: int
) -> Iterator[Check]:
    """Replace advice that would not help until another failure is remedied.

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
            first = check.advice if name == "R-hat" and options.chains == 1 else _TOO_FEW
        elif name == "E-BFMI":
            pass
        elif name != "R-hat" and disagree:
            first = "make the chains agree first (see R-hat)"
        elif "divergences" in failed:
            first = "remove the divergences first"
        elif name != "treedepth hits" and not disagree and "treedepth hits" in failed:
            first = "avoid the treedepth hits first"
        yield replace(check, advice=first or check.advice)


def _convergence(posterior: xr.Dataset, summary: pd.DataFrame) -> dict[str, Check]:
    """Judge R-hat and ESS of every element that varies; constant elements have neither."""
    draws = stacked(posterior)
    num_chains, num_draws = draws.shape[:2]
    # In this form, the condition also holds for an element with a NaN, which is therefore judged.
    varies = ~(draws.max((0, 1)) == draws.min((0, 1)))
    # If nothing varies, the sampler is stuck, and every element is judged.
    judged = summary[varies] if varies.any() else summary
    enough, source = ESS_PER_CHAIN_AT_LEAST * num_chains, "Vehtari et al. (2021)"
    r_hat = _worst("R-hat", judged["r_hat"], "≤", R_HAT_AT_MOST, source)
    found = {"R-hat": replace(r_hat, advice=_on_r_hat(r_hat.value, num_chains))}
    for name, column in (("bulk ESS", "ess_bulk"), ("tail ESS", "ess_tail")):
        size = _worst(name, judged[column], "≥", enough, source)
        found[name] = replace(size, advice=_on_size(size, num_draws))
    return found


def _on_r_hat(value: float, num_chains: int) -> str:
    """Return the advice on an R-hat, which depends on how far it is above its limit."""
    if num_chains == 1:
        return "R-hat compares chains: run at least 2, preferably 4 (--chains 4)"
    if math.isnan(value):
        return "its draws never change, or are not finite: look at the traceplot"
    if value <= _DISAGREE:
        return "run longer: double --warmup and --draws"
    return (
        "the chains disagree, and a longer run rarely helps: rescale covariates with large values "
        "(scale(x) in a formula), or start near 0 (--inits 0.1); if that does not help, "
        "look in the traceplot for chains that stay apart (several modes) or wander (parameters "
        "that the data cannot tell apart), and change the model or its prior"
    )


def _on_size(check: Check, num_draws: int) -> str:
    """Return the advice on an ESS: how much longer to run, if that would help."""
    if math.isnan(check.value):
        return "its draws are constant or not finite: look at the traceplot"
    factor = check.threshold / check.value if check.value > 0 else math.inf
    if not factor <= _SLOW:
        return "the chains move too slowly for a longer run to help: change the parametrisation"
    wanted = 1.2 * factor * num_draws
    digit = 10 ** max(0, math.floor(math.log10(wanted)) - 1)
    return f"run longer: --draws {math.ceil(wanted / digit) * digit}"


def _independent(
    posterior: xr.Dataset, summary: pd.DataFrame, measures: Mapping[str, float]
) -> list[Check]:
    """Judge independent draws: their number, their quantiles, and the sampler's hat function."""
    num = int(np.prod(next(iter(posterior.values())).values.shape[:2]))
    # The first columns are the median and the ends of the interval.
    odd = ~np.isfinite(summary.iloc[:, :3].to_numpy(float)).all(axis=1)
    where = str(summary.index[int(np.argmax(odd))]) if odd.any() else ""
    advice = "raise --draws: quantiles in the tails need more draws"
    rescale = "rescale the data, or use priors that are closer to the data"
    checks = [
        _judge("independent draws", num, "≥", DRAWS_AT_LEAST, "Vehtari et al. (2021)", advice),
        _judge("infinite quantiles", int(odd.sum()), "≤", 0, "IEEE 754", rescale, where),
    ]
    if "largest_excess" in measures:
        name, excess = "log of density over hat", measures["largest_excess"]
        source, advice = "Devroye (1986), section II.3", "use NUTS instead, and report this bug"
        checks.append(_judge(name, excess, "≤", EXCESS_AT_MOST, source, advice))
    return checks


def _judge(
    name: str,
    value: float,
    relation: Literal["≤", "≥"],
    threshold: float,
    source: str,
    advice: str = "",
    where: str = "",
) -> Check:
    passed = value <= threshold if relation == "≤" else value >= threshold
    return Check(name, value, threshold, relation, passed, where, source, advice)


def _worst(name: str, of: pd.Series[float], relation: Literal["≤", "≥"], *limit: Any) -> Check:
    """Judge the worst of several values; NaN counts as the worst."""
    values = of.to_numpy(dtype=float)
    badness = values if relation == "≤" else -values
    position = int(np.argmax(np.where(np.isnan(badness), np.inf, badness)))
    found = _judge(name, float(values[position]), relation, *limit)
    return replace(found, where=str(of.index[position]))


def _divergences(divergent: NDArray[np.float64], options: SamplerOptions) -> Check:
    num = int(divergent.sum())
    advice = (
        "use narrower priors (a flat prior may leave the posterior improper), above all on the sds "
        "of groups (--prior); switch between centred and non-centred group effects (--centered); "
        "or, in a program of your own, declare the bounds that the model assumes"
    )
    if options.adapt_delta < 0.99:
        advice = f"raise --adapt-delta to 0.99; if divergences remain, also {advice}"
    return _judge("divergences", num, "≤", 0, "Betancourt (2017), section 6.2", advice)


# The prior


def examine_prior(
    program: Program, data: Data, summary: pd.DataFrame, posterior: xr.Dataset | None = None
) -> Part:
    """Judge whether the posterior lies in the tail of the prior, so that the two are in conflict.

    Parameters
    ----------
    program : Program
        The program. The priors that it declares in ``[parameters.NAME]`` are judged. Their
        arguments are data, so group effects are not included, because their distribution depends
        on other parameters.
    data : Data
        The filled data block.
    summary : DataFrame
        The summary of the posterior, with medians.
    posterior : Dataset, optional
        The draws, from which the intercept at the covariates' means is computed. The summary does
        not contain this intercept, but a formula declares a prior for it.

    Returns
    -------
    Part
        A check for each proper prior. It judges the posterior median that lies furthest in the
        tail of that prior.
    """
    if program.can(Capability.OBSERVED) and not data.num_obs:
        return Part("prior", note="there are no observations to compare it with")
    by_quantity = summary["median"].groupby(lambda element: element.partition("[")[0])
    medians = {str(name): its for name, its in by_quantity}
    shift, is_declared = data.values.get("X_mean"), _AT_MEANS in program.declaration.parameters
    if is_declared and shift is not None and posterior is not None:
        at_means = posterior["Intercept"].to_numpy() + posterior["b"].to_numpy() @ shift
        own = pd.Series({_AT_MEANS: float(np.median(at_means))})
        medians.setdefault(_AT_MEANS, own)
    checks = [
        check
        for name in program.declaration.parameters
        if name in medians
        for check in _against_priors(program, data, name, medians[name])
    ]
    advice = (
        'no proper prior is declared; declare one, as in [parameters.NAME] prior = "normal(0, 1)"'
    )
    claim = "no posterior median lies in the tail of its declared prior"
    if program.declaration.formula and "b" in program.improper_priors(data.values):
        advice = "the coefficients have flat priors, with which nothing can be compared"
        claim += " (the coefficients, whose priors are flat, were not examined)"
    note = "" if checks else advice
    denial = "the posterior lies in the tail of a prior"
    return Part("prior", tuple(checks), note, claim, denial)


def _against_priors(
    program: Program, data: Data, name: str, medians: pd.Series[float]
) -> Iterator[Check]:
    """Yield one check for a quantity, or one for each element that has a separate prior."""
    whole = _against_prior(program, data, name, medians)
    if whole is None and not program.declaration.prior_elements:
        return  # no element has a separate prior, and a loop over many elements would be slow
    each = ((str(e), medians.iloc[i : i + 1]) for i, e in enumerate(medians.index))
    parts = [(name, medians)] if whole else each
    for part, its in parts:
        check = whole or _against_prior(program, data, part, its)
        if check is not None:
            yield check


def _is_highest_at_bound(prior: PriorDensity) -> bool:
    """Whether a density never rises, so that values near the lower bound are likely."""
    if prior.quantile is None or prior.density is None:
        return False
    x = np.array([prior.quantile(prob) for prob in (1e-6, (1 - CENTRAL) / 2, 0.5)])
    density = prior.density(x)
    return bool(density[0] >= density[1] >= density[2])


def _against_prior(
    program: Program, data: Data, name: str, medians: pd.Series[float]
) -> Check | None:
    prior = program.prior_of(name, data.values)
    if prior is None or prior.quantile is None or not np.isfinite(medians).all():
        return None
    tail = (1 - CENTRAL) / 2 / len(medians)
    low, high = prior.quantile(tail), prior.quantile(1 - tail)
    values, middle = medians.to_numpy(dtype=float), prior.quantile(0.5)
    # The reach is the distance from the prior's median to the limit on the posterior median's side.
    is_below = (values < middle) & (not _is_highest_at_bound(prior))
    reach = np.where(is_below, low - middle, high - middle)
    share = (values - middle) / reach
    position = int(np.argmax(share))
    worst, value = str(medians.index[position]), float(values[position])
    above = not is_below[position]
    limit, prob = (high, 1 - tail) if above else (low, tail)
    far = "above" if above else "below"
    return Check(
        f"median of {worst}",
        value,
        limit,
        "≤" if above else "≥",
        bool(share[position] <= 1),
        f"prior {prior.text}",
        "Evans and Moshonov (2006)",
        program.prior_on_scale(name, data),
        f"{worst}: its posterior median, {format_number(value)}, lies {far} "
        f"{format_number(limit)}, the {100 * prob:.3g}% quantile of its prior {prior.text}",
    )
