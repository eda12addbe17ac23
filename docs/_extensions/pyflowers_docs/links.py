"""Check links, anchors and alternative texts of the finished site, and list external links.

Sphinx and MyST check references in the sources. What they generate, raw HTML and alternative texts
can be checked only in the result, without the network that ``sphinx -b linkcheck`` needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> None:
    """Check the site after all pages have been written."""
    app.connect("build-finished", _finished)


class Page(HTMLParser):
    """What a page links to, its anchors, and its images without alternative text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.without_alt: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the links, the anchors and a missing alternative text of a tag."""
        values = dict(attrs)
        self.anchors.update(filter(None, (values.get("id"), values.get("name"))))
        if tag == "img" and not (values.get("alt") or "").strip():
            self.without_alt.append(values.get("src") or "")
        for key in ("href", "src"):
            if tag in ("a", "img", "script", "link") and values.get(key):
                self.links.append(values[key] or "")


def problems(site: Path) -> tuple[list[str], list[str]]:
    """Return what is wrong with a site, and the external links in it."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    pages = {path: page for path, page in pages.items() if "_static" not in path.parts}
    wrong: list[str] = []
    external: set[str] = set()
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        wrong += [f"{name}: image {src} has no alternative text" for src in page.without_alt]
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                external.add(link)
            else:
                wrong += [f"{name}: {link}: {why}" for why in _dead(path, parts, pages)]
    return sorted(set(wrong)), sorted(external)


def _dead(path: Path, parts: SplitResult, pages: dict[Path, Page]) -> Iterator[str]:
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    anchor = unquote(parts.fragment)
    if not target.is_file():
        yield "there is no such file"
    elif anchor and target in pages and anchor not in pages[target].anchors:
        yield "there is no such anchor"


def _finished(app: Sphinx, exception: Exception | None) -> None:
    from sphinx.errors import ExtensionError
    from sphinx.util import logging

    if exception is not None or app.builder.format != "html":
        return
    site = Path(app.outdir)
    wrong, external = problems(site)
    (site / "external-links.txt").write_text("\n".join(external) + "\n", encoding="utf-8")
    logging.getLogger(__name__).info(
        "links: %d external links are listed in external-links.txt", len(external)
    )
    if wrong:
        raise ExtensionError("\n".join(wrong))
