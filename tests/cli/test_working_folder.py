"""No command imports from the working folder, except a function that the user names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pyflowers

COMMAND = [Path(sys.executable).with_name("pyflowers")]
MODULE = [sys.executable, "-m", "pyflowers"]
OPTIONAL = (
    *("sitecustomize", "usercustomize", "pyarrow", "dask", "distributed", "numexpr", "bottleneck"),
    *("pytz", "cupy", "sparse", "cftime", "openpyxl", "numbagg", "flox", "netCDF4", "IPython"),
)
"""Modules that Python, pandas, xarray or ArviZ import if they are there."""

QUICK = ["--engine", "stanli", "--chains", "1", "--warmup", "50", "--draws", "100", "--seed", "1"]
BATCH = """
models = ["iid_normal"]
keep = ["ours:size"]
[sampler]
engine = "stanli"
chains = 1
warmup = 50
draws = 100
seed = 1
"""
OURS = """
import neighbour


def size(fit):
    return {"size": neighbour.SIZE}


def spread(y):
    return float(y.max() - y.min())


def late(y):
    import neighbour_of_late

    return 1.0
"""


@pytest.fixture(params=["modules", "folders"])
def hostile(request, tmp_path):
    """A working folder with a module, or a folder of data, for each name."""
    for name in OPTIONAL:
        if request.param == "folders":
            (tmp_path / name).mkdir()
        else:
            text = f"open({str(tmp_path / f'ran-{name}')!r}, 'w')\n"
            (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    (tmp_path / "ours.py").write_text(OURS, encoding="utf-8")
    (tmp_path / "neighbour.py").write_text("SIZE = 7\n", encoding="utf-8")
    (tmp_path / "b.toml").write_text(BATCH, encoding="utf-8")
    return tmp_path


def run(folder, *words, command=COMMAND):
    """Run a command in a folder; return it ended."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run([*command, *words], cwd=folder, env=env, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("command", [COMMAND, MODULE], ids=["command", "python -m"])
def test_nothing_of_the_working_folder_is_imported(hostile, command):
    commands = [["models"], ["fit", "iid_normal", *QUICK, "--plots", "none", "--out", "r"]]
    if command is COMMAND:
        commands += [
            ["fit", "iid_normal", "--engine", "exact", "--plots", "none", "--out", "e"],
            ["check", "r", "--statistic", "ours:spread"],
            ["report", "r", "--out", "r.html"],
            ["batch", "b.toml", "--out", "b"],
        ]
    for words in commands:
        done = run(hostile, *words, command=command)
        assert done.returncode in (0, 3), (words, done.stderr)  # 3: the draws are few
    assert list(hostile.glob("ran-*")) == []
    if command is COMMAND:
        assert pyflowers.Batch(hostile / "b").table("size")["size"].tolist() == [7]


@pytest.mark.slow
def test_code_is_not_run_if_the_batch_file_is_wrong(hostile):
    (hostile / "ours.py").write_text("open('ran-ours', 'w')\n", encoding="utf-8")
    for wrong in (BATCH + "sede = 1\n", BATCH + "[data]\nfile = 'b.toml'\nby = 'site'\n"):
        (hostile / "b.toml").write_text(wrong, encoding="utf-8")
        assert run(hostile, "batch", "b.toml", "--out", "b").returncode == 1
    (hostile / "b.toml").write_text(BATCH, encoding="utf-8")
    assert run(hostile, "batch", "b.toml").returncode == 2  # no folder is named
    assert list(hostile.glob("ran-*")) == []


def test_a_module_that_is_imported_late_is_named_with_the_remedy(tmp_path):
    pyflowers.fit("iid_normal", seed=1, engine="exact").save(tmp_path / "r")
    for name, text in (("ours", OURS), ("neighbour", "SIZE = 7\n"), ("neighbour_of_late", "")):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    done = run(tmp_path, "check", "r", "--statistic", "ours:late")
    assert done.returncode == 1
    assert "; import neighbour_of_late at the top of the function's file" in done.stderr


SCRIPT = """
import pyflowers
from mine import late

if __name__ == "__main__":
    task = pyflowers.Task("iid_normal", keep=[late], chains=1, draws=100)
    batch = pyflowers.batch([task], out="b", seed=1, engine="stanli", workers=1)
    print(batch.table("late")["size"].tolist(), batch.failures.tolist())
"""


def test_workers_of_a_script_import_what_the_script_can(tmp_path):
    """A script's folder is in its path; its workers have it too, but run no sitecustomize."""
    (tmp_path / "sitecustomize.py").write_text("open('ran-site', 'w')\n", encoding="utf-8")
    late = "def late(fit):\n    import neighbour\n\n    return {'size': neighbour.SIZE}\n"
    for name, text in (("mine", late), ("neighbour", "SIZE = 7\n"), ("script", SCRIPT)):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    done = run(tmp_path, "script.py", command=[sys.executable])
    assert done.stdout.strip() == "[7] []", done.stderr
    assert not (tmp_path / "ran-site").exists()
