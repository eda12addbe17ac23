"""Section 1: the question, and the answer in sentences computed from the results."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from pyflowers.data import FlowerData
from pyflowers.fitting import Fit
from pyflowers.loo import FEW_OBSERVATIONS, SMALL_DIFFERENCE, ModelLoo
from pyflowers.plots.comparison import Z_90
from pyflowers.report.material import Material
from pyflowers.report.numbers import interval, isolated, listing, number, summary_number

MOST_NAMED = 6
"""Plants up to which the answer names each; of more, the lowest and the highest."""


def question(data: FlowerData | None) -> Markup:
    """Return what the report answers."""
    if data is None:
        return Markup("What does the posterior of this program say, and can it be trusted?")
    value, group, time = map(isolated, (data.columns.value, data.columns.group, data.columns.time))
    return Markup(
        "How many {} per {} and {} are to be expected, and which model describes them best?"
    ).format(value, group, time)


def answer(material: Material) -> list[Markup]:
    """Return the answer, a paragraph each."""
    if material.data is None:
        return [_own_program(fit) for fit in material.fits]
    paragraphs = [_rates(material, material.best), *_population(material)]
    if material.loo is not None:
        paragraphs.append(_ranking(material))
        paragraphs.append(_caution(material))
    return [paragraph for paragraph in paragraphs if paragraph]


def _rates(material: Material, fit: Fit) -> Markup:
    """Say what each plant is expected to bear under the model that predicts best."""
    data = material.data
    assert data is not None  # section 1 asks _own_program otherwise
    per = Markup("{} per {}").format(isolated(data.columns.value), isolated(data.columns.time))
    group = isolated(data.columns.group)
    if "mu_plant" not in fit.posterior:
        mean = _mean_of(fit)
        return Markup(
            "Under {}, every {} is alike, and the posterior median is {} {} (90% interval {})."
        ).format(
            *(_code(fit), group, _median(material, fit, mean), per),
            _90(material, fit, mean),
        )
    rows = [f"mu_plant[{plant}]" for plant in data.plants]
    medians = material.summaries[fit.name].loc[rows, "median"].to_numpy()
    order = np.argsort(medians, kind="stable")
    named = range(len(rows)) if len(rows) <= MOST_NAMED else [order[0], order[-1]]
    said = [
        Markup("{} for {} {} (90% interval {})").format(
            _median(material, fit, rows[i]),
            *(group, isolated(data.plants[i]), _90(material, fit, rows[i])),
        )
        for i in named
    ]
    if len(rows) <= MOST_NAMED:
        return Markup("Under {}, the posterior medians of {} are {}.").format(
            _code(fit), per, listing(said)
        )
    return Markup(
        "Under {}, the posterior medians of {} of {} {} labels run from {} up to {}."
    ).format(_code(fit), per, len(rows), group, *said)


def _mean_of(fit: Fit) -> str:
    """Return the parameter that is the mean of all observations: a model's first."""
    return str(next(iter(fit.posterior.data_vars)))


def _population(material: Material) -> list[Markup]:
    """Say what the iid model makes of all plants together, where it is not the answer itself."""
    for fit in material.fits:
        if fit.name == "iid_normal" and fit is not material.best:
            return [
                Markup("Taken all together, as {} does, the mean is {} (90% interval {}).").format(
                    _code(fit), _median(material, fit, "mu"), _90(material, fit, "mu")
                )
            ]
    return []


def _ranking(material: Material) -> Markup:
    """Say which model predicts best and by how much."""
    loo = material.loo
    assert loo is not None  # answer() asks
    if len(loo.models) == 1:
        return Markup("Only {} was fitted, so there is nothing to compare it with.").format(
            _code(material.best)
        )
    behind = [
        Markup("that of <code>{}</code> is lower by {} (90% interval {})").format(
            model.name, number(-model.difference), _difference_interval(model)
        )
        for model in loo.models[1:]
    ]
    return Markup(
        "{} predicts new observations best: its expected log predictive density (elpd, by "
        "PSIS-LOO) is {}, and {}."
    ).format(_code(material.best), number(loo.best.elpd), listing(behind))


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
        return Markup(
            "<strong>Read this ranking with caution: {} observations cannot carry the conclusion"
            "</strong> (<a href='#comparison'>why</a>)."
        ).format(loo.num_obs)
    if abs(loo.models[1].difference) < SMALL_DIFFERENCE:
        return Markup(
            "A difference below {} is small: the two best models predict about equally well."
        ).format(f"{SMALL_DIFFERENCE:g}")
    return Markup("")


def _own_program(fit: Fit) -> Markup:
    """Say how much a program of the user's own has, as no more is known of it."""
    num = sum(int(np.prod(v.shape[2:])) for v in fit.posterior.data_vars.values())
    return Markup("{} has {} quantities, which its summary table lists.").format(_code(fit), num)


def _code(fit: Fit) -> Markup:
    return Markup("<code>{}</code>").format(fit.name)


def _median(material: Material, fit: Fit, row: str) -> Markup:
    return summary_number(fit, material.summaries[fit.name], row, "median")


def _90(material: Material, fit: Fit, row: str) -> Markup:
    table = material.summaries[fit.name]
    return interval(summary_number(fit, table, row, "5%"), summary_number(fit, table, row, "95%"))
