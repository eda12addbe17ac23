"""The density, random numbers and mean of each family agree; a new family is one file."""

import ast
import importlib
import inspect
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import pyflowers
from pyflowers import Program
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs import families
from pyflowers.programs.families import average_inv_logit, family_names, find_family

VALUES = {
    "sigma": 0.7,
    "nu": 4.0,
    "shape": 2.5,
    "phi": 6.0,
    "zi": 0.3,
    "trials": np.array([7.0]),
}
THRESHOLDS = np.array([-1.0, 0.2, 1.4])
ETA = 0.4


def values_of(family):
    found = {name: np.full((1, 1, 1), value) for name, value in VALUES.items() if name != "trials"}
    if family.is_ordinal:
        found["threshold"] = THRESHOLDS[None, None, :, None]
    scores = np.arange(1.0, len(THRESHOLDS) + 2)
    return {**found, "trials": VALUES["trials"], "scores": scores, "sd_eta": 0.0}


def scipy_logpdf(name, y):
    """Return log p(y | eta) by SciPy."""
    rate, p = np.exp(ETA), 1 / (1 + np.exp(-ETA))
    negbinomial = stats.nbinom(VALUES["shape"], VALUES["shape"] / (VALUES["shape"] + rate))
    zero, zi = y == 0, VALUES["zi"]
    logistic = stats.logistic.cdf(np.concatenate([[-np.inf], THRESHOLDS, [np.inf]]) - ETA)
    by_name = {
        "gaussian": lambda: stats.norm.logpdf(y, ETA, VALUES["sigma"]),
        "student": lambda: stats.t.logpdf(y, VALUES["nu"], ETA, VALUES["sigma"]),
        "lognormal": lambda: stats.lognorm.logpdf(y, VALUES["sigma"], scale=rate),
        "gamma": lambda: stats.gamma.logpdf(y, VALUES["shape"], scale=rate / VALUES["shape"]),
        "beta": lambda: stats.beta.logpdf(y, p * VALUES["phi"], (1 - p) * VALUES["phi"]),
        "bernoulli": lambda: stats.bernoulli.logpmf(y, p),
        "binomial": lambda: stats.binom.logpmf(y, 7, p),
        "poisson": lambda: stats.poisson.logpmf(y, rate),
        "negbinomial": lambda: negbinomial.logpmf(y),
        "zero_inflated_poisson": lambda: np.log(zi * zero + (1 - zi) * stats.poisson.pmf(y, rate)),
        "zero_inflated_negbinomial": lambda: np.log(zi * zero + (1 - zi) * negbinomial.pmf(y)),
        "cumulative": lambda: np.log(np.diff(logistic)[y.astype(int) - 1]),
    }
    return by_name[name]()


@pytest.mark.parametrize("name", family_names())
def test_density_draws_and_mean_agree(name):
    family = find_family(name)
    rng = np.random.default_rng(1)
    num = 40_000
    draws = family.draw(np.full((1, 1, num), ETA), values_of(family), rng)[0, 0]
    y = draws[:50]
    ours = family.log_lik(y, np.full((1, 1, 50), ETA), values_of(family))[0, 0]
    np.testing.assert_allclose(ours, scipy_logpdf(name, y), rtol=1e-9, atol=1e-9)
    mean = float(family.mean(np.full((1, 1, 1), ETA), values_of(family)).ravel()[0])
    error = draws.std() / np.sqrt(num)
    assert abs(draws.mean() - mean) < 5 * error
    assert abs(draws.mean() - 1.05 * mean) > 5 * error or name == "student"  # the check can fail
    if family.is_discrete:
        assert (draws == np.floor(draws)).all()


