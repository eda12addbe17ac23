"""Closed-form mean-field variational Bayes by coordinate ascent, for both normal models.

The evidence lower bound of a factorised q is (Bishop 2006, eq. 10.3; Blei et al. 2017, eq. 13)

    ELBO(q) = E_q[log p(y, parameters)] - E_q[log q(parameters)] = log p(y) - KL(q ‖ posterior).

It is computed here with all constants, so that ``log evidence - elbo`` is the divergence.

**One normal distribution** has a semi-conjugate prior, in which sigma0 is a scale as in Stan's
`scaled_inv_chi_square`:

    x_i ~ N(theta, sigma2),  theta ~ N(mu0, tau0²),  sigma2 ~ scaled-inv-χ²(nu0, sigma0²),

with theta and sigma2 independent in the prior, and q(theta, sigma2) = q(theta) q(sigma2). Given the
other factor, the factor that maximises the ELBO is proportional to exp E[log p], where the
expectation is over the other factor (Bishop 2006, eq. 10.9). With S = Σ(x_i - x̄)², the factors are

    q(theta)  = N(mu_n, tau_n²),   tau_n² = 1 / (n / sigma_n² + 1 / tau0²),
                                   mu_n = w x̄ + (1 - w) mu0,   w = (n / sigma_n²) tau_n²,
    q(sigma2) = scaled-inv-χ²(nu0 + n, sigma_n²),
                (nu0 + n) sigma_n² = nu0 sigma0² + S + n (x̄ - mu_n)² + n tau_n².

The last two terms are E Σ(x_i - theta)² - S; without n tau_n², the uncertainty of theta would be
ignored. This is *not* the model of Bishop's section 10.1.3 or Murphy's section 21.5.1. Their prior
theta | sigma2 ~ N(mu0, sigma2 / kappa0) depends on sigma2. It therefore acts as one more
observation of sigma2, and the degrees of freedom are nu0 + n + 1.

One sweep of these updates is a map G of the scalar s = sigma_n², and G is increasing: a larger s
widens q(theta) and pulls it towards mu0, and both increase the next s. Therefore, from any start,
the sweeps move in one direction, to the nearest fixed point on that side. The fixed points are the
positive roots of a cubic, so the ELBO has either one maximum, or two with a saddle between them.
The ascent starts below all fixed points or above all of them, whichever leads to the higher
maximum.

The stopping rule is the usual one, a small relative change of the ELBO. Because the ELBO is flat to
first order at its maximum, parameters may still be wrong by 1e-5 when the ELBO changes by only
1e-10. The fixed point is therefore polished by Newton's method for the scalar equation
log G(s) - log s = 0. This needs two or three steps. Each step is a sweep extrapolated by
1 / (1 - d log G / d log s), or a plain sweep if d log G / d log s is 1 or more. After a last sweep,
each factor is optimal given the other. Up to rounding error, the result is the fixed point that
very many sweeps would reach. The stopping rule still refers to the ELBO.

In the flat limits, tau0 = inf means p(theta) = 1, and nu0 = 0 means p(sigma2) = 1 / sigma2. Both
densities are unnormalised, and the ELBO and the evidence are relative to them.

**The multilevel normal model** has P plants. Plant p has n_p observations, whose mean is ȳ_p and
whose sum of squares about this mean is S_p:

    y[t,p] ~ N(mu_plant[p], sigma2_plant[p]),         mu ~ N(m0, s0²),
    mu_plant[p] ~ N(mu, sigma2),                      sigma2 ~ scaled-inv-χ²(nu0, sigma0²),
    sigma2_plant[p] ~ scaled-inv-χ²(nu_p, c²),        flat: nu_p = -2, c = 0.

q factorises over mu, sigma2 and every mu_plant[p] and sigma2_plant[p]. The optimal factor of one
parameter is proportional to exp E[log p(y, parameters)], where the expectation is over the other
parameters (Bishop 2006, eq. 10.9). In this expression, each parameter has a normal or scaled
inverse chi-square kernel: the model is conditionally conjugate (Blei et al. 2017, section 4.1). Let
1/s² = E[1/sigma2] and 1/s_p² = E[1/sigma2_plant], and let (m, v) and (m_p, v_p) be the means and
variances of q(mu) and q(mu_plant[p]). Then the terms are

  * quadratic in mu_plant[p]: -(n_p / s_p²) (ȳ_p - mu_plant)² / 2 - (mu_plant - m)² / (2 s²), so
        v_p = 1 / (n_p / s_p² + 1 / s²),   m_p = v_p (n_p ȳ_p / s_p² + m / s²);           (1)
  * in sigma2_plant[p]: -(n_p + nu_p)/2 - 1 times its log, and -1/2 times its inverse times
        (n_p + nu_p) s_p² = nu_p c² + S_p + n_p ((ȳ_p - m_p)² + v_p),                     (2)
    a scaled-inv-χ²(n_p + nu_p, s_p²); under the flat prior it has n_p - 2 degrees of freedom;
  * quadratic in mu: v = 1 / (P / s² + 1 / s0²),   m = v (Σ m_p / s² + m0 / s0²);         (3)
  * in sigma2: scaled-inv-χ²(nu0 + P, s²),
        (nu0 + P) s² = nu0 sigma0² + Σ ((m_p - m)² + v_p + v).                            (4)

A sweep consists of (1), (2), (3), (4). No update lowers the ELBO. An improper prior on sigma2_plant
(nu_p <= 0) has the density sigma2_plant^(-(nu_p/2 + 1)), which is 1 for the flat prior. The ELBO
and the evidence then depend on the units of that density: they can be used to compare
approximations of the same posterior, but not to compare this model with another.

References
----------
Bishop (2006), Pattern Recognition and Machine Learning, eq. 10.9 and sections 10.1.1, 10.1.3.
Blei, Kucukelbir and McAuliffe (2017), Variational inference: a review for statisticians, Journal of
the American Statistical Association 112(518).
Murphy (2012), Machine Learning: a Probabilistic Perspective, section 21.5.1.
Varadhan and Roland (2008), Scandinavian Journal of Statistics 35(2), for the extrapolation.
Gelman et al. (2013), Bayesian Data Analysis, 3rd ed., sections 5.4, 11.6 and 13.7; the last derives
the updates for the hierarchical normal model with known group variances (the eight schools).
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from pyflowers.checked import whole_number
from pyflowers.display import INTERVAL, Line, Shown, element_table, heading, interval_quantiles
from pyflowers.errors import ConfigError, DataError
from pyflowers.lectures.posterior.distributions import (
    LOG_2PI,
    BoolArray,
    Distribution,
    FloatArray,
    MultilevelPrior,
    Normal,
    NormalPrior,
    ScaledInvChiSquare,
    SufficientStatistics,
    as_floats,
    checked_labels,
    checked_probability,
    log_constant,
)
from pyflowers.resources import in_arviz
from pyflowers.text import counted

_POLISH_STEPS = 60
_POLISHED = 1e-15  # tolerance for |log G(s) - log s|: a few units in the last place
_PARAMETER_TOL = 1e-9
_PLAIN_SWEEPS = 3  # between extrapolations
_RECORD_UP_TO = 100  # number of plants above which states are kept only on request

Factors = dict[str, Any]
"""The factors of q: a Normal or ScaledInvChiSquare for each parameter."""


class NotConvergedWarning(RuntimeWarning):
    """Coordinate ascent reached the maximum number of sweeps before it converged."""


@dataclass(frozen=True)
class State:
    """q after the update of one factor.

    Attributes
    ----------
    updated : str
        ``"start"`` or the name of the factor that was updated last.
    factors : mapping of str to Distribution
        q: the factor of each parameter.
    elbo : array, shape of the batch
        ELBO of this q, including all constants.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers import vb
    >>> fit = vb.fit_normal([4, 5, 6, 5])
    >>> [state.updated for state in fit.states[:5]]
    ['start', 'theta', 'sigma2', 'theta', 'sigma2']
    >>> elbos = [float(state.elbo) for state in fit.states]
    >>> bool((np.diff(elbos) > -1e-12).all())  # no update lowers the ELBO
    True
    """

    updated: str
    factors: Mapping[str, Distribution]
    elbo: FloatArray


@dataclass(frozen=True, kw_only=True, repr=False)
class VBResult(Shown):
    """A mean-field approximation, found by coordinate ascent.

    Attributes
    ----------
    factors : mapping of str to Distribution
        q at convergence: one factor (or array of factors) for each parameter.
    elbo : array, shape of the batch
        ELBO of q, including all constants.
    elbo_trace : array, shape (sweeps + 1, ...)
        ELBO at the start and after every full sweep; empty if nothing was recorded.
    states : tuple of State
        q at the start and after every update of a factor; empty if nothing was recorded.
    num_iter : int
        Number of sweeps.
    converged : array of bool, shape of the batch
        Whether the stopping rule was met within the maximum number of sweeps.
    coords : mapping of str to sequence
        Labels of the axes of the factors.
    dims : mapping of str to sequence of str
        Names of the axes of each factor.

    See Also
    --------
    pyflowers.vb.fit_normal : Fit one normal distribution.
    pyflowers.vb.fit_multilevel_normal : Fit the multilevel normal model.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers import vb
    >>> fit = vb.fit_normal([4, 5, 6, 5])
    >>> round(float(fit.mean("theta")), 2), round(float(fit.sd("theta")), 2)
    (5.0, 0.61)
    >>> fit.quantile("theta", [0.05, 0.95]).round(2)
    array([3.99, 6.01])
    >>> list(fit.table().columns)
    ['median', '5%', '95%', 'mean', 'sd']
    >>> bool(fit.logpdf("theta", 5) > fit.logpdf("theta", 4))
    True

    Draws of q, as arrays or for ArviZ:

    >>> rng = np.random.default_rng(1)
    >>> fit.sample(rng, 1_000)["sigma2"].shape
    (1000,)
    >>> dict(fit.to_inference_data(rng, num_draws=500).posterior.sizes)
    {'chain': 1, 'draw': 500}
    """

    factors: Mapping[str, Distribution]
    elbo: FloatArray
    elbo_trace: FloatArray
    states: tuple[State, ...]
    num_iter: int
    converged: BoolArray
    coords: Mapping[str, Sequence[Hashable]]
    dims: Mapping[str, Sequence[str]]

    def __getitem__(self, name: str) -> Distribution:
        """Return the factor of one parameter."""
        try:
            return self.factors[name]
        except KeyError:
            known = ", ".join(self.factors)
            raise ConfigError(f"q has no parameter {name!r}; it has {known}") from None

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters."""
        return tuple(self.factors)

    def mean(self, name: str) -> FloatArray:
        """Return the mean of a factor; NaN where it does not exist.

        Parameters
        ----------
        name : str
            The parameter.

        Returns
        -------
        array, shape of the factor
            The mean, in the unit of the parameter.

        Raises
        ------
        ConfigError
            If there is no such parameter.
        """
        return self[name].mean

    def sd(self, name: str) -> FloatArray:
        """Return the standard deviation of a factor; NaN where it does not exist.

        Parameters
        ----------
        name : str
            The parameter.

        Returns
        -------
        array, shape of the factor
            The standard deviation, in the unit of the parameter.

        Raises
        ------
        ConfigError
            If there is no such parameter.
        """
        return self[name].sd

    def quantile(self, name: str, p: npt.ArrayLike) -> FloatArray:
        """Return quantiles of a factor.

        Parameters
        ----------
        name : str
            The parameter.
        p : float or array
            Probabilities between 0 and 1.

        Returns
        -------
        array, shape (*shape of `p`, *shape of the factor)
            The quantiles, in the unit of the parameter.

        Raises
        ------
        ConfigError
            If there is no such parameter or `p` is not a probability.
        """
        return self[name].quantile(checked_probability(p))

    def table(self, interval: float = INTERVAL) -> pd.DataFrame:
        """Return the median, an interval, the mean and the sd of each parameter.

        A mean or sd that does not exist is NaN.

        Parameters
        ----------
        interval : float
            Probability of the central interval.

        Returns
        -------
        DataFrame
            A row for each element of each parameter.

        Raises
        ------
        ConfigError
            If `interval` does not lie between 0 and 1.
        """
        probs, found = interval_quantiles(interval), {}
        for name in self.names:
            quantiles = self.quantile(name, list(probs.values()))
            found[name] = dict(zip(probs, quantiles, strict=True))
            found[name] |= {"mean": self.mean(name), "sd": self.sd(name)}
        axes = {n: [self.coords[d] for d in dims] for n, dims in self.dims.items()}
        return element_table(found, axes)

    def contents(self) -> list[Line]:
        """Return the table, whether the ascent converged, and the moments that do not exist."""
        num, total = int(np.count_nonzero(self.converged)), int(np.size(self.converged))
        state = ("NOT converged", "converged")[num == total]
        sweeps = counted(self.num_iter, "sweep")
        if total == 1:
            state = f"{state} in {sweeps}, ELBO {float(np.ravel(self.elbo)[0]):.6f}"
        else:
            state = f"{num} of {total} fits converged in {sweeps}"
        return [
            heading("mean field", "a product of independent distributions"),
            self.table(),
            state,
            "note: a mean field ignores correlations and usually understates the spread; see "
            "pyflowers compare",
            *(f"note: {note}" for note in self._missing_moments()),
        ]

    def _missing_moments(self) -> Iterator[str]:
        """Yield a sentence for each parameter that has a dash in the table."""
        for name, factor in self.factors.items():
            if isinstance(factor, ScaledInvChiSquare) and np.min(factor.dof) <= 4:
                yield (
                    f"{name}: a mean exists only above 2 degrees of freedom and an sd only above "
                    f"4, but its factor has {np.min(factor.dof):g}; use its median"
                )

    def logpdf(self, name: str, x: npt.ArrayLike) -> FloatArray:
        """Return the log density of a factor.

        Parameters
        ----------
        name : str
            The parameter.
        x : float or array
            Values of the parameter, which broadcast against the factor.

        Returns
        -------
        array
            The log density at each value.

        Raises
        ------
        ConfigError
            If there is no such parameter.
        """
        return self[name].logpdf(x)

    def sample(
        self, rng: np.random.Generator, size: int | tuple[int, ...]
    ) -> dict[str, FloatArray]:
        """Return independent draws of q.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of the draws.
        size : int or tuple of int
            Number of draws, or their shape.

        Returns
        -------
        dict of str to array, shape (*size, *shape of the factor)
            The draws of each parameter.
        """
        return {name: factor.sample(rng, size) for name, factor in self.factors.items()}

    def to_inference_data(
        self, rng: np.random.Generator, *, num_draws: int = 4000, num_chains: int = 1
    ) -> Any:
        """Return draws of q as ``arviz.InferenceData`` or, with ArviZ 1, as a DataTree.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of the draws.
        num_draws : int
            Number of draws per chain; all draws are independent.
        num_chains : int
            Number of chains.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            The draws. The group ``posterior`` has the attributes ``elbo``, ``converged`` and
            ``num_iter``, and the labels of this result's axes.
        """
        import xarray as xr

        labels = {name: list(its) for name, its in self.coords.items()}
        sizes = {"chain": np.arange(num_chains), "draw": np.arange(num_draws)}
        draws = self.sample(rng, (num_chains, num_draws))
        arrays = {}
        for name, values in draws.items():
            own = self.dims.get(name, [f"{name}_dim_{i}" for i in range(values.ndim - 2)])
            arrays[name] = (("chain", "draw", *own), values)
        attrs = {
            "method": "closed-form mean-field variational Bayes",
            "elbo": self.elbo.tolist(),
            "converged": np.asarray(self.converged).astype(int).tolist(),
            "num_iter": self.num_iter,
        }
        return in_arviz({"posterior": xr.Dataset(arrays, {**sizes, **labels}, attrs)})


