"""Every figure draws what it says, in its own style, and says what it leaves out."""

import io
import re
import xml.etree.ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.integrate import quad
from synthetic_fits import synthetic_fit, table

from pyflowers import plots
from pyflowers.errors import ConfigError
from pyflowers.loo import compare_models
from pyflowers.plots.chains import _rank_counts
from pyflowers.plots.choice import choose
from pyflowers.plots.prior import prior_of
from pyflowers.plots.style import label

FIT_FIGURES = ("trace_first_chain", "trace", "ranks", "pairs", "prior_posterior", "predictive")
MODELS = ("iid_normal", "multilevel_normal", "multilevel_poisson")


@pytest.fixture(scope="module")
def three():
    """Three plants, as in the lecture, fitted by all three models."""
    data = table(["1", "2", "3"], 4)
    return {name: synthetic_fit(name, data) for name in MODELS}


@pytest.fixture(scope="module")
def sixty():
    """Sixty plants over two years, some months missing."""
    plants = [f"$x_{i}$ <花>&\x1b" for i in range(60)]
    return synthetic_fit("multilevel_poisson", table(plants, 24, missing=0.1))


def svg_of(figure):
    """Draw a figure as SVG and parse it."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    return ET.fromstring(buffer.getvalue())


def texts_of(figure):
    """Every text in a figure, as drawn."""
    return ["".join(node.itertext()) for node in svg_of(figure).iter() if node.tag.endswith("text")]


def lines_of(axes):
    return [line for line in axes.lines if len(line.get_xdata()) > 0]


def numbers_in(text):
    return [int(number) for number in re.findall(r"\d+", text)]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("figure", FIT_FIGURES)
def test_figures_draw_and_describe_themselves(three, name, figure):
    made = getattr(plots, figure)(three[name])
    assert isinstance(made, Figure)
    made.savefig(io.BytesIO(), format="png")
    assert name in plots.alt_text(made)


@pytest.mark.parametrize("theme", [plots.LIGHT, plots.DARK])
def test_no_global_state_is_touched(three, theme):
    import matplotlib.pyplot as plt  # arviz imports it; nothing may be registered there

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


def test_trace_of_the_first_chain_holds_its_draws(three):
    fit = three["multilevel_poisson"]
    (axes,) = plots.trace_first_chain(fit, "mu_plant[2]").axes
    drawn = axes.lines[0].get_ydata()
    assert np.array_equal(drawn, fit.posterior["mu_plant"].values[0, :, 1])
    assert axes.get_title(loc="left") == "mu_plant[2], first chain"


def test_traces_have_a_panel_for_each_parameter_and_a_line_for_each_chain(three):
    figure = plots.trace(three["multilevel_poisson"])
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["mu", "sigma2", "mu_plant[1]", "mu_plant[2]", "mu_plant[3]"]
    assert all(len(lines_of(axes)) == 4 for axes in figure.axes)


def test_units_are_the_users_columns():
    columns = ("Beet", "Woche", "Blüten")
    fit = synthetic_fit("multilevel_poisson", table(["a", "b", "c"], 4, columns=columns))
    (axes,) = plots.trace_first_chain(fit, "mu_plant[a]").axes
    assert axes.get_ylabel() == "Blüten per Woche"
    assert plots.shrinkage(fit).axes[0].get_ylabel() == "Beet"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (["mu", "tau"], "parameter 'tau': the fit has none of that name; it has mu, sigma2"),
        (["mu_plant[9]"], "parameter 'mu_plant[9]': the fit has none"),
    ],
)
def test_an_unknown_parameter_is_named(three, parameters, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        plots.trace(three["multilevel_poisson"], parameters)


def test_rank_counts_are_flat_for_equal_chains_and_not_for_a_stuck_one():
    rng = np.random.default_rng(3)
    good = rng.normal(size=(4, 1000))
    counts = _rank_counts(good, 20)
    assert counts.sum(axis=0).tolist() == [200] * 20
    assert counts.max() < 50 + 5 * np.sqrt(50)
    bad = np.concatenate([good[:3], good[3:] + 3])
    assert _rank_counts(bad, 20).max() > 150


def test_pairs_mark_each_divergence(three):
    def diverge(draws, stats):
        stats["divergent__"][1, :7] = 1

    fit = synthetic_fit("iid_normal", table(["1", "2"], 4), change=diverge)
    figure = plots.pairs(fit)
    assert "divergent: 7" in texts_of(figure)
    assert "7 of 2000 transitions diverged" in plots.alt_text(figure)
    marked = figure.axes[1].collections[1].get_offsets()
    assert np.allclose(marked[:, 0], fit.posterior["mu"].values[1, :7])
    assert "none of 2000 transitions diverged" in plots.alt_text(plots.pairs(three["iid_normal"]))


def test_of_many_parameters_the_worst_are_chosen_and_the_rest_counted():
    def stick(draws, stats):
        draws["mu_plant"][0, :, 41] += 5

    plants = [f"p{i}" for i in range(60)]
    fit = synthetic_fit("multilevel_poisson", table(plants, 12), change=stick)
    chosen = choose(fit.posterior, 8)
    names = [element.name for element in chosen.shown]
    assert names[:2] == ["mu", "sigma2"]
    assert "mu_plant[p41]" in names
    assert len(names) == 8
    assert numbers_in(chosen.note) == [8, 62, 54]
    assert [e.name for e in choose(fit.posterior, 8).shown] == names


@pytest.mark.parametrize("figure", [*FIT_FIGURES, "shrinkage"])
def test_sixty_plants_with_hostile_labels_draw(sixty, figure):
    texts = texts_of(getattr(plots, figure)(sixty))
    labels = [text for text in texts if "$" in text]
    # `$` is no mathematics, and a control character is shown by its picture.
    assert all(re.search(r"\$x_\d+\$ <花>&␛", text) for text in labels)
    assert labels or figure in ("trace_first_chain", "prior_posterior", "predictive")


def test_observations_show_missing_months_and_say_what_is_left_out(sixty):
    figure = plots.observations(sixty.data)
    assert len(figure.axes) == 24
    note = " ".join(texts_of(figure))
    assert "24 of 60" in note
    assert "36 are left out" in plots.alt_text(figure)
    data = table(["a", "b"], 8, missing=0.5)
    crosses = [c for axes in plots.observations(data).axes for c in axes.collections]
    drawn = sum(len(collection.get_offsets()) for collection in crosses)
    assert drawn == 2 * len(data.months) - data.num_obs > 0


def test_a_missing_month_breaks_the_line():
    data = table(["a", "b"], 8, missing=0.5)
    first = plots.observations(data).axes[0].lines[0].get_ydata()
    assert np.isnan(first).sum() == len(data.months) - data.months_per_plant[0] > 0


def test_shrinkage_shows_the_medians_and_the_extremes(three, sixty):
    fit = three["multilevel_poisson"]
    (axes,) = plots.shrinkage(fit).axes
    medians = np.median(fit.posterior["mu_plant"].values, axis=(0, 1))
    assert np.allclose(axes.lines[2].get_xdata(), medians)
    data = sixty.data
    average = np.bincount(data.plant, data.y) / data.months_per_plant
    drawn = plots.shrinkage(sixty).axes[0].lines[1].get_xdata()
    assert len(drawn) == 30
    assert average.min() in drawn
    assert average.max() in drawn


@pytest.mark.parametrize("name", ["iid_normal", "multilevel_poisson"])
def test_the_predictive_check_passes_a_good_model_and_fails_a_bad_one(name):
    data = table([f"p{i}" for i in range(20)], 30)

    def shift(draws, stats):
        for mean in ("mu", "mu_plant"):
            if mean in draws:
                draws[mean] *= 3

    def share(fit):
        said = re.search(r"(\d+) of (\d+) observed", plots.alt_text(plots.predictive(fit)))
        return int(said[1]) / int(said[2])

    good, bad = synthetic_fit("multilevel_poisson", data), synthetic_fit(name, data, change=shift)
    assert share(good) < 0.3
    assert share(bad) > 0.5


@pytest.mark.parametrize(
    ("parameter", "priors"),
    [
        ("mu", {"mu_mean": 1.0, "mu_sd": 3.0}),
        ("sigma2", {"sigma2_nu": 5.0, "sigma2_scale": 2.0}),
        ("sigma2_plant[a]", {"sigma2_plant_nu": 3.0, "sigma2_plant_scale": 1.5}),
        ("theta", {"mu0": 0.0, "tau0": 1.0}),
    ],
)
def test_prior_densities_are_densities(parameter, priors):
    prior = prior_of(parameter, priors)
    low = -np.inf if "mu" in parameter or parameter == "theta" else 0
    total = quad(lambda x: float(prior.density(np.array(x))), low, np.inf)[0]
    assert total == pytest.approx(1, abs=1e-6)
    if np.isfinite(prior.sd) and low == 0:
        second = quad(lambda x: x**2 * float(prior.density(np.array(x))), 0, np.inf)[0]
        first = quad(lambda x: x * float(prior.density(np.array(x))), 0, np.inf)[0]
        assert np.sqrt(second - first**2) == pytest.approx(prior.sd, rel=1e-3)


def test_the_flat_prior_is_said_to_be_flat(three):
    alt = plots.alt_text(plots.prior_posterior(three["multilevel_normal"]))
    assert "sigma2_plant[1]: prior flat on (0, ∞)" in alt


def test_elpd_differences_are_those_of_the_comparison(three):
    comparison = compare_models(list(three.values()))
    (axes,) = plots.elpd_differences(comparison).axes
    drawn = axes.lines[-1].get_xdata()
    assert np.array_equal(drawn, [model.difference for model in comparison.models])


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_figures_of_a_run_folder(three, suffix, tmp_path):
    figures = plots.run_figures(three["iid_normal"], suffix)
    names = {f"{name}.{suffix}" for name in ("trace_first_chain", "trace", "pairs", "ranks")}
    assert set(figures) == names
    for name, figure in figures.items():
        figure.savefig(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def contrast(first, second):
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [plots.LIGHT, plots.DARK])
def test_themes_are_readable(theme):
    for colour in (theme.ink, theme.muted, theme.prior):
        assert contrast(colour, theme.paper) >= 4.5
    for colour in (theme.model, theme.data, theme.alarm, *theme.chains):
        assert contrast(colour, theme.paper) >= 3


def test_no_two_roles_share_a_colour():
    for theme in (plots.LIGHT, plots.DARK):
        roles = [v for v in vars(theme).values() if isinstance(v, str)]
        colours = [*roles, *theme.chains]
        assert len(set(colours)) == len(colours)


@pytest.mark.parametrize(
    ("text", "drawn"),
    [("a", "a"), ("a\nb", "a␊b"), ("x" * 40, "x" * 18 + "…" + "x" * 9), ("\x7f\ud800", "␡�")],
)
def test_labels_are_drawn_on_one_line(text, drawn):
    assert label(text) == drawn
