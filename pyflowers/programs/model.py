"""A model: a program with its data, and the numerical results that depend on both.

The likelihood, replicated data and predictions follow from the rule in ``[prediction]`` if the
program declares one, and otherwise from ``log_lik`` and ``y_rep`` in Stan. What depends only on the
program and the data, such as the declaration with the levels of the table, is computed once.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pyflowers.advice import Advice
from pyflowers.data import Labels
from pyflowers.errors import ConfigError
from pyflowers.programs.capabilities import Capability, Draws
from pyflowers.programs.data import Data
from pyflowers.programs.declaration import (
    OBS,
    Column,
    Declaration,
    PredictionRule,
    Previous,
    Terms,
)
from pyflowers.programs.families import TRIALS, Family, Link, find_family
from pyflowers.programs.families._response import (
    can_be_series,
    family_of,
    has_dependent_rows,
    has_terms,
    on_rows,
    recorded,
    replicated,
    simulated,
)
from pyflowers.programs.families._response.residuals import along_series
from pyflowers.programs.families._response.term import OnRows
from pyflowers.programs.prediction import (
    Groups,
    NewRows,
    Predictor,
    columns_of_rows,
    frozen,
    group_columns,
    indices_of,
    level_in,
    names_of,
    only_of_effects,
    read_rows,
    rows_of,
    rule_of,
    rule_of_parameter,
    varying_columns,
)
from pyflowers.programs.stated_priors import Stating, log_prior, prior_draws
from pyflowers.programs.terms import around, read_terms

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_NEW = "new"

_OF_CURVES = ("curves_", "sines_")  # prefixes of the dimensions of curves' coefficients


class Posable(Stating, Protocol):
    """The attributes of a program that a model uses."""

    def can(self, capability: Capability) -> bool:
        """Return whether the program has a capability."""

    def require(self, capability: Capability) -> None:
        """Raise an error with a remedy if the program lacks a capability."""

    def improper_priors(self, values: Mapping[str, Any]) -> dict[str, str]:
        """Return the parameters with an improper prior, each with the remedy."""

    def prior_on_scale(self, parameter: str, data: Data) -> Advice:
        """Return advice on a parameter's prior, based on the scale of the data."""


