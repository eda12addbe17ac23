"""The user's cache: its location, locks, atomic creation of folders, and detection of damage.

A cached file counts as intact if its size and modification time match the record; its contents are
then not read. If only the time differs, as in a copied cache, the SHA-256 is compared, and the
recorded time is restored, because make uses it to decide what is out of date.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Any

from filelock import FileLock
from platformdirs import user_cache_path

from pyflowers.digests import sha256_file
from pyflowers.errors import ToolchainError
from pyflowers.storage import files_in, naming, put_in_place, recover, staging

logger = logging.getLogger("pyflowers")

MANIFEST = "manifest.json"
HEADERS = "headers.json"
"""Manifest of the many headers; it is separate because they are needed only for compilation."""


class Care(Enum):
    """How thoroughly to check files; a program needs no headers to run."""

    RUN = "all but headers, by size and time"
    COMPILE = "all files, by size and time"
    DIGESTS = "all files, by their SHA-256"


def write_manifest(folder: Path) -> None:
    """Record every file and link in `folder`."""
    names = files_in(folder)
    headers = [name for name in names if name.startswith("include/")]
    others = [name for name in names if not name.startswith("include/")]
    if headers:
        others.append(HEADERS)
    for manifest, listed in ((HEADERS, headers), (MANIFEST, others)):
        if listed:
            entries = {name: _entry(folder / name) for name in listed}
            (folder / manifest).write_text(json.dumps(entries, indent=0), encoding="utf-8")


def _entry(path: Path) -> list[Any]:
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        return ["link", str(path.readlink())]
    runs = bool(found.st_mode & stat.S_IXUSR)
    return ["file", found.st_size, found.st_mtime_ns, runs, sha256_file(path)]


def find_damage(folder: Path, care: Care) -> str | None:
    """Return the first damaged file, with a description of the damage; None if all are intact."""
    manifests = [MANIFEST]
    for manifest in manifests:
        try:
            entries = json.loads((folder / manifest).read_text(encoding="utf-8"))
            if not entries:
                return f"{manifest} is empty"
            for name, entry in entries.items():
                damage = _damage(f"{folder}/{name}", care, *entry)
                if damage:
                    return f"{name} {damage}"
            if HEADERS in entries and care is not Care.RUN:
                manifests.append(HEADERS)
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            return f"{manifest} cannot be read"
    return None


def _damage(path: str, care: Care, kind: str, *recorded: Any) -> str:
    """Return the damage of a file or link; empty if it matches the record."""
    try:
        if kind == "link":
            (target,) = recorded
            if str(Path(path).readlink()) == target:
                return ""
            return "points elsewhere"
        size, time, runs, sha256 = recorded
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode):
            return "is not a file"
        if found.st_size != size:
            return f"has {found.st_size} bytes instead of {size}"
        if runs and not found.st_mode & stat.S_IXUSR:
            return "cannot be run"
        if _is_open_to_others(found):
            return "can be changed by another user"
        is_touched = found.st_mtime_ns != time
        if (is_touched or care is Care.DIGESTS) and sha256_file(Path(path)) != sha256:
            return "has different contents"
        if is_touched:
            with suppress(OSError):
                os.utime(path, ns=(found.st_atime_ns, time))
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return ""


def restore(folder: Path, care: Care, make: Callable[[], None]) -> None:
    """Build a folder in the cache if it does not exist or is damaged.

    Raises
    ------
    ToolchainError
        If another user owns the folder or can write to it, or it cannot be built.
    """
    require_own(folder)
    if find_damage(folder, care) is None:
        return
    with locked(folder):
        damage = find_damage(folder, care)
        if damage is None:
            return
        if os.path.lexists(folder):
            logger.warning("%s is damaged (%s) and is being rebuilt", folder, damage)
        make()


def _is_open_to_others(found: os.stat_result) -> bool:
    if not hasattr(os, "geteuid"):
        return False
    return found.st_uid != os.geteuid() or bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def cache_dir() -> Path:
    """Return the cache folder: ``PYFLOWERS_CACHE``, or the platform's folder for caches.

    Raises
    ------
    ToolchainError
        If other users could change the contents of the cache, which are executed.
    """
    given = os.environ.get("PYFLOWERS_CACHE")
    if given:
        folder = Path(given).expanduser()
    else:
        folder = user_cache_path("pyflowers")
    folder = folder.resolve()
    if folder.exists() and not folder.is_dir():
        raise ToolchainError(
            f"{folder}: the cache must be a folder; set PYFLOWERS_CACHE to a folder of your own"
        )
    require_own(folder)
    return folder


def is_own(path: Path) -> bool:
    """Whether there is no file at `path`, or no other user could have written it."""
    try:
        require_own(path)
    except ToolchainError:
        return False
    return True


def require_own(path: Path) -> None:
    """Reject a folder or file in the cache that another user owns or can write to.

    A path at which nothing exists is not rejected.

    Raises
    ------
    ToolchainError
        If another user owns `path` or can write to it; the message gives the remedy.
    """
    if not hasattr(os, "geteuid"):
        return
    try:
        found = path.lstat()
    except OSError:
        return  # the code that uses it will report the error
    other = "set PYFLOWERS_CACHE to a folder of your own"
    if found.st_uid != os.geteuid():
        raise ToolchainError(
            f"{path}: the cache belongs to another user (id {found.st_uid}), and pyflowers would "
            f"run that user's programs; {other}"
        )
    if not stat.S_ISLNK(found.st_mode) and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ToolchainError(
            f"{path}: other users can write into the cache, and pyflowers would run their "
            f"programs; run chmod -R go-w {shlex.quote(str(path))}, or {other}"
        )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of `folder` across processes, so that the work is done only once.

    Raises
    ------
    ToolchainError
        If the cache cannot be written, or another user owns or can write to the lock or its folder.
    """
    lock = folder.parent / f".{folder.name}.lock"
    remedy = "free disk space, or set PYFLOWERS_CACHE to another folder"
    try:
        # The cache must be private even if the umask is permissive.
        for parent in reversed((folder.parent, *folder.parent.parents)):
            if not parent.is_dir():
                parent.mkdir(mode=0o700, exist_ok=True)
        require_own(folder.parent)
        require_own(lock)
        with (
            FileLock(lock, mode=0o600),
            naming(folder.parent, f"{folder}: the cache cannot be written", remedy),
        ):
            yield
    except OSError as error:
        raise ToolchainError(
            f"{folder}: the cache cannot be written ({error.strerror or error}); {remedy}"
        ) from error


@contextmanager
def appearing(folder: Path) -> Iterator[Path]:
    """Yield an empty folder, which becomes `folder` in one step when the block succeeds.

    The caller must hold the folder's lock. Leftovers of killed processes are restored or removed
    first.
    """
    recover(folder.parent)
    with staging(folder.parent) as aside:
        new = aside / "new"
        new.mkdir(mode=0o700)
        yield new
        # No other user may write into the folder, even if the umask is permissive.
        new.chmod(0o755)
        for path in new.rglob("*"):
            mode = path.lstat().st_mode
            if mode & (stat.S_IWGRP | stat.S_IWOTH) and not stat.S_ISLNK(mode):
                path.chmod(stat.S_IMODE(mode) & ~(stat.S_IWGRP | stat.S_IWOTH))
        if folder.is_symlink() or folder.is_file():
            folder.unlink()
        put_in_place(aside, folder, files_in(folder))
