"""Families of response distributions; each module defines one, `FAMILY`, in Stan and in NumPy.

A module that is added here becomes a family with the name of the module. Other code must be changed
only for a kind of prior that no family has yet (``_PRIORS`` in ``formulas/parts.py``). A family
is defined with its usual link; :func:`find_family` changes the link of a family that allows others.
"""

from __future__ import annotations

import math
import pkgutil
import re
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pyflowers.errors import ConfigError
from pyflowers.programs.families._links import LINKS, ResponseLink, averaged
from pyflowers.text import suggestion

FloatArray = NDArray[np.float64]
TRIALS = "trials"
"""The key of the numbers of trials in the values that functions of a family take."""
Values = Mapping[str, Any]
"""Auxiliary parameters by name, with shape (chain, draw, 1) or (chain, draw, J - 1, 1); trials,
with shape (N,); and the scores of ratings, with shape (J,)."""

Tails = tuple[FloatArray, FloatArray]
"""The logs of the probabilities of values up to y, and above y."""


@dataclass(frozen=True)
class Link:
    """How a parameter follows from its linear predictor.

    Attributes
    ----------
    inverse : str
        The parameter as Stan code, in which ``{}`` stands for the linear predictor.
    meaning : str
        The linear predictor in words, in which ``{}`` stands for the parameter.
    from_linear : callable
        Function of (linear, sd) that returns the average of the parameter over linear predictors
        that are normal with mean `linear` and standard deviation `sd`; if `sd` is 0, the parameter.
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
        `sigma` is the data variable ``sigma_scale``. All are above 0, except a ``{location}``.
    values : mapping of str to float or None
        The defaults of the hyperparameters; None stands for the scale of the data.
    description : str
        Its meaning.
    times_y : str
        The hyperparameter that is in units of the response, so that its default is multiplied by
        the median of the response; empty if there is none.
    given : float or None
        The default of a parameter that users give instead of estimating it; it then has no prior.
    is_predictor : bool
        Whether it is a linear predictor of the response, such as that of a category. It then has
        the terms of the response and their default priors, unless it has a formula of its own.
    is_common : bool
        Whether all rows have the same value, so that it cannot have a linear predictor.
    """

    name: str
    declared: str
    prior: str
    values: Mapping[str, float | None]
    description: str
    times_y: str = ""
    given: float | None = None
    is_predictor: bool = False
    is_common: bool = False

    @property
    def link(self) -> Link | None:
        """The link that the parameter's bounds imply; None if it cannot have a linear predictor."""
        if self.given is not None or self.is_common:
            return None
        return _LINKS.get(self.declared)

    @property
    def lower(self) -> float | None:
        """Its lower bound; None if there is none, or if it depends on the data."""
        return self.bounds[0] if math.isfinite(self.bounds[0]) else None

    @property
    def bounds(self) -> tuple[float, float]:
        """The lower and upper bound of each element; infinite if there is none.

        NaN stands for a bound that depends on the data.
        """
        found = {"lower": -math.inf, "upper": math.inf}
        for name, value in re.findall(r"(lower|upper)=([^,>]+)", self.declared):
            is_number = re.fullmatch(r"-?[\d.]+", value)
            found[name] = float(value) if is_number else math.nan
        return found["lower"], found["upper"]


