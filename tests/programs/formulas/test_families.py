"""The density, random numbers and mean of each family agree; a new family is one file."""

import ast
import importlib
import inspect
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from family_cases import TEXTS, response_of, table, values_of
from scipy import special, stats

import pyflowers
from pyflowers import Program
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs import families
from pyflowers.programs.families import (
    _OTHER_NAMES,
    average_inv_logit,
    family_names,
    find_family,
)
from pyflowers.programs.families._links import log_inv_logit, log_inv_logits

ETA = 0.4
NUM = 40_000
OF_NEW_FAMILY = ("cumulative(probit)", "cumulative(cloglog)", "sratio(cloglog)")


@pytest.mark.parametrize("text", TEXTS)
def test_draws_follow_the_density(text):
    """The shares of zeros, ones and integers, and the distribution of other values."""
    family, values = find_family(text), values_of(text)
    drawn = family.draw(np.full((1, 1, NUM), ETA), values, np.random.default_rng(1))[0, 0]
    eta = np.full((1, 1, 1), ETA)
    some = np.unique(drawn)
    if not family.is_discrete:
        some = some[np.isin(some, (0, 1))]
    rest = drawn
    for each in some:
        share = np.exp(float(family.log_lik(np.array([each]), eta, values).squeeze()))
        error = np.sqrt(share * (1 - share) / NUM)
        if share > 10 / NUM:
            assert abs(np.mean(drawn == each) - share) < 5 * error, each
        rest = rest[rest != each]
    if family.is_discrete:
        assert (drawn == np.floor(drawn)).all()
        return
    # The distribution function, by the trapezoidal rule in a transformed variable.
    rest = np.sort(rest)
    grid = np.interp(np.linspace(0, 1, 8001), np.linspace(0, 1, rest.size), rest)
    grid = np.unique(np.concatenate([grid, np.linspace(rest[0], rest[-1], 8001)]))
    height = np.exp(family.log_lik(grid, eta, values)[0, 0])
    mass = np.concatenate([[0], np.cumsum(np.diff(grid) * (height[1:] + height[:-1]) / 2)])
    distance = np.abs(
        np.interp(rest, grid, mass / mass[-1]) - (np.arange(rest.size) + 0.5) / rest.size
    )
    assert distance.max() < 2.2 / np.sqrt(rest.size)  # in 1 of 10,000 cases, it would be larger
    assert mass[-1] == pytest.approx(rest.size / NUM, abs=0.012)


@pytest.mark.parametrize("text", TEXTS)
def test_draws_have_the_mean_and_the_moments(text):
    family, values = find_family(text), values_of(text, {"shape": 8.0, "nu": 8.0, "sigma": 0.3})
    eta = np.full((1, 1, 5 * NUM), ETA)
    drawn = family.draw(eta, values, np.random.default_rng(2))[0, 0]
    error = drawn.std() / np.sqrt(drawn.size)
    mean = float(np.ravel(family.expected(eta[..., :1], values))[0])
    if family.name == "von_mises":  # its mean is a direction
        found = np.angle(np.exp(1j * drawn).mean())
        assert found == pytest.approx(mean, abs=5 * error)
        assert found != pytest.approx(1.05 * mean, abs=5 * error)
    else:
        assert abs(drawn.mean() - mean) < 5 * error
        assert abs(drawn.mean() - 1.05 * mean) > 5 * error  # the check can fail
    own = np.log(drawn) if family.compares_logs else drawn
    first, second = (np.ravel(each)[0] for each in family.moments(eta[..., :1], values))
    assert own.mean() == pytest.approx(first, abs=5 * own.std() / np.sqrt(own.size))
    times = 8 / 6 if family.name == "student" else 1  # its scale takes the place of the sd
    assert own.var() == pytest.approx(times * second, rel=0.03)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("sd", [0.5, 1.5])
