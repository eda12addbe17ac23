"""The figure of the race: time to the first posterior and ESS per second, by table size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from benchmarks.peers.methods import METHODS, Family
from benchmarks.peers.results import hopeless
from benchmarks.peers.summary import Measure, Row, by_size
from pyflowers.plots.style import LIGHT, StyledFigure, Theme, applied, new_figure

WIDTH = 9.0
"""Width in inches: five columns of panels and the method names need more than other figures."""

PANEL = 2.5
NAMES: dict[Family, str] = {
    "pyflowers": "pyflowers",
    "peer": "peer",
    "estimate": "maximum likelihood, no posterior",
}


def colour_and_marker(family: Family, theme: Theme) -> tuple[str, str]:
    """Return the style of a family, which differs in shape as well as in colour."""
    return {
        "pyflowers": (theme.model, "o"),
        "peer": (theme.alarm, "D"),
        "estimate": (theme.muted, "s"),
    }[family]


def save(rows: Sequence[Row], path: Path) -> None:
    """Draw and save the figure, in the format of the file name or as SVG."""
    metadata = {"Date": None} if path.suffix == ".svg" else None
    draw(rows).savefig(path, metadata=metadata)


def draw(rows: Sequence[Row], theme: Theme = LIGHT) -> StyledFigure:
    """Draw two rows of panels, a column for each size, all methods on one scale."""
    groups = by_size(rows)
    known = {
        method.label: [result for row in rows if row.method is method for result in row.results]
        for method in METHODS
    }
    labels = [label for label, results in known.items() if results]
    with applied(theme):
        figure = new_figure(2 * PANEL + 0.9, theme)
        figure.set_size_inches(WIDTH, 2 * PANEL + 0.9)
        axes = figure.subplots(2, len(groups), squeeze=False, sharex="row", sharey=True)
        for column, (size, mine) in enumerate(groups.items()):
            first, rate = axes[0][column], axes[1][column]
            first.set_title(size.label)
            for row in mine:
                height = labels.index(row.method.label)
                mark(first, row, row.first, height, theme)
                mark(rate, row, row.rate, height, theme)
            for label in labels:
                if hopeless(size, known[label]) and all(row.method.label != label for row in mine):
                    for panel in (first, rate):
                        say(panel, "too slow", labels.index(label), theme)
            for panel in (first, rate):
                finish_panel(panel, labels, len(groups))
        # Labels start at the left edge, so that a long label extends below the next panels.
        left = axes[:, 0]
        left[0].set_xlabel("seconds to the first posterior (less is better)", loc="left")
        left[1].set_xlabel("least bulk ESS per second (more is better)", loc="left")
        legend(figure, rows, theme)
    figure.set_label(alt_text(rows))
    return figure


def instead(row: Row) -> str:
    """Return the text that a panel shows instead of a median."""
    ended = row.unfinished
    if ended is not None and ended.status == "stopped":
        return "too large" if "memory" in ended.reason else "too slow"
    return "no draws" if row.first is not None else "–"


def mark(panel: Any, row: Row, measure: Measure | None, height: int, theme: Theme) -> None:
    """Draw a median with its spread; the mark is hollow if the posterior differs."""
    colour, marker = colour_and_marker(row.method.family, theme)
    if measure is None:
        say(panel, instead(row), height, theme)
        return
    panel.plot(
        [measure.low, measure.high], [height, height], color=colour, linewidth=2.2, alpha=0.5
    )
    is_full = row.is_right or row.method.family == "estimate"
    panel.plot(
        *([measure.middle], [height]),
        marker=marker,
        markersize=6,
        linestyle="none",
        markeredgecolor=colour,
        markerfacecolor=colour if is_full else theme.paper,
    )


def say(panel: Any, note: str, height: int, theme: Theme) -> None:
    """Write why a method has no mark."""
    where = panel.get_yaxis_transform()
    panel.text(0.04, height, note, transform=where, va="center", color=theme.muted, fontsize=8)


def finish_panel(panel: Any, labels: Sequence[str], num_columns: int) -> None:
    """Set the scales: logarithmic in x, with methods from top to bottom."""
    panel.set_xscale("log")
    panel.margins(x=0.08)
    # Narrow panels have little room for numbers.
    subs, most = ((1.0,), 5) if num_columns > 2 else ((1.0, 3.0), 9)
    panel.xaxis.set_major_locator(LogLocator(subs=subs, numticks=most))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    panel.set_yticks(range(len(labels)), labels)
    panel.set_ylim(len(labels) - 0.4, -0.6)
    panel.tick_params(axis="y", length=0)


def short(value: float) -> str:
    """Return a tick's number: narrow panels have no room for 10000."""
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def legend(figure: StyledFigure, rows: Sequence[Row], theme: Theme) -> None:
    """Explain colours, shapes and hollow marks above the panels."""
    families = [f for f in NAMES if any(row.method.family == f for row in rows)]
    entries = []
    for family in families:
        colour, marker = colour_and_marker(family, theme)
        entries.append(
            Line2D([], [], color=colour, marker=marker, linestyle="none", label=NAMES[family])
        )
    if any(is_other(row) for row in rows):
        entries.append(
            Line2D(
                *([], []),
                marker="D",
                linestyle="none",
                label="another posterior (see the table)",
                markeredgecolor=theme.alarm,
                markerfacecolor=theme.paper,
            )
        )
    figure.legend(handles=entries, loc="outside upper left", ncols=len(entries), handletextpad=0.2)


def is_other(row: Row) -> bool:
    """Whether a method sampled a posterior other than the requested one."""
    return row.rate is not None and not row.is_right


def alt_text(rows: Sequence[Row]) -> str:
    """Return the alternative text of the figure."""
    sizes = list(by_size(rows))
    return (
        f"Time to the first posterior and minimum effective sample size per second of "
        f"{len({row.method.key for row in rows})} methods, at {', '.join(s.label for s in sizes)} "
        "plants × months; the table has the numbers"
    )
