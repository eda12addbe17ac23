"""Contrasts and probabilities of derived quantities, with their Monte Carlo standard errors.

An expression is evaluated for every draw, so its values are draws from its posterior. A number is
summarised by its median and an interval, and a condition by its probability, which is the mean of
its indicator.

The grammar of expressions, such as ``mu_plant[3] - mu_plant[rose]``, is a small part of Python's:
numbers, quantities and their elements, ``+ - * / **``, comparisons, ``and``, ``or``, ``not``, and
the functions of :data:`FUNCTIONS`. Nothing else is evaluated: no attributes, other names or other
calls. An element is named by its labels, as in the summary. Unless all labels are numbers, it can
also be named by its position, counted from 1; a label takes precedence over a position.

If the program declares how it predicts and no quantity is named ``mu``, then ``mu`` is the expected
response averaged over the fit's rows, and ``mu[subject 308]`` is its average over the rows where
the column ``subject`` is ``308``. Several conditions are separated by commas.

Such a fit also has the following quantities, unless the posterior has a quantity with the same
name:

``effect[x]``, ``effect[f, b - a]``
    The average effects of a column that :func:`pyflowers.effects` shows, or one of them; if an
    effect varies between groups, the effect in the population.
``mean[f]``, ``mean[f = b, x = 2]``
    The marginal mean: the expected response averaged over the fit's rows, all of which are set to
    these values.
``prediction[x = 2, f = b]``
    The expected response of :func:`pyflowers.predict` for a grid with these values.

Values are written as in a grid; ``mean[f]`` and ``prediction[x = 0:10:5]`` are vectors. If a
quantity has several dimensions, a label of one of them selects all elements with this label:
``r_school[Intercept]`` stands for the intercepts of all schools.
"""

from __future__ import annotations

import ast
import keyword
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers import convergence
from pyflowers.analysis.average_effects import BOTH, average_at, effects
from pyflowers.analysis.grids import grid_of
from pyflowers.analysis.pooled import as_chains, of_each_table, pooled_columns
from pyflowers.analysis.predictions import (
    RowPredictions,
    in_blocks,
    predict,
    predictor_of,
    row_sets,
)
from pyflowers.analysis.summaries import joint_columns, number_columns
from pyflowers.data.columns import plain_text
from pyflowers.display import Line, Result, in_file, percent
from pyflowers.errors import ConfigError, DataError
from pyflowers.fits.fit import Fit, checked_fits
from pyflowers.fits.imputed import PooledFit
from pyflowers.fits.posterior import element_names, flat, labels_of, name_in, own_dims
from pyflowers.programs.prediction import Predictor
from pyflowers.records import plain
from pyflowers.text import in_words, shortened

if TYPE_CHECKING:
    import xarray as xr


MOST_CHARACTERS = 2000
MOST_DEPTH = 50

Array = NDArray[Any]


