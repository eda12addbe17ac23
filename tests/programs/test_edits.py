"""The edits of the guide to editing a program, applied to the programs that formulas write."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pyflowers
from pyflowers import Program
from pyflowers.errors import ConfigError

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "editing-a-program.md"
FAST = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 300, "draws": 300}


def edited(folder, section, formula, frame, **how):
    """Write the program of a formula, make the guide's edits, and open the program."""
    path = Program.from_formula(formula, frame, **how).write(folder / "mine.stan")
    text = GUIDE.read_text(encoding="utf-8")
    part = text[text.index(f"## {section}") :].partition("\n## ")[0]
    for file, block in zip(
        (path, path.with_suffix(".toml")),
        re.findall(r"```diff\n(.*?)```", part, re.DOTALL),
        strict=True,
    ):
        made = file.read_text(encoding="utf-8")
        for hunk in block.split("@@\n"):
            lines = hunk.splitlines(keepends=True)
            old = "".join(line[1:] for line in lines if line[0] in " -")
            new = "".join(line[1:] for line in lines if line[0] in " +")
            assert made.count(old) == 1, old
            made = made.replace(old, new)
        file.write_text(made, encoding="utf-8")
    return Program.open(path)


@pytest.fixture
def growth():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"Subject": np.repeat([f"s{i}" for i in range(16)], 6)})
    frame["Sex"] = np.where(frame.Subject.str[1:].astype(int) % 2, "Male", "Female")
    frame["age"] = np.tile(np.arange(8.0, 20, 2), 16)
    sd = np.where(frame.Sex == "Male", 2.0, 0.5)
    frame["distance"] = 20 + 0.5 * frame.age + rng.normal(size=96) * sd
    return frame


def test_a_residual_sd_for_each_group(tmp_path, growth):
    formula = "distance ~ age * Sex + (1 | Subject)"
    fit = pyflowers.fit(edited(tmp_path, "A residual sd", formula, growth), growth, **FAST)
    names = fit.data.labels["Sex"].names
    of_sex = dict(zip(names, fit.draws["sigma"].mean((0, 1)), strict=True))
    female, male = of_sex["Female"], of_sex["Male"]
    assert female == pytest.approx(0.5, abs=0.2)
    assert male == pytest.approx(2, abs=0.5)
    assert pyflowers.check(fit).table().shape[0] > 5
    assert pyflowers.effects(fit, "age").table()["median"].iloc[0] == pytest.approx(0.5, abs=0.1)
    drawn = pyflowers.predict(fit, kind="observation").draws().std(("chain", "draw"))
    spread = drawn.to_series().groupby(growth.Sex.to_numpy()).mean()
    assert spread["Male"] > 2 * spread["Female"]
    # The equation and the story of the formula do not describe the edited program.
    assert fit.program.declaration.equation == ""
    assert "edited" in fit.program.declaration.story
    assert fit.program.title == f"{formula} (gaussian), edited"


def test_a_vector_where_a_row_has_one_value_is_refused(tmp_path, growth):
    program = edited(tmp_path, "A residual sd", "distance ~ age * Sex + (1 | Subject)", growth)
    declared = program.path.with_suffix(".toml")
    text = declared.read_text(encoding="utf-8").replace('where = { sigma = "sigma[Sex]" }\n', "")
    declared.write_text(text, encoding="utf-8")
    fit = pyflowers.fit(program.path, growth, **{**FAST, "warmup": 50, "draws": 10})
    with pytest.raises(ConfigError, match="sigma has 2 elements, but a row has one sigma; choose"):
        pyflowers.predict(fit)


def test_right_censoring(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.normal(0, 1, 200), "limit": rng.uniform(10, 40, 200)})
    true = np.exp(3 + 0.5 * frame.age + rng.normal(size=200))
    frame["censored"] = (true > frame.limit).astype(int)
    frame["time"] = np.minimum(true, frame.limit)
    program = edited(tmp_path, "Right censoring", "time ~ age", frame, family="lognormal")
    fit = pyflowers.fit(program, frame, **FAST)
    summary = fit.summary()
    for name, value in (("Intercept", 3.0), ("b[age]", 0.5), ("sigma", 1.0)):
        assert abs(summary["median"][name] - value) < 3.5 * summary["sd"][name]
    # Without the edit, the cut-off times pull the intercept down.
    plain = pyflowers.fit("time ~ age", frame, family="lognormal", **FAST).summary()
    assert plain["median"]["Intercept"] < 3 - 3.5 * summary["sd"]["Intercept"]
    assert pyflowers.check(fit).passed
    d = fit.draws
    mean = np.exp(d["Intercept"] + d["b"][..., 0] * frame.age[0] + d["sigma"] ** 2 / 2)
    np.testing.assert_allclose(pyflowers.predict(fit).draws()[..., 0], mean)
    lines = pyflowers.plots.conditional_effects(fit, "age").axes[0].lines
    (rings,) = (its for its in lines if its.get_marker() == "o")
    np.testing.assert_array_equal(
        np.sort(rings.get_ydata()), np.sort(frame.time[frame.censored == 1])
    )
    # A rule without the key, or with another variable, is refused, and the message names it.
    declared = program.path.with_suffix(".toml")
    text, key = declared.read_text(encoding="utf-8"), 'censored = "censored"\n'
    for instead, message in (
        ("", "set the key 'censored' to a variable that marks"),
        ('censored = "prior_only"\n', "'prior_only' is not a data variable with a value for each"),
    ):
        declared.write_text(text.replace(key, instead), encoding="utf-8")
        other = pyflowers.fit(program.path, frame, **{**FAST, "warmup": 50, "draws": 10})
        with pytest.raises(ConfigError, match=message):
            pyflowers.predict(other)


def test_weights(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=30), "weight": rng.integers(1, 4, 30)})
    frame["y"] = frame.x + rng.normal(size=30)
    fit = pyflowers.fit(edited(tmp_path, "Weights", "y ~ x", frame), frame, **FAST)
    repeated = frame.loc[frame.index.repeat(frame.weight)]
    expected = np.polyfit(repeated.x, repeated.y, 1)
    summary = fit.summary()
    for name, value in zip(("b[x]", "Intercept"), expected, strict=True):
        assert summary["median"][name] == pytest.approx(value, abs=0.05)
    assert pyflowers.predict(fit, weights="weight").table().shape[0] == 1
