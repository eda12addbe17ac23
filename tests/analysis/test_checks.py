"""Predictive checks fail for data that break the model, and pass for data simulated from it."""

import functools
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from command_line import run
from example_fits import program_of, table_of
from own_programs import SECTIONS, TRIAL, visits
from scipy.stats import chi2
from synthetic_fits import synthetic_fit, table

import pyflowers
from pyflowers.analysis import checks, findings, remedies
from pyflowers.analysis.checks import LooPit, PredictiveCheck, _on_k_hat
from pyflowers.analysis.ecdf import uniform_band
from pyflowers.analysis.statistics import OF_COUNTS, STATISTICS, Groups, find_statistics
from pyflowers.data import from_frame
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs.families import family_names, find_family
from pyflowers.resources import flowers_csv

pytestmark = pytest.mark.usefixtures("in_a_shell")

NUM_PLANTS, NUM_MONTHS = 20, 12
SAMPLER = {"chains": 2, "warmup": 500, "draws": 500, "engine": "stanli"}


def counts_of(plant_by_month):
    """Turn counts of shape (plant, month) into a table."""
    rows = [
        (f"p{p}", month, int(value))
        for p, months in enumerate(plant_by_month)
        for month, value in enumerate(months)
    ]
    return from_frame(pd.DataFrame(rows, columns=["plant", "month", "flowers"]))


def made(kind):
    """Simulate data from the Poisson model, or data that break it in one way."""
    rng = np.random.default_rng(11)
    rate = np.exp(rng.normal(1.6, 0.4, NUM_PLANTS))[:, None] * np.ones(NUM_MONTHS)
    if kind == "overdispersed":
        rate = rate * rng.gamma(1.0, 1.0, rate.shape)
    y = rng.poisson(rate)
    if kind == "zero_inflated":
        y[rng.random(y.shape) < 0.25] = 0
    if kind == "wild_plant":
        y[3] = rng.poisson(150, NUM_MONTHS)
    if kind == "wild_month":
        y[3, 5] = 60
    return counts_of(y)


@functools.cache
def checked(kind, name="multilevel_poisson", **priors):
    data = made(kind)
    fit = pyflowers.fit(name, data, seed=1, priors=priors, **SAMPLER)
    return pyflowers.check(fit)


def failed(found):
    return {check.name for check in found.failed}


def test_data_that_are_the_models_pass():
    found = checked("good")
    assert found.passed
    assert [c.name for c in found.checks] == [
        *("mean", "variance_to_mean", "zeros", "maximum", "dispersion_within"),
        *("autocorrelation", "spread[plant]", "group_outlier", "loo_pit"),
    ]
    longer = {**SAMPLER, "draws": 1000}
    found = pyflowers.check(pyflowers.fit("multilevel_poisson", made("good"), seed=1, **longer))
    assert found.verdict.data.brief == "the data pass all 9 predictive checks"


@pytest.mark.parametrize(
    ("kind", "name", "flagged"),
    [
        ("overdispersed", "multilevel_poisson", {"dispersion_within", "zeros", "loo_pit"}),
        ("zero_inflated", "multilevel_poisson", {"zeros", "loo_pit"}),
        ("wild_month", "multilevel_poisson", {"maximum"}),
        ("wild_plant", "multilevel_poisson", {"group_outlier"}),
        ("wild_plant", "iid_normal", {"minimum", "sd_within", "loo_pit"}),
    ],
)
def test_each_check_flags_data_that_break_it(kind, name, flagged):
    found = checked(kind, name)
    assert flagged <= failed(found), found
    output = str(found)
    assert f"of {len(found.checks)} predictive checks fail" in output
    for check in found.failed:
        finding = check.finding.partition(" (")[0]  # the table above has the numbers
        assert finding in " ".join(output.split())
        assert " ".join(check.advice.split()) in " ".join(output.split())


def test_the_mean_is_flagged_where_a_prior_forbids_it():
    """The prior on the population contradicts the data and pulls the means away from them."""
    tight = {"mu_mean": 0.0, "mu_sd": 0.01, "sigma2_nu": 1e6, "sigma2_scale": 0.05}
    found = checked("good", **tight)
    assert "mean" in failed(found)
    mean = next(check for check in found.checks if check.name == "mean")
    assert mean.finding.startswith(
        "the counts of flowers are larger on average than the model predicts (mean 5.5"
    )
    assert re.search(r"; 90% interval of replicated data [\d.]+ to [\d.]+\)$", mean.finding)
    assert "pyflowers sensitivity" in mean.advice


def test_one_wild_plant_shows_only_against_the_population():
    """The model fits the wild plant's mean perfectly, so only group_outlier detects this plant."""
    assert failed(checked("wild_plant")) == {"group_outlier"}
    (outlier,) = checked("wild_plant").failed
    assert outlier.finding.startswith("plant p3, the most distant plant, is farther from the rest")
    groups = checked("wild_plant").groups
    low, high = np.quantile(groups.replicated[:, 3], (0.05, 0.95))
    assert low < groups.observed[3] < high


@pytest.mark.parametrize(
    "name",
    [
        *("mean", "variance_to_mean", "zeros", "maximum", "group_outlier"),
        *("dispersion_within", "autocorrelation"),
    ],
)
def test_p_values_of_the_models_own_data_are_seldom_extreme(name):
    """For data simulated from the model, few p-values are beyond the limits."""
    values = _p_values()[name]
    assert np.mean((values < 0.01) | (values > 0.99)) <= 0.05
    assert 0.3 < values.mean() < 0.7


@functools.cache
def _p_values():
    """Return p-values of 40 data sets; `synthetic_fit` approximates the posterior well."""
    found = {}
    for seed in range(40):
        rng = np.random.default_rng([5, seed])
        rate = np.exp(rng.normal(1.5, 0.5, 8))[:, None] * np.ones(6)
        fit = synthetic_fit(
            "multilevel_poisson", counts_of(rng.poisson(rate)), seed=seed, draws=100
        )
        for check in pyflowers.check(fit).checks:
            found.setdefault(check.name, []).append(check.p_value)
    return {name: np.array(values) for name, values in found.items()}


