"""Closed-form mean-field variational Bayes for the multilevel normal model.

For P plants, plant p with n_p observations of mean ȳ_p and sum of squares S_p about it,

    y[t,p] ~ N(mu_plant[p], sigma2_plant[p]),         mu ~ N(m0, s0²),
    mu_plant[p] ~ N(mu, sigma2),                      sigma2 ~ scaled-inv-χ²(nu0, sigma0²),
    sigma2_plant[p] ~ scaled-inv-χ²(nu_p, c²),        flat: nu_p = -2, c = 0,

q factorises over mu, sigma2 and every mu_plant[p] and sigma2_plant[p]. The optimal factor of one
parameter is exp E[log p(y, parameters)] over the others (Bishop 2006, eq. 10.9). Each appears
there as a normal or scaled inverse chi-square kernel: the model is conditionally conjugate (Blei
et al. 2017, section 4.1). Collecting terms, with 1/s² = E[1/sigma2], 1/s_p² = E[1/sigma2_plant]
and (m, v), (m_p, v_p) the means and variances of q(mu), q(mu_plant[p]):

  * quadratic in mu_plant[p]: -(n_p / s_p²) (ȳ_p - mu_plant)² / 2 - (mu_plant - m)² / (2 s²), so
        v_p = 1 / (n_p / s_p² + 1 / s²),   m_p = v_p (n_p ȳ_p / s_p² + m / s²);           (1)
  * in sigma2_plant[p]: -(n_p + nu_p)/2 - 1 times its log, and -1/2 times its inverse times
        (n_p + nu_p) s_p² = nu_p c² + S_p + n_p ((ȳ_p - m_p)² + v_p),                     (2)
    a scaled-inv-χ²(n_p + nu_p, s_p²); under the flat prior n_p - 2 degrees of freedom;
  * quadratic in mu: v = 1 / (P / s² + 1 / s0²),   m = v (Σ m_p / s² + m0 / s0²);         (3)
  * in sigma2: scaled-inv-χ²(nu0 + P, s²),
        (nu0 + P) s² = nu0 sigma0² + Σ ((m_p - m)² + v_p + v).                            (4)

A sweep does (1), (2), (3), (4). No update lowers the ELBO. Under a flat (or any improper, nu_p <=
0) prior on sigma2_plant its density is taken as sigma2_plant^(-(nu_p/2 + 1)), flat: 1. ELBO and
evidence then carry the units of that density: they compare approximations of one posterior on the
same data, and must not be used to compare this model with another.

References
----------
Bishop (2006), Pattern Recognition and Machine Learning, eq. 10.9.
Blei, Kucukelbir and McAuliffe (2017), Variational inference, JASA 112(518), section 4.
Varadhan and Roland (2008), Scandinavian Journal of Statistics 35(2), for the extrapolation.
Gelman et al. (2013), Bayesian Data Analysis, 3rd ed., sections 11.6 and 13.7, which does the same
for the hierarchical normal model with known group variances (the eight schools).
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyflowers.posterior.distributions import (
    LOG_2PI,
    FloatArray,
    MultilevelPrior,
    Normal,
    ScaledInvChiSquare,
    SufficientStatistics,
    as_floats,
    checked_labels,
    log_constant,
)
from pyflowers.posterior.mean_field import State, VBResult, check_stop_rule, warn_not_converged

_PARAMETER_TOL = 1e-9
_PLAIN_SWEEPS = 3  # between extrapolations
_RECORD_UP_TO = 100  # plants; states of more are kept on request only

Factors = dict[str, Any]
"""Each parameter's Normal or ScaledInvChiSquare."""


@dataclass(frozen=True, kw_only=True, repr=False)
class MultilevelVB(VBResult):
    """A fit of :func:`fit_multilevel_normal`.

    Factors ``mu``, ``sigma2`` and, of shape (P,), ``mu_plant`` and ``sigma2_plant``.

    Parameters
    ----------
    statistics : SufficientStatistics, shape (P,)
        The data that were fitted.
    prior : MultilevelPrior
        The prior that was used.
    """

    statistics: SufficientStatistics
    prior: MultilevelPrior


def start_factors(data: SufficientStatistics, prior: MultilevelPrior) -> Factors:
    """Each plant by itself, and mu and sigma2 from the plants' means."""
    num, seen = data.num, data.num > 0
    dof = num + prior.sigma2_plant_nu
    prior_ss = prior.sigma2_plant_nu * prior.sigma2_plant_scale**2
    scales = np.sqrt((prior_ss + data.ss) / dof)
    centre = data.mean[seen].mean() if np.any(seen) else prior.mu_mean
    total = num.size + prior.sigma2_nu
    squares = np.sum((data.mean[seen] - centre) ** 2)
    scale = np.sqrt((prior.sigma2_nu * prior.sigma2_scale**2 + squares) / total)
    sds = np.where(seen, scales / np.sqrt(np.maximum(num, 1)), scale)
    return {
        "mu": Normal(as_floats(centre), as_floats(scale / np.sqrt(num.size))),
        "sigma2": ScaledInvChiSquare(as_floats(total), as_floats(scale)),
        "mu_plant": Normal(np.where(seen, data.mean, centre), sds),
        "sigma2_plant": ScaledInvChiSquare(dof, scales),
    }


