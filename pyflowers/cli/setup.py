"""``pyflowers setup``: a CmdStan to work with."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

import click

from pyflowers.cli.console import say, say_json
from pyflowers.errors import ToolchainError


@click.command("setup")
@click.option(
    "--official",
    metavar="[VERSION]",
    is_flag=False,
    flag_value="latest",
    help="Install the official CmdStan under ~/.cmdstan instead.",
)
@click.option(
    "--wheel",
    type=click.Path(path_type=Path),
    help="The pinned httpstan wheel as a file, for a machine that cannot reach a package index.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="Number of compilers to run at once. [default: cores]",
)
def command(official: str | None, wheel: Path | None, jobs: int | None) -> None:
    """Make the embedded CmdStan, or install the official one.

    The first command that needs CmdStan does this automatically.
    """
    if official is not None and wheel is not None:
        raise click.UsageError(
            "--wheel is for the embedded CmdStan only; leave --wheel or --official out"
        )
    if official is not None:
        path = _install_official(official, jobs)
    else:
        from pyflowers.programs import LECTURE, find_program
        from pyflowers.toolchain import find_cmdstan, install_embedded
        from pyflowers.toolchain.build import compile_sources
        from pyflowers.toolchain.manifest import Care

        path = install_embedded(wheel, jobs, Care.DIGESTS)
        cmdstan = find_cmdstan("embedded")
        compile_sources([find_program(name).source for name in LECTURE], cmdstan, jobs)
    say_json({"cmdstan": str(path)})
    say(f"CmdStan is ready in {path}")


def _install_official(version: str, jobs: int | None) -> Path:
    """Let CmdStanPy download and build a release."""
    from pyflowers.cores import usable_cores
    from pyflowers.engines.cmdstan import import_cmdstanpy

    cmdstanpy = import_cmdstanpy()
    wanted = None if version == "latest" else version
    with redirect_stdout(sys.stderr):  # it prints what it does
        done = cmdstanpy.install_cmdstan(version=wanted, cores=jobs or usable_cores())
    if not done:
        raise ToolchainError(
            f"CmdStan {version} cannot be installed, see above; without access to its releases "
            "run pyflowers setup, which needs only a package index"
        )
    return Path(cmdstanpy.cmdstan_path())
