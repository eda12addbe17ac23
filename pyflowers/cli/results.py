"""The last step of commands that produce a result: write its folder, then print the result.

The folder holds tables, figures and ``KIND.json``, the record that ``--json`` prints.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyflowers.cli.console import json_of, say, say_json, show
from pyflowers.cli.options import PATH, Decorator
from pyflowers.display import Line, Shown

if TYPE_CHECKING:
    import pandas as pd

    from pyflowers.fits.fit import Fit
    from pyflowers.storage import FolderKind

_BEFORE = {"comparison": "comparison", "prior": "prior_of", "sensitivity": "sensitivity_of"}
"""The key that marks records of version 0.2.0, which did not state their kind."""


def out_option(kind: str) -> Decorator:
    """Add ``--out``, a folder for results of this kind, and refuse other folders at once."""

    def check(_: click.Context, __: click.Parameter, out: Path | None) -> Path | None:
        from pyflowers.storage import check_folder

        if out is not None:
            check_folder(out, folder_kind(kind))
        return out

    return click.option(
        "--out", type=PATH, callback=check, help="Write the results to this folder."
    )


def folder_kind(name: str) -> FolderKind:
    """Return the kind of a result's folder, for :mod:`pyflowers.storage`."""
    from pyflowers.fits.folder import RUN_FOLDER
    from pyflowers.storage import FolderKind

    def is_own(record: Mapping[str, Any]) -> bool:
        return record.get("kind") == name or ("kind" not in record and _BEFORE.get(name) in record)

    inner = dict.fromkeys(("nuts", "independent") if name == "comparison" else (), RUN_FOLDER)
    return FolderKind("--out", f"{name}.json", name, is_own, inner=inner)


def finish(
    kind: str,
    found: Shown,
    record: Mapping[str, Any],
    out: Path | None,
    files: Callable[[], Mapping[str, Any]] | None = None,
    status: int = 0,
) -> int:
    """Write a result's folder, if one is requested, print the result and return the exit status.

    Parameters
    ----------
    kind : str
        What the folder holds, such as ``checks``.
    found : Shown
        The result.
    record : mapping
        What ``--json`` prints.
    out : Path or None
        The folder.
    files : callable, optional
        Function that returns tables, figures and runs by file name, called only if a folder is
        requested. If it is None, the folder has already been written.
    status : int
        The exit status.
    """
    if out is not None and files is not None:
        from pyflowers.storage import new_folder

        with new_folder(out, folder_kind(kind)) as new:
            for name, made in files().items():
                _write(new / name, made)
            text = json_of({"kind": kind, **record})
            (new / f"{kind}.json").write_text(text + "\n", encoding="utf-8")
    say_json(record)
    show(found)
    if out is not None:
        say(f"{kind}: {out}")
    return status


@dataclass(frozen=True, repr=False)
class Lines(Shown):
    """Lines and tables as a result."""

    text: Sequence[Line]

    def contents(self) -> Sequence[Line]:
        """Return the lines and tables."""
        return self.text


def _write(path: Path, made: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    if hasattr(made, "to_csv"):
        made.to_csv(path)
    elif hasattr(made, "savefig"):
        made.savefig(path, dpi=150)
    else:
        made.save(path)


def about(fit: Fit, run: Path, **more: Any) -> dict[str, Any]:
    """Return the head of a record: the run that it is about, and the verdict on that run."""
    verdict = fit.verdict.to_dict()
    head = {"program": fit.name, "run": str(run), "run_seed": fit.options.seed, "verdict": verdict}
    return {**head, **more}


def rows_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table's rows as mappings; missing values are None."""
    found: list[dict[str, Any]] = json.loads(
        table.reset_index().to_json(orient="records", double_precision=15)
    )
    return found
