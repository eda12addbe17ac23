"""Run every method that applies to a model, and combine the results in one table."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.convergence import mcse_sd
from pyflowers.display import (
    INTERVAL,
    Line,
    Result,
    in_file,
    interval_quantiles,
    records_of,
    styled,
)
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
from pyflowers.fits.spec import INPUTS, Spec, takes_inputs
from pyflowers.programs import COMPARED, Capability, Data, Program
from pyflowers.programs.capabilities import ByQuadrature, Marginals, MeanField
from pyflowers.progress import stage
from pyflowers.toolchain import CmdStan, compile_source, find_cmdstan

if TYPE_CHECKING:
    import xarray as xr

METHOD_NAMES = {
    "exact": "exact (quadrature)",
    "nuts": "NUTS",
    "independent": "independent draws",
    "weighted": "weighted draws",
    "vb": "closed-form VB",
    "advi_meanfield": "ADVI, mean field",
    "advi_fullrank": "ADVI, full rank",
    "laplace": "Laplace",
    "pathfinder": "Pathfinder",
}
"""The methods in the order of the table, with their names in the output."""


@dataclass(frozen=True, eq=False)
class MethodResult:
    """The results of one method.

    Attributes
    ----------
    method : str
        One of :data:`METHOD_NAMES`.
    quantities : DataFrame
        A row for each element of a parameter: median, ends of the interval, mean, sd, and the Monte
        Carlo standard error of sd (0 for methods without draws).
    wall_time : float
        Run time in seconds.
    draws : mapping of str to array, shape (chain, draw, ...), or None
        Draws by parameter; None for methods without draws.
    num_draws : int
        Number of draws; 0 for methods without draws.
    ess : float
        For the reference, the smallest bulk effective sample size; for an approximation, the number
        of distinct draws (Pathfinder resamples, so its draws repeat); NaN without draws.
    elbo : float
        Evidence lower bound in nats; NaN if the method has none.
    kl : float
        Divergence KL(q ‖ posterior) in nats; NaN if it is not known exactly.
    k_hat : float
        Pareto k-hat of the approximation; NaN if the method has none.
    log_evidence : float
        log p(y) of the exact posterior; NaN for other methods.
    warnings : tuple of str
        Warnings of the method.

    See Also
    --------
    pyflowers.compare : Approximate one posterior by several methods.

    Examples
    --------
    >>> import pyflowers
    >>> found = pyflowers.compare(
    ...     "iid_normal", seed=1, engine="stanli", approximations=False
    ... )
    >>> vb = found.results["vb"]
    >>> vb.quantities[["median", "sd"]].round(1)
            median   sd
    mu         5.1  0.8
    sigma2     7.8  4.1
    >>> round(vb.kl, 3)
    0.041
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
class Comparison(Result):
    """The results of several methods on one posterior.

    Attributes
    ----------
    program : Program
        The program.
    data : Data
        The data, including the priors.
    seed : int
        Seed of all random numbers.
    results : mapping of str to MethodResult
        The results by method, in the order of :data:`METHOD_NAMES`.
    nuts : Fit
        The reference: a fit by NUTS or by the engine ``exact``.
    exact : ByQuadrature or None
        The exact posterior; None if the program has none.
    vb : MeanField or None
        The closed-form variational fit; None if the program has none.
    vb_from_afar : MeanField or None
        A variational fit that starts far from the solution, to show the ascent; None if the program
        has none.
    failures : mapping of str to str
        Methods that failed or were left out, and the reasons.

    See Also
    --------
    pyflowers.compare : Approximate one posterior by several methods.

    Examples
    --------
    >>> import pyflowers
    >>> found = pyflowers.compare(
    ...     "iid_normal", seed=1, engine="stanli", approximations=False
    ... )
    >>> found.table().loc["mu", ["median", "sd", "sd_ratio"]].round(1)
            median   sd  sd_ratio
    method
    exact      5.1  0.9       1.0
    nuts       5.1  0.9       1.0
    vb         5.1  0.8       0.9
    >>> found.methods()["kl"].round(3).to_dict()
    {'exact': nan, 'nuts': nan, 'vb': 0.041}
    >>> found.position("sigma2")
    ('sigma2', ())
    """

    holds: ClassVar[str] = "comparison"

    program: Program
    data: Data
    seed: int
    results: Mapping[str, MethodResult]
    nuts: Fit
    exact: ByQuadrature | None = None
    vb: MeanField | None = None
    vb_from_afar: MeanField | None = None
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        """The reference method: ``nuts``, ``independent`` or ``weighted``."""
        return reference_method(self.nuts)

    @property
    def elements(self) -> list[str]:
        """The names of the elements whose draws vary."""
        return [
            name
            for quantity in self.nuts.posterior.values()
            for name in itertools.compress(element_names(quantity), varies(quantity))
        ]

    def position(self, element: str) -> tuple[str, tuple[int, ...]]:
        """Return the quantity that contains an element, and the element's position in it.

        Parameters
        ----------
        element : str
            The element's name in the tables, such as ``mu_plant[2]``.

        Raises
        ------
        KeyError
            If the posterior has no such element.
        """
        for name, quantity in self.nuts.posterior.items():
            elements = element_names(quantity)
            if element in elements:
                index = np.unravel_index(elements.index(element), quantity.values.shape[2:])
                return str(name), tuple(map(int, index))
        raise KeyError(element)

    def table(self) -> pd.DataFrame:
        """Return the quantiles, mean and sd of each parameter by each method.

        Returns
        -------
        DataFrame
            The index is (parameter, method). ``sd_ratio`` is the method's sd divided by the
            reference's, and ``sd_ratio_mcse`` is its Monte Carlo standard error. ``width_ratio`` is
            the same ratio for the widths of the intervals, which exist even if the sd does not.
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
        """Return a row for each method: ELBO, KL, k-hat, draws, ESS, run time and warnings."""
        rows = {
            name: {
                "elbo": result.elbo,
                "kl": result.kl,
                "k_hat": result.k_hat,
                "k_hat_verdict": _in_words(result.k_hat),
                "draws": result.num_draws,
                "ess": result.ess,
                "wall_seconds": result.wall_time,
                "warnings": "; ".join(result.warnings),
            }
            for name, result in self.results.items()
        }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")

    def contents(self) -> list[Line]:
        """Return both tables, the methods' warnings and failures, and the reference's verdict."""
        judged = self.nuts.diagnostics
        return [
            self.nuts.heading,
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

    def files(self) -> dict[str, Any]:
        """Return the reference, which is saved as a run folder, and the tables, by name."""
        tables = {"table.csv": self.table(), "methods.csv": self.methods()}
        return {self.reference: self.nuts, **tables}

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values, for JSON."""
        return {
            "program": self.program.name,
            "seed": self.seed,
            "reference": self.reference,
            "comparison": records_of(self.table()),
            "methods": records_of(self.methods()),
            "left_out": dict(self.failures),
            "diagnostics": self.nuts.diagnostics.to_dict(),
        }


