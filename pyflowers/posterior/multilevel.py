"""The exact posteriors of the two multilevel flower models: by quadrature, and independent draws.

    y[t,p] ~ N(mu_plant[p], sigma2_plant[p]),  mu_plant[p] ~ N(mu, sigma2)               (normal)
    y[t,p] ~ Poisson(mu_plant[p]),             log mu_plant[p] ~ N(mu, sigma2)           (Poisson)
    mu ~ N(m0, s0²),  sigma2 ~ scaled-inv-χ²(nu0, sigma0²),
    sigma2_plant[p] ~ scaled-inv-χ²(nu, c²), or flat.

**By quadrature.** Marginals of mu and sigma2 are sums over an even grid of (t, u = log sigma2),
mu = centre + unit sinh(t). Given (mu, u), x = mu_plant, or its logarithm in the Poisson model, has
the density p(y_p | x) N(x; mu, e^u) / I_p(mu, u), and log sigma2_plant that of I_p's own integrand.
With posterior weights W of the grid's points, and R = W / I_p, the posterior without plant p,

    p(x | y) = p(y_p | x) Σ_u Σ_mu R(mu, u) N(x; mu, e^u).

Where sigma is small beside the grid's step in mu, the inner sum no longer resolves the kernel,
while log R is smooth on that scale. Such rows of the grid take Gauss-Hermite's rule around x, with
log R from a cubic spline along the row. All densities are smooth and all sums are trapezoidal
rules, which converge exponentially: the grid is refined until no quantile moves by more than 1e-5
of its parameter's 5 to 95 % range.

**Draws.** Given (mu, sigma2) the plants are independent. So (mu, sigma2) is drawn from its
marginal, the plants integrated out (:mod:`.hyper`), and then each plant from its own conditional,
all by rejection. Each draw is exact, up to quadrature and rounding errors, and independent of all
others: R-hat and effective sample sizes have nothing to find. All randomness comes from the
generator given: the same seed gives the same draws. Draws of many plants need not be held at once:

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

from pyflowers.cores import in_order
from pyflowers.display import INTERVAL, Line, Shown, draws_table, format_number, heading
from pyflowers.errors import ConfigError, DataError
from pyflowers.posterior.distributions import (
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
from pyflowers.posterior.hyper import Density, HyperDraws, HyperSampler, even_grid, located, zoom
from pyflowers.posterior.normal_plants import NormalPlants
from pyflowers.posterior.plants import Plants
from pyflowers.posterior.poisson_plants import PoissonPlants

_SIZES = (64, 96, 144, 216, 324)
_TOLERANCE = 1e-5
_CHECKED = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
_DROP, _ZOOM_POINTS = 32.0, 32
_NEGLIGIBLE = 1e-11  # posterior mass left out of mixtures over the grid
_POINTS, _FINE_POINTS = 300, 20_000
_CHUNK = 131_072  # terms that are summed together: what a core's cache holds
_NARROW = 2.0  # steps of the grid in mu, below which sigma is narrow
_Z, _Z_WEIGHTS = np.polynomial.hermite_e.hermegauss(24)


_BLOCK = 65_536  # draws of plants that are made together

Block = tuple[slice, dict[str, FloatArray]]


class NotRefinedWarning(RuntimeWarning):
    """The finest grid still moved a quantile by more than the tolerance."""


@dataclass(frozen=True)
class Scale:
    """A parameter x that grows with t: centre + unit sinh(t), or its exponential; or e^t.

    A hyperbolic sine is even near the centre and geometric far out.
    """

    centre: float = 0.0
    unit: float = 0.0
    exponential: bool = False

    def inner(self, t: FloatArray) -> FloatArray:
        """Return x, or its logarithm."""
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
    """A distribution by its density, not necessarily normalised, on an even grid of t.

    `tail_power` is p where x is e^t and its density falls as x^-(p + 1): what moments gain beyond
    the grid follows from it.
    """

    t: FloatArray
    density: FloatArray
    scale: Scale
    tail_power: float = np.inf

    def quantile(self, p: FloatArray) -> FloatArray:
        """Quantiles, of the shape of `p`, from a cubic spline through the density."""
        spline = interpolate.CubicSpline(self.t, self.density, bc_type="natural")
        fine = np.linspace(self.t[0], self.t[-1], _FINE_POINTS)
        # Monotone but for rounding in the tails.
        below = np.maximum.accumulate(spline.antiderivative()(fine))
        return self.scale.x(np.interp(p * below[-1], below, fine))

    def moment(self, power: int) -> float:
        """E[x^power], where the caller knows that it exists."""
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
        # Where x underflows, so does its slope, and the density in x is beyond all numbers.
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            slope = self.scale.slope(self.t) * (x if self.scale.exponential else 1.0)
            return x, self.density / (self.density.sum() * step * slope)


class Grid:
    """The posterior of (t, u) on an even grid, and the marginals that are mixtures over it.

    Parameters
    ----------
    density : Density
        Of the plants with observations, its coordinate t that of `scale`.
    plants : Plants
        All of them, each by itself.
    t, u : array, shape (M,) and (U,)
        The grid.
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
        self._heavy = order[light:]  # the points that carry all but 1e-11 of the mass
        step = self._scale.slope(t) * (t[1] - t[0])
        row_step = (self.weights @ step) / np.maximum(self.weights.sum(axis=1), 1e-300)
        self._narrow = np.exp(0.5 * u) < _NARROW * row_step

    def marginals(
        self, tail_dof: float, near: dict[str, list[Marginal]]
    ) -> dict[str, list[Marginal]]:
        """Return all marginals, those of a quantity of each plant; `near` are a coarser grid's."""
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
        """Log density of x given the other plants: Σ R N(x; mu, e^u)."""
        rows = self._heavy // self.t.size
        narrow = self._narrow[rows]
        parts = [self._mixture(plant, _log_normal, x, self._heavy[~narrow])]
        parts += [self._smoothed(plant, int(row), x) for row in np.unique(rows[narrow])]
        return as_floats(special.logsumexp(np.stack(parts), axis=0))

    def _smoothed(self, plant: int, row: int, x: FloatArray) -> FloatArray:
        """One narrow row's Σ_mu R N(x; mu, e^u), by Gauss-Hermite around x."""
        points = x[:, None] + np.exp(0.5 * self.u[row]) * _Z
        t, ends = np.arcsinh((points - self._scale.centre) / self._scale.unit), self.t[[0, -1]]
        # Per unit of mu: weights are per grid point.
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
        """Log of Σ R exp(log_term(at, mu, u)) over the grid's points at `index`."""
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
    """Log N(x; mu, e^u)."""
    return as_floats(-0.5 * (LOG_2PI + u + np.exp(-u) * (x - mu) ** 2))


