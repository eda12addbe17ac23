"""Figures of checks, predictions and forests: their contents, and that no texts overlap."""

import re
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest
from synthetic_fits import synthetic_fit, table
from text_layout import collisions

import pyflowers
from pyflowers import plots
from pyflowers.analysis.checks import PredictiveCheck
from pyflowers.analysis.explained_variance import Explained
from pyflowers.errors import ConfigError
from pyflowers.plots.predictive import _distribution, _rootogram, statistic_panel
from pyflowers.plots.style import narrow, panels

HOSTILE = [f"{'long ' * 6}label {i} $x_1$ 東\n" for i in range(70)]
FIGURES = ["predictive_checks", "pit_ecdf", "group_intervals", "forest", "predictions"]


def drawn(fit, name, **how):
    made = {
        "predictive_checks": pyflowers.check,
        "pit_ecdf": pyflowers.check,
        "group_intervals": pyflowers.check,
        "predictions": pyflowers.predict,
    }
    return getattr(plots, name)(made.get(name, lambda fit: fit)(fit), **how)


@pytest.fixture(scope="module")
def three():
    return synthetic_fit("multilevel_poisson", table(["rose", "tulip", "iris"], 6))


@pytest.fixture(scope="module")
def seventy():
    return synthetic_fit("multilevel_poisson", table(HOSTILE, 5), draws=60)


@pytest.mark.slow
@pytest.mark.parametrize("theme", [plots.LIGHT, plots.DARK], ids=["light", "dark"])
@pytest.mark.parametrize("name", FIGURES)
def test_figures_draw_describe_themselves_and_no_text_collides(three, seventy, name, theme):
    for fit in (three, seventy):
        figure = drawn(fit, name, theme=theme)
        assert len(plots.alt_text(figure)) > 40
        assert collisions(figure) == []


@pytest.mark.parametrize("name", ["iid_normal", "multilevel_normal"])
def test_measurements_have_a_density_overlay(name):
    fit = synthetic_fit(name, table(["a", "b", "c"], 6))
    figure = plots.density_overlay(fit)
    lines = figure.axes[0].lines
    assert len(lines) == 50 + 1
    grid, density = lines[-1].get_data()
    assert np.trapezoid(density, grid) == pytest.approx(1, abs=0.03)
    assert collisions(figure) == []


def test_a_density_overlay_cuts_no_curve_without_saying_so(monkeypatch):
    fit = synthetic_fit("iid_normal", table(["a", "b", "c"], 6))
    figure = plots.density_overlay(fit)
    top = figure.axes[0].get_ylim()[1]
    assert max(line.get_ydata().max() for line in figure.axes[0].lines) < top
    assert "above the figure" not in plots.alt_text(figure)
    module = sys.modules["pyflowers.plots.predictive"]  # the package has a function of this name
    real = module.kernel_density
    sharp = iter([True, True])

    def kernel_density(values, grid):
        return real(values, grid) * (100 if next(sharp, False) else 1)

    monkeypatch.setattr(module, "kernel_density", kernel_density)
    figure = plots.density_overlay(fit)
    heights = sorted(line.get_ydata().max() for line in figure.axes[0].lines)
    assert heights[-3] < figure.axes[0].get_ylim()[1] < heights[-2]
    assert "The peaks of 2 of 50 curves are above the figure." in plots.alt_text(figure)


def test_counts_have_none_and_are_told_what_to_draw(three):
    with pytest.raises(ConfigError, match="describes counts, which have no density; draw the root"):
        plots.density_overlay(three)


def test_a_forest_is_in_the_order_of_its_medians(three):
    figure = plots.forest(three)
    shown = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    medians = np.median(three.draws["mu_plant"], axis=(0, 1))
    order = np.argsort(-medians)
    assert shown == [("rose", "tulip", "iris")[i] for i in order]
    assert f"the largest median is {medians.max():.3g}" in plots.alt_text(figure)


