"""The declaration of a Stan program: how a table becomes its data, and what its quantities mean.

It is a small TOML file beside the program, ``mine.toml`` beside ``mine.stan``:

    [data]
    y     = { column = "seizures" }
    plant = { column = "patient", index = true }    # labels kept as coordinates
    x     = { columns = ["treated", "base"] }       # a matrix; the names become a coordinate
    X     = { terms = "treated * log(base)" }       # a design matrix, see pyflowers.programs.terms
    z     = { column = "age", per = "patient" }     # one value a group, checked to be one
    N     = { size = "obs" }
    P     = { size = "patient" }
    [dims]
    alpha = ["patient"]
    [priors]                                        # data variables, changed with --prior
    tau_scale = 1.0
    [roles]                                         # only where names differ from the conventions
    y_rep = "y_sim"

What the program's text and the table's columns already say is not repeated. A column of a
variable's name is that variable. The size of a vector that a column fills is the number of rows,
and the size that indexes are bounded by is the number of labels. Nothing is guessed that could be
wrong: the error prints the lines to add.
"""

from __future__ import annotations

import difflib
import itertools
import json
import re
from collections.abc import Collection, Container, Mapping, Sized
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union

import numpy as np
from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from pyflowers.errors import ConfigError, DataError
from pyflowers.programs.source import Blocks, Declared, Variable
from pyflowers.records import Record, tag_of

if TYPE_CHECKING:
    from pyflowers.programs.data import Rows

OBS = "obs"
"""The dimension of the table's rows."""


class Kind(Record):
    """Where a variable of the data block comes from.

    A kind is a class of this and a place in `KINDS`; nothing else needs to know which kinds there
    are. Its key in the file is the name of the class.
    """

    fills: ClassVar[tuple[int | None, str]] = (None, "")
    """How many dimensions it gives, None for any, and what that is called."""

    is_matrix: ClassVar[bool] = False
    """Whether its columns have names, which are a coordinate."""

    @property
    def labels(self) -> dict[str, str]:
        """The columns that are read as labels, by the key that names them."""
        return {}

    @property
    def index_of(self) -> str | None:
        """The column of whose labels it gives the positions: under no key `per` or `size`."""
        return next((of for key, of in self.labels.items() if key not in ("per", "size")), None)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that are read as numbers; each is a column of what it fills."""
        return ()

    @property
    def cells(self) -> tuple[str, ...]:
        """The columns that it transforms, whose cells a run keeps beside what they give."""
        return ()

    def names(self, rows: Rows) -> tuple[str, ...]:
        """Return the coordinate of a matrix's columns."""
        return ()

    def sizes_of(self, name: str, variable: Variable) -> dict[str | None, str]:
        """Return what the sizes of the variable that it fills can only mean."""
        return {}

    def read(self, name: str, variable: Variable, rows: Rows) -> Any:
        """Return the values of the variable `name` from a table."""
        raise NotImplementedError


class Column(Kind):
    """A data variable that a column gives.

    Attributes
    ----------
    column : str
        The column.
    index : bool
        Whether the program wants the 1-based position of each row's label.
    order : str
        Of the labels: ``appearance`` in the rows, or ``value`` for numbers and dates.
    per : str or None
        Another column, for each of whose labels there is one value.
    lower : float or None
        The smallest value allowed; that of the program's text by default.
    """

    fills: ClassVar = (1, "a vector")
    column: str
    index: bool = False
    order: Literal["appearance", "value"] = "appearance"
    per: str | None = None
    lower: float | None = None

    @property
    def labels(self) -> dict[str, str]:
        """See :class:`Kind`."""
        named = {"column": self.column} if self.index else {}
        return {**named, **({"per": self.per} if self.per else {})}

    @property
    def numbers(self) -> tuple[str, ...]:
        """See :class:`Kind`."""
        return () if self.index else (self.column,)

    def sizes_of(self, name: str, variable: Variable) -> dict[str | None, str]:
        """See :class:`Kind`."""
        counted = {variable.upper: self.column} if self.index else {}
        return {**counted, variable.sizes[0]: self.per or OBS}

    def read(self, name: str, variable: Variable, rows: Rows) -> Any:
        """See :class:`Kind`."""
        if self.index:
            return rows.positions(self.column, self.per) + 1
        per = f', per = "{self.per}"' if self.per else ""
        instead = (
            f", or declare array[{variable.sizes[0]}] int {name} in the program and "
            f'{name} = {{ column = "{self.column}", index = true{per} }} in its .toml file'
        )
        return rows.numbers(self.column, name, variable, self.per, self.lower, instead)


