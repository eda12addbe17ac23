"""A section of the report: a record of everything that the section adds to the page.

The page is built from a list of sections. To add a section, write a module that defines a
:class:`Section`, and add this section to the list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from pyflowers.display import Result, format_cell, shown
from pyflowers.plots.results import drawings_of
from pyflowers.reports.markup import Text, code, number, paragraph
from pyflowers.reports.material import Material

T = TypeVar("T")

Drawings = Mapping[str, Callable[[], Figure]]
"""Functions that draw the figures of a section, by name."""

MOST_ROWS = 300
"""The largest number of rows in a table; for the other rows, the page refers to the file."""


@dataclass(frozen=True)
class Table:
    """A table on the page.

    Attributes
    ----------
    caption : str
        What the table shows.
    head : sequence of str
        A heading for each column.
    rows : sequence of sequence of str or Markup
        Cells; the first cell names the row.
    text_columns : sequence of int
        The positions of columns that hold text instead of numbers.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Text]]
    text_columns: Sequence[int] = ()


@dataclass(frozen=True)
class Picture:
    """The place of a figure on the page. It is left out if the section does not draw the figure.

    Attributes
    ----------
    name : str
        The figure's name among the section's figures.
    caption : str or Markup
        What the figure shows.
    """

    name: str
    caption: Text


Block = Markup | Table | Picture
"""A piece of a section: HTML such as a paragraph, a table or a picture."""


def _nothing(_: Material) -> dict[str, Any]:
    return {}


def _no_text(_: Material) -> Text:
    return ""


@dataclass(frozen=True)
class Section:
    """A section of the report.

    Every function takes the ``Material`` of the report: the fits and the results that are computed
    from them.

    Attributes
    ----------
    id : str
        The section's anchor on the page, and the key of its record.
    title : callable
        Function that returns the heading.
    content : callable
        Function that returns or yields the blocks. A section without blocks is left out, together
        with its entry in the contents.
    figures : callable
        Function that returns the figures that need only the arguments of the report, such as the
        fits. They are drawn while the results are computed.
    late_figures : callable
        Function that returns the figures that need the results.
    in_contents : str
        The entry in the contents, if it is not the title.
    for_phones : bool
        Whether its figures are also drawn in a narrow version for phones; other figures scroll.
    banner : callable
        Function that returns a sentence on the section for the banner at the top of the page.
    record : callable
        Function that returns what the JSON record of the page holds for the section.

    Examples
    --------
    >>> import pyflowers
    >>> from pyflowers.reports import SECTIONS, Section
    >>> from pyflowers.reports.markup import paragraph
    >>> def content(material):
    ...     yield paragraph(f"This report is about {len(material.fits)} fit.")
    >>> mine = Section("mine", lambda material: "How many fits there are", content)
    >>> fit = pyflowers.fit("iid_normal", seed=1, engine="exact")
    >>> path = pyflowers.report(fit, "report.html", sections=[*SECTIONS, mine])
    """

    id: str
    title: Callable[[Material], str]
    content: Callable[[Material], Iterable[Block]]
    figures: Callable[[Material], Drawings] = _nothing
    late_figures: Callable[[Material], Drawings] = _nothing
    in_contents: str = ""
    for_phones: bool = False
    banner: Callable[[Material], Text] = _no_text
    record: Callable[[Material], Mapping[str, Any]] = _nothing


def section_of(found: Result, title: str) -> Section:
    """Return a section that shows a result: its lines, tables and figures, and its record.

    Parameters
    ----------
    found : Result
        A result, such as :func:`pyflowers.contrast` or :func:`pyflowers.predict` returns.
    title : str
        The heading of the section. Its words are also the section's anchor.

    Examples
    --------
    >>> import pyflowers
    >>> from pyflowers.reports import SECTIONS, section_of
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> found = pyflowers.contrast(fit, "mu_plant[1] - mu_plant[2]")
    >>> mine = section_of(found, "The first two plants")
    >>> path = pyflowers.report(fit, "report.html", sections=[*SECTIONS, mine])
    """
    drawings = drawings_of(found)

    def content(_: Material) -> Iterable[Block]:
        for part in found.lines():
            if isinstance(part, tuple):
                yield paragraph(shown("".join(part)))
            else:
                yield table_of(part, title)
        for name in drawings:
            yield Picture(name, title)

    return Section(
        re.sub(r"\W+", "-", title.lower()).strip("-"),
        lambda _: title,
        content,
        figures=lambda _: drawings,
        record=lambda _: found.to_dict(),
    )


def table_of(table: pd.DataFrame, caption: str) -> Table:
    """Return a table of numbers and text for the page."""
    num_names = table.index.nlevels
    head = ["" if name is None else str(name) for name in table.index.names]
    is_text = [all(isinstance(cell, str) for cell in table[column]) for column in table]
    texts = [i for i, is_so in enumerate(is_text) if is_so]
    rows = []
    for names, *cells in table.head(MOST_ROWS).itertuples(name=None):
        labels = map(str, names if isinstance(names, tuple) else (names,))
        numbers = (
            cell if isinstance(cell, str) else number(cell, format_cell(str(column), cell))
            for column, cell in zip(table.columns, cells, strict=True)
        )
        rows.append([*map(code, labels), *numbers])
    in_text = [*range(1, num_names), *(num_names + i for i in texts)]
    return Table(caption, [*head, *map(str, table.columns)], rows, in_text)


def side_by_side(columns: Sequence[Mapping[str, T]]) -> dict[str, list[T | None]]:
    """Return a row for each name that any column has, with the value in each column."""
    names = dict.fromkeys(name for column in columns for name in column)
    return {name: [column.get(name) for column in columns] for name in names}
