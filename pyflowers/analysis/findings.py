"""What a failed predictive check means, with the user's names of columns, and what to do next."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyflowers.analysis.pit import LooPit
from pyflowers.display import format_number, interval_quantiles
from pyflowers.fits.fit import Fit

RATIO_IN_WORDS = 1.5
"""From this ratio on, a finding says how many times as much values vary."""

SHAPE_Z = 3.0
"""Standard errors by which the mean or spread of PITs must be off to be named as what is wrong."""

_MEAN = (
    "see whether pyflowers sensitivity finds a prior far from the data, which then needs their "
    "scale (--prior); if not, the program lacks a covariate or an offset"
)
_WIDER_COUNTS = (
    "use a likelihood with a dispersion of its own (neg_binomial_2 instead of poisson, "
    "beta_binomial instead of binomial), or add a normal effect of each row to the log or logit"
)
_WIDER = "use student_t instead of normal, or let the standard deviation differ between groups"
_NARROWER = (
    "let the mean depend on what sets the rows apart (their group, a covariate), as far as it does "
    "not yet; otherwise "
)
_NARROWER_COUNTS = (
    f"{_NARROWER}use a likelihood that varies less, such as binomial where counts have a maximum"
)
_NARROWER_MEASUREMENTS = f"{_NARROWER}narrow the prior on the standard deviation"
_TAILS = (
    "look at the most extreme rows; where they are right, use a likelihood with heavier tails "
    "(neg_binomial_2 instead of poisson, student_t instead of normal)"
)
_LIMIT = (
    "see whether values are cut off at a limit, which truncation or censoring describes; if not, "
    "the program lets values vary too much"
)
_ADVICE = {
    "mean": (_MEAN, _MEAN),
    "median": (_MEAN, _MEAN),
    "sd": (_WIDER, _NARROWER_MEASUREMENTS),
    "sd_within": (_WIDER, _NARROWER_MEASUREMENTS),
    "variance_to_mean": (_WIDER_COUNTS, _NARROWER_COUNTS),
    "dispersion_within": (_WIDER_COUNTS, _NARROWER_COUNTS),
    "zeros": (
        "use neg_binomial_2, which has more zeros than poisson, or a zero-inflated likelihood",
        "if rows of 0 were left out of the table, add them; otherwise truncate the likelihood at "
        "1, or give zeros a probability of their own",
    ),
    "minimum": (_LIMIT, _TAILS),
    "maximum": (_TAILS, _LIMIT),
    "group_outlier": (
        "look at its rows; where they are right, add a covariate that sets it apart, or draw the "
        "groups from student_t instead of normal",
        "see whether the groups form clusters, and add the covariate that divides them",
    ),
    "autocorrelation": (
        "add an effect of time, such as a trend or a season, or an autoregressive term",
        "look for what alternates in time, and add its effect",
    ),
}
"""What to do where a statistic is larger than the model's, and where it is smaller."""


