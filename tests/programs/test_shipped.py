"""Shipped programs: priors, checks, likelihoods and moments; and adding a program."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pyflowers.errors import ConfigError, DataError
from pyflowers.programs import COMPARED, LECTURE, Capability, find_program, shipped_names

pytestmark = pytest.mark.usefixtures("in_a_shell")

ROOT = Path(__file__).resolve().parents[2]
EVERY = shipped_names()


def table(rows):
    """Return rows of plants as a tidy frame, with labels from 0."""
    cells = [(p, t, y) for p, row in enumerate(rows) for t, y in enumerate(row)]
    return pd.DataFrame(cells, columns=["plant", "month", "flowers"])


def filled(name, rows, priors=None):
    """Return the whole data block of a shipped program, and the notes on it."""
    program = find_program(name)
    return program.fill(program.read(table(rows)), program.resolve_priors(priors))


def missing(name, rows, priors=None):
    """Return the record of each quantity whose moments are missing."""
    data, _ = filled(name, rows, priors)
    return {m.parameter: m for m in find_program(name).missing_moments(data)}


def test_what_ships():
    both = ("iid_normal", "semiconjugate_normal"), ("multilevel_normal", "multilevel_poisson")
    assert sorted((*both[0], *both[1])) == list(EVERY)
    assert {*LECTURE, COMPARED} <= set(EVERY)
    everywhere = {Capability.LOG_LIK, Capability.Y_REP, Capability.OBSERVED, Capability.EXACT}
    for name in EVERY:
        program = find_program(name)
        assert program.reference == name
        assert program.read().num_obs == 12
        assert program.title != f"The program {name}.stan"
        declared = program.declaration
        assert all(about.description for about in declared.parameters.values())
        assert all(prior.description for prior in declared.priors.values())
        assert everywhere <= program.capabilities
        assert program.can(Capability.VB) == (name != "multilevel_poisson")
        assert program.can(Capability.GROUP_MEAN) == (name in both[1])


PROPER = {"sigma2_plant_nu": 1.0, "sigma2_plant_scale": 2.0}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1, 2, 3], [1, 2]], r"Beet '1' has 2 of the 3 observations .*--prior sigma2_plant_nu=1 "),
        ([[1, 2, 3], [0, 0, 0]], "all observations of Beet '1' are 0"),
    ],
)
def test_a_plant_is_refused_in_the_users_words_unless_the_prior_is_proper(rows, message):
    program = find_program("multilevel_normal")
    frame = table(rows).rename(columns={"plant": "Beet"})
    data = program.read(frame, columns={"group": "Beet"})
    with pytest.raises(DataError, match=message):
        program.fill(data, program.resolve_priors())
    assert program.fill(data, program.resolve_priors(PROPER))[1] == []


def test_a_single_plant_is_noted_in_multilevel_programs_only():
    assert "single plant" in filled("multilevel_poisson", [[1, 2, 4]])[1][0]
    assert filled("iid_normal", [[1, 2, 4]])[1] == []


def test_counts_that_are_all_zero_leave_mu_to_its_prior():
    (note,) = filled("multilevel_poisson", [[0, 0], [0]], {"mu_sd": 3.0})[1]
    assert "all flowers are 0" in note
    assert "its prior, N(0, 3²)" in note
    assert "--prior mu_mean=… and --prior mu_sd=…" in note
    assert filled("multilevel_poisson", [[0, 0], [0, 1]])[1] == []


@pytest.mark.parametrize(
    ("priors", "message"),
    [
        ({"sigma2_plant_nu": 1.0}, "needs both above 0"),
        ({"sigma2_plant_scale": 1.0}, "needs both above 0"),
        ({"sigma2_plant_nu": -3.0}, "at least -2, got -3"),
    ],
)
def test_half_of_a_prior_is_refused(priors, message):
    with pytest.raises(ConfigError, match=message):
        find_program("multilevel_normal").resolve_priors(priors)


def test_the_defaults_are_the_lectures():
    for name in LECTURE:
        priors = find_program(name).resolve_priors()
        assert (priors["mu_mean"], priors["mu_sd"]) == (0, 100)
        assert (priors["sigma2_nu"], priors["sigma2_scale"]) == (1, 2)


def test_the_parametrisation_is_chosen_by_the_data_unless_it_is_given():
    apart, alike = [[100, 101, 99, 100], [1, 2, 0, 1]] * 3, [[4, 9, 1, 6], [5, 8, 2, 5]] * 3
    for name in ("multilevel_normal", "multilevel_poisson"):
        assert filled(name, apart)[0]["centered"] == 1
        assert filled(name, alike)[0]["centered"] == 0
        program = find_program(name)
        data = program.read(table(alike))
        assert program.fill(data, program.resolve_priors(), centered=True)[0]["centered"] == 1


# --- Moments --------------------------------------------------------------------------------------

SHAPES = [
    [[1, 2, 4]],
    [[1, 2, 4, 4]],
    [[1, 2, 4], [3, 5, 9]],
    [[1, 2, 4, 4, 5], [3, 5, 9, 9, 9, 10], [0, 1, 0, 0, 2, 1, 3]],
    [[int(y) for y in row] for row in ("1244534", "0000010", "2103021", "4545453")],
]


# The quadrature may not converge for the quantiles of a plant, but whether moments exist does not
# depend on it.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pyflowers.exact.NotRefinedWarning")
@pytest.mark.parametrize("name", LECTURE)
@pytest.mark.parametrize("rows", SHAPES, ids=len)
def test_missing_moments_are_those_of_the_exact_posterior(name, rows):
    """The summary and the quadrature agree on the existence of every mean and variance."""
    program = find_program(name)
    data, _ = filled(name, rows)
    exact = set(program.python.closed_form.exact(data).missing_moments)
    output = {
        (found.parameter, moment)
        for found in program.missing_moments(data)
        for moment in (("mean", "sd") if found.lacks_mean else ("sd",))
    }
    assert output == exact


def test_plants_without_flowers_do_not_bound_sigma2():
    four = [[4, 5], [1, 2], [8, 3], [2, 2]]
    assert missing("multilevel_poisson", four) == {}
    infinite = missing("multilevel_poisson", [*four[:3], [0, 0]])["sigma2"]
    assert (infinite.lacks_mean, "variance is infinite" in infinite.reason) == (False, True)
    few = missing("multilevel_poisson", [four[0], [0, 0], [0, 0]])["sigma2"]
    assert (few.lacks_mean, "mean does not exist" in few.reason) == (True, True)


@pytest.mark.parametrize(
    ("num_months", "lacks_mean"), [(3, True), (4, True), (5, False), (6, False), (7, None)]
)
def test_sigma2_plant_says_which_moments_it_lacks(num_months, lacks_mean):
    rows = [list(range(p, p + num_months)) for p in range(12)]
    found = missing("multilevel_normal", rows).get("sigma2_plant")
    assert (found.lacks_mean if found else None) == lacks_mean
    assert found is None or found.elements.all()


def test_only_the_plants_that_lack_a_moment_are_said_to():
    """A plant of four months lacks mean and sd, one of five only the sd; the others keep both."""
    rows = [[1, 2, 4, 3, 6, 2, 5, 1]] * 5
    rows[2] = [1, 5, 3, 4]
    rows[4] = [1, 5, 3, 4, 9]
    data, _ = filled("multilevel_normal", rows)
    found = [
        (m.lacks_mean, m.elements.tolist())
        for m in find_program("multilevel_normal").missing_moments(data)
        if m.parameter == "sigma2_plant"
    ]
    assert found == [
        (True, [False, False, True, False, False]),
        (False, [False, False, False, False, True]),
    ]


# --- Likelihoods and predictions ------------------------------------------------------------------


def draws_for(num_plants, rng):
    shape = (2, 5)
    draws = {"mu": rng.normal(size=shape), "sigma2": rng.gamma(2, size=shape)}
    draws["theta"] = draws["mu"]
    draws["mu_plant"] = rng.gamma(3, size=(*shape, num_plants))
    draws["sigma2_plant"] = rng.gamma(3, size=(*shape, num_plants))
    return draws


@pytest.mark.parametrize("name", EVERY)
def test_log_likelihood_is_that_of_scipy(name):
    data, _ = filled(
        name, [[4, 5], [0, 2, 5], [8]], PROPER if name == "multilevel_normal" else None
    )
    draws = draws_for(3, np.random.default_rng(1))
    got = find_program(name).log_lik(draws, data)
    plant = [0, 0, 1, 1, 1, 2]
    mean, var = draws["mu_plant"][..., plant], draws["sigma2_plant"][..., plant]
    sd = np.sqrt(draws["sigma2"])[..., None]
    want = {
        "iid_normal": lambda: stats.norm.logpdf(data.y, draws["mu"][..., None], sd),
        "semiconjugate_normal": lambda: stats.norm.logpdf(data.y, draws["theta"][..., None], sd),
        "multilevel_normal": lambda: stats.norm.logpdf(data.y, mean, np.sqrt(var)),
        "multilevel_poisson": lambda: stats.poisson.logpmf(data.y, mean),
    }[name]()
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_a_rate_that_underflows_has_a_likelihood():
    data, _ = filled("multilevel_poisson", [[0], [0, 2], [0]])
    rate = np.array([0.0, 0.0, 5e-324])
    got = find_program("multilevel_poisson").log_lik({"mu_plant": rate[None, None]}, data)
    np.testing.assert_array_equal(got[0, 0], [0, 0, -np.inf, -5e-324])


@pytest.mark.parametrize("name", EVERY)
def test_predictions_have_the_programs_mean_and_variance(name):
    """Replicates of one draw have its mean and variance, within 5 standard errors."""
    data, _ = filled(name, [[4, 5], [0, 2, 5]], PROPER if name == "multilevel_normal" else None)
    rng = np.random.default_rng(2)
    one = {k: v[:1, :1] for k, v in draws_for(2, rng).items()}
    many = {k: np.repeat(v, 20_000, axis=1) for k, v in one.items()}
    y_rep = find_program(name).y_rep(many, data, rng)[0]
    assert y_rep.shape == (20_000, 5)
    plant = [0, 0, 1, 1, 1]
    of_plant = name.startswith("multilevel")
    mean = one["mu_plant"][0, 0, plant] if of_plant else one["mu"].ravel()
    var = {
        "multilevel_normal": one["sigma2_plant"][0, 0, plant],
        "multilevel_poisson": mean,
    }.get(name, one["sigma2"].ravel())
    assert np.all(np.abs(y_rep.mean(0) - mean) < 5 * np.sqrt(var / 20_000))
    kurtosis_bound = np.sqrt((3 + 1 / var.min()) / 20_000)
    assert np.all(np.abs(y_rep.var(0) / var - 1) < 5 * kurtosis_bound)


# --- Adding a program -----------------------------------------------------------------------------

NEW_STAN = """
data { int<lower=0> N; array[N] int<lower=0> y; real<lower=0> rate_scale; }
parameters { real<lower=0> rate; }
model { rate ~ exponential(1 / rate_scale); y ~ poisson(rate); }
"""
NEW_TOML = """
title = "One Poisson rate for all"
equation = "y ~ Poisson(rate)"
example = "flowers.csv"
table = { group = "plant", time = "month" }
data = { y = { column = "flowers" } }
priors = { rate_scale = 10.0 }
prediction = { family = "poisson", linear_predictor = "log(rate)" }
"""
NEW_PYTHON = """
from pyflowers.programs import Capabilities

