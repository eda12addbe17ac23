"""Options that several commands share, named like the Python arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

PATH: click.Path = click.Path(path_type=Path)


def options(*decorators: Decorator) -> Decorator:
    """Return a decorator that adds options in the order in which they are given."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(decorators):
            command = option(command)
        return command

    return decorate


def _pairs(
    read: Callable[[str], Any],
    form: str,
    ctx: click.Context,
    parameter: click.Parameter,
    values: tuple[str, ...],
) -> dict[str, Any]:
    """Return the values of ``NAME=VALUE`` by name, each converted by `read`.

    A label in brackets may contain an equals sign.
    """
    found = {}
    for text in values:
        name, _, value = text.rpartition("=") if "[" in text else text.partition("=")
        try:
            found[name.strip()] = read(value)
        except (ValueError, KeyError):
            name = ""
        if not (name.strip() and value):
            raise click.BadParameter(f"must be {form}, got {text!r}", ctx, parameter)
    return found


drop_missing_option = click.option(
    "--drop-missing",
    is_flag=True,
    default=None,
    help="Leave out rows with a missing value in a column that is used. [default: report an error]",
)

reading_options = options(
    click.option("--sep", metavar="CHARACTER", help="Field separator of a CSV file."),
    click.option("--decimal", type=click.Choice([".", ","]), help="Decimal mark. [default: .]"),
    click.option("--encoding", metavar="NAME", help="Encoding of a text file. [default: utf-8]"),
)
"""Options that determine how a table is read."""

rows_options = options(
    click.option(
        "--new", type=PATH, help="Table whose rows are predicted. [default: the run's table]"
    ),
    reading_options,
    click.option(
        "--by",
        metavar="COLUMN",
        multiple=True,
        help="Average over the rows with the same value in COLUMN (repeatable).",
    ),
    click.option(
        "--weights",
        metavar="COLUMN",
        help="Column with the weight of each row in the averages. [default: equal weights]",
    ),
)
"""Options of commands that predict rows of a table."""


def groups_option(default: str) -> Decorator:
    """Return the option that sets how the effects of groups enter predictions.

    Parameters
    ----------
    default : str
        What the command does without the option, in words.
    """
    return click.option(
        "--groups",
        type=click.Choice(["data", "none", "population"]),
        help="Group effects of each row. data: the effects of the row's group, which are drawn "
        "from the population if the run does not contain the group; none: effects fixed at the "
        "mean of the population; population: effects integrated over the population. "
        f"[default: {default}]",
    )


data_options = options(
    click.option(
        "--data",
        type=PATH,
        help="File with a tidy table (CSV, TSV, JSON records, Parquet or Excel) or with the data "
        "block (CmdStan JSON). [default: the program's example table]",
    ),
    click.option("--group", metavar="COLUMN", help="Column of the groups, such as plants."),
    click.option("--time", metavar="COLUMN", help="Column of the times, such as months."),
    click.option("--value", metavar="COLUMN", help="Column of the observed values."),
    click.option(
        "--column",
        "columns",
        metavar="NAME=COLUMN",
        multiple=True,
        callback=partial(_pairs, str, "NAME=COLUMN"),
        help="Use COLUMN of the table for the declared column NAME (repeatable).",
    ),
    reading_options,
    click.option(
        "--time-order",
        type=click.Choice(["value", "appearance"]),
        help="Order of the times: by value, or by appearance in the rows. [default: value]",
    ),
    drop_missing_option,
)
"""``--data``, the names of its columns, and how to read it."""

family_option = click.option(
    "--family",
    metavar="NAME",
    help="Response family of a formula: gaussian, student, lognormal, gamma, beta, bernoulli, "
    "binomial, poisson, negbinomial, zero_inflated_poisson, zero_inflated_negbinomial or "
    "cumulative. [default: gaussian]",
)

default_priors_option = click.option(
    "--priors",
    "default_priors",
    type=click.Choice(["brms"]),
    help="Use the default priors of brms, which are flat for coefficients, in a formula's program. "
    "[default: proper priors on the scale of the data]",
)

prior_option = click.option(
    "--prior",
    "priors",
    metavar="NAME=VALUE",
    multiple=True,
    callback=partial(_pairs, float, "NAME=VALUE with a number"),
    help="Set a hyperparameter (repeatable). To list a program's hyperparameters, run pyflowers "
    "models NAME; for a formula, see the .toml file that pyflowers new writes.",
)

