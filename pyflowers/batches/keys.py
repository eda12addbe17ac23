"""One digest of everything that determines a task's result, and the seed that follows from it."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np

SEED_BYTES = 4
"""Stan's seeds are unsigned 32-bit integers."""


def digest_of(value: Any) -> str:
    """Return a digest of a value: equal values have equal digests on every machine.

    Parameters
    ----------
    value
        Numbers, texts, arrays, and mappings and sequences of them; anything else counts by its
        pickle.
    """
    total = hashlib.sha256()
    _feed(total, value)
    return total.hexdigest()


def seed_of(batch_seed: int, key: str) -> int:
    """Return the seed of a task: a function of the batch's seed and the task's key alone."""
    raw = hashlib.sha256(f"{batch_seed}:{key}".encode()).digest()
    return int.from_bytes(raw[:SEED_BYTES], "big")


def _feed(total: Any, value: Any) -> None:
    """Feed a value with its type and length, so that no two values give the same bytes."""
    if value is None or isinstance(value, bool | np.bool_):
        _put(total, "constant", str(value).encode())
    elif isinstance(value, int | np.integer):
        _put(total, "int", str(int(value)).encode())
    elif isinstance(value, float | np.floating):
        _put(total, "float", float(value).hex().encode())
    elif isinstance(value, str | Path):
        _put(total, "text", str(value).encode("utf-8", "surrogatepass"))
    elif isinstance(value, bytes):
        _put(total, "bytes", value)
    elif isinstance(value, Mapping):
        _put(total, "mapping", str(len(value)).encode())
        for name in sorted(value, key=str):
            _feed(total, str(name))
            _feed(total, value[name])
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        _feed_array(total, value)
    elif isinstance(value, Set):
        _feed(total, sorted(value, key=str))
    elif isinstance(value, Sequence | np.ndarray):
        _put(total, "list", str(len(value)).encode())
        for each in value:
            _feed(total, each)
    else:
        _put(total, "pickle", pickle.dumps(value, protocol=4))


def _feed_array(total: Any, values: np.ndarray[Any, Any]) -> None:
    """Feed numbers as 64-bit ones in one byte order, so that their storage does not matter."""
    wide = values.astype("<f8" if values.dtype.kind == "f" else "<i8")
    _put(total, f"array {wide.dtype.str} {wide.shape}", np.ascontiguousarray(wide).tobytes())


def _put(total: Any, kind: str, raw: bytes) -> None:
    total.update(f"{kind} {len(raw)}:".encode())
    total.update(raw)
