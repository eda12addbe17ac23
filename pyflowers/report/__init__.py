"""A single-file HTML report: fits in, one file out, the verdict first.

>>> import pyflowers
>>> fits = [pyflowers.fit("iid_normal", seed=1)]
>>> path = pyflowers.report.write_report(fits, "report.html")
"""

from pyflowers.report.page import check_report, render_report, write_report

__all__ = ["check_report", "render_report", "write_report"]
