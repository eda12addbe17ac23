"""The findings of failed predictive checks in words, with advice on each.

A failed check points to a need, such as a likelihood with more variation, and this module has a
name for each need. The advice on a need depends on the program: another family or term for a
formula, another distribution for a program in Stan.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from pyflowers.analysis import ecdf
from pyflowers.analysis.statistics import (
    OF_BINARY,
    OF_COUNTS,
    OF_MEASUREMENTS,
    OF_RATINGS,
    FloatArray,
)
from pyflowers.display import format_number, interval_quantiles
from pyflowers.fits.fit import Fit
from pyflowers.programs.families import find_family
from pyflowers.programs.prediction import group_columns
from pyflowers.programs.terms import quote

if TYPE_CHECKING:
    from pyflowers.analysis.checks import LooPit

RATIO_IN_WORDS = 1.5
"""The smallest ratio of observed to predicted variation that a finding states as a number."""

SHAPE_Z = 3.0
"""The number of standard errors by which the mean or spread of PITs must deviate to be reported as
the cause."""

FEWEST_FOR_SPLINE = 7
"""The smallest number of different values of a covariate for which a spline is suggested."""

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
    "group_outlier": (
        "{who}, the most distant {group}, is {away} the rest than",
        "group",
        "clusters",
    ),
    "cells": (
        "{values} are {away} their expectation in the cells of {who} than",
        "cells",
        "chosen",
    ),
    "spread[]": (
        "the spread of {values} changes {degree} along {covariate} than",
        "unequal",
        "equal",
    ),
    "autocorrelation[]": (
        "{values} resemble their neighbours along {covariate}{within} {degree} than",
        "neighbours",
        "alternating",
    ),
    "curvature[]": ("the curvature of {values} along {covariate} is {side} than", "curve", "curve"),
    "autocorrelation": (
        "{values} resemble those of the previous {time}{within} {degree} than",
        "time",
        "alternating in time",
    ),
}
"""For each check: its finding if it fails, then the need if the data's statistic is larger than the
model predicts, and the need if it is smaller."""

_EXTREME = (
    "look at the most extreme rows; if they are correct, try another family, and compare the "
    "two models with pyflowers loo"
)
_NARROWER = (
    "if the model lacks a group or a covariate on which the mean depends, add it; otherwise "
)
_TAILS = (
    "look at the most extreme rows; if they are correct, use a likelihood with heavier tails "
    "(neg_binomial_2 instead of poisson, student_t instead of normal)"
)
_WIDER = {
    "binomial": "refit with (1 | row) in the formula, where row is a column that numbers the rows",
    "gaussian": "refit with --family student",
    "poisson": "refit with --family negbinomial",
    "zero_inflated_poisson": "refit with --family zero_inflated_negbinomial",
    "formula": _EXTREME,
}
_MISSING_COVARIATE = (
    "add a covariate that explains the differences between the rows; if rows were selected by the "
    "value of the response, as in a matched case-control study, the model does not apply"
)
_UNEQUAL = {
    "poisson": "refit with --family negbinomial, or write a program in which the spread depends "
    "on {covariate}",
    "formula": "write a program in which the spread depends on {covariate}: pyflowers new "
    "NAME.stan, with this formula, writes a program that you can change",
    "": "let the spread depend on {covariate}",
}
_GROWING = (
    "refit with --family lognormal or --family gamma, whose spread grows with the mean, or write a "
    "program in which the spread depends on {covariate}"
)
_REMEDIES: dict[str, dict[str, str]] = {
    "location": {
        "": "see whether pyflowers sensitivity finds a prior far from the data, and if so, set a "
        "prior on the scale of the data (--prior); if not, the program lacks a covariate or an "
        "offset"
    },
    "wider": {
        **_WIDER,
        "counts": "use a likelihood with a dispersion parameter (neg_binomial_2 instead of "
        "poisson, beta_binomial instead of binomial), or add a normal effect for each row to the "
        "log of the mean or the logit of the probability",
        "": "use student_t instead of normal, or let the standard deviation differ between groups",
    },
    "narrower": {
        "formula": f"{_NARROWER}choose another family",
        "counts": f"{_NARROWER}use a likelihood with less variation, such as binomial where "
        "counts have a maximum",
        "": f"{_NARROWER}narrow the prior on the standard deviation",
    },
    "tails": {**_WIDER, "": _TAILS},
    "zeros": {
        "poisson": "refit with --family negbinomial or --family zero_inflated_poisson",
        "negbinomial": "refit with --family zero_inflated_negbinomial",
        "zero_inflated_poisson": "refit with --family zero_inflated_negbinomial",
        "formula": "let the share of zeros depend on a covariate, which requires a program of "
        "your own",
        "": "use neg_binomial_2, which has more zeros than poisson, or a zero-inflated likelihood",
    },
    "no zeros": {
        "": "if rows with 0 were left out of the table, add them; otherwise truncate the "
        "likelihood at 1, or give zeros a separate probability"
    },
    "limit": {
        "": "see whether values are cut off at a limit, and if so, model truncation or censoring; "
        "if not, the model lets values vary too much"
    },
    "binary": {
        "formula": "all values are 0 or 1: refit with --family bernoulli",
        "": "all values are 0 or 1: use a Bernoulli likelihood",
    },
    "positive": {"": "all values are above 0: refit with --family lognormal or --family gamma"},
    "group": {
        "": "look at the rows of this group; if they are correct, add a covariate that sets the "
        "group apart, or draw the group effects from student_t instead of normal"
    },
    "clusters": {
        "": "see whether the groups form clusters, and if so, add a covariate that separates them"
    },
    "chosen": {"": _MISSING_COVARIATE},
    "cells": {
        "formula": "let these columns interact (a * b in the formula), or add a missing covariate",
        "": "let the effects of these columns depend on each other, or add a missing covariate",
    },
    "one column": {
        "formula": "treat {who} as a factor, C({who}), let the mean follow a curve along {who}, "
        "or add a missing covariate",
        "": "let the mean follow {who} more closely, or add a missing covariate",
    },
    "curve": {
        "formula": "let the mean follow a curve along {covariate}, for example with {square} or "
        "{spline} in the formula, or choose another family",
        "": "let the mean follow a curve along {covariate}, or choose another link or distribution",
    },
    "unequal": _UNEQUAL,
    "unequal above 0": {**_UNEQUAL, "gaussian": _GROWING, "student": _GROWING},
    "equal": {
        "lognormal": "refit with --family gaussian or --family student, whose spread does not "
        "grow with the mean",
        "gamma": "refit with --family gaussian or --family student, whose spread does not grow "
        "with the mean",
        "formula": "choose a family whose spread depends less on the mean, and compare the two "
        "models with pyflowers loo",
        "": "use a likelihood whose spread depends less on the mean",
    },
    "neighbours": {
        "formula": "let the mean follow {covariate} more closely, for example with {spline} in the "
        "formula; if {covariate} is a time, the errors may depend on each other, which requires a "
        "program of your own",
        "": "let the mean follow {covariate} more closely; if {covariate} is a time, let the "
        "errors depend on each other",
    },
    "alternating": {"": "look for something that alternates along {covariate}, and add its effect"},
    "time": {
        "": "add an effect of time, such as a trend or a season, or an autoregressive term; {order}"
    },
    "alternating in time": {
        "": "look for something that alternates in time, and add its effect; {order}"
    },
}
"""The advice on each need. The keys are the family of a formula, "formula" for all other families,
"counts" for programs of counts in Stan, and "" for everything else."""


def is_binary(fit: Fit) -> bool:
    """Return whether the program declares observations that are 0 or 1."""
    declared = fit.program.source.blocks.data.get(fit.data.observed)
    return declared is not None and declared.is_int and declared.upper == "1"


def usual_statistics(fit: Fit) -> tuple[str, ...]:
    """Return the names of the usual statistics of a fit's observations."""
    rule = fit.program.declaration.prediction
    if is_binary(fit):
        return OF_BINARY
    if rule is not None and find_family(rule.family).is_ordinal:
        return OF_RATINGS
    return OF_COUNTS if fit.program.counts else OF_MEASUREMENTS


