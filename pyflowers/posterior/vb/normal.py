"""Closed-form mean-field variational Bayes for the normal model with a semi-conjugate prior.

The model, with sigma0 a scale as in Stan's `scaled_inv_chi_square`:

    x_i ~ N(theta, sigma2),  theta ~ N(mu0, tau0²),  sigma2 ~ scaled-inv-χ²(nu0, sigma0²),

theta and sigma2 independent in the prior (BDA3 section 5.3 calls it semi-conjugate). The factors
of q(theta, sigma2) = q(theta) q(sigma2) that maximise the ELBO one at a time are exp E[log p],
E over the other factor (Bishop 2006, eq. 10.9), here with S = Σ(x_i - x̄)²

    q(theta)  = N(mu_n, tau_n²),   tau_n² = 1 / (n / sigma_n² + 1 / tau0²),
                                   mu_n = w x̄ + (1 - w) mu0,   w = (n / sigma_n²) tau_n²,
    q(sigma2) = scaled-inv-χ²(nu0 + n, sigma_n²),
                (nu0 + n) sigma_n² = nu0 sigma0² + S + n (x̄ - mu_n)² + n tau_n².

The last two terms are E Σ(x_i - theta)² - S: dropping n tau_n² forgets that theta is uncertain.
This is *not* Bishop's section 10.1.3 or Murphy's 21.5.1, whose prior theta | sigma2 ~
N(mu0, sigma2 / kappa0) depends on sigma2: theta's prior then is one more observation of sigma2,
and the degrees of freedom are nu0 + n + 1.

Flat limits: tau0 = inf is p(theta) = 1 and nu0 = 0 is p(sigma2) = 1 / sigma2, both unnormalised,
and ELBO and evidence are then relative to these densities.

References
----------
Gelman et al. (2013), Bayesian Data Analysis, 3rd ed., sections 5.3 and 13.7.
Bishop (2006), Pattern Recognition and Machine Learning, eq. 10.9 and section 10.1.3.
Murphy (2012), Machine Learning: a Probabilistic Perspective, section 21.5.1.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pyflowers.errors import ConfigError
from pyflowers.posterior.vb.distributions import FloatArray, Normal, ScaledInvChiSquare, as_floats
from pyflowers.posterior.vb.normal_ascent import (
    Problem,
    Run,
    Start,
    Theta,
    ascend,
    best_start,
    check_problem,
)
from pyflowers.posterior.vb.priors import NormalPrior
from pyflowers.posterior.vb.results import State, VBResult, check_stop_rule, warn_not_converged
from pyflowers.posterior.vb.statistics import SufficientStatistics


@dataclass(frozen=True, kw_only=True, repr=False)
class NormalVB(VBResult):
    """A fit of :func:`fit_normal`: factors ``theta`` and ``sigma2``.

    Parameters
    ----------
    statistics : SufficientStatistics
        The data that were fitted.
    prior : NormalPrior
        The prior that was used.
    """

    statistics: SufficientStatistics
    prior: NormalPrior

    def log_q(self, theta: npt.ArrayLike, sigma2: npt.ArrayLike) -> FloatArray:
        """Log density of q at (theta, sigma2), for contours."""
        return self.logpdf("theta", theta) + self.logpdf("sigma2", sigma2)


def fit_normal(
    x: npt.ArrayLike | SufficientStatistics,
    prior: NormalPrior | None = None,
    *,
    init: tuple[Normal, ScaledInvChiSquare] | None = None,
    tol: float = 1e-10,
    max_iter: int = 1000,
    record: bool | None = None,
) -> NormalVB:
    """Fit q(theta) q(sigma2) by coordinate ascent.

    Each sweep updates q(theta), then q(sigma2), until the ELBO changes by at most
    ``tol * max(1, |ELBO|)``. The ELBO is flat to second order at its maximum, so that rule
    alone would leave parameters wrong in the sixth digit: :mod:`.normal_ascent` says
    how the sweep's fixed point is then taken to rounding error.

    Parameters
    ----------
    x : array, shape (..., n), or SufficientStatistics, shape (...)
        Observations of one data set, or of a batch along the leading axes.
    prior : NormalPrior, optional
        Hyperparameters, which broadcast against the batch; ``NormalPrior()`` if not given.
    init : (Normal, ScaledInvChiSquare), optional
        Where to start. The ELBO can have two maxima when prior and data disagree about theta:
        ascent goes to the one whose basin holds `init`; without it, to the higher.
    tol : float
        Relative change of the ELBO at which sweeps stop.
    max_iter : int
        Cap on the number of sweeps.
    record : bool, optional
        Keep ``elbo_trace`` and ``states``; as given, or for a single data set only.

    Returns
    -------
    NormalVB

    Raises
    ------
    DataError
        If the data cannot be used or leave the posterior improper.
    ConfigError
        If `tol`, `max_iter`, or the shapes of `prior` or `init` make no sense.

    Warns
    -----
    NotConvergedWarning
        If the cap is met first; ``converged`` then says which fits are concerned.
    """
    prior = NormalPrior() if prior is None else prior
    statistics = x if isinstance(x, SufficientStatistics) else SufficientStatistics.from_array(x)
    check_stop_rule(tol, max_iter)
    problem = make_problem(statistics, prior)
    start = best_start(problem, tol, max_iter) if init is None else _given_start(problem, init)
    record = not problem.shape if record is None else record
    run = ascend(problem, start, tol=tol, max_iter=max_iter, record=record)
    warn_not_converged(run.converged, run.num_iter)
    return _result(run, problem, statistics, prior)


def make_problem(statistics: SufficientStatistics, prior: NormalPrior) -> Problem:
    """Broadcast data and prior, and refuse an improper posterior.

    Raises
    ------
    ConfigError
        If the shapes of data and prior do not broadcast.
    DataError
        If a posterior is improper.
    """
    values = (statistics.num, statistics.mean, statistics.ss)
    hyper = tuple(as_floats(v) for v in (prior.mu0, prior.tau0, prior.nu0, prior.sigma0))
    try:
        arrays = np.broadcast_arrays(*values, *hyper)
    except ValueError as error:
        raise ConfigError(
            f"the prior's shape must broadcast against the batch, {statistics.num.shape}"
        ) from error
    problem = Problem(arrays[0].shape, *(as_floats(a).ravel() for a in arrays))
    check_problem(problem)
    return problem


def _given_start(problem: Problem, init: tuple[Normal, ScaledInvChiSquare]) -> Start:
    theta, sigma2 = init
    values = tuple(as_floats(v) for v in (theta.mean, theta.sd, sigma2.dof, sigma2.scale))
    try:
        mean, sd, dof, scale = (np.broadcast_to(v, problem.shape).ravel() for v in values)
    except ValueError as error:
        raise ConfigError(
            f"init's shape must broadcast to that of the batch, {problem.shape}"
        ) from error
    good = np.isfinite(mean) & (sd > 0) & (dof > 0) & (scale >= 1e-150) & (scale <= 1e150)
    if not np.all(good & np.isfinite(sd) & np.isfinite(dof)):
        raise ConfigError("init must hold a finite mean and a positive sd, dof and scale")
    from_data = np.where(problem.num > 0, mean - problem.mean, 0.0)
    from_prior = np.where(np.isfinite(problem.tau0), mean - problem.mu0, 0.0)
    return Theta(mean, sd, from_data, from_prior), ScaledInvChiSquare(dof, scale)


def _result(
    run: Run, problem: Problem, statistics: SufficientStatistics, prior: NormalPrior
) -> NormalVB:
    """Give a flat run the shape of the batch."""
    shape = problem.shape

    def shaped(theta: Normal, sigma2: ScaledInvChiSquare) -> dict[str, Normal | ScaledInvChiSquare]:
        return {
            "theta": Normal(theta.mean.reshape(shape), theta.sd.reshape(shape)),
            "sigma2": ScaledInvChiSquare(sigma2.dof.reshape(shape), sigma2.scale.reshape(shape)),
        }

    axes = [f"dataset_{i}" if len(shape) > 1 else "dataset" for i in range(len(shape))]
    return NormalVB(
        factors=shaped(run.theta, run.sigma2),
        elbo=run.elbo.reshape(shape),
        elbo_trace=np.array([e.reshape(shape) for e in run.trace]).reshape(-1, *shape),
        states=tuple(
            State(updated, shaped(theta, sigma2), elbo.reshape(shape))
            for updated, theta, sigma2, elbo in run.states
        ),
        num_iter=run.num_iter,
        converged=run.converged.reshape(shape),
        coords={axis: range(num) for axis, num in zip(axes, shape, strict=True)},
        dims={"theta": axes, "sigma2": axes},
        statistics=statistics,
        prior=prior,
    )
