"""Malicious formulas that would run code, read files, or exhaust memory and time."""

import time

import numpy as np
import pandas as pd
import pytest

from pyflowers import Program
from pyflowers.errors import PyflowersError

NAMES = [f"c{i}" for i in range(30)]
FRAME = pd.DataFrame(
    {name: np.random.default_rng(i).normal(size=40) for i, name in enumerate(NAMES)}
)
FRAME["y"], FRAME["x"], FRAME["z"] = np.arange(40.0), np.arange(40.0) ** 2, np.arange(40.0) ** 3
FRAME["f"], FRAME["g"] = [f"l{i}" for i in range(40)], list("abcdefgh") * 5

SUM = "+".join(NAMES)
DEEP = "9"
for _ in range(9):
    DEEP = f"({DEEP}**9)"

RUNS = [
    # Strings that a parser of backticks or quotes may misread.
    "`x`; open('{mark}', 'w')",
    "log(`x`) + `open('{mark}', 'w')`",
    "log(`x); open('{mark}', 'w`)",
    "log(`x`(`z`))",
    "I(`open`('{mark}', 'w'))",
    "I(`x` + `__import__`('os').mkdir('{mark}'))",
    "`I`(open('{mark}', 'w'))",
    "C(f, ref=\"`\") + open('{mark}', 'w')",
    "C(f, ref='`') + I(open('{mark}', 'w')) + C(f, ref='`')",
    "C(f, ref='\\') + open(\"{mark}\", \"w\") + C(f, ref=\\'a')",
    "C(f, ref='''a''' + open('{mark}', 'w'))",
    'C(f, ref=f\'{{open("{mark}", "w")}}\')',
    "C(f, ref=rb'{mark}')",
    "C(f, ref='a' if open('{mark}', 'w') else 'b')",
    "C(f, ref=['a'][0])",
    "C(f, ref=None)",
    "C(open('{mark}', 'w'))",
    "C(C(f))",
    "`column__0_` + open('{mark}', 'w')",
    "I(column__0_ + `x`)",
    "column__0_",
    # Functions and attributes of formulaic, pandas and Python.
    "x.pipe(open)",
    "I(x.pipe(open))",
    "x.__class__.__mro__",
    "I(x).__class__",
    "log(x).to_csv('{mark}')",
    "(lambda: open('{mark}', 'w'))()",
    "(open)('{mark}', 'w')",
    "I((open)('{mark}', 'w'))",
    "log(x)(z)",
    "log(x, out=open('{mark}', 'w'))",
    "log(x, where=z)",
    "exp(*[x])",
    "scale(x, center=open('{mark}', 'w'))",
    "scale(x, ddof=2)",
    "poly(x, degree=open('{mark}', 'w'))",
    "poly(x, 2, True)",
    "poly(x, 2, _state=z)",
    "bs(x, knots=[1, 2])",
    "bs(x, 5, degree=3, extrapolation='raise')",
    "lookup(x)",
    "Q('x')",
    "hashed(x, levels=9)",
    "cyclic_cubic_spline(x)",
    "contr.helmert()",
    "C(f, contr.helmert)",
    "C(f, spans_intercept=True)",
    "__builtins__",
    "I(__builtins__)",
    "I(__loader__)",
    "I(﹏﹏import﹏﹏('os'))",
    "x‿‿class‿‿",
    "I(x․values)",
    "I(ｅｖａｌ('1'))",
    "I(𝐨𝐩𝐞𝐧('{mark}', 'w'))",
    "[x ~ z]",
    "x %in% (open('{mark}', 'w'))",
    "{{x}}",
    "x\x00z",
    "I(x)\nopen('{mark}', 'w')",
    "x # open",
    "x \\\n + z",
    "yield x",
    "I((yield))",
    "I(await x)",
    "I(x := z)",
    "I((x := z))",
    "I(x for x in z)",
    "I(x, *z)",
    "I(**x)",
    "I(1j * x)",
    "I(x + ...)",
    "I(x + None)",
    "I(b'x' * x)",
    "I(~x)",
    "I(x if z else x)",
    # The levels of a factor, and comparisons.
    "C(f, levels=[open('{mark}', 'w'), 'a'])",
    "C(f, levels=open('{mark}', 'w'))",
    "C(f, levels=[i for i in open('{mark}', 'w')])",
    "C(f, levels=['a', *open('{mark}', 'w')])",
    "C(f, levels=['a', 'b'] + [open('{mark}', 'w')])",
    "C(f, levels=['a', 'b'].append(open('{mark}', 'w')))",
    "C(f, levels=['a', f'{{open(\"{mark}\", \"w\")}}'])",
    "C(f, levels=['a', ['b', open('{mark}', 'w')]])",
    "C(f, levels=(lambda: open('{mark}', 'w'))())",
    "C(f, levels=['a', 'b'], ref=open('{mark}', 'w'))",
    "mo(f, levels=['a', open('{mark}', 'w')])",
    "C(f, levels=['a', 'b'])[open('{mark}', 'w')]",
    "C(f, levels={{'a': open('{mark}', 'w')}})",
    "I(x > open('{mark}', 'w'))",
    "I(x == (open)('{mark}', 'w'))",
    "I(x > (z := open('{mark}', 'w')))",
    "I(x != z.__class__)",
    "I(x < [open('{mark}', 'w')][0])",
    "x > open('{mark}', 'w')",
    "(x + z)**open('{mark}', 'w')",
]

