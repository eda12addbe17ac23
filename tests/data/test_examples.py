"""The example tables of the package, and ``example:NAME`` wherever a table is named."""

import json
import re
import tomllib
from pathlib import Path

import pandas as pd
import pytest
from command_line import run

import pyflowers
from pyflowers.data.examples import table_path
from pyflowers.errors import DataError
from pyflowers.fits.commands import inputs_of, python_call, shell_words
from pyflowers.resources import example_tables
from pyflowers.workflow.batch import read_batch
from pyflowers.workflow.config import from_record, read_config
from pyflowers.workflow.replay import replay

ROOT = Path(__file__).resolve().parents[2]
FAST = {"chains": 2, "warmup": 100, "draws": 100, "seed": 1, "engine": "stanli"}


@pytest.mark.parametrize("name", example_tables())
def test_an_example_is_the_table_of_its_name(name):
    frame = pyflowers.example(name)
    columns = dict.fromkeys(frame, "")
    table = pyflowers.read_table(f"example:{name}")
    assert table.source == f"example:{name}"
    assert table.sha256(columns) == pyflowers.from_frame(frame).sha256(columns)


def test_the_readme_of_the_tables_lists_each_with_its_rows_and_licence():
    text = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\d,]+) \|.*\| BSD 3-Clause \|$", text, re.MULTILINE))
    found = {name: len(pyflowers.example(name)) for name in example_tables()}
    assert {name: int(num.replace(",", "")) for name, num in rows.items()} == found
    words = str(pyflowers.example.__doc__)
    assert all(f"``{name}``" in words for name in found)


def test_the_code_of_the_readme_makes_the_simulated_table(tmp_path, monkeypatch):
    text = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], {})
    made = (tmp_path / "simulated_sleep.csv").read_bytes()
    assert made == table_path("example:simulated_sleep").read_bytes()


def test_a_wheel_holds_each_table_once():
    """Hatch puts the tables of the examples into the wheel as well."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    packaged = {name: path.relative_to(ROOT).as_posix() for name, path in example_tables().items()}
    elsewhere = {n: path for n, path in packaged.items() if not path.startswith("data/")}
    assert included["data"] == "pyflowers/_data"
    assert {path: f"pyflowers/_data/{n}.csv" for n, path in elsewhere.items()}.items() <= (
        included.items()
    )
    contents = [(ROOT / path).read_bytes() for path in packaged.values()]
    assert len(set(contents)) == len(contents)


def test_an_unknown_example_is_one_sentence_with_the_names():
    message = (
        "no example table is named 'wheat'; choose one of epilepsy, flowers, gaussian_mixture, "
        "rats, seeds, simulated_sleep"
    )
    for use in (pyflowers.example, lambda name: pyflowers.Spec("y ~ x", f"example:{name}").open()):
        with pytest.raises(DataError) as error:
            use("wheat")
        assert str(error.value) == message


def test_a_run_of_an_example_replays_and_names_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    formula = "germinated | trials(seeds) ~ cucumber"
    words = ["--family", "binomial", "--data", "example:seeds", "--plots", "none", "--seed", "1"]
    fast = ["--chains", "2", "--warmup", "100", "--draws", "100", "--engine", "stanli"]
    assert run("fit", formula, *words, *fast, "--out", "run") == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["data"]["source"] == (
        "example:seeds"
    )
    assert replay("run").verdict == "bitwise equal"
    fit = pyflowers.Fit.load("run")
    assert shell_words(inputs_of(fit))[:2] == ["--data", "example:seeds"]
    assert '"example:seeds"' in python_call(inputs_of(fit))
    assert from_record(fit.record).specs()[0].data == Path("example:seeds")
    assert run("fit", "--config", "run/run.json", *fast, "--plots", "none", "--out", "again") == 0
    # A column that the fit did not use is read from the example, like that of a file.
    checks = pyflowers.check(fit, time="plate")
    assert checks.verdict.data.checks
    assert run("predict", "run", "--new", "example:seeds") == 0
    assert run("new", "seeds.stan", formula, "--family", "binomial", "--data", "example:seeds") == 0
    assert run("prior", formula, "--family", "binomial", "--data", "example:seeds") == 0


def test_experiments_and_batches_name_examples(tmp_path):
    """Other paths in a file are relative to its folder."""
    experiment, batch = tmp_path / "experiment.toml", tmp_path / "batch.toml"
    experiment.write_text('models = ["weight ~ age"]\n[data]\nfile = "example:rats"\n')
    assert read_config(experiment).data.file == Path("example:rats")
    (tmp_path / "mine.csv").write_text("y,x\n1,2\n2,3\n4,3\n")
    batch.write_text(
        'models = ["y ~ x"]\n[data]\nfiles = ["example:rats", "example:seeds", "*.csv"]\n'
    )
    _, tasks = read_batch(batch)
    assert sorted(name for name, _ in tasks.tables) == ["mine", "rats", "seeds"]
    batch.write_text('models = ["weight ~ age"]\n[data]\nfile = "example:rats"\nby = "rat"\n')
    assert len(read_batch(batch)[1].tables) == 30


def test_a_frame_of_an_example_is_data_like_any_other():
    frame = pyflowers.example("simulated_sleep")
    assert isinstance(frame, pd.DataFrame)
    fit = pyflowers.fit("Reaction ~ Days", frame, **FAST)
    assert fit.data.num_obs == len(frame)
