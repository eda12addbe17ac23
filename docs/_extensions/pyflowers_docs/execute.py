"""Run the cells of all pages before Sphinx reads them, one page per core at a time.

Results are kept in the build folder with a digest of the page's cells and of the package, so that a
change of prose alone runs nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.errors import ExtensionError

from pyflowers_docs.cells import CellError, cells_of, run_page

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_ROOT = Path(__file__).resolve().parents[3]
_FROM_A_CHECKOUT = "from-a-checkout: true"
"""Front matter of a page that reads the folder examples/ of the repository."""


def setup(app: Sphinx) -> None:
    """Run the pages once the configuration is known."""
    app.connect("builder-inited", run_pages)


def results_folder(srcdir: str | Path) -> Path:
    """Return the folder of the results, in the source folder so that Sphinx finds the figures."""
    return Path(srcdir) / "_build" / "cells"


def _runs() -> bool:
    """Return whether cells are run; ``PYFLOWERS_DOCS_RUN=no`` builds the pages without output."""
    return os.environ.get("PYFLOWERS_DOCS_RUN") != "no"


def run_pages(app: Sphinx) -> None:
    """Run every page that has cells, unless its results are stored; report all that fail."""
    if not _runs():
        return
    source = Path(app.srcdir)
    state = _package_state(source.parent)
    pages = []
    for path in sorted(source.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if "_build" not in path.relative_to(source).parts and cells_of(text):
            pages.append(path)
    with tempfile.TemporaryDirectory(prefix="pyflowers-docs-") as home:

        def run(path: Path) -> str:
            name = path.relative_to(source).with_suffix("").as_posix()
            return _run_one(path, name, results_folder(source) / name, state, Path(home))

        # Pages with the most commands and calls come first, so that the workers end at about the
        # same time.
        pages.sort(key=lambda path: -str(cells_of(path.read_text("utf-8"))).count("pyflowers"))
        with ThreadPoolExecutor(os.cpu_count() or 1) as executor:
            failures = [failure for failure in executor.map(run, pages) if failure]
    if failures:
        raise ExtensionError("\n\n".join(failures))


def _run_one(path: Path, name: str, results: Path, state: str, home: Path) -> str:
    """Run a page unless its results are stored; return its failure, or an empty text."""
    cells = cells_of(path.read_text(encoding="utf-8"))
    key = hashlib.sha256(f"{state}{cells}".encode()).hexdigest()
    known = results / "results.json"
    if known.is_file() and json.loads(known.read_text(encoding="utf-8"))["key"] == key:
        return ""
    shutil.rmtree(results, ignore_errors=True)
    start = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="page-") as folder:
            if _FROM_A_CHECKOUT in path.read_text(encoding="utf-8"):
                (Path(folder) / "examples").symlink_to(_ROOT / "examples")
            outputs = run_page(cells, Path(folder), results, home)
    except CellError as error:
        return f"{path}, {error}"
    known.write_text(json.dumps({"key": key, "outputs": outputs}), encoding="utf-8")
    # Written even with -q, because the pages take minutes.
    sys.stderr.write(f"ran {name}: {len(cells)} cells in {time.monotonic() - start:.0f} s\n")
    return ""


def outputs_of(srcdir: str | Path, docname: str) -> list[dict[str, Any]]:
    """Return the output of a page's cells; none if the pages are built without running them."""
    path = results_folder(srcdir) / docname / "results.json"
    if not path.is_file() and not _runs():
        cells = cells_of(Path(srcdir, docname).with_suffix(".md").read_text(encoding="utf-8"))
        return [{"text": ""} for _ in cells]
    outputs: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["outputs"]
    return outputs


def _package_state(root: Path) -> str:
    """Return a digest of everything that could change what a page shows."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    files = [here / "cells.py", here / "worker.py"]
    for folder in ("pyflowers", "stan", "data", "examples"):
        files += [path for path in (root / folder).rglob("*") if path.is_file()]
    for path in sorted(files):
        if "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
