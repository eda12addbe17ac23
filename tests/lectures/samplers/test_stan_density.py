"""StanDensity has the same log density as CmdStan, as a target for samplers."""

import gc
import json
import resource
from concurrent.futures import ThreadPoolExecutor

import cmdstanpy
import numpy as np
import pytest

from pyflowers.errors import CompileError, ConfigError, DataError, FitError
from pyflowers.programs import find_program
from pyflowers.programs.source import read_source
from pyflowers.resources import program_path
from pyflowers.samplers import HMC, LinearRegression, NormalMixture, StanDensity, run
from pyflowers.toolchain import compile_program
from pyflowers.toolchain.build import compile_library

from .checks import Flipped, check_gradient

RNG = np.random.default_rng(7)
LINE_X = np.linspace(-1, 1.5, 12)
LINE_Y = -1 + 2 * LINE_X + 0.5 * RNG.standard_normal(12)
MIXTURE = NormalMixture((0.2, 0.5, 0.3), (-3.0, 0.5, 4.0), (0.5, 1.0, 2.0))

# Every kind of shape, a rejection, and an index that may be out of range.
MINE = """
functions {
#include twice.stan
}
data {
  int<lower=1> N;
  vector[N] y;
  int<lower=1> which;
}
transformed data {
  real noise = normal_rng(0, 1);
}
parameters {
  matrix[2, 3] a;
  array[2] vector[2] b;
  simplex[3] p;
  real<lower=0> s;
  tuple(real, vector[2]) t;
  complex z;
}
transformed parameters {
  real two_s = twice(s);
}
model {
  if (a[1, 1] > 50) {
    reject("a[1, 1] is too large");
  }
  to_vector(a) ~ normal(0, 1);
  for (i in 1 : 2) {
    b[i] ~ normal(0, 1);
  }
  t.1 ~ normal(0, 1);
  t.2 ~ normal(0, 1);
  get_real(z) ~ normal(0, 1);
  get_imag(z) ~ normal(0, 1);
  y ~ normal(a[which, 3] + 0 * noise, s);
}
"""
DATA = {"N": 3, "y": [0.5, 1.5, -0.2], "which": 2}


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    """Write a user program with an included file."""
    folder = tmp_path_factory.mktemp("my programs ü")
    (folder / "twice.stan").write_text("real twice(real x) {\n  return 2 * x;\n}\n")
    (folder / "my model.stan").write_text(MINE)
    return folder / "my model.stan"


def shipped(name, **choices):
    """Return the file of a shipped program and the data block of its example, for StanDensity."""
    program = find_program(name)
    data, _ = program.fill(program.read(), program.resolve_priors(), **choices)
    return program.path, program.stan_values(data)


@pytest.fixture(scope="module")
def densities(mine):
    """Compile all programs of these tests in parallel."""
    wanted = {
        "iid_normal": shipped("iid_normal"),
        "multilevel_poisson": shipped("multilevel_poisson", centered=False),
        "linear_regression": (
            program_path("linear_regression"),
            {"N": 12, "x": LINE_X, "y": LINE_Y, "log_flat": 0},
        ),
        "normal_mixture_density": (
            program_path("normal_mixture_density"),
            {"K": 3, "weight": MIXTURE.weights, "location": MIXTURE.means, "scale": MIXTURE.sds},
        ),
        "mine": (mine, DATA),
    }
    sources = [read_source(program) for program, _ in wanted.values()]
    with ThreadPoolExecutor() as executor:
        list(executor.map(compile_library, sources))
    return {name: StanDensity(*each) for name, each in wanted.items()}


NAMES = ("iid_normal", "multilevel_poisson", "linear_regression", "normal_mixture_density", "mine")


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_central_differences(densities, name):
    target = densities[name]
    x = np.random.default_rng(3).normal(0, 0.7, (20, target.dim))
    check_gradient(target, x, 1e-6, has_edge=False)
    with pytest.raises(AssertionError):
        check_gradient(Flipped(target), x, 1e-6, has_edge=False)


