"""``pyflowers report``: a table or finished runs in, one HTML file out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyflowers.cli.options import (
    cmdstan_option,
    data_options,
    prior_option,
    sampler_options,
    seed_option,
)
from pyflowers.errors import ConfigError

if TYPE_CHECKING:
    from pyflowers.config import Experiment


@click.command("report")
@click.argument("folders", metavar="[DIR]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--model", "models", multiple=True, help="Which models. [default: the three flower models]"
)
@data_options
@seed_option
@sampler_options
@prior_option
@cmdstan_option
@click.option(
    "--runs",
    type=click.Path(path_type=Path),
    help="Folder for the runs of the models; those in it that are still good are not fitted again. "
    "[default: beside the report]",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="HTML file to write.")
@click.pass_context
def command(ctx: click.Context, /, folders: tuple[Path, ...], out: Path, **options: Any) -> None:
    """Write one HTML file on the models of a table: the verdict, the posteriors, a comparison.

    Each DIR is a finished run folder; without any, the models are fitted to --data.
    """
    from pyflowers.fitting import Fit
    from pyflowers.report import write_report

    if folders:
        given = [
            name
            for name in options
            if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        ]
        if given:
            raise ConfigError(
                f"--{given[0].replace('_', '-').removesuffix('s')}: a report of run folders takes "
                "no options of a fit; leave out one or the other"
            )
        write_report([Fit.load(folder) for folder in folders], out)
    else:
        runs = options.pop("runs") or out.with_name(f"{out.stem}_runs")
        _report_of_table(_experiment(runs, **options), out)
    click.echo(f"report: {out}")


def _experiment(runs: Path, models: tuple[str, ...], **options: Any) -> Experiment:
    """Put the command line's options into an experiment."""
    from pyflowers.config import Experiment
    from pyflowers.models import FLOWER_MODELS, get_model

    names = models or tuple(model.name for model in FLOWER_MODELS)
    priors = options.pop("priors")
    for prior in priors:
        if not any(prior in get_model(name).priors for name in names):
            raise ConfigError(f"prior {prior}: none of {', '.join(names)} has such a prior")
    data = {key: options.pop(key) for key in ("group", "time", "value")}
    return Experiment().with_values(
        models=names,
        data={"file": options.pop("data"), **data},
        priors={
            name: {k: v for k, v in priors.items() if k in get_model(name).priors} for name in names
        },
        sampler=options,
        output={"folder": runs},
    )


def _report_of_table(experiment: Experiment, out: Path) -> None:
    from pyflowers.experiment import run_experiment
    from pyflowers.plots import run_figures
    from pyflowers.report import write_report

    interactive = sys.stderr.isatty() and sys.stdout.isatty()
    outcomes = run_experiment(experiment, show_progress=interactive, announce=click.echo)
    fits = []
    for outcome in outcomes:
        if outcome.fit is not None:
            fits.append(outcome.fit)
            if outcome.refitted:
                outcome.fit.save(outcome.folder, run_figures(outcome.fit))
    refused = {outcome.model: outcome.refused for outcome in outcomes if outcome.refused}
    write_report(fits, out, refused=refused)
