"""The command line: parse, call, exit code.

Exit status: 0 done; 1 an error, reported in one line; 2 wrong usage; 3 with ``--check``, the fit is
done and its diagnostics fail. Each command is a separate module, imported when it is called, so
that ``pyflowers --help`` is instant.
"""

from pyflowers.cli.main import main

__all__ = ["main"]
