"""Run a kernel: from where the chains start to draws shaped (chain, draw, dim).

A kernel is a Markov transition written as a pure function,

    state, info = kernel(rng, state),

which moves all chains at once: the state says where they are, the info what happened.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyflowers.errors import ConfigError
from pyflowers.samplers import _checks
from pyflowers.samplers.densities import FloatArray


class State(Protocol):
    """What every state has: where the chains are, shape (chain, dim)."""

    @property
    def position(self) -> FloatArray:
        """Where the chains are, shape (chain, dim)."""
        ...


class Info(Protocol):
    """What every info is: a NamedTuple of arrays shaped (chain,)."""

    def _asdict(self) -> dict[str, Any]: ...


S = TypeVar("S", bound=State)
S_co = TypeVar("S_co", bound=State, covariant=True)


class Kernel(Protocol[S]):
    """A sampler, as :func:`run` takes it."""

    def init(self, position: ArrayLike) -> S:
        """Return the state of chains that start at `position`, shape (chain, dim)."""
        ...

    def __call__(self, rng: np.random.Generator, state: S) -> tuple[S, Info]:
        """Make one transition of every chain."""
        ...


@dataclass(frozen=True, eq=False)
class Run(Generic[S_co]):
    """What a sampler did.

    Attributes
    ----------
    draws : array, shape (chain, draw, dim)
    sample_stats : dict of arrays, shape (chain, draw)
        The kernel's info under ArviZ's names: `lp`, `acceptance_rate`, `step_size`, ….
    state : the last state, from which another run could go on
    """

    draws: FloatArray
    sample_stats: dict[str, NDArray[Any]]
    state: S_co

    def posterior(self, names: Sequence[str] | None = None) -> dict[str, FloatArray]:
        """Return the draws as `arviz.from_dict(posterior=…)` takes them.

        Parameters
        ----------
        names : one name for each coordinate
            None gives one variable `x`, shape (chain, draw, dim).

        Returns
        -------
        dict of arrays, shape (chain, draw)

        Raises
        ------
        ConfigError
            There are more or fewer names than coordinates, or two are equal.
        """
        if names is None:
            return {"x": self.draws}
        dim = self.draws.shape[-1]
        if len(names) != dim or len(set(names)) != dim:
            raise ConfigError(f"names must be {dim} different names, was {list(names)}")
        return {name: self.draws[..., index] for index, name in enumerate(names)}


def run(
    kernel: Kernel[S],
    rng: np.random.Generator,
    position: ArrayLike,
    num_draws: int,
    num_warmup: int = 0,
) -> Run[S]:
    """Run chains from `position` and keep every draw after the warm-up.

    Parameters
    ----------
    kernel : Kernel
        :class:`~pyflowers.samplers.Metropolis`, :class:`~pyflowers.samplers.HMC`, ….
    rng : numpy.random.Generator
    position : array, shape (chain, dim)
        Where the chains start; it is not among the draws.
    num_draws, num_warmup : int
        Transitions to keep, and transitions to throw away before them. Nothing adapts.

    Returns
    -------
    Run

    Raises
    ------
    ConfigError
        The start does not suit the kernel's target, or a number is out of range.
    """
    _checks.count("num_draws", num_draws)
    state = kernel.init(position)
    for _ in range(_checks.count("num_warmup", num_warmup, at_least=0)):
        state, _ = kernel(rng, state)
    # Draws are stored draw by draw, each one contiguous, and handed out chain by chain.
    draws = np.empty((num_draws, *state.position.shape))
    sample_stats: dict[str, NDArray[Any]] = {}
    for draw in range(num_draws):
        state, info = kernel(rng, state)
        draws[draw] = state.position
        for name, values in info._asdict().items():
            if draw == 0:
                sample_stats[name] = np.empty((num_draws, len(values)), dtype=values.dtype)
            sample_stats[name][draw] = values
    by_chain = {name: values.T for name, values in sample_stats.items()}
    return Run(draws.swapaxes(0, 1), by_chain, state)
