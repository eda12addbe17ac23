"""The first section: the question, and the answer in sentences computed from the results."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from markupsafe import Markup

from pyflowers.analysis.elpd import FEW_OBSERVATIONS, SMALL_DIFFERENCE, ModelLoo
from pyflowers.data import Labels
from pyflowers.display import interval_quantiles, percent
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import element_names, flat, varies
from pyflowers.plots.comparison import half_width
from pyflowers.programs import Capability
from pyflowers.reports.material import Material
from pyflowers.reports.numbers import elpd_number, interval, isolated, listing, summary_number

if TYPE_CHECKING:
    import xarray as xr

MOST_NAMED = 6
"""Elements of a quantity up to which the answer names each; of more, the lowest and the highest."""

MOST_QUANTITIES = 12
"""Quantities that the answer names."""


def question(material: Material) -> Markup:
    """Return what the report answers."""
    data = material.data
    which = ", and which model describes them best?" if len(material.fits) > 1 else "?"
    if not data.has_table or not data.observed:
        return Markup("What does the posterior say, and can it be trusted?")
    value = isolated(data.value_name)
    columns = [isolated(data.name_of(column)) for column in (data.group, data.time) if column]
    means = [fit for fit in material.fits if fit.program.can(Capability.GROUP_MEAN)]
    if not means or not data.group:
        by = Markup(" by {}").format(listing(columns)) if columns else Markup("")
        return Markup("What do the data say about {}{}{}").format(value, by, which)
    counts = [fit for fit in means if fit.program.counts]
    how = Markup("How many {} are to be expected of each {}{}")
    if not counts:
        how = Markup("What values of {} are to be expected of each {}{}")
    of = isolated(_mean_unit(counts[0])) if counts else value
    return how.format(of, columns[0], which)


def _mean_unit(fit: Fit) -> str:
    """Return the unit of a group's mean, such as flowers per month."""
    mean = fit.program.declaration.roles.group_mean
    return fit.program.unit_of(mean, fit.data) or fit.data.value_name


def answer(material: Material) -> list[Markup]:
    """Return the answer, a paragraph or a list each."""
    parts = _expected(material, material.best)
    if material.loo is not None:
        parts += [_ranking(material), _caution(material)]
    elif len(material.fits) > 1:
        why = Markup("The models are not ranked (<a href='#comparison'>why</a>).")
        parts.append(_paragraph(why))
    return [part for part in parts if part]


def _expected(material: Material, fit: Fit) -> list[Markup]:
    """State the expected values, and the quantities, of the model that predicts best."""
    if not fit.posterior:
        return [_paragraph(Markup("{} has no parameters to estimate.").format(_code(fit)))]
    begin = Markup("Under {}, these are the posterior medians:").format(_code(fit))
    parts, left = [_paragraph(begin)], dict(fit.posterior.data_vars)
    if fit.program.can(Capability.GROUP_MEAN) and fit.data.by_group is not None:
        left.pop(fit.program.declaration.roles.group_mean)
        parts = [_paragraph(_of_each_group(material, fit))]
        if left:
            parts.append(_paragraph(Markup("The posterior medians of its other quantities are:")))
    named = [q for q in sorted(left.values(), key=_size) if varies(q).any()][:MOST_QUANTITIES]
    items = Markup("").join(_quantity(material, fit, quantity) for quantity in named)
    num = Markup("The summary table has all {} numbers.").format(len(material.summaries[fit.name]))
    more = any(_size(quantity) > MOST_NAMED for quantity in left.values()) or len(named) < len(left)
    return [
        *parts,
        Markup("<ul>{}</ul>").format(items) if items else Markup(""),
        _paragraph(num) if more else Markup(""),
    ]


def _size(quantity: xr.DataArray) -> int:
    return int(flat(quantity).shape[2])


def _quantity(material: Material, fit: Fit, quantity: xr.DataArray) -> Markup:
    """Describe a quantity: its meaning, and the median and interval of its elements that vary."""
    name, table = str(quantity.name), material.summaries[fit.name]
    declared = fit.program.declaration.parameters.get(name)
    meaning = declared.description if declared is not None else ""
    head = Markup("<code>{}</code>{}").format(
        name, Markup(", {}").format(_lower(meaning)) if meaning else ""
    )
    times = _times(fit.program.unit_of(name, fit.data))
    rows = list(itertools.compress(element_names(quantity), varies(quantity)))
    values = [
        Markup("{}{} ({} interval {})").format(
            *(_median(material, fit, row), times),
            *(percent(fit.interval), _interval(material, fit, row)),
        )
        for row in _named(rows, table)
    ]
    if quantity.ndim == 2:
        return Markup("<li>{}: {}</li>").format(head, values[0])
    each = [
        Markup("{} for <code>{}</code>").format(value, row)
        for value, row in zip(values, _named(rows, table), strict=True)
    ]
    if len(rows) <= MOST_NAMED:
        return Markup("<li>{}: {}</li>").format(head, listing(each))
    return Markup("<li>{}: {} numbers, from {} up to {}</li>").format(head, len(rows), *each)


