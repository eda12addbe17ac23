"""Draws in, a verdict out, which says whether a fit can be trusted.

Every check names its statistic, its worst value and where that is, its threshold and the source of
the threshold, and what to do when it fails. A failed check is a value, not an exception.

References
----------
.. [1] Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
   localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16(2).
.. [2] Betancourt (2017), A conceptual introduction to Hamiltonian Monte Carlo,
   arXiv:1701.02434, section 6.2.
.. [3] Betancourt (2016), Diagnosing suboptimal cotangent disintegrations in Hamiltonian Monte
   Carlo, arXiv:1604.00695; 0.3 is the threshold of CmdStan's ``diagnose``.
.. [4] Devroye (1986), Non-Uniform Random Variate Generation, section II.3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.convergence import e_bfmi
from pyflowers.display import format_number
from pyflowers.fits.posterior import Posterior, element_names, stacked

R_HAT_AT_MOST = 1.01
ESS_PER_CHAIN_AT_LEAST = 100
E_BFMI_AT_LEAST = 0.3
DRAWS_AT_LEAST = 4 * ESS_PER_CHAIN_AT_LEAST
EXCESS_AT_MOST = 1e-6
"""Rounding error: where a density is above its hat, too little of it is drawn."""

IDLE = (
    "the draws are independent, made without a Markov chain that could fail to converge, so "
    "R-hat and ESS are shown but not judged"
)

_LONGER = "run longer: double --warmup and --draws, and look at the traceplots"
_DIVERGENCES = (
    "raise adapt_delta towards 0.99; if divergences stay, change the parametrisation or the prior"
)


@dataclass(frozen=True)
class Check:
    """One diagnostic and whether it passed.

    Attributes
    ----------
    name : str
        The statistic, such as ``R-hat``.
    value : float
        Its worst value.
    threshold : float
        The value that it must not pass.
    relation : str
        ``≤`` or ``≥``: how value and threshold must compare.
    passed : bool
        Whether they do.
    where : str
        The parameter or chain with the worst value, where that means something.
    source : str
        Where the threshold comes from.
    advice : str
        What to do next when the check fails.
    """

    name: str
    value: float
    threshold: float
    relation: str
    passed: bool
    where: str
    source: str
    advice: str

    def __str__(self) -> str:
        mark = "passed" if self.passed else "FAILED"
        at = f" ({self.where})" if self.where else ""
        value, threshold = format_number(self.value), f"{self.threshold:g}"
        line = f"{mark}  {self.name} {value}{at}, must be {self.relation} {threshold}"
        return line if self.passed else f"{line}: {self.advice}"


@dataclass(frozen=True, repr=False)
class Verdict:
    """All checks of a fit; it prints as its sentence.

    Attributes
    ----------
    checks : tuple of Check
        What was judged.
    note : str
        What was not judged, and why.
    """

    checks: tuple[Check, ...]
    note: str = ""

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if not check.passed)

    def __str__(self) -> str:
        if self.passed:
            passed = f"all {len(self.checks)} diagnostics pass: the draws can be trusted"
            return f"{passed} ({self.note})" if self.note else passed
        lines = [
            f"{len(self.failed)} of {len(self.checks)} diagnostics fail: do not trust this fit"
        ]
        return "\n".join([*lines, *map(str, self.failed)])

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values, for JSON."""
        checks = [asdict(check) for check in self.checks]
        for check in checks:
            if not math.isfinite(check["value"]):
                check["value"] = None
        return {"passed": self.passed, "checks": checks, "note": self.note}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Verdict:
        """Rebuild what :meth:`to_dict` returned."""
        checks = [
            Check(**{**check, "value": math.nan if check["value"] is None else check["value"]})
            for check in values["checks"]
        ]
        return cls(tuple(checks), values.get("note", ""))


def diagnose(
    posterior: Posterior,
    stats: Mapping[str, NDArray[np.float64]],
    summary: pd.DataFrame,
    max_treedepth: int = 10,
    independent: Mapping[str, float] | None = None,
) -> Verdict:
    """Judge a fit.

    Parameters
    ----------
    posterior : mapping of str to Quantity
        The draws.
    stats : mapping of str to array, shape (chain, draw)
        Sampler statistics by Stan's names.
    summary : DataFrame
        What :func:`pyflowers.fits.summary.summarize` says of these draws.
    max_treedepth : int
        The bound that the sampler was given.
    independent : mapping of str to float, optional
        For independent draws, what their sampler says of itself; R-hat and ESS are idle then.

    Returns
    -------
    Verdict
        R-hat, bulk and tail ESS over all parameters; divergences, tree depth and E-BFMI where the
        sampler was NUTS.
    """
    if independent is not None:
        return Verdict(tuple(_independent(posterior, summary, independent)), IDLE)
    checks = _convergence(posterior, summary) if posterior else []
    if "divergent__" in stats:
        checks.append(_divergences(stats))
    if "treedepth__" in stats:
        checks.append(_treedepth(stats, max_treedepth))
    if "energy__" in stats:
        checks.append(_e_bfmi(stats))
    return Verdict(tuple(checks))


