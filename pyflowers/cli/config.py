"""``pyflowers fit --config``: each model of an experiment, refitted only if something changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyflowers.cli.console import say, say_json, shows_progress

if TYPE_CHECKING:
    from pyflowers.workflow.config import Experiment
    from pyflowers.workflow.experiment import Outcome

_SAMPLER = (
    *("seed", "chains", "warmup", "draws", "thin", "adapt_delta", "max_treedepth", "metric"),
    *("keep", "engine"),
)
_READING = ("group", "time", "value", "columns", "sep", "decimal", "encoding", "time_order")
_SECTIONS = {
    "data": {"data": "file", **{name: name for name in _READING}},
    "sampler": {name: name for name in _SAMPLER},
    "output": {"out": "folder", "plots": "plots", "check": "check"},
}
"""For each section of a file, the command line's options and the keys that they override."""


def given_options(ctx: click.Context) -> dict[str, Any]:
    """Return the options given on the command line, without those left at their default."""
    source = click.core.ParameterSource.COMMANDLINE
    return {
        name: value
        for name, value in ctx.params.items()
        if ctx.get_parameter_source(name) is source
    }


def fit_config(path: Path, given: Mapping[str, Any]) -> bool:
    """Run the experiment of a file, and return whether ``--check`` lets it pass.

    Parameters
    ----------
    path : Path
        The file.
    given : mapping
        Options of the command line, which override the file.
    """
    from pyflowers.workflow.config import read_config
    from pyflowers.workflow.experiment import run_experiment

    experiment = _override(read_config(path), given)
    check_outputs(experiment)
    outcomes = run_experiment(
        experiment,
        cmdstan=given.get("cmdstan"),
        overwrite="overwrite" in given,
        show_progress=shows_progress(),
        announce=say,
        finished=_finished,
    )
    _report(outcomes, experiment)
    report = experiment.output.report
    say_json({"models": models_of(outcomes), "report": None if report is None else str(report)})
    passed = all(outcome.fit and outcome.fit.verdict.passed for outcome in outcomes)
    return passed or not experiment.output.check


def check_outputs(experiment: Experiment) -> None:
    """Refuse, before any work is done, a report that cannot be written."""
    if experiment.output.report is not None:
        from pyflowers.reports import check_report

        check_report(experiment.output.report)


def _override(experiment: Experiment, given: Mapping[str, Any]) -> Experiment:
    changes: dict[str, Any] = {
        section: {key: given[option] for option, key in keys.items() if option in given}
        for section, keys in _SECTIONS.items()
    }
    changes |= {name: given[name] for name in ("include_paths", "interval") if name in given}
    program = given.get("program")
    if program is not None:
        if (program,) != experiment.models:
            # A report of one model must not take the place of that of all.
            changes["output"]["report"] = None
        experiment = _of_program(experiment, program)
    if "priors" in given:
        names = [Path(name).stem for name in experiment.models]
        changes["priors"] = {
            name: {**experiment.priors.get(name, {}), **given["priors"]} for name in names
        }
    return experiment.with_values(**changes)


def _of_program(experiment: Experiment, program: str) -> Experiment:
    """Return the experiment of one program, without priors of the file's other programs."""
    others = {Path(name).stem for name in experiment.models} - {Path(program).stem}
    priors = {name: values for name, values in experiment.priors.items() if name not in others}
    return experiment.model_copy(update={"models": (program,), "priors": priors})


def models_of(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return what ``--json`` prints of the models of an experiment."""
    from pyflowers.cli.fit import record_of

    return [
        {"program": outcome.name, "refused": outcome.refused}
        if outcome.fit is None
        else {**record_of(outcome.fit, outcome.folder), "refitted": outcome.refitted}
        for outcome in outcomes
    ]


def _finished(outcome: Outcome) -> None:
    """Print the outcome of a model whose run folder has been written."""
    from pyflowers.cli.tables import show

    if outcome.fit is not None:
        show(outcome.fit)
        say(f"run folder: {outcome.folder}")


def _report(outcomes: list[Outcome], experiment: Experiment) -> None:
    path = experiment.output.report
    if path is None:
        return
    from pyflowers.cli.report import write

    write(outcomes, path)
    say(f"report: {path}")
