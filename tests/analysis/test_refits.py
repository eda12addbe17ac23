"""Refits without points and without groups, against the exact posterior.

log p(y_out | y_in) = log p(y) − log p(y_in): two evidences by quadrature.
"""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from command_line import run
from scipy.stats import poisson

import pyflowers
from pyflowers.analysis.elpd import leave_one_group_out, loo, stacking_weights
from pyflowers.analysis.prior_sensitivity import _total_log_lik
from pyflowers.analysis.refits import hold_out, log_ratio, predict_held_out
from pyflowers.errors import ConfigError
from pyflowers.fits.sampling import fit_data
from pyflowers.programs import find_program
from pyflowers.programs.declaration import Kind
from pyflowers.resources import flowers_csv

pytestmark = pytest.mark.usefixtures("in_a_shell")

LECTURE = pd.read_csv(flowers_csv())
PROPER = {"sigma2_plant_nu": 1, "sigma2_plant_scale": 2}
HOW = {"seed": 5, "draws": 2000, "adapt_delta": 0.95, "engine": "stanli"}


def priors_of(name):
    return PROPER if name == "multilevel_normal" else {}


@cache
def evidence(name, kept):
    """Return log p(y) of some rows of the lecture's table, by quadrature."""
    program = find_program(name)
    data = program.read(LECTURE.loc[list(kept)])
    whole, _ = program.fill(data, program.resolve_priors(priors_of(name)))
    return program.python.closed_form.exact(whole).log_evidence


def exact(name, rows):
    everything = tuple(LECTURE.index)
    return evidence(name, everything) - evidence(
        name, tuple(i for i in everything if i not in rows)
    )


@cache
def fitted(name):
    return pyflowers.fit(name, LECTURE, priors=priors_of(name), **HOW)


def errors(predictions, terms):
    """Return the deviations of elpd from the exact terms, in Monte Carlo standard errors."""
    return [
        abs(found.elpd - term) / found.mcse for found, term in zip(predictions, terms, strict=True)
    ]


