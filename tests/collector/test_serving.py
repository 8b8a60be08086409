"""The collector as processes: stops that finish what was begun, workers that are replaced, TLS."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import collectors
from collectors import certificate
from taskveil.client.wire import BINARY, pack_batch
from taskveil.collector.serving import serve
from taskveil.collector.settings import Settings
from taskveil.collector.store import open_store
from taskveil.errors import DataError

SLOW = """
import pathlib, time
from taskveil.collector.store import sqlite
ingest = sqlite.SqliteStore.ingest
def slowly(self, submissions):
    pathlib.Path("{begun}").touch()
    time.sleep({seconds})
    return ingest(self, submissions)
sqlite.SqliteStore.ingest = slowly
"""


def wait_for(begun: Path) -> None:
    """Until a commit is under way."""
    end = time.monotonic() + 20
    while not begun.exists() and time.monotonic() < end:
        time.sleep(0.01)


def known(folder: Path) -> tuple[Path, str]:
    """A database that knows a release."""
    store = open_store(f"sqlite:///{folder / 'c.db'}")
    release = collectors.registered(store, folder)
    store.close()
    return folder / "c.db", release


def sent(url: str, body: bytes, **options: object) -> int:
    request = urllib.request.Request(f"{url}/v1/reports", data=body, headers={"Content-Type": BINARY})
    try:
        with urllib.request.urlopen(request, timeout=20, **options) as answer:  # type: ignore[arg-type]
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def stored(db: Path) -> int:
    with sqlite3.connect(db) as connection:
        (count,) = connection.execute("SELECT count(*) FROM reports").fetchone()
    connection.close()
    return int(count)


def workers_of(pid: int) -> set[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return set(map(int, listed.stdout.split()))


def test_a_stop_finishes_what_was_begun_and_refuses_what_comes(tmp_path: Path) -> None:
    db, release = known(tmp_path)
    statuses: list[int] = []
    body, begun = pack_batch(collectors.reports(release, 10)), tmp_path / "begun"
    with collectors.served(db, start=SLOW.format(seconds=1.0, begun=begun) + collectors.START) as served:
        sending = threading.Thread(target=lambda: statuses.append(sent(served.url, body)))
        sending.start()
        wait_for(begun)
        served.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        with pytest.raises(ConnectionRefusedError):
            served.socket()
        code, _ = served.wait()
        sending.join()
    assert code == 0
    assert statuses == [200]
    assert stored(db) == 10


def test_the_second_signal_ends_at_once(tmp_path: Path) -> None:
    db, release = known(tmp_path)
    body, begun = pack_batch(collectors.reports(release, 3)), tmp_path / "begun"
    with collectors.served(db, start=SLOW.format(seconds=20, begun=begun) + collectors.START) as served:

        def send() -> None:
            with pytest.raises(OSError):  # noqa: PT011 - the connection breaks: nothing was acknowledged
                sent(served.url, body)

        sending = threading.Thread(target=send)
        sending.start()
        wait_for(begun)
        start = time.monotonic()
        served.process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        assert served.process.poll() is None
        code, _ = served.stop(signal.SIGTERM)
        sending.join()
    assert code == 1
    assert time.monotonic() - start < 3
    assert stored(db) == 0


def test_workers_are_replaced_and_end_with_their_supervisor(tmp_path: Path) -> None:
    db, release = known(tmp_path)
    with collectors.served(db, workers=2) as served:
        assert sent(served.url, pack_batch(collectors.reports(release, 5))) == 200
        before = workers_of(served.process.pid)
        assert len(before) == 2
        os.kill(min(before), signal.SIGKILL)
        assert sent(served.url, pack_batch(collectors.reports(release, 5))) == 200
        end = time.monotonic() + 20
        while len(workers := workers_of(served.process.pid) - {min(before)}) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        assert len(workers) == 2
        served.process.kill()
        code, written = served.wait()  # workers write to the same pipe, and it ends when they have: not before
        with pytest.raises(ConnectionRefusedError):
            served.socket()
        assert "another takes its place" in written
        assert "127.0.0.1" not in written
    assert code == -signal.SIGKILL
    assert stored(db) == 10


def test_tls(tmp_path: Path) -> None:
    db, release = known(tmp_path)
    file, key = certificate(tmp_path)
    with collectors.served(db, certificate=file, key=key, request_seconds=0.5) as served:
        context = ssl.create_default_context(cafile=str(file))
        assert served.url.startswith("https://")
        assert sent(served.url, pack_batch(collectors.reports(release, 7)), context=context) == 200
        with served.socket() as odd:
            odd.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert odd.recv(100) == b""
        code, written = served.stop()
    assert code == 0
    assert "127.0.0.1" not in written
    assert stored(db) == 7


def test_what_cannot_be_served_is_said_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, key = certificate(tmp_path)
    with pytest.raises(DataError, match="needs its key"):
        serve(Settings(certificate=file))
    with pytest.raises(DataError, match="PEM"):
        serve(Settings(certificate=file, key=file))
    monkeypatch.setattr("taskveil.collector.serving.BIND_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(DataError, match="cannot listen"):
        serve(Settings(port=taken.getsockname()[1]))
    assert key.exists()
