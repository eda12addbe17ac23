"""Posteriors for data sets from books and manuals, against the published estimates.

The references are estimates by (restricted) maximum likelihood. published.R, in this folder, prints
them all: lme4 1.1-31, nlme 3.1-162, MASS 7.3-58.2, statmod 1.5.0 and survival 3.5-3 in R 4.2.2.
Each study names its call, and a publication with the same digits if there is one.

A coefficient's posterior mean is compared with its estimate, in units of the posterior sd and its
Monte Carlo error; its posterior sd is compared with the standard error. For standard deviations,
thresholds and correlations, whose posteriors are skewed, the median is compared. Since the data are
the same, only priors and skewness make a difference, and a root mean square of 1 would be large.
"""

import math
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pyflowers
from pyflowers.convergence import ess_bulk, r_hat

DATA = Path(__file__).parent / "data"
FLOWERS = Path(__file__).parents[3] / "data" / "flowers.csv"
WITHIN = 4.0
"""Largest difference of a quantity, in posterior sds."""

MEAN_SQUARE = 1.0
"""Largest mean of their squares."""

SPREAD = 0.85, 1.4
"""Limits of posterior sd over standard error; REML treats the variances as known."""


@dataclass(frozen=True)
class Study:
    """A data set, a formula for it, and the published estimates.

    Attributes
    ----------
    name : str
    data : str
        The file, without extension.
    formula, family : str
    source : str
        The publication, and the call of R that prints its digits.
    coefficients : mapping of str to (float, float)
        Estimates with their standard errors.
    others : mapping of str to float
        Estimates of standard deviations, thresholds and correlations.
    spoilt : callable
        Plants a bug in the table, for the negative control.
    labels : tuple of str
        Columns of numbers that are labels.
    wrong : mapping
        Another family or formula, for the negative control.
    options : mapping
        Options of the sampler.
    """

    name: str
    data: str
    formula: str
    family: str
    source: str
    coefficients: Mapping[str, tuple[float, float]]
    others: Mapping[str, float]
    spoilt: Callable[[pd.DataFrame], pd.DataFrame] = lambda table: table
    labels: tuple[str, ...] = ()
    wrong: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def references(self) -> dict[str, tuple[float, float]]:
        """All estimates; those whose standard errors are not compared have NaN."""
        return {**self.coefficients, **{name: (its, np.nan) for name, its in self.others.items()}}


def exchanged(column, one, other):
    """Return a function that exchanges two labels of a column."""
    names = {one: other, other: one}
    return lambda table: table.assign(**{column: table[column].replace(names)})


QUICK = {"warmup": 400, "draws": 400}

CENSORED = "time | cens(censored) ~ age + sex"

