"""The normal models of the lecture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pyflowers.data import FlowerData
from pyflowers.errors import ConfigError, DataError
from pyflowers.models.base import (
    MU_SIGMA2,
    Draws,
    Model,
    Multilevel,
    Parameter,
    Prior,
    between_exceeds_error,
    inv_chi2_moments,
    t_moments,
)


def _normal_log_pdf(
    y: NDArray[np.float64], mean: NDArray[np.float64], var: NDArray[np.float64]
) -> NDArray[np.float64]:
    return np.asarray(-0.5 * (np.log(2 * np.pi * var) + (y - mean) ** 2 / var))


class OneNormal(Model):
    """What the two models of one normal distribution share: a mean and the variance sigma2."""

    mean_name: ClassVar[str]
    nu_name: ClassVar[str]

    def log_likelihood(self, draws: Draws, data: FlowerData) -> NDArray[np.float64]:
        """Return log N(y | mean, sigma2)."""
        mean, var = draws[self.mean_name], draws["sigma2"]
        return _normal_log_pdf(data.y, mean[..., None], var[..., None])

    def predict(
        self, draws: Draws, data: FlowerData, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw y_rep ~ N(mean, sigma2)."""
        mean, sd = draws[self.mean_name], np.sqrt(draws["sigma2"])
        return rng.normal(mean[..., None], sd[..., None], (*mean.shape, data.num_obs))

    def dropped_constant(self, data: FlowerData, priors: Mapping[str, float]) -> float:
        """Return the likelihood's −N/2 log 2π."""
        return -0.5 * data.num_obs * math.log(2 * math.pi)

    def missing_moments(self, data: FlowerData, priors: Mapping[str, float]) -> dict[str, str]:
        """See :func:`inv_chi2_moments`: sigma2 has N more degrees of freedom than its prior."""
        return inv_chi2_moments("sigma2", data.num_obs + priors[self.nu_name])


class IidNormal(OneNormal):
    """One normal distribution for all plants and months."""

    name = "iid_normal"
    mean_name = "mu"
    nu_name = "sigma2_nu"
    title = "One normal distribution for all"
    equation = "y ~ N(mu, sigma2)"
    story = "Every plant is alike: all counts come from one normal distribution."
    priors = MU_SIGMA2
    parameters = (
        Parameter("mu", (), "expected flowers per plant and month"),
        Parameter("sigma2", (), "variance of flowers"),
    )


class SemiconjugateNormal(OneNormal):
    """The same model in the symbols of the lecture's variational Bayes."""

    name = "semiconjugate_normal"
    mean_name = "theta"
    nu_name = "nu0"
    title = "One normal distribution, semi-conjugate prior"
    equation = "x ~ N(theta, sigma2), theta ~ N(mu0, tau0²), sigma2 ~ scaled-inv-χ²(nu0, sigma0²)"
    story = "The model whose mean-field variational Bayes is closed form."
    priors: ClassVar[Mapping[str, Prior]] = {
        "mu0": Prior(0.0, -np.inf, "mean of the normal prior on theta"),
        "tau0": Prior(100.0, 0.0, "standard deviation of the normal prior on theta"),
        "nu0": Prior(1.0, 0.0, "degrees of freedom of the scaled-inv-χ² prior on sigma2"),
        "sigma0": Prior(2.0, 0.0, "scale of the scaled-inv-χ² prior on sigma2"),
    }
    parameters = (
        Parameter("theta", (), "mean of the observations"),
        Parameter("sigma2", (), "their variance"),
    )


