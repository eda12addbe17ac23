"""The findings of failed predictive checks in words, with advice on each.

A failed check points to a need, such as a likelihood with more variation, and this module has a
name for each need. The advice on a need depends on the program: another family or term for a
formula, another distribution for a program in Stan.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pyflowers.advice import Advice
from pyflowers.analysis import ecdf
from pyflowers.analysis.patterns import ROWS, STRUCTURAL, Judged, Patterns
from pyflowers.analysis.statistics import (
    OF_BINARY,
    OF_COUNTS,
    OF_MEASUREMENTS,
    OF_RATINGS,
    FloatArray,
)
from pyflowers.display import format_number, interval_quantiles
from pyflowers.fits.fit import Fit
from pyflowers.programs.formulas.grammar import parse
from pyflowers.programs.terms import quote

RATIO_IN_WORDS = 1.5
"""The smallest ratio of observed to predicted variation that a finding states as a number."""

SHAPE_Z = 3.0
"""The number of standard errors by which the mean or spread of PITs must deviate to be reported as
the cause."""

MOST_RATINGS = 10
"""The largest number of different values for which a response is suggested to be ratings."""

LARGEST_SCORE = 200
"""The largest maximum of a response that is suggested to be a number of points."""

GROWS = 0.5
"""The correlation of the spread with the mean, over bins, beyond which one grows with the other."""

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


def _refit(family: str, more: str = "") -> Advice:
    """Return the advice to refit with another family."""
    return Advice(f"refit with --family {family}{more}", family=family)


_WIDER: dict[str, str] = {
    "binomial": "refit with (1 | row) in the formula, where row is a column that numbers the rows",
    "gaussian": _refit("student"),
    "poisson": _refit("negbinomial"),
    "zero_inflated_poisson": _refit("zero_inflated_negbinomial"),
    "formula": _EXTREME,
}
_MISSING_COVARIATE = (
    "add a covariate that explains the differences between the rows; if rows were selected by the "
    "value of the response, as in a matched case-control study, the model does not apply"
)
_COPY = "pyflowers new NAME.stan, with this formula, writes a program that you can change"
_DEPENDING = f"write a program in which the spread depends on {{x}}: {_COPY}"
_UNEQUAL: dict[str, str] = {
    "poisson": _refit("negbinomial", f", or {_DEPENDING}"),
    "formula": Advice(_DEPENDING, "new"),
    "": "let the spread depend on {x}",
}
_GROWING = _refit(
    "lognormal", f" or --family gamma, whose spread grows with the mean, or {_DEPENDING}"
)
_CONSTANT = " or --family student, whose spread does not grow with the mean"
_ONE_SD_EACH = Advice(
    f"give each {{x}} its own sd: {_COPY}; in it, declare vector<lower=0>[{{size}}] {{sd}}, with "
    "the prior of sigma, and write {sd}[{index}[n]] for sigma; in NAME.toml, add "
    '{declared}where = {{ sigma = "{sd}[{index}]" }} under [prediction]',
    "new",
)
EDGES = (
    "; only predictions near this limit are affected: average effects and coefficients describe "
    "the mean, which other checks examine"
)
_REMEDIES: dict[str, dict[str, str]] = {
    "location": {
        "": Advice(
            "see whether pyflowers sensitivity finds a prior far from the data, and if so, set a "
            "prior on the scale of the data (--prior); if not, the program lacks a covariate or an "
            "offset",
            "sensitivity",
        )
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
        "poisson": _refit("negbinomial", " or --family zero_inflated_poisson"),
        "negbinomial": _refit("zero_inflated_negbinomial"),
        "zero_inflated_poisson": _refit("zero_inflated_negbinomial"),
        "formula": Advice(
            "let the share of zeros depend on a covariate, which requires a program of your own",
            "new",
        ),
        "": "use neg_binomial_2, which has more zeros than poisson, or a zero-inflated likelihood",
    },
    "no zeros": {
        "": "if rows with 0 were left out of the table, add them; otherwise truncate the "
        "likelihood at 1, or give zeros a separate probability"
    },
    "limit": {
        "": "see whether values are cut off at a limit, and if so, model truncation or censoring; "
        f"if not, the model lets values vary too much{EDGES}"
    },
    "ratings": {
        "": Advice(
            "the response has only {num} different values: refit with --family cumulative, which "
            f"treats them as ratings{EDGES}",
            family="cumulative",
        )
    },
    "scores": {
        "": Advice(
            "the response is bounded: if it counts the points out of {most}, refit with the "
            f'formula "{{trials}}" --family binomial{EDGES}',
            program="{trials}",
            family="binomial",
        )
    },
    "shares": {
        "": Advice(
            f"the response lies between 0 and 1: refit with --family beta{EDGES}", family="beta"
        )
    },
    "binary": {
        "formula": Advice(
            "all values are 0 or 1: refit with --family bernoulli", family="bernoulli"
        ),
        "": "all values are 0 or 1: use a Bernoulli likelihood",
    },
    "positive": {
        "": Advice(
            "all values are above 0: refit with --family lognormal or --family gamma",
            family="lognormal",
        )
    },
    "group": {
        "": "look at the rows of this group; if they are correct, add a covariate that sets the "
        "group apart, or draw the group effects from student_t instead of normal"
    },
    "clusters": {
        "": "see whether the groups form clusters, and if so, add a covariate that separates them"
    },
    "chosen": {"": _MISSING_COVARIATE},
    "formula": {"": Advice('refit with the formula "{formula}"{family}', program="{formula}")},
    "mean": {
        "": "let the mean follow {x} more closely, as in {term}, or choose another link or "
        "distribution"
    },
    "interaction": {"": "let the effect of {x} depend on {other}, or add a missing covariate"},
    "slopes": {"": "let the effect of {x} vary by {other}"},
    "unequal": _UNEQUAL,
    "unequal above 0": {**_UNEQUAL, "gaussian": _GROWING, "student": _GROWING},
    "unequal levels": {
        **_UNEQUAL,
        "gaussian": _ONE_SD_EACH,
        "student": _ONE_SD_EACH,
        "lognormal": _ONE_SD_EACH,
    },
    "equal": {
        "lognormal": _refit("gaussian", _CONSTANT),
        "gamma": _refit("gaussian", _CONSTANT),
        "formula": "choose a family whose spread depends less on the mean, and compare the two "
        "models with pyflowers loo",
        "": "use a likelihood whose spread depends less on the mean",
    },
    "rows": {
        "": Advice(
            "if the rows follow each other in time, let each error depend on the previous one, "
            "which requires a program of your own, or add an effect of time; if a column sets the "
            "time, name it with --time; if the rows are ordered by something else, add its effect",
            "new",
        )
    },
    "neighbours": {
        "": Advice(
            "if {x} is a time, let each error depend on the previous one, which requires a program "
            "of your own; if not, look for a covariate that follows {x}",
            "new",
        )
    },
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


_DIRECTIONS = {
    True: {"side": "larger", "degree": "more", "many": "more", "away": "farther from"},
    False: {"side": "smaller", "degree": "less", "many": "fewer", "away": "nearer to"},
}
"""How the data differ from replicated data, in words, by whether they are larger."""

_NEEDS = {"curvature": "mean"}
"""The remedy that a pattern needs, if it is not named after the pattern."""


def usual_statistics(fit: Fit) -> tuple[str, ...]:
    """Return the names of the usual statistics of a fit's observations."""
    if is_binary(fit):
        return OF_BINARY
    if fit.model.is_ordinal:
        return OF_RATINGS
    if fit.program.counts:
        return OF_COUNTS
    return OF_MEASUREMENTS


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
        "order": f"if {time} does not order the rows in time, do not declare it as the time",
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
    elif need == "limit":
        need = _of_bounded(fit, name, words)
    numbers = [format_number(float(value)) for value in (observed, low, high)]
    shown = "{} {}; replicated {} to {}".format(meaning, *numbers)
    return f"{found.format_map(words)} the model predicts ({shown})", _advice(fit, need, words)


