"""``pyflowers fit``: sample, judge, summarise, and leave a run folder."""

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

if TYPE_CHECKING:
    from pyflowers.fitting import Fit

EXIT_DIAGNOSTICS_FAIL = 3


@click.command("fit")
@click.argument("model", metavar="MODEL|PROGRAM.stan", required=False)
@data_options
@seed_option
@sampler_options
@prior_option
@cmdstan_option
@click.option("--include", "-I", "include_paths", multiple=True, help="Folder of #include files.")
@click.option("--check", is_flag=True, help="Exit with 3 if a diagnostic fails.")
@click.option(
    "--plots", type=click.Choice(["png", "svg", "pdf"]), default="png", help="Format of the plots."
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="A whole experiment as a TOML file; other options override it.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Run folder to write.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Sample a model's posterior with four NUTS chains.

    MODEL is one of pyflowers models, or the path of a Stan program of your own. With --config each
    model of the file has a run folder, and only what changed is fitted again.
    """
    from pyflowers.runs import check_folder

    out, check, plots, config = (options.pop(n) for n in ("out", "check", "plots", "config"))
    if config is not None:
        from pyflowers.cli.config import fit_config, given_options

        return 0 if fit_config(config, given_options(ctx), show) else EXIT_DIAGNOSTICS_FAIL
    for name, value in (("MODEL", options["model"]), ("--out", out)):
        if value is None:
            raise click.UsageError(f"{name} is missing, and there is no --config.", ctx)
    check_folder(out)
    fit = run_fit(**options)
    show(fit)
    from pyflowers.plots import run_figures

    fit.save(out, run_figures(fit, plots))
    click.echo(f"run folder: {out}")
    return EXIT_DIAGNOSTICS_FAIL if check and not fit.diagnostics.passed else 0


def run_fit(
    model: str, data: Path | None, group: str, time: str, value: str, **options: Any
) -> Fit:
    """Fit a model by name on a table, or a program of the user's on its JSON."""
    from pyflowers.data import read_data
    from pyflowers.fitting import fit
    from pyflowers.models import get_model
    from pyflowers.resources import flowers_csv

    source: Any = data
    if not model.endswith(".stan"):
        get_model(model)
        source = read_data(data or flowers_csv(), group=group, time=time, value=value)
    interactive = sys.stderr.isatty() and sys.stdout.isatty()
    return fit(model, source, show_progress=interactive, **options)


def show(fit: Fit) -> None:
    """Print the summary table, what qualifies it, and the verdict."""
    from pyflowers.cli.tables import print_summary

    about = fit.model.equation if fit.model else fit.record["program"]
    click.echo(f"\n{click.style(fit.name, bold=True)}  {about}")
    print_summary(fit.summary())
    for warning in fit.record["warnings"]:
        click.echo(f"note: {warning}")
    num_messages = sum(fit.record["messages"].values())
    if num_messages:
        most = max(fit.record["messages"], key=fit.record["messages"].get)
        click.echo(
            f"note: Stan rejected {num_messages} proposals, most often with {most!r}; harmless if "
            "few and early"
        )
    colour = "green" if fit.diagnostics.passed else "red"
    click.echo(click.style(f"verdict: {fit.diagnostics}", fg=colour))
    click.echo(f"seed: {fit.record['options']['seed']}")
