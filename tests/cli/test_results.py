"""The commands check, predict and contrast: tables, JSON, folders, exit status and refusals."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from synthetic_fits import synthetic_fit, table

from pyflowers.analysis import ecdf
from pyflowers.cli.console import json_of
from pyflowers.cli.main import cli, main


def run(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run folder of a fit that passes."""
    fit = synthetic_fit("multilevel_poisson", table(["rose", "tulip", "iris"], 6))
    return fit.save(tmp_path_factory.mktemp("runs") / "good")


def test_check_prints_every_check_and_both_verdicts(folder, tmp_path):
    done = run("check", folder, "--statistic", "median", "--out", tmp_path / "c")
    assert done.exit_code == 0
    for printed in ("variance_to_mean", "median", "group_outlier", "loo_pit", "diagnostics pass"):
        assert printed in done.output
    assert "verdict: this fit can be trusted\n" in done.output
    assert "passed        the data pass all 10 predictive checks" in done.output
    written = {path.name for path in (tmp_path / "c").iterdir()}
    assert written == {
        *("checks.json", "checks.csv", "checks.png"),
        *("replicated.png", "loo_pit.png"),  # no groups.png, because each group has its own mean
    }
    rows = pd.read_csv(tmp_path / "c" / "checks.csv", index_col="check")
    assert rows.loc["zeros", "passed"]


def test_json_keeps_the_pits_with_their_number_of_draws(folder):
    record = json.loads(run("check", folder, "--json").output)
    assert record["passed"]
    assert record["verdict"]["trusted"]
    pit = record["pit"]
    assert pit["num_draws"] == 2000
    band = ecdf.uniform_band(len(pit["values"]), num_draws=pit["num_draws"], prob=0.99)
    assert band.contains(pit["values"])
    assert pit["band"]["lower"] == band.lower.tolist()


def test_check_exits_with_3_where_a_check_fails(tmp_path, capsys):
    def shift(draws, stats):
        draws["mu_plant"][...] *= 3

    fit = synthetic_fit("multilevel_poisson", table(["a", "b", "c"], 6), change=shift)
    with pytest.raises(SystemExit) as ended:
        main(["check", str(fit.save(tmp_path / "bad"))])
    assert ended.value.code == 3
    printed = capsys.readouterr().out
    assert "verdict: the sampling converged" in printed
    assert "\n    the counts of flowers are smaller on average than" in printed
    assert re.search(r"^mean +.* > 0\.9995 +NO", printed, re.MULTILINE)
    assert "\n      → see whether pyflowers sensitivity finds a prior far from the data" in printed


def test_predict_prints_and_writes_the_same(folder, tmp_path):
    done = run("predict", folder, "--seed", 5, "--out", tmp_path / "p")
    assert done.exit_code == 0
    assert "y_new[tulip]" in done.output
    assert "new plant" in done.output
    record = json.loads(run("predict", folder, "--seed", 5, "--json").output)
    written = json.loads((tmp_path / "p" / "predictions.json").read_text())
    assert written["predictions"] == record["predictions"]
    assert record["seed"] == 5
    assert {path.name for path in (tmp_path / "p").iterdir()} == {
        *("predictions.json", "predictions.csv", "predictions.png")
    }


def test_contrast_prints_numbers_and_conditions(folder, tmp_path):
    words = ("mu_plant[iris] - mu_plant[1]", "mu_plant[3] > mu_plant[rose]", "rank(mu_plant)")
    done = run("contrast", folder, *words, "--out", tmp_path / "k")
    assert done.exit_code == 0
    # A name that makes the table too wide goes on in the next line.
    for printed in ("mu_plant[iris] -", "mu_plant[3] >", "rank(mu_plant)[tulip]", "mcse"):
        assert printed in done.output
    record = json.loads(run("contrast", folder, *words, "--json").output)
    kinds = [row["kind"] for row in record["contrasts"]]
    assert kinds == ["number", "condition"] + ["rank"] * 3
    assert (tmp_path / "k" / "forest.png").is_file()
    again = run("contrast", folder, "mu > 0", "--out", tmp_path / "k")
    assert again.exit_code == 0
    assert not (tmp_path / "k" / "numbers.csv").exists()  # the earlier result is replaced


def test_what_json_does_not_know_is_null():
    record = {"k_hat": np.inf, "terms": np.array([1.0, np.nan]), "n": np.int64(3), "on": True}
    text = json_of(record)
    assert json.loads(text) == {"k_hat": None, "terms": [1.0, None], "n": 3, "on": True}
    assert "Infinity" not in text
