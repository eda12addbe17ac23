"""A run folder, run again: bitwise equal, statistically equal, or different and why."""

import shutil

import numpy as np
import pytest
from synthetic_fits import synthetic_fit, table

import pyflowers
from pyflowers.changes import data_changes
from pyflowers.data import from_frame, read_data
from pyflowers.errors import ConfigError, DataError
from pyflowers.replay import Replay, compare_runs, replay
from pyflowers.resources import flowers_csv


@pytest.fixture
def run(tmp_path, executables):
    """A run of the lecture's data in a file of its own; `edit` changes the file afterwards."""
    shutil.copy(flowers_csv(), tmp_path / "flowers.csv")
    fit = pyflowers.fit(
        "multilevel_poisson", tmp_path / "flowers.csv", seed=5, draws=200, cmdstan="embedded"
    )
    return fit.save(tmp_path / "run"), tmp_path / "flowers.csv"


def test_the_same_machine_gives_the_same_bits(run):
    folder, _ = run
    result = replay(folder)
    assert result == Replay("bitwise equal", 0.0, "", ())
    assert str(result) == "bitwise equal: every draw is the same to the last bit"


def test_a_changed_row_is_named(run):
    folder, data = run
    text = data.read_text()
    assert "2,3,5\n" in text
    data.write_text(text.replace("2,3,5\n", "2,3,7\n"))
    result = replay(folder)
    assert result.verdict == "different"
    assert result.notes == (f"the data changed: {data}, row 8 (2, 3): flowers was 5 and is 7",)


def test_data_that_can_no_longer_be_read_are_said(run):
    folder, data = run
    data.write_text(data.read_text().replace("2,3,5\n", "2,3,many\n"))
    result = replay(folder)
    assert result.verdict == "different"
    assert "row 8: flowers is 'many', not a finite number" in result.notes[0]


def test_without_the_file_the_data_of_the_run_folder_are_used(run):
    folder, data = run
    data.unlink()
    result = replay(folder)
    assert result.verdict == "bitwise equal"
    assert "the data kept in the run folder were used" in result.notes[0]


def test_another_seed_is_statistically_equal_and_a_wrong_posterior_is_not(lecture_fits):
    first = lecture_fits["multilevel_poisson"]
    second = pyflowers.fit("multilevel_poisson", seed=2, cmdstan="embedded")
    result = compare_runs(first, second)
    assert result.verdict == "statistically equal"
    assert 0 < result.largest < 5
    wrong = pyflowers.fit(
        "multilevel_poisson", seed=2, cmdstan="embedded", priors={"mu_sd": 0.3, "mu_mean": 0.0}
    )
    result = compare_runs(first, wrong, ["prior mu_sd was 100 and is 0.3"])
    assert result.verdict == "different"
    assert result.largest > 10
    assert "prior mu_sd was 100 and is 0.3" in str(result)


def test_the_statistical_verdict_has_its_false_alarm_rate_and_its_power():
    data = table(["a", "b", "c"], 4)
    first = synthetic_fit("multilevel_poisson", data, seed=1)
    equal = [
        compare_runs(first, synthetic_fit("multilevel_poisson", data, seed=seed)).verdict
        for seed in range(2, 32)
    ]
    assert set(equal) == {"statistically equal"}

    def shift(draws, stats):
        draws["mu_plant"][..., 1] += 0.5 * draws["mu_plant"][..., 1].std()

    moved = synthetic_fit("multilevel_poisson", data, seed=2, change=shift)
    result = compare_runs(first, moved)
    assert result.verdict == "different"
    assert result.where == "mu_plant[b]"
    assert "nothing that is recorded changed" in result.notes[0]


def test_one_bit_is_not_bitwise_equal():
    def flip(draws, stats):
        draws["mu"][0, 0] = np.nextafter(draws["mu"][0, 0], np.inf)

    data = table(["a", "b", "c"], 4)
    first = synthetic_fit("iid_normal", data)
    assert compare_runs(first, synthetic_fit("iid_normal", data)).verdict == "bitwise equal"
    flipped = compare_runs(first, synthetic_fit("iid_normal", data, change=flip))
    assert flipped.verdict == "statistically equal"


def test_a_users_own_program_is_replayed(tmp_path, executables):
    program, data = tmp_path / "mine.stan", tmp_path / "mine.json"
    program.write_text(
        "data { int N; vector[N] y; }\nparameters { real mu; }\nmodel { mu ~ normal(0, 9); "
        "y ~ normal(mu, 1); }\n"
    )
    data.write_text('{"N": 3, "y": [1, 2, 4]}')
    fit = pyflowers.fit(program, data, seed=1, draws=100, warmup=100, cmdstan="embedded")
    folder = fit.save(tmp_path / "run")
    assert replay(folder).verdict == "bitwise equal"
    data.write_text('{"N": 3, "y": [1, 2, 5]}')
    assert replay(folder).notes == (f"the data changed: {data} is not the file that it was",)
    data.unlink()
    with pytest.raises(ConfigError, match="are no file that can be read again"):
        replay(folder)


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(DataError, match="it is no run folder"):
        replay(tmp_path)


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda f: f, []),
        (lambda f: f.iloc[:-1], ["row 13 (3, 4) is gone"]),
        (
            lambda f: f.assign(flowers=f.flowers.where(f.index != 0, 9)),
            ["row 1 (1, 1): flowers was 4 and is 9"],
        ),
        (lambda f: f.iloc[[1, 0, *range(2, 12)]], ["row 1: the rows stand in another order from"]),
        (
            lambda f: f.assign(month=f.month.replace("4", "5")),
            [
                "row 4 (1, 5) is new",
                "row 8 (2, 5) is new",
                "row 12 (3, 5) is new",
                "row 5 (1, 4) is gone",
                "row 9 (2, 4) is gone",
                "and 1 more changes",
            ],
        ),
    ],
)
def test_changed_rows_are_named(edit, expected):
    before = read_data(flowers_csv())
    frame = before.to_frame()
    now = from_frame(edit(frame).reset_index(drop=True))
    found = data_changes(before, now)
    assert len(found) == len(expected)
    for said, words in zip(found, expected, strict=True):
        assert words in said
