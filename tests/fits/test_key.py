"""The key of a fit is known before sampling, and its parts say what has changed."""

import json

import numpy as np
import pandas as pd
import pytest

import pyflowers
from pyflowers.engines.cmdstan import CmdStanEngine
from pyflowers.errors import ConfigError
from pyflowers.fits import sampling
from pyflowers.fits.folder import RunRecord, run_changes
from pyflowers.fits.key import Key
from pyflowers.fits.sampling import prepare, prepare_spec

PROGRAM = """
functions {
#include half.stan
}
data {
  int N; int P; vector[N] y; array[N] int<lower=1, upper=P> plot; real<lower=0> tau; int centered;
}
parameters { real m; }
model { m ~ normal(0, tau); y ~ normal(half(m), 1); }
"""
HALF = "real half(real x) { return x / 2; }"
DECLARATION = """
[data]
y = { column = "height" }
centered = { value = 0 }
[priors]
tau = 10.0
"""
TABLE = {"plot": ["a", "b", "b", "c"], "height": [1.5, 2.25, 3.0, 0.5], "unused": [1, 2, 3, 4]}


@pytest.fixture
def program(tmp_path):
    """A program of two files with a declaration."""
    for name, text in (("m.stan", PROGRAM), ("half.stan", HALF), ("m.toml", DECLARATION)):
        (tmp_path / name).write_text(text)
    return tmp_path / "m.stan"


def record(program, table=TABLE, **inputs):
    """Return the record of the inputs, which is made without sampling."""
    data = table if "N" in table or isinstance(table, pd.DataFrame) else pd.DataFrame(table)
    asked = {"seed": 1, "engine": "stanli", **inputs}
    return prepare_spec(pyflowers.Spec(program, data, **asked)).record


def test_equal_inputs_have_equal_keys_also_in_run_json(program):
    first, again = record(program), record(program)
    assert first.key == again.key
    assert run_changes(first, again) == []
    text = json.loads(json.dumps(first.model_dump(mode="json")))
    assert RunRecord.parse(text, "run.json").key == first.key
    assert Key.parse(json.loads(first.key.model_dump_json()), "key").digest() == first.key.digest()
    # Neither the order of the columns nor one that is not read counts.
    other = {name: TABLE[name] for name in ("height", "plot")}
    assert record(program, other).key.digest() == first.key.digest()


CHANGES = {
    "cell": ({"height": [1.5, 2.25, 3.0, 0.25]}, {}, "the data changed: column height"),
    "label": ({"plot": ["a", "b", "b", "d"]}, {}, "the data changed: column plot"),
    "order": (
        {name: cells[::-1] for name, cells in TABLE.items()},
        {},
        "the data changed: column height, column plot",
    ),
    "prior": ({}, {"priors": {"tau": 10.5}}, "prior tau was 10.0 and is 10.5"),
    "seed": ({}, {"seed": 2}, "seed was 1 and is 2"),
    "draws": ({}, {"draws": 999}, "draws was 1000 and is 999"),
    "metric": ({}, {"metric": "dense_e"}, "metric was diag_e and is dense_e"),
    "parametrisation": ({}, {"centered": True}, "centered was False and is True"),
    "inits": ({}, {"inits": 1.0}, "the initial values changed"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_each_input_changes_the_key_and_is_named(program, what):
    cells, inputs, sentence = CHANGES[what]
    usual = {"centered": False, **inputs}
    before, now = record(program, centered=False), record(program, {**TABLE, **cells}, **usual)
    assert run_changes(before, now) == [sentence]
    assert before.key.digest() != now.key.digest()
    assert (before.key.digest(seeded=False) == now.key.digest(seeded=False)) == (what == "seed")


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        ("m.stan", "/ 2", "/ 2", None),
        ("half.stan", "x / 2", "x / 3", "program {path} changed"),
        ("m.stan", "normal(0, tau)", "cauchy(0, tau)", "program {path} changed"),
        ("m.toml", "[data]", 'title = "other"\n[data]', "the declaration changed"),
    ],
)
def test_each_byte_of_the_program_counts(program, file, old, new, sentence):
    before = record(program, centered=False)
    path = program.with_name(file)
    path.write_text(path.read_text().replace(old, new))
    changes = run_changes(before, record(program, centered=False))
    assert changes == ([] if sentence is None else [sentence.format(path=program)])


def test_a_data_block_is_compared_variable_by_variable(program):
    block = {"N": 3, "P": 2, "y": np.array([1.0, 2.0, 3.0]), "centered": 0, "tau": 10.0}
    block["plot"] = np.array([1, 2, 2])
    before = record(program, block)
    assert before.key.columns == {}
    now = record(program, {**block, "plot": np.array([1, 2, 1])})
    assert run_changes(before, now) == ["the data changed: variable plot"]


