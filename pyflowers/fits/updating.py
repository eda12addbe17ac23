"""The question that a fit answers, with some of its inputs changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyflowers.errors import ConfigError
from pyflowers.fits.commands import as_bool, changed_inputs
from pyflowers.fits.fit import Fit
from pyflowers.fits.spec import READING, Spec
from pyflowers.programs.data import OF_A_FILE
from pyflowers.programs.program import is_formula

_OF_TEXT = ("program", "family", "link", "default_priors", "known", "data")
"""Inputs on which the text of a formula's program depends; some priors are others."""


def asked_again(fit: Fit, change: Mapping[str, Any]) -> Spec:
    """Return the question that a fit answers, with some of its inputs changed.

    Parameters
    ----------
    fit : Fit
        The fit.
    change : mapping of str to Any
        The new inputs by their names in :func:`pyflowers.fit`. Priors are changed one by one; None
        restores a default. What does not apply to a changed program is left out.

    Returns
    -------
    Spec
        The question. Its seed and engine are those of the fit, and its table is that of the fit,
        which has only the columns that the fit used.

    Raises
    ------
    ConfigError
        If there is no such input, or the changed formula needs a known covariance, which a fit does
        not hold.
    """
    inputs = changed_inputs(fit, change)
    new_priors = dict(change.get("priors") or {})
    is_written = is_formula(inputs["program"]) and (
        any(name in change for name in _OF_TEXT) or any(map(_is_text, new_priors.values()))
    )
    inputs["data"] = fit.data
    if "data" in change:
        inputs["data"] = change["data"]
        if not isinstance(inputs["data"], str | Path):
            _leave_out(inputs, OF_A_FILE)
    else:
        _leave_out(inputs, READING)
        if is_written:
            inputs["data"] = fit.data.table
    if is_written:
        _refuse_unknown(inputs, change)
        if "centered" in inputs and "centered" not in change:
            inputs["centered"] = as_bool(inputs["centered"])
    elif "program" not in change:
        inputs["program"] = fit.program
        _leave_out(inputs, ("family", "default_priors", "known", "include_paths"))
        priors = inputs.pop("priors", {})
        inputs["priors"] = {name: its for name, its in priors.items() if not _is_text(its)}
        if not fit.data.has_table and "data" not in change:  # the data block holds the others
            inputs["priors"] = new_priors
        inputs["centered"] = change.get("centered", fit.record.centered)
    if "engine" in inputs and "engine" not in change:
        inputs["engine"] = fit.record.engine.find()
    if "inits" not in change and not is_written:
        inputs["inits"] = fit.record.inits
    uses = getattr(inputs.get("engine"), "uses", None)
    if uses is not None and "centered" not in uses:
        inputs.pop("centered", None)
    return Spec(**{**inputs, "interval": change.get("interval", fit.record.interval)})


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _leave_out(inputs: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        inputs.pop(name, None)


def _refuse_unknown(inputs: Mapping[str, Any], change: Mapping[str, Any]) -> None:
    """Refuse a changed formula that needs a covariance that is not given again."""
    for name in inputs.get("known", {}):
        if name not in (change.get("known") or {}):
            raise ConfigError(
                f"known: the fit does not hold the covariance {name}; give it again with known="
            )
