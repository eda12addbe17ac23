"""What is kept from a fit: functions that turn it into tables, called where the fit was made.

A function of this kind takes a :class:`~pyflowers.fits.fit.Fit` and its options by name, and
returns a DataFrame or a mapping of equally long columns. It is named by its module, which the
workers import; whatever is in that module's file is part of the task's key.

A DataFrame's index is kept as columns before the others, unless it has no name and only counts the
rows from 0. Levels without a name are called as by ``reset_index``: ``index``, or ``level_0``,
``level_1``, … of several. No column may be called ``task``, ``verdict`` or ``key``, as the batch's
own are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module, reload
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.batches.keys import digest_of
from pyflowers.digests import sha256_file
from pyflowers.errors import ConfigError, FitError
from pyflowers.fits.fit import Fit

Columns = dict[str, NDArray[Any]]
"""A table: columns of equal length, of numbers, truth values or texts."""

BUILT_IN = {name: f"pyflowers.batches.kept:{name}" for name in ("summary", "draws", "ranks")}
"""What can be kept by a short name."""

OWN_COLUMNS = ("task", "verdict", "key")
"""What the batch itself calls columns of a table."""

LARGEST = 2**63 - 1
"""Whole numbers are kept in 64 bits, one of them for the sign."""


@dataclass(frozen=True)
class Keep:
    """Something to keep from a fit.

    Attributes
    ----------
    function : str
        ``module:function``, or one of :data:`BUILT_IN`.
    options : mapping
        What the function takes besides the fit.
    name : str
        The table's name; the function's by default.
    code : str
        Digest of the function's file as it was when :meth:`of` took it; nobody else gives it.
    """

    function: str
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    code: str = ""

    @classmethod
    def of(cls, given: str | Callable[..., Any] | Keep) -> Keep:
        """Accept what a user may write: ``summary``, ``draws:mu,sigma2``, a function, a `Keep`.

        Raises
        ------
        ConfigError
            If the workers could not import it.
        """
        if isinstance(given, str):
            name, colon, rest = given.partition(":")
            if name in BUILT_IN:
                chosen = {"names": rest.split(",")} if colon else {}
                return cls.of(cls(name, chosen))
            return cls.of(cls(given))
        if not isinstance(given, Keep):
            return cls.of(cls(_reference(given)))
        reference = BUILT_IN.get(given.function, given.function)
        function_of(reference)
        table = given.name or reference.rpartition(":")[2]
        if not table.isidentifier():
            raise ConfigError(f"keep {table!r}: a table's name is letters, digits and underscores")
        return cls(reference, dict(given.options), table, _code_of(_module(reference)))

    @property
    def digest(self) -> str:
        """Digest of the function's file, its name and its options."""
        module, _, function = self.function.partition(":")
        return digest_of([self.code, module, function, self.options, self.name])

    def table_of(self, fit: Fit) -> Columns:
        """Return the table of one fit.

        Raises
        ------
        FitError
            If the function's file is not the one that was planned with, or the function fails or
            returns no table.
        """
        try:
            self._provide()
            return _columns(function_of(self.function)(fit, **self.options))
        except (MemoryError, _OtherFileError):
            raise
        except Exception as error:
            reason = str(error) or "no message"
            raise FitError(f"keep {self.name}: {type(error).__name__}: {reason}") from error

    def _provide(self) -> None:
        """Import the module that was planned with: again, if this process has an older one."""
        name = _module(self.function)
        module = import_module(name)
        try:
            now = _code_of(name)
        except ConfigError:  # in an archive, as Dask's upload_file may have put it there
            return
        if not self.code or _imported.setdefault(name, now) == self.code:
            return
        if now != self.code:
            raise _OtherFileError(
                f"keep {self.name}: the file of {name} was edited since the task was planned, or "
                "is another one on this machine; have the same on all machines, then run the "
                "batch again and retry what failed"
            )
        reload(module)
        _imported[name] = now


def function_of(reference: str) -> Callable[..., Any]:
    """Import a function by ``module:function``.

    Raises
    ------
    ConfigError
        If there is none.
    """
    module, colon, name = reference.partition(":")
    try:
        found = getattr(import_module(module), name) if colon else None
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"keep {reference}: it cannot be imported ({error}); put the function into a module "
            "that is installed, beside your script or in the folder where pyflowers is started"
        ) from error
    if not callable(found):
        short = ", ".join(BUILT_IN)
        raise ConfigError(f"keep {reference}: it must be one of {short}, or module:function")
    return found  # type: ignore[no-any-return]


