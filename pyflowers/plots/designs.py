"""The figure of simulated designs: how wide intervals are, and how often they exclude 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pyflowers.display import percent
from pyflowers.plots import style
from pyflowers.plots.style import LIGHT, Theme, finish, fitted, panels, styled
from pyflowers.text import in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pyflowers.analysis.designs import Design

MOST_TICKS = 6
"""The largest number of sizes for which the axis has a tick at every size."""

_MARKERS = "os^Dv"


@styled
def design(found: Design, *, theme: Theme = LIGHT) -> Figure:
    """Draw the width of intervals and the share that excludes 0 or lies in a region, by size.

    Parameters
    ----------
    found : Design
        The result of :func:`pyflowers.design`.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        A row of panels for each parameter. Bars extend two Monte Carlo standard errors each way.

    Examples
    --------
    >>> import pyflowers
    >>> found = pyflowers.design("weight ~ age + (1 | rat)", "examples/rats/rats.csv", out="design",
    ...                          groups=[5, 20], rows=5, effects={"b[age]": 6}, sims=3, seed=1)
    >>> pyflowers.plots.design(found).savefig("design.png")
    """
    table = found.table().reset_index()
    x, lines = ("groups", sorted(set(table["rows"]))) if found.column else ("rows", [0])
    titles = {
        "width": f"width of the {percent(found.interval)} interval",
        "excludes 0": "share that excludes 0",
        "in region": "share in the region",
    }
    shown = [name for name in titles if name in table]
    figure, axes = panels(len(shown) * len(found.effects), len(shown), 2.1, theme)
    places = iter(axes)
    for name in found.effects:
        of_it = table[table["parameter"] == name]
        for what in shown:
            ax = next(places)
            for i, rows in enumerate(lines):
                its = of_it[of_it["rows"] == rows] if found.column else of_it
                look = {"color": theme.chains[i % len(theme.chains)], "capsize": 2, "lw": 1.2}
                error, marker = 2 * its[f"{what} mcse"], _MARKERS[i % len(_MARKERS)]
                ax.errorbar(its[x], its[what], error, marker=marker, ms=4, label=str(rows), **look)
            ax.set_title(fitted(name, style.panel_width(len(shown)), size=9.5, bold=True), pad=3)
            ax.set_xlabel(f"groups ({found.column})" if found.column else "rows")
            ax.set_ylabel(titles[what])
            if what == "width":
                ax.set_ylim(bottom=0)
            else:
                ax.set_ylim(-0.03, 1.03)
            if of_it[x].nunique() <= MOST_TICKS:
                ax.set_xticks(np.unique(of_it[x]))
    if found.column:
        handles, labels = axes[0].get_legend_handles_labels()
        names = [f"{label} rows each" for label in labels]
        for handle, text in zip(handles, names, strict=True):
            handle.set_label(text)
        style.legend(figure, handles, "upper center", ncols=min(len(handles), 4))
    cells = [
        f"{each['parameter']} with "
        + (f"{each['groups']} × " if found.column else "")
        + f"{each['rows']} rows: width {each['width']:.3g}, excludes 0 {each['excludes 0']:.0%}"
        for each in table.to_dict("records")
    ]
    model = found.called or found.name
    alt = f"Simulated designs of {model}, {found.sims} data sets each: {in_words(cells)}."
    return finish(figure, alt)
