"""Show the cells of a page with Sphinx: the input, then the output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from pyflowers_docs.cells import folded
from pyflowers_docs.execute import outputs_of
from pyflowers_docs.gallery import Picture, pictures

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_LANGUAGES = {".toml": "toml", ".stan": "stan", ".py": "python", ".csv": "text", ".yml": "yaml"}


def setup(app: Sphinx) -> None:
    """Register the directives."""
    app.add_directive("write-file", WriteFile)
    app.add_directive("run-shell", RunShell)
    app.add_directive("run-python", RunPython)
    app.add_directive("show-file", ShowFile)
    app.add_directive("show-image", ShowImage)


class Cell(SphinxDirective):
    """The common part of all cells: a cell's result is found by its number on the page."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True

    def output(self) -> dict[str, Any]:
        """Return the result of this cell, the next one on its page."""
        number = self.env.current_document.get("pyflowers_cell", 0)
        self.env.current_document["pyflowers_cell"] = number + 1
        # A cached document is re-read when its results change.
        result: dict[str, Any] = outputs_of(self.env.srcdir, self.env.docname)[number]
        return result

    def literal(self, text: str, language: str, *classes: str) -> nodes.Element:
        """Return a block of code or output."""
        block = nodes.literal_block(text, text, language=language, classes=list(classes))
        self.set_source_info(block)
        return block

    def shown(self, result: dict[str, Any]) -> list[nodes.Node]:
        """Return what a cell printed, its table and its figures."""
        found: list[nodes.Node] = []
        if result["text"]:
            found.append(self.literal(folded(result["text"]), "text", "cell-output"))
        if result.get("html"):
            box = f'<div class="cell-table pst-scrollable-table-container">{result["html"]}</div>'
            found.append(nodes.raw("", box, format="html"))
        found += [self.figure(figure) for figure in result.get("figures", ())]
        return found

    def figure(self, figure: dict[str, Any]) -> nodes.Element:
        """Return an image with its alternative text."""
        uri = f"/_build/cells/{self.env.docname}/{figure['file']}"
        image = nodes.image(uri=uri, alt=figure["alt"], classes=["cell-figure"])
        if figure["width"]:
            image["width"] = f"{figure['width']}px"
        self.set_source_info(image)
        return image


class WriteFile(Cell):
    """A file that the reader writes, shown with its name above it."""

    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        """Show the name and the text."""
        self.output()
        name = self.arguments[0]
        suffix = name[name.rfind(".") :]
        caption = nodes.caption("", "", nodes.literal(name, name))
        block = self.literal("\n".join(self.content), _LANGUAGES.get(suffix, "text"))
        return [nodes.container("", caption, block, literal_block=True, classes=["cell-file"])]


class RunShell(Cell):
    """Commands and what they print; ``:status:`` is the exit status, 0 by default.

    ``:quiet:`` hides what they print, where another cell of the page shows the same.
    """

    option_spec: ClassVar[dict[str, Any]] = {
        "status": directives.nonnegative_int,
        "quiet": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """Show the commands, then the output."""
        result = self.output()
        found: list[nodes.Node] = [self.literal("\n".join(self.content), "bash", "cell-input")]
        if "quiet" not in self.options:
            found += self.shown(result)
        if self.options.get("status"):
            found.append(nodes.paragraph("", f"(Exit status {self.options['status']}.)"))
        return found


class RunPython(Cell):
    """Python code, its output and the value of its last line.

    ``:gallery:`` is the figure's title in the gallery, ``:source:`` the function that draws it.
    """

    option_spec: ClassVar[dict[str, Any]] = {
        "alt": directives.unchanged,
        "gallery": directives.unchanged,
        "source": directives.unchanged,
    }

    def run(self) -> list[nodes.Node]:
        """Show the code, then its output."""
        result = self.output()
        found = [self.literal("\n".join(self.content), "python", "cell-input"), *self.shown(result)]
        source = self.options.get("source")
        if source:
            found += self.parse_text_to_nodes(f"Drawn by {{py:func}}`~{source}`.")
        title = self.options.get("gallery")
        if title:
            anchor = f"figure-{nodes.make_id(title)}"
            target = nodes.target("", "", ids=[anchor], names=[anchor])
            self.state.document.note_explicit_target(target)
            found.insert(0, target)
            image = next((node for node in found if isinstance(node, nodes.image)), None)
            if image is None:  # the cells were not run
                return found
            page = pictures(self.env).setdefault(self.env.docname, [])
            # The image collector later makes the same address relative to the source folder.
            uri = image["uri"].lstrip("/")
            page.append(Picture(self.env.docname, anchor, title, uri, image["alt"]))
        return found


class ShowFile(Cell):
    """A file that an earlier cell wrote, or the ``:blocks:`` of a Stan program."""

    option_spec: ClassVar[dict[str, Any]] = {"blocks": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Show the text."""
        name = self.arguments[0]
        language = _LANGUAGES.get(name[name.rfind(".") :], "text")
        return [self.literal(self.output()["text"], language, "cell-output")]


class ShowImage(Cell):
    """An image that an earlier cell wrote; ``:alt:`` describes it."""

    option_spec: ClassVar[dict[str, Any]] = {
        "alt": directives.unchanged_required,
        "gallery": directives.unchanged,
    }

    def run(self) -> list[nodes.Node]:
        """Show the image."""
        return self.shown(self.output())
