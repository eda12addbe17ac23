"""The README's story: its code and commands run, with the output and the numbers that it shows."""

import contextlib
import doctest
import io
import re
import shlex
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from click.testing import CliRunner

from pyflowers.cli.main import cli
from pyflowers.programs.families import family_names

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLE = README.partition("\n## Example\n")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", EXAMPLE, flags=re.MULTILINE | re.DOTALL)
SHOWN = doctest.OutputChecker()
NUMBER = re.compile(r"(?<![\w.])\d+\.\d+")


def texts():
    """Return the outputs that are shown in the example."""
    return [text for kind, text in BLOCKS if kind == "text"]


def plain(text):
    """Return text without spaces at the ends of lines, which editors remove, and blank ends."""
    return re.sub(r" +$", "", text, flags=re.MULTILINE).strip() + "\n"


def test_the_readme_names_what_there_is():
    for link in re.findall(r"\]\(([^)#]+)", README):
        assert (ROOT / link).exists(), link
    assert ("more than thirty [families]" in README) == (len(family_names()) > 30)
    assert not re.search(r"https?://|pip install pyflowers", README)


def test_the_answer_is_that_of_the_table():
    median, low, *_, high, _ = map(float, NUMBER.findall(texts()[1].splitlines()[-1]))
    fewer, least, most = (f"{100 * (1 - ratio):.0f}%" for ratio in (median, high, low))
    assert f"{fewer} fewer seizures (90% interval: {least} to {most} fewer)" in EXAMPLE


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["stanli", "cmdstan"])
def test_the_story_runs_and_its_output_is_shown(engine, tmp_path, monkeypatch, cmdstan):
    monkeypatch.chdir(tmp_path)
    names, printed, commands = {}, "", []
    for kind, text in BLOCKS:
        if kind == "python":
            written = io.StringIO()
            with contextlib.redirect_stdout(written):
                exec(text.replace("seed=2", f'seed=2, engine="{engine}"'), names)
            printed = written.getvalue()
        elif kind == "console":
            lines = text.replace("\\\n", "").splitlines()
            commands += [shlex.split(line.removeprefix("$ ")) for line in lines]
        elif engine == "stanli":
            assert SHOWN.check_output(plain(text), plain(printed), doctest.ELLIPSIS), printed
        else:
            assert_similar(text, printed)
    plt.close("all")
    assert (tmp_path / "epilepsy.png").stat().st_size > 10_000
    page = (tmp_path / "epilepsy.html").read_text(encoding="utf-8")
    assert "can be trusted" in page
    for _, *words in commands:
        if words[0] == "fit":
            words += ["--engine", engine, "--plots", "none"]
        done = CliRunner().invoke(cli, words, catch_exceptions=False)
        assert done.exit_code == 0, done.output
    assert [words[1] for words in commands] == ["fit", "check", "effects", "report"]


def assert_similar(text, printed):
    """Check output of the other engine: the same verdict, and numbers that differ a little."""
    first, row = text.splitlines()[0], text.splitlines()[-1]
    assert printed.startswith(first)
    assert "FAILED" not in text or re.search(r"data +FAILED", printed)
    if row.startswith("treated"):
        other = next(line for line in printed.splitlines() if line.startswith("treated"))
        shown, found = (list(map(float, NUMBER.findall(line))) for line in (row, other))
        assert found == pytest.approx(shown, abs=0.03)
