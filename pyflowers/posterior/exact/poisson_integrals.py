"""The integrals of many plants of the multilevel Poisson model.

Relative to its maximum the integrand is exp(-φ), φ = c δ² / 2 + b (e^δ - 1 - δ), and the
trapezoidal rule of step h errs by about exp(c y² / 2 - b log cos y - 2 pi y / h) for every shift
of the path 0 < y < pi/2 into the complex plane (Trefethen and Weideman 2014, theorem 5.1). With
κ = b + c, the shift sqrt(2 D / κ), at most 1.2, makes this e^-D if h = 3.72 / sqrt(D κ) for
κ > 1.39 D and h = 7.54 / (D + 1.02 κ) below: for D = 30, 25 to 40 nodes a plant. On even nodes
e^δ is a product, so a node costs one exponential. Where the rule would need more than 128 nodes,
that is for plants without a single flower and large sigma2, the rule of :mod:`.plants` takes over.

Relative to its largest likelihood log I is smooth in the logarithm of a plant's flowers. So of many
plants with equal months a few, with the same moments of that logarithm, stand for all in a rough
sum: 20 give it within 1e-6 where the posterior is, be there 100 plants or 10,000.

References
----------
Trefethen and Weideman (2014), The exponentially convergent trapezoidal rule, SIAM Review 56(3).
"""

import numpy as np
from scipy import special

from pyflowers.posterior.exact.integrals import DROP, IntArray
from pyflowers.posterior.exact.moments import gauss_rule
from pyflowers.posterior.exact.plants import excess, falls
from pyflowers.posterior.exact.tabulated import FloatArray
from pyflowers.posterior.vb.distributions import LOG_2PI, as_floats

_ROUGH_SUM = 1e-5
_STAND_INS = 20  # plants for all of a number of months
_BLOCK = 4_096  # elements at once: a dozen arrays of them stay in a core's cache
_MOST_NODES, _SIMILAR = 128, 8
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
# On (0, 1), some nodes at a time.
_HALF_RULE = list(zip(np.split(0.5 * (_NODES + 1), 8), np.split(0.5 * _WEIGHTS, 8), strict=True))


