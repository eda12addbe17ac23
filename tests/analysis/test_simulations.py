"""Posterior SBC: the computation at one data set, of right programs and of one with a mistake."""

import numpy as np
import pytest

import pyflowers
from pyflowers.analysis.calibration import simulate_from_posterior
from pyflowers.cli.main import main
from pyflowers.engines import SamplerOptions
from pyflowers.errors import ConfigError

QUICK = {"chains": 2, "warmup": 200, "draws": 300, "adapt_delta": 0.9}
HOW = {"seed": 1, "engine": "stanli", "options": QUICK, "num_ranks": 50, "posterior": True}


OWN = """
data {
  int<lower=1> N;
  array[N] int<lower=0> y;
  array[N] int<lower=0, upper=1> held_out;
}
parameters {
  real mu;
  vector<multiplier=0.5>[N] b;
}
model {
  mu ~ normal(1, 1);
  b ~ normal(0, 0.5);
  for (n in 1 : N) {
    if (held_out[n] == 0) {
      y[n] ~ poisson_log(mu + b[n]);
    }
  }
}
generated quantities {
  array[N] int<lower=0> y_rep = poisson_log_rng(mu + b);
}
"""

DATA = {"N": 12, "y": [4, 5, 6, 4, 0, 2, 5, 3, 8, 6, 10, 8], "held_out": [0] * 12}


@pytest.mark.parametrize(("factor", "is_right"), [("", True), (" + 0.7", False)])
def test_a_likelihood_that_is_not_that_of_new_data_is_seen(tmp_path, own_program, factor, is_right):
    """The planted bug: a Poisson log rate off by a constant."""
    program = own_program("effects", OWN.replace("(mu + b[n])", f"(mu + b[n]{factor})"))
    found = pyflowers.sbc(program, DATA, out=tmp_path / "sbc", sims=40, **HOW)
    assert len(found.batch.failures) == 0
    assert "b[24]" in found.quantities
    assert ("mu" not in found.failed) == is_right
    if is_right:
        assert found.failed == []
        assert found.num_fits == 40


def test_parameters_are_those_of_the_observed_data(tmp_path):
    found = pyflowers.sbc("multilevel_poisson", out=tmp_path / "sbc", sims=20, **HOW)
    assert found.failed == []
    assert found.quantities[-1] == "log_lik"
    assert "a wrong prior is not seen" in " ".join(found.notes)
    # The third plant has 8 flowers a month; the prior's sd on the log scale is 100.
    rates = found.ranks.loc[found.ranks["parameter"] == "mu_plant[3]", "true"]
    assert abs(rates.mean() - 8) < 4 * 1.4 / np.sqrt(20)


def test_new_observations_have_effects_of_their_own(tmp_path, own_program):
    program = own_program("effects", OWN)
    data = {"N": 4, "y": [9, 0, 2, 3], "held_out": [0] * 4}
    options = SamplerOptions.of(seed=1, **QUICK)
    made = simulate_from_posterior(program, program.read(data), options, engine="stanli")
    assert made.y_rep.shape == (2, 300, 8)
    assert (made.y_rep[..., :4] == [9, 0, 2, 3]).all()
    assert made.data["N"] == 8
    assert made.data["held_out"].tolist() == [0] * 8
    # The first observation is far from its population; a new one at its place is not.
    old, new = (made.draws["b"][..., i].mean() for i in (0, 4))
    assert old > 0.3
    assert abs(new) < 4 * 0.5 / np.sqrt(200)


def never(num: int, seed: int):
    raise AssertionError("nothing is simulated")


def test_data_that_cannot_grow_are_refused(tmp_path, own_program):
    each = OWN.replace("  array[N] int<lower=0, upper=1> held_out;\n", "")
    each = each.replace("held_out[n] == 0", "1")
    data = {"N": 2, "y": [1, 2]}
    with pytest.raises(ConfigError, match=r"b has a value for each observation, .* held_out"):
        pyflowers.sbc(own_program("each", each), data, out=tmp_path / "a", sims=4, **HOW)
    fixed = OWN.replace("array[N] int<lower=0> y;", "array[4] int<lower=0> y;")
    with pytest.raises(ConfigError, match="the size of y is not a variable of the data block"):
        pyflowers.sbc(own_program("fixed", fixed), data, out=tmp_path / "a", sims=4, **HOW)
    square = OWN.replace("int<lower=0, upper=1> held_out;", "int held_out; matrix[2, N] x;")
    with pytest.raises(ConfigError, match="how x grows with N is not plain"):
        pyflowers.sbc(own_program("square", square), data, out=tmp_path / "a", sims=4, **HOW)
    with pytest.raises(ConfigError, match="posterior: it simulates by itself"):
        pyflowers.sbc("iid_normal", out=tmp_path / "a", sims=4, simulate=never, **HOW)
    assert not (tmp_path / "a").exists()


def test_the_command_takes_the_posterior(tmp_path, capsys):
    words = ["sbc", "iid_normal", "--posterior", "--sims", "6", "--seed", "1", "--engine", "stanli"]
    words += ["--chains", "2", "--warmup", "200", "--draws", "200", "--out", str(tmp_path / "sbc")]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert (ended.value.code or 0) == 0
    said = capsys.readouterr().out
    assert "all 3 quantities are calibrated" in said
    assert "a wrong prior is not seen" in said
