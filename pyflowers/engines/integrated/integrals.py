"""Integrals over one effect for each label of a group, and draws of these effects.

A *group* is a column such as ``plant``, its *labels* are its values, and an *effect* is a
coefficient that varies between the labels. The integral of a label is the likelihood of the rows
with this label, integrated over the effect of the label. :mod:`.quadrature` describes the
quadrature rule. If each label has two effects, the integrals have two dimensions; see
:mod:`.pairs`. Effects are drawn by rejection sampling.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Protocol, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pyflowers.engines.integrated.hyper import Values
from pyflowers.programs.families import Family

FloatArray = NDArray[np.float64]

MOST_STEPS = 40
"""The largest number of Newton steps towards a mode."""

CLOSE = 0.1
"""The Newton step below which a mode is reached, in units of the integrand's width."""

_MOST_ROUNDS = 2_000
"""The largest number of times that an effect is proposed."""

_MARGIN = 0.1
"""The margin that is added to the log of the ratio of density to proposal at the nodes, to allow
for larger ratios between them."""

_PLACES = (-2.5, -1.0, 0.0, 1.0, 2.5)
"""Where density and proposal are compared, in units of the proposal's scales."""

_DOF = 5.0
"""Degrees of freedom of the proposals for effects."""


def step_of(family: Family, y: FloatArray) -> float:
    """Return the step in the linear predictor that is used for numerical derivatives."""
    if family.scale == "y":
        return 1e-3 * (float(np.std(y)) or 1.0)
    return 1e-2


class Integrand(Protocol):
    """Rows in the order of their labels, whose effects are integrated out.

    Attributes
    ----------
    z : array, shape (row,) or (row, 2)
        The columns whose coefficients vary.
    codes : array of int, shape (row,)
        The label of each row, from 0.
    starts : array of int, shape (label,)
        The first row of each label.
    times : array, shape (row,), or float
        How often each row counts.
    step : float
        The step in the linear predictor that is used for numerical derivatives.
    num_nodes : int
        The number of nodes.
    """

    z: FloatArray
    codes: NDArray[np.intp]
    starts: NDArray[np.intp]
    times: FloatArray | float
    step: float
    num_nodes: int

    def log_lik(self, eta: FloatArray, values: Values) -> FloatArray:
        """Return the log likelihood of rows, shape (T, row)."""


class Integrals:
    """The integral of each label at T values of the other parameters, with its mode and width.

    Parameters
    ----------
    of : Integrand
        The rows.
    values : dict of str to array, shape (T, …)
        The parameter values that the likelihood of the rows needs.
    eta : array, shape (T, row)
        The linear predictor without the effects.
    sd : array, shape (T, 1)
        The standard deviation of the effects.
    near : array, shape (T, label)
        Where the search for the modes starts.
    """

    def __init__(
        self, of: Integrand, values: Values, eta: FloatArray, sd: FloatArray, near: FloatArray
    ) -> None:
        self.of, self.values, self.eta, self.sd, self.modes = of, values, eta, sd, near.copy()
        self._find_modes()

    def log_joint(self, u: FloatArray) -> FloatArray:
        """Return the log of each integrand at effects, shape (T, label)."""
        constant = np.log(self.sd) + 0.5 * math.log(2 * math.pi)
        return np.asarray(self._likelihood(u) - 0.5 * (u / self.sd) ** 2 - constant)

    def _find_modes(self) -> None:
        """Find the modes by Newton steps, which are halved where an integrand would decrease.

        The widths follow from the curvature at the modes. Most points need one or two steps, so
        later steps are computed only for the others.
        """
        of = self.of
        step = of.step / max(float(np.abs(of.z).max(initial=0.0)), 1e-300)
        largest = 2.0 * max(1.0, 100 * step)
        self.widths = np.broadcast_to(self.sd, self.modes.shape).copy()
        moving, its = np.arange(len(self.modes)), self
        at, move = self.modes, np.zeros_like(self.modes)
        best = np.full_like(self.modes, -np.inf)
        for _ in range(MOST_STEPS):
            low, here, high = (its._likelihood(at + d) for d in (-step, 0.0, step))
            joint = here - 0.5 * (at / its.sd) ** 2
            is_better = ~(joint < best - 1e-9)
            slope = (high - low) / (2 * step) - at / its.sd**2
            curvature = np.maximum((2 * here - low - high) / step**2, 0.0) + 1 / its.sd**2
            newton = np.clip(np.nan_to_num(slope / curvature), -largest, largest)
            modes = np.where(is_better, at, its.modes)
            widths = np.where(is_better, 1 / np.sqrt(curvature), its.widths)
            move = np.where(is_better, newton, move / 2)
            at = modes + move
            is_far: NDArray[np.bool_] = np.any(np.abs(move / widths) >= CLOSE, axis=1)
            self.modes[moving] = np.where(is_far[:, None], modes, at)
            self.widths[moving] = widths
            if not is_far.any():
                break
            best = np.where(is_better, joint, best)[is_far]
            moving, its = moving[is_far], its.at(is_far)
            its.modes, its.widths = modes[is_far], widths[is_far]
            at, move = at[is_far], move[is_far]

    def _likelihood(self, u: FloatArray) -> FloatArray:
        """Return the log likelihood of each label, shape (T, label)."""
        of = self.of
        eta = u[:, of.codes]  # a copy; in place, the next two operations take half as long
        eta *= of.z
        eta += self.eta
        likelihood = of.log_lik(eta, self.values)
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
        """The scales on the left and right of the modes: those of the widest normal fits."""
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
        return drawn_by_rejection(self, _PLACES, counts, rng)

    def at_move(self, t: FloatArray) -> FloatArray:
        """Return effects, given their distances from the modes, shape (T, label)."""
        return self.modes + t

    def at(self, points: NDArray[np.intp] | NDArray[np.bool_]) -> Self:
        """Return the integrals at the points with these indices, which may repeat."""
        found = object.__new__(type(self))
        found.of = self.of
        found.values = {name: its[points] for name, its in self.values.items()}
        found.eta, found.sd = self.eta[points], self.sd[points]
        found.modes, found.widths = self.modes[points], self.widths[points]
        return found


