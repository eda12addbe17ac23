"""The process that runs the interpreter: ``python -m pyflowers.engines.stanli.worker``.

The main thread alone calls the interpreter. Another reads the standard input and ends the process
at once when it closes, since nobody is waiting for an answer.

A process that may crash without harm runs the interpreter itself, see :func:`interpret_here`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import queue
import re
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from pyflowers.engines.stanli.pool import Answer, Progress, Request, answer_by

MOST_PROGRAMS = 64
"""Programs that are remembered."""

NEVER = 2**31 - 1
"""Iterations between reports when none are wanted: the times at the end are still printed."""

_PROGRESS = re.compile(r"Chain \[(\d+)\] Iteration: +(\d+) / (\d+) \[ *\d+%\] +\((\w+)\)")


def main() -> None:
    """Answer requests until the standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    interpreter = _Interpreter(answers)
    requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests,), daemon=True).start()
    while True:
        _send(interpreter.answer(requests.get()), answers)


def interpret_here() -> None:
    """Run the interpreter in this process from now on, so that a crash of it ends this process.

    Afterwards, whatever the process prints is discarded, as what Stan prints is.
    """
    answer_by(_Interpreter().answer)


def _receive(requests: queue.SimpleQueue[Request]) -> None:
    while True:
        try:
            requests.put(pickle.load(sys.stdin.buffer))
        except (EOFError, OSError, pickle.UnpicklingError):
            os._exit(0)


def _send(message: Any, to: IO[bytes]) -> None:
    try:
        pickle.dump(message, to, protocol=5)
        to.flush()
    except OSError:
        os._exit(0)


class _Interpreter:
    """Stan programs, loaded once; it takes the standard output and error of its process."""

    def __init__(self, answers: IO[bytes] | None = None) -> None:
        self._answers = answers
        self._programs: dict[str, str] = {}
        self._density: Any = None
        # What Stan prints goes to the file descriptors, whatever Python's streams are.
        self._console = tempfile.TemporaryFile()  # noqa: SIM115
        os.dup2(self._console.fileno(), 1)
        os.dup2(self._console.fileno(), 2)

    def answer(self, request: Request) -> Answer:
        """Return the result, or what the interpreter said, and what it printed."""
        self._console.seek(0)
        self._console.truncate()
        values, error = self._answered(request)
        self._console.seek(0)
        return Answer(values, error, self._console.read().decode("utf-8", "replace"))

    def _answered(self, request: Request) -> tuple[dict[str, Any], str]:
        try:
            return getattr(self, f"_{request.kind}")(request), ""
        except (RuntimeError, ValueError, TypeError, OverflowError, MemoryError) as error:
            return {}, str(error) or type(error).__name__

    def _load(self, request: Request) -> dict[str, Any]:
        import stanli

        self._program(request)
        return {"build": stanli.build_id()}

    def _program(self, request: Request) -> str:
        """Return a program's intermediate form, translated at most once."""
        import stanli

        if request.key not in self._programs:
            if len(self._programs) >= MOST_PROGRAMS:
                self._programs.pop(next(iter(self._programs)))
            self._programs[request.key] = stanli.stan_to_mir(request.text)
        return self._programs[request.key]

    def _open(self, request: Request, seed: int) -> Any:
        import stanli

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return stanli.Model(mir=self._program(request), data=to_json(request.data), seed=seed)

    def _sample(self, request: Request) -> dict[str, Any]:
        import stanli

        options = dict(request.options)
        model = self._open(request, options["seed"])
        inits = options.pop("inits", None)
        if inits is not None:
            options["inits"] = np.stack([model.unconstrain(to_json(_flat(one))) for one in inits])
        adapts = options["warmup"] > 0
        refresh = options.pop("refresh")
        stream = _Lines(self._answers if refresh else None)
        with contextlib.redirect_stdout(stream):
            fit = model.sample(
                samples=options.pop("draws"),
                delta=options.pop("adapt_delta"),
                max_depth=options.pop("max_treedepth"),
                adapt_engaged=adapts,
                refresh=refresh or NEVER,
                **options,
            )
        # Stan has names of its own for words of C++, such as class.
        names = [name.removeprefix("_stan_") for name in fit.names]
        kept = _columns(names, request.keep)
        # The first column is a parameter, which is a number unless the whole row was given up.
        first = fit.draws()[:, :, :1] if model.n_unconstrained else np.empty(0)
        return {
            "names": [names[i] for i in kept],
            "draws": np.ascontiguousarray(fit.draws()[:, :, kept]),
            "stats": fit.sampler_stats,
            "stat_names": stanli.SAMPLER_COLUMNS,
            "times": stream.times(),
            "num_lost": int(np.isnan(first).sum()),
        }

    def _open_density(self, request: Request) -> dict[str, Any]:
        """Open a log density, which the other requests of its worker are about."""
        import stanli

        self._density = stanli.bridgestan_model(
            mir=self._program(request),
            data=request.options["data"],
            seed=request.options["seed"],
        )
        return {
            "variables": self._density.param_names(include_tp=True),
            "unconstrained": self._density.param_unc_names(),
        }

    def _evaluate(self, request: Request) -> dict[str, Any]:
        """Return log density and gradient, −∞ and 0 where the program rejects."""
        points = request.data["points"]
        log_density, gradient = np.full(len(points), -np.inf), np.zeros(points.shape)
        for i, point in enumerate(points):
            with contextlib.suppress(RuntimeError):
                log_density[i], gradient[i] = self._density.log_density_gradient(point)
        return {"log_density": log_density, "gradient": gradient}

    def _constrain(self, request: Request) -> dict[str, Any]:
        points = request.data["points"]
        rows = [self._density.param_constrain(point, include_tp=True) for point in points]
        return {"values": np.stack(rows) if rows else np.empty((0, 0))}

    def _unconstrain(self, request: Request) -> dict[str, Any]:
        rows = [self._density.param_unconstrain(row) for row in request.data["values"]]
        return {"points": np.stack(rows) if rows else np.empty((0, 0))}


