"""Prior densities, named as in Stan, with parameters taken from a program's data."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pyflowers.errors import ConfigError
from pyflowers.text import counted, suggestion

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
    student : tuple of float, or None
        Location, scale and degrees of freedom if this is a Student t distribution, or a normal
        one, with infinite degrees of freedom; None for other distributions.
    """

    text: str
    log_density: Density | None
    sd: float
    quantile: Callable[[float], float] | None
    draw: Callable[[Generator, tuple[int, ...]], NDArray[np.float64]] | None
    student: tuple[float, float, float] | None = None

    @property
    def density(self) -> Density | None:
        """The density; None if the prior is improper."""
        log_density = self.log_density
        if log_density is None:
            return None
        return lambda x: np.exp(log_density(x))


_CALL = re.compile(r"\s*(\w+)\s*\(([^()]*)\)\s*(?:T\s*\[([^,\[\]]*),([^,\[\]]*)\])?\s*")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")

LKJ, CONSTANT = "lkj", "constant"
"""The names of a prior on all correlations of a group, and of a fixed value, which a user can state
in addition to the densities."""


@dataclass(frozen=True)
class StatedPrior:
    """A prior as a user states it, such as ``normal(0, 1) T[0, ]``.

    Attributes
    ----------
    name : str
        The density in Stan, `LKJ` or `CONSTANT`.
    arguments : tuple of float
        Its arguments.
    lower, upper : float or None
        The bounds of the values under the prior, from the density and ``T[lower, upper]``.
    cut : str
        The truncation as it is written; empty if there is none.
    """

    name: str
    arguments: tuple[float, ...]
    lower: float | None = None
    upper: float | None = None
    cut: str = ""

    def __str__(self) -> str:
        return f"{self.stan}{self.cut}"

    @property
    def stan(self) -> str:
        """The density in Stan, without its truncation."""
        return f"{self.name}({', '.join(f'{value:.10g}' for value in self.arguments)})"

    @property
    def value(self) -> str:
        """The value at which this prior fixes a parameter, in Stan."""
        return f"{self.arguments[0]:.10g}"

    def draw(
        self, rng: Generator, shape: tuple[int, ...], lower: float | None = None
    ) -> NDArray[np.float64]:
        """Return draws of a parameter with this lower bound; for a constant, return its value."""
        if self.name == CONSTANT:
            return np.full(shape, self.arguments[0])
        draw = self.density(lower).draw
        assert draw is not None  # a stated density is proper
        return draw(rng, shape)

    def density(self, lower: float | None = None, upper: float | None = None) -> PriorDensity:
        """Return the density of a parameter with these bounds."""
        return prior_density(str(self), {}, lower, upper)