def of_statistic(
    fit: Fit, name: str, meaning: str, observed: float, replicated: FloatArray, who: str
) -> tuple[str, str]:
    """Return the finding of the failed check of a statistic, and the advice.

    Parameters
    ----------
    fit : Fit
        The fit, with the user's names for the columns.
    name, meaning : str
        The statistic.
    observed : float
        Its value in the data.
    replicated : array, shape (S,)
        Its values in replicated data.
    who : str
        The group that is farthest from the rest, or the columns of the cells.
    """
    median, low, high = np.quantile(replicated, list(interval_quantiles(fit.interval).values()))
    is_larger = bool(np.mean(replicated > observed) < np.mean(replicated < observed))
    labels, times = fit.data.by_group, fit.data.by_time
    group = "group" if labels is None else labels.column
    time = "time" if times is None else times.column
    are_groups = labels is not None and len(labels) < fit.data.num_obs
    within = f" within each {group}" if are_groups else ""
    degree = "more" if is_larger else "less"
    where = within if name.endswith("_within") else ""
    much = f"{degree}{where} than"
    if median > 0 and observed / median >= RATIO_IN_WORDS:
        much = f"{observed / median:.2g} times as much{where} as"
    found, if_larger, if_smaller = _FINDINGS.get(re.sub(r"\[.*", "[]", name), (_OTHER, "", ""))
    covariate = name.partition("[")[2].removesuffix("]") if if_larger else ""
    words = {
        "name": name,
        "values": _values(fit),
        "side": "larger" if is_larger else "smaller",
        "degree": degree,
        "much": much,
        "many": "more" if is_larger else "fewer",
        "away": "farther from" if is_larger else "nearer to",
        "who": who,
        "group": group,
        "time": time,
        "within": within,
        "covariate": covariate,
        "spline": _spline(fit, covariate),
        "square": _square(fit, covariate),
        "order": f"if {time} does not order the rows in time, do not declare it as the time",
    }
    need = if_larger if is_larger else if_smaller
    if is_binary(fit) and name == "dispersion_within":
        need = "chosen"
    elif need == "limit" and not fit.program.counts and np.isin(fit.data.y, (0, 1)).all():
        need = "binary"
    elif name == "minimum" and observed > 0 > median and fit.program.declaration.formula:
        need = "positive"
    elif need == "unequal" and float(fit.data.y.min()) > 0:
        need = "unequal above 0"
    elif need == "cells" and ", " not in who:
        need = "one column" if who else "chosen"
    numbers = [format_number(float(value)) for value in (observed, low, high)]
    shown = "{} {}; replicated {} to {}".format(meaning, *numbers)
    return f"{found.format_map(words)} the model predicts ({shown})", _advice(fit, need, words)


