"""The numbers, tables and figures of each section of the page; the template has the prose."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from pyflowers import plots
from pyflowers.advice import Advice
from pyflowers.analysis.average_effects import BOTH, Effects
from pyflowers.analysis.checks import PredictiveChecks
from pyflowers.analysis.elpd import SMALL_DIFFERENCE
from pyflowers.analysis.methods import METHOD_NAMES, Comparison, reference_method
from pyflowers.analysis.prior_sensitivity import THRESHOLD, Sensitivity, sensitivities_of
from pyflowers.display import format_elpd, format_number, interval_quantiles, percent
from pyflowers.engines.approximate import K_HAT_USABLE
from pyflowers.fits.commands import command_of, shown_path
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import element_names, flat, varies
from pyflowers.plots import methods
from pyflowers.plots.conditional import MOST_CURVES
from pyflowers.plots.groups import coefficients, observed_unit
from pyflowers.plots.predictive import elpd_intervals
from pyflowers.programs import Capability, Data
from pyflowers.reports.material import (
    Material,
    ReportTable,
    check_number,
    code,
    elpd,
    isolated,
    number,
    side_by_side,
    summary_number,
    verdict_cell,
)
from pyflowers.text import in_words

if TYPE_CHECKING:
    from pyflowers.analysis.calibration import Calibration

MOST_NAMED = 6
"""The largest number of elements of a quantity that the answer names; if there are more, it names
only the elements with the lowest and the highest median."""

MOST_QUANTITIES = 12
"""The largest number of quantities that the answer names."""

MOST_SENSITIVE = 3
"""The largest number of quantities that the banner names because they depend on their prior."""

MOST_CELLS = 400
"""The largest number of cells, groups by times, in a table of the observations."""

MOST_ROWS = 300
"""The largest number of rows in a summary table; for the other rows, the page refers to
summary.csv."""

MOST_CONCLUSIONS = 24
"""The largest number of conclusions that the page lists because they move with a prior."""

CERTAIN = 0.999
"""Larger probabilities of the direction of an effect are not told apart."""

MOST_WIDTH = 2.0
"""The page comments on a method if its interval is wider or narrower than the reference's by more
than this factor."""

NOTHING = Markup("–")

Drawings = dict[str, Callable[[], Figure]]
"""Functions that draw the figures of the page, by name; the name of a model's figure begins with
the name of the model and ``/``."""


def drawings(material: Material) -> Drawings:
    """Return the figures that need only the fits and the calibrations."""
    data, loo, found = material.data, material.loo, Drawings()
    if data.by_group is not None and data.num_obs:
        found["data"] = partial(plots.observations, data)
    if loo is not None and len(loo.models) > 1:
        found["loo"] = partial(plots.elpd_differences, loo, interval=material.best.interval)
    for column in material.covariates:
        by = separated(material, column)
        effect = partial(plots.conditional_effects, material.best, column, by=by)
        found[f"effect of {column}"] = effect
    for i, calibration in enumerate(material.calibrations):
        found[f"calibration {i}"] = partial(plots.calibration, calibration)
    for fit in material.fits:
        can, has_draws = fit.program.can, bool(fit.posterior)
        has_groups = can(Capability.GROUP_MEAN) and fit.data.by_group is not None
        applies: dict[Callable[..., Figure], bool] = {
            **dict.fromkeys((plots.trace, plots.ranks, plots.pairs), has_draws),
            plots.prior_posterior: can(Capability.PRIOR_DENSITY),
            plots.shrinkage: has_groups,
            plots.predictive: can(Capability.Y_REP) and fit.data.num_obs > 0,
        }
        for effects in coefficients(fit)[:1]:
            found[f"{fit.name}/forest"] = partial(plots.forest, fit, effects)
        for draw in compress(applies, applies.values()):
            found[f"{fit.name}/{draw.__name__}"] = partial(draw, fit)
    return found


def late_drawings(material: Material) -> Drawings:
    """Return the figures of results that are computed while the others are drawn."""
    found = Drawings()
    checks, drawn = shown_checks(material), drawn_sensitivities(material)
    if checks is not None:
        found["checks"] = partial(plots.predictive_checks, checks)
    if drawn:
        found["sensitivity"] = partial(plots.power_scaling, drawn)
    for name, compared in material.comparisons.items():
        if not isinstance(compared, str):
            makers = methods.figure_makers(compared)
            found |= {f"{name}/{figure}": draw for figure, draw in makers.items()}
    return found


def question(material: Material) -> dict[str, Any]:
    """Return the question: the columns of the data, and the quantity with group means."""
    data = material.data
    means = [fit for fit in material.fits if fit.program.can(Capability.GROUP_MEAN)]
    counted = [observed_unit(fit) for fit in means if fit.program.counts]
    return {
        "is_table": data.has_table and data.observed,
        "columns": [data.name_of(column) for column in (data.group, data.time) if column],
        "of_groups": bool(means and data.group),
        "counted": counted[0] if counted else "",
    }


def answer(material: Material) -> dict[str, Any]:
    """Return the quantities of the best model, and the elpd differences of the other models."""
    fit, groups, loo = material.best, None, material.loo
    medians, left = material.summaries[fit.name]["median"], dict(fit.posterior.data_vars)

    def named(rows: list[str]) -> list[str]:
        """Return all rows or, if there are many, those with the lowest and highest medians."""
        order = np.argsort(medians[rows].to_numpy(float), kind="stable")
        if len(rows) <= MOST_NAMED:
            return rows
        return [rows[order[0]], rows[order[-1]]]

    if fit.program.can(Capability.GROUP_MEAN) and fit.data.by_group is not None:
        rows = element_names(left.pop(fit.program.declaration.roles.group_mean))
        names = dict(zip(rows, fit.data.by_group.names, strict=True))
        groups = {"num": len(names), "names": {row: names[row] for row in named(rows)}}
        groups |= {"labels": fit.data.by_group, "unit": observed_unit(fit)}
    sizes = {name: flat(quantity).shape[2] for name, quantity in left.items()}
    varying = sorted((n for n, q in left.items() if varies(q).any()), key=sizes.__getitem__)
    quantities = []
    for name in map(str, varying[:MOST_QUANTITIES]):
        declared = fit.program.declaration.parameters.get(name)
        rows = list(compress(element_names(left[name]), varies(left[name])))
        quantities.append(
            {
                "name": name,
                "meaning": declared.description if declared is not None else "",
                "unit": fit.program.unit_of(name, fit.data),
                "is_scalar": left[name].ndim == 2,
                "num": len(rows),
                "rows": named(rows),
            }
        )
    others = loo.models[1:] if loo is not None else ()
    behind = -elpd_intervals(others, fit.interval)[:, [1, 2, 0]]
    return {
        "fit": fit,
        "quantities": quantities,
        "is_part": len(quantities) < len(left) or max(sizes.values(), default=0) > MOST_NAMED,
        "groups": groups,
        "has_others": bool(left),
        "behind": [(model.name, *each) for model, each in zip(others, behind, strict=True)],
    }


def separated(material: Material, column: str) -> str | None:
    """Return the column for whose values a figure of effects has separate curves or rows.

    It interacts with the figure's column and has few values.
    """
    table = material.best.data.table
    if table is None:
        return None
    others = material.best.model.interacting(column)
    few = (n for n in others if 1 < len(set(table.column(n).tolist())) <= MOST_CURVES)
    return next(few, None)


def average_effects(material: Material) -> list[dict[str, Any]]:
    """Return average effects in the best model; for a factor with many levels, the extreme ones.

    An effect that varies between groups is that in the population; ``data`` holds the effect for
    the groups of the data.
    """
    found = material.effects
    if found is None:
        return []
    table = found.table()
    columns, changes = (table.index.get_level_values(name) for name in ("column", "change"))
    pairs, medians = list(zip(columns, changes, strict=True)), table["median"].to_numpy()
    of_data = np.zeros(len(table), dtype=bool)
    if found.groups == BOTH:
        of_data = np.asarray(table.index.get_level_values("groups") == "data")
    for_data = {pairs[i]: _quantiles(found, i) for i in np.flatnonzero(of_data).tolist()}
    effects = []
    for column in dict.fromkeys(columns):
        rows = np.flatnonzero((columns == column) & ~of_data)
        ends = sorted(rows[np.argsort(medians[rows])][[0, -1]].tolist())
        for i in rows.tolist() if len(rows) <= MOST_NAMED else ends:
            direction = _direction(float(table["P(> 0)"].iloc[i]))
            its = {"words": found.words[i], **_quantiles(found, i), "direction": direction}
            effects.append({**its, "data": for_data.get(pairs[i])})
    return effects


def _quantiles(found: Effects, row: int) -> dict[str, Markup]:
    """Return the median and the interval of an effect, given its row in the table."""
    low, high = list(interval_quantiles(found.fit.interval))[1:]
    names = {"value": "median", "low": low, "high": high}
    values = {key: float(found.table()[name].iloc[row]) for key, name in names.items()}
    return {key: number(value, _with_minus(value)) for key, value in values.items()}


def _with_minus(value: float) -> str:
    """Return a number with the sign that is used in print."""
    text = format_number(value)
    return f"\N{MINUS SIGN}{text.removeprefix('-')}" if text.startswith("-") else text


def _direction(probability: float) -> Markup:
    """Return the likelier direction of an effect with its probability, given that of above 0."""
    side, likelier = (">", probability) if probability >= 0.5 else ("<", 1 - probability)
    if likelier > CERTAIN:
        return Markup("P({} 0) > {}").format(side, number(CERTAIN))
    return Markup("P({} 0) = {}").format(side, number(likelier))


def banner(material: Material) -> dict[str, Any]:
    """Judge the answer by the model behind it; failures of the other models are warnings."""
    best, verdict = material.best, material.verdicts[material.best.name]
    sensitivity = material.sensitivities[best.name]
    flaws = {
        "whose diagnostics fail": bool(best.diagnostics.failed),
        "whose computation is not calibrated": not material.is_calibrated(best),
        "whose posterior depends strongly on the weight of its prior": (
            isinstance(sensitivity, Sensitivity) and bool(sensitivity.part.failed)
        ),
    }
    judged = {f.name: (material.verdicts[f.name], material.is_calibrated(f)) for f in material.fits}
    trusted = [found.trusted and good for found, good in judged.values()]
    unexamined = [part.name for part in verdict.parts if not part.checks]
    depends = prior_dependence(material)
    found = {
        "flaw": next(compress(flaws, flaws.values()), ""),
        "by_prior": depends is not None and bool(depends["of_answer"]),
        "doubts": [part.name for part in (verdict.prior, verdict.data) if part.failed],
        "missing": [] if verdict.trusted else unexamined,
        "limits": verdict.data.limits if verdict.data.status == "limited" else "",
        "others": [name for name, (own, good) in judged.items() if not (own.passed and good)],
    }
    is_warning = any(found.values()) or material.refused
    others = material.loo.models[1:] if material.loo is not None else ()
    unclear = [o.name for o in others if -o.difference < max(SMALL_DIFFERENCE, o.difference_se)]
    if found["flaw"]:
        kind = "fail"
    else:
        kind = "warn" if is_warning else "pass"
    return {"kind": kind, "all": all(trusted), "any": any(trusted), "unclear": unclear, **found}


def prior_dependence(material: Material) -> dict[str, Any] | None:
    """Return what depends on the prior of the best model, and whether the answer does.

    The answer is the effects or the means of groups in the first section; without these, it is all
    quantities, and ``answer`` is NaN. None if the sensitivity is not known.
    """
    fit, found = material.best, material.sensitivities[material.best.name]
    if isinstance(found, str) or not found.is_known or found.components[0].is_constant:
        return None
    of_answer = np.array([np.nan])
    if material.effects is not None:
        effects = material.effects
        of_data = np.zeros(len(effects.index), dtype=bool)
        if effects.groups == BOTH:
            of_data = np.asarray(effects.index.get_level_values("groups") == "data")
        draws = effects.draws().values[..., ~of_data]
        of_answer = sensitivities_of(found.components[0], draws, effects.step)
    elif fit.program.can(Capability.GROUP_MEAN) and fit.data.by_group is not None:
        rows = element_names(fit.posterior[fit.program.declaration.roles.group_mean])
        of_answer = found.distances["prior"][rows].to_numpy()
    largest = float(np.max(of_answer))
    return {
        "names": found.sensitive,
        "most": number(
            float(found.distances["prior"].max()), f"{found.distances['prior'].max():.2g}"
        ),
        "answer": number(largest, f"{largest:.2g}"),
        "is_known": not np.isnan(largest),
        "of_answer": largest >= THRESHOLD,
    }


def failures(material: Material) -> list[dict[str, Any]]:
    """Return what failed, is imprecise or limited by fit and advice, each group a sentence.

    Each has its ``fit``, ``advice``, ``checks`` and the ``command`` that follows the advice, once.
    """
    by_advice: dict[tuple[str, str], dict[str, Any]] = {}
    given = set[str]()
    for fit in material.fits:
        verdict, predictive = material.verdicts[fit.name], material.checks.get(fit.name)
        of_data = (*predictive.failed, *predictive.limited) if predictive is not None else ()
        failed: list[Any] = [*verdict.computation.failed, *verdict.computation.imprecise]
        failed += [*verdict.prior.failed, *of_data]
        for check in failed:
            new = {"fit": fit, "advice": check.advice, "checks": [], "command": ""}
            by_advice.setdefault((fit.name, check.advice), new)["checks"].append(check)
    for found in by_advice.values():
        if isinstance(found["advice"], Advice):
            command = command_of(found["fit"], found["advice"], shown_path)
            found["command"] = "" if command in given else command
            given.add(command)
    return list(by_advice.values())


def verdict_table(material: Material) -> ReportTable:
    """Return a row for each check in ``diagnostics.json`` of a run, and a column for each fit."""
    parts = [(fit.verdict.computation, fit.verdict.prior) for fit in material.fits]
    columns = [{check.name: check for part in both for check in part.checks} for both in parts]
    rows = []
    for name, found in side_by_side(columns).items():
        cells = [NOTHING] * len(found)
        for i, (fit, check) in enumerate(zip(material.fits, found, strict=True)):
            if check is not None:
                judged = verdict_cell(check_number(fit, check), check.status)
                where = Markup("<small>{}</small>").format(check.where) if check.where else ""
                cells[i] = Markup("{} {}").format(judged, where)
        # The threshold for ESS is proportional to the number of chains, so it may differ between
        # fits.
        limits = dict.fromkeys(f"{c.relation} {c.threshold:.4g}" for c in found if c)
        source = [check.source for check in found if check][-1]
        rows.append([name, *cells, " or ".join(limits), source])
    head = ["Diagnostic", *(fit.name for fit in material.fits), "Must be", "Threshold from"]
    caption = (
        "Diagnostics, and positions of posterior medians in their priors: the worst value of each "
        "fit"
    )
    return ReportTable(caption, head, rows, text_columns=[len(head) - 1])


def data_table(data: Data) -> ReportTable | None:
    """Return the observations as a table if they fit into one."""
    groups, times = data.by_group, data.by_time
    if groups is None or times is None or not data.num_obs:
        return None
    if len(groups) * len(times) > MOST_CELLS or len(times) > 40:
        return None
    values = np.full((len(groups), len(times)), np.nan)
    values[groups.codes, times.codes] = data.y
    rows = [
        [group, *("missing" if np.isnan(value) else f"{value:g}" for value in row)]
        for group, row in zip(groups.names, values, strict=True)
    ]
    caption = f"{data.value_name} by {groups.column} and {times.column}"
    return ReportTable(caption, [groups.column, *times.names], rows)


def chapter_tables(material: Material, fit: Fit) -> tuple[list[ReportTable], int]:
    """Return the priors and the summary of a fit, and the total number of rows of the summary."""
    tables, priors = [], []
    for name, prior in fit.program.declaration.priors.items():
        if name in fit.record.priors:
            used: Any = fit.record.priors[name]
            shown = f"{used:g}" if isinstance(used, float | int) else str(used)
            if isinstance(used, float | int) and used != prior.value:
                shown += f" (default {prior.value:g})"
            priors.append([code(name), shown, prior.description])
    if fit.program.declaration.priors:
        num = 3 if any(row[2] for row in priors) else 2
        head = ["Hyperparameter", "Value", "Meaning"][:num]
        rows = [row[:num] for row in priors]
        tables.append(ReportTable("Priors as used", head, rows, range(2, num)))
    whole = material.summaries[fit.name]
    size = Counter(str(name).partition("[")[0] for name in whole.index)
    names = sorted(map(str, whole.index), key=lambda name: size[name.partition("[")[0]])
    columns = [str(column) for column in whole.columns]
    numbers = [
        [code(row), *(summary_number(fit, whole, row, column) for column in columns)]
        for row in names[:MOST_ROWS]
    ]
    caption = f"Summary of the posterior of {fit.name}"
    return [*tables, ReportTable(caption, ["Parameter", *columns], numbers)], len(whole)


def formulas(fit: Fit) -> list[str]:
    """Return the model and its priors with their numbers, one formula per line."""
    equation = fit.program.declaration.equation
    lines = re.split(r", (?=[\w ]+ ~)", equation) if equation else []
    priors = {name: fit.program.prior_of(name, fit.data.values) for name in map(str, fit.posterior)}
    return [*lines, *(f"{name} ~ {prior.text}" for name, prior in priors.items() if prior)]


def methods_paragraph(material: Material) -> str:
    """Return sentences for a paper on how the best model was fitted, checked and compared."""
    fit, record = material.best, material.best.record
    verdict = material.verdicts[fit.name]
    if verdict.computation.failed:
        return "The sampling did not converge, so there is no result to report."
    version = f"pyflowers {record.packages.get('pyflowers', '')}".strip()
    worst = {check.name: check.number for check in verdict.computation.checks}
    declaration = fit.program.declaration
    if declaration.equation:
        model = [declaration.equation]
    else:
        model = [fit.program.reference]
    model += _distributions(fit)
    numbers = [f"{name} = {value:g}" for name, value in record.priors.items()]
    num = fit.data.num_obs
    said = [
        f"The {f'{num:,} observations of {fit.data.value_name}' if num > 1 else 'data'} were "
        f"analysed with the Bayesian model {'; '.join(model)}{', where ' * bool(numbers)}"
        f"{', '.join(numbers)}."
    ]
    if "R-hat" in worst:
        engine = " ".join([record.engine.name, *list(record.engine.versions.values())[:1]])
        said.append(
            f"The posterior was sampled by Stan's no-U-turn sampler ({version}, {engine}; "
            f"{fit.num_chains} chains of {record.options.warmup:,} warmup iterations and "
            f"{fit.num_draws:,} draws each, seed {record.options.seed}). R-hat was at most "
            f"{worst['R-hat']}, the effective sample sizes were at least {worst['bulk ESS']} in "
            f"bulk and {worst['tail ESS']} in the tails, and {worst['divergences']} transitions "
            "diverged."
        )
    else:
        draws = fit.num_chains * fit.num_draws
        said.append(
            f"The results are based on {draws:,} independent draws from the posterior ({version})."
        )
    if conflicts := [check.name.partition(" of ")[2] for check in fit.verdict.prior.failed]:
        said.append(f"The prior and the data were in conflict ({', '.join(conflicts)}).")
    if fit.name in material.checks:
        found = material.checks[fit.name].checks
        failed = [check.name for check in found if not check.passed]
        said.append(
            f"Of {len(found)} posterior predictive checks ({', '.join(c.name for c in found)}), "
            f"{', '.join(failed) or 'none'} failed."
        )
    scaled = material.sensitivities[fit.name]
    if isinstance(scaled, Sensitivity) and "prior" in scaled.conclusions.index and scaled.is_known:
        moves = scaled.conclusions.loc["prior"]["moves"]
        moving = moves[moves != ""].index.get_level_values("parameter")
        moved = dict.fromkeys(str(name).partition("[")[0] for name in moving)
        said.append(
            "In a power-scaling sensitivity analysis, changing the weight of the prior moved "
            f"conclusions about {', '.join(moved) or 'no parameter'}."
        )
    said += [
        f"The expected log predictive density (PSIS-LOO) of {other.name} was lower by "
        f"{format_elpd(-other.difference)} (standard error {format_number(other.difference_se)})."
        for other in (material.loo.models if material.loo else ())
        if other.name != fit.name
    ]
    return " ".join([*said, f"Intervals are central {percent(fit.interval)} intervals."])


def _distributions(fit: Fit) -> list[str]:
    """Return the columns of X, the parameters' priors, and the distributions of the groups."""
    blocks = fit.program.source.blocks
    priors = fit.program.stated_priors
    columns = fit.model.design_columns.items()
    found = [f"{name} = [{', '.join(its)}]" for name, its in columns]
    for name, prior in priors.items():
        variable = blocks.parameters.get(name)
        lowest = variable.lowest if variable is not None else None
        is_of_reals = prior.startswith(("normal", "student_t", "cauchy", "logistic"))
        is_cut = lowest is not None and (is_of_reals or lowest > 0)
        found.append(f"{name} ~ {prior}{f' above {lowest:g}' if is_cut else ''}")
    improper = fit.program.improper_priors(fit.data.values)
    found += [f"{name} has a flat prior" for name in improper if name not in priors]
    effects = fit.model.rule.effects if fit.model.has_rule else {}
    return found + [f"{name} ~ {its}" for name, its in effects.items()]


