"""Fill the gallery's front page: each figure is a thumbnail that leads to its code.

A cell with ``:gallery: TITLE`` adds its figure, followed by a link to the function that drew it
(``:source:``), and ``{gallery}`` puts the thumbnails of a page in a grid. sphinx-gallery would run
separate scripts; these figures are those of the pages' cells.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from docutils import nodes
from PIL import Image
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment


class Picture(NamedTuple):
    """A figure of the gallery."""

    docname: str
    anchor: str
    title: str
    uri: str
    alt: str


class Grid(nodes.General, nodes.Element):
    """The place for the thumbnails of a page, filled once all pages are read."""


class Gallery(SphinxDirective):
    """``{gallery} PAGE``: the thumbnails of one page."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return an empty grid."""
        return [Grid(docname=self.arguments[0])]


def setup(app: Sphinx) -> None:
    """Collect pictures while pages are read, and fill the grids when they are written."""
    app.add_directive("gallery", Gallery)
    app.add_node(Grid)
    app.connect("env-purge-doc", _forget)
    app.connect("env-merge-info", _merge)
    app.connect("doctree-resolved", _fill)


def pictures(env: BuildEnvironment) -> dict[str, list[Picture]]:
    """Return the pictures of each page, which are kept with the environment."""
    if not hasattr(env, "pyflowers_pictures"):
        env.pyflowers_pictures = {}  # type: ignore[attr-defined]
    found: dict[str, list[Picture]] = env.pyflowers_pictures  # type: ignore[attr-defined]
    return found


def _forget(_app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    pictures(env).pop(docname, None)


def _merge(_app: Sphinx, env: BuildEnvironment, docnames: list[str], other: Any) -> None:
    theirs = pictures(other)
    pictures(env).update({name: theirs[name] for name in docnames if name in theirs})


def _fill(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    for place in list(doctree.findall(Grid)):
        cards = [
            _card(app, docname, picture) for picture in pictures(app.env).get(place["docname"], [])
        ]
        place.replace_self(nodes.container("", *cards, classes=["gallery-grid"]))


def _card(app: Sphinx, docname: str, picture: Picture) -> nodes.Element:
    target = f"{app.builder.get_relative_uri(docname, picture.docname)}#{picture.anchor}"
    with Image.open(Path(app.srcdir) / picture.uri) as drawn:
        is_tall = drawn.height > 0.6 * drawn.width
    look = {"classes": ["tall"] if is_tall else [], "candidates": {"*": picture.uri}}
    image = nodes.image(uri=picture.uri, alt=picture.alt, **look)
    link = nodes.reference("", "", image, refuri=target, internal=True)
    text = nodes.reference("", picture.title, refuri=target, internal=True)
    return nodes.container(
        "", nodes.paragraph("", "", link), nodes.paragraph("", "", text), classes=["gallery-card"]
    )
