"""The parts of the site that tests use: its extension, and the folder that it is built from."""

import importlib
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def extension(name):
    """Import a module of the site's Sphinx extension that needs no Sphinx."""
    folder = str(DOCS / "_extensions" / "pyflowers_docs")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(folder)