class Columns(Kind):
    """A matrix whose columns are columns of the table.

    Attributes
    ----------
    columns : tuple of str
        The columns, in their order.
    per : str or None
        Another column, for each of whose labels there is one row of the matrix.
    """

    fills: ClassVar = (2, "a matrix")
    is_matrix: ClassVar = True
    columns: Annotated[tuple[str, ...], Field(min_length=1)]
    per: str | None = None

    @property
    def labels(self) -> dict[str, str]:
        """See :class:`Kind`."""
        return {"per": self.per} if self.per else {}

    @property
    def numbers(self) -> tuple[str, ...]:
        """See :class:`Kind`."""
        return self.columns

    def names(self, rows: Rows) -> tuple[str, ...]:
        """See :class:`Kind`."""
        return tuple(rows.names[column] for column in self.columns)

    def sizes_of(self, name: str, variable: Variable) -> dict[str | None, str]:
        """See :class:`Kind`."""
        return {variable.sizes[1]: name, variable.sizes[0]: self.per or OBS}

    def read(self, name: str, variable: Variable, rows: Rows) -> Any:
        """See :class:`Kind`."""
        found = [rows.numbers(column, name, variable, self.per) for column in self.columns]
        return np.stack(found, axis=1)


class Terms(Kind):
    """The design matrix of a sum of terms; of a single column, it may fill a vector.

    Attributes
    ----------
    terms : str
        The sum, such as ``year * log(height)``, see :mod:`pyflowers.programs.terms`.
    per : str or None
        Another column, for each of whose labels there is one row of the matrix.
    levels : mapping of str to tuple of str
        The levels of factors in their order; those of the table, sorted, by default.
    state : mapping
        What ``scale``, ``center``, ``poly`` and ``bs`` took from the table that the terms were
        written for, by the call; it is taken from the table that is read by default.
    """

    fills: ClassVar = (None, "a matrix")
    is_matrix: ClassVar = True
    terms: str
    per: str | None = None
    levels: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    state: dict[str, dict[str, Any]] = Field(default_factory=dict)

    @property
    def labels(self) -> dict[str, str]:
        """See :class:`Kind`."""
        return {"per": self.per} if self.per else {}

    @property
    def cells(self) -> tuple[str, ...]:
        """See :class:`Kind`."""
        from pyflowers.programs.terms import read_terms

        return read_terms(self.terms).columns

    def names(self, rows: Rows) -> tuple[str, ...]:
        """See :class:`Kind`."""
        return rows.design(self)[1]

    def sizes_of(self, name: str, variable: Variable) -> dict[str | None, str]:
        """See :class:`Kind`."""
        sizes: dict[str | None, str] = {variable.sizes[0]: self.per or OBS}
        return {variable.sizes[1]: name, **sizes} if variable.ndim == 2 else sizes

    def read(self, name: str, variable: Variable, rows: Rows) -> Any:
        """See :class:`Kind`."""
        matrix, names = rows.design(self)
        if self.per:
            matrix = matrix[np.unique(rows.labels[self.per].codes, return_index=True)[1]]
        if variable.ndim == 2:
            return matrix
        if len(names) != 1:
            raise DataError(
                f"{name} is a vector, and {self.terms!r} gives the columns {', '.join(names)}; "
                "declare a matrix, or leave one term"
            )
        return matrix[:, 0]


