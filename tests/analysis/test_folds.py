"""K-fold cross-validation against refits by hand, and against leaving out one group or row."""

import json
from dataclasses import replace

import numpy as np
import pytest
from command_line import run
from row_fits import FRAME, fit_of
from scipy import stats

import pyflowers
from pyflowers.analysis.elpd import ModelLoo
from pyflowers.analysis.folds import ModelFolds
from pyflowers.analysis.refits import hold_out, predict_held_out
from pyflowers.errors import ConfigError
from pyflowers.fits.sampling import fit_data

pytestmark = pytest.mark.usefixtures("in_a_shell")


@pytest.fixture(scope="module")
def plants():
    return pyflowers.fit("multilevel_poisson", seed=1, engine="exact", chains=2, draws=300)


def test_folds_of_rows_are_equal_to_refits_by_hand():
    fit = fit_of("y ~ x")
    found = pyflowers.k_fold(fit, 2)
    y, x = FRAME.y.to_numpy(), FRAME.x.to_numpy()
    by_hand = np.empty(len(y))
    for k in (1, 2):
        rows = np.flatnonzero(found.fold == k)
        state = np.random.SeedSequence([fit.options.seed, *rows.tolist()])
        options = {"seed": int(state.generate_state(1, np.uint32)[0])}
        again = fit_data(
            fit.program,
            hold_out(fit.program, fit.data, rows).training,
            fit.options.model_copy(update=options),
            priors=fit.record.priors,
            engine=fit.record.engine.find(),
            cores=1,
        )
        slope, one, sd = (again.draws[name].reshape(200, 1) for name in ("b", "Intercept", "sigma"))
        density = stats.norm.pdf(y[rows], one + slope * x[rows], sd)
        by_hand[rows] = np.log(density.mean(axis=0))
    np.testing.assert_allclose(found.best.terms, by_hand, rtol=1e-10)
    assert found.best.elpd == pytest.approx(by_hand.sum())
    assert abs(found.best.elpd - pyflowers.loo(fit).best.elpd) < 6
    assert found.table()["refits"].tolist() == [2]


def test_as_many_folds_as_groups_leave_one_group_out(plants):
    found = pyflowers.k_fold(plants, 3, column="plant")
    expected = pyflowers.leave_one_group_out([plants])
    assert found.groups == expected.groups
    np.testing.assert_array_equal(found.best.terms, expected.best.terms)
    np.testing.assert_array_equal(found.best.mcse, expected.best.mcse)


def test_as_many_folds_as_rows_leave_one_row_out(plants):
    found = pyflowers.k_fold(plants, 12)
    expected = predict_held_out(plants, [np.array([n]) for n in range(12)])
    np.testing.assert_array_equal(found.best.terms, [each.elpd for each in expected])


def test_folds_of_groups_keep_each_group_together_and_are_balanced():
    fit = fit_of("y ~ x + (1 | site)")
    found = pyflowers.k_fold(fit, 3, column="site")
    assert len(found.fold) == len(found.groups) == 6
    sizes = FRAME.site.value_counts()
    total = [
        sum(sizes[g] for g, f in zip(found.groups, found.fold, strict=True) if f == k)
        for k in (1, 2, 3)
    ]
    assert max(total) - min(total) < sizes.max()
    assert np.isfinite(found.best.terms).all()


def test_a_comparison_by_group_names_the_groups_and_says_that_they_are_few():
    fits = [fit_of(f"y ~ {x} + (1 | site)") for x in ("x", "sex")]
    found = pyflowers.k_fold(fits, 2, column="site")
    assert found.cautions[0].startswith("With 6 groups, the standard error of a difference")
    record = found.to_dict()
    assert list(record["fold"]) == list(found.groups)
    assert list(record["models"][found.best.name]["terms"].values()) == found.best.terms.tolist()


