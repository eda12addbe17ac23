"""The remedy for each need that a failed predictive check points to.

A failed check points to a need, such as more variation in the response. `REMEDIES` lists the
remedies for each need; the first that applies to the fit is recommended. Whether a remedy applies
depends on the model: its formula, its family and the alternatives, its covariates and its groups.
For a fit of a formula, most remedies are another formula or family, as text that can be pasted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from pyflowers.advice import Advice, Step
from pyflowers.analysis.alternatives import few_draws, likely_alternatives
from pyflowers.analysis.patterns import LOGNORMAL, NUM_DRAWS, Judged, Patterns
from pyflowers.data.labels import has_order, rows_before
from pyflowers.fits.fit import Fit
from pyflowers.programs.families import Family
from pyflowers.programs.formulas.edits import has_imputed, with_student_effects, with_terms
from pyflowers.programs.terms import quote

GROWS = 0.5
"""The spread counts as falling with the mean if their correlation over bins is below minus this
value."""

EDGES = (
    "; only predictions near this limit are affected: average effects and coefficients describe "
    "the mean, which other checks examine"
)

CUT_OFF = "see whether values are cut off at a limit, and if so, model truncation or censoring"


@dataclass(frozen=True)
class Case:
    """A fit with a failed check, and the words for the advice.

    Attributes
    ----------
    fit : Fit
        The fit.
    words : mapping of str to str
        Words that replace the placeholders in the advice, such as ``x``, the covariate.
    """

    fit: Fit
    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def family(self) -> Family | None:
        """The family of the fit's formula; None if it has no formula."""
        if self.fit.program.declaration.formula is None:
            return None
        return self.fit.model.family


Remedy = Callable[[Case], str]
"""Function that returns the advice on a need, or an empty text if the remedy does not apply."""


def advise(fit: Fit, need: str, words: Mapping[str, str] | None = None) -> str:
    """Return the advice on a need; empty if there is none.

    Parameters
    ----------
    fit : Fit
        The fit.
    need : str
        One of `REMEDIES`, or empty.
    words : mapping of str to str, optional
        See :class:`Case`.
    """
    case = Case(fit, words or {})
    found = (remedy(case) for remedy in REMEDIES.get(need, ()))
    return next((advice for advice in found if advice), "")


def refit(
    fit: Fit,
    terms: Sequence[str] = (),
    *,
    spread: Sequence[str] = (),
    zeros: Sequence[str] = (),
    family: str = "",
    more: str = "",
) -> str:
    """Return the advice to refit a formula with more terms or another family.

    Parameters
    ----------
    fit : Fit
        A fit of a formula.
    terms, spread, zeros : sequence of str
        Terms for the linear predictor of the response, for the parameter that sets the spread, and
        for the probability of zeros.
    family : str
        Another family; empty to keep the family of the fit.
    more : str
        Text with which the advice ends.

    Returns
    -------
    str
        The advice; empty if the formula has these terms, or the family has no such parameter.
    """
    formula = fit.program.declaration.formula
    assert formula is not None
    its = fit.model.family
    if family:
        its = fit.model.another_family(family)
    if has_imputed(formula.text, [*terms, *spread, *zeros]):
        return ""
    better = before = with_terms(formula.text, ())
    for added, parameter in ((terms, ""), (spread, its.spread), (zeros, its.zeros)):
        if added and added is not terms and not parameter:
            return ""
        if added:
            better = with_terms(better, added, parameter)
    option = its.title
    if "(" in option:
        option = f'"{option}"'
    if better == before:
        if not family:
            return ""
        return Advice(f"refit with --family {option}{more}", family=family)
    text = f'refit with the formula "{better}"'
    if family or its.text != "gaussian":
        text += f" --family {option}"
    if family:
        return Advice(text + more, program=better, family=family)
    return Advice(text + more, program=better)


# Remedies for formulas


@lru_cache(maxsize=1)
def _alternative(fit: Fit) -> str:
    """Return the most likely alternative to a fit's family; empty if there is none."""
    if not fit.model.predicts_rows:
        return ""
    found = likely_alternatives(fit, few_draws(fit, NUM_DRAWS))
    return found[0].family.text if found else ""


def _another_family(case: Case) -> str:
    """Recommend the most likely alternative, if it is more likely than the fit's family."""
    if case.family is None or not _alternative(case.fit):
        return ""
    return refit(case.fit, family=_alternative(case.fit))


def _more_zeros(case: Case) -> str:
    """Recommend that the probability of zeros depend on the covariates of the mean."""
    fit = case.fit
    if case.family is None or not case.family.zeros or not fit.model.covariates_of_mean:
        return ""
    if case.family.zeros in fit.model.rule.where:
        return ""
    return refit(fit, zeros=[quote(x) for x in fit.model.covariates_of_mean])


