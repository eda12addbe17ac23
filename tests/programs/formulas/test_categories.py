"""Categories without an order: each but the first has a linear predictor of its own."""

import json
import re
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest
from command_line import run
from mpmath import mpf
from scipy.special import softmax
from test_family_densities import interpreted, points_of

import pyflowers
from pyflowers import Program
from pyflowers.errors import PyflowersError
from pyflowers.programs import Capabilities
from pyflowers.programs.families import find_family, names_of_predictors
from pyflowers.programs.prediction import _normal_nodes

LABELS = ("bike", "bus", "own car")
HOW = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 300, "draws": 200}
FORMULA = "choice ~ x + (1 | g)"
NUM_POINTS = 20


def table(num=160, curved=False):
    """Return choices that depend on x and on the label of g."""
    rng = np.random.default_rng(54)
    codes = np.resize(np.arange(8), num)
    frame = pd.DataFrame({"x": rng.normal(size=num), "g": np.array(list("abcdefgh"))[codes]})
    frame["f"], frame["sex"] = rng.choice(["u", "v", "w"], num), rng.choice(["m", "f"], num)
    effects = rng.normal(0, 0.8, (2, 8))
    bus = 0.4 + 0.9 * frame.x + effects[0][codes]
    car = -0.3 - 0.5 * frame.x + effects[1][codes]
    if curved:
        car = car + 1.5 * frame.x**2
    share = softmax(np.stack([np.zeros(num), bus, car]), axis=0)
    chosen = (rng.uniform(size=num) > np.cumsum(share, axis=0)).sum(axis=0)
    frame["choice"] = np.array(LABELS)[chosen]
    frame["two"] = np.where(chosen == 0, "no", "yes")
    return frame.round(6)


@pytest.fixture(scope="module")
def fit():
    return pyflowers.fit(FORMULA, table(), family="categorical", **HOW)


# The density


def values_at(program, data, row):
    """Return the parameters, by name, in a row of values in Stan's order."""
    found, at = {}, 0
    for name, variable in program.source.blocks.parameters.items():
        sizes = [int(data.values.get(size, 0) or size) for size in variable.sizes]
        num = int(np.prod(sizes, dtype=int))
        found[name] = [mpf(float(each)) for each in row[at : at + num]]
        at += num
    return found


def student(x, scale):
    return -2 * mpmath.log(1 + (x / scale) ** 2 / 3)


def log_joint(program, data, given):
    """Return the log joint density at 50 digits, without constants, on the unconstrained scale."""
    total, etas = prior_and_predictors(program, data, given)
    for n, y in enumerate(np.asarray(data.y, dtype=int)):
        weights = [mpmath.exp(eta[n]) for eta in etas]
        total += mpmath.log(weights[y - 1] / sum(weights))
    return total


def prior_and_predictors(program, data, given):
    """Return the log density of the prior, and the linear predictors of all categories."""
    values, total, etas = data.values, mpf(0), [[mpf(0)] * data.num_obs]
    for name in find_family(program.declaration.prediction.family).predictors:
        eta = [mpf(0)] * data.num_obs
        start = f"Intercept_{name}_at_means"
        start = start if start in given else f"Intercept_{name}"
        if start in given:
            total += student(given[start][0], mpf(values[f"Intercept_{name}_scale"]))
            eta = [given[start][0]] * data.num_obs
        if f"b_{name}" in given:
            means = np.asarray(values.get(f"X_{name}_mean", 0.0)) + np.zeros(
                len(given[f"b_{name}"])
            )
            columns = np.asarray(values[f"X_{name}"], dtype=float).T
            scales = np.ravel(values[f"b_{name}_scale"])
            for b, column, mean, scale in zip(
                given[f"b_{name}"], columns, means, scales, strict=True
            ):
                total -= (b / mpf(float(scale))) ** 2 / 2
                eta = [
                    e + (mpf(float(x)) - mpf(float(mean))) * b
                    for e, x in zip(eta, column, strict=True)
                ]
        for sd_name in (each for each in given if re.fullmatch(rf"sd_\w+_{name}", each)):
            group, (sd,) = sd_name.removeprefix("sd_").removesuffix(f"_{name}"), given[sd_name]
            effects = given[f"r_{group}_{name}"]
            total += student(sd, mpf(values[f"{sd_name}_scale"])) + mpmath.log(sd)
            total += sum(-((r / sd) ** 2) / 2 for r in effects)  # sampled in units of sd
            codes = np.asarray(values[group]) - 1
            eta = [e + effects[code] for e, code in zip(eta, codes, strict=True)]
        etas.append(eta)
    return total, etas