class _Drawable(Protocol):
    """Integrals whose integrands are densities from which effects are drawn."""

    @property
    def scales(self) -> tuple[FloatArray, FloatArray]:
        """The left and right scales around the modes, shape (T, label) or (T, label, axis)."""

    def log_joint(self, u: FloatArray, /) -> FloatArray:
        """Return the log of each integrand at effects, shape (T, label)."""

    def at_move(self, t: FloatArray) -> FloatArray:
        """Return effects, given their distances from the modes."""

    def at(self, points: NDArray[np.intp]) -> Self:
        """Return the integrals at the points with these indices, which may repeat."""


def drawn_by_rejection(
    of: _Drawable,
    places: Iterable[float | tuple[float, ...]],
    counts: NDArray[np.intp],
    rng: Generator,
) -> FloatArray:
    """Draw effects by rejection sampling, with split Student t proposals around the modes.

    Parameters
    ----------
    of : Integrals or PairIntegrals
        The integrals at T points.
    places : iterable
        Where density and proposal are compared along each axis, in units of the scales.
    counts : array of int, shape (T,)
        The number of draws for each point.
    rng : numpy.random.Generator
        The random number generator.

    Returns
    -------
    array, shape (draw, label) or (draw, label, axis)
        The effects.

    Raises
    ------
    ArithmeticError
        If no proposal of an effect is accepted.
    """
    left, right = of.scales
    ceiling = np.full(left.shape[:2], -np.inf)
    for place in places:
        x = np.asarray(place)
        t = x * np.where(x < 0, left, right)
        ceiling = np.fmax(ceiling, of.log_joint(of.at_move(t)) - _log_split_t(t, left, right))
    ceiling = ceiling + _MARGIN
    point = np.repeat(np.arange(len(counts)), counts)
    found = np.empty((len(point), *left.shape[1:]))
    waiting = np.ones(found.shape[:2], dtype=bool)
    for _ in range(_MOST_ROUNDS):
        rows = np.flatnonzero(waiting.any(axis=1))
        if not len(rows):
            return found
        own = point[rows]
        its, one, other = of.at(own), left[own], right[own]
        size = np.abs(rng.standard_t(_DOF, one.shape))
        is_right = rng.random(one.shape) < other / (one + other)
        t = size * np.where(is_right, other, -one)
        u = its.at_move(t)
        excess = its.log_joint(u) - _log_split_t(t, one, other) - ceiling[own]
        # If the density exceeds its ceiling, the ceiling is raised and all draws are repeated.
        raised = np.zeros_like(ceiling)
        np.maximum.at(raised, own, np.where(excess > 0, excess + _MARGIN, 0.0))
        is_taken = (np.log(rng.random(excess.shape)) < excess) & waiting[rows]
        draws, labels = np.nonzero(is_taken)
        found[rows[draws], labels] = u[is_taken]
        waiting[rows] &= ~is_taken
        if raised.any():
            ceiling = ceiling + raised
            waiting |= (raised > 0)[point]
    raise ArithmeticError("the effects of a group could not be drawn from their density")


def log_sum(terms: FloatArray) -> FloatArray:
    """Return the log of sums of exponentials over the first axis."""
    largest = terms.max(axis=0)
    return np.asarray(largest + np.log(np.exp(terms - largest).sum(axis=0)))


def _log_split_t(t: FloatArray, left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the log density of split Student t distributions, apart from a constant."""
    z = t / np.where(t < 0, left, right)
    logs = -0.5 * (_DOF + 1) * np.log1p(z**2 / _DOF) - np.log(left + right)
    return np.asarray(logs.reshape(*logs.shape[:2], -1).sum(axis=-1))
