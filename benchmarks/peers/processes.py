"""Run a process tree with limits, and measure its peak memory.

Memory is the sum of the proportional shares (PSS) of all processes in the tree, so that pages
shared by forked workers count once. It is read from /proc as often as possible without taking much
CPU time from the run. A peak between two readings is missed, unless it belongs to a single process,
whose maximum the kernel keeps (VmHWM).
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
"""The least number of seconds between two readings."""

LOOKING = 0.02
"""Share of a core that readings may take; a process with gigabytes takes 0.05 s per reading."""

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
        ``time`` or ``memory`` if it was killed (for memory, perhaps by the system); else empty.
    peak_bytes : int
        Peak memory of the tree while it was measured.
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
    """Run a command to its end, or until it exceeds its time or memory.

    Parameters
    ----------
    command : sequence of str
        The command.
    environment : mapping of str to str
        All of its environment variables.
    folder : Path
        The working folder.
    log : Path
        File for the output.
    overdue : callable
        Function of the seconds since the start that returns whether it must be killed.
    measured : callable
        Function that returns whether memory still counts towards the peak.
    most_bytes : float
        The limit of memory.
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
            killed_for = "memory"  # between two readings, by the system
    finally:
        kill(process)
    return Ended(started_at, None if killed_for else process.returncode, killed_for, peak)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait until a process has ended, for at most `seconds`."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all its descendants, by process ID."""
    if process.poll() is None:
        for pid in tree(process.pid):
            _signal(pid, signal.SIGKILL)
        process.wait()


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:  # it ended by itself
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
    for each in found:  # the list grows during the loop
        found += children.get(each, [])
    return found


def _parent(entry: Path) -> int | None:
    try:
        text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[1])  # the name before it may contain any characters


def memory(pids: Sequence[int]) -> int:
    """Return the joint memory of processes in bytes, or the maximum that one of them ever had."""
    shares = [_field(pid, "smaps_rollup", "Pss:") for pid in pids]
    largest = [_field(pid, "status", "VmHWM:") for pid in pids]
    return max(sum(shares), *largest, 0)


def _field(pid: int, file: str, name: str) -> int:
    try:
        lines = (PROC / str(pid) / file).read_text(encoding="utf-8").splitlines()
    except OSError:  # it has ended
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), 0)
