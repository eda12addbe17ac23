"""Section 7: what went in, and the command that does it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from markupsafe import Markup

from pyflowers.models import FLOWER_MODELS, get_model
from pyflowers.report.material import Material, Table
from pyflowers.resources import flowers_csv
from pyflowers.sampling import SamplerOptions

FRAME = "data.csv"
"""The file that the command names for data that came from Python and not from a file."""

_COLUMNS = {"group": "plant", "time": "month", "value": "flowers"}


def command(material: Material, out: Path) -> str:
    """Return the command that makes the report again, as a shell takes it.

    Fits that one ``pyflowers report`` can make are made by it; others, each with options of its
    own, have a ``pyflowers fit`` each before a report of their run folders.
    """
    fits = material.fits
    names = [*(fit.name for fit in fits), *material.refused]
    if all(fit.record["shipped"] for fit in fits) and _agree(fits):
        priors = {k: v for fit in fits for k, v in _changed_priors(fit.record).items()}
        usual = names == [model.name for model in FLOWER_MODELS]
        models = [] if usual else [word for name in names for word in ("--model", name)]
        words = ["pyflowers", "report", *models, *_options(fits[0].record, priors)]
        return shlex.join([*words, "--out", str(out)])
    folders = [f"{out.stem}_runs/{fit.name}" for fit in fits]
    lines = [
        shlex.join([*fit_command(fit.record), "--out", folder])
        for fit, folder in zip(fits, folders, strict=True)
    ]
    return " && ".join([*lines, shlex.join(["pyflowers", "report", *folders, "--out", str(out)])])


def fit_command(record: Mapping[str, Any]) -> list[str]:
    """Return the words of the ``pyflowers fit`` that repeats a run, without its ``--out``."""
    shipped = record["shipped"]
    words = ["pyflowers", "fit", record["model"] if shipped else record["program"]]
    for folder in record.get("include_paths", []):
        words += ["--include", folder]
    return [*words, *_options(record, _changed_priors(record) if shipped else {})]


def needs_file(material: Material) -> bool:
    """Whether the data were no file, so that the command names one to be made."""
    source = material.fits[0].record["data"]["source"]
    return bool(source) and not Path(source).suffix


def tables(material: Material) -> list[Table]:
    """Return what identifies data, programs, options and versions: shared by all fits, and not."""
    columns = [{**_run(fit.record), **fit.record["versions"]} for fit in material.fits]
    shared: list[list[Markup | str]] = []
    own: list[list[Markup | str]] = []
    for key in dict.fromkeys(key for column in columns for key in column):
        values = [str(column.get(key, "–")) for column in columns]
        cells = [Markup("<code>{}</code>").format(value) for value in values]
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


def _run(record: Mapping[str, Any]) -> dict[str, Any]:
    options = record["options"]
    centered = {True: "centred", False: "non-centred"}.get(record.get("centered", ""), "its own")
    messages = sum(record["messages"].values())
    return {
        "seed": options["seed"],
        **{f.name: options[f.name] for f in fields(SamplerOptions) if f.name != "seed"},
        "parametrisation": centered,
        "data": record["data"]["source"],
        "data SHA-256": record["data"]["sha256"],
        "columns": ", ".join(record.get("columns", {}).values()) or "–",
        "program": record["program"],
        "program SHA-256": record["program_sha256"],
        "executable": record["executable"],
        "rejected proposals": messages,
        "seconds of sampling": f"{record['times']['wall_seconds']:.2f}",
    }


def _agree(fits: Any) -> bool:
    """Whether all fits have the same options, data and columns, and priors that do not conflict."""
    first = fits[0].record
    shared = ("options", "data", "columns")
    same = all(all(fit.record[key] == first[key] for key in shared) for fit in fits)
    values: dict[str, float] = {}
    for fit in fits:
        for name, value in fit.record["priors"].items():
            if values.setdefault(name, value) != value:
                return False
    return same


def _changed_priors(record: Mapping[str, Any]) -> dict[str, float]:
    known = get_model(record["model"]).priors
    return {k: v for k, v in record["priors"].items() if v != known[k].default}


def _options(record: Mapping[str, Any], priors: Mapping[str, float]) -> list[str]:
    words: list[str] = []
    source = record["data"]["source"]
    if source and source != str(flowers_csv()):
        words += ["--data", source if Path(source).suffix else FRAME]
    for option, default in _COLUMNS.items():
        name = record.get("columns", _COLUMNS)[option]
        if name != default:
            words += [f"--{option}", name]
    for key, value in record["options"].items():
        if key == "seed" or value != getattr(SamplerOptions, key, None):
            words += [f"--{key.replace('_', '-')}", str(value)]
    for name, value in priors.items():
        words += ["--prior", f"{name}={value!r}"]
    return words
