"""Figures in the page: SVG in a data URI, which follows the reader's light or dark setting.

A browser runs no script in an image and lets it load nothing. Each colour of the light theme
becomes a CSS variable in the SVG, which has another value where dark is preferred; text stays text,
so that the reader's own fonts show any script.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass

from matplotlib.figure import Figure

from pyflowers.plots import DARK, LIGHT, Theme, alt_text

RASTER_DPI = 130
"""Resolution of the parts that are images within the SVG: clouds of points."""


@dataclass(frozen=True)
class Embedded:
    """A figure ready for the page.

    Attributes
    ----------
    uri : str
        ``data:`` URI.
    width, height : int
        CSS pixels.
    alt : str
        What it shows, in words.
    """

    uri: str
    width: int
    height: int
    alt: str


def embed(draw: Callable[[], Figure]) -> Embedded:
    """Draw a figure in the light theme for the page."""
    figure = draw()
    raw = base64.b64encode(to_svg(figure).encode()).decode()
    width, height = (round(float(inches) * 96) for inches in figure.get_size_inches())
    return Embedded(f"data:image/svg+xml;base64,{raw}", width, height, visible(alt_text(figure)))


def to_svg(figure: Figure) -> str:
    """Draw a figure of the light theme as SVG for light and dark; equal figures, equal text."""
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(buffer, format="svg", dpi=RASTER_DPI, metadata=nothing)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]  # no XML prologue, no document type
    light, dark = _colours(LIGHT), _colours(DARK)
    svg = _TAG.sub(lambda tag: _slim(tag[0], light), svg)
    style = (
        f"<style>svg{{{_declare(light)}}}"
        f"@media (prefers-color-scheme:dark){{svg{{{_declare(dark)}}}}}</style>"
    )
    end = svg.index(">") + 1
    return svg[:end] + style + svg[end:]


_TAG = re.compile(r"<[^>]*>")
"""A tag; a user's labels stand between tags, escaped, and must not be touched."""

_FRACTION = re.compile(r"(\.\d\d)\d+")
_FRACTION_OF_LONG = re.compile(r"(\.\d)\d+")

LONG_PATH = 10_000
"""Characters from which a path is a traceplot's, of which a tenth of a point is enough."""


def _slim(tag: str, colours: dict[str, str]) -> str:
    """Name the colours of a tag, and keep of its coordinates what a screen shows."""
    if tag.startswith("<!--"):
        return ""
    for name, colour in colours.items():
        tag = tag.replace(colour, f"var(--{name})")
    if tag.startswith(("<path", "<use")):
        fraction = _FRACTION_OF_LONG if len(tag) > LONG_PATH else _FRACTION
        tag = fraction.sub(r"\1", tag).replace("\nL ", "L").replace(" \n", "")
    return tag


def _colours(theme: Theme) -> dict[str, str]:
    """Return a theme's colours by the names of their CSS variables."""
    roles = asdict(theme)
    chains = roles.pop("chains")
    return roles | {f"chains{i}": colour for i, colour in enumerate(chains)}


def _declare(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in colours.items())


_NOT_IN_HTML = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef"
    + "".join(chr(plane << 16 | 0xFFFE) + chr(plane << 16 | 0xFFFF) for plane in range(17))
    + "]"
)


def visible(text: str) -> str:
    """Show control characters by their pictures, as HTML cannot hold them."""
    return _NOT_IN_HTML.sub(lambda c: chr(0x2400 + ord(c[0])) if c[0] < " " else "�", text)
