"""If the system allows no more processes or threads, a command says so, and does not hang."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pyflowers

NOBODY = 65534
LIMIT = "error: the system's limit on processes and threads is reached; end other programs, or "

pytestmark = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="the limit does not apply to root, and only root can become another user",
)


def run_as_nobody(limit, folder, *words):
    """Run pyflowers as a user who may have `limit` processes; reading any file is allowed."""
    # Open folders above the package may belong to root alone, hence the capability.
    capability = "-all,+dac_override"
    command = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    for kind in ("--inh-caps", "--ambient-caps", "--bounding-set"):
        command += [kind, capability]
    command += ["prlimit", f"--nproc={limit}", Path(sys.executable).with_name("pyflowers"), *words]
    places = ("HOME", "TMPDIR", "PYFLOWERS_CACHE", "MPLCONFIGDIR")
    env = {**os.environ, **dict.fromkeys(places, str(folder))}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=90)


@pytest.fixture
def folder(tmp_path):
    os.chown(tmp_path, NOBODY, NOBODY)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, 3, 5])
def test_a_fit_says_that_the_limit_is_reached(folder, limit):
    words = ["iid_normal", "--engine", "stanli", "--plots", "none", "--seed", "1", "--out", "r"]
    done = run_as_nobody(limit, folder, "fit", *words)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(LIMIT)
    assert "Traceback" not in done.stderr
    assert not (folder / "r").exists()


@pytest.mark.slow
@pytest.mark.parametrize("limit", [2, 4, 5])
def test_a_report_is_drawn_or_refused_but_does_not_hang(folder, limit):
    pyflowers.fit("iid_normal", seed=1, engine="exact").save(folder / "r")
    done = run_as_nobody(limit, folder, "report", "r", "--out", "r.html")
    assert "Traceback" not in done.stderr
    assert done.returncode == 0 or done.stderr.splitlines()[-1].startswith(LIMIT)
