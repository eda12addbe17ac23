"""Formulas with data and priors; brms.json holds the log densities of brms.

``benchmarks/brms_reference.py`` writes that file. All cases use one small table. Its numbers have
at most four decimals, so that R reads from JSON exactly what Python wrote. Levels are not in
alphabetical order; labels of cohorts repeat in different schools, labels of rooms do not, and one
school lacks a cohort.

Every scale differs from 1, from brms' default and from the other scales of its case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

SEED = 20251125
NUM_ROWS = 48


@dataclass(frozen=True)
class Case:
    """A formula for which brms and pyflowers should have the same density.

    Attributes
    ----------
    name : str
    formula : str
        The formula for pyflowers.
    family : str
    hyperparameters : dict of str to float
        Keyed by pyflowers' names, but LABEL in ``b_scale[LABEL]`` is brms' name of the column.
    brms : str
        The formula for brms.
    """

    name: str
    formula: str
    family: str
    hyperparameters: dict[str, float]
    brms: str


@cache
def table() -> pd.DataFrame:
    """Return the table of all cases."""
    rng = np.random.default_rng(SEED)
    x, z = rng.normal(0.6, 1.2, NUM_ROWS), rng.normal(-0.3, 0.7, NUM_ROWS)
    trials = rng.integers(3, 12, NUM_ROWS)
    school, cohort = _schools(rng)
    count = rng.poisson(np.exp(0.8 + 0.4 * z)) * (rng.uniform(size=NUM_ROWS) > 0.2)
    columns = {
        "y": rng.normal(1.4 + 0.5 * x, 1.1),
        "positive": rng.gamma(2.5, 0.8, NUM_ROWS) + 0.05,
        "proportion": rng.beta(2, 3, NUM_ROWS).clip(0.02, 0.98),
        "count": count,
        "passed": rng.integers(0, 2, NUM_ROWS),
        "success": rng.binomial(trials, 0.4),
        "trials": trials,
        "rating": np.tile([2, 4, 1, 3], NUM_ROWS // 4)[rng.permutation(NUM_ROWS)],
        "x": x,
        "z": z,
        "hours": rng.uniform(0.5, 6, NUM_ROWS),
        "num": rng.permutation(np.tile([3, 1, 2], NUM_ROWS // 3)),
        "f": rng.permutation(np.tile(["c", "a", "b", "a"], NUM_ROWS // 4)),
        "treated": rng.permutation(np.tile(["yes", "no"], NUM_ROWS // 2)),
        "g": rng.permutation(np.tile([f"g{i}" for i in range(1, 9)], NUM_ROWS // 8)),
        "h": rng.permutation(np.tile(list("uvwpqr"), NUM_ROWS // 6)),
        "school": school,
        "cohort": cohort,
        "room": [f"{one}{other}" for one, other in zip(school, cohort, strict=True)],
    }
    return pd.DataFrame(columns).round(4)


def _schools(rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """Return the school and cohort of each row; the school south has no late cohort."""
    pairs = [("south", "early"), ("north", "late"), ("north", "early"), ("east", "late")]
    pairs += [("east", "early"), ("south", "mid"), ("north", "mid"), ("east", "mid")]
    chosen = [pairs[i] for i in rng.permutation(np.tile(np.arange(8), NUM_ROWS // 8))]
    return [school for school, _ in chosen], [cohort for _, cohort in chosen]


_INTERCEPT = {"Intercept_location": 0.3, "Intercept_scale": 2.2}
_SIGMA = {"sigma_scale": 1.7}
_SHAPE = {"shape_alpha": 2.1, "shape_beta": 1.3}
_FAMILIES: dict[str, dict[str, float]] = {
    "gaussian": _SIGMA,
    "student": {**_SIGMA, "nu_alpha": 2.3, "nu_beta": 0.15},
    "lognormal": _SIGMA,
    "gamma": _SHAPE,
    "beta": {"phi_alpha": 1.9, "phi_beta": 0.35},
    "bernoulli": {},
    "binomial": {},
    "poisson": {},
    "negbinomial": _SHAPE,
    "zero_inflated_poisson": {"zi_alpha": 1.6, "zi_beta": 2.7},
    "zero_inflated_negbinomial": {**_SHAPE, "zi_alpha": 1.6, "zi_beta": 2.7},
    "cumulative": {"threshold_scale": 2.6},
}


def _case(
    name: str,
    formula: str,
    family: str = "gaussian",
    *,
    b: str = "",
    groups: Sequence[str] = (),
    cor: Sequence[str] = (),
    intercept: bool = True,
    brms: str | None = None,
) -> Case:
    """Return a case with values for the hyperparameters of its family, columns and groups."""
    has_intercept = intercept and family != "cumulative"
    hyperparameters = {
        **(_INTERCEPT if has_intercept else {}),
        **{f"b_scale[{label}]": round(0.8 + 0.37 * i, 2) for i, label in enumerate(b.split())},
        **{f"sd_{group}_scale": round(1.2 + 0.25 * i, 2) for i, group in enumerate(groups)},
        **{f"cor_{group}_eta": round(1.5 + 0.75 * i, 2) for i, group in enumerate(cor)},
        **_FAMILIES[family],
    }
    return Case(name, formula, family, hyperparameters, brms or formula)


_FX = "fb fc x fb:x fc:x"
_NESTED = ("school", "school_cohort")

CASES: tuple[Case, ...] = (
    # Population-level effects.
    _case("intercept", "y ~ 1"),
    _case("numeric", "y ~ x", b="x"),
    _case("two_numeric", "y ~ x + z", b="x z"),
    _case("factor", "y ~ f", b="fb fc"),
    _case("two_levels", "y ~ treated + x", b="treatedyes x"),
    _case("slopes_alone", "y ~ f:x", b="fa:x fb:x fc:x"),
    _case("slopes_beside_numeric", "y ~ x + f:x", b="x x:fb x:fc"),
    _case("factor_by_numeric", "y ~ f * x", b=_FX),
    _case(
        "factor_by_factor",
        "y ~ f * treated",
        b="fb fc treatedyes fb:treatedyes fc:treatedyes",
    ),
    _case(
        "three_levels_each",
        "y ~ f * C(num)",
        b="fb fc factornum2 factornum3 fb:factornum2 fc:factornum2 fb:factornum3 fc:factornum3",
        brms="y ~ f * factor(num)",
    ),
    _case(
        "three_ways",
        "y ~ x * z * treated",
        b="x z treatedyes x:z x:treatedyes z:treatedyes x:z:treatedyes",
    ),
    _case("numeric_by_numeric", "y ~ x * z", b="x z x:z"),
    _case("cell_means", "y ~ 0 + f", b="fa fb fc", intercept=False),
    _case("cell_means_after_numeric", "y ~ 0 + x + f", b="x fa fb fc", intercept=False),
    _case("two_factors_without", "y ~ 0 + f + treated", b="fa fb fc treatedyes", intercept=False),
    _case("slopes_without", "y ~ 0 + f:x", b="fa:x fb:x fc:x", intercept=False),
    _case("minus_one", "y ~ x + z - 1", b="x z", intercept=False),
    _case("log_and_sqrt", "y ~ log(hours) + sqrt(hours)", b="loghours sqrthours"),
    _case("exp", "y ~ exp(z) + x", b="expz x"),
    _case("scale", "y ~ scale(x) + z", b="scalex z"),
    _case("center", "y ~ center(x) * f", b="centerx fb fc centerx:fb centerx:fc"),
    _case("poly", "y ~ poly(x, 2)", b="polyx21 polyx22"),
    _case("square", "y ~ x + I(x**2 + 1)", b="x IxE2P1", brms="y ~ x + I(x^2 + 1)"),
    _case(
        "numeric_as_factor",
        "y ~ C(num) + x",
        b="factornum2 factornum3 x",
        brms="y ~ factor(num) + x",
    ),
    _case("offset", "count ~ x + offset(log(hours))", "poisson", b="x"),
    # Groups.
    _case("one_group", "y ~ x + (1 | g)", b="x", groups=["g"]),
    _case("one_group_alone", "y ~ 1 + (1 | g)", groups=["g"]),
    _case("no_population", "y ~ 0 + (1 | g)", groups=["g"], intercept=False),
    _case("slopes", "y ~ x + (x | g)", b="x", groups=["g"], cor=["g"]),
    _case("slopes_with_one", "y ~ z + (1 + x | g)", b="z", groups=["g"], cor=["g"]),
    _case("slope_alone", "y ~ x + (0 + x | g)", b="x", groups=["g"]),
    _case("two_slopes", "y ~ x + z + (x + z | g)", b="x z", groups=["g"], cor=["g"]),
    _case("uncorrelated", "y ~ x + (x || g)", b="x", groups=["g"]),
    _case("uncorrelated_in_two", "y ~ x + (1 | g) + (0 + x | g)", b="x", groups=["g"]),
    _case("crossed", "y ~ x + (1 | g) + (1 | h)", b="x", groups=["g", "h"]),
    _case(
        "crossed_slopes",
        "y ~ f * x + (x | h) + (z | g)",
        b=_FX,
        groups=["g", "h"],
        cor=["g", "h"],
    ),
    _case("nested", "y ~ x + (1 | school/cohort)", b="x", groups=_NESTED),
    _case("nested_unique", "y ~ x + (1 | school/room)", b="x", groups=["school", "school_room"]),
    _case("nested_slopes", "y ~ x + (x | school/cohort)", b="x", groups=_NESTED, cor=_NESTED),
    _case("interacting_groups", "y ~ x + (1 | school:cohort)", b="x", groups=["school_cohort"]),
    _case("factor_in_group", "y ~ f + (f | g)", b="fb fc", groups=["g"], cor=["g"]),
    _case("cell_means_in_group", "y ~ f + (0 + f | g)", b="fb fc", groups=["g"], cor=["g"]),
    _case("factor_uncorrelated", "y ~ x + (treated || g)", b="x", groups=["g"]),
    _case(
        "cell_means_and_group", "y ~ 0 + f + (1 | g)", b="fa fb fc", groups=["g"], intercept=False
    ),
    # Families.
    _case("student", "y ~ x + (1 | g)", "student", b="x", groups=["g"]),
    _case("student_alone", "y ~ f", "student", b="fb fc"),
    _case("lognormal", "positive ~ x + (x | g)", "lognormal", b="x", groups=["g"], cor=["g"]),
    _case("lognormal_alone", "positive ~ treated", "lognormal", b="treatedyes"),
    _case("gamma", "positive ~ x + (1 | g)", "gamma", b="x", groups=["g"]),
    _case("gamma_cells", "positive ~ 0 + f", "gamma", b="fa fb fc", intercept=False),
    _case("beta", "proportion ~ x + (1 | h)", "beta", b="x", groups=["h"]),
    _case("beta_alone", "proportion ~ x * z", "beta", b="x z x:z"),
    _case("bernoulli", "passed ~ f + (x || g)", "bernoulli", b="fb fc", groups=["g"]),
    _case("bernoulli_alone", "passed ~ x", "bernoulli", b="x"),
    _case(
        "binomial",
        "success | trials(trials) ~ treated + (1 | school/cohort)",
        "binomial",
        b="treatedyes",
        groups=_NESTED,
    ),
    _case("binomial_alone", "success | trials(trials) ~ x", "binomial", b="x"),
    _case(
        "poisson",
        "count ~ x + offset(log(hours)) + (1 | g) + (1 | h)",
        "poisson",
        b="x",
        groups=["g", "h"],
    ),
    _case("negbinomial", "count ~ x + (1 | g)", "negbinomial", b="x", groups=["g"]),
    _case("negbinomial_alone", "count ~ x + offset(log(hours))", "negbinomial", b="x"),
    _case("zip", "count ~ x + (1 | g)", "zero_inflated_poisson", b="x", groups=["g"]),
    _case("zip_alone", "count ~ f", "zero_inflated_poisson", b="fb fc"),
    _case(
        "zinb",
        "count ~ z + (z | g)",
        "zero_inflated_negbinomial",
        b="z",
        groups=["g"],
        cor=["g"],
    ),
    _case("zinb_alone", "count ~ x", "zero_inflated_negbinomial", b="x"),
    _case("cumulative", "rating ~ x + f + (1 | g)", "cumulative", b="x fb fc", groups=["g"]),
    _case("cumulative_alone", "rating ~ 1", "cumulative"),
    _case(
        "cumulative_slopes", "rating ~ x + (x | g)", "cumulative", b="x", groups=["g"], cor=["g"]
    ),
    # Add new cases at the end: the random points of a case depend on its place in this list.
    _case(
        "spline",
        "y ~ bs(z, df=4) + x",
        b="bszdfEQ41 bszdfEQ42 bszdfEQ43 bszdfEQ44 x",
        brms="y ~ bs(z, df = 4) + x",
    ),
    _case(
        "reference_level",
        'y ~ C(f, ref="c") * x',
        b="relevelfactorfrefEQca relevelfactorfrefEQcb x relevelfactorfrefEQca:x "
        "relevelfactorfrefEQcb:x",
        brms="y ~ relevel(factor(f), ref = 'c') * x",
    ),
)
