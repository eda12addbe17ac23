"""Stan's approximations of a posterior: ADVI, Laplace and Pathfinder.

| method | approximation that Stan fits on the unconstrained scale |
|---|---|
| ``advi_meanfield`` | a normal with diagonal covariance, by stochastic ascent of the ELBO [1]_ |
| ``advi_fullrank`` | a normal with full covariance, by the same method [1]_ |
| ``laplace`` | a normal at the posterior's mode, with the curvature there, Jacobian included [2]_ |
| ``pathfinder`` | normals along several L-BFGS paths to the mode, importance-resampled [3]_ |

Each approximation is judged by the Pareto k-hat of its importance ratios p/q: below 0.5 the
approximation can be trusted, up to 0.7 importance sampling can correct it, and above 0.7 it is too
far from the posterior [4]_, [5]_.

References
----------
.. [1] Kucukelbir, Tran, Ranganath, Gelman and Blei (2017), Automatic differentiation variational
   inference, JMLR 18(14).
.. [2] Gelman et al., Bayesian Data Analysis, 3rd ed., sections 4.1 and 13.3.
.. [3] Zhang, Carpenter, Gelman and Vehtari (2022), Pathfinder, JMLR 23(306).
.. [4] Yao, Vehtari, Simpson and Gelman (2018), Yes, but did it work?, ICML.
.. [5] Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR
   25(72).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.convergence import pareto_smooth
from pyflowers.display import INTERVAL, Line, Shown, draws_table, format_number, heading
from pyflowers.engines.cmdstan import consoles, running
from pyflowers.errors import ConfigError, FitError
from pyflowers.toolchain import Executable
from pyflowers.toolchain.processes import interruptible

K_HAT_GOOD = 0.5
K_HAT_USABLE = 0.7

NUM_DRAWS = 4000


@dataclass(frozen=True, eq=False, repr=False)
class Approximation(Shown):
    """Draws from an approximate posterior, and measures of how good it is.

    Attributes
    ----------
    method : str
        One of :data:`METHODS`.
    draws : mapping
        Draws of each variable of the program, shaped (1, draw, …): one chain for ArviZ.
    log_p, log_q : array, shape (draw,)
        Log density of the posterior and of the approximation, each up to a constant, at the
        approximation's draws (for Pathfinder, at the draws before resampling).
    k_hat : float
        Shape of the Pareto distribution fitted to the largest ratios p/q.
    elbo : float
        The last ELBO that ADVI reported; NaN for the other methods.
    wall_time : float
        Elapsed time in seconds.
    warnings : tuple of str
        Stan's warnings, and a warning if k-hat is too large.
    """

    method: str
    draws: Mapping[str, NDArray[np.float64]]
    log_p: NDArray[np.float64]
    log_q: NDArray[np.float64]
    k_hat: float
    elbo: float
    wall_time: float
    warnings: tuple[str, ...]

    def table(self, interval: float = INTERVAL) -> pd.DataFrame:
        """Return the median and a central interval of each element."""
        return draws_table(self.draws, 2, interval)

    def contents(self) -> list[Line]:
        """Return the table, k-hat, and the warnings."""
        return [
            heading(self.method, "approximate draws"),
            self.table(),
            *(f"note: {warning}" for warning in self.warnings),
            f"k-hat: {format_number(self.k_hat)}, {self.k_hat_verdict}",
        ]

    @property
    def k_hat_verdict(self) -> str:
        """The quality judged by k-hat: ``good``, ``usable`` for importance sampling, or ``bad``."""
        return k_hat_verdict(self.k_hat)


def k_hat_verdict(k_hat: float) -> str:
    """Judge a Pareto k-hat by the thresholds of Yao et al. (2018); NaN means equal weights."""
    if np.isnan(k_hat) or k_hat < K_HAT_GOOD:
        return "good"
    if k_hat < K_HAT_USABLE:
        return "usable"
    return "bad"


def approximate(
    executable: Executable,
    data: Mapping[str, Any],
    method: str,
    *,
    seed: int,
    num_draws: int = NUM_DRAWS,
) -> Approximation:
    """Approximate the posterior of a compiled program with one of Stan's own methods.

    Parameters
    ----------
    executable : Executable
        The compiled program, as :func:`pyflowers.toolchain.compile_program` returns it.
    data : mapping of str to array or number
        The program's data block.
    method : str
        ``advi_meanfield``, ``advi_fullrank``, ``laplace`` or ``pathfinder``.
    seed : int
        Seed of Stan's random numbers, 0 to 2³² − 1.
    num_draws : int
        Number of draws to return.

    Returns
    -------
    Approximation
        The draws, and the Pareto k-hat of their importance ratios, which shows whether they can be
        trusted.

    Raises
    ------
    ConfigError
        If there is no such method.
    FitError
        If Stan stops; the message is Stan's.

    See Also
    --------
    pyflowers.compare : Compare such approximations with NUTS and with closed forms.

    Examples
    --------
    >>> import pyflowers
    >>> from pyflowers.toolchain import compile_program
    >>> fit = pyflowers.fit("iid_normal", seed=1, engine="exact")
    >>> executable = compile_program(fit.program.path)
    >>> data = fit.program.stan_values(fit.data)
    >>> found = pyflowers.approximate(executable, data, "advi_meanfield", seed=1)
    >>> found.draws["mu"].shape
    (1, 4000)
    >>> found.k_hat_verdict
    'good'
    """
    if not isinstance(method, str) or method not in METHODS:
        raise ConfigError(f"no approximation is called {method!r}; choose one of {list(METHODS)}")
    with running(executable, data, f"{method}: ") as (model, given, folder):
        options = {**given, "seed": seed}
        started = time.perf_counter()
        draws, log_p, log_q = interruptible(lambda: METHODS[method](model, options, num_draws))
        wall_time = time.perf_counter() - started
        console = "\n".join(consoles(folder))
    k_hat = pareto_k_hat(log_p - log_q)
    if method.startswith("advi"):
        elbo = _last_elbo(console)
    else:
        elbo = float("nan")
    if method == "pathfinder":
        draws = _resampled(draws, log_p - log_q, num_draws, seed)
    # Stan's own warnings; duplicates are removed below.
    complaints = re.findall(
        r"^.*(?:warning|not converge|maximum number of iterations).*$",
        console,
        re.MULTILINE | re.IGNORECASE,
    )
    if k_hat_verdict(k_hat) == "bad":
        complaints.append(
            f"k-hat is {k_hat:.2f}, above {K_HAT_USABLE}: the draws do not represent the "
            "posterior; use NUTS instead"
        )
    return Approximation(
        method,
        {name: values[None] for name, values in draws.items()},
        *(log_p, log_q, k_hat, elbo, wall_time),
        tuple(dict.fromkeys(line.strip() for line in complaints)),
    )


_Raw = tuple[dict[str, NDArray[np.float64]], NDArray[np.float64], NDArray[np.float64]]


def _advi(model: Any, options: dict[str, Any], num_draws: int, algorithm: str) -> _Raw:
    done = model.variational(
        algorithm=algorithm, draws=num_draws, require_converged=False, **options
    )
    # CmdStan writes the mean of q first; CmdStanPy's sample starts after it.
    return _split(done, done.variational_sample, "log_p__", "log_g__")


def _laplace(model: Any, options: dict[str, Any], num_draws: int) -> _Raw:
    done = model.laplace_sample(draws=num_draws, jacobian=True, **options)
    return _split(done, done.draws(), "log_p__", "log_q__")


def _pathfinder(model: Any, options: dict[str, Any], num_draws: int) -> _Raw:
    """Run Pathfinder without resampling, so that the ratios of all paths can be judged."""
    done = model.pathfinder(
        num_paths=4, num_single_draws=num_draws // 4, psis_resample=False, **options
    )
    return _split(done, done.draws(), "lp__", "lp_approx__")


METHODS: dict[str, Callable[[Any, dict[str, Any], int], _Raw]] = {
    "advi_meanfield": partial(_advi, algorithm="meanfield"),
    "advi_fullrank": partial(_advi, algorithm="fullrank"),
    "laplace": _laplace,
    "pathfinder": _pathfinder,
}
"""The approximations by name."""


def _split(done: Any, table: Any, log_p: str, log_q: str) -> _Raw:
    """Split CmdStan's columns into variables and the two log densities."""
    array = np.asarray(table, dtype=np.float64)
    if not array.size:  # Stan may stop without a message if the mode is at a boundary
        raise FitError(
            "Stan returned no draws, perhaps because the mode is at a boundary; use NUTS instead"
        )
    columns = list(done.column_names)
    variables = {
        name: np.asarray(variable.extract_reshape(array))
        for name, variable in done.metadata.stan_vars.items()
    }
    return variables, array[:, columns.index(log_p)], array[:, columns.index(log_q)]


