"""The terms of a response: cens(), trunc(), se() and weights(), by their definitions."""

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.stats as st
import stanli
from response_cases import CASES, CONTINUOUS, NUM, Case, table
from stanio import dump_stan_json

import pyflowers
from pyflowers.engines.bridge import Bridge, compiled
from pyflowers.engines.stanli.density import Interpreted
from pyflowers.errors import ConfigError, DataError, PyflowersError
from pyflowers.programs import Program
from pyflowers.programs.families import family_names, find_family
from pyflowers.programs.families._response import family_of
from pyflowers.programs.families._response.cens import _limits, as_censored, recorded
from pyflowers.programs.formulas.edits import with_terms

DOCS = Path(__file__).parents[3] / "docs"
NUM_POINTS = 20


def written(case, frame=None, priors=()):
    """Return a case's program and its data block."""
    frame = table() if frame is None else frame
    program = Program.from_formula(case.formula, frame, family=case.family, priors=priors)
    whole, _ = program.fill(program.read(frame), program.resolve_priors({}))
    return program, whole


def interpreted(program, data):
    """Return the interpreter's density, in this process."""
    mir = stanli.stan_to_mir(program.source.text)
    text = dump_stan_json(program.stan_values(data))
    model = stanli.bridgestan_model(mir=mir, data=text, seed=1)
    return Bridge(model.lib_path, model.model, model, forgiving=True)


def distribution(family, eta, given):
    """Return SciPy's distribution of each row, by the definitions in the families' reference."""
    name, _, link = family.partition("(")
    sigma, shape, phi = given.get("sigma"), given.get("shape"), given.get("phi")
    with np.errstate(over="ignore"):
        mean = {
            "": np.exp(eta),
            "identity)": eta,
            "probit)": st.norm.cdf(eta),
            "cloglog)": -np.expm1(-np.exp(eta)),
        }[link]
    share = 1 / (1 + np.exp(-eta)) if not link else mean
    made = {
        "gaussian": lambda: st.norm(eta, sigma),
        "student": lambda: st.t(given["nu"], eta, sigma),
        "exgaussian": lambda: st.exponnorm(given["beta"] / sigma, eta - given["beta"], sigma),
        # A quantile of 0.5 makes the distribution symmetric.
        "asym_laplace": lambda: st.laplace(eta, 2 * sigma),
        "lognormal": lambda: st.lognorm(sigma, 0, np.exp(eta)),
        "gamma": lambda: st.gamma(shape, 0, mean / shape),
        "weibull": lambda: st.weibull_min(shape, 0, mean / gamma_of(1 + 1 / shape)),
        "exponential": lambda: st.expon(0, mean),
        "beta": lambda: st.beta(share * phi, (1 - share) * phi),
        "poisson": lambda: st.poisson(mean),
        "negbinomial": lambda: st.nbinom(shape, shape / (shape + mean)),
        "geometric": lambda: st.nbinom(1, 1 / (1 + mean)),
        "binomial": lambda: st.binom(20, share),
    }
    return made[name]()


def gamma_of(x):
    """Return the gamma function."""
    from scipy.special import gamma

    return gamma(x)


def by_hand(case, frame, eta, given):
    """Return the log likelihood of each row by the definition of the terms, with SciPy."""
    response, _, terms = case.formula.partition("~")[0].partition("|")
    given, y = dict(given), frame[response.strip()].to_numpy(float)
    if "se(s)" in terms:
        given["sigma"] = frame.s.to_numpy()
    if "se(s, sigma" in terms:
        given["sigma"] = np.sqrt(frame.s.to_numpy() ** 2 + given["sigma"] ** 2)
    if "precision" in terms:
        given["sigma"] = given["sigma"] / np.sqrt(frame.w.to_numpy())
    its = distribution(case.family, eta, given)
    is_count = "count" in response
    density = its.logpmf(y) if is_count else its.logpdf(y)
    found = density.copy()
    low, high = bounds(terms, frame)
    below = low - 1 if is_count else low
    if "cens" in terms:
        kind = frame["c" if "cens(c)" in terms or "truth" in terms else "kind"].to_numpy()
        end = frame[(re.findall(r"y2 = (\w+)", terms) or ["end"])[0]].to_numpy(float)
        starts = np.where(kind == -1, below, y)
        ends = np.select([kind == 1, kind == 2], [high, end], y)
        found = np.where(kind == 0, density, log_between(its, starts, ends))
    if "trunc" in terms:
        found = found - log_between(its, below, high)
    if "weights" in terms and "precision" not in terms:
        w = frame.w.to_numpy()
        found = found * (w / w.mean() if "survey" in terms else w)
    return found