def rank(values: Array) -> Array:
    """Return each element's rank within its draw; 1 is the largest, and position breaks ties.

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
    """Return a function that is applied to all elements of each draw together."""
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
"""The functions that expressions can use; those from ``mean`` to ``var`` combine all elements."""

_CLOSING = {"mean", "sum", "min", "max", "sd", "var"}

_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
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
    ast.And: np.logical_and,
    ast.Or: np.logical_or,
    ast.Not: np.logical_not,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


EXPECTED = "mu"
"""The name of the expected response."""

_RESULTS = ("effect", "mean", "prediction")
"""The names of quantities that are effects, marginal means and predictions."""


def evaluate(text: str, posterior: xr.Dataset, fit: Fit | None = None) -> xr.DataArray:
    """Evaluate an expression for every draw from the posterior.

    Parameters
    ----------
    text : str
        The expression, such as ``mu_plant[rose] > mu_plant[1]``.
    posterior : Dataset
        The quantities that the expression may name.
    fit : Fit, optional
        The fit whose expected response is ``mu``.

    Returns
    -------
    DataArray, shape (chain, draw, …)
        The draws of the expression, named `text`, with the labels of their elements. For a
        condition, whether it holds in each draw. The attribute ``null`` is the value that means
        no effect: 1 for a ratio, which is ``exp(...)`` or a quotient above 0 in every draw, and
        otherwise 0.

    Raises
    ------
    ConfigError
        If the text is not an expression of this grammar, names an unknown quantity, or has a value
        that is not finite.
    """
    import xarray as xr

    if len(text) > MOST_CHARACTERS:
        raise ConfigError(f"expression has more than {MOST_CHARACTERS} characters; shorten it")
    expression = _Expression(text, posterior, fit)
    plain = expression.with_names_of_python()
    try:
        tree = ast.parse(plain.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = getattr(error, "msg", None) or "it cannot be read"
        raise expression.error(f"{reason}; see pyflowers contrast --help") from error
    with np.errstate(all="ignore"):  # values that are not finite are rejected below
        value = expression.value(tree.body, 0)
    if not isinstance(value, xr.DataArray):
        raise expression.error(
            f"it names no quantity; name one, such as {next(iter(posterior), 'mu')}"
        )
    bad = int((~np.isfinite(value.values)).sum())
    if bad:
        raise expression.error(
            f"the result is not a finite number in {bad} of {value.size} values; rewrite the "
            "expression so that it is defined in every draw"
        )
    called = ""
    if isinstance(tree.body, ast.Call):
        called = ast.unparse(tree.body.func)
    is_quotient = isinstance(tree.body, ast.BinOp) and isinstance(tree.body.op, ast.Div)
    is_ratio = called == "exp" or (is_quotient and bool((value > 0).all()))
    return value.rename(text).assign_attrs(is_rank=called == "rank", null=int(is_ratio))


def _array(values: Array, labels: Sequence[Sequence[str]] = ()) -> xr.DataArray:
    """Return draws with the labels of their elements, and with new names for the dimensions."""
    import xarray as xr

    own = {f"dim_{i}": list(each) for i, each in enumerate(labels)}
    return xr.DataArray(values, own, ("chain", "draw", *own))


def _labels(value: Any) -> tuple[tuple[str, ...], ...]:
    if isinstance(value, int | float):
        return ()
    return labels_of(value)


class _Expression:
    """An expression, whose parts evaluate to numbers, or to draws of numbers or conditions."""

    def __init__(self, text: str, posterior: xr.Dataset, fit: Fit | None = None) -> None:
        self.text = text
        self.posterior = posterior
        # If the posterior has a quantity mu, the name means that quantity.
        self.of_rows = fit if fit is not None and _predicts(fit) else None
        self.fit = None if EXPECTED in posterior.data_vars else self.of_rows
        self.found: dict[str, xr.DataArray] = {}
        self.written: dict[str, str] = {}

    def with_names_of_python(self) -> str:
        """Replace names that Python cannot parse: arbitrary labels and names like ``lambda``."""
        text = self.text
        vectors = [str(name) for name, each in self.posterior.items() if own_dims(each)]
        names = "|".join(map(re.escape, sorted(vectors, key=len, reverse=True)))
        start = re.compile(rf"(?<![\w.])({names})\s*\[")
        pieces, at = [], 0
        while names and (match := start.search(text, at)):
            quantity = self.posterior[match[1]]
            chosen, end = self.selected(match.end(), quantity)
            placeholder = f"_element_{len(self.found)}"
            self.found[placeholder] = chosen
            self.written[placeholder] = text[match.start() : end]
            pieces += [text[at : match.start()], placeholder]
            at = end
        text = self.with_results("".join([*pieces, text[at:]]))
        text = self.with_expected(text)
        # A quantity may have the name of a Python keyword; no name in Stan begins with _.
        for name in set(map(str, self.posterior)) & set(keyword.kwlist) - {"and", "or", "not"}:
            self.found[f"_{name}"] = self.quantity(name)
            text = re.sub(rf"(?<![\w.]){name}(?!\w)", f"_{name}", text)
        return text

    def with_results(self, text: str) -> str:
        """Replace effects, marginal means and predictions by placeholder names."""
        if self.of_rows is None:
            return text
        names = [name for name in _RESULTS if name not in self.posterior.data_vars]
        start = re.compile(rf"(?<![\w.])({'|'.join(names) or '(?!)'})\s*\[")
        pieces, at = [], 0
        while match := start.search(text, at):
            inside, bracket, _ = text[match.end() :].partition("]")
            if not bracket:
                raise self.error(f"the bracket after {match[1]} is not closed")
            placeholder = f"_result_{len(self.found)}"
            try:
                self.found[placeholder] = _RESULT_OF[match[1]](self.of_rows, inside.strip())
            except (ConfigError, DataError) as error:
                raise self.error(f"{match[1]}[{inside.strip()}]: {error}") from None
            end = match.end() + len(inside) + 1
            self.written[placeholder] = text[match.start() : end]
            pieces += [text[at : match.start()], placeholder]
            at = end
        return "".join([*pieces, text[at:]])

    def with_expected(self, text: str) -> str:
        """Replace the averages of the expected response by placeholder names."""
        if self.fit is None:
            return text
        pieces, at = [], 0
        for match in re.finditer(rf"(?<![\w.]){EXPECTED}(?!\w)\s*(\[)?", text):
            if match.start() < at:
                continue
            conditions, end = dict[str, str](), match.end()
            if match[1]:
                conditions, end = _conditions(self, text, end)
            placeholder = f"_expected_{len(self.found)}"
            self.found[placeholder] = _array(_expected(self, conditions))
            self.written[placeholder] = text[match.start() : end]
            pieces += [text[at : match.start()], placeholder]
            at = end
        return "".join([*pieces, text[at:]])

    def selected(self, begin: int, quantity: xr.DataArray) -> tuple[xr.DataArray, int]:
        """Return the elements with the label at position `begin` of the text, and the label's end.

        If there are several dimensions, a label of one dimension selects all elements along the
        others.
        """
        name, labels = str(quantity.name), labels_of(quantity)
        whole = {element[len(name) + 1 : -1] for element in element_names(quantity)}
        inside, bracket, _ = self.text[begin:].partition("]")
        label = inside.strip()
        along = [i for i, own in enumerate(labels) if label in own]
        if len(labels) < 2 or not bracket or not along or label in whole:
            position, end = self.element(begin, quantity)
            return _array(flat(quantity)[:, :, position]), end
        if len(along) > 1:
            raise self.error(
                f"{label} is a label in several dimensions of {name}; name an element, such as "
                f"{element_names(quantity)[0]}"
            )
        values = np.take(quantity.values, labels[along[0]].index(label), axis=2 + along[0])
        others = [own for i, own in enumerate(labels) if i != along[0]]
        return _array(values, others), begin + len(inside) + 1

    def element(self, begin: int, quantity: xr.DataArray) -> tuple[int, int]:
        """Return the position of the element with the label at `begin`, and the label's end."""
        name, elements = str(quantity.name), element_names(quantity)
        labels = [element[len(name) + 1 : -1] for element in elements]
        longest, position = 0, -1
        for i, label in enumerate(labels):
            for written in (f"{label}]", f'"{label}"]', f"'{label}']"):
                if self.text.startswith(written, begin) and len(written) > longest:
                    longest, position = len(written), i
        if longest:
            return position, begin + longest
        inside, bracket, _ = self.text[begin:].partition("]")
        if not bracket:
            raise self.error(f"the bracket after {name} is not closed")
        shape = quantity.shape[2:]
        places = [part.strip() for part in inside.split(",")]
        # If labels are numbers, a number that is not a label is a mistake, not a position.
        numbered = all(map(str.isdecimal, labels))
        inner = (p.isdecimal() and 1 <= int(p) <= n for p, n in zip(places, shape, strict=False))
        if numbered or len(places) != len(shape) or not all(inner):
            many = " × ".join(map(str, shape))
            place = f", or a position among its {many} elements"
            if numbered:
                place = ""
            raise self.error(
                f"{name} has no element [{inside}]; name a label, such as {elements[0]}{place}"
            )
        index = tuple(int(place) - 1 for place in places)
        return int(np.ravel_multi_index(index, shape)), begin + len(inside) + 1

    def value(self, node: ast.AST, depth: int) -> Any:
        """Return the value of a node; reject anything outside the grammar."""
        if depth > MOST_DEPTH:
            raise self.error("it is nested too deeply; split it into several expressions")

        def values(*nodes: ast.expr) -> list[Any]:
            return [self.value(each, depth + 1) for each in nodes]

        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return float(str(number))
            case ast.Name(id=name):
                if name in self.found:
                    return self.found[name]
                return self.quantity(name)
            case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
                return self.apply(op, *values(left, right))
            case ast.UnaryOp(op, operand) if type(op) in _OPERATORS:
                return self.apply(op, *values(operand))
            case ast.Compare(left, ops, others) if all(type(op) in _OPERATORS for op in ops):
                sides = values(left, *others)
                held = [self.apply(*each) for each in zip(ops, sides, sides[1:], strict=False)]
                return reduce(partial(self.apply, ast.And()), held)
            case ast.BoolOp(op, parts):
                return reduce(partial(self.apply, op), values(*parts))
            case ast.Call():
                return self.call(node, depth + 1)
        raise self.error(
            f"{ast.unparse(node)!r} is not allowed; use numbers, quantities, + - * / **, "
            f"comparisons, the words 'and', 'or' and 'not', and the functions "
            f"{', '.join(FUNCTIONS)}"
        )

    def quantity(self, name: str) -> xr.DataArray:
        """Return all elements of a quantity."""
        own = name_in(self.posterior, name)
        if own not in self.posterior.data_vars:
            known = ", ".join(map(str, self.posterior)) or "nothing"
            raise self.error(f"the posterior has no {name!r}; it has {known}")
        return _array(self.posterior[own].values, labels_of(self.posterior[own]))

    def apply(self, op: ast.AST, *values: Any) -> Any:
        """Combine values draw by draw and, if they have elements, element by element."""
        self.must_be(isinstance(op, ast.And | ast.Or | ast.Not), *values)
        labels = [each for each in map(_labels, values) if each]
        if len(labels) > 1 and labels[0] != labels[1]:
            sizes = [" × ".join(str(len(along)) for along in each) for each in labels]
            raise self.error(
                f"it combines {sizes[0]} elements with {sizes[1]} others; select single elements"
            )
        if isinstance(op, ast.Pow):  # integers have no negative powers in NumPy
            values = tuple(np.float64(1) * each for each in values)
        try:
            return _OPERATORS[type(op)](*values)
        except (ZeroDivisionError, OverflowError) as error:
            raise self.error(f"{error}; rewrite the expression so that it is defined") from error

    def call(self, node: ast.Call, depth: int) -> Any:
        """Return the value of a call to one of :data:`FUNCTIONS`."""
        name = getattr(node.func, "id", "")
        if name not in FUNCTIONS:
            raise self.error(
                f"{ast.unparse(node.func)!r} is not a function that expressions can use; "
                f"choose one of {', '.join(FUNCTIONS)}"
            )
        if len(node.args) != 1 or node.keywords:
            raise self.error(f"{name} takes one argument")
        value = self.value(node.args[0], depth)
        labels = _labels(value)
        if name == "rank" and len(labels) > 1:
            raise self.error(self.not_one_effect(node.args[0], labels))
        if (name in _CLOSING or name == "rank") and not labels:
            raise self.error(f"{name} takes a vector, such as one value for each group")
        if name not in _CLOSING:
            self.must_be(False, value)
        if isinstance(value, int | float):
            return float(FUNCTIONS[name](np.asarray(value)))
        if name in _CLOSING:
            labels = ()
        return _array(FUNCTIONS[name](value.values), labels)

    def not_one_effect(self, ranked: ast.expr, labels: tuple[tuple[str, ...], ...]) -> str:
        """Return why values with several dimensions cannot be ranked, with a valid example."""
        sizes = " × ".join(str(len(along)) for along in labels)
        example = ""
        if isinstance(ranked, ast.Name):
            example = f", such as rank({ranked.id}[{labels[-1][0]}])"
        return f"rank takes one value for each group, not {sizes}; name one effect{example}"

    def must_be(self, condition: bool, *values: Any) -> None:
        """Reject numbers where conditions are expected, and vice versa."""
        for value in values:
            if (np.asarray(value).dtype == np.bool_) != condition:
                if condition:
                    why = "'and', 'or' and 'not' combine conditions, such as mu > 0, not numbers"
                else:
                    why = (
                        "a condition is not a number; combine conditions with 'and', 'or' or 'not'"
                    )
                raise self.error(why)

    def error(self, reason: str) -> ConfigError:
        """Return an error that names the expression, with quantities as the user wrote them."""
        for placeholder in reversed(self.written):  # _element_10 before _element_1
            reason = reason.replace(placeholder, self.written[placeholder])
        return ConfigError(f"expression {self.text!r}: {reason}")


