"""NUTS agrees with quadrature, and the programs agree with the lecture's."""

import json
import subprocess

import numpy as np
import pandas as pd
import pytest
import quadrature
from numpy.testing import assert_allclose

import pyflowers
from pyflowers.convergence import mcse_quantile
from pyflowers.fits.posterior import element_names, stacked
from pyflowers.programs import LECTURE, find_program

THREE_PLANTS = [[4, 5, 6, 4], [0, 2, 5, 3], [8, 6, 10, 8]]
UNBALANCED = [[4, 5, 6], [0, 2, 5, 3, 1, 4], [8, 6, 10, 8, 9], [3, 3, 7, 2]]
PROBABILITIES = [0.05, 0.5, 0.95]


def table(plants):
    cells = [(p + 1, t, y) for p, row in enumerate(plants) for t, y in enumerate(row)]
    frame = pd.DataFrame(cells, columns=["plant", "month", "flowers"])
    return frame.sample(frac=1, random_state=1)[frame.columns]


def worst_deviation(fit, exact):
    """Return the largest deviation of a quantile, in its Monte Carlo standard errors."""
    names, draws = element_names(fit.posterior), stacked(fit.posterior)
    known = [names.index(name) for name in exact]
    worst = 0.0
    for i, prob in enumerate(PROBABILITIES):
        found = np.quantile(draws[..., known], prob, axis=(0, 1))
        apart = np.abs(found - [values[i] for values in exact.values()])
        worst = max(worst, float((apart / mcse_quantile(draws[..., known], prob)).max()))
    return worst


@pytest.fixture(scope="module")
def long_fits(executables):
    """4 × 10,000 draws of each model on each data set."""
    return {
        (name, label): pyflowers.fit(
            name, table(plants), seed=20, draws=10_000, adapt_delta=0.95, cmdstan="embedded"
        )
        for name in LECTURE
        for label, plants in (("lecture", THREE_PLANTS), ("unbalanced", UNBALANCED))
    }


def exact_quantiles(name, label):
    plants = [np.array(y) for y in {"lecture": THREE_PLANTS, "unbalanced": UNBALANCED}[label]]
    return getattr(quadrature, name)(plants, PROBABILITIES)


@pytest.mark.slow
@pytest.mark.parametrize("label", ["lecture", "unbalanced"])
@pytest.mark.parametrize("name", LECTURE)
def test_quantiles_agree_with_quadrature(long_fits, name, label):
    fit = long_fits[name, label]
    assert fit.diagnostics.passed, str(fit.diagnostics)
    exact = exact_quantiles(name, label)
    num_plants = {"lecture": 3, "unbalanced": 4}[label]
    assert len(exact) == 2 + (name != "iid_normal") * num_plants
    assert worst_deviation(fit, exact) < 4


def test_the_check_above_can_fail(long_fits):
    """Negative control: a posterior for a prior scale of 2.2 instead of 2 is rejected."""
    wrong = pyflowers.fit(
        "multilevel_poisson",
        table(THREE_PLANTS),
        priors={"sigma2_scale": 2.2},
        seed=20,
        draws=10_000,
        cmdstan="embedded",
    )
    assert worst_deviation(wrong, exact_quantiles("multilevel_poisson", "lecture")) > 4


def log_prob(executable, data, points, folder):
    """Return log density and gradient at unconstrained points, through CmdStan's log_prob.

    Each run evaluates one point, because CmdStan 2.35.0, and so our driver, mixes up several points
    of one params_r.
    """
    (folder / "data.json").write_text(json.dumps(data))
    rows = []
    for point in points:
        (folder / "point.json").write_text(json.dumps({"params_r": point.tolist()}))
        subprocess.run(
            [
                *(executable.path, "log_prob", "unconstrained_params=point.json", "jacobian=1"),
                *("data", "file=data.json", "output", "file=lp.csv", "sig_figs=18"),
            ],
            cwd=folder,
            check=True,
            capture_output=True,
        )
        rows.append(np.loadtxt(folder / "lp.csv", delimiter=",", comments=["#", "lp__"]))
    values = np.array(rows)
    return values[:, 0], values[:, 1:]


