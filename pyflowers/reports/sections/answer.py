"""The answer: main effects or quantities of the best model, a figure, and the ranking."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from pyflowers.plots.conditional import MOST_CURVES, num_levels, value_name
from pyflowers.plots.groups import observed_unit
from pyflowers.plots.predictive import elpd_intervals
from pyflowers.programs import Capability
from pyflowers.reports.banner import is_bad
from pyflowers.reports.markup import (
    Text,
    bullets,
    capitalised,
    code,
    elpd,
    fill,
    folded,
    isolated,
    listed,
    number,
    paragraph,
    summary_number,
    unbroken,
)
from pyflowers.reports.material import Material
from pyflowers.reports.section import Block, Drawings, Picture, Section, table_of
from pyflowers.text import in_words

MOST_NAMED = 6
"""The largest number of elements of a quantity that the answer names; if there are more, it names
only the elements with the lowest and the highest median."""

MOST_QUANTITIES = 12
"""The largest number of quantities that the answer names."""

MOST_LINES = 3
"""The largest number of effects that the answer states in sentences."""

MOST_IN_QUESTION = 4
"""The largest number of columns that the question names."""

FIGURE = "answer"
"""The name of the figure of the answer."""

CERTAIN = 0.999
"""Probabilities of an effect's direction that exceed this value are shown as above this value."""


def content(material: Material) -> Iterator[Block]:
    """Yield the answer from the best model, a figure, and the ranking of the models."""
    if is_bad(material):
        yield paragraph(
            fill("<strong>The verdict is bad: do not rely on the results below.</strong>"),
            "fail-note",
        )
    fit = material.best
    if not fit.posterior:
        yield paragraph(fill("{} has no parameters to estimate.", material.named(fit.name)))
    elif material.effects is not None:
        yield from _effects(material, material.effects)
    else:
        yield from _quantities(material)
    yield Picture(FIGURE, _caption(material))
    if material.effects is not None:
        yield from _all_effects(material, material.effects)
    if material.no_effects:
        why = unbroken(material.in_words(material.no_effects))
        yield paragraph(fill("Average effects are not shown: {}.", why))
    yield from _ranking(material)


def question(material: Material) -> str:
    """Return the question: the user's, or one in terms of the columns of the data."""
    if material.question:
        return material.question
    data = material.data
    if not (data.has_table and data.observed):
        return "What does the posterior say, and can it be trusted?"
    which = "?"
    if not material.alone:
        which = ", and which model describes the data best?"
    columns = [data.name_of(column) for column in (data.group, data.time) if column]
    means = [fit for fit in material.fits if fit.program.can(Capability.GROUP_MEAN)]
    if means and data.group:
        counted = [observed_unit(fit) for fit in means if fit.program.counts]
        values = f"What values of {material.value_name}"
        if counted:
            values = f"How many {counted[0]}"
        return f"{values} can be expected for each {columns[0]}{which}"
    if material.covariates:
        num = len(material.covariates) + len(material.left_out)
        named = material.covariates
        if num > MOST_IN_QUESTION:
            more = num - MOST_IN_QUESTION + 1
            named = [*named[: MOST_IN_QUESTION - 1], f"{more} other columns"]
        what = "What are the effects" if num > 1 else "What is the effect"
        return f"{what} of {in_words(named)} on {material.value_name}{which}"
    by = ""
    if columns:
        by = f" by {in_words(columns)}"
    return f"What do the data say about {material.value_name}{by}{which}"


def _the_model(material: Material) -> Text:
    if material.alone:
        return "this model"
    return material.named(material.best.name)


# Average effects


def _effects(material: Material, found: Effects) -> Iterator[Block]:
    """Yield a sentence for each main effect, and one on the rows over which they are averaged."""
    shown = _main_effects(found)
    yield bullets((_effect_in_words(found, each) for each in shown), "effects")
    data, fit = material.data, material.best
    said = fill(
        "These effects, under {}, are averages over the {} observations{}{}.",
        _the_model(material),
        data.num_obs,
        _of_groups(found, fit),
        found.of_trials,
    )
    yield paragraph(said + _selected(found, len(shown)), "note")


