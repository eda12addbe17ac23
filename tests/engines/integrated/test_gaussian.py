"""The marginal likelihood and the draws of normal models, against dense normal distributions."""

import numpy as np
import pandas as pd
import pytest
import stanli
from mixed_models import posed, table
from scipy import stats
from scipy.special import logsumexp
from stanio import dump_stan_json

from pyflowers.engines.bridge import Bridge
from pyflowers.engines.integrated import method_of

FORMULAS = [
    "y ~ x",
    "y ~ 0 + x",
    "y ~ 1 + (1 | g)",
    "y ~ x + (1 | g) + (1 | h)",
    "y ~ x + offset(z) + (1 | g/h)",
    "y ~ x + (x | g)",
    "y ~ x + z + (x + z || g) + (1 | h)",
    "y ~ x + (1 | g) + (x | h) + (z | g:h)",
    "y ~ x + I(x**2) + (1 | g)",
    "y ~ s(x, k = 5) + (1 | g)",
    "y ~ s(x, by = h, k = 5) + (x | g)",
    "y ~ gp(x, k = 6) + (1 | g) + (1 | h)",
    "y ~ s(x, k = 5) + gp(z, k = 5)",
    "y ~ x + (1 | gr(g, cov = A)) + (1 | h)",
    "y ~ x + (x | gr(g, cov = A)) + (1 | h)",
    "y ~ x + (x + z || gr(g, cov = A)) + (z | h)",
    "y ~ x + (x | gr(g, cov = A))",
    "y | se(s) ~ x + (1 | g)",
    "y | se(s) ~ x",
    "y | se(s, sigma = TRUE) ~ x + (x | g)",
    "y | weights(w, kind = precision) ~ x + (1 | g) + (x | h)",
    "y | se(s, sigma = TRUE) + weights(w, kind = precision) ~ x + offset(z) + (1 | g)",
]


def with_terms(formula):
    """Return a table with standard errors and weights, and a covariance of the labels of g."""
    frame = table(30)
    rng = np.random.default_rng(8)
    frame = frame.assign(s=rng.uniform(0.3, 1, 30), w=rng.uniform(0.5, 3, 30))
    if "cov" not in formula:
        return frame, {}
    labels = sorted(frame.g.unique())
    root = rng.normal(size=(len(labels), 10))
    known = pd.DataFrame(root @ root.T / 10, index=labels, columns=labels)
    return frame, {"known": {"A": known}}


def dense(model, values, t):
    """Return mean and covariance of y and all coefficients and effects, in this order.

    The coefficients with a t prior have the normal prior whose precision is `t` times as large.
    """
    rows = model.rows
    blocks, covariances, means = [], [], []
    for its in model.effects:
        z = np.zeros((len(rows), its.num_labels * its.num_effects))
        for n, row in enumerate(rows):
            at = its.codes[row] * its.num_effects
            z[n, at : at + its.num_effects] = its.columns[row]
        factor, of_labels = values[its.name][0], np.eye(its.num_labels)
        if its.back is not None:
            of_labels = its.back @ its.back.T
        blocks.append(z)
        covariances.append(np.kron(of_labels, factor @ factor.T))
        means.append(np.zeros(z.shape[1]))
    for its in model.penalised:
        blocks.append(its.columns[rows])
        covariances.append(np.diag(its.scales(values)[0] ** 2))
        means.append(np.zeros(its.columns.shape[1]))
    for its in model.coefficients:
        location, scale, dof = np.array([prior.student for prior in its.priors]).T
        blocks.append(its.columns[rows])
        covariances.append(np.diag(scale**2 / np.where(np.isfinite(dof), t, 1.0)))
        means.append(location)
    c, mean = np.hstack(blocks), np.concatenate(means)
    prior = np.zeros((len(mean), len(mean)))
    at = 0
    for each in covariances:
        prior[at : at + len(each), at : at + len(each)] = each
        at += len(each)
    variance = np.zeros(len(rows))
    if model.se is not None:
        variance += model.se**2
    if "sigma" in values:
        variance += values["sigma"][0, 0] ** 2
    if model.precision is not None:
        variance /= model.precision
    of_y = c @ prior @ c.T + np.diag(variance)
    return c, mean, prior, of_y, model.offset[rows]


def log_likelihood(model, values, y):
    """Return log p(y | sds, sigma), integrating the precision factor of a t prior on a grid."""
    u = np.linspace(-20, 4, 121)
    of_t = stats.gamma.logpdf(np.exp(u), 1.5, scale=1 / 1.5) + u + np.log(u[1] - u[0])
    has_t = any(np.isfinite(p.student[2]) for its in model.coefficients for p in its.priors)
    if not has_t:
        u, of_t = np.zeros(1), np.zeros(1)
    found = []
    for each in np.exp(u):
        c, mean, _, of_y, offset = dense(model, values, each)
        _, log_det = np.linalg.slogdet(of_y)
        gap = y - offset - c @ mean
        form = gap @ np.linalg.solve(of_y, gap)
        found.append(-0.5 * (len(y) * np.log(2 * np.pi) + log_det + form))
    return logsumexp(np.array(found) + of_t)


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_likelihood_is_that_of_the_dense_normal_distribution(formula):
    frame, how = with_terms(formula)
    _, _, model = posed(formula, frame, **how)
    method = method_of(model, "test")
    points = method.start + 0.3 * np.random.default_rng(2).standard_normal((2, len(method.start)))
    values, log_prior, _ = method.coordinates.values(points)
    found = method.log_density(points) - log_prior
    for i in range(2):
        here = {name: its[i : i + 1] for name, its in values.items()}
        assert found[i] == pytest.approx(log_likelihood(model, here, model.y), abs=1e-7)


