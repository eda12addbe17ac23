"""What a folder of the cache holds: recorded when it is made, and compared before it is used.

A file counts as whole if its size and its time of modification are those recorded, which costs a
look at its directory entry. A file whose time alone is another, as a copy's is, is told by its
SHA-256, and gets the recorded time back, by which make decides what is out of date.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any

from pyflowers.digests import sha256_file
from pyflowers.storage import files_in

MANIFEST = "manifest.json"


class Care(Enum):
    """How closely to look: a program that is only run needs no headers."""

    RUN = "all but headers, by size and time"
    COMPILE = "all files, by size and time"
    DIGESTS = "all files, by their SHA-256"


def write_manifest(folder: Path) -> None:
    """Record every file and link in `folder`."""
    entries = {name: _entry(folder / name) for name in files_in(folder)}
    (folder / MANIFEST).write_text(json.dumps(entries, indent=0), encoding="utf-8")


def find_damage(folder: Path, care: Care) -> str | None:
    """Return the first file that is not as it was recorded, with what is wrong; None if all are."""
    try:
        entries = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if not entries:
            return f"{MANIFEST} lists nothing"
        for name, (kind, *recorded) in entries.items():
            if care is Care.RUN and name.startswith("include/"):
                continue
            damage = _KINDS[kind](f"{folder}/{name}", care, *recorded)
            if damage:
                return f"{name} {damage}"
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return f"{MANIFEST} cannot be read"
    return None


def _entry(path: Path) -> list[Any]:
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        return ["link", str(path.readlink())]
    runs = bool(found.st_mode & stat.S_IXUSR)
    return ["file", found.st_size, found.st_mtime_ns, runs, sha256_file(path)]


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
