"""Fits: labels, seeds, errors, run folders, programs of the user's own."""

import json
import logging

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import pyflowers
from pyflowers import runs
from pyflowers.errors import CompileError, ConfigError, DataError, FitError
from pyflowers.sampling import SamplerOptions, new_seed

QUICK = {"warmup": 100, "draws": 100, "cmdstan": "embedded"}


def frame(labels=("Rose, rot", "007")):
    cells = [(p, f"M{t}", y) for p in labels for t, y in enumerate((4, 2, 7, 5))]
    return pd.DataFrame(cells, columns=["plant", "month", "flowers"])


def test_the_result_carries_the_users_labels(lecture_fits):
    fit = lecture_fits["multilevel_normal"]
    assert fit.idata.groups() == [
        *("posterior", "posterior_predictive", "log_likelihood", "sample_stats"),
        *("observed_data", "constant_data"),
    ]
    assert dict(fit.posterior.sizes) == {"chain": 4, "draw": 1000, "plant": 3}
    assert list(fit.posterior) == ["mu", "sigma2", "mu_plant", "sigma2_plant"]
    assert fit.posterior["plant"].values.tolist() == ["1", "2", "3"]
    observed = fit.idata.observed_data["y"]
    assert observed["plant"].values.tolist() == list("111122223333")
    assert observed["month"].values.tolist() == list("123412341234")
    assert fit.idata.log_likelihood["y"].dims == ("chain", "draw", "obs")
    assert fit.idata.sample_stats["diverging"].dtype == bool


def test_length_one_dimensions_stay(executables):
    fit = pyflowers.fit("multilevel_poisson", frame(["only"]), seed=1, chains=1, **QUICK)
    assert fit.posterior["mu_plant"].dims == ("chain", "draw", "plant")
    assert fit.posterior["mu_plant"].shape == (1, 100, 1)
    assert "mu_plant[only]" in fit.summary().index
    assert "single plant" in fit.record["warnings"][0]


def test_a_seed_repeats_the_draws_and_zero_is_one(executables):
    fits = [pyflowers.fit("iid_normal", frame(), seed=seed, **QUICK) for seed in (0, 0, 1)]
    assert fits[0].record["options"]["seed"] == 0
    assert fits[0].posterior.equals(fits[1].posterior)
    assert not fits[0].posterior.equals(fits[2].posterior)
    assert_array_equal(fits[0].posterior_predictive(), fits[1].posterior_predictive())


def test_a_seed_that_was_not_given_is_recorded_and_repeats(executables):
    fit = pyflowers.fit("iid_normal", frame(), **QUICK)
    again = pyflowers.fit("iid_normal", frame(), seed=fit.record["options"]["seed"], **QUICK)
    assert fit.posterior.equals(again.posterior)


def test_drawn_seeds_cover_the_whole_range():
    seeds = np.array([new_seed() for _ in range(4000)])
    assert seeds.min() >= 0
    assert seeds.max() < 2**32
    counts = np.histogram(seeds, bins=8, range=(0, 2**32))[0]
    assert ((counts - 500) ** 2 / 500).sum() < 40.5  # χ²(7) at 1e-6


BAD_OPTIONS = [
    ({"seed": -1}, "seed must be a whole number from 0 to 4294967295, was -1"),
    ({"seed": 2**32}, "seed must be a whole number from 0 to 4294967295"),
    ({"seed": True}, "seed must be a whole number"),
    ({"chains": 0}, "chains must be a whole number from 1"),
    ({"draws": 0}, "draws must be a whole number from 1"),
    ({"warmup": -5}, "warmup must be a whole number from 0"),
    ({"thin": 1.5}, "thin must be a whole number"),
    ({"adapt_delta": 1.0}, "adapt_delta must lie between 0 and 1, was 1.0"),
    ({"adapt_delta": "high"}, "adapt_delta must lie between 0 and 1, was 'high'"),
    ({"max_treedepth": 0}, "max_treedepth must be a whole number from 1"),
]


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS)
def test_a_bad_option_is_one_sentence(options, message):
    with pytest.raises(ConfigError) as caught:
        SamplerOptions(**{"seed": 1, **options})
    assert message in str(caught.value)


