"""The question and the answer: effects and quantities of the best model, and the ranking."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any

import numpy as np
from markupsafe import Markup

from pyflowers import plots
from pyflowers.analysis.average_effects import Effects
from pyflowers.analysis.elpd import FEW_OBSERVATIONS, SMALL_DIFFERENCE
from pyflowers.display import format_number, interval_quantiles, percent, records_of, upper_first
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import element_names, flat, varies
from pyflowers.plots.conditional import MOST_CURVES
from pyflowers.plots.groups import observed_unit
from pyflowers.plots.predictive import elpd_intervals
from pyflowers.programs import Capability, Data
from pyflowers.reports.banner import is_bad
from pyflowers.reports.markup import (
    Text,
    bullets,
    code,
    elpd,
    fill,
    isolated,
    listed,
    number,
    paragraph,
    summary_number,
    unbroken,
)
from pyflowers.reports.material import Material
from pyflowers.reports.section import Block, Drawings, Picture, Section

MOST_NAMED = 6
"""The largest number of elements of a quantity that the answer names; if there are more, it names
only the elements with the lowest and the highest median."""

MOST_QUANTITIES = 12
"""The largest number of quantities that the answer names."""

CERTAIN = 0.999
"""Larger probabilities of the direction of an effect are not told apart."""


def content(material: Material) -> Iterator[Block]:
    """Yield the question, what the best model answers, and how the models rank."""
    yield paragraph(question(material), "question")
    if is_bad(material):
        yield paragraph(
            fill("<strong>The verdict is bad: do not rely on the results below.</strong>"),
            "fail-note",
        )
    fit = material.best
    if fit.posterior:
        yield from _effects(material)
        yield from _quantities(material)
    else:
        yield paragraph(fill("{} has no parameters to estimate.", code(fit.name)))
    yield from _ranking(material)


def question(material: Material) -> Markup:
    """Return the question, in terms of the columns of the data."""
    data = material.data
    if not (data.has_table and data.observed):
        return fill("What does the posterior say, and can it be trusted?")
    which = "?"
    if not material.alone:
        which = ", and which model describes them best?"
    columns = [isolated(data.name_of(column)) for column in (data.group, data.time) if column]
    means = [fit for fit in material.fits if fit.program.can(Capability.GROUP_MEAN)]
    if means and data.group:
        counted = [observed_unit(fit) for fit in means if fit.program.counts]
        values = fill("What values of {}", isolated(data.value_name))
        if counted:
            values = fill("How many {}", isolated(counted[0]))
        return fill("{} can be expected for each {}{}", values, columns[0], which)
    by = Markup()
    if columns:
        by = fill(" by {}", listed(columns))
    return fill("What do the data say about {}{}{}", isolated(data.value_name), by, which)


def _the_model(material: Material) -> Text:
    if material.alone:
        return "this model"
    return code(material.best.name)


# Average effects


def _effects(material: Material) -> Iterator[Block]:
    """Yield the average effects of the best model, with a figure for each column."""
    found = material.effects
    if found is not None:
        yield from _average_effects(material, found)
        for column in material.covariates:
            yield Picture(f"effect of {column}", _caption_of(material, column))
    if material.no_effects:
        why = unbroken(material.no_effects)
        yield paragraph(fill("Average effects are not shown: {}.", why))


def _average_effects(material: Material, found: Effects) -> Iterator[Block]:
    data, fit = material.data, material.best
    yield paragraph(
        fill(
            "Under {}, on average over the {} observations{}, the changes in {}{} are:",
            _the_model(material),
            data.num_obs,
            _of_groups(found, fit),
            _what_changes(found, data),
            found.of_trials,
        )
    )
    shown = _shown_effects(found)
    yield bullets((_effect_in_words(found, each) for each in shown), "effects")
    if found.step > 1:
        yield paragraph(f"These numbers are computed from 1 in {found.step} draws.")
    names = [name for name in found.index.names if name not in ("column", "change", "outcome")]
    num = len(found.index.droplevel(names).unique())
    if len(shown) < num:
        yield paragraph(
            fill(
                "For a factor with many levels, these are the smallest and the largest "
                "differences; <code>pyflowers effects</code> shows all {}.",
                num,
            )
        )
    if material.left_out:
        yield paragraph(
            fill(
                "The effects of {} are not shown here; <code>pyflowers effects</code> shows all.",
                listed(map(isolated, material.left_out)),
            )
        )


def _what_changes(found: Effects, data: Data) -> Markup:
    """Return what the effects are changes of."""
    if found.outcomes:
        return fill("the {}", isolated(found.response))
    return fill("expected {}", isolated(data.value_name))


def _of_groups(found: Effects, fit: Fit) -> Text:
    """Return how the effects of groups enter, as part of a sentence."""
    if found.groups in ("both", "population"):
        return fill(", {}", isolated(found.whose["population"]))
    if not fit.model.rule.effects:
        return ""
    if found.drawn:
        return (
            ", each with the effects of its group (drawn from the population where the group is "
            "not in the data)"
        )
    return ", each with the effects of its group"


@dataclass(frozen=True)
class _Row:
    """The place of an effect among all effects, and that of the same effect for the data."""

    own: int
    of_data: int | None


def _shown_effects(found: Effects) -> list[_Row]:
    """Return the effects that the answer names; of a factor with many levels, the extreme ones.

    An effect that varies between groups is that in the population, together with that for the
    groups of the data.
    """
    columns, changes = (found.index.get_level_values(name) for name in ("column", "change"))
    medians, outcomes = found.table()["median"].to_numpy(), [""] * len(columns)
    if found.outcomes:
        outcomes = list(found.index.get_level_values("outcome"))
    pairs = list(zip(columns, changes, outcomes, strict=True))
    of_data = found.is_of_data
    for_data = {pairs[row]: row for row in np.flatnonzero(of_data).tolist()}
    shown = []
    for column in dict.fromkeys(columns):
        rows = np.flatnonzero((columns == column) & ~of_data)
        if len(rows) > MOST_NAMED:
            rows = np.sort(rows[np.argsort(medians[rows])][[0, -1]])
        shown += [_Row(row, for_data.get(pairs[row])) for row in rows.tolist()]
    return shown


def _effect_in_words(found: Effects, row: _Row) -> Markup:
    value, low, high = _quantiles(found, row.own)
    if found.outcomes:
        outcome = found.index.get_level_values("outcome")[row.own]
        value = fill("{}: {}", isolated(outcome), value)
    ratio, of_data = Markup(), Markup()
    if found.ratios is not None:
        median, ends = found.ratios_in_words()[row.own]
        middle = float(np.median(found.ratios.values[..., row.own]))
        ratio = fill(", {}", number(middle, f"{median} ({ends})"))
    if row.of_data is not None:
        of_data = fill(
            ". {} alone, it is {} ({} to {}).",
            isolated(upper_first(found.whose["data"])),
            *_quantiles(found, row.of_data),
        )
    return fill(
        "{} {} ({} interval {} to {}; {}){}{}",
        value,
        isolated(found.words[row.own]),
        percent(found.fit.interval),
        low,
        high,
        _direction(float(found.table()["P(> 0)"].iloc[row.own])),
        ratio,
        of_data,
    )


def _quantiles(found: Effects, row: int) -> list[Markup]:
    """Return the median and the interval of an effect."""
    values = found.table().iloc[row]
    numbers = (float(values[name]) for name in interval_quantiles(found.fit.interval))
    return [number(value, _with_minus(value)) for value in numbers]


def _with_minus(value: float) -> str:
    """Return a number with the sign that is used in print."""
    text = format_number(value)
    if text.startswith("-"):
        return f"\N{MINUS SIGN}{text.removeprefix('-')}"
    return text


def _direction(probability: float) -> Markup:
    """Return the likelier direction of an effect with its probability, given that of above 0."""
    side, likelier = ">", probability
    if probability < 0.5:
        side, likelier = "<", 1 - probability
    if likelier > CERTAIN:
        return fill("P({} 0) > {}", side, number(CERTAIN))
    return fill("P({} 0) = {}", side, number(likelier))


def _separated(material: Material, column: str) -> str | None:
    """Return the column for whose values a figure of effects has separate curves or rows.

    It interacts with the figure's column and has few values.
    """
    table = material.best.data.table
    if table is None or material.best.model.is_categorical:  # categories have curves
        return None
    others = material.best.model.interacting(column)
    few = (n for n in others if 1 < len(set(table.column(n).tolist())) <= MOST_CURVES)
    return next(few, None)


def _caption_of(material: Material, column: str) -> Markup:
    by, others = _separated(material, column), material.best.model.interacting(column)
    value = isolated(material.data.value_name)
    caption = fill("The expected {} as a function of {}", value, isolated(column))
    if material.best.model.is_categorical:
        caption = fill("The probability of each category as a function of {}", isolated(column))
    if by is not None:
        caption += fill(", for each value of {}", isolated(by))
    if not others:
        return caption + "."
    caption += fill(
        ". The effect of {} depends on {}", isolated(column), listed(map(isolated, others))
    )
    if others != [by]:
        caption += "; the figure fixes columns at the values stated below it"
    return caption + "."


# Quantities


def _quantities(material: Material) -> Iterator[Block]:
    """Yield the medians of the best model's quantities, those with a value per group first."""
    fit, left = material.best, dict(material.best.posterior.data_vars)
    has_groups = fit.program.can(Capability.GROUP_MEAN) and fit.data.by_group is not None
    if has_groups:
        rows = element_names(left.pop(fit.program.declaration.roles.group_mean))
        yield paragraph(_group_means(material, rows))
        if left:
            yield paragraph("The posterior medians of the model's other quantities are:")
    elif material.effects is not None:
        yield paragraph("The posterior medians of the model's quantities are:")
    else:
        under = fill("Under {}, these are the posterior medians:", _the_model(material))
        yield paragraph(under)
    sizes = {name: flat(quantity).shape[2] for name, quantity in left.items()}
    varying = sorted((n for n, q in left.items() if varies(q).any()), key=sizes.__getitem__)
    if varying:
        yield bullets(_quantity(material, str(n), left[n]) for n in varying[:MOST_QUANTITIES])
    if len(varying[:MOST_QUANTITIES]) < len(left) or max(sizes.values(), default=0) > MOST_NAMED:
        total = len(material.summaries[fit.name])
        yield paragraph(f"The summary table has all {total} numbers.")