def _even_grid(
    log_density: Callable[[FloatArray], FloatArray],
    low: float,
    high: float,
    near: Marginal | None,
) -> tuple[FloatArray, FloatArray]:
    """Return an even grid over what is within e^-30 of a density's maximum, and the density on it.

    The ends of [low, high] may be generous: they are zoomed in on, unless a result `near` has them.
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

    Made by :func:`pyflowers.exact.exact_multilevel_normal` and
    :func:`pyflowers.exact.exact_multilevel_poisson`.

    Parameters
    ----------
    plants : Plants
        All plants.
    labels : sequence
        The plants' labels.
    log_constant : float
        Of the likelihood, which `plants` leave out.

    Attributes
    ----------
    names : tuple of str
        ``mu``, ``sigma2``, ``mu_plant`` and, in the normal model, ``sigma2_plant``.
    log_evidence : float
        log p(y); under a flat prior on sigma2_plant relative to its density 1.
    refinement : float
        By how much the last refinement moved a quantile, in 5 to 95 % ranges.

    Warns
    -----
    NotRefinedWarning
        If `refinement` is above 1e-5 on the finest grid.
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
                f"the finest grid still moved a quantile by {self.refinement:.1e} of its range: "
                "the prior or the data put the posterior on scales too far apart",
                NotRefinedWarning,
                stacklevel=3,
            )
        self.grid, self.log_evidence = grid, grid.log_evidence + log_constant

    def quantile(self, name: str, p: npt.ArrayLike) -> FloatArray:
        """Posterior quantiles, shape (*shape of p) or, of plants, (*shape of p, P).

        Raises
        ------
        ConfigError
            If there is no such parameter or `p` is not a probability.
        """
        p = checked_probability(p)
        return self._stacked(name, [one.quantile(p) for one in self._of(name)])

    def mean(self, name: str) -> FloatArray:
        """Posterior mean, shape () or (P,); nan where :attr:`missing_moments` has a reason."""
        return self._stacked(name, self._moments(name, 1))

    def sd(self, name: str) -> FloatArray:
        """Posterior standard deviation, as :meth:`mean`."""
        return self._stacked(name, np.sqrt(self._moments(name, 2) - self._moments(name, 1) ** 2))

    def _moments(self, name: str, power: int) -> FloatArray:
        """E[x^power] of each, nan where it does not exist."""
        each = zip(self._of(name), self._has_moment(name, power), strict=True)
        return np.array([one.moment(power) if exists else np.nan for one, exists in each])

    def marginal(self, name: str) -> tuple[FloatArray, FloatArray]:
        """Return a grid and the marginal density on it, shape (G,) or (P, G)."""
        pairs = [one.tabulated() for one in self._of(name)]
        if name in ("mu", "sigma2"):
            return pairs[0]
        return np.stack([grid for grid, _ in pairs]), np.stack([density for _, density in pairs])

    @cached_property
    def missing_moments(self) -> Mapping[tuple[str, str], str]:
        """Why a moment does not exist, by (name, "mean" or "sd")."""
        reasons = {}
        for name in self.names:
            for power, moment in ((1, "mean"), (2, "sd")):
                exists = self._has_moment(name, power)
                if np.all(exists):
                    continue
                of_plants = ""
                if name not in ("mu", "sigma2"):
                    lacking = [str(self.labels[p]) for p in np.flatnonzero(~exists)]
                    of_plants = f" for plant {', '.join(lacking)}"
                reasons[name, moment] = (
                    f"{name} has no posterior {moment}{of_plants}: its upper tail is too heavy "
                    f"with so few {'informative plants' if name == 'sigma2' else 'observations'}"
                )
        return reasons

    def _of(self, name: str) -> list[Marginal]:
        if name not in self._marginals:
            raise ConfigError(
                f"the posterior has no parameter {name!r}, it has {', '.join(self.names)}"
            )
        return self._marginals[name]

    def _stacked(self, name: str, values: Iterable[FloatArray]) -> FloatArray:
        each = list(values)
        return as_floats(each[0] if name in ("mu", "sigma2") else np.stack(each, axis=-1))

    def _has_moment(self, name: str, power: int) -> BoolArray:
        """Whether E[x^power] is finite, from the power of the density's upper tail."""
        tails = {"mu": np.full(1, np.inf), "sigma2": np.full(1, self._tail_dof / 2)}
        self._of(name)
        return (tails | self._plants.tails(self._tail_dof))[name] > power


