"""The exact posterior of the normal model with a semi-conjugate prior, and draws from it.

    x_i ~ N(theta, sigma2),  theta ~ N(mu0, tau0²),  sigma2 ~ scaled-inv-χ²(nu0, sigma0²),

theta and sigma2 independent in the prior. Given sigma2, theta is normal and integrates out (BDA3
eq. 5.15 to 5.20), which leaves one integral, over u = log sigma2. With v = e^u,

    p(x, u) = p(v) v · (2 pi v)^(-(n-1)/2) n^(-1/2) e^(-S / (2 v)) · N(x̄; mu0, tau0² + v / n).

In u this is smooth on a scale of one, whatever the data's units, and falls exponentially or faster
on both sides; all of it is computed in logarithms, so no scale over- or underflows. The marginal of
theta is then a mixture of normals over the quadrature's nodes. Accuracy: 1e-8 and mostly 1e-12.

The quadrature is a composite Gauss-Legendre rule. What makes it safe is that the modes are found
first: panels double in width away from each mode, so no peak is too narrow to be seen, up to a
width of two and to where the integrand has fallen by e^-45.

Flat limits are those of :mod:`.mean_field`: tau0 = inf is p(theta) = 1, nu0 = 0 is
p(sigma2) = 1 / sigma2, and the evidence is relative to these densities.

References
----------
Gelman et al. (2013), Bayesian Data Analysis, 3rd ed., section 5.3 (semi-conjugate) and 3.2.
Davis and Rabinowitz (1984), Methods of Numerical Integration, 2nd ed., sections 2.7 and 6.2.
"""

from collections.abc import Callable, Mapping
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from pyflowers.errors import ConfigError, DataError
from pyflowers.posterior.distributions import (
    LOG_2PI,
    FloatArray,
    Normal,
    NormalPrior,
    SufficientStatistics,
    as_floats,
    checked_probability,
    log_constant,
)
from pyflowers.posterior.mean_field import NormalModel, VBResult
from pyflowers.posterior.multilevel import ExactDraws, MultilevelExact, checked_num
from pyflowers.posterior.normal_plants import draw_plants

_GRID_POINTS = 401
_LARGEST_LOG = 600.0  # of an sd, far out in tails that are hardly integrable
_GRID_TAIL = 1e-7  # probability that a marginal's grid leaves out on each side
_DROP = 45.0  # e^-45 is 3e-20 of the maximum
_SCAN_STEP = 0.05
_NARROWEST, _WIDEST = 1e-9, 2.0  # panels
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


