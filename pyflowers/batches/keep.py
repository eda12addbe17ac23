"""Tables that are kept from a fit, and the functions that compute them in the worker.

Such a function takes a :class:`~pyflowers.fits.fit.Fit` and, as keyword arguments, its own options.
It returns a DataFrame or a mapping of equally long columns. It is named ``module:function``. The
workers import the module, and the contents of the module's file are part of the task's key.

A DataFrame's index becomes the first columns, unless it has no name and only counts the rows from
0. Unnamed levels get the names of ``reset_index``: ``index``, or ``level_0``, ``level_1``, … if
there are several. The names ``task``, ``verdict`` and ``key`` are reserved for the batch's columns.
"""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import reload
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.digests import digest_of, sha256_file
from pyflowers.errors import ConfigError, FitError, PyflowersError
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import element_names, flat, name_in, stacked
from pyflowers.programs.declaration import free_name
from pyflowers.records import storable_text
from pyflowers.resources import importable, imported, late_import

BUILT_IN = {name: f"pyflowers.batches.keep:{name}" for name in ("summary", "draws", "ranks")}
"""The full names of the functions that have a short name."""

OWN_COLUMNS = ("task", "verdict", "key")
"""Names of columns that are reserved for the batch."""

LARGEST = 2**63 - 1
"""The largest integer that can be kept: 64 bits, one of them for the sign."""


@dataclass(frozen=True)
class Keep:
    """A table to keep from each fit of a batch, and the function that computes it.

    Attributes
    ----------
    function : str
        ``summary``, ``draws`` or ``ranks``, or ``module:function``: a function of the fit that the
        workers can import, which returns a DataFrame or a mapping of equally long columns.
    options : mapping
        Further arguments of the function, by name.
    name : str
        The table's name. Default: the function's name.
    code : str
        Digest of the function's file, which :meth:`of` sets; empty for built-in functions.

    See Also
    --------
    pyflowers.Task : A fit in a batch, with the tables to keep.

    Examples
    --------
    >>> import pyflowers
    >>> wide = pyflowers.Keep("summary", {"interval": 0.99}, name="wide")
    >>> task = pyflowers.Task("iid_normal", name="flowers", keep=["draws:mu", wide])
    >>> batch = pyflowers.batch([task], out="results/kept", seed=1, engine="exact")
    >>> list(batch.table("wide").columns[:6])
    ['task', 'verdict', 'parameter', 'median', '0.5%', '99.5%']

    A batch turns text into a ``Keep``, and a worker sends the table as bytes:

    >>> keep = pyflowers.Keep.of("draws:mu,sigma2")
    >>> keep.name, keep.options
    ('draws', {'names': ['mu', 'sigma2']})
    >>> fit = pyflowers.fit("iid_normal", seed=1, engine="exact")
    >>> type(keep.table_of(fit))
    <class 'bytes'>
    """

    function: str
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    code: str = ""

    @classmethod
    def of(cls, given: str | Callable[..., Any] | Keep) -> Keep:
        """Return the table to keep that is given as text, as a function or as a `Keep`.

        Parameters
        ----------
        given : str, function or Keep
            ``summary``, ``draws:mu,sigma2``, ``module:function``, a function at the top level of a
            module, or a `Keep`.

        Returns
        -------
        Keep
            The same table, with its name, the function's full name and the digest of the
            function's file.

        Raises
        ------
        ConfigError
            If the function cannot be imported, if the file of its module cannot be read, or if the
            table's name begins with a digit or contains anything but letters, digits and
            underscores.
        """
        if isinstance(given, str):
            name, colon, names = given.partition(":")
            has_names = name in BUILT_IN and colon
            if has_names:
                given = cls(name, {"names": names.split(",")})
            else:
                given = cls(given)
        elif not isinstance(given, Keep):
            module = getattr(given, "__module__", None)
            name = getattr(given, "__qualname__", "")
            if not module or module == "__main__" or not name.isidentifier():
                raise ConfigError(
                    f"keep {name or given!r} cannot be imported by the workers; move it to the "
                    "top level of a separate module"
                )
            given = cls(f"{module}:{name}")
        reference = BUILT_IN.get(given.function, given.function)
        function_of(reference)
        module, _, name = reference.partition(":")
        table = given.name or name
        if not table.isidentifier():
            raise ConfigError(
                f"keep {table!r}: the name of a table may contain only letters, digits and "
                "underscores, and must not begin with a digit; rename it"
            )
        return cls(reference, dict(given.options), table, _code_of(module))

    @property
    def digest(self) -> str:
        """Digest of the function's file and name, its options, and the table's name."""
        return digest_of([self.code, self.function, self.options, self.name])

    def table_of(self, fit: Fit) -> bytes:
        """Return the table of one fit, packed in NumPy's file format.

        Parameters
        ----------
        fit : Fit
            The fit.

        Returns
        -------
        bytes
            The packed table; empty for a table without columns.

        Raises
        ------
        ConfigError
            If the function cannot be imported.
        FitError
            If the function's file has changed since the task was planned, or the function fails or
            returns no table.
        """
        function = None
        try:
            function = self._function()
            return packed(function(fit, **self.options))
        except MemoryError:
            raise
        except Exception as error:
            if function is None and isinstance(error, PyflowersError):
                raise
            reason = str(error) or "no message"
            raise FitError(
                f"keep {self.name}: {type(error).__name__}: {reason}{late_import(error)}"
            ) from error

    def _function(self) -> Callable[..., Any]:
        """Import the planned version of the function; reload it if an older one may be loaded."""
        module = self.function.partition(":")[0]
        if self.code and _imported.get(module) != self.code:
            was_here = module in sys.modules
            function_of(self.function)
            # The file may be in an archive that Dask's upload_file has sent. If so, it cannot be
            # read.
            with suppress(ConfigError):
                if _code_of(module) != self.code:
                    raise FitError(
                        f"keep {self.name}: the file of {module} was edited after the task was "
                        "planned, or differs on this machine; put the same file on all machines, "
                        "then run the batch again and retry the failed tasks"
                    )
                if was_here:
                    with importable():
                        reload(sys.modules[module])
            _imported[module] = self.code
        return function_of(self.function)


