"""The appendix: figures of the sampling and of the priors, which the reader can expand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import compress

from matplotlib.figure import Figure

from pyflowers import plots
from pyflowers.fits.fit import Fit
from pyflowers.programs import Capability
from pyflowers.reports.markup import Text, fill, folded
from pyflowers.reports.material import Material
from pyflowers.reports.section import Block, Drawings, Picture, Section

_CAPTIONS = {
    "trace": "Traceplots. Each line is a chain; chains that mix look alike and have no trend.",
    "ranks": "Rank plots. If the chains agree, the lines are flat and stay inside the grey band, "
    "which contains 99% of the bars for independent draws.",
    "pairs": "Pair plot. Each parameter is alone on the diagonal, and pairs are below it",
    "prior_posterior": "Prior (dashed) and posterior (filled). On a logarithmic axis, the curves "
    "are densities of the logarithm.",
}
"""The captions of the figures, in their order on the page."""


def content(material: Material) -> Iterator[Block]:
    """Yield the figures of each model, collapsed."""
    for fit in material.fits:
        of: Text = ""
        if not material.alone:
            of = fill(" of {}", material.named(fit.name))
        shown = [Picture(f"{fit.name}/{name}", _caption(fit, name)) for name in _drawn(fit)]
        if shown:
            summary = fill("Traceplots, rank plots, pair plot and priors{}", of)
            yield from folded(summary, *shown)


def _caption(fit: Fit, name: str) -> str:
    """Return the caption of a figure."""
    caption = _CAPTIONS[name]
    if name != "pairs":
        return caption
    if "divergent__" in fit.stats:
        return f"{caption}; crosses are divergent transitions."
    return f"{caption}."


def _drawn(fit: Fit) -> dict[str, Callable[[], Figure]]:
    """Return the figures that a fit has."""
    has_draws = bool(fit.posterior)
    applies: dict[Callable[..., Figure], bool] = {
        **dict.fromkeys((plots.trace, plots.ranks, plots.pairs), has_draws),
        plots.prior_posterior: fit.program.can(Capability.PRIOR_DENSITY),
    }
    return {draw.__name__: partial(draw, fit) for draw in compress(applies, applies.values())}


def figures(material: Material) -> Drawings:
    """Return the figures of each model; their names begin with the model's name and ``/``."""
    return {
        f"{fit.name}/{name}": draw for fit in material.fits for name, draw in _drawn(fit).items()
    }


APPENDIX = Section(
    "appendix",
    lambda _: "Appendix: figures of the sampling",
    content,
    figures,
    in_contents="Appendix",
)
