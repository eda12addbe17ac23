"""Families of response distributions; each module defines one, `FAMILY`, in Stan and in NumPy.

A module that is added here becomes a family with the name of the module. Other code must be changed
only for a kind of prior that no family has yet (``_PRIORS`` in ``formulas/parts.py``).
"""

from __future__ import annotations

import math
import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pyflowers.errors import ConfigError
from pyflowers.text import suggestion

FloatArray = NDArray[np.float64]
Values = Mapping[str, Any]
"""Auxiliary parameters by name, shape (chain, draw, 1) or (chain, draw, J - 1, 1), trials, shape
(N,), and the scores of ratings, shape (J,)."""


@dataclass(frozen=True)
class Link:
    """How a parameter follows from its linear predictor.

    Attributes
    ----------
    inverse : str
        The parameter in Stan for ``{}``, the linear predictor.
    meaning : str
        What the linear predictor is; ``{}`` is the parameter.
    from_linear : callable
        Function of (linear, sd) that returns the average of the parameter over linear predictors
        that are normal with mean `linear` and standard deviation `sd`; for 0, the parameter.
    to_linear : callable
        Function that turns the parameter into its linear predictor.
    """

    inverse: str
    meaning: str
    from_linear: Callable[[FloatArray, Any], FloatArray]
    to_linear: Callable[[float], float]


@dataclass(frozen=True)
class Auxiliary:
    """A parameter of a family in addition to the linear predictor.

    Attributes
    ----------
    name : str
        Its name.
    declared : str
        Its type in Stan.
    prior : str
        A distribution in Stan, whose hyperparameters are named after the parameter: ``{scale}`` of
        `sigma` is the data variable ``sigma_scale``.
    values : mapping of str to float or None
        The defaults of the hyperparameters; None stands for the scale of the data.
    description : str
        Its meaning.
    """

    name: str
    declared: str
    prior: str
    values: Mapping[str, float | None]
    description: str

    @property
    def link(self) -> Link | None:
        """The link of its linear predictor, by its bounds; None if it cannot have one."""
        return _LINKS.get(self.declared)

    @property
    def lower(self) -> float | None:
        """Its lower bound; None if there is none."""
        bound = re.search(r"lower=([\d.]+)", self.declared)
        return float(bound[1]) if bound else None


@dataclass(frozen=True)
class Totals:
    """The sums from which the likelihood of rows with the same linear predictor is computed.

    Attributes
    ----------
    stan : str
        Statements of the transformed data that compute, for each cell, the sums over its rows that
        are not ``held_out``.
    statement : str
        The likelihood in Stan, where ``eta`` is the linear predictor of each cell.
    """

    stan: str
    statement: str


@dataclass(frozen=True)
class Family:
    """The distribution of a response, given its linear predictor.

    Attributes
    ----------
    name : str
        Its name.
    equation : str
        The model of one observation, for display; ``eta`` is the linear predictor.
    link : str
        ``identity``, ``log`` or ``logit``.
    response : str
        The type of the response in Stan, with its bounds and ``[N]``.
    stan : str
        The distribution in Stan without ``_lpdf``, such as ``normal({eta}, sigma)``, where
        ``{eta}`` is the linear predictor. A name that Stan lacks is defined in `functions`.
    rng : str
        The random number generator in Stan for one `{eta}`.
    log_lik : callable
        Function of (y, eta, values) that returns log p(y | eta); in all arrays, rows come last.
    draw : callable
        Function of (eta, values, rng) that returns random responses in the shape of `eta`.
    mean : callable
        Function of (eta, values) that returns the expected response. With scale ``log`` it is
        proportional to exp(eta), and with an identity link and another scale it is linear in eta;
        with a logit link, it uses :func:`average_inv_logit` with ``values["sd_eta"]``, the sd of
        eta between groups.
    moments : callable
        Function of (eta, values) that returns the mean and the variance of the response, or of its
        log if `compares_logs`. Predictive checks standardise residuals with them.
    auxiliary : tuple of Auxiliary
        Its other parameters.
    scale : str
        The source of the scale of priors: ``y``, ``log`` of y, or ``fixed``, as for log odds.
    has_trials : bool
        Whether an observation is a number of successes in ``| trials(n)``.
    is_positive : bool
        Whether a response must be above 0, which its type in Stan cannot express.
    is_ordinal : bool
        Whether thresholds replace the intercept.
    compares_logs : bool
        Whether `moments` are those of the log of the response, because its spread is a factor.
    heavier : str
        The name of the family with the same link and heavier tails; empty if there is none.
    functions : str
        Functions in Stan that it needs. A density among them takes one observation, so the
        likelihood is a loop.
    totals : Totals or None
        The sums from which its likelihood can be computed; None if no such sums are used.
    """

    name: str
    equation: str
    link: Literal["identity", "log", "logit"]
    response: str
    stan: str
    rng: str
    log_lik: Callable[[FloatArray, FloatArray, Values], FloatArray]
    draw: Callable[[FloatArray, Values, Generator], FloatArray]
    mean: Callable[[FloatArray, Values], FloatArray]
    moments: Callable[[FloatArray, Values], tuple[FloatArray, FloatArray]]
    auxiliary: tuple[Auxiliary, ...] = ()
    scale: Literal["y", "log", "fixed"] = "fixed"
    has_trials: bool = False
    is_positive: bool = False
    is_ordinal: bool = False
    compares_logs: bool = False
    heavier: str = ""
    functions: str = ""
    totals: Totals | None = field(default=None, repr=False)

    @property
    def is_looped(self) -> bool:
        """Whether the density in Stan takes only one observation."""
        return f"{self.stan.partition('(')[0]}_lpmf(" in self.functions

    @property
    def counts_successes(self) -> bool:
        """Whether the response is a number of successes, or 1 for a success."""
        return self.is_discrete and self.link == "logit" and not self.is_ordinal

    @property
    def is_discrete(self) -> bool:
        """Whether the response is an integer."""
        return self.response.startswith("array")


