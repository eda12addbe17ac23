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

import numpy as np

from pyflowers.errors import ConfigError, DataError
from pyflowers.posterior.vb.distributions import as_floats
from pyflowers.posterior.vb.multilevel_updates import (
    UPDATES,
    Factors,
    elbo,
    extrapolated,
    movement,
    start_factors,
)
from pyflowers.posterior.vb.priors import MultilevelPrior
from pyflowers.posterior.vb.results import State, VBResult, check_stop_rule, warn_not_converged
from pyflowers.posterior.vb.statistics import SufficientStatistics

_PARAMETER_TOL = 1e-9
_PLAIN_SWEEPS = 3  # between extrapolations
_RECORD_UP_TO = 100  # plants; states of more are kept on request only


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
    labels = plant_labels(statistics, plants)
    check_plants(statistics, prior, labels)
    check_stop_rule(tol, max_iter)
    record = statistics.num.size <= _RECORD_UP_TO if record is None else record
    start = start_factors(statistics, prior)
    run = _ascend if record else _ascend_faster
    q, trace, states, converged = run(statistics, prior, start, tol, max_iter)
    num_iter = len(trace) - 1
    warn_not_converged(np.asarray(converged), num_iter)
    return MultilevelVB(
        factors=q.as_dict(),
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


_Run = tuple[Factors, list[float], list[State], bool]


def _ascend(
    data: SufficientStatistics, prior: MultilevelPrior, q: Factors, tol: float, max_iter: int
) -> _Run:
    """Plain sweeps, every state kept."""
    trace = [elbo(data, prior, q)]
    states = [State("start", q.as_dict(), as_floats(trace[0]))]
    while len(trace) <= max_iter:
        before = q
        for name, update in UPDATES.items():
            q = update(data, prior, q)
            states.append(State(name, q.as_dict(), as_floats(elbo(data, prior, q))))
        trace.append(float(states[-1].elbo))
        if _stands_still(trace, before, q, tol):
            return q, trace, states, True
    return q, trace, states, False


def _ascend_faster(
    data: SufficientStatistics, prior: MultilevelPrior, q: Factors, tol: float, max_iter: int
) -> _Run:
    """Sweeps with Aitken's extrapolation of log sigma2's scale after every third.

    That scale is the slow direction when the plants' own noise hides sigma2. A sweep from the
    extrapolated scale is kept only if it raises the ELBO, and only plain sweeps may end the ascent.
    """
    trace, log_scales = [elbo(data, prior, q)], [float(np.log(q.sigma2.scale))]
    while len(trace) <= max_iter:
        if len(log_scales) > _PLAIN_SWEEPS:
            trial = _sweep(data, prior, extrapolated(q, log_scales))
            value = elbo(data, prior, trial)
            if value > trace[-1]:
                q = trial
                trace.append(value)
            log_scales = [float(np.log(q.sigma2.scale))]
            continue
        before, q = q, _sweep(data, prior, q)
        trace.append(elbo(data, prior, q))
        log_scales.append(float(np.log(q.sigma2.scale)))
        if _stands_still(trace, before, q, tol):
            return q, trace, [], True
    return q, trace, [], False


def _sweep(data: SufficientStatistics, prior: MultilevelPrior, q: Factors) -> Factors:
    for update in UPDATES.values():
        q = update(data, prior, q)
    return q


def _stands_still(trace: list[float], before: Factors, after: Factors, tol: float) -> bool:
    still = abs(trace[-1] - trace[-2]) <= tol * max(1.0, abs(trace[-1]))
    return still and movement(before, after) <= _PARAMETER_TOL


def plant_labels(
    statistics: SufficientStatistics, plants: Sequence[Hashable] | None
) -> tuple[Hashable, ...]:
    """Labels as given, or 1 … P.

    Raises
    ------
    DataError
        If the statistics are not those of one or more plants.
    ConfigError
        If there is not one label a plant.
    """
    if statistics.num.ndim != 1 or statistics.num.size == 0:
        raise DataError(
            f"statistics have shape {statistics.num.shape}, but must have one entry a plant"
        )
    labels = tuple(range(1, statistics.num.size + 1)) if plants is None else tuple(plants)
    if len(labels) != statistics.num.size:
        raise ConfigError(f"{len(labels)} plant labels for {statistics.num.size} plants")
    return labels


def check_plants(
    statistics: SufficientStatistics, prior: MultilevelPrior, labels: Sequence[Hashable]
) -> None:
    """Refuse plants whose posterior is improper under an improper prior on sigma2_plant.

    Integrating sigma2_plant out leaves (S + n (ȳ - mu_plant)²)^(-(n + nu)/2), which needs
    n + nu > 0 for the tail, and S > 0 for the pole at mu_plant = ȳ. With a proper prior S becomes
    nu c² + S, and nothing can go wrong.

    Raises
    ------
    DataError
        Naming the first such plant and the remedy.
    """
    if prior.sigma2_plant_nu > 0:
        return
    remedy = "give sigma2_plant a proper prior, such as sigma2_plant_nu=1 with sigma2_plant_scale=2"
    few = statistics.num + prior.sigma2_plant_nu <= 0
    if np.any(few):
        p = int(np.argmax(few))
        raise DataError(
            f"plant {labels[p]}: {statistics.num[p]:g} observations leave sigma2_plant without a "
            f"proper posterior under its flat prior; add observations or {remedy}"
        )
    constant = statistics.ss == 0
    if np.any(constant):
        raise DataError(
            f"plant {labels[int(np.argmax(constant))]}: all observations are equal, which leaves "
            f"sigma2_plant without a proper posterior under its flat prior; {remedy}"
        )
