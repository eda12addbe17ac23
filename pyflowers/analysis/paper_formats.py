"""Tables and prose for a paper, as text, Markdown, LaTeX, HTML, a DataFrame or a Word document.

A :class:`Sheet` is a table of models side by side, and a :class:`Prose` is a paragraph. Numbers
are rounded as in the rest of pyflowers. Each format has its own minus sign and exponents: −0.5 and
1.2×10⁻⁵ in Markdown, HTML and Word, and a formula in LaTeX; text and CSV keep -0.5.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pandas as pd
from rich.cells import cell_len

from pyflowers.display import as_html, label, width
from pyflowers.errors import ConfigError

_NUMBER = re.compile(r"(-?)(\d[\d.]*|inf)(?:e([+-]\d+))?")
# In prose, numbers with a sign or an exponent are typeset, but the hyphen in x-1 or 1-2 is kept.
_NUMBER_IN_PROSE = re.compile(
    r"(?<![\w.)\]-])(?:-\d+(?:\.\d+)?(?:e[+-]\d+)?|\d+(?:\.\d+)?e[+-]\d+)\b"
)

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

# A bracket is escaped only where Markdown would read a link: [a](b).
_OF_MARKDOWN = re.compile(r"[\\`*_<>&|~^$@]|\](?=\()")

_OF_LATEX = {
    **{mark: rf"\{mark}" for mark in "{}$&#_%"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "–": "--",
    "−": "$-$",
    "²": "$^2$",
    "χ": r"$\chi$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "×": r"$\times$",
    "…": r"\ldots{}",
}


@dataclass(frozen=True)
class Row:
    """A row of a sheet.

    Attributes
    ----------
    label : str
        The label of the row.
    cells : tuple of tuple of str
        The lines of each model's cell. An empty cell has no lines or one empty line.
    is_text : bool
        Whether the cells are words, and not numbers with brackets.
    """

    label: str
    cells: tuple[tuple[str, ...], ...]
    is_text: bool = False

    def cells_in(
        self, text: Callable[[str], str], numbers: Callable[[str], str]
    ) -> list[list[str]]:
        """Return the lines of each cell, formatted by `text` if it is text, else by `numbers`."""
        write = numbers
        if self.is_text:
            write = text
        return [[write(line) for line in cell] for cell in self.cells]


@dataclass(frozen=True)
class Sheet:
    """Models side by side.

    Attributes
    ----------
    models : tuple of str
        The names of the models, one for each column.
    parts : tuple of tuple of Row
        The rows, in parts that are separated by a rule.
    note : str
        A note that explains the numbers.
    """

    models: tuple[str, ...]
    parts: tuple[tuple[Row, ...], ...]
    note: str


def _plain(text: str) -> str:
    return text


def _printed_lines(
    sheet: Sheet, text: Callable[[str], str], numbers: Callable[[str], str]
) -> Iterator[list[list[str]]]:
    """Yield each part as lines of cells; the second line of a cell has no label."""
    for part in sheet.parts:
        lines = []
        for row in part:
            cells = row.cells_in(text, numbers)
            columns = zip_longest([text(label(row.label))], *cells, fillvalue="")
            lines += [list(each) for each in columns]
        yield lines


def _head(sheet: Sheet, text: Callable[[str], str]) -> list[str]:
    return ["", *(text(label(name)) for name in sheet.models)]


def _aligned(lines: list[list[str]], between: str) -> list[str]:
    """Return lines with cells padded to the widths of their columns; numbers are right-aligned."""
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    found = []
    for first, *others in lines:
        cells = [first + " " * (widths[0] - cell_len(first))]
        cells += [
            " " * (width - cell_len(cell)) + cell
            for cell, width in zip(others, widths[1:], strict=True)
        ]
        found.append(between.join(cells))
    return found


LONGEST_LABEL = 28
"""The width at which labels are wrapped in a LaTeX table of one or two models."""

LABEL_OF_SEVERAL = 22
"""The width at which labels are wrapped if there are more models; four models fit on a page."""

TEXT_WIDTH = 345.0
"""The width of the text of an article in LaTeX, in points."""

_COMMANDS = {9: r"\small", 8: r"\footnotesize", 7: r"\scriptsize"}
"""The LaTeX commands for font sizes other than the 10 points of an article."""

_OF_LATEX_CELLS = {10: 12.0, 9: 6.0, 8: 6.0, 7: 6.0}
_OF_WORD_CELLS = dict.fromkeys((11, 10, 9, 8, 7), 10.8)
"""The font sizes, the largest first, each with the margins of a cell; in points."""

_LETTER_OF_LATEX, _LETTER_OF_WORD = 0.47, 0.55
"""The average width of a character, as a share of the font size."""

NARROWEST = 14
"""The smallest width at which labels and the names of models are wrapped."""


def _width_of(sheet: Sheet, place: int) -> int:
    """Return the width of a model's column, whose cells are not wrapped."""
    cells = [line for part in sheet.parts for row in part for line in row.cells[place]]
    return max(min(cell_len(label(sheet.models[place])), NARROWEST), *map(cell_len, cells), 0)


