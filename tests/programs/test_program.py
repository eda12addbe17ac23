"""Programs: capabilities, remedies for missing ones, and priors."""

from typing import Any

import numpy as np
import pytest
from own_programs import DECLARATION, TRIAL, visits
from scipy import stats

from pyflowers.errors import CompileError, ConfigError, DataError
from pyflowers.programs import (
    Capabilities,
    Capability,
    ClosedForm,
    MissingMoment,
    Program,
    find_program,
)

BARE = "data { int N; vector[N] x; } parameters { real mu; } model { x ~ normal(mu, 1); }"


@pytest.fixture
def trial(own_program):
    return own_program("trial", TRIAL, DECLARATION)


def test_a_program_says_what_it_is(trial, tmp_path, own_program):
    assert (trial.name, trial.path) == ("trial", tmp_path / "trial.stan")
    assert trial.reference == str(tmp_path / "trial.stan")
    assert trial.title == "The program trial.stan"
    assert trial.about == str(tmp_path / "trial.stan")
    assert trial.counts
    assert trial.internal == {"eta", "log_lik", "y_sim", "y_new", "y_new_group", "lprior"}
    assert trial.kept() == ["alpha", "beta", "tau", "lprior", "log_lik", "y_sim"]
    titled = own_program("trial", TRIAL, 'title = "A trial"\nequation = "y ~ Poisson"')
    assert (titled.title, titled.about) == ("A trial", "y ~ Poisson")


def test_the_capabilities_of_a_text(trial, own_program):
    assert trial.capabilities == {
        *(Capability.LOG_LIK, Capability.Y_REP, Capability.LPRIOR, Capability.PRIOR_ONLY),
        *(Capability.OBSERVED, Capability.PRIOR_DENSITY),
    }
    assert own_program("bare", BARE).capabilities == set()
    grouped = DECLARATION.replace("[roles]", '[roles]\ngroup_mean = "alpha"')
    assert own_program("trial", TRIAL, grouped).can(Capability.GROUP_MEAN)


def test_the_capabilities_of_what_is_written_in_python(own_program):
    unused: Any = len  # only its presence matters
    python = Capabilities(closed_form=ClosedForm(exact=unused, vb=unused))
    program = own_program("bare", BARE, python=python)
    assert program.capabilities == {Capability.EXACT, Capability.VB}


RULE = """
[roles]
observed = "x"
[prediction]
family = "gaussian"
linear_predictor = "mu"
where = { sigma = "1" }
"""
STATED = 'parameters.mu.prior = "normal(0, 2)"\n' + RULE


def test_the_capabilities_of_what_is_declared(own_program):
    ruled = own_program("ruled", BARE, RULE)
    assert ruled.capabilities == {
        *(Capability.LOG_LIK, Capability.Y_REP, Capability.HELD_OUT),
        *(Capability.Y_NEW, Capability.OBSERVED),
    }
    stated = own_program("stated", BARE, STATED)
    of_priors = {Capability.PRIOR_DENSITY, Capability.PRIOR_ONLY, Capability.LPRIOR}
    assert stated.capabilities == ruled.capabilities | of_priors
    # What Stan computes takes precedence.
    computed = f"{BARE} generated quantities {{ vector[N] log_lik; vector[N] y_rep; }}"
    assert not own_program("computed", computed, RULE).answers_by_rule("log_lik")
    # A rule that does not give the density of all rows gives no likelihood.
    censored = own_program("censored", BARE, RULE + 'censored = "c"')
    assert not censored.can(Capability.LOG_LIK)


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ('"normal(0, 1)"', "real<upper=1> mu"),  # the prior is cut at a bound that it does not name
        ('"normal(0, 1)"', "ordered[2] mu"),
        ('"normal(0, 1)"', "real mu; real nu"),
        ('"normal(0, s)"', "vector[N] mu"),
    ],
)
def test_a_prior_that_is_not_stated_in_full_is_not_drawn(own_program, declared, text):
    program = BARE.replace("real mu", text).replace("vector[N] x", "vector[N] x; vector[N] s")
    found = own_program("mine", program, f"parameters.mu.prior = {declared}")
    assert not found.can(Capability.PRIOR_ONLY)
    assert own_program("mine2", BARE, 'parameters.mu.prior = "normal(0, 1)"').states_prior


@pytest.mark.parametrize("capability", Capability)
def test_what_is_lacking_is_said_with_what_to_add(own_program, capability):
    bare = own_program("bare", BARE)
    with pytest.raises(ConfigError) as caught:
        bare.require(capability)
    needed = f"which is needed for {capability.purpose}: {capability.remedy}"
    lacks = f"bare has no {capability}, {needed}"
    assert str(caught.value) == lacks
    assert "\n" not in lacks


