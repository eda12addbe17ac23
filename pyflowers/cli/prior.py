"""``pyflowers prior``: what the prior says of parameters and of data, before any are seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyflowers.cli.console import say, say_json
from pyflowers.cli.options import (
    data_options,
    engine_options,
    include_option,
    interval_option,
    prior_option,
    reading_of,
    seed_option,
)
from pyflowers.cli.results import rows_of

if TYPE_CHECKING:
    from pyflowers.analysis.priors import PriorPredictive


@click.command("prior")
@click.argument("program", metavar="NAME|PROGRAM.stan")
@click.argument("table", metavar="[TABLE]", required=False, type=click.Path(path_type=Path))
@data_options
@click.option("--draws", type=int, default=4000, show_default=True, help="Draws from the prior.")
@seed_option
@prior_option
@engine_options
@include_option
@interval_option
@click.option(
    "--plots",
    type=click.Choice(["png", "svg", "pdf", "none"]),
    default="png",
    show_default=True,
    help="Format of the plots.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder to write.")
@click.pass_context
def command(
    ctx: click.Context, /, table: Path | None, out: Path | None, plots: str, **options: Any
) -> None:
    """Draw from a program's prior and show the data that it implies for your design.

    TABLE, or --data, has your groups, times and covariates; its observed values are not read and
    may be missing. Prints quantiles of the parameters and of statistics of the implied data.
    """
    import pyflowers
    from pyflowers.analysis.prior_folder import PRIOR_FOLDER
    from pyflowers.cli.tables import show
    from pyflowers.display import INTERVAL
    from pyflowers.storage import check_folder

    reading = reading_of(options)
    if table is not None:
        if reading["data"] is not None:
            raise click.UsageError("TABLE and --data are the same; give one of them.", ctx)
        reading["data"] = table
    if out is not None:
        check_folder(out, PRIOR_FOLDER)
    if options["interval"] is None:
        options["interval"] = INTERVAL
    prior = pyflowers.prior(**options, **reading)
    if out is not None:
        _save(prior, out, plots)
    say_json(_record(prior))
    show(prior)
    if out is not None:
        say(f"prior: {out}")


def _save(prior: PriorPredictive, out: Path, plots: str) -> None:
    from pyflowers.analysis.prior_folder import save_prior

    if plots == "none":
        save_prior(prior, out)
        return
    from pyflowers.plots import prior_figures

    save_prior(prior, out, prior_figures(prior, plots))


def _record(prior: PriorPredictive) -> dict[str, Any]:
    return {
        "program": prior.name,
        "seed": prior.seed,
        "drawn_by": prior.drawn_by,
        "parameters": rows_of(prior.summary()),
        "implied": rows_of(prior.implied()),
        "diagnostics": None if prior.verdict is None else prior.verdict.to_dict(),
        "notes": list(prior.notes),
    }
