"""Whether each model would produce data like these: predictive checks, a sentence and a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup

from pyflowers import plots
from pyflowers.analysis.checks import LIMIT, LOO_PIT, PIT_LIMIT, Check, PredictiveChecks
from pyflowers.reports.embed import Drawing
from pyflowers.reports.material import Material, Table
from pyflowers.reports.numbers import isolated, listing, number, unbroken


@dataclass(frozen=True)
class PredictiveSection:
    """The part of the page on the predictive checks.

    Attributes
    ----------
    paragraphs : sequence of Markup
        What they found, how to read them, and what was left out.
    table : Table or None
        The p-value of each check and model.
    drawing : Drawing or None
        The checks of the model that predicts best.
    """

    paragraphs: Sequence[Markup]
    table: Table | None
    drawing: Drawing | None


def predictive_section(material: Material) -> PredictiveSection:
    """Return the section of a report."""
    if not material.checks:
        return PredictiveSection(_left_out(material), None, None)
    shown = material.checks.get(material.best.name) or next(iter(material.checks.values()))
    how = Markup(
        "Each p is the share of replicated data sets in which the statistic is larger than in the "
        "observed data, counting half of the ties; below {} or above {} the model does not "
        "reproduce it. For <code>{}</code> it is the probability that uniform values stray as far, "
        "and the model does not reproduce them below {}."
    ).format(f"{LIMIT:g}", f"{1 - LIMIT:g}", LOO_PIT, f"{PIT_LIMIT:g}")
    caption = (
        f"Predictive checks of {shown.fit.name}. Bars are replicated data sets, lines the observed "
        "data"
    )
    if shown.pit is not None:
        caption += (
            "; the last panel is the distribution of the PITs minus that of uniform values, in the "
            "band that holds 99% of such curves"
        )
    drawing = (partial(plots.predictive_checks, shown), f"{caption}.")
    found = Markup("{} {}").format(headline(material), Markup(" ").join(failures(material)))
    notes = _notes(material)
    return PredictiveSection(
        [Markup(found.strip()), how, *notes, *_left_out(material)], _table(material), drawing
    )


def headline(material: Material) -> Markup:
    """Say in a sentence how many predictive checks fail."""
    total = sum(len(found.checks) for found in material.checks.values())
    if not total:
        return Markup("")
    failed = material.failed_checks
    if not failed:
        return Markup("All {} predictive checks pass.").format(total)
    verb = "fails" if len(failed) == 1 else "fail"
    return Markup("{} of {} predictive checks {}.").format(len(failed), total, verb)


def failures(material: Material) -> list[Markup]:
    """Return a sentence for each model that does not reproduce the data, and in what respect."""
    return [
        Markup("{} does not reproduce the data: {}.").format(
            _code(found),
            listing([finding(check) for check in found.failed]),
        )
        for found in material.checks.values()
        if found.failed
    ]


def finding(check: Check) -> Markup:
    """Return what a failed check found, with its p-value."""
    relation, shown = check.p_text.rsplit(" ", 1)
    return Markup("{} (<code>{}</code>, {} {})").format(
        isolated(check.finding), check.name, relation, number(check.p_value, shown)
    )


def _table(material: Material) -> Table:
    columns = list(material.checks.values())
    names = list(dict.fromkeys(check.name for found in columns for check in found.checks))
    rows: list[list[Markup | str]] = []
    for name in names:
        each = [next((c for c in found.checks if c.name == name), None) for found in columns]
        meaning = next(check.meaning for check in each if check is not None)
        head = Markup("<code>{}</code>").format(name)
        rows.append([head, *(_cell(check) for check in each), isolated(meaning)])
    head_row = ["Check", *(found.fit.name for found in columns), "Statistic"]
    return Table("Predictive p-values", head_row, rows, text_columns=[len(head_row) - 1])


def _cell(check: Check | None) -> Markup:
    if check is None:
        return Markup("–")
    kind, word = ("pass", "passed") if check.passed else ("fail", "FAILED")
    shown = number(check.p_value, check.p_text.removeprefix("p ").removeprefix("= "))
    return Markup('{} <span class="{}">{}</span>').format(shown, kind, word)


def _notes(material: Material) -> list[Markup]:
    return [
        Markup("{}: {}.").format(_code(found), unbroken(note))
        for found in material.checks.values()
        for note in found.notes
    ]


def _left_out(material: Material) -> list[Markup]:
    """Say which models are not checked, and why."""
    return [
        Markup("<code>{}</code> is not checked: {}.").format(name, unbroken(reason))
        for name, reason in material.unchecked.items()
    ]


def _code(found: PredictiveChecks) -> Markup:
    return Markup("<code>{}</code>").format(found.fit.name)
