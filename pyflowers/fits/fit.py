"""A fitted program: draws with the user's labels, and the record of the fit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers import convergence
from pyflowers.advice import Advice, is_in_shell, worded
from pyflowers.display import (
    Line,
    Result,
    in_file,
    interval_quantiles,
    records_of,
    styled,
    whole,
)
from pyflowers.engines import SamplerOptions
from pyflowers.engines.base import Keep, State
from pyflowers.errors import ConfigError, DataError
from pyflowers.fits import idata as inference_data
from pyflowers.fits.commands import command_of
from pyflowers.fits.diagnostics import FAR, after_trials, diagnose, examine_prior, with_remedy
from pyflowers.fits.folder import (
    CHAINS,
    DIAGNOSTICS,
    DRAWS,
    FILE,
    PLOTS,
    RUN_FOLDER,
    SUMMARY,
    RunRecord,
    SavedRun,
    declared_now,
    program_of,
    reading_run,
    refuse_other_run,
    summary_of,
)
from pyflowers.fits.methods import Questions
from pyflowers.fits.posterior import (
    Rounded,
    dataset,
    kept_elements,
    own_dims,
    stacked,
    summarize,
    without_draws,
)
from pyflowers.fits.spec import Spec
from pyflowers.fits.states import states_of, states_to_bytes
from pyflowers.fits.verdict import Part, Verdict
from pyflowers.programs import Capability, Data, Model, Program
from pyflowers.programs.program import is_formula
from pyflowers.programs.stated_priors import prior_table
from pyflowers.progress import logger
from pyflowers.records import as_path
from pyflowers.resources import in_arviz
from pyflowers.storage import new_folder
from pyflowers.text import and_more, counted

if TYPE_CHECKING:
    import xarray as xr

LARGEST_GROUP = 25_000_000
"""The largest number of values of ``log_likelihood`` or a similar group in ``Fit.idata``."""


class _Draws(dict[str, NDArray[np.float64]]):
    """Draws by quantity; the error for any other key lists the quantities."""

    def __missing__(self, name: object) -> NDArray[np.float64]:
        whole = str(name).partition("[")[0]
        of_whole = f"draws[{whole!r}][..., i] holds element i of posterior[{whole!r}]"
        message = f"{name} is not a quantity; there are draws of {', '.join(self)}"
        if whole in self:
            message += f"; {of_whole}"
        raise KeyError(message)


@dataclass(frozen=True, eq=False, repr=False)
class Fit(Questions, Result):
    """A fitted program: its draws with the user's labels, and the record of the fit.

    Attributes
    ----------
    program : Program
        The program that was fitted.
    data : Data
        The data to which the program was fitted, without the rows in which a predictor is imputed.
    draws : mapping of str to array, shape (chain, draw, …)
        Draws of every quantity that was kept, including predictions, in the quantity's unit.
    stats : mapping of str to array, shape (chain, iteration)
        Sampler statistics under Stan's names; empty without Markov chains.
    record : RunRecord
        Program, data, engine, options, priors, versions, times and messages, as in ``run.json``.
    streamed : DataFrame or None
        The rows of the summary for quantities that were summarised during sampling. For these
        quantities, `draws` has only the elements named in ``options.keep``. None if all draws were
        kept.
    folder : Path or None
        The run folder from which the fit was loaded, or to which it was written after sampling;
        None otherwise.
    states : mapping of str to State
        Under ``end``, the last states of the chains, with their adapted step sizes and metrics;
        :meth:`update` with ``warm=True`` starts from them. Under ``start``, the states of another
        fit from which the chains started, if they did.

    See Also
    --------
    pyflowers.fit : Sample the posterior of a program.

    Examples
    --------
    Read the results, with labels from the table:

    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="stanli")
    >>> fit
    <pyflowers.Fit of multilevel_poisson: 4 chains × 1,000 draws of mu, ...; seed 1>
    >>> list(fit.summary("mu_plant").index)
    ['mu_plant[1]', 'mu_plant[2]', 'mu_plant[3]']
    >>> list(fit.with_interval(0.95).summary("mu").columns[:3])
    ['median', '2.5%', '97.5%']

    Use the draws in NumPy or ArviZ. Plant 3 almost surely has a higher rate than plant 2:

    >>> rates = fit.draws["mu_plant"]
    >>> bool((rates[..., 2] > rates[..., 1]).mean() > 0.99)
    True
    >>> fit.log_likelihood().shape, fit.posterior_predictive().shape
    ((4, 1000, 12), (4, 1000, 12))
    >>> list(fit.groups())[:3]
    ['posterior', 'sample_stats', 'observed_data']

    Examine the fit. The functions of ``pyflowers`` whose first argument is a fit, such as
    :func:`pyflowers.check`, are also its methods:

    >>> fit.check().passed, fit.loo().table().shape[0]
    (True, 1)
    >>> figure = fit.plot_trace()
    >>> fit.priors["prior"].tolist()
    ['normal(0, 100)', 'scaled_inv_chi_square(1, 2)']

    Save the fit, and load it in another session:

    >>> folder = fit.save("runs/poisson")
    >>> again = pyflowers.Fit.load(folder)
    >>> again.summary().equals(fit.summary())
    True
    """

    holds: ClassVar[str] = "run folder"

    program: Program
    data: Data
    draws: Mapping[str, NDArray[np.float64]]
    stats: Mapping[str, NDArray[np.float64]]
    record: RunRecord
    streamed: pd.DataFrame | None = None
    folder: Path | None = None
    states: Mapping[str, State] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "draws", _Draws(self.draws))
        object.__setattr__(self, "data", self.data.complete())

    @property
    def whole(self) -> Data:
        """The data of the fit, with the rows in which a predictor is imputed."""
        return self.data.with_all_rows

    @property
    def name(self) -> str:
        """The name that the fit was given, or else the name of its program."""
        return self.record.name or self.program.name

    @property
    def called(self) -> str:
        """The name of the fit as it is printed: its own name, the formula or the program's name."""
        return self.record.name or self.program.called

    @property
    def heading(self) -> tuple[str, ...]:
        """The first line of a result: the fit's name, if it has one, and the model."""
        if self.record.name:
            return (styled(self.record.name, bold=True), "  ", *self.program.head)
        return self.program.head

    @cached_property
    def model(self) -> Model:
        """The program with its data, which provides the likelihood and the roles of columns."""
        return Model(self.program, self.data)

    @property
    def options(self) -> SamplerOptions:
        """The options of the sampler."""
        return self.record.options

    @property
    def priors(self) -> pd.DataFrame:
        """The prior of each parameter, with the hyperparameters of this fit.

        See :attr:`pyflowers.Program.priors` for the columns; ``default`` is ``no`` where the fit
        was given another prior.
        """
        usual = self.program.priors
        found = prior_table(self.program, self.program.prior_values(self.record.priors))
        found.loc[found["prior"] != usual["prior"], "default"] = "no"
        return found

    @property
    def interval(self) -> float:
        """Probability of the central intervals in tables and figures."""
        return self.record.interval

    def with_interval(self, interval: float | None) -> Fit:
        """Return this fit with tables and figures that show another interval.

        Parameters
        ----------
        interval : float or None
            Probability of the central interval, such as 0.95. None changes nothing.

        Returns
        -------
        Fit
            A fit with the same draws.

        Raises
        ------
        ConfigError
            If the interval is not between 0 and 1, or quantiles were computed during sampling.
        """
        if interval is None or interval == self.interval:
            return self
        interval_quantiles(interval)
        if self.streamed is not None:
            raise ConfigError(
                f"interval: {self.called} was summarised during sampling, with an interval of "
                f"{self.interval:g}, and not all draws were kept; refit it with an interval of "
                f"{interval:g}"
            )
        return replace(self, record=self.record.model_copy(update={"interval": interval}))

    def with_name(self, name: str | None) -> Fit:
        """Return this fit under another name.

        Parameters
        ----------
        name : str or None
            The name of the fit in tables and figures; see :func:`pyflowers.fit`. None changes
            nothing.

        Returns
        -------
        Fit
            A fit with the same draws.

        Raises
        ------
        ConfigError
            If the name is empty, too long, or cannot name a folder.

        Examples
        --------
        >>> import pyflowers
        >>> fit = pyflowers.fit("iid_normal", seed=1, engine="exact")
        >>> pyflowers.loo([fit.with_name("one mean")]).table().index.tolist()
        ['one mean']
        """
        if name is None or name == self.record.name:
            return self
        name = Spec(self.program, name=name).name
        return replace(self, record=self.record.model_copy(update={"name": name}))

    @cached_property
    def posterior(self) -> xr.Dataset:
        """The draws with the user's labels, without predictions or log densities."""
        internal = self.program.internal
        own = {name: values for name, values in self.draws.items() if name not in internal}
        return dataset(own, self.whole, self._keep)

    @cached_property
    def _keep(self) -> Keep:
        """The result of :func:`kept_elements`, or an empty mapping if all draws were kept."""
        if self.is_partial:
            return kept_elements(self.options.keep, self.program, self.whole)
        return {}

    @property
    def is_partial(self) -> bool:
        """Whether some quantities have only a summary, or draws of only a few elements."""
        return self.streamed is not None

    @property
    def num_chains(self) -> int:
        """Number of chains."""
        return int(next(iter((self.stats or self.draws).values())).shape[0])

    @property
    def num_draws(self) -> int:
        """Number of kept draws per chain."""
        return int(next(iter((self.draws or self.stats).values())).shape[1])

    @property
    def kept_stats(self) -> dict[str, NDArray[np.float64]]:
        """The sampler statistics of the draws that thinning kept, shape (chain, draw)."""
        return {name: its[:, :: self._step_of(its)] for name, its in self.stats.items()}

    def _step_of(self, values: NDArray[np.float64]) -> int:
        """Return the step that thins `values` to the kept draws; 1 if there are equally many."""
        if values.shape[1] > self.num_draws:
            return self.options.thin
        return 1

    @property
    def num_predictions(self) -> int:
        """Number of values in ``log_likelihood``: chains × draws × observations."""
        return self.num_chains * self.num_draws * self.data.num_obs

    @property
    def is_in_likelihood(self) -> NDArray[np.bool_]:
        """Whether each observation is in the likelihood rather than held out; shape (N,)."""
        held_out = np.asarray(self.data.values.get(self.program.declaration.roles.held_out, 0))
        return np.broadcast_to(held_out == 0, (self.data.num_obs,))

    @cached_property
    def idata(self) -> Any:
        """The whole fit as ``arviz.InferenceData``, or with ArviZ 1 as ``xarray.DataTree``.

        If the program computes ``log_likelihood`` and ``posterior_predictive`` in Python, these
        groups are included only if each has at most :data:`LARGEST_GROUP` values. If they are
        larger, they are left out, and a warning is logged; call the methods of the same names
        instead.
        """
        if self.omitted_groups and not self.is_partial:
            logger.warning(
                "%s: idata has no %s, as each would have %s values, more than %s; call the fit's "
                "methods of the same names, or fit with fewer draws",
                self.called,
                " and no ".join(self.omitted_groups),
                f"{self.num_predictions:,}",
                f"{LARGEST_GROUP:,}",
            )
        return in_arviz(self.groups())

    def groups(self) -> dict[str, xr.Dataset]:
        """Return the groups of ``idata``.

        Returns
        -------
        dict of str to xarray.Dataset
            The datasets by group, such as ``posterior`` and ``log_likelihood``.
        """
        found = inference_data.to_groups(
            self.program, self.whole, self.draws, self.stats, self._keep, self.kept_stats
        )
        if self.num_predictions <= LARGEST_GROUP:
            for capability, group, values in (
                (Capability.LOG_LIK, "log_likelihood", self.log_likelihood),
                (Capability.Y_REP, "posterior_predictive", self.posterior_predictive),
            ):
                if self.program.can(capability) and self.data.num_obs and group not in found:
                    found[group] = inference_data.pointwise(values(), self.data)
        return found

    @property
    def omitted_groups(self) -> tuple[str, ...]:
        """Groups left out of ``idata``, as they are too large or need draws that were not kept."""
        fits = self.num_predictions <= LARGEST_GROUP and not self.is_partial
        if fits or not self.model.evaluates:
            return ()
        return ("log_likelihood", "posterior_predictive")

    def log_likelihood(self) -> NDArray[np.float64]:
        """Return the log likelihood of each observation in each draw.

        Returns
        -------
        array, shape (chain, draw, N)
            log p(y[n] | draw).

        Raises
        ------
        ConfigError
            If the program has no ``log_lik``, or not all draws were kept.
        """
        return self.model.log_lik(self.draws)

    def posterior_predictive(self) -> NDArray[np.float64]:
        """Return replicated data, one data set for each draw.

        Returns
        -------
        array, shape (chain, draw, N)
            Values in the unit of the observed data. Every call returns the same values.

        Raises
        ------
        ConfigError
            If the program has no ``y_rep``, or not all draws were kept.
        """
        rng = np.random.default_rng([self.options.seed, 1])
        return self.model.y_rep(self.draws, rng)

    def summary(
        self,
        names: str | Sequence[str] | None = None,
        *,
        interval: float | None = None,
        all: bool = False,  # noqa: A002
    ) -> pd.DataFrame:
        """Return the summary table of the posterior.

        Parameters
        ----------
        names : str or sequence of str, optional
            Quantities such as ``mu_plant``, and elements such as ``mu_plant[2]``. Default: all,
            except, for a formula, quantities with a row for each group or coefficient of a curve.
        interval : float, optional
            Probability of the central interval that is shown. Default: the fit's interval.
        all : bool
            Whether to include every element of every quantity.

        Returns
        -------
        DataFrame
            A row for each element: ``median``, the ends of the interval (such as ``5%`` and
            ``95%``), ``mean``, ``sd``, ``mcse_mean``, ``ess_bulk``, ``ess_tail`` and ``r_hat``; see
            :func:`pyflowers.fits.posterior.summarize`.

        Raises
        ------
        ConfigError
            If there is no such quantity, or the interval is rejected; see :meth:`with_interval`.
        """
        table = self.with_interval(interval)._summary
        if names is None and (all or not self.group_effects):
            return Rounded.of(table)
        if names is None:
            of_effects = [str(row).partition("[")[0] in self.group_effects for row in table.index]
            return Rounded.of(table[~np.array(of_effects)])
        chosen: list[str] = []
        for name in [names] if isinstance(names, str) else names:
            rows = [row for row in table.index if name in (row, row.partition("[")[0])]
            if not rows:
                known = ", ".join(dict.fromkeys(row.partition("[")[0] for row in table.index))
                raise ConfigError(f"summary: {self.called} has no {name!r}; it has {known}")
            chosen += rows
        return Rounded.of(table.loc[chosen])

    @cached_property
    def group_effects(self) -> tuple[str, ...]:
        """The quantities that have a value for each group, or for each coefficient of a curve.

        Only formulas have them. Tables leave them out unless all rows are requested.
        """
        if self.program.declaration.formula is None:
            return ()
        dims = {name: self.data.dims.get(name, ()) for name in self.draws}
        dims |= {str(name): own_dims(quantity) for name, quantity in self.posterior.items()}
        return tuple(name for name, its in dims.items() if self.model.is_of_units(its))

    @cached_property
    def _summary(self) -> pd.DataFrame:
        missing = self.program.missing_moments(self.data)
        return summarize(self.posterior, missing, self.streamed, self.interval)

    @cached_property
    def diagnostics(self) -> Part:
        """The checks of the sampling; see :func:`pyflowers.fits.diagnostics.diagnose`."""
        groups = {*self.data.labels, *map(self.data.name_of, self.data.labels)}
        found = diagnose(
            self.posterior,
            self.stats,
            self._summary,
            self.options,
            self.record.independent,
            [str(n) for n, its in self.posterior.items() if groups & {*map(str, its.dims)}],
        )
        found = with_remedy(found, self.program.python.rescaling(self.data, FAR))
        if self.record.trials:
            found = after_trials(found, self.record.trials)
        return self._advised(found)

    def _advised(self, part: Part, others: Sequence[str] = ()) -> Part:
        """Return a part with complete commands in its advice; `others` are earlier commands."""
        checks, given = list(part.checks), list(others)
        for i, check in enumerate(checks):
            if not check.passed:
                checks[i] = replace(check, advice=self.advised(check.advice, given))
                given.append(checks[i].command)
        return replace(part, checks=tuple(checks))

    def advised(self, advice: str, others: Sequence[str] = ()) -> str:
        """Return advice on this fit with the complete command that carries it out, if there is one.

        Parameters
        ----------
        advice : str
            The advice; only an :class:`pyflowers.advice.Advice` has a command.
        others : sequence of str
            Commands that were already given; a command with other inputs writes to a different run
            folder.

        Returns
        -------
        str
            The advice, with its command.

        Examples
        --------
        >>> import pyflowers
        >>> from pyflowers.advice import Advice
        >>> fit = pyflowers.fit("iid_normal", seed=1, engine="exact")
        >>> fit.advised(Advice("take more draws", draws=2000)).command
        'pyflowers.fit("iid_normal", seed=1, engine="exact", draws=2000)'
        """
        if not isinstance(advice, Advice):
            return worded(advice)
        return advice.with_command(command_of(self, advice, others=others))

    @property
    def has_replicates(self) -> bool:
        """Whether there are replicated data, ``y_rep``, to compare the data with."""
        return self.program.can(Capability.Y_REP) and self.program.can(Capability.OBSERVED)

    @cached_property
    def verdict(self) -> Verdict:
        """The verdict on the fit; :func:`pyflowers.check` examines its third part, the data."""
        if self.has_replicates:
            note = "to examine it, run pyflowers check"
            if not is_in_shell():
                note = "to examine it, call pyflowers.check(fit)"
        else:
            note = "there are no replicated data, y_rep, to compare the data with"
        draws: Mapping[str, NDArray[np.float64]] | None = None
        if not self.is_partial:
            draws = self.draws
        given = [check.command for check in self.diagnostics.checks]
        prior = self._advised(examine_prior(self.model, self._summary, draws), given)
        verdict = Verdict(self.diagnostics, Part("prior"), Part("data", note=note))
        return verdict.also(prior)

    def save(
        self,
        folder: str | Path,
        plots: Mapping[str, Any] | None = None,
        *,
        overwrite: bool = False,
    ) -> Path:
        """Write a run folder.

        Parameters
        ----------
        folder : str or Path
            The folder. An earlier run in it is replaced if it had the same inputs: program with
            declaration, data, priors, parametrisation, engine, options, initial values and seed.
        plots : mapping of str to matplotlib.figure.Figure or bytes, optional
            Figures, or the bytes of images, by file name.
        overwrite : bool
            Whether to also replace a run that had other inputs.

        Returns
        -------
        Path
            The run folder.

        Raises
        ------
        ConfigError
            If the folder holds other files or a run with other inputs, or cannot be written.
        """
        target = as_path(folder, "a run folder")
        record = self.record.model_copy(update={"omitted_groups": self.omitted_groups})
        verdict = json.dumps(self.verdict.to_dict(), indent=2, ensure_ascii=False)
        draws = inference_data.to_bytes(self.groups())
        with new_folder(target, RUN_FOLDER) as new:
            (new / DRAWS).write_bytes(draws)
            if self.states:
                (new / CHAINS).write_bytes(states_to_bytes(self.states))
            self.summary(all=True).to_csv(new / SUMMARY, index_label="parameter")
            (new / DIAGNOSTICS).write_text(verdict + "\n", encoding="utf-8")
            (new / FILE).write_text(record.to_json(), encoding="utf-8")
            (new / PLOTS).mkdir()
            for name, figure in (plots or {}).items():
                if isinstance(figure, bytes):
                    (new / PLOTS / name).write_bytes(figure)
                else:
                    figure.savefig(new / PLOTS / name, dpi=150)
            if not overwrite:  # checked last, as another process may have written a run meanwhile
                refuse_other_run(target, record)
        return target

    @classmethod
    def load(cls, folder: str | Path) -> Fit:
        """Read a run folder that :meth:`save` wrote.

        The fit has the recorded declaration. Roles and parameters that have since been added or
        changed in the declaration file also apply, if the text of the program has not changed.

        Parameters
        ----------
        folder : str or Path
            The run folder.

        Returns
        -------
        Fit
            The fit, with the same draws, labels and record.

        Raises
        ------
        DataError
            If the folder is not a run folder, is damaged, or was written by another version.
        """
        with reading_run(as_path(folder, "a run folder", DataError)) as run:
            return fit_of(run)

    def __repr__(self) -> str:
        names = ", ".join(name for name in self.draws if name not in self.program.internal)
        # With 100,000 groups the diagnostics take a minute, so they must not be computed when a
        # debugger shows the fit.
        judged = ""
        if "diagnostics" in self.__dict__:
            judged = f"; diagnostics {self.diagnostics.status}"
        return (
            f"<pyflowers.Fit of {self.called}: {self._size} draws of {names}{judged}; "
            f"seed {self.options.seed}>"
        )

    @property
    def notes(self) -> list[str]:
        """Caveats about the fit: recorded notes, notes on the response, and rejected proposals."""
        notes = [*self.record.notes, *self.model.notes_on_response()]
        messages = self.record.messages
        if not messages:
            return notes
        most = max(messages, key=messages.__getitem__)
        rejected = (
            f"Stan rejected proposals ({sum(messages.values())} in total), most often with the "
            f"message {most!r}; this is harmless if they are few and early"
        )
        return [*notes, rejected]

    def contents(self) -> list[Line]:
        """Return what was fitted, the summary without group effects, and the verdict."""
        table = self.summary()
        if num := len(self._summary) - len(table):
            table.attrs["hidden"] = f"{self.effects_counted(num)} not shown: {_in_full()}"
        return self._contents(table)

    def effects_counted(self, num: int) -> str:
        """Return a number of `group_effects` as words.

        Parameters
        ----------
        num : int
            The number of effects.

        Returns
        -------
        str
            The number with the names of the groups or, if there are curves, of the quantities.

        Examples
        --------
        >>> import pyflowers
        >>> rats = pyflowers.example("rats")
        >>> fit = pyflowers.fit("weight ~ age + (1 | rat)", rats, seed=1, engine="exact")
        >>> fit.effects_counted(len(fit.summary(all=True)) - len(fit.summary()))
        '30 effects of rat'
        """
        if self.model.rule.effects.keys() >= set(self.group_effects):
            return f"{counted(num, 'effect')} of {and_more(list(self.model.groups))}"
        return f"{counted(num, 'value')} of {and_more(self.group_effects)}"  # also of curves

    def in_full(self) -> list[Line]:
        """Return the contents with all rows of the summary."""
        return self._contents(whole(self.summary(all=True)))

    def _contents(self, table: pd.DataFrame) -> list[Line]:
        """Return what was fitted, a summary and the verdict."""
        notes = [*self._summary.attrs["notes"], *self.notes]
        if self.program.declaration.formula is not None:  # coefficients are never cut
            whole(table)
        return [
            *self.head,
            in_file(shortened_summary(table, self.interval), "summary.csv"),
            *(f"note: {note}" for note in notes),
            self.verdict.line,
        ]

    @property
    def head(self) -> list[Line]:
        """What was fitted: the formula and its family, or the program; the data and the draws."""
        formula = self.program.declaration.formula
        if formula is not None and is_formula(self.program.reference):
            parts = formula.text.split("; ")
            first = [
                (styled("Formula: ", bold=True), "\n         ".join(parts)),
                (styled("Family:  ", bold=True), formula.family),
            ]
        else:
            about = f"{self.program.name}  {self.program.about}"
            first = [(styled("Model:   ", bold=True), about)]
        if self.record.name:
            first.insert(0, (styled("Name:    ", bold=True), self.record.name))
        groups = "; ".join(f"{name}: {num:,}" for name, num in self._num_groups.items())
        size = f"{self.whole.num_obs:,} rows" + (f"; {groups}" if groups else "")
        how = f"seed {self.options.seed}, engine {self.record.engine.name}"
        return [
            *first,
            (styled("Data:    ", bold=True), f"{self.data.source or 'none'} ({size})"),
            (styled("Draws:   ", bold=True), f"{self._size} ({how})"),
        ]

    @property
    def _size(self) -> str:
        """The number of chains and of draws in each."""
        return f"{counted(self.num_chains, 'chain')} × {self.num_draws:,}"

    @property
    def _num_groups(self) -> dict[str, int]:
        """The number of groups in each grouping column."""
        labels = self.model.with_all_rows.labels
        names = list(self.model.groups) or [self.data.name_of(self.data.group)]
        return {name: len(labels[name]) for name in names if name in labels}

    def to_dict(self) -> dict[str, Any]:
        """Return the summary and the verdict as plain values, for JSON."""
        summary = self.summary(all=True)
        return {
            "program": self.program.name,
            "name": self.called,
            "run": self.folder and str(self.folder),
            "seed": self.options.seed,
            "engine": self.record.engine.name,
            "summary": records_of(summary),
            "verdict": self.verdict.to_dict(),
            "notes": [*summary.attrs["notes"], *self.notes],
        }

    def identity(self) -> dict[str, Any]:
        """Return the entries that identify this fit in the records of results.

        Returns
        -------
        dict
            ``program``, ``name``, ``run`` (the run folder, if any), ``run_seed`` and ``verdict``.

        Examples
        --------
        >>> import pyflowers
        >>> fit = pyflowers.fit("iid_normal", seed=1, engine="exact")
        >>> fit.identity()["program"], fit.identity()["run_seed"]
        ('iid_normal', 1)
        """
        return {
            "program": self.program.name,
            "name": self.called,
            "run": self.folder and str(self.folder),
            "run_seed": self.options.seed,
            "verdict": self.verdict.to_dict(),
        }


