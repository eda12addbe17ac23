"""``pyflowers predict``: the next observation of each group, and a new group."""

from __future__ import annotations

from pathlib import Path

import click

from pyflowers.cli.console import say, styled
from pyflowers.cli.results import about, open_run, result_options, result_seed, rows_of, say_json
from pyflowers.cli.results import write as write_result


@click.command("predict")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@result_seed
@result_options
def command(run: Path, seed: int | None, as_json: bool, out: Path | None) -> None:
    """Predict each group's next observation and a new group, with 50 and 90% intervals.

    RUN is a run folder of pyflowers fit. A program of your own predicts what it declares as y_new
    and y_new_group in generated quantities.
    """
    from pyflowers import plots
    from pyflowers.checks import predict
    from pyflowers.cli.tables import print_indexed

    fit = open_run(run, out, "predictions")
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
    say("\n", styled(fit.name, bold=True), f"  {fit.program.about}")
    print_indexed(table, "predictions.csv")
    for note in found.notes:
        say(f"note: {note}")
    say(f"seed: {found.seed}")
    if out is not None:
        say(f"predictions: {out}")