def test_the_order_of_the_times_is_part_of_the_data():
    """It is the order of labels in the results."""
    table = {"plot": ["a", "a"], "month": ["m2", "m1"], "flowers": [4, 5]}
    before, now = (
        record("multilevel_poisson", table, group="plot", time_order=order)
        for order in ("value", "appearance")
    )
    assert run_changes(before, now) == ["the data changed: column month"]


def test_the_contents_of_a_file_of_initial_values_count_and_not_its_name(program, tmp_path):
    for name, value in (("one", 0.5), ("two", 0.5), ("three", 0.75)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"m": value}))
    one, two, three = (
        record(program, inits=str(tmp_path / f"{name}.json")) for name in ("one", "two", "three")
    )
    assert run_changes(one, two) == []
    assert run_changes(one, three) == ["the initial values changed"]


def test_the_engine_and_its_version_count(program):
    before = record(program)
    versions = {**before.engine.versions, "stanli": "0.23"}
    older = before.engine.model_copy(update={"versions": versions, "key": "other"})
    (sentence,) = run_changes(before.model_copy(update={"engine": older}), before)
    assert sentence.startswith("version of stanli was 0.23 and is ")


def test_the_version_of_pyflowers_counts_where_its_code_chooses_the_metric(program):
    for metric, expected in (
        ("pilot", ["version of pyflowers was 0.1 and is " + pyflowers.__version__]),
        ("diag_e", []),
    ):
        now = record(program, metric=metric)
        before = now.model_copy(update={"packages": {**now.packages, "pyflowers": "0.1"}})
        assert run_changes(before, now) == expected
        assert (before.key.digest() != now.key.digest()) == bool(expected)


@pytest.mark.parametrize("choice", [True, False])
def test_a_group_called_centered_is_recorded_beside_the_others(choice):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"centered": np.repeat(list("abcdef"), 10), "y": rng.normal(size=60)})
    frame["plant"] = np.tile(list("uvwxyz"), 10)
    chosen = {"centered": choice, "plant": not choice}
    now = record("y ~ (1 | centered) + (1 | plant)", frame, centered=chosen)
    assert now.centered == chosen
    assert record("y ~ (1 | centered)", frame, centered=choice).centered == {"centered": choice}


def test_the_key_of_a_program_for_cmdstan_needs_no_compiled_program(program, cmdstan):
    engine = CmdStanEngine(cmdstan)
    spec = pyflowers.Spec(program, pd.DataFrame(TABLE), seed=1).with_table()
    opened = spec.open()
    key = prepare(spec, opened, spec.read(opened), engine).record.key
    assert key.engine.name == "cmdstan"
    executable = engine.identify(opened).executable
    assert key.engine.key == executable.key
    assert not executable.path.exists()


def test_a_run_of_an_earlier_version_is_refused_in_a_sentence(program):
    now = record(program)
    data = now.data.model_copy(update={"cells": {}, "variables": {}})
    before = now.model_copy(update={"data": data, "packages": {"pyflowers": "0.3.0"}})
    (sentence,) = run_changes(before, now)
    assert sentence == (
        "it was written by pyflowers 0.3.0, which recorded no digests of the inputs"
    )


def test_fit_reads_the_run_of_equal_inputs(tmp_path, monkeypatch, caplog):
    """In Python, the same rules hold as for the command."""
    caplog.set_level("INFO", "pyflowers")
    ask = {"engine": "exact", "draws": 20, "out": tmp_path / "run"}
    first = pyflowers.fit("iid_normal", **ask)
    assert first.folder == tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(sampling.Prepared, "sample", None)  # would be an error
        again = pyflowers.fit("iid_normal", **ask)
        narrow = pyflowers.fit("iid_normal", **ask, interval=0.5)
        with pytest.raises(ConfigError, match=r"\(draws was 20 and is 30\); name another"):
            pyflowers.fit("iid_normal", **{**ask, "draws": 30})
    assert (again.draws["mu"] == first.draws["mu"]).all()
    assert (again.options.seed, narrow.interval) == (first.options.seed, 0.5)
    (line, _) = caplog.messages
    assert line == (
        f"iid_normal: not refitted, because nothing changed; read from {tmp_path / 'run'} "
        "(to refit it, use refit=True)"
    )
    caplog.clear()
    other = pyflowers.fit("iid_normal", **{**ask, "draws": 30}, overwrite=True)
    assert caplog.messages == ["iid_normal: refitted, because draws was 20 and is 30"]
    assert other.options.seed == first.options.seed
    refit = pyflowers.fit("iid_normal", **{**ask, "draws": 30}, refit=True)
    assert (refit.draws["mu"] == other.draws["mu"]).all()
    assert pyflowers.Fit.load(tmp_path / "run").num_draws == 30


def test_a_fit_fills_its_data_block_once(monkeypatch):
    calls = []
    fill = pyflowers.Program.fill

    def counted(*args, **how):
        calls.append(1)
        return fill(*args, **how)

    monkeypatch.setattr(pyflowers.Program, "fill", counted)
    pyflowers.fit("iid_normal", engine="exact", draws=20)
    assert len(calls) == 1
