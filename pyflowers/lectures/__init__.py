"""The lectures' examples: each is a function that returns findings, tables and figures.

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
        "Metropolis on two modes: acceptance, ESS and mixing by scale of the proposal"
    ),
    "hmc-bimodal": (
        "Metropolis, HMC and Stan's NUTS on two modes: ESS per evaluation and per second"
    ),
    "leapfrog": "Euler, modified Euler and leapfrog: energy error, order, reversibility",
    "regression": "A straight line: Metropolis, SGLD and NUTS against the exact t posterior",
    "gaussian-mixture": "Three components: NUTS, ADVI, and detection of label switching",
    "neural-network": (
        "Bayesian neural networks: NUTS, ADVI and HMC, judged by the predictive function"
    ),
    "markov-chain": "Metropolis on ten states: its matrix, detailed balance and limit",
    "flowers-by-hand": "Metropolis, HMC and NUTS on the flowers' multilevel Poisson posterior",
}
"""The subject of each example, in the order of the lectures.

An example ``a-b`` is the function ``a_b`` of the module ``pyflowers.lectures.a_b``.
"""


def run_example(name: str, settings: Settings | None = None) -> Lecture:
    """Run an example.

    Parameters
    ----------
    name : str
        A key of :data:`EXAMPLES`, such as ``leapfrog``.
    settings : Settings, optional
        Seed and size of the example. Default: ``Settings()``.

    Returns
    -------
    Lecture
        The findings, tables and figures.

    Raises
    ------
    ConfigError
        If no example has that name.
    PyflowersError
        If the example uses Stan, as most examples do, and Stan cannot be run.

    Examples
    --------
    >>> from pyflowers.lectures import Settings, run_example
    >>> lecture = run_example("markov-chain", Settings(seed=1, quick=True))
    >>> lecture.title
    'A finite Markov chain and its limit'
    >>> list(lecture.figures)
    ['matrix', 'convergence', 'distributions']
    >>> lecture.figures["convergence"].savefig("convergence.png")
    """
    check_name(name)
    function = name.replace("-", "_")
    example = getattr(import_module(f"pyflowers.lectures.{function}"), function)
    lecture: Lecture = example(Settings() if settings is None else settings)
    return lecture


def check_name(name: str) -> None:
    """Check that `name` is the name of an example.

    Parameters
    ----------
    name : str
        The name.

    Raises
    ------
    ConfigError
        If no example has that name.

    Examples
    --------
    >>> from pyflowers.lectures import check_name
    >>> check_name("leapfrog")
    >>> check_name("frog")
    Traceback (most recent call last):
    ...
    pyflowers.errors.ConfigError: no lecture is named 'frog'; choose one of metropolis-bimodal, ...
    """
    if name not in EXAMPLES:
        raise ConfigError(f"no lecture is named {name!r}; choose one of {', '.join(EXAMPLES)}")
