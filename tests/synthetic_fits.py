"""Fits with known draws, for tests of figures and reports. Stan is not run.

Tests of Stan itself use the fixture ``lecture_fits``.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from pyflowers.analysis.methods import MethodResult
from pyflowers.data import from_frame
from pyflowers.engines import SamplerOptions
from pyflowers.fits.fit import Fit
from pyflowers.fits.folder import (
    DataRecord,
    ProgramRecord,
    RunRecord,
    TimesRecord,
)
from pyflowers.fits.key import EngineRecord
from pyflowers.programs import Data, find_program


def table(plants, num_months, *, seed=1, missing=0.0, columns=("plant", "month", "flowers")):
    """Return a `Table` of Poisson counts, with rates that grow from plant to plant.

    Its columns are group, time and value in this order; a share `missing` of the months from the
    fourth on is left out.
    """
    rng = np.random.default_rng(seed)
    rows = [
        (plant, f"m{month + 1}", int(rng.poisson(2 + 8 * p / len(plants))))
        for p, plant in enumerate(plants)
        for month in range(num_months)
        if month < 3 or rng.random() >= missing
    ]
    return from_frame(pd.DataFrame(rows, columns=columns))


def read(name, data):
    """Read a table of group, time and value, in this order, for a shipped program."""
    if isinstance(data, Data):
        return data
    roles = dict(zip(("group", "time", "value"), data.cells, strict=True))
    return find_program(name).read(data, columns=roles)


def synthetic_fit(name, data, *, seed=1, chains=4, draws=500, change=None, priors=None):
    """Return a fit whose draws are independent and approximately match the posterior.

    `data` is a table (see :func:`read`). `change` may edit the draws and statistics in place, to
    plant a defect.
    """
    program, rng = find_program(name), np.random.default_rng(seed)
    values = program.resolve_priors(priors)
    whole, notes = program.fill(read(name, data), values)
    found = _draws(name, whole, rng, (chains, draws))
    stats = {
        "lp__": rng.normal(size=(chains, draws)),
        "treedepth__": np.full((chains, draws), 3.0),
        "divergent__": np.zeros((chains, draws)),
        "energy__": rng.normal(size=(chains, draws)),
    }
    if change is not None:
        change(found, stats)
    declaration = whole.declaration.model_dump(mode="json", exclude_defaults=True)
    record = RunRecord(
        program=ProgramRecord(
            name=program.name,
            reference=program.reference,
            path=str(program.path),
            sha256=program.source.sha256,
            declaration=declaration,
            files={name: text.decode() for name, text in program.source.files.items()},
        ),
        data=DataRecord(
            source=whole.source,
            sha256=whole.sha256,
            rows=whole.num_obs,
            columns=dict(whole.columns),
        ),
        engine=EngineRecord(
            name="cmdstan",
            key="1" * 64,
            versions={"stan": "2.35.0", "cmdstan": "embedded (x)", "compiler": "g++"},
        ),
        options=SamplerOptions(seed=seed, chains=chains, draws=draws),
        priors=values,
        centered=bool(whole["centered"]) if "centered" in whole.values else None,
        notes=tuple(notes),
        times=TimesRecord(wall_seconds=0.1),
    )
    return Fit(program, whole, found, stats, record)


def same(first, second):
    """Whether all draws and statistics of two fits are equal to the last bit."""
    return all(
        list(one) == list(other)
        and all(np.array_equal(one[name], other[name], equal_nan=True) for name in one)
        and all(one[name].dtype == other[name].dtype for name in one)
        for one, other in ((first.draws, second.draws), (first.stats, second.stats))
    )


def _draws(name, data, rng, shape):
    y, groups = data.y, data.by_group
    if name in ("iid_normal", "semiconjugate_normal"):
        sigma2 = y.var() * y.size / rng.chisquare(y.size, shape)
        mean = "mu" if name == "iid_normal" else "theta"
        return {mean: rng.normal(y.mean(), np.sqrt(sigma2 / y.size)), "sigma2": sigma2}
    plant, num = groups.codes, groups.counts
    total = np.bincount(plant, y)
    whole = (*shape, len(groups))
    if name == "multilevel_normal":
        within = np.bincount(plant, (y - (total / num)[plant]) ** 2) + 1
        sigma2_plant = within / rng.chisquare(num + 1, whole)
        sigma2 = 10 * len(groups) / rng.chisquare(len(groups), shape)
        return {
            "mu": rng.normal(y.mean(), np.sqrt(sigma2 / len(groups))),
            "sigma2": sigma2,
            "mu_plant": rng.normal(total / num, np.sqrt(sigma2_plant / num)),
            "sigma2_plant": sigma2_plant,
        }
    sigma2 = 0.5 * len(groups) / rng.chisquare(len(groups), shape)
    return {
        "mu": rng.normal(np.log(y.mean()), np.sqrt(sigma2 / len(groups))),
        "sigma2": sigma2,
        "mu_plant": rng.gamma(total + 0.5, 1 / num, whole),
    }


def with_pathfinder(comparison):
    """Return the comparison with Pathfinder added, whose draws are misplaced and far too narrow."""
    nuts = comparison.results["nuts"]
    centre = nuts.quantities["95%"] + 2 * (nuts.quantities["95%"] - nuts.quantities["5%"])
    # For mu the centre is outside the posterior; for sigma2 it is inside.
    centre["sigma2"] = nuts.quantities.loc["sigma2", "median"]
    rng = np.random.default_rng(1)
    draws = {
        name: rng.normal(centre[name], 0.02 * centre[name], (1, 1000)) for name in centre.index
    }
    quantities = nuts.quantities.copy()
    for name, values in draws.items():
        for column in ("5%", "median", "95%"):
            level = {"5%": 0.05, "median": 0.5, "95%": 0.95}[column]
            quantities.loc[name, column] = np.quantile(values, level)
        quantities.loc[name, ["mean", "sd"]] = values.mean(), values.std()
    found = MethodResult("pathfinder", quantities, 0.1, draws, 1000, 1000.0, k_hat=2.5)
    return replace(comparison, results={**comparison.results, "pathfinder": found})


def without_digests(folder, change=lambda values: None):
    """Make a run one of an early version, which has no digests, and change its record."""
    path = Path(folder) / "run.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    values["files"] = list(values["files"])
    change(values)
    path.write_text(json.dumps(values), encoding="utf-8")
