"""PSIS-LOO against exact leave-one-out by quadrature, and against ArviZ.

log p(y[n] | the others) = log p(y) − log p(the others), a difference of two exact log evidences.
"""

import logging
import re
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from arviz_calls import COLUMNS, IS_1, elpd_of_each
from example_fits import example_fit
from scipy.stats import norm

import pyflowers
from pyflowers.analysis import elpd
from pyflowers.analysis.elpd import (
    LooComparison,
    ModelLoo,
    _log_probability,
    leave_one_group_out,
    loo,
)
from pyflowers.analysis.prior_sensitivity import sensitivity
from pyflowers.convergence import ess_mean
from pyflowers.errors import ConfigError
from pyflowers.programs import find_program, shipped_names
from pyflowers.resources import arviz

pytestmark = pytest.mark.usefixtures("in_a_shell")

PLANTS = [
    [4, 5, 6, 4, 7, 3, 5],
    [0, 2, 5, 3, 1, 2, 2],
    [8, 6, 10, 8, 11, 7, 9],
    [3, 3, 7, 2, 4, 5, 4],
]
CELLS = [(f"p{p}", t, y) for p, row in enumerate(PLANTS) for t, y in enumerate(row)]
FRAME = pd.DataFrame(CELLS, columns=["plant", "month", "flowers"])


def evidence(name, frame):
    """Return log p(y), by quadrature."""
    program = find_program(name)
    whole, _ = program.fill(program.read(frame), program.resolve_priors())
    return program.python.closed_form.exact(whole).log_evidence


@cache
def exact(name):
    """Return the exact log p(y[n] | the others) of a shipped program, for each n."""
    whole = evidence(name, FRAME)
    return np.array([whole - evidence(name, FRAME.drop(n)) for n in FRAME.index])


@cache
def exact_probability(name):
    """Return the exact log P(y[n] ± 0.5 | the others), from the exact density at eight nodes."""
    nodes, weights = np.polynomial.legendre.leggauss(8)
    found = np.full(len(FRAME), -np.inf)
    for node, weight in zip(nodes / 2, weights / 2, strict=True):
        for n in FRAME.index:
            moved = FRAME.astype({"flowers": float})
            moved.loc[n, "flowers"] += node
            term = evidence(name, moved) - evidence(name, FRAME.drop(n))
            found[n] = np.logaddexp(found[n], np.log(weight) + term)
    return found


@pytest.fixture(scope="module")
def fits(executables):
    how = {"seed": 3, "draws": 2000, "adapt_delta": 0.95, "cmdstan": "embedded"}
    return {name: pyflowers.fit(name, FRAME, **how) for name in shipped_names()}


def monte_carlo_error(fit):
    """Return the standard error of elpd, from the importance ratios 1 / p(y[n] | draw).

    The errors of the terms are added as if they were perfectly correlated, which gives the largest
    standard error.
    """
    ratios = np.exp(-fit.log_likelihood())
    error = ratios.std((0, 1)) / np.sqrt(ess_mean(ratios))
    return float((error / ratios.mean((0, 1))).sum())


# The second model's ratios have the heaviest tails (k-hat up to 0.7), because each plant has its
# own variance.
@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("iid_normal", 0.15),
        pytest.param("multilevel_normal", 0.4, marks=pytest.mark.slow),
        pytest.param("multilevel_poisson", 0.15, marks=pytest.mark.slow),
        ("semiconjugate_normal", 0.15),
    ],
)
def test_psis_loo_is_leave_one_out(fits, name, precision):
    fit, terms = fits[name], exact(name)
    (found,) = loo([fit]).models
    error = monte_carlo_error(fit)
    assert error < precision
    assert found.worst_k < found.good_k
    assert abs(found.elpd - terms.sum()) < 2 * error
    # The standard error of elpd is the standard error of a sum of N terms.
    assert found.se == pytest.approx(np.sqrt(terms.size * terms.var()), rel=0.1)
    # Negative control: if nothing is left out, the fit looks better.
    log_lik = fit.log_likelihood().reshape(-1, fit.data.num_obs)
    within = np.log(np.exp(log_lik).mean(0)).sum()
    assert within - terms.sum() > 2 * error
    assert found.p_loo == pytest.approx(within - terms.sum(), abs=2 * error)


