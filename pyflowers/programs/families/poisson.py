"""The Poisson family: y ~ Poisson(exp(eta))."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import Family, FloatArray, Tails, Totals, Values
from pyflowers.programs.families._counts import draw_poisson, log_factorials


def log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    """Return log Poisson(y | exp(eta)), where the rate may be 0."""
    with np.errstate(invalid="ignore"):
        of_counts = y * eta
    if np.isneginf(eta).any():  # where the rate is 0, the probability of a count of 0 is 0⁰ = 1
        of_counts = np.where(y > 0, of_counts, 0.0)
    return np.asarray(of_counts - np.exp(eta) - log_factorials(y))


def draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    """Draw from Poisson(exp(eta))."""
    return draw_poisson(eta, rng)


def moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    """Return exp(eta) twice."""
    return np.exp(eta), np.exp(eta)


def _tails(y: FloatArray, eta: FloatArray, values: Values) -> Tails:
    from scipy.special import gammainc, gammaincc

    # P(Y <= y) is the probability that the time of event y + 1 is above 1.
    events, rate = np.maximum(np.floor(y) + 1, 0.0), np.exp(eta)
    with np.errstate(divide="ignore"):
        none = np.where(events > 0, np.log(gammaincc(np.maximum(events, 1.0), rate)), -np.inf)
        return none, np.where(events > 0, np.log(gammainc(np.maximum(events, 1.0), rate)), 0.0)


FAMILY = Family(
    name="poisson",
    equation="{y} ~ Poisson(exp(eta))",
    link="log",
    response="array[N] int<lower=0>",
    stan="poisson_log({eta})",
    rng="poisson_log_rng(fmin({eta}, 20))",
    log_lik=log_lik,
    draw=draw,
    mean=lambda eta, values: np.exp(eta),
    moments=moments,
    scale="log",
    alternatives=("negbinomial", "zero_inflated_poisson", "zero_inflated_negbinomial"),
    links=("identity", "softplus"),
    of_mean="poisson({mu})",
    of_mean_rng="poisson_rng(fmin({mu}, 4e8))",
    totals=Totals(
        """
vector[D] y_num = zeros_vector(D); // rows of each cell
vector[D] y_total = zeros_vector(D); // the sum of their counts
for (n in 1 : N) {
  if (held_out[n] == 0) {
    y_num[cell[n]] += 1;
    y_total[cell[n]] += y[n];
  }
}""",
        "target += dot_product(y_total, eta) - dot_product(y_num, exp(eta));",
    ),
    tails=_tails,
)
