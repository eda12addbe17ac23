"""The verdict: each check fails on draws made to fail it, and only there."""

import numpy as np
import pytest
import xarray as xr

from pyflowers.diagnostics import Verdict, diagnose
from pyflowers.inference_data import arviz
from pyflowers.summary import format_number, summarize


def idata(draws=None, **stats):
    rng = np.random.default_rng(1)
    if draws is None:
        draws = rng.normal(size=(4, 1000, 2))
    shape = draws.shape[:2]
    sample_stats = {
        "diverging": np.zeros(shape, bool),
        "tree_depth": np.full(shape, 3),
        "energy": rng.normal(size=shape),
        **stats,
    }
    dims = ("chain", "draw")
    return arviz().InferenceData(
        posterior=xr.Dataset({"x": ((*dims, "plant"), draws)}, {"plant": ["a", "[b]"]}),
        sample_stats=xr.Dataset({k: (dims, v) for k, v in sample_stats.items()}),
    )


def names_of_failed(verdict):
    return {check.name for check in verdict.failed}


def test_good_draws_pass():
    verdict = diagnose(idata())
    assert verdict.passed
    assert len(verdict.checks) == 6
    assert str(verdict) == "all 6 diagnostics pass: the draws can be trusted"


def test_a_chain_elsewhere_fails_r_hat_and_names_the_parameter():
    draws = np.random.default_rng(2).normal(size=(4, 1000, 2))
    draws[3, :, 1] += 1
    verdict = diagnose(idata(draws))
    assert "R-hat" in names_of_failed(verdict)
    assert verdict.failed[0].where == "x[[b]]"
    assert "run longer" in str(verdict)


def test_a_slow_chain_fails_both_effective_sizes():
    steps = np.random.default_rng(3).normal(size=(4, 1000, 2))
    draws = np.empty_like(steps)
    draws[:, 0] = steps[:, 0]
    for t in range(1, 1000):
        draws[:, t] = 0.98 * draws[:, t - 1] + np.sqrt(1 - 0.98**2) * steps[:, t]
    assert {"bulk ESS", "tail ESS"} <= names_of_failed(diagnose(idata(draws)))


def test_divergences_treedepth_and_energy():
    diverging = np.zeros((4, 1000), bool)
    diverging[2, 5] = True
    depth = np.full((4, 1000), 9)
    depth[0, 0] = 10
    walk = np.random.default_rng(4).normal(size=(4, 1000)).cumsum(1)
    assert names_of_failed(diagnose(idata(diverging=diverging))) == {"divergences"}
    assert names_of_failed(diagnose(idata(tree_depth=depth))) == {"treedepth hits"}
    assert names_of_failed(diagnose(idata(tree_depth=depth), max_treedepth=12)) == set()
    assert names_of_failed(diagnose(idata(energy=walk))) == {"E-BFMI"}


def test_draws_that_are_stuck_or_not_a_number_fail():
    stuck = np.zeros((4, 1000, 2))
    assert not diagnose(idata(stuck)).passed
    draws = np.random.default_rng(5).normal(size=(4, 1000, 2))
    draws[1, 3, 0] = np.nan
    assert not diagnose(idata(draws)).passed


def test_a_constant_beside_parameters_is_left_out():
    draws = np.random.default_rng(6).normal(size=(4, 1000, 2))
    draws[..., 1] = 1.0
    assert diagnose(idata(draws)).passed


def test_a_verdict_survives_json():
    import json

    draws = np.random.default_rng(5).normal(size=(4, 1000, 2))
    draws[1, 3, 0] = np.nan
    for verdict in (diagnose(idata()), diagnose(idata(draws))):
        back = Verdict.from_dict(json.loads(json.dumps(verdict.to_dict(), allow_nan=False)))
        assert str(back) == str(verdict)


def test_the_summary_is_what_numpy_says():
    data = idata()
    table = summarize(data.posterior)
    draws = data.posterior["x"].values[..., 1].ravel()
    row = table.loc["x[[b]]"]
    want = [draws.mean(), draws.std(ddof=1), *np.quantile(draws, [0.5, 0.05, 0.95])]
    np.testing.assert_allclose(row[["mean", "sd", "median", "5%", "95%"]].astype(float), want)


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
    ],
)
def test_numbers_have_three_digits(value, text):
    assert format_number(value) == text
