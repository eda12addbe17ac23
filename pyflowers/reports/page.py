"""The report as one HTML file that needs no other file.

Figures are SVG images in data URIs, in which a browser runs no scripts and loads no files. Each
colour of the light theme becomes a CSS variable in the SVG, with a different value in dark mode.
Text stays text, so that the reader's fonts show any writing system.
"""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from pyflowers import cores
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit, checked_fits
from pyflowers.plots import DARK, LIGHT, Theme, alt_text
from pyflowers.plots.style import StyledFigure, applied, narrow, visible
from pyflowers.progress import stage
from pyflowers.records import plain
from pyflowers.reports import provenance
from pyflowers.reports.banner import banner
from pyflowers.reports.markup import fill, join
from pyflowers.reports.material import Comparisons, Material
from pyflowers.reports.section import Block, Drawings, Picture, Section, Table
from pyflowers.reports.sections import SECTIONS
from pyflowers.reports.sections import answer as of_answer
from pyflowers.storage import FileKind, check_file, new_file
from pyflowers.text import counted, in_words

if TYPE_CHECKING:
    from pyflowers.analysis.calibration import Calibration

DIGITS = 10
"""Significant digits of the numbers in the page's JSON record."""

RASTER_DPI = 130
"""Dots per inch of the images within the SVG, which show clouds of points."""

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
    sections: Sequence[Section] = SECTIONS,
    title: str = "",
    question: str = "",
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
        The comparison of methods for each model, as :func:`pyflowers.compare` returns it, or the
        reason why there is none. The report itself fits no model and runs no other method. A
        function that returns the mapping is called while other cores draw the figures of the fits.
    calibrations : sequence of Calibration
        Calibrations of the fitted programs, as :func:`pyflowers.sbc` returns them.
    sections : sequence of Section
        The sections of the page, in order. Sections without content are left out.
        ``pyflowers.reports.section_of`` makes a section from a result.
    title : str
        The title of the page. Default: the question.
    question : str
        The question that the report answers. Default: one in terms of the columns, such as ``How
        does yield depend on nitrogen?``.

    Returns
    -------
    Path
        The HTML file.

    Raises
    ------
    ConfigError
        If there is no fit, if the fits use different data, if two fits are of the same model, if a
        calibration does not belong to any fit, if two sections have the same id, or if the file
        cannot be written.

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
        fits,
        refused=refused,
        comparisons=comparisons,
        calibrations=calibrations,
        sections=sections,
        out=path,
        title=title,
        question=question,
    )
    with new_file(path, KIND) as new:
        new.write_text(html, encoding="utf-8")
    return path


