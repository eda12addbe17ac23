"""A finite Markov chain: Metropolis on a state space small enough to write its matrix down.

Let π be a distribution on n states, q a proposal matrix (q_ij is the probability of proposing j
from i). Metropolis–Hastings moves with probability ([1]_, section 2.2)

    P_ij = q_ij min(1, π_j q_ji / (π_i q_ij)),  i ≠ j,     P_ii = 1 − Σ_{j≠i} P_ij.

Then π_i P_ij = min(π_i q_ij, π_j q_ji) is symmetric: detailed balance, which implies π P = π. If
every state can reach every other and the chain does not alternate, the distribution after t steps,
π₀ Pᵗ, goes to π from any start, as fast as |λ|ᵗ with λ the second largest eigenvalue in modulus:

    TV(δ_i Pᵗ, π) ≤ ½ √((1 − π_i)/π_i) |λ|ᵗ     ([2]_, proposition 3).

References
----------
.. [1] Hastings (1970), Monte Carlo sampling methods using Markov chains and their applications,
   Biometrika 57, 97–109.
.. [2] Diaconis & Stroock (1991), Geometric bounds for eigenvalues of Markov chains, Annals of
   Applied Probability 1, 36–61.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyflowers.errors import ConfigError
from pyflowers.samplers.kernels import FloatArray, count, numbers, positive


def _probabilities(name: str, value: ArrayLike, ndim: int) -> FloatArray:
    """Return `value` as floats, or raise ConfigError unless it is, or its rows are, distributions.

    A matrix must be square.
    """
    array = numbers(name, value, ndim)
    if ndim == 2 and array.shape[0] != array.shape[1]:
        raise ConfigError(f"{name} must be a square matrix, but its shape was {array.shape}")
    if (array < 0).any():
        raise ConfigError(f"{name} must hold probabilities, but its smallest was {array.min()}")
    totals = np.atleast_1d(array.sum(axis=-1))
    wrong = np.flatnonzero(np.abs(totals - 1) > 1e-12)
    if wrong.size:
        rows, its = ("'s rows", f"row {wrong[0]} ") if ndim == 2 else ("", "")
        raise ConfigError(f"{name}{rows} must sum to 1, but {its}sums to {totals[wrong[0]]}")
    return array


def ring_walk(num_states: int) -> FloatArray:
    """Return the proposal matrix that goes one state left or right on a ring, ½ each.

    Raises
    ------
    ConfigError
        There are fewer than 3 states.
    """
    count("num_states", num_states, at_least=3)
    right = np.roll(np.eye(num_states), 1, axis=1)
    return 0.5 * (right + right.T)


def metropolis_matrix(weights: ArrayLike, proposal: ArrayLike) -> FloatArray:
    """Return the transition matrix of Metropolis–Hastings on a finite state space.

    Parameters
    ----------
    weights : array, shape (n,), positive
        π up to a constant.
    proposal : array, shape (n, n)
        q, whose rows sum to 1; it need not be symmetric.

    Returns
    -------
    array, shape (n, n)
        P, whose rows sum to 1.

    Raises
    ------
    ConfigError
        A weight is not positive, or the proposal is not a matrix of n distributions.
    """
    pi, q = positive("weights", weights, ndim=1), _probabilities("proposal", proposal, 2)
    if len(q) != len(pi):
        raise ConfigError(f"proposal must have {len(pi)} states as weights do, but has {len(q)}")
    # q_ij min(1, …) with q_ij multiplied in, so that q_ij = 0 needs no division
    matrix = np.minimum(q, q.T * (pi[None, :] / pi[:, None]))
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, 1 - matrix.sum(axis=1))
    return matrix


def detailed_balance_error(matrix: ArrayLike, distribution: ArrayLike) -> float:
    """Return max |π_i P_ij − π_j P_ji|, which is 0 for a reversible chain."""
    flow = numbers("distribution", distribution, 1)[:, None] * _probabilities("matrix", matrix, 2)
    return float(np.abs(flow - flow.T).max())


def stationary_distribution(matrix: ArrayLike) -> FloatArray:
    """Return the π with π P = π and Σ π = 1, shape (n,).

    Raises
    ------
    ConfigError
        `matrix` is not a transition matrix, or has more than one stationary distribution, because
        some states cannot reach each other.
    """
    p = _probabilities("matrix", matrix, 2)
    num_states = len(p)
    equations = np.vstack([p.T - np.eye(num_states), np.ones(num_states)])
    right_side = np.append(np.zeros(num_states), 1.0)
    pi, _, rank, _ = np.linalg.lstsq(equations, right_side, rcond=1e-12)
    if rank < num_states:
        raise ConfigError(
            "matrix must have one stationary distribution, but some of its states never reach "
            "each other"
        )
    return np.asarray(pi, dtype=np.float64)


def distributions(matrix: ArrayLike, initial: ArrayLike, num_steps: int) -> FloatArray:
    """Return the distribution after 0, 1, …, num_steps steps, shape (num_steps + 1, n).

    Parameters
    ----------
    matrix : array, shape (n, n)
    initial : array, shape (n,)
        The distribution of the first state.
    num_steps : int

    Raises
    ------
    ConfigError
        `matrix` is no transition matrix or `initial` no distribution on its states.
    """
    p, pi = _probabilities("matrix", matrix, 2), _probabilities("initial", initial, 1)
    count("num_steps", num_steps, at_least=0)
    if len(pi) != len(p):
        raise ConfigError(f"initial must have {len(p)} states as matrix does, but has {len(pi)}")
    history = np.empty((num_steps + 1, len(p)))
    history[0] = pi
    for step in range(num_steps):
        history[step + 1] = history[step] @ p
    return history


def total_variation(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return ½ Σ |first − second| over the last axis: 0 when equal, 1 when disjoint."""
    distance: FloatArray = 0.5 * np.abs(first - second).sum(axis=-1)
    return distance


def convergence_rate(matrix: ArrayLike) -> float:
    """Return |λ|, the second largest eigenvalue of P in modulus; 1 means no convergence."""
    moduli = np.sort(np.abs(np.linalg.eigvals(_probabilities("matrix", matrix, 2))))
    return float(moduli[-2]) if len(moduli) > 1 else 0.0


def simulate(
    rng: np.random.Generator, matrix: ArrayLike, start: ArrayLike, num_draws: int
) -> NDArray[np.intp]:
    """Run many chains on P by inversion of each row's cumulative sum.

    Parameters
    ----------
    matrix : array, shape (n, n)
    start : array of state numbers, shape (chain,)
        Where each chain is before its first draw.
    num_draws : int

    Returns
    -------
    array of state numbers, shape (chain, draw)

    Raises
    ------
    ConfigError
        `matrix` is not a transition matrix, or a start is not one of its states.
    """
    cumulative = _probabilities("matrix", matrix, 2).cumsum(axis=1)
    state = numbers("start", start, ndim=1).astype(np.intp)
    if state.min() < 0 or state.max() >= len(cumulative):
        raise ConfigError(f"start must hold states from 0 to {len(cumulative) - 1}, was {start!r}")
    count("num_draws", num_draws)
    draws = np.empty((len(state), num_draws), dtype=np.intp)
    for draw in range(num_draws):
        u = rng.random((len(state), 1))
        # the last column is left out: rounding may keep it below u
        state = (u >= cumulative[state, :-1]).sum(axis=1)
        draws[:, draw] = state
    return draws
