"""``pyflowers doctor``: what a bug report needs."""

from __future__ import annotations

import click


@click.command("doctor")
def command() -> int:
    """Print what a bug report needs: machine, compiler, CmdStan, cache, packages and a short fit.

    Exits with 1 if something is not well.
    """
    from pyflowers.doctor import examine

    ill = 0
    for finding in examine():
        mark = (
            click.style("ok   ", fg="green") if finding.is_well else click.style("FAILS", fg="red")
        )
        click.echo(f"{mark}  {finding.name:<15} {finding.value}")
        ill += not finding.is_well
    return 1 if ill else 0
