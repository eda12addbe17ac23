"""Fits, programs and results can be copied and passed between processes without loss."""

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pytest
from own_programs import DECLARATION, TRIAL, visits
from synthetic_fits import same

import pyflowers
from pyflowers.analysis.elpd import leave_one_group_out, loo

QUICK = {"seed": 1, "chains": 2, "warmup": 200, "draws": 100, "engine": "stanli"}

WAYS = {"pickle": lambda given: pickle.loads(pickle.dumps(given)), "deepcopy": copy.deepcopy}


@pytest.fixture(scope="module")
def fits(tmp_path_factory):
    """Fits of two shipped programs and of a user program."""
    path = tmp_path_factory.mktemp("own") / "trial.stan"
    path.write_text(TRIAL)
    path.with_suffix(".toml").write_text(DECLARATION)
    found = [
        pyflowers.fit(name, **QUICK) for name in ("multilevel_poisson", "semiconjugate_normal")
    ]
    return [*found, pyflowers.fit(path, visits(), **QUICK)]


def assert_same(back, fit):
    assert same(back, fit)
    pd.testing.assert_frame_equal(back.summary(), fit.summary())
    assert str(back.diagnostics) == str(fit.diagnostics)
    assert back.program.capabilities == fit.program.capabilities
    np.testing.assert_array_equal(back.log_likelihood(), fit.log_likelihood())
    np.testing.assert_array_equal(back.posterior_predictive(), fit.posterior_predictive())


@pytest.mark.parametrize("way", WAYS)
def test_a_fit_comes_back_whole(fits, way):
    for fit in fits:
        fit.posterior, fit.diagnostics  # noqa: B018  cached attributes are copied, too
        back = WAYS[way](fit)
        assert_same(back, fit)
        assert back.record == fit.record
        assert WAYS[way](fit.program).source == fit.program.source


@pytest.mark.parametrize("way", WAYS)
def test_results_come_back_whole(fits, way):
    poisson, normal, own = fits
    for made, table in (
        (pyflowers.check(own), lambda it: it.table()),
        (pyflowers.check(poisson), lambda it: it.table()),
        (pyflowers.predict(poisson), lambda it: it.table()),
        (pyflowers.contrast(own, "tau > 1", "rank(alpha)"), lambda it: it.ranks()),
        (loo([normal]), lambda it: pd.DataFrame(it.models[0].terms)),
        (pyflowers.sensitivity(own), lambda it: it.table()),
        (leave_one_group_out([poisson]), lambda it: pd.DataFrame(it.models[0].terms)),
        (pyflowers.prior("multilevel_poisson", seed=1), lambda it: it.implied()),
        (
            pyflowers.compare("", nuts=normal, approximations=False),
            lambda it: it.table(),
        ),
        (
            normal.program.python.closed_form.vb(normal.data),
            lambda it: pd.DataFrame(np.atleast_1d(it.elbo)),
        ),
    ):
        pd.testing.assert_frame_equal(table(WAYS[way](made)), table(made))


def fitted(seed):
    return pyflowers.fit("multilevel_poisson", **{**QUICK, "seed": seed})


def test_a_pool_of_processes_returns_fits(fits):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert_same(pool.submit(fitted, 1).result(), fits[0])
        there = pool.submit(pyflowers.Fit.summary, fits[2]).result()
    pd.testing.assert_frame_equal(there, fits[2].summary())


def test_draws_say_what_they_are_of(fits):
    with pytest.raises(KeyError, match=r"mu_plant\[1\] is not a quantity; there are draws of mu, "):
        fits[0].draws["mu_plant[1]"]
    with pytest.raises(KeyError, match=r"nu is not a quantity; there are draws of mu, .*plant'$"):
        fits[0].draws["nu"]
    assert "nu" not in fits[0].draws
