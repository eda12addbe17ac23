"""The ranks of true values among the draws of simulated fits, and their interpretation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.analysis.ecdf import from_ranks, p_value
from pyflowers.batches import Batch
from pyflowers.batches.keep import function_of, ranks
from pyflowers.convergence import ess_bulk
from pyflowers.display import Line, Shown, heading, in_file, verdict
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import name_in, stacked
from pyflowers.programs import Capability
from pyflowers.records import Record
from pyflowers.storage import FileKind, check_file, new_file, read_json

PROB = 0.9999
"""Probability of the simultaneous band that a quantity must stay in."""

NOTABLE = 0.02
"""Quantities expected outside their bands by chance, from which on a reader is told."""

INTERVALS = (0.5, 0.9)
"""Central intervals whose coverage is told."""


FILE = "calibration.json"
"""What a batch of a calibration holds besides its ledger."""


def _is_own(path: Path) -> bool:
    """Whether pyflowers wrote a file of a calibration: the record lists the others."""
    record = read_json(path.with_name(FILE))
    return {"simulator_is_program", "seed"} <= record.keys() and (
        path.name == FILE or path.name in record.get("files", ())
    )


_KIND = FileKind("calibration", _is_own)


def check_files(folder: str | Path, names: Iterable[str] = ()) -> None:
    """Refuse a folder that has files of a calibration's names which are not pyflowers' own.

    Raises
    ------
    ConfigError
        Naming the file.
    """
    for name in (FILE, *names):
        check_file(Path(folder) / name, _KIND)


class _Record(Record):
    """What the ledger of a calibration does not say."""

    name: str
    seed: int
    simulator_is_program: bool
    drop: bool
    is_posterior: bool
    of_simulation: tuple[str, ...]
    sha256: str
    priors: dict[str, float]
    files: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Shown):
    """What simulation-based calibration found.

    Attributes
    ----------
    batch : Batch
        The fits, with seed, verdict and error of each.
    name : str
        The program.
    seed : int
        Of everything.
    simulator_is_program : bool
        Whether the program itself drew parameters and data: then only its computation is tested,
        as an error in its prior or its likelihood is in both.
    drop : bool
        Whether fits with divergences, or whose effective sample size is below the number of ranks,
        are left out.
    is_posterior : bool
        Whether the parameters come from the posterior given observed data and not from the prior.
    of_simulation : tuple of str
        What qualifies the parameters that were drawn.
    sha256 : str
        Digest of the program.
    priors : mapping of str to float
        Hyperparameters as used.
    """

    batch: Batch
    name: str
    seed: int
    simulator_is_program: bool = False
    drop: bool = False
    is_posterior: bool = False
    of_simulation: tuple[str, ...] = ()
    sha256: str = ""
    priors: Mapping[str, float] = field(default_factory=dict)
    prob: ClassVar[float] = PROB

    @classmethod
    def load(cls, folder: str | Path) -> Calibration:
        """Read a calibration back from the folder that :func:`pyflowers.sbc` wrote.

        Raises
        ------
        ConfigError
            If the folder holds no calibration.
        """
        file = Path(folder) / FILE
        try:
            values = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{folder}: it holds no finished calibration; name the folder that pyflowers sbc "
                "wrote, or run that again"
            ) from error
        record = _Record.parse(values, str(file))
        return cls(Batch(Path(folder)), **record.model_dump(exclude={"files"}))

    def save(self, plots: Mapping[str, Any] | None = None) -> None:
        """Write what the ledger does not hold into the batch's folder.

        Parameters
        ----------
        plots : mapping of str to matplotlib.figure.Figure, optional
            Figures by file name; with them the table is written as well.

        Raises
        ------
        ConfigError
            If the folder holds a file of such a name that pyflowers did not write.
        """
        folder, figures = self.batch.folder, dict(plots or {})
        made = ("calibration.csv", *figures) if figures else ()
        check_files(folder, made)
        earlier = read_json(folder / FILE).get("files", ())
        files = tuple(dict.fromkeys([*earlier, *made]))
        fields = _Record.model_fields.keys() - {"files"}
        record = _Record(**{name: getattr(self, name) for name in fields}, files=files)
        # First, so that what an interruption leaves is known as ours.
        with new_file(folder / FILE, _KIND) as new:
            new.write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
        if figures:
            with new_file(folder / "calibration.csv", _KIND) as new:
                self.table().to_csv(new)
        for name, figure in figures.items():
            with new_file(folder / name, _KIND) as new:
                figure.savefig(new, dpi=150, format=Path(name).suffix[1:])

    @cached_property
    def _all(self) -> pd.DataFrame:
        return self.batch.table("ranks")

    @property
    def ranks(self) -> pd.DataFrame:
        """A row for each quantity of each fit that counts."""
        return self._all[~self._doubtful(self._all)] if self.drop else self._all

    @property
    def num_fits(self) -> int:
        """Fits that count."""
        return int(self.ranks["task"].nunique())

    @property
    def num_doubtful(self) -> int:
        """Fits with divergences, or with fewer effective draws than ranks."""
        return int(self._all.loc[self._doubtful(self._all), "task"].nunique())

    @staticmethod
    def _doubtful(ranks: pd.DataFrame) -> pd.Series[bool]:
        return (ranks["divergent"] > 0) | ~(ranks["ess"] >= ranks["num_draws"])

    @property
    def num_draws(self) -> int:
        """Draws that each true value is ranked among."""
        found = self.ranks["num_draws"].unique()
        if len(found) != 1:
            raise ConfigError(
                "calibration: every fit failed or was left out, so there are no ranks; see its "
                "ledger"
            )
        return int(found[0])

    @property
    def quantities(self) -> list[str]:
        """The quantities that were ranked."""
        return list(dict.fromkeys(self.ranks["parameter"]))

    def values(self, quantity: str) -> NDArray[np.float64]:
        """Return a quantity's ranks as values between 0 and 1, shape (fit,)."""
        rows = self.ranks[self.ranks["parameter"] == quantity]
        return from_ranks(rows["rank"].to_numpy(), self.num_draws)

    def table(self) -> pd.DataFrame:
        """Return a row for each quantity.

        Returns
        -------
        DataFrame
            ``p_value`` of the simultaneous band, ``chi2_p`` of 20 bins, ``coverage_50`` and
            ``coverage_90``, the mean z-score ``(mean - true) / sd`` and its sd, and the mean
            ``contraction``, 1 − (posterior variance) / (variance of the true values).
        """
        rows = {}
        for name in self.quantities:
            of_it = self.ranks[self.ranks["parameter"] == name]
            u = self.values(name)
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                z = (of_it["mean"] - of_it["true"]) / of_it["sd"]
                contraction = 1 - of_it["sd"] ** 2 / of_it["true"].var()
            rows[name] = {
                "p_value": p_value(u, num_draws=self.num_draws),
                "chi2_p": _chi_square(of_it["rank"].to_numpy(), self.num_draws),
                **{f"coverage_{100 * p:.0f}": np.mean(abs(u - 0.5) <= p / 2) for p in INTERVALS},
                "z_mean": float(z.mean()),
                "z_sd": float(z.std()),
                "contraction": float(contraction.median()),
            }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("quantity")

    @property
    def failed(self) -> list[str]:
        """The quantities that leave the band."""
        table = self.table()
        return list(table.index[table["p_value"] <= 1 - PROB])

    @property
    def notes(self) -> list[str]:
        """Return the limitations of the ranks, a sentence each."""
        sentences = []
        ledger = self.batch.ledger()
        errors = self.batch.failures
        if len(errors):
            sentences.append(
                f"{len(errors)} of {len(ledger)} fits failed and have no ranks; "
                f"the first error is: {errors.iloc[0]}"
            )
        if self.num_doubtful:
            what = "left out" if self.drop else "counted anyway"
            some = "1 fit has" if self.num_doubtful == 1 else f"{self.num_doubtful} fits have"
            sentences.append(
                f"{some} divergences or fewer effective draws than "
                f"{int(self._all['num_draws'].max())}: {what}"
            )
        by_chance = len(self.quantities) * (1 - PROB)
        if by_chance >= NOTABLE:
            sentences.append(
                f"of {len(self.quantities)} quantities {by_chance:.2g} are expected outside their "
                "bands by chance alone"
            )
        sentences.extend(self.of_simulation)
        if self.is_posterior:
            sentences.append(
                "the parameters are draws of the program's own posterior, so its computation at "
                "these data is tested; a wrong prior is not seen"
            )
        if self.simulator_is_program:
            sentences.append(
                "the program itself drew parameters and data, so this tests its computation and "
                "not whether it is the model that you intended"
            )
        return sentences

    def contents(self) -> list[Line]:
        """Return the table, its notes, and the verdict."""
        return [
            heading(self.name, f"{self.num_fits} fits"),
            in_file(self.table(), "calibration.csv"),
            *(f"note: {note}" for note in self.notes),
            verdict(self.sentence, not self.failed),
            f"seed: {self.seed}",
        ]

    @property
    def sentence(self) -> str:
        """The verdict in a sentence."""
        if self.failed:
            return (
                f"{len(self.failed)} of {len(self.quantities)} quantities are not calibrated: "
                f"{', '.join(self.failed[:6])}"
            )
        return (
            f"all {len(self.quantities)} quantities are calibrated: each stays inside the "
            f"{PROB:.2%} simultaneous band over {self.num_fits} fits"
        )