def _effects_with_tails(case: Case) -> str:
    """Recommend group effects with heavier tails."""
    formula, labels = case.fit.program.declaration.formula, case.fit.data.by_group
    better = ""
    if formula is not None and labels is not None:
        better = with_student_effects(formula.text, labels.column)
    if not better:
        return ""
    option = ""
    if formula is not None and formula.family != "gaussian":
        option = f" --family {case.fit.model.family.title}"
    text = (
        "look at the rows of this group; if they are correct, add a covariate that sets the group "
        f'apart, or refit with the formula "{better}"{option}'
    )
    return Advice(text, program=better)


def _autoregression(case: Case, time: str = "", gr: str | None = None) -> str:
    """Return the advice to use autoregressive residuals; empty if they cannot be used.

    Parameters
    ----------
    case : Case
        The case.
    time : str
        The column of the times. Default: the order of the rows.
    gr : str, optional
        The column of the series. Default: of the groups with at least two rows per label, the one
        with the most labels.
    """
    fit, table = case.fit, case.fit.data.table
    formula = fit.program.declaration.formula
    if formula is None or table is None or not fit.model.may_be_series:
        return ""
    if time and time not in table.cells:  # a run keeps only the columns that it uses
        return ""
    if gr is None:
        sizes = {name: len(table.labels(name)) for name in fit.model.partitions}
        gr = max(
            (g for g in sizes if 2 * sizes[g] <= len(table)), key=sizes.__getitem__, default=""
        )
    when = table.labels(time) if time else None
    series = table.labels(gr) if gr else None
    if ":" in gr or (when is not None and not has_order(when.names)):
        return ""
    if rows_before(len(table), when, series)[1] >= 0:
        return ""
    given = [f"{key} = {quote(name)}" for key, name in (("time", time), ("gr", gr)) if name]
    option = "" if formula.family == "gaussian" else f" --family {formula.family}"
    better = with_terms(formula.text, [f"ar({', '.join(given)})"])
    return Advice(f'refit with the formula "{better}"{option}', program=better)


def _along_neighbours(case: Case) -> str:
    """Recommend autoregressive residuals, ordered by a covariate."""
    x = case.words["x"]
    found = _autoregression(case, x)
    if not found:
        return ""
    return _within(found, f"if {x} is a time, ", f"; if not, look for a covariate that follows {x}")


def _along_rows(case: Case) -> str:
    """Recommend autoregressive residuals, ordered as the rows are."""
    found = _autoregression(case)
    if not found:
        return ""
    more = (
        "; if a column gives the time, name it in ar(time = …); if the rows are sorted by another "
        "column, add its effect; if they are sorted by the response, shuffle them"
    )
    return _within(found, "if the rows follow each other in time, ", more)


def _along_time(case: Case) -> str:
    """Recommend autoregressive residuals, ordered by time, or an effect of time."""
    times, labels = case.fit.data.by_time, case.fit.data.by_group
    if times is None:
        return ""
    found = _autoregression(case, times.column, labels.column if labels is not None else "")
    if not found:
        return ""
    before = "add an effect of time, such as a trend or a season, or "
    return _within(found, before, f"; {case.words.get('order', '')}".rstrip("; "))


def _within(advice: str, before: str, after: str) -> str:
    """Return advice with text added before and after it."""
    change = dict(advice.change) if isinstance(advice, Advice) else {}
    return Advice(f"{before}{advice}{after}", **change)


def _unless_cut_off(case: Case) -> str:
    """Recommend checking for a limit and, if there is none, the most likely alternative family."""
    family = "" if case.family is None else _alternative(case.fit)
    if not family:
        return ""
    return unless_cut_off(refit(case.fit, family=family))


def unless_cut_off(advice: str) -> str:
    """Return advice to check for a limit, and what to do if values are not cut off there."""
    change = dict(advice.change) if isinstance(advice, Advice) else {}
    return Advice(f"{CUT_OFF}; if not, {advice}{EDGES}", **change)


def answer(fit: Fit, patterns: Patterns) -> str:
    """Return the advice on patterns of mean and spread: one formula that addresses all of them.

    It is empty if there are no patterns.
    """
    steps, spreads = patterns.steps, patterns.spreads
    if not steps and not spreads:
        return ""
    if fit.program.declaration.formula is None:
        return _for_program(fit, patterns)
    terms, family, found = [step.term for step in steps], patterns.family, ""
    if spreads and not family and _falls_with_mean(fit, spreads[0].found):
        family = "gaussian"
    if family:
        return refit(fit, terms, family=family, more=", which allows such differences in spread")
    if spreads:
        spread = [step.term for step in spreads]
        families = ["", *(each.text for each in fit.model.alternatives if each.spread)]
        tried = (refit(fit, terms, spread=spread, family=family) for family in families)
        found = next(filter(None, tried), "")
    if not found and terms:
        found = refit(fit, terms)
    if not found and spreads:
        found = advise(fit, "unequal", {"x": spreads[0].found.pattern.columns[0]})
    return found


