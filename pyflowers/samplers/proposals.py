"""Where Metropolis and Metropolis–Hastings propose to go.

A proposal draws x′ ~ q(x′ | x) and knows its log density ratio

    log q(x | x′) − log q(x′ | x),

the density of the way back over that of the way out. It is 0 for a symmetric proposal.

| proposal | x′ | symmetric |
|---|---|---|
| :class:`GaussianStep` | x + L z, z ~ N(0, I) | yes |
| :class:`UniformStep` | x + scale · U(−1, 1) | yes |
| :class:`SignedStep` | x ± scale · U(0, 1), either sign with probability ½ | yes |
| :class:`OneSidedStep` | x + scale · U(0, 1), **the handout's** | no: there is no way back |
| :class:`MultiplicativeStep` | x · exp(scale · z), for x > 0 | no |

References
----------
.. [1] Hastings (1970), Monte Carlo sampling methods using Markov chains and their applications,
   Biometrika 57, 97–109, section 2.
"""

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from pyflowers.errors import ConfigError
from pyflowers.samplers.kernels import FloatArray, numbers, positive


class SymmetricProposal(Protocol):
    """A proposal with q(x′ | x) = q(x | x′), as Metropolis takes it.

    Nothing can check the symmetry: Metropolis also runs on a proposal that is not symmetric, and
    then draws from something other than its target.
    """

    def propose(self, rng: np.random.Generator, x: FloatArray, /) -> FloatArray:
        """Return x′ ~ q(x′ | x), shape (chain, dim)."""


class Proposal(SymmetricProposal, Protocol):
    """A proposal with its log density ratio, as Metropolis–Hastings takes it."""

    def log_ratio(self, x: FloatArray, proposed: FloatArray, /) -> FloatArray:
        """Return log q(x | x′) − log q(x′ | x), shape (chain,)."""


class _Symmetric:
    def log_ratio(self, x: FloatArray, _proposed: FloatArray, /) -> FloatArray:
        """Return 0, shape (chain,)."""
        return np.zeros(len(x))


class GaussianStep(_Symmetric):
    """x′ = x + L z with z ~ N(0, I): the random walk.

    Parameters
    ----------
    scale : number, array of shape (dim,), or lower-triangular array of shape (dim, dim)
        The step's sd, or one for each coordinate, or the Cholesky factor L of its covariance.

    Raises
    ------
    ConfigError
        An sd is not positive, or L is not lower triangular.
    """

    def __init__(self, scale: ArrayLike) -> None:
        self.scale = numbers("scale", scale)
        if self.scale.ndim > 2 or (self.scale.ndim == 2 and np.triu(self.scale, 1).any()):
            raise ConfigError(
                "scale must be a number, a vector or a lower-triangular matrix: "
                "give the Cholesky factor of a covariance"
            )
        positive("scale", np.diag(self.scale) if self.scale.ndim == 2 else self.scale)

    def propose(self, rng: np.random.Generator, x: FloatArray, /) -> FloatArray:
        """Return x + L z, shape (chain, dim)."""
        z = rng.standard_normal(x.shape)
        return x + (z @ self.scale.T if self.scale.ndim == 2 else self.scale * z)


class _Step(_Symmetric):
    def __init__(self, scale: float) -> None:
        positive("scale", scale, ndim=0)
        self.scale = scale


class UniformStep(_Step):
    """x′ = x + scale · U(−1, 1) in each coordinate.

    Parameters
    ----------
    scale : float
        The longest step of a coordinate.
    """

    def propose(self, rng: np.random.Generator, x: FloatArray, /) -> FloatArray:
        """Return a point of the cube of half side `scale` around x, shape (chain, dim)."""
        return x + rng.uniform(-self.scale, self.scale, x.shape)


class SignedStep(_Step):
    """The handout's step with a fair sign: x′ = x + s · scale · U(0, 1), s = ±1.

    The one sign turns all coordinates of a chain, so q is an even mixture of the handout's proposal
    and its mirror image. The mixture is symmetric, which repairs the handout; in one coordinate it
    is :class:`UniformStep`.

    Parameters
    ----------
    scale : float
        The longest step of a coordinate.
    """

    def propose(self, rng: np.random.Generator, x: FloatArray, /) -> FloatArray:
        """Return x plus or minus a positive step, shape (chain, dim)."""
        sign = rng.choice((-1.0, 1.0), size=(len(x), 1))
        return x + sign * rng.uniform(0, self.scale, x.shape)


class OneSidedStep(_Step):
    """The handout's proposal, x′ = x + scale · U(0, 1), which is not symmetric: it fails.

    It moves only right. Without a correction (in :class:`~pyflowers.samplers.Metropolis`, as the
    handout has it) a chain never comes back from where it has gone, and ends in the right tail
    whatever the target. With its Hastings correction (in
    :class:`~pyflowers.samplers.MetropolisHastings`) the way back has density q(x | x′) = 0, every
    move is rejected and the chain never leaves its start: exact, and useless. A step to either
    side is the repair: :class:`SignedStep`, :class:`UniformStep` or :class:`GaussianStep`.

    Parameters
    ----------
    scale : float
        The longest step of a coordinate.
    """

    def propose(self, rng: np.random.Generator, x: FloatArray, /) -> FloatArray:
        """Return x plus a positive step, shape (chain, dim)."""
        return x + rng.uniform(0, self.scale, x.shape)

    def log_ratio(self, x: FloatArray, proposed: FloatArray, /) -> FloatArray:
        """Return log 0 = −inf wherever the proposal moved, shape (chain,)."""
        return np.where((proposed != x).any(axis=-1), -np.inf, 0.0)


class MultiplicativeStep(_Step):
    """x′ = x · exp(scale · z): a random walk of log x, for targets on x > 0.

    q(x′ | x) is log-normal with density N(log x′; log x, scale²) / x′ in each coordinate, so

        log q(x | x′) − log q(x′ | x) = Σ log x′ − log x,

    which is the Jacobian of the logarithm. It is the example of a ratio that must not be forgotten.

    Parameters
    ----------
    scale : float
        The sd of a step of log x.
    """

    def propose(self, rng: np.random.Generator, x: FloatArray, /) -> FloatArray:
        """Return x · exp(scale · z), shape (chain, dim)."""
        return x * np.exp(self.scale * rng.standard_normal(x.shape))

    def log_ratio(self, x: FloatArray, proposed: FloatArray, /) -> FloatArray:
        """Return Σ log x′ − log x, shape (chain,)."""
        log_ratio: FloatArray = np.log(proposed / x).sum(axis=-1)
        return log_ratio
