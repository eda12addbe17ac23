"""Plants of the multilevel normal model: their integrals, and draws given (mu, sigma2).

A plant has n observations with mean ȳ and sum of squares S. Its parameters are the mean
x = mu_plant ~ N(mu, sigma2) and the variance v = sigma2_plant ~ scaled-inv-χ²(nu, c²).

**Integrals.** Given v, x is normal and can be integrated out. With w = log v and u = log sigma2,

    I(mu, u) = ∫ h(w) N(ȳ; mu, e^u + e^w / n) dw,
    h(w) ∝ (2 pi)^(-(n-1)/2) n^(-1/2) e^(-(n - 1 + nu) w / 2) exp(-(S + nu c²) e^(-w) / 2).

As a function of w, the integrand is smooth on a scale of one, so the trapezoidal rule is accurate:
the error of log I is at most 2e-9. If v is integrated out instead, the likelihood
p(y | x) ∝ (S + nu c² + n (ȳ - x)²)^(-(n + nu)/2) is a Student t density of x.

**Draws.** With a = (n + nu) / 2, 1 / v = τ (2 a) / (S + nu c²), z = c1 τ, c1 = 2 a n sigma2 /
(S + nu c²) and D = (ȳ - mu)² / (2 sigma2), the log density of l = log τ is

    L(l) = a l - a e^l - log(1 + z) / 2 + D / (1 + z),

and x | v is normal. There are two ways to draw l, both exact up to rounding for any data and prior:

 1. Draw τ ~ Gamma(a - A, a - B c1), and accept it with probability exp(ψ(z) - ψ(z0)), where

        ψ(z) = A log z - B z - log(1 + z) / 2 + D / (1 + z),

    with z0 near the mode of L and A chosen such that ψ'(z0) = 0. Now (1 + z)² z ψ'(z) =
    -B z³ + (A - 2 B - 1/2) z² + (2 A - B - 1/2 - D) z + A, a polynomial whose coefficients change
    sign only once unless the second is positive and the third negative. If they change sign once,
    z0 is the only positive root by Descartes' rule, so ψ has its maximum there. B is the smallest
    value for which this holds: 0 if ȳ is within about one standard deviation of mu.
 2. Draw l from a piecewise constant hat over 65 cells, with exponential tails. This is done if the
    plant and the population contradict each other, so that L may have two modes or the shape a - A
    would be too small. Within a cell, z and e^l are bounded, and so is
    L' = a - a e^l - s / 2 - D s (1 - s), with s = z / (1 + z). The log of the hat is L at one end
    of the cell plus the largest increase that the bounds allow, for the end that gives the smaller
    value. In the tails, it is the tangent to the concave function a (l - e^l) plus the largest
    value of the other terms.

References
----------
Gelman et al. (2013), Bayesian Data Analysis, 3rd ed., sections 3.2, 5.4 and 11.6.
Devroye (1986), Non-Uniform Random Variate Generation, sections II.3 and VII.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pyflowers.cores import in_order
from pyflowers.lectures.posterior.distributions import (
    LOG_2PI,
    BoolArray,
    FloatArray,
    IntArray,
    MultilevelPrior,
    as_floats,
    log_constant,
)
from pyflowers.lectures.posterior.plants import (
    DROP,
    Accepted,
    Drawer,
    Index,
    Plants,
    log_gamma_draws,
    until_accepted,
)

_BLOCK = 32_768  # elements per block: enough that threads rarely wait for each other


class NormalPlants(Plants):
    """Plants of the multilevel normal model, given by numbers of months, means and sums of squares.

    Attributes
    ----------
    dof : array, shape (K,)
        Degrees of freedom of sigma2_plant given mu_plant.
    """

    names, log_scale = ("mu_plant", "sigma2_plant"), False

    def __init__(
        self, prior: MultilevelPrior, *columns: FloatArray, multiplicity: FloatArray | None = None
    ) -> None:
        super().__init__(prior, *columns, multiplicity=multiplicity)
        num, self.centre, ss = columns
        nu, scale = prior.sigma2_plant_nu, prior.sigma2_plant_scale
        # A plant without months gets a number of months close to 0, so that its integral is 1.
        self._num = np.maximum(num, 1e-200)
        self._known_ss, self.dof = ss + nu * scale**2, num + nu
        self.spread = as_floats(np.sqrt(self._known_ss / self.dof / self._num))
        self.power = as_floats(np.where(num > 0, np.minimum(1.0, self.dof), 0.0))
        self._constant = log_constant(nu, scale) - 0.5 * (num * LOG_2PI + np.log(self._num))
        self._step = np.minimum(0.35, 0.7 * np.sqrt(2 / self.dof))
        # The distances from the mode at which the density of the log of an inverse chi-square
        # variable falls to e^-30 of its maximum.
        self._left, self._right = np.ones_like(self.dof), 2 * DROP / self.dof
        for _ in range(60):  # fixed-point iterations for e^x - 1 - x = 2 DROP / dof
            self._left = np.log1p(2 * DROP / self.dof + self._left)
        self._right = self._right + np.sqrt(2 * self._right)

    def sum_log_integrals(self, mu: FloatArray, u: FloatArray) -> FloatArray:
        """Return Σ log I over all plants; see :class:`Plants`."""
        first, nodes = self._nodes(mu, float(u.max()))
        order = np.argsort(nodes)
        num_mu, at, tasks = mu.shape[1], 0, []
        while at < self.size:
            # Plants are ordered by their number of nodes, so that plants in one block need similar
            # numbers of nodes.
            rows = max(1, _BLOCK // (num_mu * int(nodes[order[at]])))
            block = order[at : at + rows]
            at += rows
            num = int(nodes[block].max())
            tasks.append(partial(self._block, block, first[block], num, mu, u))
        return as_floats(sum(in_order(tasks), np.zeros(mu.shape)))

    def _nodes(self, mu: FloatArray, largest_u: float) -> tuple[FloatArray, IntArray]:
        """Return the first node in w = log sigma2_plant and the number of nodes, for each plant."""
        dof, known = self.dof, self._known_ss
        start = np.log(known / dof)
        misfit = np.maximum(np.abs(mu.max() - self.centre), np.abs(mu.min() - self.centre))
        top = np.log(known + self._num * misfit**2) - np.log(dof)
        # Up to w = log n + u, the factor N is flat and only h falls, as e^(-(dof - 1) w / 2).
        with np.errstate(divide="ignore"):
            plateau = np.where(dof > 1, 2 * DROP / np.maximum(dof - 1, 0.0), np.inf)
        top = np.maximum(top, np.minimum(np.log(self._num) + largest_u, top + plateau))
        length = top + self._right - start + self._left
        return start - self._left, np.ceil(length / self._step).astype(np.intp) + 1

    def _log_h(self, w: FloatArray, block: Any) -> FloatArray:
        """Return the log of h(w) / sqrt(2 pi), for w of shape (plants, nodes)."""
        fall = (self.dof[block, None] - 1) * w + self._known_ss[block, None] * np.exp(-w)
        return as_floats(self._constant[block, None] - 0.5 * fall)

    def _block(
        self, block: IntArray, first: FloatArray, num: int, mu: FloatArray, u: FloatArray
    ) -> FloatArray:
        """Return Σ log I over a block of plants, shape (U, M)."""
        step = self._step[block, None]
        w = first[:, None] + step * np.arange(num)
        log_h = self._log_h(w, block) + np.log(step)
        spread2, weights = np.exp(w) / self._num[block, None], self.multiplicity[block]
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

    # Terms of the marginals of one plant, up to constants

    def log_likelihood(self, plant: int, x: FloatArray) -> FloatArray:
        """Return log p(y | x) of a plant; see :class:`Plants`."""
        squares = self._known_ss[plant] + self._num[plant] * (x - self.centre[plant]) ** 2
        return as_floats(-0.5 * self.dof[plant] * np.log(squares))

    def log_joint_variance(
        self, plant: int, w: FloatArray, mu: FloatArray, u: FloatArray
    ) -> FloatArray:
        """Return the log of the integrand of I at w, shape (W, 1); `mu` and `u` have shape (N,)."""
        var = np.exp(u) + np.exp(w) / self._num[plant]
        misfit = (mu - self.centre[plant]) ** 2 / var
        return as_floats(self._log_h(w, [plant]) - 0.5 * (np.log(var) + misfit))

    def variance_range(self, plant: int, mu: FloatArray, largest_u: float) -> tuple[float, float]:
        """Return limits of log sigma2_plant that contain its whole posterior."""
        first, num = self._nodes(mu, largest_u)
        low = float(first[plant])
        return low, low + float(self._step[plant] * (num[plant] - 1))

    def tails(self, tail_dof: float) -> dict[str, FloatArray]:
        """Return the power below which each quantity has moments; see :class:`Plants`.

        The tail of mu_plant is |x|^-dof, from the likelihood, times the tail of the mixture of
        N(mu, sigma2) over sigma2.
        """
        of_means = np.where(self.seen, self.dof, 0) + tail_dof - self.power
        return {"mu_plant": of_means, "sigma2_plant": self.dof / 2}

    def drawer(self, mu: FloatArray, sigma2: FloatArray) -> Drawer:
        """Return a function that draws plants; see :class:`Plants`."""
        columns = self.num, self.centre, self._known_ss, self.dof

        def draw(plants: slice, rng: np.random.Generator) -> tuple[dict[str, FloatArray], int]:
            own, shared = (c[plants] for c in columns), (mu[:, None], sigma2[:, None])
            *drawn, proposals = draw_plants(*own, *shared, rng=rng)
            return dict(zip(self.names, drawn, strict=True)), proposals

        return draw


@dataclass(frozen=True)
class PlantKernel:
    """The parameters a, c1 and D (`conflict`) of L, each of shape (N,)."""

    a: FloatArray
    c1: FloatArray
    conflict: FloatArray

    def __getitem__(self, index: Any) -> PlantKernel:
        return PlantKernel(self.a[index], self.c1[index], self.conflict[index])

    def falls(self, tau: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return s, s / 2 + D s (1 - s) and the curvature -L'' at τ."""
        s = self.c1 * tau / (1 + self.c1 * tau)
        slope = 0.5 * s + self.conflict * s * (1 - s)
        bend = s * (1 - s) * (0.5 + self.conflict * (1 - 2 * s))
        return s, slope, self.a * tau + bend

    def log_density(self, log_tau: FloatArray) -> FloatArray:
        """Return L - D instead of L, because a large D would round the other terms away."""
        tau = np.exp(log_tau)
        z = self.c1 * tau
        rest = 0.5 * np.log1p(z) + self.conflict * (z / (1 + z))
        return as_floats(self.a * (log_tau - tau) - rest)


