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
PROGRAMS = Path(__file__).parent / "programs"
SHIPPED = ("iid_normal", "multilevel_normal", "multilevel_poisson", "semiconjugate_normal")
EXAMPLES = ("epil", "pumps", "rats", "seeds")


def data_of(program, data=None):
    read = program.read(data)
    whole, _ = program.fill(read, program.resolve_priors(None, read))
    return program.stan_values(whole)


def both(program, data, options, keep=None, seed=None):
    """Yield draws of CmdStan and of the interpreter, which may have a different seed."""
    own = options if seed is None else options.model_copy(update={"seed": seed})
    for engine, cmdstan, given in (("cmdstan", "embedded", options), ("stanli", None, own)):
        yield find_engine(engine, cmdstan).load(program).sample(data, given, keep=keep)


def sampled(name, **options):
    """Yield the quantities that each engine samples, without those computed from them."""
    program = find_program(name)
    keep = list(program.source.blocks.parameters)
    return both(program, data_of(program), SamplerOptions(**options), keep)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", ["iid_normal", "multilevel_poisson"])
def test_sampled_quantities_are_equal_to_the_last_bit(executables, name, seed):
    reference, interpreted = sampled(name, seed=seed)
    assert reference.draws.keys() == interpreted.draws.keys()
    for quantity, draws in reference.draws.items():
        assert np.array_equal(draws, interpreted.draws[quantity]), quantity
    for statistic, values in reference.stats.items():
        assert np.array_equal(values, interpreted.stats[statistic]), statistic


def test_both_use_the_metric_that_is_named(executables):
    means = set()
    for metric in ("diag_e", "dense_e", "unit_e"):
        reference, interpreted = sampled("multilevel_poisson", seed=1, metric=metric, draws=200)
        assert np.array_equal(reference.draws["mu"], interpreted.draws["mu"])
        means.add(reference.draws["mu"].mean())
    assert len(means) == 3


@pytest.mark.parametrize(
    ("warmup", "draws", "thin"), [(100, 7, 3), (51, 50, 7), (0, 8, 7), (100, 9, 1), (99, 10, 5)]
)
def test_both_keep_the_same_draws(executables, warmup, draws, thin):
    options = {"seed": 3, "chains": 2, "warmup": warmup, "draws": draws, "thin": thin}
    assert np.array_equal(*(each.draws["mu"] for each in sampled("iid_normal", **options)))


def test_every_shape_is_the_same(cmdstan):
    program = Program.open(PROGRAMS / "shapes.stan")
    # A few short steps without adaptation, so that rounding errors cannot grow.
    few = SamplerOptions(seed=1, chains=2, warmup=0, draws=3, max_treedepth=1)
    found = [each.draws for each in both(program, {"Z": 0}, few)]
    assert found[0].keys() == found[1].keys()
    for name in found[0]:
        assert found[0][name].shape == found[1][name].shape, name
        # A different order of elements would be detected, because the elements have different
        # means.
        assert np.allclose(found[0][name], found[1][name], rtol=1e-6, atol=1e-9), name


def test_a_simplex_has_the_same_shape_and_distribution(cmdstan, tmp_path):
    """Stan 2.35 uses stick-breaking; the interpreter's later Stan has a different transform."""
    text = "parameters { array[2] simplex[3] s; } model { s[1] ~ dirichlet([1, 2, 3]'); }"
    (tmp_path / "simplex.stan").write_text(text)
    program = Program.open(tmp_path / "simplex.stan")
    found = [each.draws for each in both(program, {}, SamplerOptions(seed=1, draws=2000))]
    assert found[0]["s"].shape == found[1]["s"].shape == (4, 2000, 2, 3)
    assert_same_distribution(*found)


