"""The first section: the question, and the answer in sentences computed from the results."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from pyflowers.compare.loo import FEW_OBSERVATIONS, SMALL_DIFFERENCE, ModelLoo
from pyflowers.fits.fit import Fit
from pyflowers.plots.comparison import Z_90
from pyflowers.programs import Capability, Data
from pyflowers.report.material import Material
from pyflowers.report.numbers import interval, isolated, listing, number, summary_number
from pyflowers.table import Labels

MOST_NAMED = 6
"""Groups up to which the answer names each; of more, the lowest and the highest."""

MOST_SCALARS = 12
"""Parameters of a single number that the answer names."""


def question(material: Material) -> Markup:
    """Return what the report answers."""
    data = material.data
    which = ", and which model describes them best?" if len(material.fits) > 1 else "?"
    if not data.has_table or not data.observed:
        return Markup("What does the posterior say, and can it be trusted?")
    value = isolated(data.value_name)
    columns = [isolated(data.name_of(column)) for column in (data.group, data.time) if column]
    if not any(fit.program.can(Capability.GROUP_MEAN) for fit in material.fits):
        by = Markup(" by {}").format(listing(columns)) if columns else Markup("")
        return Markup("What do the data say about {}{}{}").format(value, by, which)
    how = Markup("How many {} per {} are to be expected{}")
    if not _are_counts(data):
        how = Markup("What values of {} are to be expected per {}{}")
    return how.format(value, listing(columns), which)


def _are_counts(data: Data) -> bool:
    return bool(np.all(data.y >= 0) and np.all(data.y == np.floor(data.y)))


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
    """State the expected values under the model that predicts best."""
    if fit.program.can(Capability.GROUP_MEAN) and fit.data.by_group is not None:
        return [_paragraph(_of_each_group(material, fit))]
    if not fit.posterior:
        return [_paragraph(Markup("{} has no parameters to estimate.").format(_code(fit)))]
    scalars = [name for name, quantity in fit.posterior.items() if not quantity.dims]
    num = len(material.summaries[fit.name])
    named = scalars[:MOST_SCALARS]
    rest = Markup("Its summary table has all {} quantities.").format(num)
    if not named:
        return [_paragraph(Markup("{} has no scalar parameters. {}").format(_code(fit), rest))]
    begin = Markup("Under {}, these are the posterior medians:").format(_code(fit))
    items = Markup("").join(
        Markup("<li>{}</li>").format(_scalar(material, fit, name)) for name in named
    )
    return [
        _paragraph(begin),
        Markup("<ul>{}</ul>").format(items),
        _paragraph(rest) if num > len(named) else Markup(""),
    ]


def _scalar(material: Material, fit: Fit, name: str) -> Markup:
    """Describe one number: its median, unit, interval and meaning."""
    unit = fit.program.unit_of(name, fit.data)
    meaning = fit.program.meaning_of(name, fit.data)
    return Markup("<code>{}</code>{}: {}{} (90% interval {})").format(
        *(name, Markup(", {}").format(_lower(meaning)) if meaning else ""),
        *(_median(material, fit, name), _times(unit)),
        _90(material, fit, name),
    )


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
    mean = fit.posterior[fit.program.declaration.roles.group_mean]
    per = isolated(fit.program.unit_of(mean.name, fit.data) or fit.data.value_name)
    rows = list(mean.elements)
    medians = material.summaries[fit.name].loc[rows, "median"].to_numpy()
    order = np.argsort(medians, kind="stable")
    named = range(len(rows)) if len(rows) <= MOST_NAMED else [int(order[0]), int(order[-1])]
    values = [
        Markup("{} for {} (90% interval {})").format(
            _median(material, fit, rows[i]), _group(groups, i), _90(material, fit, rows[i])
        )
        for i in named
    ]
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
        Markup("that of <code>{}</code> is lower by {} (90% interval {})").format(
            model.name, number(-model.difference), _difference_interval(model)
        )
        for model in loo.models[1:]
    ]
    return _paragraph(
        Markup(
            "{} predicts new observations best: its expected log predictive density (elpd, by "
            "PSIS-LOO) is {}, and {}."
        ).format(_code(material.best), number(loo.best.elpd), listing(behind))
    )


def _difference_interval(model: ModelLoo) -> Markup:
    low, high = (-model.difference + sign * Z_90 * model.difference_se for sign in (-1, 1))
    return interval(number(low), number(high))


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


def _90(material: Material, fit: Fit, row: str) -> Markup:
    table = material.summaries[fit.name]
    return interval(summary_number(fit, table, row, "5%"), summary_number(fit, table, row, "95%"))
