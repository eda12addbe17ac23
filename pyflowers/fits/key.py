"""The key of a fit: everything that determines its draws, as a record of named parts.

Two fits with equal keys have equal draws. The key is known before anything is compiled or sampled,
and the comparison of two keys describes in sentences what has changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pyflowers.digests import digest, digest_of
from pyflowers.engines import Engine, SamplerOptions, find_engine
from pyflowers.programs import Data
from pyflowers.programs.data import spelled
from pyflowers.records import Record
from pyflowers.text import and_more

_DEFAULTS = SamplerOptions(seed=0).model_dump(mode="json")
"""The values of options in records that were written before those options existed."""


class EngineRecord(Record):
    """The engine that sampled.

    Attributes
    ----------
    name : str
        ``cmdstan``, ``stanli`` or ``exact``.
    key : str
        Digest of everything that determines the draws, except data and options.
    versions : mapping of str to str
        Versions of the engine's components.
    """

    name: str
    key: str
    versions: dict[str, str]

    def find(self) -> Engine:
        """Return the engine that sampled, to sample with it again."""
        if self.versions.get("cmdstan", "").startswith("embedded"):
            return find_engine(self.name, "embedded")
        return find_engine(self.name)

    def changes_since(self, before: EngineRecord) -> list[str]:
        """Describe how an engine has changed."""
        if self == before:
            return []
        if self.name != before.name:
            return [f"the engine was {before.name} and is {self.name}"]
        changes = value_changes("version of", before.versions, self.versions)
        return changes or ["the compiler's options changed"]


class Key(Record):
    """Everything that determines the draws of a fit.

    Attributes
    ----------
    program : str
        The program's name.
    path : str
        Its file, for messages; it is not compared.
    text : str
        Digest of the text of the program and of the files that it includes.
    declaration : str
        Digest of the declaration.
    columns : mapping of str to str
        Digest of each column of the table that was read; empty without a table.
    variables : mapping of str to str
        Digest of each variable of the data block, without priors and parametrisation.
    priors : mapping of str to float
        The hyperparameters.
    centered : bool or mapping or None
        The parametrisation.
    engine : EngineRecord
        The engine and its versions.
    options : mapping
        The options of the sampler that the engine uses, with the seed.
    inits : str
        Digest of the initial values.
    """

    program: str
    path: str
    text: str
    declaration: str
    columns: dict[str, str]
    variables: dict[str, str]
    priors: dict[str, float]
    centered: bool | dict[str, bool] | None
    engine: EngineRecord
    options: dict[str, Any]
    inits: str

    def digest(self, *, seeded: bool = True) -> str:
        """Return one digest of all parts; without `seeded`, of all but the seed."""
        parts = self.model_dump(exclude={"path"})
        if not seeded:
            del parts["options"]["seed"]
        return digest_of(parts)

    def changes_since(self, before: Key) -> list[str]:
        """Describe how this key differs from an earlier one; return nothing if it does not."""
        if self.program != before.program:
            return [f"the program was {before.program} and is {self.program}"]
        found = self._changed_data(before)
        if self.declaration != before.declaration:
            found.append("the declaration changed")
        if self.text != before.text:
            found.append(f"program {self.path} changed")
        else:  # an engine's key depends on the program's text
            found += self.engine.changes_since(before.engine)
        if self.inits != before.inits:
            found.append("the initial values changed")
        # Options that only the earlier engine used are not compared.
        return [
            *found,
            *value_changes("prior", before.priors, self.priors),
            *value_changes("", _DEFAULTS | before.options, self.options),
            *value_changes("", {"centered": before.centered}, {"centered": self.centered}),
        ]

    def _changed_data(self, before: Key) -> list[str]:
        """Name the columns that have changed, or else the variables of the data block."""
        for kind, was, its in (
            ("column", before.columns, self.columns),
            ("variable", before.variables, self.variables),
        ):
            changed = [name for name in {**was, **its} if was.get(name) != its.get(name)]
            if changed:
                return [f"the data changed: {and_more([f'{kind} {name}' for name in changed])}"]
        return []


def column_digests(data: Data) -> dict[str, str]:
    """Return a digest of each column of the table.

    A digest also depends on the declared columns for which the column is used, and on the order of
    the column's labels.
    """
    table = data.table
    if table is None:
        return {}
    as_text = spelled(data.labels.values())
    labels = {found.column: found.names for found in data.labels.values()}
    read_as: dict[str, list[str]] = {}
    for declared, name in data.columns.items():
        read_as.setdefault(name, []).append(declared)
    return {
        name: digest(*declared, table.sha256((name,), as_text), *labels.get(name, ()))
        for name, declared in read_as.items()
        if name in table.columns
    }


def variable_digests(values: Mapping[str, Any], but: Collection[str]) -> dict[str, str]:
    """Return a digest of each variable of a data block, except those in `but`."""
    return {name: digest_of(value) for name, value in values.items() if name not in but}


def value_changes(kind: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Describe the values that have changed; `kind` is the word before each name."""
    return [
        f"{kind} {name} was {before.get(name)} and is {value}".strip()
        for name, value in now.items()
        if before.get(name) != value
    ]
