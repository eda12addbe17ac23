"""Contrasts and probabilities of derived quantities, with their Monte Carlo standard errors.

An expression is evaluated in every draw, so that its draws are draws of its posterior: of a number
the median and an interval, of a condition its probability, the mean of an indicator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pyflowers import convergence
from pyflowers.checks.expressions import Derived, evaluate
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit

NUMBER_COLUMNS = ("median", "5%", "25%", "75%", "95%", "mcse", "mcse_5%", "mcse_95%", "ess_bulk")
CONDITION_COLUMNS = ("probability", "mcse", "ess")


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Contrasts and probabilities of derived quantities.

    Attributes
    ----------
    fit : Fit
        Whose posterior it is.
    derived : tuple of Derived
        The draws of each expression.
    """

    fit: Fit
    derived: tuple[Derived, ...]

    def numbers(self) -> pd.DataFrame:
        """Return median, intervals and Monte Carlo errors of each element that is a number.

        ``mcse`` is that of the median.
        """
        return _table([d for d in self.derived if not d.is_condition], NUMBER_COLUMNS)

    def conditions(self) -> pd.DataFrame:
        """Return the probability of each condition, with its Monte Carlo error.

        Where a condition holds in every draw, or in none, its error cannot be estimated and is
        missing; the probability then is within about 3 divided by the number of independent draws
        of 1 or 0.
        """
        return _table([d for d in self.derived if d.is_condition], CONDITION_COLUMNS)

    def records(self) -> list[dict[str, object]]:
        """Return every row as a mapping, for JSON; what is missing is None."""
        found: list[dict[str, object]] = []
        for kind, table in (("number", self.numbers()), ("condition", self.conditions())):
            for name, row in table.iterrows():
                values = {str(k): float(v) if np.isfinite(v) else None for k, v in row.items()}
                found.append({"expression": str(name), "kind": kind, **values})
        return found


def contrast(fit: Fit, *expressions: str) -> Contrasts:
    """Evaluate expressions of the posterior's quantities.

    Parameters
    ----------
    fit : Fit
        Whose posterior it is.
    *expressions : str
        Such as ``mu_plant[3] - mu_plant[1]``, ``mu_plant[3] > mu_plant[1]`` or
        ``rank(mu_plant)``, where rank 1 is the largest; see :mod:`.expressions`.

    Raises
    ------
    ConfigError
        If there is none, or one cannot be evaluated.
    """
    if not expressions:
        raise ConfigError("contrast: there is no expression; give at least one, such as 'mu > 0'")
    return Contrasts(fit, tuple(evaluate(text, fit.posterior) for text in expressions))


def _table(derived: Sequence[Derived], columns: Sequence[str]) -> pd.DataFrame:
    parts = [_statistics(each)[list(columns)] for each in derived]
    if not parts:
        return pd.DataFrame(columns=list(columns), index=pd.Index([], name="expression"))
    return pd.concat(parts)


def _statistics(derived: Derived) -> pd.DataFrame:
    quantity = derived.quantity
    draws = quantity.flat
    if derived.is_condition:
        columns = {
            "probability": draws.mean(axis=(0, 1)),
            "mcse": convergence.mcse_mean(draws),
            "ess": convergence.ess_mean(draws),
        }
        never_varies = (columns["probability"] == 0) | (columns["probability"] == 1)
        columns["mcse"] = np.where(never_varies, np.nan, columns["mcse"])
        columns["ess"] = np.where(never_varies, np.nan, columns["ess"])
    else:
        found = convergence.statistics(draws, (0.05, 0.25, 0.5, 0.75, 0.95))
        columns = {
            **found,
            "mcse": convergence.mcse_quantile(draws, 0.5),
            "mcse_5%": convergence.mcse_quantile(draws, 0.05),
            "mcse_95%": convergence.mcse_quantile(draws, 0.95),
        }
    return pd.DataFrame(columns, index=pd.Index(quantity.elements, name="expression"))
