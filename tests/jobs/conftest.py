"""Addresses at which something else listens than a cluster, or nobody."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator

import pytest


@pytest.fixture
def web_page() -> Iterator[str]:
    """The address of something that listens, and is no cluster."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def refused() -> str:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"127.0.0.1:{listening.getsockname()[1]}"
