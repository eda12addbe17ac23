"""Exact draws of a plant's log rate given (mu, sigma2), by rejection, many at once.

The density of x = log mu_plant, with n months and S flowers,

    f(x) ∝ exp(S x - n e^x - (x - mu)² / (2 sigma2)),

is log-concave. A tangent at any point m to one of its two concave parts lies above that part and
leaves a density that is easily drawn from. With δ = x - m,

  * to -n e^x:        f(x) ≤ C N(x; mu + sigma2 (S - n e^m), sigma2),
                      accepted with probability exp(-n e^m (e^δ - 1 - δ));
  * to the parabola:  f(x) ≤ C exp(a x - n e^x), a = S - (m - mu) / sigma2, so e^x ~ Gamma(a, n),
                      accepted with probability exp(-δ² / (2 sigma2)).

Both are exact for every m (with a > 0), and most efficient at the mode. There a = n e^m =: b, the
count expected, and the first serves where the prior rules, the second where the data do: it is
taken where sigma2 exceeds 1 / b + 1 / b², about the variance of log Gamma(b). More than a third of
all proposals are then accepted, whatever n, S, mu and sigma2 (tests hold this), and nearly all
where either rules.

References
----------
Gilks and Wild (1992), Adaptive rejection sampling for Gibbs sampling, Applied Statistics 41(2),
for tangents as envelopes.
Devroye (1986), Non-Uniform Random Variate Generation, sections II.3 and IX.3.
"""

import numpy as np

from pyflowers.closed_form.exact.integrals import log_rate_mode
from pyflowers.closed_form.exact.rejection import (
    Accepted,
    Index,
    log_gamma_draws,
    until_accepted,
)
from pyflowers.closed_form.exact.tabulated import FloatArray

_MAX_NEWTON = 60
_FAR = 600.0
_CLOSE = 0.1  # of the standard deviation: near enough to the mode


def central_modes(
    num: FloatArray, total: FloatArray, mu: FloatArray, sigma2: FloatArray
) -> FloatArray:
    """Return the modes of plants, shape (P,), at the medians of mu and sigma2, shape (D,)."""
    seen = np.maximum(num, 1.0)
    mean, var = np.full_like(num, np.median(mu)), np.full_like(num, np.median(sigma2))
    x, expected = log_rate_mode(seen, total, mean, np.log(var))
    return x + (total - expected - (x - mean) / var) / (expected + 1 / var)


def draw_log_rates(
    num: FloatArray,
    total: FloatArray,
    mu: FloatArray,
    sigma2: FloatArray,
    near: FloatArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, int]:
    """Draw one log rate for each element.

    Parameters
    ----------
    num, total, mu, sigma2 : array, shape (N,)
        Months, flowers, and the hierarchy's mean and variance.
    near : array, shape (N,)
        Where the search for the mode begins; it bears on speed alone.
    rng : numpy.random.Generator
        The source of all randomness.

    Returns
    -------
    x : array, shape (N,)
        Log rates.
    num_proposals : int
        How many proposals they took.
    """
    x = np.empty_like(mu)
    precision = 1 / sigma2
    mode, b = _modes(num, total, mu, precision, near)
    shape = mu - mode
    shape *= precision
    shape += total
    data_rule = (sigma2 * b * b > 1 + b) & (shape > 0.5 * b)
    if np.all(data_rule):
        return _from_gamma(num, shape, mode, sigma2, rng)
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

    everywhere = slice(None)
    b = num * np.exp(near)
    x, _ = newton(near, b, everywhere)
    np.clip(x, -1.0, 1.0, out=x)
    x += near
    np.exp(x, out=b)
    b *= num
    far = np.flatnonzero(newton(x, b, everywhere)[1] > _CLOSE**2)
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

    return until_accepted(propose, shape.size)


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

    return until_accepted(propose, mean.size)
