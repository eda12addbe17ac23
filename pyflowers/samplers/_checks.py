"""Checks of the arguments of a sampler: each raises one sentence and returns the value."""

import math
from collections.abc import Callable
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from pyflowers.errors import ConfigError
from pyflowers.samplers.densities import FloatArray


def positive(name: str, value: float) -> float:
    """Return `value`, or raise ConfigError unless it is positive and finite."""
    if not (isinstance(value, Real) and math.isfinite(value) and value > 0):
        raise ConfigError(f"{name} must be positive and finite, was {value}")
    return value


def count(name: str, value: int, at_least: int = 1) -> int:
    """Return `value`, or raise ConfigError unless it is a whole number of at least `at_least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < at_least:
        raise ConfigError(f"{name} must be a whole number of at least {at_least}, was {value}")
    return int(value)


def fraction(name: str, value: float) -> float:
    """Return `value`, or raise ConfigError unless it is in [0, 1)."""
    if not (isinstance(value, Real) and 0 <= value < 1):
        raise ConfigError(f"{name} must be at least 0 and less than 1, was {value}")
    return value


def positive_array(name: str, value: ArrayLike) -> FloatArray:
    """Return `value` as floats, or raise ConfigError unless all are positive and finite."""
    array = finite_array(name, value)
    if not np.all(array > 0):
        raise ConfigError(f"{name} must be positive and finite, its smallest was {array.min()}")
    return array


def finite_array(name: str, value: ArrayLike) -> FloatArray:
    """Return `value` as a non-empty array of finite floats, or raise ConfigError."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{name} must be numbers, was {value!r}") from error
    if array.size == 0:
        raise ConfigError(f"{name} must not be empty")
    if not np.all(np.isfinite(array)):
        raise ConfigError(f"{name} must be finite, but holds {array[~np.isfinite(array)][0]}")
    return array


def vector(name: str, value: ArrayLike) -> FloatArray:
    """Return `value` as a non-empty vector of finite floats, or raise ConfigError."""
    array = finite_array(name, value)
    if array.ndim != 1:
        raise ConfigError(f"{name} must be a vector, but its shape was {array.shape}")
    return array


def cholesky(name: str, value: ArrayLike) -> FloatArray:
    """Return the lower-triangular L with L Lᵀ = `value`, or raise ConfigError without one."""
    matrix = finite_array(name, value)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ConfigError(f"{name} must be a square matrix, but its shape was {matrix.shape}")
    if not np.allclose(matrix, matrix.T, rtol=1e-10, atol=0):
        raise ConfigError(f"{name} must be symmetric")
    try:
        return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
    except np.linalg.LinAlgError as error:
        raise ConfigError(f"{name} must be positive definite") from error


def initial_position(position: ArrayLike, target: object = None) -> FloatArray:
    """Return where the chains start, shaped (chain, dim), as a copy, or raise ConfigError.

    A target that says how many coordinates it has, in `dim`, is held to it: NumPy would broadcast.
    """
    start = finite_array("position", position)
    if start.ndim != 2:
        raise ConfigError(
            f"position must be shaped (chain, dim), but its shape was {start.shape}: "
            "give a single chain as one row"
        )
    dim = getattr(target, "dim", start.shape[1])
    if start.shape[1] != dim:
        raise ConfigError(
            f"position must have {dim} coordinates as the target has, but has {start.shape[1]}"
        )
    return start


def mass_fits(velocity: Callable[[FloatArray], FloatArray], position: FloatArray) -> None:
    """Raise ConfigError unless the mass behind `velocity` has as many coordinates as `position`."""
    try:
        shape = np.shape(velocity(position))
    except ValueError:
        shape = ()
    if shape != position.shape:
        raise ConfigError(f"mass must be of {position.shape[1]} coordinates as the position is")


def initial_log_density(log_density: FloatArray, position: FloatArray) -> FloatArray:
    """Return the log density where the chains start, or raise ConfigError if one cannot start."""
    num_chains = len(position)
    if np.shape(log_density) != (num_chains,):
        raise ConfigError(
            f"log_density must return shape ({num_chains},) for {num_chains} chains, but returned "
            f"{np.shape(log_density)}: wrap a target of one point at a time in OneAtATime"
        )
    unusable = np.flatnonzero(~np.isfinite(log_density))
    if unusable.size:
        raise ConfigError(
            f"chain {unusable[0]} starts where the log density is {log_density[unusable[0]]}: "
            "start it inside the target's support"
        )
    return log_density


def initial_gradient(gradient: FloatArray, position: FloatArray) -> FloatArray:
    """Return the gradient where the chains start, or raise ConfigError unless shaped as they."""
    if np.shape(gradient) != position.shape:
        raise ConfigError(
            f"log_density_gradient must return a gradient of shape {position.shape}, "
            f"but returned {np.shape(gradient)}"
        )
    return gradient
