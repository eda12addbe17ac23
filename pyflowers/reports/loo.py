"""How well the models predict: PSIS-LOO as a table and a figure."""

from __future__ import annotations

from functools import partial

from markupsafe import Markup

from pyflowers import plots
from pyflowers.analysis.elpd import ModelLoo
from pyflowers.display import percent
from pyflowers.plots.comparison import half_width
from pyflowers.reports.embed import Drawing
from pyflowers.reports.material import Material, Table
from pyflowers.reports.numbers import elpd_number, interval, number


def loo_table(material: Material) -> Table | None:
    """Return the models' PSIS-LOO."""
    if material.loo is None:
        return None
    probability = material.best.interval
    alone = len(material.loo.models) == 1
    rows = [
        [
            Markup("<code>{}</code>").format(model.name),
            *map(elpd_number, (model.elpd, model.se, model.mcse, model.p_loo)),
            *([] if alone else _loo_difference(model, model is material.loo.best, probability)),
            *(number(model.worst_k), str(model.num_bad)),
        ]
        for model in material.loo.models
    ]
    compared = (
        [] if alone else ["Difference", "SE of difference", f"{percent(probability)} interval"]
    )
    head = ["Model", "elpd", "SE", "MCSE", "p_loo", *compared, "Largest k-hat", "k-hats too large"]
    return Table("PSIS-LOO" if alone else "PSIS-LOO, best model first", head, rows)


def _loo_difference(model: ModelLoo, is_best: bool, probability: float) -> list[Markup]:
    half = half_width(probability) * model.difference_se
    low, high = model.difference - half, model.difference + half
    between = Markup("–") if is_best else interval(elpd_number(low), elpd_number(high))
    return [elpd_number(model.difference), elpd_number(model.difference_se), between]


def loo_drawings(material: Material) -> list[Drawing]:
    """Return the figure of the differences, where there are several models."""
    if material.loo is None or len(material.loo.models) == 1:
        return []
    probability = material.best.interval
    caption = f"Differences in elpd to the best model with {percent(probability)} intervals."
    return [(partial(plots.elpd_differences, material.loo, interval=probability), caption)]
