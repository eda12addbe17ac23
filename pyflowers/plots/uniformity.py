"""Whether values are uniform: their distribution function minus the uniform one, and its band."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from pyflowers.plots.style import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pyflowers.analysis.ecdf import Band


def ecdf_difference(ax: Axes, values: NDArray[np.float64], band: Band, theme: Theme) -> bool:
    """Draw ECDF minus uniform with its band; return whether it stays inside."""
    from pyflowers.analysis.ecdf import counts

    points = np.concatenate([[0.0], band.points, [1.0]])
    num = band.num_values
    found = counts(values, band.points, num)
    lower = np.concatenate([[0], band.lower, [num]]) / num - points
    upper = np.concatenate([[0], band.upper, [num]]) / num - points
    ax.fill_between(points, lower, upper, color=theme.model, alpha=0.22, lw=0, step="post")
    ax.axhline(0, color=theme.muted, lw=0.8)
    inside = band.contains(values)
    line = np.concatenate([[0], found, [num]]) / num - points
    ax.step(points, line, where="post", color=theme.data if inside else theme.alarm, lw=1.4)
    ax.set_xlim(0, 1)
    ax.yaxis.set_major_locator(MaxNLocator(5))
    return inside