def _in_words(k_hat: float) -> str:
    if np.isnan(k_hat):
        return ""
    return k_hat_verdict(k_hat)


@takes_inputs(*INPUTS)
def compare(
    program: str | Path | Program | Spec = COMPARED,
    data: Any = None,
    *,
    nuts: Fit | None = None,
    approximations: bool = True,
    **inputs: Any,
) -> Comparison:
    """Approximate one posterior by every method that applies.

    Parameters
    ----------
    program : str, Path, Program or Spec
        The program; or a :class:`pyflowers.Spec` with all inputs, which other arguments override.
    data : path, DataFrame, mapping or Data, optional
        The data; see :func:`pyflowers.fit`. Default: the example of the program.
    nuts : Fit, optional
        A finished fit, by NUTS or the engine ``exact``, to use as the reference. `program` and
        `data` are then not used, and of the other inputs only ``cmdstan`` and ``interval`` apply.
    approximations : bool
        Whether to run ADVI, Laplace and Pathfinder, which need CmdStan; without it they are left
        out.
    **inputs

    Returns
    -------
    Comparison
        The results of each method and their tables.

    Raises
    ------
    ConfigError
        If there are no parameters to compare, the fit has not kept the draws of all its parameters,
        `nuts` is given together with options of a fit, or `interval` is not between 0 and 1.
    PyflowersError
        If the reference cannot be fitted (see :func:`pyflowers.fit`), or a closed form cannot be
        computed. An approximation by Stan that fails is left out; ``failures`` gives the reason.

    See Also
    --------
    pyflowers.loo : Compare models instead of methods.

    Examples
    --------
    >>> import pyflowers
    >>> found = pyflowers.compare(
    ...     "iid_normal", seed=1, engine="stanli", approximations=False
    ... )
    >>> list(found.results)
    ['exact', 'nuts', 'vb']
    >>> found.table().loc["mu", "sd_ratio"].round(1).to_dict()
    {'exact': 1.0, 'nuts': 1.0, 'vb': 0.9}
    """
    spec = Spec.of_call(program, data, **inputs)
    if nuts is None:
        reference = fit(spec)
    else:
        taken = {*INPUTS} - {"cmdstan", "interval"}
        spec.refuse(taken, "cannot be combined with nuts=…, which is a finished fit")
        asked = spec.interval if "interval" in spec.model_fields_set else None
        reference = nuts.with_interval(asked)
    if not reference.posterior:
        raise ConfigError(f"{reference.called} has no parameters, so there is nothing to compare")
    if reference.is_partial:
        raise ConfigError(f"{reference.called} cannot be the reference, because {STREAMED}")
    results = {reference_method(reference): _reference(reference)}
    find = partial(find_cmdstan, spec.cmdstan)
    failures: dict[str, str] = {}
    if approximations:
        failures = _approximations(reference, find, results)
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
    """Add Stan's approximations to `results`, and return the reason for each missing one."""
    program, data = reference.program, reference.data
    failures: dict[str, str] = {}
    with stage("Approximating the posterior", len(METHODS)) as advance:
        try:
            executable = compile_source(program.source, cmdstan=find())
        except (ToolchainError, CompileError) as error:
            advance(len(METHODS))
            return dict.fromkeys(METHODS, f"it needs CmdStan: {error}")
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
) -> tuple[ByQuadrature | None, MeanField | None]:
    """Add the methods without draws to `results`; return the exact posterior and the VB fit."""
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
        kl, warnings = np.nan, tuple[str, ...]()
        if exact is not None:
            kl = exact.log_evidence - elbo
        if not vb.converged:
            warnings = (f"not converged after {vb.num_iter} sweeps",)
        results["vb"] = MethodResult(
            "vb", found, seconds, elbo=elbo, kl=kl, warnings=tuple(warnings)
        )
    return exact, vb


