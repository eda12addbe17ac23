"""Results on disk: check the place, write the files next to it, and move them into place.

pyflowers writes folders that list their own files (a run, a comparison, a lecture), and single
files of a known kind (a report, an executable). A result replaces only a result of the same kind,
and files that pyflowers did not write are kept. The path is resolved first: links and ``..`` are
followed as the system follows them, and all later steps use the real path.

The record of a folder lists the SHA-256 digests of the folder's files and of the record itself.
With these digests, a reader recognises a file that has been damaged, or that was written with
another record.

A staging folder ``.pyflowers-….tmp`` holds ``new``, the result that is being written. During the
replacement it also holds ``old``, the earlier result, and ``own.json``, the list of the files in
``old`` that pyflowers wrote. A folder with any other contents belongs to the user, and so does one
that other users can enter or in which a link, pipe or device takes the place of one of these
entries. The process locks ``lock`` with flock, and the kernel releases the lock when the process
ends for any reason. So a staging folder whose lock is free was left by a killed process:
:func:`recover` then puts ``old`` back if nothing has taken its place, and removes the rest unless
it holds a file that pyflowers did not write.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import Any

from pyflowers.digests import digest, sha256_file
from pyflowers.errors import ConfigError, PyflowersError, ToolchainError
from pyflowers.records import as_path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PREFIX, SUFFIX = ".pyflowers-", ".tmp"

LARGEST_RECORD = 100_000_000
"""The size, in bytes, above which a JSON file is not read."""

_FOLDERS, _FILES = {"new", "old", "gone"}, {"lock", "own.json", "new"}
"""The entries that a staging folder may hold; ``new`` is a folder or a file."""

_PROBE_BYTES = 1024**2
_FULL = os.strerror(errno.ENOSPC)


class DiskError(ToolchainError):
    """A folder cannot be written to; the message names the folder, the reason and the remedy."""


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder that pyflowers writes.

    Attributes
    ----------
    name : str
        Its name in messages, such as ``run folder``.
    record : str
        The JSON file in it that lists its files.
    content : str
        What it contains, such as ``run``.
    is_own : callable
        Function that returns whether a record is of this kind. If it is not, pyflowers did not
        write the folder.
    inner : mapping of str to FolderKind
        Subfolders that have their own kind and may be written separately.
    """

    name: str
    record: str
    content: str
    is_own: Callable[[Mapping[str, Any]], bool]
    inner: Mapping[str, FolderKind] = field(default_factory=dict)

    def files(self, folder: Path) -> set[str]:
        """Return the files in `folder` that pyflowers wrote, by their relative paths."""
        record = read_json(folder / self.record)
        if not self.is_own(record):
            return set()
        listed = record.get("files", ())
        if not isinstance(listed, dict | list | tuple):
            return set()
        if not all(isinstance(name, str) for name in listed):
            return set()
        # Listed names are only compared with the files found in the folder. They are never joined
        # to its path, because a list may contain any name.
        above = [str(part) for name in listed for part in list(PurePosixPath(name).parents)[:-1]]
        own = {self.record, *listed, *above}.intersection(files_in(folder))
        for name, kind in self.inner.items():
            own.update(f"{name}/{file}" for file in kind.files(folder / name))
        return own

    def foreign(self, folder: Path) -> list[str]:
        """Return the files in `folder` that pyflowers did not write."""
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
        Its name in messages, such as ``report``.
    is_own : callable
        Function that returns whether a file is of this kind.
    """

    name: str
    is_own: Callable[[Path], bool]


def check_folder(path: str | Path, kind: FolderKind) -> Path:
    """Reject a folder that cannot be written or holds a user's files, before any work is done.

    Returns
    -------
    Path
        The real path.

    Raises
    ------
    ConfigError
        If the path is a file, if the folder holds a file that pyflowers did not write, or if it
        cannot be written or replaced.
    """
    with _checking(path, kind.name) as target:
        if target.exists() and not target.is_dir():
            raise ConfigError(f"{kind.name} {path} is {_what(target)}; name a folder")
        is_here = False
        with suppress(FileNotFoundError):  # the working folder may be gone
            is_here = Path.cwd().is_relative_to(target)
        if target.is_mount() or is_here:
            if is_here:
                reason = "is or contains the working folder"
            else:
                reason = "is a mount point"
            raise ConfigError(
                f"{kind.name} {path} cannot be replaced, because it {reason}; name a folder inside "
                "it"
            )
        foreign = kind.foreign(target)
        if foreign:
            raise ConfigError(
                f"{kind.name} {path} contains {foreign[0]}, which no earlier {kind.content} "
                "wrote; name another folder or move that file"
            )
    return target


def check_file(path: str | Path, kind: FileKind) -> Path:
    """Reject a file that cannot be written or is of another kind, before any work is done.

    Returns
    -------
    Path
        The real path.

    Raises
    ------
    ConfigError
        If the path exists and is not a file of this kind, or cannot be written.
    """
    with _checking(path, kind.name) as target:
        if target.exists() and not target.is_file():
            raise ConfigError(f"{kind.name} {path} is {_what(target)}; name a file")
        if target.exists() and not kind.is_own(target):
            raise ConfigError(
                f"{kind.name} {path} already exists, but is not one that pyflowers wrote; "
                "name another file"
            )
    return target


@contextmanager
def new_folder(path: str | Path, kind: FolderKind) -> Iterator[Path]:
    """Yield an empty folder to fill, which takes the place of `path` when the block succeeds.

    The block has to write the folder's record. The files in the folder, with their digests, are
    added to the record under ``files``; for the digest of the record itself, see
    :func:`record_digest`.

    Raises
    ------
    ConfigError
        As for :func:`check_folder`, and if writing fails.
    """
    target = check_folder(path, kind)
    with writing(path, kind.name):
        target.parent.mkdir(parents=True, exist_ok=True)
        with staging(target.parent) as aside:
            new = aside / "new"
            new.mkdir()
            yield new
            record = json.loads((new / kind.record).read_text(encoding="utf-8"))
            files = {name: _digest(new / name) for name in files_in(new)}
            record |= {"files": files}
            files[kind.record] = record_digest(record, kind.record)
            text = json.dumps(record, indent=2, ensure_ascii=False)
            (new / kind.record).write_text(text + "\n", encoding="utf-8")
            check_folder(path, kind)  # checked again, because the work may have taken hours
            _flush(new)
            put_in_place(aside, target, kind.files(target))
            _flush_entry(target.parent)


@contextmanager
def new_file(path: str | Path, kind: FileKind) -> Iterator[Path]:
    """Yield the path of a file to write, which takes the place of `path` when the block succeeds.

    Raises
    ------
    ConfigError
        As for :func:`check_file`, and if writing fails.
    """
    target = check_file(path, kind)
    with writing(path, kind.name):
        target.parent.mkdir(parents=True, exist_ok=True)
        with staging(target.parent) as aside:
            new = aside / "new"
            yield new
            check_file(path, kind)
            _flush(new)
            if not target.exists():
                try:
                    target.hardlink_to(new)  # fails if a file was created there meanwhile
                    return
                except FileExistsError:
                    raise
                except OSError:  # the file system does not support hard links
                    pass
            new.replace(target)


@contextmanager
def writing(path: str | Path, name: str) -> Iterator[None]:
    """Turn a system error into an error with the path and a remedy.

    Raises
    ------
    ConfigError
        If the block raises an OSError.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(
            f"{name} {path} cannot be written ({reason}); free disk space, or name another place"
        ) from error


