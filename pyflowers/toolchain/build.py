"""Cached executables: a Stan program in, its executable out, compiled at most once.

An executable is content-addressed. Its key is made of the program's text with its includes, the
options for stanc and C++, also those of make's environment, CmdStan's identity and the compiler's
version; a change in any of them is another executable. It is built away from the program, under a
lock, moved into place in one step, and checked before each use. Nothing is written beside the
program.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyflowers.cores import usable_cores
from pyflowers.digests import digest, sha256_file
from pyflowers.errors import CompileError
from pyflowers.programs.source import Source, read_source
from pyflowers.progress import stage
from pyflowers.storage import temporary_folder
from pyflowers.toolchain.cache import Care, appearing, cache_dir, is_own, locked
from pyflowers.toolchain.compiler import (
    check_syntax,
    compiler,
    compiler_version,
    first_errors,
    make,
    require_toolchain,
)
from pyflowers.toolchain.locate import CmdStan, find_cmdstan, whole
from pyflowers.toolchain.processes import ending_children, run

_READ_BY_MAKE = {
    *("O", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "LDLIBS", "STANCFLAGS", "STANC3_VERSION"),
    *("STAN_THREADS", "STAN_MPI", "STAN_OPENCL", "STAN_CPP_OPTIMS", "STAN_NO_RANGE_CHECKS"),
    *("STAN_MODEL_FVAR_VAR", "PRECOMPILED_HEADERS"),
}
"""Variables of the environment that change what CmdStan's makefile compiles. STAN_NUM_THREADS is
not one of them: CmdStanPy sets it, and executables read it."""


@dataclass(frozen=True)
class Executable:
    """A compiled Stan program.

    Attributes
    ----------
    path : Path
        The executable.
    key : str
        Digest of everything it was made of.
    source : Source
        The Stan program.
    cmdstan : CmdStan
        The CmdStan that it was compiled with.
    """

    path: Path
    key: str
    source: Source
    cmdstan: CmdStan


def compile_program(
    program: str | Path,
    *,
    cmdstan: CmdStan | None = None,
    include_paths: Sequence[str | Path] = (),
) -> Executable:
    """Return the executable of a ``.stan`` file, see :func:`compile_source`.

    Parameters
    ----------
    program : str or Path
        The ``.stan`` file.
    include_paths : sequence of path
        Where to look for included files after the program's own folder.
    cmdstan : CmdStan, optional
        The one to compile with; that of :func:`find_cmdstan` by default.

    Raises
    ------
    ConfigError
        If the program does not exist or its name does not end in ``.stan``.
    CompileError
        With the compiler's message, if it does not compile.
    """
    return compile_source(read_source(program, include_paths), cmdstan=cmdstan)


def compile_source(source: Source, *, cmdstan: CmdStan | None = None) -> Executable:
    """Return the executable of a Stan program, compiling it if the cache has none.

    Parameters
    ----------
    source : Source
        The program.
    cmdstan : CmdStan, optional
        The one to compile with; that of :func:`find_cmdstan` by default.

    Raises
    ------
    CompileError
        With the compiler's message, if it does not compile.
    """
    cmdstan = whole(cmdstan or find_cmdstan(), Care.RUN)
    key = digest(
        *(source.name, source.sha256, _make_options()),
        *(cmdstan.version, cmdstan.identity, compiler(), compiler_version()),
    )
    folder = cache_dir() / "executables" / f"{source.safe_name}-{key[:24]}"
    path = folder / source.safe_name
    if not _is_sound(path, cmdstan):
        require_toolchain()
        with locked(folder):
            if not _is_sound(path, cmdstan):
                _build(source, folder, cmdstan)
    return Executable(path, key, source, cmdstan)


def _make_options() -> str:
    """Return the options that make takes from the environment as text."""
    options = {name: value for name, value in os.environ.items() if name in _READ_BY_MAKE}
    return json.dumps(options, sort_keys=True)


def compile_sources(
    sources: Sequence[Source], cmdstan: CmdStan, jobs: int | None = None
) -> list[Executable]:
    """Compile several programs, as many at once as there are usable cores.

    Raises
    ------
    CompileError
        If any of them does not compile.
    """
    with ThreadPoolExecutor(jobs or usable_cores()) as executor, ending_children():
        return list(executor.map(lambda source: compile_source(source, cmdstan=cmdstan), sources))


def is_intact(path: Path) -> bool:
    """Whether an executable of the cache is what was recorded when it was built."""
    return bool(_intact_record(path))


def _is_sound(path: Path, cmdstan: CmdStan) -> bool:
    """Whether an executable is there, whole, and answers ``info``.

    One that is linked to libraries of another folder does not count, so a copied cache is
    independent of the original.
    """
    if _intact_record(path).get("folder") != str(cmdstan.path):
        return False
    try:
        done = run([path, "info"], timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and "stan_version_major" in done.stdout


def _intact_record(path: Path) -> dict[str, Any]:
    """Return what ``build.json`` says of an executable; nothing if the two do not agree."""
    record = path.parent / "build.json"
    if not (is_own(path.parent) and is_own(record) and is_own(path)):
        return {}  # it is made again
    try:
        values = json.loads(record.read_text(encoding="utf-8"))
        agrees = isinstance(values, dict) and values.get("sha256") == sha256_file(path)
    except (OSError, ValueError, RecursionError):
        return {}
    return values if agrees else {}


def _build(source: Source, folder: Path, cmdstan: CmdStan) -> None:
    """Compile in a temporary folder whose path make can read, then move into the cache."""
    title = f"Compiling {source.safe_name}"
    whole(cmdstan, Care.COMPILE)
    with temporary_folder() as temporary, stage(title):
        program = source.write(temporary)
        check_syntax(source, program, cmdstan.stanc)
        executable = _make(program, cmdstan, includes=len(source.files) > 1)
        with appearing(folder) as staging:
            shutil.copy2(executable, staging / executable.name)
            (staging / executable.name).chmod(0o755)
            record = {
                "sha256": sha256_file(executable),
                "cmdstan": cmdstan.version,
                "folder": str(cmdstan.path),
            }
            (staging / "build.json").write_text(json.dumps(record), encoding="utf-8")


def _make(program: Path, cmdstan: CmdStan, *, includes: bool) -> Path:
    """Let CmdStan's makefile compile a program, which may include files beside it.

    CmdStanPy's own call of make reads which CmdStan to use from this process's environment, which
    threads share, and leaves the compilers running when it is interrupted.
    """
    executable = program.with_suffix(".exe" if os.name == "nt" else "")
    if any(character.isspace() for character in str(executable)):
        raise CompileError(
            f"{program.name} does not compile: make cannot read the space in {executable.parent}, "
            "the folder for temporary files; set TMPDIR to another"
        )
    flags = [f"STANCFLAGS+=--include-paths={program.parent.as_posix()}"] if includes else []
    done = run([*make().split(), *flags, executable.as_posix()], cwd=cmdstan.path)
    if done.returncode != 0:
        raise CompileError(
            f"{program.name} does not compile:\n{first_errors(done.stdout + done.stderr)}"
        )
    return executable
