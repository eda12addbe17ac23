"""The two sets of default priors for formulas: those of pyflowers and those of brms.

References
----------
Bürkner (2017), brms: An R package for Bayesian multilevel models using Stan, Journal of Statistical
Software 80(1), for the priors on the scale of the data. Gabry and Goodrich, rstanarm's vignette on
prior distributions, for the prior on coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.errors import ConfigError
from pyflowers.programs.densities import prior_density
from pyflowers.programs.design import origins_of
from pyflowers.programs.families import Auxiliary, Family, find_family
from pyflowers.programs.formulas.coefficients import WIDTH, CoefficientPrior, coefficient_prior
from pyflowers.programs.formulas.model import Effects, Model
from pyflowers.programs.terms import read_terms

FloatArray = NDArray[np.float64]

LEAST_SCALE = 2.5
"""The smallest scale of the priors, and their scale if the linear predictor has no unit."""

ON_LINK = 1.0
"""The prior sd of a standardised column's coefficient in the linear predictor of another parameter
of a family, such as sigma, and the scale of the prior on the sds of group effects there.

The linear predictor is the log or the log odds of the parameter.
"""


@dataclass(frozen=True)
class DefaultPriors:
    """A set of default priors.

    Attributes
    ----------
    name : str
        Its name in the declaration; empty for the priors of pyflowers.
    note : str
        A sentence for the program's header; empty if there is none.
    location : callable
        Function of a model that returns the location of the intercept's prior.
    scale : callable
        Function of a model that returns the scale of the priors.
    auxiliary : callable
        Function of a family that returns its other parameters, with their priors.
    intercept : callable
        Function of a model and another parameter of its family that returns the location and the
        scale of the prior on the intercept in the parameter's linear predictor.
    intercepts : mapping of str to str
        The prior on the intercept, by parameter, for parameters whose intercept does not have a t
        prior.
    scale_of_parameters : float
        The scale of the priors on the sds of group effects on other parameters.
    is_flat : bool
        Whether the coefficients of the population have no prior.
    has_units : bool
        Whether the priors on the sds of group effects are in the units of the effects' columns.
    correlations : float
        The parameter of the LKJ prior on the correlations of group effects.
    """

    name: str
    note: str
    location: Callable[[Model], float]
    scale: Callable[[Model], float]
    auxiliary: Callable[[Family], tuple[Auxiliary, ...]]
    intercept: Callable[[Model, Auxiliary], tuple[float, float]]
    intercepts: Mapping[str, str]
    scale_of_parameters: float
    is_flat: bool
    has_units: bool
    correlations: float


def find_default_priors(name: str | None) -> DefaultPriors:
    """Return the set of default priors with a given name.

    Raises
    ------
    ConfigError
        If there is no such set.
    """
    if not name:
        return PYFLOWERS
    if name == BRMS.name:
        return BRMS
    raise ConfigError(
        f"default priors must be 'brms', got {name!r}; leave the option out to use the default "
        "priors of pyflowers"
    )


def coefficients(
    model: Model, priors: DefaultPriors, given: Sequence[int] = ()
) -> CoefficientPrior | None:
    """Return the prior of the population's coefficients; None if there is none.

    The coefficients at the positions `given` have priors of their own, and are linked to no others.
    """
    if priors.is_flat or not model.population:
        return None
    cells = {name: model.cells[name] for name in read_terms(model.population).columns}
    origins = origins_of(model.population, cells)
    design = model.population_design[0]
    others = [i for i in range(design.shape[1]) if i not in given]
    found = coefficient_prior(
        design[:, others],
        [origins[i] for i in others],
        _unit(model, priors),
        about_mean=model.has_intercept,
    )
    if found.adjustment is None or not given:
        return found
    adjustment = np.eye(design.shape[1])
    adjustment[np.ix_(others, others)] = found.adjustment
    return replace(found, adjustment=adjustment)


def scale_of_column(model: Model, column: FloatArray, priors: DefaultPriors) -> float | None:
    """Return the sd of the prior on the coefficient of a single column; None if it is flat."""
    if priors.is_flat:
        return None
    return rounded(WIDTH * _unit(model, priors) / (_spread(column, model.has_intercept) or 1.0))


def _unit(model: Model, priors: DefaultPriors) -> float:
    """Return the scale of the response, in which the priors of coefficients are stated."""
    # Without an intercept, coefficients also determine the mean; spreads are measured from 0.
    about_mean, spread = model.has_intercept, 1.0
    if not model.predicts_response:
        assert model.parameter is not None
        # Without an intercept, the levels' coefficients are as far from 0 as an intercept would be.
        location, _ = priors.intercept(model, model.parameter)
        spread = ON_LINK / WIDTH if about_mean else float(np.hypot(1.0, location / WIDTH))
    elif model.family.scale == "y":
        spread = _spread(model.y, about_mean)
    elif model.family.scale == "linked":
        spread = _deviation(model.linked) or _spread(model.linked, about_mean)
    elif model.family.scale == "log" and not about_mean:
        spread = max(1.0, _spread(model.linked, about_mean))
    return spread or 1.0


def scales_of_sds(
    model: Model, its: Effects, priors: DefaultPriors, scale: float
) -> tuple[float, ...]:
    """Return the scale of the prior on the sd of each effect of a term; empty if they are equal.

    The scales are in units of the columns. Columns of 0 and 1 stand for differences between levels,
    which have the response's unit.
    """
    if its.is_intercept or not priors.has_units:
        return ()
    found = []
    for column in model.design(its.terms)[0].T:
        unit = 1.0
        if not np.isin(column, (0.0, 1.0)).all():
            unit = _spread(column, "Intercept" in its.effects)
        found.append(rounded(scale / (unit or 1.0)))
    return tuple(found)


def auxiliary_parameters(
    family: Family, priors: DefaultPriors, model: Model
) -> tuple[Auxiliary, ...]:
    """Return a family's other parameters; scales that it leaves open come from `model`."""
    # A residual sd is on the scale of the response, whatever the link.
    scale = priors.scale(replace(model, family=find_family(family.name)))
    return tuple(
        replace(each, values=_values(model, each, scale)) for each in priors.auxiliary(family)
    )


