"""NumPyro's NUTS in double precision, with chains in parallel, one per device of JAX."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

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


def rates(num_plants: int) -> Any:
    """Draw the rates of the plants, with centred logarithms."""
    mu = numpyro.sample("mu", dist.Normal(PRIORS["mu_mean"], PRIORS["mu_sd"]))
    sigma2 = numpyro.sample("sigma2", dist.InverseGamma(SIGMA2_SHAPE, SIGMA2_RATE))
    with numpyro.plate("plants", num_plants):
        return jax.numpy.exp(numpyro.sample("log_mu_plant", dist.Normal(mu, sigma2**0.5)))


def model(num_plants: int, plant: Any, y: Any) -> None:
    """State the model of the observations."""
    rate = rates(num_plants)
    with numpyro.plate("observations", len(y)):
        numpyro.sample("y", dist.Poisson(rate[plant]), obs=y)


def model_of_totals(num_plants: int, months: Any, total: Any) -> None:
    """State the same model for the totals of the plants, which are sufficient statistics."""
    rate = rates(num_plants)
    with numpyro.plate("totals", num_plants):
        numpyro.sample("y", dist.Poisson(months * rate), obs=total)


def prepare(job: Job, *, by_totals: bool = False) -> Sampler:
    """Return NumPyro's sampler, which compiles in its first call."""
    numpyro.enable_x64()  # like all other methods; the default of JAX is single precision
    numpyro.set_host_device_count(job.chains)
    density, data = (
        (model_of_totals, plant_totals(job)) if by_totals else (model, (job.plant, job.y))
    )
    mcmc = MCMC(
        # The data are part of the model, not arguments of run(), so that it is compiled only once.
        NUTS(partial(density, job.num_plants, *map(jax.numpy.asarray, data))),
        num_warmup=job.warmup,
        num_samples=job.draws,
        num_chains=job.chains,
        chain_method="parallel",
        progress_bar=False,
    )

    def sample(seed: int) -> Any:
        mcmc.run(jax.random.key(seed))
        samples = mcmc.get_samples(group_by_chain=True)
        divergent = mcmc.get_extra_fields()["diverging"].sum()
        # JAX returns before it has computed; np.asarray waits.
        return {name: np.asarray(values) for name, values in samples.items()}, int(divergent)

    return sample


def posterior(drawn: Any) -> Posterior:
    """Read the samples."""
    samples, num_divergent = drawn
    return Posterior(
        mu=samples["mu"],
        sigma2=samples["sigma2"],
        mu_plant=np.exp(samples["log_mu_plant"]),
        num_divergent=num_divergent,
    )


if __name__ == "__main__":
    by_totals = command_line().parse_args().option == "totals"
    packages = ("numpyro", "jax", "jaxlib", "numpy")
    race(partial(prepare, by_totals=by_totals), posterior, packages)
