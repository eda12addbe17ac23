"""Write the page of commands from the click tree: commands by task, each shared option once.

sphinx-click, which also writes such a page, repeats the shared options with every command: there
are more than 300 options in all, and about 80 that differ.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pyflowers.cli.main import TASKS, cli
from pyflowers_docs.api import _write

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_HEAD = """# Commands

`--help` explains every command; this page is generated from the same text.

| exit status | meaning |
|---|---|
| 0 | done |
| 1 | an error, which is printed, or a problem that `doctor` has found |
| 2 | wrong usage |
| 3 | done, but something failed, as `fit --check`, `check`, `sbc`, `batch` or `replay` reports |
"""

SHARED = {
    "Options of every command": "--json --quiet --help",
    "Data options": "--data --group --time --value --column --sep --decimal --encoding "
    "--time-order --drop-missing",
    "Row options": "--new --grid --balanced --by --weights --parameter --outcome",
    "Model options": "--family --prior --priors --link --known --centered --include",
    "Engine options": "--engine --cmdstan --workers",
    "Sampler options": "--seed --chains --warmup --draws --thin --adapt-delta --max-treedepth "
    "--metric --keep --inits",
    "Output options": "--name --interval --plots --out --overwrite",
}
"""The options that several commands share, by section; no links lead to the first section."""

Row = tuple[str, str]
"""An option as it is written, and its help."""

_CODE = re.compile(r'("[^"]+"|(?<![^\s(])--?[a-z][a-z-]*)')


def setup(app: Sphinx) -> None:
    """Write the page when the build starts."""
    app.connect("builder-inited", _write_page)


def _write_page(app: Sphinx) -> None:
    write_page(Path(app.srcdir))


def write_page(srcdir: Path) -> None:
    """Write ``reference/commands.md``."""
    root = click.Context(cli, info_name="pyflowers", **cli.context_settings)
    contexts = {}
    for name in cli.list_commands(root):
        command = cli.get_command(root, name)
        assert command is not None
        contexts[name] = click.Context(command, info_name=name, parent=root)
    shared = _shared(contexts.values())
    every, *linked = SHARED
    own = [row for row in _rows(root).values() if row not in shared.values()]
    parts = [_HEAD, "## Options before any command\n", _table(own)]
    parts += _section(every, shared)
    for task, names in TASKS.items():
        parts.append(f"## {task}\n")
        for name in names.split():
            parts += _command(name, contexts[name], shared)
    for title in linked:
        parts += _section(title, shared)
    _write(srcdir / "reference" / "commands.md", "\n".join(parts))


def _rows(context: click.Context) -> dict[str, Row]:
    """Return the options of a command by name."""
    found = {}
    for parameter in context.command.get_params(context):
        row = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and row is not None:
            found[max(parameter.opts, key=len)] = row
    return found


def _shared(contexts: Iterable[click.Context]) -> dict[str, Row]:
    """Return, by name, each option that several commands share, with its most frequent help."""
    counts = Counter(option for context in contexts for option in _rows(context).items())
    found: dict[str, Row] = {}
    for (name, row), count in counts.most_common():
        if count > 1:
            found.setdefault(name, row)
    placed = [name for names in SHARED.values() for name in names.split()]
    assert sorted(placed) == sorted(found), "SHARED does not list every shared option once"
    return found


def _section(title: str, shared: dict[str, Row]) -> list[str]:
    rows = [shared[name] for name in SHARED[title].split()]
    return [f"({_label(title)})=", f"## {title}\n", _table(rows)]


def _command(name: str, context: click.Context, shared: dict[str, Row]) -> list[str]:
    usage = " ".join(["pyflowers", name, *context.command.collect_usage_pieces(context)])
    rows = _rows(context)
    own = [row for option, row in rows.items() if shared.get(option) != row]
    return [
        f"(command-{name})=",
        f"### pyflowers {name}\n",
        f"```text\n{usage}\n```\n",
        *(f"{_paragraph(part)}\n" for part in (context.command.help or "").split("\n\n")),
        *([_table(own)] if own else []),
        *_links(rows, shared),
        "",
    ]


def _paragraph(text: str) -> str:
    """Return a paragraph of a help text in Markdown, with its examples as typed."""
    if text.startswith("\b"):
        _, _, *lines = text.splitlines()
        commands = re.sub(r"(?<!\\)\n +", "\n$ ", "\n" + "\n".join(lines))
        return f"```console{commands}\n```"
    return _markdown(text)


def _links(rows: dict[str, Row], shared: dict[str, Row]) -> Iterator[str]:
    """Yield the shared options of a command, with links to the sections that explain them."""
    for title in list(SHARED)[1:]:
        all_names = SHARED[title].split()
        names = [name for name in all_names if rows.get(name) == shared[name]]
        options = ", ".join(f"`{name}`" for name in names)
        if names == all_names:
            options = "all"
        if names:
            yield f"- [{title}](#{_label(title)}): {options}"


def _label(title: str) -> str:
    return title.lower().replace(" ", "-")


def _table(rows: Iterable[Row]) -> str:
    lines = [
        f"| `{names.replace('|', chr(0x2223))}` | {_markdown(meaning)} |" for names, meaning in rows
    ]
    return "\n".join(["| option | meaning |", "|---|---|", *lines]) + "\n"


def _markdown(text: str) -> str:
    """Return a help text with options and quotations as code, and the rest literal."""
    parts = _CODE.split(" ".join(text.split()))
    parts[::2] = [re.sub(r"[\\*_\[\]<>|#`]", r"\\\g<0>", part) for part in parts[::2]]
    parts[1::2] = [f"`{part}`" for part in parts[1::2]]
    return "".join(parts)
