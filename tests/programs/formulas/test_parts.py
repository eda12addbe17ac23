"""A formula's model is a list of parts: what one function adds is enough for all that follows."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from formula_cases import CASES, table
from toy_runs import answers, batch_medians, reported

import pyflowers
from pyflowers import Program
from pyflowers.data import from_frame
from pyflowers.programs.families import find_family
from pyflowers.programs.formulas import parts, predictions
from pyflowers.programs.formulas.grammar import parse
from pyflowers.programs.formulas.model import Model
from pyflowers.programs.formulas.part import ETA, Number, Part, joined, merged
from pyflowers.programs.formulas.predictor import linear_predictors
from pyflowers.programs.formulas.priors import PYFLOWERS, auxiliary_parameters

FORMULA = "y ~ x + (1 | g)"
HOW = {"seed": 1, "engine": "stanli", "warmup": 500, "draws": 500}


def draw_rise(values, num, rng):
    return {"rise": rng.exponential(1 / values["rise_rate"], (1, num))}


def rising(column):
    """Return the part of a toy term: an effect of a column that cannot be negative."""
    rate = Number(0.5, "rate of the exponential prior on rise")
    return Part(
        target=ETA,
        data=[f"vector[N] climb; // {column}"],
        settings=["real<lower=0> rise_rate; // rate of the exponential prior on rise"],
        parameters=["real<lower=0> rise; // effect of climb"],
        priors={"rise": "exponential(rise_rate)"},
        eta="climb * rise",
        sources={"climb": {"terms": f"0 + {column}"}},
        numbers={"rise_rate": rate},
        meanings={"rise": {"description": "effect of climb", "prior": "exponential(rise_rate)"}},
        predicted="climb * rise",
        shown=f"rising({column})",
        story=f"The effect of {column} is not negative.",
        draw=draw_rise,
    )


@pytest.fixture
def with_toy_term(monkeypatch):
    """Add the toy term to the list of parts of every formula."""
    before = parts.parameters_of

    def parameters_of(linear, auxiliary):
        return [*before(linear, auxiliary), rising("z")]

    monkeypatch.setattr(parts, "parameters_of", parameters_of)
    monkeypatch.setattr(predictions, "parameters_of", parameters_of)


def simulated(seed=1, num=300):
    """Return rows in which z has the effect 1.5, and the log of sigma has the slope 0.6 in w."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(num, 3)), columns=["x", "z", "w"])
    group = rng.integers(0, 12, num)
    frame["g"] = [f"g{i}" for i in group]
    sigma = np.exp(-0.5 + 0.6 * frame.w)
    mean = 1 + 2 * frame.x + 1.5 * frame.z + rng.normal(0, 0.7, 12)[group]
    frame["y"] = mean + sigma * rng.normal(size=num)
    return frame


def assert_recovered(fit, truth):
    summary = fit.summary()
    for name, true in truth.items():
        assert abs(summary["median"][name] - true) < 4 * summary["sd"][name], name
        assert summary["sd"][name] < 0.5


def test_a_toy_term_is_one_function(with_toy_term):
    frame = simulated()
    fit = pyflowers.fit(FORMULA, frame, **HOW)
    assert fit.program.declaration.equation.endswith("eta = Intercept + X b + r_g + rising(z)")
    assert "The effect of z is not negative." in fit.program.declaration.story
    assert_recovered(fit, {"b[x]": 2, "rise": 1.5})

    # All that follows reads the program and its declaration, and needs no other change.
    rows = pd.DataFrame({"x": [0.0, 0], "z": [0.0, 2], "g": ["g1", "g1"]})
    low, high = pyflowers.predict(fit, rows, kind="expected").table()["median"]
    assert abs(high - low - 3) < 0.3
    assert abs(answers(fit, rows, "z") - 1.5) < 0.3
    assert "rise" in pyflowers.sensitivity(fit).table().index
    prior = pyflowers.prior(fit.program, frame, priors={"rise_rate": 2}, draws=4000, seed=1)
    assert abs(prior.draws["rise"].mean() - 0.5) < 0.05
    assert re.search(r"^rise +\d", str(fit), re.MULTILINE)
    assert "rising(z)" in fit.program.about
    assert "The effect of z is not negative." in " ".join(str(fit.program).split())


@pytest.mark.slow
def test_reports_and_batches_take_the_toy_term(with_toy_term, tmp_path):
    frame = simulated()
    fit = pyflowers.fit(FORMULA, frame, **HOW)
    page = reported(fit, tmp_path)
    assert "effect of climb" in page
    assert "rising(z)" in page
    medians = batch_medians(fit, FORMULA, frame, tmp_path)
    assert abs(medians["rise"] - 1.5) < 0.3


def test_without_its_part_the_toy_term_is_not_there():
    """Negative control: nothing but the list knows the term."""
    program = Program.from_formula("y ~ x + (1 | g)", simulated())
    assert "rise" not in program.source.text
    assert "climb" not in program.declaration.data


def declares(lines, name):
    return any(re.search(rf" {name}( =|;)", line) for line in lines)


@pytest.mark.parametrize("case", CASES[::3], ids=lambda case: case.name)
def test_each_part_states_all_that_it_adds(case):
    """What a part declares or describes exists in its own lines, and each name is stated once."""
    frame, family = from_frame(table()), find_family(case.family)
    model = Model(parse(case.formula), family, frame)
    linear = linear_predictors(model, PYFLOWERS, {})
    auxiliary = auxiliary_parameters(family, PYFLOWERS, model)
    found = parts.parts_of(model, linear, auxiliary)
    for part in found:
        data, sampled = [*part.data, *part.settings], part.parameters
        computed = [*part.transformed_parameters, *part.generated_quantities]
        for name in part.sources:
            assert declares(data, name), name
        for name in part.numbers:
            assert declares(part.settings, name.partition("[")[0]), name
        for name in part.priors:
            assert declares(sampled, name), name
        for name in [*part.dims, *part.meanings, *part.effects, *part.omit]:
            assert declares([*data, *sampled, *computed], name), name
    for name in ("sources", "numbers", "dims", "coords", "meanings", "priors", "effects"):
        assert len(merged(found, name)) == sum(len(getattr(part, name)) for part in found), name
    omitted = joined(found, "omit")
    assert len(set(omitted)) == len(omitted)


@pytest.mark.parametrize("case", CASES[::9], ids=lambda case: case.name)
def test_prior_draws_of_a_program_that_was_read_again(case, tmp_path):
    """They are those of the program that was written, from a table and from the data in JSON."""
    program = Program.from_formula(case.formula, table(), family=case.family)
    again = Program.open(program.write(tmp_path / "again.stan"))
    first = pyflowers.prior(program, table(), draws=20, seed=3)
    data, _ = program.fill(program.read(table()), program.resolve_priors())
    numbers = program.declaration.prior_elements
    own = {k: np.asarray(its).tolist() for k, its in data.values.items() if k not in numbers}
    (tmp_path / "data.json").write_text(json.dumps(own))
    for rows in (table(), tmp_path / "data.json"):
        second = pyflowers.prior(again, rows, draws=20, seed=3)
        for name, draws in first.draws.items():
            assert np.array_equal(draws, second.draws[name]), name
