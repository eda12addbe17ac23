"""The API reference: a page for each public object, grouped by task, written before the build.

Each package that users do not call has a page for developers.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyflowers

if TYPE_CHECKING:
    from sphinx.application import Sphinx

MODULES = ("pyflowers.exact", "pyflowers.samplers", "pyflowers.vb")
"""Modules that are public in the same way as packages."""

TASKS = {
    "Fit": "fit Spec Fit Verdict approximate",
    "Data": "read_table from_frame Table Data",
    "Programs": "Program Capabilities PriorModel ClosedForm",
    "Check": "check sensitivity Sensitivity prior PriorPredictive sbc Calibration",
    "Predict": "predict effects contrast",
    "Compare": "loo leave_one_group_out compare",
    "Many fits": "batch Batch Task Keep",
    "Report": "report",
    "Errors": "PyflowersError DataError ConfigError ToolchainError CompileError FitError",
}
"""The names of ``pyflowers`` itself, by the task that they serve."""

PACKAGES = {
    "Results": "pyflowers.analysis",
    "Figures": "pyflowers.plots",
    "Convergence": "pyflowers.convergence",
    "Variational Bayes": "pyflowers.vb",
    "Exact posteriors": "pyflowers.exact",
    "Samplers": "pyflowers.samplers",
    "Lectures": "pyflowers.lectures",
}
"""The other packages that users import."""

METHOD_FIGURES = "method_marginals interval_forest elbo_trace coordinate_ascent comparison_figures"
"""Functions of ``pyflowers.plots.methods``, which is separate because it is slow to import."""

_DIRECTIVES = {
    "Functions": "autofunction",
    "Classes": "autoclass",
    "Exceptions": "autoexception",
    "Data": "autodata",
}


def setup(app: Sphinx) -> None:
    """Write the pages when the build starts, and prepare the docstrings and references on them."""
    app.connect("builder-inited", _write_pages)
    app.connect("missing-reference", _plain)
    # This runs before numpydoc, which reads the docstring at the usual priority.
    app.connect("autodoc-process-docstring", _escape, priority=100)


def _write_pages(app: Sphinx) -> None:
    write_pages(Path(app.srcdir) / "reference" / "api")


def packages() -> Iterator[tuple[str, ModuleType]]:
    """Yield the packages with public names, under the names that users write."""
    yield "pyflowers", pyflowers
    for info in pkgutil.walk_packages(pyflowers.__path__, "pyflowers."):
        if info.ispkg or info.name in MODULES:
            module = importlib.import_module(info.name)
            if getattr(module, "__all__", None):
                yield info.name, module


def public_names() -> Iterator[str]:
    """Yield every public name in full."""
    for package, module in packages():
        yield from (f"{package}.{name}" for name in module.__all__)


def sections() -> dict[str, list[str]]:
    """Return the sections of the user's reference, each with the full names of its objects."""
    found = {task: [f"pyflowers.{name}" for name in names.split()] for task, names in TASKS.items()}
    described = {id(resolve(name)) for names in found.values() for name in names}
    for title, package in PACKAGES.items():
        names = [f"{package}.{name}" for name in importlib.import_module(package).__all__]
        found[title] = [name for name in names if id(resolve(name)) not in described]
    found["Figures"] += [f"pyflowers.plots.methods.{name}" for name in METHOD_FIGURES.split()]
    return found


def resolve(name: str) -> Any:
    """Return the object with a full name."""
    package, _, last = name.rpartition(".")
    return getattr(importlib.import_module(package), last)


def write_pages(folder: Path) -> None:
    """Write the pages and their index."""
    folder.mkdir(parents=True, exist_ok=True)
    intro = "This page lists every public name, by the task that it serves."
    index = ["Python", "======", "", intro, ""]
    described: dict[int, str] = {}
    for title, names in sections().items():
        page = "section-" + title.lower().replace(" ", "-")
        lines = [title, "=" * len(title), ""]
        if title in PACKAGES:
            module = importlib.import_module(PACKAGES[title])
            lines += [f".. py:module:: {PACKAGES[title]}", "", *_documentation(module), ""]
        table = _table(names)
        # A search by name finds the page of each object; these lists would hide it.
        listed = [":nosearch:", "", *lines, *table, "", *_toctree(names)]
        _write(folder / f"{page}.rst", "\n".join(listed))
        index += [title, "-" * len(title), "", *table, ""]
        for name in names:
            described[id(resolve(name))] = name
            _write(folder / f"{name}.rst", _page(name))
    index += _toctree(["section-" + t.lower().replace(" ", "-") for t in sections()])
    _write(folder / "index.rst", "\n".join(index))
    _write_internals(folder.parent / "internals", described)


def _table(names: list[str]) -> list[str]:
    rows = [
        line
        for name in names
        for line in (f"   * - :py:obj:`{name}`", f"     - {_summary(resolve(name))}")
    ]
    return [".. list-table::", "   :widths: 40 60", "", *rows]


def _toctree(pages: list[str]) -> list[str]:
    return [".. toctree::", "   :hidden:", "", *(f"   {page}" for page in pages), ""]