def shown_checks(material: Material) -> PredictiveChecks | None:
    """Return the predictive checks to draw: the best model's or, if it has none, the first."""
    first = next(iter(material.checks.values()), None)
    return material.checks.get(material.best.name, first)


def checks_table(material: Material) -> ReportTable:
    """Return the p-value of each predictive check for each model."""
    columns = [{check.name: check for check in found.checks} for found in material.checks.values()]
    rows = []
    for name, found in side_by_side(columns).items():
        cells = [NOTHING] * len(found)
        for i, check in enumerate(found):
            if check is not None:
                shown = check.p_text.removeprefix("p ").removeprefix("= ")
                cells[i] = verdict_cell(number(check.p_value, shown), check.judged.status)
        meaning = next(check.meaning for check in found if check)
        rows.append([code(name), *cells, isolated(meaning)])
    head = ["Check", *material.checks, "Statistic"]
    return ReportTable("Predictive p-values", head, rows, text_columns=[len(head) - 1])


def loo_table(material: Material) -> ReportTable:
    """Return the PSIS-LOO results, a row for each model."""
    models = material.loo.models if material.loo is not None else ()
    intervals = elpd_intervals(models, material.best.interval)
    rows: list[list[Markup | str]] = []
    for model, (low, _, high) in zip(models, intervals, strict=True):
        if rows:
            between = Markup("{} to {}").format(elpd(low), elpd(high))
        else:
            between = NOTHING
        difference = [elpd(model.difference), elpd(model.difference_se), between]
        row = [code(model.name), *map(elpd, (model.elpd, model.se, model.mcse, model.p_loo))]
        row += difference if len(models) > 1 else []
        rows.append([*row, number(model.worst_k), str(model.num_bad)])
    interval = f"{percent(material.best.interval)} interval"
    if len(models) > 1:
        compared = ["Difference", "SE of difference", interval]
    else:
        compared = []
    head = ["Model", "elpd", "SE", "MCSE", "p_loo", *compared, "Largest k-hat", "k-hats too large"]
    best_first = ", best model first" if compared else ""
    return ReportTable(f"PSIS-LOO{best_first}", head, rows)


