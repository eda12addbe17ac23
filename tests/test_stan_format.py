"""Every Stan program has the format of ``stanc --auto-format``."""

import subprocess
from pathlib import Path

import pytest

from pyflowers.programs import shipped_names
from pyflowers.toolchain.embedded import stan_folder

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("stan", "examples/*", "tests/lecture")
PROGRAMS = sorted(path for folder in FOLDERS for path in ROOT.glob(f"{folder}/*.stan"))
QUANTITIES = sorted(ROOT.glob("stan/quantities/*.stan"))


def test_every_folder_has_programs():
    assert len(PROGRAMS) >= 15
    assert {path.name for path in QUANTITIES} == {f"{name}.stan" for name in shipped_names()}
    assert {"epil", "rats", "pumps", "seeds"} <= {path.stem for path in PROGRAMS}


def formatted(program):
    stanc = stan_folder() / "stanc"
    done = subprocess.run([stanc, "--auto-format", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip() + "\n"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_program_is_formatted(program):
    assert formatted(program) == program.read_text(encoding="utf-8")


@pytest.mark.parametrize("quantities", QUANTITIES, ids=lambda path: path.stem)
def test_quantities_are_formatted_as_a_part_of_their_program(quantities, tmp_path):
    """A single block is not a program; ``pyflowers new`` appends it to one."""
    block = quantities.read_text(encoding="utf-8")
    whole = (ROOT / "stan" / quantities.name).read_text(encoding="utf-8").rstrip() + "\n" + block
    program = tmp_path / quantities.name
    program.write_text(whole, encoding="utf-8")
    assert formatted(program) == whole