def read_stated(parameter: str, text: str) -> StatedPrior:
    """Read the prior that a user states for a parameter; only a density and numbers are allowed.

    Raises
    ------
    ConfigError
        If it is not a known density with numbers in their ranges.
    """
    about = f"prior {parameter} ~ {text}: "
    match = _CALL.fullmatch(text) if isinstance(text, str) and text.isascii() else None
    if match is None:
        raise ConfigError(
            f"{about}write a density with numbers, such as normal(0, 1) or, truncated, "
            "normal(0, 1) T[0, ]"
        )
    name, num = match[1], {LKJ: 1, CONSTANT: 1}.get(match[1])
    if name in _FAMILIES:
        num = _FAMILIES[name].num
    if num is None:
        raise ConfigError(
            f"{about}{name} is not one of the densities that can be stated; "
            f"{suggestion(name, [*_FAMILIES, LKJ, CONSTANT])}"
        )
    words = [word.strip() for word in match[2].split(",")] if match[2].strip() else []
    if len(words) != num:
        raise ConfigError(f"{about}{name} takes {counted(num, 'argument')}, got {len(words)}")
    ends = [(match[3] or "").strip(), (match[4] or "").strip()]
    for word in (*words, *filter(None, ends)):
        if not _NUMBER.fullmatch(word) or not abs(float(word)) < 1e100:
            raise ConfigError(f"{about}write a number below 1e100 instead of {word!r}")
    numbers = tuple(map(float, words))
    if name == "std_normal":
        name, numbers = "normal", (0.0, 1.0)
    positive = _FAMILIES[name].positive if name in _FAMILIES else (0,) if name == LKJ else ()
    if not all(numbers[i] > 0 for i in positive):
        which = next(i for i in positive if numbers[i] <= 0)
        raise ConfigError(
            f"{about}argument {which + 1} of {name} must be above 0, got {numbers[which]:g}"
        )
    if name == "uniform" and numbers[0] >= numbers[1]:
        raise ConfigError(f"{about}the first bound of uniform must be below the second")
    lower, upper = support_of(name, numbers)
    low, high = (float(end) if end else None for end in ends)
    if match[3] is None:
        return StatedPrior(name, numbers, lower, upper)
    if name in (LKJ, CONSTANT):
        raise ConfigError(f"{about}{name} cannot be truncated; leave T[{ends[0]}, {ends[1]}] out")
    lower, upper = tighter(lower, low, max), tighter(upper, high, min)
    if lower is not None and upper is not None and lower >= upper:
        raise ConfigError(f"{about}no value lies between the bounds; correct them")
    return StatedPrior(name, numbers, lower, upper, f" T[{ends[0]}, {ends[1]}]")


def value_of(prior: str) -> float | None:
    """Return the value at which ``constant(…)`` fixes a parameter; None for other priors."""
    match = _CALL.fullmatch(prior)
    if match is None or match[1] != CONSTANT:
        return None
    return float(match[2])


