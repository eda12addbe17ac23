"""A column as labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Labels:
    """A column as labels.

    Attributes
    ----------
    column : str
        Its name, as the user wrote it.
    names : tuple of str
        The different labels.
    codes : array of int, shape (N,)
        Position of each row's label in `names`.
    """

    column: str
    names: tuple[str, ...]
    codes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.names)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Rows of each label, shape (len(self),)."""
        return np.bincount(self.codes, minlength=len(self.names))

    @property
    def of_rows(self) -> NDArray[Any]:
        """The label of each row, shape (N,)."""
        return np.asarray(self.names, dtype=object)[self.codes]

    @property
    def are_titles(self) -> bool:
        """Whether a reader knows what they are without the column's name before them.

        This is so if a label begins with that name, as ``Beet 3`` of ``Beet`` does: with the name
        before it, it would read as another label.
        """
        return any(name.casefold().startswith(self.column.casefold()) for name in self.names)
