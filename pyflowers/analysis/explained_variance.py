"""How much is explained: Bayesian R², LOO-R², and the share of the variance between groups.

With m_n the expected response of row n in a draw, and v_n the variance of this response,

    R² = V / (V + v),    V = var_n(m_n),    v = mean_n(v_n)                        ([1]_, eq. 3).

The conditional R² includes the effects of the rows' groups. In the marginal R², only variance that
is not due to groups counts as explained: m_n is the mean over the population of groups, and v_n the
variance of a response in a random group, which includes the variance between groups; for a normal
model, both R² are as in [2]_. The R² of residuals replaces v by var_n(y_n - m_n) ([1]_, section 3,
as in brms).

LOO-R² is 1 - var_n(e_n) / var_n(y_n), where e_n = y_n - E(y_n | the other rows) by PSIS. Its draws
are those of the Bayesian bootstrap over rows ([3]_).

The intraclass correlation (ICC) is the variance between groups as a share of the variance of a
response in a random group. On the scale of the link, the variance of a response is the variance of
the linear predictor plus the variance of the family on this scale: pi²/3 for logit, 1 for probit,
pi²/6 for cloglog, the variance itself for the identity, and log(1 + v / m²) for log ([4]_, table
1). On the scale of the response, both variances are integrated over the population of groups
([5]_).

For families that are compared on the log scale, such as lognormal and gamma, R² and ICC refer to
log y; for numbers of successes, they refer to shares of the trials. For the family student, whose
variance may be infinite, the squared scale is used instead of the variance.

References
----------
.. [1] Gelman, Goodrich, Gabry and Vehtari (2019), R-squared for Bayesian regression models, The
   American Statistician 73(3).
.. [2] Nakagawa and Schielzeth (2013), A general and simple method for obtaining R² from generalized
   linear mixed-effects models, Methods in Ecology and Evolution 4(2), eqs. 26 and 30; Johnson
   (2014), ibid. 5(9), for slopes that vary.
.. [3] Rubin (1981), The Bayesian bootstrap, Annals of Statistics 9(1).
.. [4] Nakagawa, Johnson and Schielzeth (2017), The coefficient of determination R² and intra-class
   correlation coefficient from generalized linear mixed-effects models revisited and expanded,
   Journal of the Royal Society Interface 14(134).
.. [5] Goldstein, Browne and Rasbash (2002), Partitioning variation in multilevel models,
   Understanding Statistics 1(4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.analysis.predictions import in_blocks, predictor_of
from pyflowers.display import Line, Result, heading, in_file, interval_quantiles, records_of
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import (
    Fit,
    checked_fits,
    held_out_weights,
    model_names,
    refuse_same_names,
)
from pyflowers.programs import Capability
from pyflowers.programs.families import TRIALS, Family, Values
from pyflowers.programs.families._links import averaged
from pyflowers.programs.prediction import Predictor, indices_of
from pyflowers.text import counted, in_words

FloatArray = NDArray[np.float64]
Function = Callable[[FloatArray], FloatArray]

NUM_BOOTSTRAP = 4000
"""The number of draws of the Bayesian bootstrap."""

_MOST_VALUES = 4_000_000

MOST_INTEGRATED, FEWEST_DRAWS = 100_000, 500
"""If a response is not linear in the effects of groups, and the product of rows and draws is larger
than the first number, groups are integrated out for fewer draws, but for at least the second
number."""

_NODES = 8  # exact for the polynomials that a linear mean leads to

_OF_LATENT = {"logit": np.pi**2 / 3, "probit": 1.0, "cloglog": np.pi**2 / 6}
_LATENT_FAMILIES = ("bernoulli", "binomial", "cumulative")


@dataclass(frozen=True, eq=False, repr=False)
class Explained(Result):
    """How much of the variance models explain.

    Attributes
    ----------
    fits : tuple of Fit
        The fits.
    shares : mapping of str to mapping of (str, str) to array
        For each model, the draws of each share, by the measure, such as ``R2``, and by what it
        refers to, such as ``marginal``.
    notes : tuple of str
        What was left out, and why.

    See Also
    --------
    pyflowers.explained : Compute the shares.

    Examples
    --------
    >>> import pandas as pd, pyflowers
    >>> frame = pd.DataFrame({"dose": [0, 1, 2, 3, 4, 5], "y": [1.0, 2.9, 5.1, 7.0, 8.9, 11.1]})
    >>> fit = pyflowers.fit("y ~ dose", frame, seed=1, engine="stanli")
    >>> found = pyflowers.explained(fit)
    >>> found.table()["median"].round(1).tolist()
    [1.0, 1.0, 1.0]
    """

    holds: ClassVar[str] = "explained"

    fits: tuple[Fit, ...]
    shares: Mapping[str, Mapping[tuple[str, str], FloatArray]]
    notes: tuple[str, ...] = ()

    def table(self) -> pd.DataFrame:
        """Return the median and interval of each share, with a row for each model and measure."""
        probs = interval_quantiles(self.fits[0].interval)
        rows = {
            (name, *key): dict(
                zip(probs, np.quantile(draws, list(probs.values())).tolist(), strict=True)
            )
            for name, shares in self.shares.items()
            for key, draws in shares.items()
        }
        index = pd.MultiIndex.from_tuples(list(rows), names=["model", "measure", "of"])
        return pd.DataFrame(list(rows.values()), index=index, columns=list(probs))

    def contents(self) -> list[Line]:
        """Return the table and what was left out."""
        return [
            heading("explained", "shares of the variance"),
            in_file(self.table(), "explained.csv"),
            *(f"note: {note}" for note in self.notes),
        ]

    def files(self) -> dict[str, pd.DataFrame]:
        """Return the table by file name."""
        return {"explained.csv": self.table()}

    def to_dict(self) -> dict[str, Any]:
        """Return the shares as plain values, for JSON."""
        return {"explained": records_of(self.table()), "notes": list(self.notes)}


def explained(fits: Fit | Sequence[Fit], *, interval: float | None = None) -> Explained:
    """Compute how much variance models explain: R², LOO-R² and the share between groups (ICC).

    Parameters
    ----------
    fits : Fit or sequence of Fit
        Fits to tables. Their programs must declare ``[prediction]``, as every formula does.
    interval : float, optional
        Probability of the intervals. Default: that of the first fit.

    Returns
    -------
    Explained
        Draws and a table of each share: the conditional and the marginal R², R² of residuals,
        LOO-R², and the intraclass correlation of each column of groups.

    Raises
    ------
    ConfigError
        If a model does not declare how it predicts rows, or its response has no variance, for
        example because it is a direction.

    See Also
    --------
    pyflowers.loo : Compare models by their predictions.
    pyflowers.plots.explained : Draw the shares.

    References
    ----------
    Gelman, Goodrich, Gabry and Vehtari (2019), R-squared for Bayesian regression models, The
    American Statistician 73(3); Nakagawa, Johnson and Schielzeth (2017), The coefficient of
    determination R² and intra-class correlation coefficient from generalized linear mixed-effects
    models revisited and expanded, Journal of the Royal Society Interface 14(134).

    Examples
    --------
    >>> import pandas as pd, pyflowers
    >>> y = [1.0, 2.9, 5.1, 7.0, 8.9, 11.1]
    >>> frame = pd.DataFrame({"dose": [0, 1, 2, 3, 4, 5], "y": y})
    >>> fit = pyflowers.fit("y ~ dose", frame, seed=1, engine="stanli")
    >>> pyflowers.explained(fit).table().index.tolist()[0]
    ('y ~ dose', 'R2', 'model')
    """
    found = [each.with_interval(interval) for each in checked_fits(fits, "explained")]
    if not found:
        raise ConfigError("explained: there is no fit; give at least one")
    shares, notes = dict[str, Any](), list[str]()
    refuse_same_names(found, "explained")
    for name, fit in zip(model_names(found), found, strict=True):
        # Groups may be so far apart in some draws that a variance overflows; shares are then NaN.
        with np.errstate(over="ignore", invalid="ignore"):
            every, own = _shares(fit)
        shares[name] = {key: its for key, its in every.items() if np.isfinite(its).all()}
        own += [_why_left_out(*key, its) for key, its in every.items() if key not in shares[name]]
        notes += [f"{name}: {note}" for note in own]
    return Explained(tuple(found), shares, tuple(notes))


def _why_left_out(measure: str, of: str, draws: FloatArray) -> str:
    """Return the note on a share that is not a number in some draws."""
    num = int((~np.isfinite(draws)).sum())
    return (
        f"no {measure} ({of}), because in {num} of {draws.size} draws a variance is 0 or too large "
        "to be computed; if the sds of groups are large, give them narrower priors"
    )


def _shares(fit: Fit) -> tuple[dict[tuple[str, str], FloatArray], list[str]]:
    """Return the shares of a model, and notes on what was left out."""
    if not fit.model.predicts_rows:
        raise ConfigError(
            f"explained: {fit.called} does not predict the rows of a table, so it has no R²; fit a "
            "formula, or declare [prediction]"
        )
    family = fit.model.family
    if family.name == "von_mises":
        raise ConfigError(
            f"explained: {fit.called} predicts directions, whose variance cannot be partitioned; "
            "compare models with pyflowers loo"
        )
    if family.has_categories:
        raise ConfigError(
            f"explained: {fit.called} has categories without an order, for which no explained "
            "variance is defined; compare models with pyflowers loo"
        )
    rows = np.asarray(fit.is_in_likelihood)
    if rows.sum() < 2:
        raise ConfigError(
            f"explained: {fit.called} has {counted(int(rows.sum()), 'row')} in its likelihood, but "
            "a variance needs at least two; fit it to more rows"
        )
    notes = list[str]()
    of = " of log y" if family.compares_logs else ""
    y = _response(fit)
    m = _Sums(rows, float(np.mean(_reference(fit, y))))
    for place, (mean, variance) in in_blocks(predictor_of(fit, kind="observation"), _moments):
        m.add(place, mean, variance)
    shares, of_groups = {("R2", f"model{of}"): m.share()}, dict[tuple[str, str], FloatArray]()
    if fit.model.has_effects:
        shares = {("R2", f"conditional{of}"): m.share()}
        try:
            predictor, every = _for_population(fit)
            shares["R2", f"marginal{of}"], of_groups = _of_population(
                fit, predictor, rows, m.centre, of
            )
            if every > 1:
                notes.append(f"marginal R2 and ICC are computed from 1 in {every} draws")
        except ConfigError as error:
            notes.append(f"no marginal R2 and no ICC, because {error}")
    if fit.model.cut:
        notes.append(f"no R2 of residuals and no LOO R2, because the response is {fit.model.cut}")
        return shares | of_groups, notes
    e = _Sums(rows, 0.0)
    fitted = _Sums(rows, float(y[rows].mean()))
    for place, mean in in_blocks(predictor_of(fit), _expected):
        e.add(place, y[place] - mean, 0.0)
        fitted.add(place, mean, 0.0)
    shares["R2", "residuals"] = fitted.variance / (fitted.variance + e.variance)
    if fit.model.multiplies_likelihood:
        notes.append("no LOO R2, because weights multiply the likelihood of rows")
    elif fit.program.can(Capability.LOG_LIK):
        shares["LOO R2", "rows"] = _loo_r2(fit, np.flatnonzero(rows), y)
    return shares | of_groups, notes


class _Sums:
    """Sums of means, of their squares and of variances over rows, for each draw."""

    def __init__(self, rows: NDArray[np.bool_], centre: float) -> None:
        self.rows, self.centre, self.num = rows, centre, int(rows.sum())
        self.first: Any = 0.0
        self.second: Any = 0.0
        self.within: Any = 0.0

    def add(self, place: slice, mean: FloatArray, variance: Any) -> None:
        """Add a block of rows."""
        kept = self.rows[place]
        apart = mean[..., kept] - self.centre
        self.first = self.first + apart.sum(axis=-1)
        self.second = self.second + np.square(apart).sum(axis=-1)
        self.within = self.within + np.broadcast_to(variance, mean.shape)[..., kept].sum(axis=-1)

    @property
    def variance(self) -> FloatArray:
        """The variance of the means over rows, shape (chain, draw)."""
        left = self.second - self.first**2 / self.num
        # Of equal means, only rounding errors are left.
        return np.where(left > 1e-12 * self.second, left, 0.0) / (self.num - 1)

    def share(self) -> FloatArray:
        """Return V / (V + v), with V the ``variance`` and v the average variance within rows."""
        return np.asarray(self.variance / (self.variance + self.within / self.num))


def _response(fit: Fit) -> FloatArray:
    """Return the observed responses: scores of ratings, and shares of trials."""
    y = np.asarray(fit.data.y, dtype=np.float64)
    if fit.data.scores is not None:
        return np.asarray(fit.data.scores[y.astype(np.int64) - 1])
    if fit.model.has_trials:
        return np.asarray(y / np.asarray(fit.data.values[TRIALS], dtype=np.float64))
    return y


def _reference(fit: Fit, y: FloatArray) -> FloatArray:
    """Return numbers of about the size of the means, to compute a centre for the sums."""
    return np.log(y) if fit.model.family.compares_logs else y


def _of_values(family: Family, values: Values) -> tuple[Function, Function]:
    """Return functions of eta that compute the mean and the variance of a response."""
    if family.is_ordinal:
        scores = np.asarray(values["scores"])
        at_group: dict[str, Any] = {"threshold": values["threshold"], "sd_eta": 0.0}

        def score(eta: FloatArray) -> FloatArray:
            return np.asarray(family.mean(eta, {**at_group, "scores": scores}))

        def away(eta: FloatArray) -> FloatArray:
            middle = float(scores.mean())
            square = family.mean(eta, {**at_group, "scores": np.square(scores - middle)})
            return np.asarray(square - np.square(score(eta) - middle))

        return score, away
    size: Any = 1.0
    if family.has_trials:
        size = values[TRIALS]
    return (
        lambda eta: family.moments(eta, values)[0] / size,
        lambda eta: family.moments(eta, values)[1] / np.square(size),
    )


def _moments(predictor: Predictor) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the variance of each row's response in each draw."""
    eta = predictor.linear()
    mean, variance = _of_values(predictor.family, predictor.parameters)
    return np.broadcast_to(mean(eta), eta.shape), np.broadcast_to(variance(eta), eta.shape)