def reference_method(fit: Fit) -> str:
    """Return the method by which a fit was sampled.

    Parameters
    ----------
    fit : Fit
        The fit.

    Returns
    -------
    str
        ``nuts`` for Markov chains; for draws of the engine ``exact``, ``independent`` or
        ``weighted``.

    Examples
    --------
    >>> import pyflowers
    >>> from pyflowers.analysis import reference_method
    >>> reference_method(pyflowers.fit("iid_normal", seed=1, engine="exact"))
    'independent'
    """
    if fit.record.independent is None:
        return "nuts"
    if fit.record.weighted:
        return "weighted"
    return "independent"


def _reference(reference: Fit) -> MethodResult:
    summary = reference.summary(all=True)
    # If the posterior has no mean or sd, the summary has NaN there.
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
    # Pathfinder's draws are resampled, so some repeat and only distinct draws count.
    rows = np.concatenate([its.reshape(its.shape[1], -1) for its in draws.values()], axis=1)
    distinct = len(np.unique(rows, axis=0))
    return MethodResult(
        method,
        of_draws(posterior, reference.interval),
        done.wall_time,
        draws,
        len(rows),
        float(distinct),
        elbo=done.elbo + program.python.closed_form.log_constant(data),
        k_hat=done.k_hat,
        warnings=done.warnings,
    )


def of_draws(posterior: xr.Dataset, interval: float = INTERVAL) -> pd.DataFrame:
    """Summarise draws: median, the ends of an interval, mean, sd, and the mcse of sd."""
    draws = stacked(posterior)
    # Draws of an approximation may be so large that their squares overflow, and sd is then ∞.
    with np.errstate(over="ignore", invalid="ignore"):
        values = [
            *np.quantile(draws, list(interval_quantiles(interval).values()), axis=(0, 1)),
            draws.mean((0, 1)),
            draws.std((0, 1), ddof=1),
            mcse_sd(draws),
        ]
    return pd.DataFrame(np.transpose(values), element_names(posterior), _columns(interval))


def element_of(draws: Any, position: tuple[int, ...]) -> NDArray[np.float64]:
    """Return all draws of one element of a parameter, one chain after the other."""
    return np.asarray(draws[(slice(None), slice(None), *position)], dtype=np.float64).ravel()


def of_functions(
    source: Marginals, posterior: xr.Dataset, interval: float = INTERVAL
) -> pd.DataFrame:
    """Tabulate an exact posterior or the factors of an approximation.

    Parameters
    ----------
    source : Marginals
        The source of mean, sd and quantiles of each parameter.
    posterior : Dataset
        A posterior with the parameters and the names of their elements.
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
