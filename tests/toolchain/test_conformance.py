"""What CmdStan 2.35.0 wrote for 34 command lines, our executables write too.

The cases and the way of comparing are those of ``tests/conformance``; draws are equal to the last
digit printed.
"""

import json
import re
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent.parent / "conformance"
CASES = json.loads((HERE / "cases.json").read_text())["cases"]
# Their values name a moment, a duration or a place, not a result.
PATHS = re.compile(
    r"^# *(stanc_version|diagnostic_file|file|profile_file|metric_file|mode|init|fitted_params"
    r"|constrained_params|unconstrained_params)\b.*= *"
)
TIMES = re.compile(r"Elapsed Time|start_datetime|stancflags|^# +[\d.e+-]+ seconds \(")


def normalise(text):
    """Return the lines without times, and with paths cut to their file's name."""
    lines = []
    for line in text.splitlines():
        if TIMES.search(line):
            continue
        if PATHS.match(line):
            line = re.sub(r"(= *)\S*/", r"\1", line)
        line = re.sub(r'"[^"]*/([^"/]*)"', r'"\1"', line).rstrip()
        if line not in ("", "#"):
            lines.append(line)
    return lines


def run(case, executable, out):
    """Run one command line in an empty folder."""
    arguments = case["argv"].replace("{data}", str(HERE / "data")).replace("{out}", str(out))
    arguments = re.sub(r"\{in:(\w+)\}", lambda m: str(HERE / "expected" / m[1]), arguments)
    command = [executable, *arguments.split()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=out)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_driver_is_cmdstan(driver_program, tmp_path, case):
    done = run(case, driver_program(case["program"]), tmp_path)
    expected = HERE / "expected" / case["name"]
    if case.get("fails"):
        assert done.returncode != 0
        assert case["says"] in done.stdout + done.stderr
        return
    assert done.returncode == 0, done.stderr
    for name in case["files"]:
        want = normalise((expected / name).read_text())
        assert normalise((tmp_path / name).read_text()) == want
    if "stdout" in case:
        want = [line.strip() for line in (expected / "stdout.txt").read_text().splitlines()]
        got = [line for line in done.stdout.splitlines() if line.startswith(case["stdout"])]
        assert [line.strip() for line in got] == want


def test_a_changed_digit_is_noticed():
    """Negative control of the comparison itself."""
    text = (HERE / "expected" / "sample_default" / "o.csv").read_text()
    assert normalise(text) != normalise(text.replace("-7.74397", "-7.74398", 1))
