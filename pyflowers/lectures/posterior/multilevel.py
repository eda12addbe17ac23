"""Exact posteriors of the two multilevel flower models: quadrature and independent draws.

    y[t,p] ~ N(mu_plant[p], sigma2_plant[p]),  mu_plant[p] ~ N(mu, sigma2)               (normal)
    y[t,p] ~ Poisson(mu_plant[p]),             log mu_plant[p] ~ N(mu, sigma2)           (Poisson)
    mu ~ N(m0, s0²),  sigma2 ~ scaled-inv-χ²(nu0, sigma0²),
    sigma2_plant[p] ~ scaled-inv-χ²(nu, c²), or flat.

**By quadrature.** Marginals of mu and sigma2 are sums over an evenly spaced grid of t and
u = log sigma2, where mu = centre + unit sinh(t). Given (mu, u), x = mu_plant, or its logarithm in
the Poisson model, has the density p(y_p | x) N(x; mu, e^u) / I_p(mu, u), and the density of
log sigma2_plant is the normalised integrand of I_p. Let W be the posterior weights of the grid
points, so that R = W / I_p is proportional to the posterior without plant p. Then

    p(x | y) = p(y_p | x) Σ_u Σ_mu R(mu, u) N(x; mu, e^u).

If sigma is small compared with the grid's step in mu, the inner sum no longer resolves the kernel,
although log R is smooth on that scale. For such rows of the grid, Gauss-Hermite quadrature around x
is used, with log R from a cubic spline along the row. All densities are smooth, and the other sums
are trapezoidal rules, which converge exponentially. The grid is refined until no quantile moves by
more than 1e-5 of the distance between the 5% and 95% quantiles of its parameter.

**Draws.** Given (mu, sigma2), the plants are independent. Therefore, (mu, sigma2) is drawn first,
from its marginal with the plants integrated out (:mod:`.hyper`), and then each plant from its
conditional distribution, all by rejection sampling. Each draw is exact, up to quadrature and
rounding errors, and independent of all others, so R-hat and effective sample sizes are not needed.
All randomness comes from the given generator: the same seed gives the same draws. The draws of many
plants need not all be in memory at once:

    sampler = PoissonSampler(totals, counts)
    hyper = sampler.draw_hyper(1000, rng)
    for plants, draws in sampler.blocks(hyper, rng):
        medians[plants] = np.median(draws["mu_plant"], axis=0)

References
----------
Gelman et al. (2013), Bayesian Data Analysis, 3rd ed., sections 5.4 and 11.6, for the models.
Trefethen and Weideman (2014), The exponentially convergent trapezoidal rule, SIAM Review 56(3).
Davis and Rabinowitz (1984), Methods of Numerical Integration, 2nd ed., section 3.6.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import interpolate, special

from pyflowers.checked import whole_number
from pyflowers.cores import in_order
from pyflowers.display import INTERVAL, Line, Shown, draws_table, format_number, heading
from pyflowers.errors import ConfigError, DataError
from pyflowers.lectures.posterior.distributions import (
    LOG_2PI,
    WHOLE,
    BoolArray,
    FloatArray,
    IntArray,
    MultilevelPrior,
    SufficientStatistics,
    as_floats,
    checked_labels,
    checked_probability,
    grouped,
    refuse,
)
from pyflowers.lectures.posterior.hyper import (
    Density,
    HyperDraws,
    HyperSampler,
    even_grid,
    located,
    zoom,
)
from pyflowers.lectures.posterior.normal_plants import NormalPlants
from pyflowers.lectures.posterior.plants import Plants
from pyflowers.lectures.posterior.poisson_plants import PoissonPlants

_SIZES = (64, 96, 144, 216, 324)
_TOLERANCE = 1e-5
_CHECKED = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
_DROP, _ZOOM_POINTS = 32.0, 32
_NEGLIGIBLE = 1e-11  # posterior mass left out of mixtures over the grid
_POINTS, _FINE_POINTS = 300, 20_000
_CHUNK = 131_072  # terms that are summed together, limited by a core's cache
_NARROW = 2.0  # a kernel is narrow if sigma is below this number of grid steps in mu
_Z, _Z_WEIGHTS = np.polynomial.hermite_e.hermegauss(24)


_BLOCK = 65_536  # plant draws in one block

Block = tuple[slice, dict[str, FloatArray]]


class NotRefinedWarning(RuntimeWarning):
    """The last refinement of the grid still moved a quantile by more than the tolerance."""


@dataclass(frozen=True)
class Scale:
    """A parameter x as a function of t: centre + unit sinh(t), the exponential of this, or e^t.

    A hyperbolic sine is nearly linear near the centre and geometric far out.
    """

    centre: float = 0.0
    unit: float = 0.0
    exponential: bool = False

    def inner(self, t: FloatArray) -> FloatArray:
        """Return x or, if `exponential` is true, its logarithm."""
        return as_floats(self.centre + self.unit * np.sinh(t) if self.unit else t)

    def x(self, t: FloatArray) -> FloatArray:
        """Return x."""
        return as_floats(np.exp(self.inner(t)) if self.exponential else self.inner(t))

    def slope(self, t: FloatArray) -> FloatArray:
        """Return d inner / dt."""
        return as_floats(self.unit * np.cosh(t) if self.unit else np.ones_like(t))


_LOGS = Scale(exponential=True)


@dataclass(frozen=True)
class Marginal:
    """A distribution, given by its density (possibly unnormalised) on an evenly spaced grid of t.

    `tail_power` is p if x is e^t and its density falls as x^-(p + 1). It determines the
    contribution to moments from beyond the grid.
    """

    t: FloatArray
    density: FloatArray
    scale: Scale
    tail_power: float = np.inf

    def quantile(self, p: FloatArray) -> FloatArray:
        """Return quantiles, in the shape of `p`, from a cubic spline through the density."""
        spline = interpolate.CubicSpline(self.t, self.density, bc_type="natural")
        fine = np.linspace(self.t[0], self.t[-1], _FINE_POINTS)
        # The integral is monotone except for rounding in the tails.
        below = np.maximum.accumulate(spline.antiderivative()(fine))
        return self.scale.x(np.interp(p * below[-1], below, fine))

    def moment(self, power: int) -> float:
        """Return E[x^power]; the caller must ensure that the moment exists."""
        values = self.density * self.scale.x(self.t) ** power
        total = float(values.sum() / self.density.sum())
        if np.isfinite(self.tail_power):
            step = float(self.t[1] - self.t[0])
            beyond = 1 / (step * (self.tail_power - power)) - 0.5
            total += float(values[-1] / self.density.sum()) * beyond
        return total

    def tabulated(self) -> tuple[FloatArray, FloatArray]:
        """Return the grid and the density in x."""
        x, step = self.scale.x(self.t), float(self.t[1] - self.t[0])
        # Where x underflows, so does its slope, and the density in x overflows.
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            slope = self.scale.slope(self.t) * (x if self.scale.exponential else 1.0)
            return x, self.density / (self.density.sum() * step * slope)


class Grid:
    """The posterior of (t, u) on an evenly spaced grid, and the marginals, which are sums over it.

    Parameters
    ----------
    density : Density
        The density for the plants with observations, with constant m and s.
    plants : Plants
        All plants; equal ones are not merged.
    t, u : array, shape (M,) and (U,)
        The points of the grid.
    """

    def __init__(self, density: Density, plants: Plants, t: FloatArray, u: FloatArray) -> None:
        self.t, self.u, self._plants = t, u, plants
        self._scale = Scale(density.centre, density.unit)
        self.mu = self._scale.x(t)
        mu = np.broadcast_to(self.mu, (u.size, t.size))
        each = [plants.some(np.array([p])) for p in range(plants.size)]
        self._log_integrals = [one.sum_log_integrals(mu, u) + one.log_constant for one in each]
        log_joint = density.log_prior(t, u[:, None]) + np.sum(self._log_integrals, axis=0)
        log_total = float(special.logsumexp(log_joint))
        self.log_evidence = log_total + float(np.log((t[1] - t[0]) * (u[1] - u[0])))
        self._log_weights = log_joint - log_total
        self.weights = np.exp(self._log_weights)
        order = np.argsort(self.weights, axis=None)
        light = np.searchsorted(np.cumsum(self.weights.ravel()[order]), _NEGLIGIBLE)
        self._heavy = order[light:]  # the points that hold all but 1e-11 of the mass
        step = self._scale.slope(t) * (t[1] - t[0])
        row_step = (self.weights @ step) / np.maximum(self.weights.sum(axis=1), 1e-300)
        self._narrow = np.exp(0.5 * u) < _NARROW * row_step

    def marginals(
        self, tail_dof: float, near: dict[str, list[Marginal]]
    ) -> dict[str, list[Marginal]]:
        """Return the marginals of each parameter; `near` holds the marginals on a coarser grid."""
        plants = self._plants
        mu = Marginal(self.t, self.weights.sum(axis=0), self._scale)
        sigma2 = Marginal(self.u, self.weights.sum(axis=1), _LOGS, tail_dof / 2)
        made = {"mu": [mu], "sigma2": [sigma2]}
        for name, one in zip(plants.names, (self._mu_plant, self._sigma2_plant), strict=False):
            nears = near.get(name, [None] * plants.size)
            made[name] = [one(p, nears[p]) for p in range(plants.size)]
        return made

    def _mu_plant(self, plant: int, near: Marginal | None) -> Marginal:
        plants = self._plants
        own = float(plants.centre[plant]), float(plants.spread[plant])
        centre, unit = own if plants.seen[plant] else (self._scale.centre, self._scale.unit)
        scale = Scale(centre, unit, plants.log_scale)

        def log_density(t: FloatArray) -> FloatArray:
            x = scale.inner(t)
            prior = self._log_prior(plant, x)
            return as_floats(plants.log_likelihood(plant, x) + np.log(scale.slope(t)) + prior)

        return Marginal(*_even_grid(log_density, -25.0, 25.0, near), scale)

    def _sigma2_plant(self, plant: int, near: Marginal | None) -> Marginal:
        plants = self._plants
        assert isinstance(plants, NormalPlants)
        log_joint = partial(plants.log_joint_variance, plant)
        ends = plants.variance_range(plant, self.mu, float(self.u[-1]))
        w, density = _even_grid(
            lambda w: self._mixture(plant, log_joint, w, self._heavy), *ends, near
        )
        return Marginal(w, density, _LOGS, float(plants.dof[plant]) / 2)

    def _log_prior(self, plant: int, x: FloatArray) -> FloatArray:
        """Return the log density of x given the other plants, log Σ R N(x; mu, e^u)."""
        rows = self._heavy // self.t.size
        narrow = self._narrow[rows]
        parts = [self._mixture(plant, _log_normal, x, self._heavy[~narrow])]
        parts += [self._smoothed(plant, int(row), x) for row in np.unique(rows[narrow])]
        return as_floats(special.logsumexp(np.stack(parts), axis=0))

    def _smoothed(self, plant: int, row: int, x: FloatArray) -> FloatArray:
        """Return Σ_mu R N(x; mu, e^u) for one narrow row, by Gauss-Hermite quadrature around x."""
        points = x[:, None] + np.exp(0.5 * self.u[row]) * _Z
        t, ends = np.arcsinh((points - self._scale.centre) / self._scale.unit), self.t[[0, -1]]
        # Divide by the step, because weights are per grid point and the density is per unit of mu.
        step = self._scale.slope(self.t) * (self.t[1] - self.t[0])
        log_rest = self._log_weights[row] - self._log_integrals[plant][row] - np.log(step)
        spline = interpolate.CubicSpline(self.t, log_rest)
        values = np.where((t < ends[0]) | (t > ends[1]), -1e300, spline(np.clip(t, *ends)))
        return as_floats(special.logsumexp(values, axis=1, b=_Z_WEIGHTS / np.sqrt(2 * np.pi)))

    def _mixture(
        self,
        plant: int,
        log_term: Callable[[FloatArray, FloatArray, FloatArray], FloatArray],
        at: FloatArray,
        index: IntArray,
    ) -> FloatArray:
        """Return the log of Σ R exp(log_term(at, mu, u)) over the grid points in `index`."""
        row, column = np.divmod(index, self.t.size)
        mu, u = self.mu[column], self.u[row]
        log_rest = (self._log_weights - self._log_integrals[plant])[row, column]
        parts = [np.full(at.size, -1e300)]
        size = max(1, _CHUNK // at.size)
        for start in range(0, index.size, size):
            part = slice(start, start + size)
            terms = log_term(at[:, None], mu[part], u[part]) + log_rest[part]
            peak = np.maximum(terms.max(axis=1), -1e300)
            terms -= peak[:, None]
            parts.append(peak + np.log(np.exp(terms, out=terms).sum(axis=1)))
        return as_floats(special.logsumexp(np.stack(parts), axis=0))


def _log_normal(x: FloatArray, mu: FloatArray, u: FloatArray) -> FloatArray:
    """Return log N(x; mu, e^u)."""
    return as_floats(-0.5 * (LOG_2PI + u + np.exp(-u) * (x - mu) ** 2))


def _even_grid(
    log_density: Callable[[FloatArray], FloatArray],
    low: float,
    high: float,
    near: Marginal | None,
) -> tuple[FloatArray, FloatArray]:
    """Return evenly spaced points where a density is above e^-30 of its maximum, and its values.

    The limits [low, high] may be generous, because they are narrowed. If `near` is given, its
    limits are used instead.
    """
    if near is not None:
        low, high = float(near.t[0]), float(near.t[-1])
    for _ in range(0 if near is not None else 20):
        t = np.linspace(low, high, 64)
        log_value = log_density(t)
        inside = np.flatnonzero(log_value > log_value.max() - 30.0)
        before = high - low
        low, high = float(t[max(inside[0] - 1, 0)]), float(t[min(inside[-1] + 1, 63)])
        if high - low > 0.8 * before:
            break
    t = np.linspace(low, high, _POINTS)
    log_value = log_density(t)
    return t, np.exp(log_value - log_value.max())


class MultilevelExact:
    """The exact posterior of a multilevel model.

    Use :func:`pyflowers.exact.exact_multilevel_normal` or
    :func:`pyflowers.exact.exact_multilevel_poisson` to compute it.

    Parameters
    ----------
    plants : Plants
        All plants.
    labels : sequence
        The plants' labels.
    log_constant : float
        The part of the log likelihood that `plants` leaves out.

    Attributes
    ----------
    names : tuple of str
        ``mu``, ``sigma2``, ``mu_plant`` and, in the normal model, ``sigma2_plant``.
    log_evidence : float
        log p(y). Under a flat prior on sigma2_plant, it is relative to a prior density of 1.
    refinement : float
        The largest change of a quantile in the last refinement of the grid, as a share of the
        distance between the 5% and 95% quantiles of its parameter.

    Warns
    -----
    NotRefinedWarning
        If `refinement` is above 1e-5 on the finest grid.

    Examples
    --------
    >>> from pyflowers import exact
    >>> y, plant = [4, 5, 6, 1, 2, 3, 7, 9, 8], list("aaabbbccc")
    >>> posterior = exact.exact_multilevel_poisson(y, plant)
    >>> posterior.names, posterior.labels
    (('mu', 'sigma2', 'mu_plant'), ('a', 'b', 'c'))
    >>> posterior.mean("mu_plant").round(2), posterior.sd("mu_plant").round(2)
    (array([4.98, 2.14, 7.88]), array([1.27, 0.83, 1.61]))
    >>> posterior.quantile("mu", [0.05, 0.5, 0.95]).round(2)
    array([-0.37,  1.44,  3.22])

    The marginal density of mu, for a plot:

    >>> import numpy as np
    >>> grid, density = posterior.marginal("mu")
    >>> area = np.sum(np.diff(grid) * (density[1:] + density[:-1]) / 2)
    >>> round(float(area), 2)
    1.0
    """

    def __init__(
        self, plants: Plants, labels: Sequence[Hashable], log_constant: float = 0.0
    ) -> None:
        self._plants, self.labels = plants, tuple(labels)
        self.names = ("mu", "sigma2", *plants.names)
        density = Density(plants.some(plants.seen), fixed=True)
        self._tail_dof, box = density.tail_dof, zoom(density, _DROP, _ZOOM_POINTS).box
        self.refinement, before = np.inf, None
        self._marginals: dict[str, list[Marginal]] = {}
        for size in _SIZES:
            grid = Grid(density, plants, *even_grid(box, size, size))
            self._marginals = grid.marginals(self._tail_dof, self._marginals)
            now = {name: self.quantile(name, _CHECKED) for name in self.names}
            if before is not None:
                self.refinement = max(_moved(before[name], now[name]) for name in self.names)
            if self.refinement <= _TOLERANCE:
                break
            before = now
        else:
            warnings.warn(
                f"the last refinement of the grid still moved a quantile by {self.refinement:.1e} "
                "of the distance between the 5% and 95% quantiles, because the posterior's scales "
                "are too far apart: use NUTS instead",
                NotRefinedWarning,
                stacklevel=3,
            )
        self.grid, self.log_evidence = grid, grid.log_evidence + log_constant

    def quantile(self, name: str, p: npt.ArrayLike) -> FloatArray:
        """Return posterior quantiles.

        Parameters
        ----------
        name : str
            The parameter, such as ``mu_plant``.
        p : float or array
            Probabilities between 0 and 1.

        Returns
        -------
        array, shape of `p`, or (*shape of `p`, P) for plants
            The quantiles, in the unit of the parameter.

        Raises
        ------
        ConfigError
            If there is no such parameter or `p` is not a probability.
        """
        p = checked_probability(p)
        return self._stacked(name, [one.quantile(p) for one in self._of(name)])

    def mean(self, name: str) -> FloatArray:
        """Return the posterior mean.

        Parameters
        ----------
        name : str
            The parameter, such as ``mu_plant``.

        Returns
        -------
        array, shape () or (P,)
            The mean; NaN where it does not exist, for the reason in :attr:`missing_moments`.

        Raises
        ------
        ConfigError
            If there is no such parameter.
        """
        return self._stacked(name, self._moments(name, 1))

    def sd(self, name: str) -> FloatArray:
        """Return the posterior standard deviation.

        Parameters
        ----------
        name : str
            The parameter, such as ``mu_plant``.

        Returns
        -------
        array, shape () or (P,)
            The standard deviation; NaN where it does not exist, for the reason in
            :attr:`missing_moments`.

        Raises
        ------
        ConfigError
            If there is no such parameter.
        """
        return self._stacked(name, np.sqrt(self._moments(name, 2) - self._moments(name, 1) ** 2))

    def _moments(self, name: str, power: int) -> FloatArray:
        """Return E[x^power] of each element of a parameter; NaN if it does not exist."""
        each = zip(self._of(name), self._has_moment(name, power), strict=True)
        return np.array([one.moment(power) if exists else np.nan for one, exists in each])

    def marginal(self, name: str) -> tuple[FloatArray, FloatArray]:
        """Return a grid and the marginal density on it.

        Parameters
        ----------
        name : str
            The parameter, such as ``mu_plant``.

        Returns
        -------
        grid : array, shape (G,) or (P, G)
            Values of the parameter, ascending.
        density : array, shape (G,) or (P, G)
            The posterior density at each value.

        Raises
        ------
        ConfigError
            If there is no such parameter.
        """
        pairs = [one.tabulated() for one in self._of(name)]
        if name in ("mu", "sigma2"):
            return pairs[0]
        return np.stack([grid for grid, _ in pairs]), np.stack([density for _, density in pairs])

    @cached_property
    def missing_moments(self) -> Mapping[tuple[str, str], str]:
        """The reason why a moment does not exist, by (name, "mean" or "sd")."""
        reasons = {}
        for name in self.names:
            for power, moment in ((1, "mean"), (2, "sd")):
                exists = self._has_moment(name, power)
                if np.all(exists):
                    continue
                of_plants = ""
                if name not in ("mu", "sigma2"):
                    lacking = [str(self.labels[p]) for p in np.flatnonzero(~exists)]
                    plural = "" if len(lacking) == 1 else "s"
                    of_plants = f" for plant{plural} {', '.join(lacking)}"
                reasons[name, moment] = (
                    f"{name} has no posterior {moment}{of_plants}: its upper tail is too heavy "
                    f"with so few {'informative plants' if name == 'sigma2' else 'observations'}"
                )
        return reasons

    def _of(self, name: str) -> list[Marginal]:
        if name not in self._marginals:
            raise ConfigError(
                f"the posterior has no parameter {name!r}; it has {', '.join(self.names)}"
            )
        return self._marginals[name]

    def _stacked(self, name: str, values: Iterable[FloatArray]) -> FloatArray:
        each = list(values)
        return as_floats(each[0] if name in ("mu", "sigma2") else np.stack(each, axis=-1))

    def _has_moment(self, name: str, power: int) -> BoolArray:
        """Return whether E[x^power] is finite, from the power of the density's upper tail."""
        tails = {"mu": np.full(1, np.inf), "sigma2": np.full(1, self._tail_dof / 2)}
        self._of(name)
        return (tails | self._plants.tails(self._tail_dof))[name] > power