def bounds(terms, frame):
    """Return the bounds of each row."""
    inside = re.findall(r"trunc\((.*?)\)", terms)
    found = {"lb": np.full(len(frame), -np.inf), "ub": np.full(len(frame), np.inf)}
    for place, part in enumerate(inside[0].split(",") if inside else []):
        name, _, value = part.rpartition("=")
        name = name.strip() or ("lb", "ub")[place]
        value = value.strip()
        found[name] = (
            frame[value].to_numpy() if value in frame else np.full(len(frame), float(value))
        )
    return found["lb"], found["ub"]


def log_between(its, low, high):
    """Return the log of the probability of (low, high], from the smaller tails."""
    left = np.log(np.maximum(its.cdf(high) - its.cdf(low), 1e-300))
    right = np.log(np.maximum(its.sf(low) - its.sf(high), 1e-300))
    return np.where(its.cdf(low) < 0.5, left, right)


def test_tails_that_are_0_after_rounding_leave_no_probability():
    """A right-censored response that is 1e5 times its mean, within an upper bound."""
    family = family_of("gamma", ("cens", "ub"))
    values = {"shape": 1.0, "cens": np.array([1, -1]), "ub": np.array([4.0, 4.0])}
    eta = np.full((1, 1, 2), np.log(3e-5))
    found = family.log_lik(np.array([3.0, 3.0]), eta, values)
    assert found.tolist() == [[[-np.inf, 0.0]]]


def at_points(program, data):
    """Return points with a density, their values and, for each, eta and the other parameters."""
    bridge = interpreted(program, data)
    points = np.random.default_rng(7).normal(0, 0.35, (40 * NUM_POINTS, len(bridge.names)))
    values, _ = bridge.evaluate(points, False)
    kept = np.flatnonzero(np.isfinite(values))[:NUM_POINTS]
    assert len(kept) == NUM_POINTS
    rows = [dict(zip(bridge.names, row, strict=False)) for row in bridge.constrain(points[kept])]
    x = np.asarray(data.values["X"])[:, 0]
    etas = [
        row["Intercept_at_means"] + row["b.1"] * (x - float(np.ravel(data.values["X_mean"])[0]))
        for row in rows
    ]
    return bridge, points[kept], values[kept], list(zip(etas, rows, strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.family}: {case.formula}")
def test_the_likelihood_is_its_definition(case):
    """Stan's with and without the likelihood differ by the definition, and NumPy's equals it."""
    program, data = written(case)
    bridge, points, values, at = at_points(program, data)
    prior = {**program.stan_values(data), "prior_only": 1}
    without = interpreted_with(program, prior).evaluate(points, False)[0]
    frame = table()
    expected = [by_hand(case, frame, eta, given) for eta, given in at]
    totals = np.array([each.sum() for each in expected])
    assert np.ptp(totals) > 0.5  # otherwise the test is empty
    apart = values - without - totals
    assert np.ptp(apart) < 1e-9 * np.abs(totals).max()  # a vectorised density leaves constants out
    draws = draws_of(bridge, data, at)
    ours = pyflowers.programs.model.Model(program, data).log_lik(draws)[0]
    np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-9)


OF_SIGMA = [case for case in CASES if "sigma = TRUE" in case.formula or "prec" in case.formula]


@pytest.mark.parametrize("case", OF_SIGMA, ids=lambda case: f"{case.family}: {case.formula}")
def test_the_likelihood_with_a_fixed_sigma_is_its_definition(case):
    """Sigma is then data, of which the sigma of each row is a function."""
    program, data = written(case, priors=["sigma ~ constant(1.2)"])
    bridge, points, values, at = at_points(program, data)
    without = interpreted_with(program, {**program.stan_values(data), "prior_only": 1})
    expected = [by_hand(case, table(), eta, {**given, "sigma": 1.2}) for eta, given in at]
    totals = np.array([each.sum() for each in expected])
    apart = values - without.evaluate(points, False)[0] - totals
    assert np.ptp(apart) < 1e-9 * np.abs(totals).max()
    ours = pyflowers.programs.model.Model(program, data).log_lik(draws_of(bridge, data, at))[0]
    np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-9)