def _selected(found: Effects, num: int) -> str:
    """Return how the effects in sentences were chosen; empty if all effects are in sentences."""
    total = int(np.sum(~found.is_of_data))
    if num == total:
        return ""
    which = "each column"
    if found.index.get_level_values("column").nunique() > MOST_LINES:
        which = f"each of the first {MOST_LINES} columns"
    return (
        f" {num} of {total} effects are stated, among them the largest of {which}; the table below "
        "has them all."
    )


def _all_effects(material: Material, found: Effects) -> Iterator[Block]:
    """Yield a collapsed table of all average effects."""
    notes = list[Block]()
    if found.step > 1:
        notes.append(paragraph(f"These numbers are computed from 1 in {found.step} draws."))
    if material.left_out:
        left = listed(map(isolated, material.left_out))
        said = "The effects of {} are not shown here; <code>pyflowers effects</code> shows them."
        notes.append(paragraph(fill(said, left)))
    table = found.table()
    extra = [name for name in table.columns if name.startswith(("mcse_", "ess"))]
    caption = upper_first(found.meaning)
    every = table_of(table.drop(columns=extra), caption)
    yield from folded(f"All average effects ({len(table)})", every, *notes)


def _of_groups(found: Effects, fit: Fit) -> Text:
    """Return how the averages include the effects of groups, as part of a sentence."""
    if found.groups in ("both", "population"):
        return fill(", {}", isolated(found.whose["population"]))
    if not fit.model.rule.effects:
        return ""
    own = fill(", each with the effects of its {}", listed(map(isolated, fit.model.groups)))
    if found.drawn:
        return own + " (drawn from the population for labels that are not in the data)"
    return own


@dataclass(frozen=True)
class _Row:
    """The row of an effect in the table, and the row of this effect for the groups of the data."""

    own: int
    of_data: int | None


def _main_effects(found: Effects) -> list[_Row]:
    """Return the effects that the answer states: the largest of each column, in table order.

    If there is room for all other effects of a column, they are added. If an effect varies between
    groups, the effect in the population is stated with the effect for the groups of the data.
    """
    columns, changes = (found.index.get_level_values(name) for name in ("column", "change"))
    outcomes = [""] * len(columns)
    if found.outcomes:
        outcomes = list(found.index.get_level_values("outcome"))
    pairs = list(zip(columns, changes, outcomes, strict=True))
    sizes = np.abs(found.table()["median"])
    for_data = {pairs[row]: row for row in np.flatnonzero(found.is_of_data).tolist()}
    every = {
        column: np.flatnonzero((columns == column) & ~found.is_of_data)
        for column in dict.fromkeys(columns)
    }
    shown = [int(rows[np.argmax(sizes.to_numpy()[rows])]) for rows in every.values()][:MOST_LINES]
    for rows in every.values():
        others = [row for row in rows.tolist() if row not in shown]
        if len(shown) + len(others) <= MOST_LINES:
            shown += others
    return [_Row(row, for_data.get(pairs[row])) for row in sorted(shown)]


