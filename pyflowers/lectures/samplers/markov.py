"""Finite Markov chains: Metropolis on so few states that the transition matrix can be written down.

Let π be a distribution on n states, and q a proposal matrix, where q_ij is the probability of
proposing j from i. Metropolis–Hastings moves from i to j with probability ([1]_, section 2.2)

    P_ij = q_ij min(1, π_j q_ji / (π_i q_ij)),  i ≠ j,     P_ii = 1 − Σ_{j≠i} P_ij.

Then π_i P_ij = min(π_i q_ij, π_j q_ji) is symmetric, which is detailed balance and implies π P = π.
If every state can reach every other and the chain is not periodic, the distribution after t steps,
π₀ Pᵗ, converges to π from any start at the rate |λ|ᵗ, where λ is the eigenvalue of P with the
second-largest modulus:

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

from pyflowers.checked import whole_number
from pyflowers.errors import ConfigError
from pyflowers.lectures.samplers.kernels import FloatArray, numbers, positive


def _probabilities(name: str, value: ArrayLike, ndim: int) -> FloatArray:
    """Return `value` as floats; raise ConfigError unless it is a distribution.

    A matrix must be square, and each of its rows must be a distribution.
    """
    array = numbers(name, value, ndim)
    if ndim == 2 and array.shape[0] != array.shape[1]:
        raise ConfigError(f"{name} must be a square matrix, got shape {array.shape}")
    if (array < 0).any():
        raise ConfigError(f"{name} must hold probabilities, got {array.min()}")
    totals = np.atleast_1d(array.sum(axis=-1))
    wrong = np.flatnonzero(np.abs(totals - 1) > 1e-12)
    if wrong.size:
        rows, its = ("'s rows", f"row {wrong[0]} ") if ndim == 2 else ("", "")
        raise ConfigError(f"{name}{rows} must sum to 1, but {its}sums to {totals[wrong[0]]}")
    return array


def ring_walk(num_states: int) -> FloatArray:
    """Return the proposal matrix for steps to the left or right on a ring, each with probability ½.

    Parameters
    ----------
    num_states : int
        The number of states n, at least 3.

    Returns
    -------
    array, shape (n, n)
        q, which is symmetric; its rows sum to 1.

    Raises
    ------
    ConfigError
        If there are fewer than 3 states.

    Examples
    --------
    >>> from pyflowers.samplers import ring_walk
    >>> ring_walk(4)
    array([[0. , 0.5, 0. , 0.5],
           [0.5, 0. , 0.5, 0. ],
           [0. , 0.5, 0. , 0.5],
           [0.5, 0. , 0.5, 0. ]])
    """
    whole_number("num_states", num_states, at_least=3)
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
        If a weight is not positive, or the proposal is not a matrix of n distributions.

    Examples
    --------
    From state 0, whose weight is the smallest, every proposal is accepted:

    >>> from pyflowers.samplers import metropolis_matrix, ring_walk
    >>> metropolis_matrix([1, 2, 3], ring_walk(3)).round(2)
    array([[0.  , 0.5 , 0.5 ],
           [0.25, 0.25, 0.5 ],
           [0.17, 0.33, 0.5 ]])
    """
    pi, q = positive("weights", weights, ndim=1), _probabilities("proposal", proposal, 2)
    if len(q) != len(pi):
        raise ConfigError(
            "proposal and weights must have the same number of states, but have "
            f"{len(q)} and {len(pi)}"
        )
    # q_ij is moved inside min(1, …), because it may be 0 and must not be a divisor.
    matrix = np.minimum(q, q.T * (pi[None, :] / pi[:, None]))
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, 1 - matrix.sum(axis=1))
    return matrix


def detailed_balance_error(matrix: ArrayLike, distribution: ArrayLike) -> float:
    """Return max |π_i P_ij − π_j P_ji|, which is 0 for a reversible chain.

    Parameters
    ----------
    matrix : array, shape (n, n)
        P, whose rows sum to 1.
    distribution : array, shape (n,)
        The stationary distribution π.

    Returns
    -------
    float
        The largest difference between two opposite flows.

    Raises
    ------
    ConfigError
        If `matrix` is not a transition matrix.

    Examples
    --------
    A chain that goes round in only one direction is not reversible:

    >>> from pyflowers.samplers import detailed_balance_error
    >>> one_way = [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    >>> round(detailed_balance_error(one_way, [1 / 3, 1 / 3, 1 / 3]), 4)
    0.3333
    """
    flow = numbers("distribution", distribution, 1)[:, None] * _probabilities("matrix", matrix, 2)
    return float(np.abs(flow - flow.T).max())


def stationary_distribution(matrix: ArrayLike) -> FloatArray:
    """Return the distribution π that satisfies π P = π.

    Parameters
    ----------
    matrix : array, shape (n, n)
        P, whose rows sum to 1.

    Returns
    -------
    array, shape (n,)
        The stationary distribution π.

    Raises
    ------
    ConfigError
        If `matrix` is not a transition matrix, or it has more than one stationary distribution,
        because some states cannot reach each other.

    Examples
    --------
    >>> from pyflowers.samplers import stationary_distribution
    >>> stationary_distribution([[0.9, 0.1], [0.3, 0.7]]).round(2)
    array([0.75, 0.25])
    """
    p = _probabilities("matrix", matrix, 2)
    num_states = len(p)
    equations = np.vstack([p.T - np.eye(num_states), np.ones(num_states)])
    right_side = np.append(np.zeros(num_states), 1.0)
    pi, _, rank, _ = np.linalg.lstsq(equations, right_side, rcond=1e-12)
    if rank < num_states:
        raise ConfigError(
            "matrix must have only one stationary distribution, but it has more than one, because "
            "there is more than one closed set of states"
        )
    return np.asarray(pi, dtype=np.float64)


