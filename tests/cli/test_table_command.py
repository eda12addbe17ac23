"""The command table: what it prints in each format, its folder and its refusals."""

import json
import sys

import docx
import pandas as pd
import pytest
from click.testing import CliRunner
from synthetic_fits import synthetic_fit, table

import pyflowers
from pyflowers.cli.main import cli, main

METHODS = {"md": "to_markdown", "tex": "to_latex", "html": "to_html"}


def run(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two run folders, of other programs and the same table."""
    data = table(["rose", "tulip", "iris"], 6)
    folder = tmp_path_factory.mktemp("runs")
    names = ("multilevel_poisson", "iid_normal")
    return [synthetic_fit(name, data).save(folder / name) for name in names]


@pytest.fixture(scope="module")
def found(runs):
    """The same table in Python."""
    fits = [pyflowers.Fit.load(folder) for folder in runs]
    names = ["Poisson", "Normal"]
    return pyflowers.table(fits, names=names, rows=["mu=Mean"], inline=True, interval=0.5)


ASKED = ("--name", "Poisson", "--name", "Normal", "--row", "mu=Mean", "--inline")
WORDS = (*ASKED, "--interval", "0.5")


def test_the_command_prints_what_python_prints(runs, found):
    assert run("table", *runs, *WORDS).output.strip() == str(found).strip()


@pytest.mark.parametrize("form", METHODS)
def test_a_format_is_printed_alone(runs, found, form):
    done = run("table", *runs, *WORDS, "--format", form)
    assert done.exit_code == 0
    assert done.stdout == getattr(found, METHODS[form])()


def test_csv_is_printed_alone(runs, found):
    assert run("table", *runs, *WORDS, "--format", "csv").stdout == found.to_frame().to_csv()


def test_notes_do_not_mix_with_a_format(runs, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["table", *map(str, runs), "--loo", "--format", "tex"])
    printed = capsys.readouterr()
    assert ended.value.code == 0
    assert printed.out.startswith(r"\begin{tabular}")
    assert "note:" not in printed.out
    assert "note: " in printed.err


def test_the_folder_has_every_format_and_the_numbers(runs, found, tmp_path):
    out = tmp_path / "t"
    assert run("table", *runs, *WORDS, "--out", out).exit_code == 0
    assert {path.name for path in out.iterdir()} == {
        *("table.csv", "table.html", "table.json", "table.md", "table.tex")
    }
    assert (out / "table.tex").read_text(encoding="utf-8") == found.to_latex()
    frame = pd.read_csv(out / "table.csv", index_col=0, keep_default_na=False, dtype=str)
    assert frame.equals(found.to_frame())
    record = json.loads((out / "table.json").read_text(encoding="utf-8"))
    assert [its["name"] for its in record["models"]] == ["Poisson", "Normal"]
    numbers = record["models"][0]["rows"]["Mean"]
    expected = found.fits[0].summary(interval=0.5).loc["mu", ["median", "25%", "75%"]]
    assert list(numbers.values()) == pytest.approx(expected.tolist(), rel=1e-14)
    assert run("table", *runs, "--out", out, "--format", "md").exit_code == 0  # is replaced


def test_word_is_refused_before_any_work(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "docx", None)
    out = tmp_path / "t"
    for words, status, says in (
        (("--format", "docx"), 2, "--format docx writes table.docx to --out; add --out"),
        (("--format", "docx", "--out", str(out)), 1, "needs the package python-docx"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["table", str(runs[0]), *words])
        assert ended.value.code == status
        assert says in capsys.readouterr().err
    assert not out.exists()


def test_word_is_written(runs, tmp_path):
    out = tmp_path / "t"
    assert run("table", *runs, *WORDS, "--format", "docx", "--out", out).exit_code == 0
    (grid,) = docx.Document(out / "table.docx").tables
    assert [cell.text for cell in grid.rows[0].cells] == ["", "Poisson", "Normal"]
