"""``pyflowers batch``: from a file to a batch and its exit status."""

import json
import re
import sys
import tracemalloc

import pytest

from pyflowers import Batch, ConfigError, PyflowersError
from pyflowers.batches.ledger import Ledger
from pyflowers.cli.main import main
from pyflowers.workflow.batch import import_kept, read_batch

NORMAL = """
models = ["normal.stan"]
repeats = 2
keep = ["summary", "draws:x"]
folder = "out"
[data]
files = ["sites/*.json"]
[sampler]
seed = 1
engine = "stanli"
chains = 2
warmup = 100
draws = 50
[[variants]]
name = "short"
[[variants]]
name = "long"
sampler = { draws = 60 }
"""


@pytest.fixture
def folder(normal, tmp_path):
    (tmp_path / "sites").mkdir()
    for i in range(2):
        (tmp_path / "sites" / f"s{i}.json").write_text(f'{{"m": {i}}}')
    (tmp_path / "b.toml").write_text(NORMAL)
    return tmp_path


def call(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(["batch", *map(str, words)])
    output = capsys.readouterr()
    return ended.value.code or 0, output.out, output.err


def test_all_combinations(folder):
    config, tasks = read_batch(folder / "b.toml")
    assert len(tasks) == len(list(tasks)) == 8
    names = [task.name for task in tasks]
    assert names[:3] == ["s0/short/0", "s0/short/1", "s0/long/0"]
    assert config.folder == folder / "out"
    assert {task.spec.draws for task in tasks} == {50, 60}


@pytest.mark.slow
def test_a_batch_its_status_and_its_failures(folder, capsys):
    code, out, err = call(capsys, folder / "b.toml", "--workers", 2)
    assert (code, err) == (0, "")
    assert "8 of 8 finished: " in out
    assert ", 0 failed (not running)" in out
    assert len(Batch(folder / "out").table("draws")) == 4 * 100 + 4 * 120
    (folder / "sites" / "s2.json").write_text('{"k": 1}')
    code, out, _ = call(capsys, folder / "b.toml", "--workers", 1)
    assert code == 3
    assert "12 of 12 finished: " in out
    assert ", 4 failed (not running)" in out
    assert "failed: s2/short/0: " in out
    assert "--retry-failed" in out
    assert call(capsys, "--status", folder / "out")[:2] == (0, out)
    Ledger(folder / "out").close()  # a run that ends before it has planned a task
    _, out, _ = call(capsys, "--status", folder / "out")
    assert "12 of 12 finished: " in out
    assert "12 of these tasks finished in an earlier run, and the last run ended before" in out


def test_doubtful_fits_are_counted_apart(folder, capsys):
    # An ESS of 200 is out of reach for 2 chains of 3 draws, and easy for 2 of 2,000.
    (folder / "b.toml").write_text(
        NORMAL.replace("warmup = 100\ndraws = 50", "warmup = 300\ndraws = 2000")
        .replace("draws = 60", "draws = 3, warmup = 3")
        .replace("repeats = 2", "repeats = 1")
    )
    (folder / "sites" / "s2.json").write_text('{"k": 1}')
    assert call(capsys, folder / "b.toml", "--workers", 1)[0] == 3
    (folder / "sites" / "s2.json").unlink()
    code, out, _ = call(capsys, folder / "b.toml", "--workers", 1)
    assert code == 0
    first, second, third, *_ = out.splitlines()
    assert first.endswith("out: 4 of 4 finished: 2 passed, 2 doubtful, 0 failed (not running)")
    assert "bulk ESS in 2" in second
    assert third.startswith("doubtful: s0/long: ")
    assert "--retry-failed" not in out
    assert call(capsys, "--status", folder / "out") == (0, out, "")
    assert call(capsys, folder / "b.toml", "--check")[0] == 3
    code, out, _ = call(capsys, "--status", folder / "out", "--check", "--json")
    assert code == 3
    found = json.loads(out)
    counts = ("total", "passed", "doubtful", "failed", "running")
    assert [found[name] for name in counts] == [4, 2, 2, 0, False]
    assert found["failed_checks"]["bulk ESS"] == 2
    assert [(row["task"], row["verdict"]) for row in found["not_passed"]] == [
        ("s0/long", "doubtful"),
        ("s1/long", "doubtful"),
    ]

    batch = Batch(str(folder / "out"))
    verdicts = {"s0/short": "passed", "s0/long": "doubtful"}
    verdicts |= {"s1/short": "passed", "s1/long": "doubtful"}
    assert batch.ledger()["verdict"].to_dict() == verdicts
    assert "bulk ESS" in batch.ledger().loc["s0/long", "failed_checks"]
    for name in ("summary", "draws"):
        table = batch.table(name)
        assert list(table)[:2] == ["task", "verdict"]
        assert table.groupby("task")["verdict"].unique().str.join("").to_dict() == verdicts


def test_parts_of_one_table(tmp_path):
    (tmp_path / "t.csv").write_text(
        "site,plant,month,flowers\na,1,1,3\na,1,2,4\nb,1,1,5\na,2,1,4\na,2,2,7\nb,1,2,6\n"
    )
    (tmp_path / "b.toml").write_text(
        'models = ["multilevel_poisson", "iid_normal"]\n[data]\nfile = "t.csv"\nby = "site"\n'
        "[priors.iid_normal]\nmu_sd = 5\n"
    )
    _, tasks = read_batch(tmp_path / "b.toml")
    assert [task.name for task in tasks] == [
        *("multilevel_poisson/a", "multilevel_poisson/b", "iid_normal/a", "iid_normal/b")
    ]
    first, _, third, _ = tasks
    assert first.spec.data.cells["flowers"].tolist() == list("3447")
    assert first.spec.data.rows.tolist() == [2, 3, 5, 6]
    assert (first.spec.priors, third.spec.priors) == ({}, {"mu_sd": 5})


@pytest.mark.parametrize("pattern", ["sites/[ab].csv", "../*/sites/?.csv", "{here}/*/*/*.csv"])
def test_a_folder_of_any_name_is_no_pattern(tmp_path, monkeypatch, pattern):
    folder = tmp_path / "trial [2024] *"
    (folder / "sites").mkdir(parents=True)
    for name in "ab":
        (folder / "sites" / f"{name}.csv").write_text("plant,month,flowers\n1,1,3\n")
    pattern = pattern.format(here=tmp_path)
    text = f'models = ["iid_normal"]\n[data]\nfiles = ["{pattern}"]\n'
    (folder / "b.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    _, tasks = read_batch(f"{folder.name}/b.toml")
    assert [task.spec.data for task in tasks] == [folder / "sites" / f"{name}.csv" for name in "ab"]


def test_an_entry_is_first_taken_as_the_name_of_a_file(tmp_path):
    (tmp_path / "g [1]").mkdir()
    for name in "ab":
        (tmp_path / "g [1]" / f"{name}.csv").write_text("plant,month,flowers\n1,1,3\n")
    file, text = tmp_path / "b.toml", 'models = ["iid_normal"]\n[data]\nfiles = '
    file.write_text(f'{text}["g [1]/a.csv", "g [[]1]/*.csv"]\n')
    assert [task.name for task in read_batch(file)[1]] == ["a", "b"]
    for entry, remedy in (
        ("c.csv", "correct or remove this entry"),
        ("sitez/*.csv", "correct or remove this entry"),
        ("g [1]/*.csv", "[ begins a set of characters, so write [[] where a name contains ["),
    ):
        file.write_text(f'{text}["g [1]/a.csv", "{entry}"]\n')
        message = f"b.toml: data.files: no file matches {entry}; {remedy}"
        with pytest.raises(ConfigError, match=re.escape(message)):
            read_batch(file)


WRONG = [
    ("", "the key models is missing"),
    ('models = ["nosuch"]', "no program is named 'nosuch'"),
    ('models = ["iid_normal"]\nmodel = 1', "unknown key model; did you mean models?"),
    ('models = ["iid_normal"]\nkeep = ["sumary"]', "keep: keep sumary is not a function; choose"),
    ('models = ["iid_normal"]\nrepeats = 0', "repeats must be at least 1"),
    ('models = ["iid_normal"]\n[data]\nfiles = ["*.none"]', "no file matches"),
    ('models = ["iid_normal"]\n[data]\nby = "site"', "by = … names a column of a file, but"),
    (
        'models = ["iid_normal"]\n[data]\nfile = "t.csv"\nfiles = ["*"]',
        r"give either files = \[…\], or file = … with or without by = …",
    ),
    ('models = ["iid_normal"]\n[sampler]\ncmdstan = "/"', "cmdstan cannot be set in a file"),
    (
        'models = ["iid_normal"]\n[[variants]]\nname = "a"\nsampler = { seed = 1 }',
        "seed applies to the whole batch",
    ),
    (
        'models = ["iid_normal", "a/own.stan"]\n[priors.iid_norml]\nmu_sd = 5',
        "priors.iid_norml names none of the batch's models; name one of iid_normal, own",
    ),
    (
        'models = ["iid_normal"]\n[priors.iid_normal]\nmu_std = 5',
        "prior mu_std: iid_normal has no such prior",
    ),
    ('models = ["a/m.stan", "b/m.stan"]', "models: more than one model is called 'm', but tasks"),
    (
        'models = ["iid_normal"]\n[[variants]]\nname = "a"\n[[variants]]\nname = "a"',
        "variants: more than one variant is called",
    ),
]


@pytest.mark.parametrize(("text", "sentence"), WRONG, ids=range(len(WRONG)))
def test_wrong_files(tmp_path, text, sentence):
    (tmp_path / "b.toml").write_text(text)
    with pytest.raises(ConfigError, match=sentence):
        read_batch(tmp_path / "b.toml")


MANY = [
    "repeats = 1000000000000",
    "repeats = 100000000",
    f"repeats = {10**400}",
    'repeats = 6000000\n[[variants]]\nname = "a"\n[[variants]]\nname = "b"',
]


@pytest.mark.parametrize("text", MANY)
def test_more_tasks_than_any_batch_could_finish(tmp_path, text):
    (tmp_path / "b.toml").write_text(f'models = ["iid_normal"]\n{text}\n')
    sentence = r"b\.toml: models × .* × repeats is more than 10,000,000 tasks; lower repeats, or"
    with pytest.raises(ConfigError, match=sentence):
        read_batch(tmp_path / "b.toml")


def test_repeats_are_not_stored(tmp_path):
    (tmp_path / "b.toml").write_text('models = ["iid_normal"]\nrepeats = 10000000\n')
    _, tasks = read_batch(tmp_path / "b.toml")
    assert len(tasks) == 10_000_000
    tracemalloc.start()
    try:
        assert next(iter(tasks)).name == "0"
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


MARKED = """
from pathlib import Path
Path(__file__).with_name("ran").touch()
def table(fit):
    return {"a": 1}
"""


@pytest.mark.parametrize(
    "wrong",
    [
        "model = 1",
        "repeats = 1000000000000",
        "[data]\nfiles = ['*.none']",
        "[data]\nfile = 'none.csv'\nby = 'site'",
        "[sampler]\ndraws = 'many'",
        "[priors.other]\nmu_sd = 1",
        "[[variants]]\nname = 'a'\nsampler = { seed = 1 }",
    ],
)
def test_no_module_is_imported_while_another_key_is_wrong(tmp_path, monkeypatch, wrong):
    (tmp_path / "marked_by_import.py").write_text(MARKED)
    monkeypatch.syspath_prepend(str(tmp_path))
    text = 'models = ["iid_normal"]\nkeep = ["marked_by_import:table"]\n'
    (tmp_path / "b.toml").write_text(text + wrong)
    with pytest.raises(PyflowersError):
        read_batch(tmp_path / "b.toml")
    assert not (tmp_path / "ran").exists()
    (tmp_path / "b.toml").write_text(text)
    config, _ = read_batch(tmp_path / "b.toml")
    assert not (tmp_path / "ran").exists()
    import_kept(config, tmp_path / "b.toml")
    assert (tmp_path / "ran").exists()
    sys.modules.pop("marked_by_import")


def test_usage(tmp_path, capsys):
    assert call(capsys)[0] == 2
    (tmp_path / "b.toml").write_text('models = ["iid_normal"]\n')
    code, _, err = call(capsys, tmp_path / "b.toml")
    assert code == 2
    assert "--out is missing" in err
    code, _, err = call(capsys, "--status", tmp_path)
    assert code == 1
    assert "has no ledger.sqlite, so it is not a batch folder" in err