def interpreted_with(program, values):
    """Return the interpreter's density for other values of the data block."""
    mir = stanli.stan_to_mir(program.source.text)
    model = stanli.bridgestan_model(mir=mir, data=dump_stan_json(values), seed=1)
    return Bridge(model.lib_path, model.model, model, forgiving=True)


def draws_of(bridge, data, at):
    """Return the points as draws of one chain."""
    names = [name for name in bridge.names if name not in ("Intercept_at_means", "b.1")]
    draws = {name: np.array([[given[name] for _, given in at]]) for name in names}
    mean = float(np.ravel(data.values["X_mean"])[0])
    draws["b"] = np.array([[[given["b.1"]] for _, given in at]])
    draws["Intercept"] = np.array(
        [[given["Intercept_at_means"] - mean * given["b.1"] for _, given in at]]
    )
    return draws


SLOW = [
    Case("time | cens(word, y2 = end) + trunc(lb = 0.01) + weights(w) ~ x + (1 | g)", "gaussian"),
    Case("time | se(s, sigma = TRUE) + cens(c) ~ x; sigma ~ x", "student"),
    Case("count | trunc(1, 40) + cens(kind, y2 = count_end) ~ x", "negbinomial"),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", SLOW, ids=lambda case: case.family)
def test_both_engines_have_one_density_and_gradient(case):
    program, data = written(case)
    text = dump_stan_json(program.stan_values(data))
    pair = compiled(program.source, text, 1), Interpreted(program.source, text, 1)
    points = np.random.default_rng(3).normal(0, 0.4, (20, len(pair[0].names)))
    # Differences of probabilities lose digits if an interval is far above the mean.
    names = list(pair[0].names)
    points[:, names.index("Intercept_at_means")] += data.values["Intercept_location"]
    if "sigma" in names:
        points[:, names.index("sigma")] += np.log(data.values["sigma_scale"])
    (value, gradient), (other, other_gradient) = (each.evaluate(points, True) for each in pair)
    assert np.isfinite(value).all()
    np.testing.assert_allclose(other - other[0], value - value[0], rtol=1e-10, atol=1e-10)
    # Stan Math takes the gradient of normal_lcdf from short series that hold four digits
    # (normal_lcdf.hpp), and the difference of two such gradients holds fewer than each.
    digits = 1e-4 if case.family == "gaussian" else 1e-10
    largest = np.abs(gradient).max()
    np.testing.assert_allclose(other_gradient, gradient, rtol=digits, atol=digits * largest)
    slopes, digits = by_differences(pair[1], points), max(digits, 1e-7)
    np.testing.assert_allclose(other_gradient, slopes, rtol=digits, atol=digits * largest)


def by_differences(density, points, step=1e-5):
    """Return the gradient at each point by central differences of the log density."""
    slopes = np.empty_like(points)
    for column in range(points.shape[1]):
        shift = step * np.eye(points.shape[1])[column]
        above, below = (density.evaluate(points + way * shift, False)[0] for way in (1, -1))
        slopes[:, column] = (above - below) / (2 * step)
    return slopes


@pytest.mark.parametrize("name", [*CONTINUOUS, "weibull", "poisson", "negbinomial"])
def test_tails_add_up_to_one(name):
    """Wrong complements of the distribution functions would not."""
    family = find_family(name)
    values = {"sigma": 0.8, "nu": 4.0, "alpha": 2.0, "beta": 0.6, "quantile": 0.3, "shape": 1.7}
    y = np.arange(1.0, 9.0)
    below, above = family.tails(y, np.full(8, 1.1), values)
    np.testing.assert_allclose(np.exp(below) + np.exp(above), 1.0, rtol=1e-12)
    assert (np.diff(below) > 0).all()


# Replicates


@pytest.mark.quick
def test_replicates_of_truncated_rows_have_the_truncated_distribution():
    """Also where almost every draw of the whole distribution is outside the bounds."""
    for text, eta, low, high in (
        ("gaussian", 0.0, 4.0, np.inf),
        ("gaussian", 0.0, -0.5, 0.2),
        ("gamma", 0.0, 6.0, 9.0),
        ("poisson", 1.0, 9.0, 14.0),
    ):
        from pyflowers.programs.families._response import replicated

        family, rng = find_family(text), np.random.default_rng(5)
        values = {"sigma": np.ones((1, 1, 1)), "shape": np.full((1, 1, 1), 2.0)}
        values |= {"lb": np.full(1, low), "ub": np.full(1, high)}
        found = replicated(family, ("lb", "ub"), np.full((1, 20000, 1), eta), values, rng)[0, :, 0]
        given = {"sigma": 1.0, "shape": 2.0}
        its = distribution(text, eta, given)
        assert found.min() >= low
        assert found.max() <= high
        if text == "poisson":
            at = np.arange(9, 15)
            expected = its.pmf(at) / its.pmf(at).sum()
            assert st.chisquare([np.sum(found == k) for k in at], 20000 * expected).pvalue > 1e-4
        else:
            start, end = its.cdf(low), its.cdf(high)
            assert st.kstest((its.cdf(found) - start) / (end - start), "uniform").pvalue > 1e-4


def test_the_times_of_censoring_are_drawn_from_their_kaplan_meier_estimate():
    """Three known times: 2 (risk set of 4), 3 (of 3) and 5 (of 1), as counted by hand."""
    y = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    censored = np.array([False, True, True, False, True])
    every, rng = (y, censored), np.random.default_rng(2)
    limits = _limits(y, censored, (1, 200_000, 5), rng, every)[0]
    assert (limits[:, [1, 2, 4]] == y[[1, 2, 4]]).all()
    shares = {time: np.mean(limits[:, 0] == time) for time in (2.0, 3.0, 5.0)}
    expected = {2.0: 1 / 4, 3.0: 3 / 4 / 3, 5.0: 3 / 4 * 2 / 3}
    for time, share in expected.items():
        assert shares[time] == pytest.approx(share, abs=4 * np.sqrt(share / 200_000))
    assert (limits[:, 3] == 5).all()  # row 4 was seen until 4, so only 5 is left
    some = _limits(y[:1], censored[:1], (1, 200_000, 1), rng, every)  # of the whole table, too
    assert np.mean(some == 5) == pytest.approx(expected[5.0], abs=4 * np.sqrt(0.25 / 200_000))
    none = _limits(y, np.zeros(5, bool), (1, 10, 5), rng, (y, np.zeros(5, bool)))
    assert np.isinf(none).all()


def test_replicates_are_recorded_as_the_rows_are():
    data = {
        "y": np.array([2.0, 2.0, 2.0, 2.0]),
        "cens": np.array([1, -1, 2, 0]),
        "y2": np.array([9.0, 9.0, 2.5, 9.0]),
    }
    rng = np.random.default_rng(1)
    low = as_censored(np.full((1, 3, 4), 1.2), data, rng)[0, 0]
    high = as_censored(np.full((1, 3, 4), 7.3), data, rng)[0, 0]
    assert low[0] == 1.2  # not yet censored at 2
    assert high[0] == 2.0
    assert low[1] == 2.0
    assert high[3] in (2.0, 7.3)  # the only known time of right-censoring, or none
    alone = {"y": np.array([2.0]), "cens": np.array([2]), "y2": np.array([2.5])}
    for value, start in ((1.2, 1.0), (2.0, 1.5), (2.2, 2.0), (7.3, 7.0)):
        found = as_censored(np.full((1, 1, 1), value), alone, rng)
        assert found.item() == pytest.approx(start)


def test_simulated_data_are_censored_at_the_known_times():
    data = {"y": np.array([2.0, 2.0, 2.0]), "cens": np.array([1, -1, 0])}
    found = recorded(np.array([3.0, 3.0, 3.0]), data)
    assert found["y"].tolist() == [2, 3, 3]
    assert found["cens"].tolist() == [1, 0, 0]
    found = recorded(np.array([1.0, 1.0, 1.0]), data)
    assert found["cens"].tolist() == [0, -1, 0]


@pytest.mark.parametrize("term", ["se(s)", "se( se = s )", "se(s, sigma = FALSE)", "se(s, FALSE)"])
def test_terms_of_a_known_sigma_are_those_of_an_estimated_one(term):
    """A finding of unequal spread advises a formula that can be fitted."""
    better = with_terms(f"time | weights(w) + {term} ~ x", ["x"], "sigma")
    assert better == "time | weights(w) + se(s, sigma = TRUE) ~ x; sigma ~ x"
    assert Program.from_formula(better, table())
    other = with_terms("time | se(s, sigma = TRUE) ~ x", ["x"], "sigma")
    assert other == "time | se(s, sigma = TRUE) ~ x; sigma ~ x"


def test_the_guide_lists_the_families_that_can_be_censored():
    text = (DOCS / "how-to" / "formulas.md").read_text(encoding="utf-8")
    listed = re.search(r"can be censored and truncated:(.*?)\.", text, re.DOTALL)[1]
    assert set(re.findall(r"`(\w+)`", listed)) == {
        name for name in family_names() if find_family(name).tails is not None
    }


# Weights


def test_weights_of_rows_are_repeated_rows_and_those_of_precision_are_averages():
    """Two identities: (w rows) and (mean of w rows), with constants that no parameter changes."""
    frame = table().assign(w=np.resize([1, 2, 3], NUM))
    weighted = written(Case("time | weights(w) ~ x", "gaussian"), frame)
    repeated = frame.loc[np.repeat(frame.index, frame.w)].reset_index(drop=True)
    program, data = weighted
    draws = {
        "Intercept": np.array([[0.2, 0.9]]),
        "b": np.array([[[0.3], [-0.1]]]),
        "sigma": np.array([[0.7, 1.2]]),
    }
    own = program.log_lik(draws, data).sum(-1)
    plain = Program.from_formula("time ~ x", repeated)
    block, _ = plain.fill(plain.read(repeated), plain.resolve_priors({}))
    np.testing.assert_allclose(own, plain.log_lik(draws, block).sum(-1), rtol=1e-12)
    precise, of_precise = written(
        Case("time | weights(w, kind = precision) ~ x", "gaussian"), frame
    )
    y, mean = frame.time.to_numpy(), 0.2 + 0.3 * frame.x.to_numpy()
    expected = st.norm.logpdf(y, mean, 0.7 / np.sqrt(frame.w))
    np.testing.assert_allclose(precise.log_lik(draws, of_precise)[0, 0], expected, rtol=1e-12)


def test_an_unknown_variable_of_a_response_is_refused():
    with pytest.raises(ConfigError, match="'cen' is not a variable of a response term; write cens"):
        family_of("gaussian", ("cen",))
    with pytest.raises(ConfigError, match="family cumulative has no distribution function here"):
        family_of("cumulative", ("cens",))


# Inputs that are refused

WRONG = table().assign(
    bad=np.resize([0, 1, 3], NUM),
    words=np.resize(["none", "dead"], NUM),
    none=1,
    gap=[np.nan, *np.ones(NUM - 1)],
    zero=0.0,
    minus=-1.0,
    text="a",
    half=0.5,
    early=0.01,
)
BAD = [
    ("time | ~ x", "", "may follow the response and |, not nothing; correct it"),
    (
        "time | c ~ x",
        "",
        "only trials(), cens(), trunc(), se(), weights() and mi(), joined by +, may",
    ),
    ("time | cens(c) + ~ x", "", "not nothing; correct it"),
    ("time | cens(c) + cens(c) ~ x", "", "cens() follows the response twice; keep only one"),
    ("time | censor(c) ~ x", "", "censor() is not a term of a response; did you mean cens?"),
    ("time | cens() ~ x", "", "cens() has no censored; write cens(c), where c is a column of -1"),
    ("time | cens(c, end, s) ~ x", "", "cens() has more than 2 arguments; write cens(c)"),
    (
        "time | cens(c, upper = end) ~ x",
        "",
        "cens() has no argument upper; cens() has the arguments",
    ),
    ("time | cens(c, censored = c) ~ x", "", "cens() has censored twice; keep only one"),
    ("time | cens(c, y2 = ) ~ x", "", "cens() has no value for y2; write cens(c)"),
    (
        "time | cens(1 - c) ~ x",
        "",
        "'1 - c', which is not the name of a column; compute the column",
    ),
    ("time | cens(dead) ~ x", "", "there is no column 'dead'; the columns are"),
    ("time | cens(bad) ~ x", "", "row 3: bad is 3, but cens() reads 0 for rows that are not cens"),
    (
        "time | cens(words) ~ x",
        "",
        "row 2: words is 'dead', but cens() reads left, none, right, in",
    ),
    (
        "time | cens(kind) ~ x",
        "",
        "row 6: kind marks an interval, but its upper end is not known; ",
    ),
    ("time | cens(none) ~ x", "", "none marks every row as censored; give at least one row that"),
    ("time | cens(gap) ~ x", "", "1 of 24 rows lacks gap (row 1); fill in what is missing"),
    (
        "time | cens(kind, y2 = low) ~ x",
        "",
        "an interval begins at time and ends above it, at low;",
    ),
    ("share | cens(c) ~ x", "ordered_beta", "family ordered_beta takes no cens(), as Stan has"),
    ("time | cens(c) ~ x", "skew_normal", "family skew_normal takes no cens(), as Stan has"),
    ("count | trunc(lb = 1) ~ x", "hurdle_poisson", "family hurdle_poisson takes no trunc(), as"),
    ("time | trunc() ~ x", "", "trunc() has no lb; write trunc(lb = 0), trunc(ub = 10) or both"),
    ("time | trunc(lb = 3, ub = 2) ~ x", "", "the lower bound 3 is not below the upper bound 2;"),
    (
        "time | trunc(lb = 2) ~ x",
        "",
        "below the bound 2 of trunc(); correct it or the bound, or lea",
    ),
    ("time | trunc(ub = early) ~ x", "", "above the bound 0.01 of trunc(); correct it or the b"),
    (
        "count | trunc(lb = 0.5) ~ x",
        "poisson",
        "the bound 0.5 of trunc() is not a whole number, as",
    ),
    ("time | cens(c) + trunc(ub = time) ~ x", "", "which is the bound"),
    ("time | se(zero) ~ x", "", "row 1: zero is 0, but a standard error must be above 0; correct"),
    (
        "time | se(text) ~ x",
        "",
        "row 1: text is 'a', not a finite number; give a column of numbers",
    ),
    ("time | se(s, sigma = 2) ~ x", "", "sigma in se() is 2; write TRUE or FALSE"),
    ("time | se(s) ~ x", "gamma", "family gamma takes no se(); choose gaussian or student"),
    (
        "time | se(s) ~ x; sigma ~ x",
        "",
        "sigma is known, as se() gives it; write se(…, sigma = TRUE",
    ),
    (
        "time | weights(minus) ~ x",
        "",
        "row 1: minus is -1, but a weight must be 0 or above; correct",
    ),
    ("time | weights(zero) ~ x", "", "zero is 0 in every row, so no row counts; correct it"),
    ("time | weights(zero, kind = precision) ~ x", "", "zero is 0, but a weight must be above 0;"),
    ("time | weights(w, kind = row) ~ x", "", "weights have no kind 'row'; did you mean rows?"),
    ("time | weights(w, scale = TRUE) ~ x", "", "write kind = survey, which divides weights by"),
    ("time | weights(w, kind = precision) ~ x", "gamma", "takes no weights with kind = precision"),
    (
        "time | se(s) + weights(w, kind = precision) ~ x",
        "",
        "has no sigma that weights with kind",
    ),
]


@pytest.mark.parametrize(("formula", "family", "message"), BAD, ids=range(len(BAD)))
def test_a_bad_term_is_one_sentence_with_a_remedy(formula, family, message):
    with pytest.raises(PyflowersError) as caught:
        Program.from_formula(formula, WRONG, family=family or "gaussian")
    said = str(caught.value)
    assert message in said
    assert "\n" not in said
    assert re.search(r"; (?!$)|did you mean", said)


def test_a_right_term_is_not_refused():
    """Negative control of the table of bad terms."""
    for case in CASES:
        assert Program.from_formula(case.formula, WRONG, family=case.family)


def test_a_word_that_a_table_of_predictions_lacks_is_refused():
    program, _ = written(Case("time | cens(word, y2 = end) ~ x", "gaussian"))
    other = table().assign(word="dead")
    with pytest.raises(DataError, match="row 1: word is 'dead', which is not one of none, right"):
        program.read(other)


def test_words_numbers_and_truth_are_one_thing():
    frame = table().assign(word=lambda its: np.where(its.c == 1, "right", "none"))
    found = []
    for column in ("c", "word", "truth"):
        _, data = written(Case(f"time | cens({column}) ~ x", "gaussian"), frame)
        found.append(np.asarray(data.values["cens"]).tolist())
    assert found[0] == found[1] == found[2]
