"""NUTS against closed-form mean-field variational Bayes (VB), and the other methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from markupsafe import Markup

from pyflowers.analysis.methods import METHOD_NAMES, Comparison
from pyflowers.display import interval_quantiles, percent
from pyflowers.engines.approximate import K_HAT_USABLE
from pyflowers.fits.fit import Fit
from pyflowers.plots import methods as figures
from pyflowers.programs import Capability
from pyflowers.reports.embed import Drawing
from pyflowers.reports.material import Material, Table
from pyflowers.reports.numbers import listing, number, unbroken

MOST_WIDTH = 2.0
"""Width of a 90% interval relative to the reference's up to which nothing is said of it."""


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
        [p for p in (_widths(found), _distance(found), *_disagreements(found), note) if p],
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


def _disagreements(found: Comparison) -> list[Markup]:
    """Say of each approximation that is far from the reference where it is farthest."""
    table, name = found.table(), METHOD_NAMES[found.reference]
    reference = table.xs(found.reference, level="method").loc[found.elements]
    _, low, high = interval_quantiles(found.nuts.interval)
    sentences = []
    for method, result in found.results.items():
        if method in ("exact", "vb", found.reference):
            continue
        own = table.xs(method, level="method").loc[found.elements]
        faults = []
        outside = (own["median"] < reference[low]) | (own["median"] > reference[high])
        if outside.any():
            away = (own["median"] - reference["median"]).abs() / reference["sd"].fillna(1)
            at = str(away.where(outside, 0.0).idxmax())
            medians = number(own["median"][at]), number(reference["median"][at])
            told = Markup("its median of <code>{}</code> is {} and that of {} is {}")
            faults.append(told.format(at, medians[0], name, medians[1]))
        ratio = own["width_ratio"].fillna(1.0)
        at = str(ratio.where(ratio > 1, 1 / ratio).idxmax())
        if not 1 / MOST_WIDTH <= ratio[at] <= MOST_WIDTH:
            told = Markup("its {} interval of <code>{}</code> is {} times as wide")
            faults.append(told.format(percent(found.nuts.interval), at, number(ratio[at])))
        if result.k_hat > K_HAT_USABLE:
            told = Markup("its Pareto k-hat is {}, above {}")
            faults.append(told.format(number(result.k_hat), f"{K_HAT_USABLE:g}"))
        if faults:
            told = Markup("{} does not agree with {}: {}. Do not use it here.")
            sentences.append(told.format(METHOD_NAMES[method], name, listing(faults)))
    return sentences


def _table(found: Comparison) -> tuple[Table, Markup]:
    whole: pd.DataFrame = found.table()
    shown = figures.shown_elements(found)
    rows: list[list[Markup | str]] = []
    columns = [*interval_quantiles(found.nuts.interval), "mean", "sd", "width_ratio"]
    for name in shown:
        for method, row in whole.loc[name].iterrows():
            cells = [number(float(row[column])) for column in columns]
            rows.append([Markup("<code>{}</code>").format(name), METHOD_NAMES[str(method)], *cells])
    caption = f"Posterior of {found.program.name} by each method"
    width = f"{percent(found.nuts.interval)} width / {METHOD_NAMES[found.reference]}"
    head = ["Parameter", "Method", *columns[:-1], width]
    total = len(found.elements)
    note = Markup("The table has {} of {} parameters.").format(len(shown), total)
    note = note if len(shown) < total else Markup("")
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