CAPABILITIES = Capabilities(check=lambda data: [f"{data.num_obs} counts"])
"""


@pytest.mark.slow
def test_three_files_make_a_shipped_program(cmdstan, tmp_path):
    """The copy of the package has a new ``.stan``, ``.toml`` and module, and no other change."""
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in ("pyflowers", "stan", "data"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    (tmp_path / "stan" / "iid_poisson.stan").write_text(NEW_STAN)
    (tmp_path / "stan" / "iid_poisson.toml").write_text(NEW_TOML)
    shipped = tmp_path / "pyflowers" / "lectures" / "shipped"
    (shipped / "iid_poisson.py").write_text(NEW_PYTHON)

    # The rest of the path may hold a sitecustomize.py that lets processes see each other's locks.
    path = os.pathsep.join([str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])

    def run(*words):
        done = subprocess.run(
            [sys.executable, *map(str, words)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    listed = run("-m", "pyflowers", "models")
    for name in (*EVERY, "iid_poisson"):
        assert name in listed
    assert "y ~ Poisson(rate)" in listed
    words = ("--seed", 1, "--cmdstan", "embedded", "--out", "run", "--prior", "rate_scale=5")
    printed = run("-m", "pyflowers", "fit", "iid_poisson", *words)
    assert "verdict: the sampling converged" in printed
    code = (
        "import pyflowers; fit = pyflowers.Fit.load('run'); print(pyflowers.__file__); "
        "print(fit.log_likelihood().shape, fit.record.priors, sorted(fit.groups()))"
    )
    where, output = run("-c", code).splitlines()
    assert Path(where).is_relative_to(tmp_path)
    assert output.startswith("(4, 1000, 12) {'rate_scale': 5.0} ['constant_data', 'log_likelihood'")


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("multilevel_poisson", [[1, 2, -2]], "row 3: flowers is -2, but counts cannot be negative"),
        ("multilevel_poisson", [[1, 2.5, 2]], "row 2: flowers is 2.5, but counts are whole"),
        ("multilevel_poisson", [[2**31, 1]], "row 1: flowers is 2147483648, but Stan's int"),
    ],
)
def test_data_that_a_program_cannot_use_are_refused(name, rows, message):
    with pytest.raises(DataError) as caught:
        filled(name, rows)
    assert message in str(caught.value)


def test_the_largest_count_and_real_values_are_allowed():
    assert filled("multilevel_poisson", [[2**31 - 1], [0]])[1] == []
    assert filled("iid_normal", [[-1.5, 2e9]])[1] == []


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # from NumPy, about means of no values
@pytest.mark.parametrize(
    "block",
    [
        {"N": 0, "P": 1, "y": [], "plant": []},
        *({"N": 4, "P": 2, "y": [1, bad, 2, 3], "plant": [1, 2, 2, 2]} for bad in (np.nan, np.inf)),
    ],
)
def test_a_block_without_numbers_is_refused_in_a_sentence(block):
    program = find_program("multilevel_normal")
    with pytest.raises(DataError, match="of the 3 observations that the flat prior"):
        program.fill(program.read(block), program.resolve_priors(None))
