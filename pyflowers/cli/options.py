"""Options that several commands share, named like the Python arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import click

from pyflowers.fits.spec import Spec, default_in_words, option_of, rendering

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

PATH: click.Path = click.Path(path_type=Path)


SECTIONS = {
    "Data": "--data --from --drop-missing --sep --decimal --encoding --group --time --value "
    "--column --time-order",
    "Model": "--family --prior --priors --link --known --centered --include",
    "Sampling": "--seed --chains --draws --warmup --thin --adapt-delta --max-treedepth --metric "
    "--inits --warm --engine --cmdstan --keep --refit",
    "Output": "--out --check --name --plots --all --interval --overwrite --config --json --quiet "
    "--help",
}
"""The sections of options in the help of commands that fit; in each, the usual ones come first."""


class InSections(click.Command):
    """A command whose help lists its own options first, then the options of each section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section."""
        rows = {}
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx)
            if row is not None and isinstance(parameter, click.Option):
                rows[max(parameter.opts, key=len)] = row
        placed = {title: names.split() for title, names in SECTIONS.items()}
        known = [name for names in placed.values() for name in names]
        own = {"Options": [name for name in rows if name not in known]}
        for title, names in {**own, **placed}.items():
            of_section = [rows[name] for name in names if name in rows]
            if of_section:
                with formatter.section(title):
                    formatter.write_dl(of_section)


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
) -> dict[str, Any] | None:
    """Return the values of ``NAME=VALUE`` by name, each converted by `read`; None if none is given.

    A label in brackets may contain an equals sign.
    """
    found = {}
    for text in values:
        name, _, value = text.partition("=")
        if "[" in text:
            name, _, value = text.rpartition("=")
        try:
            found[name.strip()] = read(value)
        except (ValueError, KeyError):
            name = ""
        if not (name.strip() and value):
            raise click.BadParameter(f"must be {form}, got {text!r}", ctx, parameter)
    return found or None


def named_numbers(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, float] | None:
    """Return the numbers of ``NAME=VALUE`` by name."""
    return _pairs(float, "NAME=VALUE with a number", ctx, parameter, values)


def _priors(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, float | str] | None:
    """Return the numbers of ``NAME=VALUE`` and the densities of ``NAME ~ density(…)`` by name."""
    numbers, found = list[str](), dict[str, float | str]()
    for text in values:
        name, tilde, density = text.rpartition("~")
        if not tilde and (written := _WITH_DENSITY.fullmatch(text)):
            name, tilde, density = written[1], "~", written[2]
        if tilde and not (name.strip() and density.strip()):
            raise click.BadParameter(f"must be {_FORM}, got {text!r}", ctx, parameter)
        if tilde:
            found[name.strip()] = density.strip()
        else:
            numbers.append(text)
    found |= _pairs(float, _FORM, ctx, parameter, tuple(numbers)) or {}
    return found or None


_FORM = "NAME=VALUE with a number, or 'NAME ~ density(…)'"
_WITH_DENSITY = re.compile(r"(.*)=(\s*[A-Za-z_]\w*\(.*\)\s*)")
"""A density after an equals sign, which is read like one after ``~``."""


def _centered(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> bool | dict[str, bool] | None:
    """Return the parametrisation, either one for all groups or one for each group."""
    answers = {"yes": True, "no": False}
    if len(values) == 1 and values[0] in answers:
        return answers[values[0]]
    form = "yes, no, GROUP=yes or GROUP=no"
    return _pairs(answers.__getitem__, form, ctx, parameter, values)


def _inits(_: click.Context, __: click.Parameter, text: str | None) -> float | str | None:
    """Return the radius if the text is a number; otherwise, return it as the name of a file."""
    try:
        if text is None:
            return None
        return float(text)
    except ValueError:
        return text


def _given_or_none(_: click.Context, __: click.Parameter, value: Any) -> Any:
    """Return a value, or None for an option that may be repeated and is not given."""
    if value == ():
        return None
    return value


def _tables(ctx: click.Context, _: click.Parameter, value: tuple[str, ...]) -> Any:
    """Return a table, or the completed tables that ``pyflowers fit`` pools; None without one."""
    if len(value) < 2:
        return next(iter(value), None)
    if ctx.command.name != "fit" or ctx.params.get("config"):
        raise click.UsageError(
            "--data is given more than once, but only pyflowers fit, without --config, pools "
            "completed tables; give one table.",
            ctx,
        )
    return value


_READ: dict[str, Callable[..., Any]] = {
    "centered": _centered,
    "columns": partial(_pairs, str, "NAME=COLUMN"),
    "data": _tables,
    "inits": _inits,
    "known": partial(_pairs, str, "NAME=FILE"),
    "priors": _priors,
}
"""Functions that read inputs whose options have a syntax of their own, by the input's name."""