# q(mu) and q(sigma2) broadcast between data, prior and plants.


def update_mu_plant(data: SufficientStatistics, _: MultilevelPrior, q: Factors) -> Normal:
    """Equation (1)."""
    data_precision = data.num / q["sigma2_plant"].scale ** 2
    precision = data_precision + q["sigma2"].scale ** -2.0
    w = data_precision / precision
    return Normal(w * data.mean + (1 - w) * q["mu"].mean, precision**-0.5)


def update_sigma2_plant(
    data: SufficientStatistics, prior: MultilevelPrior, q: Factors
) -> ScaledInvChiSquare:
    """Equation (2)."""
    ss = prior.sigma2_plant_nu * prior.sigma2_plant_scale**2 + _expected_ss(data, q)
    dof = data.num + prior.sigma2_plant_nu
    return ScaledInvChiSquare(dof, np.sqrt(ss / dof))


def update_mu(data: SufficientStatistics, prior: MultilevelPrior, q: Factors) -> Normal:
    """Equation (3)."""
    plants_precision = data.num.size / q["sigma2"].scale ** 2
    precision = plants_precision + prior.mu_sd**-2.0
    w = plants_precision / precision
    mean = w * np.mean(q["mu_plant"].mean) + (1 - w) * prior.mu_mean
    return Normal(as_floats(mean), as_floats(precision**-0.5))


def update_sigma2(
    data: SufficientStatistics, prior: MultilevelPrior, q: Factors
) -> ScaledInvChiSquare:
    """Equation (4)."""
    ss = prior.sigma2_nu * prior.sigma2_scale**2 + _expected_plant_ss(q)
    dof = data.num.size + prior.sigma2_nu
    return ScaledInvChiSquare(as_floats(dof), as_floats(np.sqrt(ss / dof)))


UPDATES = {
    "mu_plant": update_mu_plant,
    "sigma2_plant": update_sigma2_plant,
    "mu": update_mu,
    "sigma2": update_sigma2,
}


def elbo(data: SufficientStatistics, prior: MultilevelPrior, q: Factors) -> float:
    """Evidence lower bound of any such q, with every constant.

    E log p of the data, of mu_plant, of both variances and of mu, plus the entropies.
    """
    mu, sigma2, sigma2_plant = q["mu"], q["sigma2"], q["sigma2_plant"]
    z2 = ((mu.mean - prior.mu_mean) / prior.mu_sd) ** 2 + (mu.sd / prior.mu_sd) ** 2
    of_data = data.num * (LOG_2PI + sigma2_plant.mean_log)
    of_data = of_data + _expected_ss(data, q) * sigma2_plant.mean_inverse
    of_plants = data.num.size * (LOG_2PI + sigma2.mean_log)
    of_plants = of_plants + _expected_plant_ss(q) * sigma2.mean_inverse
    total = -0.5 * (np.sum(of_data) + of_plants + LOG_2PI + z2) - np.log(prior.mu_sd)
    for factor, nu, scale in (
        (sigma2, prior.sigma2_nu, prior.sigma2_scale),
        (sigma2_plant, prior.sigma2_plant_nu, prior.sigma2_plant_scale),
    ):
        kernel = (nu / 2 + 1) * factor.mean_log + 0.5 * nu * scale**2 * factor.mean_inverse
        total = total + np.sum(log_constant(nu, scale) - kernel)
    return float(total + sum(np.sum(factor.entropy()) for factor in q.values()))


def _expected_ss(data: SufficientStatistics, q: Factors) -> FloatArray:
    """E Σ (y - mu_plant)² of each plant."""
    plants = q["mu_plant"]
    return as_floats(data.ss + data.num * ((data.mean - plants.mean) ** 2 + plants.sd**2))


def _expected_plant_ss(q: Factors) -> float:
    """E Σ (mu_plant - mu)²."""
    mu, plants = q["mu"], q["mu_plant"]
    deviation = plants.mean - mu.mean
    return float(deviation @ deviation + np.sum(plants.sd**2) + deviation.size * mu.sd**2)


