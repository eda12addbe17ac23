"""Plants of the multilevel Poisson model: their integrals, and draws given (mu, sigma2).

A plant has S flowers in n months, and x = log mu_plant ~ N(mu, sigma2), with u = log sigma2.

**Integrals.** The integrand of I(mu, u) = ∫ p(y | x) N(x; mu, e^u) dx is log-concave with mode x*.
With b = n e^(x*), c = e^(-u) and δ = x - x*, the integrand relative to its maximum is exp(-φ) with
φ = c δ² / 2 + b (e^δ - 1 - δ), as in the Laplace transform of a lognormal distribution. Shifting
the path of integration by y into the complex plane, with 0 < y < pi/2, shows that the error of the
trapezoidal rule with step h is about exp(c y² / 2 - b log cos y - 2 pi y / h) (Trefethen and
Weideman 2014, theorem 5.1). With κ = b + c, the shift sqrt(2 D / κ), at most 1.2, makes the error
e^-D if h = 3.72 / sqrt(D κ) for κ > 1.39 D and h = 7.54 / (D + 1.02 κ) otherwise. For D = 30, this
usually takes 25 to 40 nodes per plant. On evenly spaced nodes, e^δ is a running product, so each
node costs one exponential. If the rule would need more than 128 nodes, as it does for plants
without flowers if sigma2 is large, Gauss-Legendre quadrature on both sides of the mode is used
instead.

**Draws.** The density of x, f(x) ∝ exp(S x - n e^x - (x - mu)² / (2 sigma2)), is log-concave. The
log of f has two curved parts, -n e^x and a parabola, both of which are concave. The tangent to
either part at any point m is an upper bound for that part. If the tangent replaces the part, it is
easy to draw from the resulting density. With δ = x - m, the tangent

  * to -n e^x gives       f(x) ≤ C N(x; mu + sigma2 (S - n e^m), sigma2),
                          accepted with probability exp(-n e^m (e^δ - 1 - δ));
  * to the parabola gives f(x) ≤ C exp(a x - n e^x), a = S - (m - mu) / sigma2,
                          so e^x ~ Gamma(a, n),
                          accepted with probability exp(-δ² / (2 sigma2)).

With either tangent, draws are exact for every m (with a > 0). They are most efficient if m is at or
near the mode. At the mode, a = n e^m =: b is the expected count. The first tangent is efficient if
the prior dominates, and the second if the data dominate. The second is used if sigma2 exceeds
1 / b + 1 / b², which is about the variance of log Gamma(b). More than a third of all proposals are
then accepted for all n, S, mu and sigma2 (tests verify this), and nearly all if the prior or the
data dominate. If the data dominate, the mode hardly depends on (mu, sigma2), and one gamma
distribution can be used for all draws of a plant: a = b is the expected count at the plant's mode
for the medians of mu and sigma2, and the tangent is at m = mu + sigma2 (S - b).

References
----------
Trefethen and Weideman (2014), The exponentially convergent trapezoidal rule, SIAM Review 56(3).
Asmussen, Jensen and Rojas-Nandayapa (2016), On the Laplace transform of the lognormal
distribution, Methodology and Computing in Applied Probability 18(2).
Gilks and Wild (1992), Adaptive rejection sampling for Gibbs sampling, Applied Statistics 41(2),
for tangents as envelopes.
Devroye (1986), Non-Uniform Random Variate Generation, sections II.3 and IX.3.
Marsaglia and Tsang (2000), A simple method for generating gamma variables, ACM Transactions on
Mathematical Software 26(3).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy import special

from pyflowers.lectures.posterior.distributions import (
    LOG_2PI,
    FloatArray,
    MultilevelPrior,
    as_floats,
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

_BLOCK = 4_096  # elements per block: a dozen such arrays fit into a core's cache
_GROUPS = (-1, 30, 40, 60, 90, 128)  # plants are grouped by their number of nodes, at these limits
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
# Nodes on (0, 1), in 8 blocks.
_HALF_RULE = list(zip(np.split(0.5 * (_NODES + 1), 8), np.split(0.5 * _WEIGHTS, 8), strict=True))


class PoissonPlants(Plants):
    """Plants of the multilevel Poisson model, given by months and flowers; Σ log y! is left out.

    ``log_constant`` is the sum of the plants' maximum log likelihoods, which the sum of the log
    integrals leaves out. For a plant without flowers, the likelihood is flat towards small means,
    so the plant's ``power`` is 0.
    """

    names, log_scale = ("mu_plant",), True

    def __init__(
        self, prior: MultilevelPrior, *columns: FloatArray, multiplicity: FloatArray | None = None
    ) -> None:
        super().__init__(prior, *columns, multiplicity=multiplicity)
        num, total = columns
        # A plant without months gets a number of months close to 0, so that its integral is 1.
        self._num, self._total = np.maximum(num, 1e-200), total
        self.centre = as_floats(np.log((total + 0.5) / self._num))
        self.spread = as_floats((total + 0.5) ** -0.5)
        self.power = as_floats(np.where(total > 0, 1.0, 0.0))
        best = special.xlogy(total, np.maximum(total, 1.0) / self._num) - total
        self.log_constant = float(self.multiplicity @ best)

    def sum_log_integrals(self, mu: FloatArray, u: FloatArray) -> FloatArray:
        """Return Σ log I over all plants; see :class:`Plants`."""
        points, each_u = mu.ravel(), np.repeat(u, mu.shape[1])
        width = max(1, _BLOCK // mu.size)
        sums = np.zeros(mu.size)
        for start in range(0, self.size, width):
            block = slice(start, start + width)
            plants = self._num[block, None], self._total[block, None]
            sums += self.multiplicity[block] @ _log_integrals(*plants, points, each_u)
        return as_floats(sums.reshape(mu.shape))

    def log_likelihood(self, plant: int, x: FloatArray) -> FloatArray:
        """Return log p(y | x) of a plant; see :class:`Plants`."""
        with np.errstate(over="ignore"):
            return as_floats(self._total[plant] * x - self._num[plant] * np.exp(x))

    def tails(self, tail_dof: float) -> dict[str, FloatArray]:
        """Return the power below which each quantity has moments; see :class:`Plants`."""
        return {"mu_plant": np.where(self.seen, np.inf, 0.0)}

    def drawer(self, mu: FloatArray, sigma2: FloatArray) -> Drawer:
        """Return a function that draws plants; see :class:`Plants`."""
        middle = as_floats(np.median(mu)), as_floats(np.median(sigma2))
        modes = _modes(np.maximum(self.num, 1.0), self._total, *middle, steps=1)[0]
        columns = self.num, self._total, modes

        def draw(plants: slice, rng: np.random.Generator) -> tuple[dict[str, FloatArray], int]:
            rates, proposals = draw_rates(*(c[plants] for c in columns), mu, sigma2, rng=rng)
            return {"mu_plant": rates.T}, proposals

        return draw


def log_rate_mode(
    num: FloatArray, total: FloatArray, mu: FloatArray, u: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Solve total - num e^x = (x - mu) e^-u for x, to about two digits of e^x.

    With w = num e^(x + u), this is Wright's equation w + log w = Z. Winitzki's approximation to
    Lambert's function, followed by a Newton step if Z > 0, gives x to within 0.01.

    Returns
    -------
    x, expected : array
        The mode and num e^x, the expected count there.
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


def _log_integrals(num: FloatArray, total: FloatArray, mu: FloatArray, u: FloatArray) -> FloatArray:
    """Return log I of plants, relative to their largest likelihood, shape (K, N).

    `num` and `total` have shape (K, 1), `mu` and `u` (N,).
    """
    mode, _ = log_rate_mode(num, total, mu, u)
    c = np.broadcast_to(np.exp(-u), mode.shape)
    rate = num * np.exp(mode)
    mode += (total - rate - c * (mode - mu)) / (rate + c)
    log_b = np.log(num) + mode
    b = np.exp(log_b)
    misfit = c * (mode - mu)
    tilt = total - b - misfit  # zero except for the error of Newton's method
    # Relative to its maximum over x, total x - num e^x keeps its digits even for large counts.
    away = np.where(total > 0, mode - np.log(np.maximum(total, 1.0) / num), 0.0)
    fit = np.where(total > 0, -total * (np.expm1(away) - away), -b)
    at_mode = fit - 0.5 * (misfit * (mode - mu) + LOG_2PI + u)
    step, left, right = _even_nodes(c, b)
    nodes = left + right
    log_mass = np.empty_like(mode)
    for lower, upper in pairwise(_GROUPS):
        part = (nodes > lower) & (nodes <= upper)
        if np.any(part):
            ends = int(left[part].max()), int(right[part].max())
            log_mass[part] = _trapezoid(c[part], b[part], tilt[part], step[part], *ends)
    part = ~(nodes <= _GROUPS[-1])
    if np.any(part):
        log_mass[part] = _two_sided(c[part], log_b[part], tilt[part])
    return as_floats(at_mode + log_mass)


def _even_nodes(c: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the step of the rule, and the number of nodes on either side down to e^-D."""
    curvature, edge = b + c, 1.39 * DROP
    step = np.where(
        curvature > edge,
        3.72 / np.sqrt(DROP * curvature),
        7.54 / (DROP + 1.02 * np.minimum(curvature, edge)),
    )
    share = DROP / np.maximum(b, 1e-290)
    spread, root = np.sqrt(2 * DROP / c), np.sqrt(2 * share)
    left = np.minimum(spread, share + root)
    right = np.minimum(spread, np.minimum(root, np.log1p(share) + 1))
    return as_floats(step), as_floats(np.ceil(left / step)), as_floats(np.ceil(right / step))