class Model:
    """Data and prior, with the methods of coordinate ascent: ``update_NAME`` and ``elbo``."""

    names: ClassVar[tuple[str, ...]]
    """The factors, in the order of their updates."""

    def elbo(self, q: Factors) -> FloatArray:
        """Return the evidence lower bound of q, with all constants."""
        raise NotImplementedError

    def sweep(self, q: Factors, states: list[State] | None) -> Factors:
        """Update each factor, and add q to `states` if given. No update lowers the ELBO."""
        for name in self.names:
            q = q | {name: getattr(self, f"update_{name}")(q)}
            if states is not None:
                states.append(State(name, q, self.elbo(q)))
        return q


def _check_stop_rule(tol: float, max_iter: int) -> None:
    if not (isinstance(tol, Real) and 0 < tol < 1):
        raise ConfigError(f"tol is {tol!r}, but must lie between 0 and 1")
    whole_number("max_iter", max_iter)


def _warn_not_converged(converged: BoolArray, num_iter: int) -> None:
    """Warn about fits that did not converge within the maximum number of sweeps."""
    num = int(np.size(converged) - np.count_nonzero(converged))
    if num:
        which = f"{num} of {np.size(converged)} fits" if np.size(converged) > 1 else "the fit"
        warnings.warn(
            f"{which} had not converged after {counted(num_iter, 'sweep')}: raise "
            "max_iter, or loosen tol",
            NotConvergedWarning,
            stacklevel=3,
        )


