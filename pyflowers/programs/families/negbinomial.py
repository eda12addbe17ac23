"""The negative binomial family: mean exp(eta), variance exp(eta) + exp(eta)² / shape."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import SHAPE, Family, FloatArray, Tails, Values
from pyflowers.programs.families._counts import draw_counts, rate
from pyflowers.programs.families._links import log_inv_logits


def log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    """Return the log probability of y; the rate is gamma(shape, shape / exp(eta))."""
    from scipy.special import betaln

    shape, count = values["shape"], np.maximum(y, 1)
    # The log of Γ(y + shape) / (Γ(shape) y!), without the cancellation between log-gamma values
    # that a large shape would cause.
    choices = np.where(y > 0, -np.log(count) - betaln(count, shape), 0.0)
    log_more, log_last = log_inv_logits(eta - np.log(shape))
    return np.asarray(choices + y * log_more + shape * log_last)


def draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    """Draw a rate for each count, then the count."""
    shape = np.broadcast_to(values["shape"], eta.shape)
    return draw_counts(rng.gamma(shape, rate(eta) / shape), rng)


def moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    """Return m = exp(eta) and m + m² / shape."""
    mean = np.exp(eta)
    return mean, mean + mean**2 / values["shape"]


def tails(y: FloatArray, eta: FloatArray, values: Values) -> Tails:
    """Return log P(Y <= y) and log P(Y > y)."""
    from scipy.special import betainc, expit

    shape, events = np.asarray(values["shape"]), np.floor(y) + 1
    above_zero, log_odds = np.maximum(events, 1.0), np.log(shape) - eta
    with np.errstate(divide="ignore"):
        below = np.log(betainc(shape, above_zero, expit(log_odds)))
        above = np.log(betainc(above_zero, shape, expit(-log_odds)))
    return np.where(events > 0, below, -np.inf), np.where(events > 0, above, 0.0)


FAMILY = Family(
    name="negbinomial",
    equation="{y} ~ negative binomial(exp(eta), shape), with variance exp(eta) + exp(eta)² / shape",
    link="log",
    response="array[N] int<lower=0>",
    stan="neg_binomial_2_log({eta}, shape)",
    rng="neg_binomial_2_log_rng(fmin({eta}, 20), shape)",
    log_lik=log_lik,
    draw=draw,
    mean=lambda eta, values: np.exp(eta),
    moments=moments,
    auxiliary=(SHAPE,),
    scale="log",
    alternatives=("zero_inflated_negbinomial",),
    links=("identity", "softplus"),
    of_mean="neg_binomial_2({mu}, shape)",
    of_mean_rng="neg_binomial_2_rng(fmin({mu}, 4e8), shape)",
    tails=tails,
)
