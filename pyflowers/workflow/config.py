"""A whole experiment as one small TOML file: data, models, priors, sampler and outputs.

Paths in the file are relative to its folder. Unknown keys are errors. A ``run.json`` can also serve
as a configuration, for one run. The file never names an executable: only the command line and the
environment determine which CmdStan is used.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from pyflowers.data.examples import is_example
from pyflowers.display import INTERVAL
from pyflowers.errors import ConfigError
from pyflowers.fits.folder import FILE, RunRecord, read_record
from pyflowers.fits.spec import Name, Reading, Sampling, Spec
from pyflowers.programs import LECTURE, find_program
from pyflowers.programs.data import TABLE_ROLES
from pyflowers.programs.declaration import Declaration
from pyflowers.programs.families import family_text, find_family
from pyflowers.programs.formulas import name_of
from pyflowers.programs.formulas.grammar import parse
from pyflowers.programs.program import is_formula
from pyflowers.records import Record, asked, asked_as, read_toml, within_record


class DataConfig(Reading):
    """The table and the names of its columns."""

    columns: dict[str, str] = asked_as(Reading, "columns")
    file: Path | None = asked(
        "The table: a file, or example:NAME.", unset="the example of each program"
    )

    def reading_of(self, model: str, models: Collection[str]) -> dict[str, Any]:
        """Return the arguments for one of several models.

        A formula names its own columns, so it ignores the names that other models need.
        """
        if not is_formula(model) or all(map(is_formula, models)):
            return self.reading
        ignored = ("columns", *TABLE_ROLES, "time_order")
        return {name: value for name, value in self.reading.items() if name not in ignored}


def refuse_cmdstan(values: Any) -> Any:
    """Reject a file that names an executable; called in a pydantic validator."""
    if isinstance(values, dict) and "cmdstan" in values:
        raise ValueError(
            "cmdstan cannot be set in a file, because it is a path to executables; use --cmdstan "
            "or the environment variable CMDSTAN"
        )
    return values


def refuse_twice(names: Iterable[str], what: str, named: str) -> None:
    """Reject two things with the same name; called in a pydantic validator.

    Parameters
    ----------
    names : iterable of str
        The names.
    what : str
        What the names denote, in the singular, such as ``model``.
    named : str
        The reason: a clause that states which results are named after these things.
    """
    twice = [name for name, num in Counter(names).items() if num > 1]
    if twice:
        raise ValueError(
            f"more than one {what} is called {twice[0]!r}, but {named}; rename one or leave it out"
        )


class SamplerConfig(Sampling):
    """The sampler's options, the initial values and the engine.

    Initial values cannot be a mapping here, only the name of a file or a radius.
    """

    centered: bool | dict[str, bool] | None = asked_as(Sampling, "centered")
    inits: Annotated[float, Field(strict=True)] | Path | None = asked_as(Sampling, "inits")


OF_FORMULAS = ("family", "link", "default_priors", "known")
"""The inputs that only formulas have."""


class Models(Record):
    """The common part of experiments and batches: the programs, and how they are sampled."""

    models: Annotated[tuple[str, ...], Field(min_length=1)] = LECTURE
    family: str | None = asked_as(Spec, "family")
    link: str | None = asked_as(Spec, "link")
    default_priors: Literal["brms"] | None = asked_as(Spec, "default_priors")
    known: dict[str, Path] = asked_as(Spec, "known")
    include_paths: tuple[Path, ...] = ()
    priors: dict[str, dict[str, float | str]] = Field(default_factory=dict)
    sampler: Annotated[SamplerConfig, BeforeValidator(refuse_cmdstan)] = SamplerConfig()

    of_models: ClassVar[str] = "run folders"

    @field_validator("models")
    @classmethod
    def _each_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if is_formula(name):
                within_record(parse, name)
            elif not name.endswith(".stan"):
                within_record(find_program, name)
        called = {name: _called(name, "gaussian") for name in names}
        shown = dict[str, str]()
        for name, own in called.items():
            shown.setdefault(own, name if is_formula(name) else own)
        named = f"{cls.of_models} are named after the models"
        refuse_twice(
            (shown[called[name]] for name in names),
            "model",
            f"{named} (a leading 1 + changes the name of a formula)",
        )
        return names

    @model_validator(mode="after")
    def _family_of_formula(self) -> Self:
        for name in OF_FORMULAS:
            if getattr(self, name) and not any(map(is_formula, self.models)):
                raise ValueError(f"{name}: none of the models is a formula; leave {name} out")
        if self.family is not None or self.link is not None:
            within_record(find_family, within_record(family_text, self.family, self.link))
        return self

    @property
    def family_text(self) -> str:
        """The family of the formulas, with the link unless it is the usual one."""
        return family_text(self.family, self.link) or "gaussian"

    def names(self) -> dict[str, str]:
        """Return the name of each model's program, by the entry in `models`."""
        return {model: _called(model, self.family_text) for model in self.models}

    def spec_of(self, model: str, data: DataConfig, file: Any, **more: Any) -> Spec:
        """Return the inputs with which one model is fitted.

        Parameters
        ----------
        model : str
            An entry of `models`.
        data : DataConfig
            How the tables are read.
        file : path or Table
            The table.
        **more
            Inputs that replace the file's inputs.
        """
        own = self.sampler.model_dump(exclude_unset=True)
        own |= {name: getattr(self, name) for name in OF_FORMULAS if is_formula(model)}
        if self.known and is_formula(model):
            named = {term.covariance for term in parse(model).all_groups}
            own["known"] = {name: path for name, path in self.known.items() if name in named}
        own["priors"] = self.priors.get(self.names()[model], {})
        if is_file(model):
            own["include_paths"] = self.include_paths
        return Spec(model, file, **{**own, **data.reading_of(model, self.models), **more})

    def relative_to(self, folder: Path) -> Self:
        """Resolve all relative paths against a folder."""
        resolved = _resolved(self, folder)
        models = (
            str(_resolved(Path(name), folder)) if is_file(name) else name for name in self.models
        )
        changed: Self = resolved.model_copy(update={"models": tuple(models)})
        return changed


