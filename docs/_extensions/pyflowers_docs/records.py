"""Write tables of the keys of declaration, experiment, batch and run files.

The tables are made from the pydantic models and stored in the pages, so that they can also be read
on GitHub. Each table follows a comment that names its record, such as
``<!-- record-keys pyflowers.workflow.config:DataConfig -->``. ``scripts/docs`` updates the tables.
``… without MODULE:RECORD -->`` leaves out the rows of another record.

Extensions for pydantic show a model as a Python class; a reader of a TOML file needs its keys.
"""

from __future__ import annotations

import inspect
import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel

_TABLE = re.compile(r"(<!-- record-keys (\S+):(\S+)(?: without (\S+):(\S+))? -->\n\n)(?:\|.*\n)*")
_ATTRIBUTE = re.compile(r"^(\w[\w, ]*) : .*\n((?: +.*\n?)+)", re.MULTILINE)


def renewed(page: str) -> str:
    """Return a page with its tables of keys brought up to date."""

    def table(found: re.Match[str]) -> str:
        head, *rows = table_of(getattr(import_module(found[2]), found[3]))
        if found[4]:
            elsewhere = table_of(getattr(import_module(found[4]), found[5]))[1:]
            rows = [rows[0], *(row for row in rows if row not in elsewhere)]
        return found[1] + "".join(f"{row}\n" for row in (head, *rows))

    return _TABLE.sub(table, page)


def table_of(record: type[BaseModel]) -> list[str]:
    """Return the keys of a record as rows of Markdown."""
    schema = record.model_json_schema(by_alias=True)
    meanings = _meanings(record)
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key, field in schema["properties"].items():
        value = kind(field, schema)
        default = f"`{json.dumps(_default(record, key, field))}`"
        if key in schema.get("required", ()):
            default = "required"
        elif value.startswith("table ("):
            default = "see below"
        # A value that is None in Python is null in a file.
        meaning = re.sub(r"\bNone\b", "`null`", field.get("description") or meanings.get(key, ""))
        if field.get("unset"):
            meaning += f" Default: {field['unset']}."
        cells = (f"`{key}`", value, default, meaning.replace("|", r"\|"))
        rows.append(f"| {' | '.join(cells)} |".replace("``", "`"))
    return rows


def _default(record: type[BaseModel], key: str, field: dict[str, Any]) -> Any:
    if "default" in field:
        return field["default"]
    factory = record.model_fields[key].default_factory
    return factory() if factory is not None else None  # type: ignore[call-arg]


def kind(field: dict[str, Any], schema: dict[str, Any], *, plural: bool = False) -> str:
    """Describe in words the values that a field allows."""
    if "$ref" in field:
        return _referred(field["$ref"], schema, plural=plural)
    if "anyOf" in field or "oneOf" in field:
        options = field.get("anyOf") or field["oneOf"]
        told = [kind(each, schema, plural=plural) for each in options if each.get("type") != "null"]
        return _either(list(dict.fromkeys(told)))
    if "enum" in field:
        return ", ".join(f'`"{each}"`' for each in field["enum"])
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if field.get("type") == "array":
        inner = kind(field.get("items", {}), schema, plural=True)
        return f"{'lists' if plural else 'list'} of {inner}"
    if field.get("type") == "object" and "additionalProperties" in field:
        values = field["additionalProperties"]
        inner = kind(values if isinstance(values, dict) else {}, schema, plural=True)
        return f"{'tables' if plural else 'table'} of {inner}"
    names = {
        "string": "string",
        "integer": "whole number",
        "number": "number",
        "boolean": "boolean" if plural else "true or false",
        "object": "table",
    }
    name = "path" if field.get("format") == "path" else names.get(field.get("type", ""), "value")
    return name + ("s" if plural else "") + _bounds(field)


def _referred(reference: str, schema: dict[str, Any], *, plural: bool) -> str:
    name = reference.rsplit("/", 1)[1]
    target = schema["$defs"][name]
    if "properties" in target:
        return f"{'tables' if plural else 'table'} ({name})"
    return kind(target, schema, plural=plural)


def _either(told: list[str]) -> str:
    """Join alternatives; those that differ only in the bracket at the end share one noun."""
    parts = [re.fullmatch(r"(\w+) \((\w+)\)", each) for each in told]
    names = [part[2] for part in parts if part]
    if len(told) > 1 and len(names) == len(told) and len({part[1] for part in parts if part}) == 1:
        return f"{told[0].partition(' ')[0]} ({', '.join(names[:-1])} or {names[-1]})"
    return (", or " if any(" or " in each for each in told) else " or ").join(told)


def _bounds(field: dict[str, Any]) -> str:
    words = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    told = [f"{sign} {field[key]:.12g}" for key, sign in words.items() if key in field]
    return f", {' and '.join(told)}" if told else ""


def _meanings(record: type[BaseModel]) -> dict[str, str]:
    """Return each key's meaning from the Attributes of the docstring and of base records."""
    found: dict[str, str] = {}
    for each in reversed(record.__mro__):
        doc = inspect.cleandoc(each.__doc__ or "") if issubclass(each, BaseModel) else ""
        for names, meaning in _ATTRIBUTE.findall(doc.partition("Attributes\n---")[2]):
            for name in names.split(","):
                found[name.strip()] = " ".join(meaning.split()).replace("``", "`")
    return found


if __name__ == "__main__":
    for path in (Path(__file__).parents[2] / "reference").glob("*.md"):
        text = path.read_text(encoding="utf-8")
        path.write_text(renewed(text), encoding="utf-8")
