"""Work in several processes: results are in order, and errors are raised."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from pyflowers import cores
from pyflowers.cores import alongside, each


@pytest.fixture(params=[1, 3])
def processes(request, monkeypatch):
    monkeypatch.setattr(cores, "_usable", lambda: request.param)
    return request.param


def test_results_come_in_order(processes):
    assert each([lambda i=i: i * i for i in range(7)]) == [i * i for i in range(7)]
    assert each([]) == []


def slowly():
    """Return the process id, after the others have had time to take a task."""
    time.sleep(0.2)
    return os.getpid()


@pytest.mark.quick
def test_each_process_does_a_part(processes):
    assert len(set(each([slowly] * 6))) == processes


def state():
    """Return the numbers of threads for linear algebra, and whether objects are frozen."""
    return {library["num_threads"] for library in threadpool_info()}, gc.get_freeze_count() > 1000


def state_after_a_while():
    time.sleep(0.5)
    return state()


@pytest.mark.quick
def test_children_have_one_thread_and_leave_alone_what_was_there_before(monkeypatch):
    monkeypatch.setattr(cores, "_usable", lambda: 2)
    with threadpool_limits(2):
        here, children = alongside(state_after_a_while, [state] * 3)
        assert ({1}, True) in children
        assert {1} == set.union(*(threads for threads, _ in children))
        assert here == ({1}, False)
        assert state() == ({2}, False)


@pytest.mark.quick
def test_a_process_that_is_done_takes_the_next_task(monkeypatch):
    monkeypatch.setattr(cores, "_usable", lambda: 2)

    def long():
        time.sleep(1)
        return os.getpid()

    first, *others = each([long, *[slowly] * 3])
    assert first not in others


def test_more_tasks_than_the_queue_holds_numbers(monkeypatch, processes):
    monkeypatch.setattr(cores, "_MOST_NUMBERS", 4)
    assert each([lambda i=i: i for i in range(11)]) == list(range(11))


@pytest.mark.quick
def test_work_is_done_here_beside_tasks(processes):
    here, results = alongside(slowly, [slowly] * 3)
    assert here == os.getpid()
    assert len(results) == 3
    assert (results[0] == here) == (processes == 1)


def fail():
    raise ValueError("no")


@pytest.mark.parametrize("place", range(4))
def test_an_error_reaches_the_caller(processes, place):
    work, *tasks = [fail if i == place else int for i in range(4)]
    with pytest.raises(ValueError, match="no"):
        alongside(work, tasks)


@pytest.mark.quick
def test_what_a_killed_child_owes_is_done_here(monkeypatch):
    monkeypatch.setattr(cores, "_usable", lambda: 2)
    here = os.getpid()

    def die_elsewhere():
        return slowly() if os.getpid() == here else os.kill(os.getpid(), signal.SIGKILL)

    assert each([die_elsewhere] * 3) == [here] * 3
    assert alongside(slowly, [die_elsewhere]) == (here, [here])


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are seen in /proc")
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT])
def test_no_child_outlives_its_parent(signum):
    code = (
        "import os, signal, time; from pyflowers import cores\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "cores._usable = lambda: 3\n"
        "def work():\n"
        "    os.write(1, b'%d\\n' % os.getpid())\n"
        "    time.sleep(60)\n"
        "cores.each([work] * 3)"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as parent:
        workers = [int(parent.stdout.readline()) for _ in range(3)]
        assert parent.pid in workers
        parent.send_signal(signum)
        parent.wait(10)
        end = time.monotonic() + 2
        while any(map(is_running, workers)) and time.monotonic() < end:
            time.sleep(0.02)
        assert not any(map(is_running, workers))


def is_running(pid):
    """Whether the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_beside_other_threads_nothing_is_forked():
    stop = threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    try:
        assert set(each([os.getpid] * 4)) == {os.getpid()}
    finally:
        stop.set()
        other.join()