def _longest_label(sheet: Sheet) -> int:
    """Return the width at which the labels of a sheet are wrapped."""
    if len(sheet.models) > 2:
        return LABEL_OF_SEVERAL
    return LONGEST_LABEL


def _widths(sheet: Sheet) -> list[int]:
    """Return the width of each column in characters; the column of the labels is first."""
    labels = [cell_len(label(row.label)) for part in sheet.parts for row in part]
    first = min(max(labels, default=0), _longest_label(sheet))
    return [first, *(_width_of(sheet, i) for i in range(len(sheet.models)))]


def _size_that_fits(
    sheet: Sheet, margins: Mapping[int, float], of_letter: float, room: float
) -> int:
    """Return the largest font size with which a sheet is not wider than the text.

    If there is none, the smallest size is returned.
    """
    widths = _widths(sheet)
    for size, margin in margins.items():
        if sum(widths) * size * of_letter + len(widths) * margin <= room:
            return size
    return min(margins)


def _folded(text: str, most: int) -> list[str]:
    """Return the lines of a text, wrapped at a width."""
    if cell_len(text) <= most:
        return [text]
    return textwrap.wrap(text, most, break_on_hyphens=False)


def text(sheet: Sheet) -> list[str]:
    """Return the lines of a sheet for a terminal, in which long labels and names are wrapped."""
    widths = [_width_of(sheet, i) for i in range(len(sheet.models))]
    room = max(width() - sum(2 + each for each in widths), NARROWEST)
    names = [_folded(label(name), most) for name, most in zip(sheet.models, widths, strict=True)]
    parts = [
        [
            list(line)
            for row in part
            for line in zip_longest(
                _folded(label(row.label), room), *row.cells_in(_plain, _plain), fillvalue=""
            )
        ]
        for part in sheet.parts
    ]
    head = [["", *line] for line in zip_longest(*names, fillvalue="")]
    lines = _aligned([*head, *(line for part in parts for line in part)], "  ")
    rule = "─" * max(map(cell_len, lines))
    found, rest = [line.rstrip() for line in lines[: len(head)]], lines[len(head) :]
    for part in parts:
        found += [rule, *(line.rstrip() for line in rest[: len(part)])]
        rest = rest[len(part) :]
    return [*found, rule, sheet.note]


def frame(sheet: Sheet) -> pd.DataFrame:
    """Return the cells of a sheet as text in a frame with a column for each model."""
    lines = [line for part in _printed_lines(sheet, _plain, _plain) for line in part]
    index = pd.Index([first for first, *_ in lines], name="parameter")
    return pd.DataFrame([cells for _, *cells in lines], index=index, columns=list(sheet.models))


