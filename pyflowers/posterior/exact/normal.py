"""The exact posterior of the normal model with a semi-conjugate prior, by quadrature.

    x_i ~ N(theta, sigma2),  theta ~ N(mu0, tau0²),  sigma2 ~ scaled-inv-χ²(nu0, sigma0²),

theta and sigma2 independent in the prior. Given sigma2, theta is normal and integrates out (BDA3
eq. 5.15 to 5.20), which leaves one integral, over u = log sigma2. With v = e^u,

    p(x, u) = p(v) v · (2 pi v)^(-(n-1)/2) n^(-1/2) e^(-S / (2 v)) · N(x̄; mu0, tau0² + v / n).

In u this is smooth on a scale of one, whatever the data's units, and falls exponentially or faster
on both sides; all of it is computed in logarithms, so no scale over- or underflows. The marginal of
theta is then a mixture of normals over the quadrature's nodes. Accuracy: 1e-8 and mostly 1e-12.

Flat limits are those of :mod:`.normal`: tau0 = inf is p(theta) = 1, nu0 = 0 is
p(sigma2) = 1 / sigma2, and the evidence is relative to these densities.

References
----------
Gelman et al. (2013), Bayesian Data Analysis, 3rd ed., section 5.3 (semi-conjugate) and 3.2.
"""

from collections.abc import Mapping
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from pyflowers.errors import ConfigError, DataError
from pyflowers.posterior.exact.quadrature import FloatArray, PanelRule, find_modes
from pyflowers.posterior.vb.distributions import LOG_2PI, as_floats, log_variance_prior_constant
from pyflowers.posterior.vb.normal import make_problem
from pyflowers.posterior.vb.priors import NormalPrior
from pyflowers.posterior.vb.results import checked_probability
from pyflowers.posterior.vb.statistics import SufficientStatistics

_GRID_POINTS = 401
_LARGEST_LOG = 600.0  # of an sd, far out in tails that are hardly integrable
_GRID_TAIL = 1e-7  # probability that a marginal's grid leaves out on each side


