"""Numbers on the page: printed as the tables of the command line print them, and traceable.

Each is an HTML ``data`` element. Its ``value`` is the number itself, and for one that stands in a
run folder its attributes say where: file, row and column. The tests read the page back and compare.
"""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from pyflowers.display import format_cell, format_elpd, format_number
from pyflowers.fits.fit import Fit
from pyflowers.fits.verdict import Check


def number(value: float, text: str | None = None) -> Markup:
    """Return a number that is computed for the page."""
    shown = format_number(value) if text is None else text
    return Markup('<data value="{}">{}</data>').format(repr(float(value)), shown)


def elpd_number(value: float) -> Markup:
    """Return an elpd, or what is compared with one."""
    return number(value, format_elpd(value))


def summary_number(fit: Fit, table: object, row: str, column: str) -> Markup:
    """Return a number of a fit's ``summary.csv``; `table` is the summary."""
    value = float(table.loc[row, column])  # type: ignore[attr-defined]
    return Markup(
        '<data value="{}" data-file="{}/summary.csv" data-row="{}" data-column="{}">{}</data>'
    ).format(repr(value), fit.name, row, column, format_cell(column, value))


def check_number(fit: Fit, check: Check) -> Markup:
    """Return the value of a check in a fit's ``diagnostics.json``."""
    return Markup(
        '<data value="{}" data-file="{}/diagnostics.json" data-row="{}" data-column="value">'
        "{}</data>"
    ).format(repr(float(check.value)), fit.name, check.name, check.number)


_OPTION = re.compile(r"--[a-z][\w-]*")


def unbroken(text: str | Markup) -> Markup:
    """Return a text whose options, such as ``--warmup``, no line break divides."""
    return Markup(_OPTION.sub(r'<span class="option">\g<0></span>', str(escape(text))))


def isolated(label: str) -> Markup:
    """Return a user's label so that its writing direction does not touch the text around it."""
    return Markup("<bdi>{}</bdi>").format(label)


def interval(low: Markup, high: Markup) -> Markup:
    """Return an interval in words."""
    return Markup("{} to {}").format(low, high)


def listing(items: list[Markup]) -> Markup:
    """Join items with commas and a final *and*."""
    if len(items) <= 1:
        return items[0] if items else Markup("")
    return Markup("{} and {}").format(Markup(", ").join(items[:-1]), items[-1])
