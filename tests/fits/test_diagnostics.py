"""The verdict and the summary: each check fails only for draws that should fail it."""

import itertools
import json
import re
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats as distributions
from scipy.signal import lfilter
from synthetic_fits import synthetic_fit, table

import pyflowers
from pyflowers.convergence import ess_bulk, mcse_quantile, r_hat
from pyflowers.data import from_frame
from pyflowers.display import format_cell, format_number
from pyflowers.engines import SamplerOptions, find_engine
from pyflowers.fits.diagnostics import diagnose, examine_prior, largest_r_hat, with_remedy
from pyflowers.fits.posterior import summarize
from pyflowers.fits.sampling import fit_data
from pyflowers.fits.verdict import Check, Part, Verdict
from pyflowers.programs import Data, MissingMoment, Model, Program, find_program
from pyflowers.programs.densities import prior_density

pytestmark = pytest.mark.usefixtures("in_a_shell")

CHAINS = ("chain", "draw")


def posterior(draws=None):
    if draws is None:
        draws = np.random.default_rng(1).normal(size=(4, 1000, 2))
    return xr.Dataset({"x": ((*CHAINS, "plant"), draws)}, {"plant": ["a", "[b]"]})


def computation(draws=None, options=None, **stats):
    found = posterior(draws)
    shape = found["x"].values.shape[:2]
    stats = {
        "divergent__": np.zeros(shape),
        "treedepth__": np.full(shape, 3.0),
        "energy__": np.random.default_rng(2).normal(size=shape),
        **stats,
    }
    return diagnose(found, stats, summarize(found), SamplerOptions(seed=1, **(options or {})))


def noise(seed=2, *, chain=0.0, num_chains=4):
    """Return draws in which the last chain is shifted."""
    draws = np.random.default_rng(seed).normal(size=(num_chains, 1000, 2))
    draws[-1] += chain
    return draws


def slow_chains(share):
    """Return chains with the given autocorrelation."""
    steps = noise(3)
    draws = steps.copy()
    for t in range(1, 1000):
        draws[:, t] = share * draws[:, t - 1] + np.sqrt(1 - share**2) * steps[:, t]
    return draws


def changed(draws, at, value):
    draws[at] = value
    return draws


def advice(found):
    return {check.name: check.advice for check in found.failed}


def every_advice(found):
    """Return the advice on checks that failed, or found the draws to be imprecise."""
    return {check.name: check.advice for check in (*found.failed, *found.imprecise)}


NONE, DEEP = np.zeros((4, 1000)), np.full((4, 1000), 10.0)
ONE, MANY = (changed(NONE.copy(), (2, slice(num)), 1) for num in (1, 200))
WALK = np.random.default_rng(4).normal(size=(4, 1000)).cumsum(1)
ONE_HIT = changed(np.full((4, 1000), 9.0), (0, 0), 10)
SIZES = {"bulk ESS", "tail ESS"}


@pytest.mark.parametrize(
    ("draws", "given", "failed"),
    [
        (None, {}, set()),
        (noise(), {"divergent__": ONE}, {"divergences"}),
        (noise(), {"treedepth__": ONE_HIT}, {"treedepth hits"}),
        (noise(), {"options": {"max_treedepth": 12}, "treedepth__": ONE_HIT}, set()),
        (noise(), {"energy__": WALK}, {"E-BFMI"}),
        (changed(noise(6), (..., 1), 1.0), {}, set()),  # a constant among parameters
        (slow_chains(0.98), {}, {"R-hat", *SIZES}),
        (np.zeros((4, 1000, 2)), {}, {"R-hat"}),
        (changed(noise(5), (1, 3, 0), np.nan), {}, {"R-hat", *SIZES}),
    ],
)
def test_each_check_fails_on_draws_made_to_fail_it_and_only_there(draws, given, failed):
    assert set(every_advice(computation(draws, **given))) == failed


def test_good_draws_are_said_to_be_so():
    found = computation()
    assert len(found.checks) == 6
    assert repr(found) == str(found) == "all 6 diagnostics pass"


def test_divergences_come_first():
    assert next(iter(advice(computation(noise(chain=0.4), divergent__=ONE)))) == "divergences"


def test_the_worst_parameter_and_chain_are_named():
    draws = noise()
    draws[3, :, 1] += 1
    assert computation(draws).failed[0].where == "x[[b]]"
    energy = np.random.default_rng(4).normal(size=(4, 1000))
    energy[2] = energy[2].cumsum()
    (check,) = computation(energy__=energy).failed
    assert check.where == "chain 3"
    assert check.value < 0.3


def test_a_sampler_without_these_statistics_is_not_asked_for_them():
    found = posterior()
    checks = diagnose(found, {"lp__": np.zeros((4, 1000))}, summarize(found)).checks
    assert [check.name for check in checks] == ["R-hat", "bulk ESS", "tail ESS"]


