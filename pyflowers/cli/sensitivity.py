"""``pyflowers sensitivity``: which conclusions of a finished run depend on its prior."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyflowers.cli.console import say, say_json, styled
from pyflowers.cli.results import rows_of

if TYPE_CHECKING:
    from pyflowers.outputs import FolderKind
    from pyflowers.priors import Sensitivity

SHOWN_ROWS = 40


@click.command("sensitivity")
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Folder to write.")
def command(folder: Path, out: Path | None) -> None:
    """Show which conclusions of a run depend on its prior, by power-scaling.

    RUN is a finished run folder. The prior and the likelihood are raised to powers near 1 by
    importance sampling; nothing is fitted again. Writes sensitivity.csv, conclusions.csv and a
    figure to --out.
    """
    from pyflowers.fits.fit import Fit
    from pyflowers.outputs import check_folder
    from pyflowers.priors import prior_sensitivity

    if out is not None:
        check_folder(out, folder_kind())
    found = prior_sensitivity(Fit.load(folder))
    if out is not None:
        write(found, out)
    say_json(
        {
            **_record(found),
            "run": str(folder),
            "sensitivity": rows_of(found.table()),
            "moves": rows_of(found.moves()),
            "conclusion": found.sentence,
        }
    )
    show(found)
    if out is not None:
        say(f"sensitivity: {out}")


def show(found: Sensitivity) -> None:
    """Print the sensitivities, k-hats, and the conclusions that move with the prior."""
    from pyflowers.cli.tables import print_moves, print_quantiles
    from pyflowers.fits.summary import format_number

    say("\n", styled(found.name, bold=True), "  sensitivity to power-scaling; 0.05 or more matters")
    table = found.table()
    by_prior = table.sort_values(str(table.columns[0]), ascending=False, kind="stable")
    shown = table if len(table) <= SHOWN_ROWS else by_prior.head(SHOWN_ROWS)
    print_quantiles(shown, "sensitivity.csv")
    if len(shown) < len(table):
        say(f"{len(table) - len(shown)} less sensitive rows are in sensitivity.csv")
    moves = found.moves()
    if len(moves):
        say("Conclusions that move when the prior counts twice:")
        print_moves(moves, "conclusions.csv")
    for scaled in found.components:
        if not scaled.is_constant:
            k_hat = format_number(scaled.worst_k)
            say(f"k-hat of the {scaled.component}: {k_hat}, must be at most {scaled.limit:.2f}")
    for note in found.notes:
        say(f"note: {note}")
    say(styled(found.sentence, bold=True))


def folder_kind() -> FolderKind:
    """Return what the folder is to :mod:`pyflowers.outputs`."""
    from pyflowers.outputs import FolderKind

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
    from pyflowers.outputs import new_folder
    from pyflowers.plots import power_scaling

    with new_folder(out, folder_kind()) as new:
        found.table().to_csv(new / "sensitivity.csv")
        found.conclusions.to_csv(new / "conclusions.csv")
        if found.distances.get("prior") is not None and found.distances["prior"].notna().any():
            power_scaling([found]).savefig(new / "sensitivity.png", dpi=150)
        (new / "sensitivity.json").write_text(json.dumps(_record(found)), encoding="utf-8")
