"""``pyflowers compile``: a Stan program in, an executable out."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from pyflowers.cli.console import say, say_json
from pyflowers.cli.options import cmdstan_option
from pyflowers.errors import ConfigError
from pyflowers.storage import FileKind, check_file, new_file


@click.command("compile")
@click.argument("program", metavar="PROGRAM.stan", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Copy the executable there.")
@click.option(
    "-I",
    "--include",
    "include_paths",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Folder of #include files.",
)
@cmdstan_option
def command(
    program: Path, output: Path | None, include_paths: tuple[Path, ...], cmdstan: str | None
) -> None:
    """Compile a Stan program into an executable.

    Prints where the executable is: in the cache, or where -o says. Nothing is written beside the
    program.
    """
    from pyflowers.programs.source import read_source
    from pyflowers.toolchain import compile_source, find_cmdstan

    source = read_source(program, include_paths)
    target = output
    if output is not None:
        target = output / source.safe_name if output.is_dir() else output
        if not target.parent.is_dir():
            raise ConfigError(
                f"-o {output}: it cannot be written, because there is no folder "
                f"{target.parent}; create it first"
            )
        check_file(target, KIND)
    executable = compile_source(source, cmdstan=find_cmdstan(cmdstan)).path
    if target is not None:
        executable = _copy(executable, target)
    say_json({"executable": str(executable)})
    say(str(executable))


def _copy(executable: Path, target: Path) -> Path:
    with new_file(target, KIND) as new:
        shutil.copy2(executable, new)
    return target


def _is_executable(path: Path) -> bool:
    """Whether a file is a compiled Stan program, as far as that can be seen without running it."""
    with path.open("rb") as file:
        content = file.read(MOST_BYTES)
    return content.startswith(_MAGIC) and b"stan_version_major" in content


MOST_BYTES = 200 * 1024**2
_MAGIC = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"MZ")
"""How executables start on Linux, macOS and Windows."""

KIND = FileKind("executable", _is_executable)
