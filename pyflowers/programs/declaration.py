"""The declaration of a Stan program: how a table becomes its data, and what quantities mean.

It is a small TOML file in the folder of the program, ``mine.toml`` for ``mine.stan``:

    [data]
    y     = { column = "seizures" }
    plant = { column = "patient", index = true }    # labels kept as coordinates
    x     = { columns = ["treated", "base"] }       # a matrix; the names become a coordinate
    X     = { terms = "treated * log(base)" }       # a design matrix, see pyflowers.programs.terms
    z     = { column = "age", per = "patient" }     # one value per group (checked)
    N     = { size = "obs" }
    P     = { size = "patient" }
    [dims]
    alpha = ["patient"]
    [priors]                                        # data variables, changed with --prior
    tau_scale = 1.0
    [roles]                                         # only if names differ from the conventions
    y_rep = "y_sim"

Anything that the program's text and the table's columns already state can be left out. A column
with the name of a one-dimensional variable fills that variable. If a column fills a vector, the
size of the vector is the number of rows or, with ``per``, the number of labels. The size that
bounds an index is the number of labels of the index. Where a guess could be wrong, pyflowers does
not guess; instead, an error lists the lines to add.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection, Container, Mapping, Sequence, Sized
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, Union

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from pyflowers.errors import ConfigError, DataError
from pyflowers.programs.families import find_family
from pyflowers.programs.families._response import family_of
from pyflowers.programs.source import Blocks, Declared, Source, Variable
from pyflowers.programs.terms import read_terms
from pyflowers.records import Record, tag_of
from pyflowers.text import and_more, counted, nearest

OBS = "obs"
"""The dimension of the rows of the table."""


class Readable(Protocol):
    """The rows of a table, as the sources of variables read them; see ``programs/data.py``."""

    @property
    def table(self) -> Sized:
        """The rows."""

    @property
    def names(self) -> Mapping[str, str]:
        """The user's name for each column of the declaration."""

    @property
    def labels(self) -> Mapping[str, Sized]:
        """The columns that are read as labels."""

    @property
    def coords(self) -> Mapping[str, tuple[str, ...]]:
        """The names of each variable's columns or elements."""

    def design(self, source: Terms) -> tuple[NDArray[np.float64], tuple[str, ...]]:
        """Return the design matrix of a sum of terms, and its column names."""

    def first_rows(self, source: Terms) -> NDArray[np.int64]:
        """Return the first row of each label of ``per``."""

    def positions(self, column: str, per: str | None) -> NDArray[np.int64]:
        """Return the position of the column's label in each row, or for each label of `per`."""

    def before(self, times: str | None, series: str | None) -> NDArray[np.int64]:
        """Return the position of each row's predecessor in its series; a first row gets its own."""

    def missing(self, column: str) -> NDArray[np.int64]:
        """Return the positions of the rows in which a column is missing."""

    def numbers_of_rows(self, rows: NDArray[np.int64]) -> tuple[str, ...]:
        """Return the row numbers, in the table, of the rows at these positions."""

    def outcomes(self, column: str, outcomes: Sequence[str]) -> NDArray[np.int64]:
        """Return 1 for each row with the second of two labels, and 0 for the first."""

    def coded(self, column: str, codes: Mapping[str, float]) -> NDArray[Any]:
        """Return the number that stands for the word in each row."""

    def numbers(
        self,
        column: str,
        name: str,
        variable: Variable,
        per: str | None,
        lower: float | None = None,
        instead: str = "",
    ) -> NDArray[Any]:
        """Return the numbers of a column in each row, or for each label of `per`."""


