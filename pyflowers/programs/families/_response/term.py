"""Records that describe a term of a response, and the arguments of the records' functions.

A :class:`ResponseTerm` is a kind of term, such as ``cens``. With the arguments of a formula's call,
``cens(c)``, it returns a :class:`Written`: what the term adds to the program. The program then
lists the term's variables in ``response`` of ``[prediction]``. They identify the term's
:class:`OnRows`, which describes what the term does to rows in NumPy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from pyflowers.data import Table
from pyflowers.programs.families import Family, FloatArray, Tails, Values

Given = Mapping[str, str]
"""The arguments of a term by their names: columns, numbers and options."""

Columns = Mapping[str, FloatArray]
"""The values of the variables of terms in each row."""

NAME = r"(?:[^\W\d][\w.]*|`[^`]+`)"
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"

WITH_SIGMA = ("gaussian", "student")
"""The families whose sigma can be changed by standard errors and precisions."""


def is_number(text: str) -> bool:
    """Return whether an argument is a number, and not a column."""
    return re.fullmatch(_NUMBER, text) is not None


# In NumPy


def with_known(family: Family, name: str) -> Family:
    """Return a family in which one parameter is data."""
    others = tuple(each for each in family.auxiliary if each.name != name)
    return replace(family, auxiliary=others, known=name)


@dataclass(frozen=True)
class Rows:
    """Rows of a response, and their distribution before the terms change it.

    Attributes
    ----------
    family : Family
        The family.
    y : array, shape (…, N)
        The responses.
    eta : array, shape (…, N)
        The linear predictor.
    values : mapping
        The family's parameters, and the values of the terms.
    response : sequence of str
        The variables of the terms.
    ends : tuple of str
        The variables of the bounds within which responses are observed; empty if there are none.
    """

    family: Family
    y: Any
    eta: FloatArray
    values: Values
    response: Sequence[str] = ()
    ends: tuple[str, str] = ("", "")

    def tails(self, y: Any) -> Tails:
        """Return the logs of the probabilities of values up to y, and above y."""
        assert self.family.tails is not None
        return self.family.tails(np.asarray(y, dtype=np.float64), self.eta, self.values)

    @property
    def below(self) -> Tails | None:
        """The logs of the probabilities of values below the lower bound, and not below it."""
        if not self.ends[0]:
            return None
        lower = np.asarray(self.values[self.ends[0]], dtype=np.float64)
        if self.family.is_discrete:
            lower = lower - 1
        return self.tails(lower)

    @property
    def upto(self) -> Tails | None:
        """The logs of the probabilities of values up to the upper bound, and above it."""
        if not self.ends[1]:
            return None
        return self.tails(self.values[self.ends[1]])


def log_between(low: Tails, high: Tails) -> FloatArray:
    """Return the log of the probability between two values, from the tails that are smaller.

    It is −∞ where these tails are 0 after rounding.
    """
    is_left = low[0] < low[1]
    large, small = np.where(is_left, high[0], low[1]), np.where(is_left, low[0], high[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        found = large + np.log(-np.expm1(np.minimum(small - large, 0.0)))
    return np.where(np.isneginf(large), -np.inf, found)


@dataclass(frozen=True)
class OnRows:
    """The effect of a term on rows, identified by its variables in the data block.

    Attributes
    ----------
    term : str
        The term, as messages name it.
    variables : tuple of str
        Its variables, of which a program may lack some.
    log_lik : callable, optional
        Function of the log likelihood so far and the :class:`Rows` that returns the log likelihood
        with the term. Default: the likelihood of a row is its density.
    needs_tails : bool
        Whether `log_lik` needs the family's distribution function.
    ends : tuple of str
        The variables of the bounds within which responses are observed.
    drawn : callable, optional
        Function of :class:`Rows`, whose responses were drawn without the term, and a generator
        that returns responses with the term.
    recorded : callable, optional
        Function of replicates, the values of the rows, a generator and the values of all rows that
        returns the replicates as they would have been recorded.
    simulated : callable, optional
        Function of responses and the data block that returns the variables of simulated data.
    parameters : mapping of str to callable
        Parameters of the family that differ between rows, each with a function of the parameter and
        the values of the rows that returns the parameter in each row.
    known : str
        A parameter of the family whose values are in the variable of the same name.
    needs_sigma : bool
        Whether the term needs one of the families in `WITH_SIGMA`.
    role : str
        The field of :class:`.LinearModel` that takes the variable; without one, the engine exact
        supports the term only if it needs tails.
    weighs : callable, optional
        Function of the term's variables that returns the factor by which the log likelihood of each
        row is multiplied. The product is not the log likelihood of a single row.
    is_of_other_data : bool
        Whether likelihoods with and without the term refer to different data.
    cut : str
        The word for responses whose residuals the term makes unknown, such as ``censored``.
    note : str
        How replicates of the response ``{y}`` are recorded.
    unjudged : str
        Why checks do not judge data whose rows are weighed.
    kinds : mapping of int to str
        What a row is called, such as right-censored, by its number in the first variable.
    """

    term: str
    variables: tuple[str, ...]
    log_lik: Callable[[FloatArray, Rows], FloatArray] | None = None
    needs_tails: bool = False
    ends: tuple[str, str] = ("", "")
    drawn: Callable[[Rows, Generator], FloatArray] | None = None
    recorded: (
        Callable[[FloatArray, Mapping[str, Any], Generator, Mapping[str, Any]], FloatArray] | None
    ) = None
    simulated: Callable[[FloatArray, Mapping[str, Any]], dict[str, Any]] | None = None
    parameters: Mapping[str, Callable[[Any, Values], Any]] = field(default_factory=dict)
    known: str = ""
    needs_sigma: bool = False
    role: str = ""
    weighs: Callable[[Mapping[str, Any]], FloatArray] | None = None
    is_of_other_data: bool = False
    cut: str = ""
    note: str = ""
    unjudged: str = ""
    kinds: Mapping[int, str] = field(default_factory=dict)


# In a formula


@dataclass(frozen=True)
class Cells:
    """The values that the checks of a term use.

    Attributes
    ----------
    family : Family
        The family.
    response : str
        The column of the response.
    y : array, shape (N,)
        Its values.
    of : mapping of str to array, shape (N,)
        The values of all terms by their variables.
    """

    family: Family
    response: str
    y: FloatArray
    of: Columns


@dataclass(frozen=True)
class RowInStan:
    """Row n in the statements of its log likelihood.

    Attributes
    ----------
    family : Family
        The family.
    density, cumulative : str
        The distribution of the row for its density and for its functions ``_lcdf`` and ``_lccdf``.
    sink : str
        The variable that is set.
    lower, upper : str
        The bounds of the row; an empty text for a bound that is missing.
    """

    family: Family
    density: str
    cumulative: str
    sink: str
    lower: str = ""
    upper: str = ""

    @property
    def own(self) -> str:
        """The log density of the response."""
        kind = "lpmf" if self.family.is_discrete else "lpdf"
        return called_at(self.density, kind, "y[n]")

    @property
    def below(self) -> str:
        """The largest value below the lower bound, or the bound; empty if there is none."""
        if self.lower and self.family.is_discrete:
            return f"{self.lower} - 1"
        return self.lower

    def between(self, low: str, high: str) -> str:
        """Return the log probability of values above `low` and up to `high`; both may be empty."""
        if not high:
            return called_at(self.cumulative, "lccdf", low)
        if not low:
            return called_at(self.cumulative, "lcdf", high)
        ends = called_at(self.cumulative, "lcdf", high), called_at(self.cumulative, "lcdf", low)
        return f"log_diff_exp({ends[0]}, {ends[1]})"


def called_at(distribution: str, kind: str, at: str) -> str:
    """Return a distribution's density or distribution function at a value, in Stan."""
    name, _, arguments = distribution.partition("(")
    return f"{name}_{kind}({at} | {arguments}"


