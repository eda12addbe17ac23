"""The two engines on one posterior: equal to the last bit, or in distribution."""

import json
from pathlib import Path

import numpy as np
import pytest

from pyflowers.convergence import mcse_quantile
from pyflowers.engines import EngineLacksError, SamplerOptions, find_engine
from pyflowers.errors import DataError
from pyflowers.programs import Program, find_program
from pyflowers.programs.source import read_source
from pyflowers.samplers import StanDensity

ROOT = Path(__file__).resolve().parents[2]
CONFORMANCE = ROOT / "tests" / "conformance"
EXAMPLES = ("epil", "pumps", "rats", "seeds")


def data_of(program, data=None):
    read = program.read(data)
    whole, _ = program.fill(read, program.resolve_priors(None, read))
    return program.stan_values(whole)


def sampled(name, engine, seed, data=None, **options):
    """Return the quantities that a chain samples, whatever is computed from them."""
    program = find_program(name)
    loaded = find_engine(engine, "embedded" if engine == "cmdstan" else None).load(program)
    return loaded.sample(
        data_of(program, data),
        SamplerOptions(seed=seed, **options),
        keep=list(program.source.blocks.parameters),
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", ["iid_normal", "multilevel_poisson"])
def test_sampled_quantities_are_equal_to_the_last_bit(executables, name, seed):
    reference, interpreted = (sampled(name, engine, seed) for engine in ("cmdstan", "stanli"))
    assert reference.draws.keys() == interpreted.draws.keys()
    for quantity, draws in reference.draws.items():
        assert np.array_equal(draws, interpreted.draws[quantity]), quantity
    for statistic, values in reference.stats.items():
        assert np.array_equal(values, interpreted.stats[statistic]), statistic


def test_both_use_the_metric_that_is_named(executables):
    means = []
    for metric in ("diag_e", "dense_e", "unit_e"):
        reference, interpreted = (
            sampled("multilevel_poisson", engine, 1, metric=metric, draws=200)
            for engine in ("cmdstan", "stanli")
        )
        assert np.array_equal(reference.draws["mu"], interpreted.draws["mu"])
        means.append(reference.draws["mu"].mean())
    assert len(set(means)) == 3


@pytest.mark.parametrize(
    ("warmup", "draws", "thin"), [(100, 7, 3), (51, 50, 7), (0, 8, 7), (100, 9, 1), (99, 10, 5)]
)
def test_both_keep_the_same_draws(executables, warmup, draws, thin):
    options = SamplerOptions(seed=3, chains=2, warmup=warmup, draws=draws, thin=thin)
    program = find_program("iid_normal")
    kept = [
        find_engine(engine, cmdstan).load(program).sample(data_of(program), options).draws["mu"]
        for engine, cmdstan in (("cmdstan", "embedded"), ("stanli", None))
    ]
    assert np.array_equal(*kept)


SHAPES = """
data {
  int<lower=0> Z;
}
parameters {
  real a;
  matrix[2, 3] m;
  array[2] vector[3] av;
  array[2, 2] matrix[2, 3] am;
  vector[Z] none;
}
transformed parameters {
  row_vector[2] r = [a, 2 * a];
}
model {
  a ~ std_normal();
  to_vector(m) ~ std_normal();
  for (i in 1 : 2) {
    av[i] ~ std_normal();
    for (j in 1 : 2) {
      to_vector(am[i, j]) ~ std_normal();
    }
  }
}
generated quantities {
  array[2, 3] int k;
  for (i in 1 : 2) {
    for (j in 1 : 3) {
      k[i, j] = poisson_rng(3);
    }
  }
}
"""


def test_every_shape_is_the_same(cmdstan, tmp_path):
    (tmp_path / "shapes.stan").write_text(SHAPES)
    program = Program.open(tmp_path / "shapes.stan")
    # A few short steps without adaptation: rounding has no time to grow.
    few = SamplerOptions(seed=1, chains=2, warmup=0, draws=3, max_treedepth=1)
    found = [
        find_engine(engine, path).load(program).sample({"Z": 0}, few).draws
        for engine, path in (("cmdstan", "embedded"), ("stanli", None))
    ]
    assert found[0].keys() == found[1].keys()
    for name in found[0]:
        assert found[0][name].shape == found[1][name].shape, name
        # An unequal order of elements would show: means differ by element.
        assert np.allclose(found[0][name], found[1][name], rtol=1e-6, atol=1e-9), name


def test_a_simplex_has_the_same_shape_and_distribution(cmdstan, tmp_path):
    """Stan 2.35 breaks sticks; the interpreter's later Stan has another transform."""
    text = "parameters { array[2] simplex[3] s; } model { s[1] ~ dirichlet([1, 2, 3]'); }"
    (tmp_path / "simplex.stan").write_text(text)
    program = Program.open(tmp_path / "simplex.stan")
    options = SamplerOptions(seed=1, draws=2000)
    found = [
        find_engine(engine, path).load(program).sample({}, options).draws
        for engine, path in (("cmdstan", "embedded"), ("stanli", None))
    ]
    assert found[0]["s"].shape == found[1]["s"].shape == (4, 2000, 2, 3)
    assert_same_distribution(*found)


ODE = """
functions {
  vector decay(real t, vector y, real rate) {
    return -rate * y;
  }
}
data {
  vector[3] y;
}
parameters {
  real<lower=0> rate;
  real<lower=0> sigma;
}
model {
  array[3] vector[1] state = ode_rk45(decay, [2.0]', 0, {0.5, 1.0, 2.0}, rate);
  rate ~ lognormal(0, 1);
  sigma ~ exponential(1);
  for (i in 1 : 3) {
    y[i] ~ normal(state[i, 1], sigma);
  }
}
"""
GAUSSIAN_PROCESS = """
data {
  int<lower=1> N;
  array[N] real x;
  vector[N] y;
}
parameters {
  real<lower=0> length;
  real<lower=0> height;
  real<lower=0> sigma;
}
model {
  length ~ inv_gamma(5, 5);
  height ~ std_normal();
  sigma ~ std_normal();
  y ~ multi_normal(rep_vector(0, N),
                   add_diag(gp_exp_quad_cov(x, height, length), square(sigma)));
}
"""
WISHART = """
data {
  int<lower=1> N;
  array[N] vector[2] y;
}
parameters {
  vector[2] mu;
  cov_matrix[2] Sigma;
  ordered[2] cut;
}
model {
  mu ~ std_normal();
  cut ~ normal(0, 2);
  Sigma ~ inv_wishart(4, identity_matrix(2));
  y ~ multi_normal(mu, Sigma);
}
"""
ROBUST = """
data {
  int<lower=1> N;
  vector[N] x;
  vector[N] y;
}
parameters {
  real a;
  real b;
  real<lower=0> sigma;
  real<lower=1> nu;
}
model {
  a ~ cauchy(0, 2.5);
  b ~ double_exponential(0, 1);
  sigma ~ weibull(2, 1);
  nu ~ gamma(2, 0.1);
  y ~ student_t(nu, a + b * x, sigma);
}
"""
MIXTURE = """
data {
  int<lower=1> N;
  vector[N] y;
}
parameters {
  ordered[2] mu;
  vector<lower=0>[2] sigma;
  real<lower=0, upper=1> share;
}
model {
  mu ~ normal(0, 3);
  sigma ~ lognormal(0, 1);
  share ~ beta(2, 2);
  for (n in 1 : N) {
    target += log_mix(share, normal_lpdf(y[n] | mu[1], sigma[1]),
                      normal_lpdf(y[n] | mu[2], sigma[2]));
  }
}
"""
ABILITY = """
data {
  int<lower=1> N;
  int<lower=1> P;
  array[N] int<lower=1, upper=P> person;
  array[N] int<lower=0, upper=1> y;
}
parameters {
  vector[P] ability;
  cholesky_factor_corr[2] L;
  real<lower=0> scale;
  array[2] real easiness;
}
model {
  L ~ lkj_corr_cholesky(2);
  scale ~ exponential(1);
  easiness ~ logistic(0, 1);
  ability ~ normal(0, scale);
  for (n in 1 : N) {
    y[n] ~ bernoulli_logit(ability[person[n]] + easiness[n % 2 + 1] * L[2, 1]);
  }
}
"""


def written_programs(folder):
    """Write programs of kinds that the others lack, with data."""
    rng = np.random.default_rng(2)
    x = np.linspace(0, 3, 8)
    texts = {
        "ode": (ODE, {"y": [1.2, 0.8, 0.3]}),
        "gaussian_process": (GAUSSIAN_PROCESS, {"N": 8, "x": x, "y": np.sin(x)}),
        "robust": (ROBUST, {"N": 8, "x": x, "y": np.exp(x)}),
        "mixture": (MIXTURE, {"N": 8, "y": np.where(x > 1, 2.0, -1.0) + 0.1 * x}),
        "ability": (ABILITY, {"N": 4, "P": 2, "person": [1, 1, 2, 2], "y": [0, 1, 1, 1]}),
        "wishart": (WISHART, {"N": 5, "y": rng.normal(size=(5, 2))}),
    }
    for name in ("iid_normal", "multilevel_normal", "multilevel_poisson", "semiconjugate_normal"):
        shipped = find_program(name)
        quantities = ROOT / "stan" / "quantities" / f"{name}.stan"
        text = shipped.path.read_text() + quantities.read_text()
        texts[f"{name}_with_quantities"] = (text, data_of(shipped))
    for name, (text, data) in texts.items():
        path = folder / f"{name}.stan"
        path.write_text(text)
        yield path, data


def programs_with_data():
    """Return every program of the examples, lectures and conformance cases with data for it."""
    found = []
    for name in EXAMPLES:
        path = ROOT / "examples" / name / f"{name}.stan"
        program = Program.open(path)
        found.append((path, data_of(program, path.with_suffix(".csv"))))
    for name in ("iid_normal", "multilevel_normal", "multilevel_poisson", "semiconjugate_normal"):
        program = find_program(name)
        found.append((program.path, data_of(program)))
    rng = np.random.default_rng(1)
    lecture = np.array([[4, 5, 6, 4], [0, 2, 5, 3], [8, 6, 10, 8]])
    for name in ("iid_normal", "multilevel_normal", "multilevel_poisson"):
        path = ROOT / "tests" / "lecture" / f"{name}.stan"
        found.append((path, literal_data(path, lecture)))
    x = rng.normal(size=20)
    found += [
        (
            ROOT / "stan" / "linear_regression.stan",
            {"N": 20, "x": x, "y": 1 + 2 * x + rng.normal(size=20), "log_flat": 0},
        ),
        (
            ROOT / "stan" / "normal_mixture_density.stan",
            {"K": 2, "weight": [0.7, 0.3], "location": [1.5, -1.5], "scale": [1.0, 1.0]},
        ),
    ]
    for name in ("counts", "eight_schools"):
        data = json.loads((CONFORMANCE / "data" / f"{name}.json").read_text())
        found.append((CONFORMANCE / "programs" / f"{name}.stan", data))
    return found


def neural_network(width):
    """Return the lectures' network with data for it."""
    x = np.linspace(-1, 1, 20)
    data = {
        "N": 20,
        "D": 1,
        "x": x[:, None],
        "y": np.sin(x),
        "L": len(width),
        "width": width,
        "weight_sd": 1.0,
        "noise_sd": 0.3,
        "sigma_shape": 1.0,
        "sigma_rate": 1.0,
    }
    return ROOT / "stan" / "neural_network.stan", data


def literal_data(path, table):
    """Fill the lecture's literal programs, which take a matrix of plants."""
    values = {}
    for name, variable in read_source(path).blocks.data.items():
        if variable.ndim == 2:
            shape = {"T": 4, "P": 3}
            order = table if variable.sizes[0] == "P" else table.T
            assert set(variable.sizes) <= set(shape)
            values[name] = order
        elif variable.ndim == 1:
            values[name] = table.ravel()
        else:
            values[name] = {"N": 12, "P": 3, "T": 4}[name]
    return values


QUICK = {"stan/iid_normal", "stan/multilevel_normal", "stan/multilevel_poisson"}
"""Programs whose libraries other tests compile, too; the others take half a minute each."""


def cases():
    for i, (path, data) in enumerate(programs_with_data()):
        name = f"{path.parent.name}/{path.stem}"
        marks = [] if name in QUICK else [pytest.mark.slow]
        yield pytest.param(path, data, id=f"{name}-{i}", marks=marks)


@pytest.mark.parametrize(("path", "data"), list(cases()))
def test_density_and_gradient_are_those_of_the_compiled_program(path, data):
    assert_same_density(path, data)


@pytest.mark.slow
def test_density_and_gradient_of_other_kinds_of_programs(tmp_path):
    for path, data in written_programs(tmp_path):
        # Stan 2.35 keeps the constant of the inverse Wishart; the interpreter's later one does not.
        assert_same_density(path, data, up_to_constant=path.stem == "wishart")


def test_what_the_interpreter_cannot_run_is_for_cmdstan():
    path, data = neural_network([3])
    with pytest.raises(EngineLacksError, match=r"cannot run neural_network\.stan .*; CmdStan can"):
        StanDensity(path, data, engine="interpreted")


def assert_same_density(path, data, up_to_constant=False):
    compiled = StanDensity(path, data, engine="compiled")
    interpreted = StanDensity(path, data, engine="interpreted")
    assert interpreted.names == compiled.names
    points = compiled.start(np.random.default_rng(1), 100, radius=1.0)
    values, gradients = zip(
        *(density.log_density_gradient(points) for density in (compiled, interpreted)), strict=True
    )
    assert np.isfinite(values[0]).all()
    constant = values[0][0] - values[1][0] if up_to_constant else 0.0
    assert np.allclose(values[0], values[1] + constant, rtol=1e-10, atol=0)
    scale = np.abs(gradients[0]).max(axis=1, keepdims=True)
    assert (np.abs(gradients[0] - gradients[1]) <= 1e-10 * scale).all()


def test_a_prior_that_is_off_by_a_percent_is_seen():
    program = find_program("multilevel_normal")
    data = data_of(program)
    compiled = StanDensity(program.path, data, engine="compiled")
    planted = StanDensity(
        program.path, {**data, "sigma2_scale": 1.01 * data["sigma2_scale"]}, engine="interpreted"
    )
    points = compiled.start(np.random.default_rng(1), 100, radius=1.0)
    values = [density.log_density(points) for density in (compiled, planted)]
    assert not np.allclose(*values, rtol=1e-10, atol=0)


def assert_same_distribution(first, second):
    for name, draws in first.items():
        flat = [np.reshape(each, (*each.shape[:2], -1)) for each in (draws, second[name])]
        for prob in (0.05, 0.5, 0.95):
            values = [np.quantile(each, prob, axis=(0, 1)) for each in flat]
            error = np.hypot(*(np.nan_to_num(mcse_quantile(each, prob)) for each in flat))
            still = (error == 0) & (values[0] == values[1])
            apart = np.abs(values[0] - values[1]) / np.where(error > 0, error, np.inf)
            assert (apart[~still] < 4).all(), (name, prob, apart.max())


def of_both_engines(program, data):
    """Sample 4 × 10,000 draws with each engine."""
    options = SamplerOptions(seed=1, draws=10_000, adapt_delta=0.95)
    keep = list(program.source.blocks.parameters)
    return [
        find_engine(engine, cmdstan_path)
        .load(program)
        .sample(data, options.model_copy(update={"seed": seed}), keep=keep)
        .draws
        for engine, cmdstan_path, seed in (("cmdstan", "embedded", 1), ("stanli", None, 2))
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "data"),
    [case for case in cases() if case.id not in ("stan/iid_normal-4", "stan/multilevel_poisson-6")],
)
def test_long_runs_are_equal_in_distribution(cmdstan, path, data):
    assert_same_distribution(*of_both_engines(Program.open(path), data))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["kinds", "quantities"])
def test_long_runs_of_written_programs_are_equal_in_distribution(cmdstan, kind, tmp_path):
    for path, data in written_programs(tmp_path):
        if path.stem.endswith("with_quantities") == (kind == "quantities"):
            assert_same_distribution(*of_both_engines(Program.open(path), data))


def test_the_same_check_sees_a_shift():
    rng = np.random.default_rng(1)
    draws = {"x": rng.normal(size=(4, 10_000))}
    assert_same_distribution(draws, {"x": rng.normal(size=(4, 10_000))})
    with pytest.raises(AssertionError):
        assert_same_distribution(draws, {"x": rng.normal(size=(4, 10_000)) + 0.1})


def test_wrong_data_are_an_error_of_the_data():
    program = find_program("iid_normal")
    with pytest.raises(DataError, match="y"):
        StanDensity(program.path, {**data_of(program), "y": [1.0]}, engine="interpreted")
