"""Which conclusions depend on the prior, and which on the likelihood: power-scaling sensitivity.

The sensitivity of a quantity to a component is the distance D between its posterior and the one
whose component is raised to the power alpha, for a doubling of alpha:

    ½ Σ D(alpha) / |log2 alpha|  over alpha = 0.99 and 1.01,

D being the cumulative Jensen–Shannon distance (:mod:`.distance`). A sensitivity of 0.05 or more
matters: a normal posterior has that if a doubling moves its mean by a quarter of its standard
deviation, or changes
its standard deviation by a factor of 1.25. A conclusion moves if it changes by as much.

Priors of group effects do not count as prior: they are the model of the population, and to scale
them is to change the model ([1]_, section 2.4).

References
----------
.. [1] Kallioinen, Paananen, Bürkner and Vehtari (2024), Detecting and diagnosing prior and
   likelihood sensitivity with power-scaling, Statistics and Computing 34, 57,
   doi 10.1007/s11222-023-10366-5: section 2.3 for the diagnostic and its threshold. As in their R
   package priorsense the derivative is by log2 alpha, and the mean of both sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.analysis.conclusions import conclusions, names_of, scale_of
from pyflowers.analysis.distance import cumulative_jensen_shannon
from pyflowers.analysis.power_scaling import LOCAL, SHOWN, Scaled, power_scale
from pyflowers.display import MOST_ROWS, Line, Shown, format_number, heading, in_file, styled
from pyflowers.fits.fit import Fit, checked_fits
from pyflowers.fits.posterior import element_names, flat
from pyflowers.fits.verdict import Check, Part
from pyflowers.programs import Capability

if TYPE_CHECKING:
    import xarray as xr

FloatArray = NDArray[np.float64]

THRESHOLD = 0.05
"""The sensitivity from which it matters."""

SHIFT = 0.25
"""Change of a mean or quantile, in posterior standard deviations, that counts as a move."""

STRETCH = 1.25
"""Change of a standard deviation, as a factor, that counts as a move."""

CHANCE = 0.05
"""Change of a probability that counts as a move."""

CONFLICT = "possible prior-data conflict"
DOMINANT = "strong prior or weak likelihood"

DECIDES = 1.0
"""Change of a median, in posterior standard deviations, for a doubling of the prior, from which the
prior's weight decides the answer: four times a :data:`SHIFT`, which is only worth a remark."""

_BLOCK = 2_000_000
"""Values that are held at once, of draws times elements or observations."""


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(Shown):
    """What scaling the prior and the likelihood of a fit does to its posterior.

    Attributes
    ----------
    name : str
        The program.
    components : tuple of Scaled
        The prior and the likelihood, as far as the program can tell them, with their k-hat.
    distances : DataFrame
        A row for each element, a column for each component: the sensitivity, NaN where it is
        refused.
    shifts : Series
        By how much the median of each element changes for a doubling of the prior's weight, in
        posterior standard deviations; NaN where it is refused.
    conclusions : DataFrame
        A row for each component, element and conclusion: ``posterior``, at the powers 0.8 and
        1.25, ``per_doubling``, and ``moves``, which is ``rises``, ``falls`` or empty.
    notes : tuple of str
        What is refused or lacking, a sentence each.
    """

    name: str
    components: tuple[Scaled, ...]
    distances: pd.DataFrame
    shifts: pd.Series[float]
    conclusions: pd.DataFrame
    notes: tuple[str, ...] = ()

    @property
    def part(self) -> Part:
        """What this adds to the verdict on the prior; nothing where scaling it was refused."""
        shifts = self.shifts.dropna()
        if shifts.empty:
            return Part("prior")
        where, shift = str(shifts.idxmax()), float(shifts.max())
        check = Check(
            *("shift per doubling of the prior", shift, DECIDES, "≤", shift <= DECIDES, where),
            "Kallioinen et al. (2024), section 2.3",
            "choose a prior by what is known beforehand",
            f"{where}: its median moves by {shift:.2g} sd for each doubling of the prior's weight",
        )
        claim = f"no median moves by more than {DECIDES:g} sd for each doubling of its weight"
        return Part("prior", (check,), claim=claim)

    def table(self) -> pd.DataFrame:
        """Return sensitivity and diagnosis of each element."""
        rows = self.distances.copy()
        rows["diagnosis"] = [_diagnosis(row) for _, row in self.distances.iterrows()]
        return rows

    def contents(self) -> list[Line]:
        """Return the sensitivities, the conclusions that move with the prior, and the k-hats."""
        table = self.table()
        if len(table) > MOST_ROWS:  # the others are in the file
            table = table.sort_values(str(table.columns[0]), ascending=False, kind="stable")
        moves = self.moves()
        moved: list[Line] = [
            "Conclusions that move with the prior's weight, and how fast, for each doubling of it:"
        ]
        return [
            heading(self.name, "sensitivity to power-scaling; 0.05 or more matters"),
            in_file(table, "sensitivity.csv"),
            *([*moved, in_file(moves, "conclusions.csv")] if len(moves) else []),
            *(
                f"k-hat of the {scaled.component}: {format_number(scaled.worst_k)}, must be at "
                f"most {scaled.limit:.2f}"
                for scaled in self.components
                if not scaled.is_constant
            ),
            *(f"note: {note}" for note in self.notes),
            styled(self.sentence, bold=True),
        ]

    def moves(self, component: str = "prior") -> pd.DataFrame:
        """Return the conclusions that move when a component is scaled, and which way."""
        found = self.conclusions
        if found.empty:
            return found
        of_it = found.index.get_level_values("component") == component
        return found[of_it & (found["moves"] != "")].droplevel("component")

    @cached_property
    def sensitive(self) -> list[str]:
        """The elements that are sensitive to the prior, the most sensitive first."""
        if "prior" not in self.distances:
            return []
        prior = self.distances["prior"]
        return list(prior[prior >= THRESHOLD].sort_values(ascending=False, kind="stable").index)

    @property
    def sentence(self) -> str:
        """The conclusion, in a sentence."""
        prior = next((c for c in self.components if c.component == "prior"), None)
        if prior is None or prior.refusal:
            return f"Whether {self.name} depends on its prior could not be determined."
        if prior.is_constant:
            return f"The prior of {self.name} is flat: scaling it changes nothing."
        if not self.sensitive:
            return (
                f"No conclusion of {self.name} depends on its prior: every sensitivity is below "
                f"{THRESHOLD:g}."
            )
        named = ", ".join(self.sensitive[:4])
        more = f" and {len(self.sensitive) - 4} more" if len(self.sensitive) > 4 else ""
        verb = "depend" if len(self.sensitive) > 1 else "depends"
        return (
            f"In {self.name}, {named}{more} {verb} on the prior (sensitivity "
            f"{self.distances['prior'].max():.2g}; {THRESHOLD:g} or more matters): justify that "
            "prior, or choose another."
        )