def _chi_square(ranks: NDArray[np.int64], num_draws: int, num_bins: int = 20) -> float:
    """Return the p-value of Pearson's test that ranks fall into bins as uniform ones do."""
    from scipy.special import chdtrc

    bins = np.arange(num_draws + 1) * num_bins // (num_draws + 1)
    expected = len(ranks) * np.bincount(bins, minlength=num_bins) / (num_draws + 1)
    observed = np.bincount(bins[ranks], minlength=num_bins)
    return float(chdtrc(num_bins - 1, float(((observed - expected) ** 2 / expected).sum())))


LOG_LIK = "log_lik"
"""The log likelihood of all observations together."""


def of_fit(
    fit: Fit, true: Mapping[str, Any], thin: int, functions: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a row for each quantity.

    Parameters
    ----------
    fit : Fit
        The fit of simulated data.
    true : mapping of str to array
        The parameters that the data were simulated with.
    thin : int
        Take each `thin`-th draw of a chain.
    functions : sequence of str
        More test quantities, each ``module:function``: (draws, data) to an array (chain, draw).

    Returns
    -------
    mapping of str to array
        ``parameter``, ``true``, ``rank``, ``num_draws``, posterior ``mean`` and ``sd``, and the
        same for all rows: the smallest effective sample size and the number of divergences.

    References
    ----------
    .. [1] Modrák, Moon, Kim, Bürkner, Huurre, Faltejsková, Gelman and Vehtari (2023),
       Simulation-based calibration checking for Bayesian computation: the choice of test
       quantities shapes sensitivity, Bayesian Analysis, for the likelihood as a test quantity.
    """
    table = ranks(fit, true, thin)
    draws = stacked(fit.posterior[[name_in(fit.posterior, name) for name in true]])
    divergent = int(np.sum(fit.stats.get("divergent__", 0)))
    parts = [{**table, "mean": draws.mean((0, 1)), "sd": draws.std((0, 1), ddof=1)}]
    rng = np.random.default_rng([fit.options.seed, 4])
    for name, values, truth in _test_quantities(fit, true, functions):
        kept = values[:, ::thin].ravel()
        below, ties = int((kept < truth).sum()), int((kept == truth).sum())
        rank = below + int(rng.integers(0, ties, endpoint=True))
        row = {"parameter": name, "true": truth, "rank": rank, "mean": values.mean()}
        parts.append({**row, "sd": values.std(ddof=1)})
    num_draws, ess = table["num_draws"], float(np.min(ess_bulk(draws)))
    whole = {"num_draws": num_draws, "ess": ess, "divergent": divergent}
    columns = ("parameter", "true", "rank", "mean", "sd")
    joined = {c: np.concatenate([np.atleast_1d(part[c]) for part in parts]) for c in columns}
    return {**joined, **whole}


def _test_quantities(fit: Fit, true: Mapping[str, Any], functions: Sequence[str]) -> Any:
    """Yield name, draws and true value of each quantity that is computed from the parameters."""
    at_truth = {name: np.asarray(value, dtype=float)[None, None] for name, value in true.items()}
    # Stan's own log_lik cannot be evaluated at the true parameters.
    if fit.program.can(Capability.LOG_LIK) and fit.program.python.pointwise is not None:
        total = fit.log_likelihood().sum(-1)
        truth = fit.program.log_lik(at_truth, fit.data).sum(-1)
        yield LOG_LIK, total, float(truth[0, 0])
    for reference in functions:
        function = function_of(reference)
        values = np.asarray(function(fit.draws, fit.data), dtype=float)
        yield reference.rpartition(":")[2], values, float(function(at_truth, fit.data)[0, 0])
