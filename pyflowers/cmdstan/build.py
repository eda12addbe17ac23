"""Cached executables: a Stan program in, an executable of it out, compiled at most once.

An executable is content-addressed. Its key is made of the program's text with its includes, the
options for stanc and C++, CmdStan's identity and the compiler's version; a change in any of them
is another executable. It is built away from the program, under a lock, moved into place in one
step, and checked before each use. Nothing is written beside the program.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyflowers.cmdstan.cache import appearing, cache_dir, digest, locked, sha256_file
from pyflowers.cmdstan.embedded import usable_cores
from pyflowers.cmdstan.locate import CmdStan, find_cmdstan
from pyflowers.cmdstan.source import Source, first_errors, program_file, read_source, safe_stem
from pyflowers.cmdstan.toolchain import compiler, compiler_version, require_toolchain
from pyflowers.errors import CompileError
from pyflowers.progress import stage


@dataclass(frozen=True)
class Executable:
    """A compiled Stan program.

    Attributes
    ----------
    path : Path
        The executable.
    key : str
        Digest of everything it was made of.
    program : Path
        The Stan program.
    program_sha256 : str
        Digest of the program's text with its includes.
    info : mapping
        What ``stanc --info`` says of the program's inputs, parameters and generated quantities.
    cmdstan : CmdStan
        The CmdStan that it was compiled with.
    """

    path: Path
    key: str
    program: Path
    program_sha256: str
    info: Mapping[str, Any]
    cmdstan: CmdStan


def compile_program(
    program: str | Path,
    *,
    cmdstan: CmdStan | None = None,
    include_paths: Sequence[str | Path] = (),
    stanc_options: Mapping[str, Any] | None = None,
    cpp_options: Mapping[str, Any] | None = None,
) -> Executable:
    """Return the executable of a Stan program, compiling it if the cache has none.

    Parameters
    ----------
    program : str or Path
        The ``.stan`` file.
    cmdstan : CmdStan, optional
        The one to compile with; that of :func:`find_cmdstan` by default.
    include_paths : sequence of path
        Where to look for included files after the program's own folder.
    stanc_options, cpp_options : mapping, optional
        As CmdStanPy takes them.

    Raises
    ------
    ConfigError
        If the program does not exist or its name does not end in ``.stan``.
    CompileError
        With the compiler's message, if it does not compile.
    """
    program = program_file(program)
    cmdstan = cmdstan or find_cmdstan()
    source = read_source(program, cmdstan.stanc, include_paths)
    stem = safe_stem(source.program)
    options = json.dumps([stanc_options or {}, cpp_options or {}], sort_keys=True, default=str)
    key = digest(
        *(source.program.stem, source.sha256, options),
        *(cmdstan.version, cmdstan.identity, compiler(), compiler_version()),
    )
    folder = cache_dir() / "executables" / f"{stem}-{key[:24]}"
    path = folder / stem
    if not _is_sound(path):
        require_toolchain()
        with locked(folder):
            if not _is_sound(path):
                _build(source, folder, cmdstan, stanc_options or {}, cpp_options or {})
    return Executable(path, key, source.program, source.sha256, source.info, cmdstan)


def compile_programs(
    programs: Sequence[Path], cmdstan: CmdStan, jobs: int | None = None
) -> list[Executable]:
    """Compile several programs, as many at once as there are usable cores.

    Raises
    ------
    CompileError
        If any of them does not compile.
    """
    # CmdStanPy reads the process's environment, so it is set once around all threads.
    with (
        _selected(cmdstan),
        quiet_cmdstanpy(),
        ThreadPoolExecutor(jobs or usable_cores()) as executor,
    ):
        return list(executor.map(lambda path: compile_program(path, cmdstan=cmdstan), programs))


def _is_sound(path: Path) -> bool:
    """Whether an executable is there, whole, and answers ``info``."""
    record = path.parent / "build.json"
    try:
        expected = json.loads(record.read_text(encoding="utf-8"))["sha256"]
        if sha256_file(path) != expected:
            return False
        done = subprocess.run(
            [str(path), "info"], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and "stan_version_major" in done.stdout


def _build(
    source: Source,
    folder: Path,
    cmdstan: CmdStan,
    stanc_options: Mapping[str, Any],
    cpp_options: Mapping[str, Any],
) -> None:
    """Compile in a temporary folder whose path make can read, then move into the cache."""
    title = f"Compiling {safe_stem(source.program)}"
    with tempfile.TemporaryDirectory(prefix="pyflowers-") as temporary, stage(title):
        program = source.write(Path(temporary))
        options = dict(stanc_options)
        if len(source.files) > 1:
            options["include-paths"] = [temporary]
        executable = _compile_with_cmdstanpy(program, cmdstan, options, cpp_options)
        with appearing(folder) as staging:
            shutil.copy2(executable, staging / executable.name)
            record = {"sha256": sha256_file(executable), "cmdstan": cmdstan.version}
            (staging / "build.json").write_text(json.dumps(record), encoding="utf-8")


def _compile_with_cmdstanpy(
    program: Path,
    cmdstan: CmdStan,
    stanc_options: Mapping[str, Any],
    cpp_options: Mapping[str, Any],
) -> Path:
    import cmdstanpy

    with _selected(cmdstan), quiet_cmdstanpy():
        try:
            executable = cmdstanpy.compile_stan_file(
                program, stanc_options=dict(stanc_options), cpp_options=dict(cpp_options)
            )
        except (ValueError, RuntimeError) as error:
            console = str(error).partition("Console:\n")[2] or str(error)
            raise CompileError(
                f"{program.name} does not compile:\n{first_errors(console)}"
            ) from error
    return Path(executable)


@contextmanager
def _selected(cmdstan: CmdStan) -> Iterator[None]:
    """Show CmdStanPy which CmdStan to use; it reads that from the environment."""
    before = os.environ.get("CMDSTAN")
    os.environ["CMDSTAN"] = str(cmdstan.path)
    try:
        yield
    finally:
        if before is None:
            del os.environ["CMDSTAN"]
        else:
            os.environ["CMDSTAN"] = before


@contextmanager
def quiet_cmdstanpy() -> Iterator[None]:
    """Keep CmdStanPy's log to ourselves: what it says reaches the user as one of our errors."""
    logger = logging.getLogger("cmdstanpy")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before
