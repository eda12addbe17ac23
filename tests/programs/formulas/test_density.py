"""Written programs have the log density of brms in both engines, and NumPy's log likelihood."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import stanli
from formula_cases import CASES, table
from scipy import stats
from stanio import dump_stan_json

import pyflowers
from pyflowers.engines import SamplerOptions
from pyflowers.engines.bridge import Bridge, compiled
from pyflowers.engines.stanli.density import Interpreted
from pyflowers.errors import ConfigError
from pyflowers.programs import Capabilities, Program

BRMS = json.loads((Path(__file__).parent / "brms.json").read_text(encoding="utf-8"))
REFERENCE = {case["name"]: case for case in BRMS["cases"]}
FACTOR = {"factornum2": "num2", "factornum3": "num3"}
COMPILED = ("nested", "cumulative")
"""The cases that are compiled in the slow tests; the others take up to four minutes each."""


def written(case, default_priors=None, **centered):
    """Return a case's program and its data block, with the case's hyperparameters."""
    groups = [group.replace("_", ":") for group in REFERENCE[case.name]["groups"]]
    parametrisations = {group: bool(centered.get(group, False)) for group in groups}
    program = Program.from_formula(
        case.formula,
        table(),
        family=case.family,
        centered=parametrisations,
        default_priors=default_priors,
    )
    read = program.read(table())
    labels = read.coords.get("X", ())
    theirs = [name for name in case.hyperparameters if name.startswith("b_scale[")]
    assert len(labels) == len(theirs) == len(REFERENCE[case.name]["b_labels"])
    named = dict(zip(theirs, (f"b_scale[{label}]" for label in labels), strict=True))
    priors = {named.get(name, name): value for name, value in case.hyperparameters.items()}
    if default_priors:
        priors = {name: its for name, its in priors.items() if name not in named.values()}
    whole, _ = program.fill(read, program.resolve_priors(priors))
    return program, whole


def values_of(program, data, case, point):
    """Return the parameters' values in Stan's order."""
    found = []
    for name in program.source.blocks.parameters:
        kind, _, group = name.partition("_")
        given = point.get(name, point.get(f"{name}_at_means"))
        if name == "Intercept":
            given = point["Intercept_at_means"]
        if kind in ("r", "z"):
            about = REFERENCE[case.name]["groups"][group]
            labels = data.labels[group.replace("_", ":")].names
            order = [about["labels"].index(label.replace(":", "_")) for label in labels]
            given = np.array(point[f"z_{group}"])[:, order]
            if kind == "r":
                given = point[f"sd_{group}"][0] * given[0]
        assert given is not None, name
        found.append(np.ravel(np.asarray(given, dtype=float), order="F"))
    return np.concatenate(found)


def interpreted(program, data):
    """Return the interpreter's density, in this process."""
    mir = stanli.stan_to_mir(program.source.text)
    model = stanli.bridgestan_model(mir=mir, data=in_json(program, data), seed=1)
    return Bridge(model.lib_path, model.model, model, forgiving=True)


def in_json(program, data):
    return dump_stan_json(program.stan_values(data))


def log_jacobian(program, point):
    """Return the log Jacobian of Stan's transforms at a point.

    See "Constraint Transforms" in the Reference Manual 2.35. The transform of effects with a
    multiplier makes them standard normal, as in brms.
    """
    total = 0.0
    for name in program.source.blocks.parameters:
        value = np.asarray(point.get(name, 0.0))
        if name.startswith("sd_") or name in ("sigma", "shape", "phi"):
            total += np.log(value).sum()
        elif name == "nu":
            total += np.log(value - 1)
        elif name == "zi":
            total += np.log(value * (1 - value))
        elif name.startswith("threshold"):
            total += np.log(np.diff(point["threshold_at_means"])).sum()
        elif name.startswith("L_"):
            for i, j in zip(*np.tril_indices(len(value), -1), strict=True):
                left = 1 - np.sum(value[i, :j] ** 2)
                total += np.log(1 - value[i, j] ** 2 / left) + 0.5 * np.log(left)
    return total


def differences(case, reference, default_priors=None):
    """Return our log densities minus those of brms, one per point, and our log densities."""
    program, data = written(case, default_priors)
    density, points = interpreted(program, data), reference["points"]
    values = np.array([values_of(program, data, case, point) for point in points])
    found, _ = density.evaluate(density.unconstrain(values), False)
    ours = found - [log_jacobian(program, point) for point in points]
    return ours - [point["log_density"] for point in points], ours


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_log_density_is_that_of_brms(case):
    """The densities differ by a constant, because brms keeps the constants of all its densities."""
    difference, ours = differences(case, REFERENCE[case.name])
    assert np.ptp(difference) < 1e-9 * np.abs(ours).max()
    assert np.ptp(ours) > 1  # otherwise the test is empty


