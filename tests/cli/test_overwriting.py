"""A fit of the same inputs is not repeated, and only --overwrite replaces a run of others."""

import hashlib
import json
import shutil

import pytest
from click.testing import CliRunner
from synthetic_fits import synthetic_fit, table

from pyflowers.cli.main import cli
from pyflowers.engines.exact import ExactProgram
from pyflowers.engines.stanli import StanliProgram
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit

PROGRAM = """
data {{ int N; array[N] int y; real<lower=0> s; }}
parameters {{ real m; }}
model {{ m ~ normal(0, {sd}); y ~ normal(m, s); }}
"""
DECLARATION = """
title = "{title}"
[data]
y = {{ column = "flowers" }}
[priors]
s = 1.0
"""
ROWS = "plant,month,flowers\na,1,4\na,2,6\na,3,5\nb,1,1\nb,2,0\nb,3,2\n"


def variant(program="mine.stan", *, rows=ROWS, sd=5, title="mine", words=(), seed=1, draws=20):
    """Return the files of a run, with their texts, and its command."""
    seeded = () if seed is None else ("--seed", seed)
    engine = () if "--engine" in words else ("--engine", "stanli", "--warmup", 50)
    return (
        {
            "flowers.csv": rows,
            "mine.stan": PROGRAM.format(sd=sd),
            "mine.toml": DECLARATION.format(title=title),
        },
        ("fit", program, *seeded, "--draws", draws, *engine, *words),
    )


VARIANTS = {
    "first": variant(),
    "text": variant(sd=6),
    "declaration": variant(title="yours"),
    "data": variant(rows=ROWS.replace("b,3,2", "b,3,3")),
    "prior": variant(words=("--prior", "s=2")),
    "seed": variant(seed=2),
    "draws": variant(draws=30),
    "program": variant("iid_normal"),
    "engine": variant("iid_normal", words=("--engine", "exact")),
    "unseeded": variant(seed=None),
}


def fit(folder, name, out, *more):
    """Run a variant in a folder."""
    files, words = VARIANTS[name]
    for file, text in files.items():
        (folder / file).write_text(text)
    if words[1].endswith(".stan"):
        words = (words[0], folder / words[1], *words[2:])
    words = (*words, "--data", folder / "flowers.csv", "--plots", "none", "--out", out, *more)
    words = (*words, "--quiet")  # without it, remedies of so short a fit are tried
    return CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)


