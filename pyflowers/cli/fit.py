"""``pyflowers fit``: sample, check, summarise, and write a run folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyflowers.cli.console import say, say_json, shows_progress
from pyflowers.cli.options import (
    data_options,
    engine_options,
    given,
    include_option,
    interval_option,
    overwrite_option,
    prior_option,
    reading_of,
    sampler_options,
    seed_option,
)

if TYPE_CHECKING:
    from pyflowers.fits.fit import Fit

EXIT_DIAGNOSTICS_FAIL = 3


@click.command("fit")
@click.argument("program", metavar="NAME|PROGRAM.stan", required=False)
@data_options
@seed_option
@sampler_options
@prior_option
@engine_options
@include_option
@interval_option
@click.option(
    "--check",
    is_flag=True,
    help="Exit with 3 if a diagnostic fails, or the posterior lies in the tail of a prior.",
)
@click.option(
    "--plots",
    type=click.Choice(["png", "svg", "pdf", "none"]),
    default="png",
    show_default=True,
    help="Format of the plots.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="A whole experiment as a TOML file; other options override it.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Run folder to write.")
@overwrite_option
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Sample a program's posterior: by four NUTS chains, or by independent draws.

    NAME is one of pyflowers models; PROGRAM.stan is your own, with its declaration in PROGRAM.toml
    beside it. With --config, each model in the file gets a run folder, and only what changed is
    fitted again.
    """
    out, check, plots, config, overwrite = (
        options.pop(name) for name in ("out", "check", "plots", "config", "overwrite")
    )
    if config is not None:
        from pyflowers.cli.config import fit_config, given_options

        return 0 if fit_config(config, given_options(ctx)) else EXIT_DIAGNOSTICS_FAIL
    for name, value in (("NAME|PROGRAM.stan", options["program"]), ("--out", out)):
        if value is None:
            raise click.UsageError(f"{name} is missing, and there is no --config.", ctx)
    from pyflowers.cli.tables import show
    from pyflowers.fits.folder import check_run_folder
    from pyflowers.workflow.experiment import save

    check_run_folder(out)
    fit = run_fit(**options, replacing=() if overwrite else (out,))
    save(fit, out, plots, overwrite=overwrite)
    say_json(record_of(fit, out))
    show(fit)
    say(f"run folder: {out}")
    return EXIT_DIAGNOSTICS_FAIL if check and not fit.verdict.passed else 0


def run_fit(
    program: str,
    engine: str,
    cmdstan: str | None,
    include_paths: tuple[str, ...],
    interval: float | None,
    replacing: Iterable[Path] = (),
    **options: Any,
) -> Fit:
    """Fit a program to data, as the command line names them.

    Runs in the folders `replacing` that have other inputs are refused before sampling.
    """
    from pyflowers.display import INTERVAL
    from pyflowers.engines import SamplerOptions, find_engine
    from pyflowers.fits.folder import refuse_other_run
    from pyflowers.fits.record import RunRecord
    from pyflowers.fits.sampling import fit_data
    from pyflowers.programs import find_program

    def refuse(now: RunRecord) -> None:
        for folder in replacing:
            refuse_other_run(folder, now)

    opened = find_program(program, include_paths)
    data = opened.read(**reading_of(options))
    priors = options.pop("priors")
    return fit_data(
        opened,
        data,
        SamplerOptions.of(**given(options)),
        priors=priors,
        engine=find_engine(engine, cmdstan),
        interval=INTERVAL if interval is None else interval,
        show_progress=shows_progress(),
        before_sampling=refuse,
    )


def record_of(fit: Fit, run: Path) -> dict[str, Any]:
    """Return what ``--json`` prints of a fit in a run folder."""
    from pyflowers.cli.results import rows_of

    summary = fit.summary()
    return {
        "program": fit.name,
        "run": str(run),
        "seed": fit.options.seed,
        "engine": fit.record.engine.name,
        "summary": rows_of(summary),
        "verdict": fit.verdict.to_dict(),
        "notes": [*summary.attrs["notes"], *fit.notes],
    }
