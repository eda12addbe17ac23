"""The embedded CmdStan: made from one pinned wheel of a package index and our own front end.

The wheel of httpstan 4.13.0 carries all of Stan 2.35.0 but CmdStan's front end: headers, the
compiled libraries and stanc. pyflowers fetches it with pip, checks its SHA-256, unpacks what is
needed into the user's cache and compiles the front end in ``driver/`` against it. See
docs/decisions/0001-embedded-cmdstan.md.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from pyflowers.cmdstan.cache import appearing, cache_dir, digest, locked, sha256_file
from pyflowers.cmdstan.toolchain import compiler, compiler_version, make, require_toolchain
from pyflowers.errors import ToolchainError
from pyflowers.progress import stage

VERSION = "2.35.0"
REQUIREMENT = "httpstan==4.13.0"
DRIVER = Path(__file__).resolve().parent / "driver"

WHEELS = {
    ("Linux", "x86_64"): (
        "manylinux2014_x86_64",
        "db96f12cacea0ae8efb6bddbf3061c3536b3503187befda936c6a36c1da7124d",
    ),
    ("Darwin", "arm64"): (
        "macosx_14_0_arm64",
        "c8f8d9129afbe03b05562700b3a9d3b0333ebaae75e32c7013300b7c884f2896",
    ),
    ("Darwin", "x86_64"): (
        "macosx_13_0_x86_64",
        "d0c0807843d75629f61876319d5715e6a4efcc0c7b55fdbaa970baa86e7d2b09",
    ),
}
"""Platform tag and SHA-256 of the cp311 wheel, by system and machine."""

_UNPACKED = ("httpstan/include/", "httpstan/lib/", "httpstan/stanc")


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
    tag, sha256 = _wheel_for_this_machine()
    require_toolchain()
    home = cache_dir() / f"cmdstan-{VERSION}-{_identity(sha256)}"
    if (home / "makefile").is_file():
        return home
    with locked(home):
        if not (home / "makefile").is_file():
            stan = _unpacked_stan(tag, sha256, Path(wheel) if wheel is not None else None)
            _make_home(home, stan, jobs or usable_cores())
    return home


def stan_folder(wheel: str | Path | None = None) -> Path:
    """Return the folder with Stan's own ``include/``, ``lib/`` and ``stanc``.

    It is unpacked from the wheel if it is not in the cache yet; CmdStan's front end is not needed.

    Parameters
    ----------
    wheel : str or Path, optional
        As for :func:`install_embedded`.

    Raises
    ------
    ToolchainError
        If the platform has no wheel, or the wheel cannot be had or is not the pinned one.
    """
    tag, sha256 = _wheel_for_this_machine()
    return _unpacked_stan(tag, sha256, Path(wheel) if wheel is not None else None)


def usable_cores() -> int:
    """Return how many cores this process may use, which a container may limit."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _wheel_for_this_machine() -> tuple[str, str]:
    machine = (platform.system(), platform.machine())
    try:
        return WHEELS[machine]
    except KeyError:
        raise ToolchainError(
            f"the embedded CmdStan does not exist for {' '.join(machine)}; install the official "
            "one with pyflowers setup --official"
        ) from None


def _identity(sha256: str) -> str:
    """Name the front end by what it is made of: the wheel, our sources and the compiler."""
    sources = [path.read_text(encoding="utf-8") for path in _driver_files()]
    return digest(sha256, compiler(), compiler_version(), *sources)[:16]


def _driver_files() -> list[Path]:
    return sorted(path for path in DRIVER.rglob("*") if path.is_file())


def _unpacked_stan(tag: str, sha256: str, wheel: Path | None) -> Path:
    """Return the folder with include/, lib/ and stanc, unpacking the wheel if need be."""
    folder = cache_dir() / f"stan-{VERSION}-{sha256[:16]}"
    if folder.is_dir():
        return folder
    with locked(folder):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(prefix="pyflowers-") as temporary:
                file = wheel or _download(tag, Path(temporary))
                _check_wheel(file, sha256)
                _unpack(file, folder)
    return folder


def _download(tag: str, folder: Path) -> Path:
    """Fetch the wheel from the user's package index with pip."""
    command = [
        *(sys.executable, "-m", "pip", "download", REQUIREMENT, "--no-deps", "--only-binary=:all:"),
        *("--python-version", "311", "--implementation", "cp", "--abi", "cp311"),
        *("--platform", tag, "--dest", str(folder), "--disable-pip-version-check", "--no-input"),
    ]
    with stage(f"Downloading Stan {VERSION} (45 MB) from the package index"):
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
    wheels = list(folder.glob("httpstan-*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        said = lines[-1].strip() if lines else f"pip exited with {done.returncode}"
        raise ToolchainError(
            f"{REQUIREMENT} for {tag} cannot be downloaded with pip ({said}); check the package "
            "index, or fetch the wheel elsewhere and run pyflowers setup --wheel FILE"
        )
    return wheels[0]


def _check_wheel(file: Path, sha256: str) -> None:
    if not file.is_file():
        raise ToolchainError(f"--wheel {file}: no such file; check the path")
    found = sha256_file(file)
    if found != sha256:
        raise ToolchainError(
            f"{file}: its SHA-256 is {found[:16]}…, not {sha256[:16]}… of the pinned {REQUIREMENT} "
            "wheel for this machine; fetch that one"
        )


def _unpack(file: Path, folder: Path) -> None:
    with zipfile.ZipFile(file) as archive, appearing(folder) as staging:
        wanted = [name for name in archive.namelist() if name.startswith(_UNPACKED)]
        with stage("Unpacking Stan's headers and libraries", len(wanted)) as advance:
            for name in wanted:
                archive.extract(name, staging)
                advance(1)
        for part in (staging / "httpstan").iterdir():
            part.rename(staging / part.name)
        (staging / "httpstan").rmdir()
        (staging / "stanc").chmod(0o755)


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