def _moved(before: FloatArray, after: FloatArray) -> float:
    """Largest change of the checked quantiles, in 5 to 95 % ranges."""
    return float(np.max(np.abs(after - before) / (after[-1] - after[0])))


def exact_multilevel_normal(
    statistics: SufficientStatistics,
    prior: MultilevelPrior | None = None,
    *,
    plants: Sequence[Hashable] | None = None,
) -> MultilevelExact:
    """Exact posterior of the model `multilevel_normal`.

    Parameters
    ----------
    statistics : SufficientStatistics, shape (P,)
        Of each plant; the numbers of months may differ.
    prior : MultilevelPrior, optional
        Hyperparameters; ``MultilevelPrior()`` if not given.
    plants : sequence, length P, optional
        The plants' labels, 1 … P if not given.

    Returns
    -------
    MultilevelExact
        Of ``mu``, ``sigma2``, ``mu_plant`` and ``sigma2_plant``.

    Raises
    ------
    DataError
        If there are no plants, or a plant's posterior is improper under its prior.
    ConfigError
        If there is not one label a plant.
    """
    prior = MultilevelPrior() if prior is None else prior
    labels = checked_labels(statistics, prior, plants)
    columns = statistics.num, statistics.mean, statistics.ss
    return MultilevelExact(NormalPlants(prior, *columns), labels)