def check_report(path: str | Path) -> Path:
    """Return the path of a report; reject one that cannot be written or is not a report.

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
    sections: Sequence[Section] = SECTIONS,
    out: Path = Path("report.html"),
    title: str = "",
    question: str = "",
) -> str:
    """Return the report's HTML; the same fits give the same text.

    Parameters
    ----------
    fits, refused, comparisons, calibrations, sections, title, question
        See :func:`report`.
    out : Path
        The name of the file in the command that the report shows.

    Raises
    ------
    ConfigError
        See :func:`report`.
    """
    _refuse_twins(sections)
    fits = checked_fits(fits, "report")
    if callable(comparisons):
        compare = comparisons
    else:
        compare = partial(dict, comparisons or {})
    reasons = {k: provenance.without_folders(v, fits) for k, v in (refused or {}).items()}
    calibrations = tuple(calibrations)
    made = Material(fits, reasons, calibrations, out, title=title, question=question)
    with stage("Drawing the report", 2) as advance:
        drawn = partial(_drawn, made, {s.id for s in sections if s.for_phones})
        images = drawn({s.id: s.figures(made) for s in sections}, partial(made.examine, compare))
        advance(1)
        images |= drawn({s.id: s.late_figures(made) for s in sections}, lambda: None)
        advance(1)
    chapters = [_chapter(section, made, images) for section in sections]
    chapters = [chapter for chapter in chapters if chapter.blocks]
    environment = Environment(
        loader=PackageLoader("pyflowers.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests |= {
        "table": lambda block: isinstance(block, Table),
        "picture": lambda block: isinstance(block, Picture),
    }
    html = environment.get_template("report.html.j2").render(
        title=title or of_answer.question(made),
        question=of_answer.question(made) if title else "",
        subtitle=_subtitle(made),
        banner=banner(made, join(section.banner(made) for section in sections)),
        chapters=chapters,
        record=_record(chapters),
    )
    return visible(html, but="\t\n")


def _refuse_twins(sections: Sequence[Section]) -> None:
    ids = [section.id for section in sections]
    for name in ids:
        if ids.count(name) > 1:
            raise ConfigError(f"report: two sections have the id {name!r}; give each its own")


Images = dict[tuple[str, str], Markup]
"""The images of figures, by the id of the section and the name of the figure."""


@dataclass(frozen=True)
class Chapter:
    """A section with everything that the page shows from it."""

    id: str
    title: str
    in_contents: str
    blocks: Sequence[Block]
    images: Mapping[str, Markup]
    record: Mapping[str, Any]


def _chapter(section: Section, made: Material, images: Images) -> Chapter:
    """Return what the page shows from a section, without the pictures that were not drawn."""
    title = section.title(made)
    own = {name: image for (of, name), image in images.items() if of == section.id}
    return Chapter(
        section.id,
        title,
        section.in_contents or title,
        [
            block
            for block in section.content(made)
            if not isinstance(block, Picture) or block.name in own
        ],
        own,
        section.record(made),
    )


def _record(chapters: Sequence[Chapter]) -> Markup:
    """Return the sections' records as JSON, escaped so that it cannot end the HTML element."""
    records = {
        chapter.id: _rounded(plain(chapter.record)) for chapter in chapters if chapter.record
    }
    text = json.dumps(records, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e"))


def _rounded(value: Any) -> Any:
    """Return plain values, with numbers rounded so that the order of summation has no effect."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return value


def _subtitle(made: Material) -> str:
    """Return a line on the model and the data."""
    data = made.data.with_all_rows
    model = made.fits[0].program.title
    if not made.alone:
        model = f"{len(made.fits)} models"
    if not (data.has_table and data.observed):
        return model
    by = [data.name_of(column) for column in (data.group, data.time) if column]
    of = made.value_name
    if by:
        of = f"{of} by {in_words(by)}"
    return f"{model}; {counted(data.num_obs, 'observation')} of {of}"


def _drawn(
    made: Material, phones: Set[str], drawings: Mapping[str, Drawings], work: Callable[[], object]
) -> Images:
    """Draw the figures of sections in other processes while this process does `work`.

    The figures of the sections in `phones` are also drawn for phones.
    """
    figures = {(of, name): draw for of, own in drawings.items() for name, draw in own.items()}
    tasks = [
        partial(embed, draw, made.in_words, for_phones=of in phones)
        for (of, _), draw in figures.items()
    ]
    _, images = cores.alongside(work, tasks)
    return dict(zip(figures, images, strict=True))


def embed(
    draw: Callable[[], Figure], in_words: Callable[[str], str] = str, *, for_phones: bool = False
) -> Markup:
    """Draw a figure in the light theme as an image of the page.

    `in_words` returns the alternative text with the models' names as the page shows them. An image
    for phones is narrow.
    """
    figure = draw()
    raw = _in_base64(figure)
    sizes = (round(float(inches) * 96) for inches in figure.get_size_inches())
    image = Markup('<img src="data:image/svg+xml;base64,{}" width="{}" height="{}" alt="{}">')
    made = image.format(raw, *sizes, in_words(alt_text(figure)))
    if not for_phones or not isinstance(figure, StyledFigure):
        return made
    narrow(figure)
    source = Markup(
        '<source media="(max-width: 40rem)" srcset="data:image/svg+xml;base64,{}" width="{}" '
        'height="{}">'
    )
    sizes = (round(float(inches) * 96) for inches in figure.get_size_inches())
    return fill("<picture>{}{}</picture>", source.format(_in_base64(figure), *sizes), made)


def _in_base64(figure: Figure) -> str:
    """Return a figure as SVG in base64."""
    return base64.b64encode(to_svg(figure).encode()).decode()


def to_svg(figure: Figure) -> str:
    """Return a figure in the light theme as SVG for both themes; equal figures give equal text."""
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with applied(LIGHT):  # also fixes the ids in the SVG of a figure without a theme
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
