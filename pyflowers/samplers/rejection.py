"""Rejection sampling: uniform points in a disc from its square.

Draw x uniformly from the cube [−r, r]^d and keep it if |x| ≤ r. What is kept is uniform in the
ball, and the part that is kept is the ball's share of the cube,

    π^(d/2) / (2^d Γ(d/2 + 1)):     π/4 for the disc, 0.0025 for d = 10, 2·10⁻⁸ for d = 20,

which is why nobody does this in many dimensions [1]_.

References
----------
.. [1] Devroye (1986), Non-uniform random variate generation, section II.3 on rejection and V.4 on
   the ball.
"""

import math

import numpy as np

from pyflowers.errors import ConfigError
from pyflowers.samplers.kernels import BoolArray, FloatArray, count, positive

MOST_PROPOSALS = 1e8
"""More expected proposals than this are refused: the answer is a closed form away."""

_MOST_AT_ONCE = 100_000


def ball_acceptance_rate(dim: int) -> float:
    """Return the d-ball's share of the d-cube around it, π^(d/2) / (2^d Γ(d/2 + 1)).

    Raises
    ------
    ConfigError
        `dim` is not a whole number of at least 1.
    """
    count("dim", dim)
    log_rate = dim / 2 * math.log(math.pi) - dim * math.log(2) - math.lgamma(dim / 2 + 1)
    return min(1.0, math.exp(log_rate))  # in one dimension rounding may pass 1


def propose_in_cube(
    rng: np.random.Generator, num_proposals: int, dim: int = 2, radius: float = 1.0
) -> tuple[FloatArray, BoolArray]:
    """Draw points from the cube [−r, r]^d and tell which are in the ball of radius r.

    Returns
    -------
    points : array, shape (num_proposals, dim)
    accepted : array of bool, shape (num_proposals,)
        `points[accepted]` are uniform in the ball.

    Raises
    ------
    ConfigError
        An argument is not positive.
    """
    count("num_proposals", num_proposals)
    count("dim", dim)
    positive("radius", radius, ndim=0)
    points = rng.uniform(-1.0, 1.0, (num_proposals, dim))
    return radius * points, (points**2).sum(axis=-1) <= 1


def uniform_in_ball(
    rng: np.random.Generator, num_draws: int, dim: int = 2, radius: float = 1.0
) -> FloatArray:
    """Return uniform draws from the ball of radius r, shape (num_draws, dim); a disc if dim is 2.

    Raises
    ------
    ConfigError
        An argument is not positive, or the ball is so small in its cube that more than
        `MOST_PROPOSALS` points would be needed.
    """
    count("num_draws", num_draws)
    rate = ball_acceptance_rate(dim)
    if num_draws / rate > MOST_PROPOSALS:
        raise ConfigError(
            f"dim must be smaller for {num_draws} draws: the {dim}-ball keeps {rate:.1e} of its "
            f"cube, so {num_draws / rate:.1e} proposals are needed"
        )
    # Few enough to fit in memory, many enough to be done in one go when draws are few.
    at_once = min(_MOST_AT_ONCE, math.ceil(1.1 * num_draws / rate) + 10)
    kept = np.empty((0, dim))
    while len(kept) < num_draws:
        points, accepted = propose_in_cube(rng, at_once, dim, radius)
        kept = np.concatenate([kept, points[accepted]])
    return kept[:num_draws]
