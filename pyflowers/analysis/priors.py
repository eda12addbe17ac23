"""Draws from the prior, and the data that they imply at the user's own design.

The observed values are neither read nor needed: groups, times and covariates are. Draws come from
the program's prior in NumPy where it has one, else from Stan with ``prior_only = 1``.

Such data may span hundreds of orders of magnitude. Quantiles are therefore draws and not averages
of draws, and what no floating-point number holds is infinite.

References
----------
Gabry, Simpson, Vehtari, Betancourt and Gelman (2019), Visualization in Bayesian workflow, JRSS A
182(2), section 3, for what to look at; Bürkner (2017), brms, Journal of Statistical Software 80(1),
for the convention of ``prior_only``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.analysis.statistics import STATISTICS, Function
from pyflowers.display import INTERVAL, Line, Shown, heading, in_file, interval_quantiles, verdict
from pyflowers.engines import Engine, SamplerOptions, find_engine
from pyflowers.errors import ConfigError
from pyflowers.fits import idata as inference_data
from pyflowers.fits.posterior import dataset, element_names, flat
from pyflowers.fits.sampling import fit_data
from pyflowers.fits.verdict import Part
from pyflowers.programs import Capability, Data, Program, find_program
from pyflowers.storage import FolderKind, new_folder

if TYPE_CHECKING:
    import xarray as xr


FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class PriorPredictive(Shown):
    """Draws of the prior and of the data that it implies.

    Attributes
    ----------
    program : Program
        Whose prior it is.
    data : Data
        The design; its observed variable holds placeholders.
    draws : mapping of str to array, shape (chain, draw, …)
        Every parameter.
    y_rep : array, shape (chain, draw, N), or None
        Data implied by each draw; None if the program cannot make them.
    statistics : mapping of str to array, shape (chain, draw)
        Statistics of the implied data.
    priors : mapping of str to float
        Hyperparameters as used.
    seed : int
        Of all random numbers.
    drawn_by : str
        ``numpy``, or the engine that sampled with ``prior_only = 1``.
    verdict : Part or None
        On the sampling; None where draws are independent.
    notes : tuple of str
        What qualifies the draws.
    interval : float
        Probability of the interval that the tables show beside that of 98%.
    """

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
        """The parameters with their labels."""
        internal = self.program.internal
        return dataset({n: d for n, d in self.draws.items() if n not in internal}, self.data)

    def summary(self) -> pd.DataFrame:
        """Return quantiles of every parameter, a row for each element."""
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
        """Return quantiles over draws of each statistic of the implied data."""
        return quantile_table(self.statistics, "statistic", self.interval)

    def contents(self) -> list[Line]:
        """Return both tables, their notes, and the verdict on the sampling if there was some."""
        implied: list[Line] = [
            f"The data that the prior implies, {self.data.num_obs} values of "
            f"{self.data.value_name} in a draw:",
            in_file(self.implied(), "implied.csv"),
        ]
        return [
            heading(self.name, self.program.about),
            in_file(self.summary(), "parameters.csv"),
            *(implied if self.statistics else []),
            *(f"note: {note}" for note in self.notes),
            *([verdict(self.verdict, self.verdict.passed)] if self.verdict is not None else []),
            f"seed: {self.seed}, drawn by: {self.drawn_by}",
        ]


def prior(
    program: str | Path | Program,
    data: Any = None,
    *,
    draws: int = 4000,
    seed: int | None = None,
    priors: Mapping[str, float] | None = None,
    statistics: Mapping[str, Function] | None = None,
    group: str | None = None,
    time: str | None = None,
    value: str | None = None,
    columns: Mapping[str, str] | None = None,
    engine: str | Engine = "auto",
    cmdstan: str | Path | None = None,
    include_paths: Sequence[str | Path] = (),
    interval: float = INTERVAL,
    show_progress: bool = False,
    **reading: Any,
) -> PriorPredictive:
    """Draw parameters from their prior, and data from them at the user's design.

    Parameters
    ----------
    program : str, Path or Program
        A program that can draw from its prior: with ``PriorModel`` in Python, as the shipped ones
        have, or with ``prior_only``.
    data : path, DataFrame, mapping or Data, optional
        The design: groups, times, covariates. The observed column is not read and may be missing.
    draws : int
        Number of draws; those of ``prior_only`` are of four chains together.
    seed : int, optional
        0 to 2³² − 1. Without it one is drawn, and recorded.
    priors : mapping of str to float, optional
        Hyperparameters to change.
    statistics : mapping of str to callable, optional
        More statistics of the implied data: each takes y, shape (draw, N), to shape (draw,).
    group, time, value, columns, engine, cmdstan, include_paths, show_progress
        As :func:`pyflowers.fit` takes them.
    interval : float
        Probability of the interval that the tables show beside that of 98%.
    **reading
        As :meth:`pyflowers.Program.read` takes it.

    Raises
    ------
    ConfigError
        If a prior is improper, with the parameter's name and the remedy, or the program has no way
        to draw from its prior. That is said before Stan is called.
    DataError
        If the design cannot be used.
    """
    interval_quantiles(interval)  # refuses what is no probability before anything is drawn
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 4:
        raise ConfigError(f"draws must be a whole number of at least 4, was {draws!r}")
    options = SamplerOptions.of(seed=seed, draws=-(-draws // 4))
    opened = find_program(program, tuple(map(str, include_paths)))
    opened.require(Capability.PRIOR_ONLY)
    reading |= {"group": group, "time": time, "value": value}
    design = opened.read(data, columns=columns, design_only=True, **reading)
    _refuse_infinite(opened, priors or {})
    values = opened.resolve_priors(priors, design)
    for name, remedy in opened.improper_priors({**design.values, **values}).items():
        raise ConfigError(
            f"{opened.name}: {name} has an improper prior, so nothing can be drawn from it: "
            f"{remedy}"
        )
    if opened.python.prior is not None:
        made = _in_numpy(opened, design, values, draws, options.seed)
    else:
        chosen = find_engine(engine, cmdstan) if isinstance(engine, str) else engine
        made = _by_engine(opened, design, values, options, chosen, show_progress)
    return _with_statistics(replace(made, interval=interval), statistics or {})


def _refuse_infinite(program: Program, priors: Mapping[str, float]) -> None:
    """Refuse an infinite width by the name of the parameter whose prior it makes improper."""
    for name, value in priors.items():
        known = program.declaration.priors.get(name)
        if known is None or not isinstance(value, float | int) or math.isfinite(value):
            continue
        of = [p for p, declared in program.declaration.parameters.items() if name in declared.prior]
        raise ConfigError(
            f"prior {name}={value:g}: it makes the prior of {' and '.join(of) or name} improper, "
            "so nothing can be drawn from it; give a finite number, such as --prior "
            f"{name}={known.value:g}"
        )


def _in_numpy(
    program: Program, design: Data, values: Mapping[str, float], num_draws: int, seed: int
) -> PriorPredictive:
    prior = program.python.prior
    assert prior is not None  # the caller asked
    # Without observations there are no checks of them.
    whole = replace(design, values={**design.values, **values})
    found = dict(prior.draw(whole, num_draws, np.random.default_rng([seed, 2])))
    y_rep = found.pop(program.declaration.roles.y_rep, None)
    if y_rep is None and program.python.pointwise is not None:
        y_rep = program.y_rep(found, whole, np.random.default_rng([seed, 3]))
    return PriorPredictive(program, whole, found, y_rep, {}, values, seed, "numpy")


def _by_engine(
    program: Program,
    design: Data,
    values: Mapping[str, float],
    options: SamplerOptions,
    engine: Engine,
    show_progress: bool,
) -> PriorPredictive:
    """Sample with the likelihood taken out."""
    switched = replace(design, values={**design.values, program.declaration.roles.prior_only: 1})
    fit = fit_data(
        program, switched, options, priors=values, engine=engine, show_progress=show_progress
    )
    rng = np.random.default_rng([options.seed, 3])
    can = program.can(Capability.Y_REP)
    return PriorPredictive(
        program=program,
        data=fit.data,
        draws=fit.draws,
        y_rep=program.y_rep(fit.draws, fit.data, rng) if can else None,
        statistics={},
        priors=values,
        seed=options.seed,
        drawn_by=fit.record.engine.name,
        verdict=fit.diagnostics,
        notes=fit.record.notes,
    )


def _with_statistics(made: PriorPredictive, more: Mapping[str, Function]) -> PriorPredictive:
    """Compute the statistics of the implied data, and note why they may be unreliable."""
    if made.y_rep is None:
        note = (
            f"the data that the prior implies are not shown, as {made.name} has no y_rep: "
            f"{Capability.Y_REP.remedy}"
        )
        return replace(made, notes=(*made.notes, note))
    rows = made.y_rep.reshape(-1, made.y_rep.shape[-1])
    found: dict[str, FloatArray] = {}
    with np.errstate(over="ignore", invalid="ignore"):
        for name, statistic in {**_usual(made.data, made.program.counts), **more}.items():
            values = np.asarray(statistic(rows), dtype=np.float64)
            if values.shape != (len(rows),):
                raise ConfigError(
                    f"statistic {name}: it must return a number for each of {len(rows)} draws, "
                    f"shape ({len(rows)},), and returned shape {values.shape}"
                )
            # ∞ − ∞ is what an overflow leaves of a spread.
            found[name] = np.where(np.isnan(values), np.inf, values).reshape(made.y_rep.shape[:2])
    notes = list(made.notes)
    beyond = int(np.count_nonzero(~np.isfinite(rows).all(axis=-1)))
    if beyond:
        notes.append(
            f"{beyond} of {len(rows)} draws imply values that no floating-point number holds: the "
            "prior is far too wide for such data"
        )
    if made.verdict is not None and not made.verdict.passed:
        notes.append(
            "the diagnostics of these draws fail, so the chains may not have seen the whole prior; "
            "narrower priors are easier to sample"
        )
    return replace(made, statistics=found, notes=tuple(notes))


WIDE = 0.98
"""Probability of the wider interval: how far the prior goes at all."""


def _usual(data: Data, counts: bool) -> dict[str, Function]:
    names = ["mean", "sd", "minimum", "maximum", *(["zeros"] if counts else [])]
    called = {"zeros": STATISTICS["zeros"].meaning}
    usual = {called.get(name, name): STATISTICS[name].function for name in names}
    groups = data.by_group
    if groups is not None and len(groups) > 1 and len(groups) < data.num_obs:
        by_group = np.zeros((data.num_obs, len(groups)))
        by_group[np.arange(data.num_obs), groups.codes] = 1 / groups.counts[groups.codes]
        usual[f"sd of {groups.column} means"] = lambda y: (y @ by_group).std(axis=1, ddof=1)
    return usual


def quantile_table(values: Mapping[str, FloatArray], index: str, interval: float) -> pd.DataFrame:
    """Return a row of quantiles for each name: the median and the ends of two intervals.

    Parameters
    ----------
    values : mapping of str to array
        Draws by name, of any shape.
    index : str
        What the names are.
    interval : float
        Probability of the interval that is shown beside that of 98%.
    """
    quantiles = interval_quantiles(WIDE, interval)
    probs = list(quantiles.values())
    rows = [np.quantile(np.ravel(each), probs, method="inverted_cdf") for each in values.values()]
    names = pd.Index(list(values), name=index)
    return pd.DataFrame(np.reshape(rows, (-1, len(probs))), index=names, columns=list(quantiles))


def _is_own(record: Mapping[str, Any]) -> bool:
    return {"prior_of", "seed"} <= record.keys()


PRIOR_FOLDER = FolderKind("--out", "prior.json", "prior", _is_own)


def save_prior(
    prior: PriorPredictive, folder: str | Path, plots: Mapping[str, Any] | None = None
) -> Path:
    """Write the draws and their tables.

    Parameters
    ----------
    prior : PriorPredictive
        What to write.
    folder : str or Path
        Where to; what an earlier ``pyflowers prior`` wrote there is replaced.
    plots : mapping of str to matplotlib.figure.Figure, optional
        Figures by file name.

    Raises
    ------
    ConfigError
        If the folder holds something else, or cannot be written.
    """
    record = {
        "prior_of": prior.name,
        "program_sha256": prior.program.source.sha256,
        "design": prior.data.source,
        "priors": dict(prior.priors),
        "seed": prior.seed,
        "drawn_by": prior.drawn_by,
        "notes": list(prior.notes),
    }
    with new_folder(folder, PRIOR_FOLDER) as new:
        (new / "draws.nc").write_bytes(inference_data.to_bytes(groups(prior)))
        prior.summary().to_csv(new / "parameters.csv")
        prior.implied().to_csv(new / "implied.csv")
        (new / "prior.json").write_text(json.dumps(record), encoding="utf-8")
        (new / "plots").mkdir()
        for name, figure in (plots or {}).items():
            figure.savefig(new / "plots" / name, dpi=150)
    return Path(folder)


def groups(prior: PriorPredictive) -> dict[str, xr.Dataset]:
    """Return the draws as the groups of an ``InferenceData``."""
    found = inference_data.to_groups(prior.program, prior.data, {}, {})
    made = {"prior": prior.parameters, "constant_data": found["constant_data"]}
    if prior.y_rep is not None and prior.data.num_obs:
        made["prior_predictive"] = inference_data.pointwise(prior.y_rep, prior.data)
    return made
