"""``pyflowers check``: whether the model would produce data like those it was fitted to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyflowers.cli.console import say
from pyflowers.cli.options import interval_option
from pyflowers.cli.results import about, open_run, result_options, result_seed, rows_of, say_json
from pyflowers.cli.results import write as write_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pyflowers.analysis.checks import PredictiveChecks

EXIT_CHECKS_FAIL = 3


@click.command("check")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--statistic",
    "statistics",
    metavar="NAME|MODULE:FUNCTION",
    multiple=True,
    help="Check this as well: sd, median, minimum …, or a function of your own that takes y, an "
    "array, and returns a number. MODULE may be a file of Python. May be given several times.",
)
@click.option(
    "--replicates",
    type=click.IntRange(2),
    help="Replicated data sets, evenly spaced over the draws. [default: one for each draw]",
)
@result_seed
@interval_option
@result_options
def command(
    run: Path, as_json: bool, out: Path | None, interval: float | None, **options: Any
) -> int:
    """Check whether the model would produce data like those that it was fitted to.

    RUN is a run folder of pyflowers fit. Each statistic of the data is compared with that of data
    replicated from the posterior: p is the share of these in which it is larger, counting half of
    the ties. Exits with 3 if any part of the verdict fails.
    """
    from pyflowers.analysis.checks import check
    from pyflowers.cli.tables import show

    fit = open_run(run, out, "checks", interval)
    found = check(fit, **options)
    table = found.table()
    record = about(
        *(fit, run),
        num_replicates=found.num_replicates,
        passed=found.passed,
        verdict=found.verdict.to_dict(),
        checks=[
            {**row, "finding": each.finding, "advice": each.advice}
            for row, each in zip(rows_of(table), found.checks, strict=True)
        ],
        pit=_pit(found),
        notes=list(found.notes),
    )
    write_result(out, "checks", record, {"checks.csv": table}, lambda: figures(found))
    if as_json:
        say_json(record)
    else:
        show(found)
        if out is not None:
            say(f"checks: {out}")
    return 0 if found.verdict.passed else EXIT_CHECKS_FAIL


def figures(found: PredictiveChecks) -> dict[str, Figure]:
    """Return the figures of a check by file name, as far as the program allows them."""
    from pyflowers import plots
    from pyflowers.programs import Capability

    made = {"checks.png": plots.predictive_checks(found), "replicated.png": _replicated(found)}
    # With a mean for each group every observed mean is in the middle of its interval.
    if found.groups is not None and not found.fit.program.can(Capability.GROUP_MEAN):
        made["groups.png"] = plots.group_intervals(found)
    if found.pit is not None:
        made["loo_pit.png"] = plots.pit_ecdf(found)
    return made


def _replicated(found: PredictiveChecks) -> Figure:
    """Draw a rootogram of counts, and densities of measurements."""
    from pyflowers import plots

    fit = found.fit
    return plots.predictive(fit) if fit.program.counts else plots.density_overlay(fit)


def _pit(found: PredictiveChecks) -> dict[str, Any] | None:
    """Return the PITs with all that is needed to plot them again."""
    pit = found.pit
    if pit is None:
        return None
    return {
        "values": pit.values.tolist(),
        "observations": (pit.rows + 1).tolist(),
        "num_draws": pit.num_draws,
        "k_hat": pit.k_hat.tolist(),
        "good_k": pit.good_k,
        "band": {
            "prob": pit.band.prob,
            "points": pit.band.points.tolist(),
            "lower": pit.band.lower.tolist(),
            "upper": pit.band.upper.tolist(),
        },
    }
