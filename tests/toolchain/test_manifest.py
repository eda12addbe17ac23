"""What a folder of the cache holds, and which damage is seen at which care."""

import os
import shutil
import stat

import pytest

from pyflowers.toolchain.cache import (
    HEADERS,
    MANIFEST,
    Care,
    find_damage,
    write_manifest,
)


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


def truncated(path):
    os.truncate(path, 3)


def edited(path):
    path.write_text("x" * path.stat().st_size)


def not_executable(path):
    path.chmod(path.stat().st_mode & ~stat.S_IXUSR)


def writable_by_all(path):
    path.chmod(0o666)


def a_folder(path):
    path.unlink()
    path.mkdir()


def leading_elsewhere(path):
    path.unlink()
    path.symlink_to("/usr/bin")


def with_text(text):
    def damage(path):
        path.write_text(text)

    return damage


DAMAGES = [
    ("stanc", truncated, "stanc has 3 bytes instead of 16"),
    ("stanc", edited, "stanc has other contents"),
    ("stanc", os.unlink, "stanc is missing"),
    ("stanc", not_executable, "stanc cannot be run"),
    ("stanc", writable_by_all, "stanc can"),
    ("stanc", a_folder, "stanc is not a file"),
    ("lib/libtbb.so", truncated, "lib/libtbb.so has 3 bytes"),
    ("lib", shutil.rmtree, "lib/libtbb.so is missing"),
    ("bin", leading_elsewhere, "bin leads elsewhere"),
    ("bin", os.unlink, "bin is missing"),
    *(
        (name, with_text(text), f"{name} (cannot be read|lists nothing|has)")
        for name in (MANIFEST, HEADERS)
        for text in ("", "[]", "{}", "3", "[[3]]", '{"stanc": 1}', '{"stanc": ["x"]}', "{" * 99999)
    ),
    (MANIFEST, os.unlink, f"{MANIFEST} cannot be read"),
    (HEADERS, os.unlink, f"{HEADERS} is missing"),
]


@pytest.mark.parametrize(
    ("name", "damage", "message"), DAMAGES, ids=[f"{i}-{d[0]}" for i, d in enumerate(DAMAGES)]
)
def test_damage_is_found_and_named(folder, name, damage, message):
    damage(folder / name)
    for care in Care:
        import re

        assert re.match(message, find_damage(folder, care)), care


@pytest.mark.parametrize("damage", [truncated, edited, os.unlink], ids=lambda one: one.__name__)
def test_a_header_counts_where_something_is_compiled(folder, damage):
    damage(folder / "include" / "stan" / "a.hpp")
    assert find_damage(folder, Care.RUN) is None
    assert find_damage(folder, Care.COMPILE).startswith("include/stan/a.hpp ")
    assert find_damage(folder, Care.DIGESTS).startswith("include/stan/a.hpp ")


def test_contents_changed_in_silence_are_found_by_their_digests(folder):
    before = (folder / "stanc").stat()
    edited(folder / "stanc")
    os.utime(folder / "stanc", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert find_damage(folder, Care.COMPILE) is None
    assert find_damage(folder, Care.DIGESTS) == "stanc has other contents"


def test_a_copy_is_whole_and_gets_its_times_back(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy, symlinks=True, copy_function=shutil.copy)
    copied, original = copy / "stanc", folder / "stanc"
    assert copied.stat().st_mtime_ns != original.stat().st_mtime_ns
    assert find_damage(copy, Care.COMPILE) is None
    assert copied.stat().st_mtime_ns == original.stat().st_mtime_ns
