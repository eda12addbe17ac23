"""The verdict: every diagnostic of every fit, its threshold and source, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from pyflowers.fits.fit import Fit
from pyflowers.fits.verdict import Check
from pyflowers.reports import calibration, predictive
from pyflowers.reports.material import Material, Table
from pyflowers.reports.numbers import check_number, listing, unbroken


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
    """Judge the answer by the model that it rests on; failures of the others are a warning."""
    best, verdict = _code(material.best), material.verdicts[material.best.name]
    flaw = _flaw(material)
    if flaw:
        lead = Markup("Do not trust the answer: it rests on {}, {}.")
        return Banner("fail", lead.format(best, flaw))
    doubts = [_DOUBTS[part.name] for part in (verdict.prior, verdict.data) if part.failed]
    if doubts:
        care = Markup("Read the answer with care: it rests on {}, {}.")
        return Banner("warn", care.format(best, " and ".join(doubts)))
    if not verdict.trusted:
        missing = [Markup(_QUESTIONS[part.name]) for part in verdict.parts if not part.checks]
        lead = Markup("The answer rests on {}, of which it was not examined {}.")
        return Banner("warn", lead.format(best, listing(missing)))
    others = [
        _code(fit)
        for fit in material.fits
        if not (material.verdicts[fit.name].passed and material.is_calibrated(fit))
    ]
    if others:
        lead = Markup("The answer can be trusted: it rests on {}. {} did not pass.")
        return Banner("warn", lead.format(best, listing(others)))
    if material.refused:
        num = len(material.refused)
        unfitted = "one model was" if num == 1 else f"{num} models were"
        lead = Markup("{} can be trusted; {} not fitted.")
        return Banner("warn", lead.format(_these(material), unfitted))
    return Banner("pass", Markup("{} can be trusted.").format(_these(material)))


_QUESTIONS = {
    "computation": "whether its sampling converged",
    "prior": "whether its prior suits the data",
    "data": "whether it reproduces the data",
}


_DOUBTS = {
    "prior": "whose posterior lies in the tail of its prior",
    "data": "which does not reproduce the data",
}


def _flaw(material: Material) -> str:
    """Say why the draws of the answer's model, or their posterior, are of no use; else nothing."""
    sensitivity = material.sensitivities[material.best.name]
    if material.best.diagnostics.failed:
        return "whose diagnostics fail"
    if not material.is_calibrated(material.best):
        return "whose computation is not calibrated"
    if not isinstance(sensitivity, str) and sensitivity.part.failed:
        return "whose posterior follows the weight of its prior"
    return ""


def in_a_word(material: Material) -> str:
    """Say whether all fits can be trusted, some or none."""
    trusted = [
        material.verdicts[fit.name].trusted and material.is_calibrated(fit) for fit in material.fits
    ]
    if all(trusted):
        return "Yes."
    if any(trusted):
        return "Not all."
    return "No." if banner(material).kind == "fail" else "Not in every respect."


def headline(material: Material) -> Markup:
    """Say in a sentence or two which fits can be trusted."""
    total = sum(len(fit.diagnostics.checks) for fit in material.fits)
    of = "" if len(material.fits) == 1 else f" of {len(material.fits)} fits"
    if all(fit.diagnostics.passed for fit in material.fits):
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
    """Return how the priors, the predictive checks and the calibrations went."""
    return [_of_priors(material), predictive.headline(material), calibration.headline(material)]


def _of_priors(material: Material) -> Markup:
    """Say whose posterior lies in the tail of its prior."""
    priors = {fit.name: material.verdicts[fit.name].prior for fit in material.fits}
    failed = [_code(fit) for fit in material.fits if priors[fit.name].failed]
    if failed:
        return Markup("The posterior of {} lies in the tail of its prior.").format(listing(failed))
    examined = any(prior.checks for prior in priors.values())
    return Markup("No posterior median lies in the tail of its declared prior." if examined else "")


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
    """Return what failed, and what to do about it: a sentence or two for each."""
    sentences = []
    for fit in material.fits:
        verdict, checks = material.verdicts[fit.name], material.checks.get(fit.name)
        found = [
            (_result(fit, c), c.advice)
            for c in (*verdict.computation.failed, *verdict.prior.failed)
        ]
        found += [(predictive.finding(c), c.advice) for c in (checks.failed if checks else ())]
        for advice in dict.fromkeys(advice for _, advice in found):
            results = Markup("; ").join(result for result, its in found if its == advice)
            remedy = unbroken(f" {advice[:1].upper()}{advice[1:]}.") if advice else ""
            sentences.append(Markup("{}: {}.{}").format(_code(fit), results, remedy))
    return [*sentences, *calibration.failures(material)]


def _result(fit: Fit, check: Check) -> Markup:
    """Return what a failed check found: what it means in words, or its numbers."""
    if check.finding:
        return Markup("{}").format(check.finding)
    where = Markup(" ({})").format(check.where) if check.where else ""
    return Markup("{} {}{}, must be {} {}").format(
        check.name, check_number(fit, check), where, check.relation, f"{check.threshold:.4g}"
    )


def table(material: Material) -> Table:
    """Return a row for each diagnostic and a column for each fit."""
    names = list(dict.fromkeys(check.name for fit in material.fits for check in _of_sampling(fit)))
    rows = [[name, *_row(material, name)] for name in names]
    head = ["Diagnostic", *(fit.name for fit in material.fits), "Must be", "Threshold from"]
    caption = "Diagnostics, and posterior medians in their priors: the worst of each fit"
    return Table(caption, head, rows, text_columns=[len(head) - 1])


def _of_sampling(fit: Fit) -> tuple[Check, ...]:
    """Return the checks that ``diagnostics.json`` of a run holds."""
    return (*fit.verdict.computation.checks, *fit.verdict.prior.checks)


def _row(material: Material, name: str) -> list[Markup | str]:
    cells: list[Markup | str] = []
    limit, source = "", ""
    for fit in material.fits:
        cells.append(_cell(fit, name))
        for check in _of_sampling(fit):
            if check.name == name:
                # ESS is judged per chain, so that its threshold may differ between fits.
                required = f"{check.relation} {check.threshold:.4g}"
                limit = required if limit in ("", required) else f"{limit} or {required}"
                source = check.source
    return [*cells, limit, source]


def _cell(fit: Fit, name: str) -> Markup:
    for check in _of_sampling(fit):
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
