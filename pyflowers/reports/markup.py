"""The markup of numbers, names and sentences on the page.

Each number is in an HTML ``data`` element and is formatted as in the tables of the command line.
The element's ``value`` is the unrounded number. For a number from a run folder, other attributes
give the file, the row and the column. The tests read the page and compare its numbers with those in
the files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

from pyflowers.display import format_cell, format_elpd, format_number
from pyflowers.fits.fit import Fit
from pyflowers.fits.verdict import Check

NOTHING = Markup("–")

code: Callable[[object], Markup] = Markup("<code>{}</code>").format
"""Function that marks the name of a program, parameter or command as code."""

isolated: Callable[[object], Markup] = Markup("<bdi>{}</bdi>").format
"""Function that isolates a user's label, so that its direction does not affect other text."""

Text = str | Markup
"""Text of the page; a str is escaped when it is joined to markup."""


def fill(text: str, *values: object) -> Markup:
    """Return HTML with values in the places of ``{}``; values that are not markup are escaped."""
    return Markup(text).format(*values)


def join(parts: Iterable[Text], by: str = " ") -> Markup:
    """Return the parts that are not empty as one text."""
    return Markup(by).join(part for part in parts if part)


def listed(items: Iterable[Text]) -> Markup:
    """Return items as a list in words: ``a, b and c``."""
    *first, last = items
    if not first:
        return escape(last)
    return fill("{} and {}", Markup(", ").join(first), last)


def names_of(names: Iterable[object]) -> Markup:
    """Return names of programs, parameters or commands as a list in words."""
    return listed(map(code, names))


def paragraph(text: Text, kind: str = "") -> Markup:
    """Return a paragraph; `kind` is its CSS class."""
    if kind:
        return fill('<p class="{}">{}</p>', kind, text)
    return fill("<p>{}</p>", text)


def folded(summary: Text, *blocks: Any, is_open: bool = False) -> Iterator[Any]:
    """Yield blocks in a ``<details>`` element, which the reader can expand."""
    opened = Markup(" open" * is_open)
    yield fill("<details{}>\n<summary>{}</summary>", opened, summary)
    yield from blocks
    yield Markup("</details>")


def bullets(items: Iterable[Text], kind: str = "") -> Markup:
    """Return a bulleted list; nothing if there are no items."""
    made = Markup("\n").join(fill("<li>{}</li>", item) for item in items)
    if not made:
        return made
    if kind:
        return fill('<ul class="{}">\n{}\n</ul>', kind, made)
    return fill("<ul>\n{}\n</ul>", made)


def capitalised(text: Markup) -> Markup:
    """Return text with an initial capital, even if its first word is in a ``<bdi>`` element.

    A name with an underscore, such as ``loo_pit``, is unchanged.
    """
    first = r"^(?:<bdi>)?[a-z](?!\w*_)"
    return Markup(re.sub(first, lambda start: start[0][:-1] + start[0][-1].upper(), str(text)))


def command(text: Text) -> Markup:
    """Return a command in a separate box."""
    box = '<pre class="command" tabindex="0" aria-label="Command">{}</pre>'
    return fill(box, unbroken(text))


def unbroken(text: Text) -> Markup:
    """Return text in which line breaks cannot divide options such as ``--warmup``."""
    return Markup(re.sub(r"--[a-z][\w-]*", r'<span class="option">\g<0></span>', str(escape(text))))


def number(value: float, text: str | None = None, source: Sequence[str] = ()) -> Markup:
    """Return the markup of a number, with the file, row and column that it comes from, if any."""
    shown = with_minus(format_number(value) if text is None else text)
    traced = Markup()
    if source:
        traced = fill(' data-file="{}" data-row="{}" data-column="{}"', *source)
    return fill('<data value="{}"{}>{}</data>', repr(float(value)), traced, shown)


def with_minus(text: str) -> str:
    """Return a number with the minus sign that is used in print."""
    if text.startswith("-"):
        return f"\N{MINUS SIGN}{text[1:]}"
    return text


def elpd(value: float) -> Markup:
    """Return the markup of an elpd, or of a number that is compared with one."""
    return number(value, format_elpd(value))


def summary_number(fit: Fit, table: pd.DataFrame, row: str, column: str) -> Markup:
    """Return the markup of a number in `table`, the contents of a fit's ``summary.csv``."""
    value = float(table.loc[row, column])  # type: ignore[arg-type]
    return number(value, format_cell(column, value), (f"{fit.name}/summary.csv", row, column))


def check_number(fit: Fit, check: Check) -> Markup:
    """Return the markup of the value of a check in a fit's ``diagnostics.json``."""
    return number(check.value, check.number, (f"{fit.name}/diagnostics.json", check.name, "value"))


def verdict_cell(shown: Markup, status: str) -> Markup:
    """Return the markup of a number and of the word that states whether it passed."""
    kind, word = {"passed": ("pass", status), "failed": ("fail", "FAILED")}.get(
        status, ("warn", status)
    )
    return fill('{} <span class="{}">{}</span>', shown, kind, word)