def test_the_mean_over_groups_is_an_average(text, sd):
    """Against Gauss-Hermite quadrature of the mean in each group."""
    family, values = find_family(text), values_of(text)
    eta = np.array([[[-0.5, 0.8]]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    if family.link == "inverse":
        with pytest.raises(ConfigError, match="1 / eta has no mean; use groups 'data'"):
            family.expected(eta, {**values, "sd_eta": sd})
        return
    if "identity" in text and family.name in ("poisson", "negbinomial", "geometric"):
        pytest.skip("the mean is linear in eta, and undefined below 0")
    if family.is_positive and family.link == "identity" and family.scale == "y":
        pytest.skip("the mean is linear in eta, and undefined below 0")
    expected = sum(
        weight * family.expected(eta + sd * node, values)
        for node, weight in zip(nodes, weights / weights.sum(), strict=True)
    )
    found = family.expected(eta, {**values, "sd_eta": sd})
    np.testing.assert_allclose(found, expected, rtol=2e-5)


def test_another_family_is_one_file(tmp_path, monkeypatch):
    """The new family is Fréchet, whose parameter has a prior that no other family has."""
    (tmp_path / "frechet.py").write_text(
        '''
"""The Fréchet family, with scale exp(eta)."""
import numpy as np
from scipy.stats import invweibull
from pyflowers.programs.families import Auxiliary, Family

FAMILY = Family(
    name="frechet",
    equation="{y} ~ Fréchet(alpha, exp(eta))",
    link="log",
    response="vector<lower=0>[N]",
    stan="frechet(alpha, exp({eta}))",
    rng="exp({eta}) * exponential_rng(1) ^ (-1 / alpha)",
    log_lik=lambda y, eta, values: invweibull.logpdf(y, values["alpha"], scale=np.exp(eta)),
    draw=lambda eta, values, rng: np.exp(eta) * rng.weibull(values["alpha"], eta.shape) ** -1,
    mean=lambda eta, values: invweibull.mean(values["alpha"], scale=np.exp(eta)),
    moments=lambda eta, values: invweibull.stats(values["alpha"], scale=np.exp(eta)),
    auxiliary=(
        Auxiliary(
            "alpha",
            "real<lower=0>",
            "lognormal({location}, {scale})",
            {"location": 1, "scale": 0.5},
            "shape",
        ),
    ),
    scale="log",
    excludes={"0": "another family"},
)
'''
    )
    monkeypatch.setattr(families, "__path__", [*families.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    assert "frechet" in family_names()
    rng = np.random.default_rng(1)
    # The group has the same name as the parameter, so the program must rename one of them.
    frame = pd.DataFrame({"alpha": np.repeat(list("abcdef"), 30), "x": rng.normal(size=180)})
    frame["y"] = np.exp(1 + 0.5 * frame.x) * rng.weibull(4, 180) ** -1
    how = {"seed": 1, "engine": "stanli"}
    fit = pyflowers.fit("y ~ x + (1 | alpha)", frame, family="frechet", draws=300, **how)
    summary = fit.summary()
    for name, true in {"Intercept": 1, "b[x]": 0.5, "alpha": 4}.items():
        assert abs(summary["median"][name] - true) < 4 * summary["sd"][name]
    in_stan = fit.draws["lprior"] + fit.log_likelihood().sum(axis=-1)
    assert np.isfinite(in_stan).all()
    assert pyflowers.check(fit).passed
    mean = pyflowers.effects(fit, "x").table()
    assert (mean["median"] > 0).all()
    prior = pyflowers.prior(fit.program, frame, draws=4000, seed=1)
    assert abs(np.median(prior.draws["alpha"]) / np.e - 1) < 0.05


@pytest.mark.parametrize("name", family_names())
def test_a_family_is_short(name):
    """At most 85 lines of Python code, and 25 lines of functions in Stan."""
    source = inspect.getsource(importlib.import_module(f"pyflowers.programs.families.{name}"))
    docstrings = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Module | ast.FunctionDef) and ast.get_docstring(node)
        for line in range(node.body[0].lineno, node.body[0].end_lineno + 1)
    }
    lines = source.splitlines()
    code = [
        line
        for number, line in enumerate(lines, 1)
        if number not in docstrings and line.strip() and not line.strip().startswith("#")
    ]
    num_stan = len(find_family(name).functions.splitlines())
    assert len(code) - num_stan <= 85
    assert num_stan <= 25


def test_an_unknown_family_is_one_sentence():
    frame = pd.DataFrame({"y": [1, 2, 3]})
    with pytest.raises(ConfigError, match="family 'poison' does not exist; did you"):
        Program.from_formula("y ~ 1", frame, family="poison")
    with pytest.raises(ConfigError, match="choose one of acat, asym_laplace, bernoulli"):
        Program.from_formula("y ~ 1", frame, family="xyz")


@pytest.mark.parametrize(
    ("family", "y", "message"),
    [
        ("poisson", [1, -2, 3], r"row 2: y is -2, but for family poisson it cannot be negative"),
        ("poisson", [1, 2.5, 3], r"row 2: y is 2\.5, but .* it must be a whole number"),
        ("bernoulli", [0, 1, 2], r"row 3: y is 2, but for family bernoulli it must be 0 or 1"),
        ("gamma", [1, 0, 3], r"row 2: y is 0, but .* above 0; correct it or choose hurdle_gamma"),
        ("weibull", [1, 0, 3], r"row 2: y is 0, but .* above 0; correct it or choose hurdle_gamma"),
        ("lognormal", [1, 0], r"row 2: y is 0, .* above 0; correct it or choose hurdle_lognormal"),
        ("gamma", [1, -1, 3], r"row 2: y is -1, but .* above 0; correct it or choose another fam"),
        ("beta", [0.1, 1], r"row 2: y is 1, but .* below 1; correct it or choose ordered_beta"),
        ("beta", [0.1, 0], r"row 2: y is 0, .* correct it or choose zero_inflated_beta or ordered"),
        ("beta", [0.1, 2], r"row 2: y is 2, but .* below 1; correct it or choose another family"),
        ("zero_inflated_beta", [0, 1], r"row 2: y is 1, .* below 1; .* choose ordered_beta"),
        ("ordered_beta", [0, 1, 1.5], r"row 3: y is 1\.5, .* ordered_beta it must be at most 1"),
        ("ordered_beta", [0, -0.5], r"row 2: y is -0\.5, .* ordered_beta it cannot be negative"),
        ("hurdle_gamma", [0, -0.5], r"row 2: y is -0\.5, .* hurdle_gamma it cannot be negative"),
        ("hurdle_poisson", [0, 1.5], r"row 2: y is 1\.5, .* must be a whole number"),
        ("geometric", [0, -1], r"row 2: y is -1, .* cannot be negative"),
        ("von_mises", [0, 90], r"row 2: y is 90, but .* von_mises it must be at most 3\.141592654"),
        ("von_mises", [0, -90], r"row 2: y is -90, but .* it cannot be below -3\.14159"),
        ("sratio", ["a", "b"], r"y has labels without an order, such as 'a'"),
        ("gaussian", ["a", "b", "c"], r"row 1: y is 'a', not a finite number"),
    ],
)
def test_a_response_that_a_family_lacks_is_one_sentence(family, y, message):
    with pytest.raises(DataError, match=message):
        Program.from_formula("y ~ 1", pd.DataFrame({"y": y}), family=family)


@pytest.mark.parametrize("text", [*family_names(), *OF_NEW_FAMILY])
def test_stan_draws_from_the_same_distribution(text):
    """Random numbers in Stan have the same mean and spread as in NumPy."""
    frame = table()
    program = Program.from_formula(f"{response_of(text)} ~ 1", frame, family=text)
    data = program.read(frame)
    data = replace(data, values={**data.values, "N_pointwise": len(frame)})
    bare = replace(program, python=pyflowers.programs.Capabilities(check=lambda data: []))
    fit = pyflowers.fit(bare, data, seed=1, chains=2, warmup=300, draws=300, engine="stanli")
    by_stan = fit.draws["y_rep"]
    by_numpy = program.y_rep(fit.draws, fit.data, np.random.default_rng(2))
    statistics = (
        np.mean,
        np.median,
        lambda y: np.mean(y == 0),
        lambda y: np.mean(np.log1p(abs(y))),
    )
    for statistic in statistics:
        ours, theirs = (
            np.array([statistic(row) for row in y.reshape(-1, len(frame))])
            for y in (by_numpy, by_stan)
        )
        error = np.sqrt((ours.var() + theirs.var()) / len(theirs))
        assert abs(ours.mean() - theirs.mean()) <= 5 * error, statistic


def test_a_link_is_named_with_its_family():
    family = find_family("bernoulli(probit)")
    assert (family.name, family.link, family.text) == ("bernoulli", "probit", "bernoulli(probit)")
    assert find_family(" bernoulli ( logit ) ").text == "bernoulli"
    frame = table()
    program = Program.from_formula("bit ~ x", frame, family="bernoulli(probit)")
    assert program.name == "bit_x_bernoulli_probit"
    declared = program.declaration
    assert declared.formula.family == declared.prediction.family == "bernoulli(probit)"
    assert "the bernoulli family with the probit link" in declared.story
    assert declared.equation == "bit ~ Bernoulli(m), probit m = eta, eta = Intercept + X b"
    assert "y[kept] ~ bernoulli(Phi(eta[kept]));" in program.source.text
    spec = pyflowers.Spec("bit ~ x", frame, family="bernoulli", link="probit")
    assert spec.open().source.text == program.source.text
    assert pyflowers.Spec("y ~ x", frame, link="log").open().name == "y_x_gaussian_log"
    assert pyflowers.Spec.of_call(spec, seed=1).family == "bernoulli(probit)"


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"family": "bernoulli(log)"}, "bernoulli has no link 'log'; write logit or probit or cl"),
        ({"family": "poisson", "link": "probit"}, "poisson has no link 'probit'; write log or ide"),
        ({"family": "lognormal", "link": "log"}, "no link 'log'; write identity, or choose an"),
        ({"family": "gamma(log)", "link": "inverse"}, "'gamma\\(log\\)' and link 'inverse' differ"),
        ({"family": "beta-binomial"}, "'beta-binomial' does not exist; did you mean beta_binomial"),
        ({"family": "Gamma(log)"}, "family 'Gamma' does not exist; did you mean gamma"),
        ({"family": "wald"}, "family 'wald' does not exist; did you mean inverse_gaussian"),
    ],
)
def test_a_link_that_a_family_lacks_is_one_sentence(inputs, message):
    with pytest.raises(ConfigError, match=message):
        pyflowers.Spec("y ~ x", table(), **inputs).open()


