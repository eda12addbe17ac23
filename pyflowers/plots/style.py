"""The visual style of all figures, applied while a figure is built and drawn, never globally.

The hues, which people with any type of colour vision can distinguish, are from Okabe and Ito (2008,
Color Universal Design). The lightness is chosen so that the contrast ratio to the page is at least
3 for lines and 4.5 for text. Labels are drawn as the user wrote them: ``$`` is a dollar sign and
does not start a formula.
"""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any, ParamSpec, TypeVar

import matplotlib as mpl
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from pyflowers.errors import ConfigError

WIDTH = 5.6
"""Width of every figure in inches, which fits a page and is still readable on a phone."""

NARROW = 3.7
"""Width of a figure for a phone in inches; its screen is 390 pixels wide."""

DASHED = (0, (4, 2))

LEGEND_KEY = 0.48
"""Width of a legend's line and the space around it, in inches."""

NOTE_CHARACTERS = 86
"""Characters of the small print that fit on one line of a figure."""

LARGEST = 1e150
"""The largest draw that is shown; neither its square nor the ends of an axis overflow."""

_FALLBACKS = (
    *("Noto Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans Arabic"),
    *("Noto Sans Devanagari", "Noto Emoji", "WenQuanYi Zen Hei", "Hiragino Sans"),
    *("Microsoft YaHei", "Malgun Gothic", "Arial Unicode MS", "Symbola"),
)
_HARMLESS = r"Glyph .* missing from font|Matplotlib currently does not support .* natively"
"""Warnings about labels with a glyph or script that a font lacks; a box is drawn instead."""


@dataclass(frozen=True)
class Theme:
    """The colours of a figure by their meaning.

    Every colour is a string that matplotlib accepts, such as ``#1b2430``. There are two themes:
    :data:`pyflowers.plots.LIGHT`, the default, and :data:`pyflowers.plots.DARK`.

    Attributes
    ----------
    paper, ink, muted, grid : str
        Background; text and lines; secondary text; grid lines.
    data : str
        Observed data.
    model : str
        Posterior and predictions.
    prior : str
        Prior.
    alarm : str
        Divergences and failures.
    chains : tuple of str
        Colours of the chains, which repeat if there are more chains than colours.

    Examples
    --------
    >>> from dataclasses import replace
    >>> import pyflowers
    >>> fit = pyflowers.fit("iid_normal", seed=1, engine="exact")
    >>> theme = replace(pyflowers.plots.LIGHT, model="darkgreen")
    >>> figure = pyflowers.plots.trace_first_chain(fit, theme=theme)
    >>> figure.savefig("trace.png")
    """

    paper: str
    ink: str
    muted: str
    grid: str
    data: str
    model: str
    prior: str
    alarm: str
    chains: tuple[str, ...]


LIGHT = Theme(
    paper="#ffffff",
    ink="#1b2430",
    muted="#5b6673",
    grid="#dfe3e8",
    data="#1b2431",
    model="#0072b2",
    prior="#8a5a00",
    alarm="#d55e00",
    chains=("#0072b3", "#c07f00", "#00916a", "#bf5c92", "#3296d2", "#8f3d00"),
)
DARK = Theme(
    paper="#14191f",
    ink="#e6eaef",
    muted="#a3adb8",
    grid="#333c46",
    data="#e6eaee",
    model="#56b4e9",
    prior="#f0b429",
    alarm="#ff8a3d",
    chains=("#56b4e8", "#e69f01", "#2bc499", "#e29ac3", "#9ad4f5", "#ff8a3c"),
)
# No two roles of a theme share a colour, because the report identifies roles by colour (see
# reports/page.py).

Axes = Any
"""``matplotlib.axes.Axes``, whose type annotations are too narrow."""

P = ParamSpec("P")
R = TypeVar("R")


class StyledFigure(Figure):
    """A figure that is drawn in its theme, regardless of the global settings."""

    theme: Theme = LIGHT
    note: str = ""
    handles: Sequence[Any] = ()
    _laid_out: bool = False

    def draw(self, renderer: Any) -> None:
        """Draw in the figure's own theme."""
        with applied(self.theme):
            super().draw(renderer)

    def _repr_png_(self) -> bytes:
        """Return the figure as PNG, which a notebook shows without ``%matplotlib``."""
        image = BytesIO()
        self.savefig(image, format="png")
        return image.getvalue()

    def get_layout_engine(self) -> Any:
        """Return the layout engine, or None while a figure that was laid out is being saved."""
        return None if self._laid_out else super().get_layout_engine()

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        """Lay out the figure, then save it without a layout engine, so that it is drawn once."""
        engine = self.get_layout_engine()
        if engine is not None:
            with applied(self.theme):
                engine.execute(self)
        self._laid_out = True
        try:
            super().savefig(*args, **kwargs)
        finally:
            self._laid_out = False
            if engine is not None:  # matplotlib found no engine to restore
                self.set_layout_engine(engine)


@contextmanager
def applied(theme: Theme) -> Iterator[None]:
    """Apply the style to figures that are built and drawn in the block; hide harmless warnings."""
    with mpl.rc_context(_settings(theme)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_HARMLESS)
        yield


