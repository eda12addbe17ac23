"""``pyflowers vb``: closed-form variational Bayes alone, without Stan."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import click
import numpy as np

from pyflowers.cli.console import say
from pyflowers.cli.options import data_options, interval_option, prior_option, reading_of
from pyflowers.cli.results import say_json
from pyflowers.display import styled

MOST_ELEMENTS = 110
"""Quantities up to which the exact posterior is integrated as well."""


@click.command("vb")
@click.argument("program", metavar="[NAME]", required=False)
@data_options
@prior_option
@interval_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def command(program: str | None, interval: float | None, as_json: bool, **options: Any) -> None:
    """Fit the closed-form mean field: no sampling, no compiler.

    NAME is a program with the capability vb: semiconjugate_normal (the default), iid_normal or
    multilevel_normal.
    """
    from pyflowers.analysis.method_statistics import of_functions
    from pyflowers.display import INTERVAL
    from pyflowers.fits.posterior import dataset, element_names
    from pyflowers.programs import COMPARED, Capability, find_program

    chosen = find_program(program or COMPARED)
    chosen.require(Capability.VB)
    priors = options.pop("priors")
    data = chosen.read(**reading_of(options))
    values = chosen.resolve_priors(priors, data)
    whole, notes = chosen.fill(data, values)
    closed = chosen.python.closed_form
    assert closed.vb is not None  # required above
    result = closed.vb(whole)
    means = {name: np.asarray(result.mean(name))[None, None] for name in result.factors}
    posterior = dataset(means, whole)
    few = len(element_names(posterior)) <= MOST_ELEMENTS
    exact = closed.exact(whole) if closed.exact is not None and few else None
    summary = of_functions(result, posterior, INTERVAL if interval is None else interval).drop(
        columns="sd_mcse"
    )
    about: dict[str, Any] = {
        "program": chosen.name,
        "priors": values,
        "elbo": float(result.elbo),
        "log_evidence": exact.log_evidence if exact is not None else None,
        "kl": exact.log_evidence - float(result.elbo) if exact is not None else None,
        "converged": bool(result.converged),
        "sweeps": result.num_iter,
        "elbo_trace": [float(value) for value in result.elbo_trace],
    }
    if as_json:
        factors = {name: _parameters(factor) for name, factor in result.factors.items()}
        records = json.loads(summary.to_json(orient="index", double_precision=15))
        record = {**about, "factors": factors, "parameters": records}
        say_json(record)
        return
    _print(chosen.about, summary, about)
    for note in notes:
        say(f"note: {note}")


def _parameters(factor: Any) -> dict[str, Any]:
    """Return a factor's family and parameters at full precision."""
    values = {
        field.name: np.asarray(getattr(factor, field.name), dtype=float).tolist()
        for field in fields(factor)
    }
    return {"family": type(factor).__name__, **values}


def _print(equation: str, summary: Any, about: dict[str, Any]) -> None:
    from pyflowers.cli.tables import print_table

    say("\n", styled(about["program"], bold=True), f"  {equation}")
    print_table(summary.rename_axis("parameter"))
    state = "converged" if about["converged"] else "NOT converged"
    say(f"{state} in {about['sweeps']} sweeps, ELBO {about['elbo']:.6f}")
    if about["kl"] is not None:
        say(f"log evidence {about['log_evidence']:.6f}, so KL(q ‖ posterior) = {about['kl']:.6f}")
    say(
        "note: a mean field ignores correlations, so it understates the spread; see pyflowers "
        "compare"
    )
