"""Predictive checks: whether the models would produce data like these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from pyflowers import plots
from pyflowers.analysis.checks import LIMIT, LOO_PIT, PIT_LIMIT, PredictiveChecks
from pyflowers.analysis.patterns import LIMIT as PATTERN_LIMIT
from pyflowers.display import percent, records_of
from pyflowers.fits.fit import Fit
from pyflowers.plots.results import drawings_of
from pyflowers.programs import Capability
from pyflowers.reports.banner import finding
from pyflowers.reports.markup import (
    NOTHING,
    Text,
    bullets,
    capitalised,
    code,
    fill,
    folded,
    isolated,
    join,
    listed,
    number,
    paragraph,
    unbroken,
    verdict_cell,
)
from pyflowers.reports.material import Material
from pyflowers.reports.section import Block, Drawings, Picture, Section, Table, side_by_side
from pyflowers.text import counted

FIGURE = "checks.png"
"""The name of the figure of a model's checks that the page shows."""


def title(material: Material) -> str:
    """Return the heading."""
    if material.alone:
        return "Would the model produce data like these?"
    return "Would the models produce data like these?"


def content(material: Material) -> Iterator[Block]:
    """Yield what fails, an explanation of the table, the table and a figure."""
    if material.checks:
        yield paragraph(join([banner(material), *_findings(material)]))
    notes = list[Text]()
    for name, found in material.checks.items():
        for note in found.notes:
            notes.append(material.of_model(name, fill("{}.", unbroken(note))))
    for name, reason in material.unchecked.items():
        why = fill("{} is not checked: {}.", material.named(name), unbroken(reason))
        yield paragraph(capitalised(why))
    for fit in material.fits:
        yield Picture(f"{fit.name}/predictive", _of_predictive(material, fit))
    shown = _drawn(material)
    if shown is None:
        return
    table = [checks_table(material), paragraph(_explanation()), bullets(notes)]
    failed = any(found.failed for found in material.checks.values())
    yield from folded("The predictive checks, one by one", *table, is_open=failed)
    drawn = Picture(FIGURE, _caption(material, shown))
    yield from folded("A figure of the predictive checks", drawn, is_open=failed)


def banner(material: Material) -> Text:
    """Return how many predictive checks fail."""
    total = sum(len(found.checks) for found in material.checks.values())
    failed = sum(len(found.failed) for found in material.checks.values())
    limited = sum(len(found.limited) for found in material.checks.values())
    said = []
    if failed:
        fails = "fails" if failed == 1 else "fail"
        said.append(f"{failed} of {counted(total, 'predictive check')} {fails}.")
    if limited:
        concerns = "concerns" if limited == 1 else "concern"
        said.append(
            f"{limited} of {counted(total, 'predictive check')} {concerns} only predictions of "
            "single values."
        )
    if total and not said and all(fit.diagnostics.passed for fit in material.fits):
        passed = (
            f"All {total} predictive checks pass." if total > 1 else "The predictive check passes."
        )
        said.append(passed)
    return join(said)


def _findings(material: Material) -> Iterator[Text]:
    """Yield what each model does not reproduce."""
    for name, found in material.checks.items():
        if found.failed:
            faults = listed(finding(found.fit, check) for check in found.failed)
            said = fill("{} does not reproduce the data: {}.", material.named(name), faults)
            yield capitalised(said)
    for name, found in material.checks.items():
        if found.limited:
            faults = listed(finding(found.fit, check) for check in found.limited)
            words = "{} reproduces the averages, but not every single value: {}."
            yield capitalised(fill(words, material.named(name), faults))


def _explanation() -> Text:
    return fill(
        "Each p is the share of replicated data sets in which the statistic is larger than in the "
        "observed data, with ties counted as one half. If p is below {} or above {}, the model "
        "does not reproduce the statistic. For patterns of residuals, whose names have brackets, "
        "p is the share of data sets in which any pattern is as strong, and the check fails below "
        "{}. For {}, p is the probability that uniform values deviate at least as far, and the "
        "check fails below {}.",
        f"{LIMIT:g}",
        f"{1 - LIMIT:g}",
        f"{PATTERN_LIMIT:g}",
        code(LOO_PIT),
        f"{PIT_LIMIT:g}",
    )


def _of_predictive(material: Material, fit: Fit) -> Text:
    """Return the caption of the figure of observed and replicated values."""
    of: Text = ""
    if not material.alone:
        of = fill(" by {}", material.named(fit.name))
    if fit.program.counts:
        each = "count"
        if fit.model.is_ordinal:
            each = "rating"
        if fit.model.has_categories:
            each = "category"
        return fill(
            "How often each {} was observed (bars) and how often it is predicted{} (dots, with "
            "{} intervals), on a square-root axis.",
            each,
            of,
            percent(fit.interval),
        )
    return fill(
        "Share of the values below each point: observed, and predicted{} with {} intervals.",
        of,
        percent(fit.interval),
    )


def _caption(material: Material, shown: PredictiveChecks) -> Text:
    of: Text = ""
    if not material.alone:
        of = fill(" of {}", material.named(shown.fit.name))
    caption = fill(
        "Predictive checks{}. Bars show replicated data sets, lines the observed data", of
    )
    if shown.pit is None:
        return caption + "."
    return caption + (
        "; the last panel shows the distribution function of the PITs minus that of "
        "uniform values, with a band that contains 99% of such curves for uniform values."
    )


def _drawn(material: Material) -> PredictiveChecks | None:
    """Return the predictive checks to draw: the best model's or, if it has none, the first."""
    first = next(iter(material.checks.values()), None)
    return material.checks.get(material.best.name, first)


def checks_table(material: Material) -> Table:
    """Return the p-value of each predictive check for each model."""
    columns = [{check.name: check for check in found.checks} for found in material.checks.values()]
    rows = []
    for name, found in side_by_side(columns).items():
        cells = [NOTHING] * len(found)
        for i, check in enumerate(found):
            if check is not None:
                shown = check.p_text.removeprefix("p ").removeprefix("= ")
                cells[i] = verdict_cell(number(check.p_value, shown), check.judged.status)
        meaning = next(check.meaning for check in found if check)
        rows.append([code(name), *cells, isolated(meaning)])
    head = ["Check", *(material.labels[name] for name in material.checks), "Statistic"]
    return Table("Predictive p-values", head, rows, text_columns=[len(head) - 1])


def figures(material: Material) -> Drawings:
    """Return a figure of observed and replicated values for each model."""
    return {
        f"{fit.name}/predictive": partial(plots.predictive, fit)
        for fit in material.fits
        if fit.program.can(Capability.Y_REP) and fit.data.num_obs
    }


def late_figures(material: Material) -> Drawings:
    """Return the figure of the checks."""
    shown = _drawn(material)
    if shown is None:
        return {}
    return {FIGURE: drawings_of(shown)[FIGURE]}


def record(material: Material) -> Mapping[str, Any]:
    """Return the table of each model's checks."""
    return {name: records_of(found.table()) for name, found in material.checks.items()}


CHECKS = Section(
    "checks",
    title,
    content,
    figures,
    late_figures,
    in_contents="Predictive checks",
    banner=banner,
    record=record,
)
