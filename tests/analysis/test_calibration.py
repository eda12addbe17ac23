"""Simulation-based calibration: correct programs pass, and planted bugs are detected.

Parameters are drawn from the prior, or from the posterior of one data set.
"""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from command_line import run
from matplotlib.figure import Figure

import pyflowers
from pyflowers.analysis.calibration import Calibration, simulate_from_posterior
from pyflowers.errors import ConfigError
from pyflowers.fits.spec import Spec
from pyflowers.plots import alt_text
from pyflowers.plots import calibration as figure_of
from pyflowers.programs import Program, find_program

NORMAL = {"mu_mean": 5, "mu_sd": 2, "sigma2_nu": 6}
PRIORS = {
    "iid_normal": NORMAL,
    "multilevel_normal": {**NORMAL, "sigma2_plant_nu": 6, "sigma2_plant_scale": 2},
    "multilevel_poisson": {"mu_mean": 1.5, "mu_sd": 0.5, "sigma2_nu": 6, "sigma2_scale": 0.5},
}
QUICK = {"chains": 2, "warmup": 300, "draws": 500, "adapt_delta": 0.95}
QUICKER = {"chains": 2, "warmup": 200, "draws": 300, "adapt_delta": 0.9}
POSTERIOR = {"seed": 1, "engine": "stanli", **QUICKER, "num_ranks": 50, "posterior": True}


def calibrated(program, name, out, sims, engine="stanli", **more):
    usual = {} if engine == "exact" else QUICK
    return pyflowers.sbc(
        program,
        out=out,
        sims=sims,
        seed=1,
        priors=PRIORS[name],
        engine=engine,
        cmdstan="embedded" if engine == "cmdstan" else None,
        num_ranks=more.pop("num_ranks", 50),
        **{**usual, **more},
    )


def test_a_right_program_is_calibrated(tmp_path):
    found = calibrated("iid_normal", "iid_normal", tmp_path / "sbc", 120)
    assert found.failed == []
    assert found.num_fits == 120
    assert found.num_draws == 50
    assert found.quantities == ["mu", "sigma2", "log_lik"]
    table = found.table()
    # The standard deviations of the coverages over 120 fits are 0.046 and 0.027.
    assert ((table["coverage_50"] - 0.5).abs() < 4 * 0.046).all()
    assert ((table["coverage_90"] - 0.9).abs() < 4 * 0.027).all()
    assert table.loc["mu", "contraction"] > 0.5
    assert "inside the 99.99% simultaneous band over 120 fits" in " ".join(str(found).split())
    assert "iid_normal over 120 simulated data sets" in alt_text(figure_of(found))
    # The average of the true values is close to the prior's mean.
    mu = found.ranks.loc[found.ranks["parameter"] == "mu", "true"]
    assert abs(mu.mean() - 5) < 4 * 2 / np.sqrt(120)
    again = calibrated("iid_normal", "iid_normal", tmp_path / "sbc", 120)
    pd.testing.assert_frame_equal(again.ranks, found.ranks)


BUGS = {
    "prior scale": ("multilevel_poisson", "normal(mu_mean, mu_sd)", "normal(mu_mean, mu_sd / 1.5)"),
    "rate": ("multilevel_poisson", "exp(log_mu_plant)", "exp(log_mu_plant + 0.3)"),
    "index": ("multilevel_poisson", "y_total[plant[n]] += y[n]", "y_total[plant[1]] += y[n]"),
    "variance for sd": ("multilevel_poisson", "normal(mu, sqrt(sigma2))", "normal(mu, sigma2)"),
    "lost Jacobian": (
        "multilevel_poisson",
        "sigma2 ~ scaled_inv_chi_square(sigma2_nu, sigma2_scale);",
        "sigma2 ~ scaled_inv_chi_square(sigma2_nu, sigma2_scale);\n  target += -log(sigma2);",
    ),
}


def planted(bug, folder):
    """Return a shipped program with a mistake in its Stan code."""
    name, right, wrong = BUGS[bug]
    shipped = find_program(name)
    text = shipped.path.read_text()
    assert text.count(right) == 1
    path = folder / f"{name}.stan"
    path.write_text(text.replace(right, wrong))
    path.with_suffix(".toml").write_text(shipped.path.with_suffix(".toml").read_text())
    program = Program.open(path)

    def simulate(num, seed):
        """Draw from the intended prior, with the shipped program."""
        made = pyflowers.prior(name, draws=num, seed=seed, priors=PRIORS[name])
        return replace(made, program=program)

    return program, name, simulate


