"""Left-out observations and groups in the four BUGS examples, against independent answers.

For pumps and rats log p(y_out | y_in) = log p(y) − log p(y_in), two evidences by quadrature with
the effects integrated in closed form. Seeds and epil are fitted to tables without the left-out
rows, and the effects of these rows are integrated over the population by Gauss–Hermite quadrature.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln, logsumexp, roots_hermitenorm

import pyflowers
from pyflowers.analysis.elpd import leave_one_group_out, loo
from pyflowers.analysis.prior_sensitivity import sensitivity
from pyflowers.analysis.refits import predict_held_out
from pyflowers.convergence import ess_mean

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
HOW = {"seed": 1, "warmup": 500, "adapt_delta": 0.95, "engine": "stanli"}
slow = pytest.mark.slow


def table(name):
    return pd.read_csv(EXAMPLES / name / f"{name}.csv")


@cache
def fitted(name, draws=1000):
    path = EXAMPLES / name / f"{name}.stan"
    return pyflowers.fit(path, table(name), draws=draws, **HOW)


def pumps_evidence(kept):
    """Return log p(y): failures are negative binomial given alpha and beta, by quadrature."""
    t, y = (table("pumps").loc[kept, c].to_numpy() for c in ("thousand_hours", "failures"))
    u, v = np.meshgrid(np.linspace(-5, 4, 451), np.linspace(-7, 4, 551), indexing="ij")
    alpha, beta = np.exp(u)[..., None], np.exp(v)[..., None]
    of_y = (
        gammaln(alpha + y)
        - gammaln(alpha)
        - gammaln(y + 1)
        + alpha * np.log(beta / (beta + t))
        + y * np.log(t / (beta + t))
    ).sum(-1)
    # Exponential(1) and Gamma(0.1, 1), on the log scale.
    prior = -np.exp(u) + u + 0.1 * v - np.exp(v) - gammaln(0.1)
    return logsumexp(of_y + prior) + np.log(9 / 450 * 11 / 550)


def rats_evidence(kept):
    """Return log p(y) up to a constant; only the three precisions need quadrature."""
    frame = table("rats")
    x = (frame["age"] - frame["age"].mean()).to_numpy()
    y, rat = frame["weight"].to_numpy(float), frame["rat"].to_numpy()
    log_tau = np.stack(
        np.meshgrid(
            np.linspace(-4.6, -2.6, 41),  # log precision of the residuals (sd of about 6 g)
            np.linspace(-7.2, -3.6, 41),  # log precision of the rats' mean weights (15 g)
            np.linspace(-0.5, 4.0, 41),  # log precision of their growth rates (0.5 g per day)
            indexing="ij",
        ),
        -1,
    ).reshape(-1, 3)
    s2 = np.exp(-log_tau)
    # The priors: Gamma(0.001, 0.001) for the precisions, on the log scale, and N(0, 10⁶) for both
    # means.
    total = (0.001 * log_tau - 0.001 * np.exp(log_tau)).sum(-1)
    information = np.tile(np.eye(2) / 1e6, (len(s2), 1, 1))
    linear = np.zeros((len(s2), 2))
    for number in np.unique(rat[kept]):
        rows = [row for row in kept if rat[row] == number]
        design = np.stack([np.ones(len(rows)), x[rows]], 1)
        spread = np.einsum("ij,gj,kj->gik", design, s2[:, 1:], design)
        covariance = spread + s2[:, :1, None] * np.eye(len(rows))
        inverse = np.linalg.inv(covariance)
        total += -0.5 * np.linalg.slogdet(covariance)[1] - len(rows) / 2 * np.log(2 * np.pi)
        total += -0.5 * np.einsum("i,gij,j->g", y[rows], inverse, y[rows])
        information += np.einsum("ij,gik,kl->gjl", design, inverse, design)
        linear += np.einsum("ij,gik,k->gj", design, inverse, y[rows])
    mean = np.linalg.solve(information, linear[..., None])[..., 0]
    total += 0.5 * (linear * mean).sum(-1) - 0.5 * np.linalg.slogdet(information)[1]
    return logsumexp(total)


@pytest.mark.parametrize(
    ("name", "evidence", "sets", "draws"),
    [
        ("pumps", pumps_evidence, [[0], [1], [9]], 3000),  # each pump has one observation
        # The ninth rat grows fastest: the posterior without it is far from the fit's.
        pytest.param("rats", rats_evidence, [[7], [44], range(5), range(40, 45)], 8000, marks=slow),
    ],
)
def test_what_is_left_out_is_predicted_as_the_exact_posterior_does(name, evidence, sets, draws):
    fit = fitted(name, draws)
    sets = [np.array(rows) for rows in sets]
    found = predict_held_out(fit, sets)
    everything = np.arange(fit.data.num_obs)
    whole = evidence(everything)
    terms = np.array([whole - evidence(np.setdiff1d(everything, rows)) for rows in sets])
    elpd, mcse = (np.array([getattr(each, what) for each in found]) for what in ("elpd", "mcse"))
    assert mcse.max() < 0.15
    assert np.abs((elpd - terms) / mcse).max() < 3.5
    # Negative control: the terms differ from each other.
    assert np.abs((elpd - np.roll(terms, 1)) / mcse).max() > 10


NODES, WEIGHTS = roots_hermitenorm(40)
LOG_WEIGHTS = np.log(WEIGHTS / WEIGHTS.sum())


def seeds_density(draws, rows):
    """Return the log density of the rows at each draw, with the plates' effects integrated out."""
    total = 0.0
    for row in rows.itertuples():
        x1, x2 = row.aegyptiaco_73, row.cucumber
        center = draws["alpha0"] + draws["alpha1"] * x1 + draws["alpha2"] * x2
        center = center + draws["alpha12"] * x1 * x2
        logit = center[..., None] + draws["sigma"][..., None] * NODES
        y, n = row.germinated, row.seeds
        choose = gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1)
        of_y = choose + y * logit - n * np.logaddexp(0, logit)
        total = total + logsumexp(of_y + LOG_WEIGHTS, axis=-1)
    return total