def sensitivity(fit: Fit, *, interval: float | None = None) -> Sensitivity:
    """Scale the prior and the likelihood of a fit by powers, and see what moves.

    Parameters
    ----------
    fit : Fit
        Of a program with the capability ``lprior``; ``log_lik`` adds the likelihood.
    interval : float, optional
        Probability of the interval whose ends are conclusions; that of the fit by default.

    Raises
    ------
    ConfigError
        If the program has no ``lprior``.
    """
    fit = checked_fits([fit], "sensitivity")[0].with_interval(interval)
    fit.program.require(Capability.LPRIOR)
    components = [power_scale("prior", np.ravel(fit.program.lprior(fit.draws, fit.data)))]
    notes = []
    if fit.program.can(Capability.LOG_LIK) and fit.data.num_obs:
        components.append(power_scale("likelihood", _total_log_lik(fit)))
    else:
        notes.append(
            f"the likelihood of {fit.name} is not scaled, as the program has no log_lik: "
            f"{Capability.LOG_LIK.remedy}"
        )
    for scaled in components:
        if scaled.refusal:
            notes.append(f"{scaled.component}: {scaled.refusal}")
        elif scaled.is_constant:
            notes.append(f"{scaled.component}: it is the same in every draw, as a flat one is")
        else:
            notes += _too_far(scaled)
    parts = [
        _of_quantity(quantity, components, fit.interval) for quantity in fit.posterior.values()
    ]
    columns = [scaled.component for scaled in components]
    distances = pd.concat([part[0] for part in parts]) if parts else pd.DataFrame(columns=columns)
    found = pd.concat([part[1] for part in parts]) if parts else pd.DataFrame()
    return Sensitivity(
        fit.name,
        tuple(components),
        distances,
        _shifts(found),
        _judged(_without_missing(found, fit)),
        tuple(notes),
    )


def _shifts(found: pd.DataFrame) -> pd.Series[float]:
    """Return the change of each median for a doubling of the prior, in posterior sd."""
    if found.empty:
        return pd.Series(dtype=float)
    medians = found.xs("prior", level="component").xs("median", level="conclusion")
    unit = medians["unit"].where(medians["unit"] > 0)
    return (medians["per_doubling"].abs() / unit).astype(float)


