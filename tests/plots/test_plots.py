"""Every figure draws what its text states, in the right style, and states what it leaves out."""

import io
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from contrast import contrast
from example_fits import QUICK, SLOW, example_fit, table_of
from matplotlib.figure import Figure
from scipy import stats
from synthetic_fits import read, synthetic_fit, table, with_pathfinder
from text_layout import collisions

import pyflowers
from pyflowers import plots
from pyflowers.analysis.elpd import loo
from pyflowers.data import from_frame
from pyflowers.errors import ConfigError, FitError
from pyflowers.fits.fit import Fit
from pyflowers.plots import conditional, methods
from pyflowers.plots.conditional import groups_with_lines
from pyflowers.plots.posterior import binomial_interval, choose, rank_counts
from pyflowers.plots.style import WIDTH, applied, fitted, label, narrow, text_width
from pyflowers.programs import Capability, find_program
from pyflowers.programs.densities import prior_density
from pyflowers.workflow.experiment import compare_all, save

FIT_FIGURES = ("trace_first_chain", "trace", "ranks", "pairs", "prior_posterior", "predictive")
MODELS = ("iid_normal", "multilevel_normal", "multilevel_poisson")


@pytest.fixture(scope="module")
def three():
    """Three plants, as in the lecture, fitted by all three models."""
    data = table(["1", "2", "3"], 4)
    return {name: synthetic_fit(name, data) for name in MODELS}


@pytest.fixture(scope="module")
def sixty():
    """Sixty plants over two years, with some missing months."""
    plants = [f"$x_{i}$ <花>&\x1b" for i in range(60)]
    return synthetic_fit("multilevel_poisson", table(plants, 24, missing=0.1))


