"""The lectures' examples: each a documented function with a figure.

>>> from pyflowers.lectures import Settings, run_example
>>> lecture = run_example("leapfrog", Settings(seed=1))
>>> folder = lecture.save("leapfrog")
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

from pyflowers.errors import ConfigError
from pyflowers.lectures.lecture import Lecture, Settings

__all__ = ["EXAMPLES", "Example", "Lecture", "Settings", "check_name", "run_example"]


class Example(NamedTuple):
    """An example by its name: what it shows, and the function that runs it."""

    summary: str
    module: str
    function: str


EXAMPLES = {
    "metropolis-bimodal": Example(
        "Metropolis on two modes: acceptance, ESS and mixing by the proposal's scale",
        *("metropolis_bimodal", "metropolis_bimodal"),
    ),
    "hmc-bimodal": Example(
        "Metropolis, HMC and Stan's NUTS on two modes: ESS per gradient and per second",
        *("hmc_bimodal", "hmc_bimodal"),
    ),
    "leapfrog": Example(
        "Euler, modified Euler and leapfrog: energy error, order, reversibility",
        *("leapfrog", "leapfrog_example"),
    ),
    "regression": Example(
        "A straight line: Metropolis, SGLD and NUTS against the exact t posterior",
        *("regression", "regression"),
    ),
    "gaussian-mixture": Example(
        "Three components: NUTS, ADVI, and label switching detected",
        *("gaussian_mixture", "gaussian_mixture"),
    ),
    "neural-network": Example(
        "Bayesian neural networks: NUTS, ADVI and HMC, judged on the predictive function",
        *("neural_network", "neural_network"),
    ),
    "markov-chain": Example(
        "Metropolis on ten states: its matrix, detailed balance and limit",
        *("markov_chain", "markov_chain"),
    ),
    "flowers-by-hand": Example(
        "Metropolis, HMC and NUTS on the flowers' multilevel Poisson posterior",
        *("flowers_by_hand", "flowers_by_hand"),
    ),
}
"""The examples in the lectures' order."""


def run_example(name: str, settings: Settings | None = None) -> Lecture:
    """Run an example.

    Parameters
    ----------
    name : str
        One of :data:`EXAMPLES`.
    settings : Settings, optional

    Raises
    ------
    ConfigError
        If no example has that name.
    PyflowersError
        If Stan, which most examples set beside, cannot be run.
    """
    check_name(name)
    example = EXAMPLES[name]
    function = getattr(import_module(f"pyflowers.lectures.{example.module}"), example.function)
    lecture: Lecture = function(Settings() if settings is None else settings)
    return lecture


def check_name(name: str) -> None:
    """Raise ConfigError unless an example has that name."""
    if name not in EXAMPLES:
        raise ConfigError(f"no lecture is named {name!r}: choose one of {', '.join(EXAMPLES)}")
