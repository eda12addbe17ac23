"""Run every method that applies to a model, and put the results into one table."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.convergence import mcse_sd
from pyflowers.display import INTERVAL, Line, Shown, heading, in_file, interval_quantiles, styled
from pyflowers.engines.approximate import METHODS, Approximation, approximate, k_hat_verdict
from pyflowers.errors import CompileError, ConfigError, FitError, ToolchainError
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import (
    STREAMED,
    dataset,
    element_names,
    stacked,
    variable_name,
    varies,
)
from pyflowers.fits.sampling import fit
from pyflowers.programs import COMPARED, Capability, Data, Program
from pyflowers.progress import stage
from pyflowers.toolchain import CmdStan, compile_source, find_cmdstan

if TYPE_CHECKING:
    import xarray as xr

    from pyflowers.exact import ExactPosterior
    from pyflowers.vb import VBResult


METHOD_NAMES = {
    "exact": "exact (quadrature)",
    "nuts": "NUTS",
    "independent": "independent draws",
    "vb": "closed-form VB",
    "advi_meanfield": "ADVI, mean field",
    "advi_fullrank": "ADVI, full rank",
    "laplace": "Laplace",
    "pathfinder": "Pathfinder",
}
"""The methods in the order of the table, and what readers call them."""


@dataclass(frozen=True, eq=False)
class MethodResult:
    """The results of one method.

    Attributes
    ----------
    method : str
        One of :data:`METHOD_NAMES`.
    quantities : DataFrame
        A row for each parameter's element: median, the ends of the reference's interval, mean, sd,
        and the Monte Carlo standard error of sd (0 where nothing is sampled).
    draws : mapping or None
        Draws by parameter, shaped (chain, draw, …), where the method draws.
    wall_time : float
        Seconds.
    num_draws : int
        Draws returned; 0 where nothing is sampled.
    ess : float
        Smallest bulk effective sample size of the reference; of Pathfinder, which resamples, the
        number of different draws; of the others, whose draws are independent, the number of draws.
    elbo, kl, k_hat : float
        Evidence lower bound; divergence KL(q ‖ posterior), where exact; Pareto k-hat. Not a number
        where the method has none.
    log_evidence : float
        log p(y) of the exact posterior.
    warnings : tuple of str
        What the method complained about.
    """

    method: str
    quantities: pd.DataFrame = field(repr=False)
    wall_time: float
    draws: Mapping[str, Any] | None = field(default=None, repr=False)
    num_draws: int = 0
    ess: float = np.nan
    elbo: float = np.nan
    kl: float = np.nan
    k_hat: float = np.nan
    log_evidence: float = np.nan
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Shown):
    """Every method on one posterior.

    Attributes
    ----------
    program : Program
        The program.
    data : Data
        The data, priors included.
    seed : int
        Of all random numbers.
    results : mapping of str to MethodResult
        By method, in the order of :data:`METHOD_NAMES`.
    nuts : Fit
        The fit that the others are compared with: by NUTS, or of independent draws.
    exact : ExactPosterior or None
        The exact posterior.
    vb : VBResult or None
        The closed-form fit.
    vb_from_afar : VBResult or None
        The same from a start far away, so that the ascent can be seen; of the models of one normal
        distribution.
    failures : mapping of str to str
        Methods that failed or were left out, and why.
    """

    program: Program
    data: Data
    seed: int
    results: Mapping[str, MethodResult]
    nuts: Fit
    exact: ExactPosterior | None = None
    vb: VBResult | None = None
    vb_from_afar: VBResult | None = None
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        """The method that the others are compared with: ``nuts`` or ``independent``."""
        return reference_method(self.nuts)

    @property
    def elements(self) -> list[str]:
        """The name of every element that varies, so that there is something to compare."""
        return [
            name
            for quantity in self.nuts.posterior.values()
            for name in itertools.compress(element_names(quantity), varies(quantity))
        ]

    def position(self, element: str) -> tuple[str, tuple[int, ...]]:
        """Return the quantity of an element and its position in it."""
        for name, quantity in self.nuts.posterior.items():
            elements = element_names(quantity)
            if element in elements:
                index = np.unravel_index(elements.index(element), quantity.values.shape[2:])
                return str(name), tuple(map(int, index))
        raise KeyError(element)

    def table(self) -> pd.DataFrame:
        """Return quantiles, mean and sd of each parameter by each method, beside the reference.

        Returns
        -------
        DataFrame
            Index (parameter, method). ``sd_ratio`` is the method's sd over the reference's and
            ``sd_ratio_mcse`` its Monte Carlo standard error; ``width_ratio`` compares the
            intervals, and exists where the sd does not.
        """
        reference = self.results[self.reference].quantities
        low, high = reference.columns[1:3]
        parts = {}
        for name, result in self.results.items():
            part = result.quantities
            ratio = part["sd"] / reference["sd"]
            variances = [(each["sd_mcse"] / each["sd"]) ** 2 for each in (part, reference)]
            is_reference = name == self.reference
            parts[name] = part.drop(columns="sd_mcse").assign(
                sd_ratio=ratio,
                sd_ratio_mcse=0.0 * ratio if is_reference else ratio * np.sqrt(sum(variances)),
                width_ratio=(part[high] - part[low]) / (reference[high] - reference[low]),
            )
        table = pd.concat(parts, names=["method", "parameter"]).swaplevel()
        order = [(element, name) for element in reference.index for name in parts]
        return table.reindex(pd.MultiIndex.from_tuples(order, names=table.index.names))

    def methods(self) -> pd.DataFrame:
        """Return the overall results of each method, a row for each."""
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

    def contents(self) -> list[Line]:
        """Return both tables, what the methods complained about, and the reference's verdict."""
        judged = self.nuts.diagnostics
        return [
            heading(self.program.name, self.program.about),
            in_file(self.table(), "table.csv"),
            in_file(self.methods().drop(columns="warnings"), "methods.csv"),
            *(f"note: {n}: {'; '.join(r.warnings)}" for n, r in self.results.items() if r.warnings),
            *(f"note: {method} is left out: {why}" for method, why in self.failures.items()),
            styled(
                f"verdict on {METHOD_NAMES[self.reference]}: {judged}",
                fg="green" if judged.passed else "red",
            ),
            f"seed: {self.seed}",
        ]


