"""What Stan says on a console: messages of rejected proposals, and why it stopped."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

_SETTING = re.compile(r"\s*\w+ = ")
_REJECTION = re.compile(r"Informational Message: .* proposal")
_AT_INITIAL = "  Error evaluating the log probability at the initial value."
_NOT_FINITE = "the log density or its gradient is not finite"
_NUMBER = re.compile(r" is -?\d[\d.e+-]*(?=[, ]|$)")
_STAN_SAID = re.compile(
    r"exception|error|reject|initialization|failed|cannot|must be|not found|does not|no space",
    re.IGNORECASE,
)


def count_messages(consoles: Iterable[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Count what Stan said while it sampled, places in the program and numbers left out.

    What it said of initial values that it rejected is not counted: it drew others.

    Returns
    -------
    rejections : dict of str to int
        What it said of proposals that it rejected.
    failures : dict of str to int
        What it said of draws whose generated quantities failed, which keeps the draw.
    """
    rejections, failures = Counter[str](), Counter[str]()
    for console in consoles:
        before = ""
        for line in console.splitlines():
            if re.match("(Exception|Error): ", line) and before != _AT_INITIAL:
                counts = rejections if _REJECTION.match(before) else failures
                message = re.sub(r" \(in .*$", "", line.partition(": ")[2]).strip()
                counts[_NUMBER.sub(" is …", message)] += 1
            before = line
    return dict(rejections), dict(failures)


def no_start(reasons: Iterable[str]) -> str:
    """Return the sentence for chains that found no initial value, and what Stan said of each."""
    counts = Counter(_NUMBER.sub(" is …", reason) for reason in reasons)
    reason = max(counts, key=counts.__getitem__) if counts else _NOT_FINITE
    return (
        f"no starting point found: a chain's initial values were all rejected, most often as "
        f"{reason!r}; constrain the parameter or correct the data that this is about, or give "
        "inits from Python"
    )


def last_words(consoles: Iterable[str], most: int = 6) -> str:
    """Return why Stan stopped, in a sentence where that is known, and otherwise as it put it."""
    texts = list(consoles)
    if any("Initialization failed." in text for text in texts):
        lines = [line for text in texts for line in text.splitlines()]
        return no_start(
            line.removeprefix("Exception: ")
            for before, line in pairwise(lines)
            if before == _AT_INITIAL
        )
    sentences: dict[str, None] = {}
    for console in texts:
        for line in console.splitlines():
            if _STAN_SAID.search(line) and not _SETTING.match(line):
                sentences.setdefault(line.strip())
    return f"Stan stopped early: {' | '.join(list(sentences)[-most:])}" if sentences else ""
