"""Lists, plurals and suggestions in messages."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from typing import Any


def in_words(names: Sequence[Any]) -> str:
    """Return all names as a list in words.

    Examples
    --------
    >>> from pyflowers.text import in_words
    >>> in_words(["mu", "sigma2", "b"])
    'mu, sigma2 and b'
    """
    texts = list(map(str, names))
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def and_more(names: Sequence[Any], most: int = 3) -> str:
    """Return the first names, and the number of the others.

    Examples
    --------
    >>> from pyflowers.text import and_more
    >>> and_more(["mu", "sigma2", "b", "c"], 2)
    'mu, sigma2 and 2 more'
    """
    shown = ", ".join(map(str, names[:most]))
    if len(names) > most:
        return f"{shown} and {len(names) - most} more"
    return shown


def shortened(names: Sequence[Any], most: int = 10) -> str:
    """Return the first names, with dots if there are more.

    Examples
    --------
    >>> from pyflowers.text import shortened
    >>> shortened(["mu", "sigma2", "b"], 2)
    'mu, sigma2, …'
    """
    shown = list(map(str, names[:most]))
    if len(names) > most:
        shown.append("…")
    return ", ".join(shown)


def counted(num: int, noun: str) -> str:
    """Return a number with its noun in the singular or plural.

    Examples
    --------
    >>> from pyflowers.text import counted
    >>> counted(1, "row"), counted(0, "row")
    ('1 row', '0 rows')
    """
    if num == 1:
        return f"{num} {noun}"
    return f"{num} {noun}s"


def quoted(text: str) -> str:
    """Return a user's text in quotation marks, or the word nothing if it is empty.

    Examples
    --------
    >>> from pyflowers.text import quoted
    >>> print(quoted("x +"), quoted(""))
    'x +' nothing
    """
    return repr(text) if text else "nothing"


def nearest(asked: str, known: Collection[str]) -> str | None:
    """Return the known name that is most similar to a misspelt one; None if there is none."""
    return next(iter(difflib.get_close_matches(asked, known, n=1)), None)


def suggestion(asked: str, known: Collection[str]) -> str:
    """Return the end of a message on an unknown name: the most similar name, or all of them.

    Examples
    --------
    >>> from pyflowers.text import suggestion
    >>> suggestion("poison", ["gamma", "poisson"])
    'did you mean poisson?'
    >>> suggestion("x", ["gamma", "poisson"])
    'choose one of gamma, poisson'
    """
    near = nearest(asked, known)
    if near:
        return f"did you mean {near}?"
    return f"choose one of {', '.join(known)}"
