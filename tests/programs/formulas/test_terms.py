"""Sums of terms as columns, against columns computed by hand with NumPy."""

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import BSpline

import pyflowers
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs import design as design_module
from pyflowers.programs.design import design, offset
from pyflowers.programs.terms import read_terms

X = np.array([0.5, 1.0, 2.0, 4.0, 7.0, 8.0, 9.5, 11.0])
Z = np.array([3.0, -1.0, 2.0, 0.0, 5.0, 4.0, -2.0, 1.0])
YEAR = np.array([96.0, 97.0, 98.0, 96.0, 97.0, 98.0, 96.0, 97.0])
F = np.array(list("babcacbb"))
T = np.array(["no", "yes"] * 4)
CELLS = {
    "x": X,
    "z": Z,
    "year": YEAR,
    "f": pd.Categorical(F, categories=["a", "b", "c"]),
    "t": pd.Categorical(T, categories=["no", "yes"]),
    "my col": X + 1,
    "my factor": pd.Categorical(F, categories=["a", "b", "c"]),
    "for": X + 2,
    "scale": X + 3,
    "lp__": X + 4,
}
A, B, C, YES = (F == "a") * 1.0, (F == "b") * 1.0, (F == "c") * 1.0, (T == "yes") * 1.0
Y97, Y98 = (YEAR == 97) * 1.0, (YEAR == 98) * 1.0
ONE = np.ones(8)

DESIGNS = [
    ("x", {"x": X}),
    ("1", {"Intercept": ONE}),
    ("1 + x", {"Intercept": ONE, "x": X}),
    ("x + z", {"x": X, "z": Z}),
    ("x - z + z", {"x": X, "z": Z}),
    ("0 + x", {"x": X}),
    ("x - 1", {"x": X}),
    ("f", {"fb": B, "fc": C}),
    ("1 + f", {"Intercept": ONE, "fb": B, "fc": C}),
    ("0 + f", {"fa": A, "fb": B, "fc": C}),
    ("0 + x + f", {"x": X, "fa": A, "fb": B, "fc": C}),
    ("0 + f + t", {"fa": A, "fb": B, "fc": C, "tyes": YES}),
    ("x:z", {"x:z": X * Z}),
    ("x * z", {"x": X, "z": Z, "x:z": X * Z}),
    ("x * f", {"x": X, "fb": B, "fc": C, "x:fb": X * B, "x:fc": X * C}),
    ("f:x", {"fa:x": A * X, "fb:x": B * X, "fc:x": C * X}),
    ("f * t", {"fb": B, "fc": C, "tyes": YES, "fb:tyes": B * YES, "fc:tyes": C * YES}),
    ("x / z", {"x": X, "x:z": X * Z}),
    ("(x + z):year", {"x:year": X * YEAR, "z:year": Z * YEAR}),
    ("x * z - z", {"x": X, "x:z": X * Z}),
    ("C(year)", {"year97": Y97, "year98": Y98}),
    ("0 + C(year)", {"year96": 1 - Y97 - Y98, "year97": Y97, "year98": Y98}),
    ("C(year, ref=97)", {"year96": 1 - Y97 - Y98, "year98": Y98}),
    ("C(year, ref='97')", {"year96": 1 - Y97 - Y98, "year98": Y98}),
    ("C(f, ref='b')", {"fa": A, "fc": C}),
    ('C(f, ref="c")', {"fa": A, "fb": B}),
    ("C(f, levels=['c', 'a', 'b'])", {"fa": A, "fb": B}),
    ("C(f, levels=['b', 'q', 'a', 'c'])", {"fa": A, "fc": C}),
    ("0 + C(f, levels=['c', 'b', 'a'])", {"fc": C, "fb": B, "fa": A}),
    ("C(f, levels=['c', 'b', 'a'], ref='b'):x", {"fc:x": C * X, "fb:x": B * X, "fa:x": A * X}),
    ("C(f, ref='b', levels=['c', 'b', 'a'])", {"fc": C, "fa": A}),
    ("C(year, levels=[98, 96, 97])", {"year96": 1 - Y97 - Y98, "year97": Y97}),
    ("C(year, levels=['98', '97', '96'])", {"year97": Y97, "year96": 1 - Y97 - Y98}),
    ("I(x > 2)", {"I(x > 2)": X > 2}),
    ("I(x + 1 >= z)", {"I(x + 1 >= z)": X + 1 >= Z}),
    (
        "I(x != 2):f",
        {"I(x != 2):fa": (X != 2) * A, "I(x != 2):fb": (X != 2) * B, "I(x != 2):fc": (X != 2) * C},
    ),
    ("(x + z)**2", {"x": X, "z": Z, "x:z": X * Z}),
    (
        "(x + z + f)^2 - x:f",
        {"x": X, "z": Z, "fb": B, "fc": C, "x:z": X * Z, "z:fb": Z * B, "z:fc": Z * C},
    ),
    (
        "(x + log(x))**2:z",
        {"x:z": X * Z, "log(x):z": np.log(X) * Z, "x:log(x):z": X * np.log(X) * Z},
    ),
    ("log(x)", {"log(x)": np.log(X)}),
    ("log2(x)", {"log2(x)": np.log2(X)}),
    ("log10(x)", {"log10(x)": np.log10(X)}),
    ("exp(z)", {"exp(z)": np.exp(Z)}),
    ("sqrt(x)", {"sqrt(x)": np.sqrt(X)}),
    ("log(I(x + 1))", {"log(I(x + 1))": np.log(X + 1)}),
    ("log(x + 1)", {"log(x + 1)": np.log(X + 1)}),
    ("I(x**2)", {"I(x ** 2)": X**2}),
    ("I(x**-1)", {"I(x ** -1)": 1 / X}),
    ("I(-x + 2 * z)", {"I(-x + 2 * z)": -X + 2 * Z}),
    ("scale(x)", {"scale(x)": (X - X.mean()) / X.std(ddof=1)}),
    ("center(x)", {"center(x)": X - X.mean()}),
    ("x + offset(log(x))", {"x": X}),
    ("`my col`", {"my col": X + 1}),
    ("`my col`:x", {"my col:x": (X + 1) * X}),
    ("log(`my col`)", {"log(`my col`)": np.log(X + 1)}),
    ("I(`my col` + x)", {"I(`my col` + x)": X + 1 + X}),
    ("`my factor`", {"my factorb": B, "my factorc": C}),
    ("C(`my factor`, ref='b')", {"my factora": A, "my factorc": C}),
    ("`for`", {"for": X + 2}),
    ("log(`for`)", {"log(`for`)": np.log(X + 2)}),
    ("scale", {"scale": X + 3}),
    ("scale + scale(x)", {"scale": X + 3, "scale(x)": (X - X.mean()) / X.std(ddof=1)}),
    ("log(`scale`)", {"log(`scale`)": np.log(X + 3)}),
    ("`lp__` + I(`lp__` * x)", {"lp__": X + 4, "I(`lp__` * x)": (X + 4) * X}),
    ("`x` + x", {"x": X}),
]