def _predicts(fit: Fit) -> bool:
    return fit.model.predicts_rows


def _effect(fit: Fit, text: str) -> xr.DataArray:
    """Return the average effects of a column, or one of them, such as ``f, b - a``."""
    known = sorted(fit.model.covariates_and_offsets, key=len, reverse=True)
    column = next((name for name in known if re.match(rf"{re.escape(name)}\s*(,|$)", text)), text)
    change = text.removeprefix(column).strip().removeprefix(",").strip()
    found = effects(fit, column, **_options_of(fit, column, change))
    if found.groups == BOTH:
        # With groups="population", all draws are used, as in the other parts of the expression.
        found = effects(fit, column, groups="population", **_options_of(fit, column, change))
    labels = list(map(str, found.index.get_level_values("change")))
    if change and change not in labels:
        raise ConfigError(
            f"{change!r} is not one of the changes in {column}; choose one, such as {labels[0]}"
        )
    chosen = [i for i, label in enumerate(labels) if change in ("", label)]
    draws = np.asarray(found.draws())[..., chosen]
    named = [labels[i] for i in chosen]
    if "outcome" in found.index.names:  # each change has an effect on every outcome
        outcomes = [str(found.index.get_level_values("outcome")[i]) for i in chosen]
        if len(set(named)) == 1:
            named = outcomes
        else:
            named = list(map(", ".join, zip(named, outcomes, strict=True)))
    if len(chosen) == 1:
        return _array(draws[..., 0])
    return _array(draws, [named])


