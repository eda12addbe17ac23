"""The command line, called in this process."""

import re

import pytest

from pyflowers.cli.main import main


def run(*words):
    """Return the exit status of ``pyflowers WORDS``."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code or 0


def unwrapped(printed):
    """Return printed text with each command in one line, as a shell reads it."""
    return re.sub(r"\\\n +", "", printed)