MODELS = [
    "iid_normal",
    "multilevel_poisson",
    pytest.param("multilevel_normal", marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_refit_predicts_a_point_as_the_exact_posterior_does(name):
    points = [np.array([row]) for row in LECTURE.index]
    found = predict_held_out(fitted(name), points)
    terms = [exact(name, tuple(point)) for point in points]
    assert max(errors(found, terms)) < 3
    assert max(each.mcse for each in found) < 0.06
    assert all(each.passed for each in found)
    # Negative control: the term of the neighbouring point differs.
    assert max(errors(found, np.roll(terms, 1))) > 10


@pytest.mark.parametrize("name", MODELS)
def test_a_plant_left_out_is_predicted_as_the_exact_posterior_does(name):
    comparison = leave_one_group_out([fitted(name)])
    (model,) = comparison.models
    assert comparison.column == "plant"
    assert comparison.groups == ("1", "2", "3")
    terms = np.array(
        [exact(name, tuple(np.flatnonzero(LECTURE["plant"] == plant))) for plant in (1, 2, 3)]
    )
    assert np.max(np.abs(model.terms - terms) / model.mcse) < 3
    assert model.mcse.max() < 0.15
    assert model.elpd == pytest.approx(model.terms.sum())
    assert model.se == pytest.approx(np.sqrt(3 * model.terms.var(ddof=1)))
    assert model.failed == ()


def test_models_are_compared_by_the_groups_that_they_have_not_seen():
    comparison = leave_one_group_out([fitted("iid_normal"), fitted("semiconjugate_normal")])
    best, other = comparison.models
    assert best.difference == 0
    assert other.difference == pytest.approx(other.elpd - best.elpd)
    apart = other.terms - best.terms
    assert other.difference_se == pytest.approx(np.sqrt(3 * apart.var(ddof=1)))
    assert "With 3 groups, the standard error" in comparison.cautions[0]


OWN = """
data {
  int<lower=1> N;
  int<lower=1> P;
  array[N] int<lower=1, upper=P> plant;
  array[N] int<lower=0> y;
  array[N] int<lower=0, upper=1> held_out;
}
parameters {
  real mu;
  real<lower=0> sigma2;
  vector<offset=mu, multiplier=sqrt(sigma2)>[P] log_rate;
}
model {
  mu ~ normal(0, 100);
  sigma2 ~ scaled_inv_chi_square(1, 2);
  log_rate ~ normal(mu, sqrt(sigma2));
  for (n in 1 : N) {
    if (held_out[n] == 0) {
      y[n] ~ poisson_log(log_rate[plant[n]]);
    }
  }
}
generated quantities {
  vector[N] log_lik;
  array[N] int y_rep;
  for (n in 1 : N) {
    log_lik[n] = poisson_log_lpmf(y[n] | log_rate[plant[n]]);
    y_rep[n] = poisson_log_rng(fmin(log_rate[plant[n]], 20));
  }
}
"""
DECLARED = """
[table]
group = "plant"
[data]
y = { column = "flowers" }
plant = { column = "plant", index = true }
N = { size = "obs" }
P = { size = "plant" }
"""


@pytest.mark.slow
def test_a_program_of_ones_own_leaves_out_what_it_is_told(own_program):
    program = own_program("mine", OWN, DECLARED)
    fit = pyflowers.fit(program, LECTURE, **{**HOW, "draws": 5000})
    assert fit.data["held_out"].tolist() == [0] * 12
    assert "held_out" in fit.program.capabilities
    (model,) = leave_one_group_out([fit]).models
    terms = [
        exact("multilevel_poisson", tuple(np.flatnonzero(LECTURE["plant"] == plant)))
        for plant in (1, 2, 3)
    ]
    assert np.max(np.abs(model.terms - terms) / model.mcse) < 3
    assert model.mcse.max() < 0.2
    (point,) = predict_held_out(fit, [np.array([4])])
    assert abs(point.elpd - exact("multilevel_poisson", (4,))) < 3 * point.mcse


class Code(Kind):
    """A user-defined kind that gives positions of labels."""

    code: str

    @property
    def labels(self):
        return {"code": self.code}

    def read(self, name, variable, rows):
        return rows.positions(self.code, None) + 1


def test_a_row_left_out_keeps_its_group_whatever_kind_of_column_names_it():
    # Without the first row, the labels appear in a different order.
    frame = pd.DataFrame({"plant": list("abab"), "month": [1, 1, 2, 2], "flowers": [9, 1, 8, 2]})
    shipped = find_program("multilevel_poisson")
    data = {**shipped.declaration.data, "plant": Code(code="plant")}
    declaration = shipped.declaration.model_copy(update={"data": data})
    found = []
    for program in (shipped, replace(shipped, declaration=declaration)):
        whole, _ = program.fill(program.read(frame), program.resolve_priors())
        out = hold_out(program, whole, np.array([0]))
        assert out.training.labels["plant"].names == ("b", "a")
        found.append(out.log_density({"mu_plant": np.array([[[1.5, 8.5]]])}).item())
    assert found == pytest.approx([poisson(8.5).logpmf(9)] * 2)


def test_points_of_a_large_k_are_left_out_in_truth():
    # One month of a plant is far from the rest; its importance ratios have infinite variance.
    frame = LECTURE.copy()
    frame.loc[0, "flowers"] = 16
    fit = pyflowers.fit("multilevel_poisson", frame, **HOW)
    (without,) = loo(each for each in [fit]).models
    (model,) = loo([fit], refit=True).models
    assert 0 in model.refitted
    assert without.num_bad == model.refitted.size
    assert model.num_bad == 0
    assert "pyflowers loo --refit refits the model" in " ".join(loo([fit]).cautions)
    # Only refits give the Monte Carlo error of a term that importance ratios cannot estimate.
    assert np.isnan(without.mcse)
    assert 0.01 < model.mcse < 0.5
    kept = np.setdiff1d(np.arange(12), model.refitted)
    assert np.array_equal(model.terms[kept], without.terms[kept])
    program = find_program("multilevel_poisson")

    def log_evidence(table):
        whole, _ = program.fill(program.read(table), program.resolve_priors())
        return program.python.closed_form.exact(whole).log_evidence

    (again,) = predict_held_out(fit, [np.array([0])])
    assert model.terms[0] == again.elpd
    term = log_evidence(frame) - log_evidence(frame.drop(0))
    assert abs(again.elpd - term) < 3 * again.mcse


def test_a_program_that_cannot_be_refitted_keeps_its_estimates(own_program, tmp_path, capsys):
    frame = LECTURE.copy()
    frame.loc[0, "flowers"] = 30
    bare = OWN.replace("  array[N] int<lower=0, upper=1> held_out;\n", "")
    program = own_program("bare", bare.replace("if (held_out[n] == 0)", "if (1)"), DECLARED)
    fit = pyflowers.fit(program, frame, **HOW)
    (without,) = loo([fit]).models
    assert without.num_bad > 0
    comparison = loo([fit], refit=True)
    assert np.array_equal(comparison.best.terms, without.terms)
    caution = next(each for each in comparison.cautions if "k-hat" in each)
    assert f"k-hat of {without.num_bad} of 12 observations is above" in caution
    assert "bare has no held_out, which is needed for exact leave-one-out" in caution
    assert "declare array[N]" in caution
    assert run("loo", "--refit", str(fit.save(tmp_path / "run"))) == 0
    output = capsys.readouterr().out
    assert caution in " ".join(output.split())
    assert "refits" not in output.partition("note:")[0]  # a column only where there are some


def test_a_failed_refit_is_named_with_an_action_that_there_is():
    short = pyflowers.fit("multilevel_poisson", LECTURE, **{**HOW, "warmup": 5, "draws": 20})
    comparison = leave_one_group_out([short])
    failed = comparison.models[0].failed
    assert failed
    (caution,) = [c for c in comparison.cautions if "failed their diagnostics" in c]
    assert f"without plant {', '.join(failed)}); refits use the options" in caution
    assert "--adapt-delta" not in caution


def test_a_refit_is_the_same_again_whatever_else_is_left_out():
    fit = fitted("iid_normal")
    first, second = predict_held_out(fit, [np.array([3]), np.array([5])])
    (alone,) = predict_held_out(fit, [np.array([5])])
    assert alone.elpd == second.elpd
    assert first.elpd != second.elpd


def test_stacking_finds_the_best_mixture():
    rng = np.random.default_rng(1)
    elpd = rng.normal(-2, 1, (2, 200)) + np.array([[0.3], [0.0]])
    found = stacking_weights(elpd)
    grid = np.linspace(0, 1, 10_001)
    score = [np.log(w * np.exp(elpd[0]) + (1 - w) * np.exp(elpd[1])).sum() for w in grid]
    assert found.sum() == pytest.approx(1)
    assert found[0] == pytest.approx(grid[np.argmax(score)], abs=2e-4)
    assert stacking_weights(elpd[:1]) == 1
    # A model that is worse everywhere gets no weight.
    assert stacking_weights(np.stack([elpd[0], elpd[0] - 1]))[1] < 1e-3


def test_what_cannot_be_left_out_is_refused(own_program):
    bare = OWN.replace("  array[N] int<lower=0, upper=1> held_out;\n", "")
    bare = bare.replace("if (held_out[n] == 0)", "if (1)")
    how = {"seed": 1, "draws": 50, "warmup": 100, "engine": "stanli"}
    fit = pyflowers.fit(own_program("bare", bare, DECLARED), LECTURE, **how)
    with pytest.raises(ConfigError, match=r"bare has no held_out, which is needed for .*: declare"):
        leave_one_group_out([fit])
    iid = fitted("iid_normal")
    with pytest.raises(ConfigError, match="with all 12 observations left out, none remain"):
        hold_out(iid.program, iid.data, np.arange(12))
    with pytest.raises(ConfigError, match=r"no column 'bed' of labels .*groups: --column NAME"):
        leave_one_group_out([iid], column="bed")
    frame = pd.DataFrame({"a": list("pq") * 9, "g": list("uvw") * 6, "y": [0, 1, 1] * 6})
    cells = pyflowers.fit("y ~ a + (1 | g)", frame, family="bernoulli", **how)
    with pytest.raises(ConfigError, match=r"\(it has g\)"):
        leave_one_group_out([cells], column="a:g")
    one = pyflowers.fit("iid_normal", LECTURE[:4], **how)
    with pytest.raises(ConfigError, match="plant has a single group"):
        leave_one_group_out([one])
    flat = pyflowers.fit("multilevel_normal", LECTURE, **how)
    with pytest.raises(ConfigError, match="sigma2_plant: under its flat prior, a new group"):
        leave_one_group_out([flat])
    block = {name: iid.data[name] for name in iid.program.source.blocks.data}
    of_json = pyflowers.fit("iid_normal", block, **how)
    with pytest.raises(ConfigError, match="observations can only be left out of a table"):
        predict_held_out(of_json, [np.array([0])])


def test_rows_in_another_order_are_said_to_be_so():
    fits = [
        pyflowers.fit(name, frame, seed=1, engine="exact")
        for name, frame in (("iid_normal", LECTURE), ("multilevel_poisson", LECTURE[::-1]))
    ]
    with pytest.raises(
        ConfigError, match=r"to the same rows in a different order, .* the same rows of one"
    ):
        loo(fits)


def test_the_command(tmp_path, capsys):
    runs = [fitted(name).save(tmp_path / name) for name in ("iid_normal", "multilevel_poisson")]
    words = [str(run) for run in runs]
    assert run("loo", *words) == 0
    output = capsys.readouterr().out
    assert output.index("multilevel_poisson") < output.index("iid_normal")
    assert "note: 12 observations are too few for a reliable comparison" in output
    assert run("loo", *words, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["observations"] == 12
    assert len(record["models"]["iid_normal"]["terms"]) == 12
    assert run("loo", words[0], "--by-group", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert set(record["models"]["iid_normal"]["terms"]) == {"1", "2", "3"}
    assert run("loo", words[0], "--column", "plant") == 2


HELD = DECLARED + 'held_out = { column = "held" }\n'


def test_rows_that_the_data_hold_out_are_no_part_of_loo_and_sensitivity(own_program):
    """A fit that holds rows out gives the same results as a fit to the table without them."""
    table = LECTURE.assign(held=[0, 0, 0, 1] * 3)
    program = own_program("held", OWN, HELD)
    how = {**HOW, "draws": 1000}
    fit = pyflowers.fit(program, table, **how)
    fewer = pyflowers.fit(program, table[table.held == 0], **how)
    assert fit.is_in_likelihood.sum() == 9
    one, other = (loo([its]).models[0] for its in (fit, fewer))
    assert one.terms.shape == (9,)
    assert one.elpd == pytest.approx(other.elpd, abs=0.3)
    inside = fit.draws["log_lik"][..., fit.is_in_likelihood].sum(axis=2)
    np.testing.assert_allclose(_total_log_lik(fit), inside.ravel())
    checks = pyflowers.check(fit)
    assert "3 rows are held out of the likelihood: loo_pit leaves out such rows" in checks.notes[0]
    assert checks.pit.values.shape == (9,)


def test_refits_keep_the_parametrisation(monkeypatch):
    asked = []

    def watched(*args, centered=None, **how):
        asked.append(centered)
        return fit_data(*args, centered=centered, **how)

    monkeypatch.setattr("pyflowers.analysis.refits.fit_data", watched)
    for centered in (True, False):
        how = {"seed": 1, "draws": 100, "engine": "stanli", "centered": centered}
        predict_held_out(pyflowers.fit("multilevel_poisson", LECTURE, **how), [np.array([0])])
    assert asked == [True, False]


def test_a_density_that_is_far_below_that_of_the_whole_is_finite():
    rng = np.random.default_rng(1)
    without, whole = rng.normal(-5000, 1, (4, 500)), rng.normal(-100, 1, (4, 500))
    elpd, mcse = log_ratio(without, whole)
    assert np.isfinite(elpd)
    assert mcse > 0
    near = rng.normal(-100, 0.1, (2, 4, 500))
    assert log_ratio(*near)[0] == pytest.approx(-100, abs=0.05)
