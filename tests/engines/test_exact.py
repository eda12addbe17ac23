"""The engine of independent draws has the same labels, record and run folder as the others."""

import functools
import html
import json
import re
from html import unescape

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from synthetic_fits import same

import pyflowers
from pyflowers.cli.main import main
from pyflowers.convergence import mcse_quantile
from pyflowers.engines import SamplerOptions, exact, find_engine
from pyflowers.errors import ConfigError, UnusedOptionError
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import element_names, stacked
from pyflowers.programs import (
    Capabilities,
    Capability,
    ClosedForm,
    IndependentDraws,
    Program,
    find_program,
    shipped_names,
)
from pyflowers.reports import report
from pyflowers.workflow.config import from_record, read_config
from pyflowers.workflow.experiment import run_experiment
from pyflowers.workflow.replay import replay

pytestmark = pytest.mark.usefixtures("in_a_shell")

P = np.array([0.05, 0.5, 0.95])
POISSON, NORMAL = "multilevel_poisson", "multilevel_normal"


def table(groups, seed=3):
    """Return a table of labelled groups of unequal size, with rows in random order."""
    rows = [
        {"plant": name, "month": month, "flowers": value}
        for name, values in groups.items()
        for month, value in enumerate(values, 1)
    ]
    return pd.DataFrame(rows).sample(frac=1, random_state=seed)


PROPER = {"sigma2_plant_nu": 2.0, "sigma2_plant_scale": 1.2}
UNBALANCED = {"Rose": [4, 5, 6, 4, 9, 1], "Iris": [2], "Aster": [8, 8, 8], "Dahlia": [1, 7]}
# Other data and priors: tests/lectures/posterior/test_multilevel.py.
CASES = {
    "one normal": ("iid_normal", None, {}),
    "semiconjugate": ("semiconjugate_normal", None, {}),
    "normal, unbalanced": (NORMAL, UNBALANCED, PROPER),
    "poisson, lecture": (POISSON, None, {}),
    "poisson, unbalanced": (POISSON, UNBALANCED, {}),
}


@functools.cache
def drawn(case, draws=5_000):
    name, groups, priors = CASES[case]
    data = None if groups is None else table(groups)
    return pyflowers.fit(name, data, seed=1, priors=priors, engine="exact", draws=draws)


def check_quantiles(fit):
    """Check the shares of draws below the exact quantiles, within 4 standard errors."""
    posterior = fit.program.python.closed_form.exact(fit.data)
    num = fit.num_chains * fit.num_draws
    for name, quantity in fit.posterior.items():
        draws = quantity.values.reshape(num, -1)
        quantiles = posterior.quantile(name, P).reshape(3, 1, -1)
        share = np.mean(draws[None] <= quantiles, axis=1)
        error = np.sqrt(P * (1 - P) / num)[:, None]
        assert np.all(np.abs(share - P[:, None]) <= 4 * error), name


@pytest.mark.parametrize("case", CASES)
def test_quantiles_are_those_of_quadrature(case):
    fit = drawn(case)
    assert fit.record.engine.name == "exact"
    check_quantiles(fit)


def test_the_same_check_sees_plants_in_another_order():
    fit = drawn("poisson, unbalanced")
    swapped = {**fit.draws, "mu_plant": fit.draws["mu_plant"][..., ::-1]}
    with pytest.raises(AssertionError):
        check_quantiles(Fit(fit.program, fit.data, swapped, fit.stats, fit.record))


def check_against_nuts(data, priors=None):
    """Compare quantiles, within 4 combined errors; `priors` applies only to the exact draws."""
    nuts = pyflowers.fit(POISSON, data, seed=2, engine="stanli", adapt_delta=0.95)
    here = pyflowers.fit(POISSON, data, seed=1, engine="exact", priors=priors)
    assert element_names(nuts.posterior) == element_names(here.posterior)
    both = [stacked(fit.posterior) for fit in (nuts, here)]
    for p in P:
        values = [np.quantile(draws, p, axis=(0, 1)) for draws in both]
        error = np.hypot(*(mcse_quantile(draws, p) for draws in both))
        assert np.all(np.abs(values[0] - values[1]) <= 4 * error), p


def test_nuts_has_the_same_posterior():
    check_against_nuts(table(UNBALANCED))
    with pytest.raises(AssertionError):
        check_against_nuts(table(UNBALANCED), {"sigma2_scale": 1.0})


