"""The von Mises family of directions, in radians from -π to π: mean direction 2 atan(eta).

References
----------
Fisher and Lee (1992), Regression models for an angular response, Biometrics 48(3) (the link). Stan
Functions Reference 2.35, "Von Mises distribution". Best and Fisher (1979), Efficient simulation of
the von Mises distribution, JRSS C 28(2).
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import Auxiliary, Family, FloatArray, Values

_NUM_TERMS, _LARGEST = 80, 200.0
"""The number of terms of the density's Fourier series, and the largest concentration for which they
suffice."""


def _direction(eta: FloatArray) -> FloatArray:
    return np.asarray(2 * np.arctan(eta))


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    from scipy.special import i0e

    kappa = values["kappa"]
    # kappa (cos d - 1) without cancellation for a small difference d of directions.
    about = -2 * kappa * np.square(np.sin(0.5 * (y - _direction(eta))))
    return np.asarray(about - np.log(2 * np.pi * i0e(kappa)))


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    drawn = rng.vonmises(_direction(eta), np.broadcast_to(values["kappa"], eta.shape))
    return np.asarray(np.clip(drawn, -np.pi, np.pi))


def _moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the variance of the angle from -π to π, from the density's series.

    A concentration above the largest one for which the series converges is replaced by that one.
    """
    from scipy.special import ive

    direction, kappa = _direction(eta), np.minimum(values["kappa"], _LARGEST)
    first, second = 0.0, np.pi**2 / 3
    for k in range(1, _NUM_TERMS + 1):
        weight = (-1) ** (k + 1) * 2 * ive(k, kappa) / ive(0, kappa) / k
        first = first + weight * np.sin(k * direction)
        second = second - 2 * weight / k * np.cos(k * direction)
    return np.asarray(first), np.maximum(second - np.square(first), 0.0)


FAMILY = Family(
    name="von_mises",
    equation="{y} ~ von Mises(2 atan(eta), kappa), in radians",
    link="tan_half",
    response="vector<lower=-pi(), upper=pi()>[N]",
    stan="von_mises({mu}, kappa)",
    rng="direction_rng({mu}, kappa)",
    log_lik=_log_lik,
    draw=_draw,
    mean=lambda eta, values: _direction(eta),
    moments=_moments,
    auxiliary=(
        Auxiliary(
            "kappa",
            "real<lower=0>",
            "exponential({rate})",
            {"rate": 0.1},
            "concentration: the larger, the closer the directions are to their mean",
        ),
    ),
    functions="""
// a rejection sampler with a wrapped Cauchy envelope (Best and Fisher 1979)
real direction_rng(real mu, real kappa) {
  real tau = 1 + sqrt(1 + 4 * square(kappa));
  real rho = (tau - sqrt(2 * tau)) / (2 * kappa);
  real r = kappa < 1e-5 ? 1 / kappa : (1 + square(rho)) / (2 * rho);
  real turn = 0;
  int is_accepted = 0;
  while (is_accepted == 0) {
    real z = cos(pi() * uniform_rng(0, 1));
    turn = (1 + r * z) / (r + z);
    real room = kappa * (r - turn);
    is_accepted = log(room / uniform_rng(0, 1)) + 1 - room >= 0;
  }
  int side = 2 * bernoulli_rng(0.5) - 1;
  real angle = mu + side * acos(fmin(fmax(turn, -1), 1));
  return angle - 2 * pi() * floor((angle + pi()) / (2 * pi()));
}""",
)
