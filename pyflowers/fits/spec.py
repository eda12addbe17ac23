"""The inputs of a fit, each defined once, with its help, its range and its default.

The arguments of :func:`pyflowers.fit` and the other functions that fit, the options of the command
line, the keys of experiment and batch files, the tasks of a batch and the command that repeats a
run are renderings of :class:`Spec`. A new input is a new field here.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import AfterValidator, ConfigDict, SkipValidation, Strict, ValidationError
from pydantic.fields import FieldInfo

from pyflowers.display import INTERVAL
from pyflowers.engines import Engine, SamplerOptions, find_engine
from pyflowers.engines.base import (
    COMPILED_STAN,
    ENGINES,
    ESTIMATED,
    LARGEST_SEED,
    EngineName,
    Whole,
)
from pyflowers.errors import ConfigError
from pyflowers.programs import Data, Program, find_program
from pyflowers.programs.data import read_once
from pyflowers.programs.families import family_names, family_text
from pyflowers.programs.program import joined_formulas, named_priors
from pyflowers.records import Record, asked, asked_as, complaint

Function = TypeVar("Function", bound=Callable[..., Any])


def takes_inputs(*names: str) -> Callable[[Function], Function]:
    """Return a decorator that lists inputs of :class:`Spec` where a function has ``**inputs``.

    The inputs are shown in the function's signature, and their help replaces ``**inputs`` in its
    docstring.

    Parameters
    ----------
    *names : str
        The names of the inputs.
    """

    def decorate(function: Function) -> Function:
        shape = inspect.signature(function)
        own = [p for p in shape.parameters.values() if p.kind is not p.VAR_KEYWORD]
        fields = {name: Spec.model_fields[name] for name in names}
        more = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.get_default(call_default_factory=True),
                annotation=_plain(field.annotation),
            )
            for name, field in fields.items()
        ]
        function.__signature__ = shape.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        function.__doc__ = (function.__doc__ or "").replace("    **inputs\n", _help_of(names), 1)
        return function

    return decorate


def _plain(kind: Any) -> Any:
    """Return a type without the checks on its values, for a signature."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return Union[tuple(map(_plain, get_args(kind)))]  # noqa: UP007
    return kind


def _help_of(names: Iterable[str]) -> str:
    """Return the entries for inputs in the section *Parameters* of a docstring."""
    return "".join(_documented(name, Spec.model_fields[name]) for name in names)


