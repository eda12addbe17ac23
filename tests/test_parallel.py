"""Work in several processes: results in order, and errors that reach the caller."""

import os
import threading

import pytest

from pyflowers import parallel
from pyflowers.parallel import each


@pytest.fixture(params=[1, 3])
def processes(request, monkeypatch):
    monkeypatch.setattr(parallel, "_usable", lambda: request.param)
    return request.param


def test_results_come_in_order(processes):
    assert each([lambda i=i: i * i for i in range(7)]) == [i * i for i in range(7)]
    assert each([]) == []


def test_each_process_does_a_part(processes):
    assert len(set(each([os.getpid] * 6))) == processes


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
    assert each([os.getpid, lambda: os.getpid() if os.getpid() == here else os._exit(1)]) == [
        here,
        here,
    ]


def test_beside_other_threads_nothing_is_forked():
    stop = threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    try:
        assert set(each([os.getpid] * 4)) == {os.getpid()}
    finally:
        stop.set()
        other.join()