def of_pits(fit: Fit, pit: LooPit) -> tuple[str, str]:
    """Return the finding for PITs that are not uniform, and the advice.

    Most failures show in the mean of the PITs and in their spread about ½, the first two
    components of Neyman's smooth test (Neyman 1937, Smooth test for goodness of fit, Skandinavisk
    Aktuarietidskrift 20).
    """
    u, values = pit.values, _values(fit)
    # A uniform u has variance 1/12, and (u − ½)² has mean 1/12 and variance 1/180.
    slope = float((u.mean() - 0.5) * np.sqrt(12 * u.size))
    spread = float((np.mean((u - 0.5) ** 2) - 1 / 12) * np.sqrt(180 * u.size))
    if max(abs(slope), abs(spread)) < SHAPE_Z:
        # At z, the distribution function of the PITs is farthest from the uniform one, measured in
        # standard errors.
        points = pit.band.points
        share = ecdf.counts(u, points, u.size) / u.size
        z = int(np.argmax(np.abs(share - points) / np.sqrt(points * (1 - points))))
        is_coarse = abs(share[z] - points[z]) >= 0.01 and 0.01 <= points[z] <= 0.99
        digits = 0 if is_coarse else 2
        below, predicted = (f"{each:.{digits}%}" for each in (share[z], points[z]))
        found = f"{below} of {values} are below their predicted {predicted} quantile"
        return found, "see the figure of the PITs for where predictions and data differ"
    if abs(slope) > abs(spread):
        low, above = "low" if slope > 0 else "high", np.mean(u > 0.5)
        found = f"predictions are too {low}: {above:.0%} of {values} are above their predicted "
        return f"{found}median", _advice(fit, "location", {})
    outside, far = (float(np.mean(np.abs(u - 0.5) > half)) for half in (0.4, 0.495))
    if spread < 0 and far > 0.01 and not fit.program.counts:
        found = (
            f"most of {values} are nearer to their predictions than the model expects, and a few "
            f"are farther away: {outside:.0%} are outside the 80% interval predicted for each, and "
            f"{far:.1%} outside the 99% interval"
        )
        return found, _advice(fit, "tails", {})
    found = (
        f"{values} vary {'more' if spread > 0 else 'less'} than the model predicts: {outside:.0%} "
        "of them are outside the 80% interval predicted for each"
    )
    return found, _advice(fit, "wider" if spread > 0 else "narrower", {})


