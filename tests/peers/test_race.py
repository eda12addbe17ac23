"""The race: judgements, sentences and table from measurements, and resuming."""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # the benchmarks are not part of the package

from benchmarks.peers import agreement, figure, page, processes, race  # noqa: E402
from benchmarks.peers.methods import METHODS, chosen  # noqa: E402
from benchmarks.peers.results import Ledger, Result, hopeless  # noqa: E402
from benchmarks.peers.sizes import (  # noqa: E402
    LECTURE,
    REGRESSIONS,
    Size,
    columns,
    contents,
    counts,
    table_of,
)
from benchmarks.peers.summary import (  # noqa: E402
    Measure,
    conditions,
    number,
    rows_of,
    sentences,
    spread,
)

QUIET = {"processor": "P", "cores": 2, "memory_gib": 8.0, "load": 1.0, "nice": 0}


def result(method, *, size="200x48", first=2.0, further=1.0, ess=1000.0, **other):
    agrees = {"agrees": True, "z": 1.0, "bound": 4.5, "of": "mu", "statistic": "mean", "r_hat": 1.0}
    known = {
        "round": 1,
        "status": "done",
        "imports": 0.5,
        "peak_bytes": 2_000_000,
        "agreement": agrees | {"shift": 0.01},
        "machine": QUIET,
    }
    return Result(size, method, first=first, further=further, min_ess=ess, **(known | other))


def told(*results):
    return " ".join(sentences(rows_of(results)))


def shown(*results):
    return "\n".join(page.table(rows_of(results)))


# Sentences


def test_a_win_is_told_with_its_ratio_and_that_of_nuts():
    text = told(
        result("pyflowers-exact", ess=4000, first=1.0),
        result("pyflowers-stanli", ess=2000),
        result("nutpie", ess=100, first=8.0),
        result("pymc", ess=50, first=9.0),
    )
    assert (
        "**200 × 48.** Minimum ESS per second: *pyflowers, exact* wins, at 40.0 times the rate of "
        "*nutpie*" in text
    )
    assert "(with NUTS, *pyflowers, stanli* reaches 20.0 times the rate of the peer)" in text
    assert "*pyflowers, exact* wins, at 8 times the speed of *nutpie*" in text


def test_a_peer_that_wins_is_told():
    text = told(result("pyflowers-exact", ess=100, first=3.0), result("nutpie", ess=400, first=1.5))
    assert "ESS per second: **nutpie wins**, by a factor of 4 over *pyflowers, exact*." in text
    assert "Time to the first posterior: **nutpie wins**, by a factor of 2" in text
    assert "of pyflowers' 3 s, 0.5 s are Python's start and imports" in text


def test_medians_that_hardly_differ_are_level():
    text = told(result("pyflowers-exact", ess=100), result("nutpie", ess=103, first=1.0))
    assert "Minimum ESS per second: *pyflowers, exact* is level with *nutpie*." in text


OTHER = {"agreement": {"agrees": False, "z": 9.0, "of": "mu", "statistic": "mean", "shift": 1}}


def test_a_peer_with_another_posterior_is_raced_all_the_same():
    peer = result("rstanarm", ess=400, **OTHER)
    text = told(result("pyflowers-exact", ess=800), peer, result("pymc", ess=10))
    assert "exact* wins, at 2 times the rate of *rstanarm*, whose posterior differs." in text
    text = told(result("pyflowers-exact", ess=100), peer)
    assert "**rstanarm wins** with a posterior that differs, by a factor of 4 over" in text


def test_an_engine_of_ours_with_another_posterior_wins_nothing():
    wrong = result("pyflowers-exact", ess=900, **OTHER)
    text = told(wrong, result("pyflowers-stanli", ess=200), result("pymc", ess=10))
    assert "*pyflowers, stanli* wins, at 20.0 times the rate of *PyMC*" in text