def is_short(given: str) -> bool:
    """Whether text is not ``module:function``, but names a built-in table or is invalid."""
    return given.partition(":")[0] in BUILT_IN or ":" not in given


def function_of(reference: str) -> Callable[..., Any]:
    """Import the function that ``module:function`` names.

    Raises
    ------
    ConfigError
        If there is no such function.
    """
    module, colon, name = reference.partition(":")
    found = None
    try:
        if colon:
            found = getattr(imported(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"keep {reference} cannot be imported ({error}); put the function into a module that "
            "is installed, next to your script or in the folder where pyflowers is started"
        ) from error
    if not callable(found):
        short = ", ".join(BUILT_IN)
        raise ConfigError(
            f"keep {reference} is not a function; choose one of {short}, or module:function"
        )
    return found  # type: ignore[no-any-return]


def _code_of(module: str) -> str:
    """Return a digest of a module's file as it is now, because notebook users edit such files."""
    file = getattr(imported(module), "__file__", None)
    if not file or module == __name__:  # the task's key includes the version of pyflowers
        return ""
    try:
        return sha256_file(Path(file))
    except OSError as error:
        raise ConfigError(
            f"keep {module}: its file {file} cannot be read ({error.strerror}); put it back, or "
            "restart Python"
        ) from error


_imported: dict[str, str] = {}
"""Digest of each module's file as this process imported it to compute a table."""


def packed(table: Any) -> bytes:
    """Return a DataFrame or a mapping of columns in NumPy's own format; empty without columns.

    The result holds an array of records, one per row. Single values are repeated in every row, and
    text is UTF-8.

    Raises
    ------
    TypeError, ValueError
        If `table` is not a table, or could not be read back.
    """
    if isinstance(table, pd.DataFrame):
        whole = _with_index(table)
        given = [(str(name), whole.iloc[:, i].to_numpy()) for i, name in enumerate(whole)]
    elif isinstance(table, Mapping):
        given = [(str(name), values) for name, values in table.items()]
    else:
        raise TypeError(
            f"the function must return a DataFrame or a mapping, got {type(table).__name__}"
        )
    for name, times in Counter(name for name, _ in given).items():
        if name in OWN_COLUMNS:
            raise ValueError(
                f"the table's column {name} has the same name as a column of the batch; rename it"
            )
        if times > 1:
            raise ValueError(
                f"{times} of the table's columns or index levels are named {name}; rename them"
            )
        if "\0" in name:
            raise ValueError(
                f"the table's column {name!r} has a NUL character in its name; rename it"
            )
    columns = {name: _array(name, values) for name, values in given}
    lengths = {len(values) for values in columns.values() if values.ndim}
    if len(lengths) > 1:
        raise ValueError(
            f"the table's columns have {' and '.join(map(str, sorted(lengths)))} rows; make them "
            "equally long"
        )
    if not columns:
        return b""
    # A field cannot have an empty name, hence the underscore.
    fields = {f"_{storable_text(name)}": values for name, values in columns.items()}
    rows = np.empty(lengths.pop() if lengths else 1, [(n, v.dtype) for n, v in fields.items()])
    for name, values in fields.items():
        rows[name] = values
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, rows, version=(3, 0), allow_pickle=False)
    return buffer.getvalue()


