"""One page of API reference for each package that has ``__all__``, written before the build.

A name that ``pyflowers`` itself exports is described there; the page of its package links to it.
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

MODULES = ("pyflowers.exact", "pyflowers.vb")
"""Modules that are public as packages are."""

# Figures of comparisons are a public module of pyflowers.plots.
EXTRA_MODULES = {"pyflowers.plots.methods": "pyflowers.plots"}

_DIRECTIVES = {
    "Functions": "autofunction",
    "Classes": "autoclass",
    "Exceptions": "autoexception",
    "Data": "autodata",
}


def setup(app: Sphinx) -> None:
    """Write the pages when the build starts, and leave out of docstrings what is not public."""
    app.connect("builder-inited", _write_pages)
    app.connect("missing-reference", _plain)
    # Before numpydoc, which reads the docstring at the usual priority.
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


def write_pages(folder: Path) -> None:
    """Write the pages and their index."""
    folder.mkdir(parents=True, exist_ok=True)
    described: dict[int, str] = {}
    names = []
    for package, module in packages():
        names.append(package)
        _write(folder / f"{package}.rst", _page(package, module, described))
    index = ["API", "===", "", "Every public name of every package. ", ""]
    index += [".. list-table::", "   :widths: 30 70", ""]
    for package, module in sorted(packages()):
        index += [f"   * - :doc:`{package} <{package}>`", f"     - {_summary(module)}"]
    index += ["", ".. toctree::", "   :hidden:", "", *(f"   {name}" for name in sorted(names)), ""]
    _write(folder / "index.rst", "\n".join(index))


def _page(package: str, module: ModuleType, described: dict[int, str]) -> str:
    lines = [package, "=" * len(package), "", *inspect.getdoc(module).splitlines(), ""]  # type: ignore[union-attr]
    lines.insert(0, "")
    kinds: dict[str, list[str]] = {kind: [] for kind in _DIRECTIVES}
    elsewhere, aliases = [], []
    for name in module.__all__:
        value = getattr(module, name)
        full = f"{package}.{name}"
        if not isinstance(value, str | int | float) and id(value) in described:
            known = described[id(value)]
            if known.rpartition(".")[0] == package:
                aliases += [
                    f".. py:data:: {full}",
                    "",
                    f"   Another name of :py:obj:`{known}`.",
                    "",
                ]
            else:
                elsewhere.append(f"* :py:obj:`{full} <{known}>`")
            continue
        described[id(value)] = full
        kinds[_kind(value)].append(full)
    lines += [f".. py:module:: {package}", ""]
    for kind, found in kinds.items():
        if found:
            lines += [kind, "-" * len(kind), ""]
        for full in found:
            lines += _entry(_DIRECTIVES[kind], full)
    lines += aliases
    if package == "pyflowers.lectures":
        lines += ["Examples", "--------", ""]
        for example in (name.replace("-", "_") for name in module.EXAMPLES):
            lines += _entry("autofunction", f"{package}.{example}.{example}")
    for extra, home in EXTRA_MODULES.items():
        if home == package:
            lines += _module_section(extra)
    if elsewhere:
        lines += [
            "Also here",
            "---------",
            "",
            "Described with :doc:`pyflowers` itself:" if package != "pyflowers" else "",
            "",
            *elsewhere,
            "",
        ]
    return "\n".join(lines)


def _module_section(name: str) -> list[str]:
    module = importlib.import_module(name)
    lines = [name, "-" * len(name), "", *(inspect.getdoc(module) or "").splitlines(), ""]
    for member, value in vars(module).items():
        own = inspect.isfunction(value) and value.__module__ == name
        if own and not member.startswith("_"):
            lines += _entry("autofunction", f"{name}.{member}")
    return lines


def _entry(directive: str, full: str) -> list[str]:
    options = ["   :members:", "   :show-inheritance:"] if directive == "autoclass" else []
    options += ["   :no-value:"] if directive == "autodata" else []
    return [f".. {directive}:: {full}", *options, ""]


def _kind(value: Any) -> str:
    if inspect.isclass(value):
        return "Exceptions" if issubclass(value, BaseException) else "Classes"
    return "Functions" if inspect.isfunction(value) else "Data"


def _summary(module: ModuleType) -> str:
    return (inspect.getdoc(module) or "").split("\n\n")[0].replace("\n", " ")


def _write(path: Path, text: str) -> None:
    """Leave a page that would be the same alone, so that Sphinx does not read it again."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _plain(app: Sphinx, env: Any, node: Any, contnode: Any) -> Any:
    """Show what a docstring or a signature names and the site does not have, without a link.

    Everywhere else a name without a target is a warning, hence an error.
    """
    return contnode if node.get("refdoc", "").startswith("reference/api/") else None


def _escape(
    _app: Sphinx, _what: str, _name: str, _value: Any, _options: Any, lines: list[str]
) -> None:
    """Keep bars and lone stars of formulas, and citations of the module's references, as text."""
    text = "\n".join(lines)
    for position, line in enumerate(lines):
        if not re.match(r"\*+\w+( :|$|,)", line):
            line = _outside_literals(line)
        lines[position] = re.sub(
            r"\[(\d+)\]_", lambda m: m[0] if f".. [{m[1]}]" in text else f"[{m[1]}]", line
        )


def _outside_literals(line: str) -> str:
    parts = line.split("`")
    for position in range(0, len(parts), 2):
        part = parts[position].replace("|", "\\|")
        emphasised = re.search(r"\w\*(\W|$)", part)
        parts[position] = part if emphasised else re.sub(r"(?<!\*)\*(?=\w)", r"\\*", part)
    return "`".join(parts)
