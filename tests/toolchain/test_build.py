"""Executables: content-addressed, complete or absent, and never in the program's folder."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from pyflowers.digests import digest
from pyflowers.errors import CompileError, ConfigError, ToolchainError
from pyflowers.toolchain import build, compile_program
from pyflowers.toolchain.cache import appearing, locked
from pyflowers.toolchain.compiler import compiler

PROGRAM = "parameters { real x; } model { x ~ normal(0, 1); }\n"
INCLUDING = "functions {\n#include helper.stan\n}\nparameters { real x; } model { x ~ f(); }\n"


def runs(executable):
    return subprocess.run([executable.path, "info"], check=False).returncode == 0


@pytest.fixture
def small_cache(monkeypatch, tmp_path, cmdstan):
    """An empty cache for executables, with the CmdStan of the session."""
    monkeypatch.setenv("PYFLOWERS_CACHE", str(tmp_path / "a cache ü"))
    return tmp_path / "a cache ü"


def test_a_program_is_compiled_once_in_a_place_of_its_own(small_cache, cmdstan, tmp_path):
    folder = tmp_path / "Gärten & more"
    folder.mkdir()
    program = folder / "my model.stan"
    program.write_text(PROGRAM)
    folder.chmod(0o555)
    try:
        first = compile_program(program, cmdstan=cmdstan)
        made = first.path.stat().st_mtime_ns
        assert runs(first)
        assert [p.name for p in folder.iterdir()] == ["my model.stan"]
        again = compile_program(program, cmdstan=cmdstan)
        assert (again.path, again.path.stat().st_mtime_ns) == (first.path, made)
    finally:
        folder.chmod(0o755)
    left = [p.name for p in (small_cache / "executables").iterdir() if "pyflowers" in p.name]
    assert left == []


def test_a_space_in_the_folder_for_temporary_files_is_named(
    small_cache, cmdstan, tmp_path, monkeypatch
):
    (tmp_path / "my files").mkdir()
    (tmp_path / "p.stan").write_text(PROGRAM)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "my files"))
    with pytest.raises(CompileError, match=r"the space in .*my files.*; set TMPDIR to another"):
        compile_program(tmp_path / "p.stan", cmdstan=cmdstan)
    assert list((tmp_path / "my files").iterdir()) == []


@pytest.mark.parametrize("name", ["CXXFLAGS", "O", "STAN_THREADS", "STANCFLAGS"])
def test_what_make_reads_from_the_environment_is_part_of_the_key(monkeypatch, name):
    for known in ("CXXFLAGS", "O", "STAN_THREADS", "STANCFLAGS"):
        monkeypatch.delenv(known, raising=False)
    before = build._make_options()
    monkeypatch.setenv("STAN_NUM_THREADS", "2")
    assert build._make_options() == before
    monkeypatch.setenv(name, "1")
    assert build._make_options() != before


@pytest.mark.slow
def test_stans_header_comes_precompiled(cmdstan, tmp_path):
    if not (cmdstan.path / "build").is_dir() or "clang" in compiler():
        pytest.skip("only the embedded CmdStan, made with GCC, has one of pyflowers' making")
    shown = subprocess.run(
        ["make", "compile_info"], cwd=cmdstan.path, capture_output=True, text=True, check=True
    )
    program = tmp_path / "program.hpp"
    program.write_text("#include <stan/model/model_header.hpp>\n")
    done = subprocess.run(
        [*shown.stdout.split(), "-H", "-fsyntax-only", "-x", "c++", program],
        cwd=cmdstan.path,
        capture_output=True,
        text=True,
        check=True,
    )
    # GCC's -H marks a precompiled header that it uses with "!", and one that it cannot use with
    # "x".
    assert "! build/default/precompiled/stan/model/model_header.hpp.gch" in done.stderr


@pytest.mark.slow
def test_a_changed_include_is_another_executable(small_cache, cmdstan, tmp_path):
    library = tmp_path / "lib rary"
    library.mkdir()
    helper = library / "helper.stan"
    program = tmp_path / "including.stan"
    program.write_text(INCLUDING.replace("x ~ f()", "target += f(x)"))
    helper.write_text("real f(real x) { return -square(x); }\n")
    first = compile_program(program, cmdstan=cmdstan, include_paths=[library])
    assert runs(first)
    helper.write_text("real f(real x) { return -2 * square(x); }\n")
    second = compile_program(program, cmdstan=cmdstan, include_paths=[library])
    assert runs(second)
    assert first.path != second.path
    assert first.source.sha256 != second.source.sha256
    helper.write_text("real f(real x) { return -square(x); }\n")
    assert compile_program(program, cmdstan=cmdstan, include_paths=[library]).path == first.path


@pytest.mark.slow
def test_a_header_beside_the_program_is_not_compiled_instead_of_it(small_cache, cmdstan, tmp_path):
    """CmdStan's makefile takes p.hpp for what stanc made of p.stan."""
    header = tmp_path / "p.hpp"
    program = tmp_path / "p.stan"
    program.write_text(f"/*\n#include p.hpp\n*/\n{PROGRAM}")
    header.write_text("#error C++ of a stranger\n")
    assert runs(compile_program(program, cmdstan=cmdstan))
    program.write_text(PROGRAM.replace("model", "\n#include p.hpp\nmodel"))
    with pytest.raises(CompileError, match="Lines are counted with the included files inserted"):
        compile_program(program, cmdstan=cmdstan)
    header.write_text("// Stan code in a file that is named like C++\n")
    assert runs(compile_program(program, cmdstan=cmdstan))


