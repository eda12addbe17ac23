"""Commands for finished runs, such as check, predict, effects, contrast, loo, table and replay."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyflowers.cli.console import say, say_json, shows_progress
from pyflowers.cli.options import (
    PATH,
    grid_options,
    groups_option,
    inputs,
    interval_option,
    outcome_option,
    overwrite_option,
    rows_options,
)
from pyflowers.cli.results import finish, out_option, save, told
from pyflowers.display import styled, wrapped
from pyflowers.engines.base import ENGINES
from pyflowers.errors import ConfigError
from pyflowers.progress import logger, stage

if TYPE_CHECKING:
    from pyflowers.analysis.elpd import GroupComparison
    from pyflowers.analysis.model_tables import ModelTable
    from pyflowers.fits.fit import Fit
    from pyflowers.fits.imputed import PooledFit

EXIT_CHECKS_FAIL = 3
EXIT_DIFFERENT = 3

run_argument = click.argument("run", metavar="RUN", type=PATH)
runs_argument = click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=PATH)
seed_of_draws = click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    help="Seed for the draws of this command. [default: the run's seed]",
)


parameter_option = click.option(
    "--parameter",
    metavar="NAME",
    help="A parameter of the family, such as sigma, instead of the response.",
)


def _open(run: Path, interval: float | None) -> Fit:
    from pyflowers.fits.fit import Fit

    return Fit.load(run).with_interval(interval)


def _open_any(run: Path, interval: float | None) -> Fit | PooledFit:
    """Return the fit of a run folder, or the fits in a folder of completed tables."""
    from pyflowers.fits.imputed import PooledFit, is_pooled_folder

    if is_pooled_folder(run):
        return PooledFit.load(run).with_interval(interval)
    return _open(run, interval)


@click.command("check")
@run_argument
@click.option(
    "--statistic",
    "statistics",
    metavar="NAME|MODULE:FUNCTION",
    multiple=True,
    help="Also check this statistic (repeatable), such as sd, median or minimum, or your own "
    "function, which takes the array y and returns a number. MODULE is installed, is in the "
    "working folder, or is a Python file; its code is run.",
)
@click.option(
    "--replicates",
    type=int,
    help="Number of replicated data sets, at least 200, from evenly spaced draws. "
    "[default: one per draw]",
)
@click.option(
    "--time",
    metavar="COLUMN",
    help="Column that orders the rows in time; values are then compared with those before them. "
    "[default: the order of the rows]",
)
@seed_of_draws
@interval_option
@out_option("checks")
def check_command(run: Path, out: Path | None, interval: float | None, **options: Any) -> int:
    """Check whether the model would produce data like yours.

    RUN is a run folder written by pyflowers fit. Each statistic of the data is compared with the
    same statistic of data sets drawn from the fitted model. p is the share of these data sets in
    which the statistic is larger than in your data, counting ties as half. Exit status 3 means that
    a part of the verdict fails; checks that limit only predictions of single values do not count.

      pyflowers check runs/flowers
      pyflowers check runs/flowers --statistic median --out checks
    """
    from pyflowers.analysis.checks import check

    fit = _open(run, interval)
    found = check(fit, **options)
    if found.verdict.passed:
        return finish(found, out)
    return finish(found, out, EXIT_CHECKS_FAIL)


@click.command("improve")
@run_argument
@click.option(
    "--out",
    type=PATH,
    help="Folder for the page improvement.html and the runs of the models that are tried.",
)
@overwrite_option
@interval_option
def improve_command(run: Path, out: Path | None, interval: float | None, *, overwrite: bool) -> int:
    """Fit the models that a run's failed checks suggest, check them, and compare them by LOO.

    RUN is a run folder written by pyflowers fit. For each check that fails, a model is fitted with
    the formula, family or option that the check suggests. The advice on these fits is followed in
    turn, in at most 8 refits. Of the models that pass all checks, one that predicts about as well
    as the best is chosen. If the run passes, nothing is changed. Exit status 3 means that no model
    passes.

      pyflowers improve runs/flowers --out improved
    """
    import pyflowers

    def announce(line: str) -> None:
        say(wrapped(line))

    found = pyflowers.improve(_open(run, interval), out=out, overwrite=overwrite, announce=announce)
    if found.passed:
        return told(found, out)
    return told(found, out, EXIT_CHECKS_FAIL)


@click.command("predict")
@run_argument
@rows_options
@grid_options
@groups_option("data; for a --grid that does not name the groups, none")
@click.option(
    "--kind",
    type=click.Choice(["expected", "linear", "observation", "probability"]),
    help="What to predict for each row: the expected value, the linear predictor, a new "
    "observation, or the probability of each --outcome. [default: expected; for categories, "
    "probability]",
)
@outcome_option
@parameter_option
@click.option("--draws", is_flag=True, help="Also write the draws to predictions.nc in --out.")
@seed_of_draws
@interval_option
@out_option("predictions")
def predict_command(
    run: Path,
    seed: int | None,
    interval: float | None,
    out: Path | None,
    draws: bool,
    **options: Any,
) -> int:
    """Predict the rows of a table, or the next observation of each group and of a new group.

    RUN is a run folder written by pyflowers fit. By default, the command predicts the next
    observation of each group and of a new group; your own program must compute these as y_new and
    y_new_group. With --new, --grid, --kind, --by or --weights, the command predicts each row of a
    table, or averages over rows. It always does so for a formula, and for a program with
    [prediction] but no y_new. RUN may also be the folder of the fits of completed tables, whose
    predictions are pooled.

      pyflowers predict runs/flowers
      pyflowers predict runs/rats --new rats.csv --kind observation
      pyflowers predict runs/rats --grid "age = 10:40:10"
    """
    from pyflowers.analysis.predictions import RowPredictions, predict

    if draws and out is None:
        raise click.UsageError("--draws writes predictions.nc to --out; add --out")
    found = predict(_open_any(run, interval), seed=seed, **_given(options))
    if draws and not isinstance(found, RowPredictions):
        raise click.UsageError("--draws applies only to rows of a table; add --new or --kind")
    if draws:
        return finish(found, out, more={"predictions.nc": found})
    return finish(found, out)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given."""
    return {name: value for name, value in options.items() if value not in (None, ())}


