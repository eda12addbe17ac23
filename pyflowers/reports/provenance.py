"""The provenance of a report: the inputs, and the command that reproduces it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyflowers.fits.commands import FRAME, inputs_of, shell_words, shown_path
from pyflowers.fits.fit import Fit
from pyflowers.programs import LECTURE
from pyflowers.reports.material import Material, ReportTable, code, side_by_side


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
    inputs = [inputs_of(fit, shown_path) for fit in fits]
    names, given = [its["program"] for its in inputs], [fit.record.inits for fit in fits]
    used = {name: value for fit in fits for name, value in fit.record.priors.items()}
    shared = [_without(its, "program", "priors") for its in inputs]
    own = ("include_paths", "inits", "default_priors")
    agree = all(
        each == shared[0] and used | fit.record.priors == used
        for fit, each in zip(fits, shared, strict=True)
    ) and not any(name in shared[0] for name in own)
    commands = list[list[str]]()
    if agree:
        models = [*names, *material.refused]
        chosen = {"model": models} if tuple(models) != LECTURE else {}
        priors = {name: value for its in inputs for name, value in its.get("priors", {}).items()}
        last = shell_words({**chosen, **shared[0], "priors": priors})
    else:
        last = [f"{out.stem}_runs/{fit.name}" for fit in fits]
        for its, folder in zip(inputs, last, strict=True):
            words = ["pyflowers", "fit", its["program"], *shell_words(its), "--out", folder]
            commands.append(words)
    calibrations = [shown_path(each.batch.folder) for each in material.calibrations]
    last += shell_words({"calibration": calibrations})
    commands.append(["pyflowers", "report", *last, "--out", shown_path(out)])
    return {
        "command": " && ".join(map(shlex.join, commands)),
        "needs_file": any(its.get("data") == FRAME for its in inputs[:1]),
        "lacks_inits": sum("inits" in its for its in inputs) < sum(i is not None for i in given),
        "has_paths": any(
            its["program"].endswith(".stan") or its.get("data", FRAME) != FRAME for its in inputs
        ),
    }


def _without(inputs: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in inputs.items() if name not in names}


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