@pytest.mark.slow
def test_two_at_once_compile_once(small_cache, cmdstan, tmp_path):
    program = tmp_path / "twice.stan"
    program.write_text(PROGRAM)
    code = (
        "import sys, pathlib; from pyflowers.toolchain import compile_program, CmdStan\n"
        f"c = CmdStan(pathlib.Path({str(cmdstan.path)!r}), '2.35.0', 'embedded')\n"
        f"p = compile_program({str(program)!r}, cmdstan=c).path\n"
        "print(p, p.stat().st_mtime_ns)"
    )
    with ThreadPoolExecutor() as executor:
        jobs = [
            executor.submit(subprocess.check_output, [sys.executable, "-c", code], text=True)
            for _ in range(2)
        ]
    assert jobs[0].result() == jobs[1].result()


BAD_PROGRAMS = [
    ("bad.stan", "parameters { real x }", CompileError, "bad.stan"),
    ("type.stan", "model { int i = 1.5; }", CompileError, "line 1"),
    ("bad.txt", PROGRAM, ConfigError, "must end in .stan"),
]


@pytest.mark.parametrize(("name", "text", "kind", "message"), BAD_PROGRAMS)
def test_a_bad_program_is_said_in_stancs_words(cmdstan, tmp_path, name, text, kind, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(kind) as caught:
        compile_program(tmp_path / name, cmdstan=cmdstan)
    assert message in str(caught.value)


def test_a_missing_program(cmdstan, tmp_path):
    with pytest.raises(ConfigError, match="no such Stan program"):
        compile_program(tmp_path / "absent.stan", cmdstan=cmdstan)


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "thing"
    stale = tmp_path / ".pyflowers-0123abcd.tmp"
    stale.mkdir(mode=0o700)

    def fail_halfway():
        with locked(target), appearing(target) as staging:
            (staging / "half").touch()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert not target.exists()
    assert not stale.exists()
    with locked(target), appearing(target) as staging:
        (staging / "whole").touch()
    assert [p.name for p in target.iterdir()] == ["whole"]
    assert not list(tmp_path.glob(".pyflowers-*"))


def test_an_unwritable_cache_is_one_sentence(monkeypatch, tmp_path, cmdstan):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PYFLOWERS_CACHE", str(tmp_path / "file" / "cache"))
    (tmp_path / "x.stan").write_text(PROGRAM)
    with pytest.raises(ToolchainError, match="PYFLOWERS_CACHE"):
        compile_program(tmp_path / "x.stan", cmdstan=cmdstan)


def test_a_digest_tells_where_parts_end():
    assert digest("ab", "c") != digest("a", "bc")
