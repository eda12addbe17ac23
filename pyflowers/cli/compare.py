"""``pyflowers compare``: every method on one posterior, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pyflowers.cli.options import cmdstan_option, data_options, prior_option, seed_option

if TYPE_CHECKING:
    from pyflowers.compare import Comparison


@click.command("compare")
@click.argument("model", default="semiconjugate_normal")
@data_options
@seed_option
@prior_option
@cmdstan_option
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to write.")
def command(
    model: str,
    data: Path | None,
    group: str,
    time: str,
    value: str,
    seed: int | None,
    priors: dict[str, float],
    cmdstan: str | None,
    out: Path,
) -> None:
    """Compare NUTS with the exact posterior and every approximation that applies.

    Writes table.csv, methods.csv and figures; NUTS' own run goes to OUT/nuts.
    """
    from pyflowers.compare import compare_methods
    from pyflowers.data import read_data
    from pyflowers.resources import flowers_csv
    from pyflowers.runs import check_folder
    from pyflowers.sampling import new_seed

    check_folder(out / "nuts")
    table = read_data(data or flowers_csv(), group=group, time=time, value=value)
    chosen = new_seed() if seed is None else seed
    comparison = compare_methods(model, table, seed=chosen, priors=priors, cmdstan=cmdstan)
    show(comparison)
    write(comparison, out)
    click.echo(f"comparison: {out}")


def show(comparison: Comparison) -> None:
    """Print both tables."""
    from pyflowers.cli.tables import print_comparison, print_methods

    click.echo(f"\n{click.style(comparison.model.name, bold=True)}  {comparison.model.equation}")
    print_comparison(comparison.table())
    print_methods(comparison.methods())
    for method, reason in comparison.failures.items():
        click.echo(f"note: {method} failed: {reason}")
    click.echo(f"verdict on NUTS: {comparison.nuts.diagnostics}")
    click.echo(f"seed: {comparison.seed}")


def write(comparison: Comparison, out: Path) -> None:
    """Write tables and figures, and NUTS' run folder."""
    from pyflowers.errors import ConfigError
    from pyflowers.plots.methods import comparison_figures

    comparison.nuts.save(out / "nuts")
    try:
        comparison.table().to_csv(out / "table.csv")
        comparison.methods().to_csv(out / "methods.csv")
        for name, figure in comparison_figures(comparison).items():
            figure.savefig(out / name, dpi=150)
    except OSError as error:
        raise ConfigError(
            f"--out {out}: it cannot be written ({error.strerror}); name another folder"
        ) from error