def _in_full() -> str:
    """Return how the caller gets the rows that are not shown."""
    if is_in_shell():
        return "add --all"
    return "summary(all=True)"


def shortened_summary(table: pd.DataFrame, interval: float) -> pd.DataFrame:
    """Return the columns of a summary that are printed; files and records have all columns.

    ``ess`` is the smaller of ``ess_bulk`` and ``ess_tail``.
    """
    shown = table[[*interval_quantiles(interval), "sd"]].copy()
    shown["ess"] = table[["ess_bulk", "ess_tail"]].min(axis=1, skipna=False)
    shown["r_hat"] = table["r_hat"]
    shown.attrs = dict(table.attrs)
    return shown


def refuse_same_names(fits: Sequence[Fit], what: str) -> None:
    """Reject fits with equal names, because a result on several fits identifies them by name.

    Raises
    ------
    ConfigError
        If two fits have the same name, or are fits of one program without names of their own. The
        message begins with `what`.
    """
    names = [fit.name for fit in fits]
    for fit in fits:
        if names.count(fit.name) > 1:
            raise ConfigError(
                f"{what}: two fits have the name {fit.called}; leave one out, or give each "
                f"{worded('its own --name')}"
            )


def model_names(fits: Sequence[Fit]) -> list[str]:
    """Return a name for each of several models: its own name, its family, or a number.

    The name of a formula's program is made from the formula, and is hard to read. Models without
    names of their own are called by their families if nothing else differs; otherwise, they are
    numbered.
    A single model is called by its own name, its formula or its program.
    """
    called = [fit.called for fit in fits]
    if len(fits) == 1 or called == [fit.name for fit in fits]:
        return called
    families = [getattr(fit.program.declaration.formula, "family", fit.name) for fit in fits]
    if len(set(called)) == 1 and len(set(families)) == len(fits):
        return families
    return [
        fit.name if fit.name == name else f"Model {number}"
        for number, (fit, name) in enumerate(zip(fits, called, strict=True), 1)
    ]


