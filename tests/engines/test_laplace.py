"""The metric of a Laplace approximation: its covariance, and when it is held."""

import numpy as np
import pandas as pd
import pytest
import stanli
from scipy.integrate import quad

import pyflowers
from pyflowers.convergence import mcse_quantile, quantiles
from pyflowers.engines import SamplerOptions, find_engine
from pyflowers.engines.stanli import laplace
from pyflowers.engines.stanli.laplace import Laplace, SymmetricPattern, are_free
from pyflowers.engines.stanli.worker import _density_of
from pyflowers.programs import Program

PROBS = np.array([0.05, 0.5, 0.95])

SHAPES = (
    "parameters { vector[0] none; real<lower=0> s; matrix[2, 3] m; ordered[2] o; simplex[3] p; "
    "vector<lower=-1, upper=1>[2] v; cholesky_factor_corr[2] L; real<offset=1e6, multiplier=s> a; "
    "positive_ordered[2] q; unit_vector[2] z; } model { }"
)

GROUPS = (
    "data { int N; int G; array[N] int g; vector[N] y; } parameters { real mu; real<lower=0> sd_g; "
    "vector<multiplier=sd_g>[G] r; } model { mu ~ normal(0, 5); sd_g ~ exponential(1); "
    "r ~ normal(0, sd_g); y ~ normal(mu + r[g], 0.7); }"
)


def density_of(text, data="{}"):
    return _density_of(stanli.stan_to_mir(text), data, 1)


@pytest.fixture
def load(tmp_path):
    def make(text):
        (tmp_path / "program.stan").write_text(text)
        return find_engine("stanli").load(Program.open(tmp_path / "program.stan"))

    return make


@pytest.fixture
def counts():
    """Return counts of 40 groups whose effects are hard to tell from the intercept."""
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(40), 10)
    rate = np.exp(1 + rng.normal(0, 0.5, 40))[group]
    labels = np.char.add("g", group.astype(str))
    return pd.DataFrame({"y": rng.poisson(rate), "g": labels})


def test_parameters_without_constraints_are_linear_in_their_coordinates():
    density = density_of(SHAPES)
    names = np.array([name.partition(".")[0] for name in density.names])
    assert set(names[are_free(density)]) == {"m", "a"}
    assert {"s", "o", "p", "v", "L", "q", "z"} <= set(names)


def test_few_products_determine_a_matrix_with_a_known_pattern():
    rng = np.random.default_rng(1)
    rows, person, item = 600, rng.integers(0, 80, 600), rng.integers(0, 15, 600)
    columns = np.zeros((rows, 3 + 80 + 15))
    columns[:, :3] = rng.normal(size=(rows, 3))
    columns[np.arange(rows), 3 + person] = columns[np.arange(rows), 83 + item] = 1
    matrix = columns.T @ columns + np.eye(columns.shape[1])
    pattern = SymmetricPattern(matrix)
    # One for each coefficient and each item, and one for all persons.
    assert len(pattern.vectors) <= 3 + 15 + 1
    other = columns.T @ (rng.uniform(1, 2, (rows, 1)) * columns) + np.eye(columns.shape[1])
    np.testing.assert_allclose(pattern.matrix(pattern.vectors @ other), other, atol=1e-9)


def test_the_covariance_of_a_normal_posterior_is_exact():
    text = "parameters { vector[4] x; } model { x ~ multi_normal(m, S); }"
    root = np.random.default_rng(1).normal(size=(4, 4))
    mean, covariance = np.array([1.0, -2, 30, 4]), root @ root.T
    data = pd.Series({"m": mean.tolist(), "S": covariance.tolist()}).to_json()
    text = f"data {{ vector[4] m; matrix[4, 4] S; }} {text}"
    found = Laplace(density_of(text, data), np.zeros(4))
    np.testing.assert_allclose(found.covariance(), covariance, rtol=1e-4)
    np.testing.assert_allclose(found.point, mean, rtol=1e-4)


