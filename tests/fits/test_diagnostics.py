"""The verdict and the summary: each check fails on draws made to fail it, and only there."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats as distributions
from synthetic_fits import synthetic_fit, table

from pyflowers.display import format_cell, format_number
from pyflowers.fits.diagnostics import Verdict, diagnose
from pyflowers.fits.posterior import Quantity
from pyflowers.fits.summary import summarize
from pyflowers.programs import MissingMoment
from pyflowers.table import from_frame


def posterior(draws=None):
    if draws is None:
        draws = np.random.default_rng(1).normal(size=(4, 1000, 2))
    return {"x": Quantity("x", draws, ("plant",), (("a", "[b]"),))}


def verdict(draws=None, max_treedepth=10, **stats):
    found = posterior(draws)
    shape = found["x"].values.shape[:2]
    stats = {
        "divergent__": np.zeros(shape),
        "treedepth__": np.full(shape, 3.0),
        "energy__": np.random.default_rng(2).normal(size=shape),
        **stats,
    }
    return diagnose(found, stats, summarize(found), max_treedepth)


def names_of_failed(found):
    return {check.name for check in found.failed}


def test_good_draws_pass():
    found = verdict()
    assert found.passed
    assert len(found.checks) == 6
    assert repr(found) == str(found) == "all 6 diagnostics pass: the draws can be trusted"


def test_a_chain_elsewhere_fails_r_hat_and_names_the_parameter():
    draws = np.random.default_rng(2).normal(size=(4, 1000, 2))
    draws[3, :, 1] += 1
    found = verdict(draws)
    assert "R-hat" in names_of_failed(found)
    assert found.failed[0].where == "x[[b]]"
    assert "run longer" in str(found)
    assert "do not trust this fit" in str(found)


def test_a_slow_chain_fails_both_effective_sizes():
    steps = np.random.default_rng(3).normal(size=(4, 1000, 2))
    draws = np.empty_like(steps)
    draws[:, 0] = steps[:, 0]
    for t in range(1, 1000):
        draws[:, t] = 0.98 * draws[:, t - 1] + np.sqrt(1 - 0.98**2) * steps[:, t]
    assert {"bulk ESS", "tail ESS"} <= names_of_failed(verdict(draws))


def test_divergences_treedepth_and_energy():
    diverging = np.zeros((4, 1000))
    diverging[2, 5] = 1
    depth = np.full((4, 1000), 9.0)
    depth[0, 0] = 10
    walk = np.random.default_rng(4).normal(size=(4, 1000)).cumsum(1)
    assert names_of_failed(verdict(divergent__=diverging)) == {"divergences"}
    assert names_of_failed(verdict(treedepth__=depth)) == {"treedepth hits"}
    assert names_of_failed(verdict(treedepth__=depth, max_treedepth=12)) == set()
    assert names_of_failed(verdict(energy__=walk)) == {"E-BFMI"}


def test_the_worst_chains_energy_is_named():
    energy = np.random.default_rng(4).normal(size=(4, 1000))
    energy[2] = energy[2].cumsum()
    (check,) = verdict(energy__=energy).failed
    assert check.where == "chain 3"
    assert check.value < 0.3


def test_a_sampler_without_these_statistics_is_not_asked_for_them():
    found = posterior()
    checks = diagnose(found, {"lp__": np.zeros((4, 1000))}, summarize(found)).checks
    assert [check.name for check in checks] == ["R-hat", "bulk ESS", "tail ESS"]


def test_draws_that_are_stuck_or_not_a_number_fail():
    assert not verdict(np.zeros((4, 1000, 2))).passed
    draws = np.random.default_rng(5).normal(size=(4, 1000, 2))
    draws[1, 3, 0] = np.nan
    assert not verdict(draws).passed


def test_a_constant_beside_parameters_is_left_out():
    draws = np.random.default_rng(6).normal(size=(4, 1000, 2))
    draws[..., 1] = 1.0
    assert verdict(draws).passed


def test_a_verdict_survives_json():
    draws = np.random.default_rng(5).normal(size=(4, 1000, 2))
    draws[1, 3, 0] = np.nan
    for found in (verdict(), verdict(draws)):
        back = Verdict.from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False)))
        assert str(back) == str(found)


# --- The summary ----------------------------------------------------------------------------------


def test_the_summary_is_what_numpy_says():
    found = posterior()
    draws = found["x"].values[..., 1].ravel()
    row = summarize(found).loc["x[[b]]"]
    want = [draws.mean(), draws.std(ddof=1), *np.quantile(draws, [0.5, 0.05, 0.95])]
    np.testing.assert_allclose(row[["mean", "sd", "median", "5%", "95%"]].astype(float), want)


def test_moments_are_missing_element_by_element():
    """One element's moments, and not those of its neighbours, are blank; the note names it."""
    draws = np.random.default_rng(1).normal(size=(4, 200, 5))
    labels = (tuple("abcde"),)
    found = {
        "v": Quantity("v", draws, ("plant",), labels),
        "w": Quantity("w", draws[..., 0]),
    }
    some = np.array([False, True, False, False, True])
    missing = [
        MissingMoment("v", True, "its posterior mean does not exist", some),
        MissingMoment("v", False, "its posterior variance is infinite", np.arange(5) == 2),
        MissingMoment("absent", True, "not here"),
    ]
    summary = summarize(found, missing)
    blank = summary[["mean", "sd", "mcse_mean"]].isna()
    assert blank.loc["v[a]"].tolist() == [False, False, False]
    assert blank.loc["v[b]"].tolist() == [True, True, True]
    assert blank.loc["v[c]"].tolist() == [False, True, True]
    assert blank.loc["w"].tolist() == [False, False, False]
    assert summary[["median", "5%", "95%", "r_hat"]].notna().all(axis=None)
    assert summary.attrs["notes"] == [
        "v[b], v[e]: its posterior mean does not exist; read its median",
        "v[c]: its posterior variance is infinite; read its median",
    ]
    all_of_it = summarize(found, [MissingMoment("v", True, "why", np.ones(5, bool))])
    assert all_of_it.attrs["notes"] == ["v: why; read its median"]
    many = summarize(found, [MissingMoment("v", True, "why", np.arange(5) < 4)])
    assert many.attrs["notes"] == ["v[a], v[b], v[c] and 1 more: why; read its median"]


