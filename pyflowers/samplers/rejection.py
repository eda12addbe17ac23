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
from typing import NamedTuple

import numpy as np

from pyflowers.errors import ConfigError
from pyflowers.samplers import _checks
from pyflowers.samplers.densities import BoolArray, FloatArray

#: More expected proposals than this are refused: the answer is a closed form away.
MAX_PROPOSALS = 1e8

_BATCH_SIZE = 100_000


class RejectionInfo(NamedTuple):
    """The outcome of proposing many points.

    Attributes
    ----------
    accepted : array of bool, shape (num_proposals,)
    acceptance_rate : float
        The part of the points that was kept.
    """

    accepted: BoolArray
    acceptance_rate: float


def ball_acceptance_rate(dim: int) -> float:
    """Return the d-ball's share of the d-cube around it, π^(d/2) / (2^d Γ(d/2 + 1)).

    Raises
    ------
    ConfigError
        `dim` is not a whole number of at least 1.
    """
    _checks.count("dim", dim)
    log_rate = dim / 2 * math.log(math.pi) - dim * math.log(2) - math.lgamma(dim / 2 + 1)
    return min(1.0, math.exp(log_rate))  # in one dimension rounding may pass 1


def propose_in_cube(
    rng: np.random.Generator, num_proposals: int, dim: int = 2, radius: float = 1.0
) -> tuple[FloatArray, RejectionInfo]:
    """Draw points from the cube [−r, r]^d and tell which are in the ball of radius r.

    Returns
    -------
    points : array, shape (num_proposals, dim)
    info : RejectionInfo
        `points[info.accepted]` are uniform in the ball.

    Raises
    ------
    ConfigError
        An argument is not positive.
    """
    shape = (_checks.count("num_proposals", num_proposals), _checks.count("dim", dim))
    points = rng.uniform(-1.0, 1.0, shape)
    accepted = (points**2).sum(axis=-1) <= 1
    points *= _checks.positive("radius", radius)
    return points, RejectionInfo(accepted, float(accepted.mean()))


def uniform_in_ball(
    rng: np.random.Generator, num_draws: int, dim: int = 2, radius: float = 1.0
) -> FloatArray:
    """Return uniform draws from the ball of radius r, shape (num_draws, dim); a disc if dim is 2.

    Raises
    ------
    ConfigError
        An argument is not positive, or the ball is so small in its cube that more than
        `MAX_PROPOSALS` points would be needed.
    """
    expected = _checks.count("num_draws", num_draws) / ball_acceptance_rate(dim)
    if expected > MAX_PROPOSALS:
        raise ConfigError(
            f"dim must be smaller for {num_draws} draws: the {dim}-ball keeps "
            f"{ball_acceptance_rate(dim):.1e} of its cube, so {expected:.1e} proposals are needed"
        )
    kept: list[FloatArray] = []
    num_kept = 0
    while num_kept < num_draws:
        # Few enough to fit in memory, many enough to be done in one go when draws are few.
        batch_size = min(_BATCH_SIZE, math.ceil(1.1 * expected) + 10)
        points, info = propose_in_cube(rng, batch_size, dim, radius)
        kept.append(points[info.accepted])
        num_kept += len(kept[-1])
    return np.concatenate(kept)[:num_draws]