def svg_of(figure):
    """Draw a figure as SVG and parse it."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    return ET.fromstring(buffer.getvalue())


def texts_of(figure):
    """Return every text in a figure, as drawn."""
    return ["".join(node.itertext()) for node in svg_of(figure).iter() if node.tag.endswith("text")]


def panels_of(figure):
    """Return the panels of a figure, without the densities next to them."""
    return [axes for axes in figure.axes if axes.axison]


def missed(fit):
    """Return the number of observed frequencies or points outside their interval, and of all."""
    output = re.search(r"(\d+) of (\d+) observed", plots.alt_text(plots.predictive(fit)))
    return int(output[1]), int(output[2])


@pytest.mark.quick
@pytest.mark.parametrize("theme", [plots.LIGHT, plots.DARK])
def test_no_global_state_is_touched(three, theme):
    import matplotlib.pyplot as plt  # imported by arviz; no figure may be registered with it

    before = dict(mpl.rcParams)
    for figure in FIT_FIGURES:
        getattr(plots, figure)(three["multilevel_poisson"], theme=theme).savefig(io.BytesIO())
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == []


def test_a_users_own_settings_do_not_leak_in(three):
    expected = svg_of(plots.shrinkage(three["multilevel_poisson"]))
    with mpl.rc_context({"axes.facecolor": "red", "font.size": 30, "text.usetex": True}):
        found = svg_of(plots.shrinkage(three["multilevel_poisson"]))
    style = [node.get("style") for node in found.iter()]
    assert style == [node.get("style") for node in expected.iter()]


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_figure_is_drawn_once_when_it_is_saved(three, suffix, monkeypatch):
    figure = plots.trace(three["iid_normal"])
    drawn = []
    monkeypatch.setattr(Figure, "draw", lambda self, _: drawn.append(self.get_layout_engine()))
    figure.savefig(io.BytesIO(), format=suffix)
    assert drawn == [None]
    assert figure.get_layout_engine() is not None


def test_trace_of_the_first_chain_holds_its_draws(three):
    fit = three["multilevel_poisson"]
    (axes,) = plots.trace_first_chain(fit, "mu_plant[2]").axes
    drawn = axes.lines[0].get_ydata()
    assert np.array_equal(drawn, fit.draws["mu_plant"][0, :, 1])
    assert axes.get_title(loc="left") == "mu_plant[2], first chain"


def test_a_single_draw_is_visible_in_a_trace():
    fit = synthetic_fit("iid_normal", table(["a", "b"], 4), draws=1)
    for figure in (plots.trace(fit), plots.trace_first_chain(fit)):
        for axes in panels_of(figure):
            assert {line.get_marker() for line in axes.lines if len(line.get_xdata()) == 1} == {"."}
            assert (axes.get_xlim(), axes.get_xticks().tolist()) == ((0, 2), [0, 1, 2])


def test_traces_have_a_panel_for_each_parameter_and_a_line_for_each_chain(three):
    figure = plots.trace(three["multilevel_poisson"])
    panels = panels_of(figure)
    titles = [axes.get_title(loc="left") for axes in panels]
    assert titles == ["mu", "sigma2", "mu_plant[1]", "mu_plant[2]", "mu_plant[3]"]
    assert all([len(line.get_xdata()) for line in ax.lines] == [500] * 4 for ax in panels)
    sides = [axes for axes in figure.axes if axes not in panels]
    assert [len(axes.lines) for axes in sides] == [4] * 5  # the density of each chain


def test_units_are_the_users_columns():
    columns = ("Beet", "Woche", "Blüten")
    fit = synthetic_fit("multilevel_poisson", table(["a", "b", "c"], 4, columns=columns))
    (axes,) = plots.trace_first_chain(fit, "mu_plant[a]").axes
    assert axes.get_title(loc="right") == "Blüten per Woche"
    units = [axes.get_title(loc="right") for axes in panels_of(plots.trace(fit))]
    assert units == ["log Blüten per Woche", "(log Blüten per Woche)²", *["Blüten per Woche"] * 3]
    shrinkage = plots.shrinkage(fit).axes[0]
    assert (shrinkage.get_ylabel(), shrinkage.get_xlabel()) == ("Beet", "Blüten per Woche")
    assert plots.predictive(fit).axes[0].get_xlabel() == "Blüten per Woche"


@pytest.mark.parametrize("unknown", ["tau", "mu_plant[9]"])
def test_an_unknown_parameter_is_named(three, unknown):
    message = f"parameter '{unknown}': the fit has no parameter of that name; it has mu, sigma2"
    with pytest.raises(ConfigError, match=re.escape(message)):
        plots.trace(three["multilevel_poisson"], ["mu", unknown])


def test_rank_counts_are_flat_for_equal_chains_and_not_for_a_stuck_one():
    rng = np.random.default_rng(3)
    good = rng.normal(size=(4, 1000))
    counts = rank_counts(good, 20)
    assert counts.sum(axis=0).tolist() == [200] * 20
    assert counts.max() < 50 + 5 * np.sqrt(50)
    bad = np.concatenate([good[:3], good[3:] + 3])
    assert rank_counts(bad, 20).max() > 150


@pytest.mark.parametrize("num", [1, 5, 100, 1_000, 50_000])
@pytest.mark.parametrize("share", [0.05, 0.5])
def test_binomial_intervals_are_those_of_scipy(num, share):
    assert binomial_interval(0.99, num, share) == stats.binom.interval(0.99, num, share)


def test_pairs_mark_each_divergence(three):
    def diverge(draws, stats):
        stats["divergent__"][1, :7] = 1

    fit = synthetic_fit("iid_normal", table(["1", "2"], 4), change=diverge)
    figure = plots.pairs(fit)
    assert "divergent: 7" in texts_of(figure)
    assert "7 of 2000 transitions diverged" in plots.alt_text(figure)
    marked = figure.axes[1].collections[1].get_offsets()
    assert np.allclose(marked[:, 0], fit.draws["mu"][1, :7])
    assert "none of 2000 transitions diverged" in plots.alt_text(plots.pairs(three["iid_normal"]))


def test_of_many_parameters_the_worst_are_chosen_and_all_are_counted():
    def stick(draws, stats):
        draws["mu_plant"][0, :, 41] += 5

    plants = [f"p{i}" for i in range(60)]
    fit = synthetic_fit("multilevel_poisson", table(plants, 12), change=stick)
    shown, note = choose(fit, 8)
    names = [element.name for element in shown]
    assert names[:2] == ["mu", "sigma2"]
    assert "mu_plant[p41]" in names
    assert len(names) == 8
    assert re.findall(r"\d+", note) == ["8", "62", "62"]
    assert [e.name for e in choose(fit, 8)[0]] == names


@pytest.mark.quick
@pytest.mark.parametrize("figure", [*FIT_FIGURES, "shrinkage"])
def test_sixty_plants_with_hostile_labels_draw(sixty, figure):
    texts = texts_of(getattr(plots, figure)(sixty))
    labels = [text for text in texts if "$" in text]
    # `$` does not start mathematics, and a control character is shown by its symbol. The middle
    # of a label that does not fit into a pair plot is left out; this depends on the fonts.
    assert all(re.search(r"\$x_\d+(\$ <花>|…).*␛", text) for text in labels)
    assert labels or figure in ("trace_first_chain", "prior_posterior", "predictive")


@pytest.fixture(scope="module")
def in_plots_and_beds():
    """A regression with lines of its own for each plot; all plots of a bed have the same rain."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"bed": np.repeat(list("abc"), 20), "plot": np.repeat(range(15), 4)})
    frame["x"] = np.tile([0.0, 1, 3, 4], 15)
    frame["rain"] = frame.bed.map({"a": 1.0, "b": 2.0, "c": 4.0})
    frame["y"] = frame.x + rng.normal(size=15)[frame["plot"]] + rng.normal(size=60)
    frame["plot"] = [f"p{number}" for number in frame["plot"]]
    formula = "y ~ x + rain + (1 | bed) + (x | plot)"
    how = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 200, "draws": 200}
    return pyflowers.fit(formula, frame, **how)


