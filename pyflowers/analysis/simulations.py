"""Simulate parameters and data, fit each data set, and rank the truth among the draws.

If the simulated parameters come from the prior and the draws from the posterior, the rank of the
true value among L independent draws is uniform on {0, …, L}. Draws are thinned to L, and fits
whose effective sample size is below L are reported.

References
----------
.. [1] Talts, Betancourt, Simpson, Vehtari and Gelman (2018), Validating Bayesian inference
   algorithms with simulation-based calibration, arXiv:1804.06788, section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pyflowers.analysis.priors import prior
from pyflowers.analysis.sbc_posterior import simulate_from_posterior
from pyflowers.analysis.sbc_ranks import of_fit
from pyflowers.analysis.sbc_result import Calibration
from pyflowers.batches import Batch, Keep, Task, batch
from pyflowers.engines import Engine, SamplerOptions, new_seed
from pyflowers.errors import ConfigError
from pyflowers.programs import Capability, Data, Draws, Program, find_program

FEWEST_RANKS = 50
NUM_RANKS = 100
"""Draws that a true value is ranked among."""

PRIOR_THIN = 10
"""Draws of the prior for each one used: those of ``prior_only`` are of Markov chains, and the bands
take the simulated data sets as independent."""

_LARGEST_COUNT = 2**31 - 1
"""The largest whole number that Stan holds."""


class Simulations(Protocol):
    """Parameters and the data that they imply, as :class:`pyflowers.priors.PriorPredictive` is."""

    @property
    def program(self) -> Program:
        """What is to be fitted."""

    @property
    def data(self) -> Data:
        """The design; its observed variable holds placeholders."""

    @property
    def draws(self) -> Draws:
        """Every parameter, each of shape (chain, draw, …)."""

    @property
    def y_rep(self) -> NDArray[np.float64] | None:
        """Data implied by each draw, shape (chain, draw, N); None if there are none."""

    @property
    def priors(self) -> Mapping[str, float]:
        """Hyperparameters as used."""

    @property
    def drawn_by(self) -> str:
        """``numpy``, or the engine."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What qualifies the draws."""


