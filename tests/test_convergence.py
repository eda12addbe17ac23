"""Every statistic against ArviZ, element by element, on awkward draws."""

import logging
import os
import subprocess
import sys
import warnings
from functools import partial

import numpy as np
import pytest
from arviz_calls import IS_1

from pyflowers import convergence
from pyflowers.convergence import estimates
from pyflowers.errors import ConfigError, DataError
from pyflowers.resources import arviz

az = arviz()
TOLERANCE = 1e-10

# name: (our function, ArviZ's function for one element)
STATISTICS = {
    "r_hat": (convergence.r_hat, az.rhat),
    "ess_bulk": (convergence.ess_bulk, partial(az.ess, method="bulk")),
    "ess_tail": (
        lambda draws: convergence.statistics(draws)["ess_tail"],
        partial(az.ess, method="tail", prob=(0.05, 0.95)),
    ),
    "ess_mean": (convergence.ess_mean, partial(az.ess, method="mean")),
    "mcse_mean": (convergence.mcse_mean, partial(az.mcse, method="mean")),
    "mcse_sd": (convergence.mcse_sd, partial(az.mcse, method="sd")),
    "mcse_median": (
        partial(convergence.mcse_quantile, prob=0.5),
        partial(az.mcse, method="median"),
    ),
    "mcse_quantile 10%": (
        partial(convergence.mcse_quantile, prob=0.1),
        partial(az.mcse, method="quantile", prob=0.1),
    ),
}


def autoregressive(rng, coefficient, shape):
    """Return chains of variance 1 with the given autocorrelation."""
    steps = rng.normal(size=shape) * np.sqrt(1 - coefficient**2)
    draws = np.empty(shape)
    draws[:, 0] = rng.normal(size=(shape[0], *shape[2:]))
    for t in range(1, shape[1]):
        draws[:, t] = coefficient * draws[:, t - 1] + steps[:, t]
    return draws


def non_finite(rng):
    """Return an element for each way in which draws can be infinite, missing or constant."""
    draws = rng.normal(size=(4, 50, 14))
    draws[0, 3, 0] = np.nan
    draws[0, 3, 1] = np.inf
    draws[0, 3, 2] = -np.inf
    draws[0, 3:5, 3] = np.inf, -np.inf
    draws[:, :, 4] = np.inf
    draws[:, :30, 5] = np.inf
    draws[:, :, 6] = np.nan
    draws[:, :26, 7] = -np.inf
    draws[:, :, 8] = 3
    draws[:, :, 9] = 0.1
    draws[:, :, 10] = 0
    draws[:2, :, 11] = -0.0
    draws[0, 3:5, 12] = np.nan, np.inf
    draws[:, ::10, 13] = -np.inf
    return draws


def cases():
    """Return draws by name, shaped (chain, draw, element)."""
    rng = np.random.default_rng(20210601)
    shape = (4, 400, 5)
    fourth = np.array([0, 0, 0, 1])[:, None, None]
    trend = np.linspace(0, 1, 400)[:, None]
    made = {
        "independent": rng.normal(size=shape),
        "odd number of draws": rng.normal(size=(3, 401, 5)),
        "one chain": rng.normal(size=(1, 400, 5)),
        "twelve chains": autoregressive(rng, 0.6, (12, 100, 5)),
        "slow": autoregressive(rng, 0.9, shape),
        "very slow": autoregressive(rng, 0.995, shape),
        "antithetic": autoregressive(rng, -0.6, shape),
        "very antithetic": autoregressive(rng, -0.97, shape),
        "alternating": np.tile([[1], [-1]], (4, 100, 2)),
        "trend": rng.normal(size=shape) * 0.2 + trend,
        "a chain elsewhere": rng.normal(size=shape) + 2 * fourth,
        "a chain wider": rng.normal(size=shape) * (1 + 4 * fourth),
        "a chain that stands still": rng.normal(size=shape) * (1 - fourth),
        "Cauchy": rng.standard_cauchy(size=shape),
        "counts": rng.poisson(2.0, size=shape),
        "binary": rng.integers(0, 2, size=shape),
        "rare events": rng.integers(0, 60, size=shape) == 0,
        "repeated draws": np.repeat(rng.normal(size=(4, 100, 5)), 4, axis=1),
        "far from zero": 1e8 + 1e-3 * rng.normal(size=shape),
        "neighbouring numbers": 1 + np.spacing(1.0) * rng.integers(0, 2000, size=shape),
        "rounded": np.round(rng.normal(size=shape), 2),
        "non-finite and constant": non_finite(rng),
        "more draws than sort with their places": autoregressive(rng, 0.3, (2, 40_000, 1)),
    }
    for scale in (1e-310, 1e-160, 1e-20, 1e-9, 1e9, 1e150, 1e160, 1e300):
        made[f"scale {scale:g}"] = rng.normal(size=(4, 100, 4)) * scale
    for num_chains in (1, 4):
        for num_draws in range(1, 9):
            size = (num_chains, num_draws, 4)
            made[f"{num_chains} × {num_draws}"] = rng.normal(size=size)
            made[f"{num_chains} × {num_draws}, integers"] = rng.integers(0, 3, size=size)
        for num_draws in (9, 10, 13, 16, 33, 64):
            size = (num_chains, num_draws, 4)
            made[f"{num_chains} × {num_draws}"] = autoregressive(rng, -0.5, size)
    return {name: np.asarray(draws, dtype=float) for name, draws in made.items()}