@click.command("effects")
@run_argument
@click.argument("columns", metavar="[COLUMN...]", nargs=-1)
@click.option("--slopes", is_flag=True, help="Show average slopes instead of comparisons.")
@click.option(
    "--step",
    metavar="NUMBER|sd",
    help="Change in a numeric column. [default: 1; for a column with two to four whole numbers, "
    "from the lowest to the others; for a column in a spline, from the lower to the upper "
    "quartile]",
)
@click.option(
    "--between",
    nargs=2,
    help="Two values of COLUMN; the second is compared with the first.",
)
@click.option(
    "--scale",
    type=click.Choice(["difference", "ratio", "average ratio", "odds ratio"]),
    default="difference",
    show_default=True,
    help="Scale on which the averages are compared; average ratio is the average of the rows' "
    "ratios.",
)
@click.option("--pairs", is_flag=True, help="Compare all pairs of levels.")
@click.option(
    "--means",
    is_flag=True,
    help="Show marginal means instead of comparisons: the average with all rows at each level of "
    "COLUMN.",
)
@click.option(
    "--differences",
    is_flag=True,
    help="Also compare the effects between the sets of rows that --by forms: differences of "
    "differences.",
)
@click.option(
    "--joint",
    is_flag=True,
    help="Also show simultaneous intervals, which contain all effects at once.",
)
@click.option(
    "--kind",
    type=click.Choice(["expected", "probability"]),
    help="Show effects on the expected response, or on the probability of each --outcome. "
    "[default: expected; for categories, probability]",
)
@outcome_option
@click.option("--rope", type=float, nargs=2, help="Ends of the region of practical equivalence.")
@parameter_option
@rows_options
@grid_options
@groups_option(
    "data; for a --grid, as in pyflowers predict; for an effect that varies between groups, as "
    "with (x | g), population and data"
)
@seed_of_draws
@interval_option
@out_option("effects")
def effects_command(
    run: Path, columns: tuple[str, ...], interval: float | None, out: Path | None, **options: Any
) -> int:
    """Show how the expected response changes with each column, on average over rows.

    RUN is a run folder that pyflowers fit wrote for a formula, or for a program with [prediction]
    in its declaration. For a factor, the other levels are compared with the reference level; for
    most numeric columns, x + 1 is compared with x (see --step and --pairs). To show only some
    columns, name them as COLUMN. Each row is predicted twice, with only this column changed. If
    an effect varies between groups, as with (x | g), it is shown in the population of groups and
    for the groups of the rows; --groups shows one of the two. RUN may also be the folder of the
    fits of completed tables, whose effects are pooled.

      pyflowers effects runs/rats
      pyflowers effects runs/rats age --step sd --out effects
      pyflowers effects runs/plots variety --pairs --joint
    """
    from pyflowers.analysis.average_effects import effects

    return finish(effects(_open_any(run, interval), *columns, **_given(options)), out)