def test_one_plant_of_few_months_blanks_its_own_moments():
    """Seven plants of eight months and one of four: the seven keep mean and sd."""
    rows = pd.DataFrame(table([*"abcdefgh"], 8).cells)
    short = rows[~((rows["plant"] == "c") & (rows.groupby("plant").cumcount() >= 4))]
    fit = synthetic_fit("multilevel_normal", from_frame(short))
    summary = fit.summary()
    blank = summary["sd"].isna()
    assert blank[blank].index.tolist() == ["sigma2_plant[c]"]
    (note,) = summary.attrs["notes"]
    assert note.startswith("sigma2_plant[c]: its posterior mean does not exist (2 ≤ 2 degrees")


def test_the_summary_leaves_out_moments_that_do_not_exist(lecture_fits):
    summary = lecture_fits["multilevel_normal"].summary()
    assert summary.loc["sigma2_plant[1]", ["mean", "sd", "mcse_mean"]].isna().all()
    assert np.isfinite(summary.loc["sigma2", "mean"])
    assert np.isnan(summary.loc["sigma2", "sd"])
    notes = summary.attrs["notes"]
    assert any("sigma2_plant: its posterior mean does not exist" in note for note in notes)
    plain = lecture_fits["iid_normal"].summary()
    assert plain.columns.tolist() == summary.columns.tolist()
    assert plain.columns.tolist()[:5] == ["median", "5%", "95%", "mean", "sd"]
    assert plain.attrs["notes"] == []


def test_a_summary_that_was_changed_leaves_the_fit_as_it_was():
    fit = synthetic_fit("iid_normal", table(["a", "b"], 4), draws=50)
    changed = fit.summary()
    changed.loc["mu", "mean"] = 0
    assert fit.summary().loc["mu", "mean"] != 0


def test_the_monte_carlo_error_is_that_of_the_mean():
    """Over 200 repetitions the mean of independent draws lies within 2 errors in 95%."""
    rng = np.random.default_rng(8)
    inside = 0
    for _ in range(200):
        found = {"x": Quantity("x", rng.normal(size=(4, 100)))}
        row = summarize(found).loc["x"]
        inside += abs(row["mean"]) < 1.96 * row["mcse_mean"]
    low, high = distributions.binom.ppf([1e-4, 1 - 1e-4], 200, 0.95)
    assert low <= inside <= high


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234.5, "1234"),
        (123.45, "123"),
        (12.345, "12.3"),
        (0.012345, "0.0123"),
        (-0.5, "-0.500"),
        (0.0, "0"),
        (1e-9, "1e-09"),
        (1.5e12, "1.5e+12"),
        (float("nan"), "–"),
        (float("inf"), "inf"),
    ],
)
def test_numbers_have_three_digits(value, text):
    assert format_number(value) == text


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [("ess_bulk", 1234.5, "1234"), ("r_hat", 1.00049, "1.000"), ("mean", 2.0, "2.00")],
)
def test_cells_of_the_summary(column, value, text):
    assert format_cell(column, value) == text
