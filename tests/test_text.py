"""Lists, plurals and suggestions in messages."""

import pytest

from pyflowers.text import and_more, counted, in_words, nearest, shortened, suggestion


@pytest.mark.parametrize(
    ("names", "expected"),
    [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (("a", "b", 3), "a, b and 3")],
)
def test_a_list_in_words(names, expected):
    assert in_words(names) == expected


def test_long_lists_end_with_a_number_or_dots():
    assert and_more("abc") == "a, b, c"
    assert and_more("abcde") == "a, b, c and 2 more"
    assert shortened("abc", 3) == "a, b, c"
    assert shortened("abcd", 3) == "a, b, c, …"
    assert shortened([]) == ""


@pytest.mark.parametrize(("num", "expected"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows")])
def test_a_number_with_its_noun(num, expected):
    assert counted(num, "row") == expected


def test_a_misspelt_name_is_recognised_and_others_are_listed():
    known = ["gamma", "poisson"]
    assert nearest("posson", known) == "poisson"
    assert nearest("x", known) is None
    assert suggestion("posson", known) == "did you mean poisson?"
    assert suggestion("x", known) == "choose one of gamma, poisson"
