"""The Poisson family: y ~ Poisson(exp(eta))."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pyflowers.programs.families import Family, FloatArray, Totals, Values, draw_counts

FEWEST_ROWS = 680
"""The fewest rows with the same rate for which tabulating probabilities is cheaper than drawing
each count: four for each tabulated value."""

_NUM_VALUES = 170
_LARGEST_TABLED = 50.0
"""The number of tabulated values of a count, and the largest rate for which a larger count has a
probability below 1e-39."""


def log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    """Return log Poisson(y | exp(eta)), also for a rate of 0."""
    from scipy.special import gammaln

    # A rate may underflow to 0; then 0⁰ = 1 is the probability of a count of 0.
    of_counts = np.multiply(
        y, eta, out=np.zeros(np.broadcast_shapes(y.shape, eta.shape)), where=y > 0
    )
    return np.asarray(of_counts - np.exp(eta) - gammaln(y + 1))


def draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    """Draw from Poisson(exp(eta)); a rate that overflows is infinite."""
    num = _rows_of_blocks(eta)
    with np.errstate(over="ignore"):
        rates = np.exp(eta[..., :: num or 1])
    if not num:
        return draw_counts(rates, rng)
    counts = np.empty((*rates.shape, num))
    tabled = rates <= _LARGEST_TABLED
    counts[tabled] = _tabled(rates[tabled], num, rng)
    others = rates[~tabled, None]
    counts[~tabled] = draw_counts(np.broadcast_to(others, (len(others), num)), rng)
    return counts.reshape(eta.shape)


def _rows_of_blocks(eta: FloatArray) -> int:
    """Return the number of rows of each block if rows with the same eta are in equal blocks."""
    first = eta[(0,) * (eta.ndim - 1)]
    changes = np.flatnonzero(first[1:] != first[:-1])
    num = int(changes[0]) + 1 if changes.size else first.size
    if num < FEWEST_ROWS or first.size % num:
        return 0
    blocks = eta.reshape(*eta.shape[:-1], -1, num)
    return num if (blocks == blocks[..., :1]).all() else 0


def _tabled(rates: FloatArray, num: int, rng: Generator) -> NDArray[np.int16]:
    """Return `num` counts of each of several small rates, shape (rate, num)."""
    from scipy.special import gammaln, xlogy

    values = np.arange(_NUM_VALUES)
    probability = np.exp(xlogy(values, rates[:, None]) - rates[:, None] - gammaln(values + 1))
    probability /= probability.sum(axis=1, keepdims=True)
    times = rng.multinomial(num, probability)
    every = np.tile(values.astype(np.int16), rates.size)
    sorted_counts = np.repeat(every, times.ravel()).reshape(rates.size, num)
    return rng.permuted(sorted_counts, axis=1)


def moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    """Return exp(eta) twice."""
    return np.exp(eta), np.exp(eta)


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
    heavier="negbinomial",
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
)
