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
    frame = pd.DataFrame(dict(job.frame))
    formula = bambi.Formula(*job.bambi.split("; "))
    if job.family == "sratio":
        response = formula.main.split(" ~ ")[0]
        frame[response] = pd.Categorical(frame[response], ordered=True)
    built = bambi.Model(formula, frame, family=FAMILIES.get(job.family, job.family))
    # PyMC's convergence checks are left out, because no other method runs such checks here.
    own: dict[str, Any] = {"compute_convergence_checks": False}
    if option:
        own = {"inference_method": "nutpie"}
    elif job.family == "weibull":
        # PyMC's random starts have slopes of age for which censored times have probability 0.
        own["init"] = "adapt_diag"
    return lambda seed: (built, built.fit(**own, **job.of_pymc(seed)))


def posterior(found: tuple[Any, Any]) -> Regressed:
    """Read Bambi's draws; group effects and auxiliary parameters come after the coefficients."""
    built, drawn = found
    values = {str(name): of.to_numpy() for name, of in drawn.posterior.items()}
    # Bambi's psi is the probability that a count is not a zero of its own kind, 1 - zi.
    values |= {name: -values[name] for name in values if name.startswith("psi_")}
    common = common_names(built, values)
    coefficients = {
        f"{name}[{i}]": column
        for name in common
        for i, column in enumerate(np.moveaxis(np.atleast_3d(values[name]), -1, 0))
    }
    others = [of for name, of in values.items() if name not in common and not name.endswith("__")]
    return Regressed(coefficients, others, int(drawn.sample_stats["diverging"].sum()))


def common_names(built: Any, values: dict[str, Any]) -> list[str]:
    """Return the names of thresholds, intercepts and coefficients, one component after another."""
    names = ["threshold"]
    for component in built.components.values():
        if hasattr(component, "common_terms"):
            prefix = component.prefix
            terms = ["Intercept", *component.common_terms]
            names += [f"{prefix}_{term}" if prefix else term for term in terms]
    return [name for name in names if name in values]


if __name__ == "__main__":
    option = command_line().parse_args().option
    packages = ("bambi", "pymc", "pytensor", "numpy") + ("nutpie", "numba") * bool(option)
    race(lambda job: prepare(option, job), posterior, packages)
