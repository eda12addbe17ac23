"""The parts of a formula's text, without a table."""

import pytest

from pyflowers.errors import ConfigError
from pyflowers.programs.formulas.grammar import GroupTerm, parse


def group(effects, name, correlated=True, is_merged=False):
    return GroupTerm(effects, name, correlated, is_merged)


POPULATIONS = [
    ("y ~ 1", "1"),
    ("y ~ x", "x"),
    ("y~x+z", "x+z"),
    ("  y  ~\n x \t+ z ", "x + z"),
    ("y ~ (x + z) * f", "(x + z) * f"),
    ("y ~ (x + z):f + (1 | g)", "(x + z):f"),
    ("y ~ (1 | g)", "1"),
    ("y ~ (1 | g) + x", "x"),
    ("y ~ x + (1 | g) + z", "x   + z"),
    ("y ~ (1 | g) - x", "- x"),
    ("y ~ 0 + x + (1 | g)", "0 + x"),
    ("y ~ I((x + 1) * 2) + (1 | g)", "I((x + 1) * 2)"),
    ("y ~ offset(log(x)) + z", "offset(log(x)) + z"),
    ("y ~ C(f, ref='(a | b)') + (1 | g)", "C(f, ref='(a | b)')"),
    ('y ~ C(f, ref=")")', 'C(f, ref=")")'),
    ("y ~ `a | b` + x", "`a | b` + x"),
    ("y ~ `(` + x", "`(` + x"),
    ("y ~ `a ~ b`", "`a ~ b`"),
    ("y ~ `two  blanks`", "`two  blanks`"),
]


@pytest.mark.parametrize(("formula", "population"), POPULATIONS)
def test_population(formula, population):
    assert parse(formula).population == population


RESPONSES = [
    ("y ~ x", "y", ""),
    ("größe ~ x", "größe", ""),
    ("a.b ~ x", "a.b", ""),
    ("`my col` ~ x", "my col", ""),
    ("`a ~ b` ~ x", "a ~ b", ""),
    ("`1st` | trials(`n of it`) ~ x", "1st", "n of it"),
    ("y | trials(n) ~ x", "y", "n"),
    ("y|trials( 12 )~x", "y", "12"),
]


@pytest.mark.parametrize(("formula", "response", "trials"), RESPONSES)
def test_response(formula, response, trials):
    found = parse(formula)
    assert (found.response, found.trials) == (response, trials)


GROUPS = [
    ("y ~ x", []),
    ("y ~ (1 | g)", [group("1", "g")]),
    ("y~(x|g)", [group("x", "g")]),
    ("y ~ (1 || g)", [group("1", "g", False)]),
    ("y ~ (x || g)", [group("x", "g", False)]),
    ("y ~ (1 + x * z | g)", [group("1 + x * z", "g")]),
    ("y ~ (1 | g) + (1 | h)", [group("1", "g"), group("1", "h")]),
    ("y ~ (1 | a:b)", [group("1", "a:b")]),
    ("y ~ (1 | a / b)", [group("1", "a"), group("1", "a:b")]),
    ("y ~ (1 | a/b/c)", [group("1", "a"), group("1", "a:b"), group("1", "a:b:c")]),
    ("y ~ (x || a/b)", [group("x", "a", False), group("x", "a:b", False)]),
    ("y ~ (1 | a/b:c)", [group("1", "a"), group("1", "a:b:c")]),
    ("y ~ (1 | `my col`)", [group("1", "my col")]),
    ("y ~ (1 | `a/b`)", [group("1", "a/b")]),
    ("y ~ (1 | a/`b | c`)", [group("1", "a"), group("1", "a:b | c")]),
    ("y ~ (1 | `g)`)", [group("1", "g)")]),
    ("y ~ (log(x) + I((x + 1)**2) | g)", [group("log(x) + I((x + 1)**2)", "g")]),
    ("y ~ (C(f, ref='|') | g)", [group("C(f, ref='|')", "g")]),
    ("y ~ ((x + z):w | g)", [group("(x + z):w", "g")]),
]
MERGED = [
    ("y ~ (1 | g) + (0 + x | g)", "1 + x"),
    ("y ~ (0 + x | g) + (1 | g)", "1 + x"),
    ("y ~ (1 | g) + (0+x | g)", "1 + x"),
    ("y ~ (1 | g) + (-1 + x | g)", "1 + x"),
    ("y ~ (1 | g) + (x - 1 | g)", "1 + x"),
    ("y ~ (1 | g) + (1 | h) + (0 + x | g) + (0 + z | g)", "1 + x + z"),
    ("y ~ (1 + x || g) + (0 + z | g)", "1 + x + z"),
    ("y ~ (1 | g) + (0 + x + z || g)", "1 + x + z"),
    ("y ~ (0 + x | g) + (0 + z | g)", "0 + x + z"),
]