class NormalExact:
    """The exact posterior of (theta, sigma2) of one data set.

    Parameters
    ----------
    x : array, shape (n,), or SufficientStatistics, shape ()
        The observations.
    prior : NormalPrior, optional
        Hyperparameters, scalars; ``NormalPrior()`` if not given.
    location : str
        What to call theta; ``"mu"`` in the model `iid_normal`.

    Attributes
    ----------
    log_evidence : float
        log p(x), with every constant.
    missing_moments : mapping of (name, "mean" or "sd") to str
        Why a moment does not exist; it is nan then.

    Raises
    ------
    DataError
        If the data are a batch, cannot be used, or leave the posterior improper.
    ConfigError
        If the prior is a batch.
    """

    def __init__(
        self,
        x: npt.ArrayLike | SufficientStatistics,
        prior: NormalPrior | None = None,
        *,
        location: str = "theta",
    ) -> None:
        data = x if isinstance(x, SufficientStatistics) else SufficientStatistics.from_array(x)
        if data.num.shape:
            raise DataError(f"x is a batch of {data.num.shape}, but must be one data set")
        problem = make_problem(data, NormalPrior() if prior is None else prior)
        if problem.shape:
            raise ConfigError("the prior holds arrays, but must be that of one data set")
        self.names: tuple[str, ...] = (location, "sigma2")
        self._num, self._mean, self._mu0 = (
            float(a[0]) for a in (problem.num, problem.mean, problem.mu0)
        )
        self._nu0, self._tau0 = float(problem.nu0[0]), float(problem.tau0[0])
        self._constant = float(log_variance_prior_constant(problem.nu0, problem.sigma0)[0])
        with np.errstate(divide="ignore"):
            self._log_num = float(np.log(self._num))
            self._log_tau2 = 2 * float(np.log(self._tau0))
            self._log_ss = float(np.log(problem.known_ss[0]))
            self._log_conflict2 = 2 * float(np.log(np.abs(problem.conflict[0])))
        self._informed = bool(problem.has_conflict[0])
        self._power = self._nu0 + max(self._num - 1, 0)
        self._rule = self._rule_for(0)
        self.log_evidence = self._rule.log_total

    # The integrand, in u = log sigma2

    def _log_joint(self, u: FloatArray) -> FloatArray:
        """Return log p(x, u), theta integrated out."""
        with np.errstate(over="ignore"):
            value = self._constant - 0.5 * (self._power * u + np.exp(self._log_ss - u))
            if self._num > 0:
                value = value - 0.5 * ((self._num - 1) * LOG_2PI + self._log_num)
            if self._informed:
                log_var = np.logaddexp(self._log_tau2, u - self._log_num)
                z2 = np.exp(self._log_conflict2 - log_var)
                value = value - 0.5 * (LOG_2PI + log_var + z2)
        return as_floats(value)

    def _slope(self, u: FloatArray) -> FloatArray:
        """Differentiate :meth:`_log_joint`."""
        with np.errstate(over="ignore"):
            value = -0.5 * self._power + 0.5 * np.exp(self._log_ss - u)
            if self._informed:
                log_var = np.logaddexp(self._log_tau2, u - self._log_num)
                share = np.exp(u - self._log_num - log_var)
                value = value - 0.5 * share * (1 - np.exp(self._log_conflict2 - log_var))
        return as_floats(value)

    @property
    def _tail_dof(self) -> float:
        """The degrees of freedom nu of sigma2's upper tail, v^(-(nu/2 + 1))."""
        return self._power + (1.0 if self._informed else 0.0)

    def _rule_for(self, tilt: int) -> PanelRule:
        """Quadrature for p(x, u) e^(tilt u): the integrand of E[sigma2^tilt]."""
        low = self._log_ss - np.log(self._power + 1) - 1
        log_size = self._log_ss
        if self._informed:
            # The slope is negative for certain above S + n d² + n tau0², by its tail's power.
            log_size = np.logaddexp(log_size, self._log_num + self._log_conflict2)
            log_size = np.logaddexp(log_size, self._log_num + self._log_tau2)
        high = float(log_size - np.log(self._tail_dof - 2 * tilt)) + 1
        modes = find_modes(lambda u: self._slope(u) + tilt, low, high)
        return PanelRule(partial(self._log_tilted, tilt), modes)

    def _log_tilted(self, tilt: int, u: FloatArray) -> FloatArray:
        return as_floats(self._log_joint(u) + tilt * u)

    # theta given u

    def _theta_given(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and sd of theta given log sigma2."""
        if self._num == 0:
            return np.full_like(u, self._mu0), np.full_like(u, self._tau0)
        log_data_precision = self._log_num - u
        log_sd = -0.5 * np.logaddexp(log_data_precision, -self._log_tau2)
        log_odds = log_data_precision + self._log_tau2
        mean = special.expit(log_odds) * self._mean + special.expit(-log_odds) * self._mu0
        return as_floats(mean), as_floats(np.exp(np.minimum(log_sd, _LARGEST_LOG)))

    # What a posterior is asked

    def logpdf(self, theta: npt.ArrayLike, sigma2: npt.ArrayLike) -> FloatArray:
        """Log posterior density at (theta, sigma2), broadcast; for contours."""
        theta, sigma2 = as_floats(theta), as_floats(sigma2)
        with np.errstate(divide="ignore", invalid="ignore"):
            u = np.where(sigma2 > 0, np.log(sigma2), -np.inf)
            mean, sd = self._theta_given(u)
            z = (theta - mean) / sd
            value = self._log_joint(u) - u - self.log_evidence
            value = value - 0.5 * (LOG_2PI + z**2) - np.log(sd)
        return as_floats(np.where(sigma2 > 0, value, -np.inf))

    def pdf(self, name: str, x: npt.ArrayLike) -> FloatArray:
        """Marginal density of a parameter at `x`."""
        x = as_floats(x)
        if self._is_location(name):
            mean, sd = self._theta_given(self._rule.nodes)
            z = (x[..., None] - mean) / sd
            return as_floats(np.exp(-0.5 * (LOG_2PI + z**2)) / sd @ self._rule.weights)
        with np.errstate(divide="ignore", invalid="ignore"):
            u = np.log(x)
            value = np.exp(self._log_joint(u) - u - self.log_evidence)
        return as_floats(np.where(x > 0, value, 0.0))

    def cdf(self, name: str, x: npt.ArrayLike) -> FloatArray:
        """Posterior probability of a value up to `x`."""
        x = as_floats(x)
        if self._is_location(name):
            return self._theta_cdf(x)
        logs = [np.log(value) if value > 0 else -np.inf for value in x.ravel()]
        return np.array([self._rule.cdf(float(u)) for u in logs]).reshape(x.shape)

    def quantile(self, name: str, p: npt.ArrayLike) -> FloatArray:
        """Posterior quantiles, of the shape of `p`.

        Raises
        ------
        ConfigError
            If there is no such parameter or `p` is not a probability.
        """
        p = checked_probability(p)
        one = self._theta_quantile if self._is_location(name) else self._sigma2_quantile
        return np.array([one(float(value)) for value in p.ravel()]).reshape(p.shape)

    def mean(self, name: str) -> FloatArray:
        """Posterior mean, nan where :attr:`missing_moments` has a reason."""
        self._is_location(name)
        return as_floats(self._moments[name][0])

    def sd(self, name: str) -> FloatArray:
        """Posterior standard deviation, nan where :attr:`missing_moments` has a reason."""
        self._is_location(name)
        return as_floats(self._moments[name][1])

    def marginal(self, name: str) -> tuple[FloatArray, FloatArray]:
        """Tabulate a marginal density.

        Returns
        -------
        grid, density : array, shape (401,)
            From the 1e-7 to the 1 - 1e-7 quantile; evenly spaced in theta and in log sigma2.
        """
        low, high = self.quantile(name, [_GRID_TAIL, 1 - _GRID_TAIL])
        spaced = np.linspace if self._is_location(name) else np.geomspace
        grid = as_floats(spaced(low, high, _GRID_POINTS))
        return grid, self.pdf(name, grid)

    def _is_location(self, name: str) -> bool:
        if name not in self.names:
            raise ConfigError(
                f"the posterior has no parameter {name!r}, it has {', '.join(self.names)}"
            )
        return name == self.names[0]

    def _theta_cdf(self, theta: FloatArray) -> FloatArray:
        mean, sd = self._theta_given(self._rule.nodes)
        return as_floats(special.ndtr((theta[..., None] - mean) / sd) @ self._rule.weights)

    def _theta_quantile(self, p: float) -> float:
        if p in (0.0, 1.0):
            return -np.inf if p == 0 else np.inf
        middle = self._theta_given(np.array([self._rule.quantile(0.5)]))
        centre, unit = float(middle[0][0]), float(middle[1][0])

        def excess(z: float) -> float:
            return float(self._theta_cdf(np.array(centre + unit * z))) - p

        low, high = -1.0, 1.0
        while excess(low) > 0:
            low *= 4
        while excess(high) < 0:
            high *= 4
        return centre + unit * float(optimize.brentq(excess, low, high, xtol=1e-13, maxiter=2000))

    def _sigma2_quantile(self, p: float) -> float:
        with np.errstate(over="ignore"):
            return float(np.exp(self._rule.quantile(p)))

    # Moments

    @cached_property
    def missing_moments(self) -> Mapping[tuple[str, str], str]:
        """Why a moment does not exist, by (name, "mean" or "sd")."""
        location, dof = self.names[0], self._tail_dof
        missing = {}
        for moment, needed in (("mean", 2), ("sd", 4)):
            if dof <= needed:
                missing["sigma2", moment] = (
                    f"sigma2 has no posterior {moment}: its upper tail has {dof:g} degrees of "
                    f"freedom, and the {moment} needs more than {needed}"
                )
        if np.isinf(self._tau0):
            for moment, needed in (("mean", 1), ("sd", 2)):
                if dof <= needed:
                    missing[location, moment] = (
                        f"{location} has no posterior {moment}: under its flat prior it has "
                        f"{dof:g} degrees of freedom, and the {moment} needs more than {needed}"
                    )
        return missing

    @cached_property
    def _moments(self) -> dict[str, tuple[float, float]]:
        missing = self.missing_moments
        location = self.names[0]
        rule = self._rule
        given_mean, given_sd = self._theta_given(rule.nodes)
        theta_mean = float(rule.weights @ given_mean)
        between = float(rule.weights @ (given_mean - theta_mean) ** 2)
        nan = float("nan")
        mean = nan if ("sigma2", "mean") in missing else self._mean_power(1)
        if (location, "sd") in missing:
            theta_sd = nan
        elif np.isinf(self._tau0):
            theta_sd = float(np.sqrt(mean / self._num))
        else:
            theta_sd = float(np.sqrt(between + rule.weights @ given_sd**2))
        return {
            location: (nan if (location, "mean") in missing else theta_mean, theta_sd),
            "sigma2": (mean, nan if ("sigma2", "sd") in missing else self._sigma2_sd(mean)),
        }

    def _mean_power(self, power: int) -> float:
        """E[sigma2^power], by a rule of its own: a heavy tail needs wider panels."""
        return float(np.exp(self._rule_for(power).log_total - self.log_evidence))

    def _sigma2_sd(self, mean: float) -> float:
        """E[(sigma2 - mean)²] with the weights of E[sigma2²], free of cancellation."""
        rule = self._rule_for(2)
        log_second = rule.log_total - self.log_evidence
        relative = -np.expm1(np.log(mean) - rule.nodes)
        return float(np.exp(0.5 * log_second) * np.sqrt(rule.weights @ relative**2))
