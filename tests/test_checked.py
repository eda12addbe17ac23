"""Checks of arguments."""

import re

import numpy as np
import pytest

from pyflowers.checked import whole_number
from pyflowers.errors import ConfigError


@pytest.mark.parametrize("value", [4, np.int64(4), np.uint8(4)])
def test_a_whole_number_becomes_an_int(value):
    assert type(whole_number("draws", value, at_least=4, at_most=4)) is int


@pytest.mark.parametrize("value", [3, -1, 4.0, True, "4", None, np.float64(4), [4], np.nan])
def test_what_is_no_whole_number_is_one_sentence(value):
    words = re.escape(f"draws must be a whole number of at least 4, got {value!r}")
    with pytest.raises(ConfigError, match=f"^{words}$"):
        whole_number("draws", value, at_least=4)


def test_a_largest_value_is_in_the_message():
    with pytest.raises(ConfigError, match=r"^seed must be a whole number from 0 to 9, got 10$"):
        whole_number("seed", 10, at_least=0, at_most=9)