def sbc(
    program: str | Path | Program,
    data: Any = None,
    *,
    out: str | Path,
    sims: int = 1000,
    seed: int | None = None,
    priors: Mapping[str, float] | None = None,
    quantities: Sequence[str] = (),
    num_ranks: int = NUM_RANKS,
    options: Mapping[str, Any] | None = None,
    engine: str | Engine = "auto",
    cmdstan: str | Path | None = None,
    executor: Any = None,
    workers: int | None = None,
    simulate: Callable[[int, int], Simulations] | None = None,
    posterior: bool = False,
    **design: Any,
) -> Calibration:
    """Check a program's computation by simulation; a second run continues where the first stopped.

    Parameters
    ----------
    program : str, Path or Program
        A program that can draw from its prior and has ``y_rep``.
    data : path, DataFrame or mapping, optional
        The design: groups, times, covariates. The observed column is read for `posterior` only.
    out : path
        The folder of the batch, see :func:`pyflowers.batch`.
    sims : int
        Number of simulated data sets.
    seed : int, optional
        Of everything; by default that of an earlier run in `out`, else drawn.
    priors : mapping of str to float, optional
        Hyperparameters; every prior must be proper, but for `posterior`.
    quantities : sequence of str
        More test quantities, see :func:`pyflowers.analysis.sbc_ranks.of_fit`.
    num_ranks : int
        Draws that a true value is ranked among, at least 50.
    options : mapping
        Sampler options, as :class:`pyflowers.batches.Task` takes them.
    engine, cmdstan, executor, workers
        As :func:`pyflowers.batch` takes them.
    simulate : callable, optional
        (number, seed) to prior draws and data in place of the program's own prior; with the
        program's own, an error in its prior or its ``y_rep`` is not seen.
    posterior : bool
        Whether parameters are drawn from the posterior given the observed data, which the fits then
        see beside the simulated ones: see :mod:`pyflowers.analysis.sbc_posterior`.
    **design
        ``group``, ``time``, ``columns`` and so on, see :func:`pyflowers.prior`.

    Raises
    ------
    ConfigError
        If the program lacks a capability, a prior is improper, or an option is out of its range.
    """
    if isinstance(sims, bool) or not isinstance(sims, int) or sims < 1:
        raise ConfigError(f"sims must be a whole number of at least 1, was {sims!r}")
    chosen = _seed_of(out) if seed is None else seed
    # Of these only what is given goes to the tasks: an engine refuses options that it does not use.
    given = dict(options or {})
    if "seed" in given:
        raise ConfigError("options: the seed is not one of them; leave it out, and give seed=")
    sampler = SamplerOptions.of(**{"seed": chosen, **given})
    kept = sampler.chains * -(-sampler.draws // sampler.thin)
    thin = kept // num_ranks if num_ranks >= FEWEST_RANKS else 0
    if thin < 1:
        raise ConfigError(
            f"num_ranks must lie between {FEWEST_RANKS} and the {kept} draws of a fit, was "
            f"{num_ranks}"
        )
    if posterior and simulate is not None:
        raise ConfigError("posterior: it simulates by itself; leave out one of it and simulate")
    setup: dict[str, Any] = {"priors": priors, "engine": engine, "cmdstan": cmdstan}
    made: Simulations
    if simulate is not None:
        made = simulate(sims, chosen)
    elif posterior:
        num = max(-(-sims * PRIOR_THIN // sampler.chains), sampler.draws)
        thinned = SamplerOptions.of(**{"seed": chosen, **given, "draws": num, "thin": 1})
        made = _from_posterior(program, data, thinned, design, setup)
    else:
        number = max(4, sims * PRIOR_THIN)
        made = prior(program, data, draws=number, seed=chosen, **setup, **design)
    if made.y_rep is None:
        made.program.require(Capability.Y_REP)
    tasks = list(_tasks(made, sims, given, thin, quantities))
    fitted = batch(
        tasks,
        out=out,
        executor=executor,
        seed=chosen,
        engine=engine,
        cmdstan=cmdstan,
        workers=workers,
    )
    own = simulate is None and not posterior and made.drawn_by != "numpy"
    found = Calibration(
        fitted,
        made.program.name,
        chosen,
        simulator_is_program=own,
        is_posterior=posterior,
        of_simulation=made.notes if posterior else (),
        sha256=made.program.source.sha256,
        priors=dict(made.priors),
    )
    found.write()
    return found


def _seed_of(out: str | Path) -> int:
    """Return the seed of an earlier run, whose simulations go on, or a new one."""
    known: int | None = None
    with suppress(ConfigError):  # there is none, or batch will say what is wrong with it
        known = Batch(Path(out)).seed
    return new_seed() if known is None else known


def _from_posterior(
    program: str | Path | Program,
    data: Any,
    options: SamplerOptions,
    design: dict[str, Any],
    setup: Mapping[str, Any],
) -> Simulations:
    """Simulate from the posterior given the observed data."""
    opened = find_program(program, tuple(map(str, design.pop("include_paths", ()))))
    read = opened.read(data, **design)
    return simulate_from_posterior(opened, read, options, **setup)


def _tasks(
    made: Simulations, sims: int, options: Mapping[str, Any], thin: int, more: Sequence[str]
) -> Iterator[Task]:
    """Yield a task for each simulated data set."""
    program, design = made.program, made.data
    assert made.y_rep is not None  # the caller has checked
    observed = design.observed
    shape = np.shape(design.values[observed])
    whole = program.source.blocks.data[observed].is_int
    own = set(program.declaration.priors) | set(program.python.choices)
    own |= {program.declaration.roles.prior_only}
    fixed = {name: v for name, v in program.stan_values(design).items() if name not in own}
    if program.declaration.roles.prior_only in program.source.blocks.data:
        fixed[program.declaration.roles.prior_only] = 0
    parameters = [name for name in made.draws if name in program.source.blocks.draws]
    parameters = [name for name in parameters if name not in program.internal]
    every = max(1, made.y_rep.shape[0] * made.y_rep.shape[1] // sims)
    true = {
        name: made.draws[name].reshape(-1, *made.draws[name].shape[2:])[::every]
        for name in parameters
    }
    y = made.y_rep.reshape(-1, made.y_rep.shape[-1])[::every]
    for i in range(sims):
        values = y[i]
        if whole:
            # A value that Stan cannot hold makes a task that fails with that message.
            fits_in = np.isfinite(values).all() and values.max(initial=0) <= _LARGEST_COUNT
            values = values.astype(np.int64) if fits_in else values
        yield Task(
            program,
            {**fixed, observed: values.reshape(shape)},
            name=str(i + 1),
            repeat=i,
            priors=made.priors,
            options=options,
            keep=(
                Keep(
                    f"{of_fit.__module__}:of_fit",
                    {
                        "true": {name: each[i].tolist() for name, each in true.items()},
                        "thin": thin,
                        "functions": list(more),
                    },
                    "ranks",
                ),
            ),
        )
