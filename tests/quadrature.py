"""Posteriors of the three models by brute force, written only for the tests.

This module shares no code with pyflowers. It integrates over a grid of (mu, log sigma2) and, for
each plant, over a grid of the plant's mean (its log, in the Poisson model), by the trapezoid rule
on sinh-spaced points.
"""

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm, poisson, t

PRIOR_MU_SD, PRIOR_NU, PRIOR_SCALE = 100.0, 1.0, 2.0


def sinh_grid(center, scale, reach, num):
    """Return points that are dense near the center, and their trapezoid weights."""
    t = np.linspace(-np.arcsinh(reach / scale), np.arcsinh(reach / scale), num)
    points = center + scale * np.sinh(t)
    return points, np.gradient(points)


def quantiles(points, mass, probabilities):
    """Return quantiles of a distribution given by the mass at each of many points."""
    cdf = np.cumsum(mass) - mass / 2
    return np.interp(probabilities, cdf / mass.sum(), points)


def log_prior(mu, u):
    """Return log p(mu) p(sigma2) |d sigma2 / d u| on the grid, u = log sigma2."""
    sigma2 = np.exp(u)
    log_sigma2 = -PRIOR_NU / 2 * u - PRIOR_NU * PRIOR_SCALE**2 / (2 * sigma2)
    return norm.logpdf(mu, 0, PRIOR_MU_SD)[:, None] + log_sigma2[None, :]


def iid_normal(plants, probabilities):
    """Return quantiles of mu and sigma2 if all rows of all plants are one sample."""
    y = np.concatenate(plants)
    mu, mu_weight = sinh_grid(y.mean(), 2.0, 200.0, 3001)
    u = np.linspace(np.log(0.05), np.log(1e6), 1501)
    ss = ((y[None, :] - mu[:, None]) ** 2).sum(1)
    log_density = log_prior(mu, u) - y.size / 2 * u - ss[:, None] / (2 * np.exp(u))
    mass = np.exp(log_density - log_density.max()) * mu_weight[:, None]
    return {
        "mu": quantiles(mu, mass.sum(1), probabilities),
        "sigma2": quantiles(np.exp(u), mass.sum(0), probabilities),
    }


def multilevel_normal(plants, probabilities):
    """Return quantiles; sigma2_plant, whose prior is flat, is integrated out of each likelihood."""

    def log_likelihood(x, y):
        # ∫ s^(-n/2) exp(-S(x) / 2s) ds ∝ S(x)^-(n/2 - 1)
        return -(y.size / 2 - 1) * np.log(((y[:, None] - x) ** 2).sum(0))

    center = np.mean([np.mean(y) for y in plants])
    return _multilevel(plants, log_likelihood, center, 5.0, 400.0, probabilities)


def multilevel_poisson(plants, probabilities):
    """Return quantiles, computed with x = log mu_plant."""

    def log_likelihood(x, y):
        return y.sum() * x - y.size * np.exp(x)

    center = np.log(np.mean(np.concatenate(plants)))
    result = _multilevel(plants, log_likelihood, center, 2.0, 60.0, probabilities)
    return {k: np.exp(v) if k.startswith("mu_plant") else v for k, v in result.items()}


def _grids(plants, log_likelihood, center, scale, reach):
    """Return grids, the posterior of (mu, u), and a function for the posterior of a plant's x."""
    x, x_weight = sinh_grid(center, scale, reach, 1201)
    mu, mu_weight = sinh_grid(center, scale, reach, 301)
    u = np.linspace(np.log(0.05), np.log(1e6), 241)
    each = [log_likelihood(x, y) for y in plants]
    likelihoods = np.array([np.exp(ll - ll.max()) * x_weight for ll in each])  # (P, X)
    evidence = np.empty((len(plants), mu.size, u.size))
    kernels = [norm.pdf(x[None, :], mu[:, None], np.exp(value / 2)) for value in u]
    for i, kernel in enumerate(kernels):
        evidence[:, :, i] = likelihoods @ kernel.T
    with np.errstate(divide="ignore"):
        log_mass = log_prior(mu, u) + np.log(evidence).sum(0) + np.log(mu_weight)[:, None]
    mass = np.exp(log_mass - logsumexp(log_mass))

    def of_plant(p):
        """Return the mass of plant p's x on its grid."""
        share = np.divide(mass, evidence[p], out=np.zeros_like(mass), where=evidence[p] > 0)
        density = sum(share[:, i] @ kernel for i, kernel in enumerate(kernels)) * likelihoods[p]
        return density / density.sum()

    return x, mu, u, mass, of_plant


