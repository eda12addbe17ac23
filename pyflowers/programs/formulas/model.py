"""The model of a formula and a table: the columns that the formula uses, and its response."""

from __future__ import annotations

import itertools
import keyword
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.advice import worded
from pyflowers.data import Labels, Table
from pyflowers.data.columns import number_of, number_text
from pyflowers.data.labels import has_order, shared, times_in
from pyflowers.data.table import LARGEST_INT
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs.design import Design, evaluate, levels_of_numbers, offset
from pyflowers.programs.families import (
    Auxiliary,
    Family,
    find_family,
    names_of_predictors,
    of_predictors,
)
from pyflowers.programs.families._links import LINKS
from pyflowers.programs.families._response import reserved_names
from pyflowers.programs.families._response.term import Columns
from pyflowers.programs.formulas.grammar import (
    CurveTerm,
    Formula,
    FurtherFormula,
    GroupTerm,
    summands,
)
from pyflowers.programs.formulas.response import (
    OF_RESIDUALS,
    ResponseTerms,
    read_values,
)
from pyflowers.programs.terms import (
    OF_CURVES,
    OF_LEVELS,
    given_levels,
    hint_of,
    is_coded,
    read_terms,
    refuse_unknown,
)
from pyflowers.text import counted, in_words, shortened, suggestion

FloatArray = NDArray[np.float64]

_OF_PROGRAM = """N N_pointwise pointwise K X X_mean X_centered X_adjusted adjustment y D
    J cell kept prior_only held_out lp tries b b_adjusted b_free b_scale b_unit eta lprior log_lik
    y_rep y_num y_total y_mean y_ss squares correlation Intercept Intercept_at_means
    threshold_at_means n d k j m count factor"""
_OF_STAN = """for in while if else return break continue true false target functions data
    transformed parameters model generated quantities int real vector row_vector matrix array void
    complex complex_vector complex_row_vector complex_matrix tuple lower upper offset multiplier
    simplex unit_vector sum_to_zero_vector ordered positive_ordered corr_matrix cov_matrix
    cholesky_factor_corr cholesky_factor_cov print reject profile jacobian repeat until then var
    auto static export extern struct typedef"""
_TAGGED = ("Intercept", "b", "b_adjusted", "b_free", "X", "K", "adjustment", "offset")
_ENDS = ("", "_mean", "_centered", "_adjusted", "_at_means", "_location", "_scale", "_unit")
"""The beginnings and the ends of variable names that belong to another parameter's predictor."""

_PREFIXES = (
    "(?:offset|centered|outer|sd|cor|r|z|L|N|M|Z|by|df|known|u|weight|share"
    "|missing|imputed|filled|mu|sigma)_"
)
MOST_CATEGORIES = 50
"""The largest number of categories of a response."""

_TAKEN = {*_OF_PROGRAM.split(), *_OF_STAN.split(), *keyword.kwlist}
"""Names that a group cannot have: names of other variables in the program, and keywords of Stan and
of Python, whose parser reads ``[prediction]``."""


@dataclass(frozen=True)
class Effects:
    """The effects of a group term.

    Attributes
    ----------
    term : GroupTerm
        The term.
    name : str
        The name of the group in the program, with which the names of its variables end.
    index : str
        The name of the variable with each row's label, which terms of several linear predictors
        share.
    terms : str
        The sum of terms whose coefficients are the effects.
    effects : tuple of str
        The effects that vary.
    """

    term: GroupTerm
    name: str
    index: str
    terms: str
    effects: tuple[str, ...]

    @property
    def is_intercept(self) -> bool:
        """Whether the only effect is the intercept."""
        return self.effects == ("Intercept",)

    @property
    def pairs(self) -> tuple[str, ...]:
        """The pairs of effects that are correlated."""
        if not self.term.correlated:
            return ()
        return tuple(map(",".join, itertools.combinations(self.effects, 2)))


