"""The command line: commands parse their options, call the library and print what it returns.

Exit status: 0, done; 1, an error, reported on standard error; 2, wrong usage; 3, done, but
something failed, such as diagnostics with ``fit --check``; 128 + N, ended by signal N. A command's
module is imported only when the command is called, so that ``pyflowers --help`` is instant.
"""

from pyflowers.cli.main import main

__all__ = ["main"]
