"""Contrasts of effects, marginal means and predictions by name, and of one effect of groups."""

import json

import numpy as np
import pytest
from command_line import run
from matplotlib.figure import Figure
from row_fits import FRAME, fit_of
from scipy.stats import rankdata

import pyflowers
from pyflowers.errors import ConfigError
from pyflowers.plots.results import figures_of

MODEL = ("count ~ x * dose + sex", "poisson")


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def value(fit, text, **options):
    return pyflowers.contrast(fit, text, **options).derived[0].values


def test_effects_by_name():
    fit = fit_of(*MODEL)
    every = np.asarray(pyflowers.effects(fit, "dose", pairs=True).draws())
    close(value(fit, "effect[dose, low - high]"), every[..., 0])
    close(value(fit, "effect[dose, zero - low] > 0"), every[..., 2] > 0)
    close(value(fit, "effect[dose]"), np.asarray(pyflowers.effects(fit, "dose").draws()))
    for change, options in (
        ("", {}),
        (", + 1", {}),
        (", + 1 sd", {"step": "sd"}),
        (", + 2", {"step": 2}),
        (", slope", {"slopes": True}),
        (", 3 - 1", {"between": (1, 3)}),
    ):
        expected = np.asarray(pyflowers.effects(fit, "x", **options).draws())[..., 0]
        close(value(fit, f"effect[x{change}]"), expected)
    one, other = (np.asarray(pyflowers.effects(fit, name).draws())[..., 0] for name in ("x", "sex"))
    close(value(fit, "effect[x] / effect[sex]"), one / other)


def test_means_and_predictions_by_name():
    fit = fit_of(*MODEL)
    means = np.asarray(pyflowers.effects(fit, "dose", means=True).draws())
    close(value(fit, "mean[dose = low]"), means[..., 1])
    close(value(fit, "mean[dose]"), means)
    close(value(fit, "mean[dose = low] - mean[dose = high]"), means[..., 1] - means[..., 0])
    two = pyflowers.predict(fit, FRAME.assign(dose="low", x=2.0), kind="expected").draws()
    close(value(fit, "mean[dose = low, x = 2]"), np.asarray(two).mean(axis=2))
    at = np.asarray(pyflowers.predict(fit, grid="x = 0:2:1, dose = low").draws())
    close(value(fit, "prediction[x = 0:2:1, dose = low]"), at)
    close(value(fit, "prediction[x = 1, dose = low]"), at[..., 1])
    close(value(fit, "max(prediction[x = 0:2:1, dose = low])"), at.max(axis=2))


def test_a_league_table_of_means():
    fit = fit_of(*MODEL)
    found = pyflowers.contrast(fit, "rank(mean[dose])").ranks()
    means = np.asarray(pyflowers.effects(fit, "dose", means=True).draws())
    assert found.index.tolist() == [f"rank(mean[dose])[{d}]" for d in ("high", "low", "zero")]
    close(found["P(first)"], (means.argmax(axis=2)[..., None] == np.arange(3)).mean(axis=(0, 1)))


def test_one_effect_of_several_of_a_group_is_ranked():
    fit = fit_of("y ~ x + (x | site)")
    intercepts = fit.draws["r_site"][..., 0]
    close(value(fit, "r_site[Intercept]"), intercepts)
    close(value(fit, "rank(r_site[x])"), rankdata(-fit.draws["r_site"][..., 1], axis=2))
    close(value(fit, "r_site[a]"), fit.draws["r_site"][:, :, list(fit.posterior.site).index("a")])
    close(
        value(fit, "r_site[a,x] - r_site[b,x]"),
        value(fit, "r_site[a]")[..., 1] - value(fit, "r_site[b]")[..., 1],
    )
    table = pyflowers.contrast(fit, "rank(r_site[Intercept])").ranks()
    assert set(table.index) == {f"rank(r_site[Intercept])[{site}]" for site in "abcdef"}


def test_the_effect_of_a_slope_that_varies_is_that_in_the_population():
    fit = fit_of("y ~ x + (x | site)")
    close(
        value(fit, "effect[x]"),
        np.asarray(pyflowers.effects(fit, "x", groups="population").draws())[..., 0],
    )


def test_numbers_have_the_probability_of_their_sign_and_joint_intervals():
    fit = fit_of(*MODEL)
    found = pyflowers.contrast(fit, "effect[dose]", "effect[x]", joint=True)
    table = found.numbers()
    close(table["P(> 0)"].iloc[2], (value(fit, "effect[x]") > 0).mean())
    draws = np.concatenate([value(fit, "effect[dose]"), value(fit, "effect[x]")[..., None]], axis=2)
    inside = (draws >= table["joint low"].to_numpy()) & (draws <= table["joint high"].to_numpy())
    assert 0.9 <= inside.all(axis=2).mean() < 0.93
    assert "all numbers lie" in str(found)


def test_a_ratio_has_the_probability_that_it_is_above_1():
    fit = fit_of(*MODEL)
    slope, expected = value(fit, "b[x]"), value(fit, "mu[dose low] / mu[dose high]")
    texts = "b[x]", "exp(b[x])", "mu[dose low] / mu[dose high]", "b[x] / -2"
    table = pyflowers.contrast(fit, *texts, joint=True).numbers()
    above = [(slope > 0).mean(), (slope > 0).mean(), (expected > 1).mean()]
    close(table["P(> 0)"], [above[0], np.nan, np.nan, (slope < 0).mean()])
    close(table["P(> 1)"], [np.nan, *above[1:], np.nan])
    assert 0 < above[2] < 1
    only = pyflowers.contrast(fit, "exp(b)").numbers()
    assert "P(> 0)" not in only
    close(only["P(> 1)"], (fit.draws["b"] > 0).mean(axis=(0, 1)))


