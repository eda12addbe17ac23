"""What the command line says: labels shown safely, and no result lost to a terminal.

Everything that a command prints goes through :func:`say`. It escapes control characters, which a
user's labels may hold, and it never raises: when the reader has gone, or the disk is full, the
command continues silently and :func:`exit_status` says so at the end.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress

import click

from pyflowers.display import Styled, shown
from pyflowers.display import label as label
from pyflowers.display import styled as styled

BROKEN_PIPE = 141
"""What a shell reports of a program that SIGPIPE ended."""

_failures: list[OSError] = []


def say(*pieces: str) -> None:
    """Print a line of text and of styled text."""
    write("".join(_piece(piece) for piece in pieces) + "\n")


def write(text: str) -> None:
    """Print what is escaped already; after a failure, nothing."""
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
