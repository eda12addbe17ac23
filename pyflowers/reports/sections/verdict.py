"""The verdict: whether the fits can be trusted, what failed, and all diagnostics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from markupsafe import Markup

from pyflowers.fits.verdict import Part
from pyflowers.reports.banner import failures, is_bad
from pyflowers.reports.markup import (
    NOTHING,
    Text,
    check_number,
    code,
    fill,
    folded,
    join,
    names_of,
    paragraph,
    unbroken,
    verdict_cell,
)
from pyflowers.reports.material import Material
from pyflowers.reports.section import Block, Section, Table, side_by_side
from pyflowers.text import counted


def title(material: Material) -> str:
    """Return the heading."""
    if material.alone:
        return "Can this fit be trusted?"
    return "Can these fits be trusted?"


def content(material: Material) -> Iterator[Block]:
    """Yield the verdict, the failures with advice, and a table of the diagnostics."""
    yield paragraph(join([_in_a_word(material), *_headline(material)]))
    failed = failures(material, with_commands=True)
    if failed:
        yield fill("<h3>What failed, is imprecise or is limited, and what to do</h3>")
        yield failed
    for name, reason in material.refused.items():
        was = fill("<strong>{} was not fitted.</strong>", code(name))
        yield paragraph(fill("{} {}.", was, unbroken(reason)), "refused")
    yield diagnostics_table(material)
    of_priors = priors_table(material)
    if of_priors.rows:
        num = len(of_priors.rows)
        contradict = any(fit.verdict.prior.failed for fit in material.fits)
        summary = f"Where the posterior medians lie in their priors ({counted(num, 'check')})"
        yield from folded(summary, of_priors, is_open=contradict)


def _in_a_word(material: Material) -> str:
    trusted = [material.verdicts[fit.name].trusted for fit in material.fits]
    calibrated = [material.is_calibrated(fit) for fit in material.fits]
    good = [both == (True, True) for both in zip(trusted, calibrated, strict=True)]
    if all(good):
        return "Yes."
    if any(good):
        return "Not all."
    if is_bad(material):
        return "No."
    return "Not in every respect."


def banner(material: Material) -> Text:
    """Return the outcomes of diagnostics and prior checks, and where missing fits are explained."""
    return join([*_headline(material), _of_refused(material)])


def _headline(material: Material) -> list[Text]:
    return [_of_diagnostics(material), _of_priors(material)]


def _of_diagnostics(material: Material) -> Text:
    """Return how many diagnostics pass, in a sentence or two."""
    judged = [fit.diagnostics for fit in material.fits]
    total = sum(len(each.checks) for each in judged)
    failed = sum(len(each.failed) for each in judged)
    imprecise = sum(len(each.imprecise) for each in judged)
    if failed:
        fails, these = "fail", "these are"
        if failed == 1:
            fails, these = "fails", "this is"
        bad = material.names_of(fit.name for fit in material.fits if not fit.diagnostics.passed)
        return fill(
            "{} of {} diagnostics {}. Do not use the results of {} until {} fixed.",
            failed,
            total,
            fails,
            bad,
            these,
        )
    if imprecise:
        show = "show"
        if imprecise == 1:
            show = "shows"
        return (
            f"{imprecise} of {total} diagnostics {show} imprecision: the numbers are right within "
            "their Monte Carlo errors."
        )
    of_fits = ""
    if not material.alone:
        of_fits = f" of {len(material.fits)} fits"
    noted = sorted(
        (fit for fit in material.fits if fit.diagnostics.note), key=lambda fit: fit.diagnostics.note
    )
    notes = (
        fill("For {}, {}.", material.names_of(fit.name for fit in group), note)
        for note, group in groupby(noted, key=lambda fit: fit.diagnostics.note)
    )
    return join([f"All {total} diagnostics{of_fits} pass.", *notes])


def _of_priors(material: Material) -> Text:
    """Return whether priors contradict the data.

    The sensitivity to the prior, which is a part of the final verdict, is not included here.
    """
    contradicted = [fit.name for fit in material.fits if fit.verdict.prior.failed]
    if len(contradicted) > 1:
        return fill("The priors of {} contradict the data.", material.names_of(contradicted))
    if contradicted:
        return fill("A prior of {} contradicts the data.", material.names_of(contradicted))
    if any(fit.verdict.prior.checks for fit in material.fits):
        return "No declared prior contradicts the data."
    return ""


def _of_refused(material: Material) -> Text:
    """Return which part of the page gives the reasons why models were not fitted."""
    if not material.refused:
        return ""
    was = "were"
    if len(material.refused) == 1:
        was = "was"
    link = fill('<a href="#{}">The verdict</a>', VERDICT.id)
    return fill("{} explains why {} {} not fitted.", link, names_of(material.refused), was)


def diagnostics_table(material: Material) -> Table:
    """Return a row for each diagnostic of the sampling, and a column for each fit."""
    parts = [fit.verdict.computation for fit in material.fits]
    return _table_of(material, parts, "Diagnostics of the sampling (worst values)")


def priors_table(material: Material) -> Table:
    """Return a row for each check of a prior, and a column for each fit."""
    parts = [fit.verdict.prior for fit in material.fits]
    caption = "Posterior medians, and the limits beyond which they contradict their priors"
    return _table_of(material, parts, caption)


def _table_of(material: Material, parts: Sequence[Part], caption: str) -> Table:
    """Return a row for each check in ``diagnostics.json`` of a run, and a column for each fit."""
    columns = [{check.name: check for check in part.checks} for part in parts]
    rows = []
    for name, found in side_by_side(columns).items():
        cells = [NOTHING] * len(found)
        for i, (fit, check) in enumerate(zip(material.fits, found, strict=True)):
            if check is not None:
                where = Markup()
                if check.where:
                    where = fill("<small>{}</small>", check.where)
                cells[i] = join([verdict_cell(check_number(fit, check), check.status), where])
        # The threshold for ESS is proportional to the number of chains, so it may differ between
        # fits.
        limits = dict.fromkeys(f"{c.relation} {c.threshold:.4g}" for c in found if c)
        source = [check.source for check in found if check][-1]
        rows.append([name, *cells, " or ".join(limits), source])
    models = [material.labels[fit.name] for fit in material.fits]
    head = ["Check", *models, "Must be", "Threshold from"]
    if material.alone:
        head[1] = "Value"
    return Table(caption, head, rows, text_columns=[len(head) - 1])


def record(material: Material) -> Mapping[str, Any]:
    """Return the verdict on each fit."""
    return {name: verdict.to_dict() for name, verdict in material.verdicts.items()}


VERDICT = Section(
    "verdict", title, content, in_contents="The verdict", banner=banner, record=record
)