CASES = cases()


def of_arviz(statistic, draws):
    """Apply one of ArviZ's functions to each element."""
    logging.getLogger("arviz").setLevel(logging.ERROR)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        elements = np.moveaxis(draws, -1, 0)
        return np.array([statistic(np.ascontiguousarray(x)) for x in elements], dtype=float)


def equal(computed, reference):
    """Return which elements agree, where NaN equals NaN."""
    with np.errstate(invalid="ignore"):
        close = np.abs(computed - reference) <= TOLERANCE * np.abs(reference)
    return close | (computed == reference) | (np.isnan(computed) & np.isnan(reference))


@pytest.mark.parametrize("name", CASES)
def test_equals_arviz(name):
    draws = CASES[name]
    for statistic, (computed, reference) in STATISTICS.items():
        found, expected = computed(draws), of_arviz(reference, draws)
        assert found.shape == draws.shape[2:]
        if IS_1 and statistic == "ess_tail":  # ArviZ 1 gives infinite draws a tail ESS
            finite = np.isfinite(draws).all(axis=(0, 1))
            found, expected = found[finite], expected[finite]
        assert equal(found, expected).all(), f"{statistic}: {found} but ArviZ says {expected}"


def test_the_cases_reach_missing_and_infinite_values():
    found = np.concatenate([convergence.r_hat(draws) for draws in CASES.values()])
    assert np.isnan(found).sum() > 50
    assert np.isfinite(found).sum() > 100
    errors = convergence.mcse_quantile(CASES["non-finite and constant"], 0.1)
    assert {0.0, np.inf} <= set(errors[~np.isnan(errors)])


def without_split(chains):
    return chains


def placed(values, order, shape):
    found = np.empty(values.size)
    found[order] = values
    return found.reshape(shape)


def without_ties(ascending, order, shape):
    scores = estimates.score_table(ascending.shape[1])[::2]
    return placed(np.broadcast_to(scores, ascending.shape), order, shape)


without_ranks = placed


def at_the_median(block, prob, original=estimates.Block.ess_quantile):
    return original(block, 0.5)


def without_monotone_sequence(rho, num_draws):
    even, odd = rho[:, :-1:2], rho[:, 1::2]
    num = min(even.shape[1], odd.shape[1])
    pairs = even[:, :num] + odd[:, :num]
    kept = np.logical_and.accumulate(pairs > 0, axis=1)
    return -1 + 2 * np.where(kept, pairs, 0).sum(axis=1), np.ones(len(rho), bool)


@pytest.mark.parametrize(
    ("module", "part", "bug", "statistic", "case"),
    [
        (estimates, "split", without_split, "r_hat", "trend"),
        (estimates, "split", without_split, "ess_bulk", "trend"),
        (estimates, "normal_scores", without_ranks, "r_hat", "Cauchy"),
        (estimates, "normal_scores", without_ranks, "ess_bulk", "independent"),
        (estimates, "normal_scores", without_ties, "ess_bulk", "counts"),
        (estimates.Block, "ess_quantile", at_the_median, "ess_tail", "independent"),
        (estimates, "_geyer", without_monotone_sequence, "ess_mean", "slow"),
    ],
)
def test_a_planted_bug_is_seen(monkeypatch, module, part, bug, statistic, case):
    draws = CASES[case]
    computed, reference = STATISTICS[statistic]
    expected = of_arviz(reference, draws)
    assert equal(computed(draws), expected).all()
    monkeypatch.setattr(module, part, bug)
    assert np.mean(equal(computed(draws), expected)) < 0.5


