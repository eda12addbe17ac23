"""What each section of the page shows: numbers, tables, figures. The words are the template's."""

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
from pyflowers.analysis.calibration import Calibration
from pyflowers.analysis.checks import PredictiveCheck, PredictiveChecks
from pyflowers.analysis.elpd import ModelLoo
from pyflowers.analysis.methods import METHOD_NAMES, Comparison, reference_method
from pyflowers.analysis.prior_sensitivity import Sensitivity
from pyflowers.display import interval_quantiles, percent
from pyflowers.engines.approximate import K_HAT_USABLE
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import element_names, flat, varies
from pyflowers.fits.verdict import Check
from pyflowers.plots import methods
from pyflowers.plots.groups import observed_unit
from pyflowers.plots.predictive import half_width
from pyflowers.programs import Capability, Data
from pyflowers.reports.markup import (
    ReportTable,
    check_number,
    code,
    elpd,
    isolated,
    number,
    summary_number,
    verdict_cell,
)
from pyflowers.reports.material import Material

if TYPE_CHECKING:
    import xarray as xr

MOST_NAMED = 6
"""Elements of a quantity up to which the answer names each; of more, the lowest and the highest."""

MOST_QUANTITIES = 12
"""Quantities that the answer names."""

MOST_CELLS = 400
"""Groups times times up to which the observations are a table, too."""

MOST_ROWS = 300
"""Rows of a summary table on the page; what is left out is in summary.csv, and the page says so."""

MOST_CONCLUSIONS = 24
"""Most rows of conclusions that move with a prior."""

MOST_WIDTH = 2.0
"""Width of an interval relative to the reference's up to which nothing is said of it."""

Drawings = dict[str, Callable[[], Figure]]
"""What draws each figure of a part of the page."""


def question(material: Material) -> dict[str, Any]:
    """Return what is asked: which columns the data have, and of what the groups have means."""
    data = material.data
    columns = [data.name_of(column) for column in (data.group, data.time) if column]
    means = [fit for fit in material.fits if fit.program.can(Capability.GROUP_MEAN)]
    counts = [fit for fit in means if fit.program.counts]
    return {
        "is_table": data.has_table and data.observed,
        "columns": columns,
        "of_groups": bool(means and data.group),
        "counted": observed_unit(counts[0]) if counts else "",
    }


def answer(material: Material) -> dict[str, Any]:
    """Return the quantities of the model that predicts best, and how far behind the others are."""
    fit, groups = material.best, None
    medians, left = material.summaries[fit.name]["median"], dict(fit.posterior.data_vars)
    if fit.program.can(Capability.GROUP_MEAN) and fit.data.by_group is not None:
        rows = element_names(left.pop(fit.program.declaration.roles.group_mean))
        names = dict(zip(rows, fit.data.by_group.names, strict=True))
        rows = _named(rows, medians)
        groups = {"num": len(names), "names": {row: names[row] for row in rows}}
        groups |= {"labels": fit.data.by_group, "unit": observed_unit(fit)}
    ordered = sorted((q for q in left.values() if varies(q).any()), key=_size)[:MOST_QUANTITIES]
    half = half_width(fit.interval)
    return {
        "fit": fit,
        "quantities": [_quantity(fit, quantity, medians) for quantity in ordered],
        "is_part": len(ordered) < len(left) or any(_size(q) > MOST_NAMED for q in left.values()),
        "groups": groups,
        "has_others": bool(left),
        "behind": [
            (m.name, -m.difference, *_around(-m.difference, half * m.difference_se))
            for m in (material.loo.models[1:] if material.loo else ())
        ],
    }


def _size(quantity: xr.DataArray) -> int:
    return int(flat(quantity).shape[2])


def _around(middle: float, half: float) -> tuple[float, float]:
    return middle - half, middle + half


def _quantity(fit: Fit, quantity: xr.DataArray, medians: pd.Series) -> dict[str, Any]:
    """Return a quantity's meaning, its unit, and the elements to name."""
    name = str(quantity.name)
    declared = fit.program.declaration.parameters.get(name)
    rows = list(compress(element_names(quantity), varies(quantity)))
    return {
        "name": name,
        "meaning": declared.description if declared is not None else "",
        "unit": fit.program.unit_of(name, fit.data),
        "is_scalar": quantity.ndim == 2,
        "num": len(rows),
        "rows": _named(rows, medians),
    }