def _extremes(material: Material, rows: list[str]) -> list[str]:
    """Return all rows or, if there are many, those with the lowest and highest medians."""
    if len(rows) <= MOST_NAMED:
        return rows
    medians = material.summaries[material.best.name]["median"][rows].to_numpy(float)
    order = np.argsort(medians, kind="stable")
    return [rows[order[0]], rows[order[-1]]]


def _group_means(material: Material, rows: list[str]) -> Markup:
    """Return a sentence with the means of groups."""
    fit, labels = material.best, material.best.data.by_group
    assert labels is not None
    names, unit = dict(zip(rows, labels.names, strict=True)), isolated(observed_unit(fit))

    def value(row: str) -> Markup:
        label = isolated(names[row])
        if not labels.are_titles:
            label = fill("{} {}", isolated(labels.column), label)
        return fill("{} for {} {}", _median(material, row, ""), label, _interval(material, row))

    shown = _extremes(material, rows)
    if len(shown) == len(rows):
        return fill(
            "Under {}, the posterior medians of {} are {}.",
            _the_model(material),
            unit,
            listed(map(value, rows)),
        )
    return fill(
        "Under {}, the posterior medians of {} of the {} groups ({}) run from {} up to {}.",
        _the_model(material),
        unit,
        len(rows),
        isolated(labels.column),
        *map(value, shown),
    )


