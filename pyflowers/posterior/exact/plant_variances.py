"""Exact draws of (mu_plant, sigma2_plant) given (mu, sigma2), by rejection, many at once.

For n observations of mean ȳ and sum of squares S, x ~ N(mu, sigma2) and the prior
scaled-inv-χ²(nu, c²) of v = sigma2_plant, x integrates out (BDA3 section 5.4). With d = ȳ - mu,

    a = (n + nu) / 2,   τ = a-th part of the precision: 1 / v = τ (2 a) / (S + nu c²),
    z = c1 τ,   c1 = 2 a n sigma2 / (S + nu c²),   D = d² / (2 sigma2),
    L(l) = a l - a e^l - log(1 + z) / 2 + D / (1 + z),   l = log τ,

is the log density of l, and x | v is normal. This is also the model `semiconjugate_normal`, with
sigma2 for tau0². Two ways to draw l, both exact:

 1. From τ ~ Gamma(a - A, a - B c1), accepted with probability exp(ψ(z) - ψ(z0)), where

        ψ(z) = A log z - B z - log(1 + z) / 2 + D / (1 + z),

    with A chosen such that ψ'(z0) = 0, which is near the mode of L for z0 from there. Now
    (1 + z)² z ψ'(z) = -B z³ + (A - 2 B - 1/2) z² + (2 A - B - 1/2 - D) z + A, whose signs change
    once unless the second is positive and the third negative; by Descartes' rule z0 is then
    the only root, so ψ has its maximum there. B is the least that brings this about: 0 while ȳ is
    within about a standard deviation of mu.
 2. Where L may have two modes, or too small a shape a - A would be left, as between a plant and a
    population that contradict each other, from a piecewise constant hat over 65 cells with
    exponential tails.
    Within a cell z, e^l and so L' lie between bounds, L' = a - a e^l - s / 2 - D s (1 - s), s =
    z / (1 + z); the hat is L at either end plus what these bounds allow, whichever is less. In the
    tails it is the tangent of the concave a (l - e^l) plus the largest value of the rest.

No tolerance enters: the draws are exact to rounding error for any data and prior.

References
----------
Gelman et al. (2013), Bayesian Data Analysis, 3rd ed., sections 3.2, 5.3 and 5.4.
Devroye (1986), Non-Uniform Random Variate Generation, sections II.3 and VII.3.
"""

from dataclasses import dataclass

import numpy as np

from pyflowers.posterior.exact.rejection import (
    Accepted,
    Index,
    log_gamma_draws,
    until_accepted,
)
from pyflowers.posterior.exact.tabulated import FloatArray
from pyflowers.posterior.vb.distributions import as_floats

_SMALLEST_SHARE = 0.15  # of the curvature at the mode that the gamma must keep
_SMALLEST_SHAPE = 0.2
_LARGEST = 1e280


@dataclass(frozen=True)
class Kernel:
    """The parameters of L, each of shape (N,)."""

    a: FloatArray
    c1: FloatArray
    conflict: FloatArray

    def __getitem__(self, index: Index) -> "Kernel":
        return Kernel(self.a[index], self.c1[index], self.conflict[index])


def draw_plants(
    num: FloatArray,
    mean: FloatArray,
    known_ss: FloatArray,
    dof: FloatArray,
    mu: FloatArray,
    sigma2: FloatArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray, int]:
    """Draw mu_plant and sigma2_plant for each element.

    Parameters
    ----------
    num, mean, known_ss, dof : array, shape (N,)
        Observations, their mean, S + nu c² and n + nu.
    mu, sigma2 : array, shape (N,)
        Mean and variance of mu_plant.
    rng : numpy.random.Generator
        The source of all randomness.

    Returns
    -------
    mu_plant, sigma2_plant : array, shape (N,)
        The draws.
    num_proposals : int
        How many proposals they took.
    """
    a = 0.5 * dof
    shift = mean - mu
    with np.errstate(over="ignore"):
        c1 = np.minimum(dof * num * sigma2 / known_ss, _LARGEST)
        conflict = np.minimum(0.5 * shift * shift / sigma2, _LARGEST)
    if np.any(num == 0):
        conflict = np.where(num == 0, 0.0, conflict)
    log_tau, proposals = draw_log_precisions(Kernel(a, c1, conflict), rng)
    tau = np.exp(log_tau)
    # x | v: z = n sigma2 / v are the odds of the data's share.
    odds = c1 * tau
    x = mu + shift * (odds / (1 + odds))
    x += np.sqrt(sigma2 / (1 + odds)) * rng.standard_normal(mu.size)
    return as_floats(x), as_floats(known_ss / (dof * tau)), proposals


