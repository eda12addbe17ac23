"""Σ_p log I_p(mu, u) over many plants at once, in blocks of them.

The integrals are those of :mod:`.plants`, here for arrays of plants. Plants with equal sufficient
statistics have equal integrals and are computed once. Memory does not grow with their number.

Poisson. Relative to its maximum the integrand is exp(-φ), φ = c δ² / 2 + b (e^δ - 1 - δ), and the
trapezoidal rule of step h errs by about exp(c y² / 2 - b log cos y - 2 pi y / h) for every shift
of the path 0 < y < pi/2 into the complex plane (Trefethen and Weideman 2014, theorem 5.1). With κ
= b + c, the shift sqrt(60 / κ), at most 1.2, makes this e^-30 if h = 0.68 / sqrt(κ) for κ > 42 and
h = 7.54 / (30 + 1.02 κ) below: 25 to 40 nodes a plant. On even nodes e^δ is a product, so a node
costs one exponential. Where the rule would need more than 128 nodes, that is for plants without
a single flower and large sigma2, the rule of :mod:`.plants` takes over.

Normal. The trapezoidal rule in log sigma2_plant, as in :mod:`.plants`.

Accuracy: log I within 1e-9, mostly 1e-12, of composite Gauss-Legendre rules in extended precision
(tests/closed_form/exact/test_integrals.py).

References
----------
Trefethen and Weideman (2014), The exponentially convergent trapezoidal rule, SIAM Review 56(3).
"""

from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy import special

from pyflowers.closed_form.exact.plants import excess, falls
from pyflowers.closed_form.exact.tabulated import FloatArray
from pyflowers.closed_form.vb.distributions import LOG_2PI, as_floats, log_variance_prior_constant
from pyflowers.cores import in_order

IntArray = npt.NDArray[np.intp]

_DROP = 30.0  # e^-30 is 1e-13
# Elements at once: few enough that a dozen arrays stay in a core's cache, which suits one thread;
# or so many that threads seldom wait for one another.
_POISSON_BLOCK, _NORMAL_BLOCK = 4_096, 32_768
_MOST_NODES = 128
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
# On (0, 1), some nodes at a time.
_HALF_RULE = list(zip(np.split(0.5 * (_NODES + 1), 8), np.split(0.5 * _WEIGHTS, 8), strict=True))


class Plants(Protocol):
    """Plants of one model, those with equal sufficient statistics merged."""

    @property
    def size(self) -> int:
        """How many different plants there are."""

    centre: FloatArray
    spread: FloatArray
    power: FloatArray
    multiplicity: FloatArray
    log_constant: float  # of all integrals, left out of them

    def some(self, index: IntArray) -> "Plants":
        """Select some of the different plants, each once."""

    def sum_log_integrals(self, mu: FloatArray, u: FloatArray) -> FloatArray:
        """Return Σ_p log I_p - log_constant, shape (U, M); `mu` (U, M), `u` (U,)."""


def merged(*columns: FloatArray) -> tuple[list[FloatArray], FloatArray]:
    """Return the different rows of some columns, and how often each occurs."""
    rows, multiplicity = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
    return [np.ascontiguousarray(column) for column in rows.T], as_floats(multiplicity)


