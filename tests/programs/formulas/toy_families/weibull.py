"""A toy family in one file: Weibull, with a shape that may have a formula."""

import numpy as np
from scipy.stats import weibull_min

from pyflowers.programs.families import Auxiliary, Family

FAMILY = Family(
    name="weibull",
    equation="{y} ~ Weibull(alpha, exp(eta))",
    link="log",
    response="vector<lower=0>[N]",
    stan="weibull(alpha, exp({eta}))",
    rng="weibull_rng(alpha, exp({eta}))",
    log_lik=lambda y, eta, values: weibull_min.logpdf(y, values["alpha"], scale=np.exp(eta)),
    draw=lambda eta, values, rng: np.exp(eta) * rng.weibull(values["alpha"], eta.shape),
    mean=lambda eta, values: weibull_min.mean(values["alpha"], scale=np.exp(eta)),
    moments=lambda eta, values: weibull_min.stats(values["alpha"], scale=np.exp(eta)),
    auxiliary=(
        Auxiliary("alpha", "real<lower=0>", "lognormal({m}, {s})", {"m": 0, "s": 0.5}, "shape"),
    ),
    scale="log",
    is_positive=True,
)
