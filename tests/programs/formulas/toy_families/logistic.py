"""A toy family in one file: logistic, with a scale that may have a formula."""

from scipy.stats import logistic

from pyflowers.programs.families import Auxiliary, Family

FAMILY = Family(
    name="logistic",
    equation="{y} ~ Logistic(eta, alpha)",
    link="identity",
    response="vector[N]",
    stan="logistic({eta}, alpha)",
    rng="logistic_rng({eta}, alpha)",
    log_lik=lambda y, eta, values: logistic.logpdf(y, eta, values["alpha"]),
    draw=lambda eta, values, rng: rng.logistic(eta, values["alpha"]),
    mean=lambda eta, values: logistic.mean(eta, values["alpha"]),
    moments=lambda eta, values: logistic.stats(eta, values["alpha"]),
    auxiliary=(
        Auxiliary("alpha", "real<lower=0>", "lognormal({m}, {s})", {"m": 0, "s": 0.5}, "scale"),
    ),
    scale="y",
)
