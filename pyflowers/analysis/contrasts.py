"""Contrasts and probabilities of derived quantities, with their Monte Carlo standard errors.

An expression is evaluated in every draw, so that its draws are draws of its posterior: of a number
the median and an interval, of a condition its probability, the mean of an indicator.

The grammar of expressions, such as ``mu_plant[3] - mu_plant[rose]``, is a small part of Python's:
numbers, quantities and their elements, ``+ - * / **``, comparisons, ``and``, ``or``, ``not``, and
the functions of :data:`FUNCTIONS`. Nothing else is evaluated: no attributes, no other names, no
calls of anything else. An element is named as in the summary, by its labels, or by its position
from 1 if no label has that name.
"""

from __future__ import annotations

import ast
import keyword
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers import convergence
from pyflowers.display import Line, Shown, heading, in_file, interval_quantiles
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit, checked_fits
from pyflowers.fits.posterior import element_names, flat, labels_of, name_in, own_dims

if TYPE_CHECKING:
    import xarray as xr


MOST_CHARACTERS = 2000
MOST_DEPTH = 50

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Derived:
    """The draws of an expression.

    Attributes
    ----------
    text : str
        The expression as it was given.
    values : array, shape (chain, draw, …)
        Its draws; of a condition, whether it holds.
    labels : tuple of tuple of str
        The labels along each of its own dimensions.
    """

    text: str
    values: Array
    labels: tuple[tuple[str, ...], ...] = ()

    @property
    def is_condition(self) -> bool:
        """Whether it is true or false in each draw."""
        return self.values.dtype.kind == "b"

    @property
    def quantity(self) -> xr.DataArray:
        """Its draws with the names of their elements, the labels in brackets."""
        import xarray as xr

        dims = tuple(f"dim_{i}" for i in range(len(self.labels)))
        labels = dict(zip(dims, map(list, self.labels), strict=True))
        return xr.DataArray(self.values, labels, ("chain", "draw", *dims), self.text)


def rank(values: Array) -> Array:
    """Return the rank of each element within its draw: 1 is the largest; ties go by position.

    Parameters
    ----------
    values : array, shape (chain, draw, element)
    """
    order = np.argsort(-values, axis=-1, kind="stable")
    ranks = np.empty(values.shape, dtype=np.int32)
    places = np.broadcast_to(np.arange(1, values.shape[-1] + 1, dtype=np.int32), values.shape)
    np.put_along_axis(ranks, order, places, axis=-1)
    return ranks


def _of_all(function: Callable[..., Any]) -> Callable[[Array], Array]:
    """Return a function of all elements of a draw."""
    return lambda values: np.asarray(function(values.reshape(*values.shape[:2], -1), axis=-1))


FUNCTIONS: Mapping[str, Callable[[Array], Array]] = {
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rank": rank,
    "mean": _of_all(np.mean),
    "sum": _of_all(np.sum),
    "min": _of_all(np.min),
    "max": _of_all(np.max),
    "sd": _of_all(partial(np.std, ddof=1)),
    "var": _of_all(partial(np.var, ddof=1)),
}
"""What may be called; ``mean`` to ``var`` are taken over the elements of a vector in each draw."""

_CLOSING = {"mean", "sum", "min", "max", "sd", "var"}

_BINARY: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_UNARY: Mapping[type[ast.AST], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: np.logical_not,
}