def test_lines_of_groups_are_the_predictions_of_their_labels(in_plots_and_beds):
    fit = in_plots_and_beds
    figure = plots.group_lines(fit, "x", group="plot")
    text = plots.alt_text(figure)
    assert "for 12 labels of plot. 12 of 15 labels are drawn" in text
    assert text.endswith("Effects of other groups at their mean.")
    posterior = fit.posterior
    for ax in figure.axes:
        of_plot = posterior["r_plot"].sel(plot=ax.get_title(loc="left"))
        line, dots = ax.lines
        assert len(dots.get_xdata()) == 4
        rain = fit.data.table.numbers("rain")[
            fit.data.table.plain_texts("plot") == ax.get_title(loc="left")
        ]
        b, r = posterior["b"].values, of_plot.values
        x = line.get_xdata()
        at = posterior["Intercept"].values[..., None] + r[..., :1] + b[..., 1:] * rain[0]
        expected = at + (b[..., :1] + r[..., 1:]) * x
        assert line.get_ydata() == pytest.approx(np.median(expected, axis=(0, 1)))


def test_a_column_has_lines_only_in_groups_within_which_it_varies(in_plots_and_beds):
    assert groups_with_lines(in_plots_and_beds, "x") == ["bed", "plot"]
    assert groups_with_lines(in_plots_and_beds, "rain") == []
    with pytest.raises(ConfigError, match=r"rain does not vary within groups; .*there is none"):
        plots.group_lines(in_plots_and_beds, "rain")


def test_an_axis_that_cuts_intervals_or_observations_says_so():
    y, narrow = np.linspace(-1, 1, 40), np.array([[-0.2], [-0.1], [0], [0.1], [0.2]])
    wide = np.array([[-30], [-0.1], [0], [0.1], [30]])
    for values, quantiles, note in (
        (y, narrow, ""),
        (np.append(y, 50), narrow, "1 observation is beyond the axis."),
        (y, wide, "Some intervals extend beyond the axis."),
    ):
        ends = conditional._limits(values, quantiles)
        assert conditional._beyond(values, quantiles, *ends) == note
        assert ends[0] < -0.1
        assert 0.1 < ends[1] < 50


