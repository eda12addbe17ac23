"""Example tables that come with the package; ``example:NAME`` stands for the path of one."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from pyflowers.errors import DataError
from pyflowers.resources import example_tables

PREFIX = "example:"


def example(name: str) -> pd.DataFrame:
    """Return an example table that comes with the package.

    Parameters
    ----------
    name : str
        ``epilepsy``, ``flowers``, ``gaussian_mixture``, ``rats``, ``seeds`` or ``simulated_sleep``.
        Functions and commands that take the path of a table also take ``example:NAME``.

    Returns
    -------
    DataFrame
        The table.

    Raises
    ------
    DataError
        If no table has this name.

    See Also
    --------
    pyflowers.read_table : Read a table from a file.

    Examples
    --------
    The numbers of seizures of 59 patients in four periods (Thall and Vail, 1990):

    >>> import pyflowers
    >>> pyflowers.example("epilepsy").head(3)
       patient  visit  treated  base  age  seizures
    0        1      1        0    11   31         5
    1        1      2        0    11   31         3
    2        1      3        0    11   31         3
    """
    return pd.read_csv(table_path(f"{PREFIX}{name}"))


def is_example(source: str | Path) -> bool:
    """Whether the name of a table is ``example:NAME``."""
    return str(source).startswith(PREFIX)


def is_named(source: str | Path) -> bool:
    """Whether a table can be read again from its source: an example, or a file with an ending."""
    return is_example(source) or bool(Path(source).suffix)


def table_path(source: str | Path) -> Path:
    """Return the path of a table: the path of an example, or the source itself.

    Raises
    ------
    DataError
        If no example table has this name.
    """
    if not is_example(source):
        return Path(source)
    tables, name = example_tables(), str(source).removeprefix(PREFIX)
    if name not in tables:
        raise DataError(f"no example table is named {name!r}; choose one of {', '.join(tables)}")
    return tables[name]
