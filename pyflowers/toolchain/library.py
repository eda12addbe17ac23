"""Cached libraries: a Stan program in, a shared library of its log density out, built once.

The library is the class that stanc generates with the C interface of ``density/density.cpp`` over
it. It needs Stan's headers and libraries of the embedded toolchain, not CmdStan's front end, and is
content-addressed like an executable: see :mod:`pyflowers.toolchain.build`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyflowers.digests import digest, sha256_file
from pyflowers.errors import CompileError
from pyflowers.programs.source import Source
from pyflowers.progress import stage
from pyflowers.storage import temporary_folder
from pyflowers.toolchain.cache import Care, appearing, cache_dir, is_own, locked
from pyflowers.toolchain.compiler import (
    check_syntax,
    compiler,
    compiler_version,
    first_errors,
    require_toolchain,
)
from pyflowers.toolchain.embedded import VERSION, stan_folder
from pyflowers.toolchain.processes import run

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
    source : Source
        The Stan program.
    """

    path: Path
    key: str
    source: Source


def compile_library(source: Source) -> Library:
    """Return the library of a Stan program, compiling it if the cache has none.

    Parameters
    ----------
    source : Source
        The program.

    Raises
    ------
    ToolchainError
        If there is no compiler, or the embedded toolchain does not exist for this machine.
    CompileError
        With the compiler's message, if it does not compile.
    """
    require_toolchain()
    stan = stan_folder()
    interface = INTERFACE.read_text(encoding="utf-8")
    key = digest(
        *(source.safe_name, source.sha256, VERSION, str(stan), interface, " ".join(FLAGS)),
        *(compiler(), compiler_version()),
    )
    folder = cache_dir() / "densities" / f"{source.safe_name}-{key[:24]}"
    path = folder / f"{source.safe_name}.so"
    if not is_intact(path):
        with locked(folder):
            if not is_intact(path):
                stan_folder(care=Care.COMPILE)
                _build(source, stan, path)
    return Library(path, key, source)


def is_intact(path: Path) -> bool:
    """Whether a library of the cache is there and whole."""
    if not (is_own(path.parent) and is_own(path.with_suffix(".sha256")) and is_own(path)):
        return False  # it is made again
    try:
        expected = path.with_suffix(".sha256").read_text(encoding="utf-8")
        return sha256_file(path) == expected
    except (OSError, ValueError):
        return False


def _build(source: Source, stan: Path, path: Path) -> None:
    """Translate and compile in a temporary folder, then move into the cache."""
    title = f"Compiling the log density of {source.name}"
    with temporary_folder() as temporary, stage(title):
        program = source.write(temporary)
        header, library = program.with_suffix(".hpp"), program.with_suffix(".so")
        check_syntax(source, program, stan / "stanc")
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
    done = run(command)
    if done.returncode != 0:
        raise CompileError(
            f"{source.path.name} does not compile:\n{first_errors(done.stdout + done.stderr)}"
        )
