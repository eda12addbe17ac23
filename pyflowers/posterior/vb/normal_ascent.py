"""Coordinate ascent for the normal model, vectorised over data sets.

One sweep of the updates of :mod:`.normal` is a map G of the scalar s = sigma_n²,
and G is increasing: a larger s widens q(theta) and pulls it to mu0, and both increase the next s.
So from any start the sweeps move one way, to the nearest fixed point on that side. Fixed points
are the positive roots of a cubic, hence one, or two maxima of the ELBO with a saddle between.

The stop rule is the usual one, a relative change of the ELBO. As the ELBO is flat to second order
at its maximum, a change of 1e-10 leaves parameters wrong by up to 1e-5. So the fixed point is then
polished: Newton's method on the scalar equation log G(s) - log s = 0, which needs two or three
steps, each a sweep extrapolated by 1 / (1 - d log G / d log s), with a plain sweep wherever that
slope is 1 or more. One last sweep makes both factors each other's update. The same fixed point is
reached as by sweeping on for long, with an error of rounding, and the stop rule stays the ELBO's.

References
----------
Bishop (2006), Pattern Recognition and Machine Learning, section 10.1.1, for the ascent.
"""

from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from pyflowers.errors import DataError
from pyflowers.posterior.vb.distributions import (
    LOG_2PI,
    FloatArray,
    Normal,
    ScaledInvChiSquare,
    as_floats,
    log_variance_prior_constant,
)
from pyflowers.posterior.vb.results import BoolArray

_POLISH_STEPS = 60
_POLISHED = 1e-15  # of |log G(s) - log s|: a few units in the last place


@dataclass(frozen=True)
class Theta(Normal):
    """q(theta) with its mean's distances, which subtraction would lose to rounding.

    Parameters
    ----------
    mean, sd : array, shape (B,)
        As in :class:`Normal`.
    from_data, from_prior : array, shape (B,)
        mu_n - x̄ and mu_n - mu0; 0 where there is no data, or no prior mean.
    """

    from_data: FloatArray
    from_prior: FloatArray


Start = tuple[Theta, ScaledInvChiSquare]
StateTuple = tuple[str, Theta, ScaledInvChiSquare, FloatArray]


@dataclass(frozen=True)
class Problem:
    """Data and hyperparameters of a batch, flattened to shape (B,); `shape` is the batch's."""

    shape: tuple[int, ...]
    num: FloatArray
    mean: FloatArray
    ss: FloatArray
    mu0: FloatArray
    tau0: FloatArray
    nu0: FloatArray
    sigma0: FloatArray

    @property
    def dof(self) -> FloatArray:
        """Degrees of freedom of q(sigma2): nu0 + n, not nu0 + n + 1."""
        return self.nu0 + self.num

    @property
    def known_ss(self) -> FloatArray:
        """What is in (nu0 + n) sigma_n² whatever q(theta) is: nu0 sigma0² + S."""
        return as_floats(self.ss + np.where(self.nu0 > 0, self.nu0 * self.sigma0**2, 0.0))

    @property
    def precision0(self) -> FloatArray:
        """Prior precision of theta; 0 if flat."""
        return self.tau0**-2.0

    @property
    def conflict(self) -> FloatArray:
        """How far the data's mean is from the prior's; 0 where one of them is missing."""
        return as_floats(np.where(self.has_conflict, self.mean - self.mu0, 0.0))

    @property
    def has_conflict(self) -> BoolArray:
        """Where there is both a data mean and a prior mean."""
        return (self.num > 0) & np.isfinite(self.tau0)

    def take(self, index: npt.NDArray[np.intp]) -> "Problem":
        """Return some of the data sets."""
        arrays = {f.name: getattr(self, f.name)[index] for f in fields(self) if f.name != "shape"}
        return replace(self, shape=index.shape, **arrays)


@dataclass(frozen=True)
class Run:
    """Where an ascent ended, flat over the batch, and what it recorded on the way."""

    theta: Theta
    sigma2: ScaledInvChiSquare
    elbo: FloatArray
    converged: BoolArray
    num_iter: int
    trace: tuple[FloatArray, ...] = ()
    states: tuple[StateTuple, ...] = ()


def check_problem(problem: Problem) -> None:
    """Refuse data sets whose posterior is improper.

    Integrating theta out given sigma2, then sigma2, shows what is integrable: with n = 0 the
    posterior is the prior; with nu0 = 0 and S = 0 the density has a pole at theta = x̄; with both
    priors flat there are nu0 + n - 1 degrees of freedom.

    Raises
    ------
    DataError
        Naming the first such data set, and the prior that would help.
    """
    flat_theta, flat_sigma2 = np.isinf(problem.tau0), problem.nu0 == 0
    for bad, what in (
        (flat_theta & (problem.num == 0), "no observations: give a finite tau0"),
        (flat_sigma2 & (problem.num == 0), "no observations: give a positive nu0"),
        (
            flat_sigma2 & (problem.ss == 0),
            "one observation or only equal ones: give a positive nu0 and sigma0",
        ),
    ):
        if np.any(bad):
            raise DataError(
                f"{_place(problem, bad)}the posterior is improper under a flat prior with {what}"
            )
    with np.errstate(over="ignore", divide="ignore"):
        largest = problem.known_ss + problem.num * problem.conflict**2
        smallest = problem.num * problem.dof / problem.known_ss
    if np.any(extreme := ~(np.isfinite(largest) & np.isfinite(smallest))):
        raise DataError(
            f"{_place(problem, extreme)}the scales of data and prior are too extreme to square: "
            "rescale both"
        )


