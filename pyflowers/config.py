"""A whole experiment as one small TOML file: data, models, priors, sampler and outputs.

Paths in the file are relative to it. Unknown keys are errors. A ``run.json`` is a configuration,
too: that of its one run.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pyflowers.errors import ConfigError
from pyflowers.models import FLOWER_MODELS, get_model
from pyflowers.runs import read_record
from pyflowers.sampling import LARGEST_SEED, SamplerOptions


class _Section(BaseModel):
    """A table of the file: its keys are known and its values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DataConfig(_Section):
    """The table and the names of its columns; without a file, the lecture's flowers."""

    file: Path | None = None
    group: str = "plant"
    time: str = "month"
    value: str = "flowers"


class SamplerConfig(_Section):
    """How to sample; without a seed one is drawn and recorded."""

    seed: Annotated[int | None, Field(ge=0, le=LARGEST_SEED, strict=True)] = None
    chains: Annotated[int, Field(ge=1, strict=True)] = SamplerOptions.chains
    warmup: Annotated[int, Field(ge=0, strict=True)] = SamplerOptions.warmup
    draws: Annotated[int, Field(ge=1, strict=True)] = SamplerOptions.draws
    thin: Annotated[int, Field(ge=1, strict=True)] = SamplerOptions.thin
    adapt_delta: Annotated[float, Field(gt=0, lt=1)] = SamplerOptions.adapt_delta
    max_treedepth: Annotated[int, Field(ge=1, le=30, strict=True)] = SamplerOptions.max_treedepth
    centered: bool | None = None
    cmdstan: str | None = None


class OutputConfig(_Section):
    """Where the run folders go, one for each model, and what else is written."""

    folder: Path = Path("results")
    plots: Literal["png", "svg", "pdf"] = "png"
    report: Path | None = None
    check: bool = False


class Experiment(_Section):
    """Everything that a file says."""

    models: Annotated[tuple[str, ...], Field(min_length=1)] = tuple(
        model.name for model in FLOWER_MODELS
    )
    data: DataConfig = DataConfig()
    priors: dict[str, dict[str, float]] = {}
    sampler: SamplerConfig = SamplerConfig()
    output: OutputConfig = OutputConfig()

    @field_validator("models")
    @classmethod
    def _known_models(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            _within_pydantic(get_model, name)
        if len(set(names)) < len(names):
            raise ValueError("a model stands twice; name each once")
        return names

    @model_validator(mode="after")
    def _known_priors(self) -> Self:
        for name, values in self.priors.items():
            model = _within_pydantic(get_model, name)
            _within_pydantic(model.resolve_priors, values)
        return self

    def with_values(self, **sections: Any) -> Experiment:
        """Return this experiment with some values changed, checked like those of a file.

        Parameters
        ----------
        **sections
            For a section its new values, such as ``sampler={"seed": 2}``; ``models`` as they are.

        Raises
        ------
        ConfigError
            If a value cannot be used.
        """
        values = self.model_dump()
        for section, changes in sections.items():
            values[section] = {**values[section], **changes} if section != "models" else changes
        return _validated(values, "the command line")


def read_config(path: str | Path) -> Experiment:
    """Read an experiment from a TOML file, or that of a run from its ``run.json``.

    Raises
    ------
    ConfigError
        In one sentence that names the file and the key.
    """
    path = Path(path)
    if path.suffix == ".json":
        return from_record(read_record(path.parent))
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{path}: it cannot be read ({error.strerror or error}); check the path"
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: it is not TOML: {error}") from error
    experiment = _validated(values, str(path))
    return _relative_to(experiment, path.parent)


def from_record(record: Mapping[str, Any]) -> Experiment:
    """Return the experiment that repeats a run, from what its ``run.json`` says.

    Raises
    ------
    ConfigError
        For a program of the user's own, which a configuration cannot name.
    """
    if not record["shipped"]:
        raise ConfigError(
            f"{record['model']} is your own program, which a configuration cannot name; use "
            "pyflowers replay"
        )
    values = {
        "models": [record["model"]],
        "data": {"file": record["data"]["source"], **record["columns"]},
        "priors": {record["model"]: record["priors"]},
        "sampler": {**record["options"], "centered": record["centered"]},
    }
    return _validated(values, "run.json")


def to_toml(experiment: Experiment) -> str:
    """Write an experiment as :func:`read_config` reads it."""
    values = experiment.model_dump(mode="json", exclude_none=True)
    lines = [f"models = {_toml(values.pop('models'))}"]
    priors = values.pop("priors")
    for section, content in [*values.items(), *((f"priors.{k}", v) for k, v in priors.items())]:
        lines += ["", f"[{section}]", *(f"{key} = {_toml(v)}" for key, v in content.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """Write a value; JSON's strings, numbers, booleans and lists are TOML's, too."""
    return json.dumps(value, ensure_ascii=True)


def _relative_to(experiment: Experiment, folder: Path) -> Experiment:
    """Resolve the file's paths against its folder; what is absolute stays as it is."""

    def resolve(path: Path | None) -> Path | None:
        return None if path is None else Path(os.path.normpath(folder / path))

    output = experiment.output
    return experiment.with_values(
        data={"file": resolve(experiment.data.file)},
        output={"folder": resolve(output.folder), "report": resolve(output.report)},
    )


def _within_pydantic(function: Any, *values: Any) -> Any:
    """Call a check of ours so that pydantic adds the key to what it says."""
    try:
        return function(*values)
    except ConfigError as error:
        raise ValueError(str(error)) from error


def _validated(values: Mapping[str, Any], source: str) -> Experiment:
    """Check an experiment, and say the first thing that is wrong in one sentence."""
    try:
        return Experiment.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"]) or "priors"
        if first["type"] == "extra_forbidden":
            said = f"unknown key {key}{_nearest(first['loc'])}"
        elif first["type"] == "value_error":
            said = f"{key}: {first['ctx']['error']}"
        else:
            said = f"{key} {_in_our_words(first['msg'])}, was {first['input']!r}"
        raise ConfigError(f"{source}: {said}") from error


def _in_our_words(message: str) -> str:
    """Say what a value must be as our other errors do."""
    for theirs, ours in (
        (r"Input should be|Input is not", "must be"),
        (r"Tuple should have at least 1 item.*", "must name at least one model"),
        (r"a valid (tuple|list)", "a list"),
        (r"a valid dictionary.*", "a table"),
        (r"a valid path.*|a path.*", "a path"),
        (r"a valid integer.*", "a whole number"),
        (r"a valid (\w+).*", r"a \1"),
        (r"greater than or equal to", "at least"),
        (r"less than or equal to", "at most"),
    ):
        message = re.sub(theirs, ours, message)
    return message


def _nearest(location: Iterable[int | str]) -> str:
    """Name the known key that an unknown one is most like, or all that there are."""
    *sections, key = map(str, location)
    fields: Mapping[str, Any] = Experiment.model_fields
    for section in sections:
        fields = fields[section].annotation.model_fields
    near = difflib.get_close_matches(key, fields, n=1)
    return f"; did you mean {near[0]}?" if near else f"; the keys here are {', '.join(fields)}"
