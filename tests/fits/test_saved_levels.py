"""The levels of factors and the order of ratings after a fit is saved and loaded."""

import numpy as np
import pandas as pd
import pytest

import pyflowers

RNG = np.random.default_rng(5)
NUM = 80
X = RNG.normal(size=NUM)
FRAME = pd.DataFrame(
    {
        "y": RNG.normal(size=NUM),
        "x": X,
        "dose": pd.Categorical(RNG.choice([0.5, 10.0], NUM)),
        "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 4, NUM), unit="D"),
        "size": pd.Categorical(RNG.choice(["lo", "mid", "hi"], NUM), ["lo", "mid", "hi"], True),
        "rating": pd.Categorical.from_codes(
            np.digitize(X + RNG.logistic(size=NUM), [-1, 1]), ["poor", "fair", "good"], True
        ),
        "kind": pd.Categorical(RNG.choice(["a", "b", "c"], NUM), ["c", "b", "a"]),
    }
)
SHORT = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 100, "draws": 50}


def saved(formula, folder, **options):
    """Return a fit, and the same fit as it is read from a run folder."""
    fit = pyflowers.fit(formula, FRAME, **SHORT | options)
    fit.save(folder)
    return fit, pyflowers.Fit.load(folder)


@pytest.mark.parametrize("column", ["dose", "day"])
def test_factors_of_numbers_and_dates_are_predicted_as_before(column, tmp_path):
    fit, loaded = saved(f"y ~ x + {column}", tmp_path / "run")
    for made in (fit, loaded):
        assert made.program.declaration.levels[column]
    pd.testing.assert_frame_equal(loaded.predict().table(), fit.predict().table())
    pd.testing.assert_frame_equal(loaded.predict(FRAME).table(), fit.predict(FRAME).table())
    pd.testing.assert_frame_equal(loaded.effects().table(), fit.effects().table())
    assert loaded.update(draws=20).program.declaration.levels == fit.program.declaration.levels


def test_ratings_and_monotonic_effects_keep_their_order(tmp_path):
    fit, loaded = saved("rating ~ x + mo(size)", tmp_path / "run", family="cumulative")
    assert fit.record.data.ordered == ("size", "rating")
    assert loaded.record.data.levels["rating"] == ("poor", "fair", "good")
    again = loaded.update(draws=20)
    assert again.data.labels["rating"].names == ("poor", "fair", "good")
    assert list(again.summary().index) == list(fit.summary().index)


def test_categories_keep_their_reference(tmp_path):
    fit, loaded = saved("kind ~ x", tmp_path / "run", family="categorical")
    assert "b_mub[x]" in fit.summary().index
    assert "b_muc[x]" not in fit.summary().index  # c is the reference
    assert list(loaded.update(draws=20).summary().index) == list(fit.summary().index)


def test_a_label_that_looks_missing_stays_a_label(tmp_path):
    codes = pd.Categorical(np.resize(["NA", "DE", "FR"], NUM))
    fit = pyflowers.fit("y ~ x + (1 | c)", FRAME.assign(c=codes), **SHORT)
    fit.save(tmp_path / "run")
    again = pyflowers.Fit.load(tmp_path / "run").update(priors={"b": "normal(0, 1)"})
    assert "NA" in again.data.labels["c"].names


def test_outcomes_may_be_labels_of_ratings(tmp_path):
    fit, loaded = saved("rating ~ x", tmp_path / "run", family="cumulative")
    for made in (fit, loaded):
        found = made.predict(kind="probability", outcome=["good", "> poor", "<=fair"]).table()
        same = made.predict(kind="probability", outcome=["= 3", "> 1", "<= 2"]).table()
        pd.testing.assert_frame_equal(found, same)
        outcomes = found.index.get_level_values("outcome")
        assert outcomes[:3].tolist() == ["good", "> poor", "<= fair"]