def record_digest(record: Mapping[str, Any], name: str) -> str:
    """Return the digest of a record called `name`, without the entry of `name` in its ``files``."""
    files = {file: its for file, its in record.get("files", {}).items() if file != name}
    return digest(json.dumps({**record, "files": files}))


def open_file(path: Path, largest: int) -> BufferedReader:
    """Open a file to read it.

    Raises
    ------
    OSError
        If the file cannot be read, has more than `largest` bytes, or is a pipe or a device, which
        may have no end.
    """
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise OSError(errno.EINVAL, f"it is {_what(path)}")
    if about.st_size > largest:
        raise OSError(errno.EFBIG, f"it is larger than {largest // 1_000_000:,} MB")
    return path.open("rb")


def read_bytes(path: Path, largest: int) -> bytes:
    """Return the contents of a file.

    Raises
    ------
    OSError
        As for :func:`open_file`.
    """
    with open_file(path, largest) as file:
        return file.read(os.fstat(file.fileno()).st_size)


def read_json(path: Path) -> Mapping[str, Any]:
    """Return the contents of a JSON file; empty if it cannot be read or is not a mapping."""
    values = _read_json(path)
    if isinstance(values, dict):
        return values
    return {}


def _read_json(path: Path) -> Any:
    """Return the contents of a JSON file; None if it is a link or cannot be read."""
    try:
        if path.is_symlink():
            return None
        return json.loads(read_bytes(path, LARGEST_RECORD).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _digest(path: Path) -> str:
    """Return the digest of a file; an empty string for a folder that holds no files."""
    if path.is_dir():
        return ""
    return sha256_file(path)


def _flush(path: Path) -> None:
    """Flush a file, or everything in a folder, from the system's memory to the disk.

    Without this, a power failure after a rename can leave an empty file in the new place.
    """
    if path.is_dir():
        for each in path.iterdir():
            _flush(each)
    _flush_entry(path)


def _flush_entry(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk."""
    if fcntl is None:  # Windows does not open folders, or flush files that are only read
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def staging(parent: Path) -> Iterator[Path]:
    """Yield a fresh locked folder in `parent`, which is removed after the block.

    Raises
    ------
    OSError
        If the folder cannot be created.
    """
    while True:
        folder = Path(tempfile.mkdtemp(SUFFIX, PREFIX, parent))
        try:
            lock = _lock(folder)
            break
        except (BlockingIOError, FileNotFoundError):
            continue  # another process removed it as a leftover before it was locked
        except OSError:  # such as a full disk
            shutil.rmtree(folder, ignore_errors=True)
            raise
    try:
        yield folder
    finally:
        _clear(folder)
        if lock is not None:
            os.close(lock)


def put_in_place(aside: Path, target: Path, own: Iterable[str]) -> None:
    """Move `target` to ``aside/old``, then ``aside/new`` to `target`, which is next to `aside`.

    Files in `target` that are not in `own`, because they were added after the check, are moved
    back.
    """
    new, old = aside / "new", aside / "old" / target.name
    if target.exists():
        new.chmod(target.stat().st_mode & 0o7777)
        own = sorted(own)
        (aside / "own.json").write_text(json.dumps(own), encoding="utf-8")
        _flush_entry(aside / "own.json")
        old.parent.mkdir()
        target.rename(old)
    new.rename(target)
    for name in set(files_in(old)).difference(own):
        if not os.path.lexists(target / name):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (old / name).rename(target / name)


def recover(parent: Path) -> None:
    """Restore or remove the staging folders that killed processes left in `parent`."""
    for folder in leftovers(parent):
        clear_leftover(folder)


def leftovers(parent: Path) -> list[Path]:
    """Return this user's staging folders in `parent`, including those of running processes."""
    with suppress(OSError):
        return [path for path in parent.glob(f"{PREFIX}*{SUFFIX}") if _is_staging(path)]
    return []


def clear_leftover(folder: Path) -> str:
    """Restore or remove the contents of a staging folder; return the reason if this fails."""
    try:
        lock = _lock(folder)
    except BlockingIOError:
        return "in use"
    except OSError as error:
        return f"it cannot be removed ({error.strerror})"
    if lock is None:
        return "perhaps in use: this file system does not support locks"
    kept = _clear(folder)
    os.close(lock)
    return kept


def files_in(folder: Path) -> list[str]:
    """Return a folder's files, links and empty folders by relative path, but no staging folders."""
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not _is_staging(Path(place, name))]
        links = [name for name in folders if Path(place, name).is_symlink()]
        here = Path(place).relative_to(folder)
        found += [(here / name).as_posix() for name in (*files, *links)]
        if not (files or folders or here == Path()):
            found.append(here.as_posix())
    return sorted(found)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a folder under TMPDIR and remove it after the block or, after a kill, at the next call.

    Raises
    ------
    DiskError
        If there is no folder for temporary files, or it cannot be written to.
    """
    try:
        parent = Path(tempfile.gettempdir()).resolve()
    except FileNotFoundError as error:
        raise DiskError(
            f"there is no folder for temporary files ({error.strerror}); set TMPDIR to a "
            "folder that you can write to"
        ) from error
    sentence = f"{parent}: temporary files cannot be written there"
    remedy = "free disk space, or set TMPDIR to another folder"
    with naming(parent, sentence, remedy):
        recover(parent)
        with staging(parent) as aside:
            folder = aside / "new"
            folder.mkdir()
            # The reason for an error is found before the folder is removed, because its files may
            # have filled the disk.
            with naming(folder, sentence, remedy):
                yield folder


@contextmanager
def naming(folder: Path, sentence: str, remedy: str) -> Iterator[None]:
    """If the folder cannot be written, replace any error with one that names the folder.

    Tools that cannot write report this in many ways, or fail with a message about something else.

    Raises
    ------
    DiskError
        If the folder cannot be written; the message is `sentence`, the reason and `remedy`.
    """
    try:
        yield
    except DiskError:
        raise
    except (OSError, PyflowersError) as error:
        why = _why_not(folder)
        # Compilers remove unfinished files, so the disk may no longer be full.
        if not why and isinstance(error, PyflowersError) and _FULL in str(error):
            why = _FULL
        if not why:
            raise
        raise DiskError(f"{sentence} ({why}); {remedy}") from error


def _why_not(folder: Path) -> str:
    """Return the reason why a folder cannot be written, or an empty string if it can be."""
    probe = folder / f"{PREFIX}probe-{secrets.token_hex(4)}"
    try:
        try:
            with probe.open("xb") as file:
                file.write(bytes(_PROBE_BYTES))
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _is_staging(folder: Path) -> bool:
    """Whether a path is a staging folder of this user: by name, owner, mode and contents."""
    if not (folder.name.startswith(PREFIX) and folder.name.endswith(SUFFIX)):
        return False
    try:
        if not _is_private(folder.lstat()):
            return False
        modes = {path.name: path.lstat().st_mode for path in folder.iterdir()}
        for name, mode in modes.items():
            is_folder = name in _FOLDERS and stat.S_ISDIR(mode)
            if not is_folder and not (name in _FILES and stat.S_ISREG(mode)):
                return False
        if "old" not in modes:
            return True
        return all(stat.S_ISDIR(path.lstat().st_mode) for path in (folder / "old").iterdir())
    except OSError:
        return False


def _is_private(about: os.stat_result) -> bool:
    """Whether this is a real folder, not a link, that only this user owns and can enter."""
    if not stat.S_ISDIR(about.st_mode):
        return False
    if not hasattr(os, "geteuid"):  # Windows
        return True
    return about.st_uid == os.geteuid() and about.st_mode & 0o777 == 0o700


def _lock(folder: Path) -> int | None:
    """Lock a staging folder and return the lock; None if locks are not supported.

    Raises
    ------
    BlockingIOError
        If another process holds the lock.
    FileNotFoundError
        If the folder is gone.
    OSError
        If the file ``lock`` cannot be opened.
    """
    if fcntl is None:
        return None
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (folder / "lock").stat()  # fails if the file was removed before it was locked
    except (BlockingIOError, FileNotFoundError):
        os.close(lock)
        raise
    except OSError:
        os.close(lock)
        return None
    return lock


def _clear(folder: Path) -> str:
    """Put back files that were moved away but not replaced, and remove a staging folder.

    If the folder has to be kept, return the reason: a file in ``old`` that pyflowers did not write,
    or a system error.
    """
    try:
        for old in folder.glob("old/*"):
            if not os.path.lexists(folder.parent / old.name):
                old.rename(folder.parent / old.name)
                continue
            # After a power failure the list may be empty. Then no file is recognised as pyflowers'.
            own = _read_json(folder / "own.json")
            if not isinstance(own, list):
                own = []
            foreign = [name for name in files_in(old) if name not in own]
            if foreign:
                return f"kept, because it contains {foreign[0]}, which pyflowers did not write"
        if (folder / "old").exists():
            (folder / "old").rename(folder / "gone")  # recovery puts back only "old"
        shutil.rmtree(folder)
    except OSError as error:
        return f"it cannot be removed ({error.strerror})"
    return ""


@contextmanager
def _checking(path: str | Path, name: str) -> Iterator[Path]:
    """Yield a real path to check, then test that a staging folder can be created next to it."""
    given = as_path(path, name)
    try:
        target = Path(os.path.realpath(given))
        if target.is_symlink():
            raise ConfigError(f"{name} {path}: its links form a loop; name another path")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{name} {path} is not a path ({reason}); name another path") from error
    with writing(path, name):
        recover(target.parent)
        yield target
        folder = target.parent
        while not os.path.lexists(folder):  # test the deepest folder that exists
            folder = folder.parent
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{folder} is {_what(folder)}")
        try:
            with staging(folder):
                pass
        except OSError as error:
            raise OSError(error.errno, f"{error.strerror} in {folder}") from error


def _what(path: Path) -> str:
    """Describe what is at a path that cannot be used."""
    for test, name in (
        (path.is_file, "a file"),
        (path.is_dir, "a folder"),
        (path.is_fifo, "a pipe"),
        (path.is_socket, "a socket"),
        (lambda: not path.exists(), "a broken link"),
    ):
        if test():
            return name
    return "a device"
