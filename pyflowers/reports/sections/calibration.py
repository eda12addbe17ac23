"""Calibrations of the programs with simulated data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pyflowers import plots
from pyflowers.display import records_of, upper_first
from pyflowers.reports.banner import uncalibrated_names
from pyflowers.reports.markup import Text, fill, join, names_of, paragraph, unbroken
from pyflowers.reports.material import Material
from pyflowers.reports.section import Block, Drawings, Picture, Section

if TYPE_CHECKING:
    from pyflowers.analysis.calibration import Calibration


def content(material: Material) -> Iterator[Block]:
    """Yield whether each program is calibrated, and a figure."""
    if not material.calibrations:
        return
    yield paragraph(
        "Parameters are drawn, data are simulated from them, and the program is fitted to each "
        "data set. If the computation is right, the true values have uniform ranks among the draws."
    )
    for found in material.calibrations:
        yield paragraph(_in_words(material, found))
    calibrated = {found.name for found in material.calibrations}
    others = [fit.name for fit in material.fits if fit.program.name not in calibrated]
    if others:
        yield paragraph(fill("No calibration of {} was given.", material.names_of(others)))
    for i, found in enumerate(material.calibrations):
        yield Picture(
            f"calibration {i}",
            fill(
                "Calibration of {}: for each quantity, the distribution function of the ranks of "
                "its true values, minus the distribution function of uniform ranks. The band "
                "contains {} of such curves for uniform ranks.",
                material.calibrated(found),
                _band(found),
            ),
        )


def _band(found: Calibration) -> str:
    return f"{100 * found.prob:.2f}%"


def _in_words(material: Material, found: Calibration) -> Text:
    """Return whether a program is calibrated, with notes."""
    isnt, given = "is", ""
    if found.failed:
        isnt = "is not"
    if found.is_posterior:
        given = " given the observed data"
    said = fill(
        "{} {} calibrated{}: over {} data sets, {} the {} band{}.",
        material.calibrated(found),
        isnt,
        given,
        found.num_fits,
        _where(found),
        _band(found),
        _which(found),
    )
    notes = (fill("{}.", unbroken(upper_first(note).rstrip("."))) for note in found.notes)
    changed: Text = ""
    priors = _changed_priors(material, found)
    if priors:
        changed = fill("Its priors differ from the fit's priors: {}.", names_of(priors))
    return join([said, *notes, changed])


def _where(found: Calibration) -> str:
    """Return how many quantities leave the band."""
    num, bad = len(found.quantities), len(found.failed)
    if bad == 1:
        return f"1 of {num} quantities leaves"
    if bad:
        return f"{bad} of {num} quantities leave"
    if num == 1:
        return "its quantity stays inside"
    return f"all {num} quantities stay inside"


def _which(found: Calibration) -> Text:
    if not found.failed:
        return ""
    return fill(": {}", uncalibrated_names(found))


def _changed_priors(material: Material, found: Calibration) -> list[str]:
    """Return a calibration's priors that differ from the fit's; they are often narrower."""
    own = next(fit.record.priors for fit in material.fits if fit.program.name == found.name)
    return [f"{name} = {value:g}" for name, value in found.priors.items() if own.get(name) != value]


def banner(material: Material) -> Text:
    """Return how many calibrations fail."""
    num, bad = len(material.calibrations), len(material.uncalibrated)
    if not num:
        return ""
    if num == 1:
        passes = "passes"
        if bad:
            passes = "fails"
        return f"The calibration {passes}."
    if not bad:
        return f"All {num} calibrations pass."
    fail = "fail"
    if bad == 1:
        fail = "fails"
    return f"{bad} of {num} calibrations {fail}."


def figures(material: Material) -> Drawings:
    """Return the figure of each calibration."""
    found = enumerate(material.calibrations)
    return {f"calibration {i}": partial(plots.calibration, each) for i, each in found}


def record(material: Material) -> Mapping[str, Any]:
    """Return the table of each calibration."""
    return {found.name: records_of(found.table()) for found in material.calibrations}


CALIBRATION = Section(
    "calibration",
    lambda _: "Is the computation right?",
    content,
    figures,
    banner=banner,
    record=record,
)
