"""Improve follows the advice of failed checks; it changes no right model."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from command_line import run
from misfits import MISFITS, misfit
from tiers import mostly_campaign

import pyflowers
from pyflowers import advice
from pyflowers.analysis import improvements
from pyflowers.analysis.improvements import WARNING, follow_advice
from pyflowers.errors import ConfigError
from pyflowers.fits.sampling import Prepared

pytestmark = pytest.mark.usefixtures("in_a_shell")

OPTIONS = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 500, "draws": 500}
BETTER = "y ~ x + I(x**2)"


@pytest.fixture(scope="module")
def curved(tmp_path_factory):
    """The run folder of a line that was fitted to a curve."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=80)})
    frame["y"] = frame.x + 0.8 * frame.x**2 + rng.normal(size=80)
    folder = tmp_path_factory.mktemp("curved")
    frame.to_csv(folder / "curved.csv", index=False)
    pyflowers.fit("y ~ x", folder / "curved.csv", out=folder / "run", **OPTIONS)
    return folder / "run"


@pytest.fixture(scope="module")
def improved(curved):
    """The folder of its improvement, and the result."""
    out = curved.with_name("improved")
    return out, follow_advice(pyflowers.Fit.load(curved), out=out)


def test_the_advised_model_is_fitted_and_chosen(curved, improved):
    out, found = improved
    first, second = found.trials
    assert (first.status, second.status) == ("failed", "passed")
    assert second.change == {"program": BETTER}
    assert second.advised_by is first
    # It is the fit that the command of the advice makes.
    again = pyflowers.fit(BETTER, curved.with_name("curved.csv"), **OPTIONS)
    assert again.posterior.equals(found.chosen.posterior)
    assert pyflowers.Fit.load(out / again.name).posterior.equals(again.posterior)
    assert BETTER in found.command


def test_the_table_says_what_it_costs_and_the_notes_warn(improved):
    _, found = improved
    table = found.table()
    assert table["after"].tolist() == ["–", "1"]
    assert table["result"].tolist()[1] == "passed"
    expected = pyflowers.loo(found.fits).table()
    for number, (row, fit) in enumerate(zip(table.itertuples(), found.fits, strict=True), 1):
        assert row.elpd == expected.loc[f"Model {number}", "elpd"]
        assert row.seconds == fit.record.times.wall_seconds
    assert WARNING in found.notes
    assert f"note: {WARNING}" in " ".join(str(found).split())


def test_the_command_prints_the_same(curved, improved, capsys):
    _, found = improved
    assert run("improve", curved, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["chosen"] == found.chosen.name
    assert printed["sentence"] == found.sentence
    assert [each["result"] for each in printed["trials"]] == found.table()["result"].tolist()


def test_runs_in_the_folder_are_read_and_others_not_replaced(curved, improved, monkeypatch):
    out, found = improved
    other = pyflowers.fit("y ~ x", curved.with_name("curved.csv"), **{**OPTIONS, "seed": 9})
    monkeypatch.setattr(Prepared, "sample", None)
    again = follow_advice(pyflowers.Fit.load(curved), out=out)
    assert again.chosen.posterior.equals(found.chosen.posterior)
    refused = follow_advice(other, out=out)
    (reason,) = refused.refused.values()
    assert "--overwrite" in reason
    assert refused.chosen is None
    assert not refused.passed


def test_a_model_that_is_tried_again_has_a_run_folder_of_its_own(curved, tmp_path, monkeypatch):
    few = {**OPTIONS, "draws": 50}
    first = pyflowers.fit("y ~ x", curved.with_name("curved.csv"), **few)
    said = list[str]()
    with monkeypatch.context() as outside:
        outside.setattr(advice, "is_in_shell", lambda: False)
        found = follow_advice(first, out=tmp_path, announce=said.append)
    assert any(line.endswith("trying draws=1000") for line in said)
    assert found.refused == {}
    again = [trial for trial in found.trials if trial.change.keys() == {"draws"}]
    assert again
    for longer in again:
        name, better = longer.fit.name, longer.advised_by
        assert better.fit.name == name
        for trial, folder in ((better, name), (longer, f"{name}-2")):
            saved = pyflowers.Fit.load(tmp_path / folder)
            assert saved.posterior.equals(trial.fit.posterior)


def test_the_most_refits_are_counted(curved, monkeypatch):
    monkeypatch.setattr(improvements, "MOST_REFITS", 0)
    found = follow_advice(pyflowers.Fit.load(curved))
    assert found.left == 1
    assert found.chosen is None
    assert "1 more model was suggested" in found.notes[0]


def test_the_limits_of_the_printed_elpd_are_among_the_notes(improved):
    _, found = improved
    assert set(found.loo.cautions) <= set(found.notes)
    assert any("80 observations are too few" in note for note in found.notes)
    assert [each.name for each in found.loo.models] == [f"{BETTER}, gaussian", "y ~ x, gaussian"]


def test_the_sentence_if_no_other_model_could_be_fitted(improved):
    _, found = improved
    alone = replace(found, trials=found.trials[:1], refused={BETTER: "no"}, loo=None)
    assert alone.sentence == "y ~ x, gaussian fails, and no other model could be fitted"
    twice = replace(found, trials=found.trials[:1] * 2, loo=None)
    assert twice.sentence == "in each of 2 models, a check fails"


@pytest.mark.slow
def test_the_page_holds_the_result_and_the_command_writes_it(curved, improved, capsys):
    out, found = improved
    assert run("improve", curved, "--out", out) == 0
    page = (out / "improvement.html").read_text(encoding="utf-8")
    record = json.loads(page.split('id="record">')[1].split("</script>")[0])
    (first,) = [key for key in record if key.startswith("what-failed")]
    assert record[first]["sentence"] == found.sentence
    assert WARNING in page
    assert str(curved.parent) not in page.partition('id="verdict"')[0]
    assert "pyflowers fit" in page
    assert found.sentence in " ".join(capsys.readouterr().out.split())


def test_a_model_that_passes_is_not_changed():
    fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    found = pyflowers.improve(fit)
    assert found.chosen is fit
    assert len(found.trials) == 1
    assert not found.notes
    assert not found.command


def test_the_folder_must_not_hold_another_page(curved, tmp_path):
    (tmp_path / "improvement.html").write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match="already exists"):
        pyflowers.improve(pyflowers.Fit.load(curved), out=tmp_path)


@pytest.mark.parametrize("kind", mostly_campaign(MISFITS, ("varying slopes", "excess zeros")))
def test_a_planted_misfit_leads_to_the_planted_formula(kind):
    planted, frame = MISFITS[kind], misfit(kind, 1)
    fit = pyflowers.fit(planted.formula, frame, family=planted.family, **OPTIONS)
    best = pyflowers.improve(fit).best
    wanted = {"program": planted.formula, "family": planted.family, **planted.change}
    assert best.advised_by is not None
    assert best.fit.name == pyflowers.Spec(data=frame, **wanted).open().name


@pytest.mark.campaign
def test_tables_from_the_fitted_model_change_nothing():
    """Each of 20 tables is drawn from the posterior of a right model, which at least 18 keep."""
    planted, frame = MISFITS["varying slopes"], misfit("varying slopes", 1)
    fit = pyflowers.fit(planted.change["program"], frame, **OPTIONS)
    replicated = fit.posterior_predictive().reshape(-1, len(frame))
    kept = 0
    for y in replicated[:: len(replicated) // 20][:20]:
        again = pyflowers.fit(planted.change["program"], frame.assign(y=y), **OPTIONS)
        kept += pyflowers.improve(again).chosen is again
    assert kept >= 18
