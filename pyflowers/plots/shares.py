"""How much models explain: R², LOO-R² and the shares of groups, on one axis from 0 to 1."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from pyflowers.plots import style
from pyflowers.plots.groups import ROW, interval_probs, intervals_of_rows
from pyflowers.plots.style import LIGHT, Theme, finish, label, styled

if TYPE_CHECKING:
    from pyflowers.analysis.explained_variance import Explained

MARGIN = 0.02
"""Space at the ends of the axis, so that a point at 0 or 1 is not cut off."""

CHARACTERS, LINE = 26, 0.18
"""Characters in a line of a panel's title, and the height of the line in inches."""

LEAST = -1.0
"""The lowest end of the axis: LOO-R² has no lower bound."""


@styled
def explained(
    found: Explained, *, labels: Mapping[str, str] | None = None, theme: Theme = LIGHT
) -> Figure:
    """Draw the shares of the variance that models explain, and the shares that lie between groups.

    The intervals have probability 50% and the first fit's ``interval``, 90% by default. The axis
    goes from 0 to 1, and below 0 only for a LOO-R² that is negative.

    Parameters
    ----------
    found : Explained
        The result of :func:`pyflowers.explained`.
    labels : mapping of str to str, optional
        The name of each model in the figure. Default: the model's name.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        A panel for each model, with a row for each R² and each share.

    See Also
    --------
    pyflowers.explained : Compute the shares.

    Examples
    --------
    >>> import pandas as pd, pyflowers
    >>> y = [1.0, 2.9, 5.1, 7.0, 8.9, 11.1]
    >>> frame = pd.DataFrame({"dose": [0, 1, 2, 3, 4, 5], "y": y})
    >>> fit = pyflowers.fit("y ~ dose", frame, seed=1, engine="stanli")
    >>> figure = pyflowers.plots.explained(pyflowers.explained(fit))
    >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
    ['R²', 'R² of residuals', 'LOO R²']
    """
    interval, shares = found.fits[0].interval, list(found.shares.values())
    heights = [ROW * (len(its) + 0.5) for its in shares]
    called = [(labels or {}).get(model, model) for model in found.shares]
    titles = [""] * len(shares)
    if len(shares) > 1:
        titles = [_folded(name) for name in called]
    lines = sum(len(title.splitlines()) for title in titles)
    figure = style.new_figure(0.95 + sum(heights) + LINE * lines, theme)
    axes = figure.subplots(
        len(shares), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
    )[:, 0]
    low, said, handles = 0.0, list[str](), []
    for ax, name, title, its in zip(axes, called, titles, shares, strict=True):
        levels = np.array([np.quantile(each, interval_probs(interval)) for each in its.values()]).T
        names = [_name(*key) for key in its]
        handles = intervals_of_rows(ax, levels, theme, interval)
        ax.set_yticks(np.arange(len(names)), names)
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.grid(axis="y", visible=False)
        ax.set_title(title, fontsize=9, pad=3)
        medians = [f"{row} {each:.2f}" for row, each in zip(names, levels[2], strict=True)]
        said.append(f"{name}: {', '.join(medians)}")
        low = min(low, float(levels[0].min()))
    axes[-1].set_xlim(max(low, LEAST) - MARGIN, 1 + MARGIN)
    axes[-1].set_xlabel("share of the variance")
    if low < 0:
        for ax in axes:
            ax.axvline(0, color=theme.muted, lw=0.8, zorder=0)
    style.legend(figure, handles)
    beyond = ""
    if low < LEAST:
        beyond = "An interval extends below the axis; its end is in the table."
    return finish(figure, f"Shares of the variance, medians. {'; '.join(said)}.", beyond)


def _folded(name: str) -> str:
    """Return the name of a model in at most two lines that fit a panel on a phone."""
    return "\n".join(textwrap.wrap(label(name, 80), CHARACTERS, max_lines=2, placeholder=" …"))


def _name(measure: str, of: str) -> str:
    """Return the name of a row, in which only the name of a column is shortened."""
    measure = measure.replace("R2", "R²")
    if of in ("model", "rows"):
        return measure
    if of == "residuals" or of.startswith("model of "):
        return f"{measure} of {of.removeprefix('model of ')}"
    column, _, scale = of.partition(", scale of ")
    if scale:
        return f"{measure}, {label(column, 14)} ({scale.removeprefix('the ')})"
    return f"{measure}, {of}"