def _trapezoid(
    c: FloatArray, b: FloatArray, tilt: FloatArray, step: FloatArray, num_left: int, num_right: int
) -> FloatArray:
    """Return the log of the integral of exp(-φ) on evenly spaced nodes, from differences of -φ.

    From δ to δ + h, the difference is (tilt + b) h - c (δ + h / 2) h - b (e^(δ + h) - e^δ). One
    part falls linearly, and the other grows by the factor e^h.
    """
    total, bend, slope = np.ones_like(b), c * step * step, tilt + b
    for signed, num in ((-step, num_left), (step, num_right)):
        first = np.expm1(signed)
        growth = 1 + first
        linear = slope * signed
        linear -= 0.5 * bend
        grown = b * first
        exponent, density = np.zeros_like(b), np.empty_like(b)
        for _ in range(num):
            exponent += linear
            exponent -= grown
            total += np.exp(exponent, out=density)
            linear -= bend
            grown *= growth
    return as_floats(np.log(total * step))


def _two_sided(c: FloatArray, log_b: FloatArray, tilt: FloatArray) -> FloatArray:
    """Return the log of the integral of exp(-φ) by Gauss-Legendre quadrature up to φ = 36."""
    mass, drop = np.zeros_like(c), 36.0
    log_share = np.log(drop) - log_b
    # The bounds follow from e^-x - 1 + x > x - 1, from e^x - 1 - x > x² / 2, and, at x = log(1 + r)
    # + 1, from e^x - 1 - x > r.
    linear = 1 + np.exp(np.minimum(log_share, 690.0))
    square = np.sqrt(2.0) * np.exp(np.minimum(0.5 * log_share, 690.0))
    for sign, bound in (
        (-1, linear),
        (1, np.minimum(square, np.logaddexp(0, log_share) + 1)),
    ):
        x = np.minimum(np.sqrt(2 * drop / c), bound)
        # Started above the root of a convex function, Newton's method stays above it.
        for _ in range(8):
            value = 0.5 * c * x**2 + _excess(log_b, sign * x) - drop
            x = x - value / (c * x + np.abs(np.exp(log_b + sign * x) - np.exp(log_b)))
        for nodes, weights in _HALF_RULE:
            delta = np.multiply.outer(nodes, sign * x)
            fall = 0.5 * c * delta**2 + _excess(log_b, delta) - tilt * delta
            mass += x * (weights @ np.exp(-fall))
    return as_floats(np.log(mass))


