"""Checks of arguments that several functions share."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from pyflowers.errors import ConfigError


def whole_number(name: str, value: Any, at_least: int = 1, at_most: int | None = None) -> int:
    """Return an argument that must be a whole number.

    Parameters
    ----------
    name : str
        The name of the argument, for the message.
    value : object
        The argument.
    at_least, at_most : int
        The smallest and the largest allowed value.

    Raises
    ------
    ConfigError
        If the argument is anything else, such as a float or a bool.
    """
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if is_whole and value >= at_least and (at_most is None or value <= at_most):
        return int(value)
    if at_most is None:
        limits = f"of at least {at_least}"
    else:
        limits = f"from {at_least} to {at_most}"
    raise ConfigError(f"{name} must be a whole number {limits}, got {value!r}")
