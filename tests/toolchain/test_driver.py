"""The driver writes the same output as CmdStan; tests of errors, names and improvements.

Every test runs a real executable, which the session fixture `driver_program` compiles from
`tests/conformance/programs`.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

CONFORMANCE = Path(__file__).resolve().parents[1] / "conformance"
DATA = CONFORMANCE / "data"
EXPECTED = CONFORMANCE / "expected"

# Exit statuses from sysexits.h, as in `driver/errors.hpp`
OK, USAGE, BAD_INPUT, NO_INPUT, SOFTWARE, CANNOT_CREATE, IO_ERROR, CONFIG = (
    0, 64, 65, 66, 70, 73, 74, 78,
)  # fmt: skip

# A small fit of counts.stan, to be continued with arguments of `sample`.
FIT = (
    "random seed=3 data file={data}/counts.json output file=o.csv"
    " sample num_samples=10 num_warmup=30"
)

Program = Callable[[str], Path]


@pytest.fixture
def run(driver_program: Program, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command line in an empty folder; `{data}` and `{expected}` stand for our folders."""

    def run(arguments: str, program: str = "counts") -> subprocess.CompletedProcess[str]:
        # Split before the paths are inserted, because they may contain spaces.
        words = [word.format(data=DATA, expected=EXPECTED) for word in arguments.split()]
        return subprocess.run(
            [str(driver_program(program)), *words],
            capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False,
        )  # fmt: skip

    return run


def draws(file: Path) -> list[str]:
    """Return the lines of a CSV file that are not comments: its header and its draws."""
    return [line for line in file.read_text().splitlines() if not line.startswith("#")]


def settings(file: Path) -> dict[str, str]:
    """Return the `name = value` comments of a CSV file."""
    comments = [line[1:] for line in file.read_text().splitlines() if " = " in line]
    return {name.strip(): value for name, value in (line.split(" = ", 1) for line in comments)}


# A wrong command line, its exit status, and its message.
ERRORS = [
    # the command line itself
    ("data file={data}/counts.json", USAGE, "no method is named"),
    ("bogus", USAGE, "bogus is mistyped or misplaced"),
    ("sample delta=0.9", USAGE, "method=sample adapt delta=<double>"),
    ("sample num_samples", USAGE, "num_samples needs a value"),
    ("sample adapt=1", USAGE, "adapt takes no value"),
    ("sample algorithm=nuts", USAGE, "choose one of hmc, fixed_param"),
    ("sample id=1 id=2", USAGE, "id is given twice"),
    # values
    ("sample num_samples=-1", USAGE, "0 <= num_samples"),
    ("sample num_samples=1e3", USAGE, "num_samples=1e3 is not valid"),
    ("sample num_samples=99999999999", USAGE, "num_samples=99999999999 is not valid"),
    ("sample adapt delta=1.5", USAGE, "0.1 <= delta <= 1"),
    ("sample adapt init_buffer=-1", USAGE, "init_buffer=-1 is not valid"),
    ("sample save_warmup=yes", USAGE, "save_warmup=yes is not valid"),
    ("random seed=4294967296 sample", USAGE, "0 <= seed <= 4294967295"),
    ("output sig_figs=19 sample", USAGE, "0 <= sig_figs <= 18"),
    ("num_threads=2 sample", USAGE, "num_threads=2 is not valid"),
    ("data file={data}/counts.json init=-1 sample", USAGE, "0 or more"),
    # arguments that contradict each other
    (FIT + " num_chains=2 algorithm=hmc engine=static", CONFIG, "one chain at a time"),
    (FIT + " adapt engaged=0 save_metric=1", CONFIG, "no adapted metric"),
    (FIT + " num_warmup=0", CONFIG, "adaptation needs warmup"),
    ("data file={data}/counts.json log_prob", CONFIG, "exactly one of unconstrained_params"),
    ("data file={data}/counts.json laplace", CONFIG, "mode is not given"),
    ("data file={data}/counts.json generate_quantities", CONFIG, "fitted_params is not given"),
    # inputs
    ("sample", BAD_INPUT, "no `data file=FILE` is given"),
    ("data file=absent.json sample", NO_INPUT, "absent.json cannot be opened"),
    ("data file={data} sample", NO_INPUT, "is a folder"),
    ("data file={data}/counts.json init=absent.json sample", NO_INPUT, "absent.json cannot"),
    ("data file={data}/counts.json init=a.json sample num_chains=2", NO_INPUT, "Neither a_1.json"),
    ("data file={data}/counts.json init=a.txt sample num_chains=2", CONFIG, ".json or .R"),
    (FIT + " algorithm=hmc metric_file={data}/counts_metric_dense.json", CONFIG, "inv_metric"),
    (
        "data file={data}/counts.json laplace mode={expected}/sample_unit/o.csv",
        BAD_INPUT,
        "was not written by optimize",
    ),
    (
        "data file={data}/counts.json log_prob unconstrained_params={data}/counts_init.json",
        BAD_INPUT,
        "params_r",
    ),
    (
        "data file={data}/counts.json log_prob constrained_params={expected}/sample_default/o.csv",
        BAD_INPUT,
        "column 9 should be the model's parameter sigma, but is tau",
    ),
    # outputs
    ("data file={data}/counts.json output file=no/o.csv sample", CANNOT_CREATE, "no folder no"),
    (
        "data file={data}/counts.json output file=o.csv diagnostic_file=no/d.csv sample",
        CANNOT_CREATE,
        "no/d.csv cannot be written",
    ),
    (
        "data file={data}/counts.json output profile_file=no/p.csv sample",
        CANNOT_CREATE,
        "no/p.csv cannot be written",
    ),
    ("data file={data}/counts.json output file=results/ sample", CONFIG, "names a folder"),
    (
        "data file={data}/counts.json output file=o.csv diagnostic_file=./o.csv sample",
        CONFIG,
        "would be written twice",
    ),
    (
        "data file={data}/counts.json output file={data}/counts.json sample",
        CONFIG,
        "would be overwritten",
    ),
]


