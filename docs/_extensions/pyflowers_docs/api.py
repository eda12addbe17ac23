"""The pages of the Python reference: one for each name that users call, and one for each module.

The pages are written from ``__all__``, so that no name is left out. sphinx.ext.autosummary writes
those of single names, and autodoc fills the others. What the docstrings need beyond numpydoc is
here as well: bars and stars of formulas are escaped, pages are shortened, and names that the site
does not describe are no links.

``help`` shows each docstring in full. The pages leave out what a reader finds elsewhere on the
site: types that the list of parameters has, inputs that :func:`pyflowers.fit` describes in the same
words, the methods that all results have, and those that serve pyflowers itself.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyflowers.display import Result

if TYPE_CHECKING:
    from sphinx.application import Sphinx

TASKS = {
    "Fit": "fit update Fit Spec Program approximate",
    "Data": "example read_table from_frame",
    "Check": "check improve sensitivity prior sbc",
    "Predict": "predict effects contrast grid",
    "Compare": "loo leave_one_group_out k_fold explained compare",
    "Many fits": "batch Task design",
    "Report": "report table methods_draft",
    "Errors": "PyflowersError DataError ConfigError ToolchainError CompileError FitError",
    "Classes": "PooledFit Verdict Table Data Capabilities PriorModel ClosedForm Sensitivity "
    "PriorPredictive Calibration Design Batch Keep",
}
"""The names of ``pyflowers``, by the task that they serve; the classes are found but not listed."""

PACKAGES = {
    "Results": "pyflowers.analysis",
    "Figures": "pyflowers.plots",
    "Convergence": "pyflowers.convergence",
    "Variational Bayes": "pyflowers.vb",
    "Exact posteriors": "pyflowers.exact",
    "Samplers": "pyflowers.samplers",
    "Lectures": "pyflowers.lectures",
}
"""The other packages that users import; each has one page."""

ON_ONE_PAGE = ("Errors", "Classes")
"""The tasks whose names share a page."""

TAUGHT = ("convergence", "vb", "exact", "samplers", "lectures")
"""Packages that are read as code: their pages have signatures and summaries."""

OF_EVERY_RESULT = "contents in_full files to_dict lines"
"""The methods that the index describes once."""

SHOWN_METHODS = {
    "Spec": "open read",
    "Reading": "",
    "SamplerOptions": "",
    "Record": "",
    "Program": "open from_formula write priors stated_priors capabilities can require read "
    "resolve_priors fill log_lik y_rep lprior",
    "Table": "column numbers labels",
    "Data": "observed group time value y num_obs by_group by_time scores where",
}
"""The methods and properties that users need of classes whose others serve pyflowers itself."""

LONGEST_DEFAULT = 30
"""Characters of a default that a signature shows."""

METHOD_FIGURES = "method_marginals interval_forest elbo_trace coordinate_ascent comparison_figures"
"""Functions of ``pyflowers.plots.methods``, which is separate because it is slow to import."""


_INTRODUCTION = """\
The functions and classes of ``pyflowers``, by the task that they serve. ``help(pyflowers.NAME)``
shows a docstring in full: the methods of a class with their parameters, exceptions and examples.

Every result prints as its command does. ``to_dict()`` returns its values for JSON, ``files()`` its
tables by file name, and ``contents()`` the lines and tables that it prints. ``help`` lists its
attributes.