@pytest.mark.parametrize(
    ("draws", "given", "check", "has", "words"),
    [
        (noise(chain=0.4), {}, "R-hat", True, "run longer"),
        (noise(chain=5), {}, "R-hat", True, "the chains disagree"),
        (noise(chain=5), {}, "R-hat", False, "run longer"),
        (noise(chain=5), {}, "bulk ESS", True, "the chains disagree"),
        (noise(num_chains=1), {"options": {"chains": 1}}, "R-hat", True, "at least 2"),
        (noise(chain=0.4), {"divergent__": ONE}, "divergences", True, "--adapt-delta"),
        (noise(chain=0.4), {"divergent__": ONE}, "R-hat", True, "--adapt-delta 0.95"),
        (noise(), {"divergent__": ONE}, "divergences", True, "--adapt-delta 0.95;"),
        (noise(), {"divergent__": MANY}, "divergences", True, "0.99 --max-treedepth 12"),
        (
            *(noise(), {"options": {"adapt_delta": 0.95}, "divergent__": ONE}),
            *("divergences", True, "--adapt-delta 0.99 --max-treedepth 12"),
        ),
        (
            *(noise(), {"options": {"adapt_delta": 0.99}, "divergent__": ONE}),
            *("divergences", False, "--adapt-delta"),
        ),
        (noise(), {"treedepth__": DEEP}, "treedepth hits", True, "--max-treedepth 12"),
        (noise(chain=5), {"treedepth__": DEEP}, "treedepth hits", True, "the chains disagree"),
    ],
)
def test_advice_follows_the_cause_and_the_size_of_the_failure(draws, given, check, has, words):
    given = every_advice(computation(draws, **given))
    assert (words in given[check]) == has


def test_a_longer_run_is_advised_by_as_much_as_is_missing():
    (check,) = [c for c in computation(slow_chains(0.85)).imprecise if c.name == "bulk ESS"]
    times = int(check.advice.removeprefix("run longer: --draws ")) / 1000
    assert 400 / check.value < times < 1.5 * 400 / check.value


@pytest.mark.parametrize(("num_chains", "num_draws"), [(1, 1), (4, 1), (4, 3), (4, 20)])
def test_with_few_draws_the_remedy_is_more_draws(num_chains, num_draws):
    options = {"chains": num_chains, "draws": num_draws}
    found = advice(computation(noise()[:num_chains, :num_draws], options))
    if num_chains == 1:
        assert "at least 2" in found.pop("R-hat")
    assert found.keys() >= SIZES
    assert {each.partition(",")[0] for each in found.values()} == {"run longer: --draws 1000"}


def test_a_draw_that_is_not_finite_is_no_slow_chain():
    draws = changed(noise(5, num_chains=1), (0, 3, 0), np.nan)
    found = advice(computation(draws, {"chains": 1}))
    assert {found[name] for name in SIZES} == {
        "its draws are constant or not finite: look at the traceplot"
    }


def test_failures_have_one_remedy_and_none_waits_for_another():
    """Any combination of failures has one advice, except those of R-hat and ESS of slow chains."""
    for chain, depth, divergent in itertools.product((0, 0.4, 5), (0, 1), (0, 1)):
        stats = {"treedepth__": DEEP * depth, "divergent__": NONE + divergent}
        given = every_advice(computation(noise(chain=chain), **stats))
        assert not [each for each in given.values() if each.endswith("first")]
        assert len(set(given.values())) <= 1 or (chain == 0.4 and not divergent)


# --- Imprecise draws ------------------------------------------------------------------------------


def autocorrelated(rho, num=2, seed=3, num_draws=1000):
    """Return four chains of autoregressions that sample one distribution."""
    steps = np.random.default_rng(seed).normal(size=(4, num_draws + 200, num))
    draws = lfilter([1], [1, -rho], steps, axis=1)[:, 200:]
    return draws * np.sqrt(1 - rho**2)


def judged(draws, of_groups=(), **stats):
    found = xr.Dataset({"r": ((*CHAINS, "plant"), draws)})
    found = found.assign_coords(plant=np.arange(draws.shape[2]))
    return diagnose(found, stats, summarize(found), SamplerOptions(seed=1), None, of_groups)


@pytest.mark.quick
def test_the_largest_r_hat_of_many_effects_is_judged_as_the_largest_of_many():
    draws = autocorrelated(0.62, 340)
    by_name = {check.name: check for check in judged(draws, ["r"]).checks}
    largest = by_name["R-hat"]
    assert by_name["bulk ESS"].passed
    assert largest.value > 1.01
    assert largest.passed
    assert largest.value < largest.threshold < 1.05
    # Parameters that are not effects of groups must stay below 1.01.
    top = judged(draws)
    assert [check.name for check in top.imprecise] == ["R-hat"]
    assert top.imprecise[0].threshold == 1.01
    assert top.passed
    assert top.status == "imprecise"
    # A chain elsewhere is not excused by the number of elements.
    away = draws.copy()
    away[3, :, 7] += 1
    for of_groups in ([], ["r"]):
        assert "R-hat" in advice(judged(away, of_groups))
        assert judged(away, of_groups).checks[0].where == "r[7]"


