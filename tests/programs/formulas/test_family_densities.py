"""The density of each family with each link is its definition, computed at 50 digits."""

import itertools
import re
from dataclasses import replace
from pathlib import Path

import mpmath
import numpy as np
import pytest
import stanli
from family_cases import TEXTS, TRIALS, density, log_prior, response_of, table
from mpmath import mpf
from stanio import dump_stan_json

import pyflowers
from pyflowers.engines import SamplerOptions
from pyflowers.engines.bridge import Bridge, compiled
from pyflowers.engines.stanli.density import Interpreted
from pyflowers.programs import Capabilities, Program
from pyflowers.programs.families import find_family
from pyflowers.programs.source import Source

NUM_POINTS = 20
NUM_ROWS = 12
FORMULA = "{} ~ x"


def written(text, num=NUM_ROWS, formula=FORMULA):
    """Return the program of a family, and its data block."""
    frame = table(num)
    program = Program.from_formula(formula.format(response_of(text)), frame, family=text)
    whole, _ = program.fill(program.read(frame), program.resolve_priors({}))
    return program, whole


def interpreted(program, data):
    """Return the interpreter's density, in this process."""
    mir = stanli.stan_to_mir(program.source.text)
    text = dump_stan_json(program.stan_values(data))
    model = stanli.bridgestan_model(mir=mir, data=text, seed=1)
    return Bridge(model.lib_path, model.model, model, forgiving=True)


def points_of(bridge, num):
    """Return points with a density, their log densities, and the parameters as rows."""
    rng = np.random.default_rng(7)
    points = rng.normal(0, 0.35, (20 * num, len(bridge.names)))
    values, _ = bridge.evaluate(points, False)
    kept = np.flatnonzero(np.isfinite(values))[:num]
    assert len(kept) == num
    return values[kept], bridge.constrain(points[kept])


def parameters_at(program, data, row):
    """Return the value of each parameter in a row of values in Stan's order."""
    found, at = {}, 0
    sizes = {"J - 1": int(data.values.get("J", 2)) - 1, "K": 1}
    for name, variable in program.source.blocks.parameters.items():
        num = int(np.prod([sizes[size] for size in variable.sizes], dtype=int))
        values = row[at : at + num]
        found[name] = values if variable.sizes else values[0]
        at += num
    return found


def log_joint(program, data, given, text, of_row=density):
    """Return the log joint density at 50 digits, without constants, on the unconstrained scale."""
    values, total = data.values, mpf(0)
    parameters = program.source.blocks.parameters
    for name, its in given.items():
        declared = re.search(rf"lprior \+= (\w+)_lpdf\({name} \| (.*)\);", program.source.text)
        arguments = [
            np.atleast_1d(np.asarray(values.get(word, None) if word in values else float(word)))
            for word in declared[2].split(", ")
        ]
        elements = [mpf(float(each)) for each in np.atleast_1d(its)]
        for i, element in enumerate(elements):
            own = [mpf(float(np.resize(each, len(elements))[i])) for each in arguments]
            total += log_prior(declared[1], element, own)
        lines = program.source.text.partition("\nparameters {")[2].splitlines()
        line = next(line for line in lines if f" {name};" in line)
        if "ordered[" in line:
            total += sum(mpmath.log(high - low) for low, high in itertools.pairwise(elements))
        elif "upper=1" in line:
            total += mpmath.log(elements[0]) + mpmath.log(1 - elements[0])
        elif "upper=y_min" in line:
            total += mpmath.log(elements[0]) + mpmath.log(mpf(float(data.y.min())) - elements[0])
        elif "lower=" in line:
            total += mpmath.log(elements[0] - mpf(int(parameters[name].lowest)))
    rows = rows_of(program, data, given)
    return total + sum(mpmath.log(of_row(text, y, eta, its)) for y, eta, its in rows)


def rows_of(program, data, given):
    """Return y, eta and the other parameters of each row."""
    values = data.values
    x, mean = np.asarray(values["X"])[:, 0], mpf(float(np.ravel(values["X_mean"])[0]))
    other = {
        name: [mpf(float(each)) for each in its] if np.ndim(its) else mpf(float(its))
        for name, its in given.items()
    }
    if "quantile" in values:
        other["quantile"] = mpf(float(values["quantile"]))
    if "threshold_at_means" in other:
        other["threshold"] = other["threshold_at_means"]
    slope = mpf(float(given["b"][0]))
    start = mpf(float(given.get("Intercept_at_means", 0.0)))
    etas = [start + (mpf(float(each)) - mean) * slope for each in x]
    return [(float(y), eta, other) for y, eta in zip(data.y, etas, strict=True)]


@pytest.mark.parametrize("text", TEXTS)
def test_the_log_density_is_the_definition(text):
    program, data = written(text)
    bridge = interpreted(program, data)
    values, rows = points_of(bridge, NUM_POINTS)
    with mpmath.workdps(50):
        exact = [log_joint(program, data, parameters_at(program, data, row), text) for row in rows]
        difference = [mpf(float(found)) - each for found, each in zip(values, exact, strict=True)]
        spread = float(max(difference) - min(difference))
        assert spread < 1e-9 * float(max(map(abs, exact)))
        assert float(max(exact) - min(exact)) > 0.5  # otherwise the test is empty


