"""Work shared by threads: results are in order, few are in memory, and errors are raised."""

import threading
import time
import weakref
from functools import partial

import pytest

from pyflowers import cores
from pyflowers.cores import in_order, limited


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = threading.active_count()  # pytest-xdist may have started a thread
    yield
    assert threading.active_count() == before


@pytest.fixture(params=[1, 3])
def usable(request, monkeypatch):
    monkeypatch.setattr(cores, "usable_cores", lambda: request.param)
    return request.param


def slowly(i):
    """Return `i` and the thread, after the others have had time to take a task."""
    time.sleep(0.05 * (3 - i % 3))
    return i, threading.get_ident()


def tasks(num):
    return [partial(slowly, i) for i in range(num)]


@pytest.mark.quick
def test_results_come_in_order_from_all_threads(usable):
    found = list(in_order(tasks(7)))
    assert [i for i, _ in found] == list(range(7))
    assert len({thread for _, thread in found}) == usable


def test_no_tasks(usable):
    assert list(in_order([])) == []


@pytest.mark.quick
def test_a_limit_holds_until_its_context_ends(monkeypatch):
    monkeypatch.setattr(cores, "usable_cores", lambda: 3)

    def threads():
        return len({thread for _, thread in in_order(tasks(6))})

    with limited(1):
        assert threads() == 1
        with limited(2):
            assert threads() == 2
        with limited(None):
            assert threads() == 1
    assert threads() == 3


def test_few_results_are_in_memory(usable):
    class Result:
        pass

    alive = weakref.WeakSet()

    def made():
        result = Result()
        alive.add(result)
        return result

    most = 0
    for _ in in_order([made] * 200):
        time.sleep(0.001)  # long enough for threads to run far ahead
        most = max(most, len(alive))
    assert most <= 2 * usable + 2


def test_the_first_error_reaches_the_caller(usable):
    def fails(i):
        time.sleep(0.05 / (i + 1))
        raise ValueError(i)

    results = in_order([lambda: "first", *[partial(fails, i) for i in range(5)]])
    assert next(results) == "first"
    with pytest.raises(ValueError, match=r"^0$"):
        next(results)


def test_a_caller_that_stops_early_leaves_no_thread(usable):
    for _ in in_order(tasks(50)):
        break