class Size(Kind):
    """The number of rows, of a column's labels, or of a matrix's columns.

    Attributes
    ----------
    size : str
        ``obs`` for the rows, a column for its labels, or a matrix's variable for its columns.
    """

    fills: ClassVar = (0, "a scalar")
    size: str

    @property
    def labels(self) -> dict[str, str]:
        """See :class:`Kind`; the names of the rows and of matrices are among them."""
        return {"size": self.size}

    def read(self, name: str, variable: Variable, rows: Rows) -> Any:
        """See :class:`Kind`."""
        counted: dict[str, Sized] = {OBS: rows.table, **rows.labels, **rows.coords}
        return len(counted[self.size])


class Value(Kind):
    """A constant; a scalar may be computed from the data instead, where the program says so.

    Attributes
    ----------
    value : number or array
        What the variable is.
    """

    model_config = ConfigDict(**{**Record.model_config, "allow_inf_nan": True})
    value: Any

    def read(self, name: str, variable: Variable, rows: Rows) -> Any:
        """See :class:`Kind`."""
        is_for_rows = variable.ndim == 1 and np.ndim(self.value) == 0
        return np.full(len(rows.table), self.value) if is_for_rows else self.value


KINDS: tuple[type[Kind], ...] = (Column, Columns, Terms, Size, Value)
"""What an entry under ``[data]`` may be."""


def _kind_of(source: Any) -> str | None:
    """Tell which kind a source is by its key, so that a mistake in it is called by its name."""
    if isinstance(source, KINDS):
        return tag_of(type(source))
    if not isinstance(source, Mapping):
        return None
    kinds = {kind.__name__.lower(): tag_of(kind) for kind in KINDS}
    near = (difflib.get_close_matches(str(key), kinds, n=1) for key in source)
    keys = [*(key for key in kinds if key in source), *itertools.chain.from_iterable(near)]
    return kinds[keys[0]] if keys else None


_KEYS = [kind.__name__.lower() for kind in KINDS]

if TYPE_CHECKING:
    _SourceField = Kind
else:
    _SourceField = Annotated[
        Union[tuple(Annotated[kind, Tag(tag_of(kind))] for kind in KINDS)],  # noqa: UP007
        Discriminator(
            _kind_of,
            custom_error_type="no_source",
            custom_error_message=f"must be a table with the key {', '.join(_KEYS[:-1])} or "
            f'{_KEYS[-1]}, such as {{ column = "..." }}',
        ),
    ]


class Prior(Record):
    """A hyperparameter: a data variable with a default, which ``--prior`` changes.

    Attributes
    ----------
    value : float
        The default.
    lower : float or None
        The smallest value allowed.
    above : float or None
        A value that it must exceed.
    description : str
        What it means.
    """

    value: float
    lower: float | None = None
    above: float | None = None
    description: str = ""


def _prior(value: Any) -> Any:
    return value if isinstance(value, dict) else {"value": value}


class Parameter(Record):
    """What a reader should know of a quantity.

    Attributes
    ----------
    description : str
        Its meaning.
    unit : str
        Its unit; ``{value}``, ``{group}`` and ``{time}`` stand for the table's columns, and what is
        ``per {time}`` is left out without times.
    prior : str
        Its prior in Stan's words, such as ``normal(mu_mean, mu_sd)``.
    log_axis : bool or None
        Whether figures show it on a logarithmic axis; by default where its tail asks for one.
    """

    description: str = ""
    unit: str = ""
    prior: str = ""
    log_axis: bool | None = None


class Roles(Record):
    """Which variables play a part that pyflowers knows.

    Attributes
    ----------
    observed : str
        The data variable that the model describes.
    log_lik : str
        The log likelihood of each observation.
    y_rep : str
        Replicated data, one value for each observation.
    y_new : str
        New data of the groups in the data.
    lprior : str
        The log density of the prior.
    y_new_group : str
        New data of a group that is not in the data.
    prior_only : str
        An ``int`` of the data block that takes the likelihood out of the model.
    held_out : str
        An ``int`` for each observation, 1 where the likelihood leaves it out.
    group_mean : str
        The mean of each group, for the shrinkage plot.
    """

    observed: str = "y"
    log_lik: str = "log_lik"
    y_rep: str = "y_rep"
    y_new: str = "y_new"
    y_new_group: str = "y_new_group"
    lprior: str = "lprior"
    prior_only: str = "prior_only"
    held_out: str = "held_out"
    group_mean: str = ""


