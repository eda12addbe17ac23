"""Simulation-based calibration: the ranks of true values among draws of fits to simulated data.

If the simulated parameters come from the prior and the draws from the posterior, the rank of the
true value among L independent draws is uniform on {0, …, L}. Draws are thinned to L, and fits
whose effective sample size is below L are reported [1]_.

Posterior SBC [2]_ checks whether the computation is correct for one data set. Parameters are drawn
from the posterior given y, new data y_new of the same design are drawn given these parameters, and
the model is fitted to y and y_new together. The parameters are then also a draw from the posterior
given (y, y_new), so their ranks are uniform. Prior SBC averages over all data that the prior
implies. Posterior SBC tests the computation for the observed data, and does not need a proper
prior.

A program with an effect for each observation, such as b[N], also has an effect for each new row.
To draw these effects too, the fit to y includes the new rows in its data, but ``held_out`` leaves
them out of the likelihood.

References
----------
.. [1] Talts, Betancourt, Simpson, Vehtari and Gelman (2018), Validating Bayesian inference
   algorithms with simulation-based calibration, arXiv:1804.06788, section 4.
.. [2] Säilynoja, Schmitt, Bürkner and Vehtari (2025), Posterior SBC: Simulation-based calibration
   checking conditional on data, arXiv:2502.03279, section 2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.analysis.ecdf import from_ranks, p_value
from pyflowers.analysis.priors import PriorPredictive, prior
from pyflowers.batches import Batch, Keep, Task, batch
from pyflowers.batches.files import BatchFiles
from pyflowers.batches.keep import function_of, ranks
from pyflowers.checked import whole_number
from pyflowers.convergence import ess_bulk
from pyflowers.display import Line, Result, heading, in_file, records_of, verdict
from pyflowers.engines import new_seed
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import name_in, stacked
from pyflowers.fits.sampling import fit_data
from pyflowers.fits.spec import OF_SBC, SAMPLER, Spec, takes_inputs
from pyflowers.programs import Capability, Data, Program
from pyflowers.programs.model import Model
from pyflowers.records import Record
from pyflowers.text import in_words

PROB = 0.9999
"""Probability of the simultaneous band that the ranks of a quantity must not leave."""

NOTABLE = 0.02
"""A note is added if at least this many quantities are expected outside their bands by chance."""

INTERVALS = (0.5, 0.9)
"""Central intervals whose coverage is reported."""

FEWEST_RANKS = 50
NUM_RANKS = 100
"""Default number of draws among which a true value is ranked."""

PRIOR_THIN = 10
"""Thinning of the draws from which data are simulated. Draws of Markov chains are autocorrelated,
but the bands assume independent data sets."""

_LARGEST_COUNT = 2**31 - 1
"""The largest whole number that Stan can store."""

OF_FITS = {*SAMPLER, "centered", "inits"} - {"seed"}
"""The inputs that concern only the fits, and not the simulated data."""

FILES = BatchFiles("calibration", frozenset({"simulator_is_program", "seed"}))
"""The files of a calibration, next to the ledger of its batch."""


class _Record(Record):
    """Facts about a calibration that its ledger does not hold."""

    name: str
    seed: int
    simulator_is_program: bool
    drop: bool
    is_posterior: bool
    of_simulation: tuple[str, ...]
    sha256: str
    priors: dict[str, float]
    called: str = ""
    files: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Result):
    """Results of simulation-based calibration.

    Attributes
    ----------
    batch : Batch
        The fits, with the seed, verdict and error of each.
    name : str
        The name of the program.
    seed : int
        Seed of the simulated data and of the fits.
    simulator_is_program : bool
        Whether the program itself drew the parameters from its prior, and then the data. If so,
        only its computation is tested, because an error in its prior or likelihood would also be
        in the data.
    drop : bool
        Whether to leave out fits with divergences and fits whose effective sample size is below the
        number of draws among which a true value is ranked.
    is_posterior : bool
        Whether the parameters were drawn from the posterior given observed data, not from the
        prior.
    of_simulation : tuple of str
        Limitations of the simulation of the parameters, one sentence each.
    sha256 : str
        Digest of the program.
    priors : mapping of str to float
        Hyperparameters of the fits.
    called : str
        The name of the model in tables and figures: its own name, or the formula with its family;
        empty for the name of the program.

    See Also
    --------
    pyflowers.sbc : Run simulation-based calibration.
    pyflowers.plots.calibration : Draw the ranks.

    Examples
    --------
    Few simulations keep the example short; a real check takes about 1000.

    >>> import pyflowers
    >>> priors = {"mu_mean": 5, "mu_sd": 2, "sigma2_nu": 10}
    >>> found = pyflowers.sbc("iid_normal", out="sbc", sims=20, seed=1, priors=priors,
    ...                       engine="stanli", workers=1, chains=2, warmup=250, draws=250)
    >>> found.table().index.tolist()
    ['mu', 'sigma2', 'log_lik']
    >>> found.values("mu").shape
    (20,)
    >>> found.save({"calibration.png": pyflowers.plots.calibration(found)})
    >>> pyflowers.Calibration.load("sbc").failed
    []
    """

    holds: ClassVar[str] = "folder"

    batch: Batch
    name: str
    seed: int
    simulator_is_program: bool = False
    drop: bool = False
    is_posterior: bool = False
    of_simulation: tuple[str, ...] = ()
    sha256: str = ""
    priors: Mapping[str, float] = field(default_factory=dict)
    called: str = ""
    prob: ClassVar[float] = PROB

    @classmethod
    def load(cls, folder: str | Path) -> Calibration:
        """Read a calibration from the folder that :func:`pyflowers.sbc` wrote.

        Parameters
        ----------
        folder : str or Path
            The folder.

        Returns
        -------
        Calibration
            The calibration, as :func:`pyflowers.sbc` returned it.

        Raises
        ------
        ConfigError
            If the folder holds no calibration.
        """
        file = Path(folder) / FILES.record
        try:
            values = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(
                f"{folder} holds no finished calibration ({FILES.record}: {reason}); name a folder "
                "that pyflowers sbc wrote, or run pyflowers sbc again"
            ) from error
        record = _Record.parse(values, str(file))
        return cls(Batch(Path(folder)), **record.model_dump(exclude={"files"}))

    def save(self, plots: Mapping[str, Any] | None = None) -> None:
        """Write the calibration, its table and its figures to the folder of the batch.

        Parameters
        ----------
        plots : mapping of str to matplotlib.figure.Figure, optional
            Figures by file name. With figures, the table is written as ``calibration.csv``; without
            them, only ``calibration.json`` is written.

        Raises
        ------
        ConfigError
            If the folder holds a file of the same name that pyflowers did not write.
        """
        made: dict[str, Any] = {}
        if plots:
            made = {"calibration.csv": self.table(), **plots}
        fields = _Record.model_fields.keys() - {"files"}
        record = _Record(**{name: getattr(self, name) for name in fields})
        FILES.write(self.batch.folder, record.model_dump(mode="json", exclude={"files"}), made)

    @cached_property
    def _all(self) -> pd.DataFrame:
        return self.batch.table("ranks")

    @property
    def ranks(self) -> pd.DataFrame:
        """The ranks, with a row for each quantity of each fit that is not left out."""
        if self.drop:
            return self._all[~self._doubtful(self._all)]
        return self._all

    @property
    def num_fits(self) -> int:
        """The number of fits that have ranks and are not left out."""
        return int(self.ranks["task"].nunique())

    @property
    def num_doubtful(self) -> int:
        """The number of fits with divergences, or with an ESS below :attr:`num_draws`."""
        return int(self._all.loc[self._doubtful(self._all), "task"].nunique())

    @staticmethod
    def _doubtful(ranks: pd.DataFrame) -> pd.Series[bool]:
        return (ranks["divergent"] > 0) | ~(ranks["ess"] >= ranks["num_draws"])

    @property
    def num_draws(self) -> int:
        """The number of draws among which each true value is ranked.

        Raises
        ------
        ConfigError
            If no fit has ranks.
        """
        found = self.ranks["num_draws"].unique()
        if len(found) != 1:
            raise ConfigError(
                "calibration: every fit failed or was left out, so there are no ranks; see "
                "the ledger of the batch"
            )
        return int(found[0])

    @property
    def quantities(self) -> list[str]:
        """The quantities that were ranked."""
        return list(dict.fromkeys(self.ranks["parameter"]))

    def values(self, quantity: str) -> NDArray[np.float64]:
        """Return a quantity's ranks, scaled to lie between 0 and 1, shape (fit,).

        Parameters
        ----------
        quantity : str
            One of ``quantities``.

        Raises
        ------
        ConfigError
            If no fit has ranks, or there is no such quantity.
        """
        rows = self.ranks[self.ranks["parameter"] == quantity]
        if rows.empty:
            raise ConfigError(
                f"{quantity} is not a quantity of this calibration; choose one of "
                f"{', '.join(self.quantities)}"
            )
        return from_ranks(rows["rank"].to_numpy(), self.num_draws)

    def table(self) -> pd.DataFrame:
        """Return a row for each quantity.

        Returns
        -------
        DataFrame
            ``p_value``, for the simultaneous band; ``chi2_p``, for a chi-squared test with 20 bins;
            ``coverage_50`` and ``coverage_90``, the shares of central intervals that contain the
            true value; ``z_mean`` and ``z_sd``, mean and standard deviation of the z-scores
            ``(mean - true) / sd``; and ``contraction``, the median of
            1 − (posterior variance) / (variance of the true values).

        Raises
        ------
        ConfigError
            If no fit has ranks.
        """
        rows, num_draws = {}, self.num_draws
        for name in self.quantities:
            of_it = self.ranks[self.ranks["parameter"] == name]
            u = self.values(name)
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                z = (of_it["mean"] - of_it["true"]) / of_it["sd"]
                contraction = 1 - of_it["sd"] ** 2 / of_it["true"].var()
            rows[name] = {
                "p_value": p_value(u, num_draws=num_draws),
                "chi2_p": _chi_square(of_it["rank"].to_numpy(), num_draws),
                **{f"coverage_{100 * p:.0f}": np.mean(abs(u - 0.5) <= p / 2) for p in INTERVALS},
                "z_mean": float(z.mean()),
                "z_sd": float(z.std()),
                "contraction": float(contraction.median()),
            }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("quantity")

    @property
    def failed(self) -> list[str]:
        """The quantities whose ranks leave the band."""
        table = self.table()
        return list(table.index[table["p_value"] <= 1 - PROB])

    @property
    def notes(self) -> list[str]:
        """The limitations of the ranks, one sentence each."""
        sentences = []
        ledger = self.batch.ledger()
        errors = self.batch.failures
        if len(errors):
            sentences.append(
                f"{len(errors)} of {len(ledger)} fits failed and have no ranks; "
                f"the first error is: {errors.iloc[0]}"
            )
        if self.num_doubtful:
            if self.drop:
                what = "such fits are left out"
            else:
                what = "such fits are counted anyway"
            if self.num_doubtful == 1:
                some = "1 fit has"
            else:
                some = f"{self.num_doubtful} fits have"
            sentences.append(
                f"{some} divergences or fewer effective draws than "
                f"{int(self._all['num_draws'].max())}; {what}"
            )
        by_chance = len(self.quantities) * (1 - PROB)
        if by_chance >= NOTABLE:
            sentences.append(
                f"of {len(self.quantities)} quantities, {by_chance:.2g} are expected outside their "
                "bands by chance alone"
            )
        sentences.extend(self.of_simulation)
        if self.is_posterior:
            sentences.append(
                "the parameters are draws from the program's own posterior, so this calibration "
                "tests the computation for these data and cannot detect a wrong prior"
            )
        if self.simulator_is_program:
            sentences.append(
                "the program itself drew parameters and data, so this calibration tests the "
                "computation, not whether the program is the model that you intended"
            )
            if LOG_LIK not in self.quantities:
                sentences.append(
                    "the log likelihood is not ranked, because only the program can compute it, so "
                    "a likelihood that is missing or leaves out data is not found"
                )
        return sentences

    def contents(self) -> list[Line]:
        """Return the table, its notes, and the verdict."""
        return [
            heading(self.called or self.name, f"{self.num_fits} fits"),
            in_file(self.table(), "calibration.csv"),
            *(f"note: {note}" for note in self.notes),
            verdict(self.sentence, not self.failed),
            f"seed: {self.seed}",
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the calibration as plain values, for JSON."""
        return {
            "program": self.name,
            "name": self.called or self.name,
            "fits": self.num_fits,
            "calibration": records_of(self.table()),
            "passed": not self.failed,
            "verdict": self.sentence,
            "notes": list(self.notes),
            "seed": self.seed,
            "folder": str(self.batch.folder),
        }

    @property
    def sentence(self) -> str:
        """The verdict, in one sentence."""
        if self.failed:
            are = "are"
            if len(self.failed) == 1:
                are = "is"
            return (
                f"{len(self.failed)} of {len(self.quantities)} quantities {are} not calibrated: "
                f"{', '.join(self.failed[:6])}"
            )
        return (
            f"all {len(self.quantities)} quantities are calibrated: each stays inside the "
            f"{PROB:.2%} simultaneous band over {self.num_fits} fits"
        )


