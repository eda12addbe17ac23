"""How numbers, tables and results are shown: by ``print``, on the terminal and in a notebook.

A result defines its contents for a reader, lines of text and tables, in one place:
:meth:`Shown.contents`. The command that produces the result prints the same text.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from io import StringIO
from itertools import product
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from pyflowers.errors import ConfigError
from pyflowers.text import counted

if TYPE_CHECKING:
    import pandas as pd

INTERVAL = 0.9
"""Default probability of the intervals that tables show."""

MOST_ROWS = 60
"""The largest number of rows of a table that are shown."""

LEAST_NAME = 8
"""The width, in characters, to which names and text are wrapped if a table is wider than the
terminal. They are wrapped more narrowly only if there is no other way."""

LONGEST_HEAD = 8
"""The length up to which a heading is never wrapped, even if the table is then too wide."""

LEAST = 4
"""The smallest width, in characters, to which anything is wrapped."""

MOST_ELEMENTS = 10
"""The largest number of elements of a quantity that are shown if a table has too many rows."""

# C0 except tab and newline, DEL, C1, line separators, changes of text direction, surrogates
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


# The beginning of a line that is a command
_COMMAND = re.compile(r" *pyflowers [a-z]+ ")


class Styled(str):
    """Text with a style that pyflowers sets: control characters are escaped, but not the style.

    Attributes
    ----------
    style : dict
        Arguments of :func:`click.style`.
    html : str
        The HTML for a notebook; if it is empty, the text itself is shown there.
    """

    style: dict[str, Any]
    html: str = ""


Line: TypeAlias = "str | tuple[str, ...] | pd.DataFrame"
"""A line of text, a line in several pieces, or a table."""


class Shown:
    """A result that prints the same text as its command, and appears as tables in a notebook."""

    def contents(self) -> Sequence[Line]:
        """Return the lines and tables that are shown."""
        raise NotImplementedError

    def in_full(self) -> Sequence[Line]:
        """Return the lines and tables with the rows that are hidden by default."""
        return self.contents()

    def lines(self, *, in_full: bool = False) -> Iterator[tuple[str, ...] | pd.DataFrame]:
        """Yield the pieces of each line, and each table."""
        contents = self.contents()
        if in_full:
            contents = self.in_full()
        for part in contents:
            if isinstance(part, str):
                part = (part,)
            yield part

    def __str__(self) -> str:
        return "\n".join(map(_as_text, self.lines()))

    def __repr__(self) -> str:
        line = next(("".join(part) for part in self.lines() if isinstance(part, tuple)), "")
        return f"<pyflowers.{type(self).__name__}: {label(line)}>"

    def _repr_html_(self) -> str:
        return "\n".join(map(_as_html, self.lines()))


class Result(Shown):
    """A result: its printed form, its files and its record.

    The command that computes a result writes its files and figures to ``--out``, together with the
    record that ``--json`` prints. ``pyflowers.plots.results`` draws the figures of each kind.

    Attributes
    ----------
    holds : str
        The contents of the result's folder, such as ``checks``; the record is ``checks.json``.
    """

    holds: ClassVar[str]

    def files(self) -> dict[str, Any]:
        """Return tables, and other objects with a method ``save``, by file name."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values, for JSON."""
        raise NotImplementedError


def records_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table's rows as mappings; missing values are None."""
    found: list[dict[str, Any]] = json.loads(
        table.reset_index().to_json(orient="records", double_precision=15)
    )
    return found


def styled(text: str, **style: Any) -> Styled:
    """Apply a style of :func:`click.style` to text."""
    made = Styled(text)
    made.style = style
    return made


def heading(name: str, about: str = "") -> tuple[str, ...]:
    """Return the first line of a result."""
    return (styled(name, bold=True), f"  {about}")


def verdict(sentence: object, passed: bool) -> Styled:
    """Return the line that states whether something passed."""
    colour = "red"
    if passed:
        colour = "green"
    return styled(f"verdict: {sentence}", fg=colour)


def width() -> int:
    """Return the width of the terminal; 80 if the output is not a terminal."""
    if sys.stdout is not None and sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return 80


def wrapped(text: str, indent: int | None = None) -> str:
    """Return text, broken where possible into lines that fit into the terminal.

    Commands are not broken, because only :func:`command_lines` breaks them in such a way that they
    still run.

    Parameters
    ----------
    text : str
        One or several lines.
    indent : int, optional
        Indentation of continuation lines. Default: two more than the line's own.
    """
    made, goes_on = [], False
    for line in text.split("\n"):
        if goes_on or _COMMAND.match(line):
            made.append(line)
            goes_on = line.endswith("\\")
            continue
        start = len(line) - len(line.lstrip())
        going_on = " " * (start + 2 if indent is None else indent)
        if len(line) > width():
            line = textwrap.fill(
                line[start:],
                width=width(),
                initial_indent=line[:start],
                subsequent_indent=going_on,
                break_long_words=False,
                break_on_hyphens=False,
            )
        made.append(line)
    return "\n".join(made)