def _values(fit: Fit) -> str:
    """Return a phrase for the observed values, with the user's name for the column."""
    are_counts = fit.program.counts and usual_statistics(fit) == OF_COUNTS
    return f"the {'counts' if are_counts else 'values'} of {fit.data.value_name}"


def _advice(fit: Fit, need: str, words: dict[str, str]) -> str:
    """Return the advice on a need, with the command that copies a shipped model."""
    if not need:
        return ""
    formula, reference = fit.program.declaration.formula, fit.program.reference
    advice = _REMEDIES[need]
    if formula is not None:
        text = advice.get(formula.family, advice.get("formula", advice[""]))
        is_given = text == _WIDER["binomial"] and _has_effects_of_rows(fit)
        return (_EXTREME if is_given else text).format_map(words)
    text = advice.get("counts", advice[""]) if fit.program.counts else advice[""]
    text = text.format_map(words)
    if need == "location" or reference.endswith(".stan"):
        return text
    copy = f"pyflowers new NAME --from {reference}"
    if need in ("wider", "tails", "zeros") and fit.program.counts and fit.data.by_group is not None:
        terms = f"{quote(fit.data.value_name)} ~ 1 + (1 | {quote(fit.data.by_group.column)})"
        return (
            f'refit with the formula "{terms}" --family negbinomial, or change a copy of the '
            f"model: {copy}"
        )
    return f"{text}; for a copy that you can change, run {copy}"


def _has_effects_of_rows(fit: Fit) -> bool:
    """Return whether a column of groups in the formula has a different label in each row."""
    rule, table = fit.program.declaration.prediction, fit.data.table
    if rule is None or table is None:
        return False
    groups = map(fit.data.name_of, group_columns(rule, fit.data.declaration))
    return any(len(table.labels(group)) == len(table) for group in groups)


def _spline(fit: Fit, covariate: str) -> str:
    """Return a spline term for a covariate, or a factor term if it has few different values.

    If the formula already has a spline along the covariate, return one with more columns.
    """
    formula = fit.program.declaration.formula
    if not covariate or fit.data.table is None:
        return ""
    name, num = quote(covariate), len(set(fit.data.table.numbers(covariate)))
    if num < FEWEST_FOR_SPLINE:
        return f"C({name})"
    present = re.search(
        rf"bs\({re.escape(name)},\s*df\s*=\s*(\d+)", formula.text if formula else ""
    )
    return f"bs({name}, df={2 * int(present[1]) if present else 4})"


def _square(fit: Fit, covariate: str) -> str:
    """Return a squared term for a covariate, centred at its mean if the mean is far from 0."""
    name, table = quote(covariate), fit.data.table
    if not covariate or table is None:
        return ""
    x = table.numbers(covariate)
    mean = round(float(x.mean()), 1 - math.floor(math.log10(x.std())))
    sign = "-" if mean > 0 else "+"
    is_near = abs(mean) < x.std()
    return f"I({name}**2)" if is_near else f"I(({name} {sign} {abs(mean):.15g})**2)"
