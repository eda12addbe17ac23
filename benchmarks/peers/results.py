"""Results of runs, stored as rows of CSV files in docs/peers, from which a stopped race resumes.

A method that was stopped or failed on a table is not repeated there in later rounds. A stopped
method is also skipped on tables with more rows. So is a method whose time on a smaller table,
multiplied by the ratio of plants or of rows, whichever is smaller, exceeds the limit, because it
would only be stopped. For regressions, results on other tables are not used.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.peers.sizes import Regression, Table, table_of

Status = Literal["done", "stopped", "failed", "absent"]
"""Finished, killed for time or memory, ended with an error, or lacking its environment."""

LONG = 30.0
"""Seconds above which the time of a posterior is assumed to grow with the table."""


@dataclass(frozen=True)
class Result:
    """One run of one method on one table.

    Attributes
    ----------
    size, method : str
        Keys of table and method.
    round : int
        The round, from 1.
    status : str
        See :data:`Status`.
    reason : str
        The reason, if the run is not done.
    first, further, imports : float or None
        Seconds from the start of the process to the first posterior, without reading the data;
        seconds of the second posterior in the same process; and seconds from the start until
        everything is imported, which is part of `first`.
    peak_bytes : int
        Peak memory of the process tree.
    limit : float
        Time limit of each posterior in seconds.
    min_ess : float or None
        The smallest bulk ESS of all parameters in the second posterior.
    worst : str
        The parameter with the smallest ESS.
    agreement : dict
        See :func:`benchmarks.peers.agreement.compare`; empty without a posterior.
    num_divergent : int
        Divergent draws.
    versions : str
        Versions of the method and its dependencies, separated by commas.
    machine : dict
        The machine and its load, see :data:`MACHINE`.
    commit : str
        Commit of this repository.
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
    versions: str = ""
    machine: dict[str, Any] = field(default_factory=dict)
    commit: str = ""

    @property
    def rate(self) -> float | None:
        """Least bulk ESS per second of the further posterior."""
        if self.min_ess is None or not self.further:
            return None
        return self.min_ess / self.further


Reader = Callable[[str], Any]
"""Functions that convert a cell that is not empty to a value."""

RUN: Mapping[str, Reader] = {
    "size": str,
    "method": str,
    "round": int,
    "status": str,
    "reason": str,
    "first": float,
    "further": float,
    "imports": float,
    "limit": float,
    "min_ess": float,
    "worst": str,
    "peak_bytes": int,
    "num_divergent": int,
    "versions": str,
    "commit": str,
}
AGREEMENT: Mapping[str, Reader] = {
    "agrees": "True".__eq__,
    "z": float,
    "bound": float,
    "of": str,
    "statistic": str,
    "shift": float,
    "r_hat": float,
}
MACHINE: Mapping[str, Reader] = {
    "processor": str,
    "cores": int,
    "memory_gib": float,
    "load": float,
    "nice": int,
}
"""The columns of a run, of the agreement of its posterior, and of its machine."""


def row_of(result: Result) -> dict[str, str]:
    """Return a result as the cells of a row."""
    own = {name: getattr(result, name) for name in RUN}
    judged = {name: result.agreement.get(name) for name in AGREEMENT}
    where = {name: result.machine.get(name) for name in MACHINE}
    return {name: _cell(value) for name, value in {**own, **judged, **where}.items()}


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def result_of(row: Mapping[str, str]) -> Result:
    """Return the result in a row."""

    def read(columns: Mapping[str, Reader]) -> dict[str, Any]:
        return {name: of(row[name]) for name, of in columns.items() if row[name]}

    return Result(**read(RUN), agreement=read(AGREEMENT), machine=read(MACHINE))


@dataclass(frozen=True)
class Ledger:
    """The file of results."""

    path: Path

    def add(self, result: Result) -> None:
        """Add a result."""
        self._write([*self.read(), result])

    def read(self) -> list[Result]:
        """Return all results, by size, method and round."""
        if not self.path.exists():
            return []
        with self.path.open(newline="", encoding="utf-8") as file:
            return [result_of(row) for row in csv.DictReader(file)]

    def forget(self, statuses: Iterable[Status]) -> None:
        """Remove the results with these statuses, so that they are repeated."""
        dropped = set(statuses)
        self._write([result for result in self.read() if result.status not in dropped])

    def _write(self, results: Iterable[Result]) -> None:
        """Write the file completely, or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_suffix(".unfinished")
        with unfinished.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, [*RUN, *AGREEMENT, *MACHINE], lineterminator="\n")
            writer.writeheader()
            writer.writerows(map(row_of, sorted(results, key=_order)))
        unfinished.replace(self.path)

    def machines(self) -> list[str]:
        """Return the machines of the results."""
        return sorted({label_of_machine(r.machine) for r in self.read() if r.machine})

    def needs(self, size: Table, method: str, number: int, limit: float) -> bool:
        """Whether a run is still missing, given the time limit of a posterior."""
        mine = [result for result in self.read() if result.method == method]
        same = [result for result in mine if result.size == size.key]
        if any(result.round == number or result.status != "done" for result in same):
            return False
        return not hopeless(size, mine, limit)


def _order(result: Result) -> tuple[int, str, int]:
    return table_of(result.size).num_rows, result.method, result.round


def label_of_machine(machine: Mapping[str, Any]) -> str:
    """Return the page's description of a machine."""
    cores = f"{machine['cores']} core{'' if machine['cores'] == 1 else 's'}"
    return f"{machine['processor']}, {cores}, {machine['memory_gib']} GiB"


def hopeless(size: Table, results: Sequence[Result], limit: float | None = None) -> str:
    """Return why a method with these results cannot finish a table; empty if it may.

    Time is assumed to grow at least as fast as the number of plants or rows, whichever grows less.
    The default limit is the limit of the results. Regressions differ too much to be extrapolated.
    """
    if limit is None:
        limit = max((result.limit for result in results), default=0.0)
    for result in results:
        small = table_of(result.size)
        if (
            isinstance(size, Regression)
            or isinstance(small, Regression)
            or small.num_rows >= size.num_rows
        ):
            continue
        if result.status == "stopped":
            return f"stopped on {small.label}, which is smaller"
        growth = min(size.num_plants / small.num_plants, size.num_rows / small.num_rows)
        seconds = result.further or 0.0
        if seconds >= LONG and seconds * growth > limit:
            return (
                f"computing a posterior for {small.label} took {seconds:.0f} s, and this table "
                f"would take at least {growth:.3g} times as long"
            )
    return ""
