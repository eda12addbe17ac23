"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

DATA_OPTIONS = (
    "data",
    "group",
    "time",
    "value",
    "columns",
    "sep",
    "decimal",
    "encoding",
    "time_order",
)
"""What :func:`data_options` adds."""


def _options(*options: Decorator) -> Decorator:
    """Return a decorator that adds options in the order in which they are given."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


data_options = _options(
    click.option(
        "--data",
        type=click.Path(path_type=Path),
        help="Tidy CSV, TSV, JSON records, Parquet or Excel; or CmdStan JSON. [default: the "
        "example that comes with the program]",
    ),
    click.option("--group", metavar="COLUMN", help="The table's column of groups, such as plants."),
    click.option("--time", metavar="COLUMN", help="The table's column of times, such as months."),
    click.option("--value", metavar="COLUMN", help="The table's column of observed values."),
    click.option(
        "--column",
        "columns",
        metavar="NAME=COLUMN",
        multiple=True,
        callback=lambda ctx, parameter, values: _pairs(ctx, parameter, values),
        help="The table's name for a column of the declaration.",
    ),
    click.option("--sep", metavar="CHARACTER", help="What separates the cells of a CSV file."),
    click.option("--decimal", type=click.Choice([".", ","]), help="The decimal mark. [default: .]"),
    click.option("--encoding", metavar="NAME", help="Encoding of a text file. [default: utf-8]"),
    click.option(
        "--time-order",
        type=click.Choice(["value", "appearance"]),
        help="Order of the times: by value if they have one, or as in the rows. [default: value]",
    ),
)
"""Add ``--data``, the names of its columns, and how to read it."""


def reading_of(options: dict[str, Any]) -> dict[str, Any]:
    """Take the data options out of a command's and return the arguments of ``Program.read``."""
    given = {name: options.pop(name) for name in DATA_OPTIONS}
    roles = {role: given[role] for role in ("group", "time", "value") if given[role] is not None}
    how = ("sep", "decimal", "encoding", "time_order")
    return {
        "data": given["data"],
        "columns": {**given["columns"], **roles},
        **{name: given[name] for name in how if given[name] is not None},
    }


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
    return click.option(
        "--seed",
        type=int,
        help="Seed, from 0 to 4294967295. [default: drawn at random and recorded]",
    )(command)


def interval_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--interval``."""
    return click.option(
        "--interval",
        type=float,
        metavar="PROBABILITY",
        help="Of the intervals that are shown, such as 0.95. [default: that of the run, or 0.9]",
    )(command)


def include_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--include``."""
    return click.option(
        "-I", "--include", "include_paths", multiple=True, help="Folder of #include files."
    )(command)


def overwrite_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--overwrite``."""
    return click.option(
        "--overwrite",
        is_flag=True,
        help="Replace an earlier run, whatever it was. [default: only one with the same program, "
        "data, priors, engine, options and seed]",
    )(command)


def cmdstan_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--cmdstan``."""
    return click.option(
        "--cmdstan",
        metavar="PATH",
        help="CmdStan folder, or 'embedded'. [default: CMDSTAN, ~/.cmdstan, conda, embedded]",
    )(command)


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--engine`` and ``--cmdstan``."""
    from pyflowers.engines.base import ENGINES

    return click.option(
        "--engine",
        type=click.Choice(ENGINES),
        default="auto",
        show_default=True,
        help="The engine: cmdstan; stanli, an interpreter of Stan that needs no compiler; exact, "
        "independent draws without a Markov chain, for programs that support it. auto takes "
        "cmdstan if there is one, otherwise stanli.",
    )(cmdstan_option(command))


def sampler_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what :class:`pyflowers.engines.SamplerOptions` declares, but the seed.

    Options that are not given are None: engines refuse options that they do not use.
    """
    from pyflowers.engines.base import SamplerOptions

    fields = [(name, f) for name, f in SamplerOptions.model_fields.items() if name != "seed"]
    for name, field in reversed(fields):
        command = click.option(
            f"--{name.replace('_', '-')}",
            **_kind(field),
            help=f"{field.description} [default: {field.default or 'all that fit in memory'}]",
        )(command)
    return command


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def _kind(field: FieldInfo) -> dict[str, Any]:
    """Return the click arguments of an option for such a field; if not given, it is None."""
    if get_origin(field.annotation) is Literal:
        return {"type": click.Choice(get_args(field.annotation)), "default": None}
    default = field.default
    if isinstance(default, tuple):
        return {"multiple": True, "metavar": "NAME", "callback": lambda c, p, names: names or None}
    return {"type": type(default), "default": None}


def _pairs(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    found = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not (name.strip() and equals and value):
            raise click.BadParameter(f"{text!r} is not NAME=COLUMN", ctx, parameter)
        found[name.strip()] = value
    return found


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
