"""``pyflowers report``: a table or finished runs in, one HTML file out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyflowers.cli.console import say, say_json, shows_progress
from pyflowers.cli.options import (
    data_options,
    engine_options,
    given,
    interval_option,
    overwrite_option,
    prior_option,
    reading_of,
    sampler_options,
    seed_option,
)
from pyflowers.errors import ConfigError

if TYPE_CHECKING:
    from pyflowers.analysis.calibration import Calibration
    from pyflowers.workflow.config import Experiment
    from pyflowers.workflow.experiment import Outcome


@click.command("report")
@click.argument("folders", metavar="[DIR]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--model",
    "models",
    multiple=True,
    help="Programs, by name or path. [default: the lecture's three]",
)
@data_options
@seed_option
@sampler_options
@prior_option
@engine_options
@interval_option
@click.option(
    "--runs",
    type=click.Path(path_type=Path),
    help="Folder for the runs of the models; those that are still valid are not fitted again. "
    "[default: beside the report]",
)
@click.option(
    "--calibration",
    "calibrations",
    metavar="DIR",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Folder of pyflowers sbc of one of the models, to be reported beside its fit.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="HTML file to write.")
@overwrite_option
@click.pass_context
def command(ctx: click.Context, /, folders: tuple[Path, ...], out: Path, **options: Any) -> None:
    """Write an HTML report on the models of a table: verdict, posteriors and a comparison.

    Each DIR is a finished run folder; without any, the models are fitted to --data.
    """
    from pyflowers.analysis.calibration import Calibration
    from pyflowers.cli.config import models_of
    from pyflowers.display import INTERVAL
    from pyflowers.fits.fit import Fit
    from pyflowers.reports import check_report
    from pyflowers.workflow.experiment import Outcome, run_experiment

    check_report(out)
    cmdstan = options.pop("cmdstan")
    calibrations = [Calibration.load(folder) for folder in options.pop("calibrations")]
    interval = options.pop("interval")
    if folders:
        _refuse_options(ctx, options)
        fits = [Fit.load(folder).with_interval(interval) for folder in folders]
        outcomes = [
            Outcome(fit.name, folder, fit) for fit, folder in zip(fits, folders, strict=True)
        ]
    else:
        runs = options.pop("runs") or out.with_name(f"{out.stem}_runs")
        overwrite = options.pop("overwrite")
        outcomes = run_experiment(
            _experiment(runs, interval=INTERVAL if interval is None else interval, **options),
            cmdstan=cmdstan,
            refit_changed=False,
            overwrite=overwrite,
            show_progress=shows_progress(),
            announce=say,
        )
    write(outcomes, out, calibrations)
    say_json({"report": str(out), "models": models_of(outcomes)})
    say(f"report: {out}")


def write(
    outcomes: Sequence[Outcome],
    out: Path,
    calibrations: Sequence[Calibration] = (),
) -> None:
    """Compare the methods on each model, then write the report of them all."""
    from pyflowers.reports import report
    from pyflowers.workflow.comparisons import compare_all

    fits = [outcome.fit for outcome in outcomes if outcome.fit is not None]
    refused = {outcome.name: outcome.refused for outcome in outcomes if outcome.refused}
    report(
        fits,
        out,
        refused=refused,
        comparisons=partial(compare_all, fits),
        calibrations=calibrations,
    )


def _refuse_options(ctx: click.Context, options: dict[str, Any]) -> None:
    for parameter in ctx.command.params:
        name = parameter.name or ""
        given_here = ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if name in options and given_here:
            raise ConfigError(
                f"{parameter.opts[0]}: a report of run folders takes no fitting options; leave "
                "out one or the other"
            )


def _experiment(runs: Path, models: tuple[str, ...], interval: float, **options: Any) -> Experiment:
    """Put the command line's options into an experiment."""
    from pyflowers.programs import LECTURE, find_program
    from pyflowers.workflow.config import Experiment

    names = models or LECTURE
    declared = {program.name: program.declaration.priors for program in map(find_program, names)}
    priors = options.pop("priors")
    for prior in priors:
        if not any(prior in known for known in declared.values()):
            raise ConfigError(f"prior {prior}: none of {', '.join(declared)} has such a prior")
    reading = reading_of(options)
    return Experiment().with_values(
        models=names,
        interval=interval,
        data={"file": reading.pop("data"), **reading},
        priors={
            name: {k: v for k, v in priors.items() if k in known}
            for name, known in declared.items()
        },
        sampler=given(options),
        output={"folder": runs},
    )
