"""Information for a bug report: the machine, the toolchain, the cache, the packages and a fit."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import NamedTuple

from pyflowers.errors import PyflowersError
from pyflowers.resources import version
from pyflowers.storage import clear_leftover, leftovers

PACKAGES = (
    *("pyflowers", "arviz", "click", "cmdstanpy", "jinja2", "matplotlib", "numpy", "pandas"),
    *("pydantic", "scipy", "stanli", "xarray", "h5netcdf"),
)
LITTLE_SPACE = 2 * 1024**3
"""Free disk space, in bytes, below which CmdStan and its executables may not fit."""


class Finding(NamedTuple):
    """One line of the examination: the subject, the finding, and whether it is fine."""

    name: str
    value: str
    is_ok: bool = True


def examine() -> Iterator[Finding]:
    """Yield the findings one by one; a defect yields a finding and never raises an exception."""
    for probe in (_machine, _toolchain, _cache, _cmdstan, _packages, _fit):
        yield from _guarded(probe)


def _guarded(probe: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from probe()
    except Exception as error:  # the doctor must report a defect and not fail because of it
        if isinstance(error, PyflowersError):
            what = ""
        else:
            what = f"{type(error).__name__}: "
        yield Finding(probe.__name__.strip("_"), f"{what}{error}", False)


def _machine() -> Iterator[Finding]:
    from pyflowers.cores import usable_cores

    yield Finding("python", f"{platform.python_version()} at {sys.executable}")
    yield Finding("platform", platform.platform())
    yield Finding("cores", f"{usable_cores()} usable of {os.cpu_count()}")


def _toolchain() -> Iterator[Finding]:
    from pyflowers.toolchain.compiler import compiler, compiler_version, make

    yield Finding("compiler", f"{compiler_version()} ({shutil.which(compiler().split()[0])})")
    yield Finding("make", str(shutil.which(make().split()[0])))


def _cmdstan() -> Iterator[Finding]:
    from pyflowers.engines.base import COMPILED_STAN
    from pyflowers.toolchain import available_cmdstan

    yield Finding("engines", COMPILED_STAN)
    found = available_cmdstan()
    if found is None:
        yield Finding("cmdstan", "none yet; pyflowers setup builds one, with g++ and make")
        return
    reasons = {
        "CMDSTAN": "because the environment variable CMDSTAN names it",
        "~/.cmdstan": "the newest one under ~/.cmdstan",
        "conda": "from the active conda environment",
        "embedded": "the embedded one, because CMDSTAN, ~/.cmdstan and conda have none",
    }
    yield Finding("cmdstan", f"{found.version} in {found.path}, {reasons[found.origin]}")


def _cache() -> Iterator[Finding]:
    from pyflowers.toolchain.build import is_intact
    from pyflowers.toolchain.cache import Care, cache_dir, find_damage

    folder = cache_dir()
    if not folder.is_dir():
        yield Finding("cache", f"{folder}: nothing there yet")
        return
    size = sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
    free = shutil.disk_usage(folder).free
    executables = sorted((folder / "executables").glob("[!.]*"))
    yield Finding("cache", f"{folder}, {_megabytes(size)} with {len(executables)} executables")
    for made in sorted([*folder.glob("stan-*"), *folder.glob("cmdstan-*")]):
        damage = find_damage(made, Care.DIGESTS)
        state = "intact"
        if damage:
            state = f"{damage}; pyflowers setup rebuilds it"
        yield Finding(made.name.rpartition("-")[0], state, damage is None)
    libraries = sorted((folder / "libraries").glob("[!.]*"))
    built = [path / _program_of(path) for path in executables]
    built += [path / f"{_program_of(path)}.so" for path in libraries]
    broken = [path.parent.name for path in built if not is_intact(path)]
    if broken:
        state = f"{', '.join(broken)} broken; to be rebuilt at the next use"
    else:
        state = "all intact"
    yield Finding("executables", state, not broken)
    yield Finding("free space", _megabytes(free), free >= LITTLE_SPACE)
    writable = os.access(folder, os.W_OK)
    state = {True: "yes", False: "no; make it writable"}[writable]
    yield Finding("cache writable", state, writable)


class Leftover(NamedTuple):
    """A staging folder of a killed or a running command, and what was done with it."""

    path: Path
    state: str


def repair(folders: Sequence[Path]) -> Iterator[Leftover]:
    """Restore or remove what killed commands left behind, and report each staging folder.

    Parameters
    ----------
    folders : sequence of Path
        Folders of results, or folders in which results were written; the cache and the folder for
        temporary files are always included.
    """
    from pyflowers.toolchain.cache import cache_dir

    cache, temporary = cache_dir(), Path(tempfile.gettempdir())
    places = [cache, *(path for path in cache.glob("*/") if not path.is_symlink())]
    places += [place for folder in folders for place in (folder, folder.parent)]
    for place in dict.fromkeys(place.resolve() for place in (*places, temporary)):
        for left in leftovers(place):
            yield Leftover(left, clear_leftover(left) or "cleared")


def _program_of(folder: Path) -> str:
    """Return the program's name, which precedes a digest in the name of its folder."""
    return folder.name.rpartition("-")[0]


def _packages() -> Iterator[Finding]:
    for name in PACKAGES:
        try:
            yield Finding(name, version(name))
        except PackageNotFoundError:
            yield Finding(name, "not installed", name == "pyflowers")


def _fit() -> Iterator[Finding]:
    from pyflowers.fits.sampling import fit
    from pyflowers.programs import LECTURE

    started = time.perf_counter()
    done = fit(LECTURE[0], seed=1)
    seconds = time.perf_counter() - started
    how = f"{done.name} with {done.record.engine.name} in {seconds:.2f} s"
    yield Finding("fit", f"{how}, {done.diagnostics}", done.diagnostics.passed)


def _megabytes(size: int) -> str:
    return f"{size / 1024**2:,.0f} MB"
