"""The findings of the quick run of each example, and negative controls.

Agreement is within five combined Monte Carlo standard errors; each comparison that must succeed has
a counterpart that must fail.
"""

import re

import numpy as np
import pandas as pd
import pytest

from pyflowers.lectures import Settings, run_example
from pyflowers.lectures.flowers_by_hand import by_name, flower_density
from pyflowers.lectures.gaussian_mixture import MEANS, VARIANCES, WEIGHTS, simulate, stan_data
from pyflowers.lectures.hmc_bimodal import NUTS, say_what_agrees
from pyflowers.lectures.leapfrog import fitted_order, reversal_error
from pyflowers.lectures.lecture import Lecture
from pyflowers.lectures.markov_chain import NUM_STEPS, bound
from pyflowers.lectures.measures import compare, nuts, statistics, worst
from pyflowers.lectures.metropolis_bimodal import exact
from pyflowers.lectures.networks import cubed_sine
from pyflowers.lectures.neural_network import by_nuts, open_density
from pyflowers.lectures.regression import SGLD_STEP, simulated_posterior, spread_of_sgld
from pyflowers.resources import gaussian_mixture_csv
from pyflowers.samplers import INTEGRATORS, NormalMixture, StandardNormal, phase_point


def table(lecture, index=0):
    """Return one of a lecture's tables, indexed by its first column."""
    frame = pd.DataFrame(list(lecture.tables.values())[index])
    return frame.set_index(frame.columns[0])


def agreements(lecture):
    """Return the number of comparisons of a lecture; all must agree."""
    assert not [finding for finding in lecture.findings if "DISAGREE" in finding]
    return len([finding for finding in lecture.findings if " agree in " in finding])


@pytest.mark.slow
def test_metropolis_has_a_best_scale_between_too_narrow_and_too_wide(example):
    rows = table(example("metropolis-bimodal"))
    assert (np.diff(rows["acceptance"]) < 0).all()
    assert rows["acceptance"].iloc[0] > 0.99 > 0.05 > rows["acceptance"].iloc[-1]
    best = rows["ESS per draw"].idxmax()
    assert 2 < best < 7
    assert 0.3 < rows.loc[best, "acceptance"] < 0.65
    assert rows.loc[best, "mixes"]
    assert not rows["mixes"].iloc[0]


def test_metropolis_agrees_with_the_exact_density_and_with_nuts(example):
    lecture = example("metropolis-bimodal")
    assert agreements(lecture) == 3
    other = exact(NormalMixture.lecture_hmc())
    assert not worst(compare("m", lecture.results["metropolis"], other)).agrees


def test_the_handouts_proposal_fails_and_its_repairs_do_what_is_said(example):
    rows = table(example("metropolis-bimodal"), 1)
    plain, corrected, signed = (rows.iloc[i] for i in range(3))
    assert plain["moves left"] == 0
    assert plain["mean"] > plain["exact mean"] + 3
    assert corrected["acceptance"] == 0
    assert signed["moves left"] > 100
    assert abs(signed["mean"] - signed["exact mean"]) < 0.2
    assert list(rows["mixes"]) == [False, False, True]


def test_exact_statistics_of_a_mixture_are_those_of_many_draws():
    target = NormalMixture.lecture_hmc()
    found = exact(target)
    draws = target.sample(np.random.default_rng(1), 400_000).reshape(4, -1)
    assert all(each.agrees for each in compare("x", statistics(draws), found))


def test_hmc_agrees_wherever_it_mixes_and_counts_gradients(example):
    lecture = example("hmc-bimodal")
    assert agreements(lecture) >= 5
    rows = table(lecture)
    assert list(rows["draws"]) == [8_000] * 4
    assert list(rows["evaluations"])[:3] == [8_000, 80_000, 80_000]
    assert rows["evaluations"].iloc[3] > 8_000
    long, short = rows.loc["HMC, ε = 0.5, L = 10"], rows.loc["HMC, ε = 0.2, L = 10"]
    assert long["ESS"] > 1.5 * short["ESS"]
    assert short["acceptance"] > long["acceptance"] > 0.95


