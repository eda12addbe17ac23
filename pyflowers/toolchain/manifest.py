"""What a folder of the cache holds: recorded when it is made, and compared before it is used.

A file counts as whole if its size and its time of modification are those recorded, which costs a
look at its directory entry. A file whose time alone is another, as a copy's is, is told by its
SHA-256, and gets the recorded time back, by which make decides what is out of date.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any

from pyflowers.digests import sha256_file
from pyflowers.storage import files_in

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
        _write(folder, HEADERS, {name: _entry(folder / name) for name in headers})
        others.append(HEADERS)
    _write(folder, MANIFEST, {name: _entry(folder / name) for name in others})


def add_to_manifest(folder: Path, names: Iterable[str]) -> None:
    """Record files that came later; those that are recorded already are left as they are."""
    entries = _entries(folder, MANIFEST)
    new = {name: _entry(folder / name) for name in names if name not in entries}
    if new:
        _write(folder, MANIFEST, entries | new)


def find_damage(folder: Path, care: Care) -> str | None:
    """Return the first file that is not as it was recorded, with what is wrong; None if all are."""
    return next((f"{name} {damage}" for name, damage in _judged(folder, care) if damage), None)


def whole_files(folder: Path) -> list[str]:
    """Return the files that are as they were recorded, by their relative paths."""
    return [name for name, damage in _judged(folder, Care.COMPILE) if not damage]


def _judged(folder: Path, care: Care) -> Iterator[tuple[str, str]]:
    """Yield each recorded file, and what is wrong with it."""
    manifests = [MANIFEST]
    for manifest in manifests:
        try:
            for name, (kind, *recorded) in _entries(folder, manifest).items():
                yield name, _KINDS[kind](f"{folder}/{name}", care, *recorded)
                if name == HEADERS and care is not Care.RUN:
                    manifests.append(HEADERS)
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
            yield manifest, "cannot be read"


def _entries(folder: Path, manifest: str) -> dict[str, list[Any]]:
    entries: dict[str, list[Any]] = json.loads((folder / manifest).read_text(encoding="utf-8"))
    if not entries:
        raise ValueError(manifest)
    return entries


def _entry(path: Path) -> list[Any]:
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        return ["link", str(path.readlink())]
    runs = bool(found.st_mode & stat.S_IXUSR)
    return ["file", found.st_size, found.st_mtime_ns, runs, sha256_file(path)]


def _write(folder: Path, manifest: str, entries: dict[str, list[Any]]) -> None:
    part = folder / f"{manifest}.part"
    part.write_text(json.dumps(entries, indent=0), encoding="utf-8")
    part.replace(folder / manifest)


def _damage_of_link(path: str, _: Care, target: str) -> str:
    try:
        return "" if str(Path(path).readlink()) == target else "leads elsewhere"
    except OSError:
        return "is missing"


def _damage_of_file(path: str, care: Care, size: int, time: int, runs: bool, sha256: str) -> str:
    try:
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


_KINDS: Mapping[str, Callable[..., str]] = {"link": _damage_of_link, "file": _damage_of_file}


def _is_open_to_others(found: os.stat_result) -> bool:
    if not hasattr(os, "geteuid"):
        return False
    return found.st_uid != os.geteuid() or bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
