"""The engine ``exact``: draws from posteriors without a Markov chain.

There is no warm-up, step size or starting point. The "chains" are parts of one set of draws, so
that the result has the same form as with other engines. The Stan program is not run. Unedited
programs that were written for formulas get weighted draws from :mod:`.integrated`. Other programs
get independent draws from their ``ClosedForm``, which must draw exactly the quantities that the
program keeps.

If there are more than :data:`LARGEST` draws of group quantities, or the caller names the quantities
to keep, groups are summarised block by block while they are drawn, and only the draws of named
group quantities are kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.convergence import statistics
from pyflowers.cores import limited
from pyflowers.display import INTERVAL, interval_quantiles
from pyflowers.engines.base import (
    Keep,
    LoadedProgram,
    Sample,
    SamplerOptions,
    Watch,
)
from pyflowers.engines.without_chains import WithoutChains
from pyflowers.errors import ConfigError
from pyflowers.programs import Capability, Data, GroupDraws, IndependentDraws, Program
from pyflowers.progress import stage

USES = frozenset({"seed", "chains", "draws", "keep", "cores"})

LARGEST = 50_000_000
"""The maximum number of draws of group quantities kept in memory (400 MB) if none are named.

The limit is fixed, so that a run writes the same files on every machine. Summaries, labels and
writing the run folder take several times as much memory.
"""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class ExactEngine:
    """The engine that draws without a Markov chain, from posteriors that allow this."""

    name: str = "exact"
    uses: frozenset[str] = USES

    def identify(self, program: Program) -> LoadedProgram:
        """Return the loaded program, because loading takes no time."""
        return self.load(program)

    def load(self, program: Program) -> LoadedProgram:
        """Load a program that has the capability ``closed_form`` or ``linear``.

        Raises
        ------
        ConfigError
            If the program has neither capability.
        """
        if program.can(Capability.LINEAR):
            from pyflowers.engines.integrated import IntegratedProgram

            return IntegratedProgram(program)
        formula = program.declaration.formula
        if formula is not None and not program.can(Capability.CLOSED_FORM):
            raise ConfigError(
                f"{program.called}: the program for {formula.text} was edited, so only Stan can "
                "compute its density; leave out --engine exact, or fit the formula"
            )
        program.require(Capability.CLOSED_FORM)
        return ExactProgram(program)


ENGINE = ExactEngine()


@dataclass(frozen=True)
class ExactProgram(WithoutChains):
    """A program with a closed-form posterior."""

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
        watch: Watch | None = None,
    ) -> Sample:
        """See :class:`~pyflowers.engines.base.LoadedProgram`."""
        draw = self.program.python.closed_form.draw
        assert draw is not None  # load() has checked the capability
        self.refuse_prior(data)
        started = time.perf_counter()
        block = Data(data, declaration=self.program.declaration)
        shape = (options.chains, options.draws)
        total = options.chains * options.draws
        streamed: Mapping[str, Mapping[str, FloatArray]] = {}
        with limited(cores):
            found = draw(block, total, np.random.default_rng(options.seed))
            self._check_names(found)
            draws = {name: in_chains(values, shape) for name, values in found.whole.items()}
            groups = found.groups
            if groups is not None:
                wanted: Keep = dict.fromkeys(groups.names)
                if options.keep:
                    wanted = keep or {}
                elif total * groups.num_groups * len(groups.names) > LARGEST:
                    wanted = {}
                streamed, kept = summarised(groups, shape, wanted, interval, show_progress)
                draws |= kept
        return Sample(
            draws,
            {},
            messages={},
            wall_time=time.perf_counter() - started,
            streamed=streamed,
            independent={k: v for k, v in found.measures().items() if np.isfinite(v)},
        )

    def _check_names(self, found: IndependentDraws) -> None:
        """Reject a closed form that does not draw exactly the quantities that the program keeps."""
        drawn = {*found.whole, *getattr(found.groups, "names", ())}
        for name in drawn ^ set(self.program.kept()):
            has, lacks = "the program", "its closed form"
            remedy = f"name it under omit in {self.program.declared_in}"
            if name in drawn:
                has, lacks, remedy = lacks, has, "remove it from the closed form"
            raise ConfigError(
                f"{self.program.called}: {name} is in {has}, but not in {lacks}; add it there, "
                f"or {remedy}"
            )


def in_chains(values: FloatArray, shape: tuple[int, int]) -> FloatArray:
    """Reshape draws from (chain × draw, …) to (chain, draw, …)."""
    return np.asarray(values, dtype=np.float64).reshape(*shape, *values.shape[1:])


def summarised(
    groups: GroupDraws,
    shape: tuple[int, int],
    keep: Keep,
    interval: float = INTERVAL,
    show_progress: bool = False,
) -> tuple[dict[str, dict[str, FloatArray]], dict[str, FloatArray]]:
    """Draw the groups; keep all draws, or summarise them and keep the draws of some groups.

    Returns
    -------
    streamed : dict of str to dict of str to array, shape (group,)
        Statistics for each quantity whose draws are not all kept.
    kept : dict of str to array, shape (chain, draw, element)
        The draws that are kept.
    """
    num = groups.num_groups
    probs = list(interval_quantiles(interval).values())
    every, wanted = np.arange(num), dict[str, NDArray[np.int64]]()
    for name in groups.names:
        if name in keep:
            places = keep[name]
            wanted[name] = every
            if places is not None:
                wanted[name] = np.asarray(places)
    kept = {name: np.empty((*shape, len(places))) for name, places in wanted.items()}
    streamed: dict[str, dict[str, FloatArray]] = {
        name: {} for name in groups.names if len(wanted.get(name, ())) < num
    }
    progress: AbstractContextManager[Callable[[int], object]] = nullcontext(lambda _: None)
    if show_progress and streamed:  # on a terminal, if something is summarised
        progress = stage("Drawing", num)
    with progress as advance:
        for place, block in groups.blocks:
            for name, values in block.items():
                draws = in_chains(values, shape)
                if name in wanted and wanted[name] is every:
                    kept[name][..., place] = draws
                elif name in wanted:
                    here = (wanted[name] >= place.start) & (wanted[name] < place.stop)
                    kept[name][..., here] = draws[..., wanted[name][here] - place.start]
                if name in streamed:
                    for key, each in statistics(draws, probs).items():
                        streamed[name].setdefault(key, np.empty(num))[place] = each
            advance(place.stop - place.start)
    return streamed, kept