def digest(run):
    return hashlib.sha256((run / "draws.nc").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with the run of each variant."""
    folder = tmp_path_factory.mktemp("project")
    for name in VARIANTS:
        assert fit(folder, name, folder / name).exit_code == 0
    return folder


@pytest.fixture
def sampled(monkeypatch):
    """The recorded calls of `sample`."""
    calls = []
    for kind in (StanliProgram, ExactProgram):

        def sample(*args, real=kind.sample, **options):
            calls.append(args)
            return real(*args, **options)

        monkeypatch.setattr(kind, "sample", sample)
    return calls


@pytest.mark.parametrize("earlier", VARIANTS)
def test_nothing_but_the_same_inputs_replaces_a_run(project, sampled, earlier):
    run = project / earlier
    before = digest(run)
    for name in VARIANTS:
        # A seed that is not given is that of the run.
        if name == earlier or (name == "unseeded" and earlier in ("first", "seed")):
            continue
        with pytest.raises(ConfigError, match=r"holds another run .*--overwrite") as caught:
            fit(project, name, run)
        assert "\n" not in str(caught.value)
        assert not sampled  # refused before sampling
        assert digest(run) == before


@pytest.mark.parametrize("name", ["first", "engine", "unseeded"])
def test_the_same_inputs_are_not_fitted_again(project, sampled, name):
    """The folder is left as it is, unless --refit is given, which makes the same draws."""
    before, files = Fit.load(project / name), digest(project / name)
    for more in ((), ("--overwrite",)):
        assert fit(project, name, project / name, *more).exit_code == 0
        assert not sampled
        assert digest(project / name) == files
    assert fit(project, name, project / name, "--refit").exit_code == 0
    assert len(sampled) == 1
    again = Fit.load(project / name)
    assert all((before.draws[each] == again.draws[each]).all() for each in before.draws)


def test_a_run_without_a_seed_takes_that_of_the_folder(project, sampled):
    assert fit(project, "unseeded", project / "seed").exit_code == 0
    assert not sampled


def test_overwrite_replaces_another_run(project, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(project / "first", run)
    fit(project, "seed", run, "--overwrite")
    assert Fit.load(run).options.seed == 2


def test_a_fit_that_is_not_repeated_gets_the_figures_and_the_interval_that_are_asked(
    project, sampled, tmp_path
):
    run = tmp_path / "run"
    shutil.copytree(project / "first", run)
    draws = Fit.load(run).draws["m"]
    assert fit(project, "first", run, "--plots", "svg", "--interval", "0.5").exit_code == 0
    assert not sampled
    again = Fit.load(run)
    assert (again.draws["m"] == draws).all()
    assert again.interval == 0.5
    assert "25%" in (run / "summary.csv").read_text().splitlines()[0]
    assert {path.suffix for path in (run / "plots").iterdir()} == {".svg"}


def of_another_version(run):
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**record, "format": 99}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (of_another_version, "cannot be read"),
        (
            lambda run: (run / "run.json").write_text('{"format": 1, "options": {}}'),
            "which no earlier run wrote",
        ),
        (lambda run: (run / "run.json").unlink(), "which no earlier run wrote"),
    ],
    ids=["of another version", "without a list of files", "without a record"],
)
def test_a_run_that_cannot_be_read_is_kept(project, sampled, tmp_path, damage, message):
    run = tmp_path / "run"
    shutil.copytree(project / "first", run)
    damage(run)
    with pytest.raises(ConfigError, match=message):
        fit(project, "first", run)
    assert not sampled
    assert digest(run) == digest(project / "first")


def test_the_same_inputs_repair_a_run_whose_draws_are_damaged(project, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(project / "first", run)
    (run / "draws.nc").write_bytes(b"half")
    fit(project, "first", run)
    assert Fit.load(run).num_draws == 20


def test_a_comparison_keeps_the_run_in_another(project, sampled, tmp_path):
    shutil.copytree(project / "engine", tmp_path / "c" / "independent")
    (tmp_path / "c" / "comparison.json").write_text('{"kind": "comparison", "files": []}')
    words = ("compare", "iid_normal", "--engine", "exact", "--seed", "2", "--out", tmp_path / "c")
    with pytest.raises(ConfigError, match=r"independent holds another run .*--overwrite"):
        CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)
    assert not sampled
    assert digest(tmp_path / "c" / "independent") == digest(project / "engine")


SAVED = {
    "first": {},
    "seed": {"seed": 2},
    "draws": {"draws": 25},
    "chains": {"chains": 2},
    "priors": {"priors": {"mu_sd": 5.0}},
}


@pytest.mark.quick
@pytest.mark.parametrize("name", SAVED)
def test_save_in_python_keeps_the_rule(tmp_path, name):
    data = table(["a", "b"], 3)
    fits = [synthetic_fit("iid_normal", data, **{"draws": 20, **how}) for how in ({}, SAVED[name])]
    run = fits[0].save(tmp_path / "run")
    before = digest(run)
    if name == "first":
        fits[1].save(run)
        return
    with pytest.raises(ConfigError, match="overwrite=True"):
        fits[1].save(run)
    assert digest(run) == before
    fits[1].save(run, overwrite=True)
    assert Fit.load(run).options == fits[1].options


def test_without_out_the_run_is_written_by_the_name_of_its_program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(ROWS)
    how = ["--data", "t.csv", "--engine", "exact", "--plots", "none"]
    first = CliRunner().invoke(cli, ["fit", "iid_normal", *how])
    assert first.exit_code == 0, first.output
    assert "run folder: runs/iid_normal" in first.output
    again = CliRunner().invoke(cli, ["fit", "iid_normal", *how])
    assert "nothing changed; read from runs/iid_normal" in again.output
    (tmp_path / "t.csv").write_text(ROWS.replace("b,3,2", "b,3,3"))
    other = CliRunner().invoke(cli, ["fit", "iid_normal", *how])
    assert isinstance(other.exception, ConfigError)
    assert "run folder runs/iid_normal holds another run" in str(other.exception)


def test_the_folder_of_a_formula_is_named_by_its_program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(ROWS)
    (tmp_path / "u.csv").write_text(ROWS.replace("b,3,2", "b,3,3"))
    quick = ["--engine", "exact", "--plots", "none", "--quiet"]
    CliRunner().invoke(
        cli, ["fit", "flowers ~ 1", "--data", "t.csv", *quick], catch_exceptions=False
    )
    assert (tmp_path / "runs" / "flowers_1" / "run.json").is_file()
    both = ["--data", "t.csv", "--data", "u.csv"]
    CliRunner().invoke(cli, ["fit", "flowers ~ month", *both, *quick], catch_exceptions=False)
    assert (tmp_path / "runs" / "flowers_month" / "table-2" / "run.json").is_file()


def test_a_folder_that_cannot_hold_the_run_is_refused_before_sampling(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "iid_normal").write_text("notes")
    found = CliRunner().invoke(cli, ["fit", "iid_normal", "--engine", "exact"])
    assert "runs/iid_normal is a file" in str(found.exception)