def test_members_of_several_groups_have_no_lines_of_one():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=40), "y": rng.normal(size=40)})
    frame["first"], frame["second"] = np.tile(list("abcd"), 10), np.repeat(list("abcd"), 10)
    how = {"seed": 1, "engine": "stanli", "chains": 1, "warmup": 50, "draws": 50}
    fit = pyflowers.fit("y ~ x + (1 | mm(first, second))", frame, **how)
    assert groups_with_lines(fit, "x") == []


@pytest.mark.quick
def test_observations_show_missing_months_and_say_what_is_left_out(sixty):
    figure = plots.observations(sixty.data)
    assert len(figure.axes) == 24
    note = " ".join(texts_of(figure))
    assert "24 of 60" in note
    assert "the other labels are left out" in plots.alt_text(figure)
    data = read("iid_normal", table(["a", "b"], 8, missing=0.5))
    panels = plots.observations(data).axes
    line = panels[0].lines[0].get_ydata()
    assert np.isnan(line).sum() == len(data.by_time) - data.by_group.counts[0] > 0
    crosses = [c for axes in panels for c in axes.collections]
    drawn = sum(len(collection.get_offsets()) for collection in crosses)
    assert drawn == 2 * len(data.by_time) - data.num_obs > 0


@pytest.mark.parametrize(("values", "at_zero"), [([194.0, 300, 466], False), ([1, 5, 9], True)])
def test_an_axis_of_observations_begins_at_0_where_that_is_near(values, at_zero):
    frame = pd.DataFrame({"plant": list("aabb"), "month": [1, 2, 1, 2], "flowers": [3.0, *values]})
    frame.loc[0, "flowers"] = values[0]
    data = read("iid_normal", from_frame(frame))
    low, high = plots.observations(data).axes[0].get_ylim()
    assert (low <= 0) == at_zero
    assert low < values[0] < values[-1] < high


@pytest.mark.quick
def test_rows_of_panels_are_evenly_spaced():
    """Axis labels above an empty place in the grid do not move the last row down."""
    figure = plots.observations(read("iid_normal", table([f"p{i}" for i in range(18)], 4)))
    figure.draw_without_rendering()
    tops = [ax.get_position().y1 for ax in figure.axes[::4]]
    assert len(tops) == 5
    assert np.ptp(np.diff(tops)) < 0.002


def test_a_method_that_is_far_too_narrow_flattens_no_density():
    fit = synthetic_fit("iid_normal", table(["a", "b"], 8))
    comparison = with_pathfinder(compare_all([fit])["iid_normal"])
    of_mu, of_sigma2 = methods.method_marginals(comparison).axes
    exact, nuts, *_, pathfinder = (line.get_ydata().max() for line in of_sigma2.lines)
    assert pathfinder > 10 * exact
    for ax in (of_mu, of_sigma2):
        exact, nuts, *_ = (line.get_ydata().max() for line in ax.lines)
        assert ax.get_ylim()[1] < 3 * max(exact, nuts)
    figure = methods.interval_forest(comparison)
    note = " ".join(texts_of(figure))
    assert "An arrow marks a median beyond the axis." in note
    low, high = comparison.results["exact"].quantities.loc["mu", ["5%", "95%"]]
    assert np.ptp(figure.axes[0].get_xlim()) < 3 * (high - low)