def test_a_p_value_counts_half_of_the_ties():
    fit = synthetic_fit("multilevel_poisson", table(["a", "b", "c"], 6))
    found = pyflowers.check(fit)
    for check in found.checks[:-1]:
        above = (check.replicated > check.observed) + 0.5 * (check.replicated == check.observed)
        assert check.p_value == above.mean()
    row = found.table().loc["zeros"]
    assert row["observed"] == np.mean(fit.data.y == 0)
    assert row["5%"] <= row["median"] <= row["95%"]


def test_statistics_are_what_they_say():
    y = np.array([[0, 0, 3, 5.0], [1, 1, 1, 1], [0, 0, 0, 0]])
    expected = {
        "mean": y.mean(1),
        "sd": y.std(1, ddof=1),
        "variance_to_mean": [y[0].var(ddof=1) / 2, 0, 0],
        "zeros": [0.5, 0, 1],
        "minimum": [0, 1, 0],
        "median": [1.5, 1, 0],
        "maximum": [5, 1, 0],
    }
    assert set(expected) == set(STATISTICS)
    for name, values in expected.items():
        assert np.allclose(STATISTICS[name].function(y), values), name


def test_the_most_distant_group_is_grubbs_statistic():
    groups = Groups.of(made("good").labels("plant"), NUM_PLANTS * NUM_MONTHS, counts=False)
    y = np.random.default_rng(1).normal(size=(3, NUM_PLANTS * NUM_MONTHS))
    means = y.reshape(3, NUM_PLANTS, NUM_MONTHS).mean(2)
    away = np.abs(means - means.mean(1, keepdims=True)).max(1) / means.std(1, ddof=1)
    assert np.allclose(groups.outlier(y), away)
    assert np.all(groups.outlier(np.ones_like(y)) == 0)


def uneven(rng, shape):
    """Return four groups of 1, 2, 4 and 5 shuffled rows, their codes, and counts."""
    labels = table(["a", "b", "c", "d"], 3).labels("plant")
    codes = rng.permutation(np.repeat(np.arange(4), [1, 2, 4, 5]))
    groups = Groups.of(replace(labels, codes=codes), 12, counts=True)
    return groups, codes, rng.poisson(2.0, shape).astype(float)


def test_what_varies_within_groups_is_pooled_over_them():
    groups, codes, y = uneven(np.random.default_rng(1), (3, 12))
    y[:, codes == 2] = 0  # zeros alone contain no information on dispersion
    y[2] = 0
    of_measurements = replace(groups, counts=False)
    for row, sd, index in zip(y, of_measurements.within(y), groups.within(y), strict=True):
        parts = [row[codes == g] for g in range(4)]
        squares = [((part - part.mean()) ** 2).sum() for part in parts]
        assert sd == pytest.approx(np.sqrt(sum(squares) / 8))
        some = [(s / p.mean(), p.size - 1) for s, p in zip(squares, parts, strict=True) if p.any()]
        total, free = np.sum(some, axis=0) if some else (1, 1)
        assert index == pytest.approx(total / free if free else 1)


def test_dispersion_within_groups_of_poisson_counts_is_1_whatever_their_rates():
    rng = np.random.default_rng(2)
    groups, codes, _ = uneven(rng, (1, 12))
    rate = np.array([0.3, 100.0, 0.1, 5.0])[codes]
    for factor, expected in ((1, 1), (2, 2)):
        found = groups.within(factor * rng.poisson(rate, (20000, 12)))
        weights = 1 / np.sqrt(found.size)
        assert abs(found.mean() - expected) < 4 * found.std() * weights


def test_autocorrelation_is_of_consecutive_times_within_a_group():
    rng = np.random.default_rng(3)
    groups, codes, y = uneven(rng, (2, 12))
    times = np.zeros(12, dtype=int)
    times[codes == 1] = [0, 1]
    times[codes == 2] = [5, 0, 1, 6]
    times[codes == 3] = [4, 3, 1, 0, 7]
    pairs = groups.consecutive(times)
    # Group 1 is left out: it has two rows, whose deviations from their mean are always opposite.
    expected = {(2, 0, 1), (2, 5, 6), (3, 0, 1), (3, 3, 4)}
    assert {(codes[a], times[a], times[b]) for a, b in pairs.T} == expected
    assert np.all(codes[pairs[0]] == codes[pairs[1]])
    y[1, codes == 2] = 3.0  # a group that does not vary has no correlation
    for row, found in zip(y, groups.autocorrelation(y, pairs), strict=True):
        products = []
        for a, b in pairs.T:
            own = row[codes == codes[a]]
            var = own.var() or np.inf
            products.append((row[a] - own.mean()) * (row[b] - own.mean()) / var)
        assert found == pytest.approx(np.mean(products))


def test_values_that_resemble_those_before_are_flagged_in_the_users_words():
    rng = np.random.default_rng(4)
    wave = 5 + np.cumsum(rng.normal(size=(6, 30)), axis=1)
    rows = [(f"pen {g}", day, w) for g, each in enumerate(wave) for day, w in enumerate(each)]
    names = ("pen", "day", "milk")
    fit = synthetic_fit("multilevel_normal", from_frame(pd.DataFrame(rows, columns=names)))
    found = {check.name: check for check in pyflowers.check(fit).failed}
    assert found["autocorrelation"].finding.startswith(
        "the values of milk resemble those of the previous day within each pen more than the model "
        "predicts (autocorrelation at lag 1 0."
    )


def largest_step(y):
    return np.abs(np.diff(y)).max()


def test_a_function_of_ones_own_is_checked_by_its_name(tmp_path):
    fit = synthetic_fit("multilevel_poisson", table(["a", "b", "c"], 6))
    file = tmp_path / "own.py"
    file.write_text("import numpy as np\ndef odd(y):\n    return np.mean(y % 2)\n")
    found = pyflowers.check(fit, ["median", largest_step, f"{file}:odd", "numpy:ptp"])
    by_name = {check.name: check for check in found.checks}
    assert by_name["largest_step"].observed == largest_step(fit.data.y)
    assert by_name["odd"].observed == np.mean(fit.data.y % 2)
    assert by_name["ptp"].observed == np.ptp(fit.data.y)
    assert by_name["median"].observed == np.median(fit.data.y)


