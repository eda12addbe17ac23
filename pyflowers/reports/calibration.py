"""Whether the computation is right: what simulation-based calibration found, a sentence each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup

from pyflowers.analysis.sbc_result import PROB, Calibration
from pyflowers.plots import calibration as figure_of
from pyflowers.reports.embed import Drawing
from pyflowers.reports.material import Material
from pyflowers.reports.numbers import listing, unbroken

MOST_NAMED = 6
"""Quantities that a sentence names; the others are counted."""

_HOW = (
    "Parameters are drawn, data from them, and each data set is fitted. Where the computation is "
    "right, the true values have uniform ranks among the draws."
)
_NONE = Markup(
    "No calibration was given to this report; <code>pyflowers sbc</code> makes one, and "
    "<code>--calibration DIR</code> brings it here."
)


@dataclass(frozen=True)
class CalibrationSection:
    """What the page says of calibrations.

    Attributes
    ----------
    paragraphs : sequence of Markup
        What was found and what qualifies it.
    drawings : sequence of Drawing
        The ranks of each calibration.
    """

    paragraphs: Sequence[Markup]
    drawings: Sequence[Drawing]


def calibration_section(material: Material) -> CalibrationSection:
    """Return the section of a report."""
    if not material.calibrations:
        return CalibrationSection([_NONE], [])
    paragraphs = []
    for found in material.calibrations:
        sentences = [
            _sentence(found),
            *(_capital(note) for note in found.notes),
            *_priors(material, found),
        ]
        paragraphs.append(Markup(" ").join(sentences))
    missing = [
        Markup("<code>{}</code>").format(fit.name)
        for fit in material.fits
        if fit.name not in {found.name for found in material.calibrations}
    ]
    if missing:
        paragraphs.append(Markup("No calibration of {} was given.").format(listing(missing)))
    return CalibrationSection(
        [Markup(_HOW), *paragraphs],
        [(partial(figure_of, found), _caption(found)) for found in material.calibrations],
    )


def headline(material: Material) -> Markup:
    """Say in a sentence how many calibrations fail; nothing if there is none."""
    total, failed = len(material.calibrations), len(material.uncalibrated)
    if not total:
        return Markup("")
    if not failed:
        each = "The calibration passes." if total == 1 else f"All {total} calibrations pass."
        return Markup(each)
    if total == 1:
        return Markup("The calibration fails.")
    return Markup("{} of {} calibrations {}.").format(
        failed, total, "fails" if failed == 1 else "fail"
    )


def failures(material: Material) -> list[Markup]:
    """Return a sentence for each program whose ranks are not uniform: of what."""
    return [
        Markup("{}: the ranks of {} are not uniform over {} simulated data sets{}. {}").format(
            _code(found),
            _named(found),
            found.num_fits,
            _where(found),
            "Look for a mistake in the program, or sample with more warm-up or a larger "
            "adapt_delta.",
        )
        for found in material.uncalibrated
    ]


def _sentence(found: Calibration) -> Markup:
    where, num = _where(found), len(found.quantities)
    if not found.failed:
        each = "its quantity stays" if num == 1 else f"all {num} quantities stay"
        return Markup("{} is calibrated{}: over {} data sets {} inside the {} band.").format(
            _code(found), where, found.num_fits, each, f"{PROB:.2%}"
        )
    return Markup("{} is not calibrated{}: over {} data sets {} of {} quantities {}: {}.").format(
        _code(found),
        where,
        found.num_fits,
        len(found.failed),
        num,
        f"leave{'s' if len(found.failed) == 1 else ''} the {PROB:.2%} band",
        _named(found),
    )


def _where(found: Calibration) -> str:
    return " at the data that it was given" if found.is_posterior else ""


def _named(found: Calibration) -> Markup:
    names = [Markup("<code>{}</code>").format(name) for name in found.failed]
    if len(names) > MOST_NAMED:
        names = [*names[:MOST_NAMED], Markup("{} more").format(len(names) - MOST_NAMED)]
    return listing(names)


def _priors(material: Material, found: Calibration) -> list[Markup]:
    """Say which priors were not those of the fit, which calibrations often need narrower."""
    fit = next(fit for fit in material.fits if fit.name == found.name)
    other = [
        Markup("<code>{} = {:g}</code>").format(name, value)
        for name, value in found.priors.items()
        if fit.record.priors.get(name) != value
    ]
    if not other:
        return []
    return [Markup("Its priors differ from those of the fit: {}.").format(listing(other))]


def _caption(found: Calibration) -> str:
    return (
        f"Calibration of {found.name}: the distribution of the ranks of each quantity's true "
        f"values, minus that of uniform ranks, in the band that holds {PROB:.2%} of such curves."
    )


def _capital(note: str) -> Markup:
    return Markup("{}.").format(unbroken((note[:1].upper() + note[1:]).rstrip(".")))


def _code(found: Calibration) -> Markup:
    return Markup("<code>{}</code>").format(found.name)
