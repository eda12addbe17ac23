"""``python -m pyflowers``: the command line, for when its script is not on the path."""

import sys
from pathlib import Path

# Python has put the working folder first in the path, but no command imports from there. It stays
# only if pyflowers itself is there, because workers must import the same pyflowers.
if not sys.flags.safe_path and sys.path[0] != str(Path(__file__).resolve().parent.parent):
    del sys.path[0]

from pyflowers.cli import main

main()
