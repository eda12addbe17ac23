"""Exact draws of a plant's rate given (mu, sigma2), by rejection, many at once.

The density of x = log mu_plant, with n months and S flowers,

    f(x) ∝ exp(S x - n e^x - (x - mu)² / (2 sigma2)),

is log-concave. A tangent at any point m to one of its two concave parts lies above that part and
leaves a density that is easily drawn from. With δ = x - m,

  * to -n e^x:        f(x) ≤ C N(x; mu + sigma2 (S - n e^m), sigma2),
                      accepted with probability exp(-n e^m (e^δ - 1 - δ));
  * to the parabola:  f(x) ≤ C exp(a x - n e^x), a = S - (m - mu) / sigma2, so e^x ~ Gamma(a, n),
                      accepted with probability exp(-δ² / (2 sigma2)).

Both are exact for every m (with a > 0), and most efficient at the mode or near it. There
a = n e^m =: b, the count expected, and the first serves where the prior rules, the second where the
data do: it is taken where sigma2 exceeds 1 / b + 1 / b², about the variance of log Gamma(b). More
than a third of all proposals are then accepted, whatever n, S, mu and sigma2 (tests hold this), and
nearly all where either rules.

Where the data rule, the mode hardly depends on (mu, sigma2), and one gamma serves all draws of a
plant: a = b is that of its mode at the medians, and the tangent is at m = mu + sigma2 (S - b).

References
----------
Gilks and Wild (1992), Adaptive rejection sampling for Gibbs sampling, Applied Statistics 41(2),
for tangents as envelopes.
Devroye (1986), Non-Uniform Random Variate Generation, sections II.3 and IX.3.
Marsaglia and Tsang (2000), A simple method for generating gamma variables, ACM Transactions on
Mathematical Software 26(3).
"""

import numpy as np

from pyflowers.posterior.exact.poisson_integrals import log_rate_mode
from pyflowers.posterior.exact.rejection import (
    Accepted,
    Index,
    log_gamma_draws,
    until_accepted,
)
from pyflowers.posterior.exact.tabulated import FloatArray

_MAX_NEWTON = 60
_FAR = 600.0
_NEAR = 1.0  # sigma from the mode: there too a gamma tangent is efficient
_SMALLEST_CUBED, _LARGEST_CUBED = 12.0, 1e8  # counts; above, rounding would tell
_CLOSE = 0.1  # of the standard deviation: near enough to the mode


def central_modes(
    num: FloatArray, total: FloatArray, mu: FloatArray, sigma2: FloatArray
) -> FloatArray:
    """Return the modes of plants, shape (P,), at the medians of mu and sigma2, shape (D,)."""
    seen = np.maximum(num, 1.0)
    mean, var = np.full_like(num, np.median(mu)), np.full_like(num, np.median(sigma2))
    x, expected = log_rate_mode(seen, total, mean, np.log(var))
    return x + (total - expected - (x - mean) / var) / (expected + 1 / var)


def draw_rates(
    num: FloatArray,
    total: FloatArray,
    mu: FloatArray,
    sigma2: FloatArray,
    near: FloatArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, int]:
    """Draw the rate of each plant for each (mu, sigma2).

    Parameters
    ----------
    num, total : array, shape (P,)
        Months and flowers of each plant.
    mu, sigma2 : array, shape (D,)
        Means and variances of the hierarchy.
    near : array, shape (P,)
        Points near the plants' modes; they bear on speed alone.
    rng : numpy.random.Generator
        The source of all randomness.

    Returns
    -------
    rates : array, shape (P, D)
        mu_plant, flowers a month.
    num_proposals : int
        How many proposals they took.
    """
    m = near[:, None]
    b = num[:, None] * np.exp(m)
    tangent = (total[:, None] - b) * sigma2
    tangent += mu
    off = tangent - m
    serves = np.abs(off, out=off) < _NEAR * np.sqrt(sigma2)
    usual = np.clip(b, _SMALLEST_CUBED, _LARGEST_CUBED)
    serves &= (sigma2 > 1 / usual + 1 / usual**2) & (b == usual)
    whole = np.all(serves, axis=1)
    if np.all(whole):
        return _from_cubes(num[:, None], b, tangent, sigma2, rng)
    rates = np.empty(tangent.shape)
    rates[whole], first = _from_cubes(num[whole, None], b[whole], tangent[whole], sigma2, rng)
    part = serves & ~whole[:, None]
    plant, draw = np.nonzero(part)
    rates[part], second = _from_cubes(num[plant], b[plant, 0], tangent[part], sigma2[draw], rng)
    plant, draw = np.nonzero(~serves)
    x, third = draw_log_rates(num[plant], total[plant], mu[draw], sigma2[draw], near[plant], rng)
    with np.errstate(over="ignore"):  # of plants without months
        rates[~serves] = np.exp(x, out=x)
    return rates, first + second + third