def test_the_limit_of_the_largest_r_hat_is_seldom_exceeded_by_chance():
    """Of 12 sets of 60 elements, 0.1 are expected to exceed it; nearly all exceed 1.01."""
    alarms = above = 0
    for seed in range(12):
        draws = autocorrelated(0.7, 60, seed)
        sizes, values = np.minimum(ess_bulk(draws), 4000), r_hat(draws)
        alarms += bool((values > largest_r_hat(sizes, 60, 4, 1000)).any())
        above += bool((values > 1.01).any())
    assert alarms == 0
    assert above >= 11


def test_imprecise_draws_state_their_monte_carlo_error():
    draws = autocorrelated(0.9)
    found = judged(draws)
    assert found.passed
    assert {check.name for check in found.imprecise} >= {"bulk ESS"}
    assert found.claim == "the sampling converged, though imprecisely"
    summary = summarize(xr.Dataset({"r": ((*CHAINS, "plant"), draws)}))
    worst = int(summary[["ess_bulk", "ess_tail"]].min(axis=1).to_numpy().argmin())
    check = found.imprecise[-1]
    error = float(mcse_quantile(draws[..., worst : worst + 1], 0.05)[0])
    assert f"the 90% interval of r[{worst}], is" in check.finding
    assert f"Monte Carlo errors of {format_number(error)} and" in check.finding
    assert "must be ≥ 400" in check.finding
    assert str(found).startswith("2 of 3 diagnostics show imprecision")


def test_hits_of_the_treedepth_leave_the_fit_to_be_trusted():
    hit = computation(noise(), treedepth__=ONE_HIT)
    assert (hit.status, hit.passed, hit.tally) == (
        *("imprecise", True),
        "1 of 6 diagnostics shows imprecision",
    )
    whole = Verdict(hit, part("prior", True), part("data", True))
    assert whole.trusted
    assert whole.passed
    assert whole.sentence == "this fit can be trusted, but its draws are imprecise"
    assert "computation  imprecise " in str(whole)
    assert "→ refit with --max-treedepth 12" in str(whole)  # before a fit says it in Python
    assert whole.to_dict()["computation"]["status"] == "imprecise"
    bad = computation(noise(chain=5), treedepth__=ONE_HIT)
    assert bad.status == "failed"
    assert [check.name for check in bad.imprecise] == ["treedepth hits"]


def test_effects_of_groups_are_known_to_the_fit(monkeypatch):
    given = []

    def seen(*arguments):
        given.append(arguments[5])
        return diagnose(*arguments)

    monkeypatch.setattr("pyflowers.fits.fit.diagnose", seen)
    fit = synthetic_fit("multilevel_poisson", table(["a", "b", "c"], 6))
    assert fit.diagnostics.passed
    assert given == [["mu_plant"]]


# --- The verdict's three parts --------------------------------------------------------------------


def part(name, *passed, claim="holds"):
    checks = tuple(
        Check(f"c{i}", 1.0, 2.0, "≤" if ok else "≥", ok, "", "a source", f"advice {i}")
        for i, ok in enumerate(passed)
    )
    return Part(name, checks, "" if checks else "why not", claim, f"{name} denied")


def test_only_three_parts_that_passed_can_be_trusted():
    """All 27 combinations: the sentence, and whether the fit passed and is trusted."""
    kinds = {"passed": (True, True), "failed": (True, False), "not examined": ()}
    for statuses in itertools.product(kinds, repeat=3):
        names = ("computation", "prior", "data")
        found = Verdict(*(part(n, *kinds[s]) for n, s in zip(names, statuses, strict=True)))
        assert tuple(each.status for each in found.parts) == statuses
        assert found.trusted == (statuses == ("passed",) * 3)
        assert found.passed == ("failed" not in statuses)
        assert ("can be trusted" in str(found)) == found.trusted
        assert ("do not trust" in str(found)) == (statuses[0] == "failed")
        assert str(found).count("not examined") >= statuses.count("not examined")
        for name, status in zip(names[1:], statuses[1:], strict=True):
            if statuses[0] != "failed":
                assert (f"{name} denied" in found.sentence) == (status == "failed")


def limited_part():
    of_end = Check("maximum", 1.0, 0.9975, "≤", False, "", "", "advise", "y ends", limited=True)
    checks = (*part("data", True).checks, of_end)
    return Part("data", checks, claim="holds", denial="data denied", limits="singles are rough")