def method_part(found: Comparison) -> dict[str, Any]:
    """Return the differences of the methods from the reference, and their summaries."""
    shown, interval = methods.shown_elements(found), percent(found.nuts.interval)
    whole, vb, reference = found.table(), found.results.get("vb"), METHOD_NAMES[found.reference]
    widths = []
    if found.vb is not None:
        ratio = whole["width_ratio"].xs("vb", level="method").dropna()
        widths = [(at, float(ratio[at])) for at in (str(ratio.idxmin()), str(ratio.idxmax()))]
    columns = [*interval_quantiles(found.nuts.interval), "mean", "sd", "width_ratio"]
    rows = [
        [code(name), METHOD_NAMES[str(method)], *(number(float(row[c])) for c in columns)]
        for name in shown
        for method, row in whole.loc[name].iterrows()
    ]
    head = ["Parameter", "Method", *columns[:-1], f"{interval} width / {reference}"]
    return {
        "reference": reference,
        "interval": interval,
        "widths": widths,
        "bound": (vb.elbo, vb.kl) if vb is not None and np.isfinite(vb.kl) else None,
        "faults": _faults(found, whole),
        "shown": (len(shown), len(found.elements)),
        "table": ReportTable(f"Posterior of {found.program.name} by each method", head, rows, [1]),
    }


