"""A fit by NUTS that takes long names the engine exact, if that applies, and is not changed."""

import logging
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from mixed_models import table

import pyflowers
from pyflowers import progress
from pyflowers.engines import SamplerOptions, find_engine
from pyflowers.engines import cmdstan as engine
from pyflowers.engines.base import ChainProgress
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
        assert line.startswith(f"{after.called}: judging by its first iterations, NUTS will ")
        assert 'applies to this formula: engine="exact"' in line
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
    pace = sampling._Pace("y", program, data[0], 2, time.monotonic() - seconds)
    for _ in range(2):
        pace([ChainProgress(i, round(1000 * share), 1000, is_warmup=False) for i in (1, 2)])
    assert len(caplog.records) == is_long


def test_the_chains_of_cmdstan_report_their_share(executables, monkeypatch):
    monkeypatch.setattr(engine, "SECONDS_BETWEEN", 0.01)
    program = find_program("multilevel_normal")
    loaded = find_engine("cmdstan", "embedded").load(program)
    data = program.read(program.example)
    whole, _ = program.fill(data, program.resolve_priors(None, data))
    options = SamplerOptions(seed=1, chains=2, warmup=3_000, draws=5_000)
    seen = []
    loaded.sample(program.stan_values(whole), options, watch=seen.append)
    of_first = [each for chains in seen for each in chains if each.chain == 1]
    done = [each.iteration for each in of_first]
    assert done == sorted(done)
    assert all(each.is_warmup == (each.iteration == 3_000) for each in of_first)
    assert all(each.is_exact != each.is_warmup for each in of_first)
    assert any(3_000 < num < 8_000 for num in done)
    assert {each.chain for chains in seen for each in chains} == {1, 2}
    assert {each.total for chains in seen for each in chains} == {8_000}


def test_the_chains_of_the_interpreter_report_their_iterations():
    program = find_program("iid_normal")
    loaded = find_engine("stanli").load(program)
    data = program.read(program.example)
    whole, _ = program.fill(data, program.resolve_priors(None, data))
    options = SamplerOptions(seed=1, chains=2, warmup=300, draws=100)
    seen = []
    loaded.sample(program.stan_values(whole), options, watch=seen.append)
    last = {each.chain: each for chains in seen for each in chains}
    assert {each.iteration for each in last.values()} == {400}
    assert not any(each.is_warmup for each in last.values())
    assert any(each.is_warmup and each.iteration < 300 for chains in seen for each in chains)


WARMING = ChainProgress(1, 300, 2000, is_warmup=True)
UNKNOWN = ChainProgress(2, 1000, 2000, is_warmup=True, is_exact=False)
DRAWING = ChainProgress(3, 1500, 2000, is_warmup=False)


@pytest.mark.parametrize(
    ("chains", "words"),
    [
        ([], ""),
        ([WARMING], "\n  chain 1: 300 of 2,000 iterations, warm-up"),
        ([UNKNOWN], "\n  chain 2: warm-up"),
        (
            [UNKNOWN, DRAWING],
            ", about 60 seconds left\n  chain 2: warm-up\n"
            "  chain 3: 1,500 of 2,000 iterations, warm-up done",
        ),
    ],
)
def test_the_log_tells_how_far_the_chains_are(chains, words):
    """Of 2 chains, a half and three quarters are done after 100 seconds."""
    pace = sampling._Pace("y", None, None, 2, time.monotonic() - 100, chains, is_settled=True)
    assert pace.so_far() == words


def test_a_long_fit_off_a_terminal_says_how_far_it_is(monkeypatch, caplog):
    monkeypatch.setattr(progress, "FIRST", 0.05)
    how = {**QUICK, "chains": 2, "warmup": 500, "draws": 20_000}
    with caplog.at_level(logging.INFO, logger="pyflowers"):
        pyflowers.fit("y ~ x + (1 | g)", table(), name="by g", **how)
    said = [each.message for each in caplog.records]
    assert all(line.startswith("Sampling by g, after ") for line in said)
    assert any("\n  chain 1: " in line and " of 20,500 iterations, " in line for line in said)