class Kind(Record):
    """The source of a variable of the data block.

    Each kind of source is a subclass of this class and is listed in `KINDS`. The key that selects
    it in the file is the name of the subclass in lower case.
    """

    fills: ClassVar[tuple[int | None, str]] = (None, "")
    """The number of dimensions of the variable that it fills (None: any), and the shape's name."""

    is_named: ClassVar[bool] = False
    """Whether its columns or elements have names, which become a coordinate."""

    @property
    def labels(self) -> dict[str, str]:
        """The columns that are read as labels, by the key that names them."""
        return {}

    @property
    def index_of(self) -> str | None:
        """The column whose label positions it gives, if any; `per` and `size` give none."""
        return next((of for key, of in self.labels.items() if key not in ("per", "size")), None)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that are read as numbers; each fills one column of the variable."""
        return ()

    @property
    def cells(self) -> tuple[str, ...]:
        """The columns that are transformed; a run keeps their cells in addition to the results."""
        return ()

    def names(self, rows: Readable) -> tuple[str, ...]:
        """Return the names of columns or elements, which become a coordinate."""
        return ()

    def sizes_of(self, name: str, variable: Variable) -> dict[str | None, str]:
        """Map each size of the variable, and the bound of an index, to what it counts."""
        return {}

    def per_row(self) -> Kind:
        """Return the source with a value for each row, instead of for each label of ``per``."""
        if "per" in self.labels:
            return self.model_copy(update={"per": None})
        return self

    def read(self, name: str, variable: Variable, rows: Readable) -> Any:
        """Return the values of the variable `name` from a table."""
        raise NotImplementedError


def _labels_per(per: str | None) -> dict[str, str]:
    """Return the column that ``per`` names, if any, in the form of :attr:`Kind.labels`."""
    if per:
        return {"per": per}
    return {}


class Column(Kind):
    """A data variable that is filled by a column.

    Attributes
    ----------
    column : str
        The column.
    index : bool
        Whether the program needs the 1-based position of each row's label.
    order : str or tuple of str
        Order of the labels: ``appearance`` in the rows, ``value`` for numbers and dates, or a list
        of all labels. A column that is found by its name, without a declaration, has the order
        ``value``.
    per : str or None
        Another column; there is one value for each of its labels.
    lower : float or None
        The smallest allowed value. Default: the lower bound in the program's text.
    outcomes : tuple of str
        The two labels that stand for 0 and 1. Default: the cells are numbers.
    codes : mapping of str to float
        The numbers that stand for the words in a column of words; True and False are 1 and 0.
    shared : tuple of str
        The columns, this one included, that share one set of labels: the labels of all of them.
        Default: the column has labels of its own.
    """

    fills: ClassVar = (1, "a vector")
    column: str
    index: bool = False
    order: Literal["appearance", "value"] | tuple[str, ...] = "appearance"
    per: str | None = None
    lower: float | None = None
    outcomes: Annotated[tuple[str, ...], Field(min_length=2, max_length=2)] = ()
    codes: dict[str, float] = Field(default_factory=dict)
    shared: tuple[str, ...] = ()

    @property
    def labels(self) -> dict[str, str]:
        """See :class:`Kind`."""
        if self.index:
            return {"column": self.column, **_labels_per(self.per)}
        return _labels_per(self.per)

    @property
    def numbers(self) -> tuple[str, ...]:
        """See :class:`Kind`."""
        if self.index or self.codes:
            return ()
        return (self.column,)

    @property
    def cells(self) -> tuple[str, ...]:
        """See :class:`Kind`."""
        if self.codes:
            return (self.column,)
        return ()

    def sizes_of(self, name: str, variable: Variable) -> dict[str | None, str]:
        """See :class:`Kind`."""
        sizes: dict[str | None, str] = {variable.sizes[0]: self.per or OBS}
        if self.index:
            return {variable.upper: self.column, **sizes}
        return sizes

    def read(self, name: str, variable: Variable, rows: Readable) -> Any:
        """See :class:`Kind`."""
        if self.index:
            return rows.positions(self.column, self.per) + 1
        if self.outcomes:
            return rows.outcomes(self.column, self.outcomes)
        if self.codes:
            return rows.coded(self.column, self.codes)
        entry = f'column = "{self.column}", index = true'
        if self.per:
            entry += f', per = "{self.per}"'
        instead = (
            f", or declare array[{variable.sizes[0]}] int {name} in the program and "
            f"{name} = {{ {entry} }} in its .toml file"
        )
        return rows.numbers(self.column, name, variable, self.per, self.lower, instead)


class Columns(Kind):
    """A matrix whose columns are columns of the table.

    Attributes
    ----------
    columns : tuple of str
        The columns, in order.
    per : str or None
        Another column; there is one row of the matrix for each of its labels.
    """

    fills: ClassVar = (2, "a matrix")
    is_named: ClassVar = True
    columns: Annotated[tuple[str, ...], Field(min_length=1)]
    per: str | None = None

    @property
    def labels(self) -> dict[str, str]:
        """See :class:`Kind`."""
        return _labels_per(self.per)

    @property
    def numbers(self) -> tuple[str, ...]:
        """See :class:`Kind`."""
        return self.columns

    def names(self, rows: Readable) -> tuple[str, ...]:
        """See :class:`Kind`."""
        return tuple(rows.names[column] for column in self.columns)

    def sizes_of(self, name: str, variable: Variable) -> dict[str | None, str]:
        """See :class:`Kind`."""
        return {variable.sizes[1]: name, variable.sizes[0]: self.per or OBS}

    def read(self, name: str, variable: Variable, rows: Readable) -> Any:
        """See :class:`Kind`."""
        found = [rows.numbers(column, name, variable, self.per) for column in self.columns]
        return np.stack(found, axis=1)


class Counts(Kind):
    """The counts of categories in each row, which the model describes jointly.

    Attributes
    ----------
    counts : tuple of str
        The column of each category, in order.
    """

    fills: ClassVar = (2, "a matrix")
    counts: Annotated[tuple[str, ...], Field(min_length=2)]

    @property
    def numbers(self) -> tuple[str, ...]:
        """See :class:`Kind`."""
        return self.counts

    def sizes_of(self, name: str, variable: Variable) -> dict[str | None, str]:
        """See :class:`Kind`."""
        return {variable.sizes[0]: OBS}

    def read(self, name: str, variable: Variable, rows: Readable) -> Any:
        """See :class:`Kind`."""
        found = [rows.numbers(column, name, variable, None) for column in self.counts]
        return np.stack(found, axis=1)


class Total(Kind):
    """The sum of columns in each row, such as the number of units that are counted.

    Attributes
    ----------
    total : tuple of str
        The columns.
    """

    fills: ClassVar = (1, "a vector")
    total: Annotated[tuple[str, ...], Field(min_length=1)]

    @property
    def cells(self) -> tuple[str, ...]:
        """See :class:`Kind`."""
        return self.total

    def sizes_of(self, name: str, variable: Variable) -> dict[str | None, str]:
        """See :class:`Kind`."""
        return {variable.sizes[0]: OBS}

    def read(self, name: str, variable: Variable, rows: Readable) -> Any:
        """See :class:`Kind`."""
        return sum(rows.numbers(column, name, variable, None) for column in self.total)


class Terms(Kind):
    """The design matrix of a sum of terms; with a single column, it may fill a vector.

    Attributes
    ----------
    terms : str
        The sum, such as ``year * log(height)``, as in a formula.
    per : str or None
        Another column; there is one row of the matrix for each of its labels.
    levels : mapping of str to tuple of str
        The ordered levels of factors. Default: the sorted levels in the table.
    state : mapping
        Values that ``scale``, ``poly``, ``s`` and other functions computed from the table for which
        the terms were written, listed by function call. Default: computed from the table that is
        read.
    """

    fills: ClassVar = (None, "a matrix")
    is_named: ClassVar = True
    terms: str
    per: str | None = None
    levels: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    state: dict[str, dict[str, Any]] = Field(default_factory=dict)

    @property
    def labels(self) -> dict[str, str]:
        """See :class:`Kind`."""
        return _labels_per(self.per)

    @property
    def cells(self) -> tuple[str, ...]:
        """See :class:`Kind`."""
        found = read_terms(self.terms)
        if found.offsets:
            raise ConfigError(
                f"terms {self.terms!r}: a matrix cannot have an offset; declare a vector, such as "
                f"offset_1 = {{ terms = {found.offsets[0]!r} }}, and add it in the program"
            )
        if not found.columns:
            raise ConfigError(f"terms {self.terms!r} name no column; name one")
        return found.columns

    def names(self, rows: Readable) -> tuple[str, ...]:
        """See :class:`Kind`."""
        return rows.design(self)[1]

    def sizes_of(self, name: str, variable: Variable) -> dict[str | None, str]:
        """See :class:`Kind`."""
        sizes: dict[str | None, str] = {variable.sizes[0]: self.per or OBS}
        if variable.ndim == 2:
            return {variable.sizes[1]: name, **sizes}
        return sizes

    def read(self, name: str, variable: Variable, rows: Readable) -> Any:
        """See :class:`Kind`."""
        matrix, names = rows.design(self)
        if self.per:
            matrix = matrix[rows.first_rows(self)]
        if variable.ndim == 2:
            return matrix
        if len(names) != 1:
            raise DataError(
                f"{name} is a vector, but {self.terms!r} gives the columns {', '.join(names)}; "
                "declare a matrix, or keep only one term"
            )
        return matrix[:, 0]


class Size(Kind):
    """The number of rows, of labels of a column, or of columns of a matrix.

    Attributes
    ----------
    size : str
        ``obs`` for the rows, a column for its labels, or a matrix variable for its columns.
    """

    fills: ClassVar = (0, "a scalar")
    size: str

    @property
    def labels(self) -> dict[str, str]:
        """See :class:`Kind`; ``obs`` and the name of a matrix may take the place of a column."""
        return {"size": self.size}

    def read(self, name: str, variable: Variable, rows: Readable) -> Any:
        """See :class:`Kind`."""
        counted: dict[str, Sized] = {OBS: rows.table, **rows.labels, **rows.coords}
        return len(counted[self.size])


class Previous(Kind):
    """The row before each row in its series, counted from 1; the first row has its own position.

    Attributes
    ----------
    previous : str
        The column of the times by which the rows of a series are ordered: numbers, dates or
        numbered labels. ``obs`` stands for the order of the rows.
    within : str or None
        The column of the series. Default: all rows are one series.
    """

    fills: ClassVar = (1, "a vector")
    previous: str
    within: str | None = None

    @property
    def labels(self) -> dict[str, str]:
        """See :class:`Kind`; ``obs`` may take the place of a column."""
        found = {} if self.previous == OBS else {"previous": self.previous}
        return found | ({"within": self.within} if self.within else {})

    @property
    def index_of(self) -> None:
        """See :class:`Kind`."""
        return None

    def sizes_of(self, name: str, variable: Variable) -> dict[str | None, str]:
        """See :class:`Kind`."""
        return {variable.sizes[0]: OBS}

    def read(self, name: str, variable: Variable, rows: Readable) -> Any:
        """See :class:`Kind`."""
        return rows.before(None if self.previous == OBS else self.previous, self.within) + 1


class Missing(Kind):
    """The positions, counted from 1, of the rows in which a column of numbers is missing.

    In these rows, other numbers from the column stand in for the values that the program imputes.
    The results of a fit for single rows cover only the other rows.

    Attributes
    ----------
    missing : str
        The column.
    """

    fills: ClassVar = (1, "a vector")
    is_named: ClassVar = True
    missing: str

    @property
    def cells(self) -> tuple[str, ...]:
        """See :class:`Kind`."""
        return (self.missing,)

    def names(self, rows: Readable) -> tuple[str, ...]:
        """Return the row numbers, in the table, of the rows in which the column is missing."""
        return rows.numbers_of_rows(rows.missing(self.missing))

    def sizes_of(self, name: str, variable: Variable) -> dict[str | None, str]:
        """See :class:`Kind`."""
        return {variable.sizes[0]: name, variable.upper: OBS}

    def read(self, name: str, variable: Variable, rows: Readable) -> Any:
        """See :class:`Kind`."""
        return rows.missing(self.missing) + 1


class Value(Kind):
    """A constant; a program's ``Capabilities.choices`` may compute another value from the data.

    Attributes
    ----------
    value : number or array
        Value of the variable. If the variable is a vector, a single number is repeated for each
        row.
    """

    model_config = ConfigDict(**{**Record.model_config, "allow_inf_nan": True})
    value: Any

    def read(self, name: str, variable: Variable, rows: Readable) -> Any:
        """See :class:`Kind`."""
        is_for_rows = variable.ndim == 1 and np.ndim(self.value) == 0
        if is_for_rows:
            return np.full(len(rows.table), self.value)
        return self.value


KINDS: tuple[type[Kind], ...] = (
    Column,
    Columns,
    Counts,
    Total,
    Terms,
    Size,
    Previous,
    Missing,
    Value,
)
"""The possible entries under ``[data]``."""


def _kind_of(source: Any) -> str | None:
    """Return the tag of the kind that a source's keys select; errors then refer only to it."""
    if isinstance(source, KINDS):
        return tag_of(type(source))
    if not isinstance(source, Mapping):
        return None
    kinds = {kind.__name__.lower(): tag_of(kind) for kind in KINDS}
    near = (nearest(str(key), kinds) for key in source)
    keys = [*(key for key in kinds if key in source), *filter(None, near)]
    if keys:
        return kinds[keys[0]]
    return None


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
    """A hyperparameter: a data variable with a default that ``--prior`` can change.

    Attributes
    ----------
    value : float
        The default.
    lower : float or None
        The smallest allowed value.
    above : float or None
        A limit that the value must exceed.
    description : str
        Its meaning.
    """

    value: float
    lower: float | None = None
    above: float | None = None
    description: str = ""


