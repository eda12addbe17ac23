"""The updates and the ELBO of the multilevel normal model, on sufficient statistics.

Equation numbers are those of :mod:`.multilevel`, which derives them. An update takes
q and returns it with one (group of) factors replaced; its cost is O(plants).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pyflowers.posterior.vb.distributions import (
    LOG_2PI,
    FloatArray,
    Normal,
    ScaledInvChiSquare,
    as_floats,
    log_variance_prior_constant,
)
from pyflowers.posterior.vb.priors import MultilevelPrior
from pyflowers.posterior.vb.statistics import SufficientStatistics


@dataclass(frozen=True)
class Factors:
    """The four (groups of) factors of q."""

    mu: Normal
    sigma2: ScaledInvChiSquare
    mu_plant: Normal
    sigma2_plant: ScaledInvChiSquare

    def as_dict(self) -> dict[str, Normal | ScaledInvChiSquare]:
        """Return the factors by parameter."""
        return {
            "mu": self.mu,
            "sigma2": self.sigma2,
            "mu_plant": self.mu_plant,
            "sigma2_plant": self.sigma2_plant,
        }


def start_factors(statistics: SufficientStatistics, prior: MultilevelPrior) -> Factors:
    """Each plant by itself, and mu and sigma2 from the plants' means."""
    num, seen = statistics.num, statistics.num > 0
    dof = num + prior.sigma2_plant_nu
    prior_ss = prior.sigma2_plant_nu * prior.sigma2_plant_scale**2
    sigma2_plant = ScaledInvChiSquare(dof, np.sqrt((prior_ss + statistics.ss) / dof))
    centre = statistics.mean[seen].mean() if np.any(seen) else prior.mu_mean
    total = num.size + prior.sigma2_nu
    squares = np.sum((statistics.mean[seen] - centre) ** 2)
    scale = np.sqrt((prior.sigma2_nu * prior.sigma2_scale**2 + squares) / total)
    sigma2 = ScaledInvChiSquare(as_floats(total), as_floats(scale))
    mu = Normal(as_floats(centre), as_floats(scale / np.sqrt(num.size)))
    sd = np.where(seen, sigma2_plant.scale / np.sqrt(np.maximum(num, 1)), scale)
    mu_plant = Normal(np.where(seen, statistics.mean, centre), sd)
    return Factors(mu, sigma2, mu_plant, sigma2_plant)


def update_mu_plant(data: SufficientStatistics, prior: MultilevelPrior, q: Factors) -> Factors:
    """Equation (1)."""
    del prior  # q(mu) and q(sigma2) broadcast in between
    data_precision = data.num / q.sigma2_plant.scale**2
    precision = data_precision + q.sigma2.scale**-2.0
    w = data_precision / precision
    mean = w * data.mean + (1 - w) * q.mu.mean
    return replace(q, mu_plant=Normal(mean, precision**-0.5))


def update_sigma2_plant(data: SufficientStatistics, prior: MultilevelPrior, q: Factors) -> Factors:
    """Equation (2); the degrees of freedom are those of the start, n_p + nu_p."""
    ss = prior.sigma2_plant_nu * prior.sigma2_plant_scale**2 + _expected_ss(data, q)
    scale = np.sqrt(ss / q.sigma2_plant.dof)
    return replace(q, sigma2_plant=q.sigma2_plant.rescaled(scale))


def update_mu(data: SufficientStatistics, prior: MultilevelPrior, q: Factors) -> Factors:
    """Equation (3)."""
    plants_precision = data.num.size / q.sigma2.scale**2
    precision = plants_precision + prior.mu_sd**-2.0
    w = plants_precision / precision
    mean = w * np.mean(q.mu_plant.mean) + (1 - w) * prior.mu_mean
    return replace(q, mu=Normal(as_floats(mean), as_floats(precision**-0.5)))


def update_sigma2(data: SufficientStatistics, prior: MultilevelPrior, q: Factors) -> Factors:
    """Equation (4); the degrees of freedom are those of the start, nu0 + P."""
    del data  # the plants' factors broadcast in between
    ss = prior.sigma2_nu * prior.sigma2_scale**2 + _expected_plant_ss(q)
    return replace(q, sigma2=q.sigma2.rescaled(as_floats(np.sqrt(ss / q.sigma2.dof))))


