"""Fits: labels, seeds, options, errors, and user programs."""

import json
import logging
import threading
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from arviz_calls import names_of_groups
from numpy.testing import assert_array_equal
from own_programs import DECLARATION, TRIAL, visits
from synthetic_fits import same, table

import pyflowers
from pyflowers.engines import LARGEST_SEED, EngineLacksError, SamplerOptions, new_seed
from pyflowers.errors import CompileError, ConfigError, DataError, FitError
from pyflowers.fits import fit as fit_module
from pyflowers.fits.posterior import element_names

QUICK = {"warmup": 100, "draws": 100, "cmdstan": "embedded"}


def frame(labels=("Rose, rot", "007")):
    cells = [(p, f"M{t}", y) for p in labels for t, y in enumerate((4, 2, 7, 5))]
    return pd.DataFrame(cells, columns=["plant", "month", "flowers"])


def test_the_result_carries_the_users_labels(lecture_fits):
    fit = lecture_fits["multilevel_normal"]
    assert list(fit.posterior) == ["mu", "sigma2", "mu_plant", "sigma2_plant"]
    assert fit.posterior["mu_plant"].dims[2:] == ("plant",)
    assert fit.posterior["plant"].values.tolist() == ["1", "2", "3"]
    assert element_names(fit.posterior["mu_plant"]) == ["mu_plant[1]", "mu_plant[2]", "mu_plant[3]"]
    assert fit.posterior["mu_plant"].values.shape == (4, 1000, 3)
    assert (fit.num_chains, fit.num_draws, fit.num_predictions) == (4, 1000, 48_000)
    assert element_names(fit.posterior["mu"]) == ["mu"]


def test_length_one_dimensions_stay(executables):
    fit = pyflowers.fit("multilevel_poisson", frame(["only"]), seed=1, chains=1, **QUICK)
    assert fit.posterior["mu_plant"].dims[2:] == ("plant",)
    assert fit.posterior["mu_plant"].values.shape == (1, 100, 1)
    assert "mu_plant[only]" in fit.summary().index
    assert "single plant" in fit.record.notes[0]


def test_a_file_is_read_as_the_command_reads_it(tmp_path):
    path = tmp_path / "german.csv"
    path.write_text("Beet;KW;Höhe\nä;KW 9;4,5\nä;KW 27;3,5\nb;KW 9;2,0\n", encoding="latin-1")
    roles = {"group": "Beet", "time": "KW", "value": "Höhe"}
    how = {"sep": ";", "decimal": ",", "encoding": "latin-1", "time_order": "appearance"}
    fit = pyflowers.fit("iid_normal", path, seed=1, chains=1, engine="exact", **roles, **how)
    assert fit.data.y.tolist() == [4.5, 3.5, 2.0]
    assert fit.record.data.reading == how
    with pytest.raises(ConfigError, match="sep is only valid with a file"):
        pyflowers.fit("iid_normal", frame(), sep=";")
    compared = pyflowers.compare("iid_normal", path, approximations=False, **roles, **how)
    assert compared.nuts.record.data.reading == how
    with pytest.raises(ConfigError, match="sep cannot be combined with nuts=…, which is a"):
        pyflowers.compare("iid_normal", nuts=fit, sep=";")


def test_columns_of_other_names(executables):
    mine = frame().rename(columns={"plant": "Beet", "month": "KW", "flowers": "Blüten"})
    roles = {"group": "Beet", "time": "KW", "value": "Blüten"}
    fit = pyflowers.fit("multilevel_poisson", mine, seed=1, **roles, **QUICK)
    columns = {"plant": "Beet", "month": "KW", "flowers": "Blüten"}
    assert fit.record.data.columns == columns
    assert fit.data.value_name == "Blüten"
    assert element_names(fit.posterior["mu_plant"]) == ["mu_plant[Rose, rot]", "mu_plant[007]"]
    assert same(fit, pyflowers.fit("multilevel_poisson", frame(), seed=1, **QUICK))
    assert same(fit, pyflowers.fit("multilevel_poisson", mine, seed=1, columns=columns, **QUICK))
    with pytest.raises(DataError, match="there is no column 'Topf'"):
        pyflowers.fit("multilevel_poisson", mine, group="Topf", time="KW", value="Blüten", **QUICK)


# --- Seeds and options ----------------------------------------------------------------------------


