"""Predictions of new data: the next observation of each group, and a new group.

The next observation of group p is drawn from p(y_new | group p's parameters) in each draw of the
posterior; that of a new group after its own parameters are drawn from the population in that draw.
Both are draws of the posterior predictive distribution, so their quantiles are its intervals.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pyflowers import convergence
from pyflowers.display import Line, Shown, heading, in_file, interval_quantiles
from pyflowers.engines import SamplerOptions
from pyflowers.fits.fit import Fit, checked_fits
from pyflowers.fits.posterior import dataset, element_names, flat
from pyflowers.programs import Capability

if TYPE_CHECKING:
    import xarray as xr

INNER = 0.5
"""Probability of the narrower of a prediction's two intervals."""

NEW = "new"


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predictions of one kind.

    Attributes
    ----------
    title : str
        What is predicted, such as ``next month``.
    quantity : DataArray
        Its draws, labelled.
    """

    title: str
    quantity: xr.DataArray = field(repr=False)


@dataclass(frozen=True, eq=False, repr=False)
class Predictions(Shown):
    """What a fit predicts.

    Attributes
    ----------
    fit : Fit
        What predicts.
    parts : tuple of Prediction
        The next time of each group, or a new observation of it without times; a new group, and
        the new group's mean; or what the program's ``y_new`` is.
    seed : int
        Of the predictions.
    notes : tuple of str
        What is left out, and why.
    """

    fit: Fit
    parts: tuple[Prediction, ...]
    seed: int
    notes: tuple[str, ...]

    def draws(self) -> dict[str, np.ndarray]:
        """Return the draws of each part by its title, shape (chain, draw, …)."""
        return {part.title: part.quantity.values for part in self.parts}

    def table(self) -> pd.DataFrame:
        """Return the median, two intervals and the median's Monte Carlo error of each value.

        The intervals are the fit's and one of 50%.

        Quantiles of counts are values that occur: the smallest with at least that probability up
        to it.
        """
        return pd.concat([_summary(each, self.fit.interval) for each in self.parts])

    def contents(self) -> list[Line]:
        """Return the table, its notes, and the fit's verdict if it fails."""
        judged = self.fit.verdict
        return [
            heading(self.fit.name, self.fit.program.about),
            in_file(self.table(), "predictions.csv"),
            *(f"note: {note}" for note in self.notes),
            *([] if judged.passed else [judged.line]),
            f"seed: {self.seed}",
        ]


def predict(fit: Fit, *, seed: int | None = None, interval: float | None = None) -> Predictions:
    """Predict each group's next observation, and a group that is not in the data.

    Parameters
    ----------
    fit : Fit
        Of a program with ``y_new``.
    seed : int, optional
        Of the predictions; that of the fit by default. What a program of one's own has drawn as
        ``y_new`` and ``y_new_group`` in Stan is taken as it is.
    interval : float, optional
        Probability of the wider interval that is shown; that of the fit by default.

    Raises
    ------
    ConfigError
        If the program has no ``y_new``, or the interval does not lie between 0 and 1.
    """
    fit = checked_fits([fit], "predict")[0].with_interval(interval)
    fit.program.require(Capability.Y_NEW)
    seed = (fit.options if seed is None else SamplerOptions.of(seed=seed)).seed
    notes: list[str] = []
    group = fit.data.name_of(fit.data.group) if fit.data.group else "group"
    new_data, roles = fit.program.python.new_data, fit.program.declaration.roles
    if new_data is None:
        titles = {roles.y_new: "new data", roles.y_new_group: f"new {group}"}
        parts = [
            Prediction(title, dataset({name: fit.draws[name]}, fit.data)[name])
            for name, title in titles.items()
            if name in fit.draws
        ]
        return Predictions(fit, tuple(parts), seed, ())
    rng = np.random.default_rng([seed, 4])
    first = np.zeros(1, dtype=np.int64)
    next_time = f"next {fit.data.name_of(fit.data.time)}" if fit.data.time else "new observation"
    mean = fit.posterior.data_vars.get(roles.group_mean)
    groups = first if mean is None else np.arange(mean.shape[2])
    values = new_data.y_at(fit.draws, fit.data, groups, rng)
    one = _labelled("y_new", values[..., 0])
    parts = [Prediction(next_time, one if mean is None else mean.copy(data=values).rename("y_new"))]
    if new_data.new_groups is not None:
        label = f"{NEW} {group}"
        drawn = new_data.new_groups(fit.draws, fit.data, 1, rng)
        refused = new_data.no_new_group(fit.data)
        if refused:
            notes.append(f"no observation of a new {group} is predicted: {refused}")
        else:
            values = new_data.y_at({**fit.draws, **drawn}, fit.data, first, rng)
            parts.append(Prediction(f"new {group}", _labelled("y_new", values, label)))
        its_mean = _labelled(roles.group_mean, drawn[roles.group_mean], label)
        parts.append(Prediction(f"mean of a new {group}", its_mean))
    return Predictions(fit, tuple(parts), seed, tuple(notes))


def _labelled(name: str, values: Any, *groups: str) -> xr.DataArray:
    """Return draws of one number, or of groups with labels."""
    import xarray as xr

    dims = ("chain", "draw", "group") if groups else ("chain", "draw")
    return xr.DataArray(values, {"group": list(groups)} if groups else None, dims, name)


def _summary(part: Prediction, interval: float) -> pd.DataFrame:
    probs = interval_quantiles(INNER, interval)
    draws = np.asarray(flat(part.quantity), dtype=np.float64)
    levels = list(probs.values())
    if np.all(draws == np.floor(draws)):
        quantiles = np.quantile(draws, levels, axis=(0, 1), method="inverted_cdf")
    else:
        quantiles = convergence.quantiles(draws, levels)
    columns = dict(zip(probs, quantiles, strict=True))
    columns["mcse"] = convergence.mcse_quantile(draws, 0.5)
    index = pd.MultiIndex.from_product(
        [[part.title], element_names(part.quantity)], names=["prediction", "value"]
    )
    return pd.DataFrame(columns, index=index)
