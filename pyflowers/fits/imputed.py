"""Fits of one program to several completed tables, pooled: multiple imputation.

Missing values are imputed M times outside of pyflowers, and each of the M completed tables is
fitted. The draws of all fits together represent the posterior, with its uncertainty about the
missing values: p(θ | observed) is approximately the mean of p(θ | table m) over the tables m.
Chains for one table must agree with each other, but chains for different tables need not, so R-hat
is computed for each table.

References
----------
Gelman, Carlin, Stern, Dunson, Vehtari and Rubin (2013), Bayesian Data Analysis, 3rd edition,
section 18.2, for the variances within and between imputations. Zhou and Reiter (2010), A Note on
Bayesian Inference After Multiple Imputation, The American Statistician 64(2), for the pooled draws,
whose intervals are too narrow if there are few tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.advice import is_in_shell
from pyflowers.display import Line, Result, heading, in_file, records_of, whole
from pyflowers.errors import ConfigError, DataError
from pyflowers.fits.fit import Fit, shortened_summary
from pyflowers.fits.folder import SUMMARY
from pyflowers.fits.methods import Question
from pyflowers.fits.posterior import summarize
from pyflowers.fits.verdict import Check, Part, PartName, Verdict
from pyflowers.records import as_path

if TYPE_CHECKING:
    import xarray as xr

FloatArray = NDArray[np.float64]

_ORDER = ("passed", "limited", "imprecise", "failed")
"""The results of a check, from best to worst."""

FEW_TABLES = 20
LARGE_SHARE = 0.1
"""If there are fewer than `FEW_TABLES`, and a share of some parameter's variance above
`LARGE_SHARE` lies between the tables, a note states that intervals may be too narrow."""


@dataclass(frozen=True, eq=False, repr=False)
class PooledFit(Result):
    """Fits of one program to several completed tables, whose draws are pooled.

    :func:`pyflowers.fit` returns one if it is given a list of tables. :func:`pyflowers.contrast`,
    :func:`pyflowers.effects` and :func:`pyflowers.predict` pool their results for all tables.
    Checks and LOO need the data of one table: give them one of `fits`.

    Attributes
    ----------
    fits : tuple of Fit
        The fit to each table.

    Examples
    --------
    >>> import numpy as np
    >>> import pyflowers
    >>> rats, rng = pyflowers.example("rats"), np.random.default_rng(1)
    >>> lost = rng.random(len(rats)) < 0.2
    >>> tables = [
    ...     rats.assign(weight=rats["weight"].where(~lost, 110 + 6 * rats["age"] + error))
    ...     for error in rng.normal(scale=16, size=(2, len(rats)))
    ... ]
    >>> pooled = pyflowers.fit("weight ~ age", tables, seed=1, engine="stanli")
    >>> len(pooled.fits), pooled.posterior.sizes["chain"]
    (2, 8)
    >>> bool(pooled.summary().loc["sigma", "between"] < 0.5)
    True
    >>> sorted(path.name for path in pooled.save("runs/pooled").iterdir())
    ['summary.csv', 'table-1', 'table-2']
    >>> again = pyflowers.PooledFit.load("runs/pooled").with_interval(0.5)
    >>> again.predict(rats.head(1)).table()["between"].size
    1
    """

    holds: ClassVar[str] = "pooled"

    contrast: ClassVar = Question("contrast")
    effects: ClassVar = Question("effects")
    predict: ClassVar = Question("predict")

    fits: tuple[Fit, ...]

    def __post_init__(self) -> None:
        first, *others = self.fits
        for number, other in enumerate(others, 2):
            mine, its = _names(first), _names(other)
            if mine != its:
                name = next(iter(sorted(mine ^ its)))
                raise DataError(
                    f"table {number}: {name} is a parameter of only one of tables 1 and {number}; "
                    "give completed versions of one table, with the same groups and levels"
                )

    def __getattr__(self, name: str) -> Any:
        """Raise the error of an unknown attribute, which names the fits that may have it."""
        if hasattr(type(self), name):  # a property has failed: raise its own error again
            return self.__getattribute__(name)
        raise AttributeError(
            f"a PooledFit has no {name!r}; it has several fits: use one of them, such as .fits[0]"
        )

    @cached_property
    def posterior(self) -> xr.Dataset:
        """The draws of all fits, whose chains are joined along the dimension ``chain``."""
        import xarray as xr  # slow to import

        pooled = xr.concat([fit.posterior for fit in self.fits], dim="chain")
        return pooled.assign_coords(chain=np.arange(pooled.sizes["chain"]))

    @cached_property
    def between(self) -> pd.Series:
        """The share of each parameter's variance that lies between the tables.

        See :func:`share_between`.
        """
        tables = [fit.summary(all=True) for fit in self.fits]
        means, sds = ([table[name] for table in tables] for name in ("mean", "sd"))
        shares = share_between(np.array(means), np.square(sds))
        return pd.Series(shares, tables[0].index, name="between")

    def summary(self, *, all: bool = False) -> pd.DataFrame:  # noqa: A002
        """Return the summary table of the pooled draws.

        Parameters
        ----------
        all : bool
            Whether to include the effects of groups; see :meth:`pyflowers.Fit.summary`.

        Returns
        -------
        DataFrame
            The columns of :meth:`pyflowers.Fit.summary`, where ``r_hat`` is the largest over the
            tables, and ``ess_bulk`` and ``ess_tail`` are sums over the tables; and ``between``, the
            share of the variance that lies between the tables.
        """
        first = self.fits[0]
        missing = first.program.missing_moments(first.data)
        found = summarize(self.posterior, missing, interval=first.interval)
        tables = [fit.summary(all=True).loc[found.index] for fit in self.fits]
        found["r_hat"] = np.max([table["r_hat"] for table in tables], axis=0)
        for name in ("ess_bulk", "ess_tail"):
            found[name] = np.sum([table[name] for table in tables], axis=0)
        errors = [table["mcse_mean"] ** 2 for table in tables]
        found["mcse_mean"] = np.sqrt(np.sum(errors, axis=0)) / len(tables)
        found["between"] = self.between.loc[found.index]
        if all:
            return found
        return found.loc[first.summary().index]

    @cached_property
    def verdict(self) -> Verdict:
        """The verdict over all tables: each check has the result of its worst table."""
        names: tuple[PartName, ...] = ("computation", "prior", "data")
        parts = [_worst_part([getattr(fit.verdict, name) for fit in self.fits]) for name in names]
        verdict = Verdict(*parts)
        if not self.fits[0].has_replicates:
            return verdict
        note = "to examine it, run pyflowers check on the run folder of each table"
        if not is_in_shell():
            note = "to examine it, call pyflowers.check for each of the fits in .fits"
        return replace(verdict, data=replace(verdict.data, note=note))

    @property
    def heading(self) -> tuple[str, ...]:
        """The first line of a result: the fit's name, and the number of tables."""
        return heading(self.fits[0].called, f"{len(self.fits)} completed tables, pooled")

    @property
    def notes(self) -> list[str]:
        """Caveats on the pooled draws."""
        share, num = self.between.max(), len(self.fits)
        every = ([*fit.record.notes, *fit.model.notes_on_response()] for fit in self.fits)
        found = list(dict.fromkeys(chain.from_iterable(every)))
        if num < FEW_TABLES and share > LARGE_SHARE:
            found.append(
                f"{share:.0%} of the variance of {self.between.idxmax()} lies between the tables, "
                f"so {num} tables are few, and the interval may be too narrow; impute "
                f"{FEW_TABLES} or more tables"
            )
        return found

    def contents(self) -> list[Line]:
        """Return what is printed: the summary, the notes and the verdict."""
        return self._contents(self.summary())

    def in_full(self) -> list[Line]:
        """Return the contents with all rows of the summary."""
        return self._contents(whole(self.summary(all=True)))

    def _contents(self, table: pd.DataFrame) -> list[Line]:
        """Return what was fitted, a summary, the notes and the verdict."""
        shown = shortened_summary(table, self.fits[0].interval)
        shown["between"] = table["between"]
        return [
            self.heading,
            in_file(shown, SUMMARY),
            *(f"note: {note}" for note in self.notes),
            self.verdict.line,
        ]

    def files(self) -> dict[str, Any]:
        """Return the summary, by its file name."""
        return {SUMMARY: self.summary(all=True)}

    def to_dict(self) -> dict[str, Any]:
        """Return the summary, the notes and the verdict as plain values, for JSON."""
        return {
            "program": self.fits[0].program.name,
            "name": self.fits[0].called,
            "tables": len(self.fits),
            "summary": records_of(self.summary(all=True)),
            "notes": self.notes,
            "verdict": self.verdict.to_dict(),
        }

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write a run folder for each table, ``table-1`` and so on, and ``summary.csv``.

        Parameters
        ----------
        folder : path
            The folder for the run folders.
        overwrite : bool
            Whether to replace other runs in them.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        PyflowersError
            See :meth:`pyflowers.Fit.save`.
        """
        into = as_path(folder, "folder")
        check_pooled_folder(into, len(self.fits))
        for number, fit in enumerate(self.fits, 1):
            fit.save(into / f"table-{number}", overwrite=overwrite)
        write_summary(self, into)
        return into

    @classmethod
    def load(cls, folder: str | Path) -> PooledFit:
        """Read a folder that :meth:`save` or ``pyflowers.fit(…, out=…)`` wrote.

        Parameters
        ----------
        folder : str or Path
            The folder with the run folders ``table-1`` and so on.

        Returns
        -------
        PooledFit
            The fits, with the same draws, labels and records.

        Raises
        ------
        DataError
            If there are no such run folders, or one of them cannot be read.
        """
        path = as_path(folder, "a folder of pooled fits", DataError)
        if not is_pooled_folder(path):
            raise DataError(
                f"{path} is not a folder of fits of completed tables; name one that has {SUMMARY} "
                "and the run folders table-1, table-2 and so on"
            )
        return cls(tuple(Fit.load(each) for each in _run_folders(path)))

    def with_interval(self, interval: float | None) -> PooledFit:
        """Return the fits with another interval in their tables.

        Parameters
        ----------
        interval : float, optional
            Probability of the interval. Default: the fits' interval.

        Returns
        -------
        PooledFit
            The same draws.

        Raises
        ------
        ConfigError
            If the interval does not lie between 0 and 1.
        """
        return replace(self, fits=tuple(fit.with_interval(interval) for fit in self.fits))


def share_between(means: FloatArray, variances: FloatArray) -> FloatArray:
    """Return, for each value, the share of its variance that lies between completed tables.

    With W the mean over the M tables of the variance within a table, and B the variance of the
    tables' means, the share is (1 + 1/M) B / (W + (1 + 1/M) B).

    Parameters
    ----------
    means, variances : array, shape (table, value)
        The mean and the variance of the draws of each value, for each table.
    """
    between = (1 + 1 / len(means)) * means.var(axis=0, ddof=1)
    with np.errstate(invalid="ignore"):  # for a value that never varies, the share is NaN
        return np.asarray(between / (variances.mean(axis=0) + between))


def is_pooled_folder(folder: Path) -> bool:
    """Return whether a folder holds the fits of completed tables, and their summary."""
    return (folder / SUMMARY).exists() and bool(_run_folders(folder))


def _run_folders(folder: Path) -> list[Path]:
    """Return the run folders of the tables in a folder, in their order."""
    numbers = sorted(
        int(path.name.removeprefix("table-"))
        for path in folder.glob("table-*")
        if path.is_dir() and path.name.removeprefix("table-").isdecimal()
    )
    return [folder / f"table-{number}" for number in numbers]


def check_pooled_folder(folder: Path, num_tables: int) -> None:
    """Reject a folder that holds other files or fits of more tables, before any work is done.

    Raises
    ------
    ConfigError
        If the folder has a ``summary.csv`` that does not belong to pooled fits, or fits of more
        tables.
    """
    if (folder / SUMMARY).exists() and not is_pooled_folder(folder):
        raise ConfigError(
            f"{folder} contains {SUMMARY}, which no earlier fit of completed tables wrote; name "
            "another folder or move that file"
        )
    more = _run_folders(folder)[num_tables:]
    if more:
        raise ConfigError(
            f"{more[0]} is a fit of an additional table; name another folder, or move that fit so "
            "that it is not pooled with these"
        )


def write_summary(pooled: PooledFit, folder: Path) -> None:
    """Write ``summary.csv`` into the folder that holds the run folders."""
    pooled.summary(all=True).to_csv(folder / SUMMARY)


def _names(fit: Fit) -> set[str]:
    """Return the names of a fit's parameters, with their labels."""
    if fit.is_partial:
        raise ConfigError(
            "pooled fits need all draws, but these are too many to keep; lower --draws"
        )
    return set(map(str, fit.summary(all=True).index))


