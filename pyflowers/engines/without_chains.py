"""The parts that both kinds of programs of the engine ``exact`` share: source, versions and key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyflowers.digests import digest
from pyflowers.engines.base import EngineLacksError
from pyflowers.programs import Program
from pyflowers.programs.source import Source
from pyflowers.resources import version


@dataclass(frozen=True)
class WithoutChains:
    """A program whose posterior is drawn without a Markov chain."""

    program: Program
    engine: str = "exact"

    @property
    def source(self) -> Source:
        """The Stan program, which states the model."""
        return self.program.source

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of the packages that produce the draws."""
        return {name: version(name) for name in ("pyflowers", "numpy", "scipy")}

    @cached_property
    def key(self) -> str:
        """Digest of the program's name and text, and of the versions."""
        return digest(self.source.name, self.source.sha256, *self.versions.values())

    def refuse_prior(self, data: Mapping[str, Any]) -> None:
        """Raise an error if the data block requests the prior."""
        flag = self.program.declaration.roles.prior_only
        if data.get(flag):
            raise EngineLacksError(
                f"{self.program.called}: engine 'exact' draws from the posterior, but {flag} "
                "requests the prior; use another engine"
            )