def test_bad_input_is_refused_before_anything_is_compiled(monkeypatch):
    monkeypatch.setenv("CMDSTAN", "/nowhere")
    with pytest.raises(DataError, match="but counts are whole numbers"):
        pyflowers.fit("multilevel_poisson", frame().assign(flowers=1.5))
    with pytest.raises(ConfigError, match="no such prior"):
        pyflowers.fit("iid_normal", frame(), priors={"tau": 1})
    with pytest.raises(DataError, match="a list is no table"):
        pyflowers.fit("iid_normal", [1, 2])


def test_a_run_folder_holds_everything_and_comes_back(lecture_fits, tmp_path):
    fit = lecture_fits["multilevel_poisson"]
    folder = fit.save(tmp_path / "run ü")
    files = {path.name for path in folder.iterdir()}
    assert files == {"draws.nc", "summary.csv", "diagnostics.json", "run.json", "plots"}
    back = pyflowers.Fit.load(folder)
    assert back.posterior.equals(fit.posterior)
    assert back.data.sha256 == fit.data.sha256
    assert back.record == {**fit.record, "format": runs.FORMAT, "omitted_groups": []}
    pd.testing.assert_frame_equal(back.summary(), fit.summary())
    assert str(back.diagnostics) == str(fit.diagnostics)
    record = json.loads((folder / "run.json").read_text())
    assert record["options"]["seed"] == 1
    assert record["versions"]["stan"] == "2.35.0"
    assert [path.name for path in tmp_path.iterdir()] == ["run ü"]


def test_a_folder_that_is_no_run_is_left_alone(lecture_fits, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="holds something that is no run"):
        lecture_fits["iid_normal"].save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(ConfigError, match="it is a file"):
        lecture_fits["iid_normal"].save(tmp_path / "thesis.tex")
    with pytest.raises(DataError, match="no run folder"):
        pyflowers.Fit.load(tmp_path)


def test_the_summary_leads_with_the_median_where_moments_are_missing(lecture_fits):
    table = lecture_fits["multilevel_normal"].summary()
    assert table.columns[0] == "median"
    assert table.loc["sigma2_plant[1]", ["mean", "sd", "mcse_mean"]].isna().all()
    assert np.isfinite(table.loc["sigma2", "mean"])
    assert np.isnan(table.loc["sigma2", "sd"])
    assert any("sigma2_plant: its posterior mean does not exist" in n for n in table.attrs["notes"])
    plain = lecture_fits["iid_normal"].summary()
    assert plain.columns.tolist()[:5] == ["mean", "sd", "median", "5%", "95%"]
    assert plain.attrs["notes"] == []


OWN = """
data { int<lower=0> N; array[N] int<lower=0, upper=1> y; }
parameters { real<lower=0, upper=1> theta; vector[1] z; matrix[2, 2] m; }
model { y ~ bernoulli(theta); z ~ std_normal(); to_vector(m) ~ std_normal(); }
generated quantities {
  int k = bernoulli_rng(theta);
  vector[N] log_lik;
  array[N] int y_rep;
  for (n in 1 : N) {
    log_lik[n] = bernoulli_lpmf(y[n] | theta);
    y_rep[n] = bernoulli_rng(theta);
  }
}
"""


def test_a_users_own_program_takes_the_same_path(compiled, tmp_path):
    program = compiled(tmp_path, "own", OWN).program
    data = tmp_path / "data.json"
    data.write_text('{"N": 4, "y": [1, 0, 1, 1]}')
    fit = pyflowers.fit(program, data, seed=3, cmdstan="embedded")
    assert fit.posterior["z"].dims == ("chain", "draw", "z_dim_0")
    assert fit.posterior["m"].shape == (4, 1000, 2, 2)
    assert fit.posterior["k"].dtype == np.int64
    assert fit.idata.log_likelihood["y"].shape == (4, 1000, 4)
    assert fit.idata.posterior_predictive["y"].dtype == np.int64
    # Beta(1 + 3, 1 + 1) has mean 2/3.
    theta = fit.summary().loc["theta"]
    assert abs(theta["mean"] - 2 / 3) < 4 * theta["mcse_mean"]
    assert "m[0,1]" in fit.summary().index
    mapped = pyflowers.fit(program, {"N": 4, "y": [1, 0, 1, 1]}, seed=3, cmdstan="embedded")
    assert mapped.posterior.equals(fit.posterior)
    again = pyflowers.Fit.load(fit.save(tmp_path / "run"))
    assert again.posterior.equals(fit.posterior)
    with pytest.raises(ConfigError, match="your own program"):
        fit.log_likelihood()