def _options_of(fit: Fit, column: str, change: str) -> dict[str, Any]:
    """Return the options of :func:`pyflowers.effects` for a change, such as ``+ 1 sd``."""
    if change == "slope":
        return {"slopes": True}
    if change == "+ 1 sd":
        return {"step": "sd"}
    step = re.fullmatch(r"([+-])\s*([\d.]+)", change)
    if step is not None:
        return {"step": f"{step[1]}{step[2]}"}
    levels = fit.model.levels.get(column, [])
    for base in levels:
        for level in levels:
            if change == f"{level} - {base}":
                return {"between": (base, level)}
    ends = re.fullmatch(r"(-?[\d.]+) - (-?[\d.]+)", change)
    if ends is not None and not levels:
        return {"between": (ends[2], ends[1])}
    return {}


def _mean(fit: Fit, text: str) -> xr.DataArray:
    """Return the marginal mean at each combination of values."""
    made = grid_of(fit, text)
    table, names = made.table, made.named
    values = [
        average_at(fit, {name: table.column(name)[i] for name in names}) for i in range(len(table))
    ]
    if len(values) == 1:
        return _array(values[0])
    texts = zip(*(table.plain_texts(name).tolist() for name in names), strict=True)
    return _array(np.stack(values, axis=2), [list(map(", ".join, texts))])


