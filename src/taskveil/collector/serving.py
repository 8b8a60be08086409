"""The collector as processes: one that serves, or several that share a socket and one that watches them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging.config
import math
import os
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from taskveil.collector.api import create_app
from taskveil.collector.connections import CollectorConfig
from taskveil.collector.journal import CONFIGURATION
from taskveil.collector.metrics import prepare
from taskveil.collector.settings import Settings
from taskveil.collector.supervising import PIPE, SOCKET, Supervisor
from taskveil.errors import DataError

if sys.platform != "win32":
    import resource

SETTINGS = "TASKVEIL_COLLECTOR"
"""The environment variable by which workers are told what they are: a command line is for everybody to see."""

MOST_UNREAD = 2**17
"""Bytes of answers that the system keeps for a connection, about: enough for 2 MB a second to somebody 50 ms away."""

BIND_SECONDS = 5.0
"""That a start waits for workers of a collector that was killed to leave the port."""

REQUESTS_SHARE = 0.75
"""Of the time for a stop: for requests under way."""

FAILED = 3
"""What a process that could not start ends with, as uvicorn's do."""


def serve(settings: Settings, *, demo: Path | None = None, bound: Callable[[str], None] | None = None) -> int:
    """Serve until a signal says to stop.

    The first SIGTERM or SIGINT lets requests under way finish, for `stop_seconds` at most; the second ends at once.
    What was acknowledged is in the database in either case.

    Args:
        settings: what the collector is told.
        demo: a folder of pages that are served under /demo/.
        bound: called with the address when connections are accepted.

    Returns:
        What the process should end with: 0 after a stop that was asked for.
    """
    _check_certificate(settings)
    with _listening(settings) as listener, prepare(settings.workers):
        logging.config.dictConfig(CONFIGURATION)
        host, port = listener.getsockname()[:2]
        if bound is not None:
            scheme = "http" if settings.certificate is None else "https"
            bound(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
        if settings.workers == 1:
            return work(settings, demo, listener)
        told = json.dumps({"settings": settings.model_dump(mode="json"), "demo": None if demo is None else str(demo)})
        command = [sys.executable, "-m", "taskveil.collector.serving"]
        supervisor = Supervisor(command, {SETTINGS: told}, listener, stop_seconds=settings.stop_seconds, failed=FAILED)
        return supervisor.run(settings.workers)


def work(settings: Settings, demo: Path | None, listener: socket.socket) -> int:
    """Serve in this process."""
    _allow_files(settings.most_connections)
    # Requests and the thread that commits them share an interpreter. By default either waits 5 ms for the other at each
    # turn, several times a commit.
    sys.setswitchinterval(0.0005)
    config = CollectorConfig(
        partial(create_app, settings, demo=demo),
        settings,
        factory=True,
        lifespan="on",
        ws="none",
        log_config=CONFIGURATION,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
        timeout_keep_alive=settings.idle_seconds,
        timeout_graceful_shutdown=math.ceil(REQUESTS_SHARE * settings.stop_seconds),
    )
    worker = Worker(config)
    with contextlib.suppress(KeyboardInterrupt):
        worker.run(sockets=[listener])
    return 0 if worker.started else FAILED


class Worker(uvicorn.Server):
    """uvicorn's server, which ends with 0 when it was told to stop, at once when it was told twice, and always in
    time."""

    config: CollectorConfig

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a signal handler's arguments
        """Stop; the second time, at once: nobody was told that anything is stored which is not."""
        if self.should_exit:
            os._exit(1)
        self.should_exit = True
        late = threading.Timer(self.config.settings.stop_seconds, os._exit, (1,))  # a database that hangs
        late.daemon = True
        late.start()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, with a deadline for TLS handshakes too: a connection is one only after it."""
        loop: Any = asyncio.get_running_loop()
        if self.config.is_ssl:
            loop.create_server = partial(
                loop.create_server, ssl_handshake_timeout=self.config.settings.request_seconds, ssl_shutdown_timeout=1.0
            )
        await super().startup(sockets=sockets)


def _listening(settings: Settings) -> socket.socket:
    """The socket that all workers accept from."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    last = time.monotonic() + BIND_SECONDS
    while True:
        try:
            listener = socket.create_server((settings.host, settings.port), family=family, backlog=2048)
            # Connections have it from here. By itself the system takes megabytes of answers for whoever does not read:
            # a hundred of them that ask and ask would keep us busy with writing for nobody.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_UNREAD)
            return listener
        except OSError as error:
            if time.monotonic() > last or not settings.port:
                raise DataError(
                    f"the collector cannot listen on {settings.host}, port {settings.port}: {error.strerror}. Is "
                    "another one running? Name another with --port."
                ) from None
            time.sleep(0.1)


def _check_certificate(settings: Settings) -> None:
    if (settings.certificate is None) != (settings.key is None):
        raise DataError("a certificate needs its key, and a key its certificate: name both, or none.")
    if settings.certificate is not None:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(settings.certificate, settings.key)
        except OSError as error:  # ssl.SSLError is one
            raise DataError(
                f"certificate and key cannot be used: {error.strerror or type(error).__name__}. Both are PEM files, "
                "the key without a password."
            ) from None


def _allow_files(connections: int) -> None:
    """As many open files as connections and a database need, as far as the system lets us."""
    if sys.platform != "win32":
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 2 * connections + 256
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted if hard < 0 else min(wanted, hard)), hard))


def _inherited() -> int:
    """A worker of a `Supervisor`: told by its environment, stopped by a signal or when the supervisor is gone."""
    told = json.loads(os.environ.pop(SETTINGS))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all of us; the supervisor says when to stop
    pipe, listener = int(os.environ.pop(PIPE)), socket.socket(fileno=int(os.environ.pop(SOCKET)))

    def watch() -> None:
        os.read(pipe, 1)  # returns when nobody can write to it any more
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
    logging.config.dictConfig(CONFIGURATION)
    demo = None if told["demo"] is None else Path(told["demo"])
    return work(Settings(**told["settings"]), demo, listener)


if __name__ == "__main__":
    sys.exit(_inherited())