def _quantity(material: Material, name: str, quantity: Any) -> Markup:
    """Return the medians of a quantity's elements, after its name and meaning."""
    fit, about = material.best, code(name)
    declared, unit = (
        fit.program.declaration.parameters.get(name),
        fit.program.unit_of(name, fit.data),
    )
    if declared is not None and declared.description:
        about = fill("{}, {}", about, _lower_first(declared.description))
    rows = list(compress(element_names(quantity), varies(quantity)))

    def value(row: str) -> Markup:
        shown = fill("{} {}", _median(material, row, unit), _interval(material, row))
        if quantity.ndim == 2:
            return shown
        return fill("{} for {}", shown, code(row))

    named = _extremes(material, rows)
    if len(named) == len(rows):
        return fill("{}: {}", about, listed(map(value, rows)))
    return fill("{}: {} numbers, from {} up to {}", about, len(rows), *map(value, named))


def _median(material: Material, row: str, unit: str) -> Markup:
    fit = material.best
    shown = summary_number(fit, material.summaries[fit.name], row, "median")
    if not unit:
        return shown
    if unit[0].isdigit():
        return fill("{} × {}", shown, isolated(unit))
    return fill("{} {}", shown, isolated(unit))


def _interval(material: Material, row: str) -> Markup:
    fit = material.best
    _, *ends = interval_quantiles(fit.interval)
    low, high = (summary_number(fit, material.summaries[fit.name], row, end) for end in ends)
    return fill("({} interval {} to {})", percent(fit.interval), low, high)