@pytest.mark.parametrize(
    "formula",
    [
        "choice ~ 1",
        "choice ~ x",
        "choice ~ x + f",
        "choice ~ 0 + x + sex",
        "choice ~ x + (1 | g)",
        "choice ~ (1 | g) + (1 | f)",
        "choice ~ x + (1 | g); mubus ~ 1",
        "choice ~ 1; muowncar ~ 0 + f + (1 | g)",
        'C(choice, levels=["own car", "bus", "bike"]) ~ x + (1 | g)',
        "two ~ x + (1 | g)",
    ],
)
def test_the_log_density_is_the_definition(formula):
    frame = table(16)
    program = Program.from_formula(formula, frame, family="categorical")
    data, _ = program.fill(program.read(frame), program.resolve_priors({}))
    values, rows = points_of(interpreted(program, data), NUM_POINTS)
    with mpmath.workdps(50):
        exact = [log_joint(program, data, values_at(program, data, row)) for row in rows]
        apart = [mpf(float(found)) - each for found, each in zip(values, exact, strict=True)]
        assert float(max(apart) - min(apart)) < 1e-9 * float(max(map(abs, exact)))
        assert float(max(exact) - min(exact)) > 0.5  # otherwise the test is empty


def test_two_categories_are_a_bernoulli_response():
    """The densities differ by a constant, as an independent definition says."""
    frame, found = table(30), []
    for family in ("categorical", "bernoulli"):
        program = Program.from_formula("two ~ x + (1 | g)", frame, family=family)
        data, _ = program.fill(program.read(frame), program.resolve_priors({}))
        # Sampling units do not depend on the family, so the points are the same.
        points = np.random.default_rng(1).normal(0, 0.5, (10, 11))
        if "centered_g" in data.values:
            data.values["centered_g"] = 0
        found.append(interpreted(program, data).evaluate(points, False)[0])
    np.testing.assert_allclose(np.diff(found[0]), np.diff(found[1]), rtol=1e-9)


def test_log_lik_in_numpy_is_that_of_the_program():
    frame = table(48)
    program = Program.from_formula(FORMULA, frame, family="categorical")
    data, _ = program.fill(program.read(frame), program.resolve_priors({}))
    bare = replace(program, python=Capabilities(check=lambda data: []))
    data = replace(data, values={**data.values, "N_pointwise": data.num_obs})
    fit = pyflowers.fit(bare, data, engine="stanli", seed=2, chains=1, warmup=50, draws=50)
    ours = program.log_lik(fit.draws, data)
    np.testing.assert_allclose(ours, fit.draws["log_lik"], rtol=1e-8, atol=1e-8)
    assert set(np.unique(fit.draws["y_rep"])) == {1, 2, 3}


# The model


def test_names_of_predictors():
    assert names_of_predictors(["a", "b c", "b-c", "é", "2.5"]) == ["mubc", "mubc3", "mu4", "mu25"]
    family = find_family("categorical(mubus, mucar)")
    assert family.text == "categorical(mubus, mucar)"
    assert family.predictors == ("mubus", "mucar")
    assert family.title == "categorical"


def test_the_default_priors_are_those_of_log_odds():
    frame = table()
    program = Program.from_formula("choice ~ x + (1 | g)", frame, family="categorical")
    values = {name: its.value for name, its in program.declaration.priors.items()}
    for name in ("mubus", "muowncar"):
        assert values[f"Intercept_{name}_location"] == 0
        assert values[f"Intercept_{name}_scale"] == 2.5
        assert values[f"b_{name}_scale[x]"] == pytest.approx(2.5 / frame.x.std(), rel=0.01)
        assert values[f"sd_g_{name}_scale"] == 2.5


