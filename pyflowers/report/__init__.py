"""A single-file HTML report: fits in, one file out, the verdict first.

>>> pyflowers.report.write_report(fits, "report.html")
"""

from pyflowers.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
