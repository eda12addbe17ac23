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


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        ("int N;", ("int", (), None, None)),
        ("int<lower=0> N;", ("int", (), "0", None)),
        ("real<lower = -1, upper=1> r;", ("real", (), "-1", "1")),
        ("array[N] int<lower=1, upper=P> plant;", ("int", ("N",), "1", "P")),
        ("array [ N , M ] real y;", ("real", ("N", "M"), None, None)),
        ("vector<lower=0>[2 * N] y;", ("vector", ("2 * N",), "0", None)),
        ("vector<offset=mu, multiplier=sd>[K] b;", ("vector", ("K",), None, None)),
        ("array[J] matrix[N, K] x;", ("matrix", ("J", "N", "K"), None, None)),
        ("row_vector[K] m;", ("row_vector", ("K",), None, None)),
        ("simplex[K] p;", ("simplex", ("K",), None, None)),
        ("cov_matrix[K] S;", ("cov_matrix", ("K", "K"), None, None)),
        ("cholesky_factor_corr[K] L;", ("cholesky_factor_corr", ("K", "K"), None, None)),
        ("cholesky_factor_cov[M, N] L;", ("cholesky_factor_cov", ("M", "N"), None, None)),
        ("complex z;", ("complex", (), None, None)),
        ("complex_matrix[2, 3] z;", ("complex_matrix", ("2", "3"), None, None)),
        (
            "vector<lower=(a > b ? 0 : 1), upper=f(a, b)>[N] y;",
            ("vector", ("N",), "(a > b ? 0 : 1)", "f(a, b)"),
        ),
        ("array[size(x), max({1, 2})] int y;", ("int", ("size(x)", "max({1, 2})"), None, None)),
        ("tuple(real, vector[N]) t;", ("tuple", (), None, None)),
        ("array[N] tuple(int, array[2] real) t;", ("tuple", ("N",), None, None)),
        ("int\n  N\n;", ("int", (), None, None)),
        # Types from versions of Stan that are later than this stanc.
        ("row_stochastic_matrix[3, 2] p;", ("row_stochastic_matrix", ("3", "2"), None, None)),
        ("column_stochastic_matrix[3, 2] p;", ("column_stochastic_matrix", ("3", "2"), None, None)),
        ("sum_to_zero_matrix[3, 2] p;", ("sum_to_zero_matrix", ("3", "2"), None, None)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_declaration(declaration, expected):
    (found,) = read_blocks(f"parameters {{ {declaration} }}").parameters.values()
    assert found == Variable(found.name, *expected)
    assert (found.ndim, found.is_int) == (len(expected[1]), expected[0] == "int")


def test_only_the_top_level_of_a_block_declares():
    """Nested blocks, comments and strings are skipped; an array in braces is not a nested block."""
    blocks = read_blocks("""
    functions { real data_of(data real x, int n) { real local; return x; } }
    // data { int a; }
    data { /* int b; } */ int N; // int c;
      int M; /* a " in a comment */
      real a, b; int n = 3; vector[n] x = f(1, 2), y;
    }
    transformed data { int hidden = 1; }
    parameters { real mu; }
    transformed parameters {
      real sd;
      { vector[2] inner; sd = 1; }
      if (mu > 0) { real positive; }
    }
    model { real nu; mu ~ normal(0, 1); print("data { int d; } // not a comment"); }
    generated   quantities {
      vector[N] log_lik;
      for (n in 1:N) { real term = 1; log_lik[n] = term; }
      for (n in 1:N) log_lik[n] = 2;
      array[N] real y_rep = normal_rng(rep_vector(mu, N), sd);
      array[2] real z = {1, 2};
      if (z[1] > 0) { real c; } else { real d; }
      vector[2] v = to_vector({mu, {1, 2}[1]}), w;
      array[N, {1, 2}[1]] int k;
      while (0) { real e; }
      profile("p") { real f; }
      { array[1] real g = {1}; }
      real last;
    }
    """)
    assert list(blocks.data) == ["N", "M", *"abnxy"]
    assert list(blocks.parameters) == ["mu"]
    assert list(blocks.transformed_parameters) == ["sd"]
    generated = ["log_lik", "y_rep", *"zvwk", "last"]
    assert list(blocks.generated_quantities) == generated
    assert list(blocks.draws) == ["mu", "sd", *generated]


@pytest.mark.parametrize(
    "text",
    ["", "data {", "data { int", "data { array[", "data { int<lower=0 N; }", "}{", "data { ; }"],
)
def test_text_that_is_no_program_declares_nothing(text):
    """Only stanc decides whether a text is a program."""
    assert not read_blocks(text).data


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_is_read_is_what_stanc_says(program):
    """Names, types and dimensions of all four blocks, as ``stanc --info`` reports them."""
    done = subprocess.run(
        [stan_folder() / "stanc", "--info", program], capture_output=True, text=True, check=True
    )
    info = json.loads(done.stdout)
    blocks = read_source(program).blocks
    reported = ("inputs", "parameters", "transformed parameters", "generated quantities")
    for block, reference in zip(vars(blocks).values(), reported, strict=True):
        want = {name: (its["type"], its["dimensions"]) for name, its in info[reference].items()}
        found = {
            name: ("int" if variable.is_int else "real", variable.ndim)
            for name, variable in block.items()
        }
        assert found == want
