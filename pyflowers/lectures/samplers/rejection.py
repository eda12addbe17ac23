"""Rejection sampling: uniform points in a disc, drawn from the square around it.

Draw x uniformly from the cube [−r, r]^d and keep it if |x| ≤ r. The kept points are uniform in the
ball, and the share that is kept is the ball's share of the cube,

    π^(d/2) / (2^d Γ(d/2 + 1)):     π/4 for the disc, 0.0025 for d = 10, 2·10⁻⁸ for d = 20,

which is why this method is not used in high dimensions [1]_.

References
----------
.. [1] Devroye (1986), Non-uniform random variate generation, section II.3 on rejection and V.4 on
   the ball.
"""

import math

import numpy as np

from pyflowers.checked import whole_number
from pyflowers.errors import ConfigError
from pyflowers.lectures.samplers.kernels import BoolArray, FloatArray, positive

MOST_PROPOSALS = 1e8
"""The largest expected number of proposals.

Requests that need more are rejected, because direct methods exist for balls.
"""

_MOST_AT_ONCE = 100_000


def ball_acceptance_rate(dim: int) -> float:
    """Return the d-ball's share of the d-cube around it, π^(d/2) / (2^d Γ(d/2 + 1)).

    Parameters
    ----------
    dim : int
        d, the number of coordinates.

    Returns
    -------
    float
        The share of the cube's points that are in the ball.

    Raises
    ------
    ConfigError
        If `dim` is not a whole number of at least 1.

    Examples
    --------
    >>> import math
    >>> from pyflowers.samplers import ball_acceptance_rate
    >>> math.isclose(ball_acceptance_rate(2), math.pi / 4)
    True
    >>> round(ball_acceptance_rate(10), 4)
    0.0025
    """
    whole_number("dim", dim)
    log_rate = dim / 2 * math.log(math.pi) - dim * math.log(2) - math.lgamma(dim / 2 + 1)
    return min(1.0, math.exp(log_rate))  # in one dimension, rounding may give more than 1


def propose_in_cube(
    rng: np.random.Generator, num_proposals: int, dim: int = 2, radius: float = 1.0
) -> tuple[FloatArray, BoolArray]:
    """Draw points from the cube [−r, r]^d and mark those in the ball of radius r.

    Parameters
    ----------
    rng : numpy.random.Generator
        The source of the points.
    num_proposals : int
        Number of points.
    dim : int
        d, the number of coordinates.
    radius : float
        The radius r.

    Returns
    -------
    points : array, shape (num_proposals, dim)
        Uniform points in the cube.
    accepted : array of bool, shape (num_proposals,)
        Whether each point is in the ball: `points[accepted]` are uniform in the ball.

    Raises
    ------
    ConfigError
        If an argument is not positive.

    Examples
    --------
    The disc covers π/4 of its square:

    >>> import numpy as np
    >>> from pyflowers.samplers import propose_in_cube
    >>> points, accepted = propose_in_cube(np.random.default_rng(1), 100_000)
    >>> points.shape
    (100000, 2)
    >>> round(4 * float(accepted.mean()), 1)
    3.1
    """
    whole_number("num_proposals", num_proposals)
    whole_number("dim", dim)
    positive("radius", radius, ndim=0)
    points = rng.uniform(-1.0, 1.0, (num_proposals, dim))
    return radius * points, (points**2).sum(axis=-1) <= 1


def uniform_in_ball(
    rng: np.random.Generator, num_draws: int, dim: int = 2, radius: float = 1.0
) -> FloatArray:
    """Return uniform draws from the ball of radius r, a disc if `dim` is 2.

    Parameters
    ----------
    rng : numpy.random.Generator
        The source of the draws.
    num_draws : int
        Number of draws.
    dim : int
        d, the number of coordinates.
    radius : float
        The radius r.

    Returns
    -------
    array, shape (num_draws, dim)
        Independent points in the ball.

    Raises
    ------
    ConfigError
        If an argument is not positive, or the ball is such a small share of its cube that more than
        10⁸ proposals would be needed.

    Examples
    --------
    In the unit disc, half of all points are within √½ of the centre:

    >>> import numpy as np
    >>> from pyflowers.samplers import uniform_in_ball
    >>> points = uniform_in_ball(np.random.default_rng(1), 100_000)
    >>> round(float(((points**2).sum(axis=1) <= 0.5).mean()), 2)
    0.5
    """
    whole_number("num_draws", num_draws)
    rate = ball_acceptance_rate(dim)
    if num_draws / rate > MOST_PROPOSALS:
        raise ConfigError(
            f"dim must be smaller for {num_draws} draws: the {dim}-ball fills {rate:.1e} of its "
            f"cube, so {num_draws / rate:.1e} proposals would be needed"
        )
    # This is usually enough for all draws at once, but never more than fits in memory.
    at_once = min(_MOST_AT_ONCE, math.ceil(1.1 * num_draws / rate) + 10)
    kept = np.empty((0, dim))
    while len(kept) < num_draws:
        points, accepted = propose_in_cube(rng, at_once, dim, radius)
        kept = np.concatenate([kept, points[accepted]])
    return kept[:num_draws]
