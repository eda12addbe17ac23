"""``pyflowers vb``: closed-form variational Bayes alone, without Stan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from pyflowers.cli.options import data_options, prior_option


@click.command("vb")
@click.argument("model", default="semiconjugate_normal")
@data_options
@prior_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def command(
    model: str,
    data: Path | None,
    group: str,
    time: str,
    value: str,
    priors: dict[str, float],
    as_json: bool,
) -> None:
    """Fit the closed-form mean field: no sampling, no compiler.

    MODEL is semiconjugate_normal (the default), iid_normal or multilevel_normal.
    """
    from pyflowers.compare import exact_posterior, variational
    from pyflowers.compare.statistics import of_factors
    from pyflowers.data import read_data
    from pyflowers.errors import ConfigError
    from pyflowers.models import get_model
    from pyflowers.resources import flowers_csv

    chosen = get_model(model)
    values = chosen.resolve_priors(priors)
    table = read_data(data or flowers_csv(), group=group, time=time, value=value)
    chosen.check(table, values)
    result = variational(chosen, table, values)
    if result is None:
        raise ConfigError(
            f"{model} has no closed-form updates; use semiconjugate_normal, iid_normal or "
            "multilevel_normal, or pyflowers compare for the other approximations"
        )
    exact = exact_posterior(chosen, table, values) if table.num_plants <= 50 else None
    summary = of_factors(chosen, table, result).drop(columns="sd_mcse")
    about: dict[str, Any] = {
        "model": model,
        "priors": values,
        "elbo": float(result.elbo),
        "log_evidence": exact.log_evidence if exact is not None else None,
        "kl": exact.log_evidence - float(result.elbo) if exact is not None else None,
        "converged": bool(result.converged),
        "sweeps": result.num_iter,
        "elbo_trace": [float(value) for value in result.elbo_trace],
    }
    if as_json:
        records = json.loads(summary.to_json(orient="index"))
        click.echo(json.dumps({**about, "parameters": records}, indent=2, ensure_ascii=False))
        return
    _print(chosen.equation, summary, about)


def _print(equation: str, summary: Any, about: dict[str, Any]) -> None:
    from pyflowers.cli.tables import print_summary

    click.echo(f"\n{click.style(about['model'], bold=True)}  {equation}")
    print_summary(summary)
    state = "converged" if about["converged"] else "NOT converged"
    click.echo(f"{state} in {about['sweeps']} sweeps, ELBO {about['elbo']:.6f}")
    if about["kl"] is not None:
        click.echo(
            f"log evidence {about['log_evidence']:.6f}, so KL(q ‖ posterior) = {about['kl']:.6f}"
        )
    click.echo(
        "note: a mean field leaves out correlation, so it understates the spread; see compare"
    )
