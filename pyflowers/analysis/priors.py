"""Draws from the prior, and the data that they imply for the user's design.

Only groups, times and covariates are needed; observed values are read only for a formula. If the
program has a prior in NumPy, draws come from this prior; otherwise, they come from Stan with
``prior_only = 1``.

The implied data may span hundreds of orders of magnitude. Each quantile is therefore one of the
draws, not an average of draws, and values beyond the range of floating-point numbers are infinite.

References
----------
Gabry, Simpson, Vehtari, Betancourt and Gelman (2019), Visualization in Bayesian workflow, JRSS A
182(2), section 3, for prior predictive checks; Bürkner (2017), brms, Journal of Statistical
Software 80(1), for the convention of ``prior_only``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from pyflowers.analysis.statistics import (
    STATISTICS,
    FloatArray,
    Function,
    Groups,
    shares_of,
)
from pyflowers.checked import whole_number
from pyflowers.display import (
    INTERVAL,
    Line,
    Result,
    in_file,
    interval_quantiles,
    records_of,
    verdict,
)
from pyflowers.engines import SamplerOptions
from pyflowers.errors import ConfigError
from pyflowers.fits import idata as inference_data
from pyflowers.fits.posterior import dataset, element_names, flat
from pyflowers.fits.sampling import fit_data
from pyflowers.fits.spec import INPUTS, OF_PRIOR, Spec, takes_inputs
from pyflowers.fits.verdict import Part
from pyflowers.programs import Capability, Data, Model, Program
from pyflowers.text import counted, in_words

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, eq=False, repr=False)
class PriorPredictive(Result):
    """Draws from the prior, and the data that they imply.

    Attributes
    ----------
    program : Program
        The program.
    data : Data
        The design; its observed variable contains placeholders.
    draws : mapping of str to array, shape (chain, draw, ...)
        The draws of every parameter.
    y_rep : array, shape (chain, draw, N), or None
        Data implied by each draw; None if the program cannot simulate data.
    statistics : mapping of str to array, shape (chain, draw)
        Statistics of the implied data.
    priors : mapping of str to float
        Hyperparameters of the prior.
    seed : int
        Seed of all random numbers.
    drawn_by : str
        ``numpy``, or the engine that sampled with ``prior_only = 1``.
    verdict : Part or None
        Verdict on the sampling; None if the draws are independent.
    notes : tuple of str
        Limitations of the draws, one sentence each.
    interval : float
        Probability of the interval that the tables show in addition to the 98% interval.

    See Also
    --------
    pyflowers.prior : Draw from the prior.
    pyflowers.plots.prior_parameters, pyflowers.plots.prior_implied : Draw histograms.

    Examples
    --------
    >>> from pathlib import Path
    >>> import pyflowers
    >>> found = pyflowers.prior("multilevel_poisson", seed=1, priors={"mu_sd": 1, "sigma2_nu": 20})
    >>> found.summary().loc[["mu"], ["median", "5%", "95%"]].round(1)
               median   5%  95%
    parameter
    mu            0.0 -1.7  1.6
    >>> found.implied().loc["maximum", ["median", "95%"]].tolist()
    [8.0, 146.0]
    >>> found.save(Path("prior.nc"))
    """

    holds: ClassVar[str] = "prior"

    program: Program
    data: Data
    draws: Mapping[str, FloatArray]
    y_rep: FloatArray | None
    statistics: Mapping[str, FloatArray]
    priors: Mapping[str, float]
    seed: int
    drawn_by: str
    verdict: Part | None = None
    notes: tuple[str, ...] = ()
    interval: float = INTERVAL

    @property
    def name(self) -> str:
        """The program's name."""
        return self.program.name

    @property
    def parameters(self) -> xr.Dataset:
        """The draws of the parameters, with labels, as a Dataset."""
        internal = self.program.internal
        return dataset({n: d for n, d in self.draws.items() if n not in internal}, self.data)

    def summary(self) -> pd.DataFrame:
        """Return quantiles of every parameter, with a row for each element."""
        return quantile_table(
            {
                name: flat(quantity)[:, :, i]
                for quantity in self.parameters.values()
                for i, name in enumerate(element_names(quantity))
            },
            "parameter",
            self.interval,
        )

    def implied(self) -> pd.DataFrame:
        """Return quantiles, over the draws, of each statistic of the implied data."""
        return quantile_table(self.statistics, "statistic", self.interval)

    def save(self, path: str | Path) -> None:
        """Write the draws to a netCDF file with the groups of an ``InferenceData``.

        Parameters
        ----------
        path : str or Path
            The file to write. An existing file is replaced.
        """
        constant = inference_data.to_groups(self.program, self.data, {}, {})["constant_data"]
        groups = {"prior": self.parameters, "constant_data": constant}
        if self.y_rep is not None and self.data.num_obs:
            groups["prior_predictive"] = inference_data.pointwise(self.y_rep, self.data)
        Path(path).write_bytes(inference_data.to_bytes(groups))

    def contents(self) -> list[Line]:
        """Return both tables, their notes, and the verdict on the sampling, if any."""
        num, what = self.data.num_obs, "row" if self.data.counted else "value"
        implied: list[Line] = [
            f"The data that the prior implies, {counted(num, what)} of "
            f"{self.data.value_name} in each draw:",
            in_file(self.implied(), "implied.csv"),
        ]
        return [
            self.program.head,
            in_file(self.summary(), "parameters.csv"),
            *(implied if self.statistics else []),
            *(f"note: {note}" for note in self.notes),
            *([verdict(self.verdict, self.verdict.passed)] if self.verdict is not None else []),
            f"seed: {self.seed}, drawn by: {self.drawn_by}",
        ]

    def files(self) -> dict[str, Any]:
        """Return the draws, which :meth:`save` writes, and the tables, by file name."""
        return {"draws.nc": self, "parameters.csv": self.summary(), "implied.csv": self.implied()}

    def to_dict(self) -> dict[str, Any]:
        """Return the prior as plain values, for JSON."""
        return {
            "program": self.name,
            "program_sha256": self.program.source.sha256,
            "prior_of": self.name,
            "design": self.data.source,
            "priors": dict(self.priors),
            "seed": self.seed,
            "drawn_by": self.drawn_by,
            "parameters": records_of(self.summary()),
            "implied": records_of(self.implied()),
            "diagnostics": None if self.verdict is None else self.verdict.to_dict(),
            "notes": list(self.notes),
        }


