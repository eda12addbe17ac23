"""What predict, check and contrast produce: a folder of tables and figures, or JSON.

The folder's record, ``NAME.json``, is what ``--json`` prints.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyflowers.cli.console import json_of, say_json

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from pyflowers.fits.fit import Fit
    from pyflowers.storage import FolderKind


def result_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--json`` and ``--out``."""
    command = click.option(
        "--out", type=click.Path(path_type=Path), help="Folder to write: tables and figures."
    )(command)
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")(
        command
    )


def result_seed(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--seed`` of what is drawn from a fit."""
    return click.option(
        "--seed",
        type=click.IntRange(0, 2**32 - 1),
        help="Seed of the draws made here. [default: that of the run]",
    )(command)


def open_run(folder: Path, out: Path | None, name: str, interval: float | None = None) -> Fit:
    """Read a run folder, after refusing a folder that cannot take the result."""
    from pyflowers.fits.fit import Fit
    from pyflowers.storage import check_folder

    if out is not None:
        check_folder(out, _kind(name))
    return Fit.load(folder).with_interval(interval)


def about(fit: Fit, run: Path, **more: Any) -> dict[str, Any]:
    """Return the head of a record: which run it is of, and the verdict on it."""
    verdict = fit.verdict.to_dict()
    head = {"program": fit.name, "run": str(run), "run_seed": fit.options.seed, "verdict": verdict}
    return {**head, **more}


def rows_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table's rows as mappings; what is missing is None."""
    found: list[dict[str, Any]] = json.loads(
        table.reset_index().to_json(orient="records", double_precision=15)
    )
    return found


def write(
    out: Path | None,
    name: str,
    record: Mapping[str, Any],
    tables: Mapping[str, pd.DataFrame],
    figures: Callable[[], Mapping[str, Figure]],
) -> None:
    """Write a result's folder, if one is asked for.

    Parameters
    ----------
    out : Path or None
        The folder.
    name : str
        What it is: ``checks``, ``predictions`` or ``contrasts``.
    record : mapping
        What ``--json`` prints.
    tables : mapping of str to DataFrame
        By file name.
    figures : callable
        Makes the figures by file name; they are not drawn without a folder.
    """
    from pyflowers.storage import new_folder

    if out is None:
        return
    with new_folder(out, _kind(name)) as new:
        for file, table in tables.items():
            table.to_csv(new / file)
        for file, figure in figures().items():
            figure.savefig(new / file, dpi=150)
        text = json_of({"kind": name, **record})
        (new / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def _kind(name: str) -> FolderKind:
    from pyflowers.storage import FolderKind

    return FolderKind("--out", f"{name}.json", name, lambda record: record.get("kind") == name)


__all__ = [
    "about",
    "json_of",
    "open_run",
    "result_options",
    "result_seed",
    "rows_of",
    "say_json",
    "write",
]