def test_a_limited_part_leaves_averages_and_effects_to_be_trusted():
    found = Verdict(part("computation", True), part("prior", True), limited_part())
    assert (found.data.status, found.limited, found.passed) == ("limited", True, True)
    assert not found.trusted
    assert found.sentence == "averages and effects can be trusted, but singles are rough"
    assert "data         limited       1 of 2 predictive checks concerns only" in str(found)
    assert "    y ends\n      → advise" in str(found)
    assert str(found.data).endswith("limited  y ends: advise")
    assert ">limited<" in found._repr_html_()
    record = found.to_dict()
    assert (record["passed"], record["trusted"]) == (True, False)
    assert record["data"]["status"] == "limited"
    assert [check["limited"] for check in record["data"]["checks"]] == [False, True]


def test_a_verdict_is_one_short_line_and_a_row_for_each_part():
    more = Part("prior", part("prior", True).checks, claim="no median moves")
    found = Verdict(part("computation", True), part("prior", True), part("data", True)).also(more)
    assert str(found).splitlines() == [
        "this fit can be trusted",
        "  computation  passed        1 diagnostic passes",
        "  prior        passed        holds, and no median moves",
        "  data         passed        holds",
    ]


def test_a_check_that_passed_has_no_finding_in_the_record():
    """Its finding, such as that a median lies beyond its limit, would be untrue."""
    passed, failed = (
        Check("median of mu", value, 2.0, "≤", value < 2, "", "", "advise", "mu lies above 2")
        for value in (1.0, 3.0)
    )
    record = Part("prior", (passed, failed)).to_dict()
    assert [check["finding"] for check in record["checks"]] == ["", "mu lies above 2"]


@pytest.mark.parametrize(
    ("computation", "prior", "sentence"),
    [
        ((True,), (False,), "holds, but prior denied and singles are rough"),
        ((True,), (), "holds, but singles are rough"),
        ((False,), (True,), "do not trust this fit: 1 of 1 diagnostic fails"),
        ((), (), "singles are rough"),
    ],
)
def test_a_limited_part_excuses_no_other(computation, prior, sentence):
    found = Verdict(part("computation", *computation), part("prior", *prior), limited_part())
    assert not found.limited
    assert not found.trusted
    assert found.sentence == sentence


def test_advice_that_several_checks_share_is_given_once():
    same = [Check(f"c{i}", 3.0, 2.0, "≤", False, "", "", "do this", f"c{i} is high") for i in "ab"]
    found = Verdict(part("computation", True), Part("prior", tuple(same)), part("data"))
    assert str(found).splitlines()[3:6] == ["    ca is high", "    cb is high", "      → do this"]


def test_more_checks_of_a_part_join_those_that_it_has():
    found = Verdict(part("computation", True), part("prior", True, claim="a"), part("data"))
    grown = found.also(part("prior", False, claim="b")).also(part("data", True, claim="c"))
    assert [each.status for each in grown.parts] == ["passed", "failed", "passed"]
    assert grown.prior.claim == "a, and b"
    assert grown.sentence == "holds, but prior denied"
    assert grown.data.note == ""
    assert found.also(Part("prior")) == found


@pytest.mark.parametrize("name", ["prior", "data"])
def test_draws_that_fail_the_diagnostics_let_no_part_pass(name):
    unsound = Verdict(part("computation", False), Part("prior"), part("data"))
    passing = getattr(unsound.also(part(name, True)), name)
    assert str(passing) == "not examined (the draws do not yet represent the posterior)"
    failing = unsound.also(part(name, True, False))
    assert getattr(failing, name).status == "failed"
    assert failing.also(part(name, True)) == failing
    # Without an ESS, nothing is known about the draws, so no part fails either.
    size = Check("bulk ESS", np.nan, 400.0, "≥", False, "", "", "")
    few = replace(unsound, computation=Part("computation", (size,)))
    assert getattr(few.also(part(name, False)), name) == passing


def test_a_verdict_is_plain_json():
    found = computation(changed(noise(5), (1, 3, 0), np.nan))
    whole = Verdict(found, part("prior", True, False), part("data"))
    values = json.loads(json.dumps(whole.to_dict(), allow_nan=False))
    assert (values["passed"], values["trusted"], values["sentence"]) == (
        False,
        False,
        str(whole).splitlines()[0],
    )
    assert [values[each.name]["status"] for each in whole.parts] == [
        "failed",
        "failed",
        "not examined",
    ]
    checks = {each["name"]: each for each in values["computation"]["checks"]}
    assert checks["R-hat"]["value"] is None
    assert checks["divergences"] == asdict(found.checks[0])
    assert values["data"] == {
        "status": "not examined",
        "checks": [],
        "note": "why not",
        "claim": "holds",
    }


# --- The summary ----------------------------------------------------------------------------------


