"""Cached libraries: a Stan program in, a shared library of its log density out, built once.

The library is the class that stanc generates with the C interface of ``density/density.cpp`` over
it. It needs Stan's headers and libraries of the embedded toolchain, not CmdStan's front end, and is
content-addressed like an executable: see :mod:`pyflowers.cmdstan.build`.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyflowers.cmdstan.cache import appearing, cache_dir, digest, locked, sha256_file
from pyflowers.cmdstan.source import Source, first_errors, program_file, read_source, safe_stem
from pyflowers.cmdstan.toolchain import compiler, compiler_version, require_toolchain
from pyflowers.cmdstan.wheel import VERSION, stan_folder
from pyflowers.errors import CompileError
from pyflowers.progress import stage

INTERFACE = Path(__file__).resolve().parent / "density" / "density.cpp"

# Hidden symbols keep the libraries of several programs apart within one process.
FLAGS = (
    *("-std=c++17", "-O3", "-D_REENTRANT", "-DBOOST_DISABLE_ASSERTS"),
    *("-fPIC", "-shared", "-fvisibility=hidden", "-w"),
)
_SUNDIALS = ("cvodes", "idas", "kinsol", "nvecserial")


@dataclass(frozen=True)
class Library:
    """A compiled log density.

    Attributes
    ----------
    path : Path
        The shared library.
    key : str
        Digest of everything it was made of.
    program : Path
        The Stan program.
    info : mapping
        What ``stanc --info`` says of the program.
    """

    path: Path
    key: str
    program: Path
    info: Mapping[str, Any]


def compile_library(program: str | Path, *, include_paths: Sequence[str | Path] = ()) -> Library:
    """Return the library of a Stan program, compiling it if the cache has none.

    Parameters
    ----------
    program : str or Path
        The ``.stan`` file.
    include_paths : sequence of path
        Where to look for included files after the program's own folder.

    Raises
    ------
    ConfigError
        If the program does not exist or its name does not end in ``.stan``.
    ToolchainError
        If there is no compiler, or the embedded toolchain does not exist for this machine.
    CompileError
        With the compiler's message, if it does not compile.
    """
    program = program_file(program)
    require_toolchain()
    stan = stan_folder()
    source = read_source(program, stan / "stanc", include_paths)
    interface = INTERFACE.read_text(encoding="utf-8")
    key = digest(
        *(safe_stem(program), source.sha256, VERSION, str(stan), interface, " ".join(FLAGS)),
        *(compiler(), compiler_version()),
    )
    folder = cache_dir() / "densities" / f"{safe_stem(program)}-{key[:24]}"
    path = folder / f"{safe_stem(program)}.so"
    if not _is_sound(path):
        with locked(folder):
            if not _is_sound(path):
                _build(source, stan, path)
    return Library(path, key, program, source.info)


def _is_sound(path: Path) -> bool:
    """Whether a library is there and whole."""
    try:
        expected = path.with_suffix(".sha256").read_text(encoding="utf-8")
        return sha256_file(path) == expected
    except OSError:
        return False


def _build(source: Source, stan: Path, path: Path) -> None:
    """Translate and compile in a temporary folder, then move into the cache."""
    title = f"Compiling the log density of {source.program.stem}"
    with tempfile.TemporaryDirectory(prefix="pyflowers-") as temporary, stage(title):
        program = source.write(Path(temporary))
        header, library = program.with_suffix(".hpp"), program.with_suffix(".so")
        stanc = [str(stan / "stanc"), f"--include-paths={temporary}", f"--o={header}"]
        _run([*stanc, str(program)], source)
        _run([*compiler().split(), *_arguments(stan, header), "-o", str(library)], source)
        with appearing(path.parent) as staging:
            (staging / path.name).write_bytes(library.read_bytes())
            record = staging / path.with_suffix(".sha256").name
            record.write_text(sha256_file(library), encoding="utf-8")


def _arguments(stan: Path, header: Path) -> list[str]:
    """Return the compiler's arguments; the library finds TBB where the toolchain has it."""
    archives = [str(stan / "lib" / f"libsundials_{part}.a") for part in _SUNDIALS]
    return [
        *(*FLAGS, "-isystem", str(stan / "include"), "-include", str(header), str(INTERFACE)),
        *(*archives, f"-L{stan / 'lib'}", "-ltbb", "-lpthread"),
        *("-Xlinker", "-rpath", "-Xlinker", str(stan / "lib")),
    ]


def _run(command: list[str], source: Source) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace")
    if done.returncode != 0:
        raise CompileError(
            f"{source.program.name} does not compile:\n{first_errors(done.stdout + done.stderr)}"
        )
