"""A table for a paper: several models side by side, with a row for each parameter.

A cell is an estimate, the posterior median or mean, with its central interval. The rows are the
parameters of the models; the effects of groups, quantities of single rows and the coefficients of
curves are left out unless they are named. Below them are the numbers of observations and groups,
the family and, on request, R² and the elpd by PSIS-LOO, with the differences from the best model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from pyflowers.analysis import paper_formats as formats
from pyflowers.analysis.elpd import LooComparison, ModelLoo, compare_named
from pyflowers.analysis.explained_variance import Explained, explained
from pyflowers.analysis.paper_formats import Row, Sheet, TextFile
from pyflowers.display import (
    Line,
    Result,
    as_html,
    format_elpd,
    format_number,
    interval_quantiles,
    percent,
)
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit, checked_fits
from pyflowers.fits.posterior import element_names, own_dims
from pyflowers.text import in_words, suggestion

ESTIMATES = ("median", "mean")
"""The estimates that a table can show."""

Rows = Mapping[str, str] | Sequence[str]
"""The rows of a table: parameters, each as NAME or NAME=LABEL, or their labels by name."""


@dataclass(frozen=True, repr=False, eq=False)
class ModelTable(Result):
    r"""Models side by side, with a row for each parameter.

    Attributes
    ----------
    fits : tuple of Fit
        The models.
    names : tuple of str
        The names of the models, which are the headings of their columns.
    rows : mapping of str to tuple of str
        The parameters of each row, by the label of the row. A model has at most one of them.
    estimate : str
        ``median`` or ``mean``.
    inline : bool
        Whether an interval is on the line of its estimate instead of below it.
    elpd : LooComparison or None
        The comparison of the models by PSIS-LOO, if it was requested.
    explained : tuple of Explained or str
        How much each model explains, if it was requested; for a model without R², the reason.

    See Also
    --------
    pyflowers.table : Make a table of one or several fits.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> found = pyflowers.table(fit, rows={"mu": "Mean of log rates"}, inline=True)
    >>> print(found.to_markdown().splitlines()[0])
    |                   |             Model 1 |
    >>> found.to_frame().index.tolist()
    ['Mean of log rates', 'Observations', 'Groups (plant)', 'Family']
    >>> found.to_latex().splitlines()[0]
    '\\begin{tabular}{lc}'
    >>> found.to_docx().save("table.docx")  # doctest: +SKIP
    >>> found.to_html().splitlines()[-1]
    '</table>'
    """

    holds: ClassVar[str] = "table"

    fits: tuple[Fit, ...]
    names: tuple[str, ...]
    rows: Mapping[str, tuple[str, ...]]
    estimate: str
    inline: bool
    elpd: LooComparison | None = None
    explained: tuple[Explained | str, ...] = ()

    @property
    def interval(self) -> float:
        """The probability of the intervals."""
        return self.fits[0].interval

    @cached_property
    def _summaries(self) -> list[pd.DataFrame]:
        return [fit.summary(all=True) for fit in self.fits]

    @cached_property
    def sheet(self) -> Sheet:
        """The labels and cells that every format shows."""
        parameters = [
            Row(name, tuple(self._cell(table, its) for table in self._summaries))
            for name, its in self.rows.items()
        ]
        parts = (tuple(parameters), tuple(self._about()))
        return Sheet(self.names, parts, self._note)

    def _cell(self, table: pd.DataFrame, names: Sequence[str]) -> tuple[str, ...]:
        """Return the lines of a parameter's cell; none if the model does not have it."""
        return self._lines(self._numbers(table, names))

    def _lines(self, numbers: Sequence[float] | None) -> tuple[str, ...]:
        """Return the lines of a cell with an estimate and the ends of its interval."""
        if numbers is None:
            return ()
        estimate, low, high = map(format_number, numbers)
        if self.inline:
            return (f"{estimate} [{low}, {high}]",)
        return (estimate, f"[{low}, {high}]")

    def _r2(self, its: Explained | str) -> dict[str, list[float]]:
        """Return the estimate and interval of each R², except the R² of residuals, by label."""
        if isinstance(its, str):
            return {}
        (shares,) = its.shares.values()
        _, *ends = interval_quantiles(self.interval).values()
        found = dict[str, list[float]]()
        for (measure, of), draws in shares.items():
            if measure == "R2" and of != "residuals":
                middle, *interval = np.quantile(draws, [0.5, *ends]).tolist()
                if self.estimate == "mean":
                    middle = float(draws.mean())
                found[_label_of_r2(of)] = [middle, *interval]
        return found

    def _numbers(self, table: pd.DataFrame, names: Sequence[str]) -> list[float] | None:
        """Return a parameter's estimate and the ends of its interval; None if a model lacks it."""
        _, *ends = interval_quantiles(self.interval)
        for name in names:
            if name in table.index:
                found = table.loc[[name], [self.estimate, *ends]].to_numpy(float)
                return [float(number) for number in found[0]]
        return None

    def _about(self) -> Iterator[Row]:
        """Yield the rows on data, family, R² and elpd; a row that all models lack is left out."""
        yield Row("Observations", tuple((str(_num_rows(fit)),) for fit in self.fits))
        sizes = [_num_groups(fit) for fit in self.fits]
        for column in dict.fromkeys(name for its in sizes for name in its):
            found = [str(its.get(column, "")) for its in sizes]
            yield Row(f"Groups ({column})", tuple((cell,) for cell in found))
        families = [_family(fit) for fit in self.fits]
        if any(families):
            yield Row("Family", tuple(families), is_text=True)
        shares = [self._r2(its) for its in self.explained]
        for label in dict.fromkeys(label for its in shares for label in its):
            yield Row(label, tuple(self._lines(its.get(label)) for its in shares))
        if self.elpd is not None:
            models = self._of_elpd
            yield Row("elpd", tuple(_with_error(its.elpd, its.se) for its in models))
            if len(models) > 1:
                cells = [_with_error(its.difference, its.difference_se) for its in models]
                cells[self.names.index(self.elpd.best.name)] = ("0",)
                yield Row("elpd difference", tuple(cells))

    @property
    def _of_elpd(self) -> list[ModelLoo]:
        """The results of PSIS-LOO in the order of the columns; empty without them."""
        if self.elpd is None:
            return []
        found = {model.name: model for model in self.elpd.models}
        return [found[name] for name in self.names]

    @property
    def _note(self) -> str:
        """A note that explains the numbers in the table."""
        note = f"Posterior {self.estimate}s, with {percent(self.interval)} intervals in brackets."
        if self.elpd is not None:
            note += " elpd by PSIS-LOO, with standard errors in parentheses."
        return note

    @property
    def notes(self) -> list[str]:
        """Cautions about the models for the reader of the table."""
        found = [
            f"{name}: the sampling did not converge, so do not report its estimates"
            for name, fit in zip(self.names, self.fits, strict=True)
            if fit.verdict.computation.failed
        ]
        if self.estimate == "mean":
            for name, table in zip(self.names, self._summaries, strict=True):
                found += [f"{name}: {note}" for note in table.attrs["notes"]]
        reasons = zip(self.names, self.explained, strict=False)
        found += [f"{name}: {its}" for name, its in reasons if isinstance(its, str)]
        if self.elpd is not None:
            found += self.elpd.cautions
        return found

    def to_markdown(self) -> str:
        """Return a pipe table; an interval below its estimate takes a separate row."""
        return formats.markdown(self.sheet)

    def to_latex(self) -> str:
        r"""Return a ``tabular`` for LaTeX, which needs ``\usepackage{booktabs}``."""
        return formats.latex(self.sheet)

    def to_html(self) -> str:
        """Return a ``table`` element, without styles, in ASCII."""
        return formats.html(self.sheet)

    def to_frame(self) -> pd.DataFrame:
        """Return the cells as text, as the other formats show them, with a column for each model.

        :meth:`to_dict` has the numbers at full precision.
        """
        return formats.frame(self.sheet)

    def to_docx(self) -> Any:
        """Return a python-docx document with the table; its ``save`` writes a file for Word.

        Raises
        ------
        ConfigError
            If python-docx is not installed.
        """
        return formats.docx(self.sheet)

    def contents(self) -> list[Line]:
        """Return the table as lines, and its notes."""
        return [*formats.text(self.sheet), *(f"note: {note}" for note in self.notes)]

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{as_html(f'note: {note}')}</p>" for note in self.notes)
        return self.to_html() + notes

    def files(self) -> dict[str, Any]:
        """Return the table in each format that needs no other package, by file name."""
        return {
            "table.csv": self.to_frame(),
            "table.html": TextFile(self.to_html()),
            "table.md": TextFile(self.to_markdown()),
            "table.tex": TextFile(self.to_latex()),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers at full precision, for JSON."""
        models = []
        for name, fit, table in zip(self.names, self.fits, self._summaries, strict=True):
            cells = {row: self._numbers(table, its) for row, its in self.rows.items()}
            rows = {
                row: dict(zip((self.estimate, "lower", "upper"), found, strict=True))
                for row, found in cells.items()
                if found is not None
            }
            about = {"observations": _num_rows(fit), "groups": _num_groups(fit)}
            family = " ".join(_family(fit)) or None
            models.append({**fit.identity(), "name": name, "rows": rows, **about, "family": family})
        for record, of_model in zip(models, self.explained, strict=False):
            record["r2"] = {
                row: dict(zip((self.estimate, "lower", "upper"), numbers, strict=True))
                for row, numbers in self._r2(of_model).items()
            }
        for record, its in zip(models, self._of_elpd, strict=False):
            record["elpd"] = {
                "elpd": its.elpd,
                "se": its.se,
                "difference": its.difference,
                "difference_se": its.difference_se,
            }
        return {
            "estimate": self.estimate,
            "interval": self.interval,
            "parameters": {row: list(its) for row, its in self.rows.items()},
            "models": models,
            "notes": self.notes,
        }


def table(
    fits: Fit | Sequence[Fit],
    *,
    names: Sequence[str] | None = None,
    rows: Rows | None = None,
    estimate: str = "median",
    interval: float | None = None,
    inline: bool = False,
    loo: bool = False,
    r2: bool = False,
) -> ModelTable:
    """Make a table for a paper: models side by side, with a row for each parameter.

    Parameters
    ----------
    fits : Fit or sequence of Fit
        The models, one for each column. They may have different families, formulas and data.
    names : sequence of str, optional
        The names of the models, as headings of the columns. Default: the names of the fits; for
        fits without a name, Model 1, Model 2, and so on.
    rows : mapping of str to str, or sequence of str, optional
        The rows, in their order: labels by parameter, such as ``{"b[x]": "Dose"}``, or parameters,
        such as ``["b[x]=Dose", "sigma"]``. A quantity such as ``b`` stands for its elements.
        Parameters of different models with the same label share a row. Default: all parameters
        except the effects of groups, quantities of single rows and coefficients of curves.
    estimate : str
        ``median`` or ``mean`` of the posterior.
    interval : float, optional
        Probability of the central intervals. Default: as in the fits.
    inline : bool
        Whether intervals are on the lines of the estimates instead of below them.
    loo : bool
        Whether to add the elpd by PSIS-LOO, for models of the same data.
    r2 : bool
        Whether to add R²; see :func:`pyflowers.explained`.

    Returns
    -------
    ModelTable
        The table, with ``to_latex``, ``to_markdown``, ``to_html``, ``to_docx`` and ``to_frame``.

    Raises
    ------
    ConfigError
        If there is no fit, the names do not match the fits, a parameter is in none of the models,
        two parameters of one model have the same label, the fits have different intervals and none
        is given, or the models cannot be compared by :func:`pyflowers.loo`.

    See Also
    --------
    pyflowers.report : Write a page on the models, with their checks and figures.

    Examples
    --------
    >>> import pyflowers
    >>> counts = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> normal = pyflowers.fit("iid_normal", seed=1, engine="exact")
    >>> names = ["Poisson", "Normal"]
    >>> found = pyflowers.table([counts, normal], names=names, rows=["mu=Mean"])
    >>> found.to_frame().loc[["Observations", "Family"]]
                  Poisson    Normal
    parameter
    Observations       12        12
    Family        poisson  gaussian
    """
    models = checked_fits(fits, "table")
    if not models:
        raise ConfigError("table: there is no fit; give at least one")
    if names is None:
        names = [fit.record.name or f"Model {i + 1}" for i, fit in enumerate(models)]
    called = _checked_names(names, len(models))
    if estimate not in ESTIMATES:
        raise ConfigError(f"estimate must be median or mean, got {estimate!r}")
    models = _with_one_interval(models, interval, called)
    tables = [fit.summary(all=True) for fit in models]
    chosen: dict[str, tuple[str, ...]]
    if rows is None:
        chosen = {row: (row,) for row in _joined(list(map(_default_rows, models)))}
    else:
        chosen = _chosen(rows, tables)
        _refuse_overlaps(chosen, tables, called)
    compared = None
    if loo:
        compared = compare_named(models, called)
    shares = tuple(map(_explained, models)) if r2 else ()
    return ModelTable(
        tuple(models), tuple(called), chosen, estimate, bool(inline), compared, shares
    )


def _explained(fit: Fit) -> Explained | str:
    """Return how much a model explains or, if it has no R², the reason."""
    try:
        return explained(fit)
    except ConfigError as error:
        return str(error).removeprefix(f"explained: {fit.called} ")  # the note names the model


def _label_of_r2(of: str) -> str:
    """Return the label of an R², such as ``R² (marginal)``."""
    if of == "model":
        return "R²"
    return f"R² ({of})"


def _checked_names(names: Sequence[str], num: int) -> list[str]:
    """Return the names of the models after checking them."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise ConfigError(f"names must be a list with a name for each model, got {names!r}")
    found = list(names)
    for name in found:
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(f"each name must be text that is not empty, got {name!r}")
        if found.count(name) > 1:
            raise ConfigError(f"names: two models are called {name!r}; give each its own name")
    if len(found) != num:
        raise ConfigError(
            f"names: the number of names is {len(found)}, but the number of models is {num}; give "
            "one name for each model"
        )
    return found


def _with_one_interval(fits: list[Fit], interval: float | None, names: Sequence[str]) -> list[Fit]:
    """Return the fits with one interval; raise an error if they have several."""
    if interval is not None:
        return [fit.with_interval(interval) for fit in fits]
    for fit, name in zip(fits, names, strict=True):
        if fit.interval != fits[0].interval:
            raise ConfigError(
                f"interval: {names[0]} has {percent(fits[0].interval)} intervals and {name} has "
                f"{percent(fit.interval)} intervals; choose one probability for the table, such as "
                "0.95"
            )
    return fits


def _default_rows(fit: Fit) -> list[str]:
    """Return the elements of a fit that have a row by default."""
    found = list[str]()
    summarised = set(fit.summary(all=True).index)
    for quantity in fit.posterior.values():
        if not fit.model.is_of_units(own_dims(quantity)):
            found += [name for name in element_names(quantity) if name in summarised]
    return found


def _joined(models: Sequence[Sequence[str]]) -> list[str]:
    """Return the elements of all models, with the elements of each quantity together."""
    of_models = list[dict[str, list[str]]]()
    for names in models:
        elements = dict[str, list[str]]()
        for name in names:
            elements.setdefault(name.partition("[")[0], []).append(name)
        of_models.append(elements)
    return [
        name
        for quantity in _merged(map(list, of_models))
        for name in _merged(elements.get(quantity, []) for elements in of_models)
    ]


def _merged(orders: Iterable[Sequence[str]]) -> list[str]:
    """Return all names; each new name comes after the name that precedes it in its own sequence."""
    found = list[str]()
    for names in orders:
        at = 0
        for name in names:
            if name not in found:
                found.insert(at, name)
            at = found.index(name) + 1
    return found


def _chosen(rows: Rows, tables: Sequence[pd.DataFrame]) -> dict[str, tuple[str, ...]]:
    """Return the parameters of each row by its label, in the order of the request."""
    known = list(dict.fromkeys(str(name) for table in tables for name in table.index))
    found = dict[str, tuple[str, ...]]()
    for name, label in _asked(rows, known):
        elements = [each for each in known if name in (each, each.partition("[")[0])]
        if label is None:
            named = {each: (each,) for each in elements}
        elif len(elements) == 1:
            named = {label: (elements[0],)}
        else:
            raise ConfigError(
                f"row {name}={label}: {name} has {len(elements)} elements; give a label to one of "
                f"them, such as {elements[0]}={label}"
            )
        for row, its in named.items():
            if any(each in above for above in found.values() for each in its):
                raise ConfigError(f"row {its[0]} is requested twice; request it once")
            found[row] = (*found.get(row, ()), *its)
    return found


def _asked(rows: Rows, known: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Yield the quantity or element of each requested row, with its label if it has one."""
    pairs: list[tuple[Any, Any]]
    if isinstance(rows, Mapping):
        pairs = list(rows.items())
    elif isinstance(rows, Sequence) and not isinstance(rows, str):
        pairs = [_split(text, known) for text in rows]
    else:
        raise ConfigError(
            f"rows must be a list of parameters, or a mapping of parameters to labels, got {rows!r}"
        )
    if not pairs:
        raise ConfigError("rows: name at least one parameter, such as 'b[x]=Dose'")
    names = {*known, *(name.partition("[")[0] for name in known)}
    for name, label in pairs:
        if not isinstance(name, str) or name not in names:
            near = suggestion(str(name), sorted({each.partition("[")[0] for each in known}))
            if str(name).partition("[")[0] in names:
                near = suggestion(str(name), known)
            raise ConfigError(f"row {name!r}: no model has this parameter; {near}")
        if label is not None and (not isinstance(label, str) or not label.strip()):
            raise ConfigError(f"row {name}: its label must be text and not empty, got {label!r}")
        yield name, label


def _split(text: Any, known: Sequence[str]) -> tuple[Any, str | None]:
    """Return the parameter and the label of ``NAME=LABEL``; a name may contain an equals sign."""
    if not isinstance(text, str):
        return text, None
    names = {*known, *(name.partition("[")[0] for name in known)}
    ends = [i for i, mark in enumerate(text) if mark == "="]
    for end in (len(text), *ends):
        if text[:end].strip() in names:
            label = None
            if end < len(text):
                label = text[end + 1 :].strip()
            return text[:end].strip(), label
    return text.partition("=")[0].strip(), None


def _refuse_overlaps(
    chosen: Mapping[str, tuple[str, ...]], tables: Sequence[pd.DataFrame], names: Sequence[str]
) -> None:
    """Reject a label that is given to two parameters of one model."""
    for label, its in chosen.items():
        for name, table in zip(names, tables, strict=True):
            both = [each for each in its if each in table.index]
            if len(both) > 1:
                raise ConfigError(
                    f"row {label!r}: this is the label of {in_words(both)} in {name}; give each "
                    "parameter its own label"
                )


def _num_rows(fit: Fit) -> int:
    """Return the number of rows in the likelihood, including rows with imputed predictors."""
    return int(fit.is_in_likelihood.sum()) + fit.whole.num_obs - fit.data.num_obs


def _num_groups(fit: Fit) -> dict[str, int]:
    """Return the number of groups in each column of groups, by the column's name in the table."""
    labels = {its.column: its for its in fit.whole.labels.values()}
    found = {name: len(labels[name]) for name in fit.model.groups if name in labels}
    by_group = fit.whole.by_group
    if by_group is not None and not found:
        found = {by_group.column: len(by_group)}
    return found


def _family(fit: Fit) -> tuple[str, ...]:
    """Return the name of the family as the line of a cell; none if the program declares none."""
    if fit.model.has_rule:
        return (fit.model.family.name,)
    return ()


def _with_error(value: float, error: float) -> tuple[str, ...]:
    """Return an elpd with its standard error as the line of a cell."""
    return (f"{format_elpd(value)} ({format_elpd(error)})",)