def written_programs(folder):
    """Yield programs with features that the others lack, and their data."""
    rng = np.random.default_rng(2)
    x = np.linspace(0, 3, 8)
    data = {
        "ode": {"y": [1.2, 0.8, 0.3]},
        "gaussian_process": {"N": 8, "x": x, "y": np.sin(x)},
        "robust": {"N": 8, "x": x, "y": np.exp(x)},
        "mixture": {"N": 8, "y": np.where(x > 1, 2.0, -1.0) + 0.1 * x},
        "ability": {"N": 4, "P": 2, "person": [1, 1, 2, 2], "y": [0, 1, 1, 1]},
        "wishart": {"N": 5, "y": rng.normal(size=(5, 2))},
    }
    for name, values in data.items():
        yield PROGRAMS / f"{name}.stan", values
    for name in SHIPPED:
        shipped = find_program(name)
        path = folder / f"{name}_with_quantities.stan"
        quantities = ROOT / "stan" / "quantities" / f"{name}.stan"
        path.write_text(shipped.path.read_text() + quantities.read_text())
        yield path, data_of(shipped)


def programs_with_data():
    """Return every program of the examples, lectures and conformance cases with data for it."""
    found = []
    for name in EXAMPLES:
        path = ROOT / "examples" / name / f"{name}.stan"
        program = Program.open(path)
        found.append((path, data_of(program, path.with_suffix(".csv"))))
    for name in SHIPPED:
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
    found.append((PROGRAMS / "shapes.stan", {"Z": 0}))
    for name in ("counts", "eight_schools"):
        data = json.loads((CONFORMANCE / "data" / f"{name}.json").read_text())
        found.append((CONFORMANCE / "programs" / f"{name}.stan", data))
    return found


def literal_data(path, table):
    """Fill the data of the lecture's original programs, which take a matrix of plants."""
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
"""Programs whose libraries other tests also compile; the others take half a minute each."""


def cases():
    for i, (path, data) in enumerate(programs_with_data()):
        name = f"{path.parent.name}/{path.stem}"
        yield pytest.param(path, data, id=f"{name}-{i}")


def densities():
    for case in cases():
        marks = [] if case.id.rpartition("-")[0] in QUICK else [pytest.mark.density]
        yield pytest.param(*case.values, id=case.id, marks=marks)


@pytest.mark.parametrize(("path", "data"), list(densities()))
def test_density_and_gradient_are_those_of_the_compiled_program(path, data):
    assert_same_density(path, data)


@pytest.mark.density
def test_density_and_gradient_of_other_kinds_of_programs(tmp_path):
    for path, data in written_programs(tmp_path):
        # Stan 2.35 keeps the normalising constant of the inverse Wishart; the interpreter's later
        # Stan does not.
        assert_same_density(path, data, up_to_constant=path.stem == "wishart")


def test_what_the_interpreter_cannot_run_is_for_cmdstan():
    data = {"N": 2, "D": 1, "x": np.eye(2)[:, :1], "y": [0.0, 1.0], "L": 1, "width": [3]}
    data |= dict.fromkeys(("weight_sd", "noise_sd", "sigma_shape", "sigma_rate"), 1.0)
    with pytest.raises(EngineLacksError, match=r"cannot run neural_network\.stan .*; CmdStan can"):
        StanDensity(ROOT / "stan" / "neural_network.stan", data, engine="interpreted")


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


def assert_long_runs_agree(path, data):
    """Sample 4 × 10,000 draws with each engine."""
    program = Program.open(path)
    options = SamplerOptions(seed=1, draws=10_000, adapt_delta=0.95)
    found = both(program, data, options, list(program.source.blocks.parameters), seed=2)
    assert_same_distribution(*(each.draws for each in found))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "data"),
    [case for case in cases() if case.id not in ("stan/iid_normal-4", "stan/multilevel_poisson-6")],
)
def test_long_runs_are_equal_in_distribution(cmdstan, path, data):
    assert_long_runs_agree(path, data)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["kinds", "quantities"])
def test_long_runs_of_written_programs_are_equal_in_distribution(cmdstan, kind, tmp_path):
    for path, data in written_programs(tmp_path):
        if path.stem.endswith("with_quantities") == (kind == "quantities"):
            assert_long_runs_agree(path, data)


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
