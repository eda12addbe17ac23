"""Sensitivity to the prior and to the likelihood, a row for each quantity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from pyflowers.errors import ConfigError
from pyflowers.plots.style import LIGHT, Theme, finish, label, new_figure, plain_ticks, styled

if TYPE_CHECKING:
    from pyflowers.analysis.prior_sensitivity import Sensitivity

MOST_ROWS = 8
"""Elements of a program that are shown: those that are the most sensitive to the prior."""

LEAST = 0.002
"""Where the axis begins; what is less is drawn there."""


@styled
def power_scaling(found: Sequence[Sensitivity], *, theme: Theme = LIGHT) -> Figure:
    """Draw the sensitivities of one or several fits beside the threshold.

    Parameters
    ----------
    found : sequence of Sensitivity
        As :func:`pyflowers.sensitivity` returns them.
    theme : Theme
        Colours.

    Raises
    ------
    ConfigError
        If none of them could be computed.
    """
    from pyflowers.analysis.prior_sensitivity import THRESHOLD

    rows = [(each.name, element) for each in found for element in _shown(each)]
    if not rows:
        raise ConfigError("sensitivity: no sensitivity could be computed; see its notes")
    figure = new_figure(1.0 + 0.22 * len(rows) + 0.1 * len(found), theme)
    ax = figure.subplots()
    ax.set_xscale("log")
    styles = {"prior": ("D", theme.prior), "likelihood": ("o", theme.model)}
    places = _places([name for name, _ in rows])
    for component, (marker, colour) in styles.items():
        points = [
            (_value(each, component, element), place)
            for (name, element), place in zip(rows, places, strict=True)
            for each in found
            if each.name == name
        ]
        x, y = np.array(points).T
        ax.plot(np.maximum(x, LEAST), y, marker, ms=5, color=colour, label=component, clip_on=False)
    ax.axvline(THRESHOLD, color=theme.ink, lw=0.9, ls=(0, (4, 2)))
    ax.set_yticks(places, [_row_label(name, element, found) for name, element in rows])
    ax.set_ylim(places[-1] + 0.7, -0.7)
    ax.set_xlim(left=LEAST)
    ax.grid(axis="y", visible=False)
    plain_ticks(ax.xaxis)
    ax.set_xlabel(f"sensitivity to power-scaling; from {THRESHOLD:g} on (dashed) it counts")
    figure.legend(loc="outside upper left", ncols=2)
    return finish(figure, _alt(found), _note(found))


def _shown(each: Sensitivity) -> list[str]:
    """Return the elements to show in the posterior's order."""
    if "prior" not in each.distances:
        return []
    prior = each.distances["prior"].dropna()
    worst = set(prior.sort_values(ascending=False, kind="stable").index[:MOST_ROWS])
    return [str(element) for element in prior.index if element in worst]


def _places(names: list[str]) -> list[float]:
    """Return where the rows are, with a gap between programs."""
    gaps = np.cumsum([0, *(a != b for a, b in zip(names[1:], names, strict=False))])
    return [i + 0.6 * float(gap) for i, gap in enumerate(gaps)]


def _row_label(name: str, element: str, found: Sequence[Sensitivity]) -> str:
    return label(element if len(found) == 1 else f"{name}: {element}", 40)


def _value(each: Sensitivity, component: str, element: str) -> float:
    return float(each.distances[component][element]) if component in each.distances else np.nan


def _note(found: Sequence[Sensitivity]) -> str:
    more = sum(len(each.distances) - len(_shown(each)) for each in found)
    if not more:
        return ""
    return f"{more} more quantities, less sensitive to the prior, are not shown."


def _alt(found: Sequence[Sensitivity]) -> str:
    sentences = []
    for each in found:
        values = ", ".join(
            f"{element} {_value(each, 'prior', element):.2g}" for element in _shown(each)
        )
        if values:
            sentences.append(f"{each.name}: {values}.")
    return f"Sensitivity to power-scaling of the prior. {' '.join(sentences)}"
