"""The exact posteriors of the three flower models, from their data."""

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt
from scipy import special

from pyflowers.errors import DataError
from pyflowers.posterior.exact.multilevel import MultilevelExact
from pyflowers.posterior.exact.normal import NormalExact
from pyflowers.posterior.exact.plants import NormalPlant, PoissonPlant
from pyflowers.posterior.vb.distributions import as_floats
from pyflowers.posterior.vb.multilevel import check_plants, plant_labels
from pyflowers.posterior.vb.priors import MultilevelPrior, NormalPrior
from pyflowers.posterior.vb.statistics import SufficientStatistics, group_index


def exact_iid_normal(
    y: npt.ArrayLike | SufficientStatistics, prior: MultilevelPrior | None = None
) -> NormalExact:
    """Exact posterior of ``mu`` and ``sigma2`` in the model `iid_normal`.

    Parameters
    ----------
    y : array, shape (N,), or SufficientStatistics, shape ()
        Flowers per plant and month, all plants together.
    prior : MultilevelPrior, optional
        Its ``mu_…`` and ``sigma2_…`` are read; ``MultilevelPrior()`` if not given.

    Raises
    ------
    DataError
        If the data cannot be used.
    """
    prior = MultilevelPrior() if prior is None else prior
    normal = NormalPrior(prior.mu_mean, prior.mu_sd, prior.sigma2_nu, prior.sigma2_scale)
    return NormalExact(y, normal, location="mu")


def exact_multilevel_normal(
    statistics: SufficientStatistics,
    prior: MultilevelPrior | None = None,
    *,
    plants: Sequence[Hashable] | None = None,
) -> MultilevelExact:
    """Exact posterior of the model `multilevel_normal`.

    Parameters
    ----------
    statistics : SufficientStatistics, shape (P,)
        Of each plant; the numbers of months may differ.
    prior : MultilevelPrior, optional
        Hyperparameters; ``MultilevelPrior()`` if not given.
    plants : sequence, length P, optional
        The plants' labels, 1 … P if not given.

    Returns
    -------
    MultilevelExact
        Of ``mu``, ``sigma2``, ``mu_plant`` and ``sigma2_plant``.

    Raises
    ------
    DataError
        If there are no plants, or a plant's posterior is improper under its prior.
    ConfigError
        If there is not one label a plant.
    """
    prior = MultilevelPrior() if prior is None else prior
    labels = plant_labels(statistics, plants)
    check_plants(statistics, prior, labels)
    nu, scale = prior.sigma2_plant_nu, prior.sigma2_plant_scale
    each = zip(statistics.num, statistics.mean, statistics.ss, strict=True)
    normal = [NormalPlant(float(n), float(m), float(s), nu, scale) for n, m, s in each]
    return MultilevelExact(normal, prior, labels)


def exact_multilevel_poisson(
    y: npt.ArrayLike,
    plant: Sequence[Hashable] | npt.NDArray[np.generic],
    prior: MultilevelPrior | None = None,
) -> MultilevelExact:
    """Exact posterior of the model `multilevel_poisson`.

    Parameters
    ----------
    y : array, shape (N,), counts
        Flowers per plant and month.
    plant : sequence, shape (N,)
        The label of each count's plant.
    prior : MultilevelPrior, optional
        Its ``mu_…`` and ``sigma2_…``, of log mu_plant, are read; ``MultilevelPrior()`` if not
        given.

    Returns
    -------
    MultilevelExact
        Of ``mu``, ``sigma2`` and ``mu_plant``, plants in order of appearance.

    Raises
    ------
    DataError
        If a value is no count, there are none, or lengths differ.
    """
    y = as_floats(y)
    index, labels = group_index(plant)
    if y.shape != index.shape:
        raise DataError(
            f"y has shape {y.shape} but its plants have shape {index.shape}: give one each"
        )
    if not y.size:
        raise DataError("y is empty: there must be at least one count")
    bad = ~(np.isfinite(y) & (y >= 0) & (y == np.floor(y)))
    if np.any(bad):
        i = int(np.argmax(bad))
        raise DataError(
            f"y[{i}] is {float(y[i])!r}, but must be a count: a whole number, 0 or more"
        )
    num, total = np.bincount(index), np.bincount(index, y)
    log_factorials = np.bincount(index, special.gammaln(y + 1))
    each = zip(num, total, log_factorials, strict=True)
    poisson = [PoissonPlant(float(n), float(s), float(f)) for n, s, f in each]
    return MultilevelExact(poisson, MultilevelPrior() if prior is None else prior, labels)
