"""``pyflowers fit`` and ``report``: sample, check and summarise one model or a whole experiment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyflowers.cli.console import complain, is_quiet, say, say_json, show, shows_progress
from pyflowers.cli.options import (
    PATH,
    InSections,
    from_command_line,
    given,
    inputs,
    options,
    overwrite_option,
    plots_option,
)
from pyflowers.cli.results import told
from pyflowers.errors import ConfigError, DataError
from pyflowers.fits.spec import INPUTS, Spec
from pyflowers.storage import FileKind, new_file

if TYPE_CHECKING:
    from pyflowers.analysis.calibration import Calibration
    from pyflowers.fits.fit import Fit
    from pyflowers.fits.sampling import Prepared
    from pyflowers.reports.drafts import MethodsDraft
    from pyflowers.workflow.experiment import ModelOutcome

EXIT_DIAGNOSTICS_FAIL = 3

fit_options = options(inputs("data", *INPUTS), plots_option, overwrite_option)


@click.command("fit", cls=InSections)
@click.argument("program", metavar="NAME|PROGRAM.stan|FORMULA", required=False)
@fit_options
@click.option(
    "--from",
    "source",
    metavar="RUN",
    type=PATH,
    help="Run folder from which this fit takes all inputs that are not given here.",
)
@click.option(
    "--warm",
    is_flag=True,
    help="Start each chain from the last state, step size and metric of its predecessor in the run "
    "that --from names, with at most 100 iterations of warm-up. The parameters must be the same.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Exit with status 3 if a diagnostic fails or a prior contradicts the data. Draws that are "
    "valid but imprecise do not count as a failure.",
)
@click.option(
    "--refit", is_flag=True, help="Refit even if the run folder holds the fit of these inputs."
)
@click.option("--all", "in_full", is_flag=True, help="Also print the effects of groups.")
@click.option(
    "--config", type=PATH, help="TOML file of an experiment; other options override its values."
)
@click.option(
    "--out",
    type=PATH,
    help="Run folder to write; with --config, the folder for the run folders. [default: "
    "runs/NAME, where NAME is --name or the name of the program]",
)
@click.pass_context
def fit_command(
    ctx: click.Context,
    /,
    config: Path | None,
    source: Path | None,
    out: Path | None,
    check: bool,
    in_full: bool,
    plots: str,
    overwrite: bool,
    refit: bool,
    warm: bool,
    **options: Any,
) -> int:
    """Fit a model, summarise the posterior and check convergence.

    NAME is a shipped model (see pyflowers models). PROGRAM.stan is your own Stan program, with its
    declaration in PROGRAM.toml in the same folder. FORMULA, such as "reaction ~ days + (days |
    subject)", is turned into a Stan program for the table. With --config, each model in the file
    gets a run folder.

    The run folder is written to --out, or to runs/NAME. If it holds the fit of the same inputs, the
    fit is not repeated, but read and shown. If no seed or engine is given, those of the run in the
    folder are used.

    If the diagnostics do not pass and sampling took at most 10 seconds, the recommended remedies
    are tried, in at most four refits. If a remedy helps, the verdict gives its command. With
    --quiet, no remedies are tried.

    With --from, the inputs are those of a run, except the ones that are given here. The table has
    only the columns that the run used, so a formula with other columns needs --data. With --warm,
    the chains also start where the run's chains ended, which saves most of the warm-up after a
    small change.

    If --data is repeated, the files are completed versions of one table, whose missing values were
    imputed. Each table is fitted, the draws are pooled, and --out gets a run folder for each table.

      pyflowers fit "weight ~ age + (age | rat)" --data rats.csv
      pyflowers fit multilevel_poisson --seed 1 --out runs/flowers
      pyflowers fit --from runs/flowers --prior mu_sd=1 --out runs/narrow
    """
    if source is not None and (config is not None or isinstance(options["data"], tuple)):
        raise click.UsageError("--from takes one table and no --config; leave out --from.", ctx)
    if warm and source is None:
        raise click.UsageError("--warm starts from a run; add --from RUN.", ctx)
    if config is not None:
        given_here = from_command_line(ctx)
        given_here.pop("in_full", None)
        return _fit_experiment(config, given_here, in_full=in_full)
    from pyflowers.fits.folder import check_run_folder, default_folder

    if options["program"] is None and source is None:
        raise click.UsageError(
            "there is no model to fit; name a shipped model or a .stan file, write a formula, or "
            "add --config FILE or --from RUN",
            ctx,
        )
    if out is not None:
        check_run_folder(out)
    if isinstance(options["data"], tuple):
        from pyflowers.fits.sampling import fit as fit_tables

        inputs = given(options)
        program, tables = inputs.pop("program"), list(inputs.pop("data"))
        if out is None:
            first = Spec(program, tables[0], **inputs)
            out = default_folder(first.open(), first.name)
        how = {"refit": refit, "overwrite": overwrite, "show_progress": shows_progress()}
        pooled = fit_tables(program, tables, out=out, **how, **inputs)
        failed = check and not pooled.verdict.passed
        status = EXIT_DIAGNOSTICS_FAIL if failed else 0
        return told(pooled, out, status, in_full=in_full)
    from pyflowers.fits.sampling import about_engine, as_in_folder, prepare

    if source is not None:
        from pyflowers.fits.fit import Fit
        from pyflowers.fits.updating import asked_again

        spec = asked_again(Fit.load(source), given(options), warm=warm).with_table()
    else:
        spec = Spec(**given(options)).with_table()
    program = spec.open()
    if out is None:
        out = default_folder(program, spec.name)
        check_run_folder(out)
    spec = as_in_folder(spec, out)
    prepared = prepare(spec, program, spec.read(program))
    fit = prepared.reused(out, refit=refit, overwrite=overwrite, announce=say)
    if fit is None:
        if line := about_engine(spec, out, prepared.engine):
            say(line)
        fit = _sampled(prepared, out, plots, overwrite)
    else:
        from pyflowers.workflow.experiment import up_to_date

        fit = up_to_date(fit, spec, out, plots)
    status = EXIT_DIAGNOSTICS_FAIL if check and not fit.verdict.passed else 0
    return told(fit, out, status, in_full=in_full)


def _sampled(prepared: Prepared, out: Path, plots: str, overwrite: bool) -> Fit:
    """Sample, try remedies if the diagnostics do not pass, and write the run folder."""
    from pyflowers.fits.remedies import with_trials

    fit = replace(prepared.sample(show_progress=shows_progress()), folder=out)
    if not is_quiet():  # remedies are tried only if they are reported
        fit = with_trials(fit, announce=say)
    if plots == "none":  # only figures need the experiment module
        fit.save(out, overwrite=overwrite)
    else:
        from pyflowers.workflow.experiment import save

        save(fit, out, plots, overwrite=overwrite)
    return fit


def _fit_experiment(path: Path, given: dict[str, Any], *, in_full: bool) -> int:
    """Fit the models of a file, with some values replaced by options of the command line."""
    from pyflowers.reports import check_report
    from pyflowers.workflow.config import read_config
    from pyflowers.workflow.experiment import run_experiment

    run = {name: given.pop(name) for name in ("cmdstan", "overwrite", "refit") if name in given}
    del given["config"]
    experiment = read_config(path).with_options(**given)
    report = experiment.output.report
    if report is not None:
        check_report(report)
    outcomes = run_experiment(
        experiment,
        show_progress=shows_progress(),
        announce=say,
        finished=partial(_show, in_full=in_full),
        **run,
    )
    record: dict[str, Any] = {"models": list(map(_record, outcomes)), "report": None}
    if report is not None:
        write_report(outcomes, report)
        say(f"report: {report}")
        record["report"] = str(report)
    say_json(record)
    fits = [outcome.fit for outcome in outcomes if outcome.fit is not None]
    if not fits:
        raise DataError(f"{path}: no model could be fitted, for the reasons above")
    passed = all(fit.verdict.passed for fit in fits) or not experiment.output.check
    if passed and len(fits) == len(outcomes):
        return 0
    return EXIT_DIAGNOSTICS_FAIL


def _show(outcome: ModelOutcome, *, in_full: bool) -> None:
    """Print the outcome of a model whose run folder has been written."""
    _complain_if_refused(outcome)
    if outcome.fit is not None:
        say()
        show(outcome.fit, in_full=in_full)
        say(f"run folder: {outcome.folder}")


def _complain_if_refused(outcome: ModelOutcome) -> None:
    """Print why a model was not fitted, even with ``--quiet``."""
    if outcome.refused:
        complain(f"{outcome.name}: not fitted: {outcome.refused}")


def _record(outcome: ModelOutcome) -> dict[str, Any]:
    """Return the record that ``--json`` prints for a model of an experiment."""
    if outcome.fit is None:
        return {"program": outcome.program, "name": outcome.name, "refused": outcome.refused}
    return {**outcome.fit.to_dict(), "run": str(outcome.folder), "refitted": outcome.refitted}


@click.command("report", cls=InSections)
@click.argument("folders", metavar="[DIR]...", nargs=-1, type=PATH)
@click.option(
    "--model",
    "models",
    multiple=True,
    help="Model to fit: a name, path or formula (repeatable). [default: the three models of the "
    "lecture]",
)
@fit_options
@click.option(
    "--runs",
    type=PATH,
    help="Folder for the runs of the models; models whose runs are still valid are not refitted. "
    "[default: NAME_runs next to the report NAME.html]",
)
@click.option(
    "--calibration",
    "calibrations",
    metavar="DIR",
    multiple=True,
    type=PATH,
    help="Folder that pyflowers sbc wrote for one of the models; the report shows the calibration "
    "with the model's fit (repeatable).",
)
@click.option("--title", default="", help="Title of the report. [default: the question]")
@click.option(
    "--question",
    default="",
    help="Question that the report answers. [default: one about the columns of the table]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["md", "tex", "txt", "docx"]),
    help="Print only a draft of the methods section for run folders: as Markdown, LaTeX or text; "
    "docx needs --out.",
)
@click.option("--out", type=PATH, help="HTML file to write; with --format, the file of the draft.")
@click.pass_context
def report_command(
    ctx: click.Context, /, folders: tuple[Path, ...], form: str | None, out: Path | None, **_: Any
) -> None:
    """Write an HTML report on models fitted to a table: verdicts, posteriors and a comparison.

    Each DIR is a run folder. Without a DIR, the models are fitted to --data.

      pyflowers report runs/flowers --out report.html
      pyflowers report --data flowers.csv --out report.html
      pyflowers report runs/flowers --format tex > methods.tex
    """
    if form is not None:
        _write_draft(ctx, folders, form, out)
        return
    if out is None:
        raise click.UsageError("a report needs a file; add --out report.html")
    from pyflowers.fits.fit import Fit
    from pyflowers.reports import check_report
    from pyflowers.workflow.config import Experiment
    from pyflowers.workflow.experiment import ModelOutcome, run_experiment

    check_report(out)
    chosen = from_command_line(ctx)
    run = {name: chosen.pop(name) for name in ("cmdstan", "overwrite") if name in chosen}
    calibrations = []
    for folder in chosen.pop("calibrations", ()):
        from pyflowers.analysis.calibration import Calibration  # slow: imports all of `batches`

        calibrations.append(Calibration.load(folder))
    title, question = chosen.pop("title", ""), chosen.pop("question", "")
    for name in ("folders", "out"):
        chosen.pop(name, None)
    if folders:
        interval = chosen.pop("interval", None)
        for parameter in ctx.command.params:
            if parameter.name in {*chosen, *run} - {"cmdstan"}:
                raise ConfigError(
                    f"{parameter.opts[0]}: a report on run folders takes no fitting options; leave "
                    f"out {parameter.opts[0]} or the folders"
                )
        fits = [Fit.load(folder).with_interval(interval) for folder in folders]
        outcomes = [
            ModelOutcome(f.called, f.program.name, folder, f)
            for f, folder in zip(fits, folders, strict=True)
        ]
    else:
        runs = chosen.pop("runs", out.with_name(f"{out.stem}_runs"))
        experiment = Experiment().with_options(out=runs, **chosen)
        outcomes = run_experiment(
            experiment,
            refit_changed=False,
            show_progress=shows_progress(),
            announce=say,
            finished=_complain_if_refused,
            **run,
        )
    write_report(outcomes, out, calibrations, title=title, question=question)
    say_json({"report": str(out), "models": list(map(_record, outcomes))})
    say(f"report: {out}")


def _write_draft(
    ctx: click.Context, folders: tuple[Path, ...], form: str, out: Path | None
) -> None:
    """Print the draft for a methods section, or write it to a new file."""
    from pyflowers.analysis.paper_formats import TextFile, package_docx
    from pyflowers.fits.fit import Fit
    from pyflowers.reports import methods_draft

    if not folders:
        raise click.UsageError(
            "--format drafts the methods section for run folders; give the folders as DIR"
        )
    given_names = {*from_command_line(ctx)} - {"folders", "form", "out", "interval"}
    for parameter in ctx.command.params:
        if parameter.name in given_names:
            raise click.UsageError(
                f"{parameter.opts[0]} does not apply to the draft that --format requests; leave "
                f"out {parameter.opts[0]} or --format"
            )
    if form == "docx":
        if out is None:
            raise click.UsageError("--format docx writes a file; add --out methods.docx")
        package_docx()
    if out is not None and out.exists():
        raise ConfigError(
            f"--out {out} already exists, and a draft may have been edited; name another file"
        )
    found = methods_draft(
        [Fit.load(folder) for folder in folders], interval=from_command_line(ctx).get("interval")
    )
    say_json(found.to_dict())
    if out is None:
        say(_DRAFTS[form](found).rstrip("\n"))
        return
    made = found.to_docx() if form == "docx" else TextFile(_DRAFTS[form](found))
    with new_file(out, FileKind("draft", lambda _: False)) as new:
        made.save(new)
    say(f"methods: {out}")


_DRAFTS: dict[str, Callable[[MethodsDraft], str]] = {
    "md": lambda found: found.to_markdown(),
    "tex": lambda found: found.to_latex(),
    "txt": lambda found: f"{found}\n",
}
"""Functions that return the text of a draft, by the formats that can be printed."""


def write_report(
    outcomes: Sequence[ModelOutcome],
    out: Path,
    calibrations: Sequence[Calibration] = (),
    *,
    title: str = "",
    question: str = "",
) -> None:
    """Compare the methods on each model, then write the report on all models."""
    from pyflowers.reports import report
    from pyflowers.workflow.experiment import compare_all

    fits = [outcome.fit for outcome in outcomes if outcome.fit is not None]
    refused = {outcome.name: outcome.refused for outcome in outcomes if outcome.refused}
    comparisons = partial(compare_all, fits)
    report(
        fits,
        out,
        refused=refused,
        comparisons=comparisons,
        calibrations=calibrations,
        title=title,
        question=question,
    )