def test_a_seed_repeats_the_draws_and_one_that_was_not_given_is_recorded(executables):
    zero, again, one, drawn = (
        pyflowers.fit("iid_normal", frame(), seed=seed, **QUICK) for seed in (0, 0, 1, None)
    )
    assert zero.options.seed == 0
    assert same(zero, again)
    assert not same(zero, one)
    assert_array_equal(zero.posterior_predictive(), again.posterior_predictive())
    by_record = pyflowers.fit("iid_normal", frame(), seed=drawn.record.options.seed, **QUICK)
    assert same(drawn, by_record)


def test_drawn_seeds_cover_the_whole_range():
    seeds = np.array([new_seed() for _ in range(4000)])
    assert seeds.min() >= 0
    assert seeds.max() < 2**32
    counts = np.histogram(seeds, bins=8, range=(0, 2**32))[0]
    assert ((counts - 500) ** 2 / 500).sum() < 40.5  # χ²(7) at 1e-6


BAD_OPTIONS = [
    ({"seed": -1}, "seed must be at least 0, got -1"),
    ({"seed": 2**32}, "seed must be at most 4294967295, got 4294967296"),
    ({"seed": True}, "seed must be a whole number, got True"),
    ({"seed": 1.0}, "seed must be a whole number, got 1.0"),
    ({"chains": 0}, "chains must be at least 1, got 0"),
    ({"chains": "4"}, "chains must be a whole number, got '4'"),
    ({"draws": 0}, "draws must be at least 1, got 0"),
    ({"warmup": -5}, "warmup must be at least 0, got -5"),
    ({"thin": 1.5}, "thin must be a whole number, got 1.5"),
    ({"thin": 0}, "thin must be at least 1, got 0"),
    ({"adapt_delta": 1.0}, "adapt_delta must be less than 1, got 1.0"),
    ({"adapt_delta": 0}, "adapt_delta must be greater than 0, got 0"),
    ({"adapt_delta": float("nan")}, "adapt_delta must be a finite number, got nan"),
    ({"adapt_delta": "high"}, "adapt_delta must be a number, got 'high'"),
    ({"max_treedepth": 0}, "max_treedepth must be at least 1, got 0"),
    ({"max_treedepth": 31}, "max_treedepth must be at most 30, got 31"),
    ({"drwas": 10}, "unknown key drwas; did you mean draws?"),
]


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS)
def test_a_bad_option_is_one_sentence(options, message):
    with pytest.raises(ConfigError) as caught:
        SamplerOptions.of(**{"seed": 1, **options})
    assert str(caught.value) == message


def test_numbers_of_numpy_are_options_too():
    options = SamplerOptions.of(seed=np.uint32(7), draws=np.int64(5), adapt_delta=np.float32(0.5))
    assert options == SamplerOptions(seed=7, draws=5, adapt_delta=0.5)
    assert SamplerOptions.of(seed=LARGEST_SEED).seed == LARGEST_SEED


def test_thinning_keeps_each_nth_draw(executables):
    """Of 50 iterations, 8 are kept: the 1st, the 8th etc.; draws=50 and thin=7 are recorded."""
    fit = pyflowers.fit("iid_normal", frame(), seed=1, thin=7, draws=50, cmdstan="embedded")
    whole = pyflowers.fit("iid_normal", frame(), seed=1, draws=50, cmdstan="embedded")
    assert fit.num_draws == 8
    assert_array_equal(fit.draws["mu"], whole.draws["mu"][:, ::7])
    assert (fit.options.draws, fit.options.thin) == (50, 7)


@pytest.mark.parametrize("how", [{"engine": "stanli"}, {"cmdstan": "embedded"}], ids=str)
def test_divergences_of_dropped_iterations_count(executables, tmp_path, how):
    """The chains are the same, so their diagnostics are the same, in the run folder too."""
    few = table(["a", "b", "c"], 2)
    options = {"seed": 3, "chains": 2, "warmup": 30, "draws": 300, "adapt_delta": 0.1, **how}
    priors = {"sigma2_plant_nu": 1, "sigma2_plant_scale": 1}
    whole, thinned = (
        pyflowers.fit("multilevel_normal", few, priors=priors, thin=thin, **options)
        for thin in (1, 50)
    )
    assert whole.stats["divergent__"].sum() > thinned.kept_stats["divergent__"].sum()
    thinned.save(tmp_path / "run")
    again = pyflowers.Fit.load(tmp_path / "run")
    for fit in (thinned, again):
        assert (fit.num_draws, fit.num_chains) == (6, 2)
        assert fit.idata["sample_stats"]["diverging"].shape == (2, 6)
        for name, values in whole.stats.items():
            assert_array_equal(fit.stats[name], values)
            assert_array_equal(fit.kept_stats[name], values[:, ::50])
        for name in ("divergences", "treedepth hits", "E-BFMI"):
            one, other = (
                next(c for c in f.diagnostics.checks if c.name == name) for f in (fit, whole)
            )
            assert one.value == other.value
    assert pyflowers.plots.pairs(again, ["mu", "sigma2"])


