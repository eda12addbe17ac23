"""Child processes that end with their parent: make and its compilers, pip, stanc, Stan programs.

A child is started by a few lines of shell, which then wait for a pipe to close. Only this process
holds the other end of the pipe. When this process ends, by itself, by a signal or by SIGKILL, the
system closes that end, and the shell kills the child with all its children. If this process is
interrupted while it waits for the child, it closes its end of the pipe itself.
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
from concurrent.futures import ThreadPoolExecutor, wait
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
"""The lines of shell that start a child.

The read from descriptor 3 returns when the parent ends. Process id 0 stands for the shell's own
process group. Until the watch is running, the shell must survive signals, such as the SIGINT that
Ctrl-C sends to the whole group; otherwise nothing would be left to kill the child. The watch itself
ignores these signals.
"""

SECONDS_TO_DIE = 2.0
SECONDS_OF_A_WAIT = 0.5

_has_shell = hasattr(os, "mkfifo")
"""Whether this is a POSIX system; Windows has neither the shell nor process groups."""


class _Lifeline:
    """The end of a pipe that this process holds; if it is cut, the child at the other end dies."""

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
    """Kill all children that this process has started with this module, and their children."""
    for lifeline in list(_lifelines):
        lifeline.cut()


if hasattr(os, "register_at_fork"):
    # A forked worker must not keep its parent's children alive.
    os.register_at_fork(after_in_child=end_children)


@contextmanager
def ending_children() -> Iterator[None]:
    """End all children if the block is interrupted, so that threads waiting for them continue."""
    try:
        yield
    except Exception:
        raise
    except BaseException:
        end_children()
        raise


def interruptible(function: Callable[[], T]) -> T:
    """Call a function that waits for children, in another thread, and wait for that thread.

    Ctrl-C then ends the children first, so the function returns. Python does not see a signal that
    arrives just before a wait begins until the wait ends, so each wait is short.
    """
    with ThreadPoolExecutor(1) as executor, ending_children():
        future = executor.submit(function)
        while not future.done():
            wait([future], SECONDS_OF_A_WAIT)
        return future.result()


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, and leave none of its processes behind.

    Returns
    -------
    CompletedProcess
        The command's exit status, standard output and standard error.

    Raises
    ------
    OSError
        If there is no such command.
    subprocess.TimeoutExpired
        If the command takes longer than `timeout` seconds.
    """
    with started(command, cwd=cwd) as process:
        out, err = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(list(command), process.returncode, out, err)


@contextmanager
def started(
    command: Sequence[str | Path], *, cwd: Path | None = None, merged: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """Yield a running command and wait for its end after the block; on an error, kill it.

    Parameters
    ----------
    command : sequence of str
        The command and its arguments.
    cwd : Path, optional
        Its working folder.
    merged : bool
        Whether its standard error is merged into its standard output.

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
    if _has_shell:
        words = ["/bin/sh", "-c", script, "pyflowers", *words]
    errors = subprocess.PIPE
    if merged:
        errors = subprocess.STDOUT
    try:
        process = subprocess.Popen(
            words,
            cwd=cwd,
            text=True,
            errors="replace",
            stdin=listening,
            stdout=subprocess.PIPE,
            stderr=errors,
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
            process.communicate()  # nothing else reads the rest of its output
    finally:
        lifeline.cut()
        try:
            process.wait(SECONDS_TO_DIE)
        except subprocess.TimeoutExpired:  # the watch did not kill it
            with suppress(OSError):
                if _has_shell:
                    os.killpg(process.pid, signal.SIGKILL)
                else:
                    process.kill()
            process.wait()
        for stream in filter(None, (process.stdout, process.stderr)):
            stream.close()


@contextmanager
def mortal(executable: Path, folder: Path) -> Iterator[Path]:
    """Yield a stand-in for an executable that other code, such as CmdStanPy, starts.

    Processes that the stand-in starts end with the block or with this process.

    Parameters
    ----------
    executable : Path
        The executable.
    folder : Path
        An existing folder. The stand-in gets the executable's name in a new subfolder ``mortal``.

    Yields
    ------
    Path
        The stand-in, or the executable itself if there is no shell or the stand-in cannot be
        written or run.
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
    """Write the stand-in and return this process's end of the pipe; None if it cannot be run."""
    launcher.parent.mkdir()
    # The pipe is first opened for reading and writing, because this does not wait for a writer. If
    # the parent is gone, the read then ends at once.
    quoted = shlex.quote(str(pipe))
    script = _WATCHED.format(
        listen=f"exec 4<>{quoted} 3<{quoted} 4<&- || exit 1",
        command=shlex.quote(str(executable)),
        whom='"$child"',
    )
    launcher.write_text(f"#!/bin/sh\n{script}", encoding="utf-8")
    launcher.chmod(0o700)
    if not os.access(launcher, os.X_OK):
        return None  # the file system does not allow programs to be run
    os.mkfifo(pipe, 0o600)
    return os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
