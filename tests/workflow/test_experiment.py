"""Only models that changed are refitted, and the reason is reported."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from command_line import run as status_of

import pyflowers
from pyflowers.cli.fit import fit_command
from pyflowers.cli.main import cli
from pyflowers.engines.cmdstan import CmdStanEngine
from pyflowers.errors import ConfigError, FitError
from pyflowers.fits.fit import Fit
from pyflowers.fits.folder import run_changes
from pyflowers.fits.key import EngineRecord
from pyflowers.fits.posterior import element_names
from pyflowers.fits.sampling import prepare
from pyflowers.programs import find_program
from pyflowers.programs.data import to_frame
from pyflowers.workflow.config import (
    DataConfig,
    Experiment,
    OutputConfig,
    SamplerConfig,
    from_record,
    read_config,
)
from pyflowers.workflow.experiment import run_experiment

MODEL = "iid_normal"

LACKING = "a,1,4\na,2,6\nb,1,1\nb,2,0\nb,3,2\n"
"""Rows without an observation of the third month of the first plant."""


@pytest.fixture(scope="module")
def earlier(lecture_fits, cmdstan):
    """A finished run, and the inputs that would reproduce it."""
    fit = lecture_fits[MODEL]
    model = find_program(MODEL)
    loaded = CmdStanEngine(cmdstan).load(model)
    experiment = Experiment().with_values(models=[MODEL], sampler={"seed": 1})

    def why(record=fit.record, experiment=experiment, data=fit.data):
        prepared = prepare(experiment.specs()[0], model, data, CmdStanEngine(cmdstan))
        return run_changes(record, prepared.record)

    return fit, experiment, loaded, why


def test_nothing_changed_is_no_reason(earlier):
    fit, _, _, why = earlier
    assert why() == []
    assert why(experiment=from_record(fit.record)) == []
    near = fit.record.model_copy(update={"inits_sha256": "another"})
    assert why(record=near) == ["the initial values changed"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sampler": {"seed": 2}}, "seed was 1 and is 2"),
        ({"sampler": {"draws": 500}}, "draws was 1000 and is 500"),
        ({"sampler": {"adapt_delta": 0.99}}, "adapt_delta was 0.9 and is 0.99"),
        ({"priors": {MODEL: {"mu_sd": 5}}}, "prior mu_sd was 100.0 and is 5.0"),
        ({"sampler": {"seed": 1, "thin": 2}}, "thin was 1 and is 2"),
    ],
)
def test_a_changed_option_is_the_reason(earlier, changes, reason):
    _, experiment, _, why = earlier
    assert why(experiment=experiment.with_values(**changes)) == [reason]


def test_changed_data_and_programs_are_reasons(earlier):
    fit, _, loaded, why = earlier
    model = find_program(MODEL)
    frame = to_frame(fit.data)
    frame.loc[3, "flowers"] += 1
    assert why(data=model.read(frame)) == ["the data changed: column flowers"]
    versions = {**loaded.versions, "compiler": "g++ 3"}
    engine = EngineRecord(name="cmdstan", key="another", versions=versions)
    (reason,) = why(fit.record.model_copy(update={"engine": engine}))
    assert reason.startswith("version of compiler was g++ 3 and is ")
    engine = EngineRecord(name="stanli", key="another", versions={})
    record = fit.record.model_copy(update={"engine": engine})
    assert why(record) == ["the engine was stanli and is cmdstan"]
    engine = EngineRecord(name="cmdstan", key="another", versions=dict(loaded.versions))
    for change, reason in (
        ({"sha256": "another"}, f"program {model.path} changed"),
        ({"declaration": {"title": "other"}}, "the declaration changed"),
        ({"name": "theirs"}, "the program was theirs and is iid_normal"),
    ):
        changes = {"program": fit.record.program.model_copy(update=change)}
        if "sha256" in change:
            changes["engine"] = engine
        assert why(fit.record.model_copy(update=changes)) == [reason]


@pytest.fixture
def write(tmp_path):
    """An experiment of one model on two plants, in a file."""

    def written(**changes):
        rows = changes.get("rows", "a,1,4\na,2,6\na,3,5\nb,1,1\nb,2,0\nb,3,2\n")
        (tmp_path / "data.csv").write_text(f"plant,month,flowers\n{rows}")
        path = tmp_path / "e.toml"
        path.write_text(
            f"models = {changes.get('models', [MODEL])}\n[data]\nfile = 'data.csv'\n"
            f"[sampler]\n{changes.get('seed', 'seed = 3')}\nwarmup = 200\ndraws = 200\n"
            f"[output]\nfolder = 'out'\nplots = '{changes.get('plots', 'none')}'\n"
        )
        return path

    return written


def run(*words):
    arguments = [*map(str, words), "--cmdstan", "embedded"]
    return CliRunner().invoke(cli, arguments, catch_exceptions=False)


@pytest.mark.slow
def test_fit_config_refits_what_changed_and_says_why(write, tmp_path, executables):
    first = run("fit", "--config", write(plots="svg"))
    assert f"{MODEL}: fitted, because there is no run yet" in first.output
    folder = tmp_path / "out" / MODEL
    assert {path.name for path in (folder / "plots").iterdir()} == {
        *("trace_first_chain.svg", "trace.svg", "pairs.svg", "ranks.svg"),
        "predictive.svg",
    }
    draws = (folder / "draws.nc").read_bytes()

    second = run("fit", "--config", write(plots="svg"))
    assert f"{MODEL}: not refitted, because nothing changed; read from {folder}" in second.output
    assert (folder / "draws.nc").read_bytes() == draws

    # Figures of another format are drawn from the same draws.
    other = run("fit", "--config", write(), "--plots", "png")
    assert "nothing changed" in other.output
    assert {path.suffix for path in (folder / "plots").iterdir()} == {".png"}
    assert (folder / "draws.nc").read_bytes() == draws

    third = run("fit", "--config", write(), "--seed", "4")
    assert f"{MODEL}: fitted, because seed was 3 and is 4" in third.output

    fourth = run("fit", "--config", write(rows="a,1,4\na,2,6\na,3,5\nb,1,1\nb,2,0\nb,3,9\n"))
    assert "fitted, because the data changed: column flowers; seed was 4 and is 3" in fourth.output


def test_a_file_without_a_seed_uses_the_seed_that_was_drawn_earlier(write, tmp_path, executables):
    assert "fitted, because there is no run yet" in run("fit", "--config", write(seed="")).output
    seed = Fit.load(tmp_path / "out" / MODEL).options.seed
    again = run("fit", "--config", write(seed=""))
    assert f"{MODEL}: not refitted, because nothing changed" in again.output
    assert Fit.load(tmp_path / "out" / MODEL).options.seed == seed


def test_the_command_line_overrides_the_file(write, tmp_path, executables):
    both = write(models=[MODEL, "multilevel_poisson"])
    run("fit", MODEL, "--config", both, "--out", tmp_path / "mine", "--plots", "png")
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {MODEL}
    assert (tmp_path / "mine" / MODEL / "plots" / "trace.png").is_file()
    again = run("fit", MODEL, "--config", both, "--out", tmp_path / "mine", "--prior", "mu_sd=50")
    assert f"{MODEL}: fitted, because prior mu_sd was 100.0 and is 50.0" in again.output
    with pytest.raises(ConfigError, match=r"mine\.stan: no such Stan program"):
        run("fit", "mine.stan", "--config", both)
    with pytest.raises(ConfigError, match=r"prior mu_std: none of iid_normal, multilevel_poisson"):
        run("fit", "--config", both, "--prior", "mu_std=1")


@pytest.mark.parametrize(
    ("program", "kept"), [("a.stan", {"a": {"s": 1.0}}), (MODEL, {}), ("c.stan", {})]
)
def test_a_program_of_the_command_line_leaves_the_priors_of_the_others_out(tmp_path, program, kept):
    path = tmp_path / "e.toml"
    path.write_text("models = ['a.stan', 'b.stan']\n[priors.a]\ns = 1\n[priors.b]\ns = 2\n")
    alone = read_config(path).with_options(program=program)
    assert (alone.models, alone.priors) == ((program,), kept)
    changed = read_config(path).with_options(program=program, priors={"mu_sd": 3.0})
    name = Path(program).stem
    assert changed.priors == {name: {**kept.get(name, {}), "mu_sd": 3.0}}


def test_a_prior_of_the_command_line_goes_to_the_models_that_have_it():
    both = Experiment().with_values(models=[MODEL, "multilevel_poisson"])
    priors = {"sigma2_plant_nu": 1, "sigma2_plant_scale": 2}
    spread = Experiment().with_options(models=("multilevel_normal", MODEL), priors=priors)
    assert spread.priors == {"multilevel_normal": priors, MODEL: {}}
    with pytest.raises(ConfigError, match="prior x: none of iid_normal, multilevel_poisson has"):
        both.with_options(priors={"x": 1})


def test_no_option_of_fit_is_ignored_beside_a_file(write):
    """Each option overrides a key, or is handled separately."""
    sections = (Experiment, DataConfig, SamplerConfig, OutputConfig)
    keys = {name for section in sections for name in section.model_fields} | {"data", "out"}
    handled = {"program", "config", "cmdstan", "overwrite", "refit", "source", "in_full", "warm"}
    assert {parameter.name for parameter in fit_command.params} - keys == handled
    file = read_config(write())
    assert file.with_options(thin=3).sampler.thin == 3
    assert file.with_options(include_paths=("lib",)).include_paths == (Path("lib"),)
    assert file.with_options(group="Beet", sep=";").data.reading == {"group": "Beet", "sep": ";"}
    assert file.with_options(centered=True, out="o").output.folder == Path("o")


def test_check_makes_a_failing_fit_fail(write, executables):
    # Sixteen draws cannot pass, because their effective sample size is far below 100 per chain.
    words = ("fit", "--config", write(), "--draws", "4", "--warmup", "100")
    assert run(*words).exit_code == 0
    result = CliRunner().invoke(cli, [*map(str, words), "--check"], standalone_mode=False)
    assert result.return_value == 3


def test_a_model_that_refuses_the_data_does_not_stop_the_others(write, executables, capfd):
    path = write(rows=LACKING, models=["multilevel_normal", MODEL])
    assert status_of("fit", "--config", path, "--cmdstan", "embedded") == 3
    printed = capfd.readouterr()
    assert "multilevel_normal: not fitted: " in printed.err
    assert "'a' has 2 of the 3 observations" in printed.err
    assert f"{MODEL}: fitted" in printed.out


def test_an_experiment_without_a_fit_is_an_error_even_when_quiet(write, capfd):
    path = write(rows=LACKING, models=["multilevel_normal"])
    assert status_of("fit", "--config", path, "--quiet") == 1
    printed = capfd.readouterr()
    assert printed.out == ""
    first, last = printed.err.splitlines()
    assert first.startswith("multilevel_normal: not fitted: ")
    assert last == f"error: {path}: no model could be fitted, for the reasons above"


def test_a_formula_ignores_the_column_names_that_other_models_need(tmp_path):
    (tmp_path / "d.csv").write_text("plot,month,flowers\na,1,4\na,2,6\nb,1,1\nb,2,0\n")
    file = tmp_path / "e.toml"
    models = ["multilevel_poisson", "flowers ~ 1 + (1 | plot)"]
    head = f"models = {models}\nfamily = 'poisson'\n"
    file.write_text(f"{head}[data]\nfile = 'd.csv'\ngroup = 'plot'\n")
    shipped, formula = (spec.open() for spec in read_config(file).specs())
    assert shipped.name == "multilevel_poisson"
    assert "r_plot" in formula.source.text
    experiment = read_config(file)
    readings = [experiment.data.reading_of(model, models) for model in models]
    assert readings == [{"group": "plot"}, {}]
    with pytest.raises(ConfigError, match="a formula names its own columns"):
        experiment.with_options(models=models[1:]).specs()[0].open()


def test_an_unreadable_run_is_fitted_again(write, tmp_path, executables, cmdstan):
    experiment = Experiment().with_values(
        models=[MODEL],
        sampler={"seed": 3, "warmup": 100, "draws": 100},
        output={"folder": tmp_path / "out"},
    )
    folder = tmp_path / "out" / MODEL
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{")
    with pytest.raises(ConfigError, match=r"contains run\.json, which no earlier run wrote"):
        run_experiment(experiment, cmdstan="embedded")
    (folder / "run.json").write_text('{"format": 0, "options": {}}')
    (outcome,) = run_experiment(experiment, cmdstan="embedded")
    assert outcome.refitted == ("the earlier run cannot be read",)


def test_an_experiment_does_not_replace_the_run_of_another_program(write, own_program, tmp_path):
    """The experiment stops before sampling; a report also replaces no run on changed data."""
    theirs = own_program(
        MODEL, BROKEN.replace('reject("never fitted"); ', ""), folder=tmp_path / "x"
    )
    run = pyflowers.fit(theirs, {"N": 1, "y": [2]}, seed=1, draws=20, warmup=50, engine="stanli")
    folder = run.save(tmp_path / "out" / MODEL)
    words = (
        "fit",
        "--config",
        str(write(models=["multilevel_poisson", MODEL])),
        "--engine",
        "stanli",
    )
    with pytest.raises(ConfigError, match=r"holds another run \(the folder holds a run of iid_n"):
        CliRunner().invoke(cli, words, catch_exceptions=False)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [MODEL]
    assert Fit.load(folder).data.y.tolist() == [2]
    assert CliRunner().invoke(cli, (*words, "--overwrite")).exit_code == 0
    assert len(Fit.load(folder).data.y) == 6
    words = ("report", "--engine", "stanli", "--model", MODEL, "--runs", str(tmp_path / "out"))
    words += ("--seed", "9", "--out", str(tmp_path / "r.html"))
    with pytest.raises(ConfigError, match=r"the data changed: .*seed was 3 and is 9.*--overwrite"):
        CliRunner().invoke(cli, words, catch_exceptions=False)
    assert len(Fit.load(folder).data.y) == 6


BROKEN = """
data { int N; array[N] int y; }
parameters { real mu; }
model { mu ~ normal(0, 1); reject("never fitted"); }
"""


def test_a_fit_that_fails_loses_nothing_of_those_before(write, own_program, tmp_path, executables):
    """Each run is saved when it ends: after the third one fails, the first two remain."""
    own_program("broken", BROKEN, '[data]\ny = { column = "flowers" }')
    seen = []
    experiment = read_config(write(models=[MODEL, "multilevel_poisson", "broken.stan"]))
    with pytest.raises(FitError, match="never fitted"):
        run_experiment(experiment, cmdstan="embedded", finished=seen.append)
    assert [outcome.name for outcome in seen] == [MODEL, "multilevel_poisson"]
    for outcome in seen:
        assert Fit.load(outcome.folder).num_draws == 200
    assert not (tmp_path / "out" / "broken").exists()


def test_programs_of_ones_own_are_part_of_an_experiment(write, own_program, tmp_path, executables):
    """A shipped program and a user program have one table; then the declaration changes."""
    text = """
    data { int N; array[N] int y; int P; array[N] int<lower=1, upper=P> plant; }
    parameters { vector[P] log_rate; }
    model { log_rate ~ normal(0, 3); y ~ poisson_log(log_rate[plant]); }
    """
    declaration = '[data]\ny = { column = "flowers" }\n'
    own_program("rates", text, declaration)
    config = write(models=[MODEL, "rates.stan"])
    outcomes = run_experiment(read_config(config), cmdstan="embedded")
    assert [outcome.name for outcome in outcomes] == [MODEL, "rates"]
    assert element_names(outcomes[1].fit.posterior["log_rate"]) == ["log_rate[a]", "log_rate[b]"]
    again = run_experiment(read_config(config), cmdstan="embedded")
    assert [outcome.refitted for outcome in again] == [(), ()]
    (tmp_path / "rates.toml").write_text(declaration + '[dims]\nlog_rate = ["pot"]\n')
    third = run_experiment(read_config(config), cmdstan="embedded")
    assert [outcome.refitted for outcome in third] == [(), ("the declaration changed",)]


def test_a_folder_conflict_is_found_before_anything_is_compiled(
    write, own_program, monkeypatch, executables
):
    data = "data { int N; vector[N] y; }\nparameters { real m; }\n"
    declaration = '[data]\ny = { column = "flowers" }\n'
    own_program("mine", data + "model { y ~ normal(m, 1); m ~ normal(0, 9); }", declaration)
    config = write(models=["mine.stan"])
    how = ["fit", "--config", str(config), "--engine", "stanli"]
    assert CliRunner().invoke(cli, how).exit_code == 0

    def compiled(*_):
        raise AssertionError("a compiler was called")

    monkeypatch.setattr("pyflowers.toolchain.build._make", compiled)
    own_program("mine", data + "model { y ~ normal(m, 1); m ~ normal(0, 8); }", declaration)
    experiment = read_config(config)
    with pytest.raises(ConfigError, match="holds another run"):
        run_experiment(experiment, cmdstan="embedded", refit_changed=False)
    data, out = config.with_name("data.csv"), config.parent / "out" / "mine"
    how = ["--data", str(data), "--engine", "cmdstan", "--out", str(out)]
    found = CliRunner().invoke(cli, ["fit", str(config.with_name("mine.stan")), *how])
    assert "holds another run" in str(found.exception)


def test_the_interpreter_runs_an_experiment_of_both_kinds(write, tmp_path, executables):
    (tmp_path / "mine.stan").write_text(
        "data { int N; vector[N] y; real<lower=0> tau; }\nparameters { real m; }\n"
        "model { m ~ normal(0, tau); y ~ normal(m, 1); }\n"
    )
    (tmp_path / "mine.toml").write_text(
        '[data]\ny = { column = "flowers" }\n[priors]\ntau = 10.0\n'
    )
    both = write(models=["mine.stan", MODEL])
    both.write_text(both.read_text() + "[priors.mine]\ntau = 5\n")
    found = CliRunner().invoke(cli, ["fit", "--config", str(both), "--engine", "stanli"])
    assert found.exit_code == 0, found.output
    assert (tmp_path / "out" / "mine" / "run.json").is_file()
    second = CliRunner().invoke(cli, ["fit", "--config", str(both), "--engine", "stanli"])
    assert second.output.count("nothing changed") == 2
