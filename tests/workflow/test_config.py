"""Files of experiments: their contents, errors in them, and reading them back."""

from pathlib import Path

import pandas as pd
import pytest
from own_programs import DECLARATION, TRIAL, visits

import pyflowers
from pyflowers.errors import ConfigError, ToolchainError
from pyflowers.resources import flowers_csv
from pyflowers.workflow.config import Experiment, from_record, read_config
from pyflowers.workflow.experiment import run_experiment

SHIPPED = flowers_csv().parent.parent / "examples" / "flowers.toml"


@pytest.fixture
def write(tmp_path):
    def written(text, name="experiment.toml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return written


def test_the_shipped_example_is_the_lectures_experiment():
    experiment = read_config(SHIPPED)
    assert experiment.models == ("iid_normal", "multilevel_normal", "multilevel_poisson")
    assert experiment.data.file.resolve() == flowers_csv().resolve()
    assert experiment.sampler.seed == 1
    assert experiment.output.folder == SHIPPED.parents[1] / "results"


def test_an_empty_file_is_the_default(write):
    experiment = read_config(write(""))
    expected = Experiment().output.model_dump() | {"folder": write("").parent / "results"}
    assert experiment.output.model_dump() == expected
    assert experiment.model_dump(exclude={"output"}) == Experiment().model_dump(exclude={"output"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modles = []", "unknown key modles; did you mean models?"),
        ("[sampler]\nchanis = 3", "unknown key sampler.chanis; did you mean chains?"),
        (
            "[data]\nzzz = 3",
            "unknown key data.zzz; the keys here are group, time, value, columns, sep",
        ),
        ("[smapler]\nseed = 1", "unknown key smapler; did you mean sampler?"),
        ("models = []", "models must name at least one, got []"),
        ("models = 'x'", "models must be a list, got 'x'"),
        (
            "models = ['iid_normal', 'iid_normal']",
            "models: more than one model is called 'iid_normal'",
        ),
        (
            "models = ['a/x.stan', 'b/x.stan']",
            "models: more than one model is called 'x', but run folders",
        ),
        (
            "models = ['y ~ x + g', 'y ~ (x | g)']",
            "models: more than one model is called 'y ~ x + g', but run folders are named after "
            "the models (a leading 1 + changes the name of a formula); rename one",
        ),
        (
            "models = ['iid_norml']",
            "models: no program is named 'iid_norml'; did you mean iid_normal",
        ),
        ("[priors.iid]\nmu_sd = 1", "no program is named 'iid'"),
        ("[priors.iid_normal]\nmu_std = 1", "prior mu_std: iid_normal has no such prior"),
        ("[priors.iid_normal]\nmu_sd = 0", "prior mu_sd must be a finite number and"),
        ("models = [3]", "models.0 must be a string, got 3"),
        ("include_paths = 'lib'", "include_paths must be a list, got 'lib'"),
        ("[sampler]\nchains = 0", "sampler.chains must be at least 1, got 0"),
        ("[sampler]\nchains = 2.5", "sampler.chains must be a whole number, got 2.5"),
        ("[sampler]\nchains = true", "sampler.chains must be a whole number, got True"),
        ("[sampler]\nseed = -1", "sampler.seed must be at least 0, got -1"),
        ("[sampler]\nseed = 4294967296", "sampler.seed must be at most 4294967295"),
        ("[sampler]\nadapt_delta = 1.0", "sampler.adapt_delta must be less than 1, got 1.0"),
        ("[sampler]\nadapt_delta = nan", "sampler.adapt_delta must be a finite number, got nan"),
        ("sampler = 3", "sampler must be a table, got 3"),
        ("[data]\nfile = 3", "data.file must be a path, got 3"),
        (
            "[output]\nplots = 'gif'",
            "output.plots must be 'png', 'svg', 'pdf' or 'none'",
        ),
        (
            "[sampler]\nengine = 'pystan'",
            "sampler.engine must be 'auto', 'cmdstan', 'stanli' or 'exact'",
        ),
        ("[sampler]\ncentered = 'x'", "sampler.centered must be a boolean, got 'x'"),
        ("[data]\ntime_order = 'name'", "data.time_order must be 'value' or 'appearance'"),
        ("[data]\ncolumns = ['a']", "data.columns must be a table, got ['a']"),
        (
            "[priors.iid_normal]\nmu_sd = 'a'",
            "prior mu_sd must be a finite number and above 0, got 'a'",
        ),
        (
            "[sampler]\ncmdstan = 'x'",
            "sampler: cmdstan cannot be set in a file, because it is a path",
        ),
        ("models = [", "is not valid TOML: "),
    ],
)
def test_what_is_wrong_is_one_sentence_with_file_and_key(write, text, message):
    path = write(text)
    with pytest.raises(ConfigError) as caught:
        read_config(path)
    printed = str(caught.value)
    assert printed.startswith((f"{path}: {message}", f"{path} {message}"))
    assert "\n" not in printed


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(ConfigError, match=r"no\.toml cannot be read \(No such file"):
        read_config(tmp_path / "no.toml")


def test_paths_are_relative_to_the_file(write, tmp_path):
    experiment = read_config(write("[data]\nfile = '../a.csv'\n[output]\nfolder = '/abs'"))
    assert experiment.data.file == tmp_path.parent / "a.csv"
    assert experiment.output.folder == Path("/abs")


def test_values_of_the_command_line_are_checked_too():
    changed = Experiment().with_values(sampler={"seed": 7}, models=["iid_normal"])
    assert (changed.sampler.seed, changed.models) == (7, ("iid_normal",))
    with pytest.raises(ConfigError, match=r"the command line: sampler\.chains must be at least 1"):
        Experiment().with_values(sampler={"chains": 0})


def test_run_json_is_the_configuration_of_its_run(lecture_fits, tmp_path):
    fit = lecture_fits["multilevel_poisson"]
    folder = fit.save(tmp_path / "run")
    experiment = read_config(folder / "run.json")
    assert experiment == from_record(fit.record)
    assert experiment.sampler.seed == 1
    assert experiment.models == ("multilevel_poisson",)
    assert experiment.priors["multilevel_poisson"] == fit.record.priors


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models = ['own.stan']", r"own\.stan: no such Stan program; check the path"),
        ("[data]\ncolumns = { blossom = 'flowers' }", "blossom: iid_normal reads no such"),
    ],
)
def test_what_programs_refuse_is_said_before_any_of_them_is_fitted(
    write, monkeypatch, text, message
):
    monkeypatch.setenv("CMDSTAN", "/nowhere")
    path = write(text)
    with pytest.raises(ConfigError, match=message):
        run_experiment(read_config(path))
    assert not (path.parent / "results").exists()