def _worst_part(parts: Sequence[Part]) -> Part:
    """Return a part of the pooled verdict, with the worst result of each check over the tables."""
    worst = max(parts, key=lambda part: _ORDER.index(part.status) if part.checks else -1)
    numbered = [(check, number) for number, part in enumerate(parts, 1) for check in part.checks]
    names = dict.fromkeys(check.name for check, _ in numbered)
    return replace(worst, checks=tuple(_worst_check(numbered, name) for name in names))


def _worst_check(numbered: Sequence[tuple[Check, int]], name: str) -> Check:
    """Return the worst check with this name, with its table and without a command."""

    def badness(each: tuple[Check, int]) -> tuple[int, float]:
        check = each[0]
        value = check.value if check.relation == "≤" else -check.value
        return _ORDER.index(check.status), math.inf if math.isnan(value) else value

    check, number = max((each for each in numbered if each[0].name == name), key=badness)
    where = f"table {number}"
    if check.where:
        where = f"{check.where}, {where}"
    finding = check.finding and f"table {number}: {check.finding}"
    return replace(check, where=where, finding=finding, advice=str(check.advice))


def numbered_tables(tables: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """Yield completed tables with their numbers, from 1.

    Raises
    ------
    ConfigError
        If there are fewer than two tables.
    """
    if len(tables) < 2:
        raise ConfigError(
            f"data: a list must hold at least two completed versions of one table, but this one "
            f"has {len(tables)}; add the others, or give the table itself"
        )
    yield from enumerate(tables, 1)
