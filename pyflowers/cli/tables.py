"""Tables on the terminal."""

from __future__ import annotations

import sys

import click
import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pyflowers.summary import format_cell, format_number

MOST_ROWS = 60


def print_summary(table: pd.DataFrame) -> None:
    """Print a summary with three significant digits, and its notes."""
    shown = table.head(MOST_ROWS)
    grid = _grid(["parameter"], list(shown.columns))
    for name, row in shown.iterrows():
        cells = [format_cell(str(column), float(value)) for column, value in row.items()]
        # Text, not str: rich would read [1] in mu_plant[1] as markup.
        grid.add_row(Text(str(name)), *cells)
    _print(grid)
    if len(table) > len(shown):
        click.echo(f"{len(table) - len(shown)} more rows are in summary.csv")
    for note in table.attrs.get("notes", []):
        click.echo(f"note: {note}")


def print_comparison(table: pd.DataFrame) -> None:
    """Print a comparison's quantities, a block for each parameter."""
    grid = _grid(["parameter", "method"], list(table.columns))
    elements = list(dict.fromkeys(table.index.get_level_values("parameter")))
    for element in elements[: MOST_ROWS // 6]:
        for number, (method, row) in enumerate(table.loc[element].iterrows()):
            name = Text(element if number == 0 else "")
            grid.add_row(name, str(method), *(format_number(float(value)) for value in row))
        grid.add_section()
    _print(grid)
    if len(elements) > MOST_ROWS // 6:
        click.echo(f"{len(elements) - MOST_ROWS // 6} more parameters are in table.csv")


def print_methods(table: pd.DataFrame) -> None:
    """Print what there is to say of each method as a whole."""
    columns = [column for column in table.columns if column != "warnings"]
    grid = _grid(["method"], columns)
    for method, row in table.iterrows():
        grid.add_row(str(method), *(_plain(row[column]) for column in columns))
    _print(grid)
    for method, warning in table["warnings"].items():
        if warning:
            click.echo(f"note: {method}: {warning}")


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
    console = Console(file=sys.stdout, highlight=False, width=1000)
    console.width = console.measure(grid).maximum
    click.echo()
    console.print(grid)
    click.echo()
