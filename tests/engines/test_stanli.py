"""The interpreter in its worker: errors, messages, initial values, kills and threads."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest

from pyflowers.engines import EngineLacksError, SamplerOptions, find_engine, workers
from pyflowers.errors import CompileError, ConfigError, FitError, ToolchainError
from pyflowers.programs import Program

QUICK = SamplerOptions(seed=1, chains=2, warmup=100, draws=50)
MODEL = """
data {
  int<lower=0> N;
  array[N] int<lower=0> y;
  vector[N] x;
}
parameters {
  real m;
  real<lower=0> s;
}
model {
  m ~ normal(0, 10);
  s ~ normal(0, 1);
  x ~ normal(m, s);
}
"""
DATA = {"N": 3, "y": np.array([1, 2, 3]), "x": np.array([0.5, 1.5, 2.5])}


@pytest.fixture
def load(tmp_path):
    def make(text, name="program"):
        (tmp_path / f"{name}.stan").write_text(text)
        return find_engine("stanli").load(Program.open(tmp_path / f"{name}.stan"))

    return make


@pytest.fixture(autouse=True, scope="module")
def no_workers_left():
    yield
    workers.close_workers()


def workers_of(pid=None):
    """Return the interpreter's processes that a process, or this one, has started."""
    below = psutil.Process(pid).children()
    return [each for each in below if "pyflowers.engines.stanli.worker" in each.cmdline()]


WRONG_DATA = [
    ({"x": np.array([1.0])}, "dimension"),
    ({"y": np.array([1, 2, -3])}, "greater than or equal to"),
    ({"y": np.array([1.5, 2, 3])}, "int"),
    ({"x": np.array([1.0, np.nan, 2.0])}, r"no starting point found: .*\[2\] is nan"),
    ({"x": np.array([1.0, np.inf, 2.0])}, r"no starting point found: .*not finite"),
]


@pytest.mark.parametrize(("change", "output"), WRONG_DATA, ids=range(len(WRONG_DATA)))
def test_wrong_data_are_one_sentence(load, change, output):
    with pytest.raises(FitError, match=output) as caught:
        load(MODEL).sample({**DATA, **change}, QUICK)
    assert "\n" not in str(caught.value)
    assert not isinstance(caught.value, EngineLacksError)


COMPLEX = "parameters { complex z; } model { get_real(z) ~ std_normal(); }"
PROGRAMS = [
    ("parameters { real x } model { }", CompileError, "program.stan"),
    ("parameters { real x; } model { x ~ foo(1); }", CompileError, "foo"),
    ("generated quantities { real x = normal_rng(0, 1); }", EngineLacksError, "no parameters"),
    (COMPLEX, EngineLacksError, "CmdStan can"),
]


