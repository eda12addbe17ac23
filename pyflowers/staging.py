"""Folders being written: beside what they replace, under a lock, and swapped in one step.

A staging folder ``.pyflowers-NAME-…`` holds ``lock``, ``new`` (what is being written) and, once
that is whole, ``journal.json``: which files the old one had and the new one has. The lock is
flock's, which the kernel releases when its process ends for any reason. So a staging folder whose
lock is free was left by a kill, and :func:`recover` finishes or clears it: the files in the journal
are pyflowers' own, and nothing else is removed.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

if sys.platform != "win32":
    import fcntl

PREFIX = ".pyflowers-"
TEMPORARY_PREFIX = "pyflowers-"
LOCK = ".pyflowers.lock"
_MARK = b"pyflowers holds this folder while it is locked\n"
_JOURNAL = "journal.json"
_ENDING = r"\d+-[0-9a-f]{8}"


@contextmanager
def staging(parent: Path, name: str, prefix: str = PREFIX) -> Iterator[Path]:
    """Yield a fresh locked folder in `parent`, which is gone after the block.

    Raises
    ------
    OSError
        If it cannot be made.
    """
    # 40 characters of four bytes each and what is added stay below the 255 bytes of a name.
    start = f"{prefix}{name[:40]}-" if name else prefix
    while True:
        folder = parent / f"{start}{os.getpid()}-{secrets.token_hex(4)}"
        folder.mkdir(mode=0o700)
        try:
            lock = _lock(folder, insist=False)
        except OSError:  # the disk is full
            (folder / LOCK).unlink(missing_ok=True)
            folder.rmdir()
            raise
        if lock is not None:
            break  # else another process took it for a leftover, before it was locked
    try:
        yield folder
    finally:
        clear(folder)
        os.close(lock)


def swap(folder: Path, target: Path, old: Iterable[str]) -> None:
    """Put ``folder/new`` where `target` is; at every moment one of the two is there and whole.

    Parameters
    ----------
    folder : Path
        A staging folder beside `target`.
    target : Path
        A folder, or nothing yet.
    old : iterable of str
        The files in `target` that are pyflowers' own; the others are not removed.

    Raises
    ------
    OSError
        If it is not possible; `target` is what it was.
    """
    new = folder / "new"
    _write_journal(folder, target, old)
    if not target.exists() or not any(target.iterdir()):
        new.rename(target)  # the system refuses if the folder is no longer empty
    elif not _exchange(new, target):
        target.rename(folder / "old")
        try:
            new.rename(target)
        except OSError:
            (folder / "old").rename(target)
            raise


def pour(folder: Path, target: Path, old: Iterable[str], last: str) -> None:
    """Put the files of ``folder/new`` into `target`, a folder that itself must stay.

    While that lasts the file `last` is not there, so that nobody takes a mixture for a complete
    folder.

    Parameters
    ----------
    folder : Path
        A staging folder in `target`.
    target, old
        As for :func:`swap`.
    last : str
        The file that makes a folder a whole one.

    Raises
    ------
    OSError
        If it is not possible; the next :func:`recover` of `target` goes on.
    """
    _write_journal(folder, target, old, last)
    _pour(folder, target)


def recover(parent: Path, target: Path | None = None, prefix: str = PREFIX) -> list[Path]:
    """Finish or clear what killed processes left in `parent`, and in `target` if it was poured.

    Returns
    -------
    list of Path
        The folders that were there and have been dealt with.
    """
    found = [folder for folder in leftovers(parent, prefix) if clear_leftover(folder)]
    if target is not None:
        found += [folder for folder in leftovers(target, prefix) if clear_leftover(folder)]
    return found


def leftovers(parent: Path, prefix: str = PREFIX) -> list[Path]:
    """Return the staging folders of this user in `parent`, those of living processes as well."""
    with suppress(OSError), os.scandir(parent) as entries:
        return [
            Path(entry.path)
            for entry in entries
            if entry.name.startswith(prefix) and is_staging(Path(entry.path), prefix)
        ]
    return []


def is_staging(folder: Path, prefix: str = PREFIX) -> bool:
    """Whether a folder is a staging folder of this user, by name, owner and lock."""
    with suppress(OSError):
        if re.fullmatch(rf"{re.escape(prefix)}.*{_ENDING}", folder.name, re.DOTALL) is None:
            return False
        if folder.is_symlink() or not folder.is_dir():
            return False
        if hasattr(os, "geteuid") and folder.lstat().st_uid != os.geteuid():
            return False
        lock = folder / LOCK
        if not lock.is_symlink() and lock.is_file():
            return _MARK.startswith(lock.read_bytes())
        return not any(folder.iterdir())  # killed before it was locked
    return False


def clear_leftover(folder: Path) -> bool:
    """Finish or clear a staging folder, unless its process lives; return whether it is gone."""
    with suppress(OSError):
        lock = _lock(folder, insist=True)
        if lock is None:
            return False
        try:
            clear(folder)
        finally:
            os.close(lock)
    return not folder.exists()


def is_locked(folder: Path) -> bool:
    """Whether a living process holds a staging folder."""
    lock = _lock(folder, insist=True)
    if lock is not None:
        os.close(lock)
    return lock is None


def clear(folder: Path) -> None:
    """Finish what a staging folder's journal says, and remove what in it is pyflowers' own."""
    journal = _read_journal(folder)
    with suppress(OSError):
        if journal:
            _finish(folder, journal)
            for tree in (folder / "new", folder / "old"):
                if tree.is_dir():
                    remove_files(tree, {*journal["old"], *journal["new"]})
                    tree.rmdir()  # not if it holds a file that pyflowers did not write: keep it
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != LOCK:
                path.unlink()
        # Last, because it marks the folder as a staging folder.
        (folder / LOCK).unlink(missing_ok=True)
        folder.rmdir()


def files_in(folder: Path) -> list[str]:
    """Return the files in a folder, and its links and empty folders, by their relative paths."""
    found = []
    for path in sorted(folder.iterdir()):
        if is_staging(path):
            continue
        inner = files_in(path) if path.is_dir() and not path.is_symlink() else []
        found += [f"{path.name}/{name}" for name in inner] or [path.name]
    return found


def with_folders(names: Iterable[str]) -> set[str]:
    """Return files' relative paths and those of the folders that they are in, empty or not."""
    return {str(each) for name in names for each in (name, *list(PurePosixPath(name).parents)[:-1])}


