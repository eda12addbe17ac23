"""The command line: commands parse their options, call the library and print what it returns.

The exit status is 0 for success, 1 for an error (reported on standard error) and 2 for wrong usage.
It is 3 if the command finished but something failed, such as a diagnostic with ``fit --check``, and
128 + N if signal N ended the command. A command's module is imported only when the command is
called, so that ``pyflowers --help`` is fast. Modules that only the work of a command needs, such as
analyses, figures and reports, are imported within the command, because they take up to a second.
"""

from pyflowers.cli.main import main

__all__ = ["main"]