@dataclass(frozen=True)
class Totals:
    """The sums from which the likelihood of rows with the same linear predictor is computed.

    Attributes
    ----------
    stan : str
        Statements of the transformed data block that compute the sums for each cell, over its rows
        that are not ``held_out``.
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
        The name of its link, one of those in ``_links.py``.
    response : str
        The type of the response in Stan, with its bounds and ``[N]``.
    stan : str
        The distribution in Stan without ``_lpdf``, such as ``normal({eta}, sigma)``, where
        ``{eta}`` is the linear predictor, ``{mu}`` is the inverse link of eta, and ``{rest}`` is
        1 - mu. A function that Stan lacks is defined in `functions`.
    rng : str
        The random number generator in Stan for one `{eta}`.
    log_lik : callable
        Function of (y, eta, values) that returns log p(y | eta); in all arrays, rows come last.
    draw : callable
        Function of (eta, values, rng) that returns random responses in the shape of `eta`.
    mean : callable
        Function of (eta, values) that returns the expected response.
    moments : callable
        Function of (eta, values) that returns the mean and the variance of the response, or of its
        log if `compares_logs`; for counts of categories, those of the mean category number of a
        row's units. Predictive checks standardise residuals with them.
    auxiliary : tuple of Auxiliary
        Its other parameters.
    scale : str
        The source of the scale of priors: ``y``, ``log`` of y, the ``linked`` y, or ``fixed``, as
        for log odds.
    has_trials : bool
        Whether an observation is a number of successes in the trials of ``| trials(n)``.
    excludes : mapping of str to str
        The limits of its type in Stan, ``"0"`` or ``"1"``, that a response cannot reach, each with
        the families whose responses can reach it.
    is_ordinal : bool
        Whether thresholds replace the intercept.
    with_predictors : callable or None
        Function of the names of linear predictors that returns the family with them. The response
        then has several categories without an order. Each category except the first, which is the
        reference, has a linear predictor; eta is that of the reference, which is 0. None if the
        response has one linear predictor.
    compares_logs : bool
        Whether `moments` describe the log of the response, because its spread is multiplicative.
    alternatives : tuple of str
        The names of the families that may describe the response if this one does not: families of
        the same linear predictor with more spread, heavier tails, skewness or more zeros.
    functions : str
        Functions in Stan that it needs. A density among them takes one observation, so the
        likelihood is a loop.
    totals : Totals or None
        The sums from which its likelihood can be computed; None if no such sums are used.
    shape_of_mean : str
        How `mean` depends on eta, and with it the average over groups: ``linear``; ``exp``, if it
        is proportional to exp(eta); ``curved``, if it is integrated numerically; or ``averaged``,
        if `mean` averages over ``values["sd_eta"]``, the sd of eta between groups. Default: as the
        link implies.
    meaning : str
        What the linear predictor is, in words, where ``{}`` stands for the response. Default: the
        text of the link.
    instead_of_mean : str
        The quantity to which the link applies, if it is not the mean; ``{}`` stands for the
        response.
    links : tuple of str
        The names of the other links that it allows.
    of_mean, of_mean_rng : str
        `stan` and `rng` with other links; empty if `stan` and `rng` are written with ``{mu}``, or
        if ``{eta}`` is replaced by the usual link of ``{mu}``.
    with_link : callable or None
        Function of a link that returns the family with it, if the attributes above do not suffice.
    transformed_data : str
        Statements of the transformed data block that the bounds of its parameters need.
    as_normal : callable or None
        Function of y that returns a response with the distribution N(eta, sigma²); None if there
        is no such function.
    width_of_mean : float
        The change in eta that noticeably changes a ``curved`` `mean`.
    tails : callable or None
        Function of (y, eta, values) that returns log P(Y <= y) and log P(Y > y), which censored and
        truncated responses need; None if Stan lacks them.
    cumulative : str
        The distribution in Stan, as in `stan`, whose functions ``_lcdf`` and ``_lccdf`` are used;
        `find_family` sets it. Empty without `tails`.
    known : str
        A parameter whose value in each row is data, such as sigma in ``y | se(s)``; empty if there
        is none.
    of_unit : str
        The family of the category of one unit, if a response counts the units of each category;
        otherwise empty.
    quantile : str
        The parameter that is the share of responses below the modelled quantile, if the likelihood
        serves only to estimate this quantile, not to describe spread or shape; otherwise empty.
    """

    name: str
    equation: str
    link: str
    response: str
    stan: str
    rng: str
    log_lik: Callable[[FloatArray, FloatArray, Values], FloatArray]
    draw: Callable[[FloatArray, Values, Generator], FloatArray]
    mean: Callable[[FloatArray, Values], FloatArray]
    moments: Callable[[FloatArray, Values], tuple[FloatArray, FloatArray]]
    auxiliary: tuple[Auxiliary, ...] = ()
    scale: Literal["y", "log", "fixed", "linked"] = "fixed"
    has_trials: bool = False
    excludes: Mapping[str, str] = field(default_factory=dict)
    is_ordinal: bool = False
    with_predictors: Callable[[Sequence[str]], Family] | None = field(default=None, repr=False)
    compares_logs: bool = False
    alternatives: tuple[str, ...] = ()
    functions: str = ""
    totals: Totals | None = field(default=None, repr=False)
    shape_of_mean: Literal["", "linear", "exp", "curved", "averaged"] = ""
    meaning: str = ""
    instead_of_mean: str = ""
    links: tuple[str, ...] = ()
    of_mean: str = ""
    of_mean_rng: str = ""
    with_link: Callable[[ResponseLink], Family] | None = field(default=None, repr=False)
    transformed_data: str = ""
    as_normal: Callable[[FloatArray], FloatArray] | None = None
    width_of_mean: float = 1.0
    tails: Callable[[FloatArray, FloatArray, Values], Tails] | None = field(
        default=None, repr=False
    )
    cumulative: str = ""
    known: str = ""
    of_unit: str = ""
    quantile: str = ""

    @property
    def text(self) -> str:
        """The text by which :func:`find_family` finds it.

        It is the `title` or, for a family of categories, its name with the names of their linear
        predictors in brackets.
        """
        if self.predictors:
            return f"{self.name}({', '.join(self.predictors)})"
        return self.title

    @property
    def title(self) -> str:
        """Its name, with the link in brackets unless it is the usual one."""
        usual = _usual(self.name).link
        return self.name if self.link == usual else f"{self.name}({self.link})"

    @property
    def link_in_words(self) -> str:
        """The link, with the quantity to which it applies, such as ``log of the expected {}``."""
        usual = LINKS[self.link].meaning
        return usual.replace("expected {}", self.instead_of_mean or "expected {}")

    def described(self, eta: FloatArray) -> FloatArray:
        """Return the quantity that eta describes, such as exp(eta) with the link log."""
        return np.asarray(LINKS[self.link].inverse(eta))

    @property
    def is_looped(self) -> bool:
        """Whether the density in Stan takes only one observation."""
        return self.has_categories or bool(
            re.search(rf"\b{self.stan.partition('(')[0]}_lp[md]f\(", self.functions)
        )

    @property
    def has_categories(self) -> bool:
        """Whether the response has several categories without an order."""
        return self.with_predictors is not None

    @property
    def has_columns(self) -> bool:
        """Whether a response is a row of counts, one for each category."""
        return bool(self.of_unit)

    @property
    def is_of_labels(self) -> bool:
        """Whether the response is a rating or a category, which are numbered from 1."""
        return self.is_ordinal or (self.has_categories and not self.has_columns)

    @property
    def width(self) -> int:
        """The number of values of a response, which are adjacent in arrays of responses."""
        return len(self.predictors) + 1 if self.has_columns else 1

    @property
    def predictors(self) -> tuple[str, ...]:
        """Its parameters that are linear predictors of the response."""
        return tuple(each.name for each in self.auxiliary if each.is_predictor)

    @property
    def is_positive(self) -> bool:
        """Whether a response must be above 0, which its type in Stan cannot express."""
        return "0" in self.excludes

    @property
    def counts_successes(self) -> bool:
        """Whether the response is a number of successes, or 1 for a success."""
        labelled = self.is_ordinal or self.has_categories
        return self.is_discrete and self.scale == "fixed" and not labelled

    @property
    def counts_events(self) -> bool:
        """Whether the response is a count without an upper limit, usually with the link log."""
        return self.is_discrete and self.scale == "log"

    @property
    def estimated(self) -> tuple[Auxiliary, ...]:
        """Its other parameters, except those that users give."""
        return tuple(each for each in self.auxiliary if each.given is None)

    @property
    def spread(self) -> str:
        """The parameter that sets the spread around a given mean; empty if there is none."""
        found = (its.name for its in self.estimated if its.declared == "real<lower=0>")
        return next(found, "")

    @property
    def zeros(self) -> str:
        """The parameter that is the probability of (additional) zeros; empty if there is none."""
        return next((its.name for its in self.estimated if its.name in (ZI.name, HU.name)), "")

    @property
    def is_unbounded(self) -> bool:
        """Whether a response may be any number."""
        return not self.is_discrete and self.limits == (-np.inf, np.inf)

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest possible response, from its type in Stan."""
        found = dict(re.findall(r"(lower|upper)=([^,>]+)", self.response))
        return _limit(found.get("lower", "-inf")), _limit(found.get("upper", "inf"))

    @property
    def is_discrete(self) -> bool:
        """Whether the response is an integer."""
        return self.response.startswith("array")

    def expected(self, eta: FloatArray, values: Values) -> FloatArray:
        """Return the expected response, averaged over groups.

        Parameters
        ----------
        eta : array
            The linear predictor in an average group; rows come last.
        values : mapping
            As for the other functions; ``values["sd_eta"]`` is the sd of eta between groups.

        Raises
        ------
        ConfigError
            If the average over groups does not exist.
        """
        shape, sd = self.shape_of_mean or _SHAPES.get(self.link, "curved"), values["sd_eta"]
        if shape in ("linear", "averaged") or not np.any(sd):
            return self.mean(eta, values)
        if self.link == "inverse":
            raise ConfigError(
                f"groups 'population': with the link inverse, the mean of family {self.name} over "
                "groups does not exist, as 1 / eta has no mean; use groups 'data' or 'none'"
            )
        if shape == "exp":  # the mean of exp(eta), where eta is normal
            return self.mean(eta + 0.5 * np.square(sd), values)
        return averaged(lambda eta: self.mean(eta, values), eta, sd, self.width_of_mean)


def _limit(text: str) -> float:
    """Return a bound in Stan as a number, which is infinite for the bound of ratings, ``J``."""
    return {"-pi()": -np.pi, "pi()": np.pi, "J": np.inf}.get(text) or float(text)


_SHAPES = {"identity": "linear", "log": "exp"}

_PLAIN = re.compile(r"[A-Za-z0-9]+")

_PREDICTOR = re.compile(r"mu[A-Za-z0-9]+")
"""The names of the linear predictors of categories."""


def names_of_predictors(labels: Sequence[str]) -> list[str]:
    """Return the name of the linear predictor of each category but the first: ``mu`` and the label.

    Characters other than ASCII letters and digits are left out of labels. If two labels are then
    equal, the one that has no other characters keeps its name.

    >>> names_of_predictors(["bike", "bus", "own car"])
    ['mubus', 'muowncar']
    """
    found = dict[int, str]()
    numbered = enumerate(labels[1:], 2)
    for number, label in sorted(numbered, key=lambda each: not _PLAIN.fullmatch(each[1])):
        name = f"mu{re.sub(r'[^A-Za-z0-9]', '', label)}"
        if name == "mu" or name in found.values():
            name = f"{name}{number}"
        while name in found.values():
            name = f"{name}x"
        found[number] = name
    return [found[number] for number in sorted(found)]


_OTHER_NAMES = {
    "normal": "gaussian",
    "linear": "gaussian",
    "t": "student",
    "student_t": "student",
    "logistic": "bernoulli",
    "logit": "bernoulli",
    "binary": "bernoulli",
    "probit": "bernoulli(probit)",
    "nb": "negbinomial",
    "negative_binomial": "negbinomial",
    "negbin": "negbinomial",
    "nbinom": "negbinomial",
    "nbinom2": "negbinomial",
    "neg_binomial_2": "negbinomial",
    "multinomial_logit": "categorical",
    "multinom": "categorical",
    "mlogit": "categorical",
    "softmax": "categorical",
    "ordinal": "cumulative",
    "ordered": "cumulative",
    "ordered_logistic": "cumulative",
    "polr": "cumulative",
    "zip": "zero_inflated_poisson",
    "zinb": "zero_inflated_negbinomial",
    "zib": "zero_inflated_binomial",
    "betabinomial": "beta_binomial",
    "hurdle_negativebinomial": "hurdle_negbinomial",
    "hurdle_nbinom2": "hurdle_negbinomial",
    "wald": "inverse_gaussian",
    "inv_gaussian": "inverse_gaussian",
    "exp_mod_normal": "exgaussian",
    "exgauss": "exgaussian",
    "quantile": "asym_laplace",
    "asymmetriclaplace": "asym_laplace",
    "skewnormal": "skew_normal",
    "vonmises": "von_mises",
    "ordbeta": "ordered_beta",
    "ordbetareg": "ordered_beta",
    "zero_one_inflated_beta": "ordered_beta",
    "zoib": "ordered_beta",
}
"""Names of families in other packages, each with the name used here, which an error suggests."""


def family_names() -> list[str]:
    """Return the names of the families."""
    return list(_names_in(tuple(__path__)))


@cache
def _names_in(folders: tuple[str, ...]) -> tuple[str, ...]:
    found = (module.name for module in pkgutil.iter_modules(folders))
    return tuple(sorted(name for name in found if name[0] != "_"))


def find_family(name: str) -> Family:
    """Return a family by its name, or by its name and link, such as ``bernoulli(probit)``.

    The text of a family of categories may name their linear predictors instead of the link, such as
    ``categorical(mubus, mucar)``.

    Raises
    ------
    ConfigError
        If there is no family with that name, or it does not allow the link.
    """
    asked, _, link = str(name).partition("(")
    names, asked = family_names(), asked.strip()
    if asked not in names:
        alike = re.sub(r"[\s.-]", "_", asked.lower())
        hint = suggestion(alike, names)
        if alike in _OTHER_NAMES:
            hint = f"did you mean {_OTHER_NAMES[alike]}?"
        raise ConfigError(f"family {asked!r} does not exist; {hint}")
    usual = _usual(asked)
    predictors = [each.strip() for each in link.strip().removesuffix(")").split(",")]
    if usual.has_categories and all(map(_PREDICTOR.fullmatch, predictors)):
        return of_predictors(asked, tuple(predictors))
    link = link.strip().removesuffix(")").strip() or usual.link
    if link not in (usual.link, *usual.links):
        allowed = " or ".join((usual.link, *usual.links))
        raise ConfigError(
            f"family {asked} has no link {link!r}; write {allowed}, or choose another family"
        )
    return _linked(asked, link)


def family_text(family: str | None, link: str | None) -> str | None:
    """Return the text of the requested family and link; None if neither is given.

    Raises
    ------
    ConfigError
        If the family's text names another link.
    """
    if link is None:
        return family
    name, bracket, own = (family or "gaussian").partition("(")
    if bracket and own.strip().removesuffix(")").strip() != link:
        raise ConfigError(f"family {family!r} and link {link!r} differ; leave one of them out")
    return f"{name.strip()}({link})"


def _usual(name: str) -> Family:
    """Return a family as its module defines it."""
    found: Family = import_module(f"{__name__}.{name}").FAMILY
    return found


@cache
def of_predictors(name: str, predictors: tuple[str, ...]) -> Family:
    """Return a family of categories whose linear predictors have these names."""
    with_predictors = _usual(name).with_predictors
    assert with_predictors is not None
    return with_predictors(predictors)


@cache
def _linked(name: str, link: str) -> Family:
    """Return a family with a link; its Stan code contains ``{eta}``, but not ``{mu}``."""
    found, its = _usual(name), LINKS[link]
    if link != found.link:
        found = found.with_link(its) if found.with_link else _with_link(found, its)
    words = {"mu": its.stan, "rest": its.rest, "eta": "{eta}", "trials": "{trials}"}
    cumulative = ""
    if found.tails is not None:
        # Stan has no distribution functions for counts on the scale of the link.
        of_mean = found.of_mean if found.is_discrete else ""
        cumulative = (of_mean or found.stan).format(**words)
    return replace(
        found,
        stan=found.stan.format(**words),
        rng=found.rng.format(**words),
        cumulative=cumulative,
    )


def _with_link(family: Family, link: ResponseLink) -> Family:
    """Return a family with another link, which reuses the functions for its usual link.

    Before they are called, eta is converted from the other link to the usual one.
    """
    via = link.inverse
    if family.link in ("log", "logit"):
        exact = link.via_log if family.link == "log" else link.via_log_odds
        assert exact is not None  # every link that a family allows has this function
        via = exact
    scale = family.scale
    if scale != "fixed":
        scale = {"log": "log", "inverse": "linked"}.get(link.name, "y")  # type: ignore[assignment]
    eta = _LINKED[family.link]
    shape = family.shape_of_mean
    if shape in ("linear", "exp", "averaged"):
        shape = ""
    at_group: Values = {"sd_eta": 0.0}
    # With these links, a negative linear predictor cannot be the mean of a positive response.
    is_bounded = family.link == "log" and link.name in ("identity", "inverse")

    def within(eta: FloatArray) -> FloatArray:
        """Return linear predictors, raised to a small value where they are not possible means."""
        return np.maximum(eta, _LEAST) if is_bounded else eta

    def checked(eta: FloatArray) -> FloatArray:
        """Return linear predictors unchanged; raise an error if one is not a possible mean."""
        if is_bounded and np.any(eta <= 0):
            raise ConfigError(
                f"family {family.name}({link.name}): the linear predictor of a row is "
                f"{np.min(eta):.3g} in some draw, but the mean of a row must be above 0; use link "
                "softplus or log"
            )
        return eta

    def log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
        found = family.log_lik(y, via(within(eta)), values)
        return np.where(eta > 0, found, -np.inf) if is_bounded else found

    of_tails = family.tails
    tails = None
    if of_tails is not None:
        tails = lambda y, eta, values: of_tails(y, via(within(eta)), values)  # noqa: E731

    of_usual, of_link = f"{family.link} m = eta", f"{link.name} m = eta"
    if scale != "fixed":
        of_usual, of_link = _SHOWN[family.link], _SHOWN[link.name]
    return replace(
        family,
        equation=re.sub(rf"\b{re.escape(of_usual)}", of_link, family.equation),
        link=link.name,
        as_normal=None,
        stan=_simplified((family.of_mean or family.stan).replace("{eta}", eta), link),
        rng=_simplified((family.of_mean_rng or family.rng).replace("{eta}", eta), link),
        log_lik=log_lik,
        tails=tails,
        draw=lambda eta, values, rng: family.draw(via(checked(eta)), values, rng),
        mean=lambda eta, values: family.mean(via(checked(eta)), ChainMap(at_group, values)),  # type: ignore[arg-type]
        moments=lambda eta, values: family.moments(via(within(eta)), values),
        scale=scale,
        totals=None,
        shape_of_mean=shape,
        meaning="",
    )


def _simplified(text: str, link: ResponseLink) -> str:
    """Return a distribution in Stan for a link; an inverse of an inverse is left out."""
    return text.replace("{mu}", link.stan).replace("inv(inv({eta}))", "{eta}")


_LEAST = 1e-9
"""The least linear predictor for which moments are computed, where it must be above 0."""

_LINKED = {"identity": "{mu}", "log": "log({mu})", "logit": "logit({mu})"}
"""The usual links in Stan."""

_SHOWN = {"identity": "eta", "log": "exp(eta)", "inverse": "(1 / eta)", "softplus": "softplus(eta)"}
"""The inverse links as the equations show them."""


def average_inv_logit(eta: FloatArray, sd: Any) -> FloatArray:
    """Return the average of inv_logit(eta + sd z) over z ~ N(0, 1).

    Where sd is below 2, the integrand is smooth, and Gauss-Hermite nodes are exact. Elsewhere
    inv_logit is written as the distribution function of a logistic variable l, so that the average
    becomes that of Phi((eta - l) / sd) over l, for which a sum over equally spaced l is exact for
    any sd. The error is below 1e-8.
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
HU = Auxiliary(
    "hu",
    "real<lower=0, upper=1>",
    "beta({alpha}, {beta})",
    {"alpha": 1.0, "beta": 1.0},
    "probability of a zero",
)
