"""The exceptions that pyflowers raises, as a tree.

    PyflowersError
    ├── DataError        a table, a cell or a label does not suit the model
    ├── ConfigError      an option, a prior or a configuration file is wrong
    │   └── UnusedOptionError   an option is given that does not apply here
    ├── ToolchainError   no usable CmdStan, compiler or make
    ├── CompileError     a Stan program does not compile
    └── FitError         Stan ran and did not finish

Each message is one sentence that states what is wrong, where, and what to do; that of CompileError
ends with the compiler's. Poor diagnostics are not exceptions but values; see
:mod:`pyflowers.fits.diagnostics`.
"""


class PyflowersError(Exception):
    """The base class of all errors that pyflowers reports."""


class DataError(PyflowersError):
    """The data cannot be used; the message names the file, the row and the column."""


class ConfigError(PyflowersError):
    """An option or a prior cannot be used; the message names it and the values allowed."""


class UnusedOptionError(ConfigError):
    """An option is given that does not apply here: a usage error."""


class ToolchainError(PyflowersError):
    """CmdStan, the C++ compiler or make is missing or broken; the message names the remedy."""


class CompileError(PyflowersError):
    """A Stan program does not compile; the message includes the compiler's message."""


class FitError(PyflowersError):
    """Stan stopped early; the message includes Stan's message."""