def test_log_density_and_gradient_equal_cmdstans(densities, cmdstan, tmp_path):
    program, data = shipped("multilevel_poisson", centered=False)
    target = densities["multilevel_poisson"]
    x = np.random.default_rng(4).normal(0, 0.8, (5, target.dim))
    cmdstanpy.write_stan_json(str(tmp_path / "data.json"), data)
    path = compile_program(program, cmdstan=cmdstan).path
    executable = cmdstanpy.CmdStanModel(exe_file=path)
    for row, log_density, gradient in zip(x, *target.log_density_gradient(x), strict=True):
        values = target.constrain(row)
        start = {name: values[name].tolist() for name in ("mu", "sigma2", "log_mu_plant")}
        found = executable.log_prob(start, data=str(tmp_path / "data.json"), sig_figs=18)
        assert np.isclose(found["lp__"].iloc[0], log_density, rtol=1e-9, atol=1e-9)
        assert np.allclose(found.iloc[0, 1:], gradient, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "by_hand", "same"),
    [
        ("linear_regression", LinearRegression(LINE_X, LINE_Y, flat_in="sigma"), True),
        ("linear_regression", LinearRegression(LINE_X, LINE_Y, flat_in="log_sigma"), False),
        ("normal_mixture_density", MIXTURE, True),
    ],
)
def test_it_equals_the_class_written_by_hand(densities, name, by_hand, same):
    x = np.random.default_rng(5).normal(0, 0.5, (10, 3))
    if by_hand is MIXTURE:
        x = np.linspace(-6, 8, 40)[:, None]
    log_density, gradient = densities[name].log_density_gradient(x)
    apart = np.ptp(log_density - by_hand.log_density(x))
    if same:
        assert apart < (1e-12 if by_hand is MIXTURE else 1e-10)
        assert np.allclose(gradient, by_hand.log_density_gradient(x)[1], rtol=1e-10)
    else:
        assert apart > 0.1


def test_shapes_are_the_programs_own(densities):
    target = densities["mine"]
    draws = np.random.default_rng(6).normal(size=(2, 5, target.dim))
    values = target.constrain(draws)
    assert {name: array.shape for name, array in values.items()} == {
        "a": (2, 5, 2, 3),
        "b": (2, 5, 2, 2),
        "p": (2, 5, 3),
        "s": (2, 5),
        "t.1": (2, 5),
        "t.2": (2, 5, 2),
        "z": (2, 5, 2),
        "two_s": (2, 5),
    }
    # Stan's names show which coordinate is which element
    at = {name: draws[..., i] for i, name in enumerate(target.names)}
    assert np.allclose(values["a"][..., 0, 2], at["a.1.3"])
    # but for an array of vectors, Stan names the coordinates in a different order
    assert np.allclose(values["b"][..., 1, 0], draws[..., 8])
    assert not np.allclose(values["a"][..., 0, 2], at["a.2.3"])
    assert np.allclose(values["s"], np.exp(at["s"]))
    assert np.allclose(values["two_s"], 2 * values["s"])
    assert np.allclose(values["p"].sum(axis=-1), 1)
    assert np.allclose(target.unconstrain(values), draws)


def test_one_point_is_shaped_as_one(densities):
    target = densities["mine"]
    x = np.linspace(-1, 1, target.dim)
    assert target.constrain(x)["a"].shape == (2, 3)
    assert np.allclose(target.unconstrain(target.constrain(x)), x)


def test_a_rejection_is_minus_infinity_and_its_neighbours_stay(densities):
    target = densities["mine"]
    x = np.zeros((3, target.dim))
    x[1, target.names.index("a.1.1")] = 51
    log_density, gradient = target.log_density_gradient(x)
    assert np.isneginf(log_density[1])
    assert not gradient[1].any()
    assert np.isfinite(log_density[[0, 2]]).all()
    assert gradient[0].any()
    x[1, target.names.index("a.1.1")] = 0
    x[1, target.names.index("s")] = -800  # a scale of 0 after rounding
    assert np.isneginf(target.log_density(x)[1])


def test_a_defect_is_an_error_with_stans_message(mine):
    target = StanDensity(mine, {**DATA, "which": 3})
    with pytest.raises(FitError, match=r"my model\.stan: .*index.*out of range"):
        target.log_density(np.zeros((1, target.dim)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "variable does not exist"),
        ({"N": 3}, "variable name=y"),
        ({**DATA, "y": [1.0]}, "mismatch in dimension"),
        ({**DATA, "N": -1}, "greater than or equal to 1"),
        ({**DATA, "y": [[1.0], [1.0, 2.0]]}, "y has rows of different lengths"),
        ({**DATA, "y": ["a", "b", "c"]}, "y has the type <U1"),
        ("no-such-file.json", "no such file"),
    ],
)
def test_wrong_data_are_named(mine, data, message):
    with pytest.raises(DataError, match=message) as caught:
        StanDensity(mine, data)
    assert "/tmp/pyflowers-" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "the data variable N is missing"),
        ({"N": 2}, "the data variable y is missing"),
        ({"N": 2, "y": [1.0, np.nan]}, "y contains a value that is not a finite number"),
        ({"N": 1, "y": [1.0, 2.0]}, "mismatch in dimension"),
    ],
)
def test_wrong_data_are_named_for_the_interpreter_too(tmp_path, data, message):
    program = tmp_path / "normal.stan"
    program.write_text(
        "data { int N; vector[N] y; } parameters { real m; } model { y ~ normal(m, 1); }"
    )
    with pytest.raises(DataError, match=rf"data of normal\.stan: .*{message}"):
        StanDensity(program, data, engine="interpreted")


