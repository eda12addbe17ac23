"""The seam between a batch and what runs its jobs: this machine's cores, or a Dask cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from pyflowers.batches.task import Job, Outcome


@runtime_checkable
class Executor(Protocol):
    """What runs jobs.

    An outcome is the same whatever runs it; only its seconds and attempts differ.
    """

    def room(self) -> int:
        """Return how many jobs it can take now; more would only wait there."""

    def submit(self, job: Job, shipments: Mapping[str, bytes]) -> None:
        """Take a job; `shipments` holds its program."""

    def wait(self, seconds: float) -> list[Outcome]:
        """Return outcomes as soon as there are some, and none after so many seconds.

        Raises
        ------
        ToolchainError
            If no job can be run any more.
        """

    def abandon(self) -> None:
        """Forget the jobs in progress, and end the processes that run them."""

    def close(self) -> None:
        """Close it, leaving no process, thread or file."""