@pytest.mark.parametrize(
    ("bug", "sims"),
    [
        ("rate", 120),
        pytest.param("index", 120, marks=pytest.mark.slow),
        pytest.param("variance for sd", 150, marks=pytest.mark.slow),
        pytest.param("prior scale", 300, marks=pytest.mark.slow),
        pytest.param("lost Jacobian", 300, marks=pytest.mark.slow),
    ],
)
def test_a_planted_bug_is_seen(bug, sims, tmp_path):
    program, name, simulate = planted(bug, tmp_path)
    found = calibrated(program, name, tmp_path / "sbc", sims, simulate=simulate)
    assert len(found.batch.failures) == 0
    assert found.failed != []
    assert "not calibrated: " in str(found)


def test_a_quantity_of_the_users_own_is_ranked(tmp_path, monkeypatch):
    (tmp_path / "own_quantity.py").write_text(
        "def total(draws, data):\n    return draws['mu_plant'].sum(-1)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = calibrated(
        "multilevel_poisson",
        "multilevel_poisson",
        tmp_path / "sbc",
        10,
        quantities=["own_quantity:total"],
    )
    assert found.quantities[-1] == "total"
    rows = found.ranks.set_index(["task", "parameter"])["true"].unstack()
    means = rows[[f"mu_plant[{i}]" for i in (1, 2, 3)]].sum(axis=1)
    assert np.allclose(rows["total"], means)


@pytest.mark.slow
def test_draws_of_a_prior_by_markov_chains_are_spread(tmp_path, own_program):
    text = """data { int<lower=1> N; vector[N] y; int<lower=0, upper=1> prior_only; }
    parameters { real mu; } model { mu ~ normal(0, 1); if (!prior_only) y ~ normal(mu, 1); }
    generated quantities { array[N] real y_rep = normal_rng(rep_vector(mu, N), 1); }"""
    program = own_program("chained", text)
    data = {"N": 4, "y": [0.0] * 4}
    found = pyflowers.sbc(
        program, data, out=tmp_path / "sbc", sims=60, seed=1, engine="stanli", **QUICK
    )
    assert len(found.batch.failures) == 0
    true = found.ranks["true"].to_numpy()
    assert len(np.unique(true)) == len(true) == 60
    assert abs(np.corrcoef(true[1:], true[:-1])[0, 1]) < 4 / np.sqrt(60)
    assert found.simulator_is_program
    assert found.failed == []


def test_what_cannot_be_calibrated_is_refused(tmp_path, own_program):
    with pytest.raises(ConfigError, match="sigma2_plant has an improper prior"):
        pyflowers.sbc("multilevel_normal", out=tmp_path / "a", sims=4, engine="stanli")
    with pytest.raises(ConfigError, match="sims must be a whole number of at least 1, got 0"):
        calibrated("iid_normal", "iid_normal", tmp_path / "a", 0)
    with pytest.raises(ConfigError, match="num_ranks must lie between 50 and the 1000 draws"):
        calibrated("iid_normal", "iid_normal", tmp_path / "a", 4, num_ranks=10)
    # Thinning leaves fewer draws than the requested ranks.
    with pytest.raises(ConfigError, match="num_ranks must lie between 50 and the 40 draws"):
        calibrated("iid_normal", "iid_normal", tmp_path / "a", 4, thin=25)
    bare = own_program("bare", "parameters { real x; } model { x ~ normal(0, 1); }")
    with pytest.raises(ConfigError, match="bare has no prior_only"):
        pyflowers.sbc(bare, out=tmp_path / "a", sims=4, engine="stanli")
    assert not (tmp_path / "a").exists()


@pytest.mark.slow
def test_a_formula_with_linked_columns_is_calibrated(tmp_path):
    rng = np.random.default_rng(1)
    units = [f"u{i}" for i in range(6)]
    frame = pd.DataFrame(itertools.product(units, (2005.0, 2012.0, 2020.0)), columns=["g", "year"])
    frame["arm"] = np.where(frame.g.isin(units[::2]), "a", "b")
    frame["y"] = rng.normal(10, 1, len(frame))
    found = pyflowers.sbc(
        "y ~ year * arm + (1 | g)",
        frame,
        out=tmp_path / "sbc",
        sims=6,
        seed=1,
        engine="stanli",
        num_ranks=50,
        chains=2,
        warmup=100,
        draws=100,
    )
    assert (found.num_fits, len(found.batch.failures)) == (6, 0)
    assert {"b[1]", "b[2]", "b[3]"} <= set(found.quantities)