class PoissonPlants:
    """Plants of the multilevel Poisson model.

    Parameters
    ----------
    num, total : array, shape (K,)
        Months, at least 1, and flowers of each different plant.
    multiplicity : array, shape (K,)
        How many plants are like it.
    drop : float
        Each integral errs by about e^-drop of itself.

    Σ log y! is left out of everything.
    """

    def __init__(
        self, num: FloatArray, total: FloatArray, multiplicity: FloatArray, drop: float = DROP
    ) -> None:
        self._num, self._total, self.multiplicity = num, total, multiplicity
        self._drop = drop
        self.centre = as_floats(np.log((total + 0.5) / num))
        self.spread = as_floats((total + 0.5) ** -0.5)
        self.power = as_floats(np.where(total > 0, 1.0, 0.0))
        best = special.xlogy(total, np.maximum(total, 1.0) / num) - total
        self.log_constant = float(multiplicity @ best)

    @property
    def size(self) -> int:
        """See :class:`Plants`."""
        return int(self._num.size)

    def some(self, index: IntArray) -> "PoissonPlants":
        """See :class:`Plants`."""
        return PoissonPlants(self._num[index], self._total[index], np.ones(index.size), self._drop)

    def rough(self) -> "PoissonPlants":
        """See :class:`Plants`."""
        drop = min(DROP, float(np.log(max(self.multiplicity.sum(), 1.0) / _ROUGH_SUM)))
        return PoissonPlants(*_stand_ins(self._num, self._total, self.multiplicity), drop)

    def sum_log_integrals(self, mu: FloatArray, u: FloatArray) -> FloatArray:
        """See :class:`Plants`."""
        points, each_u = mu.ravel(), np.repeat(u, mu.shape[1])
        width = max(1, _BLOCK // mu.size)
        sums = np.zeros(mu.size)
        for start in range(0, self.size, width):
            block = slice(start, start + width)
            plants = self._num[block, None], self._total[block, None]
            sums += self.multiplicity[block] @ _log_poisson(*plants, points, each_u, self._drop)
        return as_floats(sums.reshape(mu.shape))


def _stand_ins(
    num: FloatArray, total: FloatArray, multiplicity: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return fewer plants, with flowers and multiplicities that need not be whole numbers.

    Those without flowers, where the logarithm is not smooth, stay.
    """
    order = np.argsort(num, kind="stable")
    rows = []
    for alike in np.split(order, np.flatnonzero(np.diff(num[order])) + 1):
        some = alike[total[alike] > 0]
        if some.size <= 2 * _STAND_INS:
            rows.append((num[alike], total[alike], multiplicity[alike]))
            continue
        none = alike[total[alike] == 0]
        rows.append((num[none], total[none], multiplicity[none]))
        logs, times = gauss_rule(np.log(total[some]), multiplicity[some], _STAND_INS)
        rows.append((np.full(_STAND_INS, num[some[0]]), np.exp(logs), times))
    few_num, few_total, times = (np.concatenate(column) for column in zip(*rows, strict=True))
    return few_num, few_total, times


def log_rate_mode(
    num: FloatArray, total: FloatArray, mu: FloatArray, u: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Solve total - num e^x = (x - mu) e^-u to about two digits of e^x; arguments broadcast.

    With w = num e^(x + u) this is Wright's w + log w = Z. Winitzki's approximation to Lambert's
    function and a step of Newton's method give log w within 1e-3.

    Returns
    -------
    x, expected : array
        The mode and num e^x, the count expected there.
    """
    sigma2 = np.exp(u)
    log_scale = np.log(num) + u
    reach = mu + total * sigma2
    z = reach + log_scale
    large = bool(np.all(z > 30))
    y = z if large else np.where(z > 30, z, np.log1p(np.exp(np.minimum(z, 30.0))))
    w = y * (1 - np.log1p(y) / (2 + y))
    log_w = np.log(np.maximum(w, 1e-300))
    newton = w * (1 + z - log_w) / (1 + w)
    w = newton if large else np.where(z > 0, newton, w)
    log_rate = np.log(np.maximum(w, 1e-300)) - log_scale
    x = log_rate if large else np.where(z > 0, log_rate, reach - w)
    return as_floats(x), as_floats(w / sigma2)


def _log_poisson(
    num: FloatArray, total: FloatArray, mu: FloatArray, u: FloatArray, drop: float
) -> FloatArray:
    """Log I of Poisson plants, relative to their largest likelihood, shape (K, N).

    `num` and `total` have shape (K, 1), `mu` and `u` (N,).
    """
    c = np.exp(-u)
    mode, _ = log_rate_mode(num, total, mu, u)
    rate = num * np.exp(mode)
    mode += (total - rate - c * (mode - mu)) / (rate + c)
    log_b = np.log(num) + mode
    b = np.exp(log_b)
    misfit = c * (mode - mu)
    tilt = total - b - misfit  # zero but for what Newton's method left
    # total x - num e^x relative to its maximum over x, which keeps digits where counts are large.
    away = mode - np.log(np.maximum(total, 1.0) / num)
    fit = np.where(total > 0, -total * (np.expm1(np.where(total > 0, away, 0.0)) - away), -b)
    misfit *= mode - mu
    misfit += LOG_2PI + u
    at_mode = fit - 0.5 * misfit
    step = _steps(b + c, drop)
    left, right = _num_nodes(c, b, step, drop)
    nodes = left + right
    most = nodes.max()
    if most <= _MOST_NODES and most - nodes.min() <= _SIMILAR:
        ends = int(left.max()), int(right.max())
        return at_mode + _trapezoid(np.broadcast_to(c, b.shape), b, tilt, step, *ends)
    log_mass = np.empty_like(mode)
    each_c = np.broadcast_to(c, b.shape)
    lower = -1.0
    for upper in (30, 40, 60, 90, _MOST_NODES):
        part = (nodes > lower) & (nodes <= upper)
        if np.any(part):
            ends = int(left[part].max()), int(right[part].max())
            log_mass[part] = _trapezoid(each_c[part], b[part], tilt[part], step[part], *ends)
        lower = float(upper)
    part = ~(nodes <= _MOST_NODES)
    if np.any(part):
        log_mass[part] = _two_sided(each_c[part], log_b[part], tilt[part])
    return as_floats(at_mode + log_mass)


def _steps(curvature: FloatArray, drop: float) -> FloatArray:
    """Return the rule's steps."""
    edge = 1.39 * drop
    return as_floats(
        np.where(
            curvature > edge,
            3.72 / np.sqrt(drop * curvature),
            7.54 / (drop + 1.02 * np.minimum(curvature, edge)),
        )
    )


def _num_nodes(
    c: FloatArray, b: FloatArray, step: FloatArray, drop: float
) -> tuple[FloatArray, FloatArray]:
    """Return the numbers of nodes left and right of the mode until the integrand is below e^-D."""
    share = drop / np.maximum(b, 1e-290)
    spread, root = np.sqrt(2 * drop / c), np.sqrt(2 * share)
    left = np.minimum(spread, share + root)
    right = np.minimum(spread, np.minimum(root, np.log1p(share) + 1))
    return as_floats(np.ceil(left / step)), as_floats(np.ceil(right / step))


def _trapezoid(
    c: FloatArray, b: FloatArray, tilt: FloatArray, step: FloatArray, num_left: int, num_right: int
) -> FloatArray:
    """Log of the integral of exp(-φ) on even nodes, -φ by its differences away from the mode.

    From δ to δ + h, that is (tilt + b) h - c (δ + h / 2) h - b (e^(δ + h) - e^δ): one part falls
    evenly, one grows by the factor e^h.
    """
    total, bend, slope = np.ones_like(b), c * step * step, tilt + b
    for signed, num in ((-step, num_left), (step, num_right)):
        first = np.expm1(signed)
        growth = 1 + first
        linear = slope * signed
        linear -= 0.5 * bend
        grown = b * first
        exponent, density = np.zeros_like(b), np.empty_like(b)
        for _ in range(num):
            exponent += linear
            exponent -= grown
            total += np.exp(exponent, out=density)
            linear -= bend
            grown *= growth
    return as_floats(np.log(total * step))


def _two_sided(c: FloatArray, log_b: FloatArray, tilt: FloatArray) -> FloatArray:
    """Log of the same by Gauss-Legendre on both sides of the mode."""
    mass = np.zeros_like(c)
    for side in (-falls(c, log_b, -1.0), falls(c, log_b, 1.0)):
        for nodes, weights in _HALF_RULE:
            delta = np.multiply.outer(nodes, side)
            fall = 0.5 * c * delta**2 + excess(log_b, delta) - tilt * delta
            mass += np.abs(side) * (weights @ np.exp(-fall))
    return as_floats(np.log(mass))
