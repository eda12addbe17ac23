"""Tables and densities with which the tests of curves compare programs.

Densities are written from the definitions, with SciPy's splines, and without the code that writes
programs.
"""

import numpy as np
import pandas as pd
import pytest
import stanli
from scipy import stats
from scipy.interpolate import CubicSpline
from stanio import dump_stan_json

import pyflowers
from pyflowers import Program
from pyflowers.engines.bridge import Bridge, compiled
from pyflowers.errors import ConfigError, DataError

NUM = 60

LABELS = [f"g{i}" for i in range(6)]
KINSHIP = pd.DataFrame(
    0.6 ** np.abs(np.subtract.outer(np.arange(6), np.arange(6))), index=LABELS, columns=LABELS
)
"""A known covariance of the groups of `table`."""


def table(seed=4):
    """Return a table with numbers, a factor, an ordered factor, months and groups."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.uniform(2, 9, NUM), "z": rng.normal(0.5, 1, NUM)}).round(4)
    frame["f"] = rng.permutation(np.tile(["b", "a", "c"], NUM // 3))
    frame["level"] = rng.permutation(np.tile([1, 2, 4, 7], NUM // 4))
    frame["month"] = rng.permutation(np.tile(np.arange(1, 13), NUM // 12))
    frame["g"] = rng.permutation(np.tile(LABELS, NUM // 6))
    frame["y"] = (np.sin(frame.x) + 0.2 * frame.level + rng.normal(0, 0.4, NUM)).round(4)
    frame["count"] = rng.poisson(np.exp(0.5 + 0.3 * np.sin(frame.x)))
    return frame


class Interpreted:
    """The interpreter's density in this process, without the Jacobian of its transforms.

    The Jacobian is the density of a program with the same parameters and nothing else.
    """

    def __init__(self, program, data):
        text = program.source.text
        self.data = dump_stan_json(program.stan_values(data))
        end = text.index("transformed parameters {")
        functions = text[: text.index("data {")]
        block = text[text.index("data {") : end]
        self.whole = self._bridge(text)
        self.jacobian = self._bridge(f"{functions}{block}model {{}}")
        self.names = self.whole.names

    def _bridge(self, text):
        mir = stanli.stan_to_mir(text)
        model = stanli.bridgestan_model(mir=mir, data=self.data, seed=1)
        return Bridge(model.lib_path, model.model, model, forgiving=True)

    def evaluate(self, values):
        """Return log densities and gradients at the values of parameters."""
        points = self.whole.unconstrain(values)
        value, gradient = self.whole.evaluate(points, True)
        of_jacobian, its_gradient = self.jacobian.evaluate(points, True)
        return value - of_jacobian, gradient - its_gradient


class Compiled:
    """The same for a compiled program."""

    def __init__(self, program, data):
        text = dump_stan_json(program.stan_values(data))
        self.whole = compiled(program.source, text, 1)

    def evaluate(self, values):
        """Return log densities and gradients at the values of parameters."""
        points = self.whole.unconstrain(values)
        value, gradient = np.empty(len(points)), np.empty_like(points)
        function = self.whole._library.bs_log_density_gradient
        for _ in self.whole._failures(function, (True, False), [points, value, gradient]):
            raise self.whole._failure()
        return value, gradient


def points_of(program, data, num=20, seed=1):
    """Return random values of all parameters, as one mapping for each point."""
    rng, block = np.random.default_rng(seed), program.source.blocks.parameters
    found = []
    for _ in range(num):
        point = {}
        for name, variable in block.items():
            shape = tuple(
                int(data.values[size]) if size in data.values else int(size)
                for size in variable.sizes
            )
            value = rng.normal(0, 0.7, shape)
            if name.startswith(("sd", "sigma", "lscale")):
                value = np.exp(value)
            if name.startswith("share"):
                value = rng.dirichlet(np.full(shape[0], 2.0))
            point[name] = value
        found.append(point)
    return found


def with_factors(points):
    """Return points whose two effects by g have a correlation that differs between them."""
    found = []
    for i, point in enumerate(points):
        cor = np.tanh(0.3 * (i - 10))
        found.append({**point, "L_g": np.array([[1.0, 0.0], [cor, np.sqrt(1 - cor**2)]])})
    return found


def flat(points):
    return np.array([np.concatenate([np.ravel(v, order="F") for v in p.values()]) for p in points])


def assert_density(program, data, points, by_hand):
    """Compare the log density in Stan with its definition, a function of a point."""
    ours, _ = Interpreted(program, data).evaluate(flat(points))
    theirs = np.array([by_hand(point) for point in points])
    assert np.ptp(ours - theirs) < 1e-9 * np.abs(ours).max()
    assert np.ptp(ours) > 1


def assert_engines_agree(program, data, points):
    """Compare log densities and gradients of the two engines.

    The gradients of simplexes are left out, because the engines transform them differently.
    """
    pair = Interpreted(program, data), Compiled(program, data)
    (one, d_one), (other, d_other) = (each.evaluate(flat(points)) for each in pair)
    np.testing.assert_allclose(other - other[0], one - one[0], rtol=1e-10, atol=1e-10)
    same = [i for i, its in enumerate(pair[0].names) if not its.startswith("share")]
    scale = np.abs(d_one).max()
    np.testing.assert_allclose(d_other[:, same], d_one[:, same], rtol=1e-10, atol=1e-10 * scale)


def prior_of_line(its, numbers):
    """Return the log density of the priors of the intercept and the coefficients of a response."""
    location, scale = numbers["Intercept_location"], numbers["Intercept_scale"]
    found = stats.t.logpdf((its["Intercept_at_means"] - location) / scale, 3)
    return found + stats.norm.logpdf(its["b"], 0, numbers["b_scale"]).sum()


def prior_of_log_sigma(its, numbers):
    """Return the same for those of sigma."""
    location, scale = numbers["Intercept_sigma_location"], numbers["Intercept_sigma_scale"]
    found = stats.t.logpdf((its["Intercept_sigma_at_means"] - location) / scale, 3)
    return found + stats.norm.logpdf(its["b_sigma"], 0, numbers["b_sigma_scale"]).sum()


def assert_predicts_when_loaded(fit, rows, path):
    """Save a fit and check that it predicts the same when it is loaded."""
    fit.save(path)
    one, other = (pyflowers.predict(each, rows).draws() for each in (pyflowers.Fit.load(path), fit))
    np.testing.assert_array_equal(one, other)


def assert_prior_when_written(program, rows, draws, path):
    """Return draws from the prior, which those of the written program equal."""
    again = Program.open(program.write(path))
    first, second = (pyflowers.prior(its, rows, draws=draws, seed=3) for its in (program, again))
    for quantity, its in first.draws.items():
        np.testing.assert_array_equal(its, second.draws[quantity], quantity)
    return first.draws


def assert_one_sentence(message, formula, rows, **how):
    """Check that a formula is rejected with a message of one line."""
    with pytest.raises((ConfigError, DataError)) as caught:
        Program.from_formula(formula, rows, **how)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def assert_calibrated(program, rows, priors, path):
    """Check that the ranks of true values are uniform."""
    how = {"sims": 300, "seed": 1, "engine": "stanli", "priors": priors}
    found = pyflowers.sbc(program, rows, out=path, **how)
    assert not len(found.batch.failures)
    assert found.failed == []


def half_t(value, scale):
    return np.sum(stats.t.logpdf(np.ravel(value) / scale, 3) - np.log(scale))


def splines(program, name, x):
    """Return the curves of a smooth at x, from the values at knots in the declaration."""
    (state,) = program.declaration.data[name].state.values()
    values = np.array(state["values"])
    knots = np.array(state["knots"])
    if "period=" in program.declaration.data[name].terms:
        period = knots[-1] - knots[0]
        at = knots[0] + np.mod(x - knots[0], period)
        return CubicSpline(knots, values, bc_type="periodic")(at)
    its = CubicSpline(knots, values, bc_type="natural")
    inside = np.clip(x, knots[0], knots[-1])
    return its(inside) + (x - inside)[:, None] * its(inside, 1)
