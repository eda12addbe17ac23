"""Results appear as tables in a notebook and with ``print``, with the requested interval."""

import re
import subprocess
import sysconfig
import venv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from synthetic_fits import synthetic_fit, table

import pyflowers
from pyflowers.analysis.prior_sensitivity import sensitivity
from pyflowers.analysis.priors import prior
from pyflowers.cli.main import cli
from pyflowers.display import interval_quantiles, text_table
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.fits.verdict import Check, Part, Verdict
from pyflowers.plots.style import StyledFigure
from pyflowers.workflow.config import Experiment
from pyflowers.workflow.experiment import run_experiment

pytestmark = pytest.mark.usefixtures("in_a_shell")

DATA = table(["a", "<b>"], 6)


@pytest.fixture(scope="module")
def fit():
    return synthetic_fit("multilevel_poisson", DATA)


RESULTS = {
    "fit": lambda fit: fit,
    "program": lambda fit: fit.program,
    "data": lambda fit: fit.data,
    "table": lambda fit: DATA,
    "check": pyflowers.check,
    "predict": pyflowers.predict,
    "contrast": lambda fit: pyflowers.contrast(fit, "mu_plant[1] - mu_plant[2]", "mu > 0"),
    "sensitivity": sensitivity,
    "loo": lambda fit: pyflowers.loo([fit]),
    "models side by side": lambda fit: pyflowers.table(fit, names=["<b>]"]),
    "prior": lambda fit: prior("multilevel_poisson", DATA, draws=100, seed=1),
    "vb": lambda fit: pyflowers.vb.fit_normal(np.arange(6.0)),
    "batch of vb": lambda fit: pyflowers.vb.fit_normal(np.arange(12.0).reshape(2, 6)),
    "exact": lambda fit: pyflowers.exact.draw_normal(
        np.arange(6.0), None, 50, np.random.default_rng(1)
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_shows_as_a_table(fit, name):
    found = RESULTS[name](fit)
    text, html = str(found), found._repr_html_()
    for shown in (text, html, repr(found)):
        assert "array(" not in shown
        assert "=<" not in shown
    assert len(repr(found)) < 200
    assert "───" in text
    assert html.count("<tr>") >= 2
    assert "<b>]" not in html  # the user's label is not markup


def test_a_fit_prints_as_its_command_does(fit, tmp_path):
    fit.save(tmp_path / "run")
    words = ["predict", str(tmp_path / "run"), "--seed", "1"]
    printed = CliRunner().invoke(cli, words, catch_exceptions=False).output
    assert printed.strip() == str(pyflowers.predict(fit, seed=1)).strip()
    text = str(fit)
    assert text.startswith("Model:   multilevel_poisson  y ~ Poisson(mu_plant)")
    assert "(12 rows; plant: 2)" in text
    assert "verdict: the sampling converged" in text


def cells_of(html):
    """Return the texts of the cells of each row of the last table."""
    table = html[html.rindex("<table>") :]
    return [
        [re.sub("<[^>]+>", "", cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
        for row in re.findall(r"<tr>.*?</tr>", table, re.DOTALL)
    ]


def test_a_verdict_is_a_table_in_a_notebook(fit):
    for found in (fit, fit.verdict):
        html = found._repr_html_()
        assert f"<b>verdict: {fit.verdict.sentence}</b>" in html
        rows = cells_of(html)
        assert [row[0] for row in rows] == ["computation", "prior", "data"]
        assert [row[1] for row in rows] == [part.status for part in fit.verdict.parts]
        assert [row[2] for row in rows] == [part.brief for part in fit.verdict.parts]
    bad = Check("R-hat", 1.5, 1.01, "≤", False, "mu[<b>]", "", "run longer: --warmup 2000 & more")
    failed = Verdict(Part("computation", (bad,)), fit.verdict.prior, fit.verdict.data)
    row = cells_of(failed.line.html)[0]
    assert row[1] == "failed"
    assert row[2].endswith(
        "R-hat 1.500 (mu[&lt;b&gt;]), must be ≤ 1.01→ run longer: --warmup 2000 &amp; more"
    )


def test_a_figure_is_an_image_in_a_notebook(fit):
    figure = pyflowers.plots.trace(fit, ["mu"])
    assert isinstance(figure, StyledFigure)
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_long_table_says_how_many_rows_are_left_out():
    found = synthetic_fit("multilevel_poisson", table([f"g{i}" for i in range(90)], 3), draws=100)
    num = 80  # of the 90 groups
    assert f"{num} more rows" in str(found)
    assert f"{num} more rows" in found._repr_html_()
    assert text_table(found.summary()).count("mu_plant") == 10


def test_a_table_is_no_wider_than_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = {"result": "failed: dispersion_within, spread[patient], loo_pit", "joint low": 0.123}
    numbers = dict.fromkeys(("median", "5%", "95%", "elpd", "difference"), 1234.5)
    found = text_table(pd.DataFrame([text | numbers], index=pd.Index(["b[x]"], name="parameter")))
    assert max(map(len, found.splitlines())) <= 80
    assert all(part in found for part in ("failed:", "dispersion", "spread[patient]", "loo_pit"))
    assert found.count("1235") + found.count("1234") == len(numbers)  # no number is folded


LONG = "slept in the laboratory with partner"


@pytest.mark.parametrize("levels", [1, 2, 4])
def test_columns_of_texts_share_the_room_that_numbers_leave(levels, monkeypatch):
    """However many columns have long labels, no line is wider, and no number is folded."""
    monkeypatch.setenv("COLUMNS", "80")
    names = [f"SleepingCondition{i}" for i in range(levels)]
    index = pd.MultiIndex.from_tuples([[LONG] * levels], names=names)
    numbers = dict.fromkeys(("median", "5%", "25%", "75%", "95%"), -12.34)
    found = text_table(pd.DataFrame([numbers | {"its default": 0.12}], index=index))
    assert max(map(len, found.splitlines())) <= 80
    assert found.count("-12.3") == len(numbers)
    assert "default" in found  # nor is the head of a column of numbers


def test_words_are_only_divided_if_there_is_no_other_way(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    index = pd.MultiIndex.from_tuples([["SleepingCondition", LONG]], names=["column", "change"])
    numbers = dict.fromkeys("abcdef", 1.23)
    found = text_table(pd.DataFrame([numbers], index=index))
    assert max(map(len, found.splitlines())) <= 80
    assert "SleepingCondition " in found
    assert "laboratory " in found


@pytest.mark.parametrize(
    ("intervals", "names"),
    [
        ((0.9,), ["median", "5%", "95%"]),
        ((0.95,), ["median", "2.5%", "97.5%"]),
        ((0.5, 0.9), ["median", "5%", "25%", "75%", "95%"]),
        ((0.5, 0.5), ["median", "25%", "75%"]),
        ((0.999,), ["median", "0.05%", "99.95%"]),
    ],
)
def test_columns_are_named_by_their_quantiles(intervals, names):
    found = interval_quantiles(*intervals)
    assert list(found) == names
    assert max(found.values()) - min(found.values()) == pytest.approx(max(intervals))


@pytest.mark.parametrize("wrong", [0, 1, 95, -0.5, True, "0.95", np.nan])
def test_what_is_no_interval_is_refused(fit, wrong):
    with pytest.raises(ConfigError, match="interval must lie between 0 and 1"):
        fit.summary(interval=wrong)


def test_the_interval_asked_for_is_in_every_table(fit, tmp_path):
    wide = fit.with_interval(0.95)
    low, high = "2.5%", "97.5%"
    draws = fit.draws["mu"].ravel()
    row = wide.summary("mu").loc["mu"]
    np.testing.assert_allclose(row[[low, high]].to_numpy(float), np.quantile(draws, [0.025, 0.975]))
    assert list(fit.summary()) == ["median", "5%", "95%", *list(row.index)[3:]]
    tables = {
        "summary": fit.summary(interval=0.95),
        "predict": pyflowers.predict(fit, interval=0.95).table(),
        "contrast": pyflowers.contrast(fit, "mu", interval=0.95).numbers(),
        "check": pyflowers.check(fit, interval=0.95).table(),
        "prior": prior("iid_normal", DATA, draws=100, seed=1, interval=0.95).summary(),
        "vb": pyflowers.vb.fit_normal(np.arange(6.0)).table(0.95),
        "of the fit's own": pyflowers.predict(wide).table(),
    }
    for name, found in tables.items():
        assert {low, high} <= set(found), name
        assert not {"5%", "95%"} & set(found), name
        order = [column for column in found if column == "median" or column in (low, high)]
        assert order == ["median", low, high], name
    conclusions = sensitivity(fit, interval=0.95).conclusions
    assert {low, high} < set(conclusions.index.get_level_values("conclusion"))
    wide.save(tmp_path / "run")
    assert list(pd.read_csv(tmp_path / "run" / "summary.csv"))[1:4] == ["median", low, high]
    again = Fit.load(tmp_path / "run")
    assert again.interval == 0.95
    pd.testing.assert_frame_equal(again.summary(interval=0.9), fit.summary())


def test_a_selection_of_the_summary(fit):
    assert list(fit.summary(["mu", "mu_plant[a]"]).index) == ["mu", "mu_plant[a]"]
    assert list(fit.summary("mu_plant").index) == ["mu_plant[a]", "mu_plant[<b>]"]
    with pytest.raises(ConfigError, match="multilevel_poisson has no 'nu'; it has mu, "):
        fit.summary(["nu"])


@pytest.mark.parametrize(
    "command",
    [
        *[("check",), ("predict",), ("contrast", "mu")],
        pytest.param(("report",), marks=pytest.mark.slow),
    ],
)
def test_commands_take_an_interval(fit, tmp_path, command):
    fit.save(tmp_path / "run")
    name, *more = command
    if name == "report":
        more = ["--out", str(tmp_path / "report.html")]
    words = [name, str(tmp_path / "run"), *more, "--interval", "0.95"]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    shown = (tmp_path / "report.html").read_text() if name == "report" else done.output
    assert "95% interval" in shown if name == "report" else "97.5%" in shown
    assert "90% interval" not in shown


def test_a_summary_made_while_drawing_keeps_its_interval(tmp_path):
    how = {"seed": 1, "engine": "exact", "draws": 200}
    few = pyflowers.fit("multilevel_poisson", interval=0.95, keep=("mu",), **how)
    whole = pyflowers.fit("multilevel_poisson", interval=0.95, **how)
    names = ["2.5%", "97.5%"]
    pd.testing.assert_frame_equal(few.summary()[names], whole.summary()[names])
    few.save(tmp_path / "run")
    loaded = Fit.load(tmp_path / "run")
    assert list(loaded.summary())[1:3] == names
    with pytest.raises(ConfigError, match=r"refit it with an interval of 0\.9$"):
        loaded.summary(interval=0.9)


def test_an_experiment_shows_another_interval_without_fitting_again(tmp_path):
    sampler = {"seed": 1, "engine": "stanli", "draws": 200, "warmup": 200}
    output = {"folder": tmp_path / "runs", "plots": "none"}
    how = {"models": ("iid_normal",), "sampler": sampler, "output": output}
    for interval, columns in ((0.95, ["2.5%", "97.5%"]), (0.9, ["5%", "95%"])):
        (outcome,) = run_experiment(Experiment().with_values(interval=interval, **how))
        assert bool(outcome.refitted) == (interval == 0.95)
        assert outcome.fit.interval == interval
        assert list(pd.read_csv(outcome.folder / "summary.csv"))[2:4] == columns


CELLS = """
import pyflowers; fit = pyflowers.fit("multilevel_poisson", seed=1, show_progress=True); fit
pyflowers.plots.trace(fit, ["mu", "mu_plant"])
pyflowers.check(fit)
pyflowers.predict(fit)
pyflowers.contrast(fit, "mu_plant[1] > mu_plant[2]")
pyflowers.sensitivity(fit)
pyflowers.loo([fit])
pyflowers.compare("semiconjugate_normal", seed=1)
pyflowers.prior("multilevel_poisson", seed=1)
fit.program
get_ipython().run_line_magic("matplotlib", "inline"); pyflowers.plots.trace(fit, ["mu"])
"""
NOTEBOOK = """
import json, sys
import nbformat
from nbclient import NotebookClient
cells = [nbformat.v4.new_code_cell(text) for text in json.load(sys.stdin)]
book = nbformat.v4.new_notebook(cells=cells)
NotebookClient(book, timeout=600, kernel_name="python3").execute()
print(json.dumps([cell.outputs for cell in book.cells]))
"""


@pytest.mark.slow
def test_a_notebook_shows_tables_and_figures(cmdstan, tmp_path):
    """Jupyter is not a requirement of pyflowers, so it is installed only for this test."""
    import json

    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [python, "-m", "pip", "--quiet", "install", "nbclient", "ipykernel"]
    subprocess.run(install, check=True, capture_output=True)
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True).stdout
    ours = [sysconfig.get_path("purelib"), str(Path(pyflowers.__file__).parents[1])]
    (Path(site.strip()) / "ours.pth").write_text("\n".join(ours) + "\n")
    done = subprocess.run(
        [python, "-c", NOTEBOOK],
        input=json.dumps(CELLS.strip().splitlines()),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outputs = json.loads(done.stdout)
    assert len(outputs) == 11
    for cell in outputs:
        shown = [each["data"] for each in cell if "data" in each]
        assert len(shown) == 1
        assert {"image/png", "text/html"} & set(shown[0])
        assert "array(" not in shown[0]["text/plain"]
        said = "".join(each.get("text", "") for each in cell)
        assert "TqdmWarning" not in said
        assert "IProgress" not in said


def test_digits_of_a_row_show_how_the_ends_of_its_interval_differ():
    rows = {"median": [2000.014, 111.2, 1e9, 0.0], "5%": [1999.9, 109.1, 9.97e8, 0.0]}
    lines = text_table(pd.DataFrame(rows | {"95%": [2000.2, 114.4, 1.002e9, 0.0]})).splitlines()
    cells = [line.split() for line in lines[2:]]
    assert cells[0] == ["0", "2000.01", "1999.90", "2000.20"]
    assert cells[1] == ["1", "111", "109", "114"]
    assert cells[2] == ["2", "1e+09", "9.97e+08", "1.002e+09"]
    assert cells[3] == ["3", "0", "0", "0"]
