"""``pyflowers.update``: refit a model with some of its inputs changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyflowers.engines.base import State
from pyflowers.errors import ConfigError
from pyflowers.fits.commands import as_bool, changed_inputs, without_unused
from pyflowers.fits.fit import Fit
from pyflowers.fits.sampling import fit as sampled
from pyflowers.fits.spec import INPUTS, READING, Spec, takes_inputs
from pyflowers.fits.states import END
from pyflowers.programs.data import OF_A_FILE
from pyflowers.programs.program import is_formula, joined_formulas, named_priors

_OF_TEXT = ("program", "family", "link", "default_priors", "known", "data", "centered")
"""Inputs on which the text of a formula's program depends; it also depends on some priors."""


_OTHERS = tuple(name for name in INPUTS if name != "priors")


@takes_inputs(*_OTHERS)
def update(
    fit: Fit,
    *,
    formula: str | list[str] | None = None,
    data: Any = None,
    priors: Any = None,
    warm: bool = False,
    out: str | Path | None = None,
    refit: bool = False,
    overwrite: bool = False,
    cores: int | None = None,
    show_progress: bool = False,
    **inputs: Any,
) -> Fit:
    """Refit a model with some of its inputs changed, and the others as they were.

    Parameters
    ----------
    fit : Fit
        The fit.
    formula : str or list of str, optional
        Another formula. It can name only the columns of the table that the fit used; to use other
        columns, also give `data`.
    data : path, DataFrame, Table or mapping, optional
        Other data. The default priors of a formula depend on the scale of its data, and its
        parametrisation is chosen from the data, so both may change.
    priors : mapping or list, optional
        Hyperparameters or priors that change, such as ``{"b[x]": "normal(0, 1)"}``; the others
        remain. None instead of a value restores the default; use None for the prior of a term
        that the new formula does not have.
    warm : bool
        Whether each chain starts from the last state of its predecessor in `fit`, with its step
        size and metric, so that at most 100 iterations of warm-up suffice. The fits must have the
        same parameters, with the same sizes. Use this for small changes, such as another prior:
        after a large change, the metric is unsuitable, and R-hat does not show a mode of the
        posterior that no chain had reached.
    out, refit, overwrite, cores, show_progress
        See :func:`pyflowers.fit`.
    **inputs

    Returns
    -------
    Fit
        The new fit; `fit` does not change. It keeps the seed and the engine of `fit`, unless they
        are given.

    Raises
    ------
    ConfigError
        If nothing is changed, the formula needs a known covariance, which a fit does not hold, or
        the chains cannot start where the chains of `fit` ended.
    PyflowersError
        If the model cannot be fitted; see :func:`pyflowers.fit`.

    See Also
    --------
    pyflowers.fit : Fit a model.

    Examples
    --------
    >>> import pyflowers
    >>> priors = {"mu_sd": 10}
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact", priors=priors)
    >>> narrow = fit.update(priors={"mu_sd": 1})
    >>> narrow.record.priors["mu_sd"], narrow.options.seed
    (1.0, 1)

    With Markov chains, the new chains can start where the old ones ended:

    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="stanli")
    >>> narrow = fit.update(priors={"mu_sd": 1}, warm=True)
    >>> narrow.record.start.warmup
    100
    """
    change = {name: its for name, its in inputs.items() if its is not None}
    if formula is not None:
        change["program"] = joined_formulas(formula)
    if data is not None:
        change["data"] = data
    if priors is not None:
        change["priors"] = named_priors(priors)
    if not change and not warm:
        raise ConfigError(
            "update: no input is changed; give data=…, priors=…, formula=… or another input of a "
            "fit"
        )
    how: dict[str, Any] = {"refit": refit, "overwrite": overwrite, "cores": cores}
    spec = asked_again(fit, change, warm=warm)
    found: Fit = sampled(spec, out=out, show_progress=show_progress, **how)
    return found


def asked_again(fit: Fit, change: Mapping[str, Any], *, warm: bool = False) -> Spec:
    """Return the inputs of a fit, with some of them changed.

    Parameters
    ----------
    fit : Fit
        The fit.
    change : mapping of str to Any
        The new inputs by their names in :func:`pyflowers.fit`. Priors are changed one by one; None
        restores a default. Inputs that do not apply to a changed program are left out.
    warm : bool
        Whether the chains start from the last states of the fit's chains. Otherwise, they start
        from the initial values that were given for the fit or, without any, at random.

    Returns
    -------
    Spec
        The inputs. They keep the seed, the engine and the table of the fit, which has only the
        columns that the fit used.

    Raises
    ------
    ConfigError
        If there is no such input, the changed formula needs a known covariance, which a fit does
        not hold, or the fit has no states from which chains can start.
    """
    inputs = changed_inputs(fit, {name: its for name, its in change.items() if name != "data"})
    new_priors = dict(change.get("priors") or {})
    is_written = is_formula(inputs["program"]) and (
        any(name in change for name in _OF_TEXT) or any(map(_is_text, new_priors.values()))
    )
    inputs["data"] = fit.whole
    if "data" in change:
        inputs["data"] = change["data"]
        if not isinstance(inputs["data"], str | Path):
            _leave_out(inputs, OF_A_FILE)
    else:
        _leave_out(inputs, READING)
        if is_written:
            inputs["data"] = fit.whole.table
    if is_written:
        _refuse_unknown(inputs, change)
        if "data" in change and "centered" not in change:
            inputs.pop("centered", None)  # it is chosen from the data
        elif "centered" in inputs and "centered" not in change:
            inputs["centered"] = as_bool(inputs["centered"])
    elif "program" not in change:
        inputs["program"] = fit.program
        _leave_out(inputs, ("family", "default_priors", "known", "include_paths"))
        priors = inputs.pop("priors", {})
        inputs["priors"] = {name: its for name, its in priors.items() if not _is_text(its)}
        # Without a table, the data block holds the unchanged priors.
        if not fit.data.has_table and "data" not in change:
            inputs["priors"] = new_priors
        inputs["centered"] = change.get("centered", fit.record.centered)
    if "engine" in inputs and "engine" not in change:
        inputs["engine"] = fit.record.engine.find()
    if "inits" not in change and not is_written:
        inputs["inits"] = fit.record.inits
    inputs = without_unused(inputs, change)
    if warm:
        inputs["inits"] = _last_state(fit, change)
        inputs["metric"] = change.get("metric", inputs["inits"].metric)
    return Spec(**{**inputs, "interval": change.get("interval", fit.record.interval)})


def _last_state(fit: Fit, change: Mapping[str, Any]) -> State:
    """Return where the chains of a fit ended, under the name of the fit."""
    if "inits" in change:
        raise ConfigError(
            "inits: in a warm start, the chains start where the chains of the fit ended; leave out "
            "either inits or warm"
        )
    called = fit.called if fit.folder is None else str(fit.folder)
    if END not in fit.states:
        raise ConfigError(
            f"warm: {called} does not hold the last states of its chains, as it has no chains or "
            "was fitted by an earlier version of pyflowers; refit it, or leave out --warm (in "
            "Python, warm=True)"
        )
    return replace(fit.states[END], fit=called)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _leave_out(inputs: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        inputs.pop(name, None)


def _refuse_unknown(inputs: Mapping[str, Any], change: Mapping[str, Any]) -> None:
    """Reject a changed formula that needs a covariance that is not given again."""
    for name in inputs.get("known", {}):
        if name not in (change.get("known") or {}):
            raise ConfigError(
                f"known: the fit does not hold the covariance {name}; give it again with known=…"
            )
