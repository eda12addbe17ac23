"""The provenance of a report: the inputs, and the command that reproduces it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pyflowers.display import INTERVAL
from pyflowers.engines import SamplerOptions
from pyflowers.fits.fit import Fit
from pyflowers.programs import LECTURE
from pyflowers.programs.program import is_formula
from pyflowers.reports.material import Material, ReportTable, code, side_by_side

FRAME = "data.csv"
"""The file that the command names for data that came from Python instead of a file."""


def shown_path(path: str | Path) -> str:
    """Return a path in a form that may be shared: relative, or only the name.

    A path in the current folder is made relative to it. Other absolute paths are reduced to the
    name, because their folders may be in a user's home.
    """
    if not Path(path).is_absolute():
        return str(path)
    inside = Path(path).is_relative_to(Path.cwd())
    return str(Path(path).relative_to(Path.cwd())) if inside else Path(path).name


def without_folders(text: str, fits: Sequence[Fit]) -> str:
    """Return a message without the paths of the data, the home folder and the current folder."""
    sources = [Path(fit.record.data.source or "") for fit in fits]
    folders = [source.parent for source in sources if source.is_absolute()]
    for folder in [*folders, Path.cwd(), Path.home()]:
        text = text.replace(str(folder / "x")[:-1], "")
    return text


def reproduction(material: Material, out: Path) -> dict[str, Any]:
    """Return the shell command that reproduces the report, and its requirements.

    If one ``pyflowers report`` can run all fits, that is the command. Otherwise, for example
    because the options differ, the command runs ``pyflowers fit`` for each fit, and then
    ``pyflowers report`` on their run folders.
    """
    fits = material.fits
    programs, sources = [f.record.program for f in fits], [f.record.data.source for f in fits]
    names, options = [shown_path(p.reference) for p in programs], [_options(fit) for fit in fits]
    used = {name: value for fit in fits for name, value in fit.record.priors.items()}
    inits = [fit.record.inits for fit in fits]
    agree = all(
        words == options[0] and not program.include_paths and used | fit.record.priors == used
        for fit, program, words in zip(fits, programs, options, strict=True)
    ) and not (_nameable(inits) or "--priors" in options[0])
    commands, priors = list[list[str]](), list[dict[str, float]]()
    for fit in fits:
        own, declared = fit.record.priors.items(), fit.program.declaration.priors
        priors.append({n: v for n, v in own if n in declared and v != declared[n].value})
    if agree:
        models = [*names, *material.refused]
        chosen = _each("model", models) if tuple(models) != LECTURE else []
        changed = {name: value for own in priors for name, value in own.items()}
        last = [*chosen, *options[0], *_priors(changed)]
    else:
        last = [f"{out.stem}_runs/{fit.name}" for fit in fits]
        for i, program in enumerate(programs):
            words = ["pyflowers", "fit", names[i]]
            words += _each("include", map(shown_path, program.include_paths))
            words += _each("inits", _nameable(inits[i : i + 1]))
            commands.append([*words, *options[i], *_priors(priors[i]), "--out", last[i]])
    last += _each("calibration", (shown_path(c.batch.folder) for c in material.calibrations))
    commands.append(["pyflowers", "report", *last, "--out", shown_path(out)])
    return {
        "command": " && ".join(map(shlex.join, commands)),
        # A source without a suffix is not a file, so the reader must first write the data to one.
        "needs_file": bool(sources[0]) and not Path(str(sources[0])).suffix,
        "lacks_inits": len(_nameable(inits)) < sum(each is not None for each in inits),
        "has_paths": any(
            program.reference.endswith(".stan") or ("--data" in words and Path(source or "").suffix)
            for program, source, words in zip(programs, sources, options, strict=True)
        ),
    }


def _nameable(inits: Iterable[Any]) -> list[int | float | str]:
    """Return the initial values that a command can name: a radius or a file."""
    return [
        shown_path(each) if isinstance(each, str) else each
        for each in inits
        if isinstance(each, int | float | str)
    ]


def _each(option: str, values: Iterable[object]) -> list[str]:
    """Return an option, repeated for each of its values."""
    return [word for v in values for word in (f"--{option.replace('_', '-')}", str(v))]


def _priors(changed: dict[str, float]) -> list[str]:
    return _each("prior", [f"{name}={prior!r}" for name, prior in changed.items()])


def _options(fit: Fit) -> list[str]:
    """Return the seed, the engine, and the other options that differ from the defaults."""
    record, data, words = fit.record, fit.data, list[str]()
    # The user's names for group, time and value, if they differ from the declaration's.
    declared = {"group": data.group, "time": data.time, "value": data.value}
    called = {role: data.name_of(column) for role, column in declared.items() if column}
    roles = {role: name for role, name in called.items() if name != declared[role]}
    source = record.data.source
    if source and source != str(fit.program.example):
        words += ["--data", shown_path(source) if Path(source).suffix else FRAME]
    columns = record.data.columns.items()
    others = [f"{c}={name}" for c, name in columns if name not in (c, *roles.values())]
    usual = SamplerOptions.of(seed=record.options.seed).model_dump()
    options = record.options.model_dump(exclude_unset=True).items()
    changed = {key: value for key, value in options if key == "seed" or value != usual[key]}
    reading = dict(record.data.reading)
    flags = ["--drop-missing"] if reading.pop("drop_missing", None) else []
    about = {**roles, "column": others, **reading, **_choices(fit), **changed}
    for key, value in about.items():
        words += _each(key, value if isinstance(value, list | tuple) else [value])
    words += flags
    interval = [f"{fit.interval:g}"] if fit.interval != INTERVAL else []
    return [*words, "--engine", record.engine.name, *_each("interval", interval)]


def _choices(fit: Fit) -> dict[str, list[str]]:
    """Return the options that shape a formula's program, and any non-default parametrisation."""
    record, formula = fit.record, fit.program.declaration.formula
    about: dict[str, list[str]] = {}
    if formula and is_formula(record.program.reference):
        about = {"family": [formula.family], "priors": [formula.priors] if formula.priors else []}
    centered = record.centered
    if isinstance(centered, bool):
        usual, _ = fit.program.fill(fit.data, record.priors)
        chosen = [centered] if usual.values["centered"] != centered else []
        return {**about, "centered": ["yes" if its else "no" for its in chosen]}
    words = [f"{group}={'yes' if its else 'no'}" for group, its in (centered or {}).items()]
    return {**about, "centered": words}


