"""What Stan says on a console: messages of rejected proposals, and why it stopped."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

_SETTING = re.compile(r"\s*\w+ = ")
_REJECTION = re.compile(r"Informational Message: .* proposal")
_NUMBER = re.compile(r" is -?\d[\d.e+-]*(?=[, ]|$)")
_STAN_SAID = re.compile(
    r"exception|error|reject|initialization|failed|cannot|must be|not found|does not|no space",
    re.IGNORECASE,
)


def count_messages(consoles: Iterable[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Count what Stan said while it sampled, places in the program and numbers left out.

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
            if re.match("(Exception|Error): ", line):
                counts = rejections if _REJECTION.match(before) else failures
                message = re.sub(r" \(in .*$", "", line.partition(": ")[2]).strip()
                counts[_NUMBER.sub(" is …", message)] += 1
            before = line
    return dict(rejections), dict(failures)


def last_words(consoles: Iterable[str], most: int = 6) -> list[str]:
    """Return what Stan said of a failure, each sentence once."""
    sentences: dict[str, None] = {}
    for console in consoles:
        for line in console.splitlines():
            if _STAN_SAID.search(line) and not _SETTING.match(line):
                sentences.setdefault(line.strip())
    return list(sentences)[-most:]
