"""Section 2: every diagnostic of every fit, with its threshold, its source and what to do."""

from __future__ import annotations

from markupsafe import Markup

from pyflowers.fitting import Fit
from pyflowers.report.material import Material, Table
from pyflowers.report.numbers import check_number, listing


def headline(material: Material) -> Markup:
    """Say in a sentence whether the fits can be trusted."""
    total = sum(len(fit.diagnostics.checks) for fit in material.fits)
    if material.passed:
        return Markup("All {} diagnostics of {} pass.").format(total, _fits(material))
    failed = [fit for fit in material.fits if not fit.diagnostics.passed]
    num = sum(len(fit.diagnostics.failed) for fit in failed)
    verb = "fails" if num == 1 else "fail"
    names = listing([Markup("<code>{}</code>").format(fit.name) for fit in failed])
    return Markup(
        "{} of {} diagnostics {}. Do not use the results of {} before this is mended."
    ).format(num, total, verb, names)


def failures(material: Material) -> list[Markup]:
    """Return a sentence for each failed diagnostic: what it is and what to do."""
    return [
        Markup("<code>{}</code>: {} is {}{}, and must be {} {}. {}.").format(
            fit.name,
            check.name,
            check_number(fit, check),
            Markup(" ({})").format(check.where) if check.where else "",
            check.relation,
            f"{check.threshold:g}",
            check.advice[:1].upper() + check.advice[1:],
        )
        for fit in material.fits
        for check in fit.diagnostics.failed
    ]


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
                said = f"{check.relation} {check.threshold:g}"
                limit = said if limit in ("", said) else f"{limit} or {said}"
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


def _fits(material: Material) -> str:
    num = len(material.fits)
    return "one fit" if num == 1 else f"{num} fits"
