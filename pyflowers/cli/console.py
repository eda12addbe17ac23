"""The output of the command line: labels are shown safely, and a command continues if output fails.

Everything that a command prints goes through this module. It escapes control characters, which a
user's labels may contain, and it never raises: when a pipe is closed or the disk is full, the
command continues silently and :func:`exit_status` reports this at the end. With ``--json``, only
:func:`say_json` prints; with ``--quiet`` alone, nothing does.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from pyflowers.display import Shown, Styled, left_out, shown, text_table, wrapped_pieces

if TYPE_CHECKING:
    import pandas as pd

BROKEN_PIPE = 141
"""The exit status that a shell reports for a program ended by SIGPIPE."""

_failures: list[OSError] = []

_PRINTED = "pyflowers.printed"
"""Key in a command's context; its value ``json`` or ``nothing`` is printed instead of text."""


def output_options() -> list[click.Parameter]:
    """Return ``--json`` and ``--quiet``, which every command has but none has to handle."""
    texts = {
        "--json": "Print JSON instead of text.",
        "--quiet": "Print only errors; with --json, only JSON and errors.",
    }
    return [
        click.Option([name], is_flag=True, callback=_choose, expose_value=False, help=text)
        for name, text in texts.items()
    ]


def _choose(ctx: click.Context, parameter: click.Parameter, is_given: bool) -> None:
    if is_given and parameter.name == "json":
        ctx.meta[_PRINTED] = "json"
    elif is_given:
        ctx.meta.setdefault(_PRINTED, "nothing")
        logging.getLogger("pyflowers").setLevel(logging.ERROR)


def _printed() -> str:
    context = click.get_current_context(silent=True)
    if context is None:
        return "text"
    return str(context.meta.get(_PRINTED, "text"))


def shows_progress() -> bool:
    """Whether to draw progress bars: on a terminal, unless ``--quiet`` is given."""
    return sys.stderr.isatty() and sys.stdout.isatty() and not is_quiet()


def is_quiet() -> bool:
    """Whether only errors are printed, as with ``--quiet``."""
    return not logging.getLogger("pyflowers").isEnabledFor(logging.WARNING)


def say(*pieces: str) -> None:
    """Print a line of plain and styled pieces; print nothing with ``--json`` or ``--quiet``."""
    if _printed() == "text":
        _write("".join(map(_piece, pieces)) + "\n")


def show(found: Shown, *, in_full: bool = False) -> None:
    """Print the lines and tables of a result, and shorten long tables."""
    for part in found.lines(in_full=in_full):
        if isinstance(part, tuple):
            say(*wrapped_pieces(part))
        else:
            print_table(part)


def print_table(table: pd.DataFrame) -> None:
    """Print a table; if it has too many rows, name the file in ``--out`` that has all of them."""
    if _printed() != "text":
        return
    _write(f"\n{text_table(table, colours=sys.stdout.isatty())}")
    left, file = left_out(table), table.attrs.get("file")
    if left and file and "hidden" not in table.attrs:
        left += f"; {file} in --out has all rows"
    if left:
        say(left)
    say()


def say_json(record: Mapping[str, Any]) -> None:
    """Print a record as JSON in ASCII, because some terminals cannot show other characters."""
    if _printed() == "json":
        _write(json_of(record, ensure_ascii=True).replace("\x7f", "\\u007f") + "\n")


def json_of(record: Mapping[str, Any], *, ensure_ascii: bool = False) -> str:
    """Return a record as JSON, with null for infinity and NaN, which JSON cannot represent."""
    from pyflowers.records import plain  # pyflowers --help prints no record and needs no pydantic

    return json.dumps(plain(record), indent=2, ensure_ascii=ensure_ascii, allow_nan=False)


def complain(text: str) -> None:
    """Print a line to standard error; do nothing if that fails."""
    with suppress(OSError, ValueError):
        click.echo(shown(text), err=True)


def open_streams() -> None:
    """Open the standard streams that the caller closed.

    Otherwise the next file to be opened would get the free descriptor, and output would go there.
    """
    _failures.clear()
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError as error:
            os.open(os.devnull, os.O_RDWR)
            if name == "stdout":
                _failures.append(error)
        if getattr(sys, name) is None:
            mode = {"stdin": "r"}.get(name, "w")
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def exit_status(status: int) -> int:
    """Return a command's exit status, or the status for output that could not be written."""
    if not _failures:
        return status
    if _failures[0].errno == errno.EPIPE:
        return BROKEN_PIPE
    reason = _failures[0].strerror
    complain(f"error: the output cannot be written ({reason}); the command's files are saved")
    return max(status, 1)


def drop_output() -> None:
    """Discard all further output, because writing the rest at Python's exit would fail again."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def _piece(piece: str) -> str:
    """Return text as it is printed, styled where the terminal and the user allow it."""
    plain = os.environ.get("TERM") == "dumb" or os.environ.get("NO_COLOR")
    if isinstance(piece, Styled) and not plain:
        return click.style(shown(piece), **piece.style)
    return shown(piece)


def _write(text: str) -> None:
    """Print text, or nothing after a failure."""
    if _failures:
        return
    try:
        try:
            click.echo(text, nl=False)
        except UnicodeEncodeError as error:
            known = text.encode(error.encoding, "backslashreplace")
            click.echo(known.decode(error.encoding), nl=False)
    except OSError as error:
        _failures.append(error)
        drop_output()
