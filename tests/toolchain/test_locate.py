"""Which CmdStan is used, and the error if none can be used."""

import platform

import pytest

from pyflowers.errors import ToolchainError
from pyflowers.toolchain import compiler, embedded, find_cmdstan


@pytest.fixture
def homes(monkeypatch, tmp_path):
    """An empty home without any CmdStan; building the embedded one is only recorded."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CMDSTAN", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    return tmp_path


def release(folder, version):
    (folder / "bin").mkdir(parents=True)
    (folder / "makefile").write_text(f"x\nCMDSTAN_VERSION := {version}\n")
    return folder


def test_the_order_is_option_variable_home_conda(homes, monkeypatch):
    conda = release(homes / "conda" / "bin" / "cmdstan", "2.34.1")
    monkeypatch.setenv("CONDA_PREFIX", str(homes / "conda"))
    assert find_cmdstan().path == conda
    release(homes / "home/.cmdstan/cmdstan-2.9.0", "2.9.0")
    release(homes / "home/.cmdstan/cmdstan-2.36.0-rc1", "2.36.0-rc1")
    newest = release(homes / "home/.cmdstan/cmdstan-2.36.0", "2.36.0")
    (homes / "home/.cmdstan/cmdstan-2.37.0").mkdir()  # a download that was interrupted
    assert find_cmdstan().path == newest
    variable = release(homes / "variable", "2.33.1")
    monkeypatch.setenv("CMDSTAN", str(variable))
    assert (find_cmdstan().path, find_cmdstan().origin) == (variable, "CMDSTAN")
    option = release(homes / "option ü", "2.35.0")
    assert find_cmdstan(option).path == option
    assert find_cmdstan(option).version == "2.35.0"


def test_a_folder_that_is_none_or_too_old(homes):
    with pytest.raises(ToolchainError, match="is not a CmdStan folder"):
        find_cmdstan(homes)
    release(homes / "old", "2.30.1")
    with pytest.raises(ToolchainError, match=r"2\.30\.1 in .* is older than 2\.33"):
        find_cmdstan(homes / "old")


def test_another_platform_is_pointed_to_the_official_cmdstan(monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Windows")
    with pytest.raises(ToolchainError, match=r"no embedded CmdStan for Windows.*setup --official"):
        embedded.install_embedded()


def test_another_wheel_than_the_pinned_one_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("PYFLOWERS_CACHE", str(tmp_path / "cache"))
    wheel = tmp_path / "httpstan-4.13.0-cp311.whl"
    wheel.write_bytes(b"not it")
    with pytest.raises(ToolchainError, match="SHA-256"):
        embedded.install_embedded(wheel)
    with pytest.raises(ToolchainError, match="no such file"):
        embedded.install_embedded(tmp_path / "absent.whl")
    assert not (tmp_path / "cache").exists()


def test_missing_tools_name_the_package_to_install(monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(
        ToolchainError, match=r"g\+\+ and make are missing.*apt-get install g\+\+ m"
    ):
        compiler.require_toolchain()