class PanelRule:
    """Nodes and weights for one density f on the line.

    Parameters
    ----------
    log_density : callable
        log f, vectorised, possibly unnormalised; smooth on a scale of one but for its peaks, and
        below e^-45 of its maximum outside [low, high] or falling there.
    low, high : float
        All of its modes are between them.

    Attributes
    ----------
    nodes : array, shape (K,)
        Quadrature nodes, ascending.
    weights : array, shape (K,)
        Weights that sum to one: Σ weights · h(nodes) is E[h] under f normalised.
    log_total : float
        log ∫ f.
    """

    def __init__(
        self, log_density: Callable[[FloatArray], FloatArray], low: float, high: float
    ) -> None:
        self._log_density = log_density
        modes = self._modes(low, high)
        heights = log_density(modes)
        self._peak = float(heights.max())
        edges = self._edges(modes[heights > self._peak - _DROP])
        self._left, self._right = edges[:-1], edges[1:]
        nodes, mass = self._panels(self._left, self._right)
        total = float(mass.sum())
        self.log_total = self._peak + float(np.log(total))
        self.nodes, self.weights = nodes.ravel(), mass.ravel() / total
        self._cumulative = np.concatenate([[0.0], np.cumsum(mass.sum(axis=1)) / total])

    def cdf(self, u: float) -> float:
        """Probability of a value up to `u`."""
        panel = int(np.searchsorted(self._left, u, side="right")) - 1
        if panel < 0:
            return 0.0
        upper = min(u, float(self._right[panel]))
        return float(self._cumulative[panel]) + self._partial(panel, upper)

    def quantile(self, p: float) -> float:
        """Find the value below which a share `p` of f lies."""
        if p <= 0 or p >= 1:
            return -np.inf if p <= 0 else np.inf
        panel = int(np.searchsorted(self._cumulative, p, side="right")) - 1
        panel = min(panel, self._left.size - 1)
        left, right = float(self._left[panel]), float(self._right[panel])
        missing = p - float(self._cumulative[panel])
        if self._partial(panel, right) <= missing:
            return right
        return float(
            optimize.brentq(lambda u: self._partial(panel, u) - missing, left, right, xtol=1e-15)
        )

    def _partial(self, panel: int, upper: float) -> float:
        """Probability between a panel's left edge and `upper`."""
        _, mass = self._panels(self._left[panel : panel + 1], np.array([upper]))
        return float(mass.sum() * np.exp(self._peak - self.log_total))

    def _panels(self, left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Nodes and f / e^peak times weight, each of shape (panels, nodes a panel)."""
        half = 0.5 * (right - left)[:, None]
        nodes = 0.5 * (left + right)[:, None] + half * _NODES
        height = self._log_density(nodes.ravel()).reshape(nodes.shape) - self._peak
        return nodes, half * _WEIGHTS * np.exp(height)

    def _modes(self, low: float, high: float) -> FloatArray:
        """Every maximum of f within [low, high]."""
        grid = np.linspace(low, high, max(3, int((high - low) / _SCAN_STEP) + 2))
        # Rounded, or rounding errors make modes of a plateau.
        value = np.round(self._log_density(grid), 9)
        found = 1 + np.flatnonzero((value[1:-1] >= value[:-2]) & (value[1:-1] > value[2:]))
        best = [
            optimize.minimize_scalar(
                lambda u: -float(self._log_density(np.array([u]))[0]),
                bounds=(grid[i - 1], grid[i + 1]),
                method="bounded",
                options={"xatol": 1e-12},
            ).x
            for i in found
        ]
        return as_floats(best)

    def _edges(self, modes: FloatArray) -> FloatArray:
        """Edges of panels from the modes outwards, to where f matters no more."""
        edges = set(modes.tolist())
        for mode in modes.tolist():
            for width in (-_NARROWEST * max(1.0, abs(mode)), _NARROWEST * max(1.0, abs(mode))):
                edge, step = mode + width, width
                edges.add(edge)
                while self._log_density(np.array([edge]))[0] > self._peak - _DROP:
                    step = float(np.clip(2 * step, -_WIDEST, _WIDEST))
                    edge += step
                    edges.add(edge)
        return np.array(sorted(edges))


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
        problem = NormalModel(data, NormalPrior() if prior is None else prior)
        if problem.num.shape:
            raise ConfigError("the prior holds arrays, but must be that of one data set")
        self.names: tuple[str, ...] = (location, "sigma2")
        self._problem, self._num = problem, float(problem.num)
        with np.errstate(divide="ignore"):
            self._log_num = float(np.log(self._num))
            self._log_tau2 = 2 * float(np.log(problem.tau0))
            self._log_ss = float(np.log(problem.known_ss))
            self._log_conflict2 = 2 * float(np.log(np.abs(problem.conflict)))
        self._informed = bool(problem.has_conflict)
        self._power = float(problem.nu0) + max(self._num - 1, 0)
        # Degrees of freedom nu of sigma2's upper tail, v^(-(nu/2 + 1)).
        self._tail_dof = self._power + (1.0 if self._informed else 0.0)
        self._rule = self._rule_for(0)
        self.log_evidence = self._rule.log_total

    def _log_joint(self, u: FloatArray) -> FloatArray:
        """Return log p(x, u), theta integrated out."""
        constant = log_constant(self._problem.nu0, self._problem.sigma0)
        with np.errstate(over="ignore"):
            value = constant - 0.5 * (self._power * u + np.exp(self._log_ss - u))
            if self._num > 0:
                value = value - 0.5 * ((self._num - 1) * LOG_2PI + self._log_num)
            if self._informed:
                log_var = np.logaddexp(self._log_tau2, u - self._log_num)
                z2 = np.exp(self._log_conflict2 - log_var)
                value = value - 0.5 * (LOG_2PI + log_var + z2)
        return as_floats(value)

    def _rule_for(self, tilt: int) -> PanelRule:
        """Quadrature for p(x, u) e^(tilt u): the integrand of E[sigma2^tilt]."""
        low = self._log_ss - np.log(self._power + 1) - 1
        log_size = self._log_ss
        if self._informed:
            # The slope is negative for certain above S + n d² + n tau0², by its tail's power.
            log_size = np.logaddexp(log_size, self._log_num + self._log_conflict2)
            log_size = np.logaddexp(log_size, self._log_num + self._log_tau2)
        high = float(log_size - np.log(self._tail_dof - 2 * tilt)) + 1
        # No lambda, as results that hold it are pickled.
        return PanelRule(partial(self._log_tilted, tilt), low, high)

    def _log_tilted(self, tilt: int, u: FloatArray) -> FloatArray:
        return as_floats(self._log_joint(u) + tilt * u)

    def _theta_given(self, u: FloatArray) -> Normal:
        """Theta given log sigma2."""
        problem = self._problem
        if self._num == 0:
            mean, sd = np.full_like(u, problem.mu0), np.full_like(u, problem.tau0)
            return Normal(mean, sd)
        log_precision = self._log_num - u
        log_sd = -0.5 * np.logaddexp(log_precision, -self._log_tau2)
        log_odds = log_precision + self._log_tau2
        mean = special.expit(log_odds) * problem.mean + special.expit(-log_odds) * problem.mu0
        return Normal(as_floats(mean), as_floats(np.exp(np.minimum(log_sd, _LARGEST_LOG))))

    def logpdf(self, theta: npt.ArrayLike, sigma2: npt.ArrayLike) -> FloatArray:
        """Log posterior density at (theta, sigma2), broadcast; for contours."""
        sigma2 = as_floats(sigma2)
        u = np.log(np.where(sigma2 > 0, sigma2, 1.0))
        value = self._log_joint(u) - u - self.log_evidence + self._theta_given(u).logpdf(theta)
        return as_floats(np.where(sigma2 > 0, value, -np.inf))

    def pdf(self, name: str, x: npt.ArrayLike) -> FloatArray:
        """Marginal density of a parameter at `x`."""
        x = as_floats(x)
        if self._is_location(name):
            given = self._theta_given(self._rule.nodes)
            return as_floats(np.exp(given.logpdf(x[..., None])) @ self._rule.weights)
        u = np.log(np.where(x > 0, x, 1.0))
        value = np.exp(self._log_joint(u) - u - self.log_evidence)
        return as_floats(np.where(x > 0, value, 0.0))

    def cdf(self, name: str, x: npt.ArrayLike) -> FloatArray:
        """Posterior probability of a value up to `x`."""
        x = as_floats(x)
        if self._is_location(name):
            given = self._theta_given(self._rule.nodes)
            return as_floats(given.cdf(x[..., None]) @ self._rule.weights)
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
        if self._is_location(name):
            values = [self._theta_quantile(float(value)) for value in p.ravel()]
        else:
            with np.errstate(over="ignore"):
                values = [np.exp(self._rule.quantile(float(value))) for value in p.ravel()]
        return as_floats(values).reshape(p.shape)

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

    def _theta_quantile(self, p: float) -> float:
        if p in (0.0, 1.0):
            return -np.inf if p == 0 else np.inf
        middle = self._theta_given(as_floats(self._rule.quantile(0.5)))
        centre, unit = float(middle.mean), float(middle.sd)

        def excess(z: float) -> float:
            return float(self.cdf(self.names[0], centre + unit * z)) - p

        low, high = -1.0, 1.0
        while excess(low) > 0:
            low *= 4
        while excess(high) < 0:
            high *= 4
        return centre + unit * float(optimize.brentq(excess, low, high, xtol=1e-13, maxiter=2000))

    @cached_property
    def missing_moments(self) -> Mapping[tuple[str, str], str]:
        """Why a moment does not exist, by (name, "mean" or "sd")."""
        dof, missing = self._tail_dof, {}
        reasons = {"sigma2": ("its upper tail has", 2)}
        if np.isinf(self._problem.tau0):
            reasons[self.names[0]] = ("under its flat prior it has", 1)
        for name, (reason, power) in reasons.items():
            for moment, needed in (("mean", power), ("sd", 2 * power)):
                if dof <= needed:
                    missing[name, moment] = (
                        f"{name} has no posterior {moment}: {reason} {dof:g} degrees of freedom, "
                        f"and the {moment} needs more than {needed}"
                    )
        return missing

    @cached_property
    def _moments(self) -> dict[str, tuple[float, float]]:
        location, rule = self.names[0], self._rule
        given = self._theta_given(rule.nodes)
        theta_mean = float(rule.weights @ given.mean)
        mean = sigma2_sd = theta_sd = np.nan
        if ("sigma2", "mean") not in self.missing_moments:
            # By a rule of its own: a heavy tail needs wider panels.
            mean = float(np.exp(self._rule_for(1).log_total - self.log_evidence))
        if ("sigma2", "sd") not in self.missing_moments:
            sigma2_sd = self._sigma2_sd(mean)
        if np.isfinite(self._problem.tau0):
            between = float(rule.weights @ (given.mean - theta_mean) ** 2)
            theta_sd = float(np.sqrt(between + rule.weights @ given.sd**2))
        elif (location, "sd") not in self.missing_moments:
            theta_sd = float(np.sqrt(mean / self._num))
        if (location, "mean") in self.missing_moments:
            theta_mean = np.nan
        return {location: (theta_mean, theta_sd), "sigma2": (mean, sigma2_sd)}

    def _sigma2_sd(self, mean: float) -> float:
        """E[(sigma2 - mean)²] with the weights of E[sigma2²], free of cancellation."""
        rule = self._rule_for(2)
        relative = -np.expm1(np.log(mean) - rule.nodes)
        size = np.exp(0.5 * (rule.log_total - self.log_evidence))
        return float(size * np.sqrt(rule.weights @ relative**2))


ExactPosterior = NormalExact | MultilevelExact
"""A posterior by quadrature; a parameter is one number or one a plant, shape () or (P,)."""


def kl_divergence(q: VBResult, posterior: ExactPosterior) -> float:
    """KL(q ‖ posterior) = log evidence - ELBO, exact to rounding, for one data set and prior.

    Both must be of the same model, data and prior; Bishop (2006), eq. 10.2.
    """
    return posterior.log_evidence - float(q.elbo)


def draw_normal(
    x: npt.ArrayLike | SufficientStatistics,
    prior: NormalPrior | None,
    num_draws: int,
    rng: np.random.Generator,
    *,
    location: str = "theta",
) -> ExactDraws:
    """Draw from the models `semiconjugate_normal` and, with `location` "mu", `iid_normal`.

    Given mu and sigma2 a plant of the multilevel model is this model, so its sampler serves.

    Parameters
    ----------
    x : array, shape (n,), or SufficientStatistics, shape ()
        The observations.
    prior : NormalPrior or None
        Hyperparameters, scalars; ``NormalPrior()`` if None.
    num_draws : int
        How many draws.
    rng : numpy.random.Generator
        The source of all randomness.
    location : str
        What to call the mean.

    Raises
    ------
    DataError
        If the data are a batch, cannot be used, or leave the posterior improper.
    ConfigError
        If the prior is a batch, or `num_draws` is not positive.
    """
    size = checked_num(num_draws)
    posterior = NormalExact(x, prior, location=location)
    problem = posterior._problem
    num, mean, dof, known_ss = problem.num, problem.mean, problem.dof, problem.known_ss
    proposals = size
    if np.isinf(problem.tau0):  # the conjugate case, BDA3 eq. 3.3 to 3.5
        variance = known_ss / rng.chisquare(dof - 1, size)
        theta = mean + np.sqrt(variance / num) * rng.standard_normal(size)
    else:
        mu, sigma2 = np.full(size, problem.mu0), problem.tau0**2
        theta, variance, proposals = draw_plants(num, mean, known_ss, dof, mu, sigma2, rng=rng)
    draws = {location: theta, "sigma2": variance}
    return ExactDraws(draws, posterior.log_evidence, {"plant_acceptance": size / proposals})
