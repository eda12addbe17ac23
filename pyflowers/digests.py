"""Digests of texts and files, by which programs, data and executables are told apart."""

from __future__ import annotations

import hashlib
from pathlib import Path


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