def test_other_draws_change_elpd_by_its_monte_carlo_error():
    how = {"engine": "exact", "draws": 500}
    found = [loo([pyflowers.fit("iid_normal", FRAME, seed=seed, **how)]).best for seed in range(25)]
    spread = np.std([each.elpd for each in found], ddof=1)
    mcse = np.mean([each.mcse for each in found])
    # The sd of 25 values has a standard error of 14%; the Monte Carlo error, which depends on a
    # small tail, is less precise.
    assert 0.65 < spread / mcse < 1.5
    # Negative control: the Monte Carlo error differs from the standard error, and falls with the
    # number of draws.
    assert found[0].se > 5 * mcse
    assert loo([pyflowers.fit("iid_normal", FRAME, seed=1, engine="exact")]).best.mcse < (
        0.75 * mcse
    )


@pytest.mark.slow
def test_the_difference_of_two_models_is_the_exact_one(fits):
    first, second = "multilevel_poisson", "iid_normal"
    comparison = loo([fits[second], fits[first]])
    assert [model.name for model in comparison.models] == [first, second]
    assert comparison.rounded == (second,)
    assert comparison.cautions[0].startswith("The elpd of iid_normal is computed from prob")
    apart = exact_probability(second) - exact(first)
    error = monte_carlo_error(fits[first]) + monte_carlo_error(fits[second])
    worse = comparison.models[1]
    assert comparison.best.difference == 0
    assert abs(worse.difference - apart.sum()) < 2 * error
    assert worse.difference_se == pytest.approx(np.sqrt(apart.size * apart.var()), rel=0.1)


def test_one_posterior_under_two_names_predicts_alike(fits):
    one, other = loo([fits["iid_normal"], fits["semiconjugate_normal"]]).models
    assert other.difference == pytest.approx(0, abs=1e-6)
    assert one.elpd == pytest.approx(other.elpd)


def test_counts_that_are_all_zero_are_compared_and_checked():
    """Rates underflow to 0, which must not lead to infinite or missing values, or to warnings."""
    frame = FRAME[:6].assign(plant=list("aabbcc"), flowers=0)
    fit = pyflowers.fit("multilevel_poisson", frame, seed=1, engine="exact")
    assert (fit.draws["mu_plant"] == 0).any()
    assert np.isfinite(fit.log_likelihood()).all()
    (found,) = loo([fit], refit=True).models
    assert np.isfinite(found.k_hat).all()
    assert np.all((found.terms > -0.01) & (found.terms < 0))
    assert np.isfinite(leave_one_group_out([fit]).best.terms).all()
    checks = pyflowers.check(fit)
    assert checks.passed
    assert np.isfinite(checks.table().loc["group_outlier", ["observed", "median", "95%"]]).all()
    notes = sensitivity(fit).notes
    assert not [note for note in notes if "not finite" in note]


OWN = """
data {
  int N;
  vector[N] y;
}
parameters {
  real mu;
  real<lower=0> sigma2;
}
model {
  mu ~ normal(0, 100);
  sigma2 ~ scaled_inv_chi_square(1, 2);
  y ~ normal(mu, sqrt(sigma2));
}
generated quantities {
  vector[N] log_lik;
  for (n in 1 : N) {
    log_lik[n] = normal_lpdf(y[n] | mu, sqrt(sigma2));
  }
}
"""


def test_a_program_of_ones_own_is_compared_with_those_that_ship(own_program, fits):
    """The user program is iid_normal again, with its likelihood in Stan."""
    program = own_program("mine", OWN, '[data]\ny = { column = "flowers" }')
    mine = pyflowers.fit(program, FRAME, seed=4, draws=2000, cmdstan="embedded")
    normal = [fit for fit in fits.values() if not fit.program.counts]
    found = {model.name: model for model in loo([mine, *normal]).models}
    with pytest.raises(ConfigError, match="mine, which is computed in Stan, cannot be integrated"):
        loo([mine, *fits.values()])
    error = monte_carlo_error(mine)
    assert abs(found["mine"].elpd - exact("iid_normal").sum()) < 2 * error


