"""How precise a study will be: data sets of several sizes are simulated, and each is fitted.

The model is fitted to pilot data. Data are then simulated for each design, with all parameters at
their posterior medians, except those that the user sets, and with new groups drawn from the
population. Each data set is fitted with the same model, and its interval for each parameter that
was set is kept. The results for a design are the average width of the interval, the share of
intervals that exclude 0 (the power), the share that lie in a region, and the share that contain the
true value (the coverage), each with its Monte Carlo standard error.

A design takes its covariates from the pilot data. The pilot's groups are copied one after the other
in random order and, once all have been copied, again in a new random order. The rows within each
group are copied in the same way. This keeps treatments as balanced as in the pilot data.

References
----------
Gelman and Carlin (2014), Beyond power calculations, Perspectives on Psychological Science 9(6);
Kruschke and Liddell (2018), The Bayesian New Statistics, Psychonomic Bulletin & Review 25, for
simulated power with intervals and regions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.analysis.predictions import predict
from pyflowers.batches import Batch, Keep, Task, batch
from pyflowers.batches.files import BatchFiles
from pyflowers.checked import whole_number
from pyflowers.data.columns import number_of
from pyflowers.display import (
    Line,
    Result,
    heading,
    in_file,
    interval_quantiles,
    percent,
    records_of,
)
from pyflowers.engines import new_seed
from pyflowers.errors import ConfigError, PyflowersError
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import element_names, flat
from pyflowers.fits.sampling import fit as sampled
from pyflowers.fits.spec import INPUTS, READING, Spec, takes_inputs
from pyflowers.programs import Program
from pyflowers.programs.data import to_frame
from pyflowers.programs.prediction import names_of
from pyflowers.programs.program import is_formula
from pyflowers.text import counted, in_words, shortened, suggestion

FILES = BatchFiles("design", frozenset({"effects", "designs", "seed"}))
"""The files of a result, next to the ledger of its batch."""

BLOCK = 100
"""The number of data sets that are simulated at a time. The size of a block is fixed, so that a run
with more simulations keeps the existing data sets."""

KEPT = "intervals"
"""The name of the table that is kept from each fit."""

_OF_PILOT = {*READING, "seed", "engine", "cmdstan", "interval", "name"}
"""Inputs of the fit to the pilot data that the fits to simulated data do not take."""


@dataclass(frozen=True, eq=False, repr=False)
class Design(Result):
    """The precision that designs of several sizes give for some parameters.

    Attributes
    ----------
    batch : Batch
        The fits to simulated data.
    name : str
        The name of the program.
    effects : mapping of str to float
        The parameters of interest with their true values.
    values : mapping of str to float
        The other parameters with the values that the simulations use.
    interval : float
        Probability of the intervals.
    region : tuple of float, or None
        A region of values; the share of intervals within it is shown.
    designs : tuple of tuple
        For each design, the number of groups (0 if the formula has none), and the number of rows
        in each group or, without groups, in the table.
    column : str
        The column of the groups; empty if there are none.
    sims : int
        Number of data sets for each design.
    seed : int
        Seed of the simulated data and of the fits.
    engine : str
        The engine of the fits.
    notes_on_pilot : tuple of str
        What is doubtful about the fit to the pilot data.
    called : str
        The name of the model in tables and figures: its own name, or the formula with its family;
        empty for the name of the program.

    See Also
    --------
    pyflowers.design : Simulate designs.

    Examples
    --------
    Few simulations keep the example short; a real study takes several hundred.

    >>> import pyflowers
    >>> found = pyflowers.design("weight ~ age + (1 | rat)", "examples/rats/rats.csv", out="design",
    ...                          groups=[10], rows=[5], effects={"b[age]": 6}, sims=3, seed=1)
    >>> found.table()["fits"].tolist()
    [3]
    >>> found.save({"design.png": pyflowers.plots.design(found)})
    """

    holds: ClassVar[str] = "design"

    batch: Batch
    name: str
    effects: Mapping[str, float]
    values: Mapping[str, float]
    interval: float
    region: tuple[float, float] | None
    designs: tuple[tuple[int, int], ...]
    column: str
    sims: int
    seed: int
    engine: str
    notes_on_pilot: tuple[str, ...] = ()
    called: str = ""

    @cached_property
    def intervals(self) -> pd.DataFrame:
        """The interval of each parameter in each fit, with the size of the design."""
        found = self.batch.table(KEPT)
        sizes = found["task"].str.partition("/")[0].str.partition("x")
        found["groups"], found["rows"] = sizes[0].astype(int), sizes[2].astype(int)
        return found

    def table(self) -> pd.DataFrame:
        """Return a row for each parameter of each design.

        Returns
        -------
        DataFrame
            ``fits``; ``width``, the average width of the interval; ``excludes 0``, the share of
            intervals that exclude 0; ``in region``, the share that lies in the region, if there is
            one; ``covers``, the share that contains the true value; and the Monte Carlo standard
            error of each.
        """
        rows = []
        for (groups, num, name), its in self.intervals.groupby(["groups", "rows", "parameter"]):
            low, high, true = its["low"], its["high"], self.effects[str(name)]
            shares = {"excludes 0": (low > 0) | (high < 0)}
            if self.region is not None:
                shares["in region"] = (low >= self.region[0]) & (high <= self.region[1])
            shares["covers"] = (low <= true) & (true <= high)
            size, width = len(its), high - low
            row = {"groups": groups, "rows": num, "parameter": name, "fits": size}
            row |= {"width": width.mean(), "width mcse": width.std() / np.sqrt(size)}
            for what, is_so in shares.items():
                row |= {what: is_so.mean(), f"{what} mcse": _error_of_share(is_so)}
            rows.append(row)
        index = ["groups", "rows", "parameter"] if self.column else ["rows", "parameter"]
        found = pd.DataFrame(rows)
        if not self.column:
            del found["groups"]
        return found.set_index(index)

    @property
    def notes(self) -> list[str]:
        """What the simulations assume, and their limitations, one sentence each."""
        effects = in_words([f"{name} = {value:g}" for name, value in self.effects.items()])
        said = [
            f"the data were simulated with {effects} as given; the other parameters are the "
            "posterior medians of the fit to the pilot data: "
            + ", ".join(f"{name} = {value:.3g}" for name, value in self.values.items())
        ]
        if self.column:
            said.append(
                f"each {self.column} is new: its effects are drawn from the population, and its "
                "rows have the covariates of the pilot data"
            )
        said += self.notes_on_pilot
        failures, ledger = self.batch.failures, self.batch.ledger()
        if len(failures):
            said.append(
                f"{len(failures)} of {len(ledger)} fits failed and are left out; the first error "
                f"is: {failures.iloc[0]}"
            )
        doubtful = int((ledger["verdict"] == "doubtful").sum())
        if doubtful:
            said.append(
                f"{counted(doubtful, 'fit')} of {len(ledger)} did not pass every check of the "
                "sampling or the prior; such fits are counted anyway"
            )
        return said

    def contents(self) -> list[Line]:
        """Return the table and its notes."""
        about = f"{self.sims} data sets for each design, {percent(self.interval)} intervals"
        return [
            heading(self.called or self.name, about),
            in_file(self.table(), "design.csv"),
            *(f"note: {note}" for note in self.notes),
            f"seed: {self.seed}, engine: {self.engine}",
        ]

    def files(self) -> dict[str, pd.DataFrame]:
        """Return the table by file name."""
        return {"design.csv": self.table()}

    def to_dict(self) -> dict[str, Any]:
        """Return the table and what was simulated as plain values, for JSON."""
        return {
            "program": self.name,
            "name": self.called or self.name,
            "designs": records_of(self.table()),
            "effects": dict(self.effects),
            "values": dict(self.values),
            "interval": self.interval,
            "region": self.region,
            "sims": self.sims,
            "seed": self.seed,
            "engine": self.engine,
            "notes": self.notes,
            "folder": str(self.batch.folder),
        }

    def save(self, figures: Mapping[str, Any] | None = None) -> None:
        """Write the record, the table and figures to the folder of the batch.

        Parameters
        ----------
        figures : mapping of str to matplotlib.figure.Figure, optional
            Figures by file name.

        Raises
        ------
        ConfigError
            If the folder holds a file of the same name that pyflowers did not write.
        """
        made = {**self.files(), **(figures or {})}
        FILES.write(self.batch.folder, {"kind": self.holds, **self.to_dict()}, made)


def _error_of_share(is_so: pd.Series[bool]) -> float:
    """Return the standard error of a share; for 0 and 1, one success and one failure are added."""
    share = (is_so.sum() + 1) / (len(is_so) + 2) if is_so.nunique() == 1 else is_so.mean()
    return float(np.sqrt(share * (1 - share) / len(is_so)))


def of_fit(fit: Fit, names: Sequence[str], interval: float) -> dict[str, Any]:
    """Return the intervals for some elements of a fit, with a row for each element.

    Parameters
    ----------
    fit : Fit
        The fit to simulated data.
    names : sequence of str
        Elements, such as ``b[x]``.
    interval : float
        Probability of the interval.
    """
    ends = [level for name, level in interval_quantiles(interval).items() if name != "median"]
    draws = [_draws_of(fit, name) for name in names]
    low, high = np.quantile(draws, ends, axis=1)
    return {"parameter": list(names), "low": low, "high": high, "median": np.median(draws, axis=1)}


def _draws_of(fit: Fit, name: str) -> NDArray[np.float64]:
    """Return all draws of an element."""
    quantity = fit.posterior[name.partition("[")[0]]
    return np.asarray(flat(quantity)[..., element_names(quantity).index(name)], float).ravel()


def sizes(given: int | str | Sequence[int], what: str) -> tuple[int, ...]:
    """Return sizes from a number, a list, or text such as ``5,10`` or ``20:80:20``.

    Raises
    ------
    ConfigError
        If a size is not a whole number of at least 1; the message names the option.
    """
    parts: Sequence[Any] = given if isinstance(given, list | tuple) else [given]
    if isinstance(given, str):
        parts = [each for part in given.split(",") for each in _stretch(part, what)]
    for each in parts:
        whole_number(what, each)
    return tuple(dict.fromkeys(map(int, parts)))


def _stretch(part: str, what: str) -> Sequence[int]:
    """Return the sizes in text such as ``10`` or ``20:80:20``, including the end."""
    try:
        numbers = [int(each) for each in part.split(":")]
        start, stop, step = numbers if len(numbers) == 3 else (numbers[0], numbers[-1], 1)
        if len(numbers) > 3 or step < 1 or stop < start:
            raise ValueError(part)
    except ValueError as error:
        raise ConfigError(
            f"{what}: {part.strip()!r} is not a size; write whole numbers such as 20,40, or "
            "start:stop:step, as in 20:80:20"
        ) from error
    return range(start, stop + 1, step)


@takes_inputs(*INPUTS)
def design(
    program: str | Path | Program | Spec,
    data: Any = None,
    *,
    out: str | Path,
    effects: Mapping[str, float],
    rows: int | str | Sequence[int],
    groups: int | str | Sequence[int] | None = None,
    unit: str | None = None,
    region: tuple[float, float] | None = None,
    sims: int = 200,
    executor: Any = None,
    workers: int | None = None,
    **inputs: Any,
) -> Design:
    """Simulate studies of several sizes, fit each, and show how precise their results are.

    The model is fitted to pilot data. The simulations use the posterior medians of that fit,
    except for the parameters in `effects`, and draw new groups from the population. A second run
    with the same inputs continues where the first stopped. A run with more simulations keeps the
    existing ones.

    Parameters
    ----------
    program : str, Path, Program or Spec
        A program that can predict rows, as every formula can.
    data : path, DataFrame or mapping
        The pilot data, from which the designs take their covariates.
    out : path
        The folder of the batch; see :func:`pyflowers.batch`.
    effects : mapping of str to float
        The parameters of interest, such as ``{"b[x]": 0.3}``, and their true values. The other
        parameters are not changed; an intercept is still the value at covariates of 0.
    rows : int, str or sequence of int
        The numbers of rows in each group or, without groups, in the table: ``[5, 10]``, ``"5,10"``
        or ``"10:50:10"``, which includes its end.
    groups : int, str or sequence of int, optional
        The numbers of groups, written in the same way.
    unit : str, optional
        The column of these groups. Default: the only column that has group effects.
    region : (low, high), optional
        A region, such as one of practical equivalence: the share of intervals within it is shown.
    sims : int
        Number of data sets for each design.
    executor : Pool, distributed.Client or Cluster, optional
        Where to fit; see :func:`pyflowers.batch`. Default: the cores of this machine.
    workers : int, optional
        Number of processes on this machine. Default: the usable cores.
    **inputs

    Returns
    -------
    Design
        The table of widths and shares, and the fits.

    Raises
    ------
    ConfigError
        If no data can be simulated, there is no such parameter, or a size cannot be used.
    PyflowersError
        If the pilot data cannot be fitted.

    See Also
    --------
    pyflowers.sbc : Check the computation by simulation.

    References
    ----------
    Gelman and Carlin (2014), Beyond power calculations, Perspectives on Psychological Science 9(6);
    Kruschke and Liddell (2018), The Bayesian New Statistics, Psychonomic Bulletin & Review 25.

    Examples
    --------
    Few simulations keep the example short; a real study takes several hundred.

    >>> import pyflowers
    >>> formula, rats = "weight ~ age + (1 | rat)", "examples/rats/rats.csv"
    >>> found = pyflowers.design(formula, rats, out="design", groups=[5, 20], rows=5,
    ...                          effects={"b[age]": 6}, sims=3, seed=1)
    >>> bool(found.table()["width"].is_monotonic_decreasing)
    True
    """
    sims = whole_number("sims", sims)
    FILES.check(out)
    all_rows = sizes(rows, "rows")
    all_groups = () if groups is None else sizes(groups, "groups")
    spec = Spec.of_call(program, data, **inputs)
    seed = spec.seed
    if seed is None:
        with suppress(ConfigError):  # without an earlier run, a new seed is drawn below
            seed = Batch(Path(out)).seed
    spec = Spec.of_call(spec, seed=new_seed() if seed is None else seed)
    pilot = _pilot(spec.with_table())
    _refuse(pilot, effects, region)
    column = _column_of_groups(pilot, unit, all_groups)
    at, others = _true_values(pilot, effects)
    _refuse_impossible(pilot, effects, at)
    designs = tuple((g, n) for g in all_groups or (0,) for n in all_rows)
    tasks = _Tasks(pilot, spec, column, designs, at, sims, tuple(effects))
    engine = pilot.record.engine.find() if spec.engine == "auto" else spec.engine
    made = batch(
        tasks,
        out=out,
        seed=pilot.options.seed,
        engine=engine,
        cmdstan=None if spec.engine == "auto" else spec.cmdstan,
        executor=executor,
        workers=workers,
    )
    notes: tuple[str, ...] = ()
    if not pilot.verdict.passed:
        notes = (f"the fit to the pilot data: {pilot.verdict.sentence}",)
    found = Design(
        made,
        pilot.program.name,
        dict(effects),
        others,
        pilot.interval,
        region,
        designs,
        column,
        sims,
        pilot.options.seed,
        pilot.record.engine.name,
        notes,
        called=pilot.record.name or pilot.program.called_in_full,
    )
    found.save()
    return found


def _pilot(spec: Spec) -> Fit:
    """Fit the pilot data, with independent draws if the program and the inputs allow it."""
    if spec.engine == "auto":
        with suppress(PyflowersError):
            fit = sampled(spec, engine="exact")
            if fit.diagnostics.passed:
                return fit
    return sampled(spec)


def _refuse(pilot: Fit, effects: Mapping[str, float], region: Any) -> None:
    """Reject a model from which no data can be simulated, and unknown parameters."""
    model, name = pilot.model, pilot.called
    if not model.predicts_rows:
        raise ConfigError(
            f"design: {name} cannot predict rows of a table, so no data can be simulated; use a "
            "formula, or declare [prediction]"
        )
    if imputed := list(model.imputed.values()):
        raise ConfigError(
            f"design: missing values of {in_words(imputed)} are imputed in the pilot data, but "
            "simulated tables have no missing values; leave mi() out of the formula, and fit with "
            "--drop-missing"
        )
    if model.terms_not_predicted:
        terms = in_words(model.terms_not_predicted)
        raise ConfigError(
            f"design: the response of {name} has {terms}, so its data cannot be simulated; leave "
            f"{terms} out of the formula"
        )
    if model.has_categories and not pilot.data.counted:
        raise ConfigError(
            f"design: the categories of {pilot.data.response_name} have no order, and their data "
            "are not simulated; make a column that is 1 for one of them and 0 for the others, and "
            "use family bernoulli"
        )
    if not effects:
        raise ConfigError("design: no effect is given; give at least one, such as b[x]=0.3")
    known = [
        e
        for n, its in pilot.posterior.items()
        if not str(n).startswith("r_")
        for e in element_names(its)
    ]
    for effect, value in effects.items():
        if effect not in known:
            raise ConfigError(
                f"effect: {name} has no parameter {effect!r}; {suggestion(effect, known)}"
            )
        read = _read_by_predictions(pilot)
        if effect.partition("[")[0] not in read:
            others = shortened([e for e in known if e.partition("[")[0] in read])
            raise ConfigError(
                f"effect: responses are not simulated from {effect}, so its value would change "
                f"nothing; name another parameter: {others}"
            )
        if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
            raise ConfigError(f"effect: {effect} must be a number, got {value!r}")
    if region is not None and not (len(region) == 2 and region[0] < region[1]):
        raise ConfigError(f"region must be two numbers, the smaller first, got {region!r}")


def _read_by_predictions(pilot: Fit) -> set[str]:
    """Return the names of the quantities from which responses are simulated."""
    return names_of(pilot.model.rule) | {each.name for each in pilot.model.family.auxiliary}


def _column_of_groups(pilot: Fit, unit: str | None, groups: Sequence[int]) -> str:
    """Return the column of the groups whose number is chosen; empty if there are no groups."""
    known = list(dict.fromkeys(each for n in pilot.model.groups for each in n.split(":")))
    if not known:
        if groups or unit:
            raise ConfigError(
                f"groups: {pilot.name} has no group effects, so only the number of rows can be "
                "chosen; leave out the options groups and unit"
            )
        return ""
    if not groups:
        raise ConfigError(
            f"groups: {pilot.name} has effects that vary by {in_words(known)}; give the number of "
            "groups"
        )
    if unit is None and len(known) > 1:
        raise ConfigError(
            f"unit: {pilot.name} has effects that vary by {in_words(known)}; name the column whose "
            "number of groups the design sets"
        )
    if unit is not None and unit not in known:
        raise ConfigError(f"unit: no effects vary by {unit!r}; {suggestion(unit, known)}")
    column = unit or known[0]
    if column in pilot.model.covariates_and_offsets:
        raise ConfigError(
            f"groups: {column} is also a covariate, for which a new group has no value; copy "
            f"the column under another name, such as {column}_group, and use this name for the "
            "group"
        )
    return column


def _true_values(
    pilot: Fit, effects: Mapping[str, float]
) -> tuple[dict[str, NDArray[np.float64]], dict[str, float]]:
    """Return the value of each quantity, and the elements that the user did not set."""
    blocks, at, others = pilot.program.source.blocks, dict[str, NDArray[np.float64]](), {}
    for name, draws in pilot.draws.items():
        at[name] = np.median(draws, axis=(0, 1))
        variable = blocks.parameters.get(name)
        if variable is not None and variable.kind == "simplex":  # medians need not sum to 1
            at[name] = at[name] / at[name].sum(axis=-1, keepdims=True)
    of_units, read = pilot.model.is_of_units, _read_by_predictions(pilot)
    for key, quantity in pilot.posterior.items():
        name, elements = str(key), element_names(quantity)
        values = np.array(at[name], float)
        flattened = values.reshape(-1)
        for i, element in enumerate(elements):
            if element in effects:
                flattened[i] = effects[element]
            elif name in read and not of_units(list(map(str, quantity.dims[2:]))):
                others[element] = float(flattened[i])
        at[name] = values
    return at, others


def _refuse_impossible(
    pilot: Fit, effects: Mapping[str, float], at: Mapping[str, NDArray[np.float64]]
) -> None:
    """Reject values that the parameters cannot have, although data could be simulated from them."""
    declared = pilot.program.source.blocks.parameters
    for effect, value in effects.items():
        name = effect.partition("[")[0]
        variable = declared.get(name) or declared.get(f"{name}_at_means")
        if variable is None:
            continue
        if variable.lowest is not None and value < variable.lowest:
            raise ConfigError(f"effect: {effect} is {value:g}, but must be ≥ {variable.lower}")
        if variable.highest is not None and value > variable.highest:
            raise ConfigError(f"effect: {effect} is {value:g}, but must be ≤ {variable.upper}")
        if variable.kind == "ordered" and (np.diff(at[name]) <= 0).any():
            values = ", ".join(f"{each:.3g}" for each in at[name])
            raise ConfigError(
                f"effect: with {effect} = {value:g}, the elements of {name} do not increase "
                f"({values}); also set the other elements"
            )


@dataclass(frozen=True)
class _Tasks:
    """The tasks of all designs, which are created one by one."""

    pilot: Fit
    spec: Spec
    column: str
    designs: Sequence[tuple[int, int]]
    at: Mapping[str, NDArray[np.float64]]
    sims: int
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.designs) * self.sims

    def __iter__(self) -> Iterator[Task]:
        given = self.spec.model_fields_set - _OF_PILOT - {"program", "data"}
        how = {name: getattr(self.spec, name) for name in given}
        if not is_formula(self.spec.program):
            how |= {
                name: getattr(self.spec, name) for name in ("group", "time", "value", "columns")
            }
        options = {"names": list(self.names), "interval": self.pilot.interval}
        keep = (Keep(f"{of_fit.__module__}:of_fit", options, KEPT),)
        observed = self.pilot.data.counted or (self.pilot.data.response_name,)
        for groups, rows in self.designs:
            table = self._design(groups, rows)
            for i, y in enumerate(self._responses(table, [groups, rows])):
                responses = dict(zip(observed, map(self._in_table, np.atleast_2d(y)), strict=True))
                spec = Spec(self.spec.program, table.assign(**responses), **how)
                yield Task(spec, name=f"{groups}x{rows}/{i + 1}", repeat=i, keep=keep)

    def _design(self, groups: int, rows: int) -> pd.DataFrame:
        """Return the covariates of a design, with new labels for its groups."""
        rng = np.random.default_rng([self.pilot.options.seed, 7, groups, rows])
        frame = _columns_of(self.pilot)
        if not self.column:
            return frame.iloc[_in_turn(np.arange(len(frame)), rows, rng)].reset_index(drop=True)
        of_label = frame.groupby(self.column, sort=True, observed=True).indices
        labels = np.array(list(of_label), dtype=object)
        parts = []
        for number, place in enumerate(_in_turn(np.arange(len(labels)), groups, rng), 1):
            its = np.asarray(of_label[labels[place]])
            part = frame.iloc[_in_turn(its, rows, rng)]
            parts.append(part.assign(**{self.column: f"n{number}"}))
        made = pd.concat(parts, ignore_index=True)
        others = {each for name in self.pilot.model.groups for each in name.split(":")}
        for name in others - {self.column, *self.pilot.model.covariates_and_offsets}:
            made[name] = "n" + made[name].astype(str)  # their effects are also redrawn
        return made

    def _in_table(self, y: NDArray[Any]) -> Any:
        """Return simulated responses as a table has them, with ratings that are text as labels."""
        labels = self.pilot.data.labels.get(self.pilot.data.value)
        if labels is None or np.isfinite([number_of(name) for name in labels.names]).all():
            return y
        return pd.Categorical(np.array(labels.names)[y - 1], list(labels.names), ordered=True)

    def _responses(self, table: pd.DataFrame, size: Sequence[int]) -> Iterator[NDArray[Any]]:
        """Yield the simulated responses of a design."""
        is_int = self.pilot.program.source.blocks.data[self.pilot.data.observed].is_int
        for first in range(0, self.sims, BLOCK):
            draws = {
                name: np.broadcast_to(value, (1, BLOCK, *value.shape))
                for name, value in self.at.items()
            }
            fit = replace(self.pilot, draws=draws, stats={})
            seed = np.random.SeedSequence([self.pilot.options.seed, 8, *size, first])
            state = int(seed.generate_state(1, np.uint32)[0])
            try:
                made = predict(fit, table, kind="observation", groups="data", seed=state)
                simulated = np.asarray(made.draws())[0]
            except np.linalg.LinAlgError as error:
                raise ConfigError(
                    "effect: with these values, the correlations of the effects of a group are "
                    "impossible; change them, or also set the other correlations"
                ) from error
            for y in simulated[: self.sims - first]:
                yield y.astype(np.int64) if is_int else y


def _columns_of(pilot: Fit) -> pd.DataFrame:
    """Return the user's columns: numbers as numbers, even if they also label cells or groups.

    Columns such as ``g:x``, which pyflowers joins from others, are left out. With new labels of g,
    they would hold the labels of the pilot's groups.
    """
    frame, table = to_frame(pilot.data), pilot.data.table
    assert table is not None
    names = set(table.columns)
    joined = [name for name in names if ":" in name and names.issuperset(name.split(":"))]
    for name in names & set(pilot.model.covariates_and_offsets):
        if not table.is_factor(name):
            frame[name] = table.numbers(name)
    return frame.drop(columns=joined)


def _in_turn(places: NDArray[np.int64], num: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return `num` places; each of `places` occurs about equally often among them.

    Each pass through the places is in a new random order.
    """
    turns = -(-num // len(places))
    return np.concatenate([rng.permutation(places) for _ in range(turns)])[:num]
