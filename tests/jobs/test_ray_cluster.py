"""Joining a Ray cluster, and what is said where there is none. Real clusters: tests/jobs/test_on_cluster.py."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from taskveil.errors import ClusterError, MissingExtraError
from taskveil.jobs import ray_cluster


def why_not(address: str) -> str:
    """The one line that says why a cluster cannot be joined, which must come soon."""
    before = time.monotonic()
    with pytest.raises(ClusterError) as error, ray_cluster.connected(address):
        pass
    assert time.monotonic() - before < 10
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(
        "Start one with `ray start --head`, or leave out the address to work on this machine alone."
    )
    return str(error.value)


def test_nobody_listens(refused: str) -> None:
    assert f"no Ray cluster answers at {refused} (Connection refused)." in why_not(refused)
    assert "no Ray cluster answers at nowhere.invalid:6379 (" in why_not("nowhere.invalid:6379")


def test_an_address_that_nobody_can_reach_costs_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener whose queue is full answers like a machine behind a wall: not at all."""
    monkeypatch.setattr(ray_cluster, "ANSWER_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening, socket.socket() as first:
        first.connect(listening.getsockname())
        address = "{}:{}".format(*listening.getsockname())
        assert f"at {address} (timed out)" in why_not(address)


def test_somebody_else_listens(web_page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "ANSWER_SECONDS", 0.7)
    assert f"at {web_page} (no Ray cluster listens there)" in why_not(web_page)


def test_an_address_that_is_none() -> None:
    assert "at nonsense (Invalid address format: nonsense)" in why_not("nonsense")


def test_a_file_that_lies_about_and_is_called_ray_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ray.py").write_text("open('ran', 'w').close()")
    monkeypatch.chdir(tmp_path)
    why_not("nonsense")
    assert not (tmp_path / "ran").exists()


def test_rays_client_is_not_gone_through() -> None:
    with pytest.raises(ClusterError, match="is for Ray's client"), ray_cluster.connected("ray://127.0.0.1:10001"):
        pass


def test_the_environments_address_counts(refused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", refused)
    with pytest.raises(ClusterError, match=re.escape(refused)), ray_cluster.connected():
        pass


def test_a_cluster_that_asks_for_a_token_says_so() -> None:
    wrote = "W gcs_client.cc:210: Unauthenticated: RPC error: InvalidAuthToken: Authentication token is missing\n" * 3
    assert ray_cluster._said(wrote) == "it asks for a token: RAY_AUTH_MODE=token and its RAY_AUTH_TOKEN"


def test_a_cluster_of_another_ray_is_quoted() -> None:
    wrote = "Traceback\n  File\nRuntimeError: Version mismatch: the cluster was started with Ray 1\nand more\n"
    assert ray_cluster._said(wrote) == "Version mismatch: the cluster was started with Ray 1"


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"taskveil\[ray\]"), ray_cluster.connected():
        pass


def test_a_cluster_of_our_own_from_a_thread_of_a_script() -> None:
    """A script without `if __name__ …`, in a fresh process: nothing on the terminal but what it prints."""
    script = """
        import threading, warnings
        warnings.simplefilter("error")
        from taskveil.jobs.ray_cluster import connected
        from taskveil.jobs.running import in_any_order
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
