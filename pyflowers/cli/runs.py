"""Commands for finished runs: check, predict, effects, contrast, sensitivity, loo and replay."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyflowers.cli.console import say, say_json, shows_progress
from pyflowers.cli.options import (
    PATH,
    groups_option,
    inputs,
    interval_option,
    rows_options,
)
from pyflowers.cli.results import Lines, about, finish, out_option, rows_of
from pyflowers.display import styled
from pyflowers.errors import ConfigError

if TYPE_CHECKING:
    from pyflowers.analysis.checks import PredictiveChecks
    from pyflowers.analysis.elpd import GroupComparison, LooComparison
    from pyflowers.fits.fit import Fit

EXIT_CHECKS_FAIL = 3
EXIT_DIFFERENT = 3

run_argument = click.argument("run", metavar="RUN", type=PATH)
runs_argument = click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=PATH)
seed_of_draws = click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    help="Seed for the draws of this command. [default: the run's seed]",
)


def _open(run: Path, interval: float | None) -> Fit:
    from pyflowers.fits.fit import Fit

    return Fit.load(run).with_interval(interval)


@click.command("check")
@run_argument
@click.option(
    "--statistic",
    "statistics",
    metavar="NAME|MODULE:FUNCTION",
    multiple=True,
    help="Also check this statistic (repeatable), such as sd, median or minimum, or your own "
    "function, which takes the array y and returns a number. MODULE is installed, in the working "
    "folder, or a Python file; its code is run.",
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
    a part of the verdict fails; what concerns only predictions of single values does not fail.

      pyflowers check runs/flowers
      pyflowers check runs/flowers --statistic median --out checks
    """
    from pyflowers.analysis.checks import check

    fit = _open(run, interval)
    found = check(fit, **options)
    table = found.table()
    record = about(
        *(fit, run),
        num_replicates=found.num_replicates,
        passed=found.passed,
        verdict=found.verdict.to_dict(),
        checks=[
            {
                **row,
                "finding": each.finding,
                "advice": each.advice,
                "command": each.judged.command,
            }
            for row, each in zip(rows_of(table), found.checks, strict=True)
        ],
        pit=_pit(found),
        notes=list(found.notes),
    )
    status = 0 if found.verdict.passed else EXIT_CHECKS_FAIL
    return finish("checks", found, record, out, partial(_check_files, found), status)


def _check_files(found: PredictiveChecks) -> dict[str, Any]:
    """Return the table of a check, and the figures that the program allows, by file name."""
    from pyflowers import plots
    from pyflowers.programs import Capability

    program = found.fit.program
    replicated = plots.predictive if program.counts else plots.density_overlay
    made = {"checks.csv": found.table(), "checks.png": plots.predictive_checks(found)}
    made["replicated.png"] = replicated(found.fit)
    # If each group has its own mean, every observed mean is in the middle of its interval.
    if found.groups is not None and not program.can(Capability.GROUP_MEAN):
        made["groups.png"] = plots.group_intervals(found)
    if found.pit is not None:
        made["loo_pit.png"] = plots.pit_ecdf(found)
    return made


def _pit(found: PredictiveChecks) -> dict[str, Any] | None:
    """Return the PITs with everything that is needed to plot them again."""
    pit = found.pit
    if pit is None:
        return None
    band = {name: getattr(pit.band, name) for name in ("prob", "points", "lower", "upper")}
    return {
        "values": pit.values,
        "observations": pit.rows + 1,
        "num_draws": pit.num_draws,
        "k_hat": pit.k_hat,
        "good_k": pit.good_k,
        "band": band,
    }


