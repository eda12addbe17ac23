"""The keys of declaration, experiment, batch and run files, from the pydantic models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from numpydoc.docscrape import NumpyDocString
from pydantic import BaseModel
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> None:
    """Name the directive."""
    app.add_directive("record-keys", RecordKeys)


class RecordKeys(SphinxDirective):
    """A table of a record's keys: ``{record-keys} pyflowers.workflow.config:DataConfig``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write the table as Markdown and parse it."""
        from importlib import import_module

        module, name = self.arguments[0].split(":")
        record = getattr(import_module(module), name)
        self.env.note_dependency(Path(import_module(module).__file__ or ""))
        return self.parse_text_to_nodes("\n".join(table_of(record)))


def table_of(record: type[BaseModel]) -> list[str]:
    """Return the keys of a record as rows of Markdown."""
    schema = record.model_json_schema(by_alias=True)
    meanings = _meanings(record)
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key, field in schema["properties"].items():
        required = key in schema.get("required", ())
        default = "required" if required else f"`{json.dumps(_default(record, key, field))}`"
        meaning = field.get("description") or meanings.get(key, "")
        rows.append(
            f"| `{key}` | {kind(field, schema)} | {default} | {meaning} |".replace("``", "`")
        )
    return rows


def _default(record: type[BaseModel], key: str, field: dict[str, Any]) -> Any:
    if "default" in field:
        return field["default"]
    factory = record.model_fields[key].default_factory
    return factory() if factory is not None else None  # type: ignore[call-arg]


def kind(field: dict[str, Any], schema: dict[str, Any]) -> str:
    """Say in words what a value may be."""
    if "$ref" in field:
        return _referred(field["$ref"], schema)
    if "anyOf" in field or "oneOf" in field:
        options = field.get("anyOf") or field["oneOf"]
        told = [kind(each, schema) for each in options if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(told))
    if "enum" in field:
        return ", ".join(f'`"{each}"`' for each in field["enum"])
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if field.get("type") == "array":
        return f"list of {kind(field.get('items', {}), schema)}"
    if field.get("type") == "object" and "additionalProperties" in field:
        inner = field["additionalProperties"]
        return f"table of {kind(inner, schema) if isinstance(inner, dict) else 'values'}"
    names = {
        "string": "text",
        "integer": "whole number",
        "number": "number",
        "boolean": "true or false",
        "object": "table",
    }
    name = "path" if field.get("format") == "path" else names.get(field.get("type", ""), "value")
    return name + _bounds(field)


def _referred(reference: str, schema: dict[str, Any]) -> str:
    name = reference.rsplit("/", 1)[1]
    target = schema["$defs"][name]
    return f"table ({name})" if "properties" in target else kind(target, schema)


def _bounds(field: dict[str, Any]) -> str:
    words = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    told = [f"{sign} {field[key]:g}" for key, sign in words.items() if key in field]
    return f", {' and '.join(told)}" if told else ""


def _meanings(record: type[BaseModel]) -> dict[str, str]:
    """Return what the docstring's Attributes say of each key; records inherit."""
    found: dict[str, str] = {}
    for each in reversed(record.__mro__):
        doc = (
            NumpyDocString(each.__doc__ or "")
            if issubclass(each, BaseModel)
            else {"Attributes": []}
        )
        for attribute in doc["Attributes"]:
            for name in attribute.name.split(","):
                found[name.strip()] = " ".join(attribute.desc).replace("``", "`")
    return found