_OTHER_NAMES = {
    "normal": "gaussian",
    "t": "student",
    "student_t": "student",
    "logistic": "bernoulli",
    "logit": "bernoulli",
    "negative_binomial": "negbinomial",
    "negbin": "negbinomial",
    "nbinom": "negbinomial",
    "nbinom2": "negbinomial",
    "neg_binomial_2": "negbinomial",
    "ordinal": "cumulative",
    "ordered_logistic": "cumulative",
    "polr": "cumulative",
    "zip": "zero_inflated_poisson",
    "zinb": "zero_inflated_negbinomial",
}
"""Names that families have elsewhere."""


def family_names() -> list[str]:
    """Return the names of the families."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name[0] != "_")


def find_family(name: str) -> Family:
    """Return a family by its name.

    Raises
    ------
    ConfigError
        If there is no family with that name.
    """
    names = family_names()
    if name not in names:
        asked = str(name).lower().replace("-", "_").replace(" ", "_")
        hint = suggestion(asked, names)
        if asked in _OTHER_NAMES:
            hint = f"did you mean {_OTHER_NAMES[asked]}?"
        raise ConfigError(f"family {name!r} does not exist; {hint}")
    found: Family = import_module(f"{__name__}.{name}").FAMILY
    return found


def average_inv_logit(eta: FloatArray, sd: Any) -> FloatArray:
    """Return the average of inv_logit(eta + sd z) over z ~ N(0, 1).

    Where sd is below 2, the integrand is smooth, and Gauss-Hermite nodes are exact. Elsewhere
    inv_logit is written as the distribution function of a logistic variable l, so that the average
    is that of Phi((eta - l) / sd) over l; a sum over equally spaced l is exact for any sd. The
    error is below 1e-8.
    """
    from scipy.special import expit, ndtr

    sd = np.asarray(sd)
    if not sd.any():
        return np.asarray(expit(eta))
    is_wide = sd >= 2
    narrow: Any = 0.0
    if not is_wide.all():
        nodes, weights = np.polynomial.hermite_e.hermegauss(48)
        within = np.minimum(sd, 2.0)
        pairs = zip(nodes, weights / weights.sum(), strict=True)
        narrow = sum(weight * expit(eta + node * within) for node, weight in pairs)
    if not is_wide.any():
        return np.asarray(narrow)
    logistic = 0.75 * np.arange(-32, 33)
    density = expit(logistic) * expit(-logistic)
    beyond = np.maximum(sd, 2.0)
    pairs = zip(logistic, density / density.sum(), strict=True)
    wide = sum(weight * ndtr((eta - node) / beyond) for node, weight in pairs)
    return np.asarray(np.where(is_wide, wide, narrow))


IDENTITY = Link("{}", "{}", lambda x, sd: np.asarray(x), float)
_LINKS = {
    "real": IDENTITY,
    "real<lower=0>": Link(
        "exp({})", "log of {}", lambda x, sd: np.exp(x + 0.5 * np.square(sd)), math.log
    ),
    "real<lower=1>": Link(
        "1 + exp({})",
        "log of ({} - 1)",
        lambda x, sd: 1 + np.exp(x + 0.5 * np.square(sd)),
        lambda p: math.log(p - 1),
    ),
    "real<lower=0, upper=1>": Link(
        "inv_logit({})", "log odds of {}", average_inv_logit, lambda p: math.log(p / (1 - p))
    ),
}
"""The link of a parameter with a linear predictor, by its type in Stan."""

SIGMA = Auxiliary(
    "sigma", "real<lower=0>", "student_t(3, 0, {scale})", {"scale": None}, "residual sd"
)
SHAPE = Auxiliary(
    "shape",
    "real<lower=0>",
    "inv_gamma({alpha}, {beta})",
    {"alpha": 0.4, "beta": 0.3},
    "shape: the larger, the smaller the variance at a given mean",
)
ZI = Auxiliary(
    "zi",
    "real<lower=0, upper=1>",
    "beta({alpha}, {beta})",
    {"alpha": 1.0, "beta": 1.0},
    "probability of a zero in addition to those of the counts",
)
