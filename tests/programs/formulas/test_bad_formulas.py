"""What is wrong with a formula or its data is one sentence; nothing in a formula is run."""

import builtins
import time

import numpy as np
import pandas as pd
import pytest

from pyflowers import Program
from pyflowers.errors import ConfigError, PyflowersError

NUM = 24
FRAME = pd.DataFrame(
    {
        "y": np.arange(NUM) + 1.0,
        "count": np.arange(NUM) % 5,
        "x": np.linspace(-1, 1, NUM),
        "twice": np.linspace(-2, 2, NUM),
        "z": np.arange(NUM) ** 2.0,
        "f": list("abc") * 8,
        "g": [label for label in "pqrstu" for _ in range(4)],
        "one": "k",
        "id": [f"i{i}" for i in range(NUM)],
        "n": 9,
        "bin": np.arange(NUM) % 2,
        "prop": np.linspace(0.1, 0.9, NUM),
        "gap": [None, *range(NUM - 1)],
        "infinite": [np.inf, *range(NUM - 1)],
        "same": 5.0,
    }
)
NO_RESPONSE = "is not a column or a column | trials(n); transform it in the table"
NO_GROUP = r"is not (effects | group), where group is a column, a:b or a/b"
ALONE = "a group term stands in brackets of its own, such as (1 | group)"
FUNCTIONS = "is not one of the functions of terms: log, log2, log10, exp, sqrt, scale"
NO_MEANING = "has no meaning there; terms are columns"
BAD = [
    ("y", "", "it has no ~ between response and terms; add it"),
    ("y ~", "", "no term follows the ~; write 1 for the intercept alone"),
    ("y ~ +", "", "no term follows the ~"),
    ("~ x", "", f"the response '' {NO_RESPONSE}"),
    ("y ~ x ~ z", "", "it has more than one ~; leave one"),
    ("log(y) ~ x", "", f"the response 'log(y)' {NO_RESPONSE}"),
    ("y + z ~ x", "", NO_RESPONSE),
    ("y[0] ~ x", "", NO_RESPONSE),
    ("count | trial(n) ~ x", "binomial", NO_RESPONSE),
    ("count | trials() ~ x", "binomial", NO_RESPONSE),
    ("count | trials(m) ~ x", "binomial", "there is no column 'm'; the columns are y, count"),
    ("y | trials(n) ~ x", "binomial", "row 10: y is 10 of 9 trials; correct one of them"),
    ("count ~ x", "binomial", "family binomial takes count | trials(n) ~"),
    ("y | trials(n) ~ x", "gaussian", "family gaussian takes no trials"),
    ("y ~ y", "", "y is the response, and a term as well; leave it out of the terms"),
    ("bin ~ x + (bin | g)", "bernoulli", "bin is the response, and a term as well"),
    ("y ~ x +", "", "it ends with +; add a term or leave the + out"),
    ("y ~ x x", "", "they cannot be read (Missing operator between `x` and `x`); correct them"),
    ("y ~ x:", "", "terms 'x:': they cannot be read"),
    ("y ~ * x", "", "terms '* x': they cannot be read"),
    ("y ~ 2", "", "terms '2': they cannot be read"),
    ("y ~ x + 2", "", "they cannot be read"),
    ("y ~ 'x'", "", "String literals are not valid"),
    ("y ~ (x", "", "( is not closed; balance the brackets"),
    ("y ~ x)", "", ") closes nothing; balance the brackets"),
    ("y ~ log(x]", "", "] closes nothing"),
    ("y ~ `x", "", f"'`' {NO_MEANING}"),
    ("y ~ .", "", f"'.' {NO_MEANING}"),
    ("y ~ x^2", "", f"'^' {NO_MEANING}"),
    ("y ~ x %in% f", "", f"'%' {NO_MEANING}"),
    ("y ~ x ? z", "", f"'?' {NO_MEANING}"),
    ("y ~ x > 0", "", f"'>' {NO_MEANING}"),
    ("y ~ x**2", "", "a power of terms is not read; write a * b, or I(x**2)"),
    ("y ~ (x + z)**2", "", "a power of terms is not read"),
    ("y ~ " + " * ".join("abcdefghijk"), "", "more than 8 products; write those that you need"),
    ("y ~ " + "x + " * 1000 + "x", "", "it has more than 2000 characters; shorten it"),
    ("y ~ " + "(" * 30 + "x" + ")" * 30, "", "brackets are nested too deeply; write it out"),
    ("y ~ (1 | g", "", "( is not closed"),
    ("y ~ 1 | g", "", ALONE),
    ("y ~ x + 1 | g", "", ALONE),
    ("y ~ (1 | )", "", NO_GROUP),
    ("y ~ ( | g)", "", NO_GROUP),
    ("y ~ (1 || )", "", NO_GROUP),
    ("y ~ (1 | g + f)", "", NO_GROUP),
    ("y ~ (1 | g | f)", "", NO_GROUP),
    ("y ~ (1 | g * f)", "", NO_GROUP),
    ("y ~ (1 | log(g))", "", NO_GROUP),
    ("y ~ (1 | g/g)", "", "(1 | g/g) names g twice; leave one"),
    ("y ~ (1 | g:f:g)", "", "names g twice"),
    ("y ~ x - (1 | g)", "", "- stands before the group term (1 | g); group terms are added with +"),
    ("y ~ x * (1 | g)", "", "* stands before the group term"),
    ("y ~ (1 | g) * x", "", "terms '* x': they cannot be read"),
    ("y ~ (1 | g) + (1 | g)", "", "both have an intercept by g; write one term"),
    ("y ~ (1 + x | g) + (0 + z | g)", "", "has correlations and (0 + z | g) none with it"),
    ("y ~ (0 | g)", "", "nothing varies; write 1, or a column"),
    ("y ~ (offset(x) | g)", "", "an offset does not vary by group; put it outside"),
    ("y ~ (poly(x, 11) | g)", "", "has 12 effects with 66 correlations; write (poly(x, 11) || g)"),
    ("y ~ w", "", "there is no column 'w'; the columns are y, count"),
    ("y ~ X", "", "there is no column 'X'; did you mean x?"),
    ("y ~ `no such`", "", "there is no column 'no such'"),
    ("y ~ (w | g)", "", "there is no column 'w'"),
    ("y ~ (1 | G)", "", "there is no column 'G'"),
    ("Y ~ x", "", "there is no column 'Y'"),
    ("y ~ x + offset(w)", "", "there is no column 'w'"),
    ("y ~ tan(x)", "", f"tan() {FUNCTIONS}"),
    ("y ~ s(x)", "", f"s() {FUNCTIONS}"),
    ("y ~ offset()", "", f"offset() {FUNCTIONS}"),
    ("y ~ I()", "", "I() names no column; give it one"),
    ("y ~ I(1)", "", "I(1) names no column"),
    ("y ~ I(x, z)", "", "z in I(x, z): I takes nothing beside its column"),
    ("y ~ log(x, 2)", "", "2 in log(x, 2): log takes nothing beside its column"),
    ("y ~ poly(x, z)", "", "z in poly(x, z): poly takes degree= beside its column"),
    ("y ~ poly(x, 0)", "", "a degree is a whole number from 1 to 50"),
    ("y ~ bs(x, df=1)", "", "must be greater than 3"),
    ("y ~ C(f, base='a')", "", "base='a' in C(f, base='a'): C takes ref= beside its column"),
    ("y ~ C(f, ref='q')", "", "ref='q' is not a level; they are a, b, c; correct"),
    ("y ~ offset(x):z", "", "an offset is a term by itself; leave : and * out"),
    ("y ~ offset(f)", "", "offset(f): it is 3 columns; an offset is numbers"),
    ("y ~ log(x)", "", "observation 1: log(x) is nan; correct the column, or the term"),
    ("y ~ exp(z * 1)", "", "exp(z * 1) is 1.51143e+111; correct the column, or the term"),
    ("y ~ infinite", "", "row 1: infinite is 'inf', not a finite number; correct it"),
    ("y ~ x + twice", "", "of the formula's columns twice is made up by the others"),
    ("y ~ x * twice", "", "rank 3, 24 rows); leave it out of the formula"),
    ("y ~ same", "", "of the formula's columns same is made up by the others"),
    ("y ~ one", "", "one is 'k' in every row; leave it out"),
    ("y ~ f * id", "", "are made up by the others"),
    ("y ~ f + (1 | f)", "", "f is a factor of the population and the group of (1 | f)"),
    ("y ~ (1 | one)", "", "one has one label; leave (1 | one) out"),
    ("y ~ (1 | id)", "", "each row has its own label of id"),
    ("y ~ gap", "", "1 of 24 rows lack gap (rows 1); fill them in, or leave these rows out with"),
    ("gap ~ x", "", "1 of 24 rows lack gap (rows 1)"),
    ("y ~ (1 | gap)", "", "1 of 24 rows lack gap (rows 1)"),
    ("count ~ x", "gamma", "row 1: count is 0, but for family gamma it must be above 0"),
    ("y ~ x", "bernoulli", "row 2: y is 2, but for family bernoulli it must be 0 or 1"),
    ("y ~ x", "beta", "row 1: y is 1, but for family beta it must be below 1"),
    ("prop ~ x", "poisson", "row 1: prop is 0.1, but counts are whole numbers"),
    ("f ~ x", "", "row 1: f is 'a', not a finite number; family gaussian takes numbers"),
    ("one ~ x", "cumulative", "one has one rating; family cumulative compares two or more"),
    ("y ~ x", "poison", "family 'poison': there is none of that name; did you mean poisson?"),
]


