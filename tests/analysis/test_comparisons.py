"""All pairs, marginal means, differences of differences and joint intervals, by their definitions.

Every number is computed again from the draws.
"""

import itertools

import numpy as np
import pandas as pd
import pytest
from row_fits import FRAME, NUM, b, fit_of
from scipy.special import expit

import pyflowers
from pyflowers.errors import ConfigError, DataError

X = FRAME.x.to_numpy()
DOSES = ("high", "low", "zero")
MALE = (FRAME.sex == "m").to_numpy()


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def draws(fit, *columns, **options):
    return np.asarray(pyflowers.effects(fit, *columns, **options).draws())


INVERSES = {"gaussian": lambda eta: eta, "poisson": np.exp, "bernoulli": expit}
FITS = {
    "gaussian": ("y ~ x * dose + sex", "gaussian"),
    "poisson": ("count ~ x * dose + sex", "poisson"),
    "bernoulli": ("hit ~ x * dose + sex", "bernoulli"),
}


def mean_by_hand(family, dose, x=X, male=MALE):
    """Return the expected response of each row with a dose."""
    fit = fit_of(*FITS[family])
    eta = fit.draws["Intercept"][..., None] + b(fit, "x") * x + b(fit, "sexm") * male
    if dose != "high":
        eta = eta + b(fit, f"dose{dose}") + b(fit, f"x:dose{dose}") * x
    return INVERSES[family](eta)


@pytest.mark.parametrize("family", FITS)
def test_all_pairs_of_levels(family):
    fit = fit_of(*FITS[family])
    of = {dose: mean_by_hand(family, dose).mean(axis=2) for dose in DOSES}
    pairs = list(itertools.combinations(DOSES, 2))
    found = pyflowers.effects(fit, "dose", pairs=True)
    assert found.table().index.tolist() == [("dose", f"{b} - {a}") for a, b in pairs]
    by_hand = np.stack([of[b] - of[a] for a, b in pairs], axis=2)
    close(found.draws(), by_hand)
    table = found.table()
    close(table["P(> 0)"], (by_hand > 0).mean(axis=(0, 1)))
    close(table["P(< 0)"], (by_hand < 0).mean(axis=(0, 1)))
    if family != "gaussian":
        ratios = np.stack([of[b] / of[a] for a, b in pairs], axis=2)
        close(draws(fit, "dose", pairs=True, scale="ratio"), ratios)


@pytest.mark.parametrize("family", FITS)
def test_marginal_means(family):
    fit = fit_of(*FITS[family])
    found = pyflowers.effects(fit, "dose", means=True)
    assert found.table().index.tolist() == [("dose", dose) for dose in DOSES]
    assert found.table().index.names == ["column", "at"]
    close(found.draws(), np.stack([mean_by_hand(family, d).mean(axis=2) for d in DOSES], axis=2))
    assert not [name for name in found.table() if str(name).startswith("P(")]
    by_sex = draws(fit, "dose", means=True, by="sex")
    male = mean_by_hand(family, "low")[..., MALE].mean(axis=2)
    where = pyflowers.effects(fit, "dose", means=True, by="sex").table().index
    close(by_sex[..., where.get_loc(("dose", "low", "m"))], male)


@pytest.mark.parametrize("family", FITS)
def test_means_of_a_balanced_grid(family):
    fit = fit_of(*FITS[family])
    found = draws(fit, "dose", means=True, balanced=True)
    at = np.full(2, X.mean()), np.array([0.0, 1.0])
    close(found, np.stack([mean_by_hand(family, d, *at).mean(axis=2) for d in DOSES], axis=2))


@pytest.mark.parametrize("family", ["poisson", "bernoulli"])
def test_the_average_of_ratios_and_the_ratio_of_averages(family):
    fit = fit_of(*FITS[family])
    one, other = mean_by_hand(family, "low"), mean_by_hand(family, "high")
    close(draws(fit, "dose", scale="average ratio")[..., 0], (one / other).mean(axis=2))
    close(draws(fit, "dose", scale="ratio")[..., 0], one.mean(axis=2) / other.mean(axis=2))
    table = pyflowers.effects(fit, "dose", scale="average ratio").table()
    close(table["P(> 1)"].iloc[0], ((one / other).mean(axis=2) > 1).mean())