@pytest.mark.parametrize(("formula", "groups"), GROUPS)
def test_groups(formula, groups):
    assert list(parse(formula).groups) == groups


@pytest.mark.parametrize(("formula", "effects"), MERGED)
def test_terms_of_one_group_are_one_without_correlations(formula, effects):
    assert parse(formula).groups[0] == group(effects, "g", False, True)


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ (1 | g) + (1 | g)",
        "y ~ (1 | g) + (x | g)",
        "y ~ (x | g) + (z | g)",
        "y ~ (1 | a/b) + (1 | a)",
        "y ~ (1 | a:b) + (1 | b:a)",
    ],
)
def test_a_group_has_one_intercept(formula):
    with pytest.raises(ConfigError, match="both have an intercept for each"):
        parse(formula)


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ (x | g) + (0 + z | g)",
        "y ~ (1 | g) + (0 + x + z | g)",
        "y ~ (1 | g) + (0 + x:z | g)",
        "y ~ (1 | g) + (0 + poly(x, 2) | g)",
    ],
)
def test_correlations_are_not_lost_by_merging(formula):
    with pytest.raises(ConfigError, match="are correlated, but not with those of the other term"):
        parse(formula)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y ~ (1 | g) (1 | h)", r"a \+ is missing before the group term \(1 \| h\)"),
        ("y ~ x (1 | g)", r"a \+ is missing before the group term \(1 \| g\)"),
        ("y ~ log(x) (1 | g)", r"a \+ is missing before the group term \(1 \| g\)"),
        ("y ~ (1 | g) x", r"'x' directly follows a group term"),
        ("y ~ (1 | `a:b`)", "a group's name cannot have a colon"),
        ("y ~ `a\nb`", "contains a line break"),
        ("y ~ `a\x00b`", "or other control character"),
        ("`a\u2028b` ~ x", "contains a line break"),
    ],
)
def test_what_is_not_a_formula(formula, message):
    with pytest.raises(ConfigError, match=message):
        parse(formula)


def test_the_text_is_kept_on_one_line():
    assert parse(" y  ~\n\tx\r\n+ z ").text == "y ~ x + z"


OF_PARAMETERS = [
    ("y ~ x; sigma ~ z", [("sigma", "z")]),
    ("y ~ x;sigma~z ; nu ~ 1;", [("sigma", "z"), ("nu", "1")]),
    ("y ~ x\nsigma ~ z\n  nu ~ 1", [("sigma", "z"), ("nu", "1")]),
    ("y ~ x\n + w\nsigma ~ z\n  + w", [("sigma", "z + w")]),
    ("y ~ `a; b ~ c`; sigma ~ `a; b`", [("sigma", "`a; b`")]),
    ("y ~ x; sigma ~ 0 + f + (1 | g)", [("sigma", "0 + f")]),
]


@pytest.mark.parametrize(("text", "parameters"), OF_PARAMETERS)
def test_formulas_of_other_parameters(text, parameters):
    found = parse(text)
    assert [(each.predicts, each.population) for each in found.parameters] == parameters
    assert parse(found.text) == found  # the text is on one line, with semicolons


def test_groups_of_other_parameters():
    (sigma,) = parse("y ~ (1 | g); sigma ~ x + (x || a/b)").parameters
    assert sigma.groups == (group("x", "a", False), group("x", "a:b", False))
    assert sigma.text == "sigma ~ x + (x || a/b)"
