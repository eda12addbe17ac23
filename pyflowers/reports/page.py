"""Fits in, one HTML file out: nothing outside it is needed to read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pyflowers import parallel
from pyflowers.analysis.methods import METHOD_NAMES, Comparison, reference_method
from pyflowers.analysis.sbc_result import Calibration
from pyflowers.fits.fit import Fit, checked_fits
from pyflowers.programs import Capability, Data
from pyflowers.progress import stage
from pyflowers.reports import answer, provenance, verdict
from pyflowers.reports.calibration import calibration_section
from pyflowers.reports.chapters import chapter, drawings
from pyflowers.reports.comparison import MethodComparison, compared, only_nuts
from pyflowers.reports.data import data_drawings, data_sentences, data_table
from pyflowers.reports.embed import Drawing, Embedded, embedding, visible
from pyflowers.reports.loo import loo_drawings, loo_table
from pyflowers.reports.material import Material
from pyflowers.reports.numbers import unbroken
from pyflowers.reports.predictive import PredictiveSection, predictive_section
from pyflowers.reports.sensitivity import PriorSection, prior_section
from pyflowers.storage import FileKind, check_file, new_file

Comparisons = Mapping[str, Comparison | str] | Callable[[], Mapping[str, Comparison | str]]

R = TypeVar("R")


def report(
    fits: Sequence[Fit],
    path: str | Path,
    *,
    refused: Mapping[str, str] | None = None,
    comparisons: Comparisons | None = None,
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
    comparisons: Comparisons | None = None,
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
    material = Material(fits, reasons, compare, tuple(calibrations))
    page = _environment().get_template("report.html.j2")
    with stage("Drawing the report", 2) as advance:
        context = _context(material, out, advance)
    return visible(page.render(context))


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pyflowers.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unbroken"] = unbroken
    return environment


def _context(material: Material, out: Path, advance: Any) -> dict[str, Any]:
    data, calibration = material.data, calibration_section(material)
    alone = material.fits[0] if len(material.fits) == 1 else None
    title, columns = alone.program.declaration.title if alone else "", _columns(data, material)
    _ = material.summaries, material.loo  # here once, and not in each process that draws

    def in_numbers() -> tuple[list[MethodComparison], PriorSection, PredictiveSection]:
        return compared(material), prior_section(material), predictive_section(material)

    (methods, priors, checks), (chapters, of_data, of_loo, of_calibration) = _drawn_beside(
        in_numbers,
        [drawings(fit) for fit in material.fits],
        [data_drawings(data)],
        [loo_drawings(material)],
        [calibration.drawings],
    )
    advance(1)
    of_methods, (of_priors, of_checks) = _drawn(
        [method.drawings for method in methods],
        [[part.drawing] if part.drawing else [] for part in (priors, checks)],
    )
    context = {
        "css": Markup(_css()),
        "material": material,
        "title": title or columns,
        "subtitle": columns if title else "",
        "question": answer.question(material),
        "answer": answer.answer(material),
        "banner": verdict.banner(material),
        "in_a_word": verdict.in_a_word(material),
        "headline": verdict.headline(material),
        "failures": verdict.failures(material),
        "checks": verdict.table(material),
        "data": data,
        "data_figure": _only(of_data[0]),
        "data_table": data_table(data),
        "data_sentences": data_sentences(data),
        "chapters": [
            chapter(material, fit, figures)
            for fit, figures in zip(material.fits, chapters, strict=True)
        ],
        "predictive": checks,
        "predictive_figure": _only(of_checks),
        "loo": material.loo,
        "loo_table": loo_table(material),
        "loo_figure": _only(of_loo[0]),
        "loo_densities": len({fit.program.counts for fit in material.fits}) > 1,
        "methods": list(zip(methods, of_methods, strict=True)),
        "priors": priors,
        "priors_figure": _only(of_priors),
        "calibration": calibration,
        "calibration_figures": of_calibration[0],
        "has_vb": any(fit.program.can(Capability.VB) for fit in material.fits),
        "titles": _titles(material, bool(methods)),
        "drawn": _sampler(material),
        "only_nuts": only_nuts(material),
        "command": provenance.command(material, out),
        "has_paths": provenance.has_paths(material),
        "needs_file": provenance.needs_file(material),
        "provenance": provenance.tables(material),
    }
    advance(1)
    return context


def _drawn(*sections: Sequence[Sequence[Drawing]]) -> list[list[list[Embedded]]]:
    """Draw the figures of all sections together, and return them in the same order."""
    return _drawn_beside(lambda: None, *sections)[1]


def _drawn_beside(
    work: Callable[[], R], *sections: Sequence[Sequence[Drawing]]
) -> tuple[R, list[list[list[Embedded]]]]:
    """Draw the figures of all sections in other processes, `work` being done in this one."""
    tasks = [embedding(each) for section in sections for part in section for each in part]
    done, every = parallel.beside(work, tasks)
    figures = iter(every)
    return done, [[[next(figures) for _ in part] for part in section] for section in sections]


def _only(figures: Sequence[Embedded]) -> Embedded | None:
    """Return the figure of a part that has at most one."""
    return next(iter(figures), None)


def _titles(material: Material, has_methods: bool) -> dict[str, str]:
    """Return the headings of the sections by id, in order; without methods, none of them."""
    alone = len(material.fits) == 1
    has_vb = any(fit.program.can(Capability.VB) for fit in material.fits)
    drawn = _sampler(material)
    against = "closed-form VB" if has_vb else "other methods"
    methods = {"methods": f"{drawn[:1].upper()}{drawn[1:]} against {against}"}
    return {
        "answer": "The question and the answer",
        "verdict": f"The verdict: can {'this fit' if alone else 'these fits'} be trusted?",
        "data": "The data",
        "models": "The model" if alone else "Each model",
        "checks": f"Would the {'model' if alone else 'models'} produce data like these?",
        "comparison": "How well the model predicts" if alone else "The models side by side",
        **(methods if has_methods else {}),
        "sensitivity": "What depends on the prior",
        "calibration": "Is the computation right?",
        "provenance": "Provenance",
    }


def _sampler(material: Material) -> str:
    """Return what the fits were drawn by."""
    names = dict.fromkeys(METHOD_NAMES[reference_method(fit)] for fit in material.fits)
    return " and ".join(names)


def _css() -> str:
    from importlib.resources import files

    return (files("pyflowers.reports") / "templates" / "report.css").read_text(encoding="utf-8")


def _columns(data: Data, material: Material) -> str:
    """Say which columns the report is of; without a table, which program."""
    if not data.has_table or not data.observed:
        return material.fits[0].name
    by = [data.name_of(column) for column in (data.group, data.time) if column]
    return f"{data.value_name} by {' and '.join(by)}" if by else data.value_name
