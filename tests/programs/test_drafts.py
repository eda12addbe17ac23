"""New programs: copies of shipped ones and drafted declarations, and nothing overwritten."""

import tomllib

import numpy as np
import pytest

import pyflowers
from pyflowers.cli.main import main
from pyflowers.errors import ConfigError
from pyflowers.programs import Capability, find_program
from pyflowers.programs.drafts import copy_shipped, draft_declaration, lost_capabilities, write_new

SHIPPED = ("iid_normal", "multilevel_normal", "multilevel_poisson", "semiconjugate_normal")
QUICK = {"seed": 1, "chains": 2, "warmup": 200, "draws": 100}

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


def run(*words):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code or 0


@pytest.mark.parametrize("name", SHIPPED)
def test_a_copy_computes_in_stan_what_is_in_python_for_the_shipped_program(name, tmp_path):
    path = tmp_path / "mine.stan"
    write_new(copy_shipped(name, path))
    copy, shipped = find_program(path), find_program(name)
    for capability in (Capability.LOG_LIK, Capability.Y_REP):
        assert copy.can(capability)
    fit = pyflowers.fit(copy, shipped.read().table, engine="stanli", **QUICK)
    own = shipped.log_lik(fit.draws, fit.data)
    np.testing.assert_allclose(fit.log_likelihood(), own, rtol=1e-10)


def test_what_a_copy_cannot_do_is_said(tmp_path, capsys):
    assert lost_capabilities(find_program("multilevel_poisson")) == ["exact"]
    assert run("new", tmp_path / "mine", "--from", "multilevel_normal") == 0
    printed = capsys.readouterr().out
    assert "exact and vb are written in Python for multilevel_normal" in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.stan", "mine.toml"]


def test_a_draft_says_what_is_known_and_marks_the_rest(tmp_path, capsys):
    (tmp_path / "bees.stan").write_text(PROGRAM)
    (tmp_path / "bees.csv").write_text(TABLE)
    assert run("new", tmp_path / "bees.stan", "--data", tmp_path / "bees.csv") == 0
    assert (tmp_path / "bees.toml").read_text() == DRAFT
    assert "fill in the marked lines" in capsys.readouterr().out


def test_a_draft_without_gaps_says_so_and_its_program_can_be_checked(tmp_path, capsys):
    text = PROGRAM.replace("vector[2] weights;", "").replace("real<lower=0> beta_sd;", "")
    text = text.replace("vector<lower=0>[N] sun;", "").replace("beta * sun", "beta * plot[1]")
    path = tmp_path / "bees.stan"
    path.write_text(text.replace("beta_sd", "1"))
    (tmp_path / "bees.csv").write_text(TABLE)
    assert run("new", path, "--data", tmp_path / "bees.csv") == 0
    assert f"next: pyflowers models {path}" in capsys.readouterr().out
    drafted = find_program(path)
    assert drafted.can(Capability.OBSERVED)
    assert drafted.read(tmp_path / "bees.csv").y.tolist() == [2, 1, 0]


def test_a_header_over_two_lines_stays_in_its_comment(tmp_path):
    (tmp_path / "bees.stan").write_text(PROGRAM)
    text = draft_declaration(tmp_path / "bees.stan", ["hive", "number of\nbees"], ())
    assert text.splitlines()[1] == "# hive, number of bees"
    assert tomllib.loads(text)


def test_nothing_is_overwritten(tmp_path, capsys):
    (tmp_path / "mine.toml").write_text("mine")
    assert run("new", tmp_path / "mine", "--from", "iid_normal") == 1
    assert "mine.toml: it already exists; choose another name" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]
    assert (tmp_path / "mine.toml").read_text() == "mine"


def test_places_and_names_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file/mine.stan: it cannot be written \(.+\); choose"):
        write_new({tmp_path / "file" / "mine.stan": ""})
    with pytest.raises(ConfigError, match="multilevel_poison"):
        copy_shipped("multilevel_poison", tmp_path / "mine.stan")
    with pytest.raises(ConfigError, match=r"gone\.stan"):
        draft_declaration(tmp_path / "gone.stan", ["y"], ())
