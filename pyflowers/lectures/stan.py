"""Stan beside the samplers written by hand: NUTS, and mean-field ADVI, on a program that ships."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyflowers.engines.approximate import Approximation, approximate
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import element_names, flat
from pyflowers.fits.sampling import fit
from pyflowers.fits.verdict import Part
from pyflowers.lectures.lecture import Settings
from pyflowers.lectures.measures import Draws, Efficiency, FloatArray, smallest_ess
from pyflowers.progress import logger
from pyflowers.resources import program_path
from pyflowers.toolchain import compile_program, find_cmdstan


@dataclass(frozen=True)
class Nuts:
    """A fit by Stan's NUTS."""

    fit: Fit

    @property
    def verdict(self) -> Part:
        """The fit's own diagnostics."""
        return self.fit.diagnostics

    @property
    def gradients(self) -> int:
        """How many gradients the kept draws took."""
        return int(self.fit.stats["n_leapfrog__"].sum())

    @property
    def acceptance(self) -> float:
        """The mean acceptance statistic."""
        return float(self.fit.stats["accept_stat__"].mean())

    def variable(self, name: str) -> FloatArray:
        """Return one variable's draws, shaped (chain, draw, …)."""
        return np.asarray(self.fit.posterior[name].values, dtype=np.float64)

    def draws(self, *names: str) -> dict[str, FloatArray]:
        """Return every element of some variables by its name, each shaped (chain, draw)."""
        return {
            label: np.asarray(flat(self.fit.posterior[name])[:, :, i])
            for name in names
            for i, label in enumerate(element_names(self.fit.posterior[name]))
        }

    def efficiency(self, draws: Draws) -> Efficiency:
        """Return what the kept draws cost, all chains together, judged by some quantities."""
        num_draws = self.fit.num_chains * self.fit.num_draws
        seconds = float(sum(chain["sampling"] for chain in self.fit.record.times.chains))
        cost = (smallest_ess(draws), self.gradients, seconds)
        return Efficiency("Stan's NUTS", self.acceptance, num_draws, *cost)


def nuts(
    program: str, data: Mapping[str, Any], settings: Settings, *, title: str = "", **options: Any
) -> Nuts:
    """Fit a program that ships, by name, with Stan's NUTS; `options` are those of a fit.

    With a title its progress is shown: bars on a terminal, a line elsewhere.
    """
    if title:
        logger.info("%s", title)
    shown = bool(title) and sys.stderr.isatty() and sys.stdout.isatty()
    options |= {"seed": settings.seed, "cmdstan": settings.cmdstan, "show_progress": shown}
    return Nuts(fit(program_path(program), data, **options))


def advi(program: str, data: Mapping[str, Any], settings: Settings) -> Approximation:
    """Approximate a program's posterior by mean-field ADVI: the one place that calls it."""
    executable = compile_program(program_path(program), cmdstan=find_cmdstan(settings.cmdstan))
    return approximate(executable, data, "advi_meanfield", seed=settings.seed)