def _called(model: str, family: str) -> str:
    """Return the name of a model's program."""
    if is_formula(model):
        return name_of(model, family)
    return Path(model).stem


def is_file(model: str) -> bool:
    """Whether a model is a ``.stan`` file, which may have a relative path and include files."""
    return model.endswith(".stan") and not is_formula(model)


def _resolved(value: Any, folder: Path) -> Any:
    if isinstance(value, Path) and is_example(value):
        return value
    if isinstance(value, Path):
        return Path(os.path.normpath(folder / value))
    if isinstance(value, tuple):
        return tuple(_resolved(part, folder) for part in value)
    if isinstance(value, dict):
        return {name: _resolved(part, folder) for name, part in value.items()}
    if not isinstance(value, Record):
        return value
    parts = {name: _resolved(getattr(value, name), folder) for name in type(value).model_fields}
    return value.model_copy(update={k: v for k, v in parts.items() if v != getattr(value, k)})


class OutputConfig(Record):
    """Where the run folders, one for each model, and the other results are written.

    Attributes
    ----------
    folder : path
        The folder that contains the run folders.
    plots : str
        The format of the figures in the run folders.
    report : path or None
        An HTML report to write. Default: none.
    check : bool
        Whether the exit status is 3 if a part of a verdict fails. If a model cannot be fitted to
        the data, the status is always 3.
    """

    folder: Path = Path("results")
    plots: Literal["png", "svg", "pdf", "none"] = "png"
    report: Path | None = None
    check: bool = False