def tables(material: Material) -> list[ReportTable]:
    """Return tables of the inputs and versions that all runs share, and of their differences."""
    shared, own = [], []
    for key, found in side_by_side([_run(fit) for fit in material.fits]).items():
        values = ["–" if value is None else str(value) for value in found]
        if len(set(values)) == 1:
            shared.append([key, code(values[0])])
        else:
            own.append([key, *map(code, values)])
    names = [fit.name for fit in material.fits]
    every = "The run" if len(names) == 1 else "What all runs share"
    made = [ReportTable(every, ["", "Value"], shared, [1])]
    if own:
        columns = range(1, len(names) + 1)
        made.append(ReportTable("Differences between the runs", ["", *names], own, columns))
    return made


def _run(fit: Fit) -> dict[str, Any]:
    record = fit.record
    said = {True: "centred", False: "non-centred", None: "the program's own"}
    if isinstance(record.centered, dict):
        centered = ", ".join(f"{group} {said[its]}" for group, its in record.centered.items())
    else:
        centered = said[record.centered]
    messages = record.messages
    return {
        **record.options.model_dump(exclude_unset=True),
        "parametrisation": centered,
        "data": shown_path(record.data.source or "none"),
        "data SHA-256": record.data.sha256,
        "columns": ", ".join(dict.fromkeys(record.data.columns.values())) or "–",
        "program": Path(record.program.path).name,
        "program SHA-256": record.program.sha256,
        "engine": record.engine.name,
        "engine's key": record.engine.key,
        "rejected proposals": (
            "not reported by the engine" if messages is None else sum(messages.values())
        ),
        "seconds of sampling": f"{record.times.wall_seconds:.2f}",
        **record.engine.versions,
        **record.packages,
    }
