"""Detecting texts in a drawn figure that overlap or run off the figure."""

import itertools

from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.transforms import Affine2D, Bbox

SLACK = 1.0
"""Pixels, at 100 per inch, by which boxes may overlap, because they are larger than the letters."""


class _Recorder(RendererAgg):
    """A renderer like Agg that also keeps the box of each line of text."""

    def __init__(self, width, height, dpi):
        super().__init__(width, height, dpi)
        self.texts = []

    def draw_text(self, gc, x, y, s, prop, angle, ismath=False, mtext=None):
        """Draw a line of text, and keep the text and the box of its letters."""
        if s.strip():
            width, height, descent = self.get_text_width_height_descent(s, prop, ismath)
            around = Affine2D().rotate_deg(angle).translate(x, self.height - y)
            box = Bbox.from_extents(0, -descent, width, height - descent)
            self.texts.append((s, around.transform_bbox(box)))
        super().draw_text(gc, x, y, s, prop, angle, ismath, mtext)


def drawn_texts(figure):
    """Return (text, box) of each line of text that is drawn, and the box of the figure."""
    figure.set_dpi(100)
    width, height = figure.get_size_inches() * 100
    recorder = _Recorder(width, height, 100)
    figure.draw(recorder)  # once to settle the layout
    recorder.texts.clear()
    figure.draw(recorder)
    return recorder.texts, Bbox.from_bounds(0, 0, width, height)


def collisions(figure):
    """Return pairs of texts that overlap, and texts that run off the figure."""
    texts, page = drawn_texts(figure)
    found = [
        (one, other)
        for (one, first), (other, second) in itertools.combinations(texts, 2)
        if _overlap(first, second)
    ]
    cut = [(text, "the edge") for text, box in texts if not _within(box, page)]
    return found + cut


def _overlap(first, second):
    width = min(first.x1, second.x1) - max(first.x0, second.x0)
    height = min(first.y1, second.y1) - max(first.y0, second.y0)
    return width > SLACK and height > SLACK


def _within(box, page):
    low = box.x0 >= page.x0 - SLACK and box.y0 >= page.y0 - SLACK
    return low and box.x1 <= page.x1 + SLACK and box.y1 <= page.y1 + SLACK