def _falls_with_mean(fit: Fit, spread: Judged) -> bool:
    """Return whether the spread of logs falls as the mean grows, instead of being constant."""
    where, y = spread.pattern.where, fit.data.y
    assert where is not None
    if not fit.model.family.compares_logs:
        return False
    inside = where >= 0
    means = np.bincount(where[inside], y[inside]) / np.bincount(where[inside])
    if means.size < 3 or means.std() == 0 or spread.by_bin.std() == 0:
        return False
    return float(np.corrcoef(means, spread.by_bin)[0, 1]) < -GROWS


# Remedies in words


def _for_program(fit: Fit, patterns: Patterns) -> str:
    """Return the advice on patterns in the residuals of a Stan program."""
    if patterns.family:
        return (
            f"use the family {patterns.family} for the likelihood, which allows such differences "
            "in spread"
        )
    found = []
    for step in (*patterns.steps, *patterns.spreads):
        pattern = step.found.pattern
        words = {"x": pattern.columns[0], "other": pattern.columns[-1], "term": step.term}
        found.append(advise(fit, NEEDS.get(pattern.kind, pattern.kind), words))
    return "; ".join(found)


def _said(text: str, step: Step = "", **change: Any) -> Remedy:
    """Return a remedy that always applies."""

    def remedy(case: Case) -> str:
        advice = Advice(text, step or None, **change).format_map(case.words)
        if case.family is None and step != "sensitivity":
            return _with_copy(case.fit, advice)
        return advice

    return remedy


def _of_formula(text: str, **change: Any) -> Remedy:
    """Return a remedy that applies only to fits of formulas."""
    said = _said(text, **change)
    return lambda case: "" if case.family is None else said(case)


def _of_program(text: str, *, counts: bool = False) -> Remedy:
    """Return a remedy that applies only to Stan programs or, if `counts`, to those for counts."""

    def remedy(case: Case) -> str:
        if case.family is not None or (counts and not case.fit.program.counts):
            return ""
        return _with_copy(case.fit, text.format_map(case.words))

    return remedy


def _with_copy(fit: Fit, text: str) -> str:
    """Return advice on a program; for a shipped program, add the command that copies it."""
    reference = fit.program.reference
    if reference.endswith(".stan"):
        return text
    copy = f"pyflowers new NAME --from {reference}"
    return Advice(f"{text}; for a copy that you can change, run {copy}", "new")


def _formula_of_counts(case: Case) -> str:
    """Recommend a formula instead of a shipped program for counts in groups."""
    fit, labels = case.fit, case.fit.data.by_group
    reference = fit.program.reference
    is_shipped = case.family is None and not reference.endswith(".stan")
    if not is_shipped or not fit.program.counts or labels is None:
        return ""
    terms = f"{quote(fit.data.response_name)} ~ 1 + (1 | {quote(labels.column)})"
    return Advice(
        f'refit with the formula "{terms}" --family negbinomial, or change a copy of the '
        f"model: pyflowers new NAME --from {reference}",
        program=terms,
        family="negbinomial",
    )


_EXTREME = (
    "look at the most extreme rows; if they are correct, try another family, and compare the "
    "two models with pyflowers loo"
)
_NARROWER = (
    "if the model lacks a group or a covariate on which the mean depends, add it; otherwise "
)
_LOCATION = _said(
    "see whether pyflowers sensitivity finds a prior far from the data, and if so, set a prior on "
    "the scale of the data (--prior); if not, the program lacks a covariate or an offset",
    "sensitivity",
)
NEEDS = {"curvature": "mean", "spread": "unequal"}
"""The need that a pattern points to, if it is not named after the pattern."""