def _of_bounded(fit: Fit, name: str, words: dict[str, str]) -> str:
    """Return the need of a response that ends at a limit, which may be of another family."""
    y, formula = fit.data.y, fit.program.declaration.formula
    if formula is None or formula.family not in ("gaussian", "student"):
        return "limit"
    num, most = len(np.unique(y)), float(y.max())
    words["num"] = str(num)
    if num <= MOST_RATINGS:
        return "ratings"
    if y.min() > 0 and most < 1:
        return "shares"
    is_from_0 = name == "maximum" or y.min() == 0
    if (y == np.floor(y)).all() and y.min() >= 0 and is_from_0 and most <= LARGEST_SCORE:
        words["most"] = f"{most:g}"
        right = formula.text.partition("~")[2].strip()
        words["trials"] = f"{quote(fit.data.value_name)} | trials({most:g}) ~ {right}"
        return "scores"
    return "limit"


def of_pattern(fit: Fit, patterns: Patterns, judged: Judged) -> tuple[str, str]:
    """Return the finding of a failed pattern of residuals, and the advice.

    Parameters
    ----------
    fit : Fit
        The fit.
    patterns : Patterns
        All its patterns, with the terms that explain those of the mean.
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
        "extremes": _extremes(fit, judged),
    }
    kind, neighbours = pattern.kind, "neighbours"
    if x == ROWS:
        kind = neighbours = ROWS
    found = _OF_PATTERNS[kind].format_map(words)
    numbers = [format_number(float(value)) for value in (judged.observed, low, high)]
    shown = "{} {}; replicated {} to {}".format(pattern.meaning, *numbers)
    is_explained = pattern.name not in patterns.remaining
    spread = patterns.spread
    if patterns.steps and (is_explained or pattern.kind in STRUCTURAL):
        advice = of_mean(fit, patterns)
    elif pattern.kind == "spread" and patterns.family:
        advice = _of_heavier(fit, patterns)
    elif spread is not None and is_explained and judged is not spread:
        advice = of_pattern(fit, patterns, spread)[1]
    elif pattern.kind == "spread":
        advice = _advice(fit, _of_spread(fit, judged, words), words)
    elif pattern.kind == "autocorrelation":
        advice = _advice(fit, neighbours, words)
    else:
        words["term"] = f"C({quote(x)})"
        advice = _advice(fit, _NEEDS.get(pattern.kind, pattern.kind), words)
    return f"{found} the model predicts ({shown})", advice


def first_remedy(fit: Fit, patterns: Patterns) -> str:
    """Return the advice on the patterns that may be the cause of other failures; empty if none."""
    if patterns.steps:
        return of_mean(fit, patterns)
    if patterns.spread is None:
        return ""
    return of_pattern(fit, patterns, patterns.spread)[1]


def of_mean(fit: Fit, patterns: Patterns) -> str:
    """Return the advice on patterns of the mean: one formula with all the terms that they need."""
    formula = fit.program.declaration.formula
    if formula is not None and patterns.family:
        return _of_heavier(fit, patterns)
    if formula is not None:
        better = with_terms(formula.text, [step.term for step in patterns.steps])
        family = ""
        if formula.family != "gaussian":
            family = f" --family {formula.family}"
        return _advice(fit, "formula", {"formula": better, "family": family})
    found = []
    for step in patterns.steps:
        pattern = step.found.pattern
        words = {"x": pattern.columns[0], "other": pattern.columns[-1], "term": step.term}
        need = _NEEDS.get(pattern.kind, pattern.kind)
        found.append(_REMEDIES[need][""].format_map(words))
    return "; ".join(found)


def _of_heavier(fit: Fit, patterns: Patterns) -> str:
    """Return the advice on spread that is not unequal in a family with heavier tails."""
    formula, family = fit.program.declaration.formula, patterns.family
    why = "with its heavier tails, the spread may differ as much as here"
    if formula is None:
        return f"use a likelihood with heavier tails ({family}): {why}"
    if not patterns.steps:
        return _refit(family, f": {why}")
    better = with_terms(formula.text, [step.term for step in patterns.steps])
    text = f'refit with the formula "{better}" --family {family}: {why}'
    return Advice(text, program=better, family=family)


def _extremes(fit: Fit, judged: Judged) -> str:
    """Return where the spread is largest and smallest, in words."""
    pattern, ratio = judged.pattern, judged.by_bin
    if not ratio.size:
        return ""
    low, high = int(np.argmin(ratio)), int(np.argmax(ratio))
    times = ratio[high] / max(float(ratio[low]), 1e-9)
    names = [pattern.bins[i] for i in (high, low)]
    return f" ({times:.2g} times as large at {names[0]} as at {names[1]})"


def _of_spread(fit: Fit, judged: Judged, words: dict[str, str]) -> str:
    """Return the need of unequal spread: of levels, or along a covariate."""
    pattern, x, table = judged.pattern, judged.pattern.columns[0], fit.data.table
    assert table is not None
    assert pattern.where is not None
    groups = {fit.data.name_of(c) for c in fit.data.labels}
    inside = pattern.where >= 0
    y = fit.data.y
    means = np.bincount(pattern.where[inside], y[inside]) / np.bincount(pattern.where[inside])
    grows = 0.0
    if means.size > 2 and means.std() > 0 and judged.by_bin.std() > 0:
        grows = float(np.corrcoef(means, judged.by_bin)[0, 1])
    formula = fit.program.declaration.formula
    multiplies = formula is not None and formula.family in ("lognormal", "gamma")
    if multiplies and grows < -GROWS:
        return "equal"
    if x in groups or table.is_factor(x):
        name = re.sub(r"\W", "_", x)
        words |= {"sd": f"sigma_{name}", "index": name, "size": f"N_{name}", "declared": ""}
        if x not in groups:
            words["declared"] = f'{name} = {{ column = "{x}", index = true }} under [data], and '
        return "unequal levels"
    if y.min() > 0 and grows > GROWS:
        return "unequal above 0"
    return "unequal"


def with_terms(text: str, terms: Sequence[str]) -> str:
    """Return a formula with more terms: curves, products or effects that vary by group.

    Examples
    --------
    >>> from pyflowers.analysis.findings import with_terms
    >>> with_terms("y ~ x + sex + (1 | g)", ["(x | g)", "x * sex"])
    'y ~ x * sex + (x | g)'
    >>> with_terms("y ~ 1; sigma ~ x", ["x"])
    'y ~ x; sigma ~ x'
    """
    formula = parse(text)
    groups = list(formula.groups)
    population = [each.strip() for each in _summands(formula.population)]
    for term in terms:
        of_group = re.fullmatch(r"\((.*) \| (.*)\)", term)
        if of_group is not None:
            x, name = of_group.groups()
            for i, group in enumerate(groups):
                if group.group == name:
                    own = f"{group.effects} + "
                    if group.effects.strip() == "1":
                        own = ""
                    groups[i] = replace(group, effects=f"{own}{x}")
            continue
        parts = term.split(" * ")
        calls = re.fullmatch(r"(?:bs|C)\((`[^`]*`|[\w.]+).*\)", term)
        if len(parts) == 2 and all(part in population for part in parts):
            population[population.index(parts[0])] = term
            population.remove(parts[1])
        elif len(parts) == 2:
            population.append(":".join(parts))
        elif calls is not None and any(calls[1] in each.split(" * ") for each in population):
            population = [
                " * ".join(term if part == calls[1] else part for part in each.split(" * "))
                for each in population
            ]
        else:
            old = calls and f"bs({calls[1]},"
            kept = [each for each in population if not (old and each.startswith(old))]
            population = [*kept, term]
    left = text.partition("~")[0].strip()
    terms_ = [each for each in population if each != "1" or len(population) == 1]
    if terms_ == ["1"] and groups:
        terms_ = []
    first = f"{left} ~ {' + '.join([*terms_, *map(str, groups)])}"
    return "; ".join([first, *(each.text for each in formula.parameters)])


def _summands(population: str) -> list[str]:
    """Return the terms between the plus signs outside brackets and quotes."""
    found, depth, start, quoted = list[str](), 0, 0, False
    for i, mark in enumerate(population):
        quoted ^= mark == "`"
        depth += (mark in "([{") - (mark in ")]}")
        if mark == "+" and not depth and not quoted:
            found.append(population[start:i])
            start = i + 1
    return [*found, population[start:]]


def of_pits(fit: Fit, u: FloatArray, points: FloatArray) -> tuple[str, str]:
    """Return the finding for PITs `u` that leave their band, given at `points`, and the advice.

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
        return found, "see the figure of the PITs for where predictions and data differ"
    if abs(slope) > abs(spread):
        low = "high"
        if slope > 0:
            low = "low"
        found = (
            f"predictions are too {low}: {np.mean(u > 0.5):.0%} of {values} are above their "
            "predicted "
        )
        return f"{found}median", _advice(fit, "location", {})
    outside, far = (float(np.mean(np.abs(u - 0.5) > half)) for half in (0.4, 0.495))
    if spread < 0 and far > 0.01 and not fit.program.counts:
        found = (
            f"most of {values} are nearer to their predictions than the model expects, and a few "
            f"are farther away: {outside:.0%} are outside the 80% interval predicted for each, and "
            f"{far:.1%} outside the 99% interval"
        )
        return found, _advice(fit, "tails", {})
    degree, need = "less", "narrower"
    if spread > 0:
        degree, need = "more", "wider"
    found = (
        f"{values} vary {degree} than the model predicts: {outside:.0%} of them are outside the "
        "80% interval predicted for each"
    )
    return found, _advice(fit, need, {})