def _effect_in_words(found: Effects, row: _Row) -> Markup:
    """Return an effect as a sentence: the ratio first, if there is one."""
    value = isolated(found.fit.data.scored_name)
    if found.outcomes:
        outcome = found.index.get_level_values("outcome")[row.own]
        name = isolated(found.fit.data.category_name)  # an outcome is a label, not its number
        value = fill("probability of {} = {}", name, isolated(outcome))
        if found.fit.model.has_columns:
            value = fill("probability of {}", isolated(outcome))
    more, fewer = found.directions
    quantiles = _quantiles(found, row.own)
    difference, ends = _directed(quantiles, more, fewer)
    main, also = difference, Markup()
    if found.ratios is not None:
        median, of_ratio = found.ratios_in_words()[row.own]
        middle = float(np.median(found.ratios.values[..., row.own]))
        main = number(middle, median)
        also = fill(", or {} ({})", difference, _labelled(found, ends))
        ends = Markup(of_ratio)
    probability = float(found.table()["P(> 0)"].iloc[row.own])
    said = fill(
        "<strong>{}</strong> {} {} ({}){}. {}.",
        main,
        value,
        isolated(found.words[row.own]),
        _labelled(found, ends),
        also,
        _direction(probability, more, fewer),
    )
    if row.of_data is None:
        return said
    difference, ends = _directed(_quantiles(found, row.of_data), more, fewer)
    alone = fill("{} ({})", difference, _labelled(found, ends))
    return said + fill(" {} alone: {}.", isolated(upper_first(found.whose["data"])), alone)


def _labelled(found: Effects, ends: Text) -> Markup:
    """Return the ends of an interval with its probability."""
    return fill("{} interval {}", percent(found.fit.interval), ends)


def _quantiles(found: Effects, row: int) -> list[float]:
    """Return the median and the interval of an effect."""
    values = found.table().iloc[row]
    return [float(values[name]) for name in interval_quantiles(found.fit.interval)]


def _directed(quantiles: Sequence[float], more: str, fewer: str) -> tuple[Markup, Markup]:
    """Return the median and the interval of a difference in words, such as ``2.7 fewer``."""

    def shown(value: float, word: str = "") -> Markup:
        return fill("{} {}", number(value, format_number(abs(value))), word)

    def side(value: float) -> str:
        return fewer if value < 0 else more

    middle, low, high = quantiles
    if low < 0 < high:
        return shown(middle, side(middle)), fill("{} to {}", shown(low, fewer), shown(high, more))
    near, far = sorted((low, high), key=abs)
    ends = fill("{}to {}", shown(near), shown(far, side(far)))
    return shown(middle, side(middle)), ends


def _direction(probability: float, more: str, fewer: str) -> Markup:
    """Return the likelier direction of an effect, given the probability that it is above 0."""
    likelier, other, above = more, fewer, ""
    if probability < 0.5:
        likelier, other, probability = fewer, more, 1 - probability
    if probability > CERTAIN:
        above, probability = "above ", CERTAIN
    said = "The probability of {}, not {}, is {}{}"
    return fill(said, likelier, other, above, number(probability))


# Quantities


def _quantities(material: Material) -> Iterator[Block]:
    """Yield the means of groups or, if the best model has none, the medians of its quantities."""
    fit, left = material.best, dict(material.best.posterior.data_vars)
    if fit.program.can(Capability.GROUP_MEAN) and fit.data.by_group is not None:
        mean = fit.program.declaration.roles.group_mean
        yield from _group_means(material, element_names(left[mean]))
        return
    yield paragraph(fill("Under {}, these are the posterior medians:", _the_model(material)))
    sizes = {name: flat(quantity).shape[2] for name, quantity in left.items()}
    varying = sorted((n for n, q in left.items() if varies(q).any()), key=sizes.__getitem__)
    if varying:
        yield bullets(_quantity(material, str(n), left[n]) for n in varying[:MOST_QUANTITIES])
    if len(varying[:MOST_QUANTITIES]) < len(left) or max(sizes.values(), default=0) > MOST_NAMED:
        total = len(material.summaries[fit.name])
        yield paragraph(f"All {total} parameters are in the summary table.")


def _extremes(material: Material, rows: list[str]) -> list[str]:
    """Return all rows or, if there are many, those with the lowest and highest medians."""
    if len(rows) <= MOST_NAMED:
        return rows
    medians = material.summaries[material.best.name]["median"][rows].to_numpy(float)
    order = np.argsort(medians, kind="stable")
    return [rows[order[0]], rows[order[-1]]]


