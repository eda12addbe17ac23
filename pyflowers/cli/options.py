"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--data`` and the names of its columns."""
    for option in (
        click.option("--value", default="flowers", show_default=True, help="Column of counts."),
        click.option("--time", default="month", show_default=True, help="Column of months."),
        click.option("--group", default="plant", show_default=True, help="Column of plants."),
        click.option(
            "--data",
            type=click.Path(path_type=Path),
            help="Tidy CSV, TSV, JSON or Parquet; CmdStan JSON for a program of your own. "
            "[default: the lecture's flowers]",
        ),
    ):
        command = option(command)
    return command


def prior_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--prior NAME=VALUE``, which may be given several times."""
    return click.option(
        "--prior",
        "priors",
        metavar="NAME=VALUE",
        multiple=True,
        callback=_parse_priors,
        help="Change a hyperparameter; see pyflowers models.",
    )(command)


def seed_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--seed``."""
    return click.option("--seed", type=int, help="0 to 4294967295. [default: drawn and recorded]")(
        command
    )


def cmdstan_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--cmdstan``."""
    return click.option(
        "--cmdstan",
        metavar="PATH",
        help="CmdStan folder, or 'embedded'. [default: CMDSTAN, ~/.cmdstan, conda, embedded]",
    )(command)


def sampler_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add how many chains to run, how long, and how carefully."""
    for option in (
        click.option("--max-treedepth", type=int, default=10, show_default=True),
        click.option("--adapt-delta", type=float, default=0.9, show_default=True),
        click.option("--thin", type=int, default=1, show_default=True, help="Keep each n-th."),
        click.option("--draws", type=int, default=1000, show_default=True, help="Kept, a chain."),
        click.option("--warmup", type=int, default=1000, show_default=True, help="Per chain."),
        click.option("--chains", type=int, default=4, show_default=True, help="NUTS chains."),
    ):
        command = option(command)
    return command


def _parse_priors(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, float]:
    priors = {}
    for text in values:
        name, equals, value = text.partition("=")
        try:
            priors[name.strip()] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE with a number", ctx, parameter)
    return priors