# A fit like any other


def test_every_shipped_program_with_the_capability_is_drawn():
    names = [n for n in shipped_names() if find_program(n).can(Capability.CLOSED_FORM)]
    assert set(names) == {case[0] for case in CASES.values()}


def test_labels_record_and_folder(tmp_path):
    fit = drawn("poisson, unbalanced", 500)
    assert set(element_names(fit.posterior["mu_plant"])) == {
        f"mu_plant[{name}]" for name in UNBALANCED
    }
    assert fit.draws["mu_plant"].shape == (4, 500, 4)
    fit.save(tmp_path / "run")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["options"] == {"seed": 1, "chains": 4, "draws": 500, "keep": []}
    assert record["centered"] is None
    again = Fit.load(tmp_path / "run")
    assert again.record == fit.record.model_copy(update={"files": again.record.files})
    assert np.array_equal(again.draws["mu_plant"], fit.draws["mu_plant"])
    pd.testing.assert_frame_equal(again.summary(), fit.summary())
    assert again.diagnostics == fit.diagnostics
    assert "log_likelihood" in fit.groups()


def test_the_verdict_says_why_r_hat_is_idle():
    verdict = drawn("poisson, lecture").diagnostics
    names = [check.name for check in verdict.checks]
    assert names == ["independent draws", "infinite quantiles", "log of density over hat"]
    assert verdict.passed
    assert "R-hat" in str(verdict)
    assert "independent" in verdict.claim
    assert {"r_hat", "ess_bulk"} <= set(drawn("poisson, lecture").summary())


def test_too_few_draws_fail():
    verdict = pyflowers.fit(POISSON, seed=1, engine="exact", draws=50).diagnostics
    assert [check.name for check in verdict.failed] == ["independent draws"]
    assert "raise --draws" in str(verdict)


def test_draws_that_are_infinite_fail():
    fit = drawn("poisson, lecture")
    draws = {**fit.draws, "mu_plant": np.where(fit.draws["mu_plant"] > 3, np.inf, 1.0)}
    verdict = Fit(fit.program, fit.data, draws, fit.stats, fit.record).diagnostics
    assert [check.name for check in verdict.failed] == ["infinite quantiles"]


def test_replay(tmp_path):
    drawn("poisson, lecture", 500).save(tmp_path / "run")
    assert replay(tmp_path / "run").verdict == "bitwise equal"
    other = replay(tmp_path / "run", engine="stanli")
    assert other.verdict == "statistically equal"
    assert "the engine was exact and is stanli" in other.notes
    pyflowers.fit("iid_normal", seed=3, engine="stanli").save(tmp_path / "nuts")
    assert replay(tmp_path / "nuts", engine="exact").verdict == "statistically equal"


def test_an_experiment_takes_it_again_only_when_something_changed(tmp_path):
    (tmp_path / "e.toml").write_text(
        "models = ['iid_normal']\n[sampler]\nseed = 1\nengine = 'exact'\ndraws = 200\n"
        "[output]\nfolder = 'out'\nplots = 'none'\n"
    )
    experiment = read_config(tmp_path / "e.toml")
    assert run_experiment(experiment)[0].refitted
    (again,) = run_experiment(experiment)
    assert not again.refitted
    assert from_record(again.fit.record).sampler.engine == "exact"
    more = experiment.with_values(sampler={"draws": 300})
    assert run_experiment(more)[0].refitted == ("draws was 200 and is 300",)


def test_a_comparison_and_a_report_call_the_draws_what_they_are(executables, tmp_path):
    fit = drawn("one normal")
    found = pyflowers.compare(nuts=fit, cmdstan="embedded")
    assert found.reference == "independent"
    assert "nuts" not in found.results
    assert (found.table().xs("independent", level="method")["sd_ratio"] == 1).all()
    report([fit], tmp_path / "r.html", comparisons={fit.name: found})
    page = unescape(re.sub(r"<[^>]+>", "", (tmp_path / "r.html").read_text()))
    for output in ("Independent draws against closed-form VB", "--engine exact", "not judged"):
        assert output in page
    for word in ("NUTS", "--warmup", "adapt_delta"):
        assert word not in page


