"""A table of groups, and models of formulas as the engine `exact` reads them."""

import numpy as np
import pandas as pd

import pyflowers


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


def posed(formula, frame, **how):
    program = pyflowers.Program.from_formula(formula, frame, **how)
    data, _ = program.fill(program.read(frame), program.resolve_priors(None, program.read(frame)))
    return program, data, program.python.linear(data)
