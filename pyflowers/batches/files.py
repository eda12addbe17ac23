"""The files of a result that is computed from a batch, next to the batch's ledger."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyflowers.records import plain
from pyflowers.storage import FileKind, check_file, new_file, read_json


@dataclass(frozen=True)
class BatchFiles:
    """Files in the folder of a batch: tables, figures, and a record that lists them.

    Attributes
    ----------
    name : str
        The contents of the files, such as ``calibration``; the record is ``calibration.json``.
    keys : frozenset of str
        Keys by which the record is recognised as one that pyflowers wrote.
    """

    name: str
    keys: frozenset[str]

    @property
    def record(self) -> str:
        """The file name of the record."""
        return f"{self.name}.json"

    def _is_own(self, path: Path) -> bool:
        """Return whether a file is the record, or is listed in it."""
        record = read_json(path.with_name(self.record))
        listed = {self.record, *record.get("files", ())}
        return self.keys <= record.keys() and path.name in listed

    @property
    def _kind(self) -> FileKind:
        return FileKind(self.name, self._is_own)

    def check(self, folder: str | Path, names: Iterable[str] = ()) -> None:
        """Reject a folder in which a file that pyflowers did not write would be replaced.

        Raises
        ------
        ConfigError
            If there is such a file; the message names it.
        """
        for name in (self.record, *names):
            check_file(Path(folder) / name, self._kind)

    def write(self, folder: Path, record: Mapping[str, Any], made: Mapping[str, Any]) -> None:
        """Write the record, and tables and figures by file name.

        Raises
        ------
        ConfigError
            If the folder holds a file of the same name that pyflowers did not write.
        """
        self.check(folder, made)
        earlier = read_json(folder / self.record).get("files", ())
        files = list(dict.fromkeys([*earlier, *made]))
        text = json.dumps(plain({**record, "files": files}), indent=2, ensure_ascii=False)
        # The record is written first, so that files left by an interruption are recognised as
        # files that pyflowers wrote.
        with new_file(folder / self.record, self._kind) as new:
            new.write_text(text + "\n", encoding="utf-8")
        for name, its in made.items():
            with new_file(folder / name, self._kind) as new:
                if hasattr(its, "to_csv"):
                    its.to_csv(new)
                else:
                    its.savefig(new, dpi=150, format=Path(name).suffix[1:])