def test_priors_of_a_shipped_program_that_is_not_fitted_are_no_mistake(write, monkeypatch):
    monkeypatch.setenv("CMDSTAN", "/nowhere")
    path = write("models = ['iid_normal']\n[priors.multilevel_poisson]\nmu_sd = 3")
    with pytest.raises(ToolchainError, match="/nowhere is not a CmdStan folder"):
        run_experiment(read_config(path), cmdstan="/nowhere")


def test_programs_of_ones_own_are_relative_to_the_file(write, tmp_path):
    (tmp_path / "programs").mkdir()
    path = write("models = ['programs/mine.stan', 'iid_normal']\ninclude_paths = ['lib']")
    experiment = read_config(path)
    assert experiment.models == (str(tmp_path / "programs" / "mine.stan"), "iid_normal")
    assert experiment.include_paths == (tmp_path / "lib",)


def test_the_run_of_a_program_of_ones_own_is_a_configuration(own_program, tmp_path):
    program = own_program("trial", TRIAL, DECLARATION)
    renamed = visits().rename(columns={"patient": "Patientin"})
    renamed.to_csv(tmp_path / "visits.csv", index=False)
    fit = pyflowers.fit(
        program.path,
        tmp_path / "visits.csv",
        seed=2,
        group="Patientin",
        priors={"tau_scale": 2},
        draws=50,
        cmdstan="embedded",
    )
    folder = fit.save(tmp_path / "runs" / "trial")
    experiment = read_config(folder / "run.json")
    assert experiment.models == (str(program.path),)
    assert experiment.data.columns["patient"] == "Patientin"
    assert experiment.priors == {"trial": {"tau_scale": 2.0}}
    moved = experiment.with_values(output={"folder": tmp_path / "runs"})
    (outcome,) = run_experiment(moved, cmdstan="embedded")
    assert outcome.refitted == ()
    assert outcome.fit.posterior.keys() == fit.posterior.keys()


def test_a_configuration_is_no_other_json_file_and_has_no_initial_values(tmp_path):
    frame = pd.DataFrame({"x": [0.0, 1, 2, 3], "y": [1.0, 3.2, 4.9, 7.1]})
    frame.to_csv(tmp_path / "d.csv", index=False)
    how = {"seed": 1, "engine": "stanli", "warmup": 100, "draws": 50}
    pyflowers.Program.from_formula("y ~ x", frame).write(tmp_path / "line.stan")
    fit = pyflowers.fit(tmp_path / "line.stan", tmp_path / "d.csv", **how)
    folder = fit.save(tmp_path / "run")
    assert read_config(folder / "run.json").family is None
    with pytest.raises(
        ConfigError, match=r"not a configuration; name a \.toml file or a run's run"
    ):
        read_config(folder / "diagnostics.json")
    fit = pyflowers.fit("y ~ x", tmp_path / "d.csv", inits=0.1, **how)
    assert read_config(fit.save(tmp_path / "narrow") / "run.json").sampler.inits == 0.1
    fit = pyflowers.fit("iid_normal", inits={"mu": 4.0, "sigma2": 2.0}, **how)
    with pytest.raises(ConfigError, match="has its own initial values, which a configuration"):
        read_config(fit.save(tmp_path / "near") / "run.json")


def test_a_file_names_the_link_of_its_formulas(tmp_path):
    path = tmp_path / "e.toml"
    path.write_text("models = ['bit ~ x']\nfamily = 'bernoulli'\nlink = 'probit'\n")
    config = read_config(path)
    assert config.names() == {"bit ~ x": "bit_x_bernoulli_probit"}
    frame = pd.DataFrame({"bit": [0, 1, 1, 0], "x": [1.0, 2.0, 3.0, 4.0]})
    assert config.spec_of("bit ~ x", config.data, frame).family == "bernoulli(probit)"
    path.write_text("models = ['bit ~ x']\nfamily = 'bernoulli(logit)'\nlink = 'probit'\n")
    with pytest.raises(ConfigError, match=r"'bernoulli\(logit\)' and link 'probit' differ"):
        read_config(path)
    path.write_text("models = ['iid_normal']\nlink = 'probit'\n")
    with pytest.raises(ConfigError, match="link: none of the models is a formula"):
        read_config(path)