def changed_priors(case, point):
    """Return the log density of brms' default priors at a point, less that of the case's priors.

    The case's program in brms has normal priors on coefficients and inverse gamma priors on shapes.
    """
    given, total = case.hyperparameters, 0.0
    scales = [value for name, value in given.items() if name.startswith("b_scale[")]
    if scales:
        total -= stats.norm.logpdf(point["b"], scale=scales).sum()
    if case.family == "gamma":
        alpha, beta = given["shape_alpha"], given["shape_beta"]
        total += stats.gamma.logpdf(point["shape"], alpha, scale=1 / beta)
        total -= stats.invgamma.logpdf(point["shape"], alpha, scale=beta)
    return total


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_with_the_priors_of_brms_the_log_density_is_that_of_brms(case):
    reference = REFERENCE[case.name]
    difference, ours = differences(case, reference, "brms")
    difference = difference - [changed_priors(case, point) for point in reference["points"]]
    assert np.ptp(difference) < 1e-9 * np.abs(ours).max()


def numbers(text):
    return [float(each) for each in re.findall(r"-?\d+(?:\.\d+)?", text.partition("(")[2])]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_default_priors_are_those_of_brms(case):
    program = Program.from_formula(case.formula, table(), family=case.family, default_priors="brms")
    expected = dict(REFERENCE[case.name]["defaults"])
    if case.family in ("negbinomial", "zero_inflated_negbinomial"):
        expected["shape"] = "inv_gamma(0.4, 0.3)"  # since brms 2.21; see its NEWS.md (#1614)
    values = {name: f"{prior.value:.17g}" for name, prior in program.declaration.priors.items()}
    found = set()
    for kind, name, hyperparameters in re.findall(
        r"lprior \+= (\w+)_lpdf\((\w+) \| (.+)\);", program.source.text
    ):
        name = re.sub("_.*", "", name).replace("threshold", "Intercept").replace("L", "cor")
        prior = re.sub(r"\w+_\w+", lambda match: values[match[0]], f"({hyperparameters})")
        found.add(name)
        assert kind.removesuffix("_corr_cholesky") == expected[name].partition("(")[0]
        assert numbers(prior) == pytest.approx(numbers(expected[name]))
    assert found == set(expected)
    if any(name.startswith("b_scale[") for name in case.hyperparameters):
        with pytest.raises(ConfigError, match=r"b has an improper prior.* flat prior"):
            pyflowers.prior(program, table(), seed=1)


def test_other_default_priors_are_refused():
    with pytest.raises(ConfigError, match="default priors must be 'brms', got 'stan'"):
        Program.from_formula("y ~ x", table(), default_priors="stan")


@pytest.mark.parametrize("changed", ["sigma_scale", "b_scale[x]", "cor_g_eta", "sd_g_scale"])
def test_another_prior_would_be_seen(changed):
    """The negative control."""
    (case,) = (case for case in CASES if case.name == "slopes")
    other = {**case.hyperparameters, changed: 2.5}
    difference, _ = differences(replace(case, hyperparameters=other), REFERENCE[case.name])
    assert np.ptp(difference) > 1e-3


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            marks=[pytest.mark.slow] if case.name in COMPILED else [pytest.mark.density],
        )
        for case in CASES
    ],
    ids=lambda case: case.name,
)
def test_both_engines_have_one_density_and_gradient(case):
    for centered in (False, True) if REFERENCE[case.name]["groups"] else (False,):
        groups = REFERENCE[case.name]["groups"]
        program, data = written(case, **{group.replace("_", ":"): centered for group in groups})
        text = in_json(program, data)
        pair = compiled(program.source, text, 1), Interpreted(program.source, text, 1)
        points = np.random.default_rng(3).normal(0, 0.5, (20, len(pair[0].names)))
        (value, gradient), (other, other_gradient) = (each.evaluate(points, True) for each in pair)
        assert np.isfinite(value).all()
        np.testing.assert_allclose(other - other[0], value - value[0], rtol=1e-10, atol=1e-10)
        scale = np.abs(gradient).max()
        np.testing.assert_allclose(other_gradient, gradient, rtol=1e-10, atol=1e-10 * scale)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_log_lik_in_numpy_is_that_of_the_program(case):
    """Compare the program's values, with N_pointwise = N, and NumPy's at a few draws."""
    program, data = written(case)
    bare = replace(program, python=Capabilities(check=lambda data: []))
    data = replace(data, values={**data.values, "N_pointwise": data.num_obs})
    options = SamplerOptions.of(seed=2, chains=1, warmup=50, draws=20)
    sample = pyflowers.fit(bare, data, engine="stanli", **options.model_dump(exclude_unset=True))
    ours = program.log_lik(sample.draws, data)
    np.testing.assert_allclose(ours, sample.draws["log_lik"], rtol=1e-8, atol=1e-8)
