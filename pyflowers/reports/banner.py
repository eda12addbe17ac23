"""The banner at the top of the page: whether the answer can be trusted, and what failed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from markupsafe import Markup

from pyflowers.advice import Advice
from pyflowers.analysis.calibration import Calibration
from pyflowers.analysis.prior_sensitivity import THRESHOLD, Sensitivity, sensitivities_of
from pyflowers.display import upper_first
from pyflowers.fits.commands import command_of, shown_path
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import element_names
from pyflowers.programs import Capability
from pyflowers.reports.markup import (
    Text,
    bullets,
    capitalised,
    check_number,
    code,
    command,
    fill,
    isolated,
    join,
    listed,
    names_of,
    number,
    paragraph,
    unbroken,
)
from pyflowers.reports.material import Material

MOST_NAMED = 6
"""The largest number of quantities that the banner names as not calibrated."""

_QUESTIONS = {
    "computation": "whether its sampling converged",
    "prior": "whether its prior suits the data",
    "data": "whether it reproduces the data",
}
_DOUBTS = {
    "prior": "whose prior contradicts the data",
    "data": "which does not reproduce the data",
}


def banner(material: Material, sentences: Markup) -> Markup:
    """Return the banner, given the sentences that the sections contribute."""
    kind = kind_of(material)
    alert = Markup()
    if kind != "pass":
        alert = Markup(' role="alert"')
    first = paragraph(fill("<strong>{}</strong> {}", _lead(material), sentences))
    inside = join([first, _examined(material), _details(material, kind)], "\n")
    return fill('<div class="banner {}" id="banner"{}>\n{}\n</div>', kind, alert, inside)


def _details(material: Material, kind: str) -> Markup:
    """Return what failed; in a warning, it is collapsed until the reader expands it."""
    failed = failures(material)
    if kind == "pass" or not failed:
        return Markup()
    if kind == "fail":
        return failed
    return fill("<details>\n<summary>What failed and what to do</summary>\n{}\n</details>", failed)


def kind_of(material: Material) -> str:
    """Return ``fail``, ``warn`` or ``pass``; models other than the best one only cause ``warn``."""
    if is_bad(material):
        return "fail"
    if _doubt(material) or _failing_others(material) or material.refused:
        return "warn"
    return "pass"


def is_bad(material: Material) -> bool:
    """Return whether the answer must not be trusted."""
    return bool(_flaw(material))


def _flaw(material: Material) -> str:
    """Return why the model behind the answer must not be trusted; empty if it may be."""
    best = material.best
    if best.diagnostics.failed:
        return "whose diagnostics fail"
    if not material.is_calibrated(best):
        return "whose computation is not calibrated"
    found = material.sensitivities[best.name]
    if isinstance(found, Sensitivity) and found.part.failed:
        return "whose posterior depends strongly on the weight of its prior"
    return ""


def _doubt(material: Material) -> Text:
    """Return what to bear in mind about the model behind the answer; empty if there is nothing."""
    verdict, best = material.verdicts[material.best.name], material.named(material.best.name)
    doubts = [_DOUBTS[part.name] for part in (verdict.prior, verdict.data) if part.failed]
    if doubts:
        return fill("Read the answer with care: it rests on {}, {}.", best, listed(doubts))
    depends = prior_dependence(material)
    if depends is not None and depends.of_answer:
        return "Read the answer with care: it depends on the prior."
    missing = [_QUESTIONS[part.name] for part in verdict.parts if not part.checks]
    if missing and not verdict.trusted:
        return fill("The answer rests on {}; no check has tested {}.", best, listed(missing))
    if verdict.data.status == "limited":
        what: Text = "The averages and effects"
        if not material.alone:
            what = fill("The answer rests on {}, whose averages and effects", best)
        return fill("{} can be trusted, but {}.", what, isolated(verdict.data.limits))
    return ""


def _failing_others(material: Material) -> list[str]:
    """Return the models that did not pass every check."""
    return [
        fit.name
        for fit in material.fits
        if not (material.verdicts[fit.name].passed and material.is_calibrated(fit))
    ]


def _lead(material: Material) -> Text:
    """Return the banner's first sentence."""
    best, flaw = material.named(material.best.name), _flaw(material)
    if flaw:
        return fill("Do not trust the answer: it rests on {}, {}.", best, flaw)
    doubt = _doubt(material)
    if doubt:
        return doubt
    others = _failing_others(material)
    if others:
        return fill(
            "The answer can be trusted: it rests on {}. {} did not pass every check.",
            best,
            capitalised(material.names_of(others)),
        )
    these = "These fits"
    if material.alone:
        these = "This fit"
    if not material.refused:
        return f"{these} can be trusted."
    were = f"{len(material.refused)} models were"
    if len(material.refused) == 1:
        were = "one model was"
    return f"{these} can be trusted; {were} not fitted."