def support_of(name: str, arguments: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the bounds of the values for which a density is above 0; None for a missing bound."""
    if name == "uniform":
        return arguments[0], arguments[1]
    family = _FAMILIES.get(name)
    return (family.lower, family.upper) if family else (None, None)


def tighter(
    one: float | None, other: float | None, choose: Callable[[float, float], float]
) -> float | None:
    """Return the tighter of two bounds: `choose` is max or min. None if both are missing."""
    if one is None or other is None:
        return other if one is None else one
    return choose(one, other)


def priors_of_elements(
    default: str, values: Mapping[str, Any], given: Sequence[StatedPrior | None]
) -> tuple[PriorDensity, ...]:
    """Return the prior of each element of a vector: the given one, or the default.

    A vector in the expression `default` has one value for each element without a given prior.
    """
    others = tuple[PriorDensity, ...]()
    if None in given:
        others = prior_densities(default, values, given.count(None))
    defaults = iter(others)
    return tuple(
        next(defaults) if prior is None else prior_density(prior.stan, {}) for prior in given
    )


def prior_densities(
    expression: str, values: Mapping[str, Any], size: int
) -> tuple[PriorDensity, ...]:
    """Return the prior of each element of a vector; see :func:`prior_density`.

    Arguments of the expression may be vectors, with one value for each element.
    """
    words = re.findall(r"\w+", expression.partition("(")[2])
    vectors = {word: np.ravel(values[word]) for word in words if np.ndim(values.get(word, 0.0))}
    if not vectors:
        return (prior_density(expression, values),) * size
    return tuple(
        prior_density(expression, {**values, **{name: its[i] for name, its in vectors.items()}})
        for i in range(size)
    )


def prior_density(
    expression: str,
    values: Mapping[str, Any],
    lower: float | None = None,
    upper: float | None = None,
) -> PriorDensity:
    """Return a prior from its expression, such as ``normal(mu_mean, 10)``.

    Parameters
    ----------
    expression : str
        A distribution of Stan with its arguments: numbers, or names in `values`. It may be
        followed by its truncation, such as ``T[0, ]``.
    values : mapping
        The data block, hyperparameters included.
    lower, upper : float, optional
        The bounds of the parameter, at which the distribution is truncated.

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
    family, num, positive = (its := _FAMILIES[match[1]]).make, its.num, its.positive
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
    ends = [float(end) if end and end.strip() else None for end in match.groups()[2:]]
    return _within(found, tighter(lower, ends[0], max), tighter(upper, ends[1], min))


def mass_within(prior: PriorDensity, lower: float, upper: float) -> float:
    """Return the probability between bounds, which may be infinite."""
    quantile, below, up_to = prior.quantile, 0.0, 1.0
    if quantile is None:
        return 1.0
    if quantile(1e-9) < lower:
        below = _mass_below(quantile, lower)
    if quantile(1 - 1e-9) > upper:
        up_to = _mass_below(quantile, upper)
    return up_to - below


def _within(prior: PriorDensity, lower: float | None, upper: float | None) -> PriorDensity:
    """Return a prior, truncated at the bounds beyond which it has mass."""
    quantile, density, log_density = prior.quantile, prior.density, prior.log_density
    if quantile is None or density is None or log_density is None:
        return prior
    below, up_to, text = 0.0, 1.0, prior.text
    if lower is not None and quantile(1e-9) < lower:
        below, text = _mass_below(quantile, lower), f"{text} above {lower:g}"
    if upper is not None and quantile(1 - 1e-9) > upper:
        up_to, text = _mass_below(quantile, upper), f"{text} below {upper:g}"
    within = up_to - below
    if within == 1:
        return prior
    low = quantile(1e-9) if below == 0 else lower
    high = quantile(1 - 1e-9) if up_to == 1 else upper
    assert low is not None
    assert high is not None
    x = low + np.concatenate([[0.0], np.geomspace(1e-6 * (high - low), high - low, 4000)])
    mass = np.diff(x) * (density(x)[1:] + density(x)[:-1]) / 2 / within
    middle = (x[1:] + x[:-1]) / 2
    variance = float(mass @ middle**2 - (mass @ middle) ** 2)
    has_sd = np.isfinite(prior.sd) or up_to < 1
    inverse = np.vectorize(lambda prob: quantile(below + prob * within), otypes=[np.float64])
    first, last = -np.inf if below == 0 else low, np.inf if up_to == 1 else high
    return PriorDensity(
        text,
        lambda x: np.where((x >= first) & (x <= last), log_density(x), -np.inf) - math.log(within),
        math.sqrt(variance) if has_sd else prior.sd,
        lambda prob: quantile(below + prob * within),
        lambda rng, shape: inverse(rng.random(shape)),
    )


def _mass_below(quantile: Callable[[float], float], bound: float) -> float:
    """Return the probability below a bound, by bisection of the quantile function."""
    low, high = 0.0, 1.0
    for _ in range(60):
        half = (low + high) / 2
        if quantile(half) < bound:
            low = half
        else:
            high = half
    return high


def _argument(word: str, values: Mapping[str, Any], expression: str) -> float:
    if word in values and np.ndim(values[word]) == 0:
        return float(values[word])
    try:
        return float(word)
    except ValueError:
        raise ConfigError(
            f"prior {expression!r}: {word} is neither a number nor a scalar of the data block; "
            "correct it"
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
        (mean, sd, math.inf),
    )


def _student_t(nu: float, mean: float, scale: float) -> PriorDensity:
    """Return a Student t distribution, without the slow import of scipy.stats."""
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
        (mean, scale, nu),
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


def partial_correlations(
    partial: NDArray[np.float64], size: int, eta: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return Cholesky factors of correlation matrices, and their LKJ prior.

    Parameters
    ----------
    partial : array, shape (…, size (size - 1) / 2)
        Canonical partial correlations, the lower triangle by row. Under the prior, each is
        2 x - 1, where x has a beta(a, a) distribution with a = eta + (size - 2 - column) / 2.
    size : int
        The number of variables.
    eta : float
        The parameter of the prior.

    Returns
    -------
    factor : array, shape (…, size, size)
        The lower triangular factors.
    log_density : array, shape (…)
        The log density of the partial correlations.
    of_factor : array, shape (…)
        The log density of the factors, ``lkj_corr_cholesky`` in Stan.

    References
    ----------
    Lewandowski, Kurowicka and Joe (2009), J. of Multivariate Analysis 100(9), section 2.4.
    """
    lead = partial.shape[:-1]
    factor = np.zeros((*lead, size, size))
    factor[..., 0, 0] = 1.0
    log_density, log_jacobian = np.zeros(lead), np.zeros(lead)
    place = 0
    for i in range(1, size):
        left = np.ones(lead)
        for j in range(i):
            shape, each = eta + (size - 2 - j) / 2, partial[..., place]
            constant = 2 * math.lgamma(shape) - math.lgamma(2 * shape)
            constant += (2 * shape - 1) * math.log(2)
            log_density += (shape - 1) * np.log1p(-(each**2)) - constant
            log_jacobian += 0.5 * np.log(left)
            factor[..., i, j] = each * np.sqrt(left)
            left = left * (1 - each**2)
            place += 1
        factor[..., i, i] = np.sqrt(left)
    return factor, log_density, log_density - log_jacobian


def _family(
    name: str,
    scipy_name: str,
    num: int,
    positive: tuple[int, ...],
    arguments: Callable[..., Any],
    lower: float | None = None,
    upper: float | None = None,
) -> _Family:
    """Return a distribution of SciPy; `arguments` maps Stan's parameters to SciPy's."""

    def make(*parameters: float) -> PriorDensity:
        from scipy import stats  # this import takes a second; shipped programs do not need it

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

    return _Family(make, num, positive, lower, upper)


@dataclass(frozen=True)
class _Family:
    """A family of priors.

    Attributes
    ----------
    make : callable
        Function of the arguments that returns the prior.
    num : int
        The number of arguments.
    positive : tuple of int
        The arguments that must be above 0.
    lower, upper : float or None
        The bounds of its values; None if there is none.
    """

    make: Callable[..., PriorDensity]
    num: int
    positive: tuple[int, ...]
    lower: float | None = None
    upper: float | None = None


_FAMILIES: dict[str, _Family] = {
    "normal": _Family(_normal, 2, (1,)),
    "scaled_inv_chi_square": _Family(_scaled_inv_chi_square, 2, (0, 1), 0.0),
    "std_normal": _Family(lambda: _normal(0.0, 1.0), 0, ()),
    "student_t": _Family(_student_t, 3, (0, 2)),
    "cauchy": _family("Cauchy", "cauchy", 2, (1,), lambda m, s: ((), {"loc": m, "scale": s})),
    "logistic": _family("Logistic", "logistic", 2, (1,), lambda m, s: ((), {"loc": m, "scale": s})),
    "double_exponential": _family(
        "Laplace", "laplace", 2, (1,), lambda m, s: ((), {"loc": m, "scale": s})
    ),
    "lognormal": _family(
        "logN", "lognorm", 2, (1,), lambda m, s: ((s,), {"scale": np.exp(m)}), 0.0
    ),
    "exponential": _family(
        "Exponential", "expon", 1, (0,), lambda rate: ((), {"scale": 1 / rate}), 0.0
    ),
    "gamma": _family("Gamma", "gamma", 2, (0, 1), lambda a, b: ((a,), {"scale": 1 / b}), 0.0),
    "inv_gamma": _family(
        "Inv-Gamma", "invgamma", 2, (0, 1), lambda a, b: ((a,), {"scale": b}), 0.0
    ),
    "weibull": _family("Weibull", "weibull_min", 2, (0, 1), lambda a, s: ((a,), {"scale": s}), 0.0),
    "beta": _family("Beta", "beta", 2, (0, 1), lambda a, b: ((a, b), {}), 0.0, 1.0),
    "uniform": _family("Uniform", "uniform", 2, (), lambda a, b: ((), {"loc": a, "scale": b - a})),
}
