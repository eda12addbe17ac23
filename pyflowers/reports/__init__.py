"""A report on fits as a single HTML file that begins with the verdict.

>>> import pyflowers
>>> fits = [pyflowers.fit("iid_normal", seed=1)]
>>> path = pyflowers.report(fits, "report.html")
"""

from pyflowers.reports.drafts import methods_draft
from pyflowers.reports.improvement import improve
from pyflowers.reports.page import check_report, render_report, report
from pyflowers.reports.section import Section, section_of
from pyflowers.reports.sections import SECTIONS

__all__ = [
    "SECTIONS",
    "Section",
    "check_report",
    "improve",
    "methods_draft",
    "render_report",
    "report",
    "section_of",
]
