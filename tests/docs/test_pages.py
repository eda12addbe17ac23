"""Code on the pages of the site fits its column, and no tool trims what a command prints."""

import re

import pytest
from site_parts import DOCS

NOT_IN_THE_SITE = ("architecture", "calibration", "coverage", "decisions", "glossary", "peers")
WIDEST = 88
PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if not page.relative_to(DOCS).as_posix().startswith((*NOT_IN_THE_SITE, "_build"))
]
TRIMMED = re.compile(r"\| *(sed|grep|head|tail)\b|(^|&& )(sed -n|grep|head|tail) ", re.MULTILINE)


def code(text):
    """Yield each line of a page's fenced blocks with its number."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r" *(`{3,})", line)
        if fence and line.strip() == fence:
            fence = ""
        elif mark and not fence:
            fence = mark[1]
        elif fence and not line.startswith(":"):
            yield number, line


def faults(text):
    lines = list(code(text))
    found = [f"line {number} is too wide" for number, line in lines if len(line) > WIDEST]
    return [*found, *(f"line {n} trims output" for n, line in lines if TRIMMED.search(line))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_fits_its_column_and_shows_all_output(page):
    assert faults(page.read_text(encoding="utf-8")) == []


def test_faults_are_found():
    page = f"```bash\npyflowers check run | tail -4\n{'x' * 89}\n```\n{'y' * 100} | tail\n"
    assert faults(page) == ["line 3 is too wide", "line 2 trims output"]
