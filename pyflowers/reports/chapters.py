"""The chapters: each model with its story, equation, priors, summary and figures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from pyflowers import plots
from pyflowers.fits.fit import Fit
from pyflowers.programs import Capability
from pyflowers.reports.embed import Drawing, Embedded
from pyflowers.reports.material import Material, Table
from pyflowers.reports.numbers import summary_number
from pyflowers.reports.provenance import shown_path

MOST_ROWS = 300
"""Rows of a summary table on the page; what is left out is in summary.csv, and the page says so."""

_Draw = Callable[[Fit], Figure]


@dataclass(frozen=True)
class Chapter:
    """The part of the page on one model."""

    name: str
    title: str
    story: str
    formulas: list[str]
    program: list[tuple[str, str]]
    priors: Table | None
    summary: Table
    notes: list[str]
    figures: list[Embedded]


def chapter(material: Material, fit: Fit, figures: list[Embedded]) -> Chapter:
    """Return the chapter of one fit, its :func:`drawings` drawn."""
    program = fit.program
    summary = material.summaries[fit.name]
    notes = [*summary.attrs.get("notes", []), *fit.record.notes]
    if len(summary) > MOST_ROWS:
        notes.append(
            f"{MOST_ROWS} of {len(summary)} rows are shown, short quantities first; all are in "
            "summary.csv."
        )
    return Chapter(
        name=fit.name,
        title=program.title,
        story=program.declaration.story,
        formulas=_formulas(fit),
        program=[(shown_path(name), text) for name, text in fit.record.program.files.items()],
        priors=_priors(fit),
        summary=_summary(material, fit),
        notes=notes,
        figures=figures,
    )


def drawings(fit: Fit) -> list[Drawing]:
    """Return the figures of a fit's chapter."""
    pairs = "pairs" if "divergent__" in fit.stats else "pairs_without_divergences"
    names = ["trace", "ranks", pairs] if fit.posterior else []
    program = fit.program
    if program.can(Capability.PRIOR_DENSITY):
        names.append("prior")
    if program.can(Capability.GROUP_MEAN) and fit.data.by_group is not None:
        names.append("shrinkage")
    if program.can(Capability.Y_REP) and fit.data.num_obs:
        names.append("rootogram" if program.counts else "distribution")
    return [(partial(draw, fit), caption) for draw, caption in map(_CAPTIONED.__getitem__, names)]


_CAPTIONED: dict[str, tuple[_Draw, str]] = {
    "trace": (
        plots.trace,
        "Traceplots. Each line is a chain; chains that mix look alike and have no trend.",
    ),
    "ranks": (
        plots.ranks,
        "Rank plots. Each line is a chain; chains that agree stay flat, mostly within the band "
        "that holds 99% of the bars of independent draws.",
    ),
    "pairs": (
        plots.pairs,
        "Pair plot. Below the diagonal two parameters against each other, on it each alone; "
        "crosses are divergent transitions.",
    ),
    "pairs_without_divergences": (
        plots.pairs,
        "Pair plot. Below the diagonal two parameters against each other, on it each alone.",
    ),
    "prior": (
        plots.prior_posterior,
        "Prior against posterior. An axis spans the posterior; on a logarithmic axis densities are "
        "those of the logarithm.",
    ),
    "shrinkage": (
        plots.shrinkage,
        "Shrinkage. The model moves each average towards that of all, the more the fewer the "
        "observations behind it.",
    ),
    "rootogram": (
        plots.predictive,
        "Posterior predictive check, a rootogram. Bars are how often each count was observed, dots "
        "and lines how often the model expects it; on a square-root axis all vary alike.",
    ),
    "distribution": (
        plots.predictive,
        "Posterior predictive check by distribution functions: observed values against data "
        "replicated from the model.",
    ),
}


def _priors(fit: Fit) -> Table | None:
    declared = fit.program.declaration.priors
    if not declared:
        return None
    rows: list[list[Markup | str]] = [
        [
            Markup("<code>{}</code>").format(name),
            _value(fit.record.priors[name], prior.value),
            prior.description,
        ]
        for name, prior in declared.items()
        if name in fit.record.priors
    ]
    if not any(row[2] for row in rows):
        return Table("Priors as used", ["Hyperparameter", "Value"], [row[:2] for row in rows])
    return Table("Priors as used", ["Hyperparameter", "Value", "Meaning"], rows, [2])


def _value(value: Any, default: float) -> str:
    if not isinstance(value, float | int):
        return str(value)
    return f"{value:g}" if value == default else f"{value:g} (default {default:g})"


def _formulas(fit: Fit) -> list[str]:
    """Return the model and its priors with their numbers, a formula a line."""
    equation = fit.program.declaration.equation
    lines = re.split(r", (?=[\w ]+ ~)", equation) if equation else []
    for name in map(str, fit.posterior):
        prior = fit.program.prior_of(name, fit.data.values)
        if prior is not None:
            lines.append(f"{name} ~ {prior.text}")
    return lines


def _summary(material: Material, fit: Fit) -> Table:
    whole = material.summaries[fit.name]
    names = [str(name) for name in whole.index]
    size = Counter(name.partition("[")[0] for name in names)
    shown = sorted(names, key=lambda name: size[name.partition("[")[0]])[:MOST_ROWS]
    table = whole.loc[shown]
    columns = [str(column) for column in table.columns]
    rows = [
        [
            Markup("<code>{}</code>").format(row),
            *(summary_number(fit, table, str(row), column) for column in columns),
        ]
        for row in table.index
    ]
    return Table(f"Summary of the posterior of {fit.name}", ["Parameter", *columns], rows)
