"""Only what changed is fitted again, and the reason is said."""

import pytest
from click.testing import CliRunner

from pyflowers.cli.config import _SECTIONS, _override
from pyflowers.cli.fit import command as fit_command
from pyflowers.cli.main import cli
from pyflowers.cmdstan import compile_program
from pyflowers.config import Experiment, from_record, read_config
from pyflowers.data import from_frame
from pyflowers.errors import ConfigError
from pyflowers.experiment import run_experiment, why_refit
from pyflowers.models import get_model

MODEL = "iid_normal"


@pytest.fixture(scope="module")
def earlier(lecture_fits, cmdstan):
    """A finished run, and what would make it again."""
    fit = lecture_fits[MODEL]
    executable = compile_program(get_model(MODEL).program, cmdstan=cmdstan)
    experiment = Experiment().with_values(models=[MODEL], sampler={"seed": 1})
    return fit, experiment, executable


def test_nothing_changed_is_no_reason(earlier):
    fit, experiment, executable = earlier
    model = get_model(MODEL)
    assert why_refit(fit.record, experiment, model, fit.data, executable) == ()
    # A file without a seed takes the one that was drawn.
    unseeded = experiment.with_values(sampler={"seed": None})
    assert why_refit(fit.record, unseeded, model, fit.data, executable) == ()
    assert why_refit(fit.record, from_record(fit.record), model, fit.data, executable) == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sampler": {"seed": 2}}, "seed was 1 and is 2"),
        ({"sampler": {"draws": 500}}, "draws was 1000 and is 500"),
        ({"sampler": {"adapt_delta": 0.99}}, "adapt_delta was 0.9 and is 0.99"),
        ({"priors": {MODEL: {"mu_sd": 5}}}, "prior mu_sd was 100.0 and is 5.0"),
    ],
)
def test_a_changed_option_is_the_reason(earlier, changes, reason):
    fit, experiment, executable = earlier
    found = why_refit(
        fit.record, experiment.with_values(**changes), get_model(MODEL), fit.data, executable
    )
    assert found == (reason,)


def test_changed_data_and_programs_are_reasons(earlier):
    fit, experiment, executable = earlier
    model = get_model(MODEL)
    frame = fit.data.to_frame()
    frame.loc[3, "flowers"] += 1
    assert why_refit(fit.record, experiment, model, from_frame(frame), executable) == (
        "the data changed",
    )
    record = {**fit.record, "executable": "another", "program_sha256": "another"}
    (reason,) = why_refit(record, experiment, model, fit.data, executable)
    assert reason == f"program {model.program} changed"
    record = {**fit.record, "executable": "another"}
    record["versions"] = {**record["versions"], "compiler": "g++ 3"}
    (reason,) = why_refit(record, experiment, model, fit.data, executable)
    assert reason.startswith("version of compiler was g++ 3 and is ")


@pytest.fixture
def write(tmp_path):
    """An experiment of one model on two plants, in a file."""

    def written(**changes):
        rows = changes.get("rows", "a,1,4\na,2,6\na,3,5\nb,1,1\nb,2,0\nb,3,2\n")
        (tmp_path / "data.csv").write_text(f"plant,month,flowers\n{rows}")
        path = tmp_path / "e.toml"
        path.write_text(
            f"models = {changes.get('models', [MODEL])}\n[data]\nfile = 'data.csv'\n"
            "[sampler]\nseed = 3\nwarmup = 200\ndraws = 200\ncmdstan = 'embedded'\n"
            "[output]\nfolder = 'out'\nplots = 'svg'\n"
        )
        return path

    return written


def run(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)


def test_fit_config_refits_what_changed_and_says_why(write, tmp_path, executables):
    first = run("fit", "--config", write())
    assert f"{MODEL}: fitted, because there is no run yet" in first.output
    folder = tmp_path / "out" / MODEL
    assert {path.name for path in (folder / "plots").iterdir()} == {
        *("trace_first_chain.svg", "trace.svg", "pairs.svg", "ranks.svg")
    }
    draws = (folder / "draws.nc").read_bytes()

    second = run("fit", "--config", write())
    assert f"{MODEL}: nothing changed, taken from {folder}" in second.output
    assert (folder / "draws.nc").read_bytes() == draws

    third = run("fit", "--config", write(), "--seed", "4")
    assert f"{MODEL}: fitted, because seed was 3 and is 4" in third.output

    fourth = run("fit", "--config", write(rows="a,1,4\na,2,6\na,3,5\nb,1,1\nb,2,0\nb,3,9\n"))
    assert "fitted, because the data changed; seed was 4 and is 3" in fourth.output


def test_the_command_line_overrides_the_file(write, tmp_path, executables):
    both = write(models=[MODEL, "multilevel_poisson"])
    run("fit", MODEL, "--config", both, "--out", tmp_path / "mine", "--plots", "png")
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {MODEL}
    assert (tmp_path / "mine" / MODEL / "plots" / "trace.png").is_file()
    again = run("fit", MODEL, "--config", both, "--out", tmp_path / "mine", "--prior", "mu_sd=50")
    assert f"{MODEL}: fitted, because prior mu_sd was 100.0 and is 50.0" in again.output
    with pytest.raises(ConfigError, match=r"a configuration names models of pyflowers only"):
        run("fit", "mine.stan", "--config", both)
    with pytest.raises(ConfigError, match=r"the command line: priors: prior mu_std: iid_normal"):
        run("fit", "--config", both, "--prior", "mu_std=1")


def test_no_option_of_fit_is_ignored_beside_a_file(write):
    """Each overrides a key, or is handled by itself."""
    overriding = {option for keys in _SECTIONS.values() for option in keys}
    handled = {"model", "priors", "include_paths", "config"}
    assert {parameter.name for parameter in fit_command.params} == overriding | handled
    file = read_config(write())
    assert _override(file, {"thin": 3}).sampler.thin == 3
    with pytest.raises(ConfigError, match="--include"):
        _override(file, {"include_paths": ("lib",)})


def test_check_makes_a_failing_fit_fail(write, executables):
    # Sixteen draws cannot pass: their effective sample size is far below 100 a chain.
    words = ("fit", "--config", write(), "--draws", "4", "--warmup", "100")
    assert run(*words).exit_code == 0
    result = CliRunner().invoke(cli, [*map(str, words), "--check"], standalone_mode=False)
    assert result.return_value == 3


def test_a_model_that_refuses_the_data_does_not_stop_the_others(write, executables):
    rows = "a,1,4\na,2,6\nb,1,1\nb,2,0\nb,3,2\n"
    found = run("fit", "--config", write(rows=rows, models=["multilevel_normal", MODEL]))
    assert "multilevel_normal: not fitted: " in found.output
    assert "'a' has 2 of the 3 observations" in found.output
    assert f"{MODEL}: fitted" in found.output
    assert found.exit_code == 0


def test_an_unreadable_run_is_fitted_again(write, tmp_path, executables, cmdstan):
    experiment = Experiment().with_values(
        models=[MODEL],
        sampler={"seed": 3, "warmup": 100, "draws": 100, "cmdstan": "embedded"},
        output={"folder": tmp_path / "out"},
    )
    folder = tmp_path / "out" / MODEL
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{")
    (outcome,) = run_experiment(experiment)
    assert outcome.refitted == ("the earlier run cannot be read",)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit"], "MODEL is missing, and there is no --config."),
        (["fit", "iid_normal"], "--out is missing, and there is no --config."),
    ],
)
def test_a_fit_needs_a_model_and_a_folder_or_a_file(words, message):
    found = run(*words)
    assert found.exit_code == 2
    assert message in found.output