@pytest.mark.parametrize("other", _OTHER_NAMES)
def test_every_name_that_a_family_has_elsewhere_leads_to_a_family(other):
    assert other not in family_names()
    find_family(_OTHER_NAMES[other])
    with pytest.raises(ConfigError, match=f"did you mean {re.escape(_OTHER_NAMES[other])}"):
        find_family(other)


def test_no_response_comes_before_the_shift():
    family, values = find_family("shifted_lognormal"), values_of("shifted_lognormal")
    y = values["ndt"].squeeze() + np.array([-0.1, 0.0, 0.1])
    found = family.log_lik(y, np.zeros((1, 1, 3)), values)[0, 0]
    assert np.isneginf(found).tolist() == [True, True, False]


def test_the_mean_of_groups_that_differ_in_their_share_of_zeros_exists():
    """That of groups that differ in sigma does not, as it grows like exp(sigma² / 2)."""
    frame, how = table(), {"seed": 1, "engine": "stanli", "chains": 1, "warmup": 100, "draws": 50}
    formula = "with_zeros ~ x; {} ~ (1 | g)"
    fit = pyflowers.fit(formula.format("hu"), frame, family="hurdle_lognormal", **how)
    found = pyflowers.predict(fit, frame.head(2), groups="population").draws()
    assert np.isfinite(found).all()
    fit = pyflowers.fit(formula.format("sigma"), frame, family="hurdle_lognormal", **how)
    with pytest.raises(ConfigError, match=r"sigma varies between groups .* is infinite"):
        pyflowers.predict(fit, frame.head(2), groups="population").table()