class TableRoles(Record):
    """Which columns group the rows, and order them within a group where the table has times.

    Attributes
    ----------
    group : str
        The column of the groups' labels.
    time : str
        The column that orders the rows of a group.
    """

    group: str = ""
    time: str = ""


class PredictionRule(Record):
    """How new rows of a table are predicted, in the program's own names.

    Attributes
    ----------
    family : str
        The response's family, one of those of formulas.
    linear_predictor : str
        That of a row, such as ``alpha + X * b + r[plant]``. A variable of the data block stands for
        its value in the row.
    effects : mapping of str to str
        The population from which a label that is not in the data is drawn:
        ``r = "normal(0, tau)"``, or ``"multi_normal(sd, cor)"`` for the correlated columns of a
        matrix.
    where : mapping of str to str
        Names of the other expressions, or parameters of the family, that are no quantity of the
        program: ``sigma = "sqrt(sigma2)"``.
    """

    family: str
    linear_predictor: str
    effects: dict[str, str] = Field(default_factory=dict)
    where: dict[str, str] = Field(default_factory=dict)


class FormulaText(Record):
    """The formula that a program was written from.

    Attributes
    ----------
    text : str
        The formula.
    family : str
        Its family.
    sha256 : str
        Digest of the program and its ``[prediction]`` as they were written; of a program that was
        edited since, only its text counts.
    """

    text: str
    family: str
    sha256: str


