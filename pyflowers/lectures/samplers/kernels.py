"""Parts shared by all samplers: the interface of a target, the accept step, and :func:`run`.

A target computes log π(x) up to a constant, and some targets also compute ∇ log π(x). The first
axis of every array indexes the chains, so that one call moves all chains: x is shaped (chain, dim),
and log π(x) is shaped (chain,). A kernel is a Markov transition of all chains, written as a
function that changes nothing but the random number generator,

    state, info = kernel(rng, state),

where the state holds the positions of the chains and the info describes the transition.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyflowers.checked import whole_number
from pyflowers.errors import ConfigError

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class LogDensity(Protocol):
    """A target for Metropolis and Metropolis–Hastings."""

    def log_density(self, x: FloatArray, /) -> FloatArray:
        """Return log π(x) up to a constant, or −inf outside the support.

        Parameters
        ----------
        x : array, shape (chain, dim)
            Positions of the chains.

        Returns
        -------
        array, shape (chain,)
            The log density at each position.
        """


class GradLogDensity(LogDensity, Protocol):
    """A target for Hamiltonian Monte Carlo and Langevin samplers."""

    def log_density_gradient(self, x: FloatArray, /) -> tuple[FloatArray, FloatArray]:
        """Return log π(x) and ∇ log π(x), which share most of the computation.

        Parameters
        ----------
        x : array, shape (chain, dim)
            Positions of the chains.

        Returns
        -------
        log_density : array, shape (chain,)
            The log density at each position, up to a constant.
        gradient : array, shape (chain, dim)
            The gradient at each position.
        """


class Kernel(Protocol):
    """A sampler for :func:`run`.

    A state has the attribute `position`, shaped (chain, dim). The info is a NamedTuple of arrays,
    each shaped (chain,).
    """

    def init(self, position: ArrayLike) -> Any:
        """Return the state of chains that start at `position`.

        Parameters
        ----------
        position : array, shape (chain, dim)
            Starting positions of the chains.

        Returns
        -------
        state
            The kernel's first state.
        """

    def __call__(self, rng: np.random.Generator, state: Any) -> tuple[Any, Any]:
        """Make one transition in every chain, and return the next state and the info."""


@dataclass(frozen=True, eq=False)
class Run:
    """The draws and statistics of a run.

    Attributes
    ----------
    draws : array, shape (chain, draw, dim)
        The positions after the warm-up.
    sample_stats : dict of arrays, shape (chain, draw)
        The kernel's info for each draw, under ArviZ's names: `lp`, `acceptance_rate`, …
    state : state of the kernel
        The last state; another run can start from its `position`.

    See Also
    --------
    pyflowers.samplers.run : Run chains.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers.samplers import GaussianStep, Metropolis, StandardNormal, run
    >>> sampler = Metropolis(StandardNormal(dim=2), GaussianStep(1.0))
    >>> rng = np.random.default_rng(1)
    >>> first = run(sampler, rng, np.zeros((4, 2)), num_draws=500)
    >>> sorted(first.sample_stats)
    ['acceptance_rate', 'accepted', 'lp']
    >>> second = run(sampler, rng, first.state.position, num_draws=500)
    >>> np.concatenate([first.draws, second.draws], axis=1).shape
    (4, 1000, 2)
    """

    draws: FloatArray
    sample_stats: dict[str, NDArray[Any]]
    state: Any


def run(
    kernel: Kernel,
    rng: np.random.Generator,
    position: ArrayLike,
    num_draws: int,
    num_warmup: int = 0,
) -> Run:
    """Run chains from `position` and keep every draw after the warm-up.

    Parameters
    ----------
    kernel : Kernel
        :class:`~pyflowers.samplers.Metropolis`, :class:`~pyflowers.samplers.HMC`, ….
    rng : numpy.random.Generator
        The source of all random numbers.
    position : array, shape (chain, dim)
        Starting positions of the chains; they are not among the draws.
    num_draws : int
        Number of transitions to keep, at least 1.
    num_warmup : int
        Number of transitions to discard first. Nothing adapts during the warm-up.

    Returns
    -------
    Run
        The draws, the statistics of each transition, and the last state.

    Raises
    ------
    ConfigError
        If the kernel's target cannot start at these positions, a number is out of range, or `rng`
        is not a generator.

    See Also
    --------
    pyflowers.convergence.statistics : Summarise the draws, with R-hat and effective sample sizes.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers.samplers import HMC, StandardNormal, run
    >>> hmc = HMC(StandardNormal(), step_size=0.5, num_steps=4)
    >>> result = run(hmc, np.random.default_rng(1), np.zeros((4, 1)), num_draws=1_000)
    >>> result.draws.shape
    (4, 1000, 1)
    >>> round(float(result.draws.std()), 1)
    1.0
    """
    if not isinstance(rng, np.random.Generator):
        raise ConfigError(
            f"rng must be a random generator, such as np.random.default_rng(1), got {rng!r}"
        )
    whole_number("num_draws", num_draws)
    whole_number("num_warmup", num_warmup, at_least=0)
    state = kernel.init(position)
    for _ in range(num_warmup):
        state, _ = kernel(rng, state)
    # While the chains run, the first axis indexes the draws, so that each draw is contiguous in
    # memory. In the result, the first axis indexes the chains.
    draws = np.empty((num_draws, *state.position.shape))
    infos = []
    for draw in range(num_draws):
        state, info = kernel(rng, state)
        draws[draw] = state.position
        infos.append(info._asdict())
    stats = {name: np.array([info[name] for info in infos]).T for name in infos[0]}
    return Run(draws.swapaxes(0, 1), stats, state)


def accept(rng: np.random.Generator, log_ratio: FloatArray) -> tuple[BoolArray, FloatArray]:
    """Decide, for each chain, whether to accept with probability min(1, exp(log_ratio)).

    A chain accepts if log u < log_ratio with u ~ U(0, 1). −log u is drawn as a standard
    exponential, so that log 0 cannot occur. If the ratio is not a number (π could not be computed
    at the proposal), the chain rejects the proposal.

    Parameters
    ----------
    rng : numpy.random.Generator
        The source of u.
    log_ratio : array, shape (chain,)
        Logarithm of the acceptance ratio.

    Returns
    -------
    accepted : array of bool, shape (chain,)
        Whether each chain accepts.
    acceptance_rate : array, shape (chain,)
        min(1, exp(log_ratio)); 0 if the ratio is not a number.
    """
    log_uniform = -rng.standard_exponential(log_ratio.shape)
    acceptance_rate = np.exp(np.minimum(log_ratio, 0.0))
    return log_uniform < log_ratio, np.nan_to_num(acceptance_rate)


def choose(
    accepted: BoolArray, proposed: Iterable[FloatArray], current: Iterable[FloatArray]
) -> list[FloatArray]:
    """Return the values in `proposed` for chains that accept, and in `current` for the others."""
    return [
        np.where(accepted[:, None] if new.ndim == 2 else accepted, new, old)
        for new, old in zip(proposed, current, strict=True)
    ]


def numbers(name: str, value: ArrayLike, ndim: int | None = None) -> FloatArray:
    """Return a copy of `value` as finite floats, or raise ConfigError."""
    kinds = ("a number", "a vector", "a matrix")
    kind = "a number or an array of numbers" if ndim is None else kinds[ndim]
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ConfigError(f"{name} must be {kind}, got {value!r}") from error
    if array.dtype.kind not in "biuf":
        raise ConfigError(f"{name} must be {kind}, got {value!r}")
    if array.size == 0:
        raise ConfigError(f"{name} must not be empty")
    if not np.isfinite(array).all():
        raise ConfigError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
    if ndim is not None and array.ndim != ndim:
        raise ConfigError(f"{name} must be {kind}, got an array of shape {array.shape}")
    return array.astype(np.float64)


def positive(name: str, value: ArrayLike, ndim: int | None = None) -> FloatArray:
    """Return a copy of `value` as positive, finite floats, or raise ConfigError."""
    array = numbers(name, value, ndim)
    if not (array > 0).all():
        raise ConfigError(f"{name} must be positive, got {array.min()}")
    return array


def check_size(name: str, array: FloatArray, position: FloatArray) -> None:
    """Raise ConfigError if an array has a different number of coordinates than a position."""
    if array.ndim and len(array) != position.shape[1]:
        raise ConfigError(
            f"{name} must have as many coordinates as the position ({position.shape[1]}), "
            f"got {len(array)}"
        )


def start_position(target: object, position: ArrayLike) -> FloatArray:
    """Return a copy of the starting positions, shaped (chain, dim), or raise ConfigError.

    If the target has the attribute `dim`, the number of coordinates must equal `dim`, because NumPy
    would otherwise broadcast.
    """
    x = numbers("position", position)
    if x.ndim != 2:
        raise ConfigError(
            f"position must be shaped (chain, dim), got shape {x.shape}; "
            "give a single chain as one row"
        )
    dim = getattr(target, "dim", x.shape[1])
    if x.shape[1] != dim:
        raise ConfigError(
            f"position must have as many coordinates as the target ({dim}), got {x.shape[1]}"
        )
    return x


def start(target: Any, position: ArrayLike, gradient: bool = False) -> tuple[FloatArray, ...]:
    """Return starting positions with log π and, on request, ∇ log π, or raise ConfigError.

    See :class:`LogDensity` and :class:`GradLogDensity` for the methods that the target needs.
    """
    x = start_position(target, position)
    values: tuple[FloatArray, ...] = (
        target.log_density_gradient(x) if gradient else (target.log_density(x),)
    )
    if gradient and np.shape(values[1]) != x.shape:
        raise ConfigError(
            f"log_density_gradient must return a gradient of shape {x.shape}, "
            f"but returned shape {np.shape(values[1])}"
        )
    log_density = values[0]
    if np.shape(log_density) != (len(x),):
        raise ConfigError(
            f"log_density must return an array of shape ({len(x)},), one value for each chain, "
            f"but returned shape {np.shape(log_density)}"
        )
    unusable = np.flatnonzero(~np.isfinite(log_density))
    if unusable.size:
        raise ConfigError(
            f"chain {unusable[0]} starts where the log density is {log_density[unusable[0]]}; "
            "start the chain where the log density is finite"
        )
    return x, *values
