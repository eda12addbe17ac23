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

One sweep of these updates is a map G of the scalar s = sigma_n², and G is increasing: a larger s
widens q(theta) and pulls it to mu0, and both increase the next s. So from any start the sweeps move
one way, to the nearest fixed point on that side. Fixed points are the positive roots of a cubic,
hence one, or two maxima of the ELBO with a saddle between: the ascent starts below all of them or
above all of them, wherever the higher one is reached.

The stop rule is the usual one, a relative change of the ELBO. As the ELBO is flat to second order
at its maximum, a change of 1e-10 leaves parameters wrong by up to 1e-5. So the fixed point is then
polished: Newton's method on the scalar equation log G(s) - log s = 0, which needs two or three
steps, each a sweep extrapolated by 1 / (1 - d log G / d log s), with a plain sweep wherever that
slope is 1 or more. One last sweep makes both factors each other's update. The same fixed point is
reached as by sweeping on for long, with an error of rounding, and the stop rule stays the ELBO's.

Flat limits: tau0 = inf is p(theta) = 1 and nu0 = 0 is p(sigma2) = 1 / sigma2, both unnormalised,
and ELBO and evidence are then relative to these densities.

References
----------
Gelman et al. (2013), Bayesian Data Analysis, 3rd ed., sections 5.3 and 13.7.
Bishop (2006), Pattern Recognition and Machine Learning, eq. 10.9 and sections 10.1.1, 10.1.3.
Murphy (2012), Machine Learning: a Probabilistic Perspective, section 21.5.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pyflowers.errors import ConfigError, DataError
from pyflowers.posterior.distributions import (
    LOG_2PI,
    BoolArray,
    FloatArray,
    Normal,
    NormalPrior,
    ScaledInvChiSquare,
    SufficientStatistics,
    as_floats,
    log_constant,
)
from pyflowers.posterior.mean_field import State, VBResult, check_stop_rule, warn_not_converged

_POLISH_STEPS = 60
_POLISHED = 1e-15  # of |log G(s) - log s|: a few units in the last place


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


@dataclass(frozen=True)
class Problem:
    """Data and hyperparameters, all of the batch's shape."""

    num: FloatArray
    mean: FloatArray
    ss: FloatArray
    mu0: FloatArray
    tau0: FloatArray
    nu0: FloatArray
    sigma0: FloatArray

    @classmethod
    def of(cls, data: SufficientStatistics, prior: NormalPrior) -> Problem:
        """Broadcast data and prior, and refuse an improper posterior.

        Integrating theta out given sigma2, then sigma2, shows what is integrable: with n = 0 the
        posterior is the prior; with nu0 = 0 and S = 0 the density has a pole at theta = x̄; with
        both priors flat there are nu0 + n - 1 degrees of freedom.

        Raises
        ------
        ConfigError
            If the shapes of data and prior do not broadcast.
        DataError
            Naming the first data set with an improper posterior, and the prior that would help.
        """
        hyper = map(as_floats, (prior.mu0, prior.tau0, prior.nu0, prior.sigma0))
        try:
            arrays = np.broadcast_arrays(data.num, data.mean, data.ss, *hyper)
        except ValueError as error:
            raise ConfigError(
                f"the prior's shape must broadcast against the batch, {data.num.shape}"
            ) from error
        one = cls(*map(as_floats, arrays))
        flat = "the posterior is improper under a flat prior with"
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            largest = one.known_ss + one.num * one.conflict**2
            smallest = one.num * one.dof / one.known_ss
        for bad, what in (
            (
                np.isinf(one.tau0) & (one.num == 0),
                f"{flat} no observations: give a finite tau0",
            ),
            ((one.nu0 == 0) & (one.num == 0), f"{flat} no observations: give a positive nu0"),
            (
                (one.nu0 == 0) & (one.ss == 0),
                f"{flat} one observation or only equal ones: give a positive nu0 and sigma0",
            ),
            (
                ~(np.isfinite(largest) & np.isfinite(smallest)),
                "the scales of data and prior are too extreme to square: rescale both",
            ),
        ):
            if np.any(bad):
                place = f"data set {int(np.argmax(bad))}: " if bad.shape else ""
                raise DataError(place + what)
        return one

    @property
    def dof(self) -> FloatArray:
        """Degrees of freedom of q(sigma2): nu0 + n, not nu0 + n + 1."""
        return self.nu0 + self.num

    @cached_property
    def known_ss(self) -> FloatArray:
        """What is in (nu0 + n) sigma_n² whatever q(theta) is: nu0 sigma0² + S."""
        return as_floats(self.ss + np.where(self.nu0 > 0, self.nu0 * self.sigma0**2, 0.0))

    @cached_property
    def precision0(self) -> FloatArray:
        """Prior precision of theta; 0 if flat."""
        return self.tau0**-2.0

    @cached_property
    def has_conflict(self) -> BoolArray:
        """Where there is both a data mean and a prior mean."""
        return (self.num > 0) & np.isfinite(self.tau0)

    @cached_property
    def conflict(self) -> FloatArray:
        """How far the data's mean is from the prior's; 0 where one of them is missing."""
        return as_floats(np.where(self.has_conflict, self.mean - self.mu0, 0.0))