def test_a_group_whose_rows_are_all_held_out_is_in_no_fold():
    fit = fit_of("y ~ x + (1 | site)")
    values = {**fit.data.values, "held_out": (FRAME.site == "a").to_numpy().astype(int)}
    found = pyflowers.k_fold(replace(fit, data=replace(fit.data, values=values)), 2, column="site")
    assert set(found.groups) == set(FRAME.site) - {"a"}
    assert len(found.fold) == len(found.groups)
    assert "2 folds of 5 groups" in found.left_out


def test_folds_of_rows_are_stratified_by_the_response(plants):
    fold = pyflowers.k_fold(plants, 4).fold
    order = np.argsort(plants.data.y, kind="stable")
    assert sorted(np.bincount(fold)[1:]) == [3, 3, 3, 3]
    means = [plants.data.y[fold == k].mean() for k in (1, 2, 3, 4)]
    assert np.ptp(means) < np.ptp([plants.data.y[order[i : i + 3]].mean() for i in (0, 9)])
    again = pyflowers.k_fold(plants, 4).fold
    np.testing.assert_array_equal(fold, again)


def test_two_models_are_compared_and_the_command_says_the_same(tmp_path, capfd):
    fits = [fit_of("count ~ x", "poisson"), fit_of("count ~ sex", "poisson")]
    folders = [tmp_path / "one", tmp_path / "two"]
    for fit, folder in zip(fits, folders, strict=True):
        fit.save(folder)
    found = pyflowers.k_fold(fits, 2)
    assert found.best.difference == 0
    assert any("60 observations are too few" in each for each in found.cautions)
    assert run("loo", *folders, "--folds", "2", "--out", tmp_path / "loo", "--json") == 0
    record = json.loads(capfd.readouterr().out)
    assert record["folds"] == 2
    for model in found.models:
        assert record["models"][model.name]["elpd"] == pytest.approx(model.elpd)
    assert (tmp_path / "loo" / "loo.csv").exists()


def test_failed_folds_and_noisy_terms_are_named(plants):
    found = pyflowers.k_fold(plants, 3)
    assert isinstance(found.best, ModelFolds)
    bad = replace(found.best, failed=(2,), mcse=np.full(12, 1.0))
    told = " ".join(replace(found, models=(bad,)).cautions)
    assert "1 of 3 refits failed their diagnostics (without fold 2)" in told
    assert "Monte Carlo standard error of 3.5" in told


def test_many_large_k_hats_are_answered_with_folds():
    found = pyflowers.loo(fit_of("y ~ x"))
    assert isinstance(found.best, ModelLoo)
    k_hat = np.where(np.arange(60) < 11, 1.0, 0.1)
    model = replace(found.best, k_hat=k_hat)
    told = " ".join(replace(found, models=(model,)).cautions)
    assert "pyflowers loo --folds 10 needs 10 refits" in told
    few = replace(model, k_hat=np.where(np.arange(60) < 10, 1.0, 0.1))
    assert "--refit refits" in " ".join(replace(found, models=(few,)).cautions)


def test_bad_requests_are_refused_in_a_sentence(plants, capfd):
    for options, words in (
        ({"folds": 1}, "folds must be an integer from 2"),
        ({"folds": 13}, r"12 rows\), got 13"),
        ({"folds": 2.5}, "got 2.5"),
        ({"folds": True}, "got True"),
        ({"folds": 4, "column": "plant"}, r"3 groups\), got 4"),
        ({"folds": 2, "column": "height"}, "no column 'height'"),
    ):
        with pytest.raises(ConfigError, match=words):
            pyflowers.k_fold(plants, **options)
    with pytest.raises(ConfigError, match="two fits have the name"):
        pyflowers.k_fold([plants, plants], 2)
    for words in (
        ("--folds", "3", "--by-group"),
        ("--folds", "3", "--refit"),
        ("--folds", "3", "--explained"),
        ("--column", "plant"),
    ):
        assert run("loo", "nowhere", *words) == 2
        assert "leave" in capfd.readouterr().err
