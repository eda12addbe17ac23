"""A fit by NUTS that takes long names the engine exact, if that applies, and is not changed."""

import logging
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from mixed_models import table

import pyflowers
from pyflowers.engines import SamplerOptions, find_engine
from pyflowers.engines import cmdstan as engine
from pyflowers.fits import sampling
from pyflowers.programs import find_program

QUICK = {"seed": 1, "engine": "stanli", "warmup": 100, "draws": 100}


@pytest.mark.parametrize(
    ("formula", "how", "applies"),
    [
        ("y ~ x + (1 | g) + (1 | h)", {}, True),
        ("y ~ x + (1 | gr(g, dist = student))", {}, False),
        ("n ~ x + (1 | g) + (1 | h)", {"family": "poisson"}, False),
    ],
)
def test_a_long_fit_names_the_engine_that_needs_no_chain(
    formula, how, applies, monkeypatch, caplog
):
    frame = table().assign(n=1)
    before = pyflowers.fit(formula, frame, **how, **QUICK)
    assert not caplog.records
    monkeypatch.setattr(sampling, "SECONDS_FIRST", 0.0)
    monkeypatch.setattr(sampling, "SECONDS_LONG", 0.001)
    with caplog.at_level(logging.WARNING, logger="pyflowers"):
        after = pyflowers.fit(formula, frame, **how, **QUICK)
    said = [each.message for each in caplog.records]
    assert len(said) == applies
    for line in said:
        assert line.startswith(f"{after.called}: by its first iterations, NUTS will take long")
        assert 'applies to this formula: --engine exact (in Python, engine="exact")' in line
    assert all(np.array_equal(after.draws[name], before.draws[name]) for name in before.draws)


def test_fits_in_other_threads_say_nothing(monkeypatch, caplog):
    monkeypatch.setattr(sampling, "SECONDS_FIRST", 0.0)
    monkeypatch.setattr(sampling, "SECONDS_LONG", 0.001)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(pyflowers.fit, "y ~ x + (1 | g)", table(), **QUICK).result()
    assert not caplog.records


@pytest.mark.parametrize(
    ("seconds", "share", "is_long"),
    [(9, 0.01, False), (11, 0.3, True), (11, 0.4, False), (29, 0.99, False), (35, 0.99, True)],
)
def test_the_time_of_all_iterations_is_judged(seconds, share, is_long, monkeypatch, caplog):
    monkeypatch.setattr(sampling, "SECONDS_FIRST", 10.0)
    program = pyflowers.Program.from_formula("y ~ x + (1 | g)", table())
    data = program.fill(program.read(table()), program.resolve_priors(None, program.read(table())))
    pace = sampling._Pace(program, data[0], time.monotonic() - seconds)
    for _ in range(2):
        pace(share)
    assert len(caplog.records) == is_long


def test_the_chains_of_cmdstan_report_their_share(executables, monkeypatch):
    monkeypatch.setattr(engine, "SECONDS_BETWEEN", 0.01)
    program = find_program("multilevel_normal")
    loaded = find_engine("cmdstan", "embedded").load(program)
    data = program.read(program.example)
    whole, _ = program.fill(data, program.resolve_priors(None, data))
    options = SamplerOptions(seed=1, chains=2, warmup=3_000, draws=5_000)
    shares = []
    loaded.sample(program.stan_values(whole), options, watch=shares.append)
    assert shares == sorted(shares)
    assert shares
    assert all(0 <= share <= 1 for share in shares)
    assert any(0.375 < share < 1 for share in shares)
