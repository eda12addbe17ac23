"""The exact posterior of the normal model with a semi-conjugate prior, and draws from it.

    x_i ~ N(theta, sigma2),  theta ~ N(mu0, tau0²),  sigma2 ~ scaled-inv-χ²(nu0, sigma0²),

with theta and sigma2 independent in the prior. Given sigma2, theta is normal and can be integrated
out (BDA3 eq. 5.15 to 5.20), which leaves one integral, over u = log sigma2. With v = e^u,

    p(x, u) = p(v) v · (2 pi v)^(-(n-1)/2) n^(-1/2) e^(-S / (2 v)) · N(x̄; mu0, tau0² + v / n).

As a function of u, this is smooth on a scale of one, regardless of the units of the data, and falls
exponentially or faster on both sides. Everything is computed in logarithms, so that nothing
overflows or underflows. The marginal of theta is then a mixture of normals over the nodes of the
quadrature. The error is at most 1e-8, and usually about 1e-12.

The quadrature is a composite Gauss-Legendre rule. It is reliable because the modes are found first.
Away from each mode, panels double in width, up to a width of two, so that no peak is too narrow to
be resolved. They end where the integrand has fallen to e^-45 of its maximum.

The flat limits are the same as in :mod:`.mean_field`: tau0 = inf means p(theta) = 1, nu0 = 0 means
p(sigma2) = 1 / sigma2, and the evidence is relative to these densities.

References
----------
Gelman et al. (2013), Bayesian Data Analysis, 3rd ed., sections 3.2 (flat priors) and 5.4 (normal
means integrated out).
Davis and Rabinowitz (1984), Methods of Numerical Integration, 2nd ed., sections 2.7 and 6.2.
"""

from collections.abc import Callable, Mapping
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from pyflowers.errors import ConfigError, DataError
from pyflowers.lectures.posterior.distributions import (
    LOG_2PI,
    FloatArray,
    Normal,
    NormalPrior,
    SufficientStatistics,
    as_floats,
    checked_probability,
    log_constant,
)
from pyflowers.lectures.posterior.mean_field import NormalModel, VBResult
from pyflowers.lectures.posterior.multilevel import ExactDraws, MultilevelExact, checked_num
from pyflowers.lectures.posterior.normal_plants import draw_plants

_GRID_POINTS = 401
_LARGEST_LOG = 600.0  # largest log of an sd, far out in tails that are barely integrable
_GRID_TAIL = 1e-7  # probability beyond the grid of a marginal, on each side
_DROP = 45.0  # the part below e^-45 = 3e-20 of the maximum is negligible
_SCAN_STEP = 0.05
_NARROWEST, _WIDEST = 1e-9, 2.0  # widths of panels
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


