"""Provenance: a draft for a methods section, the command that reproduces the report, and inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyflowers.analysis.prior_sensitivity import Sensitivity
from pyflowers.display import format_elpd, format_number, percent
from pyflowers.fits.commands import shown_path
from pyflowers.fits.fit import Fit
from pyflowers.reports.markup import code, command, fill, names_of, paragraph
from pyflowers.reports.material import Material
from pyflowers.reports.provenance import reproduction
from pyflowers.reports.section import Block, Section, Table, side_by_side


def content(material: Material) -> Iterator[Block]:
    """Yield the methods paragraph, the command, and the inputs and versions."""
    yield paragraph("A draft for a methods section:")
    yield fill("<blockquote>{}</blockquote>", methods_paragraph(material))
    again = reproduction(material)
    if again.needs_file:
        needs = ", once the data, which came from Python, are saved as <code>data.csv</code>"
    else:
        needs = ""
    if again.has_paths:
        needs += ", if it is run where its paths lead to the same files"
    yield paragraph(fill(f"This command reproduces the report{needs}:"))
    yield command(again.command)
    if again.covariances:
        files = names_of(again.covariances)
        yield paragraph(fill("It expects the known covariances in {}.", files))
    if again.lacks_inits:
        yield paragraph("The initial values, which came from Python, are not part of this command.")
    yield from _tables(material)


def _tables(material: Material) -> Iterator[Table]:
    """Yield tables of the inputs and versions that all runs share, and of their differences."""
    shared, own = [], []
    for key, found in side_by_side([_run(fit) for fit in material.fits]).items():
        values = ["–" if value is None else str(value) for value in found]
        if len(set(values)) == 1:
            shared.append([key, code(values[0])])
        else:
            own.append([key, *map(code, values)])
    names = [fit.name for fit in material.fits]
    every = "What all runs share"
    if material.alone:
        every = "The run"
    yield Table(every, ["", "Value"], shared, [1])
    if own:
        columns = range(1, len(names) + 1)
        yield Table("Differences between the runs", ["", *names], own, columns)


def _run(fit: Fit) -> dict[str, Any]:
    record = fit.record
    said = {True: "centred", False: "non-centred", None: "the program's own"}
    if isinstance(record.centered, dict):
        centered = ", ".join(f"{group} {said[its]}" for group, its in record.centered.items())
    else:
        centered = said[record.centered]
    rejected: int | str = "not reported by the engine"
    if record.messages is not None:
        rejected = sum(record.messages.values())
    return {
        **record.options.model_dump(exclude_unset=True),
        "parametrisation": centered,
        "data": shown_path(record.data.source or "none"),
        "data SHA-256": record.data.sha256,
        "columns": ", ".join(dict.fromkeys(record.data.columns.values())) or "–",
        "program": Path(record.program.path).name,
        "program SHA-256": record.program.sha256,
        "engine": record.engine.name,
        "engine's key": record.engine.key,
        "rejected proposals": rejected,
        "seconds of sampling": f"{record.times.wall_seconds:.2f}",
        **record.engine.versions,
        **record.packages,
    }


def methods_paragraph(material: Material) -> str:
    """Return sentences for a paper on how the best model was fitted, checked and compared."""
    if material.verdicts[material.best.name].computation.failed:
        return "The sampling did not converge, so there is no result to report."
    sentences = [
        _of_model(material.best),
        _of_sampling(material),
        *_of_conflicts(material.best),
        *_of_checks(material),
        *_of_sensitivity(material),
        *_of_comparison(material),
        f"Intervals are central {percent(material.best.interval)} intervals.",
    ]
    return " ".join(sentences)


def _of_model(fit: Fit) -> str:
    """Return the sentence on the data, the model and its priors."""
    model = [fit.program.declaration.equation or fit.program.reference, *_distributions(fit)]
    what = "data"
    if fit.data.num_obs > 1:
        what = f"{fit.data.num_obs:,} observations of {fit.data.value_name}"
    said = f"The {what} were analysed with the Bayesian model {'; '.join(model)}"
    numbers = [f"{name} = {value:g}" for name, value in fit.record.priors.items()]
    if numbers:
        said += f", where {', '.join(numbers)}"
    return f"{said}."


def _distributions(fit: Fit) -> list[str]:
    """Return the columns of X, the parameters' priors, and the distributions of the groups."""
    columns = fit.model.design_columns.items()
    found = [f"{name} = [{', '.join(its)}]" for name, its in columns]
    priors = fit.program.stated_priors
    found += [f"{name} ~ {prior}{_cut(fit, name, prior)}" for name, prior in priors.items()]
    improper = fit.program.improper_priors(fit.data.values)
    found += [f"{name} has a flat prior" for name in improper if name not in priors]
    if fit.model.has_rule:
        found += [f"{name} ~ {its}" for name, its in fit.model.rule.effects.items()]
    return found