def _faults(found: Comparison, table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return, for each approximation that is far from the reference, where it differs most."""
    reference = table.xs(found.reference, level="method").loc[found.elements]
    _, low, high = interval_quantiles(found.nuts.interval)
    faults = []
    for method, result in found.results.items():
        if method in ("exact", "vb", found.reference):
            continue
        own = table.xs(method, level="method").loc[found.elements]
        fault: dict[str, Any] = {}
        outside = (own["median"] < reference[low]) | (own["median"] > reference[high])
        if outside.any():
            away = (own["median"] - reference["median"]).abs() / reference["sd"].fillna(1)
            at = str(away.where(outside, 0.0).idxmax())
            fault["median"] = at, own["median"][at], reference["median"][at]
        ratio = own["width_ratio"].fillna(1.0)
        at = str(ratio.where(ratio > 1, 1 / ratio).idxmax())
        if not 1 / MOST_WIDTH <= ratio[at] <= MOST_WIDTH:
            fault["width"] = at, ratio[at]
        if result.k_hat > K_HAT_USABLE:
            fault["k_hat"] = result.k_hat, K_HAT_USABLE
        if fault:
            faults.append({"method": METHOD_NAMES[method], "found": fault})
    return faults


def drawn_by(material: Material) -> str:
    """Return the names of the methods that sampled the fits."""
    names = dict.fromkeys(METHOD_NAMES[reference_method(fit)] for fit in material.fits)
    return in_words(list(names))


def without_vb(material: Material) -> list[str]:
    """Return the models without closed-form VB."""
    return [fit.name for fit in material.fits if not fit.program.can(Capability.VB)]


def drawn_sensitivities(material: Material) -> list[Sensitivity]:
    """Return the sensitivities that could be computed."""
    found = [each for each in material.sensitivities.values() if isinstance(each, Sensitivity)]
    return [each for each in found if each.distances["prior"].notna().any()]


def moves_table(material: Material) -> tuple[ReportTable | None, int]:
    """Return the first conclusions that move with a prior, and the total number that move."""
    drawn = drawn_sensitivities(material)
    if drawn:
        moves = pd.concat({each.name: each.moves() for each in drawn})
    else:
        moves = pd.DataFrame()
    rows: list[list[Markup | str]] = [
        [code(parameter), name, conclusion, *map(number, map(float, values)), ways]
        for (name, parameter, conclusion), *values, ways in moves[:MOST_CONCLUSIONS].itertuples()
    ]
    head = ["Parameter", "Model", "Conclusion", "Posterior", "At 0.8", "At 1.25", "Per doubling"]
    caption = "Numbers that change if the prior is raised to the power 0.8 or 1.25"
    table = ReportTable(caption, [*head, "Moves"], rows, [1, 2, len(head)])
    return (table if rows else None), len(moves)


def changed_priors(material: Material, found: Calibration) -> list[str]:
    """Return a calibration's priors that differ from the fit's; they are often narrower."""
    (own,) = (fit.record.priors for fit in material.fits if fit.name == found.name)
    return [f"{name} = {value:g}" for name, value in found.priors.items() if own.get(name) != value]