def test_the_summary_is_what_numpy_says():
    found = posterior()
    draws = found["x"].values[..., 1].ravel()
    row = summarize(found).loc["x[[b]]"]
    want = [draws.mean(), draws.std(ddof=1), *np.quantile(draws, [0.5, 0.05, 0.95])]
    np.testing.assert_allclose(row[["mean", "sd", "median", "5%", "95%"]].astype(float), want)


def test_what_never_varies_has_no_ess():
    """An example is the corner of a Cholesky factor of a correlation matrix, which is always 1."""
    found = summarize(posterior(changed(noise(6), (..., 0), 1.0)))
    assert found.loc["x[a]", "mean"] == 1
    assert found.loc["x[a]", ["ess_bulk", "ess_tail", "r_hat"]].isna().all()
    assert found.loc["x[[b]]", ["ess_bulk", "ess_tail", "r_hat"]].notna().all()
    assert found.attrs["notes"] == ["x[a]: the same in every draw, so ESS and R-hat are undefined"]
    stuck = summarize(posterior(np.ones((4, 1000, 2))))
    assert stuck.attrs["notes"] == []
    assert (stuck["ess_bulk"] == 4000).all()


def test_moments_are_missing_element_by_element():
    """Only the moments of the affected elements are blank, and the notes name these elements."""
    draws = np.random.default_rng(1).normal(size=(4, 200, 5))
    named = {"v": ((*CHAINS, "plant"), draws), "w": (CHAINS, draws[..., 0])}
    found = xr.Dataset(named, {"plant": list("abcde")})
    some = np.array([False, True, False, False, True])
    missing = [
        MissingMoment("v", True, "its posterior mean does not exist", some),
        MissingMoment("v", False, "its posterior variance is infinite", np.arange(5) == 2),
        MissingMoment("absent", True, "not here"),
    ]
    summary = summarize(found, missing)
    blank = summary[["mean", "sd", "mcse_mean"]].isna()
    assert blank.loc["v[a]"].tolist() == [False, False, False]
    assert blank.loc["v[b]"].tolist() == [True, True, True]
    assert blank.loc["v[c]"].tolist() == [False, True, True]
    assert blank.loc["w"].tolist() == [False, False, False]
    assert summary[["median", "5%", "95%", "r_hat"]].notna().all(axis=None)
    assert summary.attrs["notes"] == [
        "v[b], v[e]: its posterior mean does not exist; use its median",
        "v[c]: its posterior variance is infinite; use its median",
    ]
    all_of_it = summarize(found, [MissingMoment("v", True, "why", np.ones(5, bool))])
    assert all_of_it.attrs["notes"] == ["v: why; use its median"]
    many = summarize(found, [MissingMoment("v", True, "why", np.arange(5) < 4)])
    assert many.attrs["notes"] == ["v[a], v[b], v[c] and 1 more: why; use its median"]


def test_one_plant_of_few_months_blanks_its_own_moments():
    """One plant has four months and seven have eight; the seven keep mean and sd."""
    rows = pd.DataFrame(table([*"abcdefgh"], 8).cells)
    short = rows[~((rows["plant"] == "c") & (rows.groupby("plant").cumcount() >= 4))]
    fit = synthetic_fit("multilevel_normal", from_frame(short))
    summary = fit.summary()
    blank = summary["sd"].isna()
    assert blank[blank].index.tolist() == ["sigma2_plant[c]"]
    (note,) = summary.attrs["notes"]
    assert note.startswith("sigma2_plant[c]: its posterior mean does not exist (2 ≤ 2 degrees")


def test_the_summary_leaves_out_moments_that_do_not_exist(lecture_fits):
    summary = lecture_fits["multilevel_normal"].summary()
    assert summary.loc["sigma2_plant[1]", ["mean", "sd", "mcse_mean"]].isna().all()
    assert np.isfinite(summary.loc["sigma2", "mean"])
    assert np.isnan(summary.loc["sigma2", "sd"])
    notes = summary.attrs["notes"]
    assert any("sigma2_plant: its posterior mean does not exist" in note for note in notes)
    plain = lecture_fits["iid_normal"].summary()
    assert plain.columns.tolist() == summary.columns.tolist()
    assert plain.columns.tolist()[:5] == ["median", "5%", "95%", "mean", "sd"]
    assert plain.attrs["notes"] == []


def test_a_summary_that_was_changed_leaves_the_fit_as_it_was():
    fit = synthetic_fit("iid_normal", table(["a", "b"], 4), draws=50)
    changed = fit.summary()
    changed.loc["mu", "mean"] = 0
    assert fit.summary().loc["mu", "mean"] != 0


