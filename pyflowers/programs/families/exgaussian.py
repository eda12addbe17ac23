"""The exgaussian family: a normal variable with sd sigma plus an exponential one with mean beta.

The mean of the sum is eta.

References
----------
Stan Functions Reference 2.35, "Exponentially modified normal distribution", with mu = eta - beta
and lambda = 1 / beta.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import SIGMA, Auxiliary, Family, FloatArray, Tails, Values


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    from scipy.special import erfcx, log_ndtr

    sigma, beta = values["sigma"], values["beta"]
    z = (y - eta + beta) / sigma
    edge = z - sigma / beta
    # Where the edge is below 0, Φ(edge) = erfcx(-edge / √2) exp(-edge² / 2) / 2, which cancels the
    # other large terms.
    below = np.log(0.5 * erfcx(-np.minimum(edge, 0.0) / np.sqrt(2))) - 0.5 * np.square(z)
    above = 0.5 * np.square(sigma / beta) - z * sigma / beta + log_ndtr(np.maximum(edge, 0.0))
    return np.asarray(np.where(edge < 0, below, above) - np.log(beta))


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    normal = rng.normal(eta - values["beta"], np.broadcast_to(values["sigma"], eta.shape))
    return np.asarray(normal + values["beta"] * rng.exponential(size=eta.shape))


def _moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    variance = np.square(values["sigma"]) + np.square(values["beta"])
    return eta, np.broadcast_to(variance, eta.shape)


def _tails(y: FloatArray, eta: FloatArray, values: Values) -> Tails:
    from scipy.special import log_ndtr

    # P(Y > y) is that of the normal part, plus beta times the density.
    z = (y - eta + values["beta"]) / values["sigma"]
    added = np.log(values["beta"]) + _log_lik(y, eta, values)
    with np.errstate(divide="ignore", invalid="ignore"):
        below = log_ndtr(z) + np.log(-np.expm1(added - log_ndtr(z)))
    return below, np.logaddexp(log_ndtr(-z), added)


FAMILY = Family(
    name="exgaussian",
    equation="{y} ~ N(eta - beta, sigma²) + exponential with mean beta",
    link="identity",
    response="vector[N]",
    stan="exgaussian({mu}, sigma, beta)",
    rng="normal_rng({mu} - beta, sigma) + exponential_rng(inv(beta))",
    log_lik=_log_lik,
    draw=_draw,
    mean=lambda eta, values: eta,
    moments=_moments,
    auxiliary=(
        replace(SIGMA, description="sd of the normal part"),
        Auxiliary(
            "beta",
            "real<lower=0>",
            "student_t(3, 0, {scale})",
            {"scale": None},
            "mean of the exponential part",
        ),
    ),
    scale="y",
    links=("log", "inverse", "softplus"),
    tails=_tails,
    # Stan's density is 0 where sigma is above 37 beta. There, the normal distribution function of
    # -w is exp(-w²/2) / (w √(2π)) times an asymptotic series (Abramowitz and Stegun 1964, 26.2.12).
    # The logs of Stan's distribution function are wrong by up to 0.2 where sigma is above 8 beta.
    # P(Y > y) is that of the normal part, plus beta times the density.
    functions="""
real exgaussian_lpdf(real y, real m, real sigma, real beta) {
  real mu = m - beta; // the mean of the normal part
  real w = sigma / beta - (y - mu) / sigma;
  if (w < 20) {
    return exp_mod_normal_lpdf(y | mu, sigma, inv(beta));
  }
  real v = inv_square(w);
  return normal_lpdf(y | mu, sigma) - log(beta / sigma * w)
         + log1p(v * (-1 + v * (3 + v * (-15 + v * 105))));
}
real exgaussian_lcdf(real y, real m, real sigma, real beta) {
  return log_diff_exp(normal_lcdf(y | m - beta, sigma),
                      log(beta) + exgaussian_lpdf(y | m, sigma, beta));
}
real exgaussian_lccdf(real y, real m, real sigma, real beta) {
  return log_sum_exp(normal_lccdf(y | m - beta, sigma),
                     log(beta) + exgaussian_lpdf(y | m, sigma, beta));
}""",
)