The attributes of a class are the parameters of its constructor, in this order, unless its page
lists parameters.
"""


def setup(app: Sphinx) -> None:
    """Write the lists when the build starts, and prepare docstrings, signatures and references."""
    # This runs before autosummary, which writes the pages, and numpydoc, which reads docstrings.
    app.connect("builder-inited", _write_lists, priority=100)
    app.connect("autodoc-skip-member", _skipped)
    app.connect("autodoc-process-docstring", _shorten, priority=50)
    app.connect("autodoc-process-docstring", _escape, priority=100)
    app.connect("autodoc-process-signature", _spelled_out)
    app.connect("missing-reference", _plain)


def _write_lists(app: Sphinx) -> None:
    written = write_lists(Path(app.srcdir) / "reference")
    app.config.autosummary_generate = [str(path.relative_to(app.srcdir)) for path in written]


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
    """Write the index and the pages of modules; return the index, which autosummary reads."""
    index = ["Python", "======", "", *_INTRODUCTION.splitlines(), ""]
    pages = {}
    for title, names in sections().items():
        page = f"section-{title.lower().replace(' ', '-')}"
        if title in PACKAGES:
            pages[page] = _module(title, names)
        elif title in ON_ONE_PAGE:
            pages[page] = [title, "=" * len(title), "", *_described(names)]
        else:
            index += [title, "-" * len(title), "", *_listed(names)]
    index += ["Classes, errors and modules", "-" * 27, "", ".. toctree::", "   :maxdepth: 1", ""]
    index += [f"   {page}" for page in pages]
    known = {
        "index",
        *pages,
        *(f"pyflowers.{name}" for task in TASKS.values() for name in task.split()),
    }
    for path in [*folder.glob("api/*.rst"), *folder.glob("internals/*.rst")]:
        # Git ignores the pages that an earlier version wrote, so they outlive it, and Sphinx would
        # fail on names that are gone.
        if path.parent.name != "api" or path.stem not in known:
            path.unlink()
    for page, lines in pages.items():
        _write(folder / "api" / f"{page}.rst", "\n".join(lines))
    return [_write(folder / "api" / "index.rst", "\n".join([*index, ""]))]


def _listed(names: list[str]) -> list[str]:
    """Return a table of objects with their summaries, each with a page."""
    options = ["   :nosignatures:", "   :toctree: ."]
    return [".. autosummary::", *options, "", *(f"   {name}" for name in names), ""]


def _module(title: str, names: list[str]) -> list[str]:
    """Return the page of a package, with all of its names."""
    package = PACKAGES[title]
    lines = [title, "=" * len(title), "", f".. automodule:: {package}", "   :no-members:", ""]
    lines += [".. py:currentmodule:: None", ""]  # the names below are complete
    if package.rpartition(".")[2] in TAUGHT:
        known = f"``{package.rpartition('.')[2]}.NAME"
        lines += [f"``help`` and, in a notebook, {known}??`` show a docstring and the source.", ""]
    if title == "Lectures":
        examples = importlib.import_module(package).EXAMPLES
        functions = [name.replace("-", "_") for name in examples]
        lines += _described([f"{package}.{name}.{name}" for name in functions])
    return [*lines, *_described(names)]


def _described(names: list[str]) -> list[str]:
    """Return the directives that describe objects."""
    lines = []
    for name in names:
        value = resolve(name)
        if inspect.isclass(value):
            lines += [f".. autoclass:: {name}"]
            lines += [""] if name.split(".")[1] in TAUGHT else ["   :members:", ""]
        elif inspect.isfunction(value):
            lines += [f".. autofunction:: {name}", ""]
        else:
            lines += [f".. autodata:: {name}", "   :no-value:", ""]
    return lines


def _shorten(
    _app: Sphinx, what: str, name: str, value: Any, _options: Any, lines: list[str]
) -> None:
    """Keep the sections of a docstring that its page needs, and one description of each input."""
    if what in ("function", "class") and name != "pyflowers.fit":
        lines[:] = _with_inputs_of_fit(lines)
    package = name.removeprefix("pyflowers.").partition(".")[0]
    kept: tuple[str, ...] | None = None
    if what == "data" and lines[:1] == (inspect.getdoc(type(value)) or "").splitlines()[:1]:
        lines[:] = [f"An object of :class:`{type(value).__name__}`.", ""]
    if package in TAUGHT and what != "module":
        lines[:] = [*lines[: lines.index("") if "" in lines else None], ""]
    elif what in ("method", "property"):
        kept = ("Parameters", "Returns") if name.startswith("pyflowers.Fit.") else ()
    elif package == "plots":
        text = "\n".join(lines).replace("theme : Theme\n    Colours of the figure.\n", "")
        lines[:] = text.split("\n")
        kept = ("Parameters", "Attributes")
    elif what == "class" and issubclass(value, Result):
        kept = ("Attributes",) if name == "pyflowers.Fit" else ()
    elif package == "analysis":
        kept = ("Attributes",)
    elif package in (*TASKS["Classes"].split(), "Program"):
        kept = ("Parameters", "Attributes")
    elif package in ("Spec", "Task"):
        kept = ("Parameters",)
    if kept is not None and what != "module":
        lines[:] = _with_sections(lines, kept)


def _with_sections(lines: list[str], kept: tuple[str, ...]) -> list[str]:
    """Return a docstring with its text and the sections to keep."""
    found, is_kept = [], True
    for number, line in enumerate(lines):
        below = lines[number + 1] if number + 1 < len(lines) else ""
        if line and re.fullmatch("-{3,}", below):
            is_kept = line in kept
        if is_kept:
            found.append(line)
    return [*found, ""]


def _with_inputs_of_fit(lines: list[str]) -> list[str]:
    """Return a docstring that only names the parameters that ``pyflowers.fit`` describes."""
    known = set(_entries(inspect.getdoc(resolve("pyflowers.fit")) or ""))
    text, repeated = "\n".join(lines), []
    for entry in _entries(text):
        if entry in known:
            text = text.replace(entry, "", 1)
            repeated.append(entry.partition(" :")[0])
    if repeated:
        names = f"{', '.join(repeated)}\n    As in :func:`pyflowers.fit`."
        head, title, rest = text.partition("Parameters\n----------\n")
        parameters, blank, rest = rest.partition("\n\n")
        text = f"{head}{title}{parameters.rstrip()}\n{names}{blank}{rest}"
    return text.split("\n")


def _entries(documentation: str) -> list[str]:
    """Return the entries of the section *Parameters*, each with its description."""
    section = documentation.partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    return re.findall(r"(?m)^\w+ : .*\n(?: +.*\n)+", f"{section}\n")


def _skipped(
    _app: Sphinx, _what: str, name: str, value: Any, _is_skipped: bool, _options: Any
) -> bool | None:
    """Leave out the methods that all results have, and those that serve pyflowers itself."""
    if isinstance(value, property):
        value = value.fget
    function = getattr(value, "func", value)  # of a cached property
    owner = getattr(function, "__qualname__", "").partition(".")[0]
    shown = SHOWN_METHODS.get(owner)
    if name in OF_EVERY_RESULT.split() or name == "model_config":
        return True
    if shown is not None and name not in shown.split():
        return True
    return None


def _spelled_out(
    _app: Sphinx, what: str, _name: str, value: Any, _options: Any, shown: Any, returned: Any
) -> tuple[Any, Any]:
    """Return a signature with names and short defaults; the docstring has the types.

    A class that lists attributes alone has none. Sphinx shows a signature as raw text, and breaks
    it at any comma, if a default is not Python.
    """
    if shown is None or not (inspect.isclass(value) or inspect.isroutine(value)):
        return shown, returned
    documentation = inspect.getdoc(value) or ""
    has_parameters = "\nParameters\n---" in documentation
    has_attributes = what == "class" and "\nAttributes\n---" in documentation
    if getattr(value, "_is_protocol", False) or (has_attributes and not has_parameters):
        return "", None
    plain = []
    for parameter in inspect.signature(value).parameters.values():
        if parameter.name == "self":
            continue
        if not _is_python(parameter.default) or len(repr(parameter.default)) > LONGEST_DEFAULT:
            parameter = parameter.replace(default=...)
        plain.append(parameter.replace(annotation=parameter.empty))
    return str(inspect.Signature(plain)).replace("Ellipsis", "..."), None


def _is_python(default: Any) -> bool:
    """Whether a default is shown as an expression of Python, unlike a function or a factory."""
    if default is inspect.Parameter.empty:
        return True
    try:
        ast.parse(repr(default), mode="eval")
    except SyntaxError:
        return False
    return True


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
    return contnode if node.get("refdoc", "").startswith("reference/api/") else None


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