def _chi_square(ranks: NDArray[np.int64], num_draws: int, num_bins: int = 20) -> float:
    """Return the p-value of Pearson's chi-squared test that ranks are uniform."""
    from scipy.special import chdtrc

    bins = np.arange(num_draws + 1) * num_bins // (num_draws + 1)
    expected = len(ranks) * np.bincount(bins, minlength=num_bins) / (num_draws + 1)
    observed = np.bincount(bins[ranks], minlength=num_bins)
    return float(chdtrc(num_bins - 1, float(((observed - expected) ** 2 / expected).sum())))


LOG_LIK = "log_lik"
"""Name of the log likelihood of all observations, which is also a test quantity."""


def of_fit(
    fit: Fit, true: Mapping[str, Any], thin: int, functions: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the ranks of the true values in a fit, with a row for each quantity.

    Parameters
    ----------
    fit : Fit
        The fit to simulated data.
    true : mapping of str to array
        The parameters from which the data were simulated.
    thin : int
        Keep every `thin`-th draw of each chain.
    functions : sequence of str
        More test quantities, each ``module:function``. The function takes (draws, data) and returns
        an array of shape (chain, draw).

    Returns
    -------
    mapping of str to array
        ``parameter``, ``true``, ``rank``, and posterior ``mean`` and ``sd``. Three values are the
        same in all rows: ``num_draws``, the parameters' smallest effective sample size ``ess``, and
        the number of divergences ``divergent``.

    References
    ----------
    .. [1] Modrák, Moon, Kim, Bürkner, Huurre, Faltejsková, Gelman and Vehtari (2023),
       Simulation-based calibration checking for Bayesian computation: the choice of test
       quantities shapes sensitivity, Bayesian Analysis, for the likelihood as a test quantity.
    """
    table = ranks(fit, true, thin)
    draws = stacked(fit.posterior[[name_in(fit.posterior, name) for name in true]])
    parts = [{**table, "mean": draws.mean((0, 1)), "sd": draws.std((0, 1), ddof=1)}]
    at_truth = {name: np.asarray(value, dtype=float)[None, None] for name, value in true.items()}
    more = [(each.rpartition(":")[2], function_of(each)) for each in functions]
    # Stan's own log_lik cannot be evaluated at the true parameters.
    if fit.model.evaluates:
        more.insert(0, (LOG_LIK, lambda draws, _: fit.model.log_lik(draws).sum(-1)))
    rng = np.random.default_rng([fit.options.seed, 4])
    for name, function in more:
        values = np.asarray(function(fit.draws, fit.data), dtype=float)
        truth = float(function(at_truth, fit.data)[0, 0])
        kept = values[:, ::thin].ravel()
        below, ties = int((kept < truth).sum()), int((kept == truth).sum())
        rank = below + int(rng.integers(0, ties, endpoint=True))
        moments = {"mean": values.mean(), "sd": values.std(ddof=1)}
        parts.append({"parameter": name, "true": truth, "rank": rank, **moments})
    columns = ("parameter", "true", "rank", "mean", "sd")
    return {
        **{c: np.concatenate([np.atleast_1d(part[c]) for part in parts]) for c in columns},
        "num_draws": table["num_draws"],
        "ess": float(np.min(ess_bulk(draws))),
        "divergent": int(np.sum(fit.stats.get("divergent__", 0))),
    }


@takes_inputs(*OF_SBC)
def sbc(
    program: str | Path | Program | Spec,
    data: Any = None,
    *,
    out: str | Path,
    sims: int = 1000,
    quantities: Sequence[str] = (),
    num_ranks: int = NUM_RANKS,
    executor: Any = None,
    workers: int | None = None,
    simulate: Callable[[int, int], PriorPredictive] | None = None,
    posterior: bool = False,
    **inputs: Any,
) -> Calibration:
    """Check a program's computation by simulation; a second run continues where the first stopped.

    Parameters are drawn from the prior, and data given these parameters. The program is then fitted
    to each data set. If the fits sample the right posteriors, the ranks of the true values among
    the draws are uniform.

    Parameters
    ----------
    program : str, Path, Program or Spec
        A program that has ``y_rep`` and, unless `posterior` is true, can draw from its prior.
    data : path, DataFrame or mapping, optional
        The design: groups, times, covariates. The observed column is read only if `posterior` is
        true or the program is a formula. Default: the example of the program.
    out : path
        The folder of the batch; see :func:`pyflowers.batch`.
    sims : int
        Number of simulated data sets, at least 1.
    quantities : sequence of str
        More test quantities, each as ``module:function``. The function takes draws and data, and
        returns an array of shape (chain, draw). The module is imported, which runs its code.
    num_ranks : int
        The minimum number of draws among which a true value is ranked, from 50 to the number of
        draws of a fit.
    executor : Pool, distributed.Client or Cluster, optional
        Where to fit; see :func:`pyflowers.batch`. Default: the cores of this machine.
    workers : int, optional
        Number of processes on this machine. Default: the usable cores.
    simulate : callable, optional
        Function of (number, seed) that returns draws of parameters and data as a
        :class:`pyflowers.PriorPredictive`. They replace draws from the program's prior. If the
        program itself draws the parameters with ``prior_only``, an error in the prior or in
        ``y_rep`` can be found only with such a function.
    posterior : bool
        Whether to draw the parameters from the posterior given the observed data. Each fit then
        has both the observed and the simulated data (posterior SBC).
    **inputs

    Returns
    -------
    Calibration
        The ranks of each quantity, their table and the verdict.

    Raises
    ------
    ConfigError
        If the program lacks a capability, a prior is improper, or an option is out of its range.
    PyflowersError
        If the design cannot be used, or the parameters cannot be drawn.

    See Also
    --------
    pyflowers.Calibration.load : Read an earlier result.
    pyflowers.plots.calibration : Draw the ranks.

    References
    ----------
    Talts, Betancourt, Simpson, Vehtari and Gelman (2018), Validating Bayesian inference algorithms
    with simulation-based calibration, arXiv:1804.06788, section 4; Säilynoja, Schmitt, Bürkner and
    Vehtari (2025), Posterior SBC, arXiv:2502.03279, section 2.

    Examples
    --------
    Few simulations keep the example short; a real check takes about 1000.

    >>> import pyflowers
    >>> priors = {"mu_mean": 5, "mu_sd": 2, "sigma2_nu": 10}
    >>> found = pyflowers.sbc("iid_normal", out="sbc", sims=20, seed=1, priors=priors,
    ...                       engine="stanli", workers=1, chains=2, warmup=250, draws=250)
    >>> found.quantities
    ['mu', 'sigma2', 'log_lik']
    >>> found.failed
    []
    """
    sims = whole_number("sims", sims)
    FILES.check(out)
    spec = Spec.of_call(program, data, **inputs)
    spec.refuse(("interval",), "is not used, because ranks have no interval")
    seed = spec.seed
    if seed is None:
        # Without an earlier run, a new seed is drawn below; other errors will be reported by the
        # batch.
        with suppress(ConfigError):
            seed = Batch(Path(out)).seed
    spec = Spec.of_call(spec, seed=new_seed() if seed is None else seed)
    sampler = spec.options()
    kept = sampler.chains * -(-sampler.draws // sampler.thin)
    thin = kept // num_ranks if num_ranks >= FEWEST_RANKS else 0
    if thin < 1:
        raise ConfigError(
            f"num_ranks must lie between {FEWEST_RANKS} and the {kept} draws of a fit, got "
            f"{num_ranks}"
        )
    if posterior and simulate is not None:
        raise ConfigError("posterior=True and simulate=… cannot be combined; leave one out")
    if simulate is not None:
        made = simulate(sims, sampler.seed)
    elif posterior:
        draws = max(-(-sims * PRIOR_THIN // sampler.chains), sampler.draws)
        made = simulate_from_posterior(spec, draws)
    else:
        design = {name: getattr(spec, name) for name in spec.model_fields_set - OF_FITS - {"name"}}
        made = prior(**design, draws=max(4, sims * PRIOR_THIN))
    _check_simulations(made, sims)
    _refuse_terms(Model(made.program, made.data), posterior)
    tasks = list(_tasks(made, spec, sims, thin, quantities))
    found = Calibration(
        batch(
            tasks,
            out=out,
            seed=sampler.seed,
            engine=spec.engine,
            cmdstan=spec.cmdstan,
            executor=executor,
            workers=workers,
        ),
        made.program.name,
        sampler.seed,
        simulator_is_program=simulate is None and not posterior and made.drawn_by != "numpy",
        is_posterior=posterior,
        of_simulation=made.notes,
        sha256=made.program.source.sha256,
        priors=dict(made.priors),
        called=spec.name or made.program.called_in_full,
    )
    found.save()
    return found


def _check_simulations(made: PriorPredictive, sims: int) -> None:
    """Reject simulations without data sets, or with too few of them."""
    if made.y_rep is None:
        made.program.require(Capability.Y_REP)
        return
    num = made.y_rep.shape[0] * made.y_rep.shape[1]
    if num < sims:
        raise ConfigError(
            f"simulate returned {num} data sets for {sims} simulations; return at least {sims}"
        )


def _refuse_terms(model: Model, posterior: bool) -> None:
    """Reject responses with terms for which no data can be simulated."""
    name = model.program.called
    if imputed := list(model.imputed.values()):
        raise ConfigError(
            f"sbc: values of {in_words(imputed)} are imputed, and sbc simulates the response "
            "alone; fit the model to simulated tables, or check it without mi()"
        )
    if model.multiplies_likelihood:
        raise ConfigError(
            f"sbc: the weights of {name} multiply its likelihood, so no data can be simulated from "
            "it; leave the weights out of the formula"
        )
    if model.recorded_terms and posterior:
        raise ConfigError(
            f"sbc: the response of {name} has {in_words(model.recorded_terms)}, and posterior SBC "
            "does not simulate how such responses are recorded; leave --posterior out"
        )


def _tasks(
    made: PriorPredictive, spec: Spec, sims: int, thin: int, more: Sequence[str]
) -> Iterator[Task]:
    """Yield a task for each simulated data set, with the sampler options of `spec`."""
    # Only the options that were given are passed on, because engines reject options that they do
    # not use.
    sampling = {name: getattr(spec, name) for name in spec.model_fields_set & OF_FITS}
    program, design = made.program, made.data
    assert made.y_rep is not None  # checked by the caller
    model, observed = Model(program, design), design.observed
    shape = np.shape(design.values[observed])
    whole = program.source.blocks.data[observed].is_int
    prior_only = program.declaration.roles.prior_only
    own = {*program.declaration.prior_elements, *program.python.choices, prior_only}
    fixed = {name: v for name, v in program.stan_values(design).items() if name not in own}
    if prior_only in program.source.blocks.data:
        fixed[prior_only] = 0
    every = max(1, made.y_rep.shape[0] * made.y_rep.shape[1] // sims)
    true = {
        name: draws.reshape(-1, *draws.shape[2:])[::every]
        for name, draws in made.draws.items()
        if name in program.source.blocks.draws and name not in program.internal
    }
    y = made.y_rep.reshape(-1, made.y_rep.shape[-1])[::every]
    how = {"thin": thin, "functions": list(more)}
    for i in range(sims):
        values = y[i]
        if whole:
            # A value that Stan cannot store is left as it is; the task then fails and reports it.
            fits_in = np.isfinite(values).all() and values.max(initial=0) <= _LARGEST_COUNT
            if fits_in:
                values = values.astype(np.int64)
        truth = {name: each[i].tolist() for name, each in true.items()}
        block = {**fixed, **model.recorded(values)}
        block[observed] = block[observed].reshape(shape)
        yield Task(
            Spec(program, block, priors=made.priors, **sampling),
            name=str(i + 1),
            repeat=i,
            keep=(Keep(f"{of_fit.__module__}:of_fit", {"true": truth, **how}, "ranks"),),
        )


def simulate_from_posterior(spec: Spec, draws: int) -> PriorPredictive:
    """Draw parameters given the observed data, and new data from each draw.

    The posterior given the observed data is the prior for the new data. ``y_rep`` contains the
    observed values followed by the new ones, and ``data`` is the design of both.

    Parameters
    ----------
    spec : Spec
        The inputs: a program with ``y_rep``, and observed data.
    draws : int
        Iterations per chain of the fit to the observed data.

    Raises
    ------
    ConfigError
        If the program cannot replicate data, or rows cannot be added to its data block.
    """
    program = spec.open()
    data = spec.read(program)
    program.require(Capability.Y_REP)
    program.require(Capability.OBSERVED)
    role = program.declaration.roles.held_out
    evaluates = program.answers_by_rule(program.declaration.roles.log_lik)
    leaves_out = not evaluates and role in program.source.blocks.data
    size = _size_of_rows(program, leaves_out)
    values, _ = program.fill(data, program.resolve_priors(spec.priors, data))
    num_obs = values.num_obs
    if leaves_out:
        twice = _twice(program, values, size)
        held_out = np.repeat([0, 1], num_obs)
        data = replace(twice, values={**twice.values, role: held_out}, table=None, labels={})
    options = Spec.of_call(spec, draws=draws, thin=1).options()
    fit = fit_data(
        program,
        data,
        options,
        priors=spec.priors,
        centered=spec.centered,
        engine=spec.find_engine(),
        inits=spec.inits,
    )
    y_new = program.y_rep(fit.draws, fit.data, np.random.default_rng([options.seed, 3]))
    y_new = y_new[..., -values.y.size :]
    both = np.concatenate([np.broadcast_to(values.y, y_new.shape), y_new], -1)
    if leaves_out:
        unmasked = {**fit.data.values, role: np.zeros(2 * num_obs, np.int64)}
        whole = replace(fit.data, values=unmasked)
    else:
        whole = _twice(program, fit.data, size)
    note = (
        "the diagnostics of the fit to the observed data fail, so the parameters drawn from it may "
        "not follow the posterior"
    )
    return PriorPredictive(
        program=program,
        data=whole,
        draws=fit.draws,
        y_rep=both,
        statistics={},
        priors=fit.record.priors,
        seed=options.seed,
        drawn_by=fit.record.engine.name,
        notes=() if fit.diagnostics.passed else (note,),
    )


def _size_of_rows(program: Program, leaves_out: bool) -> str:
    """Return the name of the data variable that holds the number of observations.

    Raises
    ------
    ConfigError
        If no rows can be added, because there is no such variable, or because another size or a
        parameter depends on it.
    """

    def depends(expression: str) -> bool:
        return re.search(rf"\b{re.escape(size)}\b", expression) is not None

    blocks = program.source.blocks
    observed = blocks.data[program.declaration.roles.observed]
    size = ""
    if observed.ndim == 1 or program.answers_by_rule(program.declaration.roles.y_rep):
        size = observed.sizes[0]
    if size not in blocks.data or blocks.data[size].ndim:
        raise ConfigError(
            f"{program.called}: posterior SBC adds new observations, but the size of "
            f"{observed.name} is not a variable of the data block; declare {observed.name} as "
            "array[N] or vector[N], with int N"
        )
    for name, variable in blocks.data.items():
        first, inner = variable.sizes[:1], variable.sizes[1:]
        if any(map(depends, inner)) or (first != (size,) and any(map(depends, first))):
            raise ConfigError(
                f"{program.called}: posterior SBC adds new observations, but the sizes of {name} "
                f"depend on {size}; use {size} only as the first size of {name}, or not at all"
            )
    each = [n for n, v in blocks.parameters.items() if any(map(depends, v.sizes))]
    if each and not leaves_out:
        raise ConfigError(
            f"{program.called}: {each[0]} has a value for each observation, so new observations "
            f"need new values; {Capability.HELD_OUT.remedy}"
        )
    return size


def _twice(program: Program, data: Data, size: str) -> Data:
    """Return a data block that contains every row twice."""
    values = dict(data.values)
    for name, variable in program.source.blocks.data.items():
        if variable.ndim and variable.sizes[0] == size:
            values[name] = np.concatenate([np.asarray(values[name])] * 2)
    values[size] = 2 * int(values[size])
    return replace(data, values=values)
