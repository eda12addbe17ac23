"""Provenance: the inputs, and the command that reproduces the report."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyflowers.display import INTERVAL
from pyflowers.engines import SamplerOptions
from pyflowers.fits.fit import Fit
from pyflowers.fits.folder import RunRecord
from pyflowers.programs import LECTURE
from pyflowers.reports.markup import ReportTable, code
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
    fits, refused = material.fits, material.refused
    calibrations = [shown_path(found.batch.folder) for found in material.calibrations]
    last = [*_each("calibration", calibrations), "--out", shown_path(out)]
    if _agree(fits):
        names = [*(shown_path(fit.record.program.reference) for fit in fits), *refused]
        models = _each("model", names) if tuple(names) != LECTURE else []
        priors = {k: v for fit in fits for k, v in _changed_priors(fit).items()}
        return shlex.join(["pyflowers", "report", *models, *_options(fits[0], priors), *last])
    folders = [f"{out.stem}_runs/{fit.name}" for fit in fits]
    commands = []
    for fit, folder in zip(fits, folders, strict=True):
        program = fit.record.program
        words = ["pyflowers", "fit", shown_path(program.reference)]
        words += _each("include", map(shown_path, program.include_paths))
        commands.append([*words, *_options(fit, _changed_priors(fit)), "--out", folder])
    return " && ".join(map(shlex.join, [*commands, ["pyflowers", "report", *folders, *last]]))


def _each(option: str, values: Iterable[object]) -> list[str]:
    """Return an option with each of its values."""
    return [word for v in values for word in (f"--{option.replace('_', '-')}", str(v))]


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


def tables(material: Material) -> list[ReportTable]:
    """Return what identifies data, programs, options and versions: shared by all fits, and not."""
    names = [fit.name for fit in material.fits]
    columns = [
        {**_run(fit.record), **fit.record.engine.versions, **fit.record.packages}
        for fit in material.fits
    ]
    rows = []
    for key in dict.fromkeys(key for column in columns for key in column):
        values = [str(column.get(key, "–")) for column in columns]
        rows.append([key, *map(code, values[:1] if len(set(values)) == 1 else values)])
    every = "The run" if len(names) == 1 else "What all runs share"
    made = [ReportTable(every, ["", "Value"], [row for row in rows if len(row) == 2], [1])]
    own = [row for row in rows if len(row) > 2]
    if own:
        head = ["", *names]
        made.append(ReportTable("What each run has of its own", head, own, range(1, len(head))))
    return made


def _run(record: RunRecord) -> dict[str, Any]:
    centered = {True: "centred", False: "non-centred", None: "the program's own"}[record.centered]
    columns = ", ".join(dict.fromkeys(record.data.columns.values()))
    messages = record.messages
    rejected = "not reported by the engine" if messages is None else sum(messages.values())
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
        "rejected proposals": rejected,
        "seconds of sampling": f"{record.times.wall_seconds:.2f}",
    }


def _agree(fits: Sequence[Fit]) -> bool:
    """Whether fits have the same options, interval, data, columns, and priors without conflict."""
    settings = [
        (f.record.options, f.record.data.source, f.record.engine.name, f.interval) for f in fits
    ]
    priors = {name: value for fit in fits for name, value in fit.record.priors.items()}
    return all(
        own == settings[0]
        and _roles(fit) == _roles(fits[0])
        and not fit.record.program.include_paths
        and priors | fit.record.priors == priors
        for fit, own in zip(fits, settings, strict=True)
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
    called = {role: data.name_of(column) for role, column in roles.items() if column}
    return {role: name for role, name in called.items() if name != roles[role]}


def _options(fit: Fit, priors: Mapping[str, float]) -> list[str]:
    record, roles, words = fit.record, _roles(fit), list[str]()
    source = record.data.source
    if source and source != str(fit.program.example):
        words += ["--data", shown_path(source) if Path(source).suffix else FRAME]
    columns = record.data.columns.items()
    others = [(c, name) for c, name in columns if name not in (c, *roles.values())]
    usual = SamplerOptions.of(seed=record.options.seed).model_dump()
    options = record.options.model_dump(exclude_unset=True).items()
    changed = {key: value for key, value in options if key == "seed" or value != usual[key]}
    for key, value in roles.items():
        words += _each(key, [value])
    words += _each("column", [f"{column}={name}" for column, name in others])
    for key, value in (record.data.reading | changed).items():
        words += _each(key, value if isinstance(value, tuple) else [value])
    words += ["--engine", record.engine.name]
    words += _each("interval", [f"{fit.interval:g}"] if fit.interval != INTERVAL else [])
    return words + _each("prior", [f"{name}={prior!r}" for name, prior in priors.items()])
