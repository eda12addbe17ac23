"""The Poisson model of the lecture."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pyflowers.data import FlowerData
from pyflowers.models.base import MU_SIGMA2, Draws, Multilevel, Parameter, between_exceeds_error


class MultilevelPoisson(Multilevel):
    """Poisson counts for each plant, plant rates from a common lognormal distribution."""

    name = "multilevel_poisson"
    title = "Poisson counts for each plant"
    equation = "y ~ Poisson(mu_plant), log mu_plant ~ N(mu, sigma2)"
    story = "Every plant has its own rate of flowering; the log rates come from one population."
    priors = MU_SIGMA2
    counts_only = True
    parameters = (
        Parameter("mu", (), "mean of the plants' log rates"),
        Parameter("sigma2", (), "variance of the plants' log rates"),
        Parameter("mu_plant", ("plant",), "expected flowers per month"),
    )

    def log_likelihood(self, draws: Draws, data: FlowerData) -> NDArray[np.float64]:
        """Return log Poisson(y | mu_plant)."""
        from scipy.special import gammaln

        rate = draws["mu_plant"]
        log_rate = np.log(rate)[..., data.plant]
        return np.asarray(data.y * log_rate - rate[..., data.plant] - gammaln(data.y + 1))

    def predict(
        self, draws: Draws, data: FlowerData, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw y_rep ~ Poisson(mu_plant)."""
        return rng.poisson(draws["mu_plant"][..., data.plant]).astype(np.float64)

    def num_informative(self, data: FlowerData) -> int:
        """Leave out plants without a flower: their rate may be as near to 0 as sigma2 likes."""
        return int(np.count_nonzero(np.bincount(data.plant, data.y)))

    def dropped_constant(self, data: FlowerData, priors: Mapping[str, float]) -> float:
        """Return the likelihood's −Σ log y!."""
        from scipy.special import gammaln

        return -float(gammaln(data.y + 1).sum())

    def prefers_centered(self, data: FlowerData) -> bool:
        """Compare on the log scale, where a plant with total t has error variance 1/t."""
        total = np.bincount(data.plant, data.y) + 0.5
        return between_exceeds_error(np.log(total / data.months_per_plant), 1 / total)