def _multilevel(plants, log_likelihood, center, scale, reach, probabilities):
    x, mu, u, mass, of_plant = _grids(plants, log_likelihood, center, scale, reach)
    result = {
        "mu": quantiles(mu, mass.sum(1), probabilities),
        "sigma2": quantiles(np.exp(u), mass.sum(0), probabilities),
    }
    for p in range(len(plants)):
        result[f"mu_plant[{p + 1}]"] = quantiles(x, of_plant(p), probabilities)
    return result


def _new_x(mu, u, mass, values):
    """Return Pr(x of a new plant ≤ value), where x is N(mu, e^u) at each point of the grid."""
    sd = np.exp(u / 2)[None, :]
    return np.array([np.sum(mass * norm.cdf((value - mu[:, None]) / sd)) for value in values])


def predicted_by_iid_normal(plants):
    """Return Pr(a new observation ≤ value) as a function of values."""
    y = np.concatenate(plants)
    mu, mu_weight = sinh_grid(y.mean(), 2.0, 200.0, 1501)
    u = np.linspace(np.log(0.05), np.log(1e6), 751)
    ss = ((y[None, :] - mu[:, None]) ** 2).sum(1)
    log_density = log_prior(mu, u) - y.size / 2 * u - ss[:, None] / (2 * np.exp(u))
    mass = np.exp(log_density - log_density.max()) * mu_weight[:, None]
    return lambda values: _new_x(mu, u, mass / mass.sum(), values)


def predicted_by_multilevel_normal(plants):
    """Return Pr(next month of plant p ≤ value) for each plant and Pr(mean of a new plant ≤ value).

    Given its mean x, the variance of a plant is scaled-inv-χ² with n − 2 degrees of freedom, so
    that the next observation has a t distribution with n − 2 degrees of freedom, location x and
    scale sqrt(S(x) / (n − 2)).
    """

    def log_likelihood(x, y):
        return -(y.size / 2 - 1) * np.log(((y[:, None] - x) ** 2).sum(0))

    center = np.mean([np.mean(y) for y in plants])
    x, mu, u, mass, of_plant = _grids(plants, log_likelihood, center, 5.0, 400.0)

    def next_month(y, of_x):
        scale = np.sqrt(((y[:, None] - x) ** 2).sum(0) / (y.size - 2))
        return lambda values: np.array([of_x @ t.cdf((v - x) / scale, y.size - 2) for v in values])

    each = [next_month(y, of_plant(p)) for p, y in enumerate(plants)]
    return each, lambda values: _new_x(mu, u, mass, values)


def predicted_by_multilevel_poisson(plants):
    """Return Pr(next month of plant p ≤ value) for each plant, and the same for a new plant."""

    def log_likelihood(x, y):
        return y.sum() * x - y.size * np.exp(x)

    center = np.log(np.mean(np.concatenate(plants)))
    x, mu, u, mass, of_plant = _grids(plants, log_likelihood, center, 2.0, 60.0)
    edges = np.concatenate([[-np.inf], (x[1:] + x[:-1]) / 2, [np.inf]])
    of_new = np.diff(_new_x(mu, u, mass, edges))

    def count(of_x):
        return lambda values: poisson.cdf(np.asarray(values)[:, None], np.exp(x)[None, :]) @ of_x

    return [count(of_plant(p)) for p in range(len(plants))], count(of_new)