@pytest.mark.parametrize(("arguments", "code", "message"), ERRORS)
def test_error_has_a_code_and_a_sentence_and_comes_before_sampling(
    run, arguments, code, message
) -> None:
    done = run(arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert "Iteration" not in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk_is_an_error(run, tmp_path) -> None:
    (tmp_path / "o.csv").symlink_to("/dev/full")
    done = run(FIT)
    assert done.returncode == IO_ERROR
    assert "o.csv is incomplete" in done.stderr


# Programs without parameters: methods that work, and methods that do not.
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("sample", OK, "running fixed_param sampler"),
        ("sample algorithm=fixed_param num_chains=2", OK, "Iteration"),
        ("pathfinder", CONFIG, "has no parameters"),
        ("log_prob constrained_params={data}/simulate.json", CONFIG, "has no parameters"),
        ("generate_quantities fitted_params=o.csv", CONFIG, "has no parameters"),
    ],
)
def test_program_without_parameters(run, arguments, code, message) -> None:
    done = run("data file={data}/simulate.json " + arguments, program="simulate")
    assert done.returncode == code
    assert message in done.stdout + done.stderr


# The files that a command line writes.
@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        (FIT, {"o.csv"}),
        ("id=4 " + FIT + " num_chains=2", {"o_4.csv", "o_5.csv"}),
        (
            FIT + " num_chains=2 adapt save_metric=1",
            {"o_1.csv", "o_2.csv", "o_metric_1.json", "o_metric_2.json"},
        ),
        (FIT.replace("o.csv", "o.csv diagnostic_file=d"), {"o.csv", "d.csv"}),
        (FIT.replace("o.csv", "o"), {"o.csv"}),
        (FIT.replace("o.csv", "o.csv save_cmdstan_config=1"), {"o.csv", "o_config.json"}),
        # Stan does not return static HMC's metric, so no file is written; CmdStan's is empty.
        (FIT + " adapt save_metric=1 algorithm=hmc engine=static", {"o.csv"}),
        (
            "random seed=1 data file={data}/counts.json output file=o.csv pathfinder num_paths=2"
            " num_draws=20 num_psis_draws=10 save_single_paths=1",
            {"o.csv", "o_path_1.csv", "o_path_2.csv", "o_path_1.json", "o_path_2.json"},
        ),
    ],
)  # fmt: skip
def test_names_of_outputs(run, tmp_path, arguments, files) -> None:
    done = run(arguments)
    assert done.returncode == OK, done.stderr
    assert {file.name for file in tmp_path.iterdir()} == files
    for file in tmp_path.glob("*.json"):
        json.loads(file.read_text())


