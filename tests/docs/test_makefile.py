"""The Makefile of the how-to guide on scripts works exactly as printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from site_parts import DOCS

from pyflowers.fits.fit import Fit

ROWS = "plant,month,flowers\na,1,4\na,2,6\na,3,5\nb,1,1\nb,2,0\nb,3,2\n"


@pytest.mark.slow
def test_the_makefile_fails_again_until_the_check_passes(tmp_path):
    page = (DOCS / "how-to" / "scripts.md").read_text(encoding="utf-8")
    (makefile,) = re.findall(r"```make\n(.*?)```", page, re.DOTALL)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def make(text):
        (tmp_path / "Makefile").write_text(text)
        command = ["make", "flowers.passed"]
        environment = {**os.environ, "PATH": path}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    def draws():
        return (tmp_path / "runs" / "flowers" / "draws.nc").read_bytes()

    (tmp_path / "flowers.csv").write_text(ROWS)
    poor = makefile.replace("--seed 1", "--seed 1 --warmup 50 --draws 20")
    for _ in range(2):  # make runs the failed target again
        failed = make(poor)
        assert failed.returncode == 2
        assert "Error 3" in failed.stderr
        assert not (tmp_path / "flowers.passed").exists()
        assert Fit.load(tmp_path / "runs" / "flowers").num_draws == 20

    done = make(makefile)
    assert done.returncode == 0, done.stderr
    passed = draws()
    assert "is up to date" in make(makefile).stdout
    assert draws() == passed

    stamp = (tmp_path / "flowers.passed").stat().st_mtime
    (tmp_path / "flowers.csv").write_text(ROWS.replace("b,3,2", "b,3,3"))
    os.utime(tmp_path / "flowers.csv", (stamp + 5, stamp + 5))
    assert make(makefile).returncode == 0
    assert draws() != passed
