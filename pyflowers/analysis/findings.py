"""What failed predictive checks show, in words, and the need that each failed check points to.

:mod:`.remedies` has the remedy for each need.
"""

from __future__ import annotations

import numpy as np

from pyflowers.analysis import ecdf
from pyflowers.analysis.patterns import ROWS, STRUCTURAL, Judged, Patterns
from pyflowers.analysis.remedies import NEEDS, advise, answer
from pyflowers.analysis.statistics import (
    OF_BINARY,
    OF_CATEGORIES,
    OF_COUNTS,
    OF_MEASUREMENTS,
    OF_QUANTILES,
    OF_RATINGS,
    FloatArray,
)
from pyflowers.display import format_number, interval_quantiles, percent
from pyflowers.fits.fit import Fit
from pyflowers.programs.terms import quote

RATIO_IN_WORDS = 1.5
"""A finding gives the ratio of observed to predicted variation only if it is at least this
large."""

SHAPE_Z = 3.0
"""The number of standard errors by which the mean or spread of PITs must deviate to be reported as
the cause."""

MOST_RATINGS = 10
"""A response with at most this many distinct values may be a rating, which the advice mentions."""

LARGEST_SCORE = 200
"""A response whose maximum is at most this number may be a score, which the advice mentions."""

MOST_AT_END = 0.02
"""If a larger share of the values is equal to the largest or to the smallest one, values may have
been cut off there, which changes averages."""

_OTHER = "the {name} of {values} is {side} than"
_FINDINGS = {
    "mean": ("{values} are {side} on average than", "location", "location"),
    "median": (_OTHER, "location", "location"),
    "sd": ("{values} vary {much}", "wider", "narrower"),
    "sd_within": ("{values} vary {much}", "wider", "narrower"),
    "variance_to_mean": ("{values} vary {much}", "wider", "narrower"),
    "dispersion_within": ("{values} vary {much}", "wider", "narrower"),
    "zeros": ("{many} of {values} are 0 than", "zeros", "no zeros"),
    "minimum": ("the smallest of {values} is {side} than", "limit", "tails"),
    "maximum": ("the largest of {values} is {side} than", "tails", "limit"),
    "below_quantile": (
        "{many} of {values} are below their fitted quantile than",
        "quantile",
        "quantile",
    ),
    "shares_between": ("the shares of {values} differ {degree} between groups than", "group", ""),
    "shares_of_rows": ("the shares of {values} differ {degree} between rows than", "unlike", ""),
    "group_outlier": (
        "{who}, the most distant {group}, is {away} the rest than",
        "group",
        "clusters",
    ),
    "autocorrelation": (
        "{values} resemble those of the previous {time}{within} {degree} than",
        "time",
        "alternating in time",
    ),
}
"""For each check: its finding if it fails, then the need if the data's statistic is larger than the
model predicts, and the need if it is smaller."""

_OF_PATTERNS = {
    "mean": "{values} depart farther from their expectation along {x} than",
    "curvature": "the curvature of {values} along {x} is {side} than",
    "interaction": "the effect of {x} on {values} depends more on {other} than",
    "slopes": "the effect of {x} on {values} differs more between the labels of {other} than",
    "spread": "the spread of {values} differs more along {x}{extremes} than",
    "autocorrelation": "{values} resemble their neighbours along {x}{within} more than",
    ROWS: "{values} resemble those of the previous row{within} more than",
}
"""The finding for each kind of failed pattern."""


def is_binary(fit: Fit) -> bool:
    """Return whether the program declares observations that are 0 or 1."""
    declared = fit.program.source.blocks.data.get(fit.data.observed)
    return declared is not None and declared.is_int and declared.upper == "1"


_DIRECTIONS = {
    True: {"side": "larger", "degree": "more", "many": "more", "away": "farther from"},
    False: {"side": "smaller", "degree": "less", "many": "fewer", "away": "nearer to"},
}
"""How the data differ from replicated data, in words; the key is whether they are larger."""


def usual_statistics(fit: Fit) -> tuple[str, ...]:
    """Return the names of the usual statistics of a fit's observations."""
    if is_binary(fit):
        return OF_BINARY
    if fit.model.has_categories:
        return OF_CATEGORIES
    if fit.model.quantile:
        return OF_QUANTILES
    if fit.model.is_ordinal:
        return OF_RATINGS
    if fit.program.counts:
        return OF_COUNTS
    return OF_MEASUREMENTS