@pytest.mark.parametrize(("text", "expected"), DESIGNS)
def test_columns_and_their_names(text, expected):
    cells = {name: CELLS[name] for name in read_terms(text).columns} or {"x": X}
    matrix, names = design(text, cells)
    assert names == tuple(expected) or names == tuple(map(plain, expected))
    np.testing.assert_allclose(matrix, np.column_stack(list(expected.values())), rtol=1e-12)


def plain(name):
    return name.replace("** -1", "** (-1)")


def test_polynomials_are_orthonormal():
    matrix, names = design("poly(x, 3)", {"x": X})
    assert names == ("poly(x, 3)1", "poly(x, 3)2", "poly(x, 3)3")
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(matrix.sum(axis=0), 0, atol=1e-12)
    q, r = np.linalg.qr(np.vander(X, 4, increasing=True))
    np.testing.assert_allclose(matrix, (q * np.sign(np.diag(r)))[:, 1:], atol=1e-10)


def test_splines_are_those_of_scipy():
    matrix, names = design("bs(x, df=5)", {"x": X})
    assert len(names) == 5
    inner = np.quantile(X, [1 / 3, 2 / 3])
    knots = np.r_[[X.min()] * 4, inner, [X.max()] * 4]
    basis = BSpline.design_matrix(X, knots, 3).toarray()
    np.testing.assert_allclose(matrix, basis[:, 1:], atol=1e-10)


def test_an_offset_is_taken_out_of_the_sum():
    terms = read_terms("z + offset(log(x)) + offset(`my col`)")
    assert (terms.text, terms.offsets) == ("1 + z", ("log(x)", "`my col`"))
    assert terms.columns == ("z", "x", "my col")
    np.testing.assert_allclose(offset("log(x)", {"x": X}), np.log(X))
    np.testing.assert_allclose(offset("`my col`", {"my col": X}), X)


READ = [
    ("x", True, False),
    ("1", True, True),
    ("0", False, True),
    ("-1", False, True),
    ("x - 1", False, False),
    ("0 + x", False, False),
    ("-1 + x", False, False),
    ("1 + x", True, False),
    ("offset(x)", True, True),
]


@pytest.mark.parametrize(("text", "has_intercept", "is_empty"), READ)
def test_whether_there_is_an_intercept(text, has_intercept, is_empty):
    terms = read_terms(text)
    assert (terms.has_intercept, terms.is_empty) == (has_intercept, is_empty)


@pytest.mark.parametrize("text", [text for text, _ in DESIGNS])
def test_what_was_read_is_read_the_same_again(text):
    once = read_terms(text)
    again = read_terms(once.text)
    assert again.text == once.text
    assert set(again.columns) <= set(once.columns)


