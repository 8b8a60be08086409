"""Slow clients, odd ones and too many of them: every connection ends, every refusal is a problem document."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import collectors
from collectors import CODES
from taskveil.client.wire import BINARY, pack_batch
from taskveil.collector.store import open_store

SECONDS = 0.4
MOST = 400_000


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[collectors.Served]:
    folder = tmp_path_factory.mktemp("slow")
    store = open_store(f"sqlite:///{folder / 'c.db'}")
    release = collectors.registered(store, folder)
    store.close()
    with collectors.served(
        folder / "c.db", request_seconds=SECONDS, idle_seconds=SECONDS, most_connections=30, most_bytes=MOST
    ) as found:
        found.release = release
        yield found
        code, written = found.stop()
        assert code == 0
        assert "127.0.0.1" not in written
        assert str(found.port) not in written
        assert "secret" not in written
        assert "Traceback" not in written


def answered(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """The one answer that a connection gives before it ends or waits."""
    received = b""
    while b"\r\n\r\n" not in received:
        part = connection.recv(65536)
        if not part:
            return 0, {}, b""
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    while len(body) < int(headers["content-length"]):
        body += connection.recv(65536)
    return int(status.split()[1]), headers, body


def send_on(connection: socket.socket, part: bytes, pause: float = 0.0) -> None:
    """Send it again and again, for ever if nobody breaks the connection."""
    for _ in range(2000):
        connection.sendall(part)
        time.sleep(pause)


def test_a_connection_that_says_nothing_is_answered_and_closed(served: collectors.Served) -> None:
    start = time.monotonic()
    with served.socket() as connection:
        status, headers, body = answered(connection)
        assert connection.recv(1) == b""
    assert status == 408
    assert headers["content-type"] == "application/problem+json"
    assert json.loads(body)["type"] == "urn:taskveil:problem:too-slow"
    assert SECONDS - 0.1 < time.monotonic() - start < 3 * SECONDS


@pytest.mark.parametrize(
    "beginning",
    [
        b"GET /healthz HTTP/1.1\r\nX-A: ",
        b"POST /v1/reports HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\nTV",
        b"POST /v1/reports HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\nTV",
    ],
    ids=["head", "body", "chunk"],
)
def test_trickling_does_not_buy_time(served: collectors.Served, beginning: bytes) -> None:
    start = time.monotonic()
    with served.socket() as connection:
        connection.sendall(beginning)

        def trickle() -> None:
            try:
                while time.monotonic() - start < 4 * SECONDS:
                    connection.sendall(b"a")
                    time.sleep(0.05)
            except OSError:
                pass

        thread = threading.Thread(target=trickle)
        thread.start()
        status, _, _ = answered(connection)
        took = time.monotonic() - start
        thread.join()
    assert status == 408
    assert took < 3 * SECONDS


def test_empty_lines_between_requests_do_not_buy_time_either(served: collectors.Served) -> None:
    with served.socket() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert answered(connection)[0] == 200
        connection.sendall(b"\r\n")
        start = time.monotonic()
        status, _, _ = answered(connection)
        assert status in (0, 408)
        assert time.monotonic() - start < 3 * SECONDS


def test_an_idle_connection_is_closed_without_a_word(served: collectors.Served) -> None:
    with served.socket() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert answered(connection)[0] == 200
        assert connection.recv(1) == b""


def test_a_client_that_does_not_read_is_cut_off(served: collectors.Served) -> None:
    """Megabytes of answers (each of a thousand reports is refused) that nobody takes."""
    body = pack_batch([collectors.report(served.release, CODES) for _ in range(5000)])
    with served.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        head = b"POST /v1/reports HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            send_on(connection, head + body, SECONDS / 50)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03secret",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GARBAGE secret\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST /v1/reports HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/reports HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"CONNECT secret:80 HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nX-A: " + b"secret" * 200_000,
    ],
    ids=[
        *("tls", "version", "garbage", "bytes", "both", "negative", "connect"),
        "a header without end",
    ],
)
def test_what_is_no_request_gets_a_problem_document(served: collectors.Served, sent: bytes) -> None:
    with served.socket() as connection:
        try:
            connection.sendall(sent)
            status, headers, _ = answered(connection)
        except ConnectionResetError:  # it sent on after the answer
            return
    assert 400 <= status < 500
    assert headers["content-type"] == "application/problem+json"


def test_large_bodies_are_no_heads(served: collectors.Served) -> None:
    """In whatever parts they arrive; the next request on the connection is one."""
    body = pack_batch(collectors.reports(served.release, 9_000))
    head = b"POST /v1/reports HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
    with served.socket() as connection:
        for cut in (0, 10, len(head), len(head) + 70_000):
            connection.sendall((head + body)[:cut])
            time.sleep(0.02)
            connection.sendall((head + body)[cut:])
            status, _, answer = answered(connection)
            assert status == 200
            assert json.loads(answer)["rejected"] == []


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_that_is_too_large_is_refused_and_the_answer_arrives(served: collectors.Served, declared: bool) -> None:
    head = b"POST /v1/reports HTTP/1.1\r\nHost: a\r\nContent-Type: " + BINARY.encode()
    body = b"TV" + b"a" * MOST
    with served.socket() as connection:
        if declared:
            connection.sendall(head + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        else:
            chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
            connection.sendall(head + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
        status, _, answer = answered(connection)
        assert status == 413
        assert json.loads(answer)["type"] == "urn:taskveil:problem:too-large"


def test_several_requests_at_once_on_one_connection(served: collectors.Served) -> None:
    with served.socket() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
        received = b""
        while received.count(b"alive") < 3:
            received += connection.recv(65536)


def test_more_connections_than_allowed_are_refused(served: collectors.Served) -> None:
    time.sleep(SECONDS)
    body = pack_batch(collectors.reports(served.release, 1))
    database = sqlite3.connect(served.db, isolation_level=None)
    database.execute("BEGIN IMMEDIATE")  # no answer until this ends
    held = [served.socket() for _ in range(30)]
    try:
        for one in held:
            one.sendall(b"POST /v1/reports HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        time.sleep(0.1)
        with served.socket() as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            status, headers, answer = answered(connection)
        assert (status, headers["retry-after"]) == (503, "1")
        assert json.loads(answer)["type"] == "urn:taskveil:problem:busy"
        database.execute("ROLLBACK")
        assert [answered(one)[0] for one in held] == [200] * 30
    finally:
        database.close()
        for one in held:
            one.close()


def test_a_client_that_asks_much_and_reads_nothing_leaves_no_line_in_the_log(tmp_path: Path) -> None:
    """Requests that wait behind one whose answer nobody took are dropped with the connection."""
    with collectors.served(tmp_path / "collector.db", request_seconds=SECONDS) as served:
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            connection.connect(("127.0.0.1", served.port))
            connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n" * 60)
            time.sleep(3 * SECONDS)
        assert served.stop() == (0, "")


def test_a_closing_connection_whose_client_does_not_read_ends(tmp_path: Path) -> None:
    """Its last answer waits in the collector's memory; a stop does not wait for the client."""
    with collectors.served(tmp_path / "collector.db", request_seconds=SECONDS) as served, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.connect(("127.0.0.1", served.port))
        connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        with served.socket() as other:  # the collector has started
            other.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert answered(other)[0] == 200
        start = time.monotonic()
        assert served.stop() == (0, "")
        assert time.monotonic() - start < 8


def memory_peak(pid: int) -> int:
    """Bytes, since the process began."""
    (line,) = (one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_trailers_take_no_memory(tmp_path: Path) -> None:
    """Headers after a body are read by nobody: kept, each of 6 bytes took a hundred."""
    head = b"POST /v1/reports HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nTVTV\r\n0\r\n"
    with collectors.served(tmp_path / "collector.db", request_seconds=60.0) as served:
        for trailers in (3, 600_000):
            with served.socket() as connection:
                before = memory_peak(served.process.pid)
                connection.sendall(head + b"X: y\r\n" * trailers + b"\r\n")
                assert answered(connection)[0] == 400
        assert memory_peak(served.process.pid) - before < 20 * 2**20
