"""Integrals by quadrature, for any family with no group, or with one or two effects of a group.

Given the coefficients b, the sd s of the effects and the family's other parameters, the effects of
different labels are independent, and each is integrated out in one dimension:

    p(y | b, s, …) = Π_label ∫ N(u; 0, s²) Π_n p(y[n] | offset[n] + x[n] b + z[n] u, …) du.

The Gauss-Hermite rule is centred at the mode of each integrand [1], for all labels and many
parameter values at once, in a coordinate z,

    u = mode + (l + r) / 2 z + (r - l) / 2 (√(1 + z²) - 1),

whose scale is l far to the left and r far to the right, like the integrand's. For example, the
integrand of a label whose counts are all 0 falls slowly to the left. There are so many nodes that
more nodes would hardly change the result. If each label has two effects, the integrals have two
dimensions; see :mod:`.pairs`. What remains is the density of b, s and the other parameters. The
effects are drawn from their one-dimensional densities by rejection sampling, with a split Student t
distribution as the proposal.

References
----------
.. [1] Pinheiro and Bates (1995), Approximations to the log-likelihood function in the nonlinear
   mixed-effects model, J. of Computational and Graphical Statistics 4(1), section 2.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pyflowers.cores import in_order
from pyflowers.engines.integrated.hyper import Coordinates, Values, in_parts
from pyflowers.engines.integrated.importance import SplitT, Stretch
from pyflowers.engines.integrated.integrals import Integrals, step_of
from pyflowers.engines.integrated.pairs import PairIntegrals
from pyflowers.programs.families import TRIALS
from pyflowers.programs.linear import Coefficients, LinearModel
from pyflowers.text import in_words

FloatArray = NDArray[np.float64]

NUM_NODES = (9, 15, 25, 41, 65)
"""The numbers of nodes that are tried, in this order."""

NUM_NODES_OF_PAIRS = (5, 9, 15, 25)
"""The numbers of nodes per dimension that are tried for two effects, in this order."""

LARGEST_ERROR = 3e-4
"""A number of nodes is enough if more nodes change the log density by less than this."""

MANY_ROWS = 20_000
"""The number of rows above which there are fewer weighted points than draws."""

_CHUNK = 120_000
"""The approximate number of elements of an array of points and rows, which fits into the cache."""


def reason_against(model: LinearModel) -> str:
    """Return why this method does not apply to a model; empty if it does."""
    family = f"the family {model.family.text}"
    if model.predicted:  # with sigma alone, a normal model may have a closed form
        family += f" with a formula for {in_words(list(model.predicted))}"
    if not model.of_rows.keys() <= {TRIALS}:
        family += " with a censored or truncated response"
    dependent = [its.name for its in model.effects if its.back is not None]
    dependent += [its.name for its in model.penalised]
    if dependent:
        return f"for {family}, {dependent[0]} cannot be integrated out"
    if model.se is not None or model.precision is not None:
        return f"for {family}, standard errors and precisions are not supported"
    if len(model.effects) > 1:
        return (
            f"the model has {len(model.effects)} group terms, and for {family} only one can be "
            "integrated out"
        )
    if model.effects and model.effects[0].target:
        return f"group effects on {model.effects[0].target} cannot be integrated out"
    if model.effects and model.effects[0].num_effects > 2:
        return (
            f"{model.effects[0].num_effects} effects vary by group, and for {family} only two can "
            "be integrated out"
        )
    return ""


@dataclass(frozen=True)
class _NearModes:
    """Where the searches for modes start: modes that are linear in the coordinates.

    Attributes
    ----------
    low, high : array, shape (d,)
        The limits of the coordinates, beyond which the modes are constant.
    coefficients : array, shape (d + 1, label) or (d + 1, label, 2)
        The coefficients of the coordinates, after the constant.
    """

    low: FloatArray
    high: FloatArray
    coefficients: FloatArray

    @classmethod
    def at_zero(cls, size: int, shape: tuple[int, ...]) -> _NearModes:
        """Return modes that are 0 everywhere."""
        return cls(np.full(size, -np.inf), np.full(size, np.inf), np.zeros((size + 1, *shape)))

    @classmethod
    def through(cls, points: FloatArray, modes: FloatArray) -> _NearModes:
        """Return the least-squares fit to modes at points; modes that were not found count as 0."""
        flat = np.nan_to_num(modes.reshape(len(modes), -1), posinf=0.0, neginf=0.0)
        coefficients = np.linalg.lstsq(_with_constant(points), flat)[0]
        shape = (-1, *modes.shape[1:])
        return cls(points.min(axis=0), points.max(axis=0), coefficients.reshape(shape))

    def __call__(self, points: FloatArray) -> FloatArray:
        """Return the modes at points, shape (T, label) or (T, label, 2)."""
        within = np.clip(points, self.low, self.high)
        return np.tensordot(_with_constant(within), self.coefficients, axes=1)


def _with_constant(points: FloatArray) -> FloatArray:
    return np.column_stack([np.ones(len(points)), points])


class OneFactorModel:
    """The posterior of all parameters except one group's effects, and draws of these effects.

    Parameters
    ----------
    model : LinearModel
        The model, for which :func:`reason_against` returns no reason.
    """

    def __init__(self, model: LinearModel) -> None:
        self.model, self.family = model, model.family
        chosen = np.arange(len(model.y))
        self.times: FloatArray | float = 1.0
        if self.family.is_discrete:  # identical rows have equal densities
            keys = np.column_stack([model.rows, model.y, *model.of_rows.values()])
            _, chosen, times = np.unique(keys, axis=0, return_index=True, return_counts=True)
            self.times = times.astype(np.float64)
        self.effect = model.effects[0] if model.effects else None
        self.labels = np.empty(0, dtype=np.int64)
        self.starts = self.codes = np.empty(0, dtype=np.intp)
        self.z = np.empty(0)
        if self.effect is not None:
            order = np.argsort(self.effect.codes[model.rows[chosen]], kind="stable")
            chosen = chosen[order]
            if isinstance(self.times, np.ndarray):
                self.times = self.times[order]
        rows, self.y = model.rows[chosen], model.y[chosen]
        self.of_rows = {name: its[chosen] for name, its in model.of_rows.items()}
        if self.effect is not None:
            self.labels, self.starts, self.codes = np.unique(
                self.effect.codes[rows], return_index=True, return_inverse=True
            )
            self.z = self.effect.columns[rows]
            if not self.has_pairs:
                self.z = self.z[:, 0]
        self.offsets = {"": model.offset[rows]}
        self.offsets |= {name: its.offset[rows] for name, its in model.predicted.items()}
        self.columns = [its.columns[rows] for its in model.coefficients]
        units = [self._units(its) for its in model.coefficients]
        self.coordinates = Coordinates(model.parameters, model.effects, model.coefficients, units)
        self.step = step_of(self.family, self.y)
        self.choices = NUM_NODES_OF_PAIRS if self.has_pairs else NUM_NODES
        self.num_nodes = self.choices[1]
        shape = (len(self.labels), 2) if self.has_pairs else (len(self.labels),)
        self.near = _NearModes.at_zero(self.coordinates.size, shape)

    @property
    def has_pairs(self) -> bool:
        """Whether each label has two effects."""
        return self.effect is not None and self.effect.num_effects == 2

    def _units(self, its: Coefficients) -> tuple[FloatArray, FloatArray]:
        """Return the location and the scale of the coordinates for some coefficients."""
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
        if self.family.scale == "y":  # parameters with a half-t prior have the unit of y
            for its in self.model.parameters:
                if its.priors[0].student is not None:
                    values[its.name] = spread
        return self.coordinates.start(values)

    @property
    def num_points(self) -> int | None:
        """The number of weighted points, if densities are so costly that it must be small."""
        return 1_000 if len(self.y) > MANY_ROWS else None

    @property
    def most_on_lattice(self) -> int:
        """The largest number of points on a lattice."""
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
        modes = self._integrals(points, self.coordinates.values(points)[0]).modes
        self.near = _NearModes.through(points, modes)
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
        """Return the largest change in log densities with more nodes, apart from a constant."""
        used, self.num_nodes = self.num_nodes, num_nodes
        is_finite = np.isfinite(found)
        gaps = self.log_density(points[is_finite]) - found[is_finite]
        self.num_nodes = used
        return float(np.abs(gaps - np.median(gaps)).max(initial=0.0))

    def log_density(self, points: FloatArray) -> FloatArray:
        """Return the joint log density of the coordinates and y, shape (T,)."""
        tasks = [lambda p=chunk: self._log_density(p) for chunk in self._chunks(points)]
        return np.concatenate(list(in_order(tasks)))

    def _chunks(self, points: FloatArray) -> list[FloatArray]:
        """Return points that are computed together, in equally large parts."""
        return in_parts(points, len(points) * len(self.y) / _CHUNK)

    def _log_density(self, points: FloatArray) -> FloatArray:
        values, found, _ = self.coordinates.values(points)
        with np.errstate(all="ignore"):
            if self.effect is None:
                eta = self.linear(values)
                found = found + np.sum(self.times * self.log_lik(eta, values), axis=1)
            else:
                found = found + self._integrals(points, values).log_integrals.sum(axis=1)
        return np.where(np.isfinite(found), found, -np.inf)

    def linear(self, values: Values, target: str = "") -> FloatArray:
        """Return a linear predictor without the effects that are integrated out, shape (T, row)."""
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
        own: dict[str, Any] = {**self.model.given, **self.of_rows}
        for name, predicted in self.model.predicted.items():
            own[name] = predicted.from_linear(self.linear(values, name))[None]
        for its in self.model.parameters:
            value = values[its.name]
            own[its.role] = value[None] if its.is_scalar else value[None, ..., None]
        return np.asarray(self.family.log_lik(self.y, eta[None], own)[0])

    def _integrals(self, points: FloatArray, values: Values) -> Integrals | PairIntegrals:
        """Return the integrals of all labels at points, for the values of the parameters there."""
        assert self.effect is not None
        eta, near = self.linear(values), self.near(points)
        if self.has_pairs:
            return PairIntegrals(self, values, eta, values[self.effect.name], near)
        return Integrals(self, values, eta, values[self.effect.sd.name], near)

    def weighed(
        self, points: FloatArray, num_draws: int, rng: Generator
    ) -> tuple[FloatArray, Values]:
        """Return the log density at points, and `num_draws` draws of all quantities for each."""
        counts = np.full(len(points), num_draws)
        return self.log_density(points), self.draw(points, counts, rng)

    def draw(self, points: FloatArray, counts: NDArray[np.intp], rng: Generator) -> Values:
        """Draw the effects given the other parameters; see :class:`.GaussianModel`."""
        chunks = self._chunks(points)
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
                drawn = self._integrals(points, values).draw(counts, rng)
            factor = found[self.effect.name]
            shape = (len(drawn), self.effect.num_labels, self.effect.num_effects)
            effects = rng.standard_normal(shape) @ np.swapaxes(factor, -1, -2)
            # The other labels have no observations.
            effects[:, self.labels] = drawn.reshape(len(drawn), -1, shape[-1])
            found[self.effect.name] = effects
        return found
