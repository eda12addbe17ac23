"""The model of a formula and a table, from which its program and declaration are written.

References
----------
Bürkner (2017), brms: An R package for Bayesian multilevel models using Stan, Journal of Statistical
Software 80(1), for the priors on the scale of the data. Gabry and Goodrich, rstanarm's vignette on
prior distributions, for the prior on coefficients. Papaspiliopoulos, Roberts and Sköld (2007),
Statistical Science 22(1), section 2, for the parametrisations; DerSimonian and Laird (1986),
Controlled Clinical Trials 7(3), for the variance between groups.
"""

from __future__ import annotations

import itertools
import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.data import Labels, Table
from pyflowers.data.columns import number_of, number_text
from pyflowers.data.labels import has_order
from pyflowers.data.table import LARGEST_INT
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs.design import Design, evaluate, levels_of_numbers, offset, origins_of
from pyflowers.programs.families import Auxiliary, Family
from pyflowers.programs.formulas.coefficients import CoefficientPrior, coefficient_prior
from pyflowers.programs.formulas.grammar import Formula, GroupTerm
from pyflowers.programs.terms import hint_of, is_coded, read_terms, refuse_unknown

FloatArray = NDArray[np.float64]

_OF_PROGRAM = """N N_pointwise pointwise K X X_mean X_centered X_adjusted adjustment y trials D J
    cell kept prior_only held_out b b_adjusted b_scale b_unit eta lprior log_lik y_rep y_num y_total
    y_mean y_ss squares correlation Intercept Intercept_at_means threshold_at_means n d k j m count
    factor"""
_OF_STAN = """for in while if else return break continue true false target functions data
    transformed parameters model generated quantities int real vector row_vector matrix array void
    complex complex_vector complex_row_vector complex_matrix tuple lower upper offset multiplier
    simplex unit_vector sum_to_zero_vector ordered positive_ordered corr_matrix cov_matrix
    cholesky_factor_corr cholesky_factor_cov print reject profile jacobian repeat until then var
    auto static export extern struct typedef"""
_PREFIXES = "(?:offset|centered|outer|sd|cor|r|z|L|N|M|Z)_"
_TAKEN = {*_OF_PROGRAM.split(), *_OF_STAN.split(), *keyword.kwlist}
"""Names that a group cannot have: names of other variables in the program, and keywords of Stan and
of Python, whose parser reads ``[prediction]``."""

KNOWN, KNOWN_WITHIN, WELL_KNOWN = 2.0, 1.0, 5.0
"""Factors for centring: a term is centred if the 95% lower limit of the variance between its groups
is more than the term's factor times the squared error of a group's mean.

The first factor is the usual one. The second is for a term whose groups are nested in those of
another term, and the third for a term with other groups nested in its groups; see decision 16.
"""

KNOWN_AROUND = 1.5
"""A term nested in outer groups is not centred if this factor is reached for the outer groups."""


@dataclass(frozen=True)
class Effects:
    """The effects of a group term.

    Attributes
    ----------
    term : GroupTerm
        The term.
    name : str
        The name of the group in the program.
    effects : tuple of str
        The effects that vary.
    centered : bool
        Whether they are sampled in the centered parametrisation.
    anchored : frozenset of str
        The effects that are sampled as sums with the population's coefficients, if the term is
        centred. If sampled separately, their mean and the coefficient would be nearly unidentified.
    within : str
        The program's name for a coarser group. If the term is centred, its effects are sampled as
        sums with the effects of that group. Empty if there is none.
    """

    term: GroupTerm
    name: str
    effects: tuple[str, ...]
    centered: bool
    anchored: frozenset[str] = frozenset()
    within: str = ""

    @property
    def is_intercept(self) -> bool:
        """Whether the only effect is the intercept."""
        return self.effects == ("Intercept",)

    @property
    def pairs(self) -> tuple[str, ...]:
        """The pairs of effects that are correlated."""
        pairs = itertools.combinations(self.effects, 2)
        return tuple(map(",".join, pairs)) if self.term.correlated else ()


