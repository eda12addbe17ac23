"""``pyflowers models``: the available programs, and what each can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pyflowers.cli.console import say, say_json
from pyflowers.cli.options import include_option
from pyflowers.display import styled

if TYPE_CHECKING:
    from pyflowers.programs import Program


@click.command("models")
@click.argument("program", metavar="[NAME|PROGRAM.stan]", required=False)
@include_option
def command(program: str | None, include_paths: tuple[str, ...]) -> None:
    """List the programs, their priors and what they can do.

    With a name or a path: what that program can do, and what to add for the rest.
    """
    from pyflowers.programs import find_program, shipped_names

    shipped = [find_program(name) for name in shipped_names()] if program is None else []
    programs = shipped or [find_program(program or "", include_paths)]
    say_json({"models": [_record(each) for each in programs]})
    for each in programs:
        _show(each, with_remedies=not shipped)


def _record(program: Program) -> dict[str, Any]:
    from pyflowers.programs import Capability

    declared = program.declaration
    return {
        "name": program.name,
        "equation": declared.equation,
        "story": declared.story,
        "priors": {name: prior.model_dump() for name, prior in declared.priors.items()},
        "capabilities": {str(each): program.can(each) for each in Capability},
        "path": str(program.path),
    }


def _show(program: Program, with_remedies: bool) -> None:
    from pyflowers.programs import Capability

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
