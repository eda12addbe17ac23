"""The last step of commands that produce a result: write its folder, then print the result.

The folder holds tables, figures and ``KIND.json``, the record that ``--json`` prints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from pyflowers.cli.console import json_of, say, say_json, show
from pyflowers.cli.options import PATH, Decorator
from pyflowers.display import Line, Result
from pyflowers.storage import FolderKind, check_folder, new_folder

_INNER = {"comparison": ("nuts", "independent", "weighted")}
"""The names of run folders within the folder of a result, by the kind of result."""


def out_option(kind: str) -> Decorator:
    """Add ``--out``, a folder for results of this kind, and at once reject one with other files."""

    def check(_: click.Context, __: click.Parameter, out: Path | None) -> Path | None:
        if out is not None:
            check_folder(out, folder_kind(kind))
        return out

    return click.option(
        "--out", type=PATH, callback=check, help="Write the results to this folder."
    )


def folder_kind(name: str) -> FolderKind:
    """Return the kind of a result's folder, for :mod:`pyflowers.storage`."""
    from pyflowers.fits.folder import RUN_FOLDER

    def is_own(record: Mapping[str, Any]) -> bool:
        return record.get("kind") == name

    inner = dict.fromkeys(_INNER.get(name, ()), RUN_FOLDER)
    return FolderKind("--out", f"{name}.json", name, is_own, inner=inner)


def finish(
    found: Result,
    out: Path | None,
    status: int = 0,
    figures: Callable[[], Mapping[str, Any]] | None = None,
    more: Mapping[str, Any] | None = None,
    *,
    in_full: bool = False,
) -> int:
    """Write a result's folder, if one is requested, print the result and return the exit status.

    Parameters
    ----------
    found, out, figures, more
        See :func:`save`.
    status : int
        The exit status.
    in_full : bool
        Whether to also print the rows that are hidden by default.
    """
    save(found, out, figures, more)
    return told(found, out, status, in_full=in_full)


def save(
    found: Result,
    out: Path | None,
    figures: Callable[[], Mapping[str, Any]] | None = None,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Write a result's folder, if one is requested.

    Parameters
    ----------
    found : Result
        The result.
    out : Path or None
        The folder.
    figures : callable, optional
        Function that returns figures by file name. Default: the figures that ``plots.results``
        draws for the result.
    more : mapping, optional
        Further files, by name, which are written only if they are requested.
    """
    if out is None:
        return
    with new_folder(out, folder_kind(found.holds)) as new:
        if figures is None:
            drawn = _figures_of(found)
        else:
            drawn = figures()
        for name, made in {**found.files(), **drawn, **(more or {})}.items():
            _write(new / name, made)
        text = json_of({"kind": found.holds, **found.to_dict()})
        (new / f"{found.holds}.json").write_text(text + "\n", encoding="utf-8")


def told(found: Result, out: Path | None, status: int = 0, *, in_full: bool = False) -> int:
    """Print a result whose folder, if any, has been written, and return the exit status."""
    say_json(found.to_dict())
    show(found, in_full=in_full)
    if out is not None:
        say(f"{found.holds}: {out}")
    return status


def _figures_of(found: Result) -> Mapping[str, Any]:
    from pyflowers.plots.results import figures_of

    return figures_of(found)


@dataclass(frozen=True, repr=False)
class Plain(Result):
    """Lines and tables, and their record, as a result of a command."""

    holds: str  # type: ignore[misc]
    text: Sequence[Line]
    record: Mapping[str, Any]
    tables: Mapping[str, Any] = field(default_factory=dict)

    def contents(self) -> Sequence[Line]:
        """Return the lines and tables."""
        return self.text

    def files(self) -> dict[str, Any]:
        """Return the tables by file name."""
        return dict(self.tables)

    def to_dict(self) -> dict[str, Any]:
        """Return the record."""
        return dict(self.record)


def _write(path: Path, made: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    if hasattr(made, "to_csv"):
        made.to_csv(path)
    elif hasattr(made, "savefig"):
        made.savefig(path, dpi=150)
    else:
        made.save(path)