def test_estimates_are_compared_by_time_alone():
    estimate = {"ess": None, "agreement": {"agrees": None, "of": "mu", "shift": 0.2}}
    text = told(result("pyflowers-exact", first=1.5), result("lme4", first=1.0, **estimate))
    assert "posterior of *pyflowers, exact* takes 1.5 s; the estimates of lme4 take 1 s." in text
    assert "wins" not in text
    text = told(result("pyflowers-exact", first=0.5), result("lme4", first=1.0, **estimate))
    assert "posterior of *pyflowers, exact* takes 0.5 s; the estimates of lme4 take 1 s." in text


def test_a_size_that_no_peer_finishes_is_told():
    ended = {"status": "stopped", "first": None, "further": None, "ess": None}
    peer = result("nutpie", reason="first posterior with 90% of the machine's memory", **ended)
    text = told(result("pyflowers-exact"), peer)
    assert "No peer finishes a posterior within the limits; *pyflowers, exact* does." in text
    assert "No peer" not in told(result("pyflowers-exact"))
    text = told(result("pyflowers-exact", **ended), result("nutpie"))
    assert "No engine of pyflowers finishes a posterior within the limits; *nutpie* does." in text
    drawn = figure.draw(rows_of([result("pyflowers-exact"), peer]))
    assert [text.get_text() for text in drawn.axes[0].texts] == ["too large"]


def test_nothing_measured_is_no_sentence():
    assert told() == ""
    assert "Nothing has been measured yet." in page.generated([])


# Rows and the table


def test_medians_and_spreads_over_rounds():
    rounds = [result("nutpie", round=i, further=f) for i, f in enumerate((1.0, 4.0, 2.0), 1)]
    (row,) = rows_of(rounds)
    assert row.further == Measure(2.0, 1.0, 4.0, 3)
    assert row.rate.middle == 500.0
    assert spread(row.further) == "2 (1–4)"
    assert "| 200 × 48 | nutpie | 2 (2–2) | 2 (1–4) | 500 (250–1,000) |" in shown(*rounds)


def test_one_wrong_round_makes_a_row_differ():
    bad = {"agreement": {"agrees": False, "z": 7.0, "of": "mu", "statistic": "5%", "shift": 0.3}}
    (row,) = rows_of([result("nutpie"), result("nutpie", round=2, **bad)])
    assert not row.is_right
    why = "differs: 5% quantile of mu by 7.0 standard errors, means by up to 0.3 posterior sd"
    assert row.verdict == why


def test_poor_chains_are_named():
    poor = result("nutpie", num_divergent=3)
    poor.agreement["r_hat"] = 1.04
    assert rows_of([poor])[0].verdict == "agrees; R-hat 1.04; 3 divergent"
    winner = result("pyflowers-stanli", ess=2000)
    winner.agreement["r_hat"] = 1.02
    text = told(winner, poor)
    assert (
        "*pyflowers, stanli* (R-hat 1.02) wins, at 2 times the rate of *nutpie* (R-hat 1.04)."
        in text
    )


def test_the_fastest_comes_first_and_the_unfinished_last():
    late = Result("200x48", "brms", 1, "stopped", "first posterior after 600 s")
    text = shown(late, result("pymc", ess=10), result("nutpie", ess=50))
    assert text.index("nutpie") < text.index("PyMC") < text.index("brms")
    assert (
        "| 200 × 48 | brms, rstan | – | – | – | – | stopped: no first posterior after 600 s |"
        in text
    )


def test_what_was_not_run_is_listed_with_its_reason():
    late = Result("1000x100", "brms", 1, "stopped", "first posterior after 600 s")
    failed = Result("3x4", "pymc", 1, "failed", "no compiler | here.")
    text = "\n".join(page.missing([late, failed]))
    assert "- brms, rstan, 1,000 × 100, stopped: no first posterior after 600 s." in text
    assert "- 100,000 × 48: brms, rstan (stopped on 1,000 × 100, which is smaller)." in text
    assert "- 200 × 48: all methods (not measured yet)." in text
    assert "- PyMC, 3 × 4, failed: no compiler / here." in text
    assert "cmdstanr" in text


