"""A program that is fitted in milliseconds, and tasks that fit it."""

import sys
from pathlib import Path

import pytest

from pyflowers import Task
from pyflowers.batches import Pool

HERE = Path(__file__).resolve().parent
NORMAL = "data { real m; } parameters { real x; } model { x ~ normal(m, 1); }\n"
QUICK = {"chains": 2, "warmup": 100, "draws": 50}


@pytest.fixture(scope="module", autouse=True)
def studies():
    """Let this process and its workers import ``studies``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        yield
    sys.modules.pop("studies", None)


@pytest.fixture(scope="module")
def pool(studies):
    """Two workers that the tests of a module share."""
    with Pool(2) as pool:
        yield pool


@pytest.fixture
def normal(tmp_path):
    path = tmp_path / "normal.stan"
    path.write_text(NORMAL)
    return path


@pytest.fixture
def tasks(normal):
    def made(number, first=0, **changes):
        usual = {**QUICK, "keep": ["summary", "draws:x"], **changes}
        return [
            Task(normal, {"m": float(i)}, **{"name": f"site {i}", **usual})
            for i in range(first, first + number)
        ]

    return made
