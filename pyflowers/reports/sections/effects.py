"""The effects one by one: a figure for each covariate, and the groups of the data."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pyflowers import plots
from pyflowers.analysis.average_effects import Effects
from pyflowers.display import percent
from pyflowers.plots.conditional import groups_with_lines
from pyflowers.reports.markup import fill, isolated
from pyflowers.reports.material import Material
from pyflowers.reports.section import Block, Drawings, Picture, Section
from pyflowers.reports.sections.answer import caption_of, lead, separated


def content(material: Material) -> Iterator[Block]:
    """Yield a figure for each covariate that the answer does not show, and one for the groups."""
    if material.effects is not None:
        yield Picture("all effects", _of_all(material.effects))
    for column in _others(material):
        yield Picture(column, caption_of(material, column, separated(material, column)))
    if groups := _groups(material):
        yield Picture("groups", _of_groups(material, groups[0]))


def _others(material: Material) -> list[str]:
    """Return the covariates that are not on the x axis of the answer's figure."""
    if not material.covariates:
        return []
    return [column for column in material.covariates if column != lead(material)[0]]


def _of_all(found: Effects) -> str:
    """Return the caption of the figure of all average effects."""
    scale = "differences"
    if found.ratios is not None:
        scale = "ratios"
    return (
        f"Average effects as {scale}: density, median, and intervals of 50% and "
        f"{percent(found.fit.interval)}."
    )


def _groups(material: Material) -> list[str]:
    """Return the columns of groups whose labels have separate lines."""
    if not material.covariates:
        return []
    return groups_with_lines(material.best, lead(material)[0])


def _of_groups(material: Material, group: str) -> str:
    column = isolated(lead(material)[0])
    return fill("Observed values and fitted lines over {}, by {}.", column, isolated(group))


def figures(material: Material) -> Drawings:
    """Return the figures."""
    drawn = {
        column: partial(
            plots.conditional_effects, material.best, column, by=separated(material, column)
        )
        for column in _others(material)
    }
    if groups := _groups(material):
        column = lead(material)[0]
        drawn["groups"] = partial(plots.group_lines, material.best, column, group=groups[0])
    return drawn


def late_figures(material: Material) -> Drawings:
    """Return the figure of the average effects."""
    if material.effects is None:
        return {}
    return {"all effects": partial(plots.effects, material.effects)}


EFFECTS = Section(
    "effects", lambda _: "The effects one by one", content, figures, late_figures, for_phones=True
)
