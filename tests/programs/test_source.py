"""Declarations read from a program's text, as stanc itself reports them."""

import json
import subprocess
from pathlib import Path

import pytest

from pyflowers.errors import CompileError, ConfigError
from pyflowers.programs.source import (
    DEEPEST_INCLUDE,
    LONGEST_TEXT,
    Source,
    Variable,
    read_blocks,
    read_source,
)
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


# A program of a stranger

MODEL = "parameters { real mu; }\nmodel { mu ~ std_normal(); }\n"


def in_memory(*texts, path="/none/p.stan"):
    """A program as a run folder holds it: its text, then those of the files a, b and so on."""
    names = ["p.stan", *"abcdefgh"]
    return Source(
        Path(path), {name: text.encode() for name, text in zip(names, texts, strict=False)}
    )


@pytest.fixture
def folder(tmp_path):
    """A folder with a secret outside of it."""
    (tmp_path / "secret.stan").write_text("real secret;\n")
    inside = tmp_path / "models"
    inside.mkdir()
    (inside / "part.stan").write_text("real part;\n")
    return inside


@pytest.mark.parametrize(
    "hidden",
    [
        "/*\n#include {}\n*/",
        "/* text\n  #include {} */",
        "/**\n * #include <{}>\n **/",
        "// #include {}",
        "//\\\n// #include {}",
        'model { print("#include {}"); }',
        "/*/\n#include {}\n*/",
    ],
)
@pytest.mark.parametrize("target", ["part.stan", "../secret.stan", "/etc/passwd", "p.hpp"])
def test_an_include_in_a_comment_or_a_string_reads_nothing(folder, hidden, target):
    (folder / "p.hpp").write_text("#error\n")
    (folder / "p.stan").write_text(hidden.replace("{}", target) + "\n" + MODEL)
    source = read_source(folder / "p.stan")
    assert list(source.files) == ["p.stan"]
    assert source.text == (folder / "p.stan").read_text()


@pytest.mark.parametrize(
    "written",
    [
        "#include part.stan",
        '#include "part.stan"',
        "#include <part.stan>",
        "  #include\tpart.stan",
        "/* a */ #include part.stan",
        "#include\npart.stan",
        "// a comment ends at the end of a line\r#include part.stan",
    ],
)
def test_includes_are_found_where_stanc_reads_them(folder, written):
    (folder / "p.stan").write_text(f"parameters {{\n{written}\n}}\n", newline="")
    source = read_source(folder / "p.stan")
    assert list(source.files) == ["p.stan", "part.stan"]
    assert list(source.blocks.parameters) == ["part"]
    target = folder / "written"
    target.mkdir()
    done = subprocess.run(
        [stan_folder() / "stanc", "--info", source.write(target)], capture_output=True, text=True
    )
    assert list(json.loads(done.stdout)["parameters"]) == ["part"]


@pytest.mark.parametrize("include", ["../secret.stan", "sub/../../secret.stan", "absolute", "link"])
def test_an_include_outside_of_the_named_folders_is_refused(folder, include):
    secret = folder.parent / "secret.stan"
    (folder / "sub").mkdir()
    (folder / "link.stan").symlink_to(secret)
    name = {"absolute": str(secret), "link": "link.stan"}.get(include, include)
    (folder / "p.stan").write_text(f"parameters {{\n#include {name}\n}}\n")
    with pytest.raises(CompileError, match=r"secret\.stan, outside of .*models; add .* --include"):
        read_source(folder / "p.stan")
    allowed = read_source(folder / "p.stan", [folder.parent])
    assert list(allowed.blocks.parameters) == ["secret"]


def test_special_files_and_long_names_are_not_included(folder):
    (folder / "null").symlink_to("/dev/zero")
    for name in ("null", "n" * 300, "models"):
        (folder / "p.stan").write_text(f"#include {name}\n{MODEL}")
        with pytest.raises(CompileError, match="no such file in"):
            read_source(folder / "p.stan")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["data { real a; }\n\0model { }"], r"/none/p\.stan, line 2: there is a NUL character"),
        (["#include a\n", "\0"], r"a, which /none/p\.stan includes, line 1: there is a NUL"),
        (["/* #include a"], r"/none/p\.stan, line 1: a comment that begins with /\* does"),
        (["#include a\n*/ model { }", "/*"], r"a, .* line 1: a comment that begins with /\*"),
        (["#include p.stan\n"], r"p\.stan includes itself"),
        (["#include a\n", "#include b\n", "#include a\n"], r"a includes itself"),
        (["#include missing.hpp\n"], r"includes missing\.hpp, which is missing; restore"),
    ],
)
def test_texts_that_are_not_one_program(texts, message):
    with pytest.raises(CompileError, match=message):
        _ = in_memory(*texts).text


def test_includes_are_bounded(tmp_path):
    """Doubling makes 2^40 lines; a long chain would need a deep stack."""
    doubling = {f"i{i}": f"#include i{i + 1}\n#include i{i + 1}\n".encode() for i in range(40)}
    with pytest.raises(CompileError, match=f"more than {LONGEST_TEXT} characters"):
        _ = Source(Path("p.stan"), {**doubling, "i40": b"real x;\n"}).text
    chain = {f"i{i}": f"#include i{i + 1}\n".encode() for i in range(2000)}
    with pytest.raises(CompileError, match=f"more than {DEEPEST_INCLUDE} levels deep"):
        _ = Source(Path("p.stan"), {**chain, "i2000": b""}).text
    (tmp_path / "large.stan").write_bytes(b" " * (LONGEST_TEXT + 1))
    with pytest.raises(ConfigError, match=f"more than {LONGEST_TEXT} bytes"):
        read_source(tmp_path / "large.stan")
    (tmp_path / "p.stan").write_text("#include half\n#include other\n")
    for name in ("half", "other"):
        (tmp_path / name).write_bytes(b" " * (LONGEST_TEXT * 2 // 3))
    with pytest.raises(CompileError, match="included files have more than"):
        read_source(tmp_path / "p.stan")


def test_a_file_that_is_included_twice_is_inserted_twice_and_ends_its_last_line():
    source = in_memory("#include a\nmodel { }\n#include a\n", "// x")
    assert source.text == "// x\n\nmodel { }\n// x\n\n"


@pytest.mark.parametrize(
    ("path", "safe"),
    [
        ("/x/p'`touch${IFS}a`'y.stan", "p__touch__IFS_a__y"),
        ("/x/$(id).stan", "__id_"),
        ("/x/-o.stan", "_o"),
        ("/x/%.stan", "_"),
        ("", "program"),
        (f"/x/{'n' * 300}.stan", "n" * 100),
        ("/x/my model.stan", "my_model"),
    ],
)
def test_one_file_with_a_safe_name_is_written(tmp_path, path, safe):
    names = ["x'`touch${IFS}PWNED`'y.stan", "p.hpp", "../up.stan", str(tmp_path / "over.stan")]
    files = {name: MODEL.encode() for name in names}
    target = tmp_path / "build"
    target.mkdir()
    written = Source(Path(path), files).write(target)
    assert written == target / f"{safe}.stan"
    assert list(tmp_path.rglob("*")) == [target, written]
    assert written.read_text() == MODEL
