"""All commands of the workflow for each of the four BUGS examples.

The tests of each command check whether its answers are right, and test_examples_held_out.py checks
whether refits agree with exact answers.
"""

from pathlib import Path

import pandas as pd
import pytest
from command_line import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SAMPLER = ["--chains", "2", "--warmup", "400", "--draws", "400", "--adapt-delta", "0.95"]
SAMPLER += ["--seed", "1", "--engine", "stanli"]
NARROW = {
    "epil": ("coef_sd=0.5", "tau_shape=5", "tau_rate=1"),
    "pumps": (),
    "rats": ("coef_mean=5", "coef_sd=2", "tau_shape=5", "tau_rate=5"),
    "seeds": ("coef_sd=1", "tau_shape=5", "tau_rate=1"),
}
CONTRASTS = {
    "epil": "b1[49] > b1[1]",
    "pumps": "theta[10] - theta[1]",
    "rats": "rank(beta)",
    "seeds": "sigma > 0.3",
}


def few_groups(name, folder):
    """Write a table of the first six groups; each of them is left out once."""
    frame = pd.read_csv(EXAMPLES / name / f"{name}.csv")
    group = {"epil": "patient", "pumps": "pump", "rats": "rat", "seeds": "plate"}[name]
    path = folder / "few.csv"
    frame[frame[group].isin(frame[group].unique()[:6])].to_csv(path, index=False)
    return path


def said_by(capsys):
    """Return what was printed, without the line breaks of a terminal's width."""
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
@pytest.mark.parametrize("name", list(NARROW))
def test_every_question_has_an_answer(name, tmp_path, capsys):
    program, data = EXAMPLES / name / f"{name}.stan", few_groups(name, tmp_path)
    priors = [word for prior in NARROW[name] for word in ("--prior", prior)]
    fit, out = tmp_path / "fit", tmp_path
    assert run("fit", program, "--data", data, *SAMPLER, "--out", fit) == 0
    drawn = ["--engine", "stanli", "--seed", "1", *priors]
    assert run("prior", program, data, *drawn, "--out", out / "prior") == 0
    assert run("check", fit, "--out", out / "check") in (0, 3)
    assert run("predict", fit, "--out", out / "predict") == 0
    expression = CONTRASTS[name].replace("49", "6").replace("10", "6")
    assert run("contrast", fit, expression, "--out", out / "contrast") == 0
    assert run("sensitivity", fit, "--out", out / "sensitivity") == 0
    assert run("loo", fit) == 0
    assert run("loo", fit, "--by-group") == 0
    said = capsys.readouterr().out
    assert "refits" in said
    sbc = [*SAMPLER, "--sims", "20", "--data", data, *priors]
    # With hundreds of effects, one may be outside its band by chance, so status 3 is accepted.
    assert run("sbc", program, *sbc, "--out", out / "sbc") in (0, 3)
    assert "calibrated" in said_by(capsys)
    assert len(pd.read_csv(out / "sbc" / "calibration.csv")) > 3
    assert run("sbc", program, *sbc, "--posterior", "--out", out / "posterior") in (0, 3)
    assert "cannot detect a wrong prior" in said_by(capsys)
    calibrations = ["--calibration", out / "posterior", "--calibration", out / "sbc"]
    assert run("report", fit, *calibrations, "--out", out / "report.html") == 0
    html = (out / "report.html").read_text(encoding="utf-8")
    assert html.count("Calibration of ") == 2