def _prior(value: Any) -> Any:
    if isinstance(value, dict):
        return value
    return {"value": value}


class Parameter(Record):
    """A description of a quantity for the reader.

    Attributes
    ----------
    description : str
        Its meaning.
    unit : str
        Its unit; ``{value}``, ``{group}`` and ``{time}`` stand for the table's columns, and
        ``per {time}`` is left out if the table has no times.
    prior : str
        Its prior in Stan's notation, such as ``normal(mu_mean, mu_sd)``. This text only
        describes the prior; the program sets it. If a program without ``prior_only`` or ``lprior``
        declares every prior, draws from the prior and its density are computed from these texts.
    log_axis : bool or None
        Whether figures show it on a logarithmic axis. Default: only if its tail requires one.
    """

    description: str = ""
    unit: str = ""
    prior: str = ""
    log_axis: bool | None = None


class Roles(Record):
    """The variables that have a role in pyflowers.

    Attributes
    ----------
    observed : str
        The data variable that the model describes.
    log_lik : str
        The log likelihood of each observation.
    y_rep : str
        Replicated data, one value for each observation.
    y_new : str
        New observations of the groups in the data.
    lprior : str
        The log density of the prior.
    y_new_group : str
        New observations of a group that is not in the data.
    prior_only : str
        An ``int`` of the data block that, if 1, removes the likelihood from the model.
    held_out : str
        An ``int`` for each observation: 1 if the likelihood leaves the observation out.
    group_mean : str
        The mean of each group, for figures of the groups.
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
    """The columns that group the rows and, if the table has times, order them within a group.

    Attributes
    ----------
    group : str
        The column with the labels of the groups.
    time : str
        The column that orders the rows of a group.
    omit_missing : tuple of str
        Columns; a row in which one of them is missing is left out, with a note.
    """

    group: str = ""
    time: str = ""
    omit_missing: tuple[str, ...] = ()


class PredictionRule(Record):
    """The rule for predicting rows of a table, in terms of the program's variables.

    Attributes
    ----------
    family : str
        The family of the response, one of the families of formulas.
    linear_predictor : str
        The linear predictor of a row, such as ``alpha + X * b + r[plant]``. A variable of the data
        block stands for its value in the row.
    effects : mapping of str to str
        The population from which effects are drawn for a label that is not in the data:
        ``r = "normal(0, tau)"``, ``"student_t(nu, 0, tau)"``, ``"multi_normal(sd, cor)"`` for the
        correlated columns of a matrix, or ``"scaled_inv_chi_square(nu, scale)"`` for variances.
        With an index, as in ``"normal(0, tau[by])"``, the population depends on the level of a
        label.
    where : mapping of str to str
        Definitions of names in the expressions that are not quantities of the program, such as
        ``sigma = "sqrt(sigma2)"``, or of parameters of the family, such as
        ``sigma = "sigma[sex]"``.
    censored : str
        A data variable that is not 0 in rows whose ``log_lik`` is not a density, such as censored
        rows; in these rows, the rule is not compared with ``log_lik``.
    response : tuple of str
        The data variables of a response's terms, such as ``cens`` and ``y2``, with the same names
        as in the programs of formulas.
    """

    family: str
    linear_predictor: str
    effects: dict[str, str] = Field(default_factory=dict)
    where: dict[str, str] = Field(default_factory=dict)
    censored: str = ""
    response: tuple[str, ...] = ()


class FormulaText(Record):
    """The formula from which a program was written.

    Attributes
    ----------
    text : str
        The formula.
    family : str
        Its family.
    priors : str
        ``brms`` if its priors are the defaults of brms; otherwise empty.
    sha256 : str
        Digest of the program and its ``[prediction]`` as they were written. If either has been
        edited since, the edited text is used, without the NumPy code that comes with a formula.
    given : mapping of str to str
        The priors that the user gave, by the name of the parameter: ``sd`` or ``b[age]``.
    stated : mapping of str to str
        The same priors, by the names of elements in the program, such as ``b[1]``.
    """

    text: str
    family: str
    priors: Literal["", "brms"] = ""
    sha256: str
    given: dict[str, str] = Field(default_factory=dict)
    stated: dict[str, str] = Field(default_factory=dict)


class Declaration(Record):
    """The contents of a declaration; each part has a default.

    Attributes
    ----------
    title : str
        A short description of the program, for tables and reports.
    equation : str
        Its model as an equation.
    story : str
        Its model in one sentence.
    source : str
        The publication that describes the model.
    example : str
        A table in the program's folder; it is read if no data are given.
    omit : tuple of str
        Quantities of the program that are neither summarised nor kept.
    coords : mapping of str to tuple of str
        Labels of the dimensions that get no labels from a column or a matrix of the data.
    priors : mapping of str to Prior
        Data variables with a default. A single element of a vector is named by its label:
        ``[priors."b_scale[age]"]``.
    table, data, dims, parameters, roles, prediction, formula : table
        See the section with this name.
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
        for dim, labels in self.coords.items():
            if len(set(labels)) < len(labels):
                raise ValueError(f"coords.{dim} has the same label twice; give different labels")
        return self

    def of_edited(self) -> Declaration:
        """Return the declaration of a formula's program that was edited.

        The equation, story and title describe the formula, not the edited program, so they are
        removed or changed unless they were also edited.
        """
        formula = self.formula
        assert formula is not None
        rule = self.prediction
        family = find_family(formula.family)
        if rule is not None:
            family = family_of(rule.family, rule.response)
        text = f"{formula.text} ({family.title})"
        written = family.equation.format(y=formula.text.partition("~")[0].partition("|")[0].strip())
        changes = dict[str, str]()
        if self.equation.startswith(f"{written}, "):
            changes["equation"] = ""
        if f"is modelled by the {family.name} family" in self.story:
            changes["story"] = f"The program was written for the formula {text}, and then edited."
        if self.title == text:
            changes["title"] = f"{text}, edited"
        return self.model_copy(update=changes)

    def label_order(self, column: str) -> str | tuple[str, ...]:
        """Return how labels are ordered: the name of an order, or the labels in order."""
        orders = [getattr(s, "order", "") for s in self.data.values() if s.index_of == column]
        listed = next((order for order in orders if isinstance(order, tuple)), None)
        if listed is not None:
            return listed
        if "value" in orders:
            return "value"
        return "appearance"

    @property
    def shared(self) -> list[tuple[str, ...]]:
        """The sets of columns that have the same labels."""
        found = (getattr(source, "shared", ()) for source in self.data.values())
        return list(dict.fromkeys(its for its in found if its))

    @property
    def in_role(self) -> dict[str, str]:
        """The columns of groups, times and observed values; empty if a role has no column."""
        value = getattr(self.data.get(self.roles.observed), "column", "")
        return {"group": self.table.group, "time": self.table.time, "value": value}

    @property
    def imputed(self) -> dict[str, str]:
        """The columns with imputed values, by the variable that holds their positions."""
        return {n: its.missing for n, its in self.data.items() if isinstance(its, Missing)}

    @property
    def named(self) -> tuple[str, ...]:
        """The variables whose columns or elements have names."""
        return tuple(name for name, source in self.data.items() if source.is_named)

    @property
    def levels(self) -> dict[str, tuple[str, ...]]:
        """The ordered levels of each factor whose levels are declared, by column."""
        found = (source.levels for source in self.data.values() if isinstance(source, Terms))
        return {column: levels for each in found for column, levels in each.items()}

    @cached_property
    def prior_elements(self) -> dict[str, list[str]]:
        """The names of each variable's priors: its own name or, in order, its elements' names."""
        found: dict[str, list[str]] = {}
        for name in self.priors:
            found.setdefault(variable_of(name), []).append(name)
        return found

    def has_priors_of_elements(self, parameter: str) -> bool:
        """Return whether elements of a parameter may have different priors."""
        has_own = any(name.startswith(f"{parameter}[") for name in self.parameters)
        return has_own or bool(self.prior_elements)

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns that are read as labels, without repetition."""
        named = [pair for source in self.data.values() for pair in source.labels.items()]
        found = [name for key, name in named if key not in ("per", "size")]
        found += [name for key, name in named if key == "per"]
        uncounted = (OBS, *self.named)
        found += [name for key, name in named if key == "size" and name not in uncounted]
        found += [name for name in (self.table.group, self.table.time) if name]
        return tuple(dict.fromkeys(found))

    @property
    def number_columns(self) -> tuple[str, ...]:
        """The columns that are read as numbers, without repetition."""
        found = (source.numbers for source in self.data.values())
        return tuple(dict.fromkeys(itertools.chain.from_iterable(found)))

    @property
    def transformed(self) -> tuple[str, ...]:
        """The columns whose cells cannot be inferred from the data block, each listed once."""
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
        """Whether the model itself, and not only the figures, uses the times of the table."""
        return self.table.time in self.model_copy(update={"table": TableRoles()}).columns

    def for_columns(self, columns: Collection[str]) -> Declaration:
        """Return the declaration, without times if the table has none and the model needs none.

        Parameters
        ----------
        columns : collection of str
            The table's columns, by the declaration's names.
        """
        if self.table.time in columns or self.reads_time:
            return self
        without = self.table.model_copy(update={"time": ""})
        return self.model_copy(update={"table": without})

    def with_labels(self, names: Mapping[str, str]) -> Declaration:
        """Return the declaration with new names for the columns that are read as labels."""
        if not names:
            return self

        def new(name: str, key: str = "") -> str:
            is_meant = key in ("size", "dims") and name in (OBS, *self.named)
            if is_meant:
                return name
            return names.get(name, name)

        data = {}
        for name, source in self.data.items():
            update: dict[str, Any] = {k: new(label, k) for k, label in source.labels.items()}
            if isinstance(source, Column) and source.shared:
                update["shared"] = tuple(map(new, source.shared))
            data[name] = source.model_copy(update=update)
        dims = {name: tuple(new(dim, "dims") for dim in its) for name, its in self.dims.items()}
        of_roles = {"group": new(self.table.group), "time": new(self.table.time)}
        table = self.table.model_copy(update=of_roles)
        return self.model_copy(update={"data": data, "dims": dims, "table": table})

    def with_columns(self, blocks: Blocks, columns: Collection[str]) -> Declaration:
        """Return the declaration with a column for each data variable whose column is unambiguous.

        The switches ``prior_only`` and ``held_out`` are 0 if they are not declared.
        """
        data = dict(self.data)
        switches = {(self.roles.prior_only, 0), (self.roles.held_out, 1)}
        for name, variable in blocks.data.items():
            if name in data or name in self.prior_elements:
                continue
            if variable.ndim == 1 and name in columns:
                # The observed values, even ordinal ratings, are never labels. Labels are ordered
                # by value, because a program may depend on which of them are adjacent.
                is_label = name != self.roles.observed and variable.is_index(blocks.data)
                data[name] = Column(column=name)
                if is_label:
                    data[name] = Column(column=name, index=True, order="value")
            elif variable.is_int and (name, variable.ndim) in switches:
                data[name] = Value(value=0)
        return self.model_copy(update={"data": data})

    def with_sizes(self, blocks: Blocks) -> Declaration:
        """Return the declaration with the sizes that its columns imply, in the block's order."""
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
        """Give the dimensions of the draws unique names that netCDF can list.

        A column of labels becomes a dimension and may have any name. ``visit day`` becomes
        ``visit_day``, because netCDF separates names with blanks; ``chain`` becomes ``chain_``,
        because draws already have a dimension with that name.

        Returns
        -------
        declared : Declaration
            The declaration with these names.
        names : dict of str to str
            The new name of each column or dimension that was renamed.
        """
        meant = {OBS, *self.named}
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
        """Reject names that the program does not have, and dims or sources of the wrong shape.

        Raises
        ------
        ConfigError
            If there is such an entry; the message names the section and the key.
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
                if name not in known and not (
                    section == "parameters" and variable_of(name) in known
                ):
                    raise ConfigError(
                        f"{where}: [{section}] names {name}, which is not declared in the "
                        f"program's {block}; correct the name (declared there: "
                        f"{', '.join(known) or 'nothing'})"
                    )
        for name, dims in self.dims.items():
            if len(dims) != all_variables[name].ndim:
                ndim = all_variables[name].ndim
                raise ConfigError(
                    f"{where}: [dims] lists {counted(len(dims), 'name')} for {name}, "
                    f"which has {counted(ndim, 'dimension')} in the program; list one name "
                    "for each dimension"
                )
        for name, source in self.data.items():
            (fills, what), ndim = source.fills, blocks.data[name].ndim
            if fills not in (None, ndim):
                shapes = dict(kind.fills for kind in KINDS)
                raise ConfigError(
                    f"{where}: [data] {name} is "
                    f"{shapes.get(ndim, f'an array of {ndim} dimensions')} in the program, but "
                    f"this entry gives {what}; correct one of them"
                )


class Declaring(Protocol):
    """The attributes of a program that are used to read data and to predict rows."""

    @property
    def name(self) -> str:
        """The program's name."""

    @property
    def called(self) -> str:
        """The program's name in results."""

    @property
    def source(self) -> Source:
        """The program's text."""

    @property
    def declaration(self) -> Declaration:
        """The declaration."""

    @property
    def declared_in(self) -> str:
        """Origin of the declaration, for use in messages."""

    @property
    def example(self) -> Path | None:
        """The table that is read if no data are given."""