def test_what_is_there_is_not_refused_and_what_is_not_is_before_any_work(trial, own_program):
    for capability in trial.capabilities:
        trial.require(capability)
    bare = own_program("bare", BARE)
    data, rng = bare.read({"N": 1, "x": [1.0]}), np.random.default_rng(1)
    for name, call in (("log_lik", bare.log_lik), ("y_rep", bare.y_rep)):
        with pytest.raises(ConfigError, match=f"bare has no {name}"):
            call({}, data, rng)


def test_likelihood_and_predictions_come_from_the_draws_or_from_the_rule(trial, own_program):
    data = trial.read(visits())
    draws = {"log_lik": np.arange(10.0).reshape(1, 2, 5), "y_sim": np.ones((1, 2, 5), int)}
    rng = np.random.default_rng(1)
    assert trial.log_lik(draws, data).tolist() == draws["log_lik"].tolist()
    assert trial.y_rep(draws, data, rng).dtype == np.float64
    matrix = {"log_lik": np.arange(24.0).reshape(1, 2, 3, 4)}
    assert trial.log_lik(matrix, data).shape == (1, 2, 12)
    ruled = own_program("ruled", BARE, RULE)
    data, of_mu = ruled.read({"N": 2, "x": [1.0, 3.0]}), {"mu": np.array([[0.0, 2.0]])}
    wanted = stats.norm([[0.0], [2.0]]).logpdf([1.0, 3.0])
    np.testing.assert_allclose(ruled.log_lik(of_mu, data)[0], wanted, rtol=1e-12)
    some = ruled.log_lik(of_mu, data, rows=np.array([1]))
    np.testing.assert_allclose(some[0], wanted[:, 1:], rtol=1e-12)
    many = {"mu": np.full((1, 20_000), 2.0)}
    found = ruled.y_rep(many, data, rng)
    assert abs(found.mean() - 2) < 5 / np.sqrt(40_000)
    assert found.std() == pytest.approx(1, abs=0.02)


def test_checks_and_choices_in_python(own_program):
    def refuse(data):
        if data["N"] > 2:
            raise DataError("too many")
        return ["a note"]

    moment = MissingMoment("mu", True, "why")
    python = Capabilities(
        check=refuse,
        choices={"k": lambda data: data["N"] + 10},
        missing_moments=lambda data: [moment],
    )
    text = "data { int N; int k; vector[N] y; } parameters { real mu; }"
    program = own_program("checked", text, python=python)
    whole, notes = program.fill(program.read({"N": 2, "y": [1, 2]}), {})
    assert (whole["k"], notes) == (12, ["a note"])
    assert program.missing_moments(whole) == [moment]
    kept, _ = program.fill(program.read({"N": 2, "y": [1, 2], "k": 3}), {})
    assert kept["k"] == 3
    with pytest.raises(DataError, match="too many"):
        program.fill(program.read({"N": 3, "y": [1, 2, 3]}), {})
    with pytest.raises(ConfigError, match="centered: checked offers no choice"):
        program.fill(program.read({"N": 2, "y": [1, 2]}), {}, centered=True)


PRIORS = """
[priors]
any = 1
typed = 2
least = { value = 1, lower = 0.5 }
more = { value = 1, above = 0 }
"""
WITH_PRIORS = """
data { int N; vector[N] y; real any; real least; real more; real<lower=0> typed; }
parameters { real mu; }
"""

BAD_PRIORS = [
    ({"tau": 1.0}, "prior tau: priors has no such prior; it has any, typed, least, more"),
    ({"least": 0.4}, "prior least must be a finite number and at least 0.5, got 0.4"),
    ({"more": 0}, "prior more must be a finite number and above 0, got 0"),
    ({"typed": -1}, "prior typed must be a finite number and at least 0, got -1"),
    ({"any": np.inf}, "prior any must be a finite number, got inf"),
    ({"any": np.nan}, "prior any must be a finite number, got nan"),
    ({"any": "1"}, "prior any must be a finite number, got '1'"),
    ({"any": True}, "prior any must be a finite number, got True"),
    ({"any": None}, "prior any must be a finite number, got None"),
    ({"any": 1j}, "prior any must be a finite number, got 1j"),
    ({"any": [1.0]}, "prior any must be a finite number, got [1.0]"),
]


@pytest.mark.parametrize(("given", "message"), BAD_PRIORS)
def test_a_bad_prior_is_one_sentence(own_program, given, message):
    with pytest.raises(ConfigError) as caught:
        own_program("priors", WITH_PRIORS, PRIORS).resolve_priors(given)
    assert str(caught.value) == message


