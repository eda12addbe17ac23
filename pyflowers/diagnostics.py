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
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pyflowers.inference_data import arviz
from pyflowers.summary import convergence, elements, flatten, format_number

R_HAT_AT_MOST = 1.01
ESS_PER_CHAIN_AT_LEAST = 100
E_BFMI_AT_LEAST = 0.3

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


@dataclass(frozen=True)
class Verdict:
    """All checks of a fit."""

    checks: tuple[Check, ...]

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
            return f"all {len(self.checks)} diagnostics pass: the draws can be trusted"
        lines = [
            f"{len(self.failed)} of {len(self.checks)} diagnostics fail: do not trust this fit"
        ]
        return "\n".join([*lines, *map(str, self.failed)])

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values, for JSON."""
        checks = [asdict(check) for check in self.checks]
        for check in checks:
            if not math.isfinite(check["value"]):
                check["value"] = None
        return {"passed": self.passed, "checks": checks}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Verdict:
        """Rebuild what :meth:`to_dict` returned."""
        checks = [
            Check(**{**check, "value": math.nan if check["value"] is None else check["value"]})
            for check in values["checks"]
        ]
        return cls(tuple(checks))


def diagnose(idata: Any, max_treedepth: int = 10) -> Verdict:
    """Judge a fit.

    Parameters
    ----------
    idata : arviz.InferenceData
        With groups ``posterior`` and ``sample_stats``.
    max_treedepth : int
        The bound that the sampler was given.

    Returns
    -------
    Verdict
        R-hat, bulk and tail ESS over all parameters; divergences, tree depth and E-BFMI where the
        sampler was NUTS.
    """
    checks = _convergence(idata.posterior)
    stats = idata.sample_stats
    if "diverging" in stats:
        checks.append(_divergences(stats))
    if "tree_depth" in stats:
        checks.append(_treedepth(stats, max_treedepth))
    if "energy" in stats:
        checks.append(_e_bfmi(idata))
    return Verdict(tuple(checks))


def _convergence(posterior: Any) -> list[Check]:
    """R-hat and ESS of every element that varies; one that never does has neither."""
    num_chains = posterior.sizes["chain"]
    names = np.array([n for v in posterior.data_vars for n, _ in elements(posterior[v])])
    dims = ("chain", "draw")
    varies = flatten(posterior.max(dims)) > flatten(posterior.min(dims))
    # A parameter that no chain ever moved is a stuck sampler, not a constant to leave out.
    judged = varies if varies.any() else np.ones_like(varies)
    enough = ESS_PER_CHAIN_AT_LEAST * num_chains
    found = convergence(posterior)
    source = "Vehtari et al. (2021)"
    return [
        _worst("R-hat", found["r_hat"], names, judged, "≤", R_HAT_AT_MOST, source),
        _worst("bulk ESS", found["ess_bulk"], names, judged, "≥", enough, source),
        _worst("tail ESS", found["ess_tail"], names, judged, "≥", enough, source),
    ]


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


def _divergences(stats: Any) -> Check:
    num = int(stats["diverging"].sum())
    source = "Betancourt (2017), section 6.2"
    return Check("divergences", num, 0, "≤", num == 0, "", source, _DIVERGENCES)


def _treedepth(stats: Any, max_treedepth: int) -> Check:
    num = int((stats["tree_depth"] >= max_treedepth).sum())
    advice = f"raise max_treedepth above {max_treedepth}, or rescale the parameters"
    source = "Stan Reference Manual, Efficient MCMC sampling"
    return Check("treedepth hits", num, 0, "≤", num == 0, "", source, advice)


def _e_bfmi(idata: Any) -> Check:
    values = np.asarray(arviz().bfmi(idata), dtype=float)
    names = np.array([f"chain {i + 1}" for i in range(len(values))])
    judged = np.ones(len(values), dtype=bool)
    check = _worst("E-BFMI", values, names, judged, "≥", E_BFMI_AT_LEAST, "Betancourt (2016)")
    advice = "the tails are explored slowly: reparametrise, or use priors with lighter tails"
    return Check(**{**asdict(check), "advice": advice})
