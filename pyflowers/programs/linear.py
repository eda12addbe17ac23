"""A model that consists of coefficients of columns, group effects and a few other parameters.

The linear predictor of observation n is

    eta[n] = offset[n] + Σ columns[n] · coefficients + Σ columns[n] · effects[label of n]
             + Σ columns[n] · penalised coefficients,

and the response has a distribution of a family, given eta and the family's other parameters. The
parts of a formula's program state this model in NumPy, for methods that integrate coefficients and
effects out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyflowers.programs.densities import PriorDensity
from pyflowers.programs.families import Family

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Parameter:
    """A parameter of the family, or the standard deviations of effects.

    Attributes
    ----------
    name : str
        Its name.
    priors : tuple of PriorDensity
        The prior of each element, without regard to the bounds; one for a scalar.
    role : str
        The family's name for it; empty for standard deviations of effects.
    lower, upper : float
        The bounds of each element.
    is_scalar : bool
        Whether a draw of it is a number, and not a vector.
    is_ordered : bool
        Whether the elements increase.
    """

    name: str
    priors: tuple[PriorDensity, ...]
    role: str = ""
    lower: float = -math.inf
    upper: float = math.inf
    is_scalar: bool = True
    is_ordered: bool = False


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Coefficients of columns.

    Attributes
    ----------
    name : str
        Their name.
    columns : array, shape (row, K)
        The columns.
    priors : tuple of PriorDensity or None, length K
        The prior of each coefficient; None if it is flat.
    is_scalar : bool
        Whether a draw is a number, and not a vector.
    back : array, shape (K, K), or None
        The matrix that turns the coefficients into the quantity of this name; None if they are the
        quantity.
    target : str
        The parameter of the family in whose linear predictor they are; empty for the response.
    """

    name: str
    columns: FloatArray
    priors: tuple[PriorDensity | None, ...]
    is_scalar: bool = False
    back: FloatArray | None = None
    target: str = ""


@dataclass(frozen=True, eq=False)
class Effects:
    """Effects of the labels of a group, normal with mean 0.

    Attributes
    ----------
    name : str
        Their name.
    codes : array of int, shape (row,)
        The label of each row, from 0.
    num_labels : int
        The number of labels.
    columns : array, shape (row, M)
        The columns whose coefficients vary.
    sd : Parameter
        The standard deviations of the M effects.
    is_scalar : bool
        Whether the effects of a label are a single number, and not a vector.
    correlations : str
        The name of the correlations, the upper triangle by row; empty if effects are independent.
    eta : float
        The parameter of the LKJ prior on the correlations.
    back : array, shape (L, L), or None
        The matrix that turns independent effects of the labels into the effects of this name: a
        factor of the known covariance of the labels; None if the labels are independent.
    target : str
        See :class:`Coefficients`.
    """

    name: str
    codes: IntArray
    num_labels: int
    columns: FloatArray
    sd: Parameter
    is_scalar: bool = True
    correlations: str = ""
    eta: float = 1.0
    back: FloatArray | None = None
    target: str = ""

    @property
    def num_effects(self) -> int:
        """The number of effects of a label."""
        return int(self.columns.shape[1])


@dataclass(frozen=True, eq=False)
class Penalised:
    """Coefficients of columns, independent and normal with mean 0 and unknown sds.

    Attributes
    ----------
    name : str
        Their name.
    columns : array, shape (row, K)
        The columns.
    parameters : tuple of Parameter
        The parameters on which their sds depend.
    scales : callable
        Function of the values of these parameters, by name, each shaped (T, element). Returns the
        sds, shape (T, K).
    target : str
        See :class:`Coefficients`.
    """

    name: str
    columns: FloatArray
    parameters: tuple[Parameter, ...]
    scales: Callable[[Mapping[str, FloatArray]], FloatArray]
    target: str = ""


@dataclass(frozen=True, eq=False)
class Offset:
    """A known addition to the linear predictor.

    Attributes
    ----------
    values : array, shape (row,)
        The amount that is added in each row.
    target : str
        See :class:`Coefficients`.
    """

    values: FloatArray
    target: str = ""


@dataclass(frozen=True, eq=False)
class Given:
    """A parameter of the family that is not estimated.

    Attributes
    ----------
    role : str
        The family's name for it.
    value : float
        Its value.
    """

    role: str
    value: float


Stated = Parameter | Coefficients | Effects | Penalised | Offset | Given
"""The records that a part of a formula can add to a :class:`LinearModel`."""


@dataclass(frozen=True, eq=False)
class Predicted:
    """A parameter of the family that has a linear predictor.

    Attributes
    ----------
    offset : array, shape (row,)
        The known part of its linear predictor.
    from_linear : callable
        Function of the linear predictor that returns the parameter.
    """

    offset: FloatArray
    from_linear: Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A linear predictor and the distribution of the response.

    Attributes
    ----------
    family : Family
        The family of the response, whose likelihood includes ``cens()`` and ``trunc()``.
    y : array, shape (N,)
        The observations in the likelihood.
    of_rows : dict of str to array, shape (N,)
        What else their likelihood depends on: ``trials``, and the variables of the terms ``cens()``
        and ``trunc()``.
    rows : array of int, shape (N,)
        The position of each observation's row in the columns of the terms.
    offset : array, shape (row,)
        The known part of the linear predictor of the response.
    coefficients, effects, penalised, parameters : tuple
        The unknown terms, and the unknown parameters of the family.
    given : dict of str to float
        The other parameters of the family, by the family's names for them.
    predicted : dict of str to Predicted
        The parameters of the family that have linear predictors, by the family's names for them.
    se, precision : array, shape (N,), or None
        The values of the terms ``se()`` and ``weights()`` of a normal response. The variance of an
        observation is (sigma² + se²) / precision. If sigma is not estimated, the standard deviation
        is `se`.
    complete : callable
        Function of the draws of everything listed above, by name, each shaped (chain, draw, …).
        Returns the draws that a fit keeps, except for ``lprior``.
    """

    family: Family
    y: FloatArray
    of_rows: Mapping[str, FloatArray]
    rows: IntArray
    offset: FloatArray
    coefficients: tuple[Coefficients, ...]
    effects: tuple[Effects, ...]
    penalised: tuple[Penalised, ...]
    parameters: tuple[Parameter, ...]
    given: Mapping[str, float]
    predicted: Mapping[str, Predicted]
    complete: Callable[[Mapping[str, FloatArray]], dict[str, FloatArray]]
    se: FloatArray | None = None
    precision: FloatArray | None = None


def log_prior(priors: tuple[PriorDensity | None, ...], values: FloatArray) -> FloatArray:
    """Return the log density of the elements on the last axis of `values`; flat priors add 0."""
    total = np.zeros(values.shape[:-1])
    for place, prior in enumerate(priors):
        if prior is not None and prior.log_density is not None:
            total = total + prior.log_density(values[..., place])
    return total