def raises(y):
    raise ValueError("no luck")


@pytest.mark.parametrize(
    ("statistic", "message"),
    [
        ("skew", "statistic 'skew': there is no statistic of that name; choose one of mean, sd"),
        ("nowhere:f", "statistic 'nowhere:f': nowhere cannot be imported (ModuleNotFoundError"),
        ("math:nothing", "statistic 'math:nothing': math has no function nothing"),
        ("none.py:f", "statistic 'none.py:f': there is no file none.py; correct the path"),
        (3, "statistic 3 is neither a name nor a function of y; choose one of mean, sd"),
        (
            lambda y: y,
            "must return one finite number for each data set, but returned something else",
        ),
        (lambda y: np.nan, "must return one finite number for each data set, but returned NaN"),
        (raises, "statistic raises failed on a data set of 12 values (ValueError: no luck)"),
    ],
    ids=["name", "module", "function", "file", "type", "array", "nan", "raises"],
)
def test_a_statistic_that_cannot_be_computed_is_one_sentence(statistic, message):
    fit = synthetic_fit("multilevel_poisson", table(["a", "b", "c"], 4))
    with pytest.raises(ConfigError, match=re.escape(message)):
        pyflowers.check(fit, [statistic])


def test_two_functions_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="statistic largest_step: two statistics have this name"):
        find_statistics([largest_step, largest_step], OF_COUNTS)


def test_few_replicates_are_spread_over_the_draws():
    fit = synthetic_fit("iid_normal", table(["a", "b", "c"], 6))
    found = pyflowers.check(fit, replicates=200)
    assert found.num_replicates == 200
    assert found.checks[0].replicated.shape == (200,)
    with pytest.raises(ConfigError, match="must be a whole number of at least 200, got 199"):
        pyflowers.check(fit, replicates=199)


def test_of_large_data_fewer_sets_have_new_groups(monkeypatch):
    fit = synthetic_fit("multilevel_poisson", table(["a", "b", "c"], 6))
    monkeypatch.setattr(checks, "MOST_GROUPED", 18 * 400)
    found = pyflowers.check(fit)
    outlier = next(check for check in found.checks if check.name == "group_outlier")
    assert outlier.replicated.shape == (400,)
    assert found.num_replicates == 2000
    assert found.notes == ("group_outlier: only 400 data sets with new groups are replicated",)


def test_blocks_do_not_change_what_is_found(monkeypatch):
    """Checks of replicates that Stan has drawn do not depend on the size of blocks in memory."""
    fit = pyflowers.fit(program_of("pumps"), table_of("pumps"), seed=1, **SAMPLER)
    whole = pyflowers.check(fit).table()
    monkeypatch.setattr(checks, "BLOCK_VALUES", 35)
    pd.testing.assert_frame_equal(pyflowers.check(fit).table(), whole)


@pytest.mark.parametrize(
    ("p", "size", "text"),
    [
        (0.0, 4000, "p < 0.00025"),
        (0.5 / 4000, 4000, "p < 0.00025"),
        (1.0, 4000, "p > 0.99975"),
        (0.0798, 4000, "p = 0.0798"),
        (3.03e-11, 0, "p = 3.03e-11"),
        (0.0, 0, "p < 1e-12"),
        (1.0, 0, "p = 1.00"),
    ],
)
def test_a_p_value_is_not_said_to_be_0_or_1(p, size, text):
    assert PredictiveCheck("x", "x", p, 0.0, 0.0, np.zeros(size)).p_text == text


def beta(a, b):
    return np.random.default_rng(1).beta(a, b, 300)


@pytest.mark.parametrize(
    ("u", "words"),
    [
        (
            beta(0.5, 0.5),
            r"the counts of flowers vary more than the model predicts: [34]\d% of them",
        ),
        (beta(2.0, 2.0), r"the counts of flowers vary less than the model predicts: \d% of them"),
        (beta(1.5, 1.0), r"predictions are too low: 6\d% of the counts of flowers are above"),
        (beta(1.0, 1.5), r"predictions are too high: 3\d% of the counts of flowers are above"),
        # These have the same mean and spread as uniform values.
        (
            0.5 + np.repeat([-1, 1], 150) * np.sqrt(1 / 12),
            "50% of the counts of flowers are below their predicted 21% quantile$",
        ),
    ],
    ids=["U", "hump", "low", "high", "no simple shape"],
)
def test_the_shape_of_the_pits_says_what_is_wrong(u, words):
    fit = synthetic_fit("multilevel_poisson", table(["a", "b", "c"], 6))
    pit = LooPit(u, np.arange(300), 300, 2000, np.zeros(300), 0.7)
    finding, advice = findings.of_pits(fit, pit.values, pit.band.points)
    assert re.match(words, finding)
    assert advice


@pytest.mark.parametrize(
    ("num_bad", "words"),
    [
        (40, "without them the check passes, so its failure depends on them"),
        (4, "without them the check fails as well"),
    ],
)
def test_large_k_hats_are_said_to_matter_or_not(num_bad, words):
    """The check fails because of the first 40 PITs."""
    u = np.concatenate([np.full(40, 1e-3), np.linspace(0.02, 0.98, 200)])
    k_hat = np.where(np.arange(240) < num_bad, 1.0, 0.1)
    found = _on_k_hat(LooPit(u, np.arange(240), 240, 2000, k_hat, 0.7))
    assert found.startswith(f"for {num_bad} of 240 observations the LOO check is approximate")
    assert "; this concerns LOO only, not estimates and effects" in found
    assert found.endswith(words)


