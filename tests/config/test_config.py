"""An experiment as a file: what it says, what is wrong with it, and what it comes back as."""

from pathlib import Path

import pytest

from pyflowers.config import Experiment, from_record, read_config, to_toml
from pyflowers.errors import ConfigError
from pyflowers.resources import flowers_csv

SHIPPED = flowers_csv().parent.parent / "configs" / "flowers.toml"


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
        ("[data]\nzzz = 3", "unknown key data.zzz; the keys here are file, group, time, value"),
        ("[smapler]\nseed = 1", "unknown key smapler; did you mean sampler?"),
        ("models = []", "models must name at least one model, was []"),
        ("models = 'x'", "models must be a list, was 'x'"),
        (
            "models = ['iid_norml']",
            "models: no model is named 'iid_norml': did you mean iid_normal",
        ),
        ("models = ['iid_normal', 'iid_normal']", "models: a model stands twice; name each once"),
        ("[sampler]\nchains = 0", "sampler.chains must be at least 1, was 0"),
        ("[sampler]\nchains = 2.5", "sampler.chains must be a whole number, was 2.5"),
        ("[sampler]\nchains = true", "sampler.chains must be a whole number, was True"),
        ("[sampler]\nseed = -1", "sampler.seed must be at least 0, was -1"),
        ("[sampler]\nseed = 4294967296", "sampler.seed must be at most 4294967295"),
        ("[sampler]\nadapt_delta = 1.0", "sampler.adapt_delta must be less than 1, was 1.0"),
        ("[sampler]\nadapt_delta = nan", "sampler.adapt_delta must be a finite number, was nan"),
        ("sampler = 3", "sampler must be a table, was 3"),
        ("[data]\nfile = 3", "data.file must be a path, was 3"),
        ("[output]\nplots = 'gif'", "output.plots must be 'png', 'svg' or 'pdf', was 'gif'"),
        ("[priors.iid]\nmu_sd = 1", "priors: no model is named 'iid'"),
        ("[priors.iid_normal]\nmu_std = 1", "priors: prior mu_std: iid_normal has no such prior"),
        ("[priors.iid_normal]\nmu_sd = 0", "priors: prior mu_sd: it must be a finite number and"),
        ("[priors.iid_normal]\nmu_sd = 'a'", "priors.iid_normal.mu_sd must be a number, was 'a'"),
        ("models = [", "it is not TOML: "),
    ],
)
def test_what_is_wrong_is_one_sentence_with_file_and_key(write, text, message):
    path = write(text)
    with pytest.raises(ConfigError) as caught:
        read_config(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: {message}")
    assert "\n" not in said


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(ConfigError, match=r"no\.toml: it cannot be read \(No such file"):
        read_config(tmp_path / "no.toml")


def test_paths_are_relative_to_the_file(write, tmp_path):
    experiment = read_config(write("[data]\nfile = '../a.csv'\n[output]\nfolder = '/abs'"))
    assert experiment.data.file == tmp_path.parent / "a.csv"
    assert experiment.output.folder == Path("/abs")


def test_a_file_comes_back_as_it_was(write):
    text = """
        models = ["multilevel_normal"]
        [data]
        file = "Blüten.csv"
        value = 'a "quoted" \\ name'
        [priors.multilevel_normal]
        sigma2_plant_nu = 1
        sigma2_plant_scale = 0.1
        [sampler]
        seed = 0
        adapt_delta = 0.95
        [output]
        report = "r.html"
        check = true
    """
    experiment = read_config(write(text))
    assert read_config(write(to_toml(experiment), "again.toml")) == experiment


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
    assert experiment.priors["multilevel_poisson"] == fit.record["priors"]
    written = tmp_path / "run.toml"
    written.write_text(to_toml(experiment), encoding="utf-8")
    again = read_config(written)
    assert again.model_dump(exclude={"output"}) == experiment.model_dump(exclude={"output"})


def test_a_users_own_program_has_no_configuration():
    with pytest.raises(ConfigError, match="mine is your own program"):
        from_record({"shipped": False, "model": "mine"})