def test_what_cannot_be_compared_is_refused(own_program, fits):
    fit = fits["iid_normal"]
    bare = own_program("bare", OWN[: OWN.index("generated")], '[data]\ny = { column = "flowers" }')
    how = {"seed": 1, "draws": 50, "warmup": 100, "cmdstan": "embedded"}
    with pytest.raises(
        ConfigError, match=r"bare has no log_lik, which is needed for PSIS-LOO .* declare vector"
    ):
        loo([fit, pyflowers.fit(bare, FRAME, **how)])
    other = pyflowers.fit("multilevel_poisson", FRAME.assign(flowers=FRAME.flowers + 1), **how)
    with pytest.raises(ConfigError, match="were fitted to different data"):
        loo([fit, other])
    shifted = pyflowers.fit("multilevel_poisson", FRAME.iloc[1:], **how)
    with pytest.raises(ConfigError, match=r"were fitted to different data \(27 and 28 rows\)"):
        loo([fit, shifted])
    fewer = pyflowers.fit("multilevel_poisson", FRAME.iloc[:-1], **how)
    with pytest.raises(ConfigError, match="28 rows, but only 27 of them are used by all models"):
        leave_one_group_out([fit, fewer])
    with pytest.raises(ConfigError, match="multilevel_poisson gives probabilities and iid_normal"):
        leave_one_group_out([fit, fits["multilevel_poisson"]])
    with pytest.raises(ConfigError, match="loo: two fits have the name "):
        loo([fit, fit])
    with pytest.raises(ConfigError, match="no fit to compare"):
        loo([])


def test_models_whose_rows_differ_are_compared_on_those_that_all_have(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["y", "x", "z"])
    frame["y"] += frame.x
    frame.loc[::7, "x"] = np.nan
    frame.loc[::5, "z"] = np.nan
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    how = {"seed": 1, "engine": "stanli", "chains": 2, "drop_missing": True}
    made = [pyflowers.fit(f"y ~ {column}", path, **how) for column in ("x", "z")]
    for i, each in enumerate(made):
        each.save(tmp_path / str(i))
    saved = [pyflowers.Fit.load(tmp_path / str(i)) for i in range(2)]
    for fits in (made, saved):
        found = loo(fits)
        assert found.num_obs == frame.dropna().shape[0] == 41
        assert found.num_fitted == {"Model 1": 51, "Model 2": 48}
        assert found.cautions[0].startswith("The models are compared on the 41 rows that all of")
        for name, fit, column in zip(found.num_fitted, fits, ("x", "z"), strict=True):
            (its,) = (m for m in found.models if m.name == name)
            (alone,) = loo(fit).models
            there = frame.dropna(subset=[column]).index.isin(frame.dropna().index)
            np.testing.assert_array_equal(its.terms, alone.terms[there])
    assert not loo(made[0]).cautions


def test_a_users_log_lik_is_compared(executables):
    """Each pump has a single row; without it only the population informs the pump's rate."""
    fit = example_fit("pumps")
    (found,) = loo([fit]).models
    within = np.log(np.exp(fit.draws["log_lik"]).mean((0, 1))).sum()
    assert found.name == "pumps"
    assert found.elpd < within - 2
    assert found.p_loo == pytest.approx(within - found.elpd)
    assert found.num_bad > 3


