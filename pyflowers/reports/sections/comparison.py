"""How well the models predict: PSIS-LOO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from markupsafe import Markup

from pyflowers import plots
from pyflowers.analysis.elpd import SMALL_DIFFERENCE, LooComparison
from pyflowers.display import percent, records_of
from pyflowers.plots.predictive import elpd_intervals
from pyflowers.programs import Capability
from pyflowers.reports.markup import (
    NOTHING,
    Text,
    bullets,
    capitalised,
    elpd,
    fill,
    folded,
    join,
    number,
    paragraph,
    unbroken,
)
from pyflowers.reports.material import Material
from pyflowers.reports.section import Block, Drawings, Picture, Section, Table, table_of


def title(material: Material) -> str:
    """Return the heading."""
    if material.alone:
        return "How well the model predicts"
    return "The models side by side"


def content(material: Material) -> Iterator[Block]:
    """Yield cautions, an explanation of the table, the table and a figure."""
    if material.loo is None:
        predicts = "the models predict"
        if material.alone:
            predicts = "the model predicts"
        why = unbroken(material.no_loo)
        yield paragraph(fill("There is no estimate of how well {}: {}.", predicts, why))
        return
    cautions = [fill("{}", material.in_words(caution)) for caution in material.loo.cautions]
    if cautions and material.alone:
        yield from folded("Notes on this estimate", bullets(map(capitalised, cautions)))
    else:
        for caution in cautions:
            yield paragraph(fill("<strong>Caution.</strong> {}", caution), "caution")
    yield paragraph(_explanation(material.loo))
    if len({fit.program.counts for fit in material.fits}) > 1:
        yield paragraph(
            "A model of continuous values gives densities, and a model of counts gives "
            "probabilities. For counts the two can be compared directly, by reading a density as "
            "the probability of an interval of width one."
        )
    yield loo_table(material, material.loo)
    if material.explained is not None:
        yield paragraph(
            "R2 is the share of the variance of the response that a model explains: with the "
            "groups of the rows (conditional), or without what varies between groups (marginal). "
            "LOO R2 is computed from predictions of left-out rows. An ICC is the share of the "
            "variance that is between groups (Gelman et al. 2019; Nakagawa et al. 2017)."
        )
        explained = material.explained.table().rename(material.labels)
        if material.alone:
            explained = explained.droplevel(0)
        yield table_of(explained, "How much is explained")
        yield Picture(
            "explained",
            f"The same as a figure: medians with 50% and {percent(material.best.interval)} "
            "intervals.",
        )
        for note in material.explained.notes:
            yield paragraph(f"Note: {material.in_words(note)}.")
    interval = percent(material.best.interval)
    yield Picture("loo", f"Differences in elpd from the best model, with {interval} intervals.")
    for fit in material.fits:
        if not fit.program.can(Capability.LOG_LIK):
            lacks: Text = Markup("its program has no <code>log_lik</code>")
            reason = fit.program.withheld.get(Capability.LOG_LIK, lacks)
            why = fill("{} is left out, because {}.", material.named(fit.name), reason)
            yield paragraph(capitalised(why))


def _explanation(found: LooComparison) -> Text:
    differences = ""
    if len(found.models) > 1:
        differences = (
            "Differences are computed observation by observation, and so are their standard errors."
        )
    return join(
        [
            "The expected log pointwise predictive density (elpd) measures how well a model "
            "predicts an observation that it has not seen; higher is better.",
            differences,
            "SE is the standard error: how much elpd would change with other observations. MCSE is "
            "the Monte Carlo standard error: how much elpd would change with other draws; a dash "
            "means that a k-hat is too large. A k-hat above min(1 − 1/log₁₀ S, 0.7), with S draws, "
            "is too large: that observation has too much influence on the estimate.",
        ]
    )


def loo_table(material: Material, found: LooComparison) -> Table:
    """Return the PSIS-LOO results, a row for each model."""
    several = len(found.models) > 1
    rows: list[list[Text]] = []
    for model, (low, _, high) in zip(
        found.models, elpd_intervals(found.models, material.best.interval), strict=True
    ):
        numbers = (model.elpd, model.se, model.mcse, model.p_loo)
        row = [material.named(model.name), *map(elpd, numbers)]
        if several:
            between = NOTHING
            if rows:
                between = fill("{} to {}", elpd(low), elpd(high))
            row += [elpd(model.difference), elpd(model.difference_se), between]
        rows.append([*row, number(model.worst_k), str(model.num_bad)])
    caption, compared = "PSIS-LOO", list[str]()
    if several:
        caption = "PSIS-LOO, best model first"
        interval = percent(material.best.interval)
        compared = ["Difference", "SE of difference", f"{interval} interval"]
    head = ["Model", "elpd", "SE", "MCSE", "p_loo", *compared, "Largest k-hat", "k-hats too large"]
    return Table(caption, head, rows)


def banner(material: Material) -> Text:
    """Return which models are not clearly worse than the best one."""
    if material.loo is None:
        return ""
    unclear = [
        model.name
        for model in material.loo.models[1:]
        if -model.difference < max(SMALL_DIFFERENCE, model.difference_se)
    ]
    if not unclear:
        return ""
    best = material.named(material.best.name)
    return fill("PSIS-LOO does not clearly rank {} above {}.", best, material.names_of(unclear))


def figures(material: Material) -> Drawings:
    """Return the figure of the differences between models."""
    found = material.loo
    if found is None or len(found.models) < 2:
        return {}
    return {
        "loo": partial(
            plots.elpd_differences,
            found,
            interval=material.best.interval,
            labels=material.labels,
        )
    }


def late_figures(material: Material) -> Drawings:
    """Return the figure of how much is explained."""
    if material.loo is None or material.explained is None:
        return {}
    return {"explained": partial(plots.explained, material.explained, labels=material.labels)}


def record(material: Material) -> Mapping[str, Any]:
    """Return the table of PSIS-LOO results."""
    if material.loo is None:
        return {}
    found = {"models": records_of(material.loo.table())}
    if material.explained is not None:
        found["explained"] = records_of(material.explained.table())
    return found


COMPARISON = Section(
    "comparison",
    title,
    content,
    figures,
    late_figures,
    for_phones=True,
    banner=banner,
    record=record,
)
