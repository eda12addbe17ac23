"""Each input of a fit is written down once and works everywhere."""

import inspect
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import pyflowers
from pyflowers import ConfigError, Spec, Task
from pyflowers.cli.main import cli
from pyflowers.fits.spec import INPUTS, OF_PRIOR, OF_SBC, option_of
from pyflowers.workflow.batch import read_batch
from pyflowers.workflow.config import Experiment, read_config

QUICK = {"seed": 1, "chains": 2, "warmup": 200, "draws": 200, "engine": "stanli"}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=40), "g": np.repeat(list("abcd"), 10)})
    frame["y"] = 2 * frame["x"] + rng.normal(size=40)
    path = tmp_path_factory.mktemp("spec") / "d.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (pyflowers.fit, INPUTS),
        (pyflowers.prior, OF_PRIOR),
        (pyflowers.sbc, OF_SBC),
        (pyflowers.compare, INPUTS),
    ],
)
def test_functions_spell_out_the_inputs(function, names):
    shown = inspect.signature(function).parameters
    text = inspect.getdoc(function)
    for name in names:
        field = Spec.model_fields[name]
        assert shown[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert shown[name].default == field.get_default(call_default_factory=True)
        assert f"\n{name} : " in text
        assert field.description.split()[0] in text


@pytest.mark.parametrize(
    ("command", "names"),
    [("fit", INPUTS), ("compare", INPUTS), ("prior", OF_PRIOR), ("sbc", OF_SBC)],
)
def test_commands_have_an_option_for_each_input(command, names):
    shown = CliRunner().invoke(cli, [command, "--help"]).output
    assert [name for name in names if f"{option_of(name)} " not in shown] == []


def test_a_file_has_a_key_for_each_input():
    sections = [Experiment, *(Experiment.model_fields[n].annotation for n in ("data", "sampler"))]
    keys = {name for section in sections for name in section.model_fields}
    assert {*INPUTS} - keys == {"cmdstan"}  # a file must not name an executable


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"drwas": 1}, "unknown key drwas; did you mean draws?"),
        (
            {"options": {"draws": 9}},
            "options: each option of the sampler is a separate argument; give it by its name, such "
            "as draws=2000",
        ),
        *(
            (
                {name: {"draws": 9}},
                f"{name}: each option of the sampler is a separate argument; give it by its name, "
                "such as draws=2000",
            )
            for name in ("sampler", "sampler_options", "control", "iter")
        ),
        ({"name": ""}, "name: it is empty; give a name such as growth, or leave it out"),
        ({"name": " "}, "name: it is empty; give a name such as growth, or leave it out"),
        (
            {"name": "a/b"},
            "name: 'a/b' cannot name a folder, such as runs/NAME; give a name that has no "
            "slashes and does not consist only of dots",
        ),
        (
            {"name": ".."},
            "name: '..' cannot name a folder, such as runs/NAME; give a name that has no "
            "slashes and does not consist only of dots",
        ),
        ({"name": 51 * "x"}, "name: it has 51 characters, more than 50; give a shorter name"),
        (
            {"name": "a\nb"},
            r"name: 'a\nb' has a character that cannot be printed; leave it out",
        ),
        ({"group": 3}, "group must be a string, got 3"),
        ({"time_order": "name"}, "time_order must be 'value' or 'appearance', got 'name'"),
        ({"default_priors": "x"}, "default_priors must be 'brms', got 'x'"),
        ({"interval": 1}, "interval must be less than 1, got 1"),
        ({"warmup": True}, "warmup must be a whole number, got True"),
    ],
)
def test_an_input_out_of_range_is_a_sentence(inputs, message):
    with pytest.raises(ConfigError) as raised:
        Spec("iid_normal", **inputs)
    assert str(raised.value) == message


def test_none_is_not_given():
    assert Spec("iid_normal", chains=None, group=None).model_fields_set == {"program", "data"}


def test_a_call_changes_inputs_of_a_question():
    spec = Spec("iid_normal", seed=1, draws=50)
    changed = Spec.of_call(spec, draws=60)
    assert (changed.program, changed.seed, changed.draws) == ("iid_normal", 1, 60)
    assert spec.draws == 50


def test_data_that_were_read_are_not_read_again():
    program = pyflowers.Spec("iid_normal").open()
    data = program.read()
    assert Spec(program, data).with_table().data is data
    assert pyflowers.fit(program, data, seed=1, engine="exact").data.num_obs == 12


def test_questions_about_tables_can_be_compared_and_counted():
    spec = Spec("iid_normal", pd.DataFrame({"y": [1.0]}))
    assert spec == spec
    assert len({spec, Spec("iid_normal", pd.DataFrame({"y": [1.0]}))}) == 2


@pytest.mark.slow
def test_the_priors_of_brms_apply_everywhere(file, tmp_path):
    spec = Spec("y ~ x", file, default_priors="brms", **QUICK)
    fit = pyflowers.fit(spec)
    assert "b_scale" not in fit.program.source.text
    text = fit.program.source.text
    assert pyflowers.compare(spec, approximations=False).program.source.text == text
    with pytest.raises(ConfigError, match="b has an improper prior"):
        pyflowers.prior(spec.program, file, default_priors="brms")
    found = pyflowers.sbc(
        spec, out=tmp_path / "sbc", sims=2, posterior=True, num_ranks=50, workers=1
    )
    assert found.sha256 == fit.program.source.sha256
    batch = pyflowers.batch([Task(spec_of_batch(spec))], out=tmp_path / "b", engine="stanli")
    assert batch.progress.done == 1
    assert "b_scale" not in read_config(toml(tmp_path, file)).specs()[0].open().source.text


def spec_of_batch(spec):
    """Return a question without its engine, which a batch chooses."""
    given = {name: getattr(spec, name) for name in spec.model_fields_set - {"engine"}}
    return Spec(**given)


def toml(folder, file):
    path = Path(folder) / "e.toml"
    path.write_text(
        f'models = ["y ~ x"]\ndefault_priors = "brms"\n[data]\nfile = "{file}"\n'
        "[sampler]\nseed = 1\ninits = 0.1\n"
    )
    return path


def test_files_have_initial_values(file, tmp_path):
    (spec,) = read_config(toml(tmp_path, file)).specs()
    assert (spec.inits, spec.default_priors) == (0.1, "brms")
    batch = tmp_path / "b.toml"
    batch.write_text(
        f'models = ["y ~ x"]\n[data]\nfile = "{file}"\n[sampler]\ninits = "start.json"\n'
    )
    _, (task,) = read_batch(batch)
    assert task.spec.inits == tmp_path / "start.json"


def test_an_option_of_the_sampler_is_refused_where_the_prior_is_drawn():
    with pytest.raises(ConfigError, match="chains is an option of the posterior's sampler"):
        pyflowers.prior("iid_normal", chains=2)
