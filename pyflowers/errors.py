"""The exceptions that pyflowers raises, as a tree.

    PyflowersError
    ├── DataError        a table, a cell or a label does not suit the model
    ├── ConfigError      an option, a prior or a configuration file is wrong
    │   └── UnusedOptionError   an option was given that does not apply here
    ├── ToolchainError   CmdStan, the compiler or make is missing or broken, or a disk is full
    ├── CompileError     a Stan program does not compile
    └── FitError         Stan, or another computation, started but did not finish

Each message is one sentence that states what is wrong, where, and what to do; a CompileError ends
with the compiler's message. Poor diagnostics are not exceptions but values; see
:mod:`pyflowers.fits.diagnostics`.
"""


class PyflowersError(Exception):
    """The base class of all errors that pyflowers reports."""

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows: only the message, which states what is wrong and where."""
        return [f"{type(self).__name__}: {self}"]


class DataError(PyflowersError):
    """The data cannot be used; the message names the place, such as file, row and column."""


class ConfigError(PyflowersError):
    """An option, a prior or a configuration file cannot be used; the message names it."""


class UnusedOptionError(ConfigError):
    """An option was given that does not apply here: a usage error."""


class ToolchainError(PyflowersError):
    """CmdStan, the compiler or make is missing or broken, or temporary files cannot be written."""


class CompileError(PyflowersError):
    """A Stan program does not compile; the message includes the compiler's message."""


class FitError(PyflowersError):
    """Stan, or another computation, did not finish; the message includes Stan's message, if any."""