def _page(name: str) -> str:
    value = resolve(name)
    package, _, last = name.rpartition(".")
    extra = ""
    if name == "pyflowers.lectures.run_example":
        examples = (
            example.replace("-", "_") for example in importlib.import_module(package).EXAMPLES
        )
        extra = "\n".join(
            line
            for example in examples
            for line in _entry("autofunction", f"{package}.{example}.{example}")
        )
    return "\n".join([last, "=" * len(last), "", *_entry(_DIRECTIVES[_kind(value)], name), extra])


def _write_internals(folder: Path, described: dict[int, str]) -> None:
    """Write a page for each package that users need not import."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for package, module in packages():
        if package == "pyflowers" or package in PACKAGES.values():
            continue
        names.append(package)
        lines = [":nosearch:", "", package, "=" * len(package), "", *_documentation(module), ""]
        lines += [f".. py:module:: {package}", ""]
        for name in module.__all__:
            value, full = getattr(module, name), f"{package}.{name}"
            known = None if isinstance(value, str | int | float) else described.get(id(value))
            described[id(value)] = known or full
            if known:
                lines += [f"* :py:obj:`{full} <{known}>`", ""]
            else:
                lines += _entry(_DIRECTIVES[_kind(value)], full)
        _write(folder / f"{package}.rst", "\n".join(lines))
    intro = "These packages are for those who change pyflowers itself."
    index = ["Internal packages", "=" * 17, "", intro, ""]
    rows = [
        line
        for name in sorted(names)
        for line in (f"   * - :doc:`{name}`", f"     - {_summary(importlib.import_module(name))}")
    ]
    index += [".. list-table::", "   :widths: 30 70", "", *rows, "", *_toctree(sorted(names))]
    _write(folder / "index.rst", "\n".join(index))


def _entry(directive: str, full: str) -> list[str]:
    # Members inherited from a base that is not public are described with the class.
    members = ["   :members:", "   :inherited-members: object, str, tuple, dict, BaseModel"]
    options = [*members, "   :show-inheritance:"] if directive == "autoclass" else []
    options += ["   :no-value:"] if directive == "autodata" else []
    return [f".. {directive}:: {full}{_spelled_out(resolve(full))}", *options, ""]


def _spelled_out(value: Any) -> str:
    """Return a function's signature if its source, which autodoc reads, has another."""
    if not inspect.isfunction(value) or "__signature__" not in vars(value):
        return ""
    shown = []
    for parameter in inspect.signature(value).parameters.values():
        default = ... if callable(parameter.default) else parameter.default
        has_default = parameter.default is not parameter.empty
        bare = parameter.replace(annotation=parameter.empty)
        shown.append(bare.replace(default=default) if has_default else bare)
    return str(inspect.Signature(shown)).replace("Ellipsis", "...")


def _kind(value: Any) -> str:
    if inspect.isclass(value):
        return "Exceptions" if issubclass(value, BaseException) else "Classes"
    return "Functions" if inspect.isfunction(value) else "Data"


def _documentation(module: ModuleType) -> list[str]:
    return (inspect.getdoc(module) or "").splitlines()


def _summary(value: Any) -> str:
    """Return the first paragraph of a docstring, or the type of a constant, which has none."""
    documented = inspect.ismodule(value) or inspect.isclass(value) or inspect.isfunction(value)
    text = (inspect.getdoc(value) or "") if documented else f"``{type(value).__name__}``"
    return _outside_literals(text.split("\n\n")[0].replace("\n", " "))


def _write(path: Path, text: str) -> None:
    """Write a page only if its text changes, so that Sphinx re-reads only changed pages."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _plain(app: Sphinx, env: Any, node: Any, contnode: Any) -> Any:
    """Show a name in a docstring or signature without a link if the site does not describe it.

    Everywhere else a name without a target is a warning, hence an error.
    """
    return (
        contnode
        if node.get("refdoc", "").startswith(("reference/api/", "reference/internals/"))
        else None
    )


def _escape(
    _app: Sphinx, _what: str, _name: str, _value: Any, _options: Any, lines: list[str]
) -> None:
    """Escape the bars and single stars in formulas, and citations that have no reference."""
    text = "\n".join(lines)
    escaped = _outside_literals(text)
    cited = re.sub(
        r"\[(\d+)\]_", lambda m: m[0] if f".. [{m[1]}]" in text else f"[{m[1]}]", escaped
    )
    lines[:] = cited.split("\n")


def _outside_literals(text: str) -> str:
    parts = re.split(r"(``.+?``|`[^`]+`)", text, flags=re.DOTALL)
    for position in range(0, len(parts), 2):
        part = parts[position].replace("|", "\\|")
        # Stars of **emphasis** and of parameters such as **options are kept.
        lines = part.split("\n")
        for number, line in enumerate(lines):
            kept = re.search(r"\w\*(\W|$)", line) or re.match(r"\*+\w+( :|$|,)", line)
            lines[number] = line if kept else re.sub(r"(?<!\*)\*(?=\w)", r"\\*", line)
        parts[position] = "\n".join(lines)
    return "".join(parts)