@pytest.mark.parametrize(
    ("program", "family", "advice"),
    [
        ("flowers ~ 1 + (1 | plant)", "poisson", "refit with --family negbinomial"),
        (
            "multilevel_poisson",
            None,
            'the formula "`number of flowers` ~ 1 + (1 | plant)" --family negbinomial',
        ),
    ],
)
def test_overdispersion_leads_to_a_family_with_dispersion(program, family, advice):
    rng = np.random.default_rng(1)
    counts = rng.poisson(rng.gamma(1, 5, 40))
    frame = pd.DataFrame(
        {"plant": np.repeat(list("abcd"), 10), "month": [*range(10)] * 4, "flowers": counts}
    )
    called = {} if family else {"value": "number of flowers"}
    frame = frame.rename(columns={"flowers": called.get("value", "flowers")})
    options = {"seed": 1, "engine": "stanli", "draws": 300}
    fit = pyflowers.fit(program, frame, family=family, **called, **options)
    failed = [check for check in pyflowers.check(fit).verdict.data.checks if not check.passed]
    assert failed
    assert any(advice in check.advice for check in failed)


FAST = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 200, "draws": 200}


def test_a_quantile_regression_is_checked_by_the_share_below_its_quantile():
    """Its likelihood is a working one, so no other family is advised for spread and shape."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"x": rng.uniform(0, 2, 120), "g": np.resize(list("abcdef"), 120)})
    frame["y"] = 5 + frame.x * (1 + rng.exponential(size=120))
    how = {"family": "asym_laplace", **FAST}
    fit = pyflowers.fit("y ~ x + (1 | g)", frame, priors={"quantile": 0.8}, **how)
    found = pyflowers.check(fit)
    (below,) = found.checks
    assert (below.name, below.passed, below.advice) == ("below_quantile", True, "")
    assert below.meaning == "share below the fitted 80% quantile"
    place = np.asarray(fit.data.values["g"]) - 1
    eta = fit.draws["Intercept"][..., None] + fit.draws["b"] * frame.x.to_numpy()
    limit = eta + fit.draws["r_g"][..., place]
    assert below.observed == pytest.approx(np.median((frame.y.to_numpy() < limit).mean(axis=2)))
    assert 0.7 < below.observed < 0.9
    assert abs(below.replicated.mean() - 0.8) < 0.01
    assert any("is used to estimate a quantile" in note for note in found.notes)
    more = pyflowers.check(fit, ["median"]).checks
    assert [each.name for each in more] == ["median", "below_quantile"]
    logs = pyflowers.fit("y ~ x", frame, priors={"quantile": 0.8}, link="log", **how)
    eta = logs.draws["Intercept"][..., None] + logs.draws["b"] * frame.x.to_numpy()
    shares = (frame.y.to_numpy() < np.exp(eta)).mean(axis=2)
    assert logs.check().checks[0].observed == pytest.approx(np.median(shares))
    # A prior far from the data moves the quantile away from them.
    priors = {"quantile": 0.8, "Intercept": "normal(30, 0.1)", "b": "normal(0, 0.01)"}
    (above,) = pyflowers.fit("y ~ x", frame, priors=priors, **how).check().checks
    assert not above.passed
    assert above.finding.startswith("more of the values of y are below their fitted quantile than")
    assert "sensitivity" in above.advice
    assert "family" not in above.advice


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bernoulli", "gaussian", "poisson", "cumulative"])
def test_curvature_along_a_covariate_is_found_unless_the_model_has_it(family):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=400), "my w": rng.normal(size=400)})
    eta = frame.x**2 - 1 + frame["my w"]
    frame["y"] = {
        "bernoulli": rng.binomial(1, 1 / (1 + np.exp(-2 * eta))),
        "gaussian": eta + rng.normal(size=400),
        "poisson": rng.poisson(np.exp(eta / 2)),
        "cumulative": np.digitize(eta + rng.logistic(size=400), [-1, 0, 1]) + 1,
    }[family]
    found = pyflowers.check(pyflowers.fit("y ~ x + `my w`", frame, family=family, **FAST))
    named = {check.name: check for check in found.checks}
    assert not named["curvature[x]"].passed
    assert "of y along x is larger than the model" in named["curvature[x]"].finding
    assert re.search(r"\+ I\(x\*\*2\)|bs\(x, df=4\)", named["curvature[x]"].advice)
    curved = pyflowers.fit("y ~ x + I(x**2) + `my w`", frame, family=family, **FAST)
    again = {check.name: check for check in pyflowers.check(curved).checks}
    assert again["curvature[my w]"].passed
    assert again["mean[x]"].passed
    assert "curvature[x]" not in again  # the model fits it


def test_values_0_and_1_and_ratings_have_no_checks_that_cannot_fail():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"g": list("abcd") * 10, "y": rng.integers(0, 2, 40)})
    found = pyflowers.check(pyflowers.fit("y ~ g", frame, family="bernoulli", **FAST))
    assert [check.name for check in found.checks] == ["mean", "autocorrelation[rows]", "loo_pit"]
    assert "the values of y are 0 and 1, so their spread is not checked" in found.notes[0]
    frame["y"] += 1
    found = pyflowers.check(pyflowers.fit("y ~ g", frame, family="cumulative", **FAST))
    names = ["mean", "sd", "spread[g]", "autocorrelation[rows]", "loo_pit"]
    assert {check.name for check in found.checks} == {*names}
    assert not found.notes
    found = pyflowers.check(pyflowers.fit("y ~ (1 | g)", frame, family="cumulative", **FAST))
    assert {check.name for check in found.checks} == {*names, "sd_within", "group_outlier"}


ADMISSIONS = pd.DataFrame(
    {
        "dept": np.repeat(list("ABCDEF"), 2),
        "gender": ["m", "f"] * 6,
        "admitted": [512, 89, 353, 17, 120, 202, 138, 131, 53, 94, 22, 24],
        "n": [825, 108, 560, 25, 325, 593, 417, 375, 191, 393, 373, 341],
    }
)
"""Applicants to Berkeley in 1973 (Bickel, Hammel and O'Connell 1975, Science 187; R's datasets)."""


@pytest.mark.slow
def test_an_interaction_that_successes_need_is_found_in_their_cells():
    rows = ADMISSIONS.loc[ADMISSIONS.index.repeat(ADMISSIONS.n)]
    place = rows.groupby(level=0).cumcount()
    rows = rows.assign(admitted=(place < rows.admitted).astype(int))
    rows = rows.sample(frac=1, random_state=1)
    longer = {**FAST, "warmup": 500, "draws": 1000}
    for response, family, frame in (
        ("admitted", "bernoulli", rows),
        ("admitted | trials(n)", "binomial", ADMISSIONS),
    ):
        found = pyflowers.check(
            pyflowers.fit(f"{response} ~ gender + dept", frame, family=family, **longer)
        )
        (cells,) = (check for check in found.checks if check.name == "interaction[gender:dept]")
        # Pearson's statistic of the additive logistic regression is 18.82 on 5 degrees of freedom.
        assert cells.observed == pytest.approx(18.8, abs=0.4)
        assert cells.replicated.mean() == pytest.approx(5, abs=0.6)
        # The p-value of this check alone is that of Pearson's test.
        alone = np.mean(cells.replicated > cells.observed)
        assert alone == pytest.approx(chi2.sf(18.82, 5), abs=0.004)
        # A model with a parameter for every cell fits all cells, so they are not checked.
        whole = pyflowers.check(
            pyflowers.fit(f"{response} ~ gender * dept", frame, family=family, **longer)
        )
        assert "interaction[gender:dept]" not in {check.name for check in whole.checks}
        if family == "bernoulli":
            assert not cells.passed
            assert "the effect of gender on the values of admitted depends more" in cells.finding
            assert '"admitted ~ gender * dept" --family bernoulli' in cells.advice


def test_the_p_values_of_patterns_are_adjusted_for_their_number(tmp_path):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.normal(size=(60, 4)), columns=list("xzwy"))
    frame["year"] = np.tile([95, 96, 97], 20)
    fit = pyflowers.fit("y ~ x + z + w + C(year)", frame, **FAST)
    found = {check.name: check for check in pyflowers.check(fit).checks}
    patterns = {name: check for name, check in found.items() if "[" in name}
    assert {f"curvature[{column}]" for column in "xzw"} == {
        name for name in found if name.startswith("curvature")
    }
    assert {check.limit for check in patterns.values()} == {0.005}
    for check in patterns.values():
        alone = np.mean(check.replicated >= check.observed)
        assert check.p_value >= min(alone, 1 - alone) - 1e-9
    assert found["mean"].limit == 0.0025
    loaded = pyflowers.Fit.load(fit.save(tmp_path / "run"))
    assert [check.name for check in pyflowers.check(loaded).checks] == list(found)
    low, high = (replace(found["curvature[x]"], p_value=p) for p in (0.004, 1.0))
    assert not low.passed
    assert high.passed  # only small p-values count
    judged = replace(found["loo_pit"], p_value=0.995).judged
    assert judged.passed
    assert judged.relation == "≥"
    assert judged.threshold == pytest.approx(0.01)


def test_a_wild_group_of_a_formula_is_found():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"g": np.repeat([f"s{i:02}" for i in range(12)], 6)})
    frame["x"], effect = rng.normal(size=72), np.repeat(rng.normal(size=12), 6)
    frame["y"] = 1 + effect + frame.x + rng.normal(0, 0.7, 72)
    wild = frame.assign(y=frame.y + 12 * (frame.g == "s03"))
    for table_, passes in ((frame, True), (wild, False)):
        for formula in ("y ~ x + (1 | g)", "y ~ x + (x | g)"):
            found = pyflowers.check(pyflowers.fit(formula, table_, **FAST))
            (check,) = (check for check in found.checks if check.name == "group_outlier")
            assert check.passed == passes
    assert "s03, the most distant g, is farther from the rest than the model" in check.finding


def test_a_suggested_square_is_centred_near_the_mean():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"year": 98765 + 10 * rng.normal(size=200)})
    frame["y"] = ((frame.year - 98765) / 10) ** 2 + rng.normal(0, 0.3, 200)
    advice = advice_of("y ~ year", frame, "gaussian", "curvature[year]")
    centre = float(re.search(r"I\(\(year - ([\d.]+)\)\*\*2\)", advice)[1])
    assert abs(centre - frame.year.mean()) < 2


def advice_of(formula, frame, family, name):
    found = pyflowers.check(pyflowers.fit(formula, frame, family=family, **FAST))
    return next(check.advice for check in found.checks if check.name == name)


def test_the_advice_suits_the_family_and_the_values():
    rng = np.random.default_rng(1)
    skewed = pd.DataFrame({"y": np.exp(1.5 * rng.normal(size=200))})
    assert "--family lognormal or --family gamma" in advice_of("y ~ 1", skewed, None, "minimum")
    heavy = pd.DataFrame({"y": [*np.exp(rng.normal(size=200)), 1e9, 1e9]})
    assert "try another family" in advice_of("y ~ 1", heavy, "lognormal", "maximum")
    matched = pd.DataFrame({"g": np.repeat(np.arange(60), 3).astype(str), "y": [1, 0, 0] * 60})
    advice = advice_of("y ~ 1 + (1 | g)", matched, "bernoulli", "dispersion_within")
    assert "as in a matched case-control study" in advice


def test_heavy_tails_are_named_and_not_blamed_on_the_prior_of_the_sd():
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({"x": rng.normal(size=600)})
    frame["y"] = frame.x + rng.standard_t(2, 600)
    found = pyflowers.check(pyflowers.fit("y ~ x", frame, **FAST))
    (pits,) = (check for check in found.checks if check.name == "loo_pit")
    u = found.pit.values
    outside, far = np.mean(np.abs(u - 0.5) > 0.4), np.mean(np.abs(u - 0.5) > 0.495)
    assert outside < 0.2
    assert far > 0.01
    assert f"{outside:.0%} are outside the 80% interval" in pits.finding
    assert f"{far:.1%} outside the 99% interval" in pits.finding
    assert pits.advice == "refit with --family student"


def test_a_quantile_near_an_end_has_its_decimals():
    """Rounding must not turn a quantile near 1 into "their predicted 100% quantile"."""
    fit = pyflowers.fit("y ~ 1", pd.DataFrame({"y": np.arange(9.0)}), **FAST)
    u = np.concatenate([np.linspace(0.0, 1, 900), np.full(30, 0.9971)])
    pit = LooPit(u, np.arange(930), 930, 4000, np.zeros(930), 0.7)
    found, _ = findings.of_pits(fit, pit.values, pit.band.points)
    assert "100% quantile" not in found
    assert re.search(r"below their predicted 99\.\d\d% quantile", found)


def test_a_factor_is_suggested_for_a_covariate_with_few_values():
    rng = np.random.default_rng(9)
    frame = pd.DataFrame({"dose": np.tile([0.5, 1.0, 2.0], 40)})
    frame["y"] = -((frame.dose - 1) ** 2) * 9 + rng.normal(size=120)
    advice = advice_of("y ~ dose", frame, None, "mean[dose]")
    assert advice == 'refit with the formula "y ~ C(dose)"'
    assert "bs(" not in advice


def test_the_seed_repeats_a_check():
    fit = synthetic_fit("multilevel_poisson", table(["a", "b", "c"], 6))
    first, again, other = (pyflowers.check(fit, seed=seed).table() for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(first, again)
    assert not first["p_value"].equals(other["p_value"])


def test_pits_keep_their_number_of_draws_and_their_band():
    pit = checked("good").pit
    assert pit.num_draws == 1000
    assert pit.values.shape == pit.k_hat.shape == (NUM_PLANTS * NUM_MONTHS,)
    band = uniform_band(pit.values.size, num_draws=1000, prob=0.99)
    assert np.array_equal(pit.band.lower, band.lower)
    assert band.contains(pit.values)


def test_a_pit_is_what_a_refit_without_the_observation_gives():
    """Compare with exact leave-one-out of the normal model, whose predictions are t-distributed."""
    from scipy.stats import t

    y = np.random.default_rng(4).normal(3, 2, 24)
    rows = [("ab"[i % 2], i // 2, value) for i, value in enumerate(y)]
    data = from_frame(pd.DataFrame(rows, columns=["plant", "month", "flowers"]))
    # The prior on sigma2 is nearly proportional to 1 / sigma2, and the prior on mu is flat.
    priors = {"mu_sd": 1e6, "sigma2_nu": 1e-6}
    how = {"warmup": 500, "draws": 4000, "engine": "stanli"}
    pit = pyflowers.check(pyflowers.fit("iid_normal", data, seed=1, priors=priors, **how)).pit
    for n in range(y.size):
        rest = np.delete(y, n)
        scale = rest.std(ddof=1) * np.sqrt(1 + 1 / rest.size)
        exact = t.cdf((y[n] - rest.mean()) / scale, rest.size - 1)
        assert abs(pit.values[n] - exact) < 4 * np.sqrt(0.25 / 4000)


def test_of_many_observations_a_sample_stands_for_all(monkeypatch):
    fit = synthetic_fit("multilevel_poisson", table([f"p{i}" for i in range(30)], 10), draws=50)
    monkeypatch.setattr(checks, "MOST_VALUES", 200 * 60)
    found = pyflowers.check(fit)
    assert found.pit.values.size == 60
    assert np.all(np.diff(found.pit.rows) > 0)
    assert "loo_pit: computed for 60 of 300 observations, evenly spaced" in found.notes


def test_a_program_that_cannot_replicate_is_told_what_to_add(own_program):
    text = TRIAL.replace("int y_sim;", "int y_other;").replace("y_sim[n] =", "y_other[n] =")
    program = own_program("trial", text, declaration=SECTIONS)
    fit = pyflowers.fit(program, visits(), seed=1, chains=1, warmup=50, draws=20, engine="stanli")
    output = (
        "trial has no y_rep, which is needed for posterior predictive checks: declare y_rep in "
    )
    with pytest.raises(ConfigError, match=re.escape(output)):
        pyflowers.check(fit)


def test_a_program_without_log_lik_has_the_other_checks(own_program):
    text = TRIAL.replace("vector[N] log_lik;", "vector[N] other;").replace(
        "log_lik[n] =", "other[n] ="
    )
    program = own_program("trial", text, declaration=SECTIONS)
    fit = pyflowers.fit(program, visits(), seed=1, chains=2, warmup=100, draws=50, engine="stanli")
    found = pyflowers.check(fit)
    assert found.pit is None
    assert "loo_pit" not in {check.name for check in found.checks}
    assert any("loo_pit is left out, as the program has no log_lik" in n for n in found.notes)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["epil", "pumps", "rats", "seeds"])
def test_the_examples_of_bugs_are_checked_predicted_and_contrasted(name):
    how = {**SAMPLER, "draws": 1000, "warmup": 1000}
    fit = pyflowers.fit(program_of(name), table_of(name), seed=1, **how)
    found = pyflowers.check(fit)
    assert found.passed, found
    assert found.groups.replicated.shape == (2000, len(fit.data.by_group))
    predicted = pyflowers.predict(fit).table()
    inside = predicted["5%"] <= predicted["95%"]
    assert len(predicted) == len(fit.data.by_group) + 1
    assert inside.all()
    vector = next(q for q in fit.posterior.values() if q.ndim == 3)
    ranks = pyflowers.contrast(fit, f"rank({vector.name})").ranks()
    assert len(ranks) == vector.shape[2]


def test_a_function_with_the_name_of_a_statistic_is_refused_in_any_order():
    def minimum(y):
        return 0.0

    for wanted in (["minimum", minimum], [minimum, "minimum"]):
        with pytest.raises(ConfigError, match="minimum: two statistics have this name"):
            find_statistics(wanted, [])
    assert len(find_statistics(["minimum", "minimum"], ["minimum"])) == 1


WORDS = dict.fromkeys(("x", "other", "term", "num", "most", "trials", "share", "order"), "_")


def test_each_need_has_a_remedy_for_each_kind_of_program():
    frame = pd.DataFrame({"x": np.arange(40.0), "y": np.random.default_rng(1).normal(size=40)})
    of_formula = pyflowers.fit("y ~ x", frame, **FAST)
    of_counts = synthetic_fit("multilevel_poisson", table(["a", "b", "c"], 6))
    of_program = synthetic_fit("multilevel_normal", table(["a", "b", "c"], 6))
    # Only a formula's response is sent to another family.
    of_responses = {"ratings", "scores", "shares", "shares with ends", "amounts", "positive"}
    for need in remedies.REMEDIES:
        assert remedies.advise(of_formula, need, WORDS), need
        assert remedies.advise(of_counts, need, WORDS), need
        text = remedies.advise(of_program, need, WORDS)
        assert text, need
        assert need in of_responses or "--family" not in text
    assert remedies.advise(of_program, "") == ""


def test_alternatives_of_a_family_take_the_same_responses():
    for name in family_names():
        family = find_family(name)
        assert name not in family.alternatives
        for other in map(find_family, family.alternatives):
            assert (other.is_discrete, other.has_trials) == (family.is_discrete, family.has_trials)
            assert other.limits == family.limits
            assert other.excludes.keys() <= family.excludes.keys()
            assert all(its.link for its in other.auxiliary)


def test_an_alternative_has_the_link_and_the_parameters_of_the_formula():
    frame = pd.DataFrame({"x": np.arange(40.0) / 20, "y": np.random.default_rng(1).poisson(3, 40)})
    few = {**FAST, "chains": 1, "warmup": 50, "draws": 20}
    of_probit = pyflowers.fit("y | trials(40) ~ x", frame, family="binomial(probit)", **few)
    alternatives = [each.text for each in of_probit.model.alternatives]
    assert alternatives == ["beta_binomial(probit)", "zero_inflated_binomial(probit)"]
    frame["y"] += 1
    plain, formula = (
        pyflowers.fit(f"y ~ x{more}", frame, family="gamma", **few) for more in ("", "; shape ~ x")
    )
    assert [each.name for each in plain.model.alternatives] == [
        *("weibull", "lognormal", "inverse_gaussian")
    ]
    assert [each.name for each in formula.model.alternatives] == ["weibull", "inverse_gaussian"]


def test_a_normal_fit_to_zeros_and_ones_is_sent_to_bernoulli():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"x": rng.normal(size=80), "y": rng.uniform(size=80) < 0.8})
    fit = pyflowers.fit("y ~ x", frame, **FAST)
    largest = next(c for c in pyflowers.check(fit).checks if c.name == "maximum")
    assert largest.advice == "all values are 0 or 1: refit with --family bernoulli"
    counts = pyflowers.fit("y ~ x", frame, family="poisson", **FAST)
    few = (counts, "maximum", "maximum", 1.0, np.array([2.0, 3.0]), "")
    assert "bernoulli" not in findings.of_statistic(*few)[1]  # rare events may be counts


@pytest.mark.parametrize(
    ("y", "name", "words"),
    [
        (np.repeat([0.0, 2, 4, 6, 8, 10], 20), "maximum", "only 6 different values: refit with"),
        (np.arange(120.0) % 26, "maximum", '"y | trials(25) ~ x" --family binomial'),
        (np.linspace(0.1, 0.9, 120), "maximum", "refit with --family beta"),
        (18 + np.arange(120.0) % 40, "minimum", "values are cut off at a limit"),
    ],
)
def test_a_bounded_response_is_sent_to_its_family_and_its_effects_are_not_blamed(y, name, words):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=120), "y": y})
    fit = pyflowers.fit("y ~ x", frame, **{**FAST, "chains": 1, "draws": 50})
    end = y.max() if name == "maximum" else y.min()
    beyond = end + np.linspace(1, 2, 50) * (1 if name == "maximum" else -1)
    finding, advice = findings.of_statistic(fit, name, name, float(end), beyond, "")
    assert f"{'smaller' if name == 'maximum' else 'larger'} than the model predicts" in finding
    assert words in advice
    assert "only predictions near this limit are affected: average effects" in advice


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("y ~ x", "student"),
        ("y | weights(w) ~ x", "student"),
        ("y | se(s, sigma = TRUE) ~ x", "student"),
        ("y | se(s) ~ x", "student"),
        ("y | cens(c) ~ x", "student"),  # data sets of another family are censored as these are
        ("y | trunc(lb = -100) ~ x", "student"),
    ],
)
def test_families_are_compared_with_the_terms_of_the_response(formula, family):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=120), "w": 2.0, "s": 0.5, "c": 0})
    frame.loc[:2, "c"] = 1
    frame["y"] = frame.x + 0.5 * rng.standard_t(2, 120)
    fit = pyflowers.fit(formula, frame, **{**FAST, "chains": 1, "draws": 50})
    advice = remedies.advise(fit, "tails")
    assert advice.startswith(f"refit with --family {family}")


def test_excess_zeros_in_amounts_and_shares_are_sent_to_their_families():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=120)})
    few = {**FAST, "chains": 1, "draws": 50}
    for y, words in (
        (
            np.exp(rng.normal(size=120)),
            "30% of the values are 0, and the others are above 0: refit",
        ),
        (rng.beta(2, 2, 120), "some values are 0 or 1: refit with --family ordered_beta"),
    ):
        frame["y"] = np.where(np.arange(120) < 36, 0, y)
        fit = pyflowers.fit("y ~ x", frame, **few)
        below = -np.linspace(1, 2, 50)
        assert words in findings.of_statistic(fit, "minimum", "minimum", 0.0, below, "")[1]
        with pytest.raises(DataError, match=r"choose hurdle_gamma|or ordered_beta"):
            pyflowers.fit("y ~ x", frame, family="gamma" if y.max() > 1 else "beta", **few)


def test_a_family_without_a_better_alternative_is_not_sent_to_another():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": np.linspace(-1, 1, 80), "row": np.arange(80)})
    p = 1 / (1 + np.exp(-2 * np.sin(4 * frame.x) - rng.normal(0, 0.1, 80)))
    frame["y"] = rng.binomial(40, p)
    fit = pyflowers.fit("y | trials(40) ~ x + (1 | row)", frame, family="binomial", **FAST)
    assert remedies.advise(fit, "wider").startswith("look at the most extreme rows")


def test_a_copy_with_a_flat_prior_is_checked_without_new_groups(tmp_path):
    path = tmp_path / "mine.stan"
    assert run("new", path, "--from", "multilevel_normal") == 0
    found = pyflowers.check(pyflowers.fit(path, flowers_csv(), **FAST))
    assert "group_outlier" not in {each.name for each in found.checks}
    assert any(note.startswith("group_outlier is left out: ") for note in found.notes)


def test_few_replicates_fail_no_check_by_chance():
    frame = pd.DataFrame(
        {"x": np.arange(30.0), "z": np.arange(30.0) ** 2 % 7, "y": np.arange(30.0)}
    )
    frame["y"] = frame.y**2 + np.random.default_rng(1).normal(size=30)
    fit = pyflowers.fit("y ~ x + z", frame, **FAST)
    assert not any("cannot fail" in note for note in pyflowers.check(fit).notes)
    few = pyflowers.check(fit, replicates=200)
    named = {each.name: each for each in few.checks}
    assert named["curvature[x]"].p_value == 0
    assert not named["curvature[x]"].passed
    short = pyflowers.check(pyflowers.fit("y ~ x + z", frame, **{**FAST, "draws": 20, "chains": 2}))
    assert short.passed
    assert (
        "with 40 replicated data sets, some checks cannot fail; at least 200 are needed"
        in short.notes
    )
    assert all(each.can_fail for each in few.checks)
    assert {each.name for each in short.checks if each.can_fail} <= {"loo_pit"}
    assert short.verdict.data.status == "not examined"


def test_checks_that_cannot_fail_are_not_part_of_the_verdict():
    fit = synthetic_fit("multilevel_poisson", table(["a", "b", "c"], 8))
    found = pyflowers.check(fit)
    judged = found.verdict.data
    assert (judged.status, len(judged.checks)) == ("passed", len(found.checks))
    few = [replace(each, replicated=each.replicated[:50]) for each in found.checks]
    some = replace(found, checks=(*few[:2], *found.checks[2:])).verdict.data
    assert [each.name for each in some.checks] == [each.name for each in found.checks[2:]]
    assert f"all {len(found.checks) - 2} predictive checks" in some.claim
    none = replace(found, checks=tuple(few[:2])).verdict.data
    assert str(none) == "not examined (with so few replicated data sets, no check can fail)"


@pytest.mark.parametrize(("chains", "draws", "sets"), [(1, 1, "set"), (4, 1, "sets")])
def test_a_handful_of_draws_shows_nothing_about_the_data(chains, draws, sets):
    fit = synthetic_fit("multilevel_poisson", table(["a", "b"], 8), chains=chains, draws=draws)
    found = pyflowers.check(fit)  # a warning would be an error
    assert found.verdict.prior.status == found.verdict.data.status == "not examined"
    notes = "\n".join(found.notes)
    assert f"with {chains * draws} replicated data {sets}, some checks cannot fail" in notes
    assert "k-hat above" not in notes
    assert chains == 1 or "(too few different draws)" in notes


def test_draws_that_fail_a_diagnostic_do_not_show_that_the_model_fits():
    def stick(draws, stats):
        stats["divergent__"][0, 0] = 1

    data = table(["a", "b", "c"], 8)
    assert pyflowers.check(synthetic_fit("iid_normal", data)).verdict.data.status == "passed"
    found = pyflowers.check(synthetic_fit("iid_normal", data, change=stick))
    assert found.passed
    assert found.verdict.data.note == "the draws do not yet represent the posterior"


def test_the_rounding_of_constant_groups_is_no_autocorrelation():
    labels = from_frame(pd.DataFrame({"g": ["a"] * 6 + ["b"] * 6})).labels("g")
    groups = Groups.of(labels, 12, False)
    pairs = np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    y = np.concatenate([np.full(6, 0.1), np.arange(6.0)])[None]
    assert groups.autocorrelation(y, pairs) == 0


def test_the_rounding_of_constant_values_is_no_pattern_along_a_covariate():
    frame = pd.DataFrame({"x": np.linspace(0.1, 2.3, 40), "y": 3})
    fit = pyflowers.fit("y ~ x", frame, family="poisson", **FAST)
    named = {each.name: each for each in pyflowers.check(fit).checks}
    assert abs(named["autocorrelation[x]"].observed) < 1e-2
    assert not {"autocorrelation[x]", "curvature[x]"} & {
        n for n, c in named.items() if not c.passed
    }


def test_a_statistic_cannot_have_the_name_of_a_check():
    def autocorrelation(y):
        return float(y[0])

    with pytest.raises(ConfigError, match="autocorrelation: two statistics have this name"):
        find_statistics([autocorrelation], OF_COUNTS)


def test_the_spread_of_values_0_and_1_is_checked_within_groups():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"y": rng.integers(0, 2, 60), "g": np.repeat(list("abcdef"), 10)})
    for formula, said in (
        ("y ~ 1", "not checked; to"),
        ("y ~ (1 | g)", "not checked, except within"),
    ):
        notes = pyflowers.check(pyflowers.fit(formula, frame, family="bernoulli", **FAST)).notes
        assert any(said in note for note in notes)


def test_weights_of_rows_leave_the_data_unjudged():
    how = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 300, "draws": 500}
    frame = pd.DataFrame(
        {"y": [0, 1] * 8, "f": np.repeat(["a", "b"], 8), "w": [*[90, 10, 80, 20] * 2, *[5, 95] * 4]}
    )
    fit = pyflowers.fit("y | weights(w) ~ f", frame, family="bernoulli", **how)
    found = pyflowers.check(fit)
    data = found.verdict.data
    assert data.status == "not examined"
    assert "repeat each row as often, and leave out weights()" in data.note
    assert not any(each.advice for each in found.checks)
    assert "passed" not in found.contents()[1].columns
    expanded = frame.loc[frame.index.repeat(frame.w)].sample(frac=1, random_state=1)
    fit = pyflowers.fit("y ~ f", expanded, family="bernoulli", **how)
    assert pyflowers.check(fit).verdict.data.status == "passed"
    ones = frame.assign(w=1)
    fit = pyflowers.fit("y | weights(w) ~ f", ones, family="bernoulli", **how)
    assert pyflowers.check(fit).verdict.data.status != "not examined"
