"""Networks in NumPy agree with the definition, scipy and the Stan program."""

import math

import numpy as np
import pytest
from scipy import stats

from pyflowers.lectures.networks import (
    Network,
    cubed_sine,
    cubed_sine_curve,
    denoising,
    denoising_curve,
)
from pyflowers.lectures.neural_network import open_density

RNG = np.random.default_rng(2)
X = np.linspace(-1, 1, 7)
DEEP = Network(X, np.sin(X), (3, 2), weight_sd=1.5, noise_sd=0.3)
WIDE = Network(X, np.cos(X), (4,), weight_sd=10.0)


def draws_of(network, shape):
    """Return random weights with the given leading axes."""
    inputs = (1, *network.width)
    num_hidden = sum((a + 1) * b for a, b in zip(inputs, network.width, strict=False))
    weights = {
        "hidden_weight": RNG.normal(size=(*shape, num_hidden)),
        "output_weight": RNG.normal(size=(*shape, network.width[-1])),
        "output_bias": RNG.normal(size=shape),
    }
    if network.noise_sd == 0:
        weights["sigma"] = RNG.gamma(3.0, 0.3, size=(*shape, 1))
    return weights


def by_hand(network, weights, x):
    """Return f at one x by loops over units."""
    values, position = [x], 0
    for units in network.width:
        following = []
        for _ in range(units):
            part = weights["hidden_weight"][position : position + len(values) + 1]
            total = sum(w * v for w, v in zip(part[:-1], values, strict=True)) + part[-1]
            following.append(math.tanh(total))
            position += len(values) + 1
        values = following
    inner = sum(w * v for w, v in zip(weights["output_weight"], values, strict=True))
    return inner + weights["output_bias"]


@pytest.mark.parametrize("network", [DEEP, WIDE])
def test_predictions_equal_loops_over_units(network):
    weights = draws_of(network, (2, 3))
    found = network.predict(weights, X)
    assert found.shape == (2, 3, 7)
    one = {name: values[1, 2] for name, values in weights.items()}
    assert np.allclose(found[1, 2], [by_hand(network, one, x) for x in X])


@pytest.mark.parametrize("network", [DEEP, WIDE])
def test_log_likelihood_equals_scipys(network):
    weights = draws_of(network, (2, 3))
    sd = network.sd(weights)[1, 2]
    f = network.predict(weights, X)[1, 2]
    expected = stats.norm.logpdf(network.y, f, sd).sum()
    assert np.isclose(network.log_likelihood(weights)[1, 2], expected)
    if network.noise_sd == 0:
        assert sd == weights["sigma"][1, 2, 0] ** 2


@pytest.mark.parametrize("network", [DEEP, WIDE])
def test_the_stan_program_is_the_same_model(network):
    density = open_density(network)
    weights = draws_of(network, (5,))
    scale = network.weight_sd
    prior = sum(
        stats.norm.logpdf(weights[name], 0, scale).reshape(5, -1).sum(axis=1)
        for name in ("hidden_weight", "output_weight", "output_bias")
    )
    expected = prior + network.log_likelihood({k: v[None] for k, v in weights.items()})[0]
    if "sigma" in weights:
        sigma = weights["sigma"][:, 0]
        # the program samples log sigma; the Jacobian d sigma / d log sigma is sigma
        expected = expected + stats.gamma.logpdf(sigma, 0.5, scale=1.0) + np.log(sigma)
    else:
        weights["sigma"] = np.zeros((5, 0))
    found = density.log_density(density.unconstrain(weights))
    assert np.ptp(found - expected) < 1e-9
    assert np.ptp(expected) > 1
    assert density.dim == network.num_weights + (network.noise_sd == 0)


@pytest.mark.parametrize("network", [DEEP, WIDE])
def test_another_copy_is_the_same_function(network):
    weights = {name: values[0] for name, values in draws_of(network, (1,)).items()}
    copy = network.another_copy(weights)
    assert not np.allclose(copy["hidden_weight"], weights["hidden_weight"])
    assert np.allclose(network.predict(copy, X), network.predict(weights, X))
    flipped = {**copy, "output_weight": -copy["output_weight"]}
    assert not np.allclose(network.predict(flipped, X), network.predict(weights, X))


def test_copies_and_weights_are_counted():
    assert WIDE.num_copies == 2**4 * 24
    assert DEEP.num_copies == 2**3 * 6 * 2**2 * 2
    assert cubed_sine(np.random.default_rng(1)).network.num_weights == 141


def test_the_tasks_are_the_lectures():
    first = denoising(np.random.default_rng(3), 1_000)
    assert first.network.x.size == 1_000
    assert not ((first.network.x > 0.4) & (first.network.x < 0.6)).any()
    assert (first.network.width, first.network.weight_sd) == ((5,), 10.0)
    residual = first.network.y - denoising_curve(first.network.x)
    assert 0.02 < residual.std() < 0.2
    second = cubed_sine(np.random.default_rng(3))
    assert second.network.x.size == 34
    assert (second.network.width, second.network.noise_sd) == ((10, 10), 0.1)
    noise = second.network.y - cubed_sine_curve(second.network.x)
    assert 0.05 < noise.std() < 0.15
