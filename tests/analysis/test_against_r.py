"""Effects, marginal means and R² against emmeans, marginaleffects, lme4 and rstantools.

The numbers are those of R 4.2.2 with lme4 1.1.31, emmeans 1.8.4 and rstantools 2.2.0, and of
marginaleffects 0.6.0 for Python with statsmodels 0.15; the tests need none of them. In R::

    epil  <- read.csv("examples/epil/epil.csv")
    seeds <- read.csv("examples/seeds/seeds.csv")
    rats  <- read.csv("examples/rats/rats.csv")
    sleep <- read.csv("data/simulated_sleep.csv")
    g <- glm(seizures ~ treated * factor(visit) + base, poisson, epil)
    b <- glm(cbind(germinated, seeds - germinated) ~ aegyptiaco_73 * cucumber, binomial, seeds)
    p <- glmer(cbind(germinated, seeds - germinated) ~ factor(aegyptiaco_73) * factor(cucumber) +
                 (1 | plate), seeds, binomial, nAGQ = 25)
    m <- lmer(weight ~ factor(age) + (1 | rat), rats)
    s <- lmer(Reaction ~ Days + (Days | Subject), sleep)
    e <- emmeans(g, "visit", regrid = "response"); e; pairs(e, reverse = TRUE)
    contrast(emmeans(g, ~ treated * visit, regrid = "response"), interaction = "revpairwise")
    e <- emmeans(p, ~ cucumber, regrid = "response"); e; pairs(e, reverse = TRUE)
    contrast(emmeans(p, ~ aegyptiaco_73 * cucumber, regrid = "response"),
             interaction = "revpairwise")
    e <- emmeans(m, "age", lmer.df = "asymptotic"); e; pairs(e, reverse = TRUE)
    emtrends(s, ~ 1, "Days", lmer.df = "asymptotic")
    # three draws: all coefficients, times each of
    k <- c(1, 0.95, 1.05)
    rstantools::bayes_R2(t(exp(model.matrix(g) %*% outer(coef(g), k))), epil$seizures)
    rstantools::bayes_R2(t(plogis(model.matrix(b) %*% outer(coef(b), k))),
                         seeds$germinated / seeds$seeds)
    l <- lm(weight ~ factor(age), rats)
    rstantools::bayes_R2(t(model.matrix(l) %*% outer(coef(l), k)), rats$weight)

In Python, `visit` being text, with the same model `g`::

    avg_comparisons(g, variables="treated"), avg_comparisons(g, variables="treated", by="visit")
    avg_comparisons(g, variables="treated", by="visit", hypothesis="difference ~ pairwise")
    avg_comparisons(g, variables="treated", comparison="ratioavg")
    avg_slopes(g, variables="base"), avg_comparisons(g, variables={"visit": "pairwise"})
    avg_predictions(g, variables={"visit": [...]}, by="visit")
    # b: germinated / seeds, with seeds as var_weights
    avg_comparisons(b, variables="cucumber", by="aegyptiaco_73")
    avg_comparisons(b, variables="cucumber", comparison="ratioavg")
    avg_comparisons(b, variables="cucumber", comparison="lnoravg")
"""

from dataclasses import replace

import numpy as np
import pytest

import pyflowers

EPIL = {
    "Intercept": 1.3647438634146,
    "treated": -0.2346370970332,
    "visit2": -0.1216071320948,
    "visit3": -0.0711762783806,
    "visit4": -0.1611727323010,
    "base": 0.0217539364519,
    "treated:visit2": 0.1026312306356,
    "treated:visit3": 0.0171090571117,
    "treated:visit4": -0.0847854967795,
}
SEEDS = {
    "Intercept": -0.558171744363,
    "aegyptiaco_73": 0.145926949270,
    "cucumber": 1.318181870152,
    "aegyptiaco_73:cucumber": -0.778103703549,
}
PLATES = {
    "Intercept": -0.5484156064348,
    "aegyptiaco_73": 0.0969326284901,
    "cucumber": 1.3370317262747,
    "aegyptiaco_73:cucumber": -0.8104155217964,
}
RATS = {
    "Intercept": 152.1666666666667,
    "age15": 49.6,
    "age22": 92.8666666666667,
    "age29": 137.3333333333333,
    "age36": 172.6333333333333,
}
CUCUMBER = "germinated | trials(seeds) ~ aegyptiaco_73 * cucumber"
"""The formula of the model of seeds."""