def _moved(before: FloatArray, after: FloatArray) -> float:
    """Return the largest change of the quantiles, relative to the 5% to 95% range."""
    return float(np.max(np.abs(after - before) / (after[-1] - after[0])))


def exact_multilevel_normal(
    statistics: SufficientStatistics,
    prior: MultilevelPrior | None = None,
    *,
    plants: Sequence[Hashable] | None = None,
) -> MultilevelExact:
    """Compute the exact posterior of the model `multilevel_normal` by quadrature.

    Parameters
    ----------
    statistics : SufficientStatistics, shape (P,)
        The statistics of each plant; the numbers of months may differ.
    prior : MultilevelPrior, optional
        Hyperparameters. Default: ``MultilevelPrior()``.
    plants : sequence, length P, optional
        The plants' labels. Default: 1 … P.

    Returns
    -------
    MultilevelExact
        The posterior of ``mu``, ``sigma2``, ``mu_plant`` and ``sigma2_plant``.

    Raises
    ------
    DataError
        If there are no plants, or a plant's posterior is improper under its prior.
    ConfigError
        If the number of labels differs from the number of plants.

    Warns
    -----
    NotRefinedWarning
        If the last refinement of the grid still moved a quantile by more than 1e-5 of the distance
        between the 5% and 95% quantiles of its parameter.

    See Also
    --------
    pyflowers.exact.NormalSampler : Draw from the same posterior.
    pyflowers.vb.fit_multilevel_normal : Approximate the posterior.

    Examples
    --------
    The means of the plants shrink towards their common mean:

    >>> from pyflowers import exact, vb
    >>> y, plant = [4, 5, 6, 5, 5, 1, 2, 3, 2, 2, 7, 9, 8, 8, 7], list("aaaaabbbbbccccc")
    >>> statistics, plants = vb.SufficientStatistics.from_groups(y, plant)
    >>> statistics.mean
    array([5. , 2. , 7.8])
    >>> posterior = exact.exact_multilevel_normal(statistics, plants=plants)
    >>> posterior.mean("mu_plant").round(1)
    array([5. , 2.4, 7.4])
    """
    if prior is None:
        prior = MultilevelPrior()
    labels = checked_labels(statistics, prior, plants)
    columns = statistics.num, statistics.mean, statistics.ss
    return MultilevelExact(NormalPlants(prior, *columns), labels)


