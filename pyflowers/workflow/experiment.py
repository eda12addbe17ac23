"""Run an experiment: refit models that changed, reuse the other runs, and report why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyflowers.engines import Engine, LoadedProgram, find_engine, refuse_unused
from pyflowers.errors import ConfigError, DataError, FitError, PyflowersError
from pyflowers.fits.fit import Fit, fit_of
from pyflowers.fits.folder import (
    FILE,
    PLOTS,
    RunRecord,
    check_run_folder,
    plain_inits,
    read_record,
    reading_run,
    refuse_to_replace,
    run_changes,
)
from pyflowers.fits.posterior import element_names
from pyflowers.fits.sampling import engine_record, fit_data
from pyflowers.fits.spec import SAMPLER, Sampling, Spec
from pyflowers.programs import Capability, Data, Program, find_program
from pyflowers.workflow.config import Experiment

if TYPE_CHECKING:
    from pyflowers.analysis.methods import Comparison

MOST_ELEMENTS = 130
"""Largest number of quantities for which methods are compared, as exact posteriors are slow."""


@dataclass(frozen=True)
class ModelOutcome:
    """The outcome of one model of an experiment.

    Attributes
    ----------
    name : str
        The program's name.
    folder : Path
        Its run folder.
    fit : Fit or None
        The fit; None if the program cannot be fitted to the data.
    refused : str
        The reason why the program cannot be fitted to the data, or empty.
    refitted : tuple of str
        The reasons for the fit; empty if an earlier run was still valid.
    """

    name: str
    folder: Path
    fit: Fit | None
    refused: str = ""
    refitted: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Task:
    """One program of an experiment with its data and priors.

    A task is `refused` (for a reason), must be fitted (for `reasons`), or has an `earlier` fit that
    is still valid.
    """

    spec: Spec
    program: Program
    data: Data
    priors: dict[str, float]
    folder: Path
    refused: str = ""
    reasons: tuple[str, ...] = ()
    earlier: Fit | None = None


def run_experiment(
    experiment: Experiment,
    *,
    cmdstan: str | Path | None = None,
    refit_changed: bool = True,
    overwrite: bool = False,
    show_progress: bool = False,
    announce: Callable[[str], object] = lambda _: None,
    finished: Callable[[ModelOutcome], object] = lambda _: None,
) -> list[ModelOutcome]:
    """Fit each model of an experiment, or reuse its earlier run if nothing changed.

    Every run is saved as soon as it ends, so that a later failure does not lose it.

    Parameters
    ----------
    experiment : Experiment
        The models, data, priors, options and folders.
    cmdstan : str or Path, optional
        See :func:`pyflowers.toolchain.find_cmdstan`.
    refit_changed : bool
        Whether to replace a run of the same program if its other inputs have changed.
    overwrite : bool
        Whether to replace any earlier run.
    show_progress : bool
        Whether to draw a bar for each chain.
    announce : callable, optional
        Function that is called for each model with a line: the reason for the fit, or the earlier
        run that is used.
    finished : callable, optional
        Function that is called with the outcome of each model, after any run folder is written.

    Raises
    ------
    PyflowersError
        If the data cannot be read, a run must not be replaced, or a fit does not finish. If a
        program refuses data that can be read, this is an outcome and not an error.
    """
    tasks = _tasks(experiment)
    engine = find_engine(experiment.sampler.engine, cmdstan)
    given = [name for name in Sampling.model_fields if name in tasks[0].spec.model_fields_set]
    refuse_unused(engine.name, {*engine.uses, "engine"}, given)
    tasks = [_with_reasons(task, engine) for task in tasks]
    for task in () if overwrite else tasks:
        _refuse_to_lose(task, refit_changed)
    outcomes = []
    for task in tasks:
        outcome = _run(task, experiment, engine, show_progress, announce)
        plots = experiment.output.plots
        has_figures = plots == "none" or any((task.folder / PLOTS).glob(f"*.{plots}"))
        if outcome.fit is not None and (outcome.refitted or not has_figures):
            save(outcome.fit, task.folder, plots, overwrite=True)
        finished(outcome)
        outcomes.append(outcome)
    return outcomes


def save(fit: Fit, folder: Path, plots: str, *, overwrite: bool = False) -> None:
    """Write a run folder with its figures.

    Parameters
    ----------
    fit : Fit
        The fit.
    folder : Path
        The folder.
    plots : str
        Format of the figures: ``png``, ``svg`` or ``pdf``. With ``none``, no figures are drawn and
        Matplotlib is not imported.
    overwrite : bool
        Whether to replace a run with other inputs.

    Raises
    ------
    ConfigError
        If the folder holds other files or a run with other inputs, or cannot be written.
    FitError
        If a figure cannot be drawn. The run is then saved without figures.
    """
    if plots == "none":
        fit.save(folder, overwrite=overwrite)
        return
    from pyflowers.plots import run_images

    try:
        images = run_images(fit, plots)
    except Exception as error:
        fit.save(folder, overwrite=overwrite)
        raise FitError(
            f"{folder}: the run is saved, but its figures could not be drawn "
            f"({type(error).__name__}: {error}); report this, and meanwhile use --plots none"
        ) from error
    fit.save(folder, images, overwrite=overwrite)


def compare_all(fits: Sequence[Fit]) -> dict[str, Comparison | str]:
    """Compare fits with closed-form VB, for a report; skip programs that do not offer it.

    If a fit cannot be compared, its value is the reason. Only ``pyflowers compare`` runs Stan's
    approximations, because they are poor for most posteriors.
    """
    from pyflowers.analysis.methods import compare

    found: dict[str, Comparison | str] = {}
    for fit in fits:
        num = len(element_names(fit.posterior))
        if not fit.program.can(Capability.VB):
            continue
        if num > MOST_ELEMENTS:
            found[fit.name] = (
                f"comparing {num} quantities takes too long in a report; run pyflowers compare"
            )
            continue
        try:
            found[fit.name] = compare(nuts=fit, approximations=False)
        except PyflowersError as error:
            found[fit.name] = str(error)
    return found


def _tasks(experiment: Experiment) -> list[_Task]:
    """Open all programs, and read and check their data, before the first chain runs."""
    opened = [(spec, spec.open()) for spec in experiment.specs()]
    for name in experiment.priors.keys() - {program.name for _, program in opened}:
        find_program(name).resolve_priors(experiment.priors[name])
    tasks = []
    for spec, program in opened:
        folder = experiment.output.folder / program.name
        check_run_folder(folder)
        data = spec.read(program)
        tasks.append(_Task(spec, program, data, program.resolve_priors(spec.priors, data), folder))
    return tasks


def _with_reasons(task: _Task, engine: Engine) -> _Task:
    """Determine whether a task can be fitted, whether it must be fitted, and why."""
    try:
        task.program.fill(task.data, task.priors, centered=task.spec.centered)
    except DataError as error:
        return replace(task, refused=str(error))
    loaded = engine.load(task.program)
    if not (task.folder / FILE).is_file():
        return replace(task, reasons=("there is no run yet",))
    try:
        with reading_run(task.folder) as run:
            now = (task.spec, task.program, task.data, task.priors, loaded)
            reasons = why_refit(run.record, *now)
            return replace(task, reasons=reasons, earlier=None if reasons else fit_of(run))
    except (DataError, ConfigError):
        return replace(task, reasons=("the earlier run cannot be read",))


def why_refit(
    record: RunRecord,
    spec: Spec,
    program: Program,
    data: Data,
    priors: dict[str, float],
    loaded: LoadedProgram,
) -> tuple[str, ...]:
    """Describe what has changed since a run; return nothing if the run is still valid.

    Parameters
    ----------
    record : RunRecord
        The run's ``run.json``.
    spec, program, data, priors
        The current inputs.
    loaded : LoadedProgram
        The program as loaded by the engine.
    """
    if record.program.reference != program.reference:
        return (f"the folder holds a run of {record.program.name}",)
    options = spec.model_dump(include=set(SAMPLER), exclude_unset=True)
    declared = data.declaration.model_dump(mode="json", exclude_defaults=True)
    source = {"sha256": loaded.source.sha256, "declaration": declared}
    now: dict[str, Any] = {
        "program": record.program.model_copy(update=source),
        "data": record.data.model_copy(update={"sha256": data.sha256}),
        "engine": engine_record(loaded),
        "priors": priors,
        "options": record.options.model_copy(update=options),
        "centered": record.centered if _is_as_asked(record, program, spec) else spec.centered,
        "interval": spec.interval,
        "inits": plain_inits(spec.inits),
    }
    return tuple(run_changes(record, record.model_copy(update=now)))


def _is_as_asked(record: RunRecord, program: Program, spec: Spec) -> bool:
    """Whether a run has the requested parametrisation, or none is requested."""
    if spec.centered is None:
        return True
    asked = program.parametrisation(spec.centered).items()
    return asked <= program.parametrisation(record.centered).items()


def _refuse_to_lose(task: _Task, refit_changed: bool) -> None:
    """Refuse to replace a run of another program or, without `refit_changed`, any changed run."""
    if not task.reasons or not (task.folder / FILE).is_file():
        return
    with suppress(DataError):  # a run that cannot be read may belong to the experiment
        refit_changed &= read_record(task.folder).program.reference == task.program.reference
    if not refit_changed:
        refuse_to_replace(task.folder, task.reasons)


def _run(
    task: _Task,
    experiment: Experiment,
    engine: Engine,
    show_progress: bool,
    announce: Callable[[str], object],
) -> ModelOutcome:
    name = task.program.name
    if task.refused:
        return ModelOutcome(name, task.folder, None, refused=task.refused)
    if task.earlier is not None:
        announce(f"{name}: not refitted, because nothing changed; read from {task.folder}")
        found = task.earlier.with_interval(experiment.interval)
        if found is not task.earlier:  # the draws are the same, but the summary and figures differ
            save(found, task.folder, experiment.output.plots)
        return ModelOutcome(name, task.folder, found)
    announce(f"{name}: fitted, because {'; '.join(task.reasons)}")
    done = fit_data(
        task.program,
        task.data,
        task.spec.options(),
        priors=task.priors,
        centered=task.spec.centered,
        engine=engine,
        inits=task.spec.inits,
        interval=task.spec.interval,
        show_progress=show_progress,
    )
    done = replace(done, folder=task.folder)
    return ModelOutcome(name, task.folder, done, refitted=task.reasons)