def _excess(log_b: FloatArray, delta: FloatArray) -> FloatArray:
    """Return b (e^δ - 1 - δ), even if b underflows but b e^δ does not."""
    small = log_b < -200
    usual = np.exp(log_b) * (np.expm1(np.where(small, 0.0, delta)) - delta)
    return as_floats(np.where(small, np.exp(log_b + np.where(small, delta, 0.0)), usual))


# Draws

_FAR = 600.0
_NEAR = 1.0  # distance from the mode, in sigmas, within which a gamma tangent is efficient
_SMALLEST_CUBED, _LARGEST_CUBED = 12.0, 1e8  # counts; for larger ones, rounding would matter


def _modes(*columns: FloatArray, steps: int) -> tuple[FloatArray, FloatArray]:
    """Return points near the modes, and n e^x there, after `steps` Newton steps.

    The columns are num, total, mu and sigma2, which broadcast.
    """
    num, total, mu, sigma2 = columns
    x, expected = log_rate_mode(np.maximum(num, 1e-300), total, mu, np.log(sigma2))
    for _ in range(steps):
        x = x + (total - expected - (x - mu) / sigma2) / (expected + 1 / sigma2)
        expected = num * np.exp(x)
    return x, expected


def draw_rates(*columns: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Draw the rate of each plant for each (mu, sigma2).

    Parameters
    ----------
    columns : array
        First, of shape (P,): the months and flowers of each plant, and a point near its mode, which
        affects only the speed. Then, of shape (D,): the draws of mu and sigma2.
    rng : numpy.random.Generator
        The source of all randomness.

    Returns
    -------
    rates : array, shape (P, D)
        mu_plant, in flowers per month.
    num_proposals : int
        Number of proposals.
    """
    num, total, near, mu, sigma2 = columns
    m = near[:, None]
    b = num[:, None] * np.exp(m)
    tangent = (total[:, None] - b) * sigma2
    tangent += mu
    off = tangent - m
    serves = np.abs(off, out=off) < _NEAR * np.sqrt(sigma2)
    usual = np.clip(b, _SMALLEST_CUBED, _LARGEST_CUBED)
    serves &= (sigma2 > 1 / usual + 1 / usual**2) & (b == usual)
    if np.all(serves):
        return _from_cubes(num[:, None], b, tangent, sigma2, rng=rng)
    rates = np.empty(tangent.shape)
    plant, draw = np.nonzero(serves)
    some = num[plant], b[plant, 0], tangent[serves], sigma2[draw]
    rates[serves], first = _from_cubes(*some, rng=rng)
    plant, draw = np.nonzero(~serves)
    x, second = draw_log_rates(num[plant], total[plant], mu[draw], sigma2[draw], rng=rng)
    with np.errstate(over="ignore"):  # if a plant has no months
        rates[~serves] = np.exp(x, out=x)
    return rates, first + second


def draw_log_rates(*columns: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Draw one log rate for each element, with tangents at the modes.

    The columns are num, total, mu and sigma2, all of shape (N,).
    """
    num, total, mu, sigma2 = columns
    mode, b = _modes(*columns, steps=2)
    shape = total + (mu - mode) / sigma2
    data_rule = (sigma2 * b * b > 1 + b) & (shape > 0.5 * b)

    def from_gamma(index: Index) -> Accepted:
        k = part[index]
        x = log_gamma_draws(shape[k], rng) - log_num[index]
        return x, 2 * sigma2[k] * rng.standard_exponential(x.size) > (x - mode[k]) ** 2

    def from_normal(index: Index) -> Accepted:
        k = rest[index]
        x = mean[index] + sigma[index] * rng.standard_normal(k.size)
        delta = x - mode[k]
        fall = b[k] * (np.expm1(np.minimum(delta, _FAR)) - delta)
        if delta.size and delta.max() > _FAR:  # b may underflow although n e^x does not
            with np.errstate(over="ignore", divide="ignore"):
                fall = np.where(delta > _FAR, np.exp(x + np.log(num[k])), fall)
        return x, rng.standard_exponential(x.size) > fall

    x, part, rest = np.empty_like(mu), np.flatnonzero(data_rule), np.flatnonzero(~data_rule)
    log_num = np.log(num[part])
    x[part], first = until_accepted(from_gamma)
    sigma, mean = np.sqrt(sigma2[rest]), mu[rest] + sigma2[rest] * (total[rest] - b[rest])
    x[rest], second = until_accepted(from_normal)
    return x, first + second


def _from_cubes(*columns: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Draw rates from proposals d v / num, with v = (1 + z / sqrt(9 d))³ and z ~ N(0, 1).

    Here d = shape - 1/3. As a function of z, the density of Gamma(shape) is exp(d (log v + 1 - v)),
    which is at most exp(-z² / 2) (Marsaglia and Tsang 2000). One uniform variate corrects for both
    this bound and the tangent: a proposal is kept with probability e^-f, where f = d (v - 1 -
    log v) - z² / 2 + δ² / (2 sigma2). Because 1 - e^-f is at most 2 f, the exponential is rarely
    computed. The columns are num, shape, the point m of the tangent and sigma2. They broadcast to
    the shape of m.
    """
    num, shape, tangent, sigma2 = columns
    d = shape - 1 / 3
    scale = d / num
    origin = np.log(scale) - tangent
    each = (scale, 2 * d, (9 * d) ** -0.5, 1 / sigma2)
    scale_of, twice_d, root, precision = (np.broadcast_to(a, origin.shape) for a in each)

    def propose(index: Index) -> Accepted:
        z = rng.standard_normal(origin[index].shape)
        v = z * root[index]
        v += 1
        with np.errstate(invalid="ignore", divide="ignore"):  # from z below -10, which is rejected
            log_v = np.log(v)
        log_v *= 3
        square = v * v
        v *= square
        twice_f = np.subtract(v, 1, out=square)
        twice_f -= log_v
        twice_f *= twice_d[index]
        log_v += origin[index]  # now δ
        log_v *= log_v
        log_v *= precision[index]
        twice_f += log_v
        z *= z
        twice_f -= z
        uniform = rng.random(out=z)
        accepted = uniform > twice_f
        unsure = np.unravel_index(np.flatnonzero(~accepted), z.shape)
        accepted[unsure] = uniform[unsure] > -np.expm1(-0.5 * twice_f[unsure])
        v *= scale_of[index]
        return v, accepted

    return until_accepted(propose)