def of_statistic(
    fit: Fit, name: str, meaning: str, observed: float, replicated: NDArray[np.float64], who: str
) -> tuple[str, str]:
    """Return what the failed check of a statistic found, and what to do about it.

    Parameters
    ----------
    fit : Fit
        Has the user's names of columns.
    name, meaning : str
        The statistic.
    observed : float
        Its value in the data.
    replicated : array, shape (S,)
        Its values in replicated data.
    who : str
        The group that is farthest from the rest.
    """
    median, low, high = np.quantile(replicated, list(interval_quantiles(fit.interval).values()))
    is_larger = bool(np.mean(replicated > observed) < np.mean(replicated < observed))
    side = "larger" if is_larger else "smaller"
    values, within, group, qualified = _values(fit), "", "group", ""
    if fit.data.by_group is not None:
        group = fit.data.by_group.column
        within = f" within each {group}"
    if name in ("sd", "variance_to_mean", "sd_within", "dispersion_within"):
        where = within if name.endswith("_within") else ""
        if median > 0 and observed / median >= RATIO_IN_WORDS:
            found = f"{values} vary {observed / median:.2g} times as much{where} as"
        else:
            found = f"{values} vary {'more' if is_larger else 'less'}{where} than"
    elif name == "mean":
        found = f"{values} are {side} on average than"
    elif name == "zeros":
        found = f"{'more' if is_larger else 'fewer'} of {values} are 0 than"
    elif name in ("minimum", "maximum"):
        found = f"the {'smallest' if name == 'minimum' else 'largest'} of {values} is {side} than"
    elif name == "group_outlier":
        away = "farther from" if is_larger else "nearer to"
        found = f"{who}, the most distant {group}, is {away} the rest than"
    elif name == "autocorrelation":
        time = fit.data.by_time.column if fit.data.by_time is not None else "time"
        how = "more" if is_larger else "less"
        found = f"{values} resemble those at the {time} before{within} {how} than"
        qualified = f"; if {time} is no order in time, do not give it as the time"
    else:
        found = f"the {name} of {values} is {side} than"
    numbers = [format_number(float(value)) for value in (observed, low, high)]
    shown = "{} {}; replicated {} to {}".format(meaning, *numbers)
    advice = _ADVICE.get(name, ("", ""))[0 if is_larger else 1] + qualified
    return f"{found} the model predicts ({shown})", _with_start(fit, advice)


def of_pits(fit: Fit, pit: LooPit) -> tuple[str, str]:
    """Return what is wrong with PITs that are not uniform, and what to do about it.

    Their mean and their spread about ½ tell most: the first two components of Neyman's smooth test
    (Neyman 1937, Smooth test for goodness of fit, Skandinavisk Aktuarietidskrift 20).
    """
    u, values = pit.values, _values(fit)
    # Of uniform values, u has variance 1/12, and (u − ½)² has mean 1/12 and variance 1/180.
    slope = float((u.mean() - 0.5) * np.sqrt(12 * u.size))
    spread = float((np.mean((u - 0.5) ** 2) - 1 / 12) * np.sqrt(180 * u.size))
    if max(abs(slope), abs(spread)) < SHAPE_Z:
        # Where the distribution function of the PITs is farthest from that of uniform values.
        from pyflowers.analysis.ecdf import counts

        points = pit.band.points
        share = counts(u, points, u.size) / u.size
        z = int(np.argmax(np.abs(share - points) / np.sqrt(points * (1 - points))))
        digits = 0 if abs(share[z] - points[z]) >= 0.01 else 2
        found = (
            f"{share[z]:.{digits}%} of {values} lie below their predicted "
            f"{points[z]:.{digits}%} quantile"
        )
        return found, _with_start(
            fit, "see the figure of the PITs for where predictions and data differ"
        )
    if abs(slope) > abs(spread):
        above = np.mean(u > 0.5)
        low = "low" if slope > 0 else "high"
        found = f"predictions are too {low}: {above:.0%} of {values} are above their predicted "
        return f"{found}median", _with_start(fit, _MEAN)
    outside = np.mean(np.abs(u - 0.5) > 0.4)
    found = (
        f"{values} vary {'more' if spread > 0 else 'less'} than the model predicts: "
        f"{outside:.0%} of them are outside the 80% interval predicted for each"
    )
    wider = _WIDER_COUNTS if fit.program.counts else _WIDER
    narrower = _NARROWER_COUNTS if fit.program.counts else _NARROWER_MEASUREMENTS
    return found, _with_start(fit, wider if spread > 0 else narrower)


def _values(fit: Fit) -> str:
    """Return the observed values in the user's words."""
    return f"the {'counts' if fit.program.counts else 'values'} of {fit.data.value_name}"


def _with_start(fit: Fit, advice: str) -> str:
    """Add how to change a program that ships with the package: by a copy."""
    if not advice or advice == _MEAN or fit.program.reference.endswith(".stan"):
        return advice
    return f"{advice}; for a copy to change: pyflowers new NAME --from {fit.program.reference}"
