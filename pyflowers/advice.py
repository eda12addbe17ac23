"""Advice on a failure: what to do next, in words and as changed inputs for a refit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal

Step = Literal["fit", "new", "sensitivity", ""]
"""The recommended action: a refit, an edited copy, a sensitivity analysis, or none."""


class Advice(str):
    """What to do next, in words, with the action, the changed inputs and the command.

    Attributes
    ----------
    step : str
        The action: ``fit``, ``new``, ``sensitivity``, or empty.
    change : mapping of str to Any
        The inputs of a refit that differ from those of the fit, by their names in
        :func:`pyflowers.fit`.
    command : str
        The complete command; empty until it is added by the fit to which the advice refers.

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
        """Create advice; if it changes inputs, its default action is a refit."""
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
        """Return the advice with its placeholders filled in, including those in its inputs."""
        change = dict(self.change)
        for name, value in change.items():
            if isinstance(value, str):
                change[name] = value.format_map(words)
        return Advice(super().format_map(words), self.step, self.command, **change)

    def with_command(self, command: str) -> Advice:
        """Return the advice, worded for the shell or for Python, with its complete command."""
        return Advice(worded(self), self.step, command, **self.change)


_in_shell: ContextVar[bool] = ContextVar("in_shell", default=False)


@contextmanager
def in_shell() -> Iterator[None]:
    """Within the block, give advice as shell commands and options, not as Python calls."""
    token = _in_shell.set(True)
    try:
        yield
    finally:
        _in_shell.reset(token)


def is_in_shell() -> bool:
    """Whether the caller is a shell command."""
    return _in_shell.get()


_NUMBER = r"[\w.\[\]:]+=[^\s,;)]+"
_PRIORS = re.compile(rf"--prior (?:'[^']+'|{_NUMBER})(?:(?: and)? --prior {_NUMBER})*")
_PRIOR = re.compile(r"--prior (?:'([^'~]+?) ~ ([^']+)'|([\w.\[\]:]+)=([^\s,;)]+))")
_WORD = r"\d[\d.]*\d|\d|[A-Z]{2,}|[a-z]\w*(?:\(\w+\))?"
_VALUE = re.compile(rf"--([a-z][a-z-]*) ({_WORD})(?=[\s,;:.)]|$)")
_NAME = re.compile(r"--(?!from\b)([a-z][a-z-]*)")
_FLAGS = ("drop-missing", "overwrite", "refit", "warm")
"""The options without a value."""

_TAKES_TEXT = ("engine", "family", "groups", "kind", "parameter")
"""The options whose values are words; a word after any other option is not read as its value.

A word in capitals, such as TABLE, is a placeholder for a value after any option.
"""


def worded(text: str) -> str:
    """Return advice that names command-line options, worded for the shell or for Python.

    Examples
    --------
    >>> from pyflowers.advice import in_shell, worded
    >>> worded("refit with --family negbinomial --adapt-delta 0.95; double --warmup")
    'refit with family="negbinomial", adapt_delta=0.95; double warmup'
    >>> worded("give a table with --new TABLE")
    'give a table with new=TABLE'
    >>> worded("replace it with --overwrite")
    'replace it with overwrite=True'
    >>> with in_shell():
    ...     worded("refit with --family negbinomial")
    'refit with --family negbinomial'
    """
    if is_in_shell():
        return text
    said = _PRIORS.sub(_priors_in_python, text)
    said = _VALUE.sub(_argument, said)
    said = re.sub(r'(["\d]) (?=\w+=["\d])', r"\1, ", said)
    return _NAME.sub(lambda found: _argument_name(found[1]), said)


def _argument_name(option: str) -> str:
    """Return the Python name of an option."""
    name = {"prior": "priors"}.get(option, option.replace("-", "_"))
    return f"{name}=True" if option in _FLAGS else name


def _argument(found: re.Match[str]) -> str:
    """Return an option with its value as an argument in Python."""
    option, value = found[1], found[2]
    if not value[0].isdigit() and not value.isupper():
        if option not in _TAKES_TEXT:
            return found[0]
        value = f'"{value}"'
    return f"{_argument_name(option)}={value}"


def _priors_in_python(found: re.Match[str]) -> str:
    """Return ``--prior`` options as the argument ``priors`` in Python."""
    items = []
    for of_density, density, name, number in _PRIOR.findall(found[0]):
        if of_density:
            items.append(f'"{of_density}": "{density}"')
        else:
            items.append(f'"{name}": {number}')
    return f"priors={{{', '.join(items)}}}"