# One normal distribution


@dataclass(frozen=True, kw_only=True, repr=False)
class NormalVB(VBResult):
    """A fit of :func:`~pyflowers.vb.fit_normal`, with the factors ``theta`` and ``sigma2``.

    Attributes
    ----------
    factors : mapping of str to Distribution
        q at convergence: a normal ``theta`` and a scaled inverse chi-square ``sigma2``.
    elbo : array, shape of the batch
        ELBO of q, including all constants.
    elbo_trace : array, shape (sweeps + 1, ...)
        ELBO at the start and after every full sweep; empty if nothing was recorded.
    states : tuple of State
        q at the start and after every update of a factor; empty if nothing was recorded.
    num_iter : int
        Number of sweeps.
    converged : array of bool, shape of the batch
        Whether the stopping rule was met within the maximum number of sweeps and the refinement
        converged.
    coords : mapping of str to sequence
        Labels of the axes of the batch.
    dims : mapping of str to sequence of str
        Names of the axes of each factor.
    statistics : SufficientStatistics
        The data that were fitted.
    prior : NormalPrior
        The prior of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers import vb
    >>> fit = vb.fit_normal([4, 5, 6, 5])
    >>> theta, sigma2 = np.meshgrid(np.linspace(3, 7, 50), np.linspace(0.2, 5, 50))
    >>> fit.log_q(theta, sigma2).shape  # for a contour plot
    (50, 50)
    """

    statistics: SufficientStatistics
    prior: NormalPrior

    def log_q(self, theta: npt.ArrayLike, sigma2: npt.ArrayLike) -> FloatArray:
        """Return the log density of q at (theta, sigma2), for contours.

        Parameters
        ----------
        theta : float or array
            Means, in units of the data.
        sigma2 : float or array
            Variances, which broadcast against `theta`.

        Returns
        -------
        array
            The log density at each pair.
        """
        return self.logpdf("theta", theta) + self.logpdf("sigma2", sigma2)