UPDATES = {
    "mu_plant": update_mu_plant,
    "sigma2_plant": update_sigma2_plant,
    "mu": update_mu,
    "sigma2": update_sigma2,
}


def elbo(data: SufficientStatistics, prior: MultilevelPrior, q: Factors) -> float:
    """Evidence lower bound of any such q, with every constant.

    E log p of data, mu_plant, sigma2_plant, mu and sigma2, in this order, plus the entropies.
    """
    num_plants = data.num.size
    mean_log, plant_mean_log = q.sigma2.mean_log, q.sigma2_plant.mean_log
    inverse, plant_inverse = q.sigma2.mean_inverse, q.sigma2_plant.mean_inverse
    nu, scale = as_floats(prior.sigma2_plant_nu), as_floats(prior.sigma2_plant_scale)
    nu0, scale0 = as_floats(prior.sigma2_nu), as_floats(prior.sigma2_scale)
    z2 = ((q.mu.mean - prior.mu_mean) / prior.mu_sd) ** 2 + (q.mu.sd / prior.mu_sd) ** 2
    per_plant = (
        -0.5 * (data.num * (LOG_2PI + plant_mean_log) + _expected_ss(data, q) * plant_inverse)
        + log_variance_prior_constant(nu, scale)
        - (nu / 2 + 1) * plant_mean_log
        - 0.5 * nu * scale**2 * plant_inverse
        + q.mu_plant.entropy()
        + q.sigma2_plant.entropy()
    )
    common = (
        -0.5 * (num_plants * (LOG_2PI + mean_log) + _expected_plant_ss(q) * inverse)
        - 0.5 * (LOG_2PI + z2)
        - np.log(prior.mu_sd)
        + log_variance_prior_constant(nu0, scale0)
        - (nu0 / 2 + 1) * mean_log
        - 0.5 * nu0 * scale0**2 * inverse
        + q.mu.entropy()
        + q.sigma2.entropy()
    )
    return float(np.sum(per_plant) + common)


def _expected_ss(data: SufficientStatistics, q: Factors) -> FloatArray:
    """E Σ (y - mu_plant)² of each plant."""
    return data.ss + data.num * ((data.mean - q.mu_plant.mean) ** 2 + q.mu_plant.sd**2)


def _expected_plant_ss(q: Factors) -> float:
    """E Σ (mu_plant - mu)²."""
    deviation = q.mu_plant.mean - q.mu.mean
    num_plants = q.mu_plant.mean.size
    return float(deviation @ deviation + np.sum(q.mu_plant.sd**2) + num_plants * q.mu.sd**2)


def extrapolated(q: Factors, log_scales: Sequence[float]) -> Factors:
    """Return q with the scale of q(sigma2) where the last three of a linear sequence point.

    Aitken's limit x2 + (x2 - x1) r / (1 - r) with r = (x2 - x1) / (x1 - x0), the step cut to
    factors of e^4; q unchanged where r is not between 0 and 1.
    """
    first, second = log_scales[-2] - log_scales[-3], log_scales[-1] - log_scales[-2]
    if first == 0 or not 0 < second / first < 1:
        return q
    r = second / first
    step = float(np.clip(second * r / (1 - r), -4, 4))
    return replace(q, sigma2=q.sigma2.rescaled(as_floats(q.sigma2.scale * np.exp(step))))


def movement(before: Factors, after: Factors) -> float:
    """Largest relative change of any parameter of q."""
    moved = [
        np.abs(b.mean - a.mean) / a.sd + np.abs(b.sd / a.sd - 1)
        for b, a in ((before.mu, after.mu), (before.mu_plant, after.mu_plant))
    ]
    moved += [
        np.abs(b.scale / a.scale - 1)
        for b, a in ((before.sigma2, after.sigma2), (before.sigma2_plant, after.sigma2_plant))
    ]
    return float(max(np.max(m) for m in moved))
