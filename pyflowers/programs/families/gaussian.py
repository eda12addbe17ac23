"""The normal family: y ~ N(eta, sigma²).

References
----------
Welford (1962), Note on a method for calculating corrected sums of squares and products,
Technometrics 4(3) (the mean and sum of squares of each cell, updated row by row).
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import SIGMA, Family, FloatArray, Tails, Totals, Values


def log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    """Return log N(y | eta, sigma²)."""
    z = (y - eta) / values["sigma"]
    return np.asarray(-0.5 * (np.log(2 * np.pi) + z**2) - np.log(values["sigma"]))


def draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    """Draw from N(eta, sigma²)."""
    return rng.normal(eta, np.broadcast_to(values["sigma"], eta.shape))


def moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    """Return eta and sigma²."""
    return eta, np.broadcast_to(np.square(values["sigma"]), eta.shape)


def totals(y: str) -> Totals:
    """Return the sums of a normal likelihood for `y`, an expression in Stan for row n."""
    return Totals(
        f"""
vector[D] y_num = zeros_vector(D); // rows of each cell
vector[D] y_mean = zeros_vector(D); // their mean
real y_ss = 0; // the sum of the squares about them
for (n in 1 : N) {{
  if (held_out[n] == 0) {{
    y_num[cell[n]] += 1;
    y_ss += (1 - 1 / y_num[cell[n]]) * square({y} - y_mean[cell[n]]);
    y_mean[cell[n]] += ({y} - y_mean[cell[n]]) / y_num[cell[n]];
  }}
}}""",
        """
real squares = y_ss + dot_product(y_num, square(y_mean - eta));
target += -sum(y_num) * log(sigma) - 0.5 * squares / square(sigma);""",
    )


def tails(y: FloatArray, eta: FloatArray, values: Values) -> Tails:
    """Return log P(Y <= y) and log P(Y > y)."""
    from scipy.special import log_ndtr

    z = (y - eta) / values["sigma"]
    return log_ndtr(z), log_ndtr(-z)


FAMILY = Family(
    name="gaussian",
    equation="{y} ~ N(eta, sigma²)",
    link="identity",
    response="vector[N]",
    stan="normal({eta}, sigma)",
    rng="normal_rng({eta}, sigma)",
    log_lik=log_lik,
    draw=draw,
    mean=lambda eta, values: eta,
    moments=moments,
    auxiliary=(SIGMA,),
    scale="y",
    alternatives=("student", "skew_normal"),
    links=("log", "inverse", "softplus"),
    totals=totals("y[n]"),
    as_normal=lambda y: y,
    tails=tails,
)