def test_each_chain_equals_the_same_chain_run_alone(run, tmp_path) -> None:
    assert run("id=2 " + FIT + " num_chains=2").returncode == OK
    for chain in (2, 3):
        together = draws(tmp_path / f"o_{chain}.csv")
        assert run(f"id={chain} " + FIT).returncode == OK
        assert draws(tmp_path / "o.csv") == together


def test_each_chain_has_its_own_starting_values(run, tmp_path) -> None:
    for chain in (1, 2):
        values = {"mu": chain, "sigma": 0.5, "log_rate": [1, 1, 1]}
        (tmp_path / f"init_{chain}.json").write_text(json.dumps(values))
    stay = FIT.replace(" sample", " init=init.json sample") + " algorithm=fixed_param num_chains=2"
    assert run(stay).returncode == OK
    for chain in (1, 2):
        header, first, *_ = draws(tmp_path / f"o_{chain}.csv")
        assert dict(zip(header.split(","), first.split(","), strict=True))["mu"] == str(chain)


def test_a_file_that_starts_with_a_digit_is_no_radius(run, tmp_path) -> None:
    (tmp_path / "2.json").write_text('{"mu": 7, "sigma": 1, "log_rate": [1, 1, 1]}')
    done = run(FIT.replace(" sample", " init=2.json sample") + " algorithm=fixed_param")
    assert done.returncode == OK
    assert ",7," in draws(tmp_path / "o.csv")[1]


def test_thinning_keeps_every_third_draw(run, tmp_path) -> None:
    assert run(FIT).returncode == OK
    header, *every = draws(tmp_path / "o.csv")
    assert run(FIT + " thin=3").returncode == OK
    assert draws(tmp_path / "o.csv") == [header, *every[::3]]


def test_drawn_seed_is_recorded_and_reproduces_the_draws(run, tmp_path) -> None:
    unseeded = FIT.replace("random seed=3 ", "")
    assert run(unseeded).returncode == OK
    seed = settings(tmp_path / "o.csv")["seed"]
    assert seed.endswith(" (Default)")
    first = draws(tmp_path / "o.csv")
    assert run(unseeded).returncode == OK
    assert draws(tmp_path / "o.csv") != first
    assert run(f"random seed={seed.split()[0]} " + unseeded).returncode == OK
    assert draws(tmp_path / "o.csv") == first


@pytest.mark.parametrize("seed", [0, 4294967295])
def test_extreme_seeds_are_seeds(run, tmp_path, seed) -> None:
    assert run(FIT.replace("seed=3", f"seed={seed}")).returncode == OK
    assert settings(tmp_path / "o.csv")["seed"] == str(seed)


def test_r_dump_is_read_as_json_is(run, tmp_path) -> None:
    assert run(FIT).returncode == OK
    expected = draws(tmp_path / "o.csv")
    data = json.loads((DATA / "counts.json").read_text())
    text = ""
    for name, value in data.items():
        r = f"c({', '.join(map(str, value))})" if isinstance(value, list) else value
        text += f"{name} <- {r}\n"
    (tmp_path / "counts.R").write_text(text)
    done = run(FIT.replace("{data}/counts.json", "counts.R"))
    assert done.returncode == OK
    assert "deprecated" in done.stderr
    assert draws(tmp_path / "o.csv") == expected


def test_laplace_takes_the_last_iteration_as_the_mode(run, tmp_path) -> None:
    fit = "random seed=2 data file={data}/counts.json output file="
    search = " optimize jacobian=1 algorithm=newton iter=8 save_iterations="
    samples = []
    for save in ("0", "1"):
        assert run(fit + f"mode{save}.csv" + search + save).returncode == OK
        assert run(fit + f"o.csv laplace draws=5 mode=mode{save}.csv").returncode == OK
        samples.append(draws(tmp_path / "o.csv"))
    assert len(draws(tmp_path / "mode1.csv")) > 2
    assert samples[0] == samples[1]