STUDIES = (
    Study(
        "kidney-lognormal",
        "kidney",
        CENSORED,
        "lognormal",
        "survival::survreg(Surv(time, 1 - censored) ~ age + sex, kidney, dist = 'lognormal'). "
        "McGilchrist and Aisbett (1991), Biometrics 47(2), for the data",
        {
            "Intercept": (4.8210, 0.4616),
            "b[age]": (-0.005286, 0.009706),
            "b[sexmale]": (-1.3767, 0.3262),
        },
        {"sigma": 1.1848},
        spoilt=exchanged("sex", "male", "female"),
        options=QUICK,
    ),
    Study(
        "kidney-weibull",
        "kidney",
        CENSORED,
        "weibull",
        "survival::survreg(Surv(time, 1 - censored) ~ age + sex, kidney, dist = 'weibull'), whose "
        "intercept is raised by log(gamma(1 + scale)), and whose scale 1.1033 is 1 / shape",
        {
            # 5.2485 is the log of a Weibull scale; the family's intercept is that of a mean.
            "Intercept": (5.2485 + math.lgamma(1 + 1.103319), 0.4654),
            "b[age]": (-0.004034, 0.010303),
            "b[sexmale]": (-0.9655, 0.3253),
        },
        {"shape": 1 / 1.103319},
        spoilt=exchanged("sex", "male", "female"),
        options=QUICK,
    ),
    Study(
        "sleepstudy",
        "sleepstudy",
        "Reaction ~ Days + (Days | Subject)",
        "gaussian",
        "Bates, Mächler, Bolker and Walker (2015), JSS 67(1), section 5.2: the summary of fm1, and "
        "VarCorr(fm1). lmer(Reaction ~ Days + (Days | Subject), sleepstudy)",
        {"Intercept": (251.405, 6.825), "b[Days]": (10.467, 1.546)},
        {
            "sd_Subject[Intercept]": 24.741,
            "sd_Subject[Days]": 5.922,
            "cor_Subject[Intercept,Days]": 0.066,
            "sigma": 25.592,
        },
        wrong={"family": "lognormal"},
        options=QUICK,
    ),
    Study(
        "cbpp",
        "cbpp",
        "incidence | trials(size) ~ period + (1 | herd)",
        "binomial",
        "The example of lme4's reference manual, cbpp. "
        "glmer(cbind(incidence, size - incidence) ~ period + (1 | herd), cbpp, binomial)",
        {
            "Intercept": (-1.398, 0.231),
            "b[period2]": (-0.992, 0.303),
            "b[period3]": (-1.128, 0.323),
            "b[period4]": (-1.580, 0.422),
        },
        {"sd_herd[Intercept]": 0.642},
        labels=("period",),
        wrong={"formula": "incidence ~ period + (1 | herd)", "family": "poisson"},
        options=QUICK,
    ),
    Study(
        "penicillin",
        "Penicillin",
        "diameter ~ 1 + (1 | plate) + (1 | sample)",
        "gaussian",
        "The example of lme4's reference manual, Penicillin. "
        "lmer(diameter ~ 1 + (1 | plate) + (1 | sample), Penicillin)",
        {"Intercept": (22.972, 0.809)},
        {"sd_plate[Intercept]": 0.847, "sd_sample[Intercept]": 1.932, "sigma": 0.550},
        spoilt=lambda table: table.rename(columns={"plate": "sample", "sample": "plate"}),
    ),
    Study(
        "grouseticks",
        "grouseticks",
        "TICKS ~ YEAR + HEIGHT + (1 | BROOD) + (1 | INDEX) + (1 | LOCATION)",
        "poisson",
        "Elston et al. (2001), Parasitology 122(5), by the example of lme4's reference manual, "
        "grouseticks. glmer(TICKS ~ YEAR + HEIGHT + (1 | BROOD) + (1 | INDEX) + (1 | LOCATION), "
        "grouseticks, poisson)",
        {
            "Intercept": (11.356, 1.599),
            "b[YEAR96]": (1.180, 0.238),
            "b[YEAR97]": (-0.979, 0.263),
            "b[HEIGHT]": (-0.02376, 0.00344),
        },
        {
            "sd_BROOD[Intercept]": 0.750,
            "sd_INDEX[Intercept]": 0.542,
            "sd_LOCATION[Intercept]": 0.529,
        },
        spoilt=exchanged("YEAR", "95", "97"),
        labels=("YEAR",),
        options={"draws": 2000, "adapt_delta": 0.95},
    ),
    Study(
        "epilepsy",
        "epilepsy",
        "count ~ zAge + zBase * Trt + (1 | patient) + (1 | obs)",
        "poisson",
        "The model of brms' home page and reference manual; Bürkner (2017), JSS 80(1), prints no "
        "estimates of it. glmer(count ~ zAge + zBase * Trt + (1 | patient) + (1 | obs), epilepsy, "
        "poisson)",
        {
            "Intercept": (1.726, 0.108),
            "b[zAge]": (0.0956, 0.0788),
            "b[zBase]": (0.698, 0.109),
            "b[Trt1]": (-0.257, 0.151),
            "b[zBase:Trt1]": (0.0553, 0.1479),
        },
        {"sd_patient[Intercept]": 0.490, "sd_obs[Intercept]": 0.365},
        labels=("Trt",),
        wrong={"formula": "count ~ zAge + zBase * Trt + (1 | patient)", "family": "gaussian"},
    ),
    Study(
        "epilepsy-patients",
        "epilepsy",
        "count ~ zAge + zBase * Trt + (1 | patient)",
        "poisson",
        "The same without (1 | obs). "
        "glmer(count ~ zAge + zBase * Trt + (1 | patient), epilepsy, poisson)",
        {
            "Intercept": (1.777, 0.110),
            "b[zAge]": (0.0937, 0.0803),
            "b[zBase]": (0.701, 0.111),
            "b[Trt1]": (-0.263, 0.154),
            "b[zBase:Trt1]": (0.0483, 0.1507),
        },
        {"sd_patient[Intercept]": 0.534},
        labels=("Trt",),
        wrong={"family": "gaussian"},
    ),
    Study(
        "inhaler",
        "inhaler",
        "rating ~ treat + period + carry + (1 | subject)",
        "cumulative",
        "fit3 of Bürkner (2017), JSS 80(1), which prints estimates of fit4 only, another model. "
        "Maximum likelihood by quadrature in published.R",
        {
            "b[treat]": (-1.044, 0.315),
            "b[period]": (0.230, 0.196),
            "b[carry]": (-0.242, 0.243),
        },
        {
            "threshold[1]": 0.697,
            "threshold[2]": 3.856,
            "threshold[3]": 5.113,
            "sd_subject[Intercept]": 1.190,
        },
        spoilt=lambda table: table.assign(rating=5 - table["rating"]),
    ),
    Study(
        "inhaler-plain",
        "inhaler",
        "rating ~ treat + period + carry",
        "cumulative",
        "MASS::polr(factor(rating) ~ treat + period + carry, inhaler)",
        {
            "b[treat]": (-0.799, 0.245),
            "b[period]": (0.184, 0.178),
            "b[carry]": (-0.222, 0.178),
        },
        {"threshold[1]": 0.547, "threshold[2]": 3.202, "threshold[3]": 4.382},
        spoilt=lambda table: table.assign(rating=5 - table["rating"]),
    ),
    Study(
        "inhaler-stages",
        "inhaler",
        "rating ~ treat + period + carry + (1 | subject)",
        "sratio",
        "Bürkner (2017), JSS 80(1), fits stopping ratios to these data, with other terms. They are "
        "logistic regressions of whether a rating that was reached is the last; see published.R",
        {
            "b[treat]": (-0.940, 0.289),
            "b[period]": (0.250, 0.182),
            "b[carry]": (-0.260, 0.224),
        },
        {
            "threshold[1]": 0.671,
            "threshold[2]": 3.146,
            "threshold[3]": 2.475,
            "sd_subject[Intercept]": 1.060,
        },
        spoilt=lambda table: table.assign(rating=5 - table["rating"]),
    ),
    Study(
        "cbpp-shares",
        "cbpp",
        "incidence | trials(size) ~ period",
        "beta_binomial",
        "brms' vignette on custom families fits this family to these data, with (1 | herd). "
        "Maximum likelihood in published.R",
        {
            "Intercept": (-1.319, 0.233),
            "b[period2]": (-0.969, 0.406),
            "b[period3]": (-1.251, 0.457),
            "b[period4]": (-1.473, 0.511),
        },
        {"phi": 10.84},
        labels=("period",),
        spoilt=lambda table: table.assign(incidence=table["size"] - table["incidence"]),
    ),
    Study(
        "machines",
        "Machines",
        "score ~ Machine + (1 | Worker / Machine)",
        "gaussian",
        "fm2Machine of Pinheiro and Bates (2000), Mixed-Effects Models in S and S-PLUS, section "
        "1.3. lme(score ~ Machine, random = ~ 1 | Worker / Machine, data = Machines)",
        {
            "Intercept": (52.356, 2.486),
            "b[MachineB]": (7.967, 2.177),
            "b[MachineC]": (13.917, 2.177),
        },
        {
            "sd_Worker[Intercept]": 4.781,
            "sd_Worker_Machine[Intercept]": 3.730,
            "sigma": 0.9616,
        },
        spoilt=exchanged("Machine", "A", "C"),
    ),
    Study(
        "oxboys",
        "Oxboys",
        "height ~ age + (age | Subject)",
        "gaussian",
        "Pinheiro and Bates (2000), section 3.1, have the data, and print no estimates of it. "
        "lme(height ~ age, random = ~ age | Subject, data = Oxboys)",
        {"Intercept": (149.372, 1.585), "b[age]": (6.525, 0.336)},
        {
            "sd_Subject[Intercept]": 8.081,
            "sd_Subject[age]": 1.681,
            "cor_Subject[Intercept,age]": 0.641,
            "sigma": 0.6599,
        },
        spoilt=lambda table: table.assign(age=-table["age"]),
        options={"draws": 2000},
    ),
)
OWLS = Study(
    "owls",
    "Owls",
    "SiblingNegotiation ~ (FoodTreatment + ArrivalTime) * SexParent + offset(log(BroodSize))"
    " + (1 | Nest); zi ~ 1",
    "zero_inflated_poisson",
    "Bolker, Getting started with the glmmTMB package (its vignette), section 2: "
    "summary(glmmTMB(NCalls ~ (FT + ArrivalTime) * SexParent + offset(log(BroodSize)) + "
    "(1 | Nest), ziformula = ~1, family = poisson)). Brooks et al. (2017), The R Journal 9(2), for "
    "the package; Roulin and Bersier (2007), Animal Behaviour 74, for the data",
    {
        "Intercept": (2.53995, 0.35656),
        "b[FoodTreatmentSatiated]": (-0.29111, 0.05961),
        "b[ArrivalTime]": (-0.06808, 0.01427),
        "b[SexParentMale]": (0.44885, 0.45002),
        "b[FoodTreatmentSatiated:SexParentMale]": (0.10473, 0.07286),
        "b[ArrivalTime:SexParentMale]": (-0.02140, 0.01835),
        "Intercept_zi": (-1.05753, 0.09412),
    },
    {"sd_Nest[Intercept]": 0.3597},
    spoilt=exchanged("FoodTreatment", "Deprived", "Satiated"),
    options={"warmup": 600, "draws": 1000},
)
"""Its data are not among those of this folder, so that it is no case of STUDIES."""

