"""Sufficient statistics: exact where it matters, and what they refuse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyflowers.errors import DataError
from pyflowers.vb import SufficientStatistics


def test_of_arrays_and_of_groups_agree():
    rng = np.random.default_rng(1)
    x = rng.normal(1e6, 1, size=(7, 5))
    rows = SufficientStatistics.from_array(x)
    order = rng.permutation(35)
    labels = np.repeat([f"plant {i}" for i in range(7)], 5)
    grouped, names = SufficientStatistics.from_groups(x.ravel()[order], labels[order])
    back = [names.index(f"plant {i}") for i in range(7)]
    np.testing.assert_array_equal(grouped.num[back], rows.num)
    np.testing.assert_allclose(grouped.mean[back], rows.mean, rtol=1e-15)
    np.testing.assert_allclose(grouped.ss[back], rows.ss, rtol=1e-10)


def test_labels_stand_in_order_of_appearance():
    _, labels = SufficientStatistics.from_groups([1.0, 2.0, 3.0], ["b", "a", "b"])
    assert labels == ("b", "a")


@given(
    value=st.floats(-1e100, 1e100).filter(lambda v: v == 0 or abs(v) > 1e-100),
    num=st.integers(1, 40),
)
@settings(max_examples=200, deadline=None)
def test_equal_observations_have_no_spread_at_all(value, num):
    one = SufficientStatistics.from_array([value] * num)
    grouped, _ = SufficientStatistics.from_groups([value] * num, ["a"] * num)
    assert one.ss == 0
    assert one.mean == value
    assert grouped.ss[0] == 0


def test_a_large_mean_costs_no_digits():
    x = np.array([1e9 + 1, 1e9 + 2, 1e9 + 3])
    assert SufficientStatistics.from_array(x).ss == pytest.approx(2, rel=1e-14)


def test_no_observations():
    assert SufficientStatistics.from_array([]).num == 0
    assert SufficientStatistics.from_array(np.empty((3, 0))).mean.tolist() == [0, 0, 0]


ERRORS = [
    (lambda: SufficientStatistics.from_array(3.0), "x must be an array"),
    (lambda: SufficientStatistics.from_array([[1, 2], [3, np.nan]]), r"x\[1, 1\] is nan"),
    (lambda: SufficientStatistics.from_array([1, np.inf]), r"x\[1\] is inf"),
    (lambda: SufficientStatistics.from_array([1e160, 1]), r"x\[0\] is 1e\+160.*rescale"),
    (lambda: SufficientStatistics.from_array([1e-160, 0]), "too small to hold all its digits"),
    (lambda: SufficientStatistics.from_groups([1.0, np.nan], "ab"), r"y\[1\] is nan"),
    (lambda: SufficientStatistics.from_groups([1.0], "ab"), "give one each"),
    (lambda: SufficientStatistics(2.5, 0, 1), "num is 2.5, but must be a whole number"),
    (lambda: SufficientStatistics([1, -1], 0, 0), r"num\[1\] is -1"),
    (lambda: SufficientStatistics(3, np.nan, 1), "mean is nan"),
    (lambda: SufficientStatistics(3, 0, -1), "ss is -1"),
    (lambda: SufficientStatistics(1, 0, 1), "must be 0 when num is 0 or 1"),
    (lambda: SufficientStatistics([1, 2], [1, 2, 3], 0), "must have one shape"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_what_it_refuses(call, message):
    with pytest.raises(DataError, match=message):
        call()
