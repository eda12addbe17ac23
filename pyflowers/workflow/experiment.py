"""Run an experiment: refit models that changed, reuse the other runs, and report why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyflowers.errors import DataError, FitError, PyflowersError
from pyflowers.fits.fit import Fit
from pyflowers.fits.folder import (
    FILE,
    PLOTS,
    ProgramRecord,
    check_run_folder,
    read_record,
    refuse_to_replace,
)
from pyflowers.fits.posterior import element_names
from pyflowers.fits.sampling import Prepared, as_in_folder, prepare
from pyflowers.fits.spec import Spec
from pyflowers.programs import Capability, Data, Program, find_program
from pyflowers.programs.program import is_formula
from pyflowers.workflow.config import Experiment

if TYPE_CHECKING:
    from pyflowers.analysis.methods import Comparison

MOST_ELEMENTS = 130
"""Largest number of quantities for which methods are compared: exact posteriors take long."""


@dataclass(frozen=True)
class ModelOutcome:
    """The outcome of one model of an experiment.

    Attributes
    ----------
    name : str
        The name of the model as it is printed: its own name, the formula, or the program's name.
    program : str
        The program's name.
    folder : Path
        The model's run folder.
    fit : Fit or None
        The fit; None if the program cannot be fitted to the data.
    refused : str
        The reason why the program cannot be fitted to the data, or empty.
    refitted : tuple of str
        The reasons for the fit; empty if an earlier run was still valid.
    """

    name: str
    program: str
    folder: Path
    fit: Fit | None
    refused: str = ""
    refitted: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Task:
    """One program of an experiment with its data.

    A task is `refused` (for a reason), must be fitted (for `reasons`), or has an `earlier` fit that
    is still valid.
    """

    spec: Spec
    program: Program
    data: Data
    folder: Path
    refused: str = ""
    prepared: Prepared | None = None
    reasons: tuple[str, ...] = ()
    earlier: Fit | None = None

    @property
    def called(self) -> str:
        """The name of the model as it is printed."""
        return self.spec.name or self.program.called


def run_experiment(
    experiment: Experiment,
    *,
    cmdstan: str | Path | None = None,
    refit_changed: bool = True,
    refit: bool = False,
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
    refit : bool
        Whether to refit models whose inputs have not changed.
    overwrite : bool
        Whether to replace any earlier run.
    show_progress : bool
        Whether to draw a progress bar for each chain.
    announce : callable, optional
        Function that is called for each model with a message, which gives the reason for the fit or
        the earlier run that is used.
    finished : callable, optional
        Function that is called with the outcome of each model, after its run folder, if there is
        one, has been written.

    Raises
    ------
    PyflowersError
        If the data cannot be read, a run must not be replaced, or a fit does not finish. If a
        program rejects data that can be read, this is an outcome and not an error.
    """
    tasks = [_with_reasons(task, refit) for task in _tasks(experiment, cmdstan)]
    if not overwrite:
        for task in tasks:
            _refuse_to_lose(task, refit_changed)
    for task in tasks:  # all programs are compiled before the first chain runs
        if task.reasons and task.prepared is not None:
            task.prepared.engine.load(task.program)
    outcomes = []
    for task in tasks:
        outcome = _run(task, experiment, show_progress, announce)
        if outcome.fit is not None and outcome.refitted:
            save(outcome.fit, task.folder, experiment.output.plots, overwrite=True)
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


def up_to_date(fit: Fit, spec: Spec, folder: Path, plots: str) -> Fit:
    """Return the fit of a run folder with the interval and the name in `spec`.

    If they have changed, or there are no figures, the run folder is rewritten.

    Parameters
    ----------
    fit : Fit
        The fit, as it was loaded.
    spec : Spec
        The inputs.
    folder : Path
        Its run folder.
    plots : str
        Format of the figures, as for :func:`save`.
    """
    shown = fit.with_interval(spec.interval).with_name(spec.name)
    has_figures = plots == "none" or any((folder / PLOTS).glob(f"*.{plots}"))
    if shown is not fit or not has_figures:
        save(shown, folder, plots, overwrite=True)
    return shown


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


def _tasks(experiment: Experiment, cmdstan: str | Path | None) -> list[_Task]:
    """Open all programs, and read and check their data, before the first chain runs."""
    opened = [(spec, spec.open()) for spec in experiment.specs()]
    for name in experiment.priors.keys() - {program.name for _, program in opened}:
        find_program(name).resolve_priors(experiment.priors[name])
    tasks = []
    for spec, program in opened:
        folder = experiment.output.folder / (spec.name or program.name)
        check_run_folder(folder)
        spec = as_in_folder(Spec.of_call(spec, cmdstan=cmdstan), folder)
        data = spec.read(program)
        program.resolve_priors(spec.priors, data)  # reports errors before CmdStan is built
        tasks.append(_Task(spec, program, data, folder))
    return tasks


def _with_reasons(task: _Task, refit: bool) -> _Task:
    """Determine whether a task can be fitted, whether it must be fitted, and why."""
    try:
        prepared = prepare(task.spec, task.program, task.data)
    except DataError as error:
        return replace(task, refused=str(error))
    earlier, reasons = prepared.stored(task.folder)
    if earlier is not None and refit:
        earlier, reasons = None, ("a refit was requested",)
    return replace(task, prepared=prepared, earlier=earlier, reasons=reasons)


def _refuse_to_lose(task: _Task, refit_changed: bool) -> None:
    """Reject a fit that replaces another program's run or, without `refit_changed`, any run."""
    if not task.reasons or not (task.folder / FILE).is_file():
        return
    with suppress(DataError):  # a run that cannot be read may belong to the experiment
        before = read_record(task.folder).program
        if before.reference != task.program.reference:
            refuse_to_replace(task.folder, [f"the folder holds a run of {_called(before)}"])
    if not refit_changed:
        refuse_to_replace(task.folder, task.reasons)


def _called(before: ProgramRecord) -> str:
    """Return the formula or the name of a recorded program."""
    if is_formula(before.reference):
        return before.reference
    return before.name


def _run(
    task: _Task,
    experiment: Experiment,
    show_progress: bool,
    announce: Callable[[str], object],
) -> ModelOutcome:
    name, program = task.called, task.program.name
    if task.refused:
        return ModelOutcome(name, program, task.folder, None, refused=task.refused)
    if task.earlier is not None:
        announce(f"{name}: not refitted, because nothing changed; read from {task.folder}")
        found = up_to_date(task.earlier, task.spec, task.folder, experiment.output.plots)
        return ModelOutcome(name, program, task.folder, found)
    announce(f"{name}: fitted, because {'; '.join(task.reasons)}")
    assert task.prepared is not None  # because the task is not rejected
    done = replace(task.prepared.sample(show_progress=show_progress), folder=task.folder)
    return ModelOutcome(name, program, task.folder, done, refitted=task.reasons)