def _with_index(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its index as columns, unless the index only counts the rows."""
    index = table.index
    is_count = index.nlevels == 1 and index.name is None and index.dtype.kind == "i"
    if is_count and index.equals(pd.RangeIndex(len(index))):
        return table
    plain = table.set_axis([str(name) for name in table.columns], axis=1)
    return plain.reset_index(allow_duplicates=True)


def _array(name: str, values: Any) -> NDArray[Any]:
    """Return a column, or a single value, in one of the types that are kept."""
    array = np.asarray(values)
    kind = array.dtype.kind
    if array.ndim > 1:
        raise ValueError(f"the table's column {name} has {array.ndim} dimensions; make it a vector")
    if kind == "u" and array.max(initial=0) > LARGEST:
        raise ValueError(
            f"the table's column {name} has a number above {LARGEST}; make it text or float"
        )
    if kind in "biuf":
        return array.astype({"f": "f8", "b": "?"}.get(kind, "i8"))
    texts = [str(each) for each in np.atleast_1d(array)]
    if any("\0" in text for text in texts):
        raise ValueError(
            f"the table's column {name} contains a NUL character; remove the character"
        )
    raw = [text.encode("utf-8", "backslashreplace") for text in texts]
    return np.array(raw, np.bytes_).reshape(array.shape)


def unpacked(raw: bytes) -> NDArray[Any]:
    """Return the rows that :func:`packed` has packed; raise ValueError for any other bytes."""
    # The header names the columns. NumPy limits its size as a protection against untrusted files,
    # which is not needed here.
    rows: NDArray[Any] = np.lib.format.read_array(
        io.BytesIO(raw), allow_pickle=False, max_header_size=len(raw)
    )
    kinds = [rows.dtype[name].kind for name in rows.dtype.names or ()]
    # A type of no width would allow any number of rows.
    if rows.ndim != 1 or not rows.dtype.itemsize or not kinds or not set(kinds) <= set("bifS"):
        raise ValueError("these bytes are not a packed table")
    return rows


def frame_of(rows: NDArray[Any]) -> pd.DataFrame:
    """Return unpacked rows as a table."""
    columns = {}
    for name in rows.dtype.names or ():
        values = rows[name]
        if values.dtype.kind == "S":
            values = np.array([text.decode() for text in values.tolist()], dtype=object)
        columns[name.removeprefix("_")] = values
    return pd.DataFrame(columns)


def keeps(given: Sequence[str | Callable[..., Any] | Keep]) -> tuple[Keep, ...]:
    """Return all tables that are to be kept from a task.

    Raises
    ------
    ConfigError
        If a function cannot be imported, or two tables have the same name.
    """
    found = tuple(Keep.of(each) for each in given)
    names = [each.name for each in found]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                f"keep {name}: two tables have this name; rename one, as in "
                f'Keep(..., name="{name}_2")'
            )
    return found


def summary(
    fit: Fit, names: Sequence[str] | None = None, interval: float | None = None
) -> dict[str, NDArray[Any]]:
    """Return the columns of the summary table, after a column ``parameter``.

    `names` and `interval` are as in :meth:`pyflowers.Fit.summary`.
    """
    table = fit.summary(names, interval=interval, all=True)
    columns = {str(name): table[name].to_numpy(float) for name in table}
    return {"parameter": np.array(table.index, dtype=object), **columns}


def draws(fit: Fit, names: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
    """Return a table of draws, one row per draw.

    Parameters
    ----------
    fit : Fit
        The fit.
    names : sequence of str
        Quantities of the posterior. Default: all.

    Returns
    -------
    mapping of str to array, shape (chains × draws,)
        ``chain`` and ``draw``, counted from 0, and a column for each element, such as
        ``mu_plant[2]``. If a quantity is called ``chain``, its column is ``chain_``.

    Raises
    ------
    ConfigError
        If the posterior has no quantity of a given name.
    """
    chosen = fit.posterior[_known(fit, names)]
    chain, draw = np.indices((fit.num_chains, fit.num_draws))
    found: dict[str, NDArray[Any]] = {"chain": chain.ravel(), "draw": draw.ravel()}
    for quantity in chosen.values():
        values = flat(quantity).reshape(fit.num_chains * fit.num_draws, -1)
        for name, column in zip(element_names(quantity), values.T, strict=True):
            found[free_name(name, found)] = column
    return found


def ranks(fit: Fit, true: Mapping[str, Any], thin: int = 1) -> dict[str, Any]:
    """Return the rank of each true value among the draws, for simulation-based calibration.

    Parameters
    ----------
    fit : Fit
        The fit.
    true : mapping of str to number or array
        The true values of quantities by name, each in the shape of the quantity.
    thin : int
        Take every `thin`-th draw of a chain.

    Returns
    -------
    mapping of str to array or int
        ``parameter``, its ``true`` value, its ``rank`` from 0 to ``num_draws``, and ``num_draws``,
        the number of draws after thinning. Ties are broken at random, using the fit's seed.

    Raises
    ------
    ConfigError
        If the posterior has no quantity of a given name, or the values have another shape.

    References
    ----------
    .. [1] Talts, Betancourt, Simpson, Vehtari and Gelman (2018), Validating Bayesian inference
       algorithms with simulation-based calibration, arXiv:1804.06788, algorithm 1.
    """
    chosen = fit.posterior[_known(fit, list(true))]
    for name, quantity in zip(true, chosen.values(), strict=True):
        if np.shape(true[name]) != quantity.values.shape[2:]:
            raise ConfigError(
                f"true value of {name}: its shape is {np.shape(true[name])}, but the shape of "
                f"{name} is {quantity.values.shape[2:]}; give one value for each element"
            )
    truth = np.concatenate([np.ravel(np.asarray(true[name], float)) for name in true])
    sample = stacked(chosen)[:, ::thin].reshape(-1, len(truth))
    ties = np.sum(sample == truth, axis=0)
    rng = np.random.default_rng([fit.options.seed, 2])
    return {
        "parameter": element_names(chosen),
        "true": truth,
        "rank": np.sum(sample < truth, axis=0) + rng.integers(0, ties, endpoint=True),
        "num_draws": len(sample),
    }


def _known(fit: Fit, names: Sequence[str]) -> list[str]:
    """Return the posterior's names for these quantities, or all its names if none is given."""
    called = [name_in(fit.posterior, name) for name in names]
    for name, own in zip(names, called, strict=True):
        if own not in fit.posterior.data_vars:
            have = ", ".join(map(str, fit.posterior))
            raise ConfigError(f"{name} is not a quantity of {fit.called}, which has {have}")
    return called or list(map(str, fit.posterior))
