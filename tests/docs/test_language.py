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


ENGINES = DOCS / "explanation" / "engines.md"
PAGES_ON_COMPILERS = [
    DOCS.parent / "README.md",
    DOCS / "index.md",
    DOCS / "how-to" / "no-compiler.md",
    DOCS / "tutorials" / "installation.md",
]


@pytest.mark.parametrize("page", PAGES_ON_COMPILERS, ids=lambda page: page.stem)
def test_every_page_says_the_same_about_compilers(page):
    """What needs no compiler and what to publish with is one sentence, word for word."""
    words = " ".join(ENGINES.read_text(encoding="utf-8").split())
    sentence = words.partition("## Which one to use ")[2].partition(". ")[0]
    assert sentence.startswith("pyflowers needs no compiler: ")
    assert "before you publish" in sentence
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert sentence in text
    # Nothing else on the page makes a promise or a demand of its own.
    rest = text.replace(sentence, "")
    assert "needs no compiler." not in rest
    assert "publish" not in rest
