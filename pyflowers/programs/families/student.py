"""Student's t family: y ~ t(nu, eta, sigma), for measurements with outliers."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import SIGMA, Auxiliary, Family, FloatArray, Tails, Values

LARGE = 1e6
"""The degrees of freedom above which the density's constant is computed by a series."""


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    from scipy.special import gammaln

    nu, sigma = np.asarray(values["nu"]), values["sigma"]
    near = np.minimum(nu, LARGE)
    ratio = gammaln((near + 1) / 2) - gammaln(near / 2) - 0.5 * np.log(near / 2)
    # Two large logs would cancel; the next term of this series is below 1e-20.
    ratio = np.where(nu > LARGE, -1 / (4 * nu), ratio)
    constant = ratio - 0.5 * np.log(2 * np.pi) - np.log(sigma)
    return np.asarray(constant - (nu + 1) / 2 * np.log1p(((y - eta) / sigma) ** 2 / nu))


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    nu = np.broadcast_to(values["nu"], eta.shape)
    return np.asarray(eta + values["sigma"] * rng.standard_t(nu))


def _moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    """Return eta and the squared scale, as the variance is infinite if nu is 2 or less."""
    return eta, np.broadcast_to(np.square(values["sigma"]), eta.shape)


NU = Auxiliary(
    "nu",
    "real<lower=1>",
    "gamma({alpha}, {beta})",
    {"alpha": 2.0, "beta": 0.1},
    "degrees of freedom: the smaller, the heavier the tails",
)


def _tails(y: FloatArray, eta: FloatArray, values: Values) -> Tails:
    from scipy.special import stdtr

    z = (y - eta) / values["sigma"]
    with np.errstate(divide="ignore"):
        return np.log(stdtr(values["nu"], z)), np.log(stdtr(values["nu"], -z))


FAMILY = Family(
    name="student",
    equation="{y} ~ t(nu, eta, sigma)",
    link="identity",
    response="vector[N]",
    stan="student_t(nu, {eta}, sigma)",
    rng="student_t_rng(nu, {eta}, sigma)",
    log_lik=_log_lik,
    draw=_draw,
    mean=lambda eta, values: eta,
    moments=_moments,
    auxiliary=(SIGMA, NU),
    scale="y",
    alternatives=("skew_normal",),
    links=("log", "inverse", "softplus"),
    tails=_tails,
)
