"""A replayed run folder: bitwise equal, statistically equal, or different with the reason."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm
from synthetic_fits import synthetic_fit, table

import pyflowers
from pyflowers.errors import ConfigError, DataError
from pyflowers.fits.folder import FILE
from pyflowers.programs import Program, find_program
from pyflowers.programs.data import to_frame
from pyflowers.resources import flowers_csv
from pyflowers.storage import record_digest
from pyflowers.workflow import replay as replay_module
from pyflowers.workflow.replay import (
    FALSE_ALARMS,
    QUANTILES,
    Replay,
    compare_runs,
    data_changes,
    replay,
)


@pytest.fixture
def run(tmp_path, executables):
    """A run on a copy of the lecture's data, and the copy, which the test may change."""
    shutil.copy(flowers_csv(), tmp_path / "flowers.csv")
    fit = pyflowers.fit(
        "multilevel_poisson", tmp_path / "flowers.csv", seed=5, draws=200, cmdstan="embedded"
    )
    return fit.save(tmp_path / "run"), tmp_path / "flowers.csv"


def test_the_same_machine_gives_the_same_bits(run):
    folder, _ = run
    result = replay(folder)
    assert result == Replay("bitwise equal", 0.0, "", (), "cmdstan, as recorded")
    assert str(result).splitlines() == [
        "bitwise equal: every draw is the same to the last bit",
        "  run with cmdstan, as recorded",
    ]


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "files",
    [
        pytest.param(["p'`touch${IFS}PWNED`'y.stan"], id="a command"),
        pytest.param(["$(touch PWNED).stan"], id="another command"),
        pytest.param(["../../p.stan"], id="a path"),
        pytest.param(["p.stan", "p.hpp"], id="C++"),
        pytest.param(["multilevel_poisson.stan", "multilevel_poisson.hpp"], id="C++ by its name"),
        pytest.param(["p.stan", "makefile", "make/local"], id="a makefile"),
    ],
)
def test_the_files_of_a_strangers_run_reach_neither_make_nor_the_disk(run, cmdstan, files):
    """The names come from run.json; the program is no longer where the run found it."""
    folder, _ = run
    record = json.loads((folder / FILE).read_text())
    about = record["program"]
    (text,) = about["files"].values()
    about["reference"] = about["path"] = "/none/multilevel_poisson.stan"
    about["files"] = dict.fromkeys(files, "#error C++ of a stranger\n") | {files[0]: text}
    write_record(folder, record)
    result = replay(folder)
    assert result.verdict == "bitwise equal"
    assert not list(cmdstan.path.rglob("PWNED*"))


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"files": {"p.stan": "data { int N; }\0 model { }"}}, "line 1: there is a NUL character"),
        ({"files": {"p.stan": "#include /etc/hostname\n"}}, "/etc/hostname, .* is missing"),
        ({"files": {"p.stan": "/* model { }"}}, "a comment that begins with"),
        ({"files": {"p.stan": "\ud800"}}, "declaration"),
    ],
)
def test_the_text_of_a_strangers_run_is_checked(run, about, message):
    folder, _ = run
    record = json.loads((folder / FILE).read_text())
    record["program"] |= about
    write_record(folder, record)
    with pytest.raises(DataError, match=message):
        replay(folder)


def write_record(folder, record):
    """Write the record of a run, with its digest, as a stranger who knows the format would."""
    record["files"][FILE] = record_digest(record, FILE)
    (folder / FILE).write_text(json.dumps(record), encoding="utf-8")


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


def largest_differences(rng, num, correlation):
    """Return the largest difference between two runs of one posterior, for `num` pairs of runs.

    Each run has four chains of 1,000 draws of five quantities, which are autoregressive of order
    one. Three quantiles of each give 15 differences per pair.
    """
    runs = []
    for _ in range(2):
        steps = rng.normal(size=(4, 1000, 5 * num))
        for t in range(1, 1000) if correlation else ():
            fresh = np.sqrt(1 - correlation**2) * steps[:, t]
            steps[:, t] = correlation * steps[:, t - 1] + fresh
        runs.append(steps)
    apart = replay_module._differences(*runs)
    return apart.reshape(len(QUANTILES), num, 5).max((0, 2))


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_two_runs_of_one_posterior_differ_by_chance_as_rarely_as_is_claimed(correlation):
    """Of 2,000 pairs of runs, one in a thousand is a false alarm, within binomial error."""
    rng = np.random.default_rng(17)
    limit = replay_module._limit(15)
    largest = np.concatenate([largest_differences(rng, 250, correlation) for _ in range(8)])
    alarms = int((largest > limit).sum())
    most = int(binom.ppf(1 - 1e-4, largest.size, FALSE_ALARMS))
    assert alarms <= most
    # Negative control: standard errors that are a quarter too small would be detected.
    assert (largest > 0.75 * limit).sum() > most


def test_the_limit_grows_with_the_number_of_differences():
    """Bonferroni: each of n differences may exceed the limit with probability 0.001 / n."""
    for num in (30, 1000, 100_000):
        assert 2 * num * norm.sf(replay_module._limit(num)) == pytest.approx(FALSE_ALARMS)
    assert replay_module._limit(1) == 4


def test_a_moved_quantity_is_found_and_named():
    data = table(["a", "b", "c"], 4)
    first = synthetic_fit("multilevel_poisson", data, seed=1)
    equal = [
        compare_runs(first, synthetic_fit("multilevel_poisson", data, seed=seed)).verdict
        for seed in range(2, 12)
    ]
    assert set(equal) == {"statistically equal"}

    def shift(draws, stats):
        draws["mu_plant"][..., 1] += 0.5 * draws["mu_plant"][..., 1].std()

    moved = synthetic_fit("multilevel_poisson", data, seed=2, change=shift)
    result = compare_runs(first, moved)
    assert result.verdict == "different"
    assert result.where == "mu_plant[b]"
    assert "nothing recorded in the run changed" in result.notes[0]