def fit_of(run: SavedRun) -> Fit:
    """Return the fit in an open run folder; see :meth:`Fit.load`.

    Raises
    ------
    DataError
        If its contents are damaged.
    """
    record, file = run.record, run.folder / DRAWS
    program = program_of(record, run.folder)
    with inference_data.opened(run.draws, file) as groups:
        draws, stats = inference_data.draws_of(groups, program, record, file)
        program, record = declared_now(program, record, draws)
        data = inference_data.data_of(groups, program, record, file)
    if not record.streamed:
        states = dict[str, State]()
        if run.chains:
            origin = record.start.fit if record.start else ""
            states = states_of(run.chains, run.folder / CHAINS, origin)
        return Fit(program, data, draws, stats, record, folder=run.folder, states=states)
    keep = kept_elements(record.options.keep, program, data)
    inference_data.check_kept(draws, keep, file)
    whole = {name for name in draws if keep.get(name) is None}
    table = summary_of(run)
    rows = [str(row).partition("[")[0] not in whole for row in table.index]
    kept_rows = table[rows]
    return Fit(without_draws(program), data, draws, stats, record, kept_rows, run.folder)


def checked_fits(fits: Any, what: str) -> list[Fit]:
    """Return one or several fits as a list.

    Raises
    ------
    ConfigError
        If `fits` is not a fit or a list of fits. The message begins with `what`.
    """
    if isinstance(fits, Fit):
        return [fits]
    if not isinstance(fits, Iterable):
        _refuse_pooled(fits, what)
        raise ConfigError(
            f"{what} takes a list of fits, such as [fit, ...], got {type(fits).__name__}"
        )
    found = list(fits)
    for each in found:
        if not isinstance(each, Fit):
            _refuse_pooled(each, what)
            raise ConfigError(f"{what} takes only fits, got {type(each).__name__}")
    return found


