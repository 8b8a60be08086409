"""Joining a Ray cluster, and what is said where there is none. Real clusters: tests/engines/test_on_cluster.py."""

from __future__ import annotations

import http.server
import itertools
import os
import re
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray.exceptions as said

from taskveil import cluster
from taskveil.errors import ClusterError, DataError, MissingExtraError


@pytest.fixture
def web_page() -> Iterator[str]:
    """The address of something that listens, and is no cluster."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def refused() -> str:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"127.0.0.1:{listening.getsockname()[1]}"


def why_not(address: str) -> str:
    """The one line that says why a cluster cannot be joined, which must come soon."""
    before = time.monotonic()
    with pytest.raises(ClusterError) as error, cluster.connected(address):
        pass
    assert time.monotonic() - before < 10
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(
        "Start one with `ray start --head`, or leave out the address to work on this machine alone."
    )
    return str(error.value)


def test_nobody_listens() -> None:
    address = refused()
    assert f"no Ray cluster answers at {address} (Connection refused)." in why_not(address)
    assert "no Ray cluster answers at nowhere.invalid:6379 (" in why_not("nowhere.invalid:6379")


def test_an_address_that_nobody_can_reach_costs_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener whose queue is full answers like a machine behind a wall: not at all."""
    monkeypatch.setattr(cluster, "_ANSWERS", 0.5)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening, socket.socket() as first:
        first.connect(listening.getsockname())
        address = "{}:{}".format(*listening.getsockname())
        assert f"at {address} (timed out)" in why_not(address)


def test_somebody_else_listens(web_page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_JOINED", 2.0)
    assert f"at {web_page} (what listens there is none)" in why_not(web_page)


def test_an_address_that_is_none() -> None:
    assert "at nonsense (Invalid address format: nonsense)" in why_not("nonsense")


def test_a_file_that_lies_about_and_is_called_ray_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ray.py").write_text("open('ran', 'w').close()")
    monkeypatch.chdir(tmp_path)
    why_not("nonsense")
    assert not (tmp_path / "ran").exists()


def test_rays_client_is_not_gone_through() -> None:
    with pytest.raises(ClusterError, match="is for Ray's client"), cluster.connected("ray://127.0.0.1:10001"):
        pass


def test_the_environments_address_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    address = refused()
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ClusterError, match=re.escape(address)), cluster.connected():
        pass


def test_a_cluster_that_asks_for_a_token_says_so() -> None:
    wrote = "W gcs_client.cc:210: Unauthenticated: RPC error: InvalidAuthToken: Authentication token is missing\n" * 3
    assert cluster._said(wrote) == "it asks for a token: RAY_AUTH_MODE=token and its RAY_AUTH_TOKEN"


def test_a_cluster_of_another_ray_is_quoted() -> None:
    wrote = "Traceback\n  File\nRuntimeError: Version mismatch: the cluster was started with Ray 1\nand more\n"
    assert cluster._said(wrote) == "Version mismatch: the cluster was started with Ray 1"


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"taskveil\[ray\]"), cluster.connected():
        pass


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
    with pytest.raises(ClusterError) as error, cluster.failures("Kept."):
        raise raised
    assert str(error.value) == line


def test_our_own_errors_come_out_as_they_were_raised() -> None:
    ours = DataError("part 7 has changed.")
    task = said.RayTaskError("function", "a traceback", ours)
    with pytest.raises(DataError, match=r"^part 7 has changed\.$"), cluster.failures("Kept."):
        raise said.RaySystemError("wrapped") from task
    with pytest.raises(ZeroDivisionError), cluster.failures("Kept."):
        raise said.RayTaskError("function", "a traceback", ZeroDivisionError())


def with_head_at(monkeypatch: pytest.MonkeyPatch, address: str, cores: float = 1.0) -> None:
    monkeypatch.setattr("ray.get_runtime_context", lambda: SimpleNamespace(gcs_address=address))
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": cores})
    monkeypatch.setattr(cluster, "_LOOK", 0.05)
    monkeypatch.setattr(cluster, "_GONE", 0.4)