def draw_log_precisions(kernel: Kernel, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Draw l for each element."""
    hat = _gamma_hat(kernel)
    if np.all(hat.usable):
        return _from_gamma(kernel, hat, ..., rng)
    log_tau = np.empty_like(kernel.a)
    part, rest = np.flatnonzero(hat.usable), np.flatnonzero(~hat.usable)
    log_tau[part], first = _from_gamma(kernel, hat, part, rng)
    second = 0
    for start in range(0, rest.size, _CHUNK):
        block = rest[start : start + _CHUNK]
        log_tau[block], num = _from_cells(kernel[block], rng)
        second += num
    return log_tau, first + second


# The gamma hat


@dataclass(frozen=True)
class _GammaHat:
    """z0, A and B; and whether the hat is near enough."""

    tau0: FloatArray
    power: FloatArray  # A
    rate: FloatArray  # B
    usable: np.ndarray


def _gamma_hat(kernel: Kernel) -> _GammaHat:
    a, c1, conflict = kernel.a, kernel.c1, kernel.conflict
    tau = np.ones_like(a)
    for _ in range(3):  # towards a - a τ = s / 2 + D s (1 - s)
        s = c1 * tau / (1 + c1 * tau)
        tau = np.clip(1 - (0.5 * s + conflict * s * (1 - s)) / a, 0.05 * tau, 1.0)
    z = c1 * tau
    s = z / (1 + z)
    slope = 0.5 * s + conflict * s * (1 - s)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        first = np.where(z < 2, (slope - 0.5) / (2 - z), np.inf)
        second = np.where(z > 0.5, (0.5 + conflict - 2 * slope) / (2 * z - 1), np.inf)
        # A little more than the least, so that rounding cannot undo it.
        rate = np.where(slope <= 0.5, 0.0, np.maximum(np.minimum(first, second), 0.0) * 1.000001)
        power = slope + rate * z
        left = a - power
        curvature = a * tau + s * (1 - s) * (0.5 + conflict * (1 - 2 * s))
        beta = a / c1
        # L has one mode, by Descartes' rule again, z0 is near it, and the hat is not much wider.
        usable = (a - 2 * beta <= 0.5) | (2 * a - beta - 0.5 >= conflict)
        usable &= (a - a * tau - slope) ** 2 <= 0.5 * curvature
        usable &= left <= 2 * (a - rate * c1) * tau
        usable &= (left > _SMALLEST_SHAPE) & (left >= _SMALLEST_SHARE * curvature)
        usable |= c1 == 0
        usable &= (a - rate * c1 > 0) & (left > 0)
    return _GammaHat(tau, power, rate, usable)


def _from_gamma(
    kernel: Kernel, hat: _GammaHat, part: Index, rng: np.random.Generator
) -> tuple[FloatArray, int]:
    a, c1, conflict = kernel.a[part], kernel.c1[part], kernel.conflict[part]
    tau0, power, rate = hat.tau0[part], hat.power[part], hat.rate[part]
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
_CELLS = 21  # over the whole range, and around each of the two candidates for a mode
_RANGE_DROP = 40.0


def _log_density(kernel: Kernel, log_tau: FloatArray) -> FloatArray:
    """L - D at points of shape (N,): D, which may be huge, would swallow the rest."""
    tau = np.exp(log_tau)
    z = kernel.c1 * tau
    odds = z / (1 + z)
    return as_floats(kernel.a * (log_tau - tau) - 0.5 * np.log1p(z) - kernel.conflict * odds)


def _edges(kernel: Kernel) -> FloatArray:
    """Edges of the cells, ascending, shape (N, 3 _CELLS + 3)."""
    a, c1, conflict = kernel.a, kernel.c1, kernel.conflict
    lowest = np.log(a) - np.log(a + c1 * (0.5 + conflict))  # L' >= 0 to its left
    share = _RANGE_DROP / a
    low, high = (
        lowest - share - np.sqrt(2 * share),
        np.minimum(np.sqrt(2 * share), np.log1p(share) + 1),
    )
    sets = [low[:, None] + (high - low)[:, None] * np.linspace(0, 1, _CELLS + 1)]
    for start in (lowest, np.zeros_like(a)):
        mode = _approach(kernel, start)
        tau = np.exp(mode)
        s = c1 * tau / (1 + c1 * tau)
        curvature = a * tau + s * (1 - s) * (0.5 + conflict * (1 - 2 * s))
        reach = 5 / np.sqrt(np.maximum(curvature, 0.1 * a * tau))
        around = mode[:, None] + reach[:, None] * np.linspace(-1, 1, _CELLS + 1)
        sets.append(np.clip(around, low[:, None], high[:, None]))
    return np.sort(np.concatenate(sets, axis=1), axis=1)


def _approach(kernel: Kernel, log_tau: FloatArray) -> FloatArray:
    """Find a mode of L from one side, by damped Newton steps that never leave [lowest, 0]."""
    a, c1, conflict = kernel.a, kernel.c1, kernel.conflict
    lowest = np.log(a) - np.log(a + c1 * (0.5 + conflict))
    for _ in range(12):
        tau = np.exp(log_tau)
        s = c1 * tau / (1 + c1 * tau)
        slope = a - a * tau - 0.5 * s - conflict * s * (1 - s)
        curvature = a * tau + s * (1 - s) * (0.5 + conflict * (1 - 2 * s))
        step = slope / np.maximum(curvature, a * tau)
        log_tau = np.clip(log_tau + np.clip(step, -1.0, 1.0), lowest, 0.0)
    return as_floats(log_tau)


def _cell_hats(kernel: Kernel, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """L - D at the edges, shape (N, K + 1), and what it is below within each cell, shape (N, K)."""
    a, c1, conflict = kernel.a[:, None], kernel.c1[:, None], kernel.conflict[:, None]
    tau = np.exp(edges)
    z = c1 * tau
    s = z / (1 + z)
    values = a * (edges - tau) - 0.5 * np.log1p(z) - conflict * s
    # L' = falling - D s (1 - s), of which the first falls and the second is a hump.
    falling, hump = a - a * tau - 0.5 * s, s * (1 - s)
    left, right = (slice(None), slice(None, -1)), (slice(None), slice(1, None))
    highest = np.maximum(hump[left], hump[right])
    highest[(s[left] < 0.5) & (s[right] > 0.5)] = 0.25
    least = falling[right] - conflict * highest
    largest = falling[left] - conflict * np.minimum(hump[left], hump[right])
    width = np.diff(edges, axis=1)
    from_left = values[left] + np.maximum(largest, 0) * width
    from_right = values[right] + np.maximum(-least, 0) * width
    return values, np.minimum(from_left, from_right)


def _from_cells(kernel: Kernel, rng: np.random.Generator) -> tuple[FloatArray, int]:
    edges = _edges(kernel)
    width = np.diff(edges, axis=1)
    values, hat = _cell_hats(kernel, edges)
    # Tails: a (l - e^l) is below its tangents, the rest is decreasing and at most 0.
    a = kernel.a
    low, high = edges[:, 0], edges[:, -1]
    left_slope, right_slope = a * -np.expm1(low), a * np.expm1(high)
    left_height = a * (low - np.exp(low))
    right_height = values[:, -1]
    peak = np.maximum(hat.max(axis=1), np.maximum(left_height, right_height))
    mass = np.concatenate(
        [
            (np.exp(left_height - peak) / left_slope)[:, None],
            np.exp(hat - peak[:, None]) * width,
            (np.exp(right_height - peak) / right_slope)[:, None],
        ],
        axis=1,
    )
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
        left, right = cell < 0, cell == num_cells
        far = np.where(left, -tail / left_slope[rows], tail / right_slope[rows])
        log_tau = np.where(left, low[rows] + far, np.where(right, high[rows] + far, log_tau))
        level = np.where(left, left_height[rows] - tail, level)
        level = np.where(right, right_height[rows] - tail, level)
        height = _log_density(kernel[rows], log_tau) - level
        return log_tau, rng.standard_exponential(rows.size) > -height

    return until_accepted(propose)
