"""Provenance: a draft for a methods section, the command that reproduces the report, and inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyflowers.analysis.prior_sensitivity import Sensitivity
from pyflowers.display import format_elpd, format_number, percent, upper_first
from pyflowers.fits.commands import shown_path
from pyflowers.fits.fit import Fit
from pyflowers.reports.markup import code, command, fill, folded, names_of, paragraph
from pyflowers.reports.material import Material
from pyflowers.reports.provenance import reproduction
from pyflowers.reports.section import Block, Section, Table, side_by_side
from pyflowers.reports.sections.models import priors_of
from pyflowers.text import in_words


def content(material: Material) -> Iterator[Block]:
    """Yield the methods paragraph, the command, and the inputs and versions."""
    yield fill("<h3>A draft for a methods section</h3>")
    yield fill("<blockquote>{}</blockquote>", " ".join(methods_sentences(material)))
    again = reproduction(material)
    yield fill("<h3>The command</h3>")
    run = "This command reproduces the report:"
    if again.needs_file:
        run = (
            "The data came from Python. Save them as <code>data.csv</code> and run this command in "
            "the same folder:"
        )
    elif again.has_paths:
        run = "Run this command in a folder in which its paths are valid:"
    yield paragraph(fill(run))
    yield command(again.command)
    if again.covariances:
        files = names_of(again.covariances)
        yield paragraph(fill("It expects the known covariances in {}.", files))
    if again.lacks_inits:
        yield paragraph("The initial values, which came from Python, are not part of this command.")
    for fit in material.fits:
        if fit.record.start is not None:
            text = "{} started from the last states of {}, but this command starts it anew."
            origin = shown_path(fit.record.start.fit)
            yield paragraph(fill(text, material.named(fit.name), code(origin)))
    yield from folded("Inputs, options and versions", *_tables(material))


def _tables(material: Material) -> Iterator[Table]:
    """Yield tables of the inputs and versions that all runs share, and of their differences."""
    shared, own = [], []
    for key, found in side_by_side([_run(fit) for fit in material.fits]).items():
        values = ["–" if value is None else str(value) for value in found]
        if len(set(values)) == 1:
            shared.append([key, code(values[0])])
        else:
            own.append([key, *map(code, values)])
    names = [material.labels[fit.name] for fit in material.fits]
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
    start: dict[str, Any] = {}
    if record.start is not None:
        start = {"started from": shown_path(record.start.fit), "its warmup": record.start.warmup}
    return {
        **record.options.model_dump(exclude_unset=True),
        **start,
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


def methods_sentences(material: Material) -> list[str]:
    """Return sentences for a paper on how the best model was fitted, checked and compared."""
    if material.verdicts[material.best.name].computation.failed:
        return ["The sampling did not converge, so there is no result to report."]
    return [
        *_of_model(material),
        _of_sampling(material),
        *_of_conflicts(material.best),
        *_of_checks(material),
        *_of_sensitivity(material),
        *_of_comparison(material),
        f"Intervals are central {percent(material.best.interval)} intervals.",
    ]


def _of_model(material: Material) -> Iterator[str]:
    """Yield the sentences on the data, the model and its priors."""
    fit, data = material.best, material.best.whole
    what = "the data"
    if data.num_obs > 1:
        what = f"{data.num_obs:,} observations of {material.value_name}"
    groups = [f"{len(data.by_group)} groups ({data.by_group.column})"] if data.by_group else []
    where = f" in {groups[0]}" if groups else ""
    declared = fit.program.declaration
    if declared.formula is not None and declared.story:
        yield f"We analysed {what}{where} with a Bayesian regression model."
        story = declared.story
        if "_" not in story.partition(" ")[0]:  # a name such as loo_pit is unchanged
            story = upper_first(story)
        yield story
    else:
        model = declared.equation or fit.program.reference
        yield f"We analysed {what}{where} with the Bayesian model {model}."
    yield from _of_imputed(fit)
    priors = [f"{prior} for {_in_prose(name, fit)}" for name, prior in priors_of(fit).items()]
    if priors:
        yield f"The priors were {in_words(priors)}."


def _of_imputed(fit: Fit) -> Iterator[str]:
    """Yield the number of observations with imputed predictors, and the results without them."""
    num, complete = fit.whole.num_obs, fit.data.num_obs
    if complete < num:
        yield (
            f"{num - complete:,} observations have imputed values of "
            f"{in_words(list(fit.model.imputed.values()))}; checks, average effects and elpd are "
            f"based on the other {complete:,} observations."
        )


def _in_prose(name: str, fit: Fit) -> str:
    """Return the name of a parameter of a formula in words; other names are unchanged."""
    kind, _, element = name.removesuffix("]").partition("[")
    kind, at, where = kind.partition(" at the means")
    of_predictor = ""
    formulas = {predictor: predictor for predictor in fit.model.further_predictors}
    formulas |= {name: f"the formula of {column}" for name, column in fit.model.imputed.items()}
    for predictor, shown in formulas.items():
        if kind.endswith(f"_{predictor}"):
            kind, of_predictor = kind.removesuffix(f"_{predictor}"), f" in {shown}"
    if kind == "b" and element:
        return f"the coefficient of {element}{of_predictor}"
    if kind.startswith("sd_"):
        of = f" of {element}" if element else ""
        group = kind.removeprefix("sd_")
        return f"the standard deviation{of} between the labels of {group}{of_predictor}"
    if kind.startswith("cor_"):
        group = kind.removeprefix("cor_")
        return f"the correlations of the effects of {group}{of_predictor}"
    if kind.startswith("share_"):
        return f"the shares of the steps of {kind.removeprefix('share_')}{of_predictor}"
    if kind == "sigma" and of_predictor:
        return f"sigma{of_predictor}"
    if kind == "threshold":
        return f"the thresholds{at}{where}"
    if at:
        return f"the {kind[:1].lower()}{kind[1:]}{of_predictor}{at}{where}"
    return name


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
    warmup, start = record.options.warmup, ""
    if record.start is not None:
        warmup = record.start.warmup
        start = " The chains started from the last states of the chains of an earlier fit."
    engine = " ".join([record.engine.name, *list(record.engine.versions.values())[:1]])
    return (
        f"The posterior was sampled by Stan's no-U-turn sampler ({version}, {engine}; "
        f"{fit.num_chains} chains of {warmup:,} warmup iterations and "
        f"{fit.num_draws:,} draws each, seed {record.options.seed}). R-hat was at most "
        f"{worst['R-hat']}, the effective sample sizes were at least {worst['bulk ESS']} in "
        f"bulk and {worst['tail ESS']} in the tails, and {worst['divergences']} transitions "
        f"diverged.{start}"
    )


def _of_conflicts(fit: Fit) -> Iterator[str]:
    conflicts = [check.name.partition(" of ")[2] for check in fit.verdict.prior.failed]
    if conflicts:
        yield f"The prior and the data were in conflict ({', '.join(conflicts)})."


def _of_checks(material: Material) -> Iterator[str]:
    found = material.checks.get(material.best.name)
    if found is not None:
        failed = [check.meaning for check in found.checks if not check.passed]
        num = len(found.checks)
        if failed:
            yield f"Of {num} posterior predictive checks, {len(failed)} failed: {in_words(failed)}."
        else:
            yield f"All {num} posterior predictive checks passed."


def _of_sensitivity(material: Material) -> Iterator[str]:
    found = material.sensitivities[material.best.name]
    if isinstance(found, Sensitivity) and "prior" in found.conclusions.index and found.is_known:
        moves = found.conclusions.loc["prior"]["moves"]
        moving = moves[moves != ""].index.get_level_values("parameter")
        names = dict.fromkeys(str(name).partition("[")[0] for name in moving)
        moved = "no conclusion"
        if names:
            moved = f"conclusions about {in_words([_in_prose(n, material.best) for n in names])}"
        yield (
            "In a power-scaling sensitivity analysis, changing the weight of the prior moved "
            f"{moved}."
        )


def _of_comparison(material: Material) -> Iterator[str]:
    if material.loo is not None:
        for other in material.loo.models[1:]:
            name = material.labels[other.name]
            yield (
                f"The expected log predictive density (PSIS-LOO) of {name} was lower by "
                f"{format_elpd(-other.difference)} (standard error "
                f"{format_number(other.difference_se)})."
            )


def record(material: Material) -> Mapping[str, Any]:
    """Return the methods paragraph and the command."""
    methods = " ".join(methods_sentences(material))
    return {"methods": methods, "command": reproduction(material).command}


PROVENANCE = Section(
    "provenance",
    lambda _: "Methods and provenance",
    content,
    record=record,
)
