"""The Sphinx extension of this site: executed cells, generated reference, checked links.

Each module states why no extension of others serves instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyflowers_docs import api, commands, directives, execute, gallery, links

if TYPE_CHECKING:
    from sphinx.application import Sphinx


UNSEARCHED = ("reference/api/index", "changelog")
"""Pages left out of the search because they would hide the pages that explain a name."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the parts in the order in which a build needs them."""
    for part in (api, commands, execute, directives, gallery, links):
        part.setup(app)
    app.connect("env-updated", _leave_out_of_search)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _leave_out_of_search(_app: Sphinx, env: Any) -> None:
    for name in env.found_docs:
        if name.startswith(UNSEARCHED):
            env.metadata[name]["nosearch"] = ""