def of_statistic(
    fit: Fit, name: str, meaning: str, observed: float, replicated: FloatArray, who: str
) -> tuple[str, str]:
    """Return the finding and the advice for a statistic whose check failed.

    Parameters
    ----------
    fit : Fit
        The fit, with the user's names for the columns.
    name, meaning : str
        The name of the statistic, and the statistic in words.
    observed : float
        Its value in the data.
    replicated : array, shape (S,)
        Its values in replicated data.
    who : str
        The group that is farthest from the rest.
    """
    median, low, high = np.quantile(replicated, list(interval_quantiles(fit.interval).values()))
    is_larger = bool(np.mean(replicated > observed) < np.mean(replicated < observed))
    group, time, where = "group", "time", ""
    if fit.data.by_group is not None:
        group = fit.data.by_group.column
    if fit.data.by_time is not None:
        time = fit.data.by_time.column
    if name.endswith("_within"):
        where = _within_groups(fit)
    directions = _DIRECTIONS[is_larger]
    much = f"{directions['degree']}{where} than"
    if median > 0 and observed / median >= RATIO_IN_WORDS:
        much = f"{observed / median:.2g} times as much{where} as"
    found, if_larger, if_smaller = _FINDINGS.get(name, (_OTHER, "", ""))
    words = {
        "name": name,
        "values": _values(fit),
        **directions,
        "much": much,
        "who": who,
        "group": group,
        "time": time,
        "within": _within_groups(fit),
        "order": f"if {time} is not the time of the rows, do not declare it as the time",
    }
    need = if_smaller
    if is_larger:
        need = if_larger
    if is_binary(fit) and name == "dispersion_within":
        need = "chosen"
    elif need == "limit" and not fit.program.counts and np.isin(fit.data.y, (0, 1)).all():
        need = "binary"
    elif name == "minimum" and observed > 0 > median and fit.program.declaration.formula:
        need = "positive"
    elif need == "limit" and _is_unbounded(fit):
        need = _of_bounded(fit, name, words)
    shown = _shown(fit, meaning, observed, low, high)
    return f"{found.format_map(words)} the model predicts ({shown})", advise(fit, need, words)


def _shown(fit: Fit, meaning: str, observed: float, low: float, high: float) -> str:
    """Return a statistic with its value and with the interval of its replicated values."""
    value, low_end, high_end = (format_number(float(each)) for each in (observed, low, high))
    interval = percent(fit.interval)
    return f"{meaning} {value}; {interval} interval of replicated data {low_end} to {high_end}"


def _is_unbounded(fit: Fit) -> bool:
    """Return whether the program was written for a formula whose family has no limits."""
    return fit.program.declaration.formula is not None and fit.model.family.is_unbounded


def _of_bounded(fit: Fit, name: str, words: dict[str, str]) -> str:
    """Return the need of a fit whose response has a limit, such as ``ratings`` or ``shares``."""
    y, formula = fit.data.y, fit.program.declaration.formula
    assert formula is not None
    num, most = len(np.unique(y)), float(y.max())
    words["num"] = str(num)
    if num <= MOST_RATINGS:
        return "ratings"
    if y.min() > 0 and most < 1:
        return "shares"
    if y.min() >= 0 and most <= 1:
        return "shares with ends"
    is_whole, share = bool((y == np.floor(y)).all()), float(np.mean(y == 0))
    if name == "minimum" and y.min() == 0 and not is_whole and share > MOST_AT_END:
        words["share"] = f"{share:.0%}"
        return "amounts"
    is_from_0 = name == "maximum" or y.min() == 0
    if is_whole and y.min() >= 0 and is_from_0 and most <= LARGEST_SCORE:
        words["most"] = f"{most:g}"
        right = formula.text.partition("~")[2].strip()
        words["trials"] = f"{quote(fit.data.response_name)} | trials({most:g}) ~ {right}"
        return "scores"
    return "limit"