def evaluate(text: str, posterior: xr.Dataset) -> Derived:
    """Evaluate an expression in every draw.

    Parameters
    ----------
    text : str
        Such as ``mu_plant[rose] > mu_plant[1]``.
    posterior : Dataset
        The quantities that it may name.

    Raises
    ------
    ConfigError
        If it is no expression of this grammar, or names what the posterior does not have.
    """
    if len(text) > MOST_CHARACTERS:
        raise ConfigError(f"expression: it has more than {MOST_CHARACTERS} characters; shorten it")
    found: dict[str, _Value] = {}
    plain = _named_elements(text, posterior, found)
    try:
        tree = ast.parse(plain.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = getattr(error, "msg", None) or "it cannot be read"
        raise ConfigError(
            f"expression {text!r}: {reason}; see pyflowers contrast --help"
        ) from error
    with np.errstate(all="ignore"):  # what is not a number is refused below
        value = _Evaluation(text, posterior, found).value(tree.body, 0)
    if not isinstance(value.values, np.ndarray) or value.values.ndim < 2:
        raise ConfigError(
            f"expression {text!r}: it names no quantity; name one, such as "
            f"{next(iter(posterior), 'mu')}"
        )
    if value.values.dtype.kind == "f" and not np.isfinite(value.values).all():
        bad = int((~np.isfinite(value.values)).sum())
        raise ConfigError(
            f"expression {text!r}: it is not a finite number in {bad} of {value.values.size} "
            "values; restrict it to values for which it is defined"
        )
    return Derived(text, value.values, value.labels)


@dataclass(frozen=True, eq=False)
class _Value:
    """A number, or draws with the labels of their elements."""

    values: Any
    labels: tuple[tuple[str, ...], ...] = ()


def _named_elements(text: str, posterior: xr.Dataset, found: dict[str, _Value]) -> str:
    """Replace what Python cannot read by names: labels of any text, quantities like ``lambda``."""
    vectors = [str(name) for name, quantity in posterior.items() if own_dims(quantity)]
    names = "|".join(map(re.escape, sorted(vectors, key=len, reverse=True)))
    start = re.compile(rf"(?<![\w.])({names})\s*\[")
    pieces, at = [], 0
    while names and (match := start.search(text, at)):
        quantity = posterior[match[1]]
        position, end = _element(text, match.end(), quantity)
        placeholder = f"_element_{len(found)}"
        found[placeholder] = _Value(np.asarray(flat(quantity)[:, :, position]))
        pieces += [text[at : match.start()], placeholder]
        at = end
    text = "".join([*pieces, text[at:]])
    # A quantity may have the name of a word of Python; no name of Stan begins with _.
    for name in set(map(str, posterior)) & set(keyword.kwlist) - {"and", "or", "not"}:
        found[f"_{name}"] = _Value(posterior[name].values, labels_of(posterior[name]))
        text = re.sub(rf"(?<![\w.]){name}(?!\w)", f"_{name}", text)
    return text


def _element(text: str, begin: int, quantity: xr.DataArray) -> tuple[int, int]:
    """Return the position of the element whose label begins at `begin`, and where it ends."""
    rest, name, elements = text[begin:], str(quantity.name), element_names(quantity)
    longest = -1, 0
    for i, element in enumerate(elements):
        label = element[len(name) + 1 :]  # with its closing bracket
        for written in (label, f'"{label[:-1]}"]', f"'{label[:-1]}']"):
            if rest.startswith(written) and len(written) > longest[1]:
                longest = i, len(written)
    if longest[0] >= 0:
        return longest[0], begin + longest[1]
    inside, bracket, _ = rest.partition("]")
    if not bracket:
        raise ConfigError(f"expression {text!r}: the bracket after {name} is not closed")
    shape = quantity.values.shape[2:]
    places = [part.strip() for part in inside.split(",")]
    # Where labels are numbers, a number that is none of them is a mistake and no position.
    numbered = all(element[len(name) + 1 : -1].isdecimal() for element in elements)
    inner = (p.isdecimal() and 1 <= int(p) <= size for p, size in zip(places, shape, strict=False))
    if numbered or len(places) != len(shape) or not all(inner):
        many = " × ".join(map(str, shape))
        raise ConfigError(
            f"expression {text!r}: {name} has no element [{inside}]; name a label, such "
            f"as {elements[0]}{'' if numbered else f', or a position among {many}'}"
        )
    index = tuple(int(place) - 1 for place in places)
    return int(np.ravel_multi_index(index, shape)), begin + len(inside) + 1


class _Evaluation:
    """One walk over the tree of an expression."""

    def __init__(self, text: str, posterior: xr.Dataset, found: Mapping[str, _Value]) -> None:
        self.text = text
        self.posterior = posterior
        self.found = found

    def value(self, node: ast.AST, depth: int) -> _Value:
        """Return the value of a node; refuse anything outside the grammar."""
        if depth > MOST_DEPTH:
            raise self.error("it is nested too deeply; write it in parts")
        deeper = depth + 1
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return _Value(float(str(node.value)))
        if isinstance(node, ast.Name):
            return self.name(node.id)
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return self.both(node.op, self.value(node.left, deeper), self.value(node.right, deeper))
        if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
            value = self.value(node.operand, deeper)
            self.must_be(isinstance(node.op, ast.Not), value)
            return _Value(_UNARY[type(node.op)](value.values), value.labels)
        if isinstance(node, ast.Compare) and all(type(op) in _BINARY for op in node.ops):
            sides = [self.value(side, deeper) for side in (node.left, *node.comparators)]
            parts = [
                self.both(op, left, right)
                for op, left, right in zip(node.ops, sides, sides[1:], strict=False)
            ]
            return self.joined(np.logical_and, parts)
        if isinstance(node, ast.BoolOp):
            how = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            parts = [self.value(part, deeper) for part in node.values]
            self.must_be(True, *parts)
            return self.joined(how, parts)
        if isinstance(node, ast.Call):
            return self.call(node, deeper)
        raise self.error(
            f"{ast.unparse(node)!r} is not allowed; use numbers, quantities, + - * / **, "
            f"comparisons, and, or, not, and {', '.join(FUNCTIONS)}"
        )

    def name(self, name: str) -> _Value:
        """Return a quantity as a whole, or an element found before."""
        if name in self.found:
            return self.found[name]
        own = name_in(self.posterior, name)
        if own not in self.posterior.data_vars:
            known = ", ".join(map(str, self.posterior)) or "nothing"
            raise self.error(f"the posterior has no {name!r}; it has {known}")
        quantity = self.posterior[own]
        return _Value(quantity.values, labels_of(quantity))

    def both(self, op: ast.AST, left: _Value, right: _Value) -> _Value:
        """Combine two values draw by draw, and element by element where both have elements."""
        self.must_be(False, left, right)
        first, second, labels = self.aligned(left, right)
        if isinstance(op, ast.Pow):
            first, second = np.float64(first), np.float64(second)
        try:
            return _Value(_BINARY[type(op)](first, second), labels)
        except (ZeroDivisionError, OverflowError) as error:
            raise self.error(f"{error}; restrict it to values for which it is defined") from error

    def joined(self, how: Callable[[Any, Any], Any], parts: list[_Value]) -> _Value:
        """Combine conditions."""
        whole = parts[0]
        for part in parts[1:]:
            first, second, labels = self.aligned(whole, part)
            whole = _Value(how(first, second), labels)
        return whole

    def aligned(self, left: _Value, right: _Value) -> tuple[Any, Any, tuple[tuple[str, ...], ...]]:
        """Give one number a draw the shape of the other's elements."""
        if left.labels and right.labels:
            if left.labels != right.labels:
                sizes = [" × ".join(str(len(each)) for each in v.labels) for v in (left, right)]
                raise self.error(
                    f"it combines {sizes[0]} elements with {sizes[1]} others; select single "
                    "elements"
                )
            return left.values, right.values, left.labels
        first, second = (
            each.values.reshape(*each.values.shape, *(1,) * len(other.labels))
            if isinstance(each.values, np.ndarray) and not each.labels
            else each.values
            for each, other in ((left, right), (right, left))
        )
        return first, second, left.labels or right.labels

    def call(self, node: ast.Call, depth: int) -> _Value:
        """Apply one of the functions."""
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in FUNCTIONS:
            raise self.error(
                f"{ast.unparse(node.func)!r} is not a function of expressions; choose one of "
                f"{', '.join(FUNCTIONS)}"
            )
        if len(node.args) != 1 or node.keywords:
            raise self.error(f"{name} takes one argument")
        value = self.value(node.args[0], depth)
        if (name in _CLOSING and not value.labels) or (name == "rank" and len(value.labels) != 1):
            raise self.error(f"{name} takes a vector, such as one value for each group")
        if name not in _CLOSING:
            self.must_be(False, value)
        labels = () if name in _CLOSING else value.labels
        return _Value(FUNCTIONS[name](value.values), labels)

    def must_be(self, condition: bool, *values: _Value) -> None:
        """Refuse a number where a condition is meant, and a condition where numbers are."""
        for value in values:
            if (getattr(value.values, "dtype", None) == np.bool_) != condition:
                raise self.error(
                    "and, or and not combine conditions, such as mu > 0"
                    if condition
                    else "a condition is not a number; combine conditions with and, or and not"
                )

    def error(self, reason: str) -> ConfigError:
        """Return an error that names the expression."""
        return ConfigError(f"expression {self.text!r}: {reason}")


@dataclass(frozen=True, eq=False, repr=False)
class Contrasts(Shown):
    """Contrasts and probabilities of derived quantities.

    Attributes
    ----------
    fit : Fit
        Whose posterior it is.
    derived : tuple of Derived
        The draws of each expression.
    """

    fit: Fit
    derived: tuple[Derived, ...]

    def numbers(self) -> pd.DataFrame:
        """Return median, intervals and Monte Carlo errors of each element that is a number.

        ``mcse`` is that of the median.
        """
        numbers = [each for each in self.derived if not each.is_condition]
        return _table(numbers, partial(_number, interval=self.fit.interval))

    def conditions(self) -> pd.DataFrame:
        """Return the probability of each condition, with its Monte Carlo error.

        Where a condition holds in every draw, or in none, its error cannot be estimated and is
        missing; the probability then is within about 3 divided by the number of independent draws
        of 1 or 0.
        """
        return _table([each for each in self.derived if each.is_condition], _condition)

    def contents(self) -> list[Line]:
        """Return the tables that are not empty, and the fit's verdict if it fails."""
        tables = {"numbers.csv": self.numbers(), "conditions.csv": self.conditions()}
        judged = self.fit.verdict
        return [
            heading(self.fit.name, self.fit.program.about),
            *(in_file(table, file) for file, table in tables.items() if len(table)),
            *([] if judged.passed else [judged.line]),
        ]

    def records(self) -> list[dict[str, object]]:
        """Return every row as a mapping, for JSON; what is missing is None."""
        found: list[dict[str, object]] = []
        for kind, table in (("number", self.numbers()), ("condition", self.conditions())):
            for name, row in table.iterrows():
                values = {str(k): float(v) if np.isfinite(v) else None for k, v in row.items()}
                found.append({"expression": str(name), "kind": kind, **values})
        return found


def contrast(fit: Fit, *expressions: str, interval: float | None = None) -> Contrasts:
    """Evaluate expressions of the posterior's quantities.

    Parameters
    ----------
    fit : Fit
        Whose posterior it is.
    *expressions : str
        Such as ``mu_plant[3] - mu_plant[1]``, ``mu_plant[3] > mu_plant[1]`` or
        ``rank(mu_plant)``, where rank 1 is the largest; see the head of this module.
    interval : float, optional
        Probability of the wider interval that is shown; that of the fit by default.

    Raises
    ------
    ConfigError
        If there is none, one cannot be evaluated, or the interval does not lie between 0 and 1.
    """
    if not expressions:
        raise ConfigError("contrast: there is no expression; give at least one, such as 'mu > 0'")
    fit = checked_fits([fit], "contrast")[0].with_interval(interval)
    return Contrasts(fit, tuple(evaluate(text, fit.posterior) for text in expressions))


def _table(
    derived: Sequence[Derived], columns: Callable[[NDArray[np.float64]], dict[str, Any]]
) -> pd.DataFrame:
    """Return a row for each element of each expression."""
    none = pd.DataFrame(columns(np.empty((1, 1, 0))), index=pd.Index([], name="expression"))
    rows = [
        pd.DataFrame(columns(flat(q)), index=pd.Index(element_names(q), name="expression"))
        for q in (each.quantity for each in derived)
    ]
    return pd.concat(rows) if rows else none


def _number(draws: NDArray[np.float64], interval: float) -> dict[str, Any]:
    probs = interval_quantiles(0.5, interval)
    found = convergence.statistics(draws, list(probs.values()))
    return {
        **{name: found[name] for name in probs},
        **{
            "mcse" if name == "median" else f"mcse_{name}": convergence.mcse_quantile(draws, prob)
            for name, prob in interval_quantiles(interval).items()
        },
        "ess_bulk": found["ess_bulk"],
    }


def _condition(draws: NDArray[np.float64]) -> dict[str, Any]:
    probability = draws.mean(axis=(0, 1))
    never_varies = (probability == 0) | (probability == 1)
    return {
        "probability": probability,
        "mcse": np.where(never_varies, np.nan, convergence.mcse_mean(draws)),
        "ess": np.where(never_varies, np.nan, convergence.ess_mean(draws)),
    }
