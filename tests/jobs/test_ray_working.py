"""What comes of tasks that are handed to a cluster, and how its failures are told."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import ray.exceptions as said

from taskveil.errors import ClusterError, DataError
from taskveil.jobs import ray_working


@pytest.mark.parametrize(
    ("raised", "line"),
    [
        (said.ObjectStoreFullError(), "the cluster's memory for shared objects is full, and its disk too. Kept."),
        (said.OutOfDiskError(), "a machine of the cluster has no disk space left. Kept."),
        (said.WorkerCrashedError(), "a task's worker was lost 21 times. Kept."),
        (said.NodeDiedError("gone"), "a machine of the cluster was lost, and no other could take over. Kept."),
        (ConnectionError("many\nlines"), "the connection to the cluster was lost. Kept."),
        (said.RaySystemError("lost"), "the connection to the cluster was lost. Kept."),
        (
            said.RaySystemError("No module named 'taskveil'", "in deserialize_objects"),
            "a machine of the cluster cannot read what it was sent: install the same taskveil, the same packages and "
            "the same Python on all of them. Kept.",
        ),
        (said.RuntimeEnvSetupError("many\nlines"), "the cluster failed (RuntimeEnvSetupError). Kept."),
    ],
)
def test_failures_are_one_line_that_ends_with_what_is_kept(raised: Exception, line: str) -> None:
    with pytest.raises(ClusterError) as error, ray_working.failures("Kept."):
        raise raised
    assert str(error.value) == line


def test_our_own_errors_come_out_as_they_were_raised() -> None:
    ours = DataError("part 7 has changed.")
    task = said.RayTaskError("function", "a traceback", ours)
    with pytest.raises(DataError, match=r"^part 7 has changed\.$"), ray_working.failures("Kept."):
        raise said.RaySystemError("wrapped") from task
    with pytest.raises(ZeroDivisionError), ray_working.failures("Kept."):
        raise said.RayTaskError("function", "a traceback", ZeroDivisionError())


def with_head_at(monkeypatch: pytest.MonkeyPatch, address: str, cores: float = 1.0) -> None:
    monkeypatch.setattr("ray.get_runtime_context", lambda: SimpleNamespace(gcs_address=address))
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": cores})
    monkeypatch.setattr(ray_working, "_CHECK_SECONDS", 0.05)
    monkeypatch.setattr(ray_working, "_LOST_SECONDS", 0.4)


@pytest.mark.parametrize(
    ("head", "line"),
    [
        ("gone", "the connection to the cluster was lost. Kept."),
        ("alone", "a machine of the cluster was lost, and no other could take over. Kept."),
    ],
)
def test_who_is_lost_is_not_waited_for(
    head: str, line: str, refused: str, web_page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_head_at(monkeypatch, refused if head == "gone" else web_page, cores=0.0)
    ended = threading.Event()

    def results() -> Iterator[int]:
        yield 1
        ended.wait(20)

    some = ray_working.attended(results())
    assert next(some) == 1
    with pytest.raises(ClusterError) as error, ray_working.failures("Kept."):
        next(some)
    assert str(error.value) == line
    ended.set()


def test_a_head_that_answers_is_waited_for(monkeypatch: pytest.MonkeyPatch, web_page: str) -> None:
    with_head_at(monkeypatch, web_page)

    def results() -> Iterator[int]:
        yield 1
        time.sleep(1.0)
        yield 2

    assert list(ray_working.attended(results())) == [1, 2]


def test_nothing_more_is_fetched_once_nobody_listens(monkeypatch: pytest.MonkeyPatch, web_page: str) -> None:
    with_head_at(monkeypatch, web_page)
    fetched: list[int] = []

    def results() -> Iterator[int]:
        for number in itertools.count():
            fetched.append(number)
            yield number
            time.sleep(0.01)

    some: Any = ray_working.attended(results())
    assert [next(some), next(some)] == [0, 1]
    some.close()
    time.sleep(0.1)
    count = len(fetched)
    time.sleep(0.1)
    assert len(fetched) == count < 6


def test_errors_of_what_is_fetched_come_out(monkeypatch: pytest.MonkeyPatch, web_page: str) -> None:
    with_head_at(monkeypatch, web_page)

    def results() -> Iterator[int]:
        yield 1
        raise DataError("no more")

    with pytest.raises(DataError, match="no more"):
        list(ray_working.attended(results()))
