"""docs/operate/nginx.conf, run by a real nginx in front of a collector: what it refuses, and what passes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import collectors
from collectors import certificate
from pages import ROOT
from processes import end_with_us
from taskveil.client.wire import BINARY, pack_batch
from taskveil.collector.store import open_store

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
CONFIGURATION = (ROOT / "docs/operate/nginx.conf").read_text(encoding="utf-8")
SECONDS = 1
"""Instead of the 10 seconds of the configuration."""


class Proxied:
    """A collector behind nginx."""

    def __init__(self, port: int, context: ssl.SSLContext, release: str, log: Path) -> None:
        self.port, self.context, self.release, self.log = port, context, release, log

    def socket(self) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        return self.context.wrap_socket(plain, server_hostname="127.0.0.1")

    def answer(self, sent: bytes) -> tuple[int, bytes]:
        """Status and everything else that comes back for these bytes."""
        with self.socket() as connection:
            with contextlib.suppress(OSError):  # it may be refused before its end
                connection.sendall(sent)
            return received(connection)


def received(connection: ssl.SSLSocket) -> tuple[int, bytes]:
    """What comes until the connection is closed; status 0 if nothing came."""
    content = b""
    with contextlib.suppress(ConnectionResetError, ssl.SSLEOFError):  # it was cut off
        while part := connection.recv(65536):
            content += part
    return (int(content.split()[1]) if content else 0), content


def send_on(connection: ssl.SSLSocket, part: bytes, pause: float = 0.0) -> None:
    """Send it again and again, until the connection is closed."""
    for _ in range(2000):
        connection.sendall(part)
        time.sleep(pause)


def post(body: bytes, *headers: bytes) -> bytes:
    first = (b"POST /v1/reports HTTP/1.1", b"Host: 127.0.0.1", b"Connection: close", b"Content-Length: %d" % len(body))
    return b"\r\n".join([*first, b"Content-Type: " + BINARY.encode(), *headers]) + b"\r\n\r\n" + body


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    if NGINX is None and os.environ.get("CI") != "true":
        pytest.skip("needs nginx")
    assert NGINX is not None, "CI runs this test: install nginx-light"
    folder = tmp_path_factory.mktemp("nginx")
    store = open_store(f"sqlite:///{folder / 'c.db'}")
    release = collectors.registered(store, folder)
    store.close()
    file, key = certificate(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with collectors.served(folder / "c.db", request_seconds=30) as served:
        site = CONFIGURATION
        for shipped, here in (
            ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
            ("/etc/ssl/collector.pem", str(file)),
            ("/etc/ssl/collector.key", str(key)),
            ("/var/log/nginx/collector.log", str(folder / "error.log")),
            ("127.0.0.1:8000", f"127.0.0.1:{served.port}"),
            (" 10s;", f" {SECONDS}s;"),
        ):
            assert shipped in site
            site = site.replace(shipped, here)
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        folders = "\n".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
        (folder / "nginx.conf").write_text(
            f"pid {folder}/pid; error_log {folder}/error.log crit; daemon off; master_process off;\n"
            f"events {{}}\nhttp {{ {folders}\n{site} }}\n"
        )
        process = subprocess.Popen([NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf")])
        end_with_us(process, signal.SIGTERM)
        try:
            until = time.monotonic() + 10
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except ConnectionRefusedError:
                    assert time.monotonic() < until
                    time.sleep(0.02)
            yield Proxied(port, ssl.create_default_context(cafile=str(file)), release, folder / "error.log")
        finally:
            process.terminate()
            process.wait(timeout=10)


def test_an_upload_passes(proxied: Proxied) -> None:
    status, content = proxied.answer(post(pack_batch(collectors.reports(proxied.release, 9_000))))
    assert status == 200
    assert json.loads(content.partition(b"\r\n\r\n")[2])["accepted"] == 9_000


@pytest.mark.parametrize("beginning", [b"", b"GET /healthz HTTP/1.1\r\nX-A: "], ids=["nothing", "head"])
def test_slow_headers_are_cut_off_however_they_trickle(proxied: Proxied, beginning: bytes) -> None:
    start = time.monotonic()
    with proxied.socket() as connection:
        connection.sendall(beginning)
        with pytest.raises(OSError, match=r".*"):
            send_on(connection, b"a" if beginning else b"\r\n", pause=0.1)
    assert time.monotonic() - start < 5 * SECONDS


def test_slow_bodies_are_cut_off_and_never_reach_the_collector(proxied: Proxied) -> None:
    body = post(pack_batch(collectors.reports(proxied.release, 10)))
    start = time.monotonic()
    status, _ = proxied.answer(body[:-5])
    assert status in (0, 408)
    assert time.monotonic() - start < 5 * SECONDS


def test_a_body_over_the_limit_is_refused(proxied: Proxied) -> None:
    with proxied.socket() as connection:
        connection.sendall(post(b"").replace(b"Length: 0", b"Length: 8388609"))
        assert received(connection)[0] == 413
    head = b"POST /v1/reports HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    status, content = proxied.answer(head + (b"2710\r\n" + b"a" * 10_000 + b"\r\n") * 900)
    assert (status, b"nginx" in content) == (413, True)


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + b"X-A: b\r\n" * 5_100 + b"\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-A: " + b"b" * 40_000 + b"\r\n\r\n",
        b"GET /healthz?" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GARBAGE\r\n\r\n",
    ],
    ids=["many headers", "a long header", "a long line", "no HTTP"],
)
def test_odd_heads_are_refused(proxied: Proxied, sent: bytes) -> None:
    assert proxied.answer(sent)[0] in (400, 414)


@pytest.mark.parametrize(
    "headers", [(b"Upgrade: h2c", b"Connection: upgrade"), (b"Trailer: Content-Type",)], ids=["upgrade", "trailer"]
)
def test_upgrades_and_trailers_do_not_reach_the_collector(proxied: Proxied, headers: tuple[bytes, ...]) -> None:
    body = pack_batch(collectors.reports(proxied.release, 1))
    head = [b"POST /v1/reports HTTP/1.1", b"Host: a", b"Transfer-Encoding: chunked", *headers, b"Connection: close"]
    chunks = b"%x\r\n%b\r\n0\r\nContent-Type: text/plain\r\n\r\n" % (len(body), body)
    status, content = proxied.answer(b"\r\n".join(head) + b"\r\n\r\n" + chunks)
    assert (status, content.count(b"HTTP/1.1 ")) == (200, 1)


def test_metrics_are_closed_and_nothing_is_logged(proxied: Proxied) -> None:
    assert proxied.answer(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")[0] == 403
    assert "127.0.0.1" not in proxied.log.read_text()
