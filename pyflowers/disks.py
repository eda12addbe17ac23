"""Places to write that may be full, read-only or gone: one sentence that names the place.

A tool that cannot write says so in many ways, or fails for what looks like another reason. So after
any failure the place where it wrote is tried, and is named if it takes nothing.
"""

from __future__ import annotations

import atexit
import errno
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyflowers.errors import PyflowersError, ToolchainError
from pyflowers.staging import TEMPORARY_PREFIX, recover, staging

_PROBE_BYTES = 1024**2
_FULL = os.strerror(errno.ENOSPC)


class DiskError(ToolchainError):
    """A place takes nothing more: names it and the remedy."""


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a folder under TMPDIR, gone after the block; if that is killed, after the next one.

    Raises
    ------
    DiskError
        If TMPDIR cannot be written.
    """
    try:
        parent = Path(tempfile.gettempdir()).resolve()
    except FileNotFoundError as error:
        raise DiskError(
            f"there is no folder for temporary files ({error.strerror}); set TMPDIR to one that "
            "can be written"
        ) from error
    sentence = f"{parent}: temporary files cannot be written there"
    remedy = "free space, or set TMPDIR to another folder"
    with naming(parent, sentence, remedy):
        recover(parent, prefix=TEMPORARY_PREFIX)
        # The folder is tried while it holds what may have filled the disk.
        with (
            staging(parent, "", TEMPORARY_PREFIX) as folder,
            naming(folder, sentence, remedy),
        ):
            yield folder


_lasting = ExitStack()
atexit.register(_lasting.close)


def lasting_folder() -> Path:
    """Return a folder under TMPDIR, gone when this process ends; if that is killed, afterwards.

    Raises
    ------
    DiskError
        If TMPDIR cannot be written.
    """
    return _lasting.enter_context(temporary_folder())


def end_lasting() -> None:
    """Remove what :func:`lasting_folder` made, before an end that passes over exit handlers."""
    _lasting.close()


@contextmanager
def naming(folder: Path, sentence: str, remedy: str) -> Iterator[None]:
    """Blame a folder for a failure if it cannot be written, whatever the failure says.

    Parameters
    ----------
    folder : Path
        An existing folder in which the block writes.
    sentence : str
        What to say.
    remedy : str
        What to do.

    Raises
    ------
    DiskError
        If the folder takes no data.
    """
    try:
        yield
    except DiskError:
        raise
    except (OSError, PyflowersError) as error:
        why = why_not(folder)
        # Compilers remove what they could not write, so that there is room again.
        was_full = isinstance(error, PyflowersError) and _FULL in str(error)
        if not why and not was_full:
            raise
        raise DiskError(f"{sentence} ({why or _FULL}); {remedy}") from error


def why_not(folder: Path) -> str:
    """Return why a folder takes no data; nothing if it does."""
    probe = folder / f".pyflowers-probe-{secrets.token_hex(4)}"
    try:
        try:
            with probe.open("xb") as file:
                file.write(bytes(_PROBE_BYTES))
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        return error.strerror or str(error)
    return ""
