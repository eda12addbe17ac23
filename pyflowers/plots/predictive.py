"""Figures of predictive checks, PITs, ranks and elpd.

References
----------
Kleiber and Zeileis (2016), Visualizing count data regressions using rootograms, The American
Statistician 70(3); Gabry, Simpson, Vehtari, Betancourt and Gelman (2019), Visualization in
Bayesian workflow, JRSS A 182(2), section 5; Säilynoja, Bürkner and Vehtari (2022), Statistics and
Computing 32(32), section 2.3, for the difference of distribution functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from pyflowers.display import INTERVAL, interval_quantiles, percent, upper_first
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.plots import style
from pyflowers.plots.groups import observed_unit
from pyflowers.plots.posterior import GRID, kernel_density
from pyflowers.plots.style import LIGHT, Axes, Theme, finish, fitted, label, panels, styled
from pyflowers.programs import Capability

if TYPE_CHECKING:
    from pyflowers.analysis.calibration import Calibration
    from pyflowers.analysis.checks import PredictiveCheck, PredictiveChecks
    from pyflowers.analysis.ecdf import Band
    from pyflowers.analysis.elpd import LooComparison, ModelLoo

MOST_REPLICATES = 1000
"""The largest number of replicated data sets in a figure; they are evenly spaced over all draws."""

MOST_VALUES = 4_000_000
"""The largest number of replicated values. For large data, fewer data sets (but at least 50) are
replicated."""

NUM_DENSITIES = 50
"""Number of replicated data sets in a density overlay."""

HIGHEST_PEAK = 3.0
"""A density overlay cuts off peaks above this multiple of the observed peak or, if that is higher,
of the median replicated peak."""

MOST_COUNTS = 45
"""The largest number of bars in a rootogram."""

MOST_BARS = 30
"""The number of bars in a histogram, or about the largest number if values are multiples of a
step."""

MOST_QUANTITIES = 12


@styled
def predictive(fit: Fit, *, theme: Theme = LIGHT) -> Figure:
    """Draw observed and replicated data: a rootogram of counts, or distribution functions.

    Parameters
    ----------
    fit : Fit
        A fit of a program with ``y_rep``, to observed data. Counts are drawn as a rootogram,
        with a square-root axis on which all bars have about the same uncertainty. Measurements are
        drawn as empirical distribution functions.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        One panel.

    Raises
    ------
    ConfigError
        If the program has no ``y_rep``, or nothing is observed.

    See Also
    --------
    pyflowers.check : Compute predictive checks.

    References
    ----------
    Kleiber and Zeileis (2016), Visualizing count data regressions using rootograms, The American
    Statistician 70(3).

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> figure = pyflowers.plots.predictive(fit)
    >>> figure.savefig("predictive.png")
    """
    y_rep = _replicates(fit, MOST_REPLICATES, stream=2)
    y = fit.data.y
    figure, (ax,) = panels(1, 1, 2.35, theme)
    is_count = fit.program.counts and min(float(y.min()), float(y_rep.min())) >= 0
    each = "counts"
    if fit.model.is_ordinal:
        each = "ratings"
    if fit.model.has_categories:
        each = "categories"
    if fit.model.has_columns:
        num = len(fit.model.categories)
        of_rep = y_rep.reshape(len(y_rep), -1, num).sum(axis=1)
        outside, num, expected, what = _bars(
            ax, np.arange(1.0, num + 1), fit.model.frequencies, of_rep, 1, each, fit.interval, theme
        )
    elif is_count:
        outside, num, expected, what = _rootogram(ax, y, y_rep, each, fit.interval, theme)
    else:
        outside, num, expected, what = _distribution(ax, y, y_rep, fit.interval, theme)
    ratings = fit.data.labels.get(fit.data.value)
    names = fit.data.counted if ratings is None else ratings.names
    if each != "counts" and 0 < len(names) <= MOST_COUNTS:
        ax.set_xticks(range(1, len(names) + 1), [fitted(name, 0.8) for name in names])
        ax.set_xlabel(fitted(fit.data.category_name, style.panel_width(1)))
    else:
        ax.set_xlabel(fitted(observed_unit(fit), style.panel_width(1)))
    handles, names = ax.get_legend_handles_labels()
    first = names.index("observed")
    style.legend(figure, [handles[first], *handles[:first], *handles[first + 1 :]])
    alt = (
        f"Posterior predictive check of {fit.called}, {len(y_rep)} replicated data sets: {outside} "
        f"of {num} observed {what} {'is' if outside == 1 else 'are'} outside the "
        f"{percent(fit.interval)} predictive intervals; about {expected:.2g} would be expected "
        "under a good model."
    )
    return finish(figure, alt)


def _replicates(fit: Fit, most: int, *, stream: int) -> NDArray[np.float64]:
    """Return replicated data sets, shape (replicate, N), which are always the same for a fit."""
    from pyflowers.analysis.checks import evenly, replicates_of

    fit.program.require(Capability.Y_REP)
    fit.program.require(Capability.OBSERVED)
    if not fit.data.num_obs:
        raise ConfigError(f"plots: {fit.called} was fitted without observations; fit it to data")
    most = min(most, max(50, MOST_VALUES // fit.data.num_obs))
    rng = np.random.default_rng([fit.options.seed, stream])
    positions = evenly(fit.num_chains * fit.num_draws, most)
    return np.concatenate([*replicates_of(fit, positions, rng)])


def _rootogram(
    ax: Axes,
    y: NDArray[np.float64],
    y_rep: NDArray[np.float64],
    each: str,
    interval: float,
    theme: Theme,
) -> tuple[int, int, float, str]:
    """Draw frequencies of counts, or of labels numbered from 1 (`each`), as bars with intervals.

    Return the number of bars outside their intervals, the number of bars, the expected number
    outside (the mean over the replicated data sets), and a description of the bars.
    """
    lowest = int(each != "counts")
    top = max(float(y.max()), float(np.quantile(y_rep, 0.999)))
    width = max(1, int(np.ceil((top + 1 - lowest) / MOST_COUNTS)))
    edges = np.arange(lowest, top + width + 1, width) - 0.5
    observed, _ = np.histogram(y, edges)
    # Replicated values beyond the last bar are counted in the last bar.
    position = np.minimum((y_rep - lowest) // width, edges.size - 2).astype(int)
    counts = np.stack([np.bincount(row, minlength=edges.size - 1) for row in position])
    x = (edges[1:] + edges[:-1]) / 2
    return _bars(ax, x, observed, counts, width, each, interval, theme)


def _bars(
    ax: Axes,
    x: NDArray[np.float64],
    observed: NDArray[np.int64],
    counts: NDArray[Any],
    width: int,
    each: str,
    interval: float,
    theme: Theme,
) -> tuple[int, int, float, str]:
    """Draw observed frequencies as bars, with intervals of `counts`, shape (replicate, bar)."""
    middle, low, high = np.quantile(counts, list(interval_quantiles(interval).values()), axis=0)
    ax.bar(x, observed, width * 0.86, color=theme.grid, ec=theme.muted, lw=0.6, label="observed")
    predicted = f"predicted, {percent(interval)}"
    ax.vlines(x, low, high, color=theme.model, lw=2.2, alpha=0.55, label=predicted)
    ax.plot(x, middle, "o", ms=3.6, color=theme.model, label="predicted, median", clip_on=False)
    ax.set_yscale("function", functions=(lambda v: np.sqrt(np.maximum(v, 0)), np.square))
    ax.set_ylim(0, max(float(observed.max()), float(high.max())) * 1.15)
    ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    ax.grid(axis="x", visible=False)
    ax.set_ylabel("observations (√ axis)")
    if width == 1:
        what = f"frequencies of {each}"
    else:
        what = f"frequencies of bins of {width} {each}"
    outside, replicated = ((n < low) | (n > high) for n in (observed, counts))
    return int(outside.sum()), observed.size, float(replicated.sum(axis=1).mean()), what


def _distribution(
    ax: Axes, y: NDArray[np.float64], y_rep: NDArray[np.float64], interval: float, theme: Theme
) -> tuple[int, int, float, str]:
    """Draw distribution functions; return results like those of :func:`_rootogram`, for points."""
    low_x, high_x = np.quantile(y_rep, (0.002, 0.998))
    low_x, high_x = min(low_x, float(y.min())), max(high_x, float(y.max()))
    grid = np.linspace(low_x, high_x, 300)
    replicated = np.stack([np.searchsorted(np.sort(row), grid, "right") for row in y_rep]) / y.size
    probs = list(interval_quantiles(interval).values())
    middle, low, high = np.quantile(replicated, probs, axis=0)
    named = f"predicted, {percent(interval)}"
    ax.fill_between(grid, low, high, color=theme.model, alpha=0.25, lw=0, label=named)
    ax.plot(grid, middle, color=theme.model, lw=1, label="predicted, median")
    ordered = np.sort(y)
    x = np.concatenate([[low_x], ordered, [high_x]])
    steps = np.concatenate([np.arange(y.size + 1) / y.size, [1.0]])
    ax.step(x, steps, where="post", color=theme.data, lw=1.3, label="observed")
    ax.set(xlim=(low_x, high_x), ylim=(0, 1.02), ylabel="cumulative share of observations")

    def num_outside(sample: NDArray[np.float64]) -> tuple[int, int]:
        values, at = np.unique(sample, return_counts=True)
        shares = np.cumsum(at) / sample.size
        low_at, high_at = np.interp(values, grid, low), np.interp(values, grid, high)
        return int(((shares < low_at) | (shares > high_at)).sum()), values.size

    expected = float(np.mean([num_outside(row)[0] for row in y_rep]))
    return *num_outside(y), expected, "points of the distribution"


@styled
def density_overlay(fit: Fit, *, theme: Theme = LIGHT) -> Figure:
    """Draw the density of the observed values over the densities of 50 replicated data sets.

    Parameters
    ----------
    fit : Fit
        A fit to observed measurements, of a program with ``y_rep``. For counts, see
        :func:`pyflowers.plots.predictive`.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        One panel.

    Raises
    ------
    ConfigError
        If the program has no ``y_rep`` or describes counts, or nothing is observed.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_normal", seed=1, engine="exact")
    >>> figure = pyflowers.plots.density_overlay(fit)
    >>> figure.savefig("density_overlay.png")
    """
    replicated_data = _replicates(fit, NUM_DENSITIES, stream=5)
    if fit.program.counts:
        why = "describes counts, which have no density; draw the rootogram with plots.predictive"
        raise ConfigError(f"plots: {fit.called} {why}")
    y = fit.data.y
    low, high = np.quantile(y, (0.01, 0.99))
    margin = 0.5 * (high - low) or 1.0
    grid = np.linspace(low - margin, high + margin, GRID)
    densities = [kernel_density(row, grid) for row in replicated_data]
    observed = kernel_density(y, grid)
    figure, (ax,) = panels(1, 1, 2.15, theme)
    thin: dict[str, Any] = {"color": theme.model, "lw": 0.7, "alpha": 0.35}
    replicated, *_ = [ax.plot(grid, density, **thin)[0] for density in densities]
    replicated.set_label(f"{len(densities)} replicated data sets")
    seen = ax.plot(grid, observed, color=theme.data, lw=1.8, label="observed")
    tops = np.array([density.max() for density in densities])
    # The peak of a nearly constant replicated data set would flatten all others.
    most = HIGHEST_PEAK * max(float(observed.max()), float(np.median(tops)))
    cut = int(np.count_nonzero(tops > most))
    ax.set_ylim(0, 1.05 * max(float(observed.max()), float(tops[tops <= most].max(initial=0))))
    if cut:
        note = f"The peaks of {cut} of {len(tops)} curves are above the figure."
    else:
        note = ""
    ax.set(xlim=(grid[0], grid[-1]))
    style.without_y_axis(ax)
    ax.set_xlabel(fitted(observed_unit(fit), style.panel_width(1)))
    style.legend(figure, [replicated, *seen])
    alt = (
        f"Density of the observed values over the densities of {len(densities)} data sets "
        f"replicated by {fit.called}; the observed median is {np.median(y):.3g}."
    )
    return finish(figure, alt, note)


@styled
def predictive_checks(checks: PredictiveChecks, *, theme: Theme = LIGHT) -> Figure:
    """Draw the replicated values of each statistic with the observed value, and the PITs.

    Parameters
    ----------
    checks : PredictiveChecks
        The checks that :func:`pyflowers.check` returns.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        A panel for each check.

    See Also
    --------
    pyflowers.check : Compute predictive checks.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> figure = pyflowers.plots.predictive_checks(pyflowers.check(fit))
    >>> figure.savefig("predictive_checks.png")
    """
    of_data = [check for check in checks.checks if check.replicated.size]
    figure, axes = panels(len(checks.checks), 2, 1.65, theme)
    for ax, check in zip(axes, of_data, strict=False):
        statistic_panel(ax, check, theme)
    if checks.pit is not None and checks.of_pits is not None:
        _ecdf_difference(axes[-1], checks.pit.values, checks.pit.band, theme)
        axes[-1].set(xlabel="PIT", ylabel="ECDF − uniform")
        _name_check(axes[-1], checks.of_pits, theme)
    p_values = "; ".join(f"{check.name} {check.p_text}" for check in checks.checks)
    alt = (
        f"Predictive checks of {checks.fit.called}, {checks.num_replicates} replicated data sets: "
        f"{p_values}."
    )
    return finish(figure, alt)


def statistic_panel(ax: Axes, check: PredictiveCheck, theme: Theme) -> None:
    """Draw bars of the replicated statistic, and a line at the observed one."""
    low, high = np.quantile(check.replicated, (0.005, 0.995))
    low, high = min(low, check.observed), max(high, check.observed)
    step = _lattice(check.replicated)
    if step:
        # Every bar contains the same number of possible values, and its edges are between values.
        width = step * max(1, int(np.ceil((high - low) / step / MOST_BARS)))
        edges = np.arange(low - step / 2, high + width, width)
    else:
        edges = np.linspace(low, high if high > low else low + 1, MOST_BARS + 1)
    count, edges = np.histogram(check.replicated, edges)
    ax.stairs(count, edges, fill=True, color=theme.model, alpha=0.55)
    ax.axvline(check.observed, color=theme.data, lw=1.8)
    style.without_y_axis(ax)
    ax.xaxis.set_major_locator(MaxNLocator(5))
    _name_check(ax, check, theme)


def _lattice(values: NDArray[np.float64]) -> float:
    """Return the smallest difference between values if all are multiples of it, else 0."""
    gaps = np.diff(np.unique(values))
    if not gaps.size:
        return 0.0
    multiples = gaps / gaps.min()
    if np.allclose(multiples, np.round(multiples), atol=1e-3):
        return float(gaps.min())
    return 0.0


def _name_check(ax: Axes, check: PredictiveCheck, theme: Theme) -> None:
    """Add the title of a check, with its p-value, to its panel."""
    about = fitted(upper_first(check.meaning), style.panel_width(2), size=9.5, bold=True)
    ax.set_title(about, pad=14)
    word, colour = ", FAILS", theme.alarm
    if check.passed:
        word, colour = "", theme.muted
    small = {"fontsize": 8, "fontweight": "normal", "color": colour}
    ax.text(0, 1.03, f"{check.p_text}{word}", transform=ax.transAxes, va="bottom", **small)


@styled
def pit_ecdf(checks: PredictiveChecks, *, theme: Theme = LIGHT) -> Figure:
    """Draw the difference between the distribution of the PITs and the uniform distribution.

    Parameters
    ----------
    checks : PredictiveChecks
        The checks of a program with ``log_lik``.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        One panel, with the 99% simultaneous band for uniform values.

    Raises
    ------
    ConfigError
        If the program has no ``log_lik``.

    References
    ----------
    Säilynoja, Bürkner and Vehtari (2022), Graphical test for discrete uniformity and its
    applications in goodness-of-fit evaluation and multiple sample comparison, Statistics and
    Computing 32(32), section 2.3.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> figure = pyflowers.plots.pit_ecdf(pyflowers.check(fit))
    >>> figure.savefig("pit_ecdf.png")
    """
    from pyflowers.analysis.checks import BAND_PROB

    checks.fit.program.require(Capability.LOG_LIK)
    assert checks.pit is not None  # every program with log_lik has PITs
    assert checks.of_pits is not None
    figure, (ax,) = panels(1, 1, 2.15, theme)
    inside = _ecdf_difference(ax, checks.pit.values, checks.pit.band, theme)
    ax.set_ylabel("ECDF − uniform")
    ax.set_xlabel(f"leave-one-out PIT of {fitted(checks.fit.data.value_name, 2.5)}")
    alt = (
        f"Distribution function of the {checks.pit.values.size} PITs of {checks.fit.called} minus "
        f"the uniform one: it {'stays inside' if inside else 'leaves'} the {BAND_PROB:.0%} "
        f"simultaneous band ({checks.of_pits.p_text})."
    )
    return finish(figure, alt)


@styled
def calibration(found: Calibration, *, theme: Theme = LIGHT) -> Figure:
    """Draw the difference between the distribution of each quantity's ranks and the uniform one.

    Parameters
    ----------
    found : Calibration
        The result that :func:`pyflowers.sbc` returns. If there are more than 12 quantities, the 12
        whose ranks are furthest from uniform are drawn.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        A panel for each quantity, with the 99.99% simultaneous band for uniform ranks.

    Raises
    ------
    ConfigError
        If no fit has ranks.

    See Also
    --------
    pyflowers.sbc : Run simulation-based calibration.

    Examples
    --------
    Few simulations keep the example short; a real check takes about 1000.

    >>> import pyflowers
    >>> priors = {"mu_mean": 5, "mu_sd": 2, "sigma2_nu": 10}
    >>> found = pyflowers.sbc("iid_normal", out="sbc", sims=20, seed=1, priors=priors,
    ...                       engine="stanli", workers=1, chains=2, warmup=250, draws=250)
    >>> figure = pyflowers.plots.calibration(found)
    >>> figure.savefig("calibration.png")
    """
    from pyflowers.analysis.calibration import PROB
    from pyflowers.analysis.ecdf import uniform_band

    table = found.table()
    names = list(table.index)
    if len(names) > MOST_QUANTITIES:
        names = list(table.sort_values("p_value", kind="stable").index[:MOST_QUANTITIES])
    figure, axes = panels(len(names), 3, 1.5, theme, sharex=True)
    band = uniform_band(found.num_fits, num_draws=found.num_draws, prob=PROB)
    for ax, name in zip(axes, names, strict=True):
        _ecdf_difference(ax, found.values(name), band, theme)
        ax.set_title(label(name, 24), fontsize=9, loc="left")
    for ax in axes[::3]:
        ax.set_ylabel("ECDF − uniform")
    for ax in axes[-3:]:
        ax.set_xlabel("rank of the truth")
    alt = (
        f"Ranks of the true values of {found.called or found.name} over {found.num_fits} simulated "
        f"data sets, as their distribution function minus the uniform one: {found}."
    )
    note = ""
    if len(names) < len(table):
        least = "those with the least uniform ranks"
        note = f"{len(names)} of {len(table)} quantities are shown: {least}."
    return finish(figure, alt, note)


def _ecdf_difference(ax: Axes, values: NDArray[np.float64], band: Band, theme: Theme) -> bool:
    """Draw ECDF minus uniform, with its band; return whether the ECDF stays inside the band."""
    from pyflowers.analysis.ecdf import counts

    points = np.concatenate([[0.0], band.points, [1.0]])
    num, inside = band.num_values, band.contains(values)
    found = counts(values, band.points, num)
    lower, upper, line = (
        np.concatenate([[0], each, [num]]) / num - points
        for each in (band.lower, band.upper, found)
    )
    ax.fill_between(points, lower, upper, color=theme.model, alpha=0.22, lw=0, step="post")
    ax.axhline(0, color=theme.muted, lw=0.8)
    ax.step(points, line, where="post", color=theme.data if inside else theme.alarm, lw=1.4)
    ax.set_xlim(0, 1)
    ax.yaxis.set_major_locator(MaxNLocator(5))
    return inside


def elpd_intervals(models: Sequence[ModelLoo], interval: float) -> NDArray[np.float64]:
    """Return the elpd difference of each model from the best one, with its normal interval."""
    interval_quantiles(interval)  # rejects an invalid probability
    half = NormalDist().inv_cdf((1 + interval) / 2)
    rows = [
        (m.difference - half * m.difference_se, m.difference, m.difference + half * m.difference_se)
        for m in models
    ]
    return np.reshape(rows, (-1, 3))


@styled
def elpd_differences(
    comparison: LooComparison,
    *,
    interval: float = INTERVAL,
    labels: Mapping[str, str] | None = None,
    theme: Theme = LIGHT,
) -> Figure:
    """Draw the difference in elpd between each model and the best model.

    Parameters
    ----------
    comparison : LooComparison
        The comparison that :func:`pyflowers.loo` returns.
    interval : float
        Probability of the intervals, which are normal approximations.
    labels : mapping of str to str, optional
        The name of each model in the figure. Default: the model's name.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        A row for each model: the difference, in nats, with its interval.

    See Also
    --------
    pyflowers.loo : Compare models by PSIS-LOO.

    Examples
    --------
    >>> import pyflowers
    >>> counts = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> normal = pyflowers.fit("multilevel_normal", seed=1, engine="exact")
    >>> figure = pyflowers.plots.elpd_differences(pyflowers.loo([counts, normal]))
    >>> figure.savefig("elpd.png")
    """
    models = comparison.models
    rows = np.arange(len(models))
    figure, (ax,) = panels(1, 1, 0.2 + 0.36 * len(models), theme)
    low, difference, high = elpd_intervals(models, interval).T
    ax.axvline(0, color=theme.muted, lw=0.9, ls=style.DASHED)
    ax.hlines(rows, low, high, color=theme.model, lw=2.2)
    ax.plot(difference, rows, "o", ms=6, color=theme.model)
    names = [(labels or {}).get(model.name, model.name) for model in models]
    ax.set_yticks(rows, [label(name, 32) for name in names])
    ax.set_ylim(len(models) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    about = f"{percent(interval)} interval (right is better)"
    # The label is wider than the axis on a phone, so it is aligned with the right end of the axis.
    ax.set_xlabel(f"elpd difference from best model\n{about}", loc="right")
    differences = "; ".join(
        f"{name} {m.difference:.3g} (standard error {m.difference_se:.3g})"
        for name, m in list(zip(names, models, strict=True))[1:]
    )
    alt = (
        f"Differences in elpd from {names[0]}, which predicts best: "
        f"{differences or 'no other model'}."
    )
    return finish(figure, alt)
