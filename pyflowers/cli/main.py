"""The ``pyflowers`` command: its subcommands, loaded when called, and its exit status."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from copy import copy
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from pyflowers.cli.console import (
    BROKEN_PIPE,
    complain,
    drop_output,
    exit_status,
    open_streams,
    output_options,
)
from pyflowers.cli.interruption import Terminated, unwinding_on_signals
from pyflowers.errors import PyflowersError, UnusedOptionError

COMMANDS = {
    "setup": "Make the embedded CmdStan, or install the official one.",
    "models": "List the programs, their priors and what they can do.",
    "new": "Start a program of your own, or draft its declaration.",
    "compile": "Compile a Stan program into an executable.",
    "prior": "Draw from a program's prior and show the data that it implies.",
    "fit": "Sample a program's posterior, summarise it and check the draws.",
    "sensitivity": "Show which conclusions of a run depend on its prior.",
    "batch": "Fit many tables or variants, and resume where it stopped.",
    "vb": "Fit by closed-form variational Bayes, without Stan.",
    "compare": "Compare NUTS with the exact posterior and every approximation.",
    "check": "Check whether the model would produce data like these.",
    "predict": "Predict each group's next observation, and a new group.",
    "contrast": "Evaluate differences, probabilities and ranks in a posterior.",
    "sbc": "Check a program's computation by simulation.",
    "loo": "Compare how well models predict data that were left out.",
    "report": "Write an HTML report on the models of a table.",
    "lecture": "Run an example of the lectures: samplers, mixtures, networks.",
    "replay": "Repeat the fit of a run folder and compare.",
    "doctor": "Print what a bug report needs.",
}
"""Each command and what ``pyflowers --help`` says of it; its module has its name."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command and add what all have."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = copy(import_module(f"pyflowers.cli.{cmd_name}").command)
        command.params = output_options(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command for one that does not exist."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"{error.message}{hint}", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
@click.version_option(package_name="pyflowers", prog_name="pyflowers")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Bayesian models of repeated counts and measurements, fitted by Stan."""
    ctx.obj = {"debug": debug}
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("pyflowers")
    logger.handlers[:] = [handler]
    # On a terminal the bars of pyflowers.progress say the same.
    logger.setLevel(logging.WARNING if sys.stderr.isatty() else logging.INFO)


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    open_streams()
    _import_from_here()
    with unwinding_on_signals():
        sys.exit(_status(sys.argv[1:] if args is None else args))


def _import_from_here() -> None:
    """Let ``module:function`` name a file of the working folder, as with ``python -m pyflowers``.

    The folder comes last, so that nothing in it stands in for what is installed.
    """
    with suppress(OSError):  # a folder that was removed
        here = str(Path.cwd())
        if not {"", here} & set(sys.path):
            sys.path.append(here)


def _status(args: list[str]) -> int:
    """Run the command line, report what went wrong, and return the exit status."""
    debug = "--debug" in args
    try:
        status: Any = cli.main(args, standalone_mode=False)
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        complain("interrupted")
        return 130
    except Terminated as ended:
        complain("terminated")
        return 128 + ended.signum
    except PyflowersError as error:
        if debug:
            raise
        complain(f"error: {error}")
        return 2 if isinstance(error, UnusedOptionError) else 1
    except BrokenPipeError:
        # The reader of our output has gone, so there is nobody to tell.
        drop_output()
        return BROKEN_PIPE
    except OSError as error:
        if debug:
            raise
        if error.filename is None:  # click could not write its help
            drop_output()
        complain(f"error: {_of_the_system(error)}")
        return 1
    except MemoryError:
        if debug:
            raise
        complain("error: there is too little memory; use fewer draws or a smaller table")
        return 1
    except Exception as error:
        if debug:
            raise
        kind = type(error).__name__
        complain(
            f"error: {kind}: {error} (a bug in pyflowers: run again with --debug and report it)"
        )
        return 1
    return exit_status(status if isinstance(status, int) else 0)


def _of_the_system(error: OSError) -> str:
    """Say what the system refused, and where."""
    if error.filename is None:
        return f"the output cannot be written ({error.strerror or error})"
    where = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else error.filename
    return f"{where}: {error.strerror or error}; check the path, its permissions and its disk"
