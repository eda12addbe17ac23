"""A table of groups, models of formulas as the engine `exact` reads them, and NUTS as the test."""

import numpy as np
import pandas as pd

import pyflowers
from pyflowers.convergence import mcse_quantile
from pyflowers.fits.posterior import element_names, stacked
from pyflowers.programs.families import find_family

PROBS = 0.05, 0.25, 0.5, 0.75, 0.95


def table(num=60, seed=1):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "g": rng.choice(list("abcdefgh"), num),
            "h": rng.choice(list("uvwxy"), num),
            "x": rng.normal(3, 2, num),
            "z": rng.normal(size=num),
        }
    )
    effects = dict(zip("abcdefghuvwxy", rng.normal(size=13), strict=True))
    frame["y"] = 5 + 0.5 * frame.x + frame.g.map(effects) + frame.h.map(effects)
    frame["y"] += rng.normal(size=num)
    return frame


def of_family(name, num=100, seed=4):
    """Return a table with a response of a family, for 10 labels."""
    rng, family = np.random.default_rng(seed), find_family(name)
    codes, x = rng.integers(0, 10, num), rng.normal(size=num)
    eta = 0.3 + 0.4 * x + rng.normal(0, 0.5, 10)[codes]
    values = {"trials": np.full(num, 8.0), "threshold": np.array([[[[-1.0], [0.3], [1.5]]]])}
    for each in family.auxiliary:
        value = 0.3 if each.bounds[1] == 1 else 2.0
        values.setdefault(each.name, np.full((1, 1, 1), each.given or value))
    values |= {"cutzero": np.full((1, 1, 1), -1.0), "cutone": np.full((1, 1, 1), 1.0)}
    y = family.draw(eta[None, None], values, rng)[0, 0]
    return pd.DataFrame({"g": [f"g{code}" for code in codes], "x": x, "y": y})


def posed(formula, frame, **how):
    program = pyflowers.Program.from_formula(formula, frame, **how)
    data, _ = program.fill(program.read(frame), program.resolve_priors(None, program.read(frame)))
    return program, data, program.python.linear(data)


def check_against_nuts(exact, nuts, scale=1.0):
    """Compare quantiles, within 4 combined errors."""
    assert element_names(exact.posterior) == element_names(nuts.posterior)
    one, other = stacked(exact.posterior), stacked(nuts.posterior)
    for prob in PROBS:
        gap = np.quantile(one * scale, prob, axis=(0, 1)) - np.quantile(other, prob, axis=(0, 1))
        error = np.hypot(mcse_quantile(one, prob), mcse_quantile(other, prob))
        # The largest of many standardised gaps exceeds 4 by chance, for effects of many labels.
        limit = 4 + 0.1 * np.log10(one.shape[2])
        assert np.all(np.abs(gap) <= limit * error + 1e-12), prob
