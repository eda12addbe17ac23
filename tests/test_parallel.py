"""Work in several processes: results in order, and errors that reach the caller."""

import gc
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from pyflowers import parallel
from pyflowers.parallel import beside, each


@pytest.fixture(params=[1, 3])
def processes(request, monkeypatch):
    monkeypatch.setattr(parallel, "_usable", lambda: request.param)
    return request.param


def test_results_come_in_order(processes):
    assert each([lambda i=i: i * i for i in range(7)]) == [i * i for i in range(7)]
    assert each([]) == []


def slowly():
    """Return the process's number, after long enough for the others to take a task."""
    time.sleep(0.2)
    return os.getpid()


def test_each_process_does_a_part(processes):
    assert len(set(each([slowly] * 6))) == processes


def blas_threads():
    """Return the numbers of threads of the libraries for linear algebra."""
    return [library["num_threads"] for library in threadpool_info()]


def test_linear_algebra_has_one_thread_in_each_process(monkeypatch):
    monkeypatch.setattr(parallel, "_usable", lambda: 2)
    with threadpool_limits(2):
        here, children = beside(blas_threads, [blas_threads] * 3)
        assert set(here) == {1}
        assert children == [here] * 3
        assert set(blas_threads()) == {2}


def test_the_garbage_collector_leaves_alone_what_was_there_before(monkeypatch):
    monkeypatch.setattr(parallel, "_usable", lambda: 2)
    here, children = beside(gc.get_freeze_count, [gc.get_freeze_count] * 3)
    assert min(here, *children) > 1000
    assert gc.get_freeze_count() == 0


def test_what_a_caller_has_frozen_stays_frozen(monkeypatch):
    monkeypatch.setattr(parallel, "_usable", lambda: 2)
    gc.freeze()
    try:
        each([slowly] * 2)
        assert gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()


def test_a_process_that_is_done_takes_the_next_task(monkeypatch):
    monkeypatch.setattr(parallel, "_usable", lambda: 2)

    def long():
        time.sleep(1)
        return os.getpid()

    first, *others = each([long, *[slowly] * 3])
    assert first not in others


def test_more_tasks_than_the_queue_holds_numbers(monkeypatch, processes):
    monkeypatch.setattr(parallel, "_MOST_NUMBERS", 4)
    assert each([lambda i=i: i for i in range(11)]) == list(range(11))


def test_work_is_done_here_beside_tasks(processes):
    here, results = beside(slowly, [slowly] * 3)
    assert here == os.getpid()
    assert len(results) == 3
    assert (results[0] == here) == (processes == 1)


def test_an_error_of_the_work_beside_reaches_the_caller(processes):
    with pytest.raises(ValueError, match="no"):
        beside(fail, [slowly] * 3)


def fail():
    raise ValueError("no")


@pytest.mark.parametrize("place", range(3))
def test_an_error_reaches_the_caller(processes, place):
    tasks = [int, int, int]
    tasks[place] = fail
    with pytest.raises(ValueError, match="no"):
        each(tasks)


def test_what_a_dead_child_owes_is_done_here(monkeypatch):
    monkeypatch.setattr(parallel, "_usable", lambda: 2)
    here = os.getpid()

    def die_elsewhere():
        return slowly() if os.getpid() == here else os._exit(1)

    assert each([die_elsewhere] * 3) == [here] * 3


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are seen in /proc")
def test_no_child_outlives_a_killed_parent():
    code = (
        "import os, time; from pyflowers import parallel\n"
        "parallel._usable = lambda: 3\n"
        "def work():\n"
        "    os.write(1, b'%d\\n' % os.getpid())\n"
        "    time.sleep(60)\n"
        "parallel.each([work] * 3)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        workers = [int(parent.stdout.readline()) for _ in range(3)]
        assert parent.pid in workers
        parent.kill()
        parent.wait()
        end = time.monotonic() + 2
        while any(map(is_running, workers)) and time.monotonic() < end:
            time.sleep(0.02)
        assert not any(map(is_running, workers))


def is_running(pid):
    """Whether there is such a process, and it is no zombie."""
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
