"""A run folder is complete and can be loaded, even if the program is gone or has changed."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_array_equal
from own_programs import DECLARATION, TRIAL, visits
from synthetic_fits import same, synthetic_fit, table, without_digests

import pyflowers
from pyflowers.errors import ConfigError, DataError
from pyflowers.fits.folder import DRAWS, check_run_folder
from pyflowers.fits.posterior import element_names
from pyflowers.programs import Capability, Program
from pyflowers.workflow.replay import replay

FILES = {"chains.nc", "draws.nc", "summary.csv", "diagnostics.json", "run.json"}
QUICK = {"seed": 1, "warmup": 200, "draws": 200, "engine": "stanli"}


def test_a_run_folder_holds_everything_and_comes_back(lecture_fits, tmp_path):
    for name, fit in lecture_fits.items():
        folder = fit.save(tmp_path / name / "run ü")
        files = {path.name for path in folder.iterdir()}
        assert files == {*FILES, "plots"}
        back = pyflowers.Fit.load(folder)
        assert same(fit, back)
        assert back.posterior.keys() == fit.posterior.keys()
        for quantity in fit.posterior:
            assert element_names(back.posterior[quantity]) == element_names(fit.posterior[quantity])
            assert back.posterior[quantity].dims == fit.posterior[quantity].dims
        assert back.data.sha256 == fit.data.sha256
        assert back.data.by_time.names == fit.data.by_time.names
        assert_array_equal(back.data.y, fit.data.y)
        assert back.data.where(3) == fit.data.where(3)
        kept = back.record.model_copy(update={"files": {}})
        assert kept == fit.record
        pd.testing.assert_frame_equal(back.summary(), fit.summary())
        assert back.summary().attrs == fit.summary().attrs
        assert str(back.diagnostics) == str(fit.diagnostics)
        assert_array_equal(back.log_likelihood(), fit.log_likelihood())
        assert_array_equal(back.posterior_predictive(), fit.posterior_predictive())
        assert back.program.capabilities == fit.program.capabilities
        record = json.loads((folder / "run.json").read_text())
        assert record["options"]["seed"] == 1
        assert record["engine"]["versions"]["stan"] == "2.35.0"
        assert set(record["files"]) >= FILES
        assert [path.name for path in folder.parent.iterdir()] == ["run ü"]


def test_the_tables_of_a_run_are_what_it_shows(lecture_fits, tmp_path):
    fit = lecture_fits["multilevel_normal"]
    folder = fit.save(tmp_path / "run")
    table = pd.read_csv(folder / "summary.csv", index_col="parameter")
    np.testing.assert_allclose(table["median"], fit.summary()["median"], rtol=1e-12)
    verdict = json.loads((folder / "diagnostics.json").read_text())
    assert verdict["passed"] == fit.verdict.passed
    assert len(verdict["computation"]["checks"]) == 6
    assert verdict["data"]["status"] == "not examined"


@pytest.mark.parametrize(
    "labels", [["é", "e\u0301 "], ["花 🌸", "a" * 300], ["[b]", "x,y"], ["1", "2"]]
)
def test_labels_of_any_kind_come_back(tmp_path, labels):
    fit = synthetic_fit("multilevel_poisson", table(labels, 4), draws=10)
    back = pyflowers.Fit.load(fit.save(tmp_path / "run"))
    assert back.data.by_group.names == tuple(labels)
    assert element_names(back.posterior["mu_plant"]) == element_names(fit.posterior["mu_plant"])


def test_a_folder_that_is_no_run_is_left_alone(lecture_fits, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="which no earlier run wrote"):
        lecture_fits["iid_normal"].save(tmp_path)
    with pytest.raises(ConfigError, match="which no earlier run wrote"):
        check_run_folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(ConfigError, match="is a file"):
        lecture_fits["iid_normal"].save(tmp_path / "thesis.tex")
    with pytest.raises(DataError, match="is not a run folder"):
        pyflowers.Fit.load(tmp_path)


# --- Damaged draws --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run on a table, to be damaged."""
    fit = synthetic_fit("multilevel_normal", table(["a", "b", "c"], 4), draws=50)
    return fit.save(tmp_path_factory.mktemp("whole") / "run")


def rewrite(whole, folder, change):
    """Copy a run, and rewrite its draws with groups that are changed by a function."""
    shutil.copytree(whole, folder)
    without_digests(folder)
    with xr.open_datatree(whole / DRAWS, engine="h5netcdf") as tree:
        groups = {name: node.to_dataset().load() for name, node in tree.children.items()}
    change(groups)
    named = {f"/{name}": group for name, group in groups.items()}
    xr.DataTree.from_dict(named).to_netcdf(folder / DRAWS, engine="h5netcdf")
    return folder