_SMALLEST_SHARE = 0.15  # share of the curvature at the mode that the gamma hat must account for
_SMALLEST_SHAPE = 0.2
_LARGEST = 1e280


def draw_plants(
    *columns: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, int]:
    """Draw mu_plant and sigma2_plant for each element, and count the proposals.

    Parameters
    ----------
    columns : array
        Six columns that broadcast: number of observations, their mean, S + nu c², n + nu, and the
        prior mean and variance of mu_plant.
    rng : numpy.random.Generator
        The source of all randomness.
    """
    arrays = np.broadcast_arrays(*columns)
    shape = arrays[0].shape
    num, mean, known_ss, dof, mu, sigma2 = (as_floats(array.ravel()) for array in arrays)
    shift = mean - mu
    with np.errstate(over="ignore"):
        c1 = np.minimum(dof * num * sigma2 / known_ss, _LARGEST)
        conflict = np.minimum(0.5 * shift * shift / sigma2, _LARGEST)
    conflict = np.where(num == 0, 0.0, conflict)
    log_tau, proposals = draw_log_precisions(PlantKernel(0.5 * dof, c1, conflict), rng)
    tau = np.exp(log_tau)
    # Given v, the weight of the data in the mean of x is z / (1 + z), with z = n sigma2 / v.
    odds = c1 * tau
    x = mu + shift * (odds / (1 + odds))
    x += np.sqrt(sigma2 / (1 + odds)) * rng.standard_normal(mu.size)
    return x.reshape(shape), (known_ss / (dof * tau)).reshape(shape), proposals


