"""The inputs and results of an example: its settings, findings and figures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pyflowers import storage
from pyflowers.checked import whole_number
from pyflowers.engines import LARGEST_SEED
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
        Seed of all random numbers of the example, NumPy's and Stan's.
    quick : bool
        Whether to use smaller sizes, for a first look and for tests; the findings are noisier.
    cmdstan : str or Path, optional
        The folder of CmdStan. Default: the result of :func:`~pyflowers.toolchain.find_cmdstan`.

    Raises
    ------
    ConfigError
        If the seed is out of Stan's range.

    Examples
    --------
    >>> from pyflowers.lectures import Settings
    >>> settings = Settings(seed=1, quick=True)
    >>> settings.size(full=10_000, quick=500)
    500
    >>> bool(settings.rng(0).random() == settings.rng(0).random())
    True
    >>> bool(settings.rng(0).random() == settings.rng(1).random())
    False
    """

    seed: int = 1
    quick: bool = False
    cmdstan: str | Path | None = None

    def __post_init__(self) -> None:
        whole_number("seed", self.seed, at_least=0, at_most=LARGEST_SEED)

    def rng(self, stream: int) -> np.random.Generator:
        """Return a generator for one part of an example, independent of the other parts.

        Parameters
        ----------
        stream : int
            Number of the part, at least 0.

        Returns
        -------
        numpy.random.Generator
            A generator whose numbers depend only on the seed and the part.
        """
        return np.random.default_rng([self.seed, stream])

    def size(self, full: T, quick: T) -> T:
        """Return the size of a full run or, if the settings are quick, of a quick run.

        Parameters
        ----------
        full : object
            The size of a full run, such as a number of draws.
        quick : object
            The size of a quick run.

        Returns
        -------
        object
            `quick` if the settings are quick, else `full`.
        """
        return quick if self.quick else full


@dataclass(frozen=True)
class Lecture:
    """The results of an example.

    Attributes
    ----------
    name : str
        The example, such as ``leapfrog``.
    title : str
        The heading.
    settings : Settings
        How the example was run.
    findings : list of str
        Sentences that state results with their numbers.
    tables : dict of str to sequence of rows
        Tables by caption; a row maps each column to its value.
    figures : dict of str to Figure
        Figures by file name, without the extension.
    results : dict
        Numbers that are not in the tables, in a form that JSON can hold.

    See Also
    --------
    pyflowers.lectures.run_example : Run an example.

    Examples
    --------
    >>> from pyflowers.lectures import Lecture, Settings
    >>> lecture = Lecture("area", "The area of a disc", Settings(seed=1))
    >>> points = lecture.settings.rng(0).uniform(-1, 1, (10_000, 2))
    >>> share = ((points**2).sum(axis=1) <= 1).mean()
    >>> lecture.say(f"The area of the unit disc is about {4 * share:.1f}.")
    >>> print(lecture.markdown())
    # The area of a disc
    <BLANKLINE>
    - The area of the unit disc is about 3.1.
    <BLANKLINE>
    Run again: `pyflowers lecture area --seed 1 --out DIR`
    <BLANKLINE>
    >>> lecture.record()["findings"]
    ['The area of the unit disc is about 3.1.']
    >>> folder = lecture.save("area")
    >>> sorted(path.name for path in folder.iterdir())
    ['findings.md', 'results.json']
    """

    name: str
    title: str
    settings: Settings
    findings: list[str] = field(default_factory=list)
    tables: dict[str, Sequence[Row]] = field(default_factory=dict)
    figures: dict[str, Figure] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)

    def say(self, *findings: str) -> None:
        """Add findings.

        Parameters
        ----------
        *findings : str
            Sentences that state results with their numbers.
        """
        self.findings.extend(findings)

    def markdown(self) -> str:
        """Return the findings, tables and figures as Markdown."""
        from pyflowers.plots.style import alt_text

        parts = [f"# {self.title}", "\n".join(f"- {finding}" for finding in self.findings)]
        parts += [f"**{caption}**\n\n{_table(rows)}" for caption, rows in self.tables.items()]
        parts += [f"![{alt_text(figure)}]({name}.png)" for name, figure in self.figures.items()]
        quick = " --quick" if self.settings.quick else ""
        again = f"pyflowers lecture {self.name} --seed {self.settings.seed}{quick} --out DIR"
        return "\n\n".join([*parts, f"Run again: `{again}`"]) + "\n"

    def record(self) -> dict[str, Any]:
        """Return everything except the title and the figures, with versions, as values for JSON."""
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

        Parameters
        ----------
        folder : str or Path
            A new folder, or the folder of an earlier run of the same example, which is replaced.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        ConfigError
            If the folder holds other files, or cannot be written.
        """
        with new_folder(folder, _kind(self.name)) as new:
            text = json.dumps(self.record(), indent=2, ensure_ascii=False, allow_nan=False)
            (new / "findings.md").write_text(self.markdown(), encoding="utf-8")
            for name, figure in self.figures.items():
                figure.savefig(new / f"{name}.png", dpi=150)
            (new / "results.json").write_text(text + "\n", encoding="utf-8")
        return Path(folder)


def check_folder(folder: Path, name: str) -> None:
    """Reject a folder that holds anything but an earlier run of `name`, before any work is done.

    Raises
    ------
    ConfigError
        If the folder holds anything else, or cannot be written.
    """
    storage.check_folder(folder, _kind(name))


def _kind(name: str) -> FolderKind:
    """Return the folder kind of an example for :mod:`pyflowers.storage`."""

    def is_own(record: Mapping[str, Any]) -> bool:
        return bool(record.get("lecture") == name)

    return FolderKind("--out", "results.json", name, is_own)


def _table(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table; floats have three significant digits."""
    from pyflowers.display import format_number

    def cell(value: Any) -> str:
        if isinstance(value, (float, np.floating)):
            return format_number(float(value))
        if isinstance(value, (bool, np.bool_)):
            if value:
                return "yes"
            return "no"
        if isinstance(value, (int, np.integer)):
            return f"{value:,}"
        return str(value)

    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [columns, ["---"] * len(columns)]
    lines += [[cell(row.get(column, "")) for column in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
