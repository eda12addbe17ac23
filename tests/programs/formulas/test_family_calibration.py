"""Simulation-based calibration of each new family, with one group term."""

import importlib.util
from pathlib import Path

import pytest
from family_cases import NEW
from tiers import mostly_campaign

PATH = Path(__file__).parents[3] / "benchmarks" / "calibrations.py"
SIMS = 300


def calibrations():
    """Return the module behind ``scripts/calibration``, which has the designs and the priors."""
    spec = importlib.util.spec_from_file_location("calibrations", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_new_family_can_be_calibrated():
    assert set(NEW) <= calibrations().FAMILIES.keys()


@pytest.mark.parametrize("name", mostly_campaign(NEW, ("beta_binomial", "weibull")))
def test_the_ranks_of_true_values_are_uniform(name, tmp_path):
    """Ranks of every quantity are within their 99.99% simultaneous band."""
    found = calibrations().of_family(name, SIMS, None, tmp_path)
    assert not len(found.batch.failures)
    assert found.num_fits == SIMS
    assert found.failed == []
