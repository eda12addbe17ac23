"""Stan-backed hierarchical models of repeated counts and measurements.

>>> import pyflowers
>>> fit = pyflowers.fit("multilevel_poisson", seed=1)
>>> list(fit.summary().index)
['mu', 'sigma2', 'mu_plant[1]', 'mu_plant[2]', 'mu_plant[3]']
>>> print(fit.verdict.sentence)
the sampling converged
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyflowers.analysis import (
        Calibration,
        PriorPredictive,
        Sensitivity,
        check,
        compare,
        contrast,
        leave_one_group_out,
        loo,
        predict,
        prior,
        sbc,
        sensitivity,
    )
    from pyflowers.batches import Batch, Keep, Task, batch
    from pyflowers.data import Table, from_frame, read_table
    from pyflowers.engines.approximate import approximate
    from pyflowers.errors import (
        CompileError,
        ConfigError,
        DataError,
        FitError,
        PyflowersError,
        ToolchainError,
    )
    from pyflowers.fits.fit import Fit
    from pyflowers.fits.sampling import fit
    from pyflowers.fits.verdict import Verdict
    from pyflowers.programs import (
        Capabilities,
        ClosedForm,
        Data,
        NewData,
        Pointwise,
        PriorModel,
        Program,
    )
    from pyflowers.reports import report

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
    "batch",
    "check",
    "compare",
    "contrast",
    "fit",
    "from_frame",
    "leave_one_group_out",
    "loo",
    "predict",
    "prior",
    "read_table",
    "report",
    "sbc",
    "sensitivity",
]

_HOMES = {
    "analysis": "Calibration PriorPredictive Sensitivity check compare contrast "
    "leave_one_group_out loo predict prior sbc sensitivity",
    "batches": "Batch Keep Task batch",
    "data": "Table from_frame read_table",
    "engines.approximate": "approximate",
    "errors": "CompileError ConfigError DataError FitError PyflowersError ToolchainError",
    "fits.fit": "Fit",
    "fits.sampling": "fit",
    "fits.verdict": "Verdict",
    "programs": "Capabilities ClosedForm Data NewData Pointwise PriorModel Program",
    "reports": "report",
}
_MODULES = ("exact", "plots", "samplers", "vb")


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import pyflowers`` costs nothing."""
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"pyflowers.{home}"), name)
    if name in _MODULES:
        return import_module(f"pyflowers.{name}")
    if name == "__version__":
        from pyflowers.versions import version

        return version("pyflowers")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "__version__"])
