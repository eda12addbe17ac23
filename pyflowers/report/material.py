"""What a report is made of: fits of one table, summarised and compared once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd
from markupsafe import Markup

from pyflowers.data import FlowerData
from pyflowers.errors import ConfigError
from pyflowers.fitting import Fit
from pyflowers.loo import LooComparison, compare_models


@dataclass(frozen=True)
class Table:
    """A table of the page.

    Attributes
    ----------
    caption : str
        What it shows.
    head : sequence of str
        A heading for each column.
    rows : sequence of sequence of str or Markup
        Cells; the first of a row names it.
    text_columns : sequence of int
        Columns that hold text and not numbers.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Markup | str]]
    text_columns: Sequence[int] = ()


@dataclass(frozen=True, eq=False)
class Material:
    """Fits of one table and what is computed from all of them.

    Attributes
    ----------
    fits : sequence of Fit
        One for each model, each of another name.
    refused : mapping of str to str
        Models that could not be fitted, and why.
    """

    fits: Sequence[Fit]
    refused: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [fit.name for fit in self.fits]
        if not names:
            why = "; ".join(f"{name}: {reason}" for name, reason in self.refused.items())
            raise ConfigError(f"report: there is no fit to report{': ' + why if why else ''}")
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"report: two fits are of {name}; give one of each model")
        digests = {fit.record["data"]["sha256"] for fit in self.fits}
        if len(digests) > 1:
            raise ConfigError(
                "report: the fits are of different data; make a report for each data set"
            )

    @cached_property
    def summaries(self) -> dict[str, pd.DataFrame]:
        """Summary table of each fit by name."""
        return {fit.name: fit.summary() for fit in self.fits}

    @property
    def data(self) -> FlowerData | None:
        """The data, or None for programs of the user's own."""
        return self.fits[0].data

    @property
    def passed(self) -> bool:
        """Whether every diagnostic of every fit passed."""
        return all(fit.diagnostics.passed for fit in self.fits)

    @cached_property
    def _loo(self) -> tuple[LooComparison | None, str]:
        try:
            return compare_models(self.fits), ""
        except ConfigError as error:
            return None, str(error)

    @property
    def loo(self) -> LooComparison | None:
        """PSIS-LOO of the models, or None where there is none."""
        return self._loo[0]

    @property
    def no_loo(self) -> str:
        """Why there is no PSIS-LOO."""
        return self._loo[1]

    @property
    def best(self) -> Fit:
        """The fit of the model that predicts best; without LOO, the first."""
        name = self.loo.best.name if self.loo else self.fits[0].name
        return next(fit for fit in self.fits if fit.name == name)
