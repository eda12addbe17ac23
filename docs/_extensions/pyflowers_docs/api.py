"""Lists of the public names by task, from which sphinx.ext.autosummary writes a page for each.

The lists are written from ``__all__``, so that none is left out; autosummary reads them only from
pages. Each package that users do not call has one page, by autodoc. What the docstrings need
beyond numpydoc is here as well: bars and stars of formulas are escaped, and names that the site
does not describe are no links.
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
    "Fit": "fit Spec Fit PooledFit Verdict approximate",
    "Data": "read_table from_frame Table Data",
    "Programs": "Program Capabilities PriorModel ClosedForm",
    "Check": "check improve sensitivity Sensitivity prior PriorPredictive sbc Calibration",
    "Predict": "predict effects contrast grid",
    "Compare": "loo leave_one_group_out k_fold explained compare",
    "Many fits": "batch Batch Task Keep",
    "Report": "report table",
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


def setup(app: Sphinx) -> None:
    """Write the lists when the build starts, and prepare docstrings, signatures and references."""
    # This runs before autosummary, which writes the pages, and numpydoc, which reads docstrings.
    app.connect("builder-inited", _write_lists, priority=100)
    app.connect("autodoc-process-docstring", _escape, priority=100)
    app.connect("autodoc-process-signature", _spelled_out)
    app.connect("missing-reference", _plain)


def _write_lists(app: Sphinx) -> None:
    written = write_lists(Path(app.srcdir) / "reference")
    app.config.autosummary_generate = [str(path.relative_to(app.srcdir)) for path in written]


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


def write_lists(folder: Path) -> list[Path]:
    """Write the lists of public names, from which autosummary writes a page for each."""
    intro = "This page lists every public name, by the task that it serves."
    index = ["Python", "======", "", intro, ""]
    found, described = {}, set[int]()
    for title, names in sections().items():
        described.update(id(resolve(name)) for name in names)
        lines = [title, "=" * len(title), ""]
        if title in PACKAGES:
            lines += [f".. automodule:: {PACKAGES[title]}", "   :no-members:", ""]
            lines += [".. py:currentmodule:: None", ""]  # the names below are complete
        if title == "Lectures":
            lines += _examples(PACKAGES[title])
        # A search by name finds the page of each object; these lists would hide it.
        lines = [":nosearch:", "", *lines, *_listed(names, toctree=True)]
        found[f"api/section-{title.lower().replace(' ', '-')}"] = lines
        index += [title, "-" * len(title), "", *_listed(names)]
    index += [".. toctree::", "   :hidden:", "", *(f"   /reference/{page}" for page in found)]
    found["api/index"] = index
    internal = [name for name, _ in packages() if name not in ("pyflowers", *PACKAGES.values())]
    for name in internal:
        found[f"internals/{name}"] = _internal(name, described)
    intro = "These packages are for those who change pyflowers itself."
    index = ["Internal packages", "=" * 17, "", intro, "", *_listed(sorted(internal))]
    index += [".. toctree::", "   :hidden:", "", *(f"   {name}" for name in sorted(internal))]
    found["internals/index"] = index
    return [_write(folder / f"{page}.rst", "\n".join(lines)) for page, lines in found.items()]


def _listed(names: list[str], *, toctree: bool = False) -> list[str]:
    """Return a table of objects with their summaries."""
    options = ["   :nosignatures:", *(["   :toctree: ."] if toctree else [])]
    return [".. autosummary::", *options, "", *(f"   {name}" for name in names), ""]


def _examples(package: str) -> list[str]:
    """Return the entries of the functions that are the examples of the lectures."""
    names = [name.replace("-", "_") for name in importlib.import_module(package).EXAMPLES]
    return [f".. autofunction:: {package}.{name}.{name}\n" for name in names]


def _internal(package: str, described: set[int]) -> list[str]:
    """Return the page of an internal package, with the names that no other page describes."""
    values = {
        name: resolve(f"{package}.{name}") for name in importlib.import_module(package).__all__
    }
    # autodoc finds no docstring of a constant that is imported; equal ones need not be the same.
    constants = [
        n for n, its in values.items() if not (inspect.isclass(its) or inspect.isfunction(its))
    ]
    members = [n for n, its in values.items() if n not in constants and id(its) not in described]
    described.update(id(values[name]) for name in members)
    option = "   :no-members:"
    if members:
        option = f"   :members: {', '.join(members)}"
    lines = [":nosearch:", "", package, "=" * len(package), "", f".. automodule:: {package}"]
    lines += [option, "", ".. py:currentmodule:: None", ""]
    for name in constants:
        lines += [f".. autodata:: {package}.{name}", "   :no-value:", ""]
    return lines


def _spelled_out(
    _app: Sphinx, what: str, _name: str, value: Any, _options: Any, shown: Any, returned: Any
) -> tuple[Any, Any]:
    """Return a signature without annotations where these, or a default, fill lines with code."""
    if what != "function" or not inspect.isfunction(value):
        return shown, returned
    found = inspect.signature(value).parameters.values()
    has_code = any(inspect.isfunction(parameter.default) for parameter in found)
    if "__signature__" not in vars(value) and not has_code:
        return shown, returned
    plain = [parameter.replace(annotation=parameter.empty) for parameter in found]
    for number, parameter in enumerate(plain):
        if inspect.isfunction(parameter.default):
            plain[number] = parameter.replace(default=...)
    return str(inspect.Signature(plain)).replace("Ellipsis", "..."), returned


def _write(path: Path, text: str) -> Path:
    """Write a page only if its text changes, so that Sphinx re-reads only changed pages."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    return path


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
