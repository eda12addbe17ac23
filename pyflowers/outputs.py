"""Results on disk: checked before the work, written aside, and put in place in one step.

What pyflowers writes is a folder that lists its own files (a run, a comparison, a lecture), or a
single file of a known kind (a report, an executable). It replaces only its own kind, and in a
folder only the files that such a folder lists. The path is resolved first: links and ``..`` lead
where the system would go, and everything after that is done with the real path.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyflowers.errors import ConfigError
from pyflowers.records import as_path
from pyflowers.staging import files_in, pour, recover, staging, swap, with_folders


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder that pyflowers writes.

    Attributes
    ----------
    name : str
        What readers call it, such as ``run folder``.
    record : str
        The JSON file in it that lists its files, written last.
    content : str
        What is in it, such as ``run``.
    is_own : callable
        Whether a record is of this kind; without that the folder belongs to someone else.
    older : callable
        Names the files of a folder whose record, of an earlier version, has no list.
    inner : mapping of str to FolderKind
        Folders in it that are of a kind of their own, and may be written by themselves.
    """

    name: str
    record: str
    content: str
    is_own: Callable[[Mapping[str, Any]], bool]
    older: Callable[[Path], Sequence[str]] = lambda _: ()
    inner: Mapping[str, FolderKind] = field(default_factory=dict)

    def files(self, folder: Path) -> set[str]:
        """Return the files in `folder` that pyflowers wrote, by their relative paths."""
        record = read_json(folder / self.record)
        if not self.is_own(record):
            return set()
        listed = record["files"] if "files" in record else self.older(folder)
        if not isinstance(listed, Sequence) or not all(isinstance(name, str) for name in listed):
            return set()
        # Never join a listed name to the folder: only what is found there can be meant.
        own = with_folders([self.record, *listed]).intersection(files_in(folder))
        for name, kind in self.inner.items():
            own.update(f"{name}/{file}" for file in kind.files(folder / name))
        return own

    def foreign(self, folder: Path) -> list[str]:
        """Return what in `folder` pyflowers did not write."""
        own = self.files(folder)
        return [
            name for name in files_in(folder) if name not in own or (folder / name).is_symlink()
        ]


@dataclass(frozen=True)
class FileKind:
    """A kind of file that pyflowers writes.

    Attributes
    ----------
    name : str
        What readers call it, such as ``report``.
    is_own : callable
        Whether a file is of this kind.
    """

    name: str
    is_own: Callable[[Path], bool]


def check_folder(path: str | Path, kind: FolderKind) -> Path:
    """Refuse, before any work is done, a folder that cannot be written or holds something else.

    Returns
    -------
    Path
        The real path.

    Raises
    ------
    ConfigError
        If it is a file, holds a file that pyflowers did not write, or cannot be written.
    """
    target = _resolved(path, kind.name)
    with writing(path, kind.name):
        recover(target.parent, target)
        if target.exists() and not target.is_dir():
            raise ConfigError(f"{kind.name} {path}: it is {_what(target)}; name a folder")
        foreign = kind.foreign(target) if target.exists() else []
        if foreign:
            raise ConfigError(
                f"{kind.name} {path}: it contains {foreign[0]}, which no earlier {kind.content} "
                "wrote; name another folder or move that file"
            )
        _probe(target if _must_stay(target) else target.parent)
    return target


def check_file(path: str | Path, kind: FileKind) -> Path:
    """Refuse, before any work is done, a file that cannot be written or is something else.

    Returns
    -------
    Path
        The real path.

    Raises
    ------
    ConfigError
        If there is something that is no file of this kind, or it cannot be written.
    """
    target = _resolved(path, kind.name)
    with writing(path, kind.name):
        recover(target.parent)
        if target.exists() and not target.is_file():
            raise ConfigError(f"{kind.name} {path}: it is {_what(target)}; name a file")
        if target.exists() and not kind.is_own(target):
            raise ConfigError(
                f"{kind.name} {path}: it already exists and pyflowers did not write it as one; "
                "name another file"
            )
        _probe(target.parent)
    return target