def test_a_report_of_summaries(tmp_path):
    few = pyflowers.fit(POISSON, seed=1, engine="exact", keep=("mu_plant[2]",))
    report([few], tmp_path / "r.html")
    page = html.unescape((tmp_path / "r.html").read_text())
    assert "only some groups' draws were kept" in page
    assert "--keep" in page
    assert "mu_plant[3]" in page


# Meaningless options are refused

IDLE = {
    "warmup": 1000,
    "adapt_delta": 0.9,
    "max_treedepth": 10,
    "thin": 1,
    "inits": 0,
    "centered": True,
}


@pytest.mark.parametrize(
    ("engine", "option", "value"),
    [*(("exact", *each) for each in IDLE.items()), ("stanli", "keep", ("mu",))],
)
def test_an_option_that_means_nothing_is_refused(engine, option, value):
    with pytest.raises(UnusedOptionError, match=f"^{option} is not used by the engine {engine}"):
        pyflowers.fit(POISSON, engine=engine, **{option: value})


def test_the_draws_do_not_depend_on_the_cores():
    groups = {f"Plant {i}": [i % 7, i % 5, 9] for i in range(40)}  # three blocks
    for name in (POISSON, NORMAL):
        one, two = (
            pyflowers.fit(name, table(groups), seed=3, engine="exact", cores=cores)
            for cores in (1, 2)
        )
        for parameter, draws in one.draws.items():
            np.testing.assert_array_equal(two.draws[parameter], draws)


@pytest.mark.parametrize(
    "words", [("--warmup", "1000"), ("--adapt-delta", "0.9"), ("--thin", "1")], ids=lambda w: w[0]
)
def test_the_command_line_calls_it_wrong_usage(words, tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        main(["fit", "iid_normal", "--engine", "exact", *words, "--out", str(tmp_path / "run")])
    assert left.value.code == 2
    assert words[0][2:].replace("-", "_") in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_file_is_refused_as_well(tmp_path):
    (tmp_path / "e.toml").write_text("[sampler]\nengine = 'exact'\nwarmup = 1000\n")
    with pytest.raises(UnusedOptionError, match=r"^warmup"):
        run_experiment(read_config(tmp_path / "e.toml"))


def test_the_command_line_prints_and_saves(tmp_path, capsys):
    words = ["fit", POISSON, "--engine", "exact", "--seed", "1", "--plots", "none", "--check"]
    with pytest.raises(SystemExit) as left:
        main([*words, "--draws", "200", "--out", str(tmp_path / "run")])
    assert left.value.code == 0
    output = capsys.readouterr().out
    assert "independent" in output
    assert "4 chains × 200 (seed 1, engine exact)" in output
    assert Fit.load(tmp_path / "run").num_draws == 200


# Draws of few elements, summaries of all


@pytest.mark.parametrize("name", [POISSON, NORMAL])
def test_what_is_summarised_is_what_would_be_held(name, tmp_path):
    priors = PROPER if name == NORMAL else {}
    data = table(UNBALANCED)
    whole = pyflowers.fit(name, data, seed=1, engine="exact", priors=priors, draws=500)
    few = pyflowers.fit(
        name, data, seed=1, engine="exact", priors=priors, draws=500, keep=("mu_plant[Iris]",)
    )
    pd.testing.assert_frame_equal(few.summary(), whole.summary(), rtol=1e-12)
    assert few.summary().attrs == whole.summary().attrs
    assert element_names(few.posterior["mu_plant"]) == ["mu_plant[Iris]"]
    place = element_names(whole.posterior["mu_plant"]).index("mu_plant[Iris]")
    assert np.array_equal(few.draws["mu_plant"][..., 0], whole.draws["mu_plant"][..., place])
    assert "sigma2_plant" not in few.draws
    again = Fit.load(few.save(tmp_path / "run"))
    pd.testing.assert_frame_equal(again.summary(), few.summary())
    assert again.diagnostics == few.diagnostics
    assert again.omitted_groups == ("log_likelihood", "posterior_predictive")
    assert list(again.idata.posterior["plant"].values) == ["Iris"]
    assert replay(tmp_path / "run").verdict == "bitwise equal"


def test_too_many_draws_are_summarised(monkeypatch, tmp_path):
    whole = drawn("poisson, unbalanced", 500)
    monkeypatch.setattr(exact, "LARGEST", 4 * 500 * 4 - 1)
    few = pyflowers.fit(POISSON, table(UNBALANCED), seed=1, engine="exact", draws=500)
    assert set(few.draws) == {"mu", "sigma2"}
    pd.testing.assert_frame_equal(few.summary(), whole.summary(), rtol=1e-12)
    again = Fit.load(few.save(tmp_path / "run"))
    pd.testing.assert_frame_equal(again.summary(), few.summary())


def test_what_needs_all_draws_says_so():
    few = pyflowers.fit(POISSON, seed=1, engine="exact", keep=("mu",))
    assert not few.program.can(Capability.LOG_LIK)
    with pytest.raises(ConfigError, match="only some groups' draws were kept"):
        few.log_likelihood()
    with pytest.raises(ConfigError, match="only some groups' draws were kept"):
        pyflowers.compare(nuts=few)


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("theta", "has no such quantity; it has mu, sigma2, mu_plant"),
        ("mu_plant[Rose]", "has no element 'Rose'; its elements are 1 to 3"),
        ("mu[1]", "only elements of vectors can be named"),
    ],
)
def test_what_cannot_be_kept(name, output):
    with pytest.raises(ConfigError, match=output):
        pyflowers.fit(POISSON, engine="exact", keep=(name,))


