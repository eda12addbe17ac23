"""A toy family in one file: Gumbel, with a scale that may have a formula."""

from scipy.stats import gumbel_r

from pyflowers.programs.families import Auxiliary, Family

FAMILY = Family(
    name="gumbel",
    equation="{y} ~ Gumbel(eta, alpha)",
    link="identity",
    response="vector[N]",
    stan="gumbel({eta}, alpha)",
    rng="gumbel_rng({eta}, alpha)",
    log_lik=lambda y, eta, values: gumbel_r.logpdf(y, eta, values["alpha"]),
    draw=lambda eta, values, rng: rng.gumbel(eta, values["alpha"]),
    mean=lambda eta, values: gumbel_r.mean(eta, values["alpha"]),
    moments=lambda eta, values: gumbel_r.stats(eta, values["alpha"]),
    auxiliary=(
        Auxiliary("alpha", "real<lower=0>", "lognormal({m}, {s})", {"m": 0, "s": 0.5}, "scale"),
    ),
    scale="y",
)