def draw_log_rates(
    num: FloatArray,
    total: FloatArray,
    mu: FloatArray,
    sigma2: FloatArray,
    near: FloatArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, int]:
    """Draw one log rate for each element, shape (N,), with tangents at the modes.

    The arguments are those of :func:`draw_rates`, all of shape (N,).
    """
    x = np.empty_like(mu)
    precision = 1 / sigma2
    mode, b = _modes(num, total, mu, precision, near)
    shape = mu - mode
    shape *= precision
    shape += total
    data_rule = (sigma2 * b * b > 1 + b) & (shape > 0.5 * b)
    gamma, normal = np.flatnonzero(data_rule), np.flatnonzero(~data_rule)
    x[gamma], first = _from_gamma(num[gamma], shape[gamma], mode[gamma], sigma2[gamma], rng)
    mean = mu[normal] + sigma2[normal] * (total[normal] - b[normal])
    x[normal], second = _from_normal(
        num[normal], mean, b[normal], mode[normal], sigma2[normal], rng
    )
    return x, first + second


def _modes(
    num: FloatArray, total: FloatArray, mu: FloatArray, precision: FloatArray, near: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return points near enough to the modes, and n e^x there."""

    def newton(x: FloatArray, b: FloatArray, part: Index) -> tuple[FloatArray, FloatArray]:
        """Return the step, and its squared length in standard deviations."""
        slope = mu[part] - x
        slope *= precision[part]
        slope += total[part]
        slope -= b
        step = b + precision[part]
        np.divide(slope, step, out=step)
        slope *= step
        return step, slope

    b = num * np.exp(near)
    x, _ = newton(near, b, ...)
    np.clip(x, -1.0, 1.0, out=x)
    x += near
    np.exp(x, out=b)
    b *= num
    far = np.flatnonzero(newton(x, b, ...)[1] > _CLOSE**2)
    if far.size:
        seen = np.maximum(num[far], 1e-300)
        x[far], _ = log_rate_mode(seen, total[far], mu[far], -np.log(precision[far]))
        b[far] = num[far] * np.exp(x[far])
    for _ in range(_MAX_NEWTON):
        if not far.size:
            break
        step, length = newton(x[far], b[far], far)
        far, step = far[length > _CLOSE**2], step[length > _CLOSE**2]
        x[far] += np.clip(step, -1.0, 1.0)
        b[far] = num[far] * np.exp(x[far])
    return x, b


def _from_cubes(
    num: FloatArray,
    shape: FloatArray,
    tangent: FloatArray,
    sigma2: FloatArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, int]:
    """Propose rates d v / num, with v = (1 + z / sqrt(9 d))³, d = shape - 1/3 and z ~ N(0, 1).

    In z the density of Gamma(shape) is exp(d (log v + 1 - v)), which is at most exp(-z² / 2)
    (Marsaglia and Tsang 2000). One uniform variate decides on this and on the rest of the tangent:
    a proposal is kept with probability e^-f, f = d (v - 1 - log v) - z² / 2 + δ² / (2 sigma2), and
    since 1 - e^-f is at most 2 f the exponential is seldom computed. The other arguments broadcast
    to `tangent`.
    """
    d = shape - 1 / 3
    scale = d / num
    origin = np.log(scale) - tangent
    columns = (scale, 2 * d, (9 * d) ** -0.5, 1 / sigma2)
    scale_of, twice_d, root, precision = (np.broadcast_to(a, origin.shape) for a in columns)

    def propose(index: Index) -> Accepted:
        z = rng.standard_normal(origin[index].shape)
        v = z * root[index]
        v += 1
        with np.errstate(invalid="ignore", divide="ignore"):  # z below -10 is rejected
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


def _from_gamma(
    num: FloatArray, shape: FloatArray, at: FloatArray, sigma2: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, int]:
    """Propose e^x ~ Gamma(shape, num)."""
    log_num = np.log(num)

    def propose(index: Index) -> Accepted:
        x = log_gamma_draws(shape[index], rng)
        x -= log_num[index]
        square = x - at[index]
        square *= square
        bound = rng.standard_exponential(x.size)
        bound *= 2 * sigma2[index]
        return x, bound > square

    return until_accepted(propose)


def _from_normal(
    num: FloatArray,
    mean: FloatArray,
    b: FloatArray,
    at: FloatArray,
    sigma2: FloatArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, int]:
    """Propose x ~ N(mean, sigma2)."""
    sigma = np.sqrt(sigma2)

    def propose(index: Index) -> Accepted:
        x = mean[index] + sigma[index] * rng.standard_normal(mean[index].size)
        delta = x - at[index]
        fall = b[index] * (np.expm1(np.minimum(delta, _FAR)) - delta)
        if delta.size and delta.max() > _FAR:  # b may underflow where n e^x does not
            with np.errstate(over="ignore", divide="ignore"):
                fall = np.where(delta > _FAR, np.exp(x + np.log(num[index])), fall)
        return x, rng.standard_exponential(x.size) > fall

    return until_accepted(propose)
