"""The ranks of a simulation-based calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyflowers.analysis.calibration import PROB, Calibration
from pyflowers.analysis.ecdf import uniform_band
from pyflowers.plots.style import LIGHT, Theme, finish, label, panels, styled
from pyflowers.plots.uniformity import ecdf_difference

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_QUANTITIES = 12


@styled
def calibration(found: Calibration, *, theme: Theme = LIGHT) -> Figure:
    """Draw the distribution of each quantity's ranks minus the uniform one, in its 99.99% band.

    Parameters
    ----------
    found : Calibration
        As :func:`pyflowers.sbc` returns it; the quantities that are furthest from uniform
        come first where there are too many.
    theme : Theme
        Colours.
    """
    table = found.table()
    names = list(table.index)
    if len(names) > MOST_QUANTITIES:
        names = list(table.sort_values("p_value", kind="stable").index[:MOST_QUANTITIES])
    figure, axes = panels(len(names), 3, 1.5, theme, sharex=True)
    band = uniform_band(found.num_fits, num_draws=found.num_draws, prob=PROB)
    for ax, name in zip(axes, names, strict=True):
        ecdf_difference(ax, found.values(name), band, theme)
        ax.set_title(label(name, 24), fontsize=9, loc="left")
    for ax in axes[::3]:
        ax.set_ylabel("ECDF − uniform")
    for ax in axes[-3:]:
        ax.set_xlabel("rank of the truth")
    left_out = len(table) - len(names)
    alt = (
        f"Ranks of the true values of {found.name} over {found.num_fits} simulated data sets, as "
        f"their distribution function minus the uniform one: {found}."
    )
    note = f"{left_out} quantities that are nearer to uniform are left out." if left_out else ""
    return finish(figure, alt, note)
