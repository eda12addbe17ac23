"""Chains that start where those of another fit ended: their draws, their key, and R-hat."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from command_line import run

import pyflowers
from pyflowers.digests import sha256_file
from pyflowers.engines import find_engine
from pyflowers.engines.base import WARM_UP
from pyflowers.errors import ConfigError, DataError
from pyflowers.fits.folder import CHAINS, FILE
from pyflowers.fits.sampling import prepare_spec
from pyflowers.fits.states import END, START, states_to_bytes
from pyflowers.fits.updating import asked_again
from pyflowers.storage import record_digest
from pyflowers.workflow.config import read_config
from pyflowers.workflow.replay import replay

FORMULA = "y ~ x + (x | g)"
SHORT = {"engine": "stanli", "seed": 4, "chains": 2, "warmup": 150, "draws": 50}
NARROW = {"b[x]": "normal(0, 1)"}

MANY = {"engine": "stanli", "seed": 1, "warmup": 300, "draws": 1000}

MODES = """
data {
  real<lower=0> d;
  real<lower=0, upper=1> share;
}
parameters {
  real mu;
}
model {
  target += log_mix(share, normal_lpdf(mu | -d, 1), normal_lpdf(mu | d, 1));
}
"""
"""Two modes, of which no chain leaves one."""


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(1)
    made = pd.DataFrame({"g": np.repeat(list("abcdef"), 6), "x": rng.normal(size=36)})
    return made.assign(y=np.round(5 + made.x + rng.normal(size=36), 3))


@pytest.fixture(scope="module")
def fit(frame):
    return pyflowers.fit(FORMULA, frame, **SHORT)


@pytest.fixture(scope="module")
def warm(fit):
    return fit.update(priors=NARROW, warm=True)


@pytest.fixture(scope="module")
def folder(warm, tmp_path_factory):
    return warm.save(tmp_path_factory.mktemp("warm") / "run")


def test_the_state_has_every_parameter_at_its_last_draw(fit):
    end = fit.states[END]
    assert {name: its.shape[1:] for name, its in end.values.items()} == {
        "Intercept_at_means": (),
        "b": (1,),
        "sigma": (),
        "sd_g": (2,),
        "L_g": (2, 2),
        "z_g": (2, 6),  # not among the draws that are kept
    }
    for name in ("b", "sigma", "sd_g"):
        assert np.array_equal(end.values[name], fit.draws[name][:, -1]), name
    assert np.array_equal(end.step_size, fit.stats["stepsize__"][:, -1])
    num_unconstrained = 1 + 1 + 1 + 2 + 1 + 12
    assert end.inv_metric.shape == (2, num_unconstrained)
    assert end.metric == "diag_e"


def test_equal_inputs_give_equal_draws_and_another_start_gives_others(fit, warm):
    again = fit.update(priors=NARROW, warm=True)
    assert again.posterior.equals(warm.posterior)
    other = fit.update(seed=5, draws=10).update(priors=NARROW, seed=4, draws=50, warm=True)
    assert not other.posterior.equals(warm.posterior)
    # So few iterations do not adapt the metric, so it is still that of each chain's predecessor.
    assert np.array_equal(warm.states[END].inv_metric, fit.states[END].inv_metric)


def test_the_key_has_the_start(fit, warm):
    cold = prepare_spec(asked_again(fit, {"priors": NARROW})).record
    assert cold.key.digest() != warm.record.key.digest()
    assert warm.record.key.changes_since(cold.key) == ["the initial values changed"]
    again = prepare_spec(asked_again(fit, {"priors": NARROW}, warm=True)).record
    assert again.key.digest() == warm.record.key.digest()
    elsewhere = prepare_spec(asked_again(warm, {"priors": NARROW}, warm=True)).record
    assert elsewhere.key.changes_since(warm.record.key) == ["the initial values changed"]


def test_the_record_and_the_printed_fit_say_where_it_started(fit, warm):
    assert warm.record.start.model_dump() == {"fit": FORMULA, "warmup": WARM_UP}
    assert fit.record.start is None
    (note,) = (note for note in warm.notes if "started from" in note)
    assert f"the last states of {FORMULA}" in note
    assert "a mode of the posterior that no chain of that fit had" in note
    text = "".join(line if isinstance(line, str) else "" for line in warm.contents())
    assert note in text


def test_a_later_change_starts_anew_with_the_whole_warm_up(frame, warm):
    found = prepare_spec(asked_again(warm, {"seed": 9})).record
    whole = pyflowers.Spec(FORMULA, frame, priors=NARROW, **{**SHORT, "seed": 9})
    assert found.key.digest() == prepare_spec(whole).record.key.digest()
    assert found.options.warmup == 150


def test_the_run_folder_keeps_where_the_chains_started_and_ended(warm, folder, tmp_path):
    loaded = pyflowers.Fit.load(folder)
    for when in (START, END):
        assert loaded.states[when].sha256 == warm.states[when].sha256
    assert loaded.states[START].fit == FORMULA
    copy = loaded.with_interval(0.5).save(tmp_path / "copy")
    assert (copy / CHAINS).read_bytes() == (folder / CHAINS).read_bytes()
    assert replay(folder).verdict == "bitwise equal"
    second = loaded.update(priors=NARROW, warm=True)
    assert second.record.start.fit == str(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chains": 3}, r"has 2 chains, each of which starts one of the new fit, but 3 chains"),
        ({"metric": "dense_e"}, r"is diag_e, but dense_e was requested"),
        ({"formula": "y ~ x"}, r"the same parameters, but only y ~ x \+ \(x \| g\) has sd_g"),
        ({"formula": "y ~ x + (x | g)", "family": "student"}, r"but only the new fit has nu"),
        ({"inits": 1.0}, r"inits: in a warm start, the chains start where the chains of"),
        ({"engine": "exact", "warmup": None}, r"the engine exact has no chains"),
    ],
)
def test_a_start_that_does_not_fit_is_one_sentence(fit, change, message):
    with pytest.raises(ConfigError, match=message) as caught:
        fit.update(**change, warm=True)
    assert "\n" not in str(caught.value)
    assert "leave out" in str(caught.value)


def test_other_numbers_of_groups_are_one_sentence(fit, frame):
    with pytest.raises(ConfigError, match=r"the size of z_g is 2 × 6 in .* and 2 × 5 in the new"):
        fit.update(data=frame[frame.g != "f"], warm=True)


def signed(folder, **changes):
    """Return a run whose record has other files, with its digest computed again."""
    record = json.loads((folder / FILE).read_text(encoding="utf-8"))
    for name, its in changes.items():
        record["files"].pop(name.replace("_nc", ".nc"))
        if its is not None:
            record["files"][name.replace("_nc", ".nc")] = its
    record["files"][FILE] = record_digest(record, FILE)
    (folder / FILE).write_text(json.dumps(record), encoding="utf-8")


def test_a_run_of_an_earlier_version_has_no_states(folder, tmp_path):
    old = shutil.copytree(folder, tmp_path / "old")
    (old / CHAINS).unlink()
    signed(old, chains_nc=None)
    loaded = pyflowers.Fit.load(old)
    assert loaded.states == {}
    with pytest.raises(ConfigError, match=r"old does not hold the last states .* refit it, or"):
        loaded.update(seed=1, warm=True)
    without = pyflowers.fit("iid_normal", seed=1, engine="exact")
    assert without.states == {}
    assert not (without.save(tmp_path / "exact") / CHAINS).exists()


def test_damaged_and_strange_states_are_one_sentence(warm, folder, tmp_path):
    bad = shutil.copytree(folder, tmp_path / "bad")
    (bad / CHAINS).write_bytes(b"nothing")
    with pytest.raises(
        DataError, match=r"chains\.nc: the chains cannot be read \(it does not have"
    ):
        pyflowers.Fit.load(bad)
    end = warm.states[END]
    strange = [
        replace(end, step_size=np.array([1, 1])),
        replace(end, inv_metric=end.inv_metric[:, 0]),
        replace(end, values={"b": np.array(["a", "b"])}),
    ]
    for contents in (b"nothing", *(states_to_bytes({END: its}) for its in strange)):
        (bad / CHAINS).write_bytes(contents)
        signed(bad, chains_nc=sha256_file(bad / CHAINS))
        found = r"chains\.nc: (the chains cannot|an array of) .* refit the model"
        with pytest.raises(DataError, match=found) as caught:
            pyflowers.Fit.load(bad)
        assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def two_modes(tmp_path_factory):
    path = tmp_path_factory.mktemp("modes") / "modes.stan"
    path.write_text(MODES, encoding="utf-8")
    return path


def test_r_hat_still_catches_two_modes(two_modes):
    inits = [{"mu": mu} for mu in (-50.0, -51.0, 51.0, 50.0)]
    cold = pyflowers.fit(two_modes, {"d": 50.0, "share": 0.5}, inits=inits, **MANY)
    warm = cold.update(data={"d": 49.0, "share": 0.5}, warm=True)
    for each in (cold, warm):
        assert np.array_equal(np.sign(each.draws["mu"]).mean(axis=1), [-1, -1, 1, 1])
    assert "R-hat" in {check.name for check in warm.diagnostics.failed}


def test_r_hat_cannot_see_a_mode_that_no_chain_had_reached_and_the_fit_says_so(two_modes):
    cold = pyflowers.fit(two_modes, {"d": 50.0, "share": 1.0}, **MANY)
    warm = cold.update(data={"d": 50.0, "share": 0.5}, warm=True)
    assert (warm.draws["mu"] < 0).all()
    assert "R-hat" not in {check.name for check in warm.diagnostics.failed}
    assert any("a mode of the posterior that no chain of that fit had" in its for its in warm.notes)


def test_the_command_starts_from_a_run(folder, tmp_path, capsys):
    out = tmp_path / "second"
    words = ("--plots", "none", "--quiet", "--from", folder, "--prior", "b[x] ~ normal(0, 3)")
    assert run("fit", *words, "--warm", "--out", out) == 0
    assert pyflowers.Fit.load(out).record.start.fit == str(folder)
    assert run("fit", "iid_normal", "--warm", "--out", tmp_path / "third") == 2
    assert "add --from RUN" in capsys.readouterr().err


def test_a_configuration_cannot_hold_the_start(folder):
    with pytest.raises(ConfigError, match="repeat it with pyflowers replay"):
        read_config(folder / FILE)


@pytest.mark.parametrize("metric", ["diag_e", "dense_e", "unit_e"])
def test_both_engines_keep_the_same_state_and_start_from_it(executables, metric):
    how = {"seed": 1, "chains": 2, "draws": 20, "metric": metric}
    engines = [find_engine("cmdstan", "embedded"), find_engine("stanli")]
    compiled, interpreted = (pyflowers.fit("iid_normal", engine=its, **how) for its in engines)
    mine, theirs = compiled.states[END], interpreted.states[END]
    assert mine.metric == theirs.metric == metric
    for name, values in mine.values.items():
        assert np.array_equal(values, theirs.values[name]), name
    assert np.array_equal(mine.step_size, theirs.step_size)
    if metric != "unit_e":  # CmdStan prints six digits of it
        assert np.allclose(mine.inv_metric, theirs.inv_metric, rtol=1e-5)
    # The state of one engine is a start for the other.
    again = interpreted.update(priors={"mu_sd": 50}, engine=engines[0], warm=True)
    repeated = interpreted.update(priors={"mu_sd": 50}, engine=engines[0], warm=True)
    assert again.record.engine.name == "cmdstan"
    assert again.posterior.equals(repeated.posterior)
    if metric != "unit_e":
        assert np.allclose(again.states[END].inv_metric, theirs.inv_metric, rtol=1e-5)


def test_a_warm_up_of_no_iterations_keeps_step_size_and_place(fit):
    start = fit.states[END]
    still = fit.update(warmup=0, draws=1, max_treedepth=1, warm=True)
    moved = still.states[END]
    assert np.allclose(moved.step_size, start.step_size.mean())
    near = np.abs(moved.values["b"] - start.values["b"])
    assert (near < np.abs(np.diff(start.values["b"], axis=0))).all()