def distributions(matrix: ArrayLike, initial: ArrayLike, num_steps: int) -> FloatArray:
    """Return the distributions after 0, 1, …, num_steps steps.

    Parameters
    ----------
    matrix : array, shape (n, n)
        P, whose rows sum to 1.
    initial : array, shape (n,)
        The distribution of the first state.
    num_steps : int
        Number of steps, at least 0.

    Returns
    -------
    array, shape (num_steps + 1, n)
        One distribution in each row; the first is `initial`.

    Raises
    ------
    ConfigError
        If `matrix` is not a transition matrix, `initial` is not a distribution on its states, or
        `num_steps` is out of range.

    Examples
    --------
    >>> from pyflowers.samplers import distributions
    >>> distributions([[0.5, 0.5], [0.25, 0.75]], initial=[1, 0], num_steps=2)
    array([[1.   , 0.   ],
           [0.5  , 0.5  ],
           [0.375, 0.625]])
    """
    p, pi = _probabilities("matrix", matrix, 2), _probabilities("initial", initial, 1)
    whole_number("num_steps", num_steps, at_least=0)
    if len(pi) != len(p):
        raise ConfigError(
            "initial and matrix must have the same number of states, but have "
            f"{len(pi)} and {len(p)}"
        )
    history = np.empty((num_steps + 1, len(p)))
    history[0] = pi
    for step in range(num_steps):
        history[step + 1] = history[step] @ p
    return history


def total_variation(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return ½ Σ |first − second| over the last axis: 0 if they are equal, 1 if disjoint.

    Parameters
    ----------
    first, second : array, shape (…, n)
        Distributions on n states; the two arrays are broadcast.

    Returns
    -------
    array, shape (…)
        The total variation distance of each pair.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers.samplers import total_variation
    >>> float(total_variation(np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.5, 0.5])))
    0.5
    """
    distance: FloatArray = 0.5 * np.abs(first - second).sum(axis=-1)
    return distance


def convergence_rate(matrix: ArrayLike) -> float:
    """Return |λ|, the second largest modulus of P's eigenvalues; 1 means no convergence.

    Parameters
    ----------
    matrix : array, shape (n, n)
        P, whose rows sum to 1.

    Returns
    -------
    float
        |λ|; 0 if there is only one state.

    Raises
    ------
    ConfigError
        If `matrix` is not a transition matrix.

    Examples
    --------
    With two states, λ = 1 − P₀₁ − P₁₀:

    >>> from pyflowers.samplers import convergence_rate
    >>> round(convergence_rate([[0.9, 0.1], [0.3, 0.7]]), 12)
    0.6
    """
    moduli = np.sort(np.abs(np.linalg.eigvals(_probabilities("matrix", matrix, 2))))
    return float(moduli[-2]) if len(moduli) > 1 else 0.0


def simulate(
    rng: np.random.Generator, matrix: ArrayLike, start: ArrayLike, num_draws: int
) -> NDArray[np.intp]:
    """Simulate many chains with the transition matrix P, by inverting each row's cumulative sum.

    Parameters
    ----------
    rng : numpy.random.Generator
        The source of all random numbers.
    matrix : array, shape (n, n)
        P, whose rows sum to 1.
    start : array of state numbers, shape (chain,)
        The state of each chain before its first draw, from 0 to n − 1.
    num_draws : int
        Number of transitions of each chain.

    Returns
    -------
    array of state numbers, shape (chain, draw)
        The state after each transition.

    Raises
    ------
    ConfigError
        If `matrix` is not a transition matrix, a start is not one of its states, or `num_draws` is
        not positive.

    Examples
    --------
    The chains spend about ¾ of their time in state 0, as its stationary probability is ¾:

    >>> import numpy as np
    >>> from pyflowers.samplers import simulate
    >>> rng = np.random.default_rng(1)
    >>> states = simulate(rng, [[0.9, 0.1], [0.3, 0.7]], start=np.zeros(100, int), num_draws=1_000)
    >>> states.shape
    (100, 1000)
    >>> round(float((states == 0).mean()), 2)
    0.75
    """
    cumulative = _probabilities("matrix", matrix, 2).cumsum(axis=1)
    state = numbers("start", start, ndim=1).astype(np.intp)
    if state.min() < 0 or state.max() >= len(cumulative):
        raise ConfigError(f"start must hold states from 0 to {len(cumulative) - 1}, got {start!r}")
    whole_number("num_draws", num_draws)
    draws = np.empty((len(state), num_draws), dtype=np.intp)
    for draw in range(num_draws):
        u = rng.random((len(state), 1))
        # The last column is left out, because rounding may keep it below u.
        state = (u >= cumulative[state, :-1]).sum(axis=1)
        draws[:, draw] = state
    return draws
