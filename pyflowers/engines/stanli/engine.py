"""Programs as the interpreter samples them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from typing import Any

import numpy as np

from pyflowers.cores import usable_cores
from pyflowers.digests import digest
from pyflowers.display import INTERVAL
from pyflowers.engines.base import EngineLacksError, Keep, Sample
from pyflowers.engines.options import NUTS_USES, SamplerOptions
from pyflowers.engines.stanli.inits import unconstrained_requests
from pyflowers.engines.stanli.pool import Request, ask
from pyflowers.engines.stanli.shapes import variables_of
from pyflowers.engines.words import no_start
from pyflowers.errors import CompileError, FitError, ToolchainError
from pyflowers.programs import Program
from pyflowers.programs.source import Source
from pyflowers.versions import version


@cache
def stanli_is_installed() -> bool:
    """Whether this platform has the interpreter."""
    return find_spec("stanli") is not None


@dataclass(frozen=True)
class StanliEngine:
    """Programs interpreted."""

    name: str = "stanli"
    uses: frozenset[str] = NUTS_USES

    def load(self, program: Program) -> StanliProgram:
        """Check a program and make it ready; see :func:`interpreted`."""
        return interpreted(program.source)


def interpreted(source: Source) -> StanliProgram:
    """Check a program's text and make it ready.

    Raises
    ------
    CompileError
        With stanc's message, if it is not a valid program.
    EngineLacksError
        If it is valid and the interpreter cannot run it.
    ToolchainError
        If the interpreter is not installed.
    """
    if not stanli_is_installed():
        raise ToolchainError(
            "the engine stanli is not installed; run pip install stanli, or use --engine cmdstan"
        )
    answer = ask(Request("load", text=source.text, key=source.sha256))
    if answer.error:
        raise lack(source, answer.error) or _load_error(source, answer.error)
    if not source.blocks.parameters:
        raise EngineLacksError(
            f"{source.path.name} has no parameters, and the interpreter stanli cannot run such "
            "a program"
        )
    return StanliProgram(source, answer.values["build"])


@dataclass(frozen=True)
class StanliProgram:
    """A program that the interpreter can run."""

    source: Source
    build: str
    engine: str = "stanli"

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of the interpreter and of what it was built from."""
        return {"stanli": _stanli_version(), "build": self.build}

    @cached_property
    def key(self) -> str:
        """Digest of the program's text and the interpreter."""
        return digest(self.source.name, self.source.sha256, _stanli_version(), self.build)

    def sample(
        self,
        data: Mapping[str, Any],
        options: SamplerOptions,
        *,
        cores: int | None = None,
        inits: Any = None,
        keep: Keep | None = None,
        interval: float = INTERVAL,
        show_progress: bool = False,
    ) -> Sample:
        """See :class:`~pyflowers.engines.base.LoadedProgram`."""
        started = time.perf_counter()
        request = Request(
            "sample",
            text=self.source.text,
            key=self.source.sha256,
            data=dict(data),
            options={
                **options.model_dump(exclude={"keep"}),
                "parallel_chains": min(cores or usable_cores(), options.chains),
                "refresh": max(1, (options.warmup + options.draws) // 20) if show_progress else 0,
                **unconstrained_requests(inits, options.chains, self.source),
            },
            keep=None if keep is None else tuple(keep),
        )
        answer = ask(request, show_progress=options.chains if show_progress else 0)
        if answer.error:
            raise lack(self.source, answer.error) or _sample_error(answer.error)
        values = answer.values
        if values["num_lost"]:
            raise EngineLacksError(
                f"{self.source.path.name}: its generated quantities fail in {values['num_lost']} "
                "draws, which the interpreter stanli drops; CmdStan keeps their parameters"
            )
        draws = variables_of(values["names"], values["draws"], keep)
        stats = {
            name: np.ascontiguousarray(values["stats"][:, :, i])
            for i, name in enumerate(values["stat_names"])
        }
        return Sample(
            draws,
            stats,
            chain_times=tuple(values["times"]),
            wall_time=time.perf_counter() - started,
        )


def _stanli_version() -> str:
    try:
        return version("stanli")
    except PackageNotFoundError:
        return "unknown"


def lack(source: Source, printed: str) -> EngineLacksError | None:
    """Return the error for something the interpreter cannot do; None for any other message."""
    if "unsupported" not in printed and not printed.startswith("partial inits:"):
        return None
    first = printed.strip().splitlines()[0]
    return EngineLacksError(
        f"the interpreter stanli cannot run {source.path.name} ({first}); CmdStan can"
    )


def _load_error(source: Source, printed: str) -> Exception:
    message = printed.replace("'string'", source.path.name).strip()
    return CompileError(f"{source.path} does not compile:\n{message}")


def _sample_error(printed: str) -> FitError:
    words = printed.strip().splitlines()[0] if printed.strip() else "no message"
    if "initialization failed" in words:
        _, _, reason = words.partition("first error: ")
        return FitError(no_start([reason] if reason else []))
    return FitError(f"Stan stopped early: {words}")
