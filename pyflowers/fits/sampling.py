"""``pyflowers.fit``, which samples the posterior of a program."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.advice import worded
from pyflowers.checked import whole_number
from pyflowers.data.columns import TypedColumn
from pyflowers.digests import digest_of
from pyflowers.display import INTERVAL
from pyflowers.engines import AutoEngine, Engine, Identity, Sample, SamplerOptions, refuse_unused
from pyflowers.engines.base import ESTIMATED, LARGEST_SEED, ChainProgress, State, read_inits
from pyflowers.errors import ConfigError, DataError, PyflowersError
from pyflowers.fits.fit import Fit, fit_of
from pyflowers.fits.folder import (
    FILE,
    DataRecord,
    ProgramRecord,
    RunRecord,
    StartRecord,
    TimesRecord,
    check_run_folder,
    package_versions,
    plain_inits,
    read_record,
    reading_run,
    refuse_other_run,
    run_changes,
)
from pyflowers.fits.imputed import (
    PooledFit,
    check_pooled_folder,
    numbered_tables,
    write_summary,
)
from pyflowers.fits.key import EngineRecord, column_digests, variable_digests
from pyflowers.fits.posterior import dataset, element_names, kept_elements, without_draws
from pyflowers.fits.spec import INPUTS, SAMPLER, Spec, takes_inputs
from pyflowers.fits.states import END, START, check_start
from pyflowers.programs import Data, Program
from pyflowers.progress import duration, heartbeat, logger
from pyflowers.records import as_path
from pyflowers.text import counted

SECONDS_LONG = 30.0
"""The expected time of NUTS, in seconds, above which the engine ``exact`` is suggested."""

SECONDS_FIRST = 10.0
"""The elapsed time, in seconds, after which the time for all iterations is estimated."""

_STARTED = (
    "the chains started from the last states of {}, with a short warm-up; R-hat shows whether they "
    "disagree, but cannot show a mode of the posterior that no chain of that fit had reached"
)
"""The note on a fit whose chains started from another fit."""

_UNSET = -(2.0**31)
"""Stan's value for an ``int`` that a program declares but never sets."""


@overload
def fit(
    program: str | Path | Program | Spec, data: list[Any] | tuple[Any, ...], **inputs: Any
) -> PooledFit: ...


@overload
def fit(program: str | Path | Program | Spec, data: Any = None, **inputs: Any) -> Fit: ...