@takes_inputs(*OF_PRIOR)
def prior(
    program: str | Path | Program | Spec,
    data: Any = None,
    *,
    draws: int = 4000,
    statistics: Mapping[str, Function] | None = None,
    show_progress: bool = False,
    **inputs: Any,
) -> PriorPredictive:
    """Draw parameters from their prior, and data for the user's design given these parameters.

    Parameters
    ----------
    program : str, Path, Program or Spec
        A program that can draw from its prior, either with a :class:`pyflowers.PriorModel` in
        Python, as the shipped programs do, or with ``prior_only`` in Stan, as formulas do.
    data : path, DataFrame, mapping or Data, optional
        The design: groups, times, covariates. The observed column is not read and may be missing,
        except with a formula, whose default priors depend on it. Default: the example of the
        program.
    draws : int
        Number of draws, at least 4. With ``prior_only``, this is the total over four chains,
        rounded up to a multiple of 4.
    statistics : mapping of str to callable, optional
        More statistics of the implied data, by name. Each function takes an array of shape
        (draw, N) and returns an array of shape (draw,).
    show_progress : bool
        Whether to show a progress bar for each chain on the terminal.
    **inputs

    Returns
    -------
    PriorPredictive
        The draws of the parameters and of the data, and tables of their quantiles.

    Raises
    ------
    ConfigError
        If a prior is improper, the program has no way to draw from its prior, or an option is out
        of its range. An improper prior is rejected before Stan is called.
    DataError
        If the design cannot be used.
    ToolchainError, CompileError, FitError
        If the prior must be sampled with Stan and this fails; see :func:`pyflowers.fit`.

    See Also
    --------
    pyflowers.sensitivity : Measure how much the posterior depends on the prior.
    pyflowers.plots.prior_implied : Draw the implied data.

    References
    ----------
    Gabry, Simpson, Vehtari, Betancourt and Gelman (2019), Visualization in Bayesian workflow, JRSS
    A 182(2), section 3.

    Examples
    --------
    The default prior allows absurd numbers of flowers; a narrower prior does not.

    >>> import pyflowers
    >>> wide = pyflowers.prior("multilevel_poisson", seed=1)
    >>> bool(wide.implied().loc["mean", "95%"] > 1e50)
    True
    >>> priors = {"mu_sd": 1, "sigma2_nu": 20}
    >>> narrow = pyflowers.prior("multilevel_poisson", seed=1, priors=priors)
    >>> round(narrow.implied().loc["mean", "95%"])
    51
    """
    draws = whole_number("draws", draws, at_least=4)
    spec = Spec.of_call(program, data, **inputs)
    spec.refuse(set(INPUTS) - set(OF_PRIOR), "is an option of the posterior's sampler")
    options = SamplerOptions.of(seed=spec.seed, draws=-(-draws // 4))
    spec = spec.with_table()
    opened = spec.open()
    opened.require(Capability.PRIOR_ONLY)
    design = spec.read(opened, design_only=True)
    _refuse_infinite(opened, spec.priors)
    values = opened.resolve_priors(spec.priors, design)
    block = {**design.values, **opened.prior_values(values)}
    for name, remedy in opened.improper_priors(block).items():
        raise ConfigError(
            f"{opened.called}: {name} has an improper prior, so nothing can be drawn from it: "
            f"{remedy}"
        )
    roles = opened.declaration.roles
    rng = np.random.default_rng([options.seed, 3])
    drawn_by, judged, notes = "numpy", None, list[str]()
    if opened.draws_prior:
        # Without observed values, the data block needs no checks.
        whole = replace(design, values=block)
        its_rng = np.random.default_rng([options.seed, 2])
        found = Model(opened, whole).prior_draws(draws, its_rng)
        y_rep = found.pop(roles.y_rep, None)
        can = y_rep is None and opened.answers_by_rule(roles.y_rep)
    else:  # sampled with the likelihood switched off
        switched = replace(design, values={**design.values, roles.prior_only: 1})
        fit = fit_data(
            opened,
            switched,
            options,
            priors=values,
            centered=spec.centered,
            engine=spec.find_engine(opened),
            inits=spec.inits,
            show_progress=show_progress,
        )
        whole, found, y_rep, can = fit.data, dict(fit.draws), None, opened.can(Capability.Y_REP)
        drawn_by, judged, notes = fit.record.engine.name, fit.diagnostics, list(fit.record.notes)
    whole = whole.complete()
    if can:
        y_rep = Model(opened, whole).y_rep(found, rng, is_recorded=False)
    made: dict[str, FloatArray] = {}
    if y_rep is not None:
        made = _statistics(opened, whole, y_rep, statistics or {})
    notes += _notes(opened, y_rep)
    if y_rep is not None and judged is not None and not judged.passed:
        notes.append(
            "the diagnostics of these draws fail, so the chains may not have explored the "
            "whole prior; narrower priors are easier to sample"
        )
    return PriorPredictive(
        *(opened, whole, found, y_rep, made, values, options.seed, drawn_by),
        verdict=judged,
        notes=tuple(notes),
        interval=spec.interval,
    )


def _notes(program: Program, y_rep: FloatArray | None) -> Iterator[str]:
    """Yield a note if there are no implied data, or if the implied values are far too large."""
    if y_rep is None:
        yield (
            f"the implied data are not shown, because {program.called} has no y_rep: "
            f"{Capability.Y_REP.remedy}"
        )
        return
    beyond = int(np.count_nonzero((np.abs(y_rep) >= HUGE).any(axis=-1)))
    if beyond:
        yield (
            f"{beyond} of {y_rep[..., 0].size} draws imply values above {HUGE:g}: the prior is "
            "far too wide for such data"
        )


def _refuse_infinite(program: Program, priors: Mapping[str, float | str]) -> None:
    """Reject an infinite hyperparameter, and name the parameter whose prior becomes improper."""
    for name, value in priors.items():
        known = program.declaration.priors.get(name)
        if known is None or not isinstance(value, float | int) or math.isfinite(value):
            continue
        words = {
            p: re.findall(r"\w+", its.prior) for p, its in program.declaration.parameters.items()
        }
        of = [p for p, its in words.items() if re.sub(r"\[.*", "", name) in its]
        raise ConfigError(
            f"prior {name}={value:g} makes the prior of {in_words(of) or name} improper, so "
            "nothing can be drawn from it; give a finite number, such as --prior "
            f"{name}={known.value:g}"
        )


HUGE = 1e100
"""Real data have no values above this one, so a note gives the number of draws that imply such
values."""

WIDE = 0.98
"""Probability of the wider interval, which shows how far the prior extends."""


def _statistics(
    program: Program, data: Data, y_rep: FloatArray, more: Mapping[str, Function]
) -> dict[str, FloatArray]:
    """Return the usual and the requested statistics of implied data, shape (chain, draw)."""
    may_be_0 = program.counts and data.value not in data.labels  # ratings begin at 1
    names = ["mean", "sd", "minimum", "maximum"]
    if may_be_0:
        names.append("zeros")
    called = {"zeros": STATISTICS["zeros"].meaning}
    wanted = {called.get(name, name): STATISTICS[name].function for name in names}
    categories = Model(program, data).categories
    if categories:
        shares = shares_of(categories, is_counted=bool(data.counted))
        wanted = {each.meaning: each.function for each in shares}
    labels = data.by_group
    if not categories and labels is not None and 1 < len(labels) < data.num_obs:
        groups = Groups.of(labels, data.num_obs, program.counts)
        wanted[f"sd of {labels.column} means"] = lambda y: groups.means(y).std(axis=1, ddof=1)
    rows = y_rep.reshape(-1, y_rep.shape[-1])
    found = {}
    with np.errstate(over="ignore", invalid="ignore"):
        overflows = ~np.isfinite(np.square(rows).sum(axis=1))
        for name, statistic in {**wanted, **more}.items():
            values = np.asarray(statistic(rows), dtype=np.float64)
            if values.shape != (len(rows),):
                raise ConfigError(
                    f"statistic {name} must return a number for each of {len(rows)} draws, "
                    f"shape ({len(rows)},), got shape {values.shape}"
                )
            # After an overflow, a spread may be ∞ − ∞, which is NaN.
            values = np.where(np.isnan(values) & overflows, np.inf, values)
            if np.isnan(values).any():
                raise ConfigError(
                    f"statistic {name} is not a number in {np.isnan(values).sum()} of {len(rows)} "
                    "draws; return a number for every data set"
                )
            found[name] = values.reshape(y_rep.shape[:2])
    return found


def quantile_table(values: Mapping[str, FloatArray], index: str, interval: float) -> pd.DataFrame:
    """Return a row of quantiles for each name: the median and the ends of two intervals.

    Parameters
    ----------
    values : mapping of str to array
        Draws by name, of any shape.
    index : str
        Name of the index.
    interval : float
        Probability of the interval that is shown in addition to the 98% interval.
    """
    quantiles = interval_quantiles(WIDE, interval)
    probs = list(quantiles.values())
    rows = [np.quantile(np.ravel(each), probs, method="inverted_cdf") for each in values.values()]
    names = pd.Index(list(values), name=index)
    return pd.DataFrame(np.reshape(rows, (-1, len(probs))), index=names, columns=list(quantiles))