def _prediction(fit: Fit, text: str) -> xr.DataArray:
    """Return the expected response at each combination of values, with the rest held fixed."""
    made, found = grid_of(fit, text), predict(fit, grid=text)
    assert isinstance(found, RowPredictions)
    texts = zip(*(made.table.plain_texts(name).tolist() for name in made.named), strict=True)
    labels, draws = [list(map(", ".join, texts))], np.asarray(found.draws())
    if found.outcomes:
        labels.insert(0, list(map(str, found.outcomes)))
    if draws.shape[-1] == 1:
        return _array(draws[..., 0], labels[:-1])
    return _array(draws, labels)


_RESULT_OF: Mapping[str, Callable[[Fit, str], Any]] = {
    "effect": _effect,
    "mean": _mean,
    "prediction": _prediction,
}


def _conditions(of: _Expression, text: str, begin: int) -> tuple[dict[str, str], int]:
    """Return the labels in a bracket such as ``[f a, g b]`` by column, and the bracket's end."""
    assert of.fit is not None
    assert of.fit.data.table is not None
    table, found, at = of.fit.data.table, dict[str, str](), begin
    cells = {name: set(_texts(of.fit, name)) for name in table.cells}
    while True:
        rest = text[at:].lstrip()
        at = len(text) - len(rest)
        column = max((c for c in cells if rest.startswith(f"{c} ")), key=len, default="")
        # A label may begin with blanks, which are also accepted before any other label.
        exact = label = rest
        if column:
            exact = label = rest.removeprefix(f"{column} ")
        value = _longest(exact, cells.get(column, ()))
        if not value:
            label = exact.lstrip()
            value = _longest(label, cells.get(column, ()))
        at += len(rest) - len(label)
        length, written = len(value), re.match(r"[^\],]*", label)
        assert written is not None
        # The table may write the same number differently.
        number = plain_text(written[0].strip())
        same = [its for its in cells.get(column, ()) if not length and plain_text(its) == number]
        if len(same) == 1:
            value, length = same[0], len(written[0])
        if not length:
            if column:
                known = shortened(sorted(cells[column]), 8)
                raise of.error(
                    f"no row has {column} {label.partition(']')[0]!r}; choose one of "
                    f"{known}, or predict other rows with pyflowers predict --new"
                )
            asked = rest.partition("]")[0].strip()
            if asked in cells:
                raise of.error(
                    f"{EXPECTED}[{asked}] needs one of the labels of {asked}, such as "
                    f"{EXPECTED}[{asked} {_first(of.fit, asked)}]; for all of them at once, see "
                    f"pyflowers predict --by {asked}"
                )
            example = next((c for c in cells if of.fit.data.table.is_factor(c)), min(cells))
            raise of.error(
                f"{asked!r} names no column; write a column and one of its labels, such as "
                f"{EXPECTED}[{example} {_first(of.fit, example)}]; the columns are "
                f"{', '.join(cells)}"
            )
        if column in found:
            raise of.error(f"{column} has two labels in one bracket; give it only one")
        found[column], at = value, at + length
        closing = text[at:].lstrip()[:1]
        if not closing:
            raise of.error(f"the bracket after {EXPECTED} is not closed")
        at = text.index(closing, at) + 1
        if closing == "]":
            return found, at


