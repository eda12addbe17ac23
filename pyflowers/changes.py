"""What differs between a recorded run and what would be run now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyflowers.cmdstan import Executable
from pyflowers.cmdstan.toolchain import compiler_version
from pyflowers.data import FlowerData

MOST_ROWS_NAMED = 5


def value_changes(kind: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Name the values that are not what they were; `kind` says what they are."""
    return [
        f"{kind} {name} was {before.get(name)} and is {value}".strip()
        for name, value in now.items()
        if before.get(name) != value
    ]


def program_changes(record: Mapping[str, Any], executable: Executable) -> list[str]:
    """Say what of program, CmdStan and compiler is not what a run was made with."""
    if record["executable"] == executable.key:
        return []
    changes = []
    if record["program_sha256"] != executable.program_sha256:
        changes.append(f"program {executable.program} changed")
    cmdstan = executable.cmdstan
    now = {
        "stan": cmdstan.version,
        "cmdstan": f"{cmdstan.origin} ({cmdstan.identity})",
        "compiler": compiler_version(),
    }
    changes += value_changes("version of", record["versions"], now)
    return changes or ["the compiler's options changed"]


def data_changes(before: FlowerData, now: FlowerData) -> list[str]:
    """Name the rows that are not what they were, up to five of them; none if all are.

    Observations are told apart by plant and month, so that a row that only moved is not a change
    of its value.
    """
    if before.sha256 == now.sha256:
        return []
    changes = value_changes("column", before.columns._asdict(), now.columns._asdict())
    old, new = _by_label(before), _by_label(now)
    for (plant, month), i in new.items():
        at = f"{now.where(i)} ({plant}, {month})"
        j = old.get((plant, month))
        if j is None:
            changes.append(f"{at} is new")
        elif now.y[i] != before.y[j]:
            value = now.columns.value
            changes.append(f"{at}: {value} was {before.y[j]:.15g} and is {now.y[i]:.15g}")
    changes += [
        f"{before.where(j)} ({plant}, {month}) is gone"
        for (plant, month), j in old.items()
        if (plant, month) not in new
    ]
    if not changes:
        moved = next(i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b)
        changes = [f"{now.where(moved)}: the rows stand in another order from here on"]
    if len(changes) > MOST_ROWS_NAMED:
        left = len(changes) - MOST_ROWS_NAMED
        changes = [*changes[:MOST_ROWS_NAMED], f"and {left} more changes"]
    return changes


def _by_label(data: FlowerData) -> dict[tuple[str, str], int]:
    """Return the position of each observation by its plant and month, in order of the rows."""
    return {
        (data.plants[plant], data.months[month]): i
        for i, (plant, month) in enumerate(zip(data.plant, data.month, strict=True))
    }