def test_chains_that_stand_still_have_an_infinite_r_hat_but_for_rounding():
    draws = np.broadcast_to(np.array([0.1, 0.2, 0.3, 0.4])[:, None, None], (4, 50, 1))
    assert convergence.r_hat(draws)[0] > 1e7
    assert of_arviz(az.rhat, draws)[0] > 1e7


def test_a_sum_of_few_lags_continues_where_it_has_not_ended(monkeypatch):
    draws = CASES["very slow"]
    expected = convergence.ess_mean(draws)
    lags = []
    original = estimates._autocovariance

    def counted(chains, num_lags):
        lags.append((len(chains), num_lags))
        return original(chains, num_lags)

    monkeypatch.setattr(estimates, "_autocovariance", counted)
    np.testing.assert_array_equal(convergence.ess_mean(draws), expected)
    (all_elements, few), (some_elements, every) = lags
    assert (all_elements, few, every) == (5, 32, 200)
    assert 0 < some_elements <= 5


@pytest.mark.parametrize("size", [8 * 1600, 3 * 8 * 1600])
def test_blocks_make_no_difference(monkeypatch, size):
    draws = CASES["slow"]
    expected = convergence.statistics(draws)
    monkeypatch.setattr(estimates, "_BLOCK_BYTES", size)
    for name, values in convergence.statistics(draws).items():
        np.testing.assert_array_equal(values, expected[name])


@pytest.mark.parametrize("name", CASES)
def test_quantiles_equal_numpys(name):
    draws = CASES[name]
    probs = [0, 0.05, 1 / 3, 0.5, 0.95, 1]
    with np.errstate(invalid="ignore", over="ignore"):
        expected = np.quantile(draws, probs, axis=(0, 1))
    np.testing.assert_array_equal(convergence.quantiles(draws, probs), expected)


@pytest.mark.parametrize("name", ["independent", "odd number of draws", "counts", "1 × 3", "4 × 8"])
def test_statistics_in_one_pass_equal_each_on_its_own(name):
    draws = CASES[name]
    found = convergence.statistics(draws, probs=(0.05, 0.5, 0.975))
    low, median, high = convergence.quantiles(draws, (0.05, 0.5, 0.975))
    expected = {
        "mean": draws.mean(axis=(0, 1)),
        "sd": draws.std(axis=(0, 1), ddof=1),
        "5%": low,
        "median": median,
        "97.5%": high,
        "mcse_mean": convergence.mcse_mean(draws),
        "ess_bulk": convergence.ess_bulk(draws),
        "ess_tail": convergence.statistics(draws, ())["ess_tail"],
        "r_hat": convergence.r_hat(draws),
    }
    assert list(found) == list(expected)
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, rtol=1e-12, atol=1e-15, err_msg=key)


def test_a_single_draw_has_a_mean_and_no_sd():
    found = convergence.statistics(np.full((1, 1, 2), 7.0))
    np.testing.assert_array_equal(found["mean"], [7, 7])
    np.testing.assert_array_equal(found["median"], [7, 7])
    assert np.isnan([found["sd"], found["r_hat"], found["ess_bulk"]]).all()


def test_no_elements_have_no_statistics():
    assert {len(v) for v in convergence.statistics(np.empty((4, 10, 0))).values()} == {0}
    assert convergence.quantiles(np.empty((4, 10, 0)), [0.5]).shape == (1, 0)
    assert convergence.quantiles(np.empty((4, 10, 3)), []).shape == (0, 3)


def test_draws_are_left_as_they_were():
    draws = CASES["non-finite and constant"].copy()
    convergence.statistics(draws)
    np.testing.assert_array_equal(draws, CASES["non-finite and constant"])


@pytest.mark.parametrize("name", ["independent", "slow", "counts", "scale 1e+160", "1 × 5"])
def test_e_bfmi_equals_arviz(name):
    energy = np.moveaxis(CASES[name], -1, 0).reshape(-1, CASES[name].shape[1])
    with np.errstate(all="ignore"):
        expected = az.bfmi(energy)
    assert equal(convergence.e_bfmi(energy), expected).all()


