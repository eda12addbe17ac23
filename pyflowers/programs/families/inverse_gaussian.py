"""The inverse Gaussian family, with mean exp(eta) and variance exp(eta)³ / shape.

References
----------
Tweedie (1957), Statistical properties of inverse Gaussian distributions I, Annals of Mathematical
Statistics 28(2), equation 1 (its mu and lambda are mean and shape). Michael, Schucany and Haas
(1976), Generating random variates using transformations with multiple roots, The American
Statistician 30(2).
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import Auxiliary, Family, FloatArray, Values


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    mean, shape = np.exp(eta), values["shape"]
    distance = np.square((y - mean) / mean) / y
    return np.asarray(0.5 * (np.log(shape / (2 * np.pi)) - 3 * np.log(y) - shape * distance))


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    mean = np.exp(eta)
    return rng.wald(mean, np.broadcast_to(values["shape"], eta.shape))


def _moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    mean = np.exp(eta)
    return mean, mean**3 / values["shape"]


FAMILY = Family(
    name="inverse_gaussian",
    equation="{y} ~ inverse Gaussian with mean m = exp(eta) and variance m³ / shape",
    link="log",
    response="vector<lower=0>[N]",
    stan="inverse_gaussian({mu}, shape)",
    rng="inverse_gaussian_rng({mu}, shape)",
    log_lik=_log_lik,
    draw=_draw,
    mean=lambda eta, values: np.exp(eta),
    moments=_moments,
    auxiliary=(
        Auxiliary(
            "shape",
            "real<lower=0>",
            "inv_gamma({alpha}, {beta})",
            {"alpha": 0.4, "beta": 0.3},
            "shape: the larger, the smaller the variance at a given mean",
            times_y="beta",
        ),
    ),
    scale="log",
    alternatives=("gamma", "lognormal"),
    excludes={"0": "hurdle_gamma"},
    links=("identity", "inverse", "softplus"),
    functions="""
real inverse_gaussian_lpdf(real y, real mu, real shape) {
  if (mu <= 0) {
    return negative_infinity();
  }
  return 0.5 * log(shape / (2 * pi())) - 1.5 * log(y)
         - 0.5 * shape * square((y - mu) / mu) / y;
}
real inverse_gaussian_rng(real mu, real shape) {
  // one of the two roots of a quadratic equation (Michael, Schucany and Haas 1976)
  real ratio = mu * square(normal_rng(0, 1)) / (2 * shape);
  real root = mu / (1 + ratio + sqrt(ratio * (ratio + 2)));
  if (uniform_rng(0, 1) * (mu + root) <= mu) {
    return root;
  }
  return mu * (mu / root);
}""",
)