REMEDIES: Mapping[str, tuple[Remedy, ...]] = {
    "location": (_LOCATION,),
    "quantile": (
        _said(
            "see whether pyflowers sensitivity finds a prior far from the data; if not, let the "
            "quantile follow the covariates more closely, as in s(x), or add a covariate",
            "sensitivity",
        ),
    ),
    "shape": (_another_family, _LOCATION),
    "another shape": (
        _another_family,
        lambda case: "see the figure of the PITs for where predictions and data differ",
    ),
    "wider": (
        _another_family,
        _of_formula(_EXTREME),
        _formula_of_counts,
        _of_program(
            "use a likelihood with a dispersion parameter (neg_binomial_2 instead of poisson, "
            "beta_binomial instead of binomial), or add a normal effect for each row to the log of "
            "the mean or the logit of the probability",
            counts=True,
        ),
        _of_program(
            "use student_t instead of normal, or let the standard deviation differ between groups"
        ),
    ),
    "narrower": (
        _another_family,
        _of_formula(f"{_NARROWER}choose another family"),
        _of_program(
            f"{_NARROWER}use a likelihood with less variation, such as binomial where counts have "
            "a maximum",
            counts=True,
        ),
        _of_program(f"{_NARROWER}narrow the prior on the standard deviation"),
    ),
    "tails": (
        _another_family,
        _of_formula(_EXTREME),
        _formula_of_counts,
        _of_program(
            "look at the most extreme rows; if they are correct, use a likelihood with heavier "
            "tails (neg_binomial_2 instead of poisson, student_t instead of normal)"
        ),
    ),
    "zeros": (
        _another_family,
        _more_zeros,
        _of_formula(_EXTREME),
        _formula_of_counts,
        _of_program(
            "use neg_binomial_2, which has more zeros than poisson, or a zero-inflated likelihood"
        ),
    ),
    "no zeros": (
        _said(
            "if rows with 0 were left out of the table, add them; otherwise truncate the "
            "likelihood at 1, or give zeros a separate probability"
        ),
    ),
    "limit": (
        _unless_cut_off,
        _said(f"{CUT_OFF}; if not, use a model in which values vary less{EDGES}"),
    ),
    "ratings": (
        _said(
            "the response has only {num} different values: refit with --family cumulative, which "
            f"treats them as ratings{EDGES}",
            family="cumulative",
        ),
    ),
    "scores": (
        _said(
            "the response is bounded: if it counts the points out of {most}, refit with the "
            f'formula "{{trials}}" --family binomial{EDGES}',
            program="{trials}",
            family="binomial",
        ),
    ),
    "shares": (
        _said(f"the response lies between 0 and 1: refit with --family beta{EDGES}", family="beta"),
    ),
    "shares with ends": (
        _said(
            "the response lies between 0 and 1, and some values are 0 or 1: refit with --family "
            f"ordered_beta{EDGES}",
            family="ordered_beta",
        ),
    ),
    "amounts": (
        _said(
            "{share} of the values are 0, and the others are above 0: refit with --family "
            "hurdle_gamma or --family hurdle_lognormal",
            family="hurdle_gamma",
        ),
    ),
    "binary": (
        _of_formula("all values are 0 or 1: refit with --family bernoulli", family="bernoulli"),
        _of_program("all values are 0 or 1: use a Bernoulli likelihood"),
    ),
    "positive": (
        _said(
            "all values are above 0: refit with --family lognormal or --family gamma",
            family=LOGNORMAL,
        ),
    ),
    "group": (
        _effects_with_tails,
        _said(
            "look at the rows of this group; if they are correct, add a covariate that sets the "
            "group apart, or draw the group effects from student_t instead of normal"
        ),
    ),
    "unlike": (
        _said(
            "add a covariate that explains the differences between the rows, or a group term for a "
            "column with a label for each row, such as (1 | row)"
        ),
    ),
    "clusters": (
        _said(
            "see whether the groups form clusters, and if so, add a covariate that separates them"
        ),
    ),
    "chosen": (
        _said(
            "add a covariate that explains the differences between the rows; if rows were selected "
            "by the value of the response, as in a matched case-control study, the model does not "
            "apply"
        ),
    ),
    "mean": (
        _said(
            "let the mean follow {x} more closely, as in {term}, or choose another link or "
            "distribution"
        ),
    ),
    "interaction": (_said("let the effect of {x} depend on {other}, or add a missing covariate"),),
    "slopes": (_said("let the effect of {x} vary by {other}"),),
    "unequal": (
        _of_formula(
            "choose a family whose spread may depend on {x}, and compare the two models "
            "with pyflowers loo"
        ),
        _of_program("let the spread depend on {x}"),
    ),
    "rows": (
        _along_rows,
        _said(
            "if the rows follow each other in time, let each error depend on the previous one, "
            "which requires a program of your own, or add an effect of time; if a column gives the "
            "time, name it with --time; if the rows are ordered by something else, add its effect",
            "new",
        ),
    ),
    "neighbours": (
        _along_neighbours,
        _said(
            "if {x} is a time, let each error depend on the previous one, which requires a program "
            "of your own; if not, look for a covariate that follows {x}",
            "new",
        ),
    ),
    "time": (
        _along_time,
        _said(
            "add an effect of time, such as a trend or a season, or an autoregressive term; {order}"
        ),
    ),
    "alternating in time": (
        _said("look for something that alternates in time, and add its effect; {order}"),
    ),
}
"""The remedies for each need; the first that applies is recommended."""