def test_e_bfmi_of_constant_infinite_or_single_energies_is_missing():
    energy = [[1.0, 1.0, 1.0], [1.0, np.inf, 2.0], [np.nan, 1.0, 2.0]]
    assert np.isnan(convergence.e_bfmi(energy)).all()
    assert np.isnan(convergence.e_bfmi([[1.0], [2.0]])).all()


@pytest.mark.parametrize("num_draws", [1, 2, 3, 40, 4001])
def test_scores_are_those_of_scipy_with_and_without_ties(num_draws):
    from scipy.special import ndtri
    from scipy.stats import rankdata

    rng = np.random.default_rng(6)
    for values in (rng.normal(size=num_draws), rng.integers(0, 9, num_draws) * 1.0):
        expected = ndtri((rankdata(values) - 3 / 8) / (num_draws + 1 / 4))
        sorted_draws = estimates.sort_with_order(values[None, None])
        found = estimates.normal_scores(*sorted_draws, (1, num_draws))[0]
        np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("num_draws", [7, 100_000])
def test_scores_agree_with_forty_digits(num_draws):
    from mpmath import erfinv, mp, mpf, sqrt

    table = estimates.score_table(num_draws)
    with mp.workdps(40):
        for place in np.unique(np.linspace(0, len(table) - 1, 25).astype(int)):
            rank = mpf(int(place) + 2) / 2
            p = (rank - mpf(3) / 8) / (num_draws + mpf(1) / 4)
            exact = float(sqrt(2) * erfinv(2 * p - 1))
            # The bound includes the rounding of p, which matters where the scores are steep.
            assert abs(table[place] - exact) <= 1e-14 * abs(exact) + 1e-15


def test_transforms_are_long_enough_and_no_longer_than_a_power_of_two():
    for least in range(1, 5000):
        length = estimates.fast_length(least)
        assert least <= length <= max(16, 3 * least // 2)
        assert np.binary_repr(length).rstrip("0") in ("1", "11")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: convergence.r_hat(np.zeros((4, 10))),
            DataError,
            r"shape \(4, 10\), but must be shaped \(chain, draw, element\)",
        ),
        (lambda: convergence.statistics(np.zeros((4, 0, 2))), DataError, "at least one chain"),
        (lambda: convergence.e_bfmi(np.zeros(4)), DataError, r"\(chain, draw\)"),
        (lambda: convergence.quantiles(np.zeros((1, 2, 3)), [1.5]), ConfigError, "prob is 1.5"),
        (
            lambda: convergence.mcse_quantile(np.zeros((1, 2, 3)), np.nan),
            ConfigError,
            "prob is nan",
        ),
    ],
)
def test_errors_say_what_is_wrong(call, error, message):
    with pytest.raises(error, match=message):
        call()


def imported_by(work):
    """Return the modules that a separate Python process has loaded after some work."""
    code = f"import sys, numpy as np, pyflowers.convergence as c; {work}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_summary_statistics_need_numpy_alone():
    work = "c.statistics(np.random.default_rng(1).normal(size=(4, 100, 3)))"
    assert not imported_by(work) & {"scipy", "xarray", "arviz", "pandas", "matplotlib"}


def test_no_statistic_imports_scipy_stats_or_arviz():
    modules = imported_by("c.mcse_quantile(np.random.default_rng(1).normal(size=(4, 100, 3)), 0.5)")
    assert "scipy.special" in modules
    assert not modules & {"scipy.stats", "xarray", "arviz", "pandas", "matplotlib"}


@pytest.mark.skipif(IS_1, reason="ArviZ 1 has no notice")
def test_two_processes_may_import_arviz_at_the_same_moment(tmp_path):
    """ArviZ 0.23 renames a file once a day, which another process may have renamed before."""
    code = """
import os, pathlib, sys
import pyflowers.resources
replace = pathlib.Path.replace
def lost(path, target):
    pathlib.Path.replace = replace
    path.unlink()
    return replace(path, target)
pathlib.Path.replace = lost
print(pyflowers.resources.arviz().__name__, pathlib.Path.replace is replace)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "arviz True\n", done.stderr
