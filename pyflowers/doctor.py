"""What a bug report needs: the machine, the toolchain, the cache, the packages and a fit."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from pyflowers.errors import PyflowersError

PACKAGES = (
    *("pyflowers", "arviz", "click", "cmdstanpy", "jinja2", "matplotlib", "numpy", "pandas"),
    *("pydantic", "scipy", "xarray"),
)
LITTLE_SPACE = 2 * 1024**3
"""Bytes below which a CmdStan and its executables may not fit."""


class Finding(NamedTuple):
    """One line of the examination: what was looked at, what was found, and whether it is well."""

    name: str
    value: str
    is_well: bool = True


def examine() -> Iterator[Finding]:
    """Yield the findings one by one; what is broken is a finding and never an exception."""
    for probe in (_machine, _toolchain, _cmdstan, _cache, _packages, _fit):
        yield from _guarded(probe)


def _guarded(probe: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    name = probe.__name__.strip("_")
    try:
        yield from probe()
    except PyflowersError as error:
        yield Finding(name, str(error), False)
    except Exception as error:  # a doctor that dies of the disease helps nobody
        yield Finding(name, f"{type(error).__name__}: {error}", False)


def _machine() -> Iterator[Finding]:
    from pyflowers.cmdstan.embedded import usable_cores

    yield Finding("python", f"{platform.python_version()} at {sys.executable}")
    yield Finding("platform", platform.platform())
    yield Finding("cores", f"{usable_cores()} usable of {os.cpu_count()}")


def _toolchain() -> Iterator[Finding]:
    from pyflowers.cmdstan.toolchain import compiler, compiler_version, make

    yield Finding("compiler", f"{compiler_version()} ({shutil.which(compiler().split()[0])})")
    yield Finding("make", str(shutil.which(make().split()[0])))


def _cmdstan() -> Iterator[Finding]:
    from pyflowers.cmdstan import find_cmdstan

    found = find_cmdstan()
    reasons = {
        "CMDSTAN": "because the environment variable CMDSTAN names it",
        "~/.cmdstan": "as the newest under ~/.cmdstan",
        "conda": "from the active conda environment",
        "embedded": "the embedded one, as CMDSTAN, ~/.cmdstan and conda have none",
    }
    yield Finding("cmdstan", f"{found.version} in {found.path}, {reasons[found.origin]}")


def _cache() -> Iterator[Finding]:
    from pyflowers.cmdstan.cache import cache_dir

    folder = cache_dir()
    if not folder.is_dir():
        yield Finding("cache", f"{folder}: nothing there yet")
        return
    size = sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
    executables = sorted((folder / "executables").glob("[!.]*"))
    broken = [path.name for path in executables if not _is_sound(path)]
    free = shutil.disk_usage(folder).free
    yield Finding("cache", f"{folder}, {_megabytes(size)} with {len(executables)} executables")
    state = f"{', '.join(broken)} broken; rebuilt when next used" if broken else "all sound"
    yield Finding("executables", state, not broken)
    yield Finding("free space", _megabytes(free), free >= LITTLE_SPACE)
    yield Finding(
        "cache writable",
        "yes" if os.access(folder, os.W_OK) else "no: mend its mode",
        os.access(folder, os.W_OK),
    )


def _is_sound(folder: Path) -> bool:
    """Whether an executable is what its build recorded."""
    from pyflowers.cmdstan.cache import sha256_file

    try:
        record = json.loads((folder / "build.json").read_text(encoding="utf-8"))
        files = [path for path in folder.iterdir() if path.name != "build.json"]
        return any(
            os.access(path, os.X_OK) and sha256_file(path) == record["sha256"] for path in files
        )
    except (OSError, ValueError, KeyError):
        return False


def _packages() -> Iterator[Finding]:
    for name in PACKAGES:
        try:
            yield Finding(name, version(name))
        except PackageNotFoundError:
            yield Finding(name, "not installed", name == "pyflowers")


def _fit() -> Iterator[Finding]:
    from pyflowers.cmdstan import compile_program, find_cmdstan
    from pyflowers.fitting import fit
    from pyflowers.models import get_model

    compile_program(get_model("iid_normal").program, cmdstan=find_cmdstan())
    started = time.perf_counter()
    done = fit("iid_normal", seed=1)
    seconds = time.perf_counter() - started
    verdict = done.diagnostics
    yield Finding("fit", f"iid_normal in {seconds:.2f} s, {verdict}", verdict.passed)


def _megabytes(size: int) -> str:
    return f"{size / 1024**2:,.0f} MB"