def exact_multilevel_poisson(
    y: npt.ArrayLike,
    plant: Sequence[Hashable] | npt.NDArray[np.generic],
    prior: MultilevelPrior | None = None,
) -> MultilevelExact:
    """Exact posterior of the model `multilevel_poisson`.

    Parameters
    ----------
    y : array, shape (N,), counts
        Flowers per plant and month.
    plant : sequence, shape (N,)
        The label of each count's plant.
    prior : MultilevelPrior, optional
        Its ``mu_…`` and ``sigma2_…``, of log mu_plant, are read; ``MultilevelPrior()`` if not
        given.

    Returns
    -------
    MultilevelExact
        Of ``mu``, ``sigma2`` and ``mu_plant``, plants in order of appearance.

    Raises
    ------
    DataError
        If a value is no count, there are none, or lengths differ.
    """
    y, index, labels = grouped(y, plant, "plants")
    if not y.size:
        raise DataError("y is empty: there must be at least one count")
    bad = ~(np.isfinite(y) & (y >= 0) & (y == np.floor(y)))
    refuse(bad, y, "y", "must be a count: a whole number, 0 or more")
    columns = as_floats(np.bincount(index)), as_floats(np.bincount(index, y))
    prior = MultilevelPrior() if prior is None else prior
    log_factorials = float(special.gammaln(y + 1).sum())
    return MultilevelExact(PoissonPlants(prior, *columns), labels, -log_factorials)


# Draws


@dataclass(frozen=True, repr=False)
class ExactDraws(Shown):
    """Independent draws.

    Parameters
    ----------
    draws : dict of str to array, shape (draw,) or (draw, plant)
        By the names of the Stan program.
    log_evidence : float
        log p(y); where a prior is improper, relative to its density as the program writes it.
    diagnostics : mapping of str to float
        ``hyper_acceptance`` and ``plant_acceptance``, shares of proposals that were accepted;
        ``num_exact``, proposals of (mu, sigma2) that the spline could not decide;
        ``spline_error``, the largest seen, of log p; ``largest_excess``, the largest log of
        density over hat, below 1e-6. Without a hierarchy, ``plant_acceptance`` alone.
    """

    draws: dict[str, FloatArray]
    log_evidence: float
    diagnostics: Mapping[str, float]

    def table(self, interval: float = INTERVAL) -> pd.DataFrame:
        """Return the median and a central interval of each element."""
        return draws_table(self.draws, 1, interval)

    def contents(self) -> list[Line]:
        """Return the table, and what the sampler says of itself."""
        num = len(next(iter(self.draws.values())))
        measures = (f"{name} {format_number(v)}" for name, v in self.diagnostics.items())
        return [
            heading("exact posterior", f"{num} independent draws"),
            self.table(),
            ", ".join([f"log evidence {self.log_evidence:.6f}", *measures]),
        ]


