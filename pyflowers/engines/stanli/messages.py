"""The messages between the engine and the interpreter's process."""

from __future__ import annotations

from typing import Any, TypeAlias

UNAVAILABLE = "transformed parameters and generated quantities are unavailable"
"""The interpreter's warning that it would return only the parameters."""

Question: TypeAlias = tuple[str, str, str, dict[str, Any]]
"""A method of the interpreter, a program's text and digest, and the method's arguments."""

Answer: TypeAlias = tuple[dict[str, Any], str]
"""The result, and the interpreter's message, which is empty unless the interpreter failed."""
