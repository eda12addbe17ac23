"""The tutorials, run from an empty folder exactly as printed."""

import pytest
from site_parts import DOCS, extension

cells = extension("cells")
NOT_LESSONS = ("index", "installation")
TUTORIALS = sorted(p for p in (DOCS / "tutorials").glob("*.md") if p.stem not in NOT_LESSONS)


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_runs_as_printed(page, tmp_path):
    found = cells.cells_of(page.read_text(encoding="utf-8"))
    results = cells.run_page(found, tmp_path / "empty", tmp_path / "images", tmp_path / "home")
    assert len(results) == len(found) > 5


def test_a_cell_that_ends_otherwise_than_printed_is_an_error(tmp_path):
    page = "```{run-shell}\nexit 3\n```\n"
    with pytest.raises(cells.CellError, match="exit status 3 instead of 0"):
        cells.run_page(cells.cells_of(page), tmp_path / "a", tmp_path / "b", tmp_path / "c")
    right = page.replace("\nexit", "\n:status: 3\nexit")
    cells.run_page(cells.cells_of(right), tmp_path / "a", tmp_path / "b", tmp_path / "c")


def test_a_wide_message_is_folded():
    text = "  no   lprior         " + "a word " * 12
    assert cells.folded(f"short\n{text.strip()}").startswith("short\nno   lprior         a word")
    lines = cells.folded(text).splitlines()
    assert max(map(len, lines)) <= cells.WIDTH
    assert lines[1].startswith(" " * 22 + "word")
    table = f"name  {'x ' * 45}\n{'─' * 96}"
    assert cells.folded(table) == table
    assert len(cells.folded(f"note: {'a word ' * 12}\n{table}").splitlines()) == 4


def test_pages_do_not_see_a_compiler(tmp_path):
    page = "```{run-shell}\ncommand -v g++ gcc make clang++ && exit 1\ncommand -v pyflowers\n```\n"
    results = cells.run_page(
        cells.cells_of(page), tmp_path / "a", tmp_path / "b", tmp_path / "home"
    )
    assert results[0]["text"].endswith("home/bin/pyflowers")


def test_python_that_raises_is_an_error(tmp_path):
    page = "```{run-python}\n1 / 0\n```\n"
    with pytest.raises(cells.CellError, match="ZeroDivisionError"):
        cells.run_page(cells.cells_of(page), tmp_path / "a", tmp_path / "b", tmp_path / "c")
