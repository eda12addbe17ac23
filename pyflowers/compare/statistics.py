"""Mean, sd and quantiles of each parameter, whatever the form in which a method gives them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.data import FlowerData
from pyflowers.exact import ExactPosterior
from pyflowers.inference_data import arviz
from pyflowers.models import Model
from pyflowers.vb import VBResult

QUANTILES = {"5%": 0.05, "median": 0.5, "95%": 0.95}
COLUMNS = ["mean", "sd", *QUANTILES, "sd_mcse"]


def element_names(model: Model, data: FlowerData) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yield (element, parameter, position): ``mu_plant[2]`` is at position (1,) of mu_plant."""
    labels = {"plant": data.plants}
    for parameter in model.parameters:
        axes = [range(len(labels[dim])) for dim in parameter.dims]
        for position in itertools.product(*axes):
            text = ",".join(labels[dim][i] for dim, i in zip(parameter.dims, position, strict=True))
            yield f"{parameter.name}[{text}]" if text else parameter.name, parameter.name, position


def of_draws(
    model: Model,
    data: FlowerData,
    draws: Mapping[str, Any],
    priors: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """Summarise draws shaped (chain, draw, …).

    `priors` are given for draws of the posterior itself, whose mean or sd may not exist: those are
    left out. An approximation's own always exist.
    """
    missing = model.missing_moments(data, priors) if priors is not None else {}
    rows = {}
    for element, name, position in element_names(model, data):
        values = draws[name][(slice(None), slice(None), *position)]
        mean, sd = float(values.mean()), float(values.std(ddof=1))
        mcse = float(arviz().mcse(values, method="sd"))
        if name in missing:
            mean = np.nan if "mean does not exist" in missing[name] else mean
            sd = mcse = np.nan
        rows[element] = [mean, sd, *np.quantile(values, list(QUANTILES.values())), mcse]
    return pd.DataFrame.from_dict(rows, orient="index", columns=COLUMNS)


def element(draws: Any, position: tuple[int, ...]) -> NDArray[np.float64]:
    """Return all draws of one element of a parameter, its chains in a row."""
    return np.asarray(draws[(slice(None), slice(None), *position)], dtype=np.float64).ravel()


def of_exact(model: Model, data: FlowerData, exact: ExactPosterior) -> pd.DataFrame:
    """Tabulate the exact posterior."""
    return _of_functions(model, data, exact)


def of_factors(model: Model, data: FlowerData, vb: VBResult) -> pd.DataFrame:
    """Tabulate the factors of a closed-form approximation."""
    return _of_functions(model, data, vb)


def _of_functions(
    model: Model, data: FlowerData, source: ExactPosterior | VBResult
) -> pd.DataFrame:
    rows = {}
    levels = list(QUANTILES.values())
    found = {
        parameter.name: (
            np.asarray(source.mean(parameter.name)),
            np.asarray(source.sd(parameter.name)),
            np.asarray(source.quantile(parameter.name, levels)),
        )
        for parameter in model.parameters
    }
    for element, name, position in element_names(model, data):
        mean, sd, quantiles = found[name]
        each = [level[position] for level in quantiles]
        rows[element] = [mean[position], sd[position], *each, 0.0]
    return pd.DataFrame.from_dict(rows, orient="index", columns=COLUMNS).astype(float)