def of_pattern(fit: Fit, patterns: Patterns, judged: Judged) -> tuple[str, str]:
    """Return the finding and the advice for a pattern of residuals whose check failed.

    Parameters
    ----------
    fit : Fit
        The fit.
    patterns : Patterns
        All its patterns, with the terms that explain the patterns of the mean.
    judged : Judged
        The pattern that failed.
    """
    pattern, replicated = judged.pattern, judged.replicated
    x, other = pattern.columns[0], pattern.columns[-1]
    median, low, high = np.quantile(replicated, list(interval_quantiles(fit.interval).values()))
    words = {
        "values": _values(fit),
        "x": x,
        "other": other,
        "side": _DIRECTIONS[bool(judged.observed > median)]["side"],
        "within": _within_groups(fit),
        "extremes": _extremes(judged),
    }
    kind, neighbours = pattern.kind, "neighbours"
    if x == ROWS:
        kind = neighbours = ROWS
    found = _OF_PATTERNS[kind].format_map(words)
    shown = _shown(fit, pattern.meaning, judged.observed, low, high)
    advice, is_explained = "", pattern.name not in patterns.remaining
    if is_explained or pattern.kind in STRUCTURAL or pattern.kind == "spread":
        advice = answer(fit, patterns)
    if not advice and pattern.kind == "autocorrelation":
        advice = advise(fit, neighbours, words)
    elif not advice:
        words["term"] = f"C({quote(x)})"
        advice = advise(fit, NEEDS.get(pattern.kind, pattern.kind), words)
    return f"{found} the model predicts ({shown})", advice


MOST_TIMES = 100
"""The largest ratio of two spreads that is given as a number.

A spread near 0, as in a group with equal counts, would give a meaningless ratio.
"""


def _extremes(judged: Judged) -> str:
    """Return where the spread is largest and smallest, in words."""
    pattern, ratio = judged.pattern, judged.by_bin
    if not ratio.size:
        return ""
    low, high = int(np.argmin(ratio)), int(np.argmax(ratio))
    names = [pattern.bins[i] for i in (high, low)]
    if ratio[low] * MOST_TIMES < ratio[high]:
        return f" (largest at {names[0]}, and next to none at {names[1]})"
    return f" ({ratio[high] / ratio[low]:.2g} times as large at {names[0]} as at {names[1]})"


def of_pits(fit: Fit, u: FloatArray, points: FloatArray) -> tuple[str, str]:
    """Return the finding and the advice for PITs `u` that leave the band evaluated at `points`.

    Most failures show in the mean of the PITs and in their spread about ½, the first two
    components of Neyman's smooth test (Neyman 1937, Smooth test for goodness of fit, Skandinavisk
    Aktuarietidskrift 20).
    """
    values = _values(fit)
    # A uniform u has variance 1/12, and (u − ½)² has mean 1/12 and variance 1/180.
    slope = float((u.mean() - 0.5) * np.sqrt(12 * u.size))
    spread = float((np.mean((u - 0.5) ** 2) - 1 / 12) * np.sqrt(180 * u.size))
    if max(abs(slope), abs(spread)) < SHAPE_Z:
        # At z, the distribution function of the PITs is farthest from the uniform one, measured in
        # standard errors.
        share = ecdf.counts(u, points, u.size) / u.size
        z = int(np.argmax(np.abs(share - points) / np.sqrt(points * (1 - points))))
        digits = 2
        if abs(share[z] - points[z]) >= 0.01 and 0.01 <= points[z] <= 0.99:
            digits = 0
        below, predicted = (f"{each:.{digits}%}" for each in (share[z], points[z]))
        found = f"{below} of {values} are below their predicted {predicted} quantile"
        return found, advise(fit, "another shape")
    if abs(slope) > abs(spread):
        low = "high"
        if slope > 0:
            low = "low"
        found = (
            f"predictions are too {low}: {np.mean(u > 0.5):.0%} of {values} are above their "
            "predicted "
        )
        return f"{found}median", advise(fit, "shape")
    outside, far = (float(np.mean(np.abs(u - 0.5) > half)) for half in (0.4, 0.495))
    if spread < 0 and far > 0.01 and not fit.program.counts:
        found = (
            f"most of {values} are nearer to their predictions than the model expects, and a few "
            f"are farther away: {outside:.0%} are outside the 80% interval predicted for each, and "
            f"{far:.1%} outside the 99% interval"
        )
        return found, advise(fit, "tails")
    degree, need = "less", "narrower"
    if spread > 0:
        degree, need = "more", "wider"
    found = (
        f"{values} vary {degree} than the model predicts: {outside:.0%} of them are outside the "
        "80% interval predicted for each"
    )
    return found, advise(fit, need)


def _values(fit: Fit) -> str:
    """Return a phrase for the observed values, with the user's name for the column."""
    if fit.data.counted:
        return f"the {fit.data.response_name}"
    what = "values"
    if fit.program.counts and usual_statistics(fit) == OF_COUNTS:
        what = "counts"
    return f"the {what} of {fit.data.response_name}"


def _within_groups(fit: Fit) -> str:
    """Return words for the groups, if any of them has several observations."""
    labels = fit.data.by_group
    if labels is None or len(labels) == fit.data.num_obs:
        return ""
    return f" within each {labels.column}"
