"""Densities of observations that are left out, with the effects of their group integrated out.

For a draw φ of all other parameters, the labels of a group are independent. With y_g the
observations of label g, and u its effects, whose distribution is known given φ,

    p(y_g | φ) = ∫ p(u | φ) Π_m p(y_m | u, φ) du,
    p(y_n | y_g without n, φ) = p(y_g | φ) / p(y_g without n | φ).

The latter density replaces p(y_n | u, φ) in leave-one-out weights [1]. For a label with one
observation, the weights then need not turn the posterior of its effects into their prior. The k-hat
of the weights is therefore small, and whole labels can be left out without a refit.

Normal responses have closed forms: if row n has leverage h and residual e in the fit of its label,
its density is N(e / (1 - h); 0, sigma² / (1 - h)). For other families, the integrals are computed
by adaptive quadrature. For labels with many observations, p(y_n | …) is the harmonic mean of the
likelihood of n over the nodes, because one observation hardly changes the effect.

References
----------
.. [1] Vehtari, Mononen, Tolvanen, Sivula and Winther (2016), Bayesian leave-one-out
   cross-validation approximations for Gaussian latent variable models, JMLR 17(103), section 3.6.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.cores import in_order
from pyflowers.engines.integrated.hyper import Values
from pyflowers.engines.integrated.integrals import Integrals, log_sum, step_of
from pyflowers.errors import ConfigError
from pyflowers.programs import Data, Draws, Model, Program
from pyflowers.programs.linear import Effects, LinearModel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MOST_VALUES = 20_000_000
"""The largest number of densities, draws times observations, that are computed."""

MANY_IN_LABEL = 20
"""The number of observations of a label above which a single one hardly changes the effect."""

NUM_NODES = 25
"""The number of quadrature nodes for each integral."""

_CHUNK = 100_000
"""The approximate number of elements of an array of draws and observations."""


def integrating(program: Program, data: Data, draws: Draws) -> HeldOut | None:
    """Return an object for the densities of a fit, or None if nothing can be integrated out.

    The group with the most labels is integrated out. For responses that are not normal, each label
    of this group must have a single effect.
    """
    linear, model = program.python.linear, Model(program, data)
    if linear is None or not model.evaluates:
        return None
    try:
        found = linear(Data(program.stan_values(data), declaration=data.declaration))
    except ConfigError:
        return None
    effects = _of_one_group(found)
    num_draws = math.prod(next(iter(draws.values())).shape[:2])
    if not effects or num_draws * len(found.y) > MOST_VALUES:
        return None
    is_normal = found.family.as_normal is not None
    if not is_normal and sum(its.num_effects for its in effects) > 1:
        return None
    return HeldOut(model, found, effects, draws)


def _of_one_group(model: LinearModel) -> list[Effects]:
    """Return the effects of the independent group with the most labels on the linear predictor."""
    own = [its for its in model.effects if not its.target and its.back is None]
    first = max(own, key=lambda its: its.num_labels, default=None)
    if first is None:
        return []
    return [its for its in own if np.array_equal(its.codes, first.codes)]


class HeldOut:
    """The densities of a fit's observations, with the effects of one group integrated out.

    Parameters
    ----------
    model : Model
        The model of the fit.
    linear : LinearModel
        The same model, in terms of its coefficients and effects.
    effects : list of Effects
        The effects that are integrated out.
    draws : mapping of str to array, shape (chain, draw, …)
        The draws of the fit.
    """

    def __init__(
        self, model: Model, linear: LinearModel, effects: list[Effects], draws: Draws
    ) -> None:
        self.model, self.linear, self.effects, self.draws = model, linear, effects, draws
        held_out = model.data.values[model.data.declaration.roles.held_out]
        num = model.data.num_obs
        rows = np.flatnonzero(np.broadcast_to(np.asarray(held_out) == 0, (num,)))
        own = effects[0].codes[linear.rows]
        order = np.argsort(own, kind="stable")
        # The observations in the order of their labels.
        self.rows, self.own = rows[order], own[order]
        self.columns = np.hstack([its.columns[linear.rows] for its in effects])[order]
        _, self.starts, self.codes = np.unique(self.own, return_index=True, return_inverse=True)
        self.sizes = np.bincount(self.codes)

    @property
    def num_effects(self) -> int:
        """The number of effects that are integrated out."""
        return sum(its.num_labels * its.num_effects for its in self.effects)

    def divides_as(self, codes: IntArray) -> bool:
        """Whether labels, one for each observation, divide the observations as the group does."""
        pairs = np.unique(np.column_stack([codes[self.rows], self.codes]), axis=0)
        return len(pairs) == len(self.starts) == len(np.unique(pairs[:, 0]))

    def of_rows(self) -> FloatArray:
        """Return log p(y_n | y_g without n, φ), shape (chain, draw, N); NaN if n is held out."""
        found = self._computed(lambda part: part.of_rows, self._num_expanded)
        whole = np.full((*found.shape[:2], self.model.data.num_obs), np.nan)
        whole[..., self.rows] = found
        return whole

    def of_labels(self, codes: IntArray) -> FloatArray:
        """Return log p(y_g | φ), shape (chain, draw, label), in the order of the given codes."""
        found = self._computed(lambda part: part.of_labels, len(self.rows))
        return found[..., np.argsort(codes[self.rows[self.starts]])]

    @property
    def _num_expanded(self) -> int:
        """The approximate number of rows in all integrals that leave out one row."""
        return int(np.sum(np.minimum(self.sizes, MANY_IN_LABEL) * self.sizes))

    def _computed(self, compute: Callable[[_Part], FloatArray], num: int) -> FloatArray:
        """Compute results for some draws at a time, and join them."""
        chains, draws = next(iter(self.draws.values())).shape[:2]
        kind = _QuadraturePart if self.linear.family.as_normal is None else _NormalPart
        step = max(1, _CHUNK // (chains * num))

        def task(begin: int) -> FloatArray:
            some = {name: its[:, begin : begin + step] for name, its in self.draws.items()}
            with np.errstate(all="ignore"):
                return compute(kind(self, some))

        tasks = [lambda begin=begin: task(begin) for begin in range(0, draws, step)]
        return np.concatenate(list(in_order(tasks)), axis=1)


class _Part:
    """The computation for some of the draws, with observations in the order of their labels."""

    def __init__(self, of: HeldOut, draws: Draws) -> None:
        self.of, self.draws = of, draws

    def at(self, places: IntArray) -> tuple[Model, Any, FloatArray]:
        """Return the model of some observations, its predictor, and eta without the effects."""
        of = self.of
        model = of.model.at(of.rows[places])
        predictor = model.predictor(self.draws)
        eta, begin = predictor.linear(), 0
        for its in of.effects:
            effects = self.draws[its.name][:, :, of.own[places]]
            columns = of.columns[places, begin : begin + its.num_effects]
            eta = eta - np.sum(columns * effects.reshape(*eta.shape, -1), axis=-1)
            begin += its.num_effects
        return model, predictor, eta

    @property
    def of_rows(self) -> FloatArray:
        """See :meth:`HeldOut.of_rows`, shape (chain, draw, row)."""
        raise NotImplementedError

    @property
    def of_labels(self) -> FloatArray:
        """See :meth:`HeldOut.of_labels`, shape (chain, draw, label)."""
        raise NotImplementedError


class _NormalPart(_Part):
    """Densities of normal responses, in closed form."""

    def __init__(self, of: HeldOut, draws: Draws) -> None:
        super().__init__(of, draws)
        model, predictor, eta = self.at(np.arange(len(of.rows)))
        y, as_normal = model.data.y, of.linear.family.as_normal
        assert as_normal is not None
        self.gap = as_normal(y) - eta  # (chain, draw, row)
        self.variance = np.broadcast_to(predictor.parameter("sigma"), eta.shape) ** 2
        ones = {"sigma": np.ones((1, 1, 1))}
        jacobian = of.linear.family.log_lik(y, np.zeros((1, 1, len(y))), ones)
        self.jacobian = jacobian + 0.5 * (as_normal(y) ** 2 + math.log(2 * math.pi))
        z = of.columns @ self._factor()  # (chain, draw, row, effect)
        over = z / self.variance[..., None]
        precision = np.add.reduceat(over[..., None] * z[..., None, :], of.starts, axis=2)
        precision += np.eye(z.shape[-1])
        shift = np.add.reduceat(over * self.gap[..., None], of.starts, axis=2)
        self.lower = np.linalg.cholesky(precision)
        self.half = np.linalg.solve(self.lower, shift[..., None])[..., 0]
        self.z = z

    def _factor(self) -> FloatArray:
        """Return the Cholesky factor of the covariance of all effects, (chain, draw, M, M)."""
        total = sum(its.num_effects for its in self.of.effects)
        lead = self.gap.shape[:2]
        covariance, begin = np.zeros((*lead, total, total)), 0
        for its in self.of.effects:
            size = its.num_effects
            correlation = np.broadcast_to(np.eye(size), (*lead, size, size)).copy()
            if its.correlations:
                one, other = np.triu_indices(size, 1)
                pairs = self.draws[its.correlations]
                correlation[..., one, other] = correlation[..., other, one] = pairs
            sd = self.draws[its.sd.name].reshape(*lead, size)
            place = slice(begin, begin + size)
            covariance[..., place, place] = sd[..., None] * correlation * sd[..., None, :]
            begin += size
        return np.asarray(np.linalg.cholesky(covariance))

    @property
    def of_rows(self) -> FloatArray:
        """See :meth:`HeldOut.of_rows`."""
        codes = self.of.codes
        solved = np.linalg.solve(self.lower[:, :, codes], self.z[..., None])[..., 0]
        leverage = np.sum(solved**2, axis=-1) / self.variance
        rest = self.gap - np.sum(solved * self.half[:, :, codes], axis=-1)
        found = np.log1p(-leverage) - rest**2 / (1 - leverage) / self.variance
        return np.asarray(0.5 * (found - np.log(2 * np.pi * self.variance)) + self.jacobian)

    @property
    def of_labels(self) -> FloatArray:
        """See :meth:`HeldOut.of_labels`."""
        rows = -0.5 * (np.log(2 * np.pi * self.variance) + self.gap**2 / self.variance)
        found = np.add.reduceat(rows + self.jacobian, self.of.starts, axis=2)
        found -= np.log(np.diagonal(self.lower, axis1=-2, axis2=-1)).sum(axis=-1)
        return np.asarray(found + 0.5 * np.sum(self.half**2, axis=-1))


@dataclass(eq=False)
class _Rows:
    """Rows whose effects are integrated out; see :class:`.integrals.Integrand`."""

    model: Model
    predictor: Any
    z: FloatArray
    codes: IntArray
    starts: IntArray
    step: float
    times: FloatArray | float = 1.0
    num_nodes: int = NUM_NODES

    def log_lik(self, eta: FloatArray, values: Values) -> FloatArray:
        """Return the log likelihood of rows, shape (T, row)."""
        own = {name: its[None] for name, its in values.items()}
        every = ChainMap(own, self.predictor.parameters)
        return np.asarray(self.model.family.log_lik(self.model.data.y, eta[None], every)[0])


class _QuadraturePart(_Part):
    """Densities of other responses, by quadrature."""

    @property
    def of_labels(self) -> FloatArray:
        """See :meth:`HeldOut.of_labels`."""
        return self._shaped(self._whole.log_integrals)

    @property
    def of_rows(self) -> FloatArray:
        """See :meth:`HeldOut.of_rows`."""
        of, whole = self.of, self._whole
        log_integrals = whole.log_integrals
        found = np.empty((len(log_integrals), len(of.rows)))
        many = of.sizes[of.codes] > MANY_IN_LABEL
        found[:, ~many] = log_integrals[:, of.codes[~many]]
        left = np.flatnonzero(~many & (of.sizes[of.codes] > 1))
        if len(left):
            found[:, left] -= self._without(left)
        if many.any():
            terms = []
            for u, log_weight in whole.nodes():
                eta = whole.eta + whole.of.z * u[:, of.codes]
                rows = whole.of.log_lik(eta, whole.values)
                of_node = whole.log_joint(u) + log_weight - log_integrals
                terms.append((of_node[:, of.codes] - rows)[:, many])
            found[:, many] = -log_sum(np.stack(terms))
        return self._shaped(found)

    @cached_property
    def _whole(self) -> Integrals:
        """The integrals of all labels."""
        of = self.of
        return self._integrals(np.arange(len(of.rows)), of.codes, of.starts)

    def _without(self, left: IntArray) -> FloatArray:
        """Return the log integrals of labels, each without one of some rows, shape (T, left)."""
        of = self.of
        firsts, sizes = of.starts[of.codes[left]], of.sizes[of.codes[left]]
        places = [
            np.delete(np.arange(first, first + size), row - first)
            for row, first, size in zip(left, firsts, sizes, strict=True)
        ]
        codes = np.repeat(np.arange(len(left)), sizes - 1)
        starts = np.cumsum([0, *(sizes - 1)[:-1]])
        return self._integrals(np.concatenate(places), codes, starts).log_integrals

    def _integrals(self, places: IntArray, codes: IntArray, starts: IntArray) -> Integrals:
        """Return the integrals of rows; the search for modes starts at the drawn effects."""
        of, (effect,) = self.of, self.of.effects
        model, predictor, eta = self.at(places)
        sd = self.draws[effect.sd.name].reshape(-1, 1)
        drawn = self.draws[effect.name][:, :, of.own[places][starts]].reshape(len(sd), -1)
        step = step_of(of.linear.family, model.data.y)
        rows = _Rows(model, predictor, of.columns[places, 0], codes, starts, step)
        values = self._parameters(predictor)
        return Integrals(rows, values, eta.reshape(len(sd), -1), sd, drawn)

    def _parameters(self, predictor: Any) -> Values:
        """Return the family's parameters that have a value for each draw, shape (T, …)."""
        found: Values = {}
        for each in self.of.linear.family.auxiliary:
            value = np.asarray(predictor.parameter(each.name))
            if value.ndim > 2:
                whole = np.broadcast_to(value, (*predictor.lead, *value.shape[2:]))
                found[each.name] = whole.reshape(-1, *value.shape[2:])
        return found

    def _shaped(self, values: FloatArray) -> FloatArray:
        """Reshape values from (chain × draw, …) to (chain, draw, …)."""
        chains = next(iter(self.draws.values())).shape[0]
        return values.reshape(chains, -1, values.shape[-1])