class Declaration(Record):
    """All that a declaration may say; each part has a default.

    Attributes
    ----------
    title : str
        The program in a few words, for tables and reports.
    equation : str
        Its model as a formula.
    story : str
        Its model in a sentence.
    source : str
        Where the model is published.
    example : str
        A table beside the program, which is read where no data are given.
    omit : tuple of str
        Quantities of the program that are neither summarised nor kept.
    coords : mapping of str to tuple of str
        Labels of dimensions that neither a column nor a matrix of the data gives.
    priors : mapping of str to Prior
        Data variables with a default. One element of a vector is named by its label:
        ``[priors."b_scale[age]"]``.
    table, data, dims, parameters, roles, prediction, formula : table
        See the section of this name.
    """

    title: str = ""
    equation: str = ""
    story: str = ""
    source: str = ""
    example: str = ""
    table: TableRoles = TableRoles()
    data: dict[str, _SourceField] = Field(default_factory=dict)
    dims: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    coords: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    priors: dict[str, Annotated[Prior, BeforeValidator(_prior)]] = Field(default_factory=dict)
    parameters: dict[str, Parameter] = Field(default_factory=dict)
    omit: tuple[str, ...] = ()
    roles: Roles = Roles()
    prediction: PredictionRule | None = None
    formula: FormulaText | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Declaration:
        twice = sorted(set(self.data) & self.prior_elements.keys())
        if twice:
            raise ValueError(f"{twice[0]} is both data and a prior; declare it once")
        return self

    def label_order(self, column: str) -> str:
        """Return the order of a column's labels."""
        of_it = [s for s in self.data.values() if s.index_of == column]
        by_value = any(getattr(source, "order", "") == "value" for source in of_it)
        return "value" if by_value else "appearance"

    @property
    def in_role(self) -> dict[str, str]:
        """The columns that group the rows, order them and are observed; empty where it has none."""
        value = getattr(self.data.get(self.roles.observed), "column", "")
        return {"group": self.table.group, "time": self.table.time, "value": value}

    @property
    def matrices(self) -> tuple[str, ...]:
        """The variables that are matrices with named columns."""
        return tuple(name for name, source in self.data.items() if source.is_matrix)

    @cached_property
    def prior_elements(self) -> dict[str, list[str]]:
        """The priors of each variable: itself, or its elements in their order."""
        found: dict[str, list[str]] = {}
        for name in self.priors:
            found.setdefault(variable_of(name), []).append(name)
        return found

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns that are read as labels, each once."""
        named = [pair for source in self.data.values() for pair in source.labels.items()]
        found = [name for key, name in named if key not in ("per", "size")]
        found += [name for key, name in named if key == "per"]
        uncounted = (OBS, *self.matrices)
        found += [name for key, name in named if key == "size" and name not in uncounted]
        found += [name for name in (self.table.group, self.table.time) if name]
        return tuple(dict.fromkeys(found))

    @property
    def number_columns(self) -> tuple[str, ...]:
        """The columns that are read as numbers, each once."""
        found = (source.numbers for source in self.data.values())
        return tuple(dict.fromkeys(itertools.chain.from_iterable(found)))

    @property
    def transformed(self) -> tuple[str, ...]:
        """The columns whose cells cannot be told from the data block, each once."""
        known = {*self.number_columns, *self.label_columns}
        cells = itertools.chain.from_iterable(source.cells for source in self.data.values())
        return tuple(dict.fromkeys(name for name in cells if name not in known))

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read."""
        read = (*self.number_columns, *self.label_columns, *self.transformed)
        return tuple(dict.fromkeys(read))

    @property
    def reads_time(self) -> bool:
        """Whether the model itself uses the table's times, and not the figures alone."""
        return self.table.time in self.model_copy(update={"table": TableRoles()}).columns

    def for_columns(self, columns: Collection[str]) -> Declaration:
        """Return it for a table: without times where the table has none and the model needs none.

        Parameters
        ----------
        columns : collection of str
            The table's columns, by the declaration's names.
        """
        if self.table.time in columns or self.reads_time:
            return self
        return self.model_copy(update={"table": TableRoles(group=self.table.group)})

    def with_labels(self, names: Mapping[str, str]) -> Declaration:
        """Return the declaration with other names of the columns that are read as labels."""

        def new(name: str, key: str = "") -> str:
            is_meant = key in ("size", "dims") and name in (OBS, *self.matrices)
            return name if is_meant else names.get(name, name)

        data = {}
        for name, source in self.data.items():
            labels = {key: new(label, key) for key, label in source.labels.items()}
            data[name] = source.model_copy(update=labels)
        dims = {name: tuple(new(dim, "dims") for dim in its) for name, its in self.dims.items()}
        table = TableRoles(group=new(self.table.group), time=new(self.table.time))
        return self.model_copy(update={"data": data, "dims": dims, "table": table})

    def with_columns(self, blocks: Blocks, columns: Collection[str]) -> Declaration:
        """Return the declaration with the columns of data variables that are unambiguous."""
        data = dict(self.data)
        switches = {(self.roles.prior_only, 0), (self.roles.held_out, 1)}
        for name, variable in blocks.data.items():
            if name in data or name in self.prior_elements:
                continue
            if variable.ndim == 1 and name in columns:
                # What is observed is what it is, an ordinal rating also, and no label. Labels are
                # in order of value, as a program may take neighbours by their positions.
                is_label = name != self.roles.observed and variable.is_index(blocks.data)
                order: Literal["value", "appearance"] = "value" if is_label else "appearance"
                data[name] = Column(column=name, index=is_label, order=order)
            elif variable.is_int and (name, variable.ndim) in switches:
                data[name] = Value(value=0)
        return self.model_copy(update={"data": data})

    def with_sizes(self, blocks: Blocks) -> Declaration:
        """Return the declaration with the sizes that its columns give, in the block's order."""
        data = dict(self.data)
        sizes: dict[str | None, str] = {}
        for name, source in data.items():
            sizes = {**source.sizes_of(name, blocks.data[name]), **sizes}
        for name, variable in blocks.data.items():
            is_open = name not in data and name not in self.prior_elements
            if name in sizes and is_open and variable.is_int and not variable.ndim:
                data[name] = Size(size=sizes[name])
        return self.model_copy(update={"data": {n: data[n] for n in blocks.data if n in data}})

    def with_plain_dims(self, blocks: Blocks) -> tuple[Declaration, dict[str, str]]:
        """Give dimensions of the draws names that nothing else has and that netCDF can list.

        A column of labels is a dimension, and may be called anything: ``visit day`` becomes
        ``visit_day``, as netCDF separates names by blanks, and ``chain`` becomes ``chain_``.

        Returns
        -------
        declared : Declaration
            With these names.
        names : dict of str to str
            The new name of each column or dimension that has one.
        """
        meant = {OBS, *self.matrices}
        used = {"chain", "draw", "y", self.roles.observed, *meant, *blocks.draws}
        others = [dim for dims in self.dims.values() for dim in dims if dim not in meant]
        taken = {*used, *self.columns, *others}
        names: dict[str, str] = {}
        for name in dict.fromkeys((*self.label_columns, *others)):
            plain = re.sub(r"[\s/\0]|^\.+$", "_", name)
            if plain != name or name in used:
                names[name] = free_name(plain, taken)
                taken.add(names[name])
        return self.with_labels(names), names

    def check(self, blocks: Blocks, where: str) -> None:
        """Refuse names that the program does not have, and sources that cannot fill a shape.

        Raises
        ------
        ConfigError
            Naming the section and the key.
        """
        draws, all_variables = blocks.draws, {**blocks.data, **blocks.draws}
        for section, names, known, block in (
            ("data", self.data, blocks.data, "data block"),
            ("priors", self.prior_elements, blocks.data, "data block"),
            ("dims", self.dims, all_variables, "blocks"),
            ("parameters", self.parameters, draws, "parameters and generated quantities"),
            ("omit", self.omit, draws, "parameters and generated quantities"),
        ):
            for name in names:
                if name not in known:
                    raise ConfigError(
                        f"{where}: [{section}] names {name}, which the program does not declare in "
                        f"its {block}: {', '.join(known) or 'nothing'}"
                    )
        for name, dims in self.dims.items():
            if len(dims) != all_variables[name].ndim:
                raise ConfigError(
                    f"{where}: [dims] gives {name} {len(dims)} dimensions and the program "
                    f"{all_variables[name].ndim}; name one for each"
                )
        for name, source in self.data.items():
            (fills, what), ndim = source.fills, blocks.data[name].ndim
            if fills not in (None, ndim):
                shapes = dict(kind.fills for kind in KINDS)
                raise ConfigError(
                    f"{where}: [data] {name} is "
                    f"{shapes.get(ndim, f'an array of {ndim} dimensions')} in the program, and "
                    f"this entry gives {what}; correct one of them"
                )