def block(name, frame, centered):
    """Return the data block of a shipped program as plain values, and its data."""
    program = find_program(name)
    whole, _ = program.fill(program.read(frame), program.resolve_priors(), centered=centered)
    values = {k: np.asarray(v).tolist() for k, v in program.stan_values(whole).items()}
    return values, whole


@pytest.mark.parametrize("name", LECTURE)
def test_the_programs_are_the_lectures_up_to_one_constant(executables, tmp_path, name):
    by_path = {(p.parent.name, p.stem): e for p, e in executables.items()}
    literal = {"N": 12, "P": 3, "y": np.concatenate(THREE_PLANTS).tolist()}
    dim = {"iid_normal": 2, "multilevel_normal": 8, "multilevel_poisson": 5}[name]
    points = np.random.default_rng(3).uniform(-2, 2, (100, dim))
    want, want_grad = log_prob(by_path["lecture", name], literal, points, tmp_path)
    computed, data = block(name, table(THREE_PLANTS), None if name == "iid_normal" else True)
    # table() shuffles the rows, so labels appear in a different order, and the points are reordered
    # accordingly.
    order = np.argsort([int(label) for label in data.by_group.names])
    shuffled = points.copy()
    for start in {"iid_normal": [], "multilevel_normal": [2, 5], "multilevel_poisson": [2]}[name]:
        shuffled[:, start + order] = points[:, start : start + 3]
    got, got_grad = log_prob(executables[find_program(name).path], computed, shuffled, tmp_path)
    for start in {"iid_normal": [], "multilevel_normal": [2, 5], "multilevel_poisson": [2]}[name]:
        got_grad[:, start : start + 3] = got_grad[:, start + order]
    assert_allclose(got - got[0], want - want[0], rtol=1e-9, atol=1e-9 * np.abs(want).max())
    assert_allclose(got_grad, want_grad, rtol=1e-9, atol=1e-9 * np.abs(want_grad).max())


@pytest.mark.parametrize("name", ["multilevel_normal", "multilevel_poisson"])
def test_both_parametrisations_are_one_density(executables, tmp_path, name):
    """p(z) = p(x) sigma^P, where x = mu + sigma z are the means of the plants."""
    executable = executables[find_program(name).path]
    dim = {"multilevel_normal": 8, "multilevel_poisson": 5}[name]
    z = np.random.default_rng(4).uniform(-1.5, 1.5, (100, dim))
    x = z.copy()
    x[:, 2:5] = z[:, :1] + z[:, 2:5] * np.exp(z[:, 1:2] / 2)
    centered, free = (block(name, table(THREE_PLANTS), how)[0] for how in (True, False))
    got, _ = log_prob(executable, free, z, tmp_path)
    want, _ = log_prob(executable, centered, x, tmp_path)
    assert_allclose(got, want + 3 * z[:, 1] / 2, rtol=1e-9)


@pytest.mark.slow
def test_a_plants_total_may_exceed_the_largest_integer(executables):
    """The rate of a plant with counts near 2³¹ is their mean, up to Monte Carlo error."""
    count = 2**31 - 5
    data = table([[count, count, count, count], [10, 11, 9, 12]])
    fit = pyflowers.fit("multilevel_poisson", data, seed=5, cmdstan="embedded")
    plant = fit.data.by_group.names.index("1")
    rate = fit.draws["mu_plant"][..., plant]
    assert abs(float(rate.mean()) - count) < 5 * np.sqrt(count / 4) / 20


def test_the_fourth_program_is_the_first_in_other_symbols(executables):
    """``semiconjugate_normal`` and ``iid_normal`` have the same posterior and draws."""
    priors = {"mu0": 1.0, "tau0": 5.0, "nu0": 3.0, "sigma0": 1.5}
    names = {"mu0": "mu_mean", "tau0": "mu_sd", "nu0": "sigma2_nu", "sigma0": "sigma2_scale"}
    how = {"seed": 7, "draws": 200, "cmdstan": "embedded"}
    one = pyflowers.fit("semiconjugate_normal", priors=priors, **how)
    other = pyflowers.fit(
        "iid_normal", priors={names[name]: value for name, value in priors.items()}, **how
    )
    assert_allclose(one.draws["theta"], other.draws["mu"], rtol=1e-12)
    assert_allclose(one.draws["sigma2"], other.draws["sigma2"], rtol=1e-12)
