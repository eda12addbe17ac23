"""Tables from files: CSV, TSV, JSON records, Parquet and Excel."""

from __future__ import annotations

import gzip
import io
import json
import warnings
import zlib
from pathlib import Path
from typing import Any

import pandas as pd

from pyflowers.data.table import Table, levels_of, other_separator, table_of
from pyflowers.errors import DataError
from pyflowers.records import as_path

_SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}


def read_table(
    path: str | Path, *, sep: str | None = None, decimal: str = ".", encoding: str | None = None
) -> Table:
    """Read a tidy table from a CSV, TSV, JSON (records), Parquet or Excel file.

    Parameters
    ----------
    path : str or Path
        The file; its ending determines its format. CSV and TSV may be compressed (``.csv.gz``).
        Only the first sheet of an Excel file (``.xlsx``) is read.
    sep : str, optional
        Separator of the cells of a CSV or TSV file: one character, or ``tab``. Default: a comma for
        CSV, a tab for TSV.
    decimal : str
        Decimal mark of the numbers in a CSV or TSV file: ``.`` or ``,``.
    encoding : str, optional
        Encoding of a text file. Default: UTF-8.

    Returns
    -------
    Table
        The cells as they are written. In CSV, TSV and Excel files the header is row 1; in JSON and
        Parquet files the first record is row 1.

    Raises
    ------
    DataError
        If the file cannot be read as a table; the message names the file and, where possible, the
        row and the column.

    See Also
    --------
    pyflowers.from_frame : Create a table from a data frame.

    Examples
    --------
    >>> import pyflowers
    >>> table = pyflowers.read_table("data/flowers.csv")
    >>> table
    <pyflowers.Table: data/flowers.csv  12 rows>
    >>> list(table.cells)
    ['plant', 'month', 'flowers']
    """
    path = as_path(path, "a table", DataError)
    for name, given in (("sep", sep), ("decimal", decimal), ("encoding", encoding)):
        if not isinstance(given, str | None):
            raise DataError(f"{name} must be text, got {given!r}")
    suffix, within = path.suffix.lower(), Path(path.stem).suffix.lower()
    is_compressed = suffix == ".gz" and within in _SEPARATORS
    suffix = within if is_compressed else suffix
    if suffix not in (*_SEPARATORS, ".json", ".parquet", ".xlsx"):
        raise DataError(
            f"{path}: the file name does not show the format; use .csv, .tsv or .tab "
            "(optionally followed by .gz), .json, .parquet or .xlsx"
        )
    for name, is_given in (("--sep", sep is not None), ("--decimal", decimal != ".")):
        if is_given and suffix not in _SEPARATORS:
            raise DataError(f"{path}: {name} applies to CSV and TSV files only; leave it out")
    if encoding is not None and suffix in (".parquet", ".xlsx"):
        raise DataError(f"{path}: --encoding applies to text files only; leave it out")
    if decimal not in (".", ","):
        raise DataError(f"--decimal must be '.' or ',', got {decimal!r}")
    try:
        if not path.exists():
            raise DataError(f"{path}: no such file; check the path")
        if not path.is_file():
            raise DataError(f"{path} is not a file; name a table")
        if suffix == ".json":
            return _read_json(path, encoding)
        if suffix == ".parquet":
            frame = pd.read_parquet(path)
            return table_of(frame, str(path), str(path), levels=levels_of(frame))
        if suffix == ".xlsx":
            return _read_excel(path)
        content = gzip.decompress(path.read_bytes()) if is_compressed else path.read_bytes()
        return _read_delimited(path, content, sep or _SEPARATORS[suffix], decimal, encoding)
    except DataError:
        raise
    except ImportError as error:
        package = "pyarrow" if suffix == ".parquet" else "openpyxl"
        raise DataError(
            f"{path} cannot be read without {package}; run pip install 'pyflowers[{suffix[1:]}]', "
            "or save the table as CSV"
        ) from error
    except UnicodeError as error:
        if encoding is not None:
            remedy = f"{encoding} text; name its encoding with --encoding"
        else:
            remedy = (
                "UTF-8 text; name its encoding with --encoding (latin-1 is likely), or save it as "
                "UTF-8"
            )
        raise DataError(f"{path} is not {remedy}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path} is damaged or not a gzip file ({error}); copy it again, or correct its name"
        ) from error
    except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        # pandas' parser errors are ValueErrors; the first line of such a message names the row.
        detail = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DataError(f"{path}: cannot be read as {suffix[1:].upper()}: {detail}") from error


