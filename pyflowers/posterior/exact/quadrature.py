"""One-dimensional integrals of exp(log f), to rounding error, whatever the scale of f.

Composite Gauss-Legendre rules on panels that are halved until halving changes nothing. What makes
it safe is that the modes are found first: every mode that matters gets its own interval, cut where
f has fallen by e^-45 below its maximum, so no peak is too narrow to be seen.

References
----------
Davis and Rabinowitz (1984), Methods of Numerical Integration, 2nd ed., sections 2.7 and 6.2.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy import optimize

FloatArray = npt.NDArray[np.float64]
LogDensity = Callable[[FloatArray], FloatArray]

_DROP = 45.0  # e^-45 is 3e-20 of the maximum
_TOLERANCE = 1e-14  # of a panel's change by halving, relative to the whole
_MAX_HALVINGS = 30
_SCAN_STEP = 0.05
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


class PanelRule:
    """Nodes and weights for one density on the line.

    Parameters
    ----------
    log_density : callable
        log f, vectorised, possibly unnormalised; -inf is allowed in its tails.
    modes : array, shape (M,)
        Every local maximum of f, in any order.

    Attributes
    ----------
    nodes : array, shape (K,)
        Quadrature nodes, ascending.
    weights : array, shape (K,)
        Weights that sum to one: Σ weights · h(nodes) is E[h] under f normalised.
    log_total : float
        log ∫ f.
    """

    def __init__(self, log_density: LogDensity, modes: FloatArray) -> None:
        self._log_density = log_density
        self._peak = float(np.max(log_density(modes)))
        edges = self._converged_edges(self._intervals(modes))
        self._left, self._right = edges[:, 0], edges[:, 1]
        nodes, mass = self._panel_masses(self._left, self._right)
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
        left = self._left[panel : panel + 1]
        _, mass = self._panel_masses(left, np.array([upper]))
        return float(mass.sum() * np.exp(self._peak - self.log_total))

    def _panel_masses(self, left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Nodes and f / e^peak times weight, each of shape (panels, nodes a panel)."""
        half = 0.5 * (right - left)[:, None]
        nodes = 0.5 * (left + right)[:, None] + half * _NODES
        mass = (
            half
            * _WEIGHTS
            * np.exp(self._log_density(nodes.ravel()).reshape(nodes.shape) - self._peak)
        )
        return nodes, mass

    def _intervals(self, modes: FloatArray) -> list[tuple[float, float]]:
        """Disjoint intervals that hold all of f that matters, with edges at the modes."""
        floor = self._peak - _DROP
        high = np.sort(modes[self._log_density(modes) > floor])
        merged: list[list[float]] = []
        for mode in high:
            low, up = self._reach(mode, -1.0, floor), self._reach(mode, 1.0, floor)
            if merged and low <= merged[-1][-1]:
                merged[-1] = sorted({*merged[-1], float(mode), max(up, merged[-1][-1])})
            else:
                merged.append([low, float(mode), up])
        return [pair for points in merged for pair in pairwise(points)]

    def _reach(self, mode: float, sign: float, floor: float) -> float:
        """Where, on one side of a mode, f falls to the floor."""

        def above(distance: float) -> bool:
            return bool(self._log_density(np.array([mode + sign * distance]))[0] > floor)

        far = 1e-12 * max(1.0, abs(mode))
        while above(far):
            far *= 2
        near = far / 2
        for _ in range(12):
            middle = 0.5 * (near + far)
            near, far = (middle, far) if above(middle) else (near, middle)
        return float(mode + sign * far)

    def _converged_edges(self, intervals: list[tuple[float, float]]) -> FloatArray:
        """Halve panels until halving changes their mass by nothing that matters."""
        grids = [np.linspace(low, high, 9) for low, high in intervals]
        panels = np.concatenate([np.column_stack([g[:-1], g[1:]]) for g in grids])
        mass = self._panel_masses(panels[:, 0], panels[:, 1])[1].sum(axis=1)
        done: list[FloatArray] = []
        for _ in range(_MAX_HALVINGS):
            total = mass.sum() + sum(float(d[:, 2].sum()) for d in done)
            middle = panels.mean(axis=1)
            halves = np.stack([panels[:, 0], middle, middle, panels[:, 1]], axis=1).reshape(-1, 2)
            halved = self._panel_masses(halves[:, 0], halves[:, 1])[1].sum(axis=1)
            change = np.abs(halved.reshape(-1, 2).sum(axis=1) - mass)
            split = np.repeat(change > _TOLERANCE * total, 2)
            # The halves are kept even where they were not needed: other integrands share them.
            done.append(np.column_stack([halves, halved])[~split])
            panels, mass = halves[split], halved[split]
            if not panels.size:
                break
        edges = np.concatenate([*done, np.column_stack([panels, mass])])[:, :2]
        return edges[np.argsort(edges[:, 0])]


def find_modes(slope: LogDensity, low: float, high: float) -> FloatArray:
    """Every maximum of f within [low, high], where its log slope passes through zero downwards.

    The slope must be positive at `low`, negative at `high` and vary on a scale of one, as those
    of variances' posteriors do in the logarithm of the variance.
    """
    grid = np.linspace(low, high, max(3, int((high - low) / _SCAN_STEP) + 2))
    value = slope(grid)
    falls = np.flatnonzero((value[:-1] > 0) & (value[1:] <= 0))
    return np.array(
        [
            optimize.brentq(lambda u: float(slope(np.array([u]))[0]), grid[i], grid[i + 1])
            for i in falls
        ]
    )