def test_the_monte_carlo_error_is_that_of_the_mean():
    """In 95% of 200 repetitions the mean of independent draws is within 1.96 errors of 0."""
    rng = np.random.default_rng(8)
    inside = 0
    for _ in range(200):
        found = xr.Dataset({"x": (CHAINS, rng.normal(size=(4, 100)))})
        row = summarize(found).loc["x"]
        inside += abs(row["mean"]) < 1.96 * row["mcse_mean"]
    low, high = distributions.binom.ppf([1e-4, 1 - 1e-4], 200, 0.95)
    assert low <= inside <= high


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("", 1234.5, "1234"),
        ("", 123.45, "123"),
        ("", 12.345, "12.3"),
        ("", 0.012345, "0.0123"),
        ("", -0.5, "-0.500"),
        ("", 0.0, "0"),
        ("", 1e-9, "1e-09"),
        ("", 1.5e12, "1.5e+12"),
        ("", float("nan"), "–"),
        ("", float("inf"), "inf"),
        ("ess_bulk", 1234.5, "1234"),
        ("r_hat", 1.00049, "1.000"),
        ("mean", 2.0, "2.00"),
    ],
)
def test_numbers_have_three_digits(column, value, text):
    assert (format_cell(column, value) if column else format_number(value)) == text


# --- The prior ------------------------------------------------------------------------------------

ON_SCALE = ("mu_mean", "mu_sd", "sigma2_scale")


@pytest.fixture(scope="module")
def masses():
    """Simulated body masses in grams, with the means, sds and numbers of three penguin species."""
    rng = np.random.default_rng(1)
    species = {"Adelie": (3701, 459, 151), "Chinstrap": (3733, 384, 68), "Gentoo": (5076, 504, 123)}
    rows = [(s, i, mass) for s, of in species.items() for i, mass in enumerate(rng.normal(*of))]
    return pd.DataFrame(rows, columns=["species", "bird", "mass"])


def fit_masses(name, masses, **priors):
    columns = {"group": "species", "time": "bird", "value": "mass"}
    return pyflowers.fit(name, masses, engine="exact", seed=1, priors=priors, **columns)


@pytest.mark.parametrize("name", ["iid_normal", "multilevel_normal"])
def test_a_prior_that_the_data_contradict_fails_and_one_on_their_scale_passes(name, masses):
    found = fit_masses(name, masses).verdict
    assert found.computation.passed
    assert found.prior.status == "failed"
    assert "sigma2: its posterior median" in str(found)
    assert f"the values of mass have mean {masses['mass'].mean():.4g}" in str(found)
    options = dict(re.findall(r"--prior (\w+)=([\d.e+]+)", found.prior.failed[0].advice))
    assert tuple(options) == ON_SCALE
    advised = fit_masses(name, masses, **{k: float(v) for k, v in options.items()}).verdict
    assert advised.prior.status == "passed"
    assert not advised.trusted  # the data were not examined


def test_draws_that_are_not_those_of_the_posterior_acquit_no_prior():
    def stick(draws, stats):
        draws["mu"][0] += 5

    fit = synthetic_fit("iid_normal", table(["a", "b", "c"], 8), change=stick)
    assert fit.diagnostics.failed
    assert fit.verdict.prior.status == "not examined"
    assert not synthetic_fit("iid_normal", table(["a", "b", "c"], 8)).verdict.prior.note


def test_the_remedy_is_one_for_the_parameter_that_fails(masses):
    """The prior of sigma2_plant fails its check: its scale suits counts of flowers, not masses."""
    priors = {"mu_mean": 4200, "mu_sd": 2000, "sigma2_scale": 800}
    of_plant = {"sigma2_plant_nu": 3, "sigma2_plant_scale": 1}
    (failed,) = fit_masses("multilevel_normal", masses, **priors, **of_plant).verdict.prior.failed
    assert failed.name.startswith("median of sigma2_plant[")
    scale = float(re.search(r"--prior sigma2_plant_scale=(\d+)", failed.advice)[1])
    assert 300 < scale < 600  # the sd within a species
    advised = {**of_plant, "sigma2_plant_scale": scale}
    assert fit_masses("multilevel_normal", masses, **priors, **advised).verdict.prior.passed


def test_the_lectures_data_suit_the_lectures_priors():
    for name in ("iid_normal", "multilevel_normal", "multilevel_poisson"):
        found = pyflowers.fit(name, engine="exact", seed=1).verdict
        assert [check.name for check in found.prior.checks] == ["median of mu", "median of sigma2"]
        assert found.prior.status == "passed"


@pytest.mark.parametrize("name", ["iid_normal", "multilevel_normal", "semiconjugate_normal"])
@pytest.mark.parametrize(("center", "spread"), [(123_456, 1), (-0.003, 1e-5), (4202, 802), (7, 0)])
def test_a_suggested_prior_covers_the_data(name, center, spread):
    program = find_program(name)
    y = center + spread * np.array([-1.2, -0.4, 0.3, 1.3])

    class Data(SimpleNamespace):
        def __getitem__(self, name):
            return {"sigma2_plant_nu": -2.0, "sigma2_plant_scale": 0.0}[name]

    mean, sd, scale = program.python.priors_on_scale(Data(y=y, num_obs=4)).values()
    assert abs(y.mean() - mean) <= sd
    assert scale > 0


