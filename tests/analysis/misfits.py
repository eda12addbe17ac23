"""Data sets with one misfit each, the formula that has it, and the formula that answers it."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

NUM_GROUPS = 24


@dataclass(frozen=True)
class Misfit:
    """A formula with its family, and how the check's advice on it begins and changes the fit.

    Attributes
    ----------
    formula, family : str
        What is fitted.
    change : mapping of str to str
        The inputs that the advice changes.
    """

    formula: str
    family: str = "gaussian"
    change: dict[str, str] = field(default_factory=dict)


MISFITS = {
    "spread along a covariate": Misfit(
        "y ~ x + (1 | g)", change={"program": "y ~ x + (1 | g); sigma ~ x"}
    ),
    "spread by factor": Misfit(
        "y ~ x + f + (1 | g)", change={"program": "y ~ x + f + (1 | g); sigma ~ f"}
    ),
    "spread by group": Misfit(
        "y ~ x + (1 | g)", change={"program": "y ~ x + (1 | g); sigma ~ (1 | g)"}
    ),
    "smooth curve": Misfit("y ~ x + (1 | g)", change={"program": "y ~ s(x) + (1 | g)"}),
    "excess zeros": Misfit(
        "y ~ x + (1 | g)", "poisson", change={"family": "zero_inflated_poisson"}
    ),
    "overdispersed counts": Misfit("y ~ x + (1 | g)", "poisson", change={"family": "negbinomial"}),
    "overdispersed successes": Misfit(
        "y | trials(20) ~ x + (1 | g)", "binomial", change={"family": "beta_binomial"}
    ),
    "heavy tails": Misfit("y ~ x + (1 | g)", change={"family": "student"}),
    "skewed errors": Misfit("y ~ x + (1 | g)", change={"family": "skew_normal"}),
    "interaction": Misfit("y ~ x + f + (1 | g)", change={"program": "y ~ x * f + (1 | g)"}),
    "varying slopes": Misfit("y ~ x + (1 | g)", change={"program": "y ~ x + (x | g)"}),
}

OF_SHAPE = ("heavy tails", "skewed errors")
"""Misfits of the shape of a distribution, which only many rows show."""


def misfit(kind, seed):
    """Return data with 24 groups of 10 rows, or 25 for the shape of the errors, with one misfit."""
    rng = np.random.default_rng([17, seed])
    codes = np.repeat(np.arange(NUM_GROUPS), 25 if kind in OF_SHAPE else 10)
    num = codes.size
    frame = pd.DataFrame({"g": [f"g{i:02}" for i in codes], "x": rng.normal(size=num)})
    frame["f"] = rng.choice(["m", "w"], num)
    effect, error = 0.5 * rng.normal(size=NUM_GROUPS)[codes], rng.normal(size=num)
    eta = effect + 0.5 * frame.x
    count = np.exp(1 + eta)
    if kind == "spread along a covariate":
        return frame.assign(y=eta + error * np.exp(0.5 * frame.x))
    if kind == "spread by factor":
        return frame.assign(y=eta + error * np.where(frame.f == "m", 2, 1))
    if kind == "spread by group":
        return frame.assign(y=eta + error * np.exp(rng.normal(0, 0.7, NUM_GROUPS))[codes])
    if kind == "smooth curve":
        return frame.assign(y=effect + 1.2 * np.sin(2 * frame.x) + error)
    if kind == "excess zeros":
        return frame.assign(y=rng.poisson(count) * (rng.random(num) > 0.25))
    if kind == "overdispersed counts":
        return frame.assign(y=rng.poisson(count * rng.gamma(2, 0.5, num)))
    if kind == "overdispersed successes":
        share = 1 / (1 + np.exp(-eta))
        return frame.assign(y=rng.binomial(20, rng.beta(5 * share, 5 * (1 - share))))
    if kind == "heavy tails":
        return frame.assign(y=eta + rng.standard_t(2.5, num))
    if kind == "skewed errors":
        skewed = 0.99 * np.abs(error) + np.sqrt(1 - 0.99**2) * rng.normal(size=num)
        return frame.assign(y=eta + 2 * skewed)
    if kind == "interaction":
        return frame.assign(y=effect + frame.x * np.where(frame.f == "m", 1.0, 0.2) + error)
    if kind == "varying slopes":
        slope = 0.5 + rng.normal(0, 0.75, NUM_GROUPS)[codes]
        return frame.assign(y=effect + slope * frame.x + error)
    raise ValueError(kind)