@pytest.mark.parametrize(("formula", "family", "message"), BAD, ids=range(len(BAD)))
def test_a_bad_formula_is_one_sentence(formula, family, message):
    with pytest.raises(PyflowersError) as caught:
        Program.from_formula(formula, FRAME, family=family or "gaussian")
    said = str(caught.value)
    assert message in said
    assert "\n" not in said


def test_there_are_eighty_of_them():
    assert len({formula + family for formula, family, _ in BAD}) >= 80


GOOD = ("y ~ x", "y ~ poly(x, 2) + (1 | g)", "y ~ f * x - 1", "count ~ (x + z):f", "y ~ I(x**2)")


@pytest.mark.parametrize("formula", GOOD)
def test_a_good_formula_is_not_refused(formula):
    """The negative control of the tables here."""
    assert Program.from_formula(formula, FRAME).declaration.formula.text == formula


CODE = [
    "__import__('os').system('touch {mark}')",
    "I(__import__('os').system('touch {mark}'))",
    "I(open('{mark}', 'w'))",
    "open('{mark}', 'w')",
    "exec('x')",
    "eval('x')",
    "compile('x', 'x', 'exec')",
    "globals()",
    "getattr(x, 'values')",
    "I(getattr(x, 'y'))",
    "x.__class__",
    "I(x.__class__)",
    "I(x.values)",
    "I(x.to_csv('{mark}'))",
    "log(x.to_csv('{mark}'))",
    "I(x[0])",
    "I((lambda: 1)())",
    "I([i for i in x])",
    "I({{i for i in x}})",
    "I(x if x else z)",
    "I(x := 1)",
    "I(f'{{x}}')",
    "I(not x)",
    "I(x and z)",
    "I(x < z)",
    "I(9**9**9)",
    "I(x**99)",
    "I(x * 9**9**9**9)",
    "I(1e400 * x)",
    "np.log(x)",
    "I(np.load('{mark}'))",
    "contr.treatment(x)",
    "hashed(x)",
    "lag(x, 1)",
    "C(f, ref=open('{mark}', 'w'))",
    "C(f, *x)",
    "poly(x, degree=10**9)",
    "bs(x, df=10**9)",
    "poly(x, **z)",
    "{{x}}",
    "{{open('{mark}', 'w')}}",
    "x; import os",
    "x\nimport os",
    "offset(open('{mark}', 'w'))",
    "offset(__import__('os'))",
    "(open('{mark}', 'w') | g)",
    "(1 | open('{mark}', 'w'))",
    "I(ｏｐｅｎ('{mark}', 'w'))",
    "x＿＿class＿＿",
    "yield",
    "await x",
    "I(...)",
    "I(x @ z)",
    "I(x // z)",
    "I(x % z)",
    "I(x << 9)",
    "I(print(x))",
    "`__import__('os')`",
]


