"""Compiling a Stan program, at most once, into an executable and a library of its density.

Both are content-addressed. The key of an executable is computed from the program's text with its
includes, the options for stanc and C++ (including options in make's environment), the identity of
CmdStan and the version of the compiler. If any of these changes, a new executable is built. An
executable is built in a separate folder, under a lock, moved into place in one step, and checked
before each use. Nothing is written next to the program.

The library consists of the class that stanc generates and the C interface in
``density/density.cpp``. It needs Stan's headers and libraries from the embedded toolchain, but not
CmdStan's front end.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
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
from pyflowers.toolchain.embedded import VERSION, stan_folder
from pyflowers.toolchain.locate import EXE, CmdStan, find_cmdstan, whole
from pyflowers.toolchain.processes import ending_children, run

_READ_BY_MAKE = {
    *("O", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "LDLIBS", "STANCFLAGS", "STANC3_VERSION"),
    *("STAN_THREADS", "STAN_MPI", "STAN_OPENCL", "STAN_CPP_OPTIMS", "STAN_NO_RANGE_CHECKS"),
    *("STAN_MODEL_FVAR_VAR", "PRECOMPILED_HEADERS"),
}
"""Environment variables that affect compilation by CmdStan's makefile. STAN_NUM_THREADS is not one
of them: CmdStanPy sets it, and executables read it."""

_INTERFACE = Path(__file__).resolve().parent / "density" / "density.cpp"

# With hidden symbols, the libraries of several programs do not conflict within one process.
_FLAGS = (
    *("-std=c++17", "-O3", "-D_REENTRANT", "-DBOOST_DISABLE_ASSERTS"),
    *("-fPIC", "-shared", "-fvisibility=hidden", "-w"),
)
_SUNDIALS = ("cvodes", "idas", "kinsol", "nvecserial")


@dataclass(frozen=True)
class Executable:
    """A compiled Stan program.

    Attributes
    ----------
    path : Path
        The executable.
    key : str
        Digest of everything from which it was built.
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
    """Return the executable of a ``.stan`` file; see :func:`compile_source`.

    Parameters
    ----------
    program : str or Path
        The ``.stan`` file.
    cmdstan : CmdStan, optional
        The CmdStan to compile with. Default: the result of :func:`find_cmdstan`.
    include_paths : sequence of path
        Folders to search for included files, after the program's folder.

    Raises
    ------
    ConfigError
        If the program cannot be read or its name does not end in ``.stan``.
    ToolchainError
        If there is no usable CmdStan, compiler or make.
    CompileError
        If the program does not compile; the error contains the compiler's message.
    """
    return compile_source(read_source(program, include_paths), cmdstan=cmdstan)


def executable_of(source: Source, cmdstan: CmdStan) -> Executable:
    """Return the executable of a Stan program, which may not have been built yet.

    Raises
    ------
    ToolchainError
        If there is no compiler.
    """
    # For a program of several files, the key uses the text: under the SHA-256, an earlier version
    # of pyflowers may have stored an executable that was built from another text.
    content = source.sha256 if len(source.files) == 1 else source.text
    key = digest(
        *(source.name, content, _make_options()),
        *(cmdstan.version, cmdstan.identity, compiler(), compiler_version()),
    )
    path = cache_dir() / "executables" / f"{source.safe_name}-{key[:24]}" / source.safe_name
    return Executable(path, key, source, cmdstan)


