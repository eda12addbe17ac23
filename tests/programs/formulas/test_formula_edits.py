"""Terms are put into formulas as a person would write them."""

import pytest

from pyflowers.programs.formulas.edits import with_student_effects, with_terms
from pyflowers.programs.formulas.grammar import parse


@pytest.mark.parametrize(
    ("formula", "terms", "expected"),
    [
        ("y ~ x + sex + (1 | g)", ["(x | g)"], "y ~ x + sex + (x | g)"),
        ("y ~ x + z + (z | g) + (1 | h)", ["(x | g)"], "y ~ x + z + (z + x | g) + (1 | h)"),
        ("y ~ x", ["(x | `my g`)"], "y ~ x + (x | `my g`)"),
        ("y ~ x + (1 | gr(g, by=f))", ["(x | g)"], "y ~ x + (x | g)"),
        ("y ~ x + sex", ["x * sex"], "y ~ x * sex"),
        ("y ~ log(x) + sex", ["x * sex"], "y ~ log(x) + sex + x:sex"),
        ("y ~ x + w", ["bs(x, df=6)"], "y ~ bs(x, df=6) + w"),
        ("y ~ x * C(w)", ["bs(x, df=6)"], "y ~ bs(x, df=6) * C(w)"),
        ("y ~ bs(x, df=4) + w", ["bs(x, df=8)"], "y ~ w + bs(x, df=8)"),
        ("y | trials(n) ~ `my x`", ["C(`my x`)"], "y | trials(n) ~ C(`my x`)"),
        ("y ~ 1 + (1 | g)", [], "y ~ (1 | g)"),
        # A smooth takes the place of the line and of other curves, but not of products.
        ("y ~ x + w", ["s(x)"], "y ~ w + s(x)"),
        ("y ~ x + I(x**2) + poly(x, 2) + xx", ["s(x)"], "y ~ xx + s(x)"),
        ("y ~ x * sex", ["s(x)"], "y ~ x * sex + s(x)"),
        ("y ~ w + s(x) + s(z)", ["s(x, k=20)"], "y ~ w + s(z) + s(x, k=20)"),
        # What the formula has besides is kept.
        ("y ~ x + s(w); sigma ~ z", ["(x | g)"], "y ~ x + s(w) + (x | g); sigma ~ z"),
    ],
)
def test_terms_are_put_into_the_formula(formula, terms, expected):
    made = with_terms(formula, terms)
    assert made == expected
    parse(made)


@pytest.mark.parametrize(
    ("formula", "terms", "expected"),
    [
        ("y ~ x + (1 | g)", ["x"], "y ~ x + (1 | g); sigma ~ x"),
        ("y ~ x; sigma ~ z", ["x", "(1 | g)"], "y ~ x; sigma ~ z + x + (1 | g)"),
        ("y ~ x; sigma ~ x", ["s(x)"], "y ~ x; sigma ~ s(x)"),
        ("y ~ x; sigma ~ x + (1 | g)", ["x", "(1 | g)"], "y ~ x; sigma ~ x + (1 | g)"),
        ("y ~ x; nu ~ 1; sigma ~ 1", ["f"], "y ~ x; nu ~ 1; sigma ~ f"),
        ("`a ~ b` ~ x", ["`my x`"], "`a ~ b` ~ x; sigma ~ `my x`"),
    ],
)
def test_terms_are_put_into_the_formula_of_a_parameter(formula, terms, expected):
    made = with_terms(formula, terms, "sigma")
    assert made == expected
    parse(made)


def test_effects_have_a_t_distribution_instead():
    made = with_student_effects("y ~ x + (1 | g) + (1 | h); sigma ~ x", "g")
    assert made == "y ~ x + (1 | gr(g, dist=student)) + (1 | h); sigma ~ x"
    assert with_student_effects("y ~ (x || g)", "g") == "y ~ (x || gr(g, dist=student))"
    for formula in ("y ~ x", "y ~ (1 | gr(g, by=f))"):
        assert with_student_effects(formula, "g") == ""