def test_replicates_are_drawn_each_for_itself_and_without_times():
    frame = pd.DataFrame({"brood": list("aaabbc"), "ticks": [3, 0, 3, 3, 2, 9]})
    roles = {"group": "brood", "value": "ticks"}
    figure = plots.observations(find_program("multilevel_poisson").read(frame, columns=roles))
    (axes,) = figure.axes
    (dots,) = axes.lines
    assert dots.get_linestyle() == "None"
    drawn = zip(np.round(dots.get_ydata()), dots.get_xdata(), strict=True)
    assert sorted(drawn) == [(0, 0), (0, 3), (0, 3), (1, 2), (1, 3), (2, 9)]
    assert len(set(dots.get_ydata())) == 6
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b", "c"]
    assert plots.alt_text(figure).startswith(
        "ticks by brood, 3 groups: 6 observations between 0 and 9. The average is lowest for a, 2,"
    )
    assert collisions(figure) == []


def test_shrinkage_shows_the_medians_and_the_extremes(three, sixty):
    fit = three["multilevel_poisson"]
    (axes,) = plots.shrinkage(fit).axes
    medians = np.median(fit.draws["mu_plant"], axis=(0, 1))
    assert np.allclose(axes.lines[2].get_xdata(), medians)
    groups = sixty.data.by_group
    average = np.bincount(groups.codes, sixty.data.y) / groups.counts
    drawn = plots.shrinkage(sixty).axes[0].lines[1].get_xdata()
    assert len(drawn) == 30
    assert average.min() in drawn
    assert average.max() in drawn


@pytest.mark.quick
def test_draws_that_are_missing_or_infinite_are_drawn_around(tmp_path):
    """Generated quantities may be missing or infinite; a failed figure would lose the whole run."""

    def spoil(draws, stats):
        draws["mu"][0, :100] = np.nan
        draws["mu"][1, :100] = np.inf
        draws["sigma2"][:] = np.nan

    fit = synthetic_fit("iid_normal", table(["1", "2"], 4), change=spoil)
    for figure in (plots.pairs, plots.trace, plots.ranks):
        figure(fit).savefig(tmp_path / "figure.png")
    notes = [text for text in texts_of(plots.pairs(fit)) if "draws" in text]
    assert any("2000 of 2000 draws are missing or infinite." in text for text in notes)


def test_what_never_varies_is_not_drawn():
    def fix(draws, stats):
        draws["mu_plant"][..., 0] = 1.0

    fit = synthetic_fit("multilevel_poisson", table(["1", "2", "3"], 4), change=fix)
    names = ["mu", "sigma2", "mu_plant[2]", "mu_plant[3]"]
    assert [element.name for element in choose(fit, 8)[0]] == names
    assert "of 4 parameters" in choose(fit, 3)[1]
    ((alone,), _) = choose(fit, 8, ["mu_plant[1]"])  # requested by name
    assert alone.name == "mu_plant[1]"


def test_a_figure_that_cannot_be_drawn_loses_no_run(tmp_path, monkeypatch):
    def broken(*_):
        raise ValueError("no luck")

    monkeypatch.setattr(plots, "run_images", broken)
    fit = synthetic_fit("iid_normal", table(["1", "2"], 4))
    with pytest.raises(FitError, match=r"the run is saved, but .*no luck"):
        save(fit, tmp_path / "run", "png")
    assert pyflowers.Fit.load(tmp_path / "run").num_draws == fit.num_draws


def test_negative_whole_numbers_are_no_counts(own_program):
    text = """
    data { int N; array[N] int y; }
    parameters { real<lower=0> a; }
    model { a ~ exponential(1); target += -a * sum(abs(to_vector(y))); }
    generated quantities {
      array[N] int y_rep;
      for (n in 1:N) y_rep[n] = poisson_rng(2) - 2;
    }
    """
    program = own_program("differences", text)
    fit = pyflowers.fit(program, pd.DataFrame({"y": [-1, 0, 2, -3]}), seed=1, engine="stanli")
    assert "cumulative share of observations" in texts_of(plots.predictive(fit))


@pytest.mark.parametrize("name", ["iid_normal", "multilevel_poisson"])
def test_the_predictive_check_passes_a_good_model_and_fails_a_bad_one(name):
    data = table([f"p{i}" for i in range(20)], 30)

    def shift(draws, stats):
        for mean in ("mu", "mu_plant"):
            if mean in draws:
                draws[mean] *= 3

    good, bad = synthetic_fit("multilevel_poisson", data), synthetic_fit(name, data, change=shift)
    num, total = missed(good)
    assert num < 0.3 * total
    num, total = missed(bad)
    assert num > 0.5 * total


