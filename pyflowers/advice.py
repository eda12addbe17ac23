"""Advice on a failure: what to do next, in words and as the inputs that it changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Step = Literal["fit", "new", "sensitivity", ""]
"""What advice leads to: a refit, a copy of the program to edit, the sensitivity to the prior, or
nothing that a command could do."""


class Advice(str):
    """What to do next, in words, with what a command needs to do it.

    Attributes
    ----------
    step : str
        What the advice leads to: ``fit``, ``new``, ``sensitivity``, or empty.
    change : mapping of str to Any
        The inputs of a refit that differ from those of the fit, by their names in
        :func:`pyflowers.fit`.
    command : str
        The complete command; empty until the fit that the advice is about adds it.

    Examples
    --------
    >>> from pyflowers.advice import Advice
    >>> advice = Advice("refit with --adapt-delta 0.95", adapt_delta=0.95)
    >>> advice.startswith("refit"), advice.step, dict(advice.change)
    (True, 'fit', {'adapt_delta': 0.95})
    """

    step: Step
    change: Mapping[str, Any]
    command: str

    def __new__(
        cls, text: str, step: Step | None = None, command: str = "", **change: Any
    ) -> Advice:
        """Create advice; with changed inputs, it leads to a refit."""
        made = super().__new__(cls, text)
        if step is None:
            step = ""
            if change:
                step = "fit"
        made.step = step
        made.change = change
        made.command = command
        return made

    def format_map(self, words: Mapping[str, Any], /) -> Advice:  # type: ignore[override]
        """Return the advice with words in the places of its braces, also in its inputs."""
        change = dict(self.change)
        for name, value in change.items():
            if isinstance(value, str):
                change[name] = value.format_map(words)
        return Advice(super().format_map(words), self.step, self.command, **change)

    def with_command(self, command: str) -> Advice:
        """Return the advice with its complete command."""
        return Advice(self, self.step, command, **self.change)
