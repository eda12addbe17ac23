"""The declaration of a Stan program: how a table becomes its data, and what its quantities mean.

It is a small TOML file beside the program, ``mine.toml`` beside ``mine.stan``:

    [data]
    y     = { column = "seizures" }
    plant = { column = "patient", index = true }    # labels kept as coordinates
    x     = { columns = ["treated", "base"] }       # a matrix; the names become a coordinate
    z     = { column = "age", per = "patient" }     # one value a group, checked to be one
    N     = { size = "obs" }
    P     = { size = "patient" }
    [dims]
    alpha = ["patient"]
    [priors]                                        # data variables, changed with --prior
    tau_scale = 1.0
    [roles]                                         # only where names differ from the conventions
    y_rep = "y_sim"

What the program's text already says is not repeated: see :mod:`.inference`.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from pyflowers.records import Record, tag_of

OBS = "obs"
"""The dimension of the table's rows."""


class Column(Record):
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

    column: str
    index: bool = False
    order: Literal["appearance", "value"] = "appearance"
    per: str | None = None
    lower: float | None = None


class Columns(Record):
    """A matrix whose columns are columns of the table.

    Attributes
    ----------
    columns : tuple of str
        The columns, in their order.
    per : str or None
        Another column, for each of whose labels there is one row of the matrix.
    """

    columns: Annotated[tuple[str, ...], Field(min_length=1)]
    per: str | None = None


class Size(Record):
    """The number of rows, of a column's labels, or of a matrix's columns.

    Attributes
    ----------
    size : str
        ``obs`` for the rows, a column for its labels, or a matrix's variable for its columns.
    """

    size: str


class Value(Record):
    """A constant; a scalar may be computed from the data instead, where the program says so.

    Attributes
    ----------
    value : number or array
        What the variable is.
    """

    model_config = ConfigDict(**{**Record.model_config, "allow_inf_nan": True})
    value: Any


DataSource = Column | Columns | Size | Value
"""Where a variable of the data block comes from."""

_KINDS = (Column, Columns, Size, Value)


def _kind_of(source: Any) -> str | None:
    """Tell which kind a source is by its key, so that a mistake in it is called by its name."""
    if isinstance(source, _KINDS):
        return tag_of(type(source))
    if not isinstance(source, Mapping):
        return None
    kinds = {kind.__name__.lower(): tag_of(kind) for kind in _KINDS}
    near = (difflib.get_close_matches(str(key), kinds, n=1) for key in source)
    keys = [*(key for key in kinds if key in source), *itertools.chain.from_iterable(near)]
    return kinds[keys[0]] if keys else None


_SourceField = Annotated[
    Annotated[Column, Tag(tag_of(Column))]
    | Annotated[Columns, Tag(tag_of(Columns))]
    | Annotated[Size, Tag(tag_of(Size))]
    | Annotated[Value, Tag(tag_of(Value))],
    Discriminator(
        _kind_of,
        custom_error_type="no_source",
        custom_error_message="must be a table with the key column, columns, size or value, such as "
        '{ column = "..." }',
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
    table, data, dims, priors, parameters, roles : table
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
    priors: dict[str, Annotated[Prior, BeforeValidator(_prior)]] = Field(default_factory=dict)
    parameters: dict[str, Parameter] = Field(default_factory=dict)
    omit: tuple[str, ...] = ()
    roles: Roles = Roles()

    @model_validator(mode="after")
    def _consistent(self) -> Declaration:
        twice = sorted(set(self.data) & set(self.priors))
        if twice:
            raise ValueError(f"{twice[0]} is both data and a prior; declare it once")
        return self

    def label_order(self, column: str) -> str:
        """Return the order of a column's labels."""
        sources = (source for source in self.data.values() if isinstance(source, Column))
        by_value = any(s.column == column and s.index and s.order == "value" for s in sources)
        return "value" if by_value else "appearance"

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

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns that are read as labels, each once."""
        found: dict[str, None] = {}
        for source in self.data.values():
            if isinstance(source, Column) and source.index:
                found.setdefault(source.column)
        for source in self.data.values():
            if isinstance(source, Column | Columns) and source.per:
                found.setdefault(source.per)
        for source in self.data.values():
            if isinstance(source, Size) and source.size not in (OBS, *self.matrices):
                found.setdefault(source.size)
        for column in (self.table.group, self.table.time):
            if column:
                found.setdefault(column)
        return tuple(found)

    @property
    def matrices(self) -> dict[str, Columns]:
        """The matrices of columns by their variable."""
        return {n: s for n, s in self.data.items() if isinstance(s, Columns)}

    def with_labels(self, names: Mapping[str, str]) -> Declaration:
        """Return the declaration with other names of the columns that are read as labels."""
        meant = {OBS, *self.matrices}

        def new(name: str | None) -> Any:
            return name if name in meant else names.get(name or "", name)

        def of(source: DataSource) -> DataSource:
            if isinstance(source, Size):
                return Size(size=new(source.size))
            if not isinstance(source, Column | Columns):
                return source
            changes = {"per": names.get(source.per or "", source.per)}
            if isinstance(source, Column) and source.index:
                changes["column"] = names.get(source.column, source.column)
            return source.model_copy(update=changes)

        return self.model_copy(
            update={
                "data": {name: of(source) for name, source in self.data.items()},
                "dims": {name: tuple(map(new, dims)) for name, dims in self.dims.items()},
                "table": TableRoles(
                    group=names.get(self.table.group, self.table.group),
                    time=names.get(self.table.time, self.table.time),
                ),
            }
        )

    @property
    def number_columns(self) -> tuple[str, ...]:
        """The columns that are read as numbers, each once."""
        found: dict[str, None] = {}
        for source in self.data.values():
            if isinstance(source, Column) and not source.index:
                found.setdefault(source.column)
            elif isinstance(source, Columns):
                found.update(dict.fromkeys(source.columns))
        return tuple(found)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read."""
        return tuple(dict.fromkeys((*self.number_columns, *self.label_columns)))