def _group_means(material: Material, rows: list[str]) -> Iterator[Block]:
    """Yield the means of groups: all of them, or the lowest and the highest."""
    fit, labels = material.best, material.best.data.by_group
    assert labels is not None
    names, unit = dict(zip(rows, labels.names, strict=True)), isolated(observed_unit(fit))

    def value(row: str) -> Markup:
        label = isolated(names[row])
        if not labels.are_titles:
            label = fill("{} {}", isolated(labels.column), label)
        median = fill("<strong>{}</strong>", _median(material, row, ""))
        return fill("{} for {} {}", median, label, _interval(material, row))

    shown = _extremes(material, rows)
    which = Markup()
    if len(shown) < len(rows):
        column = isolated(labels.column)
        which = fill(" of the lowest and the highest of {} groups ({})", len(rows), column)
    said = fill("Under {}, the posterior medians of {}{} are:", _the_model(material), unit, which)
    yield paragraph(said)
    yield bullets(map(value, shown), "effects")


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
        yield paragraph(
            fill("The models are not ranked: {}.", unbroken(material.in_words(material.no_loo)))
        )
    if found is None or len(found.models) < 2:
        return
    others = found.models[1:]
    behind = -elpd_intervals(others, interval)[:, [1, 2, 0]]
    worse = (
        fill(
            "that of {} is lower by {} ({} interval {} to {})",
            material.named(model.name),
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
            capitalised(fill("{}", material.named(material.best.name))),
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


# The figure


def lead(material: Material) -> tuple[str, str | None]:
    """Return the covariate that the answer's figure shows, and the one with separate curves.

    A curve shows more than separate points, so the first numeric column is drawn if there is one.
    The separate curves are for a column that interacts with it or, if there is none, for the first
    column with few levels.
    """
    fit, columns = material.best, material.covariates
    if fit.model.has_categories:  # categories have curves
        return columns[0], None
    few = {column for column in columns if num_levels(fit, column)}
    numeric = [column for column in columns if column not in few]
    column = (numeric or columns)[0]
    others = [each for each in columns if each in few and each != column]
    by = [each for each in others if (num_levels(fit, each) or 0) <= MOST_CURVES]
    return column, separated(material, column) or next(iter(by), None)


def separated(material: Material, column: str) -> str | None:
    """Return the column for whose values a figure of effects has separate curves or rows.

    It interacts with the figure's column and has few values.
    """
    table = material.best.data.table
    if table is None or material.best.model.has_categories:
        return None
    others = material.best.model.interacting(column)
    few = (n for n in others if 1 < len(set(table.column(n).tolist())) <= MOST_CURVES)
    return next(few, None)


def caption_of(material: Material, column: str, by: str | None) -> Markup:
    """Return the caption of a figure of a column's effect."""
    others = material.best.model.interacting(column)
    value = isolated(upper_first(value_name(material.best)))
    caption = fill("{} over {}", value, isolated(column))
    if material.best.model.has_categories:
        caption = fill("Probability of each category over {}", isolated(column))
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


def _caption(material: Material) -> Text:
    if not material.covariates:
        return (
            "Each group's own average, and the posterior median towards which the model moves it."
        )
    return caption_of(material, *lead(material))


def figures(material: Material) -> Drawings:
    """Return the figure of the answer: an effect, or the means of groups."""
    fit = material.best
    if material.covariates:
        column, by = lead(material)
        return {FIGURE: partial(plots.conditional_effects, fit, column, by=by)}
    if fit.program.can(Capability.GROUP_MEAN) and fit.data.by_group is not None:
        return {FIGURE: partial(plots.shrinkage, fit)}
    return {}


def record(material: Material) -> Mapping[str, Any]:
    """Return the name of the best model and its average effects."""
    if material.effects is None:
        return {"model": material.best.name}
    return {"model": material.best.name, "effects": records_of(material.effects.table())}


ANSWER = Section("answer", lambda _: "The answer", content, figures, for_phones=True, record=record)