@pytest.mark.parametrize(
    ("head", "line"),
    [
        ("gone", "the connection to the cluster was lost. Kept."),
        ("alone", "a machine of the cluster was lost, and no other could take over. Kept."),
    ],
)
def test_who_is_lost_is_not_waited_for(head: str, line: str, web_page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_head_at(monkeypatch, refused() if head == "gone" else web_page, cores=0.0)
    ended = threading.Event()

    def results() -> Iterator[int]:
        yield 1
        ended.wait(20)

    some = cluster.attended(results())
    assert next(some) == 1
    with pytest.raises(ClusterError) as error, cluster.failures("Kept."):
        next(some)
    assert str(error.value) == line
    ended.set()


def test_a_head_that_answers_is_waited_for(monkeypatch: pytest.MonkeyPatch, web_page: str) -> None:
    with_head_at(monkeypatch, web_page)

    def results() -> Iterator[int]:
        yield 1
        time.sleep(1.0)
        yield 2

    assert list(cluster.attended(results())) == [1, 2]


def test_nothing_more_is_fetched_once_nobody_listens(monkeypatch: pytest.MonkeyPatch, web_page: str) -> None:
    with_head_at(monkeypatch, web_page)
    fetched: list[int] = []

    def results() -> Iterator[int]:
        for number in itertools.count():
            fetched.append(number)
            yield number
            time.sleep(0.01)

    some: Any = cluster.attended(results())
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
        list(cluster.attended(results()))


def test_a_cluster_of_our_own_from_a_thread_of_a_script() -> None:
    """A script without `if __name__ …`, in a fresh process: nothing on the terminal but what it prints."""
    script = """
        import threading, warnings
        warnings.simplefilter("error")
        from taskveil.cluster import connected, in_any_order
        def add(shared, task):
            return shared + task
        def job():
            with connected(workers=1):
                import ray
                print(ray.cluster_resources()["CPU"], sorted(in_any_order(add, [1, 2, 3], shared=10)))
            print(ray.is_initialized())
        other = threading.Thread(target=job)
        other.start()
        other.join()
    """
    ours = {"PATH", "HOME", "PYTHONPATH", "TMPDIR", "OMP_NUM_THREADS"}
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={name: value for name, value in os.environ.items() if name in ours},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == "1.0 [11, 12, 13]\nFalse\n"


OWN = """
import os, sys, signal
from taskveil import cluster
if sys.argv[1] == "ended":
    import ray  # by whoever calls us; the token is asked for all the same, and lies in no file

with cluster.connected(workers=1):
    import ray
    print(ray.get(ray.remote(lambda: os.environ["TMPDIR"]).remote()))
    print(ray._private.worker._global_node.get_session_dir_path(), flush=True)
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_cluster_of_our_own_is_closed_to_others_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spilled objects may be volunteers' records, and whoever may exchange a socket runs code as its user."""
    homes = {}
    for end in ("killed", "ended"):
        plain = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        own = {**plain, "HOME": str(tmp_path)}
        ran = subprocess.run([sys.executable, "-c", OWN, end], capture_output=True, text=True, check=False, env=own)
        homes[end], session = map(Path, ran.stdout.split())  # workers' temporary files, and Ray's own
        assert homes[end].name.startswith(cluster._PREFIX)
        assert session.is_relative_to(homes[end])
    assert not homes["ended"].exists()
    assert list(tmp_path.iterdir()) == []  # no token, which Ray would write for all to read
    assert homes["killed"].stat().st_mode & 0o777 == 0o700
    cluster._forget_clusters(homes["killed"].parent)  # it may just have begun
    assert homes["killed"].exists()
    monkeypatch.setattr(cluster, "_GONE", -1.0)
    with cluster.alone(homes["killed"] / cluster._LOCK):  # somebody works there
        cluster._forget_clusters(homes["killed"].parent)
        assert homes["killed"].exists()
    cluster._forget_clusters(homes["killed"].parent)
    assert not homes["killed"].exists()
