"""Exact leave-one-out: the model is refitted without some observations, which it then predicts.

The density of the held-out observations, p(y_out | y_in), is the ratio r of two evidences. Bridge
sampling uses draws from the posteriors of the refit and of the whole fit, which is the fit to all
observations. With L = p(y_out | parameters), m draws of the refit and n draws of the whole fit, r
solves

    r = mean_refit[L / (m r + n L)] / mean_whole[1 / (m r + n L)].

The mean of L over the refit alone would be unbiased. But held-out observations are often far from
the rest. A few draws then dominate that mean, and its standard error does not reveal this. In the
equation above, both means are of bounded functions.

A program that declares ``held_out`` leaves the observations out itself, and its ``log_lik`` still
includes them. If ``[prediction]`` gives the likelihood, the rows are removed from the table.

References
----------
.. [1] Meng and Wong (1996), Simulating ratios of normalizing constants via a simple identity,
   Statistica Sinica 6, 831–860, eqs. 4.1 and 4.2.
.. [2] Frühwirth-Schnatter (2004), Econometrics Journal 7, 143–167, section 2.3, for the standard
   error with the draws' autocorrelation: the delta method with each mean's effective sample size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pyflowers.convergence import ess_mean
from pyflowers.cores import in_order
from pyflowers.engines import Engine
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.fits.sampling import fit_data
from pyflowers.programs import Capability, Data, Draws, Model, Program
from pyflowers.programs.declaration import OBS


@dataclass(frozen=True)
class HeldOut:
    """Observations that are held out from a fit.

    Attributes
    ----------
    program : Program
        The program.
    rows : array of int
        The observations, counted from 0.
    training : Data
        The data block of the refit: without these observations, or with ``held_out`` set to 1 for
        them.
    whole : Data
        The data block with all observations, including the priors.
    """

    program: Program
    rows: NDArray[np.int64]
    training: Data
    whole: Data

    def log_liks(self, draws: Draws) -> NDArray[np.float64]:
        """Return the log density of each held-out row at each draw given the training data.

        Rows of a group that is not in the training data are predicted one by one, each as the first
        of its group. The result has the shape (chain, draw, row).
        """
        model = Model(self.program, self.whole)
        if not model.evaluates or _has_switch(self.program):
            return np.asarray(model.log_lik(draws, self.rows))
        held, is_new = _at_labels(self.whole, self.rows, self.training)
        if not is_new:
            return np.asarray(Model(self.program, held).log_lik(draws))
        each = (replace(self, rows=self.rows[[i]]) for i in range(len(self.rows)))
        return np.stack([one.log_density(draws) for one in each], axis=-1)

    def log_density(self, draws: Draws, *, of_whole: bool = False) -> NDArray[np.float64]:
        """Return the log joint density of the held-out rows at each draw, shape (chain, draw).

        Parameters
        ----------
        draws : mapping
            Draws from the posterior given the training data.
        of_whole : bool
            Whether the draws are instead from the posterior given all data.

        Raises
        ------
        ConfigError
            If a whole group is held out and the program has no density for it.
        """
        model = Model(self.program, self.whole)
        if not model.evaluates or _has_switch(self.program):
            return np.asarray(model.log_lik(draws, self.rows).sum(-1))
        held, is_new = _at_labels(self.whole, self.rows, self.training)
        if not is_new:
            if of_whole:
                held, _ = _at_labels(self.whole, self.rows, self.whole)
            return np.asarray(Model(self.program, held).log_lik(draws).sum(-1))
        new_group = self.program.python.new_group
        if new_group is None:
            raise ConfigError(
                f"{self.program.called} has no new_group, the density of a group that the fit has "
                "not seen; declare held_out in the program, or pass new_group to Capabilities"
            )
        return new_group(draws, held)


def hold_out(program: Program, whole: Data, rows: NDArray[np.int64]) -> HeldOut:
    """Leave observations out of a data block.

    Parameters
    ----------
    program : Program
        The program.
    whole : Data
        Its data block, including the priors.
    rows : array of int
        The observations, counted from 0.

    Raises
    ------
    ConfigError
        If the program cannot leave the observations out, or no observations would remain.
    """
    program.require(Capability.HELD_OUT)
    rows = np.unique(np.asarray(rows, dtype=np.int64))
    if rows.size >= whole.num_obs:
        raise ConfigError(
            f"{program.called}: with all {rows.size} observations left out, none remain; leave out "
            "fewer"
        )
    if _has_switch(program):
        role = program.declaration.roles.held_out
        mask = np.array(whole.values[role], dtype=np.int64)
        mask[rows] = 1
        return HeldOut(program, rows, replace(whole, values={**whole.values, role: mask}), whole)
    if whole.table is None:
        raise ConfigError(
            f"{program.called}: observations can only be left out of a table, and this model was "
            "fitted to a data block; fit it to the table instead"
        )
    kept = whole.table.at(np.delete(np.arange(len(whole.table)), rows))
    time_order = whole.reading.get("time_order", "value")
    declared = replace(program, declaration=whole.declaration)
    training = declared.read(kept, columns=whole.columns, time_order=time_order)
    return HeldOut(program, rows, training, whole)


def _has_switch(program: Program) -> bool:
    """Return whether the program leaves observations out itself, so no rows need to be removed."""
    return program.declaration.roles.held_out in program.source.blocks.data


def _at_labels(whole: Data, rows: NDArray[np.int64], training: Data) -> tuple[Data, bool]:
    """Return the data of the held-out rows, and whether any of them has a new group.

    The indices of labels are positions among the labels of the training data.
    """
    values: dict[str, Any] = dict(whole.values)
    is_new = False
    for name, source in whole.declaration.data.items():
        if whole.dims.get(name) != (OBS,):
            continue
        values[name] = np.asarray(whole.values[name])[rows]
        column = source.index_of
        if column is not None:
            position = {label: i for i, label in enumerate(training.labels[column].names)}
            labels = whole.labels[column]
            known = [position.get(labels.names[labels.codes[row]]) for row in rows]
            if column != whole.group and None in known:
                name = labels.names[labels.codes[rows[known.index(None)]]]
                raise ConfigError(
                    f"{whole.declaration.title}: without the held-out observations, no "
                    f"observation has the {labels.column} {name!r}; leave out fewer observations, "
                    "or declare held_out in the program"
                )
            is_new |= None in known
            values[name] = np.array([0 if i is None else i for i in known]) + 1
    return replace(whole, values=values), is_new


_MOST_STEPS = 1000

T = TypeVar("T")


@dataclass(frozen=True)
class HeldOutDensity:
    """How well a model without some observations predicts these observations.

    Attributes
    ----------
    rows : array of int
        The observations held out, counted from 0.
    elpd : float
        Log of their joint predictive density.
    mcse : float
        Its Monte Carlo standard error.
    passed : bool
        Whether the refit passed its diagnostics.
    is_refit : bool
        Whether the density comes from a refit; if not, it comes from importance weights.
    """

    rows: NDArray[np.int64]
    elpd: float
    mcse: float
    passed: bool
    is_refit: bool = True


def predict_held_out(
    fit: Fit,
    held_out: Sequence[NDArray[np.int64]],
    *,
    engine: Engine | None = None,
    advance: Callable[[], object] = lambda: None,
) -> list[HeldOutDensity]:
    """Refit a model without each of several sets of observations, and predict each set.

    One refit at a time runs on each core.

    Parameters
    ----------
    fit : Fit
        The fit to all observations.
    held_out : sequence of array of int
        The sets, each as positions of observations, counted from 0.
    engine : Engine, optional
        The engine. Default: the engine of the fit.
    advance : callable
        Function without arguments, called after each refit.

    Raises
    ------
    ConfigError
        If the program cannot leave the observations out, or has no density for a left-out group.
    PyflowersError
        If a refit does not finish.
    """

    def predicted(part: HeldOut, again: Fit) -> HeldOutDensity:
        whole = part.log_density(fit.draws, of_whole=True)
        found = log_ratio(part.log_density(again.draws), whole)
        return HeldOutDensity(part.rows, *found, again.diagnostics.passed)

    return refit_without(fit, held_out, predicted, engine=engine, advance=advance)


def refit_without(
    fit: Fit,
    held_out: Sequence[NDArray[np.int64]],
    use: Callable[[HeldOut, Fit], T],
    *,
    engine: Engine | None = None,
    advance: Callable[[], object] = lambda: None,
) -> list[T]:
    """Refit a model without each of several sets of rows, and return the result of `use` for each.

    Parameters
    ----------
    fit, held_out, engine, advance
        See :func:`predict_held_out`.
    use : callable
        Function of the held-out observations and the refit, called while other refits run.
    """
    if engine is None:
        engine = fit.record.engine.find()

    def used(part: HeldOut) -> T:
        # Each refit has its own seed, which does not depend on the other refits.
        state = np.random.SeedSequence([fit.options.seed, *part.rows.tolist()])
        seed = int(state.generate_state(1, np.uint32)[0])
        again = fit_data(
            fit.program,
            part.training,
            fit.options.model_copy(update={"seed": seed}),
            priors=fit.record.priors if fit.data.has_table else None,
            centered=fit.record.centered if "centered" in engine.uses else None,
            engine=engine,
            cores=1,
        )
        found = use(part, again)
        advance()
        return found

    # All data blocks are created first, so that an invalid one is rejected before any refit.
    parts = [_left_out(fit, rows) for rows in held_out]
    return list(in_order([partial(used, part) for part in parts]))


def _left_out(fit: Fit, rows: NDArray[np.int64]) -> HeldOut:
    """Leave rows out of the likelihood, but keep all rows in which a predictor is imputed."""
    of_whole = fit.data.rows_in_whole(rows)
    assert of_whole is not None
    part = hold_out(fit.program, fit.whole, of_whole)
    return replace(part, rows=np.unique(rows), whole=fit.data)


def log_ratio(without: NDArray[np.float64], whole: NDArray[np.float64]) -> tuple[float, float]:
    """Return log p(y_out | y_in) and its standard error, by bridge sampling.

    Parameters
    ----------
    without, whole : array, shape (chain, draw)
        log p(y_out | parameters) at draws given y_in, and at draws given all observations.
    """
    share = without.size / (without.size + whole.size)
    log_ratio = _log_mean(without)
    for _ in range(_MOST_STEPS):
        of_ratio = np.log(share) + log_ratio
        upper = without - np.logaddexp(of_ratio, np.log1p(-share) + without)
        lower = -np.logaddexp(of_ratio, np.log1p(-share) + whole)
        before, log_ratio = log_ratio, _log_mean(upper) - _log_mean(lower)
        if abs(log_ratio - before) <= 1e-12:
            break
    else:
        return log_ratio, np.inf
    return log_ratio, float(np.hypot(_error(upper), _error(lower)))


def log_mean(log_values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the log of the mean of exp(log_values) over all draws, with its standard error."""
    return _log_mean(log_values), _error(log_values)


def _error(log_values: NDArray[np.float64]) -> float:
    """Return the standard error of the log of a mean over draws."""
    v = np.exp(log_values - log_values.max())
    return float(v.std() / np.sqrt(ess_mean(v[..., None])[0]) / v.mean())


def _log_mean(log_values: NDArray[np.float64]) -> float:
    return float(np.logaddexp.reduce(log_values, axis=None) - np.log(log_values.size))