def test_the_flat_prior_is_said_to_be_flat(three):
    alt = plots.alt_text(plots.prior_posterior(three["multilevel_normal"]))
    assert "sigma2_plant[1]: the prior is flat on (0, ∞)" in alt


def test_elpd_differences_are_those_of_the_comparison(three):
    comparison = loo(list(three.values()))
    figure = plots.elpd_differences(comparison)
    (axes,) = figure.axes
    drawn = axes.lines[-1].get_xdata()
    assert np.array_equal(drawn, [model.difference for model in comparison.models])
    narrow(figure)
    assert collisions(figure) == []
    assert "best model\n90% interval" in axes.get_xlabel()


@pytest.mark.quick
@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_figures_of_a_run_folder(three, suffix, tmp_path):
    figures = plots.run_figures(three["iid_normal"], suffix)
    names = ("trace_first_chain", "trace", "pairs", "ranks", "predictive")
    assert set(figures) == {f"{name}.{suffix}" for name in names}
    for name, figure in figures.items():
        figure.savefig(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000


@pytest.mark.parametrize("theme", [plots.LIGHT, plots.DARK])
def test_themes_are_readable_and_no_two_roles_share_a_colour(theme):
    lines = {theme.model, theme.data, theme.alarm, *theme.chains}
    texts = {theme.ink, theme.muted, theme.prior}
    assert min(contrast(colour, theme.paper) for colour in texts) >= 4.5
    assert min(contrast(colour, theme.paper) for colour in lines) >= 3
    assert len(lines | texts | {theme.paper, theme.grid}) == 8 + len(theme.chains)


@pytest.mark.parametrize(
    ("text", "drawn"),
    [("a", "a"), ("a\nb", "a␊b"), ("x" * 40, "x" * 18 + "…" + "x" * 9), ("\x7f\ud800", "␡�")],
)
def test_labels_are_drawn_on_one_line(text, drawn):
    assert label(text) == drawn


LONG = ("Beet Beet Süd", "Kalenderwoche", "Blüten per Kalenderwoche")
LONG_NAMES = ("Beet Beet Süd", "Beet Beet Nord", "Wiese hinter dem alten Gewächshaus", "Hof")


def every_figure(fit):
    """Return every figure that a fit has, by name."""
    made = {name: getattr(plots, name)(fit) for name in FIT_FIGURES}
    made["observations"] = plots.observations(fit.data)
    if fit.program.can(Capability.GROUP_MEAN):
        made["shrinkage"] = plots.shrinkage(fit)
    return made


WIDE = [f"{'W' * 60}{i}" for i in range(7)]
LAID_OUT = {  # fits whose labels leave little room in a figure: program, draws, table
    "lecture": ("multilevel_normal", 500, table(["1", "2", "3"], 4)),
    "long": ("multilevel_normal", 500, table(LONG_NAMES, 12, missing=0.2, columns=LONG)),
    "widest": ("multilevel_normal", 500, table(WIDE, 12, columns=("G" * 70, "M" * 70, "V" * 70))),
    "300 groups": (
        *("multilevel_poisson", 100),
        table([f"Beet Beet Süd {i}" for i in range(300)], 30, missing=0.1, columns=LONG),
    ),
}


@pytest.mark.parametrize(("program", "draws", "data"), LAID_OUT.values(), ids=LAID_OUT)
def test_no_text_overlaps_another_or_is_cut(program, draws, data):
    laid_out = synthetic_fit(program, data, draws=draws)
    for name, figure in every_figure(laid_out).items():
        assert collisions(figure) == [], name
        assert name == "observations" or laid_out.name in plots.alt_text(figure)


SIZES = np.geomspace(1e-3, 1e8, 3000)


@pytest.mark.parametrize("others", [np.zeros(900), -SIZES], ids=["zeros", "negative"])
def test_the_ticks_next_to_0_leave_room_for_its_label(others):
    """Statistics of implied data that span many orders of magnitude, from 0 or on both sides."""
    made = pyflowers.prior("multilevel_poisson", seed=1)
    values = np.concatenate([SIZES, others])
    figure = plots.prior_implied(replace(made, statistics={"mean": values, "sd": values}))
    assert collisions(figure) == []
    for axes in figure.axes:
        assert axes.get_xscale() == "symlog"
        assert 0 in axes.get_xticks()
        assert len(axes.get_xticks()) >= 3


def test_a_share_that_is_mostly_0_has_a_linear_axis():
    made = pyflowers.prior("multilevel_poisson", seed=1)
    values = np.concatenate([np.zeros(900), np.full(100, 1 / 6)])
    figure = plots.prior_implied(replace(made, statistics={"share of zeros": values}))
    assert figure.axes[0].get_xscale() == "linear"
    assert len(figure.axes[0].get_xticks()) >= 3


def test_texts_that_overlap_or_are_cut_would_be_seen():
    """The negative control: two labels in one place, one off the page, one that is hidden."""
    figure = Figure(figsize=(2, 1))
    figure.text(0.1, 0.5, "Beet Beet Süd")
    figure.text(0.3, 0.5, "Beet Beet Nord", rotation=30)
    figure.text(0.8, 0.1, "Gewächshaus")
    figure.text(0.1, 0.5, "hidden").set_visible(False)
    pairs = {("Beet Beet Süd", "Beet Beet Nord"), ("Beet Beet Nord", "the edge")}
    assert pairs | {("Gewächshaus", "the edge")} == set(collisions(figure))


def test_a_label_is_cut_to_its_room_and_no_more():
    with applied(plots.LIGHT):
        room = text_width("Blüten per Kalenderwoche", size=9)
        assert fitted("Blüten per Kalenderwoche", room) == "Blüten per Kalenderwoche"
        shorter = fitted("Blüten per Kalenderwoche", room - 0.05)
        assert re.fullmatch("Blüten.*….*woche", shorter)
        assert room - 0.3 < text_width(shorter) <= room - 0.05
        assert text_width("W" * 10, bold=True) > text_width("W" * 10) > text_width("i" * 10) > 0
    assert WIDTH < 6


@pytest.mark.parametrize(
    ("plants", "column", "titles"),
    [
        (["1", "2"], "plant", ["plant 1", "plant 2"]),
        (["Beet Süd", "Beet Beet Süd"], "Beet", ["Beet Süd", "Beet Beet Süd"]),
        (["a", "a long name of a bed"], "bed", ["a", "a long name…"]),
    ],
)
def test_the_panels_of_a_table_are_told_apart(plants, column, titles):
    """``Beet Süd`` and ``Beet Beet Süd`` in a column ``Beet`` are not confused."""
    data = read("iid_normal", table(plants, 4, columns=(column, "week", "y")))
    drawn = [axes.get_title(loc="left") for axes in plots.observations(data).axes]
    assert len(set(drawn)) == len(plants)
    for title, expected in zip(drawn, titles, strict=True):
        assert title.startswith(expected.rstrip("…")[:6])
    if column != "bed":
        assert drawn == titles


@pytest.fixture(
    scope="module",
    params=[*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)],
)
def own(request, executables):
    """A user program, fitted to the user's table."""
    return example_fit(request.param)