def remove_files(folder: Path, names: Iterable[str]) -> None:
    """Remove files by their relative paths, and the folders in `folder` that are empty then."""
    for name in with_folders(names).intersection(files_in(folder)):
        path = folder / name
        with suppress(OSError):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
            for above in list(path.relative_to(folder).parents)[:-1]:
                (folder / above).rmdir()


def _lock(folder: Path, *, insist: bool) -> int | None:
    """Lock a staging folder, or return None if a process holds it or it is gone.

    On a file system without locks a folder of our own is taken as locked, and that of others too.
    """
    try:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        lock = os.open(folder / LOCK, flags, 0o600)
    except FileNotFoundError:
        return None
    try:
        if not _flock(lock) and insist:
            raise BlockingIOError
        if os.path.samestat(os.fstat(lock), (folder / LOCK).lstat()):
            os.ftruncate(lock, 0)
            os.write(lock, _MARK)
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(lock)
        raise
    os.close(lock)
    return None


def _flock(lock: int) -> bool:
    """Lock a file; return False where there are no locks."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def _write_journal(
    folder: Path, target: Path, old: Iterable[str], poured_last: str | None = None
) -> None:
    new = files_in(folder / "new")
    journal = {
        "target": target.name,
        "poured_last": poured_last,
        "old": sorted(old),
        "new": sorted(new, key=lambda name: name == poured_last),
    }
    part = folder / f"{_JOURNAL}.part"
    part.write_text(json.dumps(journal), encoding="utf-8")
    part.replace(folder / _JOURNAL)


def _read_journal(folder: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        journal: dict[str, Any] = json.loads((folder / _JOURNAL).read_text(encoding="utf-8"))
        return journal
    return {}


def _finish(folder: Path, journal: dict[str, Any]) -> None:
    """Continue a replacement where it was interrupted."""
    if journal["poured_last"] is not None:
        _pour(folder, folder.parent)
        return
    target = folder.parent / journal["target"]
    if (folder / "old").exists() and not target.exists():
        (folder / "new").rename(target)


def _pour(folder: Path, target: Path) -> None:
    """Move the new files in, over the old ones, and remove the old ones that have no successor."""
    journal = _read_journal(folder)
    if (folder / "new" / journal["poured_last"]).exists():
        remove_files(target, {journal["poured_last"]}.intersection(journal["old"]))
    for name in journal["new"]:
        source, goal = folder / "new" / name, target / name
        if source.is_dir():
            goal.mkdir(parents=True, exist_ok=True)
        elif source.exists() and (name in journal["old"] or not os.path.lexists(goal)):
            goal.parent.mkdir(parents=True, exist_ok=True)
            source.replace(goal)
    remove_files(target, set(journal["old"]) - set(journal["new"]))


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two folders in one step where the system can: Linux, on most file systems."""
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    if renameat2 is None:
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    done: int = renameat2(here, os.fsencode(first), here, os.fsencode(second), exchange)
    return done == 0
