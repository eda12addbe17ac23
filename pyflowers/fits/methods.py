"""The functions of the package that take a fit, as its methods: ``fit.check()`` and others.

The functions are in packages that import this one, so this package cannot import them. When a
method is called, it finds its function by name among the public names of ``pyflowers``.
"""

from __future__ import annotations

from importlib import import_module
from types import MethodType
from typing import Any


class Question:
    """A public function whose first argument is a fit, as a method of the fit.

    Attributes
    ----------
    name : str
        The function's name in ``pyflowers``, such as ``check`` or ``plots.trace``.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.__doc__ = f"The function ``pyflowers.{name}``, for this fit."

    def __get__(self, fit: Any, owner: type | None = None) -> Any:
        if fit is None:
            return self
        found: Any = import_module("pyflowers")
        for part in self.name.split("."):
            found = getattr(found, part)
        return MethodType(found, fit)


class Questions:
    """The functions of the package whose first argument is a fit.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> fit.check().passed
    True
    >>> figure = fit.plot_forest()
    """

    check = Question("check")
    contrast = Question("contrast")
    effects = Question("effects")
    explained = Question("explained")
    grid = Question("grid")
    improve = Question("improve")
    k_fold = Question("k_fold")
    loo = Question("loo")
    methods_draft = Question("methods_draft")
    predict = Question("predict")
    report = Question("report")
    sensitivity = Question("sensitivity")
    update = Question("update")

    plot_conditional_effects = Question("plots.conditional_effects")
    plot_density = Question("plots.density_overlay")
    plot_forest = Question("plots.forest")
    plot_pairs = Question("plots.pairs")
    plot_predictive = Question("plots.predictive")
    plot_prior_posterior = Question("plots.prior_posterior")
    plot_ranks = Question("plots.ranks")
    plot_shrinkage = Question("plots.shrinkage")
    plot_trace = Question("plots.trace")