def _place(problem: Problem, bad: BoolArray) -> str:
    return f"data set {int(np.argmax(bad))}: " if problem.shape else ""


def update_theta(problem: Problem, sigma2: ScaledInvChiSquare) -> Theta:
    """Optimal q(theta) given q(sigma2)."""
    data_precision = problem.num / sigma2.scale**2
    precision = data_precision + problem.precision0
    w, w0 = data_precision / precision, problem.precision0 / precision
    mean = w * problem.mean + w0 * problem.mu0
    return Theta(mean, precision**-0.5, -w0 * problem.conflict, w * problem.conflict)


def update_sigma2(problem: Problem, theta: Theta) -> ScaledInvChiSquare:
    """Optimal q(sigma2) given q(theta)."""
    num = problem.num
    ss = problem.known_ss + num * theta.from_data**2 + num * theta.sd**2
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
    log_sigma2 = log_variance_prior_constant(problem.nu0, problem.sigma0)
    log_sigma2 = log_sigma2 - (problem.nu0 / 2 + 1) * mean_log
    return as_floats(log_lik + log_theta + log_sigma2 + theta.entropy() + sigma2.entropy())


def ascend(problem: Problem, start: Start, *, tol: float, max_iter: int, record: bool) -> Run:
    """Sweep until the ELBO stops changing, then polish the fixed point.

    Only data sets that still move are updated, unless `record` keeps every state of all.
    """
    theta, sigma2 = start
    value = elbo(problem, theta, sigma2)
    log: list[StateTuple] = [("start", theta, sigma2, value)] if record else []
    moving = np.arange(value.size)
    scale, done = sigma2.scale.copy(), np.zeros(value.size, dtype=bool)
    num_iter, part = 0, problem
    while moving.size and num_iter < max_iter:
        theta, sigma2, new = _sweep(part, sigma2, log if record else None)
        num_iter += 1
        stop = np.abs(new - value) <= tol * np.maximum(1.0, np.abs(new))
        scale[moving] = sigma2.scale
        done[moving] = stop
        value = new
        if np.all(stop):
            break
        if not record and np.any(stop):
            keep = ~stop
            moving, value = moving[keep], value[keep]
            part = problem.take(moving)
            sigma2 = ScaledInvChiSquare(sigma2.dof[keep], sigma2.scale[keep])
    s, polished = polish(problem, scale**2)
    end = ScaledInvChiSquare(problem.dof, np.sqrt(np.where(done, s, scale**2)))
    theta, sigma2, value = _sweep(problem, end, log if record else None)
    trace = tuple(entry[3] for entry in log if entry[0] != "theta")
    return Run(theta, sigma2, value, done & polished, num_iter + 1, trace, tuple(log))


def polish(problem: Problem, s: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Newton's method for log G(s) = log s, from near the root; G is one sweep.

    Returns
    -------
    s : array, shape (B,)
        The fixed point.
    found : array of bool, shape (B,)
        Whether its residual is at rounding error.
    """
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


def best_start(problem: Problem, tol: float, max_iter: int) -> Start:
    """Where ascent reaches the highest maximum: below all fixed points, or above them.

    From below is from sigma_n² = (nu0 sigma0² + S) / (nu0 + n), the data's own variance; from
    above is from w = 0, theta at its prior. The second can win only where the fixed points' cubic

        A n² λ³ + (2 A n a + n² - ν n²) λ² + (A a² + n a² d² + n a - 2 ν n a) λ - ν a² = 0

    in λ = 1 / sigma_n², with A = nu0 sigma0² + S, a = 1 / tau0², d = x̄ - mu0 and ν = nu0 + n,
    changes its sign three times (Descartes), and is tried only there.
    """
    low = problem.known_ss / problem.dof
    a, num, dof = problem.precision0, problem.num, problem.dof
    with np.errstate(over="ignore"):
        third = 2 * problem.known_ss * a + num < dof * num
        third &= problem.known_ss * a + num * a * problem.conflict**2 + num > 2 * dof * num
    index = np.flatnonzero(third & problem.has_conflict)
    if index.size:
        part = problem.take(index)
        spread = part.num * (part.conflict**2 + part.tau0**2)
        candidates = (low[index], (part.known_ss + spread) / part.dof)
        runs = [
            ascend(part, _start_at(part, s), tol=tol, max_iter=max_iter, record=False)
            for s in candidates
        ]
        low[index] = np.where(runs[1].elbo > runs[0].elbo, candidates[1], candidates[0])
    return _start_at(problem, low)


def _start_at(problem: Problem, s: FloatArray) -> Start:
    sigma2 = ScaledInvChiSquare(problem.dof, np.sqrt(s))
    return update_theta(problem, sigma2), sigma2


def _sweep(
    problem: Problem, sigma2: ScaledInvChiSquare, log: list[StateTuple] | None
) -> tuple[Theta, ScaledInvChiSquare, FloatArray]:
    """Update q(theta), then q(sigma2)."""
    theta = update_theta(problem, sigma2)
    if log is not None:
        log.append(("theta", theta, sigma2, elbo(problem, theta, sigma2)))
    sigma2 = update_sigma2(problem, theta)
    value = elbo(problem, theta, sigma2)
    if log is not None:
        log.append(("sigma2", theta, sigma2, value))
    return theta, sigma2, value
