"""Pieces of the page: tables, labels, and numbers that can be traced.

A number is printed as the tables of the command line print it, in an HTML ``data`` element. Its
``value`` is the number itself, and for one that stands in a run folder its attributes say where:
file, row and column. The tests read the page back and compare.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup, escape

from pyflowers.display import format_cell, format_elpd, format_number
from pyflowers.fits.fit import Fit
from pyflowers.fits.verdict import Check


@dataclass(frozen=True)
class ReportTable:
    """A table of the page.

    Attributes
    ----------
    caption : str
        What it shows.
    head : sequence of str
        A heading for each column.
    rows : sequence of sequence of str or Markup
        Cells; the first of a row names it.
    text_columns : sequence of int
        Columns that hold text and not numbers.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Markup | str]]
    text_columns: Sequence[int] = ()


def number(value: float, text: str | None = None) -> Markup:
    """Return a number that is computed for the page."""
    shown = format_number(value) if text is None else text
    return Markup('<data value="{}">{}</data>').format(repr(float(value)), shown)


def elpd(value: float) -> Markup:
    """Return an elpd, or what is compared with one."""
    return number(value, format_elpd(value))


def summary_number(fit: Fit, table: pd.DataFrame, row: str, column: str) -> Markup:
    """Return a number of a fit's ``summary.csv``; `table` is the summary."""
    value = float(table.loc[row, column])  # type: ignore[arg-type]
    return _traced(value, fit, "summary.csv", row, column, format_cell(column, value))


def check_number(fit: Fit, check: Check) -> Markup:
    """Return the value of a check in a fit's ``diagnostics.json``."""
    return _traced(check.value, fit, "diagnostics.json", check.name, "value", check.number)


def _traced(value: float, fit: Fit, file: str, row: str, column: str, text: str) -> Markup:
    return Markup(
        '<data value="{}" data-file="{}/{}" data-row="{}" data-column="{}">{}</data>'
    ).format(repr(float(value)), fit.name, file, row, column, text)


def code(name: object) -> Markup:
    """Return a name of a program, parameter or command."""
    return Markup("<code>{}</code>").format(name)


def isolated(label: object) -> Markup:
    """Return a user's label so that its writing direction does not touch the text around it."""
    return Markup("<bdi>{}</bdi>").format(label)


_OPTION = re.compile(r"--[a-z][\w-]*")


def unbroken(text: str | Markup) -> Markup:
    """Return a text whose options, such as ``--warmup``, no line break divides."""
    return Markup(_OPTION.sub(r'<span class="option">\g<0></span>', str(escape(text))))


def some(num: int, what: str) -> str:
    """Return a number of things in the singular or the plural."""
    return f"{num} {what}" if num == 1 else f"{num} {what}s"


def upper_first(text: str) -> str:
    """Return a text with a capital, as it begins a sentence."""
    return text[:1].upper() + text[1:]


def lower_first(text: str) -> str:
    """Return a description as it reads within a sentence; names in capitals stay."""
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def verdict_cell(shown: Markup, passed: bool) -> Markup:
    """Return a number and, in words, whether it passed."""
    kind, word = ("pass", "passed") if passed else ("fail", "FAILED")
    return Markup('{} <span class="{}">{}</span>').format(shown, kind, word)