def compare(
    program: str | Path | Program = COMPARED,
    data: Any = None,
    *,
    seed: int | None = None,
    priors: Mapping[str, float] | None = None,
    engine: str = "auto",
    cmdstan: str | Path | None = None,
    include_paths: Sequence[str | Path] = (),
    nuts: Fit | None = None,
    approximations: bool = True,
    interval: float | None = None,
    **of_fit: Any,
) -> Comparison:
    """Approximate one posterior by every method that applies.

    Parameters
    ----------
    program : str, Path or Program
        The program.
    data : path, DataFrame, mapping or Data, optional
        As for :func:`pyflowers.fit`.
    seed : int, optional
        Of all random numbers; drawn by default.
    priors : mapping, optional
        Hyperparameters to change.
    engine : str
        Of the reference, see :func:`pyflowers.fit`. The approximations are CmdStan's; where none
        can be made they are left out.
    cmdstan : str or Path, optional
        See :func:`~pyflowers.toolchain.find_cmdstan`.
    include_paths : sequence of path
        Where a program's included files are.
    nuts : Fit, optional
        A finished fit of this program, data and priors, to save fitting it again; by NUTS, or of
        independent draws.
    approximations : bool
        Whether to run ADVI, Laplace and Pathfinder, too, which need a CmdStan.
    interval : float, optional
        Probability of the intervals; that of `nuts` by default, or 0.9.
    **of_fit
        What else :func:`pyflowers.fit` takes: the names of the columns, how a file is read, the
        sampler's options.

    Raises
    ------
    PyflowersError
        As :func:`pyflowers.fit`. A method that fails alone is left out; ``failures`` says why.
    """
    reference = nuts
    if reference is None:
        how = {"seed": seed, "priors": priors, "engine": engine, "cmdstan": cmdstan, **of_fit}
        reference = fit(program, data, include_paths=include_paths, **how)
    elif of_fit:
        raise ConfigError(f"{next(iter(of_fit))}: the fit is finished; leave it out")
    reference = reference.with_interval(interval)
    if not reference.posterior:
        raise ConfigError(f"{reference.name} has no parameters, so there is nothing to compare")
    if reference.is_partial:
        raise ConfigError(f"{reference.name}: nothing to compare with: {STREAMED}")
    results = {reference_method(reference): _reference(reference)}
    find = partial(find_cmdstan, cmdstan)
    failures = _approximations(reference, find, results) if approximations else {}
    exact, vb = _closed_form(reference, results)
    afar = reference.program.python.closed_form.vb_from_afar
    return Comparison(
        reference.program,
        reference.data,
        reference.options.seed,
        {name: results[name] for name in METHOD_NAMES if name in results},
        reference,
        exact,
        vb,
        afar(reference.data) if afar is not None and exact is not None else None,
        failures,
    )


def _approximations(
    reference: Fit, find: Callable[[], CmdStan], results: dict[str, MethodResult]
) -> dict[str, str]:
    """Add Stan's approximations to `results`, and return why any is missing."""
    program, data = reference.program, reference.data
    failures: dict[str, str] = {}
    with stage("Approximating the posterior", len(METHODS)) as advance:
        try:
            executable = compile_source(program.source, cmdstan=find())
        except (ToolchainError, CompileError) as error:
            advance(len(METHODS))
            return dict.fromkeys(METHODS, f"it needs a CmdStan: {error}")
        for method in METHODS:
            try:
                values, seed = program.stan_values(data), reference.options.seed
                done = approximate(executable, values, method, seed=seed)
                results[method] = _approximation(reference, method, done)
            except FitError as error:
                failures[method] = str(error)
            advance(1)
    return failures


