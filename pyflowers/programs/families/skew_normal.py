"""The skew normal family, with mean eta, sd sigma and skewness alpha.

With delta = alpha / sqrt(1 + alpha²), the distribution of Azzalini has

    omega = sigma / sqrt(1 - 2 delta² / π),    xi = eta - omega delta sqrt(2 / π).

References
----------
Azzalini (1985), A class of distributions which includes the normal ones, Scandinavian Journal of
Statistics 12(2). Stan Functions Reference 2.35, "Skew normal distribution".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import SIGMA, Auxiliary, Family, FloatArray, Values
from pyflowers.programs.families.gaussian import moments


def _own(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return xi, omega and delta."""
    alpha = values["alpha"]
    delta = alpha / np.sqrt(1 + np.square(alpha))
    omega = values["sigma"] / np.sqrt(1 - 2 * np.square(delta) / np.pi)
    return eta - omega * delta * np.sqrt(2 / np.pi), omega, delta


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    from scipy.special import log_ndtr

    xi, omega, _ = _own(eta, values)
    z = (y - xi) / omega
    normal = -0.5 * (np.log(2 * np.pi) + z**2) - np.log(omega)
    return np.asarray(np.log(2) + normal + log_ndtr(values["alpha"] * z))


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    xi, omega, delta = _own(eta, values)
    one, other = rng.standard_normal(eta.shape), rng.standard_normal(eta.shape)
    return np.asarray(xi + omega * (delta * np.abs(one) + np.sqrt(1 - delta**2) * other))


FAMILY = Family(
    name="skew_normal",
    equation="{y} ~ skew normal with mean eta, sd sigma and skewness alpha",
    link="identity",
    response="vector[N]",
    stan="skew_normal({mu} - sigma * skew_shift(alpha), sigma * skew_scale(alpha), alpha)",
    rng="skew_normal_draw_rng({mu}, sigma, alpha)",
    log_lik=_log_lik,
    draw=_draw,
    mean=lambda eta, values: eta,
    moments=moments,
    auxiliary=(
        replace(SIGMA, description="sd"),
        Auxiliary(
            "alpha",
            "real",
            "normal({location}, {scale})",
            {"location": 0.0, "scale": 4.0},
            "skewness: 0 for a normal distribution, above 0 for a longer tail of large values",
        ),
    ),
    scale="y",
    alternatives=("exgaussian", "student"),
    links=("log", "inverse", "softplus"),
    functions="""
// the scale of a skew normal distribution with sd 1
real skew_scale(real alpha) {
  return inv_sqrt(1 - 2 / pi() * square(alpha) / (1 + square(alpha)));
}
// its mean, less its location
real skew_shift(real alpha) {
  return skew_scale(alpha) * alpha * sqrt(2 / (pi() * (1 + square(alpha))));
}
real skew_normal_draw_rng(real mu, real sigma, real alpha) {
  real delta = alpha / sqrt(1 + square(alpha));
  real z = delta * abs(normal_rng(0, 1))
           + sqrt(1 - square(delta)) * normal_rng(0, 1);
  return mu + sigma * (skew_scale(alpha) * z - skew_shift(alpha));
}""",
)