MOST_LISTED = 100
"""The largest number of variables that one message lists."""


def complete(
    declared: Declaration, blocks: Blocks, columns: Collection[str], where: str
) -> tuple[Declaration, dict[str, str]]:
    """Return the declaration with all variables of the data block and valid dimension names.

    Parameters
    ----------
    declared : Declaration
        The user's declaration.
    blocks : Blocks
        The variables that the program declares.
    columns : collection of str
        The table's columns.
    where : str
        The declaration's file, for messages.

    Returns
    -------
    declared : Declaration
        The complete declaration.
    names : dict of str to str
        The new name of each column or dimension that was renamed.

    Raises
    ------
    ConfigError
        If a variable is not declared; the message lists the lines to add.
    """
    # Dimensions are named before sizes are inferred, because a column of labels may be called obs,
    # which in sizes means the rows.
    whole, names = declared.with_columns(blocks, columns).with_plain_dims(blocks)
    whole = whole.with_sizes(blocks)
    given = {*whole.data, *declared.prior_elements}
    missing = [name for name in blocks.data if name not in given]
    if missing:
        listed = missing[:MOST_LISTED]
        lines = "\n".join(f"    {draft(blocks.data[name], blocks.data)}" for name in listed)
        lacking = f"the data variable {missing[0]} has"
        if len(missing) > 1:
            lacking = f"the data variables {and_more(missing, MOST_LISTED)} have"
        raise ConfigError(
            f"{where}: {lacking} no matching column; the columns are {', '.join(columns)}. Add to "
            f"{where}:\n    [data]\n{lines}"
        )
    return whole.model_copy(update={"dims": dims_of(whole, blocks)}), names