def markdown(sheet: Sheet) -> str:
    """Return a sheet as a pipe table."""
    lines = [line for part in _printed_lines(sheet, _in_markdown, _typeset) for line in part]
    head, *body = _aligned([_head(sheet, _in_markdown), *lines], " | ")
    widths = [len(cell) for cell in head.split(" | ")]
    rule = [":" + "-" * max(2, widths[0] - 1), *("-" * max(2, w - 1) + ":" for w in widths[1:])]
    rows = [f"| {line} |" for line in (head, " | ".join(rule), *body)]
    return "\n".join([*rows, "", _in_markdown(sheet.note), ""])


def latex(sheet: Sheet) -> str:
    """Return a sheet as a ``tabular`` with the rules of the package booktabs.

    If it would be wider than the text of an article, a smaller font is used.
    """
    size = _size_that_fits(sheet, _OF_LATEX_CELLS, _LETTER_OF_LATEX, TEXT_WIDTH)
    begin, end = list[str](), [r"\bottomrule", r"\end{tabular}"]
    columns = "l" + "c" * len(sheet.models)
    if size in _COMMANDS:
        space = f"{_OF_LATEX_CELLS[size] / 2:g}pt"
        begin, end = [rf"{{{_COMMANDS[size]}\setlength{{\tabcolsep}}{{{space}}}"], [*end, r"\par}"]
        columns = f"@{{}}{columns}@{{}}"
    lines = [*begin, rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    names = [_folded(label(name), NARROWEST) for name in sheet.models]
    head = [["", *map(_in_latex, line)] for line in zip_longest(*names, fillvalue="")]
    lines += [" & ".join(cells) + r" \\" for cells in head]
    for part in sheet.parts:
        lines.append(r"\midrule")
        for row in part:
            labels = map(_in_latex, _folded(label(row.label), _longest_label(sheet)))
            cells = row.cells_in(_in_latex, _in_formulas)
            found = zip_longest(labels, *cells, fillvalue="")
            lines += [" & ".join(each) + r" \\" for each in found]
    note = rf"{{\footnotesize {_in_latex(sheet.note)}\par}}"
    return "\n".join([*lines, *end, r"\par\smallskip", note, ""])


def html(sheet: Sheet) -> str:
    """Return a sheet as a table element in ASCII, which needs no declared encoding."""
    head = "".join(f'<th scope="col">{as_html(label(name))}</th>' for name in sheet.models)
    lines = ["<table>", f"<caption>{as_html(sheet.note)}</caption>"]
    lines.append(f"<thead>\n<tr><td></td>{head}</tr>\n</thead>")
    for part in sheet.parts:
        lines.append("<tbody>")
        for row in part:
            cells = row.cells_in(as_html, lambda cell: as_html(_typeset(cell)))
            found = "".join(f"<td>{'<br>'.join(cell)}</td>" for cell in cells)
            lines.append(f'<tr><th scope="row">{as_html(label(row.label))}</th>{found}</tr>')
        lines.append("</tbody>")
    made = "\n".join([*lines, "</table>", ""])
    return made.encode("ascii", "xmlcharrefreplace").decode()


def docx(sheet: Sheet) -> Any:
    """Return a sheet as a python-docx document.

    The font is small enough that no line of a cell is broken.

    Raises
    ------
    ConfigError
        If python-docx is not installed.
    """
    package = package_docx()
    document, points = package.Document(), package.shared.Pt
    page = document.sections[0]
    room = (page.page_width - page.left_margin - page.right_margin) / points(1)
    size = _size_that_fits(sheet, _OF_WORD_CELLS, _LETTER_OF_WORD, room)
    letter, margin = size * _LETTER_OF_WORD, _OF_WORD_CELLS[size]
    widths = [num * letter + margin for num in _widths(sheet)]
    rows = [row for part in sheet.parts for row in part]
    grid = document.add_table(1 + len(rows), 1 + len(sheet.models), style="Table Grid")
    for cell, name in zip(grid.rows[0].cells, _head(sheet, _plain), strict=True):
        cell.paragraphs[0].add_run(name).bold = True
    for line, row in zip(grid.rows[1:], rows, strict=True):
        first, *others = line.cells
        first.text = label(row.label)
        for cell, lines in zip(others, row.cells_in(_plain, _unbroken), strict=True):
            cell.text = "\n".join(lines)
    for line in grid.rows:
        for cell, wide in zip(line.cells, widths, strict=True):
            cell.width = points(wide)
            for run in cell.paragraphs[0].runs:
                run.font.size = points(size)
    document.add_paragraph(sheet.note)
    return document


@dataclass(frozen=True)
class Prose:
    """A paragraph.

    Attributes
    ----------
    sentences : tuple of str
        The sentences, with ASCII numbers.
    """

    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(self.sentences)

    def markdown(self) -> str:
        """Return the paragraph on one line, as a line that begins with ``+ x`` would be a list."""
        return _with_numbers(str(self), _in_markdown, _typeset) + "\n"

    def latex(self) -> str:
        """Return the paragraph with a line for each sentence, without an environment."""
        lines = [_with_numbers(each, _in_latex, _in_formulas) for each in self.sentences]
        return "\n".join([*lines, ""])

    def docx(self) -> Any:
        """Return a python-docx document.

        Raises
        ------
        ConfigError
            If python-docx is not installed.
        """
        document = package_docx().Document()
        document.add_paragraph(_with_numbers(str(self), _plain, _typeset))
        return document


def package_docx() -> Any:
    """Import python-docx, which is optional.

    Raises
    ------
    ConfigError
        If it is not installed.
    """
    try:
        import docx
    except ImportError as error:
        raise ConfigError(
            "--format docx needs the package python-docx; run pip install 'pyflowers[docx]', or "
            "choose another format"
        ) from error
    return docx


@dataclass(frozen=True)
class TextFile:
    """Text that is saved as a file."""

    text: str

    def save(self, path: Path) -> None:
        """Write the text in UTF-8."""
        path.write_text(self.text, encoding="utf-8")


def _in_markdown(text: str) -> str:
    return _OF_MARKDOWN.sub(r"\\\g<0>", text)


def _in_latex(text: str) -> str:
    r"""Escape text; after ``\\``, LaTeX would read a bracket or star as an argument."""
    escaped = "".join(_OF_LATEX.get(mark, mark) for mark in text)
    if escaped.startswith(("[", "*")):
        return "{}" + escaped
    return escaped


def _typeset(cell: str) -> str:
    """Return a cell of numbers with minus signs, and powers of ten instead of exponents."""

    def number(found: re.Match[str]) -> str:
        sign, digits, power = found.groups()
        digits = sign.replace("-", "−") + digits.replace("inf", "∞")
        if power is None:
            return digits
        return f"{digits}×10{str(int(power)).translate(_RAISED)}"

    return _NUMBER.sub(number, cell)


def _unbroken(cell: str) -> str:
    """Return a cell of numbers as it is typeset, without places where a line may be broken."""
    return _typeset(cell).replace(" ", "\N{NO-BREAK SPACE}").replace("-", "\N{NON-BREAKING HYPHEN}")


def _with_numbers(sentence: str, text: Callable[[str], str], numbers: Callable[[str], str]) -> str:
    """Return a sentence; one function formats its words, another its signed numbers."""
    made, end = "", 0
    for found in _NUMBER_IN_PROSE.finditer(sentence):
        made += text(sentence[end : found.start()]) + numbers(found[0])
        end = found.end()
    return made + text(sentence[end:])


def _in_formulas(cell: str) -> str:
    """Return a cell of numbers for LaTeX, in which each number is a formula."""

    def number(found: re.Match[str]) -> str:
        sign, digits, power = found.groups()
        digits = sign + digits.replace("inf", r"\infty")
        if power is None:
            return f"${digits}$"
        return rf"${digits} \times 10^{{{int(power)}}}$"

    return _NUMBER.sub(number, cell).replace("–", "--")
