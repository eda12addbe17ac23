"""The help of every command ends with examples, which are valid command lines."""

import re
import shlex

import click
import pytest
from click.testing import CliRunner

from pyflowers.cli.main import COMMANDS, cli
from pyflowers.cli.options import SECTIONS


def examples(name):
    """Return the lines below ``Examples:`` in the help of a command, as it is printed."""
    shown = CliRunner().invoke(cli, [name, "--help"]).stdout
    found = re.search(r"^  Examples:\n((?:    .+\n)+)\n(?:Options|Data):\n", shown, re.MULTILINE)
    if found is None:
        return []
    assert all(len(line) <= 80 for line in found[1].splitlines())
    return re.sub(r"\\\n +", "", found[1]).splitlines()


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
        assert parse(line) == name


@pytest.mark.parametrize("line", ["pyflowers chekc r", "pyflowers check r --sttistic sd"])
def test_a_wrong_example_does_not_parse(line):
    with pytest.raises(click.UsageError):
        parse(line)


def sections(name):
    """Return the options that the help of a command lists, by the title of their section."""
    shown = CliRunner().invoke(cli, [name, "--help"]).stdout
    parts = re.findall(r"^(\w+):\n((?:  .+\n|\n)+)", f"{shown}\n", re.MULTILINE)
    option = re.compile(r"^  (?:-\w, )?(--[\w-]+)", re.MULTILINE)
    return {title: option.findall(rows) for title, rows in parts if option.search(rows)}


def test_the_help_of_fit_has_four_sections_with_the_usual_options_first():
    found = sections("fit")
    usual = {
        "Data": ["--data"],
        "Model": ["--family", "--prior"],
        "Sampling": ["--seed", "--chains", "--draws"],
        "Output": ["--out", "--check"],
    }
    assert list(found) == list(usual)
    for title, names in usual.items():
        assert found[title][: len(names)] == names


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_listed_once(name):
    listed = [option for names in sections(name).values() for option in names]
    command = cli.get_command(click.Context(cli), name)
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert sorted(listed) == sorted(
        ["--help", *(max(each.opts, key=len) for each in options if not each.hidden)]
    )


def test_every_option_of_fit_is_in_a_section():
    known = " ".join(SECTIONS.values()).split()
    assert len(set(known)) == len(known)
    assert {option for names in sections("fit").values() for option in names} == {*known}


@pytest.mark.parametrize(
    ("words", "priors"),
    [
        (["mu_sd=2"], {"mu_sd": 2.0}),
        (["b ~ normal(0, 1)"], {"b": "normal(0, 1)"}),
        (["b=normal(0, 1)"], {"b": "normal(0, 1)"}),
        (["b[f=2] = student_t(3, 0, 1)", "s=1e3"], {"b[f=2]": "student_t(3, 0, 1)", "s": 1000.0}),
    ],
)
def test_a_prior_is_a_number_or_a_density(words, priors):
    command = cli.get_command(click.Context(cli), "prior")
    given = [part for word in words for part in ("--prior", word)]
    assert command.make_context("prior", ["y ~ x", *given]).params["priors"] == priors


@pytest.mark.parametrize("word", ["mu", "mu=", "=normal(0, 1)", " ~ normal(0, 1)", "b ~", "mu=two"])
def test_anything_else_is_no_prior(word):
    command = cli.get_command(click.Context(cli), "prior")
    with pytest.raises(click.BadParameter, match="must be NAME=VALUE with a number, or"):
        command.make_context("prior", ["y ~ x", "--prior", word])


def test_capabilities_of_models_are_shown_on_request():
    assert "can: " not in CliRunner().invoke(cli, ["models"]).stdout
    assert CliRunner().invoke(cli, ["models", "--verbose"]).stdout.count("can: ") > 3
