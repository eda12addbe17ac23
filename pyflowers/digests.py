"""Digests of strings, files and values, which identify programs, data and results."""

from __future__ import annotations

import hashlib
import json
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
    """Return one digest of several strings and their lengths."""
    total = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        total.update(f"{len(raw)}:".encode() + raw)
    return total.hexdigest()


def digest_of(value: Any) -> str:
    """Return a digest of a value; the digest is the same on every machine.

    Parameters
    ----------
    value
        Numbers, strings, paths, arrays, and mappings, sequences and sets of these. Anything else is
        pickled; the digest of its pickle may depend on the versions of Python and packages.
    """
    return digest(json.dumps(_plain(value), sort_keys=True))


def _plain(value: Any) -> Any:
    """Return a value in a form that JSON can hold; numeric arrays and pickles become digests."""
    for kind, same in ((np.bool_, bool), (np.integer, int), (np.floating, float)):
        if isinstance(value, kind):
            return same(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        # With 64-bit numbers in one byte order, the array's own width and byte order do not matter.
        wide = np.ascontiguousarray(value, {"f": "<f8"}.get(value.dtype.kind, "<i8"))
        content = hashlib.sha256(wide.tobytes()).hexdigest()
        return {"array": [wide.dtype.str, value.shape, content]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, Set):
        return _plain(sorted(value, key=str))
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, bytes):
        return [_plain(part) for part in value]
    return {"pickle": hashlib.sha256(pickle.dumps(value, protocol=4)).hexdigest()}