@click.command("predict")
@run_argument
@rows_options
@groups_option("data")
@click.option(
    "--kind",
    type=click.Choice(["expected", "linear", "observation"]),
    help="What to predict for each row: the expected value, the linear predictor or a new "
    "observation. [default: expected]",
)
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
    y_new_group. With --new, --kind, --by or --weights, the command predicts each row of a table, or
    averages over rows. It always does so for a formula, and for a program with [prediction] but no
    y_new.

      pyflowers predict runs/flowers
      pyflowers predict runs/rats --new rats.csv --kind observation
    """
    from pyflowers import plots
    from pyflowers.analysis.predictions import RowPredictions, predict

    if draws and out is None:
        raise click.UsageError("--draws writes predictions.nc to --out; add --out")
    fit = _open(run, interval)
    found = predict(fit, seed=seed, **_given(options))
    table, record = found.table(), about(fit, run)
    if isinstance(found, RowPredictions):
        record |= {"seed": found.predictor.seed, "of": found.kind, "groups": found.predictor.groups}
        record |= {"predictions": rows_of(table)}
    else:
        record |= {"seed": found.seed, "predictions": rows_of(table), "notes": list(found.notes)}
    if draws and not isinstance(found, RowPredictions):
        raise click.UsageError("--draws applies only to rows of a table; add --new or --kind")

    def files() -> dict[str, Any]:
        made = {"predictions.csv": table, "predictions.png": plots.predictions(found)}
        return {**made, "predictions.nc": found} if draws else made

    return finish("predictions", found, record, out, files)


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
    help="Change in a numeric column. [default: 1; for a column with two values, from the lower to "
    "the higher; for a column in a spline, from the lower to the upper quartile]",
)
@click.option(
    "--between",
    nargs=2,
    help="Two values of COLUMN; the second is compared with the first.",
)
@click.option(
    "--scale",
    type=click.Choice(["difference", "ratio", "odds ratio"]),
    default="difference",
    show_default=True,
    help="Scale on which the averages are compared.",
)
@click.option("--rope", type=float, nargs=2, help="Ends of the region of practical equivalence.")
@rows_options
@groups_option(
    "data; for an effect that varies between groups, as with (x | g), population and data"
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
    most numeric columns, x + 1 is compared with x (see --step). To show only some columns, name
    them as COLUMN. In each draw, every row is predicted with both values of the column, while its
    other values stay as they are. If an effect varies between groups, as with (x | g), it is shown
    in the population of groups and for the groups of the rows; --groups shows one of the two.

      pyflowers effects runs/rats
      pyflowers effects runs/rats age --step sd --out effects
    """
    from pyflowers.analysis.average_effects import effects

    fit = _open(run, interval)
    found = effects(fit, *columns, **_given(options))
    table = found.table()
    record = about(fit, run, scale=found.scale, rows=found.source, groups=found.groups)
    record |= {"draws used": f"1 in {found.step}"} if found.step > 1 else {}
    record |= {"effects": rows_of(table)}

    def files() -> dict[str, Any]:
        from pyflowers import plots

        made: dict[str, Any] = {"effects.csv": table}
        for column in dict.fromkeys(table.index.get_level_values("column")):
            name = "effect-" + re.sub(r"[^\w.-]+", "_", column)
            while f"{name}.png" in made:  # "a b" and "a_b" give the same name
                name += "_"
            made[f"{name}.png"] = plots.conditional_effects(fit, column)
        return made

    return finish("effects", found, record, out, files)


@click.command("contrast")
@run_argument
@click.argument("expressions", metavar="EXPR...", nargs=-1, required=True)
@interval_option
@out_option("contrasts")
def contrast_command(
    run: Path, expressions: tuple[str, ...], interval: float | None, out: Path | None
) -> int:
    """Compute an interval for each number, and a probability for each condition, from a posterior.

    RUN is a run folder written by pyflowers fit. EXPR is a number, such as "mu_plant[rose] -
    mu_plant[1]"; a condition, such as "mu_plant[3] > mu_plant[1] and mu > 0"; or "rank(mu_plant)",
    for each element's probability of being the largest, one of the three largest, or the smallest.
    Name an element by its label or, unless all labels are numbers, by its position, counted from 1.
    For a formula, mu[subject 308] is the expected response averaged over the rows where subject is
    308, and mu is the average over all rows.

    Operators are + - * / **, comparisons, and the words 'and', 'or' and 'not'. The functions are
    abs, exp, log, sqrt and rank; mean, sum, min, max, sd and var are taken over the elements of a
    vector in each draw.

      pyflowers contrast runs/flowers "mu_plant[3] - mu_plant[1]"
      pyflowers contrast runs/flowers "mu_plant[3] > 5" "rank(mu_plant)"
    """
    from pyflowers.analysis.contrasts import contrast

    fit = _open(run, interval)
    found = contrast(fit, *expressions)

    def files() -> dict[str, Any]:
        from pyflowers import plots
        from pyflowers.programs import Capability

        made: dict[str, Any] = dict(found.tables())
        if fit.program.can(Capability.GROUP_MEAN):
            made["forest.png"] = plots.forest(fit)
        return made

    return finish("contrasts", found, about(fit, run, contrasts=found.records()), out, files)


