"""``pyflowers replay``: repeat the fit of a run folder and compare."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from pyflowers.cli.console import say, say_json, shows_progress
from pyflowers.cli.options import cmdstan_option
from pyflowers.display import styled

EXIT_DIFFERENT = 3


@click.command("replay")
@click.argument(
    "folders", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--engine",
    type=click.Choice(["cmdstan", "stanli", "exact"]),
    help="Engine to use instead of the recorded one.",
)
@cmdstan_option
def command(folders: tuple[Path, ...], engine: str | None, cmdstan: str | None) -> int:
    """Repeat the fits of run folders and report whether the draws are the same.

    The recorded engine is used unless another is named. Exits with 3 if a result differs.
    """
    from pyflowers.workflow.replay import replay

    differ, replays = False, []
    for folder in folders:
        result = replay(folder, engine=engine, cmdstan=cmdstan, show_progress=shows_progress())
        is_different = result.verdict == "different"
        name = f"{folder}: " if len(folders) > 1 else ""
        say(name, styled(str(result), fg="red" if is_different else "green"))
        differ |= is_different
        replays.append({"run": str(folder), **asdict(result)})
    say_json({"replays": replays})
    return EXIT_DIFFERENT if differ else 0