def test_bad_input_is_refused_before_anything_is_compiled(monkeypatch):
    monkeypatch.setenv("CMDSTAN", "/nowhere")
    for error, message, call in (
        (ConfigError, "no such prior", {"priors": {"tau": 1}}),
        (ConfigError, "unknown key drwas", {"drwas": 1}),
        (DataError, "table 1: data must be a file, a DataFrame or a mapping", {"data": [1, 2]}),
    ):
        with pytest.raises(error, match=message):
            pyflowers.fit("iid_normal", **{"data": frame(), "engine": "cmdstan", **call})


@pytest.mark.parametrize("cores", ["2", 0, -1, 1.5, True])
def test_cores_are_a_whole_number(cores, executables):
    with pytest.raises(ConfigError, match="cores must be a whole number of at least 1, got"):
        pyflowers.fit("iid_normal", frame(), cores=cores, **QUICK)


# --- User programs --------------------------------------------------------------------------------

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


def test_a_program_with_a_data_block_takes_the_same_path(own_program, tmp_path):
    program = own_program("own", OWN)
    data = tmp_path / "data.json"
    data.write_text('{"N": 4, "y": [1, 0, 1, 1]}')
    fit = pyflowers.fit(program.path, data, seed=3, cmdstan="embedded")
    assert list(fit.posterior) == ["theta", "z", "m", "k"]
    assert fit.posterior["z"].dims[2:] == ("z_dim_0",)
    assert fit.posterior["m"].values.shape == (4, 1000, 2, 2)
    assert fit.posterior["k"].values.dtype == np.int64
    assert fit.log_likelihood().shape == (4, 1000, 4)
    assert fit.idata.posterior_predictive["y"].dtype == np.int64
    # Beta(1 + 3, 1 + 1) has mean 2/3.
    theta = fit.summary().loc["theta"]
    assert abs(theta["mean"] - 2 / 3) < 4 * theta["mcse_mean"]
    assert "m[1,2]" in fit.summary().index
    mapped = pyflowers.fit(program, {"N": 4, "y": [1, 0, 1, 1]}, seed=3, cmdstan="embedded")
    assert same(mapped, fit)
    # The same data as a table, which needs no declaration, because names and sizes are enough.
    tidy = pyflowers.fit(program, pd.DataFrame({"y": [1, 0, 1, 1]}), seed=3, cmdstan="embedded")
    assert same(tidy, fit)
    assert same(pyflowers.Fit.load(fit.save(tmp_path / "run")), fit)
    with pytest.raises(ConfigError, match="own declares no priors"):
        pyflowers.fit(program, data, priors={"mu_sd": 1}, cmdstan="embedded")


@pytest.fixture(scope="module")
def trial_fit(tmp_path_factory):
    """A user program on a table, with its declaration."""
    path = tmp_path_factory.mktemp("trial") / "trial.stan"
    path.write_text(TRIAL)
    path.with_suffix(".toml").write_text(DECLARATION)
    return pyflowers.fit(path, visits(), seed=1, priors={"tau_scale": 0.5}, cmdstan="embedded")


def test_a_declared_program_has_labels_and_groups(trial_fit, tmp_path):
    fit = trial_fit
    assert list(fit.posterior) == ["alpha", "beta", "tau"]
    assert element_names(fit.posterior["alpha"]) == ["alpha[Ann]", "alpha[Bob]"]
    assert element_names(fit.posterior["beta"]) == ["beta[treated]", "beta[base]"]
    assert fit.record.priors == {"tau_scale": 0.5}
    assert "eta" not in fit.draws
    assert fit.log_likelihood().shape == (4, 1000, 5)
    assert fit.posterior_predictive().shape == (4, 1000, 5)
    groups = {
        *("posterior", "sample_stats", "observed_data", "constant_data"),
        *("log_likelihood", "posterior_predictive", "log_prior"),
    }
    assert names_of_groups(fit.idata) == groups
    back = pyflowers.Fit.load(fit.save(tmp_path / "run"))
    assert same(back, fit)
    assert names_of_groups(back.idata) == groups
    assert element_names(back.posterior["beta"]) == element_names(fit.posterior["beta"])
    assert back.data.by_time.names == fit.data.by_time.names
    pd.testing.assert_frame_equal(back.summary(), fit.summary())


