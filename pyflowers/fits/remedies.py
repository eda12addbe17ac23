"""Remedies for failed sampling, which are tried before they are recommended.

The advice on failed diagnostics is followed: the model is refitted with the same seed and the
recommended options, and the advice on that refit is followed in turn. If no advice is left, and
slopes of a covariate vary by group, the model with that covariate centred is tried. If nothing
helps and the engine ``exact`` applies, it is tried last. The recommended command repeats the refit,
so its result is certain, not only likely.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyflowers.advice import Advice
from pyflowers.errors import PyflowersError
from pyflowers.fits.diagnostics import named
from pyflowers.fits.fit import Fit
from pyflowers.fits.folder import Trial
from pyflowers.fits.sampling import prepare_spec
from pyflowers.fits.updating import asked_again
from pyflowers.fits.verdict import Part

QUICK = 10.0
"""The longest sampling time, in seconds, after which another remedy is tried."""

MOST_TRIALS = 3

NOT_CENTRED = 1.0
"""Ratio of a covariate's mean to its sd above which the model is tried with it centred."""


def with_trials(fit: Fit, announce: Callable[[str], object] = lambda _: None) -> Fit:
    """Return a fit with a record of the remedies that were tried, if its diagnostics do not pass.

    Parameters
    ----------
    fit : Fit
        The fit. Nothing is tried after a fit that took more than 10 seconds.
    announce : callable, optional
        Function that is called with a line before each refit.

    Returns
    -------
    Fit
        The same draws, with the trials in the record and in the advice.
    """
    if fit.is_partial or fit.record.independent is not None:
        return fit
    trials, now = list[Trial](), fit
    change: dict[str, Any] = {}
    while len(trials) < MOST_TRIALS and now.record.times.wall_seconds <= QUICK:
        if now.diagnostics.status == "passed" or "program" in change:
            break
        if more := _advised(now.diagnostics):
            change |= more
        else:
            change = dict(fit.program.python.rescaling(fit.data, NOT_CENTRED).change)
        if not change:
            break
        tried = _trial(fit, change, now, announce)
        if tried is None:
            break
        trial, now = tried
        trials.append(trial)
    is_quick = fit.record.times.wall_seconds <= QUICK
    if now.diagnostics.status == "failed" and is_quick and _has_exact_draws(fit):
        tried = _trial(fit, {"engine": "exact"}, now, announce)
        if tried is not None:
            trials.append(tried[0])
    if not trials:
        return fit
    return replace(fit, record=fit.record.model_copy(update={"trials": tuple(trials)}))


def _trial(
    fit: Fit, change: dict[str, Any], now: Fit, announce: Callable[[str], object]
) -> tuple[Trial, Fit] | None:
    """Refit with changed inputs; None if that is not possible."""
    announce(f"{now.diagnostics.tally}; trying {named(change)} to see whether it helps")
    try:
        found = refit(fit, change)
    except PyflowersError:
        return None
    status, result = found.diagnostics.status, _result(found.diagnostics)
    return Trial(change=dict(change), status=status, result=result), found


def _has_exact_draws(fit: Fit) -> bool:
    """Return whether the engine ``exact`` applies to a formula's fit."""
    from pyflowers.engines.integrated import applies_to

    return applies_to(fit.program, fit.program.stan_values(fit.data))


def _advised(part: Part) -> dict[str, Any]:
    """Return all inputs that the advice on the failures of a part changes."""
    found: dict[str, Any] = {}
    for check in (*part.failed, *part.imprecise):
        if isinstance(check.advice, Advice):
            found = {**check.advice.change, **found}
    return found


def _result(part: Part) -> str:
    """Return, in words, which diagnostics do not pass, or that all pass."""
    left = [f"{check.name} {check.number}" for check in (*part.failed, *part.imprecise)]
    return ", ".join(left) or part.tally


def refit(fit: Fit, change: dict[str, Any]) -> Fit:
    """Repeat a fit with some of its inputs changed.

    Parameters
    ----------
    fit : Fit
        The fit.
    change : dict
        The new values, by the names of the arguments of :func:`pyflowers.fit`.

    Raises
    ------
    PyflowersError
        If the fit cannot be repeated.
    """
    return prepare_spec(asked_again(fit, change)).sample()