def _longest(text: str, labels: Collection[str]) -> str:
    """Return the longest label at the start of a text, before a comma or bracket; empty if none."""
    known = [its for its in labels if re.match(rf"{re.escape(its)}\s*[],]", text)]
    return max(known, key=len, default="")


def _first(fit: Fit, column: str) -> str:
    """Return the label of a column in the first row."""
    return _texts(fit, column)[0]


def _texts(fit: Fit, column: str) -> list[str]:
    """Return the cells of a column as text: labels as written, and numbers such as 3.0 as 3."""
    table, of_labels = fit.data.table, set(map(fit.data.name_of, fit.data.labels))
    assert table is not None
    if column in of_labels:
        return list(map(str, table.texts(column)))
    return list(map(str, table.plain_texts(column)))


def _expected(of: _Expression, conditions: Mapping[str, str]) -> Array:
    """Return the expected response, averaged over the rows that meet all conditions."""
    assert of.fit is not None
    table = of.fit.data.table
    assert table is not None
    rows = np.ones(len(table), dtype=bool)
    for column, label in conditions.items():
        rows &= [text == label for text in _texts(of.fit, column)]
    if not rows.any():
        met = in_words([f"{column} is {label}" for column, label in conditions.items()])
        raise of.error(f"there is no row where {met}; choose labels that occur in the same row")
    chosen = table.at(np.flatnonzero(rows))
    predictor = predictor_of(of.fit, chosen)
    blocks = in_blocks(predictor, Predictor.expected)
    return np.asarray(row_sets(chosen, None, None).average(blocks))[..., 0]


