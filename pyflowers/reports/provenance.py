"""The command that reproduces a report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyflowers.data.examples import is_example
from pyflowers.fits.commands import FRAME, inputs_of, shell_words, shown_path
from pyflowers.fits.fit import Fit
from pyflowers.programs import LECTURE
from pyflowers.reports.material import Material


def without_folders(text: str, fits: Sequence[Fit]) -> str:
    """Return a message without the paths of the data, the home folder and the current folder."""
    sources = [Path(fit.record.data.source or "") for fit in fits]
    folders = [source.parent for source in sources if source.is_absolute()]
    for folder in [*folders, Path.cwd(), Path.home()]:
        text = text.replace(str(folder / "x")[:-1], "")
    return text


@dataclass(frozen=True)
class Reproduction:
    """How to reproduce a report.

    Attributes
    ----------
    command : str
        The shell command.
    needs_file : bool
        Whether the data came from Python and must be saved to a file first.
    has_paths : bool
        Whether the command names files by paths.
    lacks_inits : bool
        Whether initial values came from Python and are not part of the command.
    covariances : tuple of str
        The files of known covariances that the command expects.
    """

    command: str
    needs_file: bool
    has_paths: bool
    lacks_inits: bool
    covariances: tuple[str, ...]


def reproduction(material: Material) -> Reproduction:
    """Return the shell command that reproduces the report, and its requirements.

    If one ``pyflowers report`` can run all fits, that is the command. Otherwise, for example
    because the options differ, the command runs ``pyflowers fit`` for each fit, and then
    ``pyflowers report`` on their run folders.
    """
    fits, out = material.fits, material.out
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
        models, chosen = [*names, *material.refused], {}
        if tuple(models) != LECTURE:
            chosen = {"model": models}
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
    return Reproduction(
        " && ".join(map(shlex.join, commands)),
        needs_file=any(its.get("data") == FRAME for its in inputs[:1]),
        lacks_inits=sum("inits" in its for its in inputs) < sum(i is not None for i in given),
        has_paths=any(
            its["program"].endswith(".stan") or _is_path(its.get("data", FRAME)) for its in inputs
        ),
        covariances=tuple(
            dict.fromkeys(file for its in inputs for file in its.get("known", {}).values())
        ),
    )


def _is_path(data: str) -> bool:
    """Whether data were read from a path, which may be valid in one working folder only."""
    return data != FRAME and not is_example(data)


def _without(inputs: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in inputs.items() if name not in names}