def dims_of(declared: Declaration, blocks: Blocks) -> dict[str, tuple[str, ...]]:
    """Return the dimensions of all non-scalar variables, as declared or inferred from sizes.

    An unknown dimension gets ArviZ's default name, such as ``alpha_dim_0``.
    """
    by_size = {n: s.labels["size"] for n, s in declared.data.items() if "size" in s.labels}
    found = {}
    for name, variable in {**blocks.data, **blocks.draws}.items():
        numbered = [f"{name}_dim_{i}" for i in range(variable.ndim)]
        names = [by_size.get(size, n) for size, n in zip(variable.sizes, numbered, strict=True)]
        if len(set(names)) < len(names):
            names = numbered
        if names:
            found[name] = tuple(names)
    return {**found, **declared.dims}


def variable_of(name: str) -> str:
    """Return the variable in the name of an element, such as ``b`` in ``b[age]``."""
    return name.partition("[")[0]


def free_name(name: str, taken: Container[str]) -> str:
    """Return a name with as many underscores at the end as are needed to make it unique."""
    while name in taken:
        name += "_"
    return name


def draft(variable: Variable, block: Declared) -> str:
    """Return the most likely declaration line for a variable of this shape."""
    if variable.ndim == 0:
        if variable.is_int and any(v.upper == variable.name for v in block.values()):
            line = '{ size = "..." }  # the column whose labels it counts'
        elif variable.is_int and any(variable.name in v.sizes for v in block.values()):
            line = '{ size = "obs" }  # or the column whose labels it counts, or a value'
        else:
            line = "{ value = 1 }  # or under [priors], to be changed by --prior"
    elif variable.ndim == 1:
        line = '{ column = "..." }'
        if variable.is_index(block):
            line = '{ column = "...", index = true }'
    elif variable.ndim == 2:
        line = '{ columns = ["...", "..."] }'
    else:
        line = "{ value = [...] }"
    return f"{variable.name} = {line}"


TO_FILL_IN = "# to be filled in"
"""The mark on lines of a drafted declaration that only the user can complete."""


def drafted(program: str, columns: Collection[str], blocks: Blocks) -> str:
    """Return a draft of a declaration for a program and a table, with parts to be filled in.

    Parameters
    ----------
    program : str
        The file name of the program.
    columns : collection of str
        The table's columns.
    blocks : Blocks
        The variables that the program declares.
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
        if len(observable) == 1:
            choice = f'"{observable[0]}"'
        lines += ["", "[roles]  # the data variable that the model describes"]
        lines += [f"observed = {choice}"]
    return "\n".join(lines) + "\n"
