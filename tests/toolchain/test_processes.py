"""Children, and their children, end with their parent, however it ends."""

import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from textwrap import indent

import pytest

from pyflowers.toolchain import processes
from pyflowers.toolchain.processes import end_children, interruptible, mortal, run, started

SECONDS_TO_DIE = 2

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are seen in /proc")

# A child that waits for its own children, as make waits for its compilers.
FAMILY = "sleep 300.{mark} & sleep 300.{mark} & wait"
PARENT = {
    "run": "processes.run(['sh', '-c', '{family}'])",
    "started": "\nwith processes.started(['sh', '-c', '{family}']) as p: p.wait()",
    "in a thread": "processes.interruptible(lambda: processes.run(['sh', '-c', '{family}']))",
    "mortal": (
        "\nwith processes.mortal(Path('/bin/sleep'), Path('{folder}')) as exe:"
        "\n  processes.interruptible(lambda: subprocess.run([exe, '300.{mark}']))"
    ),
}


@pytest.fixture
def mark():
    return secrets.randbelow(10**12)


def alive(mark):
    """Return the processes whose command line contains a mark, without zombies."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if str(mark).encode() in words:
            found.append(int(folder.name))
    return found


def sleeps(children):
    """Whether one of the children listed in a file of /proc already runs sleep."""
    with suppress(OSError):
        return any(
            Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"/bin/sleep\0")
            for pid in children.read_text().split()
        )
    return False


def wait_until(condition, seconds=SECONDS_TO_DIE, pause=0.02):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(pause)
    return bool(condition())


def start_parent(kind, mark, folder):
    """Start a Python process that starts the family, and wait until the family exists."""
    call = PARENT[kind].format(family=FAMILY.format(mark=mark), mark=mark, folder=folder)
    code = (
        "import subprocess; from pathlib import Path; from pyflowers.toolchain import processes\n"
        "from pyflowers.cli.main import unwinding_on_signals\n"
        "with unwinding_on_signals():\n"
        f"{indent(call, '    ')}"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], start_new_session=True, stderr=subprocess.DEVNULL
    )
    sleeping = f"sleep\x00300.{mark}".encode()

    def is_there():
        return any(
            sleeping in Path(f"/proc/{pid}/cmdline").read_bytes()
            for pid in alive(mark)
            if Path(f"/proc/{pid}/cmdline").exists()
        )

    assert wait_until(is_there, 30)
    return parent


@pytest.mark.slow
@pytest.mark.parametrize("kind", PARENT)
@pytest.mark.parametrize("whom", ["process", "group"])
@pytest.mark.parametrize("signum", ["SIGKILL", "SIGTERM", "SIGHUP", "SIGINT"])
def test_nothing_outlives_a_killed_parent(mark, tmp_path, kind, whom, signum):
    parent = start_parent(kind, mark, tmp_path)
    send = os.kill if whom == "process" else os.killpg
    send(parent.pid, getattr(signal, signum))
    try:
        parent.wait(SECONDS_TO_DIE + 2)
    finally:
        parent.kill()
        parent.wait()
    assert wait_until(lambda: not alive(mark), SECONDS_TO_DIE), alive(mark)


def test_a_signal_that_does_not_end_a_wait_is_seen():
    """A signal to another thread interrupts no wait of the main thread, as one just before it."""
    begin = time.monotonic()

    def work():
        time.sleep(0.3)  # the main thread waits
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        return run(["sleep", "20"])

    with pytest.raises(KeyboardInterrupt):
        interruptible(work)
    assert time.monotonic() - begin < 10


def test_a_signal_at_the_very_start_leaves_nothing(mark, tmp_path):
    """It takes many attempts to place a Ctrl-C between the starts of a child and its watch."""
    for attempt in range(150):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        with mortal(Path("/bin/sleep"), folder) as executable:
            parent = subprocess.Popen(
                [executable, f"300.{mark}"], start_new_session=True, stderr=subprocess.DEVNULL
            )
            children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
            assert wait_until(lambda path=children: sleeps(path), pause=0)
            os.killpg(parent.pid, signal.SIGINT)
        parent.wait(SECONDS_TO_DIE)
    assert wait_until(lambda: not alive(mark)), alive(mark)


def test_a_plain_child_does_outlive_it(mark):
    """Negative control: the defect of the previous version is detected."""
    code = f"import subprocess; subprocess.run(['sh', '-c', '{FAMILY.format(mark=mark)}'])"
    parent = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    assert wait_until(lambda: len(alive(mark)) >= 3, 30)
    parent.kill()
    parent.wait()
    time.sleep(0.3)
    assert alive(mark)
    os.killpg(parent.pid, signal.SIGKILL)


def test_a_forked_worker_does_not_keep_the_children_of_its_parent(mark):
    code = (
        "import os, threading, time; from pyflowers.toolchain import processes\n"
        f"threading.Thread(target=processes.run, args=(['sh', '-c', '{FAMILY.format(mark=mark)}'],)"
        ").start()\n"
        "time.sleep(1)\n"
        "if os.fork() == 0: time.sleep(60)\n"
        "os.kill(os.getpid(), 9)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    parent.wait(30)
    sleeping = f"sleep\x00300.{mark}".encode()

    def families():
        return [p for p in alive(mark) if sleeping in Path(f"/proc/{p}/cmdline").read_bytes()]

    assert wait_until(lambda: not families(), SECONDS_TO_DIE)
    os.killpg(parent.pid, signal.SIGKILL)


def test_a_command_gives_its_output_errors_and_status():
    done = run(["sh", "-c", "cat; echo out; echo err >&2; exit 3"])
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 3)
    assert run([sys.executable, "-c", "print('a b', \"it's\")"]).stdout == "a b it's\n"
    with pytest.raises(FileNotFoundError, match="no such command"):
        run(["no-such-command"])
    with started(["sh", "-c", "echo out; echo err >&2"], merged=True) as process:
        assert sorted(process.stdout) == ["err\n", "out\n"]
    assert process.returncode == 0


def test_a_folder_to_run_in(tmp_path):
    assert run(["pwd", "-P"], cwd=tmp_path).stdout.strip() == str(tmp_path.resolve())


def test_an_error_or_a_timeout_kills_the_family(mark):
    with pytest.raises(subprocess.TimeoutExpired):
        run(["sh", "-c", FAMILY.format(mark=mark)], timeout=0.3)
    assert wait_until(lambda: not alive(mark), SECONDS_TO_DIE)
    with pytest.raises(ValueError, match="mine"), started(["sh", "-c", FAMILY.format(mark=mark)]):
        raise ValueError("mine")
    assert wait_until(lambda: not alive(mark), SECONDS_TO_DIE)


def test_no_zombie_and_no_descriptor_is_left():
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        run(["true"])
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    states = list(Path("/proc").glob("[0-9]*/stat"))
    mine = []
    for state in states:
        try:
            fields = state.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[1] == str(os.getpid()):
            mine.append(fields[0])
    assert "Z" not in mine


def test_a_stand_in_runs_like_its_executable(tmp_path):
    program = tmp_path / "it's a program"
    program.write_text('#!/bin/sh\necho "$@"\necho err >&2\nexit 5\n')
    program.chmod(0o755)
    with mortal(program, tmp_path) as stand_in:
        assert stand_in.name == program.name
        done = subprocess.run([stand_in, "a  b", "'"], capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("a  b '\n", "err\n", 5)


def test_a_stand_in_started_after_the_end_is_killed(tmp_path):
    with mortal(Path("/bin/sleep"), tmp_path) as stand_in:
        pass
    begun = time.monotonic()
    assert subprocess.run([stand_in, "60"], stderr=subprocess.DEVNULL).returncode != 0
    assert time.monotonic() - begun < SECONDS_TO_DIE


def test_an_interruption_ends_what_a_thread_waits_for(mark):
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interruptible(lambda: run(["sh", "-c", FAMILY.format(mark=mark)]))
    assert time.monotonic() - begun < SECONDS_TO_DIE
    assert wait_until(lambda: not alive(mark), SECONDS_TO_DIE)
    assert interruptible(lambda: run(["echo", "again"])).stdout == "again\n"


def test_ending_children_twice_is_nothing():
    end_children()
    end_children()
    assert not [lifeline for lifeline in processes._lifelines if lifeline._descriptor is not None]
