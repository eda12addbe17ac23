"""What one run gave, kept as JSON: a race that was stopped goes on where it was.

``results/SIZE/METHOD/ROUND.json``. A method that was stopped, or failed, is not run again in later
rounds. One that was stopped is not tried on tables with more rows either, nor one whose time on a
smaller table, times as many plants or as many rows, exceeds the limit: it would only be stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.peers.sizes import Size

Status = Literal["done", "stopped", "failed", "absent"]
"""Finished; killed for its time or memory; ended with an error; its environment is absent."""

LONG = 30.0
"""Seconds of a posterior above which its time is taken to grow with the table."""


@dataclass(frozen=True)
class Result:
    """One run of one method on one table.

    Attributes
    ----------
    size, method : str
        Keys.
    round : int
        From 1.
    status : str
        See :data:`Status`.
    reason : str
        Why it is not done.
    first, further, imports : float or None
        Seconds: from the start of the process to the first posterior, without reading the data;
        of the second one in the same process; from the start until all is imported, a part
        of `first`.
    peak_bytes : int
        Most memory of the process tree.
    limit : float
        Seconds that each posterior was given.
    min_ess : float or None
        The least bulk ESS of all parameters, of the second posterior.
    worst : str
        The parameter that has it.
    agreement : dict
        See :func:`benchmarks.peers.agreement.compare`; empty without a posterior.
    num_divergent : int
        Divergent draws.
    versions, machine : dict
        Of the method, and where and under which load it ran.
    commit : str
        Of this repository.
    """

    size: str
    method: str
    round: int
    status: Status
    reason: str = ""
    first: float | None = None
    further: float | None = None
    imports: float | None = None
    peak_bytes: int = 0
    limit: float = 0.0
    min_ess: float | None = None
    worst: str = ""
    agreement: dict[str, Any] = field(default_factory=dict)
    num_divergent: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    commit: str = ""

    @property
    def rate(self) -> float | None:
        """Least bulk ESS per second of the further posterior."""
        if self.min_ess is None or not self.further:
            return None
        return self.min_ess / self.further


@dataclass(frozen=True)
class Ledger:
    """The folder of results."""

    folder: Path

    def path(self, size: str, method: str, number: int) -> Path:
        """Return the file of one run."""
        return self.folder / size / method / f"{number}.json"

    def write(self, result: Result) -> None:
        """Keep a result: whole, or not at all."""
        path = self.path(result.size, result.method, result.round)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(asdict(result), indent=1), encoding="utf-8")
        unfinished.replace(path)

    def read(self) -> list[Result]:
        """Return all results, by size, method and round."""
        found = [
            Result(**json.loads(path.read_text(encoding="utf-8")))
            for path in self.folder.glob("*/*/*.json")
        ]
        return sorted(found, key=lambda r: (Size.of(r.size).num_rows, r.method, r.round))

    def forget(self, statuses: Iterable[Status]) -> None:
        """Delete the results with these statuses, to be run again."""
        wanted = set(statuses)
        for result in self.read():
            if result.status in wanted:
                self.path(result.size, result.method, result.round).unlink()

    def needs(self, size: Size, method: str, number: int, limit: float) -> bool:
        """Whether a run is still to be made, of which each posterior has so many seconds."""
        if self.path(size.key, method, number).exists():
            return False
        mine = [result for result in self.read() if result.method == method]
        if any(result.size == size.key and result.status != "done" for result in mine):
            return False
        return not hopeless(size, mine, limit)


def hopeless(size: Size, results: Sequence[Result], limit: float | None = None) -> str:
    """Return why a method that gave these results cannot finish a table; nothing if it may.

    Time is taken to grow at least as the number of plants or that of rows, whichever grows less.
    The limit is that of the results where none is given.
    """
    if limit is None:
        limit = max((result.limit for result in results), default=0.0)
    for result in results:
        small = Size.of(result.size)
        if small.num_rows >= size.num_rows:
            continue
        if result.status == "stopped":
            return f"stopped on {small.label}, which is smaller"
        growth = min(size.num_plants / small.num_plants, size.num_rows / small.num_rows)
        seconds = result.further or 0.0
        if seconds >= LONG and seconds * growth > limit:
            return (
                f"a posterior of {small.label} took {seconds:.0f} s, and this table is "
                f"{growth:.3g} times as large"
            )
    return ""
