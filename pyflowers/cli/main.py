"""The ``pyflowers`` command: its subcommands, loaded when called, and its exit status."""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from typing import Any

import click

from pyflowers.errors import PyflowersError

COMMANDS = {
    "setup": "Make the embedded CmdStan, or install the official one.",
    "models": "List the models, their priors and their programs.",
    "compile": "Compile a Stan program into an executable.",
    "fit": "Sample a model's posterior with four NUTS chains.",
    "vb": "Fit the closed-form variational Bayes, without Stan.",
    "compare": "Compare NUTS with the exact posterior and every approximation.",
    "report": "Write one HTML file on the models of a table.",
    "lecture": "Run an example of the lectures: samplers, mixtures, networks.",
    "replay": "Run a run folder again and compare.",
    "doctor": "Print what a bug report needs.",
}
"""Each command and what ``pyflowers --help`` says of it; its module has its name."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"pyflowers.cli.{cmd_name}").command
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
    """Run the command line and leave with its exit status."""
    debug = "--debug" in (sys.argv[1:] if args is None else args)
    try:
        status: Any = cli.main(args, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except PyflowersError as error:
        if debug:
            raise
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        # The reader of our output left; there is nobody to tell.
        sys.stderr.close()
        sys.exit(141)
    except Exception as error:
        if debug:
            raise
        kind = type(error).__name__
        click.echo(
            f"error: {kind}: {error} (a defect of pyflowers: run again with --debug and report it)",
            err=True,
        )
        sys.exit(1)
    sys.exit(status if isinstance(status, int) else 0)
