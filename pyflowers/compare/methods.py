"""Run every method that applies to a model, and put what they say into one table."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from pyflowers.approximate import METHODS, approximate, k_hat_verdict
from pyflowers.cmdstan import compile_program, find_cmdstan
from pyflowers.compare.closed_form import ascent_from_afar, exact_posterior, variational
from pyflowers.compare.statistics import QUANTILES, of_draws, of_exact, of_factors
from pyflowers.data import FlowerData
from pyflowers.errors import FitError
from pyflowers.exact import ExactPosterior
from pyflowers.fitting import Fit, as_flower_data, fit
from pyflowers.models import Model, get_model
from pyflowers.progress import stage
from pyflowers.vb import VBResult

METHOD_NAMES = {
    "exact": "exact (quadrature)",
    "nuts": "NUTS",
    "vb": "closed-form VB",
    "advi_meanfield": "ADVI, mean field",
    "advi_fullrank": "ADVI, full rank",
    "laplace": "Laplace",
    "pathfinder": "Pathfinder",
}
"""The methods in the order of the table, and what readers call them."""


@dataclass(frozen=True, eq=False)
class MethodResult:
    """What one method says of the posterior.

    Attributes
    ----------
    method : str
        One of :data:`METHOD_NAMES`.
    quantities : DataFrame
        A row for each parameter's element: mean, sd, 5%, median, 95%, and the Monte Carlo standard
        error of sd (0 where nothing is sampled).
    draws : mapping or None
        Draws by parameter, shaped (chain, draw, …), where the method draws.
    wall_time : float
        Seconds.
    num_draws : int
        Draws returned; 0 where nothing is sampled.
    ess : float
        Smallest bulk effective sample size of NUTS; of Pathfinder, which resamples, the number of
        different draws; of the others, whose draws are independent, the number of draws.
    elbo, kl, k_hat : float
        Evidence lower bound; divergence KL(q ‖ posterior), where exact; Pareto k-hat. Not a number
        where the method has none.
    log_evidence : float
        log p(y) of the exact posterior.
    warnings : tuple of str
        What the method complained about.
    """

    method: str
    quantities: pd.DataFrame
    wall_time: float
    draws: Mapping[str, Any] | None = None
    num_draws: int = 0
    ess: float = np.nan
    elbo: float = np.nan
    kl: float = np.nan
    k_hat: float = np.nan
    log_evidence: float = np.nan
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Comparison:
    """Every method on one posterior.

    Attributes
    ----------
    model : Model
        The model.
    data : FlowerData
        The data.
    priors : mapping
        Its hyperparameters.
    seed : int
        Of all random numbers.
    results : mapping of str to MethodResult
        By method, in the order of :data:`METHOD_NAMES`.
    nuts : Fit
        The fit that the others are compared with.
    exact : ExactPosterior or None
        The exact posterior.
    vb : VBResult or None
        The closed-form fit.
    vb_from_afar : VBResult or None
        The same from a start far away, so that the ascent can be seen; of the models of one normal
        distribution.
    failures : mapping of str to str
        Methods that failed, and why.
    """

    model: Model
    data: FlowerData
    priors: Mapping[str, float]
    seed: int
    results: Mapping[str, MethodResult]
    nuts: Fit
    exact: ExactPosterior | None = None
    vb: VBResult | None = None
    vb_from_afar: VBResult | None = None
    failures: Mapping[str, str] = field(default_factory=dict)

    def table(self) -> pd.DataFrame:
        """Return mean, sd and quantiles of each parameter by each method, beside NUTS.

        Returns
        -------
        DataFrame
            Index (parameter, method). ``sd_ratio`` is the method's sd over that of NUTS and
            ``sd_ratio_mcse`` its Monte Carlo standard error; ``width_ratio`` compares the 5% to 95%
            intervals, and exists where the sd does not.
        """
        reference = self.results["nuts"].quantities
        parts = []
        for name, result in self.results.items():
            part = result.quantities.copy()
            part["sd_ratio"] = part["sd"] / reference["sd"]
            relative = (part["sd_mcse"] / part["sd"]) ** 2
            if name != "nuts":
                relative = relative + (reference["sd_mcse"] / reference["sd"]) ** 2
            part["sd_ratio_mcse"] = part["sd_ratio"] * np.sqrt(relative)
            if name == "nuts":
                part["sd_ratio_mcse"] = 0.0 * part["sd_ratio"]
            width = reference["95%"] - reference["5%"]
            part["width_ratio"] = (part["95%"] - part["5%"]) / width
            part.insert(0, "method", name)
            parts.append(part.drop(columns="sd_mcse").reset_index(names="parameter"))
        order = {name: i for i, name in enumerate(reference.index)}
        table = pd.concat(parts, ignore_index=True)
        table = table.sort_values("parameter", key=lambda c: c.map(order), kind="stable")
        return table.set_index(["parameter", "method"])

    def methods(self) -> pd.DataFrame:
        """Return what there is to say of each method as a whole: a row for each."""
        rows = {
            name: {
                "elbo": result.elbo,
                "kl": result.kl,
                "k_hat": result.k_hat,
                "k_hat_verdict": "" if np.isnan(result.k_hat) else k_hat_verdict(result.k_hat),
                "draws": result.num_draws,
                "ess": result.ess,
                "wall_seconds": result.wall_time,
                "warnings": "; ".join(result.warnings),
            }
            for name, result in self.results.items()
        }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")


def compare_methods(
    model: str | Model = "semiconjugate_normal",
    data: Any = None,
    *,
    seed: int,
    priors: Mapping[str, float] | None = None,
    cmdstan: str | None = None,
    nuts: Fit | None = None,
) -> Comparison:
    """Approximate one posterior by every method that applies.

    Parameters
    ----------
    model : str or Model
        One of the models here.
    data : path, DataFrame or FlowerData, optional
        The lecture's flowers by default.
    seed : int
        Of all random numbers.
    priors : mapping, optional
        Hyperparameters to change.
    cmdstan : str, optional
        See :func:`~pyflowers.cmdstan.find_cmdstan`.
    nuts : Fit, optional
        A finished fit of this model, data and priors, to save fitting it again.

    Raises
    ------
    PyflowersError
        As :func:`pyflowers.fit`. A method that fails alone is left out; ``failures`` says why.
    """
    model = get_model(model) if isinstance(model, str) else model
    table, values = as_flower_data(data), model.resolve_priors(priors)
    executable = compile_program(model.program, cmdstan=find_cmdstan(cmdstan))
    reference = nuts or fit(model, table, seed=seed, priors=priors, cmdstan=cmdstan)
    results = {"nuts": _nuts(reference)}
    failures: dict[str, str] = {}
    with stage("Approximating the posterior", len(METHODS)) as advance:
        for method in METHODS:
            try:
                results[method] = _approximation(model, table, values, executable, method, seed)
            except FitError as error:
                failures[method] = str(error)
            advance(1)
    exact, vb = _closed_form(model, table, values, results)
    ordered = {name: results[name] for name in METHOD_NAMES if name in results}
    afar = ascent_from_afar(model, table, values)
    return Comparison(model, table, values, seed, ordered, reference, exact, vb, afar, failures)


def _closed_form(
    model: Model, data: FlowerData, priors: Mapping[str, float], results: dict[str, MethodResult]
) -> tuple[ExactPosterior | None, VBResult | None]:
    """Add the methods that sample nothing to `results`."""
    started = time.perf_counter()
    exact = exact_posterior(model, data, priors)
    exact_time = time.perf_counter() - started
    if exact is not None:
        quantities = of_exact(model, data, exact)
        evidence = exact.log_evidence
        results["exact"] = MethodResult("exact", quantities, exact_time, log_evidence=evidence)
    started = time.perf_counter()
    vb = variational(model, data, priors)
    vb_time = time.perf_counter() - started
    if vb is not None:
        elbo = float(vb.elbo)
        kl = exact.log_evidence - elbo if exact is not None else np.nan
        warnings = () if vb.converged else (f"not converged after {vb.num_iter} sweeps",)
        results["vb"] = MethodResult(
            "vb", of_factors(model, data, vb), vb_time, elbo=elbo, kl=kl, warnings=warnings
        )
    return exact, vb


def _nuts(reference: Fit) -> MethodResult:
    draws = {str(name): values.values for name, values in reference.posterior.items()}
    assert reference.model is not None
    assert reference.data is not None
    quantities = of_draws(reference.model, reference.data, draws, reference.record["priors"])
    sizes = reference.posterior.sizes
    bulk = next(check for check in reference.diagnostics.checks if check.name == "bulk ESS")
    return MethodResult(
        "nuts",
        quantities,
        reference.record["times"]["wall_seconds"],
        draws,
        sizes["chain"] * sizes["draw"],
        bulk.value,
        warnings=tuple(str(check) for check in reference.diagnostics.failed),
    )


def _approximation(
    model: Model,
    data: FlowerData,
    priors: Mapping[str, float],
    executable: Any,
    method: str,
    seed: int,
) -> MethodResult:
    stan_data = model.stan_data(data, priors)
    done = approximate(executable, stan_data, method, seed=seed)
    draws = {p.name: np.asarray(done.draws[p.name]) for p in model.parameters}
    num_draws = draws[model.parameters[0].name].shape[1]
    # Pathfinder's draws are resampled, so that they repeat: what counts are the different ones.
    distinct = len(np.unique(draws[model.parameters[0].name]))
    return MethodResult(
        method,
        of_draws(model, data, draws),
        done.wall_time,
        draws,
        num_draws,
        float(distinct),
        elbo=done.elbo + model.dropped_constant(data, priors),
        k_hat=done.k_hat,
        warnings=done.warnings,
    )


__all__ = ["METHOD_NAMES", "QUANTILES", "Comparison", "MethodResult", "compare_methods"]
