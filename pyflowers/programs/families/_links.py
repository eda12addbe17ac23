"""Links: functions of the expected response, or of a probability, that equal the linear predictor.

References
----------
McCullagh and Nelder (1989), Generalized Linear Models, sections 2.2.4 and 4.3.1. Stan Functions
Reference 2.35, "Link functions", for ``Phi`` and ``inv_cloglog``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Function = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class ResponseLink:
    """A link of the response.

    Attributes
    ----------
    name : str
        Its name.
    meaning : str
        The linear predictor in words, where ``{}`` stands for the response.
    stan : str
        Its inverse in Stan, for a linear predictor ``{eta}``.
    of : callable
        The link, as a function of an expected response or of a probability.
    inverse : callable
        Its inverse.
    via_log, via_log_odds : callable or None
        The log of the inverse, for expected responses above 0, and its log odds, for probabilities.
        They are exact where the inverse itself is rounded to 0 or 1.
    rest : str
        One minus the inverse in Stan, for probabilities.
    log_rest : str
        The log of `rest`, which is exact where the inverse is rounded to 1; empty for logit, for
        which Stan has densities.
    """

    name: str
    meaning: str
    stan: str
    of: Function
    inverse: Function
    via_log: Function | None = None
    via_log_odds: Function | None = None
    rest: str = ""
    log_rest: str = ""


def _log(values: FloatArray) -> FloatArray:
    """Return logs; the log of a number below 0 is NaN, as it cannot be an expected response."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(values))


def log_inv_logit(log_odds: FloatArray) -> FloatArray:
    """Return log inv_logit(log_odds), without cancellation.

    np.logaddexp(0, -log_odds) is the same, but takes three times as long.
    """
    return np.asarray(np.minimum(log_odds, 0.0) - np.log1p(np.exp(-np.abs(log_odds))))


def log_inv_logits(log_odds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the logs of inv_logit(log_odds) and of inv_logit(-log_odds)."""
    rest = np.log1p(np.exp(-np.abs(log_odds)))
    return np.minimum(log_odds, 0.0) - rest, np.minimum(-log_odds, 0.0) - rest


def _softplus(eta: FloatArray) -> FloatArray:
    return -log_inv_logit(-eta)


def _inverse(eta: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(1 / eta)


def _expit(eta: FloatArray) -> FloatArray:
    from scipy.special import expit

    return np.asarray(expit(eta))


def _phi(eta: FloatArray) -> FloatArray:
    from scipy.special import ndtr

    return np.asarray(ndtr(eta))


def _probit(p: FloatArray) -> FloatArray:
    from scipy.special import ndtri

    return np.asarray(ndtri(p))


def _log_odds_of_phi(eta: FloatArray) -> FloatArray:
    from scipy.special import log_ndtr

    return np.asarray(log_ndtr(eta) - log_ndtr(-eta))


def _log_odds_of_cloglog(eta: FloatArray) -> FloatArray:
    """Return log(exp(t) - 1) with t = exp(eta)."""
    with np.errstate(over="ignore"):
        t = np.exp(eta)
    # expm1(-t) rounds to -t for a small t, whose log is eta, even where t underflows.
    small = np.where(t < 1e-12, eta, _log(-np.expm1(-np.maximum(t, 1e-300))))
    return np.asarray(t + small)


def _identity(values: FloatArray) -> FloatArray:
    return values


_LINKS = (
    ResponseLink("identity", "expected {}", "{eta}", _identity, _identity, via_log=_log),
    ResponseLink("log", "log of the expected {}", "exp({eta})", _log, np.exp, via_log=_identity),
    ResponseLink(
        "inverse",
        "1 over the expected {}",
        "inv({eta})",
        _inverse,
        _inverse,
        via_log=lambda eta: -_log(eta),
    ),
    ResponseLink(
        "softplus",
        "softplus link of the expected {}",
        "log1p_exp({eta})",
        lambda mean: mean + _log(-np.expm1(-mean)),
        _softplus,
        via_log=lambda eta: _log(_softplus(eta)),
    ),
    ResponseLink(
        "logit",
        "log odds of {}",
        "inv_logit({eta})",
        lambda p: _log(p / (1 - p)),
        _expit,
        via_log_odds=_identity,
        rest="inv_logit(-({eta}))",
    ),
    ResponseLink(
        "probit",
        "probit of the probability of {}",
        "Phi({eta})",
        _probit,
        _phi,
        via_log_odds=_log_odds_of_phi,
        rest="Phi(-({eta}))",
        log_rest="log(Phi(-({eta})))",
    ),
    ResponseLink(
        "cloglog",
        "complementary log-log of the probability of {}",
        "inv_cloglog({eta})",
        lambda p: _log(-np.log1p(-p)),
        lambda eta: -np.expm1(-np.exp(np.minimum(eta, 700.0))),
        via_log_odds=_log_odds_of_cloglog,
        rest="exp(-exp({eta}))",
        log_rest="-exp({eta})",
    ),
    ResponseLink(
        "tan_half",
        "tangent of half the mean direction of {}",
        "2 * atan({eta})",
        lambda angle: np.tan(angle / 2),
        lambda eta: 2 * np.arctan(eta),
    ),
)
LINKS = {link.name: link for link in _LINKS}
"""The links by name."""

FARTHEST, STEP, MOST_NODES = 9.0, 0.4, 4000
"""The limits and the step of the grid over which :func:`averaged` sums, for a function of eta that
changes on the scale 1; and the largest number of its nodes."""


def averaged(function: Function, eta: FloatArray, sd: Any, width: float = 1.0) -> FloatArray:
    """Return the average of function(eta + sd z) over z ~ N(0, 1).

    `width` is the change in eta that noticeably changes the function.

    The sum over equally spaced z is exact to about 1e-10 for functions that are as smooth as
    inv_logit or inv_cloglog, or that grow like exp, unless sd is above 80.
    """
    sd = np.asarray(sd)
    if not sd.any():
        return np.asarray(function(eta))
    largest = float(sd.max())
    # Where the function grows like exp, the product with the density peaks at z = sd.
    end = FARTHEST + min(largest, FARTHEST)
    num = min(int(np.ceil(2 * end / STEP * max(largest / width, 1.0))), MOST_NODES)
    nodes = np.linspace(-end, end, num)
    weights = np.exp(-0.5 * nodes**2)
    weights /= weights.sum()
    total: Any = 0.0
    for node, weight in zip(nodes, weights, strict=True):
        if weight > 0:
            total = total + weight * function(eta + node * sd)
    return np.asarray(total)