VALUES = {"pumps": "failures", "seeds": "germinated", "rats": "weight", "epil": "seizures"}


@pytest.mark.slow
def test_own_programs_have_every_figure_without_a_collision(own):
    made = every_figure(own)
    for name, figure in made.items():
        assert collisions(figure) == [], name
        assert own.name in plots.alt_text(figure) or name == "observations"
    assert set(made) == {*FIT_FIGURES, "observations"}
    with pytest.raises(ConfigError, match=f"{own.name} has no group_mean"):
        plots.shrinkage(own)


def test_own_programs_are_drawn_with_the_users_names(own):
    groups, value = own.data.by_group, VALUES[own.name]
    figure = plots.observations(own.data)
    if own.data.by_time is None:
        (axes,) = figure.axes
        drawn = [text.get_text() for text in axes.get_yticklabels()], axes.lines[0].get_xdata()
        rows = pd.read_csv(table_of(own.name), dtype={groups.column: str})
        expected = dict(zip(rows[groups.column], rows[value], strict=True))
        assert dict(zip(*drawn, strict=True)) == expected
        assert (axes.get_xlabel(), axes.get_ylabel()) == (value, groups.column)
    else:
        assert len(figure.axes) == 24
        assert figure.axes[0].get_title(loc="left").startswith(f"{groups.column} ")
        assert value in texts_of(figure)
    quantity = next(q for q in own.posterior.values() if q.dims[2:] == (groups.column,))
    panels = panels_of(plots.trace(own, [quantity.name]))
    drawn = [axes.get_title(loc="left") for axes in panels]
    assert len(drawn) == 8
    assert all(re.fullmatch(rf"{quantity.name}\[\w+\]", title) for title in drawn)