def exact_multilevel_poisson(
    y: npt.ArrayLike,
    plant: Sequence[Hashable] | npt.NDArray[np.generic],
    prior: MultilevelPrior | None = None,
) -> MultilevelExact:
    """Compute the exact posterior of the model `multilevel_poisson` by quadrature.

    Parameters
    ----------
    y : array, shape (N,)
        Counts: flowers per plant and month.
    plant : sequence, shape (N,)
        The label of each count's plant.
    prior : MultilevelPrior, optional
        Only ``mu_mean``, ``mu_sd``, ``sigma2_nu`` and ``sigma2_scale`` are used, on the scale of
        log mu_plant. Default: ``MultilevelPrior()``.

    Returns
    -------
    MultilevelExact
        The posterior of ``mu``, ``sigma2`` and ``mu_plant``, with plants in order of appearance.

    Raises
    ------
    DataError
        If a value is not a count, there are no counts, or the lengths differ.

    Warns
    -----
    NotRefinedWarning
        If the last refinement of the grid still moved a quantile by more than 1e-5 of the distance
        between the 5% and 95% quantiles of its parameter.

    See Also
    --------
    pyflowers.exact.PoissonSampler : Draw from the same posterior.

    Examples
    --------
    >>> from pyflowers import exact
    >>> y, plant = [4, 5, 6, 1, 2, 3, 7, 9, 8], list("aaabbbccc")
    >>> posterior = exact.exact_multilevel_poisson(y, plant)
    >>> posterior.quantile("mu_plant", 0.5).round(1)
    array([4.9, 2. , 7.8])
    """
    y, index, labels = grouped(y, plant, "plants")
    if not y.size:
        raise DataError("y is empty: there must be at least one count")
    bad = ~(np.isfinite(y) & (y >= 0) & (y == np.floor(y)))
    refuse(bad, y, "y", "must be a count: a whole number, 0 or more")
    columns = as_floats(np.bincount(index)), as_floats(np.bincount(index, y))
    if prior is None:
        prior = MultilevelPrior()
    log_factorials = float(special.gammaln(y + 1).sum())
    return MultilevelExact(PoissonPlants(prior, *columns), labels, -log_factorials)