@contextmanager
def new_folder(path: str | Path, kind: FolderKind) -> Iterator[Path]:
    """Yield an empty folder to fill, which takes the place of `path` when the block succeeds.

    The files in it are listed in its record, which the block has to write.

    Raises
    ------
    ConfigError
        As :func:`check_folder`, and if writing fails.
    """
    target = check_folder(path, kind)
    with writing(path, kind.name):
        stays = _must_stay(target)
        if not stays:
            target.parent.mkdir(parents=True, exist_ok=True)
        with staging(target if stays else target.parent, target.name) as aside:
            new = aside / "new"
            new.mkdir()
            yield new
            _list_files(new, kind.record)
            if target.exists():
                new.chmod(target.stat().st_mode & 0o7777)
            # The work may have taken hours: look again.
            check_folder(path, kind)
            old = kind.files(target) if target.exists() else set()
            pour(aside, target, old, kind.record) if stays else swap(aside, target, old)


@contextmanager
def new_file(path: str | Path, kind: FileKind) -> Iterator[Path]:
    """Yield the path of a file to write, which takes the place of `path` when the block succeeds.

    Raises
    ------
    ConfigError
        As :func:`check_file`, and if writing fails.
    """
    target = check_file(path, kind)
    with writing(path, kind.name):
        target.parent.mkdir(parents=True, exist_ok=True)
        with staging(target.parent, target.name) as aside:
            yield aside / "new"
            check_file(path, kind)
            if target.exists() or not _appear(aside / "new", target):
                (aside / "new").replace(target)


@contextmanager
def writing(path: str | Path, name: str) -> Iterator[None]:
    """Turn a system error into one sentence.

    Raises
    ------
    ConfigError
        Instead of OSError.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(
            f"{name} {path}: it cannot be written ({reason}); name another place or free space"
        ) from error


def read_json(path: Path) -> Mapping[str, Any]:
    """Return the contents of a JSON file; empty if it cannot be read or is not a mapping."""
    try:
        if path.is_symlink() or not path.is_file():
            return {}
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _resolved(path: str | Path, name: str) -> Path:
    given = as_path(path, name)
    try:
        target = Path(os.path.realpath(given))
        if target.is_symlink():
            raise ConfigError(f"{name} {path}: its links form a loop; name another")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{name} {path}: it is not a path ({reason}); name another") from error
    return target


def _must_stay(target: Path) -> bool:
    """Whether a folder cannot be exchanged for another: shells are in it, or it is a mount."""
    if not target.is_dir():
        return False
    try:
        here = Path.cwd()
    except FileNotFoundError:
        here = Path("/")
    parent_is_ours = os.access(target.parent, os.W_OK | os.X_OK)
    return here.is_relative_to(target) or target.is_mount() or not parent_is_ours


def _probe(folder: Path) -> None:
    """Write for a moment where the staging folder will be, or in what is there of the way."""
    while not os.path.lexists(folder):
        folder = folder.parent
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is {_what(folder)}")
    with staging(folder, "probe"):
        pass


def _list_files(folder: Path, record: str) -> None:
    """Write the names of all files into the folder's record."""
    path = folder / record
    values = json.loads(path.read_text(encoding="utf-8"))
    values["files"] = files_in(folder)
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _appear(source: Path, target: Path) -> bool:
    """Give a file a name that nothing has; return False where the file system has no links."""
    try:
        target.hardlink_to(source)
    except FileExistsError:
        raise
    except OSError:
        return False
    return True


def _what(path: Path) -> str:
    """Describe what is in the way."""
    for test, name in (
        (path.is_file, "a file"),
        (path.is_dir, "a folder"),
        (path.is_fifo, "a pipe"),
        (path.is_socket, "a socket"),
        (path.is_symlink, "a broken link"),
    ):
        if test():
            return name
    return "a device"
