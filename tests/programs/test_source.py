"""Declarations read from a program's text, as stanc itself reports them."""

import json
import subprocess
from pathlib import Path

import pytest

from pyflowers.programs.source import Variable, read_blocks, read_source
from pyflowers.toolchain.embedded import stan_folder

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted(
    path
    for folder in ("stan", "examples/*", "tests/lecture", "tests/conformance/programs")
    for path in ROOT.glob(f"{folder}/*.stan")
)


def data_of(declaration):
    """The variables of a data block."""
    return read_blocks(f"data {{ {declaration} }}").data


@pytest.mark.parametrize(
    ("declaration", "variable"),
    [
        ("int N;", Variable("N", "int")),
        ("int<lower=0> N;", Variable("N", "int", (), "0")),
        ("real<lower = -1, upper=1> r;", Variable("r", "real", (), "-1", "1")),
        ("array[N] int<lower=1, upper=P> plant;", Variable("plant", "int", ("N",), "1", "P")),
        ("array [ N , M ] real y;", Variable("y", "real", ("N", "M"))),
        ("vector[N] y;", Variable("y", "vector", ("N",))),
        ("vector<lower=0>[2 * N] y;", Variable("y", "vector", ("2 * N",), "0")),
        (
            "vector<offset=mu, multiplier=sd>[K] b;",
            Variable("b", "vector", ("K",)),
        ),
        ("matrix[N, K] x;", Variable("x", "matrix", ("N", "K"))),
        ("array[J] matrix[N, K] x;", Variable("x", "matrix", ("J", "N", "K"))),
        ("row_vector[K] m;", Variable("m", "row_vector", ("K",))),
        ("simplex[K] p;", Variable("p", "simplex", ("K",))),
        ("cov_matrix[K] S;", Variable("S", "cov_matrix", ("K", "K"))),
        ("cholesky_factor_corr[K] L;", Variable("L", "cholesky_factor_corr", ("K", "K"))),
        ("cholesky_factor_cov[M, N] L;", Variable("L", "cholesky_factor_cov", ("M", "N"))),
        ("complex z;", Variable("z", "complex")),
        ("complex_matrix[2, 3] z;", Variable("z", "complex_matrix", ("2", "3"))),
        (
            "vector<lower=(a > b ? 0 : 1), upper=f(a, b)>[N] y;",
            Variable("y", "vector", ("N",), "(a > b ? 0 : 1)", "f(a, b)"),
        ),
        ("array[size(x), max({1, 2})] int y;", Variable("y", "int", ("size(x)", "max({1, 2})"))),
        ("tuple(real, vector[N]) t;", Variable("t", "tuple")),
        ("array[N] tuple(int, array[2] real) t;", Variable("t", "tuple", ("N",))),
        ("int\n  N\n;", Variable("N", "int")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_declaration(declaration, variable):
    assert list(data_of(declaration).values()) == [variable]


def test_several_names_and_values_of_one_statement():
    assert list(data_of("real a, b; int n = 3; vector[n] x = f(1, 2), y;")) == [*"abnxy"]


def test_an_array_in_braces_is_no_nested_block():
    text = """
    generated quantities {
      array[2] real z = {1, 2};
      if (z[1] > 0) { real a; } else { real b; }
      vector[2] v = to_vector({mu, {1, 2}[1]}), w;
      array[N, {1, 2}[1]] int k;
      while (0) { real c; }
      profile("p") { real d; }
      { array[1] real e = {1}; }
      real last;
    }
    """
    assert list(read_blocks(text).generated_quantities) == ["z", "v", "w", "k", "last"]


def test_comments_and_strings_declare_nothing():
    text = """
    // data { int a; }
    data { /* int b; } */ int N; // int c;
      int M; /* a " in a comment */
    }
    model { print("data { int d; } // not a comment"); }
    generated quantities { real z; }
    """
    blocks = read_blocks(text)
    assert list(blocks.data) == ["N", "M"]
    assert list(blocks.generated_quantities) == ["z"]


def test_only_the_top_level_of_a_block_declares():
    text = """
    functions { real data_of(data real x, int n) { real local; return x; } }
    transformed data { int hidden = 1; }
    parameters { real mu; }
    transformed parameters {
      real sd;
      { vector[2] inner; sd = 1; }
      if (mu > 0) { real positive; }
    }
    model { real nu; mu ~ normal(0, 1); }
    generated   quantities {
      vector[N] log_lik;
      for (n in 1:N) { real term = 1; log_lik[n] = term; }
      for (n in 1:N) log_lik[n] = 2;
      array[N] real y_rep = normal_rng(rep_vector(mu, N), sd);
    }
    """
    blocks = read_blocks(text)
    assert list(blocks.data) == []
    assert list(blocks.parameters) == ["mu"]
    assert list(blocks.transformed_parameters) == ["sd"]
    assert list(blocks.generated_quantities) == ["log_lik", "y_rep"]
    assert list(blocks.draws) == ["mu", "sd", "log_lik", "y_rep"]


@pytest.mark.parametrize(
    "text",
    ["", "data {", "data { int", "data { array[", "data { int<lower=0 N; }", "}{", "data { ; }"],
)
def test_text_that_is_no_program_declares_nothing(text):
    """Whether it is one is for stanc to say."""
    assert not read_blocks(text).data


def test_shapes_and_kinds():
    data = data_of("int n; array[n] int k; matrix[n, 2] x;")
    assert [data[name].ndim for name in "nkx"] == [0, 1, 2]
    assert [data[name].is_int for name in "nkx"] == [True, True, False]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_is_read_is_what_stanc_says(program):
    """Names, types and dimensions of all four blocks, as ``stanc --info`` reports them."""
    done = subprocess.run(
        [stan_folder() / "stanc", "--info", program], capture_output=True, text=True, check=True
    )
    info = json.loads(done.stdout)
    blocks = read_source(program).blocks
    for block, reference in (
        (blocks.data, "inputs"),
        (blocks.parameters, "parameters"),
        (blocks.transformed_parameters, "transformed parameters"),
        (blocks.generated_quantities, "generated quantities"),
    ):
        want = {
            name: (about["type"], about["dimensions"]) for name, about in info[reference].items()
        }
        found = {
            name: ("int" if variable.is_int else "real", variable.ndim)
            for name, variable in block.items()
        }
        assert found == want


@pytest.mark.parametrize(
    "kind", ["row_stochastic_matrix", "column_stochastic_matrix", "sum_to_zero_matrix"]
)
def test_the_matrices_of_later_stans_are_parameters(kind):
    (found,) = read_blocks(f"parameters {{ {kind}[3, 2] p; }}").parameters.values()
    assert (found.name, found.ndim) == ("p", 2)
