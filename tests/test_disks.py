"""If a disk is full, read-only or gone, one sentence names the path; no partial files are left."""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress

import pytest
from synthetic_fits import synthetic_fit, table
from test_bad_inputs import complaint, end_of, written

from pyflowers import storage
from pyflowers.errors import CompileError, ConfigError, FitError
from pyflowers.fits.fit import Fit
from pyflowers.fits.sampling import Prepared
from pyflowers.storage import DiskError, naming, temporary_folder

STANLI = ("--engine", "stanli", "--seed", "1", "--chains", "1", "--warmup", "50", "--draws", "50")
CMDSTAN = ("--cmdstan", "embedded", *STANLI[2:])
PROGRAM = "parameters { real x; } model { x ~ normal(0, 1); }\n"


@pytest.fixture
def disk(tmp_path):
    """Mount a small disk; if that is not allowed, the tests are skipped."""
    mounted = []

    def mount(size="300k", name="disk"):
        folder = tmp_path / name
        folder.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", folder],
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            pytest.skip("no disks can be mounted here")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", folder], check=True)


def read_only(folder):
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)


def fill(folder):
    """Fill the disk completely."""
    with suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


@pytest.fixture
def temporary(monkeypatch):
    """Set TMPDIR to another folder."""

    def use(folder):
        monkeypatch.setenv("TMPDIR", str(folder))
        monkeypatch.setattr(tempfile, "tempdir", None)

    return use


CACHES = pytest.mark.parametrize("variable", ["PYFLOWERS_CACHE", "HOME"])


