"""Compile, sample, label: a table and a model in, a :class:`Fit` out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pyflowers import inference_data, runs
from pyflowers.cmdstan import compile_program, find_cmdstan
from pyflowers.data import FlowerData, from_frame, read_data
from pyflowers.diagnostics import Verdict, diagnose
from pyflowers.errors import ConfigError, DataError
from pyflowers.models import Model, get_model
from pyflowers.provenance import fit_record, plain_inits, program_data
from pyflowers.resources import flowers_csv
from pyflowers.sampling import SamplerOptions, new_seed, sample
from pyflowers.summary import summarize

LARGEST_GROUP = 25_000_000
"""Values up to which ``log_likelihood`` and ``posterior_predictive`` are part of ``Fit.idata``."""

_PREDICTIONS = ("log_likelihood", "posterior_predictive")


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model: draws with the user's labels, and the record of how they came about.

    Attributes
    ----------
    base : arviz.InferenceData
        Groups ``posterior``, ``sample_stats``, ``observed_data`` and ``constant_data``.
    record : mapping
        Model, program, data, priors, options, versions, times and messages, as in ``run.json``.
    """

    base: Any
    record: Mapping[str, Any]

    @property
    def model(self) -> Model | None:
        """The model, or None for a user's own program."""
        name = self.record["model"]
        return get_model(name) if self.record["shipped"] else None

    @property
    def name(self) -> str:
        """The model's name, or that of the user's program."""
        return str(self.record["model"])

    @property
    def options(self) -> SamplerOptions:
        """How it was sampled."""
        return SamplerOptions(**self.record["options"])

    @cached_property
    def data(self) -> FlowerData | None:
        """The data, or None for a user's own program."""
        return inference_data.to_flower_data(self.base) if self.model else None

    @property
    def posterior(self) -> Any:
        """The draws as an ``xarray.Dataset``."""
        return self.base.posterior

    @cached_property
    def idata(self) -> Any:
        """The whole ``InferenceData``.

        ``log_likelihood`` and ``posterior_predictive`` are part of it up to
        :data:`LARGEST_GROUP` values each; beyond that, ask for them by their methods.
        """
        whole = self.base.copy()
        if self.data is not None and self.num_predictions <= LARGEST_GROUP:
            for group in _PREDICTIONS:
                if group not in whole.groups():
                    inference_data.add_group(whole, group, getattr(self, group)(), self.data)
        return whole

    @property
    def num_predictions(self) -> int:
        """Number of values in ``log_likelihood``: chains × draws × observations."""
        sizes = self.posterior.sizes
        return int(sizes["chain"] * sizes["draw"]) * (self.data.num_obs if self.data else 0)

    def log_likelihood(self) -> Any:
        """Compute log p(y[n] | draw), shape (chain, draw, N)."""
        model, data = self._model_and_data("log_likelihood")
        return model.log_likelihood(self._draws(), data)

    def posterior_predictive(self) -> Any:
        """Draw replicated data y_rep, shape (chain, draw, N); the same again for the same fit."""
        model, data = self._model_and_data("posterior_predictive")
        rng = np.random.default_rng([self.record["options"]["seed"], 1])
        return model.predict(self._draws(), data, rng)

    def summary(self) -> pd.DataFrame:
        """Summarise the posterior, see :func:`pyflowers.summary.summarize`."""
        missing: dict[str, str] = {}
        if self.model and self.data:
            missing = self.model.missing_moments(self.data, self.record["priors"])
        return summarize(self.posterior, missing)

    @cached_property
    def diagnostics(self) -> Verdict:
        """The verdict, see :func:`pyflowers.diagnostics.diagnose`."""
        return diagnose(self.base, self.options.max_treedepth)

    def save(self, folder: str | Path, plots: Mapping[str, Any] | None = None) -> Path:
        """Write a run folder.

        Parameters
        ----------
        folder : str or Path
            Where to; an earlier run in it is replaced.
        plots : mapping of str to matplotlib.figure.Figure, optional
            Figures by file name.

        Raises
        ------
        ConfigError
            If the folder holds something else, or cannot be written.
        """
        groups = self.idata.groups()
        ours = self.model is not None
        omitted = [group for group in _PREDICTIONS if ours and group not in groups]
        record = {**self.record, "omitted_groups": omitted}
        run = runs.Run(self.idata, self.summary(), self.diagnostics, record)
        return runs.save(run, Path(folder), plots)

    @classmethod
    def load(cls, folder: str | Path) -> Fit:
        """Read a run folder that :meth:`save` wrote.

        Raises
        ------
        DataError
            If it is none, or one that another version wrote.
        """
        record = runs.read_record(Path(folder))
        return cls(runs.load_draws(Path(folder)), record)

    def _draws(self) -> dict[str, Any]:
        return {str(name): values.values for name, values in self.posterior.items()}

    def _model_and_data(self, what: str) -> tuple[Model, FlowerData]:
        if self.model is None or self.data is None:
            raise ConfigError(
                f"{what}: {self.name} is your own program; compute it there, as log_lik or y_rep "
                "in its generated quantities"
            )
        return self.model, self.data


