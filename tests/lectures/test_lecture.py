"""The command of every example, and its results: findings, tables, figures and a record."""

import json
from importlib import import_module

import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib import pyplot
from matplotlib.figure import Figure
from threadpoolctl import threadpool_info, threadpool_limits

from pyflowers.cli.machine import lecture_command
from pyflowers.errors import ConfigError
from pyflowers.lectures import EXAMPLES, Lecture, Settings, run_example
from pyflowers.plots.style import alt_text

TABLE = (
    *("metropolis-bimodal", "hmc-bimodal", "leapfrog", "regression"),
    *("gaussian-mixture", "neural-network", "markov-chain", "flowers-by-hand"),
)
SMALL = Lecture(
    "small",
    "A small one",
    Settings(seed=7),
    ["One is 1."],
    {"Numbers": [{"name": "pi", "value": np.pi, "count": 12_345, "fine": np.bool_(True)}]},
    {"empty": Figure(figsize=(1, 1))},
    {"array": np.arange(3), "missing": float("nan")},
)


def test_the_examples_are_those_of_the_lectures():
    assert tuple(EXAMPLES) == TABLE


MINUTES = ("gaussian-mixture", "neural-network")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in MINUTES)) for name in TABLE],
)
def test_every_example_is_a_documented_function_with_what_it_promises(example, name):
    function = name.replace("-", "_")
    home = import_module(f"pyflowers.lectures.{function}")
    assert home.__doc__
    assert "References" in home.__doc__
    by_numpy_alone = name in ("leapfrog", "markov-chain")
    assert by_numpy_alone or "Raises" in getattr(home, function).__doc__
    lecture = example(name)
    assert lecture.name == name
    assert len(lecture.findings) >= 3
    assert all(finding.endswith(".") for finding in lecture.findings)
    assert lecture.figures
    assert all(len(alt_text(figure)) > 20 for figure in lecture.figures.values())
    assert json.loads(json.dumps(lecture.record(), allow_nan=False))["seed"] == 1
    assert not pyplot.get_fignums()


@pytest.mark.parametrize("name", ["leapfrog", "markov-chain"])
def test_a_seed_decides_everything(example, name):
    again = run_example(name, Settings(seed=1, quick=True))
    other = run_example(name, Settings(seed=2, quick=True))
    assert again.record() == example(name).record()
    assert other.record()["results"] != again.record()["results"]


def test_a_folder_holds_findings_numbers_and_figures(tmp_path):
    folder = SMALL.save(tmp_path / "out")
    files = ["empty.png", "findings.md", "results.json"]
    assert sorted(path.name for path in folder.iterdir()) == files
    text = (folder / "findings.md").read_text()
    assert "- One is 1." in text
    assert "| pi | 3.14 | 12,345 | yes |" in text
    assert "--seed 7" in text
    record = json.loads((folder / "results.json").read_text())
    assert record["results"] == {"array": [0, 1, 2], "missing": None}
    assert record["tables"]["Numbers"][0]["value"] == np.pi
    SMALL.save(folder)  # it may overwrite its own folder


@pytest.mark.parametrize("content", [{"notes.txt": "mine"}, {"results.json": '{"lecture": "x"}'}])
def test_a_folder_with_something_else_is_refused(tmp_path, content):
    for name, text in content.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match="which no earlier small wrote"):
        SMALL.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(content)


def test_streams_of_one_seed_differ():
    settings = Settings(seed=3)
    first, second = settings.rng(0).random(5), settings.rng(1).random(5)
    assert not np.allclose(first, second)
    assert np.array_equal(first, settings.rng(0).random(5))


def test_the_command_lists_the_examples():
    done = CliRunner().invoke(lecture_command, ["--list"])
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.output.splitlines()] == list(TABLE)


def test_the_command_runs_an_example(tmp_path):
    out = tmp_path / "chain"
    arguments = ["markov-chain", "--quick", "--seed", "5", "--out", out]
    done = CliRunner().invoke(lecture_command, arguments)
    assert done.exit_code == 0, done.output
    assert json.loads((out / "results.json").read_text())["seed"] == 5
    assert "Detailed balance" in done.output


@pytest.mark.parametrize(
    ("arguments", "message", "status"),
    [
        ([], "name an example", 2),
        (["leapfrog", "--seed", "x"], "not a valid integer", 2),
        (["leapfrogs"], "no lecture is named 'leapfrogs'; choose one of metropolis", 1),
        (["leapfrog", "--seed", "-1"], "seed must be a whole number from 0", 1),
        (["leapfrog", "--seed", str(2**32)], "seed must be a whole number from 0", 1),
    ],
)
def test_errors_say_what_to_do(arguments, message, status):
    done = CliRunner().invoke(lecture_command, arguments)
    assert done.exit_code == status
    assert status == 2 or isinstance(done.exception, ConfigError)
    assert message in done.output + str(done.exception)


def test_an_example_runs_with_one_thread_of_blas(monkeypatch):
    def threads():
        return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}

    seen = []

    def example(name, settings):
        seen.append(threads())
        return SMALL

    monkeypatch.setattr("pyflowers.lectures.run_example", example)
    with threadpool_limits(2, "blas"):
        done = CliRunner().invoke(lecture_command, ["leapfrog"], standalone_mode=False)
        assert done.exception is None
        assert threads() == {2}
    assert seen == [{1}]