def without(group, *variables):
    """Return a function that drops a whole group, or some of its variables."""

    def change(groups):
        if variables:
            groups[group] = groups[group].drop_vars(list(variables))
        else:
            del groups[group]

    return lambda whole, folder: rewrite(whole, folder, change)


def instead(content):
    """Return a function that writes other bytes to the file, or removes it if they are None."""

    def change(whole, folder):
        shutil.copytree(whole, folder)
        without_digests(folder)
        data = content((folder / DRAWS).read_bytes())
        (folder / DRAWS).unlink()
        if data is not None:
            (folder / DRAWS).write_bytes(data)

    return change


@pytest.mark.quick
def test_the_way_of_damaging_leaves_the_rest(whole, tmp_path):
    folder = rewrite(whole, tmp_path / "run", lambda groups: None)
    assert same(pyflowers.Fit.load(folder), pyflowers.Fit.load(whole))


DAMAGES = [
    (without("posterior"), "has no group posterior"),
    (without("sample_stats"), "has no group sample_stats"),
    (without("constant_data"), "the data cannot be read"),
    (without("observed_data"), "the data cannot be read"),
    (without("posterior", "mu"), "the draws of mu are missing"),
    (without("posterior", "mu_plant"), "the draws of mu_plant are missing"),
    (without("observed_data", "y"), "the data cannot be read"),
    (without("constant_data", "plant_index"), "the data cannot be read"),
    (without("constant_data", "month"), "the data cannot be read"),
    (without("constant_data", "row"), "the data cannot be read"),
    (instead(lambda data: None), "the draws cannot be read"),
    (instead(lambda data: b""), "the draws cannot be read"),
    (instead(lambda data: b"CDF"), "the draws cannot be read"),
    (instead(lambda data: data[: len(data) // 10]), "the draws cannot be read"),
    (instead(lambda data: data[: len(data) // 2]), "the draws cannot be read"),
    (instead(lambda data: data[: len(data) * 9 // 10]), "the draws cannot be read"),
    (instead(lambda data: data[: len(data) * 999 // 1000]), "the draws cannot be read"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_damaged_draws_are_one_sentence(whole, tmp_path, damage, message):
    damage(whole, tmp_path / "run")
    with pytest.raises(DataError) as caught:
        pyflowers.Fit.load(tmp_path / "run")
    output = str(caught.value)
    assert "draws.nc" in output
    assert message in output
    assert output.endswith("; refit the model")
    assert "\n" not in output


# --- User programs --------------------------------------------------------------------------------

NAMESAKE = """
data {
  int N;
  vector[N] y;
}
parameters {
  real location;
  real<lower=0> spread;
}
model {
  location ~ normal(0, 10);
  spread ~ exponential(1);
  y ~ student_t(5, location, spread);
}
generated quantities {
  vector[N] log_lik;
  for (n in 1 : N) {
    log_lik[n] = student_t_lpdf(y[n] | 5, location, spread);
  }
}
"""


@pytest.fixture(scope="module")
def namesake(tmp_path_factory):
    """A run of an ``iid_normal.stan`` that is not the shipped one."""
    folder = tmp_path_factory.mktemp("namesake")
    (folder / "iid_normal.stan").write_text(NAMESAKE)
    pd.DataFrame({"y": [1.5, 2.5, 0.5, 3.0]}).to_csv(folder / "y.csv", index=False)
    fit = pyflowers.fit(
        folder / "iid_normal.stan", folder / "y.csv", seed=1, cmdstan="embedded", draws=300
    )
    return folder, fit


def test_a_namesake_of_a_shipped_program_is_itself(namesake, tmp_path):
    folder, fit = namesake
    assert fit.name == "iid_normal"
    assert list(fit.posterior) == ["location", "spread"]
    run = fit.save(tmp_path / "run")
    back = pyflowers.Fit.load(run)
    assert same(fit, back)
    assert back.program.capabilities == fit.program.capabilities
    assert not back.program.can(Capability.EXACT)
    assert not back.program.can(Capability.Y_REP)
    assert back.log_likelihood().shape == (4, 300, 4)
    assert back.record.program.reference == str(folder / "iid_normal.stan")
    assert replay(run).verdict == "bitwise equal"


def test_a_run_whose_program_is_gone_loads_and_replays(namesake, tmp_path):
    folder, fit = namesake
    run = fit.save(tmp_path / "run")
    hidden = folder / "hidden"
    hidden.mkdir()
    (folder / "iid_normal.stan").rename(hidden / "iid_normal.stan")
    try:
        back = pyflowers.Fit.load(run)
        assert same(fit, back)
        assert back.program.source.text == NAMESAKE
        again = replay(run)
        assert again.verdict == "bitwise equal"
        assert "the text kept in the run folder was used" in again.notes[0]
        assert same(pyflowers.Fit.load(back.save(tmp_path / "copy")), fit)
    finally:
        (hidden / "iid_normal.stan").rename(folder / "iid_normal.stan")
        hidden.rmdir()


def test_a_run_keeps_the_declaration_that_it_was_made_with(own_program, tmp_path):
    program = own_program("trial", TRIAL, DECLARATION)
    fit = pyflowers.fit(program, visits(), seed=1, draws=50, cmdstan="embedded")
    run = fit.save(tmp_path / "run")
    for declaration in ("[dims]\nalpha = ['other']", "[", None):
        if declaration is None:
            program.path.with_suffix(".toml").unlink()
        else:
            program.path.with_suffix(".toml").write_text(declaration)
        back = pyflowers.Fit.load(run)
        assert element_names(back.posterior["alpha"]) == ["alpha[Ann]", "alpha[Bob]"]
        assert back.program.can(Capability.Y_REP)


def test_roles_and_parameters_declared_since_take_effect(own_program, tmp_path):
    renamed = TRIAL.replace(" y;", " count;").replace("y ~", "count ~").replace("y[n]", "count[n]")
    before = DECLARATION.replace("y       =", "count   =").replace('y_rep = "y_sim"', "")
    before = before.replace('prior = "normal(0, tau_scale)"', "")
    program = own_program("trial", renamed, before)
    fit = pyflowers.fit(program, visits(), **QUICK)
    run = fit.save(tmp_path / "run")

    unchanged = pyflowers.Fit.load(run)
    with pytest.raises(ConfigError, match=r"no observed, .*program has changed .*refit the model"):
        unchanged.program.require(Capability.OBSERVED)
    with pytest.raises(ConfigError, match=r"trial has no y_rep, which .* and refit the model$"):
        pyflowers.check(unchanged)

    after = before.replace("[roles]", '[roles]\nobserved = "count"\ny_rep = "y_sim"')
    after = after.replace("[parameters.tau]", '[parameters.tau]\nprior = "normal(0, tau_scale)"')
    program.path.with_suffix(".toml").write_text(after)
    now = pyflowers.Fit.load(run)
    assert now.program.can(Capability.PRIOR_DENSITY)
    assert list(now.posterior) == ["alpha", "beta", "tau"]
    assert_array_equal(now.data.y, [5, 2, 3, 0, 4])
    assert now.data.value_name == "seizures"
    expected = pyflowers.fit(Program.open(program.path), visits(), **QUICK)
    pd.testing.assert_frame_equal(pyflowers.check(now).table(), pyflowers.check(expected).table())
    again = pyflowers.Fit.load(now.save(tmp_path / "again"))
    assert list(again.idata.posterior_predictive.data_vars) == ["count"]
    assert same(again, fit)
    assert replay(run).verdict == "bitwise equal"

    # Declarations for a different text, or for draws that the run lacks, are ignored.
    program.path.with_suffix(".toml").write_text(after.replace('"y_sim"', '"eta"'))
    assert not pyflowers.Fit.load(run).program.can(Capability.Y_REP)
    program.path.with_suffix(".toml").write_text(after)
    program.path.write_text(renamed + "\n// edited")
    assert not pyflowers.Fit.load(run).program.can(Capability.OBSERVED)


ANY_SIZE = """
data { int<lower=0> K; int<lower=0> N; array[N] real y; }
parameters { vector[K] beta; vector[2] two; real mu; }
model { beta ~ std_normal(); two ~ std_normal(); mu ~ std_normal(); y ~ normal(mu, 1); }
"""


def test_what_has_no_elements_is_not_missing(own_program, tmp_path):
    program = own_program("sizes", ANY_SIZE)
    how = {"seed": 1, "draws": 50, "warmup": 100, "cmdstan": "embedded"}
    none = pyflowers.fit(program, {"K": 0, "N": 0, "y": []}, **how)
    assert list(none.posterior) in (["two", "mu"], ["beta", "two", "mu"])
    back = pyflowers.Fit.load(none.save(tmp_path / "none"))
    assert back.summary().index.tolist() == ["two[1]", "two[2]", "mu"]
    some = pyflowers.fit(program, {"K": 1, "N": 1, "y": [2]}, **how).save(tmp_path / "some")
    assert "beta[1]" in pyflowers.Fit.load(some).summary().index
    for name in ("beta", "two", "mu"):
        folder = tmp_path / name
        without("posterior", name)(some, folder)
        with pytest.raises(DataError, match=f"the draws of {name} are missing; refit the model"):
            pyflowers.Fit.load(folder)
