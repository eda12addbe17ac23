"""``pyflowers sbc``: simulation-based calibration of a program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pyflowers.cli.console import say, say_json
from pyflowers.cli.options import (
    data_options,
    engine_options,
    given,
    include_option,
    prior_option,
    reading_of,
    sampler_options,
    seed_option,
)
from pyflowers.cli.results import rows_of

EXIT_NOT_CALIBRATED = 3


@click.command("sbc")
@click.argument("program", metavar="NAME|PROGRAM.stan")
@data_options
@click.option("--sims", type=int, default=1000, show_default=True, help="Simulated data sets.")
@click.option(
    "--quantity",
    "quantities",
    metavar="MODULE:FUNCTION",
    multiple=True,
    help="Another test quantity: a function of draws and data.",
)
@click.option(
    "--drop-doubtful",
    is_flag=True,
    help="Leave out fits with divergences or too few effective draws.",
)
@click.option(
    "--posterior",
    is_flag=True,
    help="Draw parameters from the posterior given --data, which are fitted beside new data.",
)
@seed_option
@prior_option
@sampler_options
@engine_options
@include_option
@click.option("--workers", type=int, help="Processes on this machine. [default: the usable cores]")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to write.")
def command(out: Path, drop_doubtful: bool, **options: Any) -> int:
    """Check by simulation that a program's draws are those of its posterior.

    Parameters are drawn from the prior and data from them, for the design of --data. Each data set
    is fitted and the true values are ranked among its draws: if the computation is correct, the
    ranks are uniform. Every prior must be proper. --posterior tests the computation at the observed
    data instead, under any prior. Run the command again to continue where it stopped. Exit status 3
    means that a quantity is not calibrated.
    """
    from dataclasses import replace

    from pyflowers.analysis.simulations import sbc
    from pyflowers.engines import SamplerOptions

    reading = reading_of(options)
    names = SamplerOptions.fields() & options.keys()
    sampler = given({name: options.pop(name) for name in names - {"seed"}})
    found = replace(sbc(out=out, options=sampler, **options, **reading), drop=drop_doubtful)
    found.write()
    _show(found, out)
    return EXIT_NOT_CALIBRATED if found.failed else 0


def _show(found: Any, out: Path) -> None:
    from pyflowers.cli.tables import show
    from pyflowers.plots.calibration import calibration

    table = found.table()
    table.to_csv(out / "calibration.csv")
    calibration(found).savefig(out / "calibration.png", dpi=150)
    say_json(
        {
            "program": found.name,
            "fits": found.num_fits,
            "calibration": rows_of(table),
            "passed": not found.failed,
            "verdict": found.sentence,
            "notes": list(found.notes),
            "seed": found.seed,
            "folder": str(out),
        }
    )
    show(found)
    say(f"folder: {out}")