def test_a_program_without_parameters_is_simulated(driver_program, executables):
    program = next(p for p in executables if p.stem == "simulate")
    fit = pyflowers.fit(program, {"N": 3, "rate": 5.0}, seed=1, chains=2, draws=50)
    assert fit.posterior["y_sim"].shape == (2, 50, 3)
    assert {check.name for check in fit.diagnostics.checks} == {"R-hat", "bulk ESS", "tail ESS"}


FAILING = """
data { int<lower=0> N; }
parameters { real<lower=0> sigma; }
model { sigma ~ exponential(1); if (N > 1) reject("N is too large, was ", N); }
"""


def test_a_failed_chain_is_an_error_with_stans_message(compiled, tmp_path):
    program = compiled(tmp_path, "failing", FAILING).program
    with pytest.raises(FitError, match="N is too large, was 7"):
        pyflowers.fit(program, {"N": 7}, seed=1, cmdstan="embedded")
    with pytest.raises(FitError, match="variable name=N"):
        pyflowers.fit(program, {}, seed=1, cmdstan="embedded")
    with pytest.raises(FitError, match="N is -1, but must be greater than or equal to 0"):
        pyflowers.fit(program, {"N": -1}, seed=1, cmdstan="embedded")


ONE_FAILS = """
transformed data { int lucky = uniform_rng(0, 1) < 0.5; }
parameters { real x; }
model { x ~ std_normal(); if (!lucky) reject("this chain has no luck"); }
"""


def test_one_failed_chain_of_several_is_an_error_too(compiled, tmp_path):
    program = compiled(tmp_path, "one_fails", ONE_FAILS).program
    outcomes = []
    for seed in range(8):
        try:
            pyflowers.fit(program, seed=seed, chains=1, cmdstan="embedded", draws=20)
            outcomes.append(True)
        except FitError:
            outcomes.append(False)
    assert {True, False} == set(outcomes)


NOISY = """
parameters { real x; real<lower=0> s; }
model { s ~ exponential(1); x ~ normal(0, s < 0.5 ? 0 : s); }
"""


def test_stans_informational_messages_are_counted(compiled, tmp_path, caplog, capfd):
    program = compiled(tmp_path, "noisy", NOISY).program
    with caplog.at_level(logging.DEBUG):
        fit = pyflowers.fit(program, seed=2, inits=1, cmdstan="embedded")
    (message, count), *rest = fit.record["messages"].items()
    assert "Scale parameter is 0, but must be positive" in message
    assert count > 10
    assert not rest
    assert "Scale parameter" not in caplog.text + "".join(capfd.readouterr())


def test_programs_and_data_of_the_user_that_are_wrong(cmdstan, tmp_path):
    (tmp_path / "broken.stan").write_text("model { x }")
    with pytest.raises(CompileError, match=r"broken\.stan"):
        pyflowers.fit(tmp_path / "broken.stan", {}, cmdstan="embedded")
    (tmp_path / "data.json").write_text("{")
    with pytest.raises(DataError, match="it is not JSON"):
        pyflowers.fit(tmp_path / "broken.stan", tmp_path / "data.json")
    with pytest.raises(DataError, match="no such file"):
        pyflowers.fit(tmp_path / "broken.stan", tmp_path / "absent.json")
    with pytest.raises(ConfigError, match="your own program"):
        pyflowers.fit(tmp_path / "broken.stan", {}, priors={"mu_sd": 1})


def test_large_groups_are_left_to_their_methods(lecture_fits, monkeypatch, tmp_path):
    monkeypatch.setattr(pyflowers.fitting, "LARGEST_GROUP", 1000)
    fit = pyflowers.Fit(lecture_fits["iid_normal"].base, lecture_fits["iid_normal"].record)
    assert "log_likelihood" not in fit.idata.groups()
    assert fit.log_likelihood().shape == (4, 1000, 12)
    record = json.loads((fit.save(tmp_path / "run") / "run.json").read_text())
    assert record["omitted_groups"] == ["log_likelihood", "posterior_predictive"]
