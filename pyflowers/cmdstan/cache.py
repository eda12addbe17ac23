"""The user's cache: where it is, its locks, and folders that appear whole or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from pyflowers.errors import ToolchainError

_STAGING = ".staging-"


def cache_dir() -> Path:
    """Return the cache folder: ``PYFLOWERS_CACHE``, or the platform's place for caches."""
    given = os.environ.get("PYFLOWERS_CACHE")
    return Path(given).expanduser().resolve() if given else user_cache_path("pyflowers")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of `folder` across processes; two at once do the work once.

    Raises
    ------
    ToolchainError
        If the cache cannot be written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.parent / f".{folder.name}.lock"):
            yield
    except OSError as error:
        raise ToolchainError(
            f"{folder}: the cache cannot be written ({error.strerror or error}); free space or set "
            "PYFLOWERS_CACHE to another folder"
        ) from error


@contextmanager
def appearing(folder: Path) -> Iterator[Path]:
    """Yield a fresh folder to fill, which becomes `folder` in one step when the block succeeds.

    Call it with the folder's lock held. What an interrupted call left behind is removed first, so
    that a compiler orphaned by it cannot write into ours.
    """
    for stale in folder.parent.glob(f"{_STAGING}{folder.name}-*"):
        shutil.rmtree(stale, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(prefix=f"{_STAGING}{folder.name}-", dir=folder.parent))
    try:
        yield staging
        staging.chmod(0o755)
        if folder.exists():
            shutil.rmtree(folder)
        staging.replace(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def sha256_file(path: Path) -> str:
    """Return the SHA-256 digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(*parts: str) -> str:
    """Return one digest of several texts, told apart by their lengths."""
    total = hashlib.sha256()
    for part in parts:
        raw = part.encode()
        total.update(f"{len(raw)}:".encode() + raw)
    return total.hexdigest()
