"""Curves in formulas: densities and predictions are those of their definitions."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from curves_by_hand import (
    Interpreted,
    assert_density,
    assert_engines_agree,
    flat,
    half_t,
    points_of,
    splines,
    table,
)
from scipy import optimize, stats

import pyflowers
from pyflowers import Program
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs.bases import smooth
from pyflowers.programs.declaration import Value

HOW = {"seed": 1, "engine": "stanli", "warmup": 400, "draws": 400}


def of_smooth(program, rows, its, numbers):
    curve = splines(program, "S_x", rows.x.to_numpy()) @ its["s_x"]
    prior = stats.norm.logpdf(its["s_x"], 0, its["sds_x"]).sum()
    return curve, prior + half_t(its["sds_x"], numbers["sds_x_scale"])


def of_levels(program, rows, its, numbers):
    curves = splines(program, "S_x_f", rows.x.to_numpy())
    by_level = np.split(its["s_x_f"], 3)
    place = rows.f.map({"a": 0, "b": 1, "c": 2}).to_numpy()
    curve = sum((place == j) * (curves @ own) for j, own in enumerate(by_level))
    prior = sum(
        stats.norm.logpdf(own, 0, sd).sum()
        for own, sd in zip(by_level, its["sds_x_f"], strict=True)
    )
    return curve, prior + half_t(its["sds_x_f"], numbers["sds_x_f_scale"])


def of_number(program, rows, its, numbers):
    curve = rows.z * (splines(program, "S_x_z", rows.x.to_numpy()) @ its["s_x_z"])
    prior = stats.norm.logpdf(its["s_x_z"], 0, its["sds_x_z"]).sum()
    return curve, prior + half_t(its["sds_x_z"], numbers["sds_x_z_scale"])


def of_period(program, rows, its, numbers):
    curve = splines(program, "S_month", rows.month.to_numpy(float)) @ its["s_month"]
    prior = stats.norm.logpdf(its["s_month"], 0, its["sds_month"]).sum()
    return curve, prior + half_t(its["sds_month"], numbers["sds_month_scale"])


def of_monotonic(program, rows, its, numbers):
    """Equation 2 of Bürkner and Charpentier (2020): b D times the first x of the shares."""
    up_to = 3 * its["mo_level"] * np.concatenate([[0], np.cumsum(its["share_level"])])
    curve = up_to[rows.level.map({1: 0, 2: 1, 4: 2, 7: 3}).to_numpy()]
    prior = stats.norm.logpdf(its["mo_level"], 0, numbers["mo_level_scale"])
    share = its["share_level"] / its["share_level"].sum()
    return curve, prior + stats.dirichlet.logpdf(share, numbers["share_level_alpha"])


def of_process(program, rows, its, numbers):
    """Equations 8 and 14 of Riutort-Mayol et al. (2023)."""
    low, high = table().x.min(), table().x.max()
    center, boundary = (low + high) / 2, 1.5 * (high - low) / 2
    j = np.arange(1, 26)
    root = j * np.pi / (2 * boundary)
    phi = np.sin(root * (rows.x.to_numpy()[:, None] - center + boundary)) / np.sqrt(boundary)
    length = its["lscale_x"]
    density = its["sdgp_x"] ** 2 * np.sqrt(2 * np.pi) * length
    density = density * np.exp(-(length**2) * root**2 / 2)
    prior = stats.norm.logpdf(its["z_gp_x"]).sum() + half_t(its["sdgp_x"], numbers["sdgp_x_scale"])
    shape, scale = numbers["lscale_x_scale"], np.exp(numbers["lscale_x_location"])
    prior += stats.lognorm.logpdf(length, shape, scale=scale)
    return phi @ (np.sqrt(density) * its["z_gp_x"]), prior


@dataclass(frozen=True)
class Case:
    """A formula, its columns of the population, and its curve with the log density of its priors.

    The columns are in the order of the program's coefficients.
    """

    formula: str
    columns: Callable
    curve: Callable
    family: str = "gaussian"


def none(rows):
    return np.empty((len(rows), 0))


def lines(rows):
    codes = np.stack([rows.f == level for level in "bc"])
    return np.stack([*codes, *(rows.x * (rows.f == level) for level in "abc")], axis=1)


CASES = {
    "s": Case("y ~ z + s(x, k=7)", lambda rows: rows[["z", "x"]], of_smooth),
    "s_count": Case("count ~ s(x, k=5)", lambda rows: rows[["x"]], of_smooth, "poisson"),
    "s_levels": Case("y ~ f + s(x, k=5, by=f)", lines, of_levels),
    "s_number": Case(
        "y ~ s(x, k=5, by=z)",
        lambda rows: np.stack([rows.z, rows.x * rows.z], axis=1),
        of_number,
    ),
    "s_period": Case('y ~ s(month, bs="cc", k=7, period=12)', none, of_period),
    "mo": Case("y ~ z + mo(level)", lambda rows: rows[["z"]], of_monotonic),
    "gp": Case("y ~ gp(x)", none, of_process),
    "gp_count": Case("count ~ z + gp(x)", lambda rows: rows[["z"]], of_process, "poisson"),
}


def by_hand(case, program, data, point):
    """Return the log joint density of a case by its definition."""
    rows, numbers = table(), data.values
    x = np.asarray(case.columns(rows), dtype=float)
    curve, total = case.curve(program, rows, point, numbers)
    eta = np.asarray(curve, dtype=float)
    if x.shape[1]:
        sampled = point.get("b_adjusted", point.get("b"))
        b = np.asarray(numbers["adjustment"]) @ sampled if "adjustment" in numbers else sampled
        total += stats.norm.logpdf(sampled, 0, numbers["b_scale"]).sum()
        eta = eta + (x - x.mean(axis=0)) @ b
    intercept = point.get("Intercept_at_means", point.get("Intercept"))
    location, scale = numbers["Intercept_location"], numbers["Intercept_scale"]
    total += stats.t.logpdf((intercept - location) / scale, 3)
    eta = eta + intercept
    if case.family == "poisson":
        return total + stats.poisson.logpmf(rows["count"], np.exp(eta)).sum()
    total += half_t(point["sigma"], numbers["sigma_scale"])
    return total + stats.norm.logpdf(rows.y, eta, point["sigma"]).sum()


def posed(case):
    """Return the program of a case and its data block."""
    program = Program.from_formula(case.formula, table(), family=case.family)
    data, _ = program.fill(program.read(table()), program.resolve_priors())
    return program, data


@pytest.mark.parametrize("name", CASES)
def test_the_density_is_that_of_the_definition(name):
    case = CASES[name]
    program, data = posed(case)
    points = points_of(program, data)
    assert_density(program, data, points, partial(by_hand, case, program, data))


def test_another_prior_would_be_seen():
    """The negative control."""
    case = CASES["s"]
    program, data = posed(case)
    points = points_of(program, data)
    ours, _ = Interpreted(program, data).evaluate(flat(points))
    data.values["sds_x_scale"] *= 2
    theirs = np.array([by_hand(case, program, data, point) for point in points])
    assert np.ptp(ours - theirs) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["s", "s_levels", "mo", "gp"])
def test_both_engines_have_one_density_and_gradient(name):
    """Without the Jacobian, as the engines differ in the transform of a simplex."""
    program, data = posed(CASES[name])
    assert_engines_agree(program, data, points_of(program, data))


@pytest.fixture(scope="module")
def fits():
    found = {}

    def fit(name):
        if name not in found:
            case = CASES[name]
            found[name] = pyflowers.fit(case.formula, table(), family=case.family, **HOW)
        return found[name]

    return fit


def new_rows():
    rows = table(seed=11).head(6).drop(columns=["y", "count"])
    rows["x"] = [0.5, 2.2, 4.0, 6.5, 8.9, 10.2]  # the first and the last beyond the knots
    rows["month"] = [0.5, 3, 6.25, 12, 13, 25]
    return rows


@pytest.mark.parametrize("name", CASES)
def test_predictions_of_new_rows_are_the_definition(name, fits):
    case, fit, rows = CASES[name], fits(name), new_rows()
    if "gp_x" in fit.draws:  # which is defined near the data only
        rows = rows.assign(x=np.clip(rows.x, 1, 10))
    found = pyflowers.predict(fit, rows, kind="linear").draws().values
    draws = {key: its[1] for key, its in fit.draws.items()}
    expected = []
    for i in (0, 17, 399):
        its = {key: each[i] for key, each in draws.items()}
        if "gp_x" in its:  # standardised coefficients are not kept
            length, omega = its["lscale_x"], np.asarray(fit.data.values["omega_x"])
            root = its["sdgp_x"] * np.sqrt(np.sqrt(2 * np.pi) * length)
            its["z_gp_x"] = its["gp_x"] / (root * np.exp(-0.25 * np.square(length * omega)))
        curve, _ = case.curve(fit.program, rows, its, fit.data.values)
        x = np.asarray(case.columns(rows), dtype=float)
        expected.append(its["Intercept"] + curve + (x @ its["b"] if x.shape[1] else 0))
    np.testing.assert_allclose(found[1][[0, 17, 399]], expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["s_levels", "mo", "gp", "s_period"])
def test_all_that_follows_a_fit(name, fits, tmp_path):
    fit = fits(name)
    assert pyflowers.check(fit) is not None
    assert np.isfinite(pyflowers.loo(fit).table()["elpd"]).all()
    assert len(pyflowers.effects(fit).table())
    sensitive = pyflowers.sensitivity(fit).table().index
    assert any(str(each).startswith(("sds_", "mo_", "sdgp_")) for each in sensitive)
    fit.save(tmp_path / "run")
    again = pyflowers.Fit.load(tmp_path / "run")
    rows = new_rows().iloc[1:4]
    one, other = (pyflowers.predict(each, rows).draws() for each in (again, fit))
    np.testing.assert_array_equal(one, other)


def test_effects_of_a_monotonic_term_are_its_steps(fits):
    fit = fits("mo")
    found = pyflowers.effects(fit, "level").draws()
    np.testing.assert_allclose(found, np.cumsum(fit.draws["step_level"], axis=-1), atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_prior_draws_are_those_of_the_program(name, tmp_path):
    """Scales have their distribution, and a program that was written has the same draws."""
    case = CASES[name]
    program, data = posed(case)
    first = pyflowers.prior(program, table(), draws=2000, seed=3)
    again = Program.open(program.write(tmp_path / "again.stan"))
    second = pyflowers.prior(again, table(), draws=2000, seed=3)
    for quantity, draws in first.draws.items():
        np.testing.assert_array_equal(draws, second.draws[quantity], quantity)
    for quantity, draws in first.draws.items():
        if quantity.startswith("sd"):
            scale = data.values[f"{quantity}_scale"]
            p = stats.kstest(np.ravel(draws) / scale, lambda v: 2 * stats.t.cdf(v, 3) - 1).pvalue
            assert p > 1e-4, quantity


def test_columns_with_names_that_clash(tmp_path):
    """A group may have the name of a variable of a curve, and a column that of a function."""
    frame = table().rename(columns={"g": "s_x", "z": "s"})
    program = Program.from_formula("y ~ log(x) + s + s(x, k=5) + (1 | s_x)", frame)
    assert {"s_x", "S_x_curve"} <= program.source.blocks.data.keys()
    frame = table().rename(columns={"x": "x 1", "f": "a f"})
    program = Program.from_formula("y ~ s(`x 1`, k=5, by=`a f`)", frame)
    assert "S_x_1_a_f" in program.source.blocks.data
    assert program.read(frame)["S_x_1_a_f"].shape == (60, 9)


def test_beyond_its_interval_a_process_is_refused(fits):
    rows = new_rows().head(1).assign(x=40.0)
    with pytest.raises(DataError, match=r"row 1: .*40 is outside the range .* fit with a larger c"):
        pyflowers.predict(fits("gp"), rows)


def test_a_level_that_is_not_in_the_fit_is_refused(fits):
    rows = new_rows().head(1).assign(level=3)
    with pytest.raises(DataError, match="level is 3, which is not one of its levels: 1, 2, 4"):
        pyflowers.predict(fits("mo"), rows)
    rows = new_rows().head(1).assign(f="d")
    with pytest.raises(DataError, match="f is 'd'"):
        pyflowers.predict(fits("s_levels"), rows)


def test_a_column_in_an_order_of_its_own():
    """An ordered Categorical keeps its order; a smooth of an expression is about its line."""
    frame = table()
    order = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
    frame["level"] = frame.level.map({1: "low", 2: "mid", 4: "high", 7: "high"}).astype(order)
    program = Program.from_formula("y ~ mo(level) + s(log(x), k=5)", frame)
    data = program.read(frame)
    assert program.declaration.coords["steps_level"] == ("low to mid", "mid to high")
    np.testing.assert_array_equal(data["passed_level"].sum(axis=1), frame.level.cat.codes)
    assert data.coords["X"] == ("log(x)",)


@pytest.mark.parametrize("name", ["s", "s_levels", "s_period", "mo", "gp", "of_sigma"])
def test_a_program_is_valid_and_as_stanc_formats_it(name, cmdstan, tmp_path):
    stanc, path = cmdstan.path / "bin" / "stanc", tmp_path / "program.stan"
    formula, family = OF_SIGMA, "gaussian"
    if name in CASES:
        formula, family = CASES[name].formula, CASES[name].family
    program = Program.from_formula(formula, table(), family=family)
    path.write_text(program.source.text, encoding="utf-8")
    checked = subprocess.run(
        [stanc, "--o", tmp_path / "x.hpp", path], capture_output=True, text=True
    )
    assert (checked.returncode, checked.stderr) == (0, "")
    how = {"capture_output": True, "text": True, "check": True}
    formatted = subprocess.run([stanc, "--auto-format", path], **how).stdout
    if name in CASES:  # otherwise stanc breaks the lines of long names differently
        assert formatted.rstrip("\n") == program.source.text.rstrip("\n")


OF_SIGMA = "y ~ z + s(x, k=5); sigma ~ s(x, k=5) + mo(level) + gp(z, k=8)"


def test_curves_of_another_parameter():
    """The density of sigma ~ s(x) + mo(level) + gp(z), whose variables end with the tag."""
    program = Program.from_formula(OF_SIGMA, table())
    data, _ = program.fill(program.read(table()), program.resolve_priors())
    points, rows, numbers = points_of(program, data), table(), data.values
    theirs = []
    for its in points:
        tagged = {name.replace("_sigma", ""): its[name] for name in its if name.endswith("_sigma")}
        curve, total = of_smooth(program, rows, its, numbers)
        eta = its["Intercept_at_means"] + curve
        x = rows[["z", "x"]].to_numpy()
        eta = eta + (x - x.mean(axis=0)) @ its["b"]
        own = {name.replace("_sigma", ""): its for name, its in numbers.items() if "_sigma" in name}
        one, prior = of_smooth(program, rows, tagged, own)
        two, more = of_monotonic(program, rows, tagged, own)
        in_z = {name.replace("_z", "_x"): its for name, its in own.items()}
        # The process is along z: the definition is along x, so z takes its place there.
        phi = np.asarray(numbers["Phi_z_sigma"])
        length = tagged["lscale_z"]
        omega = np.asarray(numbers["omega_z_sigma"])
        density = tagged["sdgp_z"] ** 2 * np.sqrt(2 * np.pi) * length
        density = density * np.exp(-(length**2) * omega**2 / 2)
        three = phi @ (np.sqrt(density) * tagged["z_gp_z"])
        last = stats.norm.logpdf(tagged["z_gp_z"]).sum()
        last += half_t(tagged["sdgp_z"], in_z["sdgp_x_scale"])
        scale = np.exp(in_z["lscale_x_location"])
        last += stats.lognorm.logpdf(length, in_z["lscale_x_scale"], scale=scale)
        at_means = its["Intercept_sigma_at_means"]
        sigma = at_means + (rows.x - rows.x.mean()) * its["b_sigma"] + one + two + three
        total += prior + more + last + stats.norm.logpdf(its["b"], 0, numbers["b_scale"]).sum()
        total += stats.norm.logpdf(its["b_sigma"], 0, numbers["b_sigma_scale"]).sum()
        for tag, value in (("", its["Intercept_at_means"]), ("_sigma", at_means)):
            location = numbers[f"Intercept{tag}_location"]
            total += stats.t.logpdf((value - location) / numbers[f"Intercept{tag}_scale"], 3)
        theirs.append(total + stats.norm.logpdf(rows.y, eta, np.exp(sigma)).sum())
    ours, _ = Interpreted(program, data).evaluate(flat(points))
    assert np.ptp(ours - np.array(theirs)) < 1e-9 * np.abs(ours).max()


MGCV = {
    3: (-0.9807, 9.9829),
    9: (-1.75048, 6.8402),
    15: (-24.378, 4.6225),
    21: (-119.966, 6.178),
    27: (-21.5259, 5.454),
    33: (36.6603, 6.3046),
    39: (3.72195, 6.2886),
    45: (-0.740045, 6.6152),
    51: (0.0298614, 6.4572),
}
"""The fitted curve and its standard error at some times: gam(accel ~ s(times, bs = "cr"))."""

MGCV_SIGMA = 22.49111

MCYCLE = Path(__file__).parent / "data" / "mcycle.csv"


@pytest.mark.quick
def test_the_curve_of_mcycle_is_that_of_mgcv():
    """With variances of restricted maximum likelihood, the two are one model: see mcycle.R."""
    frame = pd.read_csv(MCYCLE)
    state, y = {}, frame.accel.to_numpy()
    curves = smooth(frame.times, state=state)
    lines = np.stack([np.ones(len(y)), frame.times], axis=1)

    def solved(log_sds):
        sigma, sds = np.exp(log_sds)
        weight = np.linalg.inv(sigma**2 * np.eye(len(y)) + sds**2 * curves @ curves.T)
        left = lines.T @ weight @ lines
        b = np.linalg.solve(left, lines.T @ weight @ y)
        rest = y - lines @ b
        minus = np.linalg.slogdet(left)[1] - np.linalg.slogdet(weight)[1] + rest @ weight @ rest
        return minus, b, sds**2 * curves.T @ weight @ rest

    how = {"xatol": 1e-7, "fatol": 1e-9}
    best = optimize.minimize(
        lambda log_sds: solved(log_sds)[0], [3, 4], method="Nelder-Mead", options=how
    )
    assert np.exp(best.x[0]) == pytest.approx(MGCV_SIGMA, rel=1e-5)
    _, b, s = solved(best.x)
    at = np.array(sorted(MGCV))
    fitted, error = np.array([MGCV[each] for each in at]).T
    ours = b[0] + b[1] * at + smooth(at, state=state) @ s
    assert np.max(np.abs(ours - fitted) / error) < 1e-3


@pytest.mark.slow
def test_the_posterior_of_mcycle_is_near_that_of_mgcv():
    """The mean over the posterior of sds, with its prior, differs from the curve at its mode."""
    fit = pyflowers.fit("accel ~ s(times)", MCYCLE, seed=1, engine="stanli", draws=4000)
    assert fit.verdict.passed
    at = pd.DataFrame({"times": sorted(MGCV)})
    fitted, error = np.array([MGCV[each] for each in at.times]).T
    draws = pyflowers.predict(fit, at, kind="linear").draws().values
    ours, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
    assert np.max(np.abs(ours - fitted) / sd) < 0.25
    np.testing.assert_allclose(sd, error, rtol=0.1)


@pytest.mark.parametrize(
    ("formula", "frame", "is_centered"),
    [
        ("accel ~ s(times)", pd.read_csv(MCYCLE), True),
        ("y ~ s(z)", table(), False),
        ("y ~ s(z) + (x | g)", table(), False),
        ("count ~ s(z)", table(), False),
    ],
)
def test_a_smooth_is_centered_if_the_data_determine_it(formula, frame, is_centered):
    family = "poisson" if "count" in formula else "gaussian"
    program = Program.from_formula(formula, frame, family=family)
    (switch,) = (name for name in program.declaration.data if name.startswith("centered_s_"))
    assert program.declaration.data[switch] == Value(value=int(is_centered))
    asked = {switch.removeprefix("centered_"): not is_centered}
    other = Program.from_formula(formula, frame, family=family, centered=asked)
    assert other.declaration.data[switch] == Value(value=int(not is_centered))


def test_both_parametrisations_of_a_smooth_have_one_density():
    """But for the Jacobian, which is that of the units."""
    for formula in ("y ~ s(x, k=5)", "y ~ f + s(x, k=5, by=f)"):
        densities = []
        for centered in (True, False):
            program = Program.from_formula(formula, table(), centered=centered)
            data, _ = program.fill(program.read(table()), program.resolve_priors())
            points = flat(points_of(program, data))
            densities.append(Interpreted(program, data).evaluate(points)[0])
        np.testing.assert_allclose(densities[0], densities[1], rtol=1e-10)


def test_the_line_of_a_smooth_stands_once():
    """The line is a term of the population, which may be written again."""
    one, other = (Program.from_formula(f"y ~ {its}", table()) for its in ("s(x)", "x + s(x)"))
    assert one.declaration.data["X"] == other.declaration.data["X"]
    assert one.read(table()).coords["X"] == ("x",)


SDS = {
    "one": ("y ~ s(x, k=5)", {"sds_x": "exponential(2)"}),
    "class": (
        "y ~ s(x, k=5) + s(z, k=5)",
        {"sds": "gamma(2, 3)", "sds_z": "normal(0, 1) T[0.1, ]"},
    ),
    "levels": ("y ~ f + s(x, k=5, by=f)", {"sds_x_f[b]": "exponential(2)"}),
    "all_levels": ("y ~ f + s(x, k=5, by=f)", {"sds": "lognormal(0, 0.5)"}),
    "sigma": ("y ~ x; sigma ~ s(z, k=5)", {"sds_sigma": "exponential(3)"}),
}
"""Formulas with priors that the user gives to the sds of smooths."""

DENSITIES = {
    "one": {"sds_x": [stats.expon(scale=1 / 2)]},
    "class": {
        "sds_x": [stats.gamma(2, scale=1 / 3)],
        "sds_z": [stats.truncnorm(0.1, np.inf)],
    },
    "levels": {"sds_x_f": [None, stats.expon(scale=1 / 2), None]},
    "all_levels": {"sds_x_f": [stats.lognorm(0.5)] * 3},
    "sigma": {"sds_z_sigma": [stats.expon(scale=1 / 3)]},
}


@pytest.mark.parametrize("name", SDS)
def test_the_sds_of_smooths_have_given_priors(name, tmp_path):
    formula, given = SDS[name]
    program, usual = (Program.from_formula(formula, table(), priors=its) for its in (given, None))
    both = [each.fill(each.read(table()), each.resolve_priors())[0] for each in (program, usual)]
    points = points_of(program, both[0])
    for point in points:
        for sds in DENSITIES[name]:
            point[sds] = point[sds] + 0.1
    ours, default = (
        Interpreted(each, data).evaluate(flat(points))[0]
        for each, data in zip((program, usual), both, strict=True)
    )
    expected = np.zeros(len(points))
    for i, point in enumerate(points):
        for sds, own in DENSITIES[name].items():
            scale = both[1].values[f"{sds}_scale"]
            for value, density in zip(np.ravel(point[sds]), own, strict=True):
                if density is not None:
                    expected[i] += density.logpdf(value) - half_t(value, scale)
    assert np.ptp(ours - default - expected) < 1e-9 * np.abs(ours).max()
    assert np.ptp(expected) > 0.1
    again = Program.open(program.write(tmp_path / "again.stan"))
    first, second = (
        pyflowers.prior(each, table(), draws=2000, seed=3).draws for each in (program, again)
    )
    for sds, own in DENSITIES[name].items():
        np.testing.assert_array_equal(first[sds], second[sds])
        draws = first[sds].reshape(2000, -1).T
        for column, density in zip(draws, own, strict=True):
            if density is not None:
                assert stats.kstest(column, density.cdf).pvalue > 1e-4


def test_a_bad_prior_of_an_sd_of_a_smooth_is_one_sentence():
    for given, message in (
        ({"sds_x": "constant(1)"}, "sds_x cannot be fixed; give it a density"),
        ({"sds_w": "exponential(1)"}, "the formula has no sds_w; did you mean sds_x?"),
        ({"sds_x": "normal(0, 1) T[, 0]"}, "sds_x must be above 0, where this density is 0"),
    ):
        with pytest.raises(ConfigError) as caught:
            Program.from_formula("y ~ s(x, k=5)", table(), priors=given)
        assert message in str(caught.value)
