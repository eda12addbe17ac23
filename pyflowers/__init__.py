"""Stan-backed hierarchical models of repeated counts and measurements.

>>> import pyflowers
>>> fit = pyflowers.fit("multilevel_poisson", "data/flowers.csv", seed=1)
>>> print(fit.summary())
>>> print(fit.diagnostics)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyflowers.data import FlowerData, from_frame, read_data
    from pyflowers.diagnostics import Verdict
    from pyflowers.errors import (
        CompileError,
        ConfigError,
        DataError,
        FitError,
        PyflowersError,
        ToolchainError,
    )
    from pyflowers.fitting import Fit, fit
    from pyflowers.models import MODELS, Model, get_model

__all__ = [
    "MODELS",
    "CompileError",
    "ConfigError",
    "DataError",
    "Fit",
    "FitError",
    "FlowerData",
    "Model",
    "PyflowersError",
    "ToolchainError",
    "Verdict",
    "fit",
    "from_frame",
    "get_model",
    "read_data",
]

_HOMES = {
    "pyflowers.data": ("FlowerData", "from_frame", "read_data"),
    "pyflowers.diagnostics": ("Verdict",),
    "pyflowers.errors": (
        *("CompileError", "ConfigError", "DataError", "FitError"),
        *("PyflowersError", "ToolchainError"),
    ),
    "pyflowers.fitting": ("Fit", "fit"),
    "pyflowers.models": ("MODELS", "Model", "get_model"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import pyflowers`` costs nothing."""
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