_REPEATABLE = (dict, tuple)
"""The kinds of inputs for which an option may be given several times."""


def inputs(*names: str) -> Decorator:
    """Return the options for inputs of :class:`pyflowers.Spec`.

    An option that is not given is None, because engines reject options that they do not use.
    """
    return options(*(_option(name, Spec.model_fields[name]) for name in names))


def _option(name: str, field: FieldInfo) -> Decorator:
    """Return the option for an input."""
    kinds = _kinds(field.annotation)
    how: dict[str, Any] = {
        "callback": _READ.get(name, _given_or_none),
        "help": str(field.description),
    }
    if name == "data":
        how |= {"multiple": True}
    elif any(kind in _REPEATABLE for kind in kinds):
        how |= {"multiple": True}
        how["help"] += " Repeatable."
    elif Literal in kinds:
        how |= {"type": click.Choice(_choices(field.annotation))}
    elif bool in kinds:
        how |= {"is_flag": True}
    elif int in kinds:
        how |= {"type": int}
    elif float in kinds:
        how |= {"type": float}
    if default := default_in_words(field):
        how["help"] += f" [default: {default}]"
    metavar = rendering(field).get("metavar") or None
    letters = {"include_paths": ["-I"]}.get(name, [])
    return click.option(*letters, option_of(name), name, default=None, metavar=metavar, **how)


def _kinds(annotation: Any) -> list[Any]:
    """Return the kinds of values that an annotation allows, such as ``int`` or ``dict``."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _kinds(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return [kind for part in get_args(annotation) for kind in _kinds(part)]
    return [origin or annotation]


def _choices(kind: Any) -> list[str]:
    """Return the words that an input may have as its value."""
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    return [word for part in get_args(kind) for word in _choices(part)]


rows_options = options(
    click.option(
        "--new", type=PATH, help="Table whose rows are predicted. [default: the run's table]"
    ),
    inputs("sep", "decimal", "encoding"),
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

outcome_option = click.option(
    "--outcome",
    metavar="EVENT",
    multiple=True,
    help="Outcome for --kind probability (repeatable), such as '> 0', '<= 2', '= 3' or a category. "
    "[default: each rating or category; 1, for a response of 0 and 1; '> 0', for counts]",
)

grid_options = options(
    click.option(
        "--grid",
        metavar="VALUES",
        help="Instead of the rows of a table, use all combinations of values of some columns, as "
        "in 'x = 0:10:5, f = *' (start:stop:step, or every value; a|b for two). Other columns are "
        "at their means, or at their most frequent levels.",
    ),
    click.option(
        "--balanced",
        is_flag=True,
        help="In the grid, other factors, and columns with two distinct numbers, take all of their "
        "values, over which the result is averaged with equal weights.",
    ),
)
"""Options of commands whose rows may come from a grid."""


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


interval_option = click.option(
    "--interval",
    type=float,
    metavar="PROBABILITY",
    help="Probability of the intervals shown, such as 0.95. [default: as in the run]",
)

overwrite_option = click.option(
    "--overwrite",
    is_flag=True,
    help="Also replace a run with other inputs: program, data, priors, initial values, engine, "
    "options or seed. [default: an error]",
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