class MultilevelSampler:
    """Draws from a multilevel model's posterior, in blocks of plants."""

    def __init__(self, plants: Plants, log_constant: float = 0.0) -> None:
        self.names = ("mu", "sigma2", *plants.names)
        self.prior, self.num_plants = plants.prior, plants.size
        # Plants with equal statistics are computed once.
        seen = plants.merged()
        self._plants, self._hyper = plants, HyperSampler(*located(seen))
        self.log_evidence = self._hyper.log_evidence + seen.log_constant + log_constant
        self._proposals = self._drawn = 0

    def draw_hyper(self, num_draws: int, rng: np.random.Generator) -> HyperDraws:
        """Draw (mu, sigma2)."""
        return self._hyper.draw(checked_num(num_draws), rng)

    def blocks(self, hyper: HyperDraws, rng: np.random.Generator) -> Iterator[Block]:
        """Draw the plants of each (mu, sigma2), a block of plants at a time.

        All usable cores draw, a few blocks ahead. A block's draws do not depend on how many cores
        there are: it has a generator of its own, spawned from `rng`.
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
        """Return the numbers of :class:`ExactDraws`, of all blocks so far."""
        return {
            "hyper_acceptance": hyper.acceptance,
            "plant_acceptance": self._drawn / self._proposals if self._proposals else 1.0,
            "num_exact": float(hyper.num_exact),
            "spline_error": self._hyper.error,
            "largest_excess": hyper.largest_excess,
        }

    def draw(self, num_draws: int, rng: np.random.Generator) -> ExactDraws:
        """Draw every parameter.

        Raises
        ------
        ConfigError
            If `num_draws` is not positive.
        """
        hyper = self.draw_hyper(num_draws, rng)
        draws = {"mu": hyper.mu, "sigma2": hyper.sigma2}
        draws |= {name: np.empty((num_draws, self.num_plants)) for name in self.names[2:]}
        for plants, block in self.blocks(hyper, rng):
            for name, values in block.items():
                draws[name][:, plants] = values
        return ExactDraws(draws, self.log_evidence, self.diagnostics(hyper))


class PoissonSampler(MultilevelSampler):
    """Draws from the model `multilevel_poisson`.

    Parameters
    ----------
    totals : array, shape (P,)
        Flowers of each plant over its months.
    counts : array, shape (P,)
        Number of months of each plant; 0 leaves its prior given the others.
    prior : MultilevelPrior, optional
        Its ``mu_…`` and ``sigma2_…``, of log mu_plant, are read.
    sum_log_factorials : float
        Σ log y! over all counts; it enters the log evidence alone.

    Attributes
    ----------
    log_evidence : float
        log p(y).

    Raises
    ------
    DataError
        If a total or a count is negative or no whole number, or a plant without months has
        flowers.
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
                "totals and counts must have one entry a plant, but have shapes "
                f"{totals.shape} and {counts.shape}"
            )
        for name, values in (("totals", totals), ("counts", counts)):
            whole = np.isfinite(values) & (values >= 0) & (values == np.floor(values))
            refuse(~whole, values, name, WHOLE)
        rule = "must be 0, as there are no months"
        refuse((counts == 0) & (totals > 0), totals, "totals", rule)
        prior = MultilevelPrior() if prior is None else prior
        plants = PoissonPlants(prior, counts, totals)
        super().__init__(plants, -sum_log_factorials)


class NormalSampler(MultilevelSampler):
    """Draws from the model `multilevel_normal`.

    Parameters
    ----------
    statistics : SufficientStatistics, shape (P,)
        Of each plant.
    prior : MultilevelPrior, optional
        Hyperparameters.
    plants : sequence, length P, optional
        The plants' labels, for what an error says; 1 … P if not given.

    Attributes
    ----------
    log_evidence : float
        log p(y); under a flat prior on sigma2_plant relative to its density 1.

    Raises
    ------
    DataError
        If there are no plants, or a plant's posterior is improper under its prior.
    ConfigError
        If there is not one label a plant.
    """

    def __init__(
        self,
        statistics: SufficientStatistics,
        prior: MultilevelPrior | None = None,
        plants: Sequence[Hashable] | None = None,
    ) -> None:
        prior = MultilevelPrior() if prior is None else prior
        checked_labels(statistics, prior, plants)
        self.statistics, columns = statistics, (statistics.num, statistics.mean, statistics.ss)
        super().__init__(NormalPlants(prior, *columns))


def checked_num(num_draws: int) -> int:
    """Return the number of draws; raise ConfigError unless it is a whole number, 1 or more."""
    whole = isinstance(num_draws, int | np.integer) and not isinstance(num_draws, bool)
    if not (whole and 1 <= num_draws < 2**31):
        raise ConfigError(f"num_draws is {num_draws!r}, but must be a whole number, 1 or more")
    return int(num_draws)