def _values(fit: Fit) -> str:
    """Return a phrase for the observed values, with the user's name for the column."""
    what = "values"
    if fit.program.counts and usual_statistics(fit) == OF_COUNTS:
        what = "counts"
    return f"the {what} of {fit.data.value_name}"


def _within_groups(fit: Fit) -> str:
    """Return words for the groups, if any of them has several observations."""
    labels = fit.data.by_group
    if labels is None or len(labels) == fit.data.num_obs:
        return ""
    return f" within each {labels.column}"


def _advice(fit: Fit, need: str, words: dict[str, str]) -> str:
    """Return the advice on a need, with the command that copies a shipped model."""
    if not need:
        return ""
    formula, reference = fit.program.declaration.formula, fit.program.reference
    advice = _REMEDIES[need]
    if formula is not None:
        text = advice.get(formula.family, advice.get("formula", advice[""]))
        if text == _WIDER["binomial"] and _has_effects_of_rows(fit):
            text = _EXTREME
        return text.format_map(words)
    text = advice[""]
    if fit.program.counts:
        text = advice.get("counts", text)
    text = text.format_map(words)
    if need == "location" or reference.endswith(".stan"):
        return text
    copy = f"pyflowers new NAME --from {reference}"
    if need in ("wider", "tails", "zeros") and fit.program.counts and fit.data.by_group is not None:
        terms = f"{quote(fit.data.value_name)} ~ 1 + (1 | {quote(fit.data.by_group.column)})"
        return Advice(
            f'refit with the formula "{terms}" --family negbinomial, or change a copy of the '
            f"model: {copy}",
            program=terms,
            family="negbinomial",
        )
    return Advice(f"{text}; for a copy that you can change, run {copy}", "new")


def _has_effects_of_rows(fit: Fit) -> bool:
    """Return whether a column of groups in the formula has a different label in each row."""
    table = fit.data.table
    return table is not None and any(len(table.labels(g)) == len(table) for g in fit.model.groups)