def test_nuts_that_does_not_mix_is_not_compared_with():
    target, rng = NormalMixture.lecture_hmc(), np.random.default_rng(1)
    good = target.sample(rng, 8_000).reshape(4, -1)
    stuck = rng.normal([[-2], [2], [2], [2]], 1, good.shape)
    found = []
    for nuts_draws in (target.sample(rng, 8_000).reshape(4, -1), stuck):
        lecture = Lecture("hmc-bimodal", "", Settings())
        draws = {"HMC": {"x": good}, NUTS: {"x": nuts_draws}}
        say_what_agrees(lecture, draws, exact(target), statistics(nuts_draws))
        found.append(lecture.findings)
    assert [" ".join(each).count(" agree in ") for each in found] == [3, 1]
    assert not [each for each in found[1] if f"and {NUTS}" in each]


def test_orders_and_reversibility_are_as_in_theory(example):
    rows = table(example("leapfrog"))
    for column in ("fitted order of energy", "fitted order of position"):
        assert np.allclose(rows[column], rows["order in theory"], atol=0.1)
    assert rows.loc["leapfrog", "reversal error"] < 1e-10
    assert rows.loc[["Euler", "modified Euler"], "reversal error"].min() > 1e-3


def test_an_order_is_a_slope():
    sizes = np.array([0.4, 0.2, 0.1, 0.05, 0.025])
    assert np.isclose(fitted_order(sizes, 3 * sizes**2), 2)
    assert np.isclose(fitted_order(sizes, sizes + 1e3 * (sizes > 0.3)), 1)


def test_a_path_that_is_not_reversed_misses_its_start():
    target = StandardNormal()
    start = phase_point(target, [[0.3]], [[1.1]])
    assert reversal_error(INTEGRATORS["leapfrog"], target, start, 10) < 1e-13
    assert reversal_error(INTEGRATORS["euler"], target, start, 10) > 0.1


@pytest.mark.slow
def test_regression_samplers_agree_with_the_exact_posterior(example):
    lecture = example("regression")
    assert agreements(lecture) == 3
    unmixed = table(lecture).query("not mixes").index
    assert any(f"reliable: {'; '.join(unmixed)}." in finding for finding in lecture.findings)


def test_the_handouts_sgld_is_too_narrow_and_the_right_one_is_not(example):
    spread = table(example("regression"))["sd of beta"]
    assert 0.85 < spread["SGLD"] < 1.2
    assert spread["handout's SGLD"] < 0.3
    full = spread["handout's SGLD, full gradients"]
    assert np.isclose(full, np.sqrt(SGLD_STEP), rtol=0.25)


def test_only_a_clear_difference_of_sgld_is_called_a_bias(example):
    assert any("so it may be noise" in finding for finding in example("regression").findings)
    draws = np.random.default_rng(1).normal(0, 1, (4, 1_000))
    assert "so it may be noise" in spread_of_sgld(draws, 1.0)
    assert "so it is a bias" in spread_of_sgld(1.2 * draws, 1.0)


def test_the_regressions_data_scatter_about_the_line():
    target = simulated_posterior(np.random.default_rng(2))
    assert target.num_obs == 30
    residual = target.y - (-1 + 2 * target.x)
    assert 0.3 < residual.std() < 0.7


def test_the_mixtures_data_are_those_that_the_docstring_says():
    shipped = pd.read_csv(gaussian_mixture_csv())
    pd.testing.assert_frame_equal(shipped, simulate())
    assert len(shipped) == 1_000
    for component, group in shipped.groupby("component")["y"]:
        k = component - 1
        error = np.sqrt(VARIANCES[k] / len(group))
        assert abs(group.mean() - MEANS[k]) < 4 * error
        assert abs(group.var() / VARIANCES[k] - 1) < 4 * np.sqrt(2 / len(group))
        expected = np.sqrt(WEIGHTS[k] * (1 - WEIGHTS[k]) / 1_000)
        assert abs(len(group) / 1_000 - WEIGHTS[k]) < 4 * expected


@pytest.mark.slow
def test_the_mixture_recovers_what_its_data_were_drawn_with(example):
    rows = table(example("gaussian-mixture"))
    assert ((rows["truth"] - rows["NUTS mean"]).abs() < 4 * rows["NUTS sd"]).all()
    assert (rows["R-hat"] < 1.03).all()
    assert rows["ADVI sd / NUTS sd"].min() < 0.9


@pytest.mark.slow
def test_label_switching_is_found_without_the_order_alone(example):
    lecture = example("gaussian-mixture")
    labels = lecture.results["labels"]
    assert len(labels["ordered"]["orders"]) == 1
    assert labels["ordered"]["r_hat"] < 1.05
    assert len(labels["free"]["orders"]) > 1
    assert labels["free"]["r_hat"] > 1.5
    assert labels["free"]["r_hat_sorted"] < 1.05