def test_effects_are_integrated_out_exactly_if_they_are_normal():
    rng = np.random.default_rng(2)
    group = np.repeat(np.arange(1, 7), 3)
    y = rng.normal(0, 1, 6)[group - 1] + rng.normal(0, 0.7, 18)
    data = pd.Series({"N": 18, "G": 6, "g": group.tolist(), "y": y.tolist()}).to_json()
    found = Laplace(density_of(GROUPS, data), np.zeros(8))

    def log_density(t):
        sd = np.exp(t)
        covariance = 25 + sd**2 * (group[:, None] == group) + 0.49 * np.eye(18)
        quadratic = y @ np.linalg.solve(covariance, y)
        return t - sd - 0.5 * (np.linalg.slogdet(covariance)[1] + quadratic)

    points = np.linspace(-2, 1.5, 8)
    differences = found.log_density(points[:, None]) - [log_density(t) for t in points]
    np.testing.assert_allclose(differences, differences[0], atol=1e-5)

    # Given t, the mode of u moves as the covariance with t says.
    def mode_of_u(t):
        found.log_density(np.array([[t]]))
        return found.point[found.u]

    # Of the log of the standard deviation, the curvature at the mode gives the variance.
    covariance, mode = found.covariance(), found.point[found.t][0]
    second = log_density(mode + 0.01) + log_density(mode - 0.01) - 2 * log_density(mode)
    assert covariance[found.t[0], found.t[0]] == pytest.approx(-1e-4 / second, rel=0.1)
    slopes = (mode_of_u(mode + 1e-3) - mode_of_u(mode - 1e-3)) / 2e-3
    across = covariance[found.u][:, found.t][:, 0]
    np.testing.assert_allclose(across, slopes * covariance[found.t[0], found.t[0]], atol=1e-4)
    # The variance of u is its variance given t, for mu and r / sd_g, and the part through t.
    columns = np.exp(mode) * (group[:, None] == np.arange(1, 7))
    columns = np.column_stack([np.ones(18), columns])
    precision = columns.T @ columns / 0.49 + np.diag([1 / 25, *np.ones(6)])
    given_t = np.linalg.inv(precision)
    through_t = np.outer(slopes, slopes) * covariance[found.t[0], found.t[0]]
    np.testing.assert_allclose(
        covariance[np.ix_(found.u, found.u)], given_t + through_t, rtol=1e-3, atol=1e-5
    )
    total, _ = quad(lambda t: np.exp(log_density(t) - log_density(mode)), -9, 4)
    assert total == pytest.approx(np.sqrt(2 * np.pi * -1e-4 / second), rel=0.3)


def test_the_metric_is_held_and_the_posterior_is_the_same(counts):
    fit, reference = (
        pyflowers.fit(
            "y ~ 1 + (1 | g)", counts, family="poisson", seed=1, engine="stanli", metric=metric
        )
        for metric in ("laplace", "diag_e")
    )
    assert fit.record.metric_held is True
    assert fit.verdict.computation.passed
    steps = [int(each.sample_stats["n_steps"].sum()) for each in (fit.idata, reference.idata)]
    assert steps[0] < steps[1]
    for name in ("Intercept", "sd_g", "r_g"):
        draws, others = (each.draws[name].reshape(4, 1000, -1) for each in (fit, reference))
        for prob in PROBS:
            error = np.hypot(mcse_quantile(draws, prob), mcse_quantile(others, prob))
            apart = quantiles(draws, [prob])[0] - quantiles(others, [prob])[0]
            assert (np.abs(apart) < 5 * error).all(), (name, prob)


FUNNEL = "parameters { real v; vector[9] x; } model { v ~ normal(0, 3); x ~ normal(0, exp(v)); }"


def test_without_a_mode_the_draws_are_those_of_stans_warm_up(load):
    program = load(FUNNEL)  # the density is unbounded as v decreases
    held, usual = (
        program.sample({}, SamplerOptions(seed=1, metric=metric, warmup=200, draws=50))
        for metric in ("laplace", "diag_e")
    )
    assert held.metric_held is False
    assert np.array_equal(held.draws["x"], usual.draws["x"])


def test_with_too_many_parameters_the_draws_are_those_of_stans_warm_up(load):
    text = (
        f"parameters {{ vector[{laplace.MOST_PARAMETERS + 1}] x; }} model {{ x ~ std_normal(); }}"
    )
    held, usual = (
        load(text).sample({}, SamplerOptions(seed=1, metric=metric, warmup=20, draws=10))
        for metric in ("laplace", "diag_e")
    )
    assert held.metric_held is False
    assert np.array_equal(held.draws["x"], usual.draws["x"])
