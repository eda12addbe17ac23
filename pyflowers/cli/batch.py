"""``pyflowers batch``: many fits from one file, and their progress."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyflowers.cli.console import say, say_json
from pyflowers.cli.options import PATH, inputs, workers_option
from pyflowers.display import records_of, styled

if TYPE_CHECKING:
    import pandas as pd

    from pyflowers.batches import Batch, Progress

EXIT_TASKS_FAILED = 3
_MOST_NAMED = 5


@click.command("batch")
@click.argument("file", metavar="FILE.toml", required=False, type=PATH)
@click.option(
    "--status",
    metavar="DIR",
    type=PATH,
    help="Only show the progress of the batch in DIR, whether or not it is running.",
)
@click.option(
    "--retry-failed", is_flag=True, help="Also run the tasks that failed in an earlier run."
)
@workers_option
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Address of a Dask cluster to fit on, such as tcp://HOST:8786 (needs the extra dask).",
)
@inputs("cmdstan")
@click.option("--out", type=PATH, help="Folder for the batch. [default: as in FILE.toml]")
@click.option("--check", is_flag=True, help="Also exit with status 3 if a fit is doubtful.")
@click.pass_context
def batch_command(
    ctx: click.Context,
    /,
    file: Path | None,
    status: Path | None,
    check: bool,
    **options: Any,
) -> int:
    """Fit all combinations of models, tables, variants and repeats in FILE.toml, one core per fit.

    The folder of the batch holds a ledger with one row per task, and the results kept from each
    fit. Run the same command again to resume; tasks whose inputs have changed are refitted. Each
    fit ends as passed, doubtful (it finished, but a check failed) or failed. Exit status 3 means
    that some fits failed or, with --check, that some are doubtful. With --status, the exit status
    depends on the fits only if --check is given.

      pyflowers batch batch.toml --out results/batch
      pyflowers batch --status results/batch
    """
    if file is not None and status is None:
        batch = _run(ctx, file, **options)
    elif file is None and status is not None:
        from pyflowers.batches import Batch

        batch = Batch(status)
    else:
        raise click.UsageError("Give either FILE.toml or --status DIR.", ctx)
    progress = batch.progress
    say_json(
        {
            "kind": "batch",
            "folder": str(batch.folder),
            **asdict(progress),
            "seconds_left": progress.seconds_left,
            "not_passed": records_of(_poor(batch)),
        }
    )
    _show(batch, progress)
    is_poor = (progress.failed and (check or file)) or (progress.doubtful and check)
    if is_poor:
        return EXIT_TASKS_FAILED
    return 0


def _run(
    ctx: click.Context, file: Path, *, out: Path | None, scheduler: str | None, **options: Any
) -> Batch:
    """Run the batch that a file describes."""
    from pyflowers.batches import batch
    from pyflowers.workflow.batch import import_kept, read_batch

    config, tasks = read_batch(file)
    folder = out or config.folder
    if folder is None:
        raise click.UsageError(f"--out is missing, and {file} names no folder; add --out DIR.", ctx)
    connection: AbstractContextManager[Any] = nullcontext()
    if scheduler is not None:
        from pyflowers.batches.cluster import connected

        connection = connected(scheduler)
    with connection as client:
        import_kept(config, file)
        return batch(
            tasks,
            out=folder,
            executor=client,
            seed=config.sampler.seed,
            engine=config.sampler.engine,
            time_limit=config.time_limit,
            retries=config.retries,
            **options,
        )


def _show(batch: Batch, progress: Progress) -> None:
    if progress.total is None:
        total = "an unknown number"
    else:
        total = str(progress.total)
    state = "not running"
    if progress.running:
        state = "running"
    finished = progress.done + progress.failed
    say(
        f"{batch.folder}: {finished} of {total} finished: {progress.passed} passed, "
        f"{progress.doubtful} doubtful, {progress.failed} failed ({state})"
    )
    if progress.earlier:
        reached = "this run has not reached them"
        if not progress.running:
            reached = "the last run ended before it reached them; run the same batch again"
        say(f"{progress.earlier} of these tasks finished in an earlier run, and {reached}")
    if progress.running and progress.rate is not None:
        rate = f"rate: {progress.rate:.3g} fits per second"
        if progress.seconds_left is not None:
            rate += f", {_duration(progress.seconds_left)} left"
        say(rate)
    if progress.doubtful:
        causes = [f"{name} in {num}" for name, num in progress.failed_checks.items()]
        say(f"failed checks of the doubtful fits: {', '.join(causes)}")
        _name(batch, "doubtful", "yellow")
        folder = str(batch.folder)
        say(f"to list them all, see the column verdict of pyflowers.Batch({folder!r}).ledger()")
    if progress.failed:
        _name(batch, "failed", "red")
        say("to run the failed tasks again, add --retry-failed")


def _name(batch: Batch, verdict: str, colour: str) -> None:
    """Print the first tasks that have this verdict, each with the reason."""
    poor = _poor(batch)
    reasons = poor.loc[poor["verdict"] == verdict, "reason"]
    for name, reason in reasons.head(_MOST_NAMED).items():
        say(styled(f"{verdict}: {name}", fg=colour), f": {reason}")
    if len(reasons) > _MOST_NAMED:
        say(f"and {len(reasons) - _MOST_NAMED} more")


def _poor(batch: Batch) -> pd.DataFrame:
    """Return the verdict and its reason for each task that is doubtful or has failed, by name."""
    ledger = batch.ledger()
    poor = ledger[ledger["verdict"].isin(["doubtful", "failed"])]
    reason = poor["error"].fillna(poor["failed_checks"])
    return poor[["verdict"]].assign(reason=reason).rename_axis("task")


def _duration(seconds: float) -> str:
    """Return a duration as text, in at most two units."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    if minutes:
        return f"{minutes} min {rest} s"
    return f"{rest} s"