FLAT = {"default_priors": "brms", "seed": 1}
"""Coefficients have flat priors."""


def at_estimates(formula, table, family, estimates, times=(1.0,)):
    """Return a fit whose draws of coefficients are estimates of R, times each of some numbers."""
    how = {"chains": 1, "warmup": 100, "draws": len(times), "engine": "stanli", **FLAT}
    fit = pyflowers.fit(formula, pyflowers.example(table), family=family, **how)
    labels = map(str, fit.posterior["b"].coords["X"].values)
    labels = [each.replace("C(visit)", "visit").replace("C(age)", "age") for each in labels]
    assert sorted(labels) == sorted(estimates.keys() - {"Intercept"})
    times = np.array(times)[None]
    b = np.array([estimates[label] for label in labels])
    draws = {"Intercept": estimates["Intercept"] * times, "b": times[..., None] * b}
    return replace(fit, draws={**fit.draws, **draws})


@pytest.fixture(scope="module")
def epilepsy():
    formula = "seizures ~ treated * C(visit) + base"
    return at_estimates(formula, "epilepsy", "poisson", EPIL, (1.0, 0.95, 1.05))


@pytest.fixture(scope="module")
def seeds():
    return at_estimates(CUCUMBER, "seeds", "binomial", SEEDS, (1.0, 0.95, 1.05))


def first(fit, *columns, **options):
    """Return the effects in the first draw, which is that of the estimates."""
    return np.asarray(pyflowers.effects(fit, *columns, **options).draws())[0, 0]


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=2e-7)


BY_VISIT = (-2.1209984, -1.1105271, -1.8463871, -2.3602113)
APART = (1.0104713, 0.27461129, -0.23921289, -0.73585999, -1.2496842, -0.51382418)


@pytest.mark.parametrize(
    ("columns", "options", "expected"),
    [
        ("treated", {}, [-1.859531]),
        ("treated", {"by": "visit", "differences": True}, [*BY_VISIT, *APART]),
        ("treated", {"scale": "ratio"}, [0.80004022]),
        ("base", {"slopes": True}, [0.17956215]),
        (
            "visit",
            {"pairs": True},
            [-0.59322034, -0.54237288, -1.6440678, 0.050847458, -1.0508475, -1.1016949],
        ),
        ("visit", {"means": True}, [8.9491525, 8.3559322, 8.4067797, 7.3050847]),
    ],
)
def test_effects_on_counts_are_those_of_marginaleffects(epilepsy, columns, options, expected):
    close(first(epilepsy, columns, **options), expected)


def test_a_balanced_grid_is_that_of_emmeans(epilepsy):
    """Both values of a covariate with two, such as treated, have equal weights in emmeans."""
    found = first(epilepsy, "visit", means=True, balanced=True)
    close(found, [6.913366263, 6.413952415, 6.487466057, 5.673039831])
    found = first(epilepsy, "visit", pairs=True, balanced=True)
    expected = [-0.49941384775, -0.42590020600, -1.24032643206]
    close(found, [*expected, 0.07351364175, -0.74091258431, -0.81442622606])
    found = first(epilepsy, "treated", grid="visit = *", differences=True)
    expected = [0.7692787906, 0.2090634784, -0.1821144321]
    close(found[4:], [*expected, -0.5602153122, -0.9513932228, -0.3911779106])