def _cut(fit: Fit, name: str, prior: str) -> str:
    """Return where a parameter's bound cuts its prior; empty if it does not."""
    variable = fit.program.source.blocks.parameters.get(name)
    lowest = variable.lowest if variable is not None else None
    is_of_reals = prior.startswith(("normal", "student_t", "cauchy", "logistic"))
    if lowest is None or not (is_of_reals or lowest > 0):
        return ""
    return f" above {lowest:g}"


def _of_sampling(material: Material) -> str:
    """Return the sentences on the draws and their diagnostics."""
    fit, record = material.best, material.best.record
    version = f"pyflowers {record.packages.get('pyflowers', '')}".strip()
    worst = {check.name: check.number for check in material.verdicts[fit.name].computation.checks}
    if "R-hat" not in worst:
        draws, kind = fit.num_chains * fit.num_draws, "independent"
        if record.weighted:
            kind = "weighted"
        return f"The results are based on {draws:,} {kind} draws from the posterior ({version})."
    engine = " ".join([record.engine.name, *list(record.engine.versions.values())[:1]])
    return (
        f"The posterior was sampled by Stan's no-U-turn sampler ({version}, {engine}; "
        f"{fit.num_chains} chains of {record.options.warmup:,} warmup iterations and "
        f"{fit.num_draws:,} draws each, seed {record.options.seed}). R-hat was at most "
        f"{worst['R-hat']}, the effective sample sizes were at least {worst['bulk ESS']} in "
        f"bulk and {worst['tail ESS']} in the tails, and {worst['divergences']} transitions "
        "diverged."
    )


def _of_conflicts(fit: Fit) -> Iterator[str]:
    conflicts = [check.name.partition(" of ")[2] for check in fit.verdict.prior.failed]
    if conflicts:
        yield f"The prior and the data were in conflict ({', '.join(conflicts)})."


def _of_checks(material: Material) -> Iterator[str]:
    found = material.checks.get(material.best.name)
    if found is not None:
        names = ", ".join(check.name for check in found.checks)
        failed = ", ".join(check.name for check in found.checks if not check.passed) or "none"
        yield f"Of {len(found.checks)} posterior predictive checks ({names}), {failed} failed."


def _of_sensitivity(material: Material) -> Iterator[str]:
    found = material.sensitivities[material.best.name]
    if isinstance(found, Sensitivity) and "prior" in found.conclusions.index and found.is_known:
        moves = found.conclusions.loc["prior"]["moves"]
        moving = moves[moves != ""].index.get_level_values("parameter")
        moved = dict.fromkeys(str(name).partition("[")[0] for name in moving)
        yield (
            "In a power-scaling sensitivity analysis, changing the weight of the prior moved "
            f"conclusions about {', '.join(moved) or 'no parameter'}."
        )


def _of_comparison(material: Material) -> Iterator[str]:
    if material.loo is not None:
        for other in material.loo.models[1:]:
            yield (
                f"The expected log predictive density (PSIS-LOO) of {other.name} was lower by "
                f"{format_elpd(-other.difference)} (standard error "
                f"{format_number(other.difference_se)})."
            )


def record(material: Material) -> Mapping[str, Any]:
    """Return the methods paragraph and the command."""
    return {"methods": methods_paragraph(material), "command": reproduction(material).command}


PROVENANCE = Section("provenance", lambda _: "Provenance", content, record=record)