@dataclass(frozen=True)
class Theta(Normal):
    """q(theta) with its mean's distances, which subtraction would lose to rounding.

    `from_data` and `from_prior` are mu_n - x̄ and mu_n - mu0; 0 where there is no data, or no prior
    mean.
    """

    from_data: FloatArray
    from_prior: FloatArray


def update_theta(problem: Problem, sigma2: ScaledInvChiSquare) -> Theta:
    """Optimal q(theta) given q(sigma2)."""
    data_precision = problem.num / sigma2.scale**2
    precision = data_precision + problem.precision0
    w, w0 = data_precision / precision, problem.precision0 / precision
    mean = w * problem.mean + w0 * problem.mu0
    return Theta(mean, precision**-0.5, -w0 * problem.conflict, w * problem.conflict)


def update_sigma2(problem: Problem, theta: Theta) -> ScaledInvChiSquare:
    """Optimal q(sigma2) given q(theta)."""
    ss = problem.known_ss + problem.num * (theta.from_data**2 + theta.sd**2)
    return ScaledInvChiSquare(problem.dof, np.sqrt(ss / problem.dof))


def elbo(problem: Problem, theta: Theta, sigma2: ScaledInvChiSquare) -> FloatArray:
    """Evidence lower bound of any q(theta) q(sigma2), with every constant.

    E log p(x | theta, sigma2) + E log p(theta) + E log p(sigma2) + H[q(theta)] + H[q(sigma2)].
    """
    mean_log, num = sigma2.mean_log, problem.num
    squares = problem.known_ss + num * (theta.from_data**2 + theta.sd**2)
    log_lik = -0.5 * num * (LOG_2PI + mean_log) - 0.5 * squares / sigma2.scale**2
    flat = np.isinf(problem.tau0)
    tau0 = np.where(flat, 1.0, problem.tau0)
    z2 = (theta.from_prior / tau0) ** 2 + (theta.sd / tau0) ** 2
    log_theta = np.where(flat, 0.0, -0.5 * (LOG_2PI + z2) - np.log(tau0))
    # nu0 sigma0² E[1 / sigma2] is in log_lik already, as a part of known_ss.
    log_sigma2 = log_constant(problem.nu0, problem.sigma0) - (problem.nu0 / 2 + 1) * mean_log
    return as_floats(log_lik + log_theta + log_sigma2 + theta.entropy() + sigma2.entropy())


Run = tuple[Theta, ScaledInvChiSquare, FloatArray, BoolArray, int]
"""Both factors, the ELBO, where the ascent converged, and the number of sweeps."""


def _ascend(
    problem: Problem,
    theta: Theta,
    sigma2: ScaledInvChiSquare,
    tol: float,
    max_iter: int,
    states: list[State] | None = None,
) -> Run:
    """Sweep until the ELBO stops changing, then polish the fixed point; keep `states` if given."""

    def reached(updated: str, theta: Theta, sigma2: ScaledInvChiSquare) -> FloatArray:
        value = elbo(problem, theta, sigma2)
        if states is not None:
            factors = {"theta": Normal(theta.mean, theta.sd)}
            states.append(State(updated, {**factors, "sigma2": sigma2}, value))
        return value

    def sweep(sigma2: ScaledInvChiSquare) -> tuple[Theta, ScaledInvChiSquare, FloatArray]:
        theta = update_theta(problem, sigma2)
        if states is not None:
            reached("theta", theta, sigma2)
        sigma2 = update_sigma2(problem, theta)
        return theta, sigma2, reached("sigma2", theta, sigma2)

    value, num_iter = reached("start", theta, sigma2), 0
    still = np.zeros(value.shape, dtype=bool)
    while not np.all(still) and num_iter < max_iter:
        before = value
        theta, sigma2, value = sweep(sigma2)
        still = np.abs(value - before) <= tol * np.maximum(1.0, np.abs(value))
        num_iter += 1
    s, polished = _polished(problem, sigma2.scale**2)
    end = ScaledInvChiSquare(problem.dof, np.where(still, np.sqrt(s), sigma2.scale))
    return (*sweep(end), still & polished, num_iter + 1)


