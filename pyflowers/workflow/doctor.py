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
from typing import Any, NamedTuple

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
        what = "" if isinstance(error, PyflowersError) else f"{type(error).__name__}: "
        yield Finding(probe.__name__.strip("_"), f"{what}{error}", False)


NUM_POINTS = 20
"""Number of points at which densities are compared."""

TOLERANCE = 1e-10
"""Tolerance for the difference between two densities or two gradients.

A difference between densities is relative to 1 + |density|; a difference between gradients is
relative to the largest element of the gradient.
"""


def compare_densities(
    program: str | Path, data: Any = None, family: str | None = None, **reading: Any
) -> Finding:
    """Compare the log densities and gradients of the interpreted and the compiled program.

    Parameters
    ----------
    program : str or Path
        A program's name or file, or a formula.
    data : path or DataFrame, optional
        The data. Default: the example of the program.
    family : str, optional
        The family of a formula.
    **reading
        How a table is read, and the names of its columns.

    Returns
    -------
    Finding
        The largest differences at 20 random points.

    Raises
    ------
    PyflowersError
        If the program cannot be compiled or interpreted, or its data cannot be read.
    """
    import numpy as np

    from pyflowers.programs import find_program
    from pyflowers.programs.program import is_formula
    from pyflowers.samplers import StanDensity

    opened = find_program(program, data=data, family=family, **reading)
    read = opened.read(data, **reading)
    whole, _ = opened.fill(read, opened.resolve_priors({}, read))
    with tempfile.TemporaryDirectory() as folder:
        path = opened.source.path
        if is_formula(str(program)):
            path = Path(folder) / path.name
            path.write_text(opened.source.text, encoding="utf-8")
        transform = Path(folder) / f"transform_{path.name}"
        transform.write_text(opened.source.without_model, encoding="utf-8")

        def both(path: Path) -> list[StanDensity]:
            return [
                StanDensity(path, whole.values, include_paths=opened.include_paths, engine=engine)
                for engine in ("compiled", "interpreted")
            ]

        compiled, interpreted = both(path)
        points = compiled.start(np.random.default_rng(1), NUM_POINTS, radius=1.0)
        theirs = interpreted.unconstrain(compiled.constrain(points))
        same = np.isclose(points, theirs, rtol=1e-6, atol=1e-6).all(axis=0)
        theirs[:, same] = points[:, same]  # removes rounding errors
        one, other = compiled.log_density_gradient(points), interpreted.log_density_gradient(theirs)
        if not same.all():
            # Versions of Stan later than CmdStan's transform a simplex differently. At the same
            # parameters, the densities are equal once the terms of the transforms are subtracted.
            for (values, gradients), alone, x in zip(
                (one, other), both(transform), (points, theirs), strict=True
            ):
                of_transform = alone.log_density_gradient(x)
                values -= of_transform[0]
                gradients -= of_transform[1]
                gradients[:, ~same] = 0
    density = float((np.abs(one[0] - other[0]) / (1 + np.abs(one[0]))).max())
    scale = np.abs(one[1]).max(axis=1, keepdims=True) + 1e-300
    gradient = float((np.abs(one[1] - other[1]) / scale).max())
    is_equal = max(density, gradient) <= TOLERANCE
    found = f"density within {density:.1g} and gradient within {gradient:.1g}"
    at = f"of the compiled program's at {NUM_POINTS} points"
    if not same.all():
        at += f"; gradients of {(~same).sum()} of {same.size} coordinates are not compared, "
        at += "because the two versions of Stan transform them differently"
    advice = "" if is_equal else "; use --engine cmdstan, and report this to the author of stanli"
    return Finding("stanli", f"{found} {at}{advice}", is_equal)


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
    from pyflowers.toolchain import available_cmdstan

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
        remedy = f"{damage}; pyflowers setup rebuilds it"
        yield Finding(made.name.rpartition("-")[0], remedy if damage else "intact", damage is None)
    libraries = sorted((folder / "libraries").glob("[!.]*"))
    built = [path / _program_of(path) for path in executables]
    built += [path / f"{_program_of(path)}.so" for path in libraries]
    broken = [path.parent.name for path in built if not is_intact(path)]
    state = f"{', '.join(broken)} broken; to be rebuilt at the next use" if broken else "all intact"
    yield Finding("executables", state, not broken)
    yield Finding("free space", _megabytes(free), free >= LITTLE_SPACE)
    writable = os.access(folder, os.W_OK)
    yield Finding("cache writable", "yes" if writable else "no; make it writable", writable)


class Leftover(NamedTuple):
    """A staging folder of a killed or a running command, and what was done with it."""

    path: Path
    state: str
    is_gone: bool


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
            kept = clear_leftover(left)
            yield Leftover(left, kept or "cleared", not kept)


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