def test_a_lognormal_response_is_normal_on_the_log_scale():
    frame = table(40)
    same = frame.assign(y=np.exp(frame.y / 4))
    _, _, one = posed("y ~ x + (1 | g)", frame.assign(y=frame.y / 4))
    _, _, other = posed("y ~ x + (1 | g)", same, family="lognormal")
    assert np.allclose(np.log(other.y), one.y)
    assert np.isfinite(method_of(other, "test").log_density(np.zeros((1, 2))))


OF_EVERY_KIND = [
    *(*FORMULAS[3:8], FORMULAS[10], FORMULAS[11]),
    "y ~ x + (x | gr(g, cov = A)) + (1 | h)",
    "y | weights(w, kind = precision) ~ x + (1 | g) + (x | h)",
]


@pytest.mark.quick
@pytest.mark.parametrize("formula", OF_EVERY_KIND)
def test_draws_have_the_moments_of_the_conditional_normal_distribution(formula):
    frame, how = with_terms(formula)
    _, _, model = posed(formula, frame, **how)
    method = method_of(model, "test")
    point = method.start[None]
    values, *_ = method.coordinates.values(point)
    num = 40_000
    drawn = method.draw(point, np.array([num]), np.random.default_rng(3))
    u = np.empty((num, 0))
    for its in model.effects:
        own = drawn[its.name] if its.back is None else its.back @ drawn[its.name]
        u = np.hstack([u, own.reshape(num, -1)])
    u = np.hstack([u, *(drawn[its.name] for its in (*model.penalised, *model.coefficients))])
    # The t prior of the intercept is nearly flat on the scale of its likelihood.
    c, mean, prior, of_y, offset = dense(model, values, 1.0)
    gain = prior @ c.T @ np.linalg.inv(of_y)
    expected = mean + gain @ (model.y - offset - c @ mean)
    covariance = prior - gain @ c @ prior
    sd = np.sqrt(np.diagonal(covariance))
    assert np.all(np.abs(u.mean(axis=0) - expected) < 4.5 * sd / np.sqrt(num) + 0.003 * sd)
    found = np.cov(u.T) / np.outer(sd, sd)
    assert np.abs(found - covariance / np.outer(sd, sd)).max() < 0.03


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ s(x, k = 5)",
        "y ~ s(x, by = h, k = 5)",
        "y ~ gp(x, k = 6)",
        "y ~ x + (1 | gr(g, cov = A))",
        "y ~ x + (x || gr(g, cov = A))",
        "y | se(s, sigma = TRUE) ~ x",
        "y | weights(w, kind = precision) ~ x + z",
    ],
)
def test_the_joint_density_is_that_of_the_stan_program(formula):
    """It is the density of the parameters with y, times that of coefficients given both."""
    frame, how = with_terms(formula)
    program, data, model = posed(formula, frame, priors={"Intercept": "normal(5, 3)"}, **how)
    method, rng = method_of(model, "test"), np.random.default_rng(4)
    points = method.start + 0.3 * rng.standard_normal((4, len(method.start)))
    values, log_prior, lprior = method.coordinates.values(points)
    integrated = method.log_density(points) - log_prior + lprior
    text = dump_stan_json(program.stan_values(data))
    opened = stanli.bridgestan_model(mir=stanli.stan_to_mir(program.source.text), data=text, seed=1)
    stan = Bridge(opened.lib_path, opened.model, opened, forgiving=True)
    gaps = []
    for i in range(len(points)):
        here = {name: its[i : i + 1] for name, its in values.items()}
        c, mean, prior, of_y, offset = dense(model, here, 1.0)
        gain = prior @ c.T @ np.linalg.inv(of_y)
        expected = mean + gain @ (model.y - offset - c @ mean)
        unit = np.sqrt(np.diagonal(prior))  # some scales of sines are very small
        covariance = (prior - gain @ c @ prior) / np.outer(unit, unit)
        given_y = stats.multivariate_normal(cov=covariance)
        moved = given_y.rvs(random_state=rng)
        drawn = expected + unit * moved
        log_density, at = integrated[i] + given_y.logpdf(moved) - np.log(unit).sum(), 0
        parameters = {name: its[0] for name, its in here.items()}
        for its in model.effects:
            own = drawn[at : at + its.num_labels * its.num_effects]
            sds = here[its.sd.name][0]
            independent = np.linalg.solve(its.back, own.reshape(its.num_labels, -1))
            parameters[f"z_{its.name.removeprefix('r_')}"] = independent / sds
            log_density += its.num_effects * np.linalg.slogdet(its.back)[1]
            log_density += its.num_labels * np.log(sds).sum()
            at += len(own)
        for its in (*model.penalised, *model.coefficients):
            own = drawn[at : at + its.columns.shape[1]]
            parameters[its.name] = own
            z = f"z_{its.name.removeprefix('r_')}"
            if z in program.source.blocks.parameters:
                scales = its.scales(here)[0]
                parameters[z] = own / scales
                log_density += np.log(scales).sum()
            elif its in model.penalised and not data.values[f"centered_{its.name}"]:
                log_density += np.log(its.scales(here)).sum()
            at += len(own)
        known = {each for its in model.penalised for each in its.parameters} | {*model.parameters}
        known |= {its.sd for its in model.effects}
        log_density += sum(np.log(parameters[each.name]).sum() for each in known)
        flat = [np.ravel(parameters[name]) for name in program.source.blocks.parameters]
        found, _ = stan.evaluate(stan.unconstrain(np.concatenate(flat)[None]), False)
        gaps.append(float(found[0]) - log_density)
    assert np.ptp(gaps) < 1e-7
