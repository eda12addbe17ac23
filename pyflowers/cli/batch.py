"""``pyflowers batch``: many fits from one file, and their progress."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyflowers.cli.console import say, styled
from pyflowers.cli.options import cmdstan_option

if TYPE_CHECKING:
    from pyflowers.many import Batch
    from pyflowers.workflow.batch import BatchConfig, Tasks

EXIT_TASKS_FAILED = 3
_MOST_FAILURES = 5


@click.command("batch")
@click.argument("file", metavar="FILE.toml", required=False, type=click.Path(path_type=Path))
@click.option(
    "--status",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Show the progress of a batch, running or not, and do nothing else.",
)
@click.option(
    "--retry-failed", is_flag=True, help="Also run the tasks that failed in an earlier run."
)
@click.option("--workers", type=int, help="Processes on this machine. [default: the usable cores]")
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Fit on a Dask cluster, such as tcp://HOST:8786; needs pyflowers[dask].",
)
@cmdstan_option
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the batch.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Fit every table and variant that FILE.toml names, one core for each fit.

    DIR holds a ledger with a row for each task, and what was kept from each fit. Run the same
    command again to continue where it stopped; what has changed is fitted again. Exit status 3
    means that the batch is complete but some tasks failed.
    """
    file, status = options.pop("file"), options.pop("status")
    if (file is None) == (status is None):
        raise click.UsageError("Give either FILE.toml or --status DIR.", ctx)
    if status is not None:
        from pyflowers.many import Batch

        _show(Batch(status))
        return 0
    return run_batch(ctx, file, **options)


def run_batch(
    ctx: click.Context,
    file: Path,
    *,
    out: Path | None,
    scheduler: str | None,
    **options: Any,
) -> int:
    """Run a file's batch and report the outcome."""
    from pyflowers.workflow.batch import read_batch

    config, tasks = read_batch(file)
    folder = out if out is not None else config.folder
    if folder is None:
        raise click.UsageError(f"--out is missing, and {file} names no folder.", ctx)
    if scheduler is not None:
        from pyflowers.many.cluster import connected

        with connected(scheduler) as client:
            batch = _run(config, tasks, out=folder, executor=client, **options)
    else:
        batch = _run(config, tasks, out=folder, **options)
    _show(batch)
    return EXIT_TASKS_FAILED if batch.progress.failed else 0


def _run(config: BatchConfig, tasks: Tasks, **options: Any) -> Batch:
    from pyflowers.many import run_many

    return run_many(
        tasks,
        seed=config.sampler.seed,
        engine=config.sampler.engine,
        time_limit=config.time_limit,
        retries=config.retries,
        **options,
    )


def _show(batch: Batch) -> None:
    progress = batch.progress
    total = "an unknown number" if progress.total is None else str(progress.total)
    state = "running" if progress.running else "not running"
    say(f"{batch.folder}: {progress.done} of {total} done, {progress.failed} failed ({state})")
    if progress.running and progress.rate is not None:
        left = progress.seconds_left
        ends = f", {_duration(left)} left" if left is not None else ""
        say(f"rate: {progress.rate:.3g} fits a second{ends}")
    if progress.failed:
        failures = batch.failures
        for name, reason in failures.head(_MOST_FAILURES).items():
            say(styled(f"failed: {name}", fg="red"), f": {reason}")
        if len(failures) > _MOST_FAILURES:
            say(f"and {len(failures) - _MOST_FAILURES} more")
        say("run them again with --retry-failed")


def _duration(seconds: float) -> str:
    """Return a time in the two units that matter."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
