"""Checks of samplers, and two targets that the lectures lack: skewed and correlated.

The tests call each check for pyflowers' samplers, and for planted bugs, which it must detect.
"""

import numpy as np
from scipy.special import digamma, polygamma
from scipy.stats import ks_2samp

from pyflowers.samplers import MALA, Gamma, LinearRegression, Mass


class Gaussian:
    """The normal target N(μ, Σ)."""

    def __init__(self, mean, covariance):
        self.mean, self.covariance = np.array(mean), np.array(covariance)
        self.dim, self.variance = len(self.mean), np.diag(self.covariance)

    def log_density(self, x):
        return self.log_density_gradient(x)[0]

    def log_density_gradient(self, x):
        gradient = -np.linalg.solve(self.covariance, (x - self.mean).T).T
        log_det = np.linalg.slogdet(2 * np.pi * self.covariance)[1]
        return 0.5 * ((x - self.mean) * gradient).sum(axis=-1) - 0.5 * log_det, gradient

    def sample(self, rng, num_draws):
        factor = np.linalg.cholesky(self.covariance)
        return self.mean + rng.standard_normal((num_draws, self.dim)) @ factor.T


class LogGamma(Gamma):
    """The target y = log x for gamma x, skewed and on the whole line, as Stan would sample it."""

    def __init__(self, shape, rate):
        super().__init__(shape, rate)
        self.mean, self.variance = digamma(self.shape) - np.log(self.rate), polygamma(1, self.shape)

    def log_density(self, y):
        """Return the log gamma density at exp(y) times the Jacobian, which turns a − 1 into a."""
        return (self.shape * y - self.rate * np.exp(y)).sum(axis=-1) + self._log_constant

    def log_density_gradient(self, y):
        return self.log_density(y), self.shape - self.rate * np.exp(y)

    def sample(self, rng, num_draws):
        return np.log(super().sample(rng, num_draws))


CORRELATED = Gaussian([1.0, -2.0], [[2.0, 1.2], [1.2, 1.0]])
CORRELATED_MASS = Mass([[1.5, -1.3], [-1.3, 3.0]])
SKEWED = LogGamma([0.7, 3.0], [1.0, 2.0])
SKEWED_MASS = Mass([0.5, 4.0])

_X = np.linspace(-1.0, 1.5, 12)
LINE = LinearRegression(_X, -1 + 2 * _X + 0.5 * np.random.default_rng(5).standard_normal(12))

MAX_TESTS = 50
FALSE_ALARM_RATE = 1e-5 / MAX_TESTS
"""The false-alarm rate of each exactness test. There are at most `MAX_TESTS` in this folder;
together they raise a false alarm once in 100,000 runs with fresh seeds."""


def is_exact(kernel, target, seed=1, alarms=FALSE_ALARM_RATE, num_chains=10_000, num_steps=20):
    """Test whether the kernel is exact, by the sequential two-sample test of Gandy and Scott.

    Chains start from exact draws and make some transitions. If the kernel leaves the target
    unchanged, the ends are also exact draws, and no test distinguishes them from fresh ones.
    p-values are combined by Bonferroni. With β = α/k and γ = β^(1/k): at each of k looks, fail if
    the p-value is at most β, pass if it is above β + γ, else look again at fresh draws, with β/γ
    instead of β.

    References
    ----------
    .. [1] Gandy & Scott (2020), Unit testing for MCMC and other Monte Carlo methods,
       arXiv:2001.06465, algorithms 1 (two samples) and 3 (sequential).
    """
    rng = np.random.default_rng(seed)
    looks = 3
    beta = alarms / looks
    gamma = beta ** (1 / looks)
    for num in (num_chains, 10 * num_chains, 10 * num_chains):
        state = kernel.init(target.sample(rng, num))
        for _ in range(num_steps):
            state, _ = kernel(rng, state)
        moved = _statistics(target, state.position)
        fresh = _statistics(target, target.sample(rng, num))
        if not np.isfinite(moved).all():
            return False
        pairs = zip(moved.T, fresh.T, strict=True)
        p_values = [ks_2samp(one, other, method="asymp").pvalue for one, other in pairs]
        smallest = len(p_values) * min(p_values)
        if smallest <= beta or smallest > beta + gamma:
            return bool(smallest > beta)
        beta /= gamma
    return True


def _statistics(target, x):
    """Return the compared quantities, shape (num, d): x, log π(x), and products of coordinates."""
    centred = (x - target.mean) / np.sqrt(target.variance)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.column_stack([x, centred[:, :-1] * centred[:, 1:], target.log_density(x)])


def check_gradient(target, x, tolerance=1e-5, has_edge=True):
    """Compare ∇ log π with central differences, and the accompanying log π with log_density."""
    log_density, gradient = target.log_density_gradient(x)
    assert np.array_equal(log_density, target.log_density(x))
    step = np.cbrt(np.finfo(float).eps)
    for index in range(target.dim):
        h = np.zeros_like(x)
        # do not step beyond the edge of a support such as x > 0
        h[:, index] = step * (np.minimum(np.abs(x[:, index]), 1.0) if has_edge else 1.0)
        difference = target.log_density(x + h) - target.log_density(x - h)
        slope = difference / (2 * h[:, index])
        assert np.allclose(gradient[:, index], slope, rtol=tolerance, atol=tolerance)


class Flipped:
    """A target whose gradient has the wrong sign."""

    def __init__(self, target):
        self.dim, self.log_density, self.target = target.dim, target.log_density, target

    def log_density_gradient(self, x):
        log_density, gradient = self.target.log_density_gradient(x)
        return log_density, -gradient


def check_state_is_fresh(kernel, target):
    """Compare the target's values in the state with the target at the position."""
    rng = np.random.default_rng(4)
    state = kernel.init(CORRELATED.sample(rng, 50))
    for _ in range(10):
        state, info = kernel(rng, state)
        log_density, gradient = target.log_density_gradient(state.position)
        assert np.allclose(state.log_density, log_density, rtol=1e-12)
        assert np.array_equal(info.lp, state.log_density)
        if hasattr(state, "gradient"):
            assert np.allclose(state.gradient, gradient, rtol=1e-12)


def check_chains_are_independent(kernel, target):
    """Check that chains accept independently, so the number of acceptances is binomial."""
    rng = np.random.default_rng(5)
    num_chains, num_steps = 500, 300
    state = kernel.init(target.sample(rng, num_chains))
    rates = np.empty(num_steps)
    for step in range(num_steps):
        state, info = kernel(rng, state)
        rates[step] = info.accepted.mean()
    binomial = rates.mean() * (1 - rates.mean()) / num_chains
    assert 0.1 < rates.mean() < 0.9
    assert rates.var() < 2 * binomial


class FullDrift(MALA):
    """Drift ε instead of ε/2: Metropolis–Hastings corrects any drift, but it is not HMC."""

    def _drifted(self, state):
        return state.position + self.step_size * self.mass.velocity(state.gradient)