def epil_density(draws, rows):
    """Return the log density of a new patient's rows, with the patient's effect integrated out."""
    first = rows.iloc[0]
    log_base, treated = np.log(first["base"] / 4), first["treated"]
    center = draws["alpha0"] + draws["alpha_Base"] * log_base + draws["alpha_Trt"] * treated
    center = center + draws["alpha_BT"] * treated * log_base
    center = center + draws["alpha_Age"] * np.log(first["age"])
    patient = draws["sigma_b1"][..., None] * NODES
    of_patient = LOG_WEIGHTS
    for row in rows.itertuples():
        mean = center + draws["alpha_V4"] * (row.visit == 4)
        log_mu = (mean[..., None] + patient)[..., None] + draws["sigma_b"][..., None, None] * NODES
        of_y = row.seizures * log_mu - np.exp(log_mu) - gammaln(row.seizures + 1)
        of_patient = of_patient + logsumexp(of_y + LOG_WEIGHTS, axis=-1)
    return logsumexp(of_patient, axis=-1)


@pytest.mark.parametrize(
    ("name", "density", "groups", "draws"),
    [
        ("seeds", seeds_density, [0, 15], 1000),
        pytest.param("epil", epil_density, [0, 9], 1000, marks=slow),
    ],
)
def test_a_group_left_out_is_predicted_as_from_a_table_without_it(name, density, groups, draws):
    fit, frame = fitted(name, draws), table(name)
    codes = fit.data.by_group.codes
    found = predict_held_out(fit, [np.flatnonzero(codes == g) for g in groups])
    for group, each in zip(groups, found, strict=True):
        others = pyflowers.fit(fit.program, frame[codes != group], draws=draws, **HOW)
        likelihood = np.exp(density(others.draws, frame[codes == group]))
        term = np.log(likelihood.mean())
        error = likelihood.std() / likelihood.mean() / np.sqrt(ess_mean(likelihood[..., None])[0])
        assert np.hypot(error, each.mcse) < 0.2
        assert abs(each.elpd - term) < 3.5 * np.hypot(error, each.mcse)


@slow
@pytest.mark.parametrize("name", ["pumps", "seeds", "rats", "epil"])
def test_every_point_and_every_group_can_be_left_out(name):
    fit = fitted(name, draws=300)
    (model,) = loo([fit], refit=True).models
    assert model.num_bad == 0
    assert np.isfinite(model.terms).all()
    (of_groups,) = leave_one_group_out([fit]).models
    assert of_groups.terms.shape == (len(fit.data.by_group),)
    assert np.isfinite(of_groups.terms).all()
    if fit.data.num_obs == len(fit.data.by_group):
        # Each group has one observation, so both refits are the same.
        same = of_groups.terms[model.refitted] == model.terms[model.refitted]
        assert same.all()
    assert sensitivity(fit).distances.shape[0] > 0