@dataclass(frozen=True, eq=False, repr=False)
class Contrasts(Result):
    """Contrasts and probabilities of derived quantities.

    Attributes
    ----------
    fit : Fit
        The fit.
    derived : tuple of DataArray
        The draws of each expression, shape (chain, draw, ...), with the labels of its elements.
    joint : bool
        Whether the table of numbers has intervals that contain all of them at once.
    pooled : PooledFit or None
        The fits to completed tables whose draws are pooled; `fit` is then the first.

    See Also
    --------
    pyflowers.contrast : Evaluate expressions.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> found = pyflowers.contrast(
    ...     fit, "mu_plant[3] - mu_plant[1]", "mu_plant[3] > mu_plant[1]", "rank(mu_plant)"
    ... )
    >>> found.numbers()[["median", "5%", "95%"]].round(1)
                               median   5%  95%
    expression
    mu_plant[3] - mu_plant[1]     3.2  0.3  6.2
    >>> found.conditions()["probability"].round(1).tolist()
    [1.0]
    >>> found.ranks()["P(first)"].round(1).tolist()
    [0.0, 0.0, 1.0]
    >>> list(found.tables())
    ['numbers.csv', 'conditions.csv', 'ranks.csv']
    >>> [record["kind"] for record in found.records()]
    ['number', 'condition', 'rank', 'rank', 'rank']
    """

    holds: ClassVar[str] = "contrasts"

    fit: Fit
    derived: tuple[xr.DataArray, ...]
    joint: bool = False
    pooled: PooledFit | None = None

    def numbers(self) -> pd.DataFrame:
        """Return the median, intervals and Monte Carlo errors of each element that is a number.

        The column ``mcse`` is the error of the median; ``mcse_5%`` and ``mcse_95%`` are the errors
        of the ends of the interval. ``P(> 0)`` is the share of draws above 0. A ratio, such as
        ``exp(b[x])``, has ``P(> 1)`` instead, because it is never below 0. The columns
        ``joint low`` and ``joint high`` are the ends of intervals that contain all numbers at once.
        For completed tables, ``between`` is the share of the variance that lies between them.
        """
        found = self._table(_is_number, partial(number_columns, interval=self.fit.interval))
        numbers = [q for q in self.derived if _is_number(q)]
        if not numbers:
            return found
        each = [np.asarray(flat(q), float) for q in numbers]
        draws = np.concatenate(each, axis=2)
        nulls = np.repeat([q.attrs["null"] for q in numbers], [its.shape[2] for its in each])
        above = (draws > nulls).mean(axis=(0, 1))
        for null in np.unique(nulls):
            found[f"P(> {null})"] = np.where(nulls == null, above, np.nan)
        if self.joint:
            found = found.assign(**joint_columns(draws, self.fit.interval))
        return found

    def ranks(self) -> pd.DataFrame:
        """Return the probabilities of each element's ranks, for expressions like ``rank(...)``.

        ``P(first)`` is the probability of being the largest, ``P(top 3)`` of being one of the three
        largest (if there are more than three elements), and ``P(last)`` of being the smallest. Each
        has a Monte Carlo error. Quantiles of ranks would hide that several elements may be
        first.
        """
        return self._table(lambda each: bool(each.attrs["is_rank"]), _rank)

    def conditions(self) -> pd.DataFrame:
        """Return the probability of each condition, with its Monte Carlo error.

        If a condition holds in every draw, or in none, the error cannot be estimated and is NaN.
        With 95% confidence, the probability then differs from 1 or 0 by at most about 3 / (number
        of independent draws).
        """
        return self._table(lambda each: each.dtype == bool, _condition)

    def _table(
        self,
        is_of_kind: Callable[[xr.DataArray], bool],
        columns: Callable[[NDArray[np.float64]], dict[str, Any]],
    ) -> pd.DataFrame:
        """Return a table with a row for each element of the expressions of one kind."""
        num = 1
        if self.pooled is not None:
            num = len(self.pooled.fits)
        named = [(np.empty((num, 2, 0)), list[str]())]
        named += [(flat(q), element_names(q)) for q in self.derived if is_of_kind(q)]
        rows = list[pd.DataFrame]()
        for draws, names in named:
            found = columns(draws)
            if self.pooled is not None:
                found |= pooled_columns(draws, num, columns)
            rows.append(pd.DataFrame(found, index=pd.Index(names, name="expression")))
        return pd.concat(rows[1:] or rows)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the tables that are not empty, by file name."""
        every = {
            "numbers.csv": self.numbers(),
            "conditions.csv": self.conditions(),
            "ranks.csv": self.ranks(),
        }
        return {name: table for name, table in every.items() if len(table)}

    def contents(self) -> list[Line]:
        """Return the tables, and the fit's verdict if it is negative."""
        asked = self.pooled or self.fit
        judged = asked.verdict
        lines: list[Line] = [
            asked.heading,
            *(in_file(_shortened(table), file) for file, table in self.tables().items()),
        ]
        if self.joint:
            lines.append(
                f"joint interval: with probability {percent(self.fit.interval)}, all numbers lie "
                "between joint low and joint high"
            )
        if not judged.passed:
            lines.append(judged.line)
        return lines

    def files(self) -> dict[str, pd.DataFrame]:
        """Return the tables that are not empty, by file name."""
        return self.tables()

    def to_dict(self) -> dict[str, Any]:
        """Return the contrasts as plain values, for JSON."""
        tables = {}
        if self.pooled is not None:
            tables["tables"] = len(self.pooled.fits)
        return {**self.fit.identity(), **tables, "contrasts": self.records()}

    def records(self) -> list[dict[str, object]]:
        """Return every row as a mapping, for JSON; missing values are None."""
        return [
            {"expression": str(name), "kind": kind, **plain(row.to_dict())}
            for kind, table in (
                ("number", self.numbers()),
                ("condition", self.conditions()),
                ("rank", self.ranks()),
            )
            for name, row in table.iterrows()
        ]


def _is_number(derived: xr.DataArray) -> bool:
    """Return whether an expression is a number, not a condition or a rank."""
    return not derived.attrs["is_rank"] and derived.dtype != bool