def test_a_spread_that_changed_is_found_where_the_middle_stays():
    data = table(["a", "b", "c"], 4)
    first = synthetic_fit("iid_normal", data, seed=1)

    def widen(draws, stats):
        draws["mu"] += 0.4 * (draws["mu"] - np.median(draws["mu"]))

    result = compare_runs(first, synthetic_fit("iid_normal", data, seed=2, change=widen))
    assert (result.verdict, result.where) == ("different", "mu")


def test_other_quantities_are_another_posterior():
    data = table(["a", "b"], 4)
    result = compare_runs(
        synthetic_fit("iid_normal", data), synthetic_fit("semiconjugate_normal", data)
    )
    assert str(result) == "different\n  the posteriors have different quantities"


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
    assert replay(folder).notes == (f"the data changed: {data} has changed",)
    data.unlink()
    without = replay(folder)
    assert without.verdict == "bitwise equal"
    assert "the data kept in the run folder were used" in without.notes[0]
    text = program.read_text().replace("normal(0, 9)", "normal(0, 0.1)")
    program.write_text(text)
    changed = replay(folder)
    assert changed.verdict == "different"
    assert f"program {program} changed" in changed.notes


def test_data_that_were_never_a_file_are_replayed(tmp_path, executables):
    """The data are a frame, a mapping, or empty for a program that needs none."""
    frame = to_frame(find_program("iid_normal").read())
    how = {"seed": 1, "draws": 50, "warmup": 100, "cmdstan": "embedded"}
    fit = pyflowers.fit("iid_normal", frame, priors={"mu_sd": 3}, **how)
    assert replay(fit.save(tmp_path / "frame")).verdict == "bitwise equal"
    values = fit.program.stan_values(fit.data)
    fit = pyflowers.fit("iid_normal", values, **how)
    assert fit.record.priors["mu_sd"] == 3
    assert replay(fit.save(tmp_path / "mapping")).verdict == "bitwise equal"


def test_another_engine_is_not_taken_in_silence(run):
    folder, _ = run
    by_interpreter = replay(folder, engine="stanli")
    assert by_interpreter.verdict != "different"
    assert by_interpreter.notes == ("the engine was cmdstan and is stanli",)
    with pytest.raises(ConfigError, match="engine must be one of cmdstan, stanli, exact"):
        replay(folder, engine="pystan")


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(DataError, match="is not a run folder"):
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
        (
            lambda f: f.iloc[[1, 0, *range(2, 12)]],
            ["row 1: the rows are in a different order from"],
        ),
        (
            lambda f: f.assign(month=f.month.replace("4", "5")),
            [
                "row 4 (1, 5) is new",
                "row 8 (2, 5) is new",
                "row 12 (3, 5) is new",
                "row 5 (1, 4) is gone",
                "row 9 (2, 4) is gone",
                "and 1 more change",
            ],
        ),
    ],
)
def test_changed_rows_are_named(edit, expected):
    program = find_program("iid_normal")
    before = program.read(flowers_csv())
    frame = to_frame(before)
    now = program.read(edit(frame).reset_index(drop=True))
    found = data_changes(before, now)
    assert len(found) == len(expected)
    for output, words in zip(found, expected, strict=True):
        assert words in output


def test_a_changed_level_of_a_factor_is_named():
    frame = pd.DataFrame({"y": [1.0, 2.5, 3.0, 4.0], "x": [1.0, 2, 4, 3], "f": list("aabb")})
    program = Program.from_formula("y ~ f + x", frame)
    now = program.read(frame.assign(f=list("abbb")))
    assert data_changes(program.read(frame), now) == ["the data frame, row 2: f was a and is b"]


def test_rows_without_group_and_time_are_told_apart_by_place(own_program):
    text = "data { int N; vector[N] y; vector[N] x; } parameters { real mu; }"
    program = own_program("plain", text)
    frame = pd.DataFrame({"y": [1.0, 2.0, 3.0], "x": [0.0, 0.5, 1.0]})
    before = program.read(frame)
    now = program.read(frame.assign(x=[0.0, 0.75, 1.0]))
    assert data_changes(before, now) == ["the data frame, row 2: x was 0.5 and is 0.75"]
    assert data_changes(before, program.read(frame.iloc[:2])) == ["the data frame, row 3 is gone"]
    renamed = program.read(frame.rename(columns={"x": "z"}), columns={"x": "z"})
    assert data_changes(before, renamed)[0] == "column x was x and is z"


@pytest.mark.quick
def test_integers_of_one_distribution_are_alike():
    """Quantiles of integers jump, so the standard errors of quantiles would be 0."""
    rng = np.random.default_rng(5)
    limit = replay_module._limit(15)
    draws = rng.poisson(3.67, (2, 400, 4, 1000, 1)), rng.binomial(1, 0.5, (2, 400, 4, 1000, 1))
    largest = np.array(
        [
            replay_module._differences(*pair).max()
            for its in draws
            for pair in zip(*its, strict=True)
        ]
    )
    assert (largest > limit).sum() <= binom.ppf(1 - 1e-4, largest.size, FALSE_ALARMS)
    assert replay_module._differences(draws[0][0, 0], draws[0][1, 0] + 1).max() > limit