def test_a_program_without_declared_priors_is_not_examined(masses):
    shipped = find_program("iid_normal")
    bare = shipped.declaration.model_dump(exclude_defaults=True) | {"parameters": {}}
    program = Program.open(shipped.path, declaration=bare)
    data = {"N": 3, "y": [1.0, 2.0, 3.0]}
    found = pyflowers.fit(program, data, engine="stanli", seed=1, draws=200, warmup=200).verdict
    assert found.prior.status == "not examined"
    assert "no proper prior is declared" in str(found)


def test_a_long_vector_raises_no_more_alarms_than_a_number():
    """The limit for the most extreme of K medians is a quantile at a level divided by K."""
    summary = pd.DataFrame(
        {"median": np.zeros(1001)}, index=["mu", *map("x[{}]".format, range(1000))]
    )
    program = SimpleNamespace(
        can=lambda _: False,
        declaration=SimpleNamespace(parameters={"mu": None, "x": None}, formula=None),
        prior_of=lambda name, values: prior_density("std_normal()", {}),
        prior_on_scale=lambda name, data: "",
    )

    def limits(value):
        summary.loc["x[3]", "median"] = summary.loc["mu", "median"] = value
        found = examine_prior(Model(program, Data({})), summary).checks
        assert [c.relation for c in found] == ["≤" if value > 0 else "≥"] * 2
        assert found[1].finding.startswith("x[3]: ")
        return [c.passed for c in found]

    assert limits(2.5) == [True, True]
    assert limits(-3.0) == [False, True]
    assert limits(-4.6) == [False, False]


@pytest.mark.parametrize(
    ("prior", "passes"),
    [
        ("student_t(3, 0, 2.5)", True),  # half-t: its density is highest at 0
        ("exponential(1)", True),
        ("lognormal(0, 1)", False),
        ("inv_gamma(0.4, 0.3)", False),
    ],
)
def test_values_near_a_bound_where_the_density_is_highest_are_in_no_tail(prior, passes):
    program = SimpleNamespace(
        can=lambda _: False,
        declaration=SimpleNamespace(parameters={"sigma": None}, prior_elements={}, formula=None),
        prior_of=lambda name, values: prior_density(prior, {}, 0.0),
        prior_on_scale=lambda name, data: "",
    )
    for median, expected in ((1e-4, passes), (1.0, True), (1e9, False)):
        summary = pd.DataFrame({"median": [median]}, index=["sigma"])
        (check,) = examine_prior(Model(program, Data({})), summary).checks
        assert check.passed == expected
        assert check.passed == (
            median <= check.threshold if check.relation == "≤" else median >= check.threshold
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "priors"),
    [
        ("iid_normal", {}),
        ("multilevel_normal", {"sigma2_plant_nu": 1, "sigma2_plant_scale": 2}),
        ("multilevel_poisson", {"mu_mean": 1, "mu_sd": 1, "sigma2_nu": 5, "sigma2_scale": 0.5}),
    ],
)
def test_the_prior_is_accused_of_at_most_2_in_100_data_sets_drawn_from_it(name, priors):
    program, rng = find_program(name), np.random.default_rng(1)
    values = program.resolve_priors(priors)
    design, _ = program.fill(program.read(), values)
    drawn = Model(program, design).prior_draws(500, rng)
    exact, alarms = find_engine("exact"), 0
    for i in range(500):
        one = {quantity: draws[:, i : i + 1] for quantity, draws in drawn.items()}
        y = np.ravel(one["y_rep"] if "y_rep" in one else program.y_rep(one, design, rng))
        data = replace(design, values={**design.values, design.observed: y})
        options = SamplerOptions(seed=i, draws=250)
        found = fit_data(program, data, options, priors=priors, engine=exact)
        alarms += bool(found.verdict.prior.failed)
    assert alarms <= 10


# --- A prior that wins ----------------------------------------------------------------------------


def counts_and_measurements():
    """Return a table in which x, arm and the groups matter."""
    rng = np.random.default_rng(99)
    group, arm, x = np.repeat(np.arange(12), 10), rng.integers(0, 2, 120), rng.normal(4, 2, 120)
    eta = 0.5 * (x - 4) + 0.6 * arm + rng.normal(0, 0.5, 12)[group]
    return pd.DataFrame(
        {
            "x": x,
            "arm": np.array(["a", "b"])[arm],
            "g": [f"g{i}" for i in group],
            "y": 3 + eta + rng.normal(size=120),
            "count": rng.poisson(np.exp(0.5 + 0.5 * eta)),
            "bit": (rng.random(120) < 1 / (1 + np.exp(-1.2 * eta))).astype(int),
        }
    )