def test_contrasts_have_figures():
    fit = fit_of("y ~ x + (x | site)")
    found = figures_of(pyflowers.contrast(fit, "r_site[x]", "rank(r_site[x])", "sigma > 1"))
    assert set(found) == {"contrasts.png", "ranks.png"}
    assert all(isinstance(figure, Figure) for figure in found.values())
    effects = figures_of(pyflowers.effects(fit_of(*MODEL), "dose", pairs=True))
    assert set(effects) == {"effect-dose.png", "effects.png"}


def rows_of(figure):
    """Return what a figure writes next to its rows, and along its axes."""
    ax = figure.axes[0]
    names = [text.get_text() for text in ax.get_yticklabels()]
    return names, ax.get_ylabel(), ax.get_xlabel()


def test_figures_name_what_differs_between_rows_and_what_is_drawn():
    fit = fit_of(*MODEL)
    means = pyflowers.effects(fit, "dose", means=True)
    names, of_rows, what = rows_of(figures_of(means)["effects.png"])
    assert (names, of_rows) == (["high", "low", "zero"], "dose")
    assert what == "marginal mean of the expected count"
    assert what in str(means)
    names, of_rows, _ = rows_of(figures_of(pyflowers.effects(fit, joint=True))["effects.png"])
    assert names[-1].startswith("sex, m - f")
    assert of_rows.startswith("col")  # shortened, as is any label that does not fit
    of_sites = fit_of("y ~ x + (x | site)")
    found = pyflowers.contrast(of_sites, "rank(r_site[x])", "sigma")
    names, of_rows, what = rows_of(figures_of(found)["ranks.png"])
    draws = found.derived[0]
    medians = dict(zip(draws.coords[draws.dims[2]].values, np.median(draws, (0, 1)), strict=True))
    assert [medians[name] for name in names] == sorted(medians.values())
    assert of_rows == "rank(r_site[x])"
    assert what == "rank: 1 is the largest"


def test_a_figure_of_a_grid_tells_once_what_is_fixed():
    found = pyflowers.predict(fit_of(*MODEL), grid="dose = *", outcome="> 2", kind="probability")
    figure = figures_of(found)["predictions.png"]
    names, of_rows, _ = rows_of(figure)
    assert (names, of_rows) == (["high", "low", "zero"], "dose")
    assert "count > 2" in pyflowers.plots.alt_text(figure)


def test_commands(tmp_path, capfd):
    folder = tmp_path / "run"
    fit_of(*MODEL).save(folder)

    def output(*words):
        assert run(*words) == 0
        return capfd.readouterr().out

    record = json.loads(output("contrast", folder, "mean[dose = low]", "--joint", "--json"))
    assert {*record["contrasts"][0]} >= {"P(> 0)", "joint low"}
    asked = ("effects", folder, "dose", "--means", "--by", "sex", "--differences")
    record = json.loads(output(*asked, "--out", tmp_path / "e", "--json"))
    assert len(record["effects"]) == 9
    assert (tmp_path / "e" / "effects.png").exists()
    asked = ("predict", folder, "--grid", "x = 0:2:1", "--outcome", "> 0", "--outcome", "= 0")
    record = json.loads(output(*asked, "--json", "--out", tmp_path / "p"))
    assert [row["outcome"] for row in record["predictions"]] == ["> 0", "= 0"] * 3
    assert (tmp_path / "p" / "predictions.png").exists()
    printed = output("effects", folder, "--balanced", "--kind", "probability")
    assert "probability of each outcome of count" in printed


BAD = [
    ("effect[w]", "'w' is not a covariate"),
    ("effect[dose, medium - high]", "'medium - high' is not one of the changes in dose"),
    ("effect[x", "the bracket after effect is not closed"),
    ("mean[dose = medium]", "'medium' is not a level of dose"),
    ("mean[]", "names no column"),
    ("prediction[x = low]", "x is numeric"),
    ("prediction[w = 2]", "'w' is not a column"),
    ("effect[dose] + mean[x = 1:4:1]", "it combines 2 elements with 4 others"),
    ("rank(mean[dose = low])", "rank takes a vector"),
]


@pytest.mark.parametrize(("text", "words"), BAD)
def test_what_has_no_such_name_is_refused_in_a_sentence(text, words):
    with pytest.raises(ConfigError) as refused:
        pyflowers.contrast(fit_of(*MODEL), text)
    assert words in str(refused.value)
    assert text in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_rank_of_several_effects_says_how_one_is_named():
    fit = fit_of("y ~ x + (x | site)")
    named = r"rank\(r_site\)': rank takes .*, not 6 × 2; .* such as rank\(r_site\[Intercept\]\)"
    with pytest.raises(ConfigError, match=named):
        pyflowers.contrast(fit, "rank(r_site)")
    with pytest.raises(ConfigError, match=r"not 6 × 2; name one effect$"):
        pyflowers.contrast(fit, "rank(abs(r_site))")


def test_a_label_of_no_dimension_is_refused():
    with pytest.raises(ConfigError, match=r"r_site has no element \[y\]"):
        pyflowers.contrast(fit_of("y ~ x + (x | site)"), "rank(r_site[y])")
