"""Families: a table with a response for each, parameters, and definitions at 50 digits."""

from functools import cache

import mpmath
import numpy as np
import pandas as pd
from mpmath import mpf

from pyflowers.programs.families import family_names, find_family

NEW = (
    "acat",
    "asym_laplace",
    "beta_binomial",
    "categorical",
    "exgaussian",
    "exponential",
    "geometric",
    "hurdle_gamma",
    "hurdle_lognormal",
    "hurdle_negbinomial",
    "hurdle_poisson",
    "inverse_gaussian",
    "multinomial",
    "ordered_beta",
    "shifted_lognormal",
    "skew_normal",
    "sratio",
    "von_mises",
    "weibull",
    "zero_inflated_beta",
    "zero_inflated_binomial",
)
"""The families of which brms.json has no densities."""

TEXTS = [
    find_family(f"{name}({link})").text
    for name in family_names()
    if not find_family(name).has_categories  # they have several linear predictors
    for link in (find_family(name).link, *find_family(name).links)
]
"""Every family of one linear predictor with every link that it allows."""

PARAMETERS = {
    "sigma": 0.7,
    "nu": 4.0,
    "shape": 2.5,
    "phi": 6.0,
    "zi": 0.3,
    "hu": 0.25,
    "beta": 0.6,
    "alpha": -1.8,
    "ndt": 0.2,
    "quantile": 0.3,
    "kappa": 1.7,
    "cutzero": -1.2,
    "cutone": 0.9,
}
THRESHOLDS = (-1.0, 0.2, 1.4)
TRIALS = 7


@cache
def table(num: int = 48) -> pd.DataFrame:
    """Return a table with a response for each family."""
    rng = np.random.default_rng(20261128)
    is_zero = rng.uniform(size=num) < 0.25
    is_zero[0] = True
    positive, share = rng.gamma(3, 1, num) + 0.3, rng.beta(2, 3, num)
    columns = {
        "x": rng.normal(size=num),
        "g": np.resize(list("abcdefgh"), num),
        "positive": positive,
        "with_zeros": np.where(is_zero, 0, positive),
        "y": rng.normal(1, 1, num),
        "count": np.where(is_zero, 0, rng.poisson(2, num)),
        "success": np.where(is_zero, 0, rng.binomial(TRIALS, 0.4, num)),
        "bit": rng.integers(0, 2, num),
        "share": share,
        "share_from_0": np.where(is_zero, 0, share),
        "share_to_1": np.where(is_zero, 0, np.where(rng.uniform(size=num) < 0.2, 1, share)),
        "rating": np.resize([2, 4, 1, 3], num),
        "direction": rng.vonmises(0.5, 3, num),
    }
    return pd.DataFrame(columns).round(6)


_RESPONSES = {
    "bernoulli": "bit",
    "beta": "share",
    "zero_inflated_beta": "share_from_0",
    "ordered_beta": "share_to_1",
    "von_mises": "direction",
    "hurdle_gamma": "with_zeros",
    "hurdle_lognormal": "with_zeros",
}


def response_of(text: str) -> str:
    """Return the response of a family in the table, with its trials."""
    family = find_family(text)
    if family.has_columns:
        return "cbind(rating, success, count)"
    if family.has_trials:
        return f"success | trials({TRIALS})"
    if family.is_ordinal or family.has_categories:
        return "rating"
    if family.name in _RESPONSES:
        return _RESPONSES[family.name]
    if family.is_discrete:
        return "count"
    return "positive" if family.is_positive or family.link != "identity" else "y"


def values_of(text, changes=()):
    """Return the parameters as the functions of a family take them."""
    values = {n: np.full((1, 1, 1), v) for n, v in {**PARAMETERS, **dict(changes)}.items()}
    threshold = np.array(THRESHOLDS)[None, None, :, None]
    scores = np.arange(1.0, len(THRESHOLDS) + 2)
    trials = np.array([float(TRIALS)])
    return {**values, "threshold": threshold, "trials": trials, "scores": scores, "sd_eta": 0.0}


# Definitions at 50 digits. Numbers are exact: a float becomes the number that it stands for.


