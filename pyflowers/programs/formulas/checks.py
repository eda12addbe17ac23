"""Checks of a formula's data: errors, and notes for the reader before sampling."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.data.columns import number_of, number_text
from pyflowers.data.labels import times_in
from pyflowers.data.table import MOST_NAMED
from pyflowers.errors import DataError
from pyflowers.programs.formulas.grammar import GroupTerm
from pyflowers.programs.formulas.model import Model
from pyflowers.programs.formulas.priors import DefaultPriors
from pyflowers.text import counted, in_words, shortened

FEWEST_GROUPS = 5
MOST_EFFECTS = 10
"""The maximum number of correlated effects in a group term; 10 effects have 45 correlations."""


MOST_RATINGS = 20
"""The longest scale of whole numbers for which ratings that do not occur are noted."""

NUM_ROWS = 500
"""The number of rows with which the search for a separating direction begins, and the most that
each round adds."""
SMALL_SD = 0.02
"""The standard deviation of a response below which a note suggests a smaller unit."""


def check_model(model: Model, priors: DefaultPriors) -> None:
    """Reject a model that is not identified by its data.

    Raises
    ------
    DataError
        If the model is rejected; the message gives the reason in one sentence.
    """
    # Reading these attributes checks their values.
    largest, _, _ = model.y.max(), model.trials, model.response_values
    if model.family.is_ordinal and largest < 2:
        raise DataError(
            f"{model.table.source}: {model.formula.response} has only one distinct rating, but "
            f"family {model.family.name} needs at least two; choose another column or family"
        )
    has_residual = any(each.name == "sigma" for each in model.family.auxiliary)
    if has_residual and len(model.y) > 1 and np.ptp(model.y) == 0:
        raise DataError(
            f"{model.table.source}: {model.formula.response} is {number_text(model.y[0])} in every "
            "row, so the data allow a residual sd of 0; choose another response"
        )
    check_design(model, priors)


def check_design(model: Model, priors: DefaultPriors) -> list[str]:
    """Check everything except the range of the responses, which may be simulated; return notes."""
    _refuse_redundant(model)
    notes = [
        *_about_levels(model),
        *_about_ratings(model),
        *_about_outcomes(model),
        *_about_groups(model),
        *_about_separation(model, priors),
    ]
    for each in (*model.parameters, *model.imputed):
        _refuse_redundant(each)
        notes += [*_about_levels(each), *_about_groups(each)]
    return list(dict.fromkeys(notes))


def _refuse_redundant(model: Model) -> None:
    """Reject columns of the design that are combinations of others, naming them."""
    matrix, names = model.population_design
    means = np.zeros(len(names))
    if model.has_intercept:
        means = matrix.mean(axis=0)
        matrix, names = np.hstack([np.ones((len(matrix), 1)), matrix]), ("Intercept", *names)
        means = np.array([0.0, *means])
    if not names:
        return
    # Columns far from 0, such as years, are nearly multiples of the intercept until centred.
    centred = matrix - means
    is_constant = np.linalg.norm(centred, axis=0) < 1e-12 * np.linalg.norm(matrix, axis=0)
    centred = np.where(is_constant, 0.0, centred)
    scaled = centred / np.where((size := np.linalg.norm(centred, axis=0)) > 0, size, 1)
    basis = np.empty((len(matrix), 0))
    redundant = []
    for name, column in zip(names, scaled.T, strict=True):
        rest = column - basis @ (basis.T @ column)
        rest -= basis @ (basis.T @ rest)
        if (norm := np.linalg.norm(rest)) < 1e-8:
            redundant.append(name)
        else:
            basis = np.column_stack([basis, rest / norm])
    if redundant:
        named = shortened(redundant, MOST_NAMED)
        one = len(redundant) == 1
        are, them, what = "are", "them", "combinations of others"
        if one:
            are, them, what = "is", "it", "a combination of others"
        first = matrix[:, names.index(redundant[0])]
        if one and np.ptp(first) == 0:
            what = f"{number_text(first[0])} in every row"
        remedy = f"leave {them} out of the formula"
        if model.levels(model.population) and any(":" in name for name in redundant):
            remedy += ", or replace the factors with one column of the combinations that occur"
        factor = _largest_factor(model)
        others = [i for i, name in enumerate(names) if not factor or not name.startswith(factor)]
        rank = np.linalg.matrix_rank(scaled[:, others])
        whose = "the formula's columns"
        if model.parameter is not None:
            whose = f"the columns of {model.formula.text!r}"
        if factor and rank == len(others):
            raise DataError(f"{model.table.source}: {_about_factor(model, factor)}")
        raise DataError(
            f"{model.table.source}: of {whose}, {named} {are} {what} "
            f"({counted(len(names), 'column')}, rank {basis.shape[1]}, {len(matrix)} "
            f"rows); {remedy}"
        )


def _largest_factor(model: Model) -> str:
    """Return a factor of times, or one with more levels than half the rows; empty if none."""
    factors = model.levels(model.population)
    of_times = [name for name, levels in factors.items() if any(times_in(levels))]
    large = [name for name, levels in factors.items() if 2 * len(levels) > len(model.table)]
    return max(of_times or large, key=lambda name: len(factors[name]), default="")


def _about_factor(model: Model, name: str) -> str:
    """Return a sentence on a factor that leaves nothing for other columns to explain."""
    levels = model.levels(model.population)[name]
    kind, number = times_in(levels)
    are, remedy = "", f"write a group term, (1 | {name})"
    if kind:
        are, remedy = f" are {kind} and", f"convert it to a number, such as {number}"
    return (
        f"{name} is a factor whose {len(levels)} levels{are} leave nothing "
        f"for the other columns to explain ({len(model.table)} rows); {remedy}"
    )


def about_response(model: Model) -> list[str]:
    """Return a note on a response that is the same in every row, or whose unit is too large."""
    if model.family.has_columns:
        return [
            f"{name} is 0 in every row, so its log odds depend only on their priors"
            for name, own in zip(model.categories, model.y.T, strict=True)
            if not own.any()
        ]
    sd = float(np.std(model.y))
    if model.family.scale == "y" and 0 < sd < SMALL_SD:
        factor = 10 ** -math.floor(math.log10(sd))
        return [
            f"{model.formula.response} has an sd of {sd:.2g}, but the default priors have scales "
            f"of at least 2.5, and sampling begins with an sd near 1; multiply "
            f"{model.formula.response} by {factor:g}"
        ]
    y = model.y
    if len(y) < 2 or model.family.is_ordinal:
        return []
    spread, value = np.ptp(y), number_text(y[0])
    if model.family.has_trials and y.any():
        spread, value = np.ptp(y - model.trials), "equal to its trials"
    if spread > 0:
        return []
    return [
        f"{model.formula.response} is {value} in every row, so the data only bound the parameters, "
        "and where they lie within these bounds depends on the prior"
    ]


def _about_levels(model: Model) -> Iterator[str]:
    """Yield notes on levels that do not occur, and on factors whose levels are times."""
    for name, its in model.cells.items():
        if not isinstance(its, pd.Categorical):
            continue
        declared = model.table.levels.get(name, ())
        unused = [level for level in declared if level not in set(its.categories)]
        if unused:
            which, have, are = "level", "has", "is"
            if len(unused) > 1:
                which, have, are = "levels", "have", "are"
            yield f"{which} {', '.join(unused)} of {name} {have} no rows and {are} left out"
        kind, number = times_in(list(its.categories))
        if kind:
            yield (
                f"{name} is a factor whose {len(its.categories)} levels are {kind}; for a trend, "
                f"convert it to a number, such as {number}"
            )


def _about_ratings(model: Model) -> Iterator[str]:
    """Yield notes on ratings that are renumbered, and on those that do not occur."""
    if not model.family.is_of_labels:
        return
    if model.family.has_categories and not isinstance(model.order_of_ratings, str):
        lacking = [each for each in model.order_of_ratings if each not in model.categories]
        if lacking:
            has = "has no rows, so its probability is 0"
            if len(lacking) > 1:
                has = "have no rows, so their probabilities are 0"
            yield f"{in_words(lacking)} of {model.formula.response} {has}"
    if not model.family.is_ordinal:
        return
    name, ratings = model.formula.response, model.ratings.names
    numbers, num = list(map(number_of, ratings)), len(ratings)
    if np.isnan(numbers).any():
        yield (
            f"the ratings {', '.join(ratings)} of {name} are numbered 1 to {num}, in "
            "predictions as well"
        )
    elif numbers != [*range(1, num + 1)]:
        yield (
            f"the ratings {', '.join(map(number_text, numbers))} of {name} are numbered 1 to {num} "
            f"in the program; predictions are on the scale of {name}"
        )
    if isinstance(model.order_of_ratings, str):
        unused = []
        if np.ptp(numbers) < MOST_RATINGS:
            between = np.arange(numbers[0], numbers[-1]).tolist()
            unused = [number_text(each) for each in between if each not in numbers]
        if len(unused) >= num:  # the ratings are more likely in steps of 5 or 10
            unused = []
    else:
        unused = [each for each in model.order_of_ratings if each not in ratings]
    if unused:
        which, have, are = "ratings", "have", "their probabilities are"
        if len(unused) == 1:
            which, have, are = "rating", "has", "its probability is"
        yield f"{which} {', '.join(unused)} of {name} {have} no rows and no threshold, so {are} 0"


def _about_outcomes(model: Model) -> Iterator[str]:
    """Yield a note on which of two labels of the response is 1."""
    if model.outcomes:
        zero, one = model.outcomes
        yield (
            f"{model.formula.response} is 1 where it is {one!r}, and 0 where it is {zero!r}; to "
            f'swap them, write C({model.formula.response}, levels=["{one}", "{zero}"]) ~ …'
        )


def _about_groups(model: Model) -> Iterator[str]:
    table = model.table
    factors = model.levels(model.formula.population)
    for its in model.effects:
        term, labels = its.term, model.labels_of(its.term)
        factor = next((column for column in term.columns if column in factors), None)
        if factor is not None and len(term.columns) == 1 and "Intercept" in its.effects:
            raise DataError(
                f"{table.source}: {factor} is both a factor outside the group terms and the group "
                f"of {term}, so the effects of the two cannot be told apart; leave one of them out"
            )
        if len(labels) < 2:
            raise DataError(f"{table.source}: {term.group} has one label; leave {term} out")
        if term.by:
            _refuse_several_levels(model, term)
        if term.weights:
            _refuse_weights(model, term)
        if len(labels) < FEWEST_GROUPS:
            yield (
                f"{term.group} has {len(labels)} labels, so sd_{its.name} depends mostly on its "
                "prior"
            )
        has_residual = any(each.name == "sigma" for each in model.family.auxiliary)
        is_row = len(labels) == len(table) and not term.members
        if has_residual and model.parameter is None and is_row:
            raise DataError(
                f"{table.source}: each row has its own label of {term.group}, so the effects of "
                f"{term} cannot be told apart from the residuals; leave {term} out"
            )
        if its.pairs and len(its.effects) > MOST_EFFECTS:
            num = len(its.pairs)
            raise DataError(
                f"{table.source}: {term} has {len(its.effects)} effects with {num} correlations, "
                f"but at most {MOST_EFFECTS} effects may be correlated; write "
                f"({term.effects} || {term.group}), or fewer effects"
            )
    yield from _about_labels(model)


def _refuse_several_levels(model: Model, term: GroupTerm) -> None:
    """Reject a factor that has several levels within a group, and one with a single level."""
    labels, levels = model.table.labels(term.group), model.table.labels(term.by)
    if len(levels) < 2:
        raise DataError(
            f"{model.table.source}: {term.by} is {levels.names[0]!r} in every row; leave "
            f"by={term.by} out of {term}"
        )
    first, different = labels.first_of_each(levels.codes)
    if different.size:
        row = int(different[0])
        one, other = (levels.names[code] for code in (first[labels.codes[row]], levels.codes[row]))
        raise DataError(
            f"{model.table.where(row)}: {term.group} {labels.names[labels.codes[row]]} has "
            f"{term.by} {other} here and {one} in another row, but {term} needs one {term.by} for "
            f"each {term.group}; write (0 + {term.by} || {term.group}), or correct the table"
        )


def _refuse_weights(model: Model, term: GroupTerm) -> None:
    """Reject weights of members from which no mean can be computed."""
    table = model.table
    values = np.stack([table.numbers(name) for name in term.weights])
    if not term.is_scaled:
        return
    if (values < 0).any():
        column, row = np.argwhere(values < 0)[0]
        raise DataError(
            f"{table.where(int(row))}: {term.weights[column]} is {number_text(values[column, row])}"
            f", but a weight in {term} must be 0 or above; correct it, or write scale=FALSE"
        )
    total = values.sum(axis=0)
    if not total.all():
        raise DataError(
            f"{table.where(int(np.argmax(total == 0)))}: all weights in {term} are 0; give one of "
            "them a weight above 0, or leave the row out"
        )


def _about_labels(model: Model) -> Iterator[str]:
    """Yield notes on labels of an inner group that occur in several outer groups."""
    groups = [term.group for term in model.formula.groups if not term.members]
    for outer in groups:
        for inner in groups:
            if inner.startswith(f"{outer}:"):
                own = inner.removeprefix(f"{outer}:")
                if ":" in own or own in groups:
                    continue
                # The table of a fit may have only the joined labels, not those of the inner group.
                joined = zip(model.table.texts(inner), model.table.texts(outer), strict=True)
                pairs = dict.fromkeys(
                    (its.removeprefix(f"{holder}:"), holder) for its, holder in joined
                )
                times = Counter(label for label, _ in pairs)
                shared = [label for label, num in times.items() if num > 1]
                if shared:
                    yield (
                        f"labels of {own}, such as {shared[0]}, occur in more than one {outer}; "
                        f"in {inner}, the same label stands for a different group in each {outer}"
                    )
        plain = [g for g in groups if ":" not in g and g != outer]
        for inner in plain if ":" not in outer else []:
            codes, holders = model.table.labels(inner).codes, model.table.labels(outer).codes
            num, sizes = int(codes.max()) + 1, np.bincount(codes)
            num_outer = int(holders.max()) + 1
            num_pairs = len(np.unique(codes.astype(np.int64) * num_outer + holders))
            if num < num_pairs <= 1.5 * num and sizes.max() > 1 and num > num_outer:
                yield (
                    f"some labels of {inner} occur in more than one {outer}; if they are different "
                    f"groups in each {outer}, write (1 | {outer}/{inner})"
                )


def _about_separation(model: Model, priors: DefaultPriors) -> Iterator[str]:
    """Yield notes on columns that separate successes from failures, or zeros from other counts."""
    if model.family.has_categories:
        for each in model.parameters:
            yield from _about_lacking_categories(each, priors)
        return
    if model.family.is_ordinal:
        for name, column in zip(
            model.population_design[1], model.population_design[0].T, strict=True
        ):
            if _orders(column, model.y) or _orders(-column, model.y):
                yield (
                    f"{name} perfectly separates ratings of {model.formula.response}, "
                    f"{_unlimited(priors, [name])}"
                )
        return
    is_count = model.family.counts_events
    if np.ptp(model.y) == 0 or not (is_count or model.family.counts_successes):
        return
    matrix, names = model.population_design
    described, rows = [], model.trials > 0  # rows without trials contain no information
    for name, column in zip(names, matrix.T, strict=True):
        values = np.unique(column)
        if len(values) != 2:
            continue
        # Without an intercept, rows with 0 give no information about the coefficient.
        for value in values if model.has_intercept else values[values != 0]:
            y, n = model.y[column == value].sum(), model.trials[column == value].sum()
            if n and (y == 0 or (y == n and not is_count)):
                share = f"{y:g} of {n:g} are successes"
                if is_count:
                    share = f"every {model.formula.response} is 0"
                yield f"where {name} is {value:g}, {share}, {_unlimited(priors, [name])}"
                described.append(name)
                rows &= column != value
    remaining = [name for name in names if name not in described]
    while found := _separating_columns(model, remaining, rows):
        two_values = len(np.unique(matrix[:, names.index(found[0])])) == 2
        some = f"a combination of {in_words(found)}"
        if len(found) == 1:
            some = found[0]
            if two_values:
                some = f"a combination of {some} and the intercept"
        does = "perfectly predicts some successes or failures"
        if is_count:
            does = f"marks rows in which every {model.formula.response} is 0"
        yield f"{some} {does}, {_unlimited(priors, found)}"
        remaining = [name for name in remaining if name not in found]


def _about_lacking_categories(model: Model, priors: DefaultPriors) -> Iterator[str]:
    """Yield notes on columns with two values, at one of which a category never occurs."""
    assert model.parameter is not None
    code = model.family.predictors.index(model.parameter.name) + 2
    for name, column in zip(model.population_design[1], model.population_design[0].T, strict=True):
        values = np.unique(column)
        if len(values) != 2:
            continue
        for value in values if model.has_intercept else values[values != 0]:
            own = column == value
            lacking = next((each for each in (code, 1) if not model.has_category(each, own)), None)
            if lacking is not None:
                label = model.categories[lacking - 1]
                none = f"no {model.formula.response} is {label}"
                if model.family.has_columns:
                    none = f"every {label} is 0"
                rests = _unlimited(priors, [name], model.tag)
                yield f"where {name} is {value:g}, {none}, {rests}"


def _orders(column: NDArray[np.float64], y: NDArray[np.float64]) -> bool:
    """Whether no row has a larger value than a row with a higher rating.

    The likelihood then increases without limit with the coefficient, while each threshold stays
    between the values of two ratings.
    """
    of_ratings = [column[y == rating] for rating in np.unique(y)]
    pairs = itertools.pairwise(of_ratings)
    return bool(np.ptp(column) > 0) and all(low.max() <= high.min() for low, high in pairs)


def _unlimited(priors: DefaultPriors, names: list[str], tag: str = "") -> str:
    """Return a clause on what separation means for the coefficients of the columns."""
    b, one = in_words([f"b{tag}[{name}]" for name in names]), len(names) == 1
    remedy = f"leave out --priors {priors.name}"
    if priors.is_flat and one:
        return f"and the prior of {b} is flat, so nothing limits it; {remedy}"
    if priors.is_flat:
        return f"and the priors of {b} are flat, so nothing limits them; {remedy}"
    if one:
        return f"so that {b} rests on its prior"
    return f"so that {b} rest on their priors"


def _separating_columns(model: Model, names: list[str], rows: NDArray[np.bool_]) -> list[str]:
    """Return a smallest set of columns with a combination that separates the data, or none.

    The likelihood then increases without limit along some direction b: x b is never negative where
    all trials are successes and never positive where none are, and it is 0 elsewhere, as for counts
    above 0 (Konis 2007; Correia, Guimarães and Zylkin 2019). A linear program finds such a
    direction.
    """
    side = np.where(model.y == 0, -1.0, 0.0)[rows]
    if model.family.counts_successes:
        side += (model.y == model.trials)[rows]
    if not names or not side.any():
        return []
    from scipy.optimize import linprog  # slow to import, and needed by few models

    design, all_names = model.population_design
    matrix = design[:, [all_names.index(name) for name in names]][rows]
    if model.has_intercept:
        matrix = np.column_stack([matrix - matrix.mean(axis=0), np.ones(len(matrix))])
    largest = np.abs(matrix).max(axis=0)
    matrix = matrix / np.where(largest > 0, largest, 1)
    signed = side[side != 0, None] * matrix[side != 0]
    fixed = np.linalg.qr(matrix[side == 0])[1]
    zeros = np.zeros(len(fixed))

    def separates(kept: list[int]) -> bool:
        """Return whether a direction of these columns, and the intercept, separates the data."""
        some = [*kept, *range(len(names), matrix.shape[1])]
        a, a_eq = -signed[:, some], fixed[:, some]
        goal, active = a.sum(axis=0), np.arange(min(len(a), NUM_ROWS))
        # Few of the rows bound the direction; rows that it violates are added until there are none.
        while True:
            found = linprog(goal, a[active], np.zeros(len(active)), a_eq, zeros, bounds=(-1, 1))
            # A multiple of a direction is also a direction, so the longest one within the bounds
            # reaches them. If these rows make columns collinear, some directions have no effect.
            if found.status != 0 or np.abs(found.x).max() < 0.5 or found.fun > -1e-4:
                return False
            violation = a @ found.x
            worst = np.argsort(-violation)[:NUM_ROWS]
            worst = np.setdiff1d(worst[violation[worst] > 1e-6], active)
            if len(worst) == 0:
                return True
            active = np.concatenate([active, worst])

    kept = list(range(len(names)))
    if not separates(kept):
        return []
    for i in range(len(names)):
        if separates(without := [j for j in kept if j != i]):
            kept = without
    return [names[j] for j in kept]
