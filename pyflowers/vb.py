"""Closed-form mean-field variational Bayes, in NumPy.

The public name of :mod:`pyflowers.closed_form.vb`.
"""

from pyflowers.closed_form.vb import *  # noqa: F403
from pyflowers.closed_form.vb import __all__ as __all__
