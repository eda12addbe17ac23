"""A table and formulas with terms of the response, for several tests."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

NUM = 24


@dataclass(frozen=True)
class Case:
    """A formula with terms of the response.

    Attributes
    ----------
    formula, family : str
    """

    formula: str
    family: str


def table(num=NUM):
    """Return a table with responses of all kinds, and the columns of the terms."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=num)
    time = np.exp(0.6 + 0.4 * x + 0.5 * rng.normal(size=num)).round(4) + 0.05
    count = rng.poisson(np.exp(1 + 0.3 * x)) + 1
    kind = np.resize([0, 0, 1, 0, -1, 2, 0], num)
    return pd.DataFrame(
        {
            "x": x.round(4),
            "g": np.resize(list("pqrst"), num),
            "time": time,
            "count": count,
            "share": (time / (time + 2)).round(4),
            "n": 20,
            "c": (kind == 1).astype(int),
            "kind": kind,
            "word": [{0: "none", 1: "right", -1: "left", 2: "interval"}[each] for each in kind],
            "truth": kind == 1,
            "end": time + 0.7,
            "count_end": count + 2,
            "share_end": (time / (time + 2)).round(4) + 0.1,
            "low": time / 3,
            "high": time * 4,
            "s": rng.uniform(0.3, 1.5, num).round(3),
            "w": rng.integers(0, 4, num) + 0.5,
        }
    )


CONTINUOUS = ("gaussian", "student", "exgaussian", "asym_laplace", "gamma")
TIMES = ("lognormal", "weibull", "exponential")
COUNTS = ("poisson", "negbinomial", "geometric", "poisson(identity)")

CASES = [
    *(Case("time | cens(kind, y2 = end) ~ x", family) for family in (*CONTINUOUS, *TIMES)),
    *(Case("count | cens(kind, y2 = count_end) ~ x", family) for family in COUNTS),
    Case("share | cens(kind, y2 = share_end) ~ x", "beta"),
    Case("share | cens(kind, y2 = share_end) ~ x", "beta(probit)"),
    Case("count | trials(n) + cens(kind, y2 = count_end) ~ x", "binomial"),
    Case("count | trials(n) + cens(kind, y2 = count_end) ~ x", "binomial(cloglog)"),
    Case("time | cens(word, y2 = end) + trunc(lb = 0.01) ~ x", "gaussian"),
    Case("time | cens(truth) + trunc(ub = high) ~ x", "weibull"),
    Case("time | trunc(low, high) ~ x", "gamma"),
    Case("time | trunc(lb = low) + weights(w) ~ x", "student"),
    Case("count | trunc(lb = 1) ~ x", "poisson"),
    Case("count | trunc(1, 40) + cens(kind, y2 = count_end) ~ x", "negbinomial"),
    Case("count | trials(n) + trunc(lb = 1) ~ x", "binomial"),
    Case("time | se(s) ~ x", "gaussian"),
    Case("time | se(s, sigma = TRUE) ~ x", "gaussian"),
    Case("time | se(s, sigma = TRUE) + cens(c) ~ x", "student"),
    Case("time | se(s) + weights(w) + trunc(lb = -5) ~ x", "student"),
    Case("time | weights(w) ~ x", "lognormal"),
    Case("count | weights(w) ~ x", "poisson"),
    Case("time | weights(w, kind = precision) ~ x", "gaussian"),
    Case("time | weights(w, kind = precision) + se(s, sigma = TRUE) ~ x", "student"),
    Case("time | weights(w, kind = survey) ~ x", "gamma"),
    Case("time | weights(w, kind = survey) + cens(c) ~ x", "weibull"),
]