CONFLICTS = [
    (f"{response} ~ x + {other}", family, "b[x]", {"b_scale[x]": scale})
    for response, family in (("y", "gaussian"), ("count", "poisson"), ("bit", "bernoulli"))
    for other in ("arm", "(1 | g)")
    for scale in (0.002, 0.02)
] + [
    (f"{response} ~ x + arm", family, "Intercept_at_means", {"Intercept_location": -9, **scale})
    for response, family in (("y", "gaussian"), ("count", "poisson"))
    for scale in ({"Intercept_scale": 0.001}, {"Intercept_scale": 0.1})
]
"""Posteriors at the prior, and between prior and data."""


def prior_of_fit(formula, family, priors):
    fit = pyflowers.fit(
        formula, counts_and_measurements(), family=family, priors=priors, seed=1, engine="stanli"
    )
    return fit.verdict.prior, fit


@pytest.mark.slow
@pytest.mark.parametrize(("formula", "family", "parameter", "priors"), CONFLICTS)
def test_a_prior_that_contradicts_the_data_is_named(formula, family, parameter, priors):
    part, _ = prior_of_fit(formula, family, priors)
    assert any(parameter in check.name for check in part.failed)
    assert all(f"--prior {name}=" in str(part) for name in priors)
    part, _ = prior_of_fit(formula, family, {})
    assert not part.failed


def test_a_prior_that_wins_is_named():
    """The posterior is the prior, so that its median lies in no tail."""
    part, fit = prior_of_fit("count ~ x + arm", "poisson", {"b_scale[x]": 0.002})
    assert abs(fit.summary().loc["b[x]", "median"]) < 0.002
    (failed,) = part.failed
    assert failed.name == "likelihood of b[x]"
    assert failed.finding.startswith("b[x]: the estimate from the data alone is 0.3")
    assert "--prior b_scale[x]=" in failed.advice


def test_what_the_likelihood_alone_says_is_the_maximum_likelihood_estimate():
    """It hardly depends on the prior of the fit from which it is computed."""
    frame = counts_and_measurements()
    columns = np.column_stack([np.ones(120), frame.x - frame.x.mean(), frame.arm == "b"])
    beta = np.zeros(3)
    for _ in range(20):
        mean = np.exp(columns @ beta)
        information = columns.T @ (mean[:, None] * columns)
        beta += np.linalg.solve(information, columns.T @ (frame["count"] - mean))
    errors = np.diagonal(np.linalg.inv(information))
    for priors in ({}, {"b_scale[x]": 0.002}):
        _, fit = prior_of_fit("count ~ x + arm", "poisson", priors)
        alone = fit.program.python.likelihood_alone(fit.draws, fit.data)["b"]
        np.testing.assert_allclose(alone.estimate, beta[1:], rtol=1e-3)
        np.testing.assert_allclose(alone.variance, errors[1:], rtol=0.01)


def test_a_likelihood_that_bounds_nothing_contradicts_no_prior():
    """All y are 1 in arm b: its coefficient has no maximum likelihood estimate."""
    frame = counts_and_measurements()
    frame.loc[frame.arm == "b", "bit"] = 1
    fit = pyflowers.fit("bit ~ arm", frame, family="bernoulli", seed=1, engine="stanli")
    assert fit.verdict.prior.status == "passed"


@pytest.mark.parametrize("name", ["iid_normal", "multilevel_poisson", "multilevel_normal"])
def test_a_shipped_programs_prior_that_wins_is_named(name):
    priors = {"mu_mean": 50, "mu_sd": 0.1}
    part = pyflowers.fit(name, engine="exact", seed=1, priors=priors).verdict.prior
    assert "likelihood of mu" in [check.name for check in part.failed]
    assert "--prior mu_mean=" in part.failed[0].advice


def test_a_distant_covariate_with_varying_slopes_should_be_centred():
    """The advice comes first when sampling fails; a fit of such data would take two minutes."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"year": np.tile(np.arange(2005.0, 2017), 8)})
    frame["unit"] = np.repeat(list("abcdefgh"), 12)
    frame["y"] = rng.normal(size=96)
    for formula, advice in (
        ("y ~ year + (year | unit)", "write (center(year) | unit)"),
        ("y ~ center(year) + (center(year) | unit)", ""),
        ("y ~ year + (1 | unit)", ""),
    ):
        program = Program.from_formula(formula, frame)
        data, _ = program.fill(program.read(frame), program.resolve_priors())
        found = program.python.rescaling(data, 5.0)
        assert (advice in found) if advice else not found
        advised = with_remedy(part("computation", True, False), found)
        assert [each.advice for each in advised.failed] == [found or "advice 1"]