seed_option = click.option(
    "--seed",
    type=int,
    help="Seed, from 0 to 4294967295. [default: drawn at random and recorded]",
)

interval_option = click.option(
    "--interval",
    type=float,
    metavar="PROBABILITY",
    help="Probability of the intervals shown, such as 0.95. [default: 0.9, or as in the run]",
)

include_option = click.option(
    "-I",
    "--include",
    "include_paths",
    multiple=True,
    help="Folder to search for #include files (repeatable).",
)

overwrite_option = click.option(
    "--overwrite",
    is_flag=True,
    help="Replace any earlier run. [default: replace only a run with the same program, data, "
    "priors, initial values, engine, options and seed]",
)

plots_option = click.option(
    "--plots",
    type=click.Choice(["png", "svg", "pdf", "none"]),
    default="png",
    show_default=True,
    help="Format of the figures, or none for no figures.",
)

workers_option = click.option(
    "--workers",
    type=int,
    help="Number of processes on this machine. [default: one per usable core]",
)

cmdstan_option = click.option(
    "--cmdstan",
    metavar="PATH",
    help="CmdStan folder, or 'embedded'. [default: the first found in $CMDSTAN, ~/.cmdstan and the "
    "conda environment; otherwise, the embedded one]",
)


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--engine`` and ``--cmdstan``."""
    from pyflowers.engines.base import ENGINES

    engine_option = click.option(
        "--engine",
        type=click.Choice(ENGINES),
        default="auto",
        show_default=True,
        help="cmdstan; stanli (a Stan interpreter that needs no compiler); exact (independent "
        "draws without a Markov chain, for programs that support this); or auto (cmdstan if it is "
        "installed or already built, otherwise stanli).",
    )
    return engine_option(cmdstan_option(command))


def program_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for data, family, seed, priors, engine, includes and interval."""
    more = (
        family_option,
        seed_option,
        prior_option,
        engine_options,
        include_option,
        interval_option,
    )
    return options(data_options, *more)(command)


def sampler_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of :class:`pyflowers.engines.SamplerOptions`, except the seed.

    Options that are not given are None, because engines refuse options that they do not use.
    """
    from pyflowers.engines.base import SamplerOptions

    fields = [(name, f) for name, f in SamplerOptions.model_fields.items() if name != "seed"]
    for name, field in reversed(fields):
        kind, about = _kind(field), str(field.description)
        if "multiple" in kind:
            about = f"{about} Repeatable."
        default = field.default or "all draws, or none if there are more than 50 million"
        command = click.option(
            f"--{name.replace('_', '-')}", **kind, help=f"{about} [default: {default}]"
        )(command)
    return command


def _centered(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> bool | dict[str, bool] | None:
    """Return the parametrisation, either one for all groups or one for each group."""
    answers = {"yes": True, "no": False}
    if len(values) == 1 and values[0] in answers:
        return answers[values[0]]
    form = "yes, no, GROUP=yes or GROUP=no"
    return _pairs(answers.__getitem__, form, ctx, parameter, values) or None


centered_option = click.option(
    "--centered",
    metavar="yes|no|GROUP=yes|GROUP=no",
    multiple=True,
    callback=_centered,
    help="Whether to use the centered parametrisation, for all groups or for one GROUP "
    "(repeatable), in formulas and programs that offer the choice. [default: chosen from the data, "
    "or as your own program declares]",
)


def _kind(field: FieldInfo) -> dict[str, Any]:
    """Return the click arguments of an option for a field; an option that is not given is None."""
    if get_origin(field.annotation) is Literal:
        return {"type": click.Choice(get_args(field.annotation)), "default": None}
    default = field.default
    if isinstance(default, tuple):
        return {"multiple": True, "metavar": "NAME", "callback": lambda c, p, names: names or None}
    return {"type": type(default), "default": None}


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def from_command_line(ctx: click.Context) -> dict[str, Any]:
    """Return the options given on the command line, without those left at their default."""
    source = click.core.ParameterSource.COMMANDLINE
    return {
        name: value
        for name, value in ctx.params.items()
        if ctx.get_parameter_source(name) is source
    }