def complete(
    declared: Declaration, blocks: Blocks, columns: Collection[str], where: str
) -> tuple[Declaration, dict[str, str]]:
    """Return the declaration with every variable of the data block in it, and plain dimensions.

    Parameters
    ----------
    declared : Declaration
        What the user wrote.
    blocks : Blocks
        What the program declares.
    columns : collection of str
        The table's columns.
    where : str
        The declaration's file, for messages.

    Returns
    -------
    declared : Declaration
        The whole declaration.
    names : dict of str to str
        The new name of each column or dimension that has one.

    Raises
    ------
    ConfigError
        Naming what is needed and not declared.
    """
    # Labels may be a column obs, which sizes use for the rows: dimensions are named before them.
    whole, names = declared.with_columns(blocks, columns).with_plain_dims(blocks)
    whole = whole.with_sizes(blocks)
    given = {*whole.data, *declared.prior_elements}
    missing = [name for name in blocks.data if name not in given]
    if missing:
        lines = "\n".join(f"    {draft(blocks.data[name], blocks.data)}" for name in missing)
        raise ConfigError(
            f"{where}: the data {'variables' if len(missing) > 1 else 'variable'} "
            f"{', '.join(missing)} cannot be told from the table, whose columns are "
            f"{', '.join(columns)}. Add to {where}:\n    [data]\n{lines}"
        )
    return whole.model_copy(update={"dims": dims_of(whole, blocks)}), names