def inverse_link(name, eta):
    """Return the expected response, or the probability, of a linear predictor."""
    by_name = {
        "identity": lambda: eta,
        "log": lambda: mpmath.exp(eta),
        "inverse": lambda: 1 / eta,
        "softplus": lambda: mpmath.log(1 + mpmath.exp(eta)),
        "logit": lambda: 1 / (1 + mpmath.exp(-eta)),
        "probit": lambda: mpmath.ncdf(eta),
        "cloglog": lambda: 1 - mpmath.exp(-mpmath.exp(eta)),
        "tan_half": lambda: 2 * mpmath.atan(eta),
    }
    return by_name[name]()


def density(text, y, eta, given):
    """Return p(y | eta); `given` holds the other parameters."""
    family = find_family(text)
    p, y = given, mpf(y)
    if family.is_ordinal:
        return _of_rating(family, int(y), eta, [mpf(each) for each in p["threshold"]])
    return _DENSITIES[family.name](y, inverse_link(family.link, eta), p, eta)


def _of_rating(family, rating, eta, thresholds):
    if family.name == "acat":
        sums = [mpf(0)]
        for threshold in thresholds:
            sums.append(sums[-1] + eta - threshold)
        weights = [mpmath.exp(each) for each in sums]
        return weights[rating - 1] / sum(weights)
    below = [inverse_link(family.link, threshold - eta) for threshold in thresholds]
    if family.name == "cumulative":
        edges = [mpf(0), *below, mpf(1)]
        return edges[rating] - edges[rating - 1]
    found = mpf(1)
    for share in below[: rating - 1]:
        found *= 1 - share
    return found * (below[rating - 1] if rating <= len(below) else 1)


def _normal(y, mean, sd):
    return mpmath.npdf(y, mean, sd)


def _student(y, m, p, eta):
    nu, z = p["nu"], (y - m) / p["sigma"]
    size = mpmath.gamma((nu + 1) / 2) / (mpmath.gamma(nu / 2) * mpmath.sqrt(nu * mpmath.pi))
    return size / p["sigma"] * (1 + z**2 / nu) ** (-(nu + 1) / 2)


def _lognormal(y, m, p, eta):
    return _normal(mpmath.log(y), m, p["sigma"]) / y


def _gamma(y, m, p, eta):
    shape = p["shape"]
    z = shape / m * y
    return z**shape / y * mpmath.exp(-z) / mpmath.gamma(shape)


def _weibull(y, m, p, eta):
    k = p["shape"]
    z = y / (m / mpmath.gamma(1 + 1 / k))
    return k / y * z**k * mpmath.exp(-(z**k))


def _inverse_gaussian(y, m, p, eta):
    shape = p["shape"]
    away = mpmath.exp(-shape * (y - m) ** 2 / (2 * m**2 * y))
    return mpmath.sqrt(shape / (2 * mpmath.pi * y**3)) * away


def _beta(y, m, p, eta):
    a, b = m * p["phi"], (1 - m) * p["phi"]
    return y ** (a - 1) * (1 - y) ** (b - 1) / mpmath.beta(a, b)


def _binomial(y, m, p, eta):
    return mpmath.binomial(TRIALS, y) * m**y * (1 - m) ** (TRIALS - y)


def _beta_binomial(y, m, p, eta):
    a, b = m * p["phi"], (1 - m) * p["phi"]
    return mpmath.binomial(TRIALS, y) * mpmath.beta(y + a, TRIALS - y + b) / mpmath.beta(a, b)


def _poisson(y, m, p, eta):
    return m**y * mpmath.exp(-m) / mpmath.factorial(y)


def _negbinomial(y, m, p, eta):
    shape = p["shape"]
    share = shape / (shape + m)
    return mpmath.binomial(y + shape - 1, y) * share**shape * (1 - share) ** y


def _geometric(y, m, p, eta):
    return (m / (1 + m)) ** y / (1 + m)


def _skew_normal(y, m, p, eta):
    alpha = p["alpha"]
    delta = alpha / mpmath.sqrt(1 + alpha**2)
    omega = p["sigma"] / mpmath.sqrt(1 - 2 * delta**2 / mpmath.pi)
    z = (y - m + omega * delta * mpmath.sqrt(2 / mpmath.pi)) / omega
    return 2 / omega * mpmath.npdf(z) * mpmath.ncdf(alpha * z)