@pytest.mark.quick
def test_many_groups_are_left_out_and_counted(seventy):
    for name, num in (("forest", 30), ("predictions", 31), ("group_intervals", 30)):
        figure = drawn(seventy, name)
        assert len(figure.axes[0].get_yticks()) == num
    last = drawn(seventy, "predictions").axes[0].get_yticklabels()[-1]
    assert last.get_text() == "new plant"
    assert "however badly it fits" in plots.alt_text(drawn(seventy, "group_intervals"))
    pooled = synthetic_fit("iid_normal", table([f"p{i}" for i in range(20)], 9))
    assert "however badly" not in plots.alt_text(drawn(pooled, "group_intervals"))
    assert "15 smallest of 70 medians are shown; the others are left out" in plots.alt_text(
        drawn(seventy, "forest")
    )


def test_a_forest_of_what_is_no_vector_is_refused(three):
    output = "forest: 'mu' is not a vector of multilevel_poisson; it has these vectors: mu_plant"
    with pytest.raises(ConfigError, match=re.escape(output)):
        plots.forest(three, "mu")


def test_a_failed_check_is_seen_in_its_panel():
    def shift(draws, stats):
        draws["mu_plant"][...] *= 3

    bad = synthetic_fit("multilevel_poisson", table(["a", "b", "c"], 6), change=shift)
    figure = plots.predictive_checks(pyflowers.check(bad))
    said = [text.get_text() for ax in figure.axes for text in ax.texts]
    assert sum("FAILS" in text for text in said) >= 2
    assert collisions(figure) == []
    assert plots.alt_text(plots.pit_ecdf(pyflowers.check(bad))).count("leaves the 99%") == 1


@pytest.mark.parametrize(
    ("values", "step"),
    [
        (np.random.default_rng(1).poisson(500, 4000), 1.0),  # a statistic of counts
        (np.random.default_rng(1).poisson(3, 4000) / 403, 1 / 403),  # shares of zeros
        (np.random.default_rng(1).normal(size=4000), 0.0),
        (np.zeros(9), 0.0),
    ],
)
def test_bars_of_counts_and_shares_hold_equally_many_values(values, step):
    """Other bin widths would show shares with gaps and counts with spikes."""
    check = PredictiveCheck("x", "x", 0.5, 0.0, float(values[0]), values.astype(float))
    _, (ax,) = panels(1, 1, 1.5, plots.LIGHT)
    statistic_panel(ax, check, plots.LIGHT)
    counted, edges, _ = ax.patches[0].get_data()
    assert counted.sum() >= 0.98 * values.size
    if step:
        width = np.diff(edges) / step
        assert np.allclose(width, np.round(width[0]))
        shift = (edges - values.min()) / step % 1
        assert np.allclose(shift, 0.5, atol=1e-6)


def test_the_panel_of_the_pits_names_its_axes(three):
    ax = plots.predictive_checks(pyflowers.check(three)).axes[-1]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("PIT", "ECDF − uniform")


def test_data_without_groups_have_no_interval_plot(three):
    from dataclasses import replace

    checks = replace(pyflowers.check(three), groups=None)
    with pytest.raises(ConfigError, match="have no groups to draw"):
        plots.group_intervals(checks)


@pytest.mark.slow
def test_what_a_good_model_would_miss_is_counted_in_replicated_data():
    """Rare counts are nearly always inside their intervals, so 10% of the bars is too many."""
    rng = np.random.default_rng(2)
    for y_rep, draw in (
        (rng.poisson(3.0, (200, 60)).astype(float), partial(_rootogram, each="counts")),
        (rng.normal(size=(200, 60)), _distribution),
    ):
        ax = panels(1, 1, 2, plots.LIGHT)[1][0]
        found = [draw(ax, row, y_rep, interval=0.9, theme=plots.LIGHT)[:3] for row in y_rep]
        outside, num, expected = np.transpose(found)
        same = num == num.min()  # a row with a new largest count has more bars
        assert expected[same] == pytest.approx(outside[same].mean(), rel=0.05)
        assert 0 < expected.min() < 0.12 * num.min()


