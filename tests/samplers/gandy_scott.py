"""Is a kernel's stationary distribution its target? The sequential two-sample test.

Start chains from exact draws of the target and make some transitions: if the kernel leaves the
target unchanged, the ends are exact draws too, and no test tells them from fresh ones. The p-values
of several statistics are combined by Bonferroni, and a doubtful result asks for more draws, so that
the false-alarm rate is at most `false_alarm_rate` and the power high.

References
----------
.. [1] Gandy & Scott (2020), Unit testing for MCMC and other Monte Carlo methods, arXiv:2001.06465,
   algorithms 1 (two samples) and 3 (sequential).
"""

from typing import Any

import numpy as np
from scipy.stats import ks_2samp

from pyflowers.samplers import ExactTarget, Kernel
from pyflowers.samplers.densities import FloatArray

#: At most so many exactness tests run in this folder, and together they raise a false alarm
#: once in 100,000 runs with fresh seeds.
MAX_TESTS = 50
FALSE_ALARM_RATE = 1e-5 / MAX_TESTS


def statistics(target: ExactTarget, x: FloatArray) -> FloatArray:
    """Return what is compared, shape (num, d): x, log π(x), and how coordinates go together."""
    centred = (x - target.mean) / np.sqrt(target.variance)
    together = centred[:, :-1] * centred[:, 1:]
    with np.errstate(over="ignore", invalid="ignore"):
        return np.column_stack([x, together, target.log_density(x)])


def two_sample_p_values(
    kernel: Kernel[Any],
    target: ExactTarget,
    rng: np.random.Generator,
    num_chains: int,
    num_steps: int,
) -> FloatArray:
    """Return a Kolmogorov–Smirnov p-value for each statistic: algorithm 1."""
    state = kernel.init(target.sample(rng, num_chains))
    for _ in range(num_steps):
        state, _ = kernel(rng, state)
    moved = statistics(target, state.position)
    fresh = statistics(target, target.sample(rng, num_chains))
    if not np.all(np.isfinite(moved)):
        return np.zeros(1)
    pairs = zip(moved.T, fresh.T, strict=True)
    return np.array([ks_2samp(one, other, method="asymp").pvalue for one, other in pairs])


def is_exact(
    kernel: Kernel[Any],
    target: ExactTarget,
    *,
    seed: int = 20_250_101,
    false_alarm_rate: float = FALSE_ALARM_RATE,
    num_chains: int = 10_000,
    num_steps: int = 20,
    num_looks: int = 3,
    growth: int = 10,
) -> bool:
    """Tell whether the kernel passes: algorithm 3, with looks at more and more draws.

    With β = α/k and γ = β^(1/k): at each look, fail if the Bonferroni p-value is at most β, pass if
    it is above β + γ, else look again at fresh draws, with β/γ for β.
    """
    rng = np.random.default_rng(seed)
    beta = false_alarm_rate / num_looks
    gamma = beta ** (1 / num_looks)
    for look in range(num_looks):
        p_values = two_sample_p_values(kernel, target, rng, num_chains, num_steps)
        smallest = len(p_values) * p_values.min()
        if smallest <= beta:
            return False
        if smallest > beta + gamma:
            return True
        beta /= gamma
        if look == 0:
            num_chains *= growth
    return True
