"""``pyflowers.fit``, which samples the posterior of a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.checked import whole_number
from pyflowers.display import INTERVAL, interval_quantiles
from pyflowers.engines import (
    Engine,
    LoadedProgram,
    Sample,
    SamplerOptions,
    refuse_unused,
)
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.fits.folder import (
    DataRecord,
    EngineRecord,
    ProgramRecord,
    RunRecord,
    TimesRecord,
    package_versions,
    plain_inits,
)
from pyflowers.fits.posterior import dataset, element_names, kept_elements, without_draws
from pyflowers.fits.spec import INPUTS, Spec, takes_inputs
from pyflowers.programs import Data, Program
from pyflowers.progress import heartbeat

_UNSET = -(2.0**31)
"""Stan's value for an ``int`` that a program declares but never sets."""


@takes_inputs(*INPUTS)
def fit(
    program: str | Path | Program | Spec,
    data: Any = None,
    *,
    cores: int | None = None,
    show_progress: bool = False,
    before_sampling: Callable[[RunRecord], object] = lambda _: None,
    **inputs: Any,
) -> Fit:
    """Sample the posterior of a program.

    The sampler is Stan's NUTS. The engine ``exact`` instead makes independent draws, for programs
    whose posterior allows it.

    Parameters
    ----------
    program : str, Path, Program or Spec
        The name of a shipped program, the path of a ``.stan`` file with its declaration in the same
        folder, or a formula such as ``"flowers ~ 1 + (1 | plant)"``; see
        :meth:`pyflowers.Program.from_formula`. Or all of the question, as a
        :class:`pyflowers.Spec`, of which other inputs that are given change their own.
    data : path, DataFrame, Table, mapping or Data, optional
        A tidy table, or the data block as CmdStan JSON or a mapping. Default: the program's example
        table.
    cores : int, optional
        Number of cores, for chains that run at the same time or for independent draws. Default:
        all usable cores.
    show_progress : bool
        Whether to show progress bars on the terminal, one for each chain if there are chains.
    before_sampling : callable, optional
        Function that is called with the record of the inputs before sampling starts. An exception
        that it raises prevents the sampling.
    **inputs

    Returns
    -------
    Fit
        The draws with the user's labels, their summary and the verdict.

    Raises
    ------
    PyflowersError
        :class:`DataError`, :class:`ConfigError`, :class:`ToolchainError`, :class:`CompileError`
        or :class:`FitError`, with one sentence that names the remedy.

    See Also
    --------
    pyflowers.check : Compare the data with data that the fit predicts.
    pyflowers.batch : Fit many programs or tables, without losing results.

    Examples
    --------
    A shipped program, fitted to its example table:

    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="stanli")
    >>> print(fit.verdict.sentence)
    the sampling converged
    >>> fit.posterior["mu_plant"].dims
    ('chain', 'draw', 'plant')

    A formula, fitted to a table. The rats gain about 6 g a day:

    >>> fit = pyflowers.fit(
    ...     "weight ~ age + (age | rat)", "examples/rats/rats.csv", seed=1, engine="stanli"
    ... )
    >>> print(fit.summary().loc["b[age]", "mean"].round(1))
    6.2
    """
    spec = Spec.of_call(program, data, **inputs).with_table()
    opened = spec.open()
    read = spec.read(opened)
    # Errors in the data or the priors are reported before CmdStan is searched for or built.
    opened.fill(read, opened.resolve_priors(spec.priors, read), centered=spec.centered)
    return fit_data(
        opened,
        read,
        spec.options(),
        priors=spec.priors,
        centered=spec.centered,
        engine=spec.find_engine(),
        inits=spec.inits,
        cores=cores,
        interval=spec.interval,
        show_progress=show_progress,
        before_sampling=before_sampling,
    )


