"""A report, parsed by the algorithm of the HTML standard, and checks of its prose."""

import re

import html5lib

from pyflowers.reports import render_report

SECTIONS = [
    *("answer", "verdict", "data", "models", "checks", "comparison", "methods", "sensitivity"),
    "provenance",
    "appendix",
]
"""The sections of a report without calibrations."""
REPORTED = [name for name in SECTIONS if name not in ("effects", "methods")]
NAMESPACE = "{http://www.w3.org/1999/xhtml}"


class Page:
    """A report, parsed by the algorithm of the HTML standard; any parse error is raised."""

    def __init__(self, html):
        self.tree = html5lib.HTMLParser(strict=True).parse(html)

    def nodes(self, *names, under=None):
        """Return all elements with given names, in order, of the page or of an element."""
        wanted = {NAMESPACE + name for name in names}
        top = self.by_id(under) if isinstance(under, str) else self.tree if under is None else under
        return [node for node in top.iter() if node.tag in wanted]

    def by_id(self, name):
        """Return the element with an id."""
        (found,) = [node for node in self.tree.iter() if node.get("id") == name]
        return found

    def output(self, name):
        """Return the text of the element with an id."""
        return text_of(self.by_id(name))

    @property
    def sections(self):
        """The ids of the sections."""
        return [node.get("id") for node in self.nodes("section")]

    @property
    def alts(self):
        """The alternative texts of the images."""
        return [node.get("alt") for node in self.nodes("img")]


def text_of(node):
    return " ".join("".join(node.itertext()).split())


def number_of(node):
    """Return the text of a number with the minus sign of a keyboard."""
    return text_of(node).replace("\N{MINUS SIGN}", "-")


def report(*fits, **how):
    """Return the report on fits, after checking its English."""
    page = Page(render_report(fits, **how))
    assert [name for name in page.sections if name not in ("effects", "methods")] == REPORTED
    assert faults(page) == []
    return page


_FAULTY = (
    (
        r"\b1 (?:observations|groups|times|combinations|fits|diagnostics|models)\b",
        "a plural of one",
    ),
    (
        r"\b(?:None|nan|inf)\b|(?<!=)\b(?:True|False)\b|<[A-Za-z]|\{\w*\}|\[\]|\(\)",
        "a value of the program's",
    ),
    (r"\.\.|,,|;\.| [.,;:](?:\s|$)|\s\)", "punctuation"),
    (r"\b(\w+) \1\b", "a word twice"),
    (r"^[a-z](?![\w.]*[\[_:])", "no capital"),
    (r"[^.?!:)]$", "no full stop"),
)


def faults(page):
    """Return (error, place) for every paragraph, caption and item of the page's prose."""
    found = []
    for node in page.nodes("p", "li", "figcaption"):
        text = text_of(node)
        in_list = node.tag.endswith("li")
        if node.get("class") in ("kicker", "note", "subtitle") or (list(node)[:1] and in_list):
            continue
        begins_with_code = len(node) > 0 and not (node.text or "").strip()
        for pattern, what in _FAULTY:
            if what == "no capital" and begins_with_code:
                continue
            if what == "no full stop" and in_list:
                continue
            if re.search(pattern, text):
                found.append((what, text))
    return found
