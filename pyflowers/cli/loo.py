"""``pyflowers loo``: how well finished runs predict what they have not seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyflowers.cli.results import say_json
from pyflowers.errors import ConfigError

if TYPE_CHECKING:
    from pyflowers.analysis.elpd import LooComparison
    from pyflowers.analysis.loo_groups import GroupComparison
    from pyflowers.fits.fit import Fit


@click.command("loo")
@click.argument(
    "folders", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--refit/--no-refit",
    default=True,
    help="Fit again without each observation whose k-hat is too large. [default: refit]",
)
@click.option(
    "--by-group",
    is_flag=True,
    help="Leave out one group at a time, by exact refits, in place of one observation.",
)
@click.option("--column", metavar="COLUMN", help="The table's column of groups for --by-group.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON, with the elpd of each observation or group.",
)
def command(
    folders: tuple[Path, ...], refit: bool, by_group: bool, column: str | None, as_json: bool
) -> None:
    """Compare models of the same data by how well they predict an observation or group left out.

    DIR is a run folder. One observation at a time is PSIS-LOO, which needs no refit where its k-hat
    is small. For a multilevel model, ask how well it predicts a whole group that it has not seen:
    --by-group.

    se is what other observations would change, mcse what other draws would.
    """
    from pyflowers.analysis.elpd import loo
    from pyflowers.analysis.loo_groups import leave_one_group_out
    from pyflowers.fits.fit import Fit
    from pyflowers.progress import stage

    if column and not by_group:
        raise click.UsageError(
            "--column is used only with --by-group; add --by-group, or leave --column out"
        )
    if by_group and not refit:
        raise click.UsageError(
            "--by-group always fits again, without each group; leave --no-refit or --by-group out"
        )
    fits = [Fit.load(folder) for folder in folders]
    if not by_group:
        found = loo(fits, refit=refit)
        _show(found, _json_of_points(found), as_json)
        return
    with stage("Fitting without one group at a time", _num_refits(fits, column)) as advance:
        by_groups = leave_one_group_out(fits, column=column, advance=lambda: advance(1))
    _show(by_groups, _json_of_groups(by_groups), as_json)


def _num_refits(fits: list[Fit], column: str | None) -> int:
    from pyflowers.analysis.loo_groups import group_labels

    try:
        return len(fits) * len(group_labels(fits[0], column))
    except ConfigError:
        return 0


def _show(found: LooComparison | GroupComparison, record: dict[str, Any], as_json: bool) -> None:
    from pyflowers.cli.tables import show

    if as_json:
        say_json({**record, "cautions": found.cautions})
    else:
        show(found)


def _json_of_points(found: LooComparison) -> dict[str, Any]:
    records = found.table().to_dict(orient="index")
    models = {
        model.name: {
            **records[model.name],
            "refitted": [int(row) + 1 for row in model.refitted],
            "k_hat": model.k_hat.tolist(),
            "terms": model.terms.tolist(),
        }
        for model in found.models
    }
    return {"observations": found.num_obs, "models": models}


def _json_of_groups(found: GroupComparison) -> dict[str, Any]:
    records = found.table().to_dict(orient="index")
    models = {
        model.name: {
            **records[model.name],
            "terms": dict(zip(found.groups, model.terms.tolist(), strict=True)),
            "mcse of terms": dict(zip(found.groups, model.mcse.tolist(), strict=True)),
        }
        for model in found.models
    }
    return {"column": found.column, "models": models}