@pytest.mark.slow
def test_failed_and_doubtful_fits_stay_in_the_record(tmp_path):
    # Such a wide prior implies counts that Stan cannot hold, and posteriors that are hard to
    # sample.
    wide = {"mu_mean": 15, "mu_sd": 10}
    found = pyflowers.sbc(
        "multilevel_poisson",
        out=tmp_path / "sbc",
        sims=20,
        seed=2,
        priors=wide,
        engine="stanli",
        num_ranks=50,
        chains=2,
        warmup=100,
        draws=100,
    )
    failures = found.batch.failures
    assert len(failures) > 0
    assert found.num_fits + len(failures) == 20
    assert found.num_doubtful > 0
    notes = " ".join(found.notes)
    assert f"{len(failures)} of 20 fits failed and have no ranks" in notes
    assert "counted anyway" in notes
    dropped = replace(found, drop=True)
    assert dropped.num_fits == found.num_fits - found.num_doubtful
    assert "left out" in " ".join(dropped.notes)
    all_dropped = replace(dropped)
    all_dropped.__dict__["_all"] = found.ranks.assign(divergent=1)
    with pytest.raises(ConfigError, match="every fit failed or was left out"):
        str(all_dropped.sentence)


@pytest.mark.slow
def test_a_calibration_without_a_seed_goes_on_where_it_stopped(tmp_path):
    how = {"out": tmp_path / "sbc", "priors": NORMAL, "engine": "exact", "draws": 100}
    some = pyflowers.sbc("iid_normal", sims=3, **how)
    fitted = some.batch.ledger()[["key", "seed", "seconds"]]
    more = pyflowers.sbc("iid_normal", sims=3, **how)
    assert more.seed == some.seed
    pd.testing.assert_frame_equal(more.batch.ledger()[["key", "seed", "seconds"]], fitted)
    other = pyflowers.sbc("iid_normal", sims=3, **{**how, "out": tmp_path / "other"})
    assert other.seed != some.seed


@pytest.mark.slow
def test_the_command(tmp_path, capsys):
    how = ["--seed", "1", "--engine", "stanli", "--chains", "2", "--warmup", "200"]
    words = ["sbc", "iid_normal", *how, "--sims", "20", "--draws", "300", "--out", tmp_path / "sbc"]
    priors = [word for each in NORMAL.items() for word in ("--prior", "{}={}".format(*each))]
    assert run(*words, *priors) == 0
    assert "verdict: all 3 quantities are calibrated" in capsys.readouterr().out
    assert len(pd.read_csv(tmp_path / "sbc" / "calibration.csv")) == 3
    assert (tmp_path / "sbc" / "calibration.png").is_file()
    words = ["sbc", "iid_normal", *how, "--sims", "6", "--draws", "200", "--out", tmp_path / "post"]
    assert run(*words, "--posterior") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "all 3 quantities are calibrated" in said
    assert "cannot detect a wrong prior" in said


def test_independent_draws_are_calibrated(tmp_path):
    found = calibrated("iid_normal", "iid_normal", tmp_path / "sbc", 120, "exact", draws=100)
    assert (found.num_fits, found.failed) == (120, [])


def test_a_calibration_whose_fits_all_failed_says_why(tmp_path, own_program):
    text = """
    data { int N; array[N] int y; int prior_only; }
    parameters { real<lower=0> rate; }
    model {
      rate ~ exponential(1);
      if (!prior_only) reject("nothing is accepted");
    }
    generated quantities { array[N] int y_rep; for (n in 1:N) y_rep[n] = poisson_rng(rate); }
    """
    program = own_program("rejecting", text)
    found = pyflowers.sbc(
        program,
        {"N": 2, "y": [1, 2]},
        out=tmp_path / "sbc",
        sims=4,
        seed=1,
        engine="stanli",
        num_ranks=50,
        **QUICK,
    )
    with pytest.raises(ConfigError, match=r"no fit has finished \(4 failed\); the first error"):
        found.table()


