"""Declared priors as densities: each integrates to one and has the stated sd."""

import re

import numpy as np
import pytest
from scipy.integrate import quad

from pyflowers.errors import ConfigError
from pyflowers.programs.densities import prior_density


@pytest.mark.parametrize(
    ("expression", "low", "high"),
    [
        ("normal(m, 3)", -np.inf, np.inf),
        ("std_normal()", -np.inf, np.inf),
        ("student_t(7, m, 2)", -np.inf, np.inf),
        ("cauchy(m, 2)", -np.inf, np.inf),
        ("scaled_inv_chi_square(5, 2)", 0, np.inf),
        ("lognormal(0, 0.5)", 0, np.inf),
        ("exponential(2)", 0, np.inf),
        ("gamma(3, m)", 0, np.inf),
        ("inv_gamma(5, 2)", 0, np.inf),
        ("beta(2, 3)", 0, 1),
        ("uniform(1, 4)", 1, 4),
    ],
)
def test_prior_densities_are_densities(expression, low, high):
    prior = prior_density(expression, {"m": 1.5})

    def moment(power):
        return quad(lambda x: x**power * float(prior.density(np.array(x))), low, high)[0]

    assert moment(0) == pytest.approx(1, abs=1e-6)
    if "cauchy" not in expression:
        assert np.sqrt(moment(2) - moment(1) ** 2) == pytest.approx(prior.sd, rel=1e-3)
    else:
        assert np.isnan(prior.sd)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("wishart(3, 1)", "write it as one of Stan's distributions (normal"),
        ("normal(0)", "normal takes 2 arguments"),
        ("normal(0, tau)", "tau is neither a number nor a scalar of the data block"),
        ("normal(0, y)", "y is neither a number nor a scalar of the data block"),
    ],
)
def test_a_prior_that_cannot_be_drawn_is_named(expression, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        prior_density(expression, {"y": np.arange(3)})