def _named(rows: list[str], medians: pd.Series) -> list[str]:
    """Return rows, or of many those with the lowest and the highest median."""
    if len(rows) <= MOST_NAMED:
        return rows
    order = np.argsort(medians[rows].to_numpy(float), kind="stable")
    return [rows[order[0]], rows[order[-1]]]


def banner(material: Material) -> dict[str, Any]:
    """Judge the answer by the model that it rests on; failures of the others are a warning."""
    best, verdict = material.best, material.verdicts[material.best.name]
    sensitivity = material.sensitivities[best.name]
    flaws = {
        "whose diagnostics fail": bool(best.diagnostics.failed),
        "whose computation is not calibrated": not material.is_calibrated(best),
        "whose posterior follows the weight of its prior": (
            isinstance(sensitivity, Sensitivity) and bool(sensitivity.part.failed)
        ),
    }
    judged = [(material.verdicts[f.name], material.is_calibrated(f)) for f in material.fits]
    trusted = [found.trusted and calibrated for found, calibrated in judged]
    passed = [found.passed and calibrated for found, calibrated in judged]
    found = {
        "flaw": next((flaw for flaw, applies in flaws.items() if applies), ""),
        "doubts": [part.name for part in (verdict.prior, verdict.data) if part.failed],
        "missing": [part.name for part in verdict.parts if not part.checks],
        "others": [f.name for f, good in zip(material.fits, passed, strict=True) if not good],
    }
    found["missing"] = [] if verdict.trusted else found["missing"]
    is_warning = any(found.values()) or material.refused
    kind = "fail" if found["flaw"] else "warn" if is_warning else "pass"
    return {"kind": kind, "all": all(trusted), "any": any(trusted), **found}


def failures(material: Material) -> list[tuple[Fit, str, list[Any]]]:
    """Return what failed by fit and advice, and so in one sentence each."""
    found: list[tuple[Fit, str, list[Any]]] = []
    for fit in material.fits:
        verdict, predictive = material.verdicts[fit.name], material.checks.get(fit.name)
        of_data = predictive.failed if predictive is not None else ()
        failed: list[Any] = [*verdict.computation.failed, *verdict.prior.failed, *of_data]
        by_advice: dict[str, list[Any]] = {check.advice: [] for check in failed}
        for check in failed:
            by_advice[check.advice].append(check)
        found += [(fit, advice, checks) for advice, checks in by_advice.items()]
    return found


def verdict_table(material: Material) -> ReportTable:
    """Return a row for each diagnostic and a column for each fit."""
    checks = {fit.name: _of_sampling(fit) for fit in material.fits}
    rows = []
    for name in dict.fromkeys(name for found in checks.values() for name in found):
        found = [checks[fit.name].get(name) for fit in material.fits]
        cells = [_cell(fit, check) for fit, check in zip(material.fits, found, strict=True)]
        # ESS is judged per chain, so that its threshold may differ between fits.
        limits = dict.fromkeys(f"{c.relation} {c.threshold:.4g}" for c in found if c)
        source = [check.source for check in found if check][-1]
        rows.append([name, *cells, " or ".join(limits), source])
    head = ["Diagnostic", *checks, "Must be", "Threshold from"]
    caption = "Diagnostics, and posterior medians in their priors: the worst of each fit"
    return ReportTable(caption, head, rows, text_columns=[len(head) - 1])


def _of_sampling(fit: Fit) -> dict[str, Check]:
    """Return the checks that ``diagnostics.json`` of a run holds."""
    checks = (*fit.verdict.computation.checks, *fit.verdict.prior.checks)
    return {check.name: check for check in checks}


def _cell(fit: Fit, check: Check | None) -> Markup:
    if check is None:
        return Markup("–")
    where = Markup("<small>{}</small>").format(check.where) if check.where else ""
    return Markup("{} {}").format(verdict_cell(check_number(fit, check), check.passed), where)


def data_table(data: Data) -> ReportTable | None:
    """Return the observations as a table, where they fit into one."""
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