@pytest.mark.parametrize(("text", "error", "output"), PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_is_refused_for_what_it_is(load, text, error, output):
    with pytest.raises(error, match=output):
        load(text).sample({}, QUICK)


LOOP = "parameters { real m; } model { for (n in 1 : 3) { y[n] ~ normal(m, 1); } }"
COUNTERS = [
    ("transformed data { real t; { int n = 2; t = y[n]; } }", True),
    ("transformed data { real t = 0; for (n in {1, 2}) { t += n; } }", True),
    ("transformed data { array[2] int k = {1, 2}; real t = 0; for (n in k[1 : 2]) t += n; }", True),
    ("transformed data { real t = 0; for (n in 1 : 2) { t += n; } }", False),
    ("transformed data { real t; { int k = 2; real n = 1; t = y[k]; } }", False),
]


@pytest.mark.parametrize(("before", "is_refused"), COUNTERS, ids=range(len(COUNTERS)))
def test_a_counter_of_the_transformed_data_is_not_used_again(load, before, is_refused):
    """The interpreter would sample a different density: 3 y[2] instead of the sum of y."""
    text = f"data {{ vector[3] y; }}\n{before}\n{LOOP}"
    data = {"y": np.array([0.0, 30.0, 60.0])}
    if is_refused:
        with pytest.raises(EngineLacksError, match="confuses the loop variable n of"):
            load(text).sample(data, QUICK)
        return
    draws = load(text).sample(data, QUICK).draws["m"]
    assert abs(draws.mean() - 30) < 1


def test_draws_without_generated_quantities_are_refused(load):
    """The interpreter warns, and would return only the parameters."""
    loaded = load(MODEL + "generated quantities { vector[0] a; real z = m; a[1] = m; }")
    with pytest.raises(EngineLacksError, match="generated quantities are unavailable"):
        loaded.sample(DATA, QUICK)


def test_rejected_proposals_are_counted_and_never_printed(load, capfd):
    text = """
    parameters { real x; }
    transformed parameters { real<lower=-1.5> y = x; }
    model { x ~ std_normal(); }
    """
    sample = load(text).sample({}, SamplerOptions(seed=1, chains=2, warmup=100, draws=400))
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""
    assert sample.stats["divergent__"].shape == (2, 400)


def test_times_and_names_are_there(load):
    sample = load(MODEL).sample(DATA, QUICK, keep=["m"])
    assert list(sample.draws) == ["m"]
    assert len(sample.chain_times) == 2
    assert set(sample.chain_times[0]) == {"warmup", "sampling", "total"}
    assert sample.wall_time > 0


def test_initial_values_are_used(load, tmp_path):
    program = load(MODEL)
    still = SamplerOptions(seed=1, chains=2, warmup=0, draws=1, max_treedepth=1)
    start = {"m": 40.0, "s": 30.0}
    sample = program.sample(DATA, still, inits=start)
    assert (sample.draws["m"] > 20).all()
    (tmp_path / "start.json").write_text('{"m": -40.0, "s": 30.0}', encoding="utf-8-sig")
    for low in ({"m": -40.0, "s": 30.0}, tmp_path / "start.json"):
        each = program.sample(DATA, still, inits=[start, low])
        assert each.draws["m"][0, 0] > 20
        assert each.draws["m"][1, 0] < -20


@pytest.mark.parametrize(
    ("inits", "error", "output"),
    [
        ({"m": 1.0}, EngineLacksError, "s has no value"),
        (-1.0, ConfigError, "radius"),
        ("/no/such/file.json", ConfigError, "cannot be read"),
        ([{"m": 1.0, "s": 1.0}] * 3, ConfigError, r"entries \(3\) differs"),
        ({"m": 1.0, "s": -1.0}, FitError, "s"),
    ],
)
def test_wrong_initial_values_are_refused(load, inits, error, output):
    with pytest.raises(error, match=output):
        load(MODEL).sample(DATA, QUICK, inits=inits)


def test_a_worker_is_used_again_and_ends_with_its_owner(load):
    program = load(MODEL)
    program.sample(DATA, QUICK)
    first = workers_of()
    program.sample(DATA, QUICK)
    assert workers_of() == first
    workers.close_workers()
    assert workers_of() == []


@pytest.mark.parametrize("times", [6, pytest.param(40, marks=pytest.mark.slow)])
def test_kills_at_random_moments_are_errors_and_the_next_fit_works(load, times):
    program = load(MODEL)
    expected = program.sample(DATA, QUICK).draws["m"]
    rng = np.random.default_rng(1)
    long = SamplerOptions(seed=1, chains=2, warmup=1000, draws=200_000)
    for _ in range(times):
        timer = threading.Timer(rng.uniform(0, 0.3), kill_workers)
        timer.start()
        with pytest.raises(FitError, match="killed by signal SIGKILL"):
            program.sample(DATA, long)
        timer.join()
        assert np.array_equal(program.sample(DATA, QUICK).draws["m"], expected)
    assert len(workers_of()) <= workers.MOST_IDLE


def test_rejections_are_not_counted_as_none(load):
    program = load("parameters { real s; } model { s ~ normal(1, 1); 3.0 ~ normal(0, s); }")
    # The interpreter silently rejects negative s.
    assert program.sample({}, QUICK).messages is None


INTERRUPTED = """
import os, signal, sys, threading
import numpy as np
import pyflowers
from pyflowers.engines import workers

quick = dict(seed=1, warmup=100, draws=100, chains=2, engine="stanli")
expected = pyflowers.fit("iid_normal", **quick).draws["mu"]
rng = np.random.default_rng(2)
for _ in range(int(sys.argv[1])):
    moment = threading.Timer(rng.uniform(0.05, 0.5), os.kill, (os.getpid(), signal.SIGINT))
    try:
        moment.start()
        pyflowers.fit("iid_normal", seed=1, draws=3_000_000, engine="stanli")
        sys.exit("was not interrupted")
    except KeyboardInterrupt:
        moment.join()
    assert np.array_equal(pyflowers.fit("iid_normal", **quick).draws["mu"], expected)
assert len(workers._idle) <= workers.MOST_IDLE
print("as before")
"""


@pytest.mark.parametrize("times", [6, pytest.param(40, marks=pytest.mark.slow)])
def test_interrupts_at_random_moments_pass_and_the_next_fit_works(tmp_path, times):
    # This runs in a separate process, because pytest itself must not be interrupted.
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(times)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "as before\n"), done.stderr
    assert list(tmp_path.iterdir()) == []


