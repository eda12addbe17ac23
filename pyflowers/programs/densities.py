"""Prior densities, named as in Stan, with parameters taken from a program's data."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pyflowers.errors import ConfigError
from pyflowers.text import counted

Density = Callable[[NDArray[np.float64]], NDArray[np.float64]]


@dataclass(frozen=True)
class PriorDensity:
    """The prior of a parameter.

    Attributes
    ----------
    text : str
        The prior as a formula with numbers, such as ``N(0, 100²)``.
    log_density : callable or None
        Its log density. None if the prior is improper: flat, or with a parameter that is infinite
        or out of range.
    sd : float
        Standard deviation; NaN if it does not exist.
    quantile : callable or None
        Function of a probability that returns the quantile; None if the prior is improper.
    draw : callable or None
        Function of a generator and a shape that returns draws; None if the prior is improper.
    """

    text: str
    log_density: Density | None
    sd: float
    quantile: Callable[[float], float] | None
    draw: Callable[[Generator, tuple[int, ...]], NDArray[np.float64]] | None

    @property
    def density(self) -> Density | None:
        """The density; None if the prior is improper."""
        log_density = self.log_density
        if log_density is None:
            return None
        return lambda x: np.exp(log_density(x))


_CALL = re.compile(r"\s*(\w+)\s*\(([^()]*)\)\s*")


def prior_density(
    expression: str, values: Mapping[str, Any], lower: float | None = None
) -> PriorDensity:
    """Return a prior from its expression, such as ``normal(mu_mean, 10)``.

    Parameters
    ----------
    expression : str
        A distribution of Stan with its arguments: numbers, or names in `values`.
    values : mapping
        The data block, hyperparameters included.
    lower : float, optional
        The lower bound of the parameter, at which the distribution is truncated.

    Raises
    ------
    ConfigError
        If the distribution or a name is not known, or the number of arguments is wrong.
    """
    match = _CALL.fullmatch(expression)
    if match is None or match[1] not in _FAMILIES:
        known = ", ".join(_FAMILIES)
        raise ConfigError(
            f"prior {expression!r}: write it as one of Stan's distributions ({known}) with its "
            "arguments, such as normal(mu_mean, mu_sd)"
        )
    family, num, positive = _FAMILIES[match[1]]
    words = [word.strip() for word in match[2].split(",") if word.strip()]
    if len(words) != num:
        raise ConfigError(f"prior {expression!r}: {match[1]} takes {counted(num, 'argument')}")
    numbers = [_argument(word, values, expression) for word in words]
    if not (all(numbers[i] > 0 for i in positive) and np.isfinite(numbers).all()):
        text = f"{match[1]}({', '.join(f'{x:g}' for x in numbers)})"
        if match[1] == "scaled_inv_chi_square" and numbers[0] <= 0:
            text = "flat on (0, ∞)"
        return PriorDensity(text, None, float("nan"), None, None)
    found = family(*numbers)
    if lower is None:
        return found
    return _above(found, lower)


def _above(prior: PriorDensity, lower: float) -> PriorDensity:
    """Return a prior, truncated at a lower bound if it has mass below it."""
    quantile, density, log_density = prior.quantile, prior.density, prior.log_density
    if quantile is None or density is None or log_density is None or quantile(1e-9) >= lower:
        return prior
    low, high = 0.0, 1.0  # the mass below the bound, by bisection of the quantile function
    for _ in range(60):
        half = (low + high) / 2
        if quantile(half) < lower:
            low = half
        else:
            high = half
    below, above = high, 1 - high
    width = quantile(1 - 1e-9) - lower
    x = lower + np.concatenate([[0.0], np.geomspace(1e-6 * width, width, 4000)])
    mass = np.diff(x) * (density(x)[1:] + density(x)[:-1]) / 2 / above
    middle = (x[1:] + x[:-1]) / 2
    sd = prior.sd
    if np.isfinite(sd):
        sd = math.sqrt(mass @ middle**2 - (mass @ middle) ** 2)
    inverse = np.vectorize(lambda prob: quantile(below + prob * above), otypes=[np.float64])
    return PriorDensity(
        f"{prior.text} above {lower:g}",
        lambda x: np.where(x >= lower, log_density(x), -np.inf) - math.log(above),
        sd,
        lambda prob: quantile(below + prob * above),
        lambda rng, shape: inverse(rng.random(shape)),
    )


def _argument(word: str, values: Mapping[str, Any], expression: str) -> float:
    if word in values and np.ndim(values[word]) == 0:
        return float(values[word])
    try:
        return float(word)
    except ValueError:
        raise ConfigError(
            f"prior {expression!r}: {word} is neither a number nor a scalar of the data block"
        ) from None


def _normal(mean: float, sd: float) -> PriorDensity:
    """Return N(mean, sd²)."""
    log_constant = -0.5 * math.log(2 * math.pi) - math.log(sd)
    return PriorDensity(
        f"N({mean:g}, {sd:g}²)",
        lambda x: log_constant - 0.5 * ((x - mean) / sd) ** 2,
        sd,
        NormalDist(mean, sd).inv_cdf,
        lambda rng, shape: rng.normal(mean, sd, shape),
    )


def _student_t(nu: float, mean: float, scale: float) -> PriorDensity:
    """Return Student's t; the default priors use it, and scipy.stats is slow to import."""
    log_constant = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - math.log(scale)
    log_constant -= 0.5 * math.log(nu * math.pi)

    def quantile(prob: float) -> float:
        from scipy.special import stdtrit

        return mean + scale * float(stdtrit(nu, prob))

    sd = float("nan")
    if nu > 2:
        sd = scale * math.sqrt(nu / (nu - 2))
    return PriorDensity(
        f"t({nu:g}, {mean:g}, {scale:g})",
        lambda x: log_constant - (nu + 1) / 2 * np.log1p(((x - mean) / scale) ** 2 / nu),
        sd,
        quantile,
        lambda rng, shape: mean + scale * rng.standard_t(nu, shape),
    )


