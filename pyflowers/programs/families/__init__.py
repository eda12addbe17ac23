"""Families of a response's distribution: each a module with `FAMILY`, in Stan and in NumPy.

A module that is added here is a family, found by its name; nothing else names it.
"""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pyflowers.errors import ConfigError

FloatArray = NDArray[np.float64]
Values = Mapping[str, Any]
"""Auxiliary parameters by name, shaped (chain, draw, 1) or (chain, draw, J - 1, 1), and trials."""

LARGEST_LOG_RATE = 20.0
"""Log of a rate beyond which a count exceeds what Stan's integers hold; it is cut there."""


@dataclass(frozen=True)
class Auxiliary:
    """A parameter of a family beside the linear predictor.

    Attributes
    ----------
    name : str
        Its name.
    declared : str
        Its type in Stan.
    prior : str
        A distribution of Stan's, whose hyperparameters are named after it: ``{scale}`` of `sigma`
        is the data variable ``sigma_scale``.
    values : mapping of str to float or None
        The defaults of the hyperparameters; None is the scale of the data.
    description : str
        Its meaning.
    """

    name: str
    declared: str
    prior: str
    values: Mapping[str, float | None]
    description: str


@dataclass(frozen=True)
class Totals:
    """What a likelihood needs of rows that share their linear predictor, if these are sums.

    Attributes
    ----------
    stan : str
        Statements of the transformed data that sum what a cell needs over its rows ``kept``.
    statement : str
        The likelihood in Stan, ``eta`` the linear predictor of each cell.
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
        The model of one observation, for a reader; ``eta`` is the linear predictor.
    link : str
        ``identity``, ``log`` or ``logit``.
    response : str
        The response's type in Stan, with its bounds and ``[N]``.
    stan : str
        The distribution in Stan without ``_lpdf``, ``{eta}`` the linear predictor, such as
        ``normal({eta}, sigma)``. A name that Stan lacks is defined in `functions`.
    rng : str
        The random number in Stan, of one `{eta}`.
    log_lik : callable
        (y, eta, values) to log p(y | eta), arrays with rows last.
    draw : callable
        (eta, values, rng) to random responses of the shape of `eta`.
    mean : callable
        (eta, values) to the expected response.
    auxiliary : tuple of Auxiliary
        Its other parameters.
    scale : str
        What the scale of priors is taken from: ``y``, ``log`` of y, or ``fixed``, as for odds.
    has_trials : bool
        Whether an observation is a number of successes of ``| trials(n)``.
    is_positive : bool
        Whether a response must be above 0, which its type in Stan cannot say.
    is_ordinal : bool
        Whether its thresholds take the place of an intercept.
    functions : str
        Stan's functions that it needs. A density among them is of one observation: the likelihood
        is then a loop.
    totals : Totals or None
        Its sums.
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
    auxiliary: tuple[Auxiliary, ...] = ()
    scale: Literal["y", "log", "fixed"] = "fixed"
    has_trials: bool = False
    is_positive: bool = False
    is_ordinal: bool = False
    functions: str = ""
    totals: Totals | None = field(default=None, repr=False)

    @property
    def is_looped(self) -> bool:
        """Whether the density in Stan is of one observation only."""
        return f"{self.stan.partition('(')[0]}_lpmf(" in self.functions

    @property
    def is_discrete(self) -> bool:
        """Whether the response is whole numbers."""
        return self.response.startswith("array")


def family_names() -> list[str]:
    """Return the names of the families."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name[0] != "_")


def find_family(name: str) -> Family:
    """Return a family by its name.

    Raises
    ------
    ConfigError
        If there is none of that name.
    """
    names = family_names()
    if name not in names:
        near = difflib.get_close_matches(str(name).lower(), names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(names)}"
        raise ConfigError(f"family {name!r}: there is none of that name; {hint}")
    found: Family = import_module(f"{__name__}.{name}").FAMILY
    return found


def rate(eta: FloatArray) -> FloatArray:
    """Return exp(eta), cut where counts exceed what Stan's integers hold."""
    return np.asarray(np.exp(np.minimum(eta, LARGEST_LOG_RATE)))


SIGMA = Auxiliary(
    "sigma", "real<lower=0>", "student_t(3, 0, {scale})", {"scale": None}, "residual sd"
)
SHAPE = Auxiliary(
    "shape",
    "real<lower=0>",
    "inv_gamma({alpha}, {beta})",
    {"alpha": 0.4, "beta": 0.3},
    "shape: the larger, the closer to its limit without overdispersion",
)
ZI = Auxiliary(
    "zi",
    "real<lower=0, upper=1>",
    "beta({alpha}, {beta})",
    {"alpha": 1.0, "beta": 1.0},
    "probability of a zero that is not a count",
)