class PoissonPlants:
    """Plants of the multilevel Poisson model.

    Parameters
    ----------
    num, total : array, shape (K,)
        Months, at least 1, and flowers of each different plant.
    multiplicity : array, shape (K,)
        How many plants are like it.

    Σ log y! is left out of everything.
    """

    def __init__(self, num: FloatArray, total: FloatArray, multiplicity: FloatArray) -> None:
        self._num, self._total, self.multiplicity = num, total, multiplicity
        self.centre = as_floats(np.log((total + 0.5) / num))
        self.spread = as_floats((total + 0.5) ** -0.5)
        self.power = as_floats(np.where(total > 0, 1.0, 0.0))
        best = special.xlogy(total, np.maximum(total, 1.0) / num) - total
        self.log_constant = float(multiplicity @ best)

    @property
    def size(self) -> int:
        """See :class:`Plants`."""
        return int(self._num.size)

    def some(self, index: IntArray) -> "PoissonPlants":
        """See :class:`Plants`."""
        return PoissonPlants(self._num[index], self._total[index], np.ones(index.size))

    def sum_log_integrals(self, mu: FloatArray, u: FloatArray) -> FloatArray:
        """See :class:`Plants`."""
        points, each_u = mu.ravel(), np.repeat(u, mu.shape[1])
        width = max(1, _POISSON_BLOCK // mu.size)
        sums = np.zeros(mu.size)
        for start in range(0, self.size, width):
            sums += self._block(slice(start, start + width), points, each_u)
        return as_floats(sums.reshape(mu.shape))

    def _block(self, block: slice, mu: FloatArray, u: FloatArray) -> FloatArray:
        """Sum over a block of plants, at points, shape (N,)."""
        shape = (self._num[block].size, mu.size)
        num, total, m, v = (
            np.broadcast_to(a, shape).ravel()
            for a in (self._num[block, None], self._total[block, None], mu, u)
        )
        values = _log_poisson(num, total, m, v).reshape(shape)
        return as_floats(self.multiplicity[block] @ values)


def log_rate_mode(
    num: FloatArray, total: FloatArray, mu: FloatArray, u: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Solve total - num e^x = (x - mu) e^-u to about two digits of e^x.

    With w = num e^(x + u) this is Wright's w + log w = Z. Winitzki's approximation to Lambert's
    function and a step of Newton's method give log w within 1e-3.

    Returns
    -------
    x, expected : array
        The mode and num e^x, the count expected there.
    """
    sigma2 = np.exp(u)
    log_scale = np.log(num) + u
    reach = mu + total * sigma2
    z = reach + log_scale
    y = np.where(z > 30, z, np.log1p(np.exp(np.minimum(z, 30.0))))
    w = y * (1 - np.log1p(y) / (2 + y))
    log_w = np.log(np.maximum(w, 1e-300))
    w = np.where(z > 0, w * (1 + z - log_w) / (1 + w), w)
    x = np.where(z > 0, np.log(np.maximum(w, 1e-300)) - log_scale, reach - w)
    return as_floats(x), as_floats(w / sigma2)


def _log_poisson(num: FloatArray, total: FloatArray, mu: FloatArray, u: FloatArray) -> FloatArray:
    """Log I of Poisson plants, relative to their largest likelihood; arrays of one length."""
    c = np.exp(-u)
    mode, _ = log_rate_mode(num, total, mu, u)
    for _ in range(2):
        rate = num * np.exp(mode)
        mode = mode + (total - rate - c * (mode - mu)) / (rate + c)
    log_b = np.log(num) + mode
    b = np.exp(log_b)
    tilt = total - b - c * (mode - mu)  # zero but for what Newton's method left
    # total x - num e^x relative to its maximum over x, which keeps digits where counts are large.
    away = np.where(total > 0, mode - np.log(np.maximum(total, 1.0) / num), 0.0)
    fit = np.where(total > 0, -total * (np.expm1(away) - away), -b)
    at_mode = fit - 0.5 * (LOG_2PI + u + c * (mode - mu) ** 2)
    curvature = b + c
    step = np.where(
        curvature > 42, 0.68 / np.sqrt(curvature), 7.54 / (30 + 1.02 * np.minimum(curvature, 42))
    )
    share = _DROP / np.maximum(b, 1e-290)
    spread = np.sqrt(2 * _DROP / c)
    left = np.ceil(np.minimum(spread, share + np.sqrt(2 * share)) / step)
    right = np.minimum(np.sqrt(2 * share), np.log1p(share) + 1)
    right = np.ceil(np.minimum(spread, right) / step)
    nodes = left + right
    log_mass = np.empty_like(mode)
    lower = -1.0
    for most in (30, 40, 60, 90, _MOST_NODES):
        part = np.flatnonzero((nodes > lower) & (nodes <= most))
        if part.size:
            ends = int(left[part].max()), int(right[part].max())
            log_mass[part] = _trapezoid(c[part], b[part], tilt[part], step[part], *ends)
        lower = float(most)
    part = np.flatnonzero(~(nodes <= _MOST_NODES))
    if part.size:
        log_mass[part] = _two_sided(c[part], log_b[part], tilt[part])
    return as_floats(at_mode + log_mass)


def _trapezoid(
    c: FloatArray, b: FloatArray, tilt: FloatArray, step: FloatArray, num_left: int, num_right: int
) -> FloatArray:
    """Log of the integral of exp(-φ) on even nodes, e^δ - 1 by recurrence away from the mode.

    Outwards its rounding errors do not grow relative to e^δ, as they would from the left end.
    """
    total, half = np.ones_like(c), 0.5 * c
    for signed, num in ((-step, num_left), (step, num_right)):
        growth, first = np.exp(signed), np.expm1(signed)
        delta, grown = signed.copy(), first.copy()
        exponent, work = np.empty_like(c), np.empty_like(c)
        for _ in range(num):
            np.multiply(half, delta, out=exponent)
            np.subtract(tilt, exponent, out=exponent)
            exponent *= delta
            np.subtract(grown, delta, out=work)
            work *= b
            exponent -= work
            total += np.exp(exponent, out=exponent)
            grown *= growth
            grown += first
            delta += signed
    return as_floats(np.log(total * step))


def _two_sided(c: FloatArray, log_b: FloatArray, tilt: FloatArray) -> FloatArray:
    """Log of the same by Gauss-Legendre on both sides of the mode."""
    mass = np.zeros_like(c)
    for side in (-falls(c, log_b, -1.0), falls(c, log_b, 1.0)):
        for nodes, weights in _HALF_RULE:
            delta = np.multiply.outer(nodes, side)
            fall = 0.5 * c * delta**2 + excess(log_b, delta) - tilt * delta
            mass += np.abs(side) * (weights @ np.exp(-fall))
    return as_floats(np.log(mass))


class NormalPlants:
    """Plants of the multilevel normal model.

    Parameters
    ----------
    num, mean, ss : array, shape (K,)
        Months, at least 1, mean and sum of squares of each different plant.
    multiplicity : array, shape (K,)
        How many plants are like it.
    nu, scale : float
        Those of sigma2_plant's prior.
    """

    def __init__(
        self,
        num: FloatArray,
        mean: FloatArray,
        ss: FloatArray,
        multiplicity: FloatArray,
        nu: float,
        scale: float,
    ) -> None:
        self._prior, self.log_constant = (nu, scale), 0.0
        self._num, self._ss, self.centre, self.multiplicity = num, ss, mean, multiplicity
        self._known_ss, self._dof = ss + nu * scale**2, num + nu
        self.spread = as_floats(np.sqrt(self._known_ss / self._dof / num))
        self.power = as_floats(np.minimum(1.0, self._dof))
        constant = log_variance_prior_constant(as_floats(nu), as_floats(scale))
        self._constant = constant - 0.5 * (num * LOG_2PI + np.log(num))
        self._step = np.minimum(0.35, 0.7 * np.sqrt(2 / self._dof))
        self._left, self._right = _reaches(self._dof)

    @property
    def size(self) -> int:
        """See :class:`Plants`."""
        return int(self._num.size)

    def some(self, index: IntArray) -> "NormalPlants":
        """See :class:`Plants`."""
        arrays = (self._num[index], self.centre[index], self._ss[index], np.ones(index.size))
        return NormalPlants(*arrays, *self._prior)

    def sum_log_integrals(self, mu: FloatArray, u: FloatArray) -> FloatArray:
        """See :class:`Plants`."""
        first, nodes = self._nodes(mu, float(u.max()))
        order = np.argsort(nodes)
        num_mu, at, tasks = mu.shape[1], 0, []
        while at < self.size:
            # Rows of nodes grow along the order: one more look ahead keeps the block in bounds.
            rows = max(1, _NORMAL_BLOCK // (num_mu * int(nodes[order[at]])))
            block = order[at : at + rows]
            at += rows
            num = int(nodes[block].max())
            tasks.append(partial(self._block, block, first[block], num, mu, u))
        return as_floats(sum(in_order(tasks), np.zeros(mu.shape)))

    def _nodes(self, mu: FloatArray, largest_u: float) -> tuple[FloatArray, IntArray]:
        """First node in w = log sigma2_plant and number of nodes, of each plant."""
        dof, known = self._dof, self._known_ss
        start = np.log(known / dof)
        misfit = np.maximum(np.abs(mu.max() - self.centre), np.abs(mu.min() - self.centre))
        top = np.log(known + self._num * misfit**2) - np.log(dof)
        # Up to w = log n + u the factor N is flat, and h alone falls, by one power less.
        with np.errstate(divide="ignore"):
            plateau = np.where(dof > 1, 2 * _DROP / np.maximum(dof - 1, 0.0), np.inf)
        top = np.maximum(top, np.minimum(np.log(self._num) + largest_u, top + plateau))
        length = top + self._right - start + self._left
        return start - self._left, np.ceil(length / self._step).astype(np.intp) + 1

    def _block(
        self, block: IntArray, first: FloatArray, num: int, mu: FloatArray, u: FloatArray
    ) -> FloatArray:
        """Sum over a block of plants, shape (U, M)."""
        dof, count = self._dof[block, None], self._num[block, None]
        step = self._step[block, None]
        w = first[:, None] + step * np.arange(num)
        log_h = self._constant[block, None] + np.log(step)
        log_h = log_h - 0.5 * ((dof - 1) * w + self._known_ss[block, None] * np.exp(-w))
        spread2, weights = np.exp(w) / count, self.multiplicity[block]
        result = np.empty(mu.shape)
        for i, one in enumerate(u):
            var = np.exp(one) + spread2
            height = log_h - 0.5 * np.log(var)
            square = (mu[i] - self.centre[block, None]) ** 2
            terms = height[:, None, :] - square[:, :, None] * (0.5 / var)[:, None, :]
            peak = terms.max(axis=2)
            terms -= peak[:, :, None]
            result[i] = weights @ (peak + np.log(np.exp(terms, out=terms).sum(axis=2)))
        return result


def _reaches(dof: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How far below and above its mode an inverse chi-square's logarithm falls by e^-30."""
    left = np.ones_like(dof)
    for _ in range(60):  # of e^x - 1 - x = 2 drop / dof
        left = np.log1p(2 * _DROP / dof + left)
    return left, 2 * _DROP / dof + np.sqrt(4 * _DROP / dof)