@click.command("contrast")
@run_argument
@click.argument("expressions", metavar="EXPR...", nargs=-1, required=True)
@click.option(
    "--joint",
    is_flag=True,
    help="Also show simultaneous intervals, which contain all numbers at once.",
)
@interval_option
@out_option("contrasts")
def contrast_command(
    run: Path, expressions: tuple[str, ...], joint: bool, interval: float | None, out: Path | None
) -> int:
    """Compute differences, probabilities and ranks from the posterior.

    RUN is a run folder written by pyflowers fit, or the folder of its fits of completed tables,
    whose draws are pooled. EXPR is a number, such as "mu_plant[rose] -
    mu_plant[1]"; a condition, such as "mu_plant[3] > mu_plant[1] and mu > 0"; or "rank(mu_plant)",
    for each element's probability of being the largest, one of the three largest, or the smallest.
    Name an element by its label or, unless all labels are numbers, by its position, counted from 1.
    For a formula, mu[subject 308] is the expected response averaged over the rows where subject is
    308, and mu is the average over all rows. effect[x] and effect[f, b - a] are average effects,
    mean[f = b] is a marginal mean, and prediction[x = 2] is the expected response at a point of a
    grid. r_school[Intercept] are the intercepts of all schools.

    Operators are + - * / **, comparisons, and the words 'and', 'or' and 'not'. The functions are
    abs, exp, log, sqrt and rank; mean, sum, min, max, sd and var are taken over the elements of a
    vector in each draw.

      pyflowers contrast runs/flowers "mu_plant[3] - mu_plant[1]"
      pyflowers contrast runs/flowers "mu_plant[3] > 5" "rank(mu_plant)"
      pyflowers contrast runs/oats "mean[variety = A] - mean[variety = B]"
    """
    from pyflowers.analysis.contrasts import contrast

    return finish(contrast(_open_any(run, interval), *expressions, joint=joint), out)


@click.command("sensitivity")
@run_argument
@interval_option
@click.option(
    "--all", "in_full", is_flag=True, help="Also print the sensitivities of the effects of groups."
)
@out_option("sensitivity")
def sensitivity_command(run: Path, interval: float | None, in_full: bool, out: Path | None) -> int:
    """Show which conclusions of a run depend on its prior, by power-scaling.

    RUN is a run folder. The prior and the likelihood are each raised to powers near 1, and the
    resulting posteriors are computed by importance sampling, without refitting. With --out, the
    command writes sensitivity.csv, conclusions.csv and sensitivity.json, and a figure if the
    sensitivities can be computed.

      pyflowers sensitivity runs/flowers
    """
    from pyflowers.analysis.prior_sensitivity import sensitivity
    from pyflowers.fits.fit import Fit

    return finish(sensitivity(Fit.load(run), interval=interval), out, in_full=in_full)