def _named(rows: list[str], table: pd.DataFrame) -> list[str]:
    """Return rows, or of many those with the lowest and the highest median."""
    if len(rows) <= MOST_NAMED:
        return rows
    order = np.argsort(table.loc[rows, "median"].to_numpy(float), kind="stable")
    return [rows[order[0]], rows[order[-1]]]


def _times(unit: str) -> Markup:
    """Return a unit as it follows a number; one that begins with a number is multiplied by."""
    if not unit:
        return Markup("")
    return Markup(" × {}" if unit[0].isdigit() else " {}").format(isolated(unit))


def _lower(text: str) -> str:
    """Return a description as it reads within a sentence; names in capitals stay."""
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _paragraph(text: Markup) -> Markup:
    return Markup("<p>{}</p>").format(text)


def _of_each_group(material: Material, fit: Fit) -> Markup:
    groups = fit.data.by_group
    assert groups is not None  # _expected asks
    rows = element_names(fit.posterior[fit.program.declaration.roles.group_mean])
    values = [
        Markup("{} for {} ({} interval {})").format(
            *(_median(material, fit, row), _group(groups, rows.index(row))),
            *(percent(fit.interval), _interval(material, fit, row)),
        )
        for row in _named(rows, material.summaries[fit.name])
    ]
    per = isolated(_mean_unit(fit))
    if len(rows) <= MOST_NAMED:
        return Markup("Under {}, the posterior medians of {} are {}.").format(
            _code(fit), per, listing(values)
        )
    return Markup(
        "Under {}, the posterior medians of {} of the {} groups ({}) run from {} up to {}."
    ).format(_code(fit), per, len(rows), isolated(groups.column), *values)


def _group(groups: Labels, position: int) -> Markup:
    """Return a group's label, after its column's name where the label does not say it."""
    name = isolated(groups.names[position])
    return name if groups.are_titles else Markup("{} {}").format(isolated(groups.column), name)


def _ranking(material: Material) -> Markup:
    """Say which model predicts best and by how much."""
    loo = material.loo
    assert loo is not None  # answer() asks
    if len(loo.models) == 1:
        return Markup("")
    behind = [
        Markup("that of <code>{}</code> is lower by {} ({} interval {})").format(
            *(model.name, elpd_number(-model.difference), percent(material.best.interval)),
            _difference_interval(model, material.best.interval),
        )
        for model in loo.models[1:]
    ]
    return _paragraph(
        Markup(
            "{} predicts new observations best: its expected log predictive density (elpd, by "
            "PSIS-LOO) is {}, and {}."
        ).format(_code(material.best), elpd_number(loo.best.elpd), listing(behind))
    )


def _difference_interval(model: ModelLoo, probability: float) -> Markup:
    half = half_width(probability) * model.difference_se
    low, high = -model.difference - half, -model.difference + half
    return interval(elpd_number(low), elpd_number(high))


def _caution(material: Material) -> Markup:
    """Qualify the ranking where data are few or differences small."""
    loo = material.loo
    assert loo is not None  # answer() asks
    if len(loo.models) == 1:
        return Markup("")
    if loo.num_obs < FEW_OBSERVATIONS:
        few = Markup(
            "<strong>Read this ranking with caution: {} observations are too few for the conclusion"
            "</strong> (<a href='#comparison'>why</a>)."
        )
        return _paragraph(few.format(loo.num_obs))
    if abs(loo.models[1].difference) < SMALL_DIFFERENCE:
        small = Markup(
            "A difference below {} is small: the two best models predict about equally well."
        )
        return _paragraph(small.format(f"{SMALL_DIFFERENCE:g}"))
    return Markup("")


def _code(fit: Fit) -> Markup:
    return Markup("<code>{}</code>").format(fit.name)


def _median(material: Material, fit: Fit, row: str) -> Markup:
    return summary_number(fit, material.summaries[fit.name], row, "median")


def _interval(material: Material, fit: Fit, row: str) -> Markup:
    table = material.summaries[fit.name]
    _, low, high = interval_quantiles(fit.interval)
    return interval(summary_number(fit, table, row, low), summary_number(fit, table, row, high))
