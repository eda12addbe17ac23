"""Simulation-based calibration of terms; ar(), cosy() and mm() have theirs in their own files."""

import numpy as np
import pandas as pd
import pytest

import pyflowers
from pyflowers import Program


def rows(num=48):
    """Return twelve groups of four rows on two sites, with predictors of each kind."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "y": rng.normal(size=num),
            "x": np.tile(np.linspace(-1.5, 1.5, num // 4), 4),
            "z": rng.normal(size=num),
            "f": np.resize(["a", "b", "b"], num),
            "level": pd.Categorical(np.resize([1, 2, 3, 4], num), ordered=True),
            "g": np.repeat([f"g{i:02}" for i in range(12)], num // 12),
        }
    )
    frame["site"] = np.where(frame.g < "g06", "north", "south")
    return frame


def of_neighbours():
    labels, places = sorted(rows().g.unique()), np.arange(12)
    return pd.DataFrame(0.6 ** np.abs(places[:, None] - places), index=labels, columns=labels)


PRIORS = {"sigma_scale": 1, "Intercept_scale": 1}
CASES = {
    "smooth": ("y ~ z + s(x, k=6)", {"sds_x_scale": 1}),
    "smooth_of_levels": ("y ~ f + s(x, by=f, k=5)", {}),
    "cyclic": ("y ~ z + s(x, k=6, bs='cc', period=4)", {}),
    "of_a_number": ("y ~ s(x, by=z, k=5)", {}),
    "natural_spline": ("y ~ ns(x, df=3)", {}),
    "process": ("y ~ gp(x, k=8)", {}),
    "monotonic": ("y ~ z + mo(level)", {}),
    "by": ("y ~ x + (1 | gr(g, by=site))", {}),
    "student": ("y ~ x + (1 | gr(g, dist=student))", {"sd_g_scale": 1}),
    "known": ("y ~ x + (x | gr(g, cov=A))", {}),
    "correlated": ("y ~ x + (x | g)", {}),
}


@pytest.mark.campaign
@pytest.mark.parametrize("name", CASES)
def test_the_ranks_of_true_values_are_uniform(name, tmp_path):
    formula, priors = CASES[name]
    known = {"A": of_neighbours()} if "cov" in formula else {}
    program = Program.from_formula(formula, rows(), known=known)
    how = {"sims": 300, "chains": 1, "warmup": 500, "draws": 500, "num_ranks": 50}
    found = pyflowers.sbc(
        program,
        rows(),
        priors=PRIORS | priors,
        engine="stanli",
        seed=1,
        out=tmp_path / "sbc",
        **how,
    )
    assert not len(found.batch.failures)
    assert found.failed == []
