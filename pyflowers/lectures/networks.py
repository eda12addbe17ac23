"""Feed-forward networks in NumPy: the function, its data, and the symmetries of its weights.

    h_l = tanh(h_(l−1) W_l + b_l),  h_0 = x,     f(x) = h_L w + b,     y ~ N(f(x), sd²),

in the layout of ``stan/neural_network.stan``: one unit after the other, each with the weights of
its inputs and then its bias. Exchanging two units of a layer, or changing the sign of a unit's bias
and of its incoming and outgoing weights (tanh is odd), does not change f. So every mode of the
posterior of the weights has Π_l 2^H_l H_l! copies.

References
----------
.. [1] MacKay (2003), Information Theory, Inference, and Learning Algorithms, chapter 41.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pyflowers.lectures.measures import FloatArray

Weights = Mapping[str, FloatArray]
"""Variables of the Stan program by name; each may have leading axes, such as chain and draw."""


@dataclass(frozen=True)
class Network:
    """A network with the points on which it is trained.

    Attributes
    ----------
    x, y : arrays, shape (N,)
        The inputs and the outputs.
    width : tuple of int
        Number of units of each hidden layer.
    weight_sd : float
        Prior sd of every weight and bias.
    noise_sd : float
        Sd of the noise. If 0, it is estimated as σ² with σ ~ Gamma(sigma_shape, sigma_rate).
    """

    x: FloatArray
    y: FloatArray
    width: tuple[int, ...]
    weight_sd: float
    noise_sd: float = 0.0
    sigma_shape: float = 0.5
    sigma_rate: float = 1.0

    @property
    def num_copies(self) -> int:
        """The number of settings of the weights that give the same function, Π_l 2^H_l H_l!."""
        return math.prod(2**units * math.factorial(units) for units in self.width)

    @property
    def num_weights(self) -> int:
        """The number of weights and biases."""
        sizes = (1, *self.width, 1)
        return sum((a + 1) * b for a, b in pairwise(sizes))

    def stan_data(self) -> dict[str, Any]:
        """Return the data of the Stan program."""
        priors = ("weight_sd", "noise_sd", "sigma_shape", "sigma_rate")
        layers = {"L": len(self.width), "width": list(self.width)}
        data = {"N": len(self.x), "D": 1, "x": self.x[:, None], "y": self.y, **layers}
        return data | {name: getattr(self, name) for name in priors}

    def predict(self, weights: Weights, x: FloatArray) -> FloatArray:
        """Return f at each x, shape (…, n).

        Parameters
        ----------
        weights : mapping
            `hidden_weight`, `output_weight` and `output_bias`, with any leading axes.
        x : array, shape (n,)
            Inputs.
        """
        h, position = np.asarray(x, dtype=np.float64)[:, None], 0
        hidden = weights["hidden_weight"]
        for units in self.width:
            size = (h.shape[-1] + 1) * units
            part = hidden[..., position : position + size]
            w = part.reshape(*hidden.shape[:-1], units, -1)
            h = np.tanh(h @ w[..., :-1].swapaxes(-1, -2) + w[..., None, :, -1])
            position += size
        value = (h @ weights["output_weight"][..., None])[..., 0]
        return np.asarray(value + weights["output_bias"][..., None])

    def sd(self, weights: Weights) -> FloatArray:
        """Return the sd of the noise in each draw: σ², as in the lecture, or the known sd."""
        if self.noise_sd > 0:
            return np.full(weights["output_bias"].shape, self.noise_sd)
        return np.asarray(weights["sigma"][..., 0] ** 2)

    def log_likelihood(self, weights: Weights) -> FloatArray:
        """Return log p(y | weights), the sum over all points, shape (…)."""
        sd = self.sd(weights)
        squares = np.empty(sd.shape)
        for index in np.ndindex(sd.shape[:-1]):  # one chain at a time, to save memory
            one = {name: values[index] for name, values in weights.items()}
            squares[index] = ((self.y - self.predict(one, self.x)) ** 2).sum(axis=-1)
        num = len(self.y)
        return np.asarray(-0.5 * squares / sd**2 - num * np.log(sd) - num / 2 * np.log(2 * np.pi))

    def another_copy(self, weights: Weights) -> dict[str, FloatArray]:
        """Return other weights that define the same function.

        The units of the last hidden layer are in reverse order, with their signs flipped.

        Parameters
        ----------
        weights : mapping
            The weights of one draw, without leading axes.
        """
        units = self.width[-1]
        inputs = self.width[-2] if len(self.width) > 1 else 1
        hidden = weights["hidden_weight"].copy()
        last = hidden[-(inputs + 1) * units :].reshape(units, inputs + 1)
        hidden[-(inputs + 1) * units :] = -last[::-1].ravel()
        output = -weights["output_weight"][::-1]
        return {**weights, "hidden_weight": hidden, "output_weight": output}


@dataclass(frozen=True)
class RegressionTask:
    """A network, the curve that it should learn, and the settings of its fits.

    Attributes
    ----------
    name, title : str
        The name in file names, and the title in findings.
    network : Network
        The network and its training points.
    curve : function
        The curve around which the points were drawn.
    grid : array
        Points at which the predictive function is drawn.
    num_draws, max_treedepth : int
        Settings of each NUTS chain, chosen for a run time of a few minutes.
    metric : str
        Form of NUTS's inverse metric. A dense metric follows narrow ridges, but for many weights it
        costs at least as much time as a gradient.
    num_ascents : int
        Number of ascents per chain; NUTS starts where the best one ends.
    """

    name: str
    title: str
    network: Network
    curve: Callable[[FloatArray], FloatArray]
    grid: FloatArray
    num_draws: int
    max_treedepth: int
    metric: str
    num_ascents: int

    @property
    def judged(self) -> FloatArray:
        """Points in the range of x at which functions are judged; outside it, modes differ most."""
        return np.quantile(self.network.x, np.linspace(0.02, 0.98, 25))


def denoising(rng: np.random.Generator, num_points: int) -> RegressionTask:
    """Return the denoising task: points in two intervals, and 5 units.

    The points are y = x + 0.3 sin 2π(x+ε) + 0.3 sin 4π(x+ε) with ε ~ N(0, 0.02²). The noise is
    inside the sines, so it is widest where their sum is steepest.
    """
    half = num_points // 2
    x = np.sort(np.concatenate([rng.uniform(0, 0.4, half), rng.uniform(0.6, 1, half)]))
    y = denoising_curve(x, rng.normal(0, 0.02, x.size))
    network = Network(x, y, (5,), weight_sd=10.0)
    title, grid = "the denoising curve, 5 tanh units", np.linspace(-0.2, 1.2, 141)
    return RegressionTask("denoising", title, network, denoising_curve, grid, 500, 8, "dense_e", 40)


def denoising_curve(x: FloatArray, noise: FloatArray | float = 0.0) -> FloatArray:
    """Return the denoising curve at x with noise inside the sines."""
    at = 2 * np.pi * (x + noise)
    return np.asarray(x + 0.3 * np.sin(at) + 0.3 * np.sin(2 * at))


def cubed_sine(rng: np.random.Generator) -> RegressionTask:
    """Return the task sin³(6x): known noise sd 0.1, 34 points in two intervals, 1–10–10–1 units."""
    x = np.sort(np.concatenate([rng.uniform(-1, -0.2, 17), rng.uniform(0.2, 1, 17)]))
    y = cubed_sine_curve(x) + rng.normal(0, 0.1, x.size)
    network = Network(x, y, (10, 10), 1.0, noise_sd=0.1)
    title, grid = "sin³(6x), 10 and 10 tanh units", np.linspace(-1.5, 1.5, 151)
    return RegressionTask(
        "cubed-sine", title, network, cubed_sine_curve, grid, 1_000, 9, "diag_e", 3
    )


def cubed_sine_curve(x: FloatArray) -> FloatArray:
    """Return sin³(6x)."""
    return np.asarray(np.sin(6 * x) ** 3)
