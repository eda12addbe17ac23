"""Fits in, one HTML file out: nothing outside it is needed to read it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pyflowers import plots
from pyflowers.data import FlowerData
from pyflowers.errors import ConfigError
from pyflowers.fitting import Fit
from pyflowers.plots.comparison import Z_90
from pyflowers.progress import stage
from pyflowers.report import answer, provenance, verdict
from pyflowers.report.chapters import Chapter, chapter, num_figures
from pyflowers.report.comparison import compare_methods, without_closed_form
from pyflowers.report.embed import Embedded, embed, visible
from pyflowers.report.material import Material, Table
from pyflowers.report.numbers import interval, isolated, number

MOST_CELLS = 400
"""Plants times months up to which the observations are a table, too."""


def write_report(
    fits: Sequence[Fit], path: str | Path, *, refused: Mapping[str, str] | None = None
) -> Path:
    """Write the report of fits of one table as one HTML file.

    Parameters
    ----------
    fits : sequence of Fit
        One for each model.
    path : str or Path
        The file.
    refused : mapping of str to str, optional
        Models that could not be fitted, and why; the report says so.

    Raises
    ------
    ConfigError
        If there is no fit, the fits are of different data, or the file cannot be written.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}-", delete=False
        ) as file:
            staging = Path(file.name)
            try:
                file.write(render_report(fits, refused=refused, out=path))
                file.close()
                staging.chmod(0o644)
                staging.replace(path)
            finally:
                staging.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(
            f"report {path}: it cannot be written ({error.strerror or error}); name another file"
        ) from error
    return path


def render_report(
    fits: Sequence[Fit],
    *,
    refused: Mapping[str, str] | None = None,
    out: Path = Path("report.html"),
) -> str:
    """Return the report's HTML; the same fits give the same text.

    Parameters
    ----------
    fits, refused
        See :func:`write_report`.
    out : Path
        The name that the command in the report gives the file.
    """
    material = Material(fits, dict(refused or {}))
    page = _environment().get_template("report.html.j2")
    num = sum(num_figures(fit) for fit in fits) + 2
    with stage("Drawing the report", num) as advance:
        context = _context(material, out, advance)
    return visible(page.render(context))


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("pyflowers.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _context(material: Material, out: Path, advance: Any) -> dict[str, Any]:
    data = material.data
    chapters: list[Chapter] = [chapter(material, fit, advance) for fit in material.fits]
    context = {
        "css": Markup(_css()),
        "material": material,
        "title": _title(data, material),
        "question": answer.question(data),
        "answer": answer.answer(material),
        "headline": verdict.headline(material),
        "failures": verdict.failures(material),
        "checks": verdict.table(material),
        "data": data,
        "data_figure": _data_figure(data),
        "data_table": _data_table(data),
        "data_sentences": _data_sentences(data),
        "chapters": chapters,
        "loo": material.loo,
        "loo_table": _loo_table(material),
        "loo_figure": _loo_figure(material),
        "loo_densities": any(fit.model and not fit.model.counts_only for fit in material.fits),
        "methods": [
            (method, [embed(figure, caption) for figure, caption in method.figures])
            for method in compare_methods(material)
        ],
        "without_closed_form": without_closed_form(material),
        "command": provenance.command(material, out),
        "needs_file": provenance.needs_file(material),
        "provenance": provenance.tables(material),
    }
    advance(2)
    return context


def _css() -> str:
    from importlib.resources import files

    return (files("pyflowers.report") / "templates" / "report.css").read_text(encoding="utf-8")


def _title(data: FlowerData | None, material: Material) -> str:
    if data is None:
        return material.fits[0].name
    return f"{data.columns.value} by {data.columns.group} and {data.columns.time}"


def _data_figure(data: FlowerData | None) -> Embedded | None:
    if data is None:
        return None
    caption = "The observations. A cross at the foot of a panel is a missing month."
    return embed(plots.observations(data), caption)


def _data_sentences(data: FlowerData | None) -> list[Markup]:
    if data is None:
        return [Markup("The data of a program of your own are not shown here.")]
    num_missing = data.num_plants * len(data.months) - data.num_obs
    said = Markup(
        "{} observations of {} {} labels over {} {} labels, between {} and {}, on average {}."
    ).format(
        *(data.num_obs, data.num_plants, isolated(data.columns.group)),
        *(len(data.months), isolated(data.columns.time)),
        *(f"{data.y.min():g}", f"{data.y.max():g}", number(float(data.y.mean()))),
    )
    if not num_missing:
        return [said, Markup("No combination is missing.")]
    lacking = int((data.months_per_plant < len(data.months)).sum())
    missing = Markup("{} combinations are missing, of {} {} labels.").format(
        num_missing, lacking, isolated(data.columns.group)
    )
    return [said, missing]


def _data_table(data: FlowerData | None) -> Table | None:
    if data is None or data.num_plants * len(data.months) > MOST_CELLS or len(data.months) > 40:
        return None
    values = np.full((data.num_plants, len(data.months)), np.nan)
    values[data.plant, data.month] = data.y
    rows: list[list[Markup | str]] = [
        [plant, *("missing" if np.isnan(value) else f"{value:g}" for value in row)]
        for plant, row in zip(data.plants, values, strict=True)
    ]
    caption = f"{data.columns.value} by {data.columns.group} and {data.columns.time}"
    return Table(caption, [data.columns.group, *data.months], rows)


def _loo_table(material: Material) -> Table | None:
    if material.loo is None:
        return None
    rows = []
    for model in material.loo.models:
        low, high = (model.difference + sign * Z_90 * model.difference_se for sign in (-1, 1))
        is_best = model is material.loo.best
        rows.append(
            [
                Markup("<code>{}</code>").format(model.name),
                *(number(model.elpd), number(model.se), number(model.p_loo)),
                *(number(model.difference), number(model.difference_se)),
                Markup("–") if is_best else interval(number(low), number(high)),
                number(model.worst_k),
                str(model.num_bad),
            ]
        )
    head = ["Model", "elpd", "SE", "p_loo", "Difference", "SE of difference", "90% interval"]
    return Table("PSIS-LOO, best model first", [*head, "Largest k-hat", "k-hats too large"], rows)


def _loo_figure(material: Material) -> Embedded | None:
    if material.loo is None or len(material.loo.models) == 1:
        return None
    caption = "Differences in elpd to the best model with 90% intervals."
    return embed(plots.elpd_differences(material.loo), caption)
