"""The engine ``exact`` for formulas: importance sampling after effects are integrated out.

The model comes from the formula's program, as a
:class:`~pyflowers.programs.linear.LinearModel`. A *method* integrates out its effects and, where
that has a closed form, its coefficients, and returns the density of the few parameters that
remain. :mod:`.importance` draws weighted points from this density; :mod:`.gaussian` and
:mod:`.quadrature` are the methods. The points are resampled according to their weights. Each
resampled point, with effects that are drawn from their exact distribution given the point, is a
draw.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pyflowers.cores import limited
from pyflowers.display import INTERVAL
from pyflowers.engines.base import (
    EngineLacksError,
    Keep,
    Sample,
    SamplerOptions,
    Watch,
)
from pyflowers.engines.integrated.evidence import (
    MOST_DIMENSIONS,
    lattice_integral,
    with_short_tails,
)
from pyflowers.engines.integrated.gaussian import GaussianModel
from pyflowers.engines.integrated.gaussian import reason_against as against_gaussian
from pyflowers.engines.integrated.hyper import Coordinates, Values
from pyflowers.engines.integrated.importance import (
    Mixture,
    SplitT,
    Stretch,
    Weighted,
    approximated,
    check_spread,
    from_moments,
    weighted_points,
    weights_of,
)
from pyflowers.engines.integrated.quadrature import OneFactorModel
from pyflowers.engines.integrated.quadrature import reason_against as against_quadrature
from pyflowers.engines.without_chains import WithoutChains
from pyflowers.errors import ConfigError, FitError
from pyflowers.programs import Data, Program
from pyflowers.programs.linear import Coefficients, Effects, LinearModel, Parameter

FloatArray = NDArray[np.float64]

LARGEST_K = 10.0
"""The largest k-hat that is recorded: k-hat is infinite if too few points have all the weight."""

FEWEST_POINTS = 1_000
"""The smallest number of weighted points, however few draws are requested."""

CHECKED = 50
"""The number of points at which the error of integrals is measured."""

MOST_NUMBERS = 200_000_000
"""The largest number of draws of effects, which take 1.6 GB."""


class Method(Protocol):
    """The parameters that remain after effects are integrated out, and draws of these effects."""

    @property
    def coordinates(self) -> Coordinates:
        """The coordinates of the parameters that remain."""

    @property
    def start(self) -> FloatArray:
        """A point from which the search for the mode starts."""

    @property
    def num_points(self) -> int | None:
        """The number of weighted points, if densities are so costly that it must be small."""

    @property
    def most_on_lattice(self) -> int:
        """The largest number of points on a lattice that takes at most about a second."""

    @property
    def log_constant(self) -> float:
        """The constant that completes the log density of all observations and parameters.

        NaN if a prior is improper.
        """

    def prepare(self, stretch: Stretch, proposal: SplitT) -> None:
        """Choose the details of the method, given a first approximation to the density."""

    def error(self, points: FloatArray) -> float:
        """Return the largest error of the log density at points; 0 if it has a closed form."""

    def log_density(self, points: FloatArray) -> FloatArray:
        """Return the log density at points, shape (T,)."""

    def draw(self, points: FloatArray, counts: NDArray[np.intp], rng: Generator) -> Values:
        """Return `counts` draws of all quantities by name for each point, shape (draw, …)."""

    def weighed(
        self, points: FloatArray, num_draws: int, rng: Generator
    ) -> tuple[FloatArray, Values]:
        """Return the log density at points, and `num_draws` draws of all quantities for each.

        This method is called only if `num_points` is not None.
        """


def method_of(model: LinearModel, name: str) -> Method:
    """Return the method for a model.

    Raises
    ------
    EngineLacksError
        If no method applies; the message gives the reason.
    """
    kind, reason = _kind_of(model)
    if kind is not None:
        return kind(model)
    raise EngineLacksError(
        f"{name}: the engine exact does not apply, because {reason}; leave out --engine exact, so "
        "that NUTS samples the model"
    )


def applies_to(program: Program, data: Mapping[str, Any]) -> bool:
    """Whether a method applies to a program with a data block; nothing is computed."""
    linear = program.python.linear
    if linear is None or data.get(program.declaration.roles.prior_only):
        return False
    try:
        model = linear(Data(data, declaration=program.declaration))
    except ConfigError:
        return False
    return _kind_of(model)[0] is not None


def _kind_of(model: LinearModel) -> tuple[Callable[[LinearModel], Method] | None, str]:
    """Return the class of the method for a model, or None and the reason why there is none."""
    reason = against_gaussian(model)
    if not reason:
        return GaussianModel, ""
    if model.family.as_normal is None or model.predicted:
        reason = against_quadrature(model)
        if not reason:
            return OneFactorModel, ""
    return None, reason


@dataclass(frozen=True)
class Drawn:
    """Draws of all quantities, and how they were obtained.

    Attributes
    ----------
    values : dict of str to array, shape (draw, …)
        The draws, with equal weights.
    weighted : Weighted
        The points from which they were resampled.
    error : float
        The largest error of the log density at some of the points.
    log_evidence, log_evidence_error : float
        The log of p(y), and its error; NaN if a prior is improper.
    """

    values: Values
    weighted: Weighted
    error: float
    log_evidence: float
    log_evidence_error: float

    @property
    def measures(self) -> dict[str, float]:
        """The measurements for the record, without those that are not finite."""
        found = {
            "pareto_k": float(np.clip(self.weighted.k_hat, -LARGEST_K, LARGEST_K)),
            "weights_ess": self.weighted.effective,
            "points": float(len(self.weighted.points)),
            "integral_error": self.error,
            "log_evidence": self.log_evidence,
            "log_evidence_error": self.log_evidence_error,
        }
        return {name: value for name, value in found.items() if math.isfinite(value)}


def drawn(method: Method, total: int, rng: Generator) -> Drawn:
    """Draw from a posterior.

    Raises
    ------
    ArithmeticError
        If the density is not finite where the search for its mode starts, or if the weighted points
        are too close to each other.
    """
    if not method.coordinates.size:
        return _without_parameters(method, total, rng)
    stretch, log_density, first = approximated(
        method.log_density, method.start, method.coordinates.slow_sides
    )
    method.prepare(stretch, first)
    if method.num_points is None or method.num_points >= total:
        found = weighted_points(log_density, first, max(total, FEWEST_POINTS), rng)
        kept, counts = np.unique(found.resampled(total, rng), return_counts=True)
        points = stretch(found.points[kept])[0]
        values = method.draw(points, counts, rng)
    else:
        found, values, points = _few_points(method, stretch, first, total, rng)
    check_spread(log_density, found)
    error = method.error(points[:: max(1, len(points) // CHECKED)])
    log_evidence, its_error = found.log_mean, found.log_mean_error
    if len(first.centre) <= MOST_DIMENSIONS and method.num_points is None:
        is_slow: NDArray[np.bool_] = np.any(method.coordinates.slow_sides, axis=0)
        shortened = with_short_tails(method.log_density, stretch.centre, stretch.spread, is_slow)
        found_on_lattice = lattice_integral(
            shortened, first.centre, first.axes, method.most_on_lattice
        )
        if found_on_lattice is not None:
            log_evidence, its_error = found_on_lattice
    log_evidence += method.log_constant
    return Drawn(values, found, error, log_evidence, its_error + error)


def _without_parameters(method: Method, total: int, rng: Generator) -> Drawn:
    """Return independent draws from a model in which all parameters are integrated out."""
    points, equal = np.zeros((total, 0)), np.full(total, -math.log(total))
    density = float(method.log_density(points[:1])[0])
    found = Weighted(points, np.full(total, density), equal, -math.inf)
    values = method.draw(points[:1], np.array([total]), rng)
    return Drawn(values, found, 0.0, density + method.log_constant, 0.0)


def _few_points(
    method: Method, stretch: Stretch, first: SplitT, total: int, rng: Generator
) -> tuple[Weighted, Values, FloatArray]:
    """Return weighted points, draws and kept points for a method with costly densities.

    As there are fewer points than draws, the points of the first round are also used, and each
    point gets its draws when its density is computed.
    """
    assert method.num_points is not None
    num, each = method.num_points, math.ceil(total / method.num_points)

    def weighed(points: FloatArray) -> tuple[FloatArray, Values]:
        its, log_jacobian = stretch(points)
        densities, values = method.weighed(its, each, rng)
        return densities + log_jacobian, values

    before = first.draw(num // 4, rng)
    densities, values = weighed(before)
    other = from_moments(weights_of(before, densities, first), first)
    after = other.draw(num - len(before), rng)
    more_densities, more_values = weighed(after)
    proposal = Mixture(first, other, len(before) / num)
    points = np.concatenate([before, after])
    found = weights_of(points, np.concatenate([densities, more_densities]), proposal)
    chosen = found.resampled(total, rng)
    # If a point is repeated more often than it has draws, its draws are repeated, too.
    nth = np.arange(total) - np.searchsorted(chosen, chosen)
    places = chosen * each + nth % each
    joined = {
        name: np.concatenate([its, more_values[name]])[places] for name, its in values.items()
    }
    return found, joined, stretch(points[np.unique(chosen)])[0]


@dataclass(frozen=True)
class IntegratedProgram(WithoutChains):
    """An unedited program that was written for a formula."""

    def sample(
        self,
        data: Mapping[str, Any],
        options: SamplerOptions,
        *,
        cores: int | None = None,
        inits: Any = None,
        keep: Keep | None = None,
        interval: float = INTERVAL,
        show_progress: bool = False,
        watch: Watch | None = None,
    ) -> Sample:
        """See :class:`~pyflowers.engines.base.LoadedProgram`."""
        self.refuse_prior(data)
        name, declaration = self.program.called, self.program.declaration
        if options.keep:
            raise EngineLacksError(
                f"{name}: all weighted draws are kept; leave out --keep {options.keep[0]}"
            )
        started = time.perf_counter()
        linear = self.program.python.linear
        assert linear is not None  # load() has checked the capability
        model = linear(Data(data, declaration=declaration))
        total = options.chains * options.draws
        num = sum(its.num_labels * its.num_effects for its in model.effects) * total
        if num > MOST_NUMBERS:
            raise EngineLacksError(
                f"{name}: {num:,} draws of effects do not fit into memory; lower --draws"
            )
        rng = np.random.default_rng(options.seed)
        from threadpoolctl import threadpool_limits

        with limited(cores):
            method = method_of(model, name)
            with threadpool_limits(1):
                try:
                    found = drawn(method, total, rng)
                except ArithmeticError as error:
                    raise FitError(
                        f"{name}: {error}; rescale the data, or leave out --engine exact"
                    ) from error
        return Sample(
            self._draws(model, found.values, (options.chains, options.draws)),
            {},
            messages={},
            wall_time=time.perf_counter() - started,
            independent=found.measures,
            weighted=True,
        )

    def _draws(
        self, model: LinearModel, values: Values, shape: tuple[int, int]
    ) -> dict[str, FloatArray]:
        """Return the draws that a fit keeps, in the shapes of the Stan program."""
        for effects in model.effects:
            if effects.back is not None:
                values[effects.name] = effects.back @ values[effects.name]
        others = [each for its in model.penalised for each in its.parameters]
        unknown: tuple[Parameter | Coefficients | Effects, ...]
        unknown = (*model.parameters, *others, *model.coefficients, *model.effects)
        for its in unknown:
            if its.is_scalar:
                values[its.name] = values[its.name][..., 0]
        for each in model.coefficients:
            if each.back is not None:
                values[each.name] = values[each.name] @ each.back.T
        lprior = values.pop("lprior")
        draws = {n: its.reshape(*shape, *its.shape[1:]) for n, its in values.items()}
        found = model.complete(draws)
        found[self.program.declaration.roles.lprior] = lprior.reshape(shape)
        return found