def styled(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function draw its figure in the theme given by its keyword ``theme``."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        theme = kwargs.get("theme", LIGHT)
        try:
            with applied(theme if isinstance(theme, Theme) else LIGHT):
                return function(*args, **kwargs)
        except AttributeError as error:
            # Other messages are the object's own, such as that of the fits of several tables.
            if args and str(error).startswith(f"'{type(args[0]).__name__}' object"):
                _refuse_another_type(function, args[0])
            raise

    return wrapper


def _refuse_another_type(function: Callable[..., Any], given: object) -> None:
    """Reject an object of this package that is not what a function draws."""
    first = next(iter(inspect.signature(function).parameters.values()))
    wanted = re.findall(r"\w+", str(first.annotation))
    own = {each.__name__ for each in type(given).__mro__}
    if type(given).__module__.startswith("pyflowers.") and own.isdisjoint(wanted):
        name = function.__name__
        raise ConfigError(
            f"plots.{name} draws {first.annotation}, not {type(given).__name__}; "
            f"help(pyflowers.plots.{name}) has an example"
        )


def new_figure(height: float, theme: Theme, *, pad: float = 0.06) -> StyledFigure:
    """Return an empty figure, `height` inches high, with `pad` inches around each panel."""
    figure = StyledFigure(figsize=(WIDTH, height))
    figure.set_layout_engine("constrained", w_pad=pad, h_pad=pad)
    figure.theme = theme
    FigureCanvasAgg(figure)
    return figure


def panels(
    num: int, columns: int, height: float, theme: Theme, **shared: Any
) -> tuple[StyledFigure, list[Axes]]:
    """Return a figure and its `num` panels, in rows of `columns`, each `height` inches high."""
    columns = max(1, min(columns, num))
    rows = -(-num // columns)
    figure = new_figure(rows * height + 0.55, theme)
    grid = figure.subplots(rows, columns, squeeze=False, **shared)
    axes = list(grid.flat)
    for spare in axes[num:]:
        spare.remove()
    return figure, axes[:num]


def finish(figure: StyledFigure, alt: str, *notes: str) -> StyledFigure:
    """Set the alternative text of a figure, and write the notes below the figure."""
    note = " ".join(filter(None, notes))
    if note:
        figure.note = label(note, 400)
        _write_note(figure)
    figure.set_label(f"{alt} {note}".strip())
    return figure


def _write_note(figure: StyledFigure) -> None:
    """Write the note of a figure in lines that fit its width."""
    most = int(NOTE_CHARACTERS * figure.get_figwidth() / WIDTH)
    text = "\n".join(textwrap.wrap(figure.note, most))
    figure.supxlabel(text, x=0.01, ha="left", color=figure.theme.muted, fontsize=8)


def narrow(figure: StyledFigure) -> None:
    """Make a figure as narrow as a phone, with text of the same size."""
    with applied(figure.theme):
        figure.set_size_inches(NARROW, figure.get_figheight())
        for old in figure.legends[:]:
            old.remove()
        if figure.handles:
            legend(figure, figure.handles)
        if figure.note:
            _write_note(figure)
        for ax in figure.axes:
            lines = ax.get_xlabel().split("\n")
            ax.xaxis.label.set_text("\n".join(fitted(line, NARROW - 1.0) for line in lines))


def alt_text(figure: Figure) -> str:
    """Return the alternative text of a figure: what the figure shows, in words.

    Parameters
    ----------
    figure : Figure
        A figure that a function of :mod:`pyflowers.plots` returned.

    Returns
    -------
    str
        The text.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("iid_normal", seed=1, engine="exact")
    >>> pyflowers.plots.alt_text(pyflowers.plots.trace_first_chain(fit))
    'Traceplot of mu in the first chain of iid_normal: 1000 draws around a median of ...'
    """
    return str(figure.get_label())


def label(text: str, most: int = 28) -> str:
    """Return a user's label as a line of at most `most` characters, without control characters."""
    shown = visible(str(text))
    if len(shown) <= most:
        return shown
    head = (most - 1) * 2 // 3
    return f"{shown[:head]}…{shown[len(shown) - (most - 1 - head) :]}"


def fitted(text: str, inches: float, *, size: float = 9.0, bold: bool = False) -> str:
    """Return a user's label, shortened in the middle if it does not fit a given width.

    Parameters
    ----------
    text : str
        The label.
    inches : float
        The available width.
    size : float
        Font size in points.
    bold : bool
        Whether the text is bold.
    """
    shown = label(text, 80)
    for most in range(len(shown), 3, -1):
        shown = label(text, most)
        if text_width(shown, size=size, bold=bold) <= inches:
            break
    return shown


def text_width(text: str, *, size: float = 9.0, bold: bool = False) -> float:
    """Return the width of text, as drawn, in inches."""
    font = font_manager.FontProperties(size=size, weight="bold" if bold else "normal")
    width, _, _ = _RULER.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / POINTS


def panel_width(columns: int) -> float:
    """Return the approximate width of one of several panels in a row, in inches."""
    return (WIDTH - 0.55) / columns - 0.15


def title(ax: Axes, name: str, columns: int, below: str) -> None:
    """Add a title to one of several panels in a row, and the unit below it."""
    room = panel_width(columns)
    ax.set_title(fitted(name, room, size=9.5, bold=True), pad=3)
    ax.set_xlabel(fitted(below, room, size=8), fontsize=8)


def legend(figure: Any, handles: Sequence[Any], place: str = "upper right", **how: Any) -> None:
    """Draw a legend above all panels, in as few rows as possible; only the last can be short."""
    figure.handles = handles
    room = figure.get_figwidth()
    widths = [text_width(handle.get_label(), size=8.5) + LEGEND_KEY for handle in handles]
    num = len(handles)
    while num > 1 and max(sum(widths[i : i + num]) for i in range(0, len(widths), num)) > room:
        num -= 1
    # matplotlib fills columns, but a legend is read row by row.
    by_column = [handle for column in range(num) for handle in handles[column::num]]
    figure.legend(
        handles=by_column, loc=f"outside {place}", **({"ncols": num, "columnspacing": 1.2} | how)
    )


def key(label: str, **look: Any) -> Line2D:
    """Return a line that appears only in a legend."""
    return Line2D([], [], label=label, **look)


def without_y_axis(ax: Axes) -> None:
    """Hide the y axis of densities or counts, whose values have no meaning for the reader."""
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def few_ticks(ax: Axes, which: str, num: int) -> None:
    """Give the axis ``x`` or ``y`` about `num` ticks, as plain numbers if it is logarithmic."""
    axis = getattr(ax, f"{which}axis")
    if axis.get_scale() != "linear":
        axis.get_major_locator().set_params(numticks=num)
        plain_ticks(axis)
    elif axis.get_ticklocs().size:
        ax.locator_params(axis=which, nbins=num)


def plain_ticks(axis: Any) -> None:
    """Write ticks of a logarithmic axis as plain numbers, without the unlabelled minor ticks.

    There are up to eight minor ticks per decade, and each takes as long to draw as a labelled one.
    """
    plain = FuncFormatter(lambda value, _: f"{value:g}".replace("e+0", "e").replace("e-0", "e-"))
    axis.set_major_formatter(plain)
    axis.set_minor_locator(NullLocator())


_NO_TEXT = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef"
    + "".join(f"{chr(end - 1)}{chr(end)}" for end in range(0xFFFF, 0x110000, 0x10000))
    + "]"
)
"""Control characters, surrogates and noncharacters; HTML forbids all of them except white space."""


def visible(text: str, but: str = "") -> str:
    """Replace control characters with their symbols or with �, except those in `but`."""

    def picture(found: re.Match[str]) -> str:
        character = found[0]
        if character in but:
            return character
        if character < " ":
            return chr(0x2400 + ord(character))
        if character == "\x7f":
            return "␡"
        return "�"

    return _NO_TEXT.sub(picture, text)


@functools.cache
def _fonts() -> tuple[str, ...]:
    """Return DejaVu Sans, which comes with matplotlib, and the fallbacks that are installed."""
    installed = set(font_manager.fontManager.get_font_names())
    return ("DejaVu Sans", *(name for name in _FALLBACKS if name in installed))


POINTS = 72
"""Points per inch."""

_RULER: Any = RendererAgg(1, 1, POINTS)  # type: ignore[no-untyped-call]
"""A renderer that only measures text."""


def _settings(theme: Theme) -> Any:
    """Return all settings, so that a user's matplotlibrc has no effect."""
    kept = ("backend", "backend_fallback", "interactive", "toolbar", "timezone")
    own: dict[str, Any] = {k: v for k, v in mpl.rcParamsDefault.items() if k not in kept}
    inked = ("axes.labelcolor", "axes.titlecolor", "legend.labelcolor", "text.color")
    own |= dict.fromkeys([*inked, "xtick.labelcolor", "ytick.labelcolor"], theme.ink)
    own |= dict.fromkeys(["axes.edgecolor", "xtick.color", "ytick.color"], theme.muted)
    own |= dict.fromkeys(["figure.facecolor", "savefig.facecolor"], theme.paper)
    without = ("axes.formatter.useoffset", "axes.spines.right", "axes.spines.top")
    own |= dict.fromkeys([*without, "legend.frameon", "text.parse_math"], False)
    return own | {
        "axes.axisbelow": True,
        "axes.facecolor": "none",
        "axes.grid": True,
        "axes.linewidth": 0.7,
        "axes.titlelocation": "left",
        "axes.titlesize": 9.5,
        "axes.titleweight": "bold",
        "axes.titley": 1.0,  # the usual place, without a search for ticks above the axes
        "font.family": list(_fonts()),
        "font.size": 9,
        "grid.color": theme.grid,
        "grid.linewidth": 0.6,
        "legend.fontsize": 8.5,
        "lines.linewidth": 1.2,
        "path.simplify_threshold": 0.5,
        "pdf.fonttype": 42,
        "svg.fonttype": "none",
        "svg.hashsalt": "pyflowers",
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
    }
