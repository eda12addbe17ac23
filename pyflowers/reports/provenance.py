"""Provenance: the inputs, and the command that reproduces the report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from pyflowers.display import INTERVAL
from pyflowers.engines import SamplerOptions
from pyflowers.fits.fit import Fit
from pyflowers.fits.record import RunRecord
from pyflowers.programs import LECTURE
from pyflowers.reports.markup import Table, code
from pyflowers.reports.material import Material

FRAME = "data.csv"
"""The file that the command names for data that came from Python and not from a file."""


def shown_path(path: str | Path) -> str:
    """Return a path as a report that is mailed may show it: relative, or only the name.

    What lies in the current folder is named from there; of any other absolute path the folders,
    which may be those of a user's home, are left out.
    """
    if not Path(path).is_absolute():
        return str(path)
    inside = Path(path).is_relative_to(Path.cwd())
    return str(Path(path).relative_to(Path.cwd())) if inside else Path(path).name


def command(material: Material, out: Path) -> str:
    """Return the command that makes the report again, as a shell takes it.

    Fits that one ``pyflowers report`` can make are made by it; others, each with options of its
    own, have a ``pyflowers fit`` each before a report of their run folders.
    """
    fits = material.fits
    references = [shown_path(fit.record.program.reference) for fit in fits]
    names = [*references, *material.refused]
    if _agree(fits):
        priors = {k: v for fit in fits for k, v in _changed_priors(fit).items()}
        models = [word for name in names for word in ("--model", name)]
        words = ["pyflowers", "report", *(models if tuple(names) != LECTURE else [])]
        words += _options(fits[0], priors)
        return shlex.join([*words, *_calibrations(material), "--out", shown_path(out)])
    folders = [f"{out.stem}_runs/{fit.name}" for fit in fits]
    lines = [
        shlex.join([*fit_command(fit), "--out", folder])
        for fit, folder in zip(fits, folders, strict=True)
    ]
    last = ["pyflowers", "report", *folders, *_calibrations(material), "--out", shown_path(out)]
    return " && ".join([*lines, shlex.join(last)])


def _calibrations(material: Material) -> list[str]:
    folders = [shown_path(found.batch.folder) for found in material.calibrations]
    return [word for folder in folders for word in ("--calibration", folder)]


def fit_command(fit: Fit) -> list[str]:
    """Return the words of the ``pyflowers fit`` that repeats a run, without its ``--out``."""
    words = ["pyflowers", "fit", shown_path(fit.record.program.reference)]
    for folder in fit.record.program.include_paths:
        words += ["--include", shown_path(folder)]
    return [*words, *_options(fit, _changed_priors(fit))]


def without_folders(text: str, fits: Sequence[Fit]) -> str:
    """Return a message without the folders of the data, the user and the current one."""
    sources = [Path(fit.record.data.source or "") for fit in fits]
    folders = [source.parent for source in sources if source.is_absolute()]
    for folder in [*folders, Path.cwd(), Path.home()]:
        text = text.replace(str(folder / "x")[:-1], "")
    return text


def has_paths(material: Material) -> bool:
    """Whether the command names files of the user's."""
    return any(
        fit.record.program.reference.endswith(".stan")
        or (Path(fit.record.data.source or "").suffix != "" and "--data" in _options(fit, {}))
        for fit in material.fits
    )


def needs_file(material: Material) -> bool:
    """Whether the data did not come from a file, so that the command names one to be made."""
    source = material.fits[0].record.data.source
    return bool(source) and not Path(str(source)).suffix


def tables(material: Material) -> list[Table]:
    """Return what identifies data, programs, options and versions: shared by all fits, and not."""
    columns = [
        {**_run(fit.record), **fit.record.engine.versions, **fit.record.packages}
        for fit in material.fits
    ]
    shared: list[list[Markup | str]] = []
    own: list[list[Markup | str]] = []
    for key in dict.fromkeys(key for column in columns for key in column):
        values = [str(column.get(key, "–")) for column in columns]
        cells = [code(value) for value in values]
        if len(set(values)) == 1:
            shared.append([key, cells[0]])
        else:
            own.append([key, *cells])
    names = [fit.name for fit in material.fits]
    every = "The run" if len(names) == 1 else "What all runs share"
    made = [Table(every, ["", "Value"], shared, [1])]
    if own:
        made.append(
            Table("What each run has of its own", ["", *names], own, range(1, len(names) + 1))
        )
    return made


def _run(record: RunRecord) -> dict[str, Any]:
    centered = {True: "centred", False: "non-centred", None: "the program's own"}[record.centered]
    columns = ", ".join(dict.fromkeys(record.data.columns.values()))
    return {
        **record.options.model_dump(exclude_unset=True),
        "parametrisation": centered,
        "data": shown_path(record.data.source or "none"),
        "data SHA-256": record.data.sha256,
        "columns": columns or "–",
        "program": Path(record.program.path).name,
        "program SHA-256": record.program.sha256,
        "engine": record.engine.name,
        "engine's key": record.engine.key,
        "rejected proposals": (
            "not reported by the engine"
            if record.messages is None
            else sum(record.messages.values())
        ),
        "seconds of sampling": f"{record.times.wall_seconds:.2f}",
    }


def _agree(fits: Sequence[Fit]) -> bool:
    """Whether all fits have the same options, data and columns, and priors that do not conflict."""
    first = fits[0].record
    same = all(
        fit.record.options == first.options
        and fit.record.data.source == first.data.source
        and fit.record.engine.name == first.engine.name
        and _roles(fit) == _roles(fits[0])
        and not fit.record.program.include_paths
        for fit in fits
    )
    values: dict[str, Any] = {}
    return same and all(
        values.setdefault(name, value) == value
        for fit in fits
        for name, value in fit.record.priors.items()
    )


def _changed_priors(fit: Fit) -> dict[str, float]:
    declared = fit.program.declaration.priors
    return {
        name: value
        for name, value in fit.record.priors.items()
        if name in declared and value != declared[name].value
    }


def _roles(fit: Fit) -> dict[str, str]:
    """Return what the user calls group, time and value, where the declaration has other names."""
    data = fit.data
    roles = {"group": data.group, "time": data.time, "value": data.value}
    return {
        role: data.name_of(column)
        for role, column in roles.items()
        if column and data.name_of(column) != column
    }


def _options(fit: Fit, priors: Mapping[str, float]) -> list[str]:
    record, words = fit.record, list[str]()
    source = record.data.source
    example = fit.program.example
    if source and source != str(example):
        words += ["--data", shown_path(source) if Path(source).suffix else FRAME]
    roles = _roles(fit)
    for role, name in roles.items():
        words += [f"--{role}", name]
    for column, name in record.data.columns.items():
        if name != column and name not in roles.values():
            words += ["--column", f"{column}={name}"]
    for key, value in record.data.reading.items():
        words += [f"--{key.replace('_', '-')}", value]
    usual = SamplerOptions.of(seed=record.options.seed).model_dump()
    for key, value in record.options.model_dump(exclude_unset=True).items():
        if key == "seed" or value != usual[key]:
            each = value if isinstance(value, tuple) else [value]
            words += [w for one in each for w in (f"--{key.replace('_', '-')}", str(one))]
    words += ["--engine", record.engine.name]
    words += ["--interval", f"{fit.interval:g}"] if fit.interval != INTERVAL else []
    words += [w for name, prior in priors.items() for w in ("--prior", f"{name}={prior!r}")]
    return words
