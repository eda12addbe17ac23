"""The lectures' examples: each a documented function with a figure.

>>> from pyflowers.lectures import Settings, run_example
>>> lecture = run_example("leapfrog", Settings(seed=1))
>>> folder = lecture.save("leapfrog")
"""

from __future__ import annotations

from importlib import import_module

from pyflowers.errors import ConfigError
from pyflowers.lectures.lecture import Lecture, Settings

__all__ = ["EXAMPLES", "Lecture", "Settings", "check_name", "run_example"]

EXAMPLES = {
    "metropolis-bimodal": (
        "Metropolis on two modes: acceptance, ESS and mixing by the proposal's scale"
    ),
    "hmc-bimodal": "Metropolis, HMC and Stan's NUTS on two modes: ESS per gradient and per second",
    "leapfrog": "Euler, modified Euler and leapfrog: energy error, order, reversibility",
    "regression": "A straight line: Metropolis, SGLD and NUTS against the exact t posterior",
    "gaussian-mixture": "Three components: NUTS, ADVI, and label switching detected",
    "neural-network": (
        "Bayesian neural networks: NUTS, ADVI and HMC, judged on the predictive function"
    ),
    "markov-chain": "Metropolis on ten states: its matrix, detailed balance and limit",
    "flowers-by-hand": "Metropolis, HMC and NUTS on the flowers' multilevel Poisson posterior",
}
"""What each example shows, in the lectures' order.

An example ``a-b`` is the function ``a_b`` of the module ``pyflowers.lectures.a_b``.
"""


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
    function = name.replace("-", "_")
    example = getattr(import_module(f"pyflowers.lectures.{function}"), function)
    lecture: Lecture = example(Settings() if settings is None else settings)
    return lecture


def check_name(name: str) -> None:
    """Raise ConfigError unless an example has that name."""
    if name not in EXAMPLES:
        raise ConfigError(f"no lecture is named {name!r}: choose one of {', '.join(EXAMPLES)}")