def _refuse_pooled(given: Any, what: str) -> None:
    """Reject a PooledFit, which holds one fit for each of several completed tables."""
    if isinstance(given, Result) and given.holds == "pooled":
        raise ConfigError(
            f"{what} needs the data of one table, but this PooledFit has several tables; give the "
            "fit of one table, such as pooled.fits[0], or each fit in turn"
        )


def held_out_weights(
    fit: Fit, log_lik: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the weights with which a fit's draws represent the posterior without one observation.

    The weight of a draw is 1 / p(y[n] | draw), Pareto-smoothed. The smoothed tail is longer if the
    draws are autocorrelated.

    Parameters
    ----------
    fit : Fit
        The fit whose draws are weighted.
    log_lik : array, shape (chain, draw, n)
        log p(y[n] | draw) for some of the fit's observations.

    Returns
    -------
    log_weights : array, shape (n, chain × draw)
        The logarithms of weights that sum to 1 for each observation.
    k_hat : array, shape (n,)
        Pareto shape of the weights for each observation.

    References
    ----------
    Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR
    25(72); Vehtari, Gelman and Gabry (2017), Practical Bayesian model evaluation using
    leave-one-out cross-validation and WAIC, Statistics and Computing 27(5), section 2.1.
    """
    by_row = np.moveaxis(log_lik, -1, 0).reshape(log_lik.shape[-1], -1)
    efficiency = 1.0
    if fit.num_chains > 1 and fit.posterior:  # as in ArviZ's PSIS-LOO
        sizes = convergence.ess_mean(stacked(fit.posterior))
        sizes = sizes[~np.isnan(sizes)]
        if sizes.size:
            efficiency = float(sizes.mean() / (fit.num_chains * fit.num_draws))
    return convergence.pareto_smooth(-by_row, r_eff=efficiency)