def fit_drawings(fit: Fit) -> Drawings:
    """Return the figures of a fit's chapter."""
    program, found = fit.program, dict[str, Callable[[Fit], Figure]]()
    if fit.posterior:
        found |= {"trace": plots.trace, "ranks": plots.ranks, "pairs": plots.pairs}
    if program.can(Capability.PRIOR_DENSITY):
        found["prior"] = plots.prior_posterior
    if program.can(Capability.GROUP_MEAN) and fit.data.by_group is not None:
        found["shrinkage"] = plots.shrinkage
    if program.can(Capability.Y_REP) and fit.data.num_obs:
        found["predictive"] = plots.predictive
    return {name: partial(draw, fit) for name, draw in found.items()}


def drawings(material: Material) -> Drawings:
    """Return the figures of the sections that need no more than the fits."""
    data, loo, found = material.data, material.loo, Drawings()
    if data.by_group is not None and data.num_obs:
        found["data"] = partial(plots.observations, data)
    if loo is not None and len(loo.models) > 1:
        found["loo"] = partial(plots.elpd_differences, loo, interval=material.best.interval)
    for i, calibration in enumerate(material.calibrations):
        found[f"calibration {i}"] = partial(plots.calibration, calibration)
    return found


def late_drawings(material: Material) -> Drawings:
    """Return the figures of what is computed while those of the fits are drawn."""
    found = Drawings()
    checks, drawn = shown_checks(material), drawn_sensitivities(material)
    if checks is not None:
        found["checks"] = partial(plots.predictive_checks, checks)
    if drawn:
        found["sensitivity"] = partial(plots.power_scaling, drawn)
    return found


def shown_checks(material: Material) -> PredictiveChecks | None:
    """Return the predictive checks that are drawn: those of the best model, if it has any."""
    first = next(iter(material.checks.values()), None)
    return material.checks.get(material.best.name, first)


def chapter_tables(material: Material, fit: Fit) -> tuple[list[ReportTable], int]:
    """Return a fit's priors and summary, and how many rows that has in all."""
    tables = []
    declared = fit.program.declaration.priors
    priors: list[list[Markup | str]] = [
        [code(name), _prior_value(fit.record.priors[name], prior.value), prior.description]
        for name, prior in declared.items()
        if name in fit.record.priors
    ]
    if declared:
        num = 3 if any(row[2] for row in priors) else 2
        head = ["Hyperparameter", "Value", "Meaning"][:num]
        tables.append(
            ReportTable("Priors as used", head, [row[:num] for row in priors], range(2, num))
        )
    whole = material.summaries[fit.name]
    size = Counter(str(name).partition("[")[0] for name in whole.index)
    names = sorted(map(str, whole.index), key=lambda name: size[name.partition("[")[0]])
    columns = [str(column) for column in whole.columns]
    rows = [
        [code(row), *(summary_number(fit, whole, row, column) for column in columns)]
        for row in names[:MOST_ROWS]
    ]
    head = ["Parameter", *columns]
    return [*tables, ReportTable(f"Summary of the posterior of {fit.name}", head, rows)], len(whole)


def _prior_value(value: Any, default: float) -> str:
    if not isinstance(value, float | int):
        return str(value)
    return f"{value:g}" if value == default else f"{value:g} (default {default:g})"


def formulas(fit: Fit) -> list[str]:
    """Return the model and its priors with their numbers, a formula a line."""
    equation = fit.program.declaration.equation
    lines = re.split(r", (?=[\w ]+ ~)", equation) if equation else []
    priors = {name: fit.program.prior_of(name, fit.data.values) for name in map(str, fit.posterior)}
    return [*lines, *(f"{name} ~ {prior.text}" for name, prior in priors.items() if prior)]


def _p_value(check: PredictiveCheck) -> Markup:
    shown = check.p_text.removeprefix("p ").removeprefix("= ")
    return verdict_cell(number(check.p_value, shown), check.passed)


def checks_table(material: Material) -> ReportTable:
    """Return the p-value of each predictive check and model."""
    columns = [{c.name: c for c in found.checks} for found in material.checks.values()]
    rows = []
    for name in dict.fromkeys(name for column in columns for name in column):
        found = [column.get(name) for column in columns]
        cells = [_p_value(check) if check else Markup("–") for check in found]
        meaning = next(check.meaning for check in found if check)
        rows.append([code(name), *cells, isolated(meaning)])
    head = ["Check", *material.checks, "Statistic"]
    return ReportTable("Predictive p-values", head, rows, text_columns=[len(head) - 1])


