"""Contrasts and probabilities of derived quantities, with their Monte Carlo standard errors.

An expression is evaluated in every draw, so that its draws are draws of its posterior: of a number
the median and an interval, of a condition its probability, the mean of an indicator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers import convergence
from pyflowers.analysis.expressions import Derived, evaluate
from pyflowers.display import Line, Shown, heading, in_file, interval_quantiles
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit, checked_fits
from pyflowers.fits.posterior import element_names, flat


@dataclass(frozen=True, eq=False, repr=False)
class Contrasts(Shown):
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
        derived = [each for each in self.derived if not each.is_condition]
        return _table(derived, partial(_number, interval=self.fit.interval))

    def conditions(self) -> pd.DataFrame:
        """Return the probability of each condition, with its Monte Carlo error.

        Where a condition holds in every draw, or in none, its error cannot be estimated and is
        missing; the probability then is within about 3 divided by the number of independent draws
        of 1 or 0.
        """
        return _table([each for each in self.derived if each.is_condition], _condition)

    def contents(self) -> list[Line]:
        """Return the tables that are not empty, and the fit's verdict if it fails."""
        tables = {"numbers.csv": self.numbers(), "conditions.csv": self.conditions()}
        judged = self.fit.verdict
        return [
            heading(self.fit.name, self.fit.program.about),
            *(in_file(table, file) for file, table in tables.items() if len(table)),
            *([] if judged.passed else [judged.line]),
        ]

    def records(self) -> list[dict[str, object]]:
        """Return every row as a mapping, for JSON; what is missing is None."""
        found: list[dict[str, object]] = []
        for kind, table in (("number", self.numbers()), ("condition", self.conditions())):
            for name, row in table.iterrows():
                values = {str(k): float(v) if np.isfinite(v) else None for k, v in row.items()}
                found.append({"expression": str(name), "kind": kind, **values})
        return found


def contrast(fit: Fit, *expressions: str, interval: float | None = None) -> Contrasts:
    """Evaluate expressions of the posterior's quantities.

    Parameters
    ----------
    fit : Fit
        Whose posterior it is.
    *expressions : str
        Such as ``mu_plant[3] - mu_plant[1]``, ``mu_plant[3] > mu_plant[1]`` or
        ``rank(mu_plant)``, where rank 1 is the largest; see :mod:`.expressions`.
    interval : float, optional
        Probability of the wider interval that is shown; that of the fit by default.

    Raises
    ------
    ConfigError
        If there is none, one cannot be evaluated, or the interval does not lie between 0 and 1.
    """
    if not expressions:
        raise ConfigError("contrast: there is no expression; give at least one, such as 'mu > 0'")
    fit = checked_fits([fit], "contrast")[0].with_interval(interval)
    return Contrasts(fit, tuple(evaluate(text, fit.posterior) for text in expressions))


def _table(
    derived: Sequence[Derived], columns: Callable[[NDArray[np.float64]], dict[str, Any]]
) -> pd.DataFrame:
    """Return a row for each element of each expression."""
    if not derived:
        none = columns(np.empty((1, 1, 0)))
        return pd.DataFrame(none, index=pd.Index([], name="expression"))
    return pd.concat(
        pd.DataFrame(columns(flat(q)), index=pd.Index(element_names(q), name="expression"))
        for q in (each.quantity for each in derived)
    )


def _number(draws: NDArray[np.float64], interval: float) -> dict[str, Any]:
    probs = interval_quantiles(0.5, interval)
    found = convergence.statistics(draws, list(probs.values()))
    return {
        **{name: found[name] for name in probs},
        **{
            "mcse" if name == "median" else f"mcse_{name}": convergence.mcse_quantile(draws, prob)
            for name, prob in interval_quantiles(interval).items()
        },
        "ess_bulk": found["ess_bulk"],
    }


def _condition(draws: NDArray[np.float64]) -> dict[str, Any]:
    probability = draws.mean(axis=(0, 1))
    never_varies = (probability == 0) | (probability == 1)
    return {
        "probability": probability,
        "mcse": np.where(never_varies, np.nan, convergence.mcse_mean(draws)),
        "ess": np.where(never_varies, np.nan, convergence.ess_mean(draws)),
    }
