"""Which engine is used, and what happens if it lacks something."""

import logging
from pathlib import Path
from typing import get_args

import pytest

import pyflowers
from pyflowers.advice import in_shell
from pyflowers.engines import find_engine
from pyflowers.engines.base import COMPILED_STAN, ENGINES, EngineName
from pyflowers.errors import ConfigError, FitError
from pyflowers.fits.sampling import about_engine
from pyflowers.fits.spec import Spec
from pyflowers.programs import find_program

ROOT = Path(__file__).resolve().parents[2]

SIMULATE = "generated quantities { real x = normal_rng(0, 1); }"


ONE = "parameters { real m; } model { m ~ normal(0, 1); }"
QUICK = {"warmup": 20, "draws": 20, "chains": 1}


@pytest.fixture
def no_cmdstan(monkeypatch):
    monkeypatch.setattr("pyflowers.toolchain.available_cmdstan", lambda: None)


def test_a_cmdstan_that_is_named_is_taken(cmdstan):
    assert find_engine("auto", "embedded").name == "cmdstan"


def test_auto_takes_compiled_stan_where_it_is_ready_and_otherwise_interprets(
    executables, tmp_path, monkeypatch
):
    ready = find_program("iid_normal")
    assert find_engine("auto", None, ready).name == "cmdstan"
    assert pyflowers.Spec(ready).find_engine(ready).name == "cmdstan"
    (tmp_path / "one.stan").write_text(ONE)
    assert find_engine("auto", None, find_program(tmp_path / "one.stan")).name == "stanli"
    assert find_engine("auto").name == "stanli"
    # only the interpreter has pilot runs
    assert pyflowers.Spec(ready, metric="pilot").find_engine(ready).name == "stanli"
    monkeypatch.setattr("pyflowers.toolchain.build.is_intact", lambda _: False)
    assert find_engine("auto", None, ready).name == "stanli"


def test_auto_interprets_if_there_is_no_cmdstan_or_compiler(no_cmdstan, monkeypatch):
    ready = find_program("iid_normal")
    assert find_engine("auto", None, ready).name == "stanli"
    monkeypatch.undo()
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert find_engine("auto", None, ready).name == "stanli"


def test_auto_compiles_nothing(cmdstan, tmp_path, monkeypatch):
    def compiled(*_):
        raise AssertionError("a compiler was called")

    monkeypatch.setattr("pyflowers.toolchain.build._make", compiled)
    (tmp_path / "one.stan").write_text(ONE)
    assert pyflowers.fit(tmp_path / "one.stan", seed=1, **QUICK).record.engine.name == "stanli"


def test_a_run_is_found_again_after_its_program_was_compiled(executables, tmp_path, caplog):
    out = tmp_path / "runs" / "a"
    first = pyflowers.fit("iid_normal", seed=1, engine="stanli", out=out, **QUICK)
    again = pyflowers.fit("iid_normal", out=out, **QUICK)
    assert again.record == pyflowers.Fit.load(out).record
    assert again.record.engine.name == "stanli"
    assert again.options.seed == first.options.seed
    caplog.set_level(logging.INFO, "pyflowers")
    other = pyflowers.fit("iid_normal", seed=2, out=tmp_path / "runs" / "b", **QUICK)
    assert other.record.engine.name == "cmdstan"
    said = f"engine: this fit uses cmdstan, but the last fit next to it, {out}, used stanli; "
    said += "to choose one, use engine"
    assert said in caplog.text
    caplog.clear()
    pyflowers.fit("iid_normal", seed=3, out=tmp_path / "runs" / "c", **QUICK)
    pyflowers.fit("iid_normal", seed=3, out=tmp_path / "runs" / "d", engine="stanli", **QUICK)
    assert "engine: " not in caplog.text


def test_a_run_that_another_process_replaces_is_not_told(tmp_path, monkeypatch):
    pyflowers.fit("iid_normal", seed=1, engine="stanli", out=tmp_path / "a", **QUICK)
    spec, engine = Spec("iid_normal"), Spec("iid_normal", engine="exact").find_engine()
    with in_shell():
        assert about_engine(spec, tmp_path / "b", engine).endswith("use --engine")
    assert about_engine(spec, tmp_path / "none" / "b", engine) == ""
    gone = tmp_path / "a" / "gone.json"
    monkeypatch.setattr(Path, "glob", lambda *_: iter([gone]))
    assert about_engine(spec, tmp_path / "b", engine) == ""


def test_the_words_on_compiled_stan_are_the_same_everywhere():
    said = [Spec.model_fields["engine"].description or ""]
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for path in pages:
        text = " ".join(path.read_text(encoding="utf-8").replace("`", "").split())
        if "a Stan interpreter is included" in text:
            said.append(text)
    assert len(said) > 2
    for text in said:
        assert COMPILED_STAN in text


def test_each_name_of_an_engine_has_its_help():
    assert set(get_args(EngineName)) == set(ENGINES)


@pytest.mark.parametrize(
    ("name", "cmdstan", "output"),
    [
        ("nuts", None, "engine must be one of cmdstan, stanli, exact, auto, got 'nuts'"),
        ("stanli", "embedded", "--cmdstan: the engine stanli does not use CmdStan"),
        ("exact", "embedded", "--cmdstan: the engine exact does not use CmdStan"),
    ],
)
def test_a_wrong_engine_is_refused(name, cmdstan, output):
    with pytest.raises(ConfigError, match=output):
        find_engine(name, cmdstan)
    with pytest.raises(ConfigError, match=output):
        pyflowers.fit("iid_normal", engine=name, cmdstan=cmdstan)


def test_what_the_interpreter_lacks_goes_to_cmdstan(no_cmdstan, cmdstan, caplog, tmp_path):
    (tmp_path / "simulate.stan").write_text(SIMULATE)
    caplog.set_level(logging.INFO, "pyflowers")
    fit = pyflowers.fit(tmp_path / "simulate.stan", seed=1)
    assert fit.record.engine.name == "cmdstan"
    assert "no parameters" in caplog.text


def test_an_engine_that_is_named_is_not_left(tmp_path):
    (tmp_path / "simulate.stan").write_text(SIMULATE)
    with pytest.raises(FitError, match="no parameters"):
        pyflowers.fit(tmp_path / "simulate.stan", seed=1, engine="stanli")
