"""The models: for each its equation, program, priors, summary and figures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import compress
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from pyflowers import plots
from pyflowers.fits.commands import shown_path
from pyflowers.fits.fit import Fit
from pyflowers.plots.groups import coefficients
from pyflowers.programs import Capability
from pyflowers.reports.markup import Text, code, fill, paragraph, summary_number
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
        yield fill('<h3 id="model-{}">{} {}</h3>', i, fit.program.title, code(fit.name))
        yield from _model(fit)
        yield from _posterior(material, fit)
        for name, caption in _captions(fit).items():
            yield Picture(f"{fit.name}/{name}", caption)
        yield Markup("</article>")


def _model(fit: Fit) -> Iterator[Block]:
    """Yield the story, the equation, the program and the priors of a fit."""
    if fit.program.declaration.story:
        yield paragraph(fit.program.declaration.story)
    lines = formulas(fit)
    if lines:
        box = '<pre class="equation" tabindex="0" aria-label="Model and priors">{}</pre>'
        yield fill(box, "\n".join(lines))
    what = "The program"
    for name, text in fit.record.program.files.items():
        shown = shown_path(name)
        yield fill(
            '<details>\n<summary>{}: {}</summary>\n<pre tabindex="0" aria-label="{}">\n{}</pre>\n'
            "</details>",
            what,
            code(shown),
            shown,
            text,
        )
        what = "Included"
    if fit.program.declaration.priors:
        yield priors_table(fit)


def formulas(fit: Fit) -> list[str]:
    """Return the model and its priors with their numbers, one formula per line."""
    equation, lines = fit.program.declaration.equation, []
    if equation:
        lines = re.split(r", (?=[\w ]+ ~)", equation)
    priors = {name: fit.program.prior_of(name, fit.data.values) for name in map(str, fit.posterior)}
    return [*lines, *(f"{name} ~ {prior.text}" for name, prior in priors.items() if prior)]


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
    """Yield the summary of a fit and notes on it."""
    whole = material.summaries[fit.name]
    size = Counter(str(name).partition("[")[0] for name in whole.index)
    names = sorted(map(str, whole.index), key=lambda name: size[name.partition("[")[0]])
    columns = [str(column) for column in whole.columns]
    numbers = [
        [code(row), *(summary_number(fit, whole, row, column) for column in columns)]
        for row in names[:MOST_ROWS]
    ]
    yield Table(f"Summary of the posterior of {fit.name}", ["Parameter", *columns], numbers)
    for note in (*whole.attrs.get("notes", ()), *fit.record.notes):
        yield paragraph(note, "note")
    if len(names) > MOST_ROWS:
        yield paragraph(
            f"{MOST_ROWS} of {len(names)} rows are shown, quantities with few elements first; all "
            "rows are in summary.csv.",
            "note",
        )


def _captions(fit: Fit) -> dict[str, Text]:
    """Return the caption of each figure that a model may have, in their order on the page."""
    crosses = ""
    if "divergent__" in fit.stats:
        crosses = "; crosses are divergent transitions"
    predictive = (
        "Posterior predictive check by distribution functions: observed values against data "
        "replicated from the model."
    )
    if fit.program.counts:
        predictive = (
            "Posterior predictive check, a rootogram. Bars show how often each count was observed, "
            "dots and lines how often the model predicts it; on the square-root axis, all "
            "frequencies vary about equally."
        )
    return {
        "forest": "Coefficients. Each is the effect of one unit of its term with all other terms "
        "unchanged, so coefficients of terms in different units cannot be compared.",
        "trace": "Traceplots. Each line is a chain; chains that mix look alike and have no trend.",
        "ranks": "Rank plots. Each line is a chain; chains that agree stay flat, mostly within the "
        "band that holds 99% of the bars of independent draws.",
        "pairs": "Pair plot. On the diagonal, each parameter is shown alone; below it, parameters "
        f"are plotted against each other{crosses}.",
        "prior_posterior": "Prior against posterior. Each axis spans the posterior; on a "
        "logarithmic axis, the curves are densities of the logarithm.",
        "shrinkage": "Shrinkage. The model moves each group's average towards the overall average, "
        "farther if the group has fewer observations.",
        "predictive": predictive,
    }


def figures(material: Material) -> Drawings:
    """Return the figures of each model; their names begin with the model's name and ``/``."""
    found: dict[str, Callable[[], Figure]] = {}
    for fit in material.fits:
        can, has_draws = fit.program.can, bool(fit.posterior)
        has_groups = can(Capability.GROUP_MEAN) and fit.data.by_group is not None
        applies: dict[Callable[..., Figure], bool] = {
            **dict.fromkeys((plots.trace, plots.ranks, plots.pairs), has_draws),
            plots.prior_posterior: can(Capability.PRIOR_DENSITY),
            plots.shrinkage: has_groups,
            plots.predictive: can(Capability.Y_REP) and fit.data.num_obs > 0,
        }
        for effects in coefficients(fit)[:1]:
            found[f"{fit.name}/forest"] = partial(plots.forest, fit, effects)
        for draw in compress(applies, applies.values()):
            found[f"{fit.name}/{draw.__name__}"] = partial(draw, fit)
    return found


MODELS = Section("models", title, content, figures)
