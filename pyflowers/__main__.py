"""``python -m pyflowers``: the command line, for when its script is not on the path."""

from pyflowers.cli import main

main()
