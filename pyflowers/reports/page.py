"""Fits in, one HTML file out: nothing outside it is needed to read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from pyflowers import parallel
from pyflowers.analysis import calibration, checks, elpd
from pyflowers.analysis.calibration import Calibration
from pyflowers.display import interval_quantiles, percent
from pyflowers.fits.fit import Fit, checked_fits
from pyflowers.progress import stage
from pyflowers.reports import markup, provenance, sections
from pyflowers.reports.embed import Embedded, embed, visible
from pyflowers.reports.material import Comparisons, Material
from pyflowers.storage import FileKind, check_file, new_file


def report(
    fits: Sequence[Fit],
    path: str | Path,
    *,
    refused: Mapping[str, str] | None = None,
    comparisons: Comparisons | Callable[[], Comparisons] | None = None,
    calibrations: Sequence[Calibration] = (),
) -> Path:
    """Write the report of fits of one table as one HTML file.

    Parameters
    ----------
    fits : sequence of Fit
        One for each model.
    path : str or Path
        The file.
    refused : mapping of str to str, optional
        Models that could not be fitted, and why; the report says so.
    comparisons : mapping of str to Comparison or str, or callable, optional
        For each model its methods compared, or why they are not. The report only reads: it fits
        and compares nothing itself. A function that returns them is called while other cores draw
        the figures of the fits.
    calibrations : sequence of Calibration
        Of programs that were fitted, as :func:`pyflowers.sbc` returns them.

    Raises
    ------
    ConfigError
        If there is no fit, the fits are of different data, or the file cannot be written.
    """
    path = check_report(path)
    html = render_report(
        fits, refused=refused, comparisons=comparisons, calibrations=calibrations, out=path
    )
    with new_file(path, KIND) as new:
        new.write_text(html, encoding="utf-8")
    return path


def check_report(path: str | Path) -> Path:
    """Refuse, before any work is done, a file that cannot become a report of pyflowers.

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
    fits: Sequence[Fit],
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
        The name that the command in the report gives the file.
    """
    fits = checked_fits(fits, "report")
    compare = comparisons if callable(comparisons) else partial(dict, comparisons or {})
    reasons = {k: provenance.without_folders(v, fits) for k, v in (refused or {}).items()}
    material = Material(fits, reasons, tuple(calibrations))
    with stage("Drawing the report", 2) as advance:
        first = [sections.drawings(material), *map(sections.fit_drawings, fits)]
        drawn, *of_fits = _drawn(first, partial(material.examine, compare))
        advance(1)
        compared = material.comparisons
        compared = {fit.name: compared[fit.name] for fit in fits if fit.name in compared}
        of_methods = [
            {} if isinstance(found, str) else sections.method_drawings(found)
            for found in compared.values()
        ]
        more, *of_methods_drawn = _drawn([sections.late_drawings(material), *of_methods])
        advance(1)
    page = _environment().get_template("report.html.j2")
    methods = zip(compared.items(), of_methods_drawn, strict=True)
    html = page.render(
        material=material,
        out=out,
        figures=drawn | more,
        chapters=list(zip(fits, of_fits, strict=True)),
        methods=[(name, found, figures) for (name, found), figures in methods],
        sections=sections,
        provenance=provenance,
        checks=checks,
        elpd=elpd,
        calibration=calibration,
        quantiles=interval_quantiles,
    )
    return visible(html)


def _drawn(
    parts: Sequence[sections.Drawings], work: Callable[[], object] = lambda: None
) -> list[dict[str, Embedded]]:
    """Draw the figures of all parts in other processes, `work` being done in this one."""
    tasks = [partial(embed, draw) for part in parts for draw in part.values()]
    _, figures = parallel.beside(work, tasks)
    each = iter(figures)
    return [{name: next(each) for name in part} for part in parts]


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pyflowers.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    shown = (markup.code, markup.elpd, markup.isolated, markup.lower_first, markup.number, percent)
    more = (markup.some, markup.unbroken, markup.upper_first)
    environment.filters |= {function.__name__: function for function in (*shown, *more)}
    environment.filters["general"] = "{:g}".format
    return environment
