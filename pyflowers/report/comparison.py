"""Section 6: NUTS against closed-form mean-field variational Bayes (VB), and what else there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from pyflowers import compare
from pyflowers.compare import METHOD_NAMES, Comparison
from pyflowers.errors import PyflowersError
from pyflowers.fitting import Fit
from pyflowers.plots import methods as figures
from pyflowers.report.material import Material, Table
from pyflowers.report.numbers import listing, number

MOST_PLANTS = 60
"""Plants up to which the comparison is made for the report: the exact posterior takes its time."""

MOST_ELEMENTS = 8
"""Parameters of a table; the others are said to be left out."""

CLOSED_FORM = ("iid_normal", "multilevel_normal", "semiconjugate_normal")
"""Models whose mean-field VB is closed form."""

_IN_TABLE = ("exact", "nuts", "vb")
"""Methods of the table; the figures show the others, too."""

_COLUMNS = ("median", "5%", "95%", "mean", "sd", "width_ratio")


@dataclass(frozen=True)
class MethodComparison:
    """What section 6 says of one model.

    Attributes
    ----------
    title : str
        The model's name.
    paragraphs : sequence of Markup
        What the comparison found, or why there is none.
    table : Table or None
        Each method's summary.
    figures : sequence of (Figure, caption)
        With alternative text as :func:`pyflowers.plots.alt_text` reads it.
    """

    title: str
    paragraphs: Sequence[Markup]
    table: Table | None = None
    figures: Sequence[tuple[Figure, str]] = ()


def compare_methods(material: Material) -> list[MethodComparison]:
    """Compare the methods on each model whose mean-field VB is closed form."""
    return [_of_fit(fit) for fit in material.fits if fit.name in CLOSED_FORM]


def without_closed_form(material: Material) -> Markup:
    """Say which models have no closed-form VB."""
    names = [
        Markup("<code>{}</code>").format(fit.name)
        for fit in material.fits
        if fit.name not in CLOSED_FORM
    ]
    if not names:
        return Markup("")
    verb = "has" if len(names) == 1 else "have"
    return Markup("{} {} no closed-form mean-field VB, and NUTS alone speaks for it.").format(
        listing(names), verb
    )


def _of_fit(fit: Fit) -> MethodComparison:
    data = fit.data
    assert data is not None  # models of ours have data
    if data.num_plants > MOST_PLANTS:
        said = "With more than {} {} labels the comparison is left to pyflowers compare."
        return MethodComparison(fit.name, [Markup(said).format(MOST_PLANTS, data.columns.group)])
    cmdstan = "embedded" if fit.record["versions"]["cmdstan"].startswith("embedded") else None
    try:
        found = compare.compare_methods(
            fit.name,
            data,
            seed=fit.record["options"]["seed"],
            priors=fit.record["priors"],
            cmdstan=cmdstan,
            nuts=fit,
        )
    except PyflowersError as error:
        return MethodComparison(fit.name, [Markup("It cannot be made: {}").format(str(error))])
    table, note = _table(found)
    return MethodComparison(
        fit.name, [p for p in (_widths(found), _distance(found), note) if p], table, _figures(found)
    )


def _widths(found: Comparison) -> Markup:
    """Say how wide VB's intervals are against those of NUTS."""
    if found.vb is None:
        return Markup("")
    ratio = found.table()["width_ratio"].xs("vb", level="method").dropna()
    low, high = str(ratio.idxmin()), str(ratio.idxmax())
    return Markup(
        "The 90% intervals of closed-form VB are {} ({}) to {} ({}) times as wide as those "
        "of NUTS: mean-field VB leaves out how parameters depend on each other."
    ).format(number(ratio[low]), low, number(ratio[high]), high)


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
    for name in shown:
        for method, row in whole.loc[name].iterrows():
            if method not in _IN_TABLE:
                continue
            cells = [number(float(row[column])) for column in _COLUMNS]
            rows.append([Markup("<code>{}</code>").format(name), METHOD_NAMES[str(method)], *cells])
    caption = f"Posterior of {found.model.name} by each method"
    head = ["Parameter", "Method", *_COLUMNS[:-1], "90% width / NUTS"]
    left = len(names) - len(shown)
    note = Markup("The table leaves out {} more parameters.").format(left) if left else Markup("")
    return Table(caption, head, rows, text_columns=[1]), note


def _figures(found: Comparison) -> list[tuple[Figure, str]]:
    made = [
        (
            figures.interval_forest(found),
            "Medians and 90% intervals of each method; pyflowers compare has the numbers.",
        ),
        (figures.method_marginals(found), "Marginal densities by each method."),
    ]
    if found.vb is not None:
        made.append((figures.elbo_trace(found), "The evidence lower bound rises in each sweep."))
    if len(found.model.parameters) == 2:
        caption = (
            "Coordinate ascent from far away. Solid contours are the posterior, dashed ones q; "
            "lambda is 1/sigma2."
        )
        made.append((figures.coordinate_ascent(found), caption))
    return made