@pytest.mark.parametrize("text", ["poisson(identity)", "gamma(inverse)"])
def test_a_negative_mean_has_no_density_and_no_draws(text):
    family, values = find_family(text), values_of(text)
    eta = np.array([[[0.5, -0.5]]])
    found = family.log_lik(np.array([2.0, 2.0]), eta, values)[0, 0]
    assert np.isfinite(found[0])
    assert found[1] == -np.inf
    for compute in (
        lambda: family.draw(eta, values, np.random.default_rng(1)),
        lambda: family.expected(eta, values),
    ):
        with pytest.raises(ConfigError, match=r"is -0\.5 in some draw, .* use link softplus"):
            compute()


@pytest.mark.parametrize("sd", [0.01, 0.5, 1.0, 1.999, 2.0, 3.0, 10.0, 30.0, 60.0, 1e4])
def test_the_average_of_a_probability_is_exact_for_any_spread(sd):
    """Against the trapezoidal rule on a grid of 0.02 sd or 0.02, whichever is finer."""
    eta = np.array([-40.0, -3.0, -0.2, 0.0, 1.0, 25.0])
    z = np.arange(-9, 9, 0.02 / max(sd, 1)) if sd < 100 else np.linspace(-9, 9, 2_000_001)
    weights = stats.norm.pdf(z)
    weights = weights / weights.sum()
    expected = [float(special.expit(each + sd * z) @ weights) for each in eta]
    found = average_inv_logit(eta, np.full(eta.shape, sd))
    np.testing.assert_allclose(found, expected, atol=2e-8)
    # Each draw has its own spread.
    both = average_inv_logit(np.stack([eta, eta]), np.array([[0.3], [sd]]))
    np.testing.assert_allclose(both[1], found, atol=1e-15)


