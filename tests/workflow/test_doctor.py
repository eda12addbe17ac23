"""The doctor reports defects instead of failing."""

import json

import pytest
from click.testing import CliRunner

from pyflowers.cli.main import cli
from pyflowers.engines.base import COMPILED_STAN
from pyflowers.errors import ToolchainError
from pyflowers.workflow import doctor


@pytest.mark.slow
def test_a_well_machine(executables):
    findings = {finding.name: finding for finding in doctor.examine()}
    assert all(finding.is_ok for finding in findings.values()), findings
    for name in ("python", "compiler", "cmdstan", "cache", "executables", "numpy", "fit"):
        assert name in findings
    assert "diagnostics pass" in findings["fit"].value
    assert "2." in findings["cmdstan"].value


def test_a_missing_compiler_is_a_finding_with_its_remedy(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    findings = list(doctor._guarded(doctor._toolchain))
    assert [finding.is_ok for finding in findings] == [False]
    assert "no-such-compiler is missing" in findings[0].value


def test_the_doctor_makes_no_cmdstan(monkeypatch):
    monkeypatch.setattr("pyflowers.toolchain.available_cmdstan", lambda: None)
    engines, finding = doctor._guarded(doctor._cmdstan)
    assert engines == ("engines", COMPILED_STAN, True)
    assert finding == ("cmdstan", "none yet; pyflowers setup builds one, with g++ and make", True)


def test_no_exception_ends_the_examination():
    def broken():
        raise RuntimeError("boom")
        yield

    (finding,) = doctor._guarded(broken)
    assert finding == ("broken", "RuntimeError: boom", False)

    def refused():
        raise ToolchainError("install g++")
        yield

    (finding,) = doctor._guarded(refused)
    assert finding == ("refused", "install g++", False)


def test_a_truncated_executable_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PYFLOWERS_CACHE", str(tmp_path))
    folder = tmp_path / "executables" / "iid_normal-0"
    folder.mkdir(parents=True)
    (folder / "iid_normal").write_bytes(b"half")
    (folder / "build.json").write_text(json.dumps({"sha256": "of the whole"}))
    findings = {finding.name: finding for finding in doctor._cache()}
    assert not findings["executables"].is_ok
    assert "iid_normal-0 broken" in findings["executables"].value


@pytest.mark.parametrize(("is_ok", "status"), [(True, 0), (False, 1)])
def test_the_command_says_so_in_its_exit_status(monkeypatch, is_ok, status):
    finding = doctor.Finding("compiler", "g++ 12", is_ok)
    monkeypatch.setattr(doctor, "examine", lambda: iter([finding]))
    found = CliRunner().invoke(cli, ["doctor"], standalone_mode=False)
    assert found.return_value == status
    assert "g++ 12" in found.output