def _total_log_lik(fit: Fit) -> FloatArray:
    """Return the log likelihood of all observations at each draw, shape (S,).

    It is summed block by block: the pointwise one may not fit memory.
    """
    step = max(1, _BLOCK // max(1, fit.num_chains * fit.data.num_obs))
    parts = [
        fit.program.log_lik(
            {name: values[:, start : start + step] for name, values in fit.draws.items()}, fit.data
        ).sum(axis=-1)
        for start in range(0, fit.num_draws, step)
    ]
    return np.ravel(np.concatenate(parts, axis=1))


def _too_far(scaled: Scaled) -> list[str]:
    far = [f"{alpha:g}" for alpha in SHOWN if alpha not in scaled.weights]
    if not far:
        return []
    return [
        f"{scaled.component}: k-hat at the power {' and '.join(far)} is above {scaled.limit:.2f}, "
        "so the conclusions there are left blank"
    ]


def _of_quantity(
    quantity: xr.DataArray, components: list[Scaled], interval: float
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return distances and conclusions of the elements of one variable, block by block."""
    draws = np.asarray(flat(quantity), dtype=np.float64)
    draws = draws.reshape(-1, draws.shape[2])
    elements = element_names(quantity)
    step = max(1, _BLOCK // len(draws))
    distances, found = [], []
    for start in range(0, draws.shape[1], step):
        block = draws[:, start : start + step]
        names = pd.Index(elements[start : start + step], name="parameter")
        order = np.argsort(block, axis=0)
        ascending = np.take_along_axis(block, order, 0)
        with np.errstate(invalid="ignore"):
            each = {c.component: _distance(c, ascending, order) for c in components}
            found += [_conclusions(c, ascending, order, names, interval) for c in components]
        distances.append(pd.DataFrame(each, index=names))
    return pd.concat(distances), pd.concat(found)


def _distance(scaled: Scaled, ascending: FloatArray, order: NDArray[np.intp]) -> FloatArray:
    if scaled.refusal:
        return np.full(ascending.shape[1], np.nan)
    sides = [
        cumulative_jensen_shannon(ascending, scaled.weights[alpha][order]) / abs(np.log2(alpha))
        for alpha in LOCAL
    ]
    finite = np.isfinite(ascending).all(axis=0)
    return np.where(finite, np.mean(sides, axis=0), np.nan)


def _conclusions(
    scaled: Scaled,
    ascending: FloatArray,
    order: NDArray[np.intp],
    names: pd.Index,
    interval: float,
) -> pd.DataFrame:
    """Return the conclusions at each power and their change for a doubling."""
    equal = np.full(ascending.shape, 1 / len(ascending))
    posterior = conclusions(ascending, equal, interval)
    at = {
        alpha: conclusions(ascending, scaled.weights[alpha][order], interval)
        if alpha in scaled.weights
        else np.full_like(posterior, np.nan)
        for alpha in (*LOCAL, *SHOWN)
    }
    low, high = LOCAL
    slope = (at[high] - at[low]) / (np.log2(high) - np.log2(low))
    each = names_of(interval)
    index = pd.MultiIndex.from_product(
        [[scaled.component], names, each], names=["component", "parameter", "conclusion"]
    )
    unit = np.repeat(scale_of(ascending), len(each))
    return pd.DataFrame(
        {
            "posterior": posterior.ravel(),
            **{f"at {alpha:g}": at[alpha].ravel() for alpha in SHOWN},
            "per_doubling": slope.ravel(),
            "unit": unit,
        },
        index=index,
    )


def _without_missing(found: pd.DataFrame, fit: Fit) -> pd.DataFrame:
    """Leave blank the means and variances that the posterior does not have."""
    if found.empty:
        return found
    summary = fit.summary()
    for name in ("mean", "sd"):
        absent = set(summary.index[summary[name].isna()])
        parameter = found.index.get_level_values("parameter")
        conclusion = found.index.get_level_values("conclusion")
        found[parameter.isin(absent) & (conclusion == name)] = np.nan
    return found


def _judged(found: pd.DataFrame) -> pd.DataFrame:
    """Say which conclusions move and which way."""
    if found.empty:
        return found
    conclusion = found.index.get_level_values("conclusion")
    slope, unit = found["per_doubling"].to_numpy(), found["unit"].to_numpy()
    # The factor of an sd for a doubling is 1 + slope / sd to first order, as for small moves.
    with np.errstate(invalid="ignore", divide="ignore"):
        limit = np.select(
            [conclusion == "P(> 0)", conclusion == "sd"],
            [np.full(len(found), CHANCE), np.log(STRETCH) * found["posterior"].to_numpy()],
            SHIFT * unit,
        )
        moved = np.abs(slope) >= np.where(limit > 0, limit, np.inf)
    way = np.where(slope > 0, "rises", "falls")
    return found.drop(columns="unit").assign(moves=np.where(moved, way, ""))


def _diagnosis(row: pd.Series) -> str:
    """Return what two sensitivities mean together, [1]_ section 2.3 and figure 3."""
    if not row.get("prior", np.nan) >= THRESHOLD:
        return ""
    likelihood = row.get("likelihood", np.nan)
    if np.isnan(likelihood):
        return "sensitive to the prior"
    return CONFLICT if likelihood >= THRESHOLD else DOMINANT
