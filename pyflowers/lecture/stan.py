"""Stan beside the samplers written by hand: NUTS, and mean-field ADVI, on a program that ships."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyflowers.approximate import Approximation, approximate
from pyflowers.cmdstan import compile_program, find_cmdstan
from pyflowers.diagnostics import Verdict
from pyflowers.fitting import Fit, fit
from pyflowers.lecture.lecture import Settings
from pyflowers.lecture.measures import Draws, Efficiency, FloatArray, smallest_ess
from pyflowers.resources import program_path
from pyflowers.summary import elements


@dataclass(frozen=True)
class Nuts:
    """A fit by Stan's NUTS.

    Attributes
    ----------
    fit : Fit
    """

    fit: Fit

    @property
    def verdict(self) -> Verdict:
        """The fit's own diagnostics."""
        return self.fit.diagnostics

    @property
    def gradients(self) -> int:
        """How many gradients the kept draws took."""
        return int(self.fit.base.sample_stats["n_steps"].sum())

    @property
    def seconds(self) -> float:
        """Seconds of one core that the kept draws took, all chains together."""
        return float(sum(chain["sampling"] for chain in self.fit.record["times"]["chains"]))

    def variable(self, name: str) -> FloatArray:
        """Return one variable's draws, shaped (chain, draw, …)."""
        return np.asarray(self.fit.posterior[name].values, dtype=np.float64)

    def draws(self, *names: str) -> dict[str, FloatArray]:
        """Return every element of some variables by its name, each shaped (chain, draw)."""
        return {
            label: np.asarray(self.fit.posterior[name].values[(..., *position.values())])
            for name in names
            for label, position in elements(self.fit.posterior[name])
        }

    def efficiency(self, draws: Draws) -> Efficiency:
        """Return what the fit cost, judged by some of its quantities."""
        stats = self.fit.base.sample_stats
        return Efficiency(
            "Stan's NUTS",
            float(stats["acceptance_rate"].mean()),
            int(stats.sizes["chain"] * stats.sizes["draw"]),
            smallest_ess(draws),
            self.gradients,
            self.seconds,
        )


def nuts(program: str, data: Mapping[str, Any], settings: Settings, **options: Any) -> Nuts:
    """Fit a program that ships, by name, with Stan's NUTS; `options` are those of a fit."""
    return Nuts(
        fit(program_path(program), data, seed=settings.seed, cmdstan=settings.cmdstan, **options)
    )


def advi(program: str, data: Mapping[str, Any], settings: Settings) -> Approximation:
    """Approximate a program's posterior by mean-field ADVI: the one place that calls it."""
    executable = compile_program(program_path(program), cmdstan=find_cmdstan(settings.cmdstan))
    return approximate(executable, data, "advi_meanfield", seed=settings.seed)