def test_keyword_arguments_are_a_declaration(trial_fit, tmp_path):
    """A declaration in Python gives the same data block and draws as the one in the file."""
    from own_programs import SECTIONS

    path = tmp_path / "trial.stan"
    path.write_text(TRIAL)
    program = pyflowers.Program.open(path, declaration=SECTIONS)
    fit = pyflowers.fit(program, visits(), seed=1, priors={"tau_scale": 0.5}, cmdstan="embedded")
    assert same(fit, trial_fit)
    assert fit.record.program.declaration == trial_fit.record.program.declaration


def test_a_prior_given_in_the_data_block_is_used(trial_fit, tmp_path):
    """In a mapping, tau_scale is data like any other variable."""
    values = {k: v for k, v in trial_fit.data.values.items() if k != "tau_scale"}
    program = trial_fit.program
    one, other = (
        pyflowers.fit(program, {**values, "tau_scale": scale}, seed=1, cmdstan="embedded")
        for scale in (0.5, 5.0)
    )
    assert one.record.priors == {"tau_scale": 0.5}
    assert pyflowers.Fit.load(one.save(tmp_path / "run")).record.priors == {"tau_scale": 0.5}
    assert same(one, trial_fit)
    assert not same(other, trial_fit)


def test_a_program_without_parameters_is_simulated(executables):
    program = next(path for path in executables if path.stem == "simulate")
    fit = pyflowers.fit(
        program, {"N": 3, "rate": 5.0}, seed=1, chains=2, draws=50, cmdstan="embedded"
    )
    assert fit.posterior["y_sim"].values.shape == (2, 50, 3)
    assert {check.name for check in fit.diagnostics.checks} == {"R-hat", "bulk ESS", "tail ESS"}


def test_nothing_but_a_program_is_needed(own_program):
    program = own_program("prior", "parameters { real x; } model { x ~ normal(3, 2); }")
    fit = pyflowers.fit(program.path, seed=1, cmdstan="embedded")
    assert not fit.data.values
    mean = fit.summary().loc["x"]
    assert abs(mean["mean"] - 3) < 4 * mean["mcse_mean"]


# --- Failures -------------------------------------------------------------------------------------

FAILING = """
data { int<lower=0> N; }
parameters { real<lower=0> sigma; }
model {
  sigma ~ exponential(1);
  if (N > 1) reject("N is ", N, ", which is too large");
  if (N == 1) target += log(-1 - sigma);
}
"""


@pytest.mark.parametrize("engine", ["cmdstan", "stanli"])
@pytest.mark.parametrize(
    ("num", "reason"),
    [(7, "N is …, which is too large"), (1, "the log density or its gradient is not finite")],
)
def test_no_starting_point_is_one_sentence(own_program, engine, num, reason):
    with pytest.raises(FitError) as raised:
        pyflowers.fit(own_program("failing", FAILING), {"N": num}, seed=1, engine=engine)
    message = str(raised.value)
    assert message.startswith("no starting point found: a chain's initial values were all rejected")
    assert message.count(reason) == 1
    assert message.endswith("or give initial values with inits")


def test_a_failed_chain_is_an_error_with_stans_message(own_program):
    program = own_program("failing", FAILING)
    with pytest.raises(DataError, match="the data variable N, which failing"):
        pyflowers.fit(program, {}, seed=1, cmdstan="embedded")
    with pytest.raises(FitError, match="N is -1, but must be greater than or equal to 0"):
        pyflowers.fit(program, {"N": -1}, seed=1, cmdstan="embedded")


LUCK = """
data { real limit; }
parameters { real x; }
model {
  x ~ std_normal();
  if (x > limit) fatal_error("this chain had no luck");
}
"""


