"""The exceptions that pyflowers raises, as a tree.

    PyflowersError
    ├── DataError        a table, a cell or a label is not what a model needs
    ├── ConfigError      an option, a prior or a configuration file is wrong
    │   └── UnusedOptionError   an option is given that does not apply here
    ├── ToolchainError   no usable CmdStan, compiler or make
    ├── CompileError     a Stan program does not compile
    └── FitError         Stan ran and did not finish

Each message is one sentence that says what is wrong, where, and what to do. Poor diagnostics are
not exceptions: they are values, see :mod:`pyflowers.fits.diagnostics`.
"""


class PyflowersError(Exception):
    """Anything that pyflowers itself reports; catch this to catch them all."""


class DataError(PyflowersError):
    """The data cannot be used: names the file, the row and the column."""


class ConfigError(PyflowersError):
    """An option or a prior cannot be used: names it and what it may be."""


class UnusedOptionError(ConfigError):
    """An option is given that does not apply: wrong usage."""


class ToolchainError(PyflowersError):
    """CmdStan, the C++ compiler or make is missing or broken: names the remedy."""


class CompileError(PyflowersError):
    """A Stan program does not compile: carries the compiler's message."""


class FitError(PyflowersError):
    """Stan stopped early: carries Stan's message."""