def test_data_may_be_a_file(mine, densities, tmp_path):
    (tmp_path / "data.json").write_text(json.dumps(DATA))
    (tmp_path / "broken.json").write_text("{")
    target = StanDensity(mine, tmp_path / "data.json")
    x = np.zeros((1, target.dim))
    assert target.log_density(x) == densities["mine"].log_density(x)
    with pytest.raises(DataError, match=r"my model\.stan"):
        StanDensity(mine, tmp_path / "broken.json")


@pytest.mark.parametrize("shape", [(2,), (3, 5), (1, 2, 2)])
def test_points_of_another_shape_are_refused(densities, shape):
    with pytest.raises(ConfigError, match=r"x must be shaped \(chain, 2\)"):
        densities["iid_normal"].log_density_gradient(np.zeros(shape))


def test_parameters_outside_their_constraint_are_refused(densities):
    target = densities["mine"]
    values = target.constrain(np.zeros(target.dim))
    with pytest.raises(ConfigError, match="s"):
        target.unconstrain({**values, "s": -1.0})
    with pytest.raises(ConfigError, match="must include s"):
        target.unconstrain({name: values[name] for name in ("a", "b", "p")})
    with pytest.raises(ConfigError, match="a must be shaped"):
        target.unconstrain({**values, "a": np.zeros((3, 2))})


def test_arguments_are_left_as_they_are(densities):
    x = np.full((4, 2), 0.5)
    x.setflags(write=False)
    densities["iid_normal"].log_density_gradient(x)
    assert (x == 0.5).all()
    backwards = np.arange(8.0).reshape(2, 4).T
    straight = np.ascontiguousarray(backwards)
    target = densities["iid_normal"]
    assert np.array_equal(target.log_density(backwards), target.log_density(straight))


def test_no_chains_are_no_work(densities):
    log_density, gradient = densities["iid_normal"].log_density_gradient(np.empty((0, 2)))
    assert (log_density.shape, gradient.shape) == ((0,), (0, 2))


def test_the_library_is_built_once_in_a_place_of_its_own(densities, mine):
    first = compile_library(read_source(mine))
    made = first.stat().st_mtime_ns
    assert compile_library(read_source(mine)).stat().st_mtime_ns == made
    assert first != compile_library(find_program("iid_normal").source)
    assert [p.name for p in sorted(mine.parent.iterdir())] == ["my model.stan", "twice.stan"]


@pytest.mark.slow
def test_a_broken_library_is_built_again(tmp_path):
    (tmp_path / "normal.stan").write_text("parameters { real x; } model { x ~ normal(0, 2); }\n")
    library = compile_library(read_source(tmp_path / "normal.stan"))
    library.unlink()
    library.write_bytes(b"broken")
    target = StanDensity(tmp_path / "normal.stan")
    assert np.allclose(target.log_density_gradient(np.array([[4.0]]))[1], -1)
    (tmp_path / "normal.stan").write_text("parameters { real x; } model { x ~ normal(0, 1); }\n")
    assert np.allclose(
        StanDensity(tmp_path / "normal.stan").log_density_gradient(np.array([[4.0]]))[1], -4
    )


def test_a_program_that_does_not_compile_says_why(tmp_path):
    (tmp_path / "bad.stan").write_text("parameters { real x } model { }\n")
    with pytest.raises(CompileError, match=r"bad\.stan"):
        StanDensity(tmp_path / "bad.stan")
    with pytest.raises(ConfigError, match="no such Stan program"):
        StanDensity(tmp_path / "absent.stan")


def test_nothing_leaks(densities, mine):
    target = densities["mine"]
    x = np.zeros((200, target.dim))
    x[::2, target.names.index("a.1.1")] = 51  # rejections too

    def rounds(num):
        for _ in range(num):
            target.log_density_gradient(x)
            target.constrain(x[1::2])
        for _ in range(num):
            StanDensity(mine, DATA).log_density(x[1:2])
        gc.collect()

    rounds(30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rounds(150)
    # 30,000 gradients that kept their autodiff nodes would take more than 60 MB
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8_000


def test_hmc_takes_it_as_a_target(densities):
    target = densities["normal_mixture_density"]
    rng = np.random.default_rng(8)
    start = target.start(rng, 64)
    result, by_hand = (
        run(HMC(density, 0.5, 8, jitter=0.3), each, start, 600, num_warmup=50)
        for density, each in ((target, rng), (MIXTURE, np.random.default_rng(9)))
    )
    assert abs(result.draws.mean() - MIXTURE.mean[0]) < 0.5
    assert abs(result.draws.std() - by_hand.draws.std()) < 0.2


def test_starts_are_inside_the_support(densities):
    target = densities["mine"]
    start = target.start(np.random.default_rng(10), 50)
    assert np.isfinite(target.log_density(start)).all()
    assert np.abs(start).max() <= 2
