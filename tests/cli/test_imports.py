"""The answer is on the screen before anything is imported that it does not need."""

import os
import signal
import subprocess
import sys

import pytest

HEAVY = ("arviz", "matplotlib", "scipy", "scipy.stats", "xarray")
OTHER_FIGURES = ("pyflowers.analysis",)
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


@pytest.mark.parametrize("engine", ["stanli", "cmdstan"])
def test_a_fit_without_plots(executables, engine, tmp_path):
    words = ["fit", "multilevel_poisson", "--seed", "1", "--plots", "none", "--engine", engine]
    assert imported(*words, "--out", tmp_path / "run") == []


def test_the_same_check_sees_plots(tmp_path):
    words = ["fit", "iid_normal", "--seed", "1", "--engine", "stanli", "--out", tmp_path / "run"]
    assert imported(*words, among=(*HEAVY, *OTHER_FIGURES)) == ["matplotlib"]
    assert not {"arviz", "scipy.stats", "xarray"} & {*imported("loo", tmp_path / "run")}


@pytest.mark.slow
def test_a_report(executables, tmp_path):
    words = ["fit", "multilevel_normal", "--seed", "1", "--plots", "none", "--out"]
    imported(*words, tmp_path / "run")
    found = imported("report", tmp_path / "run", "--out", tmp_path / "report.html")
    assert found == ["matplotlib", "scipy"]


IMPORT = "from pyflowers.engines.cmdstan import import_cmdstanpy; import_cmdstanpy()"


def run_with_temporary_files_in(folder, code):
    environment = os.environ | {"TMPDIR": str(folder)}
    return subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode


@pytest.mark.skipif(not hasattr(os, "kill"), reason="nothing can be killed")
def test_cmdstanpys_folder_goes_even_if_its_process_is_killed(tmp_path):
    killed = f"{IMPORT}; import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert run_with_temporary_files_in(tmp_path, killed) == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 1
    assert run_with_temporary_files_in(tmp_path, IMPORT) == 0
    assert list(tmp_path.iterdir()) == []


def test_cmdstanpy_makes_its_folder_in_ours(tmp_path):
    code = (
        f"{IMPORT}; import cmdstanpy, pathlib, tempfile\n"
        f"own = pathlib.Path({str(tmp_path)!r})\n"
        "assert pathlib.Path(cmdstanpy._TMPDIR).parent.parent == own\n"
        "assert pathlib.Path(tempfile.mkdtemp()).parent == own"
    )
    assert run_with_temporary_files_in(tmp_path, code) == 0


def test_cmdstanpy_still_has_xarray(cmdstan):
    code = (
        "from pyflowers.engines.cmdstan import import_cmdstanpy\n"
        "import sys; import_cmdstanpy(); assert 'xarray' not in sys.modules\n"
        "from cmdstanpy.stanfit import mcmc\n"
        "assert mcmc.XARRAY_INSTALLED and mcmc.xr.Dataset().sizes == {}\n"
        "import xarray; assert mcmc.xr.Dataset is xarray.Dataset\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