@pytest.mark.parametrize(
    ("text", "height"), [("cumulative(cloglog)", 3), ("sratio(cloglog)", 4), ("sratio(probit)", 10)]
)
def test_the_log_density_is_exact_where_probabilities_are_rounded_to_1(text, height):
    program, data = written(text)
    bridge = interpreted(program, data)
    points = np.random.default_rng(8).normal(0, 0.35, (NUM_POINTS, len(bridge.names)))
    # Stan stores ordered thresholds as the first one and the logs of the gaps.
    first = bridge.names.index("threshold_at_means.1")
    num = 1 if "cumulative" in text else int(data.values["J"]) - 1
    points[:, first : first + num] += height
    values, _ = bridge.evaluate(points, False)
    with mpmath.workdps(400):  # 1 less a probability that differs from 1 by 1e-200
        rows = [parameters_at(program, data, row) for row in bridge.constrain(points)]
        exact = [log_joint(program, data, row, text) for row in rows]
        difference = [mpf(float(found)) - each for found, each in zip(values, exact, strict=True)]
        assert float(max(difference) - min(difference)) < 1e-9 * float(max(map(abs, exact)))


@pytest.mark.parametrize("fall", [2.0, 3.0, 4.0, 6.0, 15.0])
def test_the_density_is_exact_where_an_exponential_part_vanishes(fall):
    program, data = written("exgaussian")
    bridge = interpreted(program, data)
    points = np.random.default_rng(9).normal(0, 0.35, (NUM_POINTS, len(bridge.names)))
    points[:, bridge.names.index("beta")] -= fall  # Stan's own density is 0 below sigma / 37
    values, _ = bridge.evaluate(points, False)
    with mpmath.workdps(50):
        rows = [parameters_at(program, data, row) for row in bridge.constrain(points)]
        exact = [log_joint(program, data, row, "exgaussian") for row in rows]
        difference = [mpf(float(found)) - each for found, each in zip(values, exact, strict=True)]
        assert float(max(difference) - min(difference)) < 1e-9 * float(max(map(abs, exact)))


@pytest.mark.parametrize("fall", [0.0, 3.0, 15.0])
@pytest.mark.parametrize("kind", [1, -1])
def test_censored_exgaussian_values_are_exact_as_well(kind, fall):
    """Stan's own exp_mod_normal_lcdf is wrong by up to 0.2 where sigma is above 8 beta."""
    frame = table(NUM_ROWS).assign(kind=kind)
    frame.loc[0, "kind"] = 0
    formula = f"{response_of('exgaussian')} | cens(kind) ~ x"
    program = Program.from_formula(formula, frame, family="exgaussian")
    data, _ = program.fill(program.read(frame), program.resolve_priors({}))

    def of_row(text, y, eta, its):
        if y == data.y[0]:
            return density(text, y, eta, its)
        z, ratio = (y - eta + its["beta"]) / its["sigma"], its["sigma"] / its["beta"]
        added = mpmath.exp(ratio**2 / 2 - z * ratio) * mpmath.ncdf(z - ratio)
        above = mpmath.ncdf(-z) + added
        return above if kind == 1 else 1 - above

    bridge = interpreted(program, data)
    points = np.random.default_rng(9).normal(0, 0.35, (NUM_POINTS, len(bridge.names)))
    points[:, bridge.names.index("beta")] -= fall
    values, _ = bridge.evaluate(points, False)
    with mpmath.workdps(80):
        rows = [parameters_at(program, data, row) for row in bridge.constrain(points)]
        exact = [log_joint(program, data, row, "exgaussian", of_row) for row in rows]
        difference = [mpf(float(found)) - each for found, each in zip(values, exact, strict=True)]
        assert float(max(difference) - min(difference)) < 1e-9 * float(max(map(abs, exact)))


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS)
def test_numpy_computes_the_definition(text):
    program, data = written(text)
    family, bridge = find_family(text), interpreted(program, data)
    _, points = points_of(bridge, 3)
    for point in points:
        given = parameters_at(program, data, point)
        with mpmath.workdps(50):
            rows = rows_of(program, data, given)
            expected = [float(mpmath.log(density(text, *row))) for row in rows]
        eta = np.array([float(eta) for _, eta, _ in rows])
        other = {
            name: np.reshape(np.array(its, dtype=float), (1, 1, *np.shape(its), 1))
            for name, its in rows[0][2].items()
        }
        other["trials"] = np.asarray(data.values.get("trials", 1.0), dtype=float)
        found = family.log_lik(np.asarray(data.y, dtype=float), eta[None, None], other)[0, 0]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("text", ["sratio(probit)", "hurdle_negbinomial", "gamma(inverse)"])
