"""The report as one HTML file that needs no other file.

Figures are SVG images in data URIs, in which a browser runs no scripts and loads no files. Each
colour of the light theme becomes a CSS variable in the SVG, with a different value in dark mode.
Text stays text, so that the reader's fonts show any writing system.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from pyflowers import cores
from pyflowers.analysis import checks, elpd
from pyflowers.display import interval_quantiles, percent, upper_first
from pyflowers.fits.fit import Fit, checked_fits
from pyflowers.plots import DARK, LIGHT, Theme, alt_text
from pyflowers.plots.style import visible
from pyflowers.progress import stage
from pyflowers.reports import material, provenance, sections
from pyflowers.reports.material import Comparisons, Material
from pyflowers.storage import FileKind, check_file, new_file
from pyflowers.text import counted

if TYPE_CHECKING:
    from pyflowers.analysis.calibration import Calibration

RASTER_DPI = 130
"""Resolution of the images within the SVG, which show clouds of points."""

LONG_PATH = 10_000
"""A path with more characters than this belongs to a traceplot, and its coordinates are cut to 0.1
points; the coordinates of other paths are cut to 0.01 points."""


def report(
    fits: Fit | Sequence[Fit],
    path: str | Path,
    *,
    refused: Mapping[str, str] | None = None,
    comparisons: Comparisons | Callable[[], Comparisons] | None = None,
    calibrations: Sequence[Calibration] = (),
) -> Path:
    """Write a report on fits to the same data as a single HTML file.

    Parameters
    ----------
    fits : Fit or sequence of Fit
        The fits, one for each model.
    path : str or Path
        The HTML file. An earlier report there is replaced.
    refused : mapping of str to str, optional
        Models that could not be fitted, with the reason that the report gives.
    comparisons : mapping of str to Comparison or str, or callable, optional
        For each model the comparison of its methods, as :func:`pyflowers.compare` returns it, or
        the reason why there is none. The report itself fits no model and runs no other method. A
        function that returns the mapping is called while other cores draw the figures of the fits.
    calibrations : sequence of Calibration
        Calibrations of the fitted programs, as :func:`pyflowers.sbc` returns them.

    Returns
    -------
    Path
        The HTML file.

    Raises
    ------
    ConfigError
        If there is no fit, if the fits use different data, if two fits are of the same model, if a
        calibration does not belong to any fit, or if the file cannot be written.

    See Also
    --------
    pyflowers.plots : The figures of the report, one by one.

    Examples
    --------
    >>> import pyflowers
    >>> fits = [
    ...     pyflowers.fit(name, seed=1, engine="exact")
    ...     for name in ("iid_normal", "multilevel_poisson")
    ... ]
    >>> path = pyflowers.report(fits, "report.html")
    >>> path.name
    'report.html'
    """
    path = check_report(path)
    html = render_report(
        fits, refused=refused, comparisons=comparisons, calibrations=calibrations, out=path
    )
    with new_file(path, KIND) as new:
        new.write_text(html, encoding="utf-8")
    return path


def check_report(path: str | Path) -> Path:
    """Return the path of a report; refuse one that cannot be written or is another file.

    Raises
    ------
    ConfigError
        See :func:`pyflowers.storage.check_file`.
    """
    check_file(path, KIND)
    return Path(path)


def _is_report(path: Path) -> bool:
    with path.open("rb") as file:
        return b'<meta name="generator" content="pyflowers' in file.read(2000)


KIND = FileKind("report", _is_report)


def render_report(
    fits: Fit | Sequence[Fit],
    *,
    refused: Mapping[str, str] | None = None,
    comparisons: Comparisons | Callable[[], Comparisons] | None = None,
    calibrations: Sequence[Calibration] = (),
    out: Path = Path("report.html"),
) -> str:
    """Return the report's HTML; the same fits give the same text.

    Parameters
    ----------
    fits, refused, comparisons, calibrations
        See :func:`report`.
    out : Path
        The name of the file in the command that the report shows.
    """
    fits = checked_fits(fits, "report")
    if callable(comparisons):
        compare = comparisons
    else:
        compare = partial(dict, comparisons or {})
    reasons = {k: provenance.without_folders(v, fits) for k, v in (refused or {}).items()}
    made = Material(fits, reasons, tuple(calibrations))
    with stage("Drawing the report", 2) as advance:
        figures = _drawn(sections.drawings(made), partial(made.examine, compare))
        advance(1)
        figures |= _drawn(sections.late_drawings(made), lambda: None)
        advance(1)
    environment = Environment(
        loader=PackageLoader("pyflowers.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    html = environment.get_template("report.html.j2").render(
        material=made,
        out=out,
        figures=figures,
        sections=sections,
        pieces=material,
        provenance=provenance,
        checks=checks,
        elpd=elpd,
        quantiles=interval_quantiles,
    )
    return visible(html, but="\t\n")


def unbroken(text: str | Markup) -> Markup:
    """Return text in which line breaks cannot divide options such as ``--warmup``."""
    return Markup(re.sub(r"--[a-z][\w-]*", r'<span class="option">\g<0></span>', str(escape(text))))


def lower_first(text: str) -> str:
    """Return a description for use within a sentence; names in capitals are unchanged."""
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


FILTERS: dict[str, Callable[..., str]] = {
    "code": material.code,
    "elpd": material.elpd,
    "general": "{:g}".format,
    "isolated": material.isolated,
    "lower_first": lower_first,
    "number": material.number,
    "percent": percent,
    "some": counted,
    "unbroken": unbroken,
    "upper_first": upper_first,
}


def _drawn(drawings: sections.Drawings, work: Callable[[], object]) -> dict[str, Markup]:
    """Draw figures in other processes while this one does `work`."""
    _, images = cores.alongside(work, [partial(embed, draw) for draw in drawings.values()])
    return dict(zip(drawings, images, strict=True))


def embed(draw: Callable[[], Figure]) -> Markup:
    """Draw a figure in the light theme as an image of the page."""
    figure = draw()
    raw = base64.b64encode(to_svg(figure).encode()).decode()
    sizes = (round(float(inches) * 96) for inches in figure.get_size_inches())
    image = Markup('<img src="data:image/svg+xml;base64,{}" width="{}" height="{}" alt="{}">')
    return image.format(raw, *sizes, alt_text(figure))


def to_svg(figure: Figure) -> str:
    """Return a figure in the light theme as SVG for both themes; equal figures give equal text."""
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(buffer, format="svg", dpi=RASTER_DPI, metadata=nothing)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]  # without the XML declaration and the document type
    light, dark = _colours(LIGHT), _colours(DARK)
    # Only tags are changed: a user's labels are escaped text between them.
    svg = re.sub(r"<[^>]*>", lambda tag: _slim(tag[0], light), svg)
    ours, darks = (
        "".join(f"--{name}:{colour};" for name, colour in colours.items())
        for colours in (light, dark)
    )
    style = f"<style>svg{{{ours}}}@media (prefers-color-scheme:dark){{svg{{{darks}}}}}</style>"
    end = svg.index(">") + 1
    return svg[:end] + style + svg[end:]


def _slim(tag: str, colours: dict[str, str]) -> str:
    """Replace the colours in a tag by variables, and cut its coordinates to screen resolution."""
    if tag.startswith("<!--"):
        return ""
    for name, colour in colours.items():
        tag = tag.replace(colour, f"var(--{name})")
    if tag.startswith(("<path", "<use")):
        digits = r"(\.\d)\d+" if len(tag) > LONG_PATH else r"(\.\d\d)\d+"
        tag = re.sub(digits, r"\1", tag).replace("\nL ", "L").replace(" \n", "")
    return tag


def _colours(theme: Theme) -> dict[str, str]:
    """Return a theme's colours by the names of their CSS variables."""
    roles = asdict(theme)
    chains = roles.pop("chains")
    return roles | {f"chains{i}": colour for i, colour in enumerate(chains)}
