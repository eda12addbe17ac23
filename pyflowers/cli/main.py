"""The ``pyflowers`` command: its subcommands, loaded when called, and its exit status."""

from __future__ import annotations

import atexit
import gc
import inspect
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from importlib import import_module
from typing import Any

import click

from pyflowers.advice import in_shell
from pyflowers.cli.console import (
    BROKEN_PIPE,
    complain,
    drop_output,
    exit_status,
    open_streams,
    output_options,
    shows_progress,
)
from pyflowers.cores import PROCESS_LIMIT, has_few_processes, is_process_limit
from pyflowers.errors import PyflowersError, ToolchainError, UnusedOptionError
from pyflowers.text import nearest

TASKS = {
    "Fit": "fit vb batch design models new",
    "Check": "check improve sensitivity prior sbc replay",
    "Predict": "predict effects contrast",
    "Compare": "loo compare",
    "Report": "report table",
    "Learn": "lecture",
    "Set up": "setup doctor compile",
}
"""The commands, grouped by task."""

COMMANDS = {
    "fit": ("fit", "Fit a model, summarise the posterior and check convergence."),
    "vb": ("methods", "Fit by closed-form variational Bayes, without Stan."),
    "batch": ("batch", "Fit many models, tables and variants; run again to resume."),
    "design": ("methods", "Simulate studies of several sizes: precision and power."),
    "models": ("programs", "List the shipped models, their priors and capabilities."),
    "new": ("programs", "Write a Stan program to start from, or draft a declaration."),
    "check": ("runs", "Check whether the model would produce data like yours."),
    "improve": ("runs", "Fit the models that a run's failed checks suggest, and compare."),
    "sensitivity": ("runs", "Show which conclusions of a run depend on its prior."),
    "prior": ("methods", "Draw from a model's prior and show the data that it implies."),
    "sbc": ("methods", "Check a program's computation by simulation-based calibration."),
    "replay": ("runs", "Repeat the fits of run folders and compare the draws."),
    "predict": ("runs", "Predict rows of a table, or each group's next observation."),
    "effects": ("runs", "Show how the expected response changes with each column."),
    "contrast": ("runs", "Compute differences, probabilities and ranks from a posterior."),
    "loo": ("runs", "Compare how well models predict held-out data."),
    "compare": ("methods", "Compare NUTS with the exact posterior and approximations."),
    "report": ("fit", "Write an HTML report on models fitted to a table."),
    "table": ("runs", "Put models side by side in a table for a paper."),
    "lecture": ("machine", "Run a lecture example (samplers, mixtures, neural networks)."),
    "setup": ("machine", "Build the embedded CmdStan, or install the official one."),
    "doctor": ("machine", "Print diagnostic information for a bug report."),
    "compile": ("programs", "Compile a Stan program into an executable."),
}
"""For each command, the module of its function ``NAME_command`` and its summary in ``--help``."""

SECONDS_TO_CLEAN_UP = 1.5
"""Seconds after which an interrupted process exits; the next command removes files left behind."""