class _Lines(io.TextIOBase):
    """Turns the interpreter's lines of progress into messages, and keeps its times."""

    def __init__(self, answers: IO[bytes] | None) -> None:
        self._answers = answers
        self._text: list[str] = []

    def times(self) -> list[dict[str, float]]:
        """Return seconds of warm-up and sampling of each chain."""
        printed = "".join(self._text)
        warmup, sampling = (
            [float(found) for found in re.findall(rf"([\d.]+) seconds \({phase}\)", printed)]
            for phase in ("Warm-up", "Sampling")
        )
        return [
            {"warmup": before, "sampling": after, "total": before + after}
            for before, after in zip(warmup, sampling, strict=True)
        ]

    def write(self, text: str) -> int:
        self._text.append(text if "seconds" in text else "")
        for chain, iteration, total, phase in _PROGRESS.findall(text):
            message = Progress(int(chain), int(iteration), int(total), phase == "Warmup")
            if self._answers is not None:
                _send(message, self._answers)
        return len(text)


def to_json(values: Mapping[str, Any]) -> str:
    """Write a data block as Stan's JSON: integers as such, doubles with all their digits."""
    return "{" + ",".join(f"{json.dumps(k)}:{_value(v)}" for k, v in values.items()) + "}"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return to_json(value)
    array = np.asarray(value)
    if array.ndim == 0:
        return _number(array.item())
    if array.ndim == 1:
        if array.dtype.kind in "iu":
            return str(array.tolist()).replace(" ", "")
        return "[" + ",".join(map(_number, array.tolist())) + "]"
    return "[" + ",".join(map(_value, array)) + "]"


def _number(value: Any) -> str:
    if isinstance(value, float):
        if value != value:
            return '"NaN"'
        if value in (float("inf"), float("-inf")):
            return '"+Inf"' if value > 0 else '"-Inf"'
    return repr(int(value) if isinstance(value, bool) else value)


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return initial values in Stan's own order, the first index fastest."""
    return {
        name: np.asarray(value).ravel(order="F") if np.ndim(value) > 1 else value
        for name, value in values.items()
    }


def _columns(names: list[str], keep: tuple[str, ...] | None) -> list[int]:
    if keep is None:
        return list(range(len(names)))
    wanted = set(keep)
    return [i for i, name in enumerate(names) if re.split(r"[\[.:]", name, maxsplit=1)[0] in wanted]


if __name__ == "__main__":
    main()