@dataclass(frozen=True)
class Model:
    """A formula, its family and the columns of the table that it names.

    Attributes
    ----------
    formula : Formula
        The formula.
    family : Family
        Its family.
    table : Table
        The rows to which it is fitted.
    parametrisations : mapping of str to bool
        Whether a group term is centred, for terms where the user decides this.
    brms_priors : bool
        Whether the priors are the defaults of brms.
    """

    formula: Formula
    family: Family
    table: Table
    parametrisations: Mapping[str, bool]
    brms_priors: bool = False

    def __post_init__(self) -> None:
        """Refuse unsuitable columns and families."""
        formula, family = self.formula, self.family
        for terms in self.sums:
            refuse_unknown(terms, self.table.cells)
        apart = [t.columns for t in formula.groups if t.group not in self.table.cells]
        own = [formula.response, *itertools.chain.from_iterable(apart)]
        own += [formula.trials] if formula.trials and not formula.trials.isdecimal() else []
        for name in own:
            if name not in self.table.cells:
                hint = hint_of(name, self.table.cells)
                raise DataError(f"{self.table.source}: there is no column {name!r}; {hint}")
        if formula.response in self.columns:
            raise ConfigError(
                f"formula {formula.text!r}: {formula.response} is both the response and a "
                "term; leave it out of the terms"
            )
        if family.has_trials != bool(formula.trials):
            wants = " | trials(n)" if family.has_trials else ""
            raise ConfigError(
                f"formula {formula.text!r}: family {family.name} takes "
                f"{'trials' if wants else 'no trials'}; write {formula.response}{wants} ~ …"
            )
        if family.is_ordinal and not read_terms(formula.population).has_intercept:
            raise ConfigError(
                f"formula {formula.text!r}: family {family.name} has thresholds instead of an "
                "intercept; leave out 0 or -1"
            )
        if formula.trials in self.columns:
            raise ConfigError(
                f"formula {formula.text!r}: {formula.trials} is both the number of trials and a "
                "term; copy the column under another name for the term"
            )
        for term in formula.groups:
            factor = next(filter(self.table.is_factor, read_terms(term.effects).columns), None)
            if term.is_merged and factor:
                raise ConfigError(
                    f"formula {formula.text!r}: {factor} holds labels, so its effects by "
                    f"{term.group} are correlated, and {term.group} cannot have two terms; write "
                    f"one, such as ({factor} | {term.group})"
                )
        for name in self.parametrisations:
            if name not in {term.group for term in formula.groups}:
                groups = ", ".join(term.group for term in formula.groups) or "none"
                raise ConfigError(
                    f"centered {name}: the formula has no such group (its groups: {groups})"
                )

    @property
    def sums(self) -> list[str]:
        """The sums of terms."""
        return [self.formula.population, *(term.effects for term in self.formula.groups)]

    @cached_property
    def population(self) -> str:
        """The terms of the population without the column of ones, which is the intercept."""
        terms = read_terms(self.formula.population)
        return "" if terms.is_empty else terms.text.removeprefix("1 + ")

    @property
    def has_intercept(self) -> bool:
        """Whether the population has an intercept; thresholds count as one."""
        return self.family.is_ordinal or read_terms(self.formula.population).has_intercept

    @property
    def offsets(self) -> tuple[str, ...]:
        """The expressions of the offsets."""
        return read_terms(self.formula.population).offsets

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that the linear predictor uses."""
        own = itertools.chain.from_iterable(read_terms(terms).columns for terms in self.sums)
        groups = itertools.chain.from_iterable(term.columns for term in self.formula.groups)
        return tuple(dict.fromkeys((*own, *groups)))

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
                found[name] = levels_of_numbers(its)
        return found

    def state(self, terms: str) -> dict[str, Any]:
        """Return the values that terms compute from all rows, such as the mean in ``center(x)``."""
        return {} if read_terms(terms).is_empty else self._evaluated(terms).state

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

    @property
    def order_of_ratings(self) -> str | tuple[str, ...]:
        """The order of ordinal responses: by value, or the levels of an ordered Categorical."""
        name = self.formula.response
        return self.table.levels[name] if name in self.table.ordered else "value"

    @cached_property
    def ratings(self) -> Labels:
        """The ratings of an ordinal response, in order."""
        name, table = self.formula.response, self.table
        order = self.order_of_ratings
        labels = table.labels(name, order=order, order_asked=False)
        if isinstance(order, str) and not has_order(labels.names):
            odd = next(label for label in labels.names if np.isnan(number_of(label)))
            raise DataError(
                f"{table.source}: {name} has labels without an order, such as {odd!r}; number "
                "them in their order, or make the column an ordered pandas Categorical"
            )
        if not table.is_factor(name):
            table.numbers(name, whole=True)
        return labels

    @cached_property
    def y(self) -> FloatArray:
        """The response as numbers; ratings are numbered from 1."""
        name, family = self.formula.response, self.family
        if family.is_ordinal:
            return self.ratings.codes.astype(np.float64) + 1
        y = self.table.numbers(
            name,
            if_text=f"make the column numeric, as family {family.name} requires",
        )
        is_count, is_share = family.is_discrete, "upper=1>[N]" in family.response
        is_binary = is_count and "upper=1>" in family.response
        limits = {
            "must be 0 or 1": is_binary & ~np.isin(y, (0, 1)),
            "cannot be negative": is_count & (y < 0),
            "must be a whole number": is_count & (y != np.floor(y)),
            f"must be at most {LARGEST_INT}": is_count & (y > LARGEST_INT),
            "must be above 0": family.is_positive & (y <= 0),
            "must be below 1": is_share & (y >= 1),
        }
        for limit, wrong in limits.items():
            if np.any(wrong):
                row = int(np.argmax(wrong))
                raise DataError(
                    f"{self.table.where(row)}: {name} is {number_text(y[row])}, but for family "
                    f"{family.name} it {limit}; correct it or choose another family"
                )
        return y

    @cached_property
    def trials(self) -> FloatArray:
        """The trials of each row."""
        given = self.formula.trials
        if given.isdecimal() or not given:
            trials = np.full(len(self.table), float(given or 1))
        else:
            trials = self.table.numbers(given, if_text="give a column of whole numbers")
        wrong = (trials < 0) | (trials != np.floor(trials)) | (trials > LARGEST_INT)
        if wrong.any():
            row = int(np.argmax(wrong))
            where = f"formula {self.formula.text!r}" if given.isdecimal() else self.table.where(row)
            raise DataError(
                f"{where}: the number of trials is {number_text(trials[row])}, but it must be a "
                f"whole number from 0 to {LARGEST_INT}; correct it"
            )
        if given and np.any(self.y > trials):
            row = int(np.argmax(self.y > trials))
            raise DataError(
                f"{self.table.where(row)}: {self.formula.response} is {number_text(self.y[row])}, "
                f"but the number of trials is {number_text(trials[row])}; correct one of them"
            )
        return trials

    @cached_property
    def cell(self) -> str:
        """The columns whose combinations define cells of rows that share one linear predictor.

        Their names are joined by colons; empty if the likelihood does not use totals of cells.
        """
        is_joined = any(":" in name for name in self.columns)  # colons separate names and labels
        factors = filter(self.table.is_factor, self.columns)
        is_joined |= any(
            ":" in label for name in factors for label in self.table.labels(name).names
        )
        if self.family.totals is None or not self.columns or is_joined:
            return ""
        name = ":".join(self.columns)
        num = len(set(self.table.column(name)))
        return name if 2 * num <= len(self.table) else ""

    @cached_property
    def effects(self) -> tuple[Effects, ...]:
        """The effects of each group term."""
        found: list[Effects] = []
        spread: list[float] = []
        known = [self._known(term) for term in self.formula.groups]
        for term, (ratio, variance) in zip(self.formula.groups, known, strict=True):
            name = re.sub(r"\W", "_", term.group, flags=re.ASCII).strip("_") or "group"
            if not name[0].isalpha() or re.match(_PREFIXES, name):
                name = f"group_{name}"
            used = _TAKEN | self._names_of_family | {other.name for other in found}
            while name in used or name.endswith("__"):
                name = f"{name.rstrip('_')}_group"
            effects = self.design(_with_ones(term.effects))[1]
            centered = self.parametrisations.get(term.group)
            if centered is None:
                place = self._outer(term)
                least = KNOWN if place is None else KNOWN_WITHIN
                least = WELL_KNOWN if self._inner(term) else least
                is_around = place is not None and known[place][0] >= KNOWN_AROUND
                is_explained = len(effects) > 1 and self._has_group_columns(term)
                centered = ratio > least and not is_around and not is_explained
            spread.append(variance)
            found.append(Effects(term, name, effects, bool(centered)))
        # Each coefficient is added to at most one centred term, the one whose mean the data
        # determine least. A term whose groups are nested in those of another term gets no
        # coefficient; if both terms have only an intercept, the nested term is centred on the other
        # term.
        outer = [self._outer(its.term) for its in found]
        order = [i for i in np.argsort(spread)[::-1] if outer[i] is None]
        own = ["Intercept"] if self.has_intercept and not self.family.is_ordinal else []
        for effect in (*own, *self.population_design[1]):
            takers = [i for i in order if found[i].centered and effect in found[i].effects]
            if takers:
                its = found[takers[0]]
                found[takers[0]] = replace(its, anchored=its.anchored | {effect})
        for i, place in enumerate(outer):
            if place is not None and found[i].is_intercept and found[place].is_intercept:
                found[i] = replace(found[i], within=found[place].name)
        # Terms on which others are centred come first.
        num = {its.name: int(self._codes[its.term.group].max()) for its in found if its.within}
        return tuple(sorted(found, key=lambda its: num.get(its.name, 0)))

    @cached_property
    def auxiliary(self) -> tuple[Auxiliary, ...]:
        """The family's other parameters, with their priors."""
        if not self.brms_priors:
            return self.family.auxiliary
        prior, values = "gamma({alpha}, {beta})", {"alpha": 0.01, "beta": 0.01}
        vague = {"phi"} if self.family.is_discrete else {"phi", "shape"}
        return tuple(
            replace(each, prior=prior, values=values) if each.name in vague else each
            for each in self.family.auxiliary
        )

    @property
    def _names_of_family(self) -> set[str]:
        """The names of the parameters and hyperparameters that do not belong to a group."""
        own = [each.name for each in self.auxiliary]
        priors = [f"{each.name}_{key}" for each in self.auxiliary for key in each.values]
        return {"Intercept_location", "Intercept_scale", *own, *priors}

    @cached_property
    def _codes(self) -> dict[str, NDArray[np.int64]]:
        """The position of each row's label, by group."""
        groups = [term.group for term in self.formula.groups]
        return {group: self.table.labels(group).codes for group in groups}

    def _known(self, term: GroupTerm) -> tuple[float, float]:
        """Return how well the data determine a term's effects, and the variance of their mean.

        The first value is the ratio of the 95% lower limit of the variance between groups to the
        squared error of a group's mean; for several effects, it is the smallest of their ratios.
        """
        matrix, effects = self.design(_with_ones(term.effects))
        means, error = self._means_and_errors(term)
        around = self._around(term)
        between = _between(means, error, around)
        ratio = float(between / np.median(error))
        ratio = ratio if len(effects) == 1 else self._smallest_ratio(term, matrix, around)
        return ratio * _lower_limit(len(means) - int(around.max())), between / len(means)

    def _has_group_columns(self, term: GroupTerm) -> bool:
        """Return whether a term's columns determine another population column within each group.

        An example is ``days:treated`` for ``(days | subject)``, where each subject has one
        treatment. If the effects are centred, the sampler can move the coefficient of that column
        only as fast as it moves all the effects together.
        """
        matrix, effects = self.design(_with_ones(term.effects))
        columns, names = self.population_design
        others = [i for i, name in enumerate(names) if name not in effects]
        columns = columns[:, others]
        if self.has_intercept and "Intercept" not in effects:
            columns = np.hstack([np.ones((len(columns), 1)), columns])
        rest = np.array(columns)
        codes = self._codes[term.group]
        for rows in pd.Series(codes).groupby(codes).indices.values():
            own = np.linalg.lstsq(matrix[rows], columns[rows], rcond=None)[0]
            rest[rows] -= matrix[rows] @ own
        size = np.linalg.norm(columns, axis=0)
        return bool((np.linalg.norm(rest, axis=0) < 1e-8 * size).any())

    def _outer(self, term: GroupTerm) -> int | None:
        """Return the position of the finest term in which a term's groups are nested, or None."""
        codes, own = list(self._codes.values()), self._codes[term.group]
        outer = [i for i, other in enumerate(codes) if _lies_within(own, other)]
        return max(outer, key=lambda i: codes[i].max(), default=None)

    def _around(self, term: GroupTerm) -> NDArray[np.int64]:
        """Return the position of the finest group that contains each group; 0 if there is none."""
        place, own = self._outer(term), self._codes[term.group]
        codes = np.zeros_like(own) if place is None else list(self._codes.values())[place]
        return codes[np.unique(own, return_index=True)[1]]

    def _inner(self, term: GroupTerm) -> list[NDArray[np.int64]]:
        """Return the label positions of other groups that are nested in the groups of a term."""
        own = self._codes[term.group]
        return [codes for codes in self._codes.values() if _lies_within(codes, own)]

    # The numbers in the priors

    @cached_property
    def linked(self) -> FloatArray:
        """The response, transformed to about the linear predictor's scale, minus the offset."""
        y, link = self.y, self.family.link
        if self.family.is_ordinal:
            values = (y - y.mean()) / (y.std() or 1.0)
        elif link == "logit" and self.family.is_discrete:
            values = np.log((y + 0.5) / (self.trials - y + 0.5))
        elif link == "logit":
            values = np.log(y / (1 - y))
        elif self.family.scale == "log":
            values = np.log(y if self.family.is_positive else y + 0.1)
        else:
            values = y
        return np.asarray(values - self.offset, dtype=np.float64)

    @cached_property
    def scale(self) -> float:
        """The scale of priors: 2.5, or the deviation of the linked response if that is larger.

        The deviation is 1.4826 times the median absolute deviation or, if that is 0 because more
        than half of the values are equal, the standard deviation. Families with a fixed scale use
        2.5.
        """
        if self.family.scale == "fixed":
            return 2.5
        if self.brms_priors:
            y = self._linked_as_in_brms
            return max(2.5, round(1.4826 * float(np.median(np.abs(y - np.median(y)))), 1))
        mad = 1.4826 * float(np.median(np.abs(self.linked - np.median(self.linked))))
        return max(2.5, rounded(mad or float(np.std(self.linked))))

    @property
    def _linked_as_in_brms(self) -> FloatArray:
        """The linked response from which brms computes its priors, with the offset."""
        if self.family.scale != "log":
            return self.y
        return np.log(np.where(self.y == 0, 0.1, self.y))

    @cached_property
    def priors(self) -> dict[str, tuple[float, str]]:
        """The hyperparameters, each with its value and meaning."""
        found: dict[str, tuple[float, str]] = {}
        fixed = self.family.scale == "fixed"
        if self.has_intercept and not self.family.is_ordinal:
            # The scale is at least 2.5, so rounding the location to a whole number does no harm.
            median = float(np.median(self.linked))
            location = 0.0 if fixed else rounded(median) if abs(median) < 1000 else round(median)
            if self.brms_priors and not fixed:
                median = round(float(np.median(self._linked_as_in_brms)), 1)
                location = median - float(self.offset.mean())
            at = "the intercept where the terms have their means"
            found["Intercept_location"] = location, f"location of the t prior on {at}"
            found["Intercept_scale"] = self.scale, f"scale of the t prior on {at}"
        names = self.population_design[1] if self.coefficients is not None else ()
        scales = self.coefficients.scales if self.coefficients is not None else ()
        on = "b_adjusted" if self.is_adjusted else "b"
        for name, scale in zip(names, scales, strict=True):
            meaning = f"sd of the normal prior on {on}[{name}]"
            found[f"b_scale[{name}]"] = rounded(float(scale)), meaning
        for its in self.effects:
            about = f"scale of the half-t prior on the sd of effects by {its.term.group}"
            if its.is_intercept or self.brms_priors:
                found[f"sd_{its.name}_scale"] = self.scale, about
            else:
                for name, scale in zip(its.effects, self._slope_scales(its), strict=True):
                    found[f"sd_{its.name}_scale[{name}]"] = scale, f"{about}: {name}"
            if its.pairs:
                eta = 1.0 if self.brms_priors else 2.0
                found[f"cor_{its.name}_eta"] = eta, f"eta of the LKJ prior on cor_{its.name}"
        for each in self.auxiliary:
            for key, value in each.values.items():
                used = self.scale if value is None else value
                found[f"{each.name}_{key}"] = used, f"{key} of the prior on {each.name}"
        return found

    @cached_property
    def coefficients(self) -> CoefficientPrior | None:
        """The default prior of the population's coefficients; None if there is none."""
        if self.brms_priors or not self.population:
            return None
        # Without an intercept, coefficients also determine the mean; spreads are measured from 0.
        about_mean = self.has_intercept
        spread = _spread(self.y, about_mean) if self.family.scale == "y" else 1.0
        if self.family.scale == "log" and not about_mean:
            spread = max(1.0, _spread(self.linked, about_mean))
        cells = {name: self.cells[name] for name in read_terms(self.population).columns}
        return coefficient_prior(
            self.population_design[0],
            origins_of(self.population, cells),
            spread or 1.0,
            about_mean=about_mean,
        )

    @property
    def is_adjusted(self) -> bool:
        """Whether the coefficients of adjusted columns are sampled, as some columns are linked."""
        return self.coefficients is not None and self.coefficients.adjustment is not None

    def _slope_scales(self, its: Effects) -> list[float]:
        """Return the scales of the priors on the sds of a term's effects, in units of its columns.

        Columns of 0 and 1 stand for differences between levels, which have the response's unit.
        """
        matrix = self.design(_with_ones(its.term.effects))[0]
        units = [
            1.0
            if np.isin(column, (0.0, 1.0)).all()
            else _spread(column, "Intercept" in its.effects)
            for column in matrix.T
        ]
        return [rounded(self.scale / (unit or 1.0)) for unit in units]

    @cached_property
    def _fitted(self) -> FloatArray:
        """The least-squares fit of the population terms to the response `linked`."""
        fixed = np.hstack([np.ones((len(self.table), 1)), self.population_design[0]])
        return np.asarray(fixed @ np.linalg.lstsq(fixed, self.linked, rcond=None)[0])

    def _smallest_ratio(
        self, term: GroupTerm, matrix: FloatArray, around: NDArray[np.int64]
    ) -> float:
        """Return the smallest ratio of variance between groups to error among a term's effects.

        The effects of each group and their errors come from one step of weighted least squares,
        which starts from the population's fit or, with a logit link, the overall share of successes
        (McCullagh and Nelder 1989, Generalized Linear Models, section 2.5). The ratio is 0 if the
        rows of a group do not determine its effects.
        """
        group, fitted = self._codes[term.group], self._fitted
        residual, weight = self.linked - fitted, np.ones(len(group))
        is_count = self.family.is_discrete and not self.family.is_ordinal
        if is_count:
            if self.family.link == "log":
                mean = np.exp(np.clip(fitted + self.offset, -20, 20))
                weight = mean = mean * (self.y.sum() + 0.5) / (mean.sum() + 0.5)
            else:
                share = (self.y.sum() + 0.5) / (self.trials.sum() + 1)
                mean = self.trials * share
                weight = mean * (1 - share) + 1e-9
            residual = (self.y - mean) / weight
        num, size = int(group.max()) + 1, matrix.shape[1]
        squares, products = np.zeros((num, size, size)), np.zeros((num, size))
        np.add.at(squares, group, weight[:, None, None] * matrix[:, :, None] * matrix[:, None, :])
        np.add.at(products, group, (weight * residual)[:, None] * matrix)
        dof = len(group) - num * size
        if dof <= 0 or np.linalg.matrix_rank(squares, hermitian=True).min() < size:
            return 0.0
        covariance = np.linalg.inv(squares)
        effects = np.einsum("gij,gj->gi", covariance, products)
        rest = residual - np.sum(effects[group] * matrix, axis=1)
        scale = float(np.sum(weight * rest**2)) / dof
        errors = np.diagonal(covariance, axis1=1, axis2=2) * (max(scale, 1) if is_count else scale)
        return min(
            _between(own, error, around) / float(np.median(error))
            for own, error in zip(effects.T, errors.T, strict=True)
        )

    def _means_and_errors(self, term: GroupTerm) -> tuple[FloatArray, FloatArray]:
        """Return group means on the scale of the linear predictor, and their squared errors.

        The result is approximate: covariates enter by least squares, effects of coarser groups are
        subtracted, and rows of a finer group within this one are combined. If the means vary much
        more than their errors (see `KNOWN`), the data determine the effects better than the
        population does, and the term is centred.
        """
        group, within = self._codes[term.group], self._inner(term)
        coarser = [
            codes
            for codes in self._codes.values()
            if codes.max() < group.max() and not _lies_within(group, codes)
        ]
        unit = min(within, key=lambda codes: int(codes.max()), default=np.arange(len(group)))
        group = group[np.unique(unit, return_index=True)[1]]
        fitted = self._fitted
        residual = self.linked - fitted
        if self.family.link == "log" and self.family.is_discrete:
            means, error = self._of_counts(unit if within else group, coarser, fitted)
            if not within:
                return means, error
            residual = means[unit]
        for codes in coarser:
            residual = residual - _means(residual, codes)[codes]
        residual = _means(residual, unit)
        means, sizes = _means(residual, group), np.bincount(group)
        if self.family.link == "logit" and self.family.is_discrete and not self.family.is_ordinal:
            share = (self.y.sum() + 0.5) / (self.trials.sum() + 1)
            trials = np.bincount(group, np.bincount(unit, self.trials))
            return means, 1 / (np.maximum(trials, 0.5) * share * (1 - share))
        dof = len(group) - len(means)
        square = float(np.sum((residual - means[group]) ** 2)) / dof if dof else np.inf
        return means, square / sizes

    def _of_counts(
        self, group: NDArray[np.int64], coarser: list[NDArray[np.int64]], fitted: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the log of observed over expected counts for each group, and its squared error."""
        expected = np.exp(np.clip(fitted + self.offset, -20, 20))
        for codes in (np.zeros(len(group), dtype=np.int64), *coarser):
            ratio = (np.bincount(codes, self.y) + 0.5) / (np.bincount(codes, expected) + 0.5)
            expected = expected * ratio[codes]
        total = np.bincount(group, self.y) + 0.5
        ratio = total / (np.bincount(group, expected) + 0.5)
        mean, dof = expected * ratio[group], len(group) - len(total)
        # Effects of single rows absorb all variation beyond that of Poisson counts.
        if any(codes.max() + 1 == len(codes) for codes in self._codes.values()):
            dof = 0
        dispersion = float(np.sum((self.y - mean) ** 2 / mean)) / dof if dof else 1.0
        return np.asarray(np.log(ratio)), np.asarray(max(dispersion, 1.0) / total)


def _between(means: FloatArray, error: FloatArray, around: NDArray[np.int64]) -> float:
    """Return the variance between groups in excess of their errors (DerSimonian and Laird 1986).

    For groups that are nested in other groups, whose positions are `around`, it is the variance
    within the outer groups.
    """
    weight, num = 1 / error, len(means) - 1 - int(around.max())
    total = np.bincount(around, weight)
    if num < 1 or not np.isfinite(error).all() or not total.all():
        return 0.0
    centre = np.bincount(around, weight * means) / total
    spread = float(np.sum(weight * (means - centre[around]) ** 2))
    return float((spread - num) / (weight.sum() - np.sum(np.bincount(around, weight**2) / total)))


def _lower_limit(num: int) -> float:
    """Return the ratio of the 95% lower limit of a variance to its estimate from `num` values."""
    from scipy.special import chdtri

    return float((num - 1) / chdtri(num - 1, 0.05)) if num > 1 else 0.0


def _with_ones(effects: str) -> str:
    """Return the terms in a bracket; they have an intercept unless one of them is 0."""
    terms = read_terms(effects)
    if terms.offsets:
        raise ConfigError(
            f"terms {effects!r}: an offset does not vary by group; put it outside the brackets"
        )
    if terms.is_empty and not terms.has_intercept:
        raise ConfigError(f"terms {effects!r}: nothing varies; write 1, or a column")
    return terms.text


def _lies_within(inner: NDArray[np.int64], outer: NDArray[np.int64]) -> bool:
    """Whether each inner group is in one outer group, and there are more inner groups than outer.

    Inner groups do not count if every one of them is a single row.
    """
    pairs = len(set(zip(inner.tolist(), outer.tolist(), strict=True)))
    return pairs == inner.max() + 1 > outer.max() + 1 and pairs < len(inner)


def _means(values: FloatArray, codes: NDArray[np.int64]) -> FloatArray:
    return np.asarray(np.bincount(codes, weights=values) / np.bincount(codes), dtype=np.float64)


def _spread(values: FloatArray, about_mean: bool) -> float:
    """Return the standard deviation of values, or their root mean square; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    return float(np.std(values, ddof=1) if about_mean else np.sqrt(np.mean(values**2)))


def rounded(value: float) -> float:
    """Return a number rounded to three significant digits, for a declaration."""
    return float(f"{value:.3g}")