@pytest.mark.slow
def test_the_full_mixture_passes(example):
    example("gaussian-mixture")  # so that nothing is left to compile
    data = stan_data(pd.read_csv(gaussian_mixture_csv())["y"].to_numpy())
    fit = nuts("gaussian_mixture", data, Settings(cmdstan="embedded"), warmup=1_000, draws=1_000)
    assert fit.diagnostics.passed


@pytest.mark.slow
def test_the_full_cubed_sine_passes_on_its_function():
    settings = Settings(cmdstan="embedded")
    task = cubed_sine(settings.rng(1))
    fit, _ = by_nuts(task, open_density(task.network), settings)
    assert fit.function_verdict(task.judged).passed
    assert not fit.verdict.passed


@pytest.mark.slow
@pytest.mark.parametrize("task", ["denoising", "cubed-sine"])
def test_networks_are_judged_on_functions_and_their_weights_fail(example, task):
    found = example("neural-network").results[task]
    assert found["verdicts"]["NUTS"]["weights"]["status"] == "failed"
    r_hats = {
        what: next(c["value"] for c in verdict["checks"] if c["name"] == "R-hat")
        for what, verdict in found["verdicts"]["NUTS"].items()
    }
    assert r_hats["weights"] > 1.5
    assert r_hats["function"] < r_hats["weights"]
    assert found["symmetry_error"] < 1e-6
    assert found["verdicts"]["mean-field ADVI"] == {"function": None, "weights": None}


@pytest.mark.slow
def test_networks_predict_and_say_what_they_do_not_know(example):
    for index in (0, 1):
        rows = table(example("neural-network"), index)
        assert rows.loc["NUTS", "error of the mean"] < 0.2
        assert (rows["total sd"] > rows["epistemic sd"]).all()
        assert (
            rows.loc["mean-field ADVI", "error of the mean"] > rows.loc["NUTS", "error of the mean"]
        )


@pytest.mark.slow
def test_hmc_by_hand_and_nuts_predict_alike_where_both_mix(example):
    rows = table(example("neural-network"), 1)
    assert rows.loc["HMC", "acceptance"] > 0.6
    assert rows.loc["HMC", "mean: off NUTS, in its sds"] < 1.5
    assert 0.6 < rows.loc["HMC", "sd / NUTS sd"] < 1.6
    assert rows.loc["mean-field ADVI", "mean: off NUTS, in its sds"] > 2


def test_the_finite_chain_is_reversible_and_forgets_its_start(example):
    results = example("markov-chain").results
    assert results["detailed_balance_error"] < 1e-14
    assert results["stationary_error"] < 1e-12
    distance = results["total_variation"]
    assert (distance[:, -1] < 1e-3).all()
    limit = bound(results["pi"], results["rate"], NUM_STEPS)
    assert (distance <= limit + 1e-12).all()
    # the bound is tight: a slightly smaller rate breaks it
    assert (distance > bound(results["pi"], 0.95 * results["rate"], NUM_STEPS)).any()
    # 9 degrees of freedom: 27.9 is exceeded with probability 0.001
    assert results["chi_square"] < 27.9


def test_a_small_p_is_not_rounded_to_zero():
    lecture = run_example("markov-chain", Settings(seed=4294967295, quick=True))
    assert any(re.search(r"p = 0\.0*[1-9]", finding) for finding in lecture.findings)


@pytest.mark.slow
def test_three_samplers_agree_on_the_flowers(example):
    lecture = example("flowers-by-hand")
    assert agreements(lecture) == 2
    assert not any("NOT mix" in finding for finding in lecture.findings)
    rows = table(lecture)
    assert list(rows.index) == ["Metropolis", "HMC", "Stan's NUTS"]
    assert rows.loc["HMC", "ESS per 1,000 evaluations"] > 10
    assert (rows["ESS per second"] > 0).all()


def test_the_flowers_coordinates_are_named_as_stan_names_them():
    target = flower_density()
    named = by_name(target.constrain(np.zeros((1, 1, target.dim))))
    assert list(named) == ["mu", "sigma2", "mu_plant[1]", "mu_plant[2]", "mu_plant[3]"]
    assert named["sigma2"].item() == 1