_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands, by task."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command, add the options that all commands have, and mark its examples."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"pyflowers.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = copy(getattr(module, f"{cmd_name}_command"))
        command.params = [*command.params, *output_options()]
        # An indented paragraph of a docstring holds examples; \b keeps click from wrapping them.
        prose = inspect.cleandoc(command.help or "")
        command.help = prose.replace("\n\n  ", "\n\n\b\nExamples:\n  ")
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; advice names options and commands, not arguments and functions."""
        with in_shell():
            return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return a command; if it does not exist, name the most similar one in the error."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = nearest(args[0], COMMANDS)
            if near is None:
                raise click.UsageError(error.message, ctx) from None
            wrong = f"no such command {args[0]!r}; did you mean {near}?"
            raise click.UsageError(wrong, ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by task, without importing them."""
        width = max(map(len, COMMANDS))
        for task, names in TASKS.items():
            with formatter.section(task):
                formatter.write_dl([(f"{its:{width}}", COMMANDS[its][1]) for its in names.split()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, expose_value=False, help="Show a traceback on errors.")
@click.version_option(package_name="pyflowers", prog_name="pyflowers")
def cli() -> None:
    """Bayesian multilevel regression with Stan that tells you whether to trust the result."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("pyflowers")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    if shows_progress():  # the bars show the same information as the log
        logger.setLevel(logging.WARNING)


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    open_streams()
    _arrived.clear()
    # At exit, collecting every object would take longer than leaving the memory to the system.
    atexit.register(gc.freeze)
    if has_few_processes():
        # OpenBLAS waits forever for threads that it could not start.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if args is None:
        args = sys.argv[1:]
    with unwinding_on_signals():
        sys.exit(_status(args))


def _status(args: list[str]) -> int:
    """Return the exit status of a command, or the status of a signal that should have ended it.

    The exception that a signal raises is lost if it is raised within a destructor or a callback,
    and the command then runs to its end.
    """
    status = _run(args)
    if not _arrived:
        return status
    if _arrived[0] == signal.SIGINT:
        complain("interrupted")
    else:
        complain("terminated")
    return 128 + _arrived[0]


def _run(args: list[str]) -> int:
    """Run the command line, report what went wrong, and return the exit status."""
    try:
        status: Any = cli.main(args, "pyflowers", standalone_mode=False)
    except click.ClickException as error:
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
            complain(error.message)  # the help
        else:
            complain(f"error: {_usage(error)}")
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _arrived.append(signal.SIGINT)
        return 1
    except Terminated as ended:
        _arrived.append(ended.signum)
        return 1
    except BrokenPipeError:
        # The pipe that took the output is closed, so nothing can be reported.
        drop_output()
        return BROKEN_PIPE
    except Exception as error:
        if _arrived:  # the signal's exception was lost, or led to this one
            return 1
        if "--debug" in args:
            raise
        if isinstance(error, OSError) and error.filename is None:  # click could not write its help
            drop_output()
        complain(f"error: {_sentence(error)}")
        if isinstance(error, UnusedOptionError):
            return 2
        return 1
    if not isinstance(status, int):
        status = 0
    return exit_status(status)


_OF_SAMPLERS = ("--options", "--sampler", "--sampler-options", "--control", "--iter")
"""Options in which other packages take the options of the sampler."""


def _takes(ctx: click.Context | None, option: str) -> bool:
    """Return whether a command has an option."""
    return ctx is not None and any(option in each.opts for each in ctx.command.params)


def _usage(error: click.ClickException) -> str:
    """Return what is wrong with a command line, as a sentence like other error messages."""
    if isinstance(error, click.NoSuchOption):
        near = nearest(error.option_name, error.possibilities or ())
        text = f"no such option {error.option_name}"
        if error.option_name in _OF_SAMPLERS and _takes(error.ctx, "--draws"):
            text += "; each option of the sampler is a separate option, such as --draws 2000"
        elif near is not None:
            text += f"; did you mean {near}?"
    elif isinstance(error, click.BadParameter) and error.message:
        hint = error.format_message().partition(": ")[0].removeprefix("Invalid value for ")
        text = f"{hint.replace(chr(39), '')}: {error.message}"
    else:
        text = error.format_message()
    text = text.removesuffix(".")
    if text[1:2].islower():  # click begins its messages with a capital
        text = text[0].lower() + text[1:]
    if ";" in text or not isinstance(error, click.UsageError) or error.ctx is None:
        return text
    return f"{text}; see {error.ctx.command_path} --help"


def _sentence(error: Exception) -> str:
    """Return a sentence that says what went wrong and where."""
    if isinstance(error, PyflowersError):
        return str(error)
    if isinstance(error, MemoryError):
        return "there is not enough memory; use fewer draws or a smaller table"
    is_fork = isinstance(error, BlockingIOError) and error.filename is None
    if is_fork or (isinstance(error, RuntimeError) and is_process_limit(str(error))):
        return PROCESS_LIMIT
    if not isinstance(error, OSError):
        kind = type(error).__name__
        return f"{kind}: {error} (a bug in pyflowers: run again with --debug and report it)"
    reason = error.strerror or error
    if error.filename is None:
        return f"the output cannot be written ({reason})"
    if isinstance(error.filename, bytes):
        where = os.fsdecode(error.filename)
    else:
        where = error.filename
    return f"{where}: {reason}; check the path, its permissions and the disk"


_arrived: list[int] = []
"""The signals that have asked this process to end."""


class Terminated(BaseException):
    """Raised when a signal asks the process to end."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


@contextmanager
def unwinding_on_signals() -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP raise exceptions, unless a signal is ignored, as under nohup.

    Afterwards the earlier handlers are restored, unless a signal has arrived: the process is then
    ending, and a second signal must not interrupt its cleanup.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        for signum in _SIGNALS:
            if signal.getsignal(signum) in (signal.SIG_DFL, signal.default_int_handler):
                before[signum] = signal.signal(signum, _unwind)
    try:
        yield
    finally:
        for signum, handler in before.items():
            if signal.getsignal(signum) is _unwind:
                signal.signal(signum, handler)


def _unwind(signum: int, _: Any) -> None:
    _arrived.append(signum)
    # Within a destructor or a callback, Python would print the exception and continue.
    sys.unraisablehook = _ignore
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)  # a further signal must not cut the cleanup short
    # The exception may be lost in a destructor or a callback, or be held up by a thread.
    timer = threading.Timer(SECONDS_TO_CLEAN_UP, os._exit, (128 + signum,))
    timer.daemon = True
    try:
        timer.start()
    except RuntimeError as error:
        # OpenBLAS sends SIGINT to its own process if it cannot start its threads.
        _arrived.clear()
        raise ToolchainError(PROCESS_LIMIT) from error
    if signum == signal.SIGINT:
        raise KeyboardInterrupt
    raise Terminated(signum)


def _ignore(_: Any) -> None:
    """Do nothing."""
