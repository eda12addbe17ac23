"""Columns of draws as the variables that a program declares, shaped as CmdStanPy shapes them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BRACKETS = re.compile(r"\[([\d,]+)\]")


def variables_of(
    names: Sequence[str], draws: NDArray[np.float64], keep: Collection[str] | None
) -> dict[str, NDArray[Any]]:
    """Return the variables of draws.

    Parameters
    ----------
    names : sequence of str, length K
        The columns, such as ``theta[1,2]``.
    draws : array, shape (chain, draw, K)
    keep : collection of str, optional
        Which variables; all by default.
    """
    import stanio

    # Stan's CSV writes theta.1.2, which is what stanio reads.
    header = ",".join(_BRACKETS.sub(lambda m: "." + m[1].replace(",", "."), n) for n in names)
    if not header:
        return {}
    return {
        name: np.ascontiguousarray(variable.extract_reshape(draws))
        for name, variable in stanio.parse_header(header).items()
        if keep is None or name in keep
    }
