"""Ratings whose probabilities follow from a distribution function F at threshold - eta."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pyflowers.programs.families import Auxiliary, Values
from pyflowers.programs.families._links import ResponseLink

FloatArray = NDArray[np.float64]
Probabilities = Callable[[FloatArray, Values], FloatArray]
"""Function of (eta, values) that returns log probabilities, with the ratings on the first axis."""

THRESHOLD = Auxiliary(
    "threshold",
    "ordered[J - 1]",
    "student_t(3, 0, {scale})",
    {"scale": 2.5},
    "latent values that separate each rating from the next",
)


def log_odds(x: FloatArray, link: ResponseLink) -> FloatArray:
    """Return the log odds of F(x) for the distribution function F of a link."""
    assert link.via_log_odds is not None  # every link for a probability has this function
    return link.via_log_odds(x)


def above(eta: FloatArray, values: Values) -> FloatArray:
    """Return each threshold minus eta, with the thresholds on the first axis."""
    return np.asarray(np.moveaxis(values["threshold"], 2, 0) - eta)


def log_lik(logs: Probabilities) -> Callable[[FloatArray, FloatArray, Values], FloatArray]:
    """Return a function that returns log p(y | eta)."""

    def found(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
        every = logs(eta, values)
        rating = np.broadcast_to(y.astype(np.int64) - 1, every.shape[1:])
        return np.asarray(np.take_along_axis(every, rating[None], axis=0)[0])

    return found


def draw(logs: Probabilities) -> Callable[[FloatArray, Values, Generator], FloatArray]:
    """Return a function that draws ratings."""

    def found(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
        below = np.cumsum(np.exp(logs(eta, values)), axis=0)[:-1]
        return np.asarray(1.0 + (rng.random(eta.shape) > below).sum(axis=0))

    return found


def mean(logs: Probabilities) -> Callable[[FloatArray, Values], FloatArray]:
    """Return a function that returns the mean score."""

    def found(eta: FloatArray, values: Values) -> FloatArray:
        return np.asarray(np.tensordot(values["scores"], np.exp(logs(eta, values)), axes=1))

    return found


def moments(
    logs: Probabilities,
) -> Callable[[FloatArray, Values], tuple[FloatArray, FloatArray]]:
    """Return a function that returns the mean and variance of ratings, numbered from 1."""

    def found(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
        share = np.exp(logs(eta, values))
        ratings = np.arange(1.0, len(share) + 1)
        first = np.tensordot(ratings, share, axes=1)
        away = np.square(ratings.reshape(-1, *[1] * first.ndim) - first)
        return np.asarray(first), np.asarray((away * share).sum(axis=0))

    return found