def test_generate_quantities_reads_each_chain(run, tmp_path) -> None:
    fit = "random seed=3 data file={data}/eight_schools.json output file="
    assert run(fit + "f.csv sample num_samples=7 num_chains=2", "eight_schools").returncode == OK
    generate = "g.csv generate_quantities num_chains=2 fitted_params=f.csv"
    assert run(fit + generate, "eight_schools").returncode == OK
    for chain in (1, 2):
        fitted, generated = draws(tmp_path / f"f_{chain}.csv"), draws(tmp_path / f"g_{chain}.csv")
        assert len(generated) == len(fitted)
        # log_lik depends only on the parameters. (CmdStan 2.35 writes parameters instead.)
        column = {name: i for i, name in enumerate(generated[0].split(","))}["log_lik.1"]
        original = {name: i for i, name in enumerate(fitted[0].split(","))}["log_lik.1"]
        for before, after in zip(fitted[1:], generated[1:], strict=True):
            a, b = float(before.split(",")[original]), float(after.split(",")[column])
            assert a == pytest.approx(b, rel=1e-4)


def test_diagnose_fails_when_gradients_differ(run) -> None:
    check = "random seed=3 data file={data}/counts.json diagnose test=gradient"
    assert run(check).returncode == OK
    assert run(check + " epsilon=1e-3 error=1e-12").returncode == SOFTWARE


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("help", "generate_quantities"),
        ("help-all", "stepsize_jitter=<double>"),
        ("sample help", "Valid subarguments: num_samples, num_warmup, save_warmup, thin, adapt"),
        ("sample adapt delta help", "Defaults to 0.8"),
        ("sample algorithm=hmc engine=nuts help", "max_depth"),
        ("data help-all", "file=<string>"),
        ("info", "STAN_THREADS=false"),
    ],
)
def test_help(run, arguments, shown) -> None:
    done = run(arguments)
    assert done.returncode == OK
    assert shown in done.stdout


def test_no_arguments_show_usage(run) -> None:
    done = run("")
    assert done.returncode == USAGE
    assert "Usage:" in done.stdout


# The output of CmdStan 2.35.0 for 34 command lines, to the last printed digit

CASES = json.loads((CONFORMANCE / "cases.json").read_text())["cases"]
# Lines whose values are paths, times or durations instead of results.
PATHS = re.compile(
    r"^# *(stanc_version|diagnostic_file|file|profile_file|metric_file|mode|init|fitted_params"
    r"|constrained_params|unconstrained_params)\b.*= *"
)
TIMES = re.compile(r"Elapsed Time|start_datetime|stancflags|^# +[\d.e+-]+ seconds \(")


def normalise(text):
    """Return the lines without times, and with paths cut to their file's name."""
    lines = []
    for line in text.splitlines():
        if TIMES.search(line):
            continue
        if PATHS.match(line):
            line = re.sub(r"(= *)\S*/", r"\1", line)
        line = re.sub(r'"[^"]*/([^"/]*)"', r'"\1"', line).rstrip()
        if line not in ("", "#"):
            lines.append(line)
    return lines


def run_case(case, executable, out):
    """Run one command line in an empty folder."""
    arguments = case["argv"].replace("{data}", str(DATA)).replace("{out}", str(out))
    arguments = re.sub(r"\{in:(\w+)\}", lambda m: str(EXPECTED / m[1]), arguments)
    command = [executable, *arguments.split()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=out)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_driver_is_cmdstan(driver_program, tmp_path, case):
    done = run_case(case, driver_program(case["program"]), tmp_path)
    expected = EXPECTED / case["name"]
    if case.get("fails"):
        assert done.returncode != 0
        assert case["says"] in done.stdout + done.stderr
        return
    assert done.returncode == 0, done.stderr
    for name in case["files"]:
        want = normalise((expected / name).read_text())
        assert normalise((tmp_path / name).read_text()) == want
    if "stdout" in case:
        want = [line.strip() for line in (expected / "stdout.txt").read_text().splitlines()]
        got = [line for line in done.stdout.splitlines() if line.startswith(case["stdout"])]
        assert [line.strip() for line in got] == want


def test_a_changed_digit_is_noticed():
    """Negative control of the comparison itself."""
    text = (EXPECTED / "sample_default" / "o.csv").read_text()
    assert normalise(text) != normalise(text.replace("-7.74397", "-7.74398", 1))