def _exgaussian(y, m, p, eta):
    sigma, beta = p["sigma"], p["beta"]
    z = (y - m + beta) / sigma
    tail = mpmath.erfc((sigma / beta - z) / mpmath.sqrt(2)) / 2
    return mpmath.exp(sigma**2 / (2 * beta**2) - z * sigma / beta) * tail / beta


def _asym_laplace(y, m, p, eta):
    quantile, u = p["quantile"], (y - m) / p["sigma"]
    loss = u * (quantile - (1 if u < 0 else 0))
    return quantile * (1 - quantile) / p["sigma"] * mpmath.exp(-loss)


def _von_mises(y, m, p, eta):
    kappa = p["kappa"]
    return mpmath.exp(kappa * mpmath.cos(y - m)) / (2 * mpmath.pi * mpmath.besseli(0, kappa))


def _ordered_beta(y, m, p, eta):
    above_zero = inverse_link("logit", eta - p["cutzero"])
    is_one = inverse_link("logit", eta - p["cutzero"] - mpmath.exp(p["cutone"]))
    if y == 0:
        return 1 - above_zero
    return is_one if y == 1 else (above_zero - is_one) * _beta(y, m, p, eta)


def _inflated(own):
    return lambda y, m, p, eta: (p["zi"] if y == 0 else 0) + (1 - p["zi"]) * own(y, m, p, eta)


def _hurdle(own, name="hu", truncated=False):
    def found(y, m, p, eta):
        if y == 0:
            return p[name]
        some = 1 - own(mpf(0), m, p, eta) if truncated else 1
        return (1 - p[name]) * own(y, m, p, eta) / some

    return found


_DENSITIES = {
    "gaussian": lambda y, m, p, eta: _normal(y, m, p["sigma"]),
    "student": _student,
    "lognormal": _lognormal,
    "shifted_lognormal": lambda y, m, p, eta: _lognormal(y - p["ndt"], m, p, eta),
    "gamma": _gamma,
    "weibull": _weibull,
    "exponential": lambda y, m, p, eta: mpmath.exp(-y / m) / m,
    "inverse_gaussian": _inverse_gaussian,
    "beta": _beta,
    "bernoulli": lambda y, m, p, eta: m if y == 1 else 1 - m,
    "binomial": _binomial,
    "beta_binomial": _beta_binomial,
    "poisson": _poisson,
    "negbinomial": _negbinomial,
    "geometric": _geometric,
    "skew_normal": _skew_normal,
    "exgaussian": _exgaussian,
    "asym_laplace": _asym_laplace,
    "von_mises": _von_mises,
    "ordered_beta": _ordered_beta,
    "zero_inflated_poisson": _inflated(_poisson),
    "zero_inflated_negbinomial": _inflated(_negbinomial),
    "zero_inflated_binomial": _inflated(_binomial),
    "zero_inflated_beta": _hurdle(_beta, "zi"),
    "hurdle_poisson": _hurdle(_poisson, truncated=True),
    "hurdle_negbinomial": _hurdle(_negbinomial, truncated=True),
    "hurdle_gamma": _hurdle(_gamma),
    "hurdle_lognormal": _hurdle(_lognormal),
}


def log_prior(kind, value, given):
    """Return the log density of a prior in Stan, without its constant."""
    by_name = {
        "normal": lambda m, s: -(((value - m) / s) ** 2) / 2,
        "student_t": lambda nu, m, s: -(nu + 1) / 2 * mpmath.log(1 + ((value - m) / s) ** 2 / nu),
        "gamma": lambda a, b: (a - 1) * mpmath.log(value) - b * value,
        "inv_gamma": lambda a, b: -(a + 1) * mpmath.log(value) - b / value,
        "beta": lambda a, b: (a - 1) * mpmath.log(value) + (b - 1) * mpmath.log(1 - value),
        "exponential": lambda rate: -rate * value,
        "lognormal": lambda m, s: -mpmath.log(value) - ((mpmath.log(value) - m) / s) ** 2 / 2,
    }
    return by_name[kind](*given)
