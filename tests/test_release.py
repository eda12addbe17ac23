"""The version has one source, pyproject.toml; the locked packages can be installed."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def releases() -> list[str]:
    """Return the headings of the releases in the changelog, newest first."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
    return [heading for heading in headings if heading != "[Unreleased]"]


def test_the_changelog_has_dated_notes_of_this_version():
    assert re.fullmatch(rf"\[{re.escape(VERSION)}\] - \d{{4}}-\d\d-\d\d", releases()[0])


def test_the_changelog_lists_what_a_user_notices():
    assert len((ROOT / "CHANGELOG.md").read_bytes()) <= 10_000


def test_the_readme_is_a_page():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 105


def test_the_citation_is_of_this_version():
    citation = dict(
        re.findall(
            r"^([\w-]+): (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    assert citation["version"] == VERSION
    assert releases()[0].endswith(citation["date-released"])
    assert f"version = {{{VERSION}}}" in (ROOT / "docs/help.md").read_text(encoding="utf-8")


def test_no_module_repeats_the_version():
    modules = (ROOT / "pyflowers").rglob("*.py")
    number = re.compile(rf"(?<![\d.]){re.escape(VERSION)}(?![\d.])")
    assert [path for path in modules if number.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.slow
def test_the_locked_packages_install_on_the_first_release_of_this_python(tmp_path):
    """Debian 12 has 3.11.2, on which a package that requires 3.11.5 cannot be installed."""
    version = "{}.{}".format(*sys.version_info)
    locks = sorted((ROOT / "locks" / version).glob("requirements*.lock"))
    assert len(locks) == 3
    dry_run = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    target = ["--no-deps", "--only-binary=:all:", f"--python-version={version}"]
    target.append(f"--target={tmp_path}")  # for pip before 23.1; nothing is written there
    files = [f"--requirement={lock}" for lock in locks]
    result = subprocess.run([*dry_run, *target, *files], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