def test_differences_of_differences():
    fit = fit_of(*FITS["poisson"])
    found = pyflowers.effects(fit, "dose", between=("high", "low"), by="sex", differences=True)
    assert found.table().index.get_level_values("sex").tolist() == ["f", "m", "m - f"]
    rows = mean_by_hand("poisson", "low") - mean_by_hand("poisson", "high")
    male, female = rows[..., MALE].mean(axis=2), rows[..., ~MALE].mean(axis=2)
    close(found.draws(), np.stack([female, male, male - female], axis=2))
    ratio = draws(fit, "dose", between=("high", "low"), by="sex", differences=True, scale="ratio")
    close(ratio[..., 2], ratio[..., 1] / ratio[..., 0])
    options = {"by": "sex", "differences": True, "scale": "ratio"}
    found = pyflowers.effects(fit, "dose", between=("high", "low"), **options).table()
    assert found.index.get_level_values("sex").tolist() == ["f", "m", "m / f"]


def test_effects_by_any_column_of_the_table():
    fit = fit_of("hits | trials(n) ~ x * dose", "binomial")
    found = pyflowers.effects(fit, "x", by=["n", "dose"])
    keys = {(str(n), dose) for n, dose in zip(FRAME.n, FRAME.dose, strict=True)}
    assert {(n, dose) for *_, n, dose in found.table().index} == keys