def command_lines(command: str, indent: int = 0) -> str:
    """Return an indented command, broken into lines that still run when they are copied."""
    spaces = " " * indent
    if len(command) + indent <= width():
        return f"{spaces}{command}"
    if not command.startswith("pyflowers "):
        return _call_lines(command, spaces)
    lines = [spaces]
    for option in re.split(r" (?=--)", command):
        if len(lines[-1]) + len(option) + 2 > width() and lines[-1].strip():
            lines[-1] += "\\"
            lines.append(f"{spaces}    ")
        lines[-1] += f"{option} "
    return "\n".join(lines).rstrip()


def _call_lines(call: str, spaces: str) -> str:
    """Return a Python call in several lines; a long string becomes several adjacent strings."""
    lines, quote = [spaces], ""
    for word in call.split(" "):
        if len(lines[-1]) + len(word) + 2 > width() and lines[-1].strip():
            lines[-1] += quote
            lines.append(f"{spaces}    {quote}")
        lines[-1] += f"{word} "
        if re.sub(r"\\.", "", word).count('"') % 2:
            quote = {"": '"', '"': ""}[quote]
    return "\n".join(line.rstrip() for line in lines)


def wrapped_pieces(pieces: tuple[str, ...]) -> tuple[str, ...]:
    """Return the pieces of a line, wrapped to the terminal; the first keeps its style if whole."""
    text = "".join(map(shown, pieces))
    made, first = wrapped(text), pieces[0]
    if made == text or not isinstance(first, Styled):
        return (made,) if made != text else pieces
    if len(pieces) == 1:
        return (styled(made, **first.style),)
    if made.startswith(first):
        return (first, made[len(first) :])
    return (made,)


def whole(table: pd.DataFrame) -> pd.DataFrame:
    """Mark a table so that every row is shown."""
    table.attrs["whole"] = True
    return table