def _convergence(posterior: Posterior, summary: pd.DataFrame) -> list[Check]:
    """R-hat and ESS of every element that varies; one that never does has neither."""
    draws = stacked(posterior)
    names = np.asarray(element_names(posterior))
    # Written so that a draw that is not a number counts as varying, and is judged.
    varies = ~(draws.max((0, 1)) == draws.min((0, 1)))
    # A parameter that no chain ever moved is a stuck sampler, not a constant to leave out.
    judged = varies if varies.any() else np.ones_like(varies)
    enough = ESS_PER_CHAIN_AT_LEAST * draws.shape[0]
    found = {name: summary[name].to_numpy(float) for name in ("r_hat", "ess_bulk", "ess_tail")}
    source = "Vehtari et al. (2021)"
    return [
        _worst("R-hat", found["r_hat"], names, judged, "≤", R_HAT_AT_MOST, source),
        _worst("bulk ESS", found["ess_bulk"], names, judged, "≥", enough, source),
        _worst("tail ESS", found["ess_tail"], names, judged, "≥", enough, source),
    ]


def _independent(
    posterior: Posterior, summary: pd.DataFrame, measures: Mapping[str, float]
) -> list[Check]:
    """Judge what can go wrong without a Markov chain: too few draws, or none that are numbers."""
    num = int(np.prod(next(iter(posterior.values())).values.shape[:2]))
    # The first columns are the median and the interval, whichever that is.
    odd = ~np.isfinite(summary.iloc[:, :3].to_numpy(float)).all(axis=1)
    where = str(summary.index[int(np.argmax(odd))]) if odd.any() else ""
    checks = [
        Check(
            *("independent draws", num, DRAWS_AT_LEAST, "≥", num >= DRAWS_AT_LEAST, ""),
            *("Vehtari et al. (2021)", "raise --draws: quantiles in the tails need more"),
        ),
        Check(
            *("infinite quantiles", int(odd.sum()), 0, "≤", not odd.any(), where),
            *("IEEE 754", "rescale the data, or use priors that are closer to them"),
        ),
    ]
    if "largest_excess" in measures:
        excess = measures["largest_excess"]
        checks.append(
            Check(
                *("log of density over hat", excess, EXCESS_AT_MOST, "≤", excess <= EXCESS_AT_MOST),
                *("", "Devroye (1986), section II.3", "sample by NUTS instead, and report this"),
            )
        )
    return checks


def _worst(
    name: str,
    values: Any,
    names: Any,
    judged: Any,
    relation: str,
    threshold: float,
    source: str,
) -> Check:
    """Judge the worst of several values; one that is not a number is the worst of all."""
    values, names = values[judged], names[judged]
    badness = values if relation == "≤" else -values
    position = int(np.argmax(np.where(np.isnan(badness), np.inf, badness)))
    value = float(values[position])
    passed = value <= threshold if relation == "≤" else value >= threshold
    where = str(names[position])
    return Check(name, value, threshold, relation, bool(passed), where, source, _LONGER)


def _divergences(stats: Mapping[str, NDArray[np.float64]]) -> Check:
    num = int(stats["divergent__"].sum())
    source = "Betancourt (2017), section 6.2"
    return Check("divergences", num, 0, "≤", num == 0, "", source, _DIVERGENCES)


def _treedepth(stats: Mapping[str, NDArray[np.float64]], max_treedepth: int) -> Check:
    num = int((stats["treedepth__"] >= max_treedepth).sum())
    advice = f"raise max_treedepth above {max_treedepth}, or rescale the parameters"
    source = "Stan Reference Manual, Efficient MCMC sampling"
    return Check("treedepth hits", num, 0, "≤", num == 0, "", source, advice)


def _e_bfmi(stats: Mapping[str, NDArray[np.float64]]) -> Check:
    values = e_bfmi(stats["energy__"])
    names = np.array([f"chain {i + 1}" for i in range(len(values))])
    judged = np.ones(len(values), dtype=bool)
    check = _worst("E-BFMI", values, names, judged, "≥", E_BFMI_AT_LEAST, "Betancourt (2016)")
    advice = "the tails are explored slowly: reparametrise, or use priors with lighter tails"
    return Check(**{**asdict(check), "advice": advice})