def loo_table(material: Material) -> ReportTable | None:
    """Return the models' PSIS-LOO."""
    if material.loo is None:
        return None
    models, alone = material.loo.models, len(material.loo.models) == 1
    half = half_width(material.best.interval)

    def difference(model: ModelLoo) -> list[Markup]:
        low, high = map(elpd, _around(model.difference, half * model.difference_se))
        is_best = model is material.loo.best if material.loo else False
        between = Markup("–") if is_best else Markup("{} to {}").format(low, high)
        return [elpd(model.difference), elpd(model.difference_se), between]

    rows = [
        [
            code(model.name),
            *map(elpd, (model.elpd, model.se, model.mcse, model.p_loo)),
            *([] if alone else difference(model)),
            *(number(model.worst_k), str(model.num_bad)),
        ]
        for model in models
    ]
    interval = f"{percent(material.best.interval)} interval"
    compared = [] if alone else ["Difference", "SE of difference", interval]
    head = ["Model", "elpd", "SE", "MCSE", "p_loo", *compared, "Largest k-hat", "k-hats too large"]
    return ReportTable("PSIS-LOO" if alone else "PSIS-LOO, best model first", head, rows)


def method_drawings(found: Comparison) -> Drawings:
    """Return the figures of a comparison of methods."""
    made: Drawings = {
        "forest": partial(methods.interval_forest, found),
        "marginals": partial(methods.method_marginals, found),
    }
    if found.vb is not None:
        made["elbo"] = partial(methods.elbo_trace, found)
    if found.vb_from_afar is not None:
        made["ascent"] = partial(methods.coordinate_ascent, found)
    return made


def method_part(found: Comparison) -> dict[str, Any]:
    """Return how far the methods are from the reference, and each one's summary."""
    shown, interval = methods.shown_elements(found), percent(found.nuts.interval)
    whole, vb = found.table(), found.results.get("vb")
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
    reference = METHOD_NAMES[found.reference]
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
    """Return of each approximation that is far from the reference where it is farthest."""
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


def drawn_sensitivities(material: Material) -> list[Sensitivity]:
    """Return the sensitivities that could be computed."""
    found = [each for each in material.sensitivities.values() if isinstance(each, Sensitivity)]
    return [each for each in found if each.distances["prior"].notna().any()]


def moves_table(material: Material) -> tuple[ReportTable | None, int]:
    """Return the first conclusions that move with a prior, and how many do."""
    drawn = drawn_sensitivities(material)
    moves = pd.concat({each.name: each.moves() for each in drawn}) if drawn else pd.DataFrame()
    if moves.empty:
        return None, 0
    ways, values = moves["moves"], moves.drop(columns="moves")
    rows: list[list[Markup | str]] = [
        [code(parameter), name, conclusion, *map(number, map(float, values.iloc[i])), ways.iloc[i]]
        for i, (name, parameter, conclusion) in enumerate(moves.index[:MOST_CONCLUSIONS])
    ]
    head = ["Parameter", "Model", "Conclusion", "Posterior", "At 0.8", "At 1.25", "Per doubling"]
    caption = "Conclusions that move with the prior, and where they are at its power 0.8 and 1.25"
    return ReportTable(caption, [*head, "Moves"], rows, [1, 2, len(head)]), len(moves)


def changed_priors(material: Material, found: Calibration) -> list[str]:
    """Return the priors that were not those of the fit, which calibrations often need narrower."""
    fit = next(fit for fit in material.fits if fit.name == found.name)
    return [
        f"{name} = {value:g}"
        for name, value in found.priors.items()
        if fit.record.priors.get(name) != value
    ]


def drawn_by(material: Material) -> str:
    """Return the sampler of the fits."""
    names = dict.fromkeys(METHOD_NAMES[reference_method(fit)] for fit in material.fits)
    return " and ".join(names)


def without_vb(material: Material) -> list[str]:
    """Return the models that have no closed-form VB."""
    return [fit.name for fit in material.fits if not fit.program.can(Capability.VB)]
