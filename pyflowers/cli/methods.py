"""``pyflowers prior``, ``compare``, ``vb`` and ``sbc``: priors, methods and calibration."""

from __future__ import annotations

import json
import warnings
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from pyflowers.cli.console import shows_progress
from pyflowers.cli.options import (
    PATH,
    InSections,
    given,
    inputs,
    named_numbers,
    overwrite_option,
    plots_option,
    workers_option,
)
from pyflowers.cli.results import Plain, finish, folder_kind, out_option, told
from pyflowers.display import INTERVAL, Line, heading, in_file, records_of, whole
from pyflowers.fits.spec import INPUTS, OF_PRIOR, OF_SBC, READING, Spec
from pyflowers.programs import COMPARED, Capability, find_program

EXIT_NOT_CALIBRATED = 3
MOST_ELEMENTS = 110
"""The largest number of quantities for which ``vb`` also integrates the exact posterior."""


@click.command("prior", cls=InSections)
@click.argument("program", metavar="NAME|PROGRAM.stan|FORMULA")
@click.argument("table", metavar="[TABLE]", required=False, type=PATH)
@inputs("data", *OF_PRIOR)
@click.option("--draws", type=int, default=4000, show_default=True, help="Number of draws.")
@click.option("--list", "lists", is_flag=True, help="Only list the priors, in a table.")
@plots_option
@out_option("prior")
@click.pass_context
def prior_command(
    ctx: click.Context,
    /,
    table: Path | None,
    out: Path | None,
    plots: str,
    lists: bool,
    **options: Any,
) -> int:
    """Draw from a model's prior and show the data that it implies for your design.

    TABLE (or --data) contains your groups, times and covariates. Its observed values are not read
    and may be missing, except with a formula, whose default priors depend on them. The command
    prints quantiles of the parameters and of statistics of the implied data.

      pyflowers prior multilevel_poisson --prior mu_mean=1.5 --prior mu_sd=1
      pyflowers prior "weight ~ age + (age | rat)" rats.csv --out prior
      pyflowers prior "weight ~ age + (age | rat)" rats.csv --list
    """
    import pyflowers

    if table is not None:
        if options["data"] is not None:
            raise click.UsageError("TABLE and --data mean the same thing; give only one.", ctx)
        options["data"] = table
    if lists:
        return _list_priors(given(options), out)
    found = pyflowers.prior(**given(options))

    def figures() -> dict[str, Any]:
        if plots == "none":
            return {}
        made = pyflowers.plots.prior_figures(found, plots)
        return {f"plots/{name}": figure for name, figure in made.items()}

    return finish(found, out, figures=figures)


def _list_priors(inputs: dict[str, Any], out: Path | None) -> int:
    """Print the table of a program's priors, and below it what each of them means."""
    del inputs["draws"]
    program = Spec(**inputs).open()
    priors = program.priors
    record = {"program": program.name, "priors": records_of(priors)}
    in_words = ["meaning", "on the response's scale"]
    lines: list[Line] = [program.head, in_file(whole(priors.drop(columns=in_words)), "priors.csv")]
    if priors["on the response's scale"].any():
        lines.append("The parameters, and what 90% of each prior implies for the response:")
    else:
        lines.append("The parameters:")
    for name, texts in priors[in_words].iterrows():
        lines.append(f"  {name}: {'; '.join(filter(None, texts))}")
    return finish(Plain("prior", lines, record, {"priors.csv": priors}), out)


@click.command("compare", cls=InSections)
@click.argument("program", metavar="[NAME|PROGRAM.stan|FORMULA]", required=False)
@inputs("data", *INPUTS)
@out_option("comparison")
@overwrite_option
def compare_command(program: str | None, out: Path | None, overwrite: bool, **options: Any) -> int:
    """Compare NUTS with the exact posterior and every approximation that applies.

    The default model is semiconjugate_normal, for which the steps of mean-field VB have a closed
    form. With --out, table.csv, methods.csv, comparison.json and figures are written, and the NUTS
    run is saved in the subfolder 'nuts'. With --engine exact, draws without a Markov chain replace
    the NUTS run and are saved in the subfolder 'independent' or, for formulas, 'weighted'.

      pyflowers compare
      pyflowers compare multilevel_normal --seed 1 --out comparison
    """
    from pyflowers.analysis.methods import compare
    from pyflowers.fits.folder import refuse_other_run
    from pyflowers.fits.sampling import prepare_spec

    prepared = prepare_spec(Spec(program or COMPARED, **given(options)))
    if out is not None and not overwrite:
        for name in folder_kind("comparison").inner:
            refuse_other_run(out / name, prepared.record)
    nuts = prepared.sample(show_progress=shows_progress())
    found = compare(nuts=nuts, cmdstan=options["cmdstan"])
    return finish(found, out)


