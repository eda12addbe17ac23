"""Densities of left-out observations with effects integrated out; LOO and LOGO by them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from mixed_models import table
from scipy import stats
from scipy.special import logsumexp

import pyflowers
from pyflowers.analysis import elpd
from pyflowers.analysis.refits import HeldOutDensity
from pyflowers.engines.integrated import method_of
from pyflowers.engines.integrated.evidence import lattice_integral
from pyflowers.engines.integrated.gaussian import GaussianModel
from pyflowers.engines.integrated.held_out import integrating
from pyflowers.engines.integrated.importance import approximated, weighted_points
from pyflowers.fits.fit import held_out_weights
from pyflowers.programs import Data

QUICK = {"seed": 1, "engine": "exact", "chains": 2, "draws": 20}


def densities(fit):
    """Return the densities of a fit, with what is integrated out and the linear predictor."""
    found = integrating(fit.program, fit.data, fit.draws)
    eta = fit.model.predictor(fit.draws).linear()
    for its in found.effects:
        codes, columns = its.codes[found.linear.rows], its.columns[found.linear.rows]
        effects = fit.draws[its.name][:, :, codes].reshape(*eta.shape, -1)
        eta = eta - np.sum(columns * effects, axis=-1)
    return found, eta


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("y ~ x + (1 | g) + (1 | h)", "gaussian"),
        ("y ~ x + (x | g)", "gaussian"),
        ("y ~ x + (x || g) + (1 | h)", "gaussian"),
        ("y ~ x + (1 | g) + (0 + z | g)", "gaussian"),
        ("y ~ x + (1 | g); sigma ~ z", "gaussian"),
        ("size ~ x + (1 | g)", "lognormal"),
    ],
)
def test_normal_densities_are_those_of_dense_normal_distributions(formula, family):
    frame = table(30).assign(size=lambda d: np.exp(d.y / 4))
    fit = pyflowers.fit(formula, frame, family=family, **QUICK)
    found, eta = densities(fit)
    codes, gap = found.effects[0].codes, fit.data.y - eta
    jacobian = np.zeros(30)
    if family == "lognormal":
        gap, jacobian = np.log(fit.data.y) - eta, -np.log(fit.data.y)
    rows, labels = found.of_rows(), found.of_labels(codes)
    for chain, draw in ((0, 3), (1, 7)):
        here = {name: its[chain, draw] for name, its in fit.draws.items()}
        sigma = fit.model.predictor(fit.draws).parameter("sigma")
        sigma = np.broadcast_to(sigma, eta.shape)[chain, draw]
        covariance = np.diag(sigma**2)
        for its in found.effects:
            of_effects = np.diag(np.ravel(here[its.sd.name]) ** 2)
            if its.correlations:
                pair = here[its.correlations][0] * np.prod(here[its.sd.name])
                of_effects += pair * (1 - np.eye(2))
            same = codes[:, None] == codes
            covariance += same * (its.columns @ of_effects @ its.columns.T)
        for code in np.unique(codes):
            at = np.flatnonzero(codes == code)
            own = gap[chain, draw, at]
            whole = stats.multivariate_normal(cov=covariance[np.ix_(at, at)])
            expected = whole.logpdf(own) + jacobian[at].sum()
            assert labels[chain, draw, code] == pytest.approx(expected, abs=1e-8)
            for place, row in enumerate(at):
                rest, others = np.delete(at, place), np.delete(own, place)
                without = 0.0
                if len(rest):
                    without = stats.multivariate_normal(cov=covariance[np.ix_(rest, rest)])
                    without = without.logpdf(others) + jacobian[rest].sum()
                assert rows[chain, draw, row] == pytest.approx(expected - without, abs=1e-8)


def of_counts(sizes=(1, 2, 6, 30), seed=3):
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    x = rng.normal(size=len(codes))
    n = rng.poisson(np.exp(1 + 0.4 * x + rng.normal(0, 0.7, len(sizes))[codes]))
    lost, g = rng.random(len(x)) < 0.3, [f"g{c}" for c in codes]
    return pd.DataFrame({"n": n, "k": np.minimum(n, 4), "x": x, "g": g, "lost": lost})


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("n ~ x + (1 | g)", "poisson"),
        ("n ~ x + (0 + x | g)", "negbinomial"),
        ("k | trials(4) ~ x + (1 | g)", "binomial"),
        ("n ~ (1 | g)", "poisson"),  # whose rows are added up
        ("k ~ x + (1 | g)", "cumulative"),
        ("n | cens(lost) ~ x + (1 | g)", "poisson"),
        ("x | cens(lost) ~ (1 | g)", "gaussian"),
    ],
)
def test_other_densities_are_those_of_quadrature(formula, family):
    frame = of_counts()
    if family == "cumulative":
        frame["k"] += 1
    fit = pyflowers.fit(formula, frame, family=family, **QUICK)
    found, eta = densities(fit)
    (effect,) = found.effects
    codes, z = (its[found.linear.rows] for its in (effect.codes, effect.columns[:, 0]))
    rows, labels = found.of_rows(), found.of_labels(codes)
    chain, draw = 1, 7
    sd = float(np.ravel(fit.draws[effect.sd.name][chain, draw])[0])

    some = {name: its[chain : chain + 1, draw : draw + 1] for name, its in fit.draws.items()}
    u = np.linspace(-8 * sd, 8 * sd, 4_001)

    def log_integral(at):
        if not len(at):
            return 0.0
        model = fit.model.at(at)
        its = eta[chain, draw, at] + z[at] * u[:, None]
        own = model.predictor(some).parameters
        heights = model.family.log_lik(model.data.y, its[None], own)[0].sum(axis=1)
        return logsumexp(heights + stats.norm.logpdf(u, 0, sd)) + np.log(u[1] - u[0])

    for code in np.unique(codes):
        at = np.flatnonzero(codes == code)
        whole = log_integral(at)
        assert labels[chain, draw, code] == pytest.approx(whole, abs=1e-3)
        for place in range(0, len(at), 5):
            expected = whole - log_integral(np.delete(at, place))
            assert rows[chain, draw, at[place]] == pytest.approx(expected, abs=3e-3)


def of_rows(num=30, seed=2):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=num)
    n = rng.poisson(np.exp(2 + 0.5 * x + rng.normal(0, 0.8, num)))
    return pd.DataFrame({"n": n, "x": x, "row": [f"r{i}" for i in range(num)]})


def test_labels_of_one_row_have_small_k_hats(monkeypatch):
    how = {"family": "poisson", "seed": 1, "engine": "exact"}
    fit = pyflowers.fit("n ~ x + (1 | row)", of_rows(), **how)
    found: Any = pyflowers.loo(fit).best
    assert found.worst_k < found.good_k
    assert found.num_bad == 0
    assert found.num_integrated == 30
    assert found.num_parameters - 30 == 3  # Intercept, b and sd
    # Given the effects, it is large.
    monkeypatch.setattr(elpd, "_integrated", lambda fit: None)
    given_effects: Any = pyflowers.loo(fit).best
    assert given_effects.num_bad > 5


def test_only_groups_with_a_large_k_hat_are_refitted(monkeypatch):
    fit = pyflowers.fit("y ~ x + (1 | g)", table(), seed=1, engine="exact")
    refits, k_hats = [], []

    def refitted(fit, sets, **_):
        refits.append(len(sets))
        return [HeldOutDensity(rows, -9.0, 0.1, passed=True) for rows in sets]

    def seen(fit, log_lik):
        log_weights, k_hat = held_out_weights(fit, log_lik)
        k_hats.append(k_hat)
        return log_weights, k_hat

    monkeypatch.setattr(elpd, "predict_held_out", refitted)
    monkeypatch.setattr(elpd, "held_out_weights", seen)
    found = pyflowers.leave_one_group_out([fit], column="g")
    assert refits == [0]
    assert found.table()["refits"].tolist() == [0]
    between = float(np.mean(np.sort(k_hats[-1])[-2:]))  # below the largest k-hat only
    monkeypatch.setattr(elpd, "good_k", lambda num: between)
    again: Any = pyflowers.leave_one_group_out([fit], column="g").best
    assert refits == [0, 1]
    assert np.sum(again.terms == -9.0) == again.num_refits == 1


def other_responses(num):
    """Return a table with a positive response and one of 0 and 1."""
    frame = table(num, seed=3)
    return frame.assign(size=np.exp(frame.y / 3), is_large=(frame.y > frame.y.median()) * 1)


def log_evidence(linear, data, row):
    """Return log p(y), or that of all observations but one.

    It is from a lattice if densities cost little, and otherwise from 60,000 weighted points.
    """
    values = dict(data.values)
    if row is not None:
        values["held_out"] = np.arange(data.num_obs) == row
    method = method_of(linear(Data(values, declaration=data.declaration)), "test")
    stretch, log_density, first = approximated(
        method.log_density, method.start, method.coordinates.slow_sides
    )
    method.prepare(stretch, first)
    if isinstance(method, GaussianModel):
        centre, axes = stretch(first.centre[None])[0][0], stretch.spread[:, None] * first.axes
        return lattice_integral(method.log_density, centre, axes, 1_000_000)[0]
    return weighted_points(log_density, first, 60_000, np.random.default_rng(1)).log_mean


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formula", "family", "frame", "num_bad"),
    [
        ("y ~ x + (1 | h)", "gaussian", table(15, seed=3), 0),
        ("n ~ 1 + (1 | row)", "poisson", of_rows(8), 0),
        ("size ~ 1 + (1 | h)", "gamma", other_responses(15), 0),
        ("is_large ~ 1 + (1 | h)", "bernoulli", other_responses(16), 0),
        ("size | cens(is_large) ~ 1 + (1 | h)", "lognormal", other_responses(15), 0),
        # A row far from the others, whose elpd is 0.16 too high: its k-hat says so.
        ("y ~ x + (1 | g)", "gaussian", table(20), 1),
    ],
)
def test_loo_is_the_ratio_of_evidences(formula, family, frame, num_bad):
    fit = pyflowers.fit(formula, frame, family=family, seed=1, engine="exact", draws=10_000)
    model: Any = pyflowers.loo(fit, refit=False).best
    linear, data = fit.program.python.linear, fit.data
    whole = log_evidence(linear, data, None)
    expected = np.array([whole - log_evidence(linear, data, row) for row in range(len(frame))])
    good = model.k_hat <= model.good_k
    assert model.num_bad == np.sum(~good) == num_bad
    assert np.abs(model.terms - expected)[good].max() < 0.05
    assert model.terms[good].sum() == pytest.approx(expected[good].sum(), abs=0.05)


@pytest.mark.slow
def test_groups_left_out_are_predicted_as_by_refits(monkeypatch):
    fit = pyflowers.fit("y ~ x + (1 | g)", table(60), seed=1, engine="exact")
    found = pyflowers.leave_one_group_out([fit]).best
    monkeypatch.setattr(elpd, "_integrated", lambda fit: None)
    again: Any = pyflowers.leave_one_group_out([fit]).best
    assert again.num_refits == 8
    assert np.abs(found.terms - again.terms).max() < 4 * np.hypot(found.mcse, again.mcse).max()


def test_effects_with_a_known_covariance_are_not_integrated_out():
    """Their labels are not independent, whichever group has the most labels."""
    frame = table(60)
    labels = sorted(frame.g.unique())
    assert len(labels) > frame.h.nunique()
    known = {"A": pd.DataFrame(np.eye(len(labels)) + 0.3, index=labels, columns=labels)}
    both = pyflowers.fit("y ~ x + (x | gr(g, cov = A)) + (1 | h)", frame, known=known, **QUICK)
    found = integrating(both.program, both.data, both.draws)
    assert [its.name for its in found.effects] == ["r_h"]
    alone = pyflowers.fit("y ~ x + (x | gr(g, cov = A))", frame, known=known, **QUICK)
    assert integrating(alone.program, alone.data, alone.draws) is None
