"""scripts/language finds a listed wording, also across line ends, and accepts plain text."""

import subprocess
import sys

import pytest
from site_parts import DOCS


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("One row per plant.\n", 0),
        ("One.\nIt stands beside the table.\n", 2),
        ("x = 1\n# Fit it in place\n# of the other.\n", 2),
    ],
)
def test_wordings_are_found(tmp_path, text, line):
    path = tmp_path / "text.py"
    path.write_text(text, encoding="utf-8")
    command = [sys.executable, DOCS.parent / "scripts" / "language", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == (line > 0)
    assert f"text.py:{line}: " in done.stdout if line else not done.stdout


PAGES_ON_COMPILERS = [
    DOCS.parent / "README.md",
    DOCS / "index.md",
    DOCS / "explanation" / "engines.md",
    DOCS / "tutorials" / "installation.md",
]
WHEN_TO_COMPILE = (
    "You need no compiler: a Stan interpreter is included. For large data, and for work that you "
    "publish, `pyflowers setup` adds compiled Stan (CmdStan), and `--engine cmdstan` uses it."
)


@pytest.mark.parametrize("page", PAGES_ON_COMPILERS, ids=lambda page: page.stem)
def test_every_page_says_the_same_about_compilers(page):
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert WHEN_TO_COMPILE in text
    assert "publish" not in text.replace(WHEN_TO_COMPILE, "")