def _lower_first(text: str) -> str:
    """Return a description for use within a sentence; names in capitals are unchanged."""
    if text[1:2].islower():
        return text[:1].lower() + text[1:]
    return text


# Ranking


def _ranking(material: Material) -> Iterator[Block]:
    """Yield how much worse the other models predict new observations."""
    found, interval = material.loo, material.best.interval
    if found is None and not material.alone:
        yield paragraph(fill("The models are not ranked: {}.", unbroken(material.no_loo)))
    if found is None or len(found.models) < 2:
        return
    others = found.models[1:]
    behind = -elpd_intervals(others, interval)[:, [1, 2, 0]]
    worse = (
        fill(
            "that of {} is lower by {} ({} interval {} to {})",
            code(model.name),
            elpd(difference),
            percent(interval),
            elpd(low),
            elpd(high),
        )
        for model, (difference, low, high) in zip(others, behind, strict=True)
    )
    yield paragraph(
        fill(
            "{} predicts new observations best: its expected log predictive density (elpd, by "
            "PSIS-LOO) is {}, and {}.",
            code(material.best.name),
            elpd(found.best.elpd),
            listed(worse),
        )
    )
    if found.num_obs < FEW_OBSERVATIONS:
        yield paragraph(
            fill(
                "<strong>Read this ranking with caution: {} observations are too few for the "
                "conclusion.</strong>",
                found.num_obs,
            )
        )
    elif abs(behind[0, 0]) < SMALL_DIFFERENCE:
        yield paragraph(
            f"A difference below {SMALL_DIFFERENCE:g} is small: the two best models predict about "
            "equally well."
        )


def figures(material: Material) -> Drawings:
    """Return a figure of the effect of each covariate."""
    return {
        f"effect of {column}": partial(
            plots.conditional_effects, material.best, column, by=_separated(material, column)
        )
        for column in material.covariates
    }


def record(material: Material) -> Mapping[str, Any]:
    """Return the name of the best model and its average effects."""
    if material.effects is None:
        return {"model": material.best.name}
    return {"model": material.best.name, "effects": records_of(material.effects.table())}


ANSWER = Section("answer", lambda _: "The question and the answer", content, figures, record=record)
