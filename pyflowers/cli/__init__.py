"""The command line: parse, call, exit code.

Exit status: 0, done; 1, an error, reported in one line; 2, wrong usage; 3, done, but something
failed, such as diagnostics with ``fit --check``. A command's module is imported only when the
command is called, so that ``pyflowers --help`` is instant.
"""

from pyflowers.cli.main import main

__all__ = ["main"]
