"""``pyflowers replay``: run a run folder again and compare."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pyflowers.cli.options import cmdstan_option

EXIT_DIFFERENT = 3


@click.command("replay")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@cmdstan_option
def command(folder: Path, cmdstan: str | None) -> int:
    """Run a run folder again and say whether its posterior is the same.

    Says bitwise equal, statistically equal, or different and why; exits with 3 if different.
    """
    from pyflowers.replay import replay

    interactive = sys.stderr.isatty() and sys.stdout.isatty()
    result = replay(folder, cmdstan=cmdstan, show_progress=interactive)
    colour = "red" if result.verdict == "different" else "green"
    click.echo(click.style(str(result), fg=colour))
    return EXIT_DIFFERENT if result.verdict == "different" else 0
