"""The user's cache: where it is, its locks, and folders that appear whole or not at all."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from pyflowers.errors import ToolchainError
from pyflowers.storage import naming, put_in_place, recover, staging


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
        _close(new)
        if folder.is_symlink() or folder.is_file():
            folder.unlink()
        put_in_place(aside, folder)


def _close(folder: Path) -> None:
    """Let nobody else write into a folder, whatever the user's mask allows."""
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        mode = path.lstat().st_mode
        if mode & (stat.S_IWGRP | stat.S_IWOTH) and not stat.S_ISLNK(mode):
            path.chmod(stat.S_IMODE(mode) & ~(stat.S_IWGRP | stat.S_IWOTH))
