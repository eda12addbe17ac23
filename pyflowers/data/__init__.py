"""Reading and validating tables, independently of any program.

A table is tidy: one row for each observation, and one column for each variable. The declaration of
a program states which columns are read, and how. Every error in a cell is found here and reported
with file, row and column.
"""

from pyflowers.data.examples import example
from pyflowers.data.files import read_table
from pyflowers.data.labels import Labels
from pyflowers.data.table import LARGEST_INT, Table, from_frame

__all__ = ["LARGEST_INT", "Labels", "Table", "example", "from_frame", "read_table"]
