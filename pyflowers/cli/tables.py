"""Tables and results on the terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyflowers.cli.console import say, write
from pyflowers.display import Shown, rows_left_out, text_table

if TYPE_CHECKING:
    import pandas as pd


def show(found: Shown) -> None:
    """Print a result: its lines, and its tables whole but for their last rows."""
    write("\n")
    for part in found.contents():
        if isinstance(part, str | tuple):
            say(*((part,) if isinstance(part, str) else part))
        else:
            print_table(part)


def print_table(table: pd.DataFrame) -> None:
    """Print a table; a file of ``--out`` has the rows that are too many."""
    write(f"\n{text_table(table, colours=sys.stdout.isatty())}\n")
    num = rows_left_out(table)
    if num:
        file = table.attrs.get("file")
        say(f"{num} more rows; --out writes all to {file}" if file else f"{num} more rows")
