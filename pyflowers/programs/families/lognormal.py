"""The lognormal family: log y ~ N(eta, sigma²)."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import SIGMA, Family, FloatArray, Tails, Values
from pyflowers.programs.families import gaussian as normal

_TOTALS = normal.totals("log(y[n])")

LARGEST_LOG = 700.0
"""The largest log of a random response, so that the response is finite."""


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    return np.asarray(np.exp(np.minimum(normal.draw(eta, values, rng), LARGEST_LOG)))


def _tails(y: FloatArray, eta: FloatArray, values: Values) -> Tails:
    with np.errstate(divide="ignore"):
        return normal.tails(np.log(np.maximum(y, 0.0)), eta, values)


FAMILY = Family(
    name="lognormal",
    equation="log {y} ~ N(eta, sigma²)",
    link="identity",
    response="vector<lower=0>[N]",
    stan="lognormal({eta}, sigma)",
    rng="lognormal_rng({eta}, sigma)",
    log_lik=lambda y, eta, values: normal.log_lik(np.log(y), eta, values) - np.log(y),
    draw=_draw,
    mean=lambda eta, values: np.exp(eta + 0.5 * np.square(values["sigma"])),
    moments=normal.moments,
    auxiliary=(SIGMA,),
    scale="log",
    alternatives=("gamma", "weibull"),
    excludes={"0": "hurdle_lognormal"},
    shape_of_mean="exp",
    compares_logs=True,
    totals=_TOTALS,
    as_normal=np.log,
    tails=_tails,
)
