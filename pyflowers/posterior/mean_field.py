"""What a mean-field fit returns, whichever the model.

The evidence lower bound of a factorised q is (Bishop 2006, eq. 10.3; Blei et al. 2017, eq. 13)

    ELBO(q) = E_q[log p(y, parameters)] - E_q[log q(parameters)] = log p(y) - KL(q ‖ posterior),

and is given here with every constant, so that ``log evidence - elbo`` is the divergence itself.

References
----------
Bishop (2006), Pattern Recognition and Machine Learning, section 10.1.
Blei, Kucukelbir and McAuliffe (2017), Variational inference: a review for statisticians,
Journal of the American Statistical Association 112(518).
"""

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pyflowers.display import INTERVAL, Line, Shown, element_table, heading, interval_quantiles
from pyflowers.errors import ConfigError
from pyflowers.posterior.distributions import (
    BoolArray,
    Distribution,
    FloatArray,
    checked_probability,
)


class NotConvergedWarning(RuntimeWarning):
    """Coordinate ascent stopped at its cap before its stop rule held."""


@dataclass(frozen=True)
class State:
    """q after one half-update.

    Parameters
    ----------
    updated : str
        ``"start"`` or the name of the factor that was updated last.
    factors : mapping of str to Distribution
        q, one factor a parameter.
    elbo : array, shape of the batch
        ELBO of this q, with every constant.
    """

    updated: str
    factors: Mapping[str, Distribution]
    elbo: FloatArray


@dataclass(frozen=True, kw_only=True, repr=False)
class VBResult(Shown):
    """A mean-field approximation, found by coordinate ascent.

    Parameters
    ----------
    factors : mapping of str to Distribution
        q at convergence, one factor (or array of factors) a parameter.
    elbo : array, shape of the batch
        Its ELBO, with every constant.
    elbo_trace : array, shape (sweeps + 1, ...)
        ELBO at the start and after every full sweep; empty where nothing was recorded.
    states : tuple of State
        The start and q after every half-update; empty where nothing was recorded.
    num_iter : int
        Sweeps done.
    converged : array of bool, shape of the batch
        Whether the stop rule held before the cap.
    coords : mapping of str to sequence
        Labels of the axes of the factors, for :meth:`to_inference_data`.
    dims : mapping of str to sequence of str
        Names of the axes of each factor.
    """

    factors: Mapping[str, Distribution]
    elbo: FloatArray
    elbo_trace: FloatArray
    states: tuple[State, ...]
    num_iter: int
    converged: BoolArray
    coords: Mapping[str, Sequence[Hashable]]
    dims: Mapping[str, Sequence[str]]

    def __getitem__(self, name: str) -> Distribution:
        """Return the factor of one parameter."""
        try:
            return self.factors[name]
        except KeyError:
            known = ", ".join(self.factors)
            raise ConfigError(f"q has no parameter {name!r}, it has {known}") from None

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters."""
        return tuple(self.factors)

    def mean(self, name: str) -> FloatArray:
        """Return the mean of a factor; nan where it does not exist."""
        return self[name].mean

    def sd(self, name: str) -> FloatArray:
        """Return the standard deviation of a factor; nan where it does not exist."""
        return self[name].sd

    def quantile(self, name: str, p: npt.ArrayLike) -> FloatArray:
        """Quantiles of a factor, shape (*shape of p, *shape of the factor)."""
        return self[name].quantile(checked_probability(p))

    def table(self, interval: float = INTERVAL) -> pd.DataFrame:
        """Return median, interval, mean and sd of each parameter; nan where one does not exist.

        Parameters
        ----------
        interval : float
            Probability of the central interval.
        """
        probs = interval_quantiles(interval)
        found = {
            name: {
                **dict(zip(probs, self.quantile(name, list(probs.values())), strict=True)),
                "mean": self.mean(name),
                "sd": self.sd(name),
            }
            for name in self.names
        }
        axes = {n: [self.coords[d] for d in dims] for n, dims in self.dims.items()}
        return element_table(found, axes)

    def contents(self) -> list[Line]:
        """Return the table, and whether the ascent converged."""
        num, total = int(np.count_nonzero(self.converged)), int(np.size(self.converged))
        state = ("NOT converged", "converged")[num == total]
        if total == 1:
            state = f"{state} in {self.num_iter} sweeps, ELBO {float(np.ravel(self.elbo)[0]):.6f}"
        else:
            state = f"{num} of {total} fits converged in {self.num_iter} sweeps"
        return [
            heading("mean field", "a product of independent distributions"),
            self.table(),
            state,
            "note: a mean field ignores correlations, so it understates the spread; see "
            "pyflowers compare",
        ]

    def logpdf(self, name: str, x: npt.ArrayLike) -> FloatArray:
        """Log density of a factor at `x`."""
        return self[name].logpdf(x)

    def sample(
        self, rng: np.random.Generator, size: int | tuple[int, ...]
    ) -> dict[str, FloatArray]:
        """Independent draws of q, each of shape (*size, *shape of the factor)."""
        return {name: factor.sample(rng, size) for name, factor in self.factors.items()}

    def to_inference_data(
        self, rng: np.random.Generator, *, num_draws: int = 4000, num_chains: int = 1
    ) -> Any:
        """Draws of q as ``arviz.InferenceData`` with a posterior group.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of the draws.
        num_draws, num_chains : int
            Draws a chain, and chains; all are independent.

        Returns
        -------
        arviz.InferenceData
            Its posterior carries ``elbo``, ``converged`` and ``num_iter`` as attributes, and the
            labels of this result's axes.
        """
        with warnings.catch_warnings():  # late, as it is slow, and without its one notice
            warnings.filterwarnings("ignore", r"\s*ArviZ is undergoing", category=FutureWarning)
            import arviz
        return arviz.from_dict(
            posterior=self.sample(rng, (num_chains, num_draws)),
            coords={name: list(labels) for name, labels in self.coords.items()},
            dims={name: list(axes) for name, axes in self.dims.items()},
            posterior_attrs={
                "method": "closed-form mean-field variational Bayes",
                "elbo": self.elbo.tolist(),
                "converged": np.asarray(self.converged).astype(int).tolist(),
                "num_iter": self.num_iter,
            },
        )


def warn_not_converged(converged: BoolArray, num_iter: int) -> None:
    """Warn that the cap was reached; :attr:`VBResult.converged` says where."""
    num = int(np.size(converged) - np.count_nonzero(converged))
    if num:
        which = f"{num} of {np.size(converged)} fits" if np.size(converged) > 1 else "the fit"
        warnings.warn(
            f"{which} had not converged after {num_iter} sweeps: raise max_iter, or loosen tol",
            NotConvergedWarning,
            stacklevel=3,
        )


def check_stop_rule(tol: float, max_iter: int) -> None:
    """Refuse a tolerance or a cap that makes no sense.

    Raises
    ------
    ConfigError
        Unless ``0 < tol < 1`` and ``max_iter`` is a whole number of at least 1.
    """
    if not (isinstance(tol, Real) and 0 < tol < 1):
        raise ConfigError(f"tol is {tol!r}, but must lie between 0 and 1")
    if not (isinstance(max_iter, Integral) and max_iter >= 1):
        raise ConfigError(f"max_iter is {max_iter!r}, but must be a whole number, 1 or more")
