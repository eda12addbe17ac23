"""PyMC 6, Bambi 0.21, ArviZ 1 and the wheel in one environment, with shared run folders."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import pyflowers
from pyflowers.resources import version

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import json, sys, warnings
import matplotlib
matplotlib.use("agg")
import arviz as az, bambi, pymc, xarray
import pyflowers

folder, out = sys.argv[1:]
fit = pyflowers.Fit.load(folder)
other = pyflowers.fit("iid_normal", seed=1, engine="exact", chains=2, draws=200)
tree = fit.idata
assert isinstance(tree, xarray.DataTree)
with pymc.Model():
    pymc.Normal("mu")
    theirs = pymc.sample(draws=20, tune=20, chains=2, progressbar=False, random_seed=1)
assert type(theirs) is type(tree)
compared = az.compare({"poisson": fit.idata, "normal": other.idata})
az.plot_forest(tree, var_names=["mu_plant"]).savefig(out + "-forest.png")
az.plot_trace(tree, var_names=["mu"]).savefig(out + "-trace.png")
fit.save(out)
print(json.dumps({"groups": sorted(tree.children), "best": compared.index[0],
                  "plants": tree["posterior"]["plant"].values.tolist()}))
"""


def newer_python():
    """Return an installed Python that can run ArviZ 1."""
    names = [f"python3.{minor}" for minor in (14, 13, 12)]
    found = [path for name in names if (path := shutil.which(name))]
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found += [str(path) for path in sorted(root.glob("3.1[2-4].*/bin/python"), reverse=True)]
    works = (p for p in found if subprocess.run([p, "-c", ""], capture_output=True).returncode == 0)
    return next(works, None)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_pymc_6_and_bambi_take_the_same_arviz(tmp_path):
    python = newer_python()
    if python is None:
        pytest.skip("there is no Python 3.12 or newer, which ArviZ 1 needs")
    shutil.copytree(
        ROOT, tmp_path / "copy", ignore=shutil.ignore_patterns(".*cache", ".venv", ".git", "_build")
    )
    home = tmp_path / "venv"
    subprocess.run([python, "-m", "venv", home], check=True)
    pip = [home / "bin/python", "-m", "pip", "install", "-q"]
    subprocess.run([*pip, "pymc>=6", "bambi>=0.21", tmp_path / "copy"], check=True)
    subprocess.run([home / "bin/python", "-m", "pip", "check"], check=True)
    fit = pyflowers.fit("multilevel_poisson", seed=1, engine="stanli", warmup=300, draws=300)
    fit.save(tmp_path / "run")
    (tmp_path / "script.py").write_text(SCRIPT)
    words = [home / "bin/python", tmp_path / "script.py", tmp_path / "run", tmp_path / "again"]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env=clean)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.strip().splitlines()[-1])
    assert said["plants"] == ["1", "2", "3"]
    names = {"posterior", "posterior_predictive", "log_likelihood", "sample_stats"}
    assert set(said["groups"]) == {*names, "observed_data", "constant_data"}
    assert (tmp_path / "again-forest.png").stat().st_size > 5000
    # A run that was written with ArviZ 1 can be read here, and equals the original fit.
    back = pyflowers.Fit.load(tmp_path / "again")
    assert back.draws.keys() == fit.draws.keys()
    assert all(np.array_equal(back.draws[name], its) for name, its in fit.draws.items())
    for group, its in fit.groups().items():
        xr.testing.assert_identical(back.groups()[group], its)
    assert version("arviz").startswith("0.") == (sys.version_info < (3, 12))
