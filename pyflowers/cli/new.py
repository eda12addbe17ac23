"""``pyflowers new``: a program to start from, or the declaration of an existing one."""

from __future__ import annotations

from pathlib import Path

import click

from pyflowers.cli.console import say, say_json
from pyflowers.cli.options import include_option


@click.command("new")
@click.argument("name", metavar="NAME|PROGRAM.stan", type=click.Path(path_type=Path))
@click.option("--from", "source", metavar="NAME", help="The shipped program to start from.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="For an existing PROGRAM.stan: the table to draft its declaration for.",
)
@include_option
def command(
    name: Path, source: str | None, data: Path | None, include_paths: tuple[str, ...]
) -> None:
    """Start a program of your own.

    With --from, NAME.stan and NAME.toml are written: a copy of a shipped program with its
    declaration, and with log_lik, y_rep and lprior. With --data, PROGRAM.toml is drafted for a
    program that you have. Nothing that exists is overwritten.
    """
    from pyflowers.programs.drafts import (
        TO_FILL_IN,
        copy_shipped,
        draft_declaration,
        lost_capabilities,
        write_new,
    )

    if (source is None) == (data is None):
        raise click.UsageError("give --from NAME for a new program, or --data FILE for your own")
    if source is not None:
        from pyflowers.programs import find_program

        target = name if name.suffix == ".stan" else Path(f"{name}.stan")
        files = copy_shipped(source, target)
        write_new(files)
        say_json({"written": [str(path) for path in files]})
        for path in files:
            say(f"written: {path}")
        lost = lost_capabilities(find_program(source))
        if lost:
            say(
                f"note: {' and '.join(lost)} are written in Python for {source}, so they are "
                "not copied"
            )
        say(f"next: pyflowers fit {target} --data YOUR_TABLE --out RUN_FOLDER")
        return
    from pyflowers.data import read_table

    assert data is not None  # one of the two is given
    table = read_table(data)
    target = name.with_suffix(".toml")
    drafted = draft_declaration(name, list(table.cells), include_paths)
    write_new({target: drafted})
    say_json({"written": [str(target)]})
    say(f"written: {target}")
    fill_in = "fill in the marked lines, then " if TO_FILL_IN in drafted else ""
    say(f"next: {fill_in}pyflowers models {name}")
