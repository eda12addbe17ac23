"""Every new family, and one of each link, with every command on one small fit."""

import json

import numpy as np
import pytest
from command_line import run
from family_cases import NEW, TEXTS, response_of, table

import pyflowers
from pyflowers.programs.families import find_family

HOW = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 200, "draws": 100}
QUICK = ("hurdle_negbinomial",)
LINKS = ("cumulative(cloglog)", "poisson(softplus)", "gaussian(log)", "gamma(inverse)")


def fit_of(text, **more):
    formula = f"{response_of(text)} ~ x + (1 | g)"
    return pyflowers.fit(formula, table(), family=text, **{**HOW, **more})


@pytest.mark.parametrize(
    "text",
    [
        text if text in QUICK else pytest.param(text, marks=pytest.mark.slow)
        for text in TEXTS
        if text in (*NEW, *QUICK, *LINKS)
    ],
)
def test_a_family_goes_through_every_command(text, tmp_path, capfd):
    fit, out = fit_of(text), tmp_path / "run"
    family = find_family(text)
    fit.save(out)
    # Predictions are the definition, from the draws.
    rows = table().head(3)
    eta = fit.draws["b"][..., 0][..., None] * rows.x.to_numpy()
    if not family.is_ordinal:
        eta = eta + fit.draws["Intercept"][..., None]
    eta = eta + fit.draws["r_g"][..., [list("abcdefgh").index(g) for g in rows.g]]
    linear = pyflowers.predict(fit, rows, kind="linear").draws().to_numpy()
    np.testing.assert_allclose(linear, eta, rtol=1e-10, atol=1e-10)
    drawn = pyflowers.predict(fit, rows, kind="observation", seed=1).draws()
    assert np.isfinite(drawn).all()
    capfd.readouterr()
    commands = [["check", out], ["loo", out], ["predict", out], ["sensitivity", out]]
    if family.link != "inverse":  # its mean over groups does not exist
        commands.append(["effects", out])
    for command in commands:
        status = run(*command, "--json")
        printed = capfd.readouterr()
        assert status in (0, 3), (command, printed.err)
        assert json.loads(printed.out)
    data = tmp_path / "table.csv"
    table().to_csv(data, index=False)
    formula = f"{response_of(text)} ~ x + (1 | g)"
    what = (formula, "--family", family.name, "--link", family.link, "--data", data)
    if "inverse" not in text:
        assert run("prior", *what, "--seed", 1, "--draws", 50, "--json") == 0
        assert json.loads(capfd.readouterr().out)
    assert run("report", out, "--out", tmp_path / "report.html") == 0
    assert run("new", tmp_path / "mine.stan", *what) == 0
    again = pyflowers.fit(tmp_path / "mine.stan", data, **HOW)
    for name, draws in fit.draws.items():
        np.testing.assert_array_equal(again.draws[name], draws)