def test_one_failed_chain_of_several_is_an_error_too(own_program):
    """One of the four chains passes a limit that the other three do not reach."""
    program = own_program("luck", LUCK)
    how = {"seed": 11, "warmup": 200, "draws": 200, "cmdstan": "embedded", "chains": 4}
    fine = pyflowers.fit(program, {"limit": 1e9}, **how)
    reached = np.sort(fine.draws["x"].max(1))
    limit = float(reached[-2:].mean())
    assert (reached > limit).sum() == 1
    alone = pyflowers.fit(program, {"limit": 1e9}, **{**how, "chains": 1})
    assert alone.num_chains == 1
    with pytest.raises(FitError, match="this chain had no luck"):
        pyflowers.fit(program, {"limit": limit}, **how)


NOISY = """
parameters { real x; real<lower=0> s; }
model { s ~ exponential(1); x ~ normal(0, s < 0.5 ? 0 : s); }
"""


def test_stans_informational_messages_are_counted(own_program, caplog, capfd):
    program = own_program("noisy", NOISY)
    with caplog.at_level(logging.DEBUG):
        fit = pyflowers.fit(program, seed=2, inits=1, cmdstan="embedded")
    (message, count), *rest = fit.record.messages.items()
    assert "Scale parameter is …, but must be positive" in message
    assert count > 10
    assert not rest
    assert "Scale parameter" not in caplog.text + "".join(capfd.readouterr())


MISSING = """
parameters { real x; }
model { x ~ std_normal(); }
generated quantities { int k; real r; if (x > 0) { k = 3; r = x; } }
"""


@pytest.mark.parametrize("engine", ["cmdstan", "stanli"])
def test_a_whole_number_that_was_not_set_is_not_an_enormous_one(own_program, engine):
    program = own_program("gaps", MISSING)
    fit = pyflowers.fit(program, seed=1, draws=200, engine=engine)
    assert np.isnan(fit.draws["r"]).any()
    assert np.nanmin(fit.draws["k"]) == 3
    summary = fit.summary()
    assert summary.loc[["k", "r"], "mean"].isna().all()
    assert summary.attrs["notes"] == [
        f"{name}: some draws are missing or infinite" for name in ("k", "r")
    ]


FAILING_QUANTITIES = """
parameters { real x; real<lower=0> s; }
model {
  if (s > 3) reject("s is large");
  x ~ std_normal();
  s ~ normal(0, 2);
}
generated quantities {
  real z = normal_rng(0, x > 1 ? -1 : 1);
  real odds = 1 / (x > 0 ? 0.0 : 1.0);
}
"""


def test_failed_generated_quantities_are_not_rejected_proposals(own_program, tmp_path):
    program = own_program("failing_gq", FAILING_QUANTITIES)
    # More than one in five initial values of s exceed 3, so with eight chains Stan rejects some.
    fit = pyflowers.fit(program, seed=1, draws=100, chains=8, cmdstan="embedded")
    assert list(fit.record.messages) == ["s is large"]
    assert np.isfinite(fit.draws["x"]).all()
    failed = int(np.isnan(fit.draws["z"]).sum())
    assert failed == (fit.draws["x"] > 1).sum() > 0
    (note,) = fit.record.notes
    assert note.startswith(f"the generated quantities failed in {failed} draws, most often with ")
    assert "Scale parameter is …" in note
    assert fit.summary().loc[["z", "odds"]].drop(columns="median").isna().all(axis=None)
    loaded = pyflowers.Fit.load(fit.save(tmp_path / "run"))
    assert loaded.summary().attrs["notes"] == [
        f"{name}: some draws are missing or infinite" for name in ("z", "odds")
    ]


def test_an_engine_that_would_lose_whole_draws_says_so(own_program):
    program = own_program("failing_gq", FAILING_QUANTITIES)
    with pytest.raises(
        EngineLacksError, match=r"such draws: \d+\), but CmdStan keeps their parameters"
    ):
        pyflowers.fit(program, seed=1, draws=200, chains=2, engine="stanli")


def test_an_empty_program_has_nothing_to_say(own_program, tmp_path):
    fit = pyflowers.fit(own_program("empty", ""), seed=1, draws=10, cmdstan="embedded")
    assert not fit.posterior
    assert fit.summary().empty
    assert not fit.diagnostics.failed
    assert not pyflowers.Fit.load(fit.save(tmp_path / "run")).posterior


