"""The help of every command ends with examples, which are valid command lines."""

import re
import shlex

import click
import pytest
from click.testing import CliRunner

from pyflowers.cli.main import COMMANDS, cli


def examples(name):
    """Return the lines below ``Examples:`` in the help of a command, as it is printed."""
    shown = CliRunner().invoke(cli, [name, "--help"]).stdout
    found = re.search(r"^  Examples:\n((?:    .+\n)+)\nOptions:\n", shown, re.MULTILINE)
    return [] if found is None else found[1].splitlines()


def parse(line):
    """Parse a command line without running it, and return the command's name."""
    program, name, *words = shlex.split(line)
    root = click.Context(cli, info_name=program)
    command = cli.get_command(root, name)
    if command is None:
        raise click.UsageError(f"there is no command {name}")
    command.make_context(name, words, parent=root)
    return name


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_examples_that_parse(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = examples(name)
    assert lines
    for line in lines:
        assert line.startswith("    pyflowers ")
        assert len(line) <= 80
        assert parse(line) == name


@pytest.mark.parametrize("line", ["pyflowers chekc r", "pyflowers check r --sttistic sd"])
def test_a_wrong_example_does_not_parse(line):
    with pytest.raises(click.UsageError):
        parse(line)