def _examined(material: Material) -> Markup:
    """Return the status of each part of the verdict on the model behind the answer."""
    said: list[Markup] = []
    for part in material.verdicts[material.best.name].parts:
        name: str = part.name
        if material.alone and not said:
            name = upper_first(name)
        kind = part.status.replace(" ", "-")
        said.append(fill('<span class="{}">{} {}</span>', kind, name, part.status))
    statuses = Markup(", ").join(said)
    if not material.alone:
        statuses = fill("{}: {}", material.named(material.best.name), statuses)
    return paragraph(statuses + ".", "examined")


@dataclass(frozen=True)
class Dependence:
    """What depends on the prior in the best model, and whether the answer does.

    Attributes
    ----------
    names : list of str
        The quantities that depend on their priors.
    most : float
        The largest sensitivity of a quantity.
    answer : float
        The largest sensitivity among the effects or group means in the first section. NaN if that
        section has neither, because the answer then consists of all quantities.
    """

    names: list[str]
    most: float
    answer: float

    @property
    def of_answer(self) -> bool:
        """Whether the answer depends on the prior."""
        return self.answer >= THRESHOLD


def prior_dependence(material: Material) -> Dependence | None:
    """Return what depends on the prior in the best model; None if that is not known."""
    fit, found = material.best, material.sensitivities[material.best.name]
    if isinstance(found, str) or not found.is_known or found.components[0].is_constant:
        return None
    of_answer = np.array([np.nan])
    if material.effects is not None:
        effects = material.effects
        draws = effects.draws().values[..., ~effects.is_of_data]
        of_answer = sensitivities_of(found.components[0], draws, effects.step)
    elif fit.program.can(Capability.GROUP_MEAN) and fit.data.by_group is not None:
        rows = element_names(fit.posterior[fit.program.declaration.roles.group_mean])
        of_answer = found.distances["prior"][rows].to_numpy()
    most = float(found.distances["prior"].max())
    return Dependence(found.sensitive, most, float(np.max(of_answer)))


def short(sensitivity: float) -> Markup:
    """Return the markup of a sensitivity, with two digits."""
    return number(sensitivity, f"{sensitivity:.2g}")


@dataclass
class _Failure:
    """Checks of a fit that lead to the same advice."""

    fit: Fit
    advice: str
    checks: list[Any] = field(default_factory=list)


def failures(material: Material, *, with_commands: bool = False) -> Markup:
    """List what failed, is imprecise or is limited, with a sentence for each piece of advice.

    With `with_commands`, each command that follows the advice is shown once.
    """
    given = list[str]()
    items = []
    for found in _failures(material):
        item = Markup("; ").join(finding(found.fit, check) for check in found.checks) + "."
        if not material.alone:
            item = fill("{}: {}", material.named(found.fit.name), item)
        if material.alone:
            item = capitalised(item)
        if found.advice:
            item += fill(" {}", unbroken(f"{upper_first(found.advice)}."))
        if with_commands and isinstance(found.advice, Advice):
            again = command_of(found.fit, found.advice, shown_path, given)
            if again and again not in given:
                item += command(again)
            given.append(again)
        items.append(item)
    items += [_uncalibrated(material, found) for found in material.uncalibrated]
    return bullets(items, "failures" * with_commands)


def _failures(material: Material) -> Iterator[_Failure]:
    """Yield what failed, by fit and advice."""
    for fit in material.fits:
        verdict, predictive = material.verdicts[fit.name], material.checks.get(fit.name)
        failed: list[Any] = [*verdict.computation.failed, *verdict.computation.imprecise]
        failed += verdict.prior.failed
        if predictive is not None:
            failed += [*predictive.failed, *predictive.limited]
        by_advice: dict[str, _Failure] = {}
        for check in failed:
            by_advice.setdefault(check.advice, _Failure(fit, check.advice)).checks.append(check)
        yield from by_advice.values()


def finding(fit: Fit, check: Any) -> Markup:
    """Return the finding of a failed check, either in words with its p-value or as numbers."""
    if hasattr(check, "p_text"):
        relation, shown = check.p_text.rsplit(" ", 1)
        words, p_value = isolated(check.finding), number(check.p_value, shown)
        return fill("{} ({}, {} {})", words, code(check.name), relation, p_value)
    if check.finding:
        return fill("{}", check.finding)
    where = Markup()
    if check.where:
        where = fill(" ({})", check.where)
    value = check_number(fit, check)
    limit = f"{check.relation} {check.threshold:.4g}"
    return fill("{} {}{}, must be {}", check.name, value, where, limit)


def _uncalibrated(material: Material, found: Calibration) -> Markup:
    given = ""
    if found.is_posterior:
        given = ", given the observed data"
    return fill(
        "{}: the ranks of {} are not uniform over {} simulated data sets{}. Look for a mistake in "
        "the program, or sample with more warm-up or a larger adapt_delta.",
        capitalised(material.calibrated(found)),
        uncalibrated_names(found),
        found.num_fits,
        given,
    )


def uncalibrated_names(found: Calibration) -> Markup:
    """Return the quantities of a calibration that are not calibrated."""
    names = list(found.failed)
    if len(names) <= MOST_NAMED:
        return names_of(names)
    first = Markup(", ").join(map(code, names[:MOST_NAMED]))
    return fill("{} and {} more", first, len(names) - MOST_NAMED)
