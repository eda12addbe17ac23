"""Fits of formulas to one small table, whose rows are predicted, with few draws."""

import functools

import numpy as np
import pandas as pd

import pyflowers

NUM = 60
RNG = np.random.default_rng(7)
FRAME = pd.DataFrame(
    {
        "x": RNG.normal(2, 1.5, NUM).round(3),
        "positive x": RNG.uniform(0.5, 4, NUM).round(3),
        "dose": RNG.choice(["low", "high", "zero"], NUM),
        "year": RNG.choice([95, 96, 97], NUM),
        "site": RNG.choice(["a", "b", "c", "d", "e", "f"], NUM),
        "sex": RNG.choice(["m", "f"], NUM),
        "n": RNG.integers(4, 9, NUM),
        "hours": RNG.uniform(1, 3, NUM).round(2),
    }
)
FRAME["y"] = (1 + 0.5 * FRAME.x + RNG.normal(0, 1, NUM)).round(4)
FRAME["count"] = RNG.poisson(np.exp(0.3 + 0.2 * FRAME.x))
FRAME["hit"] = RNG.integers(0, 2, NUM)
FRAME["hits"] = RNG.binomial(FRAME.n, 0.4)
FRAME["share"] = RNG.beta(2, 3, NUM).round(4)
FRAME["size"] = RNG.gamma(3, 1, NUM).round(4) + 0.01
FRAME["rating"] = RNG.integers(1, 4, NUM)

NEW = pd.DataFrame(
    {
        "x": [0.0, 2.5, -1.0, 4.0],
        "positive x": [1.0, 2.0, 0.7, 3.0],
        "dose": ["zero", "low", "high", "low"],
        "year": [96, 95, 97, 97],
        "site": ["b", "f", "a", "c"],
        "sex": ["f", "m", "m", "f"],
        "n": [5, 10, 20, 1],
        "hours": [1.3, 2.0, 1.5, 2.9],
    }
)


def fit_of(formula, family="gaussian", frame=FRAME, draws=100):
    return (
        _fit_of(formula, family, draws) if frame is FRAME else _fit(formula, family, frame, draws)
    )


@functools.cache
def _fit_of(formula, family, draws):
    return _fit(formula, family, FRAME, draws)


def _fit(formula, family, frame, draws):
    how = {"chains": 2, "warmup": 200, "draws": draws, "seed": 1, "engine": "stanli"}
    return pyflowers.fit(formula, frame, family=family, **how)


def b(fit, name):
    """Return draws of a coefficient in a shape that broadcasts with rows."""
    labels = list(fit.posterior["b"].coords["X"].values)
    return fit.draws["b"][..., labels.index(name), None]
