"""``pyflowers compare``: every method on one posterior, side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyflowers.cli.console import say, say_json
from pyflowers.cli.options import (
    data_options,
    engine_options,
    include_option,
    interval_option,
    overwrite_option,
    prior_option,
    seed_option,
)
from pyflowers.cli.results import rows_of

if TYPE_CHECKING:
    from pyflowers.analysis.methods import Comparison
    from pyflowers.storage import FolderKind


@click.command("compare")
@click.argument("program", metavar="[NAME|PROGRAM.stan]", required=False)
@data_options
@seed_option
@prior_option
@engine_options
@include_option
@interval_option
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to write.")
@overwrite_option
def command(program: str | None, out: Path, overwrite: bool, **options: Any) -> None:
    """Compare NUTS with the exact posterior and every approximation that applies.

    The default is semiconjugate_normal, whose mean-field solution is in closed form. Writes
    table.csv,
    methods.csv, comparison.json and figures; the run by NUTS goes to OUT/nuts. With --engine
    exact, independent draws replace NUTS, in OUT/independent.
    """
    from pyflowers.analysis.methods import compare
    from pyflowers.cli.fit import run_fit
    from pyflowers.cli.tables import show
    from pyflowers.programs import COMPARED
    from pyflowers.storage import check_folder

    check_folder(out, folder_kind())
    earlier = () if overwrite else [out / name for name in folder_kind().inner]
    nuts = run_fit(program or COMPARED, **options, replacing=earlier)
    comparison = compare(nuts=nuts, cmdstan=options["cmdstan"])
    write(comparison, out)
    say_json(
        {
            "program": comparison.program.name,
            "seed": comparison.seed,
            "folder": str(out),
            "reference": comparison.reference,
            "comparison": rows_of(comparison.table()),
            "methods": rows_of(comparison.methods()),
            "left_out": dict(comparison.failures),
            "diagnostics": comparison.nuts.diagnostics.to_dict(),
        }
    )
    show(comparison)
    say(f"comparison: {out}")


def folder_kind() -> FolderKind:
    """Return what a comparison's folder is to :mod:`pyflowers.storage`."""
    from pyflowers.fits.folder import RUN_FOLDER
    from pyflowers.storage import FolderKind

    def is_own(record: Mapping[str, Any]) -> bool:
        return {"comparison", "seed"} <= record.keys()

    inner = dict.fromkeys(("nuts", "independent"), RUN_FOLDER)
    return FolderKind("--out", "comparison.json", "comparison", is_own, inner=inner)


def write(comparison: Comparison, out: Path) -> None:
    """Write tables and figures, and the reference's run folder."""
    from pyflowers.plots.methods import comparison_figures
    from pyflowers.storage import new_folder

    with new_folder(out, folder_kind()) as new:
        comparison.nuts.save(new / comparison.reference)
        comparison.table().to_csv(new / "table.csv")
        comparison.methods().to_csv(new / "methods.csv")
        for name, figure in comparison_figures(comparison).items():
            figure.savefig(new / name, dpi=150)
        record = {"comparison": comparison.program.name, "seed": comparison.seed}
        (new / "comparison.json").write_text(json.dumps(record), encoding="utf-8")
