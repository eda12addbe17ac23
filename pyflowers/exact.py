"""Exact posteriors by quadrature, and independent draws from them.

The public name of :mod:`pyflowers.posterior.exact`.
"""

from pyflowers.posterior.exact import *  # noqa: F403
from pyflowers.posterior.exact import __all__ as __all__
