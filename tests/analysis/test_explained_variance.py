"""R², LOO-R² and the shares of groups against their definitions, from the same draws."""

import json
from dataclasses import replace

import numpy as np
import pytest
from command_line import run
from row_fits import FRAME, b, fit_of
from scipy.special import expit

import pyflowers
from pyflowers.analysis import explained_variance
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import held_out_weights
from pyflowers.reports import render_report

X = FRAME.x.to_numpy()
SITE = "(1 | site)"


def close(found, expected, rtol=1e-10):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-12)


def in_one_line(found):
    """Return what is printed of a result, without line breaks."""
    return " ".join(str(found).split())


def shares(fit):
    return pyflowers.explained(fit).shares[fit.called]


def variance(values):
    return values.var(axis=-1, ddof=1)


def fixed(fit):
    return fit.draws["Intercept"][..., None] + b(fit, "x") * X


def site_of(fit):
    sites = list(dict.fromkeys(FRAME.site))
    return fit.draws["r_site"][:, :, [sites.index(each) for each in FRAME.site]]


def sd_of(fit):
    return fit.draws["sd_site"].reshape(2, 100)


def test_a_normal_model_with_groups():
    fit = fit_of(f"y ~ x + {SITE}")
    found, eta, sigma2 = shares(fit), fixed(fit), np.square(fit.draws["sigma"])
    every, between = eta + site_of(fit), np.square(sd_of(fit))
    close(found["R2", "conditional"], variance(every) / (variance(every) + sigma2))
    close(found["R2", "marginal"], variance(eta) / (variance(eta) + between + sigma2))
    e = FRAME.y.to_numpy() - every
    close(found["R2", "residuals"], variance(every) / (variance(every) + variance(e)))
    icc = between / (between + sigma2)
    close(found["ICC", "site, scale of the link"], icc)
    close(found["ICC", "all groups, scale of the response"], icc)


def test_slopes_that_vary_share_their_average_variance():
    fit = fit_of("y ~ x + (x | site)")
    sd, cor = fit.draws["sd_site"], fit.draws["cor_site"].reshape(2, 100)
    own = np.square(sd[..., 0])[..., None] + np.square(sd[..., 1])[..., None] * X**2
    own = own + 2 * (cor * sd[..., 0] * sd[..., 1])[..., None] * X
    between, sigma2 = own.mean(axis=2), np.square(fit.draws["sigma"])
    found, eta = shares(fit), fixed(fit)
    close(found["ICC", "site, scale of the link"], between / (between + sigma2))
    close(found["R2", "marginal"], variance(eta) / (variance(eta) + between + sigma2))


def over_groups(function, fit):
    """Return the average over groups by equally spaced nodes, shape (chain, draw, N)."""
    nodes = np.linspace(-9, 9, 401)
    weights = np.exp(-0.5 * nodes**2)
    sd = sd_of(fit)[..., None]
    pairs = zip(nodes, weights / weights.sum(), strict=True)
    return sum(weight * function(fixed(fit) + sd * node) for node, weight in pairs)


def test_a_binary_model_with_groups():
    fit = fit_of(f"hit ~ x + {SITE}", "bernoulli")
    found, p = shares(fit), expit(fixed(fit) + site_of(fit))
    close(found["R2", "conditional"], variance(p) / (variance(p) + (p * (1 - p)).mean(axis=2)))
    middle = over_groups(expit, fit)
    within = over_groups(lambda eta: expit(eta) * expit(-eta), fit)
    between = over_groups(lambda eta: np.square(expit(eta) - middle), fit)
    total = (within + between).mean(axis=2)
    close(found["R2", "marginal"], variance(middle) / (variance(middle) + total), 1e-8)
    close(found["ICC", "all groups, scale of the response"], between.mean(axis=2) / total, 1e-7)
    latent = np.square(sd_of(fit))
    close(found["ICC", "site, scale of the link"], latent / (latent + np.pi**2 / 3))


