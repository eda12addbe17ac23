"""The draft for a methods section: the report's words, in each format and as a file."""

import json
import re
import sys

import docx
import pytest
from click.testing import CliRunner
from pages import Page, text_of
from synthetic_fits import synthetic_fit, table

import pyflowers
from pyflowers.cli.main import cli, main
from pyflowers.reports import render_report
from pyflowers.reports.sections.provenance import PROVENANCE


def run(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two run folders, of other programs and the same table."""
    folder = tmp_path_factory.mktemp("runs")
    data = table(["rose", "tulip", "iris"], 6)
    names = ("multilevel_poisson", "iid_normal")
    return [synthetic_fit(name, data).save(folder / name) for name in names]


@pytest.fixture(scope="module")
def found(runs):
    """The draft in Python."""
    return pyflowers.methods_draft([pyflowers.Fit.load(folder) for folder in runs])


def test_the_draft_is_the_paragraph_of_the_report(runs, found):
    fits = [pyflowers.Fit.load(folder) for folder in runs]
    page = Page(render_report(fits, sections=[PROVENANCE]))
    (quote,) = page.nodes("blockquote")
    assert found.to_dict()["methods"] == text_of(quote)
    assert str(found).replace("\n", " ") == text_of(quote)
    assert max(map(len, str(found).splitlines())) <= 80


def test_a_fit_drafts_its_own_paragraph(runs):
    fit = pyflowers.Fit.load(runs[0])
    draft = fit.methods_draft(interval=0.8)
    assert str(draft) == str(pyflowers.methods_draft(fit, interval=0.8))
    assert str(draft).endswith("Intervals are central 80% intervals.")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["md", "tex", "txt"])
def test_a_format_is_printed_and_written(runs, found, form, tmp_path):
    expected = {"md": found.to_markdown(), "tex": found.to_latex(), "txt": f"{found}\n"}[form]
    assert run("report", *runs, "--format", form).stdout == expected
    out = tmp_path / "paper" / f"methods.{form}"
    assert run("report", *runs, "--format", form, "--out", out).stdout == f"methods: {out}\n"
    assert out.read_text(encoding="utf-8") == expected


def test_a_draft_is_json_as_well(runs, found):
    done = run("report", *runs, "--format", "md", "--json")
    assert json.loads(done.stdout) == found.to_dict()


def test_word_reads_the_draft(runs, found, tmp_path):
    out = tmp_path / "methods.docx"
    assert run("report", *runs, "--format", "docx", "--out", out).exit_code == 0
    (paragraph,) = docx.Document(out).paragraphs
    assert paragraph.text == found.to_dict()["methods"]


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["RUN"], 2, "a report needs a file; add --out report.html"),
        (["--format", "md"], 2, "--format drafts the methods section for run folders; give the"),
        (["RUN", "--format", "docx"], 2, "--format docx writes a file; add --out methods.docx"),
        (["RUN", "--format", "md", "--title", "T"], 2, "--title does not apply to the draft"),
        (["RUN", "--format", "md", "--seed", "1"], 2, "--seed does not apply to the draft"),
        (["RUN", "--format", "tex", "--out", "OLD"], 1, "already exists, and a draft may have"),
        (["RUN", "--format", "docx", "--out", "NEW"], 1, "needs the package python-docx"),
    ],
)
def test_a_request_that_makes_no_draft_is_rejected(
    words, status, says, runs, tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "docx", None)
    (tmp_path / "old").write_text("my words", encoding="utf-8")
    places = {"RUN": runs[0], "OLD": tmp_path / "old", "NEW": tmp_path / "new"}
    with pytest.raises(SystemExit) as ended:
        main(["report", *(str(places.get(word, word)) for word in words)])
    assert ended.value.code == status
    assert re.search(re.escape(says), capsys.readouterr().err)
    assert (tmp_path / "old").read_text(encoding="utf-8") == "my words"
    assert not (tmp_path / "new").exists()