def _scaled_inv_chi_square(nu: float, scale: float) -> PriorDensity:
    """Return the distribution of nu scale² / v, where v ~ χ²(nu) (BDA3, table A.1)."""
    half, log_square = nu / 2, 2 * math.log(scale)
    log_constant = half * (math.log(half) + log_square) - math.lgamma(half)

    def log_density(x: NDArray[np.float64]) -> NDArray[np.float64]:
        log_x = np.log(np.where(x > 0, x, 1.0))
        with np.errstate(over="ignore"):
            value = log_constant - (half + 1) * log_x - half * np.exp(log_square - log_x)
        return np.where(x > 0, value, -np.inf)

    def draw(rng: Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        # With few degrees of freedom, a χ² variable may underflow to 0.
        with np.errstate(divide="ignore"):
            return nu * scale**2 / rng.chisquare(nu, shape)

    return PriorDensity(
        f"scaled-inv-χ²({nu:g}, {scale:g}²)",
        log_density,
        nu * scale**2 / (nu - 2) * math.sqrt(2 / (nu - 4)) if nu > 4 else float("nan"),
        # half scale² / x has a gamma distribution with shape half, and decreases in x.
        lambda prob: half * scale**2 / _gamma_quantile(half, 1 - prob),
        draw,
    )


def _gamma_quantile(shape: float, prob: float) -> float:
    """Return a quantile of the gamma distribution, from its density on a logarithmic grid.

    Fits with a scaled inverse chi-square prior need this quantile, and importing SciPy would take a
    seventh of a second.
    """
    right = math.log(shape + 12 * math.sqrt(shape) + 60)
    x = np.concatenate([np.linspace(-28 / shape, -5, 10_000), np.linspace(-5, right, 20_000)])
    density = np.exp(shape * x - np.exp(x) - math.lgamma(shape))
    below = np.cumsum(np.diff(x) * (density[1:] + density[:-1]) / 2)
    return math.exp(np.interp(prob, below / below[-1], x[1:]))


def _family(
    name: str, scipy_name: str, num: int, positive: tuple[int, ...], arguments: Callable[..., Any]
) -> _Family:
    """Return a distribution of SciPy; `arguments` maps Stan's parameters to SciPy's."""

    def make(*parameters: float) -> PriorDensity:
        from scipy import stats  # takes a second; shipped programs do without

        shapes, keywords = arguments(*parameters)
        family = getattr(stats, scipy_name)(*shapes, **keywords)
        sd, text = float(family.std()), f"{name}({', '.join(f'{p:g}' for p in parameters)})"
        if np.isinf(sd):
            sd = float("nan")
        return PriorDensity(
            text,
            family.logpdf,
            sd,
            lambda prob: float(family.ppf(prob)),
            lambda rng, shape: np.asarray(family.rvs(size=shape, random_state=rng)),
        )

    return make, num, positive


_Family = tuple[Callable[..., PriorDensity], int, tuple[int, ...]]
"""A prior's constructor, the number of its parameters, and which of them must be positive."""

_FAMILIES: dict[str, _Family] = {
    "normal": (_normal, 2, (1,)),
    "scaled_inv_chi_square": (_scaled_inv_chi_square, 2, (0, 1)),
    "std_normal": (lambda: _normal(0.0, 1.0), 0, ()),
    "student_t": (_student_t, 3, (0, 2)),
    "cauchy": _family("Cauchy", "cauchy", 2, (1,), lambda m, s: ((), {"loc": m, "scale": s})),
    "lognormal": _family("logN", "lognorm", 2, (1,), lambda m, s: ((s,), {"scale": np.exp(m)})),
    "exponential": _family("Exponential", "expon", 1, (0,), lambda rate: ((), {"scale": 1 / rate})),
    "gamma": _family("Gamma", "gamma", 2, (0, 1), lambda a, b: ((a,), {"scale": 1 / b})),
    "inv_gamma": _family("Inv-Gamma", "invgamma", 2, (0, 1), lambda a, b: ((a,), {"scale": b})),
    "beta": _family("Beta", "beta", 2, (0, 1), lambda a, b: ((a, b), {})),
    "uniform": _family("Uniform", "uniform", 2, (), lambda a, b: ((), {"loc": a, "scale": b - a})),
}
