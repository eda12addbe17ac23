"""The wheel of Stan from an index that serves several files of one version, tag and name."""

import hashlib
import os
import platform
import zipfile

import pytest

from pyflowers.errors import ToolchainError
from pyflowers.toolchain import embedded as stan

TAGS = (
    "manylinux2014_x86_64.manylinux_2_17_x86_64",
    "manylinux_2_17_x86_64.manylinux2014_x86_64",
)


@pytest.fixture
def wheels(tmp_path):
    """Make two wheels whose names differ in the order of their tags only."""
    files = []
    for tag in TAGS:
        name = f"httpstan-4.13.0-cp311-cp311-{tag}.whl"
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            metadata = "Metadata-Version: 2.1\nName: httpstan\nVersion: 4.13.0\n"
            archive.writestr("httpstan-4.13.0.dist-info/METADATA", metadata)
            wheel = f"Wheel-Version: 1.0\nTag: cp311-cp311-{tag}\n"
            archive.writestr("httpstan-4.13.0.dist-info/WHEEL", wheel)
            archive.writestr("httpstan-4.13.0.dist-info/RECORD", "")
        files.append(tmp_path / name)
    return files


def sha256(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


def serve(files, folder, monkeypatch):
    """Make a package index of `files`, in this order, the only one that pip sees."""
    page = folder / "simple" / "httpstan" / "index.html"
    page.parent.mkdir(parents=True)
    links = (f'<a href="{file.as_uri()}#sha256={sha256(file)}">{file.name}</a>' for file in files)
    page.write_text(f"<!DOCTYPE html><html><body>{' '.join(links)}</body></html>")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", (folder / "simple").as_uri())


@pytest.mark.parametrize("reverse", [False, True], ids=["one order", "the other"])
@pytest.mark.parametrize("pinned", [(0,), (1,), (0, 1)], ids=["first", "second", "both"])
def test_an_ambiguous_index_gives_a_pinned_wheel(wheels, pinned, reverse, tmp_path, monkeypatch):
    serve(wheels[::-1] if reverse else wheels, tmp_path, monkeypatch)
    wanted = stan.Pinned("manylinux2014_x86_64", tuple(sha256(wheels[i]) for i in pinned))
    target = tmp_path / "downloaded"
    target.mkdir()
    file = stan.download(wanted, target)
    stan.check_wheel(file, wanted)
    assert sha256(file) in wanted.digests


def test_an_index_without_the_pinned_wheel_is_refused(wheels, tmp_path, monkeypatch):
    serve(wheels, tmp_path, monkeypatch)
    target = tmp_path / "downloaded"
    target.mkdir()
    with pytest.raises(ToolchainError, match="pyflowers setup --wheel FILE"):
        stan.download(stan.Pinned("manylinux2014_x86_64", ("0" * 64,)), target)


def test_either_build_is_taken_from_a_file_and_no_other(wheels):
    both = stan.Pinned("manylinux2014_x86_64", tuple(map(sha256, wheels)))
    for file in wheels:
        stan.check_wheel(file, both)
    with pytest.raises(ToolchainError, match="its SHA-256 is"):
        stan.check_wheel(wheels[0], stan.Pinned(both.tag, both.digests[1:]))


@pytest.mark.parametrize(
    ("machine", "release", "tag", "num"),
    [
        (("Linux", "x86_64"), "", "manylinux2014_x86_64", 2),
        (("Darwin", "arm64"), "14.7.1", "macosx_14_0_arm64", 1),
        (("Darwin", "arm64"), "15.1", "macosx_15_0_arm64", 2),
        (("Darwin", "x86_64"), "14.7.1", "macosx_13_0_x86_64", 1),
    ],
)
def test_each_machine_has_its_wheels(machine, release, tag, num, monkeypatch):
    monkeypatch.setattr(platform, "mac_ver", lambda: (release, ("", "", ""), ""))
    pinned = stan.wheel_for(*machine)
    assert pinned.tag == tag
    assert len(set(pinned.digests)) == num


def test_a_machine_without_a_wheel_is_told_what_to_do():
    with pytest.raises(ToolchainError, match="setup --official"):
        stan.wheel_for("Linux", "aarch64")
