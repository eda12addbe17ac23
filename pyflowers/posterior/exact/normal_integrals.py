"""The integrals of many plants of the multilevel normal model.

The trapezoidal rule in log sigma2_plant, as in :mod:`.plants`.
"""

from functools import partial

import numpy as np

from pyflowers.cores import in_order
from pyflowers.posterior.exact.integrals import DROP, IntArray
from pyflowers.posterior.exact.tabulated import FloatArray
from pyflowers.posterior.vb.distributions import LOG_2PI, as_floats, log_variance_prior_constant

_BLOCK = 32_768  # elements at once: so many that threads seldom wait for one another


class NormalPlants:
    """Plants of the multilevel normal model.

    Parameters
    ----------
    num, mean, ss : array, shape (K,)
        Months, at least 1, mean and sum of squares of each different plant.
    multiplicity : array, shape (K,)
        How many plants are like it.
    nu, scale : float
        Those of sigma2_plant's prior.
    """

    def __init__(
        self,
        num: FloatArray,
        mean: FloatArray,
        ss: FloatArray,
        multiplicity: FloatArray,
        nu: float,
        scale: float,
    ) -> None:
        self._prior, self.log_constant = (nu, scale), 0.0
        self._num, self._ss, self.centre, self.multiplicity = num, ss, mean, multiplicity
        self._known_ss, self._dof = ss + nu * scale**2, num + nu
        self.spread = as_floats(np.sqrt(self._known_ss / self._dof / num))
        self.power = as_floats(np.minimum(1.0, self._dof))
        constant = log_variance_prior_constant(as_floats(nu), as_floats(scale))
        self._constant = constant - 0.5 * (num * LOG_2PI + np.log(num))
        self._step = np.minimum(0.35, 0.7 * np.sqrt(2 / self._dof))
        self._left, self._right = _reaches(self._dof)

    @property
    def size(self) -> int:
        """See :class:`Plants`."""
        return int(self._num.size)

    def some(self, index: IntArray) -> "NormalPlants":
        """See :class:`Plants`."""
        arrays = (self._num[index], self.centre[index], self._ss[index], np.ones(index.size))
        return NormalPlants(*arrays, *self._prior)

    def rough(self) -> "NormalPlants":
        """Return these plants: their rule has one precision."""
        return self

    def sum_log_integrals(self, mu: FloatArray, u: FloatArray) -> FloatArray:
        """See :class:`Plants`."""
        first, nodes = self._nodes(mu, float(u.max()))
        order = np.argsort(nodes)
        num_mu, at, tasks = mu.shape[1], 0, []
        while at < self.size:
            # Rows of nodes grow along the order: one more look ahead keeps the block in bounds.
            rows = max(1, _BLOCK // (num_mu * int(nodes[order[at]])))
            block = order[at : at + rows]
            at += rows
            num = int(nodes[block].max())
            tasks.append(partial(self._block, block, first[block], num, mu, u))
        return as_floats(sum(in_order(tasks), np.zeros(mu.shape)))

    def _nodes(self, mu: FloatArray, largest_u: float) -> tuple[FloatArray, IntArray]:
        """First node in w = log sigma2_plant and number of nodes, of each plant."""
        dof, known = self._dof, self._known_ss
        start = np.log(known / dof)
        misfit = np.maximum(np.abs(mu.max() - self.centre), np.abs(mu.min() - self.centre))
        top = np.log(known + self._num * misfit**2) - np.log(dof)
        # Up to w = log n + u the factor N is flat, and h alone falls, by one power less.
        with np.errstate(divide="ignore"):
            plateau = np.where(dof > 1, 2 * DROP / np.maximum(dof - 1, 0.0), np.inf)
        top = np.maximum(top, np.minimum(np.log(self._num) + largest_u, top + plateau))
        length = top + self._right - start + self._left
        return start - self._left, np.ceil(length / self._step).astype(np.intp) + 1

    def _block(
        self, block: IntArray, first: FloatArray, num: int, mu: FloatArray, u: FloatArray
    ) -> FloatArray:
        """Sum over a block of plants, shape (U, M)."""
        dof, count = self._dof[block, None], self._num[block, None]
        step = self._step[block, None]
        w = first[:, None] + step * np.arange(num)
        log_h = self._constant[block, None] + np.log(step)
        log_h = log_h - 0.5 * ((dof - 1) * w + self._known_ss[block, None] * np.exp(-w))
        spread2, weights = np.exp(w) / count, self.multiplicity[block]
        result = np.empty(mu.shape)
        for i, one in enumerate(u):
            var = np.exp(one) + spread2
            height = log_h - 0.5 * np.log(var)
            square = (mu[i] - self.centre[block, None]) ** 2
            terms = height[:, None, :] - square[:, :, None] * (0.5 / var)[:, None, :]
            peak = terms.max(axis=2)
            terms -= peak[:, :, None]
            result[i] = weights @ (peak + np.log(np.exp(terms, out=terms).sum(axis=2)))
        return result


def _reaches(dof: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How far below and above its mode an inverse chi-square's logarithm falls by e^-30."""
    left = np.ones_like(dof)
    for _ in range(60):  # of e^x - 1 - x = 2 drop / dof
        left = np.log1p(2 * DROP / dof + left)
    return left, 2 * DROP / dof + np.sqrt(4 * DROP / dof)
