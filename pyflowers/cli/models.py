"""``pyflowers models``: the available programs, and what each can do."""

from __future__ import annotations

import click

from pyflowers.cli.console import say, styled
from pyflowers.cli.options import include_option


@click.command("models")
@click.argument("program", metavar="[NAME|PROGRAM.stan]", required=False)
@include_option
def command(program: str | None, include_paths: tuple[str, ...]) -> None:
    """List the programs, their priors and what they can do.

    With a name or a path: what that program can do, and what to add for the rest.
    """
    from pyflowers.programs import find_program, shipped_names

    if program is not None:
        _show(find_program(program, include_paths), with_remedies=True)
        return
    for name in shipped_names():
        _show(find_program(name), with_remedies=False)


def _show(program: object, with_remedies: bool) -> None:
    from pyflowers.programs import Capability, Program

    assert isinstance(program, Program)
    declared = program.declaration
    say(styled(program.name, bold=True), f"  {declared.equation}")
    if declared.story:
        say(f"  {declared.story}")
    for name, prior in declared.priors.items():
        say(f"    --prior {name}={prior.value:g}  {prior.description}")
    if with_remedies:
        for capability in Capability:
            has = program.can(capability)
            mark = styled("yes", fg="green") if has else styled("no ", fg="yellow")
            remedy = "" if has else f": {capability.remedy}"
            say("  ", mark, f"  {capability:<14} {capability.purpose}{remedy}")
    else:
        say(f"  can: {', '.join(sorted(program.capabilities))}")
    say(f"  {program.path}\n")