def test_another_density_would_be_seen(text):
    """The negative control: the definition with another link, or without the zeros' part."""
    wrong = {"sratio(probit)": "sratio", "hurdle_negbinomial": "negbinomial"}.get(text, "gamma")
    program, data = written(text)
    values, rows = points_of(interpreted(program, data), NUM_POINTS)
    with mpmath.workdps(50):
        exact = [log_joint(program, data, parameters_at(program, data, row), wrong) for row in rows]
        difference = [mpf(float(found)) - each for found, each in zip(values, exact, strict=True)]
        assert float(max(difference) - min(difference)) > 1e-3


@pytest.mark.parametrize("text", TEXTS)
def test_log_lik_in_numpy_is_that_of_the_program(text):
    program, data = written(text, 24, "{} ~ x + (1 | g)")
    bare = replace(program, python=Capabilities(check=lambda data: []))
    data = replace(data, values={**data.values, "N_pointwise": data.num_obs})
    options = SamplerOptions.of(seed=2, chains=1, warmup=50, draws=10)
    fit = pyflowers.fit(bare, data, engine="stanli", **options.model_dump(exclude_unset=True))
    ours = program.log_lik(fit.draws, data)
    np.testing.assert_allclose(ours, fit.draws["log_lik"], rtol=1e-8, atol=1e-8)
    assert np.isfinite(fit.draws["y_rep"]).all()


PARAMETERS_OF_ALL = """
parameters {
  vector[N] eta;
  real<lower=0> sigma;
  real<lower=1> nu;
  real<lower=0> shape;
  real<lower=0> phi;
  real<lower=0, upper=1> zi;
  real<lower=0, upper=1> hu;
  real<lower=0> beta;
  real alpha;
  real<lower=0, upper=0.2> ndt;
  real<lower=0> kappa;
  real cutzero;
  real cutone;
  ordered[3] threshold;
  vector[N] mub;
  vector[N] muc;
  vector[N] mud;
}
"""

OF_ENGINES = [*TEXTS, "categorical(mub, muc, mud)", "multinomial(mub, muc)"]


def combined():
    """Return one program with the likelihoods of all families, and its data.

    The data variable ``chosen`` is the number of the family whose likelihood is the log density.
    """
    functions, block, chosen = dict[str, str](), [], []
    data = {"N": NUM_ROWS, "quantile": 0.3, "trials": [TRIALS] * NUM_ROWS}
    for number, text in enumerate(OF_ENGINES, 1):
        family, y = find_family(text), f"y_{number}"
        own, stan = family.functions, family.stan
        if family.is_ordinal:  # the same name stands for the functions of each link
            own = re.sub(r"\b(sratio|rating)(?=_)", rf"\1_{family.link}", own)
            stan = re.sub(r"^sratio\b", f"sratio_{family.link}", stan)
        functions[own] = own
        is_whole, sizes = family.is_discrete, "N"
        values = written(text)[1].y.astype(int if is_whole else float)
        if family.has_columns:
            sizes = f"N, {family.width}"
            values = values.reshape(NUM_ROWS, family.width)
        block.append(f"array[{sizes}] int {y};" if is_whole else f"vector[N] {y};")
        data[y] = values.tolist()
        distribution = stan.format(eta="eta[n]", trials="trials[n]")
        distribution = re.sub(r"\bmu[bcd]\b", r"\g<0>[n]", distribution)
        chosen.append(
            f"if (chosen == {number}) {{ for (n in 1 : N) {{ {y}[n] ~ {distribution}; }} }}"
        )
    lines = "\n".join(block)
    program = (
        "functions {\n" + "\n".join(functions) + "\n}\n"
        f"data {{\nint N; int chosen; real quantile; array[N] int trials;\n{lines}\n}}\n"
        f"{PARAMETERS_OF_ALL}model {{\n" + "\n".join(chosen) + "\n}\n"
    )
    return Source(Path("families.stan"), {"families.stan": program.encode()}), data


@pytest.mark.slow
def test_both_engines_have_one_density_and_gradient():
    """All likelihoods are one program, as compiling one for each would take an hour."""
    source, data = combined()
    compared = []
    for number, text in enumerate(OF_ENGINES, 1):
        block = dump_stan_json({**data, "chosen": number})
        pair = compiled(source, block, 1), Interpreted(source, block, 1)
        points = np.random.default_rng(3).normal(0, 0.5, (40, len(pair[0].names)))
        points[:, :NUM_ROWS] += 1  # positive linear predictors, which some links require
        points[:, :NUM_ROWS] = np.abs(points[:, :NUM_ROWS]) + 0.05
        points = points[np.isfinite(pair[0].evaluate(points, False)[0])][:20]
        assert len(points) == 20, text
        (value, gradient), (other, other_gradient) = (each.evaluate(points, True) for each in pair)
        np.testing.assert_allclose(
            other - other[0], value - value[0], rtol=1e-10, atol=1e-10, err_msg=text
        )
        scale = np.abs(gradient).max()
        np.testing.assert_allclose(
            other_gradient, gradient, rtol=1e-10, atol=1e-10 * scale, err_msg=text
        )
        compared.append(text)
    assert compared == OF_ENGINES
