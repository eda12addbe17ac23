"""``pyflowers new`` copies shipped programs, drafts declarations, and overwrites nothing."""

import tomllib

import numpy as np
import pytest

import pyflowers
from pyflowers.cli.main import main
from pyflowers.programs import Capability, find_program, shipped_names
from pyflowers.programs.declaration import drafted
from pyflowers.programs.source import read_blocks

PROGRAM = """
data {
  int<lower=1> N; int<lower=1> P; array[N] int<lower=1, upper=P> plot; vector<lower=0>[N] sun;
  array[N] int<lower=0> visits; vector[2] weights; real<lower=0> beta_sd;
}
parameters { real beta; }
model { beta ~ normal(0, beta_sd); visits ~ poisson_log(beta * sun); }
"""
DRAFT = """\
# How a table becomes the data of bees.stan. The columns of the table:
# plot, sun, visits
title = ""
story = ""

[data]
N = { size = "obs" }
P = { size = "plot" }
plot = { column = "plot", index = true }
sun = { column = "sun" }
visits = { column = "visits" }
weights = { column = "..." }  # to be filled in

[priors]  # scalars of the data block, changed with --prior
beta_sd = 1.0  # to be filled in: a default

[roles]  # the data variable that the model describes
observed = "..."  # to be filled in: sun, visits, weights
"""
TABLE = "plot,sun,visits\na,1,2\na,3,1\nb,2,0\n"


@pytest.fixture
def new(capsys):
    """Run ``pyflowers new``; return its exit status, and all that it printed."""

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main(["new", *map(str, words)])
        printed = capsys.readouterr()
        return ended.value.code or 0, printed.out + printed.err

    return run


@pytest.mark.parametrize("name", shipped_names())
def test_a_copy_computes_in_stan_what_is_in_python_for_the_shipped_program(name, new, tmp_path):
    status, printed = new(tmp_path / "mine", "--from", name)
    assert status == 0
    lost = "exact" if name == "multilevel_poisson" else "exact and vb"
    assert f"the Python code of {name} for {lost} is not copied" in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.stan", "mine.toml"]
    copy, shipped = find_program(tmp_path / "mine.stan"), find_program(name)
    assert copy.can(Capability.LOG_LIK)
    assert copy.can(Capability.Y_REP)
    options = {"seed": 1, "chains": 2, "warmup": 200, "draws": 100, "engine": "stanli"}
    fit = pyflowers.fit(copy, shipped.read().table, **options)
    own = shipped.log_lik(fit.draws, fit.data)
    np.testing.assert_allclose(fit.log_likelihood(), own, rtol=1e-10)


def test_a_draft_says_what_is_known_and_marks_the_rest(new, tmp_path):
    path, table = tmp_path / "bees.stan", tmp_path / "bees.csv"
    path.write_text(PROGRAM)
    table.write_text(TABLE)
    status, printed = new(path, "--data", table)
    assert status == 0
    assert (tmp_path / "bees.toml").read_text() == DRAFT
    assert "fill in the marked lines" in printed
    # If the draft has no gaps, the next command is printed, and the program can be read.
    (tmp_path / "bees.toml").unlink()
    text = PROGRAM.replace("vector[2] weights;", "").replace("real<lower=0> beta_sd;", "")
    text = text.replace("vector<lower=0>[N] sun;", "").replace("beta * sun", "beta * plot[1]")
    path.write_text(text.replace("beta_sd", "1"))
    assert f"next: pyflowers models {path}" in new(path, "--data", table)[1]
    assert find_program(path).read(table).y.tolist() == [2, 1, 0]


def test_a_header_over_two_lines_stays_in_its_comment():
    text = drafted("bees.stan", ["hive", "number of\nbees"], read_blocks(PROGRAM))
    assert text.splitlines()[1] == "# hive, number of bees"
    assert tomllib.loads(text)


def test_places_and_names_that_cannot_be(new, tmp_path):
    """Nothing is overwritten, and nothing is written if one of the files cannot be written."""
    (tmp_path / "mine.toml").write_text("mine")
    (tmp_path / "bees.csv").write_text(TABLE)
    for words, message in (
        (("mine", "--from", "iid_normal"), "mine.toml already exists; choose another name"),
        (("mine.toml/a", "--from", "iid_normal"), "mine.toml/a.stan cannot be written ("),
        (("b", "--from", "multilevel_poison"), "did you mean multilevel_poisson?"),
        (("gone.stan", "--data", tmp_path / "bees.csv"), "gone.stan: no such Stan program"),
    ):
        status, printed = new(tmp_path / words[0], *words[1:])
        assert status == 1
        assert message in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bees.csv", "mine.toml"]
    assert (tmp_path / "mine.toml").read_text() == "mine"