class MultilevelNormal(Multilevel):
    """A normal distribution for each plant, plant means from a common one."""

    name = "multilevel_normal"
    title = "A normal distribution for each plant"
    equation = "y ~ N(mu_plant, sigma2_plant), mu_plant ~ N(mu, sigma2)"
    story = "Every plant has its own mean and variance; the means come from one population."
    priors: ClassVar[Mapping[str, Prior]] = {
        **MU_SIGMA2,
        "sigma2_plant_nu": Prior(
            -2.0, -2.0, "degrees of freedom of the prior on sigma2_plant; -2: flat", False
        ),
        "sigma2_plant_scale": Prior(0.0, 0.0, "scale of the prior on sigma2_plant; 0: flat", False),
    }
    parameters = (
        Parameter("mu", (), "mean of the plant means"),
        Parameter("sigma2", (), "variance of the plant means"),
        Parameter("mu_plant", ("plant",), "expected flowers per month"),
        Parameter("sigma2_plant", ("plant",), "variance between a plant's months"),
    )

    def check(self, data: FlowerData, priors: Mapping[str, float]) -> list[str]:
        """Refuse plants whose sigma2_plant has an improper posterior under the flat prior.

        With n observations and squared deviations S the flat prior leaves
        p(sigma2_plant | y) ∝ sigma2_plant^(−(n−1)/2) exp(−S / (2 sigma2_plant)), up to the bounded
        influence of the prior on mu_plant: its tail is integrable only for n ≥ 3, its origin only
        for S > 0.
        """
        warnings = super().check(data, priors)
        if not self.is_flat(priors):
            return warnings
        group = data.columns.group
        remedy = (
            "add months or give a proper prior, such as "
            "--prior sigma2_plant_nu=1 --prior sigma2_plant_scale=2"
        )
        too_few = np.flatnonzero(data.months_per_plant < 3)
        if too_few.size:
            plant, num = data.plants[too_few[0]], data.months_per_plant[too_few[0]]
            raise DataError(
                f"{data.source}: {group} {plant!r} has {num} of the 3 observations that the flat "
                f"prior on its sigma2_plant needs for a proper posterior; {remedy}"
            )
        constant = np.flatnonzero(data.constant_plants)
        if constant.size:
            plant = data.plants[constant[0]]
            value = data.y[data.plant == constant[0]][0]
            raise DataError(
                f"{data.source}: all observations of {group} {plant!r} are {value:g}, so the flat "
                f"prior on its sigma2_plant has no proper posterior; {remedy}"
            )
        return warnings

    def dropped_constant(self, data: FlowerData, priors: Mapping[str, float]) -> float:
        """Return the likelihood's −N/2 log 2π and the constant of a proper prior on sigma2_plant.

        That prior's is (nu/2)^(nu/2) scale^nu / Γ(nu/2) for each plant, BDA3 table A.1.
        """
        constant = -0.5 * data.num_obs * math.log(2 * math.pi)
        if self.is_flat(priors):
            return constant
        nu, scale = priors["sigma2_plant_nu"], priors["sigma2_plant_scale"]
        each = nu / 2 * math.log(nu / 2) + nu * math.log(scale) - math.lgamma(nu / 2)
        return constant + data.num_plants * each

    def missing_moments(self, data: FlowerData, priors: Mapping[str, float]) -> dict[str, str]:
        """Add the plants' own, of the plant with the fewest months.

        sigma2_plant has n + sigma2_plant_nu degrees of freedom. So has the likelihood of mu_plant,
        a power of it, and the other plants' sigma2, integrated out, adds theirs: both tails fall
        together.
        """
        dof = float(data.months_per_plant.min()) + priors["sigma2_plant_nu"]
        others = priors["sigma2_nu"] + data.num_plants - 1
        return {
            **super().missing_moments(data, priors),
            **t_moments("mu_plant", dof + others),
            **inv_chi2_moments("sigma2_plant", dof),
        }

    @staticmethod
    def is_flat(priors: Mapping[str, float]) -> bool:
        """Whether sigma2_plant has the flat prior."""
        return priors["sigma2_plant_nu"] == -2

    def log_likelihood(self, draws: Draws, data: FlowerData) -> NDArray[np.float64]:
        """Return log N(y | mu_plant, sigma2_plant)."""
        mean, var = draws["mu_plant"], draws["sigma2_plant"]
        return _normal_log_pdf(data.y, mean[..., data.plant], var[..., data.plant])

    def predict(
        self, draws: Draws, data: FlowerData, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw y_rep ~ N(mu_plant, sigma2_plant)."""
        sd = np.sqrt(draws["sigma2_plant"])
        return rng.normal(draws["mu_plant"][..., data.plant], sd[..., data.plant])

    def prefers_centered(self, data: FlowerData) -> bool:
        """Compare the variance of the plants' averages with the error of an average."""
        num = data.months_per_plant
        mean = np.bincount(data.plant, data.y) / num
        within = np.bincount(data.plant, (data.y - mean[data.plant]) ** 2) / np.maximum(num - 1, 1)
        return between_exceeds_error(mean, within / num)

    def resolve_priors(self, given: Mapping[str, float] | None = None) -> dict[str, float]:
        """Also refuse half of a prior on sigma2_plant: it is flat or proper."""
        values = super().resolve_priors(given)
        nu, scale = values["sigma2_plant_nu"], values["sigma2_plant_scale"]
        flat = nu == -2 and scale == 0
        if not flat and not (nu > 0 and scale > 0):
            raise ConfigError(
                f"priors sigma2_plant_nu={nu:g} and sigma2_plant_scale={scale:g}: a proper prior "
                "needs both above 0 (the flat one is -2 and 0); give both"
            )
        return values
