"""The command line, called in this process."""

import pytest

from pyflowers.cli.main import main


def run(*words):
    """Return the exit status of ``pyflowers WORDS``."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code or 0
