"""Tables from files: CSV, TSV, JSON records, Parquet and Excel."""

from __future__ import annotations

import gzip
import io
import json
import re
import warnings
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from pyflowers.data.columns import MISSING
from pyflowers.data.examples import table_path
from pyflowers.data.table import Table, other_separator, table_of, text_levels
from pyflowers.errors import DataError
from pyflowers.records import as_path

_SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}

_EMPTY = "the file is empty; a header and at least one row are needed"

LARGEST = 2_000_000_000
"""The largest size of an unpacked file, in bytes; even a small compressed file may exceed it."""

_OTHER_FORMATS = {
    b"\x1f\x8b": "is compressed with gzip; add .gz to its name",
    b"PK\x03\x04": "is an Excel file or a zip archive; rename it to end in .xlsx, or unpack it",
}
"""The first bytes of files that are not text, each with the problem and the remedy."""


def read_table(
    path: str | Path, *, sep: str | None = None, decimal: str = ".", encoding: str | None = None
) -> Table:
    """Read a tidy table from a CSV, TSV, JSON (records), Parquet or Excel file.

    Parameters
    ----------
    path : str or Path
        The file, whose ending determines its format, or ``example:NAME`` for a table that
        :func:`pyflowers.example` returns. CSV and TSV may be compressed (``.csv.gz``). Only the
        first sheet of an Excel file (``.xlsx``) is read.
    sep : str, optional
        Separator of the cells of a CSV or TSV file: one character, or ``tab``. Default: a comma for
        CSV, a tab for TSV.
    decimal : str
        Decimal mark of the numbers in a CSV or TSV file: ``.`` or ``,``. The other mark, which may
        separate thousands, is rejected in numbers.
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
    pyflowers.example : Return an example table as a data frame.

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
    file = table_path(path)
    suffix, within = file.suffix.lower(), Path(file.stem).suffix.lower()
    is_compressed = suffix == ".gz" and within in _SEPARATORS
    if is_compressed:
        suffix = within
    if suffix not in (*_SEPARATORS, ".json", ".parquet", ".xlsx"):
        if not path.name:
            raise DataError(f'"{path}" is a folder; give the path of a table')
        remedy = "use"
        if str(path) == "-" or path.parent in (Path("/dev"), Path("/dev/fd")):
            remedy = "save the input in a file whose name ends in"
        raise DataError(
            f"{path}: the file name does not show the format; {remedy} .csv, .tsv or .tab "
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
        if encoding is not None:
            "".encode(encoding)
    except (LookupError, ValueError) as error:
        raise DataError(
            "--encoding must be the name of a text encoding, such as utf-8, latin-1 or cp1252, "
            f"got {encoding!r}"
        ) from error
    options = {"sep": sep, "encoding": encoding}
    reading = {name: option for name, option in options.items() if option is not None}
    if decimal != ".":
        reading["decimal"] = decimal
    try:
        if not file.exists():
            raise DataError(f"{path}: no such file; check the path")
        if not file.is_file():
            raise DataError(f"{path} is not a file; give the path of a table")
        if suffix == ".json":
            return _read_json(path, reading)
        if suffix == ".parquet":
            frame = pd.read_parquet(file)
            return table_of(frame, str(path), str(path), typed=True)
        if suffix == ".xlsx":
            return _read_excel(path)
        if sep is None:
            sep = _SEPARATORS[suffix]
        if is_compressed:
            return _read_delimited(path, _unpacked(file), sep, reading)
        return _read_delimited(path, file.read_bytes(), sep, reading)
    except DataError:
        raise
    except ImportError as error:
        package = {".parquet": "pyarrow", ".xlsx": "openpyxl"}.get(suffix)
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
        detail = str(error).strip().partition("\n")[0] or type(error).__name__
        raise DataError(f"{path}: cannot be read as {suffix[1:].upper()}: {detail}") from error


def _unpacked(path: Path) -> bytes:
    """Unpack a file, up to the largest size."""
    with gzip.open(path) as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise DataError(
            f"{path} is larger than {LARGEST / 1e9:g} GB when unpacked; divide it into "
            "smaller files, or unpack it yourself"
        )
    return content


def _read_delimited(path: Path, content: bytes, sep: str, reading: Mapping[str, str]) -> Table:
    """Read all cells as text, so that labels stay as they are written; the header is row 1."""
    encoding = reading.get("encoding")
    separator = {"tab": "\t", "\\t": "\t"}.get(sep, sep)
    if len(separator) != 1 or not (separator.isprintable() or separator == "\t"):
        raise DataError(f"--sep must be one printable character or 'tab', got {sep!r}")
    for first_bytes, wrong in _OTHER_FORMATS.items():
        if content.startswith(first_bytes):
            raise DataError(f"{path} {wrong}")
    if encoding is None and content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(f"{path} is UTF-16 text; add --encoding utf-16, or save it as UTF-8")
    # In a text file, NUL is rejected later, with its row.
    is_binary = b"\0" in content and "\ufffd" in content.decode(errors="replace")
    if encoding is None and (b"\0" in content[:4] or is_binary):
        raise DataError(f"{path} is not text; save it as CSV in UTF-8")
    # pandas takes the number of columns from the first line, so this line must not be blank.
    lines = enumerate(io.TextIOWrapper(io.BytesIO(content), encoding or "utf-8-sig"))
    blank, first = next((line for line in lines if line[1].strip(" \n")), (0, ""))
    if not first:
        raise DataError(f"{path}: {_EMPTY}")
    try:
        cells = pd.read_csv(
            io.BytesIO(content),
            sep=separator,
            header=None,
            skiprows=blank,
            dtype=str,
            keep_default_na=False,
            na_filter=False,
            skip_blank_lines=False,
            encoding=encoding or "utf-8-sig",
        )
    except pd.errors.ParserError as error:
        complaint = _complaint(str(error), first, separator, blank + 1)
        if complaint is None:
            raise
        raise DataError(f"{path}, {complaint}") from error
    cells.index += blank
    table = _below_header(cells.fillna(""), path, reading)
    text, header = content.decode(encoding or "utf-8-sig"), list(map(str, cells.iloc[0]))
    numeric = {i for i, n in enumerate(header) if n and not table.columns[n].holds_labels}
    quoted = [header[i] for i in sorted(_quoted_columns(text, separator, numeric))]
    levels = {name: text_levels(table.columns[name]) for name in quoted}
    return replace(table, levels=levels, quoted=quoted)


def _quoted_columns(text: str, separator: str, numeric: set[int]) -> set[int]:
    """Return the columns of quoted numbers, which hold text unless every cell is in quotes.

    Parameters
    ----------
    text : str
        The contents of the file.
    separator : str
        The separator of its cells.
    numeric : set of int
        The positions of the columns whose cells are all numbers or missing.
    """
    if '"' not in text:
        return set()
    found, ever, is_every = numeric, set[int](), True
    rows = _rows_of(text, separator)
    next(rows)  # the header
    for row in rows:
        missing = {i for i, cell in enumerate(row) if cell.strip().lower() in MISSING}
        # A cell with a separator needs quotes, so the quotes do not show its type.
        quoted = {i for i, its in enumerate(row) if its.startswith('"') and separator not in its}
        found, ever = found & (quoted | missing), ever | quoted
        is_every = is_every and len(quoted | missing) == len(row)
        if not found:
            return found
    # If all cells of a file are in quotes, the quotes do not show their types.
    return set() if is_every else found & ever


def _rows_of(text: str, separator: str) -> Iterator[list[str]]:
    """Yield the cells of each row that is not blank, with their quotes."""
    mark = re.escape(separator)
    row = list[str]()
    for cell in re.finditer(rf'("(?:[^"]|"")*"|[^{mark}\r\n]*)({mark}|\r\n?|\n|\Z)', text):
        row.append(cell[1])
        if cell[2] != separator:
            if row != [""]:
                yield row
            row = []


def _complaint(error: str, first: str, separator: str, header: int) -> str | None:
    """Return a clearer version of a message from pandas' parser, or None if it is unknown."""
    if found := re.search(r"EOF inside string starting at row (\d+)", error):
        return (
            f"row {int(found[1]) + 1}: a cell begins with a quotation mark that is never closed; "
            "close it or remove it"
        )
    if not (found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", error)):
        return None
    expected, row, num = found.groups()
    # In a file with another separator, decimal commas make the rows differ in length.
    hint = ""
    if separator not in first:
        hint = other_separator(first)
    is_below = int(row) == header + 1
    if not hint and (expected == "1" or (is_below and first.startswith("#"))):
        hint = "; remove any title or comment above the column names"
    elif not hint:
        hint = (
            f"; remove the extra cell or separator, or put a cell that contains {separator!r} in "
            "double quotes"
        )
    return f"row {row}: the number of cells is {num}, but it is {expected} in row {header}{hint}"


def _below_header(
    cells: pd.DataFrame, path: Path, reading: Mapping[str, str] | None = None
) -> Table:
    """Return the rows below the first, which holds the column names; leave out unnamed columns."""
    # Blank rows, usually at the end, are not observations. The other rows keep their row numbers.
    cells = cells[~(cells == "").all(axis=1)]
    if cells.empty:
        raise DataError(f"{path}: {_EMPTY}")
    body = cells.iloc[1:].set_axis(list(map(str, cells.iloc[0])), axis=1)
    body = body.loc[:, body.columns != ""]
    header = f"{path}, row {cells.index[0] + 1}"
    return table_of(body, str(path), header, body.index + 1, reading=reading)


def _read_json(path: Path, reading: Mapping[str, str]) -> Table:
    text = path.read_text(encoding=reading.get("encoding", "utf-8-sig"))
    if not text.strip():
        raise DataError(f"{path}: the file is empty; a list of records is needed")
    records = json.loads(text)
    if not (isinstance(records, list) and all(isinstance(r, dict) for r in records)):
        example = '[{"plant": "a", "month": 1, "flowers": 4}]'
        raise DataError(
            f"{path}: a table in JSON must be a list of records, such as {example}; in pandas, "
            "write it with to_json(path, orient='records')"
        )
    names = dict.fromkeys(name for record in records for name in record)
    columns = {
        name: pd.Series([record.get(name) for record in records], dtype=object) for name in names
    }
    return table_of(pd.DataFrame(columns), str(path), str(path), reading=reading)


def _read_excel(path: Path) -> Table:
    """Read the cells of the first sheet, whose header is row 1."""
    import openpyxl  # optional

    def plain(cell: Any) -> Any:
        if cell is None:
            return ""
        # A spreadsheet does not distinguish 1 from 1.0.
        is_whole = isinstance(cell, float) and cell.is_integer()
        if is_whole:
            return int(cell)
        return cell

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
