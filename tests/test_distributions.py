"""Everything that the package imports is declared in pyproject.toml, and nothing else."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
# Packages that another package imports for us.
INDIRECT = {
    "bridgestan": "stanli.bridgestan_model is a model of BridgeStan's",
    "pyarrow": "pandas reads Parquet by it",
}


def names(requirements: list[str]) -> set[str]:
    """Return the normalised names of the distributions that are required."""
    found = (re.match(r"[\w.-]+", requirement) for requirement in requirements)
    return {normalised(match[0]) for match in found if match}


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported_modules(source: str) -> Iterator[str]:
    """Yield the top-level names that the source imports, including imports in functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


OPTIONAL = ("dask", "docx", "parquet", "xlsx")


def imported_distributions(folder: Path) -> dict[str, set[str]]:
    """Map each distribution that modules below `folder` import to those modules."""
    providers = packages_distributions()
    found: dict[str, set[str]] = {}
    for path in sorted(folder.rglob("*.py")):
        for module in imported_modules(path.read_text(encoding="utf-8")):
            if module not in sys.stdlib_module_names and module != "pyflowers":
                (name, *_) = providers.get(module, [module])
                found.setdefault(normalised(name), set()).add(str(path.relative_to(ROOT)))
    return found


@pytest.mark.quick
def test_every_imported_distribution_is_declared():
    required = names(PROJECT["dependencies"])
    optional = names([requirement for extra in OPTIONAL for requirement in EXTRAS[extra]])
    imported = imported_distributions(ROOT / "pyflowers")
    assert {"numpy", "pandas", "xarray", "stanio"} <= imported.keys()
    undeclared = {name: where for name, where in imported.items() if name not in required}
    assert undeclared.keys() <= optional, undeclared


@pytest.mark.quick
def test_every_declared_distribution_is_imported():
    imported = imported_distributions(ROOT / "pyflowers").keys() | INDIRECT.keys()
    optional = [requirement for extra in OPTIONAL for requirement in EXTRAS[extra]]
    declared = names([*PROJECT["dependencies"], *optional])
    assert declared <= imported, declared - imported


@pytest.mark.parametrize(
    "source",
    [
        "import distributed.client",
        "from xarray import DataArray",
        "def f():\n    import stanio",
    ],
)
def test_an_import_is_seen_wherever_it_is(source):
    (module,) = imported_modules(source)
    assert module in {"distributed", "xarray", "stanio"}


def test_relative_imports_are_not_distributions():
    assert not list(imported_modules("from . import table\nfrom .table import Table"))


@pytest.mark.parametrize("extra", ["dask", "parquet"])
def test_extras_are_installed_for_developers(extra):
    assert names(EXTRAS[extra]) <= names(EXTRAS["dev"])