@pytest.mark.parametrize("code", CODE)
def test_a_formula_runs_no_code(code, tmp_path, monkeypatch):
    """Nor does a declaration in a stranger's file."""
    mark = tmp_path / "mark"
    text = code.format(mark=mark)
    called = []
    for name in ("open", "eval", "exec", "print"):
        original = getattr(builtins, name)

        def spy(*args, name=name, original=original, **keywords):
            if str(mark) in map(str, args) or args[:1] == ("x",):
                called.append(name)
            return original(*args, **keywords)

        monkeypatch.setattr(builtins, name, spy)
    started = time.monotonic()
    with pytest.raises(PyflowersError):
        Program.from_formula(f"y ~ {text}", FRAME)
    stan = tmp_path / "mine.stan"
    stan.write_text("data { int N; int K; matrix[N, K] X; vector[N] y; } parameters { real m; }")
    declaration = {"data": {"X": {"terms": text}}}
    with pytest.raises(PyflowersError):
        Program.open(stan, declaration=declaration).read(FRAME)
    assert time.monotonic() - started < 5
    assert not mark.exists()
    assert not called


def test_thirty_of_them_are_refused_as_formulas():
    assert len(set(CODE)) >= 30
    with pytest.raises(ConfigError):
        Program.from_formula("y ~ I(open('x'))", FRAME)
