"""The methods side by side for each model: the sampler, closed-form VB and approximations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pyflowers.analysis.methods import METHOD_NAMES, Comparison, reference_method
from pyflowers.display import interval_quantiles, percent, records_of, upper_first
from pyflowers.engines.approximate import K_HAT_USABLE
from pyflowers.fits.fit import Fit
from pyflowers.plots.methods import comparison_drawings, shown_elements
from pyflowers.programs import Capability
from pyflowers.reports.markup import (
    Text,
    capitalised,
    code,
    fill,
    listed,
    number,
    paragraph,
    unbroken,
)
from pyflowers.reports.material import Material
from pyflowers.reports.section import Block, Drawings, Picture, Section, Table
from pyflowers.text import in_words

MOST_WIDTH = 2.0
"""The page comments on a method if its interval is wider or narrower than the reference's by more
than this factor."""

_CAPTIONS = {
    "intervals": "Medians and {} intervals of each method; pyflowers compare shows the numbers.",
    "marginals": "Marginal densities by each method.",
    "elbo": "The evidence lower bound rises in each sweep.",
    "ascent_precision": "Coordinate ascent from a distant starting point. Solid contours are the "
    "posterior, dashed ones q; lambda is 1/sigma2.",
}
"""The figures that the page shows and their captions."""


def title(material: Material) -> str:
    """Return the heading."""
    others = "other methods"
    if any(map(_has_vb, material.fits)):
        others = "closed-form VB"
    return f"{upper_first(_drawn_by(material))} against {others}"


def content(material: Material) -> Iterator[Block]:
    """Yield what is compared and, for each model, how far the methods are from the reference."""
    if not material.comparisons:
        return
    yield from _introduction(material)
    for name, found in material.comparisons.items():
        yield fill("<h3>{}</h3>", capitalised(fill("{}", material.named(name))))
        if isinstance(found, str):
            why = unbroken(found.rstrip("."))
            yield paragraph(fill("The methods are not compared: {}.", why))
        else:
            yield from _compared(name, found)


def _has_vb(fit: Fit) -> bool:
    return fit.program.can(Capability.VB)


def _drawn_by(material: Material) -> str:
    """Return the names of the methods that sampled the fits."""
    names = dict.fromkeys(METHOD_NAMES[reference_method(fit)] for fit in material.fits)
    return in_words(list(names))


def _introduction(material: Material) -> Iterator[Block]:
    without = [fit.name for fit in material.fits if not _has_vb(fit)]
    if len(without) == len(material.fits):
        yield paragraph(
            "ADVI, Laplace and Pathfinder approximate the posterior by simpler distributions; "
            f"comparing them with {_drawn_by(material)} shows how accurate these approximations "
            "are."
        )
        return
    yield paragraph(
        "Closed-form mean-field VB approximates the posterior by a product of one distribution for "
        "each parameter, in a fraction of a second and without a sampler. Comparing it with "
        f"{_drawn_by(material)}, and with the exact posterior where there is one, shows how "
        "accurate this approximation is."
    )
    if without:
        have = "have"
        if len(without) == 1:
            have = "has"
        which = material.names_of(without)
        yield paragraph(fill("{} {} no closed-form mean-field VB.", which, have))


def _compared(name: str, found: Comparison) -> Iterator[Block]:
    """Yield where the methods differ from the reference, a table and figures."""
    whole, reference = found.table(), METHOD_NAMES[found.reference]
    interval, vb = percent(found.nuts.interval), found.results.get("vb")
    if found.vb is not None:
        ratio = whole["width_ratio"].xs("vb", level="method").dropna()
        low, high = str(ratio.idxmin()), str(ratio.idxmax())
        yield paragraph(
            fill(
                "The {} intervals of closed-form VB are {} ({}) to {} ({}) times as wide as those "
                "of {}: mean-field VB ignores how the parameters depend on each other.",
                interval,
                number(float(ratio[low])),
                low,
                number(float(ratio[high])),
                high,
                reference,
            )
        )
    if vb is not None and np.isfinite(vb.kl):
        yield paragraph(
            fill(
                "Its evidence lower bound is {}, which is {} nats below the log evidence; this "
                "difference is KL(q ‖ posterior).",
                number(vb.elbo),
                number(vb.kl),
            )
        )
    for fault in _faults(found, whole):
        yield paragraph(fault)
    shown = shown_elements(found)
    if len(shown) < len(found.elements):
        yield paragraph(f"The table shows {len(shown)} of {len(found.elements)} parameters.")
    yield _table(found, whole, shown)
    for figure, caption in _CAPTIONS.items():
        yield Picture(f"{name}/{figure}", caption.format(interval))


def _table(found: Comparison, whole: pd.DataFrame, shown: list[str]) -> Table:
    """Return the summary of each parameter by each method."""
    columns = [*interval_quantiles(found.nuts.interval), "mean", "sd", "width_ratio"]
    rows = [
        [code(name), METHOD_NAMES[str(method)], *(number(float(row[c])) for c in columns)]
        for name in shown
        for method, row in whole.loc[name].iterrows()
    ]
    width = f"{percent(found.nuts.interval)} width / {METHOD_NAMES[found.reference]}"
    head = ["Parameter", "Method", *columns[:-1], width]
    return Table(f"Posterior of {found.nuts.called} by each method", head, rows, [1])


@dataclass(frozen=True)
class _Words:
    """The words that all sentences on a comparison have in common."""

    reference: str
    interval: str


def _faults(found: Comparison, table: pd.DataFrame) -> Iterator[Text]:
    """Yield, for each approximation that is far from the reference, where it differs most."""
    words = _Words(METHOD_NAMES[found.reference], percent(found.nuts.interval))
    reference = table.xs(found.reference, level="method").loc[found.elements]
    _, *ends = interval_quantiles(found.nuts.interval)
    for method, result in found.results.items():
        if method in ("exact", "vb", found.reference):
            continue
        own = table.xs(method, level="method").loc[found.elements]
        faults = [*_of_median(own, reference, ends, words), *_of_width(own, words)]
        if result.k_hat > K_HAT_USABLE:
            k_hat = number(result.k_hat)
            faults.append(fill("its Pareto k-hat is {}, above {}", k_hat, f"{K_HAT_USABLE:g}"))
        if faults:
            yield fill(
                "{} does not agree with {}: {}. Do not use it here.",
                METHOD_NAMES[method],
                words.reference,
                listed(faults),
            )


def _of_median(own: Any, reference: Any, ends: list[str], words: _Words) -> Iterator[Text]:
    """Yield a phrase on the median that is farthest outside the reference's interval."""
    low, high = ends
    outside = (own["median"] < reference[low]) | (own["median"] > reference[high])
    if outside.any():
        away = (own["median"] - reference["median"]).abs() / reference["sd"].fillna(1)
        at = str(away.where(outside, 0.0).idxmax())
        yield fill(
            "its median of {} is {} and that of {} is {}",
            code(at),
            number(own["median"][at]),
            words.reference,
            number(reference["median"][at]),
        )


def _of_width(own: Any, words: _Words) -> Iterator[Text]:
    """Yield a phrase on the interval whose width differs most from the reference's."""
    ratio = own["width_ratio"].fillna(1.0)
    at = str(ratio.where(ratio > 1, 1 / ratio).idxmax())
    if not 1 / MOST_WIDTH <= ratio[at] <= MOST_WIDTH:
        width = number(ratio[at])
        yield fill("its {} interval of {} is {} times as wide", words.interval, code(at), width)


def late_figures(material: Material) -> Drawings:
    """Return the figures of each comparison; their names begin with the model's name and ``/``."""
    return {
        f"{name}/{figure}": draw
        for name, found in material.comparisons.items()
        if not isinstance(found, str)
        for figure, draw in comparison_drawings(found).items()
        if figure in _CAPTIONS
    }


def record(material: Material) -> Mapping[str, Any]:
    """Return the table of each comparison."""
    return {
        name: records_of(found.table())
        for name, found in material.comparisons.items()
        if not isinstance(found, str)
    }


METHODS = Section("methods", title, content, late_figures=late_figures, record=record)
