"""Any family with one or two effects in one group, or without groups: integrals by quadrature.

Given the coefficients b, the sd s of the effects and the family's other parameters, the effects of
different labels are independent, and each is integrated out in one dimension:

    p(y | b, s, …) = Π_label ∫ N(u; 0, s²) Π_n p(y[n] | offset[n] + x[n] b + z[n] u, …) du.

The Gauss-Hermite rule is centred at the mode of each integrand [1], for all labels and many
parameter values at once, in a coordinate z,

    u = mode + (l + r) / 2 z + (r - l) / 2 (√(1 + z²) - 1),

whose scale is l far to the left and r far to the right, as that of the integrand: that of a label
whose counts are all 0 falls slowly to the left. The number of nodes is chosen so that more nodes
change nothing. Two effects of a label have integrals in two dimensions; see :mod:`.pairs`. What
remains is the density of b, s and the other parameters. The effects are
drawn from their one-dimensional densities by rejection, under a split Student t distribution.

References
----------
.. [1] Pinheiro and Bates (1995), Approximations to the log-likelihood function in the nonlinear
   mixed-effects model, J. of Computational and Graphical Statistics 4(1), section 2.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pyflowers.cores import in_order
from pyflowers.engines.integrated.hyper import Coordinates, Values
from pyflowers.engines.integrated.importance import SplitT, Stretch
from pyflowers.engines.integrated.pairs import PairIntegrals
from pyflowers.programs.families import TRIALS, Family
from pyflowers.programs.linear import Coefficients, LinearModel
from pyflowers.text import in_words

FloatArray = NDArray[np.float64]

NUM_NODES = (9, 15, 25, 41, 65)
"""Numbers of nodes that are tried, in this order."""

NUM_NODES_OF_PAIRS = (5, 9, 15, 25)
"""The same for each dimension of two."""

LARGEST_ERROR = 1e-3
"""The change of the log density at more nodes with which a number of nodes is enough."""

MANY_ROWS = 20_000
"""The number of rows above which fewer points are weighed than there are draws."""

_CHUNK = 60_000
"""About how many numbers an array of points and rows holds, so that it stays in the cache."""

_MOST_ROUNDS = 1_000
"""The largest number of times that an effect is proposed."""

_MOST_STEPS = 40
_CLOSE = 1e-3
"""The last Newton step towards a mode, in units of the integrand's width."""

_MARGIN = 0.1
"""What is added to the log of the ratio of density to proposal at the nodes, to allow for larger
ratios between them."""

_PLACES = (-4.0, -2.6, -1.7, -1.0, -0.5, 0.0, 0.5, 1.0, 1.7, 2.6, 4.0)
"""Where density and proposal are compared, in units of the proposal's scales."""

_DOF = 5.0
"""Degrees of freedom of the proposals for effects."""


def reason_against(model: LinearModel) -> str:
    """Return why this method does not apply to a model; empty if it does."""
    family = f"the family {model.family.text}"
    if model.predicted:  # without it, more could be integrated out of a normal response
        family += f" with a formula for {in_words(list(model.predicted))}"
    if model.penalised:
        return f"for {family}, {model.penalised[0].name} cannot be integrated out"
    if model.se is not None or model.precision is not None:
        return f"for {family}, standard errors and precisions do not enter the integrals"
    if len(model.effects) > 1:
        return (
            f"it has {len(model.effects)} group terms, and for {family} only one can be "
            "integrated out"
        )
    if model.effects and model.effects[0].target:
        return f"effects of {model.effects[0].target} cannot be integrated out"
    if model.effects and model.effects[0].num_effects > 2:
        return (
            f"{model.effects[0].num_effects} effects vary by group, and for {family} only two can "
            "be integrated out"
        )
    return ""