def fit(
    model: str | Path | Model,
    data: Any = None,
    *,
    seed: int | None = None,
    chains: int = 4,
    warmup: int = 1000,
    draws: int = 1000,
    thin: int = 1,
    adapt_delta: float = 0.9,
    max_treedepth: int = 10,
    priors: Mapping[str, float] | None = None,
    centered: bool | None = None,
    inits: Any = None,
    cores: int | None = None,
    cmdstan: str | Path | None = None,
    include_paths: Sequence[str | Path] = (),
    show_progress: bool = False,
) -> Fit:
    """Sample the posterior of a model with Stan's NUTS.

    Parameters
    ----------
    model : str, Path or Model
        A model's name, or a Stan program of your own (a path that ends in ``.stan``).
    data : path, DataFrame, FlowerData or mapping, optional
        For a model of ours a tidy table; the lecture's flowers by default. For a program of your
        own the path of a CmdStan JSON file, or a mapping.
    seed : int, optional
        0 to 2³² − 1. Without it one is drawn, and recorded.
    chains, warmup, draws, thin, adapt_delta, max_treedepth
        See :class:`~pyflowers.sampling.SamplerOptions`.
    priors : mapping of str to float, optional
        Hyperparameters to change.
    centered : bool, optional
        Parametrisation of the plant means; chosen by the data by default.
    inits
        Initial values as CmdStanPy takes them.
    cores : int, optional
        Chains to run at once; the usable cores by default.
    cmdstan : str or Path, optional
        See :func:`~pyflowers.cmdstan.find_cmdstan`.
    include_paths : sequence of path
        Where your own program's included files are.
    show_progress : bool
        Whether to draw a bar for each chain on the terminal.

    Raises
    ------
    PyflowersError
        :class:`DataError`, :class:`ConfigError`, :class:`ToolchainError`, :class:`CompileError`
        or :class:`FitError`, with one sentence that says what to do.
    """
    options = SamplerOptions(
        new_seed() if seed is None else seed,
        *(chains, warmup, draws, thin, adapt_delta, max_treedepth),
    )
    run = {"cores": cores, "inits": inits, "show_progress": show_progress}
    ours = _our_model(model)
    if ours is None:
        if priors:
            raise ConfigError(f"priors: {model} is your own program; put its priors into its data")
        return _fit_program(Path(str(model)), data, options, cmdstan, include_paths, run)
    table = as_flower_data(data)
    values = ours.resolve_priors(priors)
    warnings = ours.check(table, values)
    executable = compile_program(ours.program, cmdstan=find_cmdstan(cmdstan))
    stan_data = ours.stan_data(table, values, centered=centered)
    names = [parameter.name for parameter in ours.parameters]
    result = sample(executable, stan_data, options, keep=names, **run)
    record = {
        **fit_record(ours.name, True, executable, options, result),
        "data": {"source": table.source, "sha256": table.sha256, "rows": table.num_obs},
        "columns": table.columns._asdict(),
        "priors": values,
        "centered": bool(stan_data.get("centered", True)),
        "inits": plain_inits(inits),
        "warnings": warnings,
    }
    return Fit(inference_data.from_model(result, ours, table, values), record)


def as_flower_data(data: Any) -> FlowerData:
    """Take data in any form that :func:`fit` accepts for the models here."""
    if data is None:
        return read_data(flowers_csv())
    if isinstance(data, FlowerData):
        return data
    if isinstance(data, pd.DataFrame):
        return from_frame(data)
    if isinstance(data, (str, Path)):
        return read_data(data)
    raise DataError(
        f"data: a {type(data).__name__} is no table; give a file, a DataFrame or a FlowerData"
    )


def _our_model(model: str | Path | Model) -> Model | None:
    """Return one of our models, or None for a path to a program."""
    if isinstance(model, Model):
        return model
    if isinstance(model, Path) or str(model).endswith(".stan"):
        return None
    return get_model(model)


def _fit_program(
    program: Path,
    data: Any,
    options: SamplerOptions,
    cmdstan: str | Path | None,
    include_paths: Sequence[str | Path],
    run: dict[str, Any],
) -> Fit:
    """Fit a user's own program; its dimensions are those that stanc reports."""
    stan_data, about = program_data(data)
    executable = compile_program(
        program, cmdstan=find_cmdstan(cmdstan), include_paths=include_paths
    )
    result = sample(executable, stan_data, options, **run)
    record = {
        **fit_record(program.stem, False, executable, options, result),
        "data": about,
        "inits": plain_inits(run["inits"]),
        "include_paths": [str(Path(folder).resolve()) for folder in include_paths],
        "priors": {},
        "warnings": [],
    }
    return Fit(inference_data.from_program(result, executable.info), record)
