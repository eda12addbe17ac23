"""The Sphinx configuration of the site; scripts/docs builds it."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "pyflowers"
author = "The pyflowers developers"
project_copyright = author
version = release = installed_version("pyflowers")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "pyflowers_docs",
]
exclude_patterns = [
    "_build",
    "_extensions",
    # For those who change pyflowers; they are read in the repository.
    "architecture.md",
    "calibration.md",
    "coverage.md",
    "decisions",
    "glossary.md",
    "peers.md",
    "release-checklist.md",
]
nitpicky = True

# Quotes and ellipses become typographic, but -- stays, since it begins an option.
smartquotes_action = "qe"

myst_enable_extensions = ["colon_fence", "deflist", "substitution"]
myst_substitutions = {"version": version}
myst_heading_anchors = 3

templates_path = ["_templates"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
python_maximum_signature_line_length = 80
add_module_names = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
toc_object_entries_show_parents = "hide"

html_context = {"default_mode": "auto"}
html_theme = "pydata_sphinx_theme"
html_title = "pyflowers"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/flower.svg"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {
        "text": "pyflowers",
        "alt_text": "A flower, the logo of pyflowers",
        "image_light": "_static/flower.svg",
        "image_dark": "_static/flower.svg",
    },
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div:not(.cell-output) > div.highlight > pre"
