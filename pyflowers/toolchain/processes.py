"""Children that end with their parent: make and its compilers, pip, stanc, Stan's own programs.

A child is started by a few lines of shell, which also keep watch: they wait for the end of a pipe
whose other end this process alone holds. However this process ends, by itself, by a signal or by
SIGKILL, the system closes that end, and the shell kills the child with all that it started. The
same is done on purpose when a wait for the child is interrupted.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_WATCHED = """
{listen}
trap : HUP INT TERM
{command} "$@" </dev/null 3<&- &
child=$!
trap '' HUP INT TERM
{{ read gone; kill -KILL {whom}; }} <&3 >/dev/null 2>&1 &
watch=$!
trap - HUP INT TERM
exec 3<&-
wait "$child"; status=$?
exec 2>/dev/null
kill -KILL "$watch"; wait "$watch"
exit "$status"
"""
"""Descriptor 3 ends when the parent does. Killing 0 is killing the shell's own process group.

Until the watch is there the shell must outlive a signal, such as a Ctrl-C that goes to the whole
group: the child would be left with nobody to kill it. The watch outlives every one.
"""

SECONDS_TO_DIE = 2.0

_has_shell = os.name == "posix"


class _Lifeline:
    """The end of a pipe that this process holds: cut it, and the child at the other end dies."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        self._lock = threading.Lock()
        _lifelines.add(self)

    def cut(self) -> None:
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None


_lifelines: weakref.WeakSet[_Lifeline] = weakref.WeakSet()


def end_children() -> None:
    """Kill every child that this process has started here, and their children."""
    for lifeline in list(_lifelines):
        lifeline.cut()


if hasattr(os, "register_at_fork"):
    # A forked worker must not keep the children of its parent alive.
    os.register_at_fork(after_in_child=end_children)


@contextmanager
def ending_children() -> Iterator[None]:
    """End all children when the block is interrupted, so that threads that wait for them go on."""
    try:
        yield
    except Exception:
        raise
    except BaseException:
        end_children()
        raise


def interruptible(function: Callable[[], T]) -> T:
    """Call a function that waits for children in its own way, in a thread that this one waits for.

    Ctrl-C then ends the children first, and the function with them.
    """
    with ThreadPoolExecutor(1) as executor, ending_children():
        return executor.submit(function).result()


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, and leave no process of it behind.

    Returns
    -------
    CompletedProcess
        With what it wrote to its output and its errors.

    Raises
    ------
    OSError
        If there is no such command.
    subprocess.TimeoutExpired
        If it takes longer than `timeout` seconds.
    """
    with started(command, cwd=cwd) as process:
        out, err = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(list(command), process.returncode, out, err)


@contextmanager
def started(
    command: Sequence[str | Path], *, cwd: Path | None = None, merged: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """Yield a running command, which has ended after the block: by itself, or killed on an error.

    Parameters
    ----------
    command : sequence of str
        The command and its arguments.
    cwd : Path, optional
        Where to run it.
    merged : bool
        Whether its errors go where its output goes.

    Raises
    ------
    OSError
        If there is no such command.
    """
    words = [str(word) for word in command]
    if shutil.which(words[0]) is None:
        raise FileNotFoundError(2, "there is no such command, or it cannot be run", words[0])
    listening, held = os.pipe()
    lifeline = _Lifeline(held)
    script = _WATCHED.format(listen="exec 3<&0 </dev/null", command="", whom="0")
    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", script, "pyflowers", *words] if _has_shell else words,
            cwd=cwd,
            text=True,
            errors="replace",
            stdin=listening,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
            start_new_session=True,
        )
    except BaseException:
        lifeline.cut()
        raise
    finally:
        os.close(listening)
    try:
        yield process
        if process.poll() is None:
            process.communicate()  # nobody reads its output any more
    finally:
        lifeline.cut()
        try:
            process.wait(SECONDS_TO_DIE)
        except subprocess.TimeoutExpired:  # its watch did not kill it
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for stream in filter(None, (process.stdout, process.stderr)):
            stream.close()


@contextmanager
def mortal(executable: Path, folder: Path) -> Iterator[Path]:
    """Yield a stand-in for an executable that others start, such as CmdStanPy.

    What is started by it ends with the block and with this process.

    Parameters
    ----------
    executable : Path
        What is to be run.
    folder : Path
        An existing folder for the stand-in, which has the executable's name; not one that holds
        something of that name.

    Yields
    ------
    Path
        The stand-in, or the executable itself where there is no shell, or no place for one.
    """
    launcher, pipe = folder / "mortal" / executable.name, folder / "mortal" / ".alive"
    held = None
    if _has_shell:
        with suppress(OSError):
            held = _make_launcher(executable, launcher, pipe)
    if held is None:
        yield executable
        return
    lifeline = _Lifeline(held)
    try:
        yield launcher
    finally:
        lifeline.cut()


def _make_launcher(executable: Path, launcher: Path, pipe: Path) -> int | None:
    """Write the stand-in and return the end of its pipe that is held here."""
    launcher.parent.mkdir()
    # Opened for both first, which never waits for a writer: if that is gone, reading ends at once.
    quoted = shlex.quote(str(pipe))
    script = _WATCHED.format(
        listen=f"exec 4<>{quoted} 3<{quoted} 4<&- || exit 1",
        command=shlex.quote(str(executable)),
        whom='"$child"',
    )
    launcher.write_text(f"#!/bin/sh\n{script}", encoding="utf-8")
    launcher.chmod(0o700)
    if not os.access(launcher, os.X_OK):
        return None  # a file system that runs nothing
    os.mkfifo(pipe, 0o600)
    return os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
