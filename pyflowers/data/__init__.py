"""A table in: validated, labelled, and nothing known yet of any program.

A table is tidy: one row for each observation, a column for each thing recorded about it. A
program's declaration says which columns are read, and as what; everything that can be wrong
with a cell is found here, and named by file, row and column.
"""

from pyflowers.data.files import read_table
from pyflowers.data.table import LARGEST_INT, Labels, Table, from_frame

__all__ = ["LARGEST_INT", "Labels", "Table", "from_frame", "read_table"]
