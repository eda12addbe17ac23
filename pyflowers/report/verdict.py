"""The verdict: every diagnostic of every fit, its threshold and source, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from pyflowers.fits.fit import Fit
from pyflowers.report import calibration, predictive
from pyflowers.report.material import Material, Table
from pyflowers.report.numbers import check_number, listing, unbroken


@dataclass(frozen=True)
class Banner:
    """The banner at the top of the page.

    Attributes
    ----------
    kind : str
        ``pass``, ``warn`` or ``fail``.
    lead : Markup
        Whether the answer can be trusted.
    """

    kind: str
    lead: Markup


def banner(material: Material) -> Banner:
    """Judge the answer by the model that it is based on; failures of the others are a warning."""
    best = _code(material.best)
    is_wrong = material.best.diagnostics.passed and not material.is_calibrated(material.best)
    if is_wrong or (material.passed and material.uncalibrated):
        return _not_calibrated(material)
    if material.passed and material.failed_checks:
        return Banner("warn", _does_not_fit(material))
    if material.passed and not material.refused:
        return Banner("pass", Markup("{} can be trusted.").format(_these(material)))
    if material.passed:
        num = len(material.refused)
        unfitted = "one model was" if num == 1 else f"{num} models were"
        return Banner(
            "warn", Markup("{} can be trusted; {} not fitted.").format(_these(material), unfitted)
        )
    if material.best.diagnostics.passed:
        lead = "The answer can be trusted: it rests on {}, whose diagnostics pass."
        return Banner("warn", Markup(lead).format(best))
    if len(material.fits) == 1:
        return Banner("fail", Markup("Do not trust the answer."))
    lead = "Do not trust the answer: it rests on {}, whose diagnostics fail."
    return Banner("fail", Markup(lead).format(best))


def _not_calibrated(material: Material) -> Banner:
    """Say that the diagnostics pass and that a calibration fails."""
    if not material.is_calibrated(material.best):
        lead = "Do not trust the answer: it rests on {}, whose computation is not calibrated."
        return Banner("fail", Markup(lead).format(_code(material.best)))
    names = list(dict.fromkeys(found.name for found in material.uncalibrated))
    lead = "The answer rests on {}; the computation of {} is not calibrated."
    wrong = listing([Markup("<code>{}</code>").format(name) for name in names])
    return Banner("warn", Markup(lead).format(_code(material.best), wrong))


def _does_not_fit(material: Material) -> Markup:
    """Say that the draws are sound and that a model does not describe the data."""
    failing = [found.fit for found in material.checks.values() if found.failed]
    verb = "does" if len(failing) == 1 else "do"
    return Markup(
        "The draws can be trusted, but {} {} not reproduce the data in every way."
    ).format(listing([_code(fit) for fit in failing]), verb)


def in_a_word(material: Material) -> str:
    """Say whether all fits can be trusted, some or none."""
    sound = [fit.diagnostics.passed and material.is_calibrated(fit) for fit in material.fits]
    if all(sound):
        return "Yes."
    return "Not all." if any(sound) else "No."


def headline(material: Material) -> Markup:
    """Say in a sentence or two which fits can be trusted."""
    total = sum(len(fit.diagnostics.checks) for fit in material.fits)
    of = "" if len(material.fits) == 1 else f" of {len(material.fits)} fits"
    if material.passed:
        passed = Markup("All {} diagnostics{} pass.").format(total, of)
        return _joined(passed, *_notes(material), *_other_checks(material))
    failed = [fit for fit in material.fits if not fit.diagnostics.passed]
    num = sum(len(fit.diagnostics.failed) for fit in failed)
    verb, what = ("fails", "this is") if num == 1 else ("fail", "these are")
    failing = Markup(
        "{} of {} diagnostics {}. Do not use the results of {} until {} fixed."
    ).format(num, total, verb, listing([_code(fit) for fit in failed]), what)
    return _joined(failing, *_other_checks(material))


def _other_checks(material: Material) -> list[Markup]:
    """Return how the predictive checks and the calibrations went."""
    return [predictive.headline(material), calibration.headline(material)]


def _joined(*sentences: Markup) -> Markup:
    return Markup(" ").join(sentence for sentence in sentences if sentence)


def _notes(material: Material) -> list[Markup]:
    """Return what was not judged, and why: a sentence for all fits with one reason."""
    notes: dict[str, list[Markup]] = {}
    for fit in material.fits:
        if fit.diagnostics.note:
            notes.setdefault(fit.diagnostics.note, []).append(_code(fit))
    return [Markup("For {}, {}.").format(listing(names), note) for note, names in notes.items()]


def failures(material: Material) -> list[Markup]:
    """Return a sentence for each failed diagnostic, predictive check and calibration."""
    diagnostics = [
        Markup("<code>{}</code>: {} {}{}, must be {} {}. {}.").format(
            fit.name,
            check.name,
            check_number(fit, check),
            Markup(" ({})").format(check.where) if check.where else "",
            check.relation,
            f"{check.threshold:g}",
            unbroken(check.advice[:1].upper() + check.advice[1:]),
        )
        for fit in material.fits
        for check in fit.diagnostics.failed
    ]
    return [*diagnostics, *calibration.failures(material), *predictive.failures(material)]


def table(material: Material) -> Table:
    """Return a row for each diagnostic and a column for each fit."""
    names = list(
        dict.fromkeys(check.name for fit in material.fits for check in fit.diagnostics.checks)
    )
    rows = [[name, *_row(material, name)] for name in names]
    head = ["Diagnostic", *(fit.name for fit in material.fits), "Must be", "Threshold from"]
    caption = "Diagnostics: the worst value of each fit, and where it is"
    return Table(caption, head, rows, text_columns=[len(head) - 1])


def _row(material: Material, name: str) -> list[Markup | str]:
    cells: list[Markup | str] = []
    limit, source = "", ""
    for fit in material.fits:
        cells.append(_cell(fit, name))
        for check in fit.diagnostics.checks:
            if check.name == name:
                # ESS is judged per chain, so that its threshold may differ between fits.
                required = f"{check.relation} {check.threshold:g}"
                limit = required if limit in ("", required) else f"{limit} or {required}"
                source = check.source
    return [*cells, limit, source]


def _cell(fit: Fit, name: str) -> Markup:
    for check in fit.diagnostics.checks:
        if check.name == name:
            kind, word = ("pass", "passed") if check.passed else ("fail", "FAILED")
            where = Markup("<small>{}</small>").format(check.where) if check.where else ""
            return Markup('{} <span class="{}">{}</span> {}').format(
                check_number(fit, check), kind, word, where
            )
    return Markup("–")


def _code(fit: Fit) -> Markup:
    return Markup("<code>{}</code>").format(fit.name)


def _these(material: Material) -> str:
    return "This fit" if len(material.fits) == 1 else "These fits"