@click.command("vb")
@click.argument("program", metavar="[NAME]", required=False)
@inputs("data", *READING, "priors", "interval")
@out_option("vb")
def vb_command(
    program: str | None,
    priors: dict[str, float] | None,
    interval: float | None,
    out: Path | None,
    **reading: Any,
) -> int:
    """Fit by closed-form variational Bayes (mean field), without sampling or a compiler.

    NAME is a model with the capability vb: semiconjugate_normal (the default), iid_normal or
    multilevel_normal.

      pyflowers vb multilevel_normal --data flowers.csv
    """
    from pyflowers.exact import NotRefinedWarning
    from pyflowers.vb import NotConvergedWarning

    chosen = find_program(program or COMPARED)
    chosen.require(Capability.VB)
    data = chosen.read(**given(reading))
    values = chosen.resolve_priors(priors, data)
    whole, notes = chosen.fill(data, values)
    closed = chosen.python.closed_form
    assert closed.vb is not None  # required above
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)  # the output says so
        result = closed.vb(whole)
    if interval is None:
        interval = INTERVAL
    table, exact = result.table(interval), None
    if closed.exact and len(table) <= MOST_ELEMENTS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", NotRefinedWarning)
                exact = closed.exact(whole)
        except NotRefinedWarning as warning:
            notes = [*notes, f"the log evidence and KL are unknown, since {warning}"]
    record: dict[str, Any] = {
        "program": chosen.name,
        "priors": values,
        "elbo": float(result.elbo),
        "log_evidence": None,
        "kl": None,
        "converged": bool(result.converged),
        "sweeps": result.num_iter,
        "elbo_trace": [float(value) for value in result.elbo_trace],
        "factors": {name: _parameters(factor) for name, factor in result.factors.items()},
        "parameters": json.loads(table.to_json(orient="index", double_precision=15)),
    }
    lines: list[Line] = [heading(chosen.name, chosen.about), table, *result.contents()[2:]]
    if exact is not None:
        kl = exact.log_evidence - float(result.elbo)
        record |= {"log_evidence": exact.log_evidence, "kl": kl}
        lines.insert(3, f"log evidence {exact.log_evidence:.6f}, so KL(q ‖ posterior) = {kl:.6f}")
    lines += [f"note: {note}" for note in notes]
    return finish(Plain("vb", lines, record, {"vb.csv": table}), out)


def _parameters(factor: Any) -> dict[str, Any]:
    """Return a factor's family and parameters at full precision."""
    values = {
        field.name: np.asarray(getattr(factor, field.name), dtype=float) for field in fields(factor)
    }
    return {"family": type(factor).__name__, **values}


@click.command("design", cls=InSections)
@click.argument("program", metavar="NAME|PROGRAM.stan|FORMULA")
@inputs("data", *INPUTS)
@click.option(
    "--effect",
    "effects",
    metavar="NAME=VALUE",
    multiple=True,
    required=True,
    callback=named_numbers,
    help="A parameter of interest, such as b[x], and its true value (repeatable).",
)
@click.option(
    "--groups",
    metavar="SIZES",
    help="Numbers of groups, such as 20,40 or 20:80:20 (start:stop:step).",
)
@click.option(
    "--rows",
    metavar="SIZES",
    required=True,
    help="Numbers of rows in each group or, without groups, in the table.",
)
@click.option(
    "--unit",
    metavar="COLUMN",
    help="Column with the groups for --groups. [default: the only column with group effects]",
)
@click.option(
    "--region",
    type=float,
    nargs=2,
    help="Ends of a region; the share of intervals within it is shown.",
)
@click.option(
    "--sims", type=int, default=200, show_default=True, help="Number of data sets for each design."
)
@workers_option
@plots_option
@click.option("--out", type=PATH, required=True, help="Folder for the fits and the results.")
def design_command(out: Path, plots: str, **options: Any) -> int:
    """Simulate studies of several sizes, and show how narrow and how clear their results are.

    The model is fitted to the pilot data in --data. For each number of groups and rows, data are
    simulated with the posterior medians of that fit, except the parameters in --effect, which have
    the values given there, and with new groups from the population. Each data set is fitted. For
    each parameter in --effect, the table shows the average width of its interval and the shares of
    intervals that exclude 0, lie in --region, and contain the true value. Run the same command
    again to resume, or with a larger --sims to add data sets.

      pyflowers design "y ~ x" --data t.csv --rows 20,40 --effect "b[x]=1" --out d
    """
    from pyflowers.analysis.designs import FILES, design
    from pyflowers.plots.designs import design as draw

    figure = f"design.{plots}"
    FILES.check(out, ("design.csv", figure))
    found = design(out=out, **given(options))
    if plots != "none":
        found.save({figure: draw(found)})
    return told(found, out)


@click.command("sbc", cls=InSections)
@click.argument("program", metavar="NAME|PROGRAM.stan|FORMULA")
@inputs("data", *OF_SBC)
@click.option("--sims", type=int, default=1000, show_default=True, help="Number of simulations.")
@click.option(
    "--quantity",
    "quantities",
    metavar="MODULE:FUNCTION",
    multiple=True,
    help="Also test this function of draws and data (repeatable). MODULE is installed or in the "
    "working folder; its code is run.",
)
@click.option(
    "--drop-doubtful",
    is_flag=True,
    help="Leave out fits with divergences, or with an ESS below the number of ranked draws.",
)
@click.option(
    "--posterior",
    is_flag=True,
    help="Simulate from the posterior given --data, and fit the observed and the simulated data "
    "together.",
)
@workers_option
@click.option("--out", type=PATH, required=True, help="Folder for the calibration.")
def sbc_command(out: Path, drop_doubtful: bool, **options: Any) -> int:
    """Check a program's computation by simulation-based calibration.

    Parameters are drawn from the prior, and data are simulated from them for the design of --data.
    The program is fitted to each simulated data set, and the true values are ranked among the draws
    of the fit. If the computation is correct, the ranks are uniform. Every prior must be proper.
    --posterior tests the computation at the observed data instead, and allows improper priors. Run
    the same command again to resume. Exit status 3 means that a quantity is not calibrated.

      pyflowers sbc iid_normal --sims 100 --out sbc
    """
    from pyflowers.analysis.calibration import FILES, sbc
    from pyflowers.plots import calibration

    FILES.check(out, ("calibration.csv", "calibration.png"))
    found = replace(sbc(out=out, **given(options)), drop=drop_doubtful)
    found.save({"calibration.png": calibration(found)})
    if found.failed:
        return told(found, out, EXIT_NOT_CALIBRATED)
    return told(found, out)
