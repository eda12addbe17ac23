"""PyMC's own NUTS. With ``--option nutpie``, nutpie's NUTS on the same model, compiled by Numba.

``nutpie-totals`` gives it the totals of the plants instead of the observations.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pymc as pm

from benchmarks.peers.runners.common import (
    PRIORS,
    SIGMA2_RATE,
    SIGMA2_SHAPE,
    Job,
    Posterior,
    Sampler,
    command_line,
    plant_totals,
    race,
)


def model(job: Job, *, by_totals: bool = False) -> pm.Model:
    """Return the model with centred log rates, as most users of PyMC would first write it."""
    with pm.Model() as built:
        mu = pm.Normal("mu", PRIORS["mu_mean"], PRIORS["mu_sd"])
        sigma2 = pm.InverseGamma("sigma2", SIGMA2_SHAPE, SIGMA2_RATE)
        log_rate = pm.Normal("log_mu_plant", mu, pm.math.sqrt(sigma2), shape=job.num_plants)
        rate = pm.math.exp(log_rate)
        if by_totals:
            months, total = plant_totals(job)
            pm.Poisson("y", months * rate, observed=total)
        else:
            pm.Poisson("y", rate[job.plant], observed=job.y)
    return built


def prepare(job: Job) -> Sampler:
    """Return PyMC's sampler; it compiles the model in each call, or loads it from its cache."""
    built = model(job)

    def sample(seed: int) -> Any:
        # PyMC's convergence checks are left out, because no other method runs such checks here.
        return pm.sample(model=built, compute_convergence_checks=False, **job.of_pymc(seed))

    return sample


def prepare_nutpie(job: Job, *, by_totals: bool = False) -> Sampler:
    """Return nutpie's sampler, which compiles once."""
    import nutpie

    compiled = nutpie.compile_pymc_model(model(job, by_totals=by_totals))

    def sample(seed: int) -> Any:
        return nutpie.sample(
            compiled,
            draws=job.draws,
            tune=job.warmup,
            chains=job.chains,
            cores=job.cores,
            seed=seed,
            save_warmup=False,
            progress_bar=False,
        )

    return sample


def posterior(drawn: Any) -> Posterior:
    """Read arviz.InferenceData."""
    found = drawn.posterior
    return Posterior(
        mu=found["mu"].to_numpy(),
        sigma2=found["sigma2"].to_numpy(),
        mu_plant=np.exp(found["log_mu_plant"].to_numpy()),
        num_divergent=int(drawn.sample_stats["diverging"].sum()),
    )


if __name__ == "__main__":
    option = command_line().parse_args().option
    if option:
        by_totals = option == "nutpie-totals"
        packages = ("nutpie", "pymc", "pytensor", "numba", "numpy")
        race(partial(prepare_nutpie, by_totals=by_totals), posterior, packages)
    else:
        race(prepare, posterior, ("pymc", "pytensor", "numpy"))
