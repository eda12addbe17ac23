"""What the command line says: labels shown safely, and no result lost to a terminal.

Everything that a command prints goes through :func:`say`. It escapes control characters, which a
user's labels may hold, and it never raises: when the reader has gone, or the disk is full, the
command continues silently and :func:`exit_status` says so at the end.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pyflowers.fits.verdict import Verdict

BROKEN_PIPE = 141
"""What a shell reports of a program that SIGPIPE ended."""

# C0 but tab and newline, DEL, C1, line separators, what turns the direction of text, surrogates
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)

_failures: list[OSError] = []


class Styled(str):
    """Text with a style that we set: control characters are escaped, but not its colours."""

    style: dict[str, Any]


def styled(text: str, **style: Any) -> Styled:
    """Give text a style of :func:`click.style`."""
    made = Styled(text)
    made.style = style
    return made


def shown(text: str) -> str:
    r"""Return text with its control characters written out, such as ``\x1b``."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def label(text: str) -> str:
    """Return text of one line, fit for a table's cell."""
    return shown(text).replace("\n", "\\n").replace("\t", "\\t")


def say(*pieces: str) -> None:
    """Print a line of text and of styled text."""
    write("".join(_piece(piece) for piece in pieces) + "\n")


def say_verdict(verdict: Verdict) -> None:
    """Print a verdict in the colour of its result: only a fit that can be trusted is green."""
    colour = "green" if verdict.trusted else None if verdict.passed else "red"
    say(styled(f"verdict: {verdict}", fg=colour))


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
