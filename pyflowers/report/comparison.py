"""NUTS against closed-form mean-field variational Bayes (VB), and the other methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from markupsafe import Markup

from pyflowers.compare import METHOD_NAMES, Comparison
from pyflowers.display import interval_quantiles, percent
from pyflowers.fits.fit import Fit
from pyflowers.plots import methods as figures
from pyflowers.programs import Capability
from pyflowers.report.embed import Drawing
from pyflowers.report.material import Material, Table
from pyflowers.report.numbers import listing, number, unbroken

MOST_ELEMENTS = 8
"""Parameters of a table; the others are said to be left out."""

_IN_TABLE = ("exact", "nuts", "independent", "vb")
"""Methods of the table where there are any but the reference; the figures show the others, too."""


@dataclass(frozen=True)
class MethodComparison:
    """The part of the page on one model's methods.

    Attributes
    ----------
    title : str
        The model's name.
    paragraphs : sequence of Markup
        What the comparison found, or why there is none.
    table : Table or None
        Each method's summary.
    drawings : sequence of Drawing
        With alternative text as :func:`pyflowers.plots.alt_text` reads it.
    """

    title: str
    paragraphs: Sequence[Markup]
    table: Table | None = None
    drawings: Sequence[Drawing] = ()


def compared(material: Material) -> list[MethodComparison]:
    """Return the section of each model whose methods were compared."""
    return [
        _of(fit, material.comparisons[fit.name])
        for fit in material.fits
        if fit.name in material.comparisons
    ]


def only_nuts(material: Material) -> Markup:
    """Say of which models only NUTS is shown."""
    names = [
        Markup("<code>{}</code>").format(fit.name)
        for fit in material.fits
        if not fit.program.can(Capability.VB)
    ]
    if not names:
        return Markup("")
    verb = "has" if len(names) == 1 else "have"
    return Markup("{} {} no closed-form mean-field VB.").format(listing(names), verb)


def _of(fit: Fit, found: Comparison | str) -> MethodComparison:
    if isinstance(found, str):
        why = Markup("The methods are not compared: {}.").format(unbroken(found.rstrip(".")))
        return MethodComparison(fit.name, [why])
    table, note = _table(found)
    return MethodComparison(
        fit.name,
        [p for p in (_widths(found), _distance(found), note) if p],
        table,
        _drawings(found),
    )


def _widths(found: Comparison) -> Markup:
    """Say how wide VB's intervals are against those of the reference."""
    if found.vb is None:
        return Markup("")
    ratio = found.table()["width_ratio"].xs("vb", level="method").dropna()
    low, high = str(ratio.idxmin()), str(ratio.idxmax())
    return Markup(
        "The {} intervals of closed-form VB are {} ({}) to {} ({}) times as wide as those "
        "of {}: mean-field VB leaves out how parameters depend on each other."
    ).format(
        *(percent(found.nuts.interval), number(ratio[low]), low),
        number(ratio[high]),
        high,
        METHOD_NAMES[found.reference],
    )


def _distance(found: Comparison) -> Markup:
    """Say how far q is from the posterior, where that is known exactly."""
    vb = found.results.get("vb")
    if vb is None or not np.isfinite(vb.kl):
        return Markup("")
    return Markup(
        "Its evidence lower bound is {}, which is {} nats below the log evidence: that is "
        "KL(q ‖ posterior)."
    ).format(number(vb.elbo), number(vb.kl))


def _table(found: Comparison) -> tuple[Table, Markup]:
    whole: pd.DataFrame = found.table()
    names = list(dict.fromkeys(whole.index.get_level_values("parameter")))
    shown = [name for name in names if "[" not in name]
    shown += [name for name in names if "[" in name][: MOST_ELEMENTS - len(shown)]
    rows: list[list[Markup | str]] = []
    columns = [*interval_quantiles(found.nuts.interval), "mean", "sd", "width_ratio"]
    few = [method for method in found.results if method in _IN_TABLE]
    methods = few if len(few) > 1 else list(found.results)
    for name in shown:
        for method, row in whole.loc[name].iterrows():
            if method not in methods:
                continue
            cells = [number(float(row[column])) for column in columns]
            rows.append([Markup("<code>{}</code>").format(name), METHOD_NAMES[str(method)], *cells])
    caption = f"Posterior of {found.program.name} by each method"
    width = f"{percent(found.nuts.interval)} width / {METHOD_NAMES[found.reference]}"
    head = ["Parameter", "Method", *columns[:-1], width]
    left = len(names) - len(shown)
    note = Markup("The table leaves out {} more parameters.").format(left) if left else Markup("")
    return Table(caption, head, rows, text_columns=[1]), note


def _drawings(found: Comparison) -> list[Drawing]:
    made: list[Drawing] = [
        (
            partial(figures.interval_forest, found),
            f"Medians and {percent(found.nuts.interval)} intervals of each method; pyflowers "
            "compare has the numbers.",
        ),
        (partial(figures.method_marginals, found), "Marginal densities by each method."),
    ]
    if found.vb is not None:
        made.append(
            (partial(figures.elbo_trace, found), "The evidence lower bound rises in each sweep.")
        )
    if found.vb_from_afar is not None:
        caption = (
            "Coordinate ascent from far away. Solid contours are the posterior, dashed ones q; "
            "lambda is 1/sigma2."
        )
        made.append((partial(figures.coordinate_ascent, found), caption))
    return made
