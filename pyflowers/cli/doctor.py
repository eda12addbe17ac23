"""``pyflowers doctor``: what a bug report needs."""

from __future__ import annotations

from pathlib import Path

import click

from pyflowers.cli.console import say, say_json
from pyflowers.display import styled


@click.command("doctor")
@click.option(
    "--repair",
    is_flag=True,
    help="Instead, remove what killed commands left in the cache, in TMPDIR and in each FOLDER.",
)
@click.argument("folders", metavar="[FOLDER]...", nargs=-1, type=click.Path(path_type=Path))
def command(repair: bool, folders: tuple[Path, ...]) -> int:
    """Print what a bug report needs: machine, compiler, CmdStan, cache, packages and a short fit.

    Exits with 1 if there is a problem. FOLDER is where results are written, by default the
    current folder; only unfinished files of pyflowers are removed.
    """
    if repair:
        return _repair(folders or (Path(),))
    if folders:
        raise click.UsageError("FOLDER can only be given with --repair")
    from pyflowers.workflow.doctor import examine

    findings = []
    for finding in examine():
        mark = styled("ok   ", fg="green") if finding.is_ok else styled("FAILS", fg="red")
        say(mark, f"  {finding.name:<15} {finding.value}")
        findings.append(finding)
    say_json({"findings": [finding._asdict() for finding in findings]})
    return 0 if all(finding.is_ok for finding in findings) else 1


def _repair(folders: tuple[Path, ...]) -> int:
    from pyflowers.workflow.doctor import repair

    found = list(repair(folders))
    for leftover in found:
        say(f"{leftover.path}: {leftover.state}")
    say_json({"leftovers": [{"path": str(each.path), "state": each.state} for each in found]})
    if not found:
        say("nothing was left behind")
    return 0
