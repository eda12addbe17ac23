"""What the command line says: labels shown safely, and no result lost to a terminal.

Everything that a command prints goes through :func:`say`. It escapes control characters, which a
user's labels may hold, and it never raises: when the reader has gone, or the disk is full, the
command continues silently and :func:`exit_status` says so at the end. With ``--json`` only
:func:`say_json` prints, with ``--quiet`` nothing does.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import click

from pyflowers.display import Styled, shown

BROKEN_PIPE = 141
"""What a shell reports of a program that SIGPIPE ended."""

_failures: list[OSError] = []

_PRINTED = "pyflowers.printed"
"""In the context of a command: ``json`` or ``nothing``, where that is printed in place of text."""


def output_options(command: click.Command) -> list[click.Parameter]:
    """Return the parameters of a command with ``--json`` and ``--quiet``.

    A command with a parameter `as_json` is told whether JSON is wanted; the others need not know.
    """
    own = [parameter for parameter in command.params if parameter.name != "as_json"]
    as_json = click.Option(
        ["--json", "as_json"],
        is_flag=True,
        callback=_print_json,
        expose_value=len(own) < len(command.params),
        help="Print JSON in place of text.",
    )
    quiet = click.Option(
        ["--quiet"],
        is_flag=True,
        callback=_print_nothing,
        expose_value=False,
        help="Print nothing but errors; with --json, nothing but JSON and errors.",
    )
    return [*own, as_json, quiet]


def _print_json(ctx: click.Context, _: click.Parameter, is_given: bool) -> bool:
    if is_given:
        ctx.meta[_PRINTED] = "json"
    return is_given


def _print_nothing(ctx: click.Context, _: click.Parameter, is_given: bool) -> None:
    if is_given:
        ctx.meta.setdefault(_PRINTED, "nothing")
        logging.getLogger("pyflowers").setLevel(logging.ERROR)


def _printed() -> str:
    context = click.get_current_context(silent=True)
    return "text" if context is None else context.meta.get(_PRINTED, "text")


def shows_progress() -> bool:
    """Whether to draw bars: on a terminal, unless ``--quiet`` is given."""
    is_quiet = not logging.getLogger("pyflowers").isEnabledFor(logging.WARNING)
    return sys.stderr.isatty() and sys.stdout.isatty() and not is_quiet


def say(*pieces: str) -> None:
    """Print a line of text and of styled text."""
    write("".join(_piece(piece) for piece in pieces) + "\n")


def say_json(record: Mapping[str, Any]) -> None:
    """Print a record, in ASCII, which every terminal can show: it must stay valid JSON."""
    if _printed() == "json":
        _write(json_of(record, ensure_ascii=True).replace("\x7f", "\\u007f") + "\n")


def json_of(record: Mapping[str, Any], *, ensure_ascii: bool = False) -> str:
    """Return a record as JSON, which knows neither infinity nor what is not a number."""
    from pyflowers.records import plain

    return json.dumps(plain(record), indent=2, ensure_ascii=ensure_ascii, allow_nan=False)


def write(text: str) -> None:
    """Print what is escaped already, unless JSON or nothing is wanted."""
    if _printed() == "text":
        _write(text)


def _write(text: str) -> None:
    """Print; after a failure, nothing."""
    if _failures:
        return
    try:
        try:
            click.echo(text, nl=False)
        except UnicodeEncodeError as error:
            known = text.encode(error.encoding, "backslashreplace")
            click.echo(known.decode(error.encoding), nl=False)
    except OSError as error:
        _give_up(error)


def complain(text: str) -> None:
    """Print a line to the standard error, if it can be reached."""
    with suppress(OSError, ValueError):
        click.echo(shown(text), err=True)


def open_streams() -> None:
    """Open what the caller closed: another file would take a free descriptor and be written to."""
    _failures.clear()
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError as error:
            os.open(os.devnull, os.O_RDWR)
            if name == "stdout":
                _failures.append(error)
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def exit_status(status: int) -> int:
    """Return a command's exit status, or what stands for output that could not be written."""
    if not _failures:
        return status
    if _failures[0].errno == errno.EPIPE:
        return BROKEN_PIPE
    reason = _failures[0].strerror
    complain(f"error: the output cannot be written ({reason}); the files of this command are saved")
    return status if status > 1 else 1


def _piece(piece: str) -> str:
    text = shown(piece)
    return click.style(text, **piece.style) if isinstance(piece, Styled) and _has_styles() else text


def _has_styles() -> bool:
    """Whether the terminal shows styles and the user wants them, by the usual two variables."""
    return os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def _give_up(error: OSError) -> None:
    _failures.append(error)
    drop_output()


def drop_output() -> None:
    """Write to nowhere from now on: what is left in the buffer would fail again at Python's end."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
