"""Every Stan program stands as ``stanc --auto-format`` prints it."""

import subprocess
from pathlib import Path

import pytest

from pyflowers.cmdstan.wheel import stan_folder

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = sorted([*ROOT.glob("stan/*.stan"), *ROOT.glob("tests/lecture/*.stan")])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_program_is_formatted(program):
    stanc = stan_folder() / "stanc"
    done = subprocess.run([stanc, "--auto-format", program], capture_output=True, text=True)
    assert done.stdout.rstrip() + "\n" == program.read_text(encoding="utf-8")