# Draws


@dataclass(frozen=True, repr=False)
class ExactDraws(Shown):
    """Independent draws from an exact posterior.

    Attributes
    ----------
    draws : dict of str to array, shape (draw,) or (draw, plant)
        The draws of each parameter, by its name in the Stan program.
    log_evidence : float
        log p(y). If a prior is improper, it is relative to the unnormalised prior density.
    diagnostics : mapping of str to float
        ``hyper_acceptance`` and ``plant_acceptance``, shares of proposals that were accepted;
        ``num_exact``, the number of proposals of (mu, sigma2) for which the spline was not accurate
        enough; ``spline_error``, the largest error found in the spline of log p; and
        ``largest_excess``, the largest log ratio of density to hat, at most 1e-6. Models without a
        hierarchy have only ``plant_acceptance``.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers import exact
    >>> sampler = exact.PoissonSampler(totals=[15, 6, 24], counts=[3, 3, 3])
    >>> result = sampler.draw(4_000, np.random.default_rng(1))
    >>> result.draws["mu_plant"].shape
    (4000, 3)
    >>> list(result.table(interval=0.8).index)
    ['mu', 'sigma2', 'mu_plant[1]', 'mu_plant[2]', 'mu_plant[3]']
    """

    draws: dict[str, FloatArray]
    log_evidence: float
    diagnostics: Mapping[str, float]

    def table(self, interval: float = INTERVAL) -> pd.DataFrame:
        """Return the median and a central interval of each element.

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
        return draws_table(self.draws, 1, interval)

    def contents(self) -> list[Line]:
        """Return the table, and the sampler's diagnostics."""
        num = len(next(iter(self.draws.values())))
        measures = (f"{name} {format_number(v)}" for name, v in self.diagnostics.items())
        return [
            heading("exact posterior", f"{num} independent draws"),
            self.table(),
            ", ".join([f"log evidence {self.log_evidence:.6f}", *measures]),
        ]


