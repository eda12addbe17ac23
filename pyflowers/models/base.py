"""What every model has, and what the multilevel models share.

A Model knows its Stan program and how data become the program's data; it never runs Stan.
``log_likelihood`` and ``predict`` are computed in NumPy from draws, so that the sampler writes
neither.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyflowers.data import FlowerData
from pyflowers.errors import ConfigError, DataError
from pyflowers.resources import program_path

LARGEST_COUNT = 2**31 - 1
"""The largest count that a Stan ``int`` holds."""

Draws = Mapping[str, NDArray[np.float64]]
"""Posterior draws by parameter, each shaped (chain, draw, …)."""


class Prior(NamedTuple):
    """A hyperparameter: its default, what it may be, and what it means."""

    default: float
    lower: float
    description: str
    open_at_lower: bool = True


@dataclass(frozen=True)
class Parameter:
    """A parameter of a model: its dimensions and, for a reader, its meaning."""

    name: str
    dims: tuple[str, ...]
    description: str


class Model(ABC):
    """A model of flowers per plant and month."""

    name: ClassVar[str]
    title: ClassVar[str]
    equation: ClassVar[str]
    story: ClassVar[str]
    priors: ClassVar[Mapping[str, Prior]]
    parameters: ClassVar[tuple[Parameter, ...]]
    is_multilevel: ClassVar[bool] = False
    counts_only: ClassVar[bool] = False

    @property
    def program(self) -> Path:
        """The Stan program."""
        return program_path(self.name)

    def resolve_priors(self, given: Mapping[str, float] | None = None) -> dict[str, float]:
        """Fill in the defaults and check what was given.

        Parameters
        ----------
        given : mapping of str to float, optional
            Hyperparameters to change.

        Raises
        ------
        ConfigError
            For a name that the model does not have or a value out of its range.
        """
        values = {name: prior.default for name, prior in self.priors.items()}
        for name, value in (given or {}).items():
            if name not in self.priors:
                known = ", ".join(self.priors)
                raise ConfigError(f"prior {name}: {self.name} has no such prior; it has {known}")
            values[name] = _checked_prior(name, value, self.priors[name])
        return values

    def check(self, data: FlowerData, priors: Mapping[str, float]) -> list[str]:
        """Refuse data that the model cannot use and return warnings about the rest.

        Raises
        ------
        DataError
            For a value that is no count where counts are needed, or an improper posterior.
        """
        if self.counts_only:
            _check_counts(data)
        if self.is_multilevel and data.num_plants == 1:
            return [
                f"{data.source} has a single {data.columns.group}: its data cannot tell sigma2, "
                "the variance between them, from its prior; iid_normal may be what you want"
            ]
        return []

    def stan_data(
        self, data: FlowerData, priors: Mapping[str, float], *, centered: bool | None = None
    ) -> dict[str, Any]:
        """Return the program's data block as plain Python values and arrays."""
        values: dict[str, Any] = {"N": data.num_obs, "y": self._stan_y(data), **priors}
        if self.is_multilevel:
            values["P"] = data.num_plants
            values["plant"] = data.plant + 1
            wanted = self.prefers_centered(data) if centered is None else centered
            values["centered"] = int(wanted)
        return values

    @abstractmethod
    def log_likelihood(self, draws: Draws, data: FlowerData) -> NDArray[np.float64]:
        """Return log p(y[n] | parameters), shape (chain, draw, N)."""

    @abstractmethod
    def predict(
        self, draws: Draws, data: FlowerData, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Return replicated data y_rep, shape (chain, draw, N)."""

    @abstractmethod
    def dropped_constant(self, data: FlowerData, priors: Mapping[str, float]) -> float:
        """Return what the program leaves out of log p(y, parameters): terms without parameters."""

    def missing_moments(self, data: FlowerData, priors: Mapping[str, float]) -> dict[str, str]:
        """Say for which parameters the posterior mean or variance does not exist, and why."""
        return {}

    def prefers_centered(self, data: FlowerData) -> bool:
        """Whether the data determine the plant means better than their prior does."""
        return True

    def _stan_y(self, data: FlowerData) -> NDArray[Any]:
        return data.y.astype(np.int64) if self.counts_only else data.y


def _checked_prior(name: str, value: float, prior: Prior) -> float:
    below = value <= prior.lower if prior.open_at_lower else value < prior.lower
    if not np.isfinite(value) or below:
        bound = "above" if prior.open_at_lower else "at least"
        limit = f" and {bound} {prior.lower:g}" if np.isfinite(prior.lower) else ""
        raise ConfigError(f"prior {name}: it must be a finite number{limit}, was {value}")
    return float(value)


def _check_counts(data: FlowerData) -> None:
    column = data.columns.value
    for wrong, complaint in (
        (data.y < 0, "but counts cannot be negative"),
        (data.y != np.floor(data.y), "but counts are whole numbers"),
        (data.y > LARGEST_COUNT, f"but Stan holds counts up to {LARGEST_COUNT} only"),
    ):
        bad = np.flatnonzero(wrong)
        if bad.size:
            value = f"{data.y[bad[0]]:.15g}"
            raise DataError(
                f"{data.where(int(bad[0]))}: {column} is {value}, {complaint}; "
                "correct it or use a normal model"
            )


MU_SIGMA2 = {
    "mu_mean": Prior(0.0, -np.inf, "mean of the normal prior on mu"),
    "mu_sd": Prior(100.0, 0.0, "standard deviation of the normal prior on mu"),
    "sigma2_nu": Prior(1.0, 0.0, "degrees of freedom of the scaled-inv-χ² prior on sigma2"),
    "sigma2_scale": Prior(2.0, 0.0, "scale of the scaled-inv-χ² prior on sigma2"),
}


class Multilevel(Model):
    """What the two multilevel models share: sigma2 is the variance of P plant means."""

    is_multilevel = True

    def missing_moments(self, data: FlowerData, priors: Mapping[str, float]) -> dict[str, str]:
        """See :func:`inv_chi2_moments`: each plant that bounds sigma2 adds a degree of freedom."""
        return inv_chi2_moments("sigma2", self.num_informative(data) + priors["sigma2_nu"])

    def num_informative(self, data: FlowerData) -> int:
        """Return how many plants keep sigma2 from being arbitrarily large."""
        return data.num_plants


def inv_chi2_moments(parameter: str, dof: float) -> dict[str, str]:
    """Which moments a variance lacks whose posterior falls like sigma2^−(dof/2 + 1).

    The k-th moment exists if and only if dof > 2k (BDA3 table A.1, scaled-inv-χ²).
    """
    return _missing_moment(parameter, dof, 2)


def t_moments(parameter: str, dof: float) -> dict[str, str]:
    """Which moments a location lacks whose posterior falls like |mu|^−(dof + 1).

    The k-th moment exists if and only if dof > k (BDA3 table A.1, t).
    """
    return _missing_moment(parameter, dof, 1)


def _missing_moment(parameter: str, dof: float, each: int) -> dict[str, str]:
    """Say which of mean and variance need more than `dof` degrees of freedom, `each` a moment."""
    if dof <= each:
        reason = f"its posterior mean does not exist ({dof:g} ≤ {each} degrees of freedom)"
        return {parameter: reason}
    if dof <= 2 * each:
        reason = f"its posterior variance is infinite ({dof:g} ≤ {2 * each} degrees of freedom)"
        return {parameter: reason}
    return {}


def between_exceeds_error(mean: NDArray[np.float64], error: NDArray[np.float64]) -> bool:
    """Whether plant means vary more than the error with which the data know them.

    The centred parametrisation mixes better then, the non-centred one otherwise
    (Papaspiliopoulos, Roberts and Sköld 2007, Statistical Science 22(1), section 2).
    """
    if mean.size < 2:
        return False
    observed = float(np.var(mean, ddof=1))
    return max(observed - float(np.mean(error)), 0.0) > float(np.median(error))