def dims_of(declared: Declaration, blocks: Blocks) -> dict[str, tuple[str, ...]]:
    """Return the dimensions of everything that has some, as declared or by its sizes.

    A dimension of which nothing is known is called as ArviZ calls it, ``alpha_dim_0``.
    """
    by_size = {n: s.labels["size"] for n, s in declared.data.items() if "size" in s.labels}
    found = {}
    for name, variable in {**blocks.data, **blocks.draws}.items():
        numbered = [f"{name}_dim_{i}" for i in range(variable.ndim)]
        names = [by_size.get(size, n) for size, n in zip(variable.sizes, numbered, strict=True)]
        if names:
            found[name] = tuple(names if len(set(names)) == len(names) else numbered)
    return {**found, **declared.dims}


def variable_of(name: str) -> str:
    """Return the variable of an element's name, ``b`` of ``b[age]``."""
    return name.partition("[")[0]


def free_name(name: str, taken: Container[str]) -> str:
    """Return a name with as many underscores at its end as make it differ from those taken."""
    while name in taken:
        name += "_"
    return name


def draft(variable: Variable, block: Declared) -> str:
    """Return the line of a declaration that a variable of this shape most likely needs."""
    if variable.ndim == 0:
        if variable.is_int and any(v.upper == variable.name for v in block.values()):
            line = '{ size = "..." }  # the column whose labels it counts'
        elif variable.is_int and any(variable.name in v.sizes for v in block.values()):
            line = '{ size = "obs" }  # or the column whose labels it counts, or a value'
        else:
            line = "{ value = 1 }  # or under [priors], to be changed by --prior"
    elif variable.ndim == 1:
        index = ", index = true" if variable.is_index(block) else ""
        line = f'{{ column = "..."{index} }}'
    else:
        line = '{ columns = ["...", "..."] }' if variable.ndim == 2 else "{ value = [...] }"
    return f"{variable.name} = {line}"


TO_FILL_IN = "# to be filled in"
"""Marks the lines of a drafted declaration that only the user can complete."""


def drafted(program: str, columns: Collection[str], blocks: Blocks) -> str:
    """Return a declaration for a program and a table: what is known, and what to fill in.

    Parameters
    ----------
    program : str
        The name of the program's file.
    columns : collection of str
        The table's columns.
    blocks : Blocks
        What the program declares.
    """
    known = Declaration().with_columns(blocks, columns).with_sizes(blocks).data
    lines = [
        f"# How a table becomes the data of {program}. The columns of the table:",
        f"# {', '.join(' '.join(column.split()) for column in columns)}",
        *('title = ""', 'story = ""', "", "[data]"),
    ]
    priors, observable = [], []
    for name, variable in blocks.data.items():
        if name in known:
            keys = known[name].model_dump(exclude_defaults=True, exclude={"order"}).items()
            entry = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in keys)
            lines.append(f"{name} = {{ {', '.join(entry)} }}")
        elif not variable.ndim and not variable.is_int:
            priors.append(f"{name} = 1.0  {TO_FILL_IN}: a default")
        else:
            lines.append(f"{draft(variable, blocks.data)}  {TO_FILL_IN}")
        is_constant = isinstance(known.get(name), Value)
        if variable.ndim and not is_constant and not variable.is_index(blocks.data):
            observable.append(name)
    if priors:
        lines += ["", "[priors]  # scalars of the data block, changed with --prior", *priors]
    if Roles().observed not in blocks.data:
        choice = f'"..."  {TO_FILL_IN}: {", ".join(observable)}'
        choice = f'"{observable[0]}"' if len(observable) == 1 else choice
        lines += ["", "[roles]  # the data variable that the model describes"]
        lines += [f"observed = {choice}"]
    return "\n".join(lines) + "\n"