def test_counts_with_groups():
    fit = fit_of(f"count ~ x + {SITE}", "negbinomial")
    found, shape = shares(fit), fit.draws["shape"]
    mean = np.exp(fixed(fit) + site_of(fit))
    own = (mean + mean**2 / shape[..., None]).mean(axis=2)
    close(found["R2", "conditional"], variance(mean) / (variance(mean) + own))
    sd2 = np.square(sd_of(fit))
    middle = np.exp(fixed(fit) + sd2[..., None] / 2)
    square = np.exp(2 * fixed(fit) + 2 * sd2[..., None])
    total = middle + square / shape[..., None] + square - middle**2
    close(found["R2", "marginal"], variance(middle) / (variance(middle) + total.mean(axis=2)), 1e-8)
    link = np.log1p(1 / middle.mean(axis=2) + 1 / shape)
    close(found["ICC", "site, scale of the link"], sd2 / (sd2 + link), 1e-8)


def test_groups_are_integrated_out_in_some_draws_if_that_is_much_work(monkeypatch):
    fit = fit_of(f"count ~ x + {SITE}", "poisson")
    whole = shares(fit)
    monkeypatch.setattr(explained_variance, "MOST_INTEGRATED", fit.num_predictions // 3)
    monkeypatch.setattr(explained_variance, "FEWEST_DRAWS", 10)
    assert "marginal R2 and ICC are computed from 1 in 3 draws" in in_one_line(
        pyflowers.explained(fit)
    )
    few = shares(fit)
    close(few["R2", "marginal"], whole["R2", "marginal"][:, ::3], 1e-8)
    close(few["R2", "conditional"], whole["R2", "conditional"])
    monkeypatch.setattr(explained_variance, "FEWEST_DRAWS", 200)
    close(shares(fit)["R2", "marginal"], whole["R2", "marginal"])


def test_shares_of_trials_and_ratings_have_their_scale():
    fit = fit_of("hits | trials(n) ~ x", "binomial")
    p, n = expit(fixed(fit)), FRAME.n.to_numpy()
    close(shares(fit)["R2", "model"], variance(p) / (variance(p) + (p * (1 - p) / n).mean(axis=2)))
    e = FRAME.hits.to_numpy() / n - p
    close(shares(fit)["R2", "residuals"], variance(p) / (variance(p) + variance(e)))
    fit = fit_of("rating ~ x", "cumulative")
    below = expit(fit.draws["threshold"][..., None, :] - (b(fit, "x") * X)[..., None])
    share = np.diff(np.pad(below, [(0, 0)] * 3 + [(1, 1)], constant_values=(0, 1)), axis=3)
    mean = share @ np.arange(1.0, 4)
    own = share @ np.arange(1.0, 4) ** 2 - mean**2
    close(shares(fit)["R2", "model"], variance(mean) / (variance(mean) + own.mean(axis=2)))


def test_families_that_are_compared_by_logs():
    fit = fit_of("size ~ x", "lognormal")
    eta, sigma2 = fixed(fit), np.square(fit.draws["sigma"])
    close(shares(fit)["R2", "model of log y"], variance(eta) / (variance(eta) + sigma2))


def test_loo_r2_is_that_of_rows_that_are_left_out():
    fit = fit_of("y ~ x")
    y, eta = FRAME.y.to_numpy(), fixed(fit)
    weights = np.exp(held_out_weights(fit, fit.model.log_lik(fit.draws))[0])
    errors = y - (weights * np.moveaxis(eta, -1, 0).reshape(len(y), -1)).sum(axis=1)
    found = shares(fit)["LOO R2", "rows"]
    assert abs(np.median(found) - (1 - errors.var() / y.var())) < 0.05
    draws = np.random.default_rng([1, 7]).standard_exponential((4000, len(y)))
    draws /= draws.sum(axis=1, keepdims=True)

    def of(values):
        return draws @ values**2 - (draws @ values) ** 2

    close(found, 1 - of(errors) / of(y), 1e-8)


def test_the_groups_of_a_family_that_is_compared_by_logs_come_last():
    assert list(shares(fit_of(f"size ~ x + {SITE}", "lognormal"))) == [
        ("R2", "conditional of log y"),
        ("R2", "marginal of log y"),
        ("R2", "residuals"),
        ("LOO R2", "rows"),
        ("ICC", "site, scale of the link"),
        ("ICC", "all groups, scale of log y"),
    ]


def test_a_share_that_is_not_a_number_in_a_draw_is_left_out_with_a_note():
    fit = fit_of(f"count ~ x + {SITE}", "poisson")
    sd = fit.draws["sd_site"].copy()
    sd[0, 0] = 40  # exp(40 ** 2) is infinite
    found = pyflowers.explained(replace(fit, draws={**fit.draws, "sd_site": sd}))
    assert ("R2", "conditional") in found.shares[fit.called]
    assert ("R2", "marginal") not in found.shares[fit.called]
    assert np.isfinite(found.table().to_numpy()).all()
    note = "no R2 (marginal), because in 1 of 200 draws a variance is 0 or too large"
    assert note in in_one_line(found)


def test_nested_models_are_ordered():
    medians = []
    for formula in ("y ~ sex", "y ~ x", "y ~ x * sex + dose"):
        found = pyflowers.explained(fit_of(formula)).table()["median"]
        medians.append(found.xs(("R2", "model"), level=("measure", "of")).iloc[0])
    assert medians == sorted(medians)
    groups = shares(fit_of(f"y ~ x + {SITE}"))
    assert np.median(groups["R2", "conditional"]) > np.median(groups["R2", "marginal"])
    rows = shares(fit_of("y ~ x * sex + dose"))
    assert np.median(rows["LOO R2", "rows"]) < np.median(rows["R2", "model"])


def test_loo_and_the_report_show_how_much_is_explained(tmp_path, capfd):
    fit = fit_of(f"y ~ x + {SITE}")
    fit.save(tmp_path / "run")
    assert run("loo", tmp_path / "run", "--explained", "--json", "--out", tmp_path / "loo") == 0
    record = json.loads(capfd.readouterr().out)
    assert {row["measure"] for row in record["explained"]} == {"R2", "LOO R2", "ICC"}
    assert (tmp_path / "loo" / "explained.csv").exists()
    assert (tmp_path / "loo" / "explained.png").exists()
    assert run("loo", tmp_path / "run", "--out", tmp_path / "plain") == 0
    assert not (tmp_path / "plain" / "explained.png").exists()
    page = render_report([fit])
    assert page.count("Shares of the variance, medians.") == 1
    assert "How much is explained" in page
    assert "scale of the link" in page


def test_terms_of_the_response_are_taken_into_account():
    frame = FRAME.assign(s=0.5, c=np.where(FRAME.x > 3, "right", "none"), w=2.0)
    known = fit_of(f"y | se(s) ~ x + {SITE}", frame=frame)
    eta = fixed(known) + site_of(known)
    close(shares(known)["R2", "conditional"], variance(eta) / (variance(eta) + 0.25))
    censored = pyflowers.explained(fit_of("y | cens(c) ~ x", frame=frame))
    assert next(iter(censored.shares.values())).keys() == {("R2", "model")}
    assert "because the response is censored" in in_one_line(censored)
    weighted = fit_of("count | weights(w) ~ x", "poisson", frame)
    assert "no LOO R2, because weights" in in_one_line(pyflowers.explained(weighted))
    # The probability of an outcome is not that of the weighted likelihood.
    mean = np.exp(fixed(weighted))
    none = pyflowers.predict(weighted, kind="probability", outcome="= 0").draws()
    close(np.asarray(none)[:, :, 0], np.exp(-mean))


def test_what_has_no_shares_is_refused_in_a_sentence():
    fit = fit_of("y ~ x")
    for fits, words in (
        ([], "there is no fit"),
        ([fit, fit], "two fits have the name"),
        ("fit", "explained"),
    ):
        with pytest.raises(ConfigError, match=words):
            pyflowers.explained(fits)
    assert run("loo", "nowhere", "--explained", "--by-group") == 2


def test_without_covariates_the_marginal_share_is_0():
    found = shares(fit_of(f"y ~ 1 + {SITE}"))
    assert (found["R2", "marginal"] == 0).all()
    assert (found["R2", "conditional"] > 0).all()
