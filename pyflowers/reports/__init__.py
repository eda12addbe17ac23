"""A report on fits as a single HTML file that begins with the verdict.

>>> import pyflowers
>>> fits = [pyflowers.fit("iid_normal", seed=1)]
>>> path = pyflowers.report(fits, "report.html")
"""

from pyflowers.reports.page import check_report, render_report, report

__all__ = ["check_report", "render_report", "report"]