def test_programs_and_data_of_the_user_that_are_wrong(cmdstan, tmp_path):
    how = {"engine": "cmdstan", "cmdstan": "embedded"}
    (tmp_path / "broken.stan").write_text("model { x }")
    with pytest.raises(CompileError, match=r"broken\.stan"):
        pyflowers.fit(tmp_path / "broken.stan", {}, **how)
    (tmp_path / "data.json").write_text("{")
    with pytest.raises(DataError, match="is not JSON"):
        pyflowers.fit(tmp_path / "broken.stan", tmp_path / "data.json", **how)
    with pytest.raises(DataError, match="no such file"):
        pyflowers.fit(tmp_path / "broken.stan", tmp_path / "absent.json", **how)


@pytest.mark.parametrize("inits", ["/etc/passwd", "absent.json", {"mu": "a"}, -1, [1, 2]], ids=str)
def test_initial_values_that_are_none(executables, inits):
    with pytest.raises((FitError, ConfigError), match=r"(?i)init|number|passwd|JSON|mu"):
        pyflowers.fit("iid_normal", frame(), seed=1, inits=inits, **QUICK)


def test_initial_values_of_a_file_are_used(executables, tmp_path):
    """Any name works, although CmdStan takes a file not ending in .json for R code and skips it."""
    path = tmp_path / "start.txt"
    path.write_text('{"mu": 900, "sigma2": 1}')
    how = {"seed": 1, "warmup": 0, "draws": 1, "chains": 1, "cmdstan": "embedded"}
    by_file = pyflowers.fit("iid_normal", frame(), inits=path, **how)
    by_value = pyflowers.fit("iid_normal", frame(), inits={"mu": 900, "sigma2": 1}, **how)
    assert same(by_file, by_value)
    assert not same(by_file, pyflowers.fit("iid_normal", frame(), **how))


def test_initial_values_are_recorded_as_given(executables):
    inits = {"mu": np.float64(4.0), "sigma2": np.asarray(2)}
    fit = pyflowers.fit("iid_normal", frame(), seed=1, inits=inits, **QUICK)
    assert fit.record.inits == {"mu": 4.0, "sigma2": 2}
    again = pyflowers.fit("iid_normal", frame(), seed=1, inits=fit.record.inits, **QUICK)
    assert same(fit, again)


def test_large_groups_are_left_to_their_methods(lecture_fits, monkeypatch, tmp_path):
    monkeypatch.setattr(fit_module, "LARGEST_GROUP", 1000)
    old = lecture_fits["iid_normal"]
    fit = pyflowers.Fit(old.program, old.data, old.draws, old.stats, old.record)
    assert "log_likelihood" not in names_of_groups(fit.idata)
    assert fit.log_likelihood().shape == (4, 1000, 12)
    record = json.loads((fit.save(tmp_path / "run") / "run.json").read_text())
    assert record["omitted_groups"] == ["log_likelihood", "posterior_predictive"]


def test_threads_leave_the_environment_and_the_log_as_they_were(executables, monkeypatch, caplog):
    """Two fits of different lengths run at the same time."""
    import os

    monkeypatch.setenv("CMDSTAN", "/nowhere")
    monkeypatch.delenv("CMDSTAN")
    before = dict(os.environ)
    done = {}

    def work(name, draws):
        done[name] = pyflowers.fit(name, seed=1, draws=draws, cmdstan="embedded")

    threads = [
        threading.Thread(target=work, args=pair)
        for pair in (("iid_normal", 4000), ("multilevel_poisson", 50))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = {name: fit.num_draws for name, fit in done.items()}
    assert found == {"iid_normal": 4000, "multilevel_poisson": 50}
    assert dict(os.environ) == before
    logging.getLogger("cmdstanpy").warning("heard again")
    assert "heard again" in caplog.text


def test_a_fit_shows_itself_in_short(lecture_fits):
    fit = replace(lecture_fits["iid_normal"])
    begin = "<pyflowers.Fit of iid_normal: 4 chains × 1,000 draws of mu, sigma2; "
    assert repr(fit) == f"{begin}seed 1>"  # repr does not compute the diagnostics
    assert fit.diagnostics.passed
    assert repr(fit) == f"{begin}diagnostics passed; seed 1>"
    html = fit._repr_html_()
    head = html.partition("<table>")[0]
    model, data, draws = " ".join(head.split()).removesuffix("</p>").split("</p> ")
    assert model == "<p><b>Model: </b>iid_normal y ~ N(mu, sigma2)"
    assert data.startswith("<p><b>Data: </b>")
    assert data.endswith("flowers.csv (12 rows; plant: 3)")
    assert draws == "<p><b>Draws: </b>4 chains × 1,000 (seed 1, engine cmdstan)"
    assert "all 6 diagnostics pass" in html
