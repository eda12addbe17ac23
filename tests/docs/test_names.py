"""The modules and names of pyflowers in the README and the documentation exist."""

import importlib
import re
from types import ModuleType

import pytest
from site_parts import DOCS, extension

PAGES = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]
NAME = re.compile(r"(?<![\w./-])pyflowers(?:\.[A-Za-z]\w*)+")
IMPORT = re.compile(
    r"^(?:>>> )?(import pyflowers\b.*|from pyflowers\b[\w.]* import (?:\([^)]*\)|.*))$",
    re.MULTILINE,
)
CALLED_MODULES = re.compile(r"\bmodules? ((?:`pyflowers[\w.]+`(?:,? and |,? or |, )?)+)")


def resolved(name):
    """Return the object that a dotted name stands for, after importing its packages."""
    package, *parts = name.split(".")
    found = importlib.import_module(package)
    for part in parts:
        package = f"{package}.{part}"
        found = getattr(found, part) if hasattr(found, part) else importlib.import_module(package)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_of_a_page(page):
    text = page.read_text(encoding="utf-8")
    if "pyflowers.batches.cluster" in text:
        pytest.importorskip("distributed")
    for name in dict.fromkeys(NAME.findall(text)):
        if isinstance(resolved(name), ModuleType):
            importlib.import_module(name)
    for found in CALLED_MODULES.findall(re.sub(r"\s+", " ", text)):
        for name in NAME.findall(found):
            importlib.import_module(name)
    for statement in IMPORT.findall(text):
        exec(statement, {})


def test_every_package_of_the_reference_is_imported_by_its_name():
    for name in ("pyflowers", *extension("api").PACKAGES.values()):
        module = importlib.import_module(name)
        exec(f"from {name} import {', '.join(module.__all__)}", {})
        assert resolved(name) is module


def test_a_command_and_its_function_have_one_name():
    import pyflowers

    for name in ("fit", "check", "predict", "contrast", "loo", "compare", "prior", "sensitivity"):
        assert callable(getattr(pyflowers, name))
    for name in ("sbc", "batch", "report", "table"):
        assert callable(getattr(pyflowers, name))
