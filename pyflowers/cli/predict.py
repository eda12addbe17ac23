"""``pyflowers predict``: the next observation of each group, and a new group."""

from __future__ import annotations

from pathlib import Path

import click

from pyflowers.cli.console import say
from pyflowers.cli.options import interval_option
from pyflowers.cli.results import about, open_run, result_options, result_seed, rows_of, say_json
from pyflowers.cli.results import write as write_result


@click.command("predict")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@result_seed
@interval_option
@result_options
def command(
    run: Path, seed: int | None, interval: float | None, as_json: bool, out: Path | None
) -> None:
    """Predict each group's next observation and a new group, with intervals of 50 and 90%.

    RUN is a run folder of pyflowers fit. A program of your own predicts what it declares as y_new
    and y_new_group in generated quantities.
    """
    from pyflowers import plots
    from pyflowers.analysis.predictions import predict
    from pyflowers.cli.tables import show

    fit = open_run(run, out, "predictions", interval)
    found = predict(fit, seed=seed)
    table = found.table()
    record = about(fit, run, seed=found.seed, predictions=rows_of(table), notes=list(found.notes))
    write_result(
        *(out, "predictions", record, {"predictions.csv": table}),
        lambda: {"predictions.png": plots.predictions(found)},
    )
    if as_json:
        say_json(record)
        return
    show(found)
    if out is not None:
        say(f"predictions: {out}")
