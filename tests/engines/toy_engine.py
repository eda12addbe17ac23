"""A toy engine in one file: each draw is where a random walk of `warmup` Metropolis steps ends.

It has no generated quantities, so it samples programs that need none.
"""

import json
from dataclasses import dataclass

import numpy as np

from pyflowers.digests import digest
from pyflowers.engines import Sample
from pyflowers.engines.base import variables_of
from pyflowers.engines.stanli.density import Interpreted
from pyflowers.programs.source import Source


@dataclass(frozen=True)
class Loaded:
    """A program that the toy engine has loaded."""

    source: Source
    engine: str = "toy"

    @property
    def versions(self):
        return {"numpy": np.__version__}

    @property
    def key(self):
        return digest("toy", self.source.sha256)

    def sample(self, data, options, *, keep=None, **_):
        text = json.dumps({name: np.asarray(value).tolist() for name, value in data.items()})
        density = Interpreted(self.source, text, options.seed)
        rng = np.random.default_rng(options.seed)
        points = rng.normal(0, 0.1, (options.chains * options.draws, len(density.names)))
        heights, _ = density.evaluate(points, gradient=False)
        scale = 1.0
        for step in range(options.warmup):
            proposals = points + scale * rng.normal(size=points.shape)
            proposed, _ = density.evaluate(proposals, gradient=False)
            accepted = np.log(rng.random(len(points))) < proposed - heights
            points = np.where(accepted[:, None], proposals, points)
            heights = np.where(accepted, proposed, heights)
            scale *= np.exp((accepted.mean() - 0.3) / (1 + step / 20))
        values = density.constrain(points).reshape(options.chains, options.draws, -1)
        found = variables_of(density.elements, values)
        kept = {name: found[name] for name in keep or found if name in found}
        return Sample(kept, {}, independent={"acceptance": float(accepted.mean())})


class Toy:
    """The engine."""

    name = "toy"
    uses = frozenset({"seed", "chains", "warmup", "draws", "cores"})

    def load(self, program):
        return Loaded(program.source)

    identify = load


ENGINE = Toy()
