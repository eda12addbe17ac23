"""Results on disk: no file of the user's is lost, and an output is complete or absent."""

import hashlib
import json
import os
import random
import shutil
import signal
import stat
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic_fits import synthetic_fit, table

from pyflowers import storage
from pyflowers.cli.programs import EXECUTABLE
from pyflowers.cli.results import folder_kind
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.lectures import Lecture, Settings
from pyflowers.reports.page import KIND as REPORT
from pyflowers.reports.page import check_report
from pyflowers.storage import FolderKind, check_folder, new_file, new_folder, temporary_folder

THING = FolderKind("folder", "thing.json", "thing", lambda record: record.get("is") == "thing")
PAGE = '<html><meta name="generator" content="pyflowers">'
LECTURE = Lecture("small", "A small one", Settings(seed=7), ["One is 1."], {}, {})


@pytest.fixture(scope="module")
def run():
    return synthetic_fit("iid_normal", table(["a", "b"], 4), draws=20)


def write_thing(path, files):
    """Write a folder of small files."""
    with new_folder(path, THING) as new:
        for name, text in files.items():
            (new / name).parent.mkdir(exist_ok=True)
            (new / name).write_text(text)
        (new / "thing.json").write_text(json.dumps({"is": "thing"}))


def texts(folder):
    """Return the contents of a folder by relative path, without its record."""
    return {
        name: (folder / name).read_text()
        for name in storage.files_in(folder)
        if name != "thing.json"
    }


def unfinished(folder):
    return [path for path in folder.rglob("*") if "pyflowers-" in path.name]


# --- Earlier files are kept -----------------------------------------------------------------------


