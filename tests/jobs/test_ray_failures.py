"""What comes of tasks that are handed to a cluster, and how its failures are told."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
import ray.exceptions as said

from taskveil.errors import ClusterError, DataError
from taskveil.jobs import running


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
    with pytest.raises(ClusterError) as error, running.failures("Kept."):
        raise raised
    assert str(error.value) == line


def test_our_own_errors_come_out_as_they_were_raised() -> None:
    ours = DataError("part 7 has changed.")
    task = said.RayTaskError("function", "a traceback", ours)
    with pytest.raises(DataError, match=r"^part 7 has changed\.$"), running.failures("Kept."):
        raise said.RaySystemError("wrapped") from task
    with pytest.raises(ZeroDivisionError), running.failures("Kept."):
        raise said.RayTaskError("function", "a traceback", ZeroDivisionError())


def with_head_at(monkeypatch: pytest.MonkeyPatch, address: str, cores: float = 1.0) -> None:
    monkeypatch.setattr("ray.get_runtime_context", lambda: SimpleNamespace(gcs_address=address))
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": cores})
    monkeypatch.setattr(running, "_LOST_SECONDS", 0.4)


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
    found = running._Head()
    found.look()  # it may come back
    time.sleep(0.5)
    with pytest.raises(ClusterError) as error, running.failures("Kept."):
        found.look()
    assert str(error.value) == line


def test_a_head_that_answers_is_waited_for(monkeypatch: pytest.MonkeyPatch, web_page: str) -> None:
    with_head_at(monkeypatch, web_page)
    found = running._Head()
    for _ in range(3):
        time.sleep(0.3)
        found.look()
