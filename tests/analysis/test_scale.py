"""Memory does not grow with the number of replicated data sets."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("scale.py")


def run(*size):
    done = subprocess.run(
        [sys.executable, SCRIPT, *map(str, size)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_thousand_groups_months_and_draws_take_less_than_2_gb():
    """All 1,000 replicates of a million observations would take 8 GB."""
    found = run(1000, 1000, 1000)
    assert found["peak_mb"] < 2000
    # Small p-values of patterns, whose names have brackets, count, but not large ones.
    assert all(0.001 < p < (1.1 if "[" in name else 0.999) for name, p in found["p_values"].items())
    assert set(found["p_values"]) >= {"mean", "variance_to_mean", "zeros", "maximum", "loo_pit"}
