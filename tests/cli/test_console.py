"""What the command line prints: labels shown safely, and a terminal that loses nothing."""

import errno
import io
import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from pyflowers.cli import console
from pyflowers.cli.console import print_table, say
from pyflowers.cli.main import cli
from pyflowers.display import label, shown, styled


@pytest.fixture(autouse=True)
def no_failure_stays():
    console._failures.clear()
    yield
    console._failures.clear()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[2Ja", r"\x1b[2Ja"),
        ("\x9b2J", r"\x9b2J"),
        ("a\rb\x07\x7f", r"a\rb\x07\x7f"),
        ("a\u202eb\u2066c\u2028d\u200f", r"a\u202eb\u2066c\u2028d\u200f"),
        ("\ud800", r"\ud800"),
        ("Blüten 花 🌸 é\n\tb", "Blüten 花 🌸 é\n\tb"),
    ],
)
def test_control_characters_are_written_out(text, expected):
    assert shown(text) == expected


def test_a_label_has_one_line():
    assert label("a\nverdict: all pass\t") == r"a\nverdict: all pass\t"


def test_styles_are_ours_and_those_of_a_label_are_not(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    say("\x1b[31mred", styled("b\x1b[0m", bold=True))
    assert capsys.readouterr().out == "\\x1b[31mred\x1b[1mb\\x1b[0m\x1b[0m\n"


@pytest.mark.parametrize(("variable", "value"), [("TERM", "dumb"), ("NO_COLOR", "1")])
def test_a_terminal_without_styles_gets_none(capsys, monkeypatch, variable, value):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv(variable, value)
    say(styled("verdict", fg="red"), " ", styled("name", bold=True))
    print_table(pd.DataFrame({"mean": [1.0], "r_hat": [1.2]}, index=["mu"]))
    shown = capsys.readouterr().out
    assert "verdict name" in shown
    assert not re.search("\x1b\\[[34]", shown)


def test_many_groups_hide_no_population_parameter(capsys):
    """If a table is too long, short quantities are still printed whole, wherever they are."""
    names = ["mu", *(f"mu_plant[{i}]" for i in range(118)), "beta[1]", "beta[2]", "rho"]
    print_table(pd.DataFrame({"mean": np.arange(len(names), dtype=float)}, index=names))
    printed = capsys.readouterr().out
    shown = [line.split()[0] for line in printed.splitlines() if line.strip()]
    assert [name for name in names if name in shown] == [*names[:11], *names[-3:]]
    assert "108 more rows" in printed
    print_table(pd.DataFrame({"mean": np.arange(60.0)}, index=names[:60]))
    assert "mu_plant[58]" in capsys.readouterr().out


@pytest.mark.parametrize(("code", "status"), [(errno.EPIPE, 141), (errno.ENOSPC, 1)])
def test_output_that_cannot_be_written_is_known_at_the_end(monkeypatch, capsys, code, status):
    def broken(text):
        raise OSError(code, "what the system says")

    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys.stdout, "write", broken)
    say("first")
    say("second")
    assert console.exit_status(0) == status
    assert console.exit_status(3) == (141 if status == 141 else 3)
    printed = capsys.readouterr().err
    assert ("the output cannot be written (what the system says)" in printed) == (status == 1)


def test_what_a_terminal_cannot_show_is_written_out(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="latin-1"))
    say("ü – σ²")
    sys.stdout.flush()
    assert raw.getvalue() == b"\xfc \\u2013 \\u03c3\xb2\n"


def test_the_labels_of_a_table_do_not_reach_the_terminal_raw(tmp_path):
    data = tmp_path / "d.csv"
    rows = "\x1b[2Jé,1,4\n\x1b[2Jé,2,6\nb\u202e,1,3\nb\u202e,2,2\n"
    data.write_text(f"plant,month,flowers\n{rows}", encoding="utf-8")
    words = ["vb", "multilevel_normal", "--data", str(data)]
    words += ["--prior", "sigma2_plant_nu=1", "--prior", "sigma2_plant_scale=2"]
    output = CliRunner().invoke(cli, words, catch_exceptions=False).output
    assert r"mu_plant[\x1b[2Jé]" in output
    assert r"mu_plant[b\u202e]" in output
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", output)


def run(words, shell):
    # Python's output is buffered for most users; a container may set PYTHONUNBUFFERED.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        ["/bin/bash", "-c", f'"$@" {shell}', "bash", sys.executable, "-m", "pyflowers", *words],
        capture_output=True,
        text=True,
        env=environment,
    )


@pytest.mark.slow
@pytest.mark.parametrize("words", [["models"], ["--help"]])
@pytest.mark.parametrize(
    ("shell", "status", "printed"),
    [
        ("| true; exit ${PIPESTATUS[0]}", (0, 1, 141), ""),
        ("> /dev/full", (1,), "error: the output cannot be written (No space left on device)"),
        (">&-", (0, 1), ""),
        (">&- 2>&-", (0, 1), ""),
    ],
)
def test_no_output_is_one_sentence_or_nothing(words, shell, status, printed):
    done = run(words, shell)
    assert done.returncode in status
    assert done.stderr.startswith(printed)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert "bug in pyflowers" not in done.stderr
    assert len(done.stderr.splitlines()) <= 1
