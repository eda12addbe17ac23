"""Simulate parameters and data, fit each data set, and rank the truth among the draws.

If the simulated parameters come from the prior and the draws from the posterior, the rank of the
true value among L independent draws is uniform on {0, …, L}. Draws are thinned to L, and fits
whose effective sample size is below L are reported [1]_.

Posterior SBC [2]_ asks whether the computation is right at one data set. Parameters are drawn from
the posterior given y, new data y_new of the same design from them, and
the model is fitted to both. The parameters are then a draw of its posterior given (y, y_new) as
well, so that their ranks are uniform. Prior SBC averages over all data that the prior implies; this
asks at the data that were observed, and needs no proper prior.

A program with an effect of each observation, such as b[N], has one of each new row, too. It is
drawn where the new rows are in the data and left out of the likelihood, by ``held_out``.

References
----------
.. [1] Talts, Betancourt, Simpson, Vehtari and Gelman (2018), Validating Bayesian inference
   algorithms with simulation-based calibration, arXiv:1804.06788, section 4.
.. [2] Säilynoja, Schmitt, Bürkner and Vehtari (2025), Posterior SBC: Simulation-based calibration
   checking conditional on data, arXiv:2502.03279, section 2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pyflowers.analysis.calibration import Calibration, check_files, of_fit
from pyflowers.analysis.priors import PriorPredictive, prior
from pyflowers.batches import Batch, Keep, Task, batch
from pyflowers.engines import Engine, SamplerOptions, find_engine, new_seed
from pyflowers.errors import ConfigError
from pyflowers.fits.sampling import fit_data
from pyflowers.programs import Capability, Data, Program, find_program

FEWEST_RANKS = 50
NUM_RANKS = 100
"""Draws that a true value is ranked among."""

PRIOR_THIN = 10
"""Draws of the prior for each one used: those of ``prior_only`` are of Markov chains, and the bands
take the simulated data sets as independent."""

_LARGEST_COUNT = 2**31 - 1
"""The largest whole number that Stan holds."""


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
    simulate: Callable[[int, int], PriorPredictive] | None = None,
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
        More test quantities, see :func:`pyflowers.analysis.calibration.of_fit`.
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
        see beside the simulated ones: see :mod:`pyflowers.analysis.simulations`.
    **design
        ``group``, ``time``, ``columns`` and so on, see :func:`pyflowers.prior`.

    Raises
    ------
    ConfigError
        If the program lacks a capability, a prior is improper, or an option is out of its range.
    """
    if isinstance(sims, bool) or not isinstance(sims, int) or sims < 1:
        raise ConfigError(f"sims must be a whole number of at least 1, was {sims!r}")
    check_files(out)
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
    if simulate is not None:
        made = simulate(sims, chosen)
    elif posterior:
        num = max(-(-sims * PRIOR_THIN // sampler.chains), sampler.draws)
        thinned = SamplerOptions.of(**{"seed": chosen, **given, "draws": num, "thin": 1})
        opened = find_program(program, tuple(map(str, design.pop("include_paths", ()))))
        made = simulate_from_posterior(opened, opened.read(data, **design), thinned, **setup)
    else:
        number = max(4, sims * PRIOR_THIN)
        made = prior(program, data, draws=number, seed=chosen, **setup, **design)
    if made.y_rep is None:
        made.program.require(Capability.Y_REP)
    tasks = list(_tasks(made, sims, given, thin, quantities))
    where = {"out": out, "executor": executor, "workers": workers, "engine": engine}
    found = Calibration(
        batch(tasks, seed=chosen, cmdstan=cmdstan, **where),
        made.program.name,
        chosen,
        simulator_is_program=simulate is None and not posterior and made.drawn_by != "numpy",
        is_posterior=posterior,
        of_simulation=made.notes if posterior else (),
        sha256=made.program.source.sha256,
        priors=dict(made.priors),
    )
    found.save()
    return found


def _seed_of(out: str | Path) -> int:
    """Return the seed of an earlier run, whose simulations go on, or a new one."""
    known: int | None = None
    with suppress(ConfigError):  # there is none, or batch will say what is wrong with it
        known = Batch(Path(out)).seed
    return new_seed() if known is None else known


def _tasks(
    made: PriorPredictive, sims: int, options: Mapping[str, Any], thin: int, more: Sequence[str]
) -> Iterator[Task]:
    """Yield a task for each simulated data set."""
    program, design = made.program, made.data
    assert made.y_rep is not None  # the caller has checked
    observed = design.observed
    shape = np.shape(design.values[observed])
    whole = program.source.blocks.data[observed].is_int
    prior_only = program.declaration.roles.prior_only
    own = {*program.declaration.priors, *program.python.choices, prior_only}
    fixed = {name: v for name, v in program.stan_values(design).items() if name not in own}
    if prior_only in program.source.blocks.data:
        fixed[prior_only] = 0
    every = max(1, made.y_rep.shape[0] * made.y_rep.shape[1] // sims)
    true = {
        name: draws.reshape(-1, *draws.shape[2:])[::every]
        for name, draws in made.draws.items()
        if name in program.source.blocks.draws and name not in program.internal
    }
    y = made.y_rep.reshape(-1, made.y_rep.shape[-1])[::every]
    how = {"thin": thin, "functions": list(more)}
    for i in range(sims):
        values = y[i]
        if whole:
            # A value that Stan cannot hold makes a task that fails with that message.
            fits_in = np.isfinite(values).all() and values.max(initial=0) <= _LARGEST_COUNT
            values = values.astype(np.int64) if fits_in else values
        truth = {name: each[i].tolist() for name, each in true.items()}
        yield Task(
            program,
            {**fixed, observed: values.reshape(shape)},
            name=str(i + 1),
            repeat=i,
            priors=made.priors,
            options=options,
            keep=(Keep(f"{of_fit.__module__}:of_fit", {"true": truth, **how}, "ranks"),),
        )


def simulate_from_posterior(
    program: Program,
    data: Data,
    options: SamplerOptions,
    *,
    priors: Mapping[str, float] | None = None,
    engine: str | Engine = "auto",
    cmdstan: Any = None,
) -> PriorPredictive:
    """Draw parameters given the observed data, and new data from each draw.

    The posterior of the observed data is the prior of the new ones: ``y_rep`` has the observed
    values, then new ones, and ``data`` is the design of both.

    Parameters
    ----------
    program : Program
        Has ``y_rep`` and observed data.
    data : Data
        Its data block, priors left out.
    options : SamplerOptions
        Of the fit of the observed data.
    priors, engine, cmdstan
        As :func:`pyflowers.fit` takes them.

    Raises
    ------
    ConfigError
        If the program cannot replicate data, or rows cannot be added to its data block.
    """
    program.require(Capability.Y_REP)
    program.require(Capability.OBSERVED)
    role = program.declaration.roles.held_out
    leaves_out = program.python.pointwise is None and role in program.source.blocks.data
    size = _size_of_rows(program, leaves_out)
    values, _ = program.fill(data, program.resolve_priors(priors, data))
    num_obs = values.num_obs
    if leaves_out:
        twice = _twice(program, values, size)
        held_out = np.repeat([0, 1], num_obs)
        data = replace(twice, values={**twice.values, role: held_out}, table=None, labels={})
    chosen = find_engine(engine, cmdstan) if isinstance(engine, str) else engine
    fit = fit_data(program, data, options, priors=priors, engine=chosen)
    y_new = program.y_rep(fit.draws, fit.data, np.random.default_rng([options.seed, 3]))
    y_new = y_new[..., -num_obs:]
    both = np.concatenate([np.broadcast_to(values.y, y_new.shape), y_new], -1)
    if leaves_out:
        unmasked = {**fit.data.values, role: np.zeros(2 * num_obs, np.int64)}
        whole = replace(fit.data, values=unmasked)
    else:
        whole = _twice(program, fit.data, size)
    note = (
        "the diagnostics of the fit to the observed data fail, so the parameters that were drawn "
        "from it may not be its posterior's"
    )
    return PriorPredictive(
        program=program,
        data=whole,
        draws=fit.draws,
        y_rep=both,
        statistics={},
        priors=fit.record.priors,
        seed=options.seed,
        drawn_by=fit.record.engine.name,
        notes=() if fit.diagnostics.passed else (note,),
    )


def _size_of_rows(program: Program, leaves_out: bool) -> str:
    """Return the data variable that counts the observations.

    Raises
    ------
    ConfigError
        If no rows can be added: another size depends on it, or a parameter does.
    """
    blocks = program.source.blocks
    observed = blocks.data[program.declaration.roles.observed]
    size = observed.sizes[0] if observed.ndim == 1 else ""
    if size not in blocks.data or blocks.data[size].ndim:
        raise ConfigError(
            f"{program.name}: posterior SBC adds new observations, and the size of {observed.name} "
            f"is not a variable of the data block; declare it as array[N] or vector[N], with int N"
        )
    for name, variable in blocks.data.items():
        if any(_mentions(size, each) for each in variable.sizes[1:]) or (
            variable.ndim and _mentions(size, variable.sizes[0]) and variable.sizes[0] != size
        ):
            raise ConfigError(
                f"{program.name}: posterior SBC adds new observations, and how {name} grows with "
                f"{size} is not plain; declare it with {size} as its first size, or none"
            )
    each = [n for n, v in blocks.parameters.items() if any(_mentions(size, s) for s in v.sizes)]
    if each and not leaves_out:
        raise ConfigError(
            f"{program.name}: {each[0]} has a value for each observation, so that new ones need "
            f"values of their own; {Capability.HELD_OUT.remedy}"
        )
    return size


def _mentions(name: str, expression: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", expression) is not None


def _twice(program: Program, data: Data, size: str) -> Data:
    """Return a data block with every row in it twice."""
    values = dict(data.values)
    for name, variable in program.source.blocks.data.items():
        if variable.ndim and variable.sizes[0] == size:
            values[name] = np.concatenate([np.asarray(values[name])] * 2)
    values[size] = 2 * int(values[size])
    return replace(data, values=values)
