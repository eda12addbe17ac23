"""Tables on the terminal."""

from __future__ import annotations

import sys
from io import StringIO

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pyflowers.cli.console import label, say, write
from pyflowers.fits.summary import format_cell, format_elpd, format_number

MOST_ROWS = 60


def print_summary(table: pd.DataFrame) -> None:
    """Print a summary with three significant digits, and its notes."""
    shown = table.head(MOST_ROWS)
    grid = _grid(["parameter"], list(shown.columns))
    for name, row in shown.iterrows():
        cells = [format_cell(str(column), float(value)) for column, value in row.items()]
        # Text, not str: rich would read [1] in mu_plant[1] as markup.
        grid.add_row(Text(label(str(name))), *cells)
    _print(grid)
    if len(table) > len(shown):
        say(f"{len(table) - len(shown)} more rows are in summary.csv")
    for note in table.attrs.get("notes", []):
        say(f"note: {note}")


def print_comparison(table: pd.DataFrame) -> None:
    """Print a comparison's quantities, a block for each parameter."""
    grid = _grid(["parameter", "method"], list(table.columns))
    elements = list(dict.fromkeys(table.index.get_level_values("parameter")))
    for element in elements[: MOST_ROWS // 6]:
        for number, (method, row) in enumerate(table.loc[element].iterrows()):
            name = Text(label(element) if number == 0 else "")
            grid.add_row(name, str(method), *(format_number(float(value)) for value in row))
        grid.add_section()
    _print(grid)
    if len(elements) > MOST_ROWS // 6:
        say(f"{len(elements) - MOST_ROWS // 6} more parameters are in table.csv")


def print_quantiles(table: pd.DataFrame, more_in: str) -> None:
    """Print a table of numbers, a row for each name."""
    shown = table.head(MOST_ROWS)
    grid = _grid([str(table.index.name)], list(shown.columns))
    for name, row in shown.iterrows():
        grid.add_row(Text(label(str(name))), *(_plain(value) for value in row))
    _print(grid)
    if len(table) > len(shown):
        say(f"{len(table) - len(shown)} more rows are in {more_in}")


def print_moves(table: pd.DataFrame, more_in: str) -> None:
    """Print conclusions that move, a block for each parameter."""
    shown = table.head(MOST_ROWS)
    grid = _grid(["parameter", "conclusion"], [*shown.columns])
    previous = None
    for index, row in shown.iterrows():
        name, conclusion = map(str, index)  # type: ignore[call-overload]
        cells = [_plain(value) for value in row]
        grid.add_row(Text(label(name) if name != previous else ""), conclusion, *cells)
        previous = name
    _print(grid)
    if len(table) > len(shown):
        say(f"{len(table) - len(shown)} more rows are in {more_in}")


def print_indexed(table: pd.DataFrame, file: str) -> None:
    """Print a table whose index names its rows; `file` has the rows that are too many."""
    shown = table.head(MOST_ROWS)
    grid = _grid([str(name) for name in table.index.names], list(shown.columns))
    before: tuple[object, ...] = ()
    for key, row in zip(shown.index, shown.itertuples(index=False), strict=True):
        names = key if isinstance(key, tuple) else (key,)
        # A name that is the same as in the row above is not repeated.
        labels = ["" if names[:-1] == before else str(name) for name in names[:-1]]
        before = names[:-1]
        cells = [
            value if isinstance(value, str) else format_cell(str(column), float(value))
            for column, value in zip(shown.columns, row, strict=True)
        ]
        grid.add_row(*(Text(label(name)) for name in (*labels, str(names[-1]))), *cells)
    _print(grid)
    if len(table) > len(shown):
        say(f"{len(table) - len(shown)} more rows; --out writes all to {file}")


def print_methods(table: pd.DataFrame) -> None:
    """Print the overall results of each method."""
    columns = [column for column in table.columns if column != "warnings"]
    grid = _grid(["method"], columns)
    for method, row in table.iterrows():
        grid.add_row(str(method), *(_plain(row[column]) for column in columns))
    _print(grid)
    for method, warning in table["warnings"].items():
        if warning:
            say(f"note: {method}: {warning}")


def print_models(table: pd.DataFrame) -> None:
    """Print a row for each model, counts as whole numbers."""
    grid = _grid(["model"], list(table.columns))
    for model, *row in table.itertuples():
        cells = (f"{value}" if isinstance(value, int) else format_elpd(value) for value in row)
        grid.add_row(Text(label(str(model))), *cells)
    _print(grid)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else format_number(float(str(value)))


def _grid(left: list[str], right: list[str]) -> Table:
    """Return an empty table, as narrow as its numbers allow: ten columns fit 80 characters."""
    grid = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for column in left:
        grid.add_column(column, no_wrap=True)
    for column in right:
        header = column.replace("_", "\n") if len(column) > 6 else column
        grid.add_column(Text(header), justify="right", no_wrap=True)
    return grid


def _print(grid: Table) -> None:
    """Print a table whole: a terminal that is too narrow wraps it, but nothing is cut off."""
    text = StringIO()
    console = Console(file=text, highlight=False, width=1000, force_terminal=sys.stdout.isatty())
    console.width = console.measure(grid).maximum
    console.print(grid)
    write(f"\n{text.getvalue()}\n")
