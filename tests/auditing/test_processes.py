"""Children that answer, fail, hang, or are beside threads that hold locks."""

from __future__ import annotations

import threading
import time
import warnings

import numpy as np

from auditing import exhibits
from taskveil.auditing.sources import fork_digests, in_child


def test_answers_come_back_whole() -> None:
    long = ["x" * 1000] * 1000  # more than a pipe holds
    assert in_child(lambda: long) == long
    assert in_child(lambda: {"made": True}) == {"made": True}


def test_an_error_is_no_answer() -> None:
    assert in_child(lambda: 1 / 0) is None


def test_a_child_that_hangs_is_ended() -> None:
    start = time.monotonic()
    assert in_child(lambda: time.sleep(60), patience=0.3) is None
    assert time.monotonic() - start < 10


def test_a_lock_held_by_another_thread_at_the_fork() -> None:
    """The child waits for a thread that it does not have; the parent does not wait for ever, and nobody is warned."""
    lock, held, done = threading.Lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert in_child(lambda: lock.acquire(), patience=0.3) is None
            assert in_child(lambda: 3) == 3
    finally:
        done.set()
        thread.join()


def test_digests_of_reports_and_draws() -> None:
    same = fork_digests(lambda: np.arange(3), 3)
    assert len(same) == 3
    assert len(set(same)) == 1
    assert same[0][1] == ""
    drawn = fork_digests(lambda: exhibits.noise(100.0, (50, 1)), 3)
    assert len({made for made, _ in drawn}) == len({seen for _, seen in drawn}) == 3
