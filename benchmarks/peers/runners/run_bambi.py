"""Bambi on a formula, with its own priors: PyMC's NUTS, or nutpie's with ``--option nutpie``."""

from __future__ import annotations

from typing import Any

import bambi
import numpy as np
import pandas as pd

from benchmarks.peers.runners.common import Job, Regressed, Sampler, command_line, race

FAMILIES = {"negbinomial": "negativebinomial"}


def prepare(option: str, job: Job) -> Sampler:
    """Return the fitting method of Bambi's model, which is built once."""
    built = bambi.Model(
        job.formula, pd.DataFrame(dict(job.frame)), family=FAMILIES.get(job.family, job.family)
    )
    # PyMC's convergence checks are left out, because no other method runs such checks here.
    own = {"inference_method": "nutpie"} if option else {"compute_convergence_checks": False}

    return lambda seed: (built, built.fit(**own, **job.of_pymc(seed)))


def posterior(found: tuple[Any, Any]) -> Regressed:
    """Read Bambi's draws; group effects and auxiliary parameters come after the coefficients."""
    built, drawn = found
    values = {str(name): of.to_numpy() for name, of in drawn.posterior.items()}
    component = next(iter(built.components.values()))
    common = ["Intercept", *(name for name in component.common_terms)]
    coefficients = {
        f"{name}[{i}]": column
        for name in common
        for i, column in enumerate(np.moveaxis(np.atleast_3d(values[name]), -1, 0))
    }
    others = [of for name, of in values.items() if name not in common and not name.endswith("__")]
    return Regressed(coefficients, others, int(drawn.sample_stats["diverging"].sum()))


if __name__ == "__main__":
    option = command_line().parse_args().option
    packages = ("bambi", "pymc", "pytensor", "numpy") + ("nutpie", "numba") * bool(option)
    race(lambda job: prepare(option, job), posterior, packages)
