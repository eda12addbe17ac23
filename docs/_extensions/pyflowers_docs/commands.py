"""The page of commands, from the click tree."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pyflowers.cli.main import cli
from pyflowers_docs.api import _write

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_HEAD = """# Commands

Every command explains itself with `--help`; this page is made from the same text.

| exit status | meaning |
|---|---|
| 0 | done |
| 1 | an error, said in one line |
| 2 | wrong usage |
| 3 | done, and something failed: with `--check`, and of `check`, `sbc`, `batch` and `replay` |
"""


def setup(app: Sphinx) -> None:
    """Write the page when the build starts."""
    app.connect("builder-inited", _write_page)


def _write_page(app: Sphinx) -> None:
    write_page(Path(app.srcdir))


def write_page(srcdir: Path) -> None:
    """Write ``reference/commands.md``."""
    context = click.Context(cli, info_name="pyflowers")
    parts = [_HEAD, "## Options before any command\n", _options(cli, context)]
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        parts += [*_command(name, command, context)]
    _write(srcdir / "reference" / "commands.md", "\n".join(parts))


def _command(name: str, command: click.Command, parent: click.Context) -> list[str]:
    context = click.Context(command, info_name=name, parent=parent)
    usage = " ".join(["pyflowers", name, *command.collect_usage_pieces(context)])
    prose = "\n\n".join(
        " ".join(part.split()) for part in (command.help or "").replace("\b", "").split("\n\n")
    )
    return [
        f"(command-{name})=",
        f"## pyflowers {name}\n",
        f"```text\n{usage}\n```\n",
        f"{_escape(prose)}\n",
        _options(command, context),
    ]


def _options(command: click.Command, context: click.Context) -> str:
    rows = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            names, meaning = record
            rows.append(
                f"| `{names.replace('|', chr(0x2223))}` | {_escape(' '.join(meaning.split()))} |"
            )
    return "\n".join(["| option | meaning |", "|---|---|", *rows]) + "\n"


def _escape(text: str) -> str:
    """Keep what is literal in a help text literal in Markdown."""
    for character in "\\*_[]<>|#`":
        text = text.replace(character, f"\\{character}")
    return text