def test_busy_machines_make_times_provisional():
    quiet = result("nutpie")
    assert "provisional" not in conditions([quiet])
    assert "provisional" in conditions([replace(quiet, machine=QUIET | {"load": 6.0})])
    assert "provisional" in conditions([replace(quiet, machine=QUIET | {"nice": 19})])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0123, "0.012"),
        (1.26, "1.3"),
        (12.34, "12.3"),
        (123.4, "123"),
        (12345, "12,300"),
    ],
)
def test_numbers(value, text):
    assert number(value) == text


def test_the_page_is_written_between_its_marks(tmp_path):
    (tmp_path / "peers.md").write_text(f"before\n{page.BEGIN}OLD\n{page.END}after\n", "utf-8")
    page.write([result("pyflowers-exact"), result("nutpie")], tmp_path)
    text = (tmp_path / "peers.md").read_text("utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "OLD" not in text
    assert "| 200 × 48 | nutpie |" in text
    assert (tmp_path / "peers" / "race.svg").stat().st_size > 1000


def test_a_figure_marks_another_posterior():
    wrong = result("rstanarm")
    wrong.agreement["agrees"] = False
    labels = [
        text.get_text()
        for rows in ([result("nutpie")], [result("nutpie"), wrong])
        for text in figure.draw(rows_of(rows)).legends[0].get_texts()
    ]
    assert labels == ["peer", "peer", "another posterior (see the table)"]


def test_a_figure_says_which_methods_would_be_too_slow():
    slow = result("nutpie", further=70.0, limit=600.0)
    larger = [result(key, size="10000x20") for key in ("pyflowers-exact", "pymc")]
    drawn = figure.draw(rows_of([slow, result("pymc"), *larger]))
    notes = [[text.get_text() for text in panel.texts] for panel in drawn.axes]
    assert notes == [[], ["too slow"], [], ["too slow"]]


# Resumption


def test_what_is_there_is_not_run_again(tmp_path):
    ledger = Ledger(tmp_path / "runs.csv")
    assert ledger.needs(LECTURE, "nutpie", 1, 600)
    ledger.add(result("nutpie", size="3x4"))
    assert not ledger.needs(LECTURE, "nutpie", 1, 600)
    assert ledger.needs(LECTURE, "nutpie", 2, 600)
    assert ledger.needs(LECTURE, "pymc", 1, 600)


def test_runs_are_read_as_they_were_written(tmp_path):
    """Results of every kind: a posterior that agrees or differs, estimates only, and none."""
    differs = OTHER["agreement"] | {"bound": 4.5, "r_hat": 1.02}
    runs = [
        result("nutpie", size="3x4", versions="nutpie 0.16.8, pymc 5.28.5", commit="0ba87ee-dirty"),
        result("rstanarm", size="3x4", agreement=differs, num_divergent=3, limit=600.0),
        result("lme4", ess=None, agreement={"agrees": None, "of": "mu_plant[2]", "shift": 0.2}),
        Result("200x48", "pymc", 1, "failed", 'no "compiler",\nor none | here', first=3.25),
        Result("1000x100", "brms", 2, "stopped", "first posterior after 600 s", machine=QUIET),
    ]
    ledger = Ledger(tmp_path / "new" / "runs.csv")
    for run in reversed(runs):
        ledger.add(run)
    read = ledger.read()
    runs[2].agreement.pop("agrees")  # written as an empty cell
    assert read == runs
    assert page.generated(read) == page.generated(runs)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["runs.csv"]


def test_the_committed_runs_make_the_committed_page():
    text = (page.DOCS / "peers.md").read_text("utf-8")
    ledgers = (Ledger(path) for path in sorted(race.RUNS.parent.glob("*.csv"), reverse=True))
    assert page.generated([run for ledger in ledgers for run in ledger.read()]) in text


def test_runs_of_two_machines_are_not_mixed(tmp_path, monkeypatch):
    path = tmp_path / "runs.csv"
    Ledger(path).add(result("nutpie", size="3x4"))
    written = []
    monkeypatch.setattr(page, "write", written.append)
    monkeypatch.setattr(race, "settle", lambda: None)
    monkeypatch.setattr(race, "measured", lambda method, size, number, limit: result(method.key))
    with pytest.raises(SystemExit, match=r"has runs on P, 2 cores, 8.0 GiB, .* --afresh"):
        race.main("--runs", str(path), "--rounds", "1", "--sizes", "200x48", "--methods", "pymc")
    assert [run.method for run in Ledger(path).read()] == ["nutpie"]
    race.main("--runs", str(path), "--page-only")
    monkeypatch.setattr(race, "machine", lambda: QUIET)
    race.main("--runs", str(path), "--rounds", "1", "--sizes", "200x48", "--methods", "pymc")
    assert [run.method for run in Ledger(path).read()] == ["nutpie", "pymc"]
    race.main(
        *("--runs", str(path), "--afresh"),
        *("--rounds", "1", "--sizes", "200x48", "--methods", "lme4"),
    )
    assert [run.method for run in Ledger(path).read()] == ["lme4"]
    assert [len(runs) for runs in written] == [1, 2, 1]


def test_what_was_too_slow_is_not_tried_on_more_rows(tmp_path):
    ledger = Ledger(tmp_path / "runs.csv")
    ledger.add(Result("200x48", "brms", 1, "stopped", "first posterior after 600 s"))
    assert not ledger.needs(Size(200, 48), "brms", 2, 600)
    assert not ledger.needs(Size(1000, 100), "brms", 1, 600)
    assert ledger.needs(LECTURE, "brms", 1, 600)
    assert ledger.needs(Size(1000, 100), "pymc", 1, 600)
    ledger.forget(("stopped",))
    assert ledger.needs(Size(200, 48), "brms", 1, 600)


def test_what_would_be_too_slow_is_not_tried():
    slow = [result("nutpie", size="1000x100", further=70.0)]
    why = (
        "computing a posterior for 1,000 × 100 took 70 s, and this table would take at least 48 "
        "times as long"
    )
    assert hopeless(Size(100_000, 48), slow, 600) == why
    assert not hopeless(Size(100_000, 48), slow, 3600)
    assert not hopeless(Size(10_000, 20), slow, 600)  # ten times the plants, twice the rows
    assert not hopeless(LECTURE, slow, 1)
    overhead = [result("nutpie", size="3x4", further=4.0)]
    assert not hopeless(Size(1000, 100), overhead, 600)
    text = "\n".join(page.missing([replace(slow[0], limit=600.0)]))
    assert f"- 100,000 × 48: nutpie ({why})." in text


def test_a_failure_says_nothing_of_other_sizes(tmp_path):
    ledger = Ledger(tmp_path / "runs.csv")
    ledger.add(Result("200x48", "brms", 1, "failed", "why"))
    assert not ledger.needs(Size(200, 48), "brms", 2, 600)
    assert ledger.needs(Size(1000, 100), "brms", 1, 600)


# Agreement


def independent(shift=0.0, scale=1.0, num=4000, seed=1):
    rng = np.random.default_rng(seed)
    draws = rng.normal(shift, scale, (4, num // 4, 6))
    draws[..., 1] = np.exp(draws[..., 1])
    return agreement.summarised(draws)


def test_equal_posteriors_agree():
    reference = independent(num=40_000)
    for seed in range(2, 12):
        found = agreement.compare(independent(seed=seed), reference)
        assert found["agrees"]
        assert found["shift"] < 0.1


@pytest.mark.parametrize("planted", [{"shift": 0.12}, {"scale": 1.2}, {"scale": 0.85}])
def test_a_shift_and_another_spread_are_found(planted):
    found = agreement.compare(independent(**planted, seed=2), independent(num=40_000))
    assert not found["agrees"]
    assert found["z"] > found["bound"]


def test_stuck_chains_do_not_agree():
    draws = np.ones((4, 1000, 6))
    assert not agreement.compare(agreement.summarised(draws), independent())["agrees"]


def test_the_variance_is_taken_as_its_logarithm():
    assert abs(independent(num=40_000)["mean"][1]) < 0.05


def test_streamed_plants_are_compared_by_what_they_have():
    whole = independent(seed=2)
    short = {name: column for name, column in whole.items() if name != "mcse_5%"}
    joined = agreement.joined([whole, short])
    assert "mcse_5%" not in joined
    assert len(joined["mean"]) == 12
    doubled = agreement.joined([independent(num=40_000)] * 2)
    assert agreement.compare(joined, doubled)["agrees"]


def test_estimates_are_measured_in_posterior_sds():
    reference = independent(num=40_000)
    found = agreement.compare_estimates(
        {"mu": 0.0, "sigma2": 1.0, "mu_plant": [0.0, 0.0, 2.0, 0.0]}, reference
    )
    assert found["of"] == "mu_plant[3]"
    assert found["shift"] == pytest.approx(2, abs=0.1)
    assert found["agrees"] is None


def test_the_exact_reference_finds_another_prior(tmp_path):
    reference = agreement.reference_of(LECTURE, tmp_path)
    assert agreement.reference_of(LECTURE, tmp_path).keys() == reference.keys()
    assert len(reference["mean"]) == 5
    assert reference["mean"][0] == pytest.approx(1.48, abs=0.05)  # of mu


# Regressions


def coefficients(*means, num=4000):
    rng = np.random.default_rng(1)
    draws = rng.normal(means, 1.0, (4, num // 4, len(means)))
    return agreement.summarised(draws, logarithms=())


def test_coefficients_are_compared_with_their_estimates():
    names = ["Intercept", "b[1]"]
    found = agreement.compare_coefficients(coefficients(3.0, -1.0, 7.0), names, [3.0, -1.2])
    assert found["agrees"]
    assert found["of"] == "b[1]"
    assert found["shift"] == pytest.approx(0.2, abs=0.1)
    found = agreement.compare_coefficients(coefficients(3.0, -1.0, 7.0), names, [4.0, -1.2])
    assert not found["agrees"]
    assert found["of"] == "Intercept"
    with pytest.raises(ValueError, match=r"3 estimates for the coefficients Intercept, b\[1\]"):
        agreement.compare_coefficients(coefficients(3.0, -1.0), names, [4.0, -1.2, 0.0])


def test_a_regression_is_raced_by_its_own_methods(tmp_path):
    named = {method.key: method for method in METHODS}
    sleepstudy = table_of("sleepstudy")
    assert named["formula-brms"].fits(sleepstudy)
    assert not named["brms"].fits(sleepstudy)
    assert not named["formula-brms"].fits(LECTURE)
    ledger = Ledger(tmp_path / "runs.csv")
    ledger.add(result("formula-nutpie", size="sleepstudy", first=70.0, further=50.0))
    assert ledger.needs(table_of("InstEval"), "formula-nutpie", 1, 600)  # not extrapolated
    assert not ledger.needs(sleepstudy, "formula-nutpie", 1, 600)


def test_a_regression_s_data_are_what_its_formula_names():
    ticks = columns(table_of("grouseticks"))
    assert set(ticks) == {"TICKS", "YEAR", "cHEIGHT", "BROOD", "LOCATION"}
    assert len(ticks["TICKS"]) == 403
    assert ticks["YEAR"][0] == "95"
    of_r = {found.key for found in REGRESSIONS if found.source}
    assert of_r == {"cbpp-binomial", "Pastes", "Penicillin", "bacteria", "Owls", "InstEval"}
    here = [found for found in REGRESSIONS if not found.source]
    assert [found.num_rows for found in here] == [
        len(next(iter(columns(found).values()))) for found in here
    ]


def test_bambi_has_its_own_formula_and_words_of_censoring():
    kidney = contents(table_of("kidney"))
    assert kidney["bambi"].startswith("censored(time, status) ~ ")
    pairs = set(zip(kidney["frame"]["censored"], kidney["frame"]["status"], strict=True))
    assert pairs == {(0, "none"), (1, "right")}
    assert "bambi" not in contents(table_of("sleepstudy"))


def test_a_curve_is_compared_between_the_ends_of_its_covariate():
    mcycle = contents(table_of("mcycle"))
    times = mcycle["at"]["times"]
    assert len(times) == 9
    assert (times[0], times[-1]) == (2.4, 57.6)
    assert times == sorted(times)
    assert "at" not in contents(table_of("kidney"))


def test_times_to_the_first_posterior_are_multiples_of_the_interpreter_s():
    runs = [
        result("formula-stanli", size="kidney", first=2.0),
        result("formula-brms", size="kidney", first=80.0),
        result("formula-bambi", size="kidney", first=30.0),
        result("formula-nutpie", size="cbpp", first=21.0),
        Result("kidney", "formula-nutpie", 1, "failed", "why"),
    ]
    lines = page.first_times(rows_of(runs))
    assert lines[0] == "| data | formula, stanli | brms | Bambi | Bambi, nutpie |"
    assert lines[2] == "| cbpp | – | – | – | **21.0** |"
    assert lines[3] == "| kidney | 2 | 80.0 (40.0 ×) | **30.0 (15.0 ×)** | – |"
    wrong = replace(runs[0], agreement={"agrees": False, "of": "b[1]", "shift": 1.0})
    lines = page.first_times(rows_of([wrong, runs[1]]))
    assert lines[2] == "| kidney | 2 | **80.0** |"


def test_a_method_that_cannot_fit_a_regression_is_listed_with_the_reason():
    named = {method.key: method for method in METHODS}
    assert not named["formula-bambi"].fits(table_of("mcycle"))
    assert named["formula-brms"].fits(table_of("mcycle"))
    text = "\n".join(page.missing([]))
    assert "- mcycle: Bambi; Bambi, nutpie (Bambi has no penalised smooths; " in text
    assert "- grouseticks: formula, exact (two grouping factors and a response that" in text
    for method in METHODS:
        assert {table_of(key).key for key in method.without} == set(method.without)


def test_regressions_have_their_own_part_of_the_page():
    differs = {"agrees": False, "of": "Days[0]", "shift": 0.8, "r_hat": 1.0}
    text = page.generated(
        [
            result("pyflowers-exact"),
            result("formula-stanli", size="sleepstudy"),
            result("formula-brms", size="sleepstudy", first=80.0, ess=100, agreement=differs),
        ]
    )
    flowers, regressions = text.split("## Regressions from a formula")
    assert "sleepstudy" not in flowers
    assert "| sleepstudy | 180 | `Reaction ~ Days + (Days \\| Subject)` | gaussian |" in regressions
    assert "*formula, stanli* wins, at 40.0 times the speed of *brms*" in regressions
    assert "| differs: Days[0] by 0.8 posterior sd |" in regressions


# Runs


def test_a_run_that_takes_too_long_is_killed_with_its_children(tmp_path):
    code = (
        "import os, pathlib, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "pathlib.Path('pids').write_text(f'{os.getpid()} {child.pid}')\n"
        "child.wait()"
    )
    pids = tmp_path / "pids"

    def both_have_started(elapsed):
        return elapsed > 60 or (pids.exists() and len(pids.read_text("utf-8").split()) == 2)

    ended = processes.run(
        [sys.executable, "-c", code],
        environment={},
        folder=tmp_path,
        log=tmp_path / "log",
        overdue=both_have_started,
        measured=lambda: True,
    )
    assert ended.status is None
    assert ended.killed_for == "time"
    assert ended.peak_bytes > 1_000_000
    assert len(pids.read_text("utf-8").split()) == 2
    for pid in pids.read_text("utf-8").split():
        deadline = time.monotonic() + 30  # a signal takes a moment on a busy machine
        while Path("/proc", pid, "exe").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not Path("/proc", pid, "exe").exists()  # gone, or dead and not yet reaped


def test_a_run_that_ends_by_itself_has_its_status(tmp_path):
    never = {"overdue": lambda _: False, "measured": lambda: True}
    command = [sys.executable, "-c", "print('words'); raise SystemExit(3)"]
    log = tmp_path / "log"
    ended = processes.run(command, environment={}, folder=tmp_path, log=log, **never)
    assert ended.status == 3
    assert not ended.killed_for
    assert log.read_text("utf-8") == "words\n"


def test_a_run_that_needs_too_much_memory_is_killed(tmp_path):
    command = [sys.executable, "-c", "x = bytes(100) * 1_000_000; import time; time.sleep(60)"]
    ended = processes.run(
        command,
        environment={},
        folder=tmp_path,
        log=tmp_path / "log",
        overdue=lambda elapsed: elapsed > 50,
        measured=lambda: True,
        most_bytes=50_000_000,
    )
    assert (ended.status, ended.killed_for) == (None, "memory")
    assert race.judged(ended, tmp_path, {}, tmp_path / "log", 600)["reason"] == (
        "first posterior with 90% of the machine's memory"
    )


def test_a_run_that_the_system_killed_for_its_memory_says_so(tmp_path):
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    ended = processes.run(
        [sys.executable, "-c", code],
        environment={},
        folder=tmp_path,
        log=tmp_path / "log",
        overdue=lambda elapsed: elapsed > 50,
        measured=lambda: True,
    )
    assert (ended.status, ended.killed_for) == (None, "memory")


@pytest.mark.slow
def test_looking_at_a_run_takes_little_of_it(tmp_path, monkeypatch):
    looks = []

    def slow_look(pids):
        looks.append(pids)
        time.sleep(0.05)
        return 0

    monkeypatch.setattr(processes, "memory", slow_look)
    started = time.perf_counter()
    processes.run(
        [sys.executable, "-c", "import time; time.sleep(4)"],
        environment={},
        folder=tmp_path,
        log=tmp_path / "log",
        overdue=lambda _: False,
        measured=lambda: True,
    )
    # After the first, one reading every 2.5 s; ten per second would use half of a core.
    assert len(looks) <= 2 + (time.perf_counter() - started) / 2.5


def test_a_run_waits_until_the_load_has_gone(monkeypatch):
    loads, waits = iter([9.0, 5.0, 0.0]), []
    monkeypatch.setattr("os.getloadavg", lambda: (next(loads), 0.0, 0.0))
    monkeypatch.setattr("time.sleep", waits.append)
    race.settle()
    assert waits == [1, 1]


def test_each_posterior_has_its_own_limit(tmp_path):
    overdue = race.Overdue(tmp_path, 10.0)
    assert not overdue(9.0)
    (tmp_path / "timings.json").write_text(json.dumps({"first_at": 0}), "utf-8")
    assert not overdue(9.5)
    assert not overdue(19.0)
    assert overdue(20.0)
    (tmp_path / "timings.json").write_text(json.dumps({"first_at": 0, "further": 9}), "utf-8")
    assert not overdue(1000.0)


def test_methods_and_sizes():
    assert [method.key for method in chosen(["pymc", "lme4"])] == ["pymc", "lme4"]
    assert chosen([]) == list(METHODS)
    assert len({method.key for method in METHODS}) == len(METHODS)
    with pytest.raises(ValueError, match="no method is named 'stan'"):
        chosen(["stan"])
    assert Size.of("1000x100").label == "1,000 × 100"
    for wrong in ("200", "0x4", "ax4", "3x-4"):
        with pytest.raises(ValueError, match="PLANTSxMONTHS"):
            Size.of(wrong)
    plant, y = counts(LECTURE)
    assert y[plant == 2].tolist() == [8, 6, 10, 8]


def test_locks_are_exact_and_name_no_index():
    locks = sorted((ROOT / "benchmarks" / "peers" / "locks").glob("*.lock"))
    environments = {method.environment for method in METHODS if method.environment}
    assert {path.stem for path in locks} == environments
    for path in locks:
        for line in path.read_text("utf-8").split():
            name, equals, version = line.partition("==")
            assert name
            assert equals
            assert version
            assert "/" not in line