@dataclass(frozen=True)
class Model:
    """A formula, its family and the columns of the table that it names.

    Attributes
    ----------
    formula : Formula
        The formula.
    family : Family
        The family of the response.
    table : Table
        The rows to which the formula is fitted.
    parameter : Auxiliary or None
        The parameter of the family that the terms predict; None if they predict the response.
    indices : mapping of str to str
        The name of each group's index in the program. Default: determined from the formula.
    known : mapping of str to DataFrame
        Known covariances of labels, by the names that the formula gives them.
    imputes : str
        The name in the program of the predictor whose missing values the terms predict; empty if
        they predict the response.
    """

    formula: Formula
    family: Family
    table: Table
    parameter: Auxiliary | None = None
    indices: Mapping[str, str] | None = None
    known: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    imputes: str = ""

    def __post_init__(self) -> None:
        """Reject unsuitable columns and families."""
        formula, family = self.formula, self.family
        for terms in self.sums:
            refuse_unknown(terms, self.table.cells)
        apart = [t.columns for t in formula.groups if t.group not in self.table.cells]
        apart += [t.others for t in formula.groups]
        own = [*formula.response_columns, *itertools.chain.from_iterable(apart)]
        for name in own:
            if name not in self.table.cells:
                hint = hint_of(name, self.table.cells)
                raise DataError(f"{self.table.source}: there is no column {name!r}; {hint}")
        for name in formula.observed:
            if name in self.columns:
                raise ConfigError(
                    f"formula {formula.text!r}: {name} is both the response and a term; leave it "
                    "out of the terms"
                )
        self._refuse_columns()
        if family.has_categories and formula.imputed:
            raise ConfigError(
                f"formula {formula.text!r}: mi() needs one linear predictor, but family "
                f"{family.name} has one for each category; leave out rows with missing values, "
                + worded("with --drop-missing")
            )
        if family.has_trials != bool(formula.trials) and not family.has_columns:
            what, wants = "no trials", ""
            if family.has_trials:
                what, wants = "trials", " | trials(n)"
            raise ConfigError(
                f"formula {formula.text!r}: family {family.name} takes {what}; write "
                f"{formula.response}{wants} ~ …"
            )
        is_response = self.parameter is None
        has_ones = read_terms(formula.population).has_intercept
        if family.is_ordinal and is_response and not has_ones:
            raise ConfigError(
                f"formula {formula.text!r}: family {family.name} has thresholds instead of an "
                "intercept; leave out 0 or -1"
            )
        if formula.trials in self.columns:
            raise ConfigError(
                f"formula {formula.text!r}: {formula.trials} is both the number of trials and a "
                "term; copy the column under another name for the term"
            )
        for curve in formula.curves:
            self._refuse_curve(curve)
        for term in formula.groups:
            factor = next(filter(self.table.is_factor, read_terms(term.effects).columns), None)
            if term.is_merged and factor:
                raise ConfigError(
                    f"formula {formula.text!r}: {factor} holds labels, so its effects by "
                    f"{term.group} are correlated, and {term.group} cannot have two terms; write "
                    f"one, such as ({factor} | {term.group})"
                )

    def _refuse_columns(self) -> None:
        """Reject several columns if the family takes one, or one column if it takes several."""
        about, (formula, family) = f"formula {self.formula.text!r}: ", (self.formula, self.family)
        if family.has_columns and not formula.counted:
            raise ConfigError(
                f"{about}family {family.name} takes the counts of each category; write "
                f"cbind(a, b, c) ~ … with your columns, or choose family {family.of_unit} for one "
                "label in each row"
            )
        if not formula.counted or family.has_columns:
            return
        first = formula.counted[0]
        if family.has_trials:
            raise ConfigError(
                f"{about}family {family.name} takes successes and trials; make a column of their "
                f"total, such as total, in the table, and write {first} | trials(total) ~ …"
            )
        raise ConfigError(
            f"{about}family {family.name} takes one column; choose family multinomial for "
            f"counts of categories, or write {first} ~ …"
        )

    def _refuse_curve(self, curve: CurveTerm) -> None:
        """Reject a curve along a column that has no numbers, or no order."""
        where = f"formula {self.formula.text!r}: "
        columns = read_terms(f"0 + {curve.call}").columns
        for name in filter(self.table.is_factor, columns):
            labels = self.table.labels(name).names
            label = labels[0]
            if curve.function not in OF_LEVELS:
                what, remedy = "labels", f"write {name} by itself"
                kind, number = times_in(labels)
                if kind:
                    what, remedy = kind, f"convert each to a number, such as {number}"
                raise ConfigError(
                    f"{where}{name} holds {what}, such as {label!r}, but {curve.call} takes "
                    f"numbers; {remedy}"
                )
            if name not in self.table.ordered:
                raise ConfigError(
                    f"{where}the labels of {name}, such as {label!r}, have no order, which "
                    f"{curve.call} needs; write mo({name}, levels=[…]) with the labels in their "
                    "order"
                )
        if curve.by and curve.by.strip("`") in columns:
            raise ConfigError(f"{where}{curve} varies by its own column; leave by={curve.by} out")

    @property
    def sums(self) -> list[str]:
        """The sums of terms in the formula: of the population, the group terms and the curves."""
        return _sums_of(self.formula)

    @cached_property
    def parameters(self) -> tuple[Model, ...]:
        """The models of the other parameters that have formulas."""
        known = {its.name: its for its in self.family.auxiliary if its.link}
        found = []
        for own in self.formula.parameters:
            if own.predicts not in known:
                raise ConfigError(_no_parameter(own.predicts, own.text, self, list(known)))
            formula, its = self.formula.at(own), known[own.predicts]
            indices = self.group_indices
            found.append(Model(formula, self.family, self.table, its, indices, self.known))
        return tuple(found)

    @cached_property
    def imputed(self) -> tuple[Model, ...]:
        """The models of the predictors with missing values.

        In the table, numbers stand in for these values.
        """
        found, names = [], names_of_imputed(self.formula, self.family)
        modelled = [*self.formula.observed, *names]
        for own in self.formula.imputed:
            column = own.predicts
            formula = replace(
                self.formula.at(own), response=column, terms=ResponseTerms(), levels=(), counted=()
            )
            model = Model(
                formula,
                find_family("gaussian"),
                self.table,
                indices=self.group_indices,
                known=self.known,
                imputes=names[column],
            )
            wrong = next((name for name in modelled if name in model.columns), None)
            if wrong is not None:
                raise ConfigError(
                    f"formula {own.text!r}: {wrong} cannot predict {column}, because {wrong} has a "
                    f"formula itself; leave {wrong} out of the formula of {column}"
                )
            found.append(model)
        return tuple(found)

    @cached_property
    def group_indices(self) -> Mapping[str, str]:
        """The name of each group's index in the program."""
        if self.indices is not None:
            return self.indices
        return names_of_groups(self.formula, self.family)

    @property
    def tag(self) -> str:
        """The end of the names of its variables: nothing, or ``_sigma`` for sigma."""
        if self.imputes:
            return f"_{self.imputes}"
        if self.parameter is None:
            return ""
        return f"_{self.parameter.name}"

    @cached_property
    def population(self) -> str:
        """The terms of the population without the column of ones, which is the intercept.

        A smooth is a curve about a line, which is a term of the population.
        """
        lines = (line for curve in self.formula.curves for line in self._lines(curve))
        terms = read_terms(" + ".join([self.formula.population, *lines]))
        if terms.is_empty:
            return ""
        return terms.text.removeprefix("1 + ")

    def _lines(self, curve: CurveTerm) -> list[str]:
        """Return the unpenalised terms of a smooth: those in the null space of its penalty."""
        is_number = bool(curve.by) and not self.is_factor(curve.by)
        terms = [curve.by] if is_number else []
        if curve.function == "s" and not curve.is_periodic:
            line = curve.argument
            if not re.fullmatch(r"[\w.]+|`[^`]*`|\w+\(.*\)", line):
                line = f"I({line})"
            terms.append(f"{line}:{curve.by}" if curve.by else line)
        return terms

    def source(self, terms: str) -> dict[str, Any]:
        """Return the source of the columns of a sum of terms, as in ``[data]`` of a declaration."""
        levels = {name: list(its) for name, its in self.levels(terms).items()}
        source = {"terms": terms, "per": self.cell, "levels": levels, "state": self.state(terms)}
        return {key: value for key, value in source.items() if value}

    def is_factor(self, name: str) -> bool:
        """Whether a column of the terms, with or without backticks, is a factor."""
        return self.table.is_factor(name.strip("`"))

    @property
    def has_intercept(self) -> bool:
        """Whether the population has an intercept; thresholds count as one."""
        has_thresholds = self.family.is_ordinal and self.parameter is None
        return has_thresholds or read_terms(self.formula.population).has_intercept

    @property
    def offsets(self) -> tuple[str, ...]:
        """The expressions of the offsets."""
        return read_terms(self.formula.population).offsets

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that the linear predictor uses."""
        own = itertools.chain.from_iterable(read_terms(terms).columns for terms in self.sums)
        groups = itertools.chain.from_iterable(term.columns for term in self.formula.groups)
        others = itertools.chain.from_iterable(term.others for term in self.formula.groups)
        return tuple(dict.fromkeys((*own, *groups, *others)))

    def labels_of(self, term: GroupTerm) -> Labels:
        """Return a group's labels; if rows have several members, the codes are of the first."""
        if not term.members:
            return self.table.labels(term.group)
        return shared([self.table.labels(name) for name in term.members])[0]

    @property
    def all_columns(self) -> tuple[str, ...]:
        """The columns of the table that the response and all linear predictors use."""
        models = (self, *self.parameters, *self.imputed)
        own = itertools.chain.from_iterable(each.columns for each in models)
        return tuple(dict.fromkeys((*self.formula.response_columns, *own)))

    @cached_property
    def cells(self) -> dict[str, Any]:
        """The numbers or the factor of each column in the terms."""
        own = itertools.chain.from_iterable(read_terms(terms).columns for terms in self.sums)
        sums = [read_terms(terms).text for terms in self.sums]
        found = {
            name: self.table.numbers_or_factor(name, is_mixed=is_coded(name, sums))
            for name in dict.fromkeys(own)
        }
        return {
            name: its.remove_unused_categories() if isinstance(its, pd.Categorical) else its
            for name, its in found.items()
        }

    def levels(self, terms: str) -> dict[str, tuple[str, ...]]:
        """Return the levels of the factors in a sum of terms."""
        found = {}
        for name in read_terms(terms).columns:
            its = self.cells[name]
            if isinstance(its, pd.Categorical):
                found[name] = tuple(map(str, its.categories))
            elif is_coded(name, [read_terms(terms).text]):
                known = levels_of_numbers(its)
                given = given_levels([terms]).get(name, known)
                found[name] = tuple(level for level in given if level in known)
        return found

    def levels_of(self, column: str) -> tuple[str, ...]:
        """Return the levels of a column that is not a term, in the order of a factor."""
        names = self.table.labels(column, order="value", order_asked=False).names
        if column in self.table.ordered:
            return tuple(level for level in self.table.levels[column] if level in names)
        if has_order(names):
            return names
        return tuple(sorted(names))

    def state(self, terms: str) -> dict[str, Any]:
        """Return the values that terms compute from all rows, such as the mean in ``center(x)``."""
        if read_terms(terms).is_empty:
            return {}
        return self._evaluated(terms).state

    def design(self, terms: str) -> tuple[FloatArray, tuple[str, ...]]:
        """Return the design matrix of a sum of terms, and its column names."""
        if read_terms(terms).is_empty:
            return np.ones((len(self.table), 1)), ("Intercept",)
        found = self._evaluated(terms)
        return found.matrix, found.names

    def _evaluated(self, terms: str) -> Design:
        """Return the design of a sum of terms, which is computed once."""
        if terms not in self._designs:
            cells = {name: self.cells[name] for name in read_terms(terms).columns}
            self._designs[terms] = evaluate(terms, cells, refuse=self.table.refusal)
        return self._designs[terms]

    @cached_property
    def _designs(self) -> dict[str, Design]:
        """The designs that have been computed, by their terms."""
        return {}

    @cached_property
    def population_design(self) -> tuple[FloatArray, tuple[str, ...]]:
        """The design matrix of the population, and its column names."""
        if not self.population:
            return np.empty((len(self.table), 0)), ()
        return self.design(self.population)

    @cached_property
    def offset(self) -> FloatArray:
        """The sum of the offsets for each row."""
        values = np.zeros(len(self.table))
        for expression in self.offsets:
            cells = {name: self.cells[name] for name in read_terms(f"0 + {expression}").columns}
            values = values + offset(expression, cells, refuse=self.table.refusal)
        return values

    def covariance(self, term: GroupTerm) -> tuple[tuple[str, ...], FloatArray]:
        """Return the labels of a group and their known covariance.

        Raises
        ------
        ConfigError
            If the covariance is not given.
        DataError
            If the table is not a covariance of the labels.
        """
        name = term.covariance
        if name not in self.known:
            raise ConfigError(
                f"formula {self.formula.text!r}: {name} is not given; name its table with --known "
                f"{name}=FILE, or known={{{name!r}: frame}} in Python"
            )
        frame, labels = self.known[name], self.labels_of(term).names
        for axis, own in (("row", frame.index), ("column", frame.columns)):
            if own.has_duplicates:
                raise DataError(
                    f"known {name}: the {axis} {own[own.duplicated()][0]!r} occurs twice; keep one"
                )
            lacking = next((label for label in labels if label not in own), None)
            if lacking is not None:
                raise DataError(
                    f"known {name}: there is no {axis} for {lacking!r}, which is a label of "
                    f"{term.group}; add it"
                )
        try:
            matrix = frame.loc[list(labels), list(labels)].to_numpy(dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(f"known {name}: a cell is not a number; correct it") from None
        wrong = np.argwhere(~np.isfinite(matrix) | (np.abs(matrix - matrix.T) > 1e-8))
        if wrong.size:
            one, other = (labels[i] for i in wrong[0])
            raise DataError(
                f"known {name}: the covariance of {one} and {other} is not a number, or "
                f"differs from the covariance of {other} and {one}; correct it"
            )
        matrix = (matrix + matrix.T) / 2
        if np.linalg.eigvalsh(matrix)[0] <= 1e-10 * np.trace(matrix) / len(labels):
            raise DataError(
                f"known {name} is not positive definite, so some labels are combinations of "
                "others; leave out duplicates, or add a small number to its diagonal"
            )
        return labels, matrix

    @property
    def predicts_response(self) -> bool:
        """Whether the linear predictor belongs to the response, and not to another parameter."""
        return self.parameter is None or self.parameter.is_predictor

    @property
    def order_of_ratings(self) -> str | tuple[str, ...]:
        """The order of ordinal responses: by value, or the levels of an ordered Categorical.

        Categories that are numbers or dates are ordered by value, and others by the levels of the
        column or, without levels, alphabetically.
        """
        name = self.formula.response
        if name in self.table.ordered:
            return self.table.levels[name]
        if self.family.has_categories:
            names = self.table.labels(name, order="value", order_asked=False).names
            levels = self.table.levels.get(name) or sorted(names)
            return names if has_order(names) else tuple(each for each in levels if each in names)
        return "value"

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """The labels of a response without an order; the first is the reference."""
        if not self.family.has_categories:
            return ()
        return self.formula.counted or self.ratings.names

    def of_categories(self) -> Model:
        """Return the model with a linear predictor for each category of its table."""
        if not self.family.has_categories:
            return self
        own = self.formula.counted or [self.formula.response]
        answered = self.table.without_missing(own, drop=True)
        categories = replace(self, table=answered).categories
        names = names_of_predictors(categories)
        self._refuse_reference(categories, names)
        family = of_predictors(self.family.name, tuple(names))
        return replace(self, family=family, formula=self.formula.with_predictors(names))

    def _refuse_reference(self, categories: Sequence[str], names: Sequence[str]) -> None:
        """Reject a formula for the reference category, whose linear predictor is 0."""
        name, (reference, *others) = self.formula.response, categories
        own = f"mu{re.sub(r'[^A-Za-z0-9]', '', reference)}"
        given = next((each for each in self.formula.parameters if each.predicts == own), None)
        if given is not None and own not in names and others:
            order = ", ".join(f'"{each}"' for each in (*others, reference))
            response = f"C({name}, levels=[{order}])"
            if self.family.has_columns:
                response = f"cbind({', '.join((*others, reference))})"
            raise ConfigError(
                f"formula {given.text!r}: {reference} is the reference category, whose linear "
                f"predictor is 0; leave this formula out, or write {response} ~ … for another "
                "reference"
            )

    @cached_property
    def ratings(self) -> Labels:
        """The ratings of an ordinal response, in order."""
        name, table = self.formula.response, self.table
        order = self.order_of_ratings
        labels = table.labels(name, order=order, order_asked=False)
        if self.family.has_categories:
            self._refuse_many(labels)
            return labels
        if isinstance(order, str) and not has_order(labels.names):
            odd = next(label for label in labels.names if np.isnan(number_of(label)))
            raise DataError(
                f"{table.source}: {name} has labels without an order, such as {odd!r}; write "
                f"C({name}, levels=[…]) ~ … with the labels in their order, or choose family "
                "categorical"
            )
        if not table.is_factor(name):
            table.numbers(name, whole=True)
        return labels

    def _refuse_many(self, labels: Labels) -> None:
        """Reject a response with only one category, or with more than `MOST_CATEGORIES`."""
        where, name = f"{self.table.source}: {self.formula.response} has ", self.family.name
        if len(labels) < 2:
            raise DataError(
                f"{where}only one category, {labels.names[0]!r}, but family {name} needs at least "
                "two; choose another column or family"
            )
        if len(labels) > MOST_CATEGORIES:
            raise DataError(
                f"{where}{len(labels)} different values, but family {name} takes at most "
                f"{MOST_CATEGORIES} categories; combine rare categories, or choose another family"
            )

    def has_category(self, number: int, rows: NDArray[np.bool_]) -> bool:
        """Return whether a category, numbered from 1, occurs in some of the rows."""
        if self.family.has_columns:
            return bool(self.y[rows, number - 1].any())
        return number in self.y[rows]

    @cached_property
    def outcomes(self) -> tuple[str, ...]:
        """The labels that stand for 0 and 1 in a response with two labels; empty for numbers."""
        name, table, family = self.formula.response, self.table, self.family
        given = self.formula.levels
        is_binary = family.is_discrete and family.limits[1] == 1
        if given and not (is_binary or family.is_of_labels):
            raise ConfigError(
                f"formula {self.formula.text!r}: C(…) gives the labels of {name} an order, but "
                f"family {family.name} takes numbers; write {name} ~ …, or choose another family"
            )
        if not is_binary:
            return ()
        if not given and np.isfinite(table.typed(name).numbers_or_truth).any():
            return ()
        found = table.labels(name).names
        outcomes = given or table.levels.get(name, ())
        if len(outcomes) != 2 and not given:
            outcomes = tuple(each for each in outcomes or sorted(found) if each in found)
        if len(outcomes) != 2:
            raise DataError(
                f"{table.source}: {name} has {counted(len(outcomes), 'label')}, "
                f"{shortened(outcomes)}, but family {family.name} has two outcomes; make a column "
                "of 0 and 1, or choose family categorical"
            )
        return outcomes

    @cached_property
    def y(self) -> FloatArray:
        """The response as numbers; ratings are numbered from 1, and counts have a column each."""
        name, family = self.formula.response, self.family
        if family.has_columns:
            return np.stack([self._numbers(each) for each in self.formula.counted], axis=1)
        if family.is_of_labels:
            return self.ratings.codes.astype(np.float64) + 1
        if self.outcomes:
            labels = self.table.labels(name, order=self.outcomes)
            return (
                np.array([self.outcomes.index(each) for each in labels.names])[labels.codes] * 1.0
            )
        return self._numbers(name)

    def _numbers(self, name: str) -> FloatArray:
        """Return a column of the response, whose numbers must suit the family."""
        family = self.family
        y = self.table.numbers(
            name,
            if_text=f"make the column numeric, as family {family.name} requires",
        )
        is_count, (lowest, highest) = family.is_discrete, family.limits
        is_binary = is_count and highest == 1
        below = "be negative" if lowest == 0 else f"be below {lowest:.6g}"
        limits = {
            "must be 0 or 1": is_binary & ~np.isin(y, (0, 1)),
            "must be above 0": family.is_positive & (y <= 0),
            "must be below 1": ("1" in family.excludes) & (y >= 1),
            f"cannot {below}": y < lowest,
            "must be a whole number": is_count & (y != np.floor(y)),
            f"must be at most {min(highest, LARGEST_INT):.10g}": (
                y > (min(highest, LARGEST_INT) if is_count else highest)
            ),
        }
        for limit, wrong in limits.items():
            if np.any(wrong):
                row = int(np.argmax(wrong))
                others = family.excludes.get(number_text(y[row]), "another family")
                raise DataError(
                    f"{self.table.where(row)}: {name} is {number_text(y[row])}, but for family "
                    f"{family.name} it {limit}; correct it or choose {others}"
                )
        return y

    @cached_property
    def trials(self) -> FloatArray:
        """The number of trials in each row."""
        given = self.formula.trials
        trials: FloatArray
        if self.family.has_columns and not given:
            trials = self.y.sum(axis=1)
        elif given.isdecimal() or not given:
            trials = np.full(len(self.table), float(given or 1))
        else:
            trials = self.table.numbers(given, if_text="give a column of whole numbers")
        wrong = (trials < 0) | (trials != np.floor(trials)) | (trials > LARGEST_INT)
        if wrong.any():
            row = int(np.argmax(wrong))
            where = self.table.where(row)
            if given.isdecimal():
                where = f"formula {self.formula.text!r}"
            raise DataError(
                f"{where}: the number of trials is {number_text(trials[row])}, but it must be a "
                f"whole number from 0 to {LARGEST_INT}; correct it"
            )
        if self.family.has_columns:
            total = self.y.sum(axis=1)
            if np.any(total != trials):
                row = int(np.argmax(total != trials))
                raise DataError(
                    f"{self.table.where(row)}: {in_words(self.formula.counted)} sum to "
                    f"{number_text(total[row])}, but the number of trials is "
                    f"{number_text(trials[row])}; correct one of them, or leave trials({given}) out"
                )
            return trials
        if given and np.any(self.y > trials):
            row = int(np.argmax(self.y > trials))
            raise DataError(
                f"{self.table.where(row)}: {self.formula.response} is {number_text(self.y[row])}, "
                f"but the number of trials is {number_text(trials[row])}; correct one of them"
            )
        return trials

    @cached_property
    def response_values(self) -> Columns:
        """The values of the terms of the response."""
        formula = self.formula
        return read_values(formula.terms, self.family, self.table, formula.response, self.y)

    @cached_property
    def cell(self) -> str:
        """The columns whose combinations define cells of rows that share one linear predictor.

        The names of the columns are joined by colons. The result is empty if the likelihood does
        not use totals of cells.
        """
        is_joined = any(":" in name for name in self.columns)  # colons separate names and labels
        factors = filter(self.table.is_factor, self.columns)
        is_joined |= any(
            ":" in label for name in factors for label in self.table.labels(name).names
        )
        has_one_predictor = self.parameter is None and not self.formula.parameters
        is_joined |= self.formula.terms.separates_rows
        has_one_predictor &= not self.imputes and not self.formula.imputed
        if self.family.totals is None or not self.columns or is_joined or not has_one_predictor:
            return ""
        name = ":".join(self.columns)
        if 2 * len(set(self.table.column(name))) > len(self.table):
            return ""
        return name

    @cached_property
    def effects(self) -> tuple[Effects, ...]:
        """The effects of each group term."""
        found = []
        for term in self.formula.groups:
            index, terms = self.group_indices[term.group], _with_ones(term.effects)
            effects = self.design(terms)[1]
            found.append(Effects(term, f"{index}{self.tag}", index, terms, effects))
        return tuple(found)

    @cached_property
    def curves(self) -> tuple[tuple[CurveTerm, str], ...]:
        """The curves, each with its name in the program."""
        groups = self.group_indices.values()
        names = names_of_curves(self.formula.curves, groups, self.tag)
        return tuple(zip(self.formula.curves, names, strict=True))

    @cached_property
    def linked(self) -> FloatArray:
        """The response, approximately on the scale of the linear predictor, minus the offset."""
        y, family, link = self.y, self.family, LINKS[self.family.link]
        if family.has_columns:  # the mean of the category numbers
            y = y @ np.arange(1.0, y.shape[1] + 1) / np.maximum(self.trials, 1)
        if family.is_of_labels or family.has_columns:
            values = (y - y.mean()) / (y.std() or 1.0)
        elif family.counts_successes:
            values = link.of((y + 0.5) / (self.trials + 1))
        elif family.limits == (0, 1):
            # Links are infinite at 0 and 1, so values are moved inwards (Smithson and Verkuilen
            # 2006).
            has_ends = np.isin(y, (0, 1)).any()
            values = link.of((y * (len(y) - 1) + 0.5) / len(y) if has_ends else y)
        elif family.scale == "fixed":
            values = np.clip(link.of(y), -10, 10)
        elif family.scale == "y" and link.name == "identity":
            values = y
        elif family.is_discrete:
            values = link.of(y + 0.1)
        else:
            positive = np.where(y > 0, y, np.median(y[y > 0]) if (y > 0).any() else 1.0)
            values = (LINKS["log"] if family.scale == "log" else link).of(positive)
        return np.asarray(values - self.offset, dtype=np.float64)


def _sums_of(formula: Formula | FurtherFormula) -> list[str]:
    """Return the sums of terms of a formula."""
    effects = (term.effects for term in formula.groups)
    curves = (curve.terms for curve in formula.curves)
    return [formula.population, *effects, *curves]


def with_given_levels(formula: Formula, table: Table) -> Table:
    """Return a table whose columns of labels have the levels that a formula gives them.

    The levels are in order, as in an ordered Categorical, and apply in all terms of the formula.
    The levels of a column of numbers, as in ``C(x, levels=[2, 1])``, apply only in their own term.

    Raises
    ------
    DataError
        If a label is not one of the levels.
    """
    sums = _sums_of(formula)
    for each in formula.others:
        sums += _sums_of(each)
    given = given_levels(read_terms(each).text for each in sums)
    if formula.levels:
        given[formula.response] = formula.levels
    known = [name for name in given if name in table.cells]
    given = {n: given[n] for n in known if table.is_factor(n) or n == formula.response}
    for name, levels in given.items():
        lacks = table.is_missing(name)
        unknown = next((t for t in table.texts(name)[~lacks] if t not in levels), None)
        if unknown is not None:
            row = int(np.argmax(table.texts(name) == unknown))
            raise DataError(
                f"{table.where(row)}: {name} is {unknown!r}, which is not one of the levels that "
                f"the formula gives it: {', '.join(levels)}; add it to them, or correct the cell"
            )
    return replace(table, levels={**table.levels, **given}, ordered=[*table.ordered, *given])


def with_filled(formula: Formula, table: Table) -> Table:
    """Return a table in which each predictor with imputed values has a number in every row.

    Raises
    ------
    ConfigError
        If such a predictor is also in another term, or holds labels.
    """
    if not formula.imputed:
        return table
    used = [[*formula.response_columns]]
    used += [[*each.columns, *each.others] for each in formula.all_groups]
    sums = _sums_of(formula)
    for other in formula.parameters:
        sums += _sums_of(other)
    for its in sums:
        terms = [term for _, term in summands(read_terms(its).text)]
        used += [list(read_terms(f"0 + {term}").columns) for term in terms]
    for each in formula.imputed:
        name, where = each.predicts, f"formula {formula.text!r}: "
        if name not in table.columns:
            continue  # an error that names the columns follows
        if [columns for columns in used if name in columns] != [[name]]:
            raise ConfigError(
                f"{where}{name} is imputed, so it can be only in the term mi({name}); leave {name} "
                "out of the other terms"
            )
        if table.is_factor(name):
            raise ConfigError(
                f"{where}{name} holds labels, but mi() imputes numbers; leave rows without a label "
                f"out, {worded('with --drop-missing')}, and write {name}"
            )
    known = [each.predicts for each in formula.imputed if each.predicts in table.columns]
    return table.filled(known)


def known_covariance(name: str, given: Any) -> pd.DataFrame:
    """Return a known covariance as a table with the labels of its rows and columns.

    Parameters
    ----------
    name : str
        The name of the covariance in the formula.
    given : path or DataFrame
        The table; the first column of a file, or the index of a DataFrame, holds the labels.
    """
    if isinstance(given, str | Path):
        try:
            # An open file, because pandas would fetch a URL.
            with Path(given).open(encoding="utf-8-sig", newline="") as file:
                given = pd.read_csv(file, index_col=0, dtype={0: str})
        except (OSError, ValueError) as error:
            raise DataError(
                f"known {name}: {given} cannot be read as a CSV file ({error}); its first column "
                "and its header hold the labels"
            ) from None
    if not isinstance(given, pd.DataFrame):
        raise ConfigError(
            f"known {name}: give a DataFrame or a CSV file with the labels as its index and its "
            f"columns, not {type(given).__name__}"
        )
    return given.set_axis(given.index.map(str)).set_axis(given.columns.map(str), axis=1)


def _with_ones(effects: str) -> str:
    """Return the terms in a bracket; they have an intercept unless one of them is 0."""
    terms = read_terms(effects)
    if terms.offsets:
        raise ConfigError(
            f"terms {effects!r}: an offset does not vary by group; put it outside the brackets"
        )
    if terms.is_empty and not terms.has_intercept:
        raise ConfigError(
            f"terms {effects!r}: a group term needs an effect that varies; write 1 for the "
            "intercept, or a column"
        )
    return terms.text


def names_of_curves(curves: Sequence[CurveTerm], groups: Collection[str], tag: str) -> list[str]:
    """Return the name of each curve; its variables' names end with this name and the tag.

    Parameters
    ----------
    curves : sequence of CurveTerm
        The curves of a linear predictor.
    groups : collection of str
        The names of groups, which no variable of a curve may have.
    tag : str
        The tag of the linear predictor.
    """
    found = list[str]()
    starts = [start for its in OF_CURVES.values() for start in its]
    for curve in curves:
        words = f"{curve.argument} {curve.by}"
        name = "_".join(re.findall(r"[A-Za-z0-9]+", words)) or "curve"
        while name in found or any(f"{start}_{name}{tag}" in groups for start in starts):
            name = f"{name}_curve"
        found.append(name)
    return found


def names_of_imputed(formula: Formula, family: Family) -> dict[str, str]:
    """Return the name in the program of each predictor that is imputed, by its column.

    The names of the variables for this predictor, such as ``b_x``, end with its name, and differ
    from all other names.
    """
    ends = (end.removeprefix("_") for end in _ENDS)
    taken = {"free", *ends, *(each.name for each in family.auxiliary)}
    taken |= {each.predicts for each in formula.parameters}
    found = dict[str, str]()
    for each in formula.imputed:
        name = re.sub(r"\W", "_", each.predicts, flags=re.ASCII).strip("_") or "x"
        if not name[0].isalpha():
            name = f"x_{name}"
        while name in taken or "__" in name:
            name = f"{name.replace('__', '_')}_value"
        found[each.predicts] = name
        taken.add(name)
    return found


def names_of_groups(formula: Formula, family: Family) -> dict[str, str]:
    """Return the name of each group in the program.

    Each name differs from all other names in the program. If two groups would have the same name,
    as with ``a b`` and ``a_b``, the group that is called by this name gets it.
    """
    taken = {*_TAKEN, *reserved_names(), "Intercept_location", "Intercept_scale"}
    taken |= {*OF_RESIDUALS.get(formula.terms.residuals, ())}
    for each in family.auxiliary:
        taken |= {each.name, *(f"{each.name}_{key}" for key in each.values)}
    tags = [f"_{each.predicts}" for each in formula.parameters]
    tags += [f"_{name}" for name in names_of_imputed(formula, family).values()]
    taken |= {f"{name}{tag}{end}" for tag in tags for name in _TAGGED for end in _ENDS}
    groups = formula.all_groups
    members = {term.group: term.members for term in groups}
    found: dict[str, str] = {}
    for group in sorted(members, key=lambda each: not re.fullmatch(r"\w+", each, re.ASCII)):
        name = re.sub(r"\W", "_", group, flags=re.ASCII).strip("_") or "group"
        if not name[0].isalpha() or re.match(_PREFIXES, name):
            name = f"group_{name}"
        # The variables of a group end with its name and, for another parameter, with a tag.
        while name.endswith("__") or not taken.isdisjoint({name, *(name + tag for tag in tags)}):
            name = f"{name.rstrip('_')}_group"
        found[group] = name
        taken |= {name, *(name + tag for tag in tags)}
        taken |= {f"{name}_{i}" for i in range(1, 1 + len(members[group]))}
    return {group: found[group] for group in members}


def _no_parameter(name: str, text: str, model: Model, known: list[str]) -> str:
    """Return the message about a formula for a parameter that the family does not have."""
    family, about = model.family.name, f"formula {text!r}: "
    if name in ("mu", "eta", model.formula.response):
        return f"{about}the terms of {name} belong in the first formula; move them there"
    given = model.formula.terms.that_gives(name)
    if given is not None:
        return f"{about}{name} is known, as {given.remedy}, or leave this formula out"
    if not known:
        return (
            f"{about}family {family} has no parameter that can have terms besides the expected "
            f"{model.formula.response}; leave this formula out or choose another family"
        )
    hint = suggestion(name, known)
    if name in (each.name for each in model.family.auxiliary):
        return f"{about}{name} cannot have terms; in family {family}, only {in_words(known)} can"
    return f"{about}family {family} has no parameter {name}; {hint}"
