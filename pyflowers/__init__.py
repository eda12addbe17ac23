"""Bayesian multilevel regression with Stan that tells you whether to trust the result.

>>> import pyflowers
>>> fit = pyflowers.fit("multilevel_poisson", seed=1)
>>> list(fit.summary().index)
['mu', 'sigma2', 'mu_plant[1]', 'mu_plant[2]', 'mu_plant[3]']
>>> print(fit.verdict.sentence)
the sampling converged
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the names that are imported lazily below, for type checkers and editors
    from pyflowers.analysis.average_effects import effects as effects
    from pyflowers.analysis.calibration import Calibration as Calibration
    from pyflowers.analysis.calibration import sbc as sbc
    from pyflowers.analysis.checks import check as check
    from pyflowers.analysis.contrasts import contrast as contrast
    from pyflowers.analysis.designs import Design as Design
    from pyflowers.analysis.designs import design as design
    from pyflowers.analysis.elpd import leave_one_group_out as leave_one_group_out
    from pyflowers.analysis.elpd import loo as loo
    from pyflowers.analysis.explained_variance import explained as explained
    from pyflowers.analysis.folds import k_fold as k_fold
    from pyflowers.analysis.grids import grid as grid
    from pyflowers.analysis.methods import compare as compare
    from pyflowers.analysis.model_tables import table as table
    from pyflowers.analysis.predictions import predict as predict
    from pyflowers.analysis.prior_sensitivity import Sensitivity as Sensitivity
    from pyflowers.analysis.prior_sensitivity import sensitivity as sensitivity
    from pyflowers.analysis.priors import PriorPredictive as PriorPredictive
    from pyflowers.analysis.priors import prior as prior
    from pyflowers.batches import Batch as Batch
    from pyflowers.batches import Keep as Keep
    from pyflowers.batches import Task as Task
    from pyflowers.batches import batch as batch
    from pyflowers.data import Table as Table
    from pyflowers.data import example as example
    from pyflowers.data import from_frame as from_frame
    from pyflowers.data import read_table as read_table
    from pyflowers.engines.approximate import approximate as approximate
    from pyflowers.errors import CompileError as CompileError
    from pyflowers.errors import ConfigError as ConfigError
    from pyflowers.errors import DataError as DataError
    from pyflowers.errors import FitError as FitError
    from pyflowers.errors import PyflowersError as PyflowersError
    from pyflowers.errors import ToolchainError as ToolchainError
    from pyflowers.fits.fit import Fit as Fit
    from pyflowers.fits.imputed import PooledFit as PooledFit
    from pyflowers.fits.sampling import fit as fit
    from pyflowers.fits.spec import Spec as Spec
    from pyflowers.fits.updating import update as update
    from pyflowers.fits.verdict import Verdict as Verdict
    from pyflowers.programs import Capabilities as Capabilities
    from pyflowers.programs import ClosedForm as ClosedForm
    from pyflowers.programs import Data as Data
    from pyflowers.programs import PriorModel as PriorModel
    from pyflowers.programs import Program as Program
    from pyflowers.reports import improve as improve
    from pyflowers.reports import methods_draft as methods_draft
    from pyflowers.reports import report as report

_HOMES = {
    "analysis": "check compare contrast design effects explained grid k_fold "
    "leave_one_group_out loo predict prior sbc sensitivity table",
    "batches": "Task batch",
    "data": "example from_frame read_table",
    "engines.approximate": "approximate",
    "errors": "CompileError ConfigError DataError FitError PyflowersError ToolchainError",
    "fits.fit": "Fit",
    "fits.sampling": "fit",
    "fits.spec": "Spec",
    "fits.updating": "update",
    "programs": "Program",
    "reports": "improve methods_draft report",
}
"""The public names, by the module in which they are defined."""

_OTHERS = {
    "analysis": "Calibration Design PriorPredictive Sensitivity",
    "batches": "Batch Keep",
    "data": "Table",
    "fits.imputed": "PooledFit",
    "fits.verdict": "Verdict",
    "programs": "Capabilities ClosedForm Data PriorModel",
}
"""Further public classes, for results and for hand-written programs; ``__all__`` omits them."""

__all__ = sorted(" ".join(_HOMES.values()).split())

_MODULES = ("analysis", "batches", "data", "exact", "plots", "programs", "samplers", "vb")


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import pyflowers`` is fast."""
    for home, names in [*_HOMES.items(), *_OTHERS.items()]:
        if name in names.split():
            return getattr(import_module(f"pyflowers.{home}"), name)
    if name in _MODULES:
        return import_module(f"pyflowers.{name}")
    if name == "__version__":
        from pyflowers.resources import version

        return version("pyflowers")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "__version__"])