def _values(model: Model, each: Auxiliary, scale: float) -> dict[str, float]:
    """Return the hyperparameters of a parameter, with `scale` for those that it leaves open."""
    values = {key: scale if value is None else value for key, value in each.values.items()}
    if each.times_y:
        unit = float(np.median(np.abs(model.y))) or 1.0
        values[each.times_y] = rounded(values[each.times_y] * unit)
    return values


def rounded(value: float) -> float:
    """Return a number rounded to three significant digits, for a declaration."""
    return float(f"{value:.3g}")


def _spread(values: FloatArray, about_mean: bool) -> float:
    """Return the standard deviation of values, or their root mean square; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    if about_mean:
        return float(np.std(values, ddof=1))
    return float(np.sqrt(np.mean(values**2)))


def _deviation(values: FloatArray) -> float:
    """Return 1.4826 times the median absolute deviation, an estimate of the sd of normal values."""
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))


def _location(model: Model) -> float:
    """Return the median of the linked response."""
    if model.family.scale == "fixed":
        return 0.0
    median = float(np.median(model.linked))
    # The scale is at least 2.5, so rounding the location to a whole number does no harm.
    return rounded(median) if abs(median) < 1000 else round(median)


def _scale(model: Model) -> float:
    """Return the deviation of the linked response, or 2.5 if that is larger.

    The deviation is the standard deviation if more than half of the values are equal.
    """
    if model.family.scale == "fixed":
        return LEAST_SCALE
    deviation = _deviation(model.linked) or float(np.std(model.linked))
    return max(LEAST_SCALE, rounded(deviation))


def _linked_in_brms(model: Model) -> FloatArray:
    """Return the linked response from which brms computes its priors, with the offset."""
    if model.family.scale == "linked":
        return model.linked + model.offset
    if model.family.scale != "log":
        return model.y
    return np.log(np.where(model.y == 0, 0.1, model.y))


def _location_in_brms(model: Model) -> float:
    """Return the median of the linked response in brms, minus the mean offset."""
    if model.family.scale == "fixed":
        return 0.0
    median = round(float(np.median(_linked_in_brms(model))), 1)
    return median - float(model.offset.mean())


def _scale_in_brms(model: Model) -> float:
    """Return the deviation of the linked response in brms, or 2.5 if that is larger."""
    if model.family.scale == "fixed":
        return LEAST_SCALE
    return max(LEAST_SCALE, round(_deviation(_linked_in_brms(model)), 1))


def _intercept(model: Model, about: Auxiliary) -> tuple[float, float]:
    """Return the location and the scale of the prior on the intercept of a parameter such as sigma.

    The location is the median, on the scale of the link, of the prior that the parameter has
    without terms. If the family leaves the scale of that prior open, it is taken from the data.
    """
    deviation = _deviation(model.linked) or float(np.std(model.linked)) or 1.0
    values = _values(model, about, deviation)
    prior = prior_density(about.prior.format(**values), {}, about.bounds[0])
    assert prior.quantile is not None  # the families' priors are proper
    assert about.link is not None
    location = about.link.to_linear(prior.quantile(0.5))
    return round(location, 2) + 0.0, _SCALES.get(about.declared, LEAST_SCALE)


_SCALES = {"real<lower=0, upper=1>": 1.5, "real<lower=1>": 1.0}
"""The scales of the priors on the intercepts of log odds and of the log of degrees of freedom. The
first makes the prior nearly flat on the probability scale. The second is small, because the
response hardly changes above 100 degrees of freedom."""


def _intercept_in_brms(model: Model, about: Auxiliary) -> tuple[float, float]:
    """Return the location and the scale of the prior of brms on the log of a parameter."""
    return 0.0, LEAST_SCALE


def _auxiliary(family: Family) -> tuple[Auxiliary, ...]:
    """Return the parameters of a family with the priors that the family states."""
    return family.auxiliary


def _auxiliary_in_brms(family: Family) -> tuple[Auxiliary, ...]:
    """Return the parameters of a family with the priors of brms, which are vague for some."""
    vague = {
        "phi": VAGUE,
        "shape": VAGUE,
        "kappa": {**VAGUE, "values": {"alpha": 2.0, "beta": 0.01}},
        "beta": {**VAGUE, "values": {"alpha": 1.0, "beta": 0.1}},
    }
    if family.is_discrete:
        del vague["shape"]
    return tuple(replace(each, **vague.get(each.name, {})) for each in family.auxiliary)


VAGUE: dict[str, Any] = {
    "prior": "gamma({alpha}, {beta})",
    "values": {"alpha": 0.01, "beta": 0.01},
}
"""The prior of brms on shapes and precisions."""

PYFLOWERS = DefaultPriors(
    name="",
    note="",
    location=_location,
    scale=_scale,
    auxiliary=_auxiliary,
    intercept=_intercept,
    intercepts={},
    scale_of_parameters=ON_LINK,
    is_flat=False,
    has_units=True,
    correlations=2.0,
)
BRMS = DefaultPriors(
    name="brms",
    note="The priors are the defaults of brms: flat on b, and LKJ(1) on correlations.",
    location=_location_in_brms,
    scale=_scale_in_brms,
    auxiliary=_auxiliary_in_brms,
    intercept=_intercept_in_brms,
    intercepts={"zi": "logistic(0, 1)", "hu": "logistic(0, 1)", "nu": "normal(2.7, 0.8)"},
    scale_of_parameters=LEAST_SCALE,
    is_flat=True,
    has_units=False,
    correlations=1.0,
)
