"""Stan-backed hierarchical models of repeated counts and measurements.

>>> import pyflowers
>>> fit = pyflowers.fit("multilevel_poisson", seed=1)
>>> list(fit.summary().index)
['mu', 'sigma2', 'mu_plant[1]', 'mu_plant[2]', 'mu_plant[3]']
>>> print(fit.diagnostics)
all 6 diagnostics pass: the draws can be trusted
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyflowers.calibration import Calibration, calibrate
    from pyflowers.checks import check, contrast, predict
    from pyflowers.compare import compare_methods, compare_models, leave_one_group_out
    from pyflowers.engines.approximate import approximate
    from pyflowers.errors import (
        CompileError,
        ConfigError,
        DataError,
        FitError,
        PyflowersError,
        ToolchainError,
    )
    from pyflowers.fits.diagnostics import Verdict
    from pyflowers.fits.fit import Fit
    from pyflowers.fits.sampling import fit
    from pyflowers.many import Batch, Keep, Task, run_many
    from pyflowers.priors import PriorPredictive, Sensitivity, prior_predictive, prior_sensitivity
    from pyflowers.programs import (
        Capabilities,
        ClosedForm,
        Data,
        NewData,
        Pointwise,
        PriorModel,
        Program,
    )
    from pyflowers.table import Table, from_frame, read_table

__all__ = [
    "Batch",
    "Calibration",
    "Capabilities",
    "ClosedForm",
    "CompileError",
    "ConfigError",
    "Data",
    "DataError",
    "Fit",
    "FitError",
    "Keep",
    "NewData",
    "Pointwise",
    "PriorModel",
    "PriorPredictive",
    "Program",
    "PyflowersError",
    "Sensitivity",
    "Table",
    "Task",
    "ToolchainError",
    "Verdict",
    "approximate",
    "calibrate",
    "check",
    "compare_methods",
    "compare_models",
    "contrast",
    "fit",
    "from_frame",
    "leave_one_group_out",
    "predict",
    "prior_predictive",
    "prior_sensitivity",
    "read_table",
    "run_many",
]

_HOMES = {
    "pyflowers.calibration": ("Calibration", "calibrate"),
    "pyflowers.checks": ("check", "contrast", "predict"),
    "pyflowers.compare": ("compare_methods", "compare_models", "leave_one_group_out"),
    "pyflowers.engines.approximate": ("approximate",),
    "pyflowers.errors": (
        *("CompileError", "ConfigError", "DataError", "FitError"),
        *("PyflowersError", "ToolchainError"),
    ),
    "pyflowers.fits.diagnostics": ("Verdict",),
    "pyflowers.fits.fit": ("Fit",),
    "pyflowers.fits.sampling": ("fit",),
    "pyflowers.many": ("Batch", "Keep", "Task", "run_many"),
    "pyflowers.priors": (
        *("PriorPredictive", "Sensitivity", "prior_predictive", "prior_sensitivity"),
    ),
    "pyflowers.programs": (
        *("Capabilities", "ClosedForm", "Data", "NewData", "Pointwise", "PriorModel", "Program"),
    ),
    "pyflowers.table": ("Table", "from_frame", "read_table"),
}
_MODULES = {
    "checks": "pyflowers.checks",
    "compare": "pyflowers.compare",
    "exact": "pyflowers.closed_form.exact",
    "plots": "pyflowers.plots",
    "report": "pyflowers.report",
    "samplers": "pyflowers.samplers",
    "vb": "pyflowers.closed_form.vb",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import pyflowers`` costs nothing."""
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name == "__version__":
        from pyflowers.versions import version

        return version("pyflowers")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "__version__"])
