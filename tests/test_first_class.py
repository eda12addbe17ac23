"""Every command and every plot, for shipped programs and for user programs."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import pyflowers
from pyflowers import plots
from pyflowers.analysis.elpd import loo
from pyflowers.cli.main import main
from pyflowers.fits.posterior import element_names, flat
from pyflowers.programs import Capability, find_program
from pyflowers.reports import render_report

pytestmark = pytest.mark.usefixtures("in_a_shell")

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ("iid_normal", "multilevel_normal", "multilevel_poisson", "semiconjugate_normal")
OWN = ("epil", "pumps", "rats", "seeds")
QUICK = {("multilevel_poisson", "stanli"), ("iid_normal", "cmdstan"), ("seeds", "stanli")}
SAMPLER = ["--seed", "1", "--chains", "2", "--warmup", "300", "--draws", "200"]


def reference(name):
    path = ROOT / "examples" / name / f"{name}.stan"
    return (str(path), str(path.with_suffix(".csv"))) if path.is_file() else (name, None)


def run(*words):
    """Run a command in this process and return its exit status."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code or 0


def cases():
    for name in (*SHIPPED, *OWN):
        for engine in ("stanli", "cmdstan"):
            marks = [] if (name, engine) in QUICK else [pytest.mark.slow]
            yield pytest.param(name, engine, marks=marks)


@pytest.mark.parametrize(("name", "engine"), list(cases()))
def test_every_command_and_plot(executables, name, engine, tmp_path, capsys):
    program, data = reference(name)
    table = ["--data", data] if data else []
    chosen = ["--engine", engine, *(["--cmdstan", "embedded"] if engine == "cmdstan" else [])]
    out = tmp_path / "run"
    assert run("fit", program, *table, *SAMPLER, *chosen, "--out", out) == 0
    assert {path.stem for path in (out / "plots").iterdir()} >= {"trace", "pairs", "ranks"}
    assert json.loads((out / "run.json").read_text())["engine"]["name"] == engine

    fit = pyflowers.Fit.load(out)
    assert fit.diagnostics.checks
    assert fit.idata.observed_data.sizes
    assert "log_likelihood" in fit.groups()
    every_figure(fit)
    assert loo([fit]).best.name == fit.name

    assert run("check", out, "--out", tmp_path / "checks") in (0, 3)
    assert run("predict", out, "--out", tmp_path / "predictions") == 0
    vector = next((element_names(q)[0] for q in fit.posterior.values() if q.ndim > 2), None)
    expression = vector or next(iter(fit.posterior))
    assert run("contrast", out, f"{expression} > 0", "--out", tmp_path / "contrasts") == 0
    assert expression in capsys.readouterr().out
    assert run("replay", out) == 0
    assert "bitwise equal" in capsys.readouterr().out
    html = render_report([fit])
    assert fit.program.title in html.replace("&#39;", "'")

    config = tmp_path / "experiment.toml"
    lines = [f"models = [{json.dumps(program)}]", "[sampler]", "seed = 1", "warmup = 50"]
    lines += ["draws = 20", f"engine = {json.dumps(engine)}", "[output]", "plots = 'none'"]
    lines += [f"[data]\nfile = {json.dumps(data)}"] if data else []
    config.write_text("\n".join(lines))
    given = ["--cmdstan", "embedded"] if engine == "cmdstan" else []
    assert run("fit", "--config", config, *given) == 0
    assert run("models", program) == 0


def every_figure(fit):
    """Draw each figure that the program's capabilities allow; the others raise errors."""
    always = (plots.trace_first_chain, plots.trace, plots.ranks, plots.pairs)
    by_capability = {
        plots.forest: Capability.GROUP_MEAN,
        plots.prior_posterior: Capability.PRIOR_DENSITY,
        plots.predictive: Capability.Y_REP,
        plots.shrinkage: Capability.GROUP_MEAN,
    }
    for draw in always:
        assert plots.alt_text(draw(fit))
    for draw, capability in by_capability.items():
        if fit.program.can(capability):
            assert plots.alt_text(draw(fit))
        else:
            with pytest.raises(pyflowers.ConfigError, match=capability):
                draw(fit)
    if fit.data.by_group is not None:
        assert plots.alt_text(plots.observations(fit.data))


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
def test_compare_takes_a_program_of_ones_own(name, cmdstan, tmp_path):
    program, data = reference(name)
    words = ["compare", program, "--data", data, "--seed", "1", "--cmdstan", "embedded"]
    assert run(*words, "--out", tmp_path / "out") == 0
    table = (tmp_path / "out" / "methods.csv").read_text()
    assert "nuts" in table
    assert "laplace" in table


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
def test_published_answers(name):
    """Published means and sds agree within 4 combined standard errors or the published rounding."""
    import tomllib

    program, data = reference(name)
    published = tomllib.loads(Path(program).with_name("published.toml").read_text())
    fit = pyflowers.fit(
        program, data, seed=1, draws=10_000, adapt_delta=0.95, engine="stanli", cores=2
    )
    assert fit.stats["divergent__"].sum() == 0
    summary = fit.summary()
    draws = {
        element: flat(quantity)[..., i].ravel()
        for quantity in fit.posterior.values()
        for i, element in enumerate(element_names(quantity))
    }
    wrong = []
    for element, answer in published["quantities"].items():
        row = summary.loc[element]
        # The sampling variance of a sample variance is (μ₄ − μ₂²) / n (Cramér 1946, Mathematical
        # Methods of Statistics, 27.4), so a sample sd has the variance sd² (kurtosis − 1) / 4n. By
        # quadrature, theta[2] of Pumps has kurtosis 6.5 and sd 0.0794, which lies between the sds
        # of the two samples.
        spread = np.sqrt((stats.kurtosis(draws[element], fisher=False) - 1) / 4)
        sd = answer["sd"]
        ess = answer.get("ess", (sd / answer["mcse"]) ** 2 if "mcse" in answer else 1000.0)
        for what, found, error in (
            ("mean", row["mean"], np.hypot(row["mcse_mean"], sd / np.sqrt(ess))),
            (
                "sd",
                row["sd"],
                sd * spread * np.hypot(1 / np.sqrt(ess), 1 / np.sqrt(row["ess_bulk"])),
            ),
        ):
            expected = answer[what]
            rounding = 0.5 * 10.0 ** (np.floor(np.log10(abs(expected))) + 1 - answer["digits"])
            if abs(found - expected) > max(4 * error, rounding):
                wrong.append((element, what, found, expected))
    assert wrong == []