@dataclass(frozen=True, eq=False)
class Model:
    """A program with its data; the model of a fit is ``fit.model``.

    Attributes
    ----------
    program : Program
        The program.
    data : Data
        The whole data block, as :meth:`pyflowers.Program.fill` returns it.
    parameter : str
        The parameter of the family that is predicted instead of the response; empty for the
        response.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> fit.model.log_lik(fit.draws).shape
    (4, 1000, 12)
    >>> fit.model.groups, fit.model.family.name
    ({'plant': 'plant'}, 'poisson')
    """

    program: Posable
    data: Data
    parameter: str = ""

    def __reduce__(self) -> tuple[type[Model], tuple[Posable, Data, str]]:
        """Copy only the attributes; whatever was computed from them is recomputed."""
        return Model, (self.program, self.data, self.parameter)

    def of_parameter(self, name: str | None) -> Model:
        """Return the model whose rule predicts a parameter of the family, such as ``sigma``.

        For None, the model is returned unchanged.

        Raises
        ------
        ConfigError
            If the family has no such parameter with one value for each row.
        """
        if name is None:
            return self
        if not isinstance(name, str):
            raise ConfigError(f"parameter must be a name such as 'sigma', got {name!r}")
        rule_of_parameter(self.rule, name)
        return replace(self, parameter=name)

    # The rule

    @property
    def rule(self) -> PredictionRule:
        """The prediction rule; if none is declared, a ``ConfigError`` shows what to declare."""
        rule = rule_of(self.program)
        return rule_of_parameter(rule, self.parameter)[0] if self.parameter else rule

    @property
    def link(self) -> Link | None:
        """The link of the parameter that is predicted; None for the response."""
        if not self.parameter:
            return None
        return rule_of_parameter(rule_of(self.program), self.parameter)[1]

    @cached_property
    def family(self) -> Family:
        """The family of the response, which the rule names."""
        return family_of(self.rule.family, self.rule.response)

    @property
    def has_rule(self) -> bool:
        """Whether the program declares how rows are predicted."""
        return self.program.declaration.prediction is not None

    @property
    def alternatives(self) -> list[Family]:
        """The families that may describe the response if the model's family does not.

        All of them support the terms of the response.
        """
        own, found = self.family, list[Family]()
        needed = {each.name for each in own.auxiliary if each.name in self.rule.where}
        for name in own.alternatives:
            usual = find_family(name)
            if not needed <= {each.name for each in usual.auxiliary}:
                continue  # the formula of a parameter would be lost
            if not has_terms(usual, self.rule.response):
                continue
            if own.text == own.name:
                found.append(family_of(name, self.rule.response))
            elif own.link in (usual.link, *usual.links):
                found.append(family_of(f"{name}({own.link})", self.rule.response))
        return found

    def another_family(self, name: str) -> Family:
        """Return the alternative with this name, or else the family of this name."""
        found = {each.text: each for each in self.alternatives}
        return found.get(name) or find_family(name)

    @property
    def values_of_terms(self) -> dict[str, FloatArray]:
        """The values of the response's terms in each row, which the likelihood needs.

        Terms that change sigma are left out.
        """
        entered = {name for its in self._terms if its.parameters for name in its.variables}
        names = [name for name in self.rule.response if name not in entered]
        values, num = self.data.values, self.data.num_obs
        return {name: np.broadcast_to(np.asarray(values[name]), (num,)) for name in names}

    def drawn(
        self, family: Family, eta: FloatArray, values: Mapping[str, Any], rng: np.random.Generator
    ) -> FloatArray:
        """Draw responses from another family, and record them as the data are recorded.

        Parameters
        ----------
        family : Family
            One of the `alternatives`.
        eta : array, shape (chain, draw, N)
            The linear predictor.
        values : mapping
            The family's parameters, and the values of the terms of the response.
        rng : numpy.random.Generator
            The generator.
        """
        response = self.rule.response
        found = replicated(family, response, eta, values, rng)
        return np.asarray(recorded(found, response, self.data.values, rng))

    @property
    def predicts_rows(self) -> bool:
        """Whether rows of a table can be predicted."""
        return self.has_rule and self.data.table is not None

    @property
    def is_ordinal(self) -> bool:
        """Whether the response is a rating, numbered from 1."""
        return self.has_rule and self.family.is_ordinal

    @property
    def quantile(self) -> str:
        """The parameter that is the share of responses below the modelled quantile.

        It is empty if the likelihood describes the whole distribution of a response.
        """
        return self.family.quantile if self.has_rule else ""

    @property
    def has_categories(self) -> bool:
        """Whether the response has several categories without an order."""
        return self.has_rule and self.family.has_categories

    @property
    def has_columns(self) -> bool:
        """Whether an observation is a row of counts, one for each category."""
        return self.has_rule and self.family.has_columns

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories of the response if they have no order; the first is the reference."""
        if not self.has_categories:
            return ()
        labels = self.data.labels.get(self.data.value)
        if labels is not None:
            return labels.names
        if self.data.counted:
            return self.data.counted
        return tuple(map(str, range(1, len(self.family.predictors) + 2)))

    @property
    def frequencies(self) -> IntArray:
        """How often each of the categories occurs in the data."""
        if self.has_columns:
            return np.asarray(self.data.rows_of_y.sum(axis=0), dtype=np.int64)
        codes = self.data.y.astype(np.int64)
        return np.bincount(codes, minlength=len(self.categories) + 1)[1:]

    @property
    def has_trials(self) -> bool:
        """Whether an observation is a number of successes in a number of trials."""
        return self.has_rule and self.family.has_trials

    @property
    def recorded_terms(self) -> list[str]:
        """The terms that change how responses are recorded, such as ``cens()``."""
        return [f"{its.term}()" for its in self._terms if its.recorded is not None]

    @property
    def multiplies_likelihood(self) -> bool:
        """Whether weights multiply log likelihoods, which are then not those of single rows."""
        return any(its.weighs is not None for its in self._terms)

    @property
    def unjudged(self) -> str:
        """Why checks do not judge the data: rows are weighed. Empty if all of them count once."""
        for its in self._terms:
            if its.weighs is not None and np.any(its.weighs(self.data.values) != 1):
                return its.unjudged
        return ""

    @property
    def _terms(self) -> list[OnRows]:
        """The effects that the response's terms have on rows."""
        if not self.has_rule:
            return []
        return on_rows(self.rule.response)

    @property
    def terms_of_data(self) -> list[str]:
        """The terms that change the data to which the likelihood refers, such as ``cens()``."""
        return [f"{its.term}()" for its in self._terms if its.is_of_other_data]

    @property
    def terms_not_predicted(self) -> list[str]:
        """The terms that predictions leave out, so that predictions cannot be used as data."""
        return [f"{its.term}()" for its in self._terms if its.is_of_other_data or its.cut]

    @property
    def cut(self) -> str:
        """The reason why residuals are not known, such as ``censored``; empty if they are known."""
        if self.has_rule and self.rule.censored:
            return "censored"
        return next((its.cut for its in self._terms if its.cut), "")

    @property
    def is_censored(self) -> NDArray[np.bool_]:
        """Whether only a limit, or an interval, is known for each observation, shape (N,)."""
        found = self.is_marked
        for its in self._terms:
            if its.kinds:
                found = found | (np.asarray(self.data.values[its.variables[0]]) != 0)
        return found

    @property
    def is_marked(self) -> NDArray[np.bool_]:
        """Whether ``[prediction] censored`` marks each observation, shape (N,).

        Raises
        ------
        ConfigError
            If it names no data variable with a value for each observation.
        """
        if not self.has_rule or not self.rule.censored:
            return np.zeros(self.data.num_obs, dtype=bool)
        marks = self.data.values.get(self.rule.censored)
        if marks is None or np.shape(marks) != (self.data.num_obs,):
            raise ConfigError(
                f"[prediction] censored = {self.rule.censored!r} is not a data variable with a "
                "value for each row; correct it"
            )
        return np.asarray(np.asarray(marks) != 0)

    def notes_on_replicates(self) -> list[str]:
        """Return notes on how replicated responses are recorded."""
        by_rule = self.program.answers_by_rule(self.program.declaration.roles.y_rep)
        own = [its for its in self._terms if its.recorded is None or by_rule]
        return [its.note.format(y=self.data.value_name) for its in own if its.note]

    def notes_on_response(self) -> list[str]:
        """Return notes on the number of rows of each kind, such as right-censored rows."""
        whole = self.with_all_rows
        return [note for its in whole._terms if its.kinds for note in whole._numbers_of(its)]

    @property
    def with_all_rows(self) -> Model:
        """The model of all rows that were read, those with imputed predictors included."""
        return replace(self, data=self.data.with_all_rows)

    @property
    def imputed(self) -> dict[str, str]:
        """The table's columns that are imputed, by their names in a formula's program."""
        found = self.data.declaration.imputed.items()
        return {name.removeprefix("missing_"): self.data.name_of(its) for name, its in found}

    def _numbers_of(self, its: OnRows) -> list[str]:
        """Return a note for each kind of row: how many there are, and the code of the kind."""
        source = self.data.declaration.data.get(its.variables[0])
        if not isinstance(source, Column):
            return []
        values, words = np.asarray(self.data.values[its.variables[0]]), source.codes.items()
        notes, column = list[str](), self.data.name_of(source.column)
        for number, kind in its.kinds.items():
            num = int(np.count_nonzero(values == number))
            mark = next((word for word, code in words if code == number), str(number))
            are = "is" if num == 1 else "are"
            if num:
                rows = f"{num} of {values.size} rows {are} {kind}"
                notes.append(f"{rows} (column {column} is {mark})")
        return notes or [f"none of the {values.size} rows is {its.cut}"]

    @property
    def has_dependent_rows(self) -> bool:
        """Whether the distribution of a row depends on other rows."""
        return self.has_rule and has_dependent_rows(self.rule.response)

    @property
    def in_time(self) -> tuple[str, FloatArray] | None:
        """The column with the times of the series, and the rank of each row, series by series.

        None if rows do not depend on earlier rows, or if each series is in the order of the table.
        """
        source = self.data.declaration.data.get("previous")
        if (
            not self.has_dependent_rows
            or not isinstance(source, Previous)
            or source.previous == OBS
        ):
            return None
        previous = np.asarray(self.data.values["previous"])
        own = np.arange(len(previous), dtype=float)
        how = {"previous": previous, "ar": 1.0}
        first = along_series(np.where(previous - 1 == own, own, 0.0), how)
        place = along_series(np.ones(len(own)), how)
        rank = np.empty(len(own))
        rank[np.lexsort((place, first))] = own
        return self.data.name_of(source.previous), rank

    @property
    def may_be_series(self) -> bool:
        """Whether a formula's response can have autoregressive residuals, but has none."""
        if not self.has_rule or self.program.declaration.formula is None:
            return False
        return can_be_series(self.family, self.rule.response)

    def recorded(self, y: FloatArray) -> dict[str, Any]:
        """Return the data variables for simulated responses; censored responses have two."""
        if self.has_rule and (of_terms := simulated(self.rule.response)) is not None:
            return dict(of_terms(y, self.data.values))
        return {self.data.observed: y}

    @property
    def has_effects(self) -> bool:
        """Whether groups have effects that are drawn from a population."""
        return self.has_rule and bool(self.rule.effects)

    @cached_property
    def frozen(self) -> Declaration:
        """The declaration with the levels and means of the table."""
        return frozen(self.data)

    @cached_property
    def rows(self) -> NewRows:
        """The rows of the data block."""
        return rows_of(self.data)

    def predictor(self, draws: Draws) -> Predictor:
        """Return the predictions of the rows of the data block."""
        return Predictor(self.rule, draws, self.data.values, self.rows)

    def predictor_of(
        self, draws: Draws, new: Any = None, *, seed: int = 0, groups: Groups = "data", **how: Any
    ) -> Predictor:
        """Return the predictions of the rows of a table, by default the table of the fit.

        Parameters
        ----------
        draws : mapping of str to array, shape (chain, draw, …)
            The draws.
        new : path, DataFrame or Table, optional
            The table.
        seed : int
            Seed for the effects of new labels, and for observations.
        groups : str
            How group effects enter; see ``pyflowers.programs.prediction.Groups``.
        **how
            ``reading``, ``is_linear``, ``is_varying`` and ``is_observed``; see
            :func:`.prediction.read_rows`.
        """
        how["is_linear"] = how.get("is_linear", False) or self.link is not None
        rows, values = read_rows(self, new, groups=groups, **how), self.data.values
        predictor = Predictor(self.rule, draws, values, rows, seed, groups, link=self.link)
        if self.family.is_ordinal:
            return replace(predictor, scores=self.data.scores)
        return predictor

    # Likelihood and replicated data

    @property
    def evaluates(self) -> bool:
        """Whether the likelihood can be computed for any parameters and any observed values.

        This is not possible with Stan's ``log_lik``, which is computed once, for the draws of the
        fit.
        """
        return self.program.answers_by_rule(self.program.declaration.roles.log_lik)

    def log_lik(self, draws: Draws, rows: IntArray | None = None) -> FloatArray:
        """Return the log likelihood of each observation, shape (chain, draw, N).

        Parameters
        ----------
        draws : mapping of str to array, shape (chain, draw, …)
            The draws.
        rows : array of int, optional
            Positions of the observations to return, from 0, in this order. Default: all.

        Raises
        ------
        ConfigError
            If the program has no ``log_lik``.
        """
        self.program.require(Capability.LOG_LIK)
        if self.evaluates and self.has_dependent_rows and rows is not None:
            return self.log_lik(draws)[..., rows]
        if self.evaluates:
            its = self.at(rows)
            return its.predictor(draws).log_lik(its.data.y)
        values = draws[self.program.declaration.roles.log_lik]
        return _by_observation(values, self.data.rows_in_whole(rows))

    def y_rep(
        self,
        draws: Draws,
        rng: np.random.Generator,
        rows: IntArray | None = None,
        *,
        is_recorded: bool = True,
    ) -> FloatArray:
        """Return replicated data, one data set for each draw, shape (chain, draw, N).

        Counts of categories are consecutive, as in the data: (chain, draw, N × categories).

        Parameters
        ----------
        draws, rows
            See :meth:`log_lik`.
        rng : numpy.random.Generator
            The generator; not used if the Stan program replicated the data.
        is_recorded : bool
            Whether the replicates of a censored response are censored.

        Raises
        ------
        ConfigError
            If the program has no ``y_rep``.
        """
        self.program.require(Capability.Y_REP)
        name = self.program.declaration.roles.y_rep
        if self.program.answers_by_rule(name) and self.has_dependent_rows and rows is not None:
            return self.y_rep(draws, rng)[..., rows]
        if self.program.answers_by_rule(name):
            # Times of censoring are estimated from all rows.
            predictor = replace(self.at(rows).predictor(draws), constants=self.data.values)
            return predictor.replicated(rng, is_recorded=is_recorded)
        return _by_observation(draws[name], self.data.rows_in_whole(rows))

    def at(self, rows: IntArray | None) -> Model:
        """Return the model with some of the observations, for computations row by row.

        Parameters
        ----------
        rows : array of int or None
            Positions of the observations, from 0, in the order of the result; None for all.
        """
        if rows is None:
            return self
        if self.has_dependent_rows:
            raise ConfigError(
                f"{self.program.called}: a row depends on the rows before it, so some rows "
                "cannot be used without the others; leave ar() or cosy() out"
            )
        block, values = self.program.source.blocks.data, dict(self.data.values)
        size = block[self.data.observed].sizes[0]
        of_rows = [name for name, its in block.items() if its.sizes[:1] == (size,)]
        values |= {name: np.asarray(values[name])[rows] for name in of_rows}
        return replace(self, data=replace(self.data, values=values))

    # Groups

    @cached_property
    def groups(self) -> dict[str, str]:
        """The table's columns of groups with effects, and their index variables."""
        if not self.has_rule:
            return {}
        found = group_columns(self.rule, self.frozen)
        return {self.data.name_of(column): index for column, index in found.items()}

    @cached_property
    def factors_of_groups(self) -> frozenset[str]:
        """The table's factors on which the population of a group depends, as in ``gr(g, by=f)``."""
        if not self.has_rule:
            return frozenset()
        levels = filter(None, map(level_in, self.rule.effects.values()))
        return frozenset(map(self.column_of, levels))

    def column_of(self, index: str) -> str:
        """Return the table's column of groups to which an index variable refers."""
        column = getattr(self.frozen.data.get(index), "index_of", None)
        return self.data.name_of(column) if column else index

    @property
    def partitions(self) -> dict[str, str]:
        """The columns of groups in which each row has one label, and their index variables."""
        several = {name for columns in self.frozen.shared for name in columns}
        return {
            name: index
            for name, index in self.groups.items()
            if self.frozen.data[index].index_of not in several
        }

    def y_of_new_groups(self, column: str, draws: Draws, rng: np.random.Generator) -> FloatArray:
        """Return replicated data in which each label of a column has new effects.

        The effects are drawn from their population. The effects of other groups are those of the
        draws.

        Raises
        ------
        ConfigError
            If the effects have a flat prior, from which nothing can be drawn.
        """
        predictor = self.predictor(draws)
        return predictor.with_new_effects(self.groups[column], rng).replicated(rng)

    def next_of_groups(self, draws: Draws, rng: np.random.Generator) -> FloatArray:
        """Return a new observation of each group, shape (chain, draw, group).

        Without groups, there is one new observation. The program's rule must provide
        ``Capability.Y_NEW``.
        """
        mean = self.program.declaration.roles.group_mean
        num = 1
        if mean:
            num = draws[mean].shape[2]
        codes = dict.fromkeys(self.groups.values(), np.arange(num))
        rows = NewRows(None, {}, codes, {}, {}, num)
        return Predictor(self.rule, draws, self.data.values, rows).replicated(rng)

    def new_group(self, draws: Draws, seed: int) -> Predictor:
        """Return the predictions of one group that is not in the data."""
        num: int = draws[self.program.declaration.roles.group_mean].shape[2]
        indices, labels = list(self.groups.values()), (*[""] * num, _NEW)
        rows = NewRows(
            table=None,
            values={},
            codes={index: np.array([num]) for index in indices},
            labels=dict.fromkeys(indices, labels),
            known=dict.fromkeys(indices, num),
            num=1,
            keys=[_NEW.encode()],
        )
        return Predictor(self.rule, draws, self.data.values, rows, seed)

    @property
    def labels(self) -> dict[str, Labels]:
        """The columns whose labels define groups of rows, which can be left out together.

        The keys are the table's names. Ratings do not define groups. Neither do combinations of
        columns such as ``a:b``, by which a formula's program adds up rows, unless effects vary by
        them.
        """
        declared, hidden = self.data.declaration, {self.data.value}
        cell = getattr(declared.data.get("cell"), "column", "")
        if declared.formula and ":" in cell and cell not in self.groups:
            hidden.add(cell)
        return {its.column: its for name, its in self.data.labels.items() if name not in hidden}

    def is_of_units(self, dims: Sequence[str]) -> bool:
        """Return whether a quantity with these dimensions has a value for each group or row.

        The coefficients of curves are included, because a curve may have many of them.
        """
        columns = list(self.data.labels)
        if self.has_rule:
            columns = list(group_columns(self.rule, self.frozen))
        labelled = {OBS, *columns, *map(self.data.name_of, columns), self.data.group}
        labelled |= self.data.declaration.imputed.keys()
        return any(dim in labelled or dim.startswith(_OF_CURVES) for dim in dims)

    # Columns

    @cached_property
    def trials(self) -> str:
        """The table's column of trials; empty if there is none."""
        numbers = getattr(self.data.declaration.data.get(TRIALS), "numbers", ())
        if self.has_trials and numbers:
            return self.data.name_of(numbers[0])
        return ""

    @property
    def fixed_trials(self) -> float:
        """The number of trials of each row if it is a constant; 1 if there are no trials."""
        return float(np.ravel(self.data.values.get(TRIALS, 1))[0])

    @cached_property
    def covariates(self) -> dict[str, dict[str, ast.expr]]:
        """The columns on which the response depends, with the functions applied to each.

        Columns of groups, offsets and trials are left out.
        """
        return self._covariates(offsets=False)

    @cached_property
    def covariates_of_mean(self) -> list[str]:
        """The covariates on which the expected response, or the predicted parameter, depends.

        Covariates that enter only another parameter of the family are left out if the mean does not
        depend on this parameter. This is true of sigma in the gaussian family, but not of zi in a
        zero-inflated one.
        """
        family, where = self.family, self.rule.where
        if self.parameter or family.is_ordinal:
            return list(self.covariates)
        seen = _Seen()
        family.mean(np.zeros((1, 1, 1)), seen)
        apart = {its.name for its in family.auxiliary} - seen.keys()
        needed = {name: text for name, text in where.items() if name not in apart}
        rule = self.rule.model_copy(update={"where": needed, "effects": {}})
        sources = [self.frozen.data.get(name) for name in names_of(rule)]
        columns = {self.data.name_of(c) for s in sources if s for c in (*s.numbers, *s.cells)}
        return [name for name in self.covariates if name in columns]

    @cached_property
    def covariates_and_offsets(self) -> dict[str, dict[str, ast.expr]]:
        """Like :attr:`covariates`, but including the columns of offsets."""
        return self._covariates(offsets=True)

    def _covariates(self, *, offsets: bool) -> dict[str, dict[str, ast.expr]]:
        names, found = names_of(self.rule), dict[str, dict[str, ast.expr]]()
        of_members = self.groups.keys() - self.partitions.keys()
        weights = only_of_effects(self.rule, [self.groups[name] for name in of_members])
        for name, source in self.frozen.data.items():
            left_out = name in (TRIALS, *self.rule.response)
            left_out |= name.startswith("offset_") and not offsets
            left_out |= name in weights and isinstance(source, Column)
            if name not in names or left_out:
                continue
            for column in (*source.numbers, *source.cells):
                own = self.data.name_of(column)
                if isinstance(source, Terms):
                    found.setdefault(own, {}).update(around(column, source.terms))
                elif own not in self.groups:
                    found.setdefault(own, {})
        return found

    @cached_property
    def columns_of_rows(self) -> list[str]:
        """All columns that predictions of rows may need, including those for new observations."""
        return [self.data.name_of(its) for its in columns_of_rows(self.rule, self.frozen)]

    @cached_property
    def levels_of_groups(self) -> dict[str, str]:
        """The column whose levels have separate populations of effects, by column of groups."""
        found = {}
        for name, index in indices_of(self.rule):
            level = level_in(self.rule.effects[name]) if name in self.rule.effects else ""
            if level:
                group, factor = (str(self.frozen.data[each].index_of) for each in (index, level))
                found[self.data.name_of(group)] = self.data.name_of(factor)
        return found

    @cached_property
    def levels(self) -> dict[str, list[str]]:
        """The ordered levels of each column that is a factor."""
        return {
            self.data.name_of(column): list(its)
            for source in self.frozen.data.values()
            if isinstance(source, Terms)
            for column, its in source.levels.items()
        }

    @cached_property
    def _products(self) -> list[list[str]]:
        """The columns of each product of terms."""
        sources = [its for its in self.frozen.data.values() if isinstance(its, Terms)]
        products = [each for its in sources for each in read_terms(its.terms).interactions]
        return [[self.data.name_of(name) for name in product] for product in products]

    def interacting(self, column: str) -> list[str]:
        """Return the other columns on which the effect of a column depends, through a product."""
        found = [name for product in self._products if column in product for name in product]
        return [name for name in dict.fromkeys(found) if name != column]

    @cached_property
    def varying(self) -> dict[str, set[str]]:
        """The columns whose effects vary between groups, by the column of the groups."""
        of_index = {index: name for name, index in self.groups.items()}
        found: dict[str, set[str]] = {}
        for index, matrix in varying_columns(self.rule):
            if matrix and index in of_index:
                names = found.setdefault(of_index[index], set())
                source = self.data.declaration.data.get(matrix)
                if isinstance(source, Terms):
                    names.update(map(self.data.name_of, read_terms(source.terms).columns))
        return found

    # The design

    def fixed_design(self) -> FloatArray:
        """Return a column of ones, and the standardised data that enter the linear predictor."""
        rows = self.rows
        names = sorted(names_of(self.rule) & rows.values.keys() - rows.codes.keys())
        names = [name for name in names if name not in (TRIALS, *self.rule.response)]
        values = [np.atleast_2d(np.asarray(rows.values[name], dtype=float).T) for name in names]
        columns = [each for each in values if each.shape[1] == len(rows)]
        matrix = np.concatenate([np.empty((0, len(rows))), *columns]).T
        matrix = matrix - matrix.mean(axis=0)
        size = np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
        return np.hstack([np.ones((len(rows), 1)), matrix / size])

    def random_designs(self) -> Iterator[tuple[IntArray, FloatArray]]:
        """Yield, for each group term, the group of each row and the columns whose effects vary."""
        for index, matrix in varying_columns(self.rule):
            if index in self.rows.codes:
                codes = np.unique(self.rows.codes[index], return_inverse=True)[1]
                z = np.ones((len(codes), 1))
                if matrix:
                    values = np.asarray(self.rows.values[matrix], dtype=float)
                    z = values.reshape(len(codes), -1)
                yield codes, z

    @property
    def design_columns(self) -> dict[str, tuple[str, ...]]:
        """The column names of each matrix whose coefficients do not vary between groups."""
        values = self.data.values
        names = {n: its for n, its in self.data.coords.items() if np.ndim(values.get(n, 0)) == 2}
        if not self.has_rule:
            return names
        of_groups = only_of_effects(self.rule)
        return {name: its for name, its in names.items() if name not in of_groups}

    # The prior

    def prior_draws(self, num_draws: int, rng: np.random.Generator) -> dict[str, FloatArray]:
        """Draw every parameter from its prior in NumPy, each of shape (1, num_draws, …).

        The program must have a prior in Python or state it in its declaration, and the prior must
        be proper; see ``Program.draws_prior``.
        """
        of_python = self.program.python.prior
        if of_python is not None:
            return dict(of_python.draw(self.data, num_draws, rng))
        return prior_draws(self, num_draws, rng)

    def lprior(self, draws: Draws) -> FloatArray:
        """Return the log density of the priors in each draw, shape (chain, draw).

        Raises
        ------
        ConfigError
            If the program has no ``lprior``.
        """
        self.program.require(Capability.LPRIOR)
        of_python, name = self.program.python.prior, self.program.declaration.roles.lprior
        if of_python is not None and of_python.log_density is not None:
            return of_python.log_density(draws, self.data)
        if name not in self.program.source.blocks.draws:
            return log_prior(self, draws)
        # If lprior is a vector, its elements are the terms of a sum.
        return np.asarray(_by_observation(draws[name]).sum(axis=-1))

    @cached_property
    def flat_coefficients(self) -> tuple[str, ...]:
        """The coefficients of a formula whose priors are flat."""
        if self.program.declaration.formula is None:
            return ()
        improper = self.program.improper_priors(self.data.values)
        # If the user fixes some coefficients, the others are sampled as b_free.
        found = (name.replace("b_free", "b", 1) for name in improper)
        return tuple(name for name in found if name in ("b", *self._tagged("b")))

    @property
    def further_predictors(self) -> tuple[str, ...]:
        """The parameters of the family that have linear predictors, such as ``sigma``."""
        family = self.family.auxiliary if self.has_rule else ()
        return tuple(each.name for each in family if each.name in self.rule.where)

    def _tagged(self, name: str) -> list[str]:
        """Return the variables of other parameters' predictors, such as ``b_sigma`` for ``b``."""
        return [f"{name}_{each}" for each in self.further_predictors]

    def omitted_parameters(self, draws: Draws) -> dict[str, tuple[FloatArray, tuple[str, ...]]]:
        """Return the parameters of a formula that are sampled but not kept, with element names.

        Returns
        -------
        mapping of str to (array, tuple of str)
            For each parameter, its draws, shape (chain, draw, element), and the names of its
            elements.
        """
        found, values = dict[str, tuple[FloatArray, tuple[str, ...]]](), self.data.values
        for b in ("b", *self._tagged("b")):
            tag = b.removeprefix("b")
            name, shift = f"Intercept{tag}_at_means", values.get(f"X{tag}_mean")
            if name in self.program.declaration.parameters and shift is not None:
                at_means = draws[f"Intercept{tag}"] + draws[b] @ np.asarray(shift)
                found[name] = at_means[..., None], (name,)
            matrix = values.get(f"adjustment{tag}")
            if matrix is not None and b in draws:
                flat = draws[b].reshape(-1, len(matrix))
                adjusted = np.linalg.solve(np.asarray(matrix), flat.T).T.reshape(draws[b].shape)
                # Data without a table, such as those of a calibration, have no column names.
                columns = self.data.coords.get(f"X{tag}", range(1, len(matrix) + 1))
                labels = tuple(f"b_adjusted{tag}[{label}]" for label in columns)
                found[f"b_adjusted{tag}"] = adjusted, labels
        return found


class _Seen(dict[str, Any]):
    """A record of the parameters that a family's function reads; their values do not matter."""

    def __missing__(self, name: str) -> FloatArray:
        self[name] = found = np.full((1, 1, 1), 0.5)
        return found


def _by_observation(values: NDArray[Any], rows: IntArray | None = None) -> FloatArray:
    """Return values in the shape (chain, draw, N), for observed data of any shape."""
    flat = np.asarray(values.reshape(*values.shape[:2], -1), dtype=np.float64)
    if rows is None:
        return flat
    return flat[..., rows]
