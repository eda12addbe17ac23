"""The text of written programs is valid and has the format of stanc."""

import keyword
import subprocess

import pandas as pd
import pytest
from formula_cases import CASES, table

from pyflowers import Program
from pyflowers.programs.source import read_blocks


@pytest.fixture(scope="module")
def stanc(cmdstan):
    return cmdstan.path / "bin" / "stanc"


LONG_NAMES = {"nested", "nested_unique", "nested_slopes", "interacting_groups", "binomial"}
"""If the name of a group is too long for the line, stanc breaks lines differently."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_program_is_valid_and_as_stanc_formats_it(case, stanc, tmp_path):
    program = Program.from_formula(case.formula, table(), family=case.family)
    path = tmp_path / "program.stan"
    path.write_text(program.source.text, encoding="utf-8")
    checked = subprocess.run(
        [stanc, "--o", tmp_path / "x.hpp", path], capture_output=True, text=True
    )
    assert (checked.returncode, checked.stderr) == (0, "")
    formatted = subprocess.run(
        [stanc, "--auto-format", path], capture_output=True, text=True, check=True
    ).stdout
    if case.name not in LONG_NAMES:
        assert formatted.rstrip("\n") == program.source.text.rstrip("\n")


def test_the_program_reads_like_one(stanc):
    frame = table()
    program = Program.from_formula("y ~ x + (x | g) + (1 | h)", frame)
    text = program.source.text
    assert text.startswith("/*\n * y ~ x + (x | g) + (1 | h)\n")
    blocks = read_blocks(text)
    assert list(blocks.parameters) == [
        *("Intercept_at_means", "b", "sigma", "sd_g", "L_g", "z_g", "sd_h", "r_h")
    ]
    assert set(program.declaration.omit) == {"Intercept_at_means", "z_g", "L_g"}
    assert all("//" in line for line in text.splitlines() if line.startswith("  int<lower=1> "))
    assert program.declaration.equation == (
        "y ~ N(eta, sigma²), eta = Intercept + X b + Z_g r_g + r_h"
    )


AWKWARD = [
    "for",
    "real",
    "y",
    "N",
    "b",
    "beta",
    "lp__",
    "größe",
    "a.b",
    "1st",
    "my col",
    "D",
    "eta",
]
AWKWARD += ["obs", "chain", "draw", "visit day", "repeat", "var", "until", "static", "typedef"]
AWKWARD += [
    "class",
    "pass",
    "None",
    "cov_matrix",
    "unit_vector",
    "pointwise",
    "sigma_scale",
    "Intercept_location",
]


@pytest.mark.parametrize("name", AWKWARD)
def test_a_group_may_be_called_anything(name, stanc, tmp_path):
    frame = pd.DataFrame({"response": [1.0, 2, 3, 4, 5, 7], name: list("aabbcc")})
    program = Program.from_formula(f"response ~ 1 + (1 | `{name}`)", frame)
    path = tmp_path / "program.stan"
    path.write_text(program.source.text, encoding="utf-8")
    done = subprocess.run([stanc, "--o", tmp_path / "x.hpp", path], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    data = program.read(frame)
    (labels,) = data.labels.values()
    assert (labels.column, labels.names) == (name, ("a", "b", "c"))
    program.fill(data, program.resolve_priors())
    for variable in program.declaration.data:  # [prediction] is read by Python's parser
        assert not keyword.iskeyword(variable)
    many = pd.concat([frame] * 3, ignore_index=True)  # enough rows per cell for totals to be used
    program = Program.from_formula(f"response ~ 1 + (1 | `{name}`)", many)
    whole, _ = program.fill(program.read(many), program.resolve_priors())
    assert whole["D"] == 3