def test_ratings_have_no_bar_at_0():
    frame = pd.DataFrame({"y": [1, 2, 3, 4] * 10, "x": np.arange(40.0)})
    how = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 200, "draws": 100}
    fit = pyflowers.fit("y ~ x", frame, family="cumulative", **how)
    figure = plots.predictive(fit)
    assert "of 4 observed frequencies of ratings" in plots.alt_text(figure)
    middles = [np.mean(bar.get_extents().intervalx) for bar in figure.axes[0].patches]
    at = figure.axes[0].transData.inverted().transform([(middle, 0) for middle in middles])
    np.testing.assert_allclose(at[:, 0], [1, 2, 3, 4], atol=0.01)


def shares_of(names, of_rows, interval=0.9):
    """Return shares of models, with draws that have these medians."""
    around = np.linspace(-0.1, 0.1, 41).reshape(1, -1)
    fit = synthetic_fit("iid_normal", table(["a", "b", "c"], 4)).with_interval(interval)
    shares = {name: {key: middle + around for key, middle in of_rows.items()} for name in names}
    return Explained((fit,) * len(names), shares)


OF_ROWS = {
    ("R2", "conditional"): 0.9,
    ("R2", "marginal"): 0.5,
    ("R2", "residuals"): 0.6,
    ("LOO R2", "rows"): 0.4,
    ("ICC", "a column of groups with a long name, scale of the link"): 0.3,
    ("ICC", "all groups, scale of the response"): 0.2,
}


@pytest.mark.parametrize("width", ["usual", "narrow"])
@pytest.mark.parametrize("names", [["y ~ x"], ["Model 1", HOSTILE[0], "Slopes vary among people"]])
def test_shares_are_on_one_axis_from_0_to_1_and_no_text_collides(names, width):
    figure = plots.explained(shares_of(names, OF_ROWS))
    if width == "narrow":
        narrow(figure)
    assert collisions(figure) == []
    assert len(figure.axes) == len(names)
    for ax in figure.axes:
        assert ax.get_xlim() == pytest.approx((-0.02, 1.02))
        (medians,) = ax.lines
        np.testing.assert_allclose(medians.get_xdata(), list(OF_ROWS.values()))
        wide, inner = ax.collections
        ends = np.array([path.vertices[:, 0] for path in wide.get_paths()])
        np.testing.assert_allclose(ends[0], [0.81, 0.99], atol=1e-9)
        ends = np.array([path.vertices[:, 0] for path in inner.get_paths()])
        np.testing.assert_allclose(ends[0], [0.85, 0.95], atol=1e-9)
    rows = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert rows[:4] == ["R², conditional", "R², marginal", "R² of residuals", "LOO R²"]
    assert rows[4].endswith(" (link)")
    assert rows[5] == "ICC, all groups (response)"
    assert "R², marginal 0.50" in plots.alt_text(figure)


def test_a_negative_share_extends_the_axis_and_one_that_is_very_negative_is_cut_with_a_note():
    figure = plots.explained(shares_of(["m"], {("LOO R2", "rows"): -0.5}))
    assert figure.axes[0].get_xlim()[0] < -0.6 + 0.02
    assert "beyond" not in plots.alt_text(figure)
    figure = plots.explained(shares_of(["m"], {("LOO R2", "rows"): -5.0}))
    assert figure.axes[0].get_xlim()[0] == pytest.approx(-1.02)
    assert "An interval extends below the axis" in plots.alt_text(figure)


def test_families_that_are_compared_by_logs_are_named_by_them():
    keys = {("R2", "model of log y"): 0.5, ("R2", "conditional of log y"): 0.4}
    figure = plots.explained(shares_of(["m"], keys))
    rows = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert rows == ["R² of log y", "R², conditional of log y"]