def test_it_agrees_with_arviz(lecture_fits):
    # ArviZ compares densities with probabilities.
    lecture_fits = {name: its for name, its in lecture_fits.items() if not its.program.counts}
    comparison = loo(list(lecture_fits.values()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exactly = {"round_to": "none"} if IS_1 else {}
        idata = {name: fit.idata for name, fit in lecture_fits.items()}
        expected = arviz().compare(idata, **exactly)
    assert [model.name for model in comparison.models] == list(expected.index)
    for model in comparison.models:
        row = expected.loc[model.name]
        near = {"rel": 1e-3 if IS_1 else 1e-6}
        assert model.elpd == pytest.approx(row[COLUMNS["elpd"]], **near)
        divisor = np.sqrt(11 / 12)  # ArviZ divides by N - 1 only in `se`, and only since version 1
        assert model.se * (1.0 if IS_1 else divisor) == pytest.approx(row["se"], **near)
        assert abs(model.difference) == pytest.approx(abs(row[COLUMNS["difference"]]), **near)
        assert model.difference_se * divisor == pytest.approx(row["dse"], **near)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pointwise = arviz().loo(lecture_fits[model.name].idata, pointwise=True)
        terms, k_hat = elpd_of_each(pointwise), pointwise.pareto_k.values.ravel()
        # In ArviZ 1 the tail may have one ratio more, or one fewer, than ours.
        assert model.terms == pytest.approx(terms, rel=1e-3 if IS_1 else 1e-10)
        assert model.k_hat == pytest.approx(k_hat, rel=1e-9, abs=0.05 if IS_1 else 1e-10)
        assert model.good_k == pointwise.good_k


def model(name, difference, k_hat=0.1, **changed):
    none = np.empty(0, dtype=int)
    about = {
        "name": name,
        "elpd": -10 + difference,
        "se": 1.0,
        "mcse": 0.1,
        "p_loo": 2.0,
        "p_loo_se": 0.1,
        "num_parameters": 3,
        "difference": difference,
        "difference_se": 1.0,
        "k_hat": np.array([k_hat, 0.2]),
        "good_k": 0.7,
        "terms": np.full(2, (-10 + difference) / 2),
        "refitted": none,
        "failed": (),
        "no_refit": "",
        "weight": 1.0,
        "passed": True,
    }
    return ModelLoo(**{**about, **changed})


FEW = "b: a large k-hat in a model with few parameters, here 3, points to outliers"


@pytest.mark.parametrize(
    ("models", "num_obs", "words"),
    [
        ([model("a", 0), model("b", -9)], 12, ["12 observations are too few for a reliable"]),
        ([model("a", 0), model("b", -9)], 100, []),
        ([model("a", 0), model("b", -3)], 500, ["The difference from b is below 4"]),
        (
            [model("a", 0), model("b", -9, mcse=5.0)],
            500,
            ["The difference from b is within its Monte Carlo error"],
        ),
        (
            [model("a", 0), model("b", -9, passed=False)],
            500,
            ["b: the fit failed its diagnostics, so its elpd cannot be trusted"],
        ),
        # A missing Monte Carlo error raises no caution.
        ([model("a", 0), model("b", -9, mcse=np.nan)], 500, []),
        (
            [model("a", 0), model("b", -9, k_hat=0.8)],
            500,
            [
                "b: k-hat of 1 of 500 observations is above 0.70, so the model's elpd is likely "
                r"too high; pyflowers loo --refit refits the model without each of them \(1 refit, "
                r"about 1 second\)\. This concerns LOO only, not estimates and effects\.$",
                FEW,
            ],
        ),
        (
            [model("b", 0, k_hat=0.8, no_refit="b has no held_out: declare it")],
            500,
            ["b: k-hat of 1 of 500 observations is above 0.70, .*; b has no held_out: decl", FEW],
        ),
        (
            [model("b", 0, k_hat=0.8, refitted=np.array([0]), failed=("row 2",))],
            500,
            [r"b: 1 of 1 refits failed their diagnostics \(without row 2\); refits", FEW],
        ),
        (
            [model("b", 0, k_hat=0.8, refitted=np.array([0]))],
            12,
            ["b: with 3 parameters and 12 observations, a few large k-hats are expected"],
        ),
        (
            [model("a", 0), model("b", -9, 0.9, num_parameters=33, num_integrated=30)],
            100,
            [
                "b: k-hat of 1",
                "b: .*here 3 in addition to the effects that are integrated out, points to",
            ],
        ),
        (
            [model("a", 0, p_loo=3.4)],
            12,
            ["a: p_loo 3.4.* is above the model's number of parameters, 3, so"],
        ),
        # p_loo exceeds the number of parameters by less than two standard errors, which is common
        # for good models.
        ([model("a", 0, p_loo=3.1)], 12, []),
        ([model("a", 0)], 12, []),
    ],
)
def test_cautions(models, num_obs, words):
    cautions = LooComparison(tuple(models), num_obs, {m.name: num_obs for m in models}).cautions
    assert len(cautions) == len(words)
    for caution, expected in zip(cautions, words, strict=True):
        assert re.match(expected, caution)


def test_a_log_lik_that_is_not_finite_is_refused():
    fit = example_fit("pumps")
    log_lik = fit.draws["log_lik"].copy()
    log_lik[0, 3, 2] = -np.inf
    broken = replace(fit, draws={**fit.draws, "log_lik": log_lik})
    with pytest.raises(ConfigError, match=r"log_lik of pumps is not finite in 1 of .*, first for "):
        loo([broken])


def test_densities_and_probabilities_are_compared_on_one_scale():
    """Six ones in 200 rows: the normal density reaches e, and would win by 88."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=200), "y": 0})
    frame.loc[np.argsort(frame.x + rng.logistic(size=200))[-6:], "y"] = 1
    how = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 500, "draws": 300}
    normal, binary = (
        pyflowers.fit("y ~ x", frame, family=family, **how) for family in ("gaussian", "bernoulli")
    )
    found = loo([normal, binary])
    assert [model.name for model in found.models] == ["bernoulli", "gaussian"]
    assert found.rounded == ("gaussian",)
    assert (found.models[1].terms < 0).all()
    assert found.table()["weight"].iloc[0] > 0.9
    alone = loo([normal])
    assert alone.best.elpd > 0
    assert alone.rounded == ()
    # The probabilities are those of the normal distribution, even if it is narrow.
    eta = normal.draws["Intercept"][..., None] + normal.draws["b"] * frame.x.to_numpy()
    for sigma in (normal.draws["sigma"], np.full_like(normal.draws["sigma"], 0.02)):
        drawn = replace(normal, draws={**normal.draws, "sigma": sigma})
        scale = sigma[..., None]
        at = frame.y.to_numpy()
        expected = norm.cdf(at + 0.5, eta, scale) - norm.cdf(at - 0.5, eta, scale)
        found = np.exp(_log_probability(drawn, np.arange(200)))
        np.testing.assert_allclose(found, expected, atol=0.002 if sigma[0, 0] < 0.1 else 1e-9)


def test_loo_of_many_values_is_that_of_all_draws(monkeypatch):
    """Rows are read in blocks, so that no number of rows is too large, and no draw is left out."""
    frame = pd.DataFrame({"y": np.random.default_rng(1).normal(size=40)})
    fit = pyflowers.fit("y ~ 1", frame, seed=1, engine="stanli", draws=100)
    whole = loo(fit).best
    monkeypatch.setattr(elpd, "_MOST_VALUES", 400 * 7)
    parts = loo(fit).best
    np.testing.assert_array_equal(parts.terms, whole.terms)
    assert parts.mcse == pytest.approx(whole.mcse, nan_ok=True)


def test_refits_are_announced_with_their_number_and_time(caplog):
    frame = FRAME.copy()
    frame.loc[0, "flowers"] = 24
    how = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 300, "draws": 300}
    fit = pyflowers.fit("flowers ~ 1 + (1 | plant)", frame, family="poisson", **how)
    without = loo(fit)
    num = without.models[0].num_bad
    assert num > 0
    caution = next(each for each in without.cautions if "--refit" in each)
    expected = rf"pyflowers loo --refit refits .* \({num} refits?, about \d+ seconds?\)"
    assert re.search(expected, caution)
    with caplog.at_level(logging.INFO, logger="pyflowers"):
        assert loo(fit, refit=True).models[0].num_bad == 0
    assert re.match(
        rf"{num} refits? of {re.escape(fit.called)}, about \d+ seconds?", caplog.messages[0]
    )
