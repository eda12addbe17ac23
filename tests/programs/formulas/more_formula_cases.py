"""Formulas whose log densities in brms are in brms_more.json: families, links, terms and priors.

``benchmarks/brms_reference.py --more`` writes that file. The table is that of ``formula_cases``
with further columns. Each case states a prior for every parameter, as a density that both pyflowers
and brms read, or as hyperparameters where pyflowers takes only these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import formula_cases
import numpy as np
import pandas as pd

from pyflowers.programs.families import family_names, find_family

SEED = 20261129


@dataclass(frozen=True)
class Case:
    """A formula for which brms and pyflowers should have the same density.

    Attributes
    ----------
    name : str
    formula : str
        The formula for pyflowers.
    family : str
        With its link, unless this is the usual one.
    brms : str
        The formula and the family for brms, as a call of ``bf``.
    priors : dict of str to str
        Densities by pyflowers' names; `set_priors` gives brms the same.
    hyperparameters : dict of str to float
        By pyflowers' names.
    others : tuple of dict
        Arguments of ``set_prior`` for the hyperparameters, and for names that only brms has.
    names : dict of str to str
        pyflowers' names of brms' special parameters.
    centre : float
        The centre of the points in the unconstrained intercept or first threshold.
    """

    name: str
    formula: str
    family: str
    brms: str
    priors: dict[str, str]
    hyperparameters: dict[str, float] = field(default_factory=dict)
    others: tuple[dict[str, Any], ...] = ()
    names: dict[str, str] = field(default_factory=dict)
    centre: float = 0.0

    @property
    def is_imputed(self) -> bool:
        """Whether a predictor is imputed, so that the case has two responses in brms."""
        return ") + bf(" in self.brms


@cache
def table() -> pd.DataFrame:
    """Return the table of all cases."""
    rng = np.random.default_rng(SEED)
    frame: pd.DataFrame = formula_cases.table().copy()
    num, groups = len(frame), [f"g{i}" for i in range(1, 9)]
    kind = rng.permutation(np.resize([0, 0, 1, 0, -1, 2], num))
    is_zero = rng.permutation(np.resize([True, False, False, False], num))
    frame["direction"] = rng.vonmises(0.4, 2, num)
    frame["with_zeros"] = np.where(is_zero, 0, frame.positive)
    frame["share"] = np.where(is_zero, 0, frame.proportion)
    frame[["bus", "car", "walk"]] = rng.integers(0, 6, (num, 3))
    frame["trips"] = frame[["bus", "car", "walk"]].sum(axis=1)
    frame["kind"], frame["event"] = kind, (kind == 1).astype(int)
    # Where responses are truncated, brms does not stop at the lower bound what is left-censored.
    frame["later"] = np.maximum(kind, 0)
    frame["more"] = ((kind == 1) & (frame.success < frame.trials)).astype(int)
    frame["y_end"], frame["positive_end"] = frame.y + 0.7, frame.positive + 0.6
    frame["count_end"], frame["proportion_end"] = frame["count"] + 2, frame.proportion + 0.015
    frame["some"], frame["passes"] = frame["count"] + 1, np.maximum(frame.success, 1)
    frame["low"], frame["high"] = frame.y - 1.5, 3 * frame.positive
    frame["s"], frame["w"] = rng.uniform(0.3, 1.5, num), rng.integers(0, 4, num) + 0.5
    frame["t"] = rng.permutation(num)
    frame["g2"] = rng.permutation(np.resize(groups, num))
    frame[["w1", "w2"]] = rng.uniform(0.1, 2, (num, 2))
    frame["site"] = frame.g.map(dict(zip(groups, "abbabaab", strict=True)))
    # brms puts the interval of a process around the mean, and pyflowers around the middle.
    frame["dose"] = rng.permutation(np.resize([-1.5, -0.9, -0.3, 0.3, 0.9, 1.5], num))
    frame["y_lost"] = frame.y.where(rng.permutation(num) > 4)
    frame["x_lost"] = frame.x.where(rng.permutation(num) > 5)
    return frame.round(4)


@cache
def known_covariance() -> pd.DataFrame:
    """Return a covariance of the labels of g, in another order than theirs."""
    labels, steps = [f"g{i}" for i in range(1, 9)], np.arange(8)
    matrix = 1.3 * 0.6 ** np.abs(np.subtract.outer(steps, steps))
    order = [3, 0, 7, 1, 4, 6, 2, 5]
    return pd.DataFrame(matrix, index=labels, columns=labels).iloc[order, order].round(6)


PARAMETERS = {
    "sigma": "exponential(0.8)",
    "nu": "gamma(2.3, 0.15)",
    "shape": "lognormal(0.3, 0.9)",
    "phi": "gamma(1.9, 0.35)",
    "zi": "beta(1.6, 2.7)",
    "hu": "beta(1.4, 2.2)",
    "beta": "weibull(1.5, 1.1)",
    "alpha": "normal(0.4, 2.3)",
    "ndt": "exponential(2.1)",
    "kappa": "inv_gamma(1.7, 2.2)",
}
"""A prior for each parameter of a family that has no terms."""

FAMILIES: Mapping[str, str] = {
    "gaussian": "sigma",
    "student": "sigma nu",
    "skew_normal": "sigma alpha",
    "exgaussian": "sigma beta",
    "asym_laplace": "sigma",
    "lognormal": "sigma",
    "shifted_lognormal": "sigma ndt",
    "gamma": "shape",
    "weibull": "shape",
    "inverse_gaussian": "shape",
    "hurdle_gamma": "shape hu",
    "hurdle_lognormal": "sigma hu",
    "beta": "phi",
    "zero_inflated_beta": "phi zi",
    "von_mises": "kappa",
    "beta_binomial": "phi",
    "zero_inflated_binomial": "zi",
    "negbinomial": "shape",
    "zero_inflated_poisson": "zi",
    "zero_inflated_negbinomial": "shape zi",
    "hurdle_poisson": "hu",
    "hurdle_negbinomial": "shape hu",
}
"""The parameters of the families that have any."""

ORDINAL = ("acat", "cumulative", "sratio")
CATEGORIES = {"categorical": "mub muc", "multinomial": "mucar muwalk"}
"""The categories of the table, without the first."""

_LINKS = {name: find_family(name).link for name in family_names()}
_BRMS = {"inverse_gaussian": "inverse.gaussian"}


def set_priors(case: Case) -> list[dict[str, Any]]:
    """Return the arguments of a call of ``set_prior`` in brms for each prior of a case."""
    if case.is_imputed:
        return list(case.others)
    return [*(_set_prior(name, text) for name, text in case.priors.items()), *case.others]


def _set_prior(name: str, text: str) -> dict[str, Any]:
    """Return the arguments of ``set_prior`` in brms for a prior of pyflowers."""
    density, _, bounds = text.partition(" T[")
    whole, _, element = name.removesuffix("]").partition("[")
    kind, _, tag = whole.partition("_")
    group, _, last = tag.rpartition("_")
    found: dict[str, Any] = {"prior": density, "class": kind}
    if kind == "threshold":
        found["class"] = "Intercept"
    if kind in ("sd", "cor"):
        is_of_parameter = last in PARAMETERS or last.startswith("mu")
        found["group"] = group if is_of_parameter else tag
        if found["group"].startswith("mm_"):
            found["group"] = found["group"].replace("_", "")
        tag = last if is_of_parameter and kind == "sd" else ""
    if tag:
        found["dpar"] = tag
    if element:
        found["coef"] = element
    if bounds:
        found["lb"] = float(bounds.partition(",")[0])
    if kind == "ar":
        found |= {"lb": -1, "ub": 1}
    return found


def _case(
    name: str,
    formula: str,
    family: str = "gaussian",
    more: str = "",
    *,
    brms: str = "",
    **how: Any,
) -> Case:
    """Return a case with priors for the lines and the family, which the priors `more` replace."""
    own, _, link = family.removesuffix(")").partition("(")
    parts = [part.strip() for part in formula.split(";")]
    predicted = [part.partition(" ~")[0] for part in parts[1:]]
    tags = ["", *(f"_{each}" for each in predicted)]
    if own in CATEGORIES:
        tags = [f"_{each}" for each in CATEGORIES[own].split()]
    priors = {}
    for i, tag in enumerate(tags):
        priors[f"Intercept{tag}"] = f"student_t(5, {0.3 - 0.2 * i:.2g}, {2.2 - 0.3 * i:.2g})"
        priors[f"b{tag}"] = f"normal({0.2 - 0.3 * i:.2g}, {0.9 + 0.2 * i:.2g})"
    if own in ORDINAL:
        priors["threshold"] = priors.pop("Intercept")
    for parameter in FAMILIES.get(own, "").split():
        if parameter not in predicted:
            priors[parameter] = PARAMETERS[parameter]
    stated = [prior.split(" ~ ") for prior in more.split("; ") if prior]
    for left, _ in stated:
        priors.pop(left.partition("[")[0], None)
    priors |= {left: right for left, right in stated if right != "none"}
    theirs = f"family = brmsfamily({_BRMS.get(own, own)!r}, link = {link or _LINKS[own]!r})"
    return Case(name, formula, family, f"bf({brms or ', '.join(parts)}, {theirs})", priors, **how)


_SD = "sd_g ~ gamma(1.8, 1.1)"
_CORRELATED = f"{_SD}; cor_g ~ lkj(1.7)"
_SD_SIGMA, _SD_SHAPE = "sd_g_sigma ~ exponential(1.3)", "sd_g_shape ~ exponential(1.3)"
_CBIND = "cbind(bus, car, walk) | trials(trips) ~ {}"
_DF: dict[str, Any] = {
    "hyperparameters": {"df_g_alpha": 2.6, "df_g_beta": 0.2},
    "others": ({"prior": "gamma(2.6, 0.2)", "class": "df", "group": "g"},),
}

_BY_FAMILY = (
    _case("skew_normal", "y ~ x", "skew_normal"),
    _case("exgaussian", "y ~ x", "exgaussian"),
    _case(
        "asym_laplace",
        "y ~ x",
        "asym_laplace",
        brms="y ~ x, quantile = 0.3",
        hyperparameters={"quantile": 0.3},
    ),
    _case("shifted_lognormal", "positive ~ x", "shifted_lognormal"),
    _case("weibull", "positive ~ x + (1 | g)", "weibull", _SD),
    _case("exponential", "positive ~ x + (x | g)", "exponential", _CORRELATED),
    _case("inverse_gaussian", "positive ~ x", "inverse_gaussian"),
    _case("hurdle_gamma", "with_zeros ~ x", "hurdle_gamma"),
    _case("hurdle_lognormal", "with_zeros ~ x + (1 | g)", "hurdle_lognormal", _SD),
    _case("zero_inflated_beta", "share ~ x", "zero_inflated_beta"),
    _case("von_mises", "direction ~ x", "von_mises"),
    _case("beta_binomial", "success | trials(trials) ~ x + (1 | g)", "beta_binomial", _SD),
    _case("zero_inflated_binomial", "success | trials(trials) ~ x", "zero_inflated_binomial"),
    _case("geometric", "count ~ x + offset(log(hours))", "geometric"),
    _case("hurdle_poisson", "count ~ x + (1 | g)", "hurdle_poisson", _SD),
    _case("hurdle_negbinomial", "count ~ x", "hurdle_negbinomial"),
    _case("categorical", "f ~ x", "categorical"),
    _case(
        "categorical_groups",
        "f ~ x + (1 | g)",
        "categorical",
        "sd_g_mub ~ exponential(0.7); sd_g_muc ~ gamma(2.2, 1.4)",
    ),
    _case("categorical_own", "f ~ x; muc ~ z", "categorical", brms="f ~ x, muc ~ z"),
    _case("multinomial", "cbind(bus, car, walk) ~ x", "multinomial", brms=_CBIND.format("x")),
    _case(
        "multinomial_groups",
        "cbind(bus, car, walk) ~ x + (1 | g)",
        "multinomial",
        "sd_g_mucar ~ exponential(0.7); sd_g_muwalk ~ gamma(2.2, 1.4)",
        brms=_CBIND.format("x + (1 | g)"),
    ),
    _case("sratio", "rating ~ x + (1 | g)", "sratio", _SD),
    _case("acat", "rating ~ x + (1 | g)", "acat", _SD),
)

_BY_LINK = (
    *(
        _case(f"{family}_{link}", "positive ~ x", f"{family}({link})", centre=centre)
        for family in (
            *("gaussian", "student", "skew_normal", "exgaussian", "gamma", "weibull"),
            *("exponential", "inverse_gaussian"),
        )
        for link, centre in (("identity", 4.0), ("log", 0.0), ("inverse", 4.0), ("softplus", 0.0))
        if link != _LINKS[family]
    ),
    *(
        _case(
            f"asym_laplace_{link}",
            "positive ~ x",
            f"asym_laplace({link})",
            brms="positive ~ x, quantile = 0.8",
            hyperparameters={"quantile": 0.8},
            centre=centre,
        )
        for link, centre in (("log", 0.0), ("inverse", 4.0), ("softplus", 0.0))
    ),
    *(
        _case(f"{family}_{link}", "count ~ x", f"{family}({link})", centre=centre)
        for family in ("poisson", "negbinomial", "geometric")
        for link, centre in (("identity", 4.0), ("softplus", 0.0))
    ),
    *(
        _case(f"{family}_softplus", "count ~ x", f"{family}(softplus)")
        for family in (
            *("zero_inflated_poisson", "zero_inflated_negbinomial"),
            *("hurdle_poisson", "hurdle_negbinomial"),
        )
    ),
    _case("hurdle_gamma_softplus", "with_zeros ~ x", "hurdle_gamma(softplus)"),
    *(
        _case(f"{family}_{link}", f"{response} ~ x", f"{family}({link})")
        for family, response in (
            ("bernoulli", "passed"),
            ("binomial", "success | trials(trials)"),
            ("beta_binomial", "success | trials(trials)"),
            ("zero_inflated_binomial", "success | trials(trials)"),
            ("beta", "proportion"),
            ("zero_inflated_beta", "share"),
        )
        for link in ("probit", "cloglog")
    ),
    _case("cumulative_probit", "rating ~ x", "cumulative(probit)", centre=-1.0),
    # With higher thresholds, brms rounds small probabilities, because it subtracts numbers near 1
    # from 1.
    _case("cumulative_cloglog", "rating ~ x", "cumulative(cloglog)", centre=-4.0),
    _case("sratio_cloglog", "rating ~ x", "sratio(cloglog)"),
    _case("sratio_probit", "rating ~ x", "sratio(probit)"),
)

_INTERVALS = "cens(kind, y2 = {}_end)".format
_OF_RESPONSE = (
    *(
        _case(f"cens_{family}", f"y | {_INTERVALS('y')} ~ x", family)
        for family in ("gaussian", "student", "exgaussian")
    ),
    *(
        _case(f"cens_{family}", f"positive | {_INTERVALS('positive')} ~ x", family)
        for family in ("lognormal", "gamma", "weibull", "exponential")
    ),
    *(
        _case(f"cens_{family}", f"count | {_INTERVALS('count')} ~ x", family)
        for family in ("poisson", "negbinomial", "geometric")
    ),
    _case("cens_beta", f"proportion | {_INTERVALS('proportion')} ~ x", "beta"),
    _case("cens_binomial", "success | trials(trials) + cens(more) ~ x", "binomial"),
    _case(
        "cens_asym_laplace",
        f"y | {_INTERVALS('y')} ~ x",
        "asym_laplace",
        brms=f"y | {_INTERVALS('y')} ~ x, quantile = 0.5",
        hyperparameters={"quantile": 0.5},
    ),
    _case("cens_beta_probit", "proportion | cens(event) ~ x", "beta(probit)"),
    _case("cens_group", "positive | cens(event) ~ x + (1 | g)", "weibull", _SD),
    _case("cens_weights", "positive | cens(event) + weights(w) ~ x", "lognormal"),
    _case("cens_weights_count", "count | cens(event) + weights(w) ~ x + (1 | g)", "poisson", _SD),
    _case("cens_trunc", "y | cens(event) + trunc(lb = low) ~ x", "gaussian"),
    _case("cens_trunc_count", "some | cens(event) + trunc(lb = 1) ~ x", "negbinomial"),
    _case("cens_trunc_ends", "y | cens(later, y2 = y_end) + trunc(lb = low) ~ x", "student"),
    _case("cens_se", "y | se(s, sigma = TRUE) + cens(event) ~ x", "student"),
    _case("trunc_gaussian", "y | trunc(lb = low) ~ x"),
    _case("trunc_student", "y | trunc(lb = -4, ub = 6) ~ x", "student"),
    _case("trunc_gamma", "positive | trunc(lb = 0.01, ub = high) ~ x", "gamma"),
    _case("trunc_weibull", "positive | trunc(ub = high) ~ x", "weibull"),
    _case("trunc_lognormal", "positive | trunc(ub = 12) ~ x", "lognormal"),
    _case("trunc_poisson", "count | trunc(ub = 14) ~ x + (1 | g)", "poisson", _SD),
    _case("trunc_above_0", "some | trunc(lb = 1) ~ x", "poisson"),
    _case("trunc_negbinomial", "some | trunc(lb = 1, ub = 30) ~ x", "negbinomial"),
    _case("trunc_geometric", "count | trunc(ub = 25) ~ x", "geometric"),
    _case("trunc_binomial", "passes | trials(trials) + trunc(lb = 1) ~ x", "binomial"),
    _case("trunc_exponential", "positive | trunc(lb = 0.01, ub = high) ~ x", "exponential"),
    _case("trunc_beta", "proportion | trunc(lb = 0.01, ub = 0.99) ~ x", "beta"),
    _case("trunc_exgaussian", "y | trunc(lb = low) ~ x", "exgaussian"),
    _case(
        "trunc_asym_laplace",
        "y | trunc(lb = low) ~ x",
        "asym_laplace",
        brms="y | trunc(lb = low) ~ x, quantile = 0.3",
        hyperparameters={"quantile": 0.3},
    ),
    _case("trunc_se", "y | se(s) + trunc(lb = -5) ~ x", more="sigma ~ none"),
    _case("se_gaussian", "y | se(s) ~ x + (1 | g)", more=f"{_SD}; sigma ~ none"),
    _case("se_student", "y | se(s) ~ x", "student", "sigma ~ none"),
    _case("se_sigma", "y | se(s, sigma = TRUE) ~ x"),
    _case("se_sigma_student", "y | se(s, sigma = TRUE) ~ x", "student"),
    _case("se_weights", "y | se(s) + weights(w) ~ x", more="sigma ~ none"),
    _case("weights_gaussian", "y | weights(w) ~ x + (1 | g)", more=_SD),
    _case("weights_trunc", "y | weights(w) + trunc(lb = low) ~ x"),
    _case("weights_poisson", "count | weights(w) ~ x", "poisson"),
    _case("weights_binomial", "success | trials(trials) + weights(w) ~ x", "binomial"),
    _case("weights_hurdle", "with_zeros | weights(w) ~ x", "hurdle_gamma"),
    _case("weights_categorical", "f | weights(w) ~ x", "categorical"),
    _case("weights_sratio", "rating | weights(w) ~ x", "sratio"),
    # An intercept has its prior at the means of all rows in brms, of those with a response here.
    _case("mi_response", "y_lost | mi() ~ 0 + x", more="Intercept ~ none"),
)

_OF_PARAMETERS = (
    _case("sigma", "y ~ x; sigma ~ z"),
    _case("sigma_groups", "y ~ x + (1 | g); sigma ~ x + (1 | g)", more=f"{_SD}; {_SD_SIGMA}"),
    _case(
        "sigma_slopes",
        "y ~ x; sigma ~ z + (z | g)",
        more=f"{_SD_SIGMA}; cor_g_sigma ~ lkj(2.4)",
    ),
    _case("nu", "y ~ x; sigma ~ z; nu ~ x", "student"),
    _case("alpha", "y ~ x; alpha ~ z", "skew_normal"),
    _case("beta", "y ~ x; sigma ~ z; beta ~ x", "exgaussian"),
    _case("sigma_lognormal", "positive ~ x; sigma ~ z", "lognormal"),
    _case("shape_gamma", "positive ~ x; shape ~ z", "gamma"),
    _case("shape_weibull", "positive ~ x; shape ~ z + (1 | g)", "weibull", _SD_SHAPE),
    _case("shape_negbinomial", "count ~ x; shape ~ z + (1 | g)", "negbinomial", _SD_SHAPE),
    _case("phi_beta", "proportion ~ x; phi ~ z", "beta"),
    _case("phi_beta_binomial", "success | trials(trials) ~ x; phi ~ z", "beta_binomial"),
    _case("zi_poisson", "count ~ x; zi ~ z", "zero_inflated_poisson"),
    _case("zi_and_shape", "count ~ x; shape ~ z; zi ~ x", "zero_inflated_negbinomial"),
    _case("hu_poisson", "count ~ x; hu ~ z + (1 | g)", "hurdle_poisson", "sd_g_hu ~ gamma(1.8, 2)"),
    _case("hu_gamma", "with_zeros ~ x; shape ~ x; hu ~ z", "hurdle_gamma"),
    _case("hu_lognormal", "with_zeros ~ x; sigma ~ z; hu ~ x", "hurdle_lognormal"),
    _case("hu_negbinomial", "count ~ x; shape ~ z; hu ~ x", "hurdle_negbinomial"),
    _case("zi_beta", "share ~ x; phi ~ z; zi ~ x", "zero_inflated_beta"),
    _case("zi_binomial", "success | trials(trials) ~ x; zi ~ z", "zero_inflated_binomial"),
    _case("shape_inverse_gaussian", "positive ~ x; shape ~ z", "inverse_gaussian"),
    _case("trunc_and_shape", "positive | trunc(ub = high) ~ x; shape ~ z", "gamma"),
    _case("weights_and_phi", "proportion | weights(w) ~ x; phi ~ z", "beta"),
    _case("kappa", "direction ~ x; kappa ~ z", "von_mises"),
    _case("cens_and_sigma", "y | cens(event) ~ x; sigma ~ z", "gaussian"),
    _case("levels_of_sigma", "y ~ x; sigma ~ 0 + f", more="Intercept_sigma ~ none"),
)

_OF_TERMS = (
    _case(
        "mo",
        "y ~ x + mo(rating)",
        hyperparameters={
            "mo_rating_scale": 1.4,
            "share_rating_alpha[1 to 2]": 1.4,
            "share_rating_alpha[2 to 3]": 2.3,
            "share_rating_alpha[3 to 4]": 0.9,
        },
        others=(
            {"prior": "normal(0, 1.4)", "class": "b", "coef": "morating"},
            {"prior": "dirichlet(c(1.4, 2.3, 0.9))", "class": "simo", "coef": "morating1"},
        ),
        names={"bsp": "mo_rating", "simo_1": "share_rating"},
    ),
    _case(
        "mo_of_sigma",
        "y ~ x; sigma ~ mo(num)",
        more="b_sigma ~ none",
        hyperparameters={
            "mo_num_sigma_scale": 0.6,
            "share_num_sigma_alpha[1 to 2]": 1.4,
            "share_num_sigma_alpha[2 to 3]": 2.3,
        },
        others=(
            {"prior": "normal(0, 0.6)", "class": "b", "coef": "monum", "dpar": "sigma"},
            {
                "prior": "dirichlet(c(1.4, 2.3))",
                "class": "simo",
                "coef": "monum1",
                "dpar": "sigma",
            },
        ),
        names={"bsp_sigma": "mo_num_sigma", "simo_sigma_1": "share_num_sigma"},
    ),
    _case("cosy_sigma", "y ~ x + cosy(gr = g); sigma ~ z", more="cosy ~ beta(1.5, 2.5)"),
    _case("ar", "y ~ x + ar(time = t, gr = g)", more="ar ~ normal(0.2, 0.4)"),
    _case("ar_student", "y ~ x + ar(time = t)", "student", "ar ~ normal(0.2, 0.4)"),
    _case("ar_sigma", "y ~ x + ar(time = t, gr = g); sigma ~ z", more="ar ~ normal(0.2, 0.4)"),
    _case("cosy", "y ~ x + cosy(gr = g)", more="cosy ~ beta(1.5, 2.5)"),
    _case("cosy_student", "y ~ x + cosy(gr = g)", "student", "cosy ~ beta(1.5, 2.5)"),
    _case("by", "y ~ x + (1 | gr(g, by = site))", more=_SD),
    _case("by_slopes", "y ~ x + (x | gr(g, by = site))", more=_CORRELATED),
    _case("by_apart", "y ~ x + (x || gr(g, by = site))", more=_SD),
    _case("cov_apart", "y ~ x + (x || gr(g, cov = A))", more=_SD),
    _case("cov_of_sigma", "y ~ x; sigma ~ z + (1 | gr(g, cov = A))", more=_SD_SIGMA),
    _case("cov", "y ~ x + (1 | gr(g, cov = A))", more=_SD),
    _case("cov_slopes", "count ~ x + (x | gr(g, cov = A))", "poisson", _CORRELATED),
    _case(
        "student_groups",
        "y ~ x + (1 | gr(g, dist = student))",
        more=_SD,
        brms="y ~ x + (1 | gr(g, dist = 'student'))",
        **_DF,
    ),
    _case(
        "student_slopes",
        "y ~ x + (x | gr(g, dist = student))",
        more=_CORRELATED,
        brms="y ~ x + (x | gr(g, dist = 'student'))",
        **_DF,
    ),
    _case(
        "student_apart",
        "y ~ x + (x || gr(g, dist = student))",
        more=_SD,
        brms="y ~ x + (x || gr(g, dist = 'student'))",
        **_DF,
    ),
    _case("mm_apart", "y ~ x + (x || mm(g, g2))", more="sd_mm_g_g2 ~ exponential(0.8)"),
    _case("mm", "y ~ x + (1 | mm(g, g2))", more="sd_mm_g_g2 ~ exponential(0.8)"),
    _case(
        "mm_weights",
        "y ~ x + (1 | mm(g, g2, weights = cbind(w1, w2)))",
        more="sd_mm_g_g2 ~ exponential(0.8)",
    ),
    _case(
        "mm_unscaled",
        "count ~ x + (1 | mm(g, g2, weights = cbind(w1, w2), scale = FALSE))",
        "poisson",
        "sd_mm_g_g2 ~ exponential(0.8)",
    ),
    _case(
        "mm_slopes",
        "y ~ x + (x | mm(g, g2))",
        more="sd_mm_g_g2 ~ exponential(0.8); cor_mm_g_g2 ~ lkj(1.3)",
    ),
    _case(
        "gp",
        "y ~ x + gp(dose, k = 12, c = 2.5)",
        brms="y ~ x + gp(dose, k = 12, c = 1.25, scale = FALSE)",
        hyperparameters={
            "sdgp_dose_scale": 1.6,
            "lscale_dose_location": -0.2,
            "lscale_dose_scale": 0.7,
        },
        others=(
            {"prior": "student_t(3, 0, 1.6)", "class": "sdgp"},
            {"prior": "lognormal(-0.2, 0.7)", "class": "lscale", "coef": "gpdose"},
        ),
        names={"sdgp_1": "sdgp_dose", "lscale_1": "lscale_dose", "zgp_1": "z_gp_dose"},
    ),
)

_OF_PRIORS = (
    _case(
        "prior_of_one", "y ~ x + z", more="b[x] ~ normal(0.5, 0.2); b[z] ~ student_t(4, -1, 0.7)"
    ),
    _case("prior_above_0", "y ~ x", more="b ~ normal(0.5, 1.1) T[0, ]"),
    _case(
        "prior_heavy", "y ~ x", more="Intercept ~ cauchy(0.4, 1.3); b ~ double_exponential(0, 0.6)"
    ),
    _case(
        "prior_light", "passed ~ x", "bernoulli", "Intercept ~ logistic(0.3, 0.8); b ~ std_normal()"
    ),
    _case("prior_of_sigma", "y ~ x", more="sigma ~ inv_gamma(2.1, 1.2)"),
    _case("prior_of_variance", "y ~ x", more="sigma ~ scaled_inv_chi_square(4.5, 0.8)"),
    _case("prior_uniform", "y ~ x", more="sigma ~ uniform(0, 5)"),
    _case("prior_constant", "y ~ x", more="sigma ~ constant(1.3)"),
    _case("prior_constant_slope", "y ~ x", more="b ~ constant(0.5)"),
    _case("prior_constant_intercept", "y ~ x", more="Intercept ~ constant(0.4)"),
    _case(
        "prior_of_all_groups",
        "y ~ x + (x | g) + (1 | h); sigma ~ x + (1 | h)",
        more="sd ~ exponential(0.9); cor ~ lkj(1.4); sd_sigma ~ gamma(2.2, 1.9)",
    ),
    _case(
        "prior_of_all_categories",
        "f ~ x + (x | g)",
        "categorical",
        "sd_mub ~ exponential(0.9); sd_muc ~ gamma(2.2, 1.9); cor ~ lkj(1.4)",
    ),
    _case(
        "prior_of_sds",
        "y ~ x + (x | g)",
        more="sd_g[Intercept] ~ lognormal(0.2, 0.6); sd_g[x] ~ weibull(1.6, 0.9); cor_g ~ lkj(3.2)",
    ),
    _case(
        "prior_of_categories",
        "f ~ x",
        "categorical",
        "Intercept_muc ~ logistic(0.2, 1.1); b_mub[x] ~ student_t(4, 0.3, 0.5)",
    ),
    _case(
        "prior_of_parameter",
        "y ~ x; sigma ~ x + z",
        more="Intercept_sigma ~ normal(-0.4, 0.8); b_sigma[x] ~ normal(0.3, 0.4); "
        "b_sigma[z] ~ double_exponential(0.1, 0.5)",
    ),
)

_IMPUTED = Case(
    "mi_predictor",
    # With an intercept, brms would have its prior where the imputed predictor is 0.
    "y ~ 0 + mi(x_lost); x_lost | mi() ~ z",
    "gaussian",
    "bf(y ~ 0 + mi(x_lost)) + bf(x_lost | mi() ~ z) + set_rescor(FALSE)",
    {
        "b": "normal(0.2, 0.9)",
        "sigma": "exponential(0.8)",
        "Intercept_x_lost": "student_t(5, 0.1, 1.4)",
        "b_x_lost": "normal(-0.3, 0.7)",
        "sigma_x_lost": "gamma(1.8, 1.1)",
    },
    others=(
        {"prior": "normal(0.2, 0.9)", "class": "b", "resp": "y"},
        {"prior": "exponential(0.8)", "class": "sigma", "resp": "y"},
        {"prior": "student_t(5, 0.1, 1.4)", "class": "Intercept", "resp": "xlost"},
        {"prior": "normal(-0.3, 0.7)", "class": "b", "resp": "xlost"},
        {"prior": "gamma(1.8, 1.1)", "class": "sigma", "resp": "xlost"},
    ),
    names={
        "bsp_y": "b",
        "sigma_y": "sigma",
        "Intercept_xlost": "Intercept_x_lost_at_means",
        "b_xlost": "b_x_lost",
        "sigma_xlost": "sigma_x_lost",
        "Ymi_xlost": "imputed_x_lost",
    },
)

CASES: tuple[Case, ...] = (
    *(*_BY_FAMILY, *_BY_LINK, *_OF_RESPONSE, _IMPUTED),
    *(*_OF_PARAMETERS, *_OF_TERMS, *_OF_PRIORS),
)