def test_own_priors_are_drawn_as_declared(own):
    declared = {n: p.prior for n, p in own.program.declaration.parameters.items() if p.prior}
    assert declared
    figure = plots.prior_posterior(own)
    shown = [axes.get_title(loc="left") for axes in figure.axes]
    assert set(shown) <= set(declared)
    for axes, name in zip(figure.axes, shown, strict=True):
        prior = prior_density(declared[name], own.data.values)
        assert f"prior {prior.text}" in [text.get_text().splitlines()[0] for text in axes.texts]
        x, believed = axes.lines[1].get_data()
        on_log_axis = axes.get_xscale() == "log"
        assert np.allclose(believed, prior.density(x) * (x if on_log_axis else 1))
        if "gamma" in declared[name] or "exponential" in declared[name]:
            assert x.min() > 0


@pytest.mark.parametrize("name", QUICK)
def test_the_predictive_check_of_own_programs_reads_their_y_rep(name, executables):
    fit = example_fit(name)
    num, total = missed(fit)
    assert num < 0.3 * total
    draws = {**fit.draws, "y_rep": fit.draws["y_rep"] + 40}
    bad = Fit(fit.program, fit.data, draws, fit.stats, fit.record)
    assert missed(bad)[0] > 5


def test_what_a_program_lacks_is_said(own_program, cmdstan):
    program = own_program(
        "bare",
        "data { int N; vector[N] x; } parameters { real mu; } model { x ~ normal(mu, 1); }",
    )
    how = {"seed": 1, "warmup": 100, "draws": 100, "engine": "cmdstan", "cmdstan": "embedded"}
    fit = pyflowers.fit(program, {"N": 3, "x": [1.0, 2.0, 4.0]}, **how)
    lacks = {"predictive": "y_rep", "prior_posterior": "prior_density", "shrinkage": "group_mean"}
    for figure, lack in lacks.items():
        with pytest.raises(ConfigError, match=rf"bare has no {lack}, which is needed for"):
            getattr(plots, figure)(fit)
    with pytest.raises(ConfigError, match="the data have no groups"):
        plots.observations(fit.data)
    for figure in (plots.trace_first_chain, plots.trace, plots.ranks, plots.pairs):
        assert collisions(figure(fit)) == []


@pytest.mark.parametrize("name", ["group_intervals", "predictive_checks", "pit_ecdf"])
def test_a_fit_in_place_of_its_checks_is_named(name):
    fit = pyflowers.fit("iid_normal", seed=1, engine="exact")
    with pytest.raises(ConfigError, match=rf"plots.{name} draws PredictiveChecks, not Fit; help"):
        getattr(plots, name)(fit)
