"""Section 4: each model with its story, equation, priors, summary and figures."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup
from matplotlib.figure import Figure

from pyflowers import plots
from pyflowers.fitting import Fit
from pyflowers.plots.prior import prior_of
from pyflowers.report.embed import Embedded, embed
from pyflowers.report.material import Material, Table
from pyflowers.report.numbers import summary_number

MOST_ROWS = 300
"""Rows of a summary table on the page; what is left out is in summary.csv, and the page says so."""

_Draw = Callable[[Fit], Figure]


@dataclass(frozen=True)
class Chapter:
    """What the page says of one model."""

    name: str
    title: str
    story: str
    formulas: list[str]
    priors: Table | None
    summary: Table
    notes: list[str]
    figures: list[Embedded]


def chapter(material: Material, fit: Fit, advance: Callable[[int], object]) -> Chapter:
    """Return the chapter of one fit; `advance` is called after each figure."""
    model = fit.model
    summary = material.summaries[fit.name]
    notes = [*summary.attrs.get("notes", []), *fit.record["warnings"]]
    if len(summary) > MOST_ROWS:
        left = len(summary) - MOST_ROWS
        notes.append(f"The first {MOST_ROWS} rows are shown; {left} more are in summary.csv.")
    figures = []
    for draw, caption in _figures(fit):
        figures.append(embed(draw(fit), caption))
        advance(1)
    return Chapter(
        name=fit.name,
        title=model.title if model else "A program of your own",
        story=model.story if model else f"Its program is {fit.record['program']}.",
        formulas=_formulas(fit),
        priors=_priors(fit),
        summary=_summary(material, fit),
        notes=notes,
        figures=figures,
    )


def num_figures(fit: Fit) -> int:
    """Return how many figures the chapter of a fit has."""
    return len(_figures(fit))


def _figures(fit: Fit) -> list[tuple[_Draw, str]]:
    """Return what to draw of a fit, and how to read it."""
    names = ["trace", "ranks", "pairs"]
    if fit.model is not None:
        names += ["prior"]
        names += ["shrinkage"] if fit.model.is_multilevel else []
        names += ["rootogram" if fit.model.counts_only else "distribution"]
    return [_CAPTIONED[name] for name in names]


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
    "prior": (
        plots.prior_posterior,
        "Prior against posterior. An axis spans the posterior; variances are on a logarithmic "
        "axis, as densities of the logarithm.",
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
    if fit.model is None or not fit.record["priors"]:
        return None
    rows = [
        [
            Markup("<code>{}</code>").format(name),
            _value(fit.record["priors"][name], prior.default),
            prior.description,
        ]
        for name, prior in fit.model.priors.items()
    ]
    return Table("Priors as used", ["Hyperparameter", "Value", "Meaning"], rows, [2])


def _value(value: float, default: float) -> str:
    return f"{value:g}" if value == default else f"{value:g} (default {default:g})"


def _formulas(fit: Fit) -> list[str]:
    """Return the model and its priors with their numbers, a formula a line."""
    lines = re.split(r", (?=[\w ]+ ~)", fit.model.equation) if fit.model else []
    for name in map(str, fit.posterior.data_vars):
        prior = prior_of(name, fit.record["priors"])
        if prior is not None:
            lines.append(f"{name} ~ {prior.text}")
    return lines


def _summary(material: Material, fit: Fit) -> Table:
    table = material.summaries[fit.name].head(MOST_ROWS)
    columns = [str(column) for column in table.columns]
    rows = [
        [
            Markup("<code>{}</code>").format(row),
            *(summary_number(fit, table, str(row), column) for column in columns),
        ]
        for row in table.index
    ]
    return Table(f"Summary of the posterior of {fit.name}", ["Parameter", *columns], rows)