class MultilevelSampler:
    """The base class for samplers of multilevel posteriors, which draw plants in blocks."""

    def __init__(self, plants: Plants, log_constant: float = 0.0) -> None:
        self.names = ("mu", "sigma2", *plants.names)
        self.prior, self.num_plants = plants.prior, plants.size
        # The integrals of plants with equal statistics are computed once.
        seen = plants.merged()
        self._plants, self._hyper = plants, HyperSampler(*located(seen))
        self.log_evidence = self._hyper.log_evidence + seen.log_constant + log_constant
        self._proposals = self._drawn = 0

    def draw_hyper(self, num_draws: int, rng: np.random.Generator) -> HyperDraws:
        """Draw (mu, sigma2) with the plants integrated out.

        Parameters
        ----------
        num_draws : int
            Number of draws.
        rng : numpy.random.Generator
            The source of the draws.

        Returns
        -------
        HyperDraws
            The draws, for :meth:`blocks`.

        Raises
        ------
        ConfigError
            If `num_draws` is not a positive whole number.
        FitError
            If the marginal posterior is too irregular for independent draws.
        """
        return self._hyper.draw(checked_num(num_draws), rng)

    def blocks(self, hyper: HyperDraws, rng: np.random.Generator) -> Iterator[Block]:
        """Draw the plants for each (mu, sigma2), one block of plants at a time.

        Blocks are drawn on all usable cores, and a few of them are drawn before they are needed. A
        block's draws do not depend on the number of cores, because each block has a separate
        generator, spawned from `rng`.

        Parameters
        ----------
        hyper : HyperDraws
            The draws of (mu, sigma2).
        rng : numpy.random.Generator
            The source of the draws.

        Yields
        ------
        plants : slice
            The positions of the block's plants.
        draws : dict of str to array, shape (draw, plants of the block)
            The draws of ``mu_plant`` and, in the normal model, ``sigma2_plant``.

        Raises
        ------
        FitError
            If 100,000 proposals for a draw were all rejected.
        """
        num_draws, num = hyper.mu.size, self.num_plants
        width = max(1, _BLOCK // num_draws)
        slices = [slice(i, min(i + width, num)) for i in range(0, num, width)]
        own = rng.spawn(len(slices))
        drawer = self._plants.drawer(hyper.mu, hyper.sigma2)
        tasks = [partial(drawer, plants, each) for plants, each in zip(slices, own, strict=True)]
        for plants, (draws, proposals) in zip(slices, in_order(tasks), strict=True):
            self._proposals += proposals
            self._drawn += num_draws * (plants.stop - plants.start)
            yield plants, draws

    def diagnostics(self, hyper: HyperDraws) -> dict[str, float]:
        """Return the diagnostics that :class:`ExactDraws` lists, for all blocks drawn so far.

        Parameters
        ----------
        hyper : HyperDraws
            The draws of (mu, sigma2).

        Returns
        -------
        dict of str to float
            The diagnostics by name.
        """
        return {
            "hyper_acceptance": hyper.acceptance,
            "plant_acceptance": self._drawn / self._proposals if self._proposals else 1.0,
            "num_exact": float(hyper.num_exact),
            "spline_error": self._hyper.error,
            "largest_excess": hyper.largest_excess,
        }

    def draw(self, num_draws: int, rng: np.random.Generator) -> ExactDraws:
        """Draw every parameter.

        Parameters
        ----------
        num_draws : int
            Number of draws.
        rng : numpy.random.Generator
            The source of the draws.

        Returns
        -------
        ExactDraws
            The draws of all parameters.

        Raises
        ------
        ConfigError
            If `num_draws` is not a positive whole number.
        FitError
            If the marginal posterior of mu and sigma2 is too irregular for independent draws.
        """
        hyper = self.draw_hyper(num_draws, rng)
        draws = {"mu": hyper.mu, "sigma2": hyper.sigma2}
        draws |= {name: np.empty((num_draws, self.num_plants)) for name in self.names[2:]}
        for plants, block in self.blocks(hyper, rng):
            for name, values in block.items():
                draws[name][:, plants] = values
        return ExactDraws(draws, self.log_evidence, self.diagnostics(hyper))


class PoissonSampler(MultilevelSampler):
    """A sampler of independent draws from the posterior of the model `multilevel_poisson`.

    Its methods are ``draw``, for all parameters at once, and ``draw_hyper`` and ``blocks``, for
    more plants than fit in memory.

    Parameters
    ----------
    totals : array, shape (P,)
        Number of flowers of each plant over its months.
    counts : array, shape (P,)
        Number of months of each plant. The posterior of a plant with 0 months is its prior given
        the other plants.
    prior : MultilevelPrior, optional
        Only ``mu_mean``, ``mu_sd``, ``sigma2_nu`` and ``sigma2_scale`` are used, on the scale of
        log mu_plant. Default: ``MultilevelPrior()``.
    sum_log_factorials : float
        Σ log y! over all plants and months; it enters only the log evidence.

    Attributes
    ----------
    log_evidence : float
        log p(y); it is complete only if `sum_log_factorials` is given.

    Raises
    ------
    DataError
        If `totals` and `counts` do not have one entry for each plant, there are no plants, a total
        or a count is negative or not a whole number, or a plant without months has flowers.
    FitError
        If the marginal posterior of mu and sigma2 is too irregular for independent draws.

    See Also
    --------
    pyflowers.exact.exact_multilevel_poisson : Compute the same posterior by quadrature.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers.exact import PoissonSampler
    >>> sampler = PoissonSampler(totals=[15, 6, 24], counts=[3, 3, 3])
    >>> result = sampler.draw(4_000, np.random.default_rng(1))
    >>> result.draws["mu_plant"].mean(axis=0).round()
    array([5., 2., 8.])

    One block of plants at a time:

    >>> rng = np.random.default_rng(1)
    >>> hyper = sampler.draw_hyper(4_000, rng)
    >>> medians = np.empty(3)
    >>> for plants, draws in sampler.blocks(hyper, rng):
    ...     medians[plants] = np.median(draws["mu_plant"], axis=0)
    >>> medians.round()
    array([5., 2., 8.])
    >>> sampler.diagnostics(hyper)["plant_acceptance"] > 0.5
    True
    """

    def __init__(
        self,
        totals: npt.ArrayLike,
        counts: npt.ArrayLike,
        prior: MultilevelPrior | None = None,
        sum_log_factorials: float = 0.0,
    ) -> None:
        totals, counts = self.totals, self.counts = as_floats(totals), as_floats(counts)
        if totals.shape != counts.shape or totals.ndim != 1 or not totals.size:
            raise DataError(
                "totals and counts must have one entry per plant, but have shapes "
                f"{totals.shape} and {counts.shape}"
            )
        for name, values in (("totals", totals), ("counts", counts)):
            whole = np.isfinite(values) & (values >= 0) & (values == np.floor(values))
            refuse(~whole, values, name, WHOLE)
        rule = "must be 0, because the plant has no months"
        refuse((counts == 0) & (totals > 0), totals, "totals", rule)
        if prior is None:
            prior = MultilevelPrior()
        plants = PoissonPlants(prior, counts, totals)
        super().__init__(plants, -sum_log_factorials)


class NormalSampler(MultilevelSampler):
    """A sampler of independent draws from the posterior of the model `multilevel_normal`.

    Its methods are ``draw``, for all parameters at once, and ``draw_hyper`` and ``blocks``, for
    more plants than fit in memory: see :class:`~pyflowers.exact.PoissonSampler`.

    Parameters
    ----------
    statistics : SufficientStatistics, shape (P,)
        The statistics of each plant.
    prior : MultilevelPrior, optional
        Hyperparameters. Default: ``MultilevelPrior()``.
    plants : sequence, length P, optional
        The plants' labels, for error messages. Default: 1 … P.

    Attributes
    ----------
    log_evidence : float
        log p(y). Under a flat prior on sigma2_plant, it is relative to a prior density of 1.

    Raises
    ------
    DataError
        If there are no plants, or a plant's posterior is improper under its prior.
    ConfigError
        If the number of labels differs from the number of plants.
    FitError
        If the marginal posterior of mu and sigma2 is too irregular for independent draws.

    See Also
    --------
    pyflowers.exact.exact_multilevel_normal : Compute the same posterior by quadrature.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers import exact, vb
    >>> y, plant = [4, 5, 6, 5, 5, 1, 2, 3, 2, 2, 7, 9, 8, 8, 7], list("aaaaabbbbbccccc")
    >>> statistics, plants = vb.SufficientStatistics.from_groups(y, plant)
    >>> sampler = exact.NormalSampler(statistics, plants=plants)
    >>> result = sampler.draw(4_000, np.random.default_rng(1))
    >>> result.draws["mu_plant"].mean(axis=0).round()
    array([5., 2., 7.])
    """

    def __init__(
        self,
        statistics: SufficientStatistics,
        prior: MultilevelPrior | None = None,
        plants: Sequence[Hashable] | None = None,
    ) -> None:
        if prior is None:
            prior = MultilevelPrior()
        checked_labels(statistics, prior, plants)
        self.statistics, columns = statistics, (statistics.num, statistics.mean, statistics.ss)
        super().__init__(NormalPlants(prior, *columns))


def checked_num(num_draws: int) -> int:
    """Return the number of draws; raise ConfigError unless it is an integer from 1 to 2³¹ - 1."""
    return whole_number("num_draws", num_draws, at_most=2**31 - 1)