def in_file(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Record the file to which ``--out`` writes a table, because some rows may not be shown."""
    table.attrs["file"] = name
    return table


def interval_quantiles(*intervals: float) -> dict[str, float]:
    """Return the quantiles that a table shows for central intervals, by column name.

    Parameters
    ----------
    *intervals : float
        The probability of each interval.

    Returns
    -------
    dict of str to float
        ``median`` first, then the ends of the intervals, such as ``2.5%`` and ``97.5%`` for 0.95.

    Raises
    ------
    ConfigError
        If a probability does not lie between 0 and 1.
    """
    ends: set[float] = set()
    for interval in intervals:
        number = isinstance(interval, Real) and not isinstance(interval, bool)
        if not number or not 0 < interval < 1:
            raise ConfigError(f"interval must lie between 0 and 1, such as 0.95, got {interval!r}")
        tail = round((1 - float(interval)) / 2, 12)
        ends |= {tail, 1 - tail}
    return {"median": 0.5, **{percent(end): end for end in sorted(ends)}}


def element_table(
    found: Mapping[str, Mapping[str, Any]], labels: Mapping[str, Sequence[Any]] | None = None
) -> pd.DataFrame:
    """Return a row for each element of each quantity.

    Parameters
    ----------
    found : mapping of str to mapping of str to array
        For each quantity, its columns, each in the shape of the quantity.
    labels : mapping of str to sequence, optional
        The labels along each axis of a quantity. Default: numbers from 1.
    """
    # pyflowers --help imports this module and shows no table.
    import numpy as np
    import pandas as pd

    parts = []
    for name, columns in found.items():
        arrays = np.broadcast_arrays(*map(np.asarray, columns.values()))
        axes = (labels or {}).get(name) or [range(1, num + 1) for num in arrays[0].shape]
        rows = [name]
        if axes:
            rows = [f"{name}[{','.join(map(str, at))}]" for at in product(*axes)]
        index = pd.Index(rows, name="parameter")
        cells = {column: np.ravel(a) for column, a in zip(columns, arrays, strict=True)}
        parts.append(pd.DataFrame(cells, index=index))
    return pd.concat(parts)


def draws_table(draws: Mapping[str, Any], num_axes: int, interval: float) -> pd.DataFrame:
    """Return a table of quantiles over the draws' first axes; unlike moments, they always exist."""
    import numpy as np

    probs = interval_quantiles(interval)
    axes = tuple(range(num_axes))
    levels = {name: np.quantile(v, list(probs.values()), axis=axes) for name, v in draws.items()}
    return element_table({name: dict(zip(probs, v, strict=True)) for name, v in levels.items()})


def upper_first(text: str) -> str:
    """Return text with an initial capital, for the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def percent(prob: float) -> str:
    """Return a probability as a percentage, such as ``2.5%``."""
    return f"{100 * prob:.10g}%"


def format_number(value: float, places: int | None = None) -> str:
    """Format a number for a table; NaN, such as a moment that does not exist, becomes a dash.

    The number has three significant digits or, between 1,000 and a million, no decimals. It has
    at least `places` decimals; -2, for example, requires the digit of the hundreds.
    """
    if math.isnan(value):
        return "–"
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    before = math.floor(math.log10(abs(value)))
    digits = 2 - before
    if places is not None:
        digits = max(digits, min(places, _MOST_DIGITS - 1 - before))
    if not -4 < digits <= 6:
        return f"{value:.{digits + before + 1}g}"
    return f"{value:.{max(digits, 0)}f}"


_MOST_DIGITS = 12
"""The largest number of significant digits in a table."""

_OF_INTERVAL = re.compile(r"median|[\d.]+%")
"""The columns of a median and of the ends of intervals."""

_OF_ELPD = ("elpd", "se", "difference", "its se", "p_loo")


def format_elpd(value: float) -> str:
    """Format an elpd, or a number on its scale, to at least one decimal: a few units matter."""
    if 100 <= abs(value) < math.inf:
        return f"{value:.1f}"
    return format_number(value)


def format_cell(column: str, value: float) -> str:
    """Return a number as tables print it: R-hat to three decimals, ESS as an integer."""
    if not math.isfinite(value):
        return format_number(value)
    if column.startswith("ess"):
        return f"{value:.0f}"
    if column in _OF_ELPD:
        return format_elpd(value)
    if column == "r_hat":
        return f"{value:.3f}"
    return format_number(value)


def shown(text: str) -> str:
    r"""Return text with its control characters written out, such as ``\x1b``."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def label(text: str) -> str:
    """Return text as one line that fits into a cell of a table."""
    return shown(text).replace("\n", "\\n").replace("\t", "\\t")


def text_table(table: pd.DataFrame, *, colours: bool = False) -> str:
    """Return a table as text, shortened if it is long, with columns as narrow as possible."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for name in _names_of_index(table):
        grid.add_column(name, overflow="fold")
    for column in table.columns:
        grid.add_column(Text(_head(column)), justify="right", overflow="fold")
    names = _names_of_index(table)
    texts = [[name] for name in names] + [_head(name).split("\n") for name in table.columns]
    for keys, cells in _rows(table):
        row = [label(text) for text in (*keys, *cells)]
        for of_column, cell in zip(texts, row, strict=True):
            of_column.append(cell)
        # Text, not str: rich would read [a] in mu_plant[a] as markup.
        grid.add_row(*map(Text, row))
    text = StringIO()
    console = Console(
        file=text,
        highlight=False,
        width=1000,
        force_terminal=colours,
        force_jupyter=False,  # otherwise rich would display the text itself in a notebook
    )
    # In a terminal that is too narrow, names and text are wrapped, but numbers are not.
    excess = console.measure(grid).maximum - width()
    if excess > 0:
        of_texts = [i for i in range(table.shape[1]) if _is_text(table.iloc[:, i])]
        places = [*range(len(names)), *(len(names) + i for i in of_texts)]
        for place, narrow in _narrowed({i: texts[i] for i in places}, excess).items():
            grid.columns[place].width = narrow
    console.print(grid)
    return text.getvalue()


def _head(column: object) -> str:
    """Return the heading of a column, in several lines if it is long."""
    if len(str(column)) <= 6:
        return str(column)
    return re.sub("_| (?=[a-z])", "\n", str(column))


def _is_text(column: pd.Series[Any]) -> bool:
    """Return whether a column of a table contains text, which may be wrapped."""
    return any(isinstance(value, str) for value in column)


def _narrowed(texts: Mapping[int, Sequence[str]], excess: int) -> dict[int, int]:
    """Return widths of text columns, by position, that make a table narrower by `excess`.

    The widest column is narrowed first. A word is divided only if there is no other way.
    """
    widths = {i: max(map(len, its)) for i, its in texts.items()}
    words = {i: max(map(len, " ".join(its).split()), default=0) for i, its in texts.items()}
    wide = {i: max(LEAST_NAME, length) for i, length in words.items()}
    heads = {i: len(its[0]) if len(its[0]) <= LONGEST_HEAD else LEAST for i, its in texts.items()}
    for floors in (wide, dict.fromkeys(widths, LEAST_NAME), heads):
        while excess > 0:
            able = [i for i in widths if widths[i] > floors[i]]
            if not able:
                break
            widths[max(able, key=widths.__getitem__)] -= 1
            excess -= 1
    return widths


def _as_text(part: tuple[str, ...] | pd.DataFrame) -> str:
    """Return a line, or a table followed by the number of rows that are not shown."""
    if isinstance(part, tuple):
        return "".join(wrapped_pieces(part))
    left = left_out(part)
    return f"\n{text_table(part)}{left}" + ("\n" if left else "")


def left_out(table: pd.DataFrame) -> str:
    """Return a line with the number of rows that are not shown, if there are any."""
    num = len(table) - len(_cut(table))
    if num:
        return counted(num, "more row")
    return str(table.attrs.get("hidden", ""))


def _cut(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table; if it has too many rows, only the first elements of each quantity.

    In this way a thousand groups do not hide the parameters of the population or of a new group.
    """
    import pandas as pd

    if len(table) <= MOST_ROWS or table.attrs.get("whole"):
        return table
    names = ["/".join(map(str, _parts(key))) for key in table.index]
    quantity = pd.Series([name.partition("[")[0] for name in names])
    first = quantity.groupby(quantity).cumcount() < MOST_ELEMENTS
    return table[first.to_numpy()].head(MOST_ROWS)


def _rows(table: pd.DataFrame) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the names and cells of each row; a name that equals the one above is left out."""
    before: list[object] = []
    first = _cut(table)
    for key, row in zip(first.index, first.itertuples(index=False, name=None), strict=True):
        *above, last = _parts(key)
        shown_above = list(map(str, above))
        if above == before:
            shown_above = [""] * len(above)
        before = above
        named = list(zip(map(str, table.columns), row, strict=True))
        places = _places([value for name, value in named if _OF_INTERVAL.fullmatch(name)])
        cells = [_cell(name, value, places) for name, value in named]
        yield [*shown_above, str(last)], cells


def _parts(key: object) -> tuple[object, ...]:
    """Return the names of a row: several for a MultiIndex, otherwise one."""
    if isinstance(key, tuple):
        return key
    return (key,)


def _names_of_index(table: pd.DataFrame) -> list[str]:
    """Return the names of a table's index; empty for a level without a name."""
    return [str(name or "") for name in table.index.names]


def _places(values: Sequence[Any]) -> int | None:
    """Return the decimals that show how a median and the ends of intervals differ.

    Their range is then at least five units of the last place. None if they do not differ.
    """
    ends = [float(value) for value in values if isinstance(value, Real) and math.isfinite(value)]
    width = max(ends, default=0.0) - min(ends, default=0.0)
    if width == 0:
        return None
    return -math.floor(math.log10(width / 5))


def _cell(column: str, value: object, places: int | None) -> str:
    if isinstance(value, str):
        return value
    if type(value).__name__ in ("bool", "bool_"):
        if value:
            return "yes"
        return "NO"
    if isinstance(value, Integral):
        return str(value)
    if _OF_INTERVAL.fullmatch(column):
        return format_number(float(str(value)), places)
    return format_cell(column, float(str(value)))


def _as_html(part: tuple[str, ...] | pd.DataFrame) -> str:
    """Return a line or a table for a notebook."""
    if not isinstance(part, tuple):
        return _html_table(part) + _html(left_out(part))
    made = "".join(piece.html for piece in part if isinstance(piece, Styled))
    return made or f"<p>{''.join(map(_html, part))}</p>"


def as_html(text: str) -> str:
    """Return text for HTML, with control characters written out."""
    return escape(shown(text)).replace("\n", "<br>")


def _html(piece: str) -> str:
    text = as_html(piece)
    if isinstance(piece, Styled) and piece.style.get("bold"):
        return f"<b>{text}</b>"
    return text


def _html_table(table: pd.DataFrame) -> str:
    names = (*_names_of_index(table), *map(str, table.columns))
    head = "".join(f"<th>{_html(label(name))}</th>" for name in names)
    body = "\n".join(
        f"<tr>{''.join(f'<th>{_html(label(n))}</th>' for n in names)}"
        f"{''.join(f'<td>{_html(label(c))}</td>' for c in cells)}</tr>"
        for names, cells in _rows(table)
    )
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
