"""``iid_normal``: y ~ N(mu, sigma2), one normal distribution for all rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

from pyflowers.lectures.posterior.distributions import NormalPrior
from pyflowers.lectures.shipped import shared
from pyflowers.programs.capabilities import (
    Capabilities,
    ClosedForm,
    IndependentDraws,
)
from pyflowers.programs.data import Data

if TYPE_CHECKING:
    from pyflowers.lectures.posterior.mean_field import NormalVB
    from pyflowers.lectures.posterior.one_normal import NormalExact


@dataclass(frozen=True)
class OneNormal:
    """y[n] ~ N(mean, sigma2), mean ~ N(m, s²) and sigma2 ~ scaled-inv-χ²(nu, scale²).

    Attributes
    ----------
    mean : str
        The program's name for the mean.
    hyperparameters : tuple of str
        The names of m, s, nu and scale in the program's data block.
    """

    mean: str
    hyperparameters: tuple[str, str, str, str]

    def capabilities(self) -> Capabilities:
        """Return the NumPy capabilities of a program for this model."""
        return Capabilities(
            closed_form=ClosedForm(
                exact=self._exact,
                vb=self._vb,
                draw=self._draw,
                vb_from_afar=self._vb_from_afar,
                log_constant=lambda data: -0.5 * data.num_obs * shared.LOG_2_PI,
            ),
            priors_on_scale=lambda data: shared.priors_on_scale(
                self.hyperparameters, float(data.y.mean()), float(data.y.std())
            ),
            likelihood_alone=lambda draws, data: shared.normal_alone(self.mean, data.y),
            # The posterior of sigma2 has N more degrees of freedom than its prior.
            missing_moments=lambda data: shared.inv_chi2_moments(
                "sigma2", data.num_obs + data[self.hyperparameters[2]]
            ),
        )

    def _prior(self, data: Data) -> NormalPrior:
        return NormalPrior(*(float(data[name]) for name in self.hyperparameters))

    # The closed forms, in which the mean is called theta

    def _exact(self, data: Data) -> NormalExact:
        from pyflowers.lectures.posterior.one_normal import NormalExact

        return NormalExact(data.y, self._prior(data), location=self.mean)

    def _draw(self, data: Data, num_draws: int, rng: Generator) -> IndependentDraws:
        from pyflowers.lectures.posterior.one_normal import draw_normal

        found = draw_normal(data.y, self._prior(data), num_draws, rng, location=self.mean)
        return IndependentDraws(found.draws, measures=lambda: found.diagnostics)

    def _vb(self, data: Data, start: object = None) -> NormalVB:
        from pyflowers.lectures.posterior.mean_field import fit_normal

        result = fit_normal(data.y, self._prior(data), init=start)  # type: ignore[arg-type]
        names = {"theta": self.mean}
        states = tuple(
            replace(
                state,
                updated=names.get(state.updated, state.updated),
                factors={names.get(name, name): q for name, q in state.factors.items()},
            )
            for state in result.states
        )
        factors = {names.get(name, name): q for name, q in result.factors.items()}
        dims: dict[str, tuple[str, ...]] = {self.mean: (), "sigma2": ()}
        return replace(result, factors=factors, states=states, dims=dims)

    def _vb_from_afar(self, data: Data) -> NormalVB | None:
        """Fit from a q(mean) that is too wide and too low, and a q(sigma2) at half the variance.

        The usual start is so close to the solution that the ascent from it would not be visible.
        """
        if data.num_obs < 2:
            return None
        from pyflowers.lectures.posterior.distributions import Normal, ScaledInvChiSquare

        sd = float(np.std(data.y)) or 1.0
        mean = Normal(np.asarray(data.y.mean() - 0.6 * sd), np.asarray(0.6 * sd))
        sigma2 = ScaledInvChiSquare(np.asarray(float(data.num_obs)), np.asarray(sd * 0.7))
        return self._vb(data, (mean, sigma2))


CAPABILITIES = OneNormal("mu", ("mu_mean", "mu_sd", "sigma2_nu", "sigma2_scale")).capabilities()
