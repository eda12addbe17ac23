"""Run an experiment: fit what changed, take what did not from its run folder, and say why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyflowers.changes import program_changes, value_changes
from pyflowers.cmdstan import CmdStan, Executable, compile_program, find_cmdstan
from pyflowers.config import Experiment
from pyflowers.data import FlowerData, read_data
from pyflowers.errors import DataError
from pyflowers.fitting import Fit, fit
from pyflowers.models import Model, get_model
from pyflowers.resources import flowers_csv
from pyflowers.runs import check_folder, read_record


@dataclass(frozen=True)
class Outcome:
    """What became of one model of an experiment.

    Attributes
    ----------
    model : str
        Its name.
    folder : Path
        Its run folder.
    fit : Fit or None
        The fit; None if the model refuses the data.
    refused : str
        Why it does.
    refitted : tuple of str
        Why it was fitted now; empty if an earlier run was still good.
    """

    model: str
    folder: Path
    fit: Fit | None
    refused: str = ""
    refitted: tuple[str, ...] = ()


def run_experiment(
    experiment: Experiment,
    *,
    show_progress: bool = False,
    announce: Callable[[str], object] = lambda _: None,
) -> list[Outcome]:
    """Fit each model of an experiment, or take its earlier run where nothing changed.

    Parameters
    ----------
    experiment : Experiment
        Which models, data, priors, options and folders.
    show_progress : bool
        Whether to draw a bar for each chain.
    announce : callable, optional
        Called with a sentence before each model: fitted and why, or taken from where.

    Raises
    ------
    PyflowersError
        If the data cannot be read or a fit does not finish. A model that refuses data which others
        take is an outcome, not an error.
    """
    data = read_table(experiment)
    for name in experiment.models:
        check_folder(experiment.output.folder / name)
    cmdstan = find_cmdstan(experiment.sampler.cmdstan)
    return [
        _run_model(experiment, get_model(name), data, cmdstan, show_progress, announce)
        for name in experiment.models
    ]


def read_table(experiment: Experiment) -> FlowerData:
    """Read the experiment's table.

    Raises
    ------
    DataError
        If it cannot be used.
    """
    columns = experiment.data.model_dump(include={"group", "time", "value"})
    return read_data(experiment.data.file or flowers_csv(), **columns)


def why_refit(
    record: Mapping[str, Any],
    experiment: Experiment,
    model: Model,
    data: FlowerData,
    executable: Executable,
) -> tuple[str, ...]:
    """Say what changed since a run was made; nothing, if it is still good.

    Parameters
    ----------
    record : mapping
        The run's ``run.json``.
    experiment, model, data
        What is wanted now.
    executable : Executable
        That of the model's program as it is now.
    """
    if record["model"] != model.name or not record["shipped"]:
        return (f"the folder holds a run of {record['model']}",)
    wanted = model.resolve_priors(experiment.priors.get(model.name))
    options = experiment.sampler.model_dump(exclude={"cmdstan"}, exclude_none=True)
    return (
        *(["the data changed"] if record["data"]["sha256"] != data.sha256 else []),
        *program_changes(record, executable),
        *value_changes("prior", record["priors"], wanted),
        *value_changes("", {**record["options"], "centered": record["centered"]}, options),
    )


def _run_model(
    experiment: Experiment,
    model: Model,
    data: FlowerData,
    cmdstan: CmdStan,
    show_progress: bool,
    announce: Callable[[str], object],
) -> Outcome:
    folder = experiment.output.folder / model.name
    priors = model.resolve_priors(experiment.priors.get(model.name))
    try:
        model.check(data, priors)
    except DataError as error:
        announce(f"{model.name}: not fitted: {error}")
        return Outcome(model.name, folder, None, refused=str(error))
    executable = compile_program(model.program, cmdstan=cmdstan)
    reasons = _reasons(folder, experiment, model, data, executable)
    if not reasons:
        announce(f"{model.name}: nothing changed, taken from {folder}")
        return Outcome(model.name, folder, Fit.load(folder))
    announce(f"{model.name}: fitted, because {'; '.join(reasons)}")
    options = experiment.sampler.model_dump()
    done = fit(model, data, **options, priors=priors, show_progress=show_progress)
    return Outcome(model.name, folder, done, refitted=reasons)


def _reasons(
    folder: Path, experiment: Experiment, model: Model, data: FlowerData, executable: Executable
) -> tuple[str, ...]:
    if not (folder / "run.json").is_file():
        return ("there is no run yet",)
    try:
        record = read_record(folder)
        if not (folder / "draws.nc").is_file():
            return ("the earlier run has no draws",)
        return why_refit(record, experiment, model, data, executable)
    except (DataError, KeyError, TypeError):
        return ("the earlier run cannot be read",)
