"""Hyperparameters of the two models, checked once, where they are made."""

from dataclasses import dataclass

import numpy as np

from pyflowers.errors import ConfigError
from pyflowers.posterior.vb.distributions import FloatArray, as_floats


@dataclass(frozen=True)
class NormalPrior:
    """The prior theta ~ N(mu0, tau0²), sigma2 ~ scaled-inv-χ²(nu0, sigma0²).

    Parameters
    ----------
    mu0 : float or array, shape of the batch
        Prior mean of theta, in units of the data.
    tau0 : float or array
        Prior standard deviation of theta; inf is flat.
    nu0 : float or array
        Prior degrees of freedom of sigma2; 0 is p(sigma2) = 1 / sigma2.
    sigma0 : float or array
        Prior scale (not its square) of sigma2, in units of the data; not read where nu0 is 0.

    Raises
    ------
    ConfigError
        Where a hyperparameter is out of its range.
    """

    mu0: float | FloatArray = 0.0
    tau0: float | FloatArray = 100.0
    nu0: float | FloatArray = 1.0
    sigma0: float | FloatArray = 2.0

    def __post_init__(self) -> None:
        mu0, tau0, nu0, sigma0 = (
            as_floats(value) for value in (self.mu0, self.tau0, self.nu0, self.sigma0)
        )
        within = (tau0 >= 1e-150) & (tau0 <= 1e150)
        for name, value, good, rule in (
            ("mu0", mu0, np.abs(mu0) <= 1e150, "finite and within ±1e150"),
            ("tau0", tau0, within | np.isposinf(tau0), "from 1e-150 to 1e150, or inf for flat"),
            ("nu0", nu0, (nu0 >= 0) & (nu0 <= 1e12), "from 0 to 1e12"),
            ("sigma0", sigma0, np.isfinite(sigma0) & (sigma0 >= 0), "finite and 0 or more"),
        ):
            if not np.all(good):
                first = float(value[~good].ravel()[0])
                raise ConfigError(f"prior {name} is {first!r}, but must be {rule}")
        bad = (nu0 > 0) & ~((sigma0 >= 1e-150) & (sigma0 <= 1e150))
        if np.any(bad):
            first = float(np.broadcast_to(sigma0, bad.shape)[bad].ravel()[0])
            raise ConfigError(
                f"prior sigma0 is {first!r}, but must be from 1e-150 to 1e150 when nu0 is positive"
            )


@dataclass(frozen=True)
class MultilevelPrior:
    """Hyperparameters of the multilevel normal model, by their names in the Stan program.

    Parameters
    ----------
    mu_mean, mu_sd : float
        mu ~ N(mu_mean, mu_sd²), in units of the data.
    sigma2_nu, sigma2_scale : float
        sigma2 ~ scaled-inv-χ²(sigma2_nu, sigma2_scale²), the scale in units of the data.
    sigma2_plant_nu, sigma2_plant_scale : float
        The same for every sigma2_plant; -2 and 0 are the flat prior on (0, inf).

    Raises
    ------
    ConfigError
        If a hyperparameter is out of its range.
    """

    mu_mean: float = 0.0
    mu_sd: float = 100.0
    sigma2_nu: float = 1.0
    sigma2_scale: float = 2.0
    sigma2_plant_nu: float = -2.0
    sigma2_plant_scale: float = 0.0

    def __post_init__(self) -> None:
        if not abs(self.mu_mean) <= 1e100:
            raise ConfigError(f"prior mu_mean is {self.mu_mean!r}, but must be finite")
        for name in ("mu_sd", "sigma2_nu", "sigma2_scale"):
            value = getattr(self, name)
            if not 1e-100 <= value <= 1e100:
                raise ConfigError(f"prior {name} is {value!r}, but must be positive and finite")
        nu, scale = self.sigma2_plant_nu, self.sigma2_plant_scale
        proper = 0 < nu <= 1e100 and 1e-100 <= scale <= 1e100
        if not (proper or (-2 <= nu <= 0 and scale == 0)):
            raise ConfigError(
                f"prior sigma2_plant_nu is {nu!r} with sigma2_plant_scale {scale!r}, but both must "
                "be positive and finite, or -2 and 0 for the flat prior"
            )
