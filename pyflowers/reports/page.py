"""Fits in, one HTML file out: nothing outside it is needed to read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pyflowers import parallel, plots
from pyflowers.analysis.calibration import PROB, Calibration
from pyflowers.analysis.checks import LIMIT, LOO_PIT, PIT_LIMIT
from pyflowers.analysis.elpd import FEW_OBSERVATIONS, SMALL_DIFFERENCE
from pyflowers.analysis.methods import METHOD_NAMES, reference_method
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
        priors = sections.sensitivity_part(material)
        shown = material.checks.get(material.best.name) or next(
            iter(material.checks.values()), None
        )
        checks = {"checks": partial(plots.predictive_checks, shown)} if shown else {}
        of_methods = [
            {} if isinstance(c, str) else sections.method_drawings(c) for c in compared.values()
        ]
        more, *drawn_methods = _drawn([{**checks, **priors["drawing"]}, *of_methods])
        advance(1)
    methods = [
        {"name": name, "why": found if isinstance(found, str) else "", "figures": figures}
        | ({} if isinstance(found, str) else sections.method_part(found))
        for (name, found), figures in zip(compared.items(), drawn_methods, strict=True)
    ]
    chapters = [
        (fit, *sections.chapter_tables(material, fit), figures)
        for fit, figures in zip(fits, of_fits, strict=True)
    ]
    drawn_by = " and ".join(dict.fromkeys(METHOD_NAMES[reference_method(fit)] for fit in fits))
    page = (
        _environment(material)
        .get_template("report.html.j2")
        .render(
            material=material,
            fits=fits,
            data=material.data,
            figures=drawn | more,
            titles=sections.titles(material, drawn_by, bool(methods)),
            question=sections.question(material),
            answer=sections.answer(material),
            banner=sections.banner(material),
            failures=sections.failures(material),
            verdict_table=sections.verdict_table(material),
            data_table=sections.data_table(material.data),
            chapters=chapters,
            shown_checks=shown,
            checks_table=sections.checks_table(material),
            loo_table=sections.loo_table(material),
            methods=methods,
            without_vb=sections.without_vb(material),
            drawn_by=drawn_by,
            uncalibrated=[n for n in material.summaries if n not in {c.name for c in calibrations}],
            priors=priors,
            command=provenance.command(material, out),
            has_paths=provenance.has_paths(material),
            needs_file=provenance.needs_file(material),
            provenance=provenance.tables(material),
        )
    )
    return visible(page)


def _drawn(
    parts: Sequence[sections.Drawings], work: Callable[[], object] = lambda: None
) -> list[dict[str, Embedded]]:
    """Draw the figures of all parts in other processes, `work` being done in this one."""
    tasks = [partial(embed, draw) for part in parts for draw in part.values()]
    _, figures = parallel.beside(work, tasks)
    each = iter(figures)
    return [{name: next(each) for name in part} for part in parts]


def _environment(material: Material) -> Environment:
    environment = Environment(
        loader=PackageLoader("pyflowers.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    def summary(fit: Fit, row: str, column: str) -> Markup:
        return markup.summary_number(fit, material.summaries[fit.name], row, column)

    environment.filters |= {
        "code": markup.code,
        "bdi": markup.isolated,
        "elpd": markup.elpd,
        "general": "{:g}".format,
        "listing": markup.listing,
        "lower_first": markup.lower,
        "number": markup.number,
        "percent": percent,
        "some": markup.some,
        "unbroken": markup.unbroken,
        "upper_first": markup.upper,
    }
    environment.globals |= {
        "FEW_OBSERVATIONS": FEW_OBSERVATIONS,
        "LIMIT": LIMIT,
        "LOO_PIT": LOO_PIT,
        "MOST_CONCLUSIONS": sections.MOST_CONCLUSIONS,
        "MOST_NAMED": sections.MOST_NAMED,
        "MOST_ROWS": sections.MOST_ROWS,
        "PIT_LIMIT": PIT_LIMIT,
        "PROB": PROB,
        "SMALL_DIFFERENCE": SMALL_DIFFERENCE,
        "changed_priors": partial(sections.changed_priors, material),
        "check_number": markup.check_number,
        "formulas": sections.formulas,
        "quantiles": interval_quantiles,
        "shown_path": provenance.shown_path,
        "summary": summary,
    }
    return environment
