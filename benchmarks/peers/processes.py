"""One run as a process tree: limits that end it, and the most memory that it had at once.

Memory is the sum over the tree of each process's proportional share (PSS): pages that forked
workers share count once. It is read from /proc, as often as that takes little of the cores that the
run needs. A peak between two readings is missed, unless one process alone had it: the kernel
keeps that one's largest (VmHWM).
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

INTERVAL = 0.1
"""Seconds between two looks at a run, at least."""

LOOKING = 0.02
"""Share of a core that looking may take: of a process with gigabytes, a look takes 0.05 s."""

PROC = Path("/proc")


@dataclass(frozen=True)
class Ended:
    """How a process tree ended.

    Attributes
    ----------
    started_at : float
        Seconds since the epoch.
    status : int or None
        Exit status; None if it was killed.
    killed_for : str
        ``time`` or ``memory``, where it was killed, for memory perhaps by the system.
    peak_bytes : int
        Most memory of the tree at once, while it was measured.
    """

    started_at: float
    status: int | None
    killed_for: Literal["", "time", "memory"]
    peak_bytes: int


def run(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    log: Path,
    overdue: Callable[[float], bool],
    measured: Callable[[], bool],
    most_bytes: float = math.inf,
) -> Ended:
    """Run a command to its end, or until it is overdue or has more memory than it may.

    Parameters
    ----------
    command : sequence of str
        What to run.
    environment : mapping of str to str
        All of its environment variables.
    folder : Path
        Where to run it.
    log : Path
        Takes what it prints.
    overdue : callable
        Given the seconds since the start, whether it must be killed.
    measured : callable
        Whether memory still counts as the peak.
    most_bytes : float
        The most memory that it may have.
    """
    peak = 0
    killed_for: Literal["", "time", "memory"] = ""
    started_at, started = time.time(), time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        while process.poll() is None and not killed_for:
            looked = time.perf_counter()
            held = memory(tree(process.pid))
            if measured():
                peak = max(peak, held)
            if held > most_bytes:
                killed_for = "memory"
            elif overdue(time.perf_counter() - started):
                killed_for = "time"
            else:
                spent = time.perf_counter() - looked
                _wait(process, max(INTERVAL, spent / LOOKING))
        if process.returncode == -signal.SIGKILL and not killed_for:
            killed_for = "memory"  # between two looks: nobody else sends this signal
    finally:
        kill(process)
    return Ended(started_at, None if killed_for else process.returncode, killed_for, peak)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait until a process has ended, but no longer than so many seconds."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started, by their ids."""
    if process.poll() is None:
        for pid in tree(process.pid):
            _signal(pid, signal.SIGKILL)
        process.wait()


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:  # it has ended by itself
        return


def tree(pid: int) -> list[int]:
    """Return a process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            parent = _parent(entry)
            if parent is not None:
                children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for each in found:  # grows while it is read
        found += children.get(each, [])
    return found


def _parent(entry: Path) -> int | None:
    try:
        text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[1])  # the name before it may hold anything


def memory(pids: Sequence[int]) -> int:
    """Return the bytes that processes hold together, or the most that one of them ever held."""
    shares = [_field(pid, "smaps_rollup", "Pss:") for pid in pids]
    largest = [_field(pid, "status", "VmHWM:") for pid in pids]
    return max(sum(shares), *largest, 0)


def _field(pid: int, file: str, name: str) -> int:
    try:
        lines = (PROC / str(pid) / file).read_text(encoding="utf-8").splitlines()
    except OSError:  # it has ended
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), 0)
