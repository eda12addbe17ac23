"""``pyflowers sensitivity``: which conclusions of a finished run depend on its prior."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyflowers.cli.console import say, say_json
from pyflowers.cli.options import interval_option
from pyflowers.cli.results import rows_of

if TYPE_CHECKING:
    from pyflowers.analysis.prior_sensitivity import Sensitivity
    from pyflowers.storage import FolderKind


@click.command("sensitivity")
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@interval_option
@click.option("--out", type=click.Path(path_type=Path), help="Folder to write.")
def command(folder: Path, interval: float | None, out: Path | None) -> None:
    """Show which conclusions of a run depend on its prior, by power-scaling.

    RUN is a finished run folder. The prior and the likelihood are raised to powers near 1 by
    importance sampling; nothing is fitted again. Writes sensitivity.csv, conclusions.csv and a
    figure to --out.
    """
    from pyflowers.analysis.prior_sensitivity import sensitivity
    from pyflowers.cli.tables import show
    from pyflowers.fits.fit import Fit
    from pyflowers.storage import check_folder

    if out is not None:
        check_folder(out, folder_kind())
    fit = Fit.load(folder)
    found = sensitivity(fit, interval=interval)
    if out is not None:
        write(found, out)
    say_json(
        {
            **_record(found),
            "run": str(folder),
            "sensitivity": rows_of(found.table()),
            "moves": rows_of(found.moves()),
            "conclusion": found.sentence,
            "verdict": fit.verdict.also(found.part).to_dict(),
        }
    )
    show(found)
    say(fit.verdict.also(found.part).line)
    if out is not None:
        say(f"sensitivity: {out}")


def folder_kind() -> FolderKind:
    """Return what the folder is to :mod:`pyflowers.storage`."""
    from pyflowers.storage import FolderKind

    def is_own(record: Mapping[str, Any]) -> bool:
        return {"sensitivity_of", "k_hat"} <= record.keys()

    return FolderKind("--out", "sensitivity.json", "sensitivity", is_own)


def _record(found: Sensitivity) -> dict[str, Any]:
    return {
        "sensitivity_of": found.name,
        "k_hat": {
            scaled.component: {f"{alpha:g}": str(k) for alpha, k in scaled.k_hat.items()}
            for scaled in found.components
        },
        "notes": list(found.notes),
    }


def write(found: Sensitivity, out: Path) -> None:
    """Write tables, k-hats and the figure."""
    from pyflowers.plots import power_scaling
    from pyflowers.storage import new_folder

    with new_folder(out, folder_kind()) as new:
        found.table().to_csv(new / "sensitivity.csv")
        found.conclusions.to_csv(new / "conclusions.csv")
        if found.distances.get("prior") is not None and found.distances["prior"].notna().any():
            power_scaling([found]).savefig(new / "sensitivity.png", dpi=150)
        (new / "sensitivity.json").write_text(json.dumps(_record(found)), encoding="utf-8")