def test_a_program_that_is_named_like_a_shipped_one(tmp_path, executables):
    path = tmp_path / "iid_normal.stan"
    path.write_text(
        "data { int N; vector[N] y; }\nparameters { real centre; real<lower=0> spread; }\n"
        "model { centre ~ normal(0, 10); spread ~ normal(0, 10); y ~ normal(centre, spread); }\n"
    )
    path.with_suffix(".toml").write_text('[data]\ny = { column = "flowers" }\n')
    flowers = ROOT / "data" / "flowers.csv"
    out = tmp_path / "run"
    words = ["fit", path, "--data", flowers, "--engine", "stanli", *SAMPLER, "--out", out]
    assert run(*words) == 0
    fit = pyflowers.Fit.load(out)
    assert list(fit.posterior) == ["centre", "spread"]
    assert not fit.program.can(Capability.EXACT)
    assert run("replay", out) == 0
    assert run("report", out, "--out", tmp_path / "r.html") == 0


@pytest.mark.quick
def test_nothing_above_the_programs_knows_a_shipped_one_by_name():
    above = ("engines", "fits", "analysis", "plots", "workflow", "reports", "cli")
    files = [f for room in above for f in (ROOT / "pyflowers" / room).rglob("*.py")]
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant):
                assert node.value not in SHIPPED, (file, node.lineno)


OF_FORMULAS = {
    *("Intercept", "Intercept_at_means", "b_adjusted", "adjustment", "X", "X_mean"),
    *("cell", "trials", "offset_", "N_pointwise"),
}
"""Variables of the programs that are written for formulas, except "b", which is also a label."""

IS_A_WORD = {
    ("analysis/findings.py", "trials"),
    ("analysis/improvements.py", "trials"),
    ("fits/remedies.py", "trials"),
}
"""A key of the words in a text of advice, and the remedies that were tried."""

LOOKS_UP = {"workflow/config.py"}
"""The file that looks up a family because a user named it."""


def test_nothing_above_the_programs_knows_a_formula_from_the_inside():
    """What a model is made of is asked of ``Model``, not of names, families or rules."""
    above = ("engines", "fits", "batches", "analysis", "plots", "workflow", "reports", "cli")
    for file in (f for room in above for f in (ROOT / "pyflowers" / room).rglob("*.py")):
        inside = file.relative_to(ROOT / "pyflowers").as_posix()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            where = (inside, getattr(node, "lineno", 0))
            if isinstance(node, ast.Constant):
                is_word = (inside, node.value) in IS_A_WORD
                assert is_word or node.value not in OF_FORMULAS, where
            if isinstance(node, ast.Name):
                assert node.id != "find_family" or inside in LOOKS_UP, where
            if isinstance(node, ast.Attribute):
                assert node.attr != "prediction", where


def test_adding_a_program_is_adding_its_files(tmp_path):
    """The copy of the package has a new .stan, .toml and capabilities, and no other change."""
    import shutil

    for folder in ("pyflowers", "stan", "data"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shipped = find_program("iid_normal")
    stan = tmp_path / "stan"
    (stan / "another.stan").write_text(shipped.path.read_text())
    toml = shipped.path.with_suffix(".toml").read_text()
    (stan / "another.toml").write_text(toml.replace("One normal", "Another normal"))
    folder = tmp_path / "pyflowers" / "lectures" / "shipped"
    (folder / "another.py").write_text((folder / "iid_normal.py").read_text())
    code = (
        "import pyflowers; fit = pyflowers.fit('another', seed=1, engine='stanli'); "
        "print(fit.program.title, fit.log_likelihood().shape, 'exact' in fit.program.capabilities)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "Another normal distribution for all (4, 1000, 12) True"
