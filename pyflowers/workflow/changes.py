"""What differs between the data of a recorded run and those that would be used now."""

from __future__ import annotations

from typing import Any

from pyflowers.fits.record import value_changes
from pyflowers.programs import Data
from pyflowers.programs.data import to_frame

MOST_ROWS_NAMED = 5


def data_changes(before: Data, now: Data) -> list[str]:
    """Name the rows that have changed, up to five; none if all are the same.

    Observations are told apart by group and time where the program has both, so that a row that
    only moved is not a change of its value; elsewhere by their place.
    """
    if before.sha256 == now.sha256:
        return []
    if before.table is None or now.table is None:
        return [f"{now.source} has changed"]
    changes = value_changes("column", before.columns, now.columns)
    old, new = _by_key(before), _by_key(now)
    for key, (i, row) in new.items():
        if key not in old:
            changes.append(f"{_at(now, i, key)} is new")
            continue
        was = old[key][1]
        changes += [
            f"{_at(now, i, key)}: {name} was {_plain(was.get(name))} and is {_plain(value)}"
            for name, value in row.items()
            if was.get(name) != value
        ]
    changes += [f"{_at(before, j, key)} is gone" for key, (j, _) in old.items() if key not in new]
    if not changes:
        places = enumerate(zip(old, new, strict=True))
        moved = next((i for i, (a, b) in places if a != b), 0)
        changes = [f"{now.where(moved)}: the rows are in a different order from here on"]
    if len(changes) > MOST_ROWS_NAMED:
        left = len(changes) - MOST_ROWS_NAMED
        changes = [*changes[:MOST_ROWS_NAMED], f"and {left} more changes"]
    return changes


def _by_key(data: Data) -> dict[tuple[str, ...], tuple[int, dict[str, Any]]]:
    """Return each row's position and cells by what tells it apart."""
    rows: list[dict[str, Any]] = [
        {str(name): value for name, value in row.items()}
        for row in to_frame(data).to_dict(orient="records")
    ]
    keys = [labels.of_rows for labels in (data.by_group, data.by_time) if labels is not None]
    if len(keys) == 2:
        return {
            (str(group), str(time)): (i, rows[i])
            for i, (group, time) in enumerate(zip(*keys, strict=True))
        }
    return {(str(i),): (i, row) for i, row in enumerate(rows)}


def _at(data: Data, row: int, key: tuple[str, ...]) -> str:
    return f"{data.where(row)} ({', '.join(key)})" if len(key) == 2 else data.where(row)


def _plain(value: Any) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value)