def test_given_priors_may_be_of_one_category_or_of_all():
    given = {"b[x]": "normal(0, 1)", "b_mubus[x]": "normal(1, 0.5)", "sd": "exponential(2)"}
    program = Program.from_formula(FORMULA, table(), family="categorical", priors=given)
    text = program.source.text
    assert "normal_lpdf(b_mubus | 1, 0.5)" in text
    assert "normal_lpdf(b_muowncar | 0, 1)" in text
    assert text.count("exponential_lpdf(sd_g_mu") == 2


def test_the_first_category_is_the_reference_and_levels_change_it():
    frame = table()
    order = 'C(choice, levels=["own car", "bike", "bus"]) ~ x'
    for formula, data in (
        (order, frame),
        (
            "choice ~ x",
            frame.assign(choice=pd.Categorical(frame.choice, ["own car", "bike", "bus"])),
        ),
    ):
        program = Program.from_formula(formula, data, family="categorical")
        assert program.declaration.prediction.family == "categorical(mubike, mubus)"
        assert "log odds of bike against own car" in program.source.text


# What follows from a fit


def linear_predictors(fit, rows, groups=True):
    """Return the linear predictors by hand, shape (category, chain, draw, row)."""
    found = [np.zeros((*fit.draws["b_mubus"].shape[:2], len(rows)))]
    codes = [list("abcdefgh").index(g) for g in rows.g]
    for name in ("mubus", "muowncar"):
        eta = fit.draws[f"Intercept_{name}"][..., None]
        eta = eta + fit.draws[f"b_{name}"] * rows.x.to_numpy()
        found.append(eta + groups * fit.draws[f"r_g_{name}"][..., codes])
    return np.stack(found)


def test_predictions_are_the_definition(fit):
    rows = table().head(5)
    share = softmax(linear_predictors(fit, rows), axis=0)
    found = pyflowers.predict(fit, rows)
    assert found.kind == "probability"
    np.testing.assert_allclose(
        found.draws().to_numpy(), np.moveaxis(share, 0, 2), rtol=1e-10, atol=1e-10
    )
    assert found.table().index.get_level_values("outcome").tolist() == list(LABELS) * 5
    alone = pyflowers.predict(fit, rows, outcome="own car", groups="none").draws().to_numpy()
    expected = softmax(linear_predictors(fit, rows, groups=False), axis=0)[2]
    np.testing.assert_allclose(alone[:, :, 0], expected, rtol=1e-10, atol=1e-10)
    linear = pyflowers.predict(fit, rows, kind="linear", parameter="mubus").draws().to_numpy()
    np.testing.assert_allclose(linear, linear_predictors(fit, rows)[1], rtol=1e-10, atol=1e-10)


