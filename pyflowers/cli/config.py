"""``pyflowers fit --config``: each model of an experiment, refitted only if something changed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyflowers.errors import ConfigError

if TYPE_CHECKING:
    from pyflowers.config import Experiment
    from pyflowers.experiment import Outcome
    from pyflowers.fitting import Fit

_SAMPLER = ("seed", "chains", "warmup", "draws", "thin", "adapt_delta", "max_treedepth", "cmdstan")
_SECTIONS = {
    "data": {"data": "file", "group": "group", "time": "time", "value": "value"},
    "sampler": {name: name for name in _SAMPLER},
    "output": {"out": "folder", "plots": "plots", "check": "check"},
}
"""For each section of a file, the command line's options and the keys that they override."""


def given_options(ctx: click.Context) -> dict[str, Any]:
    """Return the options that stand on the command line, without those left to their default."""
    source = click.core.ParameterSource.COMMANDLINE
    return {
        name: value
        for name, value in ctx.params.items()
        if ctx.get_parameter_source(name) is source
    }


def fit_config(path: Path, given: Mapping[str, Any], show: Callable[[Fit], None]) -> bool:
    """Run the experiment of a file, and return whether ``--check`` lets it pass.

    Parameters
    ----------
    path : Path
        The file.
    given : mapping
        Options of the command line, which override the file.
    show : callable
        Prints a fit.
    """
    from pyflowers.config import read_config
    from pyflowers.experiment import run_experiment

    experiment = _override(read_config(path), given)
    interactive = sys.stderr.isatty() and sys.stdout.isatty()
    outcomes = run_experiment(experiment, show_progress=interactive, announce=click.echo)
    for outcome in outcomes:
        _keep(outcome, experiment, show)
    _report(outcomes, experiment)
    passed = all(outcome.fit and outcome.fit.diagnostics.passed for outcome in outcomes)
    return passed or not experiment.output.check


def _override(experiment: Experiment, given: Mapping[str, Any]) -> Experiment:
    changes: dict[str, Any] = {
        section: {key: given[option] for option, key in keys.items() if option in given}
        for section, keys in _SECTIONS.items()
    }
    if "include_paths" in given:
        raise ConfigError("--include: a configuration has no program of yours to include files in")
    model = given.get("model")
    if model is not None:
        if model.endswith(".stan"):
            raise ConfigError(f"{model}: a configuration names models of pyflowers only")
        changes["models"] = [model]
        if [model] != list(experiment.models):
            # A report of one model must not take the place of that of all.
            changes["output"]["report"] = None
    models = changes.get("models", experiment.models)
    if "priors" in given:
        changes["priors"] = {
            name: {**experiment.priors.get(name, {}), **given["priors"]} for name in models
        }
    return experiment.with_values(**changes)


def _keep(outcome: Outcome, experiment: Experiment, show: Callable[[Fit], None]) -> None:
    """Write the run folder of what was fitted now."""
    from pyflowers.plots import run_figures

    if outcome.fit is None:
        return
    show(outcome.fit)
    if outcome.refitted:
        outcome.fit.save(outcome.folder, run_figures(outcome.fit, experiment.output.plots))
    click.echo(f"run folder: {outcome.folder}")


def _report(outcomes: list[Outcome], experiment: Experiment) -> None:
    if experiment.output.report is None:
        return
    from pyflowers.report import write_report

    fits = [outcome.fit for outcome in outcomes if outcome.fit is not None]
    refused = {outcome.model: outcome.refused for outcome in outcomes if outcome.fit is None}
    write_report(fits, experiment.output.report, refused=refused)
    click.echo(f"report: {experiment.output.report}")
