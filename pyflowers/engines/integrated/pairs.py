"""Integrals over two effects for each label of a group, by quadrature in two dimensions.

If u = F v, where F F' is the covariance of the effects, then v is standard normal a priori, and the
integral of a label is

    ∫ N(v; 0, I) Π_n p(y[n] | offset[n] + x[n] b + z[n] F v, …) dv.

At the mode of the integrand, minus the matrix of second derivatives of its log is
I + Σ_n w_n (F'z_n)(F'z_n)' = L L'. The product of two Gauss-Hermite rules has its axes along the
columns of L'^-1, each with one scale on either side of the mode, as in one dimension; see
:mod:`.quadrature`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pyflowers.engines.integrated.hyper import Values
from pyflowers.engines.integrated.integrals import CLOSE, MOST_STEPS, Integrand, drawn_by_rejection

FloatArray = NDArray[np.float64]

_LARGEST_STEP = 3.0
"""The largest Newton step, in units of the standard deviations of the effects."""

_PLACES = (-3.5, -1.7, -0.7, 0.0, 0.7, 1.7, 3.5)
"""Where density and proposal are compared along each axis, in units of the scales."""


def _newton(curvature: FloatArray, slope: FloatArray) -> FloatArray:
    """Return the solutions of equations with two unknowns, shape (T, label, 2)."""
    a, b, c, det = curvature
    one, other = slope[..., 0], slope[..., 1]
    found = np.stack([c * one - b * other, a * other - b * one], axis=-1) / det[..., None]
    return np.asarray(np.nan_to_num(found))


class PairIntegrals:
    """The integral of each label over its two effects, at T values of the other parameters.

    Parameters
    ----------
    of : Integrand
        The rows.
    values : dict of str to array, shape (T, …)
        The parameter values that the likelihood of the rows needs.
    eta : array, shape (T, row)
        The linear predictor without the effects.
    factor : array, shape (T, 2, 2)
        The Cholesky factor of the effects' covariance.
    near : array, shape (T, label, 2)
        Where the search for the modes starts.
    """

    def __init__(
        self, of: Integrand, values: Values, eta: FloatArray, factor: FloatArray, near: FloatArray
    ) -> None:
        self.of, self.values, self.eta, self.factor, self.modes = of, values, eta, factor, near
        self.z = of.z @ factor  # (T, row, 2)
        self._find_modes()

    def _likelihood(self, v: FloatArray, move: float = 0.0) -> FloatArray:
        """Return the log likelihood of rows, given effects and a shift of the linear predictor."""
        of = self.of
        eta = self.eta + np.sum(self.z * v[:, of.codes], axis=-1) + move
        return np.asarray(of.times * of.log_lik(eta, self.values))

    def log_joint(self, v: FloatArray) -> FloatArray:
        """Return the log of each integrand, shape (T, label), at effects, shape (T, label, 2)."""
        total = np.add.reduceat(self._likelihood(v), self.of.starts, axis=1)
        return np.asarray(total - 0.5 * np.sum(v**2, axis=-1) - math.log(2 * math.pi))

    def _find_modes(self) -> None:
        """Find the modes by Newton steps, which are halved where an integrand would decrease."""
        of, step = self.of, self.of.step
        best = np.full(self.modes.shape[:2], -np.inf)
        at, move = self.modes, np.zeros_like(self.modes)
        curvature = np.zeros((4, *best.shape))
        for _ in range(MOST_STEPS):
            low, here, high = (self._likelihood(at, d) for d in (-step, 0.0, step))
            joint = np.add.reduceat(here, of.starts, axis=1) - 0.5 * np.sum(at**2, axis=-1)
            is_better = ~(joint < best - 1e-9)
            slope = np.nan_to_num((high - low) / (2 * step))
            bend = np.maximum(np.nan_to_num((2 * here - low - high) / step**2), 0.0)
            downhill = np.add.reduceat(self.z * slope[..., None], of.starts, axis=1) - at
            found = self._curvature(bend)
            newton = _newton(found, downhill)
            length = np.linalg.norm(newton, axis=-1, keepdims=True)
            newton = newton * np.minimum(1.0, _LARGEST_STEP / np.maximum(length, 1e-300))
            better = is_better[..., None]
            self.modes = np.where(better, at, self.modes)
            curvature = np.where(is_better, found, curvature)
            best = np.where(is_better, joint, best)
            move = np.where(better, newton, move / 2)
            at = self.modes + move
            a, b, c, det = curvature
            one, other = move[..., 0], move[..., 1]
            if np.max(a * one**2 + 2 * b * one * other + c * other**2) < CLOSE**2:
                self.modes = at
                break
        # Columns of the inverse of L', along which the integrand is about standard normal.
        self.axes = np.zeros((*self.modes.shape, 2))
        self.axes[..., 0, 0], self.axes[..., 1, 1] = 1 / np.sqrt(a), np.sqrt(a / det)
        self.axes[..., 0, 1] = -b / np.sqrt(a * det)

    def _curvature(self, bend: FloatArray) -> FloatArray:
        """Return a, b, c of the curvature [[a, b], [b, c]] and its determinant, (4, T, label).

        The curvature is I plus a sum over rows. Its determinant is at least 1, but could be rounded
        to 0 if the sum is large.
        """
        pairs = (self.z[..., i] * self.z[..., j] for i, j in ((0, 0), (0, 1), (1, 1)))
        a, b, c = (np.add.reduceat(bend * each, self.of.starts, axis=1) for each in pairs)
        return np.stack([1 + a, b, 1 + c, 1 + a + c + np.maximum(a * c - b**2, 0.0)])

    @cached_property
    def scales(self) -> tuple[FloatArray, FloatArray]:
        """The left and right scales around the modes along each axis, shape (T, label, 2)."""
        top = self.log_joint(self.modes)
        widest = 1 / np.linalg.norm(self.axes, axis=-2)  # the scales of the prior
        left, right = np.zeros_like(widest), np.zeros_like(widest)
        for axis in range(2):
            for found, sign in ((left, -1.0), (right, 1.0)):
                for reach in (1.0, 2.5):
                    moved = self.modes + sign * reach * self.axes[..., axis]
                    fall = top - self.log_joint(moved)
                    width = reach / np.sqrt(2 * np.maximum(np.nan_to_num(fall), 1e-2))
                    found[..., axis] = np.maximum(found[..., axis], width)
        return np.minimum(left, widest), np.minimum(right, widest)

    @cached_property
    def _log_volume(self) -> FloatArray:
        """The log of the area of the parallelogram that the axes span, shape (T, label)."""
        return np.asarray(np.log(np.abs(np.linalg.det(self.axes))))

    def at_move(self, t: FloatArray) -> FloatArray:
        """Return effects, given their coordinates along the axes, shape (T, label, 2)."""
        return np.asarray(self.modes + (self.axes @ t[..., None])[..., 0])

    @property
    def log_integrals(self) -> FloatArray:
        """The logs of the integrals, shape (T, label)."""
        terms = np.stack([self.log_joint(v) + log_weight for v, log_weight in self._nodes()])
        largest = terms.max(axis=0)
        return np.asarray(largest + np.log(np.exp(terms - largest).sum(axis=0)))

    def _nodes(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield effects and the logs of their weights, shapes (T, label, 2) and (T, label)."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(self.of.num_nodes)
        logs = np.log(weights / weights.sum()) + 0.5 * nodes**2 + 0.5 * math.log(2 * math.pi)
        left, right = self.scales
        middle, skew = (left + right) / 2, (right - left) / 2
        for i, j in itertools.product(range(len(nodes)), repeat=2):
            x = nodes[[i, j]]
            root = np.sqrt(1 + x**2)
            slope = middle + skew * x / root
            log_weight = np.log(slope).sum(axis=-1) + self._log_volume + logs[i] + logs[j]
            yield self.at_move(middle * x + skew * (root - 1)), log_weight

    def draw(self, counts: NDArray[np.intp], rng: Generator) -> FloatArray:
        """Draw effects by rejection sampling, shape (draw, label, 2)."""
        found = drawn_by_rejection(self, itertools.product(_PLACES, repeat=2), counts, rng)
        factor = np.repeat(np.swapaxes(self.factor, -1, -2), counts, axis=0)
        return np.asarray(found @ factor)

    def at(self, points: NDArray[np.intp]) -> PairIntegrals:
        """Return the integrals at the points with these indices, which may repeat."""
        found = object.__new__(PairIntegrals)
        found.of, found.values = self.of, {n: its[points] for n, its in self.values.items()}
        for name in ("eta", "factor", "z", "modes", "axes"):
            setattr(found, name, getattr(self, name)[points])
        return found