@dataclass(frozen=True)
class Theta(Normal):
    """q(theta), which also stores the distances of its mean from the data mean and the prior mean.

    `from_data` is mu_n - x̄, or 0 if there are no data. `from_prior` is mu_n - mu0, or 0 if there
    is no prior mean.
    """

    from_data: FloatArray
    from_prior: FloatArray


class NormalModel(Model):
    """Data and hyperparameters, broadcast to the batch; an improper posterior is rejected.

    Integrating out theta given sigma2, then sigma2, shows when the posterior is proper. With n = 0,
    the posterior is the prior. With nu0 = 0 and S = 0, its density has a pole at theta = x̄. With
    tau0 = inf, sigma2 has nu0 + n - 1 degrees of freedom, which must be positive.

    Attributes
    ----------
    known_ss : array
        The part of (nu0 + n) sigma_n² that does not depend on q(theta): nu0 sigma0² + S.
    precision0 : array
        Prior precision of theta; 0 if flat.
    has_conflict : array of bool
        Whether there are both a data mean and a prior mean.
    conflict : array
        Distance of the data mean from the prior mean; 0 if one of them is missing.

    Raises
    ------
    ConfigError
        If the shapes of data and prior do not broadcast.
    DataError
        If a posterior is improper, or the scales of data and prior are too extreme. The message
        names the first such data set and a remedy.
    """

    names = ("theta", "sigma2")

    def __init__(self, data: SufficientStatistics, prior: NormalPrior) -> None:
        hyper = map(as_floats, (prior.mu0, prior.tau0, prior.nu0, prior.sigma0))
        try:
            arrays = np.broadcast_arrays(data.num, data.mean, data.ss, *hyper)
        except ValueError as error:
            raise ConfigError(
                f"the prior's shape must broadcast against the batch's shape, {data.num.shape}"
            ) from error
        num, self.mean, ss, self.mu0, tau0, nu0, self.sigma0 = map(as_floats, arrays)
        self.num, self.tau0, self.nu0, self.precision0 = num, tau0, nu0, tau0**-2.0
        self.has_conflict = (num > 0) & np.isfinite(tau0)
        self.conflict = np.where(self.has_conflict, self.mean - self.mu0, 0.0)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            self.known_ss = as_floats(ss + np.where(nu0 > 0, nu0 * self.sigma0**2, 0.0))
            ends = self.known_ss + num * self.conflict**2, num * self.dof / self.known_ss
        flat = "the posterior is improper under a flat prior with"
        equal = "one observation or only equal ones: give a positive nu0 and sigma0"
        extreme = "the scales of data and prior are too extreme to square: rescale data and prior"
        for bad, what in (
            (np.isinf(tau0) & (num == 0), f"{flat} no observations: give a finite tau0"),
            ((nu0 == 0) & (num == 0), f"{flat} no observations: give a positive nu0"),
            ((nu0 == 0) & (ss == 0), f"{flat} {equal}"),
            (~np.all(np.isfinite(ends), axis=0), extreme),
        ):
            if np.any(bad):
                place = f"data set {int(np.argmax(bad))}: " if bad.shape else ""
                raise DataError(place + what)

    @property
    def dof(self) -> FloatArray:
        """Degrees of freedom of q(sigma2): nu0 + n, not nu0 + n + 1."""
        return self.nu0 + self.num

    def update_theta(self, q: Factors) -> Theta:
        """Return the optimal q(theta) given q(sigma2)."""
        data_precision = self.num / q["sigma2"].scale ** 2
        precision = data_precision + self.precision0
        w, w0 = data_precision / precision, self.precision0 / precision
        mean = w * self.mean + w0 * self.mu0
        return Theta(mean, precision**-0.5, -w0 * self.conflict, w * self.conflict)

    def update_sigma2(self, q: Factors) -> ScaledInvChiSquare:
        """Return the optimal q(sigma2) given q(theta)."""
        return ScaledInvChiSquare(self.dof, np.sqrt(self._squares(q["theta"]) / self.dof))

    def _squares(self, theta: Theta) -> FloatArray:
        return as_floats(self.known_ss + self.num * (theta.from_data**2 + theta.sd**2))

    def elbo(self, q: Factors) -> FloatArray:
        """Return E log p of data, theta and sigma2, plus the entropies of q."""
        theta, sigma2, flat = q["theta"], q["sigma2"], np.isinf(self.tau0)
        mean_log, tau0 = sigma2.mean_log, np.where(flat, 1.0, self.tau0)
        squares = self._squares(theta)
        log_lik = -0.5 * self.num * (LOG_2PI + mean_log) - 0.5 * squares / sigma2.scale**2
        z2 = (theta.from_prior / tau0) ** 2 + (theta.sd / tau0) ** 2
        log_theta = np.where(flat, 0.0, -0.5 * (LOG_2PI + z2) - np.log(tau0))
        # nu0 sigma0² E[1 / sigma2] is already in log_lik, as part of known_ss.
        log_sigma2 = log_constant(self.nu0, self.sigma0) - (self.nu0 / 2 + 1) * mean_log
        return as_floats(log_lik + log_theta + log_sigma2 + theta.entropy() + sigma2.entropy())

    def polished(self, s: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Solve log G(s) = log s by Newton's method; return s, and where the method converged."""
        dof, num, conflict = self.dof, self.num, self.conflict
        previous = np.full_like(s, np.inf)
        for _ in range(_POLISH_STEPS):
            tau2 = 1 / (num / s + self.precision0)
            misfit = self.precision0 * tau2 * conflict
            swept = (self.known_ss + num * misfit**2 + num * tau2) / dof
            residual = np.log1p((swept - s) / s)
            # d tau2 / d s = n tau2² / s², and d misfit / d tau2 = misfit / tau2.
            w = num / s * tau2
            slope = num * (2 * misfit**2 + tau2) * w / (dof * swept)
            active = (np.abs(residual) > _POLISHED) & (np.abs(residual) < previous)
            if not np.any(active):
                break
            previous = np.where(active, np.abs(residual), previous)
            step = residual / np.where(slope < 1, 1 - slope, 1.0)
            s = np.where(active, s * np.exp(np.clip(step, -1, 1)), s)
        return s, np.abs(residual) <= 1e-13

    def ascend(
        self, q: Factors, tol: float, max_iter: int, states: list[State] | None = None
    ) -> tuple[Factors, FloatArray, BoolArray, int]:
        """Sweep until the ELBO stops changing, then polish the fixed point.

        Return q, its ELBO, whether each ascent converged, and the number of sweeps.
        """
        value, num_iter = self.elbo(q), 0
        if states is not None:
            states.append(State("start", q, value))
        still = np.zeros(value.shape, dtype=bool)
        while not np.all(still) and num_iter < max_iter:
            before, q = value, self.sweep(q, states)
            value, num_iter = self.elbo(q), num_iter + 1
            still = np.abs(value - before) <= tol * np.maximum(1.0, np.abs(value))
        s, polished = self.polished(q["sigma2"].scale ** 2)
        end = ScaledInvChiSquare(self.dof, np.where(still, np.sqrt(s), q["sigma2"].scale))
        q = self.sweep(q | {"sigma2": end}, states)
        return q, self.elbo(q), still & polished, num_iter + 1

    def best_start(self, tol: float, max_iter: int) -> Factors:
        """Return a start below or above all fixed points, whichever leads to the higher maximum.

        The start below has sigma_n² = A / ν, as if theta were exactly x̄. The start above has
        w = 0, so that q(theta) is the prior. It can be better only if the cubic of the fixed points

            A n² λ³ + (2 A n a + n² - ν n²) λ² + (A a² + n a² d² + n a - 2 ν n a) λ - ν a² = 0

        in λ = 1 / sigma_n², with A = nu0 sigma0² + S, a = 1 / tau0², d = x̄ - mu0 and ν = nu0 + n,
        has coefficients that change sign three times (Descartes). The start above is tried only if
        there is such a data set.
        """
        known, num, dof, a = self.known_ss, self.num, self.dof, self.precision0
        with np.errstate(over="ignore"):
            third = self.has_conflict & (2 * known * a + num < dof * num)
            third &= known * a + num * a * self.conflict**2 + num > 2 * dof * num

        def start(ss: FloatArray) -> Factors:
            sigma2 = ScaledInvChiSquare(dof, np.sqrt(ss / dof))
            return {"theta": self.update_theta({"sigma2": sigma2}), "sigma2": sigma2}

        if not np.any(third):
            return start(known)
        above = known + np.where(third, num * (self.conflict**2 + self.tau0**2), 0.0)
        lower, higher = (self.ascend(start(ss), tol, max_iter)[1] for ss in (known, above))
        return start(np.where(third & (higher > lower), above, known))

    def given_start(self, theta: Normal, sigma2: ScaledInvChiSquare) -> Factors:
        """Return the given factors, broadcast to the batch; raise ConfigError if invalid."""
        values = map(as_floats, (theta.mean, theta.sd, sigma2.dof, sigma2.scale))
        try:
            mean, sd, dof, scale = (np.broadcast_to(v, self.num.shape) for v in values)
        except ValueError as error:
            raise ConfigError(
                f"init's shape must broadcast to the batch's shape, {self.num.shape}"
            ) from error
        good = np.isfinite(mean) & (sd > 0) & (dof > 0) & (scale >= 1e-150) & (scale <= 1e150)
        if not np.all(good & np.isfinite(sd) & np.isfinite(dof)):
            raise ConfigError(
                "init must hold a finite mean, a positive and finite sd and dof, and a scale from "
                "1e-150 to 1e150"
            )
        from_data = np.where(self.num > 0, mean - self.mean, 0.0)
        from_prior = np.where(np.isfinite(self.tau0), mean - self.mu0, 0.0)
        first = Theta(mean, sd, from_data, from_prior)
        return {"theta": first, "sigma2": ScaledInvChiSquare(dof, scale)}


def fit_normal(
    x: npt.ArrayLike | SufficientStatistics,
    prior: NormalPrior | None = None,
    *,
    init: tuple[Normal, ScaledInvChiSquare] | None = None,
    tol: float = 1e-10,
    max_iter: int = 1000,
    record: bool | None = None,
) -> NormalVB:
    """Fit q(theta) q(sigma2) to normal data by coordinate ascent.

    The model is x ~ N(theta, sigma2), with theta ~ N(mu0, tau0²) and sigma2 ~ scaled-inv-χ²(nu0,
    sigma0²) independent in the prior.

    Sweeps update q(theta), then q(sigma2), until the ELBO changes by at most
    ``tol * max(1, |ELBO|)``. The ELBO is flat to first order at its maximum, so this rule
    alone could leave parameters wrong in the sixth digit. Newton's method then refines the fixed
    point to rounding error.

    Parameters
    ----------
    x : array, shape (..., n), or SufficientStatistics, shape (...)
        Observations of one data set, or of a batch along the leading axes.
    prior : NormalPrior, optional
        Hyperparameters, which broadcast against the batch. Default: ``NormalPrior()``.
    init : (Normal, ScaledInvChiSquare), optional
        Where to start. If prior and data disagree about theta, the ELBO can have two maxima. The
        ascent then reaches the maximum whose basin of attraction contains `init`. Default: a start
        that leads to the higher maximum.
    tol : float
        Relative change of the ELBO at which sweeps stop.
    max_iter : int
        Maximum number of sweeps before the refinement, which adds one more sweep.
    record : bool, optional
        Whether to keep ``elbo_trace`` and ``states``. Default: only for a single data set.

    Returns
    -------
    NormalVB
        q, with its ELBO.

    Raises
    ------
    DataError
        If the data cannot be used or the posterior is improper.
    ConfigError
        If `tol`, `max_iter` or `init` is out of range, or `prior` or `init` has the wrong shape.

    Warns
    -----
    NotConvergedWarning
        If `max_iter` is reached before convergence; ``converged`` shows which fits converged.

    See Also
    --------
    pyflowers.exact.NormalExact : The exact posterior of the same model.

    Examples
    --------
    >>> from pyflowers import vb
    >>> fit = vb.fit_normal([4, 5, 6, 5])
    >>> bool(fit.converged)
    True
    >>> print(fit)
    mean field  a product of independent distributions
    <BLANKLINE>
    parameter  median     5%   95%  mean     sd
    ...
    theta        5.00   3.99  6.01  5.00  0.612
    sigma2       1.72  0.677  6.55  2.50   3.54
    ...

    Two data sets at once:

    >>> batch = vb.fit_normal([[4, 5, 6, 5], [1, 2, 3, 2]])
    >>> batch.mean("theta").round(2)
    array([5., 2.])
    """
    if prior is None:
        prior = NormalPrior()
    statistics = x if isinstance(x, SufficientStatistics) else SufficientStatistics.from_array(x)
    _check_stop_rule(tol, max_iter)
    model = NormalModel(statistics, prior)
    shape, states = model.num.shape, list[State]()
    start = model.given_start(*init) if init else model.best_start(tol, max_iter)
    if record is None:
        record = not shape
    q, value, converged, num_iter = model.ascend(start, tol, max_iter, states if record else None)
    _warn_not_converged(converged, num_iter)
    axes = [f"dataset_{i}" if len(shape) > 1 else "dataset" for i in range(len(shape))]
    trace = [state.elbo for state in states if state.updated != "theta"]

    def shown(q: Mapping[str, Any]) -> Factors:
        return {**q, "theta": Normal(q["theta"].mean, q["theta"].sd)}

    return NormalVB(
        factors=shown(q),
        elbo=value,
        elbo_trace=np.reshape(trace, (-1, *shape)),
        states=tuple(replace(state, factors=shown(state.factors)) for state in states),
        num_iter=num_iter,
        converged=converged,
        coords={axis: range(num) for axis, num in zip(axes, shape, strict=True)},
        dims={"theta": axes, "sigma2": axes},
        statistics=statistics,
        prior=prior,
    )


# The multilevel normal model


@dataclass(frozen=True, kw_only=True, repr=False)
class MultilevelVB(VBResult):
    """A fit of :func:`~pyflowers.vb.fit_multilevel_normal`.

    Attributes
    ----------
    factors : mapping of str to Distribution
        q at convergence: ``mu``, ``sigma2`` and, of shape (P,), ``mu_plant`` and ``sigma2_plant``.
    elbo : array, shape ()
        ELBO of q, including all constants.
    elbo_trace : array, shape (sweeps + 1,)
        ELBO at the start and after every full sweep.
    states : tuple of State
        q at the start and after every update of a factor; empty if nothing was recorded.
    num_iter : int
        Number of sweeps.
    converged : array of bool, shape ()
        Whether the stopping rule was met within the maximum number of sweeps.
    coords : mapping of str to sequence
        The plants' labels, under ``plant``.
    dims : mapping of str to sequence of str
        Names of the axes of each factor.
    statistics : SufficientStatistics, shape (P,)
        The data that were fitted.
    prior : MultilevelPrior
        The prior of the fit.

    Examples
    --------
    >>> from pyflowers import vb
    >>> y, plant = [4, 5, 6, 1, 2, 3, 2, 7, 9, 8], list("aaabbbbccc")
    >>> statistics, plants = vb.SufficientStatistics.from_groups(y, plant)
    >>> fit = vb.fit_multilevel_normal(statistics, plants=plants)
    >>> fit.names
    ('mu', 'sigma2', 'mu_plant', 'sigma2_plant')
    >>> fit.coords["plant"]
    ('a', 'b', 'c')
    """

    statistics: SufficientStatistics
    prior: MultilevelPrior


class MultilevelModel(Model):
    """The statistics and the prior; q(mu) and q(sigma2) broadcast against the plants."""

    names = ("mu_plant", "sigma2_plant", "mu", "sigma2")

    def __init__(self, data: SufficientStatistics, prior: MultilevelPrior) -> None:
        self.data, self.prior, self.num_plants = data, prior, data.num.size
        self.dof = self.num_plants + prior.sigma2_nu
        self.prior_ss = prior.sigma2_nu * prior.sigma2_scale**2
        self.plant_dof = data.num + prior.sigma2_plant_nu
        self.plant_prior_ss = prior.sigma2_plant_nu * prior.sigma2_plant_scale**2

    def start(self) -> Factors:
        """Return factors from the plants' data and, for mu and sigma2, from the plants' means."""
        num, means, seen = self.data.num, self.data.mean, self.data.num > 0
        scales = np.sqrt((self.plant_prior_ss + self.data.ss) / self.plant_dof)
        centre = means[seen].mean() if np.any(seen) else self.prior.mu_mean
        squares = np.sum((means[seen] - centre) ** 2)
        scale = np.sqrt((self.prior_ss + squares) / self.dof)
        sds = np.where(seen, scales / np.sqrt(np.maximum(num, 1)), scale)
        return {
            "mu": Normal(as_floats(centre), as_floats(scale / np.sqrt(num.size))),
            "sigma2": ScaledInvChiSquare(as_floats(self.dof), as_floats(scale)),
            "mu_plant": Normal(np.where(seen, means, centre), sds),
            "sigma2_plant": ScaledInvChiSquare(self.plant_dof, scales),
        }

    def update_mu_plant(self, q: Factors) -> Normal:
        """Return the optimal q(mu_plant), equation (1)."""
        data_precision = self.data.num / q["sigma2_plant"].scale ** 2
        precision = data_precision + q["sigma2"].scale ** -2.0
        w = data_precision / precision
        return Normal(w * self.data.mean + (1 - w) * q["mu"].mean, precision**-0.5)

    def update_sigma2_plant(self, q: Factors) -> ScaledInvChiSquare:
        """Return the optimal q(sigma2_plant), equation (2)."""
        ss = self.plant_prior_ss + self._expected_ss(q)
        return ScaledInvChiSquare(self.plant_dof, np.sqrt(ss / self.plant_dof))

    def update_mu(self, q: Factors) -> Normal:
        """Return the optimal q(mu), equation (3)."""
        plants_precision = self.num_plants / q["sigma2"].scale ** 2
        precision = plants_precision + self.prior.mu_sd**-2.0
        w = plants_precision / precision
        mean = w * np.mean(q["mu_plant"].mean) + (1 - w) * self.prior.mu_mean
        return Normal(as_floats(mean), as_floats(precision**-0.5))

    def update_sigma2(self, q: Factors) -> ScaledInvChiSquare:
        """Return the optimal q(sigma2), equation (4)."""
        scale = np.sqrt((self.prior_ss + self._expected_plant_ss(q)) / self.dof)
        return ScaledInvChiSquare(as_floats(self.dof), as_floats(scale))

    def elbo(self, q: Factors) -> FloatArray:
        """Return E log p of the data, mu_plant, both variances and mu, plus the entropies."""
        mu, sigma2, sigma2_plant, prior = q["mu"], q["sigma2"], q["sigma2_plant"], self.prior
        z2 = ((mu.mean - prior.mu_mean) / prior.mu_sd) ** 2 + (mu.sd / prior.mu_sd) ** 2
        of_data = self.data.num * (LOG_2PI + sigma2_plant.mean_log)
        of_data = of_data + self._expected_ss(q) * sigma2_plant.mean_inverse
        of_plants = self.num_plants * (LOG_2PI + sigma2.mean_log)
        of_plants = of_plants + self._expected_plant_ss(q) * sigma2.mean_inverse
        total = -0.5 * (np.sum(of_data) + of_plants + LOG_2PI + z2) - np.log(prior.mu_sd)
        for factor, nu, scale in (
            (sigma2, prior.sigma2_nu, prior.sigma2_scale),
            (sigma2_plant, prior.sigma2_plant_nu, prior.sigma2_plant_scale),
        ):
            kernel = (nu / 2 + 1) * factor.mean_log + 0.5 * nu * scale**2 * factor.mean_inverse
            total = total + np.sum(log_constant(nu, scale) - kernel)
        return as_floats(total + sum(np.sum(factor.entropy()) for factor in q.values()))

    def _expected_ss(self, q: Factors) -> FloatArray:
        """Return E Σ (y - mu_plant)² for each plant."""
        data, plants = self.data, q["mu_plant"]
        return as_floats(data.ss + data.num * ((data.mean - plants.mean) ** 2 + plants.sd**2))

    def _expected_plant_ss(self, q: Factors) -> float:
        """Return E Σ (mu_plant - mu)²."""
        mu, plants = q["mu"], q["mu_plant"]
        deviation = plants.mean - mu.mean
        return float(deviation @ deviation + np.sum(plants.sd**2) + deviation.size * mu.sd**2)


def _extrapolated(q: Factors, log_scales: Sequence[float]) -> Factors:
    """Return q with the scale of q(sigma2) extrapolated from the last three `log_scales`.

    Aitken's limit of a linearly convergent sequence is x2 + (x2 - x1) r / (1 - r) with r = (x2 -
    x1) / (x1 - x0). The step is limited to a factor of e^4, and q is unchanged if r is not between
    0 and 1. The next sweep is kept only if it raises the ELBO, and only plain sweeps may end the
    ascent.
    """
    first, second = log_scales[-2] - log_scales[-3], log_scales[-1] - log_scales[-2]
    if first == 0 or not 0 < second / first < 1:
        return q
    r = second / first
    scale = q["sigma2"].scale * np.exp(np.clip(second * r / (1 - r), -4, 4))
    return q | {"sigma2": ScaledInvChiSquare(q["sigma2"].dof, as_floats(scale))}


def _movement(before: Factors, after: Factors) -> float:
    """Return the largest relative change of any parameter of q."""
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

    The model is y ~ N(mu_plant, sigma2_plant) for the observations of a plant, with mu_plant ~
    N(mu, sigma2).

    Sweeps continue until the ELBO changes by at most ``tol * max(1, |ELBO|)`` and no parameter of a
    factor moves by more than 1e-9. The second condition is needed because the ELBO is flat to first
    order at its maximum. Changes of means are relative to the sd of the factor, and changes of
    scales and sds are relative to their size.

    Parameters
    ----------
    statistics : SufficientStatistics, shape (P,)
        The statistics of each plant, from ``SufficientStatistics.from_groups`` or ``from_array``.
    prior : MultilevelPrior, optional
        Hyperparameters. Default: ``MultilevelPrior()``.
    plants : sequence, length P, optional
        The plants' labels. Default: 1 … P.
    tol : float
        Relative change of the ELBO at which sweeps may stop.
    max_iter : int
        Maximum number of sweeps.
    record : bool, optional
        Whether to keep ``states``. Default: only for 100 plants or fewer. The trace is always kept.
        If states are not kept, Aitken's extrapolation approaches the same fixed point faster.

    Returns
    -------
    MultilevelVB
        q, with its ELBO.

    Raises
    ------
    DataError
        If there are no plants, or a plant's posterior is improper under its prior.
    ConfigError
        If `tol` or `max_iter` is out of range, or the number of labels differs from the number of
        plants.

    Warns
    -----
    NotConvergedWarning
        If `max_iter` is reached before convergence.

    See Also
    --------
    pyflowers.exact.exact_multilevel_normal : The exact posterior of the same model.

    Examples
    --------
    The means of the plants shrink towards their common mean:

    >>> from pyflowers import vb
    >>> y, plant = [4, 5, 6, 1, 2, 3, 2, 7, 9, 8], list("aaabbbbccc")
    >>> statistics, plants = vb.SufficientStatistics.from_groups(y, plant)
    >>> statistics.mean
    array([5., 2., 8.])
    >>> fit = vb.fit_multilevel_normal(statistics, plants=plants)
    >>> fit.mean("mu_plant").round(1)
    array([4.7, 2.2, 5.1])
    """
    if prior is None:
        prior = MultilevelPrior()
    labels = checked_labels(statistics, prior, plants)
    _check_stop_rule(tol, max_iter)
    model = MultilevelModel(statistics, prior)
    if record is None:
        record = statistics.num.size <= _RECORD_UP_TO
    q = model.start()
    trace, log_scales = [model.elbo(q)], [np.log(q["sigma2"].scale)]
    states = [State("start", q, trace[0])] if record else None
    converged = False
    while not converged and len(trace) <= max_iter:
        if not record and len(log_scales) > _PLAIN_SWEEPS:
            # If the noise within plants dominates sigma2, the scale of q(sigma2) converges slowly.
            trial = model.sweep(_extrapolated(q, log_scales), None)
            value = model.elbo(trial)
            if value > trace[-1]:
                q = trial
                trace.append(value)
            log_scales = [np.log(q["sigma2"].scale)]
            continue
        before, q = q, model.sweep(q, states)
        trace.append(model.elbo(q))
        log_scales.append(np.log(q["sigma2"].scale))
        still = abs(trace[-1] - trace[-2]) <= tol * np.maximum(1.0, abs(trace[-1]))
        converged = bool(still and _movement(before, q) <= _PARAMETER_TOL)
    num_iter = len(trace) - 1
    _warn_not_converged(np.asarray(converged), num_iter)
    return MultilevelVB(
        factors=q,
        elbo=trace[-1],
        elbo_trace=as_floats(trace),
        states=tuple(states or ()),
        num_iter=num_iter,
        converged=np.asarray(converged),
        coords={"plant": labels},
        dims={"mu_plant": ("plant",), "sigma2_plant": ("plant",)},
        statistics=statistics,
        prior=prior,
    )