def draw_log_precisions(kernel: PlantKernel, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Draw l = log τ for each element, and count the proposals."""
    *hat, usable = _gamma_hat(kernel)
    log_tau, num = np.empty_like(kernel.a), 0
    if np.any(usable):
        columns = (column[usable] for column in hat)
        log_tau[usable], num = _from_gamma(kernel[usable], *columns, rng=rng)
    rest = np.flatnonzero(~usable)
    for start in range(0, rest.size, _CHUNK):
        block = rest[start : start + _CHUNK]
        log_tau[block], more = _from_cells(kernel[block], rng)
        num += more
    return log_tau, num


# The gamma hat


def _gamma_hat(kernel: PlantKernel) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:
    """Return τ0 = z0 / c1, A and B, and whether the hat is close enough to the density."""
    a, c1, conflict = kernel.a, kernel.c1, kernel.conflict
    tau = np.ones_like(a)
    for _ in range(3):  # towards the solution of a - a τ = s / 2 + D s (1 - s)
        tau = np.clip(1 - kernel.falls(tau)[1] / a, 0.05 * tau, 1.0)
    z = c1 * tau
    _, slope, curvature = kernel.falls(tau)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        first = np.where(z < 2, (slope - 0.5) / (2 - z), np.inf)
        second = np.where(z > 0.5, (0.5 + conflict - 2 * slope) / (2 * z - 1), np.inf)
        # B is slightly above its smallest value, so that the condition holds despite rounding.
        rate = np.where(slope <= 0.5, 0.0, np.maximum(np.minimum(first, second), 0.0) * 1.000001)
        power = slope + rate * z
        left = a - power
        beta = a / c1
        # The hat is usable if L has one mode by Descartes' rule, z0 is near this mode, and the hat
        # is not much wider than the density e^L.
        usable = (a - 2 * beta <= 0.5) | (2 * a - beta - 0.5 >= conflict)
        usable &= (a - a * tau - slope) ** 2 <= 0.5 * curvature
        usable &= left <= 2 * (a - rate * c1) * tau
        usable &= (left > _SMALLEST_SHAPE) & (left >= _SMALLEST_SHARE * curvature)
        usable |= c1 == 0
        usable &= (a - rate * c1 > 0) & (left > 0)
    return tau, power, rate, usable


def _from_gamma(
    kernel: PlantKernel, *hat: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, int]:
    tau0, power, rate = hat
    a, c1, conflict = kernel.a, kernel.c1, kernel.conflict
    shape, offset, z0 = a - power, -np.log((a - rate * c1) * tau0), c1 * tau0
    plain = not np.any(rate)

    def propose(index: Index) -> Accepted:
        log_ratio = log_gamma_draws(shape[index], rng) + offset[index]
        z_0 = z0[index]
        z = z_0 * np.exp(log_ratio)
        height = power[index] * log_ratio - 0.5 * np.log((1 + z) / (1 + z_0))
        height -= conflict[index] * ((z - z_0) / (1 + z) / (1 + z_0))
        if not plain:
            height -= rate[index] * (z - z_0)
        return log_ratio, rng.standard_exponential(z.size) > -height

    log_ratio, proposals = until_accepted(propose)
    return log_ratio + np.log(tau0), proposals


# The piecewise constant hat

_CHUNK = 512
_CELLS = 21  # cells over the whole range, and as many around each of two candidate modes
_RANGE_DROP = 40.0


def _edges(kernel: PlantKernel) -> FloatArray:
    """Return the edges of the cells, ascending, shape (N, 3 _CELLS + 3)."""
    a = kernel.a
    lowest = np.log(a) - np.log(a + kernel.c1 * (0.5 + kernel.conflict))  # L' >= 0 to its left
    share = _RANGE_DROP / a
    low = (lowest - share - np.sqrt(2 * share))[:, None]
    high = np.minimum(np.sqrt(2 * share), np.log1p(share) + 1)[:, None]
    sets = [low + (high - low) * np.linspace(0, 1, _CELLS + 1)]
    for mode in (lowest, np.zeros_like(a)):
        for _ in range(12):  # damped Newton steps from both sides, which never leave [lowest, 0]
            tau = np.exp(mode)
            _, slope, curvature = kernel.falls(tau)
            step = (a - a * tau - slope) / np.maximum(curvature, a * tau)
            mode = np.clip(mode + np.clip(step, -1.0, 1.0), lowest, 0.0)
        tau = np.exp(mode)
        reach = 5 / np.sqrt(np.maximum(kernel.falls(tau)[2], 0.1 * a * tau))
        around = mode[:, None] + reach[:, None] * np.linspace(-1, 1, _CELLS + 1)
        sets.append(np.clip(around, low, high))
    return np.sort(np.concatenate(sets, axis=1), axis=1)


def _cell_hats(kernel: PlantKernel, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return L - D at the edges, shape (N, K + 1), and its upper bound in each cell, (N, K)."""
    columns = kernel[:, None]
    tau, values = np.exp(edges), columns.log_density(edges)
    s = columns.falls(tau)[0]
    # L' = falling - D s (1 - s), where the first term falls and the second is a hump.
    falling, hump = columns.a - columns.a * tau - 0.5 * s, s * (1 - s)
    left, right = (slice(None), slice(None, -1)), (slice(None), slice(1, None))
    highest = np.maximum(hump[left], hump[right])
    highest[(s[left] < 0.5) & (s[right] > 0.5)] = 0.25
    least = falling[right] - columns.conflict * highest
    largest = falling[left] - columns.conflict * np.minimum(hump[left], hump[right])
    width = np.diff(edges, axis=1)
    from_left = values[left] + np.maximum(largest, 0) * width
    from_right = values[right] + np.maximum(-least, 0) * width
    return values, np.minimum(from_left, from_right)


def _from_cells(kernel: PlantKernel, rng: np.random.Generator) -> tuple[FloatArray, int]:
    edges, a = _edges(kernel), kernel.a
    width = np.diff(edges, axis=1)
    values, hat = _cell_hats(kernel, edges)
    # In the tails, a (l - e^l) is below its tangents; the other terms decrease and are at most 0.
    ends = edges[:, [0, -1]]
    slope = a[:, None] * np.abs(np.expm1(ends))
    height = np.stack([a * (ends[:, 0] - np.exp(ends[:, 0])), values[:, -1]], axis=1)
    peak = np.maximum(hat.max(axis=1), height.max(axis=1))[:, None]
    tails = np.exp(height - peak) / slope
    mass = np.concatenate([tails[:, :1], np.exp(hat - peak) * width, tails[:, 1:]], axis=1)
    cumulative = np.cumsum(mass, axis=1)
    num_cells = width.shape[1]

    def propose(index: Index) -> Accepted:
        rows = np.arange(a.size)[index]
        place = rng.random(rows.size) * cumulative[rows, -1]
        cell = np.minimum((cumulative[rows] <= place[:, None]).sum(axis=1) - 1, num_cells)
        within = np.clip(cell, 0, num_cells - 1)
        uniform, tail = rng.random(rows.size), rng.standard_exponential(rows.size)
        log_tau = edges[rows, within] + width[rows, within] * uniform
        level = hat[rows, within]
        for side, here, sign in ((0, cell < 0, -1), (1, cell == num_cells, 1)):
            log_tau = np.where(here, ends[rows, side] + sign * tail / slope[rows, side], log_tau)
            level = np.where(here, height[rows, side] - tail, level)
        fall = level - kernel[rows].log_density(log_tau)
        return log_tau, rng.standard_exponential(rows.size) > fall

    return until_accepted(propose)