def _of_tables(fit: PooledFit, found: list[Contrasts]) -> Contrasts:
    """Pool the values of expressions that were evaluated for each of several completed tables."""
    derived = list[Any]()
    for several in zip(*(each.derived for each in found), strict=True):
        # A quotient is compared with 1 only if it is above 0 in every draw of every table.
        null = min(its.attrs["null"] for its in several)
        derived.append(as_chains(several).assign_attrs(null=null))
    return replace(found[0], derived=tuple(derived), pooled=fit)


@of_each_table(_of_tables)
def contrast(
    fit: Fit | PooledFit, *expressions: str, joint: bool = False, interval: float | None = None
) -> Contrasts:
    """Evaluate expressions for every draw from the posterior.

    Parameters
    ----------
    fit : Fit or PooledFit
        The fit. For the fits to several completed tables, the expressions are evaluated for each
        table and its fit, and the draws are pooled.
    *expressions : str
        Numbers such as ``mu_plant[3] - mu_plant[1]``, conditions such as
        ``mu_plant[3] > mu_plant[1]``, or ``rank(mu_plant)``, where rank 1 is the largest. An
        element is named by its label or, unless all labels are numbers, by its position, counted
        from 1. Expressions may use ``+ - * / **``, comparisons, ``and``, ``or``, ``not``, and the
        functions ``abs``, ``exp``, ``log``, ``sqrt``, ``rank``, ``mean``, ``sum``, ``min``,
        ``max``, ``sd`` and ``var``.
        If the program declares how it predicts and no quantity is named ``mu``, then ``mu`` is the
        expected response averaged over the fit's rows, and ``mu[subject 308]`` is its average over
        the rows where the column ``subject`` is ``308``. Such a fit also has ``effect[x]``, the
        average effect of a column; ``mean[f = b]``, a marginal mean; and ``prediction[x = 2]``, the
        expected response at a point of a grid. A label of one dimension selects all elements along
        the others: ``rank(r_school[Intercept])`` ranks the schools' intercepts.
    joint : bool
        Whether the table of numbers also has intervals that contain all of them at once.
    interval : float, optional
        Probability of the wider interval of the tables. Default: the fit's.

    Returns
    -------
    Contrasts
        The draws of each expression, and tables of numbers, of conditions and of ranks.

    Raises
    ------
    ConfigError
        If there is no expression, an expression cannot be evaluated, or the interval does not lie
        between 0 and 1.

    See Also
    --------
    pyflowers.effects : Compare predictions for different values of a column.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> found = pyflowers.contrast(fit, "mu_plant[3] > mu_plant[2]")
    >>> found.conditions()["probability"].round(2)
    expression
    mu_plant[3] > mu_plant[2]    1.0
    Name: probability, dtype: float64
    """
    if not expressions:
        raise ConfigError("contrast: there is no expression; give at least one, such as 'mu > 0'")
    wrong = next((each for each in expressions if not isinstance(each, str)), None)
    if wrong is not None:
        raise ConfigError(
            f"contrast: an expression must be text, got {wrong!r}; pass each "
            "expression as a separate string"
        )
    fit = checked_fits([fit], "contrast")[0].with_interval(interval)
    derived = tuple(evaluate(text, fit.posterior, fit) for text in expressions)
    return Contrasts(fit, derived, joint)


def _rank(draws: NDArray[np.float64]) -> dict[str, Any]:
    num = draws.shape[-1]
    within = {"first": draws == 1, "top 3": draws <= 3, "last": draws == num}
    found = {}
    for name, holds in within.items():
        if name != "top 3" or num > 3:
            its = _condition(holds)
            found[f"P({name})"] = its["probability"]
            found[f"mcse_{name.replace(' ', '_')}"] = its["mcse"]
    return found


def _condition(draws: NDArray[np.float64]) -> dict[str, Any]:
    probability = draws.mean(axis=(0, 1))
    never_varies = (probability == 0) | (probability == 1)
    return {
        "probability": probability,
        "mcse": np.where(never_varies, np.nan, convergence.mcse_mean(draws)),
        "ess": np.where(never_varies, np.nan, convergence.ess_mean(draws)),
    }


def _shortened(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table without columns that only its file has: errors of intervals' ends, and ESS."""
    left = [name for name in table if re.match(r"mcse_[\d.]+%$|ess", str(name))]
    return table.drop(columns=left)