@click.command("sensitivity")
@run_argument
@interval_option
@out_option("sensitivity")
def sensitivity_command(run: Path, interval: float | None, out: Path | None) -> int:
    """Show which conclusions of a run depend on its prior, by power-scaling.

    RUN is a run folder. The prior and the likelihood are each raised to powers near 1, and the
    resulting posteriors are computed by importance sampling, without refitting. With --out, the
    command writes sensitivity.csv, conclusions.csv and sensitivity.json, and a figure if the
    sensitivities can be computed.

      pyflowers sensitivity runs/flowers
    """
    from pyflowers.analysis.prior_sensitivity import sensitivity
    from pyflowers.fits.fit import Fit

    fit = Fit.load(run)
    found = sensitivity(fit, interval=interval)
    verdict = fit.verdict.also(found.part)
    record = {
        "sensitivity_of": found.name,
        "k_hat": {
            scaled.component: {f"{alpha:g}": str(k) for alpha, k in scaled.k_hat.items()}
            for scaled in found.components
        },
        "notes": list(found.notes),
        "run": str(run),
        "sensitivity": rows_of(found.table()),
        "moves": rows_of(found.moves()),
        "conclusion": found.sentence,
        "verdict": verdict.to_dict(),
    }

    def files() -> dict[str, Any]:
        from pyflowers.plots import power_scaling

        made: dict[str, Any] = {"sensitivity.csv": found.table()}
        made["conclusions.csv"] = found.conclusions
        distances = found.distances.get("prior")
        if distances is not None and distances.notna().any():
            made["sensitivity.png"] = power_scaling([found])
        return made

    return finish("sensitivity", Lines([*found.contents(), verdict.line]), record, out, files)


@click.command("loo")
@runs_argument
@click.option(
    "--refit/--no-refit",
    default=None,
    help="For each observation whose k-hat is too large, refit without it. [default: no refit]",
)
@click.option(
    "--by-group",
    is_flag=True,
    help="Leave out one group at a time, instead of one observation, and refit each time.",
)
@click.option(
    "--column",
    metavar="COLUMN",
    help="Column of the groups for --by-group. [default: the column by which the program groups "
    "the rows]",
)
@out_option("loo")
def loo_command(
    folders: tuple[Path, ...],
    refit: bool | None,
    by_group: bool,
    column: str | None,
    out: Path | None,
) -> int:
    """Compare models of the same data by how well they predict held-out observations or groups.

    Each DIR is a run folder. By default, PSIS-LOO leaves out one observation at a time without a
    refit; where a k-hat is too large, a note says how long the refits of --refit will take, which
    replace its estimate. Models of integers and of real numbers are compared by the probability of
    the rounded response. Use --by-group to see how well a multilevel
    model predicts a whole group that it has not seen. --json includes the elpd of each observation
    or group.

    In the tables, se is the uncertainty due to the observations, and mcse is the uncertainty due to
    the draws. Stacking chooses the weights with which the combined models predict best; the weight
    of a model is not the probability that it is true.

      pyflowers loo runs/poisson runs/negbinomial
      pyflowers loo runs/flowers --by-group
    """
    from pyflowers.fits.fit import Fit

    if column and not by_group:
        raise click.UsageError(
            "--column is used only with --by-group; add --by-group, or leave out --column"
        )
    if by_group and refit is False:
        raise click.UsageError(
            "--by-group always refits, leaving out one group at a time; "
            "leave out --no-refit or --by-group"
        )
    fits = [Fit.load(folder) for folder in folders]
    found, record = _by_group(fits, column) if by_group else _by_observation(fits, bool(refit))
    table = found.table()
    for name, row in table.to_dict(orient="index").items():
        record["models"][name] = {**row, **record["models"][name]}
    record["cautions"] = found.cautions
    return finish("loo", found, record, out, lambda: {"loo.csv": table})


def _by_observation(fits: list[Fit], refit: bool) -> tuple[LooComparison, dict[str, Any]]:
    from pyflowers.analysis.elpd import loo

    found = loo(fits, refit=refit)
    terms = {
        m.name: {"refitted": m.refitted + 1, "k_hat": m.k_hat, "terms": m.terms}
        for m in found.models
    }
    return found, {
        "observations": found.num_obs,
        "fitted": dict(found.num_fitted),
        "models": terms,
    }


def _by_group(fits: list[Fit], column: str | None) -> tuple[GroupComparison, dict[str, Any]]:
    from pyflowers.analysis.elpd import group_labels, leave_one_group_out
    from pyflowers.progress import stage

    num = 0
    with suppress(ConfigError):  # the call below raises it again
        num = len(fits) * len(group_labels(fits[0], column))
    with stage("Leaving out one group at a time", num) as advance:
        found = leave_one_group_out(fits, column=column, advance=lambda: advance(1))
    terms = {
        model.name: {
            "terms": dict(zip(found.groups, model.terms, strict=True)),
            "mcse of terms": dict(zip(found.groups, model.mcse, strict=True)),
        }
        for model in found.models
    }
    return found, {"column": found.column, "models": terms}


@click.command("replay")
@runs_argument
@click.option(
    "--engine",
    type=click.Choice(["cmdstan", "stanli", "exact"]),
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
        name = f"{folder}: " if len(folders) > 1 else ""
        colour = "red" if result.verdict == "different" else "green"
        say(name, styled(str(result), fg=colour))
        replays.append({"run": str(folder), **asdict(result)})
    say_json({"replays": replays})
    return EXIT_DIFFERENT if any(r["verdict"] == "different" for r in replays) else 0
