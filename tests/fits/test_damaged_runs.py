"""A damaged, exchanged or hostile run folder is one sentence or gives the same numbers."""

import hashlib
import json
import os
import random
import shutil
import signal
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from synthetic_fits import same, synthetic_fit, table, without_digests

import pyflowers
from pyflowers import Fit
from pyflowers.cli.main import cli
from pyflowers.errors import DataError, PyflowersError
from pyflowers.fits import folder as run_folder
from pyflowers.storage import record_digest


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run on a table, to be damaged."""
    fit = synthetic_fit("multilevel_poisson", table(["a", "b", "c"], 4), draws=50)
    return fit.save(tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture(scope="module")
def streamed(tmp_path_factory):
    """A run whose group quantities were summarised during sampling."""
    fit = pyflowers.fit(
        "multilevel_poisson", seed=1, engine="exact", draws=100, keep=["mu", "mu_plant[2]"]
    )
    return fit.save(tmp_path_factory.mktemp("streamed") / "run")


def signed(folder):
    """Compute the digests of a run again, as whoever forges a run can."""
    path = folder / "run.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    for name in ("draws.nc", "summary.csv"):
        record["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    record["files"]["run.json"] = record_digest(record, "run.json")
    path.write_text(json.dumps(record), encoding="utf-8")


def refusal(folder):
    """Return the message with which a run is refused; it is one sentence that names the folder."""
    with pytest.raises(DataError) as caught:
        Fit.load(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert str(folder) in message
    assert "; " in message  # the remedy
    return message


# --- Digests --------------------------------------------------------------------------------------


def flip(path, at=None):
    """Change one bit of a file."""
    raw = bytearray(path.read_bytes())
    at = len(raw) // 2 if at is None else at
    raw[at] ^= 1
    path.write_bytes(raw)


def test_one_flipped_bit_in_the_draws_is_refused(whole, tmp_path):
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    raw = (folder / "draws.nc").read_bytes()
    at = raw.index(Fit.load(whole).draws["mu"].tobytes()[:64])
    flip(folder / "draws.nc", at)
    message = refusal(folder)
    assert (
        "draws.nc: the draws cannot be read (it does not have the digest that run.json" in message
    )
    assert message.endswith("restore both from a copy, or refit the model")
    # The control: without digests, the change is not noticed.
    without_digests(folder)
    assert not same(Fit.load(folder), Fit.load(whole))


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("options", "seed", 2),
        ("options", "draws", 49),
        ("program", "reference", "/nowhere/p.stan"),
        ("program", "path", "/nowhere/p.stan"),
        ("priors", "mu_sd", 1.0),
        ("data", "source", "other.csv"),
        ("files", "plots", "x"),
        ("files", "more", ""),
        ("files", "run.json", "0" * 64),
    ],
)
def test_a_changed_record_is_refused(whole, tmp_path, section, key, value):
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    record = json.loads((folder / "run.json").read_text())
    record[section][key] = value
    (folder / "run.json").write_text(json.dumps(record))
    message = refusal(folder)
    assert "run.json was changed after the run was written" in message
    result = CliRunner().invoke(cli, ["contrast", str(folder), "mu"])
    assert result.exit_code == 1


@pytest.mark.parametrize("name", ["draws.nc", "run.json"])
def test_a_record_without_an_entry_for_a_file_is_refused(whole, tmp_path, name):
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    record = json.loads((folder / "run.json").read_text())
    del record["files"][name]
    if name != "run.json":
        record["files"]["run.json"] = record_digest(record, "run.json")
    (folder / "run.json").write_text(json.dumps(record))
    assert name in refusal(folder)


def test_the_layout_of_a_record_may_change(whole, tmp_path):
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record, indent=7))
    assert same(Fit.load(folder), Fit.load(whole))


def test_files_of_two_runs_are_refused(whole, tmp_path):
    other = synthetic_fit("multilevel_poisson", table(["a", "b", "c"], 4), draws=50, seed=2)
    other.save(tmp_path / "other")
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    shutil.copy(tmp_path / "other" / "draws.nc", folder)
    assert "draws.nc" in refusal(folder)
    shutil.copy(tmp_path / "other" / "run.json", folder)
    assert same(Fit.load(folder), other)


def test_a_run_of_an_early_version_loads(whole, streamed, tmp_path):
    for number, run in enumerate((whole, streamed)):
        folder = Path(shutil.copytree(run, tmp_path / str(number)))
        without_digests(folder)
        assert same(Fit.load(folder), Fit.load(run))
        again = Fit.load(folder).save(folder)
        assert isinstance(Fit.load(again).record.files, dict)


def test_zeroed_bytes_that_send_hdf5_into_a_loop_are_refused(whole, tmp_path):
    """HDF5 2.0 never leaves a heap of labels whose first entry has no size, even for SIGTERM."""
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    raw = bytearray((folder / "draws.nc").read_bytes())
    at = raw.index(b"GCOL") + 16
    raw[at : at + 73] = bytes(73)
    (folder / "draws.nc").write_bytes(raw)
    assert "draws.nc" in refusal(folder)


# --- Special files --------------------------------------------------------------------------------


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def link_to(goal):
    def replace(path):
        path.unlink()
        path.symlink_to(goal)

    return replace


def folder_instead(path):
    path.unlink()
    path.mkdir()


def huge(path):
    os.truncate(path, 10**12)  # a sparse file


@pytest.mark.parametrize("name", ["run.json", "draws.nc", "summary.csv"])
@pytest.mark.parametrize(
    ("replace", "reason"),
    [
        (pipe, "it is a pipe"),
        (link_to("/dev/zero"), "it is a device"),
        (link_to("/dev/tty"), "it is a device"),
        (link_to("loop"), "No such file"),
        (folder_instead, "it is a folder"),
        (huge, "it is larger than"),
    ],
    ids=["pipe", "zero", "terminal", "broken link", "folder", "huge"],
)
def test_a_special_file_is_refused_at_once(streamed, tmp_path, name, replace, reason):
    folder = Path(shutil.copytree(streamed, tmp_path / "run"))
    replace(folder / name)
    started = time.monotonic()
    assert reason in refusal(folder)
    assert time.monotonic() - started < 5


def test_a_link_to_the_same_file_elsewhere_is_followed(whole, tmp_path):
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    (folder / "draws.nc").rename(tmp_path / "big.nc")
    (folder / "draws.nc").symlink_to(tmp_path / "big.nc")
    assert same(Fit.load(folder), Fit.load(whole))


# --- HDF5 from a stranger, with digests that match ------------------------------------------------


def external_storage(file, secret):
    size = file["constant_data/plant"].shape[0]
    del file["constant_data/plant"]
    file["constant_data"].create_dataset(
        "plant", shape=(size,), dtype="S2", external=[(str(secret), 0, 2 * size)]
    )


def external_link(file, secret):
    with h5py.File(secret.with_suffix(".nc"), "w") as other:
        other["plant"] = np.array([b"a", b"b", b"c"])
    del file["constant_data/plant"]
    file["constant_data/plant"] = h5py.ExternalLink(str(secret.with_suffix(".nc")), "plant")


def external_link_in_a_subgroup(file, secret):
    file.create_group("constant_data/deep")["plant"] = h5py.ExternalLink(str(secret), "/")


def external_group(file, secret):
    file["more"] = h5py.ExternalLink(str(secret), "/")


def soft_link(file, secret):
    del file["posterior/sigma2"]
    file["posterior/sigma2"] = h5py.SoftLink("/posterior/mu")


def soft_group(file, secret):
    file["more"] = h5py.SoftLink("/posterior")


def virtual(file, secret):
    with h5py.File(secret.with_suffix(".nc"), "w") as other:
        other["mu"] = np.zeros((4, 50))
    layout = h5py.VirtualLayout((4, 50), float)
    layout[:] = h5py.VirtualSource(str(secret.with_suffix(".nc")), "mu", (4, 50))
    del file["posterior/mu"]
    file["posterior"].create_virtual_dataset("mu", layout)


def virtual_in_an_unused_group(file, secret):
    layout = h5py.VirtualLayout((4,), float)
    layout[:] = h5py.VirtualSource(str(secret), "x", (4,))
    file.create_group("extra").create_virtual_dataset("x", layout)


def sixteen_gigabytes(file, secret):
    file["posterior"].create_dataset("more", shape=(2**31,), dtype=float, chunks=(1024,))


def sixteen_gigabytes_of_draws(file, secret):
    del file["posterior/mu"]
    file["posterior"].create_dataset("mu", shape=(4, 2**29), dtype=float, chunks=(1, 1024))


def one_long_label(file, secret):
    labels = ["a" * 5000, *map(str, range(5000))]
    del file["constant_data/plant"]
    file["constant_data"].create_dataset("plant", data=labels, dtype=h5py.string_dtype())


def group_within_itself(file, secret):
    file["posterior/posterior"] = file["posterior"]


def named_type(file, secret):
    file["posterior/type"] = np.dtype("f8")


def draws_as(change):
    def apply(file, secret):
        values = change(file["posterior/mu"][...])
        del file["posterior/mu"]
        file["posterior/mu"] = values

    return apply


def set_to(name, change):
    def apply(file, secret):
        values = change(file[name][...])
        del file[name]
        file[name] = values

    return apply


HOSTILE = {
    "external storage": (external_storage, "stored in another file"),
    "external link": (external_link, "is a link"),
    "external link below": (external_link_in_a_subgroup, "is not a dataset"),
    "external group": (external_group, "is a link"),
    "soft link": (soft_link, "is a link"),
    "soft group": (soft_group, "is a link"),
    "virtual dataset": (virtual, "stored in another file"),
    "unused virtual dataset": (virtual_in_an_unused_group, "stored in another file"),
    "16 GB, unused": (sixteen_gigabytes, "cannot hold"),
    "16 GB of draws": (sixteen_gigabytes_of_draws, "cannot hold"),
    "one long label": (one_long_label, "would take"),
    "a cycle": (group_within_itself, "is not a dataset"),
    "a named type": (named_type, "is not a dataset"),
    "whole numbers": (draws_as(lambda mu: mu.astype(int)), "draws of mu have the wrong type"),
    "booleans": (draws_as(lambda mu: mu > 0), "draws of mu have the wrong type"),
    "text": (draws_as(lambda mu: mu.astype("S5")), "draws of mu have the wrong type"),
    "complex": (draws_as(lambda mu: mu + 1j), "draws of mu have the wrong type"),
    "a scalar": (draws_as(lambda mu: mu[0, 0]), "draws of mu have the shape"),
    "half the draws": (draws_as(lambda mu: mu[:, ::2]), "draws of mu have the shape"),
    "a chain less": (draws_as(lambda mu: mu[:3]), "draws of mu have the shape"),
    "a dimension more": (draws_as(lambda mu: mu[..., None]), "draws of mu have the shape"),
    "no draws": (draws_as(lambda mu: mu[:, :0]), "draws of mu have the shape"),
    "too many groups": (
        set_to("posterior/mu_plant", lambda its: np.concatenate([its, its], axis=2)),
        "draws of mu_plant have the shape (4, 50, 6), but the run needs (4, 50, 3)",
    ),
    "half the statistics": (
        set_to("sample_stats/energy", lambda its: its[:, ::2]),
        "values of energy__ have the shape",
    ),
    "statistics of text": (
        set_to("sample_stats/energy", lambda its: its.astype("S5")),
        "values of energy__ have the wrong type",
    ),
    "equal labels": (
        set_to("constant_data/plant", lambda its: np.array([b"a", b"a", b"c"])),
        "a label of plant occurs twice",
    ),
    "a row without a label": (
        set_to("constant_data/plant_index", lambda its: its + 1),
        "a row has no label of plant",
    ),
    "a row before the first label": (
        set_to("constant_data/plant_index", lambda its: its - 1),
        "a row has no label of plant",
    ),
    "fewer rows": (set_to("observed_data/y", lambda y: y[:5]), "the values of y have the shape"),
    "observed text": (
        set_to("observed_data/y", lambda y: y.astype("S3")),
        "the values of y have the wrong type",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_with_matching_digests_is_refused(whole, tmp_path, case):
    change, reason = HOSTILE[case]
    secret = tmp_path / "secret.txt"
    secret.write_text("PASSWORD")
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    with h5py.File(folder / "draws.nc", "a") as file:
        change(file, secret)
    signed(folder)
    message = refusal(folder)
    assert reason in message
    assert "PA" not in message
    assert message.endswith("refit the model")


def test_unused_variables_are_not_read(whole, tmp_path, monkeypatch):
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    with h5py.File(folder / "draws.nc", "a") as file:
        file["posterior/unused"] = np.zeros(3)
    signed(folder)
    read, real = [], h5py.Dataset.__getitem__

    def record(dataset, key):
        read.append(dataset.name)
        return real(dataset, key)

    monkeypatch.setattr(h5py.Dataset, "__getitem__", record)
    Fit.load(folder)
    assert "/posterior/mu" in read
    assert not {"/posterior/unused", "/log_likelihood/y", "/posterior/plant"} & set(read)


# --- The summary of a streamed run ----------------------------------------------------------------


def rewritten(change):
    def apply(path):
        changed = change(pd.read_csv(path, dtype=str))
        changed.to_csv(path, index=False)

    return apply


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (rewritten(lambda t: t.drop(columns="sd")), "the columns of the summary are"),
        (rewritten(lambda t: t.rename(columns={"sd": "sf"})), "the columns of the summary are"),
        (rewritten(lambda t: t.drop(columns="parameter")), "the columns of the summary are"),
        (rewritten(lambda t: t.rename(columns={"5%": "4%"})), "the columns of the summary are"),
        (rewritten(lambda t: pd.concat([t, t])), "more than one row, or none, for mu"),
        (rewritten(lambda t: t.assign(parameter=["", *t["parameter"][1:]])), "or none, for nan"),
        (rewritten(lambda t: t.assign(sd="x")), "the summary cannot be read"),
        (lambda path: path.write_bytes(b""), "the summary cannot be read"),
        (lambda path: path.write_bytes(b"\xff\0\xff"), "the summary cannot be read"),
        (lambda path: path.write_text('"'), "the summary cannot be read"),
    ],
)
def test_a_summary_of_another_form_is_refused(streamed, tmp_path, damage, reason):
    folder = Path(shutil.copytree(streamed, tmp_path / "run"))
    damage(folder / "summary.csv")
    assert "summary.csv: the summary cannot be read (it does not" in refusal(folder)
    signed(folder)
    message = refusal(folder)
    assert "summary.csv" in message
    assert reason in message


# --- Random damage --------------------------------------------------------------------------------


def damaged(raw, rng):
    """Return bytes with one kind of damage: a flipped bit, or a lost, zeroed or copied block."""
    if not raw:
        return b"x"
    at, size = rng.randrange(len(raw)), rng.choice([1, 8, 73, 512, 4096])
    kind = rng.choice(["bit", "zeros", "cut", "copy", "append", "drop"])
    if kind == "bit":
        return raw[:at] + bytes([raw[at] ^ (1 << rng.randrange(8))]) + raw[at + 1 :]
    if kind == "zeros":
        return raw[:at] + bytes(len(raw[at : at + size])) + raw[at + size :]
    if kind == "cut":
        return raw[:at]
    if kind == "copy":
        return raw[:at] + raw[at : at + size] + raw[at:]
    if kind == "append":
        return raw + rng.randbytes(size)
    return raw[:at] + raw[at + size :]


@pytest.mark.parametrize("num", [15, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["whole", "streamed"])
def test_damage_is_a_sentence_or_the_same_numbers(request, tmp_path, kind, num):
    run = request.getfixturevalue(kind)
    folder = Path(shutil.copytree(run, tmp_path / "run"))
    expected = Fit.load(run)
    summary = expected.summary()
    command, ends = ["contrast", str(folder), "mu", "--json"], (SystemExit, PyflowersError)
    answer = CliRunner().invoke(cli, command)
    assert answer.exit_code == 0
    refused = 0
    files = sorted(path for path in folder.iterdir() if path.is_file())
    assert len(files) == 4
    for path in files:
        raw, rng = path.read_bytes(), random.Random(f"{path.name} {num}")
        for trial in range(num):
            path.write_bytes(damaged(raw, rng))
            where = f"{path.name}, damage {trial}"
            message, found = "", None
            try:
                found = Fit.load(folder)
            except PyflowersError as error:
                message = str(error)
                refused += 1
            assert "\n" not in message, where
            if found is not None:
                assert same(found, expected), where
                assert found.record == expected.record, where
                pd.testing.assert_frame_equal(found.summary(), summary)
            if trial % 5 == 0:  # a command does the same
                result = CliRunner().invoke(cli, command)
                assert result.exit_code == 1 or result.output == answer.output, where
                assert result.exception is None or isinstance(result.exception, ends), where
        path.write_bytes(raw)
    assert refused > num  # the draws and the record at least


# --- Torn reads -----------------------------------------------------------------------------------


@contextmanager
def overwriting(folder, fits):
    """Replace a run by several others in turn, in another process, while the block runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about forking with NumPy's threads
        child = os.fork()
    if child == 0:
        try:
            while True:
                for fit in fits:
                    fit.save(folder, overwrite=True)
        finally:
            os._exit(1)
    try:
        yield
        assert os.waitpid(child, os.WNOHANG) == (0, 0)  # it did not fail
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.parametrize("seconds", [1.5, pytest.param(60, marks=pytest.mark.slow)])
def test_a_run_that_is_being_replaced_is_read_whole(tmp_path, seconds):
    data = table(["a", "b", "c"], 4)
    seeds = (1, 2, 3)
    fits = [synthetic_fit("iid_normal", data, draws=2000, seed=seed) for seed in seeds]
    folder = tmp_path / "run"
    for fit in fits:
        fit.save(folder, overwrite=True)
    seen = []
    with overwriting(folder, fits):
        until = time.monotonic() + seconds
        # A busy machine may give the other process no time within these seconds.
        while time.monotonic() < until or min(map(seen.count, seeds)) < 5:
            found = Fit.load(folder)
            assert same(found, fits[found.options.seed - 1])
            seen.append(found.options.seed)


def test_a_read_between_two_runs_is_repeated(whole, tmp_path, monkeypatch):
    """The record of one run is never combined with the draws of another."""
    other = synthetic_fit("multilevel_poisson", table(["a", "b", "c"], 4), draws=50, seed=2)
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    real, left = run_folder.read_record, [1]

    def then_replaced(path):
        record = real(path)
        if left:
            left.pop()
            other.save(folder, overwrite=True)
        return record

    monkeypatch.setattr(run_folder, "read_record", then_replaced)
    found = Fit.load(folder)
    assert found.options.seed == 2
    assert same(found, other)


def test_a_record_without_its_list_of_files_is_refused(streamed, tmp_path):
    folder = Path(shutil.copytree(streamed, tmp_path / "run"))
    values = json.loads((folder / "run.json").read_text())
    del values["files"]
    (folder / "run.json").write_text(json.dumps(values))
    with pytest.raises(DataError, match="was changed after the run was written"):
        Fit.load(folder)