def test_a_thirteenth_family_is_one_file(tmp_path, monkeypatch):
    """The new family is Weibull, with a parameter and a prior that no other family has."""
    (tmp_path / "weibull.py").write_text(
        '''
"""The Weibull family, with scale exp(eta)."""
import numpy as np
from scipy.stats import weibull_min
from pyflowers.programs.families import Auxiliary, Family

FAMILY = Family(
    name="weibull",
    equation="{y} ~ Weibull(alpha, exp(eta))",
    link="log",
    response="vector<lower=0>[N]",
    stan="weibull(alpha, exp({eta}))",
    rng="weibull_rng(alpha, exp({eta}))",
    log_lik=lambda y, eta, values: weibull_min.logpdf(y, values["alpha"], scale=np.exp(eta)),
    draw=lambda eta, values, rng: np.exp(eta) * rng.weibull(values["alpha"], eta.shape),
    mean=lambda eta, values: weibull_min.mean(values["alpha"], scale=np.exp(eta)),
    moments=lambda eta, values: weibull_min.stats(values["alpha"], scale=np.exp(eta)),
    auxiliary=(
        Auxiliary("alpha", "real<lower=0>", "lognormal({m}, {s})", {"m": 0, "s": 0.5}, "shape"),
    ),
    scale="log",
    is_positive=True,
)
'''
    )
    monkeypatch.setattr(families, "__path__", [*families.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    assert "weibull" in family_names()
    rng = np.random.default_rng(1)
    # The group has the same name as the parameter, so the program must rename one of them.
    frame = pd.DataFrame({"alpha": np.repeat(list("abcdef"), 30), "x": rng.normal(size=180)})
    frame["y"] = np.exp(1 + 0.5 * frame.x) * rng.weibull(2, 180)
    how = {"seed": 1, "engine": "stanli"}
    fit = pyflowers.fit("y ~ x + (1 | alpha)", frame, family="weibull", draws=300, **how)
    summary = fit.summary()
    for name, true in {"Intercept": 1, "b[x]": 0.5, "alpha": 2}.items():
        assert abs(summary["median"][name] - true) < 4 * summary["sd"][name]
    in_stan = fit.draws["lprior"] + fit.log_likelihood().sum(axis=-1)
    assert np.isfinite(in_stan).all()
    assert pyflowers.check(fit).passed
    mean = pyflowers.effects(fit, "x").table()
    assert (mean["median"] > 0).all()
    prior = pyflowers.prior(fit.program, frame, draws=4000, seed=1)
    assert abs(np.median(prior.draws["alpha"]) - 1) < 0.05


@pytest.mark.parametrize("name", family_names())
def test_a_family_has_at_most_fifty_lines_of_code(name):
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
    assert len(code) <= 50


def test_an_unknown_family_is_one_sentence():
    frame = pd.DataFrame({"y": [1, 2, 3]})
    with pytest.raises(ConfigError, match="family 'poison' does not exist; did you"):
        Program.from_formula("y ~ 1", frame, family="poison")
    with pytest.raises(ConfigError, match="choose one of bernoulli, beta, binomial"):
        Program.from_formula("y ~ 1", frame, family="xyz")


@pytest.mark.parametrize(
    ("family", "y", "message"),
    [
        ("poisson", [1, -2, 3], r"row 2: y is -2, but for family poisson it cannot be negative"),
        ("poisson", [1, 2.5, 3], r"row 2: y is 2\.5, but .* it must be a whole number"),
        ("bernoulli", [0, 1, 2], r"row 3: y is 2, but for family bernoulli it must be 0 or 1"),
        ("gamma", [1, 0, 3], r"row 2: y is 0, but for family gamma it must be above 0"),
        ("beta", [0.1, 1, 0.3], r"row 2: y is 1, but for family beta it must be below 1"),
        ("gaussian", ["a", "b", "c"], r"row 1: y is 'a', not a finite number"),
    ],
)
def test_a_response_that_a_family_lacks_is_one_sentence(family, y, message):
    with pytest.raises(DataError, match=message):
        Program.from_formula("y ~ 1", pd.DataFrame({"y": y}), family=family)


def test_stan_draws_from_the_same_distribution():
    """For each family, random numbers in Stan have the same mean and spread as in NumPy."""
    frame = pd.DataFrame({"y": np.tile([1.0, 2.0, 1.0, 3.0], 30), "n": 9, "p": 0.4})
    for name in family_names():
        family = find_family(name)
        response = "p" if name == "beta" else "y | trials(n)" if family.has_trials else "y"
        table = frame.assign(y=frame["y"] % 2) if name == "bernoulli" else frame
        program = Program.from_formula(f"{response} ~ 1", table, family=name)
        data = program.read(table)
        data = replace(data, values={**data.values, "N_pointwise": len(table)})
        bare = replace(program, python=pyflowers.programs.Capabilities(check=lambda data: []))
        fit = pyflowers.fit(bare, data, seed=1, chains=2, draws=300, engine="stanli")
        by_stan = fit.draws["y_rep"]
        by_numpy = program.y_rep(fit.draws, fit.data, np.random.default_rng(2))
        for statistic in (np.mean, lambda values: np.mean(np.log1p(np.abs(values)))):
            ours, theirs = statistic(by_numpy), statistic(by_stan)
            per_draw = np.array([statistic(row) for row in by_stan.reshape(-1, len(table))])
            assert abs(ours - theirs) < 6 * per_draw.std() / np.sqrt(len(per_draw)), name


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