EXHAUSTS = [
    f"I(x * {DEEP})",
    f"I({DEEP})",
    "I(x * ((9**9)**9)**9)",
    "I((x + 1 - x)**9**9**9)",
    "I(x**(10**10))",
    "I(x**1e9)",
    "I(x * 'a' * 999999999)",
    "I('a' * 999999999 * 999999999)",
    "log('a' * 999999999)",
    "C(f, ref='a' * 999999999)",
    "bs(c1, 50):bs(c2, 50):bs(c3, 50):bs(c4, 50):bs(c5, 50)",
    "poly(c1, 30):poly(c2, 30):poly(c3, 30)",
    "bs(bs(bs(bs(x, 50), 50), 50), 50)",
    "poly(poly(x, 30), 30)",
    "C(c1):C(c2):C(c3):C(c4)",
    "f:C(c1):C(c2)",
    f"({SUM})*({SUM})*({SUM})*({SUM})",
    f"({SUM}):({SUM}):({SUM}):({SUM}):({SUM}):({SUM})",
    "*".join(NAMES),
    "/".join(NAMES[:20]) + "*" + "*".join(NAMES[:20]),
    f"({SUM})**30",
    f"({SUM})**9",
    f"(({SUM})**4)**4",
    f"({SUM})**4:({SUM})**4",
    f"({SUM})^30",
    "(" * 900 + "x" + ")" * 900,
    "log(" * 400 + "x" + ")" * 400,
    "I(" + "-" * 1900 + "x)",
    "-" * 1990 + "x +",
    "(" * 900,
    ")" * 900,
    "`" * 1991,
    "'" * 1991,
    " + ".join(["x"] * 3_000),
    "x" * 100_000,
    "(" * 100_000 + "x" + ")" * 100_000,
    "+" * 100_000,
    "x:" * 50_000 + "x",
    "I(" + "+".join(["x"] * 50_000) + ")",
]


def refused(text, folder):
    """Check that a formula, a group and a declaration with this sum are refused; return seconds."""
    stan = folder / "mine.stan"
    stan.write_text("data { int N; int K; matrix[N, K] X; vector[N] y; } parameters { real m; }")
    slowest = 0.0
    for attempt in (
        lambda: Program.from_formula(f"y ~ {text}", FRAME),
        lambda: Program.from_formula(f"y ~ ({text} | g)", FRAME),
        lambda: Program.open(stan, declaration={"data": {"X": {"terms": text}}}).read(FRAME),
    ):
        started = time.process_time()
        with pytest.raises(PyflowersError) as caught:
            attempt()
        assert "\n" not in str(caught.value).replace("\\n", "")
        slowest = max(slowest, time.process_time() - started)
    return slowest


@pytest.fixture(scope="module", autouse=True)
def _loaded():
    """Load formulaic, which takes longer than the measured work."""
    Program.from_formula("y ~ x + (1 | g)", FRAME)


@pytest.mark.parametrize("text", RUNS, ids=range(len(RUNS)))
def test_nothing_is_run(text, tmp_path):
    mark = tmp_path / "mark"
    refused(text.format(mark=mark), tmp_path)
    assert not mark.exists()


@pytest.mark.parametrize("text", EXHAUSTS, ids=range(len(EXHAUSTS)))
def test_neither_memory_nor_time_is_exhausted(text, tmp_path):
    assert refused(text, tmp_path) < 1


def test_the_toml_file_of_a_declaration_runs_nothing(tmp_path):
    mark, stan = tmp_path / "mark", tmp_path / "mine.stan"
    stan.write_text("data { int N; int K; matrix[N, K] X; vector[N] y; } parameters { real m; }")
    for text in RUNS:
        sum_ = text.format(mark=mark)
        if not sum_.isprintable() or "'''" in sum_:
            continue
        stan.with_suffix(".toml").write_text(f"[data]\nX = {{ terms = '''{sum_} ''' }}\n")
        with pytest.raises(PyflowersError):
            Program.open(stan).read(FRAME)
        assert not mark.exists()


HARMLESS = "(x + I(z > 9))**2 + C(g, levels=['h', 'g', 'f', 'e', 'd', 'c', 'b', 'a'])"


@pytest.mark.parametrize(
    "text", ["x", "I(x**2 * 3)", "C(g, ref='b')", f"({SUM[:20]})*(x+z)", HARMLESS]
)
def test_what_is_harmless_is_taken(text):
    """The negative control."""
    Program.from_formula(f"y ~ {text}", FRAME)


def test_a_column_writes_no_stan():
    """The name of a column cannot end a comment, or a line of one."""
    evil = "x*/ functions { real f() { return 1; } } /*"
    frame = FRAME.rename(columns={"x": evil, "y": f"y {evil}", "g": f"g {evil}"})
    formula = f"`y {evil}` ~ `{evil}` + offset(`{evil}`) + (z | `g {evil}`)"
    source = Program.from_formula(formula, frame).source
    assert "*/" not in source.text.partition("\n */\n")[0].removeprefix("/*")
    for name in ("a\nb", "a\rb", "a\u2028b", "a\x85b"):
        renamed = FRAME.rename(columns={"x": name})
        with pytest.raises(PyflowersError, match="contains a line break"):
            Program.from_formula(f"y ~ `{name}`", renamed)