def fit_data(
    program: Program,
    data: Data,
    options: SamplerOptions,
    *,
    priors: Mapping[str, float] | None = None,
    centered: bool | Mapping[str, bool] | None = None,
    engine: Engine,
    inits: Any = None,
    cores: int | None = None,
    interval: float = INTERVAL,
    show_progress: bool = False,
    before_sampling: Callable[[RunRecord], object] = lambda _: None,
) -> Fit:
    """Sample the posterior of an open program with data that have been read.

    Every other function that fits calls this one.

    Parameters
    ----------
    program : Program
        The program.
    data : Data
        Its data, as :meth:`pyflowers.Program.read` returns them.
    options : SamplerOptions
        The sampler's options.
    priors, centered, inits, cores, interval, show_progress, before_sampling
        See :func:`fit`.
    engine : Engine
        The engine, as returned by :func:`pyflowers.engines.find_engine`.

    Returns
    -------
    Fit
        The draws with the user's labels, their summary and the verdict.

    Raises
    ------
    PyflowersError
        See :func:`fit`.
    """
    about = {"centered": centered, "inits": inits, "cores": cores}
    interval_quantiles(interval)  # refuses an invalid probability before anything is drawn
    given = [*options.model_fields_set, *(k for k, v in about.items() if v is not None)]
    refuse_unused(engine.name, engine.uses, given)
    if options.metric == "pilot" and engine.name == "cmdstan":
        raise ConfigError(
            "metric: CmdStan has no pilot runs; use --engine stanli, or leave out --metric"
        )
    values = program.resolve_priors(priors, data)
    whole, notes = program.fill(data, values, centered=centered)
    if cores is not None:
        whole_number("cores", cores)
    keep = kept_elements(options.keep, program, whole)
    chosen = program.parametrisations if "centered" in engine.uses else {}
    choices = {g: bool(whole[name]) for g, name in chosen.items() if name in whole.values}
    loaded = engine.load(program)
    inputs = RunRecord(
        program=ProgramRecord(
            name=program.name,
            reference=program.reference,
            path=str(program.path),
            sha256=program.source.sha256,
            declaration=data.declaration.model_dump(mode="json", exclude_defaults=True),
            include_paths=tuple(map(str, program.include_paths)),
            files={n: t.decode("utf-8", "replace") for n, t in program.source.files.items()},
        ),
        data=DataRecord(
            source=data.source,
            sha256=data.sha256,
            rows=len(data.table) if data.table is not None else None,
            columns=dict(data.columns),
            reading=dict(data.reading),
        ),
        engine=engine_record(loaded),
        options=options.of_engine(engine.uses),
        priors=values,
        centered=choices.get("centered", choices or None),
        inits=plain_inits(inits),
        times=TimesRecord(wall_seconds=0.0),
        interval=interval,
        packages=package_versions(),
    )
    before_sampling(inputs)
    with heartbeat(f"Sampling {program.name}"):
        sample = loaded.sample(
            program.stan_values(whole),
            options,
            cores=cores,
            inits=inits,
            keep=keep,
            interval=interval,
            show_progress=show_progress,
        )
    if sample.failures:
        most = max(sample.failures, key=sample.failures.__getitem__)
        num = sum(sample.failures.values())
        where = "1 draw" if num == 1 else f"{num} draws"
        notes = [
            *notes,
            f"the generated quantities failed in {where}, most often with the message {most!r}; "
            "they are missing there, but the parameters are kept",
        ]
    outcome = {
        "engine": engine_record(loaded),
        "notes": tuple(notes),
        "messages": None if sample.messages is None else dict(sample.messages),
        "times": TimesRecord(
            wall_seconds=sample.wall_time, chains=tuple(dict(c) for c in sample.chain_times)
        ),
        "independent": None if sample.independent is None else dict(sample.independent),
        "metric_held": sample.metric_held,
        "streamed": bool(sample.streamed),
    }
    return Fit(
        without_draws(program) if sample.streamed else program,
        whole,
        _typed(sample.draws, program),
        dict(sample.stats),
        inputs.model_copy(update=outcome),
        _streamed(sample, whole) if sample.streamed else None,
    )


def engine_record(loaded: LoadedProgram) -> EngineRecord:
    """Return the part of a record that describes the engine of a loaded program."""
    return EngineRecord(name=loaded.engine, key=loaded.key, versions=dict(loaded.versions))


def _streamed(sample: Sample, data: Data) -> pd.DataFrame:
    """Return the table of quantities that were summarised during sampling."""
    tables = []
    for name, columns in sample.streamed.items():
        num = len(next(iter(columns.values())))
        elements = element_names(dataset({name: np.empty((1, 1, num))}, data))
        tables.append(pd.DataFrame(columns, index=elements))
    return pd.concat(tables)


def _typed(draws: Mapping[str, NDArray[Any]], program: Program) -> dict[str, NDArray[Any]]:
    """Return draws in the program's order, with integers as ints unless some are missing."""
    declared = program.source.blocks.draws
    ordered = [name for name in program.kept() if name in draws]
    typed = {name: draws[name] for name in dict.fromkeys([*ordered, *draws])}
    for name, values in draws.items():
        if name in declared and declared[name].is_int:
            missing = ~np.isfinite(values) | (values == _UNSET)
            typed[name] = np.where(missing, np.nan, values) if missing.any() else values.astype(int)
    return typed
