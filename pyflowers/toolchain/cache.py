"""The user's cache: where it is, its locks, folders that appear whole or not at all, and damage.

A file of the cache counts as whole if its size and its time of modification are those recorded when
it was made, which costs a look at its directory entry. A file whose time alone is another, as a
copy's is, is told by its SHA-256, and gets the recorded time back, by which make decides what is
out of date.
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
"""Headers are many and needed to compile only, so they have a manifest of their own."""


class Care(Enum):
    """How closely to look: a program that is only run needs no headers."""

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
    """Return the first file that is not as it was recorded, with what is wrong; None if all are."""
    manifests = [MANIFEST]
    for manifest in manifests:
        try:
            entries = json.loads((folder / manifest).read_text(encoding="utf-8"))
            if not entries:
                return f"{manifest} lists nothing"
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
    """Return what is wrong with a file or link; nothing if it is as it was recorded."""
    try:
        if kind == "link":
            (target,) = recorded
            return "" if str(Path(path).readlink()) == target else "leads elsewhere"
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
            return "has other contents"
        if is_touched:
            with suppress(OSError):
                os.utime(path, ns=(found.st_atime_ns, time))
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return ""


def restore(folder: Path, care: Care, make: Callable[[], None]) -> None:
    """Let a folder of the cache be made if it is not there, or again if it is damaged.

    Raises
    ------
    ToolchainError
        If another user could write it, or it cannot be made.
    """
    require_own(folder)
    if find_damage(folder, care) is None:
        return
    with locked(folder):
        damage = find_damage(folder, care)
        if damage is None:
            return
        if os.path.lexists(folder):
            logger.warning("%s is damaged (%s) and is being made again", folder, damage)
        make()


def _is_open_to_others(found: os.stat_result) -> bool:
    if not hasattr(os, "geteuid"):
        return False
    return found.st_uid != os.geteuid() or bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def cache_dir() -> Path:
    """Return the cache folder: ``PYFLOWERS_CACHE``, or the platform's place for caches.

    Raises
    ------
    ToolchainError
        If others could change what is in it, which is run.
    """
    given = os.environ.get("PYFLOWERS_CACHE")
    folder = Path(given).expanduser() if given else user_cache_path("pyflowers")
    folder = folder.resolve()
    require_own(folder)
    return folder


def is_own(path: Path) -> bool:
    """Whether nobody else could have written what is at `path`, or nothing is there."""
    try:
        require_own(path)
    except ToolchainError:
        return False
    return True


def require_own(path: Path) -> None:
    """Refuse a folder or file of the cache that another user owns or can write; it may be missing.

    Raises
    ------
    ToolchainError
        With what to do about it.
    """
    if not hasattr(os, "geteuid"):
        return
    try:
        found = path.lstat()
    except OSError:
        return  # whoever needs it says what is wrong with it
    other = "set PYFLOWERS_CACHE to a folder of your own"
    if found.st_uid != os.geteuid():
        raise ToolchainError(
            f"{path}: the cache belongs to the user with id {found.st_uid} and not to you, and "
            f"programs in it are run; {other}"
        )
    if not stat.S_ISLNK(found.st_mode) and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ToolchainError(
            f"{path}: other users can write into the cache, and programs in it are run; run "
            f"chmod -R go-w {shlex.quote(str(path))}, or {other}"
        )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of `folder` across processes; two at once do the work once.

    Raises
    ------
    ToolchainError
        If the cache cannot be written, or its lock is another user's.
    """
    lock = folder.parent / f".{folder.name}.lock"
    remedy = "free space or set PYFLOWERS_CACHE to another folder"
    try:
        # What another user's mask would allow is not meant for the cache.
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
    """Yield a fresh folder to fill, which becomes `folder` in one step when the block succeeds.

    Call it with the folder's lock held. What a kill left behind is finished or cleared first.
    """
    recover(folder.parent)
    with staging(folder.parent) as aside:
        new = aside / "new"
        new.mkdir(mode=0o700)
        yield new
        # Nobody else may write into it, whatever the user's mask allows.
        new.chmod(0o755)
        for path in new.rglob("*"):
            mode = path.lstat().st_mode
            if mode & (stat.S_IWGRP | stat.S_IWOTH) and not stat.S_ISLNK(mode):
                path.chmod(stat.S_IMODE(mode) & ~(stat.S_IWGRP | stat.S_IWOTH))
        if folder.is_symlink() or folder.is_file():
            folder.unlink()
        put_in_place(aside, folder, files_in(folder))
