"""Typed records: values from a file or a caller that are checked once, when they are read.

Declarations, experiments, run records and sampler options are records. Wrong values and unknown
keys raise an error whose message is one sentence. Records are immutable.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pyflowers.errors import ConfigError, PyflowersError
from pyflowers.text import nearest


def storable_text(text: str) -> str:
    """Escape lone surrogates, which occur in file names that are not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def recordable(path: str | Path, what: str, error: type[PyflowersError]) -> Path:
    """Return a path; reject one that is not valid UTF-8, because no record could hold it.

    Raises
    ------
    PyflowersError
        An `error`; its message begins with `what`, the kind of file or folder.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise error(
            f"{what} {storable_text(str(path))}: its name is not UTF-8; rename it"
        ) from None
    return Path(path)


class Record(BaseModel):
    """A group of known keys with immutable values."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def parse(
        cls, values: Any, source: str, error: type[PyflowersError] = ConfigError, remedy: str = ""
    ) -> Self:
        """Check plain values, such as the contents of a file.

        Parameters
        ----------
        values
            Usually a mapping.
        source : str
            Origin of the values, with which the message begins; empty for arguments of a call.
        error : type
            The class of the exception to raise.
        remedy : str
            The remedy with which the message ends.

        Raises
        ------
        PyflowersError
            An `error` with one sentence that names the source and the key.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as invalid:
            sentence = complaint(cls, invalid)
            if source:
                sentence = f"{source}: {sentence}"
            if remedy:
                sentence += f"; {remedy}"
            raise error(sentence) from invalid
        except RecursionError as deep:
            raise error(f"{source} is nested too deeply; simplify it") from deep


def asked(
    description: str,
    default: Any = None,
    *,
    unset: str = "",
    option: str = "",
    metavar: str = "",
    **limits: Any,
) -> Any:
    """Return a field for a record of inputs, such as :class:`pyflowers.Spec`.

    Parameters
    ----------
    description : str
        The help text.
    default : value
        The value of an input that is not given.
    unset : str
        What happens without the input, in words, if the default value does not show it.
    option : str
        The input's command-line option, if it differs from the input's name with hyphens.
    metavar : str
        The placeholder for the input's value in the command-line help.
    **limits
        Limits on the input's value, as pydantic names them.
    """
    about: dict[str, Any] = {"unset": unset, "option": option, "metavar": metavar}
    return Field(default=default, description=description, json_schema_extra=about, **limits)


def asked_as(record: type[BaseModel], name: str) -> Any:
    """Return a field with the help text and the default value of another record's field."""
    field = record.model_fields[name]
    return Field(
        default=field.get_default(),
        description=field.description,
        json_schema_extra=field.json_schema_extra,
    )


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises
    ------
    ConfigError
        If the file cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror or error}); check the path"
        ) from error
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        if str(error):
            reason = str(error).splitlines()[0]
        else:
            reason = "nested too deeply"
        raise ConfigError(f"{path} is not valid TOML: {reason}") from error


def as_path(value: Any, what: str, error: type[PyflowersError] = ConfigError) -> Path:
    """Return a path that is given as text or as a Path.

    Parameters
    ----------
    value
        The value that was given.
    what : str
        Name of the argument, with which the message begins.
    error : type
        The class of the exception to raise.

    Raises
    ------
    PyflowersError
        If the value is neither a string nor a Path.
    """
    if not isinstance(value, str | Path):
        raise error(f"{what} must be a string or a Path, got {type(value).__name__}")
    return Path(value)


def within_record(function: Any, *values: Any) -> Any:
    """Call a check of pyflowers inside a pydantic validator, which adds the key to the message.

    Raises
    ------
    ValueError
        With the message of the PyflowersError that the check raised.
    """
    try:
        return function(*values)
    except PyflowersError as error:
        raise ValueError(str(error)) from error


def complaint(record: type[BaseModel], invalid: ValidationError) -> str:
    """Return a sentence about the first unknown key or, if all are known, about the first error."""
    errors = invalid.errors(include_url=False)
    # A misspelt key is also reported as missing.
    first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    location = _plain(first["loc"])
    key = ".".join(location)
    if first["type"] == "extra_forbidden":
        return f"unknown key {key}{_nearest(record, first['loc'])}"
    if first["type"] == "missing":
        return f"the key {key} is missing"
    if first["type"] == "value_error":
        message = str(first["ctx"]["error"])
        if key:
            return f"{key}: {message}"
        return message
    given = repr(first["input"])
    if len(given) > 80:
        given = f"{given[:77]}..."
    return f"{key} {_demand(first)}, got {given}".strip()


def tag_of(record: type[Record]) -> str:
    """Return the tag of a record in a union; no field of a record can have this name."""
    return f"<{record.__name__}>"


def _plain(location: tuple[int | str, ...]) -> list[str]:
    """Return the keys as they are in the file, without the tags that pydantic adds for unions."""
    tag = re.compile(r"<\w+>$|function-|bool$|dict\[")
    return [str(part) for part in location if not tag.match(str(part))]


_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "a boolean",
    "string": "a string",
    "tuple": "a list",
    "list": "a list",
    "dict": "a table",
    "model": "a table",
    "path": "a path",
}
_LIMITS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be greater than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "literal_error": "must be {expected}",
    "finite_number": "must be a finite number",
    "too_short": "must name at least one",
}
"""The requirement behind each type of pydantic error, worded like the other errors."""


def _demand(error: Mapping[str, Any]) -> str:
    """Return the requirement that a value rejected by pydantic does not meet."""
    kind, context = error["type"], error.get("ctx", {})
    if kind in _LIMITS:
        whole = {k: int(v) for k, v in context.items() if isinstance(v, float) and v % 1 == 0}
        return _LIMITS[kind].format(**{**context, **whole})
    name, _, end = kind.partition("_")
    if name in _KINDS and end in ("type", "parsing", "from_float", "attributes_type"):
        return f"must be {_KINDS[name]}"
    return str(error["msg"])


def _nearest(record: type[BaseModel], location: tuple[int | str, ...]) -> str:
    """Name the known key most similar to an unknown one, or all known keys."""
    *sections, key = map(str, location)
    fields, inner = record.model_fields, dict[str, type[Record]]()
    for section in sections:
        if section in fields:
            inner = {tag_of(each): each for each in _records_in(fields[section])}
            # Usually a section holds one kind of record; in a union, the tag that comes next
            # selects one.
            fields = getattr(next(iter(inner.values()), None), "model_fields", {})
        elif section in inner:
            fields = inner[section].model_fields
    near = nearest(key, fields)
    if near:
        return f"; did you mean {near}?"
    if fields:
        return f"; the keys here are {', '.join(fields)}"
    return ""


def _records_in(annotated: Any) -> list[type[Record]]:
    """Return the records that a field's type contains, including wrapped ones."""
    annotation = getattr(annotated, "annotation", annotated)
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return [annotation]
    return [each for part in get_args(annotation) for each in _records_in(part)]


def plain(value: Any) -> Any:
    """Return numbers and containers in a form that JSON can hold; NaN and ±inf become None."""
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if hasattr(value, "tolist"):  # a NumPy value, recognised without importing NumPy
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