def test_priors_have_defaults_and_take_numbers_of_any_type(own_program):
    program = own_program("priors", WITH_PRIORS, PRIORS)
    assert program.resolve_priors() == {"any": 1.0, "least": 1.0, "more": 1.0, "typed": 2.0}
    given = {"any": np.float32(-2), "least": np.int64(3), "more": 1e-9, "typed": 0}
    assert program.resolve_priors(given) == {"any": -2, "least": 3, "more": 1e-9, "typed": 0}
    # Hyperparameters in a data block are also checked.
    values = {"N": 1, "y": [1.0], "any": 5, "typed": np.array(3)}
    priors = program.resolve_priors(None, program.read(values))
    assert priors == {"any": 5.0, "least": 1.0, "more": 1.0, "typed": 3.0}
    assert {type(value) for value in priors.values()} == {float}
    for wrong, message in (({"typed": -1}, "typed must be a fin"), ({"any": [1, 2]}, "any ")):
        with pytest.raises(ConfigError, match=f"prior {message}"):
            program.resolve_priors(None, program.read({**values, **wrong}))
    vector = own_program(
        "vector",
        "data { int K; vector[K] s; } parameters { vector[K] a; } model { a ~ normal(0, s); }",
        '[priors]\n"s[1]" = { value = 1 }\n"s[2]" = { value = 1 }\n',
    )
    with pytest.raises(
        ConfigError, match=r"prior s: the data block has 3 values, but \S+ declares 2"
    ):
        vector.resolve_priors(None, vector.read({"K": 2, "s": [1, 2, 3]}))
    with pytest.raises(ConfigError, match="bare declares no priors; list its hyperparameters"):
        own_program("bare", BARE).resolve_priors({"s": 1})


def test_a_prior_that_counts_is_a_whole_number(own_program):
    text = "data { int<lower=1> degree; } parameters { real mu; }"
    program = own_program("counts", text, "[priors]\ndegree = 3")
    whole, _ = program.fill(program.read({}), program.resolve_priors({"degree": 4.0}))
    assert type(whole["degree"]) is int
    for given, message in (
        (2.5, "must be a whole number, got 2.5"),
        (0, "at least 1, got 0"),
    ):
        with pytest.raises(ConfigError, match=f"prior degree.* {message}"):
            program.resolve_priors({"degree": given})


def test_the_declared_prior_of_a_parameter(trial):
    density = trial.prior_of("tau", {"tau_scale": 2.0})
    assert (density.text, density.sd) == ("N(0, 2²) above 0", pytest.approx(1.2055, rel=1e-3))
    assert density.quantile(0.5) == pytest.approx(2 * 0.67449, rel=1e-4)
    assert trial.prior_of("alpha[3]", {}) is None
    with pytest.raises(ConfigError, match="tau_scale is neither a number nor a scalar of the data"):
        trial.prior_of("tau", {})


@pytest.mark.parametrize(
    ("reference", "error", "message"),
    [
        ("multilevel_poison", ConfigError, "did you mean multilevel_poisson?"),
        ("zzz", ConfigError, "no program is named 'zzz'; choose one of iid_normal"),
        ("..", ConfigError, "no program is named '..'; this is a folder"),
        ("y = x", ConfigError, "no program is named 'y = x'; a formula has a ~ after the response"),
        ("absent.stan", ConfigError, "no such Stan program; check the path"),
        ("a\0b.stan", ConfigError, "not a path that can be opened"),
        ("x" * 300 + ".stan", ConfigError, "not a path that can be opened|no such Stan program"),
        (3, ConfigError, "program must be a name, a path or a formula, got int"),
        (None, ConfigError, "program must be a name, a path or a formula, got NoneType"),
    ],
)
def test_what_names_no_program(reference, error, message):
    with pytest.raises(error, match=message):
        find_program(reference)


def test_files_that_are_no_program(tmp_path):
    (tmp_path / "text.txt").write_text("")
    with pytest.raises(ConfigError, match=r"must end in \.stan; rename it"):
        Program.open(tmp_path / "text.txt")
    (tmp_path / "folder.stan").mkdir()
    with pytest.raises(ConfigError, match="no such Stan program"):
        Program.open(tmp_path / "folder.stan")
    with pytest.raises(
        ConfigError, match=r"iid_normal is not the path of a \.stan file; leave --include out"
    ):
        find_program("iid_normal", ("lib",))


def test_includes_are_part_of_the_program(own_program, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "data.stan").write_text("data { int N; vector[N] y; }")
    text = "#include data.stan\nparameters { real mu; }"
    with pytest.raises(CompileError, match=r"#include data\.stan: no such file in"):
        own_program("parts", text)
    program = own_program("parts", text, include_paths=[tmp_path / "lib"])
    assert list(program.source.blocks.data) == ["N", "y"]
    before = program.source.sha256
    (tmp_path / "lib" / "data.stan").write_text("data { int N; vector[N] y; } // other")
    assert find_program(program.path, (str(tmp_path / "lib"),)).source.sha256 != before


def test_an_example_of_ones_own_is_beside_the_declaration(own_program, tmp_path):
    visits().to_csv(tmp_path / "visits.csv", index=False)
    program = own_program("trial", TRIAL, 'example = "visits.csv"\n' + DECLARATION)
    assert program.read().num_obs == 5


def test_a_program_that_is_named_like_a_shipped_one_is_not_it(own_program):
    program = own_program("iid_normal", BARE)
    assert program.capabilities == set()
    assert find_program(program.path).declaration != find_program("iid_normal").declaration
    assert find_program("iid_normal").can(Capability.EXACT)