def _polished(problem: Problem, s: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Newton's method for log G(s) = log s; also return where the residual is at rounding error."""
    dof, num, conflict = problem.dof, problem.num, problem.conflict
    previous = np.full_like(s, np.inf)
    for _ in range(_POLISH_STEPS):
        tau2 = 1 / (num / s + problem.precision0)
        misfit = problem.precision0 * tau2 * conflict
        sweep = (problem.known_ss + num * misfit**2 + num * tau2) / dof
        residual = np.log1p((sweep - s) / s)
        # d tau2 / d s = n tau2² / s², and d misfit / d tau2 = misfit / tau2.
        w = num / s * tau2
        slope = num * (2 * misfit**2 + tau2) * w / (dof * sweep)
        active = (np.abs(residual) > _POLISHED) & (np.abs(residual) < previous)
        if not np.any(active):
            break
        previous = np.where(active, np.abs(residual), previous)
        step = residual / np.where(slope < 1, 1 - slope, 1.0)
        s = np.where(active, s * np.exp(np.clip(step, -1, 1)), s)
    return s, np.abs(residual) <= 1e-13


def _best_start(problem: Problem, tol: float, max_iter: int) -> tuple[Theta, ScaledInvChiSquare]:
    """From which the highest maximum is reached: from below all fixed points, or from above them.

    From below is from the data's own variance, from above from w = 0, theta at its prior. The
    second can win only where the fixed points' cubic

        A n² λ³ + (2 A n a + n² - ν n²) λ² + (A a² + n a² d² + n a - 2 ν n a) λ - ν a² = 0

    in λ = 1 / sigma_n², with A = nu0 sigma0² + S, a = 1 / tau0², d = x̄ - mu0 and ν = nu0 + n,
    changes its sign three times (Descartes), and is tried only if there is such a data set.
    """
    known, num, dof, a = problem.known_ss, problem.num, problem.dof, problem.precision0
    with np.errstate(over="ignore"):
        third = problem.has_conflict & (2 * known * a + num < dof * num)
        third &= known * a + num * a * problem.conflict**2 + num > 2 * dof * num

    def start(ss: FloatArray) -> tuple[Theta, ScaledInvChiSquare]:
        sigma2 = ScaledInvChiSquare(dof, np.sqrt(ss / dof))
        return update_theta(problem, sigma2), sigma2

    if not np.any(third):
        return start(known)
    above = known + np.where(third, num * (problem.conflict**2 + problem.tau0**2), 0.0)
    lower, higher = (_ascend(problem, *start(ss), tol, max_iter)[2] for ss in (known, above))
    return start(np.where(third & (higher > lower), above, known))


def _given_start(
    problem: Problem, init: tuple[Normal, ScaledInvChiSquare]
) -> tuple[Theta, ScaledInvChiSquare]:
    theta, sigma2 = init
    values = map(as_floats, (theta.mean, theta.sd, sigma2.dof, sigma2.scale))
    try:
        mean, sd, dof, scale = (np.broadcast_to(v, problem.num.shape) for v in values)
    except ValueError as error:
        raise ConfigError(
            f"init's shape must broadcast to that of the batch, {problem.num.shape}"
        ) from error
    good = np.isfinite(mean) & (sd > 0) & (dof > 0) & (scale >= 1e-150) & (scale <= 1e150)
    if not np.all(good & np.isfinite(sd) & np.isfinite(dof)):
        raise ConfigError("init must hold a finite mean and a positive sd, dof and scale")
    from_data = np.where(problem.num > 0, mean - problem.mean, 0.0)
    from_prior = np.where(np.isfinite(problem.tau0), mean - problem.mu0, 0.0)
    return Theta(mean, sd, from_data, from_prior), ScaledInvChiSquare(dof, scale)


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
    alone would leave parameters wrong in the sixth digit: the sweep's fixed point is then taken to
    rounding error by Newton's method.

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
    problem = Problem.of(statistics, prior)
    shape = problem.num.shape
    start = _given_start(problem, init) if init else _best_start(problem, tol, max_iter)
    record = not shape if record is None else record
    states: list[State] = []
    theta, sigma2, value, converged, num_iter = _ascend(
        problem, *start, tol, max_iter, states if record else None
    )
    warn_not_converged(converged, num_iter)
    axes = [f"dataset_{i}" if len(shape) > 1 else "dataset" for i in range(len(shape))]
    trace = [state.elbo for state in states if state.updated != "theta"]
    return NormalVB(
        factors={"theta": Normal(theta.mean, theta.sd), "sigma2": sigma2},
        elbo=value,
        elbo_trace=np.reshape(trace, (-1, *shape)),
        states=tuple(states),
        num_iter=num_iter,
        converged=converged,
        coords={axis: range(num) for axis, num in zip(axes, shape, strict=True)},
        dims={"theta": axes, "sigma2": axes},
        statistics=statistics,
        prior=prior,
    )