CASES = [
    study if study.options == QUICK else pytest.param(study, marks=pytest.mark.slow)
    for study in STUDIES
]


def table_of(study):
    """Return a study's table."""
    return pd.read_csv(DATA / f"{study.data}.csv", dtype=dict.fromkeys(study.labels, str))


def compared(study, table):
    """Fit, and return a row for each quantity: reference, ours, z and the ratio of spreads.

    Quantities that a spoilt study lacks are left out. All others must have converged, so that the
    negative control fails for the intended reason.
    """
    fit = pyflowers.fit(
        study.formula,
        table,
        family=study.family,
        seed=1,
        engine="stanli",
        chains=4,
        cores=1,
        **study.options,
    )
    summary = fit.summary(all=True)
    rows = {}
    for name, (estimate, error) in study.references.items():
        if name in summary.index:
            own = summary.loc[name]
            assert own["r_hat"] < 1.05, name
            assert own["ess_bulk"] > 200, name
            value = own["median"] if np.isnan(error) else own["mean"]
            z = (value - estimate) / np.hypot(own["sd"], own["mcse_mean"])
            rows[name] = estimate, error, value, own["sd"], z, own["sd"] / error
    columns = ["reference", "error", "ours", "sd", "z", "spread"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


@pytest.mark.parametrize("study", CASES, ids=lambda study: study.name)
def test_the_posterior_is_about_the_published_estimates(study):
    found = compared(study, table_of(study))
    assert list(found.index) == list(study.references)
    assert found["z"].abs().max() < WITHIN, found.to_string()
    assert (found["z"] ** 2).mean() < MEAN_SQUARE, found.to_string()
    assert found["spread"].dropna().between(*SPREAD).all(), found.to_string()


@pytest.mark.parametrize("study", CASES, ids=lambda study: study.name)
def test_another_model_or_a_spoilt_column_would_be_seen(study):
    """The negative control."""
    found = compared(replace(study, **study.wrong), study.spoilt(table_of(study)))
    assert found["z"].abs().max() > WITHIN, found.to_string()


@pytest.fixture(scope="module")
def owls(tmp_path_factory):
    """Return the table of glmmTMB, which R reads without loading the package."""
    file = tmp_path_factory.mktemp("owls") / "Owls.csv"
    code = (
        "found <- new.env(); folder <- system.file('data', package = 'glmmTMB'); "
        "lazyLoad(file.path(folder, 'Rdata'), found); "
        "write.csv(found$Owls, commandArgs(TRUE)[1], row.names = FALSE)"
    )
    if shutil.which("Rscript"):
        subprocess.run(["Rscript", "-e", code, file], capture_output=True)
    if not file.exists():
        pytest.skip("the data of Owls are in Debian's package r-cran-glmmtmb; install it")
    table = pd.read_csv(file)
    assert len(table) == 599
    return table


@pytest.mark.slow
def test_owls_are_about_the_published_estimates(owls):
    found = compared(OWLS, owls)
    assert list(found.index) == list(OWLS.references)
    assert found["z"].abs().max() < WITHIN, found.to_string()
    assert (found["z"] ** 2).mean() < MEAN_SQUARE, found.to_string()
    assert found["spread"].dropna().between(*SPREAD).all(), found.to_string()


@pytest.mark.slow
def test_owls_with_exchanged_treatments_would_be_seen(owls):
    """The negative control."""
    found = compared(OWLS, OWLS.spoilt(owls))
    assert found["z"].abs().max() > WITHIN, found.to_string()


@pytest.fixture(scope="module")
def plant_rates():
    """Return draws of the plants' rates from the formula and from multilevel_poisson.

    The priors are comparable: N(1.6, 3²) for mu instead of t(3, 1.6, 2.5) for the intercept, and
    scaled-inv-χ²(1, 0.5²) for the variance, whose median corresponds to an sd of 0.74, instead of a
    half-t(3, 0, 2.5) for the sd, whose median is 1.9.
    """
    table, how = pd.read_csv(FLOWERS), {"seed": 1, "engine": "stanli", "cores": 1}
    own = pyflowers.fit("flowers ~ 1 + (1 | plant)", table, family="poisson", **how)
    priors = {"mu_mean": 1.6, "mu_sd": 3.0, "sigma2_nu": 1.0, "sigma2_scale": 0.5}
    shipped = pyflowers.fit("multilevel_poisson", table, priors=priors, **how)
    rates = np.exp(own.draws["Intercept"][..., None] + own.draws["r_plant"])
    return rates, shipped.draws["mu_plant"]


def distances(rates, others):
    """Return by how many combined sds the means of converged draws differ, plant by plant.

    The plants themselves differ by 1 to 3, so a limit of 4 would test nothing.
    """
    for draws in (rates, others):
        assert r_hat(draws).max() < 1.05
        assert ess_bulk(draws).min() > 200
    errors = [draws.std((0, 1)) for draws in (rates, others)]
    return (rates.mean((0, 1)) - others.mean((0, 1))) / np.hypot(*errors)


def test_plants_have_the_rates_of_the_shipped_program(plant_rates):
    rates, others = plant_rates
    assert np.abs(distances(rates, others)).max() < 0.3
    np.testing.assert_allclose(rates.std((0, 1)), others.std((0, 1)), rtol=0.15)


def test_rates_of_other_plants_would_be_seen(plant_rates):
    """The negative control."""
    rates, others = plant_rates
    assert np.abs(distances(rates, np.roll(others, 1, axis=2))).max() > 1
