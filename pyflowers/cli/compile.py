"""``pyflowers compile``: a Stan program in, an executable out."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from pyflowers.cli.options import cmdstan_option
from pyflowers.errors import ConfigError


@click.command("compile")
@click.argument("program", metavar="PROGRAM.stan", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Copy the executable there.")
@click.option(
    "-I",
    "--include",
    "include_paths",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Folder with included files.",
)
@cmdstan_option
def command(
    program: Path, output: Path | None, include_paths: tuple[Path, ...], cmdstan: str | None
) -> None:
    """Compile a Stan program into an executable.

    Prints where the executable is: in the cache, or where -o says. Nothing is written beside the
    program.
    """
    from pyflowers.cmdstan import compile_program, find_cmdstan

    executable = compile_program(
        program, cmdstan=find_cmdstan(cmdstan), include_paths=include_paths
    ).path
    if output is not None:
        executable = _copy(executable, output)
    click.echo(str(executable))


def _copy(executable: Path, output: Path) -> Path:
    target = output / executable.name if output.is_dir() else output
    staging = target.with_name(f".{target.name}.partial")
    try:
        shutil.copy2(executable, staging)
        staging.replace(target)
    except OSError as error:
        staging.unlink(missing_ok=True)
        raise ConfigError(f"-o {output}: it cannot be written ({error.strerror})") from error
    return target