def test_the_average_over_groups_is_that_of_many_groups(fit):
    rows = table().head(2)
    share = pyflowers.predict(fit, rows, groups="population").draws().to_numpy()
    np.testing.assert_allclose(share.sum(axis=2), 1, atol=1e-9)
    rng = np.random.default_rng(3)
    etas = linear_predictors(fit, rows, groups=False)[:, :1, :3]
    total, square, num = 0.0, 0.0, 20_000
    for _ in range(20):
        z = rng.normal(size=(2, 3, 1, num // 20))
        sds = np.stack([fit.draws[f"sd_g_{name}"][0, :3] for name in ("mubus", "muowncar")])
        every = etas[:, 0, :, :, None] + np.zeros((3, 3, 2, num // 20))
        every[1:] += sds[..., None] * z
        drawn = softmax(every, axis=0)
        total, square = total + drawn.sum(axis=-1), square + np.square(drawn).sum(axis=-1)
    error = np.sqrt((square / num - (total / num) ** 2) / num)
    assert (np.abs(share[0, :3].transpose(1, 0, 2) - total / num) < 4.5 * error + 1e-4).all()


def test_effects_are_differences_of_probabilities(fit):
    found = pyflowers.effects(fit, "x")
    frame = table()
    low, high = (
        softmax(linear_predictors(fit, frame.assign(x=frame.x + by)), axis=0) for by in (0, 1)
    )
    expected = (high - low).mean(axis=-1)
    np.testing.assert_allclose(found.effects.to_numpy(), np.moveaxis(expected, 0, -1), atol=1e-10)
    assert found.index.get_level_values("outcome").tolist() == list(LABELS)
    of_one = pyflowers.effects(fit, "x", parameter="mubus").effects.to_numpy()
    np.testing.assert_allclose(of_one, fit.draws["b_mubus"], atol=1e-10)


def test_checks_are_of_shares(fit):
    found = pyflowers.check(fit)
    names = [each.name for each in found.checks]
    assert [f"share[{label}]" for label in LABELS] == names[:3]
    assert "loo_pit" not in names
    assert found.table()["observed"].iloc[0] == pytest.approx(np.mean(table().choice == "bike"))
    assert found.passed


def test_what_has_no_meaning_is_one_sentence(fit):
    calls = [
        (lambda: pyflowers.predict(fit, kind="expected"), "have no order, so there is nothing to"),
        (
            lambda: pyflowers.predict(fit, kind="linear"),
            "choose a linear predictor, such as par",
        ),
        (lambda: pyflowers.predict(fit, kind="observation"), "use kind 'probability', or choose"),
        (lambda: pyflowers.predict(fit, outcome="car"), "is not a category of choice; did you mea"),
        (lambda: pyflowers.predict(fit, outcome="> 1"), "'> 1' is not a category of choice; choos"),
        (lambda: pyflowers.effects(fit, kind="expected"), "have no order, so there is nothing to"),
        (lambda: pyflowers.effects(fit, parameter="mubike"), "family categorical(mubus, muowncar"),
        (lambda: pyflowers.contrast(fit, "mu[g a]"), "categories without an order have no mean"),
        (
            lambda: pyflowers.explained(fit),
            "categories without an order, for which no explained variance",
        ),
        (
            lambda: pyflowers.plots.conditional_effects(fit, "x", spread="g"),
            "so spread=… does not apply; leave it out",
        ),
        (
            lambda: pyflowers.fit(FORMULA, table(), family="categorical", engine="exact"),
            "the engine exact does not support a linear predictor for each category; leave out",
        ),
        (
            lambda: pyflowers.fit(FORMULA, table(), family="categorical", centered={"h": True}),
            "centered h: the formula has no such group (its groups: g)",
        ),
    ]
    for call, message in calls:
        with pytest.raises(PyflowersError, match=re.escape(message)) as error:
            call()
        assert "\n" not in str(error.value)


def test_the_table_of_priors_names_no_category_by_its_variable():
    """The linear predictor of ß, the fourth category, is called mu4."""
    labels = np.array(["b+", "b-", "d", "ß"])
    frame = pd.DataFrame({"kind": labels[np.arange(40) % 4], "x": np.arange(40) % 7})
    table = Program.from_formula("kind ~ x", frame, family="categorical").priors
    assert table.loc["Intercept_mu4", "on the response's scale"].startswith("the odds from 0.00")
    assert table.loc["b_mu4[x]", "on the response's scale"].startswith("changes the odds by a fac")
    assert "log odds of ß against b+" in table.loc["b_mu4[x]", "meaning"]


def test_every_command_takes_categories(fit, tmp_path, capfd):
    out, data = tmp_path / "run", tmp_path / "table.csv"
    fit.save(out)
    table().to_csv(data, index=False)
    capfd.readouterr()
    commands = [
        ["check", out],
        ["loo", out],
        ["predict", out, "--by", "g"],
        ["sensitivity", out],
        ["effects", out, "--out", tmp_path / "effects"],
        ["contrast", out, "b_mubus[x] - b_muowncar[x]"],
        ["prior", FORMULA, "--family", "categorical", "--data", data, "--draws", 50],
        ["prior", FORMULA, "--family", "categorical", "--data", data, "--list"],
    ]
    printed = {}
    for command in commands:
        status = run(*command, "--json")
        shown = capfd.readouterr()
        assert status in (0, 3), (command, shown.err)
        printed[command[0]] = json.loads(shown.out)
    assert "odds of bus" in json.dumps(printed["prior"])
    assert (tmp_path / "effects" / "effect-x.png").exists()


@pytest.mark.slow
def test_a_report_and_a_copy_of_the_program(fit, tmp_path):
    out, data = tmp_path / "run", tmp_path / "table.csv"
    fit.save(out)
    table().to_csv(data, index=False)
    assert run("report", out, "--out", tmp_path / "report.html") == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "the numbers in each category are" in page
    words = " ".join(re.sub(r"<[^>]*>", " ", page).split())
    assert "Average difference of the probability of each category of choice" in words
    for outcome in ("bike", "bus", "own car"):  # each has a sentence and a row
        assert re.search(rf"(lower|higher) probability of choice = {outcome} per unit of x", words)
        assert f"x + 1 {outcome} " in words
    what = (FORMULA, "--family", "categorical", "--data", data)
    assert run("new", tmp_path / "mine.stan", *what) == 0
    again = pyflowers.fit(tmp_path / "mine.stan", data, **HOW)
    for name, draws in fit.draws.items():
        np.testing.assert_array_equal(again.draws[name], draws)


@pytest.mark.slow
def test_a_planted_curve_is_found_and_its_remedy_passes():
    frame = table(500, curved=True)
    straight = pyflowers.fit(FORMULA, frame, family="categorical", **HOW)
    found = pyflowers.check(straight)
    failed = next(each for each in found.checks if each.name == "curvature[x]")
    assert not failed.passed
    advice: Any = failed.advice
    change = advice.change
    better = pyflowers.fit(change["program"], frame, family="categorical", **HOW)
    # The curve fits what the check looked for, so that the check may be left out.
    assert "curvature[x]" not in {each.name for each in pyflowers.check(better).failed}


@pytest.mark.quick
@pytest.mark.parametrize("num", [1, 2, 3, 5])
def test_normal_effects_on_several_predictors_are_integrated(num):
    """Against one million random effects, whose error is at most 0.0005."""
    rng, means = np.random.default_rng(1), np.linspace(-1, 1, num)
    nodes, weights = map(np.array, zip(*_normal_nodes(num, True), strict=True))
    drawn = rng.normal(size=(500_000, num))
    for sd in (0.5, 1.5):
        share, exact = (
            softmax(np.pad(means + sd * z, [(0, 0), (1, 0)]), axis=1)
            for z in (nodes, np.concatenate([drawn, -drawn]))
        )
        np.testing.assert_allclose(weights @ share, exact.mean(axis=0), atol=0.002)
    assert weights.sum() == pytest.approx(1)


def test_a_label_without_other_characters_keeps_its_name():
    assert names_of_predictors(["x", "a b", "ab"]) == ["muab2", "muab"]


def test_contrasts_of_effects_and_predictions_name_every_category():
    rng = np.random.default_rng(21)
    frame = pd.DataFrame({"x": rng.normal(size=90), "f": rng.choice(list("abc"), 90)})
    frame["m"] = rng.choice(["bus", "car", "own bike"], 90)
    how = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 200, "draws": 100}
    fit = pyflowers.fit("m ~ x + f", frame, family="categorical", **how)
    effects = pyflowers.effects(fit, "f").table().xs("b - a", level="change")["median"]
    found = pyflowers.contrast(fit, "effect[f, b - a]").numbers()["median"]
    names = ["bus", "car", "own bike"]
    assert found.index.tolist() == [f"effect[f, b - a][{name}]" for name in names]
    assert found.to_numpy() == pytest.approx(effects.to_numpy())
    every = pyflowers.contrast(fit, "effect[f]").numbers()
    assert every.index.is_unique
    assert len(every) == 6
    predicted = pyflowers.predict(fit, grid="x = 1|2").table()["median"]
    found = pyflowers.contrast(fit, "prediction[x = 1|2]", "prediction[x = 2]").numbers()
    assert found.index.is_unique
    assert sorted(found["median"][:6]) == pytest.approx(sorted(predicted))
    assert found.index[-1] == "prediction[x = 2][own bike]"
