"""The zero-inflated Poisson family: 0 with probability zi, otherwise Poisson(exp(eta))."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import ZI, Family, FloatArray, Values, poisson


def log_lik(counts: FloatArray, y: FloatArray, zi: FloatArray) -> FloatArray:
    """Return the log probability of y; `counts` is its log probability without zero inflation."""
    mixed = np.log1p(-zi) + counts
    return np.where(y == 0, np.logaddexp(np.log(zi), mixed), mixed)


def draw(counts: FloatArray, values: Values, rng: Generator) -> FloatArray:
    """Replace each count by 0 with probability zi."""
    return np.where(rng.random(counts.shape) < values["zi"], 0.0, counts)


def moments(counts: tuple[FloatArray, FloatArray], values: Values) -> tuple[FloatArray, FloatArray]:
    """Return the mean and variance, from the moments of the counts without zero inflation."""
    (mean, variance), zi = counts, values["zi"]
    return (1 - zi) * mean, (1 - zi) * (variance + zi * mean**2)


def functions(name: str, count: str, types: str, arguments: str) -> str:
    """Return the Stan function for a zero-inflated distribution of counts."""
    return f"""
real {name}_lpmf(int y, real eta{types}, real zi) {{
  real mixed = log1m(zi) + {count}_lpmf(y | eta{arguments});
  return y == 0 ? log_sum_exp(log(zi), mixed) : mixed;
}}"""


FAMILY = Family(
    name="zero_inflated_poisson",
    equation="{y} is 0 with probability zi, otherwise ~ Poisson(exp(eta))",
    link="log",
    response="array[N] int<lower=0>",
    stan="zero_inflated_poisson_log({eta}, zi)",
    rng="bernoulli_rng(zi) ? 0 : poisson_log_rng(fmin({eta}, 20))",
    log_lik=lambda y, eta, values: log_lik(poisson.log_lik(y, eta, values), y, values["zi"]),
    draw=lambda eta, values, rng: draw(poisson.draw(eta, values, rng), values, rng),
    mean=lambda eta, values: (1 - values["zi"]) * np.exp(eta),
    moments=lambda eta, values: moments(poisson.moments(eta, values), values),
    auxiliary=(ZI,),
    scale="log",
    alternatives=("zero_inflated_negbinomial",),
    meaning="log of the expected {} without excess zeros",
    links=("softplus",),
    functions=functions("zero_inflated_poisson_log", "poisson_log", "", ""),
)
