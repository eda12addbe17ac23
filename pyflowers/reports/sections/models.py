"""The models: the equation, program, priors, summary and figures of each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from pyflowers import plots
from pyflowers.errors import ConfigError
from pyflowers.fits.commands import shown_path
from pyflowers.fits.fit import Fit
from pyflowers.plots.groups import coefficients
from pyflowers.programs import Capability
from pyflowers.programs.densities import prior_density
from pyflowers.programs.stated_priors import prior_table
from pyflowers.reports.markup import Text, code, fill, folded, paragraph, summary_number
from pyflowers.reports.material import Material
from pyflowers.reports.section import MOST_ROWS, Block, Drawings, Picture, Section, Table


def title(material: Material) -> str:
    """Return the heading."""
    if material.alone:
        return "The model"
    return "Each model"


def content(material: Material) -> Iterator[Block]:
    """Yield a chapter for each model."""
    for i, fit in enumerate(material.fits, start=1):
        yield fill('<article aria-labelledby="model-{}">', i)
        yield fill('<h3 id="model-{}">{}</h3>', i, _heading(material, fit))
        yield from _model(fit)
        yield from _posterior(material, fit)
        for name, caption in _captions(fit).items():
            yield Picture(f"{fit.name}/{name}", caption)
        yield Markup("</article>")


def _heading(material: Material, fit: Fit) -> Text:
    """Return the title of a model, with the name that the page gives it."""
    label = material.labels[fit.name]
    if label == fit.program.name:
        return fill("{} {}", fit.program.title, code(label))
    if material.alone and not fit.record.name:
        return fit.program.title
    return fill("{}: {}", label, fit.program.title)


def _model(fit: Fit) -> Iterator[Block]:
    """Yield the story, the equation, the priors and the program of a fit."""
    if fit.program.declaration.story:
        yield paragraph(fit.program.declaration.story)
    lines = equations(fit)
    if lines:
        box = '<pre class="equation" tabindex="0" aria-label="Model and priors">{}</pre>'
        yield fill(box, "\n".join(lines))
    is_formula = fit.program.declaration.formula is not None
    what = "The program"
    for name, text in fit.record.program.files.items():
        shown = shown_path(name)
        summary = fill("{}: {}", what, code(shown))
        if is_formula:  # the name of the file is made from the formula
            summary = fill("The Stan program")
        box = '<pre tabindex="0" aria-label="{}">\n{}</pre>'
        yield from folded(summary, fill(box, shown, text))
        what = "Included"
    if fit.program.declaration.priors:
        yield from folded("The numbers in the priors", priors_table(fit))


def equations(fit: Fit) -> list[str]:
    """Return the model and all its priors with their numbers, one equation per line."""
    declared, lines = fit.program.declaration, list[str]()
    if declared.equation:
        lines = re.split(r", (?=\w+ = |[\w ]+ ~)", declared.equation)
    if declared.formula is not None and fit.model.has_rule:
        lines += [f"{name} ~ {its}" for name, its in fit.model.rule.effects.items()]
    return [*lines, *(f"{name} ~ {prior}" for name, prior in priors_of(fit).items())]


def priors_of(fit: Fit) -> dict[str, str]:
    """Return the priors of a fit with their numbers, by the names of parameters."""
    values, parameters = fit.data.values, fit.program.declaration.parameters
    found = dict[str, str]()
    for name, text in prior_table(fit.program, values)["prior"].items():
        prior, shown = fit.program.prior_of(str(name), values), str(name)
        if f"{name}_at_means" in parameters:
            prior = fit.program.prior_of(f"{name}_at_means", values)
            shown = f"{name} at the means of the terms"
        if prior is None:
            with suppress(ConfigError):  # raised for matrices and simplexes
                prior = prior_density(str(text), {})
        found[shown] = str(text).replace("lkj", "LKJ").replace("dirichlet", "Dirichlet")
        if prior is not None:
            found[shown] = prior.text
    for name in fit.program.improper_priors(values):
        found.setdefault(name, "flat")
    return found


def priors_table(fit: Fit) -> Table:
    """Return the hyperparameters and their values."""
    rows = [
        [code(name), _used(fit.record.priors[name], prior.value), prior.description]
        for name, prior in fit.program.declaration.priors.items()
        if name in fit.record.priors
    ]
    head, text_columns = ["Hyperparameter", "Value", "Meaning"], [2]
    if not any(meaning for *_, meaning in rows):
        head, text_columns = head[:2], []
        rows = [row[:2] for row in rows]
    return Table("Priors as used", head, rows, text_columns)


def _used(used: Any, default: Any) -> str:
    if not isinstance(used, float | int):
        return str(used)
    if used == default:
        return f"{used:g}"
    return f"{used:g} (default {default:g})"


def _posterior(material: Material, fit: Fit) -> Iterator[Block]:
    """Yield the summary of a fit and notes on it.

    The first table has six columns and no effects of groups; the whole table is collapsed.
    """
    whole = material.summaries[fit.name]
    size = Counter(str(name).partition("[")[0] for name in whole.index)
    names = sorted(map(str, whole.index), key=lambda name: size[name.partition("[")[0]])
    own = list(map(str, fit.summary().index))
    median, low, high, *_ = whole.columns
    shown = [median, "sd", low, high, "ess_bulk", "r_hat"]
    heads = {"ess_bulk": "ESS", "r_hat": "R-hat"}
    head = ["Parameter", *(heads.get(column, column) for column in shown)]
    first = own if len(own) <= MOST_ROWS else names[:MOST_ROWS]
    yield Table("Posterior", head, _numbers(fit, whole, first, shown))
    for note in (*whole.attrs.get("notes", ()), *fit.record.notes):
        yield paragraph(note, "note")
    columns = [str(column) for column in whole.columns]
    table = Table(
        "All quantities", ["Parameter", *columns], _numbers(fit, whole, names[:MOST_ROWS], columns)
    )
    rest = Markup()
    if len(names) > MOST_ROWS:
        rest = paragraph(
            f"{MOST_ROWS} of {len(names)} rows are shown, quantities with few elements first; all "
            "rows are in summary.csv.",
            "note",
        )
    summary = "All columns"
    if len(own) < len(names):
        summary = f"All columns, and the effects of groups and curves ({len(names)} rows)"
    yield from folded(summary, table, rest)


def _numbers(
    fit: Fit, whole: pd.DataFrame, names: Sequence[str], columns: Sequence[str]
) -> list[list[Text]]:
    """Return the rows of a summary table."""
    return [
        [code(row), *(summary_number(fit, whole, row, column) for column in columns)]
        for row in names
    ]


def _captions(fit: Fit) -> dict[str, Text]:
    """Return the caption of each figure that a model may have, in their order on the page."""
    each = (
        "Coefficients{}, in the order of the formula. Those of numeric terms are per standard "
        "deviation of the term, so that they can be compared."
    )
    forests = dict[str, Text]()
    for name, effects in _forests(fit).items():
        of = f" ({fit.program.description_of(effects)})" if fit.model.has_categories else ""
        forests[name] = fill(each, of)
    return {
        **forests,
        "shrinkage": "Shrinkage. The model moves each group's average towards the overall average, "
        "farther if the group has fewer observations.",
    }


def figures(material: Material) -> Drawings:
    """Return the figures of each model; their names begin with the model's name and ``/``."""
    found: dict[str, Callable[[], Figure]] = {}
    for fit in material.fits:
        has_groups = fit.program.can(Capability.GROUP_MEAN) and fit.data.by_group is not None
        if has_groups and fit is not material.best:  # the answer shows the best model's figure
            found[f"{fit.name}/shrinkage"] = partial(plots.shrinkage, fit)
        for name, effects in _forests(fit).items():
            found[f"{fit.name}/{name}"] = partial(plots.forest, fit, effects)
    return found


def _forests(fit: Fit) -> dict[str, str]:
    """Return the vectors of coefficients to draw: the first or, for categories, all of them."""
    found = coefficients(fit)
    if fit.model.has_categories:
        return {f"forest {effects}": effects for effects in found}
    return dict(zip(["forest"], found, strict=False))


MODELS = Section("models", title, content, figures)