def compile_source(source: Source, *, cmdstan: CmdStan | None = None) -> Executable:
    """Return the executable of a Stan program, compiling it if the cache has none.

    Parameters
    ----------
    source : Source
        The program.
    cmdstan : CmdStan, optional
        The CmdStan to compile with. Default: the result of :func:`find_cmdstan`.

    Raises
    ------
    ToolchainError
        If there is no usable CmdStan, compiler or make.
    CompileError
        If the program does not compile; the error contains the compiler's message.
    """
    made = executable_of(source, whole(cmdstan or find_cmdstan(), Care.RUN))
    path, found = made.path, made.cmdstan

    def is_sound() -> bool:
        # An executable that is linked to libraries in another folder is rebuilt, so that a copied
        # cache is independent of the original.
        if _intact_record(path).get("folder") != str(found.path):
            return False
        try:
            done = run([path, "info"], timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0 and "stan_version_major" in done.stdout

    def build(temporary: Path) -> Path:
        whole(found, Care.COMPILE)
        program = source.write(temporary)
        check_syntax(source, program, found.stanc)
        return _make(program, found)

    about = {"cmdstan": found.version, "folder": str(found.path)}
    _once(path, is_sound, build, f"Compiling {source.formula or source.safe_name}", about)
    return made


def compile_library(source: Source) -> Path:
    """Return the library of a Stan program's log density, compiling it if the cache has none.

    Raises
    ------
    ToolchainError
        If there is no compiler, or no embedded toolchain for this machine.
    CompileError
        If the program does not compile; the error contains the compiler's message.
    """
    require_toolchain()
    stan = stan_folder()
    interface = _INTERFACE.read_text(encoding="utf-8")
    key = digest(
        *(source.safe_name, source.sha256, VERSION, str(stan), interface, " ".join(_FLAGS)),
        *(compiler(), compiler_version()),
    )
    name = source.safe_name
    path = cache_dir() / "libraries" / f"{name}-{key[:24]}" / f"{name}.so"

    def build(temporary: Path) -> Path:
        stan_folder(care=Care.COMPILE)
        program = source.write(temporary)
        header, library = program.with_suffix(".hpp"), program.with_suffix(".so")
        check_syntax(source, program, stan / "stanc")
        _compile([str(stan / "stanc"), f"--o={header}", str(program)], source.path.name)
        archives = [str(stan / "lib" / f"libsundials_{part}.a") for part in _SUNDIALS]
        arguments = [
            *(*_FLAGS, "-isystem", str(stan / "include"), "-include", str(header)),
            *(str(_INTERFACE), *archives, f"-L{stan / 'lib'}", "-ltbb", "-lpthread"),
            # The library finds TBB, which is in the toolchain, through this path.
            *("-Xlinker", "-rpath", "-Xlinker", str(stan / "lib"), "-o", str(library)),
        ]
        _compile([*compiler().split(), *arguments], source.path.name)
        return library

    title = f"Compiling the log density of {source.formula or source.name}"
    _once(path, lambda: is_intact(path), build, title, {})
    return path


def compile_sources(
    sources: Sequence[Source], cmdstan: CmdStan, jobs: int | None = None
) -> list[Executable]:
    """Compile several programs, up to `jobs` (default: the number of usable cores) at a time.

    Raises
    ------
    CompileError
        If any of them does not compile.
    """
    with ThreadPoolExecutor(jobs or usable_cores()) as executor, ending_children():
        return list(executor.map(lambda source: compile_source(source, cmdstan=cmdstan), sources))


def _make_options() -> str:
    """Return, as text, the options that make takes from the environment."""
    options = {name: value for name, value in os.environ.items() if name in _READ_BY_MAKE}
    return json.dumps(options, sort_keys=True)


def is_intact(path: Path) -> bool:
    """Whether an executable or a library in the cache matches the record of its build."""
    return bool(_intact_record(path))


def _intact_record(path: Path) -> dict[str, Any]:
    """Return the record of a file from ``build.json``; empty if the file does not match it."""
    record = path.parent / "build.json"
    if not (is_own(path.parent) and is_own(record) and is_own(path)):
        return {}  # the caller rebuilds it
    try:
        values = json.loads(record.read_text(encoding="utf-8"))
        if isinstance(values, dict) and values.get("sha256") == sha256_file(path):
            return values
    except (OSError, ValueError, RecursionError):
        pass
    return {}


def _once(
    path: Path,
    is_sound: Callable[[], bool],
    build: Callable[[Path], Path],
    title: str,
    about: dict[str, str],
) -> None:
    """Build a cached file in a temporary folder, unless the cache holds an intact one."""
    if is_sound():
        return
    require_toolchain()
    with locked(path.parent):
        if is_sound():
            return
        with temporary_folder() as temporary, stage(title):
            built = build(temporary)
            with appearing(path.parent) as staging:
                made = staging / path.name
                shutil.copy2(built, made)
                made.chmod(0o755)
                record = json.dumps({"sha256": sha256_file(made), **about})
                (staging / "build.json").write_text(record, encoding="utf-8")


def _make(program: Path, cmdstan: CmdStan) -> Path:
    """Compile a program with CmdStan's makefile.

    CmdStanPy is not used to call make, because it selects CmdStan through this process's
    environment, which threads share, and leaves the compilers running when it is interrupted.
    """
    executable = program.with_suffix(EXE)
    if any(character.isspace() for character in str(executable)):
        raise CompileError(
            f"{program.name} does not compile: make cannot handle the space in "
            f"{executable.parent}, the folder for temporary files; set TMPDIR to another folder"
        )
    _compile([*make().split(), executable.as_posix()], program.name, cmdstan.path)
    return executable


def _compile(command: list[str], name: str, cwd: Path | None = None) -> None:
    done = run(command, cwd=cwd)
    if done.returncode != 0:
        raise CompileError(f"{name} does not compile:\n{first_errors(done.stdout + done.stderr)}")