def cache_at(folder, variable, monkeypatch):
    """Put the cache into a folder, by PYFLOWERS_CACHE or as the user's home."""
    monkeypatch.delenv("PYFLOWERS_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv(variable, str(folder))


def said_of(words, path, *texts):
    """Check that a command line ends in one sentence with a path; return the sentence."""
    status, output = end_of([str(word) for word in words])
    assert (complaint(status, output), status) == ("", 1), output
    line = output.strip().splitlines()[-1]
    for text in (str(path), *texts):
        assert text in line, line
    return line


# --- Full -----------------------------------------------------------------------------------------


def test_a_full_disk_for_a_run(disk):
    full = disk("60k")
    said_of(("fit", "iid_normal", *STANLI, "--out", full / "run"), full / "run", "No space left")
    assert list(full.iterdir()) == []


def test_a_full_disk_leaves_the_run_before(disk, tmp_path):
    small = disk("1500k")
    fit = synthetic_fit("multilevel_normal", table(["a", "b", "c"], 4), draws=20)
    fit.save(small / "run")
    before = written(small)
    fill(small)
    large = synthetic_fit("multilevel_normal", table(["a", "b", "c"], 4), draws=2000)
    with pytest.raises(ConfigError, match=f"{small}/run cannot be written"):
        large.save(small / "run")
    (small / "filler").unlink()
    assert written(small) == before
    Fit.load(small / "run")


def test_a_full_disk_for_a_report(disk, tmp_path):
    fit = synthetic_fit("multilevel_normal", table(["a", "b", "c"], 4), draws=20)
    full = disk("40k")
    from pyflowers.reports import report

    with pytest.raises(ConfigError, match=f"{full}/r.html cannot be written"):
        report([fit], full / "r.html")
    assert list(full.iterdir()) == []


def test_a_full_disk_for_temporary_files(disk, temporary, executables, tmp_path):
    full = disk("200k")
    fill(full)
    # Python ignores a TMPDIR that is completely full, so leave a little space.
    os.truncate(full / "filler", 140 * 1024)
    temporary(full)
    words = ("fit", "multilevel_poisson", *CMDSTAN, "--draws", "2000", "--out", tmp_path / "run")
    # Run in a separate process: what a command leaves behind can be seen only after it has ended.
    command = [sys.executable, "-m", "pyflowers", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (complaint(done.returncode, done.stderr), done.returncode) == ("", 1), done.stderr
    line = done.stderr.strip().splitlines()[-1]
    for text in (str(full), "TMPDIR", "No space left"):
        assert text in line, line
    assert [path.name for path in full.iterdir()] == ["filler"]
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_full_disk_under_a_compilation(disk, temporary, cmdstan, tmp_path, monkeypatch):
    full = disk("400k")
    temporary(full)
    monkeypatch.setenv("PYFLOWERS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "x.stan").write_text(PROGRAM)
    words = ("compile", tmp_path / "x.stan", "--cmdstan", cmdstan.path)
    said_of(words, full, "TMPDIR", "No space left")
    assert list(full.iterdir()) == []


@pytest.mark.slow
@CACHES
def test_a_full_disk_for_the_cache(disk, cmdstan, tmp_path, monkeypatch, variable):
    full = disk("400k")
    cache_at(full, variable, monkeypatch)
    (tmp_path / "x.stan").write_text(PROGRAM)
    words = ("compile", tmp_path / "x.stan", "--cmdstan", cmdstan.path)
    said_of(words, full, "PYFLOWERS_CACHE", "No space left")
    assert not [path for path in full.rglob("*") if path.is_file() and path.suffix != ".lock"]


# --- Read-only ------------------------------------------------------------------------------------


def test_a_read_only_disk_for_a_run(disk):
    folder = disk()
    read_only(folder)
    words = ("fit", "iid_normal", "--cmdstan", "/nowhere", "--out", folder / "run")
    said_of(words, folder / "run", "Read-only file system")


def test_a_read_only_disk_for_temporary_files(disk, temporary, executables, tmp_path, monkeypatch):
    folder = disk()
    read_only(folder)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    words = ("fit", "iid_normal", *CMDSTAN, "--out", tmp_path / "run")
    said_of(words, folder, "TMPDIR", "Read-only file system")


@CACHES
def test_a_read_only_disk_for_the_cache(disk, cmdstan, tmp_path, monkeypatch, variable):
    folder = disk()
    read_only(folder)
    cache_at(folder, variable, monkeypatch)
    (tmp_path / "x.stan").write_text(PROGRAM)
    words = ("compile", tmp_path / "x.stan", "--cmdstan", cmdstan.path)
    said_of(words, folder, "PYFLOWERS_CACHE", "Read-only file system")


# --- Gone -----------------------------------------------------------------------------------------


def test_a_place_for_runs_that_vanishes_is_made_again(tmp_path, monkeypatch):
    def and_vanish(prepared, **options):
        shutil.rmtree(tmp_path / "results", ignore_errors=True)  # remedies are also sampled
        return sample(prepared, **options)

    sample = Prepared.sample
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(Prepared, "sample", and_vanish)
    words = ("fit", "iid_normal", *STANLI, "--out", tmp_path / "results" / "run")
    assert end_of([str(word) for word in words])[0] == 0
    Fit.load(tmp_path / "results" / "run")


def test_a_place_for_runs_that_becomes_a_file_is_said(tmp_path, monkeypatch):
    def and_change(prepared, **options):
        if (tmp_path / "results").is_dir():  # remedies are also sampled
            (tmp_path / "results").rmdir()
            (tmp_path / "results").write_text("mine")
        return sample(prepared, **options)

    sample = Prepared.sample
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(Prepared, "sample", and_change)
    words = ("fit", "iid_normal", *STANLI, "--out", tmp_path / "results" / "run")
    said_of(words, tmp_path / "results", "cannot be written")
    assert (tmp_path / "results").read_text() == "mine"


def test_temporary_files_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with (
        pytest.raises(DiskError, match=r"gone: temporary files .* \(No such file .*; free disk"),
        temporary_folder(),
    ):
        pass


def test_a_folder_for_temporary_files_that_vanishes(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))

    def vanish():
        with temporary_folder():
            shutil.rmtree(tmp_path / "temporary")
            raise FitError("Error during sampling:")

    with pytest.raises(DiskError, match="temporary: temporary files cannot be written there"):
        vanish()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@CACHES
def test_a_cache_that_vanishes_is_made_again(cmdstan, tmp_path, monkeypatch, variable):
    from pyflowers.toolchain import build

    place = tmp_path / "place"
    cache_at(place, variable, monkeypatch)
    make = build._make

    def and_vanish(*arguments, **how):
        shutil.rmtree(place)
        return make(*arguments, **how)

    monkeypatch.setattr(build, "_make", and_vanish)
    (tmp_path / "x.stan").write_text(PROGRAM)
    words = ("compile", tmp_path / "x.stan", "--cmdstan", cmdstan.path)
    said_of(words, place, "PYFLOWERS_CACHE")
    monkeypatch.setattr(build, "_make", make)
    assert end_of([str(word) for word in words])[0] == 0


def test_a_home_that_is_gone_is_not_needed_by_the_interpreter(tmp_path, monkeypatch):
    cache_at(tmp_path / "gone", "HOME", monkeypatch)
    words = ("fit", "iid_normal", *STANLI, "--out", tmp_path / "run")
    assert end_of([str(word) for word in words])[0] == 0
    Fit.load(tmp_path / "run")
    assert not (tmp_path / "gone").exists()


# --- Blaming a disk -------------------------------------------------------------------------------


def test_a_failure_is_blamed_on_a_disk_only_if_that_is_full(tmp_path, monkeypatch):
    with pytest.raises(CompileError, match="a mistake"), naming(tmp_path, "x", "y"):
        raise CompileError("a mistake")
    monkeypatch.setattr(storage, "_why_not", lambda folder: "No space left on device")
    with (
        pytest.raises(DiskError, match=r"x \(No space left on device\); y"),
        naming(tmp_path, "x", "y"),
    ):
        raise CompileError("a mistake")


def test_what_a_compiler_says_of_a_full_disk_is_believed(tmp_path):
    with (
        pytest.raises(DiskError, match=r"x \(No space left on device\); y"),
        naming(tmp_path, "x", "y"),
    ):
        raise CompileError("cc1plus: error writing to a.s: No space left on device")


def test_a_probe_leaves_nothing(tmp_path):
    assert storage._why_not(tmp_path) == ""
    assert list(tmp_path.iterdir()) == []
    assert storage._why_not(tmp_path / "gone") == "No such file or directory"