@click.command("loo")
@runs_argument
@click.option(
    "--refit/--no-refit",
    default=None,
    help="For each observation whose k-hat is too large, refit without it. [default: no refit]",
)
@click.option(
    "--explained",
    is_flag=True,
    help="Also show how much the models explain: R2, LOO-R2 and the shares of groups (ICC).",
)
@click.option(
    "--by-group",
    is_flag=True,
    help="Leave out one group at a time, instead of one observation, and refit each time.",
)
@click.option(
    "--folds",
    type=int,
    metavar="K",
    help="Refit K times, each time without one of K folds of the rows, stratified by the response, "
    "or, with --column, of the groups.",
)
@click.option(
    "--column",
    metavar="COLUMN",
    help="Column with the groups for --by-group or --folds. [default: for --by-group, the column "
    "by which the program groups the rows]",
)
@out_option("loo")
def loo_command(
    folders: tuple[Path, ...],
    refit: bool | None,
    explained: bool,
    by_group: bool,
    folds: int | None,
    column: str | None,
    out: Path | None,
) -> int:
    """Compare models of the same data by how well they predict held-out observations or groups.

    Each DIR is a run folder. By default, PSIS-LOO leaves out one observation at a time without a
    refit. If the k-hat of an observation is too large, the estimate for it is unreliable. A note
    then states how long it will take to replace such estimates with --refit. Models of integers and
    of real numbers are compared by the probability of the rounded response. Use --by-group to see
    how well a multilevel model predicts a whole group that it has not seen. If k-hat is too large
    for many rows, --folds needs fewer refits than --refit. The output with --json includes the elpd
    of each observation or group.

    In the tables, se is the uncertainty due to the observations, and mcse is the uncertainty due to
    the draws. Stacking chooses the weights with which the combined models predict best; the weight
    of a model is not the probability that it is true.

      pyflowers loo runs/poisson runs/negbinomial
      pyflowers loo runs/flowers --by-group
      pyflowers loo runs/poisson runs/negbinomial --folds 10
    """
    from pyflowers.analysis.elpd import loo
    from pyflowers.fits.fit import Fit

    if column and not by_group and folds is None:
        raise click.UsageError(
            "--column is used only with --by-group or --folds; add one of them, or leave out "
            "--column"
        )
    if folds is not None and (by_group or explained or refit is not None):
        raise click.UsageError(
            "--folds refits the model without each fold, so --by-group, --explained and --refit do "
            "not apply; leave them out"
        )
    if by_group and refit is False:
        raise click.UsageError(
            "--by-group always refits, leaving out one group at a time; "
            "leave out --no-refit or --by-group"
        )
    if by_group and explained:
        raise click.UsageError(
            "--explained is about rows, not left-out groups; leave out --explained or --by-group"
        )
    fits = [Fit.load(folder) for folder in folders]
    if folds is not None:
        from pyflowers.analysis.folds import k_fold

        with stage("Leaving out one fold at a time", len(fits) * max(folds, 0)) as advance:
            found = k_fold(fits, folds, column=column, advance=lambda: advance(1))
        return finish(found, out)
    if by_group:
        return finish(_by_group(fits, column), out)
    return finish(loo(fits, refit=bool(refit), explains=explained), out)


def _by_group(fits: list[Fit], column: str | None) -> GroupComparison:
    """Leave out one group at a time, and show the progress."""
    from pyflowers.analysis.elpd import group_labels, leave_one_group_out

    num = 0
    with suppress(ConfigError):  # the call below raises it again
        num = len(fits) * len(group_labels(fits[0], column))
    with stage("Leaving out one group at a time", num) as advance:
        return leave_one_group_out(fits, column=column, advance=lambda: advance(1))


