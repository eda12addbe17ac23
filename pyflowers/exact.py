"""Exact posteriors by quadrature, and independent draws from them.

The public name of :mod:`pyflowers.closed_form.exact`.
"""

from pyflowers.closed_form.exact import *  # noqa: F403
from pyflowers.closed_form.exact import __all__ as __all__