@takes_inputs(*INPUTS)
def fit(
    program: str | Path | Program | Spec,
    data: Any = None,
    *,
    out: str | Path | None = None,
    refit: bool = False,
    overwrite: bool = False,
    cores: int | None = None,
    show_progress: bool = False,
    **inputs: Any,
) -> Fit | PooledFit:
    """Fit a formula, a shipped model or a Stan program.

    The sampler is Stan's NUTS. The engine ``exact`` needs no Markov chain: it makes independent
    draws for programs that have a :class:`ClosedForm`, such as the shipped ones, and weighted draws
    for the formulas to which it applies.

    Parameters
    ----------
    program : str, Path, Program or Spec
        The name of a shipped program, the path of a ``.stan`` file with its declaration in the same
        folder, or a formula such as ``"flowers ~ 1 + (1 | plant)"``; see
        :meth:`pyflowers.Program.from_formula`. Or a :class:`pyflowers.Spec` with all inputs at
        once; inputs that are also given here replace those of the Spec.
    data : path, DataFrame, Table, mapping or Data, optional
        A tidy table, or the data block as CmdStan JSON or a mapping. Default: the program's example
        table. A list of completed versions of one table, whose missing values were imputed, is
        fitted table by table, and the draws are pooled.
    out : path, optional
        Run folder to write. If it holds the fit of the same inputs, that fit is read instead. If no
        seed is given, the seed of the run in the folder is used.
    refit : bool
        Whether to refit even if `out` holds the fit of the same inputs.
    overwrite : bool
        Whether to replace a run in `out` that had other inputs, and to log what changed.
    cores : int, optional
        Number of cores, for chains that run at the same time or for draws of the engine
        ``exact``. Default: all usable cores.
    show_progress : bool
        Whether to show progress bars on the terminal, one for each chain if there are chains.
    **inputs

    Returns
    -------
    Fit
        The draws with the user's labels, their summary and the verdict. For a list of tables, a
        :class:`pyflowers.PooledFit`: the fit of each table, the pooled draws, and the verdict over
        all tables.

    Raises
    ------
    PyflowersError
        :class:`DataError`, :class:`ConfigError`, :class:`ToolchainError`, :class:`CompileError`
        or :class:`FitError`, whose message states in one sentence what is wrong and how to fix it.

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
    ...     "weight ~ age + (age | rat)", "example:rats", seed=1, engine="stanli"
    ... )
    >>> print(fit.summary().loc["b[age]", "mean"].round(1))
    6.2

    A second call with the same inputs reads the run:

    >>> for _ in range(2):
    ...     fit = pyflowers.fit("iid_normal", engine="exact", out="runs/iid")
    >>> fit.folder
    PosixPath('runs/iid')
    """
    how: dict[str, Any] = {
        "refit": refit,
        "overwrite": overwrite,
        "cores": cores,
        "show_progress": show_progress,
    }
    folder = None if out is None else as_path(out, "out")
    if isinstance(data, list | tuple):
        return _fit_tables(program, data, folder, inputs, how)
    spec = Spec.of_call(program, data, **inputs)
    if folder is None:
        return _fit_once(prepare_spec(spec), spec, folder, **how)
    check_run_folder(folder)
    return _fit_once(prepare_spec(as_in_folder(spec, folder)), spec, folder, **how)


def _fit_once(
    prepared: Prepared,
    spec: Spec,
    folder: Path | None,
    *,
    refit: bool,
    overwrite: bool,
    cores: int | None,
    show_progress: bool,
) -> Fit:
    """Sample a prepared fit and write its run folder, or read a fit of the same inputs from it."""
    if folder is None:
        return prepared.sample(cores=cores, show_progress=show_progress)
    found = prepared.reused(folder, refit=refit, overwrite=overwrite)
    if found is not None:
        return found.with_interval(spec.interval).with_name(spec.name)
    if line := about_engine(spec, folder, prepared.engine):
        logger.info(line)
    made = prepared.sample(cores=cores, show_progress=show_progress)
    made.save(folder, overwrite=overwrite)
    return replace(made, folder=folder)


def _fit_tables(
    program: Any,
    tables: Sequence[Any],
    out: Path | None,
    inputs: Mapping[str, Any],
    how: Mapping[str, Any],
) -> PooledFit:
    """Fit one program to each of several completed tables, each with its own seed."""
    opened, prepared = None, list[tuple[Prepared, Spec, Path | None]]()
    seed: int | None = None
    if out is not None:
        check_pooled_folder(out, len(tables))
    for number, table in numbered_tables(tables):
        spec = Spec.of_call(program, table, **inputs)
        spec.refuse(["keep"], "does not apply to completed tables, whose draws are pooled")
        folder = None
        if out is not None:
            folder = out / f"table-{number}"
            check_run_folder(folder)
            spec = as_in_folder(spec, folder)
        try:
            spec = spec.with_table()
            # The priors of a formula are on the scale of its table, so those of the first table
            # are used for all.
            opened = opened or spec.open()
            seed = spec.options().seed if seed is None else seed
            spec = Spec.of_call(spec, seed=(seed + number - 1) % (LARGEST_SEED + 1))
            prepared.append((prepare(spec, opened, spec.read(opened)), spec, folder))
        except PyflowersError as error:
            raise type(error)(f"table {number}: {error}") from error
        num, first = prepared[-1][0].data.num_obs, prepared[0][0].data.num_obs
        if num != first:
            raise DataError(
                f"table {number} has {counted(num, 'observation')}, but table 1 has {first}; give "
                "completed versions of one table"
            )
    for each, _, folder in prepared:  # before the first is sampled
        if folder is not None and not how["overwrite"]:
            refuse_other_run(folder, each.record)
    fits = tuple(_fit_once(each, spec, folder, **how) for each, spec, folder in prepared)
    pooled = PooledFit(fits)
    if out is not None:
        write_summary(pooled, out)
    return pooled