def test_effects_on_shares_are_those_of_marginaleffects(seeds):
    rows = pyflowers.example("seeds").assign(seeds=1)
    close(first(seeds, "cucumber", new=rows), [0.22984038])
    found = first(seeds, "cucumber", new=rows, by="aegyptiaco_73", differences=True)
    close(found, [0.31738534, 0.13354091, -0.18384443])
    close(first(seeds, "cucumber", new=rows, scale="ratio"), [1.6042815])
    close(np.log(first(seeds, "cucumber", new=rows, scale="odds ratio")), [0.93617532])


def test_groups_at_their_mean_are_those_of_emmeans():
    fit = at_estimates(f"{CUCUMBER} + (1 | plate)", "seeds", "binomial", PLATES)
    close(first(fit, "cucumber", means=True, balanced=True), [0.3776201556, 0.6031542916])
    close(first(fit, "cucumber", pairs=True, balanced=True), [0.225534136])
    found = first(fit, "cucumber", grid="aegyptiaco_73 = *", differences=True)
    close(found[-1], -0.191535786)


R2 = {
    "epilepsy": (0.69807664000576, 0.58990749346609, 0.74886898927258),
    "seeds": (0.47303952682814, 0.44523391194483, 0.49871807913287),
    "rats": (0.93885560741964, 0.93029103653348, 0.94220581030371),
}


@pytest.mark.parametrize("name", R2)
def test_r2_of_residuals_is_bayes_r2_of_rstantools_and_brms(name, epilepsy, seeds):
    fits = {"epilepsy": epilepsy, "seeds": seeds}
    if name == "rats":
        fits[name] = at_estimates("weight ~ C(age)", name, "gaussian", RATS, (1.0, 0.95, 1.05))
    (found,) = pyflowers.explained(fits[name]).shares.values()
    np.testing.assert_allclose(found["R2", "residuals"][0], R2[name], rtol=1e-10)


def check_posterior(found, estimates, errors, num_rows):
    """Compare a posterior under flat priors with estimates and standard errors.

    Both differ in the order of 1 / N, and the median of 4,000 draws has an error of a 50th of the
    standard deviation.
    """
    draws = np.asarray(found.draws()).reshape(-1, len(estimates))
    apart = (np.median(draws, axis=0) - estimates) / errors
    assert np.abs(apart).max() < 4 / 50 + 1 / np.sqrt(num_rows), apart
    ratio = draws.std(axis=0) / errors
    assert np.all((ratio > 0.93) & (ratio < 1.15)), ratio


def test_the_posterior_of_effects_on_shares_agrees_with_estimates():
    fit = pyflowers.fit(
        CUCUMBER, pyflowers.example("seeds"), family="binomial", engine="stanli", **FLAT
    )
    means = pyflowers.effects(fit, "cucumber", means=True, balanced=True)
    check_posterior(means, [0.3811722860, 0.6066354129], [0.02645582318, 0.02500895840], 831)
    found = pyflowers.effects(fit, "cucumber", grid="aegyptiaco_73 = *", differences=True)
    errors = [0.0398379, 0.0609457, 0.0728109]
    check_posterior(found, [0.31738534, 0.13354091, -0.18384443], errors, 831)


def test_the_posterior_of_means_in_a_mixed_model_agrees_with_lme4():
    fit = pyflowers.fit(
        "weight ~ C(age) + (1 | rat)", pyflowers.example("rats"), engine="exact", **FLAT
    )
    means = 152.1666667, 201.7666667, 245.0333333, 289.5, 324.8
    found = pyflowers.effects(fit, "age", means=True, groups="none")
    check_posterior(found, means, np.full(5, 2.906465247), 150)
    found = pyflowers.effects(fit, "age", pairs=True)
    apart = [means[j] - means[i] for i in range(5) for j in range(i + 1, 5)]
    check_posterior(found, apart, np.full(10, 1.893550255), 150)


def test_the_posterior_of_a_slope_that_varies_agrees_with_lme4():
    table = pyflowers.example("simulated_sleep")
    fit = pyflowers.fit("Reaction ~ Days + (Days | Subject)", table, engine="exact", **FLAT)
    found = pyflowers.effects(fit, "Days", slopes=True, groups="population")
    check_posterior(found, [10.57053872], [1.719809872], 18)
