"""The inputs and results of an example: settings in, findings and figures out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pyflowers import storage
from pyflowers.engines import LARGEST_SEED
from pyflowers.errors import ConfigError
from pyflowers.records import plain
from pyflowers.resources import version
from pyflowers.storage import FolderKind, new_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Settings:
    """How to run an example.

    Attributes
    ----------
    seed : int
        Of every random number in it, NumPy's and Stan's.
    quick : bool
        Smaller sizes, for a first look and for tests: the findings are noisier.
    cmdstan : str or Path, optional
        See :func:`~pyflowers.toolchain.find_cmdstan`.

    Raises
    ------
    ConfigError
        If Stan would not take the seed.
    """

    seed: int = 1
    quick: bool = False
    cmdstan: str | Path | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= LARGEST_SEED:
            raise ConfigError(
                f"seed must be a whole number from 0 to {LARGEST_SEED}, was {self.seed}"
            )

    def rng(self, stream: int) -> np.random.Generator:
        """Return the random numbers of one part of an example, independent of the other parts."""
        return np.random.default_rng([self.seed, stream])

    def size(self, full: T, quick: T) -> T:
        """Return the first, or the second of a quick run."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Lecture:
    """What an example found.

    Attributes
    ----------
    name, title : str
    settings : Settings
    findings : list of str
        Sentences, each with its numbers.
    tables : dict of str to sequence of rows
        By caption; a row is a mapping from column to value.
    figures : dict of str to Figure
        By file name without its ending.
    results : dict
        Numbers that are not in the tables, fit for JSON.
    """

    name: str
    title: str
    settings: Settings
    findings: list[str] = field(default_factory=list)
    tables: dict[str, Sequence[Row]] = field(default_factory=dict)
    figures: dict[str, Figure] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)

    def say(self, *findings: str) -> None:
        """Add findings."""
        self.findings.extend(findings)

    def markdown(self) -> str:
        """Return the findings, tables and figures as Markdown."""
        from pyflowers.plots.style import alt_text

        parts = [f"# {self.title}", "\n".join(f"- {finding}" for finding in self.findings)]
        parts += [f"**{caption}**\n\n{_table(rows)}" for caption, rows in self.tables.items()]
        parts += [f"![{alt_text(figure)}]({name}.png)" for name, figure in self.figures.items()]
        quick = " --quick" if self.settings.quick else ""
        again = f"pyflowers lecture {self.name} --seed {self.settings.seed}{quick} --out DIR"
        return "\n\n".join([*parts, f"Again: `{again}`"]) + "\n"

    def record(self) -> dict[str, Any]:
        """Return everything but the figures, fit for JSON."""
        record: dict[str, Any] = plain(
            {
                "lecture": self.name,
                "seed": self.settings.seed,
                "quick": self.settings.quick,
                "versions": {package: version(package) for package in ("numpy", "pyflowers")},
                "findings": self.findings,
                "tables": self.tables,
                "results": self.results,
            }
        )
        return record

    def save(self, folder: str | Path) -> Path:
        """Write ``findings.md``, ``results.json`` and the figures as PNG.

        Raises
        ------
        ConfigError
            If the folder holds something else, or cannot be written.
        """
        with new_folder(folder, _kind(self.name)) as new:
            text = json.dumps(self.record(), indent=2, ensure_ascii=False, allow_nan=False)
            (new / "findings.md").write_text(self.markdown(), encoding="utf-8")
            for name, figure in self.figures.items():
                figure.savefig(new / f"{name}.png", dpi=150)
            (new / "results.json").write_text(text + "\n", encoding="utf-8")
        return Path(folder)


def check_folder(folder: Path, name: str) -> None:
    """Refuse, before any work is done, a folder that holds anything but an earlier run of `name`.

    Raises
    ------
    ConfigError
        If it does, or if it cannot be written.
    """
    storage.check_folder(folder, _kind(name))


def _kind(name: str) -> FolderKind:
    """Return what the folder of an example is to :mod:`pyflowers.storage`."""

    def files_before_lists(folder: Path) -> list[str]:
        text = (folder / "findings.md").read_text(encoding="utf-8", errors="replace")
        return ["findings.md", *re.findall(r"^!\[.*\]\(([\w-]+\.png)\)$", text, re.MULTILINE)]

    def is_own(record: Mapping[str, Any]) -> bool:
        return bool(record.get("lecture") == name)

    return FolderKind("--out", "results.json", name, is_own, files_before_lists)


def _table(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table, numbers with three significant digits."""
    from pyflowers.display import format_number

    def cell(value: Any) -> str:
        if isinstance(value, (float, np.floating)):
            return format_number(float(value))
        if isinstance(value, (bool, np.bool_)):
            return "yes" if value else "no"
        return f"{value:,}" if isinstance(value, (int, np.integer)) else str(value)

    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [columns, ["---"] * len(columns)]
    lines += [[cell(row.get(column, "")) for column in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