def of_rows(family: Family, name: str, comment: str) -> str:
    """Return the declaration of a variable with a value of the response's type for each row."""
    own = "array[N] int" if family.is_discrete else "vector[N]"
    return f"{own} {name}; // {comment}"


@dataclass(frozen=True)
class Written:
    """What a term adds to a formula's program, given its arguments.

    Attributes
    ----------
    variables : tuple of str
        The variables that ``response`` of ``[prediction]`` names.
    data : callable
        Function of the family that returns the declarations of the variables.
    sources : callable
        Function of the values of the terms and the table that returns the variables' sources.
    read : callable
        Function of the table that returns the values of the variables in each row.
    wrongs : callable
        Function of :class:`Cells` that yields messages about wrong values, in which ``{name}`` is
        the value of a variable, each with the rows to which it applies.
    refusal : callable
        Function of the family that returns why the family cannot have the term, for a message that
        begins with the family's name; empty if the family can have it.
    separates_rows : bool
        Whether rows with the same covariates differ, so that their totals do not suffice.
    omits_missing : bool
        Whether rows in which the response is missing are left out.
    likelihood : callable, optional
        Function of :class:`RowInStan` and the statements so far that returns the statements with
        the term. Default: the likelihood of a row is its density.
    bounds : tuple of str
        The bounds of row n in Stan, outside which responses are not observed.
    recorded : callable, optional
        Function of the family that returns statements that turn the draw ``y_rep[n]`` into the
        value that would have been recorded.
    stands_for : mapping of str to callable
        Function of the Stan expression for a parameter of the family, in which ``{row}`` is a row,
        that returns the expression with the term.
    predicted : mapping of str to callable
        The same for expressions in the language of ``[prediction]``.
    known : str
        A parameter of the family that the term gives.
    estimated : callable, optional
        Function of the response and its terms that returns their text with this parameter
        estimated.
    remedy : str
        For messages: what gives this parameter, and how to have it estimated in addition.
    about : callable
        Function of the response that returns sentences about the meaning of the term.
    """

    variables: tuple[str, ...] = ()
    data: Callable[[Family], list[str]] = lambda family: []
    sources: Callable[[Columns, Table], dict[str, dict[str, Any]]] = lambda of, table: {}
    read: Callable[[Table], dict[str, FloatArray]] = lambda table: {}
    wrongs: Callable[[Cells], Iterator[tuple[str, Any]]] = lambda cells: iter(())
    refusal: Callable[[Family], str] = lambda family: ""
    separates_rows: bool = True
    omits_missing: bool = False
    likelihood: Callable[[RowInStan, list[str]], list[str]] | None = None
    bounds: tuple[str, str] = ("", "")
    recorded: Callable[[Family], list[str]] | None = None
    stands_for: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    predicted: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    known: str = ""
    estimated: Callable[[str], str] | None = None
    remedy: str = ""
    about: Callable[[str], list[str]] = lambda response: []


