"""Metropolis and Metropolis–Hastings, and their proposals.

From x, propose x′ ~ q(x′ | x) and go there with probability

    A(x, x′) = min(1, π(x′) q(x | x′) / (π(x) q(x′ | x)));

otherwise stay, and count x again. Then π(x) q(x′ | x) A(x, x′) is symmetric in x and x′, which is
detailed balance, so π is stationary [2]_. Metropolis is the case q(x′ | x) = q(x | x′), in which q
cancels [1]_. Any other proposal must supply its log density ratio log q(x | x′) − log q(x′ | x),
which compares the reverse move with the move itself.

| proposal | x′ | symmetric |
|---|---|---|
| :class:`GaussianStep` | x + L z, z ~ N(0, I) | yes |
| :class:`UniformStep` | x + scale · U(−1, 1) | yes |
| :class:`SignedStep` | x ± scale · U(0, 1), either sign with probability ½ | yes |
| :class:`OneSidedStep` | x + scale · U(0, 1), **the handout's** | no: there is no way back |
| :class:`MultiplicativeStep` | x · exp(scale · z), for x > 0 | no |

References
----------
.. [1] Metropolis, Rosenbluth, Rosenbluth, Teller & Teller (1953), Equation of state calculations by
   fast computing machines, Journal of Chemical Physics 21, 1087–1092.
.. [2] Hastings (1970), Monte Carlo sampling methods using Markov chains and their applications,
   Biometrika 57, 97–109, section 2.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from pyflowers.errors import ConfigError
from pyflowers.lectures.samplers.kernels import (
    BoolArray,
    FloatArray,
    LogDensity,
    accept,
    check_size,
    choose,
    numbers,
    positive,
    start,
)


class MetropolisState(NamedTuple):
    """The positions of the chains, shape (chain, dim), with log π at each, shape (chain,)."""

    position: FloatArray
    log_density: FloatArray


class MetropolisInfo(NamedTuple):
    """The outcome of one transition; all arrays are shaped (chain,).

    Attributes
    ----------
    lp : array
        log π of the position after the transition.
    acceptance_rate : array
        A(x, x′), the probability of accepting the move, whether or not the chain moved.
    accepted : array of bool
        Whether the chain moved.
    """

    lp: FloatArray
    acceptance_rate: FloatArray
    accepted: BoolArray


class SymmetricProposal(Protocol):
    """A proposal with q(x′ | x) = q(x | x′), for Metropolis.

    The symmetry is not checked: with a proposal that is not symmetric, Metropolis still runs, but
    does not draw from its target.
    """

    def propose(self, rng: np.random.Generator, x: FloatArray, /) -> FloatArray:
        """Return x′ ~ q(x′ | x).

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of the steps.
        x : array, shape (chain, dim)
            Positions of the chains.

        Returns
        -------
        array, shape (chain, dim)
            The proposal of each chain.
        """


class Proposal(SymmetricProposal, Protocol):
    """A proposal with a log density ratio, for Metropolis–Hastings."""

    def log_ratio(self, x: FloatArray, proposed: FloatArray, /) -> FloatArray:
        """Return log q(x | x′) − log q(x′ | x).

        Parameters
        ----------
        x : array, shape (chain, dim)
            Positions of the chains.
        proposed : array, shape (chain, dim)
            Proposed positions x′.

        Returns
        -------
        array, shape (chain,)
            The log density ratio of each chain.
        """


@dataclass(frozen=True)
class Metropolis:
    """Random-walk Metropolis: accept with probability min(1, π(x′)/π(x)).

    Parameters
    ----------
    target : LogDensity
        The target π.
    proposal : SymmetricProposal
        A symmetric proposal. The handout's :class:`~pyflowers.samplers.OneSidedStep` is not
        symmetric.

    See Also
    --------
    pyflowers.samplers.run : Run chains and keep the draws.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers.samplers import GaussianStep, Metropolis, StandardNormal, run
    >>> sampler = Metropolis(StandardNormal(), GaussianStep(2.4))
    >>> result = run(sampler, np.random.default_rng(1), np.zeros((4, 1)), num_draws=2_000)
    >>> round(float(result.draws.var()), 1)
    1.0

    One transition of two chains:

    >>> state = sampler.init([[0.0], [3.0]])
    >>> state, info = sampler(np.random.default_rng(1), state)
    >>> info.acceptance_rate.shape
    (2,)
    >>> sampler.log_q_ratio(np.array([[0.0]]), np.array([[1.0]]))
    0.0
    """

    target: LogDensity
    proposal: SymmetricProposal

    def init(self, position: ArrayLike) -> MetropolisState:
        """Return the state of chains that start at `position`.

        Parameters
        ----------
        position : array, shape (chain, dim)
            Starting positions of the chains.

        Returns
        -------
        MetropolisState
            The position, with log π.

        Raises
        ------
        ConfigError
            If `position` has the wrong shape, is not finite, or is outside the target's support.
        """
        return MetropolisState(*start(self.target, position))

    @np.errstate(over="ignore", invalid="ignore")
    def __call__(
        self, rng: np.random.Generator, state: MetropolisState
    ) -> tuple[MetropolisState, MetropolisInfo]:
        """Make one transition in every chain."""
        x = self.proposal.propose(rng, state.position)
        proposed = MetropolisState(x, self.target.log_density(x))
        log_ratio = proposed.log_density - state.log_density + self.log_q_ratio(state.position, x)
        accepted, acceptance_rate = accept(rng, log_ratio)
        state = MetropolisState(*choose(accepted, proposed, state))
        return state, MetropolisInfo(state.log_density, acceptance_rate, accepted)

    def log_q_ratio(self, _x: FloatArray, _proposed: FloatArray) -> FloatArray | float:
        """Return log q(x | x′) − log q(x′ | x), which is 0 because the proposal is symmetric.

        Parameters
        ----------
        _x : array, shape (chain, dim)
            Positions of the chains; not used.
        _proposed : array, shape (chain, dim)
            Proposed positions x′; not used.

        Returns
        -------
        float
            0.
        """
        return 0.0


@dataclass(frozen=True)
class MetropolisHastings(Metropolis):
    """Metropolis–Hastings: accept with probability min(1, π(x′) q(x | x′) / (π(x) q(x′ | x))).

    Parameters
    ----------
    target : LogDensity
        The target π.
    proposal : Proposal
        Any proposal with a log density ratio.

    Examples
    --------
    This proposal multiplies x by a positive number. The chain therefore stays in the support of a
    gamma target, but the proposal is not symmetric:

    >>> import numpy as np
    >>> from pyflowers.samplers import Gamma, MetropolisHastings, MultiplicativeStep, run
    >>> target = Gamma(shape=3, rate=2)
    >>> sampler = MetropolisHastings(target, MultiplicativeStep(1.0))
    >>> result = run(sampler, np.random.default_rng(1), np.ones((4, 1)), num_draws=2_000)
    >>> round(float(result.draws.mean()), 1), float(target.mean[0])
    (1.5, 1.5)
    """

    proposal: Proposal

    def log_q_ratio(self, x: FloatArray, proposed: FloatArray) -> FloatArray:
        """Return the proposal's log density ratio, log q(x | x′) − log q(x′ | x).

        Parameters
        ----------
        x : array, shape (chain, dim)
            Positions of the chains.
        proposed : array, shape (chain, dim)
            Proposed positions x′.

        Returns
        -------
        array, shape (chain,)
            The log density ratio of each chain.
        """
        return self.proposal.log_ratio(x, proposed)


class _Symmetric:
    def log_ratio(self, x: FloatArray, _proposed: FloatArray, /) -> FloatArray:
        """Return 0, because the proposal is symmetric.

        Parameters
        ----------
        x : array, shape (chain, dim)
            Positions of the chains.
        _proposed : array, shape (chain, dim)
            Proposed positions x′; not used.

        Returns
        -------
        array, shape (chain,)
            0 for each chain.
        """
        return np.zeros(len(x))


class GaussianStep(_Symmetric):
    """A Gaussian random walk, x′ = x + L z with z ~ N(0, I).

    Parameters
    ----------
    scale : number, array of shape (dim,), or lower-triangular array of shape (dim, dim)
        The step's sd, an sd for each coordinate, or the Cholesky factor L of the step's covariance.

    Raises
    ------
    ConfigError
        If an sd is not positive, or L is not square and lower triangular.

    Examples
    --------
    A step whose coordinates have correlation 0.8:

    >>> import numpy as np
    >>> from pyflowers.samplers import GaussianStep
    >>> step = GaussianStep(np.linalg.cholesky([[1.0, 0.8], [0.8, 1.0]]))
    >>> proposed = step.propose(np.random.default_rng(1), np.zeros((10_000, 2)))
    >>> np.corrcoef(proposed.T).round(1)
    array([[1. , 0.8],
           [0.8, 1. ]])
    """

    def __init__(self, scale: ArrayLike) -> None:
        self.scale = numbers("scale", scale)
        is_matrix, is_square = self.scale.ndim == 2, self.scale.shape == self.scale.T.shape
        if self.scale.ndim > 2 or (is_matrix and (not is_square or np.triu(self.scale, 1).any())):
            raise ConfigError(
                "scale must be a number, a vector or a lower-triangular matrix; "
                "give the Cholesky factor of a covariance matrix"
            )
        positive("scale", np.diag(self.scale) if self.scale.ndim == 2 else self.scale)

    def propose(self, rng: np.random.Generator, x: FloatArray, /) -> FloatArray:
        """Return x + L z.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of the steps.
        x : array, shape (chain, dim)
            Positions of the chains.

        Returns
        -------
        array, shape (chain, dim)
            The proposal of each chain.

        Raises
        ------
        ConfigError
            If the scale is a vector or a matrix with a different number of coordinates.
        """
        check_size("scale", self.scale, x)
        z = rng.standard_normal(x.shape)
        return x + (z @ self.scale.T if self.scale.ndim == 2 else self.scale * z)


class _Step(_Symmetric):
    def __init__(self, scale: float) -> None:
        positive("scale", scale, ndim=0)
        self.scale = scale


class UniformStep(_Step):
    """A uniform step, x′ = x + scale · U(−1, 1) in each coordinate.

    Parameters
    ----------
    scale : float
        The longest possible step in each coordinate.

    Raises
    ------
    ConfigError
        If `scale` is not positive and finite.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers.samplers import UniformStep
    >>> proposed = UniformStep(0.5).propose(np.random.default_rng(1), np.ones((10_000, 1)))
    >>> bool(proposed.min() >= 0.5), bool(proposed.max() <= 1.5)
    (True, True)
    """

    def propose(self, rng: np.random.Generator, x: FloatArray, /) -> FloatArray:
        """Return a point drawn uniformly from the cube around x whose sides are 2 · scale.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of the steps.
        x : array, shape (chain, dim)
            Positions of the chains.

        Returns
        -------
        array, shape (chain, dim)
            The proposal of each chain.
        """
        return x + rng.uniform(-self.scale, self.scale, x.shape)


class SignedStep(_Step):
    """The handout's step with a random sign: x′ = x + s · scale · U(0, 1), s = ±1.

    All coordinates of a chain get the same sign, so q is an equal mixture of the handout's proposal
    and its mirror image. The mixture is symmetric, which corrects the handout's error. In one
    dimension this step is the same as :class:`~pyflowers.samplers.UniformStep`.

    Parameters
    ----------
    scale : float
        The longest possible step in each coordinate.

    Raises
    ------
    ConfigError
        If `scale` is not positive and finite.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers.samplers import SignedStep
    >>> step = SignedStep(0.5).propose(np.random.default_rng(1), np.zeros((10_000, 2)))
    >>> bool((np.sign(step[:, 0]) == np.sign(step[:, 1])).all())
    True
    >>> round(float((step[:, 0] > 0).mean()), 1)
    0.5
    """

    def propose(self, rng: np.random.Generator, x: FloatArray, /) -> FloatArray:
        """Return x plus or minus a positive step.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of the steps.
        x : array, shape (chain, dim)
            Positions of the chains.

        Returns
        -------
        array, shape (chain, dim)
            The proposal of each chain.
        """
        sign = rng.choice((-1.0, 1.0), size=(len(x), 1))
        return x + sign * rng.uniform(0, self.scale, x.shape)


class OneSidedStep(_Step):
    """The handout's proposal, x′ = x + scale · U(0, 1), which fails because it is not symmetric.

    The proposal moves only to the right. Without a correction (in
    :class:`~pyflowers.samplers.Metropolis`, as in the handout), a chain never moves back, and ends
    in the right tail of any target. With the Hastings correction (in
    :class:`~pyflowers.samplers.MetropolisHastings`), the reverse move has density q(x | x′) = 0, so
    every move is rejected. Then π is stationary, but every draw repeats the start.
    The remedy is a step in either direction: :class:`~pyflowers.samplers.SignedStep`,
    :class:`~pyflowers.samplers.UniformStep` or :class:`~pyflowers.samplers.GaussianStep`.

    Parameters
    ----------
    scale : float
        The longest possible step in each coordinate.

    Raises
    ------
    ConfigError
        If `scale` is not positive and finite.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers.samplers import OneSidedStep
    >>> step, x = OneSidedStep(0.5), np.zeros((3, 1))
    >>> proposed = step.propose(np.random.default_rng(1), x)
    >>> bool((proposed > x).all())
    True
    >>> step.log_ratio(x, proposed)
    array([-inf, -inf, -inf])
    """

    def propose(self, rng: np.random.Generator, x: FloatArray, /) -> FloatArray:
        """Return x plus a positive step.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of the steps.
        x : array, shape (chain, dim)
            Positions of the chains.

        Returns
        -------
        array, shape (chain, dim)
            The proposal of each chain.
        """
        return x + rng.uniform(0, self.scale, x.shape)

    def log_ratio(self, x: FloatArray, proposed: FloatArray, /) -> FloatArray:
        """Return log 0 = −inf where the proposal moves, and 0 elsewhere.

        Parameters
        ----------
        x : array, shape (chain, dim)
            Positions of the chains.
        proposed : array, shape (chain, dim)
            Proposed positions x′.

        Returns
        -------
        array, shape (chain,)
            The log density ratio of each chain.
        """
        return np.where((proposed != x).any(axis=-1), -np.inf, 0.0)


class MultiplicativeStep(_Step):
    """A random walk on log x, x′ = x · exp(scale · z), for targets on x > 0.

    q(x′ | x) is log-normal with density N(log x′; log x, scale²) / x′ in each coordinate, so

        log q(x | x′) − log q(x′ | x) = Σ (log x′ − log x),

    which comes from the Jacobian of the logarithm. :class:`~pyflowers.samplers.Metropolis` omits
    this ratio, so its draws would not be from the target.

    Parameters
    ----------
    scale : float
        The sd of a step in log x.

    Raises
    ------
    ConfigError
        If `scale` is not positive and finite.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers.samplers import MultiplicativeStep
    >>> step, x = MultiplicativeStep(0.5), np.array([[1.0, 2.0]])
    >>> proposed = step.propose(np.random.default_rng(1), x)
    >>> bool((proposed > 0).all())
    True
    >>> step.log_ratio(x, 3 * x) / np.log(3)  # two coordinates
    array([2.])
    """

    def propose(self, rng: np.random.Generator, x: FloatArray, /) -> FloatArray:
        """Return x · exp(scale · z).

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of the steps.
        x : array, shape (chain, dim)
            Positions of the chains.

        Returns
        -------
        array, shape (chain, dim)
            The proposal of each chain.
        """
        return x * np.exp(self.scale * rng.standard_normal(x.shape))

    def log_ratio(self, x: FloatArray, proposed: FloatArray, /) -> FloatArray:
        """Return Σ (log x′ − log x).

        Parameters
        ----------
        x : array, shape (chain, dim)
            Positions of the chains.
        proposed : array, shape (chain, dim)
            Proposed positions x′.

        Returns
        -------
        array, shape (chain,)
            The log density ratio of each chain.
        """
        log_ratio: FloatArray = np.log(proposed / x).sum(axis=-1)
        return log_ratio