class Experiment(Models):
    """The contents of an experiment file.

    Attributes
    ----------
    models : tuple of str
        Names of shipped programs, paths of ``.stan`` files, and formulas.
    family, link, default_priors : str or None
        The family of the formulas' response, its link, and ``brms`` for the default priors of brms.
    known : mapping of str to path
        Known covariances between labels, by the names that follow ``cov=`` in formulas.
    include_paths : tuple of path
        Folders to search for the files that the programs include.
    priors : mapping of str to mapping
        For each model, the hyperparameters to change.
    data, sampler, output : table
        See the section with this name.
    interval : float
        Probability of the intervals that tables, figures and the report show.
    name : str or None
        The name of the fit, which is allowed only if there is one model.
    """

    interval: Annotated[float, Field(gt=0, lt=1)] = INTERVAL
    name: Name | None = asked_as(Spec, "name")
    data: DataConfig = DataConfig()
    output: OutputConfig = OutputConfig()

    @model_validator(mode="after")
    def _known_priors(self) -> Self:
        own = {name for model, name in self.names().items() if is_formula(model) or is_file(model)}
        for name, values in self.priors.items():
            if name not in own:
                within_record(within_record(find_program, name).resolve_priors, values)
        return self

    @model_validator(mode="after")
    def _one_is_named(self) -> Self:
        if self.name is not None and len(self.models) > 1:
            raise ValueError(
                f"name: one name cannot stand for {len(self.models)} models; leave it out, or fit "
                "one model at a time"
            )
        return self

    def with_values(self, **sections: Any) -> Experiment:
        """Return this experiment with some values changed, and checked as if they were in a file.

        Parameters
        ----------
        **sections
            New values, such as ``interval=0.9``; for a section, a mapping such as
            ``sampler={"seed": 2}``.

        Raises
        ------
        ConfigError
            If a value cannot be used.
        """
        values = self.model_dump(exclude_unset=True)
        for section, changes in sections.items():
            if section in (*_SECTIONS, "priors"):
                changes = {**values.get(section, {}), **changes}
            values[section] = changes
        return Experiment.parse(values, "the command line")

    def with_options(
        self,
        *,
        program: str | None = None,
        priors: Mapping[str, float | str] | None = None,
        **options: Any,
    ) -> Experiment:
        """Return this experiment with values replaced by options of the command line.

        Parameters
        ----------
        program : str, optional
            Fit only this program.
        priors : mapping of str to float, optional
            Hyperparameters to change in each model that has them.
        **options
            Options of :func:`pyflowers.fit`, and ``models``, ``out``, ``plots`` and ``check``.

        Raises
        ------
        ConfigError
            If a value cannot be used, or no model has a hyperparameter with that name.
        """
        changed = self
        if program is not None:
            changed = self._of_program(program)
        changes: dict[str, Any] = {}
        for name, value in options.items():
            key = {"data": "file", "out": "folder"}.get(name, name)
            within = [s for s, record in _SECTIONS.items() if key in record.model_fields]
            part = changes
            if within:
                part = changes.setdefault(within[0], {})
            part[key] = value
        changed = changed.with_values(**changes)
        if priors:
            return changed.with_values(priors=changed._spread(priors))
        return changed

    def _of_program(self, program: str) -> Experiment:
        """Return the experiment with one program only, without the settings for the others."""
        alone = self.model_copy(update={"models": (program,)})
        others = set(self.names().values()) - set(alone.names().values())
        priors = {name: values for name, values in self.priors.items() if name not in others}
        output = self.output
        if (program,) != self.models:  # it must not replace the report on all models
            output = output.model_copy(update={"report": None})
        return alone.model_copy(update={"priors": priors, "output": output})

    def specs(self) -> list[Spec]:
        """Return the inputs with which each model is fitted."""
        more = {"interval": self.interval, "name": self.name}
        return [self.spec_of(model, self.data, self.data.file, **more) for model in self.models]

    def _spread(self, priors: Mapping[str, float | str]) -> dict[str, dict[str, float | str]]:
        """Return the priors of each model, changed by the given priors that apply to the model."""
        known = {name: {*priors} for name in self.names().values()}
        if len(known) > 1:  # for a single model, a later check reports unknown priors
            opened = [spec.open() for spec in self.specs()]
            densities = {name for name, its in priors.items() if isinstance(its, str)}
            known = {
                its.name: {*its.declaration.priors, *(densities if its.declaration.formula else ())}
                for its in opened
            }
        for prior in priors:
            if not any(prior in names for names in known.values()):
                raise ConfigError(
                    f"prior {prior}: none of {', '.join(self.models)} has a hyperparameter of this "
                    "name; correct it or leave it out"
                )
        return {
            name: {**self.priors.get(name, {}), **{k: priors[k] for k in priors if k in names}}
            for name, names in known.items()
        }


_SECTIONS: dict[str, type[Record]] = {
    "data": DataConfig,
    "sampler": SamplerConfig,
    "output": OutputConfig,
}


def read_config(path: str | Path) -> Experiment:
    """Read an experiment from a TOML file, or the experiment of a run from its ``run.json``.

    Raises
    ------
    ConfigError
        If the file is invalid; the message names the file and the key.
    DataError
        If ``run.json`` cannot be read or has another format.
    """
    path = Path(path)
    if path.suffix == ".json":
        if path.name != FILE:
            raise ConfigError(f"{path} is not a configuration; name a .toml file or a run's {FILE}")
        return from_record(read_record(path.parent))
    return Experiment.parse(read_toml(path), str(path)).relative_to(path.parent)


def from_record(record: RunRecord) -> Experiment:
    """Return the experiment that repeats a run."""
    if isinstance(record.inits, dict | list) or record.start is not None:
        raise ConfigError(
            "run.json: the run has its own initial values, which a configuration cannot hold; "
            "repeat it with pyflowers replay"
        )
    formula = Declaration.model_validate(record.program.declaration).formula
    if not is_formula(record.program.reference):
        formula = None
    options = record.options.model_dump(exclude_unset=True)
    renamed = {theirs: ours for theirs, ours in record.data.columns.items() if theirs != ours}
    values = {
        "models": [record.program.reference],
        "family": formula and formula.family,
        "default_priors": formula and (formula.priors or None),
        "include_paths": record.program.include_paths,
        "interval": record.interval,
        "name": record.name or None,
        "data": {"file": record.data.source, "columns": renamed, **record.data.reading},
        "priors": {record.program.name: {**record.priors, **(formula.given if formula else {})}},
        "sampler": {
            **options,
            "centered": record.centered,
            "inits": record.inits,
            "engine": record.engine.name,
        },
    }
    return Experiment.parse(values, "run.json")
