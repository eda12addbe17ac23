"""Run checks and contrasts at 1,000 groups × 1,000 months × 4,000 draws; print the peak memory.

Run as ``python tests/analysis/scale.py [GROUPS MONTHS DRAWS]``. All replicated data at once would
take 32 GB. The slow test takes a quarter of the draws, because all of them take 20 minutes.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

import pyflowers
from pyflowers.data import from_frame
from pyflowers.programs import find_program

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from synthetic_fits import synthetic_fit


def peak_memory():
    """Return this process's peak resident memory in MB.

    The system's ru_maxrss may be the peak of the process that started this one.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/status has no VmHWM")


def main(groups, months, draws):
    rng = np.random.default_rng(1)
    rate = np.exp(rng.normal(1.5, 0.5, groups))
    frame = pd.DataFrame(
        {
            "plant": np.repeat(np.arange(groups), months),
            "month": np.tile(np.arange(months), groups),
            "flowers": rng.poisson(np.repeat(rate, months)),
        }
    )
    data = find_program("multilevel_poisson").read(from_frame(frame))
    fit = synthetic_fit("multilevel_poisson", data, draws=draws // 4)
    start = time.perf_counter()
    found = pyflowers.contrast(
        fit, "mu_plant[3] - mu_plant[1]", "mu_plant[3] > mu_plant[1]", "rank(mu_plant)"
    )
    assert len(found.numbers()) == 1
    assert len(found.ranks()) == groups
    assert len(found.conditions()) == 1
    assert len(pyflowers.predict(fit).table()) == groups + 2
    checks = pyflowers.check(fit)
    assert checks.num_replicates == draws
    p_values = {check.name: check.p_value for check in checks.checks}
    seconds = round(time.perf_counter() - start, 1)
    print(json.dumps({"peak_mb": peak_memory(), "seconds": seconds, "p_values": p_values}))


if __name__ == "__main__":
    main(*(map(int, sys.argv[1:]) if sys.argv[1:] else (1000, 1000, 4000)))
