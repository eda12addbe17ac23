"""A command imports no heavy package that its answer does not need."""

import subprocess
import sys

import pytest

HEAVY = ("arviz", "matplotlib", "scipy", "scipy.stats")  # not xarray, which every posterior needs
OTHER_FIGURES = ("pyflowers.analysis", "pyflowers.analysis.average_effects")
CODE = """
import sys
from pyflowers.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print("imported:", *sorted(sys.modules))
"""


def imported(*words, among=HEAVY):
    command = [sys.executable, "-c", CODE, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = done.stdout.splitlines()[-1].removeprefix("imported:").split()
    return [name for name in found if name in among]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["stanli", "cmdstan"])
def test_a_fit_without_plots(executables, engine, tmp_path):
    words = ["fit", "multilevel_poisson", "--seed", "1", "--plots", "none", "--engine", engine]
    assert imported(*words, "--out", tmp_path / "run") == []


@pytest.mark.slow
def test_the_same_check_sees_plots(tmp_path):
    words = ["fit", "iid_normal", "--seed", "1", "--engine", "stanli", "--out", tmp_path / "run"]
    found = imported(*words, among=(*HEAVY, *OTHER_FIGURES))
    # The band in the figure of ranks needs scipy.special, and the predictive figure the replicated
    # data of pyflowers.analysis; which process draws these figures depends on timing.
    by_chance = ("scipy", "pyflowers.analysis")
    assert [name for name in found if name not in by_chance] == ["matplotlib"]
    assert not {"arviz", "scipy.stats"} & {*imported("loo", tmp_path / "run")}


@pytest.mark.slow
def test_a_report(executables, tmp_path):
    words = ["fit", "multilevel_normal", "--seed", "1", "--plots", "none", "--out"]
    imported(*words, tmp_path / "run")
    found = imported("report", tmp_path / "run", "--out", tmp_path / "report.html")
    assert found == ["matplotlib", "scipy"]