def test_plain_data_name_elements_by_number():
    data = {"N": 5, "P": 3, "y": [1, 2, 3, 4, 5], "plant": [3, 3, 1, 2, 2]}
    fit = pyflowers.fit(POISSON, data, seed=1, engine="exact", keep=("mu_plant[3]",))
    whole = pyflowers.fit(POISSON, data, seed=1, engine="exact")
    check_quantiles(whole)
    assert element_names(fit.posterior["mu_plant"]) == ["mu_plant[3]"]
    assert np.array_equal(fit.draws["mu_plant"][..., 0], whole.draws["mu_plant"][..., 2])


# A user program

STAN = """
data { int<lower=0> n; int<lower=0> k; }
parameters { real<lower=0, upper=1> p; }
model { k ~ binomial(n, p); }
"""


def beta(data, num_draws, rng):
    n, k = int(data["n"]), int(data["k"])
    return IndependentDraws({"p": rng.beta(k + 1, n - k + 1, num_draws)})


@pytest.fixture
def own(tmp_path):
    def make(draw=beta, text=STAN):
        (tmp_path / "coin.stan").write_text(text)
        python = Capabilities(closed_form=ClosedForm(draw=draw))
        return Program.open(tmp_path / "coin.stan", python=python)

    return make


def test_a_program_of_ones_own_is_drawn(own, tmp_path):
    fit = pyflowers.fit(own(), {"n": 9, "k": 3}, seed=1, engine="exact")
    share = np.mean(fit.draws["p"] <= stats.beta(4, 7).ppf(P)[:, None, None], axis=(1, 2))
    assert np.all(np.abs(share - P) <= 4 * np.sqrt(P * (1 - P) / 4000))
    assert fit.diagnostics.passed
    assert same(Fit.load(fit.save(tmp_path / "run")), fit)


def test_a_program_without_the_capability_is_refused(own):
    with pytest.raises(ConfigError, match=r"coin has no closed_form.* give Program a ClosedForm"):
        pyflowers.fit(own(None), {"n": 9, "k": 3}, engine="exact")


@pytest.mark.parametrize(
    ("text", "output"),
    [
        (
            STAN + "generated quantities { real q = 1 - p; }",
            "q is in the program, but not in its closed form",
        ),
        (
            STAN.replace(" p;", " q;").replace(", p)", ", q)"),
            "is in (the program|its closed form), but not in",
        ),
    ],
    ids=["one more", "another"],
)
def test_a_closed_form_draws_what_the_program_declares(own, text, output):
    with pytest.raises(ConfigError, match=output):
        pyflowers.fit(own(text=text), {"n": 9, "k": 3}, engine="exact")


def test_the_engine_alone():
    loaded = find_engine("exact").load(find_program(POISSON))
    assert loaded.engine == "exact"
    assert set(loaded.versions) == {"pyflowers", "numpy", "scipy"}
    program = loaded.program  # type: ignore[attr-defined]
    data = program.fill(program.read(), program.resolve_priors())[0]
    sample = loaded.sample(program.stan_values(data), SamplerOptions(seed=1, chains=1, draws=7))
    assert sample.draws["mu_plant"].shape == (1, 7, 3)
    assert 0.25 < sample.independent["plant_acceptance"] <= 1
    assert not sample.stats