def kill_workers():
    deadline = time.monotonic() + 20
    while not (found := workers_of()) and time.monotonic() < deadline:
        time.sleep(0.01)
    for each in found:
        each.kill()


SCRIPT = """
import pyflowers
# Python loses an interrupt during a callback of its import system, so import everything first.
pyflowers.fit("iid_normal", seed=1, warmup=10, draws=10, engine="stanli")
print("ready", flush=True)
pyflowers.fit("iid_normal", seed=1, draws=3_000_000, engine="stanli")
"""


@pytest.mark.slow
@pytest.mark.parametrize("times", [2, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_a_parent_that_is_ended_leaves_nothing(how, times, tmp_path):
    """It is ended at random moments; the slow test tries more of them."""
    rng = np.random.default_rng(int(how))
    for _ in range(times):
        with subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "TMPDIR": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            process.stdout.readline()
            time.sleep(rng.uniform(0, 1.5))
            before = workers_of(process.pid)
            process.send_signal(how)
            try:
                process.wait(20)
            finally:
                process.kill()
        assert not psutil.wait_procs(before, timeout=2)[1], "a worker lives on"
        assert list(tmp_path.iterdir()) == []


def test_threads_sample_at_once(load):
    program = load(MODEL)
    expected = program.sample(DATA, QUICK).draws["m"]
    with ThreadPoolExecutor(4) as executor:
        found = list(executor.map(lambda _: program.sample(DATA, QUICK).draws["m"], range(8)))
    assert all(np.array_equal(each, expected) for each in found)


def test_a_million_rows_cross(load):
    rng = np.random.default_rng(1)
    num = 1_000_000
    data = {"N": num, "y": rng.poisson(3, num), "x": rng.normal(size=num)}
    text = MODEL.replace("x ~ normal(m, s);", "target += -0.5 * square((x[1] - m) / s) - log(s);")
    sample = load(text).sample(data, QUICK)
    assert sample.draws["m"].shape == (2, 50)


def test_no_descriptor_is_left_open(load):
    program = load(MODEL)
    program.sample(DATA, QUICK)
    workers.close_workers()
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        program.sample(DATA, QUICK)
        workers.close_workers()
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_importing_the_engines_imports_no_engine():
    code = "import pyflowers.engines, sys; print({'stanli','cmdstanpy','arviz'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_what_a_worker_prints_at_its_start_neither_stops_it_nor_counts():
    """With PYTHONVERBOSE Python fills more than a pipe; the dynamic linker may print a line."""
    worker = workers.Worker("pyflowers.engines.stanli.worker", PYTHONVERBOSE="1")
    worker.send(None)
    with pytest.raises(workers.WorkerEndedError):
        worker.receive()
    missing = workers.Worker("pyflowers.engines.nothing")
    with pytest.raises(ToolchainError, match=r"could not start \(.*No module named pyflowers.eng"):
        missing.receive()