@click.command("table")
@runs_argument
@click.option(
    "--row",
    "rows",
    metavar="NAME[=LABEL]",
    multiple=True,
    help="Show this parameter (repeatable), under another label if one is given. [default: all "
    "parameters except the effects of groups and the coefficients of curves]",
)
@click.option(
    "--name",
    "names",
    metavar="TEXT",
    multiple=True,
    help="Name of a model's column, once for each model. [default: the names of the fits, or Model "
    "1, Model 2, ...]",
)
@click.option(
    "--estimate",
    type=click.Choice(["median", "mean"]),
    default="median",
    show_default=True,
    help="Estimate that is shown for each parameter.",
)
@click.option("--inline", is_flag=True, help="Show intervals next to the estimates, not below.")
@click.option(
    "--loo",
    is_flag=True,
    help="Add the elpd by PSIS-LOO, for models fitted to the same data.",
)
@click.option("--r2", is_flag=True, help="Add R², as loo --explained shows it.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["md", "tex", "html", "csv", "docx"]),
    help="Print the table as Markdown, LaTeX, HTML or CSV; docx also writes table.docx to --out.",
)
@interval_option
@out_option("table")
def table_command(
    folders: tuple[Path, ...],
    rows: tuple[str, ...],
    names: tuple[str, ...],
    form: str | None,
    out: Path | None,
    **options: Any,
) -> int:
    """Put models side by side in a table for a paper.

    Each DIR is a run folder. A cell is the posterior median, or mean, with its interval. Below the
    parameters are the numbers of observations and groups, and the family. The models may have
    different families, formulas and data. With --out, the command writes table.md, table.tex,
    table.html, table.csv and table.json. LaTeX needs the package booktabs.

      pyflowers table runs/flowers
      pyflowers table runs/a runs/b --row "b[x]=Dose" --format tex > dose.tex
    """
    from pyflowers.analysis.model_tables import table
    from pyflowers.analysis.paper_formats import package_docx
    from pyflowers.fits.fit import Fit

    if form == "docx":
        if out is None:
            raise click.UsageError("--format docx writes table.docx to --out; add --out")
        package_docx()
    fits = [Fit.load(folder) for folder in folders]
    found = table(fits, rows=rows or None, names=names or None, **options)
    if form is None:
        return finish(found, out)
    if form == "docx":
        return finish(found, out, more={"table.docx": found.to_docx()})
    save(found, out)
    say_json(found.to_dict())
    say(_SOURCES[form](found).rstrip("\n"))
    for note in found.notes:
        logger.warning("note: %s", note)
    return 0


_SOURCES: dict[str, Callable[[ModelTable], str]] = {
    "md": lambda found: found.to_markdown(),
    "tex": lambda found: found.to_latex(),
    "html": lambda found: found.to_html(),
    "csv": lambda found: found.to_frame().to_csv(lineterminator="\n"),
}
"""Functions that return the text of a table, by the formats that can be printed."""


@click.command("replay")
@runs_argument
@click.option(
    "--engine",
    type=click.Choice([name for name in ENGINES if name != "auto"]),
    help="Engine to use instead of the recorded one.",
)
@inputs("cmdstan")
def replay_command(folders: tuple[Path, ...], engine: str | None, cmdstan: str | None) -> int:
    """Repeat the fits of run folders and report whether the draws are equal.

    Each DIR is a run folder. The draws of a repeated run are bitwise equal, statistically equal
    (within Monte Carlo error) or different. Exit status 3 means that at least one run is different.
    The recorded engine is used unless --engine or --cmdstan names another.

      pyflowers replay runs/flowers
    """
    from pyflowers.workflow.replay import replay

    replays = []
    for folder in folders:
        result = replay(folder, engine=engine, cmdstan=cmdstan, show_progress=shows_progress())
        colour = {"different": "red"}.get(result.verdict, "green")
        verdict = styled(str(result), fg=colour)
        if len(folders) > 1:
            say(f"{folder}: ", verdict)
        else:
            say(verdict)
        replays.append({"run": str(folder), **asdict(result)})
    say_json({"replays": replays})
    if any(r["verdict"] == "different" for r in replays):
        return EXIT_DIFFERENT
    return 0
