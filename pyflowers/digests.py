"""Digests of texts, files and values, by which programs, data and results are told apart."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np


def sha256_file(path: Path) -> str:
    """Return the SHA-256 digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(*parts: str) -> str:
    """Return one digest of several texts, told apart by their lengths."""
    total = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        total.update(f"{len(raw)}:".encode() + raw)
    return total.hexdigest()


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