@pytest.mark.campaign
@pytest.mark.parametrize("name", list(PRIORS))
def test_a_thousand_simulations(name, tmp_path):
    """One engine is used here; scripts/calibration, which writes docs/calibration.md, uses both."""
    found: Calibration = calibrated(
        name, name, tmp_path / "sbc", 1000, num_ranks=100, warmup=1000, draws=1000, chains=4
    )
    assert found.num_fits == 1000
    assert found.failed == []


def test_a_calibration_that_was_interrupted_is_written_again(tmp_path):
    found = calibrated("iid_normal", "iid_normal", tmp_path / "sbc", 2)
    figure = Figure(figsize=(1, 1))

    class Interrupting:
        def savefig(self, *_, **__):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        found.save({"calibration.png": Interrupting()})
    found.save({"calibration.png": figure})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "calibration.json").write_text("mine")
    with pytest.raises(ConfigError, match=r"calibration\.json already exists"):
        calibrated("iid_normal", "iid_normal", tmp_path / "other", 2)


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


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "is_right"), [("", True), (" + 0.7", False)])
def test_a_likelihood_that_is_not_that_of_new_data_is_seen(tmp_path, own_program, factor, is_right):
    """The planted bug is a Poisson log rate that is off by a constant."""
    program = own_program("effects", OWN.replace("(mu + b[n])", f"(mu + b[n]{factor})"))
    found = pyflowers.sbc(program, DATA, out=tmp_path / "sbc", sims=40, **POSTERIOR)
    assert len(found.batch.failures) == 0
    assert "b[24]" in found.quantities
    assert ("mu" not in found.failed) == is_right
    if is_right:
        assert found.failed == []
        assert found.num_fits == 40


@pytest.mark.slow
def test_parameters_are_those_of_the_observed_data(tmp_path):
    found = pyflowers.sbc("multilevel_poisson", out=tmp_path / "sbc", sims=20, **POSTERIOR)
    assert found.failed == []
    assert found.quantities[-1] == "log_lik"
    assert "cannot detect a wrong prior" in " ".join(found.notes)
    # The third plant has 8 flowers a month; the prior's sd on the log scale is 100.
    rates = found.ranks.loc[found.ranks["parameter"] == "mu_plant[3]", "true"]
    assert abs(rates.mean() - 8) < 4 * 1.4 / np.sqrt(20)


def test_new_observations_have_effects_of_their_own(tmp_path, own_program):
    program = own_program("effects", OWN)
    data = {"N": 4, "y": [9, 0, 2, 3], "held_out": [0] * 4}
    spec = Spec(program, data, seed=1, engine="stanli", **QUICKER)
    made = simulate_from_posterior(spec, draws=300)
    assert made.y_rep.shape == (2, 300, 8)
    assert (made.y_rep[..., :4] == [9, 0, 2, 3]).all()
    assert made.data["N"] == 8
    assert made.data["held_out"].tolist() == [0] * 8
    # The first observation is far from the population mean; its simulated counterpart is not.
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
        pyflowers.sbc(own_program("each", each), data, out=tmp_path / "a", sims=4, **POSTERIOR)
    fixed = OWN.replace("array[N] int<lower=0> y;", "array[4] int<lower=0> y;")
    with pytest.raises(ConfigError, match="the size of y is not a variable of the data block"):
        pyflowers.sbc(own_program("fixed", fixed), data, out=tmp_path / "a", sims=4, **POSTERIOR)
    square = OWN.replace("int<lower=0, upper=1> held_out;", "int held_out; matrix[2, N] x;")
    with pytest.raises(ConfigError, match="the sizes of x depend on N; use N only as the first"):
        pyflowers.sbc(own_program("square", square), data, out=tmp_path / "a", sims=4, **POSTERIOR)
    with pytest.raises(ConfigError, match="returned 4 data sets for 8 simulations; return at"):
        pyflowers.sbc(
            "iid_normal",
            out=tmp_path / "a",
            sims=8,
            seed=1,
            engine="stanli",
            simulate=lambda num, seed: pyflowers.prior("iid_normal", draws=4, seed=seed),
        )
    with pytest.raises(ConfigError, match="posterior=True and simulate=… cannot be combined"):
        pyflowers.sbc("iid_normal", out=tmp_path / "a", sims=4, simulate=never, **POSTERIOR)
    assert not (tmp_path / "a").exists()