class PanelRule:
    """Quadrature nodes and weights for one density f on the real line.

    Parameters
    ----------
    log_density : callable
        A vectorised function that returns log f. The density f may be unnormalised, but must be
        smooth on a scale of one except for its peaks. Outside [low, high], f must be below e^-45 of
        its maximum or decrease outwards.
    low, high : float
        Limits that contain all modes.

    Attributes
    ----------
    nodes : array, shape (K,)
        Quadrature nodes, ascending.
    weights : array, shape (K,)
        Weights that sum to one: Σ weights · h(nodes) is E[h] under the normalised f.
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
        """Return the probability that the variable is at most `u`."""
        panel = int(np.searchsorted(self._left, u, side="right")) - 1
        if panel < 0:
            return 0.0
        upper = min(u, float(self._right[panel]))
        return float(self._cumulative[panel]) + self._partial(panel, upper)

    def quantile(self, p: float) -> float:
        """Return the value that has a share `p` of the mass of f below it."""
        if p <= 0 or p >= 1:
            if p <= 0:
                return -np.inf
            return np.inf
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
        """Return the probability between a panel's left edge and `upper`."""
        _, mass = self._panels(self._left[panel : panel + 1], np.array([upper]))
        return float(mass.sum() * np.exp(self._peak - self.log_total))

    def _panels(self, left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return nodes and weights times f / e^peak, each of shape (panels, nodes per panel)."""
        half = 0.5 * (right - left)[:, None]
        nodes = 0.5 * (left + right)[:, None] + half * _NODES
        height = self._log_density(nodes.ravel()).reshape(nodes.shape) - self._peak
        return nodes, half * _WEIGHTS * np.exp(height)

    def _modes(self, low: float, high: float) -> FloatArray:
        """Return every maximum of f within [low, high]."""
        grid = np.linspace(low, high, max(3, int((high - low) / _SCAN_STEP) + 2))
        # Without rounding, floating-point errors would turn a plateau into spurious modes.
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
        """Return edges of panels that extend from the modes outwards to where f is negligible."""
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
    """The exact posterior of (theta, sigma2) for one data set.

    Parameters
    ----------
    x : array, shape (n,), or SufficientStatistics, shape ()
        The observations.
    prior : NormalPrior, optional
        Scalar hyperparameters. Default: ``NormalPrior()``.
    location : str
        The name of theta; ``"mu"`` in the model `iid_normal`.

    Attributes
    ----------
    names : tuple of str
        The parameters: `location` and ``sigma2``.
    log_evidence : float
        log p(x), including all constants.

    Raises
    ------
    DataError
        If the data are a batch or cannot be used, or the posterior is improper.
    ConfigError
        If the prior is a batch.

    See Also
    --------
    pyflowers.exact.draw_normal : Draw from the same posterior.
    pyflowers.vb.fit_normal : Approximate the posterior.

    Examples
    --------
    Under flat priors, theta has a t distribution with n - 1 degrees of freedom:

    >>> import numpy as np
    >>> from scipy import stats
    >>> from pyflowers import exact, vb
    >>> x = np.array([4.0, 5.0, 6.0, 5.0])
    >>> posterior = exact.NormalExact(x, vb.NormalPrior(tau0=np.inf, nu0=0))
    >>> t = stats.t(3, x.mean(), x.std(ddof=1) / 2)
    >>> bool(np.isclose(posterior.quantile("theta", 0.95), t.ppf(0.95)))
    True
    >>> bool(np.isclose(posterior.cdf("theta", 6), t.cdf(6)))
    True
    >>> bool(np.isclose(posterior.pdf("theta", 6), t.pdf(6)))
    True
    >>> round(float(posterior.mean("theta")), 6), round(float(posterior.sd("theta")), 4)
    (5.0, 0.7071)

    Densities to plot:

    >>> grid, density = posterior.marginal("sigma2")
    >>> grid.shape
    (401,)
    >>> theta, sigma2 = np.meshgrid(np.linspace(3, 7, 50), np.linspace(0.2, 5, 50))
    >>> posterior.logpdf(theta, sigma2).shape
    (50, 50)
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
            raise DataError(f"x is a batch of shape {data.num.shape}, but must be one data set")
        problem = NormalModel(data, NormalPrior() if prior is None else prior)
        if problem.num.shape:
            raise ConfigError(
                "the prior contains arrays, but there is only one data set; give single numbers"
            )
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
        """Return log p(x, u) with theta integrated out."""
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
        """Return the quadrature rule for p(x, u) e^(tilt u), the integrand of E[sigma2^tilt]."""
        low = self._log_ss - np.log(self._power + 1) - 1
        log_size = self._log_ss
        if self._informed:
            # Well above known_ss + n conflict² + n tau0², the power-law tail has a negative slope.
            log_size = np.logaddexp(log_size, self._log_num + self._log_conflict2)
            log_size = np.logaddexp(log_size, self._log_num + self._log_tau2)
        high = float(log_size - np.log(self._tail_dof - 2 * tilt)) + 1
        # Not a lambda, because results that contain it are pickled.
        return PanelRule(partial(self._log_tilted, tilt), low, high)

    def _log_tilted(self, tilt: int, u: FloatArray) -> FloatArray:
        return as_floats(self._log_joint(u) + tilt * u)

    def _theta_given(self, u: FloatArray) -> Normal:
        """Return the distribution of theta given log sigma2."""
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
        """Return the log posterior density at (theta, sigma2), for contours.

        Parameters
        ----------
        theta : float or array
            Means, in units of the data.
        sigma2 : float or array
            Variances, which broadcast against `theta`.

        Returns
        -------
        array
            The log density at each pair; -inf where `sigma2` is not positive.
        """
        sigma2 = as_floats(sigma2)
        u = np.log(np.where(sigma2 > 0, sigma2, 1.0))
        value = self._log_joint(u) - u - self.log_evidence + self._theta_given(u).logpdf(theta)
        return as_floats(np.where(sigma2 > 0, value, -np.inf))

    def pdf(self, name: str, x: npt.ArrayLike) -> FloatArray:
        """Return the marginal density of a parameter.

        Parameters
        ----------
        name : str
            The parameter.
        x : float or array
            Values of the parameter.

        Returns
        -------
        array, shape of `x`
            The density at each value.

        Raises
        ------
        ConfigError
            If there is no such parameter.
        """
        x = as_floats(x)
        if self._is_location(name):
            given = self._theta_given(self._rule.nodes)
            return as_floats(np.exp(given.logpdf(x[..., None])) @ self._rule.weights)
        u = np.log(np.where(x > 0, x, 1.0))
        value = np.exp(self._log_joint(u) - u - self.log_evidence)
        return as_floats(np.where(x > 0, value, 0.0))

    def cdf(self, name: str, x: npt.ArrayLike) -> FloatArray:
        """Return the posterior probability that a parameter is at most `x`.

        Parameters
        ----------
        name : str
            The parameter.
        x : float or array
            Values of the parameter.

        Returns
        -------
        array, shape of `x`
            Probabilities.

        Raises
        ------
        ConfigError
            If there is no such parameter.
        """
        x = as_floats(x)
        if self._is_location(name):
            given = self._theta_given(self._rule.nodes)
            return as_floats(given.cdf(x[..., None]) @ self._rule.weights)
        logs = [np.log(value) if value > 0 else -np.inf for value in x.ravel()]
        return np.array([self._rule.cdf(float(u)) for u in logs]).reshape(x.shape)

    def quantile(self, name: str, p: npt.ArrayLike) -> FloatArray:
        """Return posterior quantiles.

        Parameters
        ----------
        name : str
            The parameter.
        p : float or array
            Probabilities between 0 and 1.

        Returns
        -------
        array, shape of `p`
            The quantiles, in the unit of the parameter.

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
        """Return the posterior mean.

        Parameters
        ----------
        name : str
            The parameter.

        Returns
        -------
        array, shape ()
            The mean; NaN where it does not exist, for the reason in :attr:`missing_moments`.

        Raises
        ------
        ConfigError
            If there is no such parameter.
        """
        self._is_location(name)
        return as_floats(self._moments[name][0])

    def sd(self, name: str) -> FloatArray:
        """Return the posterior standard deviation.

        Parameters
        ----------
        name : str
            The parameter.

        Returns
        -------
        array, shape ()
            The standard deviation; NaN where it does not exist, for the reason in
            :attr:`missing_moments`.

        Raises
        ------
        ConfigError
            If there is no such parameter.
        """
        self._is_location(name)
        return as_floats(self._moments[name][1])

    def marginal(self, name: str) -> tuple[FloatArray, FloatArray]:
        """Return a grid and the marginal density on it.

        Parameters
        ----------
        name : str
            The parameter.

        Returns
        -------
        grid : array, shape (401,)
            Values from the 1e-7 to the 1 - 1e-7 quantile, evenly spaced in theta or log sigma2.
        density : array, shape (401,)
            The posterior density at each value.

        Raises
        ------
        ConfigError
            If there is no such parameter.
        """
        low, high = self.quantile(name, [_GRID_TAIL, 1 - _GRID_TAIL])
        spaced = np.linspace if self._is_location(name) else np.geomspace
        grid = as_floats(spaced(low, high, _GRID_POINTS))
        return grid, self.pdf(name, grid)

    def _is_location(self, name: str) -> bool:
        if name not in self.names:
            raise ConfigError(
                f"the posterior has no parameter {name!r}; it has {', '.join(self.names)}"
            )
        return name == self.names[0]

    def _theta_quantile(self, p: float) -> float:
        if p in (0.0, 1.0):
            if p == 0:
                return -np.inf
            return np.inf
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
        """The reason why a moment does not exist, by (name, "mean" or "sd")."""
        dof, missing = self._tail_dof, {}
        reasons = {"sigma2": ("its upper tail has", 2)}
        if np.isinf(self._problem.tau0):
            reasons[self.names[0]] = ("under its flat prior it has", 1)
        for name, (reason, power) in reasons.items():
            for moment, needed in (("mean", power), ("sd", 2 * power)):
                if dof <= needed:
                    missing[name, moment] = (
                        f"{name} has no posterior {moment}: {reason} {dof:g} degree"
                        f"{'' if dof == 1 else 's'} of freedom, but the {moment} exists only above "
                        f"{needed}"
                    )
        return missing

    @cached_property
    def _moments(self) -> dict[str, tuple[float, float]]:
        location, rule = self.names[0], self._rule
        given = self._theta_given(rule.nodes)
        theta_mean = float(rule.weights @ given.mean)
        mean = sigma2_sd = theta_sd = np.nan
        if ("sigma2", "mean") not in self.missing_moments:
            # The mean needs a separate rule: the heavier tail of its integrand needs more panels.
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
        """Return √E[(sigma2 - mean)²] with the weights of E[sigma2²], without cancellation."""
        rule = self._rule_for(2)
        relative = -np.expm1(np.log(mean) - rule.nodes)
        size = np.exp(0.5 * (rule.log_total - self.log_evidence))
        return float(size * np.sqrt(rule.weights @ relative**2))


ExactPosterior = NormalExact | MultilevelExact
"""A posterior that was computed by quadrature.

A parameter has shape () or, if each plant has its own value, (P,).
"""


def kl_divergence(q: VBResult, posterior: ExactPosterior) -> float:
    """Return KL(q ‖ posterior) = log evidence - ELBO, for one data set and prior.

    Both arguments must refer to the same model, data and prior; see Bishop (2006), eq. 10.2.

    Parameters
    ----------
    q : VBResult
        The mean-field approximation.
    posterior : ExactPosterior
        The exact posterior.

    Returns
    -------
    float
        The divergence, in nats: 0 if and only if q is the posterior.

    Examples
    --------
    >>> from pyflowers import exact, vb
    >>> x = [4, 5, 6, 5]
    >>> round(exact.kl_divergence(vb.fit_normal(x), exact.NormalExact(x)), 4)
    0.1197
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
    """Draw from the posterior of `semiconjugate_normal` or, with `location` "mu", of `iid_normal`.

    Given mu and sigma2, each plant of the multilevel model follows this model, so the multilevel
    model's sampler for plants is used.

    Parameters
    ----------
    x : array, shape (n,), or SufficientStatistics, shape ()
        The observations.
    prior : NormalPrior or None
        Scalar hyperparameters; None means ``NormalPrior()``.
    num_draws : int
        Number of draws.
    rng : numpy.random.Generator
        The source of the draws.
    location : str
        The name of the mean.

    Returns
    -------
    ExactDraws
        Independent draws of the mean and of ``sigma2``.

    Raises
    ------
    DataError
        If the data are a batch or cannot be used, or the posterior is improper.
    ConfigError
        If the prior is a batch, or `num_draws` is not a positive whole number.

    See Also
    --------
    pyflowers.exact.NormalExact : Compute the same posterior by quadrature.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers import exact
    >>> x = [4, 5, 6, 5]
    >>> result = exact.draw_normal(x, None, 4_000, np.random.default_rng(1))
    >>> round(float(result.draws["theta"].mean()), 1)
    5.0
    >>> round(float(exact.NormalExact(x).mean("theta")), 1)
    5.0
    """
    size = checked_num(num_draws)
    posterior = NormalExact(x, prior, location=location)
    problem = posterior._problem
    num, mean, dof, known_ss = problem.num, problem.mean, problem.dof, problem.known_ss
    proposals = size
    if np.isinf(problem.tau0):  # a flat prior on theta: BDA3 eq. 3.3 to 3.5
        variance = known_ss / rng.chisquare(dof - 1, size)
        theta = mean + np.sqrt(variance / num) * rng.standard_normal(size)
    else:
        mu, sigma2 = np.full(size, problem.mu0), problem.tau0**2
        theta, variance, proposals = draw_plants(num, mean, known_ss, dof, mu, sigma2, rng=rng)
    draws = {location: theta, "sigma2": variance}
    return ExactDraws(draws, posterior.log_evidence, {"plant_acceptance": size / proposals})
