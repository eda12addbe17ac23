"""What the findings of checks say."""

from types import SimpleNamespace

import numpy as np
import pytest

from pyflowers.analysis import findings


@pytest.mark.parametrize(
    ("spread", "words"),
    [
        ([1.0, 3.0, 0.5], " (6 times as large at b as at c)"),
        ([1.0, 3.0, 0.0], " (largest at b, and next to none at c)"),
        ([0.0, 0.0, 1e-9], " (largest at c, and next to none at a)"),
        ([], ""),
    ],
)
def test_extremes_of_a_spread_are_numbers_that_mean_something(spread, words):
    pattern = SimpleNamespace(bins=["a", "b", "c"])
    judged = SimpleNamespace(pattern=pattern, by_bin=np.array(spread))
    assert findings._extremes(judged) == words
