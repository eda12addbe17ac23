"""The process that runs the interpreter; :mod:`pyflowers.engines.workers` starts it.

Only its main thread calls the interpreter.
"""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import stanio
import stanli
from numpy.typing import NDArray

from pyflowers.engines.base import ESTIMATED, ChainProgress
from pyflowers.engines.stanli.messages import UNAVAILABLE, Answer, Question
from pyflowers.engines.stanli.pilot import TUNING, csv_names, held_metric, variable_of
from pyflowers.engines.workers import serve

MOST_PROGRAMS = 64
"""The maximum number of translated programs in the cache."""

NEVER = 2**31 - 1
"""A progress interval that no chain reaches, so that times are printed but progress is not."""

_PROGRESS = re.compile(r"Chain \[(\d+)\] Iteration: +(\d+) / (\d+) \[ *\d+%\] +\((\w+)\)")


class Interpreter:
    """The interpreter, with a cache of translated programs.

    Parameters
    ----------
    report : callable
        Function that is called with each :class:`~pyflowers.engines.base.ChainProgress`.
    """

    def __init__(self, report: Callable[[ChainProgress], None] = lambda _: None) -> None:
        self._report = report
        self._programs: dict[str, str] = {}
        self._opened: Any = None

    def answer(self, question: Question) -> Answer:
        """Return the result, or the interpreter's message for a failure."""
        kind, text, key, values = question
        try:
            return getattr(self, f"_{kind}")(self._program(text, key), **values), ""
        except (RuntimeError, ValueError, TypeError, OverflowError, MemoryError) as error:
            return {}, str(error) or type(error).__name__

    def _program(self, text: str, key: str) -> str:
        """Return the intermediate form of a program, translated unless it is in the cache."""
        if key not in self._programs:
            if len(self._programs) >= MOST_PROGRAMS:
                self._programs.pop(next(iter(self._programs)))
            self._programs[key] = stanli.stan_to_mir(text)
        return self._programs[key]

    def _load(self, mir: str) -> dict[str, Any]:
        return {"build": stanli.build_id()}

    def _sample(
        self,
        mir: str,
        data: Mapping[str, Any],
        parameters: tuple[str, ...],
        keep: tuple[str, ...] | None,
        inits: list[dict[str, Any]] | None,
        refresh: int,
        run: dict[str, Any],
        thin: int,
        **options: Any,
    ) -> dict[str, Any]:
        """Sample a program and return the statistics of all iterations and every `thin`-th draw.

        `run` has the options of ``stanli.Model.sample`` that an estimated metric replaces;
        `options` has those that the runs before the chains share with them.
        """
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", RuntimeWarning)
            model = stanli.Model(mir=mir, data=stanio.dump_stan_json(data), seed=options["seed"])
        if any(UNAVAILABLE in str(each.message) for each in said):
            raise RuntimeError(f"its {UNAVAILABLE}")
        if inits is not None:
            options["inits"] = np.stack([unconstrained(model, one) for one in inits])
        held: dict[str, Any] | None = None
        metric_held: bool | None = None
        stream = _Lines(self._report)
        with contextlib.redirect_stdout(stream):
            if run["metric"] in ESTIMATED:
                estimate: Callable[..., dict[str, Any] | None] = held_metric
                if run["metric"] == "laplace":
                    from pyflowers.engines.stanli.laplace import laplace_start

                    estimate = laplace_start
                density = _density_of(mir, stanio.dump_stan_json(data), options["seed"])
                held = estimate(model, density, parameters, refresh=NEVER, **options)
                run["metric"], metric_held = "diag_e", held is not None
                if held is not None:
                    run["warmup"] = min(run["warmup"], TUNING)
            fit = model.sample(refresh=refresh or NEVER, **options | run | (held or {}))
        names = csv_names(fit.names)
        kept = [i for i, name in enumerate(names) if keep is None or variable_of(name) in keep]
        own = [i for i, name in enumerate(names) if variable_of(name) in parameters]
        inv_metric = None
        if fit.metric != "unit_e":
            inv_metric = np.stack(fit.inv_metric)
        draws = fit.draws()[:, ::thin]
        # The first column is a parameter, which is NaN only if the whole row failed.
        num_lost = 0
        if model.n_unconstrained:
            num_lost = int(np.isnan(draws[:, :, 0]).sum())
        return {
            "names": [names[i] for i in kept],
            # take is about ten times as fast as indexing with a list.
            "draws": np.take(draws, kept, axis=2),
            "stats": fit.sampler_stats,
            "stat_names": stanli.SAMPLER_COLUMNS,
            "times": stream.times(fit.n_chains),
            "num_lost": num_lost,
            "metric_held": metric_held,
            "parameter_names": [names[i] for i in own],
            "last": fit.draws()[:, -1, own],
            "step_size": fit.step_size,
            "inv_metric": inv_metric,
        }

    def _open_density(self, mir: str, data: str, seed: int) -> dict[str, Any]:
        """Open a log density for later requests to this worker."""
        self._opened = _density_of(mir, data, seed)
        return {"names": self._opened.names, "elements": self._opened.elements}

    def _density(self, mir: str, method: str, arguments: tuple[Any, ...]) -> dict[str, Any]:
        """Call a method of the open log density."""
        return {"result": getattr(self._opened, method)(*arguments)}


class _Lines(io.TextIOBase):
    """A stream that turns the interpreter's progress lines into messages, and records the times."""

    def __init__(self, report: Callable[[ChainProgress], None]) -> None:
        self._report = report
        self._text: list[str] = []

    def times(self, chains: int) -> list[dict[str, float]]:
        """Return the times of warm-up and sampling and their total, in seconds, for each chain.

        All pilot runs count as warm-up.
        """
        printed = "".join(self._text)
        warmup, sampling = (
            np.reshape(re.findall(rf"([\d.]+) seconds \({phase}\)", printed), (-1, chains))
            for phase in ("Warm-up", "Sampling")
        )
        before = warmup.astype(float).sum(axis=0) + sampling[:-1].astype(float).sum(axis=0)
        return [
            {"warmup": float(w), "sampling": float(s), "total": float(w) + float(s)}
            for w, s in zip(before, sampling[-1], strict=True)
        ]

    def write(self, text: str) -> int:
        if "seconds" in text:
            self._text.append(text)
        for chain, iteration, total, phase in _PROGRESS.findall(text):
            self._report(ChainProgress(int(chain), int(iteration), int(total), phase == "Warmup"))
        return len(text)


def _density_of(mir: str, data: str, seed: int) -> Any:
    """Return the :class:`~pyflowers.engines.bridge.Bridge` of a program with data."""
    from pyflowers.engines.bridge import Bridge

    model = stanli.bridgestan_model(mir=mir, data=data, seed=seed)
    return Bridge(model.lib_path, model.model, model, forgiving=True)


def unconstrained(model: Any, values: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return values of all parameters of a ``stanli.Model`` on the unconstrained scale."""
    found: NDArray[np.float64] = model.unconstrain(stanio.dump_stan_json(_flat(values)))
    return found


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return initial values in Stan's order, in which the first index changes fastest."""
    arrays = {name: value for name, value in values.items() if np.ndim(value) > 1}
    return {**values, **{name: np.ravel(value, order="F") for name, value in arrays.items()}}


if __name__ == "__main__":
    serve(lambda send: Interpreter(send).answer)