def pareto_k_hat(log_ratios: NDArray[np.float64]) -> float:
    """Return k-hat of importance ratios; infinite if a log ratio is not finite."""
    if not np.isfinite(log_ratios).all():
        return float("inf")
    return float(pareto_smooth(log_ratios)[1])


def _resampled(
    draws: Mapping[str, NDArray[np.float64]],
    log_ratios: NDArray[np.float64],
    num_draws: int,
    seed: int,
) -> dict[str, NDArray[np.float64]]:
    """Resample with replacement, weighted by smoothed ratios (algorithm 2 of Zhang et al. 2022)."""
    finite = np.isfinite(log_ratios)
    if not finite.any():
        raise FitError("pathfinder: the log density is not finite at any draw; use NUTS")
    weights = np.exp(pareto_smooth(log_ratios[finite])[0])
    rng = np.random.default_rng(seed)
    chosen = rng.choice(np.flatnonzero(finite), num_draws, p=weights / weights.sum())
    return {name: values[chosen] for name, values in draws.items()}


def _last_elbo(console: str) -> float:
    """Return the ELBO in the last row of ADVI's table of iterations."""
    rows = re.findall(r"^ +\d+ +(-?[\d.]+(?:e[+-]?\d+)?) +[\d.]+ +[\d.]+", console, re.MULTILINE)
    if rows:
        return float(rows[-1])
    return float("nan")
