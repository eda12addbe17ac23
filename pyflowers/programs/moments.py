"""Which moments of a heavy-tailed posterior exist, from its degrees of freedom."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyflowers.programs.capabilities import MissingMoment


def inv_chi2_moments(parameter: str, dof: Any) -> list[MissingMoment]:
    """Return the moments that a variance lacks whose posterior falls like x^−(dof/2 + 1).

    The k-th moment exists if and only if dof > 2k (BDA3 table A.1, scaled-inv-χ²).

    Parameters
    ----------
    parameter : str
        The variance.
    dof : float or array
        Degrees of freedom, of each element where they differ.
    """
    return _missing(parameter, np.asarray(dof, dtype=float), 2)


def t_moments(parameter: str, dof: Any) -> list[MissingMoment]:
    """Return the moments that a location lacks whose posterior falls like |x|^−(dof + 1).

    The k-th moment exists if and only if dof > k (BDA3 table A.1, t).
    """
    return _missing(parameter, np.asarray(dof, dtype=float), 1)


def _missing(parameter: str, dof: Any, each: int) -> list[MissingMoment]:
    """Say which of mean and variance need more than `dof` degrees of freedom, `each` a moment."""
    found = []
    for lacks_mean, where, limit in (
        (True, dof <= each, each),
        (False, (dof > each) & (dof <= 2 * each), 2 * each),
    ):
        if not np.any(where):
            continue
        what = "mean does not exist" if lacks_mean else "variance is infinite"
        fewest, most = np.min(dof[where]), np.max(dof[where])
        number = f"{fewest:g}" if fewest == most else f"{fewest:g} to {most:g}"
        reason = f"its posterior {what} ({number} ≤ {limit} degrees of freedom)"
        found.append(MissingMoment(parameter, lacks_mean, reason, where if dof.ndim else None))
    return found