def fit_data(
    program: Program,
    data: Data,
    options: SamplerOptions,
    *,
    priors: Mapping[str, float | str] | None = None,
    centered: bool | Mapping[str, bool] | None = None,
    engine: Engine,
    inits: Any = None,
    cores: int | None = None,
    interval: float = INTERVAL,
    show_progress: bool = False,
) -> Fit:
    """Sample the posterior of an open program with data that have been read.

    Parameters
    ----------
    program : Program
        The program.
    data : Data
        Its data, as :meth:`pyflowers.Program.read` returns them.
    options : SamplerOptions
        The sampler's options.
    priors, centered, inits, cores, interval, show_progress
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
    about = {"priors": priors, "centered": centered, "inits": inits, "interval": interval}
    given = options.model_dump(exclude_unset=True)
    spec = Spec(program, data, engine=engine, **about, **given)
    return prepare(spec, program, data).sample(cores=cores, show_progress=show_progress)


def as_in_folder(spec: Spec, folder: Path) -> Spec:
    """Return inputs; if no seed or engine is given, use those of the run in a folder.

    The same inputs then match their earlier run, even if the program has since been compiled.
    """
    if not (folder / FILE).is_file():
        return spec
    try:
        record = read_record(folder)
    except DataError:
        return spec
    inputs: dict[str, Any] = {}
    if spec.seed is None:
        inputs["seed"] = record.options.seed
    if spec.engine == "auto" and spec.cmdstan is None and record.engine.name == AutoEngine.name:
        inputs["engine"] = AutoEngine()
    return Spec.of_call(spec, **inputs)


def about_engine(spec: Spec, folder: Path, engine: Engine) -> str:
    """Return a note if no engine was named and the last run next to a folder used another one."""
    if spec.engine != "auto":
        return ""
    try:
        last = max(folder.parent.glob(f"*/{FILE}"), key=lambda path: path.stat().st_mtime).parent
        before = read_record(last).engine.name
    except (DataError, OSError, ValueError):  # another process may replace it; there may be none
        return ""
    if before == engine.name:
        return ""
    return (
        f"engine: this fit uses {engine.name}, but the last fit next to it, {last}, used {before}; "
        f"to choose one, {worded('use --engine')}"
    )


def prepare_spec(spec: Spec) -> Prepared:
    """Open the program, read the data and check both; see :func:`prepare`."""
    spec = spec.with_table()
    program = spec.open()
    return prepare(spec, program, spec.read(program))


def prepare(spec: Spec, program: Program, data: Data, engine: Engine | None = None) -> Prepared:
    """Complete the data block and check everything that can be checked before sampling.

    Parameters
    ----------
    spec : Spec
        The inputs.
    program : Program
        Its program, as :meth:`pyflowers.Spec.open` returns it.
    data : Data
        Its data, as :meth:`pyflowers.Spec.read` returns them.
    engine : Engine, optional
        The engine. Default: the engine of `spec`.

    Raises
    ------
    PyflowersError
        See :func:`fit`.
    """
    priors = program.resolve_priors(spec.priors, data)
    whole, notes = program.fill(data, priors, centered=spec.centered)
    # The engine comes last: errors in the data or the priors are reported before CmdStan is built.
    used = engine or spec.find_engine(program)
    options = spec.options()
    if isinstance(spec.inits, State):
        check_start(spec.inits, program, program.stan_values(whole), options, used)
        notes = [*notes, _STARTED.format(spec.inits.fit)]
    run_by = (*SAMPLER, "centered", "inits")
    refuse_unused(used.name, used.uses, [n for n in run_by if n in spec.model_fields_set])
    if options.metric in ESTIMATED and used.name == "cmdstan":
        raise ConfigError(
            f"metric: CmdStan does not have {options.metric}; "
            + worded("use --engine stanli, or leave out --metric")
        )
    return Prepared(
        program,
        whole,
        tuple(notes),
        priors,
        options,
        used,
        inits=spec.inits,
        interval=spec.interval,
        name=spec.name or "",
    )


@dataclass(frozen=True, eq=False)
class Prepared:
    """A fit that is ready to be sampled: everything that determines its draws is known.

    Attributes
    ----------
    program : Program
        The program.
    data : Data
        The whole data block.
    notes : tuple of str
        Notes on the data.
    priors : mapping of str to float
        All hyperparameters.
    options : SamplerOptions
        The options of the sampler.
    engine : Engine
        The engine.
    inits
        Initial values, as they were given, or the :class:`State` at which the chains start.
    interval : float
        Probability of the intervals in tables and figures.
    name : str
        The name of the fit; empty if it is called by its formula or program.
    """

    program: Program
    data: Data
    notes: tuple[str, ...]
    priors: dict[str, float]
    options: SamplerOptions
    engine: Engine
    inits: Any = None
    interval: float = INTERVAL
    name: str = ""

    @property
    def called(self) -> str:
        """The name of the fit in messages."""
        return self.name or self.program.called

    @cached_property
    def record(self) -> RunRecord:
        """The record of the inputs, made without compiling or sampling."""
        return self.record_with(self.engine.identify(self.program))

    def record_with(self, identity: Identity) -> RunRecord:
        """Return the record of the inputs, given the identity of the program and its engine."""
        program, whole, engine = self.program, self.data, self.engine
        block = program.stan_values(whole)
        others = {*program.declaration.prior_elements, *program.parametrisations.values()}
        return RunRecord(
            program=ProgramRecord(
                name=program.name,
                reference=program.reference,
                path=str(program.path),
                sha256=program.source.sha256,
                declaration=whole.declaration.model_dump(mode="json", exclude_defaults=True),
                include_paths=tuple(map(str, program.include_paths)),
                files={n: t.decode("utf-8", "replace") for n, t in program.source.files.items()},
            ),
            data=DataRecord(
                source=whole.source,
                sha256=whole.sha256,
                rows=None if whole.table is None else len(whole.table),
                columns=dict(whole.columns),
                cells=column_digests(whole),
                variables=variable_digests(block, others),
                reading=dict(whole.reading),
                **_levels_of(whole),
            ),
            engine=_engine_record(identity),
            options=self.options.of_engine(engine.uses),
            priors=self.priors,
            centered=self._parametrisation(),
            **self._start(),
            times=TimesRecord(wall_seconds=0.0),
            interval=self.interval,
            name=self.name,
            packages=package_versions(),
        )

    def _start(self) -> dict[str, Any]:
        """Return the fields of a record that describe the initial values."""
        if isinstance(self.inits, State):
            warmup = self.inits.shortened(self.options).warmup
            about = StartRecord(fit=self.inits.fit, warmup=warmup)
            return {"inits_sha256": self.inits.sha256, "start": about}
        read = plain_inits(read_inits(self.inits))
        return {"inits": plain_inits(self.inits), "inits_sha256": digest_of(read)}

    def _parametrisation(self) -> bool | dict[str, bool] | None:
        """Return whether the effects are centred, by group if each group has its own choice."""
        if "centered" not in self.engine.uses:
            return None
        choices, values = self.program.parametrisations, self.data.values
        chosen = {group: bool(values[name]) for group, name in choices.items() if name in values}
        if choices == {"centered": "centered"}:  # one choice for all groups
            return chosen.get("centered")
        return chosen or None

    def reused(
        self,
        folder: Path,
        *,
        refit: bool,
        overwrite: bool,
        announce: Callable[[str], object] = logger.info,
    ) -> Fit | None:
        """Return the fit in a run folder if its draws would be the same, or None to sample anew.

        Parameters
        ----------
        folder : Path
            The run folder.
        refit : bool
            Whether to sample even if the draws would be the same.
        overwrite : bool
            Whether a run with other inputs may be replaced.
        announce : callable
            Function that is called with a message, which states that the fit is reused or what has
            changed.

        Raises
        ------
        ConfigError
            If the folder holds a run that must not be replaced; the message states what changed.
        """
        if not (folder / FILE).is_file():
            return None
        found, reasons = self.stored(folder)
        if found is not None and not refit:
            announce(
                f"{self.called}: not refitted, because nothing changed; read from {folder} "
                + worded("(to refit it, use --refit)")
            )
            return found
        if not overwrite:
            refuse_other_run(folder, self.record)
        if reasons:
            announce(f"{self.called}: refitted, because {'; '.join(reasons)}")
        return None

    def stored(self, folder: Path) -> tuple[Fit | None, tuple[str, ...]]:
        """Return the fit in a run folder if its draws would be the same, or the reasons why not."""
        if not (folder / FILE).is_file():
            return None, ("there is no run yet",)
        now = self.record  # raises an error if the engine cannot run the program
        try:
            with reading_run(folder) as run:
                changes = run_changes(run.record, now)
                if changes:
                    return None, tuple(changes)
                return fit_of(run), ()
        except (DataError, ConfigError):
            return None, ("the earlier run cannot be read",)

    def sample(self, *, cores: int | None = None, show_progress: bool = False) -> Fit:
        """Sample the posterior; see :func:`fit`."""
        program, options = self.program, self.options
        if cores is not None:
            refuse_unused(self.engine.name, self.engine.uses, ["cores"])
            whole_number("cores", cores)
        keep = kept_elements(options.keep, program, self.data)
        loaded = self.engine.load(program)
        inputs, watch = self.record_with(loaded), None
        if threading.current_thread() is threading.main_thread():  # other threads run many fits
            watch = _Pace(self.called, program, self.data, options.chains, time.monotonic())
        # An engine with chains draws a bar for each of them.
        has_clock = show_progress and "warmup" not in self.engine.uses
        so_far = str if watch is None else watch.so_far
        with heartbeat(f"Sampling {self.called}", has_clock=has_clock, so_far=so_far):
            sample = loaded.sample(
                program.stan_values(self.data),
                options,
                cores=cores,
                inits=self.inits,
                keep=keep,
                interval=self.interval,
                show_progress=show_progress,
                watch=watch,
            )
        outcome = {
            # The engine auto may have chosen CmdStan.
            "engine": _engine_record(loaded),
            "notes": (*self.notes, *_notes_on(sample)),
            "messages": _as_dict(sample.messages),
            "times": TimesRecord(
                wall_seconds=sample.wall_time, chains=tuple(dict(c) for c in sample.chain_times)
            ),
            "independent": _as_dict(sample.independent),
            "weighted": sample.weighted,
            "metric_held": sample.metric_held,
            "streamed": bool(sample.streamed),
        }
        record = inputs.model_copy(update=outcome)
        draws, stats = _typed(sample.draws, program), dict(sample.stats)
        if not sample.streamed:
            states = dict[str, State]()
            if sample.end is not None:
                states[END] = sample.end
            if isinstance(self.inits, State):
                states[START] = self.inits
            return Fit(program, self.data, draws, stats, record, states=states)
        summaries = _streamed(sample, self.data)
        return Fit(without_draws(program), self.data, draws, stats, record, summaries)


@dataclass
class _Pace:
    """Reports how far the chains are and, once, that the engine ``exact`` avoids a long wait.

    It is called with the progress of the chains; see :data:`pyflowers.engines.base.Watch`.
    """

    called: str
    program: Program
    data: Data
    num_chains: int
    started: float
    chains: Sequence[ChainProgress] = ()
    is_settled: bool = False

    @property
    def share(self) -> float:
        """An upper limit for the share of all iterations that are done."""
        return sum(its.iteration / its.total for its in self.chains) / self.num_chains

    def so_far(self) -> str:
        """Return the time left, once a chain has done its warm-up, and a line for each chain."""
        chains, left = self.chains, ""
        if not all(its.is_warmup for its in chains):
            seconds, share = time.monotonic() - self.started, self.share
            left = f", about {duration(seconds * (1 - share) / share)} left"
        return "".join([left, *(f"\n  chain {its.chain}: {_in_words(its)}" for its in chains)])

    def __call__(self, chains: Sequence[ChainProgress]) -> None:
        self.chains = chains
        seconds, share = time.monotonic() - self.started, self.share
        if self.is_settled or seconds < SECONDS_FIRST or seconds <= share * SECONDS_LONG:
            return
        self.is_settled = True
        from pyflowers.engines.integrated import applies_to

        if applies_to(self.program, self.program.stan_values(self.data)):
            logger.warning(
                "%s: judging by its first iterations, NUTS will take longer than %d seconds; the "
                "engine exact, which needs no Markov chain, applies to this formula: %s",
                self.called,
                SECONDS_LONG,
                worded("--engine exact"),
            )


def _in_words(progress: ChainProgress) -> str:
    """Return how far a chain is; the iterations of a warm-up may be unknown."""
    done = f"{progress.iteration:,} of {progress.total:,} iterations"
    if not progress.is_warmup:
        return f"{done}, warm-up done"
    if progress.is_exact:
        return f"{done}, warm-up"
    return "warm-up"


def _levels_of(data: Data) -> dict[str, Any]:
    """Return the fields of a record for the levels of the response and of covariates.

    The levels of groups are needed only if one of them, such as ``NA``, looks like a missing value.
    """
    table, declared = data.table, data.declaration
    if table is None:
        return {}
    used = [data.name_of(column) for column in (*declared.transformed, data.value)]
    levels = {
        name: its
        for name, its in table.levels.items()
        if name in used or TypedColumn.of_labels(its).is_missing(None).any()
    }
    for column in declared.transformed:
        name = data.name_of(column)
        if column not in declared.levels and table.column(name).dtype.kind == "O":
            factor = table.numbers_or_factor(name, is_mixed=True)
            if isinstance(factor, pd.Categorical):
                levels.setdefault(name, tuple(map(str, factor.categories)))
    return {"levels": levels, "ordered": tuple(name for name in table.ordered if name in used)}


def _engine_record(identity: Identity) -> EngineRecord:
    """Return the part of a record that describes the engine of a program."""
    return EngineRecord(name=identity.engine, key=identity.key, versions=dict(identity.versions))


def _notes_on(sample: Sample) -> list[str]:
    """Return a note on the draws whose generated quantities failed, if there are any."""
    if not sample.failures:
        return []
    most = max(sample.failures, key=sample.failures.__getitem__)
    where = counted(sum(sample.failures.values()), "draw")
    return [
        f"the generated quantities failed in {where}, most often with the message {most!r}; they "
        "are missing there, but the parameters are kept"
    ]


def _as_dict(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return values that an engine reported as a dict; None if it reported none."""
    if values is None:
        return None
    return dict(values)


def _streamed(sample: Sample, data: Data) -> pd.DataFrame:
    """Return the table of quantities that were summarised during sampling."""
    tables = []
    for name, columns in sample.streamed.items():
        num = len(next(iter(columns.values())))
        elements = element_names(dataset({name: np.empty((1, 1, num))}, data))
        tables.append(pd.DataFrame(columns, index=elements))
    return pd.concat(tables)


def _typed(draws: Mapping[str, NDArray[Any]], program: Program) -> dict[str, NDArray[Any]]:
    """Return draws in the program's order, with integer quantities as ints if none is missing."""
    declared = program.source.blocks.draws
    ordered = [name for name in program.kept() if name in draws]
    typed = {name: draws[name] for name in dict.fromkeys([*ordered, *draws])}
    for name, values in draws.items():
        if name in declared and declared[name].is_int:
            missing = ~np.isfinite(values) | (values == _UNSET)
            typed[name] = np.where(missing, np.nan, values) if missing.any() else values.astype(int)
    return typed