def test_the_columns_of_products_are_named():
    terms = read_terms("a * b + poly(`my col`, 2):a + I(x * z) + offset(w)")
    assert terms.interactions == (("a", "b"), ("my col", "a"))


def test_levels_that_are_given_make_columns_without_rows():
    levels = {"year": ["95", "96", "97", "98"]}
    matrix, names = design("C(year)", {"year": YEAR}, levels)
    assert names == ("year96", "year97", "year98")
    np.testing.assert_array_equal(matrix, np.column_stack([1 - Y97 - Y98, Y97, Y98]))
    fewer, same = design("C(year)", {"year": YEAR[:2]}, levels)
    assert same == names
    np.testing.assert_array_equal(fewer, matrix[:2])
    one = pd.Categorical(["b", "b"], categories=["a", "b", "c"])
    matrix, names = design("x * f", {"x": X[:2], "f": one})
    assert names == ("x", "fb", "fc", "x:fb", "x:fc")
    np.testing.assert_array_equal(matrix[:, 2], 0)
    spaced = {"a year": ["96", "97", "98", "99"]}
    assert design("C(`a year`)", {"a year": YEAR}, spaced)[1][-1] == "a year99"


def test_an_unknown_level_is_refused():
    with pytest.raises(DataError, match="is 97, which is not one of its levels: 96, 98; correct"):
        design("C(year)", {"year": YEAR}, {"year": ["96", "98"]})
    with pytest.raises(DataError, match=r"ref='q' is not a level of f; choose one of a, b, c"):
        design("C(f, ref='q')", {"f": CELLS["f"]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("log(f)", "f holds labels, such as 'a', but log"),
        ("poly(f, 2)", "f holds labels"),
        ("scale(f)", "f holds labels"),
        ("I(f * 2)", "f holds labels"),
        ("poly(year, 3)", r"needs at least 4; lower the degree to 2, or leave out the term"),
        (
            "poly(same, 2)",
            r"only 1 distinct value, but poly\(same, 2\) needs at least 3; leave out",
        ),
        ("C(same)", "same is 2 in every row; leave it out"),
        ("log(z)", r"observation 2: log\(z\) is nan"),
        ("I(x / zero)", "is inf; correct the column, or the term"),
    ],
)
def test_cells_that_do_not_fit(text, message):
    cells = {**CELLS, "same": 2 * ONE, "zero": 0 * ONE}
    with pytest.raises(DataError, match=message):
        design(text, {name: cells[name] for name in read_terms(text).columns})


@pytest.mark.parametrize(
    "text", ["x - q", "x * z - x:q", "1 - x", "x - log(z)", "x - C(`my col`)", "x - I(z**2)"]
)
def test_what_is_taken_away_must_be_there(text):
    with pytest.raises(ConfigError, match="is subtracted, but no other term contains it; leave"):
        read_terms(text)


def test_columns_with_points_need_no_backticks():
    cells = {"Solar.R": np.arange(1.0, 9.0), "x": np.arange(8.0) ** 2}
    _, names = design("Solar.R + x + I(Solar.R**2)", cells)
    assert names == ("Solar.R", "x", "I(`Solar.R` ** 2)")
    assert read_terms("log(Solar.R):x - 1").columns == ("Solar.R", "x")


def test_an_offset_cannot_be_taken_away():
    with pytest.raises(ConfigError, match=r"offsets can only be added; write offset\(I\(-\(log"):
        read_terms("x - offset(log(e))")
    assert read_terms("x + offset(I(-(log(e))))").offsets == ("I(-log(e))",)
    assert read_terms("x * log( z ) - log(z)").text == "1 + x + x:log(z)"


def test_the_intercept_has_its_name_to_itself():
    with pytest.raises(ConfigError, match="rename the table's column"):
        read_terms("x + Intercept")


def test_too_many_columns_are_refused_before_they_are_made():
    many = pd.Categorical([f"l{i}" for i in range(40)])
    cells = {"a": many, "b": many, "x": np.arange(40.0)}
    with pytest.raises(
        DataError, match=r"the terms have 1,601 columns, more than 1,000; leave some out"
    ):
        design("a:b", cells)
    with pytest.raises(DataError, match="the terms have 2,501 columns"):
        design("bs(x, 50):bs(x + 1, 50)", cells)


def test_a_sum_of_terms_is_evaluated_once_while_a_program_is_written(monkeypatch):
    evaluated, sums = design_module._evaluated, []

    def counted(text, *rest):
        sums.append(text)
        return evaluated(text, *rest)

    monkeypatch.setattr(design_module, "_evaluated", counted)
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["y", "x", "z"])
    frame["g"] = [*"abcdef"] * 10
    pyflowers.Program.from_formula("y ~ x + (z | g)", frame)
    # The population's sum is evaluated a second time for the origins of its columns.
    assert sorted(sums) == ["1 + x", "1 + x", "1 + z"]
