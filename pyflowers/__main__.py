"""``python -m pyflowers``: the command line, where its script is not on the path."""

from pyflowers.cli import main

main()