def _read_delimited(
    path: Path, content: bytes, sep: str, decimal: str, encoding: str | None
) -> Table:
    """Read all cells as text, so that labels stay as they are written; the header is row 1."""
    separator = {"tab": "\t", "\\t": "\t"}.get(sep, sep)
    if len(separator) != 1 or not (separator.isprintable() or separator == "\t"):
        raise DataError(f"--sep must be one printable character or 'tab', got {sep!r}")
    if encoding is None and content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(f"{path} is UTF-16 text; add --encoding utf-16, or save it as UTF-8")
    if encoding is None and b"\x00" in content[:4]:
        raise DataError(f"{path} is not text; save it as CSV in UTF-8")
    try:
        cells = pd.read_csv(
            io.BytesIO(content),
            sep=separator,
            header=None,
            dtype=str,
            keep_default_na=False,
            na_filter=False,
            skip_blank_lines=False,
            encoding=encoding or "utf-8-sig",
        )
    except pd.errors.EmptyDataError as error:
        raise DataError(
            f"{path}: the file is empty; a header and at least one row are needed"
        ) from error
    except pd.errors.ParserError as error:
        # In a file with another separator, decimal commas make the rows differ in length.
        first = io.TextIOWrapper(io.BytesIO(content), encoding or "utf-8-sig").readline()
        if separator in first or not (hint := other_separator(first)):
            raise
        raise DataError(f"{path}: its rows differ in length{hint}") from error
    return _below_header(cells.fillna(""), path, decimal)


def _below_header(cells: pd.DataFrame, path: Path, decimal: str = ".") -> Table:
    """Return the rows below the column names in the first row; leave out unnamed columns."""
    body = cells.iloc[1:].set_axis(list(map(str, cells.iloc[0])), axis=1)
    # Blank lines, usually at the end, are not observations. The others keep their row numbers.
    body = body[~(body == "").all(axis=1)]
    body = body.loc[:, body.columns != ""]
    return table_of(body, str(path), f"{path}, row 1", body.index + 1, decimal)


def _read_json(path: Path, encoding: str | None) -> Table:
    records = json.loads(path.read_text(encoding=encoding or "utf-8-sig"))
    if not (isinstance(records, list) and all(isinstance(r, dict) for r in records)):
        example = '[{"plant": "a", "month": 1, "flowers": 4}]'
        raise DataError(f"{path}: JSON must hold a list of records, such as {example}")
    names = dict.fromkeys(name for record in records for name in record)
    columns = {
        name: pd.Series([record.get(name) for record in records], dtype=object) for name in names
    }
    return table_of(pd.DataFrame(columns), str(path), str(path))


def _read_excel(path: Path) -> Table:
    """Read the cells of the first sheet, whose header is row 1."""
    import openpyxl

    def plain(cell: Any) -> Any:
        # A spreadsheet does not distinguish 1 from 1.0.
        is_whole = isinstance(cell, float) and cell.is_integer()
        return int(cell) if is_whole else "" if cell is None else cell

    try:
        with warnings.catch_warnings(action="ignore"):  # about styles and menus
            sheet, *others = openpyxl.load_workbook(path, data_only=True).worksheets
        rows = [list(map(plain, row)) for row in sheet.values]
    except OSError:
        raise
    except Exception as error:  # openpyxl has no specific class for a damaged file
        reason = type(error).__name__
        raise DataError(f"{path} is not an Excel file ({reason}); save it as .xlsx") from error
    table = _below_header(pd.DataFrame(rows or [[]], dtype=object), path)
    if others:
        table.notes.append(f"{path}: only its first sheet, {sheet.title!r}, is read")
    return table
