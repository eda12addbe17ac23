"""Closed-form mean-field variational Bayes, in NumPy.

The public name of :mod:`pyflowers.posterior.vb`.
"""

from pyflowers.posterior.vb import *  # noqa: F403
from pyflowers.posterior.vb import __all__ as __all__