class OneFactorModel:
    """The posterior of all parameters but the effects of one group, and draws of these effects.

    Parameters
    ----------
    model : LinearModel
        The model, to which :func:`reason_against` has no objection.
    """

    def __init__(self, model: LinearModel) -> None:
        self.model, self.family = model, model.family
        rows, y, trials = model.rows, model.y, model.trials
        self.times: FloatArray | float = 1.0
        if self.family.is_discrete:  # rows that are equal in all respects count several times
            keys = np.column_stack([rows, y, np.zeros(len(y)) if trials is None else trials])
            _, first, times = np.unique(keys, axis=0, return_index=True, return_counts=True)
            rows, y, self.times = rows[first], y[first], times.astype(np.float64)
            trials = None if trials is None else trials[first]
        self.effect = model.effects[0] if model.effects else None
        self.labels = np.empty(0, dtype=np.int64)
        self.starts = self.codes = np.empty(0, dtype=np.intp)
        self.z = np.empty(0)
        if self.effect is not None:
            order = np.argsort(self.effect.codes[rows], kind="stable")
            rows, y = rows[order], y[order]
            trials = None if trials is None else trials[order]
            if isinstance(self.times, np.ndarray):
                self.times = self.times[order]
            self.labels, self.starts, self.codes = np.unique(
                self.effect.codes[rows], return_index=True, return_inverse=True
            )
            self.z = self.effect.columns[rows]
            if not self.has_pairs:
                self.z = self.z[:, 0]
        self.y, self.trials = y, trials
        self.offsets = {"": model.offset[rows]}
        self.offsets |= {name: its.offset[rows] for name, its in model.predicted.items()}
        self.columns = [its.columns[rows] for its in model.coefficients]
        units = [self._units(its) for its in model.coefficients]
        self.coordinates = Coordinates(model.parameters, model.effects, model.coefficients, units)
        self.step = step_of(self.family, y)
        self.choices: tuple[int, ...] = NUM_NODES
        self.reference = np.zeros(len(self.labels))
        if self.has_pairs:
            self.choices, self.reference = NUM_NODES_OF_PAIRS, np.zeros((len(self.labels), 2))
        self.num_nodes = self.choices[1]

    @property
    def has_pairs(self) -> bool:
        """Whether each label has two effects."""
        return self.effect is not None and self.effect.num_effects == 2

    def _units(self, its: Coefficients) -> tuple[FloatArray, FloatArray]:
        """Return the location and the scale of the coordinates of coefficients."""
        medians = [0.0 if p is None or p.quantile is None else p.quantile(0.5) for p in its.priors]
        size = np.sqrt(np.mean(its.columns**2, axis=0))
        unit = 1.0
        if self.family.scale == "y" and not its.target:
            unit = float(np.std(self.y)) or 1.0
        return np.array(medians), unit / np.where(size > 0, size, 1.0)

    @property
    def start(self) -> FloatArray:
        """A point from which the search for the mode starts."""
        spread = float(np.std(self.y)) or 1.0
        unit = spread if self.family.scale == "y" else 0.5
        values = {its.sd.name: unit for its in self.model.effects}
        if self.family.scale == "y":  # parameters with a half-t prior are measured like y
            for its in self.model.parameters:
                if its.priors[0].student is not None:
                    values[its.name] = spread
        return self.coordinates.start(values)

    @property
    def num_points(self) -> int | None:
        """The number of points to weigh, if a density is so costly that they must be few."""
        return 1_000 if len(self.y) > MANY_ROWS else None

    @property
    def most_on_lattice(self) -> int:
        """The largest number of points of a lattice."""
        return 20_000

    @property
    def log_constant(self) -> float:
        """See :class:`.GaussianModel`."""
        return self.coordinates.log_constant

    def prepare(self, stretch: Stretch, proposal: SplitT) -> None:
        """Choose the nodes, given a first approximation to the density."""
        if self.effect is None:
            return
        moves = 3 * proposal.axes.T
        points = proposal.centre + np.concatenate([0 * moves[:1], -moves, moves])
        points = stretch(points)[0]
        self.reference = self._integrals(self.coordinates.values(points[:1])[0]).modes[0]
        for num_nodes, more in itertools.pairwise(self.choices):
            self.num_nodes = num_nodes
            found = self.log_density(points)
            if self._error(points, found, more) < LARGEST_ERROR:
                return
        self.num_nodes = self.choices[-1]

    def error(self, points: FloatArray) -> float:
        """Return the largest error of the log density at points, from a rule with more nodes."""
        if self.effect is None:
            return 0.0
        return self._error(points, self.log_density(points), 2 * self.num_nodes + 1)

    def _error(self, points: FloatArray, found: FloatArray, num_nodes: int) -> float:
        """Return how much more nodes change log densities, apart from a constant."""
        used, self.num_nodes = self.num_nodes, num_nodes
        gaps = self.log_density(points) - found
        self.num_nodes = used
        gaps = gaps[np.isfinite(found)]
        return float(np.abs(gaps - np.median(gaps)).max(initial=0.0))

    def log_density(self, points: FloatArray) -> FloatArray:
        """Return the log density of the coordinates with y, shape (T,)."""
        tasks = [lambda p=chunk: self._log_density(p) for chunk in self._chunks(points)]
        return np.concatenate(list(in_order(tasks)))

    def _chunks(self, points: FloatArray) -> Iterator[FloatArray]:
        step = max(1, _CHUNK // max(len(self.y), 1))
        for begin in range(0, len(points), step):
            yield points[begin : begin + step]

    def _log_density(self, points: FloatArray) -> FloatArray:
        values, found, _ = self.coordinates.values(points)
        with np.errstate(all="ignore"):
            if self.effect is None:
                eta = self.linear(values)
                found = found + np.sum(self.times * self.log_lik(eta, values), axis=1)
            else:
                found = found + self._integrals(values).log_integrals.sum(axis=1)
        return np.where(np.isfinite(found), found, -np.inf)

    def linear(self, values: Values, target: str = "") -> FloatArray:
        """Return a linear predictor without effects, shape (T, row)."""
        offset = self.offsets[target]
        eta = np.broadcast_to(offset, (self._num(values), len(offset)))
        for its, columns in zip(self.model.coefficients, self.columns, strict=True):
            if its.target == target:
                eta = eta + values[its.name] @ columns.T
        return eta

    def _num(self, values: Values) -> int:
        return len(next(iter(values.values()))) if values else 1

    def log_lik(self, eta: FloatArray, values: Values) -> FloatArray:
        """Return the log likelihood of rows, shape (T, row)."""
        own: dict[str, Any] = dict(self.model.given)
        if self.trials is not None:
            own[TRIALS] = self.trials
        for name, predicted in self.model.predicted.items():
            own[name] = predicted.from_linear(self.linear(values, name))[None]
        for its in self.model.parameters:
            value = values[its.name]
            own[its.role] = value[None] if its.is_scalar else value[None, ..., None]
        return np.asarray(self.family.log_lik(self.y, eta[None], own)[0])

    def _integrals(self, values: Values) -> Integrals | PairIntegrals:
        """Return the integrals of all labels."""
        assert self.effect is not None
        if self.has_pairs:
            factor = values[self.effect.name]
            return PairIntegrals(self, values, self.linear(values), factor)
        return Integrals(self, values, self.linear(values), values[self.effect.sd.name])

    def weighed(
        self, points: FloatArray, num_draws: int, rng: Generator
    ) -> tuple[FloatArray, Values]:
        """Return the log density at points, and draws of all else, `num_draws` for each."""
        counts = np.full(len(points), num_draws)
        return self.log_density(points), self.draw(points, counts, rng)

    def draw(self, points: FloatArray, counts: NDArray[np.intp], rng: Generator) -> Values:
        """Draw the effects given the other parameters; see :class:`.GaussianModel`."""
        chunks = list(self._chunks(points))
        ends = np.cumsum([0, *map(len, chunks)])
        children = rng.spawn(len(chunks))
        tasks = [
            lambda p=chunk, n=counts[a:b], r=child: self._drawn(p, n, r)
            for chunk, a, b, child in zip(chunks, ends[:-1], ends[1:], children, strict=True)
        ]
        found = list(in_order(tasks))
        return {name: np.concatenate([each[name] for each in found]) for name in found[0]}

    def _drawn(self, points: FloatArray, counts: NDArray[np.intp], rng: Generator) -> Values:
        values, _, lprior = self.coordinates.values(points)
        found = {name: np.repeat(its, counts, axis=0) for name, its in values.items()}
        found["lprior"] = np.repeat(lprior, counts)
        if self.effect is not None:
            with np.errstate(all="ignore"):
                drawn = self._integrals(values).draw(counts, rng)
            factor = found[self.effect.name]
            shape = (len(drawn), self.effect.num_labels, self.effect.num_effects)
            effects = rng.standard_normal(shape) @ np.swapaxes(factor, -1, -2)
            # All other labels have no observations.
            effects[:, self.labels] = drawn.reshape(len(drawn), -1, shape[-1])
            found[self.effect.name] = effects
        return found


def step_of(family: Family, y: FloatArray) -> float:
    """Return the step of differences with respect to the linear predictor."""
    if family.scale == "y":
        return 1e-3 * (float(np.std(y)) or 1.0)
    return 1e-2


class Integrand(Protocol):
    """Rows of labels, in the order of the labels, whose effects are integrated out.

    Attributes
    ----------
    z : array, shape (row,)
        The column whose coefficient varies.
    codes : array of int, shape (row,)
        The label of each row, from 0.
    starts : array of int, shape (label,)
        The first row of each label.
    times : array, shape (row,), or float
        How often each row counts.
    step : float
        The step of differences with respect to the linear predictor.
    reference : array, shape (label,) or (T, label)
        Where the search for the modes starts.
    num_nodes : int
        The number of nodes.
    """

    z: FloatArray
    codes: NDArray[np.intp]
    starts: NDArray[np.intp]
    times: FloatArray | float
    step: float
    reference: FloatArray
    num_nodes: int

    def log_lik(self, eta: FloatArray, values: Values) -> FloatArray:
        """Return the log likelihood of rows, shape (T, row)."""


class Integrals:
    """The integrals of labels at several points: modes, widths, and what follows from them.

    Parameters
    ----------
    of : Integrand
        The rows.
    values : dict of str to array, shape (T, …)
        What their likelihood needs.
    eta : array, shape (T, row)
        The linear predictor without the effects.
    sd : array, shape (T, 1)
        The standard deviation of the effects.
    """

    def __init__(self, of: Integrand, values: Values, eta: FloatArray, sd: FloatArray) -> None:
        self.of, self.values, self.eta, self.sd = of, values, eta, sd
        self.modes = np.broadcast_to(of.reference, (len(eta), len(of.starts))).copy()
        self._find_modes()

    def log_joint(self, u: FloatArray) -> FloatArray:
        """Return the log of each integrand at effects, shape (T, label)."""
        of = self.of
        likelihood = of.log_lik(self.eta + of.z * u[:, of.codes], self.values)
        total = np.add.reduceat(of.times * likelihood, of.starts, axis=1)
        constant = np.log(self.sd) + 0.5 * math.log(2 * math.pi)
        return np.asarray(total - 0.5 * (u / self.sd) ** 2 - constant)

    def _find_modes(self) -> None:
        """Find the modes by Newton steps, halved where an integrand would become smaller.

        The widths are those of the curvature at the modes.
        """
        of = self.of
        step = of.step / max(float(np.abs(of.z).max(initial=0.0)), 1e-300)
        largest = 2.0 * max(1.0, 100 * step)
        best = np.full_like(self.modes, -np.inf)
        self.widths = np.broadcast_to(self.sd, self.modes.shape).copy()
        at, move = self.modes, np.zeros_like(self.modes)
        for _ in range(_MOST_STEPS):
            low, here, high = (self._likelihood(at + d) for d in (-step, 0.0, step))
            joint = here - 0.5 * (at / self.sd) ** 2
            is_better = ~(joint < best - 1e-9)
            slope = (high - low) / (2 * step) - at / self.sd**2
            curvature = np.maximum((2 * here - low - high) / step**2, 0.0) + 1 / self.sd**2
            newton = np.clip(np.nan_to_num(slope / curvature), -largest, largest)
            self.modes = np.where(is_better, at, self.modes)
            self.widths = np.where(is_better, 1 / np.sqrt(curvature), self.widths)
            best = np.where(is_better, joint, best)
            move = np.where(is_better, newton, move / 2)
            at = self.modes + move
            if np.abs(move / self.widths).max(initial=0.0) < _CLOSE:
                break

    def _likelihood(self, u: FloatArray) -> FloatArray:
        """Return the log likelihood of each label, shape (T, label)."""
        of = self.of
        likelihood = of.log_lik(self.eta + of.z * u[:, of.codes], self.values)
        return np.asarray(np.add.reduceat(of.times * likelihood, of.starts, axis=1))

    @property
    def log_integrals(self) -> FloatArray:
        """The logs of the integrals, shape (T, label)."""
        terms = np.stack([self.log_joint(u) + log_weight for u, log_weight in self.nodes()])
        return log_sum(terms)

    def nodes(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield effects and the logs of their weights in the integrals, shape (T, label)."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(self.of.num_nodes)
        logs = np.log(weights / weights.sum()) + 0.5 * nodes**2 + 0.5 * math.log(2 * math.pi)
        left, right = self.scales
        for z, log in zip(nodes, logs, strict=True):
            root = math.sqrt(1 + z**2)
            u = self.modes + (left + right) / 2 * z + (right - left) / 2 * (root - 1)
            slope = (left + right) / 2 + (right - left) / 2 * z / root
            yield u, np.log(slope) + log

    @cached_property
    def scales(self) -> tuple[FloatArray, FloatArray]:
        """The scales to the left and to the right of the modes: the widest fits of a normal."""
        top = self.log_joint(self.modes)
        left, right = np.zeros_like(top), np.zeros_like(top)
        for found, sign in ((left, -1.0), (right, 1.0)):
            for reach in (1.0, 2.5):
                fall = top - self.log_joint(self.modes + sign * reach * self.widths)
                width = reach * self.widths / np.sqrt(2 * np.maximum(fall, 1e-2))
                np.maximum(found, width, out=found)
            np.minimum(found, self.sd, out=found)
        return left, right

    def draw(self, counts: NDArray[np.intp], rng: Generator) -> FloatArray:
        """Draw effects, shape (draw, label)."""
        left, right = self.scales
        ceiling = np.full_like(left, -np.inf)
        for z in _PLACES:
            at = z * (left if z < 0 else right)
            ratio = self.log_joint(self.modes + at) - _log_split_t(at, left, right)
            ceiling = np.maximum(ceiling, ratio)
        ceiling = ceiling + _MARGIN
        point = np.repeat(np.arange(len(counts)), counts)
        found = np.empty((len(point), left.shape[1]))
        waiting = np.ones_like(found, dtype=bool)
        for _ in range(_MOST_ROUNDS):
            rows = np.flatnonzero(waiting.any(axis=1))
            if not len(rows):
                return found
            own = point[rows]
            its = self._at(own)
            one, other = left[own], right[own]
            size = np.abs(rng.standard_t(_DOF, one.shape))
            is_right = rng.random(one.shape) < other / (one + other)
            moves = size * np.where(is_right, other, -one)
            u = its.modes + moves
            excess = its.log_joint(u) - _log_split_t(moves, one, other) - ceiling[own]
            # Where the density is above its ceiling, the ceiling is raised, and all draws are made
            # again.
            higher = np.where(excess > 0, excess + _MARGIN, 0.0)
            raised = np.zeros_like(ceiling)
            np.maximum.at(raised, own, higher)
            is_taken = np.log(rng.random(one.shape)) < excess
            is_taken &= waiting[rows]
            found[rows] = np.where(is_taken, u, found[rows])
            waiting[rows] &= ~is_taken
            if raised.any():
                ceiling = ceiling + raised
                waiting |= (raised > 0)[point]
        raise ArithmeticError("the effects of a group could not be drawn from their density")

    def _at(self, points: NDArray[np.intp]) -> Integrals:
        """Return the integrals at some of the points, with repetitions."""
        found = object.__new__(Integrals)
        found.of = self.of
        found.values = {name: its[points] for name, its in self.values.items()}
        found.eta, found.sd = self.eta[points], self.sd[points]
        found.modes, found.widths = self.modes[points], self.widths[points]
        return found


def log_sum(terms: FloatArray) -> FloatArray:
    """Return the log of sums of exponentials over the first axis."""
    largest = terms.max(axis=0)
    return np.asarray(largest + np.log(np.exp(terms - largest).sum(axis=0)))


def _log_split_t(moves: FloatArray, left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the log density of a split Student t distribution, apart from a constant."""
    z = moves / np.where(moves < 0, left, right)
    return np.asarray(-0.5 * (_DOF + 1) * np.log1p(z**2 / _DOF) - np.log(left + right))