def _expected(predictor: Predictor) -> FloatArray:
    """Return the expected response; for numbers of successes, the expected share of the trials."""
    mean = predictor.expected()
    if predictor.family.has_trials:
        mean = mean / predictor.parameters[TRIALS]
    return np.asarray(mean)


def _for_population(fit: Fit) -> tuple[Predictor, int]:
    """Return predictions for the population of groups, and n if they use 1 in n draws."""
    predictor = predictor_of(fit, groups="population", kind="observation")
    if predictor.varying_parameters:
        raise ConfigError(f"{predictor.varying_parameters[0]} varies between groups")
    num = fit.num_chains * fit.num_draws
    every = min(fit.num_predictions // MOST_INTEGRATED, num // FEWEST_DRAWS)
    if _is_linear(predictor.family) or every <= 1:
        return predictor, 1
    few = {name: its[:, ::every] for name, its in predictor.draws.items()}
    return replace(predictor, draws=few), every


def _of_population(
    fit: Fit, predictor: Predictor, rows: NDArray[np.bool_], centre: float, of: str
) -> tuple[FloatArray, dict[tuple[str, str], FloatArray]]:
    """Return the marginal R² and the intraclass correlations."""
    family = predictor.family

    def moments(
        block: Predictor,
    ) -> tuple[FloatArray, FloatArray, FloatArray, dict[str, FloatArray]]:
        eta, variances = block.linear(), block.variances()
        mean, variance = _of_values(family, block.parameters)
        sd = np.sqrt(np.asarray(sum(variances.values())))

        def average(function: Function) -> FloatArray:
            return np.broadcast_to(_over_groups(family, function, eta, sd), eta.shape)

        middle = average(mean)
        between = average(lambda at: np.square(mean(at) - middle))
        own = {name: np.broadcast_to(each, eta.shape) for name, each in variances.items()}
        return middle, between, average(variance), own

    every, between, within = _Sums(rows, centre), _Sums(rows, 0.0), _Sums(rows, 0.0)
    by_name = dict[str, _Sums]()
    for place, (middle, apart, variance, own) in in_blocks(predictor, moments):
        every.add(place, middle, apart + variance)
        between.add(place, apart, 0.0)
        within.add(place, variance, 0.0)
        for name, each in own.items():
            by_name.setdefault(name, _Sums(rows, 0.0)).add(place, each, 0.0)
    shares = dict[tuple[str, str], FloatArray]()
    num = int(rows.sum())
    columns = {index: column for column, index in fit.model.groups.items()}
    of_column = dict[str, FloatArray]()
    of_name = dict[str, list[str]]()
    for name, index in indices_of(predictor.rule):
        if name in by_name and index in columns:
            of_name.setdefault(name, []).append(columns[index])
    for name, members in of_name.items():
        column = in_words(members)
        of_column[column] = of_column.get(column, 0.0) + by_name[name].first / num
    latent = _latent_variance(predictor, rows, every.first / num + centre, within.first / num)
    if latent is not None:
        total = np.asarray(sum(of_column.values())) + latent
        for column, its in of_column.items():
            shares["ICC", f"{column}, scale of the link"] = its / total
    scale = "log y" if of else "the response"
    shares["ICC", f"all groups, scale of {scale}"] = between.first / (between.first + within.first)
    return every.share(), shares


def _is_linear(family: Family) -> bool:
    """Return whether the mean of y, or of log y, is linear in the effects of groups."""
    is_linear = family.link == "identity" and family.shape_of_mean in ("", "linear")
    return is_linear or family.compares_logs


def _over_groups(family: Family, function: Function, eta: FloatArray, sd: Any) -> FloatArray:
    """Return the average of a function of eta over groups, across which eta is normal."""
    if not _is_linear(family):
        return averaged(function, eta, sd)
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    pairs = zip(nodes, weights / weights.sum(), strict=True)
    return np.asarray(sum(weight * function(eta + node * sd) for node, weight in pairs))


def _latent_variance(
    predictor: Predictor, rows: NDArray[np.bool_], mean: FloatArray, within: FloatArray
) -> FloatArray | None:
    """Return the variance of the family on the scale of the link; None if it has none."""
    family = predictor.family
    if family.name in _LATENT_FAMILIES:
        return np.full(mean.shape, _OF_LATENT[family.link])
    if family.compares_logs or (family.link == "identity" and family.scale == "y"):
        return within
    if family.link != "log" or (mean <= 0).any():
        return None
    eta = np.broadcast_to(np.log(mean)[..., None], (*mean.shape, len(rows)))
    at_mean, variance = family.moments(eta, predictor.parameters)
    if not np.allclose(at_mean, np.exp(eta)):  # the mean is not exp(eta)
        return None
    ratio = np.log1p(variance / np.square(at_mean))
    return np.asarray(np.broadcast_to(ratio, eta.shape)[..., rows].mean(axis=-1))


def _loo_r2(fit: Fit, rows: NDArray[np.int64], y: FloatArray) -> FloatArray:
    """Return draws of LOO-R² by the Bayesian bootstrap over rows."""
    errors, num_draws = np.empty(len(rows)), fit.num_chains * fit.num_draws
    predictor = predictor_of(fit)
    step = max(1, _MOST_VALUES // num_draws)
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        place = slice(int(rows[part][0]), int(rows[part][-1]) + 1)
        mean = _expected(predictor.at(place))[..., rows[part] - place.start]
        log_weights, _ = held_out_weights(fit, fit.model.log_lik(fit.draws, rows[part]))
        by_row = np.moveaxis(mean, -1, 0).reshape(log_weights.shape)
        errors[part] = y[rows[part]] - (np.exp(log_weights) * by_row).sum(axis=1)
    observed, rng = y[rows], np.random.default_rng([fit.options.seed, 7])
    found, step = np.empty(NUM_BOOTSTRAP), max(1, _MOST_VALUES // len(rows))
    for first in range(0, NUM_BOOTSTRAP, step):
        part = slice(first, min(first + step, NUM_BOOTSTRAP))
        weights = rng.standard_exponential((part.stop - part.start, len(rows)))
        weights /= weights.sum(axis=1, keepdims=True)
        found[part] = 1 - _weighted_variance(weights, errors) / _weighted_variance(
            weights, observed
        )
    return found


def _weighted_variance(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Return the variance of values, weighted by each row of weights."""
    apart = values - values.mean()
    return np.asarray(weights @ np.square(apart) - np.square(weights @ apart))
