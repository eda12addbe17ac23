"""Fits with known draws, which show what a figure or a report makes of them. Stan is not run.

Tests of what Stan does use the fixture ``lecture_fits``.
"""

import numpy as np
import pandas as pd

from pyflowers import inference_data
from pyflowers.data import from_frame
from pyflowers.fitting import Fit
from pyflowers.models import get_model
from pyflowers.sampling import Sample


def table(plants, num_months, *, seed=1, missing=0.0, columns=("plant", "month", "flowers")):
    """Poisson counts for each plant, whose rate grows with its position; some months missing."""
    rng = np.random.default_rng(seed)
    rows = [
        (plant, f"m{month + 1}", int(rng.poisson(2 + 8 * p / len(plants))))
        for p, plant in enumerate(plants)
        for month in range(num_months)
        if month < 3 or rng.random() >= missing
    ]
    group, time, value = columns
    return from_frame(pd.DataFrame(rows, columns=columns), group=group, time=time, value=value)


def synthetic_fit(name, data, *, seed=1, chains=4, draws=500, change=None, priors=None):
    """A fit whose draws are independent and lie about where the posterior does.

    `change` may edit the draws and statistics in place, to plant a defect.
    """
    model, rng = get_model(name), np.random.default_rng(seed)
    found = _draws(model.name, data, rng, (chains, draws))
    stats = {
        "lp__": rng.normal(size=(chains, draws)),
        "treedepth__": np.full((chains, draws), 3.0),
        "divergent__": np.zeros((chains, draws)),
        "energy__": rng.normal(size=(chains, draws)),
    }
    if change is not None:
        change(found, stats)
    values = model.resolve_priors(priors)
    record = {
        "model": name,
        "shipped": True,
        "program": str(model.program),
        "program_sha256": "0" * 64,
        "executable": "1" * 64,
        "options": {
            "seed": seed,
            "chains": chains,
            "warmup": 1000,
            "draws": draws,
            "thin": 1,
            "adapt_delta": 0.9,
            "max_treedepth": 10,
        },
        "versions": {"stan": "2.35.0", "cmdstan": "embedded (x)", "compiler": "g++"},
        "messages": {},
        "times": {"wall_seconds": 0.1, "chains": []},
        "data": {"source": data.source, "sha256": data.sha256, "rows": data.num_obs},
        "columns": data.columns._asdict(),
        "priors": values,
        "centered": True,
        "warnings": [],
    }
    return Fit(inference_data.from_model(Sample(found, stats), model, data, values), record)


def _draws(name, data, rng, shape):
    total = np.bincount(data.plant, data.y)
    num = data.months_per_plant
    if name == "iid_normal":
        sigma2 = data.y.var() * data.num_obs / rng.chisquare(data.num_obs, shape)
        return {"mu": rng.normal(data.y.mean(), np.sqrt(sigma2 / data.num_obs)), "sigma2": sigma2}
    whole = (*shape, data.num_plants)
    if name == "multilevel_normal":
        within = np.bincount(data.plant, (data.y - (total / num)[data.plant]) ** 2) + 1
        sigma2_plant = within / rng.chisquare(num + 1, whole)
        sigma2 = 10 * data.num_plants / rng.chisquare(data.num_plants, shape)
        return {
            "mu": rng.normal(data.y.mean(), np.sqrt(sigma2 / data.num_plants)),
            "sigma2": sigma2,
            "mu_plant": rng.normal(total / num, np.sqrt(sigma2_plant / num)),
            "sigma2_plant": sigma2_plant,
        }
    sigma2 = 0.5 * data.num_plants / rng.chisquare(data.num_plants, shape)
    return {
        "mu": rng.normal(np.log(data.y.mean()), np.sqrt(sigma2 / data.num_plants)),
        "sigma2": sigma2,
        "mu_plant": rng.gamma(total + 0.5, 1 / num, whole),
    }
