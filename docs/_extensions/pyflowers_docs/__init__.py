"""The Sphinx extension of this site: executed cells, generated reference, checked links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyflowers_docs import api, commands, directives, execute, gallery, links

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the parts in the order in which a build needs them."""
    for part in (api, commands, execute, directives, gallery, links):
        part.setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
