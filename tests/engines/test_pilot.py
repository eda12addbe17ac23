"""The metric of pilot runs: when it is held, and what follows."""

import numpy as np
import pandas as pd
import pytest
import stanli

import pyflowers
from pyflowers.convergence import mcse_quantile, quantiles
from pyflowers.engines import SamplerOptions, find_engine
from pyflowers.engines.stanli.pilot import held_metric
from pyflowers.engines.stanli.worker import _density_of, _Lines
from pyflowers.errors import ConfigError
from pyflowers.programs import Program, find_program

PROBS = np.array([0.05, 0.5, 0.95])


@pytest.fixture(scope="module")
def counts():
    """Return counts that determine each plant's rate well."""
    rng = np.random.default_rng(1)
    plant = np.repeat(np.arange(100), 100)
    rate = np.exp(rng.normal(1.5, 0.5, 100))
    return pd.DataFrame(
        {"plant": plant, "month": np.tile(np.arange(100), 100), "flowers": rng.poisson(rate[plant])}
    )


def sampled(program, data=None, **options):
    return pyflowers.fit(program, data, seed=1, engine="stanli", **options)


@pytest.fixture
def load(tmp_path):
    def make(text):
        (tmp_path / "program.stan").write_text(text)
        return find_engine("stanli").load(Program.open(tmp_path / "program.stan"))

    return make


def test_where_the_pilots_agree_their_metric_is_held_and_the_posterior_is_the_same(counts):
    fit, reference = (
        sampled("multilevel_poisson", counts, metric=metric) for metric in ("pilot", "diag_e")
    )
    assert fit.record.metric_held is True
    assert reference.record.metric_held is None
    assert fit.verdict.computation.passed
    for name in ("mu", "sigma2", "mu_plant"):
        draws, others = (
            each.posterior[name].values.reshape(4, 1000, -1) for each in (fit, reference)
        )
        for prob in PROBS:
            error = np.hypot(mcse_quantile(draws, prob), mcse_quantile(others, prob))
            apart = quantiles(draws, [prob])[0] - quantiles(others, [prob])[0]
            assert (np.abs(apart) < 5 * error).all(), (name, prob)


def test_where_the_pilots_disagree_the_draws_are_those_of_stans_warm_up():
    data = "examples/rats/rats.csv"
    fit, reference = (
        sampled("examples/rats/rats.stan", data, metric=metric, warmup=300, draws=50)
        for metric in ("pilot", "diag_e")
    )
    assert fit.record.metric_held is False
    for name, draws in reference.posterior.items():
        assert np.array_equal(draws, fit.posterior[name]), name


def test_one_chain_cannot_disagree_so_nothing_is_held(counts):
    fit, reference = (
        sampled("multilevel_poisson", counts, metric=metric, chains=1, warmup=200, draws=20)
        for metric in ("pilot", "diag_e")
    )
    assert fit.record.metric_held is False
    assert np.array_equal(fit.posterior["mu"], reference.posterior["mu"])


def test_two_modes_are_still_found(load):
    program = load(
        "parameters { real x; } model { target += log_mix(0.5, normal_lpdf(x | -20, 1), "
        "normal_lpdf(x | 20, 1)); }"
    )
    held = [
        program.sample({}, SamplerOptions(seed=seed, metric="pilot", draws=200))
        for seed in range(1, 9)
    ]
    assert any(sample.metric_held for sample in held)
    sides = {
        tuple(np.sign(sample.draws["x"].mean(axis=1))) for sample in held if sample.metric_held
    }
    assert any(len(set(each)) == 2 for each in sides)


def test_a_funnel_is_held_only_where_it_is_non_centered(load):
    centered, non_centered = (
        load(f"parameters {{ real v; vector[9] x; }} model {{ v ~ normal(0, 3); {effects} }}")
        for effects in ("x ~ normal(0, exp(v / 2));", "x ~ std_normal();")
    )
    options = SamplerOptions(seed=1, metric="pilot", warmup=200, draws=50)
    assert centered.sample({}, options).metric_held is False
    assert non_centered.sample({}, options).metric_held is True


SHAPES = (
    "parameters { vector[0] none; real<lower=0> s; matrix[2, 3] m; simplex[3] p; "
    "array[2] vector<lower=-1, upper=1>[2] v; cholesky_factor_corr[2] L; } "
    "model { s ~ lognormal(0, 0.1); to_vector(m) ~ normal([1, 2, 3, 4, 5, 6]', 0.1); "
    "p ~ dirichlet([500, 300, 200]'); for (i in 1:2) v[i] ~ normal(0, 0.01); "
    "L ~ lkj_corr_cholesky(500); }"
)


def test_chains_start_where_the_pilots_end_whatever_the_shapes_of_the_parameters():
    model, density = (
        stanli.Model(stan_code=SHAPES, data={}),
        _density_of(stanli.stan_to_mir(SHAPES), "{}", 1),
    )
    options = {"seed": 1, "chains": 4, "max_depth": 10, "refresh": 0}
    held = held_metric(model, density, ("none", *"smpvL"), **options)
    assert held["inits"].shape == held["inv_metric"].shape == (4, 14)
    # Stan stores matrices by column.
    assert np.allclose(held["inits"][:, 1:7], [1, 2, 3, 4, 5, 6], atol=0.5)
    assert np.allclose(held["inv_metric"][:, 1:7], 0.01)


def test_pilots_count_as_warm_up():
    """A pilot run and the chains, as the interpreter prints their times for two chains."""
    stream = _Lines(None)
    for warmup, sampling in ((1, 2), (4, 8), (16, 32), (64, 128)):
        stream.write(f"Elapsed Time: {warmup}.0 seconds (Warm-up)\n")
        stream.write(f"              {sampling}.0 seconds (Sampling)\n")
    first, second = stream.times(2)
    assert first == {"warmup": 1 + 2 + 16, "sampling": 32, "total": 51}
    assert second == {"warmup": 4 + 8 + 64, "sampling": 128, "total": 204}


def test_cmdstan_runs_its_own_warm_up_if_auto_turns_to_it(executables):
    program = find_program("iid_normal")
    filled, _ = program.fill(data := program.read(), program.resolve_priors(None, data))
    loaded = find_engine("cmdstan", "embedded").load(program)
    samples = [
        loaded.sample(program.stan_values(filled), SamplerOptions(seed=1, metric=metric, draws=50))
        for metric in ("pilot", "diag_e")
    ]
    assert np.array_equal(*(sample.draws["mu"] for sample in samples))


@pytest.mark.parametrize("metric", ["pilot", "laplace"])
@pytest.mark.parametrize(
    ("engine", "options", "words"),
    [
        ("cmdstan", {}, 'CmdStan does not have {}; use engine="stanli"'),
        ("stanli", {"warmup": 0}, "metric {} needs a warm-up"),
    ],
)
def test_options_that_exclude_an_estimated_metric(engine, options, words, metric):
    with pytest.raises(ConfigError, match=words.format(metric)):
        pyflowers.fit("multilevel_poisson", seed=1, engine=engine, metric=metric, **options)