@pytest.mark.parametrize("name", ["poisson", "negbinomial", "zero_inflated_poisson"])
def test_counts_of_any_size_have_their_mean(name):
    """Neither 4.85e8, which is exp(20), nor the integers of Stan or NumPy limit a count."""
    family, rng = find_family(name), np.random.default_rng(1)
    for log_rate in (5.0, 20.9, 30.0, 60.0):
        values = {"shape": np.full((1, 1, 1), 1e6), "zi": np.zeros((1, 1, 1)), "sd_eta": 0.0}
        draws = family.draw(np.full((1, 500, 2), log_rate), values, rng)
        ratio = draws / np.exp(log_rate)
        error = np.sqrt(np.exp(-log_rate) + 1e-6 * (name == "negbinomial"))
        assert abs(ratio.mean() - 1) <= 5 * error / np.sqrt(1000) + 1e-9
    assert np.isfinite(np.square(family.draw(np.full((1, 1, 1), 1e4), values, rng))).all()


def test_logs_of_logistic_probabilities_are_exact_in_both_tails():
    log_odds = np.array([-np.inf, -800.0, -40.0, -1e-9, 0.0, 0.3, 40.0, 800.0, np.inf])
    expected = -np.logaddexp(0, -log_odds)
    np.testing.assert_allclose(log_inv_logit(log_odds), expected, rtol=1e-15)
    one, other = log_inv_logits(log_odds)
    np.testing.assert_allclose(one, expected, rtol=1e-15)
    np.testing.assert_allclose(other, -np.logaddexp(0, log_odds), rtol=1e-15)
