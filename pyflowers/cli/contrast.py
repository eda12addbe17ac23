"""``pyflowers contrast``: what the posterior says of derived quantities."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pyflowers.cli.console import say
from pyflowers.cli.options import interval_option
from pyflowers.cli.results import about, open_run, result_options, say_json
from pyflowers.cli.results import write as write_result
from pyflowers.programs.capabilities import Capability

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pyflowers.analysis.contrasts import Contrasts


@click.command("contrast")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("expressions", metavar="EXPR...", nargs=-1, required=True)
@interval_option
@result_options
def command(
    run: Path,
    expressions: tuple[str, ...],
    interval: float | None,
    as_json: bool,
    out: Path | None,
) -> None:
    """Evaluate expressions of a posterior: intervals of numbers, probabilities of conditions.

    RUN is a run folder of pyflowers fit, and EXPR for instance "mu_plant[rose] - mu_plant[1]",
    "mu_plant[3] > mu_plant[1] and mu > 0" or "rank(mu_plant)", where rank 1 is the largest. An
    element is named by its label, or by its position from 1. There are + - * / **, comparisons,
    and, or, not, abs, exp, log, sqrt and rank; mean, sum, min, max, sd and var are taken over the
    elements of a vector in each draw.
    """
    from pyflowers.analysis.contrasts import contrast
    from pyflowers.cli.tables import show

    fit = open_run(run, out, "contrasts", interval)
    found = contrast(fit, *expressions)
    record = about(fit, run, contrasts=found.records())
    numbers, conditions = found.numbers(), found.conditions()
    tables = {"numbers.csv": numbers, "conditions.csv": conditions}
    write_result(
        *(out, "contrasts", record, {k: t for k, t in tables.items() if len(t)}),
        lambda: _figures(found),
    )
    if as_json:
        say_json(record)
        return
    show(found)
    if out is not None:
        say(f"contrasts: {out}")


def _figures(found: Contrasts) -> dict[str, Figure]:
    """Draw the groups behind the contrasts, where the program has such means."""
    from pyflowers import plots

    if not found.fit.program.can(Capability.GROUP_MEAN):
        return {}
    return {"forest.png": plots.forest(found.fit)}