@pytest.mark.parametrize("path", ["runs/../results", "link", "results/.", "./results//"])
def test_a_path_is_resolved_before_it_is_checked(run, tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    Path("results").mkdir()
    Path("results/thesis.txt").write_text("years")
    Path("link").symlink_to("results")
    with pytest.raises(ConfigError, match=r"contains thesis\.txt, which no earlier run wrote"):
        run.save(Path(path))
    assert Path("results/thesis.txt").read_text() == "years"
    assert not Path("runs").exists()


@pytest.mark.parametrize("record", ["{}", "[]", "{", '{"format": 1}', '{"files": ["notes.md"]}'])
def test_a_run_json_alone_makes_no_run(run, tmp_path, record):
    (tmp_path / "run.json").write_text(record)
    (tmp_path / "notes.md").write_text("mine")
    with pytest.raises(ConfigError, match="which no earlier run wrote"):
        run.save(tmp_path)
    assert (tmp_path / "notes.md").read_text() == "mine"
    assert (tmp_path / "run.json").read_text() == record


@pytest.mark.quick
@pytest.mark.parametrize("name", ["notes.md", "plots/mine.png", "photos/rose.jpg", ".hidden"])
def test_a_foreign_file_in_a_run_is_named(run, tmp_path, name):
    folder = run.save(tmp_path / "run")
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    with pytest.raises(ConfigError, match=f"contains {name}, which no earlier run wrote"):
        run.save(folder)
    assert path.read_text() == "mine"
    path.unlink()
    if path.parent.name == "photos":
        path.parent.rmdir()
    run.save(folder)


def test_a_link_in_place_of_a_file_is_foreign(run, tmp_path):
    folder = run.save(tmp_path / "run")
    (tmp_path / "big").mkdir()
    (folder / "draws.nc").rename(tmp_path / "big" / "draws.nc")
    (folder / "draws.nc").symlink_to(tmp_path / "big" / "draws.nc")
    with pytest.raises(ConfigError, match=r"contains draws\.nc"):
        run.save(folder)
    assert (tmp_path / "big" / "draws.nc").stat().st_size > 0


def test_the_working_folder_is_not_replaced(run, tmp_path, monkeypatch):
    folder = run.save(tmp_path / "run")
    for here in (folder, folder / "plots"):
        monkeypatch.chdir(here)
        with pytest.raises(ConfigError, match="it is or contains the working folder"):
            run.save(folder)
    Fit.load(folder)
    with pytest.raises(ConfigError, match="cannot be replaced, because it is a mount point"):
        check_folder("/dev", THING)


def test_a_folder_of_two_kinds_is_known_by_its_inner_one(run, tmp_path):
    def write(out):
        with new_folder(out, folder_kind("comparison")) as new:
            run.save(new / "nuts")
            (new / "table.csv").write_text("a\n")
            (new / "comparison.json").write_text('{"kind": "comparison", "seed": 1}')

    write(tmp_path / "out")
    # The user may rewrite the inner run separately, with plots.
    from matplotlib.figure import Figure

    run.save(tmp_path / "out" / "nuts", {"mine.png": Figure(figsize=(1, 1))})
    write(tmp_path / "out")
    (tmp_path / "out" / "nuts" / "notes.md").write_text("mine")
    with pytest.raises(ConfigError, match=r"contains nuts/notes\.md"):
        write(tmp_path / "out")


def test_a_record_that_does_not_state_its_kind_is_not_overwritten(tmp_path):
    (tmp_path / "comparison.json").write_text('{"comparison": "m", "seed": 1, "files": []}')
    with pytest.raises(ConfigError, match=r"contains comparison\.json, which no earlier compar"):
        check_folder(tmp_path, folder_kind("comparison"))


def test_a_foreign_table_is_not_overwritten(tmp_path):
    (tmp_path / "table.csv").write_text("mine")
    with pytest.raises(ConfigError, match=r"contains table\.csv, which no earlier comparison"):
        check_folder(tmp_path, folder_kind("comparison"))


@pytest.mark.parametrize("content", ["", "{}", "<html>mine</html>"])
def test_a_report_replaces_reports_only(tmp_path, content):
    path = tmp_path / "run.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match="already exists, but is not one that pyflowers wrote"):
        check_report(path)
    path.write_text(PAGE)
    link = tmp_path / "link.html"
    link.symlink_to(path)
    with new_file(link, REPORT) as new:
        new.write_text(PAGE + "new")
    assert link.is_symlink()
    assert path.read_text() == PAGE + "new"


def test_a_report_does_not_replace_what_came_while_it_was_made(tmp_path):
    path = tmp_path / "r.html"

    def late_file():
        with new_file(path, REPORT) as new:
            new.write_text(PAGE)
            path.write_text("mine")

    with pytest.raises(ConfigError, match="already exists"):
        late_file()
    assert path.read_text() == "mine"
    folder = tmp_path / "thing"
    write_thing(folder, {"a": "old"})

    def late_notes():
        with new_folder(folder, THING) as new:
            (new / "thing.json").write_text('{"is": "thing"}')
            (folder / "notes.md").write_text("mine")

    with pytest.raises(ConfigError, match=r"contains notes\.md"):
        late_notes()
    assert texts(folder) == {"a": "old", "notes.md": "mine"}
    assert not unfinished(tmp_path)


def special_files(folder):
    os.mkfifo(folder / "pipe")
    (folder / "file").write_text("mine")
    (folder / "dir").mkdir()
    (folder / "round").symlink_to("round")
    return {
        "/dev/null": "is a device",
        str(folder / "pipe"): "is a pipe",
        str(folder / "round"): "its links form a loop",
        str(folder / "file" / "below"): r"cannot be written \(.*file is a file\)",
        str(folder / ("x" * 300)): "File name too long",
        "a\0b": "is not a path",
        "/proc/nowhere": "cannot be written",
    }


def test_what_is_no_place_for_a_result_is_said_before_the_work(tmp_path):
    for path, message in special_files(tmp_path).items():
        with pytest.raises(ConfigError, match=message):
            check_folder(path, THING)
        with pytest.raises(ConfigError, match=message):
            check_report(path)
    with pytest.raises(ConfigError, match="is a file; name a folder"):
        check_folder(tmp_path / "file", THING)
    with pytest.raises(ConfigError, match="is a folder; name a file"):
        check_report(tmp_path / "dir")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    assert not unfinished(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused_before_the_work(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(ConfigError, match="cannot be written"):
        check_folder(tmp_path / "new", THING)
    tmp_path.chmod(0o755)


# --- Kills ----------------------------------------------------------------------------------------

_FILE_EVENTS = ("open", "os.", "shutil.", "ctypes.")


def die_after(num_events, function):
    """Call a function in a fork, which is killed after `num_events` file operations.

    Return whether it was killed; it may end earlier.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about forking with NumPy's threads
        child = os.fork()
    if child == 0:
        count = 0

        def hook(event, _):
            nonlocal count
            if event.startswith(_FILE_EVENTS) and event != "os.kill":
                count += 1
                if count > num_events:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(hook)
            function()
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


OLD = {"a": "old", "b": "old", "gone/c": "old"}
NEW = {"a": "new", "b": "new", "fresh/d": "new"}


def test_a_kill_at_any_moment_leaves_the_old_or_the_new(tmp_path):
    target = tmp_path / "thing"
    outcomes = []
    for num_events in range(10_000):
        write_thing(target, OLD)
        killed = die_after(num_events, lambda: write_thing(target, NEW))
        # The next command starts with this step, which restores what the kill left unfinished.
        check_folder(target, THING)
        assert texts(target) in (OLD, NEW)
        assert (target / "thing.json").is_file()
        assert not unfinished(tmp_path)
        outcomes.append(texts(target) == NEW)
        if not killed:
            break
    assert len(outcomes) > 50
    assert not outcomes[0]
    assert outcomes[-1]
    assert outcomes == sorted(outcomes)


def test_a_kill_at_any_moment_leaves_the_old_or_the_new_file(tmp_path):
    target = tmp_path / "r.html"

    def write():
        with new_file(target, REPORT) as new:
            new.write_text(PAGE + "new")

    for num_events in range(10_000):
        target.write_text(PAGE)
        killed = die_after(num_events, write)
        assert target.read_text() in (PAGE, PAGE + "new")
        check_report(target)
        assert not unfinished(tmp_path)
        if not killed:
            break
    assert target.read_text() == PAGE + "new"


def test_reading_finds_the_run_that_a_kill_left_aside(run, tmp_path):
    folder = run.save(tmp_path / "run")
    real = Path.rename

    def killed_between(path, goal):
        real(path, goal)
        if Path(goal).parent.name == "old":
            os.kill(os.getpid(), signal.SIGKILL)

    def save():
        Path.rename = killed_between
        run.save(folder)

    assert die_after(10**9, save)
    assert not folder.exists()
    Fit.load(folder)
    assert not unfinished(tmp_path)


def test_what_a_living_process_writes_is_left_alone(tmp_path):
    with storage.staging(tmp_path) as aside:
        (aside / "new").mkdir()
        write_thing(tmp_path / "thing", NEW)
        assert (aside / "new").is_dir()
        assert storage.leftovers(tmp_path) == [aside]
        assert storage.clear_leftover(aside) == "in use"
    assert not unfinished(tmp_path)


@pytest.mark.parametrize("name", [".pyflowers-notes", ".pyflowers-0123abcd.tmp"])
def test_a_folder_of_the_user_that_looks_like_a_leftover_is_kept(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "notes.md").write_text("mine")
    write_thing(tmp_path / "thing", NEW)
    assert (tmp_path / name / "notes.md").read_text() == "mine"


def test_the_temporary_folder_of_a_killed_process_goes_with_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "pyflowers-mine").mkdir()

    def work():
        with temporary_folder() as folder:
            (folder / "half").write_text("x" * 1000)
            os.kill(os.getpid(), signal.SIGKILL)

    assert die_after(10**9, work)
    assert len(list(tmp_path.iterdir())) == 2
    with temporary_folder() as folder:
        assert {path.name for path in tmp_path.iterdir()} == {"pyflowers-mine", folder.parent.name}
    assert [path.name for path in tmp_path.iterdir()] == ["pyflowers-mine"]


def test_an_error_while_writing_leaves_what_was_there(tmp_path):
    write_thing(tmp_path / "thing", OLD)
    with pytest.raises(ConfigError, match="No space left"), new_folder(tmp_path / "thing", THING):
        raise OSError(28, "No space left on device")
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "thing", THING):
        raise KeyboardInterrupt
    assert texts(tmp_path / "thing") == OLD
    assert not unfinished(tmp_path)


# --- Staging folders that pyflowers did not make --------------------------------------------------


def staging_folder(parent, mode=0o700):
    """Return a new staging folder as a killed process leaves it, with the earlier result in it."""
    folder = parent / ".pyflowers-0123abcd.tmp"
    (folder / "old" / "r").mkdir(parents=True)
    (folder / "old" / "r" / "a").write_text("old")
    (folder / "own.json").write_text('["a"]')
    (folder / "lock").touch()
    folder.chmod(mode)
    return folder


def with_link(name, goal="victim"):
    def make(folder, victim):
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.symlink_to(victim if goal == "victim" else victim / goal)

    return make


def with_pipe(name):
    def make(folder, victim):
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return make


def old_is_a_file(folder, victim):
    shutil.rmtree(folder / "old")
    (folder / "old").write_text("mine")


def old_is_a_relative_link(folder, victim):
    shutil.rmtree(folder / "old")
    (folder / "old").symlink_to("../../victim")


def file_in_old(folder, victim):
    (folder / "old" / "notes").write_text("mine")


def hard_link_in_old(folder, victim):
    (folder / "old" / "key").hardlink_to(victim / "key")


def own_is_a_folder(folder, victim):
    (folder / "own.json").unlink()
    (folder / "own.json").mkdir()


def whole_is_a_link(folder, victim):
    real = folder.rename(folder.parent / "real")
    folder.symlink_to(real)


FOREIGN = {
    "old is a link": with_link("old"),
    "old is a relative link": old_is_a_relative_link,
    "a link in old": with_link("old/more"),
    "a link to a file in old": with_link("old/more", "key"),
    "a link for the result": with_link("old/r"),
    "a broken link in old": with_link("old/more", "nowhere"),
    "new is a link": with_link("new"),
    "new is a link to a file": with_link("new", "key"),
    "gone is a link": with_link("gone"),
    "lock is a link": with_link("lock", "key"),
    "own.json is a link": with_link("own.json", "key"),
    "the lock is a pipe": with_pipe("lock"),
    "own.json is a pipe": with_pipe("own.json"),
    "new is a pipe": with_pipe("new"),
    "a pipe in old": with_pipe("old/pipe"),
    "old is a file": old_is_a_file,
    "a file in old": file_in_old,
    "a hard link in old": hard_link_in_old,
    "own.json is a folder": own_is_a_folder,
    "the folder is a link": whole_is_a_link,
    "others can enter": lambda folder, victim: folder.chmod(0o755),
    "the group can write": lambda folder, victim: folder.chmod(0o770),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_staging_folder_with_other_parts_is_left_alone(tmp_path, case):
    victim, work = tmp_path / "victim", tmp_path / "work"
    victim.mkdir()
    work.mkdir()
    (victim / "key").write_text("secret")
    folder = staging_folder(work)
    FOREIGN[case](folder, victim)

    def state():
        found = sorted(path for path in tmp_path.rglob("*") if "thing" not in path.parts)
        return [(path, path.lstat().st_ino, path.lstat().st_mode) for path in found]

    before = state()
    write_thing(work / "thing", NEW)
    storage.recover(work)
    assert not storage.leftovers(work)
    assert state() == before
    assert (victim / "key").read_text() == "secret"


def test_a_staging_folder_of_our_own_parts_is_recovered(tmp_path):
    """The control: without those changes, the same folder is put back."""
    staging_folder(tmp_path)
    storage.recover(tmp_path)
    assert (tmp_path / "r" / "a").read_text() == "old"
    assert not unfinished(tmp_path)


@pytest.mark.parametrize(
    "content", ["", "{", "3", "{}", '{"a": 1}', "[1, 2]", "[[]]", "\0\0", "[" * 100_000, None]
)
def test_a_list_that_a_power_failure_emptied_makes_nothing_ours(tmp_path, content):
    folder = staging_folder(tmp_path)
    (tmp_path / "r").mkdir()
    if content is None:
        (folder / "own.json").unlink()
    else:
        (folder / "own.json").write_text(content)
    write_thing(tmp_path / "thing", NEW)
    assert storage.leftovers(tmp_path) == [folder]
    reason = storage.clear_leftover(folder)
    assert reason == "kept, because it contains a, which pyflowers did not write"
    assert (folder / "old" / "r" / "a").read_text() == "old"
    (tmp_path / "r").rmdir()
    assert not storage.clear_leftover(folder)
    assert (tmp_path / "r" / "a").read_text() == "old"


def test_files_reach_the_disk_before_they_reach_their_place(run, tmp_path, monkeypatch):
    """A power failure after a rename must not leave an empty file, so files are flushed before."""
    events, fsync, rename = [], os.fsync, Path.rename

    def flushed(descriptor):
        events.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    def renamed(path, goal):
        events.append(f"to {Path(goal).name}")
        return rename(path, goal)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "rename", renamed)
    run.save(tmp_path / "run")
    at = events.index("to run")
    written = {"draws.nc", "summary.csv", "diagnostics.json", "run.json", "plots", "new"}
    assert written <= set(events[:at])
    assert events[at + 1] == tmp_path.name
    events.clear()
    run.save(tmp_path / "run")
    assert written | {"own.json"} <= set(events[: events.index("to run")])
    with new_file(tmp_path / "r.html", REPORT) as new:
        new.write_text(PAGE)
        events.clear()
    assert events == ["new"]


def test_a_record_lists_the_digest_of_each_file(tmp_path):
    write_thing(tmp_path / "thing", NEW)
    record = json.loads((tmp_path / "thing" / "thing.json").read_text())
    assert set(record["files"]) == {*NEW, "thing.json"}
    for name in NEW:
        content = (tmp_path / "thing" / name).read_bytes()
        assert record["files"][name] == hashlib.sha256(content).hexdigest()
    own = record["files"]["thing.json"]
    assert own == storage.record_digest(record, "thing.json")
    assert own != storage.record_digest({**record, "is": "other"}, "thing.json")
    for files in (list(NEW), dict.fromkeys(NEW, ""), {"a": 1, "b": 2, **NEW}):
        record["files"] = files
        (tmp_path / "thing" / "thing.json").write_text(json.dumps(record))
        assert THING.files(tmp_path / "thing") >= set(NEW)
    for files in (3, "ab", None, [1], ["a", 2]):
        record["files"] = files
        (tmp_path / "thing" / "thing.json").write_text(json.dumps(record))
        assert not THING.files(tmp_path / "thing") & set(NEW)


@pytest.mark.parametrize("kind", ["pipe", "device", "huge", "link", "folder"])
def test_a_record_that_is_no_ordinary_file_is_empty(tmp_path, kind):
    path = tmp_path / "thing.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path = Path("/dev/zero")
    elif kind == "huge":
        path.touch()
        os.truncate(path, 10**12)
    elif kind == "link":
        (tmp_path / "goal").write_text('{"is": "thing"}')
        path.symlink_to(tmp_path / "goal")
    else:
        path.mkdir()
    assert storage.read_json(path) == {}


# --- Any tree, any path, every output -------------------------------------------------------------

NAMES = ("run", "plots", "nuts", "draws.nc", "run.json", "notes.md", "table.csv", "results.json")
CONTENTS = ("", "{}", '{"lecture": "small"}', '{"format": 1, "model": "m"}', "mine", "<html>")


def save_run(run, path):
    run.save(Path(path))


def save_comparison(run, path):
    with new_folder(path, folder_kind("comparison")) as new:
        run.save(new / "nuts")
        (new / "table.csv").write_text("a\n")
        (new / "comparison.json").write_text('{"kind": "comparison", "seed": 1}')


def save_lecture(run, path):
    LECTURE.save(path)


def save_report(run, path):
    with new_file(path, REPORT) as new:
        new.write_text(PAGE)


def save_executable(run, path):
    with new_file(path, EXECUTABLE) as new:
        new.write_bytes(b"\x7fELF stan_version_major")


WRITERS = (save_run, save_comparison, save_lecture, save_report, save_executable)


def snapshot(root):
    """Return everything below a folder: links, folders, and files with their contents."""
    found = {}
    for folder, folders, files in os.walk(root):
        for each in (*folders, *files):
            path = Path(folder, each)
            kind = "folder" if path.is_dir() else "file"
            if path.is_symlink():
                found[path] = ("link", path.readlink())
            else:
                found[path] = (kind, path.read_bytes() if kind == "file" else b"")
    return found


def any_path(rng, root):
    """Return an existing path, its folder, or any other path."""
    choice = rng.random()
    if choice < 0.3:
        return root / "/".join(rng.choices((*NAMES, ".."), k=rng.randint(1, 3)))
    path = rng.choice(sorted(snapshot(root)) or [root])
    return path if choice < 0.65 else path.parent


def do_something(rng, root):
    """Act like a user: create a file, a folder or a link, or replace a file with a link."""
    kind, path = rng.choice(("file", "file", "folder", "link")), any_path(rng, root)
    if rng.random() < 0.5:
        path = path / rng.choice(NAMES)
    with suppress(OSError, RuntimeError):
        if not path.parent.resolve().is_relative_to(root):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "link":
            path.unlink(missing_ok=True)
            path.symlink_to(rng.choice((root, "..", ".", *NAMES)))
        elif kind == "folder":
            path.mkdir()
        elif not os.path.lexists(path):
            path.write_text(rng.choice(CONTENTS))


@pytest.mark.slow
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_file_that_pyflowers_did_not_write_is_ever_changed(
    run, tmp_path_factory, monkeypatch, seed
):
    rng = random.Random(seed)
    top = tmp_path_factory.mktemp("tree").resolve()
    root = top / "a" / "b" / "c" / "d"
    root.mkdir(parents=True)
    mine = {}
    for _ in range(rng.randint(4, 16)):
        monkeypatch.chdir(rng.choice([root, *(p for p in snapshot(root) if p.is_dir())]))
        before = snapshot(top)
        if rng.random() < 0.5:
            do_something(rng, root)
            now = snapshot(top)
            mine |= {path: state for path, state in now.items() if before.get(path) != state}
            mine = {path: now[path] for path in mine if path in now}  # those that still exist
        else:
            path = any_path(rng, root)
            with suppress(ConfigError):
                rng.choice(WRITERS)(run, path if rng.random() < 0.5 else os.path.relpath(path))
        after = snapshot(top)
        changed = [path for path, state in mine.items() if after.get(path) != state]
        assert not changed
        assert not unfinished(top)
    monkeypatch.chdir("/")


def test_the_property_fails_for_a_writer_that_destroys(run, tmp_path, monkeypatch):
    """Negative control: the defect of the previous version is detected."""

    def destroy(folder, kind):
        shutil.rmtree(folder, ignore_errors=True)
        return Path(folder)

    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.md").write_text("mine")
    before = snapshot(tmp_path)
    monkeypatch.setattr(storage, "check_folder", destroy)
    save_run(run, tmp_path / "run")
    after = snapshot(tmp_path)
    assert [path.name for path, state in before.items() if after.get(path) != state] == ["notes.md"]


# --- Concurrent changes ---------------------------------------------------------------------------


def late(function, monkeypatch, folder):
    """Call a function while the user adds a note between the last check and the renames."""
    real = storage.put_in_place

    def put(aside, target, own):
        own = list(own)
        (folder / "notes.md").write_text("mine")
        real(aside, target, own)

    monkeypatch.setattr(storage, "put_in_place", put)
    function()


def test_a_file_that_comes_at_the_last_moment_is_in_the_new_folder(tmp_path, monkeypatch):
    write_thing(tmp_path / "thing", OLD)
    late(lambda: write_thing(tmp_path / "thing", NEW), monkeypatch, tmp_path / "thing")
    assert texts(tmp_path / "thing") == {**NEW, "notes.md": "mine"}
    assert not unfinished(tmp_path)


@pytest.mark.slow
def test_a_file_that_comes_at_the_last_moment_outlives_a_kill(tmp_path, monkeypatch):
    for num_events in range(10_000):
        folder = tmp_path / str(num_events)
        write_thing(folder / "thing", OLD)
        killed = die_after(
            num_events,
            lambda folder=folder: late(
                lambda: write_thing(folder / "thing", NEW), monkeypatch, folder / "thing"
            ),
        )
        storage.recover(folder)
        notes = [path.read_text() for path in folder.rglob("notes.md")]
        assert notes in ([], ["mine"])
        assert notes or (folder / "thing" / "a").read_text() == "old"
        if not killed:
            break
    assert (folder / "thing" / "notes.md").read_text() == "mine"


@pytest.mark.slow
def test_what_a_kill_half_removed_does_not_come_back(tmp_path):
    """A run that was replaced is not put back when the new one has been moved away."""
    for num_events in range(10_000):
        folder = tmp_path / str(num_events)
        write_thing(folder / "thing", OLD)
        killed = die_after(num_events, lambda folder=folder: write_thing(folder / "thing", NEW))
        if (folder / "thing").exists() and texts(folder / "thing") == NEW:
            (folder / "thing").rename(folder / "moved")
            storage.recover(folder)
            assert not (folder / "thing").exists() or texts(folder / "thing") == OLD
        if not killed:
            break


def test_a_staging_folder_that_another_process_takes_is_made_again(tmp_path, monkeypatch):
    taken, real = [], storage._lock

    def lock(folder):
        if not taken:
            taken.append(folder)
            raise BlockingIOError
        return real(folder)

    monkeypatch.setattr(storage, "_lock", lock)
    with storage.staging(tmp_path) as aside:
        assert aside != taken[0]
        assert aside.is_dir()
