"""The cache must belong to the user, or it is not used."""

import os
from pathlib import Path

import pytest

from pyflowers.errors import ToolchainError
from pyflowers.toolchain import find_cmdstan
from pyflowers.toolchain.cache import appearing, cache_dir, is_own, locked

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("PYFLOWERS_CACHE", str(folder))
    folder.mkdir(mode=0o700)
    return folder


def test_a_cache_of_ones_own_is_used(cache):
    assert cache_dir() == cache
    cache.chmod(0o755)
    assert cache_dir() == cache


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_cache_that_others_can_write_is_refused_with_the_remedy(cache, mode):
    cache.chmod(mode)
    with pytest.raises(ToolchainError, match=f"chmod -R go-w {cache}, or set PYFLOWERS_CACHE"):
        find_cmdstan("embedded")
    assert list(cache.iterdir()) == []


@root_only
def test_a_cache_of_another_user_is_refused_with_the_remedy(cache):
    os.chown(cache, 12345, 12345)
    with pytest.raises(ToolchainError, match=r"belongs to another user .id 12345.* set PYFLOWERS"):
        find_cmdstan("embedded")
    assert list(cache.iterdir()) == []


@root_only
def test_a_lock_of_another_user_is_refused(cache):
    lock = cache / ".thing.lock"
    lock.touch()
    os.chown(lock, 12345, 12345)
    with (
        pytest.raises(ToolchainError, match=r"\.thing\.lock: the cache belongs"),
        locked(cache / "thing"),
    ):
        pass


@root_only
def test_a_file_of_another_user_is_not_ours(cache):
    file = cache / "stanc"
    file.touch(mode=0o644)
    assert is_own(file)
    os.chown(file, 12345, 12345)
    assert not is_own(file)


def test_what_is_made_is_closed_to_others_whatever_the_mask(cache):
    before = os.umask(0)
    try:
        folder = cache / "executables" / "thing"
        with locked(folder), appearing(folder) as new:
            (new / "file").touch()
    finally:
        os.umask(before)
    for path in (folder.parent, folder, folder.parent / ".thing.lock"):
        assert path.stat().st_mode & 0o022 == 0
    assert Path(folder, "file").is_file()


def test_a_cache_that_is_no_folder_is_refused(monkeypatch):
    monkeypatch.setenv("PYFLOWERS_CACHE", "/dev/null")
    with pytest.raises(ToolchainError, match="/dev/null: the cache must be a folder; set PYFL"):
        find_cmdstan("embedded")