def _documented(name: str, field: FieldInfo) -> str:
    """Return the entry for an input in the section *Parameters* of a docstring."""
    default = default_in_words(field)
    text = str(field.description)
    if default:
        text += f" Default: {default}."
    lines = textwrap.fill(text, 92, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return f"    {name} : {_in_words(field.annotation)}\n{lines}\n"


def _in_words(kind: Any) -> str:
    """Return the type of an input as docstrings name it, such as ``mapping of str to float``."""
    origin, inner = get_origin(kind), [each for each in get_args(kind) if each is not NoneType]
    if origin is Annotated:
        return _in_words(inner[0])
    if origin is Literal:
        return f"{{{', '.join(map(repr, inner))}}}"
    if origin is dict:
        return f"mapping of {_in_words(inner[0])} to {_in_words(inner[1])}"
    if origin is tuple:
        return f"sequence of {_in_words(inner[0])}"
    if origin in (Union, UnionType):
        is_optional = NoneType in get_args(kind)
        return " or ".join(map(_in_words, inner)) + (", optional" if is_optional else "")
    return "value" if kind is Any else str(kind.__name__)


def default_in_words(field: FieldInfo) -> str:
    """Return, in words, the default of an input; empty if it needs no mention."""
    words = str(rendering(field).get("unset", ""))
    if words or field.default in (None, {}, ()):
        return words
    return str(field.default)


def rendering(field: FieldInfo) -> Mapping[str, str]:
    """Return what :func:`asked` was given for an input: ``unset``, ``option`` and ``metavar``."""
    extra = field.json_schema_extra
    return {} if extra is None or callable(extra) else extra  # type: ignore[return-value]


def option_of(name: str) -> str:
    """Return the command-line option for an input."""
    return rendering(Spec.model_fields[name]).get("option") or f"--{name.replace('_', '-')}"


class Reading(Record):
    """How a table is read, and the names of its columns."""

    group: str | None = asked(
        "Column with the groups, such as plants.",
        unset="as declared",
        metavar="COLUMN",
        strict=True,
    )
    time: str | None = asked(
        "Column with the times, such as months.",
        unset="as declared",
        metavar="COLUMN",
        strict=True,
    )
    value: str | None = asked(
        "Column with the observed values.", unset="as declared", metavar="COLUMN", strict=True
    )
    columns: Annotated[dict[str, str], SkipValidation] = asked(
        "Use COLUMN of the table for the declared column NAME.",
        {},
        option="--column",
        metavar="NAME=COLUMN",
    )
    sep: str | None = asked("Field separator of a CSV file.", metavar="CHARACTER", strict=True)
    decimal: Literal[".", ","] | None = asked("Decimal mark of a text file.", unset="a point")
    encoding: str | None = asked(
        "Encoding of a text file.", unset="utf-8", metavar="NAME", strict=True
    )
    time_order: Literal["value", "appearance"] = asked(
        "Order of the times: by value, or by appearance in the rows.", "value"
    )
    drop_missing: bool = asked(
        "Leave out rows with a missing value in a column that is used.",
        False,
        unset="report an error",
    )

    @property
    def reading(self) -> dict[str, Any]:
        """The arguments of :meth:`pyflowers.Program.read` that differ from their defaults."""
        given = {name: getattr(self, name) for name in Reading.model_fields}
        fields = Reading.model_fields
        return {name: value for name, value in given.items() if value != fields[name].default}


class Sampling(SamplerOptions):
    """The sampler's options and the engine; without a seed, a new one is drawn and recorded."""

    seed: Whole | None = asked(  # type: ignore[assignment]
        f"Seed, from 0 to {LARGEST_SEED}.",
        unset="drawn at random and recorded",
        ge=0,
        le=LARGEST_SEED,
    )
    centered: Annotated[bool | dict[str, bool] | None, SkipValidation] = asked(
        "Whether to use the centred parametrisation, for all groups or for one GROUP, in formulas "
        "and programs that offer the choice.",
        unset="chosen from the data, or as your own program declares",
        metavar="yes|no|GROUP=yes|GROUP=no",
    )
    inits: Any = asked(
        "Initial values: a file (CmdStan JSON), or the radius around 0 within which they are "
        "drawn; in Python, also a mapping, or a list with one entry per chain.",
        unset="2",
        metavar="FILE|RADIUS",
    )
    engine: EngineName = asked(f"{'; '.join(ENGINES.values())}. {COMPILED_STAN}", "auto")


OF_SAMPLERS_ELSEWHERE = ("options", "sampler", "sampler_options", "control", "iter")
"""Arguments in which other packages, and earlier versions of pyflowers, take sampler options."""

LONGEST_NAME = 50
"""The longest name, in characters: it is also the name of a folder and appears in tables."""


def _checked_name(name: str) -> str:
    """Reject a name that cannot be shown in one line or name a folder."""
    if not name.strip():
        raise ValueError("it is empty; give a name such as growth, or leave it out")
    if len(name) > LONGEST_NAME:
        raise ValueError(
            f"it has {len(name)} characters, more than {LONGEST_NAME}; give a shorter name"
        )
    if not name.isprintable():
        raise ValueError(f"{name!a} has a character that cannot be printed; leave it out")
    if {"/", "\\"} & {*name} or not name.strip("."):
        raise ValueError(
            f"{name!r} cannot name a folder, such as runs/NAME; give a name that has no "
            "slashes and does not consist only of dots"
        )
    return name.strip()


Name = Annotated[str, Strict(), AfterValidator(_checked_name)]
"""The name of a fit."""


class Spec(Reading, Sampling):
    """The inputs of a fit: a program, data, and everything else that shapes its result.

    Parameters
    ----------
    program : str, Path or Program
        The name of a shipped program, the path of a ``.stan`` file with its declaration in the same
        folder, or a formula such as ``"flowers ~ 1 + (1 | plant)"``, or a list of formulas; see
        :meth:`pyflowers.Program.from_formula`.
    data : path, DataFrame, Table, mapping or Data, optional
        A tidy table, or the data block as CmdStan JSON or a mapping. ``example:NAME`` is a table of
        :func:`pyflowers.example`. Default: the program's example table.
    **inputs
        The other inputs. An input that is None counts as not given.

    Raises
    ------
    ConfigError
        If there is no input of a given name, or a value is out of its range.

    Examples
    --------
    The same inputs with two engines:

    >>> import pyflowers
    >>> spec = pyflowers.Spec("iid_normal", seed=1, draws=500)
    >>> pyflowers.fit(spec, engine="stanli").posterior.sizes["draw"]
    500
    >>> pyflowers.fit(spec, engine="exact").posterior.sizes["draw"]
    500
    """

    model_config = ConfigDict(**{**Record.model_config, "arbitrary_types_allowed": True})

    program: Any
    data: Any = asked(
        "File with a tidy table (CSV, TSV, JSON records, Parquet or Excel) or with the data block "
        "(CmdStan JSON); or example:NAME, a table that comes with pyflowers.",
        unset="the program's example table",
        metavar="FILE",
    )
    family: str | None = asked(
        f"Response family of a formula: {', '.join(family_names())}; a link may follow in "
        "brackets, as in bernoulli(probit).",
        unset="gaussian",
        metavar="NAME",
        strict=True,
    )
    link: str | None = asked(
        "Link of a formula's response, such as probit, cloglog, log, identity, inverse or "
        "softplus; the reference lists the links of each family.",
        unset="the usual link of the family",
        metavar="NAME",
        strict=True,
    )
    default_priors: Literal["brms"] | None = asked(
        "Use the default priors of brms, which are flat for coefficients, in a formula's program.",
        unset="proper priors on the scale of the data",
        option="--priors",
    )
    known: Annotated[dict[str, Any], SkipValidation] = asked(
        "Known covariance NAME between labels, for a term such as (1 | gr(animal, cov=NAME)) in a "
        "formula: a CSV file with the labels in its first column and its header; in Python, also a "
        "DataFrame.",
        {},
        metavar="NAME=FILE",
    )
    priors: Annotated[dict[str, float | str], SkipValidation] = asked(
        "Set a hyperparameter or, in a formula's program, a prior: 'b[x] ~ normal(0, 1)'. To list "
        "a program's hyperparameters, run pyflowers models NAME; for a formula's priors, pyflowers "
        "prior FORMULA --data FILE --list.",
        {},
        option="--prior",
        metavar="NAME=VALUE|'NAME ~ DENSITY'",
    )
    include_paths: tuple[str | Path, ...] = asked(
        "Folder to search for #include files.", (), option="--include", metavar="FOLDER"
    )
    engine: Annotated[EngineName | Engine, SkipValidation] = asked_as(  # type: ignore[assignment]
        Sampling, "engine"
    )
    cmdstan: Annotated[str | Path | None, SkipValidation] = asked(
        "CmdStan folder, or 'embedded'.",
        unset="the first found in $CMDSTAN, ~/.cmdstan and the conda environment; otherwise, the "
        "embedded one",
        metavar="PATH",
    )
    interval: float = asked(
        "Probability of the central intervals in tables and figures, such as 0.95.",
        INTERVAL,
        metavar="PROBABILITY",
        gt=0,
        lt=1,
    )
    name: Name | None = asked(
        "Name of the fit in tables, reports, figures and the default run folder.",
        unset="its formula, or the name of its program",
        metavar="NAME",
    )

    def __init__(self, program: Any, data: Any = None, **inputs: Any) -> None:
        given = {name: value for name, value in inputs.items() if value is not None}
        for name in OF_SAMPLERS_ELSEWHERE:
            if name in given:
                raise ConfigError(
                    f"{name}: each option of the sampler is a separate argument; give it by its "
                    "name, such as draws=2000"
                )
        if isinstance(given.get("link"), str):  # from here on, the family's text names the link
            given["family"] = family_text(given.get("family"), given.pop("link"))
        if "priors" in given:
            given["priors"] = named_priors(given["priors"])
        values = {"program": joined_formulas(program), "data": data, **given}
        try:
            self.__pydantic_validator__.validate_python(values, self_instance=self)
        except ValidationError as invalid:
            raise ConfigError(complaint(type(self), invalid)) from invalid

    @classmethod
    def of_call(cls, program: Any, data: Any = None, **inputs: Any) -> Spec:
        """Return the inputs that are given by the arguments of a call.

        Parameters
        ----------
        program : str, Path, Program or Spec
            The program; or a Spec, in which the other arguments replace the inputs that they name.
        data
            The data.
        **inputs
            The other inputs.

        Returns
        -------
        Spec
            The inputs.

        Raises
        ------
        ConfigError
            If there is no input of a given name, or a value is out of its range.

        Examples
        --------
        >>> import pyflowers
        >>> spec = pyflowers.Spec("iid_normal", seed=1, draws=500)
        >>> pyflowers.Spec.of_call(spec, draws=100).draws
        100
        """
        if not isinstance(program, Spec):
            return cls(program, data, **inputs)
        asked_before = {name: getattr(program, name) for name in program.model_fields_set}
        if data is not None:
            inputs["data"] = data
        return cls(**{**asked_before, **inputs})

    __eq__ = object.__eq__  # the data may be a table, whose truth value is ambiguous
    __hash__ = object.__hash__

    def refuse(self, names: Collection[str], reason: str) -> None:
        """Reject inputs that a function does not take.

        Parameters
        ----------
        names : collection of str
            The names of these inputs.
        reason : str
            The verb phrase that gives the reason, such as ``is chosen for the whole batch``.

        Raises
        ------
        ConfigError
            If one of the named inputs is given; the message ends with the reason.

        Examples
        --------
        >>> import pyflowers
        >>> spec = pyflowers.Spec("iid_normal", engine="exact")
        >>> spec.refuse(["engine"], "is chosen for the whole batch")
        Traceback (most recent call last):
            ...
        pyflowers.errors.ConfigError: engine is chosen for the whole batch; leave engine out
        """
        for name in INPUTS:
            if name in names and name in self.model_fields_set:
                raise ConfigError(f"{name} {reason}; leave {name} out")

    def options(self) -> SamplerOptions:
        """Return the sampler's options that are given, with a new seed if there is none.

        Returns
        -------
        SamplerOptions
            The options; engines reject those that they do not use.

        Examples
        --------
        >>> import pyflowers
        >>> pyflowers.Spec("iid_normal", seed=1, draws=500).options().draws
        500
        """
        given = self.model_dump(include=set(SamplerOptions.model_fields), exclude_unset=True)
        return SamplerOptions.of(**given)

    def with_table(self) -> Spec:
        """Return the inputs with their file or DataFrame read, so that it is read only once.

        Returns
        -------
        Spec
            The same inputs, with the table as data.

        Raises
        ------
        DataError
            If the file cannot be read.

        Examples
        --------
        >>> import pyflowers
        >>> spec = pyflowers.Spec("multilevel_poisson", "data/flowers.csv").with_table()
        >>> list(spec.data.cells)
        ['plant', 'month', 'flowers']
        """
        data, left = read_once(self.data, self.reading)
        done = dict.fromkeys(self.reading.keys() - left.keys())
        return self.model_copy(update={"data": data, **done})

    def open(self) -> Program:
        """Open the program, or write the program of a formula.

        Returns
        -------
        Program
            The program.

        Raises
        ------
        PyflowersError
            If there is no such program, or a formula cannot be fitted to its table.

        Examples
        --------
        >>> import pyflowers
        >>> pyflowers.Spec("flowers ~ 1 + (1 | plant)", "data/flowers.csv").open().name
        'flowers_1_1_plant'
        """
        return find_program(
            self.program,
            self.include_paths,
            data=self.data,
            family=self.family,
            centered=self.centered,
            default_priors=self.default_priors,
            known=self.known,
            priors=self.priors,
            **self.reading,
        )

    def read(self, program: Program, *, design_only: bool = False) -> Data:
        """Read the data into the data block of the program; see :meth:`pyflowers.Program.read`.

        Parameters
        ----------
        program : Program
            The program that :meth:`open` returned.
        design_only : bool
            Whether to ignore the observed values.

        Returns
        -------
        Data
            The data block without priors, and its labels.

        Raises
        ------
        DataError
            If the data cannot be used; the message states where the problem is.
        ConfigError
            If the declaration does not match the program or the table, or an option does not apply.

        Examples
        --------
        >>> import pyflowers
        >>> spec = pyflowers.Spec("multilevel_poisson")
        >>> spec.read(spec.open()).num_obs
        12
        """
        return program.read(self.data, design_only=design_only, **self.reading)

    def find_engine(self, program: Program | None = None) -> Engine:
        """Return the engine that samples.

        Parameters
        ----------
        program : Program, optional
            The program; ``auto`` samples it with CmdStan if its executable is ready.

        Returns
        -------
        Engine
            The engine.

        Raises
        ------
        PyflowersError
            If there is no such engine, or it is not available.

        Examples
        --------
        >>> import pyflowers
        >>> pyflowers.Spec("iid_normal", engine="exact").find_engine().name
        'exact'
        """
        if self.metric in ESTIMATED:  # only the interpreter has these
            program = None
        return find_engine(self.engine, self.cmdstan, program)


READING = tuple(Reading.model_fields)
SAMPLER = tuple(SamplerOptions.model_fields)
_USUAL = ("family", "priors", "seed", "chains", "warmup", "draws")
_NAMES = dict.fromkeys([*_USUAL, *Spec.model_fields])
INPUTS = tuple(name for name in _NAMES if name not in ("program", "data"))
"""The names of inputs: those for reading a table, those of the sampler, and all inputs except
program and data, with the most common ones first."""

# The docstring also lists the inputs, with the help text of each field.
_LAST = "An input that is None counts as not given.\n"
Spec.__doc__ = str(Spec.__doc__).replace(_LAST, _LAST + _help_of(INPUTS), 1)

OF_PRIOR = tuple(name for name in INPUTS if name == "seed" or name not in (*SAMPLER, "name"))
OF_SBC = tuple(name for name in INPUTS if name != "interval")
"""The inputs of :func:`pyflowers.prior` and of :func:`pyflowers.sbc`."""