def _reference(function: Any) -> str:
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if not module or module == "__main__" or not name.isidentifier():
        raise ConfigError(
            f"keep {name or function!r}: the workers cannot import it; move it to the top level of "
            "a module of its own"
        )
    return f"{module}:{name}"


def _module(reference: str) -> str:
    return reference.partition(":")[0]


def _code_of(module: str) -> str:
    """Return a digest of a module's file as it is now, which a notebook's user may have edited."""
    file = getattr(import_module(module), "__file__", None)
    if not file:
        return ""
    try:
        found = Path(file).stat()
        return _digest(file, found.st_mtime_ns, found.st_size)
    except OSError as error:
        raise ConfigError(
            f"keep {module}: its file {file} cannot be read ({error.strerror}); put it back, or "
            "start Python anew"
        ) from error


@lru_cache(maxsize=256)
def _digest(file: str, _mtime_ns: int, _size: int) -> str:
    return sha256_file(Path(file))


_imported: dict[str, str] = {}
"""Digest of each module's file as this process has imported it."""


class _OtherFileError(FitError):
    """A function's file is not the one that its task was planned with."""


def _columns(table: Any) -> Columns:
    """Return a table's columns, a DataFrame's index among them, single values repeated."""
    if isinstance(table, pd.DataFrame):
        whole = _with_index(table)
        given = [(str(name), whole.iloc[:, i].to_numpy()) for i, name in enumerate(whole)]
    elif isinstance(table, Mapping):
        given = [(str(name), values) for name, values in table.items()]
    else:
        raise TypeError(f"it returned a {type(table).__name__}; return a DataFrame or a mapping")
    _check_names([name for name, _ in given])
    arrays = {name: _array(name, values) for name, values in given}
    lengths = {len(values) for values in arrays.values() if values.ndim}
    if len(lengths) > 1:
        raise ValueError(f"its columns have {sorted(lengths)} rows; make them equally long")
    rows = lengths.pop() if lengths else 1
    return {name: np.broadcast_to(v, (rows,)).copy() for name, v in arrays.items()}


def _with_index(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its index as columns, unless it only counts the rows."""
    index = table.index
    is_count = index.nlevels == 1 and index.name is None and index.dtype.kind == "i"
    if is_count and index.equals(pd.RangeIndex(len(index))):
        return table
    plain = table.set_axis([str(name) for name in table.columns], axis=1)
    return plain.reset_index(allow_duplicates=True)


def _check_names(names: Sequence[str]) -> None:
    for name, times in Counter(names).items():
        if name in OWN_COLUMNS:
            raise ValueError(f"its column {name} is called as one of the batch's own; rename it")
        if times > 1:
            raise ValueError(f"{times} of its columns, or of its index, are {name}; rename them")
        if "\0" in name:
            raise ValueError(f"its column {name!r} has a NUL character in its name; rename it")


def _array(name: str, values: Any) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim > 1:
        raise ValueError(f"its column {name} has {array.ndim} dimensions; give it one")
    if array.dtype.kind == "u" and array.max(initial=0) > LARGEST:
        raise ValueError(
            f"its column {name} has a number above {LARGEST}; give it as text or float"
        )
    if array.dtype.kind in "biuf":
        return array.astype({"f": "f8", "b": "?"}.get(array.dtype.kind, "i8"))
    texts = [str(each) for each in np.atleast_1d(array)]
    if any("\0" in text for text in texts):
        raise ValueError(f"its column {name} has a text with a NUL character; remove it")
    return np.array(texts, dtype=object).reshape(array.shape)


def keeps(given: Sequence[str | Callable[..., Any] | Keep]) -> tuple[Keep, ...]:
    """Take all that is to be kept of a task.

    Raises
    ------
    ConfigError
        If one cannot be imported, or two have the same name.
    """
    found = tuple(Keep.of(each) for each in given)
    names = [each.name for each in found]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"keep {name}: two tables have this name; give one Keep(name=…)")
    return found