def test_a_joint_interval_contains_all_effects_at_once():
    fit = fit_of(*FITS["gaussian"])
    found = pyflowers.effects(fit, "dose", pairs=True, joint=True)
    table, values = found.table(), np.asarray(found.draws()).reshape(-1, 3)
    low, high = table["joint low"].to_numpy(), table["joint high"].to_numpy()
    inside = ((values >= low) & (values <= high)).all(axis=1).mean()
    assert 0.9 <= inside < 0.93
    assert (low <= table["5%"]).all()
    assert (high >= table["95%"]).all()
    # By hand: the smallest t of the definition.
    ranks = np.argsort(np.argsort(values, axis=0, kind="stable"), axis=0) + 1
    num = len(values)
    t = next(
        t
        for t in range(num // 2, num + 1)
        if ((ranks >= num + 1 - t) & (ranks <= t)).all(axis=1).mean() >= 0.9
    )
    close(low, np.sort(values, axis=0)[num - t])
    close(high, np.sort(values, axis=0)[t - 1])
    assert "all 3 rows of the table lie between" in str(found)
    # One effect alone has its usual interval, up to one draw.
    alone = pyflowers.effects(fit, "sex", joint=True).table()
    assert abs(alone["joint low"] - alone["5%"]).max() < 0.1


def test_codes_are_compared_only_among_their_values():
    frame = FRAME.assign(grade=np.arange(NUM) % 4 + 1)
    fit = fit_of("y ~ grade * sex", frame=frame)
    assert pyflowers.effects(fit, "grade").table().index.tolist() == [
        ("grade", "2 - 1"),
        ("grade", "3 - 1"),
        ("grade", "4 - 1"),
    ]
    slope = b(fit, "grade")[..., 0] + b(fit, "grade:sexm")[..., 0] * MALE.mean()
    close(draws(fit, "grade"), np.stack([slope, 2 * slope, 3 * slope], axis=2))
    assert len(pyflowers.effects(fit, "grade", pairs=True).table()) == 6
    means = draws(fit, "grade", means=True)
    close(means[..., 3] - means[..., 0], 3 * slope)
    assert pyflowers.effects(fit, "grade", step=1).table().index.tolist() == [("grade", "+ 1")]


def test_numbers_that_are_compared_are_told_apart():
    frame = FRAME.assign(day=np.where(np.arange(NUM) % 2, 20191.5, 20192.5))
    fit = fit_of("y ~ day + x", frame=frame)
    for options, change in (
        ({}, "20192.5 - 20191.5"),
        ({"pairs": True}, "20192.5 - 20191.5"),
        ({"between": (20191, 20191.25)}, "20191.25 - 20191"),
    ):
        found = pyflowers.effects(fit, "day", **options)
        assert found.table().index.tolist() == [("day", change)]
        low, high = (float(each) for each in reversed(change.split(" - ")))
        close(found.draws(), b(fit, "day") * (high - low))
        assert found.words == (f"for day = {change.replace(' - ', ' compared with ')}",)


def test_a_constant_column_is_compared_with_one_more():
    fit = fit_of("y ~ 0 + one + x", frame=FRAME.assign(one=3.0))
    assert pyflowers.effects(fit, "one").table().index.tolist() == [("one", "+ 1")]


def test_effects_at_the_points_of_a_grid():
    fit = fit_of(*FITS["poisson"])
    found = pyflowers.effects(fit, "dose", between=("high", "low"), grid="x = 0:2:1, sex = m")
    assert found.table().index.names == ["column", "change", "x", "sex"]
    at = np.array([0.0, 1.0, 2.0]), np.ones(3)
    close(found.draws(), mean_by_hand("poisson", "low", *at) - mean_by_hand("poisson", "high", *at))
    every = pyflowers.effects(fit, grid="dose = *").table().index
    assert set(every.get_level_values("column")) == {"x", "sex"}


def test_effects_on_probabilities():
    fit = fit_of("rating ~ x * sex", "cumulative")

    def probability(shift):
        eta = b(fit, "x") * (X + shift) + b(fit, "sexm") * MALE
        eta = eta + b(fit, "x:sexm") * (X + shift) * MALE
        below = expit(fit.draws["threshold"][..., None, :] - eta[..., None])
        edges = np.pad(below, [(0, 0)] * 3 + [(1, 1)], constant_values=(0, 1))
        return np.diff(edges, axis=3).mean(axis=2)

    found = pyflowers.effects(fit, "x", kind="probability")
    assert found.table().index.names == ["column", "change", "outcome"]
    close(found.draws(), probability(1) - probability(0))
    np.testing.assert_allclose(np.asarray(found.draws()).sum(axis=2), 0, atol=1e-12)
    ratio = draws(fit, "x", kind="probability", outcome="= 3", scale="ratio")
    close(ratio[..., 0], (probability(1) / probability(0))[..., 2])
    counts = fit_of("count ~ x", "poisson")
    none = [
        np.exp(-np.exp(counts.draws["Intercept"][..., None] + b(counts, "x") * x))
        for x in (X, X + 1)
    ]
    found = draws(counts, "x", kind="probability")
    close(found[..., 0], none[0].mean(axis=2) - none[1].mean(axis=2))


BAD = [
    (("x",), {"pairs": True}, "x has 60 distinct numbers"),
    (("x",), {"means": True}, "x has 60 distinct numbers"),
    ((), {"means": True}, "need at least one column"),
    (("dose",), {"means": True, "pairs": True}, "means are not comparisons"),
    (("dose",), {"means": True, "rope": (-1, 1)}, "means are not comparisons"),
    (("dose",), {"pairs": True, "between": ("low", "high")}, "compares all levels, so"),
    (("x",), {"pairs": True, "slopes": True}, "compares all levels, so"),
    (("dose",), {"differences": True}, "column that has at least two values"),
    (("dose",), {"kind": "linear"}, "kind must be expected or probability"),
    (("dose",), {"kind": "expected", "outcome": "> 0"}, "applies only to kind 'probability'"),
    (("dose",), {"kind": "probability", "outcome": "x"}, "outcome must be an integer"),
    (("dose",), {"grid": "weight = 3"}, "'weight' is not a column"),
    (("dose",), {"grid": "x = 1", "new": FRAME}, "leave out one of them"),
    (("dose",), {"scale": "mean"}, "scale must be one of"),
    (("dose",), {"grid": "x = 1", "by": "site"}, "there is no column"),
]


@pytest.mark.parametrize(("columns", "options", "words"), BAD)
def test_what_cannot_be_compared_is_refused_in_a_sentence(columns, options, words):
    with pytest.raises((ConfigError, DataError)) as refused:
        pyflowers.effects(fit_of(*FITS["poisson"]), *columns, **options)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_ratios_of_numbers_below_zero_are_refused():
    with pytest.raises(ConfigError, match="scale 'average ratio' needs expected values above 0"):
        pyflowers.effects(fit_of("y ~ x"), "x", between=(-50, 50), scale="average ratio")


def test_the_record_names_what_was_computed():
    found = pyflowers.effects(
        fit_of("count ~ x", "poisson"), "x", kind="probability", outcome=["= 0", "> 3"], joint=True
    ).to_dict()
    assert found["kind"] == "probability"
    assert [each["outcome"] for each in found["effects"]] == ["= 0", "> 3"]
    assert isinstance(pd.DataFrame(found["effects"])["joint low"][0], float)