@dataclass(frozen=True)
class ResponseTerm:
    """A kind of term that follows the response and a bar.

    Attributes
    ----------
    name : str
        Its name.
    arguments : tuple of str
        Its arguments in the order in which they may be given without names.
    example : str
        How it is written, for messages.
    written : callable
        Function of the arguments, by name, that returns what the term adds to a program.
    on_rows : tuple of OnRows
        What it does to rows, which depends on its arguments.
    needs_first : bool
        Whether the first argument must be given; otherwise, at least one argument must be given.
    may_be_number : callable
        Function of a text that returns whether it is a number that may replace a column.
    options : mapping of str to callable
        The arguments that are not columns, each with a function of its text that returns its value,
        or raises a ``ValueError`` that states how to correct it.
    hints : mapping of str to str
        Arguments that other packages have, each with a remedy.
    local_names : tuple of str
        Other names in a program with the term, which no group may have.
    """

    name: str
    arguments: tuple[str, ...]
    example: str
    written: Callable[[Given], Written]
    on_rows: tuple[OnRows, ...] = ()
    needs_first: bool = True
    may_be_number: Callable[[str], bool] = lambda text: False
    options: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    hints: Mapping[str, str] = field(default_factory=dict)
    local_names: tuple[str, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables that it may have."""
        return tuple(name for its in self.on_rows for name in its.variables)

    def columns(self, given: Given) -> list[str]:
        """Return the columns that its arguments name."""
        own = [given.get(name, "") for name in self.arguments if name not in self.options]
        return [each for each in own if each and not is_number(each)]