def extrapolated(q: Factors, log_scales: Sequence[float]) -> Factors:
    """Return q with the scale of q(sigma2) where the last three of a linear sequence point.

    Aitken's limit x2 + (x2 - x1) r / (1 - r) with r = (x2 - x1) / (x1 - x0), the step cut to
    factors of e^4; q unchanged where r is not between 0 and 1. The sweep from there is kept only
    if it raises the ELBO, and only plain sweeps may end the ascent.
    """
    first, second = log_scales[-2] - log_scales[-3], log_scales[-1] - log_scales[-2]
    if first == 0 or not 0 < second / first < 1:
        return q
    r = second / first
    scale = q["sigma2"].scale * np.exp(np.clip(second * r / (1 - r), -4, 4))
    return q | {"sigma2": ScaledInvChiSquare(q["sigma2"].dof, as_floats(scale))}


def movement(before: Factors, after: Factors) -> float:
    """Largest relative change of any parameter of q."""
    moved = []
    for name, to in after.items():
        by = before[name]
        if isinstance(to, Normal):
            moved.append(np.max(np.abs(by.mean - to.mean) / to.sd + np.abs(by.sd / to.sd - 1)))
        else:
            moved.append(np.max(np.abs(by.scale / to.scale - 1)))
    return float(max(moved))


def fit_multilevel_normal(
    statistics: SufficientStatistics,
    prior: MultilevelPrior | None = None,
    *,
    plants: Sequence[Hashable] | None = None,
    tol: float = 1e-10,
    max_iter: int = 10_000,
    record: bool | None = None,
) -> MultilevelVB:
    """Fit the multilevel normal model by coordinate ascent.

    Sweeps go on until the ELBO changes by at most ``tol * max(1, |ELBO|)`` and, because the ELBO
    is flat to second order at its maximum, no parameter moves by more than 1e-9: means relative
    to their factor's sd, scales and sds to themselves.

    Parameters
    ----------
    statistics : SufficientStatistics, shape (P,)
        Of each plant; from ``SufficientStatistics.from_groups`` or ``from_array``.
    prior : MultilevelPrior, optional
        Hyperparameters; ``MultilevelPrior()`` if not given.
    plants : sequence, length P, optional
        The plants' labels, 1 … P if not given.
    tol : float
        Relative change of the ELBO at which sweeps may stop.
    max_iter : int
        Cap on the number of sweeps.
    record : bool, optional
        Keep ``states``; if not given, for 100 plants or fewer. The trace is always kept. Without
        states the same fixed point is approached faster, by Aitken's extrapolation.

    Returns
    -------
    MultilevelVB

    Raises
    ------
    DataError
        If there are no plants, or a plant's posterior is improper under its prior.
    ConfigError
        If `tol`, `max_iter` or the number of labels makes no sense.

    Warns
    -----
    NotConvergedWarning
        If the cap is met first.
    """
    prior = MultilevelPrior() if prior is None else prior
    labels = checked_labels(statistics, prior, plants)
    check_stop_rule(tol, max_iter)
    record = statistics.num.size <= _RECORD_UP_TO if record is None else record
    states: list[State] = []

    def swept(q: Factors) -> Factors:
        for name, update in UPDATES.items():
            q = q | {name: update(statistics, prior, q)}
            if record:
                states.append(State(name, q, as_floats(elbo(statistics, prior, q))))
        return q

    q = start_factors(statistics, prior)
    trace, log_scales = [elbo(statistics, prior, q)], [np.log(q["sigma2"].scale)]
    if record:
        states.append(State("start", q, as_floats(trace[0])))
    converged = False
    while not converged and len(trace) <= max_iter:
        if not record and len(log_scales) > _PLAIN_SWEEPS:
            # The scale of q(sigma2) is the slow direction where the plants' own noise hides sigma2.
            trial = swept(extrapolated(q, log_scales))
            value = elbo(statistics, prior, trial)
            if value > trace[-1]:
                q = trial
                trace.append(value)
            log_scales = [np.log(q["sigma2"].scale)]
            continue
        before, q = q, swept(q)
        trace.append(elbo(statistics, prior, q))
        log_scales.append(np.log(q["sigma2"].scale))
        still = abs(trace[-1] - trace[-2]) <= tol * max(1.0, abs(trace[-1]))
        converged = still and movement(before, q) <= _PARAMETER_TOL
    num_iter = len(trace) - 1
    warn_not_converged(np.asarray(converged), num_iter)
    return MultilevelVB(
        factors=q,
        elbo=as_floats(trace[-1]),
        elbo_trace=as_floats(trace),
        states=tuple(states),
        num_iter=num_iter,
        converged=np.asarray(converged),
        coords={"plant": labels},
        dims={"mu_plant": ("plant",), "sigma2_plant": ("plant",)},
        statistics=statistics,
        prior=prior,
    )