def _closed_form(
    reference: Fit, results: dict[str, MethodResult]
) -> tuple[ExactPosterior | None, VBResult | None]:
    """Add the methods that sample nothing to `results`."""
    program, data = reference.program, reference.data
    closed = program.python.closed_form
    summary = partial(of_functions, posterior=reference.posterior, interval=reference.interval)
    exact, vb = None, None
    if program.can(Capability.EXACT) and closed.exact is not None:
        started = time.perf_counter()
        exact = closed.exact(data)
        found, seconds = summary(exact), time.perf_counter() - started
        results["exact"] = MethodResult("exact", found, seconds, log_evidence=exact.log_evidence)
    if program.can(Capability.VB) and closed.vb is not None:
        started = time.perf_counter()
        vb = closed.vb(data)
        found, seconds = summary(vb), time.perf_counter() - started
        elbo = float(vb.elbo)
        kl = exact.log_evidence - elbo if exact is not None else np.nan
        warnings = () if vb.converged else (f"not converged after {vb.num_iter} sweeps",)
        results["vb"] = MethodResult("vb", found, seconds, elbo=elbo, kl=kl, warnings=warnings)
    return exact, vb


def reference_method(fit: Fit) -> str:
    """Return how the draws of a fit were made: ``nuts`` or ``independent``."""
    return "nuts" if fit.record.independent is None else "independent"


def _reference(reference: Fit) -> MethodResult:
    summary = reference.summary()
    # A mean or sd that the posterior does not have is missing in its summary.
    known = summary.assign(sd_mcse=summary["sd"]).notna()
    found = of_draws(reference.posterior, reference.interval)
    return MethodResult(
        reference_method(reference),
        found.where(known[found.columns]),
        reference.record.times.wall_seconds,
        {str(name): quantity.values for name, quantity in reference.posterior.items()},
        reference.num_chains * reference.num_draws,
        float(summary["ess_bulk"].min()),
        warnings=tuple(str(check) for check in reference.diagnostics.failed),
    )


def _approximation(reference: Fit, method: str, done: Approximation) -> MethodResult:
    program, data = reference.program, reference.data
    known = reference.posterior.data_vars
    draws = {n: done.draws[n] for n in done.draws if variable_name(n, done.draws) in known}
    posterior = dataset(draws, data)[list(known)]
    draws = {str(name): quantity.values for name, quantity in posterior.items()}
    first = next(iter(draws.values()))
    # Pathfinder's draws are resampled, so that they repeat: what counts are the different ones.
    distinct = len(np.unique(first.reshape(first.shape[1], -1)[:, 0]))
    return MethodResult(
        method,
        of_draws(posterior, reference.interval),
        done.wall_time,
        draws,
        first.shape[1],
        float(distinct),
        elbo=done.elbo + program.python.closed_form.log_constant(data),
        k_hat=done.k_hat,
        warnings=done.warnings,
    )


def of_draws(posterior: xr.Dataset, interval: float = INTERVAL) -> pd.DataFrame:
    """Summarise draws: median, the ends of an interval, mean, sd, and the error of sd."""
    draws = stacked(posterior)
    # An approximation's draws may be so far away that their squares are beyond a float: sd is ∞.
    with np.errstate(over="ignore", invalid="ignore"):
        values = [
            *np.quantile(draws, list(interval_quantiles(interval).values()), axis=(0, 1)),
            draws.mean((0, 1)),
            draws.std((0, 1), ddof=1),
            mcse_sd(draws),
        ]
    return pd.DataFrame(np.transpose(values), element_names(posterior), _columns(interval))


def element_of(draws: Any, position: tuple[int, ...]) -> NDArray[np.float64]:
    """Return all draws of one element of a parameter, its chains in a row."""
    return np.asarray(draws[(slice(None), slice(None), *position)], dtype=np.float64).ravel()


def of_functions(
    source: ExactPosterior | VBResult, posterior: xr.Dataset, interval: float = INTERVAL
) -> pd.DataFrame:
    """Tabulate an exact posterior or the factors of an approximation.

    Parameters
    ----------
    source : ExactPosterior or VBResult
        Has mean, sd and quantiles of each parameter.
    posterior : Dataset
        Gives the parameters and the names of their elements.
    interval : float
        Probability of the central interval.
    """
    levels = list(interval_quantiles(interval).values())
    rows: dict[str, list[float]] = {}
    for name, quantity in posterior.items():
        elements = element_names(quantity)
        columns = [
            *np.reshape(source.quantile(str(name), levels), (len(levels), len(elements))),
            np.ravel(source.mean(str(name))),
            np.ravel(source.sd(str(name))),
        ]
        each = np.transpose([np.broadcast_to(column, len(elements)) for column in columns])
        rows |= {e: [*v, 0.0] for e, v in zip(elements, each.tolist(), strict=True)}
    return pd.DataFrame.from_dict(rows, "index", float, _columns(interval))


def _columns(interval: float) -> list[str]:
    return [*interval_quantiles(interval), "mean", "sd", "sd_mcse"]
